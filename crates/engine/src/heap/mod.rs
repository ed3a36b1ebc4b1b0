//! The heap: versions of rows in slotted pages, and how they begin, end, are seen and leave.
//!
//! | file | hides |
//! |---|---|
//! | `tuple` | the header of a version |
//! | `page`, `page_edit` | the slotted page: checked reads, recorded stores |
//! | `page_set` | the latched pages of one change, map pages included |
//! | `visibility` | xids against their status; hints |
//! | `insert`, `update`, `delete`, `lock` | the writes |
//! | `hole` | a new version in the place of a dead one |
//! | `fetch`, `fetch_group`, `scan` | the reads |
//! | `prune`, `between`, `vacuum`, `rebase`, `tail` | how versions, xids and pages leave |
//! | `dead` | which rows are dead to everyone; row ids that by-key cleaning gives free |
//! | `extent`, `free_space`, `visibility_map` | meta page and growth; the two maps |
//! | `recycle_clock` | the clock of R3 |
//! | `counters` | what was done, for statistics |
//! | `overflow` | values that do not fit a row |
//! | `inspect`, `verify` | page descriptions; checks H1 to H10 |
//!
//! Invariants:
//! - A row is named by the row id of its root: the version that index entries name. Later versions
//!   of the same HOT chain lie on the same page and have no entry.
//! - Every change of a page is one log record of a mini-transaction; hints and the free-space map
//!   are the only unlogged stores (R1).
//! - Latch order (R12): at most two heap pages, the lower block first (block 0, the meta page, is
//!   the lowest; fresh pages of an extension are known to nobody); heap pages before visibility-map
//!   pages, the lower block first; free-space-map pages one at a time, with no other latch held.
//! - No I/O under a latch (R7): status pages through [`visibility::Judge`] and
//!   [`visibility::Seer`], map pages pinned before; no waiting for a transaction in this room at
//!   all: writes return [`WriteOutcome::Wait`] or [`WriteOutcome::Locked`].
//!
//! Does not do: columns, indexes, waiting, retries of a statement.

mod between;
mod counters;
mod dead;
mod delete;
mod extent;
mod fetch;
mod fetch_group;
mod free_space;
mod hole;
mod insert;
mod inspect;
mod lock;
pub mod overflow;
mod page;
mod page_edit;
mod page_set;
mod prune;
mod rebase;
mod recycle_clock;
mod scan;
mod tail;
mod tuple;
mod update;
mod vacuum;
mod verify;
mod visibility;
mod visibility_map;
mod write;

#[cfg(test)]
mod page_tests;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};

use rightlink_env::sync::{Arc, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};

use counters::Counters;
pub use counters::HeapFigures;
pub use fetch::{Fetched, Liveness};
pub use fetch_group::Look;
pub use inspect::HeapPageInfo;
pub use page::{MAX_SLOTS, Slot};
use prune::DeadQueue;
pub use prune::DeadRoot;
pub use recycle_clock::RecycleClock;
pub use scan::{PageRows, Scan, VisitRoot};
pub use tuple::{TUPLE_HEADER, TupleHeader};
pub use vacuum::{Skip, VacuumOptions, VacuumPage, VacuumPass};
pub use verify::{Finding, RootState, RootVersion, VerifyStats};
pub use visibility_map::Bits;
pub use write::{Target, WriteOutcome};

use crate::buffer::{BufferPool, Pin};
use crate::config::MAX_ROW_BYTES;
use crate::error::{Error, Result};
use crate::ids::{BlockNo, FileId, PageId, Xid};
use crate::txn::TxnManager;

/// Inserters remember their block in one of this many places, so that they do not fight for one
/// page.
const TARGETS: usize = 16;
/// Blocks that a table must have for each place in use.
const BLOCKS_PER_GROUP: usize = 8;

/// The three files of a heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapFiles {
    /// Row versions.
    pub heap: FileId,
    /// Free-space map.
    pub free_space: FileId,
    /// Visibility map.
    pub visibility: FileId,
}

impl HeapFiles {
    /// The files `first`, `first + 1` and `first + 2`.
    pub fn starting_at(first: FileId) -> Self {
        assert!(first.0 > 0, "file 0 is no file");
        let file = |i| FileId(first.0 + i);
        Self { heap: file(0), free_space: file(1), visibility: file(2) }
    }
}

/// Settings of a heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapOptions {
    /// How full inserts make a page, in percent; the rest is kept for updates of its rows.
    pub fillfactor: u8,
    /// Are changes logged?
    pub logged: bool,
}

/// A heap of an open database: a cheap handle, all clones share their state.
#[derive(Clone)]
pub struct Heap {
    shared: Arc<Shared>,
}

struct Shared {
    pool: Arc<BufferPool>,
    txns: Arc<TxnManager>,
    files: HeapFiles,
    /// Bytes that inserts leave free on a page.
    reserve: usize,
    /// Initialised blocks; written under `extension`, never ahead of the meta page.
    extent: AtomicU32,
    /// Oldest xid that may be unfrozen: as the meta page says.
    oldest: AtomicU64,
    /// Serialises growing and cutting of the file; taken without any latch.
    extension: Mutex<()>,
    /// Block of the last insert, per group of threads; 0 is none.
    targets: [AtomicU32; TARGETS],
    clock: RecycleClock,
    /// Roots pruned on access, waiting for [`Heap::take_dead_roots`].
    dead_roots: Mutex<DeadQueue>,
    /// How many those are.
    dead_count: AtomicUsize,
    /// Versions ended and not removed yet, roughly; as many as the last vacuum left, and the first
    /// xid after it.
    garbage: AtomicU64,
    left: AtomicU64,
    vacuumed_at: AtomicU64,
    /// The garbage that the meta page tells of.
    noted: AtomicU32,
    counters: Counters,
    /// The statement that filled it with rows of another one, 0 for none since opening.
    written_by: AtomicU64,
    /// Held by whoever gives row ids free, a vacuum from its first look at a page on.
    freeing: Mutex<()>,
}

impl Heap {
    /// Creates the files of an empty heap.
    pub fn create(
        pool: &Arc<BufferPool>,
        txns: &Arc<TxnManager>,
        files: HeapFiles,
        options: HeapOptions,
    ) -> Result<Heap> {
        for file in [files.heap, files.free_space, files.visibility] {
            pool.create_file(file, options.logged)?;
        }
        // Whoever will write here runs already, or has no xid yet.
        let meta = extent::Meta { extent: 1, garbage: 0, oldest_unfrozen: txns.horizon() };
        extent::create_meta(pool, files.heap, meta.oldest_unfrozen)?;
        Self::with_meta(pool, txns, files, options, meta)
    }

    /// Opens a heap that [`Heap::create`] made.
    pub fn open(
        pool: &Arc<BufferPool>,
        txns: &Arc<TxnManager>,
        files: HeapFiles,
        options: HeapOptions,
    ) -> Result<Heap> {
        for file in [files.heap, files.free_space, files.visibility] {
            pool.open_file(file, options.logged)?;
        }
        let meta = extent::read_meta(pool, files.heap)?;
        Self::with_meta(pool, txns, files, options, meta)
    }

    fn with_meta(
        pool: &Arc<BufferPool>,
        txns: &Arc<TxnManager>,
        files: HeapFiles,
        options: HeapOptions,
        meta: extent::Meta,
    ) -> Result<Heap> {
        if !(10..=100).contains(&options.fillfactor) {
            return Err(Error::Invalid("a fillfactor lies between 10 and 100".into()));
        }
        let shared = Shared {
            pool: Arc::clone(pool),
            txns: Arc::clone(txns),
            files,
            reserve: crate::config::PAGE_SIZE * usize::from(100 - options.fillfactor) / 100,
            extent: AtomicU32::new(meta.extent),
            oldest: AtomicU64::new(meta.oldest_unfrozen.0),
            extension: Mutex::new(()),
            targets: [const { AtomicU32::new(0) }; TARGETS],
            clock: RecycleClock::default(),
            dead_roots: Mutex::new(DeadQueue::default()),
            dead_count: AtomicUsize::new(0),
            garbage: AtomicU64::new(meta.garbage.into()),
            left: AtomicU64::new(0),
            vacuumed_at: AtomicU64::new(0),
            noted: AtomicU32::new(meta.garbage),
            counters: Counters::default(),
            written_by: AtomicU64::new(0),
            freeing: Mutex::new(()),
        };
        Ok(Heap { shared: Arc::new(shared) })
    }

    /// Blocks of a heap that need not be open, and its garbage, as noted last. Opens no file for
    /// longer than that.
    pub fn glance(pool: &BufferPool, heap: FileId) -> Result<(u32, u32)> {
        extent::glance(pool, heap)
    }

    /// Do both share their state? Two that were opened one after the other do not: the recycle
    /// clock (R3) of one tells nothing about the other.
    pub fn is_same(&self, other: &Heap) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The heap's files.
    pub fn files(&self) -> HeapFiles {
        self.shared.files
    }

    /// Initialised blocks, the meta page included: row versions lie in blocks `1..blocks()`.
    pub fn blocks(&self) -> u32 {
        self.shared.extent.load(Ordering::Acquire)
    }

    /// Who wrote all rows that there were into this new heap, since the database was opened:
    /// whoever does not see that has an older snapshot, and nothing here is for it.
    pub fn written_by(&self) -> Option<Xid> {
        let xid = Xid(self.shared.written_by.load(Ordering::Acquire));
        (xid != Xid::NONE).then_some(xid)
    }

    /// Notes that `xid` has written all rows that there were into this new heap.
    pub fn note_written_by(&self, xid: Xid) {
        self.shared.written_by.store(xid.0, Ordering::Release);
    }

    /// The clock of R3.
    pub fn clock(&self) -> &RecycleClock {
        &self.shared.clock
    }

    /// The bits of `block` in the visibility map. R4: the caller checks the clock again afterwards.
    pub fn all_visible(&self, block: BlockNo) -> Result<Bits> {
        visibility_map::read(self.pool(), self.shared.files.visibility, block.0)
    }

    /// Roots whose last version was pruned on access since the last call: their index entries can
    /// go by key, their line pointers after that, by [`Heap::free_cleaned`].
    pub fn take_dead_roots(&self) -> Vec<DeadRoot> {
        let mut queue = self.shared.dead_roots.lock();
        self.shared.dead_count.store(0, Ordering::Relaxed);
        queue.take()
    }

    /// As [`Heap::take_dead_roots`], with those that cleanings could not give free. Vacuum finds
    /// their line pointers anyway; this tells it their keys.
    pub fn take_all_dead_roots(&self) -> Vec<DeadRoot> {
        let mut roots = self.take_dead_roots();
        roots.extend(self.shared.dead_roots.lock().take_left());
        roots
    }

    /// How many [`Heap::take_dead_roots`] would give.
    pub fn dead_roots(&self) -> usize {
        self.shared.dead_count.load(Ordering::Relaxed)
    }

    /// What was done to it since it was opened.
    pub fn figures(&self) -> HeapFigures {
        self.shared.counters.figures()
    }

    /// A scan of all of it begins.
    pub fn count_scan(&self) {
        self.shared.counters.scan();
    }

    /// Such a scan has handed out so many rows.
    pub fn count_scanned(&self, rows: u64) {
        self.shared.counters.scanned(rows);
    }

    /// A vacuum has come to its end, one that somebody asked for or one that nobody did.
    pub fn count_vacuum(&self, automatic: bool, unix_micros: i64) {
        self.shared.counters.vacuum(automatic, unix_micros);
    }

    /// Versions that were ended and not removed since the last vacuum, roughly. What that had to
    /// leave counts again as soon as every xid of its time is below the horizon, or the table is
    /// opened again.
    pub fn garbage_since_vacuum(&self) -> u64 {
        let shared = &self.shared;
        let garbage = shared.garbage.load(Ordering::Relaxed);
        let passed = self.txns().horizon().0 >= shared.vacuumed_at.load(Ordering::Relaxed);
        let left = if passed { 0 } else { shared.left.load(Ordering::Relaxed) };
        garbage.saturating_sub(left)
    }

    /// Does the meta page tell how much garbage there is, but for `error` versions?
    pub fn is_garbage_noted(&self, error: u64) -> bool {
        let noted = self.shared.noted.load(Ordering::Relaxed);
        u64::from(self.all_garbage().abs_diff(noted)) <= error
    }

    /// All that a vacuum would find, whatever the last one left: also the roots that wait for being
    /// cleaned, as nobody knows of them when the table is opened again.
    fn all_garbage(&self) -> u32 {
        let garbage = self.shared.garbage.load(Ordering::Relaxed);
        u32::try_from(garbage.saturating_add(self.dead_roots() as u64)).unwrap_or(u32::MAX)
    }

    /// A vacuum has ended; `next` is the first xid that it did not see.
    pub fn vacuumed(&self, next: Xid) {
        let shared = &self.shared;
        let garbage = shared.garbage.load(Ordering::Relaxed);
        rightlink_env::points::hit("heap.vacuumed");
        if self.txns().horizon() >= next {
            // All that is left was ended by now, or is none. Who prunes meanwhile counts it down,
            // too: not below nothing.
            self.take_garbage(garbage);
            shared.left.store(0, Ordering::Relaxed);
        } else {
            shared.left.store(garbage, Ordering::Relaxed);
        }
        shared.vacuumed_at.store(next.0, Ordering::Relaxed);
    }

    /// Dead roots could not be given free by key, nor could `others`, whose keys are not known:
    /// they count as garbage again, for vacuum.
    pub fn leave_to_vacuum(&self, roots: Vec<DeadRoot>, others: u64) {
        self.add_garbage(roots.len() as u64 + others);
        self.keep_dead_roots(roots);
    }

    /// Keeps the keys of dead roots for the next vacuum, as far as there is room.
    pub fn keep_dead_roots(&self, mut roots: Vec<DeadRoot>) {
        // A row id that was given free since may name another row.
        roots.retain(|root| !self.clock().newer_than(root.row_id.block, root.pruned_at));
        self.shared.dead_roots.lock().leave(roots);
    }

    /// Versions were ended.
    fn add_garbage(&self, versions: u64) {
        self.shared.garbage.fetch_add(versions, Ordering::Relaxed);
    }

    /// Versions were removed.
    fn take_garbage(&self, versions: u64) {
        let less = |now: u64| Some(now.saturating_sub(versions));
        let _ = self.shared.garbage.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Keeps everyone else from giving row ids of this table free. Who collects dead row ids first
    /// and frees them later, as vacuum does, holds it in between: a row id that another freed
    /// meanwhile may be a new row's. `None` if somebody else does.
    pub fn try_freeing(&self) -> Option<MutexGuard<'_, ()>> {
        self.shared.freeing.try_lock()
    }

    /// As [`Heap::try_freeing`], after a wait.
    #[cfg(test)]
    pub fn freeing(&self) -> MutexGuard<'_, ()> {
        self.shared.freeing.lock()
    }

    pub(crate) fn pool(&self) -> &BufferPool {
        &self.shared.pool
    }

    fn txns(&self) -> &TxnManager {
        &self.shared.txns
    }

    pub(crate) fn page_id(&self, block: u32) -> PageId {
        PageId::new(self.shared.files.heap, block)
    }

    /// Does `block` hold row versions?
    pub(crate) fn is_data_block(&self, block: u32) -> bool {
        block > 0 && block < self.blocks()
    }

    /// Pins a page of row versions.
    pub fn pin(&self, block: BlockNo) -> Result<Pin> {
        assert!(block.0 > 0, "block 0 is the meta page");
        self.pool().pin(self.page_id(block.0))
    }

    fn free_space(&self) -> free_space::FreeSpaceMap<'_> {
        free_space::FreeSpaceMap::new(self.pool(), self.shared.files.free_space)
    }

    /// Which place of `targets` this thread's inserts use: a small table has few, so that it stays
    /// small.
    fn target_group(&self) -> usize {
        let groups = (self.blocks() as usize / BLOCKS_PER_GROUP + 1).min(TARGETS);
        let mut hasher = DefaultHasher::new();
        rightlink_env::thread::current_id().hash(&mut hasher);
        (hasher.finish() % groups as u64) as usize
    }
}

/// Refuses rows that no page holds, before anything is changed.
fn check_row(row: &[u8]) -> Result<usize> {
    let len = TUPLE_HEADER + row.len();
    if len > MAX_ROW_BYTES {
        return Err(Error::Limit(format!(
            "a row of {} bytes; {} fit on a page",
            row.len(),
            MAX_ROW_BYTES - TUPLE_HEADER
        )));
    }
    Ok(len)
}
