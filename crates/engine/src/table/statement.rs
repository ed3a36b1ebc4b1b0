//! A running statement: the transaction it belongs to and the snapshot it reads by.
//!
//! Invariants: all writes of a statement carry one xid, so that an error in the middle undoes all
//! of it by aborting that xid; after such an error the statement takes no more writes. Its snapshot
//! does not see its own writes (no Halloween).
//! Does not do: savepoints and ends of transactions.

use rightlink_env::sync::Arc;

use crate::error::{Error, Result};
use crate::txn::{Hold, Snapshot, Transaction};

/// What to do about a row that a running transaction has changed or locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Busy {
    /// Wait for its end.
    #[default]
    Wait,
    /// Fail with a conflict at once.
    Fail,
    /// Leave the row out.
    Skip,
}

/// Context of everything a statement does to tables.
pub struct Statement<'t> {
    txn: &'t mut Transaction,
    snapshot: Arc<Snapshot>,
    failed: bool,
    reads_ahead: bool,
    busy: Busy,
    /// Rows are locked and not changed, so that several may have what they wait for at once.
    only_locks: bool,
    /// Writes rely on the snapshot, and on that of the row ids, to the end.
    _holds: (Hold, Option<Hold>),
}

impl<'t> Statement<'t> {
    /// Begins the next statement of `txn`.
    pub fn begin(txn: &'t mut Transaction) -> Result<Self> {
        let snapshot = txn.begin_statement()?;
        let _holds = txn.hold(&snapshot)?;
        let (busy, only_locks) = (Busy::Wait, false);
        Ok(Self { txn, snapshot, failed: false, reads_ahead: true, busy, only_locks, _holds })
    }

    /// What the statement sees.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
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

    /// Runs one write. If it fails, everything the statement has written is undone.
    pub(crate) fn write<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.failed {
            return Err(Error::TransactionAborted);
        }
        let result = work(self);
        if result.is_err() {
            self.failed = true;
            self.txn.rollback_statement();
        }
        result
    }
}
