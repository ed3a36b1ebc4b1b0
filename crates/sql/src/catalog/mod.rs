//! What clients ask of PostgreSQL's catalogs, answered from what the store knows.
//!
//! | file | hides |
//! |---|---|
//! | `objects` | tables, indexes and their columns under numbers, as catalogs have them |
//! | `items` | what an item of a known query means for an object |
//! | `pattern` | the names that a client's pattern matches |
//!
//! These queries join a dozen catalogs, and joins are not built. But they are few, and programs
//! write them: psql's `\d`, `\dt` and `\di`, pgbench's look for partitions. So a query is known by
//! the first catalog it reads and by the conditions on names and numbers that programs put there,
//! and each of its items by its text. What is not known is refused.
//!
//! Invariants: an answer belongs to one execution and is never kept; numbers (oids) of objects are
//! the same within a transaction, and others after a definition.
//! Does not do: catalogs as tables; `information_schema`.

mod items;
mod objects;
mod pattern;

use rightlink::Transaction;
use sqlparser::ast::{Query, Select as AstSelect, SelectItem, SetExpr, Statement, TableFactor};

use crate::bind::names;
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::plan::{Column, Distinct, Plan, Select, Source};
use crate::types::{Datum, SqlType};
use items::Row;
use objects::Objects;

/// Most parameters of such a query.
const MAX_PARAMETERS: usize = 16;
/// Catalogs of what the store does not have: always empty.
const EMPTY: [&str; 16] = [
    "pg_constraint",
    "pg_description",
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_inherits",
    "pg_partitioned_table",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_rewrite",
    "pg_sequence",
    "pg_statistic_ext",
    "pg_trigger",
    "pg_type",
];

/// The answer to a query that reads catalogs; `None` for any other.
pub(crate) fn answer(
    statement: &Statement,
    txn: &mut Transaction,
) -> Result<Option<(Plan, Vec<SqlType>)>> {
    let Statement::Query(query) = statement else { return Ok(None) };
    let Some((select, relation)) = main(&query.body) else { return Ok(None) };
    let Some(relation) = relation else { return Ok(None) };
    let columns = columns(select);
    let mut rows = Vec::new();
    if !EMPTY.contains(&relation.as_str()) {
        let objects = Objects::of(txn)?;
        let condition = select.selection.as_ref().map(ToString::to_string).unwrap_or_default();
        for row in items::rows(&relation, &normal(&condition), &objects)? {
            rows.push(values(select, &row)?);
        }
    }
    let params = vec![SqlType::Text; parameters(query)];
    Ok(Some((plan(columns, rows), params)))
}

/// The first SELECT of a query and the catalog that it reads first.
fn main(body: &SetExpr) -> Option<(&AstSelect, Option<String>)> {
    match body {
        SetExpr::Select(select) => {
            let first = select.from.first().map(|from| &from.relation);
            let Some(TableFactor::Table { name, args: None, .. }) = first else {
                return Some((select, None));
            };
            let parts = names::parts(name).ok()?;
            let catalog = match parts.as_slice() {
                [schema, name] if schema == "pg_catalog" => Some(name.clone()),
                [name] if name.starts_with("pg_") => Some(name.clone()),
                _ => None,
            };
            Some((select, catalog))
        }
        SetExpr::SetOperation { left, .. } => main(left),
        SetExpr::Query(query) => main(&query.body),
        _ => None,
    }
}

/// Text in one spelling: one blank between words, lower case outside of quotes, no `pg_catalog.`.
fn normal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut quoted = false;
    for c in text.chars() {
        quoted ^= c == '\'';
        match c {
            c if quoted => out.push(c),
            c if c.is_whitespace() && out.ends_with(' ') => {}
            c if c.is_whitespace() => out.push(' '),
            c => out.extend(c.to_lowercase()),
        }
    }
    out.replace("pg_catalog.", "")
}

/// An item's text and the name of its column.
fn item(item: &SelectItem) -> (String, String) {
    match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            (normal(&expr.to_string()), alias.value.clone())
        }
        other => {
            let text = normal(&other.to_string());
            let name = text.split('(').next().and_then(|name| name.rsplit('.').next());
            let name = name.filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'));
            let name = name.unwrap_or("?column?").to_owned();
            (text, name)
        }
    }
}

fn columns(select: &AstSelect) -> Vec<Column> {
    let column = |projected: &SelectItem| Column { name: item(projected).1, ty: SqlType::Text };
    select.projection.iter().map(column).collect()
}

fn values(select: &AstSelect, row: &Row<'_>) -> Result<Vec<Expr>> {
    let value = |projected: &SelectItem| {
        let (text, name) = item(projected);
        let value = items::value(row, &text, &name).ok_or_else(|| {
            SqlError::unsupported(format!("\"{text}\" in a query of the catalogs"))
        })?;
        Ok(Expr::Const(value.map_or(Datum::Null, Datum::Text)))
    };
    select.projection.iter().map(value).collect()
}

/// How many parameters a query names.
fn parameters(query: &Query) -> usize {
    let text = query.to_string();
    let numbers = text.split('$').skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().unwrap_or(0)
    });
    numbers.filter(|number| *number <= MAX_PARAMETERS).max().unwrap_or(0)
}

fn plan(columns: Vec<Column>, rows: Vec<Vec<Expr>>) -> Plan {
    Plan::Select(Select {
        source: Source::Values(rows),
        filter: None,
        group: None,
        output: (0..columns.len()).map(Expr::Column).collect(),
        columns,
        distinct: Distinct::None,
        sort: Vec::new(),
        ordered: false,
        limit: None,
        offset: None,
        locks: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_one_spelling() {
        assert_eq!(
            normal("pg_catalog.Format_Type(a.X,\n  b) = 'A  b'"),
            "format_type(a.x, b) = 'A  b'"
        );
    }
}
