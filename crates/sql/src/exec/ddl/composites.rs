//! CREATE TYPE .. AS (..), and ALTER TYPE of fields.
//!
//! The entry of a composite type is a table without rows, whose columns are the fields.
//!
//! Invariants: a type is no field of itself. Values that are stored have the fields of their type,
//! but for those that it got later, and no text that is kept means a field that is gone.
//! Does not do: what is the same of every type (`types`).

use rightlink::{AlterTable, ColumnSchema, Error, TableInfo, Type};

use super::types::{names_type, taken};
use super::{Definer, no_column};
use crate::bind::ddl::{NewField, NewTable};
use crate::error::{Result, SqlError, code};
use crate::names::{bare, function_of_entry, said, type_entry, type_of_entry};
use crate::notes::types::{NO_FIELD, TypeNotes};
use crate::notes::view::ViewSource;
use crate::notes::{ColumnNotes, TableNotes};
use crate::schemas::no_table;

/// Most types that are fields each of the one before.
const MAX_LEVELS: usize = 32;

impl Definer<'_> {
    pub(super) fn create_composite(&mut self, name: &str, fields: &NewTable) -> Result<()> {
        self.refuse_rows_of(name)?;
        let mut schema = fields.schema.clone();
        for (at, column) in schema.columns.iter_mut().enumerate() {
            self.finish_column(fields, at, column)?;
            if let Some(made) = ColumnNotes::decode(&column.note).made {
                self.check_field_levels(&made.name)?;
            }
        }
        if schema.columns.is_empty() {
            schema = schema.nullable(NO_FIELD, Type::Bool);
        }
        let owner = self.context.owner;
        schema.note = TypeNotes { is_composite: true, owner, ..TypeNotes::default() }.encode();
        match self.txn.create_table(&schema) {
            Err(Error::AlreadyExists(_)) => Err(taken(name)),
            made => Ok(made?),
        }
    }

    /// Fails if the type called `name` has fields that have fields too many levels deep.
    fn check_field_levels(&mut self, name: &str) -> Result<()> {
        let mut level = vec![name.to_owned()];
        for _ in 0..MAX_LEVELS {
            let mut next = Vec::new();
            for one in &level {
                let info = match self.txn.catalog().definition(&type_entry(one)) {
                    Err(Error::NotFound(_)) => continue,
                    info => info?,
                };
                let made = info.columns.iter().map(|one| ColumnNotes::decode(&one.note).made);
                next.extend(made.flatten().map(|made| made.name));
            }
            next.sort();
            next.dedup();
            if next.is_empty() {
                return Ok(());
            }
            level = next;
        }
        let message = format!("composite types have at most {MAX_LEVELS} levels");
        Err(SqlError::new(code::PROGRAM_LIMIT, message))
    }

    pub(super) fn alter_composite(&mut self, name: &str, changes: &[NewField]) -> Result<()> {
        // It is looked for among relations, which enums and domains are not.
        let is_there = self.txn.catalog().has_relation(&type_entry(name))?;
        if !is_there && self.txn.catalog().has_relation(name)? {
            let message = format!("\"{}\" is not a composite type", bare(name));
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        if !is_there || !self.lock_type(name)?.is_composite {
            return Err(no_table(name));
        }
        changes.iter().try_for_each(|change| self.alter_field(name, change))
    }

    fn alter_field(&mut self, name: &str, change: &NewField) -> Result<()> {
        let entry = type_entry(name);
        let is_adding = matches!(change, NewField::Add(_));
        self.refuse_uses(name, is_adding)?;
        match change {
            NewField::Add(field) => self.add_field(name, field),
            NewField::Drop { name: field, if_exists } => {
                let is_there = self.has_field(name, field)?;
                if !is_there && *if_exists {
                    let relation = bare(name);
                    self.notices.push(format!(
                        "column \"{field}\" of relation \"{relation}\" does not exist, skipping"
                    ));
                    return Ok(());
                }
                if !is_there { Err(no_column(name, field)) } else { self.drop_field(name, field) }
            }
            NewField::Retype(field) => {
                let own = &field.schema.columns[0];
                if !self.has_field(name, &own.name)? {
                    return Err(no_column(name, &own.name));
                }
                self.refuse_itself(name, &field.notes[0])?;
                let mut column = own.clone();
                self.finish_column(field, 0, &mut column)?;
                let mut unchanged = Ok;
                self.txn.alter_table(
                    &entry,
                    AlterTable::ColumnType {
                        column: &column.name,
                        to: column.kind,
                        convert: &mut unchanged,
                        of_row: None,
                    },
                )?;
                let change = AlterTable::ColumnNote { column: &column.name, note: &column.note };
                Ok(self.txn.alter_table(&entry, change)?)
            }
            NewField::Rename { from, to } => {
                if !self.has_field(name, from)? {
                    let message = format!("column \"{from}\" does not exist");
                    return Err(SqlError::new(code::UNDEFINED_COLUMN, message));
                }
                if self.has_field(name, to)? {
                    return Err(already_there(name, to));
                }
                Ok(self.txn.alter_table(&entry, AlterTable::RenameColumn { column: from, to })?)
            }
        }
    }

    fn has_field(&mut self, name: &str, field: &str) -> Result<bool> {
        let info = self.txn.catalog().definition(&type_entry(name))?;
        let fields = crate::user_types::fields_of_entry(&info);
        Ok(fields.iter().any(|known| known.name == field))
    }

    fn add_field(&mut self, name: &str, field: &NewTable) -> Result<()> {
        let entry = type_entry(name);
        let mut column = field.schema.columns[0].clone();
        if self.has_field(name, &column.name)? {
            return Err(already_there(name, &column.name));
        }
        self.refuse_itself(name, &field.notes[0])?;
        self.finish_column(field, 0, &mut column)?;
        self.txn.alter_table(&entry, AlterTable::AddColumn(&column))?;
        let info = self.txn.catalog().definition(&entry)?;
        if info.columns.iter().any(|known| known.name == NO_FIELD) {
            self.txn.alter_table(&entry, AlterTable::DropColumn(NO_FIELD))?;
        }
        Ok(())
    }

    /// Takes a field away that is there, of a type that nothing uses.
    fn drop_field(&mut self, name: &str, field: &str) -> Result<()> {
        let entry = type_entry(name);
        if self.txn.catalog().definition(&entry)?.columns.len() == 1 {
            let none = ColumnSchema::new(NO_FIELD, Type::Bool).nullable();
            self.txn.alter_table(&entry, AlterTable::AddColumn(&none))?;
        }
        Ok(self.txn.alter_table(&entry, AlterTable::DropColumn(field))?)
    }

    /// A type that a field has goes: the field goes with it.
    pub(super) fn drop_field_of(&mut self, name: &str, field: &str) -> Result<()> {
        self.lock_type(name)?;
        self.refuse_uses(name, false)?;
        self.drop_field(name, field)
    }

    /// Fails if a type would be a field of itself.
    fn refuse_itself(&mut self, name: &str, field: &ColumnNotes) -> Result<()> {
        let Some(made) = &field.made else { return Ok(()) };
        self.check_field_levels(&made.name)?;
        let (_, above) = self.made_of(name)?;
        if made.name != name && !above.contains(&made.name) {
            return Ok(());
        }
        let message = format!("composite type {} cannot be made a member of itself", bare(name));
        Err(SqlError::new(code::INVALID_TABLE_DEFINITION, message))
    }

    /// The first column of a table or a view whose type is made of the one called `name`, and the
    /// types that are.
    fn made_of(&mut self, name: &str) -> Result<(Option<Use>, Vec<String>)> {
        let infos = self.txn.catalog().tables()?;
        let (mut types, mut at, mut column) = (vec![name.to_owned()], 0, None);
        while let Some(one) = types.get(at).cloned() {
            at += 1;
            self.context.check_interrupt()?;
            // Bodies of functions are texts, which nothing holds to what they name.
            for info in infos.iter().filter(|info| function_of_entry(&info.name).is_none()) {
                let uses = |notes: &str| ColumnNotes::decode(notes).uses_type(&one);
                let Some(found) = info.columns.iter().find(|column| uses(&column.note)) else {
                    continue;
                };
                match type_of_entry(&info.name) {
                    Some(own) if !types.contains(&own) => types.push(own),
                    Some(_) => {}
                    None => {
                        let is_view = TableNotes::decode(&info.note).view.is_some();
                        let own =
                            Use { table: info.name.clone(), column: found.name.clone(), is_view };
                        let is_first = column.as_ref().is_none_or(|known: &Use| known.is_view);
                        column = if is_first { Some(own) } else { column };
                    }
                }
            }
        }
        types.remove(0);
        Ok((column, types))
    }

    /// Fails if values of a type are stored, or a text is kept that may mean its fields. To one
    /// that gets another field, values that are stored are no hindrance.
    fn refuse_uses(&mut self, name: &str, is_adding: bool) -> Result<()> {
        let refused = |what: String| {
            let message = format!("cannot alter type \"{}\" because {what} uses it", bare(name));
            Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message))
        };
        let (column, mut types) = self.made_of(name)?;
        if let Some(Use { table, column, is_view }) = column
            && (is_view || !is_adding)
        {
            return refused(format!("column \"{}.{column}\"", said(&table)));
        }
        types.push(name.to_owned());
        for info in self.txn.catalog().tables()? {
            self.context.check_interrupt()?;
            let view = TableNotes::decode(&info.note).view;
            for one in &types {
                let entry = type_entry(one);
                let reads = |source: &ViewSource| source.name == entry;
                let of_view = view.as_ref().is_some_and(|view| view.sources.iter().any(reads));
                if of_view || !is_adding && texts_name(&info, one)? {
                    return refused(format!("\"{}\"", said(&info.name)));
                }
            }
        }
        Ok(())
    }
}

/// Names a check or a default of a table the type called `name`?
fn texts_name(info: &TableInfo, name: &str) -> Result<bool> {
    let checks = TableNotes::decode(&info.note).checks.into_iter().map(|(_, text)| text);
    let domain = TypeNotes::decode(&info.note).domain.unwrap_or_default();
    let of_domain = domain.checks.into_iter().map(|check| check.text);
    let defaults = info.columns.iter().filter_map(|one| ColumnNotes::decode(&one.note).default);
    for text in checks.chain(of_domain).chain(defaults) {
        if names_type(&text, name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A column whose type is made of another one.
struct Use {
    table: String,
    column: String,
    is_view: bool,
}

fn already_there(name: &str, field: &str) -> SqlError {
    let message = format!("column \"{field}\" of relation \"{}\" already exists", bare(name));
    SqlError::new(code::DUPLICATE_COLUMN, message)
}
