//! A sound database on a simulated disk, and ways to damage it: pages are changed on the medium
//! and their checksums made right again.

use rightlink::internal::page::checksum;
use rightlink::{
    Database, IndexMethod, IndexSchema, Options, Predicate, ScanOptions, SequenceSchema,
    TableSchema, Type, Value, VerifyReport,
};
use rightlink_aio::{Io, IoOptions, Method, OpenMode, SimDisk};
use rightlink_env::Env;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a page.
pub(crate) const PAGE: usize = 8192;
const SEGMENT: u64 = 64 << 10;
const COPY: usize = 4096;
/// The file of the first segment of outcomes.
pub(crate) const OUTCOMES: u32 = 1 << 31;

pub(crate) type Page = [u8; PAGE];

/// Page kinds, as docs/format.md numbers them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    HeapMeta = 1,
    FreeSpace = 3,
    TreeMeta = 6,
    Leaf = 7,
    Inner = 8,
    Free = 9,
    HashMeta = 11,
    Bucket = 12,
    Directory = 13,
    Sequence = 15,
    OverflowMap = 16,
}

/// Says which seed a panic came from.
pub(crate) struct TellSeed(pub(crate) u64);

impl Drop for TellSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

/// A simulated disk with a closed database.
pub(crate) struct Disk(pub(crate) SimDisk, RefCell<Vec<(u32, u32)>>);

fn options(disk: &SimDisk) -> Options {
    let options = Database::options().memory(16 << 20).pool_pages(256).log_segment_bytes(SEGMENT);
    options.simulation(Env::simulated(7), disk.clone())
}

fn row(id: i64, name: String) -> Vec<Value> {
    vec![Value::Int8(id), Value::Text(name), Value::Int4(id as i32 % 10)]
}

fn build(disk: &SimDisk) -> Database {
    let db = options(disk).open("db").unwrap();
    let table = |name: &str| {
        let by_name = IndexSchema::new(format!("{name}_by_name")).on("name").on_desc("id");
        TableSchema::new(name)
            .column("id", Type::Int8)
            .column("name", Type::Text)
            .column("n", Type::Int4)
            .primary_key(["id"])
            .index(by_name)
    };
    let mut txn = db.begin();
    let hashed = IndexSchema::new("people_hash").on("name").method(IndexMethod::Hash);
    let some = Predicate::new().at_least("n", Value::Int4(5));
    let few = IndexSchema::new("people_few").on("id").include(["n"]).only(some);
    txn.create_table(&table("people").index(hashed).index(few)).unwrap();
    txn.create_table(&table("others").unlogged()).unwrap();
    let letters = TableSchema::new("letters").column("n", Type::Int4).nullable("body", Type::Bytes);
    txn.create_table(&letters).unwrap();
    txn.create_sequence(&SequenceSchema::new("people_numbers")).unwrap();
    txn.next_value("people_numbers").unwrap();
    txn.commit().unwrap();
    let mut txn = db.begin();
    let rows: Vec<_> = (0..2500).map(|id| row(id, format!("name {id};"))).collect();
    txn.insert_many("people", &rows).unwrap();
    txn.insert_many("others", &rows[..200]).unwrap();
    for n in 0..3 {
        let body = Value::Bytes(vec![n as u8; 20_000]);
        txn.insert("letters", &[Value::Int4(n), body]).unwrap();
    }
    txn.commit().unwrap();
    let mut txn = db.begin();
    let hot = txn.insert("people", &row(9000, "hot 0;".into())).unwrap();
    let gone = txn.insert("people", &row(9001, "deleted;".into())).unwrap();
    txn.commit().unwrap();
    let mut txn = db.begin();
    assert!(txn.update("people", hot, &[("n", Value::Int4(3))]).unwrap());
    assert!(txn.delete("people", gone).unwrap());
    txn.commit().unwrap();
    let mut txn = db.begin();
    txn.insert("people", &row(9002, "aborted;".into())).unwrap();
    txn.rollback();
    db
}

/// A database after a clean close.
pub(crate) fn sound() -> Disk {
    static DISK: OnceLock<SimDisk> = OnceLock::new();
    let disk = DISK.get_or_init(|| {
        let disk = SimDisk::new(3);
        build(&disk).close().unwrap();
        disk.snapshot()
    });
    Disk::new(disk.snapshot())
}

/// A database that was killed with log behind its last checkpoint.
pub(crate) fn crashed() -> Disk {
    let disk = SimDisk::new(3);
    let db = build(&disk);
    db.checkpoint().unwrap();
    for id in 0..20 {
        let mut txn = db.begin();
        txn.insert("people", &row(10_000 + id, format!("late {id};"))).unwrap();
        txn.commit().unwrap();
    }
    Disk::new(disk.snapshot())
}

/// Path of a data file.
pub(crate) fn data(file: u32) -> String {
    format!("data/{file:08x}")
}

pub(crate) fn u16_at(page: &Page, at: usize) -> usize {
    usize::from(u16::from_le_bytes([page[at], page[at + 1]]))
}

pub(crate) fn u32_at(page: &Page, at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().unwrap())
}

impl Disk {
    fn new(disk: SimDisk) -> Disk {
        Disk(disk, RefCell::default())
    }

    pub(crate) fn copy(&self) -> Disk {
        Disk::new(self.0.snapshot())
    }

    /// File and block of the pages that were changed last.
    pub(crate) fn touched(&self) -> Option<(u32, u32)> {
        self.1.borrow().last().copied()
    }

    /// Whose files they are. To be asked while the disk is sound.
    pub(crate) fn owners(&self) -> BTreeMap<u32, &'static str> {
        let (trees, heap) = (self.files_of(Kind::TreeMeta), self.heap());
        let mut owners = BTreeMap::from([(1, "status"), (OUTCOMES, "status"), (2, "catalog")]);
        owners.extend([(heap, "people"), (heap + 1, "people"), (heap + 2, "people")]);
        // An unlogged table has no pages on the disk before a checkpoint.
        let names = ["people_pkey", "people_by_name", "people_few", "others_pkey"];
        owners.extend(trees.into_iter().zip(names));
        owners.insert(self.hash_index(), "people_hash");
        owners.insert(self.sequence(), "people_numbers");
        owners.insert(self.overflow(), "letters");
        owners
    }

    pub(crate) fn cut(&self, name: &str, len: u64) {
        self.io().open_file(name, OpenMode::Existing).unwrap().set_len(len).unwrap();
    }

    pub(crate) fn hash(&self) -> u64 {
        self.0.live_hash()
    }

    pub(crate) fn verify(&self) -> VerifyReport {
        self.try_verify().unwrap()
    }

    pub(crate) fn try_verify(&self) -> rightlink::Result<VerifyReport> {
        options(&self.0).verify_offline("db")
    }

    fn io(&self) -> Io {
        let options = IoOptions::with_method(Method::Sync);
        Io::simulated(&Env::simulated(1), self.0.clone(), options).unwrap()
    }

    pub(crate) fn len(&self, name: &str) -> u64 {
        self.0.files().into_iter().find(|(found, _)| found == name).expect("the file exists").1
    }

    fn write(&self, name: &str, at: u64, bytes: &[u8]) {
        let file = self.io().open_file(name, OpenMode::Existing).unwrap();
        file.write_all_at(bytes, at).unwrap();
    }

    /// Makes a data file `blocks` long.
    pub(crate) fn extend(&self, file: u32, blocks: u64) {
        self.cut(&data(file), blocks * PAGE as u64);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.io().remove(name).unwrap();
    }

    pub(crate) fn create(&self, name: &str) {
        drop(self.io().open_file(name, OpenMode::CreateNew).unwrap());
    }

    pub(crate) fn flip(&self, name: &str, at: u64) {
        self.0.flip_bit(name, at, 3);
    }

    pub(crate) fn page(&self, file: u32, block: u32) -> Page {
        let at = u64::from(block) * PAGE as u64;
        self.0.peek(&data(file), at, PAGE).try_into().unwrap()
    }

    /// Changes a page and leaves its checksum as it is. The double-write area, which could heal
    /// it, goes.
    pub(crate) fn edit_raw(&self, file: u32, block: u32, change: impl FnOnce(&mut Page)) {
        if self.0.files().iter().any(|(name, _)| name == "doublewrite") {
            self.remove("doublewrite");
        }
        self.1.borrow_mut().push((file, block));
        let mut page = self.page(file, block);
        change(&mut page);
        self.write(&data(file), u64::from(block) * PAGE as u64, &page);
    }

    /// Changes a page, checksum included.
    pub(crate) fn edit(&self, file: u32, block: u32, change: impl FnOnce(&mut Page)) {
        self.edit_raw(file, block, |page| {
            change(page);
            let id = rightlink::internal::ids::PageId::new(
                rightlink::internal::ids::FileId(file),
                block,
            );
            checksum::stamp(id, page);
        });
    }

    /// Copies a page over another one, as it is.
    pub(crate) fn misdirect(&self, from: (u32, u32), to: (u32, u32)) {
        let at = |(file, block): (u32, u32)| (data(file), u64::from(block) * PAGE as u64);
        let ((from, from_at), (to, to_at)) = (at(from), at(to));
        self.0.misdirect(&from, from_at, &to, to_at, PAGE);
    }

    /// Puts back what a page was on `old`.
    pub(crate) fn make_stale(&self, (file, block): (u32, u32), old: &Disk) {
        self.0.make_stale(&data(file), u64::from(block) * PAGE as u64, PAGE, &old.0);
    }

    /// Inserts, deletes and changes rows all over `people`, and closes the database.
    pub(crate) fn use_it(&self) {
        let db = options(&self.0).open("db").unwrap();
        let mut txn = db.begin();
        let rows: Vec<_> = (3000..3300).map(|id| row(id, format!("new {id};"))).collect();
        txn.insert_many("people", &rows).unwrap();
        for id in (0..2500).step_by(20) {
            let row = txn.get("people", &[Value::Int8(id)]).unwrap().unwrap();
            match id % 40 {
                0 => assert!(txn.delete("people", row.id).unwrap()),
                _ => {
                    let name = Value::Text(format!("changed {id};"));
                    assert!(txn.update("people", row.id, &[("name", name)]).unwrap());
                }
            }
        }
        txn.commit().unwrap();
        db.close().unwrap();
    }

    /// All rows of `people`, ascending; `None` if they cannot be read.
    pub(crate) fn rows(&self) -> Option<Vec<Vec<String>>> {
        let db = options(&self.0).open("db").ok()?;
        let mut txn = db.begin();
        let scan = txn.scan("people", &ScanOptions::all()).ok()?;
        let text = |row: Vec<Value>| row.iter().map(ToString::to_string).collect::<Vec<_>>();
        let read = scan.map(|row| row.ok().map(|row| text(row.values)));
        let mut rows = read.collect::<Option<Vec<_>>>()?;
        rows.sort();
        Some(rows)
    }

    pub(crate) fn all_pages(&self) -> Vec<(u32, u32)> {
        let mut pages = Vec::new();
        for (name, len) in self.0.files() {
            let Some(number) = name.strip_prefix("data/") else { continue };
            let file = u32::from_str_radix(number, 16).unwrap();
            let used = (0..(len / PAGE as u64) as u32).map(|block| (file, block));
            pages.extend(used.filter(|at| self.page(at.0, at.1).iter().any(|byte| *byte != 0)));
        }
        pages
    }

    /// Files of users whose first page is of this kind, ascending.
    pub(crate) fn files_of(&self, kind: Kind) -> Vec<u32> {
        let pages = self.all_pages().into_iter();
        let first = pages.filter(|(file, block)| *file >= 64 && *block == 0);
        first.map(|at| at.0).filter(|file| self.page(*file, 0)[4] == kind as u8).collect()
    }

    /// The heap of `people`.
    pub(crate) fn heap(&self) -> u32 {
        self.files_of(Kind::HeapMeta)[0]
    }

    /// Its free-space map.
    pub(crate) fn map(&self) -> u32 {
        self.files_of(Kind::FreeSpace)[0]
    }

    /// The primary key's index.
    pub(crate) fn tree(&self) -> u32 {
        self.files_of(Kind::TreeMeta)[0]
    }

    pub(crate) fn root(&self) -> u32 {
        u32_at(&self.page(self.tree(), 0), 32)
    }

    /// The sequence.
    pub(crate) fn sequence(&self) -> u32 {
        self.files_of(Kind::Sequence)[0]
    }

    /// The overflow pages of `letters`: a map in block 0, three values in blocks 1 to 9.
    pub(crate) fn overflow(&self) -> u32 {
        let files = self.files_of(Kind::OverflowMap);
        let mut used = files.into_iter().filter(|file| self.page(*file, 0)[32] == 2);
        used.next_back().expect("a file with a value")
    }

    /// The hash index.
    pub(crate) fn hash_index(&self) -> u32 {
        self.files_of(Kind::HashMeta)[0]
    }

    /// Blocks of the hash index with pages of this kind.
    pub(crate) fn hash_pages(&self, kind: Kind) -> Vec<u32> {
        let file = self.hash_index();
        let all = self.all_pages().into_iter().filter(|(at, _)| *at == file);
        all.map(|(_, block)| block).filter(|at| self.page(file, *at)[4] == kind as u8).collect()
    }

    /// Changes a page of entries of the hash index that has a neighbour on both sides.
    pub(crate) fn edit_bucket(&self, change: impl FnOnce(&mut Page)) {
        let file = self.hash_index();
        let inner = |block: &u32| {
            let page = self.page(file, *block);
            u32_at(&page, PAGE - 16) != 0 && u16_at(&page, PAGE - 12) != 0
        };
        let blocks = self.hash_pages(Kind::Bucket);
        self.edit(file, *blocks.iter().find(|block| inner(block)).unwrap(), change);
    }

    /// Leaves from left to right.
    pub(crate) fn leaves(&self) -> Vec<u32> {
        let tree = self.tree();
        let all = self.all_pages().into_iter().filter(|(file, _)| *file == tree);
        let is_leaf = |block: &u32| self.page(tree, *block)[4] == Kind::Leaf as u8;
        let blocks: Vec<u32> = all.map(|(_, block)| block).filter(is_leaf).collect();
        let leftmost = |block: &&u32| u32_at(&self.page(tree, **block), PAGE - 16) == 0;
        let mut at = *blocks.iter().find(leftmost).unwrap();
        let mut found = Vec::new();
        while at != 0 {
            found.push(at);
            at = u32_at(&self.page(tree, at), PAGE - 12);
        }
        assert!(found.len() >= 4, "enough leaves to damage");
        found
    }

    /// Block, offset of the header and slot of the first version whose text column is `name`.
    pub(crate) fn find_tuple(&self, name: &str) -> (u32, usize, usize) {
        let (heap, text) = (self.heap(), format!("{name};"));
        let blocks = (self.len(&data(heap)) / PAGE as u64) as u32;
        for block in 1..blocks {
            let page = self.page(heap, block);
            let slots = (u16_at(&page, 16).max(32) - 32) / 4;
            for slot in 0..slots {
                let word = u32_at(&page, 32 + 4 * slot);
                let (offset, len) = ((word & 0x1fff) as usize, (word >> 15 & 0x1fff) as usize);
                let end = (offset + len).min(PAGE);
                // Header 16, column count 2, id 8, length 1, text.
                let at = offset + 27;
                if word >> 13 & 3 == 1
                    && page[..end].get(at..).is_some_and(|row| row.starts_with(text.as_bytes()))
                {
                    return (block, offset, slot);
                }
            }
        }
        panic!("no version of {name}");
    }

    pub(crate) fn edit_tuple(&self, name: &str, change: impl FnOnce(&mut Page, usize)) {
        let (block, at, _) = self.find_tuple(name);
        self.edit(self.heap(), block, |page| change(page, at));
    }

    /// Replaces a line pointer; `change` is given the slot's number, from 1.
    pub(crate) fn edit_slot(&self, name: &str, change: impl FnOnce(u32) -> u32) {
        let (block, _, slot) = self.find_tuple(name);
        self.edit(self.heap(), block, |page| {
            let word = change(slot as u32 + 1);
            page[32 + 4 * slot..36 + 4 * slot].copy_from_slice(&word.to_le_bytes());
        });
    }

    /// Creator of a version, absolute.
    pub(crate) fn tuple_xmin(&self, name: &str) -> u64 {
        let (block, at, _) = self.find_tuple(name);
        let page = self.page(self.heap(), block);
        base(&page) + u64::from(u32_at(&page, at))
    }

    /// Makes the index of file `from` use file `to`, in the catalog.
    pub(crate) fn replace_file_in_catalog(&self, from: u32, to: u32) {
        let old = [&[1u8][..], &from.to_le_bytes()].concat();
        let new = [&[1u8][..], &to.to_le_bytes()].concat();
        for block in 1..(self.len(&data(2)) / PAGE as u64) as u32 {
            self.edit(2, block, |page| {
                for at in 32..PAGE - 5 {
                    if page[at..at + 5] == old[..] {
                        page[at..at + 5].copy_from_slice(&new);
                    }
                }
            });
        }
    }

    /// Changes both copies of the control file, checksums included.
    pub(crate) fn edit_control(&self, change: impl Fn(&mut [u8])) {
        for number in 0..2 {
            let at = number * COPY as u64;
            let mut copy = self.0.peek("control", at, COPY);
            change(&mut copy);
            let sum = xxh3_64(&copy[..COPY - 8]);
            copy[COPY - 8..].copy_from_slice(&sum.to_le_bytes());
            self.write("control", at, &copy);
        }
    }

    fn control_word(&self, copy: u64, at: u64) -> u64 {
        let bytes = self.0.peek("control", copy * COPY as u64 + at, 8);
        u64::from_le_bytes(bytes.try_into().unwrap())
    }

    /// Where the copy of the control file begins that does not count.
    pub(crate) fn older_control(&self) -> u64 {
        let first = self.control_word(0, 16) < self.control_word(1, 16);
        if first { 0 } else { COPY as u64 }
    }

    /// Redo position of the copy that counts.
    fn redo(&self) -> u64 {
        self.control_word(1 - self.older_control() / COPY as u64, 32)
    }

    /// Flips a bit in the first record after the redo position; later frames say that it was
    /// durable.
    pub(crate) fn damage_log(&self) {
        let at = self.redo() + 80;
        self.flip(&segment_path(self.damaged_segment()), at % SEGMENT);
    }

    /// The segment that [`Disk::damage_log`] damages.
    pub(crate) fn damaged_segment(&self) -> u32 {
        ((self.redo() + 80) / SEGMENT) as u32
    }

    /// The segment that redo begins in.
    pub(crate) fn redo_segment(&self) -> String {
        segment_path((self.redo() / SEGMENT) as u32)
    }

    pub(crate) fn remove_redo_segment(&self) {
        self.remove(&self.redo_segment());
    }
}

/// Path of a segment of the log.
pub(crate) fn segment_path(number: u32) -> String {
    format!("wal/{number:08X}")
}

fn base(page: &Page) -> u64 {
    u64::from_le_bytes(page[24..32].try_into().unwrap())
}

/// Makes `xmin` the creator of the version at `at`, without hints.
pub(crate) fn set_xmin(page: &mut Page, at: usize, xmin: u64) {
    let offset = (xmin - base(page)) as u32;
    page[at..at + 4].copy_from_slice(&offset.to_le_bytes());
    page[at + 14] &= !3;
}

/// Swaps two slots of a tree page.
pub(crate) fn swap(page: &mut Page, a: usize, b: usize) {
    for i in 0..6 {
        page.swap(32 + 6 * a + i, 32 + 6 * b + i);
    }
}

/// Exchanges the slot in the middle with the fourth one. The ends stay: a search that guesses from
/// their heads would find a first key that is not the smallest where it stands.
pub(crate) fn swap_middle(page: &mut Page) {
    let count = (u16_at(page, 16) - 32) / 6;
    assert!(count > 16, "a page with a middle");
    swap(page, 3, count / 2);
}

/// Makes the high key zero bytes only.
pub(crate) fn zero_high(page: &mut Page) {
    let from = u16_at(page, 20) + u16_at(page, PAGE - 8);
    let to = from + u16_at(page, PAGE - 6);
    assert!(to > from, "not the rightmost page");
    page[from..to].fill(0);
}

/// Changes the last byte of the low fence.
pub(crate) fn change_low(page: &mut Page) {
    let end = u16_at(page, 20) + u16_at(page, PAGE - 8);
    assert!(end > u16_at(page, 20), "not the leftmost page");
    page[end - 1] ^= 1;
}

/// Takes the last slot away.
pub(crate) fn drop_last(page: &mut Page) {
    let lower = u16_at(page, 16) - 6;
    page[lower..lower + 6].fill(0);
    page[16..18].copy_from_slice(&(lower as u16).to_le_bytes());
}

/// Says that an entry of an inner page has a posting list.
pub(crate) fn posting(page: &mut Page) {
    page[33] |= 0xc0;
}
