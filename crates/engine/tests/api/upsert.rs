//! Rows that are inserted or change those that have their key already; rows that others have.
//!
//! Does not do: crashes (`crash.rs`), all schedules (`table/tests/schedules.rs`).

use rightlink::{
    Busy, ConflictKind, Database, Error, IndexSchema, Isolation, OnConflict, Result, RowLock,
    ScanOptions, TableSchema, Transaction, TransactionOptions, Type, Upserted, Value,
};

/// `id` (the key), `name` (unique, may be null), `n`.
fn counters() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let schema = TableSchema::new("t")
        .column("id", Type::Int8)
        .nullable("name", Type::Text)
        .column("n", Type::Int8)
        .primary_key(["id"])
        .index(IndexSchema::new("t_name").on("name").unique())
        .index(IndexSchema::new("t_n").on("n"));
    let mut txn = db.begin();
    txn.create_table(&schema).unwrap();
    txn.commit().unwrap();
    (dir, db)
}

fn row(id: i64, name: Option<&str>, n: i64) -> Vec<Value> {
    let name = name.map_or(Value::Null, |name| Value::Text(name.into()));
    vec![Value::Int8(id), name, Value::Int8(n)]
}

fn add(old: &[Value], new: &[Value]) -> Result<Option<Vec<Value>>> {
    match (&old[2], &new[2]) {
        (Value::Int8(a), Value::Int8(b)) => {
            Ok(Some(vec![old[0].clone(), old[1].clone(), Value::Int8(a + b)]))
        }
        other => panic!("{other:?}"),
    }
}

fn all(db: &Database) -> Vec<Vec<Value>> {
    let mut txn = db.begin();
    let rows = txn.scan("t", &ScanOptions::index("t_pkey")).unwrap();
    rows.map(|row| row.unwrap().values).collect()
}

fn committed(db: &Database) -> Transaction {
    let isolation = Isolation::ReadCommitted;
    db.begin_with(TransactionOptions { isolation, ..Default::default() })
}

fn clean(db: &Database) {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn a_row_is_inserted_or_changes_the_one_with_its_key() {
    let (_dir, db) = counters();
    let mut txn = db.begin();
    let rows = [row(1, Some("a"), 1), row(2, None, 1), row(3, None, 1)];
    let done =
        txn.insert_into("t").or_update(OnConflict::Columns(&["id"]), &rows, &mut add).unwrap();
    assert!(done.iter().all(|one| matches!(one, Upserted::Inserted(_))), "{done:?}");
    let rows = [row(2, None, 5), row(4, None, 5)];
    let done =
        txn.insert_into("t").or_update(OnConflict::Index("t_pkey"), &rows, &mut add).unwrap();
    assert!(matches!(done[..], [Upserted::Updated(_), Upserted::Inserted(_)]), "{done:?}");
    // The name of row 1 is in the way of a row with another key.
    let rows = [row(9, Some("a"), 7), row(5, None, 5), row(3, None, 7)];
    let done = txn.insert_into("t").or_skip(OnConflict::Any, &rows).unwrap();
    use Upserted::{Inserted, Untouched};
    assert!(matches!(done[..], [Untouched(_), Inserted(_), Untouched(_)]), "{done:?}");
    let taken = txn.insert_into("t").or_skip(OnConflict::Columns(&["id"]), &[row(9, Some("a"), 7)]);
    assert!(matches!(taken, Err(Error::UniqueViolation { index, .. }) if index == "t_name"));
    let none = txn.insert_into("t").or_skip(OnConflict::Columns(&["n"]), &[row(9, None, 7)]);
    assert!(matches!(none, Err(Error::Invalid(_))), "no unique index");
    txn.commit().unwrap();
    let wanted = [(1, Some("a"), 1), (2, None, 6), (3, None, 1), (4, None, 5), (5, None, 5)];
    assert_eq!(all(&db), wanted.map(|(id, name, n)| row(id, name, n)));
    clean(&db);
}

#[test]
fn a_statement_does_not_change_its_own_rows() {
    let (_dir, db) = counters();
    for isolation in [Isolation::Snapshot, Isolation::ReadCommitted] {
        let mut txn = db.begin_with(TransactionOptions { isolation, ..Default::default() });
        let twice = [row(1, None, 1), row(1, None, 2)];
        let done = txn.insert_into("t").or_update(OnConflict::Any, &twice, &mut add);
        assert!(matches!(done, Err(Error::KeyTwice(_))), "{done:?}");
        let done = txn.insert_into("t").or_skip(OnConflict::Any, &twice).unwrap();
        assert!(matches!(done[..], [Upserted::Inserted(_), Upserted::Untouched(_)]), "{done:?}");
        assert_eq!(txn.get("t", &[Value::Int8(1)]).unwrap().unwrap().values, row(1, None, 1));
        // An earlier statement's row is changed, but once.
        let done = txn.insert_into("t").or_update(OnConflict::Any, &twice, &mut add);
        assert!(matches!(done, Err(Error::KeyTwice(_))), "{done:?}");
        let done = txn.insert_into("t").or_update(OnConflict::Any, &twice[..1], &mut add).unwrap();
        assert!(matches!(done[..], [Upserted::Updated(_)]), "{done:?}");
        // The condition that would spare the row is not asked.
        let mut spare = |_: &[Value], _: &[Value]| -> Result<_> { panic!("asked about own rows") };
        let rows = [row(3, None, 1), row(3, None, 2)];
        let done = txn.insert_into("t").or_update(OnConflict::Any, &rows, &mut spare);
        assert!(matches!(done, Err(Error::KeyTwice(_))), "{done:?}");
        // Whatever way the statement wrote it.
        let both = txn.write("t", |writer| {
            writer.insert_many(&[row(2, None, 1)])?;
            writer.upsert(OnConflict::Any, &[row(2, None, 1)], Some(&mut add))
        });
        assert!(matches!(both, Err(Error::KeyTwice(_))), "{both:?}");
        let skipped = txn.write("t", |writer| {
            writer.insert_many(&[row(2, None, 1)])?;
            writer.upsert(OnConflict::Any, &[row(2, None, 1)], None)
        });
        assert!(matches!(skipped.unwrap()[..], [Upserted::Untouched(_)]));
    }
    clean(&db);
}

#[test]
fn a_key_that_appeared_since_the_snapshot_is_a_conflict_or_changed() {
    let (_dir, db) = counters();
    let mut old = db.begin();
    assert!(old.get("t", &[Value::Int8(1)]).unwrap().is_none());
    let mut other = db.begin();
    other.insert("t", &row(1, None, 1)).unwrap();
    other.commit().unwrap();
    for merge in [add, |_: &[Value], _: &[Value]| Ok(None)] {
        let done =
            old.insert_into("t").or_update(OnConflict::Any, &[row(1, None, 1)], &mut { merge });
        assert!(done.is_err_and(|error| error.is_retryable()));
    }
    let mut new = committed(&db);
    let done =
        new.insert_into("t").or_update(OnConflict::Any, &[row(1, None, 1)], &mut add).unwrap();
    assert!(matches!(done[..], [Upserted::Updated(_)]));
    new.commit().unwrap();
    assert_eq!(all(&db), [row(1, None, 2)]);
    clean(&db);
}

/// Every increment of every thread counts once, whichever of them inserts the row, beside deletions
/// that make the keys free again.
#[test]
fn increments_by_upsert_are_not_lost() {
    let (_dir, db) = counters();
    let deleted: i64 = std::thread::scope(|scope| {
        for thread in 0..3 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..150 {
                    let rows = [row((round + thread) % 7, None, 1)];
                    let mut txn = committed(db);
                    let _ =
                        txn.insert_into("t").or_update(OnConflict::Any, &rows, &mut add).unwrap();
                    txn.commit().unwrap();
                }
            });
        }
        let db = &db;
        let deleter = scope.spawn(move || {
            let mut sum = 0;
            for round in 0..100 {
                let mut txn = committed(db);
                let found = txn.get("t", &[Value::Int8(round % 7)]).unwrap();
                let Some(found) = found else { continue };
                for gone in txn.delete_returning("t", &[found.id]).unwrap() {
                    assert_eq!(gone.new, None);
                    match gone.old[2] {
                        Value::Int8(n) => sum += n,
                        ref other => panic!("{other:?}"),
                    }
                }
                txn.commit().unwrap();
            }
            sum
        });
        deleter.join().unwrap()
    });
    let left: i64 = all(&db)
        .iter()
        .map(|row| match row[2] {
            Value::Int8(n) => n,
            ref other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(left + deleted, 450, "{left} left, {deleted} deleted");
    db.vacuum(None).unwrap();
    clean(&db);
}

#[test]
fn statements_give_back_what_they_changed() {
    let (_dir, db) = counters();
    let mut txn = db.begin();
    let ids = txn.insert_many("t", &[row(1, None, 1), row(2, None, 2)]).unwrap();
    let changed = txn.update_returning("t", &ids, &[("n", Value::Int8(9))]).unwrap();
    let told: Vec<_> = changed.iter().map(|row| (row.old.clone(), row.new.clone())).collect();
    let wanted = [1, 2].map(|id| (row(id, None, id), Some(row(id, None, 9))));
    assert_eq!(told, wanted);
    let ids: Vec<_> = changed.iter().map(|row| row.id).collect();
    let gone = txn.delete_returning("t", &ids).unwrap();
    assert_eq!(
        gone.iter().map(|row| row.old.clone()).collect::<Vec<_>>(),
        [1, 2].map(|id| row(id, None, 9))
    );
    assert_eq!(txn.delete_returning("t", &ids).unwrap(), []);
    txn.commit().unwrap();
    clean(&db);
}

#[test]
fn a_row_that_another_has_is_refused_or_left_out() {
    let (_dir, db) = counters();
    let mut txn = db.begin();
    let id = txn.insert("t", &row(1, None, 1)).unwrap();
    txn.commit().unwrap();
    let mut holder = db.begin();
    assert!(holder.lock_row("t", id, RowLock::Exclusive, Busy::Wait).unwrap());
    let mut other = db.begin();
    match other.lock_row("t", id, RowLock::Exclusive, Busy::Fail) {
        Err(Error::Conflict { kind: ConflictKind::RowLocked, .. }) => {}
        locked => panic!("{locked:?}"),
    }
    assert!(!other.lock_row("t", id, RowLock::Exclusive, Busy::Skip).unwrap());
    drop(holder);
    assert!(
        other.lock_row("t", id, RowLock::Exclusive, Busy::Fail).unwrap(),
        "the transaction went on"
    );
    clean(&db);
}
