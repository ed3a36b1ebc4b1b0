//! Vacuum: how garbage leaves a table and its indexes.
//!
//! One run over a table: pages are pruned, frozen and marked one by one while their dead row ids
//! are collected; when the set is full, or at the end, every index removes its entries for them;
//! only then are the line pointers freed, behind the recycle clock (R3); at last the empty tail is
//! cut, if nobody uses the table.
//!
//! Invariants: one vacuum per table at a time, and none beside an index build: the caller holds the
//! table's write lock (which a build excludes) and its turn. No row id is freed before every index
//! has been cleaned of it. A run that stops half-way leaves dead line pointers, which the next run
//! collects again.
//! Does not do: deciding when to run, waiting for anybody.

mod dead_rows;

use rightlink_env::{Budget, points};

pub use dead_rows::DeadRows;

use crate::error::Result;
use crate::heap::{Heap, Skip, VacuumOptions};
use crate::ids::{RowId, Xid};
use crate::index::am::AccessMethod;

/// Blocks whose dead row ids are collected before the set is asked for room.
const CHUNK: u32 = 32;

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Heap pages looked at.
    pub pages: u64,
    /// Rows whose line pointers were freed.
    pub rows: u64,
    /// Index entries removed.
    pub entries: u64,
    /// Passes over the indexes.
    pub index_passes: u64,
    /// Blocks cut off the end.
    pub cut: u64,
    /// Index pages that became free.
    pub index_pages_freed: u64,
    /// Oldest xid left unfrozen in the table.
    pub oldest_unfrozen: Xid,
}

/// A run over one table.
pub struct Vacuum<'a> {
    heap: &'a Heap,
    indexes: &'a [&'a dyn AccessMethod],
    dead: DeadRows,
    horizon: Xid,
    report: Report,
}

impl<'a> Vacuum<'a> {
    /// Prepares a run whose dead row ids take at most `bytes` of `budget`. `horizon`: no xid at or
    /// above it is frozen.
    pub fn new(
        heap: &'a Heap,
        indexes: &'a [&'a dyn AccessMethod],
        (budget, bytes): (&Budget, usize),
        horizon: Xid,
    ) -> Result<Self> {
        let dead = DeadRows::new(budget, bytes)?;
        Ok(Self { heap, indexes, dead, horizon, report: Report::default() })
    }

    /// Runs over the whole table. `pace` is called between pieces of work, with nothing latched; an
    /// error of it ends the run.
    pub fn run(mut self, pace: &mut dyn FnMut() -> Result<()>) -> Result<Report> {
        let _turn = self.heap.freeing();
        drop(self.heap.take_dead_roots());
        let options = VacuumOptions { freeze_below: self.horizon };
        let (mut next, mut oldest) = (1, self.horizon);
        while next < self.heap.blocks() {
            let (heap, end) = (self.heap, self.heap.blocks());
            let mut found: Vec<RowId> = Vec::new();
            let pass =
                heap.scan_dead(next..end, options, Skip::AllFrozen, &mut |block, page| {
                    if found.first().is_some_and(|first| block.0 - first.block.0 >= CHUNK) {
                        self.collect(&mut found)?;
                    }
                    if block.0 % CHUNK == 0 {
                        pace()?;
                    }
                    found.extend_from_slice(&page.dead);
                    Ok(())
                })?;
            self.collect(&mut found)?;
            self.report.pages += u64::from(pass.pages);
            oldest = pass.oldest_unfrozen.map_or(oldest, |xid| xid.min(oldest));
            next = end;
        }
        self.clean()?;
        self.heap.set_oldest_unfrozen(oldest)?;
        self.report.oldest_unfrozen = oldest;
        Ok(self.report)
    }

    /// Adds the row ids of up to [`CHUNK`] blocks to the set, which is cleaned first if it is full.
    fn collect(&mut self, found: &mut Vec<RowId>) -> Result<()> {
        if !self.dead.has_room() {
            self.clean()?;
        }
        self.dead.extend(found);
        found.clear();
        Ok(())
    }

    /// Removes the collected row ids from every index, then frees them.
    fn clean(&mut self) -> Result<()> {
        if self.dead.is_empty() {
            return Ok(());
        }
        points::hit("vacuum.before-indexes");
        let dead = &self.dead;
        for index in self.indexes {
            let stats = index.bulk_delete(&mut |rows, out| dead.probe(rows, out))?;
            self.report.entries += stats.removed;
            self.report.index_pages_freed += u64::from(stats.pages_deleted);
        }
        self.report.index_passes += 1;
        points::hit("vacuum.before-free");
        let mut freed = 0;
        self.dead.for_each_piece(|rows| {
            freed += self.heap.free_slots(rows)?;
            Ok(())
        })?;
        self.report.rows += freed;
        self.dead.clear();
        Ok(())
    }
}

/// Cuts the empty tail of a table whose exclusive lock the caller holds. Returns the blocks cut.
pub fn cut_tail(heap: &Heap) -> Result<u32> {
    points::hit("vacuum.cut-tail");
    heap.cut_tail(u32::MAX)
}
