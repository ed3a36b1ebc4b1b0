//! Multixacts of one transaction: the xmax of rows that it locks together with others.
//!
//! Invariants: a multixact counts a row before the row names it. All functions but
//! [`Transaction::new_multixact_xid`] may be called under a latch.
//! Does not do: change rows (`heap`), decide which locks are compatible (`heap`).

use rightlink_env::sync::Ordering;

use crate::error::Result;
use crate::ids::Xid;
use crate::txn::lock::multixact::NewVersionLocks;
use crate::txn::lock::row_lock::Locker;
use crate::txn::transaction::Transaction;

/// The multixact that was created last. Other rows that are locked in the same way may name it.
pub(super) struct LastMultiXact {
    xid: Xid,
    /// The xmax of the row before.
    before: Xid,
    /// The other members. Not implied by `before`: one xid may lock each row that names it in
    /// another way.
    others: Vec<Locker>,
    own: Locker,
}

impl Transaction {
    /// The multixact for a row whose xmax is `before`, which `others` lock and `own` shall lock, if
    /// the last one fits. [`Transaction::try_reuse_multixact`] must be called before the row names
    /// it.
    pub fn reusable_multixact(&self, before: Xid, others: &[Locker], own: Locker) -> Option<Xid> {
        let last = self.last_multixact.as_ref()?;
        let same = last.before == before && last.own == own && last.others == others;
        same.then_some(last.xid)
    }

    /// Takes an xid for another multixact. The caller holds no latch (R7).
    pub fn new_multixact_xid(&mut self) -> Result<Xid> {
        self.xid()?;
        self.next_xid()
    }

    /// Notes that `others` and this statement lock a row whose xmax was `before` and is `multixact`
    /// from now on.
    pub fn create_multixact(
        &mut self,
        multixact: Xid,
        before: Xid,
        others: Vec<Locker>,
        own: Locker,
    ) -> Result<()> {
        assert_eq!(self.statement, Some(own.xid), "a lock has the statement's xid");
        let members: Vec<Locker> = others.iter().copied().chain([own]).collect();
        self.manager.create_multixact(self.id, multixact, &members)?;
        self.last_multixact = Some(LastMultiXact { xid: multixact, before, others, own });
        Ok(())
    }

    /// Counts one more row that names `multixact`, a [`Transaction::reusable_multixact`]. False: it
    /// is gone and the row needs another.
    pub fn try_reuse_multixact(&self, multixact: Xid) -> bool {
        self.manager.try_reuse_multixact(multixact)
    }

    /// A row whose xmax was `multixact` has another xmax now.
    pub fn release_multixact(&self, multixact: Option<Xid>) {
        multixact.into_iter().for_each(|multixact| self.manager.release_multixact(multixact));
    }

    /// Notes that `locks` lock a row that this statement changes. Those of this transaction hold
    /// again if the statement is undone, those of others in any case.
    pub fn keep_row_locks(&self, locks: &[Locker], new_version: NewVersionLocks) -> Result<()> {
        let statement = self.statement.expect("a change has an xid");
        self.manager.keep_row_locks(self.id, statement, locks, new_version)?;
        self.kept_locks_of.store(statement.0, Ordering::Relaxed);
        Ok(())
    }

    /// Forgets the locks that the last statement has kept, if they cannot be needed any more:
    /// without a savepoint, a statement that succeeded is not undone alone.
    pub(super) fn forget_kept_locks(&mut self) {
        let statement = Xid(std::mem::take(self.kept_locks_of.get_mut()));
        if statement != Xid::NONE && self.savepoints.is_empty() && self.owns(statement) {
            self.manager.drop_if_unshared(self.id, statement);
        }
    }
}
