//! Which rows of a full page the heap is asked about: those that are most likely dead, first.
//!
//! A full page asks about few blocks first: those of the rows marked dead on it, then those that
//! most of its rows lie in, for versions of hot rows lie close together. These are also a sample:
//! as long as enough of the rows asked about are dead, and not enough were found, it goes on, for
//! where keys are scattered nearly every row of a page lies in a block of its own.
//!
//! Invariants: blocks are asked about whole, since that is what costs; each row once.
//! Does not do: take entries out; judge (`DeadRows`).

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
    let mut rows = Promising::of(rows, marked);
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

/// Rows of one block: is it marked, how many there are, a number without meaning, and where they
/// begin.
type Run = (bool, usize, u32, usize);

/// Rows to ask the heap about, block by block.
struct Promising {
    /// Ascending, as numbers: those are sorted in a fraction of the time.
    rows: Vec<u64>,
    runs: Vec<Run>,
    at: usize,
}

impl Promising {
    /// First come the rows of the `marked` blocks, then those of the blocks that most of them lie
    /// in; of equals none before others because it is newer.
    fn of(rows: impl Iterator<Item = RowId>, mut marked: Vec<BlockNo>) -> Promising {
        marked.sort_unstable();
        marked.dedup();
        let number = |row: RowId| u64::from(row.block.0) << 16 | u64::from(row.slot);
        let mut rows: Vec<u64> = rows.map(number).collect();
        rows.sort_unstable();
        let mut runs: Vec<Run> = Vec::with_capacity(rows.len());
        let mut from = 0;
        for run in rows.chunk_by(|a, b| block_of(*a) == block_of(*b)) {
            let block = block_of(run[0]);
            let is_marked = marked.binary_search(&block).is_ok();
            // A number that tells nothing of where in the table the block is.
            let scattered = block.0.wrapping_mul(0x9e37_79b9).rotate_left(16);
            runs.push((is_marked, run.len(), scattered, from));
            from += run.len();
        }
        // Beyond the first ones the order does not matter.
        if runs.len() > MAX_BLOCKS {
            runs.select_nth_unstable_by(MAX_BLOCKS, |a, b| b.cmp(a));
        }
        let first = runs.len().min(MAX_BLOCKS);
        runs[..first].sort_unstable_by(|a, b| b.cmp(a));
        Promising { rows, runs, at: 0 }
    }

    /// The next ones: those of few blocks. Empty when there are no more.
    fn next(&mut self) -> Vec<RowId> {
        let mut out = Vec::new();
        for (_, len, _, from) in self.runs[self.at..].iter().take(MAX_BLOCKS) {
            if !out.is_empty() && out.len() + len > MAX_ROWS {
                break;
            }
            let rows = &self.rows[*from..from + len];
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

    /// Rows of blocks up to a bound are dead; remembers what it was asked.
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
        assert_eq!((blocks.len(), gone), (MAX_BLOCKS, 0), "nobody is dead: a sample is all");
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
