//! Rows of `information_schema`: what standard SQL calls the catalogs.
//!
//! Invariants: columns mean what PostgreSQL's do; the rows are about what clients have made, as
//! those of `pg_tables`. Does not do: privileges; there is one user, who may do everything.

use std::collections::HashMap;

use rightlink::{ColumnSchema, IndexInfo, TableInfo, Transaction};

use super::constraints;
use super::items::default_text;
use super::objects::{Object, Objects};
use super::sequences::{self, Sequence};
use super::views::text;
use crate::error::Result;
use crate::expr::system::USER;
use crate::plan::notes::{Action, ColumnNotes, ForeignKey, TableNotes};
use crate::plan::views::Kind;
use crate::schemas::{CATALOGS, PUBLIC, bare, schema_of};
use crate::types::declared::{ByteOrder, Modifier};
use crate::types::{Datum, Row, SqlType};

/// Most bytes of a character.
const MAX_CHARACTER: i32 = 4;
/// Most bytes of a text without a declared length.
const MAX_TEXT: i32 = 1 << 30;

pub(super) fn rows(kind: Kind, txn: &mut Transaction, database: &str) -> Result<Vec<Row>> {
    let objects = Objects::of(txn)?;
    let all = objects.all();
    let tables = || all.iter().filter(|object| object.index.is_none());
    Ok(match kind {
        Kind::Schemata => {
            let made = objects.schemas().iter().map(|(_, name)| name.as_str());
            CATALOGS.into_iter().chain([PUBLIC]).chain(made).map(|n| schema(database, n)).collect()
        }
        Kind::InfoTables => tables().map(|object| table(database, object)).collect(),
        Kind::InfoColumns => {
            let known = sequences::all(txn)?;
            let known: HashMap<&str, &Sequence> =
                known.iter().map(|one| (one.schema.name.as_str(), one)).collect();
            tables().flat_map(|object| columns(database, object.table, &known)).collect()
        }
        Kind::TableConstraints => {
            tables().flat_map(|object| table_constraints(database, object, &objects)).collect()
        }
        Kind::KeyColumns => {
            let all: Vec<&TableInfo> = tables().map(|object| object.table).collect();
            all.iter().flat_map(|table| key_columns(database, table, &all)).collect()
        }
        Kind::ReferentialConstraints => {
            let all: Vec<&TableInfo> = tables().map(|object| object.table).collect();
            all.iter().flat_map(|table| referential(database, table, &all)).collect()
        }
        _ => {
            let known = sequences::all(txn)?;
            // Those of identity columns are told with them.
            let free = known.iter().filter(|one| !one.is_identity());
            free.map(|one| sequence(database, one)).collect()
        }
    })
}

fn yes(on: bool) -> Datum {
    text(if on { "YES" } else { "NO" })
}

/// So many columns that say nothing here.
fn nulls(row: &mut Row, count: usize) {
    row.extend(std::iter::repeat_n(Datum::Null, count));
}

/// A name of the store, in three columns.
fn name(database: &str, stored: &str) -> [Datum; 3] {
    [text(database), text(schema_of(stored)), text(bare(stored))]
}

fn schema(database: &str, name: &str) -> Row {
    let mut row = vec![text(database), text(name), text(USER)];
    nulls(&mut row, 4);
    row
}

fn table(database: &str, object: &Object<'_>) -> Row {
    let mut row = name(database, &object.table.name).to_vec();
    row.push(text(if object.is_view() { "VIEW" } else { "BASE TABLE" }));
    nulls(&mut row, 5);
    row.extend([yes(true), yes(false), Datum::Null]);
    row
}

fn columns(database: &str, table: &TableInfo, known: &HashMap<&str, &Sequence>) -> Vec<Row> {
    let one = |(at, column): (usize, &ColumnSchema)| {
        let notes = ColumnNotes::decode(&column.note);
        let (ty, udt) = match notes.modifier {
            Some(Modifier::Char(_)) => ("character", "bpchar"),
            Some(Modifier::Varchar(_)) => ("character varying", "varchar"),
            _ => {
                let ty = notes.type_of(column.kind);
                (ty.name(), ty.short_name())
            }
        };
        let (ty, udt) = match notes.element {
            None => (ty, udt),
            Some(_) if udt == "varchar" => ("ARRAY", "_varchar"),
            Some(element) => ("ARRAY", SqlType::Array(element).short_name()),
        };
        let mut row = name(database, &table.name).to_vec();
        let number = i32::try_from(at + 1).unwrap_or(i32::MAX);
        let identity = column.identity.as_ref().filter(|_| !notes.serial);
        let default = default_text(column, &notes).filter(|_| identity.is_none());
        row.extend([text(column.name.as_str()), Datum::Int4(number)]);
        row.extend([default.map_or(Datum::Null, text), yes(column.nullable), text(ty)]);
        let modifier = notes.modifier.filter(|_| notes.element.is_none());
        row.extend(sizes(notes.type_of(column.kind), modifier));
        // Parts of intervals, character sets.
        nulls(&mut row, 5);
        let locale = column.collation.as_ref().map(rightlink::Collation::name);
        match locale.or(notes.collation.map(ByteOrder::name)) {
            Some(known) => {
                let standard = crate::bind::collate::built_in(known).is_ok();
                let schema = if standard { CATALOGS[0] } else { PUBLIC };
                row.extend([text(database), text(schema), text(known)]);
            }
            None => nulls(&mut row, 3),
        }
        nulls(&mut row, 3);
        row.extend([text(database), text(CATALOGS[0]), text(udt)]);
        nulls(&mut row, 4);
        row.extend([text(number.to_string()), yes(false), yes(identity.is_some())]);
        match identity.and_then(|one| Some((one, known.get(one.sequence.as_str())?))) {
            Some((own, sequence)) => {
                row.push(text(if own.always { "ALWAYS" } else { "BY DEFAULT" }));
                let schema = &sequence.schema;
                let numbers = [schema.start, schema.increment, schema.max, schema.min];
                row.extend(numbers.map(|number| text(number.to_string())));
                row.push(yes(schema.cycle));
            }
            None => {
                nulls(&mut row, 5);
                row.push(yes(false));
            }
        }
        row.extend([text("NEVER"), Datum::Null, yes(true)]);
        row
    };
    table.columns.iter().enumerate().map(one).collect()
}

/// Lengths in characters and bytes; precision, its base and scale; digits of seconds.
fn sizes(ty: SqlType, modifier: Option<Modifier>) -> [Datum; 6] {
    const NULL: Datum = Datum::Null;
    let int = Datum::Int4;
    let whole = |bits: i32| [NULL, NULL, int(bits), int(2), int(0), NULL];
    let float = |bits: i32| [NULL, NULL, int(bits), int(2), NULL, NULL];
    let time = |digits: i32| [NULL, NULL, NULL, NULL, NULL, int(digits)];
    match (ty, modifier) {
        (_, Some(Modifier::Char(length) | Modifier::Varchar(length))) if length > 0 => {
            let length = i32::try_from(length).unwrap_or(i32::MAX);
            [int(length), int(length.saturating_mul(MAX_CHARACTER)), NULL, NULL, NULL, NULL]
        }
        (_, Some(Modifier::Numeric(precision, scale))) => {
            let precision = i32::try_from(precision).unwrap_or(i32::MAX);
            [NULL, NULL, int(precision), int(10), int(scale), NULL]
        }
        (_, Some(Modifier::Interval(_, digits))) => {
            time(digits.and_then(|digits| i32::try_from(digits).ok()).unwrap_or(6))
        }
        (SqlType::Text | SqlType::Bpchar, None | Some(Modifier::Varchar(0))) => {
            [NULL, int(MAX_TEXT), NULL, NULL, NULL, NULL]
        }
        (SqlType::Int2, None) => whole(16),
        (SqlType::Int4, None) => whole(32),
        (SqlType::Int8, None) => whole(64),
        (SqlType::Float4, None) => float(24),
        (SqlType::Float8, None) => float(53),
        (SqlType::Numeric, None) => [NULL, NULL, NULL, int(10), NULL, NULL],
        (SqlType::Date, None) => time(0),
        (SqlType::Timestamp | SqlType::Timestamptz | SqlType::Interval, None) => time(6),
        _ => [NULL; 6],
    }
}

/// Indexes that stand for a primary key or a unique constraint.
fn keys(table: &TableInfo) -> impl Iterator<Item = &IndexInfo> {
    table.indexes.iter().filter(|index| index.unique && index.is_whole())
}

fn table_constraints(database: &str, object: &Object<'_>, objects: &Objects) -> Vec<Row> {
    let table = object.table;
    let row = |called: &str, kind: &str, distinct: Datum| {
        let mut row = vec![text(database), text(schema_of(&table.name)), text(called)];
        row.extend(name(database, &table.name));
        row.extend([text(kind), yes(false), yes(false), yes(true), distinct]);
        row
    };
    let mut rows = Vec::new();
    for index in keys(table) {
        let (kind, distinct) = match index.primary {
            true => ("PRIMARY KEY", Datum::Null),
            false => ("UNIQUE", yes(!index.nulls_not_distinct)),
        };
        rows.push(row(bare(&index.name), kind, distinct));
    }
    for key in TableNotes::decode(&table.note).keys {
        rows.push(row(&key.name, "FOREIGN KEY", Datum::Null));
    }
    for (check, _) in constraints::checks(table) {
        rows.push(row(&check, "CHECK", Datum::Null));
    }
    for (at, column) in table.columns.iter().enumerate() {
        if !column.nullable {
            let (schema, oid) = (objects.schema_oid(&table.name), object.oid);
            let called = format!("{schema}_{oid}_{}_not_null", at + 1);
            rows.push(row(&called, "CHECK", Datum::Null));
        }
    }
    rows
}

fn key_columns(database: &str, table: &TableInfo, all: &[&TableInfo]) -> Vec<Row> {
    let row = |called: &str, column: &str, at: usize, of_parent: Option<usize>| {
        let place = |at: usize| Datum::Int4(i32::try_from(at + 1).unwrap_or(i32::MAX));
        let mut row = vec![text(database), text(schema_of(&table.name)), text(called)];
        row.extend(name(database, &table.name));
        row.extend([text(column), place(at), of_parent.map_or(Datum::Null, place)]);
        row
    };
    let mut rows = Vec::new();
    for index in keys(table) {
        let columns = index.columns.iter().enumerate();
        rows.extend(columns.map(|(at, key)| row(bare(&index.name), &key.name, at, None)));
    }
    for key in TableNotes::decode(&table.note).keys {
        let parent = parent_key(&key, all);
        for (at, (column, other)) in key.columns.iter().zip(&key.parent_columns).enumerate() {
            let place = parent.and_then(|(_, index)| {
                index.columns.iter().position(|column| column.name == *other)
            });
            rows.push(row(&key.name, column, at, place));
        }
    }
    rows
}

/// The table that a foreign key names, and the key of it.
fn parent_key<'t>(
    key: &ForeignKey,
    all: &[&'t TableInfo],
) -> Option<(&'t TableInfo, &'t IndexInfo)> {
    let parent = all.iter().copied().find(|table| table.name == key.parent)?;
    let fits = |index: &&IndexInfo| {
        index.columns.len() == key.parent_columns.len()
            && index.columns.iter().all(|column| key.parent_columns.contains(&column.name))
    };
    Some((parent, keys(parent).find(fits)?))
}

fn referential(database: &str, table: &TableInfo, all: &[&TableInfo]) -> Vec<Row> {
    let rule = |action: Action| {
        text(match action {
            Action::Nothing => "NO ACTION",
            Action::Restrict => "RESTRICT",
            Action::Cascade => "CASCADE",
            Action::SetNull => "SET NULL",
            Action::SetDefault => "SET DEFAULT",
        })
    };
    let one = |key: ForeignKey| {
        let mut row = vec![text(database), text(schema_of(&table.name)), text(key.name.as_str())];
        match parent_key(&key, all) {
            Some((parent, index)) => {
                row.extend([text(database), text(schema_of(&parent.name)), text(bare(&index.name))])
            }
            None => nulls(&mut row, 3),
        }
        row.extend([text("NONE"), rule(key.on_update), rule(key.on_delete)]);
        row
    };
    TableNotes::decode(&table.note).keys.into_iter().map(one).collect()
}

fn sequence(database: &str, one: &Sequence) -> Row {
    let schema = &one.schema;
    let bits = match one.ty {
        SqlType::Int2 => 16,
        SqlType::Int4 => 32,
        _ => 64,
    };
    let mut row = name(database, &schema.name).to_vec();
    row.extend([text(one.ty.name()), Datum::Int4(bits), Datum::Int4(2), Datum::Int4(0)]);
    let numbers = [schema.start, schema.min, schema.max, schema.increment];
    row.extend(numbers.map(|number| text(number.to_string())));
    row.push(yes(schema.cycle));
    row
}
