//! Types that users made, after a restart and beside other sessions.
//!
//! Does not do: what one session shows by itself (`slt/enums`, `slt/enum_names`).

use crate::asked::{after_wait, one, open};
use rightlink::Database;
use rightlink_sql::{Datum, Session};

fn code(session: &mut Session, sql: &str) -> &'static str {
    session.execute(sql).unwrap_err().sqlstate
}

/// Labels, their order and the numbers of types stay, and so do values that were stored.
#[test]
fn enums_outlive_a_restart() {
    let (dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create schema s; create type s.mood as enum ('sad', 'ok')").unwrap();
    session.execute("create table t (m s.mood primary key, l s.mood[])").unwrap();
    session.execute("insert into t values ('ok', '{ok,sad}'), ('sad', null)").unwrap();
    session.execute("alter type s.mood add value 'meh' before 'ok'").unwrap();
    session.execute("alter type s.mood rename value 'ok' to 'fine'").unwrap();
    session.execute("insert into t values ('meh', '{meh}')").unwrap();
    session.execute("comment on type s.mood is 'moods'").unwrap();
    let rows = "select m, l from t order by m";
    let numbers = "select oid, typarray from pg_type where typname = 'mood'";
    let labels = "select oid, enumsortorder, enumlabel from pg_enum order by 2";
    let asked = [rows, numbers, labels].map(|sql| one(&mut session, sql));
    assert_eq!(asked[0], "sad|NULL meh|{meh} fine|{fine,sad}");
    drop(session);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    assert_eq!([rows, numbers, labels].map(|sql| one(&mut session, sql)), asked);
    assert_eq!(one(&mut session, "select obj_description('s.mood'::regtype, 'pg_type')"), "moods");
    assert_eq!(code(&mut session, "insert into t values ('fine')"), "23505");
    assert_eq!(code(&mut session, "drop type s.mood"), "2BP01");
    session.execute("drop table t; drop type s.mood").unwrap();
    assert!(db.verify().unwrap().is_clean());
}

/// Who uses a type keeps it as it is, and who changes it lets others wait.
#[test]
fn a_type_changes_when_nobody_uses_it() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create type mood as enum ('sad', 'ok')").unwrap();
    session.execute("create table t (m mood, n int)").unwrap();
    let added = after_wait(
        &db,
        &mut session,
        "insert into t values ('sad', 1)",
        "alter type mood add value 'meh' before 'ok'; insert into t values ('meh', 2)",
    );
    assert_eq!(added, "INSERT 0 1");
    let read = after_wait(
        &db,
        &mut session,
        "alter type mood add value 'glad'; insert into t values ('glad', 3)",
        "select string_agg(m::text, ',' order by m) from t",
    );
    assert_eq!(read, "sad,meh,glad");
    let dropped = after_wait(&db, &mut session, "create table u (m mood)", "drop type mood");
    assert_eq!(dropped, "2BP01");
    let made =
        after_wait(&db, &mut session, "drop table t, u; drop type mood", "create table v (m mood)");
    assert_eq!(made, "42704");
    let twice = after_wait(
        &db,
        &mut session,
        "create type twice as enum ('a')",
        "create type twice as enum ('b')",
    );
    assert_eq!(twice, "42710");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

/// What a session has planned and prepared is planned anew after a change by another one.
#[test]
fn plans_follow_a_type() {
    let (_dir, db) = open();
    let (mut session, mut other) = (Session::new(&db), Session::new(&db));
    other.execute("create type mood as enum ('sad', 'ok')").unwrap();
    other.execute("create table t (m mood); insert into t values ('ok')").unwrap();
    let largest = "select enum_last(null::mood)";
    session.execute("prepare p as select count(*) from t where m < $1").unwrap();
    assert_eq!(one(&mut session, largest), "ok");
    assert_eq!(one(&mut session, "execute p ('ok')"), "0");
    assert_eq!(code(&mut session, "execute p ('glad')"), "22P02");
    other.execute("alter type mood add value 'glad'").unwrap();
    assert_eq!(one(&mut session, largest), "glad");
    assert_eq!(one(&mut session, "execute p ('glad')"), "1");
    other.execute("alter type mood rename value 'glad' to 'happy'").unwrap();
    assert_eq!(one(&mut session, largest), "happy");
    assert_eq!(one(&mut session, "execute p ('happy')"), "1");
    other.execute("alter type mood rename to feeling").unwrap();
    assert_eq!(code(&mut session, largest), "42704");
    assert_eq!(one(&mut session, "execute p ('happy')"), "1");
    other.execute("drop table t; drop type feeling; create type mood as enum ('b')").unwrap();
    assert_eq!(one(&mut session, largest), "b");
}

/// As values of parameters labels are text, in either format.
#[test]
fn labels_are_text_to_clients() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create type mood as enum ('sad', 'ok'); create table t (m mood)").unwrap();
    let description = session.prepare("p", "insert into t values ($1) returning m", &[]).unwrap();
    let ty = description.parameters[0];
    assert_eq!((ty.name(), ty.fixed_len()), ("mood", 4));
    assert_eq!(session.type_numbered(ty.oid()).unwrap(), Some(ty));
    assert_eq!(session.type_numbered(1 << 20).unwrap(), None);
    let label = Datum::from_binary(ty, b"ok").unwrap();
    assert_eq!(label.to_binary().unwrap(), b"ok");
    assert_eq!(Datum::from_binary(ty, b"glad").unwrap_err().sqlstate, "22P02");
    let columns = description.columns.unwrap();
    assert_eq!((columns[0].type_oid(), columns[0].type_len()), (ty.oid(), 4));
}

/// Labels go to temporary files and come back.
#[test]
fn labels_are_sorted_on_disk() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create type mood as enum ('c', 'a', 'b')").unwrap();
    session.execute("create table t (m mood, l mood[], f text)").unwrap();
    let fill = "insert into t select (enum_range(null::mood))[1 + g % 3], \
                array[(enum_range(null::mood))[1 + g % 2]], repeat('x', 400) \
                from generate_series(1, 3000) g";
    session.execute(fill).unwrap();
    session.execute("set work_mem = '64kB'").unwrap();
    let sorted = "select string_agg(m::text || l::text, '' order by m, l) from \
                  (select distinct m, l from (select * from t order by m desc, f) x) y";
    assert_eq!(one(&mut session, sorted), "c{c}c{a}a{c}a{a}b{c}b{a}");
}

/// What a domain asks stays, and is asked of rows that others have put in.
#[test]
fn domains_outlive_a_restart() {
    let (dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create domain d as int default 7 check (value > 0)").unwrap();
    session.execute("create domain e as d not null; create table t (a d, b e)").unwrap();
    session.execute("alter domain d add constraint small check (value < 100) not valid").unwrap();
    let rows = after_wait(
        &db,
        &mut session,
        "insert into t values (50, 1)",
        "alter domain d add constraint tiny check (value < 50)",
    );
    assert_eq!(rows, "23514");
    let waited = after_wait(
        &db,
        &mut session,
        "alter domain d drop constraint small; alter domain d add constraint c check (value < 60)",
        "insert into t values (70, 1)",
    );
    assert_eq!(waited, "23514");
    session.execute("create sequence s; alter domain d set default nextval('s')").unwrap();
    drop(session);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    assert_eq!(code(&mut session, "insert into t values (60, 1)"), "23514");
    assert_eq!(code(&mut session, "insert into t values (1, null)"), "23502");
    session.execute("insert into t default values").unwrap();
    assert_eq!(one(&mut session, "select a, b from t order by a"), "1|2 50|1");
    assert_eq!(code(&mut session, "drop domain d"), "2BP01");
    session.execute("drop table t; drop domain d cascade").unwrap();
    assert_eq!(code(&mut session, "select 1::e"), "42704");
    assert!(db.verify().unwrap().is_clean());
}
