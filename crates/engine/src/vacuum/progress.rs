//! How far a run over one table is, and whether it is to stop.
//!
//! Invariants: the run writes the figures, and any thread reads them at any time. Figures of one
//! moment need not agree.
//! Does not do: names, clocks.
//!
//! PostgreSQL: `pg_stat_progress_vacuum`.

use rightlink_env::sync::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// Phase of a running vacuum: see [`VacuumProgress::phase`](crate::VacuumProgress::phase).
///
/// ```
/// use rightlink::VacuumPhase;
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// let running = db.vacuum_progress();
/// let waits = running.iter().filter(|run| run.phase == VacuumPhase::Waiting).count();
/// println!("{} vacuums, {waits} wait for another one", running.len());
/// assert_eq!(VacuumPhase::default(), VacuumPhase::Waiting);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// The vacuum waits for another vacuum of the table.
    #[default]
    Waiting,
    /// The vacuum prunes heap pages and collects dead rows.
    Heap,
    /// The vacuum removes the index entries of the dead rows.
    Indexes,
    /// The vacuum frees the line pointers of the dead rows.
    Freeing,
}

impl Phase {
    const ALL: [Phase; 4] = [Phase::Waiting, Phase::Heap, Phase::Indexes, Phase::Freeing];
}

/// The progress of a run.
#[derive(Default)]
pub(crate) struct Progress {
    phase: AtomicU8,
    heap: Meter,
    indexes: Meter,
    dead: AtomicU64,
    memory: AtomicU64,
    passes: AtomicU64,
    stop: AtomicBool,
}

/// Blocks done, of how many.
#[derive(Default)]
struct Meter {
    done: AtomicU64,
    of: AtomicU64,
}

impl Meter {
    fn begin(&self, of: u64) {
        self.of.store(of, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
    }

    fn read(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.of.load(Ordering::Relaxed))
    }
}

impl Progress {
    /// The present phase.
    pub(crate) fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Ordering::Relaxed))]
    }

    /// Heap blocks looked at, and how many there are.
    pub(crate) fn heap(&self) -> (u64, u64) {
        self.heap.read()
    }

    /// Index blocks looked at in this pass, and how many there are about: pages that were split
    /// meanwhile are looked at twice.
    pub(crate) fn indexes(&self) -> (u64, u64) {
        self.indexes.read()
    }

    /// Dead row ids collected and not freed yet.
    pub(crate) fn dead(&self) -> u64 {
        self.dead.load(Ordering::Relaxed)
    }

    /// Bytes of the memory budget that the run has reserved for dead rows.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// Passes over the indexes that are done.
    pub(crate) fn passes(&self) -> u64 {
        self.passes.load(Ordering::Relaxed)
    }

    /// Asks the run to end soon.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Has it been asked to?
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(super) fn enter(&self, phase: Phase) {
        let at = Phase::ALL.iter().position(|known| *known == phase);
        self.phase.store(at.expect("a known phase") as u8, Ordering::Relaxed);
    }

    pub(super) fn set_heap_block(&self, block: u32, of: u32) {
        self.heap.done.store(block.into(), Ordering::Relaxed);
        self.heap.of.store(of.into(), Ordering::Relaxed);
    }

    pub(super) fn begin_indexes(&self, blocks: u64) {
        self.indexes.begin(blocks);
    }

    pub(super) fn add_index_blocks(&self, blocks: u32) {
        self.indexes.done.fetch_add(blocks.into(), Ordering::Relaxed);
    }

    pub(super) fn end_pass(&self) {
        self.passes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_memory(&self, bytes: usize) {
        self.memory.store(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn set_dead(&self, dead: usize) {
        self.dead.store(dead as u64, Ordering::Relaxed);
    }
}
