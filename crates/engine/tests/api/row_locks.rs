//! Rows that several transactions lock at a time: who waits for whom, and what is left of it.

use std::time::Duration;

use rightlink::{
    Busy, ConflictKind, Database, Error, Isolation, Result, RowId, RowLock, TableSchema,
    Transaction, TransactionOptions, Type, Value,
};
use rightlink_env::sync::{AtomicU64, Ordering};
use rightlink_env::{Rng, thread};

fn rates(dir: &std::path::Path, count: i64) -> (Database, Vec<RowId>) {
    let db = Database::open(dir).unwrap();
    let mut txn = db.begin();
    let schema = TableSchema::new("rate")
        .column("id", Type::Int8)
        .column("value", Type::Int8)
        .primary_key(["id"]);
    txn.create_table(&schema).unwrap();
    let rows: Vec<_> = (0..count).map(|id| vec![Value::Int8(id), Value::Int8(0)]).collect();
    let ids = txn.insert_many("rate", &rows).unwrap();
    txn.commit().unwrap();
    (db, ids)
}

fn begin(db: &Database) -> Transaction {
    db.begin_with(TransactionOptions { isolation: Isolation::ReadCommitted, ..Default::default() })
}

fn is_busy(result: Result<bool>) -> bool {
    match result {
        Ok(locked) => !locked,
        Err(Error::Conflict { kind: ConflictKind::RowLocked, .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

fn clean(db: &Database) {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn a_change_waits_until_nobody_shares_the_row() {
    let dir = tempfile::tempdir().unwrap();
    let (db, ids) = rates(dir.path(), 1);
    let mut sharers: Vec<_> = (0..3).map(|_| begin(&db)).collect();
    for sharer in &mut sharers {
        assert!(sharer.lock_row("rate", ids[0], RowLock::Shared, Busy::Fail).unwrap());
    }
    let mut other = begin(&db);
    assert!(is_busy(other.lock_row("rate", ids[0], RowLock::Exclusive, Busy::Fail)));
    assert!(!other.lock_row("rate", ids[0], RowLock::Exclusive, Busy::Skip).unwrap(), "left out");
    other.rollback();
    let left = std::sync::Arc::new(AtomicU64::new(3));
    let writer = {
        let (db, row, left) = (db.clone(), ids[0], left.clone());
        thread::spawn("writer", move || {
            let mut txn = begin(&db);
            assert!(txn.update("rate", row, &[("value", Value::Int8(1))]).unwrap());
            assert_eq!(left.load(Ordering::SeqCst), 0, "somebody shares the row still");
            txn.commit().unwrap();
        })
    };
    for sharer in sharers {
        thread::sleep(Duration::from_millis(5));
        left.fetch_sub(1, Ordering::SeqCst);
        sharer.commit().unwrap();
    }
    writer.join().unwrap();
    clean(&db);
}

/// What refers to a row wants its keys to stay; the rest of it may change meanwhile.
#[test]
fn who_shares_the_keys_of_a_row_lets_the_rest_change() {
    let dir = tempfile::tempdir().unwrap();
    let (db, ids) = rates(dir.path(), 1);
    let (mut one, mut two) = (begin(&db), begin(&db));
    for txn in [&mut one, &mut two] {
        assert!(txn.lock_row("rate", ids[0], RowLock::KeyShared, Busy::Fail).unwrap());
    }
    // Each of the two changes the row, one after the other, and nobody is in a deadlock.
    for (mut txn, value) in [(one, 1), (two, 2)] {
        assert!(txn.update("rate", ids[0], &[("value", Value::Int8(value))]).unwrap());
        txn.commit().unwrap();
    }
    let mut sharer = begin(&db);
    let row = sharer.get("rate", &[Value::Int8(0)]).unwrap().unwrap();
    assert_eq!(row.values[1], Value::Int8(2));
    assert!(sharer.lock_row("rate", row.id, RowLock::KeyShared, Busy::Fail).unwrap());
    for key in [3, 4] {
        let mut other = begin(&db);
        let row = other.get("rate", &[Value::Int8(0)]).unwrap().unwrap();
        assert!(other.update("rate", row.id, &[("value", Value::Int8(key))]).unwrap());
        other.commit().unwrap();
        let mut other = begin(&db);
        let row = other.get("rate", &[Value::Int8(0)]).unwrap().unwrap().id;
        let exclusive = other.lock_row("rate", row, RowLock::Exclusive, Busy::Fail);
        assert!(is_busy(exclusive), "the new version is shared as the old one was");
        assert!(other.lock_row("rate", row, RowLock::Update, Busy::Fail).unwrap());
    }
    sharer.commit().unwrap();
    let mut other = begin(&db);
    let row = other.get("rate", &[Value::Int8(0)]).unwrap().unwrap().id;
    assert!(other.update("rate", row, &[("id", Value::Int8(7))]).unwrap());
    other.commit().unwrap();
    clean(&db);
}

#[test]
fn two_who_share_a_row_and_both_change_it_are_a_deadlock() {
    let dir = tempfile::tempdir().unwrap();
    let (db, ids) = rates(dir.path(), 1);
    let (mut one, mut two) = (begin(&db), begin(&db));
    for txn in [&mut one, &mut two] {
        assert!(txn.lock_row("rate", ids[0], RowLock::Shared, Busy::Wait).unwrap());
    }
    let changer = {
        let row = ids[0];
        thread::spawn("changer", move || {
            let changed = one.update("rate", row, &[("value", Value::Int8(1))]);
            changed.and_then(|_| one.commit())
        })
    };
    let second = two.update("rate", ids[0], &[("value", Value::Int8(2))]);
    let second = second.and_then(|_| two.commit());
    let first = changer.join().unwrap();
    let is_deadlock = |result: &Result<()>| {
        matches!(result, Err(Error::Conflict { kind: ConflictKind::Deadlock, .. }))
    };
    assert!(is_deadlock(&first) != is_deadlock(&second), "{first:?} {second:?}");
    assert!(first.is_ok() != second.is_ok());
    clean(&db);
}

#[test]
fn a_savepoint_lets_go_of_its_locks_only() {
    let dir = tempfile::tempdir().unwrap();
    let (db, ids) = rates(dir.path(), 2);
    let mut txn = begin(&db);
    assert!(txn.lock_row("rate", ids[0], RowLock::Shared, Busy::Wait).unwrap());
    let savepoint = txn.savepoint();
    assert!(txn.lock_row("rate", ids[1], RowLock::Shared, Busy::Wait).unwrap());
    assert!(txn.update("rate", ids[0], &[("value", Value::Int8(5))]).unwrap());
    txn.rollback_to(savepoint).unwrap();
    let mut other = begin(&db);
    assert!(other.lock_row("rate", ids[1], RowLock::Exclusive, Busy::Fail).unwrap());
    assert!(
        is_busy(other.lock_row("rate", ids[0], RowLock::Exclusive, Busy::Fail)),
        "shared before the savepoint"
    );
    assert!(other.lock_row("rate", ids[0], RowLock::Shared, Busy::Fail).unwrap());
    other.commit().unwrap();
    txn.commit().unwrap();
    clean(&db);
}

#[test]
fn locks_end_with_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let (db, ids) = rates(dir.path(), 20);
    let mut sharers = [begin(&db), begin(&db)];
    for sharer in &mut sharers {
        for id in &ids {
            assert!(sharer.lock_row("rate", *id, RowLock::Shared, Busy::Fail).unwrap());
        }
    }
    db.checkpoint().unwrap();
    drop(sharers);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    clean(&db);
    let mut txn = begin(&db);
    assert!(
        ids.iter().all(|id| txn.lock_row("rate", *id, RowLock::Exclusive, Busy::Fail).unwrap())
    );
    txn.commit().unwrap();
    db.vacuum(None).unwrap();
    clean(&db);
}

/// Transactions that share two rows and rely on what they read there, beside some that change both.
#[test]
fn what_is_shared_stands_still() {
    const THREADS: u64 = 4;
    let dir = tempfile::tempdir().unwrap();
    let (db, ids) = rates(dir.path(), 2);
    let done = std::sync::Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let workers: Vec<_> = (0..THREADS)
        .map(|seed| {
            let (db, ids, done) = (db.clone(), ids.clone(), done.clone());
            thread::spawn("worker", move || {
                let mut rng = Rng::from_seed(seed);
                for _ in 0..150 {
                    let changes = rng.chance(1, 3);
                    match turn(&db, &ids, changes) {
                        Ok(()) => drop(done[usize::from(changes)].fetch_add(1, Ordering::Relaxed)),
                        Err(Error::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert!(done.iter().all(|times| times.load(Ordering::Relaxed) > 20), "{done:?}");
    clean(&db);
}

fn value(txn: &mut Transaction, id: i64) -> Result<i64> {
    let row = txn.get("rate", &[Value::Int8(id)])?.expect("the row is never deleted");
    match row.values[1] {
        Value::Int8(value) => Ok(value),
        ref other => panic!("{other:?}"),
    }
}

fn turn(db: &Database, ids: &[RowId], changes: bool) -> Result<()> {
    let mut txn = begin(db);
    if changes {
        for id in 0..2 {
            let row = txn.get("rate", &[Value::Int8(id)])?.expect("the row is never deleted").id;
            assert!(txn.lock_row("rate", row, RowLock::Exclusive, Busy::Wait)?);
            let next = value(&mut txn, id)? + 1;
            let row = txn.get("rate", &[Value::Int8(id)])?.expect("the row is never deleted").id;
            assert!(txn.update("rate", row, &[("value", Value::Int8(next))])?);
        }
        return txn.commit();
    }
    for id in 0..ids.len() as i64 {
        let row = txn.get("rate", &[Value::Int8(id)])?.expect("the row is never deleted").id;
        assert!(txn.lock_row("rate", row, RowLock::Shared, Busy::Wait)?);
    }
    let before = (value(&mut txn, 0)?, value(&mut txn, 1)?);
    assert_eq!(before.0, before.1, "both are changed in one transaction");
    thread::yield_now();
    assert_eq!((value(&mut txn, 0)?, value(&mut txn, 1)?), before, "nobody changes them");
    txn.commit()
}
