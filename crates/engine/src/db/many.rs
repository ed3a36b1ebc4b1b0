//! Statements that write many rows: inserts with options, updates and deletes, and the rows that
//! they wrote.
//!
//! Invariants: each is one statement: all or nothing.
//! Does not do: choosing rows (scans do).

use std::borrow::Cow;
use std::cell::RefCell;

use rightlink_env::sync::Arc;

use crate::catalog::Entry;
use crate::datum::Value;
use crate::db::fill::Filler;
use crate::db::transaction::Transaction;
use crate::db::writer::Writer;
use crate::db::{Row, definition};
use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::table::schema::TableDef;
use crate::table::{BulkUpdate, Merge, Statement, Table, Upserted, Wanted};
use crate::txn::LockMode;

/// The unique indexes that decide whether a row is there already: see [`Insert::or_skip`] and
/// [`Insert::or_update`].
///
/// ```
/// use rightlink::{OnConflict, TableSchema, Type, Upserted, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// txn.create_table(&TableSchema::new("tag").column("name", Type::Text).primary_key(["name"]))?;
/// let id = txn.insert("tag", &[Value::Text("red".into())])?;
/// let rows = [vec![Value::Text("red".into())]];
/// for on in [OnConflict::Any, OnConflict::Columns(&["name"]), OnConflict::Index("tag_pkey")] {
///     assert_eq!(txn.insert_into("tag").or_skip(on, &rows)?, [Upserted::Untouched(id)]);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnConflict<'a> {
    /// All unique indexes. A row that meets several others counts as meeting that of the first
    /// index.
    Any,
    /// The unique indexes of all rows that have exactly these key columns, in any order.
    Columns(&'a [&'a str]),
    /// The unique index of this name.
    Index(&'a str),
}

/// A row that a statement changed: see [`Transaction::update_returning`].
///
/// ```
/// use rightlink::{Changed, TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// txn.create_table(&TableSchema::new("n").column("a", Type::Int8))?;
/// let id = txn.insert("n", &[Value::Int8(1)])?;
/// let changed: Vec<Changed> = txn.update_returning("n", &[id], &[("a", Value::Int8(2))])?;
/// assert_eq!(changed[0].old, [Value::Int8(1)]);
/// assert_eq!(changed[0].new, Some(vec![Value::Int8(2)]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// The version that stands for the row now, or stood for it when it was deleted.
    pub id: RowId,
    /// Values of the row before the statement, in column order.
    pub old: Vec<Value>,
    /// Values of the row after the statement. `None`: the row was deleted.
    pub new: Option<Vec<Value>>,
}

/// An insert with options: made by [`Transaction::insert_into`]. [`Insert::columns`] says what is
/// given; one of the other methods carries the insert out, as one statement: all rows or none.
///
/// ```
/// use rightlink::{ColumnSchema, OnConflict, TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// let id = ColumnSchema::new("id", Type::Int8).generated();
/// let schema = TableSchema::new("note").with_column(id).column("body", Type::Text);
/// txn.create_table(&schema.primary_key(["id"]))?;
/// let body = vec![Value::Text("to do".into())];
/// txn.insert_into("note").columns(&["body"]).rows(&[body.clone(), body.clone()])?;
/// let third = &txn.insert_into("note").columns(&["body"]).returning(&[body])?[0];
/// assert_eq!(third.values[0], Value::Int8(3));
/// let again = [third.values.clone()];
/// txn.insert_into("note").or_skip(OnConflict::Any, &again)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is inserted before one of its last calls"]
pub struct Insert<'t> {
    txn: &'t mut Transaction,
    table: &'t str,
    columns: Option<&'t [&'t str]>,
}

/// Whole rows: the rows of the caller, or copies that defaults completed.
type StoredRows<'r> = Cow<'r, [Vec<Value>]>;

impl<'t> Insert<'t> {
    /// The rows have values of these columns, in their order. The other columns get what
    /// [`ColumnSchema::default`] or [`ColumnSchema::generated`] says. Without this call, rows have
    /// values of all columns.
    ///
    /// [`ColumnSchema::default`]: crate::ColumnSchema::default
    /// [`ColumnSchema::generated`]: crate::ColumnSchema::generated
    pub fn columns(self, columns: &'t [&'t str]) -> Self {
        Self { columns: Some(columns), ..self }
    }

    /// Inserts the rows, and returns their ids in the order of `rows`.
    ///
    /// # Errors
    /// The errors of [`Transaction::insert`]; `Invalid` for values of a column that is always
    /// generated, and `Limit` if a sequence has no numbers left.
    pub fn rows(self, rows: &[Vec<Value>]) -> Result<Vec<RowId>> {
        self.insert(rows).map(|(ids, _)| ids)
    }

    /// As [`Insert::rows`], but returns each row as it was stored, with its defaults and numbers.
    pub fn returning(self, rows: &[Vec<Value>]) -> Result<Vec<Row>> {
        let (ids, rows) = self.insert(rows)?;
        let rows = ids.into_iter().zip(rows.into_owned());
        Ok(rows.map(|(id, values)| Row { id, values }).collect())
    }

    /// Inserts the rows whose keys are free in the indexes that `on` means, and leaves the others
    /// out.
    ///
    /// # Errors
    /// As of [`Insert::or_update`].
    pub fn or_skip(self, on: OnConflict<'_>, rows: &[Vec<Value>]) -> Result<Vec<Upserted>> {
        self.put(on, rows, None)
    }

    /// Inserts each row, or lets `merge` change the row that has its key in an index that `on`
    /// means. The result says what became of each row, in the order of `rows`. When several
    /// transactions propose a key at a time, one inserts it and the others change that row.
    ///
    /// ```
    /// use rightlink::{OnConflict, TableSchema, Type, Value};
    /// # fn main() -> rightlink::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = rightlink::Database::open(dir.path())?;
    /// # let mut txn = db.begin();
    /// let schema = TableSchema::new("hits").column("page", Type::Text).column("n", Type::Int8);
    /// txn.create_table(&schema.primary_key(["page"]))?;
    /// let hit = [vec![Value::Text("/".into()), Value::Int8(1)]];
    /// let mut count = |old: &[Value], new: &[Value]| match (&old[1], &new[1]) {
    ///     (Value::Int8(a), Value::Int8(b)) => Ok(Some(vec![old[0].clone(), Value::Int8(a + b)])),
    ///     _ => Ok(None),
    /// };
    /// for _ in 0..3 {
    ///     txn.insert_into("hits").or_update(OnConflict::Any, &hit, &mut count)?;
    /// }
    /// let row = txn.get("hits", &[Value::Text("/".into())])?.unwrap();
    /// assert_eq!(row.values[1], Value::Int8(3));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` if `on` means no unique index; `KeyTwice` if two of the rows have the same key
    /// (`merge` does not get those); `UniqueViolation` in other indexes; under snapshot isolation a
    /// retryable conflict if a row with the key was committed since.
    pub fn or_update(
        self,
        on: OnConflict<'_>,
        rows: &[Vec<Value>],
        merge: Merge<'_>,
    ) -> Result<Vec<Upserted>> {
        self.put(on, rows, Some(merge))
    }

    /// The ids of the rows, and the rows as they were stored.
    fn insert(mut self, rows: &[Vec<Value>]) -> Result<(Vec<RowId>, StoredRows<'_>)> {
        let entry = self.entry()?;
        let (rows, mut statement) = self.fill(&entry, rows)?;
        let ids = entry.table.naming(entry.table.insert_many(&mut statement, &rows))?;
        Ok((ids, rows))
    }

    fn put(
        mut self,
        on: OnConflict<'_>,
        rows: &[Vec<Value>],
        merge: Option<Merge<'_>>,
    ) -> Result<Vec<Upserted>> {
        let entry = self.entry()?;
        let arbiters = arbiters(entry.table.def(), on)?;
        let (rows, mut statement) = self.fill(&entry, rows)?;
        let done = entry.table.upsert_many(&mut statement, &rows, &arbiters, merge);
        entry.table.naming(done)
    }

    fn entry(&mut self) -> Result<Arc<Entry>> {
        self.txn.entry(self.table, LockMode::Write)
    }

    /// Begins the statement, and makes whole rows from those that are given.
    fn fill<'r>(
        &mut self,
        entry: &Entry,
        rows: &'r [Vec<Value>],
    ) -> Result<(StoredRows<'r>, Statement<'_>)> {
        let Some(columns) = self.columns else {
            return Ok((Cow::Borrowed(rows), self.txn.statement()?));
        };
        let now = self.txn.now();
        let handle = Arc::clone(&self.txn.handle);
        let mut statement = self.txn.statement()?;
        let filler = Filler { engine: &handle.engine, def: entry.table.def(), now };
        let rows = filler.fill(statement.txn(), columns, rows)?;
        Ok((Cow::Owned(rows), statement))
    }
}

/// Places of the indexes of `def` that `on` means.
fn arbiters(def: &TableDef, on: OnConflict<'_>) -> Result<Vec<usize>> {
    let mut wanted: Vec<_> = match on {
        OnConflict::Columns(names) => {
            names.iter().map(|name| def.column_no(name)).collect::<Result<_>>()?
        }
        OnConflict::Index(name) => def.index(name).map(|_| Vec::new())?,
        OnConflict::Any => Vec::new(),
    };
    wanted.sort_unstable();
    let mut found = Vec::new();
    for (at, index) in def.indexes.iter().enumerate().filter(|(_, index)| index.unique) {
        let mut key: Vec<_> = index.columns.iter().map(|part| part.column).collect();
        key.sort_unstable();
        let meant = match on {
            OnConflict::Any => true,
            OnConflict::Columns(_) => key == wanted && index.predicate.is_none(),
            OnConflict::Index(name) => index.name == name,
        };
        if meant {
            found.push(at);
        }
    }
    if found.is_empty() {
        let table = &def.name;
        return Err(Error::Invalid(format!("no unique index of table {table} is that of {on:?}")));
    }
    Ok(found)
}

impl Transaction {
    /// An insert with options, which one of [`Insert`]'s last calls carries out.
    pub fn insert_into<'t>(&'t mut self, table: &'t str) -> Insert<'t> {
        Insert { txn: self, table, columns: None }
    }

    /// Sets columns of the rows at `ids` as one statement: all or none. Returns how many were
    /// there. Their pages, and those of all indexes, are read ahead.
    ///
    /// # Errors
    /// The errors of [`Transaction::update`].
    pub fn update_many(
        &mut self,
        table: &str,
        ids: &[RowId],
        set: &[(&str, Value)],
    ) -> Result<u64> {
        self.update_rows(table, ids, set, None)
    }

    /// As [`Transaction::update_many`], but returns each row as it was and as it is now, in the
    /// order of the table.
    pub fn update_returning(
        &mut self,
        table: &str,
        ids: &[RowId],
        set: &[(&str, Value)],
    ) -> Result<Vec<Changed>> {
        let mut changed = Vec::new();
        self.update_rows(table, ids, set, Some(&mut changed)).map(|_| changed)
    }

    fn update_rows(
        &mut self,
        table: &str,
        ids: &[RowId],
        set: &[(&str, Value)],
        mut changed: Option<&mut Vec<Changed>>,
    ) -> Result<u64> {
        let entry = self.entry(table, LockMode::Write)?;
        let assignments = definition::assignments(set, entry.table.def())?;
        let (returns, last) = (changed.is_some(), RefCell::new(None));
        let mut change = |old: &[Value]| {
            let new = definition::assigned(old, &assignments);
            if returns {
                last.replace(Some((old.to_vec(), new.clone())));
            }
            Ok(Some(new))
        };
        let mut done = |id| {
            if let Some(changed) = &mut changed {
                let (old, new) = last.take().expect("the row was made before it was written");
                changed.push(Changed { id, old, new: Some(new) });
            }
        };
        let only: Vec<usize> = assignments.iter().map(|(at, _)| *at).collect();
        let (handle, frees) = (Arc::clone(&self.handle), self.frees);
        let mut go_on = || handle.engine.admit_more(frees);
        let mut statement = self.statement()?;
        let only = (!returns).then_some(&only[..]);
        let (change, go_on, done) = (&mut change, &mut go_on, &mut done);
        let update = BulkUpdate { only, change, go_on, done };
        let written = entry.table.update_many(&mut statement, ids, update);
        entry.table.naming(written)
    }

    /// Deletes the rows at `ids` as one statement. Returns how many were there.
    ///
    /// # Errors
    /// The errors of [`Transaction::delete`].
    pub fn delete_many(&mut self, table: &str, ids: &[RowId]) -> Result<u64> {
        self.delete_rows(table, ids, None)
    }

    /// As [`Transaction::delete_many`], but returns each row as it was, in the order of the table.
    pub fn delete_returning(&mut self, table: &str, ids: &[RowId]) -> Result<Vec<Changed>> {
        let mut changed = Vec::new();
        self.delete_rows(table, ids, Some(&mut changed)).map(|_| changed)
    }

    fn delete_rows(
        &mut self,
        table: &str,
        ids: &[RowId],
        mut changed: Option<&mut Vec<Changed>>,
    ) -> Result<u64> {
        let entry = self.entry(table, LockMode::Write)?;
        let (returns, last) = (changed.is_some(), RefCell::new(None));
        let mut wanted = |old: &[Value]| {
            last.replace(Some(old.to_vec()));
            Ok(true)
        };
        let mut done = |id| {
            if let Some(changed) = &mut changed {
                let old = last.take().expect("the row was looked at before it was deleted");
                changed.push(Changed { id, old, new: None });
            }
        };
        let handle = Arc::clone(&self.handle);
        let mut go_on = || handle.engine.admit_more(true);
        self.freeing(|txn| {
            let mut statement = txn.statement()?;
            let wanted = returns.then_some(&mut wanted as Wanted<'_>);
            let (table, go_on, done) = (&entry.table, &mut go_on, &mut done);
            let written = table.delete_many(&mut statement, ids, wanted, go_on, done);
            entry.table.naming(written)
        })
    }
}

impl Writer<'_> {
    /// Inserts each row, or lets `merge` change the row that has its key in an index that `on`
    /// means; without `merge`, that row stays as it is. See [`Insert::or_update`].
    pub fn upsert(
        &mut self,
        on: OnConflict<'_>,
        rows: &[Vec<Value>],
        merge: Option<Merge<'_>>,
    ) -> Result<Vec<Upserted>> {
        let table: Arc<Table> = Arc::clone(&self.entry.table);
        self.writing(false, |writer| {
            let arbiters = arbiters(table.def(), on)?;
            writer.finish_updates()?;
            table.naming(table.upsert_many(&mut writer.statement, rows, &arbiters, merge))
        })
    }
}
