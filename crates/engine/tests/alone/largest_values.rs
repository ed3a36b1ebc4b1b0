//! Values at the limit of 1 GiB: one byte less, as many, one byte more; as streams and as a whole.
//!
//! Takes minutes and 4 GiB of disk, so it is ignored unless asked for, as `.ci/run --long` does:
//! `cargo test --release -p rightlink --test alone -- --ignored --nocapture`. The only ignored test
//! of its program, so that the peak of resident memory is that of streams.
//!
//! Does not do: shorter values (`long_values.rs`), a lowered limit (`heap/overflow/tests/mod.rs`).

use rightlink::{Database, Error, Options, RowId, ScanOptions, TableSchema, Type, Value};
use rightlink::{MAX_VALUE_BYTES, PAGE_SIZE};
use rightlink_env::Clock;

const LIMIT: u64 = MAX_VALUE_BYTES as u64;
/// No multiple of a page.
const PIECE: usize = 1_000_003;
const STREAM_BUDGET: usize = 32 << 20;
/// Beside the budget: the process, its threads and the test's pieces.
const BESIDE: u64 = 64 << 20;
/// A sixteenth of what the pool leaves of it is more than the limit.
const WHOLE_BUDGET: usize = 17 << 30;

/// The byte of value `seed` at a place.
fn byte(seed: u64, at: u64) -> u8 {
    ((at / PIECE as u64) * 31 + at + seed) as u8
}

fn piece(seed: u64, at: u64, len: usize) -> Vec<u8> {
    (at..at + len as u64).map(|at| byte(seed, at)).collect()
}

fn open(dir: &std::path::Path, options: Options) -> Database {
    // A short log: the disk holds two values beside it.
    options.max_log_bytes(256 << 20).open(dir).unwrap()
}

/// Appends `len` bytes to the value of the row at `id`; what the first refused piece was told.
fn stream(db: &Database, id: RowId, len: u64, seed: u64) -> Result<bool, Error> {
    let mut txn = db.begin();
    let mut writer = txn.write_value("t", id, "data")?;
    let mut at = 0;
    while at < len {
        let part = PIECE.min((len - at) as usize);
        writer.push(&piece(seed, at, part))?;
        at += part as u64;
    }
    let done = writer.finish()?;
    txn.commit()?;
    Ok(done)
}

/// The value of the row at `id` is `len` bytes of `seed`.
fn check_stream(db: &Database, id: RowId, len: u64, seed: u64) {
    let mut txn = db.begin();
    let mut reader = txn.read_value("t", id, "data").unwrap().unwrap();
    assert_eq!(reader.len(), len);
    let (mut at, mut found) = (0, vec![0; PIECE]);
    loop {
        let read = reader.read_some(&mut found).unwrap();
        if read == 0 {
            break;
        }
        let wanted = (at..at + read as u64).map(|at| byte(seed, at));
        assert!(wanted.eq(found[..read].iter().copied()), "from byte {at} on");
        at += read as u64;
    }
    assert_eq!(at, len);
}

fn row(db: &Database) -> RowId {
    let narrow = ScanOptions::index("t_pkey").columns(["id"]);
    db.begin().scan("t", &narrow).unwrap().next().unwrap().unwrap().id
}

/// The most memory that this process had resident, where the system tells.
fn peak_resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// All pages of values that no row has any more are given back.
fn sweep(db: &Database, at_least: u64) {
    let freed = db.vacuum(Some("t")).unwrap().overflow_pages_freed;
    assert!(freed >= at_least / PAGE_SIZE as u64, "{freed} pages");
    assert_eq!(db.vacuum(Some("t")).unwrap().overflow_pages_freed, 0);
}

fn streams(dir: &std::path::Path) {
    let db = open(dir, Database::options().memory(STREAM_BUDGET));
    let id = row(&db);
    assert!(stream(&db, id, LIMIT - 1, 1).unwrap());
    check_stream(&db, id, LIMIT - 1, 1);
    let refused = stream(&db, id, LIMIT + 1, 2).unwrap_err();
    let told = format!("at most {LIMIT}");
    assert!(matches!(&refused, Error::Limit(what) if what.contains(&told)), "{refused}");
    check_stream(&db, id, LIMIT - 1, 1);
    sweep(&db, LIMIT - 2 * PIECE as u64);
    let blocks = db.describe("t").unwrap().overflow_blocks;
    assert!(stream(&db, id, LIMIT, 3).unwrap());
    // What was refused is used again; files grow by a sixteenth at most.
    assert!(db.describe("t").unwrap().overflow_blocks <= blocks + blocks / 8);
    check_stream(&db, id, LIMIT, 3);
    sweep(&db, LIMIT - 1);
    assert!(db.verify().unwrap().is_clean());
    db.close().unwrap();
    let db = open(dir, Database::options().memory(STREAM_BUDGET));
    check_stream(&db, row(&db), LIMIT, 3);
    db.close().unwrap();
    if let Some(peak) = peak_resident() {
        println!("resident at most {} MiB", peak >> 20);
        assert!(peak < STREAM_BUDGET as u64 + BESIDE, "{peak} bytes");
    }
}

fn wholes(dir: &std::path::Path) {
    let db = open(dir, Database::options().memory(WHOLE_BUDGET).pool_pages(2048));
    let key = [Value::Int8(2)];
    for len in [LIMIT - 1, LIMIT, LIMIT + 1] {
        let mut txn = db.begin();
        let value = Value::Bytes(piece(len, 0, len as usize));
        let inserted = txn.insert("t", &[Value::Int8(2), value]);
        if len > LIMIT {
            let refused = inserted.unwrap_err();
            let told = format!("at most {LIMIT}");
            assert!(matches!(&refused, Error::Limit(what) if what.contains(&told)), "{refused}");
            txn.commit().unwrap();
            assert!(db.begin().get("t", &key).unwrap().is_none());
            assert_eq!(db.vacuum(Some("t")).unwrap().overflow_pages_freed, 0, "nothing is left");
            continue;
        }
        let id = inserted.unwrap();
        txn.commit().unwrap();
        let mut txn = db.begin();
        let found = txn.get("t", &key).unwrap().unwrap();
        let Value::Bytes(bytes) = &found.values[1] else { panic!("bytes") };
        assert_eq!(bytes.len() as u64, len);
        assert!((0..).zip(bytes).all(|(at, found)| byte(len, at) == *found));
        drop(found);
        assert!(txn.delete("t", id).unwrap());
        txn.commit().unwrap();
        sweep(&db, len);
    }
    assert!(db.verify().unwrap().is_clean());
}

#[test]
#[ignore = "minutes, and 4 GiB of disk"]
fn values_go_up_to_a_gibibyte_and_no_further() {
    let _alone = crate::alone();
    let dir = tempfile::tempdir().unwrap();
    let schema = TableSchema::new("t").column("id", Type::Int8).nullable("data", Type::Bytes);
    let db = open(dir.path(), Database::options().memory(STREAM_BUDGET));
    let mut txn = db.begin();
    txn.create_table(&schema.primary_key(["id"])).unwrap();
    txn.insert("t", &[Value::Int8(1), Value::Null]).unwrap();
    txn.commit().unwrap();
    db.close().unwrap();
    let clock = Clock::system();
    let start = clock.now();
    streams(dir.path());
    let between = clock.now();
    println!("streams: {:.0} s", (between - start).as_secs_f64());
    wholes(dir.path());
    println!("whole values: {:.0} s", (clock.now() - between).as_secs_f64());
}
