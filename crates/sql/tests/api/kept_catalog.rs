//! What sessions keep of catalogs against what a session reads that keeps nothing yet.

use rightlink::Database;
use rightlink_env::Rng;
use rightlink_sql::{Activity, Session, Who};

use crate::meeting::told;

const ASKED: [&str; 7] = [
    "select string_agg(relname || relkind::text || relnatts || relchecks, ',' order by oid) \
     from pg_class where oid >= 16384",
    "select string_agg(attrelid::regclass || attname || atttypid, ',' order by attrelid, attnum) \
     from pg_attribute where attrelid >= 16384",
    "select string_agg(pg_get_indexdef(indexrelid), ',' order by indexrelid) from pg_index",
    "select string_agg(objoid || description, ',' order by objoid, objsubid) from pg_description \
     where objoid >= 16384",
    "select string_agg(tablename || attname || n_distinct, ',' order by tablename, attname) \
     from pg_stats",
    "select string_agg(reltuples || relname || coalesce(relacl::text, ''), ',' order by oid) \
     from pg_class where oid >= 16384",
    "select string_agg(nspname || coalesce(rolname, ''), ',' order by nspname) \
     from pg_namespace left join pg_roles on pg_roles.oid = nspowner",
];

/// A statement about a table of a writer.
fn change(random: &mut Rng, writer: &str) -> String {
    let table = format!("{writer}{}", random.below(3));
    let column = format!("c{}", random.below(3));
    match random.below(13) {
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
