//! A registered snapshot: while it lives, the versions that it sees stay (R9).
//!
//! Invariants: (R9) it is taken and registered under one lock, and deregistered when it is dropped.
//! One that may expire is marked before it is deregistered, so rows that were read before an
//! unmarked check are sound. It does not expire while a statement writes by it.
//! Does not do: visibility of xids ([`Snapshot`](super::Snapshot)).

use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::txn::lock::state::Anchor;
use crate::txn::lock::state::SharedState;
use crate::txn::manager::TxnManager;
use crate::txn::xid::TxnId;
use crate::txn::xid::horizon::{PointUse, SnapshotPoint};

/// A registered point in the order of commits.
pub(in crate::txn) struct RegisteredSnapshot {
    pub(super) manager: Arc<TxnManager>,
    pub(super) point: SnapshotPoint,
    /// First xid that was not assigned.
    pub(super) xmax: u64,
    expiry: Option<Expiry>,
    /// It was deregistered before its end.
    retired: bool,
}

/// How a snapshot learns that it has expired.
struct Expiry {
    /// Its number in the registry.
    number: u64,
    expired: Arc<AtomicBool>,
}

impl RegisteredSnapshot {
    /// Takes and registers a snapshot of now, for the transaction `by`.
    pub(in crate::txn) fn take(
        manager: &Arc<TxnManager>,
        by: TxnId,
        may_expire: bool,
    ) -> Arc<RegisteredSnapshot> {
        let expires = may_expire && manager.options.max_snapshot_age.is_some();
        let taken = expires.then(|| manager.options.clock.now());
        let mut state = manager.state.lock();
        let point = match broken(Broken::SnapshotRegisteredLate) {
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
        let xmax = state.xids.next();
        let expiry = taken.map(|taken| {
            let expired = Arc::new(AtomicBool::new(false));
            let number = state.snapshots.let_expire(point.csn, taken, Arc::clone(&expired));
            Expiry { number, expired }
        });
        drop(state);
        let manager = Arc::clone(manager);
        Arc::new(RegisteredSnapshot { manager, point, xmax, expiry, retired: false })
    }

    /// The snapshot of `anchor`, whose registration it takes over.
    pub(in crate::txn) fn of_anchor(
        anchor: &Anchor,
        manager: &Arc<TxnManager>,
    ) -> Arc<RegisteredSnapshot> {
        let Anchor { point, xmax, .. } = *anchor;
        let manager = Arc::clone(manager);
        Arc::new(RegisteredSnapshot { manager, point, xmax, expiry: None, retired: false })
    }

    /// May it expire?
    pub(in crate::txn) fn may_expire(&self) -> bool {
        self.expiry.is_some()
    }

    /// Deregisters those of `snapshots` that have no other owner.
    pub(in crate::txn) fn retire(
        snapshots: &mut Vec<Arc<RegisteredSnapshot>>,
        state: &mut SharedState,
    ) {
        for mut snapshot in snapshots.drain(..).filter_map(Arc::into_inner) {
            assert!(!snapshot.may_expire(), "a snapshot that may expire is kept");
            state.deregister(snapshot.point.csn);
            snapshot.retired = true;
        }
    }

    /// Fails if it has expired.
    pub(in crate::txn) fn check(&self) -> Result<()> {
        match &self.expiry {
            Some(expiry) if expiry.expired.load(Ordering::SeqCst) => Err(self.too_old()),
            _ => Ok(()),
        }
    }

    /// Keeps it from expiring; fails if it has already.
    pub(in crate::txn) fn hold(snapshot: &Arc<RegisteredSnapshot>) -> Result<SnapshotHold> {
        if let Some(expiry) = &snapshot.expiry
            && !snapshot.manager.state.lock().snapshots.try_hold(expiry.number)
        {
            return Err(snapshot.too_old());
        }
        Ok(SnapshotHold(Arc::clone(snapshot)))
    }

    fn too_old(&self) -> Error {
        let limit = self.manager.options.max_snapshot_age.unwrap_or_default();
        Error::SnapshotTooOld { limit }
    }
}

impl Drop for RegisteredSnapshot {
    fn drop(&mut self) {
        if self.retired {
            return;
        }
        let mut state = self.manager.state.lock();
        if let Some(expiry) = &self.expiry
            && !state.snapshots.try_unlist(expiry.number)
        {
            return;
        }
        if state.deregister(self.point.csn) == PointUse::Unused {
            self.manager.publish_bounds(&state);
        }
    }
}

/// The snapshot does not expire while this lives.
pub(in crate::txn) struct SnapshotHold(Arc<RegisteredSnapshot>);

impl Drop for SnapshotHold {
    fn drop(&mut self) {
        if let Some(expiry) = &self.0.expiry {
            self.0.manager.state.lock().snapshots.release_hold(expiry.number);
        }
    }
}
