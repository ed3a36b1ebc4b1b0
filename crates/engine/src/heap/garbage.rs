//! The count of versions that were ended and not removed yet: it says when a table is due for
//! vacuum.
//!
//! Invariants: nothing but the time of a vacuum rests on the count; it never goes below zero.
//! Does not do: decide when a table is due (`upkeep/vacuum/automatic.rs`).
//!
//! PostgreSQL: `n_dead_tup` of the cumulative statistics.

use rightlink_env::sync::Ordering;

use crate::heap::{DeadRoot, Heap};
use crate::ids::Xid;

impl Heap {
    /// Versions that were ended and not removed since the last vacuum, roughly. Versions that this
    /// vacuum had to leave count again once every xid of its time is below the horizon, or once the
    /// table is opened again.
    pub fn garbage_since_vacuum(&self) -> u64 {
        let shared = &self.shared;
        let garbage = shared.garbage.load(Ordering::Relaxed);
        let passed = self.txns().horizon().0 >= shared.vacuumed_at.load(Ordering::Relaxed);
        let left = if passed { 0 } else { shared.left.load(Ordering::Relaxed) };
        garbage.saturating_sub(left)
    }

    /// Does the meta page tell how much garbage there is, but for `error` versions?
    pub fn is_garbage_noted(&self, error: u64) -> bool {
        let noted = self.shared.noted.load(Ordering::Relaxed);
        u64::from(self.all_garbage().abs_diff(noted)) <= error
    }

    /// All garbage that a vacuum would find. It includes the roots that wait for cleaning, since
    /// the queue is lost when the table is closed.
    pub(super) fn all_garbage(&self) -> u32 {
        let garbage = self.shared.garbage.load(Ordering::Relaxed);
        u32::try_from(garbage.saturating_add(self.dead_roots() as u64)).unwrap_or(u32::MAX)
    }

    /// A vacuum has ended; `next` is the first xid that it did not see.
    pub fn vacuumed(&self, next: Xid) {
        let shared = &self.shared;
        let garbage = shared.garbage.load(Ordering::Relaxed);
        rightlink_env::points::hit("heap.vacuumed");
        if self.txns().horizon() >= next {
            // All that is left was ended after the vacuum, or is none. A concurrent prune counts it
            // down, too, so it must not go below zero.
            self.take_garbage(garbage);
            shared.left.store(0, Ordering::Relaxed);
        } else {
            shared.left.store(garbage, Ordering::Relaxed);
        }
        shared.vacuumed_at.store(next.0, Ordering::Relaxed);
    }

    /// Counts as garbage again: dead roots that could not be freed by key, and `others`, whose keys
    /// are not known. Keeps the keys of `roots` for vacuum.
    pub fn leave_to_vacuum(&self, roots: Vec<DeadRoot>, others: u64) {
        self.add_garbage(roots.len() as u64 + others);
        self.keep_dead_roots(roots);
    }

    /// Versions were ended.
    pub(super) fn add_garbage(&self, versions: u64) {
        self.shared.garbage.fetch_add(versions, Ordering::Relaxed);
    }

    /// Versions were removed.
    pub(super) fn take_garbage(&self, versions: u64) {
        let less = |now: u64| Some(now.saturating_sub(versions));
        let _ = self.shared.garbage.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}
