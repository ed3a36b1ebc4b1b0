//! A running statement: its transaction and the snapshot that it reads by.
//!
//! Invariants: all writes of a statement carry one xid. A write that does not reach its end, by an
//! error or by a panic of a caller's closure, undoes the statement: it aborts that xid. After that
//! the statement takes no more writes, and [`Statement::check`] fails. Its snapshot does not see
//! its own writes (R22).
//! Does not do: savepoints, the end of a transaction.

use rightlink_env::sync::Arc;

use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::txn::{
    ReleasableReads, RowVersion, RowWait, RowWaitResult, Snapshot, Transaction, WriteHolds,
};

/// Called now and then by long work. Its error ends the work.
pub type GoOn<'a> = &'a mut dyn FnMut() -> Result<()>;

/// What to do about a row that a running transaction has changed or locked.
///
/// ```
/// use rightlink::{Busy, Error, RowLock, TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// txn.commit()?;
/// let (mut one, mut two) = (db.begin(), db.begin());
/// assert!(one.lock_row("n", id, RowLock::Exclusive, Busy::Wait)?);
/// assert!(!two.lock_row("n", id, RowLock::Exclusive, Busy::Skip)?);
/// let refused = two.lock_row("n", id, RowLock::Exclusive, Busy::Fail);
/// assert!(matches!(refused, Err(Error::Conflict { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Busy {
    /// Wait for the end of that transaction.
    #[default]
    Wait,
    /// Fail with a conflict at once.
    Fail,
    /// Skip the row.
    Skip,
}

/// Context of everything a statement does to tables.
pub struct Statement<'t> {
    txn: &'t mut Transaction,
    /// There but while it waits.
    snapshot: Option<Arc<Snapshot>>,
    /// Why the statement was undone.
    failed: Option<Error>,
    reads_ahead: bool,
    busy: Busy,
    /// Rows are locked and not changed, so that several may have what they wait for at once.
    only_locks: bool,
    /// Row id by which the caller named the row that is written, after which nothing is read.
    last: Option<RowId>,
    reads_no_more: bool,
    /// What was read last, to be written next: a version that the snapshot sees, and its row.
    found: Option<(RowId, Vec<u8>)>,
    /// Writes rely on the snapshot, and on that of the row ids, to the end.
    holds: Option<WriteHolds>,
}

impl<'t> Statement<'t> {
    /// Begins the next statement of `txn`.
    pub fn begin(txn: &'t mut Transaction) -> Result<Self> {
        let snapshot = txn.begin_statement()?;
        let holds = Some(txn.hold(&snapshot)?);
        Ok(Self {
            txn,
            snapshot: Some(snapshot),
            failed: None,
            reads_ahead: true,
            busy: Busy::Wait,
            only_locks: false,
            last: None,
            reads_no_more: false,
            found: None,
            holds,
        })
    }

    /// What the statement sees.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        self.snapshot.as_ref().expect("a statement that waits reads nothing")
    }

    /// The statement reads nothing any more but the row of its next write. If it waits for that
    /// row, it releases its snapshot, which then keeps no versions, and has a later one afterwards.
    pub fn read_no_more(&mut self) {
        self.reads_no_more = true;
    }

    /// The version that the snapshot sees of a row, which is written next.
    pub(super) fn found(&mut self, version: Option<(RowId, Vec<u8>)>) {
        self.found = version;
    }

    /// What was found just now, if it lies at `at`. Only the next write learns it: while that waits
    /// the snapshot may be let go.
    pub(super) fn take_found(&mut self, at: RowId) -> Option<(RowId, Vec<u8>)> {
        self.found.take().filter(|(found, _)| *found == at)
    }

    /// The caller names the row that is written next so.
    pub(super) fn names(&mut self, row: RowId) {
        self.last = self.reads_no_more.then_some(row);
    }

    /// Waits until it is the statement's turn to write the row: see [`Transaction::wait_to_write`].
    pub(super) fn wait_to_write(&mut self, wait: RowWait) -> Result<RowWaitResult> {
        if !self.reads_no_more {
            return self.txn.wait_to_write(wait, ReleasableReads::default());
        }
        // They keep the snapshot from becoming too old; one that can is not let go.
        let holds = self.holds.take().filter(|_| self.snapshot().may_expire());
        let named_row = self.last.map(|row| RowVersion { table: wait.version.table, row });
        let reads = ReleasableReads { snapshot: Some(&mut self.snapshot), named_row };
        let waited = self.txn.wait_to_write(wait, reads);
        self.holds = holds;
        waited
    }

    /// Index pages that a write needs are read one at a time, when their turn comes.
    pub fn read_serially(&mut self) {
        self.reads_ahead = false;
    }

    /// Are index pages that a write needs read ahead?
    pub(crate) fn reads_ahead(&self) -> bool {
        self.reads_ahead
    }

    /// Lets `work` lock rows; does with those that are busy as `busy` says.
    pub(super) fn when_busy<T>(&mut self, busy: Busy, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.busy, busy);
        self.only_locks = true;
        let done = work(self);
        (self.busy, self.only_locks) = (before, false);
        done
    }

    /// Does it lock rows now, and change none?
    pub(super) fn only_locks(&self) -> bool {
        self.only_locks
    }

    /// What to do about a busy row.
    pub(super) fn busy(&self) -> Busy {
        self.busy
    }

    /// The transaction.
    pub fn txn(&mut self) -> &mut Transaction {
        self.txn
    }

    /// Runs one write. If it does not succeed, everything that the statement has written is undone:
    /// also when `work` panics, in case the caller catches that and commits.
    pub(crate) fn write<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.failed.is_some() {
            return Err(Error::TransactionAborted);
        }
        let mut under_way = UnderWay { statement: self, ended: false };
        let result = work(under_way.statement);
        under_way.ended = true;
        let statement = &mut *under_way.statement;
        match result {
            Err(error) => {
                statement.fail(&error);
                Err(error)
            }
            // A write inside this one has failed, and its error was dropped.
            done => statement.check().and(done),
        }
    }

    /// Undoes the statement because of `error`, unless that was done before.
    pub(crate) fn fail(&mut self, error: &Error) {
        if self.failed.is_some() {
            return;
        }
        self.failed = Some(error.clone());
        // A panic may have come between a wait for a row and the write of it.
        self.txn.finish_row_wait(None);
        self.txn.rollback_statement();
    }

    /// Undoes a statement that is dropped before its end. If it has no error of its own by then,
    /// only a caller that caught a panic half way sees this one.
    pub(crate) fn fail_unended(&mut self) {
        self.fail(&Error::Invalid("a panic ended the statement".into()));
    }

    /// Fails with the error that the statement was undone for.
    pub(crate) fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

/// A write that has begun.
struct UnderWay<'s, 't> {
    statement: &'s mut Statement<'t>,
    ended: bool,
}

impl Drop for UnderWay<'_, '_> {
    fn drop(&mut self) {
        if !self.ended {
            self.statement.fail_unended();
        }
    }
}
