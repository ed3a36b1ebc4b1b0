//! Statements by a whole unique key beside the same statements without the index, under repeatable
//! read and read committed.
//!
//! A snapshot of repeatable read can see two rows under one unique key: one that another
//! transaction deleted since, and one that took its key, which the own transaction inserted.
//! PostgreSQL returns both, and refuses to write the one that is gone (40001).

use crate::asked::{one, open};
use crate::gather::Gather;
use rightlink::Database;
use rightlink_env::Rng;
use rightlink_sql::{Datum, Session};

/// Rows in an order of their own, or the code of an error.
type Answer = Result<Vec<String>, &'static str>;

fn answer(session: &mut Session, sql: &str) -> Answer {
    let outcomes = session.execute(sql).map_err(|error| error.sqlstate)?;
    let text = |value: &Datum| value.to_text().unwrap_or_else(|| "NULL".into());
    let rows = outcomes.last().unwrap().rows.iter();
    let mut rows: Vec<String> =
        rows.map(|row| row.iter().map(text).collect::<Vec<_>>().join("|")).collect();
    rows.sort();
    Ok(rows)
}

/// The answer in a savepoint that is undone.
fn undone(session: &mut Session, sql: &str) -> Answer {
    session.execute("savepoint probe").unwrap();
    let answer = answer(session, sql);
    session.execute("rollback to probe").unwrap();
    session.execute("release probe").unwrap();
    answer
}

const TABLES: [&str; 2] = [
    "create table u (owner int primary key, k int not null unique, p text)",
    "create table u (owner int, k int primary key, p text)",
];

/// The story of the defect, with the own row behind the other one and in front of it.
#[test]
fn both_rows_of_a_key_are_read_and_the_one_that_is_gone_is_not_written() {
    for table in TABLES {
        for own_in_front in [false, true] {
            let (_dir, db) = open();
            let (mut a, mut b) = (Session::new(&db), Session::new(&db));
            a.execute(table).unwrap();
            a.execute("create table c (id int primary key, k int references u (k))").unwrap();
            a.execute("insert into u values (50, 99, ''); insert into u values (1, 2, '')")
                .unwrap();
            if own_in_front {
                a.execute("delete from u where k = 99").unwrap();
                a.execute("vacuum u").unwrap();
            }
            a.execute("begin isolation level repeatable read; select * from u").unwrap();
            b.execute("delete from u where k = 2").unwrap();
            a.execute("insert into u values (2, 2, '')").unwrap();
            let places = one(&mut a, "select owner from u where k + 0 = 2 order by ctid");
            assert_eq!(places, if own_in_front { "2 1" } else { "1 2" });
            let mut probe = |sql: &str| undone(&mut a, sql);
            let both = || Ok(vec!["1".to_owned(), "2".to_owned()]);
            for condition in ["k = 2", "k in (2, 3)", "k between 2 and 2", "k + 0 = 2"] {
                let of = |sql: &str| sql.replace('?', condition);
                assert_eq!(probe(&of("select owner from u where ?")), both(), "{condition}");
                let narrow = probe(&of("select k from u where ?"));
                assert_eq!(narrow.unwrap(), ["2", "2"], "of the index: {condition}");
                assert_eq!(probe(&of("select count(*) from u where ?")).unwrap(), ["2"]);
                for write in [
                    "update u set p = 'x' where ? returning owner",
                    "delete from u where ? returning owner",
                    "select owner from u where ? for update",
                    "select owner from u where ? for key share",
                ] {
                    assert_eq!(probe(&of(write)), Err("40001"), "{condition}: {write}");
                }
                let own = of("delete from u where ? and owner = 2 returning owner");
                assert_eq!(probe(&own).unwrap(), ["2"], "the row that is there: {condition}");
            }
            let put = "insert into u values (30, 2, 'n') on conflict (k) do update set p = 'up' \
                       returning owner, p";
            assert_eq!(probe(put).unwrap(), ["2|up"]);
            let skip = "insert into u values (30, 2, 'n') on conflict do nothing returning owner";
            assert!(probe(skip).unwrap().is_empty());
            assert_eq!(probe("insert into u values (30, 2, 'n')"), Err("23505"));
            assert!(probe("insert into c values (1, 2)").is_ok(), "its parent is there");
            assert_eq!(probe("insert into c values (1, 3)"), Err("23503"));
            let last = "select owner from u where k = 2 order by owner desc limit 1";
            assert_eq!(one(&mut a, last), "2");
            a.execute("insert into c values (1, 2); commit").unwrap();
            assert_eq!(one(&mut b, "select owner from u where k = 2"), "2");
            assert!(db.verify().unwrap().is_clean());
        }
    }
}

/// A prepared statement takes the same short way, with the key as a parameter.
#[test]
fn a_prepared_lookup_reads_both_rows() {
    let (_dir, db) = open();
    let (mut a, mut b) = (Session::new(&db), Session::new(&db));
    a.execute(TABLES[1]).unwrap();
    a.execute("insert into u values (1, 2, '')").unwrap();
    a.prepare("s", "select owner from u where k = $1", &[]).unwrap();
    a.sync().unwrap();
    a.execute("begin isolation level repeatable read; select * from u").unwrap();
    b.execute("delete from u").unwrap();
    a.execute("insert into u values (2, 2, '')").unwrap();
    let mut got = Gather::default();
    a.bind("p", "s", vec![Datum::Int4(2)]).unwrap();
    a.execute_portal("p", 0, &mut got).unwrap();
    assert_eq!(got.rows.len(), 2);
    a.execute("rollback").unwrap();
    assert!(db.verify().unwrap().is_clean());
}

/// A session in a transaction, or about to begin one.
struct Client {
    session: Session,
    running: Option<bool>,
    number: i32,
}

/// Keys are below this.
const KEYS: u64 = 5;

impl Client {
    fn begin(&mut self, rng: &mut Rng, number: i32) {
        let repeatable = rng.chance(2, 3);
        let level = if repeatable { "repeatable read" } else { "read committed" };
        self.session.execute(&format!("begin isolation level {level}")).unwrap();
        self.session.execute("select 1 from u where k + 0 = -1").unwrap();
        (self.running, self.number) = (Some(repeatable), number);
    }

    fn compare(&mut self, twice: &mut u64) {
        let repeatable = self.running.unwrap();
        for key in 0..KEYS {
            let seen = answer(&mut self.session, &with("select owner from u where ?", key, false));
            let seen = seen.unwrap();
            assert!(seen.len() <= 1 + usize::from(repeatable), "{key}: {seen:?}");
            *twice += u64::from(seen.len() == 2);
            for probe in [
                "select owner, k, p from u where ?",
                "select k from u where ?",
                "select count(*) from u where ?",
                "select owner from u where ? and owner % 2 = 0",
                "select owner from u where ? order by owner desc limit 1",
                "select owner from u where ? for update",
                "select owner from u where ? for no key update",
                "update u set p = p || 'x' where ? returning owner, p",
                "update u set k = k + 100 where ? returning owner, k",
                "delete from u where ? returning owner",
            ] {
                let by_key = undone(&mut self.session, &with(probe, key, true));
                let by_scan = undone(&mut self.session, &with(probe, key, false));
                assert_eq!(by_key, by_scan, "{probe} of {key}, {} saw {seen:?}", self.number);
            }
            let child = format!("insert into c values ({}, {key})", self.number);
            match (undone(&mut self.session, &child), seen.len()) {
                (done, 0) => assert_eq!(done, Err("23503"), "no parent of {key}"),
                (done, 2) => assert!(done.is_ok(), "{done:?}: the parent of {key} is there"),
                (Ok(_) | Err("40001" | "55P03"), _) => {}
                (done, _) => panic!("{done:?} for a child of {key}, {seen:?}"),
            }
        }
    }

    fn insert(&mut self, key: u64) {
        self.run(&format!("insert into u values ({}, {key}, '')", self.number));
    }

    fn write(&mut self, rng: &mut Rng) {
        let (key, other, number) = (rng.below(KEYS), rng.below(KEYS), self.number);
        let by = if rng.chance(1, 2) { "k" } else { "k + 0" };
        let sql = match rng.below(5) {
            0 | 1 => format!("insert into u values ({number}, {key}, '')"),
            2 => format!("delete from u where {by} = {key}"),
            3 => format!("update u set owner = {number}, k = {other} where {by} = {key}"),
            _ => format!(
                "insert into u values ({number}, {key}, '') \
                 on conflict (k) do update set owner = {number}"
            ),
        };
        self.run(&sql);
    }

    /// Runs a statement that may fail as those of concurrent transactions do.
    fn run(&mut self, sql: &str) {
        self.session.execute("savepoint w").unwrap();
        if let Err(error) = self.session.execute(sql) {
            assert!(matches!(error.sqlstate, "23505" | "40001" | "55P03"), "{sql}: {error:?}");
            self.session.execute("rollback to w").unwrap();
        }
        self.session.execute("release w").unwrap();
    }
}

fn with(probe: &str, key: u64, by_key: bool) -> String {
    let by = if by_key { "k" } else { "k + 0" };
    probe.replace('?', &format!("{by} = {key}"))
}

/// Runs random transactions of three sessions; how often a key was seen twice.
fn run(db: &Database, seed: u64) -> u64 {
    let mut rng = Rng::from_seed(seed);
    Session::new(db)
        .execute(
            "create table u (owner int, k int primary key, p text); \
             create table c (id int primary key, k int references u (k))",
        )
        .unwrap();
    let client = || {
        let mut session = Session::new(db);
        session.execute("set lock_timeout = 1").unwrap();
        Client { session, running: None, number: 0 }
    };
    let mut clients: Vec<Client> = (0..3).map(|_| client()).collect();
    let mut twice = 0;
    let mut other = Session::new(db);
    other.execute("set lock_timeout = 1").unwrap();
    for step in 1..200 {
        let client = &mut clients[rng.below(3) as usize];
        match (client.running, rng.below(10)) {
            (None, _) => client.begin(&mut rng, step),
            (_, 0) => {
                client.session.execute("commit").unwrap();
                client.running = None;
            }
            (_, 1) => {
                client.session.execute("rollback").unwrap();
                client.running = None;
            }
            (_, 2 | 3) => client.compare(&mut twice),
            (_, 4 | 5) => {
                // Somebody else's row goes, whoever sees it, and the key may be taken anew.
                let key = rng.below(KEYS);
                let gone = other.execute(&format!("delete from u where k = {key}"));
                assert!(gone.map_or_else(|error| error.sqlstate == "55P03", |_| true));
                client.insert(key);
            }
            _ => client.write(&mut rng),
        }
    }
    clients.iter_mut().filter(|it| it.running.is_some()).for_each(|it| it.compare(&mut twice));
    drop(clients);
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    twice
}

#[test]
fn statements_by_key_do_what_the_same_ones_by_a_scan_do() {
    let mut twice = 0;
    for seed in 0..3 {
        let (_dir, db) = open();
        twice += run(&db, seed);
    }
    println!("{twice} keys were seen twice");
    assert!(twice > 3, "{twice} keys were seen twice");
}
