//! Reads of several tables by one snapshot, apart from the transaction that they belong to: what a
//! query over several tables is made of.
//!
//! Invariants: all tables are as the one snapshot sees them, the indexes included (an index that
//! was built anew before it has taken its place). A scan of a reader ends as one of the transaction
//! would. Does not do: tables that were not named when it was made, writes.

use rightlink_env::sync::Arc;

use crate::catalog::Entry;
use crate::db::rows::{Alive, Rows};
use crate::db::scan::{self, ScanOptions};
use crate::db::transaction::Transaction;
use crate::error::{Error, Result};
use crate::txn::{LockMode, Snapshot};

/// Reads of the tables that it was made for, all by one snapshot. Owned, `Send`, and independent of
/// the borrow of its transaction, so that many scans can be open and new ones begin meanwhile. It
/// reads nothing any more once its transaction has ended.
///
/// ```
/// use rightlink::{Reader, ScanOptions, TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// for name in ["a", "b"] {
///     txn.create_table(&TableSchema::new(name).column("id", Type::Int8).primary_key(["id"]))?;
///     txn.insert(name, &[Value::Int8(1)])?;
/// }
/// let reader: Reader = txn.reader(&["a", "b"])?;
/// let mut found = 0;
/// for outer in reader.scan("a", &ScanOptions::all())? {
///     let key = outer?.values;
///     found += reader.scan("b", &ScanOptions::index("b_pkey").equal(key))?.count();
/// }
/// assert_eq!(found, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Reader {
    pub(super) alive: Alive,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) tables: Arc<[Arc<Entry>]>,
}

impl Transaction {
    /// A reader of these tables, as a statement that begins now sees them.
    ///
    /// # Errors
    /// `NotFound` for a table that is not there, `Conflict` for one that was rewritten after the
    /// transaction's snapshot.
    pub fn reader(&mut self, tables: &[&str]) -> Result<Reader> {
        loop {
            let edition = self.edition();
            let tables = self.entries(tables)?;
            let snapshot = self.running()?.begin_read()?;
            if self.edition() == edition {
                return Ok(Reader { alive: self.alive(), snapshot, tables });
            }
        }
    }

    /// The tables of these names, each locked for reading.
    pub(super) fn entries(&mut self, tables: &[&str]) -> Result<Arc<[Arc<Entry>]>> {
        tables.iter().map(|table| self.entry(table, LockMode::Access)).collect()
    }
}

impl Reader {
    fn entry(&self, table: &str) -> Result<&Arc<Entry>> {
        let found = self.tables.iter().find(|entry| entry.table.def().name == table);
        found.ok_or_else(|| Error::Invalid(format!("the reader was not made for table {table}")))
    }

    /// As [`Transaction::scan`], by the reader's snapshot.
    ///
    /// # Errors
    /// As there, and `Invalid` for a table that the reader was not made for, and with
    /// [`ScanOptions::latest`].
    pub fn scan(&self, table: &str, options: &ScanOptions) -> Result<Rows> {
        if options.latest {
            return Err(Error::Invalid("a reader reads its own snapshot".into()));
        }
        let entry = self.entry(table)?;
        entry.table.naming(scan::start(&self.alive, entry, &self.snapshot, options))
    }
}
