//! Constraints: what tables and their notes say of keys, checks and foreign keys.
//!
//! Invariants: a key, which the store has as an index, goes by the number of its index; a check and
//! a foreign key go by a number that is made of table and name.
//! Does not do: finding the columns of a check otherwise than by the words of its text.

use std::collections::HashMap;

use rightlink::{ColumnSchema, IndexInfo, TableInfo};

use super::numbers::{made_oid, relation_oid};
use crate::names::{distinct, identifier, is_computed};
use crate::notes::{ColumnNotes, ComputedNotes, ForeignKey, KeyKind, TableNotes};
use crate::parse;

/// A key of a table, which is a constraint: a primary key or a unique constraint.
#[derive(Clone, Copy)]
pub(super) struct Key<'o> {
    pub(super) table: &'o TableInfo,
    pub(super) index: &'o IndexInfo,
}

/// Has an index the form of one that stands for a constraint?
pub(super) fn has_form_of_key(table: &TableInfo, index: &IndexInfo) -> bool {
    let is_plain =
        |key: &rightlink::KeyColumn| !key.descending && !key.nulls_first && !is_computed(&key.name);
    index.primary
        || index.is_whole()
            && index.columns.iter().all(is_plain)
            && (index.unique || key_kind(table, index).is_some())
}

/// What an index asks of its table if it is unique.
pub(super) fn key_kind(table: &TableInfo, index: &IndexInfo) -> Option<KeyKind> {
    TableNotes::decode(&table.note).key_kind(index)
}

/// A constraint.
pub(super) struct Constraint {
    pub(super) oid: u32,
    pub(super) name: String,
    /// The table that has it: its number, and its name in the store.
    pub(super) table: u32,
    pub(super) stored: String,
    /// Its columns, from 1.
    pub(super) columns: Vec<usize>,
    pub(super) rule: Rule,
}

/// What a constraint asks.
pub(super) enum Rule {
    /// The condition of a check.
    Check(String),
    Reference(Box<Reference>),
}

/// What a foreign key names.
pub(super) struct Reference {
    pub(super) key: ForeignKey,
    /// Numbers of the table and of the unique index.
    pub(super) parent: u32,
    pub(super) index: u32,
    /// Columns of the table, from 1.
    pub(super) columns: Vec<usize>,
}

/// Names and texts of the checks of a table.
pub(super) fn checks(table: &TableInfo) -> Vec<(String, String)> {
    let mut all = TableNotes::decode(&table.note).checks;
    for check in &table.checks {
        if !all.iter().any(|(known, _)| *known == check.name) {
            all.push((check.name.clone(), check.predicate.to_string()));
        }
    }
    all.sort();
    all
}

/// Does the table have foreign keys, or do foreign keys name it?
pub(super) fn has_keys(table: &TableInfo) -> bool {
    let notes = TableNotes::decode(&table.note);
    !notes.keys.is_empty() || !notes.children.is_empty()
}

/// The columns of a table that clients can name.
pub(super) fn columns(table: &TableInfo) -> impl Iterator<Item = &ColumnSchema> {
    table.columns.iter().filter(|column| !column.computed)
}

/// The number of a column, from 1.
pub(super) fn place(table: &TableInfo, column: &str) -> Option<usize> {
    columns(table).position(|known| known.name == column).map(|at| at + 1)
}

/// The text of the expression whose values the column of a table has that a part of a key is
/// called by; `None` for a column by itself.
pub(super) fn expression(table: &TableInfo, key: &str) -> Option<String> {
    computed(table, key).map(|one| one.text)
}

fn computed(table: &TableInfo, key: &str) -> Option<ComputedNotes> {
    let column = table.columns.iter().find(|column| column.computed && column.name == key)?;
    ColumnNotes::decode(&column.note).computed
}

/// What the columns of an index are called, those that are included behind the key.
pub(super) fn index_columns(table: &TableInfo, index: &IndexInfo) -> Vec<String> {
    let name = |key: &rightlink::KeyColumn| {
        computed(table, &key.name).map_or_else(|| key.name.clone(), |one| one.name)
    };
    let mut names = distinct(index.columns.iter().map(name));
    names.extend(index.included.iter().cloned());
    names
}

/// All checks and foreign keys of tables, by name.
pub(super) fn all(tables: &[TableInfo]) -> Vec<Constraint> {
    let by_name: HashMap<&str, &TableInfo> =
        tables.iter().map(|table| (table.name.as_str(), table)).collect();
    let mut found = Vec::new();
    for table in tables {
        let own = relation_oid(table.id);
        for (name, text) in checks(table) {
            found.push(Constraint {
                oid: made_oid(own, &name),
                name,
                table: own,
                stored: table.name.clone(),
                columns: named_columns(table, &text),
                rule: Rule::Check(text),
            });
        }
        for key in TableNotes::decode(&table.note).keys {
            let parent = by_name.get(key.parent.as_str()).copied();
            let index = parent.and_then(|parent| parent_key(&key, parent));
            let columns = |table: &TableInfo, names: &[String]| {
                names.iter().filter_map(|name| place(table, name)).collect()
            };
            let parent_columns = |table| columns(table, &key.parent_columns);
            let reference = Reference {
                parent: parent.map_or(0, |parent| relation_oid(parent.id)),
                index: index.map_or(0, |index| relation_oid(index.id)),
                columns: parent.map_or(Vec::new(), parent_columns),
                key: key.clone(),
            };
            found.push(Constraint {
                oid: made_oid(own, &key.name),
                name: key.name.clone(),
                table: own,
                stored: table.name.clone(),
                columns: columns(table, &key.columns),
                rule: Rule::Reference(Box::new(reference)),
            });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The unique index of `parent` that a foreign key names.
pub(super) fn parent_key<'t>(key: &ForeignKey, parent: &'t TableInfo) -> Option<&'t IndexInfo> {
    parent.indexes.iter().find(|index| {
        index.unique
            && has_form_of_key(parent, index)
            && index.columns.len() == key.parent_columns.len()
            && index.columns.iter().all(|column| key.parent_columns.contains(&column.name))
    })
}

/// Columns that a condition names, from 1, each once, in the order of the table.
pub(super) fn named_columns(table: &TableInfo, condition: &str) -> Vec<usize> {
    let mut words = Vec::new();
    for (at, outside) in condition.split('\'').enumerate() {
        if at % 2 == 0 {
            let plain = |c: char| !c.is_alphanumeric() && c != '_' && c != '$';
            words.extend(outside.split(plain));
            words.extend(outside.split('"').skip(1).step_by(2));
        }
    }
    let named = |(_, column): &(usize, &rightlink::ColumnSchema)| words.contains(&&*column.name);
    table.columns.iter().enumerate().filter(named).map(|(at, _)| at + 1).collect()
}

/// The text of a primary key or a unique constraint.
pub(super) fn key_definition(key: Key<'_>) -> String {
    let list = |names: &mut dyn Iterator<Item = &String>| {
        names.map(|name| identifier(name)).collect::<Vec<_>>().join(", ")
    };
    let Key { table, index } = key;
    let kind = key_kind(table, index).unwrap_or_default();
    let included = match index.included.is_empty() {
        true => String::new(),
        false => format!(" INCLUDE ({})", list(&mut index.included.iter())),
    };
    let what = match (kind.primary, kind.nulls_not_distinct) {
        (true, _) => "PRIMARY KEY",
        (false, true) => "UNIQUE NULLS NOT DISTINCT",
        (false, false) => "UNIQUE",
    };
    let columns = list(&mut index.columns.iter().map(|key| &key.name));
    format!("{what} ({columns}){included}{}", kind.deferral.clause())
}

fn without_parentheses(mut expr: &sqlparser::ast::Expr) -> &sqlparser::ast::Expr {
    while let sqlparser::ast::Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// The text of an expression, and what of it PostgreSQL puts parentheses around.
pub(super) struct Shown {
    text: String,
    form: Form,
}

/// How PostgreSQL writes an expression.
enum Form {
    Call,
    /// With parentheses around all of it, unless it is for people.
    Operator,
    /// The bytes of what is cast; for people that has no parentheses around it.
    Cast(usize),
    Other,
}

impl Shown {
    pub(super) fn of(mut text: String) -> Shown {
        use sqlparser::ast::{CastKind, Expr as Ast};
        let form = match parse::expression(&text) {
            Ok(call) if parse::is_call(&call) => Form::Call,
            Ok(Ast::Cast { kind: CastKind::DoubleColon, expr, .. }) => {
                let (written, value) = (expr.to_string(), without_parentheses(&expr));
                match value {
                    Ast::Identifier(name) => {
                        let name = name.to_string();
                        text.replace_range(..written.len(), &name);
                        Form::Cast(name.len())
                    }
                    _ => Form::Other,
                }
            }
            Ok(
                Ast::Nested(_)
                | Ast::Value(_)
                | Ast::Identifier(_)
                | Ast::Case { .. }
                | Ast::Cast { .. },
            )
            | Err(_) => Form::Other,
            Ok(_) => Form::Operator,
        };
        Shown { text, form }
    }

    /// By itself, with fewer parentheses if it is for people.
    pub(super) fn alone(&self, pretty: bool) -> String {
        match self.form {
            Form::Operator if !pretty => format!("({})", self.text),
            Form::Cast(length) if !pretty => {
                let (value, to) = self.text.split_at(length);
                format!("({value}){to}")
            }
            _ => self.text.clone(),
        }
    }

    /// As a part of a key.
    pub(super) fn in_key(&self, pretty: bool) -> String {
        let text = self.alone(pretty);
        if matches!(self.form, Form::Call) { text } else { format!("({text})") }
    }
}
