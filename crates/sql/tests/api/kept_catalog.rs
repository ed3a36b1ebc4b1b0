//! What sessions keep of catalogs against what a session reads that keeps nothing yet.

use rightlink::Database;
use rightlink_env::Rng;
use rightlink_sql::{Activity, Session, Who};

use crate::meeting::told;

const ASKED: [&str; 10] = [
    "select string_agg(relname || relkind::text || relnatts || relchecks, ',' order by oid) \
     from pg_class where oid >= 16384",
    "select string_agg(attrelid::regclass || attname || atttypid, ',' order by attrelid, attnum) \
     from pg_attribute where attrelid >= 16384",
    "select string_agg(pg_get_indexdef(indexrelid), ',' order by indexrelid) from pg_index",
    "select string_agg(objoid || description, ',' order by objoid, objsubid) from pg_description \
     where objoid >= 16384",
    "select string_agg(tablename || attname || n_distinct, ',' order by tablename, attname) \
     from pg_stats",
    "select string_agg(relpages || reltuples || relname || relallvisible \
     || coalesce(relacl::text, ''), ',' order by oid) from pg_class where oid >= 16384",
    "select string_agg(concat(relname, indexrelname, idx_scan, idx_tup_read), ',' \
     order by indexrelid) from pg_stat_user_indexes",
    "select string_agg(concat(indexrelname, idx_scan, idx_tup_fetch), ',' order by indexrelid) \
     from pg_stat_user_indexes where relname in ('p0', 'p1')",
    "select string_agg(concat(relname, n_tup_ins, n_live_tup, n_mod_since_analyze, analyze_count), \
     ',' order by relid) from pg_stat_user_tables where relname = any ('{p0,p2,b1}')",
    "select string_agg(nspname || coalesce(rolname, ''), ',' order by nspname) \
     from pg_namespace left join pg_roles on pg_roles.oid = nspowner",
];

/// A statement about a table of a writer.
fn change(random: &mut Rng, writer: &str) -> String {
    let table = format!("{writer}{}", random.below(3));
    let column = format!("c{}", random.below(3));
    match random.below(14) {
        12 => format!("select from {table} where a = {}", random.below(20)),
        0 | 1 => format!("create table {table} (a int primary key, b text default 'x')"),
        2 => format!("drop table {table}"),
        3 => format!("alter table {table} add {column} int check ({column} > 0)"),
        4 => format!("alter table {table} drop column {column}"),
        5 => format!("create index on {table} (b, a)"),
        6 => format!("comment on table {table} is 'comment {column}'"),
        7 => format!("insert into {table} (a) select generate_series(1, 20); analyze {table}"),
        8 => format!("alter table {table} rename to {writer}{}", random.below(3)),
        9 => format!("create schema {writer}_{column}"),
        10 => format!("drop schema {writer}_{column}"),
        11 => format!("grant select on {table} to {writer}_role"),
        _ => format!("create view {table}_v as select * from {table}"),
    }
}

#[test]
fn what_is_kept_of_catalogs_is_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    let activity = Activity::default();
    let join = |pid| Session::new(&db).join(&activity, Who { pid, ..Who::default() });
    let [mut block, mut plain, mut reader] = [1, 2, 3].map(join);
    for session in [&mut block, &mut plain] {
        told(session, "set lock_timeout = '10ms'");
    }
    told(&mut plain, "create role b_role; create role p_role");
    let mut random = Rng::from_seed(7);
    for step in 0..300 {
        match random.below(8) {
            0 => drop(told(&mut block, "begin")),
            1 => drop(told(&mut block, "commit")),
            2 => drop(told(&mut block, "rollback")),
            3 => drop(told(&mut block, "savepoint s")),
            4 => drop(told(&mut block, "rollback to s")),
            5 => drop(told(&mut block, &change(&mut random, "b"))),
            _ => drop(told(&mut plain, &change(&mut random, "p"))),
        }
        let asked = ASKED[random.below(ASKED.len() as u64) as usize];
        let fresh = told(&mut Session::new(&db), asked);
        assert_eq!(told(&mut reader, asked), fresh, "step {step}: {asked}");
    }
    told(&mut block, "rollback");
    drop((block, plain, reader));
    assert!(db.verify().unwrap().is_clean());
}

/// Rows of several relations take each other's memory, or have none.
#[test]
fn answers_are_the_same_where_memory_is_short() {
    for memory in [8 << 20, 12 << 20, 16 << 20] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::options().auto_vacuum(false).memory(memory).pool_pages(96);
        let db = db.open(dir.path()).unwrap();
        let mut session = Session::new(&db);
        for at in 0..150 {
            let table = format!("create table p{at} (a int primary key, b text default 'x')");
            told(&mut session, &format!("{table}; create index on p{at} (b); analyze p{at}"));
        }
        let first: Vec<String> = ASKED.iter().map(|asked| told(&mut session, asked)).collect();
        let mut random = Rng::from_seed(memory as u64);
        for step in 0..100 {
            let at = random.below(ASKED.len() as u64) as usize;
            let asked = ASKED[at];
            assert_eq!(told(&mut session, asked), first[at], "{memory}, step {step}: {asked}");
        }
        drop(session);
        assert!(db.verify().unwrap().is_clean());
    }
}

#[test]
fn sizes_are_those_of_now() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    told(&mut session, "create table t (a int primary key, b text)");
    let sizes = "select pg_relation_size('t') / 8192 = relpages, relpages > 1, \
                 pg_indexes_size('t') > 16384 from pg_class where relname = 't'";
    assert_eq!(told(&mut session, sizes), "t|f|f");
    told(&mut session, "insert into t select g, repeat('x', 100) from generate_series(1, 5000) g");
    assert_eq!(told(&mut session, sizes), "t|t|t");
}

/// Columns of catalogs that are compared with each other.
const COLUMNS: [&[(&str, &str)]; 3] = [
    &[
        ("pg_class", "oid"),
        ("pg_class", "relnamespace"),
        ("pg_class", "relam"),
        ("pg_attribute", "attrelid"),
        ("pg_index", "indrelid"),
        ("pg_index", "indexrelid"),
        ("pg_constraint", "conrelid"),
        ("pg_constraint", "conindid"),
        ("pg_namespace", "oid"),
        ("pg_attrdef", "adrelid"),
        ("pg_description", "objoid"),
        ("pg_depend", "refobjid"),
    ],
    &[
        ("pg_class", "relname"),
        ("pg_attribute", "attname"),
        ("pg_indexes", "tablename"),
        ("pg_indexes", "indexname"),
        ("pg_constraint", "conname"),
        ("information_schema.columns", "table_name"),
        ("information_schema.columns", "column_name"),
    ],
    &[
        ("pg_attribute", "attnum"),
        ("pg_attrdef", "adnum"),
        ("pg_description", "objsubid"),
        ("pg_class", "relnatts"),
        ("pg_class", "relpages"),
        ("information_schema.columns", "ordinal_position"),
    ],
];

fn picked<'l, T>(random: &mut Rng, list: &'l [T]) -> &'l T {
    &list[random.below(list.len() as u64) as usize]
}

/// A query that joins three catalogs.
fn joining(random: &mut Rng) -> String {
    let one = picked(random, &COLUMNS);
    let ((x, a), (y, b)) = (*picked(random, one), *picked(random, one));
    let other = picked(random, &COLUMNS);
    // The third is tied to the second by another column of it, if it has one of the kind.
    let of_second: Vec<_> = other.iter().filter(|(name, _)| *name == y).collect();
    let second = of_second.first().map_or(b, |(_, column)| *column);
    let kind = if of_second.is_empty() { one } else { other };
    let (z, c) = *picked(random, kind);
    let join = *picked(random, &["join", "left join", "right join", "full join"]);
    let cut = random.below(4);
    // What stands on the other side may be a query that asks the row, of which there are few.
    let is_small = ["pg_namespace", "pg_attrdef"].contains(&x);
    let value = match cut {
        0 if is_small && join == "left join" => {
            format!("(select min(q.{a}) from {x} q where q.{a} = x.{a})")
        }
        _ => format!("x.{a}"),
    };
    // Thousands of rows have no column and no page.
    let some = if one[0].1 == "attnum" { format!(" and y.{b} <> 0") } else { String::new() };
    let shown = format!("x.{a}::text || '/' || coalesce(y.{second}::text, '-')");
    let asked = match random.below(4) {
        0 => format!("where exists (select from {z} z where z.{c} = y.{second})"),
        1 => format!("where not exists (select from {z} z where z.{c} = y.{second})"),
        2 => format!("join {z} z on z.{c} = y.{second} and z.{c}::text <> '{cut}'"),
        _ => format!("left join {z} z on y.{second} = z.{c}"),
    };
    format!(
        "select count(*), string_agg(r, ',' order by r) from \
         (select {shown} as r from {x} x {join} {y} y on {value} = y.{b}{some} {asked}) as rows"
    )
}

#[test]
fn joins_of_catalogs_give_the_same_by_keys_and_by_hashes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    for name in ["one", "two", "three"] {
        told(
            &mut session,
            &format!(
                "create table {name} (id serial primary key, a int unique check (a > 0), \
                 b text default 'x'); create index on {name} (b, a); \
                 comment on table {name} is 't'; comment on column {name}.b is 'c'"
            ),
        );
    }
    let mut random = Rng::from_seed(11);
    let mut by_key = 0;
    for step in 0..150 {
        let query = joining(&mut random);
        let plan = session.execute(&format!("explain {query}")).unwrap();
        let lines = plan[0].rows.iter().filter_map(|row| row[0].to_text());
        by_key += usize::from(lines.into_iter().any(|line| line.contains("Keyed")));
        let found = told(&mut session, &query);
        for others in ["enable_nestloop", "enable_hashjoin"] {
            told(&mut session, &format!("set {others} = off"));
            assert_eq!(told(&mut session, &query), found, "step {step}, {others} off: {query}");
            told(&mut session, &format!("reset {others}"));
        }
    }
    assert!(by_key > 20, "{by_key} of the joins find rows by keys");
}

/// Values of columns that are compared in `COLUMNS`, with one that no row has and a null.
fn values(random: &mut Rng, kind: usize) -> String {
    let of_kind: &[&str] = match kind {
        0 => &["'one'::regclass::oid", "'two'::regclass::oid", "2200", "11", "403", "7", "null"],
        1 => &["'one'", "'three_a_key'", "'id'", "'b'", "'pg_class'", "'nothing'", "null"],
        _ => &["1", "2", "-1", "0", "9999", "null"],
    };
    (*picked(random, of_kind)).to_owned()
}

/// A condition that says the values of a column.
fn saying(random: &mut Rng, kind: usize, column: &str, others: &[&str]) -> String {
    let ty = ["oid", "text", "int"][kind];
    let list: Vec<String> = (0..=random.below(3)).map(|_| values(random, kind)).collect();
    let (first, list) = (list[0].clone(), list.join(", "));
    let name = first.trim_matches('\'');
    match random.below(10) {
        0 => format!("{column} = {first}"),
        1 if kind == 1 => format!("{column} ~ '^({name})$' collate pg_catalog.default"),
        2 if kind == 1 => format!("{column} ~ '^{name}{}'", picked(random, &["$", "", "?$"])),
        3 if kind == 1 => format!("{column} like '{name}{}'", picked(random, &["", "%", "_"])),
        1..4 => format!("{column} in ({list})"),
        4 => format!("{column} = any (array[{list}]::{ty}[])"),
        5 => format!("{column} = (select max(v::{ty}) from unnest(array[{list}]::{ty}[]) v)"),
        6 => format!("{column} = (select {first}::{ty} where {first} is not null)"),
        7 => format!("({column} = {first} or {column} in ({list}))"),
        _ => {
            let other = picked(random, others);
            let other = format!("{other}::text > 'm'");
            format!("({column} = {first} and {other} or {column} = any (array[{list}]::{ty}[]))")
        }
    }
}

/// Conditions on a relation against the same on its rows behind a fence, which no key goes through.
#[test]
fn rows_of_catalogs_are_the_same_by_keys_and_by_conditions() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    for name in ["one", "two", "three"] {
        let table = "(id serial primary key, a int unique check (a > 0), b text default 'x')";
        told(&mut session, &format!("create table {name} {table}; create index on {name} (b, a)"));
        told(&mut session, &format!("comment on column {name}.b is 'c'"));
    }
    let mut random = Rng::from_seed(19);
    let mut by_key = 0;
    for step in 0..400 {
        let kind = random.below(3) as usize;
        let (relation, column) = *picked(&mut random, COLUMNS[kind]);
        let of_relation = COLUMNS.iter().copied().flatten().filter(|(name, _)| *name == relation);
        let others: Vec<&str> = of_relation.map(|(_, column)| *column).collect();
        let mut conditions = vec![saying(&mut random, kind, column, &others)];
        if random.below(3) == 0 {
            conditions.push(saying(&mut random, kind, column, &others));
        }
        let conditions = conditions.join(" and ");
        let of = |rows: &str| {
            format!(
                "select count(*), string_agg(r, ',' order by r) from \
                 (select {}::text as r from {rows} x where {conditions}) as rows",
                others.join("::text || '/' || ")
            )
        };
        let query = of(relation);
        let plan = session.execute(&format!("explain {query}")).unwrap();
        let lines = plan[0].rows.iter().filter_map(|row| row[0].to_text());
        by_key += usize::from(lines.into_iter().any(|line| line.contains("Keyed Scan")));
        let slow = of(&format!("(select * from {relation} offset 0)"));
        let found = told(&mut session, &query);
        assert!(found.contains('|'), "step {step}: {found} of {query}");
        assert_eq!(found, told(&mut session, &slow), "step {step}: {query}");
    }
    assert!(by_key > 200, "{by_key} of the queries find rows by keys");
}
