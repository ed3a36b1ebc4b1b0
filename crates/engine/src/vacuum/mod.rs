//! Vacuum: how garbage leaves a table and its indexes.
//!
//! One run over a table: pages are pruned, frozen and marked one by one while their dead row ids
//! are collected; when the set is full, or at the end, every index loses its entries for them
//! (`indexes`); only then are the line pointers freed, behind the recycle clock (R3); then long
//! values are given back that no version names any more (`table::long`); at last the empty tail is
//! cut, if nobody uses the table.
//!
//! | file | hides |
//! |---|---|
//! | `indexes` | how entries leave: by key or by a pass, several indexes at once, in parts |
//! | `known` | the bytes of dead rows, from which their keys are made |
//! | `dead_rows` | the set of dead row ids |
//! | `parked` | what an interrupted run leaves to the next |
//! | `progress` | how far a run is |
//!
//! Invariants: one run per table at a time (it holds the turn to free row ids), and none beside an
//! index build: the caller holds the table's write lock, which a build excludes. No row id is freed
//! before every index has been cleaned of it. A run that stops half-way leaves dead line pointers,
//! which the next run collects again.
//! Does not do: deciding when to run, how fast, starting threads.

mod dead_rows;
#[cfg(all(test, feature = "shuttle"))]
mod explore;
mod indexes;
mod known;
mod parked;
mod progress;
#[cfg(all(test, not(feature = "shuttle")))]
mod tests;

use std::collections::VecDeque;

use rightlink_env::sync::MutexGuard;
use rightlink_env::{Budget, points};

pub use dead_rows::DeadRows;
pub use indexes::{Alone, Workers};
pub use parked::Parked;
pub use progress::{Phase, Progress};

use crate::error::{Error, Result};
use crate::heap::{DeadRoot, Heap, Skip, VacuumOptions, VacuumPage};
use crate::ids::{BlockNo, ObjectId, RowId, Xid};
use crate::table::Table;
use known::Known;

/// Blocks whose dead row ids are collected before the set is asked for room.
const CHUNK: u32 = 32;
/// Blocks that are cut off a table's end between two looks at the log.
const CUT: u32 = 64;
/// One of so many heap blocks with dead rows is too few for a pass over the indexes.
const FEW: u64 = 50;
/// Of the memory of a run, the part for rows whose entries may go by key.
const KNOWN_SHARE: usize = 8;

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
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

/// What a run may use.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Threads for the indexes.
    pub workers: &'a dyn Workers,
    /// Called between pieces of work, with the number of blocks done and nothing latched, by every
    /// thread. An error of it ends the run.
    pub pace: &'a (dyn Fn(u32) -> Result<()> + Sync),
    /// Called between pages that are changed, with nothing latched: may more be logged? An error of
    /// it ends the run.
    pub admit: &'a (dyn Fn() -> Result<()> + Sync),
    /// Told how far it is.
    pub progress: &'a Progress,
}

/// A run over one table.
pub struct Vacuum<'a> {
    table: &'a Table,
    memory: (&'a Budget, usize),
    limits: Limits<'a>,
    dead: DeadRows,
    known: Known,
    /// Of rows of `dead`, whose entries are about to go by key.
    roots: Option<Vec<DeadRoot>>,
    /// Rows that readers pruned before the run, in order, of pages that it has not come to.
    queued: VecDeque<RowId>,
    /// `dead` has forwarding stubs, which no later run takes for dead.
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
    report: Report,
}

/// How a run ended. What it did counts also after an error.
pub struct Ended {
    /// What it did.
    pub report: Report,
    /// Why it stopped before the end, if it did.
    pub result: Result<()>,
    /// What the next run should begin with.
    pub parked: Option<Parked>,
}

impl<'a> Vacuum<'a> {
    /// Prepares a run whose dead row ids, and rows to be found by key, take at most `bytes` of
    /// `budget`. `horizon`: no xid at or above it is frozen. With `may_skip`, few dead rows are
    /// left to a later run rather than pass over the indexes.
    pub fn new(
        table: &'a Table,
        (budget, bytes): (&'a Budget, usize),
        (horizon, may_skip): (Xid, bool),
        limits: Limits<'a>,
    ) -> Result<Self> {
        let known = bytes / KNOWN_SHARE;
        let dead = DeadRows::new(budget, bytes - known)?;
        let known = Known::new(budget, known);
        let run = Self {
            table,
            memory: (budget, bytes),
            limits,
            dead,
            known,
            roots: None,
            queued: VecDeque::new(),
            has_stubs: false,
            may_skip,
            horizon,
            clean: Vec::new(),
            freed_to: None,
            dead_pages: 0,
            report: Report::default(),
        };
        run.tell_memory(0);
        Ok(run)
    }

    /// Tells what it keeps of the budget for dead rows, `beside` what is at hand.
    fn tell_memory(&self, beside: usize) {
        self.limits.progress.keeps(self.dead.reserved() + self.known.reserved() + beside);
    }

    /// Runs over the whole table, after what an earlier run left. The caller got the `turn` to free
    /// row ids, which ends with the run.
    pub fn run(mut self, turn: MutexGuard<'_, ()>, parked: Option<Parked>) -> Ended {
        let result = self.run_alone(parked);
        let mut parked = None;
        if result.is_err() {
            // By these the entries of stubs are found: nobody else knows of them.
            let roots = self.roots.take().into_iter().flatten().chain(self.known.drain());
            self.heap().keep_dead_roots(roots.collect());
        }
        // After any other error it is not known what was freed.
        if matches!(result, Err(Error::Cancelled(_))) && !self.clean.is_empty() {
            let (clock, freed_to) = (self.heap().clock().now(), self.freed_to);
            let (mut dead, clean, heap) = (self.dead, self.clean, self.table.heap().clone());
            // Nobody may come for it in a long time.
            dead.shrink();
            parked = Some(Parked { dead, clean, freed_to, clock, heap });
        }
        drop(turn);
        Ended { report: self.report, result, parked }
    }

    fn heap(&self) -> &'a Heap {
        self.table.heap()
    }

    /// Runs with the turn.
    fn run_alone(&mut self, parked: Option<Parked>) -> Result<()> {
        if let Some(parked) = parked
            && let Some((dead, clean)) = parked.take_up(self.heap(), self.memory)?
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
        let (budget, pace) = (self.memory.0, self.limits.pace);
        self.report.overflow_pages = self.table.sweep_values(budget, pace)?.pages;
        self.heap().set_oldest_unfrozen(oldest)?;
        self.report.oldest_unfrozen = oldest;
        Ok(())
    }

    /// Takes over what readers pruned: the turn keeps others from giving their row ids free.
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

    /// The row ids of a page whose entries are to go: those of dead line pointers, and of
    /// forwarding stubs that were made now or are in the queue. A stub's line pointer is not dead
    /// and is not given free; but its row, and with it the keys of its entries, is gone for good.
    fn dead_on(&mut self, block: BlockNo, page: &VacuumPage) -> Vec<RowId> {
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
        let pass = heap.scan_dead(blocks, options, Skip::AllFrozen, &mut |block, page| {
            done += 1;
            (limits.admit)()?;
            if found.first().is_some_and(|first| block.0 - first.block.0 >= CHUNK) {
                self.collect(&mut found)?;
            }
            let dead = self.dead_on(block, &page);
            self.dead_pages += u64::from(!dead.is_empty());
            found.extend_from_slice(&dead);
            self.known.add(page.died);
            if done == CHUNK {
                limits.progress.heap_at(block.0, end);
                (limits.pace)(std::mem::take(&mut done))?;
            }
            Ok(())
        })?;
        self.collect(&mut found)?;
        limits.progress.heap_at(end, end);
        self.report.pages += u64::from(pass.pages);
        Ok(pass.oldest_unfrozen)
    }

    /// Adds the row ids of up to [`CHUNK`] blocks to the set, which is emptied first if it is full.
    fn collect(&mut self, found: &mut Vec<RowId>) -> Result<()> {
        if !self.dead.has_room() {
            self.remove(false)?;
            self.limits.progress.enter(Phase::Heap);
        }
        self.dead.extend(found);
        self.limits.progress.collected(self.dead.len());
        found.clear();
        Ok(())
    }

    /// Removes the collected row ids from every index, then frees them. `last`: these are the last
    /// of the run.
    fn remove(&mut self, last: bool) -> Result<()> {
        if self.dead.is_empty() {
            return Ok(());
        }
        points::hit("vacuum.before-indexes");
        self.limits.progress.enter(Phase::Indexes);
        self.roots = self.known.take(&self.dead);
        if last && self.may_skip && self.roots.is_none() && self.are_few() && !self.has_stubs {
            points::hit("vacuum.skipped");
            self.report.rows_left += self.dead.len() as u64;
        } else {
            self.dead.settle();
            self.clean_indexes()?;
            self.free()?;
        }
        (self.roots, self.has_stubs) = (None, false);
        self.dead.clear();
        self.known.clear();
        self.clean.clear();
        self.freed_to = None;
        self.limits.progress.collected(0);
        Ok(())
    }

    /// Are the dead rows of this run too few for a pass over the indexes?
    fn are_few(&self) -> bool {
        let blocks = u64::from(self.heap().blocks());
        self.report.index_passes == 0 && self.dead_pages * FEW < blocks
    }

    fn clean_indexes(&mut self) -> Result<()> {
        let rows = (&self.dead, self.roots.as_deref());
        let (cleaned, result) = indexes::clean(self.table, rows, &self.clean, &self.limits);
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
pub fn cut_tail(heap: &Heap, admit: &dyn Fn() -> Result<()>) -> Result<u32> {
    points::hit("vacuum.cut-tail");
    let mut cut = 0;
    loop {
        admit()?;
        let more = heap.cut_tail(CUT)?;
        cut += more;
        if more < CUT {
            return Ok(cut);
        }
    }
}
