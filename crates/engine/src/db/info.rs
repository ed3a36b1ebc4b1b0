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
    /// Number, which no other table, index or sequence ever has.
    pub id: u32,
    /// What would create it: names and collations that were left open are filled in.
    pub schema: TableSchema,
    /// All indexes; the primary key first.
    pub indexes: Vec<IndexInfo>,
    /// Blocks of the heap (8 KiB each), maps not counted.
    pub heap_blocks: u32,
    /// Blocks for values that do not fit their rows, free ones and the map included.
    pub overflow_blocks: u32,
}

impl Deref for TableInfo {
    type Target = TableSchema;

    fn deref(&self) -> &TableSchema {
        &self.schema
    }
}

/// An index of a table: its schema, whose fields can be read through it, and numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexInfo {
    /// Number, which no other table, index or sequence ever has.
    pub id: u32,
    /// What would create it; no collation is left to the column.
    pub schema: IndexSchema,
    /// Is it the primary key?
    pub primary: bool,
    /// Blocks (8 KiB each).
    pub blocks: u32,
}

impl Deref for IndexInfo {
    type Target = IndexSchema;

    fn deref(&self) -> &IndexSchema {
        &self.schema
    }
}

/// A sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceInfo {
    /// Its definition.
    pub schema: SequenceSchema,
    /// The column that it belongs to.
    pub owner: Option<SequenceOwner>,
    /// The first number that is not reserved on disk, `None` if there is none left. Numbers below
    /// it may not have been handed out.
    pub reserved_to: Option<i64>,
}

/// Snapshots taken between the same two commits, and what they keep from being removed: rows that
/// they see and that were replaced or deleted since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Number, in this process, of the transaction that took the first of them:
    /// [`Transaction::number`](crate::Transaction::number).
    pub transaction: u64,
    /// How many there are.
    pub snapshots: u64,
    /// For how long that transaction has been running.
    pub age: Duration,
    /// Commits since, read-only ones not counted: what those replaced may be held back.
    pub commits_since: u64,
    /// Statements that took a number for their writes since its oldest running one.
    pub xids_since: u64,
}

/// What was done to a table since it was opened; what was rolled back counts, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFigures {
    /// Number of the table: [`TableInfo::id`].
    pub table: u32,
    /// Its name.
    pub name: String,
    /// What was done to its rows.
    pub rows: HeapFigures,
    /// Row versions that were ended and not removed, roughly.
    pub garbage: u64,
    /// Of each index.
    pub indexes: Vec<IndexFigures>,
}

/// What an index was used for since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexFigures {
    /// Number of the index: [`IndexInfo::id`].
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Scans by it.
    pub scans: u64,
    /// Entries that they came to, those of rows that they did not see included.
    pub entries: u64,
    /// Rows that they handed out.
    pub rows: u64,
}

/// A lock that a transaction holds or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// Of what.
    pub what: Locked,
    /// Number of the transaction: [`Transaction::number`](crate::Transaction::number).
    pub transaction: u64,
    /// How strong.
    pub mode: LockMode,
    /// Held, or waited for?
    pub granted: bool,
    /// Numbers of the transactions that are waited for.
    pub blocked_by: Vec<u64>,
}

/// What a lock is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// The table of this number: [`TableInfo::id`].
    Table(u32),
    /// The end of the transaction of this number, which has a row that is wanted.
    Transaction(u64),
}

/// How far a verification is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Pages looked at.
    pub pages: u64,
    /// Pages that there were to look at when it began, or none where damage hides them.
    pub pages_in_all: u64,
}

/// What `verify` looked at and found.
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
    /// Damage. Empty: clean.
    pub findings: Vec<Finding>,
    /// Pages read.
    pub pages: u64,
    /// Row versions checked.
    pub rows: u64,
    /// Index entries checked.
    pub entries: u64,
}

impl VerifyReport {
    /// Nothing wrong?
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
    /// The figure called `name`.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.figures.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// A page of a relation, as `inspect` shows it (the columns of pgsql-hackers' page tables).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageInfo {
    /// Level, 0 is a leaf or heap page.
    pub level: u32,
    /// Its number within the level, from 1.
    pub item: u32,
    /// Block.
    pub block: u32,
    /// Left sibling (index pages).
    pub left: Option<u32>,
    /// Right sibling (index pages).
    pub right: Option<u32>,
    /// Flags, as stored.
    pub flags: u16,
    /// Type: `l` leaf, `i` inner, `r` root, `m` meta, `d` deleted, `h` heap, `-` never initialised;
    /// of a hash index `b` first page of a bucket, `o` overflow page, `n` directory.
    pub kind: char,
    /// Live items.
    pub live_items: u32,
    /// Dead items.
    pub dead_items: u32,
    /// Average bytes of an item.
    pub avg_item_size: u32,
    /// Bytes of the page.
    pub page_size: u32,
    /// Free bytes.
    pub free_size: u32,
    /// High key in hexadecimal.
    pub high_key: Option<String>,
    /// Items, when one block was asked for.
    pub items: Vec<String>,
    /// The same as data, of a page of a tree.
    pub entries: Vec<EntryInfo>,
    /// Block and level of the root, on the first page of a tree.
    pub root: Option<(u32, u32)>,
}

/// An entry on a page of a tree: a key with its rows on a leaf, a separator with a child above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryInfo {
    /// Position on the page, from 0.
    pub position: u32,
    /// Bytes, its slot included.
    pub bytes: u32,
    /// Key without the row id in hexadecimal; a separator may be cut short.
    pub key: String,
    /// The rows (leaf).
    pub rows: Vec<RowId>,
    /// The child's block (inner page).
    pub child: Option<u32>,
    /// Are all of its rows marked dead?
    pub dead: bool,
    /// Has the key a null? `None` where it is a separator.
    pub nulls: Option<bool>,
    /// Has the key a value of a type whose values differ in length? `None` where it is a separator.
    pub varying: Option<bool>,
}
