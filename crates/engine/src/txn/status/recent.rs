//! Outcomes of recent xids in memory, and which recent commits are durable. Both are read without a
//! lock: they are asked for nearly every row.
//!
//! Invariants: a [`StatusRing`] holds every xid from its floor up to the next one handed out;
//! writers hold the manager's lock; a reader trusts a slot only if the floor is still at or below
//! its xid after the load. [`DurableCommits`] may call a durable commit not durable yet, never the
//! reverse.
//! Does not do: outcomes below the floor (`outcome` knows where they are).

use std::ops::Range;

use rightlink_env::points::broken;
use rightlink_env::sync::{AtomicU64, Ordering, fence};

use crate::ids::Lsn;

/// Slot of an xid that is running.
pub(in crate::txn) const IN_PROGRESS: u64 = 0;
/// Slot of an xid that is aborted or was never used. Larger values are commit numbers.
pub(in crate::txn) const ABORTED: u64 = 1;

/// Recent outcomes.
pub(in crate::txn) struct StatusRing {
    slots: Box<[AtomicU64]>,
    floor: AtomicU64,
}

impl StatusRing {
    /// An empty ring of `capacity` (a power of two) slots that starts at `floor`.
    pub(in crate::txn) fn new(capacity: usize, floor: u64) -> StatusRing {
        assert!(capacity.is_power_of_two(), "slots are found by masking");
        let slots = (0..capacity).map(|_| AtomicU64::new(IN_PROGRESS)).collect();
        StatusRing { slots, floor: AtomicU64::new(floor) }
    }

    /// How many xids it holds.
    pub(in crate::txn) fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    /// The lowest xid it holds.
    pub(in crate::txn) fn floor(&self) -> u64 {
        self.floor.load(Ordering::Acquire)
    }

    fn slot(&self, xid: u64) -> &AtomicU64 {
        &self.slots[(xid & (self.capacity() - 1)) as usize]
    }

    /// Slot of `xid`, which was handed out; `None` below the floor.
    pub(in crate::txn) fn get(&self, xid: u64) -> Option<u64> {
        let value = self.slot(xid).load(Ordering::Acquire);
        // Pairs with the fence in `advance`: who loaded a slot's next use also sees the new floor.
        fence(Ordering::Acquire);
        (xid >= self.floor()).then_some(value)
    }

    /// Sets the slot of `xid`, at or above the floor. The caller holds the manager's lock.
    pub(in crate::txn) fn set(&self, xid: u64, value: u64) {
        debug_assert!(xid >= self.floor(), "the slot is still this xid's");
        self.slot(xid).store(value, Ordering::Release);
    }

    /// Marks new xids as running. The caller holds the manager's lock.
    pub(in crate::txn) fn open(&self, range: Range<u64>) {
        assert!(range.end <= self.floor() + self.capacity(), "slots were made free before");
        range.for_each(|xid| self.set(xid, IN_PROGRESS));
    }

    /// Gives up the slots below `floor`. The caller holds the manager's lock.
    pub(in crate::txn) fn advance(&self, floor: u64) {
        assert!(floor >= self.floor(), "the floor only rises");
        self.floor.store(floor, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}

/// Neighbouring xids that share a slot of [`DurableCommits`].
const GROUP: u64 = 32;
/// Slots of [`DurableCommits`]: 4096 * 32 xids until two groups share one (few under the model
/// checker).
const GROUPS: u64 = if cfg!(feature = "shuttle") { 4 } else { 4096 };

/// Commit records that may not be durable yet (R1): relaxed commits are visible before their record
/// is on disk. Each slot holds the largest such LSN of its groups.
pub(in crate::txn) struct DurableCommits {
    latest: AtomicU64,
    slots: Box<[AtomicU64]>,
}

impl DurableCommits {
    /// Everything is durable.
    pub(in crate::txn) fn new() -> DurableCommits {
        let slots = (0..GROUPS).map(|_| AtomicU64::new(0)).collect();
        DurableCommits { latest: AtomicU64::new(0), slots }
    }

    /// The commit record of the xids in `range` ends at `lsn`. Called before they become visible.
    pub(in crate::txn) fn note(&self, range: Range<u64>, lsn: Lsn) {
        assert!(!range.is_empty(), "a commit has xids");
        let (first, last) = (range.start / GROUP, (range.end - 1) / GROUP);
        // More groups than slots would only pass over every slot again.
        for group in first..=last.min(first + GROUPS - 1) {
            self.slots[(group % GROUPS) as usize].fetch_max(lsn.0, Ordering::AcqRel);
        }
        self.latest.fetch_max(lsn.0, Ordering::AcqRel);
    }

    /// End of the last relaxed commit, `Lsn(0)` if all are known to be durable.
    pub(in crate::txn) fn latest(&self) -> Lsn {
        Lsn(self.latest.load(Ordering::Acquire))
    }

    /// Is the commit of `xid` durable? `durable` is only called when some commit may not be.
    pub(in crate::txn) fn is_durable(&self, xid: u64, durable: impl FnOnce() -> Lsn) -> bool {
        if broken("r1-durable") {
            return true;
        }
        let latest = self.latest.load(Ordering::Acquire);
        if latest == 0 {
            return true;
        }
        let durable = durable();
        if latest <= durable.0 {
            // A relaxed commit in between has raised it; then it stays.
            let _ = self.latest.compare_exchange(latest, 0, Ordering::AcqRel, Ordering::Acquire);
            return true;
        }
        let slot = &self.slots[(xid / GROUP % GROUPS) as usize];
        slot.load(Ordering::Acquire) <= durable.0
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;

    #[test]
    fn a_slot_below_the_floor_is_not_read() {
        let ring = StatusRing::new(8, 2);
        ring.open(2..10);
        ring.set(3, 77);
        assert_eq!((ring.get(3), ring.get(2)), (Some(77), Some(IN_PROGRESS)));
        ring.advance(6);
        ring.open(10..14);
        assert_eq!((ring.get(3), ring.get(11)), (None, Some(IN_PROGRESS)));
    }

    #[test]
    fn relaxed_commits_count_once_they_are_durable() {
        let commits = DurableCommits::new();
        assert!(commits.is_durable(5, || panic!("one load when everything is durable")));
        commits.note(40..41, Lsn(100));
        assert!(!commits.is_durable(40, || Lsn(99)));
        assert!(commits.is_durable(5, || Lsn(99)), "another group");
        assert!(commits.is_durable(40, || Lsn(100)));
        assert_eq!(commits.latest(), Lsn(0));
        commits.note(0..GROUP * GROUPS * 3, Lsn(200));
        assert!(!commits.is_durable(GROUP * GROUPS * 2, || Lsn(150)));
    }
}
