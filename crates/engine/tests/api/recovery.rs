//! What a crash must not take away, case by case. The enumeration of all crash points is in
//! `crash.rs`; here stand the stories of single bugs.

use std::time::Duration;

use rightlink::{
    Database, Error, IndexSchema, ScanOptions, TableSchema, TransactionOptions, Type, Value,
};
use rightlink_aio::SimDisk;
use rightlink_aio::sim::{CrashChoice, FaultKind, OpKind, Repeat};
use rightlink_env::sync::Mutex;
use rightlink_env::{Env, Logger, points};

fn open(disk: &SimDisk) -> Database {
    Database::options()
        .simulation(Env::simulated(1), disk.clone())
        .open("db")
        .expect("the database opens")
}

/// Between the look at an empty directory and the lock on it another process may make a database
/// and close it. That database got the mark of a creation that was cut short, and the next opening
/// would have cleared it away.
#[test]
fn a_database_made_by_another_in_the_meantime_is_kept() {
    let disk = SimDisk::new(3);
    let other = Mutex::new(Some(disk.clone()));
    let hook = points::install_local(move |point| {
        let disk = if point == "open.before-lock" { other.lock().take() } else { None };
        if let Some(disk) = disk {
            let db = open(&disk);
            let mut txn = db.begin();
            txn.create_table(&TableSchema::new("t").column("k", Type::Int8)).unwrap();
            txn.insert("t", &[Value::Int8(7)]).unwrap();
            txn.commit().unwrap();
            db.close().unwrap();
        }
    });
    let db = open(&disk);
    drop(hook);
    assert_eq!(db.begin().scan("t", &ScanOptions::all()).unwrap().count(), 1);
}

/// A creation that was cut short is gone on with by who may create, and is no database for others:
/// a command that only looks made one.
#[test]
fn who_only_looks_does_not_go_on_with_a_creation() {
    let disk = SimDisk::new(3);
    disk.fail_nth(OpKind::Sync, 1, FaultKind::Io, Repeat::Once);
    let options = || Database::options().simulation(Env::simulated(1), disk.clone());
    assert!(options().open("db").is_err(), "the creation is cut short");
    let before = disk.live_hash();
    let refused = options().create(false).open("db");
    assert!(matches!(refused, Err(Error::NotFound(_))), "{:?}", refused.err());
    assert_eq!(disk.live_hash(), before, "nothing changed");
    assert!(options().open("db").is_ok());
}

/// Pages of a bulk build are in no log record. Entries that are added to them afterwards must find
/// them there when they are replayed.
#[test]
fn entries_added_to_a_fresh_index_survive() {
    let disk = SimDisk::new(7);
    let db = open(&disk);
    let mut txn = db.begin();
    txn.create_table(&TableSchema::new("t").column("k", Type::Int8)).unwrap();
    let rows: Vec<_> = (0..1000).map(|k| vec![Value::Int8(k * 2)]).collect();
    txn.insert_many("t", &rows).unwrap();
    txn.commit().unwrap();
    let mut txn = db.begin();
    txn.create_index("t", &IndexSchema::new("t_k").on("k")).unwrap();
    txn.commit().unwrap();
    let mut txn = db.begin();
    txn.insert("t", &[Value::Int8(501)]).unwrap();
    txn.commit().unwrap();
    let after = disk.crash_image(&CrashChoice::AllLost);
    let db = open(&after);
    let mut txn = db.begin();
    assert_eq!(txn.scan("t", &ScanOptions::all()).unwrap().count(), 1001);
    assert_eq!(txn.scan("t", &ScanOptions::index("t_k")).unwrap().count(), 1001);
    drop(txn);
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// Transactions that wrote and rolled back leave pages of outcomes that nobody has written. Those
/// are not there any more when the database is opened again, and nothing is the matter with that.
#[test]
fn outcomes_that_were_never_written_are_no_damage() {
    let disk = SimDisk::new(8);
    for rolled_back in [0, 1, 700, 1500, 1100, 0] {
        let db = open(&disk);
        let mut txn = db.begin();
        if txn.catalog().definition("t").is_err() {
            txn.create_table(&TableSchema::new("t").column("k", Type::Int8)).unwrap();
        }
        txn.insert("t", &[Value::Int8(1)]).unwrap();
        txn.commit().unwrap();
        for k in 0..rolled_back {
            let mut txn = db.begin();
            txn.insert("t", &[Value::Int8(k)]).unwrap();
            txn.rollback();
        }
        db.close().unwrap();
    }
    let db = open(&disk);
    assert_eq!(db.begin().scan("t", &ScanOptions::all()).unwrap().count(), 6);
    db.vacuum(None).unwrap();
    db.close().unwrap();
    let report = open(&disk).verify().unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// Opens what a crash left: rows of the logged table `kept` and of the unlogged one `loose`.
fn rows_left(disk: &SimDisk) -> (usize, usize) {
    let db = open(disk);
    let count = |table| db.begin().scan(table, &ScanOptions::all()).unwrap().count();
    let found = (count("kept"), count("loose"));
    assert!(db.verify().unwrap().is_clean());
    found
}

/// A close beside transactions that have written fails, and whoever ends the last of them closes
/// the database: that close did nothing, so that relaxed commits were lost and unlogged tables
/// emptied at an orderly end.
#[test]
fn a_close_beside_a_writer_is_finished_by_the_writer() {
    for commits in [true, false] {
        let disk = SimDisk::new(9);
        let db = open(&disk);
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("kept").column("k", Type::Int8)).unwrap();
        txn.create_table(&TableSchema::new("loose").column("k", Type::Int8).unlogged()).unwrap();
        txn.insert("loose", &[Value::Int8(1)]).unwrap();
        txn.commit().unwrap();
        let relaxed = || TransactionOptions { relaxed: true, ..TransactionOptions::default() };
        let mut early = db.begin_with(relaxed());
        early.insert("kept", &[Value::Int8(1)]).unwrap();
        let mut late = db.begin_with(relaxed());
        late.insert("kept", &[Value::Int8(2)]).unwrap();
        early.commit().unwrap();
        let refused = db.close();
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        let cut = disk.crash_image(&CrashChoice::AllLost);
        assert_eq!(rows_left(&cut), (1, 0), "what was committed is durable");
        assert!(late.insert("kept", &[Value::Int8(3)]).is_err(), "new work is refused");
        match commits {
            true => late.commit().unwrap(),
            false => late.rollback(),
        }
        let cut = disk.crash_image(&CrashChoice::AllLost);
        assert_eq!(rows_left(&cut), (1 + usize::from(commits), 1), "that was a clean close");
    }
}

/// A close that fails once is tried again by the next one, at the latest by the last handle: it was
/// taken for done, so that relaxed commits were lost and unlogged tables emptied at an orderly end.
#[test]
fn a_close_that_failed_is_made_again() {
    let mut failed = 0;
    for nth in 0..8 {
        let disk = SimDisk::new(9);
        let db = open(&disk);
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("kept").column("k", Type::Int8)).unwrap();
        txn.create_table(&TableSchema::new("loose").column("k", Type::Int8).unlogged()).unwrap();
        txn.insert("loose", &[Value::Int8(1)]).unwrap();
        txn.commit().unwrap();
        let relaxed = TransactionOptions { relaxed: true, ..TransactionOptions::default() };
        let mut txn = db.begin_with(relaxed);
        txn.insert("kept", &[Value::Int8(1)]).unwrap();
        txn.commit().unwrap();
        let last = db.clone();
        disk.fail_nth(OpKind::Write, nth, FaultKind::Io, Repeat::Once);
        match db.close() {
            // A write of the log: nobody knows what is there.
            Err(Error::Poisoned(_)) => continue,
            Err(Error::Io(_)) => failed += 1,
            other => other.unwrap(),
        }
        let cut = disk.crash_image(&CrashChoice::AllLost);
        assert_eq!(rows_left(&cut).0, 1, "write {nth}: the log is durable by then");
        match nth % 2 {
            0 => last.close().unwrap(),
            _ => drop(last),
        }
        let cut = disk.crash_image(&CrashChoice::AllLost);
        assert_eq!(rows_left(&cut), (1, 1), "write {nth}: that was a clean close");
    }
    assert!(failed >= 3, "{failed} closes failed");
}

fn is_data(name: &str) -> bool {
    name.starts_with("data/")
}

/// A table whose dropping has committed and whose files are still there, as a crash leaves them.
fn with_orphans() -> SimDisk {
    let disk = SimDisk::new(10);
    let db = open(&disk);
    let mut txn = db.begin();
    for name in ["kept", "gone"] {
        txn.create_table(&TableSchema::new(name).column("k", Type::Int8)).unwrap();
        txn.insert(name, &[Value::Int8(1)]).unwrap();
    }
    txn.commit().unwrap();
    let mut txn = db.begin();
    txn.drop_table("gone").unwrap();
    disk.fail_nth(OpKind::Remove, 0, FaultKind::Io, Repeat::Forever);
    txn.commit().unwrap();
    disk.clear_faults();
    disk.crash_image(&CrashChoice::AllLost)
}

/// A file that belongs to no table and cannot be removed kept the whole database from opening.
#[test]
fn an_orphan_that_cannot_be_removed_is_in_nobodys_way() {
    [FaultKind::Io, FaultKind::NoSpace].into_iter().for_each(orphans_stay);
}

fn orphans_stay(kind: FaultKind) {
    let disk = with_orphans();
    let orphans = |disk: &SimDisk| disk.files().iter().filter(|(name, _)| is_data(name)).count();
    let before = orphans(&disk);
    let theirs = disk.clone();
    let hook = points::install_local(move |point| {
        if point == "open.orphan" {
            theirs.fail_nth(OpKind::Remove, 0, kind, Repeat::Once);
        }
    });
    let (logger, lines) = Logger::collecting();
    let options = || Database::options().simulation(Env::simulated(1), disk.clone());
    let db = options().logger(logger).open("db").expect("the database opens");
    drop(hook);
    assert_eq!(orphans(&disk), before, "they are still there");
    assert!(lines.containing("belongs to no table and stays") >= 4, "{:?}", lines.all());
    assert_eq!(db.begin().scan("kept", &ScanOptions::all()).unwrap().count(), 1);
    // A new table takes the numbers of none of them.
    let mut txn = db.begin();
    txn.create_table(&TableSchema::new("new").column("k", Type::Int8)).unwrap();
    txn.insert("new", &[Value::Int8(1)]).unwrap();
    txn.commit().unwrap();
    disk.clear_faults();
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(orphans(&disk), before, "four went and four came");
    assert_eq!(db.begin().scan("new", &ScanOptions::all()).unwrap().count(), 1);
    assert!(db.verify().unwrap().is_clean());
}

/// Torn pages were healed before the log was found damaged, in a directory that was then refused.
#[test]
fn a_database_whose_log_is_damaged_is_left_as_it_is() {
    let disk = SimDisk::new(11);
    let db = open(&disk);
    let mut txn = db.begin();
    txn.create_table(&TableSchema::new("t").column("k", Type::Int8)).unwrap();
    txn.insert("t", &[Value::Int8(1)]).unwrap();
    txn.commit().unwrap();
    db.checkpoint().unwrap();
    let log = |disk: &SimDisk| disk.peek("wal/00000000", 0, 1 << 20);
    let before = log(&disk);
    for k in 2..6 {
        let mut txn = db.begin();
        txn.insert("t", &[Value::Int8(k)]).unwrap();
        txn.commit().unwrap();
    }
    let killed = disk.snapshot();
    // The first commit after the checkpoint, which the later ones say was durable.
    let changed = before.iter().zip(&log(&killed)).position(|(a, b)| a != b).unwrap() as u64;
    killed.flip_bit("wal/00000000", changed + 40, 0);
    let torn = killed.snapshot();
    for (name, len) in killed.files() {
        if is_data(&name) && len > 0 {
            torn.flip_bit(&name, 5000, 0);
        }
    }
    let found = torn.live_hash_under("data");
    let options = Database::options().simulation(Env::simulated(1), torn.clone());
    let refused = options.open("db");
    assert!(matches!(refused, Err(Error::Corruption { .. })), "{:?}", refused.err());
    assert_eq!(torn.live_hash_under("data"), found, "nothing was changed");
}

/// Every file below `prefix`, with its bytes.
fn bytes_under(disk: &SimDisk, prefix: &str) -> Vec<(String, Vec<u8>)> {
    let files = disk.files().into_iter().filter(|(name, _)| name.starts_with(prefix));
    files
        .map(|(name, len)| (disk.peek(&name, 0, len as usize), name))
        .map(|(b, n)| (n, b))
        .collect()
}

/// Every kind of change, a checkpoint between them.
fn change_everything(db: &Database) -> rightlink::Result<()> {
    let mut txn = db.begin();
    let schema = TableSchema::new("t").column("k", Type::Int8).nullable("v", Type::Text);
    txn.create_table(&schema.primary_key(["k"]).index(IndexSchema::new("t_v").on("v")))?;
    let row = |k: i64| vec![Value::Int8(k), Value::Text(format!("{:0>40}", k * 7919 % 500))];
    txn.insert_many("t", &(0..800).map(row).collect::<Vec<_>>())?;
    txn.commit()?;
    db.checkpoint()?;
    let mut txn = db.begin();
    let rows = txn.scan("t", &ScanOptions::all())?.collect::<rightlink::Result<Vec<_>>>()?;
    for row in rows.iter().step_by(3) {
        txn.update("t", row.id, &[("v", Value::Null)])?;
    }
    for row in rows.iter().skip(1).step_by(3) {
        txn.delete("t", row.id)?;
    }
    txn.commit()?;
    db.vacuum(None)?;
    let mut txn = db.begin();
    txn.insert_many("t", &(2000..2600).map(row).collect::<Vec<_>>())?;
    txn.create_index("t", &IndexSchema::new("t_vk").on("v").on("k"))?;
    txn.commit()
}

/// A log that is applied once more to pages that had all of it changes no byte (check W6 of the
/// catalogue of checks: no look at a file can tell, so it is a test).
#[test]
fn a_log_applied_twice_leaves_the_pages_as_they_are() {
    let disk = SimDisk::new(11);
    let db = open(&disk);
    change_everything(&db).unwrap();
    let crashed = disk.crash_image(&CrashChoice::AllLost);
    let once = crashed.snapshot();
    let first = open(&once);
    first.checkpoint().unwrap();
    let replayed = bytes_under(&once, "data/");
    assert!(replayed != bytes_under(&crashed, "data/"), "the log had something to do");
    let again = once.snapshot();
    for (name, len) in crashed.files().iter().filter(|(name, _)| !name.starts_with("data/")) {
        again.make_stale(name, 0, *len as usize, &crashed);
    }
    let second = open(&again);
    second.checkpoint().unwrap();
    let twice = bytes_under(&again, "data/");
    for ((name, once), (_, twice)) in replayed.iter().zip(&twice) {
        let differs = once.iter().zip(twice).position(|(a, b)| a != b);
        assert!(differs.is_none() && once.len() == twice.len(), "{name} differs at {differs:?}");
    }
    assert_eq!(replayed.len(), twice.len());
    assert!(second.verify().unwrap().is_clean());
}

/// A table "t" in a new database.
fn with_table(db: &Database) {
    let mut txn = db.begin();
    let schema = TableSchema::new("t").column("k", Type::Int8).column("v", Type::Text);
    txn.create_table(&schema.primary_key(["k"])).unwrap();
    txn.commit().unwrap();
}

/// Rows of about a thousand bytes each, in a transaction of their own.
fn insert_wide(db: &Database, keys: std::ops::Range<i64>) {
    let rows: Vec<_> = keys.map(|k| vec![Value::Int8(k), Value::Text("v".repeat(1000))]).collect();
    let mut txn = db.begin();
    txn.insert_many("t", &rows).unwrap();
    txn.commit().unwrap();
}

/// How long redo is measured to take decides how much log there may be, after the next close, too.
#[test]
fn checkpoints_follow_the_speed_of_redo() {
    let distance = |db: &Database| db.stats().get("checkpoint_distance_bytes").unwrap();
    let disk = SimDisk::new(14);
    let db = open(&disk);
    let before = distance(&db);
    with_table(&db);
    (0..400).for_each(|n| insert_wide(&db, n * 20..n * 20 + 20));
    let crashed = disk.crash_image(&CrashChoice::AllLost);
    let env = Env::simulated(1);
    let clock = env.clock.clone();
    let hook = points::install_local(move |point| {
        if point == "recovery.record" {
            clock.advance(Duration::from_millis(10));
        }
    });
    let db = Database::options().simulation(env, crashed.clone()).open("db").unwrap();
    drop(hook);
    let slow = distance(&db);
    assert!(slow < before / 4, "{slow} bytes where redo is slow, {before} before");
    db.close().unwrap();
    let db = open(&crashed);
    let known = distance(&db);
    assert!(known < before / 4, "{known} bytes after a close, {before} before");
    assert!(db.verify().unwrap().is_clean());
}

/// However much is written, the log takes no more space than it may, and some segments for what is
/// under way; there is no thread here that makes checkpoints.
#[test]
fn the_log_is_bounded() {
    const SEGMENT: u64 = 64 << 10;
    const MAX: u64 = 512 << 10;
    let disk = SimDisk::new(15);
    let options = Database::options().memory(8 << 20).pool_pages(128).log_segment_bytes(SEGMENT);
    let options = options.max_log_bytes(MAX).simulation(Env::simulated(1), disk.clone());
    let db = options.open("db").unwrap();
    with_table(&db);
    let mut most = 0;
    for n in 0..1500 {
        insert_wide(&db, n * 4..n * 4 + 4);
        let files = disk.files().into_iter().filter(|(name, _)| name.starts_with("wal/"));
        most = most.max(files.map(|(_, len)| len).sum::<u64>());
    }
    let written = db.stats().get("log_bytes").unwrap();
    println!("{written} bytes were logged, the log had at most {most}");
    assert!(written > 8 * MAX && most <= MAX + 6 * SEGMENT, "{written} logged, {most} at most");
    assert!(db.verify().unwrap().is_clean());
}
