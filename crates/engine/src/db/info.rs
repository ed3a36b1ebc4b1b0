//! What a database tells about itself: plain data for people, programs and the command.
//!
//! Invariants: every figure has its unit in its name or its comment; nothing here holds a lock.
//! Does not do: collecting.

use std::ops::Deref;
use std::time::Duration;

pub use crate::catalog::{SequenceDefinition, SequenceOwner};
use crate::db::define::{IndexSchema, SequenceSchema, TableSchema};
pub use crate::heap::HeapFigures;
use crate::ids::RowId;
use crate::index::DeadMarks;
use crate::txn::LockMode;
pub use crate::upkeep::{VacuumProgress, VacuumReport};
pub use crate::vacuum::Phase as VacuumPhase;
pub use crate::verify::Finding;

/// A table, as `describe` shows it: its schema, whose fields can be read through it, and numbers.
///
/// ```
/// use rightlink::{Database, TableSchema, Type};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = Database::open(dir.path())?;
/// let mut txn = db.begin();
/// let schema = TableSchema::new("flight").column("id", Type::Int8).primary_key(["id"]);
/// txn.create_table(&schema)?;
/// let flight = txn.catalog().describe("flight")?;
/// assert_eq!(flight.columns[0].name, "id");
/// assert_eq!(flight.schema, schema);
/// assert_eq!(flight.indexes[0].name, "flight_pkey");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TableInfo {
    /// Number of the table, which no other table, index or sequence ever has.
    pub id: u32,
    /// Schema that would create the table. Names and collations that were left open are filled in.
    pub schema: TableSchema,
    /// All indexes; the primary key first.
    pub indexes: Vec<IndexInfo>,
    /// Blocks of the heap (8 KiB each), maps not counted.
    pub heap_blocks: u32,
    /// The share of the heap's blocks (0 to 1) whose rows are all visible to everyone, by a sample
    /// of 16 blocks. A scan of an index alone need not read these blocks.
    pub visible_share: f32,
    /// Blocks (8 KiB each) for values that do not fit their rows, free ones and the map included.
    pub overflow_blocks: u32,
    /// The share of the blocks of heap and indexes (0 to 1) that the buffer pool has room for, if
    /// it holds nothing else.
    pub pool_share: f32,
    /// How long the device takes for a block.
    pub read_times: ReadTimes,
}

/// How long the device takes for a block of 8 KiB while it is kept busy, in nanoseconds: measured
/// when the database was created, or usual times where that was not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTimes {
    /// A block that is read by itself, anywhere.
    pub scattered_ns: u32,
    /// One of many neighbours.
    pub in_order_ns: u32,
}

impl Default for ReadTimes {
    /// Times of a local SSD.
    fn default() -> Self {
        ReadTimes { scattered_ns: 15_000, in_order_ns: 7_000 }
    }
}

impl Deref for TableInfo {
    type Target = TableSchema;

    fn deref(&self) -> &TableSchema {
        &self.schema
    }
}

/// An index of a table: its schema, whose fields can be read through it, and numbers.
///
/// ```
/// # use rightlink::{TableSchema, Type};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # txn.commit()?;
/// let table = db.describe("n")?;
/// let primary = table.indexes.iter().find(|index| index.primary).expect("it has a primary key");
/// assert!(primary.unique && primary.columns[0].name == "a");
/// println!("{}: {} KiB", primary.name, primary.blocks * 8);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct IndexInfo {
    /// Number of the index, which no other table, index or sequence ever has.
    pub id: u32,
    /// Schema that would create the index. No collation is left to the column.
    pub schema: IndexSchema,
    /// True if the index is that of the primary key.
    pub primary: bool,
    /// Blocks of the index (8 KiB each).
    pub blocks: u32,
}

impl Deref for IndexInfo {
    type Target = IndexSchema;

    fn deref(&self) -> &IndexSchema {
        &self.schema
    }
}

/// A committed sequence: see [`Database::sequences`](crate::Database::sequences).
///
/// ```
/// use rightlink::SequenceSchema;
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// txn.create_sequence(&SequenceSchema::new("tickets"))?;
/// txn.next_value("tickets")?;
/// txn.commit()?;
/// let tickets = &db.sequences()?[0];
/// assert_eq!((tickets.schema.name.as_str(), &tickets.owner), ("tickets", &None));
/// assert!(tickets.reserved_to > Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceInfo {
    /// Name, bounds and step of the sequence.
    pub schema: SequenceSchema,
    /// Column that the sequence belongs to. `None`: it stands by itself.
    pub owner: Option<SequenceOwner>,
    /// First number that is not reserved on disk. `None`: no number is left. Reserved numbers need
    /// not have been handed out.
    pub reserved_to: Option<i64>,
}

/// Snapshots taken between the same two commits, and what they keep from being removed: rows that
/// they see and that were replaced or deleted since.
///
/// ```
/// # use rightlink::{ScanOptions, TableSchema, Type};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # txn.commit()?;
/// let mut reader = db.begin();
/// let rows = reader.scan("n", &ScanOptions::all())?;
/// let oldest = &db.snapshots()[0];
/// assert_eq!(oldest.transaction, reader.number());
/// println!("transaction {} for {} s", oldest.transaction, oldest.age.as_secs());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Number, in this process, of the transaction that took the first of them:
    /// [`Transaction::number`](crate::Transaction::number).
    pub transaction: u64,
    /// Number of these snapshots.
    pub snapshots: u64,
    /// Time since that transaction began.
    pub age: Duration,
    /// Commits since these snapshots, read-only ones not counted. Rows that those commits replaced
    /// may be held back.
    pub commits_since: u64,
    /// Statements that took a number for their writes since its oldest running one.
    pub xids_since: u64,
}

/// What was done to a table since it was opened; what was rolled back counts, too.
///
/// ```
/// # use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// # txn.commit()?;
/// let figures = db.table_figures()?;
/// let table = figures.iter().find(|table| table.name == "n").expect("it was created");
/// assert_eq!((table.rows.inserted, table.garbage), (1, 0));
/// assert_eq!(table.indexes[0].name, "n_pkey");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFigures {
    /// Number of the table: [`TableInfo::id`].
    pub table: u32,
    /// Name of the table.
    pub name: String,
    /// Scans of its heap, changes of its rows, and vacuums.
    pub rows: HeapFigures,
    /// Estimate of the dead row versions that are not removed yet.
    pub garbage: u64,
    /// Figures of each index.
    pub indexes: Vec<IndexFigures>,
}

/// Use of an index since its table was opened.
///
/// ```
/// # use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// txn.get("n", &[Value::Int8(1)])?;
/// txn.commit()?;
/// let by_key = &db.table_figures()?[0].indexes[0];
/// assert_eq!((by_key.name.as_str(), by_key.scans, by_key.rows), ("n_pkey", 1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexFigures {
    /// Number of the index: [`IndexInfo::id`].
    pub index: u32,
    /// Name of the index.
    pub name: String,
    /// Scans through the index, reads by key included.
    pub scans: u64,
    /// Entries that these scans read, also entries of rows that they could not see.
    pub entries: u64,
    /// Rows that these scans returned.
    pub rows: u64,
    /// Outcomes of the entries of dead rows that these scans met.
    pub dead_marks: DeadMarks,
}

/// A lock that a transaction holds or waits for.
///
/// ```
/// use rightlink::{Busy, LockMode};
/// # use rightlink::{TableSchema, Type};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # txn.commit()?;
/// let mut txn = db.begin();
/// txn.lock_table("n", LockMode::ShareWrite, Busy::Wait)?;
/// let locks = db.locks();
/// let held = locks.iter().find(|lock| lock.transaction == txn.number()).expect("it has one");
/// assert_eq!((held.mode, held.granted), (LockMode::ShareWrite, true));
/// assert!(held.blocked_by.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// Object of the lock.
    pub what: Locked,
    /// Number of the transaction: [`Transaction::number`](crate::Transaction::number).
    pub transaction: u64,
    /// Strength of the lock.
    pub mode: LockMode,
    /// True if the transaction holds the lock, false if it waits.
    pub granted: bool,
    /// Numbers of the transactions that it waits for. Empty for a lock that is held.
    pub blocked_by: Vec<u64>,
}

/// Object of a lock: see [`LockInfo::what`].
///
/// ```
/// use rightlink::{Busy, LockMode, Locked};
/// # use rightlink::{TableSchema, Type};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # txn.commit()?;
/// let number = db.describe("n")?.id;
/// let mut txn = db.begin();
/// txn.lock_table("n", LockMode::Share, Busy::Wait)?;
/// for lock in db.locks() {
///     match lock.what {
///         Locked::Table(table) => assert_eq!(table, number),
///         Locked::Transaction(other) => println!("{} waits for {other}", lock.transaction),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// The table of this number: [`TableInfo::id`].
    Table(u32),
    /// The end of the transaction of this number, which has changed or locked a row that the other
    /// one needs.
    Transaction(u64),
}

/// Progress of a verification: see
/// [`Database::verify_watched`](crate::Database::verify_watched).
///
/// ```
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// let report = db.verify_watched(|progress| {
///     println!("{} of {} pages", progress.pages, progress.pages_in_all);
///     progress.pages < 1_000_000 // false ends the verification
/// })?;
/// assert!(report.is_clean());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Pages checked so far. Pages of rows count twice.
    pub pages: u64,
    /// Pages to check, as counted at the start. 0 where damage hides them.
    pub pages_in_all: u64,
}

/// Result of [`Database::verify`](crate::Database::verify).
///
/// ```
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// let report = db.verify()?;
/// assert!(report.is_clean(), "{:?}", report.findings);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerifyReport {
    /// Damage that was found. Empty: the database is clean.
    pub findings: Vec<Finding>,
    /// Pages that were read.
    pub pages: u64,
    /// Row versions that were checked.
    pub rows: u64,
    /// Index entries that were checked.
    pub entries: u64,
}

impl VerifyReport {
    /// True if no damage was found.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Figures of an open database since it was opened.
///
/// ```
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// let waits = db.stats().get("lock_waits");
/// assert_eq!(waits, Some(0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Name and value, in a stable order; names carry their unit (`_bytes`, `_us`, or a count).
    pub figures: Vec<(&'static str, u64)>,
}

impl Stats {
    /// The figure called `name`. `None`: there is no such figure.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.figures.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// A page of a relation, as `inspect` shows it (the columns of pgsql-hackers' page tables).
///
/// ```
/// # use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// # txn.commit()?;
/// let pages = db.inspect("n_pkey", None)?;
/// let leaves = pages.iter().filter(|page| page.level == 0 && page.live_items > 0);
/// let used: u32 = leaves.map(|page| page.page_size - page.free_size).sum();
/// println!("{used} bytes of the leaves are in use");
/// assert_eq!(pages[0].kind, 'm');
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageInfo {
    /// Level in the tree. 0: a leaf, or a page of a heap or hash index.
    pub level: u32,
    /// Number of the page within its level, from 1.
    pub item: u32,
    /// Block number in the file.
    pub block: u32,
    /// Block of the left sibling (index pages).
    pub left: Option<u32>,
    /// Block of the right sibling (index pages).
    pub right: Option<u32>,
    /// Flags, as they are stored on the page.
    pub flags: u16,
    /// Type: `l` leaf, `i` inner, `r` root, `m` meta, `d` deleted, `h` heap, `-` never initialised;
    /// of a hash index `b` first page of a bucket, `o` overflow page, `n` directory.
    pub kind: char,
    /// Number of live items.
    pub live_items: u32,
    /// Number of items that are marked dead.
    pub dead_items: u32,
    /// Average size of an item in bytes.
    pub avg_item_size: u32,
    /// Size of the page in bytes.
    pub page_size: u32,
    /// Free bytes on the page.
    pub free_size: u32,
    /// High key in hexadecimal. `None`: a heap page, or the last
    /// page of its level.
    pub high_key: Option<String>,
    /// One line for each item, when one block was asked for.
    pub items: Vec<String>,
    /// The items as data, when one block of a tree was asked for.
    pub entries: Vec<EntryInfo>,
    /// Block and level of the root, on the first page of a tree.
    pub root: Option<(u32, u32)>,
}

/// An entry on a page of a tree: a key with its rows on a leaf, a separator with a child above.
///
/// ```
/// # use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// # txn.commit()?;
/// let (root, _level) = db.inspect("n_pkey", Some(0))?[0].root.expect("block 0 of a tree has it");
/// let page = &db.inspect("n_pkey", Some(root))?[0];
/// let entry = &page.entries[0];
/// assert_eq!((entry.rows.as_slice(), entry.dead), ([id].as_slice(), false));
/// println!("{} takes {} bytes", entry.key, entry.bytes);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryInfo {
    /// Position on the page, from 0.
    pub position: u32,
    /// Size of the entry in bytes, its slot included.
    pub bytes: u32,
    /// Encoded key without the row id, in hexadecimal. A separator may be cut short.
    pub key: String,
    /// Rows of the key (leaf). Empty on an inner page.
    pub rows: Vec<RowId>,
    /// Block of the child (inner page). `None` on a leaf.
    pub child: Option<u32>,
    /// True if all rows of the entry are marked dead.
    pub dead: bool,
    /// True if the key has a null. `None` for a separator.
    pub nulls: Option<bool>,
    /// True if the key has a value of a type whose values differ in length. `None` for a separator.
    pub varying: Option<bool>,
}
