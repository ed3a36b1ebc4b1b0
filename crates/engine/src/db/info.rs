//! What a database tells about itself: plain data for people, programs and the command.
//!
//! Invariants: every figure has its unit in its name or its comment; nothing here holds a lock.
//! Does not do: collecting.

use std::time::Duration;

use crate::collation::Collation;
use crate::datum::Type;
use crate::db::define::{AutoVacuum, CheckSchema, ColumnDefault, Predicate, SequenceSchema};
pub use crate::heap::HeapFigures;
use crate::ids::RowId;
use crate::index::IndexMethod;
use crate::txn::LockMode;
pub use crate::upkeep::{VacuumProgress, VacuumReport};
pub use crate::vacuum::Phase as VacuumPhase;
pub use crate::verify::Finding;

/// A table, as `describe` shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableInfo {
    /// Number, which no other table, index or sequence ever has.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Columns in order.
    pub columns: Vec<ColumnInfo>,
    /// Indexes; the primary key first.
    pub indexes: Vec<IndexInfo>,
    /// Are changes logged?
    pub logged: bool,
    /// Percent of a heap page that inserts fill.
    pub fillfactor: u8,
    /// Blocks of the heap (8 KiB each), maps not counted.
    pub heap_blocks: u32,
    /// Blocks for values that do not fit their rows, free ones and the map included.
    pub overflow_blocks: u32,
    /// What every row meets.
    pub checks: Vec<CheckSchema>,
    /// What a layer above keeps with it.
    pub note: String,
    /// When it is vacuumed without anybody asking.
    pub auto_vacuum: AutoVacuum,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnInfo {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: Type,
    /// May it be null?
    pub nullable: bool,
    /// What inserts give it that do not name it.
    pub default: Option<ColumnDefault>,
    /// Its sequence, if its values are generated.
    pub identity: Option<IdentityInfo>,
    /// What a layer above keeps with it.
    pub note: String,
    /// How its text compares; `None`: by its bytes.
    pub collation: Option<Collation>,
}

/// Where the values of a generated column come from.
#[derive(Clone, Debug, PartialEq)]
pub struct IdentityInfo {
    /// Name of the sequence.
    pub sequence: String,
    /// May inserts not name the column?
    pub always: bool,
    /// The first number.
    pub start: i64,
    /// From a number to the next.
    pub increment: i64,
}

/// A sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceInfo {
    /// Its definition.
    pub schema: SequenceSchema,
    /// The table and column that it belongs to.
    pub owner: Option<(String, String)>,
    /// The first number that is not reserved on disk, `None` if there is none left. Numbers below
    /// it may not have been handed out.
    pub reserved_to: Option<i64>,
}

/// A sequence as a transaction sees it: see [`Transaction::sequences`].
///
/// [`Transaction::sequences`]: crate::Transaction::sequences
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceDefinition {
    /// Number, which no other table, index or sequence ever has.
    pub id: u32,
    /// Its definition.
    pub schema: SequenceSchema,
    /// The table and column that it belongs to, and the column's type.
    pub owner: Option<(String, String, Type)>,
}

/// An index of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexInfo {
    /// Number, which no other table, index or sequence ever has.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Key columns in order.
    pub columns: Vec<KeyColumnInfo>,
    /// Does it refuse a second row with the same key?
    pub unique: bool,
    /// Does it take two nulls for the same, then?
    pub nulls_not_distinct: bool,
    /// Columns stored beside the key.
    pub included: Vec<String>,
    /// Which rows it holds; `None`: all.
    pub predicate: Option<Predicate>,
    /// Is it the primary key?
    pub primary: bool,
    /// How it finds entries.
    pub method: IndexMethod,
    /// Blocks (8 KiB each).
    pub blocks: u32,
}

impl IndexInfo {
    /// What its definition says beyond key and method, empty where that is nothing:
    /// `include (a, b) nulls not distinct where c > 0`.
    pub fn clauses(&self) -> String {
        let mut clauses = Vec::new();
        if !self.included.is_empty() {
            clauses.push(format!("include ({})", self.included.join(", ")));
        }
        if self.nulls_not_distinct {
            clauses.push("nulls not distinct".to_owned());
        }
        clauses.extend(self.predicate.as_ref().map(|predicate| format!("where {predicate}")));
        clauses.join(" ")
    }

    /// Does it hold every row? Else what it does not find may be there all the same, and it makes
    /// nothing unique in the whole table.
    pub fn is_whole(&self) -> bool {
        self.predicate.is_none()
    }

    /// Does it use `column`, in the key or otherwise?
    pub fn uses(&self, column: &str) -> bool {
        let mut asked = self.predicate.iter().flat_map(|predicate| &predicate.terms);
        self.columns.iter().any(|key| key.name == column)
            || self.included.iter().any(|name| name == column)
            || asked.any(|term| term.column == column)
    }
}

/// A key column of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyColumnInfo {
    /// Column name.
    pub name: String,
    /// Descending?
    pub descending: bool,
    /// Nulls before other values?
    pub nulls_first: bool,
    /// How its text compares, whatever the column says; `None`: by its bytes.
    pub collation: Option<Collation>,
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
