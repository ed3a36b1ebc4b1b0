//! Two-phase commit: transactions that are prepared, and committed or rolled back later, by any
//! session and also after the database was opened again.
//!
//! Invariants: a transaction that was prepared keeps its changes, its row locks and its table locks
//! until it is decided.
//! Does not do: definitions. A transaction that has changed any cannot be prepared.

use crate::catalog::Ending;
use crate::catalog::bootstrap::PREPARED_OBJECTS;
use crate::db::Database;
use crate::db::transaction::Transaction;
use crate::error::{Error, Result};
use crate::upkeep::Decision;

/// Most transactions that can be prepared at a time.
pub const MAX_PREPARED: usize = PREPARED_OBJECTS.end as usize - PREPARED_OBJECTS.start as usize;
/// Longest name of a prepared transaction, in bytes.
const MAX_GID_BYTES: usize = 199;
/// Longest note with a prepared transaction, in bytes.
const MAX_PREPARED_NOTE: usize = 1 << 10;

/// A transaction that waits for the decision, as [`Database::prepared`] lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedTransaction {
    /// The name that it was prepared under.
    pub gid: String,
    /// Its first xid; 0 if it has written nothing.
    pub xid: u64,
    /// Its number in this process, as in [`LockInfo`](crate::LockInfo).
    pub number: u64,
    /// When it was prepared, in microseconds since 1970-01-01 00:00 UTC.
    pub prepared_at: i64,
    /// The text that was given with it.
    pub note: String,
    /// It is being prepared, committed or rolled back now.
    pub is_busy: bool,
}

impl Transaction {
    /// Prepares the transaction: whatever happens, it can be committed or rolled back later, by
    /// [`Database::commit_prepared`] and [`Database::rollback_prepared`] with the same `gid`. Until
    /// then it holds its locks, and versions of rows that were ended since stay. `note` is kept
    /// with it. The preparation is durable, also of a relaxed transaction.
    ///
    /// ```
    /// use rightlink::{Database, TableSchema, Type, Value};
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = Database::open(dir.path()).unwrap();
    /// let mut txn = db.begin();
    /// let schema = TableSchema::new("n").column("a", Type::Int8).primary_key(["a"]);
    /// txn.create_table(&schema).unwrap();
    /// txn.commit().unwrap();
    /// let mut txn = db.begin();
    /// txn.insert("n", &[Value::Int8(1)]).unwrap();
    /// txn.prepare("order 17", "").unwrap();
    /// db.close().unwrap();
    /// let db = Database::open(dir.path()).unwrap();
    /// assert_eq!(db.prepared()[0].gid, "order 17");
    /// assert!(db.begin().get("n", &[Value::Int8(1)]).unwrap().is_none());
    /// db.commit_prepared("order 17").unwrap();
    /// assert!(db.begin().get("n", &[Value::Int8(1)]).unwrap().is_some());
    /// ```
    ///
    /// # Errors
    /// Any error but `Poisoned` means that the transaction is rolled back. `AlreadyExists` if there
    /// is a prepared transaction of this name; `Limit` beyond [`MAX_PREPARED`], for a name of more
    /// than 199 bytes, and for a transaction that locks more than a thousand tables or in which
    /// more than a thousand statements were undone; `Invalid` for one that has changed definitions.
    pub fn prepare(mut self, gid: &str, note: &str) -> Result<()> {
        self.end_scans();
        if self.has_defined() {
            let what = "a transaction that has changed definitions cannot be prepared";
            return Err(Error::Invalid(what.into()));
        }
        if gid.len() > MAX_GID_BYTES || note.len() > MAX_PREPARED_NOTE {
            let what = format!("a name of {MAX_GID_BYTES} bytes, a note of {MAX_PREPARED_NOTE}");
            return Err(Error::Limit(format!("a prepared transaction has at most {what}")));
        }
        let txn = self.txn.take().expect("the transaction runs until it is consumed");
        let prepared = self.handle.engine.prepare(txn, gid, note);
        // Files of definitions that failed.
        self.settle(Ending::RolledBack);
        prepared
    }
}

impl Database {
    /// Commits a prepared transaction: durable when this returns.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name, `Invalid` while another thread decides it. After
    /// any error but `Poisoned` it is still prepared.
    pub fn commit_prepared(&self, gid: &str) -> Result<()> {
        self.engine().finish_prepared(gid, Decision::Commit)
    }

    /// Rolls a prepared transaction back: durable when this returns.
    ///
    /// # Errors
    /// As for [`Database::commit_prepared`].
    pub fn rollback_prepared(&self, gid: &str) -> Result<()> {
        self.engine().finish_prepared(gid, Decision::RollBack)
    }

    /// The prepared transactions, sorted by name.
    pub fn prepared(&self) -> Vec<PreparedTransaction> {
        let all = self.engine().prepared.all().into_iter();
        let public = all.map(|one| PreparedTransaction {
            gid: one.gid,
            xid: one.first_xid.0,
            number: one.number,
            prepared_at: one.time,
            note: one.note,
            is_busy: one.is_busy,
        });
        public.collect()
    }
}
