//! Insertions that run at the same time: how far each may read ahead.
//!
//! Statements that insert many entries pass through an index in the order of its keys. In a small
//! pool a page serves several of them only if they come to it at about the same time. Without
//! reading ahead they do: the first waits for each page, and the others, which find it in memory,
//! catch up.
//!
//! If the first reads far ahead it is as fast as the others. Then they spread, and pages are read
//! and written for each of them. So insertions whose pages the pool cannot hold divide among them
//! the reads that the device serves at once.
//!
//! Invariants: an insertion that is alone, and insertions whose pages all fit the pool, are not
//! bounded here.
//!
//! Does not do: bound scans, which may rest for a long time; read (`read_stream`).
//! Figures: `docs/threads/002-insert-prefetch.md`.

use rightlink_env::sync::{AtomicU32, AtomicUsize, Ordering};

/// The insertions of a pool that are under way.
#[derive(Debug, Default)]
pub(super) struct Insertions {
    count: AtomicU32,
    pages: AtomicUsize,
}

impl Insertions {
    /// Reads that a stream of an insertion may be ahead, of a device that serves `depth` at once.
    pub(super) fn share(&self, frames: usize, depth: u32) -> u32 {
        let count = self.count.load(Ordering::Relaxed);
        if count < 2 || self.pages.load(Ordering::Relaxed) <= frames {
            return u32::MAX;
        }
        (depth / count).max(1)
    }

    /// Counts an insertion, which needs at most `pages` pages, until the result is dropped.
    pub(super) fn begin(&self, pages: usize) -> Insertion<'_> {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.pages.fetch_add(pages, Ordering::Relaxed);
        Insertion { all: self, pages }
    }
}

/// An insertion that is under way, until it is dropped.
#[derive(Debug)]
pub struct Insertion<'p> {
    all: &'p Insertions,
    pages: usize,
}

impl Drop for Insertion<'_> {
    fn drop(&mut self) {
        let count = self.all.count.fetch_sub(1, Ordering::Relaxed);
        let pages = self.all.pages.fetch_sub(self.pages, Ordering::Relaxed);
        assert!(count > 0 && pages >= self.pages, "an insertion ends once");
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn only_those_that_the_pool_cannot_hold_share() {
        let all = Insertions::default();
        let share = || all.share(1000, 64);
        let large = all.begin(5000);
        assert_eq!(share(), u32::MAX, "it is alone");
        let small = all.begin(3);
        assert_eq!(share(), 32);
        drop(large);
        let many: Vec<_> = (0..99).map(|_| all.begin(3)).collect();
        assert_eq!(share(), u32::MAX, "the pool holds all of their pages");
        let large = all.begin(5000);
        assert_eq!(share(), 1, "each reads at least what it needs next");
        drop((many, small));
        assert_eq!(share(), u32::MAX);
        drop(large);
        assert_eq!((all.count.into_inner(), all.pages.into_inner()), (0, 0));
    }
}
