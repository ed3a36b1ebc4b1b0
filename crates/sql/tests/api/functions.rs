//! Functions that users made, beside other sessions and over restarts.
//!
//! Does not do: what one session shows by itself (`slt/functions_of_rows` and its neighbours).

use crate::asked::{one, open};
use rightlink::Database;
use rightlink_sql::Session;

fn code(session: &mut Session, sql: &str) -> &'static str {
    session.execute(sql).map_or_else(|error| error.sqlstate, |_| "00000")
}

/// Functions are there after a restart as they were before, with all of one name.
#[test]
fn functions_outlast_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let made = "
        create table t (id int primary key, name text);
        insert into t values (1, 'a'), (2, 'b');
        create function rows(low int default 2) returns setof t language sql
            as 'select * from t where id >= low';
        create function pair(inout a int, out b text) language sql
            as $$ select a + 1, 'p' || a $$;
        create function f(int) returns text language sql as $$ select 'int' $$;
        create function f(text) returns text language sql as $$ select 'text' $$;
        create function f(date, int) returns text language sql as $$ select 'two' $$;
        create function f(variadic numeric[]) returns text language sql as $$ select 'many' $$;
        drop function f(text)";
    let asked = "select rows(), (pair(5)).b, f(1), f('2020-01-01'::date, 1), f(1.5, 2)";
    let listed = "select oid::regprocedure, pg_get_function_arguments(oid), \
                  pg_get_function_result(oid) from pg_proc where pronamespace = 2200 order by 1";
    let before = {
        let db = Database::open(dir.path()).unwrap();
        let mut session = Session::new(&db);
        session.execute(made).unwrap();
        (one(&mut session, asked), one(&mut session, listed))
    };
    assert_eq!(before.0, "(2,b)|p5|int|two|many");
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    assert_eq!((one(&mut session, asked), one(&mut session, listed)), before);
    session.execute("drop function f(int)").unwrap();
    assert_eq!(one(&mut session, "select f(1)"), "many");
    session.execute("drop table t cascade").unwrap();
    assert_eq!(code(&mut session, "select * from rows()"), "42883");
    assert!(db.verify().unwrap().is_clean());
}

/// A plan that is kept follows what another session does to functions of its name.
#[test]
fn kept_plans_see_what_becomes_of_functions() {
    let (_dir, db) = open();
    let (mut session, mut other) = (Session::new(&db), Session::new(&db));
    other
        .execute("create function f(a bigint) returns text language sql as $$ select 'a' $$")
        .unwrap();
    session.execute("prepare p(int) as select f($1)").unwrap();
    let ask = |session: &mut Session| match session.execute("execute p(1)") {
        Ok(_) => one(session, "execute p(1)"),
        Err(error) => error.sqlstate.to_owned(),
    };
    assert_eq!(ask(&mut session), "a");
    for (change, answer) in [
        (
            "create or replace function f(a bigint) returns text language sql as $$ select 'b' $$",
            "b",
        ),
        ("create function f(a int) returns text language sql as $$ select 'int' $$", "int"),
        ("create function f(a text) returns text language sql as $$ select 'text' $$", "int"),
        ("drop function f(bigint)", "int"),
        ("alter function f(int) rename to g", "42883"),
        ("alter function g(int) rename to f", "int"),
        ("drop function f(text)", "int"),
        ("drop function f(int)", "42883"),
        (
            "create function f(a numeric) returns text language sql as $$ select 'numeric' $$",
            "numeric",
        ),
    ] {
        other.execute(change).unwrap();
        assert_eq!(ask(&mut session), answer, "{change}");
    }
    other
        .execute("begin; create function f(a int) returns text language sql as 'select null::text'")
        .unwrap();
    session.execute("set lock_timeout = 20").unwrap();
    assert_eq!(ask(&mut session), "55P03", "what f means is not settled yet");
    other.execute("rollback").unwrap();
    assert_eq!(ask(&mut session), "numeric");
}

/// Rows of functions count against the memory budget where they are held, and their loops end when
/// the statement is to.
#[test]
fn rows_of_functions_are_bounded() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    let made = "create function many(n bigint) returns table (a bigint, b text) language sql
                as $$ select g, repeat('x', 1000) from generate_series(1, n) g $$";
    session.execute(made).unwrap();
    assert_eq!(
        one(&mut session, "select count(*), max(length(b)) from many(200000)"),
        "200000|1000"
    );
    assert_eq!(code(&mut session, "select many(10000000)"), "53200");
    session.execute("set statement_timeout = 100").unwrap();
    assert_eq!(code(&mut session, "select count(*) from many(100000000000)"), "57014");
    let endless = "create function endless(a int) returns int language sql
                   as 'select endless(a + 1)'";
    session.execute("set check_function_bodies = off").unwrap();
    session.execute("set statement_timeout = 0").unwrap();
    session.execute(endless).unwrap();
    assert_eq!(code(&mut session, "select endless(1)"), "54001");
}
