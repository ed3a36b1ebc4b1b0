//! A transaction as callers see it: statements on named tables.
//!
//! Invariants: every method is one statement: it succeeds or leaves nothing behind, and either way
//! the transaction goes on. The scans of a transaction end with it.
//! Does not do: retries (`Database::with_retry`).

use rightlink_env::Broken;
use std::time::Duration;

use rightlink_env::points::{broken, hit};
use rightlink_env::sync::{Arc, RwLock};

use crate::catalog::{Changes, ChangesMark, DdlStatement, Ending, Entry, Known};
use crate::datum::Value;
use crate::db::definition;
use crate::db::rows::{Alive, Rows, Scans};
use crate::db::scan::{self, ScanOptions};
use crate::db::{Handle, Row};
use crate::error::{ConflictKind, Error, Result};
use crate::ids::{Lsn, RowId};
use crate::table::{self, Busy, Projection, Statement, Table, TableIndex, Written};
use crate::txn::{self, LockMode, RowLock, RowVersion};
pub use crate::txn::{CancelHandle, Isolation};

/// Settings of a transaction.
///
/// ```
/// use rightlink::{Isolation, TransactionOptions};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// let isolation = Isolation::ReadCommitted;
/// let txn = db.begin_with(TransactionOptions { isolation, ..Default::default() });
/// # txn.commit()
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionOptions {
    /// Commits of others that its statements see. Default: snapshot isolation.
    pub isolation: Isolation,
    /// Commit without waiting for the log to be durable: a crash may lose the newest such commits,
    /// in order, never part of one. Default off.
    pub relaxed: bool,
    /// Longest wait for a lock, instead of the database's setting.
    pub lock_timeout: Option<Duration>,
    /// Read the index pages that a statement writes to one at a time, when their turn comes,
    /// instead of ahead and together: for measuring. Default off.
    pub serial_reads: bool,
}

/// A running transaction. Owned and `Send`; dropped without commit it rolls back. A statement that
/// fails leaves nothing behind and the transaction goes on.
///
/// ```
/// use rightlink::{TableSchema, Transaction, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # txn.commit()?;
/// let mut txn: Transaction = db.begin();
/// let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// txn.update("n", id, &[("b", Value::Int8(11))])?;
/// txn.commit()?;
/// let mut txn = db.begin();
/// assert_eq!(txn.get("n", &[Value::Int8(1)])?.unwrap().values[1], Value::Int8(11));
/// # Ok(())
/// # }
/// ```
pub struct Transaction {
    pub(super) handle: Arc<Handle>,
    pub(super) txn: Option<txn::Transaction>,
    pub(super) changes: Changes,
    /// Has a statement that changes definitions begun in it?
    has_defined: bool,
    savepoints: Vec<Mark>,
    /// Is it running? For its scans.
    is_running: Arc<RwLock<bool>>,
    pub(super) relaxed: bool,
    pub(super) serial_reads: bool,
    /// The time as of its first use, which stays the transaction's.
    now: Option<i64>,
    /// The tables that it used last.
    known: Vec<Known>,
    /// Does it give space back now, and may use the log that is left for that?
    pub(super) frees: bool,
}

/// A place in a transaction to roll back to.
///
/// ```
/// use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// let before = txn.savepoint();
/// txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// txn.rollback_to(before)?;
/// assert!(txn.get("n", &[Value::Int8(1)])?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Savepoint(pub(crate) txn::Savepoint);

/// A savepoint that was set, and what is to be undone with it besides rows.
struct Mark {
    savepoint: Savepoint,
    changes: ChangesMark,
    scans: Scans,
}

/// [`Transaction::freeing`] is under way.
struct Freeing<'t> {
    txn: &'t mut Transaction,
    before: bool,
}

impl Drop for Freeing<'_> {
    fn drop(&mut self) {
        self.txn.frees = self.before;
    }
}

impl Transaction {
    pub(crate) fn begin(handle: &Arc<Handle>, options: TransactionOptions) -> Self {
        let mut txn = handle.engine.txns.begin(options.isolation);
        txn.let_snapshots_expire();
        if options.lock_timeout.is_some() {
            txn.set_lock_timeout(options.lock_timeout);
        }
        Self {
            handle: Arc::clone(handle),
            txn: Some(txn),
            changes: Changes::default(),
            has_defined: false,
            savepoints: Vec::new(),
            is_running: Arc::new(RwLock::new(true)),
            relaxed: options.relaxed,
            serial_reads: options.serial_reads,
            now: None,
            known: Vec::new(),
            frees: false,
        }
    }

    /// Runs `work`, which gives space back, on a full disk, too: its statements may use what is
    /// left of the log for that. [`Transaction::delete`] and [`Transaction::drop_table`] do so by
    /// themselves; this is for work that deletes, empties or drops by other calls.
    pub fn freeing<T>(&mut self, work: impl FnOnce(&mut Transaction) -> T) -> T {
        let before = std::mem::replace(&mut self.frees, true);
        let freeing = Freeing { txn: self, before };
        work(freeing.txn)
    }

    /// Inserts a row, given by its values in column order.
    ///
    /// ```
    /// use rightlink::{TableSchema, Type, Value};
    /// # fn main() -> rightlink::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = rightlink::Database::open(dir.path())?;
    /// # let mut txn = db.begin();
    /// let schema = TableSchema::new("users").column("id", Type::Int8).column("mail", Type::Text);
    /// txn.create_table(&schema.primary_key(["id"]))?;
    /// let id = txn.insert("users", &[Value::Int8(1), Value::Text("a@example.org".into())])?;
    /// assert_eq!(txn.get("users", &[Value::Int8(1)])?.unwrap().id, id);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `UniqueViolation`, `NotNullViolation` and `CheckViolation`; `Invalid` for a value of another
    /// type than its column; `RowTooLarge`.
    pub fn insert(&mut self, table: &str, values: &[Value]) -> Result<RowId> {
        let entry = self.entry(table, LockMode::Write)?;
        entry.table.naming(entry.table.insert(&mut self.statement()?, values.to_vec()))
    }

    /// Inserts many rows as one statement: all or none. The fastest way in. Errors are those of
    /// [`Transaction::insert`]; [`Transaction::insert_into`] has options.
    pub fn insert_many(&mut self, table: &str, rows: &[Vec<Value>]) -> Result<Vec<RowId>> {
        let entry = self.entry(table, LockMode::Write)?;
        entry.table.naming(entry.table.insert_many(&mut self.statement()?, rows))
    }

    /// The time that defaults of this transaction take: microseconds since 1970-01-01 00:00 UTC, as
    /// of the first use.
    pub fn now(&mut self) -> i64 {
        let clock = &self.handle.engine.env.clock;
        *self.now.get_or_insert_with(|| clock.unix_micros())
    }

    /// The row with this primary key. Under snapshot isolation a transaction may see two: one that
    /// another transaction deleted since, and one that took its key, which it wrote itself. Then it
    /// is its own, which is the one that is there; a scan finds both.
    ///
    /// # Errors
    /// `Invalid` if the table has no primary key, or for another number of values.
    pub fn get(&mut self, table: &str, key: &[Value]) -> Result<Option<Row>> {
        let (entry, snapshot) = self.reading(table)?;
        let without = || Error::Invalid(format!("table {table} has no primary key"));
        let primary = entry.table.def().primary_key();
        let index = primary.and_then(|def| entry.table.index_by_id(def.id)).ok_or_else(without)?;
        self.first(&entry.table, index, key, &snapshot)
    }

    /// The first row of `key`, as the snapshot sees it.
    fn first(
        &mut self,
        table: &Arc<Table>,
        index: &Arc<TableIndex>,
        key: &[Value],
        snapshot: &Arc<txn::Snapshot>,
    ) -> Result<Option<Row>> {
        let row = table.naming(table.get(snapshot, index, key, table.all_columns()));
        snapshot.check()?;
        let Some(row) = row? else { return Ok(None) };
        let version = RowVersion { table: table.def().id, row: row.row_id };
        self.running()?.handed_out_only(version);
        Ok(Some(Row { id: row.row_id, values: row.values }))
    }

    /// The first row, in the index's order, whose key in `index` is `key`: a value for each key
    /// column. The shortest way to a row by any of its keys; a scan finds all rows of one. Of two
    /// rows under one unique key, as for [`Transaction::get`], it is this transaction's.
    ///
    /// ```
    /// # use rightlink::{Database, IndexSchema, TableSchema, Type, Value};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path()).unwrap();
    /// # let mut txn = db.begin();
    /// let schema = TableSchema::new("users").column("id", Type::Int8).column("mail", Type::Text);
    /// txn.create_table(&schema.index(IndexSchema::new("by_mail").on("mail"))).unwrap();
    /// txn.insert("users", &[Value::Int8(1), Value::Text("a@example.org".into())]).unwrap();
    /// let found = txn.get_by("users", "by_mail", &[Value::Text("a@example.org".into())]).unwrap();
    /// assert_eq!(found.unwrap().values[0], Value::Int8(1));
    /// ```
    ///
    /// # Errors
    /// `NotFound` if the table has no such index, `Invalid` for another number of values.
    pub fn get_by(&mut self, table: &str, index: &str, key: &[Value]) -> Result<Option<Row>> {
        let (entry, snapshot) = self.reading(table)?;
        self.first(&entry.table, entry.table.index(index)?, key, &snapshot)
    }

    /// The row whose key in the unique index `index` is `key` (a value for each key column, none of
    /// them null), with the values of the columns at the places `columns` alone, in their order:
    /// what is not asked for is not read. Under snapshot isolation two rows where the transaction
    /// sees two: one that another transaction deleted since, and one that took its key, which this
    /// transaction wrote.
    ///
    /// # Errors
    /// `NotFound` if the table has no such index, `Invalid` if it is not unique, for another number
    /// of values, and for a place that the table has not.
    pub fn rows_of_key(
        &mut self,
        table: &str,
        index: &str,
        key: &[Value],
        columns: &[usize],
    ) -> Result<[Option<Row>; 2]> {
        let (entry, snapshot) = self.reading(table)?;
        let projection = Arc::new(Projection::at(entry.table.def(), columns)?);
        let index = entry.table.index(index)?;
        if !index.is_whole_unique(key) {
            return Err(Error::Invalid("one row is found by a whole key of a unique index".into()));
        }
        let rows = entry.table.rows_of_key(&snapshot, index, key, &projection);
        let rows = entry.table.naming(rows);
        snapshot.check()?;
        let row = |row: table::Row| Row { id: row.row_id, values: row.values };
        let rows = rows?.map(|found| found.map(row));
        if let [Some(row), None] = &rows {
            let version = RowVersion { table: entry.table.def().id, row: row.id };
            self.running()?.handed_out_only(version);
        }
        Ok(rows)
    }

    /// The rows of many keys of `index`, or of prefixes of its keys, all of one snapshot: in the
    /// place of each key its rows, none where there is none. Leaves and heap pages of all keys are
    /// read ahead and together, each once. A key that is named twice has its rows twice.
    ///
    /// # Errors
    /// `NotFound` if the table has no such index, `Invalid` for a key with more values than the
    /// index has key columns.
    pub fn fetch_many(
        &mut self,
        table: &str,
        index: &str,
        keys: &[Vec<Value>],
    ) -> Result<Vec<Vec<Row>>> {
        let (entry, snapshot) = self.reading(table)?;
        let index = entry.table.index(index)?;
        let all = entry.table.all_columns();
        let found = entry.table.fetch_many(&snapshot, index, keys, all);
        snapshot.check()?;
        let rows = |rows: Vec<table::Row>| {
            rows.into_iter().map(|row| Row { id: row.row_id, values: row.values }).collect()
        };
        Ok(entry.table.naming(found)?.into_iter().map(rows).collect())
    }

    /// The rows that `options` choose, of one snapshot.
    ///
    /// ```
    /// use rightlink::{ScanOptions, TableSchema, Type, Value};
    /// # fn main() -> rightlink::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = rightlink::Database::open(dir.path())?;
    /// # let mut txn = db.begin();
    /// txn.create_table(&TableSchema::new("n").column("a", Type::Int8).primary_key(["a"]))?;
    /// txn.insert_many("n", &[vec![Value::Int8(2)], vec![Value::Int8(1)]])?;
    /// let mut rows = txn.scan("n", &ScanOptions::index("n_pkey"))?;
    /// assert_eq!(rows.next().unwrap()?.values, [Value::Int8(1)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` if there is no such table, index or column. `Invalid` for bounds that do not fit
    /// the key, for bounds without an index, and for options that exclude each other.
    pub fn scan(&mut self, table: &str, options: &ScanOptions) -> Result<Rows> {
        let (entry, snapshot) = match options.latest {
            false => self.reading(table)?,
            true => (self.entry(table, LockMode::Access)?, self.running()?.latest_snapshot()),
        };
        entry.table.naming(scan::start(&self.alive(), &entry, &snapshot, options))
    }

    /// Sets columns of the row at `id`. False if the row is gone. Under snapshot isolation a row
    /// that another transaction changed since is a retryable conflict; under read committed its
    /// newest version is updated.
    ///
    /// A row id comes from a statement of this transaction and names its row through all changes of
    /// it: of an inserted row always, of one that was read for the whole transaction under snapshot
    /// isolation, until the next `get` or `scan` under read committed. One that is kept longer may
    /// have become another row's.
    ///
    /// # Errors
    /// The errors of [`Transaction::insert`], `NotFound` for a column that the table does not have,
    /// and `Conflict`.
    pub fn update(&mut self, table: &str, id: RowId, set: &[(&str, Value)]) -> Result<bool> {
        let entry = self.entry(table, LockMode::Write)?;
        let assignments = definition::assignments(set, entry.table.def())?;
        let mut change = |old: &[Value]| Ok(Some(definition::assigned(old, &assignments)));
        let only: Vec<usize> = assignments.iter().map(|(at, _)| *at).collect();
        let mut statement = self.statement()?;
        statement.read_no_more();
        let written = entry.table.update_only(&mut statement, id, &only, &mut change);
        drop(statement);
        let written = entry.table.naming(written)?;
        Ok(matches!(written, Written::Done(_)))
    }

    /// Deletes the row at `id`. False if it is gone.
    ///
    /// # Errors
    /// `Conflict`, as for [`Transaction::update`].
    pub fn delete(&mut self, table: &str, id: RowId) -> Result<bool> {
        let entry = self.entry(table, LockMode::Write)?;
        let written = self.freeing(|txn| {
            let mut statement = txn.statement()?;
            statement.read_no_more();
            Ok(entry.table.remove(&mut statement, id))
        });
        let written = entry.table.naming(written?)?;
        Ok(matches!(written, Written::Done(_)))
    }

    /// Locks the row at `id` until the end of the transaction, or until a savepoint before this is
    /// rolled back to; others may have it likewise as [`RowLock`] says. Who wants more waits for
    /// all who share it, and those who share it pass by him. False if it is gone, or left out.
    ///
    /// ```
    /// use rightlink::{Busy, Database, RowLock, TableSchema, Type, Value};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path()).unwrap();
    /// let mut txn = db.begin();
    /// txn.create_table(&TableSchema::new("rate").column("id", Type::Int8)).unwrap();
    /// let id = txn.insert("rate", &[Value::Int8(1)]).unwrap();
    /// txn.commit().unwrap();
    /// let (mut one, mut two) = (db.begin(), db.begin());
    /// assert!(one.lock_row("rate", id, RowLock::Shared, Busy::Wait).unwrap());
    /// assert!(two.lock_row("rate", id, RowLock::Shared, Busy::Wait).unwrap());
    /// assert!(two.lock_row("rate", id, RowLock::Exclusive, Busy::Fail).is_err());
    /// ```
    ///
    /// # Errors
    /// A retryable conflict of kind `RowLocked` with [`Busy::Fail`]. `Limit` when more than 131,072
    /// different sets of statements share rows.
    pub fn lock_row(&mut self, table: &str, id: RowId, lock: RowLock, busy: Busy) -> Result<bool> {
        let entry = self.entry(table, LockMode::Write)?;
        let written = entry.table.lock_row(&mut self.statement()?, id, None, lock, busy);
        let written = entry.table.naming(written)?;
        Ok(matches!(written, Written::Done(_)))
    }

    /// Marks a place for [`Transaction::rollback_to`].
    pub fn savepoint(&mut self) -> Savepoint {
        let txn = self.txn.as_mut().expect("the transaction runs until it is consumed");
        let savepoint = Savepoint(txn.savepoint());
        let (changes, scans) = (self.changes.mark(), Scans::default());
        self.savepoints.push(Mark { savepoint, changes, scans });
        savepoint
    }

    /// The place of `savepoint` among those that are set.
    fn place_of(&self, savepoint: Savepoint) -> Result<usize> {
        let found = self.savepoints.iter().position(|mark| mark.savepoint == savepoint);
        let gone = || Error::Invalid("a savepoint of this transaction that is not there".into());
        found.ok_or_else(gone)
    }

    /// Undoes everything since `savepoint`, which stays usable. Scans that began since end, with an
    /// error; those that began before `savepoint` was set go on.
    ///
    /// # Errors
    /// `Invalid` if the savepoint is not one of this transaction, was released, or was undone.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let at = self.place_of(savepoint)?;
        self.running()?;
        // Before anything is undone that they may see.
        self.savepoints[at..].iter().for_each(|mark| mark.scans.end());
        self.running()?.rollback_to(savepoint.0)?;
        self.savepoints.truncate(at + 1);
        self.savepoints[at].scans = Scans::default();
        self.changes.rollback_to(&self.savepoints[at].changes);
        Ok(())
    }

    /// Forgets `savepoint` and those after it; what was done since stays.
    ///
    /// # Errors
    /// `Invalid`, as for [`Transaction::rollback_to`].
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        let at = self.place_of(savepoint)?;
        self.running()?.release(savepoint.0)?;
        let released = self.savepoints.split_off(at);
        if let Some(mark) = self.savepoints.last_mut() {
            released.into_iter().for_each(|later| mark.scans.take_over(later.scans));
        }
        Ok(())
    }

    /// A handle with which another thread can end a wait of this transaction.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.txn.as_ref().expect("the transaction runs until it is consumed").cancel_handle()
    }

    /// Commits. When it returns `Ok` and the transaction is not relaxed, the change survives any
    /// crash.
    ///
    /// # Errors
    /// Any error but `Poisoned` means that nothing of the transaction stays; after `Poisoned` it is
    /// not known whether it does, until the database is opened again.
    pub fn commit(mut self) -> Result<()> {
        self.end_scans();
        let txn = self.txn.take().expect("the transaction runs until it is consumed");
        // Files that a definition lets go are removed after the commit is durable.
        let relaxed = self.relaxed && self.changes.is_empty();
        let committed = txn.commit(relaxed);
        if relaxed && committed.as_ref().is_ok_and(|lsn| *lsn > Lsn(0)) {
            // The flush thread is awake to make it durable in time.
            self.handle.engine.upkeep.idle.end_rests();
        }
        let result = committed.map(|_| ());
        let ending = match &result {
            Ok(()) => Ending::Committed,
            Err(Error::Poisoned(_)) => Ending::Unknown,
            Err(_) => Ending::RolledBack,
        };
        self.settle(ending);
        result
    }

    /// Rolls back, as dropping the transaction does.
    pub fn rollback(self) {}

    /// Has it changed definitions, or tried to?
    pub fn has_defined(&self) -> bool {
        self.has_defined
    }

    /// Runs a statement that changes definitions.
    pub(super) fn define(
        &mut self,
        work: impl FnOnce(&mut DdlStatement<'_>) -> Result<()>,
    ) -> Result<()> {
        self.handle.engine.check_open()?;
        self.admit()?;
        let engine = &self.handle.engine;
        self.has_defined = true;
        let txn = self.txn.as_mut().expect("the transaction runs until it is consumed");
        let mut ddl = engine.catalog.ddl(txn, &mut self.changes, engine.build_options())?;
        work(&mut ddl)?;
        ddl.finish()
    }

    /// As [`Transaction::define`], of a change that gives space back.
    pub(super) fn define_freeing(
        &mut self,
        work: impl FnOnce(&mut DdlStatement<'_>) -> Result<()>,
    ) -> Result<()> {
        self.freeing(|txn| txn.define(work))
    }

    /// What the scans of this transaction ask whether it still runs.
    pub(super) fn alive(&mut self) -> Alive {
        Alive::new(&self.is_running, self.savepoints.last_mut().map(|mark| mark.scans.undone()))
    }

    pub(super) fn running(&mut self) -> Result<&mut txn::Transaction> {
        self.handle.engine.check_open()?;
        Ok(self.txn.as_mut().expect("the transaction runs until it is consumed"))
    }

    /// A table and what a statement sees that reads it. The table is the one that those kept up
    /// whom the snapshot sees: an index that was built anew before it has taken its place.
    fn reading(&mut self, table: &str) -> Result<(Arc<Entry>, Arc<txn::Snapshot>)> {
        loop {
            let edition = self.edition();
            let entry = self.entry(table, LockMode::Access)?;
            hit("read.resolved");
            let snapshot = self.running()?.begin_read()?;
            if self.edition() == edition || broken(Broken::DefinitionOlderThanSnapshot) {
                return Ok((entry, snapshot));
            }
        }
    }

    /// Which edition of the names of tables this is.
    pub(super) fn edition(&self) -> u64 {
        self.handle.engine.catalog.edition()
    }

    pub(super) fn entry(&mut self, table: &str, mode: LockMode) -> Result<Arc<Entry>> {
        self.handle.engine.check_open()?;
        let txn = self.txn.as_mut().expect("the transaction runs until it is consumed");
        let catalog = &self.handle.engine.catalog;
        let entry = catalog.resolve_again(txn, &self.changes, table, mode, &mut self.known)?;
        if let Some(by) = entry.table.heap().written_by()
            && !txn.will_see(by)?
        {
            let what = format!("table {table} was rewritten after this transaction's snapshot");
            let error = Error::Conflict { kind: ConflictKind::Serialization, what };
            return Err(txn.manager().count_conflict(error));
        }
        Ok(entry)
    }

    /// Is there log space for a statement that writes?
    pub(super) fn admit(&self) -> Result<()> {
        let engine = &self.handle.engine;
        if self.frees { engine.admit_freeing() } else { engine.admit() }
    }

    /// Begins a statement that writes: there must be log space for it.
    pub(super) fn statement(&mut self) -> Result<Statement<'_>> {
        self.admit()?;
        let serial = self.serial_reads;
        let mut statement = Statement::begin(self.running()?)?;
        if serial {
            statement.read_serially();
        }
        Ok(statement)
    }

    pub(super) fn end_scans(&self) {
        *self.is_running.write() = false;
    }

    /// Lets go of the files that the outcome leaves without a table. What cannot be removed changes
    /// nothing about the outcome: it belongs to no table, and the next opening removes it.
    pub(super) fn settle(&mut self, ending: Ending) {
        let changes = std::mem::take(&mut self.changes);
        if changes.leaves_nothing() {
            return;
        }
        let engine = &self.handle.engine;
        if let Err(error) = engine.catalog.end_changes(changes, ending) {
            engine.env.logger.warn(&format!("files that no table owns stay for now: {error}"));
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let Some(txn) = self.txn.take() else { return };
        self.end_scans();
        txn.rollback();
        self.settle(Ending::RolledBack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_can_be_sent_to_another_thread() {
        fn sendable<T: Send + 'static>() {}
        sendable::<Transaction>();
    }
    #[test]
    fn columns_of_one_row_come_in_the_order_asked_for() {
        use crate::{Database, TableSchema, Type};
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let mut txn = db.begin();
        let schema = TableSchema::new("t").column("a", Type::Int8).column("b", Type::Text);
        txn.create_table(&schema.primary_key(["a"])).unwrap();
        let (one, text) = (Value::Int8(1), Value::Text("one".into()));
        txn.insert("t", &[one.clone(), text.clone()]).unwrap();
        let key = std::slice::from_ref(&one);
        let mut get = |columns: &[usize]| {
            let [row, second] = txn.rows_of_key("t", "t_pkey", key, columns)?;
            assert_eq!(second, None);
            Ok::<_, Error>(row.map(|row| row.values))
        };
        assert_eq!(get(&[1, 0, 1]).unwrap(), Some(vec![text.clone(), one.clone(), text]));
        assert_eq!(get(&[]).unwrap(), Some(Vec::new()));
        assert_eq!(get(&[0]).unwrap(), Some(vec![one.clone()]), "from the index alone");
        assert!(matches!(get(&[2]), Err(Error::Invalid(_))));
        let none = txn.rows_of_key("t", "t_pkey", &[Value::Int8(2)], &[0]);
        assert_eq!(none.unwrap(), [None, None]);
        txn.commit().unwrap();
        assert!(db.verify().unwrap().is_clean());
    }
}
