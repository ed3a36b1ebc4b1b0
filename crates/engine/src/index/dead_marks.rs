//! Dead marks that scans leave on entries of dead rows: what all methods share.
//!
//! An entry is searched for on the leaf that the scan read, then on a few leaves right of it,
//! because a split moves entries right (R5). A method only says which bits mark its entries.
//!
//! Invariants: a mark is set only under the exclusive latch, on an entry found again by key and
//! row id, after the caller's check ran under that latch (R3). Marks are hints and not logged (R1).
//! No page is read for them. The scan holds no latch, so it may wait for the leaf's.
//! Does not do: decide what is dead; read leaves (`LeafMarks` comes from the method).
//! PostgreSQL: `_bt_killitems`; there the marks are lost if the leaf has changed.

use crate::buffer::BufferPool;
#[cfg(feature = "experiments")]
use crate::buffer::own_changes;
use crate::config::PAGE_SIZE;
use crate::ids::PageId;
use crate::index::leaf_batch::LeafBatch;
use crate::page::header::{FLAGS, lsn};
use crate::page::{Checked, PageMut};

/// Slot bit: the row of the entry is dead to everyone (a hint).
pub(crate) const DEAD: u16 = 1 << 13;
/// Page flag, a hint: some entries carry [`DEAD`].
pub(crate) const HAS_DEAD: u16 = 8;

/// One bit to set on a page.
pub(crate) struct MarkBit {
    /// Offset of the byte.
    pub(crate) offset: usize,
    /// The bit.
    pub(crate) bit: u8,
}

impl MarkBit {
    /// The mark of the entry whose slot is at `offset`.
    pub(crate) fn of_slot(offset: usize) -> MarkBit {
        MarkBit { offset: offset + 1, bit: (DEAD >> 8) as u8 }
    }
}

/// What is to be marked on one leaf.
#[derive(Default)]
pub struct LeafMarks {
    /// A bit for each entry.
    pub(crate) bits: Vec<MarkBit>,
    /// Where places that are left may be; 0: nowhere.
    pub(crate) right: u32,
}

/// Counts of the dead entries that scans met, by outcome.
///
/// ```
/// # use rightlink::{TableSchema, Type};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # txn.create_table(&TableSchema::new("n").column("a", Type::Int8).primary_key(["a"]))?;
/// # txn.commit()?;
/// let marks = db.table_figures()?[0].indexes[0].dead_marks;
/// assert_eq!((marks.made, marks.evicted), (0, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadMarks {
    /// Entries that were marked.
    pub made: u64,
    /// Entries that were left because their leaf was no longer in memory.
    pub evicted: u64,
    /// Entries that were left because their leaf had changed, where a policy asks for that.
    pub changed: u64,
    /// Entries that were left because their row ids may name newer rows by now (R3).
    pub reused: u64,
}

/// Marks the entries of `batch` at `places`, which are keys and row ids in the method's order.
/// `plan` is [`crate::index::AccessMethod::plan_marks`].
pub(crate) fn mark_leaves(
    pool: &BufferPool,
    batch: &LeafBatch,
    mut places: Vec<Vec<u8>>,
    only_unchanged: bool,
    mut plan: impl FnMut(&[u8; PAGE_SIZE], &mut Vec<Vec<u8>>) -> Checked<LeafMarks>,
) -> DeadMarks {
    /// Leaves that are searched.
    const MAX_LEAVES: usize = 8;
    places.sort_unstable();
    let (mut marked, mut leaf) = (DeadMarks::default(), batch.leaf);
    for _ in 0..MAX_LEAVES {
        let Some(pin) = pool.try_pin(leaf) else {
            marked.evicted = places.len() as u64;
            break;
        };
        let mut right = 0;
        pin.hint_waiting(|page| {
            #[cfg(feature = "experiments")]
            let saved = own_changes::saved_again(batch.leaf, batch.lsn);
            #[cfg(not(feature = "experiments"))]
            let saved = batch.lsn;
            if only_unchanged && lsn(page.bytes()) != saved {
                marked.changed = places.len() as u64;
                return;
            }
            let marks = plan(page.bytes(), &mut places).unwrap_or_default();
            set_bits(page, &marks.bits);
            marked.made += marks.bits.len() as u64;
            right = if places.is_empty() { 0 } else { marks.right };
        });
        if right == 0 {
            break;
        }
        leaf = PageId::new(leaf.file, right);
    }
    marked
}

fn set_bits(page: &mut PageMut<'_>, bits: &[MarkBit]) {
    let flag = MarkBit { offset: FLAGS, bit: HAS_DEAD as u8 };
    for MarkBit { offset, bit } in bits.iter().chain((!bits.is_empty()).then_some(&flag)) {
        let old = page.bytes()[*offset];
        if old & bit == 0 {
            page.write_unlogged(*offset, &[old | bit]);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::buffer::testing;
    use crate::ids::FileId;

    /// Positions are marked on the leaf whose number they bear, and no other.
    fn run(only_unchanged: bool, lsn_of_batch: u64) -> (DeadMarks, Vec<u32>) {
        let test = testing::pool(64, 1);
        let file = FileId(70);
        test.pool.create_file(file, true).unwrap();
        test.pool.extend(file, 20).unwrap();
        let mut batch = LeafBatch::default();
        batch.reset(PageId::new(file, 1), 0);
        batch.lsn = crate::ids::Lsn(lsn_of_batch);
        let (mut visited, mut block) = (Vec::new(), 1);
        for block in 1..20 {
            test.pool.pin(PageId::new(file, block)).unwrap();
        }
        let positions = vec![vec![3], vec![1], vec![1, 9], vec![200]];
        let marked =
            mark_leaves(&test.pool, &batch, positions, only_unchanged, |page, positions| {
                assert!(positions.is_sorted() && page[100] == 0);
                visited.push(block);
                let before = positions.len();
                positions.retain(|position| u32::from(position[0]) != block);
                let bits =
                    (positions.len()..before).map(|at| MarkBit::of_slot(99 + 2 * at)).collect();
                block += 1;
                Ok(LeafMarks { bits, right: block })
            });
        (marked, visited)
    }

    #[test]
    fn marks_follow_entries_to_the_right_and_stop() {
        let three = DeadMarks { made: 3, ..DeadMarks::default() };
        assert_eq!(run(false, 5), (three, (1..=8).collect()));
        assert_eq!(run(true, 0).0, three, "an unchanged leaf");
        let changed = DeadMarks { changed: 4, ..DeadMarks::default() };
        assert_eq!(run(true, 5), (changed, Vec::new()), "a changed leaf is left alone");
    }
}
