//! Random statements over a table with generated columns: after each of them every generated value
//! is what its expression gives of the row, through rollback, vacuum, restart and changes of the
//! table.
//!
//! Does not do: what PostgreSQL answers (`../slt/generated_columns.slt`).

use rightlink::Database;
use rightlink_env::{Rng, rng};
use rightlink_sql::{Datum, Session, Sink};

/// Columns of the table and their expressions.
const GENERATED: [(&str, &str, &str); 5] = [
    ("g_sum", "bigint", "k + coalesce(v, 0)"),
    ("g_low", "text", "lower(s) || '/' || k"),
    ("g_part", "numeric(8, 1)", "v / 7.0"),
    ("g_null", "boolean", "v is null or v > k"),
    ("g_cut", "varchar(3)", "left(s, 3)"),
];

/// What writes, with `?` for a number and `$` for a letter.
const WRITES: [&str; 22] = [
    "insert into t (id, s, k, v) select ?00 + g, chr(65 + g % 7), g % 11, nullif(g % 13, 5) \
     from generate_series(0, 40) g on conflict (id) do nothing",
    "insert into t (id, s, k, v) values (?0, '$', ?, null), (?1, '$$$$', ?, ?) \
     on conflict (id) do update set s = excluded.s || '$', k = t.k + excluded.k",
    "insert into t (id, k, v) values (?0, ?, ?) \
     on conflict (id) do update set v = excluded.g_sum, g_sum = default",
    "insert into t (id, s, g_low, k) values (?3, '$', default, ?) on conflict do nothing",
    "insert into t select id + 1000, s, k, v from t where k = ? on conflict do nothing",
    "insert into t_view (id, s, k, v) values (?5, '$', ?, ?) on conflict do nothing",
    "with w as (update t set k = k + 1 where id = ?0 returning g_sum) \
     insert into t (id, v) select 2000 + ?, g_sum from w on conflict do nothing",
    "update t set s = upper(s) where g_sum = ?",
    "update t set s = '$$' where g_low > '$' and k > ?",
    "update t set v = v + 1, k = k - 1 where id % 7 = ?",
    "update t set v = null, g_part = default where g_null and k = ?",
    "update t set k = t.k + 1 from t x where t.g_low = x.g_low and x.id = ?0",
    "update t set (s, v) = (select x.s, x.g_sum from t x where x.id = ?0) where k = ?",
    "update t_view set v = id % 10 where k = ?",
    "update t set s = s where id < ?0",
    "update t set g_sum = default where id % 10 = ?",
    "delete from t where g_sum = ? and k > 3",
    "delete from t where id % 10 = ? and g_null",
    "delete from parent where x = ?",
    "update parent set x = x + 20 where x = ?",
    "insert into parent select g from generate_series(-20, 80) g on conflict do nothing",
    "update t set p = nullif(k, ?) where id % 5 = 2 and k between 0 and 60",
];

/// Something that changes the table, or nothing that a client sees.
const CHANGES: [&str; 12] = [
    "vacuum t",
    "analyze t",
    "reindex table t",
    "create index if not exists t_sum on t (g_sum, g_low)",
    "create index if not exists t_expression on t ((g_sum + 1))",
    "drop index if exists t_sum",
    "alter table t add column c? int default ?",
    "alter table t drop column if exists c?",
    "alter table t add column e? int generated always as (k * ? + length(s)) stored",
    "alter table t drop column if exists e?",
    "alter table t alter column e? drop expression if exists",
    "alter table t alter column g_part type numeric(9, 1)",
];

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

/// Runs a statement that may fail by what it meets, and by nothing else.
fn attempt(session: &mut Session, sql: &str, what: &str) {
    if let Err(error) = session.execute(sql) {
        // A key that is there, a parent that is not, a column that is there or not.
        let usual = ["23505", "23503", "21000", "42701", "42703", "25P02"];
        assert!(usual.contains(&error.sqlstate), "{what}: {sql}: {error}");
    }
}

fn rows(session: &mut Session, sql: &str) -> Vec<Vec<Datum>> {
    session.execute(sql).unwrap().pop().unwrap().rows
}

/// Every generated value is that of its expression.
fn check(session: &mut Session, what: &str) {
    let wrong = |(name, ty, expression): &(&str, &str, &str)| {
        format!("({name} is distinct from (({expression})::{ty}))")
    };
    let wrong: Vec<String> = GENERATED.iter().map(wrong).collect();
    let sql = format!("select * from t where {} or g_key <> coalesce(p, 0)", wrong.join(" or "));
    let found = rows(session, &sql);
    assert!(found.is_empty(), "{what}: {found:?}");
    // And those that came later.
    let sql = "select column_name, generation_expression from information_schema.columns \
               where table_name = 't' and is_generated = 'ALWAYS' and column_name like 'e%'";
    for row in rows(session, sql) {
        let [name, expression] = [0, 1].map(|at: usize| row[at].to_text().unwrap());
        let sql = format!("select * from t where {name} is distinct from {expression}");
        let found = rows(session, &sql);
        assert!(found.is_empty(), "{what}: {name}: {found:?}");
    }
}

fn make(session: &mut Session) {
    let column = |(name, ty, expression): &(&str, &str, &str)| {
        format!("{name} {ty} generated always as ({expression}) stored")
    };
    let columns: Vec<String> = GENERATED.iter().map(column).collect();
    let sql = format!(
        "create table parent (x int primary key); insert into parent select generate_series(0, 60);
         create table t (id int primary key, s text, k int default 5, v int, \
         p int references parent on delete set null on update cascade, \
         g_key int generated always as (coalesce(p, 0)) stored, {}); \
         create view t_view as select s, k, v, id, g_sum from t where id is not null",
        columns.join(", ")
    );
    session.execute(&sql).unwrap();
}

fn run(seed: u64, rounds: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::from_seed(seed);
    let mut db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    make(&mut session);
    attempt(&mut session, &filled(WRITES[0], &mut rng), "first rows");
    for round in 0..rounds {
        let what = format!("seed {seed}, round {round}");
        let undone = rng.below(4) == 0;
        if undone {
            session.execute("begin").unwrap();
        }
        for _ in 0..=rng.below(4) {
            let write = WRITES[rng.below(WRITES.len() as u64) as usize];
            attempt(&mut session, &filled(write, &mut rng), &what);
        }
        if undone {
            session.execute("rollback").unwrap();
        }
        if rng.below(2) == 0 {
            let change = CHANGES[rng.below(CHANGES.len() as u64) as usize];
            attempt(&mut session, &filled(change, &mut rng), &what);
        }
        check(&mut session, &what);
        if rng.below(12) == 0 {
            drop(session);
            assert!(db.verify().unwrap().is_clean(), "{what}");
            db.close().unwrap();
            db = Database::open(dir.path()).unwrap();
            session = Session::new(&db);
        }
    }
    let count = rows(&mut session, "select count(*) from t where g_sum is not null");
    assert_ne!(count[0][0], Datum::Int8(0), "seed {seed}");
    drop(session);
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "seed {seed}: {:?}", report.findings);
}

#[test]
fn generated_values_are_those_of_their_expressions() {
    for seed in 0..2 * rng::rounds() {
        run(seed, 60);
    }
}

/// Messages and details are those of PostgreSQL.
#[test]
fn refusals_say_what_postgresql_says() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    session.execute("create table t (a int, b int generated always as (a * 2) stored)").unwrap();
    for (sql, message, detail) in [
        (
            "insert into t values (1, 2)",
            "cannot insert a non-DEFAULT value into column \"b\"",
            "Column \"b\" is a generated column.",
        ),
        (
            "update t set b = 3",
            "column \"b\" can only be updated to DEFAULT",
            "Column \"b\" is a generated column.",
        ),
        (
            "copy t (b) to stdout",
            "column \"b\" is a generated column",
            "Generated columns cannot be used in COPY.",
        ),
        (
            "copy t from stdin where b > 3",
            "generated columns are not supported in COPY FROM WHERE conditions",
            "Column \"b\" is a generated column.",
        ),
        (
            "alter table t drop column a",
            "cannot drop column a of table t because other objects depend on it",
            "column b of table t depends on column a of table t",
        ),
        (
            "alter table t alter column a type bigint",
            "cannot alter type of a column used by a generated column",
            "Column \"a\" is used by generated column \"b\".",
        ),
        (
            "alter table t alter column b type int using a",
            "cannot specify USING when altering type of generated column",
            "Column \"b\" is a generated column.",
        ),
        (
            "alter table t add column c int generated always as (b) stored",
            "cannot use generated column \"b\" in column generation expression",
            "A generated column cannot reference another generated column.",
        ),
        (
            "alter table t add column c text generated always as (t::text) stored",
            "cannot use whole-row variable in column generation expression",
            "This would cause the generated column to depend on its own value.",
        ),
        (
            "alter table t add column c float generated always as (random()) stored",
            "generation expression is not immutable",
            "",
        ),
        (
            "alter table t alter column a drop expression",
            "column \"a\" of relation \"t\" is not a stored generated column",
            "",
        ),
        (
            "create table u (b int default 1 generated always as (1) stored)",
            "both default and generation expression specified for column \"b\" of table \"u\"",
            "",
        ),
        (
            "create table u (b int generated always as (1) stored generated always as (2) stored)",
            "multiple generation clauses specified for column \"b\" of table \"u\"",
            "",
        ),
    ] {
        let error = session.execute(sql).unwrap_err();
        assert_eq!(error.message, message, "{sql}");
        assert_eq!(error.detail.as_deref().unwrap_or_default(), detail, "{sql}");
    }
}

/// Rows of COPY to a client.
#[derive(Default)]
struct Copied(Vec<u8>);

impl Sink for Copied {
    fn columns(&mut self, _: &[rightlink_sql::Column]) -> rightlink_sql::Result<()> {
        Ok(())
    }

    fn row(&mut self, _: rightlink_sql::Row) -> rightlink_sql::Result<()> {
        Ok(())
    }

    fn complete(&mut self, _: &str) -> rightlink_sql::Result<()> {
        Ok(())
    }

    fn notice(&mut self, _: &str, _: &str) {}

    fn copy_in(&mut self, _: rightlink_sql::CopyHeader) -> rightlink_sql::Result<()> {
        Ok(())
    }

    fn copy_out(&mut self, _: rightlink_sql::CopyHeader) -> rightlink_sql::Result<()> {
        Ok(())
    }

    fn copy_data(&mut self, bytes: &[u8]) -> rightlink_sql::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// What COPY TO writes of a table COPY FROM reads, also where every column is generated.
#[test]
fn copies_come_back_without_generated_values() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    session
        .execute(
            "create table t (b int generated always as (a * 2) stored, a int); \
             create table only (a int generated always as (7) stored); \
             insert into t (a) select generate_series(1, 3); insert into only default values",
        )
        .unwrap();
    let mut copied = Copied::default();
    session.run("copy t to stdout", &mut copied).unwrap();
    assert_eq!(String::from_utf8(copied.0.clone()).unwrap(), "1\n2\n3\n");
    session.run("copy t from stdin", &mut Copied::default()).unwrap();
    session.copy_data(&copied.0).unwrap();
    assert_eq!(session.copy_done().unwrap(), "COPY 3");
    let sums = rows(&mut session, "select count(*), sum(b) from t");
    assert_eq!(sums[0], [Datum::Int8(6), Datum::Int8(24)]);
    let mut copied = Copied::default();
    session.run("copy only to stdout", &mut copied).unwrap();
    assert_eq!(copied.0, b"\n");
    session.run("copy only from stdin", &mut Copied::default()).unwrap();
    session.copy_data(&copied.0).unwrap();
    assert_eq!(session.copy_done().unwrap(), "COPY 1");
    let all = rows(&mut session, "select a from only");
    assert_eq!(all, [[Datum::Int4(7)], [Datum::Int4(7)]]);
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}
