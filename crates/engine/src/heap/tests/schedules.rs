//! Schedules of readers, writers and pruning on heap pages (R1, R9, R12).
//!
//! See `schedules` for how worlds are run.

use rightlink_env::Broken;
use rightlink_env::thread;

use super::*;
use crate::heap::page::tuple::XMIN_COMMITTED;
use crate::schedules::{Case, catches, survives};

fn world() -> Arc<Fixture> {
    Arc::new(Fixture::with(32, OPTIONS))
}

fn start<T: Send + 'static>(
    world: &Arc<Fixture>,
    work: impl FnOnce(&Fixture) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let world = Arc::clone(world);
    thread::spawn("explores", move || work(&world))
}

/// Readers find a relaxed commit while the log is flushed, or not: a hint that says committed is
/// set only when the record is durable (R1).
fn hints() {
    let world = world();
    let mut txn = world.begin();
    txn.begin_statement().expect("a statement");
    let row = world.heap.insert(txn.xid().expect("an xid"), b"row").expect("inserted");
    let flusher = start(&world, |world| {
        let wal = world.pool.wal();
        wal.flush(wal.end()).expect("a sound disk");
    });
    let reader = start(&world, move |world| {
        for _ in 0..3 {
            let _ = world.fetch(row);
        }
        let hinted = world.header(row).has(XMIN_COMMITTED);
        hinted.then(|| world.pool.wal().durable())
    });
    let end = txn.commit(true).expect("a commit");
    flusher.join().expect("no panic");
    if let Some(durable) = reader.join().expect("no panic") {
        assert!(durable >= end, "R1: the hint rests on a durable commit");
    }
}

/// Updates and pruning beside a reader: its snapshot finds the version it found before (R9).
fn pruning() {
    let world = world();
    let row = world.insert(b"version 0");
    let reader = start(&world, move |world| {
        let (_txn, snapshot) = world.snapshot();
        let fetch = || world.heap.fetch(&snapshot, row).expect("fetched").row.map(|(_, row)| row);
        let first = fetch();
        assert!(first.is_some(), "the row is never deleted");
        thread::yield_now();
        assert_eq!(fetch(), first, "a snapshot sees the same for ever");
    });
    let writer = start(&world, move |world| {
        let mut at = row;
        for version in [b"version 1", b"version 2"] {
            at = world.update(at, version, true);
            world.heap.prune(row.block).expect("pruned");
        }
    });
    reader.join().expect("no panic");
    writer.join().expect("no panic");
    assert_eq!(world.fetch(row).as_deref(), Some(&b"version 2"[..]));
    world.assert_sound();
}

/// Two rows move to each other's page at once: no thread waits for ever (R12).
fn crossing() {
    let world = world();
    let rows: Vec<RowId> = (0..2).map(|_| world.insert(&[7; 7000])).collect();
    let rows: Vec<RowId> = rows.iter().map(|row| world.update(*row, b"small", false)).collect();
    assert_ne!(rows[0].block, rows[1].block, "rows of two pages");
    let movers = [(rows[0], rows[1].block.0), (rows[1], rows[0].block.0)].map(|(row, to)| {
        start(&world, move |world| {
            world.commit(|txn| world.heap.update_onto(txn, row, to).expect("moved"));
        })
    });
    for mover in movers {
        mover.join().expect("no panic");
    }
    for row in rows {
        assert_eq!(world.fetch(row), None, "the version moved away");
    }
    world.assert_sound();
}

/// Two share a row beside a deletion: as long as one of them has it, it is there.
fn sharing() {
    let world = world();
    let row = world.insert(b"row");
    let sharers = [0, 1].map(|_| {
        start(&world, move |world| {
            let mut txn = world.begin();
            txn.begin_statement().expect("a statement");
            let locked = world.heap.lock(&mut txn, row, RowLock::Shared).expect("judged");
            if let WriteOutcome::Done { .. } = locked {
                thread::yield_now();
                assert!(world.fetch(row).is_some(), "a shared row stays");
            }
            txn.commit(true).expect("a commit");
        })
    });
    let deleter = start(&world, move |world| {
        for _ in 0..3 {
            let mut txn = world.begin();
            txn.begin_statement().expect("a statement");
            match world.heap.delete(&mut txn, row).expect("judged") {
                WriteOutcome::Done { .. } => {
                    txn.commit(true).expect("a commit");
                    return;
                }
                WriteOutcome::Locked { by: xid, .. } => txn.wait_for(xid).expect("no cycle"),
                other => panic!("{other:?}"),
            }
        }
    });
    for thread in sharers.into_iter().chain([deleter]) {
        thread.join().expect("no panic");
    }
    assert_eq!(world.txns.multixact_count(), 0);
    world.assert_sound();
}

#[test]
fn shared_rows_stay() {
    survives("sharing", sharing, 400);
}

#[test]
fn rows_cross_pages() {
    survives("crossing", crossing, 400);
}

#[test]
fn hints_rest_on_durable_commits() {
    survives("hints", hints, 400);
}

#[test]
fn snapshots_keep_their_versions() {
    survives("pruning", pruning, 400);
}

#[test]
fn broken_heaps_are_caught() {
    catches(&[
        Case { rule: Broken::CommitHintNotDurable, world: hints, within: 2000 },
        Case { rule: Broken::HorizonIgnoresSnapshots, world: pruning, within: 2000 },
        Case { rule: Broken::SnapshotRegisteredLate, world: pruning, within: 2000 },
        Case { rule: Broken::LockGroupForgetsMembers, world: sharing, within: 2000 },
        Case { rule: Broken::HeapLatchesUnordered, world: crossing, within: 2000 },
    ]);
}
