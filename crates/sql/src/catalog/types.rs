//! Rows of `pg_type` and `pg_enum`, and names of types that users made.
//!
//! Invariants: columns are those of PostgreSQL 15. Does not do: types that are there without being
//! made (`builtin`).

use super::builtin;
use super::numbers::{char, made_oid, oid, text};
use super::objects::{DomainObject, MadeKind, MadeObject, Objects};
use super::relations::base_oid;
use super::system_views::{TYPES, View};
use crate::error::Result;
use crate::names::{SearchPath, bare, full_reference, identifier};
use crate::notes::ColumnNotes;
use crate::roles::role::OWNER;
use crate::schemas;
use crate::types::declared::Modifier;
use crate::types::enums::code_text;
use crate::types::{Datum, RegKind, Registered, Row};

/// Rows of `pg_type`.
pub(super) fn rows(view: &View, objects: &Objects) -> Result<Vec<Row>> {
    let mut rows = builtin::rows(view, TYPES)?;
    for one in objects.types() {
        rows.push(row(one, objects));
        rows.push(array_row(one, objects));
    }
    let places = Places::of(view);
    let mut of_domains = Vec::with_capacity(objects.domains().len());
    for one in objects.domains() {
        let base = oid(base_oid(&one.column, &ColumnNotes::decode(&one.column.note), objects));
        let of_base = rows.iter().find(|row| row[0] == base);
        of_domains.extend(of_base.map(|row| domain_row(one, row, objects, &places)));
    }
    rows.extend(of_domains);
    Ok(rows)
}

fn function(oid: u32, name: &str) -> Datum {
    Registered::datum(RegKind::Proc, oid, Some(name.to_owned()))
}

/// The columns of `pg_type` from its number to the type of its arrays.
struct Head<'h> {
    oid: u32,
    name: &'h str,
    length: i16,
    kind: char,
    category: char,
    subscript: Datum,
    element: u32,
    array: u32,
    /// The number that it has among relations.
    relation: u32,
}

fn head(one: &MadeObject, objects: &Objects, head: Head<'_>) -> Row {
    let mut row = vec![oid(head.oid), text(head.name)];
    row.extend([oid(objects.schema_oid(&one.stored)), oid(one.owner), Datum::Int2(head.length)]);
    row.extend([Datum::Bool(head.length > 0), char(head.kind), char(head.category)]);
    row.extend([
        Datum::Bool(false),
        Datum::Bool(true),
        char(','),
        oid(head.relation),
        head.subscript,
    ]);
    row.extend([oid(head.element), oid(head.array)]);
    row
}

/// The columns behind the functions of a type.
fn tail(row: &mut Row, align: char, storage: char) {
    row.extend([char(align), char(storage), Datum::Bool(false), oid(0), Datum::Int4(-1)]);
    row.extend([Datum::Int4(0), oid(0), Datum::Null, Datum::Null, Datum::Null]);
}

fn none() -> Datum {
    function(0, "-")
}

fn row(one: &MadeObject, objects: &Objects) -> Row {
    let is_enum = matches!(one.kind, MadeKind::Enum(_));
    let mut row = head(
        one,
        objects,
        Head {
            oid: one.oid,
            name: bare(&one.stored),
            length: if is_enum { 4 } else { -1 },
            kind: if is_enum { 'e' } else { 'c' },
            category: if is_enum { 'E' } else { 'C' },
            subscript: none(),
            element: 0,
            array: one.array_oid,
            relation: if is_enum { 0 } else { one.oid },
        },
    );
    row.extend(match is_enum {
        true => [function(3506, "enum_in"), function(3507, "enum_out")],
        false => [function(2290, "record_in"), function(2291, "record_out")],
    });
    row.extend(match is_enum {
        true => [function(3532, "enum_recv"), function(3533, "enum_send")],
        false => [function(2402, "record_recv"), function(2403, "record_send")],
    });
    row.extend([none(), none(), none()]);
    if is_enum {
        tail(&mut row, 'i', 'p')
    } else {
        tail(&mut row, 'd', 'x')
    }
    row
}

fn array_row(one: &MadeObject, objects: &Objects) -> Row {
    let mut row = head(
        one,
        objects,
        Head {
            oid: one.array_oid,
            name: &format!("_{}", bare(&one.stored)),
            length: -1,
            kind: 'b',
            category: 'A',
            subscript: function(6179, "array_subscript_handler"),
            element: one.oid,
            array: 0,
            relation: 0,
        },
    );
    row.extend([function(750, "array_in"), function(751, "array_out")]);
    row.extend([function(2400, "array_recv"), function(2401, "array_send")]);
    row.extend([none(), none(), function(3816, "array_typanalyze")]);
    tail(&mut row, if matches!(one.kind, MadeKind::Enum(_)) { 'i' } else { 'd' }, 'x');
    row
}

/// Rows of `pg_enum`.
pub(super) fn labels(objects: &Objects) -> Vec<Row> {
    let of_type = |one: &MadeObject| {
        let number = one.oid;
        let labels = if let MadeKind::Enum(ty) = one.kind { ty.labels() } else { &[] };
        labels.iter().enumerate().map(move |(at, label)| {
            let own = made_oid(number, &code_text(&label.code));
            let place = Datum::Float4((at + 1) as f32);
            vec![oid(own), oid(number), place, text(label.text.as_str())]
        })
    };
    objects.types().iter().flat_map(of_type).collect()
}

/// The row of a domain: that of its type, but for what the domain says itself.
fn domain_row(one: &DomainObject, of_base: &Row, objects: &Objects, places: &Places) -> Row {
    let mut row = of_base.clone();
    let notes = ColumnNotes::decode(&one.column.note);
    let below = notes.domain.as_ref().and_then(|below| objects.domain(below));
    let base = below.map_or(of_base[0].clone(), |below| oid(below.oid));
    (row[0], row[1]) = (oid(one.oid), text(bare(&one.stored)));
    row[2] = oid(objects.schema_oid(&one.stored));
    row[places.owner] = oid(one.notes.owner.unwrap_or(OWNER));
    let not_null = one.notes.domain.as_ref().is_some_and(|domain| domain.not_null);
    row[places.kind] = char('d');
    row[places.preferred] = Datum::Bool(false);
    (row[places.element], row[places.array]) = (oid(0), oid(0));
    row[places.subscript] = none();
    row[places.input] = function(2597, "domain_in");
    row[places.receive] = function(2598, "domain_recv");
    (row[places.modify_in], row[places.modify_out]) = (none(), none());
    row[places.not_null] = Datum::Bool(not_null);
    row[places.base] = base;
    row[places.modifier] = Datum::Int4(notes.modifier.map_or(-1, Modifier::number));
    row[places.dimensions] = Datum::Int4(i32::from(notes.is_array()));
    let default = notes.default.map_or(Datum::Null, text);
    (row[places.default_tree], row[places.default]) = (default.clone(), default);
    row
}

/// Places of columns of `pg_type`.
struct Places {
    owner: usize,
    kind: usize,
    preferred: usize,
    subscript: usize,
    element: usize,
    array: usize,
    input: usize,
    receive: usize,
    modify_in: usize,
    modify_out: usize,
    not_null: usize,
    base: usize,
    modifier: usize,
    dimensions: usize,
    default_tree: usize,
    default: usize,
}

impl Places {
    fn of(view: &View) -> Places {
        let at = |name: &str| view.columns.iter().position(|(known, _)| *known == name);
        let at = |name: &str| at(name).expect("pg_type has this column");
        Places {
            owner: at("typowner"),
            kind: at("typtype"),
            preferred: at("typispreferred"),
            subscript: at("typsubscript"),
            element: at("typelem"),
            array: at("typarray"),
            input: at("typinput"),
            receive: at("typreceive"),
            modify_in: at("typmodin"),
            modify_out: at("typmodout"),
            not_null: at("typnotnull"),
            base: at("typbasetype"),
            modifier: at("typtypmod"),
            dimensions: at("typndims"),
            default_tree: at("typdefaultbin"),
            default: at("typdefault"),
        }
    }
}

impl Objects {
    /// The name by which a type is shown, if it is one that was made.
    pub(crate) fn shown_type(&self, oid: u32, path: &SearchPath) -> Option<String> {
        let (stored, is_array) = self.made_numbered(oid)?;
        let name = match self.type_is_visible(oid, path) {
            true => identifier(bare(stored)),
            false => full_reference(stored),
        };
        Some(if is_array { format!("{name}[]") } else { name })
    }

    /// A type that was made, which the store calls so, as a statement names it that runs by a path.
    pub(super) fn spelled_type(&self, stored: &str, path: &SearchPath) -> String {
        let shown = self.number_of_type(stored).and_then(|oid| self.shown_type(oid, path));
        shown.unwrap_or_else(|| full_reference(stored))
    }

    /// The number of the type that a text names, if it is one that was made.
    pub(super) fn made_type(&self, name: &str, path: &SearchPath) -> Result<Option<u32>> {
        let (plain, is_array) = match name.trim().strip_suffix("[]") {
            Some(element) => (element, true),
            None => (name.trim(), false),
        };
        let found = self.type_named(&schemas::parts_of(plain)?, path);
        let array = |oid: u32| self.types().iter().find(|one| one.oid == oid);
        Ok(match is_array {
            true => found.and_then(array).map(|one| one.array_oid),
            false => found,
        })
    }
}
