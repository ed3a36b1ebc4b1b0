//! Which recent commits are durable (R1). A relaxed commit is visible before its record is on disk.
//!
//! Invariants: [`DurableCommits`] may call a durable commit not durable yet, never the reverse. It
//! is read without a lock.
//! Does not do: make commits durable (the log).

use rightlink_env::Broken;
use std::ops::Range;

use rightlink_env::points::broken;
use rightlink_env::sync::{AtomicU64, Ordering};

use crate::ids::Lsn;

/// Neighbouring xids that share a slot of [`DurableCommits`].
const GROUP: u64 = 32;
/// Slots of [`DurableCommits`]: two groups share a slot if 4096 * 32 xids lie between them. Few
/// under the model checker.
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

    /// Is the commit of `xid` durable? Calls `durable`, the end of the durable log, only when some
    /// commit may not be.
    pub(in crate::txn) fn is_durable(&self, xid: u64, durable: impl FnOnce() -> Lsn) -> bool {
        if broken(Broken::RelaxedCommitCalledDurable) {
            return true;
        }
        let latest = self.latest.load(Ordering::Acquire);
        if latest == 0 {
            return true;
        }
        let durable = durable();
        if latest <= durable.0 {
            // Fails if a relaxed commit has raised it since; then it must stay.
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
