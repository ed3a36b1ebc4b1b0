//! What statements and sessions hold counts against the memory budget: `53200` instead of a process
//! that is out of memory, and the next statement works.

use rightlink::Database;
use rightlink_sql::{Datum, Outcome, Session};

/// A database of the least memory, with a table.
fn small() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(16 << 20).open(dir.path()).unwrap();
    Session::new(&db).execute("create table t (a int primary key, b text)").unwrap();
    (dir, db)
}

fn code(result: Result<Vec<Outcome>, rightlink_sql::SqlError>) -> &'static str {
    match result {
        Ok(_) => "00000",
        Err(error) => error.sqlstate,
    }
}

fn free(db: &Database) -> usize {
    db.budget().available()
}

#[test]
fn values_of_one_row_that_do_not_fit_end_their_statement_only() {
    let (_dir, db) = small();
    let mut session = Session::new(&db);
    session.execute("insert into t values (1, 'x')").unwrap();
    let before = free(&db);
    let long = format!("repeat('x', {})", before / 4);
    let many = |count: usize| vec![long.as_str(); count].join(", ");
    let rows = format!("(select repeat('x', {}) from generate_series(1, 10))", before / 30);
    for statement in [
        // Arguments of one call, of calls in calls, and of one that takes lists.
        format!("select length(concat({}))", many(10)),
        format!("select length({long} || ({long} || ({long} || ({long} || {long}))))"),
        format!("select length(concat_ws(',', {}))", many(20)),
        // Columns of one row.
        format!("select {}", many(20)),
        format!("select * from (select {}) as row", many(20)),
        format!("values ({})", many(20)),
        format!("update t set b = concat({})", many(10)),
        format!(
            "insert into t values (1, 'y') on conflict (a) do update set b = concat({})",
            many(10)
        ),
        format!("insert into t values (3, 'y') returning {}", many(20)),
        // What is computed over the rows of a window.
        "select string_agg('abcdefgh', ',') over (order by g) from generate_series(1, 100000) g"
            .to_owned(),
        // Long rows that queries in expressions are compared with.
        format!("select {}", vec![format!("'a' not in {rows}"); 5].join(" and ")),
        // Arrays.
        "select array_fill(1, array[1000, 1000])".to_owned(),
        "select array_agg(g) from generate_series(1, 1000000) as g".to_owned(),
        "select array_agg(g) over (order by g) from generate_series(1, 100000) as g".to_owned(),
        "select array(select g from generate_series(1, 1000000) as g)".to_owned(),
        "select count(*) from unnest(string_to_array(repeat('1,', 1000000), ',')) as u".to_owned(),
        "select cardinality(('{' || repeat('1,', 1000000) || '1}')::int[]) as of_a_long_text"
            .to_owned(),
        // Documents.
        "select ('[' || repeat('1,', 400000) || '1]')::jsonb".to_owned(),
        "select jsonb_agg(g) from generate_series(1, 300000) as g".to_owned(),
        "select jsonb_build_array(array_fill(1, array[200000]), array_fill(1, array[200000]))"
            .to_owned(),
        // One value.
        format!("select repeat('x', {})", 63 << 20),
        format!("select length(lpad('x', {}))", 15 << 20),
        format!("select replace({long}, 'x', 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy')"),
        // Operands of switches inside of one another.
        format!(
            "select case {long} when case {long} when case {long} when case {long} when \
                 {long} then 'a' end then 'b' end then 'c' end then 'd' end"
        ),
    ] {
        assert_eq!(code(session.execute(&statement)), "53200", "{}", &statement[..60]);
        assert_eq!(code(session.execute("select count(*) from t")), "00000");
    }
    // What fits is not refused, however often it is made, nor what goes to files.
    for statement in [
        "select count(*) over (), g, g + 1, g + 2 from generate_series(1, 300000) as g".to_owned(),
        format!("select length({long} || 'y')"),
        format!("select length({long}), length({long}), length({long}), length({long})"),
        format!("select sum(length({long})) from generate_series(1, 20)"),
        format!("select length({long} || g) from generate_series(1, 20) as g order by 1"),
        // What a query gave for other rows is remembered as far as there is memory.
        format!(
            "select sum(length((select repeat('x', {}) || g))) from generate_series(1, 100) as g",
            before / 10
        ),
        "select max(n) from (select row_number() over () as n from generate_series(1, 300000)) s"
            .to_owned(),
        format!("select {long} from generate_series(1, 5) where length({long}) > 3 limit 1"),
    ] {
        assert_eq!(code(session.execute(&statement)), "00000", "{}", &statement[..60]);
    }
    drop(session);
    assert!(free(&db) + (1 << 20) >= before, "nothing stays reserved");
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn prepared_statements_are_counted() {
    let (_dir, db) = small();
    let before = free(&db);
    let mut session = Session::new(&db);
    let mut other = Session::new(&db);
    let mut refused = None;
    for number in 0..100_000 {
        let sql = format!("select a + {number} from t where a = $1");
        if let Err(error) = session.prepare(&format!("s{number}"), &sql, &[]) {
            refused = Some((number, error));
            break;
        }
    }
    let (count, error) = refused.expect("a hundred thousand do not fit");
    assert_eq!(error.sqlstate, "53200");
    assert!(count > 10, "{count} prepared statements fit");
    session.sync().unwrap();
    // Those that are there go on working, and others make do with what is left or are refused.
    session.bind("", "s7", vec![Datum::Int4(1)]).unwrap();
    session.sync().unwrap();
    assert!(matches!(code(other.execute("select 1")), "00000" | "53200"));
    session.execute("deallocate all").unwrap();
    assert!(free(&db) + (2 << 20) >= before, "what was deallocated is free");
    let mut sql_level = 0;
    while session.execute(&format!("prepare p{sql_level} as select a from t where b = $1")).is_ok()
    {
        sql_level += 1;
        assert!(sql_level < 100_000, "PREPARE is counted, too");
    }
    drop(session);
    assert_eq!(code(other.execute("insert into t values (1, 'x')")), "00000");
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn portals_and_cursors_are_counted() {
    let (_dir, db) = small();
    let before = free(&db);
    let mut session = Session::new(&db);
    session.execute("begin").unwrap();
    session.prepare("s", "select a from t where b = $1", &[]).unwrap();
    let value = || vec![Datum::Text("v".repeat(10_000))];
    let mut portals = 0;
    let error = loop {
        match session.bind(&format!("p{portals}"), "s", value()) {
            Ok(()) => portals += 1,
            Err(error) => break error,
        }
        assert!(portals < 100_000, "portals are counted");
    };
    assert_eq!(error.sqlstate, "53200");
    session.execute("rollback").unwrap();
    session.execute("begin").unwrap();
    let mut cursors = 0;
    let error = loop {
        match session.execute(&format!("declare c{cursors} no scroll cursor for select a from t")) {
            Ok(_) => cursors += 1,
            Err(error) => break error,
        }
        assert!(cursors < 100_000, "cursors are counted");
    };
    assert_eq!(error.sqlstate, "53200");
    session.execute("rollback").unwrap();
    drop(session);
    assert!(free(&db) + (1 << 20) >= before, "what has ended is free");
    assert!(db.verify().unwrap().is_clean());
}

/// Plans that are kept only to be fast make way for what is needed, and nothing fails for them.
#[test]
fn plans_that_are_kept_take_no_more_than_there_is() {
    let (_dir, db) = small();
    let before = free(&db);
    let mut sessions: Vec<Session> = (0..8).map(|_| Session::new(&db)).collect();
    for number in 0..150 {
        let columns: Vec<String> = (0..200).map(|at| format!("a + {number} + {at}")).collect();
        let sql = format!("select {} from t where b = 'k{number}'", columns.join(", "));
        for session in &mut sessions {
            session.execute(&sql).unwrap();
        }
    }
    for session in &mut sessions {
        session.prepare("needed", "select a from t where b = $1", &[]).unwrap();
        session.sync().unwrap();
    }
    drop(sessions);
    assert!(free(&db) + (1 << 20) >= before);
    assert!(db.verify().unwrap().is_clean());
}

/// The answer of a query of one row as text.
fn answer(session: &mut Session, sql: &str) -> Result<String, rightlink_sql::SqlError> {
    Ok(format!("{:?}", session.execute(sql)?.remove(0).rows))
}

/// Groups that have an order, and groups by sets of keys, go to files as others do.
#[test]
fn groups_that_wait_for_their_order_go_to_files() {
    let (_dir, db) = small();
    let dir = tempfile::tempdir().unwrap();
    let large = Database::open(dir.path()).unwrap();
    let (mut session, mut other) = (Session::new(&db), Session::new(&large));
    let before = free(&db);
    for statement in [
        "select sum(length(n)), min(n), max(n) from (select g % 3000 as k, \
         string_agg(g::text, ',' order by -g) as n from generate_series(1, 60000) g group by 1) s",
        "select sum(p), sum(r) from (select g % 3000 as k, percentile_disc(0.3) within group \
         (order by g) as p, rank(g % 3000) within group (order by g) as r \
         from generate_series(1, 60000) g group by g % 3000) s",
        "select sum(n), sum(k), sum(m), count(*) from (select g as k, g % 7, count(*) as n, \
         grouping(g, g % 7) as m from generate_series(1, 40000) g group by cube (g, g % 7)) s",
        "select sum(n), count(*), min(t), max(t) from (select g % 2000 as k, \
         count(distinct g) as n, string_agg(distinct (g % 13)::text, '' order by \
         (g % 13)::text desc) as t from generate_series(1, 50000) g group by rollup (g % 2000)) s",
        "select sum(v)::text, sum(c)::text from (select g % 5000 as k, variance(g) as v, \
         corr(g, g % 11) as c from generate_series(1, 60000) g group by 1 order by 1) s",
        "select count(*) from (select generate_series(1, 100) from generate_series(1, 5000)) s",
    ] {
        let expected = answer(&mut other, statement).unwrap();
        assert_eq!(answer(&mut session, statement).unwrap(), expected, "{statement}");
    }
    drop(session);
    assert!(free(&db) + (1 << 20) >= before, "nothing stays reserved");
}

/// One group whose values wait for the last of them, to be put in order or to be told apart.
#[test]
fn values_of_one_group_that_wait_go_to_files() {
    let (_dir, db) = small();
    let dir = tempfile::tempdir().unwrap();
    let large = Database::open(dir.path()).unwrap();
    let (mut session, mut other) = (Session::new(&db), Session::new(&large));
    let before = free(&db);
    let numbers = "generate_series(1, 40000) g";
    let long = format!("(select g, repeat('x', 2100 + g % 3) || g % 50 as t from {numbers}) s");
    for (statement, settings) in [
        (format!("select md5(string_agg((g % 10)::text, '' order by -g)) from {numbers}"), "64kB"),
        (
            format!("select md5(string_agg((g / 9 % 9)::text, '' order by g % 97)) from {numbers}"),
            "4MB",
        ),
        (format!("select count(distinct g % 30000), sum(distinct g) from {numbers}"), "64kB"),
        (format!("select count(distinct g::numeric), avg(distinct g) from {numbers}"), "1MB"),
        (
            format!(
                "select md5(array_agg(distinct g % 3000)::text), md5(string_agg(distinct \
                 (g % 5000)::text, ',' order by (g % 5000)::text desc)) from {numbers}"
            ),
            "64kB",
        ),
        (
            format!(
                "select percentile_disc(0.3) within group (order by g), percentile_cont(0.7) \
                 within group (order by -g), mode() within group (order by g / 3), rank(777) \
                 within group (order by g), dense_rank(777) within group (order by g / 2), \
                 percent_rank(5) within group (order by g), cume_dist(5.5) within group \
                 (order by g desc) from {numbers}"
            ),
            "64kB",
        ),
        (
            format!(
                "select g % 2, md5(string_agg((g / 9 % 9)::text, '' order by g % 11, g desc)), \
                 mode() within group (order by g % 1000 desc), count(distinct g) \
                 from {numbers} group by rollup (g % 2) order by 1"
            ),
            "256kB",
        ),
        // Keys that agree in more than a record has room for.
        (
            format!(
                "select count(distinct t), md5(string_agg(right(t, 4), '' order by t, g)), \
                 md5(string_agg(distinct t, '' order by t desc)) from {long} where g <= 60"
            ),
            "64kB",
        ),
        (
            format!("select count(distinct t), length(min(t)), max(g) from {long} where g <= 2000"),
            "64kB",
        ),
    ] {
        let expected = answer(&mut other, &statement).unwrap();
        let found = answer(&mut session, &statement).map_err(|error| format!("{error:?}"));
        assert_eq!(found, Ok(expected.clone()), "{statement}");
        session.execute(&format!("set work_mem = '{settings}'")).unwrap();
        let found = answer(&mut session, &statement).map_err(|error| format!("{error:?}"));
        assert_eq!(found, Ok(expected), "{settings}: {statement}");
        session.execute("reset work_mem").unwrap();
    }
    // A result that does not fit is refused.
    let statement = "select string_agg(repeat('x', 100), ',' order by g) from \
                     generate_series(1, 400000) g";
    assert_eq!(code(session.execute(statement)), "53200");
    assert_eq!(code(session.execute("select count(*) from t")), "00000");
    drop(session);
    assert!(free(&db) + (1 << 20) >= before, "nothing stays reserved");
    assert!(db.verify().unwrap().is_clean());
}
