//! Functions that users made, beside other sessions and over restarts.
//!
//! Does not do: what one session shows by itself (`slt/functions_of_rows` and its neighbours).

use crate::asked::{one, open};
use crate::gather::Gather;
use rightlink::Database;
use rightlink_env::Rng;
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

/// The rows of a portal are asked for piece by piece. Between the pieces the transaction is the
/// session's again, and what the functions wrote is there for its other statements.
#[test]
fn functions_run_between_the_pieces_of_a_portal() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session
        .execute(
            "create table seen (n int primary key);
             create function see(n int) returns int language sql
                 as 'insert into seen values (n); select n * 10'",
        )
        .unwrap();
    session.execute("begin").unwrap();
    session.prepare("s", "select see(g) from generate_series(1, 5) g", &[]).unwrap();
    session.bind("p", "s", Vec::new()).unwrap();
    let mut read = 0;
    for rows in [2, 2, 1] {
        let mut gather = Gather::default();
        session.execute_portal("p", 2, &mut gather).unwrap();
        assert_eq!(gather.rows.len(), rows);
        read += rows;
        assert_eq!(one(&mut session, "select count(*) from seen"), read.to_string());
    }
    session.execute("rollback").unwrap();
    // A call that fails takes back the statement, and leaves the session usable.
    session.execute("insert into seen values (3)").unwrap();
    assert_eq!(code(&mut session, "select see(g) from generate_series(1, 5) g"), "23505");
    assert_eq!(one(&mut session, "select string_agg(n::text, ',') from seen"), "3");
    assert!(db.verify().unwrap().is_clean());
}

/// Two sessions call a function that takes a number under a lock: none is given twice.
#[test]
fn functions_of_two_sessions_wait_for_each_other() {
    const CALLS: usize = 100;
    let (_dir, db) = open();
    Session::new(&db)
        .execute(
            "create table counter (last int);
             insert into counter values (0);
             create table given (n int);
             create function take() returns int language sql as '
                 update counter set last = last + 1;
                 insert into given select last from counter;
                 select last from counter'",
        )
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut session = Session::new(&db);
                for _ in 0..CALLS {
                    session.execute("select take()").unwrap();
                }
            });
        }
    });
    let asked = "select count(*), count(distinct n), max(n) from given";
    assert_eq!(one(&mut Session::new(&db), asked), "200|200|200");
    assert!(db.verify().unwrap().is_clean());
}

/// Definitions that call functions are there after a restart, and follow a function that another
/// session replaces, plans that are kept included.
#[test]
fn definitions_follow_the_functions_that_they_call() {
    let dir = tempfile::tempdir().unwrap();
    let changed = "select (select string_agg(twice::text, ',' order by id) from doubled),
        (select string_agg(coalesce(name, '-') || more, ',' order by id) from t)";
    let before = {
        let db = Database::open(dir.path()).unwrap();
        let (mut session, mut other) = (Session::new(&db), Session::new(&db));
        session
            .execute(
                "create function twice(n int) returns int language sql immutable as 'select n * 2';
                 create function called() returns text language sql as $$ select 'a' $$;
                 create table t (id int, name text default called(),
                                 more int generated always as (twice(id)) stored,
                                 check (twice(id) < 100));
                 create index on t (twice(id));
                 create view doubled as select id, twice(id) as twice from t;
                 prepare add (int) as insert into t values ($1);
                 execute add (1)",
            )
            .unwrap();
        other
            .execute(
                "create or replace function called() returns text language sql
                     as $$ select 'b' $$;
                 create or replace function twice(n int) returns int language sql immutable
                     as 'select n * 3'",
            )
            .unwrap();
        session.execute("execute add (2)").unwrap();
        assert_eq!(code(&mut session, "execute add (40)"), "23514");
        one(&mut session, changed)
    };
    assert_eq!(before, "3,6|a2,b6");
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    assert_eq!(one(&mut session, changed), before);
    assert_eq!(code(&mut session, "drop function twice(int)"), "2BP01");
    session.execute("drop function twice(int) cascade").unwrap();
    assert_eq!(code(&mut session, "select * from doubled"), "42P01");
    assert_eq!(code(&mut session, "select more from t"), "42703");
    assert!(db.verify().unwrap().is_clean());
}

/// An expression over the arguments `a` and `b`, numbers, and `t`, a text.
fn expression(random: &mut Rng, depth: usize) -> String {
    let number = |random: &mut Rng| match random.below(5) {
        0 => "a".to_owned(),
        1 => "b".to_owned(),
        2 => "null::int".to_owned(),
        3 => "length(t)".to_owned(),
        _ => random.below(9).to_string(),
    };
    if depth == 0 {
        return number(random);
    }
    let (x, y) = (expression(random, depth - 1), expression(random, depth - 1));
    match random.below(8) {
        0 => format!("({x} + {y})"),
        1 => format!("({x} * {y} - a)"),
        2 => format!("coalesce({x}, {y})"),
        3 => format!("nullif({x}, {y})"),
        4 => format!("greatest({x}, {y}, b)"),
        5 => format!("case when {x} > {y} then a when t < 'b' then {x} else {y} end"),
        6 => format!("case {x} when {y} then 1 else {x} end"),
        _ => format!("({x} is null or {y} is distinct from b)::int"),
    }
}

/// A body that is one expression takes the place of its call. It gives what the same body gives
/// that LIMIT keeps apart, whatever the arguments are.
#[test]
fn calls_that_are_replaced_give_what_others_give() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session
        .execute(
            "create table rows (x int, y int, s text);
             insert into rows values (1, 2, 'abc'), (null, 3, 'b'), (-4, null, null), (7, 7, '')",
        )
        .unwrap();
    let arguments = [
        "x, y, s",
        "y, x, s || x",
        "x + 1, y * 2, upper(s)",
        "x, x, s",
        "null, y, s",
        "(select max(x) from rows), y, s",
        "twice(x), twice(y), s",
    ];
    session
        .execute("create function twice(n int) returns int language sql as 'select n + n'")
        .unwrap();
    let mut random = Rng::from_seed(11);
    for round in 0..150 {
        let depth = 1 + random.below(3) as usize;
        let body = expression(&mut random, depth);
        let strict = if random.below(3) == 0 { "strict" } else { "" };
        for (name, end) in [("replaced", ""), ("apart", " limit 1")] {
            let made = format!(
                "create or replace function {name}(a int, b int, t text) returns int \
                 language sql immutable {strict} as $$ select {body}{end} $$"
            );
            session.execute(&made).unwrap();
        }
        let given = arguments[random.below(arguments.len() as u64) as usize];
        let asked = |name: &str, session: &mut Session| {
            let sql = format!(
                "select array_agg({name}({given})), count(*) filter (where {name}({given}) > 2), \
                 (select array_agg(n order by n) from (select {name}({given}) as n from rows) r) \
                 from rows"
            );
            one(session, &sql)
        };
        let (found, wanted) = (asked("replaced", &mut session), asked("apart", &mut session));
        assert_eq!(found, wanted, "round {round}: {strict} {body} of {given}");
    }
    assert!(db.verify().unwrap().is_clean());
}
