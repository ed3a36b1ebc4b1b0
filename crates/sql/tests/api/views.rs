//! Views between sessions and over restarts.
//!
//! Does not do: one session alone (`../slt/views.slt`, `../slt/updatable_views.slt`).

use crate::asked::{after_wait, one, open};
use rightlink::Database;
use rightlink_sql::Session;

fn code(session: &mut Session, sql: &str) -> &'static str {
    session.execute(sql).map_or_else(|error| error.sqlstate, |_| "00000")
}

/// The rows of materialized views, and whether they are there, come and go with their transaction
/// and are durable.
#[test]
fn materialized_views_are_there_after_the_database_was_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    session
        .execute(
            "create table t (id int primary key, b text); \
             insert into t select g, 'x' || g from generate_series(1, 500) g; \
             create materialized view m as select id, upper(b) as b from t; \
             create unique index m_id on m (id); create index m_b on m (lower(b)); \
             create materialized view empty as select count(*) as n from m with no data; \
             insert into t values (501, 'new')",
        )
        .unwrap();
    session.execute("begin; refresh materialized view m; rollback").unwrap();
    session.execute("begin; create materialized view gone as select 1 as one; rollback").unwrap();
    session
        .execute(
            "begin; savepoint s; refresh materialized view m with no data; rollback to s; \
             alter table t rename column b to c; commit",
        )
        .unwrap();
    drop(session);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    assert_eq!(one(&mut session, "select count(*), max(b) from m"), "500|X99");
    assert_eq!(one(&mut session, "select id from m where lower(b) = 'x7'"), "7");
    assert_eq!(code(&mut session, "select * from empty"), "55000");
    assert_eq!(code(&mut session, "select * from gone"), "42P01");
    assert_eq!(code(&mut session, "delete from m"), "42809");
    session.execute("refresh materialized view m; refresh materialized view empty").unwrap();
    assert_eq!(one(&mut session, "select id from m where lower(b) = 'new'"), "501");
    assert_eq!(one(&mut session, "select n from empty"), "501");
    assert_eq!(code(&mut session, "drop table t"), "2BP01");
    session.execute("drop table t cascade").unwrap();
    assert_eq!(code(&mut session, "select * from m"), "42P01");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

/// Definitions, what they depend on and new names below them are durable.
#[test]
fn views_are_there_after_the_database_was_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    session
        .execute(
            "create schema s; create table s.t (id int primary key, a int, b text); \
             insert into s.t values (1, 5, 'x'), (2, 50, 'y'); \
             create view v as select * from s.t where a > 9 with check option; \
             create view s.w (n, label) as select id, b || '!' from v; \
             alter table s.t rename column a to c; alter table s.t rename to r; \
             alter table s.r add column d int default 1",
        )
        .unwrap();
    session.execute("begin; create view gone as select 1 as one; rollback").unwrap();
    drop(session);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    assert_eq!(one(&mut session, "select * from v"), "2|50|y");
    assert_eq!(one(&mut session, "select label from s.w where n = 2"), "y!");
    assert_eq!(one(&mut session, "insert into v values (3, 10, 'z') returning *"), "3|10|z");
    assert_eq!(code(&mut session, "insert into v values (4, 1, 'z')"), "44000");
    assert_eq!(code(&mut session, "select * from gone"), "42P01");
    assert_eq!(code(&mut session, "drop table s.r"), "2BP01");
    assert_eq!(code(&mut session, "alter table s.r drop column c"), "2BP01");
    assert_eq!(code(&mut session, "alter table s.r drop column d"), "00000");
    assert_eq!(code(&mut session, "drop view v"), "2BP01");
    session.execute("drop view v cascade").unwrap();
    assert_eq!(code(&mut session, "select * from s.w"), "42P01");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

/// Plans that are kept read a view as it is now.
#[test]
fn other_sessions_see_a_view_as_it_is() {
    let (_dir, db) = open();
    let (mut maker, mut reader) = (Session::new(&db), Session::new(&db));
    maker
        .execute(
            "create table t (id int primary key, a int); insert into t values (1, 10), (2, 20); \
             create view v as select id, a from t where a < 15; create view w as select * from v",
        )
        .unwrap();
    let query = "select * from w";
    reader.prepare("p", query, &[]).unwrap();
    for _ in 0..3 {
        assert_eq!(one(&mut reader, query), "1|10");
    }
    maker.execute("begin; create or replace view v as select id, a + 1 as a from t").unwrap();
    assert_eq!(one(&mut maker, query), "1|11 2|21");
    maker.execute("commit").unwrap();
    assert_eq!(one(&mut reader, query), "1|11 2|21");
    maker.execute("create or replace view v as select id, a, 7 as more from t").unwrap();
    assert_eq!(one(&mut reader, query), "1|10 2|20", "its columns were fixed");
    maker.execute("alter view v rename to other; create view v as select 1 as id").unwrap();
    assert_eq!(one(&mut reader, query), "1|10 2|20");
    maker.execute("drop view w").unwrap();
    assert_eq!(code(&mut reader, query), "42P01");
    maker.execute("create view w as select 3 as three").unwrap();
    assert_eq!(one(&mut reader, query), "3");
    reader
        .bind("", "p", Vec::new())
        .and_then(|()| reader.execute_portal("", 0, &mut crate::gather::Gather::default()))
        .expect_err("its columns have changed");
}

/// Of a session that makes a view and one that drops what it reads one waits for the other.
#[test]
fn a_view_and_what_it_reads_are_made_and_dropped_in_turn() {
    let (_dir, db) = open();
    let mut holder = Session::new(&db);
    holder.execute("create table t (a int); create table u (a int)").unwrap();
    let given = after_wait(&db, &mut holder, "create view v as select a from t", "drop table t");
    assert_eq!(given, "2BP01");
    let given = after_wait(&db, &mut holder, "drop table u", "create view w as select a from u");
    assert_eq!(given, "42P01");
    let given = after_wait(&db, &mut holder, "drop view v", "select * from v");
    assert_eq!(given, "42P01");
    assert_eq!(code(&mut holder, "drop table t"), "00000");
}

/// Views in views have a bound, and so have definitions.
#[test]
fn depth_and_length_of_views_are_bounded() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create view v0 as select 1 as a").unwrap();
    let mut deepest = 0;
    for at in 1..200 {
        let sql = format!("create view v{at} as select a from v{}", at - 1);
        match code(&mut session, &sql) {
            "00000" => deepest = at,
            other => {
                assert_eq!(other, "54001");
                break;
            }
        }
    }
    assert!((20..100).contains(&deepest), "{deepest}");
    assert_eq!(one(&mut session, &format!("select a from v{deepest}")), "1");
    let update = format!("update v{deepest} set a = 2");
    assert_eq!(code(&mut session, &update), "55000", "the lowest is no view of a table");
    session
        .execute("create table t (a int); create view w0 as select a, a + 1 as b from t")
        .unwrap();
    for at in 1..=40 {
        let sql = format!("create view w{at} as select a, b || b as b from w{}", at - 1);
        let sql = if at == 1 { sql.replace("b || b", "b::text || b") } else { sql };
        session.execute(&sql).unwrap();
    }
    assert_eq!(code(&mut session, "update w40 set a = 1"), "54001", "its columns double");
    let wide = format!("create view wide as select '{}' as a", "x".repeat(8_000));
    assert_eq!(code(&mut session, &wide), "54000");
    let long = format!("create view long as select '{}' as a", "x".repeat(6_000));
    assert_eq!(code(&mut session, &long), "00000");
    assert_eq!(one(&mut session, "select length(a) from long"), "6000");
}
