//! What CREATE TABLE LIKE copies of a table, as SQL.
//!
//! Does not do: foreign keys, which PostgreSQL does not copy either; names of indexes.

use rightlink::ColumnSchema;

use super::objects::{Object, Objects};
use super::relations::default_text;
use super::rules;
use crate::error::Result;
use crate::names::{bare, full_reference, identifier};
use crate::notes::{ColumnNotes, TableNotes, column_type};
use crate::parse::like::Including;
use crate::types::collate::Rule;
use crate::types::literal::literal;

/// What is copied, each as SQL writes it.
#[derive(Default)]
pub(crate) struct Copied {
    pub(crate) columns: Vec<String>,
    pub(crate) constraints: Vec<String>,
    /// Statements about the new table, once it is there.
    pub(crate) behind: Vec<String>,
}

impl Objects {
    /// What `table` gets of the table that the store calls `source`; `None` if there is none.
    pub(crate) fn copied(
        &self,
        source: &str,
        including: Including,
        table: &str,
    ) -> Result<Option<Copied>> {
        let found = self.tables().find(|object| object.table.name == source);
        let Some(object) = found else { return Ok(None) };
        let mut copied =
            Copied { columns: self.copied_columns(&object, including)?, ..Copied::default() };
        let notes = TableNotes::decode(&object.table.note);
        if including.constraints {
            let check = |(name, condition): &(String, String)| {
                format!("CONSTRAINT {} CHECK ({condition})", identifier(name))
            };
            copied.constraints.extend(notes.checks.iter().map(check));
        }
        if including.indexes {
            for index in &object.table.indexes {
                let own = Object { index: Some(index), ..object };
                match self.is_key(object.table, index) {
                    true => {
                        let key = rules::Key { table: object.table, index };
                        copied.constraints.push(rules::key_definition(key));
                    }
                    false => copied.behind.extend(own.definition_on(table, &self.made)),
                }
            }
        }
        if including.comments {
            copied.behind.extend(comments(&object, table));
        }
        Ok(Some(copied))
    }

    fn copied_columns(&self, object: &Object<'_>, including: Including) -> Result<Vec<String>> {
        let columns = rules::columns(object.table);
        columns.map(|column| self.copied_column(object, including, column)).collect()
    }

    fn copied_column(
        &self,
        object: &Object<'_>,
        including: Including,
        column: &ColumnSchema,
    ) -> Result<String> {
        let notes = ColumnNotes::decode(&column.note);
        let mut text = format!("{} {}", identifier(&column.name), column_type(column));
        if let Some(rule) = Rule::of(column.collation.as_ref(), notes.collation) {
            text.push_str(&format!(" COLLATE {}", identifier(rule.name())));
        }
        if let Some(default) = default_text(column, &notes).filter(|_| including.defaults) {
            text.push_str(&format!(" DEFAULT {default}"));
        }
        match &column.identity {
            Some(identity) if including.identity && !notes.serial => {
                let kind = if identity.always { "ALWAYS" } else { "BY DEFAULT" };
                text.push_str(&format!(" GENERATED {kind} AS IDENTITY"));
            }
            _ if !column.nullable => text.push_str(" NOT NULL"),
            _ => {}
        }
        let generation = self.shown_generation(object.table, column)?;
        if let Some(generation) = generation.filter(|_| including.generated) {
            text.push_str(&format!(" GENERATED ALWAYS AS ({generation}) STORED"));
        }
        Ok(text)
    }
}

/// COMMENT on columns.
fn comments(object: &Object<'_>, table: &str) -> Vec<String> {
    let one = |column: &rightlink::ColumnSchema| {
        let text = ColumnNotes::decode(&column.note).comment?;
        let name = format!("{}.{}", full_reference(table), identifier(bare(&column.name)));
        Some(format!("COMMENT ON COLUMN {name} IS {}", literal(&text)))
    };
    object.table.columns.iter().filter_map(one).collect()
}
