//! The vacuum runs of an open database, their progress and reports, and state for later runs.
//!
//! Invariants: an automatic run is listed only if its table has no other run. A run that is asked
//! for stops the automatic runs of its table.
//! Does not do: the runs (`vacuum`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rightlink_env::Nanos;
use rightlink_env::sync::{Arc, Mutex};

use crate::ids::ObjectId;
use crate::vacuum::{Phase, Progress, ResumableRun, RunReport};

/// The runs of an open database.
#[derive(Default)]
pub(crate) struct VacuumRuns {
    running: Mutex<Vec<Arc<VacuumRun>>>,
    /// State that interrupted runs left, by table.
    pub(super) resumable: Mutex<BTreeMap<ObjectId, ResumableRun>>,
    /// Tables whose last run left dead rows to the next one.
    pub(super) skipped: Mutex<BTreeSet<ObjectId>>,
}

/// Settings of vacuum from the options of the database.
#[derive(Clone, Copy, Debug)]
pub(super) struct VacuumSettings {
    /// Bytes per second of runs that rest.
    pub(super) rate: Option<u64>,
    /// Threads for the indexes of a fast run.
    pub(super) threads: usize,
    /// With more running transactions than this, no processor counts as idle.
    pub(super) processors: usize,
}

/// A run on one table.
pub(super) struct VacuumRun {
    pub(super) table: ObjectId,
    pub(super) name: String,
    pub(super) mode: VacuumMode,
    pub(super) started: Nanos,
    pub(super) progress: Progress,
}

/// The origin of a run, and its speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum VacuumMode {
    /// Without a request: rests, gives way, and may leave a few rows to a later run.
    Automatic,
    /// On request, resting as an automatic run does.
    Gentle,
    /// On request, at full speed.
    Fast,
}

/// A run is listed while this lives.
pub(super) struct ListedRun<'a> {
    runs: &'a VacuumRuns,
    pub(super) run: Arc<VacuumRun>,
}

impl Drop for ListedRun<'_> {
    fn drop(&mut self) {
        self.runs.running.lock().retain(|other| !Arc::ptr_eq(other, &self.run));
    }
}

impl VacuumRuns {
    /// Lists `run`. `None`: it is automatic, and its table has another run.
    pub(super) fn list(&self, run: VacuumRun) -> Option<ListedRun<'_>> {
        let mut all = self.running.lock();
        let rivals = || all.iter().filter(|other| other.table == run.table);
        if run.mode == VacuumMode::Automatic && rivals().next().is_some() {
            return None;
        }
        let automatic = rivals().filter(|other| other.mode == VacuumMode::Automatic);
        automatic.for_each(|other| other.progress.stop());
        let run = Arc::new(run);
        all.push(Arc::clone(&run));
        drop(all);
        Some(ListedRun { runs: self, run })
    }

    /// The number of runs that rest.
    pub(super) fn resting(&self) -> u32 {
        self.running.lock().iter().filter(|run| run.mode != VacuumMode::Fast).count() as u32
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.lock().is_empty()
    }

    /// Asks the runs of the table called `table` to end (`None`: all). Returns their number.
    pub(crate) fn cancel(&self, table: Option<&str>) -> usize {
        let running = self.running.lock();
        let wanted = running.iter().filter(|run| table.is_none_or(|name| run.name == name));
        wanted.map(|run| run.progress.stop()).count()
    }

    /// The progress of all runs, oldest first.
    pub(crate) fn progress(&self, now: Nanos) -> Vec<VacuumProgress> {
        self.running.lock().iter().map(|run| run.info(now)).collect()
    }

    /// Drops the results of former runs on tables that are not `open`.
    pub(super) fn retain_tables(&self, open: &BTreeSet<ObjectId>) {
        self.resumable.lock().retain(|table, _| open.contains(table));
        self.skipped.lock().retain(|table| open.contains(table));
    }
}

impl VacuumRun {
    fn info(&self, now: Nanos) -> VacuumProgress {
        let progress = &self.progress;
        let (heap_blocks_done, heap_blocks) = progress.heap();
        let (index_blocks_done, index_blocks) = progress.indexes();
        VacuumProgress {
            table: self.name.clone(),
            automatic: self.mode == VacuumMode::Automatic,
            phase: progress.phase(),
            running: now - self.started,
            heap_blocks,
            heap_blocks_done,
            dead_rows: progress.dead(),
            dead_row_bytes: progress.memory(),
            index_blocks,
            index_blocks_done: index_blocks_done.min(index_blocks),
            index_passes: progress.passes(),
        }
    }
}

/// Work of a vacuum: see [`Database::vacuum`](crate::Database::vacuum).
///
/// ```
/// use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// txn.commit()?;
/// let mut txn = db.begin();
/// txn.delete("n", id)?;
/// txn.commit()?;
/// let report = db.vacuum(Some("n"))?;
/// assert_eq!(report.rows_removed, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VacuumReport {
    /// Heap pages that were scanned.
    pub pages_scanned: u64,
    /// Row versions removed.
    pub rows_removed: u64,
    /// Index entries removed, over all indexes.
    pub entries_removed: u64,
    /// Dead row versions left to the next vacuum, as they are too few for a pass over the indexes.
    pub rows_left: u64,
    /// Passes over the indexes. None is needed where the entries were few and left by key.
    pub index_passes: u64,
    /// Blocks cut from the end of the heap.
    pub blocks_cut: u64,
    /// Index pages given back for reuse.
    pub index_pages_freed: u64,
    /// Pages of long values given back for reuse.
    pub overflow_pages_freed: u64,
}

impl VacuumReport {
    /// Adds the work of one run.
    pub(super) fn add(&mut self, run: &RunReport) {
        self.pages_scanned += run.pages;
        self.rows_removed += run.rows;
        self.rows_left += run.rows_left;
        self.entries_removed += run.entries;
        self.index_passes += run.index_passes;
        self.index_pages_freed += run.index_pages_freed;
        self.overflow_pages_freed += run.overflow_pages;
    }
}

/// Progress of a running vacuum: see
/// [`Database::vacuum_progress`](crate::Database::vacuum_progress).
///
/// ```
/// use rightlink::{VacuumOptions, Watch};
/// # use rightlink::{TableSchema, Type};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # txn.commit()?;
/// let show = || {
///     for run in db.vacuum_progress() {
///         println!("{}: block {} of {}", run.table, run.heap_blocks_done, run.heap_blocks);
///     }
///     Ok(())
/// };
/// let watch = Watch { go_on: &show, ..Watch::default() };
/// let report = db.vacuum_with(Some("n"), VacuumOptions { watch, ..VacuumOptions::default() })?;
/// assert_eq!(report.rows_removed, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VacuumProgress {
    /// Name of the table.
    pub table: String,
    /// True if the vacuum began without a request.
    pub automatic: bool,
    /// Present phase of the vacuum.
    pub phase: Phase,
    /// Time since the vacuum began.
    pub running: Duration,
    /// Blocks of the heap (8 KiB each).
    pub heap_blocks: u64,
    /// Blocks of the heap that the vacuum has passed.
    pub heap_blocks_done: u64,
    /// Dead rows that were collected and still have entries in some index.
    pub dead_rows: u64,
    /// Bytes of the memory budget that the vacuum holds for these rows, used or not.
    pub dead_row_bytes: u64,
    /// Blocks of the indexes that this pass goes over.
    pub index_blocks: u64,
    /// Blocks of the indexes that this pass has done.
    pub index_blocks_done: u64,
    /// Passes over the indexes that are done.
    pub index_passes: u64,
}
