//! Rows of `pg_type` and `pg_enum`, and names of types that users made.
//!
//! Invariants: columns are those of PostgreSQL 15. Does not do: types that are there without being
//! made (`builtin`, `system_rows`).

use std::collections::{HashMap, HashSet};

use super::builtin;
use super::numbers::{char, made_oid, oid, text};
use super::objects::Objects;
use super::relations::base_oid;
use super::system_views;
use super::system_views::{TYPES, View};
use super::type_objects::{DomainObject, MadeKind, MadeObject};
use crate::error::Result;
use crate::names::{CATALOGS, SearchPath, bare, full_reference, identifier, schema_of};
use crate::notes::ColumnNotes;
use crate::roles::role::OWNER;
use crate::schemas;
use crate::types::declared::Modifier;
use crate::types::enums::code_text;
use crate::types::{Datum, RegKind, Registered, Row, SqlType};

/// Most bytes of a name.
const MAX_NAME: usize = 63;

/// Rows of `pg_type`.
pub(super) fn rows(view: &View, objects: &Objects) -> Result<Vec<Row>> {
    let mut rows = builtin::rows(view, TYPES)?;
    let names = array_names(objects);
    for one in objects.types() {
        let [own, mut arrays] = rows_of(one, objects);
        arrays[1] = text(names[&one.oid].as_str());
        rows.extend([own, arrays]);
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

/// Names of the types of arrays of types that were made, by the numbers of the latter: with more
/// `_` in front where another type has the name, as PostgreSQL finds them.
fn array_names(objects: &Objects) -> HashMap<u32, String> {
    let domains = objects.domains().iter().map(|one| one.stored.as_str());
    let made = objects.types().iter().map(|one| one.stored.as_str());
    let mut taken: HashSet<(&str, String)> =
        made.chain(domains).map(|stored| (schema_of(stored), bare(stored).to_owned())).collect();
    let mut in_order: Vec<&MadeObject> = objects.types().iter().collect();
    in_order.sort_by_key(|one| one.array_oid);
    let mut names = HashMap::new();
    for one in in_order {
        let mut name = array_name(bare(&one.stored));
        while !taken.insert((schema_of(&one.stored), name.clone())) {
            name = array_name(&name);
        }
        names.insert(one.oid, name);
    }
    names
}

/// The name with a `_` in front, as far as it is no longer than a name can be.
fn array_name(name: &str) -> String {
    let mut name = format!("_{name}");
    while name.len() > MAX_NAME {
        name.pop();
    }
    name
}

fn function(oid: u32, name: &str) -> Datum {
    Registered::datum(RegKind::Proc, oid, Some(name.to_owned()))
}

/// The columns of `pg_type` from its number to the type of its arrays.
pub(super) struct Head<'h> {
    pub(super) oid: u32,
    pub(super) name: &'h str,
    pub(super) schema: u32,
    pub(super) owner: u32,
    pub(super) length: i16,
    pub(super) kind: char,
    pub(super) category: char,
    pub(super) element: u32,
    pub(super) array: u32,
    /// The number that it has among relations.
    pub(super) relation: u32,
}

impl Head<'_> {
    fn row(self, subscript: Datum) -> Row {
        let mut row = vec![oid(self.oid), text(self.name)];
        row.extend([oid(self.schema), oid(self.owner), Datum::Int2(self.length)]);
        row.extend([Datum::Bool(self.length > 0), char(self.kind), char(self.category)]);
        row.extend([Datum::Bool(false), Datum::Bool(true), char(','), oid(self.relation)]);
        row.extend([subscript, oid(self.element), oid(self.array)]);
        row
    }

    /// The row of a type of rows.
    pub(super) fn of_records(self) -> Row {
        let mut row = self.row(none());
        row.extend([function(2290, "record_in"), function(2291, "record_out")]);
        row.extend([function(2402, "record_recv"), function(2403, "record_send")]);
        row.extend([none(), none(), none()]);
        tail(&mut row, 'd', 'x');
        row
    }

    fn of_labels(self) -> Row {
        let mut row = self.row(none());
        row.extend([function(3506, "enum_in"), function(3507, "enum_out")]);
        row.extend([function(3532, "enum_recv"), function(3533, "enum_send")]);
        row.extend([none(), none(), none()]);
        tail(&mut row, 'i', 'p');
        row
    }

    /// The row of the type of arrays of this one.
    pub(super) fn of_arrays(self, align: char) -> Row {
        let name = format!("_{}", self.name);
        let arrays = Head {
            oid: self.array,
            name: &name,
            length: -1,
            kind: 'b',
            category: 'A',
            element: self.oid,
            array: 0,
            relation: 0,
            ..self
        };
        let mut row = arrays.row(function(6179, "array_subscript_handler"));
        row.extend([function(750, "array_in"), function(751, "array_out")]);
        row.extend([function(2400, "array_recv"), function(2401, "array_send")]);
        row.extend([none(), none(), function(3816, "array_typanalyze")]);
        tail(&mut row, align, 'x');
        row
    }
}

/// The columns behind the functions of a type.
fn tail(row: &mut Row, align: char, storage: char) {
    row.extend([char(align), char(storage), Datum::Bool(false), oid(0), Datum::Int4(-1)]);
    row.extend([Datum::Int4(0), oid(0), Datum::Null, Datum::Null, Datum::Null]);
}

fn none() -> Datum {
    function(0, "-")
}

fn rows_of(one: &MadeObject, objects: &Objects) -> [Row; 2] {
    let relation = if let MadeKind::Rows { relation } = one.kind { relation } else { 0 };
    let is_enum = relation == 0;
    let head = || Head {
        oid: one.oid,
        name: bare(&one.stored),
        schema: objects.schema_oid(&one.stored),
        owner: one.owner,
        length: if is_enum { 4 } else { -1 },
        kind: if is_enum { 'e' } else { 'c' },
        category: if is_enum { 'E' } else { 'C' },
        element: 0,
        array: one.array_oid,
        relation,
    };
    match is_enum {
        true => [head().of_labels(), head().of_arrays('i')],
        false => [head().of_records(), head().of_arrays('d')],
    }
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
        if let Some(placed) = system_views::of_row_type(oid) {
            let brackets = if placed.view.told.array_type == oid { "[]" } else { "" };
            return Some(placed.shown() + brackets);
        }
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

    /// The number of the type that a text names as `to_regtype` reads it.
    pub(super) fn type_number(&self, text: &str, path: &SearchPath) -> Result<Option<u32>> {
        if let Some((number, _)) = SqlType::named(text) {
            return Ok(Some(number));
        }
        let (plain, is_array) = match text.trim().strip_suffix("[]") {
            Some(element) => (element, true),
            None => (text.trim(), false),
        };
        let parts = schemas::parts_of(plain)?;
        let of_system = system_views::relation(&parts).map(|view| view.told.row_type);
        let found = match (of_system, parts.as_slice()) {
            (Some(number), _) => Some(number).filter(|number| *number != 0),
            (None, [schema, name]) if *schema == CATALOGS[0] => SqlType::number_of_short_name(name),
            (None, parts) => self.type_named(parts, path).or_else(|| self.array_named(parts, path)),
        };
        Ok(if is_array { found.and_then(|oid| self.array_of(oid)) } else { found })
    }

    /// The number of the type of arrays that these parts name as `pg_type` does.
    fn array_named(&self, parts: &[String], path: &SearchPath) -> Option<u32> {
        let (name, schema) = parts.split_last()?;
        if !name.starts_with('_') {
            return None;
        }
        let names = array_names(self);
        let is_it = |one: &&MadeObject| names.get(&one.oid).is_some_and(|array| array == name);
        let in_schema = |schema: &String| {
            self.types().iter().filter(is_it).find(|one| schema_of(&one.stored) == schema)
        };
        let found = match schema {
            [] => path.of_tables().find_map(in_schema),
            [schema] => in_schema(schema),
            _ => None,
        };
        found.map(|one| one.array_oid)
    }

    /// The number of the type of arrays of a type.
    fn array_of(&self, oid: u32) -> Option<u32> {
        if let Some(placed) = system_views::of_row_type(oid) {
            return Some(placed.view.told.array_type);
        }
        let made = || self.types().iter().find(|one| one.oid == oid).map(|one| one.array_oid);
        let built_in = builtin::type_rules(oid).map(|rules| rules.array);
        built_in.filter(|array| *array != 0).or_else(made)
    }
}
