//! Where statistics are kept: a table of the database, one row for each table that was analyzed.
//!
//! They are not notes of the catalog, because those are changed under the exclusive lock of their
//! table: ANALYZE would wait for every reader. The table is made when the first table is analyzed,
//! in a transaction of its own, because nobody can look for a table whose making is not settled.
//!
//! Invariants: whatever stands in the table, reading it says nothing worse than that nothing is
//! known; what a definition makes wrong is taken out in the transaction of the definition.
//! Does not do: finding anything out.

use std::collections::HashMap;

use rightlink::{
    Database, Error, OnConflict, ScanOptions, TableInfo, TableSchema, Transaction, Type, Value,
};

use rightlink_env::sync::Arc;

use super::{Statistics, shared};
use crate::error::{Result, SqlError, code};
use crate::names::STATISTICS;

const KEY: &str = "starelid";
const TEXT: &str = "statistics";

fn key(table: u32) -> Value {
    Value::Int8(i64::from(table))
}

/// What is left of an error by which nothing is known.
fn unless_it_ends(error: Error) -> Result<()> {
    let error = SqlError::from(error);
    if error.ends_statement() { Err(error) } else { Ok(()) }
}

/// What is known about the table of this number.
pub(crate) fn load(txn: &mut Transaction, table: u32) -> Result<Option<Arc<Statistics>>> {
    match txn.get(STATISTICS, &[key(table)]) {
        Ok(row) => Ok(row.as_ref().and_then(|row| match &row.values[..] {
            [Value::Int8(_), Value::Text(text)] => shared::decode(text),
            _ => None,
        })),
        Err(error) => unless_it_ends(error).map(|()| None),
    }
}

/// What is known about all tables, by their numbers.
pub(crate) fn load_all(txn: &mut Transaction) -> Result<HashMap<u32, Statistics>> {
    let mut all = HashMap::new();
    let rows = match txn.scan(STATISTICS, &ScanOptions::all()) {
        Ok(rows) => rows,
        Err(error) => return unless_it_ends(error).map(|()| all),
    };
    for row in rows {
        match row {
            Ok(row) => {
                if let (Some(Value::Int8(table)), Some(known)) =
                    (row.values.first(), decode(&row.values))
                    && let Ok(table) = u32::try_from(*table)
                {
                    all.insert(table, known);
                }
            }
            Err(error) => return unless_it_ends(error).map(|()| all),
        }
    }
    Ok(all)
}

fn decode(values: &[Value]) -> Option<Statistics> {
    match values {
        [Value::Int8(_), Value::Text(text)] => Statistics::decode(text),
        _ => None,
    }
}

/// Keeps what was found out about `table`, beside what is known of its other columns.
pub(crate) fn save(
    db: &Database,
    txn: &mut Transaction,
    table: &TableInfo,
    fresh: &Statistics,
) -> Result<()> {
    make(db, txn)?;
    txn.catalog().touch_definitions()?;
    let present: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
    let mut merge = |old: &[Value], _: &[Value]| {
        let known = decode(old).unwrap_or_default();
        let text = known.renewed(fresh.clone(), &present).encode();
        Ok(Some(vec![old[0].clone(), Value::Text(text)]))
    };
    let row = vec![key(table.id), Value::Text(fresh.encode())];
    let _ =
        txn.insert_into(STATISTICS).or_update(OnConflict::Columns(&[KEY]), &[row], &mut merge)?;
    Ok(())
}

/// Makes the table if it is not there.
fn make(db: &Database, txn: &mut Transaction) -> Result<()> {
    match txn.catalog().describe(STATISTICS) {
        Ok(info) => return check(&info),
        Err(Error::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let schema = TableSchema::new(STATISTICS).column(KEY, Type::Int8).column(TEXT, Type::Text);
    let mut own = db.begin();
    match own.create_table(&schema.primary_key([KEY])) {
        Ok(()) => own.commit()?,
        Err(Error::AlreadyExists(_)) => drop(own),
        Err(error) => return Err(error.into()),
    }
    check(&txn.catalog().describe(STATISTICS)?)
}

/// Databases from before there were statistics may have a table of the name.
fn check(info: &TableInfo) -> Result<()> {
    let columns: Vec<_> = info.columns.iter().map(|c| (c.name.as_str(), c.kind)).collect();
    let keyed = info
        .indexes
        .iter()
        .any(|index| index.primary && index.columns.len() == 1 && index.columns[0].name == KEY);
    if columns == [(KEY, Type::Int8), (TEXT, Type::Text)] && keyed {
        return Ok(());
    }
    let message = format!("relation \"{STATISTICS}\" is not the table of statistics");
    Err(SqlError::new(code::WRONG_OBJECT_TYPE, message)
        .hint("Give the table another name: statistics are kept under this one."))
}

/// Forgets what is known about a table that is dropped.
pub(crate) fn forget(txn: &mut Transaction, table: u32) -> Result<()> {
    let done = match txn.get(STATISTICS, &[key(table)]) {
        Ok(None) => return Ok(()),
        Ok(Some(row)) => {
            let touched = txn.catalog().touch_definitions();
            touched.and_then(|()| txn.delete(STATISTICS, row.id).map(drop))
        }
        Err(error) => Err(error),
    };
    done.or_else(harmless)
}

/// Changes what is known about a table.
pub(crate) fn change(
    txn: &mut Transaction,
    table: u32,
    change: impl FnOnce(&mut Statistics),
) -> Result<()> {
    let row = match txn.get(STATISTICS, &[key(table)]) {
        Ok(Some(row)) => row,
        Ok(None) => return Ok(()),
        Err(error) => return harmless(error),
    };
    let Some(mut known) = decode(&row.values) else { return Ok(()) };
    txn.catalog().touch_definitions()?;
    change(&mut known);
    let set = [(TEXT, Value::Text(known.encode()))];
    txn.update(STATISTICS, row.id, &set).map(drop).or_else(harmless)
}

/// What is known is old then, which only costs time: a definition does not fail by it.
fn harmless(error: Error) -> Result<()> {
    let error = SqlError::from(error);
    if error.ends_statement() && !error.is_retryable() { Err(error) } else { Ok(()) }
}
