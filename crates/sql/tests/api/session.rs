//! What a server asks of a session: prepared statements with inferred parameters, portals with row
//! limits, two sessions at once, kept plans when tables change.

use crate::asked::{one, open};
use crate::gather::Gather;
use rightlink::{Database, IndexSchema, Predicate, Value};
use rightlink_env::thread::spawn;
use rightlink_sql::{
    Activity, Column, Datum, Execution, Row, Session, SqlType, TransactionStatus, Who,
};

#[test]
fn types_of_parameters_are_inferred() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a bigint primary key, b text, c float4)").unwrap();
    let mut types = |sql: &str| session.prepare("", sql, &[]).map(|d| d.parameters);
    use SqlType as T;
    assert_eq!(types("select * from t where a = $1 and b like $2").unwrap(), [T::Int8, T::Text]);
    assert_eq!(types("insert into t values ($1, $2, $3)").unwrap(), [T::Int8, T::Text, T::Float4]);
    assert_eq!(
        types("update t set c = c + $1 where a in ($2, $3)").unwrap(),
        [T::Float4, T::Int8, T::Int8]
    );
    assert_eq!(types("select $1::date + $2").unwrap_err().sqlstate, "42725");
    assert_eq!(types("select a from t limit $1").unwrap(), [T::Int8]);
    assert_eq!(types("select $2::int").unwrap_err().sqlstate, "42P18");
    let columns = session.prepare("n", "select a, b as x from t", &[]).unwrap().columns.unwrap();
    assert_eq!(columns[1], Column::new("x", T::Text));
    assert_eq!(session.prepare("n", "select 1", &[]).unwrap_err().sqlstate, "42P05");
}

#[test]
fn a_portal_hands_out_rows_in_portions() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int primary key)").unwrap();
    session.execute("insert into t select g from generate_series(1, 10) g").unwrap();
    session.prepare("s", "select a from t where a > $1 order by a", &[]).unwrap();
    session.bind("p", "s", vec![Datum::Int8(3)]).unwrap();
    let mut sink = Gather::default();
    assert_eq!(session.execute_portal("p", 4, &mut sink).unwrap(), Execution::Suspended);
    assert_eq!(sink.rows.len(), 4);
    // Another writer does not disturb it.
    Session::new(&db).execute("delete from t").unwrap();
    let done = session.execute_portal("p", 0, &mut sink).unwrap();
    assert_eq!((done, sink.rows.len()), (Execution::Complete("SELECT 3".into()), 7));
    session.sync().unwrap();
    assert_eq!(session.execute_portal("p", 0, &mut sink).unwrap_err().sqlstate, "34000");
    session.bind("", "s", Vec::new()).unwrap_err();
    session.bind("", "s", vec![Datum::Null]).unwrap();
    let mut sink = Gather::default();
    assert_eq!(
        session.execute_portal("", 0, &mut sink).unwrap(),
        Execution::Complete("SELECT 0".into())
    );
    session.sync().unwrap();
    assert_eq!(session.status(), TransactionStatus::Idle);
}

#[test]
fn a_kept_plan_follows_its_table() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int, b int)").unwrap();
    session.execute("insert into t select g, g % 10 from generate_series(1, 5000) g").unwrap();
    session.execute("prepare p as select count(*) from t where b = 3").unwrap();
    session.execute("prepare all_of as select * from t limit 1").unwrap();
    for _ in 0..2 {
        assert_eq!(one(&mut session, "execute p"), "500");
        assert_eq!(one(&mut session, "select count(*) from t where b = 3"), "500");
    }
    let mut other = Session::new(&db);
    other.execute("create index t_b on t (b)").unwrap();
    assert_eq!(one(&mut session, "execute p"), "500");
    assert_eq!(one(&mut session, "select count(*) from t where b = 3"), "500");
    other.execute("drop index t_b").unwrap();
    other.execute("alter table t add column c int").unwrap();
    assert_eq!(one(&mut session, "execute p"), "500");
    let error = session.execute("execute all_of").unwrap_err();
    assert_eq!(
        (error.sqlstate, error.message.as_str()),
        ("0A000", "cached plan must not change result type")
    );
    other.execute("drop table t").unwrap();
    assert_eq!(
        session.execute("select count(*) from t where b = 3").unwrap_err().sqlstate,
        "42P01"
    );
    assert!(db.verify().unwrap().is_clean());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a rival in a thread of its own, in a test")]
fn read_committed_judges_a_changed_row_again() {
    let (_dir, db) = open();
    let mut first = Session::new(&db);
    first.execute("create table t (a int primary key, b int)").unwrap();
    first.execute("insert into t values (1, 10), (2, 20)").unwrap();
    first.execute("begin; update t set b = b + 1 where a = 1").unwrap();
    let waiting = {
        let db = db.clone();
        std::thread::spawn(move || {
            let mut second = Session::new(&db);
            let added = second.execute("update t set b = b + 100 where a = 1 returning b");
            let skipped = second.execute("delete from t where b = 20");
            (added.map(|o| o[0].rows.clone()), skipped.map(|o| o[0].tag.clone()))
        })
    };
    std::thread::sleep(std::time::Duration::from_millis(200));
    first.execute("update t set b = 21 where a = 2").unwrap();
    first.execute("commit").unwrap();
    let (added, skipped) = waiting.join().unwrap();
    assert_eq!(added.unwrap(), [[Datum::Int4(111)]], "no update is lost");
    assert_eq!(skipped.unwrap(), "DELETE 0", "the row is not 20 any more");
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn repeatable_read_gives_up_on_a_changed_row() {
    let (_dir, db) = open();
    let (mut first, mut second) = (Session::new(&db), Session::new(&db));
    first
        .execute("create table t (a int primary key, b int); insert into t values (1, 1)")
        .unwrap();
    first.execute("begin isolation level repeatable read").unwrap();
    assert_eq!(one(&mut first, "select b from t"), "1");
    second.execute("update t set b = 2").unwrap();
    assert_eq!(one(&mut first, "select b from t"), "1");
    let error = first.execute("update t set b = 3").unwrap_err();
    assert_eq!(error.sqlstate, "40001");
    assert!(error.is_retryable());
    assert_eq!(first.status(), TransactionStatus::Failed);
    assert_eq!(first.execute("commit").unwrap()[0].tag, "ROLLBACK");
    assert_eq!(one(&mut first, "select b from t"), "2");
}

#[test]
fn a_lock_is_waited_for_no_longer_than_said() {
    let (_dir, db) = open();
    let (mut first, mut second) = (Session::new(&db), Session::new(&db));
    first.execute("create table t (a int primary key); insert into t values (1)").unwrap();
    first.execute("begin; select * from t for update").unwrap();
    second.execute("set lock_timeout = '50ms'").unwrap();
    assert_eq!(second.execute("delete from t").unwrap_err().sqlstate, "55P03");
    first.execute("rollback").unwrap();
    assert_eq!(second.execute("delete from t").unwrap()[0].tag, "DELETE 1");
}

#[test]
fn rows_are_shared_and_let_go_with_a_savepoint() {
    let (_dir, db) = open();
    let (mut first, mut second) = (Session::new(&db), Session::new(&db));
    first.execute("create table t (a int primary key); insert into t values (1), (2)").unwrap();
    let share = "begin; select * from t where a = 1 for share";
    first.execute(share).unwrap();
    second.execute(share).unwrap();
    first.execute("savepoint s; select * from t where a = 2 for share; rollback to s").unwrap();
    assert_eq!(one(&mut second, "select a from t for update skip locked"), "2");
    second.execute("commit").unwrap();
    second.execute("set lock_timeout = '50ms'").unwrap();
    let refused = second.execute("select a from t where a = 1 for no key update nowait");
    assert_eq!(refused.unwrap_err().sqlstate, "55P03");
    assert_eq!(second.execute("update t set a = 3 where a = 1").unwrap_err().sqlstate, "55P03");
    first.execute("commit").unwrap();
    assert_eq!(second.execute("update t set a = 3 where a = 1").unwrap()[0].tag, "UPDATE 1");
}

#[test]
fn locks_that_leave_keys_alone_go_together_with_those_of_keys() {
    let (_dir, db) = open();
    let (mut first, mut second) = (Session::new(&db), Session::new(&db));
    first.execute("create table t (a int primary key, n int)").unwrap();
    first.execute("insert into t values (1, 0)").unwrap();
    second.execute("set lock_timeout = '20ms'").unwrap();
    let code = |session: &mut Session, sql: &str| session.execute(sql).map_err(|e| e.sqlstate);
    for (held, fit, apart) in [
        ("key share", ["no key update", "share", "key share of t"], ["update", "update of t"]),
        ("no key update of t", ["key share"; 3], ["share", "no key update"]),
        ("share", ["share", "key share of t", "key share"], ["no key update of t", "update"]),
    ] {
        first.execute(&format!("begin; select n from t for {held}")).unwrap();
        for lock in fit {
            code(&mut second, &format!("select n from t for {lock} nowait")).unwrap();
        }
        for lock in apart {
            let sql = format!("select n from t for {lock} nowait");
            assert_eq!(code(&mut second, &sql), Err("55P03"), "{held}, {lock}");
        }
        assert_eq!(code(&mut second, "delete from t"), Err("55P03"), "{held}");
        first.execute("rollback").unwrap();
    }
    let grouped = second.execute("select count(*) from t for key share").unwrap_err();
    assert!(grouped.message.starts_with("FOR KEY SHARE is not allowed"), "{grouped}");
}

#[test]
fn rows_that_refer_to_the_same_row_do_not_wait_for_each_other() {
    let (_dir, db) = open();
    let mut sessions: Vec<Session> = (0..4).map(|_| Session::new(&db)).collect();
    sessions[0].execute("create table p (a int primary key, n int)").unwrap();
    sessions[0].execute("create table c (id int primary key, a int references p)").unwrap();
    sessions[0].execute("insert into p values (1, 0)").unwrap();
    for session in &mut sessions {
        session.execute("set lock_timeout = '100ms'").unwrap();
    }
    for (id, session) in sessions[..2].iter_mut().enumerate() {
        session.execute(&format!("begin; insert into c values ({id}, 1)")).unwrap();
    }
    // Other columns of the parent may change, the row and its key may not.
    assert_eq!(sessions[2].execute("update p set n = n + 1").unwrap()[0].tag, "UPDATE 1");
    for gone in ["delete from p", "update p set a = 2", "select * from p for share; delete from p"]
    {
        assert_eq!(sessions[2].execute(gone).unwrap_err().sqlstate, "55P03", "{gone}");
    }
    // A change that is undone leaves the row to those who referred to it before.
    sessions[0].execute("savepoint s; update p set n = 7; rollback to s").unwrap();
    sessions[1].execute("rollback").unwrap();
    assert_eq!(sessions[3].execute("delete from p").unwrap_err().sqlstate, "55P03");
    sessions[0].execute("commit").unwrap();
    assert_eq!(sessions[3].execute("delete from p").unwrap_err().sqlstate, "23503");
    assert_eq!(one(&mut sessions[3], "select n from p"), "1");
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn a_statement_that_takes_too_long_is_ended() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int)").unwrap();
    session.execute("insert into t select g from generate_series(1, 200000) g").unwrap();
    session.execute("set statement_timeout = 1").unwrap();
    let error = session.execute("select count(*) from t where md5(a::text) = 'x'").unwrap_err();
    assert_eq!(error.sqlstate, "57014");
    session.execute("set statement_timeout = 0").unwrap();
    assert_eq!(one(&mut session, "select count(*) from t"), "200000");
}

/// Whatever a statement does with the rows that it goes through.
#[test]
fn changes_and_locks_that_take_too_long_are_ended() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a int); create table u (a int primary key)").unwrap();
    session.execute("insert into t select g from generate_series(1, 100000) g").unwrap();
    for sql in [
        "update t set a = 0 where md5(a::text) = 'x'",
        "delete from t where md5(a::text) = 'x'",
        "select a from t where md5(a::text) = 'x' for update",
        "select a from t where md5(a::text) <> 'x' order by a for share",
    ] {
        session.execute("set statement_timeout = 1").unwrap();
        let error = session.execute(sql).unwrap_err();
        assert_eq!(error.sqlstate, "57014", "{sql}");
        assert!(error.message.contains("statement timeout"), "{sql}: {error}");
        session.execute("set statement_timeout = 0").unwrap();
    }
    assert_eq!(one(&mut session, "select count(*), min(a) from t"), "100000|1");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn memory_is_bounded_by_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(16 << 20).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    let groups = "select t, count(*) from (select repeat('x', 1000) || g as t from \
                  generate_series(1, 30000) g) s group by t";
    // More groups than memory holds go by way of files.
    assert_eq!(session.execute(groups).unwrap()[0].tag, "SELECT 30000");
    // The same rows without a sort, and the first of them with one, need no memory.
    assert_eq!(one(&mut session, "select count(*) from generate_series(1, 100000)"), "100000");
    assert_eq!(
        one(&mut session, "select g from generate_series(1, 100000) g order by g desc limit 1"),
        "100000"
    );
}

/// A row that refers to another keeps it, seen or not: its parent is locked until it is committed,
/// and looked for as everything is now afterwards.
#[test]
fn a_parent_does_not_go_beside_a_child_that_comes() {
    let (_dir, db) = open();
    let (mut one, mut two) = (Session::new(&db), Session::new(&db));
    one.execute("create table p (a int primary key); create table c (a int references p)").unwrap();
    one.execute("insert into p values (1), (2), (3)").unwrap();
    two.execute("set lock_timeout = '50ms'").unwrap();
    let code = |session: &mut Session, sql: &str| session.execute(sql).unwrap_err().sqlstate;

    one.execute("begin; insert into c values (1)").unwrap();
    assert_eq!(code(&mut two, "delete from p where a = 1"), "55P03");
    assert_eq!(code(&mut two, "update p set a = 10 where a = 1"), "55P03");
    one.execute("commit").unwrap();
    assert_eq!(code(&mut two, "delete from p where a = 1"), "23503");

    // A snapshot from before the child does not hide it.
    two.execute("begin isolation level repeatable read; select * from p").unwrap();
    one.execute("insert into c values (2)").unwrap();
    assert_eq!(code(&mut two, "delete from p where a = 2"), "23503");
    two.execute("rollback").unwrap();

    // And the other way round: who deletes the parent holds it.
    one.execute("begin; delete from p where a = 3").unwrap();
    assert_eq!(code(&mut two, "insert into c values (3)"), "55P03");
    one.execute("commit").unwrap();
    assert_eq!(code(&mut two, "insert into c values (3)"), "23503");
    drop((one, two));
    assert!(db.verify().unwrap().is_clean());
}

/// A partial index was taken for one of all rows: rows that it leaves out lost their parent.
#[test]
fn foreign_keys_and_conflicts_do_not_rely_on_partial_indexes() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table p (a int primary key, b int)").unwrap();
    session.execute("create table c (id int primary key, a int references p)").unwrap();
    let some = |column: &str| Predicate::new().at_least(column, Value::Int4(100));
    let mut txn = db.begin();
    txn.create_index("c", &IndexSchema::new("c_some").on("a").only(some("a"))).unwrap();
    txn.create_index("p", &IndexSchema::new("p_some").on("b").unique().only(some("b"))).unwrap();
    txn.commit().unwrap();
    session.execute("insert into p values (1, 7), (200, 7); insert into c values (1, 1)").unwrap();
    let refused = session.execute("delete from p where a = 1").unwrap_err();
    assert_eq!(refused.sqlstate, "23503", "{refused}");
    assert_eq!(one(&mut session, "select count(*) from p"), "2");
    let refused = session.execute("create table d (b int references p (b))").unwrap_err();
    assert_eq!(refused.sqlstate, "42830", "{refused}");
    let upsert = "insert into p values (3, 7) on conflict (b) do nothing";
    assert_eq!(session.execute(upsert).unwrap_err().sqlstate, "42P10");
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn who_waits_for_whom_is_shown() {
    let (_dir, db) = open();
    let activity = Activity::default();
    let who = |pid| Who { pid, user: format!("u{pid}"), ..Who::default() };
    let mut holder = Session::new(&db).join(&activity, who(1));
    let mut looker = Session::new(&db).join(&activity, who(3));
    holder.execute("create table t (id int primary key)").unwrap();
    holder.execute("begin; lock table t in share mode").unwrap();
    let mut waiter = Session::new(&db).join(&activity, who(2));
    let waiter = spawn("waiter", move || waiter.execute("insert into t values (1)").map(drop));
    let blocked = "select pg_isolation_test_session_is_blocked(2, '{1}')";
    while one(&mut looker, blocked) != "t" {
        std::thread::yield_now();
    }
    let shown = "select usename, state, wait_event_type, wait_event, query from pg_stat_activity \
                 where pid = 2";
    assert_eq!(one(&mut looker, shown), "u2|active|Lock|relation|insert into t values (1)");
    let locks = "select pid, mode, granted from pg_locks where relation = 't'::regclass and \
                 mode <> 'AccessShareLock' order by granted desc";
    assert_eq!(one(&mut looker, locks), "1|ShareLock|t 2|RowExclusiveLock|f");
    let idle = "select state from pg_stat_activity where pid = 1";
    assert_eq!(one(&mut looker, idle), "idle in transaction");
    holder.execute("commit").unwrap();
    waiter.join().unwrap().unwrap();
    assert_eq!(one(&mut looker, "select count(*) from pg_stat_activity"), "2");
    assert_eq!(one(&mut looker, "select count(*) from t"), "1");
}

/// A change of the row that was waited for is one that a place says, as later statements see it.
#[test]
fn a_place_is_no_longer_that_of_a_row_that_changed() {
    let (_dir, db) = open();
    let activity = Activity::default();
    let who = |pid| Who { pid, ..Who::default() };
    let mut first = Session::new(&db).join(&activity, who(1));
    first.execute("create table t (a int primary key, b int)").unwrap();
    for (sql, found) in [
        ("delete from t where ctid = '(1,1)' returning ctid = '(1,1)'", ""),
        ("update t set b = 9 where ctid = '(1,1)' returning b", ""),
        ("select b from t where ctid = '(1,1)' for update", ""),
        ("select b, ctid = '(1,1)' from t where a = 1 for update", "2|f"),
        ("delete from t where a = 1 returning b, ctid = '(1,1)'", "2|f"),
    ] {
        first.execute("truncate t; insert into t values (1, 1)").unwrap();
        first.execute("begin; update t set b = 2").unwrap();
        let mut second = Session::new(&db).join(&activity, who(2));
        let waiter = spawn("waiter", move || {
            let rows = second.execute(sql).map(|outcomes| outcomes[0].rows.clone());
            let shown = |row: Row| row.iter().map(|v| v.to_text().unwrap()).collect::<Vec<_>>();
            rows.map(|rows| rows.into_iter().map(|row| shown(row).join("|")).collect::<String>())
        });
        let blocked = "select pg_isolation_test_session_is_blocked(2, '{1}')";
        let mut looker = Session::new(&db).join(&activity, who(3));
        while one(&mut looker, blocked) != "t" {
            std::thread::yield_now();
        }
        first.execute("commit").unwrap();
        assert_eq!(waiter.join().unwrap().unwrap(), found, "{sql}");
    }
    assert!(db.verify().unwrap().is_clean());
}

/// Six times the memory that the database has.
#[test]
fn what_memory_does_not_hold_is_sorted_by_way_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(16 << 20).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    let sql = "select g, repeat('x', 1000) || (g % 7) as t from generate_series(1, 30000) g \
               order by t desc, g";
    session.prepare("s", sql, &[]).unwrap();
    session.bind("", "s", Vec::new()).unwrap();
    let mut gather = Gather::default();
    let (mut last, mut count) = ((7, 0), 0);
    while let Execution::Suspended = session.execute_portal("", 1_000, &mut gather).unwrap() {
        for row in gather.rows.drain(..) {
            let (Datum::Int4(g), Datum::Text(t)) = (&row[0], &row[1]) else { panic!("{row:?}") };
            let now = (t[1_000..].parse::<i32>().unwrap(), *g);
            assert_eq!(now.0, now.1 % 7);
            assert!(now.0 < last.0 || now.0 == last.0 && now.1 > last.1, "{last:?} {now:?}");
            (last, count) = (now, count + 1);
        }
    }
    assert_eq!(count, 30_000);
    session.close_portal("");
    let files = std::fs::read_dir(dir.path().join("tmp")).unwrap().count();
    assert_eq!(files, 0, "temporary files go with their statement");
}

/// The first rows of many, which memory does not hold, or which grow while they are gathered.
#[test]
fn first_rows_that_are_long_are_sorted_by_way_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(8 << 20).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    let sql = "select g, g % 3 as k, repeat('x', case when g <= 600 then 1 else 20000 end) as t \
               from generate_series(1, 1200) g order by k desc, g > 600 desc limit";
    let tail = |limit: usize, offset: usize| {
        // By descending k, long ones before short ones, equal ones as they came.
        let mut rows: Vec<i32> = (1..=1200).collect();
        rows.sort_by_key(|g| (-(g % 3), *g <= 600));
        rows[offset..offset + limit].to_vec()
    };
    for (limit, offset) in [(10, 0), (500, 0), (1, 600), (700, 499)] {
        let sql = format!("select g from ({sql} {limit} offset {offset}) s");
        let rows = session.execute(&sql).unwrap().remove(0).rows;
        let found: Vec<i32> = rows
            .iter()
            .map(|row| match row[0] {
                Datum::Int4(g) => g,
                _ => panic!("a number"),
            })
            .collect();
        assert_eq!(found, tail(limit, offset), "{limit} from {offset}");
        assert_eq!(files_in(&dir), 0, "temporary files go with their statement");
    }
    assert_eq!(
        one(&mut session, "select 1 / g from generate_series(0, 9) g order by 1 limit 0"),
        ""
    );
    // Long rows go in where a thousand of them would not fit.
    session.execute("create table t (t text)").unwrap();
    let many = "insert into t select repeat('x', 100000) || g from generate_series(1, 150) g";
    assert_eq!(session.execute(many).unwrap()[0].tag, "INSERT 0 150");
    assert_eq!(one(&mut session, "select count(distinct length(t)) from t"), "3");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

/// Messages that differ in their literals alone have one plan, and what their own would do.
#[test]
fn literals_of_messages_do_not_leak_into_each_other() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session
        .execute("create table t (a int primary key, b numeric(5, 1), c char(3), d date)")
        .unwrap();
    for n in 1..20 {
        let row = format!("insert into t values ({n}, {n}.25, 'c{}', '2026-01-{n:02}')", n % 3);
        assert_eq!(session.execute(&row).unwrap()[0].tag, "INSERT 0 1");
    }
    for n in 1..20 {
        let row = format!("select a, b, c, d from t where a = {n} and c = 'c{} '", n % 3);
        let wanted = format!("{n}|{n}.3|c{} |2026-01-{n:02}", n % 3);
        assert_eq!(one(&mut session, &row), wanted);
        let limited = format!("select a from t where a >= {n} order by 1 limit {}", n % 2 + 1);
        assert_eq!(one(&mut session, &limited).split(' ').count(), (n % 2 + 1).min(20 - n));
    }
    assert_eq!(one(&mut session, "select a from t where a = 5000000000"), "");
    assert_eq!(one(&mut session, "select a from t where a = 5.0"), "5");
    let wrong = session.execute("select a from t where d = '2026-13-01'").unwrap_err();
    assert_eq!((wrong.sqlstate, wrong.position), ("22008", Some(27)));
    assert_eq!(one(&mut session, "select a from t where d = '2026-01-05'"), "5");
    let wrong = session.execute("select a from t where d = '2026-13-02'").unwrap_err();
    assert_eq!((wrong.sqlstate, wrong.position), ("22008", Some(27)));
    session.execute("update t set b = b + -1, c = 'new' where a = 7").unwrap();
    session.execute("update t set b = b + -2, c = 'old' where a = 8").unwrap();
    assert_eq!(one(&mut session, "select b, c from t where a in (7, 8)"), "6.3|new 6.3|old");
    let long = session.execute("update t set c = 'long' where a = 9").unwrap_err();
    assert_eq!(long.sqlstate, "22001");
    // What a column cannot hold fails also where there is no row.
    for (wrong, sqlstate) in [("c = 'long'", "22001"), ("b = 123456.7", "22003")] {
        let wrong = session.execute(&format!("update t set {wrong} where a = 99")).unwrap_err();
        assert_eq!(wrong.sqlstate, sqlstate);
    }
    assert_eq!(session.execute("update t set c = 'two' where a = 99").unwrap()[0].tag, "UPDATE 0");
    // A definition makes the shared plans void; one by a partial index is for its own values.
    session.execute("create index t_b on t (b) where a > 10").unwrap();
    for n in 9..13 {
        let row = format!("select count(*) from t where b > 0 and a > {n}");
        assert_eq!(one(&mut session, &row), (19 - n).to_string());
    }
    session.execute("alter table t drop column d").unwrap();
    assert_eq!(
        session.execute("select a from t where d = '2026-01-05'").unwrap_err().sqlstate,
        "42703"
    );
    assert!(db.verify().unwrap().is_clean());
}

/// What a partial index makes true is asked again of a row that was locked late.
#[test]
#[expect(clippy::disallowed_methods, reason = "a rival in a thread of its own, in a test")]
fn a_row_that_is_locked_late_still_meets_the_terms_of_a_partial_index() {
    let (_dir, db) = open();
    let mut first = Session::new(&db);
    first.execute("create table t (a int, done boolean not null, n int)").unwrap();
    first.execute("insert into t select g, g <> 4000, 0 from generate_series(1, 4000) g").unwrap();
    first.execute("create index t_todo on t (a) where not done").unwrap();
    let sql = "select a from t where not done for update";
    let plan = one(&mut first, &format!("explain (costs off) {sql}"));
    assert!(plan.contains("t_todo"), "{plan}");
    first.execute("begin; update t set done = true where a = 4000").unwrap();
    let waiting = {
        let db = db.clone();
        std::thread::spawn(move || {
            let mut second = Session::new(&db);
            second.execute(sql).map(|outcomes| outcomes[0].rows.clone())
        })
    };
    while db.locks().iter().all(|lock| lock.granted) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    first.execute("commit").unwrap();
    assert_eq!(waiting.join().unwrap().unwrap(), Vec::<Row>::new(), "it is done now");
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn rows_that_are_skipped_do_not_count_for_a_limit() {
    let (_dir, db) = open();
    let (mut first, mut second) = (Session::new(&db), Session::new(&db));
    first.execute("create table t (a int)").unwrap();
    first.execute("insert into t select g from generate_series(1, 10) g").unwrap();
    assert_eq!(one(&mut first, "begin; select a from t limit 2 for update skip locked"), "1 2");
    assert_eq!(one(&mut second, "begin; select a from t limit 2 for update skip locked"), "3 4");
    let next = "select a from t where a > 0 limit 2 offset 1 for update skip locked";
    assert_eq!(one(&mut first, next), "2 5", "its own rows, then what is free");
    let ordered = "select a from t order by a desc limit 1 for update skip locked";
    assert_eq!(one(&mut second, ordered), "10");
    assert_eq!(one(&mut first, ordered), "9");
    assert_eq!(one(&mut second, "select a from t limit 0 for update"), "");
    // No more were locked than were asked for.
    let mut third = Session::new(&db);
    assert_eq!(one(&mut third, "select a from t for update skip locked"), "6 7 8");
}

/// A plan that has to wait for a lock fails its statement at once, whichever way it is asked for,
/// and what was kept of it is good afterwards.
#[test]
fn a_lock_that_is_not_got_while_planning_fails_the_statement() {
    let (_dir, db) = open();
    let (mut first, mut second) = (Session::new(&db), Session::new(&db));
    first.execute("create table t (a int); insert into t values (1), (2)").unwrap();
    second.execute("set lock_timeout = '20ms'").unwrap();
    assert_eq!(one(&mut second, "select a from t where a = 1"), "1");
    assert_eq!(one(&mut second, "select a from t"), "1 2");
    second.prepare("", "select a + 1 from t", &[]).unwrap();
    second.sync().unwrap();
    first.execute("begin; lock table t").unwrap();
    for sql in ["select a from t where a = 2", "select a from t", "select a from t where a > 1"] {
        assert_eq!(second.execute(sql).unwrap_err().sqlstate, "55P03", "{sql}");
    }
    let error = second.prepare("", "select a + 1 from t", &[]).unwrap_err();
    assert_eq!(error.sqlstate, "55P03");
    first.execute("rollback").unwrap();
    assert_eq!(one(&mut second, "select a from t where a = 2"), "2");
    assert_eq!(one(&mut second, "select a from t where a > 0"), "1 2");
}

/// What a function sets is as what SET sets.
#[test]
fn a_lock_timeout_reaches_the_transaction_that_runs() {
    let (_dir, db) = open();
    let (mut first, mut second) = (Session::new(&db), Session::new(&db));
    first.execute("create table t (a int primary key); insert into t values (1)").unwrap();
    first.execute("begin; select * from t for update").unwrap();
    let change = "update t set a = 2";
    for set in ["set lock_timeout = 20", "select set_config('lock_timeout', '20ms', true)"] {
        second.execute("begin; select 1").unwrap();
        second.execute(set).unwrap();
        assert_eq!(second.execute(change).unwrap_err().sqlstate, "55P03", "{set}");
        second.execute("rollback").unwrap();
        let message = format!("begin; {set}; {change}");
        assert_eq!(second.execute(&message).unwrap_err().sqlstate, "55P03", "{set}");
        second.execute("rollback").unwrap();
        assert_eq!(one(&mut second, "show lock_timeout"), "0");
    }
}

/// Rows that are long against the memory, and keys that agree in more than a record takes.
#[test]
fn long_rows_are_sorted_by_way_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(16 << 20).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    let sql = "select g, substr('abcdefghijklmnopqrst', g % 20 + 1, 1) || repeat('x', 100000) \
               || lpad(g::text, 3, '0') as t, ('-0.' || repeat('0', 16000) || g)::numeric as n \
               from generate_series(1, 60) g order by";
    let number = |row: &Row| match row[0] {
        Datum::Int4(g) => g,
        _ => panic!("a number"),
    };
    for (order, descending) in [("t", false), ("t desc", true), ("n", true), ("n desc, t", false)] {
        session.prepare("s", &format!("{sql} {order}"), &[]).unwrap();
        session.bind("", "s", Vec::new()).unwrap();
        let mut gather = Gather::default();
        let mut found = Vec::new();
        while let Execution::Suspended = session.execute_portal("", 5, &mut gather).unwrap() {
            for row in gather.rows.drain(..) {
                assert_eq!(row[1].to_text().unwrap().len(), 100_004);
                let tail = row[2].to_text().unwrap();
                assert!(tail.len() > 16_000 && tail.ends_with(&number(&row).to_string()));
                found.push(number(&row));
            }
        }
        let mut wanted: Vec<i32> = (1..=60).collect();
        match order.starts_with('n') {
            // As fractions, 1 and 10 are equal but for the digits they have.
            true => wanted.sort_by_key(|g| {
                let value = if *g < 10 { *g * 10 } else { *g };
                (value, (*g % 20, *g))
            }),
            false => wanted.sort_by_key(|g| (*g % 20, *g)),
        }
        if descending && order.starts_with('t') {
            wanted.reverse();
        }
        if order == "n" {
            // Numbers below zero: the larger, the earlier; of equal ones the first that came.
            wanted.sort_by_key(|g| (-(if *g < 10 { *g * 10 } else { *g }), *g));
        }
        assert_eq!(found, wanted, "{order}");
        session.close_portal("");
        session.close_statement("s");
    }
    drop(session);
    let files = std::fs::read_dir(dir.path().join("tmp")).unwrap().count();
    assert_eq!(files, 0, "temporary files go with their statement");
}

fn files_in(dir: &tempfile::TempDir) -> usize {
    std::fs::read_dir(dir.path().join("tmp")).unwrap().count()
}

/// Groups and duplicates that a small budget does not hold are the same as in a large one.
#[test]
fn groups_that_memory_does_not_hold_go_to_files() {
    let (small_dir, large_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let small = Database::options().memory(8 << 20).open(small_dir.path()).unwrap();
    let large = Database::open(large_dir.path()).unwrap();
    let mut sessions = [Session::new(&small), Session::new(&large)];
    let many = "from generate_series(1, 40000) g";
    let few = "from generate_series(1, 900) g";
    let statements = [
        // More groups than fit, met again and again, some of them in memory.
        format!(
            "select g % 15000 as k, count(*), sum(g * 0.1::float8), avg(g::numeric / 7), \
             min(g::text), max(g), bool_and(g > 9), count(*) filter (where g % 2 = 0) {many} \
             group by k"
        ),
        format!("select g % 15000, count(*) as n {many} group by 1 having count(*) = 2 order by 1"),
        // Long keys that differ at their ends only, and keys that are null.
        format!(
            "select repeat('x', 20000) || g % 300 as k, nullif(g % 2, 0) as l, sum(g) {few} \
             group by k, l"
        ),
        format!("select g % 3000 as k, string_agg(repeat('y', 100) || g, ',') {many} group by k"),
        // Distinct values: more than fit in a few groups, in many groups, in one.
        format!("select g % 3, count(distinct g), sum(distinct g % 20000) {many} group by 1"),
        format!(
            "select g % 15000, count(distinct g % 10), string_agg(distinct (g % 4)::text, '-'), \
             count(*) {many} group by 1"
        ),
        format!("select count(distinct g::text), sum(distinct g * 0.1::float8), max(g) {many}"),
        format!("select count(distinct repeat('x', 20000) || g % 300), count(g) {few}"),
        format!("select distinct g % 30000, repeat('z', 50) {many}"),
        format!("select distinct repeat('x', 20000) || g % 300, nullif(g % 2, 0) {few}"),
        format!("select distinct g % 30000 as k, repeat('z', 50) {many} order by k desc"),
        format!("select distinct on (k) g % 30000 as k, g {many} order by k, g desc"),
        format!("select distinct on (k, g % 2) g % 10000 as k, g {many} order by k limit 50"),
        format!(
            "select count(*), sum(n) from (select distinct n, k from (select g % 20000 as k, \
             count(*) as n {many} group by 1) a) b"
        ),
    ];
    for sql in &statements {
        let [mut few, mut lots] = sessions.each_mut().map(|session| {
            let outcome = session.execute(sql).map_err(|error| panic!("{sql}: {error:?}"));
            let rows = outcome.unwrap().pop().unwrap().rows;
            let shown = |row: Row| row.iter().map(|v| v.to_text()).collect::<Vec<_>>();
            rows.into_iter().map(shown).collect::<Vec<_>>()
        });
        if !sql.contains("order by") {
            few.sort();
            lots.sort();
        }
        assert!(!few.is_empty() && few == lots, "{sql}: {} and {} rows", few.len(), lots.len());
        assert_eq!(files_in(&small_dir), 0, "{sql}: temporary files go with their statement");
    }
    // One group beyond the budget, an error, too little time: nothing stays behind.
    let [mut session, _] = sessions;
    let fails = [
        (format!("select string_agg(repeat('x', 1000), ',') {many}"), "53200"),
        (format!("select g, sum(1 / (40000 - g)) {many} group by g"), "22012"),
        (format!("select distinct 1 / (40000 - g), repeat('x', 200) || g {many}"), "22012"),
        (
            format!("set statement_timeout = 1; select g, count(distinct g) {many} group by 1"),
            "57014",
        ),
    ];
    for (sql, code) in &fails {
        assert_eq!(session.execute(sql).unwrap_err().sqlstate, *code, "{sql}");
        assert_eq!(files_in(&small_dir), 0, "{sql}: temporary files go with their statement");
    }
    drop(session);
    assert!(small.verify().unwrap().is_clean());
}

/// Stack of a thread of the server's.
const STACK: usize = 2 << 20;

/// The deepest statements that are taken, and what is beyond them: bound, run and dropped on a
/// thread like a session's.
#[test]
fn statements_as_deep_as_they_may_be_leave_the_stack_whole() {
    let deep = || {
        let (_dir, db) = open();
        let mut session = Session::new(&db);
        session.execute("create table t (a int primary key, b text)").unwrap();
        session.execute("insert into t values (1, 'x'), (2, null)").unwrap();
        for (start, link, most) in [
            ("select 1", "+1", 1_000),
            ("select 1", " is null", 1_000),
            ("select true", " is null = true", 500),
            ("select 1", "::int", 1_000),
            ("select 1", "+null", 1_000),
            ("select 2", "^-1", 20),
            ("select 'a'", " || 'b'", 1_000),
            ("select true", " in (true)", 999),
            ("select 1 from t where a = 1", " or a = 1", 4_000),
            ("select 1 from t where a = 1", " and a = 1", 4_000),
            ("select 1 from t where a > 0", " and a = 1 or b is null", 2_000),
            ("update t set a = a where true", " or (a = 1 and b is null)", 2_000),
        ] {
            let fits = start.to_owned() + &link.repeat(most);
            if let Err(error) = session.execute(&fits) {
                assert_eq!(error.sqlstate, "22003", "{start}{link}: {error}");
            }
            let text = start.to_owned() + &link.repeat(20_000);
            assert_eq!(session.execute(&text).unwrap_err().sqlstate, "54001", "{start}{link}");
        }
        assert_eq!(one(&mut session, "select count(*) from t"), "2");
        drop(session);
        assert!(db.verify().unwrap().is_clean());
    };
    std::thread::Builder::new().stack_size(STACK).spawn(deep).unwrap().join().unwrap();
}

/// What is written once and evaluated twice doubles with each level.
#[test]
fn copies_of_copies_are_bounded() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    let nested =
        (0..40).fold("a".to_owned(), |inner, _| format!("({inner} between false and true)"));
    let text = format!("select {nested} from (values (true)) t(a)");
    assert_eq!(session.execute(&text).unwrap_err().sqlstate, "54001");
    let case = (0..30).fold("a".to_owned(), |inner, _| {
        format!("case {inner} + 1 when 0 then 1 when 1 then 2 when 2 then 3 else 4 end")
    });
    assert_eq!(one(&mut session, &format!("select {case} from (values (0)) t(a)")), "4");
    assert_eq!(one(&mut session, "select 1"), "1");
}

#[test]
fn a_statement_with_values_is_one_call() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table t (a bigint primary key, b text)").unwrap();
    let insert = "insert into t values ($1, $2) returning a + 1 as next";
    let row = |a: i64, b: &str| vec![Datum::Int8(a), Datum::Text(b.into())];
    let outcome = session.execute_with(insert, row(1, "x")).unwrap();
    assert_eq!((&*outcome.tag, &outcome.rows[0][0]), ("INSERT 0 1", &Datum::Int8(2)));
    assert_eq!(outcome.columns.unwrap()[0], Column::new("next", SqlType::Int8));
    // A statement that fails leaves nothing open, and the session goes on.
    assert_eq!(session.execute_with(insert, row(1, "y")).unwrap_err().sqlstate, "23505");
    assert_eq!(session.status(), TransactionStatus::Idle);
    let count = "select count(*) from t where b = $1";
    let counted = session.execute_with(count, vec![Datum::Text("x".into())]).unwrap();
    assert_eq!(counted.rows, [[Datum::Int8(1)]]);
    let error = |session: &mut Session, sql: &str, values: Vec<Datum>| {
        session.execute_with(sql, values).unwrap_err().sqlstate
    };
    assert_eq!(error(&mut session, count, Vec::new()), "08P01");
    assert_eq!(error(&mut session, "select 1; select 2", Vec::new()), "42601");
    assert_eq!(error(&mut session, "copy t from stdin", Vec::new()), "0A000");
    assert_eq!(session.execute_with("", Vec::new()).unwrap().rows, Vec::<Row>::new());
    // In a block of the caller's it is a statement as any other.
    session.execute("begin").unwrap();
    session.execute_with(insert, row(2, "z")).unwrap();
    assert_eq!(session.status(), TransactionStatus::Block);
    session.execute("rollback").unwrap();
    assert_eq!(session.execute_with("select a from t", Vec::new()).unwrap().rows.len(), 1);
    assert!(db.verify().unwrap().is_clean());
}
