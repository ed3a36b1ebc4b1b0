//! Statements that do not reach their end: a closure of the caller that panics, an error of a write
//! that the caller drops. Nothing of such a statement is ever committed, whatever the caller does
//! with the transaction afterwards.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rightlink::{
    AlterTable, Busy, ColumnSchema, ConflictKind, Database, Error, IndexSchema, Isolation,
    LockMode, OnConflict, RowLock, ScanOptions, SequenceChange, SequenceSchema, TableSchema,
    Transaction, TransactionOptions, Type, VacuumOptions, Value, Watch, Writer, Written,
};
use rightlink_env::points;

const ROWS: i64 = 50;

fn int(value: &Value) -> i64 {
    match value {
        Value::Int8(number) => *number,
        other => panic!("an int8, not {other:?}"),
    }
}

fn row(id: i64, v: i64) -> Vec<Value> {
    vec![Value::Int8(id), Value::Int8(v)]
}

fn numbers() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().auto_vacuum(false).open(dir.path()).unwrap();
    let mut txn = db.begin();
    let schema = TableSchema::new("t").column("id", Type::Int8).column("v", Type::Int8);
    let by_v = IndexSchema::new("t_v").on("v");
    txn.create_table(&schema.primary_key(["id"]).index(by_v)).unwrap();
    let rows: Vec<_> = (0..ROWS).map(|n| row(n, n)).collect();
    txn.insert_many("t", &rows).unwrap();
    txn.commit().unwrap();
    (dir, db)
}

/// Runs what panics, as a task runner would.
fn panics<T>(work: impl FnOnce() -> T) {
    let result = catch_unwind(AssertUnwindSafe(work));
    let payload = result.err().expect("the closure panics");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"the caller's"), "no other panic");
}

fn ids(txn: &mut Transaction) -> Vec<rightlink::RowId> {
    txn.scan("t", &ScanOptions::all()).unwrap().map(|row| row.unwrap().id).collect()
}

/// The table, by its heap and by both of its indexes, is what was committed, and is whole.
fn check(db: &Database, expected: &[(i64, i64)]) {
    let mut txn = db.begin();
    for options in [ScanOptions::all(), ScanOptions::index("t_pkey"), ScanOptions::index("t_v")] {
        let rows = txn.scan("t", &options).unwrap().map(|row| row.unwrap().values);
        let mut rows: Vec<_> = rows.map(|row| (int(&row[0]), int(&row[1]))).collect();
        rows.sort_unstable();
        assert_eq!(rows, expected, "by {options:?}");
    }
    for (id, v) in expected {
        let found = txn.get("t", &[Value::Int8(*id)]).unwrap().expect("it was found by a scan");
        assert_eq!(int(&found.values[1]), *v);
    }
    drop(txn);
    assert_eq!(db.verify().unwrap().findings, []);
}

fn unchanged() -> Vec<(i64, i64)> {
    (0..ROWS).map(|n| (n, n)).collect()
}

/// The transaction goes on after the statement, and its other statements stay.
fn goes_on(db: &Database, mut txn: Transaction) {
    txn.insert("t", &row(1000, 1)).unwrap();
    txn.commit().unwrap();
    let mut expected = unchanged();
    expected.push((1000, 1));
    check(db, &expected);
    db.vacuum(None).unwrap();
    check(db, &expected);
}

/// The entries of updated rows go in at the end of the statement: it used to be possible to commit
/// rows without any.
#[test]
fn a_panic_between_two_updates_leaves_no_row_without_entries() {
    let (_dir, db) = numbers();
    let mut txn = db.begin();
    let ids = ids(&mut txn);
    panics(|| {
        txn.write::<(), Error>("t", |writer| {
            for (n, id) in ids.iter().enumerate() {
                let _ = writer.update(*id, &mut |_, old| {
                    if n == 30 {
                        panic!("the caller's")
                    }
                    Ok(Some(row(int(&old[0]), 1000)))
                })?;
            }
            Ok(())
        })
    });
    goes_on(&db, txn);
}

#[test]
fn a_panic_outside_any_write_undoes_the_statement() {
    let (_dir, db) = numbers();
    let mut txn = db.begin();
    let ids = ids(&mut txn);
    panics(|| {
        txn.write::<(), Error>("t", |writer| {
            writer.insert_many(&[row(777, 1)])?;
            for id in &ids {
                let _ = writer.update(*id, &mut |_, old| Ok(Some(row(int(&old[0]), 1000))))?;
            }
            panic!("the caller's")
        })
    });
    goes_on(&db, txn);
}

/// Half a statement is not the whole one, also where the panic is caught inside of it.
#[test]
fn a_panic_that_is_caught_inside_fails_the_statement() {
    let (_dir, db) = numbers();
    let mut txn = db.begin();
    let ids = ids(&mut txn);
    let written = txn.write::<u32, Error>("t", |writer| {
        writer.insert_many(&[row(777, 1)])?;
        panics(|| writer.update(ids[0], &mut |_, _| panic!("the caller's")));
        let later = writer.insert_many(&[row(778, 1)]);
        assert!(matches!(later, Err(Error::TransactionAborted)), "{later:?}");
        Ok(5)
    });
    assert!(matches!(written, Err(Error::Invalid(_))), "{written:?}");
    goes_on(&db, txn);
}

/// Every closure that a statement calls.
#[test]
fn any_closure_may_panic() {
    let (_dir, db) = numbers();
    let mut txn = db.begin();
    let ids = ids(&mut txn);
    type Step<'s> = &'s dyn Fn(&mut Writer<'_>) -> Result<(), Error>;
    let steps: [Step<'_>; 5] = [
        &|writer| writer.update(ids[1], &mut |_, _| panic!("the caller's")).map(drop),
        &|writer| writer.delete(ids[2], &mut |_, _| panic!("the caller's")).map(drop),
        &|writer| writer.delete(ids[3], &mut |_, _| panic!("the caller's")).map(drop),
        &|writer| {
            writer
                .lock_row(
                    ids[4],
                    &mut |_, _| panic!("the caller's"),
                    RowLock::Exclusive,
                    Busy::Wait,
                )
                .map(drop)
        },
        &|writer| {
            let rows = [row(900, 1), row(5, 1)];
            writer
                .upsert(OnConflict::Any, &rows, Some(&mut |_, _| panic!("the caller's")))
                .map(drop)
        },
    ];
    for step in steps {
        panics(|| {
            txn.write::<(), Error>("t", |writer| {
                let _ = writer.update(ids[0], &mut |_, old| Ok(Some(row(int(&old[0]), 1000))))?;
                writer.insert_many(&[row(777, 1)])?;
                step(writer)
            })
        });
    }
    let rows = [row(900, 1), row(5, 1)];
    panics(|| {
        txn.insert_into("t").or_update(OnConflict::Any, &rows, &mut |_, _| panic!("the caller's"))
    });
    panics(|| txn.freeing(|_| panic!("the caller's")));
    goes_on(&db, txn);
}

#[test]
fn iterators_that_panic_insert_nothing() {
    struct Number(i64);
    impl rightlink::Record for Number {
        const TABLE: &'static str = "t";
        const COLUMNS: &'static [&'static str] = &["id", "v"];
        const GENERATED: &'static [&'static str] = &[];

        fn schema() -> TableSchema {
            TableSchema::new("t").column("id", Type::Int8).column("v", Type::Int8)
        }

        fn into_values(self) -> Vec<Value> {
            row(self.0, 0)
        }

        fn from_values(values: Vec<Value>) -> Result<Self, Error> {
            Ok(Number(int(&values[0])))
        }
    }
    let (_dir, db) = numbers();
    let mut txn = db.begin();
    let records = (100..200).map(|n| if n == 110 { panic!("the caller's") } else { Number(n) });
    panics(|| txn.insert_records(records));
    goes_on(&db, txn);
}

#[test]
fn definitions_are_undone_with_what_they_called() {
    let (_dir, db) = numbers();
    let mut txn = db.begin();
    txn.create_sequence(&SequenceSchema::new("s")).unwrap();
    let mut seen = 0;
    panics(|| {
        txn.alter_table(
            "t",
            AlterTable::ColumnType {
                column: "v",
                to: Type::Text,
                convert: &mut |value| {
                    seen += 1;
                    if seen == 20 {
                        panic!("the caller's")
                    } else {
                        Ok(Value::Text(int(&value).to_string()))
                    }
                },
                of_row: None,
            },
        )
    });
    panics(|| {
        let mut convert = Ok;
        let mut of_row = |_: &[Value]| panic!("the caller's");
        txn.alter_table(
            "t",
            AlterTable::ColumnType {
                column: "v",
                to: Type::Text,
                convert: &mut convert,
                of_row: Some(&mut of_row),
            },
        )
    });
    panics(|| {
        txn.alter_sequence("s", SequenceChange::Redefine(&mut |_, _| panic!("the caller's")))
    });
    assert_eq!(txn.next_value("s").unwrap(), 1);
    goes_on(&db, txn);
    // The name is free for others again.
    db.with_retry(|txn| txn.alter_table("t", AlterTable::DropColumn("v"))).unwrap_err();
    db.with_retry(|txn| txn.alter_table("t", AlterTable::Rename("u"))).unwrap();
    db.with_retry(|txn| txn.alter_table("u", AlterTable::Rename("t"))).unwrap();
    assert_eq!(db.verify().unwrap().findings, []);
}

/// It used to stay what everybody wrote to, and no other index could be built.
#[test]
fn a_build_that_panics_leaves_the_table_as_it_was() {
    let (dir, db) = numbers();
    let index = IndexSchema::new("t_x").on("v").on("id");
    let points = [
        "online.counted",
        "online.sorted",
        "online.built",
        "online.kept",
        "online.caught-up",
        "online.before-commit",
    ];
    let panic_at = |point| {
        points::install_local(move |name| {
            if name == point {
                panic!("the caller's")
            }
        })
    };
    for point in points {
        let hook = panic_at(point);
        panics(|| db.create_index_online("t", &index));
        panics(|| db.reindex("t", Some("t_v")));
        drop(hook);
        db.with_retry(|txn| txn.insert("t", &row(500, 1)).map(drop)).unwrap();
        db.with_retry(|txn| {
            let found = txn.get("t", &[Value::Int8(500)])?.expect("inserted above");
            txn.delete("t", found.id)
        })
        .unwrap();
        db.vacuum(None).unwrap();
        check(&db, &unchanged());
    }
    // Somebody is waited for, so that it is asked whether to go on.
    let mut other = db.begin();
    other.lock_table("t", LockMode::Write, Busy::Wait).unwrap();
    panics(|| {
        let go_on = || panic!("the caller's");
        db.reindex_with("t", Some("t_v"), Watch { go_on: &go_on, ..Watch::default() })
    });
    drop(other);
    panics(|| {
        let go_on = || panic!("the caller's");
        let watch = Watch { go_on: &go_on, ..Watch::default() };
        db.vacuum_with(Some("t"), VacuumOptions { watch, ..Default::default() })
    });
    assert_eq!(db.vacuum_progress().len(), 0);
    db.reindex("t", None).unwrap();
    check(&db, &unchanged());
    // Once it is in the catalog, it is kept.
    let hook = panic_at("online.committed");
    panics(|| db.create_index_online("t", &index));
    drop(hook);
    db.with_retry(|txn| txn.insert("t", &row(500, 1)).map(drop)).unwrap();
    db.vacuum(None).unwrap();
    let mut expected = unchanged();
    expected.push((500, 1));
    check(&db, &expected);
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    check(&db, &expected);
    let by_x = ScanOptions::index("t_x");
    let found = db.begin().scan("t", &by_x).unwrap().filter(|row| row.is_ok()).count();
    assert_eq!(found, expected.len());
}

/// The first error used to undo all of the statement while `write` and `commit` said that all was
/// well.
#[test]
fn a_write_that_failed_fails_the_statement() {
    let (_dir, db) = numbers();
    let mut txn = db.begin();
    let written = txn.write::<u32, Error>("t", |writer| {
        writer.insert_many(&[row(777, 1)])?;
        match writer.insert_many(&[row(3, 1)]) {
            Err(Error::UniqueViolation { .. }) => Ok(5),
            other => panic!("{other:?}"),
        }
    });
    assert!(matches!(written, Err(Error::UniqueViolation { .. })), "{written:?}");
    // An error of the caller's own comes first.
    let written = txn.write::<u32, Error>("t", |writer| {
        writer.insert_many(&[row(777, 1)])?;
        let _ = writer.insert_many(&[row(3, 1)]);
        Err(Error::Limit("the caller's".into()))
    });
    assert!(matches!(written, Err(Error::Limit(_))), "{written:?}");
    // A write that failed before it came to the table.
    let written = txn.write::<u32, Error>("t", |writer| {
        writer.insert_many(&[row(777, 1)])?;
        let _ = writer.upsert(OnConflict::Columns(&["v"]), &[row(778, 1)], None);
        Ok(5)
    });
    assert!(matches!(written, Err(Error::Invalid(_))), "{written:?}");
    goes_on(&db, txn);
}

/// What is retried is the transaction that met the conflict, not one that went on without.
#[test]
fn a_conflict_whose_error_is_dropped_is_a_conflict() {
    let (_dir, db) = numbers();
    let mut txn = db.begin();
    let id = txn.get("t", &[Value::Int8(7)]).unwrap().unwrap().id;
    db.with_retry(|other| {
        let found = other.get("t", &[Value::Int8(7)])?.expect("it is there");
        other.update("t", found.id, &[("v", Value::Int8(8))])
    })
    .unwrap();
    let written = txn.write::<(), Error>("t", |writer| {
        let _ = writer.update(id, &mut |_, old| Ok(Some(row(int(&old[0]), 1000))));
        Ok(())
    });
    let serialization =
        |error: &Error| matches!(error, Error::Conflict { kind: ConflictKind::Serialization, .. });
    assert!(written.as_ref().is_err_and(serialization), "{written:?}");
    drop(txn);
    let mut expected = unchanged();
    expected[7].1 = 8;
    check(&db, &expected);
}

/// A statement that has waited for a row leads those who wait behind it. A panic before it has
/// written the row lets the next one go on.
#[test]
fn who_waits_behind_a_statement_that_panics_goes_on() {
    let (_dir, db) = numbers();
    let options = TransactionOptions { isolation: Isolation::ReadCommitted, ..Default::default() };
    let find = |txn: &mut Transaction| txn.get("t", &[Value::Int8(7)]).unwrap().unwrap().id;
    let mut first = db.begin_with(options);
    let id = find(&mut first);
    assert!(first.update("t", id, &[("v", Value::Int8(70))]).unwrap());
    let waits = |count: u64| {
        while db.stats().get("lock_waits").unwrap() < count {
            std::thread::yield_now();
        }
    };
    let before = db.stats().get("lock_waits").unwrap();
    std::thread::scope(|scope| {
        let panicking = scope.spawn(|| {
            let mut txn = db.begin_with(options);
            let id = find(&mut txn);
            let mut calls = 0;
            panics(|| {
                txn.write::<(), Error>("t", |writer| {
                    writer.read_no_more();
                    let _ = writer.update(id, &mut |_, old| {
                        calls += 1;
                        // Called again with what `first` has committed.
                        if calls == 2 { panic!("the caller's") } else { Ok(Some(old.to_vec())) }
                    })?;
                    Ok(())
                })
            });
            // It keeps running while the other goes on.
            txn
        });
        waits(before + 1);
        let next = scope.spawn(|| {
            let mut txn = db.begin_with(options);
            let id = find(&mut txn);
            let written = txn.write::<_, Error>("t", |writer| {
                writer.read_no_more();
                writer.update(id, &mut |_, old| Ok(Some(row(7, int(&old[1]) + 1))))
            });
            assert!(matches!(written, Ok(Written::Done(_))), "{written:?}");
            txn.commit().unwrap();
        });
        waits(before + 2);
        first.commit().unwrap();
        let txn = panicking.join().unwrap();
        next.join().unwrap();
        txn.commit().unwrap();
    });
    let mut expected = unchanged();
    expected[7].1 = 71;
    check(&db, &expected);
}

/// A value that is streamed is there when it is finished, and else never was.
#[test]
fn a_stream_that_is_dropped_changes_nothing() {
    let (_dir, db) = numbers();
    let mut txn = db.begin();
    txn.alter_table("t", AlterTable::AddColumn(&ColumnSchema::new("film", Type::Text).nullable()))
        .unwrap();
    txn.commit().unwrap();
    let mut txn = db.begin();
    let id = txn.get("t", &[Value::Int8(7)]).unwrap().unwrap().id;
    panics(|| {
        let mut writer = txn.write_value("t", id, "film").unwrap();
        writer.push(&[b'x'; 100_000]).unwrap();
        panic!("the caller's")
    });
    let mut writer = txn.write_value("t", id, "film").unwrap();
    writer.push(&[b'x'; 100_000]).unwrap();
    writer.push(&[0xFF]).unwrap_err();
    let finished = writer.finish();
    assert!(finished.is_err(), "{finished:?}");
    let found = txn.get("t", &[Value::Int8(7)]).unwrap().unwrap();
    assert_eq!(found.values[2], Value::Null);
    txn.commit().unwrap();
    db.vacuum(None).unwrap();
    assert_eq!(db.verify().unwrap().findings, []);
}

/// An index that a transaction could not build leaves a file behind no longer than that: it used to
/// stay until the database was opened again, and was a finding.
#[test]
fn a_definition_that_fails_leaves_no_file() {
    let (dir, db) = numbers();
    for commits in [false, true] {
        let mut txn = db.begin();
        let hook = points::install_local(|name| {
            if name == "catalog.create-index" {
                panic!("the caller's")
            }
        });
        panics(|| txn.create_index("t", &IndexSchema::new("t_x").on("v")));
        drop(hook);
        txn.insert("t", &row(500, 1)).unwrap();
        let failed = txn.create_index("t", &IndexSchema::new("t_y").on("v").unique());
        assert!(matches!(failed, Err(Error::UniqueViolation { .. })), "{failed:?}");
        if commits {
            txn.commit().unwrap();
        }
    }
    db.close().unwrap();
    assert_eq!(Database::verify_offline(dir.path()).unwrap().findings, []);
}
