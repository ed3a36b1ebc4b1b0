//! An open tree: what all operations on it share.
//!
//! Invariants: the remembered root, the rightmost leaf and the merge counters are memory aids; the
//! pages decide. The level of the remembered root only rises.
//! Does not do: read or change leaves and inner pages.

mod free_pages;
mod merge_counts;
mod registrations;

use rightlink_env::sync::{Arc, AtomicU32, AtomicU64, Mutex, OnceLock, Ordering};

use crate::buffer::BufferPool;
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, PageId};
use crate::index::am::DeadRows;
use crate::index::btree::optimisations::{Optimisation, Switches};
use crate::index::btree::page::meta;
use crate::index::btree::page::node::Damage;
use crate::index::btree::page::posting;

pub(crate) use free_pages::{FreePages, ReservedBlock};
pub(crate) use merge_counts::MergeCounts;
pub(crate) use registrations::{Registration, Registrations};

/// Settings of a tree; none is on disk.
#[derive(Clone, Copy, Debug)]
pub struct TreeOptions {
    /// Percent of a leaf that a bulk build and ascending insertions fill.
    pub leaf_fill: u8,
    /// Percent of an inner page that they fill.
    pub inner_fill: u8,
    /// Bytes of a page that may be used: less than a page only in tests, to make small trees tall.
    pub capacity: usize,
    /// May rows of one key share an item? Never with included columns.
    pub deduplicate: bool,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self { leaf_fill: 90, inner_fill: 70, capacity: PAGE_SIZE, deduplicate: true }
    }
}

/// An open B-link tree. It is cheap to clone; all clones are one tree. A file is open as one tree
/// at a time.
#[derive(Clone)]
pub struct BTree(pub(super) Arc<Tree>);

/// The state that all clones share.
pub(crate) struct Tree {
    pub(super) pool: Arc<BufferPool>,
    pub(super) file: FileId,
    pub(super) options: TreeOptions,
    pub(super) switches: Switches,
    /// Level and block of the root when it was last read. An old root is a valid start.
    pub(super) root: AtomicU64,
    pub(super) free_pages: FreePages,
    pub(super) registrations: Registrations,
    /// The rightmost leaf, if keys were appended to it recently; 0: none. A guess (R6).
    pub(super) rightmost: AtomicU32,
    /// Cycle id of the running vacuum, 0: none. Splits stamp it on both pages.
    pub(super) cycle: AtomicU32,
    /// The heap that the entries point to.
    pub(super) heap: OnceLock<Arc<dyn DeadRows>>,
    /// Full leaves since the heap last named a dead row.
    pub(super) futile_asks: AtomicU32,
    /// Merges so far, counted by the page that took entries in.
    pub(super) merges: MergeCounts,
    /// Held during a vacuum; the cycle id of the last one.
    pub(super) vacuum: Mutex<u32>,
}

impl BTree {
    /// Makes an empty tree in `file`, which exists and is empty.
    pub fn create(pool: &Arc<BufferPool>, file: FileId, options: TreeOptions) -> Result<BTree> {
        meta::format(pool, file)?;
        Self::open(pool, file, options)
    }

    /// Opens the tree in `file`, which the pool knows.
    pub fn open(pool: &Arc<BufferPool>, file: FileId, options: TreeOptions) -> Result<BTree> {
        assert!(options.capacity <= PAGE_SIZE && options.capacity >= 256, "a sensible page");
        assert!(
            (10..=100).contains(&options.leaf_fill) && (10..=100).contains(&options.inner_fill)
        );
        let tree = Tree {
            pool: Arc::clone(pool),
            file,
            options,
            switches: Switches::default(),
            root: AtomicU64::new(0),
            free_pages: FreePages::default(),
            registrations: Registrations::default(),
            rightmost: AtomicU32::new(0),
            cycle: AtomicU32::new(0),
            heap: OnceLock::new(),
            futile_asks: AtomicU32::new(0),
            merges: MergeCounts::default(),
            // The log has grown since the last process stamped ids on pages.
            vacuum: Mutex::new(pool.wal().end().0 as u32),
        };
        let meta = tree.refresh_root()?;
        tree.free_pages.set_hints(&meta.free, pool.blocks(file));
        Ok(BTree(Arc::new(tree)))
    }

    /// Operations use these optimisations from now on; a new tree uses all.
    #[cfg(feature = "experiments")]
    pub fn optimise(&self, set: super::Optimisations) {
        self.0.switches.set(set);
    }

    /// Levels of the tree, the leaves' included.
    pub fn levels(&self) -> u32 {
        u32::from(self.0.root().1) + 1
    }
}

impl Tree {
    /// The page at `block`.
    pub(super) fn page(&self, block: u32) -> PageId {
        PageId::new(self.file, block)
    }

    /// Is this optimisation switched on?
    pub(super) fn uses(&self, part: Optimisation) -> bool {
        self.switches.get().has(part)
    }

    /// Damage found at `block`.
    pub(super) fn corrupt(&self, block: u32, what: Damage) -> Error {
        Error::corrupt(self.page(block), what)
    }

    /// Block and level of the root as last known.
    pub(super) fn root(&self) -> (u32, u8) {
        let word = self.root.load(Ordering::Acquire);
        (word as u32, (word >> 32) as u8)
    }

    pub(super) fn set_root(&self, block: u32, level: u8) {
        let word = u64::from(level) << 32 | u64::from(block);
        // The root only rises: a slow reader of the meta page must not restore an old one.
        self.root.fetch_max(word, Ordering::AcqRel);
    }

    /// Bytes of a page that stay unused (tests make pages small).
    pub(super) fn unused_bytes(&self) -> usize {
        PAGE_SIZE - self.options.capacity
    }

    /// Largest posting list of this tree, in bytes: many lists fit on a page, small pages included.
    pub(crate) fn list_bytes(&self) -> usize {
        posting::MAX_BYTES.min(self.options.capacity / 6)
    }

    /// May rows of one key share an item?
    pub(crate) fn deduplicates(&self) -> bool {
        self.options.deduplicate && self.uses(Optimisation::Deduplication)
    }

    /// Reads the meta page and remembers the root.
    pub(crate) fn refresh_root(&self) -> Result<meta::Meta> {
        let pin = self.pool.pin(self.page(0))?;
        let meta = meta::parse(pin.shared().bytes()).map_err(|what| self.corrupt(0, what))?;
        self.set_root(meta.root, meta.level);
        Ok(meta)
    }
}
