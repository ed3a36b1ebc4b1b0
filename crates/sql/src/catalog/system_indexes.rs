//! Indexes of the catalogs, and the constraints for which they stand.
//!
//! A catalog has the indexes that PostgreSQL 15 gives it. Nothing of ours is read through them:
//! clients look for their names and columns.
//!
//! Invariants: the numbers are PostgreSQL's; the file names no catalog that is not here.
//! Does not do: rules, privileges and comments (`system_parts`).

use std::sync::OnceLock;

use rightlink::IndexMethod;

use super::builtin;
use super::numbers::{CATALOGS_OID, array, char, count, number, oid, short, text, vector};
use super::relations::{Attribute, attribute};
use super::system_views::{self, Kind, Placed, View};
use crate::error::Result;
use crate::roles::role::OWNER;
use crate::types::{Datum, Row, SqlType};

/// The operator class of names, whose keys are C strings.
const NAME_OPS: u32 = 10_028;
const C_STRING: u32 = 2275;

/// An index of a catalog.
struct Index {
    oid: u32,
    name: &'static str,
    /// The number of its constraint and the constraint's letter, of an index that stands for one.
    constraint: Option<(u32, char)>,
    table: Placed,
    is_unique: bool,
    is_primary: bool,
    /// Places of its columns in the table.
    columns: Vec<usize>,
    collations: Vec<u32>,
    classes: Vec<u32>,
}

/// Indexes, from a line each: number, name, number and letter of the constraint, table, whether it
/// is unique and whether primary, and of the columns the places, collations and operator classes.
fn indexes() -> &'static [Index] {
    static INDEXES: OnceLock<Vec<Index>> = OnceLock::new();
    INDEXES.get_or_init(|| {
        let file = include_str!("builtin/system_indexes.tsv");
        file.lines().map(index).collect()
    })
}

fn index(line: &'static str) -> Index {
    let fields: Vec<&str> = line.split('\t').collect();
    let number = |at: usize| fields[at].parse::<u32>().expect("a number");
    let numbers =
        |at: usize| fields[at].split(' ').map(|one| one.parse::<u32>().expect("a number"));
    let constraint = Some(number(2)).filter(|own| *own != 0);
    Index {
        oid: number(0),
        name: fields[1],
        constraint: constraint.map(|own| (own, if fields[3] == "p" { 'p' } else { 'u' })),
        table: system_views::of_oid(number(4)).expect("a catalog has this number"),
        is_unique: fields[5] == "t",
        is_primary: fields[6] == "t",
        columns: numbers(7).map(|place| place as usize).collect(),
        collations: numbers(8).collect(),
        classes: numbers(9).collect(),
    }
}

/// Has a relation of the system indexes?
pub(super) fn is_indexed(view: &View) -> bool {
    indexes().iter().any(|one| one.table.view.oid == view.oid)
}

/// The rows of a catalog about indexes of the system and their constraints.
pub(super) fn of(kind: Kind) -> Result<Vec<Row>> {
    Ok(match kind {
        Kind::Class => indexes().iter().map(Index::class).collect(),
        Kind::Attribute => indexes().iter().flat_map(Index::attributes).collect(),
        Kind::Index => indexes().iter().map(Index::row).collect::<Result<_>>()?,
        Kind::Constraint => {
            let rows: Result<Vec<_>> = indexes().iter().map(Index::constraint).collect();
            rows?.into_iter().flatten().collect()
        }
        _ => Vec::new(),
    })
}

/// The number of the tablespace of what all databases have together, 0 for that of the database.
pub(super) fn tablespace(is_shared: bool) -> u32 {
    if is_shared { 1_664 } else { 0 }
}

impl Index {
    fn class(&self) -> Row {
        let mut row = vec![oid(self.oid), text(self.name), oid(CATALOGS_OID)];
        let is_shared = self.table.view.told.is_shared;
        let btree = builtin::method_number(IndexMethod::BTree);
        row.extend([0, 0, OWNER, btree, 0, tablespace(is_shared)].map(oid));
        row.extend([count(0), Datum::Float4(-1.0), Datum::Int4(0), oid(0), Datum::Bool(false)]);
        row.extend([Datum::Bool(is_shared), char('p'), char('i')]);
        row.extend([short(self.columns.len()), short(0)]);
        row.extend(std::iter::repeat_n(Datum::Bool(false), 5));
        row.extend([Datum::Bool(true), char('n'), Datum::Bool(false), oid(0)]);
        row.extend([number(0), number(0), Datum::Null, Datum::Null, Datum::Null]);
        row
    }

    fn attributes(&self) -> impl Iterator<Item = Row> {
        let columns = self.columns.iter().zip(&self.classes).zip(&self.collations).enumerate();
        columns.map(|(at, ((place, class), collation))| {
            let (name, ty) = self.table.view.columns[*place - 1];
            let ty = if *class == NAME_OPS { C_STRING } else { ty.oid() };
            let plain = Attribute::plain(self.oid, at + 1, name, ty);
            attribute(&Attribute { collation: *collation, ..plain })
        })
    }

    fn row(&self) -> Result<Row> {
        let width = self.columns.len();
        let mut row = vec![oid(self.oid), oid(self.table.view.oid), short(width), short(width)];
        row.extend([self.is_unique, false, self.is_primary, false, true].map(Datum::Bool));
        row.extend([false, true, false, true, true, false].map(Datum::Bool));
        let numbers = |all: &[u32]| all.iter().copied().map(oid).collect::<Vec<_>>();
        let columns = self.columns.iter().copied().map(short).collect();
        row.push(vector(SqlType::Int2, columns)?);
        row.push(vector(SqlType::Oid, numbers(&self.collations))?);
        row.push(vector(SqlType::Oid, numbers(&self.classes))?);
        row.push(vector(SqlType::Int2, vec![short(0); width])?);
        row.extend([Datum::Null, Datum::Null]);
        Ok(row)
    }

    fn constraint(&self) -> Result<Option<Row>> {
        let Some((own, letter)) = self.constraint else { return Ok(None) };
        let mut row = vec![oid(own), text(self.name), oid(CATALOGS_OID), char(letter)];
        row.extend([false, false, true].map(Datum::Bool));
        row.extend([self.table.view.oid, 0, self.oid, 0, 0].map(oid));
        row.extend([' ', ' ', ' '].map(char));
        row.extend([Datum::Bool(true), Datum::Int4(0), Datum::Bool(true)]);
        let places = self.columns.iter().copied().map(short).collect();
        row.push(array(SqlType::Int2, places)?);
        row.extend(std::iter::repeat_n(Datum::Null, 7));
        Ok(Some(row))
    }

    /// The statement that would make it.
    fn statement(&self) -> String {
        let unique = if self.is_unique { "UNIQUE " } else { "" };
        let (name, table) = (self.name, self.table.view.name);
        let schema = self.table.schema;
        format!("CREATE {unique}INDEX {name} ON {schema}.{table} USING btree ({})", self.keys())
    }

    /// The names of its columns.
    fn keys(&self) -> String {
        let name = |place: &usize| self.table.view.columns[*place - 1].0;
        self.columns.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

/// The statement that would make the index of the system that has a number, or the name of one of
/// its columns.
pub(super) fn index_definition(number: u32, place: usize) -> Option<String> {
    let one = numbered(number)?;
    match place {
        0 => Some(one.statement()),
        place => {
            let column = *one.columns.get(place - 1)?;
            Some(one.table.view.columns[column - 1].0.to_owned())
        }
    }
}

/// The definition of the constraint of the system that has a number.
pub(super) fn constraint_definition(number: u32) -> Option<String> {
    let is_it = |one: &&Index| one.constraint.is_some_and(|(own, _)| own == number);
    let one = indexes().iter().find(is_it)?;
    let kind = if one.is_primary { "PRIMARY KEY" } else { "UNIQUE" };
    Some(format!("{kind} ({})", one.keys()))
}

/// The name of the index of the system that has a number.
pub(super) fn index_name(number: u32) -> Option<&'static str> {
    numbered(number).map(|one| one.name)
}

fn numbered(number: u32) -> Option<&'static Index> {
    let at = indexes().binary_search_by_key(&number, |one| one.oid).ok()?;
    Some(&indexes()[at])
}

/// The constraint of the system that has a number, in words.
pub(super) fn described_constraint(number: u32) -> Option<String> {
    let is_it = |one: &&Index| one.constraint.is_some_and(|(own, _)| own == number);
    let one = indexes().iter().find(is_it)?;
    Some(format!("constraint {} on table {}", one.name, one.table.shown()))
}

/// The number of the index of the system that has a name.
pub(super) fn index_named(name: &str) -> Option<u32> {
    indexes().iter().find(|one| one.name == name).map(|one| one.oid)
}
