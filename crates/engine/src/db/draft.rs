//! From what a caller says to what the catalog takes: names become numbers.
//!
//! Invariants: a name that does not exist is reported with the table it was looked for in.
//! Does not do: limits and duplicates, which the definition checks itself.

use crate::catalog::{IndexDraft, TableDraft};
use crate::datum::Value;
use crate::db::define::{ColumnSchema, IndexSchema, KeyColumn, TableSchema};
use crate::error::{Error, Result};
use crate::ids::{FileId, ObjectId};
use crate::table::schema::{Column, ColumnNo, IndexColumn, TableDef};

/// A table to create.
pub(crate) fn table(schema: &TableSchema) -> Result<TableDraft> {
    let column = |column: &ColumnSchema| Column::new(&column.name, column.kind, column.nullable);
    let columns: Vec<Column> = schema.columns.iter().map(column).collect();
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
        columns: def.columns,
        indexes,
        primary,
        logged: schema.logged,
        fillfactor: schema.fillfactor,
    })
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
        Ok(IndexColumn { column, descending, nulls_first })
    };
    let columns = schema.columns.iter().map(key).collect::<Result<Vec<_>>>()?;
    let (name, unique, method) = (schema.name.clone(), schema.unique, schema.method);
    Ok(IndexDraft { name, columns, unique, method })
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
