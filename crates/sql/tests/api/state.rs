//! What a session keeps and undoes beside rows: settings, cursors, portals, sequences; and what its
//! settings do.

use crate::asked::{one, open};
use crate::gather::Gather;
use rightlink::Database;
use rightlink_aio::SimDisk;
use rightlink_env::Env;
use rightlink_env::thread::spawn;
use rightlink_sql::{Column, Execution, Result, Row, Session, Sink};

fn files_in(dir: &tempfile::TempDir) -> usize {
    std::fs::read_dir(dir.path().join("tmp")).unwrap().count()
}

/// Other statements of the session name other sequences meanwhile.
#[test]
fn a_suspended_portal_keeps_its_sequences() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create sequence s; create sequence r start 50; begin").unwrap();
    session.prepare("a", "select nextval('s') from generate_series(1, 9)", &[]).unwrap();
    session.prepare("b", "select nextval('r')", &[]).unwrap();
    session.bind("pa", "a", Vec::new()).unwrap();
    let mut got = Gather::default();
    assert_eq!(session.execute_portal("pa", 2, &mut got).unwrap(), Execution::Suspended);
    session.bind("pb", "b", Vec::new()).unwrap();
    session.execute_portal("pb", 0, &mut got).unwrap();
    assert_eq!(session.execute_portal("pa", 1, &mut got).unwrap(), Execution::Suspended);
    let rows: Vec<_> = got.rows.iter().map(|row| row[0].to_text().unwrap()).collect();
    assert_eq!(rows, ["1", "2", "50", "3"]);
    session.sync().unwrap();
    session.execute("commit").unwrap();
    assert!(db.verify().unwrap().is_clean());
}

/// Rows of cursors that outlive their transactions are counted or in files, and go with the cursor.
#[test]
fn held_cursors_take_no_more_than_their_share() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(8 << 20).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    let used = db.budget().used();
    // Ten times what the budget has, and still room for many of them.
    for name in ["a", "b", "c", "d"] {
        let kind = if name == "d" { "no scroll cursor" } else { "cursor" };
        let rows = "select g, repeat('x', 1000) from generate_series(1, 20000) g";
        session.execute(&format!("declare {name} {kind} with hold for {rows}")).unwrap();
    }
    assert!(files_in(&dir) > 0, "the rows do not fit");
    assert!(db.budget().used() - used < 4 << 20, "{} bytes", db.budget().used() - used);
    for (name, last) in [("a", 20_000), ("d", 20_000)] {
        session.execute(&format!("move {} in {name}", last - 2)).unwrap();
        let rows = session.execute(&format!("fetch all {name}")).unwrap().remove(0).rows;
        let numbers: Vec<_> = rows.iter().map(|row| row[0].to_text().unwrap()).collect();
        assert_eq!(numbers, [(last - 1).to_string(), last.to_string()]);
    }
    session.execute("close a; close b").unwrap();
    assert!(files_in(&dir) > 0);
    drop(session);
    assert_eq!(files_in(&dir), 0, "files go with their cursors");
    assert_eq!(db.budget().used(), used);
    assert!(db.verify().unwrap().is_clean());
}

/// A session that ends in a panic lets go of what it held, as one does that ends.
#[test]
fn a_session_that_panics_holds_nothing() {
    struct Panics;
    impl Sink for Panics {
        fn columns(&mut self, _: &[Column]) -> Result<()> {
            Ok(())
        }
        fn row(&mut self, _: Row) -> Result<()> {
            panic!("as a defect would")
        }
        fn complete(&mut self, _: &str) -> Result<()> {
            Ok(())
        }
        fn notice(&mut self, _: &str, _: &str) {}
    }
    let (_dir, db) = open();
    let mut other = Session::new(&db);
    other.execute("create table t (id int primary key); insert into t values (1)").unwrap();
    let mut session = Session::new(&db);
    let died = spawn("dies", move || {
        session.execute("begin; lock table t; update t set id = 2").unwrap();
        let _ = session.run("select * from t", &mut Panics);
    });
    assert!(died.join().is_err());
    other.execute("set lock_timeout = '10s'").unwrap();
    assert_eq!(one(&mut other, "update t set id = 3 where id = 1 returning id"), "3");
    assert!(db.locks().is_empty());
    assert!(db.verify().unwrap().is_clean());
}

/// What a client asked for when it connected is what RESET returns to.
#[test]
fn reset_returns_to_what_the_client_asked_for() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.set_option("application_name", "own").unwrap();
    session.set_option("statement_timeout", "90s").unwrap();
    let shown = |session: &mut Session| {
        let name = one(session, "show application_name");
        (name, one(session, "show statement_timeout"))
    };
    let own = ("own".to_owned(), "90s".to_owned());
    for reset in ["reset all", "discard all", "set statement_timeout = default"] {
        session.execute("set statement_timeout = 7").unwrap();
        session.execute(reset).unwrap();
        assert_eq!(shown(&mut session), own, "{reset}");
        session.execute("set application_name = 'x'; reset application_name").unwrap();
        assert_eq!(shown(&mut session), own, "{reset}");
    }
    session.execute("begin; reset all; rollback").unwrap();
    assert_eq!(shown(&mut session), own);
}

/// In a pipeline, too, SET is undone with what fails after it.
#[test]
fn a_setting_is_undone_with_its_pipeline() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    let mut got = Gather::default();
    for (name, sql) in [("a", "set application_name = 'x'"), ("b", "select 1 / 0")] {
        session.prepare(name, sql, &[]).unwrap();
        session.bind(name, name, Vec::new()).unwrap();
    }
    session.execute_portal("a", 0, &mut got).unwrap();
    assert_eq!(session.execute_portal("b", 0, &mut got).unwrap_err().sqlstate, "22012");
    session.sync().unwrap();
    assert_eq!(one(&mut session, "show application_name"), "");
}

/// A portal that began after the savepoint ends with it; one that began before goes on.
#[test]
fn portals_end_with_their_savepoint() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    let mut got = Gather::default();
    session.execute("begin").unwrap();
    session.prepare("g", "select * from generate_series(1, 9)", &[]).unwrap();
    session.bind("before", "g", Vec::new()).unwrap();
    session.execute_portal("before", 2, &mut got).unwrap();
    session.execute("savepoint s").unwrap();
    session.bind("after", "g", Vec::new()).unwrap();
    session.execute_portal("after", 2, &mut got).unwrap();
    session.execute("rollback to s").unwrap();
    assert_eq!(session.execute_portal("before", 1, &mut got).unwrap(), Execution::Suspended);
    assert_eq!(got.rows.last().unwrap()[0].to_text().unwrap(), "3");
    assert_eq!(session.execute_portal("after", 1, &mut got).unwrap_err().sqlstate, "34000");
    session.execute("rollback").unwrap();
}

/// A cursor over any kind of scan ends with the savepoint that it was declared after, whether or
/// not anything was written since, and the savepoint's end leaves the others alone.
#[test]
fn cursors_end_with_their_savepoint() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    let table = "create table t (k int primary key, g int, n int, pad text); \
                 create index t_g on t (g, n); create index t_hash on t using hash (g); \
                 insert into t select i, i % 4, i / 4, repeat('x', 700) \
                 from generate_series(0, 199) i";
    for sql in [table, "vacuum t", "analyze t"] {
        session.execute(sql).unwrap();
    }
    for query in [
        "select * from t",
        "select * from t order by k",
        "select * from t order by k desc",
        "select g, n from t where g = 1",
        "select pad from t where g in (1, 3) and n > 3",
        "select pad from t where n between 3 and 4 and g > 0",
        "select pad from t where g = 2",
        "select * from t where k between 20 and 90",
        "select * from t where k = 7",
        "select g, count(*) from t group by g",
        "select distinct g from t",
        "select * from t order by pad, k",
    ] {
        for write in ["", "insert into t values (1000, 1, 5, 'y')"] {
            session.execute("begin").unwrap();
            session.execute(&format!("declare before no scroll cursor for {query}")).unwrap();
            let first = one(&mut session, "fetch before");
            session.execute("savepoint s").unwrap();
            session.execute(write).unwrap();
            session.execute(&format!("declare begun cursor for {query}")).unwrap();
            session.execute(&format!("declare inner_one scroll cursor for {query}")).unwrap();
            session.execute("fetch 2 begun; savepoint r; fetch inner_one; release r").unwrap();
            session.execute("rollback to s").unwrap();
            for cursor in ["begun", "inner_one"] {
                let fetched = session.execute(&format!("fetch {cursor}"));
                assert_eq!(fetched.unwrap_err().sqlstate, "34000", "{query}");
                session.execute("rollback to s").unwrap();
            }
            let rest = session.execute("fetch all before").unwrap().remove(0).rows.len();
            let all = session.execute(query).unwrap().remove(0).rows.len();
            assert_eq!(1 + rest, all, "{query}, which began with {first}");
            session.execute("rollback").unwrap();
        }
    }
    assert!(db.verify().unwrap().is_clean());
}

/// Settings of reading ahead and of memory do what they say, for the session that sets them.
#[test]
fn settings_of_reading_ahead_are_heeded() {
    let options = Database::options().pool_pages(400);
    let db = options.simulation(Env::simulated(5), SimDisk::new(5)).open("db").unwrap();
    let (mut session, mut other) = (Session::new(&db), Session::new(&db));
    session.execute("create table t (id int primary key, s bigint, pad text)").unwrap();
    // Neighbours in the index are far from each other in the table.
    let rows = "insert into t select g, g::bigint * 7919 % 4001, repeat('x', 400) \
                from generate_series(1, 4000) g";
    session.execute(rows).unwrap();
    session.execute("create index t_s on t (s)").unwrap();
    let distance = |session: &mut Session, sql: &str| -> f64 {
        db.evict().unwrap();
        let explain = format!("explain (analyze, buffers, timing off, costs off) {sql}");
        let lines = one(session, &explain);
        let found = lines.split("distance=").nth(1).expect(&lines);
        found.split(' ').next().unwrap().parse().unwrap()
    };
    let by_index = "select pad from t where s between 100 and 900 order by s";
    let whole = "select count(pad) from t";
    assert!(distance(&mut session, by_index) > 1.0);
    session.execute("set enable_indexscan_prefetch = off").unwrap();
    assert_eq!(distance(&mut session, by_index), 1.0);
    assert!(distance(&mut session, whole) > 1.0, "it is not about this");
    assert!(distance(&mut other, by_index) > 1.0, "others read ahead");
    session.execute("reset enable_indexscan_prefetch; set effective_io_concurrency = 0").unwrap();
    assert_eq!(distance(&mut session, by_index), 1.0);
    assert_eq!(distance(&mut session, whole), 1.0);
    session.execute("set effective_io_concurrency = 2").unwrap();
    let two = distance(&mut session, by_index);
    assert!(two > 1.0 && two <= 2.0, "{two}");
    session.execute("reset effective_io_concurrency").unwrap();
    assert!(distance(&mut session, by_index) > 2.0);

    // Where all rows are wanted the distance begins at a batch of them, or at the rows that
    // statistics expect. Where a limit may end the scan it begins at what was learned.
    let few = "select pad from t where s between 100 and 150";
    let limited = [
        format!("{few} order by s limit 2"),
        format!("select pad from ({few}) q limit 2"),
        format!("{few} and length(pad) > 1 limit 2"),
    ];
    for statement in ["set work_mem = 4096", "analyze t"] {
        session.execute(statement).unwrap();
        let all = distance(&mut session, few);
        for sql in &limited {
            let cut = distance(&mut session, sql);
            assert!(all > 1.1 * cut, "after {statement}: {all}, {cut} of {sql}");
        }
    }

    let figures = |name| db.stats().get(name).unwrap();
    // Reads under way at once.
    let written = |session: &mut Session, from: i32| -> f64 {
        db.evict().unwrap();
        let before = (figures("stream_depth_sum"), figures("stream_reads"));
        let sql = format!(
            "insert into t select g, g::bigint * 104729 % 3989, '' \
             from generate_series({from}, {from} + 199) g"
        );
        session.execute(&sql).unwrap();
        let now = (figures("stream_depth_sum"), figures("stream_reads"));
        assert!(now.1 > before.1, "something is read");
        (now.0 - before.0) as f64 / (now.1 - before.1) as f64
    };
    assert!(written(&mut session, 10_000) > 1.0);
    session.execute("set enable_insert_prefetch = off").unwrap();
    assert_eq!(written(&mut session, 11_000), 1.0);
    session.execute("begin; set local enable_insert_prefetch = on").unwrap();
    assert!(written(&mut session, 12_000) > 1.0);
    session.execute("commit").unwrap();
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn settings_are_shown_with_units_and_checked() {
    let (dir, db) = open();
    let mut session = Session::new(&db);
    assert_eq!(one(&mut session, "show io_method"), db.method().to_string());
    let depth = db.device_depth().min(1_000).to_string();
    assert_eq!(one(&mut session, "show effective_io_concurrency"), depth);
    let refused = |session: &mut Session, sql: &str| session.execute(sql).unwrap_err();
    let error = refused(&mut session, "set io_method = 'sync'");
    assert_eq!(error.sqlstate, "55P02");
    assert!(error.message.ends_with("cannot be changed without restarting the server"));
    for (set, shown) in
        [("'16MB'", "16MB"), ("64", "64kB"), ("'1500kB'", "1500kB"), ("2048", "2MB")]
    {
        session.execute(&format!("set work_mem = {set}")).unwrap();
        assert_eq!(one(&mut session, "show work_mem"), shown);
    }
    for set in ["work_mem = 63", "work_mem = '1 parsec'", "maintenance_work_mem = 1"] {
        assert_eq!(refused(&mut session, &format!("set {set}")).sqlstate, "22023", "{set}");
    }
    session.execute("reset work_mem; set maintenance_work_mem = '1GB'").unwrap();
    assert_eq!(one(&mut session, "show work_mem"), "4MB");
    assert_eq!(one(&mut session, "show maintenance_work_mem"), "1GB");

    // Little memory for a statement is a matter of files.
    let sql = "select g, repeat('x', 100) from generate_series(1, 20000) g order by -g";
    let files = |session: &mut Session| {
        session.prepare("", sql, &[]).unwrap();
        session.bind("", "", Vec::new()).unwrap();
        session.execute_portal("", 10, &mut Gather::default()).unwrap();
        let files = files_in(&dir);
        session.close_portal("");
        session.sync().unwrap();
        files
    };
    assert_eq!(files(&mut session), 0);
    session.execute("set work_mem = '256kB'").unwrap();
    assert!(files(&mut session) > 0);
}
