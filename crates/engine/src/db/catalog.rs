//! Definitions as a transaction sees them, and what layers above keep beside them.
//!
//! Invariants: a [`Catalog`] sees the transaction's own uncommitted definitions. It waits only for
//! a transaction that changes the table asked for.
//! Does not do: changes of tables and sequences (`alter`, `numbers`).

use rightlink_env::sync::{Arc, Weak};

use crate::catalog::{self, Entry, KeptText};
use crate::collation::Collation;
use crate::db::info::{PageInfo, SequenceDefinition, TableInfo};
use crate::db::transaction::Transaction;
use crate::db::{describe, inspect};
use crate::error::Result;
use crate::table::sequence::SequencePosition;
use crate::txn::LockMode;

/// The definitions that a transaction sees, its own changes included: made by
/// [`Transaction::catalog`].
///
/// ```
/// use rightlink::{IndexSchema, TableSchema, Type};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// let mut txn = db.begin();
/// let schema = TableSchema::new("flight").column("id", Type::Int8).column("tail", Type::Text);
/// txn.create_table(&schema.index(IndexSchema::new("by_tail").on("tail")))?;
/// let mut catalog = txn.catalog();
/// assert_eq!(catalog.table_names()?, ["flight"]);
/// assert_eq!(catalog.describe("flight")?.columns[1].name, "tail");
/// assert_eq!(catalog.table_of_index("by_tail")?, "flight");
/// assert!(db.tables()?.is_empty(), "nothing is committed yet");
/// # Ok(())
/// # }
/// ```
pub struct Catalog<'t> {
    txn: &'t mut Transaction,
}

/// A version of a table's definition: two are equal exactly if the table has not changed between
/// them. A layer above keeps a plan as long as the version stays.
///
/// ```
/// use rightlink::{AlterTable, TableSchema, Type};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// txn.create_table(&TableSchema::new("t").column("a", Type::Int4))?;
/// let planned = txn.catalog().version("t")?;
/// assert!(planned == txn.catalog().version("t")?);
/// txn.alter_table("t", AlterTable::RenameColumn { column: "a", to: "b" })?;
/// assert!(planned != txn.catalog().version("t")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TableVersion(Weak<Entry>);

impl PartialEq for TableVersion {
    fn eq(&self, other: &Self) -> bool {
        // A dangling weak pointer keeps its address from being given away.
        Weak::ptr_eq(&self.0, &other.0)
    }
}

impl Transaction {
    /// The definitions that this transaction sees.
    pub fn catalog(&mut self) -> Catalog<'_> {
        Catalog { txn: self }
    }
}

impl Catalog<'_> {
    /// All tables, sorted by name. It locks nothing and waits for no transaction: a table that
    /// another one changes is as it was before. A table that damage keeps from being opened has its
    /// definition, without sizes.
    pub fn tables(&mut self) -> Result<Vec<TableInfo>> {
        let defs = self.read(|catalog, txn| catalog.definitions_in(&txn.latest_snapshot()))?;
        let (engine, changes) = (&self.txn.handle.engine, &self.txn.changes);
        Ok(defs.iter().map(|def| describe::seen(engine, changes, def)).collect())
    }

    /// The version of all definitions that this transaction sees. Definitions that were read under
    /// a version may be kept, and are as they were while the version is the same. `None`: the
    /// transaction has changed some itself.
    ///
    /// ```
    /// # use rightlink::{TableSchema, Type};
    /// # fn main() -> rightlink::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = rightlink::Database::open(dir.path())?;
    /// let mut other = db.begin();
    /// let before = other.catalog().version_of_all()?;
    /// let mut txn = db.begin();
    /// txn.create_table(&TableSchema::new("t").column("a", Type::Int8))?;
    /// assert_eq!(txn.catalog().version_of_all()?, None);
    /// assert_eq!(other.catalog().version_of_all()?, before);
    /// txn.commit()?;
    /// assert_ne!(other.catalog().version_of_all()?, before);
    /// # Ok(())
    /// # }
    /// ```
    pub fn version_of_all(&mut self) -> Result<Option<u64>> {
        Ok(self.txn.running()?.definitions_version())
    }

    /// Makes another version of all definitions when this transaction commits, for layers above
    /// that keep parts of theirs in tables.
    pub fn touch_definitions(&mut self) -> Result<()> {
        self.txn.running()?.note_definitions();
        Ok(())
    }

    /// Definition and sizes of one table. No other transaction changes the table's definition until
    /// this one ends.
    ///
    /// # Errors
    /// `NotFound` if there is no such table, `Corruption` if damage keeps it from being opened.
    pub fn describe(&mut self, table: &str) -> Result<TableInfo> {
        let entry = self.txn.entry(table, LockMode::Access)?;
        Ok(describe::table_info(&self.txn.handle.engine, &entry))
    }

    /// As [`Catalog::describe`]. A table that damage keeps from being opened has its definition,
    /// without sizes, so that it can be dropped.
    ///
    /// # Errors
    /// `NotFound` if there is no such table.
    pub fn definition(&mut self, table: &str) -> Result<TableInfo> {
        let described = self.describe(table);
        described.or_else(|error| describe::defined(&self.txn.handle.engine, table, error))
    }

    /// The version of a table's definition. No other transaction changes it until this one ends.
    ///
    /// # Errors
    /// `NotFound` if there is no such table.
    pub fn version(&mut self, table: &str) -> Result<TableVersion> {
        Ok(TableVersion(Arc::downgrade(&self.txn.entry(table, LockMode::Access)?)))
    }

    /// As [`Catalog::version`], for a table whose rows are changed next: it locks the table in
    /// [`LockMode::Write`] at once.
    pub fn version_to_write(&mut self, table: &str) -> Result<TableVersion> {
        Ok(TableVersion(Arc::downgrade(&self.txn.entry(table, LockMode::Write)?)))
    }

    /// Names of all tables, sorted. Locks nothing and waits for no transaction.
    pub fn table_names(&mut self) -> Result<Vec<String>> {
        self.read(|catalog, txn| catalog.table_names(&txn.latest_snapshot()))
    }

    /// Names of the sequences that belong to no column, sorted. Locks nothing and waits for no
    /// transaction.
    pub fn sequence_names(&mut self) -> Result<Vec<String>> {
        self.read(|catalog, txn| catalog.sequence_names(&txn.latest_snapshot()))
    }

    /// True if a table, index or sequence has this name. Locks nothing and waits for no
    /// transaction.
    pub fn has_relation(&mut self, name: &str) -> Result<bool> {
        self.read(|catalog, txn| catalog.has_relation(&txn.latest_snapshot(), name))
    }

    /// Name of the table that an index belongs to.
    ///
    /// # Errors
    /// `NotFound` if there is no such index.
    pub fn table_of_index(&mut self, index: &str) -> Result<String> {
        self.read(|catalog, txn| catalog.table_of_index(txn, index))
    }

    /// A name that no table, index or sequence has, and is none of `own`: `wanted`, or that with a
    /// number after it.
    pub fn free_name(&mut self, wanted: &str, own: &[String]) -> Result<String> {
        self.read(|catalog, txn| catalog.free_name(txn, own, wanted))
    }

    /// All sequences, sorted by name, also the sequences of columns.
    pub fn sequences(&mut self) -> Result<Vec<SequenceDefinition>> {
        self.read(|catalog, txn| catalog.sequences(txn))
    }

    /// The position of a sequence. It stays until this transaction ends.
    ///
    /// # Errors
    /// `NotFound` if there is no such sequence.
    pub fn sequence_position(&mut self, sequence: &str) -> Result<SequencePosition> {
        self.read(|catalog, txn| catalog.sequence(txn, sequence)?.position())
    }

    /// Keeps a collation under its name, for layers above that look collations up. Columns and
    /// indexes need none that is kept.
    ///
    /// # Errors
    /// `AlreadyExists` for a name that is taken, `Collation` if this build does not know the
    /// collation.
    pub fn create_collation(&mut self, collation: &Collation) -> Result<()> {
        self.txn.define(|ddl| ddl.create_collation(collation))
    }

    /// Removes a collation that is kept.
    ///
    /// # Errors
    /// `NotFound` if there is no such collation, `Invalid` if a column or an index has it.
    pub fn drop_collation(&mut self, name: &str) -> Result<()> {
        self.txn.define(|ddl| ddl.drop_collation(name))
    }

    /// The collation that is kept under this name. `None`: there is none.
    pub fn collation(&mut self, name: &str) -> Result<Option<Collation>> {
        self.read(|catalog, txn| catalog.collation(txn, name))
    }

    /// All collations that are kept, sorted by name.
    pub fn collations(&mut self) -> Result<Vec<Collation>> {
        self.read(|catalog, txn| catalog.collations(txn))
    }

    /// Keeps a text under a name with the database, in place of the present one; `None` removes
    /// it. It is stored for layers above and never read by the engine.
    ///
    /// ```
    /// # fn main() -> rightlink::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = rightlink::Database::open(dir.path())?;
    /// # let mut txn = db.begin();
    /// txn.catalog().keep("purpose", Some("tickets"))?;
    /// assert_eq!(txn.catalog().kept("purpose")?.as_deref(), Some("tickets"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Limit` for a text of more than 7 KiB.
    pub fn keep(&mut self, name: &str, text: Option<&str>) -> Result<()> {
        self.read(|catalog, txn| catalog.lock_kept(txn))?;
        self.txn.define(|ddl| ddl.keep_text(name, text))
    }

    /// The text that [`Catalog::keep`] keeps under a name. `None`: there is none.
    pub fn kept(&mut self, name: &str) -> Result<Option<String>> {
        self.read(|catalog, txn| catalog.kept(txn, name))
    }

    /// Names and texts of all that [`Catalog::keep`] keeps under names that begin with `prefix`,
    /// sorted by name. Locks nothing and waits for no transaction.
    ///
    /// ```
    /// # fn main() -> rightlink::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = rightlink::Database::open(dir.path())?;
    /// # let mut txn = db.begin();
    /// txn.catalog().keep("owner of tickets", Some("ann"))?;
    /// txn.catalog().keep("purpose", Some("tickets"))?;
    /// let owners = txn.catalog().kept_from("owner ")?;
    /// assert_eq!((owners.len(), owners[0].text.as_str()), (1, "ann"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn kept_from(&mut self, prefix: &str) -> Result<Vec<KeptText>> {
        self.read(|catalog, txn| catalog.kept_from(txn, prefix))
    }

    /// Page descriptions of a table's heap or an index, as of [`Database::inspect`], also of tables
    /// that only this transaction sees.
    ///
    /// [`Database::inspect`]: crate::Database::inspect
    ///
    /// # Errors
    /// `NotFound` when there is no such relation or block.
    pub fn inspect(&mut self, relation: &str, block: Option<u32>) -> Result<Vec<PageInfo>> {
        inspect::inspect(self.txn, relation, block)
    }

    fn read<T>(
        &mut self,
        read: impl FnOnce(&catalog::Catalog, &mut crate::txn::Transaction) -> Result<T>,
    ) -> Result<T> {
        let handle = Arc::clone(&self.txn.handle);
        read(&handle.engine.catalog, self.txn.running()?)
    }
}

#[cfg(test)]
mod tests {
    use crate::{AlterTable, ColumnSchema, Database, IndexSchema, TableSchema, Type, Value};

    #[test]
    fn a_change_under_way_is_looked_past() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("t").column("a", Type::Int4)).unwrap();
        txn.insert("t", &[Value::Int4(1)]).unwrap();
        txn.commit().unwrap();
        let seen = || {
            let infos = db.begin().catalog().tables().unwrap();
            let told = |t: crate::TableInfo| (t.name.clone(), t.columns.len(), t.heap_blocks);
            infos.into_iter().map(told).collect::<Vec<_>>()
        };
        let before = seen();
        assert_eq!(before, [("t".to_owned(), 1, db.describe("t").unwrap().heap_blocks)]);
        let mut changing = db.begin();
        changing.alter_table("t", AlterTable::Rename("u")).unwrap();
        let added = ColumnSchema::new("b", Type::Int4).nullable();
        changing.alter_table("u", AlterTable::AddColumn(&added)).unwrap();
        changing
            .create_table(&TableSchema::new("own").column("a", Type::Int4).primary_key(["a"]))
            .unwrap();
        assert_eq!(seen(), before, "nobody waits, and nothing shows");
        let own = changing.catalog().tables().unwrap();
        let known = ["own", "u"].map(|name| changing.catalog().describe(name).unwrap());
        assert_eq!(own, known, "to itself it shows at once");
        changing.commit().unwrap();
        assert_eq!(seen(), [("own".to_owned(), 1, 1), ("u".to_owned(), 2, before[0].2)]);
        db.close().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let first = db.tables().unwrap();
        assert_eq!(first, ["own", "u"].map(|name| db.describe(name).unwrap()), "and their sizes");
        assert!(db.verify().unwrap().is_clean());
    }

    #[test]
    fn a_transaction_sees_its_own_definitions() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("t").column("a", Type::Int4)).unwrap();
        let before = txn.catalog().version("t").unwrap();
        assert!(before == txn.catalog().version("t").unwrap());
        let savepoint = txn.savepoint();
        txn.create_index("t", &IndexSchema::new("t_a").on("a")).unwrap();
        assert!(before != txn.catalog().version("t").unwrap(), "an index makes another version");
        assert_eq!(txn.catalog().table_of_index("t_a").unwrap(), "t");
        txn.release(savepoint).unwrap();
        assert!(txn.rollback_to(savepoint).is_err(), "it was let go");
        assert_eq!(txn.catalog().describe("t").unwrap().indexes.len(), 1);
        assert_eq!(txn.catalog().tables().unwrap().len(), 1);
        txn.insert("t", &[Value::Int4(1)]).unwrap();
        drop(txn);
        assert_eq!(db.begin().catalog().tables().unwrap().len(), 0);
    }
}
