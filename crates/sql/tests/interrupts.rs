//! Ending what a session does: while it plans, waits for others, builds and cleans.
//!
//! Nothing here depends on how long something takes: who is to be ended waits for what does not
//! come before it has been.

use rightlink::Database;
use rightlink_aio::SimDisk;
use rightlink_env::sync::{Arc, AtomicBool, Ordering};
use rightlink_env::{Env, thread};
use rightlink_sql::{Interrupt, Outcome, Result, Session};

fn open() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
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
    holder.execute("create table t (a int); begin; lock table t").unwrap();
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
