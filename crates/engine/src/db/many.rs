//! Statements that write many rows: inserting or changing, updating and deleting, and what they
//! did.
//!
//! Invariants: each is one statement: all or nothing.
//! Does not do: choosing rows (scans do).

use std::cell::RefCell;

use rightlink_env::sync::Arc;

use crate::datum::Value;
use crate::db::transaction::Transaction;
use crate::db::writer::Writer;
use crate::db::{Row, draft};
use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::table::schema::TableDef;
use crate::table::{Change, Done, GoOn, Merge, Table, Upserted, Wanted};
use crate::txn::LockMode;

/// Which unique indexes say that a row is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnConflict<'a> {
    /// Any. A row that several others are in the way of meets the one of the first index.
    Any,
    /// Those with exactly these key columns, in any order, that hold all rows.
    Columns(&'a [&'a str]),
    /// The one of this name.
    Index(&'a str),
}

/// A row that a statement changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// The version that stands for the row now, or stood for it when it was deleted.
    pub id: RowId,
    /// The row before.
    pub old: Vec<Value>,
    /// The row now; `None`: it was deleted.
    pub new: Option<Vec<Value>>,
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

/// `old` with other values at some places.
fn assigned(old: &[Value], assignments: &[(usize, Value)]) -> Vec<Value> {
    let mut new = old.to_vec();
    for (at, value) in assignments {
        new[*at] = value.clone();
    }
    new
}

impl Transaction {
    /// Inserts each row (values in column order), or lets `merge` change the row that has its key
    /// in an index that `on` means. What became of each, in order. When several transactions
    /// propose a key at a time, one inserts it and the others change that row.
    ///
    /// ```
    /// # use rightlink::{Database, OnConflict, TableSchema, Type, Upserted, Value};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path()).unwrap();
    /// # let mut txn = db.begin();
    /// let schema = TableSchema::new("hits").column("page", Type::Text).column("n", Type::Int8);
    /// txn.create_table(&schema.primary_key(["page"])).unwrap();
    /// let hit = [vec![Value::Text("/".into()), Value::Int8(1)]];
    /// let mut count = |old: &[Value], new: &[Value]| match (&old[1], &new[1]) {
    ///     (Value::Int8(a), Value::Int8(b)) => Ok(Some(vec![old[0].clone(), Value::Int8(a + b)])),
    ///     _ => Ok(None),
    /// };
    /// for _ in 0..3 {
    ///     let _ = txn.upsert("hits", OnConflict::Columns(&["page"]), &hit, &mut count).unwrap();
    /// }
    /// let row = txn.get("hits", &[Value::Text("/".into())]).unwrap().unwrap();
    /// assert_eq!(row.values[1], Value::Int8(3));
    /// ```
    ///
    /// # Errors
    /// `Invalid` if no unique index is meant, or two of the rows have the same key (`merge` is not
    /// asked about those); `UniqueViolation` in other indexes; under snapshot isolation a
    /// retryable conflict if a row with the key was committed since.
    pub fn upsert(
        &mut self,
        table: &str,
        on: OnConflict<'_>,
        rows: &[Vec<Value>],
        merge: Merge<'_>,
    ) -> Result<Vec<Upserted>> {
        self.put(table, on, rows, Some(merge))
    }

    fn put(
        &mut self,
        table: &str,
        on: OnConflict<'_>,
        rows: &[Vec<Value>],
        merge: Option<Merge<'_>>,
    ) -> Result<Vec<Upserted>> {
        let entry = self.entry(table, LockMode::Write)?;
        let arbiters = arbiters(entry.table.def(), on)?;
        let done = entry.table.upsert_many(&mut self.statement()?, rows, &arbiters, merge);
        entry.table.naming(done)
    }

    /// Inserts the rows whose keys nobody has; the others are left alone.
    pub fn insert_or_skip(
        &mut self,
        table: &str,
        on: OnConflict<'_>,
        rows: &[Vec<Value>],
    ) -> Result<Vec<Upserted>> {
        self.put(table, on, rows, None)
    }

    /// As [`Transaction::insert_columns`]; each row as it went in, with what defaults and sequences
    /// gave it, in the order of `rows`.
    ///
    /// ```
    /// # use rightlink::{ColumnSchema, Database, TableSchema, Type, Value};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path()).unwrap();
    /// # let mut txn = db.begin();
    /// let id = ColumnSchema::new("id", Type::Int8).generated();
    /// let schema = TableSchema::new("note").with_column(id).column("body", Type::Text);
    /// txn.create_table(&schema).unwrap();
    /// let body = Value::Text("to do".into());
    /// let notes = txn.insert_returning("note", &["body"], &[vec![body.clone()]]).unwrap();
    /// assert_eq!(notes[0].values, [Value::Int8(1), body]);
    /// ```
    pub fn insert_returning(
        &mut self,
        table: &str,
        columns: &[&str],
        rows: &[Vec<Value>],
    ) -> Result<Vec<Row>> {
        let (ids, rows) = self.insert_filled(table, columns, rows)?;
        Ok(ids.into_iter().zip(rows).map(|(id, values)| Row { id, values }).collect())
    }

    /// Sets columns of the rows at `ids` as one statement: all or none. Returns how many were
    /// there. Their pages, and those of all indexes, are read ahead.
    pub fn update_many(
        &mut self,
        table: &str,
        ids: &[RowId],
        set: &[(&str, Value)],
    ) -> Result<u64> {
        let entry = self.entry(table, LockMode::Write)?;
        let assignments = draft::assignments(set, entry.table.def())?;
        let mut change = |old: &[Value]| Ok(Some(assigned(old, &assignments)));
        let only: Vec<usize> = assignments.iter().map(|(at, _)| *at).collect();
        let (handle, frees) = (Arc::clone(&self.handle), self.frees);
        let mut go_on = || handle.engine.admit_more(frees);
        let mut statement = self.statement()?;
        let change = (Some(&only[..]), &mut change as Change<'_>);
        let how = (&mut go_on as GoOn<'_>, &mut (|_| {}) as Done<'_>);
        let written = entry.table.update_many(&mut statement, ids, change, how);
        entry.table.naming(written)
    }

    /// As [`Transaction::update_many`]; each row as it was and as it is now, in the order of the
    /// table.
    pub fn update_returning(
        &mut self,
        table: &str,
        ids: &[RowId],
        set: &[(&str, Value)],
    ) -> Result<Vec<Changed>> {
        let entry = self.entry(table, LockMode::Write)?;
        let assignments = draft::assignments(set, entry.table.def())?;
        let (last, mut changed) = (RefCell::new(None), Vec::new());
        let mut change = |old: &[Value]| {
            let new = assigned(old, &assignments);
            last.replace(Some((old.to_vec(), new.clone())));
            Ok(Some(new))
        };
        let mut done = |id| {
            let (old, new) = last.take().expect("the row was made before it was written");
            changed.push(Changed { id, old, new: Some(new) });
        };
        let (handle, frees) = (Arc::clone(&self.handle), self.frees);
        let mut go_on = || handle.engine.admit_more(frees);
        let mut statement = self.statement()?;
        let change = (None, &mut change as Change<'_>);
        let how = (&mut go_on as GoOn<'_>, &mut done as Done<'_>);
        let written = entry.table.update_many(&mut statement, ids, change, how);
        entry.table.naming(written).map(|_| changed)
    }

    /// Deletes the rows at `ids` as one statement. Returns how many were there.
    pub fn delete_many(&mut self, table: &str, ids: &[RowId]) -> Result<u64> {
        let entry = self.entry(table, LockMode::Write)?;
        let handle = Arc::clone(&self.handle);
        let mut go_on = || handle.engine.admit_more(true);
        self.freeing(|txn| {
            let mut statement = txn.statement()?;
            let how = (&mut go_on as GoOn<'_>, &mut (|_| {}) as Done<'_>);
            let written = entry.table.delete_many(&mut statement, ids, None, how);
            entry.table.naming(written)
        })
    }

    /// As [`Transaction::delete_many`]; each row as it was, in the order of the table.
    pub fn delete_returning(&mut self, table: &str, ids: &[RowId]) -> Result<Vec<Changed>> {
        let entry = self.entry(table, LockMode::Write)?;
        let (last, mut changed) = (RefCell::new(None), Vec::new());
        let mut wanted = |old: &[Value]| {
            last.replace(Some(old.to_vec()));
            Ok(true)
        };
        let mut done = |id| {
            let old = last.take().expect("the row was looked at before it was deleted");
            changed.push(Changed { id, old, new: None });
        };
        let handle = Arc::clone(&self.handle);
        let mut go_on = || handle.engine.admit_more(true);
        self.freeing(|txn| {
            let mut statement = txn.statement()?;
            let wanted = Some(&mut wanted as Wanted<'_>);
            let how = (&mut go_on as GoOn<'_>, &mut done as Done<'_>);
            let written = entry.table.delete_many(&mut statement, ids, wanted, how);
            entry.table.naming(written)
        })?;
        Ok(changed)
    }
}

impl Writer<'_> {
    /// Inserts rows, or changes those in their way: see [`Transaction::upsert`].
    pub fn upsert(
        &mut self,
        on: OnConflict<'_>,
        rows: &[Vec<Value>],
        merge: Merge<'_>,
    ) -> Result<Vec<Upserted>> {
        self.put(on, rows, Some(merge))
    }

    /// Inserts the rows whose keys nobody has; the others are left alone.
    pub fn insert_or_skip(
        &mut self,
        on: OnConflict<'_>,
        rows: &[Vec<Value>],
    ) -> Result<Vec<Upserted>> {
        self.put(on, rows, None)
    }

    fn put(
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
