//! The public interface: an open database, its transactions, and what both tell.
//!
//! | file | what it has |
//! |---|---|
//! | `define`, `info` | what callers say and are told, as plain data |
//! | `transaction`, `many`, `writer`, `scan`, `rows`, `fill` | statements on named tables |
//! | `record`, `cursor`, `value` | structs as rows; asynchronous readers; values as streams |
//! | `alter`, `numbers`, `draft` | statements that define tables, indexes and sequences |
//! | `catalog`, `shared_key` | definitions as a transaction sees them; the rows of a key now |
//! | `control` | settings of a running transaction |
//!
//! `Database` opens, begins transactions and closes here. Its other methods:
//!
//! | file | methods of `Database` |
//! |---|---|
//! | `describe`, `inspect`, `stats` | descriptions of tables and pages; figures |
//! | `vacuum`, `verify`, `backup` | routine maintenance |
//! | `online` | index builds beside writers |
//! | `locks` | locks of tables |
//! | `numbers` | sequences |
//! | `control` | memory, sorts, device and clock for a layer on top |
//! | `experiments` | switches and cold caches for experiments |
//!
//! Invariants: the last handle that goes (a `Database` or a `Transaction`) closes the database.
//! Does not do: threads, checkpoints, the work of vacuum (`upkeep`); SQL.

pub(crate) mod alter;
pub(crate) mod backup;
pub(crate) mod catalog;
pub(crate) mod control;
pub(crate) mod cursor;
pub(crate) mod define;
pub(crate) mod info;
pub(crate) mod many;
pub(crate) mod numbers;
pub(crate) mod prepared;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod rows;
pub(crate) mod scan;
pub(crate) mod transaction;
pub(crate) mod vacuum;
pub(crate) mod value;
pub(crate) mod writer;

mod definition;
pub(crate) mod describe;
#[cfg(feature = "experiments")]
mod experiments;
mod fill;
mod inspect;
mod locks;
mod online;
mod shared_key;
mod stats;
mod verify;

use std::path::Path;
use std::time::Duration;

use rightlink_env::sync::Arc;

use crate::datum::Value;
use crate::db::transaction::{Transaction, TransactionOptions};
use crate::error::Result;
use crate::upkeep::{CheckpointCause, Engine, Options, open, threads};

/// Attempts of [`Database::with_retry`].
const MAX_ATTEMPTS: u32 = 100;

/// An open database. Clones share it; the last one closes it (a clean shutdown).
///
/// ```
/// use rightlink::{Database, Result, TableSchema, Type, Value};
/// fn main() -> Result<()> {
///     # let dir = tempfile::tempdir().unwrap();
///     # let path = dir.path();
///     let db = Database::open(path)?;
///     let mut txn = db.begin();
///     txn.create_table(&TableSchema::new("n").column("a", Type::Int8))?;
///     txn.insert("n", &[Value::Int8(1)])?;
///     txn.commit()?;
///     db.close()
/// }
/// ```
#[derive(Clone)]
pub struct Database {
    handle: Arc<Handle>,
}

/// Closes the database when the last user lets go.
pub(crate) struct Handle {
    pub(crate) engine: Arc<Engine>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Err(error) = self.engine.close() {
            self.engine.env.logger.error(&format!("the database was not closed cleanly: {error}"));
        }
    }
}

/// A row handed to a caller.
///
/// ```
/// use rightlink::{Row, TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// let Row { id, values } = txn.get("n", &[Value::Int8(1)])?.unwrap();
/// assert_eq!(values, [Value::Int8(1), Value::Int8(10)]);
/// assert!(txn.delete("n", id)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Where it lies: good for update, delete and lock in the same transaction, see
    /// [`Transaction::update`].
    pub id: crate::ids::RowId,
    /// The columns asked for, in the order asked for.
    pub values: Vec<Value>,
}

impl Database {
    /// Opens, or creates, the database in directory `path` with default options.
    ///
    /// # Errors
    /// Those of [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Options::default().open(path)
    }

    /// The builder of a database with other settings than the default ones.
    pub fn options() -> Options {
        Options::default()
    }

    pub(crate) fn open_with(options: &Options) -> Result<Database> {
        let engine = open::open(options)?;
        let handle = Arc::new(Handle { engine });
        if options.threads {
            threads::start(&handle.engine, options)?;
        }
        Ok(Database { handle })
    }

    /// Starts a transaction with snapshot isolation and a durable commit.
    pub fn begin(&self) -> Transaction {
        self.begin_with(TransactionOptions::default())
    }

    /// Starts a transaction with other settings than those of [`Database::begin`].
    pub fn begin_with(&self, options: TransactionOptions) -> Transaction {
        Transaction::begin(&self.handle, options)
    }

    /// Runs `work` in a transaction and commits it; runs it again after a retryable conflict, at
    /// most 100 times with growing pauses.
    ///
    /// # Errors
    /// What `work` or the commit returns, and the last conflict after too many of them.
    pub fn with_retry<T>(&self, mut work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut attempt = 0;
        loop {
            let mut txn = self.begin();
            let result = work(&mut txn).and_then(|value| txn.commit().map(|()| value));
            match result {
                Err(error) if error.is_retryable() && attempt < MAX_ATTEMPTS => {
                    attempt += 1;
                    self.pause(attempt);
                }
                result => return result,
            }
        }
    }

    /// Waits a random moment that grows with the attempts, so that rivals get out of step.
    fn pause(&self, attempt: u32) {
        let most = 50u64 << attempt.min(8);
        let mut rng = rightlink_env::Rng::from_seed(self.engine().txns.next_xid().0 ^ most);
        let clock = &self.engine().env.clock;
        clock.sleep(Duration::from_micros(rng.below(most)));
        if clock.is_simulated() {
            // That clock moved on at once: a victim that is back before its rival has woken up
            // would be in its way again, a hundred times if need be.
            (0..1u32 << attempt.min(12)).for_each(|_| rightlink_env::thread::yield_now());
        }
    }

    /// Writes all dirty pages back and moves the start of recovery up to now.
    pub fn checkpoint(&self) -> Result<()> {
        self.engine().check_open()?;
        self.engine().checkpoint(CheckpointCause::Asked, false)
    }

    /// Does one unit of background work (write-back, checkpoint, log flush) in the caller's thread;
    /// returns whether there was any. For databases opened without threads.
    pub fn step(&self) -> Result<bool> {
        self.engine().check_open()?;
        self.engine().step()
    }

    /// Closes cleanly: refuses new work, makes everything durable, checkpoints. Also done by the
    /// last drop, where errors are only logged. Statements of transactions that still run fail from
    /// here on; what they wrote before can be committed.
    ///
    /// # Errors
    /// `Invalid` while transactions that have written still run: what is committed is durable then,
    /// and the end of the last of them closes the database.
    pub fn close(self) -> Result<()> {
        self.engine().close()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.handle.engine
    }
}

impl Options {
    /// Opens, or creates, the database in directory `path`.
    ///
    /// # Errors
    /// `Locked` when it is open elsewhere, `Corruption` when its log or control file is damaged,
    /// `Invalid` when the format is of another version than this library's, `NotFound` when there
    /// is none and [`Options::create`] is off.
    pub fn open(mut self, path: impl AsRef<Path>) -> Result<Database> {
        self.path = path.as_ref().to_path_buf();
        Database::open_with(&self)
    }
}
