//! Rows of `information_schema`: what standard SQL calls the catalogs.
//!
//! Invariants: columns mean what PostgreSQL's do; the rows are about what clients have made, as
//! those of `pg_tables`.
//! Does not do: leaving out what the session may not use.

use std::collections::HashMap;

use rightlink::internal::datum::IntervalFields;
use rightlink::{ColumnSchema, IndexInfo};

use super::SessionInfo;
use super::information_routines;
use super::numbers::{nulls, relation_oid, text, yes};
use super::objects::{Object, Objects};
use super::roles::{self, Grant};
use super::rules::{self, Constraint, Key, Reference, Rule};
use super::sequences::Sequence;
use super::type_objects::DomainObject;
use crate::catalog::system_views::Information;
use crate::error::Result;
use crate::names::{self, CATALOGS, PUBLIC, bare, schema_of};
use crate::notes::types::DomainCheck;
use crate::notes::{Action, ColumnNotes, Deferral, TableNotes};
use crate::privileges::{ObjectKind, Privileges};
use crate::roles::need::Owned;
use crate::roles::role::OWNER;
use crate::types::collate::built_in;
use crate::types::declared::{ByteOrder, Modifier};
use crate::types::{Datum, Row, SqlType};

/// Most bytes of a character.
const MAX_CHARACTER: i32 = 4;
/// Most bytes of a text without a declared length.
const MAX_TEXT: i32 = 1 << 30;

pub(super) fn rows(
    about: Information,
    objects: &Objects,
    session: &SessionInfo<'_>,
) -> Result<Vec<Row>> {
    let database = session.database;
    Ok(match about {
        Information::CatalogName => vec![vec![text(database)]],
        Information::EnabledRoles => {
            roles::enabled(objects, session).into_iter().map(|name| vec![text(name)]).collect()
        }
        Information::ApplicableRoles => roles::applicable(objects, session, false),
        Information::AdministrableRoles => roles::applicable(objects, session, true),
        Information::CharacterSets => vec![character_set(database)],
        Information::TablePrivileges { own } => {
            let of = |object| table_privileges(&object, objects, session, own);
            shown(objects).flat_map(of).collect()
        }
        Information::ColumnPrivileges { own } => {
            let of = |object| column_privileges(&object, objects, session, own);
            shown(objects).flat_map(of).collect()
        }
        Information::UsagePrivileges { own } => {
            let of = |one| usage_privileges(one, objects, session, own);
            objects.sequences().iter().flat_map(of).collect()
        }
        Information::Routines => information_routines::routines(database, objects),
        Information::Parameters => information_routines::parameters(database, objects),
        Information::Schemata => {
            let made = objects.schemas().iter().map(|(_, name)| name.as_str());
            let all = CATALOGS.into_iter().chain([PUBLIC]).chain(made);
            all.map(|name| schema(database, name, objects)).collect()
        }
        Information::Tables => shown(objects).map(|object| table(database, &object)).collect(),
        Information::Views => {
            let rows = shown(objects).map(|object| view(database, &object, objects));
            rows.filter_map(Result::transpose).collect::<Result<_>>()?
        }
        Information::Columns => {
            let known: HashMap<&str, &Sequence> =
                objects.sequences().iter().map(|one| (one.schema.name.as_str(), one)).collect();
            let of = |object| columns(database, &object, objects, &known);
            shown(objects).map(of).collect::<Result<Vec<_>>>()?.concat()
        }
        Information::Domains => {
            objects.domains().iter().map(|one| domain(database, one, objects)).collect()
        }
        Information::DomainConstraints => {
            objects.domains().iter().flat_map(|one| domain_constraints(database, one)).collect()
        }
        Information::TableConstraints => objects
            .tables()
            .flat_map(|object| table_constraints(database, &object, objects))
            .collect(),
        Information::KeyColumns => key_columns(database, objects),
        Information::ReferentialConstraints => {
            let all = objects.constraints().iter();
            all.filter_map(|one| referential(database, one, objects)).collect()
        }
        Information::CheckConstraints => checks(database, objects)?,
        Information::ConstraintColumns => constraint_columns(database, objects),
        Information::ColumnColumns => {
            shown(objects).flat_map(|object| column_columns(database, &object, objects)).collect()
        }
        Information::ConstraintTables => constraint_tables(database, objects),
        Information::Sequences => {
            // Those of identity columns are told with them.
            let free = objects.sequences().iter().filter(|one| !one.is_identity());
            free.map(|one| sequence(database, one)).collect()
        }
    })
}

/// A name of the store, in three columns.
fn name(database: &str, stored: &str) -> [Datum; 3] {
    name_of(database, schema_of(stored), bare(stored))
}

pub(super) fn name_of(database: &str, schema: &str, name: &str) -> [Datum; 3] {
    [text(database), text(schema), text(name)]
}

/// Texts are UTF-8.
fn character_set(database: &str) -> Row {
    let mut row = vec![Datum::Null, Datum::Null, text("UTF8"), text("UCS"), text("UTF8")];
    row.push(text(database));
    nulls(&mut row, 2);
    row
}

/// What somebody may do with an object.
fn privilege(database: &str, stored: &str, grant: &Grant, rest: &[&str]) -> Row {
    let mut row = vec![text(grant.grantor.clone()), text(grant.grantee.clone())];
    row.extend(name(database, stored));
    row.extend(rest.iter().map(|one| text(*one)));
    row.extend([text(grant.privilege), yes(grant.grantable)]);
    row
}

/// The privileges on a table that the session is told of.
fn grants_on(
    object: &Object<'_>,
    objects: &Objects,
    session: &SessionInfo<'_>,
    own: bool,
) -> Vec<Grant> {
    let (kind, oid, owner) = (ObjectKind::Table, object.oid, object.owner());
    roles::grants(objects, session, Owned { kind, oid, owner }, own)
}

fn table_privileges(
    object: &Object<'_>,
    objects: &Objects,
    session: &SessionInfo<'_>,
    own: bool,
) -> Vec<Row> {
    let row = |grant: Grant| {
        let mut row = privilege(session.database, &object.table.name, &grant, &[]);
        row.push(yes(grant.privilege == Privileges::SELECT.name()));
        row
    };
    grants_on(object, objects, session, own).into_iter().map(row).collect()
}

fn column_privileges(
    object: &Object<'_>,
    objects: &Objects,
    session: &SessionInfo<'_>,
    own: bool,
) -> Vec<Row> {
    let of_columns = ["INSERT", "SELECT", "UPDATE", "REFERENCES"];
    let mut grants = grants_on(object, objects, session, own);
    grants.retain(|grant| of_columns.contains(&grant.privilege));
    let mut rows = Vec::new();
    for column in &object.table.columns {
        let one = |grant| privilege(session.database, &object.table.name, grant, &[&column.name]);
        rows.extend(grants.iter().map(one));
    }
    rows
}

/// Who may use a sequence.
fn usage_privileges(
    one: &Sequence,
    objects: &Objects,
    session: &SessionInfo<'_>,
    own: bool,
) -> Vec<Row> {
    let (kind, owner) = (ObjectKind::Sequence, objects.owner_of_sequence(one));
    let mut grants = roles::grants(objects, session, Owned { kind, oid: one.oid, owner }, own);
    grants.retain(|grant| grant.privilege == Privileges::USAGE.name());
    let row = |grant: &Grant| privilege(session.database, &one.schema.name, grant, &["SEQUENCE"]);
    grants.iter().map(row).collect()
}

fn schema(database: &str, name: &str, objects: &Objects) -> Row {
    let owner = objects.schema_named(name).map_or(OWNER, |oid| objects.owner_of_schema(oid));
    let mut row = vec![text(database), text(name), text(objects.owner_name(owner))];
    nulls(&mut row, 4);
    row
}

/// Tables and views: materialized views are unknown to the standard.
fn shown(objects: &Objects) -> impl Iterator<Item = Object<'_>> {
    objects.tables().filter(|object| !object.is_materialized_view())
}

fn table(database: &str, object: &Object<'_>) -> Row {
    let mut row = name(database, &object.table.name).to_vec();
    row.push(text(match object.is_view() {
        true => "VIEW",
        false if names::is_temporary(object.stored()) => "LOCAL TEMPORARY",
        false => "BASE TABLE",
    }));
    nulls(&mut row, 5);
    row.extend([yes(true), yes(false), Datum::Null]);
    row
}

fn view(database: &str, object: &Object<'_>, objects: &Objects) -> Result<Option<Row>> {
    let Some(query) = objects.view_query(object.oid)? else { return Ok(None) };
    let check = TableNotes::decode(&object.table.note).view.and_then(|view| view.check);
    let mut row = name(database, &object.table.name).to_vec();
    let check = check.map_or("NONE".to_owned(), |check| check.name().to_uppercase());
    row.extend([text(query), text(check), yes(true), yes(true)]);
    row.extend([yes(false), yes(false), yes(false)]);
    Ok(Some(row))
}

fn columns(
    database: &str,
    object: &Object<'_>,
    objects: &Objects,
    known: &HashMap<&str, &Sequence>,
) -> Result<Vec<Row>> {
    let table = object.table;
    let one = |(at, column): (usize, &ColumnSchema)| {
        let notes = ColumnNotes::decode(&column.note);
        let (ty, udt) = names_of_type(column, &notes, objects);
        let mut row = name(database, &table.name).to_vec();
        let number = i32::try_from(at + 1).unwrap_or(i32::MAX);
        let identity = column.identity.as_ref().filter(|_| !notes.serial);
        let default = objects.shown_default(column, &notes).filter(|_| identity.is_none());
        row.extend([text(column.name.as_str()), Datum::Int4(number)]);
        row.extend([default.map_or(Datum::Null, text), yes(column.nullable), text(ty)]);
        let modifier = notes.modifier.filter(|_| !notes.is_array());
        row.extend(sizes(notes.type_of(column.kind, &objects.made), modifier));
        row.extend([interval_type(modifier), Datum::Null]);
        // Character sets.
        nulls(&mut row, 3);
        let locale = column.collation.as_ref().map(rightlink::Collation::name);
        match locale.or(notes.collation.map(ByteOrder::name)) {
            Some(known) => {
                let standard = built_in(known).is_ok();
                let schema = if standard { CATALOGS[0] } else { PUBLIC };
                row.extend([text(database), text(schema), text(known)]);
            }
            None => nulls(&mut row, 3),
        }
        match &notes.domain {
            Some(domain) => row.extend(name(database, domain)),
            None => nulls(&mut row, 3),
        }
        let schema = notes.made.as_ref().map_or(CATALOGS[0], |made| schema_of(&made.name));
        row.extend(name_of(database, schema, udt));
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
        let generation = objects.shown_generation(table, column)?;
        row.push(text(if generation.is_some() { "ALWAYS" } else { "NEVER" }));
        row.extend([generation.map_or(Datum::Null, text), yes(true)]);
        Ok(row)
    };
    rules::columns(table).enumerate().map(one).collect()
}

/// What the standard calls the type of a column, and its name in `pg_type`.
fn names_of_type(
    column: &ColumnSchema,
    notes: &ColumnNotes,
    objects: &Objects,
) -> (&'static str, &'static str) {
    let (ty, udt) = match notes.modifier {
        Some(Modifier::Char(_)) => ("character", "bpchar"),
        Some(Modifier::Varchar(_)) => ("character varying", "varchar"),
        _ => {
            let ty = notes.type_of(column.kind, &objects.made);
            let made = matches!(ty, SqlType::Enum(_) | SqlType::Composite(_));
            (if made { "USER-DEFINED" } else { ty.name() }, ty.short_name())
        }
    };
    match notes.element {
        None if notes.is_array() => ("ARRAY", udt),
        None => (ty, udt),
        Some(_) if udt == "varchar" => ("ARRAY", "_varchar"),
        Some(element) => ("ARRAY", SqlType::Array(element).short_name()),
    }
}

fn domain(database: &str, one: &DomainObject, objects: &Objects) -> Row {
    let column = &one.column;
    let notes = ColumnNotes::decode(&column.note);
    let (mut ty, mut udt) = names_of_type(column, &notes, objects);
    let mut schema = notes.made.as_ref().map_or(CATALOGS[0], |made| schema_of(&made.name));
    let modifier = notes.modifier.filter(|_| !notes.is_array());
    let mut about = sizes(notes.type_of(column.kind, &objects.made), modifier);
    if let Some(below) = &notes.domain {
        (ty, udt, schema) = ("USER-DEFINED", bare(below), schema_of(below));
        about = Default::default();
    }
    let [length, bytes, precision, base, scale, digits] = about;
    let mut row = name(database, &one.stored).to_vec();
    row.push(text(ty));
    row.extend([length, bytes]);
    // Character set and collation.
    nulls(&mut row, 6);
    row.extend([precision, base, scale, digits]);
    let of_interval = modifier.filter(|_| notes.domain.is_none());
    row.extend([interval_type(of_interval), Datum::Null]);
    row.push(notes.default.as_deref().map_or(Datum::Null, text));
    row.extend(name_of(database, schema, udt));
    nulls(&mut row, 4);
    row.push(text("1"));
    row
}

fn domain_constraints(database: &str, one: &DomainObject) -> Vec<Row> {
    let row = |check: &DomainCheck| {
        let mut row = vec![text(database), text(schema_of(&one.stored))];
        row.push(text(check.name.as_str()));
        row.extend(name(database, &one.stored));
        row.extend([yes(false), yes(false)]);
        row
    };
    one.checks().iter().map(row).collect()
}

/// The parts that an interval is declared to have, in capitals, with the digits of its seconds.
fn interval_type(modifier: Option<Modifier>) -> Datum {
    match modifier {
        Some(Modifier::Interval(fields, digits)) if fields != IntervalFields::All => {
            let shown = Modifier::Interval(fields, digits).to_string().to_uppercase();
            text(shown.trim_start_matches("INTERVAL "))
        }
        _ => Datum::Null,
    }
}

/// Lengths in characters and bytes; precision, its base and scale; digits of seconds.
pub(super) fn sizes(ty: SqlType, modifier: Option<Modifier>) -> [Datum; 6] {
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
        (_, Some(Modifier::Bits(_, length))) => {
            let length = i32::try_from(length).unwrap_or(i32::MAX);
            [int(length), NULL, NULL, NULL, NULL, NULL]
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
        (_, Some(Modifier::Seconds(_, digits))) => time(digits as i32),
        (
            SqlType::Timestamp
            | SqlType::Timestamptz
            | SqlType::Interval
            | SqlType::Time
            | SqlType::Timetz,
            None,
        ) => time(6),
        _ => [NULL; 6],
    }
}

/// The keys of a table.
fn keys<'o>(
    object: &Object<'o>,
    objects: &'o Objects,
) -> impl Iterator<Item = &'o IndexInfo> + use<'o> {
    let table = object.table;
    table.indexes.iter().filter(move |index| objects.is_key(table, index))
}

/// The name that a column gets as the constraint that it is not null.
fn not_null_name(object: &Object<'_>, place: usize, objects: &Objects) -> String {
    let (schema, own) = (objects.schema_oid(&object.table.name), object.oid);
    format!("{schema}_{own}_{place}_not_null")
}

/// Columns that are not null, from 1.
fn not_null(object: &Object<'_>) -> Vec<usize> {
    let columns = object.table.columns.iter().enumerate();
    columns.filter(|(_, column)| !column.nullable).map(|(at, _)| at + 1).collect()
}

fn table_constraints(database: &str, object: &Object<'_>, objects: &Objects) -> Vec<Row> {
    let table = object.table;
    let row = |called: &str, kind: &str, deferral: Deferral, distinct: Datum| {
        let mut row = vec![text(database), text(schema_of(&table.name)), text(called)];
        row.extend(name(database, &table.name));
        let is_deferred = yes(deferral == Deferral::Deferred);
        row.extend([
            text(kind),
            yes(deferral != Deferral::Never),
            is_deferred,
            yes(true),
            distinct,
        ]);
        row
    };
    let mut rows = Vec::new();
    for index in keys(object, objects) {
        let key = rules::key_kind(table, index).unwrap_or_default();
        let (kind, distinct) = match key.primary {
            true => ("PRIMARY KEY", Datum::Null),
            false => ("UNIQUE", yes(!key.nulls_not_distinct)),
        };
        rows.push(row(bare(&index.name), kind, key.deferral, distinct));
    }
    for key in TableNotes::decode(&table.note).keys {
        rows.push(row(&key.name, "FOREIGN KEY", key.deferral, Datum::Null));
    }
    for (check, _) in rules::checks(table) {
        rows.push(row(&check, "CHECK", Deferral::Never, Datum::Null));
    }
    for place in not_null(object) {
        let called = not_null_name(object, place, objects);
        rows.push(row(&called, "CHECK", Deferral::Never, Datum::Null));
    }
    rows
}

/// A constraint and its schema, in three columns.
fn constraint(database: &str, stored: &str, called: &str) -> [Datum; 3] {
    [text(database), text(schema_of(stored)), text(called)]
}

fn checks(database: &str, objects: &Objects) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for one in objects.constraints() {
        if let Rule::Check(condition) = &one.rule {
            let mut row = constraint(database, &one.stored, &one.name).to_vec();
            row.push(text(objects.check_clause(one, condition)?));
            rows.push(row);
        }
    }
    for object in shown(objects) {
        for place in not_null(&object) {
            let called = not_null_name(&object, place, objects);
            let mut row = constraint(database, &object.table.name, &called).to_vec();
            row.push(text(format!("{} IS NOT NULL", object.table.columns[place - 1].name)));
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Columns that generated columns come from.
fn column_columns(database: &str, object: &Object<'_>, objects: &Objects) -> Vec<Row> {
    let mut rows = Vec::new();
    for one in objects.generated(object) {
        for place in one.from {
            let mut row = name(database, &object.table.name).to_vec();
            let base = &object.table.columns[place - 1].name;
            row.extend([base, &one.column.name].map(|name| text(name.as_str())));
            rows.push(row);
        }
    }
    rows
}

/// Columns that constraints read: of a foreign key those that it names.
fn constraint_columns(database: &str, objects: &Objects) -> Vec<Row> {
    let row = |stored: &str, column: &str, own: &str, called: &str| {
        let mut row = name(database, stored).to_vec();
        row.push(text(column));
        row.extend(constraint(database, own, called));
        row
    };
    let mut rows = Vec::new();
    for Key { table, index } in objects.keys() {
        let columns = index.columns.iter();
        rows.extend(columns.map(|key| row(&table.name, &key.name, &table.name, bare(&index.name))));
    }
    for one in objects.constraints() {
        match &one.rule {
            Rule::Check(_) => {
                let Some(object) = objects.of_oid(one.table) else { continue };
                for place in &one.columns {
                    let column = &object.table.columns[place - 1].name;
                    rows.push(row(&one.stored, column, &one.stored, &one.name));
                }
            }
            Rule::Reference(reference) => {
                for column in &reference.key.parent_columns {
                    rows.push(row(&reference.key.parent, column, &one.stored, &one.name));
                }
            }
        }
    }
    rows
}

/// Tables that constraints read: of a foreign key the one that it names.
fn constraint_tables(database: &str, objects: &Objects) -> Vec<Row> {
    let row = |stored: &str, own: &str, called: &str| {
        let mut row = name(database, stored).to_vec();
        row.extend(constraint(database, own, called));
        row
    };
    let keys =
        objects.keys().map(|key| row(&key.table.name, &key.table.name, bare(&key.index.name)));
    let named = objects.constraints().iter().filter_map(|one| match &one.rule {
        Rule::Reference(reference) => Some(row(&reference.key.parent, &one.stored, &one.name)),
        Rule::Check(_) => None,
    });
    keys.chain(named).collect()
}

fn key_columns(database: &str, objects: &Objects) -> Vec<Row> {
    let row = |stored: &str, called: &str, column: &str, at: usize, of_parent: Option<usize>| {
        let place = |at: usize| Datum::Int4(i32::try_from(at + 1).unwrap_or(i32::MAX));
        let mut row = constraint(database, stored, called).to_vec();
        row.extend(name(database, stored));
        row.extend([text(column), place(at), of_parent.map_or(Datum::Null, place)]);
        row
    };
    let mut rows = Vec::new();
    for Key { table, index } in objects.keys() {
        let columns = index.columns.iter().enumerate();
        let called = bare(&index.name);
        rows.extend(columns.map(|(at, key)| row(&table.name, called, &key.name, at, None)));
    }
    for one in objects.constraints() {
        let Rule::Reference(reference) = &one.rule else { continue };
        let key = &reference.key;
        let parent = index_of(reference, objects);
        for (at, (column, other)) in key.columns.iter().zip(&key.parent_columns).enumerate() {
            let place = parent
                .and_then(|index| index.columns.iter().position(|column| column.name == *other));
            rows.push(row(&one.stored, &one.name, column, at, place));
        }
    }
    rows
}

/// The key that a foreign key names.
fn index_of<'o>(reference: &Reference, objects: &'o Objects) -> Option<&'o IndexInfo> {
    let parent = objects.of_oid(reference.parent)?;
    parent.table.indexes.iter().find(|index| relation_oid(index.id) == reference.index)
}

fn referential(database: &str, one: &Constraint, objects: &Objects) -> Option<Row> {
    let Rule::Reference(reference) = &one.rule else { return None };
    let rule = |action: Action| text(action.name());
    let mut row = constraint(database, &one.stored, &one.name).to_vec();
    match index_of(reference, objects) {
        Some(index) => row.extend(constraint(database, &reference.key.parent, bare(&index.name))),
        None => nulls(&mut row, 3),
    }
    row.extend([text("NONE"), rule(reference.key.on_update), rule(reference.key.on_delete)]);
    Some(row)
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
