//! Schedules of scans, vacuum, writers and index builds on one table (R1, R3, R4, R8, R10).
//!
//! See `schedules` for how worlds are run.

use rightlink_env::thread;

use super::*;
use crate::error::Error;
use crate::schedules::{Case, catches, survives};
use crate::sort::TempFiles;
use crate::table::{BuildOptions, IndexBounds, Upserted, Written};

/// `id` (unique) and `tag`, with an index each.
fn world() -> Arc<Store> {
    let columns = vec![Column::new("id", Type::Int8, false), Column::new("tag", Type::Int8, false)];
    let mut def = TableDef::new(ObjectId(100), "items", FileId(64), columns);
    let index = |at: u32, name: &str, unique| {
        let key = vec![IndexColumn::ascending(at as u16 - 1)];
        IndexDef::new(ObjectId(100 + at), name, FileId(66 + at), key, unique)
    };
    def.indexes = vec![index(1, "items_id", true), index(2, "items_tag", false)];
    Arc::new(Store::with(def, 48, 1))
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
            let done = world.table.upsert_many(&mut statement, &rows, &[0], &mut merge);
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
        Case { rule: "r1-dead-mark", world: dead_marks, within: 1000 },
        Case { rule: "r3-clock", world: recycled_row_ids, within: 3000 },
        Case { rule: "r3-bucket", world: recycled_row_ids, within: 3000 },
        Case { rule: "r3-mark", world: recycled_row_ids, within: 3000 },
        Case { rule: "r3-by-key", world: cleaned_row_ids, within: 3000 },
        Case { rule: "r3-turn", world: cleaned_row_ids, within: 3000 },
        Case { rule: "r4-clock", world: index_only, within: 3000 },
        Case { rule: "r8-latch", world: one_key, within: 2000 },
        Case { rule: "r8-latch", world: upserts, within: 2000 },
        Case { rule: "r10-usable", world: builds, within: 1000 },
        Case { rule: "r10-hot", world: updates, within: 1000 },
    ]);
}
