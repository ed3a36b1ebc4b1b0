//! Operators whose rows memory does not hold: the same rows by way of files as in memory, and files
//! that go with their statement.

use std::path::Path;

use rightlink::Database;
use rightlink_env::Rng;
use rightlink_env::rng::rounds;
use rightlink_sql::{Datum, Outcome, Session};

/// Tables with nulls, keys that many rows have, and rows that are alike.
pub(crate) fn fill(session: &mut Session, seed: u64) {
    let mut random = Rng::from_seed(seed);
    session
        .execute(
            "create table a (id int primary key, k int, v int, t text);
             create table b (id int primary key, k int, w bigint, t text);
             create index b_k on b (k)",
        )
        .unwrap();
    for (table, rows, heavy) in [("a", 300, 100), ("b", 900, 5)] {
        let row = |id: u64| {
            let key = match random.next_u64() % 100 {
                0..10 => "null".to_owned(),
                // Too many for memory in one of the tables.
                10..30 if random.next_u64().is_multiple_of(heavy / 5) => "7".to_owned(),
                _ => (random.next_u64() % 300).to_string(),
            };
            let value = random.next_u64() % 50;
            let text = "x".repeat((random.next_u64() % 90) as usize);
            format!("({id}, {key}, {value}, '{text}{}')", value % 3)
        };
        let rows: Vec<String> = (0..rows).map(row).collect();
        session.execute(&format!("insert into {table} values {}", rows.join(", "))).unwrap();
    }
}

/// Statements for each operator that gathers rows.
pub(crate) fn statements() -> Vec<String> {
    let mut all = Vec::new();
    for kind in ["join", "left join", "right join", "full join"] {
        all.push(format!("select a.*, b.* from a {kind} b on a.k = b.k"));
        all.push(format!("select a.id, b.t from a {kind} b on a.k = b.k and a.v = b.w"));
        all.push(format!("select a.t, b.id from a {kind} b on a.k + 1 = b.w"));
    }
    // A left side that memory holds beside a right side that it does not.
    let few = "(select * from a where id < 40) s";
    for kind in ["join", "left join", "right join", "full join"] {
        all.push(format!("select s.id, b.* from {few} {kind} b on s.k = b.k"));
    }
    for not in ["", "not"] {
        let some = "select b.t from b where b.k = s.k and b.w < s.v and b.t <> ''";
        all.push(format!("select s.id from {few} where {not} exists ({some})"));
    }
    for kind in ["join", "left join", "full join"] {
        let on = "on a.k = b.k and a.v < b.w";
        all.push(format!("select a.id, b.id from a {kind} b {on}"));
    }
    for kind in ["join", "left join"] {
        all.push(format!("select a.id, b.id from a {kind} b on a.v > b.w + 30 and a.k < 100"));
    }
    for not in ["", "not"] {
        all.push(format!("select * from a where {not} exists (select from b where b.k = a.k)"));
        let both = "b.k = a.k and b.w < a.v";
        all.push(format!("select * from a where {not} exists (select from b where {both})"));
        let less = "b.w < a.v - 45 and b.k > a.k";
        all.push(format!("select * from a where {not} exists (select from b where {less})"));
        all.push(format!("select * from a where k {not} in (select k from b where k is not null)"));
        let groups = "select k from b group by k having count(*) > 2";
        all.push(format!("select * from a where k {not} in ({groups} and k is not null)"));
        // In an expression of the list it is no join.
        let rows = "select w, t from b where w < 40";
        all.push(format!("select id, k {not} in (select k + 40 from b) as x from a"));
        all.push(format!("select id, k {not} in (select k from b where k > 40) as x from a"));
        all.push(format!("select id, (v, t) {not} in ({rows}) as x from a"));
        all.push(format!("select id, (k, v) {not} in (select k, w from b) as x from a"));
    }
    for call in [
        "sum(w)",
        "count(*) filter (where w > 9)",
        "lag(t, 3, 'none')",
        "lead(id, 200)",
        "lag(id, k)",
        "first_value(t)",
        "ntile(7)",
        "cume_dist()",
        "percent_rank()",
        "dense_rank()",
    ] {
        all.push(format!("select id, {call} over (order by w, id) as x from b"));
        all.push(format!("select id, t, {call} over (partition by w % 2 order by k) as x from b"));
    }
    for call in ["sum(w)", "max(t)", "nth_value(id, 2)"] {
        for frame in [
            "rows between 3 preceding and 2 following",
            "rows between 400 preceding and 300 preceding",
            "groups between 1 preceding and 2 following",
            "groups between 20 following and 30 following exclude ties",
            "range between 5 preceding and 1 following",
            "range between unbounded preceding and 3 following exclude current row",
        ] {
            let order = if frame.starts_with("range") { "w" } else { "w, id" };
            all.push(format!("select id, {call} over (order by {order} {frame}) as x from b"));
        }
    }
    for kind in ["union", "union all", "intersect", "intersect all", "except", "except all"] {
        all.push(format!("select k, v::bigint, t from a {kind} select k, w, t from b"));
        all.push(format!("select w, t from b {kind} select v, t from a"));
        all.push(format!("select t from b {kind} select t from a"));
    }
    for statement in [
        "with c as materialized (select * from b) select count(*), sum(x.w + y.w) from c x, c y \
             where x.id = y.id + 1",
        "with c as materialized (select * from b) select * from c where id < 10 \
             union all select * from c where id > 890 union all select * from c",
        "with recursive r as (select id, k, t from a where id < 20 union all \
             select r.id + 20, r.k, a.t from r join a on a.id = r.id + 20) select * from r",
        "with recursive r as (select id, t from a where id < 150 union \
             select (id * 7) % 300, t from r where id > 3) select count(*), sum(id) from r",
        "with recursive r as (select id, k, t from a where id < 9 union \
             select b.id, b.k, r.t from r join b on b.w = r.k % 50 where b.id % 4 > 0) \
             select * from r",
        "select distinct k, t from b",
        "select distinct on (k) k, t, id from b order by k, id",
        "select k, count(*), sum(w), max(t), count(distinct t) from b group by k",
        "select t, string_agg(k::text, ',') from (select * from b order by id) s group by t",
        "select * from b order by t, id",
        "select k, sum(w) over (partition by k order by id) from b",
        "select id, row_number() over (partition by v order by id) from a",
        "select x.id, y.id, z.id from a x join b y on x.k = y.k join b z on z.w = x.v and z.id < 9",
    ] {
        all.push(statement.to_owned());
    }
    all
}

/// Settings that make the planner choose each kind of join.
const OPERATORS: [&str; 3] = [
    "set enable_nestloop = off",
    "set enable_hashjoin = off",
    "set enable_hashjoin = off; set enable_indexscan = off",
];

/// Rows without their order.
pub(crate) fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let outcomes = session.execute(sql);
    let outcomes = outcomes.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let last: &Outcome = outcomes.last().unwrap();
    let mut rows: Vec<String> = last.rows.iter().map(|row| format!("{row:?}")).collect();
    rows.sort_unstable();
    rows
}

fn files(path: &Path) -> usize {
    std::fs::read_dir(path.join("tmp")).unwrap().count()
}

/// Settings for the statement in this place: each third, or all in several rounds.
fn operators(at: usize) -> impl Iterator<Item = &'static str> {
    let every = if rounds() > 1 { 1 } else { 3 };
    OPERATORS.into_iter().skip(at % every).step_by(every)
}

#[test]
fn rows_by_way_of_files_are_those_in_memory() {
    for seed in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let mut session = Session::new(&db);
        fill(&mut session, seed);
        if seed == 2 {
            session.execute("analyze").unwrap();
        }
        let before = db.budget().available();
        for (at, sql) in statements().into_iter().enumerate() {
            session.execute("reset all").unwrap();
            let expected = rows(&mut session, &sql);
            for settings in operators(at) {
                let set = format!("reset all; {settings}; set work_mem = '64kB'");
                session.execute(&set).unwrap();
                let found = rows(&mut session, &sql);
                assert_eq!(found.len(), expected.len(), "seed {seed}, {settings}: {sql}");
                assert_eq!(found, expected, "seed {seed}, {settings}: {sql}");
                assert_eq!(files(dir.path()), 0, "{sql}");
            }
        }
        drop(session);
        assert!(db.budget().available() + (1 << 20) >= before, "nothing stays reserved");
    }
}

/// Where memory does not hold the partners of a window, a join by keys takes smaller windows, and
/// in the end files. Its rows are those of a hash join in memory, in the order asked for.
#[test]
fn windows_of_a_join_by_keys_become_smaller() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    let tables = "create table t (id int primary key, k int, pad text); \
         insert into t select g, g / 3, repeat('x', 100) || g from generate_series(0, 11999) g; \
         create index on t (k); create table l (n int primary key, id int); \
         insert into l select g, g * 7919 % 15000 from generate_series(1, 20000) g; \
         create table late (n int primary key, id int); \
         insert into late select g, case when g > 9000 then g * 7919 % 12000 else -g end \
         from generate_series(1, 30000) g; analyze";
    session.execute(tables).unwrap();
    let keyed = "set enable_hashjoin = off";
    for (settings, sql) in [
        (keyed, "select n, pad from l join t on t.id = l.id order by n"),
        (keyed, "select n, pad from l left join t on t.id = l.id and t.k > 100"),
        (keyed, "select n, pad from l join t on t.k = l.id"),
        (keyed, "select n from l where exists (select from t where t.k = l.id and pad > 'x')"),
        (keyed, "select n from l where not exists (select from t where t.id = l.id and pad > 'x')"),
        // A two-hundredth of the rows is expected, so that a hash table of all goes on.
        ("", "select n, pad from l join t on t.id = l.id where n % 1 = 0"),
        ("", "select n, pad from l join t on t.id = l.id where n % 1 = 0 order by n"),
        // The first rows have no partners, so that a later window is the first to be halved.
        ("", "select n, pad from late join t on t.id = late.id where n % 1 = 0"),
    ] {
        session.execute("reset all; set enable_nestloop = off").unwrap();
        let expected = rows(&mut session, sql);
        session.execute(&format!("reset all; {settings}")).unwrap();
        let plan = rows(&mut session, &format!("explain {sql}"));
        assert!(plan.iter().any(|line| line.contains("Keyed")), "{sql}: {plan:?}");
        for memory in ["64kB", "400kB", "1MB", "2MB", "100MB"] {
            session.execute(&format!("set work_mem = '{memory}'")).unwrap();
            assert_eq!(rows(&mut session, sql), expected, "{memory}: {sql}");
            if sql.ends_with("order by n") {
                let outcomes = session.execute(sql).unwrap();
                let numbers = outcomes[0].rows.iter().map(|row| number(&row[0]));
                assert!(numbers.is_sorted(), "{memory}: {sql}");
            }
            assert_eq!(files(dir.path()), 0, "{sql}");
        }
    }
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

fn number(value: &Datum) -> i32 {
    match value {
        Datum::Int4(number) => *number,
        other => panic!("{other:?} is no number"),
    }
}

/// Rows do not depend on how many of them operators hand on at a time.
#[test]
fn batches_of_few_rows_give_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    fill(&mut session, 5);
    let mut other = Session::new(&db);
    for (at, sql) in statements().into_iter().enumerate() {
        let expected = rows(&mut session, &sql);
        for settings in operators(at) {
            for few in [1, 2] {
                let settings = format!("reset all; set batch_rows = {few}; {settings}");
                other.execute(&settings).unwrap();
                assert_eq!(rows(&mut other, &sql), expected, "{settings}: {sql}");
            }
        }
    }
}

/// Joins, set operations and expressions of WITH that are several times larger than memory.
#[test]
fn what_is_larger_than_the_database_s_memory_goes_to_files() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(16 << 20).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    let series = "select g, repeat('x', 600) || g % 1000 as t from generate_series(1, 25000) g";
    for (sql, expected) in [
        (format!("select count(*) from ({series}) a join ({series}) b on a.g = b.g"), 25_000),
        (
            format!("select count(*) from ({series}) a left join ({series}) b on a.g = b.g + 1"),
            25_000,
        ),
        (
            format!("select count(*) from ({series}) a full join ({series}) b on a.g = b.g + 1"),
            25_001,
        ),
        (format!("select count(*) from (({series}) intersect ({series})) a"), 25_000),
        (format!("select count(*) from (({series}) except (select 1, 'x')) a"), 25_000),
        (format!("with c as materialized ({series}) select count(*) from c where g > 0"), 25_000),
        (
            "with recursive r as (select 1 as n, repeat('x', 600) as t union all \
                 select n + 1, t from r) select count(*) from (select * from r limit 20000) s"
                .to_owned(),
            20_000,
        ),
        (
            format!(
                "select count(distinct n) from (select sum(length(t)) over (order by g) + g as n, \
                     lead(t, 9000) over (order by g) from ({series}) s) w"
            ),
            25_000,
        ),
        (
            format!(
                "select count(m) from (select max(t) over (order by g rows between 3 preceding \
                     and 2 following) as m from ({series}) s) w"
            ),
            25_000,
        ),
        (
            "with recursive r as (select 1 as n, repeat('x', 600) as t union \
                 select n % 20000 + 1, t from r) select count(*) from r"
                .to_owned(),
            20_000,
        ),
        (
            format!(
                "select count(*) from generate_series(1, 25000) h where repeat('x', 600) || h \
                     not in (select t from ({series}) s) or h < 0"
            ),
            24_001,
        ),
        (
            "select count(*) from generate_series(1, 3) a join \
                 (select g, repeat('x', 600) || g as t from generate_series(1, 25000) g) b \
                 on b.g > a * 7500"
                .to_owned(),
            30_000,
        ),
    ] {
        let outcomes = session.execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(outcomes[0].rows[0][0], Datum::Int8(expected), "{sql}");
        assert_eq!(files(dir.path()), 0, "{sql}");
    }
}

/// Many rows in each round, of which many wait until it is over, with the least memory.
#[test]
fn rounds_of_many_rows_go_to_files() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(16 << 20).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    let sql = "with recursive r as (select g as n, repeat('x', 600) as t from \
                   generate_series(1, 10000) g union select (n * 2) % 25013, t from r) \
                   select count(*) from r";
    let outcomes = session.execute(sql).unwrap();
    assert_eq!(outcomes[0].rows[0][0], Datum::Int8(25_012));
    assert_eq!(files(dir.path()), 0);
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}
