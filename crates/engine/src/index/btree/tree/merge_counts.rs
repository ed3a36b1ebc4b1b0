//! How often each page has taken in entries of its left sibling.
//!
//! Vacuum compares two readings of a page's counter to learn whether entries came into the page
//! after its visit (R5).
//!
//! Invariants: a counter rises before the merge that it counts can be seen by anybody. Pages share
//! counters by block number, so a counter may rise without a merge into the page.
//! Does not do: merge pages (`vacuum/merge`).

use rightlink_env::sync::{AtomicU64, Ordering};

/// Number of counters; pages share them by block number.
const BUCKETS: usize = 64;

/// How often pages have taken in entries of their left siblings.
pub(crate) struct MergeCounts([AtomicU64; BUCKETS]);

impl Default for MergeCounts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl MergeCounts {
    fn bucket(&self, block: u32) -> &AtomicU64 {
        &self.0[block as usize % BUCKETS]
    }

    /// The page at `block` takes in entries of its left sibling. Called before that is visible.
    pub(crate) fn record_merge_into(&self, block: u32) {
        self.bucket(block).fetch_add(1, Ordering::SeqCst);
    }

    /// A number that rises whenever the page at `block` takes in entries.
    pub(crate) fn received_by(&self, block: u32) -> u64 {
        self.bucket(block).load(Ordering::SeqCst)
    }

    /// Merges into all pages.
    #[cfg(test)]
    pub(crate) fn all(&self) -> u64 {
        self.0.iter().map(|bucket| bucket.load(Ordering::SeqCst)).sum()
    }
}
