//! What clients ask of PostgreSQL's catalogs, answered from what the store knows.
//!
//! | file | hides |
//! |---|---|
//! | `objects` | tables, indexes and their columns under numbers, as catalogs have them |
//! | `asked` | which relations a condition means |
//! | `items` | what an item of a known query means for an object |
//! | `constraints` | checks and foreign keys |
//! | `sequences` | sequences |
//! | `pattern` | the names that a client's pattern matches |
//! | `information` | rows of `information_schema` |
//! | `figures` | who does what, what tables and indexes are used for, locks |
//! | `views` | rows of catalogs, settings and statistics that queries read one at a time |
//! | `tuples` | the row of `pgstattuple` |
//! | `trees` | rows of functions about the pages of an index |
//!
//! A query of one catalog is a query like any other (`views`). But programs join a dozen of them,
//! and joins are not built. They are few, and programs write them: psql's `\d`, `\dt` and `\di`,
//! pgbench's look for partitions. So a query is known by the first catalog it reads and by the
//! conditions on names and numbers that programs put there, and each of its items by its text. What
//! is not known is refused.
//!
//! Invariants: an answer belongs to one execution and is never kept; numbers (oids) of objects are
//! the same within a transaction, and others after a definition.
//! Does not do: the views of `information_schema` about what the store does not have.

mod asked;
mod constraints;
mod figures;
mod information;
mod items;
mod objects;
mod pattern;
mod sequences;
mod trees;
mod tuples;
pub(crate) mod views;

use std::sync::Arc;

use rightlink::Transaction;
use sqlparser::ast::{Query, Select as AstSelect, SelectItem, SetExpr, Statement, TableFactor};

use crate::bind::{Comment, names};
use crate::error::{Result, SqlError};
use crate::expr::Expr;
use crate::plan::{Column, Plan, Select, Source};
use crate::schemas::{PUBLIC, SearchPath, bare, schema_of};
use crate::types::{Datum, SqlType};
use objects::Objects;

/// Most parameters of such a query.
const MAX_PARAMETERS: usize = 16;
/// Catalogs of what the store does not have: always empty.
const EMPTY: [&str; 13] = [
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
    "pg_statistic_ext",
    "pg_trigger",
    "pg_type",
];

/// Does the statement read one of the relations that are made up, and nothing else?
pub(crate) fn reads_view(statement: &Statement) -> bool {
    let Statement::Query(query) = statement else { return false };
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let [only] = select.from.as_slice() else { return false };
    let TableFactor::Table { name, args: None, .. } = &only.relation else { return false };
    only.joins.is_empty()
        && names::parts(name).is_ok_and(|parts| crate::plan::views::relation(&parts).is_some())
        && !lists_schemas(select)
}

/// Is it psql's `\dn`, which has regular expressions in its condition?
fn lists_schemas(select: &AstSelect) -> bool {
    let condition = select.selection.as_ref().map(ToString::to_string).unwrap_or_default();
    let condition = normal(&condition);
    condition.contains("n.nspname !~ '^pg_'") || condition.contains("n.nspname operator(~) '")
}

/// The name under which the comment on a schema is kept.
pub(crate) fn schema_comment_key(schema: &str) -> String {
    format!("comment on schema {schema}")
}

/// The comment on a schema.
pub(super) fn schema_comment(txn: &mut Transaction, schema: &str) -> Result<Option<String>> {
    let kept = txn.kept(&schema_comment_key(schema))?;
    let standard = || (schema == PUBLIC).then(|| "standard public schema".to_owned());
    // An empty one was taken away.
    Ok(kept.or_else(standard).filter(|text| !text.is_empty()))
}

/// What an item of `\dn` is for a schema; `None` if it is not known.
fn of_schema(schema: &str, text: &str, comment: Option<&String>) -> Option<Option<String>> {
    Some(match text {
        "n.nspname" => Some(schema.to_owned()),
        _ if text.starts_with("pg_get_userbyid(") => Some(crate::expr::system::USER.to_owned()),
        _ if text.starts_with("array_to_string(n.nspacl") => None,
        _ if text.starts_with("obj_description(") => comment.cloned(),
        _ => return None,
    })
}

/// The number that catalogs know a relation by; `None` if it is not there.
pub(crate) fn oid(txn: &mut Transaction, stored: &str) -> Result<Option<i64>> {
    let objects = Objects::of(txn)?;
    let found = objects.all().iter().find(|object| object.stored() == stored).map(|o| o.oid);
    let found = match found {
        Some(oid) => Some(oid),
        None => {
            let known = txn.sequences()?.into_iter().find(|one| one.schema.name == stored);
            known.map(|one| objects::FIRST + one.id)
        }
    };
    Ok(found.map(i64::from))
}

/// All comments but those on databases.
pub(crate) fn comments(txn: &mut Transaction) -> Result<Vec<Comment>> {
    let one = |row: Vec<Datum>| match row.as_slice() {
        [Datum::Int8(oid), Datum::Int8(number), Datum::Int4(part), Datum::Text(text)] => {
            let (oid, part, text) = (*oid, *part, text.clone());
            let catalog = match *number {
                views::PG_CONSTRAINT => "pg_constraint",
                views::PG_NAMESPACE => "pg_namespace",
                _ => "pg_class",
            };
            Some(Comment { oid, catalog, part, text })
        }
        _ => None,
    };
    Ok(views::descriptions(txn)?.into_iter().filter_map(one).collect())
}

/// The answer to a query that reads catalogs; `None` for any other.
pub(crate) fn answer(
    statement: &Statement,
    txn: &mut Transaction,
    path: &SearchPath,
) -> Result<Option<(Plan, Vec<SqlType>)>> {
    let Statement::Query(query) = statement else { return Ok(None) };
    let Some((select, relation)) = main(&query.body) else { return Ok(None) };
    let Some(relation) = relation else { return Ok(None) };
    let columns = columns(select);
    let mut rows = Vec::new();
    if !EMPTY.contains(&relation.as_str()) {
        let objects = Objects::of(txn)?;
        let condition = select.selection.as_ref().map(ToString::to_string).unwrap_or_default();
        let condition = normal(&condition);
        if relation == "pg_namespace" && lists_schemas(select) {
            let wanted = asked::quoted(&condition, "n.nspname operator(~) ");
            let made = objects.schemas().iter().map(|(_, name)| name.as_str());
            let mut all: Vec<&str> = made.chain([PUBLIC]).collect();
            all.sort_unstable();
            for schema in all {
                if wanted.is_none_or(|wanted| pattern::matches(wanted, schema)) {
                    let comment = schema_comment(txn, schema)?;
                    let value = |text: &str, _: &str| of_schema(schema, text, comment.as_ref());
                    rows.push(values(select, &value)?);
                }
            }
        } else if relation == "pg_constraint" {
            let all = constraints::all(&objects);
            for one in all.iter().filter(|one| one.fits(&condition)) {
                rows.push(values(select, &|text, _| one.value(text))?);
            }
        } else {
            let mut found = Vec::new();
            let sequences = sequences::asked(&relation, &condition, (txn, &objects), path)?;
            for one in &sequences {
                let row = values(select, &|text, _| one.value(text))?;
                found.push(((bare(&one.schema.name), schema_of(&one.schema.name)), row));
            }
            let tables = match relation == "pg_sequence" || condition.contains("d.objid = ") {
                true => Vec::new(),
                false => items::rows(&relation, &condition, &objects, path)?,
            };
            for row in &tables {
                let one = values(select, &|text, name| items::value(row, text, name))?;
                found.push(((row.name(), row.schema()), one));
            }
            // Those of tables are in their order.
            if !sequences.is_empty() {
                found.sort_by_key(|(name, _)| *name);
            }
            rows.extend(found.into_iter().map(|(_, row)| row));
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
    let column = |projected: &SelectItem| Column::new(item(projected).1, SqlType::Text);
    select.projection.iter().map(column).collect()
}

/// The value of an item of this text and name; `None` if it is not known.
type Meaning<'m> = &'m dyn Fn(&str, &str) -> Option<Option<String>>;

fn values(select: &AstSelect, meaning: Meaning<'_>) -> Result<Vec<Expr>> {
    let value = |projected: &SelectItem| {
        let (text, name) = item(projected);
        let value = meaning(&text, &name).ok_or_else(|| {
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
    let output = (0..columns.len()).map(Expr::Column).collect();
    let values = Select::over(Source::Values(rows));
    Plan::Select(Arc::new(Select { output, columns, ..values }))
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
