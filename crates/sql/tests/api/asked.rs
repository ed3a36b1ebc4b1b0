//! A database in a folder that goes with it, and answers of a session as one line of text.
//!
//! Does not do: rows that are handed over one by one (`gather`).

use rightlink::Database;
use rightlink_env::sync::{Arc, AtomicBool, Ordering};
use rightlink_env::thread::spawn;
use rightlink_sql::{Datum, Outcome, Session};

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

/// The rows of a statement, or its tag if it gives none.
fn given(outcome: &Outcome) -> String {
    if outcome.columns.is_none() {
        return outcome.tag.clone();
    }
    let text = |row: &rightlink_sql::Row| {
        let fields = row.iter().map(|value| value.to_text().unwrap_or_else(|| "NULL".into()));
        fields.collect::<Vec<_>>().join("|")
    };
    outcome.rows.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// What `second` gives in a session of its own, which waits for the transaction of `holder` that
/// does `first` and commits: rows, a tag, or the code of an error.
pub(crate) fn after_wait(db: &Database, holder: &mut Session, first: &str, second: &str) -> String {
    let mut waiter = Session::new(db);
    holder.execute(&format!("begin; {first}")).unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    let sql = second.to_owned();
    let waits = spawn("waiter", move || {
        let outcome = waiter.execute(&sql);
        end.store(true, Ordering::Release);
        match outcome {
            Ok(outcomes) => given(outcomes.last().expect("a statement has an outcome")),
            Err(error) => error.sqlstate.to_owned(),
        }
    });
    while !db.locks().iter().any(|lock| !lock.granted) {
        assert!(!ended.load(Ordering::Acquire), "{second} did not wait for {first}");
        std::thread::yield_now();
    }
    holder.execute("commit").unwrap();
    waits.join().unwrap()
}
