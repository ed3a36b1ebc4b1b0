//! An open hash index: what all operations on it share.
//!
//! Invariants: the remembered depth and the blocks of the directory are memory aids, read once and
//! kept up to date by the threads that change them. Both only grow.
//! Does not do: read or change pages of entries.

mod blocks;

use rightlink_env::sync::{Arc, AtomicU32, Mutex, OnceLock, Ordering};

use crate::buffer::{BufferPool, Pin};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, PageId};
use crate::index::am::DeadRows;
use crate::index::hash::page::{BUCKETS_PER_PAGE, MAX_PAGES, Meta, meta};
use crate::page::Damage;

pub(crate) use blocks::FreeBlock;

/// Settings of an index; none is on disk.
#[derive(Clone, Copy, Debug)]
pub struct HashOptions {
    /// Percent of a page that a bulk build fills.
    pub fill: u8,
    /// Bytes of a page that may be used: less than a page only in tests, to make chains of few
    /// entries.
    pub capacity: usize,
}

impl Default for HashOptions {
    fn default() -> Self {
        Self { fill: 75, capacity: PAGE_SIZE }
    }
}

/// An open hash index. It is cheap to clone; all clones are one index. A file is open as one index
/// at a time.
#[derive(Clone)]
pub struct HashIndex(pub(super) Arc<Index>);

/// The state that all clones share.
pub(crate) struct Index {
    pub(super) pool: Arc<BufferPool>,
    pub(super) file: FileId,
    pub(super) options: HashOptions,
    /// Bits of the largest bucket number.
    depth: AtomicU32,
    /// Blocks of the directory's pages; 0: not made yet.
    directory: Box<[AtomicU32]>,
    /// Held while the file grows.
    growth: Mutex<()>,
    /// Held during a vacuum.
    pub(super) vacuum: Mutex<()>,
    /// The heap that the entries point to.
    pub(super) heap: OnceLock<Arc<dyn DeadRows>>,
}

impl HashIndex {
    /// Makes an empty index in `file`, which exists and is empty.
    pub fn create(pool: &Arc<BufferPool>, file: FileId, options: HashOptions) -> Result<Self> {
        blocks::format(pool, file)?;
        Self::open(pool, file, options)
    }

    /// Opens the index in `file`, which the pool knows.
    pub fn open(pool: &Arc<BufferPool>, file: FileId, options: HashOptions) -> Result<Self> {
        assert!(options.capacity <= PAGE_SIZE && options.capacity >= 256, "a sensible page");
        assert!((10..=100).contains(&options.fill), "a percentage");
        let index = Index {
            pool: Arc::clone(pool),
            file,
            options,
            depth: AtomicU32::new(0),
            directory: (0..MAX_PAGES).map(|_| AtomicU32::new(0)).collect(),
            growth: Mutex::new(()),
            vacuum: Mutex::new(()),
            heap: OnceLock::new(),
        };
        let meta = index.meta()?;
        index.note_depth(meta.depth);
        for (known, block) in index.directory.iter().zip(&meta.directory) {
            known.store(*block, Ordering::Release);
        }
        Ok(HashIndex(Arc::new(index)))
    }

    /// The file.
    pub fn file(&self) -> FileId {
        self.0.file
    }

    /// Number of blocks of the index.
    pub fn blocks(&self) -> u32 {
        self.0.pool.blocks(self.0.file)
    }
}

impl Index {
    /// The page at `block`.
    pub(super) fn page(&self, block: u32) -> PageId {
        PageId::new(self.file, block)
    }

    /// Damage found at `block`.
    pub(super) fn corrupt(&self, block: u32, what: Damage) -> Error {
        Error::corrupt(self.page(block), what)
    }

    /// Pins a page that a link or the directory named.
    pub(super) fn pin_linked(&self, block: u32) -> Result<Pin> {
        if block == 0 {
            return Err(self.corrupt(block, "a link to the meta page"));
        }
        self.pool.pin(self.page(block))
    }

    /// Reads the meta page.
    pub(super) fn meta(&self) -> Result<Meta> {
        let pin = self.pool.pin(self.page(0))?;
        meta::parse(pin.shared().bytes()).map_err(|what| self.corrupt(0, what))
    }

    /// Bytes of a page that stay unused (tests make pages small).
    pub(super) fn unused_bytes(&self) -> usize {
        PAGE_SIZE - self.options.capacity
    }

    /// Bits of the largest bucket number.
    pub(super) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Acquire)
    }

    /// The largest bucket number has so many bits, or more.
    pub(super) fn note_depth(&self, depth: u32) {
        self.depth.fetch_max(depth, Ordering::AcqRel);
    }

    /// Block of the directory's page with the entry of `bucket`; 0: not made yet.
    pub(super) fn directory_block(&self, bucket: u32) -> u32 {
        self.directory[(bucket / BUCKETS_PER_PAGE) as usize].load(Ordering::Acquire)
    }

    /// The directory's page with the entry of `bucket` is at `block`.
    pub(super) fn note_directory_block(&self, bucket: u32, block: u32) {
        self.directory[(bucket / BUCKETS_PER_PAGE) as usize].store(block, Ordering::Release);
    }
}
