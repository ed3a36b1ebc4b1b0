//! ANALYZE among several sessions, interrupted, and what plans that are kept make of it.
//!
//! Does not do: what one session shows by itself (`slt/statistics.slt`).

use rightlink::{Database, TableSchema, Type, Value};
use rightlink_env::points;
use rightlink_sql::{Datum, Reason, Session};

/// A table in which `state` is 'rare' in one row of 200, with an index on it.
fn skewed() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    session.execute("create table s (id int primary key, state text, pad text)").unwrap();
    let rows = "insert into s select g, case when g % 200 = 0 then 'rare' else 'done' end, \
                repeat('x', 100) from generate_series(1, 10000) g";
    session.execute(rows).unwrap();
    session.execute("create index s_state on s (state)").unwrap();
    (dir, db)
}

/// The first value of the first row.
fn one(session: &mut Session, sql: &str) -> Datum {
    session.execute(sql).unwrap().remove(0).rows.remove(0).remove(0)
}

/// The first line of a plan.
fn plan(session: &mut Session, sql: &str) -> String {
    one(session, &format!("explain {sql}")).to_text().unwrap()
}

/// Scans of the table, and scans by its index on `state`, so far.
fn scans(db: &Database) -> (u64, u64) {
    let figures = db.table_figures().unwrap();
    let table = figures.iter().find(|table| table.name == "s").unwrap();
    let index = table.indexes.iter().find(|index| index.name == "s_state").unwrap();
    (table.rows.scans, index.scans)
}

/// Which way a statement goes: through the table, or by the index.
fn way(db: &Database, run: impl FnOnce()) -> &'static str {
    let before = scans(db);
    run();
    let after = scans(db);
    match (after.0 - before.0, after.1 - before.1) {
        (1, 0) => "table",
        (0, 1) => "index",
        other => panic!("{other:?} scans"),
    }
}

#[test]
fn plans_say_how_many_rows_there_are() {
    let (_dir, db) = skewed();
    let mut session = Session::new(&db);
    session.execute("analyze s").unwrap();
    for (sql, rows) in [
        ("select * from s", 10_000),
        ("select * from s where state = 'rare'", 50),
        ("select * from s where state = 'done'", 9_950),
        ("select * from s where state <> 'done'", 50),
        ("select * from s where state = 'done' or id = 5", 9_950),
        ("select * from s where id = 5", 1),
        ("select * from s where id in (1, 2, 3)", 3),
        ("select * from s where id < 2500", 2_500),
        ("select * from s where id > 2500 and id <= 5000", 2_500),
        ("select * from s where state is null", 1),
        ("select * from s where state is not null", 10_000),
    ] {
        let line = plan(&mut session, sql);
        let found: f64 =
            line.split("rows=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!((found - f64::from(rows)).abs() <= f64::from(rows) * 0.02, "{sql}: {line}");
    }
    assert!(db.verify().unwrap().is_clean());
}

/// A message whose plan is kept, or whose literals became parameters, goes the way that is right
/// for its values, and so does a prepared statement.
#[test]
fn plans_that_are_kept_follow_values_and_statistics() {
    let (_dir, db) = skewed();
    let mut session = Session::new(&db);
    let by = |state: &str| format!("select max(pad) from s where state = '{state}'");
    session.execute("prepare q (text) as select max(pad) from s where state = $1").unwrap();
    session.prepare("p", "select max(pad) from s where state = $1", &[]).unwrap();
    for state in ["done", "rare"] {
        assert_eq!(way(&db, || drop(session.execute(&by(state)).unwrap())), "index");
        let sql = format!("execute q ('{state}')");
        assert_eq!(way(&db, || drop(session.execute(&sql).unwrap())), "index");
    }
    Session::new(&db).execute("analyze s").unwrap();
    for _ in 0..2 {
        for (state, wanted) in [("done", "table"), ("rare", "index"), ("none", "index")] {
            assert_eq!(way(&db, || drop(session.execute(&by(state)).unwrap())), wanted, "{state}");
            let sql = format!("execute q ('{state}')");
            assert_eq!(way(&db, || drop(session.execute(&sql).unwrap())), wanted, "{state}");
            let params = vec![Datum::Text(state.to_owned())];
            let portal = || {
                session.bind("", "p", params).unwrap();
                session.execute_portal("", 0, &mut Ignore).unwrap();
                session.sync().unwrap();
            };
            assert_eq!(way(&db, portal), wanted, "{state}");
        }
    }
    assert!(db.verify().unwrap().is_clean());
}

/// Takes rows and says nothing.
struct Ignore;

impl rightlink_sql::Sink for Ignore {
    fn columns(&mut self, _: &[rightlink_sql::Column]) -> rightlink_sql::Result<()> {
        Ok(())
    }

    fn row(&mut self, _: rightlink_sql::Row) -> rightlink_sql::Result<()> {
        Ok(())
    }

    fn complete(&mut self, _: &str) -> rightlink_sql::Result<()> {
        Ok(())
    }

    fn notice(&mut self, _: &str, _: &str) {}
}

#[test]
fn analyze_is_cancelled() {
    let (_dir, db) = skewed();
    let mut session = Session::new(&db);
    let interrupt = session.interrupt();
    let hook = points::install_local(move |at| {
        if at == "analyze.rows" {
            interrupt.raise(Reason::Request);
        }
    });
    for sql in ["analyze s", "analyze", "vacuum analyze s"] {
        let error = session.execute(sql).expect_err(sql);
        assert_eq!(error.sqlstate, "57014", "{sql}");
    }
    drop(hook);
    assert_eq!(one(&mut session, "select count(*) from pg_stats"), Datum::Int8(0));
    session.execute("analyze s").unwrap();
    assert_eq!(one(&mut session, "select count(*) from pg_stats"), Datum::Int8(3));
    assert!(db.verify().unwrap().is_clean());
}

/// Nobody waits for a block that has analyzed, neither where statistics are made for the first time
/// nor later; who analyzes the same table waits for its end.
#[test]
fn an_open_block_that_analyzed_is_in_nobodys_way() {
    let (_dir, db) = skewed();
    let (mut first, mut second) = (Session::new(&db), Session::new(&db));
    first.execute("create table other (a int)").unwrap();
    for session in [&mut first, &mut second] {
        session.execute("set lock_timeout = 20").unwrap();
    }
    first.execute("begin; analyze s").unwrap();
    let sql = "select * from s where state = 'done'";
    assert!(plan(&mut first, sql).starts_with("Seq Scan"), "it sees its own");
    assert!(plan(&mut second, sql).starts_with("Index Scan"), "nobody else does");
    second.execute("insert into s values (0, 'new', ''); analyze other").unwrap();
    let error = second.execute("analyze s").expect_err("it waits");
    assert_eq!(error.sqlstate, "55P03");
    first.execute("commit").unwrap();
    assert!(plan(&mut second, sql).starts_with("Seq Scan"));
    second.execute("analyze s").unwrap();
    drop((first, second));
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn statistics_are_there_again_when_the_database_is_opened_again() {
    let (dir, db) = skewed();
    Session::new(&db).execute("analyze").unwrap();
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    assert!(plan(&mut session, "select * from s where state = 'done'").starts_with("Seq Scan"));
    assert_eq!(session.tables().unwrap().len(), 1, "the table of statistics is not shown");
    assert!(db.verify().unwrap().is_clean());
}

/// A database may have a table of that name from before.
#[test]
fn a_table_that_looks_like_that_of_statistics_is_left_alone() {
    let (_dir, db) = skewed();
    let mut txn = db.begin();
    txn.create_table(&TableSchema::new("pg_statistic").column("a", Type::Int4)).unwrap();
    txn.insert("pg_statistic", &[Value::Int4(1)]).unwrap();
    txn.commit().unwrap();
    let mut session = Session::new(&db);
    session.execute("select * from s where state = 'done'").unwrap();
    let error = session.execute("analyze s").expect_err("where should they be kept?");
    assert_eq!(error.sqlstate, "42809");
    session.execute("drop table s").unwrap();
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn analyze_says_what_it_read() {
    let (_dir, db) = skewed();
    let mut session = Session::new(&db);
    let done = session.execute("analyze verbose s (state)").unwrap().remove(0);
    assert_eq!(done.tag, "ANALYZE");
    assert_eq!(done.notices[0], "INFO:  analyzing \"public.s\"");
    assert!(done.notices[1].contains("containing 10000 live rows; 10000 rows in sample"));
    assert_eq!(one(&mut session, "select count(*) from pg_stats"), Datum::Int8(1));
    assert!(db.verify().unwrap().is_clean());
}
