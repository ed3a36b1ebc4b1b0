//! One logical table: a heap and any number of indexes that always agree with it.
//!
//! | module, lowest layer first | concern |
//! |---|---|
//! | `definition` | definitions; rows and index entries as bytes |
//! | `sequence` | numbers for generated columns |
//! | `read` | rows by row id, by key, through an index, or in the order of the heap |
//! | `write` | writes: heap first, then every index |
//! | `build` | an index over rows that exist, also beside writers |
//!
//! [`Table`] has one `impl` here, for its life, and others in the files of these modules. Each
//! `mod.rs` lists which file holds which concern.
//!
//! Invariants: every version that a snapshot can see has an entry in every index (its own, or that
//! of its heap-only chain's root); a write that fails undoes its whole statement by aborting the
//! statement's xid; nothing here waits for a transaction while it holds a latch or a pin (R12).
//! Does not do: definitions on disk (`catalog`), cleaning (`vacuum`), choice of an index.

mod build;
mod definition;
mod read;
pub mod sequence;
mod write;

#[cfg(test)]
pub(crate) mod tests;

use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, Ordering};

pub use crate::keycode::ColumnRange;
pub use build::BuildOptions;
pub use build::online::MissedVersions;
pub(crate) use build::online::forgets_to_wait;
pub use definition::row::Projection;
pub use definition::row_visitor::RowVisitor;
pub use definition::{predicate, row, schema, settings};
pub use read::Row;
pub use read::bounds::IndexBounds;
pub use read::index_scan::Mark;
pub use read::long_value::LongReader;
pub use read::scan::{BlockSample, IndexScanOptions, Scan};
pub use write::bulk::{BulkUpdate, Done, Pending};
pub use write::clean::Cleaned;
pub use write::delete::{Wanted, WantedAt};
pub use write::long_value::LongWriter;
pub use write::shared_key::KeyHolders;
pub use write::statement::{Busy, GoOn, Statement};
pub use write::update::{Change, ChangeAt};
pub use write::upsert::{Merge, Upserted};
pub use write::{Twice, Written};

use crate::buffer::BufferPool;
use crate::datum::Value;
use crate::error::{Error, Result};
use crate::heap::overflow::Overflow;
use crate::heap::{Heap, HeapFiles, HeapOptions};
use crate::ids::{Csn, FileId, ObjectId, RowId, Xid};
use crate::index::{AccessMethod, DeadMarks};
use crate::txn::{Snapshot, TxnManager};

use build::online::Unfinished;
use definition::keys::{KeyMaker, Keys};
use schema::{IndexDef, TableDef};
use write::clean::HeapOfIndex;

/// An open table. Its users share it, because its heap's clock (R3) exists once.
pub struct Table {
    def: TableDef,
    pool: Arc<BufferPool>,
    txns: Arc<TxnManager>,
    heap: Heap,
    overflow: Option<Overflow>,
    indexes: Vec<Arc<TableIndex>>,
    unfinished: Unfinished,
    /// All live columns.
    all: Arc<Projection>,
    /// No column.
    none: Arc<Projection>,
}

/// An open index of a table.
pub struct TableIndex {
    def: IndexDef,
    keys: KeyMaker,
    method: Arc<dyn AccessMethod>,
    /// Commit number of the snapshot that it was built from, 0: older than this process (R10).
    built_at: Csn,
    /// Scans that began, entries that they read, rows that they returned, then the four figures of
    /// [`DeadMarks`]: the same under every definition.
    used: Arc<[AtomicU64; 7]>,
    /// Has another index been built in its place, or was its own build given up? From then on it is
    /// not cleaned, so an entry is only a guess. Reads ask the heap for the row (R4), unique checks
    /// ask the other index (R8), and verification skips it.
    replaced: Arc<AtomicBool>,
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
        let overflow = overflow_file(&def);
        let overflow = overflow.map(|file| Overflow::create(pool, file, def.logged)).transpose()?;
        let create = |index: &IndexDef| TableIndex::create(pool, &def, index);
        let indexes = def.indexes.iter().map(create).collect::<Result<_>>()?;
        Ok(Self::new(pool, txns, def, heap, overflow).with_indexes(indexes, Unfinished::None))
    }

    /// Opens a table that exists.
    pub fn open(
        pool: &Arc<BufferPool>,
        txns: &Arc<TxnManager>,
        def: TableDef,
    ) -> Result<Arc<Table>> {
        def.validate()?;
        let heap = Heap::open(pool, txns, heap_files(&def), heap_options(&def))?;
        let overflow = overflow_file(&def);
        let overflow = overflow.map(|file| Overflow::open(pool, file, def.logged)).transpose()?;
        let open = |index: &IndexDef| TableIndex::open(pool, &def, index);
        let indexes = def.indexes.iter().map(open).collect::<Result<_>>()?;
        Ok(Self::new(pool, txns, def, heap, overflow).with_indexes(indexes, Unfinished::None))
    }

    /// The same table under a changed definition; `built` are indexes that the old one did not
    /// have.
    pub fn with_def(&self, def: TableDef, built: &[Arc<TableIndex>]) -> Result<Arc<Table>> {
        def.validate()?;
        assert!(def.id == self.def.id && def.heap == self.def.heap, "a definition of this table");
        let reuse = |index: &IndexDef| {
            let mut known = built.iter().chain(&self.indexes);
            match known.find(|known| known.def.id == index.id && known.def.file == index.file) {
                Some(known) => Ok(known.redefined(&def, index, known.built_at)),
                None => TableIndex::open(&self.pool, &def, index),
            }
        };
        let indexes = def.indexes.iter().map(reuse).collect::<Result<_>>()?;
        Ok(self.redefined(def).with_indexes(indexes, Unfinished::None))
    }

    /// A table without indexes.
    fn new(
        pool: &Arc<BufferPool>,
        txns: &Arc<TxnManager>,
        def: TableDef,
        heap: Heap,
        overflow: Option<Overflow>,
    ) -> Table {
        let (pool, txns) = (Arc::clone(pool), Arc::clone(txns));
        let (all, none) = (Arc::new(Projection::all(&def)), Arc::new(Projection::none()));
        let (indexes, unfinished) = (Vec::new(), Unfinished::None);
        Table { def, pool, txns, heap, overflow, indexes, unfinished, all, none }
    }

    /// The same rows under the definition `def`, without indexes.
    fn redefined(&self, def: TableDef) -> Table {
        Self::new(&self.pool, &self.txns, def, self.heap.clone(), self.overflow.clone())
    }

    fn with_indexes(self, indexes: Vec<Arc<TableIndex>>, unfinished: Unfinished) -> Arc<Table> {
        for index in &indexes {
            index.method.attach(Arc::new(HeapOfIndex(self.heap.clone())));
        }
        Arc::new(Table { indexes, unfinished, ..self })
    }

    /// Its definition.
    pub fn def(&self) -> &TableDef {
        &self.def
    }

    /// All of its columns, to be read.
    pub fn all_columns(&self) -> &Arc<Projection> {
        &self.all
    }

    /// None of its columns: what of a row tells that it is there.
    pub fn no_columns(&self) -> &Arc<Projection> {
        &self.none
    }

    /// Names the relation where `result` is damage in one of its files.
    pub fn naming<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.def.named(error))
    }

    /// Its heap (for vacuum and verification).
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// Its values that do not fit their rows.
    pub fn overflow(&self) -> Option<&Overflow> {
        self.overflow.as_ref()
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
    /// Is `key` one that no two rows have at a time?
    pub fn is_whole_unique(&self, key: &[Value]) -> bool {
        let whole = key.len() == self.def.columns.len();
        self.def.unique && whole && (self.def.nulls_not_distinct || !key.contains(&Value::Null))
    }

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
        let (used, replaced) = Default::default();
        Arc::new(Self { def: index.clone(), keys, method, built_at, used, replaced })
    }

    /// The same index under a changed definition of it or of its table.
    fn redefined(&self, def: &TableDef, index: &IndexDef, built_at: Csn) -> Arc<Self> {
        let (keys, method) = (KeyMaker::new(def, index), Arc::clone(&self.method));
        let (used, replaced) = (Arc::clone(&self.used), Arc::clone(&self.replaced));
        Arc::new(Self { def: index.clone(), keys, method, built_at, used, replaced })
    }

    /// The error for a second row with `key`, in a table of that name.
    fn violation(&self, table: &str, key: &[u8]) -> Error {
        let (table, index) = (table.to_owned(), self.def.name.clone());
        let columns = self.keys.names().to_vec();
        Error::UniqueViolation { table, index, columns, key: self.keys.show(key) }
    }

    /// Notes that another index takes its place, or none. Called while every writer maintains it.
    pub(crate) fn replace(&self) {
        self.replaced.store(true, Ordering::SeqCst);
    }

    /// Has it been what writers keep and vacuum cleans, ever since it was given out?
    pub(crate) fn is_in_place(&self) -> bool {
        !self.replaced.load(Ordering::SeqCst)
    }

    fn is_replaced(&self) -> bool {
        !self.is_in_place() && !broken(Broken::ReplacedIndexTrusted)
    }

    /// May `snapshot` read by this index (R10)? It lacks versions that were replaced before it was
    /// built.
    ///
    /// Either the snapshot sees every commit that the build saw, or every xid that existed at the
    /// build had ended when it was taken; the second holds across restarts.
    pub fn is_usable(&self, snapshot: &Snapshot) -> bool {
        let built = self.built_at != Csn(0) && snapshot.csn() >= self.built_at;
        let since = self.def.usable_from;
        built
            || since == Xid::NONE
            || snapshot.xmin() >= since
            || broken(Broken::IndexUsedByOlderSnapshot)
    }

    /// Fails if this build would order its text otherwise than it is: neither reads nor writes go
    /// through it then, and `reindex` makes it anew.
    pub fn check_usable(&self) -> Result<()> {
        self.keys.check()
    }

    /// Hands the entry that a row with these values (of all live columns) has here to `take`, if it
    /// has one (for verification).
    pub fn with_entry<T>(
        &self,
        values: &[Value],
        row: RowId,
        take: impl FnOnce(&crate::index::IndexEntry<'_>) -> T,
    ) -> Result<Option<T>> {
        let mut keys = Keys::default();
        self.keys.push(&mut keys, values)?;
        Ok(keys.entry(0, row).map(|entry| take(&entry)))
    }

    /// Scans of it that began, entries that they came to, rows that they handed out, and the four
    /// figures of [`DeadMarks`].
    pub fn figures(&self) -> [u64; 7] {
        self.used.each_ref().map(|figure| figure.load(Ordering::Relaxed))
    }

    fn count_marks(&self, marks: DeadMarks) {
        let DeadMarks { made, evicted, changed, reused } = marks;
        for (figure, more) in self.used[3..].iter().zip([made, evicted, changed, reused]) {
            figure.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// A scan has ended that came to so many entries and handed out so many rows.
    fn count_scan(&self, entries: u64, handed_out: u64) {
        for (figure, more) in self.used.iter().zip([1, entries, handed_out]) {
            figure.fetch_add(more, Ordering::Relaxed);
        }
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

fn overflow_file(def: &TableDef) -> Option<FileId> {
    Some(def.overflow).filter(|file| *file != FileId(0))
}

fn heap_options(def: &TableDef) -> HeapOptions {
    HeapOptions { fillfactor: def.fillfactor, logged: def.logged }
}
