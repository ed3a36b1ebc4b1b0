//! Random statements over two tables with the same rows, one with indexes on expressions and one
//! without any: they give the same answers, through vacuum, rollback, restart and changes of the
//! tables.
//!
//! Does not do: what PostgreSQL answers (`../slt/expression_indexes.slt`).

use rightlink::Database;
use rightlink_env::{Rng, rng};
use rightlink_sql::{Datum, Session};

/// Indexes of the table `t`. The last two are dropped and made again now and then.
const INDEXES: [&str; 6] = [
    "create index t_low on t (lower(s))",
    "create index t_mixed on t ((k % 5), (k + v) desc nulls last, lower(s))",
    "create index t_day on t ((d::date), id)",
    "create index t_part on t ((coalesce(v, -1))) where id > 3",
    "create index t_sum on t ((k + v))",
    "create index t_coalesce on t ((coalesce(v, -1))) include (s)",
];

/// Questions to both tables, with `T` for their names, `?` for a number and `$` for a letter.
const QUERIES: [&str; 19] = [
    "select id from T where lower(s) = '$' order by id",
    "select id from T where lower(s) between '$' and 'm' and k > ? order by id",
    "select id, lower(s) from T where lower(s) > '$' order by lower(s) desc, id limit 7",
    "select id from T order by lower(s), id limit 9",
    "select lower(s) from T where lower(s) >= '$' order by 1 limit 20",
    "select count(*), sum(v) from T where k + v = ?",
    "select id from T where k + v is null order by id",
    "select id, k + v from T where k % 5 = 2 and k + v < ? order by k + v desc nulls last, id",
    "select id from T where d::date = '2020-01-1?' order by id",
    "select a.id, b.id from T a join T b on lower(a.s) = b.s where a.k = ? order by 1, 2",
    "select a.id, b.id from T a left join T b on a.id = b.id + ? and lower(b.s) = '$' \
     where coalesce(b.v, -1) = -1 order by 1, 2",
    "select a.id from T a left join T b on a.id = b.k where coalesce(b.v, -1) = ? order by 1",
    "select lower(s), count(*) from T group by lower(s) having count(*) > 1 order by 1",
    "select max(k + v), min(lower(s)), count(distinct lower(s)) from T where k > ?",
    "select id from T where lower(s) in ('$', 'b', 'c') and k + v > ? order by id",
    "select id from T where exists (select 1 from T x where lower(x.s) = T.s and x.k > ?) \
     order by id",
    "select id from T where coalesce(v, -1) = ? and id > 3 order by id",
    "select id from T where not (k + v > ? or lower(s) = '$') order by id",
    "select id, s, k, v, d from T where lower(s) = any (array['$', 'd']) order by id",
];

/// Statements that write to both tables.
const WRITES: [&str; 11] = [
    "insert into T (id, s, k, v, d) select ?00 + g, chr(65 + g % 7), g % 11, \
     nullif(g % 13, 5), timestamp '2020-01-10' + g * interval '1 hour' \
     from generate_series(0, 40) g on conflict (id) do nothing",
    "insert into T (id, s, k, v) values (?0, '$', ?, null) \
     on conflict (id) do update set s = excluded.s || '$', k = T.k + 1",
    "update T set s = upper(s) where k + v = ?",
    "update T set s = '$' where lower(s) = 'a' and k > ?",
    "update T set v = v + 1, k = k - 1 where id % 7 = ?",
    "update T set d = d + interval '1 day' where d::date = '2020-01-1?'",
    "update T set v = null where coalesce(v, -1) = ?",
    "update T set k = T.k + 1 from T x where lower(T.s) = x.s and x.id = ?0",
    "delete from T where k + v = ? and lower(s) > '$'",
    "delete from T where id % 10 = ?",
    "update T set s = s where id < ?0",
];

fn answer(session: &mut Session, sql: &str) -> String {
    match session.execute(sql) {
        Err(error) => format!("{} {}", error.sqlstate, error.message),
        Ok(outcomes) => {
            let outcome = outcomes.last().unwrap();
            let text = |value: &Datum| value.to_text().unwrap_or_else(|| "NULL".into());
            let row = |row: &Vec<Datum>| row.iter().map(text).collect::<Vec<_>>().join("|");
            format!(
                "{} {}",
                outcome.tag,
                outcome.rows.iter().map(row).collect::<Vec<_>>().join(" ")
            )
        }
    }
}

/// A statement with random values in it.
fn filled(template: &str, rng: &mut Rng) -> String {
    let mut sql = String::new();
    for c in template.chars() {
        match c {
            '?' => sql.push_str(&rng.below(10).to_string()),
            '$' => sql.push(char::from(b'a' + rng.below(8) as u8)),
            c => sql.push(c),
        }
    }
    sql
}

/// The same statement over both tables.
fn both(session: &mut Session, template: &str, what: &str) {
    let with = answer(session, &template.replace('T', "t"));
    let without = answer(session, &template.replace('T', "plain"));
    assert_eq!(with, without, "{what}: {template}");
}

fn pick<'l>(list: &[&'l str], rng: &mut Rng) -> &'l str {
    list[rng.below(list.len() as u64) as usize]
}

/// Something that changes no answer.
fn disturb(session: &mut Session, rng: &mut Rng) {
    let index = &INDEXES[4 + rng.below(2) as usize];
    let name = index.split(' ').nth(2).unwrap();
    match rng.below(6) {
        0 => session.execute("vacuum t").map(drop).unwrap(),
        1 => session.execute("analyze t; analyze plain").map(drop).unwrap(),
        2 => session.execute(&format!("drop index if exists {name}")).map(drop).unwrap(),
        3 => {
            session.execute(&format!("drop index if exists {name}")).unwrap();
            session.execute(index).map(drop).unwrap();
        }
        4 => session.execute("reindex table t").map(drop).unwrap(),
        _ => session.execute("alter table t alter column k type bigint using k").map(drop).unwrap(),
    }
}

fn run(seed: u64, rounds: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::from_seed(seed);
    let mut db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    for table in ["t", "plain"] {
        let columns = "id int primary key, s text, k bigint, v int, d timestamp";
        session.execute(&format!("create table {table} ({columns})")).unwrap();
    }
    for index in &INDEXES[..3] {
        session.execute(index).unwrap();
    }
    both(&mut session, &filled(WRITES[0], &mut rng), "first rows");
    for index in &INDEXES[3..] {
        session.execute(index).unwrap();
    }
    for round in 0..rounds {
        let what = format!("seed {seed}, round {round}");
        let undone = rng.below(4) == 0;
        if undone {
            session.execute("begin").unwrap();
        }
        for _ in 0..=rng.below(3) {
            let write = filled(pick(&WRITES, &mut rng), &mut rng);
            both(&mut session, &write, &what);
        }
        let scans = ["on", "off"][rng.below(2) as usize];
        session.execute(&format!("set enable_seqscan = {scans}")).unwrap();
        for _ in 0..4 {
            let query = filled(pick(&QUERIES, &mut rng), &mut rng);
            both(&mut session, &query, &what);
        }
        if undone {
            session.execute("rollback").unwrap();
        }
        if rng.below(3) == 0 {
            disturb(&mut session, &mut rng);
        }
        if rng.below(15) == 0 {
            let column = format!("alter table T add column c{round} int default {round}");
            both(&mut session, &column, &what);
        }
        if rng.below(12) == 0 {
            drop(session);
            assert!(db.verify().unwrap().is_clean(), "{what}");
            db.close().unwrap();
            db = Database::open(dir.path()).unwrap();
            session = Session::new(&db);
        }
    }
    both(&mut session, "select * from T order by id", "all rows");
    for query in QUERIES {
        both(&mut session, &filled(query, &mut rng), "last");
    }
    drop(session);
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "seed {seed}: {:?}", report.findings);
}

#[test]
fn indexes_on_expressions_change_no_answer() {
    for seed in 0..2 * rng::rounds() {
        run(seed, 40);
    }
}

/// Every query that an index on an expression can serve is served by it.
#[test]
fn indexes_on_expressions_are_used() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    session
        .execute(
            "create table t (id int primary key, s text, k int, v int, d timestamp); \
             insert into t select g, 's' || g, g, g % 10, timestamp '2020-01-01' \
                 + g * interval '1 hour' from generate_series(1, 3000) g; \
             create index t_low on t (lower(s)); create index t_sum on t ((k + v)); \
             create index t_day on t ((d::date)); analyze t",
        )
        .unwrap();
    for (query, index) in [
        ("select id from t where lower(s) = 's7'", "t_low"),
        ("select id from t where lower(s) in ('s7', 's8')", "t_low"),
        ("select id from t where lower(s) > 's999'", "t_low"),
        ("select id from t order by lower(s) limit 3", "t_low"),
        ("select id from t order by lower(s) desc limit 3", "t_low"),
        ("select a.id from t a join t b on lower(a.s) = b.s where b.id = 5", "t_low"),
        ("update t set v = 1 where lower(s) = 's7'", "t_low"),
        ("delete from t where k + v = 12", "t_sum"),
        ("select id from t where d::date = '2020-01-05'", "t_day"),
        ("select id from (select * from t) x where k + v between 5 and 9", "t_sum"),
    ] {
        let plan = answer(&mut session, &format!("explain {query}"));
        assert!(plan.contains(&format!("using {index}")), "{query}: {plan}");
        assert!(!plan.contains('␟'), "{query}: {plan}");
    }
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}
