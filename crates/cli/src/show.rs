//! `tables`, `describe` and `stat`: what there is, and how big.
//!
//! Invariants: a table and its indexes are shown in the order the engine gives.
//! Does not do: counting rows, which would read them all; `scan` does that.

use std::time::Duration;

use rightlink::PAGE_SIZE;
use rightlink::{AutoVacuum, ColumnDefault, ColumnSchema, IndexInfo, IndexMethod, TableInfo};
use rightlink_sql::shown_text;

use crate::failure::{Exit, Failure};
use crate::figures::{bytes, count, duration};
use crate::grid::Grid;
use crate::json::{Json, object};
use crate::names;
use crate::output::Output;
use crate::work::Work;

/// Lists the tables.
pub(crate) fn tables(work: &Work<'_>, output: &mut Output) -> Result<Exit, Failure> {
    let tables = names::tables(work.db)?;
    if output.json() {
        tables.iter().try_for_each(|table| output.line(summary(table)))?;
        return Ok(Exit::Done);
    }
    if tables.is_empty() {
        output.line("no tables")?;
        return Ok(Exit::Done);
    }
    let mut grid = Grid::new(["table", ">columns", ">indexes", ">heap", ">indexes' size"]);
    for table in &tables {
        let cells = vec![
            shown_text(&table.name),
            names::shown(table).count().to_string(),
            table.indexes.len().to_string(),
            bytes(size(table.heap_blocks)),
            bytes(index_bytes(table)),
        ];
        grid.row(cells, output)?;
    }
    grid.finish(output)?;
    Ok(Exit::Done)
}

fn size(blocks: u32) -> u64 {
    u64::from(blocks) * PAGE_SIZE as u64
}

fn index_bytes(table: &TableInfo) -> u64 {
    table.indexes.iter().map(|index| size(index.blocks)).sum()
}

fn summary(table: &TableInfo) -> Json {
    object([
        ("table", shown_text(&table.name).into()),
        ("columns", names::shown(table).count().into()),
        ("indexes", table.indexes.len().into()),
        ("heap_bytes", size(table.heap_blocks).into()),
        ("index_bytes", index_bytes(table).into()),
    ])
}

/// Shows one table.
pub(crate) fn describe(work: &Work<'_>, table: &str, output: &mut Output) -> Result<Exit, Failure> {
    let table = names::table(work.db, table)?;
    if output.json() {
        output.line(whole(&table))?;
    } else {
        describe_text(&table, output)?;
    }
    Ok(Exit::Done)
}

fn describe_text(table: &TableInfo, output: &mut Output) -> Result<(), Failure> {
    let logged = if table.logged { "" } else { ", unlogged: empty after a crash" };
    // One block is the map of the others.
    let long = match table.overflow_blocks {
        0 | 1 => String::new(),
        blocks => format!(", long values {}", bytes(size(blocks))),
    };
    output.line(format_args!(
        "table {}: heap {}{long}{logged}",
        shown_text(&table.name),
        bytes(size(table.heap_blocks))
    ))?;
    output.line("")?;
    describe_columns(table, output)?;
    if !table.checks.is_empty() {
        output.line("")?;
        let mut grid = Grid::new(["check", "condition"]);
        for check in &table.checks {
            grid.row(vec![check.name.clone(), check.predicate.to_string()], output)?;
        }
        grid.finish(output)?;
    }
    if table.auto_vacuum != AutoVacuum::default() {
        let AutoVacuum { enabled, least, per_block } = table.auto_vacuum;
        let (least, per_block) = (count(least.into()), count(per_block.into()));
        output.line(match enabled {
            true => format!("\nvacuumed at {least} dead versions and {per_block} a block"),
            false => "\nvacuumed only if asked for".to_owned(),
        })?;
    }
    if table.indexes.is_empty() {
        return output.line("\nno indexes");
    }
    output.line("")?;
    let mut grid = Grid::new(["index", "columns", "kind", ">size"]);
    for index in &table.indexes {
        let cells = vec![
            shown_text(&index.name),
            key_columns(table, index).join(", "),
            kind(index),
            bytes(size(index.blocks)),
        ];
        grid.row(cells, output)?;
    }
    grid.finish(output)
}

/// The columns, with their defaults where there are any.
fn describe_columns(table: &TableInfo, output: &mut Output) -> Result<(), Failure> {
    let defaults = names::shown(table).any(|column| !default(column).is_empty());
    let mut grid = match defaults {
        true => Grid::new(["column", "type", "null", "default"]),
        false => Grid::new(["column", "type", "null"]),
    };
    for column in names::shown(table) {
        let null = if column.nullable { "yes" } else { "no" };
        let collate = column.collation.as_ref().map(|known| format!(" collate {known}"));
        let kind = format!("{}{}", column.kind, collate.unwrap_or_default());
        let mut cells = vec![column.name.clone(), kind, null.to_owned()];
        if defaults {
            cells.push(default(column));
        }
        grid.row(cells, output)?;
    }
    grid.finish(output)
}

/// What a column gets that an insert does not name.
fn default(column: &ColumnSchema) -> String {
    if let Some(expression) = rightlink_sql::generation_expression(column) {
        return format!("generated as ({expression})");
    }
    match (&column.identity, &column.default) {
        (Some(identity), _) => format!("next of {}", identity.sequence),
        (None, None) => String::new(),
        (None, Some(ColumnDefault::Value(value))) => value.to_string(),
        (None, Some(ColumnDefault::Now)) => "now".to_owned(),
        (None, Some(ColumnDefault::RandomUuid)) => "random uuid".to_owned(),
    }
}

fn kind(index: &IndexInfo) -> String {
    let kind = match (index.primary, index.unique) {
        (true, _) => "primary key",
        (false, true) => "unique",
        (false, false) => "",
    };
    let method = match index.method {
        IndexMethod::BTree => "",
        other => other.name(),
    };
    let clauses = index.clauses();
    let words = [method, kind, &clauses].into_iter().filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Columns as `--index` reads them, and expressions as SQL does.
fn key_columns(table: &TableInfo, index: &IndexInfo) -> Vec<String> {
    let text = |column: &rightlink::KeyColumn| {
        let order = if column.descending { " desc" } else { "" };
        let nulls = match (column.descending, column.nulls_first) {
            (true, false) => " nulls last",
            (false, true) => " nulls first",
            _ => "",
        };
        let collate = column.collation.given().map(|known| format!(" collate {known}"));
        let own = table.columns.iter().find(|own| own.name == column.name);
        let expression = own.and_then(rightlink_sql::index_expression);
        let name = expression.map_or_else(|| column.name.clone(), |text| format!("({text})"));
        format!("{name}{}{order}{nulls}", collate.unwrap_or_default())
    };
    index.columns.iter().map(text).collect()
}

fn whole(table: &TableInfo) -> Json {
    let AutoVacuum { enabled, least, per_block } = table.auto_vacuum;
    let auto_vacuum = object([
        ("enabled", enabled.into()),
        ("least", u64::from(least).into()),
        ("per_block", u64::from(per_block).into()),
    ]);
    let column = |column: &ColumnSchema| {
        object([
            ("name", column.name.as_str().into()),
            ("type", column.kind.name().into()),
            ("collation", column.collation.as_ref().map(ToString::to_string).into()),
            ("nullable", column.nullable.into()),
            ("default", Some(default(column)).filter(|text| !text.is_empty()).into()),
        ])
    };
    let index = |index: &IndexInfo| {
        object([
            ("name", shown_text(&index.name).into()),
            ("columns", key_columns(table, index).into()),
            ("unique", index.unique.into()),
            ("nulls_not_distinct", index.nulls_not_distinct.into()),
            ("included", index.included.clone().into()),
            ("where", index.predicate.as_ref().map(ToString::to_string).into()),
            ("primary", index.primary.into()),
            ("method", index.method.name().into()),
            ("bytes", size(index.blocks).into()),
        ])
    };
    let check = |check: &rightlink::CheckSchema| {
        object([
            ("name", check.name.as_str().into()),
            ("condition", check.predicate.to_string().into()),
        ])
    };
    object([
        ("table", shown_text(&table.name).into()),
        ("logged", table.logged.into()),
        ("auto_vacuum", auto_vacuum),
        ("heap_bytes", size(table.heap_blocks).into()),
        ("overflow_bytes", size(table.overflow_blocks).into()),
        ("columns", Json::List(names::shown(table).map(column).collect())),
        ("indexes", Json::List(table.indexes.iter().map(index).collect())),
        ("checks", Json::List(table.checks.iter().map(check).collect())),
    ])
}

/// Shows sizes and figures.
pub(crate) fn stat(work: &Work<'_>, output: &mut Output) -> Result<Exit, Failure> {
    let tables = names::tables(work.db)?;
    let stats = work.db.stats();
    if output.json() {
        let named = |(name, value): &(&str, u64)| ((*name).to_owned(), Json::from(*value));
        let mut fields =
            vec![("tables".to_owned(), Json::List(tables.iter().map(summary).collect()))];
        fields.extend(stats.figures.iter().map(named));
        output.line(Json::Object(fields))?;
        return Ok(Exit::Done);
    }
    let mut grid = Grid::new(["relation", ">blocks", ">size"]);
    for table in &tables {
        grid.row(relation(&shown_text(&table.name), table.heap_blocks), output)?;
        for index in &table.indexes {
            grid.row(relation(&format!("  {}", shown_text(&index.name)), index.blocks), output)?;
        }
    }
    grid.finish(output)?;
    output.line("")?;
    let mut grid = Grid::new([work.since(), ">"]);
    for (name, value) in &stats.figures {
        grid.row(vec![(*name).to_owned(), shown(name, *value)], output)?;
    }
    grid.finish(output)?;
    Ok(Exit::Done)
}

/// A figure in the unit that its name tells.
pub(crate) fn shown(name: &str, value: u64) -> String {
    match name.rsplit('_').next() {
        Some("bytes") => bytes(value),
        Some("us") => duration(Duration::from_micros(value)),
        _ => count(value),
    }
}

fn relation(name: &str, blocks: u32) -> Vec<String> {
    vec![name.to_owned(), count(u64::from(blocks)), bytes(size(blocks))]
}
