//! Outcomes of recent xids in memory. They are read without a lock, because nearly every row that
//! is read asks for one.
//!
//! A ring of atomic slots, one per xid. The floor is the lowest xid that still has its slot.
//!
//! Invariants: every xid from the floor up to the next one assigned has a slot. Writers hold the
//! manager's lock. A reader trusts a slot only if the floor is still at or below its xid after the
//! load.
//! Does not do: outcomes below the floor (`manager::outcome` finds them).

use std::ops::Range;

use rightlink_env::sync::{AtomicU64, Ordering, fence};

/// Slot of an xid that is running.
pub(in crate::txn) const IN_PROGRESS: u64 = 0;
/// Slot of an xid that is aborted or was never used. Larger values are commit numbers.
pub(in crate::txn) const ABORTED: u64 = 1;

/// The outcomes of recent xids: a ring of one slot per xid.
pub(in crate::txn) struct RecentOutcomes {
    slots: Box<[AtomicU64]>,
    floor: AtomicU64,
}

impl RecentOutcomes {
    /// An empty ring of `capacity` (a power of two) slots that starts at `floor`.
    pub(in crate::txn) fn new(capacity: usize, floor: u64) -> RecentOutcomes {
        assert!(capacity.is_power_of_two(), "slots are found by masking");
        let slots = (0..capacity).map(|_| AtomicU64::new(IN_PROGRESS)).collect();
        RecentOutcomes { slots, floor: AtomicU64::new(floor) }
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

    /// Slot of `xid`, which must be assigned; `None` below the floor.
    pub(in crate::txn) fn get(&self, xid: u64) -> Option<u64> {
        let value = self.slot(xid).load(Ordering::Acquire);
        // Pairs with the fence in `advance`: a reader that loaded the next use of a slot also sees
        // the new floor.
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

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;

    #[test]
    fn a_slot_below_the_floor_is_not_read() {
        let recent = RecentOutcomes::new(8, 2);
        recent.open(2..10);
        recent.set(3, 77);
        assert_eq!((recent.get(3), recent.get(2)), (Some(77), Some(IN_PROGRESS)));
        recent.advance(6);
        recent.open(10..14);
        assert_eq!((recent.get(3), recent.get(11)), (None, Some(IN_PROGRESS)));
    }
}
