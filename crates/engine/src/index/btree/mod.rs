//! B-link tree: the first access method.
//!
//! | file | what |
//! |---|---|
//! | `read` `node` `probe` `window` | bytes of a page: read, searched |
//! | `edit` `entries` `posting` | and changed |
//! | `meta` `alloc` | root and free pages; blocks for new pages; registered descents |
//! | `search` `descent` | from the root to the page that a key belongs to |
//! | `insert` `delete` | one leaf at a time |
//! | `unique` | whether a key may go in, and what leaves by the way |
//! | `split` `split_point` `halve` | then its parent; where, and the usual leaf |
//! | `groups` `ahead` `warm` | leaves named, read, and in the caches before they are wanted |
//! | `scan` `lookup` `cursor` | leaf after leaf, both ways; lists of keys; from one to the next |
//! | `pick` `mark` | which entries of a leaf a scan wants, and what it skips; dead marks |
//! | `clean` | dead rows leave by key, and full leaves that ask the heap |
//! | `vacuum` `merge` | dead entries and empty pages leave |
//! | `build` | from sorted entries |
//! | `verify` `inspect` | is it a tree, what does it look like |
//! | `optimisations` `counters` | what can be switched off for measuring; what searches cost |
//!
//! Invariants:
//! - Links, fences and levels say where a key belongs: a page takes `key` when `low <= key < high`.
//!   Keys move only right (R5), so a descent that arrives at a page that has split moves right, and
//!   one that arrives at a page that was given back starts again.
//! - Every page that is not the root has one downlink, or its left sibling carries the flag of an
//!   incomplete split; whoever writes there first finishes it.
//! - A reader holds one latch at a time and is never blocked by a split but for the moment of the
//!   copy.
//! - Latches go right and up (R12): left sibling, page, right sibling, parent, meta page.
//!
//! Does not do: wait for transactions, read the heap, know what a key means.

mod ahead;
mod alloc;
pub mod build;
mod clean;
mod counters;
mod cursor;
mod delete;
mod descent;
mod edit;
mod entries;
#[cfg(all(test, feature = "shuttle"))]
mod explore;
mod groups;
mod halve;
mod insert;
pub mod inspect;
mod lookup;
mod mark;
mod merge;
mod meta;
mod node;
mod optimisations;
mod pick;
mod posting;
mod probe;
mod put;
mod read;
mod scan;
mod search;
mod split;
mod split_point;
mod spread;
#[cfg(test)]
mod tests;
mod tree_key;
mod unique;
mod vacuum;
mod verify;
mod warm;
mod window;

use rightlink_env::sync::{Arc, OnceLock};

use rightlink_env::sync::{AtomicU32, AtomicU64, Mutex, Ordering};

pub use counters::{Counters, counting};
pub use optimisations::Optimisations;

use crate::buffer::{BufferPool, Pin};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, PageId, RowId, Xid};
use crate::index::IndexMethod;
use crate::index::am::{
    AccessMethod, BulkDelete, Clock, DeadRows, Few, Finding, Groups, HeapOracle, IndexEntry,
    IndexScan, InsertOutcome, LeafBatch, ScanOptions, Trace, VerifyStats,
};
use crate::index::search_key::{KeyRange, KeySet};
use crate::page::buf::gather;

use alloc::{Blocks, Registrations};
use merge::Merges;
use node::Damage;
use optimisations::Switches;
use tree_key::TreeKey;

pub use crate::index::MAX_ENTRY_BYTES;

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

/// An open B-link tree. Cheap to clone; all clones are one tree, and a file has one tree open at a
/// time.
#[derive(Clone)]
pub struct BTree(Arc<Tree>);

/// What all clones share.
pub(crate) struct Tree {
    pool: Arc<BufferPool>,
    file: FileId,
    options: TreeOptions,
    switches: Switches,
    /// Level and block of the root when it was last looked up. An old root is as good a start as
    /// any.
    root: AtomicU64,
    blocks: Blocks,
    registrations: Registrations,
    /// The rightmost leaf, if keys were appended to it lately; 0: none. Only a guess (R6).
    rightmost: AtomicU32,
    /// Cycle id of the vacuum under way, 0: none. Splits stamp it on both pages.
    cycle: AtomicU32,
    /// Whose rows the entries are.
    heap: OnceLock<Arc<dyn DeadRows>>,
    /// Full leaves since one had a dead row that the heap was asked about.
    vain: AtomicU32,
    /// Merges so far, by the page that took another one in.
    merges: Merges,
    /// One vacuum at a time, and the cycle id of the last one.
    vacuum: Mutex<u32>,
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
            switches: Switches::new(Optimisations::ALL),
            root: AtomicU64::new(0),
            blocks: Blocks::default(),
            registrations: Registrations::default(),
            rightmost: AtomicU32::new(0),
            cycle: AtomicU32::new(0),
            heap: OnceLock::new(),
            vain: AtomicU32::new(0),
            merges: Merges::default(),
            // The log has grown since the ids that the last process stamped on pages.
            vacuum: Mutex::new(pool.wal().end().0 as u32),
        };
        let meta = tree.refresh_root()?;
        tree.blocks.hint(&meta.free, pool.blocks(file));
        Ok(BTree(Arc::new(tree)))
    }

    /// The file.
    pub fn file(&self) -> FileId {
        self.0.file
    }

    /// From now on operations use these optimisations, for measuring; all of them at first.
    pub fn optimise(&self, set: Optimisations) {
        self.0.switches.set(set);
    }

    /// The optimisations in use.
    pub fn optimisations(&self) -> Optimisations {
        self.0.switches.get()
    }

    /// Levels of the tree, the leaves' included.
    pub fn levels(&self) -> u32 {
        u32::from(self.0.root().1) + 1
    }
}

impl Tree {
    /// The page at `block`.
    fn page(&self, block: u32) -> PageId {
        PageId::new(self.file, block)
    }

    /// Is this optimisation switched on?
    fn uses(&self, one: Optimisations) -> bool {
        self.switches.get().has(one)
    }

    /// Damage found at `block`.
    fn corrupt(&self, block: u32, what: Damage) -> Error {
        Error::corrupt(self.page(block), what)
    }

    /// Block and level of the root as last known.
    fn root(&self) -> (u32, u8) {
        let word = self.root.load(Ordering::Acquire);
        (word as u32, (word >> 32) as u8)
    }

    fn set_root(&self, block: u32, level: u8) {
        let word = u64::from(level) << 32 | u64::from(block);
        // Roots only rise; a slow reader of the meta page must not bring an old one back.
        self.root.fetch_max(word, Ordering::AcqRel);
    }

    /// Bytes of a page that are not to be used (tests make pages small).
    fn reserve(&self) -> usize {
        PAGE_SIZE - self.options.capacity
    }
}

/// The whole tree key of an entry.
fn tree_key(key: &[u8], row: RowId) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + RowId::SIZE);
    out.extend_from_slice(key);
    out.extend_from_slice(&row.to_bytes());
    out
}

/// Batches of so many entries are sorted by the openings of their keys first.
const MANY: usize = 32;

/// The first bytes of a key, as a number. Keys with different openings have their order.
#[inline]
fn opening(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => gather(key).swap_bytes(),
    }
}

/// Order of two entries: most differ in their first eight bytes, which one comparison decides.
#[inline]
fn order_of(a: &IndexEntry<'_>, b: &IndexEntry<'_>) -> std::cmp::Ordering {
    if let (Some(one), Some(two)) = (a.key.first_chunk::<8>(), b.key.first_chunk::<8>())
        && one != two
    {
        return u64::from_be_bytes(*one).cmp(&u64::from_be_bytes(*two));
    }
    a.key.cmp(b.key).then(a.row.cmp(&b.row))
}

impl AccessMethod for BTree {
    fn method(&self) -> IndexMethod {
        IndexMethod::BTree
    }

    fn order(&self, entries: &mut [IndexEntry<'_>]) {
        // Prefix-free keys: this is the order of the tree keys.
        if entries.len() < MANY || entries.is_sorted_by(|a, b| order_of(a, b).is_le()) {
            return entries.sort_unstable_by(order_of);
        }
        let numbered = entries.iter().zip(0u32..).map(|(entry, at)| (opening(entry.key), at));
        let mut places: Vec<(u64, u32)> = numbered.collect();
        places.sort_unstable_by_key(|(opening, _)| *opening);
        let sorted: Vec<_> = places.iter().map(|(_, at)| entries[*at as usize]).collect();
        entries.copy_from_slice(&sorted);
        for run in entries.chunk_by_mut(|a, b| opening(a.key) == opening(b.key)) {
            run.sort_unstable_by(order_of);
        }
    }

    fn groups<'a>(&'a self, entries: &'a [IndexEntry<'a>], unique: bool) -> Groups<'a> {
        Box::new(self.0.groups(entries, unique))
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

    fn leave_out(&self, names: &[&str]) -> bool {
        let without = |set: Optimisations, name: &&str| {
            Optimisations::named(name).map(|one| set.without(one))
        };
        let set = names.iter().try_fold(Optimisations::ALL, without);
        set.map(|set| self.optimise(set)).is_some()
    }

    fn begin_scan(&self, range: KeyRange, options: ScanOptions) -> Box<dyn IndexScan> {
        Box::new(scan::TreeScan::new(self.clone(), range, None, options))
    }

    fn begin_scan_of(
        &self,
        range: KeyRange,
        keys: Arc<KeySet>,
        options: ScanOptions,
    ) -> Box<dyn IndexScan> {
        Box::new(scan::TreeScan::new(self.clone(), range, Some(keys), options))
    }

    fn lookup(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, RowId, &[u8])) -> Result<()> {
        self.0.lookup(keys, found)
    }

    fn few(&self, key: &[u8]) -> Result<Option<Few>> {
        self.0.few(key)
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
        // A tree that is reopened with a changed definition keeps the heap that it has.
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

    fn begin_delete(&self, parts: usize) -> Box<dyn BulkDelete + '_> {
        Box::new(self.0.begin_delete(parts))
    }

    fn verify(
        &self,
        oracle: Option<&dyn HeapOracle>,
        report: &mut dyn FnMut(Finding),
    ) -> Result<VerifyStats> {
        self.0.verify(oracle, report)
    }
}

impl IndexScan for scan::TreeScan {
    fn next_batch(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool> {
        self.advance(clock, batch)
    }

    fn hand_back(&mut self, batch: &mut LeafBatch, keep: usize) {
        scan::TreeScan::hand_back(self, batch, keep);
    }

    fn restart(&mut self, range: KeyRange) {
        self.begin_again(range);
    }
}
