//! Whether a stream goes through its file in order: then the system's read-ahead serves it best.
//!
//! With buffered I/O, a planned read (`planned_reads`) reads no block in vain. But the system fills
//! the page cache page by page for it, and in large pieces for its own read-ahead, which costs less
//! from some MiB on. So a stream plans its reads until it has read as many in order. From then on
//! the system reads ahead, and the stream only so far that it joins neighbours.
//!
//! Measured with scans of an index, cold, of ranges of 1 and 10 % of a million rows (3 and 33 MiB)
//! in nearly the order of the heap: planned throughout they take 0.9 and 1.2 times as long as
//! without a stream, left to the system throughout 1.6 and 0.9 times, and so 0.85 and 0.85.
//!
//! Invariants: one read far from the one before ends an order; there is none in descending order.
//! Does not do: choose the reads.

use crate::ids::{BlockNo, PageId};

/// Blocks that a read may be away from the end of the one before it (512 KiB).
const NEAR: u32 = 64;
/// Blocks that are read in order before the stream leaves them to the system (4 MiB).
const LONG: u32 = 512;
/// Of four blocks that a stream passes it reads at least so many if it leaves them to the system.
/// The system reads the gaps, too, and with more of these takes longer than planned reads do.
const READ_OF_FOUR: u64 = 3;

/// The reads of a stream so far.
#[derive(Debug, Default)]
pub(super) struct Locality {
    /// Behind the last block of the last read.
    end: Option<PageId>,
    /// Where the order began, and how far it has come.
    from: BlockNo,
    to: BlockNo,
    /// Blocks that were read since.
    read: u32,
}

impl Locality {
    /// A read of `count` blocks from `first` on is about to start.
    pub(super) fn note(&mut self, first: PageId, count: u32) {
        let near =
            |end: PageId| end.file == first.file && end.block.0.abs_diff(first.block.0) <= NEAR;
        let behind = BlockNo(first.block.0.saturating_add(count));
        if !self.end.is_some_and(near) {
            (self.from, self.to, self.read) = (first.block, behind, 0);
        }
        self.read = self.read.saturating_add(count);
        self.to = self.to.max(behind);
        self.end = Some(PageId { block: behind, ..first });
    }

    /// Have the reads been in order for long? The system reads ahead in ascending order alone.
    pub(super) fn is_long(&self) -> bool {
        let passed = self.to.0 - self.from.0;
        passed >= LONG && 4 * u64::from(self.read) >= READ_OF_FOUR * u64::from(passed)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::ids::FileId;

    fn page(file: u32, block: u32) -> PageId {
        PageId { file: FileId(file), block: BlockNo(block) }
    }

    /// Reads of 16 blocks in order, back and forth by less than 512 KiB: long after 4 MiB. In
    /// descending order never.
    #[test]
    fn order_is_long_after_some_mib() {
        let mut locality = Locality::default();
        let starts = (0..40).map(|step| 10_000 + step * 16 + if step % 2 == 0 { 40 } else { 0 });
        let long: Vec<bool> = starts
            .map(|start| {
                locality.note(page(1, start), 16);
                locality.is_long()
            })
            .collect();
        assert_eq!(long.iter().position(|long| *long), Some(32));
        assert!(long[32..].iter().all(|long| *long));
        (0..100).rev().for_each(|step| {
            locality.note(page(2, step * 16), 16);
            assert!(!locality.is_long());
        });
    }

    /// Reads with gaps are planned, however long they go on: a third of the blocks, here.
    #[test]
    fn order_with_gaps_is_not_long() {
        let mut locality = Locality::default();
        (0..10_000).for_each(|step| {
            locality.note(page(1, step * 6), 2);
            assert!(!locality.is_long());
        });
    }

    /// A read far away ends it, in the same file and in another.
    #[test]
    fn a_jump_ends_it() {
        for jump in [page(1, 9_000), page(2, 512)] {
            let mut locality = Locality::default();
            (0..100).for_each(|step| locality.note(page(1, step * 16), 16));
            assert!(locality.is_long());
            locality.note(jump, 1);
            assert!(!locality.is_long());
        }
    }
}
