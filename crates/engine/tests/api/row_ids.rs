//! What a row id names: writes by row ids that an earlier statement of the transaction gave out,
//! while the rows go on changing.

use rightlink::{
    Busy, Database, IndexSchema, Isolation, RowId, RowLock, ScanOptions, TableSchema, Transaction,
    TransactionOptions, Type, Value,
};
use rightlink_env::Broken;
use rightlink_env::sync::{AtomicBool, Ordering};
use rightlink_env::{Rng, points};

const ROWS: i64 = 20;

/// `note` is in no index, `name` in one.
fn database() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    let schema = TableSchema::new("t")
        .column("id", Type::Int8)
        .column("name", Type::Int8)
        .column("note", Type::Int8)
        .primary_key(["id"])
        .index(IndexSchema::new("by_name").on("name"));
    txn.create_table(&schema).unwrap();
    let rows: Vec<_> = (0..ROWS).map(|id| row(id, 0, 0)).collect();
    txn.insert_many("t", &rows).unwrap();
    txn.commit().unwrap();
    (dir, db)
}

fn row(id: i64, name: i64, note: i64) -> Vec<Value> {
    vec![Value::Int8(id), Value::Int8(name), Value::Int8(note)]
}

fn begin(db: &Database, isolation: Isolation) -> Transaction {
    db.begin_with(TransactionOptions { isolation, ..TransactionOptions::default() })
}

fn find(txn: &mut Transaction, id: i64) -> RowId {
    txn.get("t", &[Value::Int8(id)]).unwrap().expect("the row").id
}

/// Sets a column of a row in a transaction of its own.
fn set(db: &Database, id: i64, column: &str, value: i64) {
    let mut txn = db.begin();
    let at = find(&mut txn, id);
    assert!(txn.update("t", at, &[(column, Value::Int8(value))]).unwrap());
    txn.commit().unwrap();
}

fn rows(db: &Database) -> Vec<Vec<Value>> {
    assert!(db.verify().unwrap().is_clean());
    let mut txn = db.begin();
    let found = txn.scan("t", &ScanOptions::index("t_pkey")).unwrap();
    found.map(|row| row.unwrap().values).collect()
}

/// Under read committed the rows that a scan gave out are changed by others before they are
/// written, also so that their place goes to another version, vacuum included: each write meets its
/// own row.
#[test]
fn row_ids_of_a_scan_stay_good_under_read_committed() {
    for column in ["name", "note"] {
        let (_dir, db) = database();
        let mut txn = begin(&db, Isolation::ReadCommitted);
        let found: Vec<_> =
            txn.scan("t", &ScanOptions::all()).unwrap().map(Result::unwrap).collect();
        for round in 1..30 {
            (0..ROWS).for_each(|id| set(&db, id, column, round));
            db.vacuum(None).unwrap();
        }
        for row in &found {
            let Value::Int8(id) = row.values[0] else { panic!("{row:?}") };
            let other = if column == "name" { "note" } else { "name" };
            assert!(txn.update("t", row.id, &[(other, Value::Int8(id))]).unwrap(), "row {id}");
        }
        txn.commit().unwrap();
        let expected = (0..ROWS).map(|id| match column {
            "name" => row(id, 29, id),
            _ => row(id, id, 29),
        });
        assert_eq!(rows(&db), expected.collect::<Vec<_>>());
    }
}

/// A row id goes on naming its row after the transaction's own changes of it, whether its index
/// keys changed or not, and names nothing once the transaction has deleted it.
#[test]
fn a_row_is_written_again_by_the_same_row_id() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
        let (_dir, db) = database();
        let mut txn = begin(&db, isolation);
        let found = find(&mut txn, 3);
        let inserted = txn.insert("t", &row(ROWS, 0, 0)).unwrap();
        for at in [found, inserted] {
            for n in 1..5 {
                assert!(txn.update("t", at, &[("name", Value::Int8(n))]).unwrap());
                assert!(txn.update("t", at, &[("note", Value::Int8(n))]).unwrap());
            }
            assert_eq!(txn.update_many("t", &[at], &[("note", Value::Int8(5))]).unwrap(), 1);
            assert!(txn.lock_row("t", at, RowLock::Exclusive, Busy::Wait).unwrap());
        }
        let last = find(&mut txn, 4);
        assert!(txn.update("t", last, &[("name", Value::Int8(9))]).unwrap());
        assert!(txn.delete("t", last).unwrap());
        assert!(!txn.delete("t", last).unwrap());
        assert!(!txn.update("t", last, &[("name", Value::Int8(9))]).unwrap());
        txn.commit().unwrap();
        let mut expected: Vec<_> = (0..=ROWS).map(|id| row(id, 0, 0)).collect();
        expected[3] = row(3, 4, 5);
        expected[ROWS as usize] = row(ROWS, 4, 5);
        expected.remove(4);
        assert_eq!(rows(&db), expected);
    }
}

/// What a savepoint takes back is no longer where the row id leads.
#[test]
fn a_rolled_back_change_is_not_followed() {
    for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
        let (_dir, db) = database();
        let mut txn = begin(&db, isolation);
        let at = find(&mut txn, 3);
        assert!(txn.update("t", at, &[("name", Value::Int8(1))]).unwrap());
        let savepoint = txn.savepoint();
        assert!(txn.update("t", at, &[("name", Value::Int8(2))]).unwrap());
        assert!(txn.delete("t", at).unwrap());
        txn.rollback_to(savepoint).unwrap();
        assert!(txn.update("t", at, &[("note", Value::Int8(7))]).unwrap());
        txn.commit().unwrap();
        assert_eq!(rows(&db)[3], row(3, 1, 7));
    }
}

/// Another transaction's change since is a conflict under snapshot isolation, not a row that is
/// gone.
#[test]
fn a_row_changed_since_is_a_conflict_under_snapshot_isolation() {
    let (_dir, db) = database();
    for column in ["name", "note"] {
        let mut txn = begin(&db, Isolation::Snapshot);
        let at = find(&mut txn, 3);
        set(&db, 3, column, 8);
        let error = txn.update("t", at, &[("note", Value::Int8(1))]).unwrap_err();
        assert!(error.is_retryable(), "{error}");
    }
    assert_eq!(rows(&db)[3], row(3, 8, 8));
}

/// Has `count` transactions waiting.
fn until_waiting(db: &Database, count: usize) {
    while db.locks().iter().filter(|lock| !lock.granted).count() < count {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Many wait for one row, each since another commit. None of them keeps what it has seen of it: a
/// row has no more versions for being waited for by more.
#[test]
fn who_waits_for_a_row_keeps_no_version_of_it() {
    const WAITING: i64 = 12;
    for deletes in [false, true] {
        let (_dir, db) = database();
        let mut holder = begin(&db, Isolation::ReadCommitted);
        let at = find(&mut holder, 3);
        assert!(holder.update("t", at, &[("name", Value::Int8(100))]).unwrap());
        let change = |n: i64| {
            let mut txn = begin(&db, Isolation::ReadCommitted);
            let at = find(&mut txn, 3);
            let done = match deletes && n == 5 {
                true => txn.delete("t", at).unwrap(),
                false => txn.update("t", at, &[("name", Value::Int8(n))]).unwrap(),
            };
            // It names its row still, if that is there.
            let again = txn.update("t", at, &[("note", Value::Int8(n))]).unwrap();
            assert_eq!(again, done && !(deletes && n == 5));
            txn.commit().unwrap();
            i64::from(done)
        };
        let done: i64 = std::thread::scope(|scope| {
            let mut waiting = Vec::new();
            for n in 0..WAITING {
                set(&db, 7, "note", n);
                waiting.push(scope.spawn(move || change(n)));
                until_waiting(&db, waiting.len());
            }
            set(&db, 7, "note", WAITING);
            // That of the holder's row id, and the one with which they look for the row.
            assert!(db.snapshots().len() <= 2, "{:?}", db.snapshots());
            holder.commit().unwrap();
            waiting.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(db.snapshots().is_empty());
        assert_eq!(done, if deletes { 6 } else { WAITING }, "in the order of arrival");
        let left = rows(&db);
        match deletes {
            true => assert_eq!(left.len() as i64, ROWS - 1),
            false => assert_eq!(left[3], row(3, WAITING - 1, WAITING - 1)),
        }
    }
}

/// The version with the row id leaves while its transaction waits for the row, and the place is
/// given to a row that the same transaction inserts. It does not know two rows by one id.
#[test]
fn a_row_id_does_not_come_to_mean_another_row() {
    let (_dir, db) = database();
    let mut holder = begin(&db, Isolation::ReadCommitted);
    let at = find(&mut holder, 3);
    assert!(holder.update("t", at, &[("name", Value::Int8(100))]).unwrap());
    std::thread::scope(|scope| {
        let wait = || {
            let mut txn = begin(&db, Isolation::ReadCommitted);
            let at = find(&mut txn, 3);
            assert!(txn.update("t", at, &[("name", Value::Int8(200))]).unwrap());
            (txn, at)
        };
        let first = scope.spawn(wait);
        until_waiting(&db, 1);
        let second = scope.spawn(wait);
        until_waiting(&db, 2);
        holder.commit().unwrap();
        first.join().unwrap().0.commit().unwrap();
        let (mut txn, at) = second.join().unwrap();
        db.vacuum(None).unwrap();
        db.vacuum(None).unwrap();
        let refused = (0..200).find_map(|n| match txn.insert("t", &row(1000 + n, 0, 0)) {
            Ok(id) => {
                assert_ne!(id, at, "the id of row 3");
                None
            }
            Err(error) => Some(error),
        });
        assert!(refused.expect("the place is free").is_retryable());
        assert!(txn.update("t", at, &[("note", Value::Int8(5))]).unwrap());
        txn.commit().unwrap();
    });
    assert_eq!(rows(&db)[3], row(3, 200, 5));
}

/// The second of three who wait takes the row and rolls back: what it made is no version to begin
/// at. The third begins at the one that the second took, which the queue has kept for it.
fn third_after_a_rollback(broken: bool) -> bool {
    let broken_rule = || broken.then(|| points::break_rule(Broken::AnchorNotMoved));
    let (_dir, db) = database();
    let mut holder = begin(&db, Isolation::ReadCommitted);
    let at = find(&mut holder, 3);
    assert!(holder.update("t", at, &[("name", Value::Int8(100))]).unwrap());
    let (go, may_go) = std::sync::mpsc::channel::<()>();
    let done = std::thread::scope(|scope| {
        let (db, broken_rule) = (&db, &broken_rule);
        let wait = move |n: i64| {
            let _broken = broken_rule();
            let mut txn = begin(db, Isolation::ReadCommitted);
            let at = find(&mut txn, 3);
            let done = txn.update("t", at, &[("name", Value::Int8(n))]).unwrap();
            (txn, done)
        };
        let first = scope.spawn(move || wait(101));
        until_waiting(db, 1);
        let second = scope.spawn(move || {
            let (txn, done) = wait(102);
            may_go.recv().unwrap();
            txn.rollback();
            done
        });
        until_waiting(db, 2);
        let third = scope.spawn(move || wait(103));
        until_waiting(db, 3);
        holder.commit().unwrap();
        let (txn, done) = first.join().unwrap();
        assert!(done);
        txn.commit().unwrap();
        until_waiting(db, 1);
        // What they found when they came has gone, and its place is another row's.
        for _ in 0..3 {
            db.vacuum(None).unwrap();
        }
        let mut txn = db.begin();
        let rows: Vec<_> = (1000..1100).map(|id| row(id, 0, 0)).collect();
        txn.insert_many("t", &rows).unwrap();
        txn.commit().unwrap();
        go.send(()).unwrap();
        assert!(second.join().unwrap());
        let (txn, done) = third.join().unwrap();
        txn.commit().unwrap();
        done
    });
    done && rows(&db)[3] == row(3, 103, 0)
}

#[test]
fn who_waits_behind_a_rollback_finds_the_row() {
    assert!(third_after_a_rollback(false));
    assert!(!third_after_a_rollback(true), "an anchor that is not moved on is noticed");
}

/// Who waits for a version that was made after its snapshot lets that go, and with it what keeps
/// vacuum from freezing the creator by which it knows the version. It is the version all the same.
fn frozen_while_waited_for(broken: bool) -> bool {
    let broken_rule = || broken.then(|| points::break_rule(Broken::FrozenVersionNotRecognised));
    let (_dir, db) = database();
    let done = std::thread::scope(|scope| {
        let (db, broken_rule) = (&db, &broken_rule);
        let (began, has_begun) = std::sync::mpsc::channel();
        let (go, may_go) = std::sync::mpsc::channel();
        let waiter = scope.spawn(move || {
            let _broken = broken_rule();
            let mut txn = begin(db, Isolation::ReadCommitted);
            let at = find(&mut txn, 3);
            let written = txn.write("t", |writer| {
                began.send(()).unwrap();
                may_go.recv().unwrap();
                writer.read_no_more();
                let new = |old: &[Value]| vec![old[0].clone(), Value::Int8(103), old[2].clone()];
                writer.update(at, &mut |_, old| Ok(Some(new(old))))
            });
            txn.commit().unwrap();
            matches!(written.unwrap(), rightlink::Written::Done(_))
        });
        has_begun.recv().unwrap();
        set(db, 3, "name", 100);
        let mut holder = begin(db, Isolation::ReadCommitted);
        let at = find(&mut holder, 3);
        assert!(holder.update("t", at, &[("name", Value::Int8(101))]).unwrap());
        go.send(()).unwrap();
        until_waiting(db, 1);
        for _ in 0..3 {
            db.vacuum(None).unwrap();
        }
        holder.rollback();
        waiter.join().unwrap()
    });
    done && rows(&db)[3] == row(3, 103, 0)
}

#[test]
fn a_version_that_is_frozen_while_it_is_waited_for_is_found() {
    assert!(frozen_while_waited_for(false));
    assert!(!frozen_while_waited_for(true), "that it was frozen is noticed");
}

/// Many count in few rows, beside vacuum; some give up waiting, some roll back. Every count that
/// was committed is there.
#[test]
fn hot_rows_count_every_update() {
    let (_dir, db) = database();
    let stop = AtomicBool::new(false);
    let counted: i64 = std::thread::scope(|scope| {
        let vacuum = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                db.vacuum(None).unwrap();
            }
        });
        let db = &db;
        let count = |seed: u64| {
            let (mut rng, mut counted) = (Rng::from_seed(seed), 0);
            for _ in 0..120 {
                let mut txn = begin(db, Isolation::ReadCommitted);
                if rng.chance(1, 8) {
                    txn.settings()
                        .lock_timeout(Some(std::time::Duration::from_millis(rng.below(3))));
                }
                let at = find(&mut txn, rng.below(3) as i64);
                // Under read committed the newest version is read where it is locked.
                let written = txn.write("t", |writer| {
                    writer.read_no_more();
                    writer.update(at, &mut |_, old| {
                        let [id, Value::Int8(name), Value::Int8(note)] = old else {
                            panic!("a row")
                        };
                        Ok(Some(vec![id.clone(), Value::Int8(name + 1), Value::Int8(note + 1)]))
                    })
                });
                match written {
                    Ok(rightlink::Written::Done(_)) if !rng.chance(1, 6) => {
                        txn.commit().unwrap();
                        counted += 1;
                    }
                    Ok(rightlink::Written::Done(_)) | Err(rightlink::Error::LockTimeout { .. }) => {
                    }
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                    Ok(other) => panic!("{other:?}"),
                }
            }
            counted
        };
        let counting: Vec<_> = (0..8).map(|seed| scope.spawn(move || count(seed))).collect();
        let counted: Vec<_> = counting.into_iter().map(|thread| thread.join()).collect();
        // Vacuum is to end where one of them failed, too.
        stop.store(true, Ordering::Relaxed);
        vacuum.join().unwrap();
        counted.into_iter().map(Result::unwrap).sum()
    });
    let left = rows(&db);
    let sum: i64 =
        left[..3].iter().map(|row| if let Value::Int8(n) = row[2] { n } else { 0 }).sum();
    assert_eq!(sum, counted);
    assert!(left[..3].iter().all(|row| row[1] == row[2]));
}
