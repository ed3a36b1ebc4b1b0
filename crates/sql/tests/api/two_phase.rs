//! Prepared transactions between sessions and over restarts, and what is refused that PostgreSQL
//! takes.
//!
//! Does not do: what one session shows by itself (`slt/two_phase`).

use crate::asked::{one, open};
use rightlink::Database;
use rightlink_sql::Session;

fn code(session: &mut Session, sql: &str) -> (&'static str, String) {
    let error = session.execute(sql).unwrap_err();
    (error.sqlstate, error.message)
}

const XACTS: &str = "select gid, owner, database from pg_prepared_xacts order by gid";

#[test]
fn another_session_decides_after_a_restart() {
    let (dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int primary key, b serial)").unwrap();
    session.execute("create role ann").unwrap();
    session.execute("grant all on t to ann; grant all on sequence t_b_seq to ann").unwrap();
    session.execute("set role ann; begin; insert into t values (1)").unwrap();
    session.execute("prepare transaction 'one'; reset role").unwrap();
    session.execute("begin; insert into t values (2); prepare transaction 'two'").unwrap();
    let (xacts, time) = (one(&mut session, XACTS), "select gid, prepared from pg_prepared_xacts");
    assert_eq!(xacts, "one|ann|rightlink two|rightlink|rightlink");
    let times = one(&mut session, time);
    drop(session);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    assert_eq!((one(&mut session, XACTS), one(&mut session, time)), (xacts, times));
    assert_eq!(one(&mut session, "select count(*) from t"), "0");
    // A number that it has taken comes to nobody else.
    session.execute("insert into t values (3)").unwrap();
    session.execute("alter role ann rename to eve").unwrap();
    assert_eq!(one(&mut session, XACTS), "one|eve|rightlink two|rightlink|rightlink");
    session.execute("create role bob; set role bob").unwrap();
    for sql in ["commit prepared 'one'", "rollback prepared 'two'"] {
        assert_eq!(code(&mut session, sql).0, "42501");
    }
    // Both would be in the transaction of the message.
    assert_eq!(code(&mut session, "select 1; commit prepared 'one'").0, "25001");
    session.execute("reset role").unwrap();
    session.execute("set role eve").unwrap();
    session.execute("commit prepared 'one'").unwrap();
    session.execute("reset role").unwrap();
    session.execute("commit prepared 'two'").unwrap();
    assert_eq!(one(&mut session, "select a from t order by a"), "1 2 3");
    assert_eq!(one(&mut session, "select count(distinct b) from t"), "3");
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn others_wait_for_the_decision() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int primary key, b int)").unwrap();
    session.execute("insert into t values (1, 1)").unwrap();
    session.execute("begin; update t set b = 2 where a = 1").unwrap();
    session.execute("prepare transaction 'one'; begin").unwrap();
    // The session that prepared it is as free of it as any other.
    session.execute("set local lock_timeout = 1").unwrap();
    assert_eq!(code(&mut session, "update t set b = 3").0, "55P03");
    session.execute("rollback").unwrap();
    let mut waiter = Session::new(&db);
    let handle = rightlink_env::thread::spawn("waiter", move || {
        waiter.execute("update t set b = b + 10 where a = 1").unwrap()[0].tag.clone()
    });
    while db.locks().iter().all(|lock| lock.granted) {
        rightlink_env::thread::yield_now();
    }
    session.execute("commit prepared 'one'").unwrap();
    assert_eq!(handle.join().unwrap(), "UPDATE 1");
    assert_eq!(one(&mut session, "select b from t"), "12");
    assert!(db.verify().unwrap().is_clean());
}

/// What is not built is refused by name, and the transaction is rolled back.
#[test]
fn what_is_not_built_is_refused() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int primary key)").unwrap();
    for (sql, what) in [
        ("create table u (a int)", "definitions"),
        ("alter table t add b int", "definitions"),
        ("create view v as select 1", "definitions"),
        ("create role r", "definitions"),
        ("grant select on t to public", "definitions"),
        ("truncate t", "definitions"),
        ("comment on table t is 'x'", "definitions"),
        ("savepoint s; create table u (a int); rollback to s", "definitions"),
        ("analyze t", ""),
        ("select pg_advisory_xact_lock(1)", "advisory locks that end with the transaction"),
    ] {
        session.execute("begin; insert into t values (1)").unwrap();
        session.execute(sql).unwrap();
        let (state, message) = code(&mut session, "prepare transaction 'one'");
        assert_eq!(state, "0A000", "{sql}");
        assert!(
            message.starts_with("PREPARE TRANSACTION with ") && message.contains(what),
            "{sql}"
        );
        assert_eq!(one(&mut session, "select count(*) from t"), "0", "{sql}");
        assert_eq!(one(&mut session, XACTS), "");
    }
    assert_eq!(one(&mut session, "select pg_try_advisory_lock(1)"), "t");
    for number in 0..32 {
        session.execute(&format!("begin; prepare transaction '{number}'")).unwrap();
    }
    session.execute("begin").unwrap();
    let (state, message) = code(&mut session, "prepare transaction 'more'");
    assert_eq!((state, &*message), ("53200", "maximum number of prepared transactions reached"));
    assert_eq!(one(&mut session, "show max_prepared_transactions"), "32");
    assert!(db.verify().unwrap().is_clean());
}
