//! Prepared transactions: what others see of them, before and after a restart, and their decision.
//!
//! Does not do: crashes at every call (`../durability`).

use std::collections::BTreeSet;
use std::time::Duration;

use rightlink::{
    Busy, ConflictKind, Database, Error, Isolation, LockMode, MAX_PREPARED, Options, RowId,
    RowLock, ScanOptions, TableSchema, Transaction, TransactionOptions, Type, Value,
};
use rightlink_aio::SimDisk;
use rightlink_aio::sim::CrashChoice;
use rightlink_env::{Broken, Env, Rng, points, thread};

fn options(disk: &SimDisk) -> Options {
    Database::options().pool_pages(256).simulation(Env::simulated(5), disk.clone())
}

fn open(disk: &SimDisk) -> Database {
    options(disk).open("db").unwrap()
}

/// What is there after a power cut.
fn cut_power(disk: &SimDisk) -> (SimDisk, Database) {
    let disk = disk.crash_image(&CrashChoice::AllLost);
    let db = open(&disk);
    (disk, db)
}

fn rates(disk: &SimDisk, count: i64) -> (Database, Vec<RowId>) {
    let db = open(disk);
    let mut txn = db.begin();
    let schema = TableSchema::new("rate").column("id", Type::Int8).column("value", Type::Int8);
    txn.create_table(&schema.primary_key(["id"])).unwrap();
    let rows: Vec<_> = (0..count).map(|id| row(id, 0)).collect();
    let ids = txn.insert_many("rate", &rows).unwrap();
    txn.commit().unwrap();
    (db, ids)
}

fn row(id: i64, value: i64) -> Vec<Value> {
    vec![Value::Int8(id), Value::Int8(value)]
}

fn impatient(db: &Database) -> Transaction {
    db.begin_with(TransactionOptions {
        isolation: Isolation::ReadCommitted,
        lock_timeout: Some(Duration::ZERO),
        ..TransactionOptions::default()
    })
}

fn values(txn: &mut Transaction) -> Vec<(i64, i64)> {
    let rows = txn.scan("rate", &ScanOptions::index("rate_pkey")).unwrap();
    let pair = |row: rightlink::Row| match row.values[..] {
        [Value::Int8(id), Value::Int8(value)] => (id, value),
        ref other => panic!("{other:?}"),
    };
    rows.map(|row| pair(row.unwrap())).collect()
}

fn id_of(db: &Database, key: i64) -> RowId {
    db.begin().get("rate", &[Value::Int8(key)]).unwrap().unwrap().id
}

fn names(db: &Database) -> Vec<String> {
    db.prepared().into_iter().map(|one| one.gid).collect()
}

fn clean(db: &Database) {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

fn is_busy<T>(result: rightlink::Result<T>) -> bool {
    match result {
        Ok(_) => false,
        Err(Error::LockTimeout { .. }) => true,
        Err(Error::Conflict { kind: ConflictKind::RowLocked, .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

/// Inserts 10, updates 1, deletes 2, locks 3, and prepares.
fn prepare(db: &Database, gid: &str) {
    let mut txn = db.begin();
    txn.insert("rate", &row(10, 1)).unwrap();
    let mark = txn.savepoint();
    txn.insert("rate", &row(11, 1)).unwrap();
    txn.rollback_to(mark).unwrap();
    txn.update("rate", id_of(db, 1), &[("value", Value::Int8(1))]).unwrap();
    txn.delete("rate", id_of(db, 2)).unwrap();
    assert!(txn.lock_row("rate", id_of(db, 3), RowLock::Exclusive, Busy::Wait).unwrap());
    txn.prepare(gid, "the note").unwrap();
}

/// Others see nothing of it, and its rows and its table are locked.
fn is_undecided(db: &Database) {
    assert_eq!(values(&mut db.begin()), [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]);
    let set = [("value", Value::Int8(9))];
    for key in [1, 2, 3] {
        let id = id_of(db, key);
        assert!(is_busy(impatient(db).update("rate", id, &set)), "row {key} is locked");
        assert!(!impatient(db).lock_row("rate", id, RowLock::KeyShared, Busy::Skip).unwrap());
    }
    assert!(is_busy(impatient(db).insert("rate", &row(10, 9))), "the key may be there");
    assert!(is_busy(impatient(db).lock_table("rate", LockMode::Exclusive, Busy::Wait)));
    assert!(is_busy(impatient(db).lock_table("rate", LockMode::ShareWrite, Busy::Wait)));
    // What it has not touched, or has undone, is free.
    assert!(impatient(db).update("rate", id_of(db, 4), &set).unwrap());
    impatient(db).insert("rate", &row(11, 9)).unwrap();
    assert_eq!(names(db), ["one"]);
    assert_eq!(db.stats().get("prepared_transactions"), Some(1));
    assert_eq!(db.prepared()[0].note, "the note");
    clean(db);
}

#[test]
fn a_prepared_transaction_is_decided_later() {
    let disk = SimDisk::new(1);
    let (db, _) = rates(&disk, 5);
    for commit in [false, true] {
        prepare(&db, "one");
        is_undecided(&db);
        db.vacuum(None).unwrap();
        let mut before = db.begin();
        assert_eq!(values(&mut before).len(), 5);
        match commit {
            true => db.commit_prepared("one").unwrap(),
            false => db.rollback_prepared("one").unwrap(),
        }
        assert!(names(&db).is_empty());
        assert_eq!(values(&mut before), [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]);
        let after = values(&mut db.begin());
        match commit {
            true => assert_eq!(after, [(0, 0), (1, 1), (3, 0), (4, 0), (10, 1)]),
            false => assert_eq!(after, [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]),
        }
        drop(before);
        impatient(&db).lock_table("rate", LockMode::Exclusive, Busy::Wait).unwrap();
        clean(&db);
    }
}

#[test]
fn it_outlives_the_process() {
    for commit in [true, false] {
        let mut disk = SimDisk::new(2);
        let (mut db, _) = rates(&disk, 5);
        prepare(&db, "one");
        // A clean close, power cuts, and both again: with checkpoints and vacuum in between.
        for round in 0..6 {
            match round % 2 {
                0 => {
                    db.close().unwrap();
                    assert!(options(&disk).verify_offline("db").unwrap().is_clean());
                    db = open(&disk);
                }
                _ => (disk, db) = cut_power(&disk),
            }
            is_undecided(&db);
            let set = [("value", Value::Int8(0))];
            for _ in 0..50 {
                let mut txn = db.begin();
                txn.update("rate", id_of(&db, 4), &set).unwrap();
                txn.commit().unwrap();
            }
            db.vacuum(None).unwrap();
            if round > 2 {
                db.checkpoint().unwrap();
            }
        }
        // A snapshot from before the commit does not see it, whose xids are of another process.
        let mut before = db.begin();
        assert_eq!(values(&mut before).len(), 5);
        match commit {
            true => db.commit_prepared("one").unwrap(),
            false => db.rollback_prepared("one").unwrap(),
        }
        let expected: &[(i64, i64)] = match commit {
            true => &[(0, 0), (1, 1), (3, 0), (4, 0), (10, 1)],
            false => &[(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)],
        };
        assert_eq!(values(&mut before), [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]);
        assert_eq!(values(&mut db.begin()), expected);
        drop(before);
        let (disk, db) = cut_power(&disk);
        assert!(names(&db).is_empty());
        assert_eq!(values(&mut db.begin()), expected);
        db.vacuum(None).unwrap();
        clean(&db);
        db.close().unwrap();
        assert_eq!(values(&mut open(&disk).begin()), expected);
    }
}

#[test]
fn a_waiter_goes_on_when_it_is_decided() {
    let disk = SimDisk::new(3);
    let (db, _) = rates(&disk, 5);
    prepare(&db, "one");
    let (_disk, db) = cut_power(&disk);
    let (other, id) = (db.clone(), id_of(&db, 1));
    let writer = thread::spawn("writer", move || {
        let isolation = Isolation::ReadCommitted;
        let mut txn =
            other.begin_with(TransactionOptions { isolation, ..TransactionOptions::default() });
        assert!(txn.update("rate", id, &[("value", Value::Int8(7))]).unwrap());
        txn.commit().unwrap();
    });
    while db.locks().iter().all(|lock| lock.granted) {
        thread::yield_now();
    }
    db.commit_prepared("one").unwrap();
    writer.join().unwrap();
    assert_eq!(values(&mut db.begin())[1], (1, 7));
    clean(&db);
}

/// A row that it shared with others stays locked after a power cut, whoever was the last to lock it
/// and whoever changed it meanwhile. Multixacts are in memory only.
#[test]
fn shared_rows_stay_locked() {
    let disk = SimDisk::new(4);
    let (db, ids) = rates(&disk, 6);
    // Has xids before the one that is prepared, and more after.
    let mut early = db.begin();
    for key in 20..30 {
        early.insert("rate", &row(key, 0)).unwrap();
    }
    let mut txn = db.begin();
    for id in &ids[..4] {
        assert!(txn.lock_row("rate", *id, RowLock::KeyShared, Busy::Wait).unwrap());
    }
    txn.prepare("one", "").unwrap();
    assert!(early.lock_row("rate", ids[1], RowLock::KeyShared, Busy::Wait).unwrap());
    let mut other = db.begin();
    assert!(other.lock_row("rate", ids[2], RowLock::Shared, Busy::Wait).unwrap());
    assert!(other.update("rate", ids[3], &[("value", Value::Int8(5))]).unwrap());
    other.commit().unwrap();
    early.commit().unwrap();
    let (disk, db) = cut_power(&disk);
    drop(disk);
    db.vacuum(None).unwrap();
    for key in 0..4 {
        let id = id_of(&db, key);
        assert!(!impatient(&db).lock_row("rate", id, RowLock::Exclusive, Busy::Skip).unwrap());
        assert!(is_busy(impatient(&db).delete("rate", id)), "row {key}");
        assert!(impatient(&db).lock_row("rate", id, RowLock::KeyShared, Busy::Skip).unwrap());
        assert!(impatient(&db).update("rate", id, &[("value", Value::Int8(8))]).unwrap());
    }
    assert!(impatient(&db).delete("rate", id_of(&db, 4)).unwrap());
    assert_eq!(values(&mut db.begin())[3], (3, 5));
    db.commit_prepared("one").unwrap();
    for key in 0..4 {
        assert!(impatient(&db).delete("rate", id_of(&db, key)).unwrap(), "row {key}");
    }
    clean(&db);
}

#[test]
fn what_cannot_be_prepared_is_refused_and_rolled_back() {
    let disk = SimDisk::new(5);
    let (db, _) = rates(&disk, 5);
    prepare(&db, "one");
    let insert = |key| {
        let mut txn = db.begin();
        txn.insert("rate", &row(key, 0)).unwrap();
        txn
    };
    assert!(matches!(insert(50).prepare("one", ""), Err(Error::AlreadyExists(_))));
    assert!(matches!(insert(50).prepare(&"x".repeat(200), ""), Err(Error::Limit(_))));
    let mut txn = insert(50);
    txn.create_table(&TableSchema::new("n").column("a", Type::Int8)).unwrap();
    assert!(matches!(txn.prepare("two", ""), Err(Error::Invalid(_))));
    for commit in [true, false] {
        let gone = |db: &Database, gid| match commit {
            true => db.commit_prepared(gid),
            false => db.rollback_prepared(gid),
        };
        assert!(matches!(gone(&db, "two"), Err(Error::NotFound(_))));
    }
    // Without a write it is prepared all the same.
    for number in 1..MAX_PREPARED {
        let mut txn = db.begin();
        values(&mut txn);
        txn.prepare(&format!("empty {number}"), "").unwrap();
    }
    assert!(matches!(insert(50).prepare("two", ""), Err(Error::Limit(_))));
    insert(50).rollback();
    let (_disk, db) = cut_power(&disk);
    assert_eq!(db.prepared().len(), MAX_PREPARED);
    for gid in names(&db) {
        db.rollback_prepared(&gid).unwrap();
    }
    impatient(&db).lock_table("rate", LockMode::Exclusive, Busy::Wait).unwrap();
    assert_eq!(values(&mut db.begin()).len(), 5);
    clean(&db);
}

/// Thousands of statements in many runs of xids, some undone, on several pages of outcomes.
#[test]
fn a_long_transaction_keeps_what_was_not_undone() {
    let disk = SimDisk::new(6);
    let (db, _) = rates(&disk, 0);
    let (mut txn, mut rng, mut expected) = (db.begin(), Rng::from_seed(6), BTreeSet::new());
    let mut others = 0;
    for key in 0..6000 {
        let mark = txn.savepoint();
        txn.insert("rate", &row(key, 0)).unwrap();
        match rng.below(40) {
            0 => txn.rollback_to(mark).unwrap(),
            _ => drop(expected.insert((key, 0))),
        }
        txn.release(mark).unwrap();
        if key % 500 == 0 {
            let mut other = db.begin();
            other.insert("rate", &row(10_000 + key, 0)).unwrap();
            other.commit().unwrap();
            others += 1;
        }
    }
    txn.prepare("long", "").unwrap();
    let (disk, db) = cut_power(&disk);
    assert_eq!(values(&mut db.begin()).len(), others);
    let mut before = db.begin();
    assert_eq!(values(&mut before).len(), others);
    db.commit_prepared("long").unwrap();
    assert_eq!(values(&mut before).len(), others, "it came later");
    drop(before);
    for db in [&db, &cut_power(&disk).1] {
        let found: BTreeSet<_> =
            values(&mut db.begin()).into_iter().filter(|(key, _)| *key < 6000).collect();
        assert_eq!(found, expected);
        clean(db);
    }
}

#[test]
fn a_copy_has_it_too() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to, back) =
        (dir.path().join("from"), dir.path().join("to"), dir.path().join("back"));
    let db = Database::open(&from).unwrap();
    let mut txn = db.begin();
    let schema = TableSchema::new("rate").column("id", Type::Int8).column("value", Type::Int8);
    txn.create_table(&schema.primary_key(["id"])).unwrap();
    let rows: Vec<_> = (0..5).map(|id| row(id, 0)).collect();
    txn.insert_many("rate", &rows).unwrap();
    txn.commit().unwrap();
    prepare(&db, "one");
    db.backup(&to).unwrap();
    db.rollback_prepared("one").unwrap();
    Database::restore(&to, &back).unwrap();
    let copy = Database::open(&back).unwrap();
    is_undecided(&copy);
    copy.commit_prepared("one").unwrap();
    assert_eq!(values(&mut copy.begin()), [(0, 0), (1, 1), (3, 0), (4, 0), (10, 1)]);
    clean(&copy);
}

#[test]
fn broken_rules_are_caught() {
    let checks: [(&str, fn()); 2] = [
        ("shared rows", shared_rows_stay_locked),
        ("long transaction", a_long_transaction_keeps_what_was_not_undone),
    ];
    for (rule, check) in [
        (Broken::RestoredLocksForgotten, checks[0]),
        (Broken::RestoredCommitNumberIgnored, checks[1]),
    ] {
        assert!(points::caught(rule, &[check]).is_some(), "{rule}: nobody noticed");
    }
}
