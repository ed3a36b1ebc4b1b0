//! Adding, dropping and altering columns, identities.
//!
//! Invariants: a condition that is added holds for every row that is there, or the statement fails.
//! Does not do: changes that write every row anew (`rewrite`).

use crate::catalog::ddl::DdlStatement;
use crate::catalog::names::Entry;
use crate::catalog::rows::Object;
use crate::datum::Value;
use crate::error::{Error, Result};
use crate::table::Projection;
use crate::table::schema::{Column, ColumnDefault, ColumnNo, Identity, IndexDef};

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

impl DdlStatement<'_> {
    /// Adds a column. Rows that are there read as having its `missing` value.
    pub fn add_column(&mut self, table: &str, column: Column) -> Result<()> {
        self.change(table, |ddl, entry, def| {
            def.check_new_column(&column.name)?;
            if column.missing.is_null() && !column.nullable {
                ddl.expect_empty(entry, &column.name)?;
            }
            let no = def.columns.len() as ColumnNo;
            let object = Object::column(ddl.catalog.new_object(), def.id, no, &column);
            def.columns.push(column);
            def.validate()?;
            ddl.insert(&[object])
        })
    }

    /// Fails if the table has a row: it would have a null in `column`, which is never null.
    fn expect_empty(&mut self, entry: &Entry, column: &str) -> Result<()> {
        let nothing = Projection::none();
        let first = entry.table.scan(&self.snapshot(), nothing, None).next();
        match entry.table.naming(first)? {
            None => Ok(()),
            Some(_) => Err(Error::NotNullViolation {
                table: entry.table.def().name.clone(),
                column: column.to_owned(),
            }),
        }
    }

    /// Fails if a row of the table has a null in one of `columns`.
    pub(super) fn expect_values(&mut self, entry: &Entry, columns: &[ColumnNo]) -> Result<()> {
        let def = entry.table.def();
        let wanted = Projection::new(def, columns)?;
        for row in entry.table.scan(&self.snapshot(), wanted, None) {
            let row = entry.table.naming(row)?;
            if let Some(at) = row.values.iter().position(Value::is_null) {
                let column = def.columns[usize::from(columns[at])].name.clone();
                return Err(Error::NotNullViolation { table: def.name.clone(), column });
            }
        }
        Ok(())
    }

    /// Drops a column that no index and no check uses. Its values stay in old rows, where no read
    /// sees them.
    pub fn drop_column(&mut self, table: &str, column: &str) -> Result<()> {
        self.change(table, |ddl, _, def| {
            let no = def.column_no(column)?;
            let user = |what: &str, user: &str| {
                Error::Invalid(format!("column {column} of table {table} is used by {what} {user}"))
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
                ddl.remove(identity.sequence.id)?;
            }
            ddl.store_column(def, no)
        })
    }

    /// Changes a column's name, default, or whether it may be null.
    pub fn alter_column(&mut self, table: &str, column: &str, change: ColumnChange) -> Result<()> {
        self.change(table, |ddl, entry, def| {
            let no = def.column_no(column)?;
            let in_key = |key: &IndexDef| key.columns.iter().any(|part| part.column == no);
            let in_primary_key = def.primary_key().is_some_and(in_key);
            let altered = &mut def.columns[usize::from(no)];
            match change {
                ColumnChange::Rename(to) => altered.name = to,
                ColumnChange::Default(default) => altered.default = default,
                ColumnChange::Note(note) => altered.note = note,
                ColumnChange::Nullable(nullable) => {
                    if nullable && in_primary_key {
                        let what =
                            format!("column {column} is in the primary key of table {table}");
                        return Err(Error::Invalid(what));
                    }
                    if altered.nullable && !nullable {
                        ddl.expect_values(entry, &[no])?;
                    }
                    altered.nullable = nullable;
                }
            }
            ddl.store_column(def, no)
        })
    }

    /// Gives a column a sequence of its own, from which it takes numbers, or takes it away.
    ///
    /// # Errors
    /// `AlreadyExists` for a second sequence; `Invalid` for a column that may be null or has a
    /// default, and where there is no sequence to take away.
    pub fn set_identity(
        &mut self,
        table: &str,
        column: &str,
        mut identity: Option<Identity>,
    ) -> Result<()> {
        self.change(table, |ddl, _, def| {
            let no = def.column_no(column)?;
            let altered = &mut def.columns[usize::from(no)];
            let before = altered.identity.take();
            let why = match (&before, &identity) {
                (Some(_), Some(_)) => {
                    let what = format!("identity of column {column} of table {table}");
                    return Err(Error::AlreadyExists(what));
                }
                (None, None) => Some("is not generated"),
                (None, Some(_)) if altered.nullable => Some("may be null"),
                (None, Some(_)) if altered.default.is_some() => Some("has a default"),
                _ => None,
            };
            if let Some(why) = why {
                return Err(Error::Invalid(format!("column {column} of table {table} {why}")));
            }
            if let Some(new) = &mut identity {
                ddl.number_sequence(&mut new.sequence)?;
            }
            altered.identity = identity.clone();
            ddl.store_column(def, no)?;
            if let Some(old) = before {
                ddl.remove(old.sequence.id)?;
            }
            if let Some(new) = &identity {
                ddl.create_owned(&new.sequence)?;
                ddl.insert(&[Object::sequence_of(def.id, no, &new.sequence)])?;
            }
            Ok(())
        })
    }
}
