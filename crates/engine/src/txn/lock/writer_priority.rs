//! Priority of a waiting writer over transactions that come to share its row.
//!
//! Sharers do not conflict with each other. If they came and went without regard for a waiting
//! writer, one might always be there, and the writer would starve. So a writer that meets sharers
//! claims the row until it has it or gives up. A transaction that wants to share the row meanwhile
//! waits for that, unless it has a lock of the row already.
//!
//! Nothing is held that this wait is for, so it must not take part in a deadlock: a wait that would
//! be part of a cycle ends, and the sharer goes before the writer after all.
//!
//! Invariants: a transaction claims one row at a time. A sharer that waits behind a writer is woken
//! when the writer releases its claim or ends, or when a cycle is broken up.
//! Does not do: stop sharers that would not wait; order sharers or writers among themselves.

use rightlink_env::Broken;
use std::collections::BTreeSet;

use rightlink_env::points::broken;

use crate::txn::lock::row_lock::{RowLock, RowVersion};
use crate::txn::lock::state::{RowClaim, SharedState, WaitTarget};
use crate::txn::xid::TxnId;

impl SharedState {
    /// From now on the writer `id` waits for the sharers of `row`, which it wants to lock so.
    pub(in crate::txn) fn claim_row(&mut self, id: TxnId, row: RowVersion, wants: RowLock) {
        if self.txn(id).claimed_row == Some(row) {
            return;
        }
        self.release_claim(id);
        self.row_claims.entry(row).or_default().push(RowClaim { writer: id, wants });
        self.txn(id).claimed_row = Some(row);
    }

    /// A writer other than `id` that has claimed `row` and would have to wait for `lock`.
    pub(in crate::txn) fn priority_writer(
        &self,
        id: TxnId,
        row: RowVersion,
        lock: RowLock,
    ) -> Option<TxnId> {
        let claims =
            self.row_claims.get(&row).filter(|_| !broken(Broken::WriterOvertakenBySharers))?;
        let mut others = claims.iter().filter(|claim| claim.writer != id);
        others.find(|claim| !claim.wants.is_compatible(lock)).map(|claim| claim.writer)
    }

    /// `id` waits until `writer` has the row that it claims, or gives up.
    pub(in crate::txn) fn wait_behind_writer(&mut self, id: TxnId, writer: TxnId) {
        self.txn(writer).sharers_behind.push(id);
        self.txn(id).wait = Some(WaitTarget::PriorityWriter(writer));
    }

    /// `id` has the row that it claimed, or does not want it any more.
    pub(in crate::txn) fn release_claim(&mut self, id: TxnId) {
        let Some(row) = self.txn(id).claimed_row.take() else { return };
        if let Some(claims) = self.row_claims.get_mut(&row) {
            claims.retain(|claim| claim.writer != id);
            if claims.is_empty() {
                self.row_claims.remove(&row);
            }
        }
        for sharer in std::mem::take(&mut self.txn(id).sharers_behind) {
            self.wake(sharer);
        }
    }

    /// `id` does not wait behind `writer` any more.
    pub(in crate::txn) fn stop_waiting_behind(&mut self, id: TxnId, writer: TxnId) {
        self.txn(writer).sharers_behind.retain(|sharer| *sharer != id);
    }

    /// Ends all waits behind writers that `id` waits for, directly or through others, its own wait
    /// included. Returns how many there were.
    pub(in crate::txn) fn waive_priority(&mut self, id: TxnId) -> usize {
        let (mut seen, mut open) = (BTreeSet::new(), vec![id]);
        while let Some(node) = open.pop() {
            if seen.insert(node) {
                open.extend(self.blockers(node));
            }
        }
        let mut waived = 0;
        for node in seen {
            if let Some(WaitTarget::PriorityWriter(writer)) = self.txn(node).wait {
                self.stop_waiting_behind(node, writer);
                self.wake(node);
                waived += 1;
            }
        }
        waived
    }
}
