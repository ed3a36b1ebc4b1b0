//! Objects in words, as `pg_describe_object` gives them: `column a of table t`.
//!
//! Invariants: a name has its schema in front where the search path does not lead to it.
//! Does not do: objects that only the catalogs know, such as casts and operator families.

use std::collections::HashMap;

use super::builtin;
use super::numbers::{
    PG_ATTRDEF, PG_AUTHID, PG_CLASS, PG_CONSTRAINT, PG_DATABASE, PG_NAMESPACE, PG_PROC, PG_REWRITE,
    PG_TYPE, relation_oid,
};
use super::objects::{Objects, Part};
use super::relations::{default_oid, rewrite_oid};
use super::{Asking, rules};
use super::{system_indexes, system_views};
use crate::error::{Result, SqlError, code};
use crate::names::{SearchPath, bare, identifier};
use crate::oids::relation_of_key;
use crate::types::RegKind;

/// The number of `pg_operator`.
const PG_OPERATOR: u32 = 2_617;

/// The number by which catalogs mean an object, or a column of it.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    /// The catalog that the object is in.
    pub(crate) catalog: u32,
    pub(crate) object: u32,
    /// The place of a column, 0 for the whole.
    pub(crate) column: i32,
}

impl Objects {
    /// The object of an address in words; nothing if there is none.
    pub(crate) fn described(&self, at: Address, asking: Asking<'_>) -> Result<Option<String>> {
        let (number, path) = (at.object, asking.path);
        let named = |kind: RegKind, word: &str| {
            let shown = self.shown(kind, number, asking);
            shown.map(|shown| format!("{word} {shown}"))
        };
        Ok(match at.catalog {
            0 if number == 0 => None,
            PG_CLASS if at.column != 0 => self.described_column(number, at.column, path),
            PG_CLASS => self.described_relation(number, path),
            PG_TYPE => named(RegKind::Type, "type"),
            PG_PROC => named(RegKind::Procedure, "function"),
            PG_NAMESPACE => named(RegKind::Namespace, "schema"),
            PG_AUTHID => self.role_name(number, asking).map(|name| format!("role {name}")),
            PG_OPERATOR => named(RegKind::Operator, "operator"),
            PG_DATABASE => Some(format!("database {}", identifier(asking.database))),
            PG_CONSTRAINT => self.described_constraint(number, path),
            PG_ATTRDEF => self.described_default(number, path),
            PG_REWRITE => {
                let view = self.parts().get(&number).filter(|part| part.column == 0);
                let view = view.and_then(|part| self.described_relation(part.table, path));
                view.map(|view| format!("rule _RETURN on {view}"))
            }
            other => match system_views::of_oid(other) {
                Some(catalog) => builtin::described(catalog.view.name, number),
                None => {
                    let message = format!("unrecognized object class: {other}");
                    return Err(SqlError::new(code::INTERNAL, message));
                }
            },
        })
    }

    fn described_relation(&self, number: u32, path: &SearchPath) -> Option<String> {
        if let Some(of_system) = system_views::of_oid(number) {
            let word = if of_system.view.told.is_table { "table" } else { "view" };
            return Some(format!("{word} {}", of_system.shown()));
        }
        if let Some(index) = system_indexes::index_name(number) {
            return Some(format!("index {index}"));
        }
        let shown = self.spelled(self.stored_name(number)?, path);
        let word = match self.of_oid(number).map(|object| object.kind()) {
            Some('i') => "index",
            Some('v') => "view",
            Some('m') => "materialized view",
            Some(_) => "table",
            None if self.sequence_of(number).is_some() => "sequence",
            None => "composite type",
        };
        Some(format!("{word} {shown}"))
    }

    fn described_column(&self, number: u32, place: i32, path: &SearchPath) -> Option<String> {
        let relation = self.described_relation(number, path)?;
        let at = usize::try_from(place).ok()?.checked_sub(1)?;
        let object = self.of_oid(number)?;
        let name = match object.index {
            Some(index) => rules::index_columns(object.table, index).into_iter().nth(at)?,
            None => rules::columns(object.table).nth(at)?.name.clone(),
        };
        Some(format!("column {} of {relation}", identifier(&name)))
    }

    fn described_constraint(&self, number: u32, path: &SearchPath) -> Option<String> {
        let of_table = |name: &str, table: u32| {
            let relation = self.described_relation(table, path)?;
            Some(format!("constraint {} on {relation}", identifier(name)))
        };
        if let Some(one) = self.constraint(number) {
            return of_table(&one.name, one.table);
        }
        let mut checks = self.domains().iter().flat_map(|domain| {
            domain.checks().iter().map(|check| (domain.check_oid(check), check.name.as_str()))
        });
        if let Some((_, name)) = checks.find(|(own, _)| *own == number) {
            return Some(format!("constraint {}", identifier(name)));
        }
        if let Some(of_system) = system_indexes::described_constraint(number) {
            return Some(of_system);
        }
        let object = self.of_oid(relation_of_key(number)?)?;
        let index = object.index.filter(|index| self.is_key(object.table, index))?;
        of_table(bare(&index.name), object.table_oid())
    }

    fn described_default(&self, number: u32, path: &SearchPath) -> Option<String> {
        let Part { table, column } = *self.parts().get(&number)?;
        let column = self.described_column(table, column, path)?;
        Some(format!("default value for {column}"))
    }

    /// The parts of relations that go by numbers made of a table and a name.
    fn parts(&self) -> &HashMap<u32, Part> {
        self.parts.get_or_init(|| {
            let mut parts = HashMap::new();
            for object in self.tables() {
                let table = object.oid;
                parts.insert(rewrite_oid(table), Part { table, column: 0 });
                for (column, place) in (1..).zip(1..=rules::columns(object.table).count()) {
                    parts.insert(default_oid(table, place), Part { table, column });
                }
            }
            parts
        })
    }

    /// The index whose key stands for a row of a table where changes are handed on: that of the
    /// primary key.
    pub(crate) fn identity_index(&self, table: u32) -> Option<u32> {
        let object = self.of_oid(table).filter(|object| object.kind() == 'r')?;
        let primary = object.table.indexes.iter().find(|index| index.primary)?;
        Some(relation_oid(primary.id))
    }
}
