//! Ending what a session does: while it plans, waits for others, builds and cleans.
//!
//! Nothing here depends on how long something takes: who is to be ended waits for what does not
//! come before it has been.

use crate::gather::Gather;
use rightlink::Database;
use rightlink_aio::SimDisk;
use rightlink_env::sync::{Arc, AtomicBool, Ordering};
use rightlink_env::{Env, points, thread};
use rightlink_sql::{Interrupt, Outcome, Reason, Result, Session};

/// Where nobody vacuums unasked.
fn open() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    (dir, db)
}

/// Runs `work` on a thread of its own while `tick` is called again and again: what it failed with.
fn ended(
    mut session: Session,
    work: impl FnOnce(&mut Session) -> Result<()> + Send + 'static,
    mut tick: impl FnMut(&Interrupt),
) -> String {
    let (done, interrupt) = (Arc::new(AtomicBool::new(false)), session.interrupt());
    let tell = Arc::clone(&done);
    let runs = thread::spawn("session", move || {
        let result = work(&mut session);
        tell.store(true, Ordering::SeqCst);
        result
    });
    while !done.load(Ordering::SeqCst) {
        tick(&interrupt);
        thread::yield_now();
    }
    let error = runs.join().unwrap().expect_err("it was ended");
    format!("{} {}", error.sqlstate, error.message)
}

fn timed_out(db: &Database) -> impl FnMut(&Interrupt) + use<> {
    let db = db.clone();
    move |interrupt| interrupt.expire(db.unix_micros())
}

const TIMEOUT: &str = "57014 canceling statement due to statement timeout";

#[test]
fn a_statement_timeout_holds_while_a_statement_is_planned() {
    let (_dir, db) = open();
    let mut holder = Session::new(&db);
    holder.execute("create table t (a int)").unwrap();
    holder.execute("begin; lock table t").unwrap();
    let impatient = || {
        let mut session = Session::new(&db);
        session.execute("set statement_timeout = '5ms'").unwrap();
        session
    };
    for sql in ["select * from t", "select 1; select * from t", "alter table t add b int"] {
        let run = move |session: &mut Session| session.execute(sql).map(drop);
        assert_eq!(ended(impatient(), run, timed_out(&db)), TIMEOUT, "{sql}");
    }
    let prepare = |session: &mut Session| session.prepare("", "select * from t", &[]).map(drop);
    assert_eq!(ended(impatient(), prepare, timed_out(&db)), TIMEOUT);
    holder.execute("commit").unwrap();
    assert!(db.verify().unwrap().is_clean());
}

/// What a cursor or a portal takes its time for is the statement that fetches.
#[test]
fn a_fetch_has_a_time_of_its_own() {
    let env = Env::simulated(1);
    let options = Database::options().simulation(env.clone(), SimDisk::new(1));
    let db = options.open("db").unwrap();
    let mut session = Session::new(&db);
    let second = std::time::Duration::from_secs(1);
    let rows = |outcomes: Vec<Outcome>| outcomes.last().unwrap().rows.len();
    session.execute("set statement_timeout = '1500ms'; begin").unwrap();
    session.execute("declare c cursor for select g from generate_series(1, 5000) g").unwrap();
    for _ in 0..3 {
        env.clock.advance(second);
        assert_eq!(rows(session.execute("fetch 1000 c").unwrap()), 1000);
        // The client takes its time, too.
        session.interrupt().expire(db.unix_micros());
    }
    env.clock.advance(second * 5);
    session.interrupt().expire(db.unix_micros());
    assert_eq!(rows(session.execute("fetch all c").unwrap()), 2000);
    session.execute("commit").unwrap();
}

/// Raises `reason` when the session's own thread comes to `point`.
fn raising_at(point: &'static str, session: &Session) -> points::InstalledLocal {
    let interrupt = session.interrupt();
    points::install_local(move |at| {
        if at == point {
            interrupt.raise(Reason::Request);
        }
    })
}

const CANCELLED: &str = "57014 canceling statement due to user request";

fn error_of(session: &mut Session, sql: &str) -> String {
    let error = session.execute(sql).expect_err(sql);
    format!("{} {}", error.sqlstate, error.message)
}

#[test]
fn an_index_build_beside_an_idle_writer_is_ended() {
    let (_dir, db) = open();
    let mut writer = Session::new(&db);
    writer.execute("create table t (a int)").unwrap();
    writer.execute("begin; insert into t values (1)").unwrap();
    let build = "create index concurrently t_a on t (a)";
    for (reason, error) in
        [(Reason::Request, CANCELLED), (Reason::Gone, "08006 connection to client lost")]
    {
        // It waits for the writer from here on.
        let waits = Arc::new(AtomicBool::new(false));
        let reached = Arc::clone(&waits);
        let run = move |session: &mut Session| {
            let _hook = points::install_local(move |at| {
                if at == "online.counted" {
                    reached.store(true, Ordering::SeqCst);
                }
            });
            session.execute(build).map(drop)
        };
        let found = ended(Session::new(&db), run, |interrupt| {
            if waits.load(Ordering::SeqCst) {
                interrupt.raise(reason);
            }
        });
        assert_eq!(found, error);
    }
    let mut session = Session::new(&db);
    session.execute("set statement_timeout = '5ms'").unwrap();
    // It looks at the time by itself.
    assert_eq!(error_of(&mut session, build), TIMEOUT);
    session.execute("set statement_timeout = 0").unwrap();
    session.execute("set lock_timeout = '5ms'").unwrap();
    assert_eq!(error_of(&mut session, build), "55P03 canceling statement due to lock timeout");
    writer.execute("commit").unwrap();
    session.execute(build).unwrap();
    assert!(db.verify().unwrap().is_clean());
}

/// The first thing that each of these waits for is the table's lock.
#[test]
fn upkeep_that_waits_for_a_lock_is_ended() {
    let (_dir, db) = open();
    let mut holder = Session::new(&db);
    holder.execute("create table t (a int); create index t_a on t (a)").unwrap();
    holder.execute("begin; lock table t").unwrap();
    for sql in ["vacuum t", "vacuum", "reindex table t", "analyze t", "analyze"] {
        let run = move |session: &mut Session| session.execute(sql).map(drop);
        let impatient = |setting: &str| {
            let mut session = Session::new(&db);
            session.execute(&format!("set {setting} = '5ms'")).unwrap();
            session
        };
        let found = ended(impatient("statement_timeout"), run, timed_out(&db));
        assert_eq!(found, TIMEOUT, "{sql}");
        let found = ended(impatient("lock_timeout"), run, |_| {});
        assert_eq!(found, "55P03 canceling statement due to lock timeout", "{sql}");
    }
    holder.execute("commit").unwrap();
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn builds_and_vacuums_are_ended_in_the_middle() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int, b text)").unwrap();
    let rows = "insert into t select g, repeat('x', 400) from generate_series(1, 5000) g";
    session.execute(rows).unwrap();
    for sql in ["create index t_a on t (a)", "create index concurrently t_a on t (a)"] {
        let hook = raising_at("build.rows", &session);
        assert_eq!(error_of(&mut session, sql), CANCELLED);
        drop(hook);
        assert!(session.tables().unwrap()[0].indexes.is_empty(), "{sql}");
    }
    session.execute("create index t_a on t (a)").unwrap();
    let hook = raising_at("build.rows", &session);
    assert_eq!(error_of(&mut session, "reindex index t_a"), CANCELLED);
    drop(hook);
    session.execute("delete from t where a < 3000").unwrap();
    let hook = raising_at("vacuum.pace", &session);
    assert_eq!(error_of(&mut session, "vacuum t"), CANCELLED);
    drop(hook);
    assert_eq!(session.execute("vacuum t").unwrap()[0].tag, "VACUUM");
    assert!(db.verify().unwrap().is_clean());
}

/// One that waits for another over the same table is ended, and the other goes on.
#[test]
fn a_vacuum_that_waits_for_another_is_ended_alone() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int, b text)").unwrap();
    let rows = "insert into t select g, repeat('x', 400) from generate_series(1, 2000) g";
    session.execute(rows).unwrap();
    session.execute("delete from t where a < 1500").unwrap();
    let go_on = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&go_on);
    let first = thread::spawn("first", move || {
        let _hook = points::install_local(move |at| {
            while at == "vacuum.pace" && !told.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        });
        session.execute("vacuum t").map(drop)
    });
    while db.vacuum_progress().is_empty() {
        thread::yield_now();
    }
    let second = |session: &mut Session| session.execute("vacuum t").map(drop);
    let found = ended(Session::new(&db), second, |interrupt| {
        if db.vacuum_progress().len() == 2 {
            interrupt.raise(Reason::Request);
        }
    });
    assert_eq!(found, CANCELLED);
    go_on.store(true, Ordering::SeqCst);
    first.join().unwrap().unwrap();
    assert!(db.verify().unwrap().is_clean());
}

/// What one call of a function takes grows with its arguments: it ends by itself in about linear
/// time, or is ended. Each of these took minutes.
#[test]
fn what_goes_through_long_values_ends_in_time() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("set statement_timeout = '300ms'").unwrap();
    let clock = rightlink_env::Clock::system();
    let many = "select count(*) from generate_series(1, 100000) g where ";
    let long_list: Vec<String> = (0..30_000).map(|at| (-at).to_string()).collect();
    for sql in [
        "select repeat('a', 20000000) like '%' || repeat('a', 20000) || 'b'".to_owned(),
        "select repeat('a', 20000000) like '%' || repeat('a', 20000) || '_b%'".to_owned(),
        "select repeat('a', 20000000) like '%' || repeat('_a', 20000) || 'b%'".to_owned(),
        "select repeat('a', 20000000) like '%' || repeat('_', 20000000) || 'b%'".to_owned(),
        "select repeat('ab', 9000000) like repeat('%a_', 100000) || 'c'".to_owned(),
        "select repeat('A', 9000000) ilike '%' || repeat('a', 20000) || 'b'".to_owned(),
        "select repeat('a', 9000000) like '%' || repeat('a', 20000) || 'b\\'".to_owned(),
        "select length(translate(repeat('z', 20000000), \
         (select_list), '')) from generate_series(1, 100)"
            .replace(
                "(select_list)",
                &format!("'{}'", ('\u{100}'..'\u{8000}').collect::<String>()),
            ),
        "select length(btrim(repeat('a', 20000000), repeat('b', 20000000) || 'a'))".to_owned(),
        "select length(split_part(repeat(',', 60000000), ',', -2))".to_owned(),
        "select length(replace(repeat('ab', 9000000), 'a', 'xyz')) from generate_series(1, 1000)"
            .to_owned(),
        "select position(repeat('a', 30000) || 'b' in repeat('a', 60000000))".to_owned(),
        "select md5(repeat('a', 60000000)) from generate_series(1, 100)".to_owned(),
        "select length(encode(decode(repeat('ab', 9000000), 'hex'), 'hex')) \
         from generate_series(1, 100)"
            .to_owned(),
        "select length(reverse(upper(repeat('a', 20000000)))) from generate_series(1, 100)"
            .to_owned(),
        "select length(lpad('a', 16000000, 'bc')) from generate_series(1, 1000)".to_owned(),
        "select g, repeat('a', 10000000) from generate_series(1, 255) g".to_owned(),
        "select max(g) over (order by g rows between 50000 preceding and current row), \
         min(g) over (order by g rows between current row and 50000 following) \
         from generate_series(1, 100000) g"
            .to_owned(),
        "select string_agg('abcdefgh', ',') over (order by g) from generate_series(1, 100000) g"
            .to_owned(),
        format!("{many} g in ({})", long_list.join(", ")),
        format!("{many} {}", vec!["g < 0"; 3_000].join(" or ")),
        format!("{many} g = greatest({})", vec!["g - 1"; 3_000].join(", ")),
    ] {
        let begun = clock.now();
        let mut rows = Gather::default();
        let result = session.run(&sql, &mut rows).map_err(|error| error.sqlstate);
        let spent = clock.now().since(begun);
        let shown = &sql[..sql.floor_char_boundary(100)];
        assert!(matches!(result, Ok(()) | Err("57014" | "53200")), "{result:?} {shown}");
        println!("{spent:?} {result:?} {shown}");
        // It is a second where nothing else runs.
        assert!(spent < std::time::Duration::from_secs(10), "{spent:?} {shown}");
    }
    assert!(db.verify().unwrap().is_clean());
}
