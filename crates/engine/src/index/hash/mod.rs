//! Hash index: equality on whole keys.
//!
//! | file | what |
//! |---|---|
//! | `code` | hash codes, the order they give, numbers of buckets |
//! | `bucket` `edit` | bytes of a page of entries: read and searched, changed |
//! | `meta` `directory` | blocks; from bucket numbers to pages |
//! | `find` | from a position to its page |
//! | `groups` `insert` `split` `delete` | one page at a time, then the directory |
//! | `scan` `list` `lookup` | page after page; dead marks; lists of keys |
//! | `vacuum` | dead entries leave, sparse pages are squeezed together |
//! | `clean` | dead rows leave by key, and full pages that ask the heap |
//! | `build` | from sorted entries |
//! | `verify` `inspect` | is it a hash index, what does it look like |
//!
//! It is a split-ordered list (Shalev and Shavit), with pages for nodes. All pages of entries are
//! one list in the order of code, key and row id. A bucket is a stretch of it that begins at a code
//! with few bits set; the directory has one entry per bucket, the page that it begins on. So a
//! bucket is parted by splitting one page and storing one entry, whatever the bucket's size, no
//! entry is moved twice, and there is no moment at which the whole index is rearranged. A bucket
//! whose keys cannot be parted (many rows of one key) is a chain of pages: its pages but the first
//! are overflow pages, found along the links.
//!
//! *Considered instead:* linear hashing, which splits buckets in turn: those that are full wait, so
//! that chains are the rule and not the exception, and a split rewrites a whole chain. Extendible
//! hashing with a doubling directory: the doubling is one large step. Here a missing entry stands
//! for the parent's, so the directory grows by entries.
//!
//! Invariants:
//! - Each page says by its fences which positions it takes (R6). A step over a link counts only if
//!   the neighbour begins where the page ended (R5), whatever became of either page meanwhile.
//! - A page that begins a bucket is named by the directory, or the page to its left carries the
//!   flag of an incomplete split; whoever writes there first finishes it.
//! - A reader holds one latch at a time, and no pin between batches.
//! - Latches go right and up (R12): pages of entries in list order, the page of a block that is
//!   taken or given back (never waited for), the directory, the meta page.
//!
//! Does not do: ranges of keys, order by key; wait for transactions; read the heap.

mod bucket;
pub mod build;
mod clean;
mod code;
mod delete;
mod directory;
mod edit;
#[cfg(all(test, feature = "shuttle"))]
mod explore;
mod find;
mod groups;
mod insert;
pub mod inspect;
mod list;
mod lookup;
mod meta;
mod scan;
mod split;
#[cfg(test)]
mod tests;
mod vacuum;
mod verify;

use rightlink_env::sync::{Arc, AtomicU32, Mutex, OnceLock, Ordering};

use crate::buffer::{BufferPool, Pin};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, PageId, RowId, Xid};
use crate::index::IndexMethod;
use crate::index::am::{
    AccessMethod, BulkDelete, Clock, DeadRows, Finding, Groups, HeapOracle, IndexEntry, IndexScan,
    InsertOutcome, LeafBatch, ScanOptions, Trace, VerifyStats,
};
use crate::index::search_key::{KeyRange, KeySet};

use bucket::Damage;
use directory::MAX_PAGES;

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

/// An open hash index. Cheap to clone; all clones are one index, and a file has one open at a time.
#[derive(Clone)]
pub struct HashIndex(Arc<Index>);

/// What all clones share.
pub(crate) struct Index {
    pool: Arc<BufferPool>,
    file: FileId,
    options: HashOptions,
    /// Bits of the largest bucket number.
    depth: AtomicU32,
    /// Blocks of the directory; 0: there is none yet.
    directory: Box<[AtomicU32]>,
    /// One grows the file at a time.
    growing: Mutex<()>,
    /// One vacuum at a time.
    vacuum: Mutex<()>,
    /// Which rows are dead, for a page that is full.
    heap: OnceLock<Arc<dyn DeadRows>>,
}

impl HashIndex {
    /// Makes an empty index in `file`, which exists and is empty.
    pub fn create(pool: &Arc<BufferPool>, file: FileId, options: HashOptions) -> Result<Self> {
        meta::format(pool, file)?;
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
            growing: Mutex::new(()),
            vacuum: Mutex::new(()),
            heap: OnceLock::new(),
        };
        let meta = index.meta()?;
        index.depth.store(meta.depth, Ordering::Release);
        for (known, block) in index.directory.iter().zip(&meta.directory) {
            known.store(*block, Ordering::Release);
        }
        Ok(HashIndex(Arc::new(index)))
    }

    /// The file.
    pub fn file(&self) -> FileId {
        self.0.file
    }
}

impl Index {
    /// The page at `block`.
    fn page(&self, block: u32) -> PageId {
        PageId::new(self.file, block)
    }

    /// Damage found at `block`.
    fn corrupt(&self, block: u32, what: Damage) -> Error {
        Error::corrupt(self.page(block), what)
    }

    /// Pins a page that a link or the directory named.
    fn pin_linked(&self, block: u32) -> Result<Pin> {
        if block == 0 {
            return Err(self.corrupt(block, "a link to the meta page"));
        }
        self.pool.pin(self.page(block))
    }

    /// Bytes of a page that are not to be used (tests make pages small).
    fn reserve(&self) -> usize {
        PAGE_SIZE - self.options.capacity
    }
}

/// Where the entries of an encoded key are: its code, then the key.
pub(crate) fn place(key: &[u8]) -> Vec<u8> {
    code::beginning(key)
}

/// The key of a place.
pub(crate) fn key_of(place: &[u8]) -> Option<&[u8]> {
    place.get(code::CODE..)
}

impl AccessMethod for HashIndex {
    fn method(&self) -> IndexMethod {
        IndexMethod::Hash
    }

    fn order(&self, entries: &mut [IndexEntry<'_>]) {
        // The code is computed once per entry.
        let mut coded: Vec<_> = entries.iter().map(|e| (code::code_of(e.key), *e)).collect();
        coded.sort_unstable_by(|(a, x), (b, y)| {
            a.cmp(b).then_with(|| x.key.cmp(y.key)).then(x.row.cmp(&y.row))
        });
        entries.iter_mut().zip(coded).for_each(|(to, (_, from))| *to = from);
    }

    fn groups<'a>(&'a self, entries: &'a [IndexEntry<'a>], _unique: bool) -> Groups<'a> {
        Box::new(self.0.groups(entries))
    }

    fn insert_group(
        &self,
        xid: Xid,
        entries: &[IndexEntry<'_>],
        unique: Option<&dyn HeapOracle>,
        page: Option<Pin>,
    ) -> Result<InsertOutcome> {
        self.0.insert_ordered(xid, entries, unique, page)
    }

    fn begin_scan(&self, range: KeyRange, options: ScanOptions) -> Box<dyn IndexScan> {
        Box::new(scan::HashScan::new(self.clone(), range, options))
    }

    fn begin_scan_of(
        &self,
        range: KeyRange,
        keys: Arc<KeySet>,
        options: ScanOptions,
    ) -> Box<dyn IndexScan> {
        Box::new(list::ListScan::new(self.clone(), range, keys, options))
    }

    fn lookup(&self, keys: &[&[u8]], found: lookup::FoundFn<'_>) -> Result<()> {
        self.0.lookup(keys, found)
    }

    fn mark_dead(
        &self,
        batch: &LeafBatch,
        positions: &[usize],
        only_unchanged: bool,
        check: &mut dyn FnMut(RowId) -> bool,
    ) -> usize {
        self.0.mark_dead(batch, positions, only_unchanged, check)
    }

    fn attach(&self, heap: Arc<dyn DeadRows>) {
        // An index that is reopened with a changed definition keeps the heap that it has.
        self.0.heap.get_or_init(|| heap);
    }

    fn remove_dead(
        &self,
        entries: &[IndexEntry<'_>],
        reads: bool,
        check: &mut dyn FnMut(RowId) -> bool,
        traces: &mut [Trace],
    ) -> Result<u64> {
        self.0.remove_dead(entries, reads, check, traces)
    }

    fn delete(&self, xid: Xid, entry: &IndexEntry<'_>) -> Result<bool> {
        self.0.delete(xid, entry)
    }

    fn begin_delete(&self, _parts: usize) -> Box<dyn BulkDelete + '_> {
        Box::new(self.0.begin_delete())
    }

    fn verify(
        &self,
        oracle: Option<&dyn HeapOracle>,
        report: &mut dyn FnMut(Finding),
    ) -> Result<VerifyStats> {
        self.0.verify(oracle, report)
    }
}

impl IndexScan for scan::HashScan {
    fn next_batch(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        self.advance(clock, batch)
    }

    fn hand_back(&mut self, batch: &mut LeafBatch, keep: usize) {
        scan::HashScan::hand_back(self, batch, keep);
    }

    fn restart(&mut self, range: KeyRange) {
        self.begin_again(range);
    }
}
