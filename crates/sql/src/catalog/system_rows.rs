//! Rows of catalogs about the catalogs themselves, and about the views of `information_schema`.
//!
//! Invariants: the rows are the same in every database, but for the names of the database and of
//! its owner; a column is told of the type that its values have here.
//! Does not do: their indexes, rules and comments (`system_parts`).

use std::sync::OnceLock;

use super::information::{name_of, sizes};
use super::numbers::{
    CATALOGS_OID, INFORMATION_OID, char, count, nulls, number, oid, short, text, yes,
};
use super::objects::Objects;
use super::relations::{Attribute, HEAP, TABLE_OID, attribute, is_collatable};
use super::system_indexes;
use super::system_parts;
use super::system_views::{self, Information, Kind, Placed, ToldColumn, View};
use super::types::Head;
use crate::names::CATALOGS;
use crate::roles::role::OWNER;
use crate::types::{Datum, Row, SqlType};

/// The number of the collation `C`, which texts of catalogs have.
const BYTE_ORDER: u32 = 950;

/// A check of a domain of `information_schema`.
pub(super) struct Check {
    pub(super) oid: u32,
    pub(super) name: &'static str,
    pub(super) domain: u32,
    pub(super) condition: &'static str,
    /// The same for people.
    pub(super) pretty: &'static str,
}

pub(super) const CHECKS: [Check; 2] = [
    Check {
        oid: 13_222,
        name: "cardinal_number_domain_check",
        domain: 13_221,
        condition: "(VALUE >= 0)",
        pretty: "VALUE >= 0",
    },
    Check {
        oid: 13_235,
        name: "yes_or_no_check",
        domain: 13_234,
        condition: "((VALUE)::text = ANY ((ARRAY['YES'::character varying, 'NO'::character \
                    varying])::text[]))",
        pretty: "VALUE::text = ANY (ARRAY['YES'::character varying, 'NO'::character \
                 varying]::text[])",
    },
];

fn schema_oid(schema: &str) -> u32 {
    if schema == CATALOGS[0] { CATALOGS_OID } else { INFORMATION_OID }
}

/// The rows of a relation that are about relations of the system.
pub(super) fn of(kind: Kind, objects: &Objects, database: &str) -> Vec<Row> {
    match kind {
        Kind::Class => system_views::numbered().map(|placed| class(placed, objects)).collect(),
        Kind::Attribute => system_parts::with_acls(attributes().to_vec(), objects),
        Kind::Type => system_views::numbered().flat_map(types).collect(),
        Kind::Tables => tables(&objects.owner_name(OWNER)),
        Kind::Information(Information::Tables) => standard_tables(database),
        Kind::Information(Information::Columns) => standard_columns(database),
        _ => Vec::new(),
    }
}

/// The properties of the columns of `view` beside their names and types.
fn told(view: &View) -> impl Iterator<Item = ToldColumn> {
    let rest = std::iter::repeat(ToldColumn::default());
    view.told.columns.iter().copied().chain(rest).take(view.columns.len())
}

/// A row of `pg_class`.
fn class(Placed { schema, view }: Placed, objects: &Objects) -> Row {
    let is_table = view.told.is_table;
    let mut row = vec![oid(view.oid), text(view.name), oid(schema_oid(schema))];
    row.extend([oid(view.told.row_type), oid(0), oid(OWNER)]);
    let tablespace = system_indexes::tablespace(view.told.is_shared);
    row.extend([oid(if is_table { HEAP } else { 0 }), oid(0), oid(tablespace), count(0)]);
    row.extend([Datum::Float4(-1.0), Datum::Int4(0), oid(0)]);
    row.extend([system_indexes::is_indexed(view), view.told.is_shared].map(Datum::Bool));
    row.push(char('p'));
    row.extend([char(if is_table { 'r' } else { 'v' }), short(view.columns.len()), short(0)]);
    row.push(Datum::Bool(!is_table));
    row.extend(std::iter::repeat_n(Datum::Bool(false), 4));
    row.extend([Datum::Bool(true), char('n'), Datum::Bool(false), oid(0), number(0), number(0)]);
    let acl = system_parts::acl(view).map_or(Datum::Null, |acl| objects.acl_texts(&acl));
    row.extend([acl, system_parts::options(view), Datum::Null]);
    row
}

/// Rows of `pg_attribute`.
fn attributes() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        system_views::numbered().flat_map(|placed| of_columns(placed.view)).collect()
    })
}

fn of_columns(view: &'static View) -> impl Iterator<Item = Row> {
    let number = (view.told.is_table && view.has_table_number()).then(|| TABLE_OID.row(view.oid));
    let columns =
        view.columns.iter().zip(told(view)).enumerate().map(move |(at, ((name, ty), told))| {
            let shown = told.domain.map_or_else(|| ty.oid(), |domain| domain.oid);
            attribute(&Attribute {
                base: ty.oid(),
                collation: if is_collatable(ty.oid()) { BYTE_ORDER } else { 0 },
                is_array: ty.is_array(),
                not_null: told.is_required,
                ..Attribute::plain(view.oid, at + 1, name, shown)
            })
        });
    columns.chain(number)
}

/// Rows of `pg_type`: the type of the rows of a catalog, and of arrays of them.
fn types(Placed { schema, view }: Placed) -> [Row; 2] {
    let head = || Head {
        oid: view.told.row_type,
        name: view.name,
        schema: schema_oid(schema),
        owner: OWNER,
        length: -1,
        kind: 'c',
        category: 'C',
        element: 0,
        array: view.told.array_type,
        relation: view.oid,
    };
    [head().of_records(), head().of_arrays('d')]
}

/// Rows of `pg_tables`.
fn tables(owner: &str) -> Vec<Row> {
    let tables = system_views::numbered().filter(|placed| placed.view.told.is_table);
    let row = |Placed { schema, view }| {
        let mut row = vec![text(schema), text(view.name), text(owner), Datum::Null];
        row.extend(std::iter::repeat_n(Datum::Bool(false), 4));
        row
    };
    tables.map(row).collect()
}

/// Rows of `information_schema.tables`.
fn standard_tables(database: &str) -> Vec<Row> {
    let row = |Placed { schema, view }| {
        let mut row = vec![text(database), text(schema), text(view.name)];
        row.push(text(if view.told.is_table { "BASE TABLE" } else { "VIEW" }));
        nulls(&mut row, 5);
        row.extend([yes(false), yes(false), Datum::Null]);
        row
    };
    system_views::numbered().map(row).collect()
}

/// Rows of `information_schema.columns`.
fn standard_columns(database: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for Placed { schema, view } in system_views::numbered() {
        for (at, ((name, ty), told)) in view.columns.iter().zip(told(view)).enumerate() {
            let mut row = vec![text(database), text(schema), text(view.name), text(*name)];
            row.extend(standard_column(database, at + 1, *ty, told));
            rows.push(row);
        }
    }
    rows
}

/// The columns of `information_schema.columns` behind the name of one.
fn standard_column(database: &str, place: usize, ty: SqlType, told: ToldColumn) -> Row {
    let catalogs = CATALOGS[0];
    let (shown, udt) = match told.domain {
        Some(domain) => (domain.base, domain.base_name),
        None if ty.is_array() => ("ARRAY", ty.short_name()),
        None => (ty.name(), ty.short_name()),
    };
    let place = i32::try_from(place).unwrap_or(i32::MAX);
    let mut row = vec![Datum::Int4(place), Datum::Null, yes(!told.is_required), text(shown)];
    row.extend(sizes(ty, None));
    // Intervals and character sets.
    nulls(&mut row, 5);
    match is_collatable(ty.oid()) {
        true => row.extend([text(database), text(catalogs), text("C")]),
        false => nulls(&mut row, 3),
    }
    match told.domain {
        Some(domain) => row.extend(name_of(database, CATALOGS[1], domain.name)),
        None => nulls(&mut row, 3),
    }
    row.extend(name_of(database, catalogs, udt));
    nulls(&mut row, 4);
    row.extend([text(place.to_string()), yes(false), yes(false)]);
    nulls(&mut row, 5);
    row.extend([yes(false), text("NEVER"), Datum::Null, yes(false)]);
    row
}
