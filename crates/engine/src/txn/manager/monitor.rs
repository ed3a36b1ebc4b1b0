//! What people ask about transactions: which run, what they lock and wait for, their snapshots, and
//! counters.
//!
//! Invariants: each answer is copied under the manager's lock, so it is of one moment.
//! Does not do: text or tables for a screen (`db`, SQL).

use std::time::Duration;

use rightlink_env::Nanos;
use rightlink_env::sync::{AtomicU64, Ordering};

use crate::ids::{ObjectId, Xid};
use crate::txn::lock::state::{ActiveTxn, SharedState, WaitTarget};
use crate::txn::lock::table_lock::{LockMode, TableLockEntry};
use crate::txn::manager::TxnManager;
use crate::txn::xid::TxnId;

/// Events since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxnCounters {
    /// Transactions that committed, read-only ones included.
    pub commits: u64,
    /// Transactions that rolled back.
    pub aborts: u64,
    /// Rows that another transaction had changed.
    pub conflicts: u64,
    /// Rows that another transaction had locked, in statements that do not wait for locks.
    pub locked: u64,
    /// Waits refused because they would have closed a cycle of waits.
    pub deadlocks: u64,
    /// Waits for another transaction or a table lock.
    pub waits: u64,
    /// Time that finished waits took.
    pub waited: Duration,
    /// Waits that were given up: timeouts and requests to cancel.
    pub given_up: u64,
}

/// A lock that is held or waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockState {
    /// The locked object.
    pub what: LockTarget,
    /// Number of the transaction that holds it or waits.
    pub transaction: u64,
    /// Its strength.
    pub mode: LockMode,
    /// Held, or else waited for.
    pub granted: bool,
    /// Numbers of the transactions that are waited for.
    pub blocked_by: Vec<u64>,
}

/// An object that is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockTarget {
    /// A table.
    Table(ObjectId),
    /// The transaction with this number, which has a row: its end is waited for.
    Transaction(u64),
}

/// A running transaction, for people.
#[derive(Clone, Debug)]
pub struct RunningTxn {
    /// Number in this process.
    pub id: u64,
    /// What it waits for now.
    pub waits_for: Option<WaitsFor>,
}

/// Snapshots that hold garbage back, for people: those taken between the same two commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveSnapshot {
    /// The transaction that took the first of them.
    pub id: u64,
    /// When that transaction began, by the manager's clock.
    pub since: Nanos,
    /// How many there are.
    pub count: usize,
    /// Commits that they do not see.
    pub commits_since: u64,
    /// Rows that xids from this one on ended stay, unless no snapshot sees them.
    pub xmin: Xid,
}

/// What a transaction waits for, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitsFor {
    /// The end of the transaction with the number `id`, or of its statement `xid`.
    Transaction {
        /// The awaited xid; none if the two want to write the same row, and the other one goes
        /// first.
        xid: Xid,
        /// Number of its transaction.
        id: u64,
    },
    /// A table lock.
    Table {
        /// The table.
        table: ObjectId,
        /// The mode asked for.
        mode: LockMode,
    },
}

impl TxnManager {
    /// The running transactions, oldest first.
    pub fn running(&self) -> Vec<RunningTxn> {
        let state = self.state.lock();
        state.running.iter().map(|(id, txn)| describe(&state, *id, txn)).collect()
    }

    /// Numbers of the transactions that hold `mode` of `table`, or a mode that covers it.
    pub fn holders(&self, table: ObjectId, mode: LockMode) -> Vec<u64> {
        self.state.lock().table_locks.holders(table, mode).into_iter().map(|txn| txn.0).collect()
    }

    /// Table locks that are held, and all waits.
    pub fn locks(&self) -> Vec<LockState> {
        let state = self.state.lock();
        let mut all = Vec::new();
        for TableLockEntry { table, txn, mode, granted } in state.table_locks.all() {
            let what = LockTarget::Table(table);
            let blocked_by = if granted { Vec::new() } else { numbers(state.blockers(txn)) };
            all.push(LockState { what, transaction: txn.0, mode, granted, blocked_by });
        }
        for (id, running) in &state.running {
            let owner = match running.wait {
                Some(WaitTarget::Xid { owner, .. } | WaitTarget::PriorityWriter(owner)) => owner,
                Some(WaitTarget::RowQueue(queue)) => state.blocker(queue).owner(),
                _ => continue,
            };
            let (what, blocked_by) = (LockTarget::Transaction(owner.0), vec![owner.0]);
            let (transaction, mode) = (id.0, LockMode::Share);
            all.push(LockState { what, transaction, mode, granted: false, blocked_by });
        }
        all
    }

    /// Removes from `transactions`, which are numbers, those that have ended.
    pub fn still_running(&self, transactions: &mut Vec<u64>) {
        let state = self.state.lock();
        transactions.retain(|txn| state.running.contains_key(&TxnId(*txn)));
    }

    /// The live snapshots, oldest first.
    pub fn snapshots(&self) -> Vec<LiveSnapshot> {
        let state = self.state.lock();
        let registered = state.snapshots.csns().zip(state.snapshots.points());
        let live = registered.map(|(csn, point)| LiveSnapshot {
            id: point.first_by.0,
            since: point.since,
            count: point.count,
            commits_since: state.csn - csn,
            xmin: Xid(point.xmin),
        });
        live.collect()
    }

    /// What happened so far.
    pub fn counters(&self) -> TxnCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TxnCounters {
            commits: read(&self.counters.commits),
            aborts: read(&self.counters.aborts),
            conflicts: read(&self.counters.conflicts),
            locked: read(&self.counters.locked),
            deadlocks: read(&self.counters.deadlocks),
            waits: read(&self.counters.waits),
            waited: Duration::from_nanos(read(&self.counters.waited_nanos)),
            given_up: read(&self.counters.given_up),
        }
    }
}

fn numbers(transactions: Vec<TxnId>) -> Vec<u64> {
    transactions.into_iter().map(|txn| txn.0).collect()
}

fn describe(state: &SharedState, id: TxnId, txn: &ActiveTxn) -> RunningTxn {
    let waits_for = txn.wait.map(|wait| match wait {
        WaitTarget::Xid { xid, owner } => WaitsFor::Transaction { xid, id: owner.0 },
        WaitTarget::PriorityWriter(writer) => {
            WaitsFor::Transaction { xid: Xid::NONE, id: writer.0 }
        }
        WaitTarget::RowQueue(queue) => {
            let blocker = state.blocker(queue);
            WaitsFor::Transaction { xid: blocker.xid(), id: blocker.owner().0 }
        }
        WaitTarget::TableLock { table, mode } => WaitsFor::Table { table, mode },
    });
    RunningTxn { id: id.0, waits_for }
}
