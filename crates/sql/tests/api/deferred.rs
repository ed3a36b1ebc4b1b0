//! Foreign keys and unique constraints that wait for the end of the transaction.

use std::collections::BTreeMap;

use rightlink::Database;
use rightlink_env::{Rng, thread};
use rightlink_sql::{Activity, Session, Who};

use crate::meeting::{told, until_blocked};

fn open() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    (dir, db)
}

/// Rows of the parent, and of the child what each refers to.
#[derive(Clone, Default, PartialEq, Debug)]
struct Rows {
    parents: BTreeMap<u64, u64>,
    children: BTreeMap<u64, u64>,
}

impl Rows {
    fn is_sound(&self) -> bool {
        self.children.values().all(|parent| self.parents.contains_key(parent))
    }
}

fn found(session: &mut Session) -> Rows {
    let mut rows = |sql: &str| -> BTreeMap<u64, u64> {
        let outcomes = session.execute(sql).unwrap();
        let number = |value: &rightlink_sql::Datum| value.to_text().unwrap().parse().unwrap();
        outcomes[0].rows.iter().map(|row| (number(&row[0]), number(&row[1]))).collect()
    };
    Rows { parents: rows("select id, v from p"), children: rows("select id, p from c") }
}

/// A transaction commits if every row that refers has its parent in the end, whatever was between.
#[test]
fn a_transaction_commits_if_all_is_well_in_the_end() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    told(&mut session, "create table p (id int primary key, v int)");
    told(
        &mut session,
        "create table c (id int primary key, \
         p int references p (id) deferrable initially deferred)",
    );
    let (mut kept, mut committed, mut failed) = (Rows::default(), 0, 0);
    for seed in 0..150 {
        let mut random = Rng::from_seed(seed);
        let mut rows = kept.clone();
        let mut savepoints: Vec<Rows> = Vec::new();
        told(&mut session, "begin");
        for _ in 0..random.below(8) + 1 {
            let (id, parent) = (random.below(6), random.below(6));
            let sql = match random.below(8) {
                0 | 1 => {
                    rows.parents.insert(id, 0);
                    format!("insert into p values ({id}, 0) on conflict (id) do update set v = 0")
                }
                2 => {
                    rows.parents.remove(&id);
                    format!("delete from p where id = {id}")
                }
                3 if rows.parents.contains_key(&id) && !rows.parents.contains_key(&(id + 10)) => {
                    let v = rows.parents.remove(&id).unwrap();
                    rows.parents.insert(id + 10, v);
                    format!("update p set id = id + 10 where id = {id}")
                }
                4 | 5 => {
                    rows.children.insert(id, parent);
                    format!(
                        "insert into c values ({id}, {parent}) \
                         on conflict (id) do update set p = {parent}"
                    )
                }
                6 => {
                    rows.children.remove(&id);
                    format!("delete from c where id = {id}")
                }
                7 if random.below(2) == 0 => {
                    savepoints.push(rows.clone());
                    format!("savepoint s{}", savepoints.len())
                }
                _ => match savepoints.last() {
                    Some(before) => {
                        rows = before.clone();
                        format!("rollback to s{}", savepoints.len())
                    }
                    None => "select 1".to_owned(),
                },
            };
            let code = session.execute(&sql).err().map(|error| error.to_string());
            assert_eq!(code, None, "{seed}: {sql}");
        }
        if random.below(3) == 0 {
            let code = told(&mut session, "set constraints all immediate");
            assert_eq!(code.is_empty(), rows.is_sound(), "{seed}: {code}");
        }
        let code = session.execute("commit").err().map(|error| error.sqlstate.to_string());
        let is_sound = rows.is_sound();
        if is_sound {
            (kept, committed) = (rows, committed + 1);
        } else {
            failed += 1;
            assert!(code.is_none_or(|code| code == "23503"), "{seed}");
        }
        assert_eq!(found(&mut session), kept, "{seed}");
    }
    assert!(committed > 20 && failed > 20, "{committed} committed, {failed} failed");
    assert!(db.verify().unwrap().is_clean());
}

/// Who refers to a row that somebody else takes away waits at its commit, and fails.
#[test]
fn a_parent_that_goes_meanwhile_is_waited_for_at_the_commit() {
    let (_dir, db) = open();
    let activity = Activity::default();
    let join = |pid| Session::new(&db).join(&activity, Who { pid, ..Who::default() });
    let [mut parent, mut child, mut observer] = [1, 2, 3].map(join);
    told(&mut parent, "create table p (id int primary key); insert into p values (1), (2)");
    told(&mut parent, "create table c (p int references p (id) deferrable initially deferred)");
    for (end, code) in [("commit", "23503"), ("rollback", "")] {
        told(&mut parent, "begin; delete from p where id = 1");
        told(&mut child, "begin; insert into c values (1)");
        let waits = thread::spawn("child", move || {
            let code = told(&mut child, "commit");
            (child, code)
        });
        until_blocked(&mut observer, 2);
        assert_eq!(told(&mut parent, end), "");
        let ended = waits.join().unwrap();
        child = ended.0;
        assert_eq!(ended.1, code);
        told(&mut parent, "insert into p values (1) on conflict do nothing");
    }
    assert!(db.verify().unwrap().is_clean());
}

/// Of two transactions with one key the second waits for the first when its keys are looked at: at
/// the end of the statement, or of the transaction.
#[test]
fn a_key_of_a_running_transaction_is_waited_for() {
    let (_dir, db) = open();
    let activity = Activity::default();
    let join = |pid| Session::new(&db).join(&activity, Who { pid, ..Who::default() });
    let [mut first, mut second, mut observer] = [1, 2, 3].map(join);
    told(&mut first, "create table k (id int primary key deferrable)");
    for (mode, end, code) in [
        ("immediate", "commit", "23505"),
        ("immediate", "rollback", ""),
        ("deferred", "commit", "23505"),
        ("deferred", "rollback", ""),
    ] {
        for session in [&mut first, &mut second] {
            told(session, &format!("begin; set constraints all {mode}"));
        }
        assert_eq!(told(&mut first, "insert into k values (1)"), "");
        if mode == "deferred" {
            assert_eq!(told(&mut second, "insert into k values (1)"), "");
        }
        let waits = thread::spawn("second", move || {
            let ends =
                if mode == "deferred" { "commit" } else { "insert into k values (1); commit" };
            let code = told(&mut second, ends);
            told(&mut second, "rollback");
            (second, code)
        });
        until_blocked(&mut observer, 2);
        assert_eq!(told(&mut first, end), "");
        let ended = waits.join().unwrap();
        second = ended.0;
        assert_eq!(ended.1, code, "{mode} {end}");
        assert_eq!(told(&mut observer, "select count(*) from k"), "1");
        told(&mut first, "delete from k");
    }
    assert!(db.verify().unwrap().is_clean());
}

/// A prepared transaction has had its keys looked at, and those who come later wait for it.
#[test]
fn prepared_keys_are_unique() {
    let (dir, db) = open();
    let mut session = Session::new(&db);
    told(&mut session, "create table k (id int primary key deferrable initially deferred)");
    told(&mut session, "begin; insert into k values (1), (1)");
    assert_eq!(told(&mut session, "prepare transaction 'twice'"), "23505");
    told(&mut session, "begin; insert into k values (1)");
    assert_eq!(told(&mut session, "prepare transaction 'once'"), "");
    drop(session);
    db.close().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    let mut session = Session::new(&db);
    told(&mut session, "begin; insert into k values (1)");
    told(&mut session, "set lock_timeout = 100");
    assert_eq!(told(&mut session, "commit"), "55P03");
    assert_eq!(told(&mut session, "commit prepared 'once'"), "");
    assert_eq!(told(&mut session, "insert into k values (1)"), "23505");
    assert_eq!(told(&mut session, "select count(*) from k"), "1");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}

/// A transaction commits if no two rows have one key in the end, whatever was between.
#[test]
fn keys_are_unique_at_the_end_of_a_transaction() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    told(
        &mut session,
        "create table k (id int unique deferrable initially deferred, v int primary key)",
    );
    let (mut kept, mut committed, mut failed) = (BTreeMap::new(), 0, 0);
    let is_sound = |rows: &BTreeMap<u64, u64>| {
        let mut ids: Vec<_> = rows.values().collect();
        ids.sort_unstable();
        ids.windows(2).all(|pair| pair[0] != pair[1])
    };
    for seed in 0..200 {
        let mut random = Rng::from_seed(seed);
        // What each row has, by what it keeps.
        let mut rows: BTreeMap<u64, u64> = kept.clone();
        let mut savepoints: Vec<BTreeMap<u64, u64>> = Vec::new();
        told(&mut session, "begin");
        for _ in 0..random.below(8) + 1 {
            let (v, id) = (random.below(8), random.below(8));
            let sql = match random.below(9) {
                0 | 1 if !rows.contains_key(&v) => {
                    rows.insert(v, id);
                    format!("insert into k values ({id}, {v})")
                }
                2 | 3 => {
                    rows.entry(v).and_modify(|known| *known = id);
                    format!("update k set id = {id} where v = {v}")
                }
                4 => {
                    rows.remove(&v);
                    format!("delete from k where v = {v}")
                }
                5 => {
                    rows.values_mut().for_each(|known| *known += 1);
                    "update k set id = id + 1".to_owned()
                }
                6 if is_sound(&rows) => {
                    "set constraints all immediate; set constraints all deferred".into()
                }
                7 => {
                    savepoints.push(rows.clone());
                    format!("savepoint s{}", savepoints.len())
                }
                _ => match savepoints.last() {
                    Some(before) => {
                        rows = before.clone();
                        format!("rollback to s{}", savepoints.len())
                    }
                    None => "select 1".to_owned(),
                },
            };
            let code = session.execute(&sql).err().map(|error| error.to_string());
            assert_eq!(code, None, "{seed}: {sql}");
        }
        let code = session.execute("commit").err().map(|error| error.sqlstate.to_string());
        let expected = if is_sound(&rows) { None } else { Some("23505".to_owned()) };
        assert_eq!(code, expected, "{seed}");
        match code {
            None => (kept, committed) = (rows, committed + 1),
            Some(_) => failed += 1,
        }
        let outcomes = session.execute("select v, id from k").unwrap();
        let number = |value: &rightlink_sql::Datum| value.to_text().unwrap().parse().unwrap();
        let found: BTreeMap<u64, u64> =
            outcomes[0].rows.iter().map(|row| (number(&row[0]), number(&row[1]))).collect();
        assert_eq!(found, kept, "{seed}");
    }
    assert!(committed > 20 && failed > 20, "{committed} committed, {failed} failed");
    assert!(db.verify().unwrap().is_clean());
}
