//! Reading and writing catalog rows.
//!
//! Invariants: rows are found through the catalog's own indexes; a write belongs to the statement
//! it is given.
//! Does not do: caching, locking.

use std::collections::HashMap;
use std::ops::Bound;

use rightlink_env::sync::Arc;

use crate::catalog::bootstrap::{BY_ID, BY_NAME, BY_PARENT, Kind};
use crate::catalog::rows::{Object, StoredObject, assemble};
use crate::datum::Value;
use crate::error::{Error, Result};
use crate::ids::{ObjectId, RowId};
use crate::table::schema::TableDef;
use crate::table::{IndexBounds, IndexScanOptions, Projection, Row, Statement, Table, Written};
use crate::txn::Snapshot;

/// The catalog's table.
pub(super) struct Store {
    table: Arc<Table>,
}

impl Store {
    /// Catalog rows in `table`.
    pub(super) fn new(table: Arc<Table>) -> Self {
        assert_eq!(table.def().id, crate::catalog::bootstrap::CATALOG);
        Self { table }
    }

    /// The table.
    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Every object that `snapshot` sees.
    pub(super) fn all(&self, snapshot: &Arc<Snapshot>) -> Result<Vec<Object>> {
        let rows = self.table.scan(snapshot, Projection::all(self.table.def()), None);
        rows.map(|row| Object::from_row(&row?.values)).collect()
    }

    /// The objects of a kind, sorted by name.
    pub(super) fn of_kind(&self, snapshot: &Arc<Snapshot>, kind: Kind) -> Result<Vec<Object>> {
        let mut found = self.all(snapshot)?;
        found.retain(|object| object.kind == kind);
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// The table or index called `name`.
    pub(super) fn relation(
        &self,
        snapshot: &Arc<Snapshot>,
        name: &str,
    ) -> Result<Option<StoredObject>> {
        self.named(snapshot, ObjectId(0), name)
    }

    /// The object called `name` in a namespace.
    pub(super) fn named(
        &self,
        snapshot: &Arc<Snapshot>,
        namespace: ObjectId,
        name: &str,
    ) -> Result<Option<StoredObject>> {
        let key = vec![Value::Int4(namespace.0 as i32), Value::Text(name.to_owned())];
        Ok(self.find(snapshot, BY_NAME, key)?.pop())
    }

    /// The objects of a namespace whose names begin with `prefix`, sorted by name.
    pub(super) fn named_from(
        &self,
        snapshot: &Arc<Snapshot>,
        namespace: ObjectId,
        prefix: &str,
    ) -> Result<Vec<StoredObject>> {
        let low = Bound::Included(Value::Text(prefix.to_owned()));
        let namespace = vec![Value::Int4(namespace.0 as i32)];
        let bounds = IndexBounds::between(namespace, low, Bound::Unbounded);
        let begins = |stored: &StoredObject| stored.object.name.starts_with(prefix);
        let mut found = Vec::new();
        for stored in self.rows(snapshot, BY_NAME, bounds)? {
            let stored = stored?;
            if !begins(&stored) {
                break;
            }
            found.push(stored);
        }
        Ok(found)
    }

    /// The object of a number.
    pub(super) fn object(&self, snapshot: &Arc<Snapshot>, id: ObjectId) -> Result<StoredObject> {
        let found = self.find(snapshot, BY_ID, vec![Value::Int4(id.0 as i32)])?.pop();
        let missing = || Error::corrupt_file("catalog", format!("object {} is missing", id.0));
        found.ok_or_else(missing)
    }

    /// Columns and indexes of a table.
    pub(super) fn parts(
        &self,
        snapshot: &Arc<Snapshot>,
        table: ObjectId,
    ) -> Result<Vec<StoredObject>> {
        self.find(snapshot, BY_PARENT, vec![Value::Int4(table.0 as i32)])
    }

    /// The definition whose table object is `object`.
    pub(super) fn assemble(&self, snapshot: &Arc<Snapshot>, object: &Object) -> Result<TableDef> {
        assert_eq!(object.kind, Kind::Table);
        let parts = self.parts(snapshot, object.id)?;
        assemble(object, parts.into_iter().map(|stored| stored.object).collect())
    }

    /// Definitions of all tables, sorted by name: one read of the catalog.
    pub(super) fn definitions(&self, snapshot: &Arc<Snapshot>) -> Result<Vec<TableDef>> {
        let (mut tables, mut parts) = (Vec::new(), HashMap::<_, Vec<_>>::new());
        for object in self.all(snapshot)? {
            match object.kind {
                Kind::Table => tables.push(object),
                _ => parts.entry(object.parent).or_default().push(object),
            }
        }
        tables.sort_by(|a: &Object, b| a.name.cmp(&b.name));
        let mut parts_of = |table: &Object| parts.remove(&table.id).unwrap_or_default();
        tables.iter().map(|table| assemble(table, parts_of(table))).collect()
    }

    fn find(
        &self,
        snapshot: &Arc<Snapshot>,
        index: &str,
        key: Vec<Value>,
    ) -> Result<Vec<StoredObject>> {
        self.rows(snapshot, index, IndexBounds::equal(key))?.collect()
    }

    /// The objects within `bounds`, in the order of the index.
    fn rows(
        &self,
        snapshot: &Arc<Snapshot>,
        index: &str,
        bounds: IndexBounds,
    ) -> Result<impl Iterator<Item = Result<StoredObject>>> {
        let index = self.table.index(index)?;
        let options = IndexScanOptions::new(bounds);
        let all = Projection::all(self.table.def());
        let rows = self.table.scan_index(snapshot, index, all, &options);
        let rows = self.table.naming(rows)?;
        let stored =
            |row: Row| Ok(StoredObject { row: row.row_id, object: Object::from_row(&row.values)? });
        Ok(rows.map(move |row| row.and_then(stored)))
    }

    /// Adds objects.
    pub(super) fn insert(&self, statement: &mut Statement<'_>, objects: &[Object]) -> Result<()> {
        statement.txn().note_definitions();
        let rows: Vec<_> = objects.iter().map(Object::to_row).collect();
        let inserted = self.table.naming(self.table.insert_many(statement, &rows));
        inserted.map(drop).map_err(name_taken)
    }

    /// Replaces the object at `row`.
    pub(super) fn update(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        object: &Object,
    ) -> Result<()> {
        statement.txn().note_definitions();
        let mut change = |_: &[Value]| Ok(Some(object.to_row()));
        let written = self.table.naming(self.table.update(statement, row, &mut change));
        expect_done(written.map_err(name_taken)?, &object.name)
    }

    /// Replaces the stored object of the same number, and keeps its position.
    pub(super) fn replace(&self, statement: &mut Statement<'_>, object: Object) -> Result<()> {
        let stored = self.object(&statement.txn().latest_snapshot(), object.id)?;
        let object = Object { position: stored.object.position, ..object };
        self.update(statement, stored.row, &object)
    }

    /// Removes an object.
    pub(super) fn delete(
        &self,
        statement: &mut Statement<'_>,
        stored: &StoredObject,
    ) -> Result<()> {
        statement.txn().note_definitions();
        let written = self.table.remove(statement, stored.row)?;
        expect_done(written, &stored.object.name)
    }
}

/// A key of the catalog is a namespace, 0 for all but columns, and a name in it.
fn name_taken(error: Error) -> Error {
    let Error::UniqueViolation { key, .. } = error else { return error };
    let parts = key.strip_prefix('(').and_then(|key| key.strip_suffix(')'));
    Error::AlreadyExists(match parts.and_then(|parts| parts.split_once(", ")) {
        Some(("0", name)) => format!("a table, index or sequence called {name}"),
        Some((_, name)) => format!("a column called {name}"),
        None => format!("what is called {key}"),
    })
}

/// Under the table's exclusive lock no other transaction can have changed its rows.
fn expect_done(written: Written, name: &str) -> Result<()> {
    match written {
        Written::Done(_) => Ok(()),
        _ => Err(Error::corrupt_file("catalog", format!("the row of {name} is gone"))),
    }
}
