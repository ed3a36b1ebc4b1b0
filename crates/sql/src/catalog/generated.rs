//! Generated columns as catalogs tell of them.
//!
//! Invariants: expressions are in PostgreSQL's spelling where that is known, else as they are kept.
//! Does not do: values of generated columns.

use rightlink::{ColumnSchema, TableInfo};

use super::objects::{How, Object, Objects};
use super::rules;
use crate::error::Result;
use crate::names::SearchPath;
use crate::notes::ColumnNotes;

/// A generated column and what it is generated from.
pub(super) struct Generated<'o> {
    pub(super) column: &'o ColumnSchema,
    /// Its place in the table, from 1.
    pub(super) place: usize,
    /// The columns that its expression names, from 1.
    pub(super) from: Vec<usize>,
}

/// In front of the text of a generation expression in `pg_attrdef`, which has node trees there in
/// PostgreSQL: the column says which casts the expression has.
const MARK: &str = "{GENERATED :attnum ";

/// The expression of the column at `place`, from 1, as `pg_attrdef` has it.
pub(super) fn kept(place: usize, text: &str) -> String {
    format!("{MARK}{place}}} {text}")
}

/// Reads such a text: the place, and the expression.
fn read(text: &str) -> Option<(usize, &str)> {
    let (place, text) = text.strip_prefix(MARK)?.split_once("} ")?;
    Some((place.parse().ok()?, text))
}

impl Objects {
    /// The expression of a generated column of a table as `pg_attrdef` has it, by a path; `None`
    /// for any other text.
    pub(super) fn kept_generation(
        &self,
        table: Option<&TableInfo>,
        text: &str,
        how: How<'_>,
    ) -> Result<Option<String>> {
        let Some((place, text)) = read(text) else { return Ok(None) };
        let column = table
            .and_then(|table| Some((table, rules::columns(table).nth(place.checked_sub(1)?)?)));
        let Some((table, column)) = column else { return Ok(Some(text.to_owned())) };
        Ok(Some(self.generation(table, column, how)?.unwrap_or_else(|| text.to_owned())))
    }

    /// The generated columns of a relation.
    pub(super) fn generated<'o>(&self, object: &Object<'o>) -> Vec<Generated<'o>> {
        let table = object.table;
        let one = |(at, column): (usize, &'o ColumnSchema)| {
            let text = ColumnNotes::decode(&column.note).generated?;
            let from = match self.named_columns(&text, table) {
                Some(names) => names.iter().filter_map(|name| rules::place(table, name)).collect(),
                None => rules::named_columns(table, &text),
            };
            Some(Generated { column, place: at + 1, from })
        };
        rules::columns(table).enumerate().filter_map(one).collect()
    }

    /// The expression that a column is generated from, by a path; `None` for another column.
    pub(super) fn generation(
        &self,
        table: &TableInfo,
        column: &ColumnSchema,
        how: How<'_>,
    ) -> Result<Option<String>> {
        let Some(text) = ColumnNotes::decode(&column.note).generated else { return Ok(None) };
        match self.deparsed_generation(&text, table, column, how) {
            Some(shown) => Ok(Some(shown)),
            None => self.spelled_expression(&text, how.path).map(Some),
        }
    }

    /// The same for everybody, as `information_schema` has it.
    pub(super) fn shown_generation(
        &self,
        table: &TableInfo,
        column: &ColumnSchema,
    ) -> Result<Option<String>> {
        let path = SearchPath::default();
        self.generation(table, column, How { is_pretty: false, path: &path })
    }
}
