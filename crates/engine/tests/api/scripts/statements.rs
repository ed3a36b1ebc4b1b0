//! Statements of a script on named tables, inside a session or in a transaction of their own.

use std::ops::Bound;

use rightlink::{
    Busy, Condition, Database, Error, IndexSchema, Isolation, Result, RowId, RowLock, ScanOptions,
    TableSchema, Transaction, TransactionOptions, Type, Value,
};

use super::commands::Session;
use super::display;

/// A word with the repetitions of its last letter written out: `ab*3` is `abbb`.
pub(crate) fn expand(word: &str) -> String {
    let Some((text, count)) = word.rsplit_once('*') else { return word.to_owned() };
    let count: usize = count.parse().expect("a number of repetitions");
    let (last, _) = text.char_indices().next_back().expect("a letter to repeat");
    format!("{}{}", &text[..last], text[last..].repeat(count))
}

/// Runs a statement in a transaction of its own.
pub(crate) fn run_alone(db: &Database, words: &[String]) -> Vec<String> {
    let isolation = Isolation::ReadCommitted;
    let mut txn = db.begin_with(TransactionOptions { isolation, ..Default::default() });
    let run = run(&mut txn, words).and_then(|lines| txn.commit().map(|()| lines));
    run.unwrap_or_else(failed)
}

/// Runs a statement in a session, which is returned unless it ended.
pub(crate) fn run_in_session(
    mut session: Box<Session>,
    words: &[String],
) -> (Option<Box<Session>>, Vec<String>) {
    let savepoint = |session: &Session| session.savepoints[words[1].as_str()];
    let lines = match words[0].as_str() {
        "commit" => return (None, done(session.txn.commit())),
        "rollback" => {
            session.txn.rollback();
            return (None, Vec::new());
        }
        "savepoint" => {
            let set = session.txn.savepoint();
            session.savepoints.insert(words[1].clone(), set);
            Vec::new()
        }
        "rollback-to" => {
            let to = savepoint(&session);
            done(session.txn.rollback_to(to))
        }
        "release" => {
            let released = savepoint(&session);
            done(session.txn.release(released))
        }
        _ => run(&mut session.txn, words).unwrap_or_else(failed),
    };
    (Some(session), lines)
}

fn failed(error: Error) -> Vec<String> {
    vec![format!("error: {error}")]
}

fn done(result: Result<()>) -> Vec<String> {
    result.map_or_else(failed, |()| Vec::new())
}

fn run(txn: &mut Transaction, words: &[String]) -> Result<Vec<String>> {
    let (statement, name, rest) = (words[0].as_str(), words[1].as_str(), &words[2..]);
    let lines = match statement {
        "create-table" => {
            txn.create_table(&table(name, rest))?;
            Vec::new()
        }
        "create-index" => {
            txn.create_index(&rest[1], &index(name, &rest[2..]))?;
            Vec::new()
        }
        "drop-table" => {
            txn.drop_table(name)?;
            Vec::new()
        }
        "insert" => {
            let types = types(txn, name)?;
            let range = rest.iter().find(|word| word.contains("..")).unwrap_or(&rest[0]);
            let rows: Vec<Vec<Value>> = numbers(range)
                .map(|n| {
                    rest.iter().zip(&types).map(|(word, kind)| value(word, n, *kind)).collect()
                })
                .collect();
            txn.insert_many(name, &rows)?;
            Vec::new()
        }
        "get" => {
            let key = key(txn, name, &rest[0], 0)?;
            let row = txn.get(name, &[key])?;
            row.iter().map(|row| display::row(&row.values)).collect()
        }
        "scan" => scan(txn, name, rest)?,
        "update" | "delete" | "lock" => write(txn, statement, name, rest)?,
        _ => panic!("no command {statement}"),
    };
    Ok(lines)
}

/// `NAME COLUMN:TYPE.. [key=COLUMN] [unlogged] [fillfactor=N]`; a `?` after a type allows null.
fn table(name: &str, words: &[String]) -> TableSchema {
    words.iter().fold(TableSchema::new(name), |schema, word| {
        match (word.split_once(':'), word.split_once('=')) {
            (Some((column, kind)), _) => match kind.strip_suffix('?') {
                Some(kind) => schema.nullable(column, type_of(kind)),
                None => schema.column(column, type_of(kind)),
            },
            (_, Some(("key", column))) => schema.primary_key([column]),
            (_, Some(("fillfactor", percent))) => {
                schema.fillfactor(percent.parse().expect("a percentage"))
            }
            _ if word == "unlogged" => schema.unlogged(),
            _ => panic!("no part of a table: {word}"),
        }
    })
}

/// `COLUMN,.. [unique]`.
fn index(name: &str, words: &[String]) -> IndexSchema {
    let index = words[0].split(',').fold(IndexSchema::new(name), |index, column| index.on(column));
    if words.get(1).is_some_and(|word| word == "unique") { index.unique() } else { index }
}

fn type_of(name: &str) -> Type {
    match name {
        "int4" => Type::Int4,
        "int8" => Type::Int8,
        "text" => Type::Text,
        _ => panic!("no type {name} in scripts"),
    }
}

fn types(txn: &mut Transaction, table: &str) -> Result<Vec<Type>> {
    Ok(txn.catalog().describe(table)?.columns.iter().map(|column| column.kind).collect())
}

/// The numbers of `3` or of `1..9`, both ends included; 0 for other words.
fn numbers(word: &str) -> std::ops::RangeInclusive<i64> {
    let (first, last) = word.split_once("..").unwrap_or((word, word));
    let number = |word: &str| word.parse().unwrap_or(0);
    number(first)..=number(last)
}

/// A value, in which `{}` and a range stand for `number`.
fn value(word: &str, number: i64, kind: Type) -> Value {
    let word = if word.contains("..") { number.to_string() } else { word.to_owned() };
    let word = word.replace("{}", &number.to_string());
    match kind {
        _ if word == "null" => Value::Null,
        Type::Int4 => Value::Int4(word.parse().expect("a number")),
        Type::Int8 => Value::Int8(word.parse().expect("a number")),
        _ => Value::Text(word),
    }
}

/// A value of the first column, which is the key of every table with one.
fn key(txn: &mut Transaction, table: &str, word: &str, number: i64) -> Result<Value> {
    Ok(value(word, number, types(txn, table)?[0]))
}

/// `TABLE [INDEX] [equal=V] [from=V] [to=V] [COLUMN~V] [backward] [limit=N] [ids] [count]`.
fn scan(txn: &mut Transaction, table: &str, words: &[String]) -> Result<Vec<String>> {
    let info = txn.catalog().describe(table)?;
    let type_of = |name: &str| info.columns.iter().find(|c| c.name == name).map(|c| c.kind);
    let mut options = ScanOptions::all();
    let mut first = None;
    for word in words {
        if let Some(index) = info.indexes.iter().find(|index| index.name == *word) {
            first = type_of(&index.columns[0].name);
            options = ScanOptions::index(word);
            continue;
        }
        let in_first = |word: &str| vec![value(word, 0, first.expect("an index comes first"))];
        options = match (word.split_once('='), word.split_once('~')) {
            (Some(("equal", wanted)), _) => options.equal(in_first(wanted)),
            (Some(("from", bound)), _) => options.from(in_first(bound)),
            (Some(("to", bound)), _) => options.to(in_first(bound)),
            (Some(("limit", rows)), _) => options.limit(rows.parse().expect("a number")),
            (_, Some((column, wanted))) => {
                let wanted = value(wanted, 0, type_of(column).expect("a column of the table"));
                let only = Bound::Included(wanted);
                options.matching(column, Condition::Between(only.clone(), only))
            }
            _ if word == "backward" => options.backward(),
            _ => options,
        };
    }
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let rows = txn.scan(table, &options)?.collect::<Result<Vec<_>>>()?;
    if has("count") {
        return Ok(vec![format!("{} rows", rows.len())]);
    }
    let place = |id: RowId| if has("ids") { format!("{id} ") } else { String::new() };
    Ok(rows.iter().map(|row| place(row.id) + &display::row(&row.values)).collect())
}

/// `update TABLE KEY COLUMN=V..`, `delete TABLE KEY`, `lock TABLE KEY MODE [fail|skip]`.
fn write(
    txn: &mut Transaction,
    statement: &str,
    table: &str,
    words: &[String],
) -> Result<Vec<String>> {
    let info = txn.catalog().describe(table)?;
    let columns = &info.columns;
    let mut lines = Vec::new();
    for number in numbers(&words[0]) {
        let key = key(txn, table, &words[0], number)?;
        let Some(row) = txn.get(table, &[key])? else {
            lines.push("no row".to_owned());
            continue;
        };
        let is_there = match statement {
            "update" => {
                let set: Vec<(&str, Value)> = words[1..]
                    .iter()
                    .map(|word| {
                        let (name, new) = word.split_once('=').expect("COLUMN=VALUE");
                        let column = columns.iter().find(|column| column.name == name);
                        (name, value(new, number, column.expect("a column").kind))
                    })
                    .collect();
                txn.update(table, row.id, &set)?
            }
            "delete" => txn.delete(table, row.id)?,
            _ => txn.lock_row(table, row.id, row_lock(&words[1]), busy(words.get(2)))?,
        };
        if !is_there {
            lines.push("the row is gone or left out".to_owned());
        }
    }
    Ok(lines)
}

fn row_lock(word: &str) -> RowLock {
    match word {
        "key-shared" => RowLock::KeyShared,
        "shared" => RowLock::Shared,
        "update" => RowLock::Update,
        "exclusive" => RowLock::Exclusive,
        _ => panic!("no row lock {word}"),
    }
}

fn busy(word: Option<&String>) -> Busy {
    match word.map(String::as_str) {
        None => Busy::Wait,
        Some("fail") => Busy::Fail,
        Some("skip") => Busy::Skip,
        Some(other) => panic!("no answer to a busy row: {other}"),
    }
}
