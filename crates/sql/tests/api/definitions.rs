//! Definitions beside other sessions: what they find, wait for, and leave when they are undone.
//!
//! Does not do: what one session shows by itself (`slt/definitions`, `slt/references`).

use crate::asked::{one, open};
use rightlink::Database;
use rightlink_env::sync::{Arc, AtomicBool, Ordering};
use rightlink_env::thread::spawn;
use rightlink_sql::Session;

fn code(session: &mut Session, sql: &str) -> &'static str {
    session.execute(sql).unwrap_err().sqlstate
}

/// Runs `sql` in a session of its own, and `then` as soon as that waits for a lock.
fn beside(db: &Database, sql: &'static str, then: impl FnOnce()) -> Result<(), &'static str> {
    let mut other = Session::new(db);
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    let done = spawn("other", move || {
        let result = other.execute(sql).map(drop).map_err(|error| error.sqlstate);
        end.store(true, Ordering::Release);
        result
    });
    while !db.locks().iter().any(|lock| !lock.granted) {
        assert!(!ended.load(Ordering::Acquire), "{sql} did not wait");
        std::thread::yield_now();
    }
    then();
    done.join().unwrap()
}

/// Catalogs tell of a table that another session changes as it was, and wait for nobody.
#[test]
fn catalogs_are_read_past_a_change_that_has_not_ended() {
    let (_dir, db) = open();
    let (mut session, mut other) = (Session::new(&db), Session::new(&db));
    session.execute("create table t (a int primary key, b text)").unwrap();
    session.execute("begin; alter table t drop column b; alter table t rename to u").unwrap();
    session.execute("create table own (a int)").unwrap();
    other.execute("set lock_timeout = '1s'").unwrap();
    let columns = "select string_agg(c.relname || '.' || a.attname, ' ' order by 1) \
                   from pg_class c join pg_attribute a on a.attrelid = c.oid \
                   where c.relkind = 'r' and a.attnum > 0 and c.relnamespace = 2200";
    let names = "select string_agg(table_name, ' ' order by 1) from information_schema.tables \
                 where table_schema = 'public'";
    assert_eq!(one(&mut other, columns), "t.a t.b");
    assert_eq!(one(&mut other, names), "t");
    assert_eq!(one(&mut session, columns), "own.a u.a", "the session sees its own changes");
    session.execute("commit").unwrap();
    assert_eq!(one(&mut other, columns), "own.a u.a");
    assert_eq!(one(&mut other, names), "own u");
}

/// Rows that come while a check waits for their transaction were not looked at.
#[test]
fn a_check_looks_at_rows_that_it_has_waited_for() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int, b int)").unwrap();
    session.execute("begin; insert into t values (2, 1)").unwrap();
    let added = beside(&db, "alter table t add constraint c check (a < b)", || {
        session.execute("commit").unwrap();
    });
    assert_eq!(added, Err("23514"));
    session.execute("insert into t values (4, 3)").unwrap();
    assert!(db.verify().unwrap().is_clean());
}

/// Definitions hold for what is there, whatever an old snapshot shows of it.
#[test]
fn definitions_reach_rows_that_the_snapshot_does_not_show() {
    let (_dir, db) = open();
    let (mut old, mut other) = (Session::new(&db), Session::new(&db));
    other.execute("create table t (a int, b int); insert into t values (1, 2)").unwrap();
    let begin = "begin isolation level repeatable read; select * from t";
    old.execute(begin).unwrap();
    other.execute("insert into t values (4, 3)").unwrap();
    assert_eq!(code(&mut old, "alter table t add check (a < b)"), "23514");
    old.execute("rollback").unwrap();

    old.execute(begin).unwrap();
    other.execute("insert into t values (5, 6)").unwrap();
    old.execute("create sequence s").unwrap();
    old.execute("alter table t add n bigint not null default nextval('s')").unwrap();
    old.execute("alter table t add r float8 default random()").unwrap();
    old.execute("commit").unwrap();
    assert_eq!(one(&mut other, "select count(n), count(distinct n), count(r) from t"), "3|3|3");
    other.execute("insert into t (a, b) values (7, 8)").unwrap();
    assert_eq!(one(&mut other, "select n from t where a = 7"), "4");
    drop((old, other));
    assert!(db.verify().unwrap().is_clean());
}

/// What refers and came after the snapshot is missed by an action: to be tried again.
#[test]
fn an_action_beside_a_child_that_came_later_is_tried_again() {
    let (_dir, db) = open();
    let (mut old, mut other) = (Session::new(&db), Session::new(&db));
    other.execute("create table p (a int primary key); insert into p values (1), (2)").unwrap();
    other.execute("create table c (a int references p on delete cascade)").unwrap();
    other.execute("create table n (a int references p)").unwrap();
    let begin = "begin isolation level repeatable read; select * from p";
    old.execute(begin).unwrap();
    other.execute("insert into c values (1)").unwrap();
    assert_eq!(code(&mut old, "delete from p where a = 1"), "40001");
    old.execute("rollback").unwrap();
    old.execute(begin).unwrap();
    other.execute("insert into n values (2)").unwrap();
    assert_eq!(code(&mut old, "delete from p where a = 2"), "23503");
    old.execute("rollback").unwrap();

    // One that is not committed yet is waited for, and goes with its parent.
    other.execute("begin; insert into c values (1)").unwrap();
    let deleted = beside(&db, "delete from p where a = 1", || {
        other.execute("commit").unwrap();
    });
    assert_eq!(deleted, Ok(()));
    assert_eq!(one(&mut other, "select count(*) from c"), "0");
    drop((old, other));
    assert!(db.verify().unwrap().is_clean());
}

/// Builds of one table follow each other: each would wait for the other to leave it.
#[test]
fn builds_of_one_table_wait_for_each_other() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int, b int); insert into t values (1, 2)").unwrap();
    session.execute("begin; create index on t (a)").unwrap();
    let built = beside(&db, "create index on t (b)", || {
        session.execute("commit").unwrap();
    });
    assert_eq!(built, Ok(()));
    // Two at a time, neither of which has found the other there.
    let build = |column: &'static str| {
        let mut session = Session::new(&db);
        spawn(column, move || {
            for _ in 0..20 {
                let sql = format!("create index on t ({column})");
                session.execute(&sql).map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        })
    };
    let builds = [build("a"), build("b")];
    assert_eq!(builds.map(|build| build.join().unwrap()), [Ok(()), Ok(())]);
    assert_eq!(one(&mut session, "select count(*) from pg_indexes"), "42");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

/// Whoever draws from a sequence is told the old numbers until others' change is committed, and the
/// new ones from then on.
#[test]
fn a_sequence_is_altered_for_others_with_the_commit() {
    let (dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create sequence s; create table t (a int); select nextval('s')").unwrap();
    session.execute("begin; alter sequence s increment 10 owned by t.a").unwrap();
    let drawn = beside(&db, "select nextval('s')", || {
        session.execute("commit").unwrap();
    });
    assert_eq!(drawn, Ok(()));
    assert_eq!(one(&mut session, "select nextval('s')"), "21");
    session.execute("begin; alter sequence s restart maxvalue 21").unwrap();
    session.execute("rollback").unwrap();
    session.execute("begin; drop table t; create sequence s; select nextval('s')").unwrap();
    session.execute("rollback").unwrap();
    assert_eq!(one(&mut session, "select nextval('s')"), "31");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    let last = "select increment_by, last_value from pg_sequences";
    assert_eq!(one(&mut session, last), "10|31");
    session.execute("drop table t").unwrap();
    assert_eq!(code(&mut session, "select nextval('s')"), "42P01");
    assert!(db.verify().unwrap().is_clean());
}

/// Two who alter a sequence: the second changes what the first has left.
#[test]
fn a_sequence_is_altered_twice() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create sequence s; create table t (id serial)").unwrap();
    session.execute("begin; alter sequence s minvalue 0; alter sequence t_id_seq cycle").unwrap();
    let altered = "alter sequence s maxvalue 9; alter sequence t_id_seq maxvalue 5";
    let second = beside(&db, altered, || session.execute("commit").map(drop).unwrap());
    assert_eq!(second, Ok(()));
    let found = "select min_value, max_value, cycle from pg_sequences order by sequencename";
    assert_eq!(one(&mut session, found), "0|9|f 1|5|t");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

/// Two who say what the database is: the second waits for the first.
#[test]
fn comments_on_the_database_replace_each_other() {
    let (dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("begin; comment on database rightlink is 'first'").unwrap();
    let second = beside(&db, "comment on database rightlink is 'second'", || {
        session.execute("commit").unwrap();
    });
    assert_eq!(second, Ok(()));
    drop(session);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    let found = one(&mut session, "select description from pg_shdescription");
    assert_eq!(found, "second");
    assert!(db.verify().unwrap().is_clean());
}

/// A sequence that begins again does so for others when that is committed.
#[test]
fn a_sequence_begins_again_for_others_with_the_commit() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create sequence s; create table t (id serial)").unwrap();
    session.execute("select nextval('s'), nextval('s'), nextval('t_id_seq')").unwrap();
    session.execute("begin; alter sequence s restart; alter sequence t_id_seq restart").unwrap();
    let drawn = beside(&db, "select nextval('s'); insert into t default values", || {
        session.execute("commit").unwrap();
    });
    assert_eq!(drawn, Ok(()));
    assert_eq!(one(&mut session, "select nextval('s'), nextval('t_id_seq')"), "2|2");
    drop(session);
    db.close().unwrap();
}
