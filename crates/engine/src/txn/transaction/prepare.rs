//! Preparing a transaction, deciding it later, and making it run again after a restart.
//!
//! Invariants: a prepared transaction has no snapshot, and nobody can cancel it.
//! Does not do: keep its state (`catalog`), what it holds meanwhile (`lock::prepared`).

use rightlink_env::sync::{Arc, Ordering};

use crate::error::{Error, Result};
use crate::ids::{Lsn, ObjectId, Xid};
use crate::txn::lock::prepared::{PreparedLock, PreparedState, SharedRows};
use crate::txn::lock::row_lock::RowLock;
use crate::txn::lock::state::Isolation;
use crate::txn::lock::table_lock::ModeSet;
use crate::txn::manager::TxnManager;
use crate::txn::transaction::Transaction;

impl TxnManager {
    /// Makes a prepared transaction of the process before run again. For the opening of a database,
    /// while nothing else runs.
    ///
    /// # Errors
    /// `Corruption` if the state is none that a prepared transaction can have.
    pub fn restore(self: &Arc<Self>, saved: &PreparedState) -> Result<Transaction> {
        let (id, xids) = self.adopt(saved)?;
        let mut txn = Transaction::new(Arc::clone(self), id, Isolation::ReadCommitted);
        (txn.used, txn.xids) = (xids.end(), xids);
        let modes = |lock: &PreparedLock| Some((lock.table, ModeSet::from_bits(lock.modes)?));
        txn.table_locks = saved.tables.iter().filter_map(modes).collect();
        txn.shared_rows = saved.shared;
        // The state does not tell.
        txn.defines = true;
        Ok(txn)
    }
}

impl Transaction {
    /// Notes that the statement is about to lock a row. Not later: a transaction that shares the
    /// row may have ended by then, and the first running xid be above its xids.
    pub fn note_row_lock(&mut self, lock: RowLock) {
        if lock < RowLock::Exclusive {
            let since = || Xid(self.manager.finished_below.load(Ordering::Acquire));
            let before = self.shared_rows.unwrap_or_else(|| SharedRows { lock, since: since() });
            self.shared_rows = Some(SharedRows { lock: lock.max(before.lock), ..before });
        }
    }

    /// The part of the transaction that the catalog has to keep.
    pub fn prepared_state(&self) -> Result<PreparedState> {
        let mut state = PreparedState { shared: self.shared_rows, ..PreparedState::default() };
        self.xids.for_each_live(self.used, |range| {
            state.xids.push(range);
            Ok(())
        })?;
        let lock = |(table, modes): &(ObjectId, ModeSet)| PreparedLock {
            table: *table,
            modes: modes.bits(),
        };
        state.tables = self.table_locks.iter().map(lock).collect();
        Ok(state)
    }

    /// Ends its statements, savepoints and snapshots: the catalog keeps its state durably. What it
    /// does from here on sees what is committed then.
    pub fn become_prepared(&mut self) {
        self.forget_kept_locks();
        (self.statement, self.last_multixact) = (None, None);
        self.isolation = Isolation::ReadCommitted;
        (self.registered, self.last_snapshot, self.handed_out) = (None, None, None);
        (self.only_row, self.moved_to) = (None, None);
        self.savepoints.clear();
        // Those who could cancel it cannot any more.
        self.cancelled = Arc::default();
        self.set_prepared(true);
    }

    /// A prepared transaction does not keep the database from being closed. One that is being
    /// committed does.
    pub fn set_prepared(&mut self, prepared: bool) {
        self.manager.state.lock().txn(self.id).prepared = prepared;
    }

    /// As [`Transaction::commit`], but after an error the transaction goes on; after
    /// [`Error::Poisoned`] its outcome is unknown, and it stays in progress.
    pub fn commit_prepared(&mut self) -> Result<Lsn> {
        let committed = self.manager.try_commit(&self.ending(), false);
        if matches!(&committed, Ok(_) | Err(Error::Poisoned(_))) {
            self.ended = true;
        }
        committed
    }

    /// It is not known whether the catalog keeps its state: it stays in progress for good.
    pub fn leave_in_doubt(mut self) {
        self.ended = true;
    }
}
