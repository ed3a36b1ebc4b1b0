//! Pages in memory: pool, latch, replacement, write-back, double-write area, read stream.
//!
//! SKELETON: signatures that other rooms build on; the owner of `buffer/` replaces the bodies.

use std::sync::Arc;

use rightlink_aio::Io;
use rightlink_env::Env;

use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::{BlockNo, FileId, Lsn, PageId, Xid};
use crate::page::{PageMut, PageView};
use crate::wal::{RecordKind, Wal};

/// Settings of the pool.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Frames of 8 KiB, at least `config::MIN_POOL_PAGES`.
    pub frames: usize,
    /// Pages of one double-write group, at least 64 (0: the device promises atomic page writes).
    pub double_write_pages: usize,
}

/// The buffer pool of an open database.
pub struct BufferPool {}

impl BufferPool {
    /// A pool over the data files of `io` (names `data/XXXXXXXX`).
    pub fn new(env: &Env, io: &Io, wal: Arc<Wal>, options: PoolOptions) -> Result<Arc<Self>> {
        let _ = (env, io, wal, options);
        todo!()
    }

    /// Creates an empty file, durably (file and directory). `logged` false: its changes are not logged.
    pub fn create_file(&self, file: FileId, logged: bool) -> Result<()> {
        let _ = (file, logged);
        todo!()
    }

    /// Makes an existing file known; idempotent.
    pub fn open_file(&self, file: FileId, logged: bool) -> Result<()> {
        let _ = (file, logged);
        todo!()
    }

    /// Forgets all frames of the file without writing them, and removes it.
    pub fn drop_file(&self, file: FileId) -> Result<()> {
        let _ = file;
        todo!()
    }

    /// Blocks of the file, grown ones included.
    pub fn blocks(&self, file: FileId) -> u32 {
        let _ = file;
        todo!()
    }

    /// Grows the file by `count` zero blocks and returns the first new one. Not logged: a block counts
    /// as initialised only once a logged record formats it.
    pub fn extend(&self, file: FileId, count: u32) -> Result<BlockNo> {
        let _ = (file, count);
        todo!()
    }

    /// Forgets frames at and above `blocks`, then cuts the file.
    pub fn truncate(&self, file: FileId, blocks: u32) -> Result<()> {
        let _ = (file, blocks);
        todo!()
    }

    /// Writes and syncs every dirty page of one file (bulk builds, before the publishing record).
    pub fn sync_file(&self, file: FileId) -> Result<()> {
        let _ = file;
        todo!()
    }

    /// Pins the page, reading it if needed (waits for the I/O; checksum verified).
    pub fn pin(&self, page: PageId) -> Result<Pin> {
        let _ = page;
        todo!()
    }

    /// Pins the page if it is in memory and valid; never does I/O (R7: usable under a latch).
    pub fn try_pin(&self, page: PageId) -> Option<Pin> {
        let _ = page;
        todo!()
    }

    /// Pins a block whose old bytes do not matter (it is about to be replaced): no read, zeroes.
    pub fn pin_new(&self, page: PageId) -> Result<Pin> {
        let _ = page;
        todo!()
    }

    /// The log that changes of pages go to.
    pub fn wal(&self) -> &Arc<Wal> {
        todo!()
    }

    /// One redo step: applies `delta` to `page` unless its LSN says it is there already.
    pub fn redo(&self, page: PageId, delta: &[u8], end: Lsn) -> Result<()> {
        let _ = (page, delta, end);
        todo!()
    }

    /// Oldest log position that a dirty page still needs, or the end of the log.
    pub fn redo_horizon(&self) -> Lsn {
        todo!()
    }

    /// Write-back step: writes up to one double-write group of dirty pages first dirtied before `below`;
    /// returns how many it wrote. Cleans ahead of eviction when called with `Lsn(u64::MAX)`.
    pub fn write_back(&self, below: Lsn) -> Result<usize> {
        let _ = below;
        todo!()
    }
}

/// A pinned page: stays in memory while this lives. `Send`.
pub struct Pin {}

impl Pin {
    /// The page.
    pub fn page(&self) -> PageId {
        todo!()
    }

    /// Latches shared.
    pub fn shared(&self) -> Shared<'_> {
        todo!()
    }

    /// Latches shared if that needs no waiting.
    pub fn try_shared(&self) -> Option<Shared<'_>> {
        todo!()
    }

    /// Sets hints (R1, R2) if the exclusive latch is free right now and the page still has `version`
    /// when one is given; returns whether `set` ran. Not logged; the page becomes dirty.
    pub fn hint(&self, version: Option<u64>, set: impl FnOnce(&mut PageMut<'_>)) -> bool {
        let _ = (version, set);
        todo!()
    }

    /// Version of the page: changes with every exclusive latch that changed it.
    pub fn version(&self) -> u64 {
        todo!()
    }

    /// Optimistic read (R11): runs `read` on unvalidated words, then validates; `None` if a writer came by.
    pub fn optimistic<T>(&self, read: impl FnOnce(PageView<'_>) -> T) -> Option<T> {
        let _ = read;
        todo!()
    }
}

/// Shared latch on a page.
pub struct Shared<'a> {
    _pin: &'a Pin,
}

impl Shared<'_> {
    /// The page.
    pub fn bytes(&self) -> &[u8; PAGE_SIZE] {
        todo!()
    }

    /// Version under this latch.
    pub fn version(&self) -> u64 {
        todo!()
    }
}

/// A mini-transaction: exclusive latches on a few pages whose changes become one log record, atomically.
///
/// Stores go through [`Mtr::page`]; `commit` appends the record, stamps every changed page with its end
/// and lets go of all latches. Dropped without a change it only unlatches; dropped with changes it
/// panics (and the instance is poisoned): check everything before the first store.
pub struct Mtr<'p> {
    _pool: &'p BufferPool,
}

/// Index of a latched page inside an [`Mtr`].
pub type Held = usize;

impl<'p> Mtr<'p> {
    /// An empty mini-transaction.
    pub fn new(pool: &'p BufferPool) -> Self {
        Self { _pool: pool }
    }

    /// Latches `pin` exclusively (waits; the caller keeps to R12) and adds it.
    pub fn latch(&mut self, pin: Pin) -> Held {
        let _ = pin;
        todo!()
    }

    /// As [`Mtr::latch`], but gives the pin back instead of waiting.
    pub fn try_latch(&mut self, pin: Pin) -> std::result::Result<Held, Pin> {
        Err(pin)
    }

    /// The page as it is now, stores of this mini-transaction included.
    pub fn bytes(&self, held: Held) -> &[u8; PAGE_SIZE] {
        let _ = held;
        todo!()
    }

    /// Stores into the page (marks it dirty on first use).
    pub fn page(&mut self, held: Held) -> PageMut<'_> {
        let _ = held;
        todo!()
    }

    /// Version of the page when it was latched.
    pub fn version(&self, held: Held) -> u64 {
        let _ = held;
        todo!()
    }

    /// The page's name.
    pub fn id(&self, held: Held) -> PageId {
        let _ = held;
        todo!()
    }

    /// Unlatches an unchanged page early and gives its pin back; `held` must not be used again.
    pub fn release(&mut self, held: Held) -> Pin {
        let _ = held;
        todo!()
    }

    /// Logs all stores as one record of `kind` by `xid`, stamps LSNs, unlatches. Returns the record's end
    /// (`Lsn(0)` when nothing was changed or every changed file is unlogged).
    pub fn commit(self, kind: RecordKind, xid: Xid) -> Result<Lsn> {
        let _ = (kind, xid);
        todo!()
    }
}

/// In which order a [`ReadStream`] hands over its pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// As they were asked for.
    Ordered,
    /// As they arrive.
    AnyOrder,
}

/// Bounds of a [`ReadStream`].
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Order of delivery.
    pub delivery: Delivery,
    /// Largest look-ahead in pages; 1 reads one at a time.
    pub max_distance: u32,
}

/// What a stream did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamStats {
    /// Device reads issued.
    pub reads: u64,
    /// Blocks that were joined to a neighbour's read.
    pub joined: u64,
    /// Blocks read but never handed over.
    pub wasted: u64,
    /// Times the consumer waited for the device.
    pub waits: u64,
    /// Sum of the look-ahead distance over all hand-overs (divide by `delivered`).
    pub distance_sum: u64,
    /// Pages handed over.
    pub delivered: u64,
}

/// Every multi-block read (decision 10): pulls `(page, tag)` from `next`, looks ahead, hands over pins.
pub struct ReadStream<'p, T> {
    _pool: &'p BufferPool,
    _tag: std::marker::PhantomData<T>,
}

impl<'p, T> ReadStream<'p, T> {
    /// A stream over the pages that `next` names, until it returns `None`.
    pub fn new(
        pool: &'p BufferPool,
        options: StreamOptions,
        next: impl FnMut() -> Result<Option<(PageId, T)>> + 'p,
    ) -> Self {
        let _ = (options, next);
        Self { _pool: pool, _tag: std::marker::PhantomData }
    }

    /// The next page and its tag. A read error belongs to the page that needed it and repeats.
    pub fn next(&mut self) -> Result<Option<(Pin, T)>> {
        todo!()
    }

    /// Stops pulling from `next` until [`ReadStream::resume`]; what was asked for is still delivered.
    pub fn pause(&mut self) {
        todo!()
    }

    /// Goes on pulling.
    pub fn resume(&mut self) {
        todo!()
    }

    /// Forgets everything asked for, without waiting for reads in flight.
    pub fn reset(&mut self) {
        todo!()
    }

    /// What happened so far.
    pub fn stats(&self) -> StreamStats {
        todo!()
    }
}
