//! Constraints: what tables and their notes say of keys, checks and foreign keys.
//!
//! Invariants: a key, which the store has as an index, goes by the number of its index; a check and
//! a foreign key go by a number that is made of table and name.
//! Does not do: finding the columns of a check otherwise than by the words of its text.

use std::collections::HashMap;

use rightlink::{IndexInfo, TableInfo};

use super::numbers::{made_oid, relation_oid};
use crate::names::identifier;
use crate::notes::{ForeignKey, TableNotes};

/// A key of a table, which is a constraint: a primary key or a unique constraint.
#[derive(Clone, Copy)]
pub(super) struct Key<'o> {
    pub(super) table: &'o TableInfo,
    pub(super) index: &'o IndexInfo,
}

/// Does an index stand for a constraint? One that is made by itself has the same form.
pub(super) fn is_key(index: &IndexInfo) -> bool {
    let is_plain = |key: &rightlink::KeyColumn| !key.descending && !key.nulls_first;
    index.primary || index.unique && index.is_whole() && index.columns.iter().all(is_plain)
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

/// The number of a column, from 1.
pub(super) fn place(table: &TableInfo, column: &str) -> Option<usize> {
    table.columns.iter().position(|known| known.name == column).map(|at| at + 1)
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
        is_key(index)
            && index.columns.len() == key.parent_columns.len()
            && index.columns.iter().all(|column| key.parent_columns.contains(&column.name))
    })
}

/// Columns that a condition names, from 1, each once, in the order of the table.
fn named_columns(table: &TableInfo, condition: &str) -> Vec<usize> {
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
    let Key { index, .. } = key;
    let included = match index.included.is_empty() {
        true => String::new(),
        false => format!(" INCLUDE ({})", list(&mut index.included.iter())),
    };
    let what = match (index.primary, index.nulls_not_distinct) {
        (true, _) => "PRIMARY KEY",
        (false, true) => "UNIQUE NULLS NOT DISTINCT",
        (false, false) => "UNIQUE",
    };
    format!("{what} ({}){included}", list(&mut index.columns.iter().map(|key| &key.name)))
}
