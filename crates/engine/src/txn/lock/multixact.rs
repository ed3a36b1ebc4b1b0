//! Row locks with several holders: multixacts, in memory.
//!
//! One xid in the row's xmax cannot tell that several transactions share the row, or that a lock is
//! older than a change of the row. The xmax then names a *multixact*: an xid under which the
//! holders and their locks are noted here. A row whose multixact is unknown is not locked.
//!
//! A multixact of sharers has an xid of its own, from the transaction of the newest member. It
//! counts the rows that name it, so that it is dropped with the last one. A multixact that keeps
//! older locks has the xid of the statement that changed the row. Those locks hold on the new
//! version at once, and on the old one if the statement is aborted.
//!
//! Invariants: a multixact of sharers never gains a member. One that keeps locks holds those of all
//! rows that its statement changed. A member counts while its statement is in progress. A row is
//! counted before it names the multixact and until its xmax changes. Pruned rows stay counted, so
//! the count may be too high, never too low.
//! Does not do: waiting; writer priority (`writer_priority`).
//! PostgreSQL keeps multixacts on disk; here a crash releases all row locks.

use rightlink_env::Broken;
use std::collections::BTreeSet;

use rightlink_env::points::broken;

use crate::error::{Error, Result};
use crate::ids::Xid;
use crate::txn::lock::row_lock::Locker;
use crate::txn::lock::state::{MultiXact, SharedState};
use crate::txn::xid::TxnId;
use crate::txn::xid::set::XidSet;

/// Most multixacts at a time: about a hundred bytes each.
const MAX_MULTIXACTS: usize = if cfg!(feature = "shuttle") { 64 } else { 1 << 17 };

/// Does the new version of a changed row name the multixact, too?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewVersionLocks {
    /// The locks do not forbid the change, so they hold on for the new version.
    Carried,
    /// They hold again only if the statement is undone.
    OldVersionOnly,
}

impl SharedState {
    /// The members of `multixact` that are still running.
    pub(in crate::txn) fn multixact_members(&self, multixact: Xid) -> Vec<Locker> {
        let Some(known) = self.multixacts.all.get(&multixact.0) else {
            return self.restored.members(multixact);
        };
        let members = &known.members;
        let counted = if broken(Broken::LockGroupForgetsMembers) {
            &members[members.len() - 1..]
        } else {
            members
        };
        let runs = |member: &&Locker| self.xids.live_owner(member.xid.0).is_some();
        counted.iter().filter(runs).copied().collect()
    }

    /// Notes that `members` share a row that names `multixact` from now on, an xid of `owner`.
    pub(in crate::txn) fn create_multixact(
        &mut self,
        owner: TxnId,
        multixact: Xid,
        members: &[Locker],
    ) -> Result<()> {
        self.add_members(owner, multixact.0, members)?.rows += 1;
        Ok(())
    }

    /// Notes that `members` lock a version that the statement `statement` of `owner` has replaced
    /// or deleted. Earlier members stay.
    pub(in crate::txn) fn keep_row_locks(
        &mut self,
        owner: TxnId,
        statement: Xid,
        members: &[Locker],
        new_version: NewVersionLocks,
    ) -> Result<()> {
        let known = self.add_members(owner, statement.0, members)?;
        known.keeps_old_locks = true;
        known.rows += u64::from(new_version == NewVersionLocks::Carried);
        Ok(())
    }

    /// A row that named `multixact` does not name it any more.
    pub(in crate::txn) fn remove_row(&mut self, multixact: Xid) {
        if let Some(known) = self.multixacts.all.get_mut(&multixact.0) {
            known.rows = known.rows.saturating_sub(1);
            self.drop_if_unnamed(multixact.0);
        }
    }

    /// Drops `multixact`, an xid of `owner`, if no other running transaction is a member.
    pub(in crate::txn) fn drop_if_unshared(&mut self, owner: TxnId, multixact: Xid) {
        let Some(known) = self.multixacts.all.get(&multixact.0) else { return };
        let is_other =
            |member: &Locker| self.xids.live_owner(member.xid.0).is_some_and(|it| it != owner);
        if !known.members.iter().any(is_other) {
            self.drop_multixact(multixact.0);
            self.txn(owner).multixacts.remove(&multixact.0);
        }
    }

    fn add_members(
        &mut self,
        owner: TxnId,
        multixact: u64,
        members: &[Locker],
    ) -> Result<&mut MultiXact> {
        let all = &self.multixacts.all;
        if all.len() >= MAX_MULTIXACTS && !all.contains_key(&multixact) {
            let what = format!("more than {MAX_MULTIXACTS} sets of shared or older row locks");
            return Err(Error::Limit(what));
        }
        for owner in self.owners_of(members).chain([owner]).collect::<Vec<TxnId>>() {
            self.txn(owner).multixacts.insert(multixact);
        }
        let known = self.multixacts.all.entry(multixact).or_default();
        for member in members {
            if !known.members.contains(member) {
                known.members.push(*member);
            }
        }
        Ok(known)
    }

    /// The running transactions of `members`, those with an aborted statement included.
    fn owners_of(&self, members: &[Locker]) -> impl Iterator<Item = TxnId> {
        members.iter().filter_map(|member| self.xids.owner(member.xid.0)).map(|(owner, _)| owner)
    }

    /// The transaction that owned `xids` has ended and was a member of `multixacts`. Drops those
    /// without a running member, and those that only its statements needed if it has `committed`.
    pub(in crate::txn) fn release_multixacts(
        &mut self,
        multixacts: BTreeSet<u64>,
        xids: &XidSet,
        committed: bool,
    ) {
        for multixact in multixacts {
            let Some(known) = self.multixacts.all.get_mut(&multixact) else { continue };
            if committed && xids.find(multixact).is_some_and(|run| !run.is_aborted(multixact)) {
                known.keeps_old_locks = false;
            }
            let members = &self.multixacts.all[&multixact].members;
            if members.iter().all(|member| self.xids.live_owner(member.xid.0).is_none()) {
                self.drop_multixact(multixact);
            } else {
                self.drop_if_unnamed(multixact);
            }
        }
    }

    fn drop_if_unnamed(&mut self, multixact: u64) {
        let known = &self.multixacts.all[&multixact];
        if known.rows == 0 && !known.keeps_old_locks {
            self.drop_multixact(multixact);
        }
    }

    fn drop_multixact(&mut self, multixact: u64) {
        let Some(dropped) = self.multixacts.all.remove(&multixact) else { return };
        for owner in self.owners_of(&dropped.members).collect::<Vec<TxnId>>() {
            self.txn(owner).multixacts.remove(&multixact);
        }
    }
}
