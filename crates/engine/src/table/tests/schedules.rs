//! Schedules of scans, vacuum, writers and index builds on one table (R1, R3, R4, R8, R10).
//!
//! See `schedules` for how worlds are run.

use rightlink_env::Broken;
use std::time::Duration;

use rightlink_env::thread;
use shuttle::rand::RngCore;

use super::*;
use crate::error::Error;
use crate::schedules::{Case, catches, survives};
use crate::sort::TempFiles;
use crate::table::{BuildOptions, IndexBounds, Upserted, Written};

/// `id` (unique) and `tag`, with an index each.
fn world() -> Arc<Store> {
    Arc::new(Store::with(two_columns(), 48, 1))
}

fn two_columns() -> TableDef {
    let columns = vec![Column::new("id", Type::Int8, false), Column::new("tag", Type::Int8, false)];
    let mut def = TableDef::new(ObjectId(100), "items", FileId(64), columns);
    let index = |at: u32, name: &str, unique| {
        let key = vec![IndexColumn::ascending(at as u16 - 1)];
        IndexDef::new(ObjectId(100 + at), name, FileId(66 + at), key, unique)
    };
    def.indexes = vec![index(1, "items_id", true), index(2, "items_tag", false)];
    def
}

fn row(id: i64, tag: i64) -> Vec<Value> {
    vec![Value::Int8(id), Value::Int8(tag)]
}

fn start<T: Send + 'static>(
    world: &Arc<Store>,
    work: impl FnOnce(&Store) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let world = Arc::clone(world);
    thread::spawn("explores", move || work(&world))
}

/// Five rows; the third is deleted. Its row id and the end of the deletion's record.
fn with_a_dead_row(relaxed: bool) -> (Arc<Store>, RowId, crate::ids::Lsn) {
    let world = world();
    let rows: Vec<_> = (0..5).map(|id| row(id, id)).collect();
    let ids = world.run(|statement| world.table.insert_many(statement, &rows)).expect("inserted");
    world.pool.pool.wal().flush(world.pool.pool.wal().end()).expect("a sound disk");
    let mut txn = world.begin(Isolation::ReadCommitted);
    let mut statement = Statement::begin(&mut txn).expect("begins");
    let _ = world.table.delete(&mut statement, ids[2], &mut |_| Ok(true)).expect("deleted");
    let end = txn.commit(relaxed).expect("a commit");
    (world, ids[2], end)
}

/// The ids that a scan by id gives; index-only, or through the heap.
fn scan(world: &Store, index_only: bool) -> Vec<i64> {
    let snapshot = world.begin(Isolation::ReadCommitted).begin_statement().expect("begins");
    let def = world.table.def();
    let columns = match index_only {
        true => Projection::new(def, &[0]).expect("a column"),
        false => Projection::all(def),
    };
    let options = IndexScanOptions::new(IndexBounds::all());
    let index = &world.table.indexes()[0];
    let scan = world.table.scan_index(&snapshot, index, columns, &options).expect("a scan");
    scan.map(|row| as_int(&row.expect("a sound row").values[0])).collect()
}

/// A scan that means to mark a dead entry, beside vacuum and the next owner of the row id (R3).
fn recycled_row_ids() {
    let (world, dead, _) = with_a_dead_row(false);
    let scanner = start(&world, |world| drop(scan(world, false)));
    let recycler = start(&world, move |world| {
        world.vacuum();
        let new = world.run(|statement| world.table.insert(statement, row(2, 22)));
        new.expect("the key is free") == dead
    });
    scanner.join().expect("no panic");
    let recycled = recycler.join().expect("no panic");
    assert!(recycled, "the world is about a row id that is used again");
    assert_eq!(scan(&world, false), [0, 1, 2, 3, 4], "nobody marked the new row dead");
}

/// Reads by key beside vacuum and the next owner of the row id that their entry names (R3): under
/// one snapshot they are answered alike, and nobody marks the new row's entry.
fn recycled_under_a_read_by_key() {
    let (world, dead, _) = with_a_dead_row(false);
    let reader = start(&world, |world| {
        let snapshot = world.begin(Isolation::ReadCommitted).begin_statement().expect("begins");
        let first = world.find(&snapshot, 2).map(|(_, values)| values);
        assert!(first.is_none() || first == Some(row(2, 22)));
        for _ in 0..2 {
            assert_eq!(world.find(&snapshot, 2).map(|(_, values)| values), first);
            assert_eq!(world.find(&snapshot, 3).map(|(_, values)| values), Some(row(3, 3)));
        }
    });
    let recycler = start(&world, move |world| {
        world.vacuum();
        let new = world.run(|statement| world.table.insert(statement, row(2, 22)));
        new.expect("the key is free") == dead
    });
    reader.join().expect("no panic");
    let _ = recycler.join().expect("no panic");
    assert_eq!(scan(&world, false), [0, 1, 2, 3, 4], "nobody marked the new row dead");
}

/// The same with the next owner in a thread of its own: it may have the row id as soon as that is
/// free, while the vacuum that gave it free has not gone on.
fn recycled_at_once() {
    let (world, ..) = with_a_dead_row(false);
    let scanner = start(&world, |world| drop(scan(world, false)));
    let vacuum = start(&world, |world| world.vacuum());
    let writer = start(&world, |world| {
        for _ in 0..3 {
            let mut txn = world.begin(Isolation::ReadCommitted);
            let mut statement = Statement::begin(&mut txn).expect("begins");
            let new = world.table.insert(&mut statement, row(2, 22)).expect("the key is free");
            drop(statement);
            if new.slot == 3 {
                txn.commit(true).expect("a commit");
                return;
            }
            txn.rollback();
        }
        let _ = world.run(|statement| world.table.insert(statement, row(2, 22))).expect("free");
    });
    scanner.join().expect("no panic");
    vacuum.join().expect("no panic");
    writer.join().expect("no panic");
    assert_eq!(scan(&world, false), [0, 1, 2, 3, 4], "nobody marked the new row dead");
}

/// Entries of a pruned row leave by key, beside a vacuum that frees its row id, too, and the next
/// owner of that (R3).
fn cleaned_row_ids() {
    let (world, dead, _) = with_a_dead_row(false);
    assert_eq!(world.table.heap().prune_and_queue(dead.block).expect("pruned"), 1);
    let cleaner = start(&world, |world| world.table.clean().expect("cleaned"));
    let vacuum = start(&world, |world| world.vacuum());
    let writer = start(&world, |world| {
        let new = world.run(|statement| world.table.insert(statement, row(2, 22)));
        new.expect("the key is free");
    });
    let freed = cleaner.join().expect("no panic").freed + vacuum.join().expect("no panic");
    writer.join().expect("no panic");
    assert!(freed <= 1, "one row died");
    assert_eq!(scan(&world, false), [0, 1, 2, 3, 4], "nobody removed the new row's entry");
    world.vacuum();
    for index in world.table.indexes() {
        let stats = index.method().verify(None, &mut |finding| panic!("{finding:?}"));
        assert_eq!(stats.expect("read").live, 5, "an entry for every row");
    }
}

/// A snapshot is taken while a row is updated and its page pruned (R9).
fn snapshots_and_pruning() {
    let world = world();
    let at = world.run(|statement| world.table.insert(statement, row(1, 0))).expect("inserted");
    let old = world.begin(Isolation::Snapshot).begin_statement().expect("begins");
    let writer = start(&world, move |world| {
        for tag in 1..4 {
            let change = &mut |_: &[Value]| Ok(Some(row(1, tag)));
            let snapshot = world.begin(Isolation::ReadCommitted).begin_statement().expect("begins");
            let (now, _) = world.find(&snapshot, 1).expect("the row");
            drop(snapshot);
            let done = world.run(|statement| world.table.update(statement, now, change));
            assert!(matches!(done.expect("updated"), Written::Done(_)));
            world.table.heap().prune_and_queue(at.block).expect("pruned");
        }
    });
    let reader = start(&world, move |world| {
        let snapshot = world.begin(Isolation::Snapshot).begin_statement().expect("begins");
        let first = world.all(&snapshot);
        assert_eq!(first.len(), 1, "R9: a snapshot sees one version of the row");
        assert_eq!(world.all(&snapshot), first);
    });
    writer.join().expect("no panic");
    reader.join().expect("no panic");
    assert_eq!(world.all(&old), [row(1, 0)], "what the old snapshot sees stays");
}

/// A snapshot becomes too old beside one who reads by it: what was read before it is known to be so
/// is sound. A statement that writes by one is not cut short (R9).
fn aging_snapshots() {
    let world = Arc::new(Store::with_txns(two_columns(), (48, 1), |pool| TxnOptions {
        clock: pool.env.clock.clone(),
        max_snapshot_age: Some(Duration::from_secs(1)),
        ..TxnOptions::default()
    }));
    let at = world.run(|statement| world.table.insert(statement, row(1, 0))).expect("inserted");
    let reader = start(&world, |world| {
        let mut txn = world.begin(Isolation::Snapshot);
        txn.let_snapshots_expire();
        // It may be too old before it is given out.
        let Ok(snapshot) = txn.begin_statement() else { return };
        let mut first = None;
        for _ in 0..3 {
            let all = Projection::all(world.table.def());
            let read = world.table.scan(&snapshot, all, None).map(|row| Ok(row?.values));
            let read: Result<Vec<_>> = read.collect();
            if snapshot.check().is_err() {
                return;
            }
            let read = read.expect("a sound row");
            assert_eq!(read.len(), 1, "R9: a snapshot sees one version of the row");
            assert_eq!(*first.get_or_insert_with(|| read.clone()), read);
        }
    });
    let changer = start(&world, move |world| {
        for tag in 1..3 {
            let mut txn = world.begin(Isolation::Snapshot);
            txn.let_snapshots_expire();
            let mut statement = Statement::begin(&mut txn).expect("begins");
            let snapshot = Arc::clone(statement.snapshot());
            let hold = statement.txn().hold(&snapshot).expect("it is new");
            world.pool.env.clock.advance(Duration::from_secs(2));
            world.txns.expire_snapshots();
            let (now, _) = world.find(&snapshot, 1).expect("the row");
            let change = &mut |_: &[Value]| Ok(Some(row(1, tag)));
            let done = world.table.update(&mut statement, now, change);
            assert!(matches!(done.expect("updated"), Written::Done(_)));
            drop((hold, snapshot));
            txn.commit(true).expect("a commit");
            world.txns.expire_snapshots();
            world.table.heap().prune_and_queue(at.block).expect("pruned");
        }
    });
    reader.join().expect("no panic");
    changer.join().expect("no panic");
}

/// An index-only scan beside vacuum, which removes a dead row and finds its page all-visible (R4).
fn index_only() {
    let (world, ..) = with_a_dead_row(false);
    let scanner = start(&world, |world| scan(world, true));
    let vacuum = start(&world, |world| world.vacuum());
    assert_eq!(scanner.join().expect("no panic"), [0, 1, 3, 4], "the row was dead before");
    assert_eq!(vacuum.join().expect("no panic"), 1);
}

/// A scan finds a row dead by a relaxed commit: its mark waits until the record is durable (R1).
fn dead_marks() {
    let (world, _, end) = with_a_dead_row(true);
    let flusher = start(&world, |world| {
        let wal = world.pool.pool.wal();
        wal.flush(wal.end()).expect("a sound disk");
    });
    let scanner = start(&world, move |world| {
        scan(world, false);
        let method = world.table.indexes()[0].method();
        let dead = method.verify(None, &mut |finding| panic!("{finding:?}")).expect("read").dead;
        let durable = world.pool.pool.wal().durable();
        assert!(dead == 0 || durable >= end, "R1: the mark rests on a durable commit");
    });
    flusher.join().expect("no panic");
    scanner.join().expect("no panic");
}

/// Two transactions insert one key; one of them may roll back (R8).
fn one_key() {
    let world = world();
    let inserter = |tag: i64| {
        start(&world, move |world| {
            let mut txn = world.begin(Isolation::ReadCommitted);
            let mut statement = Statement::begin(&mut txn).expect("begins");
            match world.table.insert(&mut statement, row(7, tag)) {
                Ok(_) if tag == 0 => {
                    txn.rollback();
                    None
                }
                Ok(_) => {
                    txn.commit(true).expect("a commit");
                    Some(true)
                }
                Err(Error::UniqueViolation { .. }) => Some(false),
                Err(error) => panic!("{error}"),
            }
        })
    };
    let threads = [inserter(0), inserter(1), inserter(2)];
    let won = threads.map(|thread| thread.join().expect("no panic"));
    let committed = won.iter().filter(|won| **won == Some(true)).count();
    assert_eq!(committed, 1, "of those that commit, one wins: {won:?}");
    assert_eq!(scan(&world, false), [7]);
}

/// A row is updated under its key, or moved away from it, while one transaction inserts a row with
/// that key and another gives it to its own row (R8): at any time one row has it.
fn kept_key() {
    let world = world();
    let rows = [row(7, 0), row(8, 0)];
    let ids = world.run(|statement| world.table.insert_many(statement, &rows)).expect("inserted");
    let write = |work: Box<dyn FnOnce(&Table, &mut Statement<'_>) -> Result<()> + Send>, ends| {
        start(&world, move |world| {
            let mut txn = world.begin(Isolation::ReadCommitted);
            let mut statement = Statement::begin(&mut txn).expect("begins");
            match (work(&world.table, &mut statement), ends) {
                (Ok(()), true) => txn.commit(true).map(drop).expect("a commit"),
                (Ok(()), false) => txn.rollback(),
                (Err(Error::UniqueViolation { .. } | Error::Conflict { .. }), _) => {}
                (Err(error), _) => panic!("{error}"),
            }
        })
    };
    let update = |at, new: Vec<Value>| -> Box<_> {
        Box::new(move |table: &Table, statement: &mut Statement<'_>| {
            table.update(statement, at, &mut |_| Ok(Some(new.clone()))).map(drop)
        })
    };
    let threads = [
        write(update(ids[0], row(7, 1)), shuttle::rand::thread_rng().next_u64() % 2 == 0),
        write(update(ids[1], row(7, 2)), true),
        write(Box::new(|table, statement| table.insert(statement, row(7, 3)).map(drop)), true),
    ];
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(scan(&world, false), [7, 8], "the key was taken all the time");
}

/// A unique `key` so long that a leaf has few of them, and `by`.
fn long_keys() -> TableDef {
    let columns = vec![Column::new("key", Type::Text, false), Column::new("by", Type::Int8, false)];
    let mut def = TableDef::new(ObjectId(100), "items", FileId(64), columns);
    let key = vec![IndexColumn::ascending(0)];
    def.indexes = vec![IndexDef::new(ObjectId(101), "items_key", FileId(67), key, true)];
    def
}

/// Two transactions insert keys that are on several leaves, which must be read first, some of them
/// the same. Whoever comes second to a key waits there, and has none yet that the other still
/// wants: they go in in one order, whichever leaves arrive first.
fn several_keys() {
    // The order in which reads end is the disk's, so each schedule has a disk of its own.
    let seed = shuttle::rand::thread_rng().next_u64() % 64;
    let world = Arc::new(Store::with(long_keys(), 64, seed));
    let row = |number: i64, by: i64| {
        vec![Value::Text(format!("{number:0>2}{}", "x".repeat(2200))), Value::Int8(by)]
    };
    let rows: Vec<_> = (0..24).map(|number| row(2 * number, 0)).collect();
    world.run(|statement| world.table.insert_many(statement, &rows)).expect("inserted");
    world.pool.pool.evict_all().expect("a sound disk");
    let inserter = |from: i64| {
        start(&world, move |world| {
            let mut txn = world.begin(Isolation::ReadCommitted);
            let mut statement = Statement::begin(&mut txn).expect("begins");
            // On every second leaf, as neighbours would arrive in one read.
            let rows: Vec<_> = (from..4).map(|number| row(12 * number + 1, from)).collect();
            match world.table.insert_many(&mut statement, &rows) {
                Ok(_) => txn.commit(true).map(|_| true).expect("a commit"),
                Err(Error::UniqueViolation { .. }) => false,
                Err(error) => panic!("{error}"),
            }
        })
    };
    let threads = [inserter(0), inserter(1)];
    let won = threads.map(|thread| thread.join().expect("no panic"));
    assert!(won[0] != won[1], "the first one to come goes in: {won:?}");
}

/// Two statements, each with a helper, insert rows that have a key in common, beside a reader by
/// the index that the helpers fill: who is refused leaves nothing, and every row is in both.
fn helped_inserts() {
    let world = Arc::new(Store::with_txns(two_columns(), (64, 1), |_| TxnOptions {
        helper_threads: 1,
        ..TxnOptions::default()
    }));
    let inserter = |from: i64| {
        start(&world, move |world| {
            let mut txn = world.begin(Isolation::ReadCommitted);
            let mut statement = Statement::begin(&mut txn).expect("begins");
            let rows: Vec<_> = (from..from + 4).map(|id| row(id, 10 - id)).collect();
            match world.table.insert_many(&mut statement, &rows) {
                Ok(_) => txn.commit(true).map(|_| 4).expect("a commit"),
                Err(Error::UniqueViolation { .. }) => 0,
                Err(error) => panic!("{error}"),
            }
        })
    };
    let threads = [inserter(0), inserter(3)];
    let inserted: usize = threads.map(|thread| thread.join().expect("no panic")).iter().sum();
    assert_eq!(inserted, 4, "the first one to come goes in");
    let snapshot = world.begin(Isolation::Snapshot).begin_statement().expect("begins");
    let options = IndexScanOptions::new(IndexBounds::all());
    let mut by_tag = world.ids_by(&snapshot, 1, &options);
    by_tag.reverse();
    assert_eq!(by_tag, world.ids_by(&snapshot, 0, &options));
    assert_eq!(by_tag.len(), 4);
    drop(snapshot);
    world.vacuum();
    for index in world.table.indexes() {
        let stats = index.method().verify(None, &mut |finding| panic!("{finding:?}"));
        assert_eq!(stats.expect("read").live, 4);
    }
}

/// Three transactions propose one key: one inserts it, the others add to it (R8).
fn upserts() {
    let world = world();
    let upserter = |tag: i64| {
        start(&world, move |world| {
            let mut txn = world.begin(Isolation::ReadCommitted);
            let mut statement = Statement::begin(&mut txn).expect("begins");
            let mut merge =
                |old: &[Value], new: &[Value]| Ok(Some(row(7, as_int(&old[1]) + as_int(&new[1]))));
            let rows = [row(7, tag)];
            let done = world.table.upsert_many(&mut statement, &rows, &[0], Some(&mut merge));
            let inserted = matches!(done.expect("no conflict")[..], [Upserted::Inserted(_)]);
            txn.commit(true).expect("a commit");
            inserted
        })
    };
    let threads = [upserter(1), upserter(10), upserter(100)];
    let inserted = threads.map(|thread| thread.join().expect("no panic"));
    assert_eq!(inserted.iter().filter(|inserted| **inserted).count(), 1, "{inserted:?}");
    let snapshot = world.begin(Isolation::Snapshot).begin_statement().expect("begins");
    assert_eq!(world.all(&snapshot), [row(7, 111)], "every proposal counts");
    assert_eq!(by_tag(&world, &snapshot, 111), 1);
}

/// Updates of an indexed column, and of none, beside readers by that index (R10).
fn updates() {
    let world = world();
    let at = world.run(|statement| world.table.insert(statement, row(1, 10))).expect("inserted");
    let writer = start(&world, move |world| {
        let mut at = at;
        for tag in [10, 11, 12] {
            let change = &mut |_: &[Value]| Ok(Some(row(1, tag)));
            match world.run(|statement| world.table.update(statement, at, change)) {
                Ok(Written::Done(version)) => at = version,
                other => panic!("{other:?}"),
            }
        }
    });
    let reader = start(&world, move |world| {
        let snapshot = world.begin(Isolation::Snapshot).begin_statement().expect("begins");
        let all = world.all(&snapshot);
        assert_eq!(all.len(), 1, "one version is seen");
        assert_eq!(by_tag(world, &snapshot, as_int(&all[0][1])), 1, "and found by its own key");
    });
    writer.join().expect("no panic");
    reader.join().expect("no panic");
    let snapshot = world.begin(Isolation::Snapshot).begin_statement().expect("begins");
    assert_eq!([10, 12].map(|tag| by_tag(&world, &snapshot, tag)), [0, 1]);
}

/// Rows with `tag`, by its index.
fn by_tag(world: &Store, snapshot: &Arc<Snapshot>, tag: i64) -> usize {
    let bounds = IndexBounds::equal(vec![Value::Int8(tag)]);
    let index = &world.table.indexes()[1];
    let all = Projection::all(world.table.def());
    let options = IndexScanOptions::new(bounds);
    world.table.scan_index(snapshot, index, all, &options).expect("a scan").count()
}

/// The table with one more index on `tag`, built now.
fn build(world: &Store) -> Arc<Table> {
    let temp = TempFiles::open(&world.pool.io, &world.pool.env.logger).expect("a place");
    let options = BuildOptions { budget: &world.pool.env.budget, temp: &temp, memory: 0 };
    let key = vec![IndexColumn::ascending(1)];
    let index = IndexDef::new(ObjectId(200), "items_built", FileId(80), key, false);
    let mut txn = world.begin(Isolation::ReadCommitted);
    let built = world.table.build_index(&mut txn, &index, &options).expect("built");
    txn.commit(true).expect("a commit");
    let mut def = world.table.def().clone();
    def.indexes.push(built.def().clone());
    world.table.with_def(def, &[built]).expect("a sound definition")
}

/// An index is built over a row whose key was changed: a snapshot that sees the old version may not
/// use it (R10).
fn builds() {
    let world = world();
    let at = world.run(|statement| world.table.insert(statement, row(1, 10))).expect("inserted");
    let builder = start(&world, move |world| {
        let change = &mut |_: &[Value]| Ok(Some(row(1, 11)));
        let _ = world.run(|statement| world.table.update(statement, at, change)).expect("updated");
        build(world)
    });
    let reader = start(&world, |world| {
        let mut txn = world.begin(Isolation::Snapshot);
        let snapshot = txn.begin_statement().expect("begins");
        let seen = world.all(&snapshot);
        (txn, snapshot, as_int(&seen[0][1]))
    });
    let table = builder.join().expect("no panic");
    let (_txn, snapshot, tag) = reader.join().expect("no panic");
    let options = IndexScanOptions::new(IndexBounds::equal(vec![Value::Int8(tag)]));
    let index = table.index("items_built").expect("it was built");
    match table.scan_index(&snapshot, index, Projection::all(table.def()), &options) {
        Ok(scan) => assert_eq!(scan.count(), 1, "R10: the index has what the snapshot sees"),
        Err(Error::Conflict { .. }) => assert_eq!(tag, 10, "a new snapshot may use it"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_row_id_is_recycled_behind_the_clock() {
    survives("recycled row ids", recycled_row_ids, 300);
    survives("recycled at once", recycled_at_once, 300);
    survives("recycled under a read by key", recycled_under_a_read_by_key, 300);
}

#[test]
fn row_ids_are_freed_by_key_beside_vacuum() {
    survives("cleaned row ids", cleaned_row_ids, 300);
}

#[test]
fn snapshots_are_registered_before_anyone_prunes() {
    survives("snapshots and pruning", snapshots_and_pruning, 300);
}

#[test]
fn a_snapshot_that_is_too_old_is_told_so() {
    survives("aging snapshots", aging_snapshots, 300);
}

#[test]
fn an_all_visible_page_vouches_for_what_is_there() {
    survives("index-only", index_only, 300);
}

#[test]
fn dead_marks_rest_on_durable_commits() {
    survives("dead marks", dead_marks, 300);
}

#[test]
fn a_key_is_won_once() {
    survives("one key", one_key, 300);
}

#[test]
fn a_key_that_stays_is_nobody_elses() {
    survives("kept key", kept_key, 300);
}

#[test]
fn statements_that_share_keys_do_not_wait_for_each_other() {
    survives("several keys", several_keys, 200);
}

#[test]
fn helpers_insert_beside_their_statements() {
    survives("helped inserts", helped_inserts, 300);
}

#[test]
fn a_proposed_key_is_inserted_once() {
    survives("upserts", upserts, 300);
}

#[test]
fn a_row_is_found_by_its_key() {
    survives("updates", updates, 300);
}

#[test]
fn an_index_serves_the_snapshots_that_it_can() {
    survives("builds", builds, 300);
}

#[test]
fn broken_tables_are_caught() {
    catches(&[
        Case { rule: Broken::DeadMarkNotDurable, world: dead_marks, within: 1000 },
        Case { rule: Broken::RecycleClockNotAdvanced, world: recycled_row_ids, within: 3000 },
        Case { rule: Broken::RecycleClockAdvancedLate, world: recycled_at_once, within: 12_000 },
        Case { rule: Broken::RecycleClockIgnored, world: recycled_row_ids, within: 3000 },
        Case { rule: Broken::DeadMarkWithoutClock, world: recycled_row_ids, within: 3000 },
        Case { rule: Broken::CleanedByKeyWithoutClock, world: cleaned_row_ids, within: 3000 },
        Case { rule: Broken::FreedBesideVacuum, world: cleaned_row_ids, within: 3000 },
        Case { rule: Broken::AllVisibleWithoutClock, world: index_only, within: 3000 },
        Case { rule: Broken::ExpiredSnapshotNotTold, world: aging_snapshots, within: 2000 },
        Case { rule: Broken::UniqueLatchReleased, world: one_key, within: 2000 },
        Case { rule: Broken::UniqueLatchReleased, world: upserts, within: 2000 },
        Case { rule: Broken::ChangedKeyNotChecked, world: kept_key, within: 1000 },
        Case { rule: Broken::UniqueEntriesUnordered, world: several_keys, within: 2000 },
        Case { rule: Broken::IndexUsedByOlderSnapshot, world: builds, within: 1000 },
        Case { rule: Broken::UpdateAlwaysHeapOnly, world: updates, within: 1000 },
    ]);
}
