//! The graph of waits: which transactions a transaction waits for, cycles, waits given up.
//!
//! Row waits and table locks are edges of one graph. It is walked when a transaction is about to
//! block, under the lock under which all edges are made. A cycle needs a last edge, so the
//! transaction that would close it finds it, and gets the error instead of the wait.
//!
//! Invariants: a wait that is given up leaves nothing behind.
//! Does not do: choose a cheaper victim; waits for I/O.

use std::collections::BTreeMap;

use crate::error::{ConflictKind, Error};
use crate::txn::lock::state::{Blocker, SharedState, WaitTarget};
use crate::txn::xid::TxnId;

/// A cycle that a transaction would close, without that transaction itself.
#[derive(Clone, Copy)]
pub(in crate::txn) struct WaitCycle {
    /// The transaction that it waits for.
    first: TxnId,
    /// The transaction that waits for it.
    last: TxnId,
}

impl SharedState {
    /// The transactions that `id` waits for.
    pub(in crate::txn) fn blockers(&self, id: TxnId) -> Vec<TxnId> {
        match self.running.get(&id).and_then(|txn| txn.wait) {
            None => Vec::new(),
            Some(WaitTarget::Xid { owner, .. } | WaitTarget::PriorityWriter(owner)) => vec![owner],
            Some(WaitTarget::RowQueue(queue)) => vec![self.blocker(queue).owner()],
            Some(WaitTarget::TableLock { table, .. }) => self.table_locks.blockers(id, table),
        }
    }

    /// A path from `id` back to itself, if there is one.
    pub(in crate::txn) fn find_cycle(&self, id: TxnId) -> Option<WaitCycle> {
        // Value: the direct blocker of `id` that the path went through.
        let mut seen: BTreeMap<TxnId, TxnId> = BTreeMap::new();
        let mut open: Vec<(TxnId, TxnId)> = Vec::new();
        open.extend(self.blockers(id).into_iter().map(|first| (first, first)));
        while let Some((node, first)) = open.pop() {
            if seen.insert(node, first).is_some() {
                continue;
            }
            for next in self.blockers(node) {
                if next == id {
                    return Some(WaitCycle { first, last: node });
                }
                open.push((next, first));
            }
        }
        None
    }

    /// The error for `id`, whose wait would close `cycle`.
    pub(in crate::txn) fn deadlock_error(&self, id: TxnId, cycle: WaitCycle) -> Error {
        let WaitCycle { first, last } = cycle;
        let mut what = format!("{} waits for {}", self.describe(id), self.describe(first));
        if first != last {
            what += &format!(", which through others waits for {}", self.describe(last));
        }
        what += &format!(", which waits for {}", self.describe(id));
        Error::Conflict { kind: ConflictKind::Deadlock, what }
    }

    /// A transaction and what it waits for, for a person.
    fn describe(&self, id: TxnId) -> String {
        let txn = self.running.get(&id);
        let xid =
            txn.and_then(|txn| txn.first_xid).map_or(String::new(), |xid| format!(" (xid {xid})"));
        let wait = match txn.and_then(|txn| txn.wait) {
            None => String::new(),
            Some(WaitTarget::Xid { xid, .. }) => format!(" [wants xid {xid}]"),
            Some(WaitTarget::RowQueue(queue)) => match self.blocker(queue) {
                Blocker::Statement { xid, .. } => format!(" [wants xid {xid}]"),
                Blocker::Grantee(id) => format!(" [wants a row after transaction {}]", id.0),
            },
            Some(WaitTarget::PriorityWriter(writer)) => {
                format!(" [wants to share a row after transaction {}]", writer.0)
            }
            Some(WaitTarget::TableLock { table, mode }) => {
                format!(" [wants {mode:?} on object {}]", table.0)
            }
        };
        format!("transaction {}{xid}{wait}", id.0)
    }

    /// Gives up the wait of `id`.
    pub(in crate::txn) fn cancel_wait(&mut self, id: TxnId) {
        match self.txn(id).wait.take() {
            None => {}
            Some(WaitTarget::Xid { owner, .. }) => self.stop_waiting_for_xid(id, owner),
            Some(WaitTarget::RowQueue(queue)) => self.leave_queue(id, queue),
            Some(WaitTarget::PriorityWriter(writer)) => self.stop_waiting_behind(id, writer),
            Some(WaitTarget::TableLock { table, .. }) => {
                let granted = self.table_locks.withdraw(id, table);
                granted.into_iter().for_each(|granted| self.wake(granted));
            }
        }
    }
}
