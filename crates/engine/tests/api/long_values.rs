//! Values that do not fit their rows: in and out, as a whole and as streams, beside other writes
//! and vacuum.
//!
//! Does not do: crashes (`crash.rs`), damage (`verify.rs`), pages (`heap/overflow/tests/mod.rs`).

use std::io::{Read, Write};

use rightlink::{
    Busy, Database, Error, IndexSchema, Isolation, OnConflict, Predicate, Result, RowId, RowLock,
    ScanOptions, TableSchema, Transaction, TransactionOptions, Type, Upserted, Value,
};
use rightlink_env::points;
use rightlink_env::sync::{Arc, AtomicU64, Ordering};

fn letters() -> TableSchema {
    TableSchema::new("t")
        .column("id", Type::Int8)
        .column("n", Type::Int8)
        .nullable("body", Type::Text)
        .nullable("data", Type::Bytes)
        .primary_key(["id"])
        .index(IndexSchema::new("t_n").on("n"))
}

fn database(schema: &TableSchema) -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::options().memory(32 << 20).open(dir.path()).unwrap();
    run(&db, |txn| txn.create_table(schema)).unwrap();
    (dir, db)
}

/// Runs `work` in a transaction of its own and commits.
fn run<T>(db: &Database, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
    let mut txn = db.begin();
    let done = work(&mut txn)?;
    txn.commit().map(|()| done)
}

/// Text of `len` bytes that tells where it comes from.
fn long(seed: i64, len: usize) -> Value {
    let mut text = format!("{seed:07} ").repeat(len / 8 + 1);
    text.truncate(len);
    Value::Text(text)
}

fn row(id: i64, body: Value) -> Vec<Value> {
    vec![Value::Int8(id), Value::Int8(id % 3), body, Value::Null]
}

fn get(txn: &mut Transaction, id: i64) -> (RowId, Vec<Value>) {
    let found = txn.get("t", &[Value::Int8(id)]).unwrap().unwrap();
    (found.id, found.values)
}

fn body(db: &Database, id: i64) -> Value {
    get(&mut db.begin(), id).1[2].clone()
}

fn set(db: &Database, id: i64, column: &str, value: Value) {
    run(db, |txn| {
        let at = get(txn, id).0;
        txn.update("t", at, &[(column, value)])
    })
    .unwrap();
}

fn blocks(db: &Database) -> u32 {
    db.describe("t").unwrap().overflow_blocks
}

fn clean(db: &Database) {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn rows_hold_values_of_any_length() {
    let (dir, db) = database(&letters());
    let lens = [0, 2047, 2048, 2049, 7_900, 8_000, 8_192, 20_000, 1_000_000];
    run(&db, |txn| {
        let rows: Vec<_> = (0..).zip(lens).map(|(id, len)| row(id, long(id, len))).collect();
        txn.insert_many("t", &rows)
    })
    .unwrap();
    // Many that are not long by themselves.
    let wide = (0..9)
        .fold(TableSchema::new("wide"), |schema, n| schema.column(format!("c{n}"), Type::Text));
    let row = |n: i64| (0..9).map(|at| long(n * 10 + at, 1500)).collect::<Vec<_>>();
    run(&db, |txn| {
        txn.create_table(&wide)?;
        txn.insert_many("wide", &[row(1), row(2)])
    })
    .unwrap();
    let check = |db: &Database| {
        for (id, len) in (0..).zip(lens) {
            assert!(body(db, id) == long(id, len), "{len} bytes");
        }
        let mut txn = db.begin();
        let by_n = ScanOptions::index("t_n").columns(["id", "body"]);
        let found: Vec<_> = txn.scan("t", &by_n).unwrap().map(|row| row.unwrap().values).collect();
        assert_eq!(found.len(), lens.len());
        let wide = txn.scan("wide", &ScanOptions::all()).unwrap();
        let wide: Vec<_> = wide.map(|row| row.unwrap().values).collect();
        assert!(wide == [row(1), row(2)]);
        drop(txn);
        clean(db);
    };
    check(&db);
    db.close().unwrap();
    let db = Database::options().memory(32 << 20).open(dir.path()).unwrap();
    check(&db);
    let added = run(&db, |txn| txn.create_index("t", &IndexSchema::new("t_body").on("body")));
    assert!(matches!(added, Err(Error::RowTooLarge(_))), "a key is no long value: {added:?}");
    db.create_index_online("t", &IndexSchema::new("t_id_n").on("id").on("n")).unwrap();
    check(&db);
}

#[test]
fn an_update_names_again_what_it_leaves_alone() {
    let (_dir, db) = database(&letters());
    run(&db, |txn| txn.insert("t", &row(1, long(1, 400_000)))).unwrap();
    let before = blocks(&db);
    for n in 0..20 {
        set(&db, 1, "n", Value::Int8(100 + n));
    }
    run(&db, |txn| {
        let at = get(txn, 1).0;
        txn.write("t", |writer| {
            writer.update(at, &mut |_, old| {
                let mut new = old.to_vec();
                new[1] = Value::Int8(7);
                Ok(Some(new))
            })
        })
    })
    .map(drop)
    .unwrap();
    run(&db, |txn| {
        let mut merge = |old: &[Value], _: &[Value]| Ok(Some(old.to_vec()));
        let on = OnConflict::Columns(&["id"]);
        let done = txn.insert_into("t").or_update(on, &[row(1, Value::Null)], &mut merge)?;
        assert!(matches!(done[..], [Upserted::Updated(_)]));
        Ok(())
    })
    .unwrap();
    assert_eq!(blocks(&db), before, "the value was not written again");
    assert!(body(&db, 1) == long(1, 400_000));
    assert!(db.vacuum(Some("t")).unwrap().overflow_pages_freed == 0);
    clean(&db);
}

#[test]
fn vacuum_gives_back_what_no_version_names() {
    let (_dir, db) = database(&letters());
    let rows: Vec<_> = (0..6).map(|id| row(id, long(id, 100_000))).collect();
    run(&db, |txn| txn.insert_many("t", &rows)).unwrap();
    let mut old = db.begin();
    assert!(get(&mut old, 1).1[2] == long(1, 100_000));
    set(&db, 1, "body", long(11, 50_000));
    set(&db, 2, "n", Value::Int8(50));
    run(&db, |txn| {
        let at = get(txn, 3).0;
        txn.delete("t", at)
    })
    .unwrap();
    // Rolled back, and never given to a row.
    let mut undone = db.begin();
    let at = get(&mut undone, 4).0;
    undone.update("t", at, &[("body", long(44, 70_000))]).unwrap();
    let mut writer = undone.write_value("t", at, "body").unwrap();
    writer.write_all(&[b'x'; 30_000]).unwrap();
    drop(writer);
    undone.rollback();
    db.vacuum(Some("t")).unwrap();
    assert!(get(&mut old, 1).1[2] == long(1, 100_000), "an old snapshot sees it");
    assert!(get(&mut old, 3).1[2] == long(3, 100_000), "an old snapshot sees it");
    clean(&db);
    drop(old);
    let freed = db.vacuum(Some("t")).unwrap().overflow_pages_freed;
    assert!(freed >= 2 * 13, "two values of 100,000 bytes: {freed} pages");
    for (id, value) in [(0, long(0, 100_000)), (1, long(11, 50_000)), (2, long(2, 100_000))] {
        assert!(body(&db, id) == value, "row {id}");
    }
    clean(&db);
    let before = blocks(&db);
    for id in 100..102 {
        run(&db, |txn| txn.insert("t", &row(id, long(id, 100_000)))).unwrap();
    }
    assert_eq!(blocks(&db), before, "free pages are used again");
    assert_eq!(db.vacuum(Some("t")).unwrap().overflow_pages_freed, 0);
    clean(&db);
}

/// A value far beyond a sixteenth of the budget (2 MiB here), and short ones.
#[test]
fn streams_take_and_give_what_memory_does_not_hold() {
    let (_dir, db) = database(&letters());
    let piece: Vec<u8> = (0..100_003u32).map(|n| (n % 251) as u8).collect();
    let mut txn = db.begin();
    let id = txn.insert("t", &row(1, Value::Null)).unwrap();
    let big = txn.insert_many("t", &[row(2, long(2, 3 << 20))]);
    assert!(matches!(big, Err(Error::Limit(what)) if what.contains("stream")));
    assert!(txn.read_value("t", id, "data").unwrap().is_none(), "null");
    let mut writer = txn.write_value("t", id, "data").unwrap();
    for _ in 0..80 {
        writer.write_all(&piece).unwrap();
    }
    assert!(writer.finish().unwrap());
    let read = |txn: &mut Transaction| {
        let mut reader = txn.read_value("t", id, "data").unwrap().unwrap();
        assert_eq!(reader.len(), 80 * piece.len() as u64);
        let mut found = vec![0; piece.len()];
        for _ in 0..80 {
            reader.read_exact(&mut found).unwrap();
            assert!(found == piece);
        }
        assert_eq!(reader.read(&mut found).unwrap(), 0);
    };
    read(&mut txn);
    // Whole rows cannot be had, parts of them can, and other columns change.
    let whole = txn.get("t", &[Value::Int8(1)]);
    assert!(matches!(whole, Err(Error::Limit(what)) if what.contains("column data")));
    assert!(txn.update("t", id, &[("n", Value::Int8(9))]).unwrap());
    assert!(txn.lock_row("t", id, RowLock::Exclusive, Busy::Wait).unwrap());
    let narrow = ScanOptions::index("t_pkey").columns(["n", "body"]);
    let found = txn.scan("t", &narrow).unwrap().next().unwrap().unwrap();
    assert_eq!(found.values, [Value::Int8(9), Value::Null]);
    read(&mut txn);
    // Short ones stay in the row; text is told from other bytes.
    let mut writer = txn.write_value("t", id, "body").unwrap();
    for byte in "grüße".bytes() {
        writer.write_all(&[byte]).unwrap();
    }
    assert!(writer.finish().unwrap());
    let mut text = String::new();
    txn.read_value("t", id, "body").unwrap().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "grüße");
    let mut writer = txn.write_value("t", id, "body").unwrap();
    writer.push(&[0xC3]).unwrap();
    assert!(matches!(writer.finish(), Err(Error::Invalid(_))));
    let mut writer = txn.write_value("t", id, "body").unwrap();
    assert!(matches!(writer.push(&[b'a', 0xFF]), Err(Error::Invalid(_))));
    assert!(writer.finish().is_err());
    txn.commit().unwrap();
    clean(&db);
    let mut txn = db.begin();
    let narrow = ScanOptions::all().columns(["n"]);
    let id = txn.scan("t", &narrow).unwrap().next().unwrap().unwrap().id;
    assert!(txn.delete("t", id).unwrap());
    assert!(txn.read_value("t", id, "data").unwrap().is_none(), "gone");
    txn.commit().unwrap();
    let freed = db.vacuum(None).unwrap().overflow_pages_freed;
    assert!(freed >= 80 * piece.len() as u64 / 8192, "{freed} pages");
    clean(&db);
}

#[test]
fn streams_are_refused_where_the_value_is_asked_for() {
    let short = Predicate::new().at_most("body", Value::Text("zzz".into()));
    let schema = letters()
        .nullable("number", Type::Int4)
        .check("short", short)
        .index(IndexSchema::new("t_data").on("id").include(["data"]));
    let (_dir, db) = database(&schema);
    let mut txn = db.begin();
    let mut values = row(1, long(1, 5_000));
    values.push(Value::Null);
    let id = txn.insert("t", &values).unwrap();
    for column in ["body", "data", "number"] {
        let refused = txn.write_value("t", id, column).err();
        assert!(matches!(refused, Some(Error::Invalid(_))), "{column}: {refused:?}");
    }
    assert!(matches!(txn.read_value("t", id, "number").err(), Some(Error::Invalid(_))));
    // A check is asked about long values, too, and not about those that stay.
    assert!(txn.update("t", id, &[("number", Value::Int4(3))]).unwrap());
    let bad = Value::Text("zzzz".repeat(2_000));
    let refused = txn.update("t", id, &[("body", bad)]);
    assert!(matches!(refused, Err(Error::CheckViolation { .. })), "{refused:?}");
    txn.commit().unwrap();
    clean(&db);
}

/// Writes what is too long for the memory; false if the row is gone.
fn fill(txn: &mut Transaction, at: RowId) -> Result<bool> {
    let mut writer = txn.write_value("t", at, "data")?;
    (0..30).try_for_each(|_| writer.push(&[7; 100_000]))?;
    writer.finish()
}

/// While an index was counted in, no value was taken as a stream, whatever column it was for, and
/// no row that has one too long for the memory was updated.
#[test]
fn streams_go_on_beside_an_index_that_is_built() {
    for again in [false, true] {
        let (_dir, db) = database(&letters());
        run(&db, |txn| {
            let at = txn.insert("t", &row(1, long(1, 40)))?;
            assert!(fill(txn, at)?);
            txn.insert("t", &row(2, long(2, 40)))
        })
        .unwrap();
        let schema = IndexSchema::new("late").on("n").include(["body"]);
        if again {
            db.create_index_online("t", &schema).unwrap();
        }
        let (other, stages) = (db.clone(), Arc::new(AtomicU64::new(0)));
        let seen = Arc::clone(&stages);
        let hook = points::install_local(move |name: &'static str| {
            if !matches!(name, "online.counted" | "online.sorted" | "online.built" | "online.kept")
            {
                return;
            }
            let stage = seen.fetch_add(1, Ordering::SeqCst) as i64;
            run(&other, |txn| {
                let narrow = ScanOptions::index("t_pkey").columns(["id"]);
                let found: Vec<_> = txn.scan("t", &narrow)?.map(|row| row.unwrap().id).collect();
                assert!(txn.update("t", found[0], &[("n", Value::Int8(100 + stage))])?);
                assert!(txn.update("t", found[0], &[("body", long(stage, 60))])?);
                assert_eq!(txn.update_many("t", &found, &[("n", Value::Int8(200 + stage))])?, 2);
                assert!(fill(txn, found[1])?);
                let asked = txn.write_value("t", found[1], "body").err();
                assert!(matches!(asked, Some(Error::Invalid(_))), "{name}: {asked:?}");
                Ok(())
            })
            .unwrap();
        });
        match again {
            true => db.reindex("t", Some("late")).map(drop).unwrap(),
            false => db.create_index_online("t", &schema).unwrap(),
        }
        drop(hook);
        let stages = stages.load(Ordering::SeqCst) as i64;
        assert_eq!(stages, 4);
        clean(&db);
        let mut txn = db.begin();
        let last = ScanOptions::index("late").equal(vec![Value::Int8(199 + stages)]);
        let found = txn.scan("t", &last.columns(["id", "body"])).unwrap();
        let found: Vec<_> = found.map(|row| row.unwrap().values).collect();
        assert_eq!(found[0], [Value::Int8(1), long(stages - 1, 60)]);
        assert_eq!(found.len(), 2);
        for id in [1, 2] {
            let narrow = ScanOptions::index("t_pkey").equal(vec![Value::Int8(id)]).columns(["id"]);
            let at = txn.scan("t", &narrow).unwrap().next().unwrap().unwrap().id;
            let mut value = Vec::new();
            txn.read_value("t", at, "data").unwrap().unwrap().read_to_end(&mut value).unwrap();
            assert!(value == vec![7; 3_000_000], "row {id}");
        }
    }
}

/// Threads that replace, read and stream long values beside vacuum: every value is whole.
#[test]
fn long_values_are_whole_beside_vacuum() {
    let (_dir, db) = database(&letters());
    let rows: Vec<_> = (0..4).map(|id| row(id, long(0, 10_000))).collect();
    run(&db, |txn| txn.insert_many("t", &rows)).unwrap();
    let whole = |value: &Value| match value {
        Value::Text(text) => {
            let seed = text[..7].parse().unwrap();
            assert!(*value == long(seed, text.len()), "a value of two writes");
        }
        other => panic!("{other:?}"),
    };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..120 {
                    let isolation = Isolation::ReadCommitted;
                    let options = TransactionOptions { isolation, ..Default::default() };
                    let mut txn = db.begin_with(options);
                    let at = get(&mut txn, round % 4).0;
                    let seed = thread * 1000 + round;
                    let set = match round % 3 {
                        0 => [("n", Value::Int8(seed))],
                        _ => [("body", long(seed, 3_000 + 700 * (round as usize % 40)))],
                    };
                    txn.update("t", at, &set).unwrap();
                    if round % 5 != 4 {
                        txn.commit().unwrap();
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..40 {
                db.vacuum(Some("t")).unwrap();
            }
        });
        for round in 0..150 {
            let mut txn = db.begin();
            let found: Vec<_> = txn.scan("t", &ScanOptions::all()).unwrap().collect();
            for row in found {
                let row = row.unwrap();
                whole(&row.values[2]);
                let mut text = String::new();
                let mut reader = txn.read_value("t", row.id, "body").unwrap().unwrap();
                reader.read_to_string(&mut text).unwrap();
                assert!(Value::Text(text) == row.values[2], "round {round}: as a stream");
            }
        }
    });
    clean(&db);
    db.vacuum(Some("t")).unwrap();
    clean(&db);
}

#[test]
fn an_unlogged_table_has_long_values_too() {
    let (dir, db) = database(&letters().unlogged());
    run(&db, |txn| txn.insert("t", &row(1, long(1, 100_000)))).unwrap();
    assert!(body(&db, 1) == long(1, 100_000));
    clean(&db);
    db.close().unwrap();
    let db = Database::options().memory(32 << 20).open(dir.path()).unwrap();
    assert!(body(&db, 1) == long(1, 100_000));
    clean(&db);
}
