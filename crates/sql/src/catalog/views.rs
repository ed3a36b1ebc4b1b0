//! Rows of the relations that are made up from what the store knows.
//!
//! Invariants: a row has exactly the columns that `plan::views` lists.
//! Does not do: joins of them.

use rightlink::{Database, Transaction};

use super::objects::{FIRST, Object, Objects, PUBLIC_OID};
use super::sequences::Sequence;
use super::{constraints, figures, information, keywords, sequences, trees, tuples};
use crate::bind::collate;
use crate::error::Result;
use crate::expr::Context;
use crate::expr::sequences::no_sequence;
use crate::expr::system::USER;
use crate::plan::notes::{ColumnNotes, TableNotes};
use crate::plan::views::{Kind, View};
use crate::schemas::{PUBLIC, bare, schema_of};
use crate::settings::Shown;
use crate::statistics::{ColumnStatistics, Statistics, store};
use crate::types::declared::Modifier;
use crate::types::{Category, Datum, Row, SqlType};

/// Numbers of schemas and of the owner, as PostgreSQL has them.
const CATALOGS: i64 = 11;
const OWNER: i64 = 10;
const HEAP: i64 = 2;
const BTREE: i64 = 403;
const HASH: i64 = 405;
/// The one database there is.
const DATABASE: i64 = 5;
/// Numbers of catalogs.
const PG_CLASS: i64 = 1_259;
const PG_DATABASE: i64 = 1_262;
pub(super) const PG_CONSTRAINT: i64 = 2_606;
pub(super) const PG_NAMESPACE: i64 = 2_615;

pub(super) fn text(text: impl Into<String>) -> Datum {
    Datum::Text(text.into())
}

pub(super) fn number(number: impl TryInto<i64>) -> Datum {
    Datum::Int8(number.try_into().unwrap_or(i64::MAX))
}

fn short(number: usize) -> Datum {
    Datum::Int2(i16::try_from(number).unwrap_or(i16::MAX))
}

pub(super) fn count(number: u32) -> Datum {
    Datum::Int4(i32::try_from(number).unwrap_or(i32::MAX))
}

/// The rows of `view` for these arguments.
pub(crate) fn rows(
    view: &View,
    args: &[Datum],
    txn: &mut Transaction,
    context: &Context,
) -> Result<Vec<Row>> {
    let db = &context.db.as_ref().expect("a statement has a database").0;
    let rows = match view.kind {
        Kind::Nothing => Vec::new(),
        Kind::Namespace => namespaces(txn)?,
        Kind::Collation => collations(txn)?,
        Kind::Type => SqlType::every().map(of_type).collect(),
        Kind::Method => methods(),
        Kind::Class => classes(txn)?,
        Kind::Attribute => objects(txn, &mut attributes)?,
        Kind::Index => objects(txn, &mut |o, rows| rows.extend(index(o)))?,
        Kind::Tables => objects(txn, &mut |o, rows| rows.extend(table(o)))?,
        Kind::Views => objects(txn, &mut |o, rows| rows.extend(of_view(o)))?,
        Kind::Indexes => objects(txn, &mut |o, rows| rows.extend(definition(o)))?,
        Kind::Constraint => all_constraints(txn)?,
        Kind::Sequences => all_sequences(txn)?,
        Kind::Sequence => sequences::all(txn)?.iter().map(sequence).collect(),
        Kind::Description => descriptions(txn)?,
        Kind::SharedDescription => shared_descriptions(txn)?,
        Kind::ColumnStatistics => {
            let known = store::load_all(txn)?;
            objects(txn, &mut |o, rows| rows.extend(columns(o, known.get(&o.table.id))))?
        }
        Kind::VacuumProgress => vacuums(txn, db, &context.database)?,
        Kind::Snapshots => snapshots(db),
        Kind::Figures => figures_since_opened(db),
        Kind::TableUse => figures::tables(db, &store::load_all(txn)?)?,
        Kind::Keywords => keywords::rows(),
        Kind::Tuples => tuples::rows(args, txn, context)?,
        Kind::IndexUse => figures::indexes(db)?,
        Kind::Activity => figures::activity(db, context),
        Kind::Locks => figures::locks(db, context)?,
        Kind::Settings => settings(context),
        Kind::TreeMeta | Kind::TreePage | Kind::TreeItems | Kind::TreeStatistics => {
            trees::rows(view.kind, args, txn, &context.settings.path())?
        }
        Kind::Schemata
        | Kind::InfoTables
        | Kind::InfoColumns
        | Kind::TableConstraints
        | Kind::KeyColumns
        | Kind::ReferentialConstraints
        | Kind::InfoSequences => information::rows(view.kind, txn, &context.database)?,
        Kind::SequencePosition => position(args, txn)?,
    };
    let width = view.columns.len();
    assert!(
        rows.iter().all(|row| row.len() == width),
        "rows of {} have {width} columns",
        view.name
    );
    Ok(rows)
}

fn objects(
    txn: &mut Transaction,
    work: &mut dyn FnMut(&Object<'_>, &mut Vec<Row>),
) -> Result<Vec<Row>> {
    let objects = Objects::of(txn)?;
    let mut rows = Vec::new();
    objects.all().iter().for_each(|object| work(object, &mut rows));
    Ok(rows)
}

fn namespaces(txn: &mut Transaction) -> Result<Vec<Row>> {
    let objects = Objects::of(txn)?;
    let one = |(oid, name): (i64, &str)| vec![number(oid), text(name), number(OWNER)];
    let made = objects.schemas().iter().map(|(oid, name)| (i64::from(*oid), name.as_str()));
    Ok([(CATALOGS, "pg_catalog"), (PUBLIC_OID, PUBLIC)].into_iter().chain(made).map(one).collect())
}

fn classes(txn: &mut Transaction) -> Result<Vec<Row>> {
    let objects = Objects::of(txn)?;
    let known = store::load_all(txn)?;
    let one = |object: &Object<'_>| {
        let namespace = objects.schema_oid(object.stored());
        class(object, namespace, known.get(&object.table.id))
    };
    let mut rows: Vec<Row> = objects.all().iter().map(one).collect();
    let of_sequence = |one: &Sequence| class_of_sequence(one, objects.schema_oid(&one.schema.name));
    rows.extend(sequences::all(txn)?.iter().map(of_sequence));
    Ok(rows)
}

/// Those that are there without being made have numbers from 100, others from 20,000 on: nothing
/// else goes by these numbers.
fn collations(txn: &mut Transaction) -> Result<Vec<Row>> {
    let by_bytes = |oid: usize, name: &str| {
        let (provider, locale) = match name {
            "default" => ("d", Datum::Null),
            _ => ("c", text(name)),
        };
        let [null, version] = [Datum::Null, Datum::Null];
        let mut row = vec![number(oid), text(name), number(CATALOGS), number(OWNER)];
        row.extend([text(provider), Datum::Bool(true), Datum::Int4(-1)]);
        row.extend([locale.clone(), locale, null, version]);
        row
    };
    let icu = |oid: usize, namespace: i64, known: &rightlink::Collation| {
        let mut row = vec![number(oid), text(known.name()), number(namespace), number(OWNER)];
        row.extend([text("i"), Datum::Bool(known.is_deterministic()), Datum::Int4(-1)]);
        // Data versions of all built-in ones would take a while to find out.
        let version = match namespace {
            CATALOGS => Datum::Null,
            _ => text(known.data_version()),
        };
        row.extend([Datum::Null, Datum::Null, text(known.locale()), version]);
        row
    };
    let mut rows = Vec::new();
    for (at, name) in collate::all_built_in().enumerate() {
        rows.push(match collate::built_in(&name) {
            Ok(Some(known)) => icu(100 + at, CATALOGS, &known),
            _ => by_bytes(100 + at, &name),
        });
    }
    for (at, known) in txn.catalog().collations()?.iter().enumerate() {
        rows.push(icu(20_000 + at, PUBLIC_OID, known));
    }
    Ok(rows)
}

fn methods() -> Vec<Row> {
    let one = |(oid, name, kind): (i64, &str, &str)| vec![number(oid), text(name), text(kind)];
    [(HEAP, "heap", "t"), (BTREE, "btree", "i"), (HASH, "hash", "i")].into_iter().map(one).collect()
}

fn of_type(ty: SqlType) -> Row {
    let category = match ty.category() {
        Category::Bool => "B",
        Category::Number => "N",
        Category::String => "S",
        Category::DateTime => "D",
        Category::Timespan => "T",
        Category::User => "U",
        Category::Array => "A",
        Category::Unknown => "X",
    };
    vec![
        number(ty.oid()),
        text(ty.short_name()),
        number(CATALOGS),
        Datum::Int2(ty.fixed_len()),
        text("b"),
        text(category),
        Datum::Bool(ty.is_preferred()),
        text(","),
        number(0),
        number(ty.element().map_or(0, SqlType::oid)),
        number(SqlType::array_of(ty).map_or(0, SqlType::oid)),
        number(0),
        Datum::Int4(-1),
    ]
}

fn class(object: &Object<'_>, namespace: i64, known: Option<&Statistics>) -> Row {
    let method = match object.method() {
        _ if object.is_view() => 0,
        "heap" => HEAP,
        "hash" => HASH,
        _ => BTREE,
    };
    let columns = match object.index {
        Some(index) => index.columns.len() + index.included.len(),
        None => object.table.columns.len(),
    };
    let is_table = object.index.is_none();
    let checks = if is_table { constraints::checks(object.table).len() } else { 0 };
    vec![
        number(object.oid),
        text(object.name()),
        number(namespace),
        number(OWNER),
        number(method),
        count(object.blocks()),
        tuples(object, known),
        Datum::Bool(is_table && !object.table.indexes.is_empty()),
        Datum::Bool(false),
        text(object.persistence()),
        text(object.kind()),
        short(columns),
        short(checks),
        Datum::Bool(false),
    ]
}

/// Rows when it was analyzed; -1: never. How many an index of some rows has is not counted.
fn tuples(object: &Object<'_>, known: Option<&Statistics>) -> Datum {
    let whole = object.index.is_none_or(|index| index.is_whole());
    Datum::Float4(known.filter(|_| whole).map_or(-1.0, |known| known.rows as f32))
}

/// What is known about the columns of a table.
fn columns(object: &Object<'_>, known: Option<&Statistics>) -> Vec<Row> {
    let Some(known) = known.filter(|_| object.index.is_none()) else { return Vec::new() };
    let float = |number: f64| Datum::Float4(number as f32);
    let list = |values: Vec<Datum>| if values.is_empty() { Datum::Null } else { array(&values) };
    let row = |column: &ColumnStatistics| {
        let (values, shares): (Vec<Datum>, Vec<f64>) = column.common.iter().cloned().unzip();
        vec![
            text(object.schema()),
            text(object.name()),
            text(&column.name),
            Datum::Bool(false),
            float(column.nulls),
            Datum::Int4(column.width.round() as i32),
            float(column.distinct),
            list(values),
            list(shares.into_iter().map(float).collect()),
            list(column.bounds.clone()),
            column.correlation.map_or(Datum::Null, float),
        ]
    };
    let names = object.table.columns.iter().map(|column| &column.name);
    let found = names.filter_map(|name| known.columns.iter().find(|one| one.name == *name));
    found.map(row).collect()
}

/// Values as PostgreSQL writes an array.
fn array(values: &[Datum]) -> Datum {
    let element = |value: &Datum| {
        let text = value.to_text().unwrap_or_default();
        let plain = |c: char| !c.is_whitespace() && !"{},\"\\".contains(c);
        if !text.is_empty() && !text.eq_ignore_ascii_case("null") && text.chars().all(plain) {
            return text;
        }
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    };
    text(format!("{{{}}}", values.iter().map(element).collect::<Vec<_>>().join(",")))
}

fn attributes(object: &Object<'_>, rows: &mut Vec<Row>) {
    if object.index.is_some() {
        return;
    }
    for (at, column) in object.table.columns.iter().enumerate() {
        let notes = ColumnNotes::decode(&column.note);
        let ty = notes.type_of(column.kind);
        let identity = match &column.identity {
            Some(identity) if !notes.serial => {
                if identity.always {
                    "a"
                } else {
                    "d"
                }
            }
            _ => "",
        };
        let default = notes.default.is_some() || column.default.is_some() || notes.serial;
        rows.push(vec![
            number(object.oid),
            text(&column.name),
            number(ty.oid()),
            Datum::Int2(ty.fixed_len()),
            short(at + 1),
            Datum::Int4(i32::from(ty.is_array())),
            Datum::Int4(notes.modifier.map_or(-1, Modifier::number)),
            Datum::Bool(!column.nullable),
            Datum::Bool(default),
            text(identity),
            text(""),
            Datum::Bool(false),
        ]);
    }
}

fn index(object: &Object<'_>) -> Option<Row> {
    let index = object.index?;
    let place = |name: &str| {
        let found = object.table.columns.iter().position(|column| column.name == name);
        found.map_or(0, |at| at + 1).to_string()
    };
    let names = index.columns.iter().map(|key| &key.name).chain(&index.included);
    let keys: Vec<String> = names.map(|name| place(name)).collect();
    Some(vec![
        number(object.oid),
        number(object.table_oid()),
        short(keys.len()),
        short(index.columns.len()),
        Datum::Bool(index.unique),
        Datum::Bool(index.primary),
        Datum::Bool(true),
        text(keys.join(" ")),
    ])
}

fn table(object: &Object<'_>) -> Option<Row> {
    (object.index.is_none() && !object.is_view()).then(|| {
        let indexed = Datum::Bool(!object.table.indexes.is_empty());
        vec![text(object.schema()), text(object.name()), text(USER), indexed]
    })
}

/// A view, with the query that is kept of it.
fn of_view(object: &Object<'_>) -> Option<Row> {
    let notes = TableNotes::decode(&object.table.note).view.filter(|_| object.is_view())?;
    let query = format!("{};", notes.query);
    Some(vec![text(object.schema()), text(object.name()), text(USER), text(query)])
}

fn definition(object: &Object<'_>) -> Option<Row> {
    let definition = object.definition(false)?;
    let table = object.table_name();
    Some(vec![text(object.schema()), text(table), text(object.name()), text(definition)])
}

fn all_constraints(txn: &mut Transaction) -> Result<Vec<Row>> {
    let objects = Objects::of(txn)?;
    let mut rows = Vec::new();
    let mut add = |oid: u32, name: &str, kind: char, (table, stored): (u32, &str), parent: u32| {
        rows.push(vec![
            number(oid),
            text(name),
            number(objects.schema_oid(stored)),
            text(kind),
            Datum::Bool(false),
            Datum::Bool(false),
            Datum::Bool(true),
            number(table),
            number(parent),
        ]);
    };
    for object in objects.all() {
        let Some(index) = object.index.filter(|index| index.unique) else { continue };
        let kind = if index.primary { 'p' } else { 'u' };
        let table = (object.table_oid(), object.table.name.as_str());
        add(object.oid, object.name(), kind, table, 0);
    }
    for one in constraints::all(&objects) {
        let oid = constraints::oid(one.table.0, &one.name);
        let table = (one.table.0, one.table.1.as_str());
        add(oid, &one.name, one.kind, table, one.parent.unwrap_or(0));
    }
    Ok(rows)
}

fn class_of_sequence(one: &Sequence, namespace: i64) -> Row {
    let name = text(bare(&one.schema.name));
    let mut row = vec![number(one.oid), name, number(namespace), number(OWNER)];
    row.extend([number(0), count(1), Datum::Float4(1.0), Datum::Bool(false), Datum::Bool(false)]);
    // Its columns are the last value, how many are ready, and whether it was drawn.
    row.extend([text("p"), text("S"), short(3), short(0), Datum::Bool(false)]);
    row
}

/// Those of the transaction that are there when they are looked at.
fn all_sequences(txn: &mut Transaction) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for one in sequences::all(txn)? {
        let at = match txn.catalog().sequence_position(&one.schema.name) {
            Err(rightlink::Error::NotFound(_)) => continue,
            at => at?,
        };
        let schema = &one.schema;
        let mut row = vec![text(schema_of(&schema.name)), text(bare(&schema.name))];
        row.extend([text(USER), text(one.ty.name())]);
        let numbers = [schema.start, schema.min, schema.max, schema.increment];
        row.extend(numbers.map(Datum::Int8));
        row.extend([Datum::Bool(schema.cycle), Datum::Int8(one.notes.cache.unwrap_or(1))]);
        row.push(if at.drawn { Datum::Int8(at.value) } else { Datum::Null });
        rows.push(row);
    }
    Ok(rows)
}

fn sequence(one: &Sequence) -> Row {
    let schema = &one.schema;
    let mut row = vec![number(one.oid), number(one.ty.oid())];
    row.extend([schema.start, schema.increment, schema.max, schema.min].map(Datum::Int8));
    row.extend([Datum::Int8(one.notes.cache.unwrap_or(1)), Datum::Bool(schema.cycle)]);
    row
}

/// Where a sequence is; how many numbers the log is ahead is not counted as PostgreSQL does.
fn position(args: &[Datum], txn: &mut Transaction) -> Result<Vec<Row>> {
    let Some(Datum::Text(name)) = args.first() else { return Ok(Vec::new()) };
    let at = match txn.catalog().sequence_position(name) {
        Err(rightlink::Error::NotFound(_)) => return Err(no_sequence(name)),
        at => at?,
    };
    Ok(vec![vec![Datum::Int8(at.value), Datum::Null, Datum::Bool(at.drawn)]])
}

/// Comments on what a transaction sees.
pub(super) fn descriptions(txn: &mut Transaction) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut add = |oid: i64, catalog: i64, part: usize, comment: Option<String>| {
        let part = Datum::Int4(i32::try_from(part).unwrap_or(0));
        rows.extend(comment.map(|comment| vec![number(oid), number(catalog), part, text(comment)]));
    };
    let objects = Objects::of(txn)?;
    for object in objects.all() {
        add(object.oid.into(), PG_CLASS, 0, object.comment());
        if object.index.is_some() {
            continue;
        }
        for (at, column) in object.table.columns.iter().enumerate() {
            let comment = ColumnNotes::decode(&column.note).comment;
            add(object.oid.into(), PG_CLASS, at + 1, comment);
        }
        let notes = TableNotes::decode(&object.table.note);
        for (id, comment) in notes.of_keys {
            let there = object.table.indexes.iter().any(|index| index.id == id);
            add((FIRST + id).into(), PG_CONSTRAINT, 0, Some(comment).filter(|_| there));
        }
        for (name, comment) in notes.of_checks {
            let oid = constraints::oid(object.oid, &name);
            add(oid.into(), PG_CONSTRAINT, 0, Some(comment));
        }
    }
    for one in sequences::all(txn)? {
        add(one.oid.into(), PG_CLASS, 0, one.notes.comment);
    }
    add(PUBLIC_OID, PG_NAMESPACE, 0, super::schema_comment(txn, PUBLIC)?);
    for (oid, schema) in objects.schemas() {
        add((*oid).into(), PG_NAMESPACE, 0, super::schema_comment(txn, schema)?);
    }
    Ok(rows)
}

fn shared_descriptions(txn: &mut Transaction) -> Result<Vec<Row>> {
    let comment = txn.catalog().kept("comment on database")?;
    let row = |comment| vec![number(DATABASE), number(PG_DATABASE), text(comment)];
    Ok(comment.map(row).into_iter().collect())
}

fn vacuums(txn: &mut Transaction, db: &Database, database: &str) -> Result<Vec<Row>> {
    let running = db.vacuum_progress();
    if running.is_empty() {
        return Ok(Vec::new());
    }
    let objects = Objects::of(txn)?;
    let all = objects.all();
    let oid = |name: &str| {
        let found = all.iter().find(|object| object.index.is_none() && object.stored() == name);
        found.map_or(Datum::Null, |object| number(object.oid))
    };
    let one = |progress: rightlink::VacuumProgress| {
        vec![
            text(database),
            oid(&progress.table),
            text(bare(&progress.table)),
            Datum::Bool(progress.automatic),
            text(match progress.phase {
                rightlink::VacuumPhase::Waiting => "initializing",
                rightlink::VacuumPhase::Heap => "scanning heap",
                rightlink::VacuumPhase::Indexes => "vacuuming indexes",
                rightlink::VacuumPhase::Freeing => "vacuuming heap",
            }),
            number(progress.heap_blocks),
            number(progress.heap_blocks_done),
            number(progress.index_passes),
            number(progress.index_blocks),
            number(progress.index_blocks_done),
            number(progress.dead_rows),
        ]
    };
    Ok(running.into_iter().map(one).collect())
}

fn snapshots(db: &Database) -> Vec<Row> {
    let one = |info: rightlink::SnapshotInfo| {
        vec![
            number(info.transaction),
            number(info.snapshots),
            Datum::Float8(info.age.as_secs_f64()),
            number(info.commits_since),
        ]
    };
    db.snapshots().into_iter().map(one).collect()
}

/// What the store counts, as `rightlink stat` shows it.
fn figures_since_opened(db: &Database) -> Vec<Row> {
    let one = |(name, value): (&str, u64)| vec![text(name), number(value)];
    db.stats().figures.into_iter().map(one).collect()
}

fn settings(context: &Context) -> Vec<Row> {
    let optional = |value: Option<&str>| value.map_or(Datum::Null, text);
    let bound = |value: Option<i64>| value.map_or(Datum::Null, |value| text(value.to_string()));
    let one = |shown: Shown| {
        vec![
            text(shown.name),
            text(shown.value),
            optional(shown.unit),
            text(shown.category),
            optional(shown.text),
            Datum::Null,
            text(shown.context),
            text(shown.kind),
            text(shown.source),
            bound(shown.least),
            bound(shown.most),
            list(&shown.choices),
            optional(shown.boot),
            text(shown.reset),
            // There are no files of settings.
            Datum::Null,
            Datum::Null,
            Datum::Bool(false),
        ]
    };
    context.settings.all(context.modes).into_iter().map(one).collect()
}

/// The text of an array, null for none.
fn list(values: &[&str]) -> Datum {
    let quoted = |value: &&str| match value.contains(' ') {
        true => format!("\"{value}\""),
        false => (*value).to_owned(),
    };
    let values: Vec<String> = values.iter().map(quoted).collect();
    if values.is_empty() { Datum::Null } else { text(format!("{{{}}}", values.join(","))) }
}
