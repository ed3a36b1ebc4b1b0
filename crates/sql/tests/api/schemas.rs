//! Schemas between sessions: kept plans along changing paths, rollbacks, a schema that goes while
//! something comes into it.

use crate::asked::{one, open};
use rightlink::Database;
use rightlink_env::thread::spawn;
use rightlink_sql::Session;

fn code(session: &mut Session, sql: &str) -> &'static str {
    session.execute(sql).map_or_else(|error| error.sqlstate, |_| "00000")
}

fn session(db: &Database, setup: &[&str]) -> Session {
    let mut session = Session::new(db);
    setup.iter().for_each(|sql| drop(session.execute(sql).unwrap()));
    session
}

#[test]
fn a_kept_plan_is_of_its_path() {
    let (_dir, db) = open();
    let mut session = session(
        &db,
        &[
            "create schema a",
            "create schema b",
            "create table a.t (n int)",
            "create table b.t (n int)",
            "insert into a.t values (1)",
            "insert into b.t values (2)",
            "set search_path to a, b",
            "prepare p as select n from t",
        ],
    );
    for (path, expected) in [("a, b", "1"), ("b, a", "2"), ("a", "1")] {
        session.execute(&format!("set search_path to {path}")).unwrap();
        for _ in 0..3 {
            assert_eq!(one(&mut session, "select n from t"), expected);
            assert_eq!(one(&mut session, &format!("select n from t where n < {}", 9)), expected);
            assert_eq!(one(&mut session, "execute p"), expected);
        }
    }
    // A table that comes to stand before the one that was found.
    session.execute("create table a.u (n int)").unwrap();
    session.execute("insert into a.u values (3)").unwrap();
    session.execute("set search_path to b, a").unwrap();
    for _ in 0..3 {
        assert_eq!(one(&mut session, "select n from u"), "3");
    }
    Session::new(&db).execute("create table b.u (n int)").unwrap();
    assert_eq!(one(&mut session, "select count(*) from u"), "0");
    session.execute("insert into u values (4)").unwrap();
    assert_eq!(one(&mut session, "select n from u"), "4");
    session.execute("drop table u").unwrap();
    assert_eq!(one(&mut session, "select n from u"), "3");
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn a_path_is_undone_with_its_transaction() {
    let (_dir, db) = open();
    let mut session = session(&db, &["create schema a", "create table a.t (n int)"]);
    session.execute("begin").unwrap();
    session.execute("set search_path to a").unwrap();
    session.execute("select * from t").unwrap();
    session.execute("rollback").unwrap();
    assert_eq!(code(&mut session, "select * from t"), "42P01");
    session.execute("begin").unwrap();
    session.execute("set local search_path to a").unwrap();
    session.execute("select * from t").unwrap();
    session.execute("commit").unwrap();
    assert_eq!(code(&mut session, "select * from t"), "42P01");
    assert_eq!(one(&mut session, "show search_path"), "\"$user\", public");
    session.set_option("search_path", "a,public").unwrap();
    session.execute("select * from t").unwrap();
}

/// What is shown of names that were asked for.
#[test]
fn messages_name_things_as_clients_do() {
    let (_dir, db) = open();
    let mut session = session(
        &db,
        &[
            "create schema s",
            "create table s.p (id int primary key)",
            "create table s.c (p int not null references s.p)",
        ],
    );
    let mut said = |sql: &str| {
        let error = session.execute(sql).unwrap_err();
        format!("{}|{}", error.message, error.detail.unwrap_or_default())
    };
    assert_eq!(said("select * from s.nothing"), "relation \"s.nothing\" does not exist|");
    assert_eq!(said("create table s.p (a int)"), "relation \"p\" already exists|");
    assert_eq!(
        said("insert into s.c values (1)"),
        "insert or update on table \"c\" violates foreign key constraint \"c_p_fkey\"|Key \
         (p)=(1) is not present in table \"p\"."
    );
    assert_eq!(
        said("insert into s.p values (1), (1)"),
        "duplicate key value violates unique constraint \"p_pkey\"|Key (id)=(1) already exists."
    );
    assert_eq!(
        said("drop schema s"),
        "cannot drop schema s because other objects depend on it|table s.c depends on schema \
         s\ntable s.p depends on schema s"
    );
    assert_eq!(
        said("set search_path to s; drop table nothing"),
        "table \"nothing\" does not exist|"
    );
}

#[test]
fn nothing_is_left_in_a_schema_that_goes() {
    let (_dir, db) = open();
    let mut maker = session(&db, &["create schema s", "begin", "create table s.t (a int)"]);
    // Whoever drops the schema waits for the table that comes, and then sees it.
    let other = db.clone();
    let dropper = spawn("dropper", move || {
        let mut dropper = Session::new(&other);
        code(&mut dropper, "drop schema s")
    });
    while !db.locks().iter().any(|lock| !lock.granted) {
        rightlink_env::thread::sleep(std::time::Duration::from_millis(1));
    }
    maker.execute("commit").unwrap();
    assert_eq!(dropper.join().unwrap(), "2BP01");
    // And whoever makes a table waits for the schema that goes.
    let mut dropper = session(&db, &["begin", "drop schema s cascade"]);
    let other = db.clone();
    let maker = spawn("maker", move || {
        let mut maker = Session::new(&other);
        code(&mut maker, "create table s.u (a int)")
    });
    while !db.locks().iter().any(|lock| !lock.granted) {
        rightlink_env::thread::sleep(std::time::Duration::from_millis(1));
    }
    dropper.execute("commit").unwrap();
    assert_eq!(maker.join().unwrap(), "3F000");
    assert_eq!(db.tables().unwrap().len(), 0);
    assert!(db.verify().unwrap().is_clean());
}

/// What `psql` asks for `\d s.t`, `\d` and `\dn`.
#[test]
fn psql_sees_schemas() {
    let (_dir, db) = open();
    let mut session =
        session(&db, &["create schema s", "create table s.t (a int)", "create table t (a int)"]);
    let rows = |session: &mut Session, sql: &str| -> Vec<String> {
        let rows = session.execute(sql).unwrap().remove(0).rows;
        let field = |datum: &rightlink_sql::Datum| datum.to_text().unwrap_or_default();
        rows.iter().map(|row| row.iter().map(field).collect::<Vec<_>>().join("|")).collect()
    };
    let of = |more: &str| {
        format!(
            "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c LEFT JOIN \
             pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r','') \
             {more} ORDER BY 1, 2"
        )
    };
    let named = "AND c.relname OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default";
    let schema = "AND n.nspname OPERATOR(pg_catalog.~) '^(s)$' COLLATE pg_catalog.default";
    assert_eq!(rows(&mut session, &of(&format!("{named} {schema}"))), ["s|t"]);
    let visible = "AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast' \
                   AND n.nspname <> 'information_schema' \
                   AND pg_catalog.pg_table_is_visible(c.oid)";
    assert_eq!(rows(&mut session, &of(visible)), ["public|t"]);
    session.execute("set search_path to s, public").unwrap();
    assert_eq!(rows(&mut session, &of(visible)), ["s|t"]);
    let schemas = "SELECT n.nspname AS \"Name\" FROM pg_catalog.pg_namespace n WHERE n.nspname !~ \
                   '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1";
    assert_eq!(rows(&mut session, schemas), ["public", "s"]);
}
