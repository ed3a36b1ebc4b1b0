//! Names that were typed and do not exist: the message lists what does.
//!
//! Invariants: the exit code is `NotFound`. Does not do: guessing what was meant.

use rightlink::{ColumnInfo, Database, Error, IndexInfo, TableInfo};

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

/// The table called `name`.
pub(crate) fn table(db: &Database, name: &str) -> Result<TableInfo, Failure> {
    match db.describe(name) {
        Err(Error::NotFound(_)) => {
            let tables = db.tables()?;
            Err(unknown("table", name, "", tables.iter().map(|table| table.name.as_str())))
        }
        other => Ok(other?),
    }
}

/// The column of `table` called `name`.
pub(crate) fn column<'a>(table: &'a TableInfo, name: &str) -> Result<&'a ColumnInfo, Failure> {
    table.columns.iter().find(|column| column.name == name).ok_or_else(|| {
        let known = table.columns.iter().map(|column| column.name.as_str());
        unknown("column", name, &format!(" in table {}", table.name), known)
    })
}

/// The index of `table` called `name`.
pub(crate) fn index<'a>(table: &'a TableInfo, name: &str) -> Result<&'a IndexInfo, Failure> {
    table.indexes.iter().find(|index| index.name == name).ok_or_else(|| {
        let known = table.indexes.iter().map(|index| index.name.as_str());
        unknown("index", name, &format!(" on table {}", table.name), known)
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
