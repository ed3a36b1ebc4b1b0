//! Rows of the relations that are made up from what the store knows.
//!
//! Invariants: a row has exactly the columns that `plan::views` lists.
//! Does not do: joins of them.

use rightlink::{Database, PageInfo, RowId, Transaction};

use super::objects::{Object, Objects, PUBLIC_OID};
use super::{constraints, figures};
use crate::bind::collate;
use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::system::USER;
use crate::plan::notes::ColumnNotes;
use crate::plan::views::{Kind, View};
use crate::schemas::{self, PUBLIC, SearchPath, bare, schema_of};
use crate::types::declared::Modifier;
use crate::types::{Category, Datum, Row, SqlType};

/// Numbers of schemas and of the owner, as PostgreSQL has them.
const CATALOGS: i64 = 11;
const OWNER: i64 = 10;
const HEAP: i64 = 2;
const BTREE: i64 = 403;
const HASH: i64 = 405;

pub(super) fn text(text: impl Into<String>) -> Datum {
    Datum::Text(text.into())
}

pub(super) fn number(number: impl TryInto<i64>) -> Datum {
    Datum::Int8(number.try_into().unwrap_or(i64::MAX))
}

fn short(number: usize) -> Datum {
    Datum::Int2(i16::try_from(number).unwrap_or(i16::MAX))
}

fn count(number: u32) -> Datum {
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
        Kind::Namespace => namespaces(txn)?,
        Kind::Collation => collations(txn)?,
        Kind::Type => SqlType::ALL.into_iter().map(of_type).collect(),
        Kind::Method => methods(),
        Kind::Class => classes(txn)?,
        Kind::Attribute => objects(txn, &mut attributes)?,
        Kind::Index => objects(txn, &mut |o, rows| rows.extend(index(o)))?,
        Kind::Tables => objects(txn, &mut |o, rows| rows.extend(table(o)))?,
        Kind::Indexes => objects(txn, &mut |o, rows| rows.extend(definition(o)))?,
        Kind::Constraint => all_constraints(txn)?,
        Kind::Sequences => sequences(db)?,
        Kind::VacuumProgress => vacuums(txn, db, &context.database)?,
        Kind::Snapshots => snapshots(db),
        Kind::TableUse => figures::tables(db)?,
        Kind::IndexUse => figures::indexes(db)?,
        Kind::Activity => figures::activity(db, context),
        Kind::Locks => figures::locks(db, context)?,
        Kind::TreeMeta | Kind::TreePage | Kind::TreeItems | Kind::TreeStatistics => {
            tree(view.kind, args, (txn, db), &context.settings.path())?
        }
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
    let one = |object: &Object<'_>| class(object, objects.schema_oid(object.stored()));
    Ok(objects.all().iter().map(one).collect())
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
    for (at, known) in txn.collations()?.iter().enumerate() {
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
        number(0),
        // There are no arrays.
        number(0),
        number(0),
        Datum::Int4(-1),
    ]
}

fn class(object: &Object<'_>, namespace: i64) -> Row {
    let method = match object.method() {
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
        Datum::Bool(is_table && !object.table.indexes.is_empty()),
        Datum::Bool(false),
        text(object.persistence()),
        text(object.kind()),
        short(columns),
        short(checks),
        Datum::Bool(false),
    ]
}

fn attributes(object: &Object<'_>, rows: &mut Vec<Row>) {
    if object.index.is_some() {
        return;
    }
    for (at, column) in object.table.columns.iter().enumerate() {
        let notes = ColumnNotes::decode(&column.note);
        let ty = match notes.modifier {
            Some(Modifier::Char(_)) => SqlType::Bpchar,
            _ => SqlType::of_column(column.kind),
        };
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
            Datum::Int4(0),
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
    object.index.is_none().then(|| {
        let indexed = Datum::Bool(!object.table.indexes.is_empty());
        vec![text(object.schema()), text(object.name()), text(USER), indexed]
    })
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
        // Checks and foreign keys have no numbers of their own.
        let table = (one.table.0, one.table.1.as_str());
        add(0, &one.name, one.kind, table, one.parent.unwrap_or(0));
    }
    Ok(rows)
}

fn sequences(db: &Database) -> Result<Vec<Row>> {
    let one = |info: rightlink::SequenceInfo| {
        let schema = info.schema;
        let numbers = [schema.start, schema.min, schema.max, schema.increment];
        let mut row = vec![text(schema_of(&schema.name)), text(bare(&schema.name))];
        row.extend(numbers.map(Datum::Int8));
        row.push(Datum::Bool(false));
        row
    };
    Ok(db.sequences()?.into_iter().map(one).collect())
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

/// Rows about the pages of a B-tree.
fn tree(
    kind: Kind,
    args: &[Datum],
    (txn, db): (&mut Transaction, &Database),
    path: &SearchPath,
) -> Result<Vec<Row>> {
    let (Datum::Text(name), block) = (&args[0], args.get(1).and_then(Datum::as_int)) else {
        return Ok(Vec::new());
    };
    let plain = &schemas::find(txn, path, &schemas::parts_of(name)?)?.name;
    let missing = |error: rightlink::Error| match error {
        rightlink::Error::NotFound(_) => {
            let message = format!("relation \"{}\" does not exist", schemas::said(plain));
            SqlError::new(code::UNDEFINED_TABLE, message)
        }
        other => other.into(),
    };
    let table = txn.table_of_index(plain).map_err(missing)?;
    let info = txn.describe(&table)?;
    let is_tree = |index: &rightlink::IndexInfo| {
        index.name == *plain && index.method == rightlink::IndexMethod::BTree
    };
    if !info.indexes.iter().any(is_tree) {
        let message = format!("relation \"{}\" is not a btree index", bare(plain));
        return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
    }
    let out_of_range = || {
        let message = "block number out of range";
        SqlError::new(code::INVALID_PARAMETER, message)
    };
    match kind {
        Kind::TreeMeta => {
            let pages = db.inspect(plain, None)?;
            let root = pages.iter().filter(|page| matches!(page.kind, 'l' | 'i' | 'r'));
            let root = root.max_by_key(|page| page.level);
            Ok(root.map(|page| vec![number(page.block), number(page.level)]).into_iter().collect())
        }
        Kind::TreeStatistics => Ok(vec![statistics(&db.inspect(plain, None)?)]),
        _ => {
            let block =
                block.and_then(|block| u32::try_from(block).ok()).ok_or_else(out_of_range)?;
            let pages = db.inspect(plain, Some(block)).map_err(|error| match error {
                rightlink::Error::NotFound(_) => out_of_range(),
                other => other.into(),
            })?;
            let page = pages.first().ok_or_else(out_of_range)?;
            Ok(match kind {
                Kind::TreePage => vec![of_page(page)],
                _ => page.items.iter().filter_map(|line| item(line)).collect(),
            })
        }
    }
}

fn of_page(page: &PageInfo) -> Row {
    vec![
        number(page.block),
        text(page.kind),
        count(page.live_items),
        count(page.dead_items),
        count(page.avg_item_size),
        count(page.page_size),
        count(page.free_size),
        number(page.left.unwrap_or(0)),
        number(page.right.unwrap_or(0)),
        number(page.level),
        Datum::Int4(i32::from(page.flags)),
    ]
}

/// An item from the line that `inspect` shows of it:
/// `3: offset 8100, 24 bytes, row (1,2), key 01 02 dead`.
fn item(line: &str) -> Option<Row> {
    let (position, rest) = line.split_once(": offset ")?;
    let (_, rest) = rest.split_once(", ")?;
    let (bytes, rest) = rest.split_once(" bytes, ")?;
    let (target, key) = rest.split_once(", key ")?;
    let (key, dead) = match key.strip_suffix(" dead") {
        Some(key) => (key, true),
        None => (key, false),
    };
    let rows: Vec<RowId> = target
        .split(|c: char| !c.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .filter_map(|part| part.parse::<u32>().ok())
        .collect::<Vec<u32>>()
        .chunks_exact(2)
        .map(|pair| RowId::new(pair[0], pair[1] as u16))
        .collect();
    let is_row = target.starts_with("row");
    let tids = rows.iter().map(|row| format!("\"({},{})\"", row.block.0, row.slot));
    let tids = match rows.len() {
        0 | 1 => Datum::Null,
        _ => text(format!("{{{}}}", tids.collect::<Vec<_>>().join(","))),
    };
    Some(vec![
        Datum::Int2(position.trim().parse().ok()?),
        rows.first().filter(|_| is_row).map_or(Datum::Null, |row| Datum::Tid(*row)),
        Datum::Int2(bytes.parse().ok()?),
        text(key),
        Datum::Bool(dead),
        if is_row { tids } else { Datum::Null },
    ])
}

fn statistics(pages: &[PageInfo]) -> Row {
    let of = |kind: char| pages.iter().filter(move |page| page.kind == kind).count() as i64;
    let nodes = || pages.iter().filter(|page| matches!(page.kind, 'l' | 'i' | 'r'));
    let root = nodes().max_by_key(|page| page.level);
    let leaves: Vec<&PageInfo> = nodes().filter(|page| page.level == 0).collect();
    let empty = leaves.iter().filter(|page| page.live_items + page.dead_items == 0).count();
    let room: u64 = leaves.iter().map(|page| u64::from(page.page_size)).sum();
    let free: u64 = leaves.iter().map(|page| u64::from(page.free_size)).sum();
    let jumps = leaves.iter().filter(|page| page.right.is_some_and(|r| r < page.block)).count();
    let share = |part: f64, whole: f64| {
        let percent = if whole > 0.0 { part / whole * 100.0 } else { 0.0 };
        Datum::Float8((percent * 100.0).round() / 100.0)
    };
    vec![
        count(root.map_or(0, |page| page.level)),
        number(pages.len() as i64 * 8_192),
        number(root.map_or(0, |page| page.block)),
        number(nodes().filter(|page| page.level > 0).count() as i64),
        number(leaves.len() as i64),
        number(empty as i64),
        number(of('d')),
        share((room - free) as f64, room as f64),
        share(jumps as f64, leaves.len() as f64),
    ]
}
