//! From what a caller says to what the catalog takes: names become numbers.
//!
//! Invariants: a name that does not exist is reported with the table it was looked for in.
//! Does not do: limits and duplicates, which the definition checks itself.

use crate::catalog::{IndexDraft, TableDraft};
use crate::config::MAX_NAME_BYTES;
use crate::datum::{Type, Value};
use crate::db::define::{
    CheckSchema, ColumnSchema, IdentitySchema, IndexSchema, KeyCollation, KeyColumn, TableSchema,
};
use crate::error::{Error, Result};
use crate::ids::{FileId, ObjectId};
use crate::table::schema::{Check, Column, ColumnNo, Identity, IndexColumn, SequenceDef, TableDef};

/// A table to create.
pub(crate) fn table(schema: &TableSchema) -> Result<TableDraft> {
    let column = |column: &ColumnSchema| self::column(column, &schema.name);
    let columns = schema.columns.iter().map(column).collect::<Result<Vec<_>>>()?;
    let def = TableDef::new(ObjectId(0), &schema.name, FileId(0), columns);
    let mut indexes = Vec::new();
    if !schema.primary_key.is_empty() {
        indexes.push(primary_key(schema, &def)?);
    }
    let primary = (!indexes.is_empty()).then_some(0);
    for wanted in &schema.indexes {
        indexes.push(index(wanted, &def)?);
    }
    Ok(TableDraft {
        name: schema.name.clone(),
        indexes,
        primary,
        logged: schema.logged,
        fillfactor: schema.fillfactor,
        note: schema.note.clone(),
        checks: schema.checks.iter().map(|wanted| check(wanted, &def)).collect::<Result<_>>()?,
        columns: def.columns,
        auto_vacuum: schema.auto_vacuum,
    })
}

/// A column to create in the table called `table`.
pub(crate) fn column(schema: &ColumnSchema, table: &str) -> Result<Column> {
    let ColumnSchema { name, kind, nullable, default, identity, note, collation } = schema;
    if let Some(collation) = collation {
        // Else it would be found out by the first who compares.
        collation.check(&format!("column {name} of table {table}"))?;
    }
    let identity = identity.as_ref().map(|wanted| self::identity(wanted, *kind, table, name));
    let (default, note, collation) = (default.clone(), note.clone(), collation.clone());
    Ok(Column { default, identity, note, collation, ..Column::new(name, *kind, *nullable) })
}

/// What generates the numbers of a column of type `kind`.
pub(crate) fn identity(wanted: &IdentitySchema, kind: Type, table: &str, column: &str) -> Identity {
    let largest = kind.largest().unwrap_or(i64::MAX);
    let (start, increment) = (wanted.start, wanted.increment);
    let base = SequenceDef::new(sequence_name(table, column), largest);
    let least = if increment < 0 { -largest } else { base.min.min(start) };
    let (min, max) = (wanted.min.unwrap_or(least), wanted.max.unwrap_or(base.max));
    let def = SequenceDef { start, increment, min, max, cycle: wanted.cycle, ..base };
    Identity { always: wanted.always, sequence: ObjectId(0), file: FileId(0), def }
}

/// Name of the sequence of a column, cut where the parts are long.
fn sequence_name(table: &str, column: &str) -> String {
    let cut = |text: &str| {
        let mut end = text.len().min(MAX_NAME_BYTES / 2 - 3);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text[..end].to_owned()
    };
    format!("{}_{}_seq", cut(table), cut(column))
}

/// A check to add to `def`.
pub(crate) fn check(schema: &CheckSchema, def: &TableDef) -> Result<Check> {
    let predicate = schema.predicate.try_map(|column| def.column_no(column))?;
    Ok(Check { name: schema.name.clone(), predicate })
}

fn primary_key(schema: &TableSchema, def: &TableDef) -> Result<IndexDraft> {
    let mut key = IndexSchema::new(format!("{}_pkey", schema.name)).unique();
    for name in &schema.primary_key {
        let column = def.live_column(def.column_no(name)?)?;
        if column.nullable {
            let what = format!("column {name} of the primary key of {} is nullable", schema.name);
            return Err(Error::Invalid(what));
        }
        key = key.on(name);
    }
    index(&key, def)
}

/// An index to create on `def`.
pub(crate) fn index(schema: &IndexSchema, def: &TableDef) -> Result<IndexDraft> {
    let key = |key: &KeyColumn| -> Result<IndexColumn> {
        let column = def.column_no(&key.name)?;
        let (descending, nulls_first) = (key.descending, key.nulls_first);
        let collation = match &key.collation {
            KeyCollation::OfColumn => def.columns[usize::from(column)].collation.clone(),
            KeyCollation::Bytes => None,
            KeyCollation::Given(collation) => Some(collation.clone()),
        };
        Ok(IndexColumn { column, descending, nulls_first, collation })
    };
    let columns = schema.columns.iter().map(key).collect::<Result<Vec<_>>>()?;
    let included = schema.included.iter().map(|name| def.column_no(name));
    let predicate = schema.predicate.as_ref();
    Ok(IndexDraft {
        name: schema.name.clone(),
        columns,
        unique: schema.unique,
        nulls_equal: schema.nulls_not_distinct,
        included: included.collect::<Result<_>>()?,
        predicate: predicate
            .map(|predicate| predicate.try_map(|column| def.column_no(column)))
            .transpose()?,
        method: schema.method,
    })
}

/// `old` with other values at some places.
pub(crate) fn assigned(old: &[Value], assignments: &[(usize, Value)]) -> Vec<Value> {
    let mut new = old.to_vec();
    for (at, value) in assignments {
        new[*at] = value.clone();
    }
    new
}

/// Places among the live columns and their new values.
pub(crate) fn assignments(set: &[(&str, Value)], def: &TableDef) -> Result<Vec<(usize, Value)>> {
    let live: Vec<ColumnNo> = def.live().map(|(no, _)| no).collect();
    let place = |(name, value): &(&str, Value)| -> Result<(usize, Value)> {
        let no = def.column_no(name)?;
        let at = live.binary_search(&no).expect("a named column is live");
        Ok((at, value.clone()))
    };
    set.iter().map(place).collect()
}
