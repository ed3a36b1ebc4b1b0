//! Rows of `pg_constraint` and `pg_depend`.
//!
//! Invariants: columns are those of PostgreSQL 15. Does not do: finding the constraints (`rules`).

use super::numbers::{
    INFORMATION_OID, PG_ATTRDEF, PG_CLASS, PG_CONSTRAINT, PG_PROC, PG_REWRITE, PG_TYPE, array,
    char, oid, relation_oid, short, text,
};
use super::objects::Objects;
use super::relations::{default_oid, default_text, rewrite_oid, type_oid};
use super::rules::{self, Constraint, Key, Reference, Rule, place};
use super::system_rows;
use crate::error::Result;
use crate::names::bare;
use crate::notes::{Action, ColumnNotes, Deferral, TableNotes};
use crate::parse;
use crate::schemas;
use crate::types::{Datum, Row, SqlType};

/// Rows of `pg_constraint`: keys, then checks and foreign keys.
pub(super) fn rows(objects: &Objects) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for key in objects.keys() {
        rows.push(key_row(key, objects)?);
    }
    for one in objects.constraints() {
        rows.push(one.row(objects)?);
    }
    for domain in objects.domains() {
        for check in domain.checks() {
            let own = domain.check_oid(check);
            let mut row = head(own, &check.name, &domain.stored, 'c', objects);
            row[6] = Datum::Bool(check.is_valid);
            rows.push(row_of_domain(row, domain.oid, &check.text));
        }
    }
    rows.extend(system_rows::CHECKS.iter().map(|check| {
        let mut row = vec![oid(check.oid), text(check.name), oid(INFORMATION_OID), char('c')];
        row.extend([Datum::Bool(false), Datum::Bool(false), Datum::Bool(true)]);
        row_of_domain(row, check.domain, check.pretty)
    }));
    Ok(rows)
}

/// The row of a check of a domain from its first columns.
fn row_of_domain(mut row: Row, domain: u32, condition: &str) -> Row {
    row.extend([0, domain, 0, 0, 0].map(oid));
    row.extend([' ', ' ', ' '].map(char));
    row.extend([Datum::Bool(true), Datum::Int4(0), Datum::Bool(false)]);
    row.extend(std::iter::repeat_n(Datum::Null, 7));
    row.push(text(condition));
    row
}

/// The columns of `pg_constraint` up to the number of its index.
fn head(own: u32, name: &str, stored: &str, kind: char, objects: &Objects) -> Row {
    let mut row = vec![oid(own), text(name), oid(objects.schema_oid(stored)), char(kind)];
    row.extend([Datum::Bool(false), Datum::Bool(false), Datum::Bool(true)]);
    row
}

fn places(columns: &[usize]) -> Result<Datum> {
    array(SqlType::Int2, columns.iter().map(|place| short(*place)).collect())
}

fn key_row(key: Key<'_>, objects: &Objects) -> Result<Row> {
    let Key { table, index } = key;
    let kind = rules::key_kind(table, index).unwrap_or_default();
    let own = relation_oid(index.id);
    let letter = if kind.primary { 'p' } else { 'u' };
    let mut row = head(own, bare(&index.name), &table.name, letter, objects);
    row.splice(DEFERRABLE..DEFERRABLE + 2, deferral(kind.deferral));
    row.extend([relation_oid(table.id), 0, own, 0, 0].map(oid));
    row.extend([' ', ' ', ' '].map(char));
    row.extend([Datum::Bool(true), Datum::Int4(0), Datum::Bool(true)]);
    let columns: Vec<usize> =
        index.columns.iter().filter_map(|key| place(table, &key.name)).collect();
    row.push(places(&columns)?);
    row.extend(std::iter::repeat_n(Datum::Null, 7));
    Ok(row)
}

/// The place of `condeferrable`, with `condeferred` behind it.
const DEFERRABLE: usize = 4;

/// `condeferrable` and `condeferred`.
fn deferral(deferral: Deferral) -> [Datum; 2] {
    [deferral != Deferral::Never, deferral == Deferral::Deferred].map(Datum::Bool)
}

/// The letter of what happens to rows whose parent goes or changes.
fn letter(action: Action) -> char {
    match action {
        Action::Nothing => 'a',
        Action::Restrict => 'r',
        Action::Cascade => 'c',
        Action::SetNull => 'n',
        Action::SetDefault => 'd',
    }
}

impl Constraint {
    fn row(&self, objects: &Objects) -> Result<Row> {
        let kind = if matches!(self.rule, Rule::Check(_)) { 'c' } else { 'f' };
        let mut row = head(self.oid, &self.name, &self.stored, kind, objects);
        row.extend([self.table, 0].map(oid));
        match &self.rule {
            Rule::Check(condition) => {
                row.extend([0, 0, 0].map(oid));
                row.extend([' ', ' ', ' '].map(char));
                row.extend([Datum::Bool(true), Datum::Int4(0), Datum::Bool(false)]);
                row.push(places(&self.columns)?);
                row.extend(std::iter::repeat_n(Datum::Null, 6));
                row.push(text(condition));
            }
            Rule::Reference(reference) => {
                let Reference { key, parent, index, columns } = &**reference;
                row.splice(DEFERRABLE..DEFERRABLE + 2, deferral(key.deferral));
                row.extend([*index, 0, *parent].map(oid));
                row.extend([letter(key.on_update), letter(key.on_delete), 's'].map(char));
                row.extend([Datum::Bool(true), Datum::Int4(0), Datum::Bool(true)]);
                row.extend([places(&self.columns)?, places(columns)?]);
                row.extend(std::iter::repeat_n(Datum::Null, 6));
            }
        }
        Ok(row)
    }
}

/// Rows of `pg_depend`: sequences and defaults on their columns, indexes on their constraints,
/// constraints on columns, views on what they read, functions on types, and types of rows on their
/// relations.
pub(super) fn dependencies(objects: &Objects) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut add = |from: [u32; 2], to: [u32; 2], part: usize, kind: char| {
        let part = Datum::Int4(i32::try_from(part).unwrap_or(0));
        let mut row = from.map(oid).to_vec();
        row.push(Datum::Int4(0));
        row.extend(to.map(oid));
        row.extend([part, char(kind)]);
        rows.push(row);
    };
    for one in objects.sequences() {
        if let Some(owner) = one.owner {
            let kind = if owner.identity { 'i' } else { 'a' };
            add([PG_CLASS, one.oid], [PG_CLASS, owner.table], owner.column, kind);
        }
    }
    for object in objects.tables() {
        // The type of its rows, which has its number.
        add([PG_TYPE, object.oid], [PG_CLASS, object.oid], 0, 'i');
        for (at, column) in object.table.columns.iter().enumerate() {
            if let Some(shown) = default_text(column, &ColumnNotes::decode(&column.note)) {
                let own = default_oid(object.oid, at + 1);
                add([PG_ATTRDEF, own], [PG_CLASS, object.oid], at + 1, 'a');
                parse::with_sequences(&shown, |name| {
                    let stored = schemas::find_kept(&schemas::parts_of(name)?)?.name;
                    if let Some(asked) = objects.relation_named(&stored) {
                        add([PG_ATTRDEF, own], [PG_CLASS, asked], 0, 'n');
                    }
                    Ok(None)
                })?;
            }
        }
        for one in objects.generated(&object) {
            let own = default_oid(object.oid, one.place);
            add([PG_ATTRDEF, own], [PG_CLASS, object.oid], one.place, 'i');
            for part in one.from {
                add([PG_ATTRDEF, own], [PG_CLASS, object.oid], part, 'n');
            }
        }
        for (at, column) in object.table.columns.iter().enumerate() {
            let notes = ColumnNotes::decode(&column.note);
            if notes.made.is_some() || notes.domain.is_some() {
                let ty = type_oid(column, &notes, objects);
                add([PG_CLASS, object.oid], [PG_TYPE, ty], at + 1, 'n');
            }
        }
        let Some(notes) = TableNotes::decode(&object.table.note).view else { continue };
        let own = rewrite_oid(object.oid);
        add([PG_REWRITE, own], [PG_CLASS, object.oid], 0, 'i');
        for source in &notes.sources {
            let Some(read) = objects.relation_named(&source.name) else { continue };
            add([PG_REWRITE, own], [PG_CLASS, read], 0, 'n');
            let table = objects.table(&source.name).map(|object| object.table);
            for column in source.columns.iter().filter(|column| column.is_used) {
                let part = table.and_then(|table| place(table, &column.name));
                part.into_iter()
                    .for_each(|part| add([PG_REWRITE, own], [PG_CLASS, read], part, 'n'));
            }
        }
    }
    for function in objects.functions() {
        let is_made = |ty: &SqlType| {
            matches!(ty.element().unwrap_or(*ty), SqlType::Enum(_) | SqlType::Composite(_))
        };
        let made = function.parts().iter().map(|part| part.ty).filter(is_made);
        made.for_each(|ty| add([PG_PROC, function.oid], [PG_TYPE, ty.oid()], 0, 'n'));
    }
    for Key { table, index } in objects.keys() {
        let (own, table_oid) = (relation_oid(index.id), relation_oid(table.id));
        add([PG_CLASS, own], [PG_CONSTRAINT, own], 0, 'i');
        for part in index.columns.iter().filter_map(|key| place(table, &key.name)) {
            add([PG_CONSTRAINT, own], [PG_CLASS, table_oid], part, 'a');
        }
    }
    for one in objects.constraints() {
        for part in &one.columns {
            add([PG_CONSTRAINT, one.oid], [PG_CLASS, one.table], *part, 'a');
            // The condition of a check reads them, too.
            if matches!(one.rule, Rule::Check(_)) {
                add([PG_CONSTRAINT, one.oid], [PG_CLASS, one.table], *part, 'n');
            }
        }
        if let Rule::Reference(reference) = &one.rule {
            add([PG_CONSTRAINT, one.oid], [PG_CLASS, reference.index], 0, 'n');
            for part in &reference.columns {
                add([PG_CONSTRAINT, one.oid], [PG_CLASS, reference.parent], *part, 'n');
            }
        }
    }
    Ok(rows)
}
