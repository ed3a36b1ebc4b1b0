//! Altering tables inside a transaction: columns, checks, the primary key, names.
//!
//! Invariants: a condition that is added holds for every row that is there, or the statement fails;
//! the table is locked against everybody from before the rows are looked at.
//! Does not do: what every row must be written anew for (`rewrite`).

use crate::catalog::bootstrap::Kind;
use crate::catalog::rewrite::sequence_object;
use crate::catalog::rows::Object;
use crate::catalog::{Catalog, Changes, Entry, IndexDraft};
use crate::datum::Value;
use crate::error::{Error, Result};
use crate::ids::ObjectId;
use crate::table::schema::{
    AutoVacuum, Check, Column, ColumnDefault, ColumnNo, Identity, IndexColumn, TableDef, check_name,
};
use crate::table::{BuildOptions, Projection, Statement};

/// A change of one column's definition.
#[derive(Clone, Debug)]
pub enum ColumnChange {
    /// Another name.
    Rename(String),
    /// May it be null?
    Nullable(bool),
    /// Another default, or none.
    Default(Option<ColumnDefault>),
    /// Another note.
    Note(String),
}

impl Catalog {
    /// Adds a column. Rows that are there read as having its `missing` value.
    pub fn add_column(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (name, column): (&str, Column),
    ) -> Result<()> {
        self.change(statement, changes, name, |statement, entry, def| {
            if def.column_no(&column.name).is_ok() {
                return Err(Error::AlreadyExists(format!(
                    "column {} of table {name}",
                    column.name
                )));
            }
            if column.missing.is_null() && !column.nullable {
                self.expect_empty(statement, entry, &column.name)?;
            }
            let no = def.columns.len() as ColumnNo;
            let object = Object::column(self.new_object(), def.id, no, &column);
            def.columns.push(column);
            def.validate()?;
            self.store.insert(statement, &[object])
        })
    }

    /// A column that is never null and has no default goes to a table without rows only.
    fn expect_empty(
        &self,
        statement: &mut Statement<'_>,
        entry: &Entry,
        column: &str,
    ) -> Result<()> {
        let snapshot = statement.txn().latest_snapshot();
        let nothing = Projection::new(entry.table.def(), &[])?;
        match entry.table.naming(entry.table.scan(&snapshot, nothing, None).next())? {
            None => Ok(()),
            Some(_) => Err(Error::NotNullViolation {
                table: entry.table.def().name.clone(),
                column: column.to_owned(),
            }),
        }
    }

    /// Drops a column that no index and no check uses. Its values stay in old rows, where nobody
    /// reads them.
    pub fn drop_column(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (name, column): (&str, &str),
    ) -> Result<()> {
        self.change(statement, changes, name, |statement, _, def| {
            let no = def.column_no(column)?;
            let user = |what: &str, user: &str| {
                Error::Invalid(format!("column {column} of table {name} is used by {what} {user}"))
            };
            if let Some(index) = def.indexes.iter().find(|index| index.touches(no)) {
                return Err(user("index", &index.name));
            }
            if let Some(check) = def.checks.iter().find(|check| check.predicate.names(no)) {
                return Err(user("check", &check.name));
            }
            let dropped = &mut def.columns[usize::from(no)];
            dropped.dropped = true;
            if let Some(identity) = dropped.identity.take() {
                let row = self.row_of(statement, identity.sequence)?;
                self.store.delete(statement, &row)?;
            }
            self.store_column(statement, def, no)
        })
    }

    /// Changes a column's name, default, or whether it may be null.
    pub fn alter_column(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (name, column): (&str, &str),
        change: ColumnChange,
    ) -> Result<()> {
        self.change(statement, changes, name, |statement, entry, def| {
            let no = def.column_no(column)?;
            let altered = &mut def.columns[usize::from(no)];
            match change {
                ColumnChange::Rename(to) => altered.name = to,
                ColumnChange::Default(default) => altered.default = default,
                ColumnChange::Note(note) => altered.note = note,
                ColumnChange::Nullable(nullable) => {
                    if nullable && entry.primary_columns().contains(&no) {
                        let what = format!("column {column} is in the primary key of table {name}");
                        return Err(Error::Invalid(what));
                    }
                    if altered.nullable && !nullable {
                        self.expect_values(statement, entry, &[no])?;
                    }
                    altered.nullable = nullable;
                }
            }
            self.store_column(statement, def, no)
        })
    }

    /// Gives a column a sequence of its own, from which it takes numbers, or takes it away.
    ///
    /// # Errors
    /// `AlreadyExists` for a second sequence; `Invalid` for a column that may be null or has a
    /// default, and where there is no sequence to take away.
    pub fn set_identity(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        name: &str,
        column: &str,
        mut identity: Option<Identity>,
    ) -> Result<()> {
        let entry = self.begin_change(statement, changes, name)?;
        let mut def = entry.table.def().clone();
        let no = def.column_no(column)?;
        let altered = &mut def.columns[usize::from(no)];
        let before = altered.identity.take();
        let why = match (&before, &identity) {
            (Some(_), Some(_)) => {
                let what = format!("identity of column {column} of table {name}");
                return Err(Error::AlreadyExists(what));
            }
            (None, None) => Some("is not generated"),
            (None, Some(_)) if altered.nullable => Some("may be null"),
            (None, Some(_)) if altered.default.is_some() => Some("has a default"),
            _ => None,
        };
        if let Some(why) = why {
            return Err(Error::Invalid(format!("column {column} of table {name} {why}")));
        }
        if let Some(new) = &mut identity {
            new.def.name = self.free_name(statement.txn(), &[], &new.def.name)?;
            (new.sequence, new.file) = (self.new_object(), self.new_files(1));
        }
        def.columns[usize::from(no)].identity = identity;
        self.store_column(statement, &def, no)?;
        if let Some(old) = before {
            let row = self.row_of(statement, old.sequence)?;
            self.store.delete(statement, &row)?;
        }
        if let Some(new) = &def.columns[usize::from(no)].identity {
            self.create_owned(changes, new)?;
            self.store.insert(statement, &[sequence_object(&def, no, new)])?;
        }
        self.redefine(changes, &entry, def, &[])
    }

    /// Writes the catalog row of a column of a sound definition anew.
    pub(super) fn store_column(
        &self,
        statement: &mut Statement<'_>,
        def: &TableDef,
        no: ColumnNo,
    ) -> Result<()> {
        def.validate()?;
        let parts = self.store.parts(&statement.txn().latest_snapshot(), def.id)?;
        let is_it = |object: &Object| object.kind == Kind::Column && object.position == no as i16;
        let found = parts.into_iter().find(|(_, object)| is_it(object));
        let column = &def.columns[usize::from(no)];
        let missing = || Error::corrupt_file("catalog", format!("{} has no row", column.name));
        let (row, old) = found.ok_or_else(missing)?;
        self.store.update(statement, row, &Object::column(old.id, def.id, no, column))
    }

    /// Writes the catalog row of the table itself anew.
    pub(super) fn store_table(
        &self,
        statement: &mut Statement<'_>,
        def: &TableDef,
        primary: Option<ObjectId>,
    ) -> Result<()> {
        let (row, _) = self.row_of(statement, def.id)?;
        self.store.update(statement, row, &Object::table(def, primary))
    }

    /// Fails if a row of the table has a null in one of `columns`.
    fn expect_values(
        &self,
        statement: &mut Statement<'_>,
        entry: &Entry,
        columns: &[ColumnNo],
    ) -> Result<()> {
        let def = entry.table.def();
        let snapshot = statement.txn().latest_snapshot();
        let wanted = Projection::new(def, columns)?;
        for row in entry.table.scan(&snapshot, wanted, None) {
            let row = entry.table.naming(row)?;
            if let Some(at) = row.values.iter().position(Value::is_null) {
                let column = def.columns[usize::from(columns[at])].name.clone();
                return Err(Error::NotNullViolation { table: def.name.clone(), column });
            }
        }
        Ok(())
    }

    /// Adds a check, which all rows must meet.
    pub fn add_check(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (name, check): (&str, Check),
    ) -> Result<()> {
        self.change(statement, changes, name, |statement, entry, def| {
            def.checks.push(check);
            def.validate()?;
            let check = def.checks.last().expect("pushed above");
            let snapshot = statement.txn().latest_snapshot();
            for row in entry.table.scan(&snapshot, Projection::all(def), None) {
                def.check_one(check, &entry.table.naming(row)?.values)?;
            }
            self.store_table(statement, def, entry.primary)
        })
    }

    /// Drops a check.
    pub fn drop_check(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (name, check): (&str, &str),
    ) -> Result<()> {
        self.change(statement, changes, name, |statement, entry, def| {
            let before = def.checks.len();
            def.checks.retain(|known| known.name != check);
            if def.checks.len() == before {
                return Err(Error::NotFound(format!("check {check} of table {name}")));
            }
            self.store_table(statement, def, entry.primary)
        })
    }

    /// Sets when the table is vacuumed without anybody asking.
    pub fn set_auto_vacuum(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (name, when): (&str, AutoVacuum),
    ) -> Result<()> {
        self.change(statement, changes, name, |statement, entry, def| {
            def.auto_vacuum = when;
            self.store_table(statement, def, entry.primary)
        })
    }

    /// Makes `columns` the primary key, by a new unique index called `index`.
    pub fn add_primary_key(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (name, index, columns): (&str, &str, &[String]),
        options: &BuildOptions<'_>,
    ) -> Result<()> {
        let entry = self.begin_change(statement, changes, name)?;
        if entry.primary.is_some() {
            return Err(Error::AlreadyExists(format!("primary key of table {name}")));
        }
        let mut def = entry.table.def().clone();
        let numbers: Vec<ColumnNo> =
            columns.iter().map(|column| def.column_no(column)).collect::<Result<_>>()?;
        self.expect_values(statement, &entry, &numbers)?;
        let key = |no: &ColumnNo| {
            let collation = def.columns[usize::from(*no)].collation.clone();
            IndexColumn { collation, ..IndexColumn::ascending(*no) }
        };
        let draft = IndexDraft {
            name: index.to_owned(),
            columns: numbers.iter().map(key).collect(),
            unique: true,
            ..IndexDraft::default()
        };
        let (built, position) = self.build_index(statement, changes, (&entry, draft), options)?;
        let primary = Some(built.def().id);
        def.indexes.insert(0, built.def().clone());
        for no in numbers {
            if std::mem::take(&mut def.columns[usize::from(no)].nullable) {
                self.store_column(statement, &def, no)?;
            }
        }
        self.store.insert(statement, &[Object::index(def.id, position, built.def())])?;
        self.store_table(statement, &def, primary)?;
        self.redefine_with(changes, &entry, (def, primary), &[built])
    }

    /// Drops the primary key; its columns stay as they are.
    pub fn drop_primary_key(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        name: &str,
    ) -> Result<()> {
        let entry = self.begin_change(statement, changes, name)?;
        let missing = || Error::NotFound(format!("primary key of table {name}"));
        let id = entry.primary.ok_or_else(missing)?;
        let mut def = entry.table.def().clone();
        def.indexes.retain(|index| index.id != id);
        let row = self.row_of(statement, id)?;
        self.store.delete(statement, &row)?;
        self.store_table(statement, &def, None)?;
        self.redefine_with(changes, &entry, (def, None), &[])
    }

    /// Replaces what a layer above keeps with a table.
    pub fn set_note(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (name, note): (&str, &str),
    ) -> Result<()> {
        self.change(statement, changes, name, |statement, entry, def| {
            note.clone_into(&mut def.note);
            def.validate()?;
            self.store_table(statement, def, entry.primary)
        })
    }

    /// Gives a table another name.
    pub fn rename_table(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (name, to): (&str, &str),
    ) -> Result<()> {
        let entry = self.begin_change(statement, changes, name)?;
        self.check_free(statement.txn(), changes, to)?;
        let mut def = entry.table.def().clone();
        to.clone_into(&mut def.name);
        self.mark(changes, to, def.id)?;
        self.store_table(statement, &def, entry.primary)?;
        self.redefine(changes, &entry, def, &[])?;
        changes.set(name, None);
        Ok(())
    }

    /// Gives an index another name.
    pub fn rename_index(
        &self,
        statement: &mut Statement<'_>,
        changes: &mut Changes,
        (index, to): (&str, &str),
    ) -> Result<()> {
        check_name("index", to)?;
        let name = self.table_of_index(statement.txn(), index)?;
        self.change(statement, changes, &name, |statement, _, def| {
            let id = def.index(index)?.id;
            let renamed = def.indexes.iter_mut().find(|known| known.id == id);
            let renamed = renamed.expect("found by name above");
            to.clone_into(&mut renamed.name);
            let (row, old) = self.row_of(statement, id)?;
            let object = Object::index(def.id, old.position as u16, renamed);
            self.store.update(statement, row, &object)
        })
    }
}

impl Entry {
    /// The columns of the primary key.
    fn primary_columns(&self) -> Vec<ColumnNo> {
        let index = self.primary.and_then(|id| self.table.index_by_id(id));
        index.map_or_else(Vec::new, |index| {
            index.def().columns.iter().map(|part| part.column).collect()
        })
    }
}
