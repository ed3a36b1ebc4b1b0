//! Reads a database back in every way there is, and says what may be found.
//!
//! Invariants: heap, every index forwards and every index backwards must tell of the same rows, and
//! `verify` must be clean, before the content is compared with anything.
//! Does not do: opening.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use rightlink::{Database, IndexInfo, ScanOptions, TableInfo, Value};
use rightlink_env::sync::Arc;

use super::{Content, Script, TableModel, prepared_name};

/// What is wrong, for a person.
pub(crate) type Finding = String;

type Found<T> = Result<T, Finding>;

/// The key of a row of any table used here.
pub(crate) fn id_of(row: &[Value]) -> i64 {
    match row[0] {
        Value::Int8(id) => id,
        ref other => panic!("the first column is the key, not {other:?}"),
    }
}

/// Reads everything, each table by its heap and by each index in both directions, and verifies.
pub(crate) fn read(db: &Database) -> Found<Content> {
    let mut content = Content::new();
    for info in db.tables().map_err(|error| format!("tables: {error}"))? {
        content.insert(info.name.clone(), Arc::new(read_table(db, &info)?));
    }
    for prepared in db.prepared() {
        content.insert(prepared_name(&prepared.gid), Arc::new(TableModel::nothing()));
    }
    check_sequences(db, &content)?;
    let report = db.verify().map_err(|error| format!("verify: {error}"))?;
    match report.is_clean() {
        true => Ok(content),
        false => Err(format!("verify found {:?}", report.findings)),
    }
}

/// A sequence called `TABLE_numbers` gave the rows of that table their keys: none of them may come
/// again.
fn check_sequences(db: &Database, content: &Content) -> Found<()> {
    for sequence in db.sequences().map_err(|error| format!("sequences: {error}"))? {
        let name = &sequence.schema.name;
        let table = name.strip_suffix("_numbers").and_then(|table| content.get(table));
        // A fault is followed by a row with a key that no sequence gave.
        let given = |id: &&i64| **id < 9000;
        let last = table.and_then(|table| table.rows.keys().rfind(given).copied());
        if let (Some(last), Some(next)) = (last, sequence.reserved_to)
            && next <= last
        {
            return Err(format!("sequence {name} goes on with {next}, and there is row {last}"));
        }
    }
    Ok(())
}

fn read_table(db: &Database, info: &TableInfo) -> Found<TableModel> {
    let mut rows = BTreeMap::new();
    for row in scan(db, info, &ScanOptions::all())? {
        if let Some(twice) = rows.insert(id_of(&row), row) {
            return Err(format!("{}: the heap has row {} twice", info.name, id_of(&twice)));
        }
    }
    let columns: Vec<String> = info.columns.iter().map(|column| column.name.clone()).collect();
    for index in &info.indexes {
        check_index(db, info, index, &columns, &rows)?;
    }
    let mut indexes: BTreeSet<String> =
        info.indexes.iter().map(|index| index.name.clone()).collect();
    indexes.extend(info.checks.iter().map(|check| format!("check {}", check.name)));
    Ok(TableModel { columns, indexes, logged: info.logged, rows })
}

fn scan(db: &Database, info: &TableInfo, options: &ScanOptions) -> Found<Vec<Vec<Value>>> {
    let what = || format!("scan of {} by {:?}", info.name, options.index);
    let mut txn = db.begin();
    let rows = txn.scan(&info.name, options).map_err(|error| format!("{}: {error}", what()))?;
    rows.map(|row| row.map(|row| row.values).map_err(|error| format!("{}: {error}", what())))
        .collect()
}

/// An index that finds whole keys only: each row's key leads to the rows that have it.
fn check_equality(
    db: &Database,
    info: &TableInfo,
    index: &IndexInfo,
    (columns, rows): (&[String], &BTreeMap<i64, Vec<Value>>),
) -> Found<()> {
    let place = |name: &String| columns.iter().position(|column| column == name);
    let places: Vec<usize> =
        index.columns.iter().filter_map(|column| place(&column.name)).collect();
    let key = |row: &Vec<Value>| places.iter().map(|at| row[*at].clone()).collect::<Vec<_>>();
    for row in rows.values() {
        let found = scan(db, info, &ScanOptions::index(&index.name).equal(key(row)))?;
        let wanted = rows.values().filter(|other| key(other) == key(row)).count();
        if found.len() != wanted || !found.contains(row) {
            let (name, count) = (&index.name, found.len());
            return Err(format!("index {name} leads to {count} rows instead of {wanted}: {row:?}"));
        }
    }
    Ok(())
}

fn check_index(
    db: &Database,
    info: &TableInfo,
    index: &IndexInfo,
    columns: &[String],
    rows: &BTreeMap<i64, Vec<Value>>,
) -> Found<()> {
    let place = |name: &String| columns.iter().position(|column| column == name).expect("a column");
    let holds = |row: &Vec<Value>| {
        let asked = index.predicate.as_ref();
        asked.is_none_or(|predicate| predicate.judge(|name| &row[place(name)]) == Some(true))
    };
    let rows: &BTreeMap<_, _> =
        &rows.iter().filter(|row| holds(row.1)).map(|(id, row)| (*id, row.clone())).collect();
    if !index.method.is_ordered() {
        return check_equality(db, info, index, (columns, rows));
    }
    let forward = scan(db, info, &ScanOptions::index(&index.name))?;
    let mut backward = scan(db, info, &ScanOptions::index(&index.name).backward())?;
    backward.reverse();
    let name = &index.name;
    if forward.len() != rows.len() {
        return Err(format!("index {name} has {} rows, the heap {}", forward.len(), rows.len()));
    }
    if let Some(row) = forward.iter().find(|row| rows.get(&id_of(row)) != Some(*row)) {
        return Err(format!("index {name} leads to {row:?}, which the heap does not have"));
    }
    let keys: Vec<usize> = index.columns.iter().map(|key| place(&key.name)).collect();
    let order = |a: &Vec<Value>, b: &Vec<Value>| {
        keys.iter()
            .map(|at| compare(&a[*at], &b[*at]))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    };
    match forward.windows(2).find(|pair| order(&pair[0], &pair[1]).is_gt()) {
        Some(pair) => Err(format!("index {name} is out of order at {pair:?}")),
        None if backward != forward => Err(format!("index {name} differs backwards")),
        None => Ok(()),
    }
}

/// Ascending, nulls last: how every index here is declared.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Greater,
        (_, Value::Null) => Ordering::Less,
        (Value::Int8(a), Value::Int8(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        other => panic!("no index is on values such as {other:?}"),
    }
}

/// The states of `script` that `found` may be; `closed` allows unlogged rows to be there.
pub(crate) fn matching(script: &Script, found: &Content, closed: bool) -> Vec<usize> {
    let fits = |content: &Content| {
        content.len() == found.len()
            && content.iter().zip(found).all(|((name, model), (found_name, found))| {
                name == found_name && table_fits(model, found, closed)
            })
    };
    let states = script.states.iter().enumerate();
    states.filter(|(_, state)| fits(&state.content)).map(|(index, _)| index).collect()
}

fn table_fits(model: &TableModel, found: &TableModel, closed: bool) -> bool {
    let rows = model.rows == found.rows && (model.logged || closed);
    let emptied = !model.logged && found.rows.is_empty();
    model.columns == found.columns
        && model.indexes == found.indexes
        && model.logged == found.logged
        && (rows || emptied)
}

/// What `found` holds, in a few words, for a message.
pub(crate) fn summary(found: &Content) -> String {
    let table = |(name, model): (&String, &Arc<TableModel>)| {
        let ids: Vec<i64> = model.rows.keys().copied().collect();
        format!("{name}: {} rows {ids:?}, indexes {:?}", ids.len(), model.indexes)
    };
    found.iter().map(table).collect::<Vec<_>>().join("; ")
}
