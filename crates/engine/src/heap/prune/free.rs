//! Freeing of dead line pointers whose row ids have left every index.
//!
//! Vacuum frees what an index pass removed; cleaning by key frees the roots that it removed. Both
//! advance the recycle clock first (R3).
//!
//! Invariants: a line pointer is freed only after its row id left every index and the clock was
//! advanced. By key it is freed only if no row id of its block was freed since the root died, under
//! the lock that vacuum holds from its first look at a page to its last.
//! Does not do: find or remove index entries.

use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::MutexGuard;

use crate::buffer::{ReadStream, StreamOptions};
use crate::error::Result;
use crate::heap::Heap;
use crate::heap::latch::MapLatches;
use crate::heap::prune::dead_roots::DeadRoot;
use crate::heap::prune::freeze::{FreezeLimits, plan_freeze};
use crate::heap::prune::plan::PrunePlan;
use crate::heap::visibility::HeapVisibility;
use crate::ids::{RowId, Xid};
use crate::wal::RecordKind;

/// What freeing by key did to a list of dead roots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreedByKey {
    /// Line pointers freed.
    pub freed: u64,
    /// Roots left alone because their row ids may name other rows by now.
    pub recycled: u64,
}

impl Heap {
    /// Takes the turn to free row ids of this table; `None` if another thread has it. A caller that
    /// collects dead row ids and frees them later, as vacuum does, holds the turn in between:
    /// otherwise a row id could be freed and name a new row meanwhile.
    pub fn try_freeing(&self) -> Option<MutexGuard<'_, ()>> {
        self.shared.freeing.try_lock()
    }

    /// As [`Heap::try_freeing`], after a wait.
    #[cfg(test)]
    pub fn freeing(&self) -> MutexGuard<'_, ()> {
        self.shared.freeing.lock()
    }

    /// Frees the line pointers of `roots`, sorted by row id, whose entries have left every index. A
    /// root is left alone if a row id of its block was freed since it died. `None`: another thread
    /// has the turn.
    pub fn free_by_key(&self, roots: &[DeadRoot]) -> Result<Option<FreedByKey>> {
        assert!(roots.is_sorted_by_key(|root| root.row_id), "one visit per page");
        let turn = self.shared.freeing.try_lock();
        if turn.is_none() && !broken(Broken::FreedBesideVacuum) {
            return Ok(None);
        }
        // All are asked before the first is freed: blocks share buckets of the clock.
        let same = |root: &&DeadRoot| {
            !self.clock().newer_than(root.row_id.block, root.pruned_at)
                || broken(Broken::FreedWithoutClock)
        };
        let rows: Vec<RowId> = roots.iter().filter(same).map(|root| root.row_id).collect();
        let mut freed = 0;
        for run in rows.chunk_by(|a, b| a.block == b.block) {
            freed += self.free_block_by_key(run)?;
        }
        Ok(Some(FreedByKey { freed, recycled: (roots.len() - rows.len()) as u64 }))
    }

    fn free_block_by_key(&self, rows: &[RowId]) -> Result<u64> {
        let block = rows[0].block;
        if !broken(Broken::RecycleClockNotAdvanced) {
            self.clock().advance(block);
        }
        let Some(mut set) = self.latch(&[block.0], MapLatches::Marked)? else { return Ok(0) };
        let mut plan = PrunePlan::unchanged(&set.page(block.0)?)?;
        let freed = plan.free(rows);
        if freed > 0 {
            let compaction = plan.compaction(&set.page(block.0)?)?;
            plan.apply(&mut set.store(block.0), &compaction);
            set.commit(RecordKind::HeapPrune, Xid::NONE)?;
            rightlink_env::points::hit("heap.freed-by-key");
        }
        Ok(freed)
    }

    /// Frees dead line pointers whose row ids are in no index any more. `rows` is sorted. A line
    /// pointer that is not dead is left alone. `go_on` is called before each page with nothing
    /// latched; its error ends the work.
    pub fn free_slots(&self, rows: &[RowId], go_on: &dyn Fn() -> Result<()>) -> Result<u64> {
        assert!(rows.is_sorted(), "row ids in order: one visit per page");
        let mut chunks = rows.chunk_by(|a, b| a.block == b.block);
        let mut stream = ReadStream::new(self.pool(), StreamOptions::ORDERED, move || {
            let chunk = chunks.find(|chunk| self.is_data_block(chunk[0].block.0));
            Ok(chunk.map(|chunk| (self.page_id(chunk[0].block.0), chunk)))
        });
        let mut freed = 0;
        while let Some((pin, chunk)) = stream.next()? {
            go_on()?;
            freed += self.free_block(chunk)?;
            drop(pin);
        }
        Ok(freed)
    }

    fn free_block(&self, rows: &[RowId]) -> Result<u64> {
        let block = rows[0].block;
        let late = broken(Broken::RecycleClockAdvancedLate);
        if !broken(Broken::RecycleClockNotAdvanced) && !late {
            self.clock().advance(block);
        }
        let limits = FreezeLimits { freeze_below: Xid::NONE, horizon: self.txns().horizon() };
        let mut visibility = HeapVisibility::new(self.txns());
        let Some(set) = self.latch(&[block.0], MapLatches::All)? else { return Ok(0) };
        let page = set.page(block.0)?;
        let mut plan = PrunePlan::unchanged(&page)?;
        let freed = plan.free(rows);
        let freeze = plan_freeze(&page, &plan.slots, &mut visibility, limits)?;
        self.store_vacuum(set, block.0, Some(&plan), &freeze)?;
        if late {
            self.clock().advance(block);
        }
        Ok(freed)
    }
}
