//! Rows about schemas, collations, databases and comments.
//!
//! Invariants: there is one database. Does not do: roles and privileges (`roles`).

use std::collections::HashMap;
use std::sync::OnceLock;

use rightlink::ColumnSchema;

use super::SessionInfo;
use super::builtin;
use super::numbers::{
    CATALOGS_OID, DATABASE, OWNER, PG_AUTHID, PG_CLASS, PG_COLLATION, PG_CONSTRAINT, PG_DATABASE,
    PG_NAMESPACE, PG_PROC, PG_TYPE, PUBLIC_OID, STANDARD_SCHEMAS, TABLESPACE, char, made_oid, oid,
    text,
};
use super::objects::{Comment, Objects};
use super::system_views::{FUNCTIONS, View};
use crate::error::Result;
use crate::notes::{ColumnNotes, TableNotes};
use crate::oids::key_oid;
use crate::types::{Datum, Row, collate};

/// The number of the encoding that texts have.
const UTF8: i32 = 6;
/// The number of the collation that texts have unless another is said.
const DEFAULT_COLLATION: u32 = 100;
/// Where those of collations begin that were made: nothing else goes by these numbers.
const MADE_COLLATIONS: u32 = 20_000;

/// Rows of `pg_namespace`.
pub(super) fn namespaces(objects: &Objects) -> Result<Vec<Row>> {
    let one = |(own, name): (u32, &str)| {
        vec![oid(own), text(name), oid(objects.owner_of_schema(own)), objects.shown_acl(own)]
    };
    let made = objects.schemas().iter().map(|(own, name)| (*own, name.as_str()));
    Ok(STANDARD_SCHEMAS.into_iter().chain(made).map(one).collect())
}

/// A collation that is there without being made.
struct BuiltInCollation {
    oid: u32,
    name: &'static str,
    /// Empty: none.
    comment: &'static str,
}

/// They in the order of their numbers, of a line each.
fn built_in_collations() -> &'static [BuiltInCollation] {
    static COLLATIONS: OnceLock<Vec<BuiltInCollation>> = OnceLock::new();
    COLLATIONS.get_or_init(|| {
        let one = |line: &'static str| {
            let mut fields = line.splitn(3, '\t');
            let oid = fields.next()?.parse().ok()?;
            Some(BuiltInCollation { oid, name: fields.next()?, comment: fields.next()? })
        };
        include_str!("builtin/collations.tsv").lines().filter_map(one).collect()
    })
}

/// The number of the collation of this name; 0 if there is none.
pub(super) fn collation_oid(name: &str, objects: &Objects) -> u32 {
    let made = objects.collations.iter().position(|known| known.name() == name);
    match made {
        Some(at) => MADE_COLLATIONS + at as u32,
        None => {
            let mut all = built_in_collations().iter();
            all.find(|known| known.name == name).map_or(0, |known| known.oid)
        }
    }
}

/// The number of the collation of a column of text.
pub(super) fn collation_of(column: &ColumnSchema, notes: &ColumnNotes, objects: &Objects) -> u32 {
    match (&column.collation, notes.collation) {
        (Some(known), _) => collation_oid(known.name(), objects),
        (None, Some(order)) => collation_oid(order.name(), objects),
        (None, None) => DEFAULT_COLLATION,
    }
}

/// Rows of `pg_collation`.
pub(super) fn collations(objects: &Objects) -> Result<Vec<Row>> {
    let by_bytes = |own: u32, name: &str| {
        let (provider, locale) = match name {
            "default" => ('d', Datum::Null),
            "ucs_basic" => ('c', text("C")),
            _ => ('c', text(name)),
        };
        let mut row = vec![oid(own), text(name), oid(CATALOGS_OID), OWNER];
        // The code points' own order is of texts in UTF-8 alone.
        let encoding = if name == "ucs_basic" { UTF8 } else { -1 };
        row.extend([char(provider), Datum::Bool(true), Datum::Int4(encoding)]);
        row.extend([locale.clone(), locale, Datum::Null, Datum::Null]);
        row
    };
    let icu = |own: u32, namespace: u32, known: &rightlink::Collation| {
        let mut row = vec![oid(own), text(known.name()), oid(namespace), OWNER];
        row.extend([char('i'), Datum::Bool(known.is_deterministic()), Datum::Int4(-1)]);
        // Data versions of all built-in ones would take a while to find out.
        let version = match namespace {
            CATALOGS_OID => Datum::Null,
            _ => text(known.data_version()),
        };
        row.extend([Datum::Null, Datum::Null, text(known.locale()), version]);
        row
    };
    let mut rows = Vec::new();
    for one in built_in_collations() {
        rows.push(match collate::built_in(one.name) {
            Ok(Some(known)) => icu(one.oid, CATALOGS_OID, &known),
            _ => by_bytes(one.oid, one.name),
        });
    }
    for (at, known) in objects.collations.iter().enumerate() {
        rows.push(icu(MADE_COLLATIONS + at as u32, PUBLIC_OID, known));
    }
    Ok(rows)
}

/// Rows of `pg_database`.
pub(super) fn databases(objects: &Objects, session: &SessionInfo<'_>) -> Result<Vec<Row>> {
    let mut row = vec![oid(DATABASE), text(session.database), OWNER, Datum::Int4(UTF8)];
    row.extend([char('c'), Datum::Bool(false), Datum::Bool(true), Datum::Int4(-1)]);
    row.extend([Datum::Int8(0), Datum::Int8(0), oid(TABLESPACE), text("C"), text("C")]);
    row.extend([Datum::Null, Datum::Null, objects.shown_acl(DATABASE)]);
    Ok(vec![row])
}

impl Objects {
    /// Comments by number and column.
    pub(super) fn comments(&self) -> &HashMap<(u32, usize), Vec<Comment>> {
        self.comments.get_or_init(|| {
            let mut all: HashMap<_, Vec<Comment>> = HashMap::new();
            for one in comments(self) {
                all.entry((one.oid, one.part)).or_default().push(one);
            }
            all
        })
    }
}

/// Comments on what a transaction sees, but for the database.
fn comments(objects: &Objects) -> Vec<Comment> {
    let mut all = Vec::new();
    let mut add = |oid: u32, catalog: u32, part: usize, comment: Option<String>| {
        all.extend(comment.map(|text| Comment { oid, catalog, part, text }));
    };
    for object in objects.all() {
        add(object.oid, PG_CLASS, 0, object.comment());
        if object.index.is_some() {
            continue;
        }
        for (at, column) in object.table.columns.iter().enumerate() {
            add(object.oid, PG_CLASS, at + 1, ColumnNotes::decode(&column.note).comment);
        }
        let notes = TableNotes::decode(&object.table.note);
        for (id, comment) in notes.of_keys {
            let there = object.table.indexes.iter().any(|index| index.id == id);
            add(key_oid(id), PG_CONSTRAINT, 0, Some(comment).filter(|_| there));
        }
        for (name, comment) in notes.of_checks {
            add(made_oid(object.oid, &name), PG_CONSTRAINT, 0, Some(comment));
        }
    }
    for one in objects.types() {
        add(one.oid, PG_TYPE, 0, one.comment.clone());
    }
    for one in objects.composites() {
        for (at, field) in one.entry.columns.iter().enumerate() {
            add(one.oid(), PG_CLASS, at + 1, ColumnNotes::decode(&field.note).comment);
        }
    }
    for one in objects.functions() {
        add(one.oid, PG_PROC, 0, one.notes.comment.clone());
    }
    for one in objects.domains() {
        add(one.oid, PG_TYPE, 0, one.notes.comment.clone());
    }
    for one in objects.sequences() {
        add(one.oid, PG_CLASS, 0, one.notes.comment.clone());
    }
    let made = objects.schemas().iter().map(|(own, name)| (*own, name.as_str()));
    for (own, schema) in STANDARD_SCHEMAS.into_iter().chain(made) {
        add(own, PG_NAMESPACE, 0, objects.schema_comment(schema).cloned());
    }
    all
}

/// Rows of `pg_description`.
pub(super) fn descriptions(objects: &Objects) -> Result<Vec<Row>> {
    let one = |comment: Comment| {
        let part = Datum::Int4(i32::try_from(comment.part).unwrap_or(0));
        vec![oid(comment.oid), oid(comment.catalog), part, text(comment.text)]
    };
    let mut rows: Vec<Row> = comments(objects).into_iter().map(one).collect();
    let with_comment = built_in_collations().iter().filter(|one| !one.comment.is_empty());
    rows.extend(
        with_comment
            .map(|one| vec![oid(one.oid), oid(PG_COLLATION), Datum::Int4(0), text(one.comment)]),
    );
    Ok(rows)
}

/// Rows of `pg_shdescription`.
pub(super) fn shared_descriptions(objects: &Objects) -> Result<Vec<Row>> {
    let row = |comment: &String| vec![oid(DATABASE), oid(PG_DATABASE), text(comment)];
    let mut rows: Vec<Row> = objects.database_comment.iter().map(row).collect();
    rows.extend(
        objects.roles.all().iter().filter_map(|role| {
            Some(vec![oid(role.oid), oid(PG_AUTHID), text(role.comment.clone()?)])
        }),
    );
    Ok(rows)
}

/// Rows of `pg_proc`.
pub(super) fn functions(view: &View, objects: &Objects) -> Result<Vec<Row>> {
    let mut rows = builtin::rows(view, FUNCTIONS)?;
    for one in objects.functions() {
        rows.push(one.row(objects.schema_oid(&one.stored))?);
    }
    Ok(rows)
}
