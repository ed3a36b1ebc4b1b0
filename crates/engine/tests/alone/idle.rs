//! An idle database costs nothing: whatever was done before, its threads wait.
//!
//! Processor time is that of the engine's own threads as the system counts it, so that a busy
//! machine makes these tests slower and not fail: a thread that never waits uses all that it is
//! given, in every window.
#![cfg(target_os = "linux")]

use std::time::Duration;

use rightlink::{
    Database, IndexSchema, Isolation, Options, ScanOptions, TableSchema, TransactionOptions, Type,
    Value,
};
use rightlink_env::Clock;
use rightlink_env::rng::rounds;

/// What is measured at a time.
const WINDOW: Duration = Duration::from_secs(1);
/// Windows until the threads must have come to rest.
const WINDOWS: u32 = 90;
/// Processor time in a window of an idle database, at most: 2 %. Looking whether there is work
/// takes 0.1 to 0.3 %, and a thread that spins takes at least the 5 % that twenty others leave it.
const MOST: Duration = Duration::from_millis(20);

/// Processor time of the engine's threads so far.
fn processor_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let one = |path: std::path::PathBuf| {
        // A thread may end while it is looked at.
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        let used = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        let nanos = used.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
        if name.starts_with("rightlink-") { nanos } else { 0 }
    };
    Duration::from_nanos(threads.map(|thread| one(thread.unwrap().path())).sum())
}

/// Fails unless the engine's threads come to rest, and stay there.
fn comes_to_rest(what: &str) {
    let (clock, mut used) = (Clock::system(), Vec::new());
    for _ in 0..WINDOWS {
        let (since, before) = (clock.now(), processor_time());
        std::thread::sleep(WINDOW);
        let (took, now) = (clock.now() - since, processor_time() - before);
        used.push(now);
        // The rest after a load may be in a window by chance: two of them are not.
        let is_idle =
            |used: &Duration| used.mul_f64(WINDOW.as_secs_f64() / took.as_secs_f64()) <= MOST;
        if used.len() > 1 && used[used.len() - 2..].iter().all(is_idle) {
            println!("{what}: {used:?}");
            return;
        }
    }
    panic!("{what}: the threads of an idle database never rest, {used:?}");
}

fn open(dir: &tempfile::TempDir, options: Options) -> Database {
    let db = options.open(dir.path().join("db")).unwrap();
    let mut txn = db.begin();
    let schema = TableSchema::new("t").column("id", Type::Int8).column("v", Type::Text);
    let by_v = IndexSchema::new("t_v").on("v");
    txn.create_table(&schema.primary_key(["id"]).index(by_v)).unwrap();
    txn.commit().unwrap();
    db
}

fn options(relaxed: bool) -> TransactionOptions {
    TransactionOptions { isolation: Isolation::ReadCommitted, relaxed, ..Default::default() }
}

/// Four writers who insert, update and delete, most without waiting for the device: with a small
/// log they may come to help with checkpoints.
fn load(db: &Database, round: i64) {
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                for batch in 0..10 {
                    let mut txn = db.begin_with(options(batch % 4 != 0));
                    let first = ((round * 4 + writer) * 10 + batch) * 100;
                    let row = |id| vec![Value::Int8(id), Value::Text(format!("{id}{:500}", "x"))];
                    let rows: Vec<_> = (first..first + 100).map(row).collect();
                    let ids = txn.insert_many("t", &rows).unwrap();
                    txn.update_many("t", &ids[..50], &[("v", Value::Text("y".into()))]).unwrap();
                    txn.delete_many("t", &ids[50..60]).unwrap();
                    txn.commit().unwrap();
                }
            });
        }
    });
}

fn small(memory: usize, log: u64, auto_vacuum: bool) -> Options {
    let options = Database::options().memory(memory).max_log_bytes(log).log_segment_bytes(1 << 16);
    options.auto_vacuum(auto_vacuum)
}

/// With a small log, writers help with checkpoints and wake the upkeep thread. A wake-up that met
/// nobody used to keep all threads running for ever.
#[test]
fn an_idle_database_uses_no_processor_time() {
    let _alone = crate::alone();
    for (log, auto_vacuum) in
        [(1 << 20, false), (1 << 20, true), (64 << 20, false), (64 << 20, true)]
    {
        let dir = tempfile::tempdir().unwrap();
        let db = open(&dir, small(16 << 20, log, auto_vacuum));
        for round in 0..rounds().max(2) as i64 {
            load(&db, round);
            let helped = db.stats().get("checkpoint_steps_by_writers").unwrap();
            comes_to_rest(&format!("log {log}, auto-vacuum {auto_vacuum}, {helped} helped"));
        }
        assert!(db.verify().unwrap().is_clean());
    }
}

/// Garbage that an old snapshot keeps, an index that was built anew, a vacuum that was asked for, a
/// transaction that is left open: nothing to do is nothing to do.
#[test]
fn what_cannot_be_done_yet_costs_nothing() {
    let _alone = crate::alone();
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir, small(16 << 20, 1 << 20, true));
    load(&db, 0);
    let mut old = db.begin();
    assert!(old.scan("t", &ScanOptions::all()).unwrap().next().is_some());
    load(&db, 1);
    let mut open = db.begin();
    open.insert("t", &[Value::Int8(-1), Value::Text("open".into())]).unwrap();
    comes_to_rest("an old snapshot and an open transaction");
    drop(old);
    open.commit().unwrap();
    db.reindex("t", None).unwrap();
    db.vacuum(None).unwrap();
    comes_to_rest("after all ended");
    assert!(db.verify().unwrap().is_clean());
}

/// Relaxed commits are made durable together, after a pause, also when writers have woken the
/// upkeep thread: each would wait for the device otherwise, which is what they are there to avoid.
#[test]
fn relaxed_commits_wait_for_the_pause() {
    let _alone = crate::alone();
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir, small(16 << 20, 1 << 20, false));
    load(&db, 0);
    comes_to_rest("before the relaxed commits");
    let flushes = |db: &Database| db.stats().get("log_flushes").unwrap();
    let (clock, before) = (Clock::system(), flushes(&db));
    let since = clock.now();
    let mut commits = 0;
    while clock.now() - since < Duration::from_secs(2) {
        let mut txn = db.begin_with(options(true));
        txn.insert("t", &[Value::Int8(-1 - commits), Value::Null]).unwrap_err();
        txn.insert("t", &[Value::Int8(-1 - commits), Value::Text("z".into())]).unwrap();
        txn.commit().unwrap();
        commits += 1;
        std::thread::sleep(Duration::from_micros(200));
    }
    let (took, flushed) = (clock.now() - since, flushes(&db) - before);
    println!("{commits} relaxed commits, {flushed} flushes in {took:?}");
    // One in 50 ms; some more for a checkpoint.
    let most = took.as_millis() as u64 / 50 + 20;
    assert!(flushed <= most, "{flushed} flushes of {commits} relaxed commits in {took:?}");
    assert!(commits as u64 > 2 * most, "{commits} commits tell nothing");
}
