//! Rows of `pg_constraint`.
//!
//! Invariants: columns are those of PostgreSQL 15. Does not do: finding the constraints (`rules`).

use super::numbers::{INFORMATION_OID, array, char, oid, relation_oid, short, text};
use super::objects::Objects;
use super::rules::{self, Constraint, Key, Reference, Rule, place};
use super::system_rows;
use crate::error::Result;
use crate::names::bare;
use crate::notes::{Action, Deferral};
use crate::oids::key_oid;
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
    let own = key_oid(index.id);
    let letter = if kind.primary { 'p' } else { 'u' };
    let mut row = head(own, bare(&index.name), &table.name, letter, objects);
    row.splice(DEFERRABLE..DEFERRABLE + 2, deferral(kind.deferral));
    row.extend([relation_oid(table.id), 0, relation_oid(index.id), 0, 0].map(oid));
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
