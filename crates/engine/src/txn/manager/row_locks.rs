//! Row locks with several holders, and claims of rows, under the manager's lock.
//!
//! Invariants: none of these waits for a latch, so callers may hold one.
//! Does not do: more than take the lock (`lock::multixact`, `lock::writer_priority`).

use crate::error::Result;
use crate::ids::Xid;
use crate::txn::lock::multixact::NewVersionLocks;
use crate::txn::lock::row_lock::{Locker, RowLock, RowVersion};
use crate::txn::manager::TxnManager;
use crate::txn::xid::TxnId;

impl TxnManager {
    /// The members of `multixact` that are still running: they lock the rows that name it.
    pub fn multixact_members(&self, multixact: Xid) -> Vec<Locker> {
        self.state.lock().multixact_members(multixact)
    }

    /// Notes that `members` share a row that names `multixact` from now on, an xid of `owner`.
    pub(in crate::txn) fn create_multixact(
        &self,
        owner: TxnId,
        multixact: Xid,
        members: &[Locker],
    ) -> Result<()> {
        self.state.lock().create_multixact(owner, multixact, members)
    }

    /// Counts one more row that names `multixact`. False: it is gone, as no row named it.
    pub(in crate::txn) fn try_reuse_multixact(&self, multixact: Xid) -> bool {
        self.state.lock().multixacts.try_add_row(multixact)
    }

    /// A row that named `multixact` does not name it any more.
    pub(in crate::txn) fn release_multixact(&self, multixact: Xid) {
        self.state.lock().remove_row(multixact);
    }

    /// Notes that `members` lock a version that the statement `statement` of `owner` has replaced
    /// or deleted.
    pub(in crate::txn) fn keep_row_locks(
        &self,
        owner: TxnId,
        statement: Xid,
        members: &[Locker],
        new_version: NewVersionLocks,
    ) -> Result<()> {
        self.state.lock().keep_row_locks(owner, statement, members, new_version)
    }

    /// Drops `multixact`, an xid of `owner`, if no other running transaction is a member.
    pub(in crate::txn) fn drop_if_unshared(&self, owner: TxnId, multixact: Xid) {
        self.state.lock().drop_if_unshared(owner, multixact);
    }

    /// From now on the writer `id` waits for the sharers of `row`, which it wants to lock so.
    pub(in crate::txn) fn claim_row(&self, id: TxnId, row: RowVersion, wants: RowLock) {
        self.state.lock().claim_row(id, row, wants);
    }

    /// Does a writer claim `row` that would have to wait for `lock`?
    pub(in crate::txn) fn has_priority_writer(
        &self,
        id: TxnId,
        row: RowVersion,
        lock: RowLock,
    ) -> bool {
        self.state.lock().priority_writer(id, row, lock).is_some()
    }

    /// How many multixacts there are.
    #[cfg(test)]
    pub(crate) fn multixact_count(&self) -> usize {
        self.state.lock().multixacts.count()
    }

    /// Most multixacts that a running transaction lists.
    #[cfg(test)]
    pub(crate) fn most_multixacts_listed(&self) -> usize {
        let state = self.state.lock();
        state.running.values().map(|txn| txn.multixacts.len()).max().unwrap_or(0)
    }
}
