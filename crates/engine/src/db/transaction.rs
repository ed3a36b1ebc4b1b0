//! A transaction as callers see it: statements on named tables.
//!
//! SKELETON of the public face: signatures are final, bodies follow.

use std::ops::Bound;
use std::time::Duration;

use crate::datum::{Type, Value};
use crate::db::Row;
use crate::db::define::{IndexSchema, TableSchema};
use crate::error::Result;
use crate::ids::RowId;
pub use crate::txn::Isolation;

/// Settings of a transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionOptions {
    /// What it sees. Default: snapshot isolation.
    pub isolation: Isolation,
    /// Commit without waiting for the log to be durable: a crash may lose the newest such commits, in
    /// order, never part of one. Default off.
    pub relaxed: bool,
    /// Longest wait for a lock, instead of the database's setting.
    pub lock_timeout: Option<Duration>,
}

/// A running transaction. Owned and `Send`; dropped without commit it rolls back. A statement that fails
/// leaves nothing behind and the transaction goes on.
pub struct Transaction {}

/// A place in a transaction to roll back to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Savepoint(pub(crate) crate::txn::Savepoint);

/// Direction of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// In index order.
    #[default]
    Forward,
    /// Against it.
    Backward,
}

/// Which rows a scan returns, through which index, and which columns of them.
///
/// Bounds are prefixes of the index's key columns: `from` and `to` compare only the columns they name.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// Index to go through; `None` scans the heap in no particular order.
    pub index: Option<String>,
    /// Lower bound in index order.
    pub from: Bound<Vec<Value>>,
    /// Upper bound in index order.
    pub to: Bound<Vec<Value>>,
    /// Further equality prefixes instead of `from` and `to` (an `IN` list), each a key prefix.
    pub any_of: Vec<Vec<Value>>,
    /// Direction.
    pub direction: Direction,
    /// Most rows.
    pub limit: Option<u64>,
    /// Columns to return, `None` for all. If the index holds them all, the heap is not read where the
    /// visibility map allows it.
    pub columns: Option<Vec<String>>,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            index: None,
            from: Bound::Unbounded,
            to: Bound::Unbounded,
            any_of: Vec::new(),
            direction: Direction::Forward,
            limit: None,
            columns: None,
        }
    }
}

impl ScanOptions {
    /// All rows, in no particular order.
    pub fn all() -> Self {
        Self::default()
    }

    /// Through `index`.
    pub fn index(name: impl Into<String>) -> Self {
        Self { index: Some(name.into()), ..Self::default() }
    }

    /// Only keys that begin with `prefix`.
    #[must_use]
    pub fn equal(mut self, prefix: Vec<Value>) -> Self {
        self.from = Bound::Included(prefix.clone());
        self.to = Bound::Included(prefix);
        self
    }

    /// Only keys at or after `from`.
    #[must_use]
    pub fn from(mut self, from: Vec<Value>) -> Self {
        self.from = Bound::Included(from);
        self
    }

    /// Only keys at or before `to`.
    #[must_use]
    pub fn to(mut self, to: Vec<Value>) -> Self {
        self.to = Bound::Included(to);
        self
    }

    /// Largest first.
    #[must_use]
    pub fn backward(mut self) -> Self {
        self.direction = Direction::Backward;
        self
    }

    /// At most `rows` rows.
    #[must_use]
    pub fn limit(mut self, rows: u64) -> Self {
        self.limit = Some(rows);
        self
    }

    /// Only these columns.
    #[must_use]
    pub fn columns<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }
}

/// Rows of a scan: an owned, `Send` iterator over the snapshot of its statement. After an error it keeps
/// returning that error.
pub struct Rows {}

impl Iterator for Rows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}

impl Transaction {
    /// Creates a table with its indexes.
    pub fn create_table(&mut self, schema: &TableSchema) -> Result<()> {
        let _ = schema;
        todo!()
    }

    /// Drops a table and its indexes.
    pub fn drop_table(&mut self, table: &str) -> Result<()> {
        let _ = table;
        todo!()
    }

    /// Creates an index over the rows that are there.
    pub fn create_index(&mut self, table: &str, index: &IndexSchema) -> Result<()> {
        let _ = (table, index);
        todo!()
    }

    /// Drops an index.
    pub fn drop_index(&mut self, index: &str) -> Result<()> {
        let _ = index;
        todo!()
    }

    /// Adds a nullable column; rows that are there read as null.
    pub fn add_column(&mut self, table: &str, column: &str, kind: Type) -> Result<()> {
        let _ = (table, column, kind);
        todo!()
    }

    /// Drops a column that no index uses.
    pub fn drop_column(&mut self, table: &str, column: &str) -> Result<()> {
        let _ = (table, column);
        todo!()
    }

    /// Inserts a row (values in column order).
    pub fn insert(&mut self, table: &str, values: &[Value]) -> Result<RowId> {
        let _ = (table, values);
        todo!()
    }

    /// Inserts many rows as one statement: all or none. The fastest way in.
    pub fn insert_many(&mut self, table: &str, rows: &[Vec<Value>]) -> Result<Vec<RowId>> {
        let _ = (table, rows);
        todo!()
    }

    /// The row with this primary key.
    pub fn get(&mut self, table: &str, key: &[Value]) -> Result<Option<Row>> {
        let _ = (table, key);
        todo!()
    }

    /// Rows as `options` say, of one snapshot.
    pub fn scan(&mut self, table: &str, options: &ScanOptions) -> Result<Rows> {
        let _ = (table, options);
        todo!()
    }

    /// Sets columns of the row at `id`. False if the row is gone. Under snapshot isolation a row that
    /// another transaction changed since is a retryable conflict; under read committed its newest
    /// version is updated.
    pub fn update(&mut self, table: &str, id: RowId, set: &[(&str, Value)]) -> Result<bool> {
        let _ = (table, id, set);
        todo!()
    }

    /// Deletes the row at `id`. False if it is gone.
    pub fn delete(&mut self, table: &str, id: RowId) -> Result<bool> {
        let _ = (table, id);
        todo!()
    }

    /// Locks the row at `id` against change until the end of the transaction. False if it is gone.
    pub fn lock(&mut self, table: &str, id: RowId) -> Result<bool> {
        let _ = (table, id);
        todo!()
    }

    /// Marks a place to roll back to.
    pub fn savepoint(&mut self) -> Savepoint {
        todo!()
    }

    /// Undoes everything since `savepoint`, which stays usable.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let _ = savepoint;
        todo!()
    }

    /// Commits. When it returns `Ok` and the transaction is not relaxed, the change survives any crash.
    pub fn commit(self) -> Result<()> {
        todo!()
    }

    /// Rolls back.
    pub fn rollback(self) {}
}
