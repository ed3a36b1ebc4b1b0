//! Hash index: the access method for equality on whole keys.
//!
//! | layer | folder | content |
//! |---|---|---|
//! | 1 | `page/` | bytes of a page: read, search, change, encode; hash codes |
//! | 2 | `state/` | what operations share: settings, blocks for new pages |
//! | 3 | `search/` | from a code through the directory to a page |
//! | 4 | `insert/` | uniqueness, insertion, split, entries of the directory |
//! | 4 | `scan/` | scans, lists of keys, lookups, dead marks |
//! | 5 | `vacuum/` | deletion, vacuum pass, merge |
//! | 6 | `verify/` `build` `inspect` | checks, bulk build, description of pages |
//!
//! Invariants:
//! - All pages of entries are one list in the order of hash code, key and row id. A page takes the
//!   positions between its fences (R6). A step over a link counts only if the next page begins
//!   where the last one ended (R5).
//! - The directory names each page that begins a bucket, or the page to its left has the
//!   incomplete-split flag.
//! - Latches are taken rightwards and upwards (R12): pages of entries, the page of a block that is
//!   taken or freed, the directory, the meta page. A reader holds one latch at a time.
//!
//! Does not do: ranges or order of keys; wait for transactions; read the heap.
//! See README.md for split-ordered lists, PostgreSQL's hash index, and the differences.

pub mod build;
mod insert;
pub mod inspect;
mod page;
mod scan;
mod search;
mod state;
#[cfg(test)]
mod tests;
mod vacuum;
mod verify;

use rightlink_env::sync::{Arc, OnceLock};

use crate::buffer::BufferPool;
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::{RowId, Xid};
use crate::index::am::{
    AccessMethod, BulkDelete, DeadRows, Groups, HeapOracle, IndexEntry, IndexMethod, IndexScan,
    InsertOutcome, NamedPage, ScanOptions, Trace, VerifyStats,
};
use crate::index::dead_marks::LeafMarks;
use crate::index::search_key::{KeyRange, KeySet};
use crate::page::{Checked, PageFinding};

pub(crate) use page::hash_code::{key_of, key_position};
pub use state::{HashIndex, HashOptions};

impl AccessMethod for HashIndex {
    fn method(&self) -> IndexMethod {
        IndexMethod::Hash
    }

    fn order(&self, entries: &mut [IndexEntry<'_>]) {
        // The code is computed once per entry.
        let mut coded: Vec<_> =
            entries.iter().map(|e| (page::hash_code::hash_code(e.key), *e)).collect();
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
        page: Option<NamedPage>,
    ) -> Result<InsertOutcome> {
        self.0.insert_group(xid, entries, unique, page.map(|named| named.pin))
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
        Box::new(scan::list::ListScan::new(self.clone(), range, keys, options))
    }

    fn lookup(&self, keys: &[&[u8]], found: scan::lookup::FoundFn<'_>) -> Result<()> {
        self.0.lookup(keys, found)
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

    fn begin_delete(&self, _parts: usize) -> Box<dyn BulkDelete + '_> {
        Box::new(self.0.begin_delete())
    }

    fn verify(
        &self,
        oracle: Option<&dyn HeapOracle>,
        report: &mut dyn FnMut(PageFinding),
    ) -> Result<VerifyStats> {
        self.0.verify(oracle, report)
    }
}
