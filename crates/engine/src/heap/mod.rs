//! Tables of row versions in slotted pages: a version is written, seen, ended and removed here.
//!
//! How it works, page layout, and the differences from PostgreSQL: `README.md` beside this file.
//!
//! | module, lowest layer first | concern |
//! |---|---|
//! | `page` | the slotted page and the header of a version |
//! | `visibility` | xmin and xmax against outcomes; commit hints |
//! | `space`, `overflow` | growth, both maps, the search for room; long values |
//! | `latch` | the latched pages of one change, map pages included |
//! | `prune` | removal of versions, freezing, freeing of row ids, cutting of the tail |
//! | `read`, `write` | fetches and scans; insert, update, delete, lock |
//! | `verify` | checks H0 to H10, page descriptions |
//! | `garbage`, `counters` | figures for vacuum and statistics |
//!
//! Invariants:
//! - A row id names a root, the version that index entries name. Later versions of a HOT chain lie
//!   on the same page and have no entry.
//! - Every change of a page is one log record. Hints and the free-space map are unlogged (R1).
//! - Latches are taken in this order (R12): at most two heap pages, lower block first; their map
//!   pages, lower block first. Block 0, the meta page, is the lowest.
//! - Nothing is read and no transaction is waited for under a latch (R7). A write that has to wait
//!   returns [`WriteOutcome`].
//!
//! Does not do: columns, indexes, waiting, retries of a statement.

mod counters;
mod garbage;
mod latch;
pub(crate) mod overflow;
mod page;
mod prune;
mod read;
mod space;
mod verify;
mod visibility;
mod write;

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use rightlink_env::sync::{Arc, AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering};

use counters::Counters;
pub use counters::HeapFigures;
pub(crate) use page::MAX_SLOTS;
pub(crate) use page::tuple::TUPLE_HEADER;
pub(crate) use prune::dead_roots::DeadRoot;
use prune::dead_roots::DeadRootQueue;
#[cfg(test)]
pub(crate) use prune::free::FreedByKey;
pub(crate) use prune::recycle_clock::RecycleClock;
pub(crate) use prune::vacuum::{VacuumOptions, VacuumPage};
pub(crate) use read::batch::FetchResult;
pub(crate) use read::liveness::Liveness;
pub(crate) use read::newest::TargetVersion;
pub(crate) use read::scan::{KnownRoots, PageRows};
pub(crate) use space::visibility_map::VisibilityBits;
use space::{extent, free_space, visibility_map};
pub(crate) use verify::HARMLESS_CHECK;
pub(crate) use verify::root::{RootState, RootVersion};
pub(crate) use write::WriteOutcome;

use crate::buffer::{BufferPool, Pin, ReadStream, StreamOptions};
use crate::config::MAX_ROW_BYTES;
use crate::error::{Error, Result};
use crate::ids::{BlockNo, FileId, PageId, Xid};
use crate::txn::TxnManager;

/// Inserters remember their block in one of this many places, so that they do not fight for one
/// page.
const INSERT_GROUPS: usize = 16;
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
    shared: Arc<HeapState>,
}

struct HeapState {
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
    insert_blocks: [AtomicU32; INSERT_GROUPS],
    clock: RecycleClock,
    /// Roots pruned on access, waiting for [`Heap::take_dead_roots`].
    dead_roots: Mutex<DeadRootQueue>,
    /// How many those are.
    dead_count: AtomicUsize,
    /// Versions ended and not removed yet, roughly.
    garbage: AtomicU64,
    left: AtomicU64,
    vacuumed_at: AtomicU64,
    /// The garbage that the meta page tells of.
    noted: AtomicU32,
    counters: Counters,
    /// The statement that filled it with rows of another one, 0 for none since opening.
    written_by: AtomicU64,
    /// Held while row ids are freed; by a vacuum from its first look at a page on.
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
        // Every transaction that will write here runs already, or has no xid yet.
        let meta = extent::HeapMeta { extent: 1, garbage: 0, oldest_unfrozen: txns.horizon() };
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
        meta: extent::HeapMeta,
    ) -> Result<Heap> {
        if !(10..=100).contains(&options.fillfactor) {
            return Err(Error::Invalid("a fillfactor lies between 10 and 100".into()));
        }
        let shared = HeapState {
            pool: Arc::clone(pool),
            txns: Arc::clone(txns),
            files,
            reserve: crate::config::PAGE_SIZE * usize::from(100 - options.fillfactor) / 100,
            extent: AtomicU32::new(meta.extent),
            oldest: AtomicU64::new(meta.oldest_unfrozen.0),
            extension: Mutex::new(()),
            insert_blocks: [const { AtomicU32::new(0) }; INSERT_GROUPS],
            clock: RecycleClock::default(),
            dead_roots: Mutex::new(DeadRootQueue::default()),
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

    /// The statement that filled this new heap with all rows of another one, since the database was
    /// opened. A snapshot that does not see it is older than the heap and must not read it.
    pub fn written_by(&self) -> Option<Xid> {
        let xid = Xid(self.shared.written_by.load(Ordering::Acquire));
        (xid != Xid::NONE).then_some(xid)
    }

    /// Notes that `xid` has filled this new heap with all rows of another one.
    pub fn note_written_by(&self, xid: Xid) {
        self.shared.written_by.store(xid.0, Ordering::Release);
    }

    /// The clock of R3.
    pub fn clock(&self) -> &RecycleClock {
        &self.shared.clock
    }

    /// The bits of `block` in the visibility map. R4: the caller checks the clock again afterwards.
    pub fn all_visible(&self, block: BlockNo) -> Result<VisibilityBits> {
        visibility_map::read(self.pool(), self.shared.files.visibility, block.0)
    }

    /// The share of the blocks that are all-visible, by a sample of 16. A block whose bits cannot
    /// be read is none of them.
    pub fn visible_share(&self) -> f32 {
        let blocks = self.blocks().saturating_sub(1);
        let sample = blocks.min(16);
        let of =
            |n: u32| BlockNo(1 + (u64::from(n) * u64::from(blocks) / u64::from(sample)) as u32);
        let is_visible = |n: &u32| self.all_visible(of(*n)).is_ok_and(|bits| bits.all_visible);
        (0..sample).filter(is_visible).count() as f32 / sample.max(1) as f32
    }

    /// Counts of what was done to the heap since it was opened.
    pub(crate) fn counters(&self) -> &Counters {
        &self.shared.counters
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

    /// A stream over the blocks of `range` that `wanted` wants and that are still in the table.
    fn stream<'h>(
        &'h self,
        range: Range<u32>,
        mut wanted: impl FnMut(u32) -> Result<bool> + Send + 'h,
    ) -> ReadStream<'h, u32> {
        assert!(range.start > 0, "block 0 is the meta page");
        let mut blocks = range;
        ReadStream::new(self.pool(), StreamOptions::ORDERED, move || {
            for block in blocks.by_ref() {
                if self.is_data_block(block) && wanted(block)? {
                    return Ok(Some((PageId::new(self.files().heap, block), block)));
                }
            }
            Ok(None)
        })
    }

    fn free_space(&self) -> free_space::FreeSpaceMap<'_> {
        free_space::FreeSpaceMap::new(self.pool(), self.shared.files.free_space)
    }

    /// Which place of `targets` this thread's inserts use: a small table has few, so that it stays
    /// small.
    fn insert_group(&self) -> usize {
        let groups = (self.blocks() as usize / BLOCKS_PER_GROUP + 1).min(INSERT_GROUPS);
        let mut hasher = DefaultHasher::new();
        rightlink_env::thread::current_id().hash(&mut hasher);
        (hasher.finish() % groups as u64) as usize
    }
}

/// Refuses rows that no page holds, before anything is changed.
fn check_row(row: &[u8]) -> Result<usize> {
    let len = TUPLE_HEADER + row.len();
    if len > MAX_ROW_BYTES {
        return Err(Error::RowTooLarge(format!(
            "a row of {} bytes; {} fit on a page",
            row.len(),
            MAX_ROW_BYTES - TUPLE_HEADER
        )));
    }
    Ok(len)
}
