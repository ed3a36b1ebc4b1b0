//! What a layer on top of a transaction asks of it beside statements: definitions as the
//! transaction sees them, settings that change on the way, savepoints let go.
//!
//! Invariants: looks through the transaction's own uncommitted definitions, and waits for nobody
//! but a transaction that changes the table asked for.
//! Does not do: statements.

use std::time::Duration;

use rightlink_aio::Method;
use rightlink_env::sync::{Arc, Weak};

use crate::catalog::Entry;
use crate::db::Database;
use crate::db::describe;
use crate::db::info::TableInfo;
use crate::db::rows::Rows;
use crate::db::scan::{self, ScanOptions};
use crate::db::transaction::Transaction;
use crate::error::{Error, Result};
use crate::sort::Sorter;
use crate::txn::LockMode;

/// A definition of a table as it was at a time: equal to another one exactly as long as nobody has
/// changed the table. For plans that are kept.
#[derive(Clone)]
pub struct TableVersion(Weak<Entry>);

impl PartialEq for TableVersion {
    fn eq(&self, other: &Self) -> bool {
        // A dangling weak pointer keeps its address from being given away.
        Weak::ptr_eq(&self.0, &other.0)
    }
}

impl Transaction {
    /// One table, as this transaction sees it. Nobody changes it until the transaction ends.
    pub fn describe(&mut self, table: &str) -> Result<TableInfo> {
        let entry = self.entry(table, LockMode::Access)?;
        Ok(describe::table_info(&self.handle.engine, &entry))
    }

    /// As [`Transaction::describe`]; of a table that damage keeps from being opened there is what
    /// the catalog says of it, without sizes, so that it can be dropped.
    pub fn definition(&mut self, table: &str) -> Result<TableInfo> {
        let described = self.describe(table);
        described.or_else(|error| describe::defined(&self.handle.engine, table, error))
    }

    /// The version of a table's definition. Nobody changes it until the transaction ends.
    pub fn version(&mut self, table: &str) -> Result<TableVersion> {
        Ok(TableVersion(Arc::downgrade(&self.entry(table, LockMode::Access)?)))
    }

    /// The same of a table whose rows are to be changed next, for which it is locked at once.
    pub fn version_to_write(&mut self, table: &str) -> Result<TableVersion> {
        Ok(TableVersion(Arc::downgrade(&self.entry(table, LockMode::Write)?)))
    }

    /// All tables that this transaction sees, sorted by name. Of one that damage keeps from being
    /// opened there is the definition, without sizes.
    pub fn tables(&mut self) -> Result<Vec<TableInfo>> {
        let names = {
            let handle = Arc::clone(&self.handle);
            handle.engine.catalog.table_names(&self.running()?.latest_snapshot())?
        };
        let mut infos = Vec::with_capacity(names.len());
        for name in names {
            match self.definition(&name) {
                Err(Error::NotFound(_)) => {}
                info => infos.push(info?),
            }
        }
        Ok(infos)
    }

    /// Names of all tables that this transaction sees, sorted. Locks nothing and waits for nobody.
    pub fn table_names(&mut self) -> Result<Vec<String>> {
        let handle = Arc::clone(&self.handle);
        handle.engine.catalog.table_names(&self.running()?.latest_snapshot())
    }

    /// Names of all sequences of no column that this transaction sees, sorted. Locks nothing and
    /// waits for nobody.
    pub fn sequence_names(&mut self) -> Result<Vec<String>> {
        let handle = Arc::clone(&self.handle);
        handle.engine.catalog.sequence_names(&self.running()?.latest_snapshot())
    }

    /// Is there a table, index or sequence of this name, as this transaction sees it? Locks nothing
    /// and waits for nobody.
    pub fn has_relation(&mut self, name: &str) -> Result<bool> {
        let handle = Arc::clone(&self.handle);
        handle.engine.catalog.has_relation(&self.running()?.latest_snapshot(), name)
    }

    /// As [`Transaction::scan`], but as everything is now, whatever the isolation: for what must
    /// hold for rows that the transaction cannot see. Row ids of these rows are not for writing.
    pub fn scan_latest(&mut self, table: &str, options: &ScanOptions) -> Result<Rows> {
        let entry = self.entry(table, LockMode::Access)?;
        let snapshot = self.running()?.latest_snapshot();
        entry.table.naming(scan::start(&self.alive(), &entry, &snapshot, options))
    }

    /// The table that the index called `index` belongs to.
    pub fn table_of_index(&mut self, index: &str) -> Result<String> {
        let handle = Arc::clone(&self.handle);
        handle.engine.catalog.table_of_index(self.running()?, index)
    }

    /// Its number in this process, by which [`Database::snapshots`] names it.
    pub fn number(&self) -> u64 {
        self.txn.as_ref().expect("the transaction runs until it is consumed").id()
    }

    /// How long later waits for locks may last; `None`: without end.
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        if let Some(txn) = &mut self.txn {
            txn.set_lock_timeout(timeout);
        }
    }

    /// Commit without waiting for the log to be durable? See [`TransactionOptions::relaxed`].
    ///
    /// [`TransactionOptions::relaxed`]: crate::TransactionOptions::relaxed
    pub fn set_relaxed(&mut self, relaxed: bool) {
        self.relaxed = relaxed;
    }

    /// Read the index pages of later statements one at a time? See
    /// [`TransactionOptions::serial_reads`].
    ///
    /// [`TransactionOptions::serial_reads`]: crate::TransactionOptions::serial_reads
    pub fn set_serial_reads(&mut self, serial: bool) {
        self.serial_reads = serial;
    }

    /// Fails if the transaction was cancelled; long loops ask now and then.
    pub fn check_cancelled(&mut self) -> Result<()> {
        self.running()?.check_cancelled()
    }

    /// Forgets a cancel, so that the transaction can go on.
    pub fn clear_cancel(&mut self) {
        if let Some(txn) = &mut self.txn {
            txn.clear_cancel();
        }
    }
}

impl Database {
    /// The one memory budget of the database, for layers whose own memory grows with the data.
    pub fn budget(&self) -> &rightlink_env::Budget {
        &self.engine().env.budget
    }

    /// A sort of records by the bytes of their keys, for layers whose rows do not fit into memory:
    /// what `memory` bytes of the budget cannot hold goes to temporary files of the database.
    ///
    /// # Errors
    /// `OutOfMemory` if the budget has no room for the least that a sort takes.
    pub fn sorter(&self, memory: usize) -> Result<Sorter> {
        let engine = self.engine();
        engine.check_open()?;
        Sorter::new(&engine.env.budget, &engine.temp, memory)
    }

    /// How reads and writes reach the device in truth, after a fallback.
    pub fn method(&self) -> Method {
        self.engine().io.method()
    }

    /// Most reads at once that the device serves well.
    pub fn device_depth(&self) -> u32 {
        self.engine().pool.device_depth()
    }

    /// Wall-clock time in microseconds since 1970-01-01 00:00 UTC, simulated if the database's
    /// clock is. For display and for values; nothing in the store depends on it.
    pub fn unix_micros(&self) -> i64 {
        self.engine().env.clock.unix_micros()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Database, IndexSchema, TableSchema, Type, Value};

    #[test]
    fn a_transaction_sees_its_own_definitions() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("t").column("a", Type::Int4)).unwrap();
        let before = txn.version("t").unwrap();
        assert!(before == txn.version("t").unwrap());
        let savepoint = txn.savepoint();
        txn.create_index("t", &IndexSchema::new("t_a").on("a")).unwrap();
        assert!(before != txn.version("t").unwrap(), "an index makes another version");
        assert_eq!(txn.table_of_index("t_a").unwrap(), "t");
        txn.release(savepoint).unwrap();
        assert!(txn.rollback_to(savepoint).is_err(), "it was let go");
        assert_eq!(txn.describe("t").unwrap().indexes.len(), 1);
        assert_eq!(txn.tables().unwrap().len(), 1);
        txn.insert("t", &[Value::Int4(1)]).unwrap();
        drop(txn);
        assert_eq!(db.begin().tables().unwrap().len(), 0);
    }
}
