//! Foreign keys that wait for the end of the transaction.

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
