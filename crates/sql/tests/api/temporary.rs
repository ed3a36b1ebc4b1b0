//! Temporary tables: who sees them, and when they go.

use rightlink::{Database, TableSchema, Type};
use rightlink_sql::{SEPARATOR, Session};

use crate::meeting::told;

fn open() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    (dir, db)
}

const COUNT: &str = "select count(*) from pg_class where relpersistence = 't'";

#[test]
fn a_temporary_table_is_its_sessions_own_and_goes_with_it() {
    let (_dir, db) = open();
    let [mut one, mut two, mut observer] = [(); 3].map(|()| Session::new(&db));
    told(&mut one, "create temp table x (a int); insert into x values (1)");
    told(&mut two, "create temp table x (a int); insert into x values (2), (3)");
    assert_eq!(told(&mut one, "select count(*) from x"), "1");
    assert_eq!(told(&mut two, "select count(*) from x"), "2");
    assert_eq!(told(&mut observer, "select count(*) from x"), "42P01");
    assert_eq!(told(&mut observer, COUNT), "2");
    let schema = "select min(nspname) from pg_namespace where nspname like 'pg_temp%'";
    let schema = told(&mut one, schema);
    assert_eq!(told(&mut observer, &format!("select * from {schema}.x")), "0A000");
    assert_eq!(told(&mut observer, &format!("drop table {schema}.x")), "0A000");
    drop(one);
    assert_eq!(told(&mut observer, COUNT), "1");
    // In the middle of a transaction, whose changes go too.
    told(&mut observer, "create table kept (a int)");
    told(&mut two, "begin; create temp table y (a int); insert into kept values (1)");
    drop(two);
    assert_eq!(told(&mut observer, COUNT), "0");
    assert_eq!(told(&mut observer, "select count(*) from kept"), "0");
    assert!(db.verify().unwrap().is_clean());
}

/// A table behind which another one comes to stand, and goes again.
#[test]
fn plans_follow_what_a_name_means() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    told(&mut session, "create table t (a int); insert into t values (1)");
    told(&mut session, "create temp table other (a int)");
    let count = "select count(*) from t";
    let counts = |session: &mut Session| {
        [told(session, count), told(session, count), told(session, "execute q")]
    };
    told(&mut session, "prepare q as select count(*) from t");
    assert_eq!(counts(&mut session), ["1", "1", "1"]);
    told(&mut session, "create temp table t (a int)");
    assert_eq!(counts(&mut session), ["0", "0", "0"]);
    told(&mut session, "begin; drop table t");
    assert_eq!(counts(&mut session), ["1", "1", "1"]);
    told(&mut session, "rollback");
    assert_eq!(counts(&mut session), ["0", "0", "0"]);
    told(&mut session, "alter table pg_temp.t rename to u");
    assert_eq!(counts(&mut session), ["1", "1", "1"]);
    told(&mut session, "alter table u rename to t");
    assert_eq!(counts(&mut session), ["0", "0", "0"]);
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn what_a_crash_leaves_behind_goes_when_a_server_begins() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    told(&mut session, "create temp table own (a int)");
    // As a process leaves it that ended all at once: the mark of the schema, and a table in it.
    let mut txn = db.begin();
    for name in ["", "t"] {
        let name = format!("pg_temp_7777{SEPARATOR}{name}");
        txn.create_table(&TableSchema::new(name).nullable("a", Type::Bool)).unwrap();
    }
    txn.commit().unwrap();
    assert_eq!(told(&mut session, COUNT), "2");
    Session::drop_orphaned_tables(&db).unwrap();
    assert_eq!(told(&mut session, COUNT), "1");
    assert_eq!(told(&mut session, "select count(*) from own"), "0");
    assert!(db.verify().unwrap().is_clean());
}
