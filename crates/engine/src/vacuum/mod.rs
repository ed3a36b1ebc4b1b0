//! Vacuum of one table: removes what pruning on access leaves behind.
//!
//! Pages are pruned, frozen and marked one by one, and their dead row ids are collected. When the
//! set is full, and at the end, their entries are removed from every index (`indexes`). Only then
//! are the line pointers freed, behind the recycle clock (R3). Then overflow chains that no version
//! names are given back, and the caller cuts the empty tail. `README.md` beside this file lists the
//! phases.
//!
//! | file | concern |
//! |---|---|
//! | `indexes` | removal of index entries, by key or by a pass, on several threads |
//! | `known_rows` | the bytes of dead rows, from which their keys are made |
//! | `dead_rows` | the set of dead row ids |
//! | `resume` | what an interrupted run leaves to the next |
//! | `progress` | how far a run is |
//!
//! Invariants: one run per table at a time holds the turn to free row ids. None runs beside an
//! index build: the caller holds the table's write lock, which a build excludes. No row id is freed
//! before every index was cleaned of it. A run that stops earlier leaves dead line pointers to the
//! next.
//! Does not do: decide when to run or how fast, or start threads.
//!
//! PostgreSQL: `access/heap/vacuumlazy.c`.

mod dead_rows;
mod indexes;
mod known_rows;
mod progress;
mod resume;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use rightlink_env::sync::MutexGuard;
use rightlink_env::{Budget, points};

pub use dead_rows::DeadRows;
pub(crate) use indexes::Workers;
pub use progress::Phase;
pub(crate) use progress::Progress;
pub(crate) use resume::ResumableRun;

use crate::error::{Error, Result};
use crate::heap::{DeadRoot, Heap, VacuumOptions, VacuumPage};
use crate::ids::{BlockNo, ObjectId, RowId, Xid};
use crate::table::Table;
use known_rows::KnownRows;

/// Blocks whose dead row ids are collected before the set is asked for room.
const COLLECT_BLOCKS: u32 = 32;
/// Blocks that are cut off a table's end between two looks at the log.
const CUT_BLOCKS: u32 = 64;
/// A pass over the indexes is skipped if fewer than one of so many heap pages have dead rows.
const FEW_PAGES_SHARE: u64 = 50;
/// One part of so many of a run's memory is for rows whose entries may be removed by key.
const KNOWN_SHARE: usize = 8;

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunReport {
    /// Heap pages looked at.
    pub pages: u64,
    /// Rows whose line pointers were freed.
    pub rows: u64,
    /// Dead rows left to a later run, because they were too few for a pass over the indexes.
    pub rows_left: u64,
    /// Index entries removed.
    pub entries: u64,
    /// Passes over the indexes; entries that all went by key need none.
    pub index_passes: u64,
    /// Blocks cut off the end.
    pub cut: u64,
    /// Index pages that became free.
    pub index_pages_freed: u64,
    /// Overflow pages given back.
    pub overflow_pages: u64,
    /// Oldest xid left unfrozen in the table.
    pub oldest_unfrozen: Xid,
}

/// Resources and callbacks of a run.
#[derive(Clone, Copy)]
pub(crate) struct Limits<'a> {
    /// Threads for the indexes.
    pub workers: &'a dyn Workers,
    /// Called between pieces of work, with the number of blocks done and nothing latched, by every
    /// thread. An error of it ends the run.
    pub pace: &'a (dyn Fn(u32) -> Result<()> + Sync),
    /// Called between pages that are changed, with nothing latched: may more be logged? An error of
    /// it ends the run.
    pub admit: &'a (dyn Fn() -> Result<()> + Sync),
    /// Progress of the run, for other threads.
    pub progress: &'a Progress,
}

/// Memory for dead row ids, and for dead rows that are found by key.
#[derive(Clone, Copy)]
pub(crate) struct RunMemory<'a> {
    /// Where it is reserved.
    pub budget: &'a Budget,
    /// Most bytes.
    pub bytes: usize,
}

/// What a run may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunOptions {
    /// No xid at or above it is frozen.
    pub horizon: Xid,
    /// Few dead rows may be left to a later run rather than pass over the indexes.
    pub may_skip: bool,
}

/// A run over one table.
pub(crate) struct Vacuum<'a> {
    table: &'a Table,
    memory: RunMemory<'a>,
    limits: Limits<'a>,
    dead: DeadRows,
    known: KnownRows,
    /// Rows of `dead` whose entries are about to be removed by key.
    roots: Option<Vec<DeadRoot>>,
    /// Rows pruned by readers before the run, in order, on pages that the run has not reached.
    queued: VecDeque<RowId>,
    /// `dead` has forwarding stubs, which a later run would not take for dead.
    has_stubs: bool,
    /// May a pass over the indexes be left out?
    may_skip: bool,
    horizon: Xid,
    /// Indexes that hold none of `dead` any more.
    clean: Vec<ObjectId>,
    /// The last of `dead` that was freed.
    freed_to: Option<RowId>,
    /// Heap pages with dead rows.
    dead_pages: u64,
    report: RunReport,
}

/// How a run ended. Its report counts also after an error.
pub(crate) struct FinishedRun {
    /// What it did.
    pub report: RunReport,
    /// Why it stopped before the end, if it did.
    pub result: Result<()>,
    /// What the next run resumes.
    pub resumable: Option<ResumableRun>,
}

impl<'a> Vacuum<'a> {
    /// Prepares a run over `table`.
    pub(crate) fn new(
        table: &'a Table,
        memory: RunMemory<'a>,
        options: RunOptions,
        limits: Limits<'a>,
    ) -> Result<Self> {
        let known = memory.bytes / KNOWN_SHARE;
        let dead = DeadRows::new(memory.budget, memory.bytes - known)?;
        let known = KnownRows::new(memory.budget, known);
        let run = Self {
            table,
            memory,
            limits,
            dead,
            known,
            roots: None,
            queued: VecDeque::new(),
            has_stubs: false,
            may_skip: options.may_skip,
            horizon: options.horizon,
            clean: Vec::new(),
            freed_to: None,
            dead_pages: 0,
            report: RunReport::default(),
        };
        run.tell_memory(0);
        Ok(run)
    }

    /// Reports the memory reserved for dead rows, including `beside`.
    fn tell_memory(&self, beside: usize) {
        self.limits.progress.set_memory(self.dead.reserved() + self.known.reserved() + beside);
    }

    /// Runs over the whole table, after resuming an earlier run. The caller took the `turn` to free
    /// row ids, which ends with the run.
    pub(crate) fn run(
        mut self,
        turn: MutexGuard<'_, ()>,
        resumable: Option<ResumableRun>,
    ) -> FinishedRun {
        let result = self.run_phases(resumable);
        let mut resumable = None;
        if result.is_err() {
            // Only these tell the keys of entries of forwarding stubs.
            let roots = self.roots.take().into_iter().flatten().chain(self.known.drain());
            self.heap().keep_dead_roots(roots.collect());
        }
        // After any other error it is not known what was freed.
        if matches!(result, Err(Error::Cancelled(_) | Error::LockTimeout { .. }))
            && !self.clean.is_empty()
        {
            let (clock, freed_to) = (self.heap().clock().now(), self.freed_to);
            let (mut dead, clean, heap) = (self.dead, self.clean, self.table.heap().clone());
            // The next run may come much later.
            dead.shrink();
            resumable = Some(ResumableRun { dead, clean, freed_to, clock, heap });
        }
        drop(turn);
        FinishedRun { report: self.report, result, resumable }
    }

    fn heap(&self) -> &'a Heap {
        self.table.heap()
    }

    /// Runs with the turn.
    fn run_phases(&mut self, resumable: Option<ResumableRun>) -> Result<()> {
        if let Some(resumable) = resumable
            && let Some((dead, clean)) = resumable.resume(self.heap(), self.memory)?
        {
            points::hit("vacuum.taken-up");
            self.clean = clean;
            // It has no room for others.
            let empty = std::mem::replace(&mut self.dead, dead);
            self.tell_memory(empty.reserved());
            self.remove(false)?;
            self.dead = empty;
            self.tell_memory(0);
        }
        self.take_queued();
        let (mut next, mut oldest) = (1, self.horizon);
        while next < self.heap().blocks() {
            let end = self.heap().blocks();
            let found = self.prune(next..end)?;
            oldest = found.map_or(oldest, |xid| xid.min(oldest));
            next = end;
        }
        self.remove(true)?;
        let (budget, pace) = (self.memory.budget, self.limits.pace);
        self.report.overflow_pages = self.table.sweep_values(budget, pace)?.pages;
        self.heap().set_oldest_unfrozen(oldest)?;
        self.report.oldest_unfrozen = oldest;
        Ok(())
    }

    /// Takes over the roots that readers pruned. The turn keeps other threads from freeing their
    /// row ids.
    fn take_queued(&mut self) {
        let mut queued = self.heap().take_all_dead_roots();
        // Row ids of the others may name new rows.
        let clock = self.heap().clock();
        queued.retain(|root| !clock.newer_than(root.row_id.block, root.pruned_at));
        let mut rows: Vec<RowId> = queued.iter().map(|root| root.row_id).collect();
        rows.sort_unstable();
        self.queued = rows.into();
        self.known.add(queued);
    }

    /// The row ids of a page whose entries are to be removed: dead line pointers, and forwarding
    /// stubs that were made now or are queued. The line pointer of a stub is not dead and is not
    /// freed; but its row, and with it the keys of its entries, is gone for good.
    fn dead_rows_of_page(&mut self, block: BlockNo, page: &VacuumPage) -> Vec<RowId> {
        let mut rows: Vec<RowId> = page.died.iter().map(|root| root.row_id).collect();
        let come = self.queued.partition_point(|row| row.block <= block);
        // A page that was left out has neither stubs nor dead line pointers.
        rows.extend(self.queued.drain(..come).filter(|row| row.block == block));
        rows.retain(|row| page.dead.binary_search(row).is_err());
        self.has_stubs |= !rows.is_empty();
        rows.extend_from_slice(&page.dead);
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Prunes a range of pages and collects their dead rows; the oldest xid left there.
    fn prune(&mut self, blocks: std::ops::Range<u32>) -> Result<Option<Xid>> {
        let (heap, limits, end) = (self.heap(), self.limits, blocks.end);
        limits.progress.enter(Phase::Heap);
        let options = VacuumOptions { freeze_below: self.horizon };
        let mut found: Vec<RowId> = Vec::new();
        let mut done = 0;
        let pass = heap.scan_dead(blocks, options, &mut |block, page| {
            done += 1;
            (limits.admit)()?;
            if found.first().is_some_and(|first| block.0 - first.block.0 >= COLLECT_BLOCKS) {
                self.collect(&mut found)?;
            }
            let dead = self.dead_rows_of_page(block, &page);
            self.dead_pages += u64::from(!dead.is_empty());
            found.extend_from_slice(&dead);
            self.known.add(page.died);
            if done == COLLECT_BLOCKS {
                limits.progress.set_heap_block(block.0, end);
                (limits.pace)(std::mem::take(&mut done))?;
            }
            Ok(())
        })?;
        self.collect(&mut found)?;
        limits.progress.set_heap_block(end, end);
        self.report.pages += u64::from(pass.pages);
        Ok(pass.oldest_unfrozen)
    }

    /// Adds the row ids of up to [`COLLECT_BLOCKS`] blocks to the set. A full set is emptied first.
    fn collect(&mut self, found: &mut Vec<RowId>) -> Result<()> {
        if !self.dead.has_room() {
            self.remove(false)?;
            self.limits.progress.enter(Phase::Heap);
        }
        self.dead.extend(found);
        self.limits.progress.set_dead(self.dead.len());
        found.clear();
        Ok(())
    }

    /// Removes the collected row ids from every index, then frees them. `last`: no more are
    /// collected in this run.
    fn remove(&mut self, last: bool) -> Result<()> {
        if self.dead.is_empty() {
            return Ok(());
        }
        points::hit("vacuum.before-indexes");
        self.limits.progress.enter(Phase::Indexes);
        self.roots = self.known.take(&self.dead);
        if last
            && self.may_skip
            && self.roots.is_none()
            && self.has_few_dead_rows()
            && !self.has_stubs
        {
            points::hit("vacuum.skipped");
            self.report.rows_left += self.dead.len() as u64;
        } else {
            self.dead.list_places();
            self.clean_indexes()?;
            self.free()?;
        }
        (self.roots, self.has_stubs) = (None, false);
        self.dead.clear();
        self.known.clear();
        self.clean.clear();
        self.freed_to = None;
        self.limits.progress.set_dead(0);
        Ok(())
    }

    /// Does this run have too few dead rows for a pass over the indexes?
    fn has_few_dead_rows(&self) -> bool {
        let blocks = u64::from(self.heap().blocks());
        self.report.index_passes == 0 && self.dead_pages * FEW_PAGES_SHARE < blocks
    }

    fn clean_indexes(&mut self) -> Result<()> {
        let roots = self.roots.as_deref();
        let (cleaned, result) =
            indexes::clean(self.table, &self.dead, roots, &self.clean, &self.limits);
        self.clean.extend(cleaned.clean);
        self.report.entries += cleaned.entries;
        self.report.index_pages_freed += cleaned.pages_freed;
        result?;
        let passed = cleaned.passed > 0 || self.table.indexes().is_empty();
        self.report.index_passes += u64::from(passed);
        if passed {
            self.limits.progress.end_pass();
        }
        Ok(())
    }

    fn free(&mut self) -> Result<()> {
        points::hit("vacuum.before-free");
        self.limits.progress.enter(Phase::Freeing);
        let (heap, limits) = (self.heap(), self.limits);
        let (report, freed_to) = (&mut self.report, &mut self.freed_to);
        self.dead.for_each_piece(|rows| {
            report.rows += heap.free_slots(rows, limits.admit)?;
            *freed_to = rows.last().copied();
            let blocks = rows.chunk_by(|a, b| a.block == b.block).count();
            (limits.pace)(blocks as u32)
        })
    }
}

/// Cuts the empty tail of a table whose exclusive lock the caller holds. Returns the blocks cut.
/// `admit` is as in [`Limits`].
pub(crate) fn cut_tail(heap: &Heap, admit: &dyn Fn() -> Result<()>) -> Result<u32> {
    points::hit("vacuum.cut-tail");
    let mut cut = 0;
    loop {
        admit()?;
        let more = heap.cut_tail(CUT_BLOCKS)?;
        cut += more;
        if more < CUT_BLOCKS {
            return Ok(cut);
        }
    }
}
