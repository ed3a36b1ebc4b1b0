//! What clients ask of PostgreSQL's catalogs, answered from what the store knows.
//!
//! | file | hides |
//! |---|---|
//! | `objects` | tables, indexes and their columns under numbers, as catalogs have them |
//! | `forms` | the queries of several catalogs that are known |
//! | `asked` | conditions of such queries |
//! | `items` | what an item of such a query means for an object |
//! | `constraints` | checks and foreign keys |
//! | `sequences` | sequences |
//! | `pattern` | patterns of names that psql sends |
//! | `information` | rows of `information_schema` |
//! | `figures` | who does what, what tables and indexes are used for, locks |
//! | `views` | rows of catalogs, settings and statistics that queries read one at a time |
//! | `tuples` | the row of `pgstattuple` |
//! | `trees` | rows of functions about the pages of an index |
//!
//! A query of one catalog is a query like any other (`views`). But programs join a dozen of them,
//! and joins are not built. They are few, and programs write them: psql's `\d`, `\dt` and `\di`,
//! pgbench's look for partitions. What such a query reads is known as a whole (`forms`); its
//! condition, order and limits are read and done (`asked`), and each item of its list is known by
//! its text (`items`). What is not understood is refused.
//!
//! Invariants: an answer belongs to one execution and is never kept; numbers (oids) of objects are
//! the same within a transaction, and others after a definition.
//! Does not do: the views of `information_schema` about what the store does not have.

mod asked;
mod constraints;
mod figures;
mod forms;
mod information;
mod items;
mod keywords;
mod objects;
mod pattern;
mod sequences;
mod trees;
mod tuples;
pub(crate) mod views;

use std::cmp::Ordering;
use std::sync::Arc;

use rightlink::Transaction;
use sqlparser::ast::{
    self, BinaryOperator, GroupByExpr, Query, Select as AstSelect, SelectItem, SetExpr, Statement,
    TableFactor,
};

use crate::bind::{Comment, names};
use crate::error::{Result, SqlError};
use crate::expr::{Expr, aggregate};
use crate::plan::{self, Column, Plan};
use crate::schemas::{CATALOGS, PUBLIC, SearchPath, schema_of};
use crate::types::{Datum, SqlType};
use asked::{Meaning, not_understood};
use forms::{By, Form, Rows};
use objects::Objects;

/// Does the statement read one of the relations that are made up, and nothing else?
pub(crate) fn reads_view(statement: &Statement) -> bool {
    let Statement::Query(query) = statement else { return false };
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let [only] = select.from.as_slice() else { return false };
    let TableFactor::Table { name, args: None, .. } = &only.relation else { return false };
    only.joins.is_empty()
        && names::parts(name).is_ok_and(|parts| crate::plan::views::relation(&parts).is_some())
}

/// The name under which the comment on a schema is kept.
pub(crate) fn schema_comment_key(schema: &str) -> String {
    format!("comment on schema {schema}")
}

/// The comment on a schema.
pub(super) fn schema_comment(txn: &mut Transaction, schema: &str) -> Result<Option<String>> {
    let kept = txn.catalog().kept(&schema_comment_key(schema))?;
    let standard = || (schema == PUBLIC).then(|| "standard public schema".to_owned());
    // An empty one was taken away.
    Ok(kept.or_else(standard).filter(|text| !text.is_empty()))
}

/// What an item of `\dn` is for a schema; `None` if it is not known.
fn of_schema(schema: &str, text: &str, comment: Option<&String>) -> Option<Option<String>> {
    Some(match text {
        "n.nspname" => Some(schema.to_owned()),
        "pg_get_userbyid(n.nspowner)" => Some(crate::expr::system::USER.to_owned()),
        "array_to_string(n.nspacl, e'\\n')" => None,
        "obj_description(n.oid, 'pg_namespace')" => comment.cloned(),
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
            let known =
                txn.catalog().sequences()?.into_iter().find(|one| one.schema.name == stored);
            known.map(|one| objects::FIRST + one.id)
        }
    };
    Ok(found.map(i64::from))
}

/// Bytes of a relation's files: of the rows of a table without its indexes, or of an index. `None`
/// if it is not there. A sequence is a page.
pub(crate) fn size(txn: &mut Transaction, stored: &str) -> Result<Option<i64>> {
    const BLOCK: i64 = 8192;
    let objects = Objects::of(txn)?;
    let all = objects.all();
    if let Some(object) = all.iter().find(|object| object.stored() == stored) {
        let blocks = object.index.map_or(object.table.heap_blocks, |index| index.blocks);
        return Ok(Some(i64::from(blocks) * BLOCK));
    }
    let is_sequence = txn.catalog().sequences()?.iter().any(|one| one.schema.name == stored);
    Ok(is_sequence.then_some(BLOCK))
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

/// The answer to a query that reads several catalogs; `None` for any other.
pub(crate) fn answer(
    statement: &Statement,
    txn: &mut Transaction,
    path: &SearchPath,
) -> Result<Option<Plan>> {
    let Statement::Query(query) = statement else { return Ok(None) };
    let mut selects = Vec::new();
    gather(&query.body, &mut selects);
    let Some(select) = selects.first().copied() else { return Ok(None) };
    let Some(first) = select.from.first() else { return Ok(None) };
    let Some(catalog) = catalog_of(&first.relation) else { return Ok(None) };
    let named = |error: SqlError| match &error.hint {
        Some(_) => error.detail(format!("The query reads \"{catalog}\" first.")),
        None => error,
    };
    rows(query, &selects, txn, path).map_err(named).map(|rows| {
        let names = items(select).into_iter().map(|(_, name)| name);
        let columns = names.map(|name| Column::new(name, SqlType::Text)).collect();
        Some(plan(columns, rows))
    })
}

/// The queries that a body is made of.
fn gather<'q>(body: &'q SetExpr, selects: &mut Vec<&'q AstSelect>) {
    match body {
        SetExpr::Select(select) => selects.push(select),
        SetExpr::SetOperation { left, right, .. } => {
            gather(left, selects);
            gather(right, selects);
        }
        SetExpr::Query(query) => gather(&query.body, selects),
        _ => {}
    }
}

/// A value of a row for each item, and those that the rows are sorted by.
struct Line {
    values: Vec<Option<String>>,
    keys: Vec<Option<String>>,
}

/// The rows of a query that is made of `selects`.
fn rows(
    query: &Query,
    selects: &[&AstSelect],
    txn: &mut Transaction,
    path: &SearchPath,
) -> Result<Vec<Vec<Expr>>> {
    let select = selects[0];
    let mut forms = Vec::with_capacity(selects.len());
    for select in selects {
        forms::refuse_clauses(query, select)?;
        let form = forms::of(select, &conditions(select))?;
        form.check_group(&select.group_by)?;
        refuse_aggregates(select)?;
        forms.push(form);
    }
    if forms.iter().all(|form| form.rows == Rows::Nothing) {
        return Ok(Vec::new());
    }
    let (true, [form]) = (matches!(*query.body, SetExpr::Select(_)), forms.as_slice()) else {
        return Err(SqlError::unsupported("a set operation in a query of several catalogs"));
    };
    let test = form.test(&conditions(select))?;
    let keys = forms::order(query, &items(select), form.columns)?;
    let limits = forms::limits(query)?;
    let mut lines = Vec::new();
    let mut take = |row: &Meaning<'_>| -> Result<()> {
        if test.holds(row) == Some(true) {
            let values = values(select, row)?;
            let key = |key: &forms::Key| match &key.by {
                By::Item(at) => values[*at].clone(),
                By::Column(name) => row(name).flatten(),
            };
            let keys = keys.iter().map(key).collect();
            lines.push(Line { values, keys });
        }
        Ok(())
    };
    each(form, select, (txn, path), &mut take)?;
    lines.sort_by(|a, b| {
        let pairs = a.keys.iter().zip(&b.keys).zip(&keys);
        let mut orders = pairs.map(|((a, b), key)| forms::compare(a.as_ref(), b.as_ref(), key));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    let lines = lines.into_iter().skip(limits.skip).take(limits.take.unwrap_or(usize::MAX));
    let constant = |value: Option<String>| Expr::Const(value.map_or(Datum::Null, Datum::Text));
    Ok(lines.map(|line| line.values.into_iter().map(constant).collect()).collect())
}

/// Hands each row of a form to `take`.
fn each(
    form: &Form,
    select: &AstSelect,
    (txn, path): (&mut Transaction, &SearchPath),
    take: &mut dyn FnMut(&Meaning<'_>) -> Result<()>,
) -> Result<()> {
    let objects = Objects::of(txn)?;
    match form.rows {
        Rows::Nothing => Ok(()),
        Rows::Schemas => {
            let made = objects.schemas().iter().map(|(_, name)| name.as_str());
            for schema in made.chain([PUBLIC, CATALOGS[0]]) {
                let comment = schema_comment(txn, schema)?;
                take(&|text| of_schema(schema, text, comment.as_ref()))?;
            }
            Ok(())
        }
        Rows::Constraints => {
            // Keys, which are indexes, are not among them.
            let of_kind = |text: &str| matches!(text, "contype = 'c'" | "contype = 'f'");
            let plain = |one: &&ast::Expr| {
                let text = normal(&one.to_string());
                of_kind(text.strip_prefix("r.").unwrap_or(&text))
            };
            if !conditions(select).iter().any(plain) {
                return Err(not_understood("constraints of every kind"));
            }
            constraints::all(&objects).iter().try_for_each(|one| take(&|text| one.value(text)))
        }
        Rows::Sequences | Rows::SequenceOwners => {
            let all = sequences::all(txn)?;
            let owned = |one: &&sequences::Sequence| form.rows == Rows::Sequences || one.is_owned();
            all.iter().filter(owned).try_for_each(|one| take(&|text| one.value(text)))
        }
        Rows::Relations => {
            let (tables, sequences) = (items::rows(form.rows, &objects), sequences::all(txn)?);
            let names = sequences.iter().map(|one| one.schema.name.as_str());
            let names: Vec<&str> = names.chain(tables.iter().map(items::Row::stored)).collect();
            let of_path = |stored: &str, text: &str| match text {
                "pg_table_is_visible(c.oid)" => {
                    let shown = path.shows(stored, &names);
                    Some(Some(if shown { "t" } else { "f" }.to_owned()))
                }
                "o.n" => Some(place(path, schema_of(stored), &objects)),
                _ => None,
            };
            for row in &tables {
                let own = row.stored();
                take(&|text| of_path(own, text).or_else(|| items::value(row, text)))?;
            }
            for one in &sequences {
                let own = one.schema.name.as_str();
                take(&|text| of_path(own, text).or_else(|| one.value(text)))?;
            }
            Ok(())
        }
        Rows::TableIndexes | Rows::Indexes | Rows::Columns => {
            let all = items::rows(form.rows, &objects);
            all.iter().try_for_each(|row| take(&|text| items::value(row, text)))
        }
    }
}

/// Where a schema stands among those that names are looked for in.
fn place(path: &SearchPath, schema: &str, objects: &Objects) -> Option<String> {
    let there = |name: &&String| {
        *name == PUBLIC
            || CATALOGS.contains(&name.as_str())
            || objects.schemas().iter().any(|(_, made)| made == *name)
    };
    let at = path.all().iter().filter(there).position(|name| name == schema)?;
    let implicit = usize::from(!path.has(CATALOGS[0]));
    Some((at + 1 + implicit).to_string())
}

/// The catalog that a part of FROM is.
pub(super) fn catalog_of(factor: &TableFactor) -> Option<String> {
    let TableFactor::Table { name, args: None, .. } = factor else { return None };
    match names::parts(name).ok()?.as_slice() {
        [schema, name] if schema == CATALOGS[0] => Some(name.clone()),
        [name] if name.starts_with("pg_") => Some(name.clone()),
        _ => None,
    }
}

/// The parts of the condition of a query, all of which must hold.
fn conditions(select: &AstSelect) -> Vec<&ast::Expr> {
    select.selection.as_ref().map_or(Vec::new(), |all| asked::chain(all, &BinaryOperator::And))
}

/// Fails if a query takes rows together that GROUP BY does not keep apart.
fn refuse_aggregates(select: &AstSelect) -> Result<()> {
    let grouped = matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if !keys.is_empty());
    if grouped {
        return Ok(());
    }
    for (text, _) in items(select) {
        let names = called_outside(&text);
        let gathers = |name: &&String| aggregate::exists(name) || name.ends_with("_agg");
        if names.iter().any(|name| gathers(&name)) {
            return Err(not_understood(&text));
        }
    }
    Ok(())
}

/// Names in front of parentheses in a text, but for those in constants and inner queries.
fn called_outside(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut word = String::new();
    // How deep inside of parentheses the text is, and where an inner query began.
    let (mut depth, mut query, mut quoted) = (0usize, None, false);
    for (at, c) in text.char_indices() {
        quoted ^= c == '\'';
        if quoted {
            continue;
        }
        match c {
            '(' => {
                depth += 1;
                if text[at + 1..].trim_start().starts_with("select") {
                    query = query.or(Some(depth));
                } else if query.is_none() && !word.is_empty() {
                    names.push(word.clone());
                }
            }
            ')' => {
                query = query.filter(|began| *began != depth);
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        match c.is_alphanumeric() || c == '_' {
            true => word.push(c),
            false => word.clear(),
        }
    }
    names
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

/// An item's expression, if it is one.
fn expression(item: &SelectItem) -> Option<&ast::Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// The text of each item and the name of its column.
fn items(select: &AstSelect) -> Vec<(String, String)> {
    let one = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            (normal(&expr.to_string()), names::ident(alias))
        }
        SelectItem::UnnamedExpr(expr) => {
            (normal(&expr.to_string()), crate::bind::target::name_of(expr))
        }
        other => (normal(&other.to_string()), "?column?".to_owned()),
    };
    select.projection.iter().map(one).collect()
}

/// What the items of a query are for a row.
fn values(select: &AstSelect, row: &Meaning<'_>) -> Result<Vec<Option<String>>> {
    let one = |item: &SelectItem| {
        let text = || expression(item).map_or_else(|| item.to_string(), ToString::to_string);
        let text = normal(&text());
        let known = expression(item).and_then(|expr| items::constant(expr, row));
        known.or_else(|| row(&text)).ok_or_else(|| not_understood(&text))
    };
    select.projection.iter().map(one).collect()
}

fn plan(columns: Vec<Column>, rows: Vec<Vec<Expr>>) -> Plan {
    Plan::Query(Arc::new(plan::Query::of_values(rows, columns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_inner_queries_are_others() {
        let calls = |text| called_outside(text).join(" ");
        assert_eq!(
            calls("coalesce(count(*), (select max(a) from b), 'f(x)', g(1))"),
            "coalesce count g"
        );
        assert_eq!(calls("array_to_string(array(select sum(x) from y), ',')"), "array_to_string");
    }

    #[test]
    fn text_has_one_spelling() {
        assert_eq!(
            normal("pg_catalog.Format_Type(a.X,\n  b) = 'A  b'"),
            "format_type(a.x, b) = 'A  b'"
        );
    }
}
