//! The open database: owns every thread, hands out transactions.
//!
//! SKELETON of the public face: signatures are final, bodies follow.

pub mod define;
pub mod info;
pub mod options;
pub mod transaction;

use std::path::Path;

use crate::datum::Value;
use crate::db::info::{PageInfo, Stats, TableInfo, VacuumReport, VerifyReport};
use crate::db::options::Options;
use crate::db::transaction::{Transaction, TransactionOptions};
use crate::error::Result;

/// An open database. Clones share it; the last one closes it (a clean shutdown).
#[derive(Clone)]
pub struct Database {}

impl Database {
    /// Opens, or creates, the database in directory `path` with default options.
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Options::default().open(path)
    }

    /// A builder for everything that can be set.
    pub fn options() -> Options {
        Options::default()
    }

    pub(crate) fn open_with(options: Options) -> Result<Database> {
        let _ = options;
        todo!()
    }

    /// Starts a transaction with snapshot isolation and a durable commit.
    pub fn begin(&self) -> Transaction {
        self.begin_with(TransactionOptions::default())
    }

    /// Starts a transaction.
    pub fn begin_with(&self, options: TransactionOptions) -> Transaction {
        let _ = options;
        todo!()
    }

    /// Runs `work` in a transaction and commits it; runs it again after a retryable conflict, at most
    /// 100 times with growing pauses.
    pub fn with_retry<T>(&self, work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        let _ = work;
        todo!()
    }

    /// All tables, sorted by name.
    pub fn tables(&self) -> Result<Vec<TableInfo>> {
        todo!()
    }

    /// One table.
    pub fn describe(&self, table: &str) -> Result<TableInfo> {
        let _ = table;
        todo!()
    }

    /// Figures since the database was opened: pool, log, checkpoints, reads, writes, transactions.
    pub fn stats(&self) -> Stats {
        todo!()
    }

    /// Removes dead rows of one table (`None`: of every table) and their index entries.
    pub fn vacuum(&self, table: Option<&str>) -> Result<VacuumReport> {
        let _ = table;
        todo!()
    }

    /// Checks pages, heaps, indexes and both against each other, while others work.
    pub fn verify(&self) -> Result<VerifyReport> {
        todo!()
    }

    /// Page descriptions of a table's heap or an index: all pages, or one block with its items.
    pub fn inspect(&self, relation: &str, block: Option<u32>) -> Result<Vec<PageInfo>> {
        let _ = (relation, block);
        todo!()
    }

    /// Writes all dirty pages back and moves the start of recovery up to now.
    pub fn checkpoint(&self) -> Result<()> {
        todo!()
    }

    /// Does one unit of background work (write-back, checkpoint, log flush) in the caller's thread;
    /// returns whether there was any. For databases opened without threads.
    pub fn step(&self) -> Result<bool> {
        todo!()
    }

    /// Closes cleanly: waits for no one, refuses new work, flushes, checkpoints. Also done by the last drop,
    /// where errors are only logged.
    pub fn close(self) -> Result<()> {
        todo!()
    }

    /// Checks a closed database at `path` without changing a byte (offline verify).
    pub fn verify_offline(path: impl AsRef<Path>) -> Result<VerifyReport> {
        let _ = path;
        todo!()
    }
}

/// A row handed to a caller.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Where it lies: good for update, delete and lock in the same transaction.
    pub id: crate::ids::RowId,
    /// The columns asked for, in the order asked for.
    pub values: Vec<Value>,
}
