//! CREATE VIEW, CREATE MATERIALIZED VIEW, and what a view does not take.
//!
//! A view is a table of the store without rows; its note holds the query (`notes::view`). A
//! materialized view has rows, which the session puts in (`session::materialized`).
//!
//! Invariants: what the query reads is locked before the view is made, so that it is there.
//! Does not do: what the query means (`bind::view`); what depends on a view (`readers`).

use rightlink::{AlterTable, Busy, ColumnSchema, Error, LockMode, TableSchema, Type};

use super::{Definer, named};
use crate::bind::Binder;
use crate::bind::ddl::{Alteration, NewView, column_of_query};
use crate::bind::reading::Reading;
use crate::bind::view::{NewQuery, columns_of_view};
use crate::bind::view_text::ViewText;
use crate::error::{Result, SqlError, code};
use crate::exec::tables::{Along, Tables};
use crate::names::{bare, is_temporary};
use crate::notes::view::{Rows, ViewNotes};
use crate::notes::{ColumnNotes, TableNotes, is_view};
use crate::parse::Lines;
use crate::parse::view::{Said, with_names};
use crate::plan::{Column, Table};
use crate::schemas::no_table;
use crate::types::SqlType;
use crate::types::declared::{Declared, Modifier};

fn names_of(columns: &[Column]) -> Vec<String> {
    columns.iter().map(|column| column.name.clone()).collect()
}

/// The error for a relation that is not of the kind that is meant.
pub(super) fn wrong_kind(name: &str, wanted: &str, kind: &str) -> SqlError {
    let article = if wanted == "index" { "an" } else { "a" };
    let message = format!("\"{}\" is not {article} {wanted}", bare(name));
    let hint = format!("Use DROP {} to remove a {kind}.", kind.to_uppercase());
    SqlError::new(code::WRONG_OBJECT_TYPE, message).hint(hint)
}

impl Definer<'_> {
    pub(super) fn create_view(&mut self, view: &NewView) -> Result<()> {
        let path = self.context.settings.path();
        let NewQuery { columns, mut notes } = {
            let mut tables = Along(Tables(self.txn), &path);
            let mut binder = Binder::new(&mut tables, &view.lines, &[]);
            binder.reading = Reading::of(self.context.times.clone());
            binder.new_view(&view.query, view.check.is_some())?
        };
        let lines = Lines::of(&notes.query);
        let mut tables = Along(Tables(self.txn), &path);
        let mut binder = Binder::new(&mut tables, &lines, &[]);
        binder.reading = Reading::to_keep(self.context.times.clone());
        binder.check_kept(&notes, &columns)?;
        notes.query = binder.reading.pinned(&notes.query)?;
        notes.check = view.check;
        let before = columns;
        if view.columns.len() > before.len() {
            return Err(SqlError::syntax(match view.materialized {
                Some(_) => "too many column names were specified",
                None => "CREATE VIEW specifies more column names than columns",
            }));
        }
        let columns = columns_of_view(&before, &view.columns)?;
        notes.query = self.text_of_view(&notes, &before)?.spelled_out(&notes.query)?;
        notes.columns = names_of(&columns);
        notes.query = with_names(&notes.query, &names_of(&before), &notes.columns)?;
        notes.names = self.text_of_view(&notes, &columns)?.names(&notes)?;
        notes.stored = view.materialized.map(|made| Rows::of(made.with_data));
        let name = &view.name;
        if view.replaces && self.txn.catalog().has_relation(name)? {
            return self.replace_view(name, &columns, notes);
        }
        self.refuse_type_name(name)?;
        let mut schema = TableSchema::new(name);
        for column in &columns {
            schema.columns.push(match view.materialized {
                Some(_) => stored_column(column)?,
                None => self.column_of_view(column)?,
            });
        }
        if view.materialized.is_some() {
            refuse_temporary(&notes)?;
        }
        let sources = notes.sources.clone();
        let (view, owner) = (Some(Box::new(notes)), self.context.owner);
        schema.note = TableNotes { view, owner, ..TableNotes::default() }.encode();
        named(name, self.txn.create_table(&schema))?;
        self.add_reader(name, &sources)
    }

    /// What is named where in the query that is kept of a new view, which gives these columns.
    fn text_of_view(&mut self, notes: &ViewNotes, columns: &[Column]) -> Result<ViewText> {
        let lines = Lines::of(&notes.query);
        let mut tables = Tables(self.txn);
        Binder::new(&mut tables, &lines, &[]).text_of_view(notes, columns)
    }

    /// A column of a view as the store has it.
    fn column_of_view(&mut self, column: &Column) -> Result<ColumnSchema> {
        if matches!(column.ty, SqlType::Unknown | SqlType::Tid) {
            let message = format!("a column of a view of type {}", column.ty.name());
            return Err(SqlError::unsupported(message));
        }
        let known = column.ty.to_column();
        // A view has no rows in the store, which therefore need not have the type.
        let kind = known.unwrap_or(Type::Text);
        let mut schema = ColumnSchema::new(column.name.clone(), kind).nullable();
        let mut notes = ColumnNotes::default();
        notes.declare(Declared::modified(column.ty, column.modifier));
        if known.is_none() {
            notes.shown_as = Some(column.ty);
        }
        if let (Type::Text, Some(rule)) = (schema.kind, &column.collation) {
            (schema.collation, notes.collation) = rule.kept();
        }
        schema.note = notes.encode();
        Ok(schema)
    }

    /// Puts another query into the place of that of a view.
    fn replace_view(&mut self, name: &str, columns: &[Column], notes: ViewNotes) -> Result<()> {
        match self.txn.lock_table(name, LockMode::Exclusive, Busy::Wait) {
            Err(Error::NotFound(_)) if self.txn.catalog().has_relation(name)? => {
                let message = format!("\"{}\" is not a view", bare(name));
                return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
            }
            other => named(name, other)?,
        }
        let known = self.table(name)?;
        if !known.notes.is_view() {
            let message = format!("\"{}\" is not a view", bare(name));
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        check_columns(&known, columns)?;
        if self.reads_at_last(&notes, name)? {
            let message =
                format!("infinite recursion detected in rules for relation \"{}\"", bare(name));
            return Err(SqlError::new(code::INVALID_OBJECT_DEFINITION, message));
        }
        for column in &columns[known.types.len()..] {
            let schema = self.column_of_view(column)?;
            self.txn.alter_table(name, AlterTable::AddColumn(&schema))?;
        }
        let before = known.notes.view.iter().flat_map(|view| &view.sources);
        self.remove_reader(name, &before.cloned().collect::<Vec<_>>())?;
        self.add_reader(name, &notes.sources)?;
        self.note(name, |kept| kept.view = Some(Box::new(notes)))
    }

    /// Is it a view?
    pub(super) fn is_view(&mut self, name: &str) -> Result<bool> {
        match self.txn.catalog().definition(name) {
            Ok(info) => Ok(is_view(&info.note)),
            Err(Error::NotFound(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Fails for a view or a materialized view, on which `what` cannot be done.
    pub(super) fn refuse_view(&mut self, name: &str, what: &str) -> Result<()> {
        let Some(notes) = self.view_notes(name)? else { return Ok(()) };
        let noun = notes.noun();
        let message = format!("{what} \"{}\"", bare(name));
        Err(SqlError::new(code::WRONG_OBJECT_TYPE, message)
            .detail(format!("This operation is not supported for {noun}s.")))
    }

    /// Fails for a view where a table is meant.
    pub(super) fn refuse_no_table(&mut self, name: &str) -> Result<()> {
        if self.view_notes(name)?.is_none() {
            return Ok(());
        }
        let message = format!("\"{}\" is not a table", bare(name));
        Err(SqlError::new(code::WRONG_OBJECT_TYPE, message))
    }

    /// Fails if ALTER VIEW or ALTER MATERIALIZED VIEW names something else.
    pub(super) fn check_said(&mut self, name: &str, said: Said, if_exists: bool) -> Result<()> {
        if said == Said::Table {
            return Ok(());
        }
        let is_there = self.txn.catalog().has_relation(name)?;
        if !is_there && if_exists || is_there && self.kind_of(name)? == said.noun() {
            return Ok(());
        }
        if !is_there {
            return Err(no_table(name));
        }
        let message = format!("\"{}\" is not a {}", bare(name), said.noun());
        Err(SqlError::new(code::WRONG_OBJECT_TYPE, message))
    }

    /// Takes the rows of a materialized view away. `with_data`: others come at once.
    pub(super) fn clear_rows(&mut self, name: &str, with_data: bool) -> Result<()> {
        named(name, self.txn.lock_table(name, LockMode::Exclusive, Busy::Wait))?;
        named(name, self.txn.truncate(name, false))?;
        self.note(name, |notes| {
            notes.view.iter_mut().for_each(|view| view.stored = Some(Rows::of(with_data)));
        })
    }

    /// Fails for changes that a view does not take.
    pub(super) fn refuse_changes_of_view(
        &mut self,
        name: &str,
        changes: &[Alteration],
    ) -> Result<()> {
        let Some(notes) = self.view_notes(name)? else { return Ok(()) };
        let is_stored = notes.stored.is_some();
        for change in changes {
            match change {
                Alteration::RenameTable(_) | Alteration::RenameColumn(..) => {}
                Alteration::Storage(_) if is_stored => {}
                _ if is_stored => {
                    let action = change.action();
                    let what = format!("ALTER action {action} cannot be performed on relation");
                    return self.refuse_view(name, &what);
                }
                Alteration::Default(..) => {
                    return Err(SqlError::unsupported("a default of a column of a view"));
                }
                _ => return self.refuse_view(name, "ALTER action cannot be performed on relation"),
            }
        }
        Ok(())
    }

    /// What a relation is, as DROP calls it.
    pub(super) fn kind_of(&mut self, name: &str) -> Result<&'static str> {
        Ok(match () {
            () if let Some(notes) = self.view_notes(name)? => notes.noun(),
            () if self.txn.catalog().table_of_index(name).is_ok() => "index",
            () if self.txn.catalog().definition(name).is_ok() => "table",
            () => "sequence",
        })
    }
}

/// A column of a materialized view, which has rows.
fn stored_column(column: &Column) -> Result<ColumnSchema> {
    let mut schema = column_of_query(column.name.clone(), column)?;
    let mut notes = ColumnNotes::default();
    notes.declare(Declared::modified(column.ty, column.modifier));
    if let (Type::Text, Some(rule)) = (schema.kind, &column.collation) {
        (schema.collation, notes.collation) = rule.kept();
    }
    schema.note = notes.encode();
    Ok(schema)
}

/// Fails if the query of a materialized view reads a temporary relation.
fn refuse_temporary(notes: &ViewNotes) -> Result<()> {
    match notes.sources.iter().any(|source| is_temporary(&source.name)) {
        true => {
            let message = "materialized views must not use temporary tables or views";
            Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message))
        }
        false => Ok(()),
    }
}

/// Fails unless a view's columns begin with those that it had.
fn check_columns(known: &Table, columns: &[Column]) -> Result<()> {
    let invalid = |message: String| SqlError::new(code::INVALID_TABLE_DEFINITION, message);
    if columns.len() < known.types.len() {
        return Err(invalid("cannot drop columns from view".to_owned()));
    }
    for (at, (old, new)) in known.info.columns.iter().zip(columns).enumerate() {
        let (name, other) = (&old.name, &new.name);
        if name != other {
            let message = format!("cannot change name of view column \"{name}\" to \"{other}\"");
            let hint =
                "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.";
            return Err(invalid(message).hint(hint));
        }
        let modifier = known.column_notes[at].modifier;
        if known.types[at] != new.ty || modifier != new.modifier {
            let shown = |ty: SqlType, modifier: Option<Modifier>| match modifier {
                Some(modifier) => modifier.to_string(),
                None => ty.name().to_owned(),
            };
            let message = format!(
                "cannot change data type of view column \"{name}\" from {} to {}",
                shown(known.types[at], modifier),
                shown(new.ty, new.modifier)
            );
            return Err(invalid(message));
        }
    }
    Ok(())
}
