//! The clock of R3: when were row ids of a block last freed?
//!
//! Line pointers are freed in three steps: their row ids are removed from every index,
//! [`RecycleClock::advance`] is called, the line pointers are freed. A scan takes
//! [`RecycleClock::now`] before it reads an index leaf, and trusts a remembered row id only while
//! [`RecycleClock::newer_than`] is false.
//!
//! If it is false, no row id of the block was freed, or the scan read the clock after the advance,
//! hence after the removal from the indexes. So the row id still names the same row.
//!
//! Invariants: the time of a bucket never goes back. Blocks that share a bucket only cause needless
//! retries.
//! Does not do: survive a restart; no scan does either.
//!
//! PostgreSQL: the page-LSN test of `_bt_killitems` and the pin that blocks vacuum's cleanup lock.

use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::{AtomicU64, Ordering};

use crate::ids::BlockNo;

/// Buckets; blocks `BUCKETS` apart share one.
const BUCKETS: usize = if cfg!(feature = "shuttle") { 8 } else { 1024 };

/// Times at which row ids were given free, per bucket of blocks of one table.
pub struct RecycleClock {
    clock: AtomicU64,
    buckets: Vec<AtomicU64>,
}

impl Default for RecycleClock {
    fn default() -> Self {
        Self {
            clock: AtomicU64::new(0),
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl RecycleClock {
    fn bucket(&self, block: BlockNo) -> &AtomicU64 {
        &self.buckets[block.0 as usize % BUCKETS]
    }

    /// The time, to be taken before an index leaf is read.
    pub fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    /// Were row ids of `block` given free after `time`?
    pub fn newer_than(&self, block: BlockNo, time: u64) -> bool {
        !broken(Broken::RecycleClockIgnored) && self.bucket(block).load(Ordering::SeqCst) > time
    }

    /// Notes that row ids of `block` are about to be given free; they are in no index any more.
    pub fn advance(&self, block: BlockNo) -> u64 {
        let time = self.clock.fetch_add(1, Ordering::SeqCst) + 1;
        self.bucket(block).fetch_max(time, Ordering::SeqCst);
        assert!(time > 0, "64 bits do not wrap");
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_freed_later_is_newer() {
        let clock = RecycleClock::default();
        let before = clock.now();
        assert!(!clock.newer_than(BlockNo(7), before));
        clock.advance(BlockNo(7));
        assert!(clock.newer_than(BlockNo(7), before));
        assert!(clock.newer_than(BlockNo(7 + BUCKETS as u32), before), "a shared bucket");
        assert!(!clock.newer_than(BlockNo(8), before));
        let after = clock.now();
        assert!(!clock.newer_than(BlockNo(7), after));
    }
}
