//! The registered snapshots: they hold back the horizon below which old versions are garbage (R9).
//!
//! Snapshots are kept by commit number, with a count for each. A snapshot that may expire is also
//! listed by the time at which it was taken.
//!
//! Invariants: a snapshot registered at commit number n has an xmin not below that of any snapshot
//! registered earlier, so the snapshot with the lowest commit number has the lowest xmin. An
//! expired snapshot is marked before it is deregistered: a reader that finds rows pruned because
//! of that then also finds the mark.
//! Does not do: visibility (`snapshot`).

use rightlink_env::Broken;
use std::collections::BTreeMap;
use std::collections::btree_map::{Keys, Values};

use rightlink_env::Nanos;
use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, AtomicBool, Ordering};

use crate::txn::xid::TxnId;

/// A point in the order of commits.
#[derive(Clone, Copy, Debug)]
pub(in crate::txn) struct SnapshotPoint {
    /// Commits up to and including this number are seen.
    pub(in crate::txn) csn: u64,
    /// Every xid below was finished.
    pub(in crate::txn) xmin: u64,
}

/// The snapshots that are registered at one commit number.
#[derive(Clone, Copy)]
pub(in crate::txn) struct SharedPoint {
    pub(in crate::txn) xmin: u64,
    pub(in crate::txn) count: usize,
    /// The transaction that took the first of them, and the start of that transaction.
    pub(in crate::txn) first_by: TxnId,
    pub(in crate::txn) since: Nanos,
}

/// A snapshot that may expire.
struct ExpirableSnapshot {
    csn: u64,
    taken: Nanos,
    /// Statements that write by it: it does not expire while there are any.
    holds: u32,
    expired: Arc<AtomicBool>,
}

/// What is left at a commit number after a snapshot was deregistered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::txn) enum PointUse {
    /// Other snapshots are registered at it.
    StillUsed,
    /// It was the last one: the horizon may move.
    Unused,
}

/// All registered snapshots.
#[derive(Default)]
pub(in crate::txn) struct SnapshotRegistry {
    /// By commit number.
    live: BTreeMap<u64, SharedPoint>,
    /// Those that may expire, in the order in which they were taken.
    expirable: BTreeMap<u64, ExpirableSnapshot>,
    next_expirable: u64,
}

impl SnapshotRegistry {
    /// Registers a snapshot at `point` for the transaction `by`, which began at `since`.
    pub(in crate::txn) fn register(
        &mut self,
        point: SnapshotPoint,
        by: TxnId,
        since: impl FnOnce() -> Nanos,
    ) {
        let SnapshotPoint { csn, xmin } = point;
        let new = || SharedPoint { xmin, count: 0, first_by: by, since: since() };
        let live = self.live.entry(csn).or_insert_with(new);
        assert!(live.xmin <= xmin, "what is finished stays finished");
        live.count += 1;
    }

    /// Removes one registration at `csn`.
    pub(in crate::txn) fn deregister(&mut self, csn: u64) -> PointUse {
        let live = self.live.get_mut(&csn).expect("a snapshot is registered while it lives");
        live.count -= 1;
        if live.count > 0 {
            return PointUse::StillUsed;
        }
        self.live.remove(&csn);
        PointUse::Unused
    }

    /// Lists the snapshot registered at `csn` as one that may expire; returns its number there.
    pub(in crate::txn) fn let_expire(
        &mut self,
        csn: u64,
        taken: Nanos,
        expired: Arc<AtomicBool>,
    ) -> u64 {
        let number = self.next_expirable;
        self.next_expirable += 1;
        self.expirable.insert(number, ExpirableSnapshot { csn, taken, holds: 0, expired });
        number
    }

    /// Keeps the snapshot `number` from expiring. False: it has expired.
    pub(in crate::txn) fn try_hold(&mut self, number: u64) -> bool {
        self.expirable.get_mut(&number).map(|snapshot| snapshot.holds += 1).is_some()
    }

    /// Ends what [`SnapshotRegistry::try_hold`] began.
    pub(in crate::txn) fn release_hold(&mut self, number: u64) {
        if let Some(snapshot) = self.expirable.get_mut(&number) {
            snapshot.holds -= 1;
        }
    }

    /// Takes the snapshot `number` off the list. False: it has expired, and is not registered.
    pub(in crate::txn) fn try_unlist(&mut self, number: u64) -> bool {
        self.expirable.remove(&number).is_some()
    }

    /// Deregisters the snapshots taken before `before`, unless their transactions write. Returns
    /// how many.
    pub(in crate::txn) fn expire(&mut self, before: Nanos) -> usize {
        let is_old = |aging: &ExpirableSnapshot| aging.taken < before && aging.holds == 0;
        let old = self.expirable.iter().filter(|(_, aging)| is_old(aging));
        let numbers: Vec<u64> = old.map(|(number, _)| *number).collect();
        for number in &numbers {
            let aging = self.expirable.remove(number).expect("listed just now");
            // Before the deregistration: a reader that misses a pruned version finds the mark.
            if !broken(Broken::ExpiredSnapshotNotTold) {
                aging.expired.store(true, Ordering::SeqCst);
            }
            self.deregister(aging.csn);
        }
        numbers.len()
    }

    /// The lowest xmin of a registered snapshot.
    pub(in crate::txn) fn oldest_xmin(&self) -> Option<u64> {
        self.live.first_key_value().map(|(_, live)| live.xmin)
    }

    /// The commit numbers, ascending.
    pub(in crate::txn) fn csns(&self) -> Keys<'_, u64, SharedPoint> {
        self.live.keys()
    }

    /// What is registered at each of [`SnapshotRegistry::csns`].
    pub(in crate::txn) fn points(&self) -> Values<'_, u64, SharedPoint> {
        self.live.values()
    }
}
