//! Damaged files: pages with any bytes and a right checksum, log and control files with any bytes.
//!
//! The small database is opened, read, written, vacuumed and checked. Every outcome but a panic is
//! right: a page with a right checksum may even be a wrong page that nobody can tell.

use std::sync::OnceLock;

use rightlink::PAGE_SIZE;
use rightlink::internal::ids::{FileId, PageId};
use rightlink::internal::page::{checksum, header};
use rightlink::{
    Condition, Database, IndexMethod, IndexSchema, Method, Result, ScanOptions, TableSchema,
    Transaction, Type, Value,
};
use rightlink_aio::sim::CrashChoice;
use rightlink_aio::{Io, IoOptions, OpenMode, SimDisk};
use rightlink_env::Env;

use crate::input::Input;

/// Most changes of one input.
const MOST_EDITS: usize = 12;
/// Rows of the small database.
const ROWS: i64 = 300;

/// Changes pages and makes their checksums right.
pub fn pages(data: &[u8]) {
    static BASE: OnceLock<SimDisk> = OnceLock::new();
    let disk = BASE.get_or_init(|| build(true)).snapshot();
    let io = files_of(&disk);
    let names: Vec<_> = disk.files().into_iter().filter(|(_, len)| *len > 0).collect();
    let names: Vec<_> = names.into_iter().filter(|(name, _)| name.contains("data/")).collect();
    assert!(names.len() >= 5, "heap, maps and indexes have files: {names:?}");
    let mut input = Input(data);
    for _ in 0..MOST_EDITS {
        if input.is_empty() {
            break;
        }
        edit_page(&disk, &io, &names, &mut input);
    }
    drop(io);
    use_everything(&disk);
}

/// Changes bytes of the log and of the control file.
pub fn logs(data: &[u8]) {
    static BASE: OnceLock<SimDisk> = OnceLock::new();
    let disk = BASE.get_or_init(|| build(false)).snapshot();
    let io = files_of(&disk);
    let names: Vec<_> = disk.files().into_iter().filter(|(_, len)| *len > 0).collect();
    let names: Vec<_> = names.into_iter().filter(|(name, _)| !name.contains("data/")).collect();
    let mut input = Input(data);
    for _ in 0..MOST_EDITS {
        if input.is_empty() {
            break;
        }
        let (name, len) = &names[input.below(names.len())];
        // Most of a segment is not written yet: aim at its beginning.
        let block = u64::from(input.byte() % 32) * 4096;
        let at = (block + input.below(4096) as u64) % len;
        let bytes = match input.byte() {
            0 => vec![0; (*len - at).min(8192) as usize],
            count => input.bytes(usize::from(count)).to_vec(),
        };
        write(&io, name, at, &bytes[..bytes.len().min((len - at) as usize)]);
    }
    drop(io);
    use_everything(&disk);
}

fn edit_page(disk: &SimDisk, io: &Io, names: &[(String, u64)], input: &mut Input<'_>) {
    let (name, len) = &names[input.below(names.len())];
    let block = input.below((len / PAGE_SIZE as u64).clamp(1, 256) as usize) as u64;
    let offset = block * PAGE_SIZE as u64;
    let bytes = disk.peek(name, offset, PAGE_SIZE);
    let mut page: [u8; PAGE_SIZE] = bytes.try_into().expect("a page");
    let place = input.byte() % 5;
    let at = usize::from(input.u16());
    let at = match place {
        0 => 4 + at % 36,
        1 => header::HEADER_SIZE + at % 300,
        2 => PAGE_SIZE - 1 - at % 64,
        _ => 4 + at % (PAGE_SIZE - 4),
    };
    if place == 4 {
        let (other, len) = &names[input.below(names.len())];
        let from = input.below((len / PAGE_SIZE as u64).clamp(1, 256) as usize);
        page.copy_from_slice(&disk.peek(other, (from * PAGE_SIZE) as u64, PAGE_SIZE));
    } else {
        let count = 1 + input.below(16);
        let new = input.bytes(count.min(PAGE_SIZE - at));
        page[at..at + new.len()].copy_from_slice(new);
    }
    let digits = name.rsplit('/').next().expect("a name has a last part");
    let file = FileId(u32::from_str_radix(digits, 16).expect("data files have numbers"));
    checksum::stamp(PageId::new(file, block as u32), &mut page);
    write(io, name, offset, &page);
}

fn files_of(disk: &SimDisk) -> Io {
    let options = IoOptions::with_method(Method::Sim);
    Io::simulated(&Env::simulated(1), disk.clone(), options).expect("a simulated disk")
}

fn write(io: &Io, name: &str, at: u64, bytes: &[u8]) {
    let file = io.open_buffered(name, OpenMode::Existing).expect("the file is there");
    file.write_all_at(bytes, at).and_then(|()| file.sync_all()).expect("the disk is sound");
}

fn open(disk: &SimDisk) -> Result<Database> {
    let options = Database::options().log_segment_bytes(1 << 20).pool_pages(256);
    options.simulation(Env::simulated(1), disk.clone()).open("db")
}

/// The small database: closed cleanly, or after a power cut with a log to replay.
fn build(clean: bool) -> SimDisk {
    let disk = SimDisk::new(1);
    let db = open(&disk).expect("an empty disk");
    fill(&db).expect("a sound disk");
    if clean {
        db.close().expect("a sound disk");
        disk.snapshot()
    } else {
        disk.crash_image(&CrashChoice::AllLost)
    }
}

fn fill(db: &Database) -> Result<()> {
    let mut txn = db.begin();
    let schema = TableSchema::new("t").column("k", Type::Int8).nullable("v", Type::Text);
    let by_v = IndexSchema::new("t_v").on_desc("v");
    txn.create_table(&schema.primary_key(["k"]))?;
    // Several rows to a text: an index built over them has posting lists.
    let text = |k: i64| Value::Text(format!("{:0>60}", k * 7919 % 1000 / 20));
    let rows: Vec<_> = (0..ROWS).map(|k| vec![Value::Int8(k), text(k)]).collect();
    txn.insert_many("t", &rows)?;
    txn.commit()?;
    let mut txn = db.begin();
    txn.create_index("t", &by_v)?;
    txn.create_index("t", &IndexSchema::new("t_hash").on("v").method(IndexMethod::Hash))?;
    txn.create_index("t", &IndexSchema::new("t_one").on("k").method(IndexMethod::Hash).unique())?;
    // Few values in front, many behind: conditions on the second column skip.
    txn.create_index("t", &IndexSchema::new("t_vk").on("v").on("k"))?;
    txn.commit()?;
    db.checkpoint()?;
    let mut txn = db.begin();
    let rows = txn.scan("t", &ScanOptions::all())?.collect::<Result<Vec<_>>>()?;
    for row in rows.iter().step_by(7) {
        txn.update("t", row.id, &[("v", Value::Null)])?;
    }
    for row in rows.iter().skip(3).step_by(11) {
        txn.delete("t", row.id)?;
    }
    txn.commit()
}

/// Uses every part of a database; errors are fine.
fn use_everything(disk: &SimDisk) {
    let Ok(db) = open(disk) else { return };
    let mut txn = db.begin();
    let _ = read(&mut txn);
    let _ = change(&mut txn);
    let _ = txn.commit();
    let _ = db.inspect("t", Some(1));
    let _ = db.inspect("t_v", None);
    let _ = db.inspect("t_pkey", Some(1));
    let _ = db.inspect("t_hash", None);
    let _ = db.inspect("t_one", Some(1));
    let _ = db.inspect("t_vk", None);
    let _ = db.verify();
    let _ = db.vacuum(None);
    let mut txn = db.begin();
    let _ = read(&mut txn);
    let _ = txn.create_index("t", &IndexSchema::new("t_kv").on("v").on("k"));
    drop(txn);
    let _ = db.step();
    let _ = db.close();
}

fn read(txn: &mut Transaction) -> Result<usize> {
    // Damaged links may form a ring, which the caller sees as rows without end.
    const MOST: usize = 4 * ROWS as usize;
    let count = |txn: &mut Transaction, options: &ScanOptions| -> Result<usize> {
        let rows = txn.scan("t", options)?.take(MOST);
        Ok(rows.take_while(|row| row.is_ok()).count())
    };
    let mut seen = count(txn, &ScanOptions::all()).unwrap_or(0);
    for index in ["t_pkey", "t_v"] {
        seen += count(txn, &ScanOptions::index(index)).unwrap_or(0);
        seen += count(txn, &ScanOptions::index(index).backward()).unwrap_or(0);
    }
    for k in 0..20 {
        let text = Value::Text(format!("{:0>60}", k * 3));
        seen += count(txn, &ScanOptions::index("t_hash").equal(vec![text])).unwrap_or(0);
        let one = ScanOptions::index("t_one").equal(vec![Value::Int8(k * 13)]);
        seen += count(txn, &one).unwrap_or(0);
    }
    for options in some_keys() {
        seen += count(txn, &options).unwrap_or(0);
        seen += count(txn, &options.backward()).unwrap_or(0);
    }
    let _ = txn.get("t", &[Value::Int8(5)]);
    Ok(seen)
}

/// Lists of keys, and conditions: on the first column, and on the second one alone.
fn some_keys() -> [ScanOptions; 4] {
    let any_of = (0..40).map(|k| vec![Value::Int8(k * 7)]).collect();
    let some = (0..20).map(|k| Value::Text(format!("{:0>60}", k * 3))).collect();
    let behind = (0..20).map(|k| Value::Int8(k * 13)).collect();
    let starts = Condition::StartsWith(b"000".to_vec());
    [
        ScanOptions { any_of, ..ScanOptions::index("t_pkey") },
        ScanOptions::index("t_v").matching("v", Condition::AnyOf(some)),
        ScanOptions::index("t_v").matching("v", starts),
        ScanOptions::index("t_vk").matching("k", Condition::AnyOf(behind)),
    ]
}

fn change(txn: &mut Transaction) -> Result<()> {
    for k in [-1, ROWS / 2, ROWS + 1] {
        let _ = txn.insert("t", &[Value::Int8(k), Value::Text("new".into())]);
        if let Ok(Some(row)) = txn.get("t", &[Value::Int8(k)]) {
            let _ = txn.update("t", row.id, &[("v", Value::Text("newer".into()))]);
        }
        if let Ok(Some(row)) = txn.get("t", &[Value::Int8(k / 3)]) {
            let _ = txn.delete("t", row.id);
        }
    }
    let rows: Vec<_> = (1000..1040).map(|k| vec![Value::Int8(k), Value::Null]).collect();
    txn.insert_many("t", &rows).map(drop)
}

/// Headers, line pointers, trailers and anything else of the first blocks of every file.
pub fn page_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new()];
    for file in 0..16 {
        for place in 0..5 {
            seeds.push(vec![file, 1, place, 12, 0, 3, 0x20, 0, 7]);
            seeds.push(vec![file, 0, place, 30, 0, 1, 0xff, 0xff]);
        }
    }
    seeds
}

/// Single bytes, zeroed blocks, both control copies.
pub fn log_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new()];
    for file in 0..4 {
        for block in [0, 1, 2, 5, 9] {
            seeds.push(vec![file, block, 44, 0, 2, 0xff, 0x01]);
            seeds.push(vec![file, block, 0, 0, 0]);
        }
    }
    seeds
}

#[cfg(test)]
mod tests {
    /// A descent came to a leaf whose damaged fences did not hold the key, and the insert into a
    /// unique index panicked where it should have named the page.
    #[test]
    fn a_leaf_that_does_not_hold_its_key_is_damage() {
        super::pages(&[7, 1, 2, 12, 0, 3, 0x20, 0, 7]);
    }

    /// An insert of many met the damage behind entries that it had stored already, gave the
    /// mini-transaction up and panicked, where those belong into a record of their own.
    #[test]
    fn damage_behind_a_stored_entry_leaves_the_entry() {
        super::pages(&[8, 1, 1, 1, 0, 0x0c, 0, 3, 0x20, 7]);
    }

    /// A leaf's damaged header left no room for a single entry, and the split that should have made
    /// some found nothing to split.
    #[test]
    fn an_empty_page_without_room_is_damage() {
        super::pages(&[2, 1, 3, 0x0c, 0, 3, 0x20, 0, 0x20, 0, 7]);
    }

    /// A page whose LSN lay beyond the end of the log was taken, and the next change of it found
    /// that its LSN would go back.
    #[test]
    fn a_page_from_beyond_the_log_is_refused() {
        super::pages(&[2, 1, 0, 10, 0, 0, 1]);
    }
}
