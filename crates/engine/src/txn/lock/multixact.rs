//! Row locks that one xid in the row cannot tell: several transactions share a row, or a lock is
//! older than a change of the row that it does not forbid, or that its own transaction made.
//!
//! The row then names a *group*: an xid under which it is noted here who locks it, and how. Groups
//! are in memory only, as a lock never outlives the process; a row that names a group which is not
//! here is not locked. A group that shares has an xid of its own, taken for it from the newest
//! member's transaction; one that keeps older locks has the xid of the statement that changed the
//! row. The old version is asked for it once that is aborted, the new one at once.
//!
//! Invariants: a group that shares never changes, who joins makes another; one that keeps has the
//! older locks of all rows that its statement changed, so that now and then somebody waits for more
//! than he must; a member counts for as long as its statement's xid is in progress.
//!
//! A group is dropped when nobody in it runs any more, or when no row names it, so that who shares
//! a row for long, while others come and go, leaves one group behind and not one for each of them.
//! The rows that a group locks are counted; the versions that a statement has ended are not, so its
//! group stays until it has committed, or, if it is undone, until nobody in it runs. The count is
//! never too low: a row is counted before it names the group, and until it has another xmax. It may
//! be too high, as rows that are cleaned away stay counted.
//!
//! Does not do: waiting; fairness: who shares a row passes by those that wait for it alone; take
//! the memory of groups from the budget, their number is limited instead.

use std::collections::{BTreeMap, BTreeSet};

use rightlink_env::points::broken;

use crate::error::{Error, Result};
use crate::ids::Xid;
use crate::txn::lock::state::{State, TxnId};
use crate::txn::manager::TxnManager;
use crate::txn::xid::set::OwnSet;

/// Most groups at a time: about a hundred bytes each.
const MAX_GROUPS: usize = if cfg!(feature = "shuttle") { 64 } else { 1 << 17 };

/// How a row is locked, from the weakest on.
///
/// Compatible (+) and conflicting (-):
///
/// | | KeyShared | Shared | Update | Exclusive |
/// |---|---|---|---|---|
/// | KeyShared | + | + | + | - |
/// | Shared | + | + | - | - |
/// | Update | + | - | - | - |
/// | Exclusive | - | - | - | - |
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum RowLock {
    /// The row stays, with the keys it has in unique indexes; other columns may change. What a
    /// foreign key needs of the row that it refers to.
    KeyShared,
    /// The row stays as it is; others may lock it likewise.
    Shared,
    /// For a change that leaves unique keys alone: what an update takes of itself.
    Update,
    /// For any change, and what a deletion takes.
    #[default]
    Exclusive,
}

impl RowLock {
    /// May two transactions hold `self` and `other` of one row at a time?
    pub fn is_compatible(self, other: RowLock) -> bool {
        use RowLock::{Exclusive, KeyShared, Shared};
        match (self.min(other), self.max(other)) {
            (_, Exclusive) => false,
            (KeyShared, _) => true,
            (one, two) => one == Shared && two == Shared,
        }
    }
}

/// One lock of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Locker {
    /// The statement that took it.
    pub xid: Xid,
    /// How.
    pub lock: RowLock,
}

/// All groups.
#[derive(Default)]
pub(in crate::txn) struct Groups {
    all: BTreeMap<u64, Group>,
}

#[derive(Default)]
struct Group {
    members: Vec<Locker>,
    /// Locked versions that name it, at most.
    rows: u64,
    /// Versions name it that its statement ended: they want it if that is undone.
    keeps: bool,
}

impl TxnManager {
    /// Who locks the rows that name `group`, of those that are still running.
    pub fn lockers(&self, group: Xid) -> Vec<Locker> {
        let state = self.state.lock();
        let Some(group) = state.groups.all.get(&group.0) else { return Vec::new() };
        let members = &group.members;
        let known = if broken("lock-group") { &members[members.len() - 1..] } else { members };
        let runs = |member: &&Locker| state.live_owner(member.xid.0).is_some();
        known.iter().filter(runs).copied().collect()
    }

    /// Notes that `members` share another row, which names `group` from now on; that belongs to
    /// the transaction `id`. No latch is waited for.
    pub(in crate::txn) fn share(&self, id: TxnId, group: Xid, members: &[Locker]) -> Result<()> {
        let mut state = self.state.lock();
        state.join(id, group.0, members)?.rows += 1;
        Ok(())
    }

    /// One more row names `group`; false: it was dropped, as no other did any more.
    pub(in crate::txn) fn share_again(&self, group: Xid) -> bool {
        let mut state = self.state.lock();
        let known = state.groups.all.get_mut(&group.0);
        known.map(|group| group.rows += 1).is_some()
    }

    /// Notes that `members` lock what the statement `group` of the transaction `id` has ended, and,
    /// if that is `carried`, what has replaced it. Who is in it already stays. No latch is waited
    /// for.
    pub(in crate::txn) fn keep(
        &self,
        (id, group): (TxnId, Xid),
        members: &[Locker],
        carried: bool,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let group = state.join(id, group.0, members)?;
        group.keeps = true;
        group.rows += u64::from(carried);
        Ok(())
    }

    /// A row that named `group` as what locks it does so no longer.
    pub(in crate::txn) fn unname(&self, group: Xid) {
        let mut state = self.state.lock();
        if let Some(known) = state.groups.all.get_mut(&group.0) {
            known.rows = known.rows.saturating_sub(1);
            state.drop_unnamed(group.0);
        }
    }

    /// Drops the group `group` of the transaction `id` if nobody else is in it.
    pub(in crate::txn) fn ungroup(&self, id: TxnId, group: Xid) {
        let mut state = self.state.lock();
        let Some(known) = state.groups.all.get(&group.0) else { return };
        let others = |member: &Locker| state.live_owner(member.xid.0).is_some_and(|it| it != id);
        if !known.members.iter().any(others) {
            state.drop_group(group.0);
            state.txn(id).groups.remove(&group.0);
        }
    }

    /// How many groups there are.
    #[cfg(test)]
    pub(crate) fn groups(&self) -> usize {
        self.state.lock().groups.all.len()
    }

    /// Most groups that a running transaction lists.
    #[cfg(test)]
    pub(crate) fn listed_groups(&self) -> usize {
        self.state.lock().running.values().map(|txn| txn.groups.len()).max().unwrap_or(0)
    }
}

impl State {
    fn join(&mut self, id: TxnId, group: u64, members: &[Locker]) -> Result<&mut Group> {
        if self.groups.all.len() >= MAX_GROUPS && !self.groups.all.contains_key(&group) {
            let what = format!("more than {MAX_GROUPS} sets of shared or older row locks");
            return Err(Error::Limit(what));
        }
        for owner in self.owners_of(members).chain([id]).collect::<Vec<TxnId>>() {
            self.txn(owner).groups.insert(group);
        }
        let known = self.groups.all.entry(group).or_default();
        for member in members {
            if !known.members.contains(member) {
                known.members.push(*member);
            }
        }
        Ok(known)
    }

    /// The running transactions of `members`, also of those that are undone.
    fn owners_of(&self, members: &[Locker]) -> impl Iterator<Item = TxnId> {
        members.iter().filter_map(|member| self.owner(member.xid.0)).map(|(owner, _)| owner)
    }

    /// The transaction that had `groups` and the xids `own` has ended: drops those groups in which
    /// nobody runs any more, and those that only its statements needed, as they have `committed`.
    pub(in crate::txn) fn drop_groups(
        &mut self,
        groups: BTreeSet<u64>,
        own: &OwnSet,
        committed: bool,
    ) {
        for group in groups {
            let Some(known) = self.groups.all.get_mut(&group) else { continue };
            if committed && own.find(group).is_some_and(|run| !run.is_aborted(group)) {
                known.keeps = false;
            }
            let members = &self.groups.all[&group].members;
            if members.iter().all(|member| self.live_owner(member.xid.0).is_none()) {
                self.drop_group(group);
            } else {
                self.drop_unnamed(group);
            }
        }
    }

    fn drop_unnamed(&mut self, group: u64) {
        let known = &self.groups.all[&group];
        if known.rows == 0 && !known.keeps {
            self.drop_group(group);
        }
    }

    fn drop_group(&mut self, group: u64) {
        let Some(dropped) = self.groups.all.remove(&group) else { return };
        for owner in self.owners_of(&dropped.members).collect::<Vec<TxnId>>() {
            self.txn(owner).groups.remove(&group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_the_documented_one() {
        use RowLock::{Exclusive, KeyShared, Shared, Update};
        let all = [KeyShared, Shared, Update, Exclusive];
        for (one, row) in all.iter().zip(["+++-", "++--", "+---", "----"]) {
            for (two, sign) in all.iter().zip(row.chars()) {
                assert_eq!(one.is_compatible(*two), sign == '+', "{one:?} {two:?}");
            }
        }
    }
}
