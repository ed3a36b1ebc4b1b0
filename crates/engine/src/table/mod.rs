//! One logical table: a heap and any number of indexes that always agree with it.
//!
//! | file | hides |
//! |---|---|
//! | `schema`, `predicate` | definitions, as the catalog hands them down |
//! | `sequence` | numbers for generated columns |
//! | `row`, `keys`, `bounds` | rows, index entries and conditions as bytes |
//! | `statement` | the transaction and snapshot of a running statement |
//! | `oracle` | what an index may ask the heap |
//! | `insert`, `update`, `delete`, `lock`, `upsert` | writes: heap first, then each index |
//! | `write` | waiting, lost races and new attempts, for all writes by row id |
//! | `fetch`, `scan`, `index_scan`, `index_only` | reads |
//! | `clean` | entries of pruned rows leave by key |
//! | `build`, `online` | an index over rows that exist, and beside writers |
//!
//! Invariants: every version that a snapshot can see has an entry in every index (its own, or that
//! of its heap-only chain's root); a write that fails undoes its whole statement by aborting the
//! statement's xid; nothing here waits for a transaction while it holds a latch or a pin (R12).
//! Does not do: definitions on disk (`catalog`), cleaning (`vacuum`), choice of an index, threads.

pub mod predicate;
pub mod row;
pub mod schema;
pub mod sequence;

mod bounds;
mod build;
mod clean;
mod delete;
mod entries;
mod fetch;
mod index_only;
mod index_scan;
mod insert;
mod keys;
mod lock;
mod many;
mod online;
mod oracle;
mod scan;
mod statement;
mod update;
mod upsert;
mod write;

#[cfg(test)]
pub(crate) mod tests;

use rightlink_env::points::broken;
use rightlink_env::sync::Arc;

pub use crate::keycode::ColumnRange;
pub use bounds::IndexBounds;
use bounds::Search;
pub use build::BuildOptions;
pub use clean::Cleaned;
pub use delete::Wanted;
pub use index_scan::Mark;
pub use online::GoOn;
pub(crate) use online::forgets_to_wait;
pub use oracle::TableOracle;
pub use row::Projection;
pub use scan::{IndexScanOptions, Row, Scan};
pub use statement::{Busy, Statement};
pub use update::Change;
pub use upsert::{Merge, Upserted};
pub use write::Written;

use crate::buffer::BufferPool;
use crate::datum::Value;
use crate::error::{Error, Result};
use crate::heap::{Heap, HeapFiles, HeapOptions};
use crate::ids::{Csn, ObjectId, RowId, Xid};
use crate::index::AccessMethod;
use crate::txn::{Snapshot, TxnManager};

use clean::HeapOfIndex;
use keys::KeyMaker;
use online::Unfinished;
use schema::{IndexDef, TableDef};

/// An open table. Shared by everyone who uses it: its heap's clock (R3) exists once.
pub struct Table {
    def: TableDef,
    pool: Arc<BufferPool>,
    txns: Arc<TxnManager>,
    heap: Heap,
    indexes: Vec<Arc<TableIndex>>,
    unfinished: Unfinished,
}

/// An open index of a table.
pub struct TableIndex {
    def: IndexDef,
    keys: KeyMaker,
    method: Arc<dyn AccessMethod>,
    /// Commit number of the snapshot that it was built from, 0: older than this process (R10).
    built_at: Csn,
}

impl Table {
    /// Creates the files of an empty table and of its indexes.
    pub fn create(
        pool: &Arc<BufferPool>,
        txns: &Arc<TxnManager>,
        def: TableDef,
    ) -> Result<Arc<Table>> {
        def.validate()?;
        let heap = Heap::create(pool, txns, heap_files(&def), heap_options(&def))?;
        let create = |index: &IndexDef| TableIndex::create(pool, &def, index);
        let indexes = def.indexes.iter().map(create).collect::<Result<Vec<_>>>()?;
        Ok(Self::assemble(pool, txns, def, heap, (indexes, Unfinished::None)))
    }

    /// Opens a table that exists.
    pub fn open(
        pool: &Arc<BufferPool>,
        txns: &Arc<TxnManager>,
        def: TableDef,
    ) -> Result<Arc<Table>> {
        def.validate()?;
        let heap = Heap::open(pool, txns, heap_files(&def), heap_options(&def))?;
        let open = |index: &IndexDef| TableIndex::open(pool, &def, index);
        let indexes = def.indexes.iter().map(open).collect::<Result<Vec<_>>>()?;
        Ok(Self::assemble(pool, txns, def, heap, (indexes, Unfinished::None)))
    }

    /// The same table under a changed definition; `built` are indexes that the old one did not
    /// have.
    pub fn with_def(&self, def: TableDef, built: &[Arc<TableIndex>]) -> Result<Arc<Table>> {
        def.validate()?;
        assert!(def.id == self.def.id && def.heap == self.def.heap, "a definition of this table");
        let reuse = |index: &IndexDef| {
            let mut known = built.iter().chain(&self.indexes);
            match known.find(|known| known.def.id == index.id && known.def.file == index.file) {
                Some(known) => known.redefined(&def, index),
                None => TableIndex::open(&self.pool, &def, index),
            }
        };
        let indexes = def.indexes.iter().map(reuse).collect::<Result<Vec<_>>>()?;
        let indexes = (indexes, Unfinished::None);
        Ok(Self::assemble(&self.pool, &self.txns, def, self.heap.clone(), indexes))
    }

    fn assemble(
        pool: &Arc<BufferPool>,
        txns: &Arc<TxnManager>,
        def: TableDef,
        heap: Heap,
        (indexes, unfinished): (Vec<Arc<TableIndex>>, Unfinished),
    ) -> Arc<Table> {
        let (pool, txns) = (Arc::clone(pool), Arc::clone(txns));
        for index in &indexes {
            index.method.attach(Arc::new(HeapOfIndex(heap.clone())));
        }
        Arc::new(Table { def, pool, txns, heap, indexes, unfinished })
    }

    /// Its definition.
    pub fn def(&self) -> &TableDef {
        &self.def
    }

    /// Names the relation where `result` is damage in one of its files.
    pub fn naming<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.def.named(error))
    }

    /// Its heap (for vacuum and verification).
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// Its indexes, in the order of the definition; last one that is being built beside writers and
    /// kept already.
    pub fn indexes(&self) -> &[Arc<TableIndex>] {
        &self.indexes
    }

    /// The index called `name`.
    pub fn index(&self, name: &str) -> Result<&Arc<TableIndex>> {
        let found = self.finished().iter().find(|index| index.def.name == name);
        found.ok_or_else(|| Error::NotFound(format!("index {name} of table {}", self.def.name)))
    }

    /// The index of a catalog number.
    pub fn index_by_id(&self, id: ObjectId) -> Option<&Arc<TableIndex>> {
        self.finished().iter().find(|index| index.def.id == id)
    }

    /// Indexes that can be read by.
    fn finished(&self) -> &[Arc<TableIndex>] {
        let unfinished = usize::from(matches!(self.unfinished, Unfinished::Kept));
        &self.indexes[..self.indexes.len() - unfinished]
    }
}

impl TableIndex {
    fn create(pool: &Arc<BufferPool>, def: &TableDef, index: &IndexDef) -> Result<Arc<Self>> {
        pool.create_file(index.file, def.logged)?;
        let method = index.method.create(pool, index.file, index.options())?;
        Ok(Self::new(def, index, method, Csn(0)))
    }

    /// Opens an index of the table `def`, for its table or to be checked without it.
    pub(crate) fn open(
        pool: &Arc<BufferPool>,
        def: &TableDef,
        index: &IndexDef,
    ) -> Result<Arc<Self>> {
        pool.open_file(index.file, def.logged)?;
        let method = index.method.open(pool, index.file, index.options())?;
        Ok(Self::new(def, index, method, Csn(0)))
    }

    fn new(
        def: &TableDef,
        index: &IndexDef,
        method: Arc<dyn AccessMethod>,
        built_at: Csn,
    ) -> Arc<Self> {
        let keys = KeyMaker::new(def, index);
        Arc::new(Self { def: index.clone(), keys, method, built_at })
    }

    /// The same index under a changed definition of it or of its table.
    fn redefined(&self, def: &TableDef, index: &IndexDef) -> Result<Arc<Self>> {
        Ok(Self::new(def, index, Arc::clone(&self.method), self.built_at))
    }

    /// May `snapshot` read by this index (R10)? It lacks versions that were replaced before it was
    /// built.
    ///
    /// Either the snapshot sees every commit that the build saw, or every xid that existed at the
    /// build had ended when it was taken; the second holds across restarts.
    pub fn is_usable(&self, snapshot: &Snapshot) -> bool {
        let built = self.built_at != Csn(0) && snapshot.csn() >= self.built_at;
        let since = self.def.usable_from;
        built || since == Xid::NONE || snapshot.xmin() >= since || broken("r10-usable")
    }

    /// Is the key of a version of `table` one that is searched for?
    fn matches(&self, table: &Table, at: RowId, bytes: &[u8], search: &Search) -> Result<bool> {
        let keys = self.keys.make(&[table.read_row(at, bytes)?])?;
        let found = search.contains(&self.def.method.place(keys.entry(0, at).key));
        found.map_err(|malformed| table.damaged_row(at, malformed))
    }

    /// Hands the entry that a row with these values (of all live columns) has here to `take` (for
    /// verification).
    pub fn with_entry<T>(
        &self,
        values: &[Value],
        row: RowId,
        take: impl FnOnce(&crate::index::IndexEntry<'_>) -> T,
    ) -> Result<T> {
        let mut keys = keys::Keys::default();
        self.keys.push(&mut keys, values)?;
        Ok(take(&keys.entry(0, row)))
    }

    /// Its definition.
    pub fn def(&self) -> &IndexDef {
        &self.def
    }

    /// Its access method (for vacuum and verification).
    pub fn method(&self) -> &dyn AccessMethod {
        &*self.method
    }
}

fn heap_files(def: &TableDef) -> HeapFiles {
    HeapFiles::starting_at(def.heap)
}

fn heap_options(def: &TableDef) -> HeapOptions {
    HeapOptions { fillfactor: def.fillfactor, logged: def.logged }
}
