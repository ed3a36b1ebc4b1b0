//! Roles: what each may do, as sessions of several users see it.

use rightlink::Database;
use rightlink_sql::{Activity, Session, Who};

use crate::meeting::told;

fn open() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    (dir, db)
}

/// A session of this user.
fn session(db: &Database, activity: &Activity, pid: u32, user: &str) -> Session {
    let who = Who { pid, user: user.to_owned(), ..Who::default() };
    let mut session = Session::new(db).join(activity, who);
    session.log_in().unwrap();
    session
}

/// Runs statements that have to succeed.
fn run(session: &mut Session, sql: &str) {
    session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

/// A database with a role that may log in, and a session of it beside one of the owner.
fn with_ann(db: &Database) -> (Session, Session) {
    let activity = Activity::default();
    let mut owner = Session::new(db);
    run(&mut owner, "create role ann login; create table t (a int, b int)");
    run(&mut owner, "insert into t values (1, 2)");
    let ann = session(db, &activity, 7, "ann");
    (owner, ann)
}

/// A plan that is kept, a statement that was prepared and a cursor know at once what was given and
/// taken away.
#[test]
fn plans_that_are_kept_know_what_was_revoked() {
    let (_dir, db) = open();
    let (mut owner, mut ann) = with_ann(&db);
    let sql = "select a from t";
    assert_eq!(told(&mut ann, sql), "42501");
    for _ in 0..2 {
        run(&mut owner, "grant select on t to ann");
        assert_eq!(told(&mut ann, sql), "1");
        assert_eq!(told(&mut ann, sql), "1", "by the plan that was kept");
        run(&mut ann, "prepare p as select b from t");
        assert_eq!(told(&mut ann, "execute p"), "2");
        run(&mut owner, "revoke select on t from ann");
        assert_eq!(told(&mut ann, sql), "42501");
        assert_eq!(told(&mut ann, "execute p"), "42501");
        run(&mut ann, "deallocate p");
    }
    // In a transaction that others do not see yet.
    run(&mut owner, "begin; grant select on t to ann");
    assert_eq!(told(&mut ann, sql), "42501");
    run(&mut owner, "rollback");
    assert_eq!(told(&mut ann, sql), "42501");
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn a_role_does_what_its_own_objects_and_its_privileges_allow() {
    let (_dir, db) = open();
    let (mut owner, mut ann) = with_ann(&db);
    for sql in [
        "insert into t values (1)",
        "update t set a = 1",
        "delete from t",
        "truncate t",
        "copy t from stdin",
        "drop table t",
        "alter table t add column c int",
        "create index on t (a)",
        "comment on table t is 'x'",
        "create table u (a int)",
        "create schema s",
        "create role bob",
        "alter role rightlink nosuperuser",
        "set role rightlink",
        "set session authorization rightlink",
        "checkpoint",
        "select count(*) from pg_authid",
    ] {
        assert_eq!(told(&mut ann, sql), "42501", "{sql}");
    }
    run(&mut ann, "begin");
    assert_eq!(told(&mut ann, "lock table t"), "42501");
    run(&mut ann, "rollback");
    run(&mut owner, "create schema s authorization ann; grant update on t to ann");
    assert_eq!(told(&mut ann, "update t set b = 5"), "");
    assert_eq!(told(&mut ann, "update t set b = a"), "42501", "it reads");
    assert_eq!(told(&mut ann, "update t set b = 1 returning a"), "42501", "it reads");
    run(
        &mut ann,
        "create table s.u (a serial, b int); insert into s.u (b) values (1); \
         create view s.v as select * from s.u; create sequence s.q; \
         create type s.mood as enum ('sad'); alter table s.u add c s.mood; \
         create temporary table tmp (a int); insert into tmp values (1)",
    );
    assert_eq!(told(&mut ann, "select nextval('s.q') + nextval('s.u_a_seq')"), "3");
    let owners = "select string_agg(relname, ' ' order by relname) from pg_class \
                  where pg_get_userbyid(relowner) = 'ann' and relnamespace = 's'::regnamespace";
    assert_eq!(told(&mut owner, owners), "q u u_a_seq v");
    // What somebody owns keeps a role.
    let error = owner.execute("drop role ann").unwrap_err();
    assert_eq!(error.sqlstate, "2BP01");
    let detail = error.detail.unwrap();
    for line in
        ["owner of schema s", "owner of table u", "owner of view v", "privileges for table t"]
    {
        assert!(detail.contains(line), "{detail}");
    }
    drop(ann);
    run(&mut owner, "drop owned by ann cascade; drop role ann");
    assert_eq!(told(&mut owner, "select relacl::text from pg_class where relname = 't'"), {
        "{rightlink=arwdDxt/rightlink}"
    });
    assert_eq!(told(&mut owner, "select count(*) from pg_namespace where nspname = 's'"), "0");
    assert!(db.verify().unwrap().is_clean());
}

/// A view gives what its owner may see, to those who may see the view; also where the owner of the
/// database asks.
#[test]
fn a_view_reads_as_its_owner() {
    let (_dir, db) = open();
    let (mut owner, mut ann) = with_ann(&db);
    run(&mut owner, "create view v as select a from t; grant select, update on v to ann");
    assert_eq!(told(&mut ann, "select * from v"), "1");
    assert_eq!(told(&mut ann, "update v set a = 7"), "");
    run(&mut owner, "create role bob; alter view v owner to bob");
    assert_eq!(told(&mut ann, "select * from v"), "42501");
    assert_eq!(told(&mut owner, "select * from v"), "42501");
    run(&mut owner, "grant select on t to bob");
    assert_eq!(told(&mut ann, "select * from v"), "7");
    assert_eq!(told(&mut ann, "update v set a = 8"), "42501");
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn a_session_runs_as_one_role_or_another() {
    let (_dir, db) = open();
    let (mut owner, mut ann) = with_ann(&db);
    run(&mut owner, "create role staff; grant staff to ann; grant select on t to staff");
    let who = "select current_user || ' ' || session_user";
    assert_eq!(told(&mut ann, who), "ann ann");
    assert_eq!(told(&mut ann, "select a from t"), "1", "it inherits");
    run(&mut owner, "alter role ann noinherit");
    assert_eq!(told(&mut ann, "select a from t"), "42501");
    run(&mut ann, "begin; set role staff");
    assert_eq!(told(&mut ann, who), "staff ann");
    assert_eq!(told(&mut ann, "select a from t"), "1");
    run(&mut ann, "rollback");
    assert_eq!(told(&mut ann, who), "ann ann");
    run(&mut ann, "set role staff");
    run(&mut ann, "reset all");
    assert_eq!(told(&mut ann, "show role"), "staff");
    run(&mut ann, "set role none");
    run(&mut owner, "set session authorization ann");
    assert_eq!(told(&mut owner, who), "ann ann");
    assert_eq!(told(&mut owner, "select a from t"), "42501");
    assert_eq!(told(&mut owner, "show is_superuser"), "off");
    run(&mut owner, "reset session authorization");
    assert_eq!(told(&mut owner, "show is_superuser"), "on");
    // A role that is gone may do nothing.
    run(&mut owner, "drop role ann");
    assert_eq!(told(&mut ann, "select 1"), "1");
    assert_eq!(told(&mut ann, "select a from t"), "42704");
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn who_may_log_in_is_what_roles_say() {
    let (_dir, db) = open();
    let mut owner = Session::new(&db);
    run(
        &mut owner,
        "create role group_only; create user ann password 'secret' connection limit 1; \
         alter role ann set search_path = 's'; create user old valid until '2000-01-01' \
         password 'x'",
    );
    let activity = Activity::default();
    let log_in = |user: &str, pid| {
        let who = Who { pid, user: user.to_owned(), ..Who::default() };
        let mut session = Session::new(&db).join(&activity, who);
        session.log_in().map(|()| session).map_err(|error| error.sqlstate)
    };
    assert_eq!(log_in("group_only", 1).err(), Some("28000"));
    let mut first = log_in("ann", 2).unwrap();
    assert_eq!(told(&mut first, "show search_path"), "s");
    assert_eq!(log_in("ann", 3).err(), Some("53300"));
    drop(first);
    run(&mut owner, "revoke connect on database rightlink from public");
    assert_eq!(log_in("ann", 4).err(), Some("42501"));
    assert!(log_in("nobody_said_so", 5).is_ok());
    let password = |name: &str| rightlink_sql::role_password(&db, name).unwrap();
    assert!(password("ann").unwrap().starts_with("SCRAM-SHA-256$4096:"));
    assert_eq!([password("old"), password("group_only"), password("x")], [None, None, None]);
    run(&mut owner, "alter role ann password null");
    assert_eq!(password("ann"), None);
    assert!(db.verify().unwrap().is_clean());
}

/// Roles, owners and privileges outlive the process.
#[test]
fn roles_are_there_when_the_database_is_opened_again() {
    let (dir, db) = open();
    let (mut owner, ann) = with_ann(&db);
    drop(ann);
    run(&mut owner, "create schema s authorization ann; grant insert on t to ann");
    run(&mut owner, "alter default privileges grant select on tables to ann");
    drop(owner);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut owner = Session::new(&db);
    run(&mut owner, "create table later (a int)");
    let mut ann = session(&db, &Activity::default(), 9, "ann");
    run(&mut ann, "insert into t values (1); create table s.u (a int); select * from later");
    assert_eq!(told(&mut ann, "select * from t"), "42501");
    run(&mut owner, "create role bob; grant ann to bob");
    let number = "select rolname from pg_roles where oid = 'ann'::regrole";
    assert_eq!(told(&mut owner, number), "ann");
    assert!(db.verify().unwrap().is_clean());
}
