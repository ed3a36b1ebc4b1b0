//! What a statement sees: commits up to a number, and earlier statements of its own transaction.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Snapshot`]: visibility of xids |
//! | `registered` | the registration that keeps versions from being pruned (R9), and its expiry |
//! | `set` | all live snapshots at one moment, for the pruner |
//!
//! Invariants: a snapshot sees all commits up to its number and no others. It sees own xids below a
//! bound only, so a statement never sees its own changes (no Halloween problem).
//! Does not do: visibility of tuples (`heap` asks about their xmin and xmax).

pub(in crate::txn) mod registered;
pub(in crate::txn) mod set;

use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::Arc;

use crate::error::Result;
use crate::ids::{Csn, Xid};
use crate::txn::manager::TxnManager;
use crate::txn::snapshot::registered::RegisteredSnapshot;
use crate::txn::status::Status;
use crate::txn::xid::set::XidSet;

/// What a statement sees: commits up to a number, and earlier statements of its own transaction.
/// Registered until dropped (R9).
pub struct Snapshot {
    registered: Arc<RegisteredSnapshot>,
    own_xids: Arc<XidSet>,
    /// Own xids below this one belong to earlier statements.
    own_bound: u64,
    /// All statements of its transaction read by the same registered snapshot.
    repeatable: bool,
}

impl Snapshot {
    /// Sees what `registered` sees, and those of `own_xids` that are below `own_bound`.
    pub(in crate::txn) fn new(
        registered: Arc<RegisteredSnapshot>,
        own_xids: Arc<XidSet>,
        own_bound: u64,
    ) -> Snapshot {
        Snapshot { registered, own_xids, own_bound, repeatable: false }
    }

    /// The same, of a transaction whose statements all read by this registered snapshot.
    pub(in crate::txn) fn repeatable(self) -> Snapshot {
        Snapshot { repeatable: true, ..self }
    }

    /// Is it the snapshot of a statement that reads by `registered` and begins at the own xid
    /// `own_bound`? Holds as long as its transaction was assigned no further xids.
    pub(in crate::txn) fn is_same(
        &self,
        registered: &Arc<RegisteredSnapshot>,
        own_bound: u64,
    ) -> bool {
        Arc::ptr_eq(&self.registered, registered) && self.own_bound == own_bound
    }

    /// May it expire?
    pub fn may_expire(&self) -> bool {
        self.registered.may_expire()
    }

    /// The registered snapshot that it reads by, and its bound of own xids.
    pub(in crate::txn) fn into_parts(self) -> (Arc<RegisteredSnapshot>, u64) {
        (self.registered, self.own_bound)
    }

    /// The registered snapshot that it reads by.
    pub(in crate::txn) fn registered(&self) -> &Arc<RegisteredSnapshot> {
        &self.registered
    }

    /// Fails if it has expired. Rows that were read by it before are sound if this succeeds.
    pub fn check(&self) -> Result<()> {
        self.registered.check()
    }

    /// Is the work of `xid` visible? Work of earlier own statements is, of the own statement not.
    pub fn sees(&self, xid: Xid) -> Result<bool> {
        match self.sees_without_status(xid) {
            Some(seen) => Ok(seen),
            None => Ok(self.includes(self.registered.manager.status(xid)?)),
        }
    }

    /// As [`Snapshot::sees`], without I/O: `None` if a status page would have to be read first.
    pub fn try_sees(&self, xid: Xid) -> Option<bool> {
        self.sees_without_status(xid)
            .or_else(|| Some(self.includes(self.registered.manager.try_status(xid)?)))
    }

    /// The manager of its transaction.
    pub fn manager(&self) -> &Arc<TxnManager> {
        &self.registered.manager
    }

    /// Its commit number: it sees commits up to and with this one.
    pub fn csn(&self) -> Csn {
        Csn(self.registered.point.csn)
    }

    /// Every xid below was finished when it was taken.
    pub fn xmin(&self) -> Xid {
        Xid(self.registered.point.xmin)
    }

    /// Does its own transaction own `xid`, aborted or not?
    pub fn is_own(&self, xid: Xid) -> bool {
        self.own_xids.find(xid.0).is_some()
    }

    /// The newest own statement that it sees. As long as that is not undone, neither is any other
    /// that it sees: a rollback to a savepoint undoes the newest statements.
    pub fn newest_own(&self) -> Option<Xid> {
        self.own_xids.last_live(self.own_bound).map(Xid)
    }

    /// Can it see two rows under one unique key?
    ///
    /// Uniqueness holds at each moment, but a snapshot shows two moments: that of its registered
    /// snapshot, and the present, in which its own transaction has written. Another transaction
    /// deleted one of the two rows or changed its key, and the own transaction then wrote the
    /// other. There is never a third, because two rows of others, or two own ones, would have been
    /// there at one moment.
    pub fn may_see_key_twice(&self) -> bool {
        self.repeatable && self.newest_own().is_some() && !broken(Broken::SecondRowOfKeyMissed)
    }

    /// The answers that need no commit status.
    fn sees_without_status(&self, xid: Xid) -> Option<bool> {
        if let Some(run) = self.own_xids.find(xid.0) {
            let before = xid.0 < self.own_bound || broken(Broken::StatementSeesItself);
            return Some(before && !run.is_aborted(xid.0));
        }
        if xid == Xid::FROZEN {
            return Some(true);
        }
        (xid.0 >= self.registered.xmax).then_some(false)
    }

    fn includes(&self, status: Status) -> bool {
        matches!(status, Status::Committed(csn) if csn.0 <= self.registered.point.csn)
    }
}
