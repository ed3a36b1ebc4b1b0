//! What a transaction sees: a commit number, the own xids, and where the own statement begins.
//!
//! Invariants: (R9) a snapshot is taken and registered under one lock, and registered until the
//! last `Snapshot` that came from it is dropped; the pruner copies the set under the same lock. Own
//! xids count up to a bound, so a statement never sees its own changes. One that may become too old
//! says so (`check`) to whoever asks after reading: it is marked before it is deregistered, so what
//! was read before an unmarked answer is sound. While a statement writes by it, it cannot.
//! Does not do: tuple visibility (`heap` asks about xmin and xmax).

use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::ids::{Csn, Xid};
use crate::txn::lock::row_wait_queue::Anchor;
use crate::txn::lock::state::{State, TxnId};
use crate::txn::manager::TxnManager;
use crate::txn::manager::outcome::Status;
use crate::txn::xid::set::OwnSet;

/// A registered point in the order of commits.
pub(in crate::txn) struct View {
    manager: Arc<TxnManager>,
    csn: u64,
    xmin: u64,
    xmax: u64,
    /// Its number among those that may become too old, and whether it has.
    aging: Option<(u64, Arc<AtomicBool>)>,
    /// Not registered any more.
    retired: bool,
}

impl View {
    /// Takes and registers a snapshot of now, for the transaction `by`.
    pub(in crate::txn) fn take(manager: &Arc<TxnManager>, by: TxnId, may_age: bool) -> Arc<View> {
        let ages = may_age && manager.options.max_snapshot_age.is_some();
        let taken = ages.then(|| manager.options.clock.now());
        let mut state = manager.state.lock();
        let (csn, xmin) = match broken("r9-register") {
            false => state.register(by),
            true => {
                let now = state.now();
                drop(state);
                rightlink_env::thread::yield_now();
                state = manager.state.lock();
                state.register_at(now, by);
                now
            }
        };
        let xmax = state.next;
        let aging = taken.map(|taken| {
            let expired = Arc::new(AtomicBool::new(false));
            (state.age(csn, taken, Arc::clone(&expired)), expired)
        });
        drop(state);
        Arc::new(View { manager: Arc::clone(manager), csn, xmin, xmax, aging, retired: false })
    }

    /// What `anchor` sees, registered already.
    pub(in crate::txn) fn of(anchor: &Anchor, manager: &Arc<TxnManager>) -> Arc<View> {
        let Anchor { csn, xmin, xmax, .. } = *anchor;
        let manager = Arc::clone(manager);
        Arc::new(View { manager, csn, xmin, xmax, aging: None, retired: false })
    }

    /// Can it become too old?
    pub(in crate::txn) fn ages(&self) -> bool {
        self.aging.is_some()
    }

    /// Deregisters those that nobody else has.
    pub(in crate::txn) fn retire(views: &mut Vec<Arc<View>>, state: &mut State) {
        for mut view in views.drain(..).filter_map(Arc::into_inner) {
            assert!(!view.ages(), "what can become too old is kept");
            state.deregister(view.csn);
            view.retired = true;
        }
    }

    /// Fails if it has become too old.
    pub(in crate::txn) fn check(&self) -> Result<()> {
        match &self.aging {
            Some((_, expired)) if expired.load(Ordering::SeqCst) => Err(self.too_old()),
            _ => Ok(()),
        }
    }

    /// Keeps it from becoming too old, which it must not be yet.
    pub(in crate::txn) fn hold(view: &Arc<View>) -> Result<Hold> {
        if let Some((number, _)) = &view.aging {
            let mut state = view.manager.state.lock();
            let Some(aging) = state.aging.get_mut(number) else { return Err(view.too_old()) };
            aging.held += 1;
        }
        Ok(Hold(Arc::clone(view)))
    }

    fn too_old(&self) -> Error {
        let limit = self.manager.options.max_snapshot_age.unwrap_or_default();
        Error::SnapshotTooOld { limit }
    }
}

/// The snapshot does not become too old while this lives.
pub struct Hold(Arc<View>);

impl Drop for Hold {
    fn drop(&mut self) {
        let Some((number, _)) = &self.0.aging else { return };
        if let Some(aging) = self.0.manager.state.lock().aging.get_mut(number) {
            aging.held -= 1;
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if self.retired {
            return;
        }
        let mut state = self.manager.state.lock();
        if let Some((number, _)) = &self.aging
            && state.aging.remove(number).is_none()
        {
            return;
        }
        if state.deregister(self.csn) {
            self.manager.refresh(&state);
        }
    }
}

/// A snapshot: a commit number, the own xids, and the own statement. Registered until dropped (R9).
pub struct Snapshot {
    view: Arc<View>,
    own: Arc<OwnSet>,
    bound: u64,
    /// Do all statements of its transaction read by the same view?
    repeatable: bool,
}

impl Snapshot {
    /// What `view` shows, and those of `own` that are below `bound`.
    pub(in crate::txn) fn new(view: Arc<View>, own: Arc<OwnSet>, bound: u64) -> Snapshot {
        Snapshot { view, own, bound, repeatable: false }
    }

    /// The same, of a transaction whose statements all read by this view.
    pub(in crate::txn) fn repeatable(self) -> Snapshot {
        Snapshot { repeatable: true, ..self }
    }

    /// Is it what a statement that begins at `bound` sees by `view`, as long as its transaction was
    /// given no further xids?
    pub(in crate::txn) fn is(&self, view: &Arc<View>, bound: u64) -> bool {
        Arc::ptr_eq(&self.view, view) && self.bound == bound
    }

    /// Can it become too old?
    pub fn can_age(&self) -> bool {
        self.view.ages()
    }

    /// Its registration and its bound, if nobody else has it.
    pub(in crate::txn) fn into_parts(self) -> (Arc<View>, u64) {
        (self.view, self.bound)
    }

    /// Its registration.
    pub(in crate::txn) fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// Fails if it has become too old. What was read by it before is sound if this succeeds.
    pub fn check(&self) -> Result<()> {
        self.view.check()
    }

    /// Is the work of `xid` visible? Own statements before this snapshot's are, its own is not.
    pub fn sees(&self, xid: Xid) -> Result<bool> {
        match self.known(xid) {
            Some(seen) => Ok(seen),
            None => Ok(self.judge(self.view.manager.status(xid)?)),
        }
    }

    /// As [`Snapshot::sees`], without I/O: `None` if a status page would have to be read first.
    pub fn try_sees(&self, xid: Xid) -> Option<bool> {
        self.known(xid).or_else(|| Some(self.judge(self.view.manager.try_status(xid)?)))
    }

    /// The manager that took it.
    pub fn manager(&self) -> &Arc<TxnManager> {
        &self.view.manager
    }

    /// Its commit number: it sees commits up to and with this one.
    pub fn csn(&self) -> Csn {
        Csn(self.view.csn)
    }

    /// Every xid below was finished when it was taken.
    pub fn xmin(&self) -> Xid {
        Xid(self.view.xmin)
    }

    /// First xid not handed out when it was taken: none from here on is seen, the own ones
    /// excepted.
    pub fn xmax(&self) -> Xid {
        Xid(self.view.xmax)
    }

    /// Is `xid` one of its transaction's own, whatever became of it?
    pub fn is_own(&self, xid: Xid) -> bool {
        self.own.find(xid.0).is_some()
    }

    /// The newest statement of its own transaction that it sees. As long as that is not undone,
    /// nothing is that it sees: a return to a savepoint undoes what came last.
    pub fn newest_own(&self) -> Option<Xid> {
        self.own.last_live(self.bound).map(Xid)
    }

    /// Can it see two rows under one unique key? Uniqueness holds for what is there at one moment,
    /// and a snapshot shows two moments: the one when its view was taken, and the present in which
    /// its own transaction has written since. So it can if the transaction keeps its view from
    /// statement to statement, and has written. The two rows are then one that another transaction
    /// deleted, or gave another key, since the view was taken, and one that took the key after
    /// that, which the own transaction wrote. There is never a third: two that others wrote, or two
    /// own ones, would have been there at one moment.
    pub fn may_see_key_twice(&self) -> bool {
        self.repeatable && self.newest_own().is_some() && !broken("key-twice")
    }

    /// The answers that need no status.
    fn known(&self, xid: Xid) -> Option<bool> {
        if let Some(run) = self.own.find(xid.0) {
            let before = xid.0 < self.bound || broken("statement-bound");
            return Some(before && !run.is_aborted(xid.0));
        }
        if xid == Xid::FROZEN {
            return Some(true);
        }
        (xid.0 >= self.view.xmax).then_some(false)
    }

    fn judge(&self, status: Status) -> bool {
        matches!(status, Status::Committed(csn) if csn.0 <= self.view.csn)
    }
}

/// The live snapshots at one moment (R9), the one that could be taken at that moment included:
/// later ones have a commit number at least as large as the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSet {
    /// Commit numbers, ascending, each once. Never empty.
    pub csns: Vec<Csn>,
    /// For each commit number, the smallest xmin of its snapshots.
    pub xmins: Vec<Xid>,
    /// The horizon at that moment.
    pub horizon: Xid,
}

impl SnapshotSet {
    /// Could a snapshot, live or to come, see a version created by commit `created` and replaced by
    /// commit `deleted`? Only one in between can.
    pub fn sees_between(&self, created: Csn, deleted: Csn) -> bool {
        let at = self.csns.partition_point(|csn| *csn < created);
        match self.csns.get(at) {
            Some(csn) => *csn < deleted,
            // Created after this set was taken: whatever comes later may see it.
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_snapshot_in_between_sees_a_replaced_version() {
        let set = SnapshotSet {
            csns: vec![Csn(5), Csn(9), Csn(20)],
            xmins: vec![Xid(1); 3],
            horizon: Xid(1),
        };
        assert!(set.sees_between(Csn(5), Csn(6)) && set.sees_between(Csn(2), Csn(6)));
        assert!(!set.sees_between(Csn(6), Csn(9)) && !set.sees_between(Csn(10), Csn(20)));
        assert!(set.sees_between(Csn(20), Csn(21)) && set.sees_between(Csn(21), Csn(22)));
    }
}
