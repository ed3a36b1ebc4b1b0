//! Names that were typed: what they mean, with a schema in front too. The message for those that do
//! not exist lists what does.
//!
//! Invariants: the exit code is `NotFound`. Does not do: guessing what was meant.

use rightlink::{ColumnSchema, Database, Error, IndexInfo, TableInfo};
use rightlink_sql::{SEPARATOR, shown_name, shown_text, stored_name};

use crate::failure::{Exit, Failure};

/// The failure for an unknown name.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &str,
    place: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Failure {
    let known: Vec<&str> = known.into_iter().collect();
    let list = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Failure::new(Exit::NotFound, format!("there is no {what} {name:?}{place}; there are: {list}"))
}

/// The tables, without those that stand for schemas.
pub(crate) fn tables(db: &Database) -> Result<Vec<TableInfo>, Failure> {
    let mut tables = db.tables()?;
    tables.retain(|table| shown_name(&table.name).is_some());
    Ok(tables)
}

/// What the database calls what a person calls `name`: a table or index of a schema is named with
/// the schema and a dot in front.
pub(crate) fn stored(db: &Database, name: &str) -> Result<String, Failure> {
    let Some((schema, _)) = name.split_once('.') else { return Ok(name.to_owned()) };
    let mark = stored_name(&format!("{schema}."));
    let tables = db.tables()?;
    let exact = tables
        .iter()
        .any(|table| table.name == name || table.indexes.iter().any(|index| index.name == name));
    let there = schema == "public" || tables.iter().any(|table| table.name == mark);
    Ok(if !exact && there { stored_name(name) } else { name.to_owned() })
}

/// The table called `name`.
pub(crate) fn table(db: &Database, name: &str) -> Result<TableInfo, Failure> {
    match db.describe(&stored(db, name)?) {
        Err(Error::NotFound(_)) => {
            let tables = tables(db)?;
            let known: Vec<String> = tables.iter().map(|table| shown_text(&table.name)).collect();
            Err(unknown("table", name, "", known.iter().map(String::as_str)))
        }
        other => Ok(other?),
    }
}

/// People see these columns of `table`. Computed columns serve indexes alone.
pub(crate) fn shown(table: &TableInfo) -> impl Iterator<Item = &ColumnSchema> {
    table.columns.iter().filter(|column| !column.computed)
}

/// The column of `table` called `name`.
pub(crate) fn column<'a>(table: &'a TableInfo, name: &str) -> Result<&'a ColumnSchema, Failure> {
    shown(table).find(|column| column.name == name).ok_or_else(|| {
        let known = shown(table).map(|column| column.name.as_str());
        unknown("column", name, &format!(" in table {}", shown_text(&table.name)), known)
    })
}

/// The index of `table` called `name`.
pub(crate) fn index<'a>(table: &'a TableInfo, name: &str) -> Result<&'a IndexInfo, Failure> {
    let schema = table.name.rsplit_once(SEPARATOR).map(|(schema, _)| schema);
    let own = |index: &&IndexInfo| match schema {
        Some(schema) => {
            let bare = index.name.strip_prefix(schema).and_then(|it| it.strip_prefix(SEPARATOR));
            bare == Some(name) || index.name == stored_name(name)
        }
        None => index.name == name,
    };
    table.indexes.iter().find(own).ok_or_else(|| {
        let names: Vec<String> =
            table.indexes.iter().map(|index| shown_text(&index.name)).collect();
        let place = format!(" on table {}", shown_text(&table.name));
        unknown("index", name, &place, names.iter().map(String::as_str))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exists_is_listed() {
        let failure = unknown("index", "x", " on t", ["a", "b"]);
        assert_eq!(failure.exit, Exit::NotFound);
        assert_eq!(failure.message, "there is no index \"x\" on t; there are: a, b");
        assert!(unknown("table", "x", "", []).message.ends_with("there are: none"));
    }
}
