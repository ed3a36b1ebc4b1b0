//! Which rows of a full page the heap is asked about: those that are most likely dead, first.
//!
//! A full page asks about a few blocks first: those of rows marked dead, then those with most of
//! its rows, because versions of hot rows lie close together. These are also a sample: the page
//! asks on while enough of the rows asked about are dead and too few were found, because scattered
//! keys put nearly every row into a block of its own.
//!
//! Invariants: a block is asked about as a whole, since a block is what costs. Each row is asked
//! about once.
//! Does not do: remove entries; decide what is dead (`DeadRows`).

use rightlink_env::points::hit;

use crate::ids::{BlockNo, RowId};
use crate::index::am::DeadRows;

/// Heap blocks that are asked about at a time, and rows in them.
const MAX_BLOCKS: usize = 16;
const MAX_ROWS: usize = 160;
/// It goes on where at least one in so many rows was dead, until one in so many of all is.
const GOES_ON: usize = 16;
const ENOUGH: usize = 8;

/// Rows that the heap calls dead, ascending, among those asked about of `rows`; `marked` are blocks
/// of rows known to be dead. Called under the page's latch.
pub(crate) fn dead_among(
    rows: impl Iterator<Item = RowId>,
    marked: Vec<BlockNo>,
    heap: &dyn DeadRows,
) -> Vec<RowId> {
    let mut rows = DeadRowCandidates::of(rows, marked);
    let (all, mut asked, mut gone) = (rows.rows.len(), 0, Vec::new());
    loop {
        let some = rows.next();
        let mut dead = vec![false; some.len()];
        heap.dead_to_all(&some, &mut dead);
        gone.extend(some.iter().zip(&dead).filter(|(_, dead)| **dead).map(|(row, _)| *row));
        asked += some.len();
        if asked == all || gone.len() * GOES_ON < asked || gone.len() * ENOUGH >= all {
            break;
        }
        hit("index.asks-on");
    }
    gone.sort_unstable();
    gone
}

/// The rows of one block. The order is that of preference: ascending, best last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BlockRows {
    /// Has the block a row that is marked dead?
    is_marked: bool,
    /// How many rows it has.
    count: usize,
    /// Decides among equals, without regard to where in the table the block is.
    scattered: u32,
    /// Where its rows begin.
    start: usize,
}

/// Rows to ask the heap about, block by block.
struct DeadRowCandidates {
    /// Ascending, as numbers: those are sorted in a fraction of the time.
    rows: Vec<u64>,
    blocks: Vec<BlockRows>,
    at: usize,
}

impl DeadRowCandidates {
    /// First come the rows of the `marked` blocks, then those of the blocks that most of them lie
    /// in; of equals none before others because it is newer.
    fn of(rows: impl Iterator<Item = RowId>, mut marked: Vec<BlockNo>) -> DeadRowCandidates {
        marked.sort_unstable();
        marked.dedup();
        let number = |row: RowId| u64::from(row.block.0) << 16 | u64::from(row.slot);
        let mut rows: Vec<u64> = rows.map(number).collect();
        rows.sort_unstable();
        let mut blocks: Vec<BlockRows> = Vec::with_capacity(rows.len());
        let mut start = 0;
        for run in rows.chunk_by(|a, b| block_of(*a) == block_of(*b)) {
            let block = block_of(run[0]);
            let is_marked = marked.binary_search(&block).is_ok();
            let scattered = block.0.wrapping_mul(0x9e37_79b9).rotate_left(16);
            blocks.push(BlockRows { is_marked, count: run.len(), scattered, start });
            start += run.len();
        }
        // Beyond the first ones the order does not matter.
        if blocks.len() > MAX_BLOCKS {
            blocks.select_nth_unstable_by(MAX_BLOCKS, |a, b| b.cmp(a));
        }
        let first = blocks.len().min(MAX_BLOCKS);
        blocks[..first].sort_unstable_by(|a, b| b.cmp(a));
        DeadRowCandidates { rows, blocks, at: 0 }
    }

    /// The next ones: those of few blocks. Empty when there are no more.
    fn next(&mut self) -> Vec<RowId> {
        let mut out = Vec::new();
        for BlockRows { count, start, .. } in self.blocks[self.at..].iter().take(MAX_BLOCKS) {
            if !out.is_empty() && out.len() + count > MAX_ROWS {
                break;
            }
            let rows = &self.rows[*start..start + count];
            out.extend(rows.iter().map(|row| RowId::new(block_of(*row).0, *row as u16)));
            self.at += 1;
        }
        out
    }
}

fn block_of(row: u64) -> BlockNo {
    BlockNo((row >> 16) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rightlink_env::sync::Mutex;

    /// Rows of blocks up to a bound are dead; remembers the questions.
    struct Heap {
        dead_below: u32,
        asked: Mutex<Vec<RowId>>,
    }

    impl DeadRows for Heap {
        fn dead_to_all(&self, rows: &[RowId], out: &mut [bool]) {
            rows.iter().zip(out).for_each(|(row, out)| *out = row.block.0 < self.dead_below);
            self.asked.lock().extend(rows);
        }
    }

    /// How many rows were asked about and found dead; the blocks asked about, in order.
    fn ask(rows: &[RowId], marked: &[u32], dead_below: u32) -> (usize, usize, Vec<u32>) {
        let heap = Heap { dead_below, asked: Mutex::new(Vec::new()) };
        let marked = marked.iter().map(|block| BlockNo(*block)).collect();
        let gone = dead_among(rows.iter().copied(), marked, &heap);
        let asked = heap.asked.into_inner();
        let mut blocks: Vec<u32> = asked.iter().map(|row| row.block.0).collect();
        blocks.dedup();
        let mut once = asked.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), asked.len(), "each row once");
        assert!(gone.is_sorted() && gone.iter().all(|row| row.block.0 < dead_below));
        (asked.len(), gone.len(), blocks)
    }

    #[test]
    fn marked_blocks_come_first_then_those_of_most_rows() {
        let mut rows: Vec<RowId> = (0..100).map(|block| RowId::new(block, 1)).collect();
        rows.extend((2..30).map(|slot| RowId::new(70, slot)));
        let (asked, gone, blocks) = ask(&rows, &[33, 12], 0);
        assert_eq!((blocks.len(), gone), (MAX_BLOCKS, 0), "no row is dead: a sample is all");
        assert_eq!(asked, MAX_BLOCKS + 28);
        let mut first = blocks[..2].to_vec();
        first.sort_unstable();
        assert_eq!((first.as_slice(), blocks[2]), (&[12, 33][..], 70));
    }

    #[test]
    fn it_goes_on_while_that_pays() {
        let rows: Vec<RowId> = (0..320).map(|block| RowId::new(block, 1)).collect();
        let (asked, gone, _) = ask(&rows, &[], 320);
        assert_eq!((asked, gone), (48, 48), "an eighth of all is enough");
        let (asked, gone, _) = ask(&rows, &[], 32);
        assert_eq!((asked, gone), (320, 32), "one in ten is dead");
        let (asked, gone, _) = ask(&rows, &[], 8);
        assert!(asked < 320 && gone * GOES_ON < asked, "one in forty: {gone} of {asked}");
        assert_eq!(ask(&[], &[7], 9), (0, 0, Vec::new()), "an empty page has nothing to ask about");
    }

    #[test]
    fn one_block_is_asked_about_whole() {
        let rows: Vec<RowId> = (1..400).map(|slot| RowId::new(5, slot)).collect();
        assert_eq!(ask(&rows, &[], 6), (399, 399, vec![5]));
    }
}
