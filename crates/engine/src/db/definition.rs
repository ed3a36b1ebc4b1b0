//! From a schema to the definition that the catalog stores, and back.
//!
//! Names of columns become numbers, and numbers names. The catalog gives tables, indexes and
//! sequences their numbers and files, which are 0 here.
//!
//! Invariants: a name that does not exist is reported with the table it was looked for in.
//! Does not do: limits and duplicates, which the definition checks itself.

use crate::config::MAX_NAME_BYTES;
use crate::datum::{Type, Value};
use crate::db::define::{
    CheckSchema, ColumnSchema, IdentitySchema, IndexSchema, KeyCollation, KeyColumn,
    SequenceSchema, TableSchema,
};
use crate::error::{Error, Result};
use crate::ids::{FileId, ObjectId};
use crate::table::schema::{
    Check, Column, ColumnNo, Identity, IndexColumn, IndexDef, SequenceDef, TableDef,
};

/// A table to create.
pub(crate) fn table(schema: &TableSchema) -> Result<TableDef> {
    let column = |column: &ColumnSchema| self::column(column, &schema.name);
    let columns = schema.columns.iter().map(column).collect::<Result<Vec<_>>>()?;
    let mut def = TableDef {
        logged: schema.logged,
        fillfactor: schema.fillfactor,
        note: schema.note.clone(),
        auto_vacuum: schema.auto_vacuum,
        ..TableDef::new(ObjectId(0), &schema.name, FileId(0), columns)
    };
    if !schema.primary_key.is_empty() {
        def.indexes.push(primary_key(schema, &def)?);
    }
    for wanted in &schema.indexes {
        def.indexes.push(index(wanted, &def)?);
    }
    def.checks = schema.checks.iter().map(|wanted| check(wanted, &def)).collect::<Result<_>>()?;
    Ok(def)
}

/// A column to create in the table called `table`.
pub(crate) fn column(schema: &ColumnSchema, table: &str) -> Result<Column> {
    let ColumnSchema { name, kind, nullable, default, identity, note, collation, computed } =
        schema.clone();
    if let Some(collation) = &collation {
        // Else the first comparison would find it out.
        collation.check(&format!("column {name} of table {table}"))?;
    }
    let identity = identity.map(|wanted| self::identity(&wanted, kind, table, &name));
    Ok(Column { default, identity, note, collation, computed, ..Column::new(name, kind, nullable) })
}

/// What generates the numbers of a column of type `kind`.
pub(crate) fn identity(wanted: &IdentitySchema, kind: Type, table: &str, column: &str) -> Identity {
    let largest = kind.largest().unwrap_or(i64::MAX);
    let (start, increment, cycle) = (wanted.start, wanted.increment, wanted.cycle);
    let least = if increment < 0 { -largest } else { start.min(1) };
    let (min, max) = (wanted.min.unwrap_or(least), wanted.max.unwrap_or(largest));
    let base = SequenceSchema::new(match wanted.sequence.as_str() {
        "" => sequence_name(table, column),
        given => given.to_owned(),
    });
    let schema = SequenceSchema { start, increment, min, max, cycle, ..base };
    let sequence = SequenceDef { id: ObjectId(0), file: FileId(0), schema };
    Identity { always: wanted.always, sequence }
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

fn primary_key(schema: &TableSchema, def: &TableDef) -> Result<IndexDef> {
    let mut key = IndexSchema::new(format!("{}_pkey", schema.name)).unique();
    for name in &schema.primary_key {
        let column = def.live_column(def.column_no(name)?)?;
        if column.nullable {
            let what = format!("column {name} of the primary key of {} is nullable", schema.name);
            return Err(Error::Invalid(what));
        }
        key = key.on(name);
    }
    Ok(IndexDef { primary: true, ..index(&key, def)? })
}

/// An index to create on `def`.
pub(crate) fn index(schema: &IndexSchema, def: &TableDef) -> Result<IndexDef> {
    let number = |name: &String| def.column_no(name);
    let key = |key: &KeyColumn| -> Result<IndexColumn> {
        let column = number(&key.name)?;
        let (descending, nulls_first) = (key.descending, key.nulls_first);
        let collation = match &key.collation {
            KeyCollation::OfColumn => def.columns[usize::from(column)].collation.clone(),
            KeyCollation::Bytes => None,
            KeyCollation::Given(collation) => Some(collation.clone()),
        };
        Ok(IndexColumn { column, descending, nulls_first, collation })
    };
    let columns = schema.columns.iter().map(key).collect::<Result<Vec<_>>>()?;
    let included = schema.included.iter().map(number).collect::<Result<_>>()?;
    let predicate = schema.predicate.as_ref().map(|predicate| predicate.try_map(number));
    Ok(IndexDef {
        included,
        predicate: predicate.transpose()?,
        method: schema.method,
        nulls_not_distinct: schema.nulls_not_distinct,
        ..IndexDef::new(ObjectId(0), &schema.name, FileId(0), columns, schema.unique)
    })
}

/// The schema of a table.
pub(crate) fn schema(def: &TableDef) -> TableSchema {
    let further = def.indexes.iter().filter(|index| !index.primary);
    let key = def.primary_key().into_iter().flat_map(|index| &index.columns);
    let check = |check: &Check| CheckSchema {
        name: check.name.clone(),
        predicate: def.named_predicate(&check.predicate),
    };
    TableSchema {
        name: def.name.clone(),
        columns: def.live().map(|(_, column)| column_schema(column)).collect(),
        primary_key: key.map(|part| def.name_of(part.column).to_owned()).collect(),
        indexes: further.map(|index| index_schema(index, def)).collect(),
        logged: def.logged,
        fillfactor: def.fillfactor,
        checks: def.checks.iter().map(check).collect(),
        note: def.note.clone(),
        auto_vacuum: def.auto_vacuum,
    }
}

fn column_schema(column: &Column) -> ColumnSchema {
    let identity = |Identity { always, sequence }: &Identity| {
        let SequenceSchema { name, start, increment, min, max, cycle, .. } = &sequence.schema;
        IdentitySchema {
            sequence: name.clone(),
            always: *always,
            start: *start,
            increment: *increment,
            min: Some(*min),
            max: Some(*max),
            cycle: *cycle,
        }
    };
    ColumnSchema {
        name: column.name.clone(),
        kind: column.ty,
        nullable: column.nullable,
        default: column.default.clone(),
        identity: column.identity.as_ref().map(identity),
        note: column.note.clone(),
        collation: column.collation.clone(),
        computed: column.computed,
    }
}

/// The schema of an index of `def`.
pub(crate) fn index_schema(index: &IndexDef, def: &TableDef) -> IndexSchema {
    let name = |column: ColumnNo| def.name_of(column).to_owned();
    let key = |key: &IndexColumn| KeyColumn {
        name: name(key.column),
        descending: key.descending,
        nulls_first: key.nulls_first,
        collation: key.collation.clone().into(),
    };
    IndexSchema {
        name: index.name.clone(),
        columns: index.columns.iter().map(key).collect(),
        unique: index.unique,
        nulls_not_distinct: index.nulls_not_distinct,
        included: index.included.iter().map(|column| name(*column)).collect(),
        predicate: index.predicate.as_ref().map(|predicate| def.named_predicate(predicate)),
        method: index.method,
    }
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
    def.refuse_computed()?;
    let place = |(name, value): &(&str, Value)| -> Result<(usize, Value)> {
        let no = def.column_no(name)?;
        Ok((def.place(no), value.clone()))
    };
    set.iter().map(place).collect()
}
