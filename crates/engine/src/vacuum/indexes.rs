//! Removal of the index entries of dead rows: by key where the rows are few and known, else by a
//! pass over the index. Several indexes are cleaned at once, and large ones in parts.
//!
//! Invariants: an index counts as clean only when all of its parts are done, or every entry was
//! removed or found absent by key. The first error ends all tasks; clean indexes stay clean.
//! Does not do: free row ids, or start threads (the caller lends them).
//!
//! PostgreSQL: `ambulkdelete`, `commands/vacuumparallel.c`.

use rightlink_env::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};

use super::{DeadRows, Limits};
use crate::buffer::BufferPool;
use crate::error::{Error, Result};
use crate::heap::DeadRoot;
use crate::ids::ObjectId;
use crate::index::am::{BulkDelete, VacuumStats};
use crate::table::{Table, TableIndex};

/// Index blocks that are worth a task of their own: 16 MiB.
const PART_BLOCKS: u32 = if cfg!(test) { 4 } else { 2048 };
/// Blocks of a pass that cost as much as finding one entry by key: those are read one by one.
const BLOCKS_PER_KEY: u64 = 4;
/// Entries removed by key between two rests.
const BATCH: usize = 64;

/// What became of the indexes.
#[derive(Default)]
pub(super) struct CleanedIndexes {
    /// Indexes that hold none of the rows any more.
    pub(super) clean: Vec<ObjectId>,
    /// Entries removed.
    pub(super) entries: u64,
    /// Pages given back.
    pub(super) pages_freed: u64,
    /// Indexes that were passed over as a whole.
    pub(super) passed: usize,
}

/// The work on one index.
struct IndexJob<'a> {
    index: &'a TableIndex,
    /// `None`: by key.
    pass: Option<Box<dyn BulkDelete + 'a>>,
    /// Parts not done yet.
    left: AtomicUsize,
}

/// All of it.
struct IndexCleaning<'a> {
    table: &'a Table,
    dead: &'a DeadRows,
    roots: &'a [DeadRoot],
    limits: &'a Limits<'a>,
    jobs: Vec<IndexJob<'a>>,
    /// Index and part.
    tasks: Vec<(usize, usize)>,
    next: AtomicUsize,
    failed: AtomicBool,
    cleaned: Mutex<(CleanedIndexes, Result<()>)>,
}

/// Removes the entries of `dead` from the indexes of `table` that are not in `clean`. `roots` are
/// the same rows with their bytes, if they are known. The counts are valid also after an error.
pub(super) fn clean(
    table: &Table,
    dead: &DeadRows,
    roots: Option<&[DeadRoot]>,
    clean: &[ObjectId],
    limits: &Limits<'_>,
) -> (CleanedIndexes, Result<()>) {
    let pool = table.heap().pool();
    let (mut jobs, mut tasks, mut blocks) = (Vec::new(), Vec::new(), 0);
    for index in table.indexes().iter().filter(|index| !clean.contains(&index.def().id)) {
        let by_key = roots.is_some_and(|roots| is_cheaper_by_key(pool, index, roots.len()));
        let pass = (!by_key).then(|| {
            let size = pool.blocks(index.def().file);
            blocks += u64::from(size).saturating_sub(1);
            let most = limits.workers.max_threads().min((size / PART_BLOCKS) as usize);
            index.method().begin_delete(most)
        });
        let parts = pass.as_ref().map_or(1, |pass| pass.parts());
        tasks.extend((0..parts).map(|part| (jobs.len(), part)));
        jobs.push(IndexJob { index, pass, left: AtomicUsize::new(parts) });
    }
    limits.progress.begin_indexes(blocks);
    let work = IndexCleaning {
        table,
        dead,
        roots: roots.unwrap_or_default(),
        limits,
        jobs,
        tasks,
        next: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        cleaned: Mutex::new((CleanedIndexes::default(), Ok(()))),
    };
    limits.workers.run(work.tasks.len(), &|| work.run());
    work.cleaned.into_inner()
}

fn is_cheaper_by_key(pool: &BufferPool, index: &TableIndex, rows: usize) -> bool {
    rows as u64 * BLOCKS_PER_KEY < u64::from(pool.blocks(index.def().file))
}

impl IndexCleaning<'_> {
    /// What each thread does.
    fn run(&self) {
        while let Some((job, part)) = self.tasks.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let done = self.run_part(&self.jobs[*job], *part);
            let index = &self.jobs[*job].index.def().id;
            let mut cleaned = self.cleaned.lock();
            match done {
                Ok(Some(stats)) => {
                    cleaned.0.clean.push(*index);
                    cleaned.0.entries += stats.removed;
                    cleaned.0.pages_freed += u64::from(stats.pages_deleted);
                    cleaned.0.passed += usize::from(stats.blocks > 0);
                }
                Ok(None) => {}
                Err(error) => {
                    // Only the first error counts; other tasks end because of it.
                    if !self.failed.swap(true, Ordering::AcqRel) {
                        cleaned.1 = Err(error);
                    }
                    return;
                }
            }
        }
    }

    /// Does a part; what the pass did if that was the last one.
    fn run_part(&self, job: &IndexJob<'_>, part: usize) -> Result<Option<VacuumStats>> {
        let Some(pass) = &job.pass else {
            if let Some(removed) = self.remove_by_key(job.index)? {
                return Ok(Some(VacuumStats { removed, ..VacuumStats::default() }));
            }
            // Keys that were not where they belong, or a row that is none: the pass asks row ids.
            let pass = job.index.method().begin_delete(1);
            self.pass(&*pass, 0)?;
            return pass.finish(&mut |blocks| self.pace(blocks)).map(Some);
        };
        self.pass(&**pass, part)?;
        if job.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return Ok(None);
        }
        pass.finish(&mut |_| self.pace(0)).map(Some)
    }

    fn pass(&self, pass: &dyn BulkDelete, part: usize) -> Result<()> {
        pass.run(part, &mut |rows, out| self.dead.probe(rows, out), &mut |blocks| self.pace(blocks))
    }

    fn remove_by_key(&self, index: &TableIndex) -> Result<Option<u64>> {
        let mut removed = 0;
        for roots in self.roots.chunks(BATCH) {
            match self.table.remove_by_key(index, roots)? {
                Some(entries) => removed += entries,
                None => return Ok(None),
            }
            (self.limits.pace)(roots.len() as u32)?;
        }
        Ok(Some(removed))
    }

    fn pace(&self, blocks: u32) -> Result<()> {
        self.limits.progress.add_index_blocks(blocks);
        (self.limits.pace)(blocks)?;
        match self.failed.load(Ordering::Acquire) {
            true => Err(Error::Cancelled("another part of the pass failed".into())),
            false => Ok(()),
        }
    }
}

/// Threads that the caller lends.
pub(crate) trait Workers: Sync {
    /// Most threads at work at once, at least one.
    fn max_threads(&self) -> usize;

    /// Runs `work` on up to `tasks` threads, the caller's among them, and waits for all.
    fn run(&self, tasks: usize, work: &(dyn Fn() + Sync));
}
