//! Schedules of transactions, explored by a model checker:
//! `cargo test -p rightlink --features shuttle txn::tests::schedules`.
//!
//! Eight xids have recent outcomes here, so that outcomes are spilled to the pages while readers
//! look for them. The checker itself reports a waiter that is never woken.

use rightlink_env::Broken;
use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::thread;

use crate::error::{ConflictKind, Error};
use crate::ids::{Lsn, ObjectId, RowId, Xid};
use crate::schedules::{Case, catches, survives};
use crate::txn::tests::model::ModelFile;
use crate::txn::*;

const RUNS: usize = 2000;

fn open() -> Arc<TxnManager> {
    ModelFile::create().open(TxnOptions { recent_xids: 8, ..TxnOptions::default() })
}

/// Commits `count` statements in transactions of two each; returns the xids, oldest first.
fn commit_some(manager: &Arc<TxnManager>, count: usize) -> Vec<Xid> {
    let mut done = Vec::new();
    for _ in 0..count / 2 {
        let mut txn = manager.begin(Isolation::Snapshot);
        for _ in 0..2 {
            txn.begin_statement().expect("not cancelled");
            done.push(txn.xid().expect("the model has room"));
        }
        txn.commit(done.len() % 4 == 0).expect("the model takes it");
    }
    done
}

/// What a snapshot answers stays the same wherever the outcome moves, a transaction is seen whole,
/// and of one thread's commits an older one is seen if a younger one is.
fn snapshots_stay_consistent() {
    let manager = open();
    let mut long = manager.begin(Isolation::Snapshot);
    let slow = long.xid().expect("the model has room");
    let writer = || {
        let manager = Arc::clone(&manager);
        thread::spawn("writer", move || commit_some(&manager, 6))
    };
    let writers = [writer(), writer()];
    let ender = thread::spawn("ender", move || drop(long.commit(false)));
    let views: Vec<_> = (0..2)
        .map(|_| {
            let snapshot = manager.begin(Isolation::Snapshot).begin_statement().expect("begins");
            let early: Vec<bool> =
                xids(&manager).map(|xid| snapshot.sees(xid).expect("told")).collect();
            (snapshot, early)
        })
        .collect();
    let written: Vec<Vec<Xid>> =
        writers.into_iter().map(|writer| writer.join().expect("no panic")).collect();
    ender.join().expect("no panic");
    for (snapshot, early) in &views {
        for (xid, early) in xids(&manager).zip(early) {
            assert_eq!(snapshot.sees(xid).expect("told"), *early, "xid {xid} changed sides");
        }
        for thread in &written {
            let seen: Vec<bool> =
                thread.iter().map(|xid| snapshot.sees(*xid).expect("told")).collect();
            assert!(
                seen.is_sorted_by(|a, b| a >= b),
                "a younger commit without an older: {seen:?}"
            );
            assert!(seen.chunks(2).all(|pair| pair[0] == pair[1]), "half a transaction: {seen:?}");
        }
    }
    drop(views);
    let last = manager.begin(Isolation::Snapshot).begin_statement().expect("begins");
    assert!(written.iter().flatten().chain([&slow]).all(|xid| last.sees(*xid).expect("told")));
    assert_eq!(manager.horizon(), manager.next_xid());
}

/// A commit is seen, or said to be durable, only when its record is (R1, and durable before
/// visible unless relaxed).
fn commits_are_durable_first() {
    let manager = open();
    let txns = [true, false].map(|relaxed| {
        let mut txn = manager.begin(Isolation::Snapshot);
        (txn.xid().expect("the model has room"), txn, relaxed)
    });
    let watched: Vec<(Xid, bool)> = txns.iter().map(|(xid, _, relaxed)| (*xid, *relaxed)).collect();
    let watcher = {
        let manager = Arc::clone(&manager);
        thread::spawn("watcher", move || {
            let seen = |&(xid, relaxed): &(Xid, bool)| {
                let committed = matches!(manager.status(xid), Ok(Status::Committed(_)));
                let claimed = committed && (!relaxed || manager.is_durable(xid));
                claimed.then(|| manager.file.durable())
            };
            watched.iter().map(seen).collect::<Vec<_>>()
        })
    };
    let ends: Vec<Lsn> = txns
        .map(|(_, txn, relaxed)| {
            let manager = Arc::clone(&manager);
            thread::spawn("commits", move || {
                let end = txn.commit(relaxed).expect("the model takes it");
                assert!(relaxed || manager.file.durable() >= end, "acknowledged after durable");
                end
            })
        })
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .collect();
    for (durable, end) in watcher.join().expect("no panic").into_iter().zip(ends) {
        assert!(durable.is_none_or(|durable| durable >= end), "seen before it was durable");
    }
}

fn xids(manager: &TxnManager) -> impl Iterator<Item = Xid> {
    (Xid::FIRST.0..manager.next_xid().0).map(Xid)
}

/// Crossing waits over rows and a table: no wait lasts for ever, and a victim gets the error.
fn waits_end() {
    let manager = open();
    let rows: Arc<[Mutex<Xid>; 2]> = Arc::new([Mutex::new(Xid::FROZEN), Mutex::new(Xid::FROZEN)]);
    let worker = |first: usize| {
        let (manager, rows) = (Arc::clone(&manager), Arc::clone(&rows));
        thread::spawn("worker", move || {
            let mut txn = manager.begin(Isolation::ReadCommitted);
            let result = lock_row(&mut txn, &rows[first], first)
                .and_then(|()| txn.lock_table(ObjectId(1), LockMode::Exclusive))
                .and_then(|()| lock_row(&mut txn, &rows[1 - first], 1 - first));
            match result {
                Ok(()) => txn.commit(first == 0).map(|_| ()).expect("the model takes it"),
                Err(Error::Conflict { kind: ConflictKind::Deadlock, .. }) => {}
                Err(error) => panic!("{error}"),
            }
        })
    };
    let workers = [worker(0), worker(1), worker(1)];
    workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
    let counters = manager.counters();
    assert!(counters.commits >= 1 && counters.aborts == counters.deadlocks, "{counters:?}");
    assert!(manager.running().is_empty());
}

/// Locks a row as the heap does: puts its xid into it after the holder's transaction has ended.
fn lock_row(txn: &mut Transaction, row: &Mutex<Xid>, number: usize) -> crate::Result<()> {
    let xid = txn.xid()?;
    let version = RowVersion { table: ObjectId(1), row: RowId::new(number as u32, 1) };
    let locked = loop {
        let mut holder = row.lock();
        let in_it = *holder;
        if txn.owns(in_it) || txn.manager().status(in_it)? != Status::InProgress {
            *holder = xid;
            break Ok(());
        }
        drop(holder);
        let wait = RowWait { xid: in_it, version, ends_version: true };
        if let Err(error) = txn.wait_to_write(wait, ReleasableReads::default()).map(drop) {
            break Err(error);
        }
    };
    txn.finish_row_wait(locked.is_ok().then_some(WrittenRow { version, successor: None }));
    locked
}

/// Several transactions wait for one row, and some decline it: all of them end, and all that want
/// it get it.
fn row_queues_end() {
    let manager = open();
    let row = Arc::new(Mutex::new(Xid::FROZEN));
    let worker = |wants: bool| {
        let (manager, row) = (Arc::clone(&manager), Arc::clone(&row));
        thread::spawn("worker", move || {
            let mut txn = manager.begin(Isolation::ReadCommitted);
            if wants {
                lock_row(&mut txn, &row, 0).expect("one row has no cycle");
                txn.commit(true).expect("the model takes it");
                return;
            }
            let in_it = *row.lock();
            if manager.status(in_it).expect("the model has it") == Status::InProgress {
                let mut snapshot = Some(txn.begin_statement().expect("nothing is cancelled"));
                let reads = ReleasableReads { snapshot: Some(&mut snapshot), named_row: None };
                let version = RowVersion { table: ObjectId(1), row: RowId::new(0, 1) };
                let wait = RowWait { xid: in_it, version, ends_version: true };
                let waited = txn.wait_to_write(wait, reads).expect("no cycle");
                assert!(snapshot.is_some(), "it can be read by again");
                drop((waited, snapshot));
                txn.finish_row_wait(None);
            }
        })
    };
    let workers = [worker(true), worker(true), worker(false), worker(true)];
    workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
    assert!(manager.running().is_empty());
}

/// Two transactions share a row for a moment, again and again, while a third wants it alone: those
/// that came to share it after the claim get it after the writer, and no wait lasts for ever.
fn writers_are_not_passed_by() {
    const ROW: RowVersion =
        RowVersion { table: ObjectId(1), row: RowId { block: crate::ids::BlockNo(1), slot: 1 } };
    #[derive(Default)]
    struct Row {
        lockers: Vec<Xid>,
        claimed: bool,
    }
    let manager = open();
    let row = Arc::new(Mutex::new(Row::default()));
    let runs = |manager: &Arc<TxnManager>, xid: &Xid| {
        manager.status(*xid).expect("the model has it") == Status::InProgress
    };
    let sharer = || {
        let (manager, row) = (Arc::clone(&manager), Arc::clone(&row));
        thread::spawn("sharer", move || {
            for _ in 0..2 {
                let mut txn = manager.begin(Isolation::ReadCommitted);
                let xid = txn.xid().expect("the model has room");
                let claimed = row.lock().claimed;
                if txn.has_priority_writer(ROW, RowLock::Shared) {
                    txn.wait_behind_writer(ROW, RowLock::Shared).expect("no cycle");
                }
                let mut row = row.lock();
                assert!(!claimed || !row.claimed, "a writer that waited goes first");
                row.lockers.push(xid);
                drop(row);
                txn.commit(true).expect("the model takes it");
            }
        })
    };
    let sharers = [sharer(), sharer()];
    let mut txn = manager.begin(Isolation::ReadCommitted);
    txn.xid().expect("the model has room");
    loop {
        let mut held = row.lock();
        let Some(by) = held.lockers.iter().copied().find(|xid| runs(&manager, xid)) else {
            held.claimed = false;
            break;
        };
        if !held.claimed {
            txn.claim_row(ROW, RowLock::Exclusive);
            held.claimed = true;
        }
        drop(held);
        let wait = RowWait { xid: by, version: ROW, ends_version: false };
        let _ = txn.wait_to_write(wait, ReleasableReads::default()).expect("no cycle");
    }
    txn.finish_row_wait(None);
    txn.commit(true).expect("the model takes it");
    sharers.into_iter().for_each(|sharer| sharer.join().expect("no panic"));
    assert!(manager.running().is_empty());
}

/// A cancel that comes at any moment ends the wait, or comes before it.
fn a_cancel_is_never_lost() {
    let manager = open();
    let mut holder = manager.begin(Isolation::Snapshot);
    let xid = holder.xid().expect("the model has room");
    let mut txn = manager.begin(Isolation::Snapshot);
    let handle = txn.cancel_handle();
    let waiter = thread::spawn("waiter", move || txn.wait_for(xid));
    handle.cancel();
    let ended = waiter.join().expect("no panic");
    assert!(matches!(ended, Err(Error::Cancelled(_))), "{ended:?}");
    drop(holder);
}

#[test]
fn snapshots_stay_consistent_in_random_schedules() {
    shuttle::check_random(snapshots_stay_consistent, RUNS);
}

#[test]
fn snapshots_stay_consistent_in_rare_schedules() {
    shuttle::check_pct(snapshots_stay_consistent, RUNS, 3);
}

#[test]
fn waits_end_in_every_schedule() {
    shuttle::check_random(waits_end, RUNS);
    shuttle::check_pct(waits_end, RUNS, 3);
}

#[test]
fn row_queues_end_in_every_schedule() {
    shuttle::check_random(row_queues_end, RUNS);
    shuttle::check_pct(row_queues_end, RUNS, 3);
}

#[test]
fn writers_are_not_passed_by_in_any_schedule() {
    survives("writers are not passed by", writers_are_not_passed_by, RUNS);
}

#[test]
fn a_cancel_is_never_lost_in_any_schedule() {
    shuttle::check_random(a_cancel_is_never_lost, RUNS);
}

#[test]
fn commits_are_durable_first_in_every_schedule() {
    survives("commits are durable first", commits_are_durable_first, RUNS);
}

#[test]
fn broken_transactions_are_caught() {
    catches(&[
        Case {
            rule: Broken::CommitNumberBeforeOutcome,
            world: snapshots_stay_consistent,
            within: 4000,
        },
        Case { rule: Broken::CommitNotDurable, world: commits_are_durable_first, within: 1000 },
        Case {
            rule: Broken::RelaxedCommitCalledDurable,
            world: commits_are_durable_first,
            within: 4000,
        },
        Case {
            rule: Broken::WriterOvertakenBySharers,
            world: writers_are_not_passed_by,
            within: 4000,
        },
        Case { rule: Broken::RowNotHandedOn, world: row_queues_end, within: 4000 },
        Case { rule: Broken::WakeupsDropped, world: row_queues_end, within: 100 },
    ]);
}
