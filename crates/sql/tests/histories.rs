//! Histories of many clients, checked for what their isolation levels promise.
//!
//! Clients run random transactions over lists, registers, conditions, unique keys and foreign keys,
//! beside vacuums, analyzes, reindexes and checkpoints, and note what they were told. `check` looks
//! for an order that explains it. A seed fixes what the clients ask for, not how they meet.
//!
//! `RIGHTLINK_HISTORIES` is how many transactions there are (1,000), `RIGHTLINK_SEED` the seed (the
//! clock).
//!
//! Does not do: serializability, power cuts (`crates/engine/tests`).

#[path = "histories/check.rs"]
mod check;
#[path = "histories/examples.rs"]
mod examples;
#[path = "histories/graph.rs"]
mod graph;
#[path = "histories/record.rs"]
mod record;
#[path = "histories/work.rs"]
mod work;

use rightlink_env::Broken;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use check::{Anomaly, Finding};
use record::{History, Outcome};
use rightlink::Database;
use rightlink_env::sync::{Arc, AtomicBool, Ordering};
use rightlink_env::{points, thread};
use rightlink_sql::Session;
use work::{COUNT_OF_REGISTERS, Client, Habits, Refused, Rows, Shared, TABLES, Worker};

const CLIENTS: u64 = 8;
/// Transactions of one database; then comes another.
const ROUND: u64 = 4_000;

const SOUND: Habits = Habits { repeatable: 4, lies: false, durable: false };

impl Client for Session {
    fn run(&mut self, sql: &str) -> std::result::Result<Rows, Refused> {
        let refused = |error: rightlink_sql::SqlError| Refused {
            sqlstate: error.sqlstate.to_owned(),
            message: error.to_string(),
        };
        let outcomes = self.execute(sql).map_err(refused)?;
        let rows = outcomes.into_iter().next_back().map(|last| last.rows).unwrap_or_default();
        let texts = |row: rightlink_sql::Row| row.iter().map(|value| value.to_text()).collect();
        Ok(rows.into_iter().map(texts).collect())
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("it is a number"))
}

fn make_tables(session: &mut Session) {
    session.execute(TABLES).unwrap();
    let registers = COUNT_OF_REGISTERS - 1;
    let fill = format!("insert into r select k, 0, null from generate_series(0, {registers}) k");
    session.execute(&fill).unwrap();
}

/// Keeps house until it is told to stop.
fn keep_house(db: &Database, stop: &AtomicBool) {
    let mut session = Session::new(db);
    session.execute("set lock_timeout = 500").unwrap();
    for sql in
        ["vacuum", "analyze", "reindex index u_k", "checkpoint", "vacuum u", "reindex table b"]
            .iter()
            .cycle()
    {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        if let Err(error) = session.execute(sql) {
            assert!(matches!(error.sqlstate, "55P03" | "40P01" | "40001"), "{sql}: {error:?}");
        }
        thread::sleep(std::time::Duration::from_millis(3));
    }
}

/// Tells others to stop when it goes, also by a panic.
struct Stops(Arc<AtomicBool>);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs about `count` transactions on a database of their own.
fn run(seed: u64, count: u64, habits: Habits) -> History {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(128 << 20).open(dir.path()).unwrap();
    make_tables(&mut Session::new(&db));
    let (shared, stop) = (Shared::new(), Arc::new(AtomicBool::new(false)));
    let stops = Stops(Arc::clone(&stop));
    let house = {
        let db = db.clone();
        thread::spawn("house", move || keep_house(&db, &stop))
    };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (db, shared) = (db.clone(), Arc::clone(&shared));
            thread::spawn("client", move || {
                let mut session = Session::new(&db);
                let seed = seed * CLIENTS + client;
                Worker::new(&mut session, &shared, seed, habits).work(count / CLIENTS)
            })
        })
        .collect();
    let mut history = History::default();
    for client in clients {
        history.transactions.extend(client.join().expect("a client does not panic"));
    }
    drop(stops);
    house.join().expect("keeping house does not panic");
    work::read_last(&mut Session::new(&db), &mut history).unwrap();
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
    history
}

fn count(findings: &[Finding]) -> BTreeMap<Anomaly, usize> {
    let mut counts = BTreeMap::new();
    findings.iter().for_each(|finding| *counts.entry(finding.anomaly).or_default() += 1);
    counts
}

#[test]
fn concurrent_transactions_keep_their_isolation() {
    let wanted = setting("RIGHTLINK_HISTORIES").unwrap_or(1_000);
    let seed = setting("RIGHTLINK_SEED")
        .unwrap_or_else(|| RandomState::new().hash_one(std::process::id()) % 1_000_000);
    println!("{wanted} transactions, RIGHTLINK_SEED={seed}");
    let (mut done, mut round, mut committed, mut statements) = (0, 0, 0, 0);
    while done < wanted {
        let history = run(seed + round, ROUND.min(wanted - done).max(CLIENTS), SOUND);
        let found = check::check(&history);
        let first: Vec<_> = found.iter().take(10).collect();
        assert!(found.is_empty(), "{:?} in round {round}: {first:#?}", count(&found));
        done += history.transactions.len() as u64;
        let outcomes = history.transactions.iter();
        committed += outcomes.filter(|it| it.outcome == Outcome::Committed).count();
        statements += history.transactions.iter().map(|it| it.statements.len()).sum::<usize>();
        round += 1;
    }
    println!("{done} transactions, {committed} committed, {statements} statements");
    assert!(committed as u64 > done / 2, "{committed} of {done} transactions committed");
}

/// Read committed that passes for repeatable read is found out.
#[test]
fn a_level_that_is_not_kept_is_found() {
    let history = run(1, 2_000, Habits { lies: true, ..SOUND });
    let found = count(&check::check(&history));
    println!("{found:?}");
    assert!(found.contains_key(&Anomaly::GSingle) || found.contains_key(&Anomaly::LostUpdate));
}

/// Each rule, broken, is found within a few rounds, by the checker and not by a panic.
#[test]
fn broken_rules_are_found() {
    for rule in RULES {
        let _broken = points::break_rule(rule);
        let found = (0..10).find_map(|seed| {
            let found = check::check(&run(seed, 2_000, SOUND));
            (!found.is_empty()).then(|| format!("round {seed}: {:?}", count(&found)))
        });
        println!("{rule}: {found:?}");
        assert!(found.is_some(), "{rule} is not caught");
    }
}

/// Rules of what transactions see; each is one line of the engine.
const RULES: [Broken; 1] = [Broken::SecondRowOfKeyMissed];
