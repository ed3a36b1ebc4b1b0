//! A database in a folder that goes with it, and answers of a session as one line of text.
//!
//! Does not do: rows that are handed over one by one (`gather`).

use rightlink::Database;
use rightlink_sql::{Datum, Session};

pub(crate) fn open() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    (dir, db)
}

/// The rows of the last statement of `sql`.
pub(crate) fn one(session: &mut Session, sql: &str) -> String {
    let outcomes = session.execute(sql).unwrap();
    let rows = outcomes.last().unwrap().rows.iter();
    let text = |value: &Datum| value.to_text().unwrap_or_else(|| "NULL".into());
    let lines: Vec<String> =
        rows.map(|row| row.iter().map(text).collect::<Vec<_>>().join("|")).collect();
    lines.join(" ")
}
