//! Tables that are analyzed unasked when enough of their rows have changed.

use std::time::Duration;

use rightlink::Database;
use rightlink_env::{Clock, thread};
use rightlink_sql::{AutoAnalyze, Datum, Session};

/// The first row of a query.
fn row(session: &mut Session, sql: &str) -> Vec<Datum> {
    let mut outcomes = session.execute(sql).unwrap();
    outcomes.pop().unwrap().rows.swap_remove(0)
}

fn figures(session: &mut Session, table: &str) -> Vec<Datum> {
    let sql = format!(
        "select n_mod_since_analyze, analyze_count, autoanalyze_count, \
             last_autoanalyze is not null from pg_stat_user_tables where relname = '{table}'"
    );
    row(session, &sql)
}

fn waits(mut holds: impl FnMut() -> bool) {
    let clock = Clock::system();
    let begun = clock.now();
    while !holds() {
        assert!(clock.now().since(begun) < Duration::from_secs(60), "it does not come");
        thread::sleep(Duration::from_millis(50));
    }
}

const UNASKED: [Datum; 4] = [Datum::Int8(0), Datum::Int8(0), Datum::Int8(1), Datum::Bool(true)];

#[test]
fn tables_are_analyzed_when_enough_rows_have_changed() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    session
        .execute(
            "create table few (a int); insert into few select g from generate_series(1, 50) g;
             create table own (a int) with (autovacuum_analyze_threshold = 10);
             insert into own select g from generate_series(1, 11) g;
             create table off (a int) with (autovacuum_enabled = false);
             insert into off select g from generate_series(1, 5000) g;
             create table many (a int primary key, b int);
             insert into many select g, g % 10 from generate_series(1, 2000) g;
             create view v as select * from many",
        )
        .unwrap();
    let upkeep = AutoAnalyze::start(&db).unwrap();
    waits(|| figures(&mut session, "many") == UNASKED);
    waits(|| figures(&mut session, "own") == UNASKED);
    let none = |changes| [Datum::Int8(changes), Datum::Int8(0), Datum::Int8(0), Datum::Bool(false)];
    assert_eq!(figures(&mut session, "few"), none(50));
    assert_eq!(figures(&mut session, "off"), none(5_000));
    // One more, and it is due.
    session.execute("insert into few values (0)").unwrap();
    waits(|| figures(&mut session, "few") == UNASKED);
    session.execute("update many set b = 0 where a <= 30; delete from many where a = 7").unwrap();
    assert_eq!(figures(&mut session, "many")[0], Datum::Int8(31));
    session.execute("analyze many").unwrap();
    let both = [Datum::Int8(0), Datum::Int8(1), Datum::Int8(1), Datum::Bool(true)];
    assert_eq!(figures(&mut session, "many"), both);
    drop(upkeep);
    let sql = "select reltuples from pg_class where relname = 'many'";
    assert_eq!(row(&mut session, sql)[0].to_text().as_deref(), Some("1999"));
}

#[test]
fn a_table_that_somebody_defines_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let (mut session, mut other) = (Session::new(&db), Session::new(&db));
    session
        .execute(
            "create table held (a int); insert into held select g from generate_series(1, 500) g;
             create table free (a int); insert into free select g from generate_series(1, 500) g",
        )
        .unwrap();
    other.execute("begin; lock table held").unwrap();
    let upkeep = AutoAnalyze::start(&db).unwrap();
    waits(|| figures(&mut session, "free") == UNASKED);
    other.execute("rollback").unwrap();
    waits(|| figures(&mut session, "held") == UNASKED);
    drop(upkeep);
}

/// A thread that ends by itself would keep the database from being closed.
#[test]
fn it_ends_at_once_when_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let clock = Clock::system();
    for _ in 0..3 {
        let upkeep = AutoAnalyze::start(&db).unwrap();
        let begun = clock.now();
        drop(upkeep);
        assert!(clock.now().since(begun) < Duration::from_secs(1));
    }
    db.close().unwrap();
}
