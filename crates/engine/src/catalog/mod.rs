//! Definitions of tables and indexes, themselves rows in a table, and the open tables they stand
//! for.
//!
//! | file | holds |
//! |---|---|
//! | `bootstrap` | the definition of the catalog's own table |
//! | `store`, `rows`, `codec` | catalog rows, and definitions as bytes |
//! | `names`, `resolve`, `changes` | open tables by name, finding them, changes under way |
//! | `ddl` | statements that change definitions |
//! | `online` | building an index, or building it anew, while writers go on |
//! | `sequences`, `collations`, `kept` | sequences, collations, texts of a layer above |
//! | `prepared` | prepared transactions |
//!
//! Invariants:
//! - An open table exists once: its heap's clock (R3) and its trees' registrations (R6) have one
//!   place. Only `names` opens tables.
//! - A definition changes under the table's exclusive lock, and the name is marked as changing
//!   before the first catalog row is written. A transaction that meets the mark waits for the lock
//!   and looks again, so none writes under an old definition. The stages of an index build beside
//!   writers are the exception, and wait for those that do (`online`).
//! - Definitions are read with a snapshot of now, not of the transaction: rows of older snapshots
//!   read correctly under newer definitions.
//!
//! Does not do: SQL names, schemas, privileges.

pub mod bootstrap;
pub mod codec;
pub mod rows;

mod changes;
mod collations;
mod ddl;
mod kept;
mod names;
mod online;
pub(crate) mod prepared;
mod resolve;
mod sequences;
mod store;

use std::collections::HashMap;

use rightlink_env::sync::{Arc, AtomicU32, Mutex, Ordering};

pub use bootstrap::{FIRST_USER_FILE, FIRST_USER_OBJECT};
pub use changes::{Changes, ChangesMark, Ending};
pub use ddl::{ColumnChange, DdlStatement, RedefineSequence};
pub(crate) use ddl::{Convert, OfRow, Retype};
pub use kept::KeptText;
pub use names::{Entry, Known};
pub use online::{Online, OnlineIndex};
pub use sequences::{SequenceDefinition, SequenceOwner};

use crate::buffer::BufferPool;
use crate::error::{Error, Result};
use crate::ids::{FileId, ObjectId};
use crate::table::Table;
use crate::table::schema::TableDef;
use crate::table::sequence::Sequence;
use crate::txn::{Isolation, Snapshot, TxnManager};
use bootstrap::Kind;
use names::Names;
use rows::Object;
use store::Store;

/// The catalog of an open database.
pub struct Catalog {
    pool: Arc<BufferPool>,
    txns: Arc<TxnManager>,
    store: Store,
    names: Names,
    /// Sequences that were used, by file: each exists once.
    sequences: Mutex<HashMap<FileId, Arc<Sequence>>>,
    next_file: AtomicU32,
    next_object: AtomicU32,
    retired: online::Retired,
}

impl Catalog {
    /// Creates the catalog of a new database.
    pub fn create(pool: &Arc<BufferPool>, txns: &Arc<TxnManager>) -> Result<Catalog> {
        let table = Table::create(pool, txns, bootstrap::catalog_def())?;
        Ok(Self::new(pool, txns, table, FIRST_USER_FILE, FIRST_USER_OBJECT))
    }

    /// Opens the catalog. No file number below `next_file` was handed out before.
    pub fn open(pool: &Arc<BufferPool>, txns: &Arc<TxnManager>, next_file: u32) -> Result<Catalog> {
        let table = Table::open(pool, txns, bootstrap::catalog_def())?;
        let catalog = Self::new(pool, txns, table, next_file, FIRST_USER_OBJECT);
        let txn = txns.begin(Isolation::ReadCommitted);
        let objects = catalog.store.all(&txn.latest_snapshot())?;
        let last = objects.iter().map(|object| object.id.0).max().unwrap_or(0);
        catalog.next_object.fetch_max(last + 1, Ordering::Relaxed);
        let files = catalog.files()?;
        let last = files.iter().map(|file| file.0).max().unwrap_or(0);
        catalog.next_file.fetch_max(last + 1, Ordering::Relaxed);
        Ok(catalog)
    }

    fn new(
        pool: &Arc<BufferPool>,
        txns: &Arc<TxnManager>,
        table: Arc<Table>,
        next_file: u32,
        next_object: u32,
    ) -> Catalog {
        Catalog {
            pool: Arc::clone(pool),
            txns: Arc::clone(txns),
            store: Store::new(table),
            names: Names::new(),
            sequences: Mutex::new(HashMap::new()),
            next_file: AtomicU32::new(next_file.max(FIRST_USER_FILE)),
            next_object: AtomicU32::new(next_object),
            retired: online::Retired::default(),
        }
    }

    /// The catalog's own table.
    pub fn table(&self) -> &Arc<Table> {
        self.store.table()
    }

    /// First file number not handed out.
    pub fn next_file(&self) -> u32 {
        self.next_file.load(Ordering::Acquire)
    }

    /// Definitions of all committed tables, sorted by name.
    pub fn definitions(&self) -> Result<Vec<TableDef>> {
        self.definitions_in(&self.txns.begin(Isolation::ReadCommitted).latest_snapshot())
    }

    /// Definitions of the tables that `snapshot` sees, sorted by name.
    pub fn definitions_in(&self, snapshot: &Arc<Snapshot>) -> Result<Vec<TableDef>> {
        self.store.definitions(snapshot)
    }

    /// The tables that were used since the database was opened, sorted by name; each may be changed
    /// or dropped by now.
    pub fn open_tables(&self) -> Vec<Arc<Entry>> {
        let mut open = self.names.all_open();
        open.sort_by(|a, b| a.table.def().name.cmp(&b.table.def().name));
        open
    }

    /// As [`Catalog::open_tables`], with those that are being changed as they were before: for
    /// figures about them.
    pub fn known_tables(&self) -> Vec<Arc<Entry>> {
        self.names.all_known()
    }

    /// Names of the tables that `snapshot` sees, sorted.
    pub fn table_names(&self, snapshot: &Arc<Snapshot>) -> Result<Vec<String>> {
        let tables = self.store.of_kind(snapshot, Kind::Table)?;
        Ok(tables.into_iter().map(|table| table.name).collect())
    }

    /// Names of the sequences of no column that `snapshot` sees, sorted.
    pub fn sequence_names(&self, snapshot: &Arc<Snapshot>) -> Result<Vec<String>> {
        let sequences = self.store.of_kind(snapshot, Kind::Sequence)?.into_iter();
        Ok(sequences.filter(Object::is_free_sequence).map(|sequence| sequence.name).collect())
    }

    /// Does `snapshot` see a table, index or sequence called `name`?
    pub fn has_relation(&self, snapshot: &Arc<Snapshot>, name: &str) -> Result<bool> {
        Ok(self.store.relation(snapshot, name)?.is_some())
    }

    /// Every file that a committed table, index or sequence owns, the catalog's own left out.
    pub fn files(&self) -> Result<Vec<FileId>> {
        Ok(self.owned_files()?.into_iter().map(|(file, _)| file).collect())
    }

    /// The same, and whether changes of each are logged: those of sequences always are.
    pub fn owned_files(&self) -> Result<Vec<(FileId, bool)>> {
        let mut files = Vec::new();
        for def in self.definitions()? {
            files.extend(row_files(&def).into_iter().map(|file| (file, def.logged)));
            files.extend(sequence_files(&def).map(|file| (file, true)));
        }
        files.extend(self.free_sequences()?.into_iter().map(|def| (def.file, true)));
        Ok(files)
    }

    /// Says of damage whose file it is in, where a committed table, index or sequence owns that.
    pub fn blamed(&self, error: Error) -> Error {
        let (Ok(defs), Ok(free)) = (self.definitions(), self.free_sequences()) else {
            return error;
        };
        let error = defs.iter().fold(error, |error, def| def.named(error));
        let mut all = defs.iter().flat_map(TableDef::sequences).chain(&free);
        error.blamed(|file| {
            let found = all.find(|known| known.file.path() == file);
            found.map(|def| format!("sequence {}", def.schema.name))
        })
    }

    /// The definition of the committed table called `name`, for callers that cannot open it.
    pub fn definition(&self, name: &str) -> Result<TableDef> {
        let txn = self.txns.begin(Isolation::ReadCommitted);
        let snapshot = txn.latest_snapshot();
        match self.store.relation(&snapshot, name)? {
            Some(found) if found.object.kind == Kind::Table => {
                self.store.assemble(&snapshot, &found.object)
            }
            _ => Err(no_table(name)),
        }
    }

    /// Empties the unlogged tables, which a crash has made unreliable: their files are made anew.
    pub fn empty_unlogged(&self) -> Result<()> {
        for def in self.definitions()? {
            if !def.logged {
                for file in row_files(&def) {
                    self.pool.drop_file(file)?;
                }
                drop(Table::create(&self.pool, &self.txns, def)?);
            }
        }
        Ok(())
    }

    fn new_object(&self) -> ObjectId {
        ObjectId(self.next_object.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes `count` file numbers in a row.
    fn new_files(&self, count: u32) -> FileId {
        FileId(self.next_file.fetch_add(count, Ordering::AcqRel))
    }
}

/// Files that every database has: of the catalog itself and of the outcomes of transactions.
pub fn system_files() -> Vec<FileId> {
    let mut files = files_of(&bootstrap::catalog_def());
    files.push(crate::txn::STATUS_FILE);
    files
}

/// The files of a table, its indexes and the sequences of its columns.
pub fn files_of(def: &TableDef) -> Vec<FileId> {
    let mut files = row_files(def);
    files.extend(sequence_files(def));
    files
}

fn sequence_files(def: &TableDef) -> impl Iterator<Item = FileId> {
    def.sequences().map(|sequence| sequence.file)
}

/// The files of a table and its indexes.
pub fn row_files(def: &TableDef) -> Vec<FileId> {
    let mut files = def.heap_files();
    files.extend(def.indexes.iter().map(|index| index.file));
    files
}

fn no_table(name: &str) -> Error {
    Error::NotFound(format!("table {name}"))
}
