//! B-link tree: the ordered access method.
//!
//! | layer | folder | content |
//! |---|---|---|
//! | 1 | `page/` | bytes of a page: read, search, change, encode |
//! | 2 | `tree/` | what operations share: root, free pages, registrations |
//! | 3 | `search/` | from the root to a page; leaves named and prefetched |
//! | 4 | `insert/` | uniqueness, insertion, split, redistribution |
//! | 4 | `scan/` | range scans, skip scans, lookups, dead marks |
//! | 5 | `vacuum/` | deletion, vacuum pass, merge |
//! | 6 | `verify/` `build` `inspect` | checks, bulk build, description of pages |
//!
//! A layer imports lower layers only. `counters` and `optimisations` lie below all of them.
//!
//! Invariants:
//! - A page takes `key` when `low <= key < high`. Keys move only right (R5), so a descent that
//!   arrives left of its key moves right, and one that arrives at a freed page starts again.
//! - Every page but the root has one downlink, or its left sibling has the incomplete-split flag.
//! - Latches are taken rightwards and upwards (R12): left sibling, page, right sibling, parent,
//!   meta page. A reader holds one latch at a time.
//!
//! Does not do: wait for transactions, read the heap, interpret keys.
//! See README.md for Lehman and Yao's algorithm, PostgreSQL's nbtree, and the differences.

pub mod build;
mod counters;
mod insert;
pub mod inspect;
mod optimisations;
mod page;
mod scan;
mod search;
#[cfg(test)]
mod tests;
mod tree;
mod vacuum;
mod verify;

use rightlink_env::sync::{Arc, OnceLock};

use crate::buffer::BufferPool;
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::{RowId, Xid};
use crate::index::am::{
    AccessMethod, BulkDelete, DeadRows, Few, Groups, HeapOracle, IndexEntry, IndexMethod,
    IndexScan, InsertOutcome, NamedPage, ScanOptions, Trace, VerifyStats,
};
use crate::index::dead_marks::LeafMarks;
use crate::index::search_key::{KeyRange, KeySet};
use crate::page::{Checked, PageFinding};

pub use crate::index::MAX_ENTRY_BYTES;
pub use counters::Counters;
#[cfg(feature = "experiments")]
pub use counters::counting;
pub use optimisations::{Optimisation, Optimisations};
pub use tree::{BTree, TreeOptions};

impl AccessMethod for BTree {
    fn method(&self) -> IndexMethod {
        IndexMethod::BTree
    }

    fn order(&self, entries: &mut [IndexEntry<'_>]) {
        insert::sort::sort_entries(entries);
    }

    fn groups<'a>(&'a self, entries: &'a [IndexEntry<'a>], unique: bool) -> Groups<'a> {
        Box::new(self.0.groups(entries, unique))
    }

    fn insert_group(
        &self,
        xid: Xid,
        entries: &[IndexEntry<'_>],
        unique: Option<&dyn HeapOracle>,
        page: Option<NamedPage>,
    ) -> Result<InsertOutcome> {
        self.0.insert_group(xid, entries, unique, page)
    }

    #[cfg(feature = "experiments")]
    fn leave_out(&self, names: &[&str]) -> bool {
        let without = |set: Optimisations, name: &&str| {
            Optimisation::named(name).map(|part| set.without(part))
        };
        let set = names.iter().try_fold(Optimisations::ALL, without);
        set.map(|set| self.optimise(set)).is_some()
    }

    fn begin_scan(&self, range: KeyRange, options: ScanOptions) -> Box<dyn IndexScan> {
        Box::new(scan::TreeScan::new(&self.0, range, None, options))
    }

    fn begin_scan_of(
        &self,
        range: KeyRange,
        keys: Arc<KeySet>,
        options: ScanOptions,
    ) -> Box<dyn IndexScan> {
        Box::new(scan::TreeScan::new(&self.0, range, Some(keys), options))
    }

    fn lookup(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, RowId, &[u8])) -> Result<()> {
        self.0.lookup(keys, found)
    }

    fn few(&self, key: &[u8]) -> Result<Option<Few>> {
        self.0.few(key)
    }

    fn plan_marks(
        &self,
        leaf: &[u8; PAGE_SIZE],
        places: &mut Vec<Vec<u8>>,
        check: &mut dyn FnMut(RowId) -> bool,
    ) -> Checked<LeafMarks> {
        scan::mark_dead::plan_marks(leaf, places, check)
    }

    fn pool(&self) -> &BufferPool {
        &self.0.pool
    }

    fn heap(&self) -> &OnceLock<Arc<dyn DeadRows>> {
        &self.0.heap
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
        report: &mut dyn FnMut(PageFinding),
    ) -> Result<VerifyStats> {
        self.0.verify(oracle, report)
    }
}
