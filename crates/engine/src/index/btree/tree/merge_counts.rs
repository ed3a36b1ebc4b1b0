//! How often each page has taken in entries of its left sibling.
//!
//! Vacuum compares two readings of a page's counter to learn whether entries came into the page
//! after its visit (R5).
//!
//! Invariants: a counter rises before the merge that it counts can be seen by anybody. Pages share
//! counters by block number, so a counter may rise without a merge into the page.
//! Does not do: merge pages (`vacuum/merge`).

use rightlink_env::sync::{AtomicU64, Ordering};

/// Counters of merges: pages share them, by number.
const BUCKETS: usize = 64;

/// How often pages have taken entries of their left siblings in. Whoever remembers a page asks
/// whether that has happened to it since; pages that share a counter look as if it had happened to
/// each.
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

    /// The page at `block` takes entries of its left sibling in; called before anybody can see it.
    pub(crate) fn record_merge_into(&self, block: u32) {
        self.bucket(block).fetch_add(1, Ordering::SeqCst);
    }

    /// A number that rises whenever the page at `block` takes entries in.
    pub(crate) fn received_by(&self, block: u32) -> u64 {
        self.bucket(block).load(Ordering::SeqCst)
    }

    /// MergeCounts into all pages.
    #[cfg(test)]
    pub(crate) fn all(&self) -> u64 {
        self.0.iter().map(|bucket| bucket.load(Ordering::SeqCst)).sum()
    }
}
