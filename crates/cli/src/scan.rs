//! `scan` and `get`: rows of a table, by index range or by primary key.
//!
//! Invariants: rows are printed as they come, in bounded memory; values are read by the types of
//! the key's columns. Does not do: filters that no index serves.

use rightlink::{ColumnSchema, Database, IndexInfo, ScanOptions, TableInfo, Type, Value};
use rightlink_sql::shown_text;

use crate::args::{Common, GetArgs, ScanArgs};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::rows::{Printer, key};
use crate::{names, open};

/// Prints the rows of a scan.
pub(crate) fn scan(common: &Common, args: &ScanArgs, output: &mut Output) -> Result<Exit, Failure> {
    let db = open::existing(common, &args.db)?;
    let table = names::table(&db, &args.table)?;
    print_scan(&db, &table, args, output)?;
    db.close()?;
    Ok(Exit::Done)
}

fn print_scan(
    db: &Database,
    table: &TableInfo,
    args: &ScanArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let columns = chosen_columns(table, args.columns.as_deref())?;
    let options = scan_options(table, args)?;
    let mut work = db.begin();
    let mut rows = 0;
    let mut printer = Printer::start(args.format, &columns, output)?;
    for row in work.scan(&table.name, &options)? {
        printer.row(&row?.values, output)?;
        rows += 1;
    }
    printer.finish(rows, output)
}

/// Prints the rows with these keys.
pub(crate) fn get(common: &Common, args: &GetArgs, output: &mut Output) -> Result<Exit, Failure> {
    let db = open::existing(common, &args.db)?;
    let table = names::table(&db, &args.table)?;
    let primary = primary_key(&table)?;
    let types = key_types(&table, primary)?;
    let keys = args.keys.iter().map(|text| whole_key(text, &types));
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    let columns: Vec<&ColumnSchema> = names::shown(&table).collect();
    let mut work = db.begin();
    let mut printer = Printer::start(args.format, &columns, output)?;
    let mut missing = Vec::new();
    for (key, text) in keys.iter().zip(&args.keys) {
        match work.get(&table.name, key)? {
            Some(row) => printer.row(&row.values[..columns.len()], output)?,
            None => missing.push(text.as_str()),
        }
    }
    let found = keys.len() - missing.len();
    if found > 0 {
        printer.finish(found as u64, output)?;
    }
    work.rollback();
    db.close()?;
    if missing.is_empty() {
        return Ok(Exit::Done);
    }
    output.flush()?;
    let list = missing.join(" ");
    Err(Failure::new(Exit::NotFound, format!("no row with key {list} in table {}", args.table)))
}

fn whole_key(text: &str, types: &[(&str, Type)]) -> Result<Vec<Value>, Failure> {
    let values = key(text, types)?;
    if values.len() == types.len() {
        return Ok(values);
    }
    let names: Vec<&str> = types.iter().map(|(name, _)| *name).collect();
    let all = names.join(", ");
    Err(Failure::usage(format!("key {text:?} must have a value for each of: {all}")))
}

/// The columns with these names, all without.
pub(crate) fn chosen_columns<'a>(
    table: &'a TableInfo,
    chosen: Option<&[String]>,
) -> Result<Vec<&'a ColumnSchema>, Failure> {
    let Some(list) = chosen else { return Ok(names::shown(table).collect()) };
    let mut columns: Vec<&ColumnSchema> = Vec::new();
    for name in list {
        let column = names::column(table, name.trim())?;
        // An object of JSON with one key twice is read differently by every program.
        if columns.iter().any(|known| known.name == column.name) {
            return Err(Failure::usage(format!("column {} is asked for twice", column.name)));
        }
        columns.push(column);
    }
    Ok(columns)
}

fn scan_options(table: &TableInfo, args: &ScanArgs) -> Result<ScanOptions, Failure> {
    let bounded = args.from.is_some()
        || args.to.is_some()
        || args.equal.is_some()
        || !args.any_of.is_empty()
        || args.desc;
    let index = match &args.index {
        Some(name) => Some(names::index(table, name)?),
        None if bounded => Some(primary_key(table)?),
        None => None,
    };
    let mut options = match index {
        Some(index) => bounds(ScanOptions::index(&index.name), &key_types(table, index)?, args)?,
        None => ScanOptions::all(),
    };
    options.limit = args.limit;
    if let Some(columns) = &args.columns {
        options = options.columns(columns.iter().map(|name| name.trim()));
    } else {
        options = options.columns(names::shown(table).map(|column| column.name.as_str()));
    }
    Ok(if args.desc { options.backward() } else { options })
}

fn bounds(
    mut options: ScanOptions,
    types: &[(&str, Type)],
    args: &ScanArgs,
) -> Result<ScanOptions, Failure> {
    if let Some(text) = &args.equal {
        options = options.equal(key(text, types)?);
    }
    if let Some(text) = &args.from {
        options = options.from(key(text, types)?);
    }
    if let Some(text) = &args.to {
        options = options.to(key(text, types)?);
    }
    for text in &args.any_of {
        options.any_of.push(key(text, types)?);
    }
    Ok(options)
}

fn primary_key(table: &TableInfo) -> Result<&IndexInfo, Failure> {
    table.indexes.iter().find(|index| index.primary).ok_or_else(|| {
        let names: Vec<_> = table.indexes.iter().map(|index| shown_text(&index.name)).collect();
        let list = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let what = format!("table {} has no primary key", shown_text(&table.name));
        Failure::usage(what).and(format!("its indexes: {list}"))
    })
}

fn key_types<'a>(table: &'a TableInfo, index: &IndexInfo) -> Result<Vec<(&'a str, Type)>, Failure> {
    let of = |name: &str| names::column(table, name).map(|it| (it.name.as_str(), it.kind));
    index.columns.iter().map(|column| of(&column.name)).collect()
}
