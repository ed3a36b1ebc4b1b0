//! Foreign keys of many rows, whose parents are read ahead and together.

use rightlink::Database;
use rightlink_sql::{Datum, Session};

const TABLES: &str = "
    create table parent (id int primary key, code text unique, pad text);
    create table child (id int primary key, parent int references parent,
        code text references parent (code));
    insert into parent select g, 'c' || g, repeat('x', 400) from generate_series(1, 20000) g;";

fn figure(db: &Database, name: &str) -> u64 {
    db.stats().get(name).unwrap()
}

#[test]
fn parents_of_many_rows_are_read_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    session.execute(TABLES).unwrap();
    let insert = "insert into child select g, g * 37 % 20000 + 1, null \
                  from generate_series(1, 3000) g";
    db.evict().unwrap();
    let before = figure(&db, "stream_reads");
    session.execute(insert).unwrap();
    let reads = figure(&db, "stream_reads") - before;
    // As far as the pages have no neighbours that are read with them.
    assert!(reads > 40, "{reads} reads ahead");
    assert!(db.verify().unwrap().is_clean());
}

/// The first key in the order of keys is the one that a message names, however many are missing.
#[test]
fn errors_are_those_of_row_by_row() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    session.execute(TABLES).unwrap();
    let mut fails = |sql: &str, detail: &str| {
        let error = session.execute(sql).expect_err(sql);
        assert_eq!(error.sqlstate, "23503", "{error:?}");
        assert_eq!(error.detail.as_deref(), Some(detail), "{sql}");
    };
    for first in [15_000, 19_990, 30_000] {
        let sql = format!(
            "insert into child select g, g, null from generate_series({first}, {first} + 6000) g"
        );
        let missing = first.max(20_001);
        let detail = format!("Key (parent)=({missing}) is not present in table \"parent\".");
        fails(&sql, &detail);
    }
    fails(
        "insert into child select g, null, 'c' || g + 19995 from generate_series(1, 100) g",
        "Key (code)=(c20001) is not present in table \"parent\".",
    );
    // Of two keys of the table the first.
    fails(
        "insert into child select g, g + 19990, 'd' || g from generate_series(1, 100) g",
        "Key (parent)=(20001) is not present in table \"parent\".",
    );
    let sql = "insert into child select g, g, 'c' || g from generate_series(1, 9000) g; \
               select count(*) from child";
    let outcomes = session.execute(sql).unwrap();
    assert_eq!(outcomes[1].rows[0][0], Datum::Int8(9_000));
}

/// Parents are locked as long as the transaction runs: their keys stay, their other columns may
/// change.
#[test]
fn parents_of_many_rows_are_locked() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let (mut session, mut other) = (Session::new(&db), Session::new(&db));
    session.execute(TABLES).unwrap();
    other.execute("set lock_timeout = 50").unwrap();
    session
        .execute("begin; insert into child select g, g, null from generate_series(1, 500) g")
        .unwrap();
    other.execute("update parent set pad = 'y' where id = 77").unwrap();
    other.execute("select * from parent where id = 78 for key share").unwrap();
    for sql in ["delete from parent where id = 77", "update parent set id = 0 where id = 500"] {
        assert_eq!(other.execute(sql).expect_err(sql).sqlstate, "55P03");
    }
    other.execute("delete from parent where id = 501").unwrap();
    session.execute("commit").unwrap();
    // What has changed meanwhile is met as it is now.
    session.execute("begin; select 1 from parent").unwrap();
    other.execute("update parent set pad = 'z' where id between 600 and 700").unwrap();
    let sql = "insert into child select g, g, null from generate_series(600, 700) g; rollback";
    session.execute(sql).unwrap();
    other.execute("delete from parent where id = 650").unwrap();
    let sql = "insert into child select g, g, null from generate_series(600, 700) g";
    let error = session.execute(sql).expect_err(sql);
    assert_eq!(
        error.detail.as_deref(),
        Some("Key (parent)=(650) is not present in table \"parent\".")
    );
}
