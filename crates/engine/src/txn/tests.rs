//! Tests of the room through its public names, over the crashing model of the status file.

use std::collections::BTreeMap;
use std::time::Duration;

use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use rightlink_env::{Clock, Rng, points, thread};

use crate::error::{ConflictKind, Error};
use crate::ids::{Csn, Lsn, ObjectId, Xid};
use crate::txn::model::ModelFile;
use crate::txn::status::{CHILD, PER_PAGE};
use crate::txn::*;

const SMALL_RING: usize = 2048;
const TABLE: ObjectId = ObjectId(7);
const OTHER: ObjectId = ObjectId(8);

fn small() -> TxnOptions {
    TxnOptions { ring: SMALL_RING, ..TxnOptions::default() }
}

fn open() -> (ModelFile, Arc<TxnManager>) {
    let file = ModelFile::create();
    let manager = file.open(small());
    (file, manager)
}

fn begin(manager: &Arc<TxnManager>) -> Transaction {
    manager.begin(Isolation::Snapshot)
}

fn sees(snapshot: &Snapshot, xid: Xid) -> bool {
    let seen = snapshot.sees(xid).unwrap();
    assert!(snapshot.try_sees(xid).is_none_or(|quick| quick == seen));
    seen
}

/// Commits one statement of its own.
fn commit_one(manager: &Arc<TxnManager>, relaxed: bool) -> Xid {
    let mut txn = begin(manager);
    let xid = txn.xid().unwrap();
    txn.commit(relaxed).unwrap();
    xid
}

/// Uses up xids in relaxed transactions until `upto` was handed out.
fn burn(manager: &Arc<TxnManager>, upto: u64) {
    while manager.next_xid().0 < upto {
        let mut txn = begin(manager);
        while txn.id() > 0 && manager.next_xid().0 < upto && txn.xid().is_ok() {
            txn.begin_statement().unwrap();
        }
        txn.rollback();
    }
}

/// Waits until the transaction `id` is listed as waiting.
fn until_waiting(manager: &Arc<TxnManager>, id: u64) {
    while !manager.running().iter().any(|txn| txn.id == id && txn.waits_for.is_some()) {
        thread::sleep(Duration::from_millis(1));
    }
}

fn is_deadlock(error: &Error) -> bool {
    matches!(error, Error::Conflict { kind: ConflictKind::Deadlock, .. }) && error.is_retryable()
}

#[test]
fn visibility_matrix() {
    for isolation in [Isolation::Snapshot, Isolation::ReadCommitted] {
        let (_, manager) = open();
        let before = commit_one(&manager, false);
        let mut aborter = begin(&manager);
        let aborted = aborter.xid().unwrap();
        aborter.rollback();
        let mut other = begin(&manager);
        let concurrent = other.xid().unwrap();

        let mut txn = manager.begin(isolation);
        let first = txn.begin_statement().unwrap();
        let own = txn.xid().unwrap();
        assert!(sees(&first, before) && sees(&first, Xid::FROZEN));
        assert!(!sees(&first, aborted) && !sees(&first, concurrent));
        assert!(!sees(&first, own), "no statement sees its own changes");
        assert!(txn.owns(own) && !txn.owns(concurrent) && !first.is_own(own));

        other.commit(false).unwrap();
        let after = commit_one(&manager, false);
        assert!(!sees(&first, concurrent) && !sees(&first, after));
        let second = txn.begin_statement().unwrap();
        assert!(sees(&second, own), "the next statement sees it");
        let fresh = isolation == Isolation::ReadCommitted;
        assert_eq!(sees(&second, concurrent), fresh);
        assert_eq!(sees(&second, after), fresh);
        txn.commit(false).unwrap();
        assert!(!sees(&first, own) && sees(&second, own));
        assert!(sees(&begin(&manager).begin_statement().unwrap(), own));
    }
}

#[test]
fn outcomes_survive_a_restart() {
    let (file, manager) = open();
    let committed = commit_one(&manager, false);
    let mut aborter = begin(&manager);
    let aborted = aborter.xid().unwrap();
    aborter.rollback();
    let mut running = begin(&manager);
    let unfinished = running.xid().unwrap();
    let again = file.crash(&mut Rng::from_seed(1), 4).open(small());
    assert_eq!(again.status(committed).unwrap(), Status::Committed(CSN_OLD));
    assert_eq!(again.status(aborted).unwrap(), Status::Aborted);
    assert_eq!(again.status(unfinished).unwrap(), Status::Aborted);
    let mut reader = begin(&again);
    let snapshot = reader.begin_statement().unwrap();
    assert!(
        sees(&snapshot, committed) && !sees(&snapshot, aborted) && !sees(&snapshot, unfinished)
    );
    assert_eq!(again.horizon(), again.next_xid());
}

#[test]
fn a_failed_statement_leaves_the_transaction_usable() {
    let (_, manager) = open();
    let mut txn = begin(&manager);
    txn.begin_statement().unwrap();
    let first = txn.xid().unwrap();
    txn.begin_statement().unwrap();
    let failed = txn.xid().unwrap();
    txn.rollback_statement();
    assert!(txn.owns(first) && !txn.owns(failed));
    assert_eq!(manager.status(failed).unwrap(), Status::Aborted);
    let snapshot = txn.begin_statement().unwrap();
    let last = txn.xid().unwrap();
    assert!(last > failed && sees(&snapshot, first) && !sees(&snapshot, failed));
    txn.commit(false).unwrap();
    let status = |xid| manager.status(xid).unwrap();
    assert_eq!(status(first), status(last));
    assert!(matches!(status(last), Status::Committed(_)));
    assert_eq!(status(failed), Status::Aborted);
}

#[test]
fn savepoints_abort_what_came_after() {
    let (_, manager) = open();
    let mut txn = begin(&manager);
    let statement = |txn: &mut Transaction| {
        txn.begin_statement().unwrap();
        txn.xid().unwrap()
    };
    let zero = txn.savepoint();
    let a = statement(&mut txn);
    let one = txn.savepoint();
    let in_same = txn.xid().unwrap();
    assert_ne!(in_same, a, "what follows a savepoint can be undone alone");
    let two = txn.savepoint();
    let b = statement(&mut txn);
    txn.rollback_to(one).unwrap();
    assert!(txn.owns(a) && !txn.owns(in_same) && !txn.owns(b));
    assert!(txn.rollback_to(two).is_err(), "it is gone with the work before it");
    let c = statement(&mut txn);
    txn.rollback_to(one).unwrap();
    assert!(!txn.owns(c) && txn.owns(a));
    txn.release(one).unwrap();
    assert!(txn.rollback_to(one).is_err());
    txn.rollback_to(zero).unwrap();
    assert!(!txn.owns(a));
    assert_eq!(txn.commit(false).unwrap(), Lsn(0), "nothing is left to commit");
}

#[test]
fn a_transaction_that_wrote_nothing_logs_nothing() {
    let (file, manager) = open();
    let flushes = file.flushes();
    let mut txn = begin(&manager);
    txn.begin_statement().unwrap();
    assert_eq!(txn.commit(false).unwrap(), Lsn(0));
    assert_eq!(file.flushes(), flushes);
    assert_eq!(manager.counters().commits, 1);
}

/// No snapshot sees a commit B without every commit A that finished before B began.
#[test]
fn snapshots_respect_the_order_of_commits() {
    let (_, manager) = open();
    let clock = Arc::new(AtomicU64::new(1));
    let done: Arc<Mutex<Vec<(u64, u64, Xid)>>> = Arc::default();
    let stop = Arc::new(AtomicBool::new(false));
    let hook = points::install(|name| {
        if name == "txn.commit.before-visible" {
            thread::yield_now();
        }
    });
    let writer = |seed: u64| {
        let (manager, clock) = (Arc::clone(&manager), Arc::clone(&clock));
        let (done, stop) = (Arc::clone(&done), Arc::clone(&stop));
        thread::spawn("writer", move || {
            let mut rng = Rng::from_seed(seed);
            while !stop.load(Ordering::SeqCst) {
                let began = clock.fetch_add(1, Ordering::SeqCst);
                let xid = commit_one(&manager, rng.chance(1, 2));
                let ended = clock.fetch_add(1, Ordering::SeqCst);
                done.lock().push((began, ended, xid));
            }
        })
    };
    let writers: Vec<_> = (0..3).map(writer).collect();
    let mut snapshots = Vec::new();
    for _ in 0..300 {
        let mut reader = begin(&manager);
        snapshots.push(reader.begin_statement().unwrap());
        thread::yield_now();
    }
    stop.store(true, Ordering::SeqCst);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    drop(hook);
    let done = done.lock();
    let (mut seen_any, mut missed_any) = (false, false);
    for snapshot in &snapshots {
        let (seen, missed): (Vec<&(u64, u64, Xid)>, Vec<_>) =
            done.iter().partition(|(_, _, xid)| snapshot.sees(*xid).unwrap());
        let last_began = seen.iter().map(|(began, ..)| *began).max().unwrap_or(0);
        let first_ended = missed.iter().map(|(_, ended, _)| *ended).min().unwrap_or(u64::MAX);
        assert!(first_ended > last_began, "A ended at {first_ended}, B began at {last_began}");
        seen_any |= !seen.is_empty();
        missed_any |= !missed.is_empty();
    }
    assert!(seen_any && missed_any, "the run had commits on both sides of snapshots");
}

/// What the model of [`horizon_and_visibility_match_a_model`] knows of an open transaction.
struct ModelTxn {
    txn: Transaction,
    xids: Vec<u64>,
}

struct ModelSnapshot {
    snapshot: Arc<Snapshot>,
    xmin: u64,
    visible: usize,
}

#[test]
fn horizon_and_visibility_match_a_model() {
    for seed in 0..40 {
        let mut rng = Rng::from_seed(seed);
        let (file, manager) = open();
        let mut open: Vec<ModelTxn> = Vec::new();
        let mut snapshots: Vec<ModelSnapshot> = Vec::new();
        let mut committed: Vec<u64> = Vec::new();
        let mut last = Xid(0);
        for _ in 0..400 {
            let oldest = |open: &[ModelTxn]| {
                let firsts = open.iter().filter_map(|txn| txn.xids.first().copied());
                firsts.min().unwrap_or(manager.next_xid().0)
            };
            match rng.below(12) {
                0..3 if open.len() < 8 => open
                    .push(ModelTxn { txn: manager.begin(Isolation::ReadCommitted), xids: vec![] }),
                3..6 if !open.is_empty() => {
                    let at = rng.index(open.len());
                    for _ in 0..rng.below(300) {
                        open[at].txn.begin_statement().unwrap();
                        let xid = open[at].txn.xid().unwrap();
                        open[at].xids.push(xid.0);
                    }
                }
                6..8 if !open.is_empty() => {
                    let ModelTxn { txn, xids } = open.swap_remove(rng.index(open.len()));
                    if rng.chance(3, 4) {
                        txn.commit(rng.chance(1, 2)).unwrap();
                        committed.extend(&xids);
                    }
                }
                8..10 if snapshots.len() < 6 => {
                    let snapshot = begin(&manager).begin_statement().unwrap();
                    let xmin = oldest(&open);
                    snapshots.push(ModelSnapshot { snapshot, xmin, visible: committed.len() });
                }
                10 if !snapshots.is_empty() => {
                    snapshots.swap_remove(rng.index(snapshots.len()));
                }
                _ => file.write_back_some(&mut rng),
            }
            let bound = snapshots.iter().map(|s| s.xmin).min().unwrap_or(u64::MAX);
            let horizon = manager.horizon();
            assert!(
                horizon.0 <= bound.min(oldest(&open)),
                "seed {seed}: a live snapshot is passed"
            );
            assert!(horizon >= last, "the horizon never goes back");
            last = horizon;
            let set = manager.live_snapshots();
            assert!(set.horizon >= horizon && set.csns.is_sorted());
            assert!(snapshots.iter().all(|s| set.csns.contains(&s.snapshot.csn())));
        }
        for s in &snapshots {
            for (at, xid) in committed.iter().enumerate() {
                assert_eq!(sees(&s.snapshot, Xid(*xid)), at < s.visible, "seed {seed} xid {xid}");
            }
        }
        drop((snapshots, open));
        commit_one(&manager, true);
        assert_eq!(manager.horizon(), manager.next_xid(), "seed {seed}: nothing holds it back");
    }
}

/// Numbers leave the ring while a snapshot still compares them, and so does a long transaction.
#[test]
fn an_old_snapshot_outlives_the_ring() {
    let (file, manager) = open();
    let mut long = begin(&manager);
    let slow = long.xid().unwrap();
    let before = commit_one(&manager, false);
    let snapshot = begin(&manager).begin_statement().unwrap();
    let after = commit_one(&manager, false);
    burn(&manager, manager.next_xid().0 + 3 * SMALL_RING as u64);
    assert_eq!(manager.status(slow).unwrap(), Status::InProgress);
    assert!(sees(&snapshot, before) && !sees(&snapshot, after) && !sees(&snapshot, slow));
    long.commit(false).unwrap();
    assert!(!sees(&snapshot, slow));
    let late = begin(&manager).begin_statement().unwrap();
    assert!(sees(&late, slow) && sees(&late, before) && sees(&late, after));
    file.forget_pages();
    assert_eq!(late.try_sees(slow), None, "it would need a page");
    assert!(late.sees(slow).unwrap());
}

#[test]
fn two_transactions_that_wait_for_each_other() {
    let (_, manager) = open();
    let (mut one, mut two) = (begin(&manager), begin(&manager));
    let (x, y) = (one.xid().unwrap(), two.xid().unwrap());
    let (one_id, two_id) = (one.id(), two.id());
    let waiter = thread::spawn("one", move || {
        one.wait_for(y).unwrap();
        one.commit(false).unwrap()
    });
    until_waiting(&manager, one_id);
    let error = two.wait_for(x).unwrap_err();
    assert!(is_deadlock(&error));
    let text = error.to_string();
    assert!(text.contains(&format!("transaction {one_id} ")), "{text}");
    assert!(text.contains(&format!("transaction {two_id} ")), "{text}");
    two.rollback();
    waiter.join().unwrap();
    assert_eq!(manager.counters().deadlocks, 1);
}

/// A ring of three over rows and a table lock: both kinds of edges are in one graph.
#[test]
fn a_ring_of_three_over_rows_and_tables() {
    let (_, manager) = open();
    let (mut one, mut two, mut three) = (begin(&manager), begin(&manager), begin(&manager));
    let (x, z) = (one.xid().unwrap(), three.xid().unwrap());
    two.lock_table(TABLE, LockMode::Exclusive).unwrap();
    let (one_id, two_id) = (one.id(), two.id());
    let first = thread::spawn("one", move || {
        one.lock_table(TABLE, LockMode::Write).unwrap();
        one.commit(false).unwrap()
    });
    until_waiting(&manager, one_id);
    let second = thread::spawn("two", move || {
        two.wait_for(z).unwrap();
        two.commit(false).unwrap()
    });
    until_waiting(&manager, two_id);
    assert!(is_deadlock(&three.wait_for(x).unwrap_err()));
    assert!(
        matches!(manager.running()[1].waits_for, Some(WaitsFor::Transaction { xid, .. }) if xid == z)
    );
    drop(three);
    first.join().unwrap();
    second.join().unwrap();
    assert!(manager.running().is_empty());
}

#[test]
fn two_upgrades_of_one_table_are_a_deadlock() {
    let (_, manager) = open();
    let (mut one, mut two) = (begin(&manager), begin(&manager));
    one.lock_table(TABLE, LockMode::Write).unwrap();
    two.lock_table(TABLE, LockMode::Write).unwrap();
    let one_id = one.id();
    let waiter = thread::spawn("one", move || one.lock_table(TABLE, LockMode::Exclusive));
    until_waiting(&manager, one_id);
    assert!(is_deadlock(&two.lock_table(TABLE, LockMode::Exclusive).unwrap_err()));
    drop(two);
    assert!(waiter.join().unwrap().is_ok());
}

#[test]
fn waits_end_by_timeout_and_leave_nothing_behind() {
    let (_, manager) = open();
    let mut holder = begin(&manager);
    let xid = holder.xid().unwrap();
    holder.lock_table(TABLE, LockMode::Exclusive).unwrap();
    let mut txn = begin(&manager);
    txn.set_lock_timeout(Some(Duration::from_millis(5)));
    for error in
        [txn.wait_for(xid).unwrap_err(), txn.lock_table(TABLE, LockMode::Access).unwrap_err()]
    {
        assert!(matches!(&error, Error::Cancelled(why) if why.contains("5 ms")), "{error}");
        assert!(!error.is_retryable());
    }
    assert!(manager.running().iter().all(|txn| txn.waits_for.is_none()));
    holder.commit(false).unwrap();
    txn.wait_for(xid).unwrap();
    txn.lock_table(TABLE, LockMode::Exclusive).unwrap();
}

#[test]
fn simulated_time_ends_a_wait() {
    let clock = Clock::simulated();
    let file = ModelFile::create();
    let manager = file.open(TxnOptions {
        clock: clock.clone(),
        lock_timeout: Some(Duration::from_secs(3600)),
        ..small()
    });
    let mut holder = begin(&manager);
    let xid = holder.xid().unwrap();
    let mut txn = begin(&manager);
    let id = txn.id();
    let waiter = thread::spawn("waiter", move || txn.wait_for(xid));
    until_waiting(&manager, id);
    clock.advance(Duration::from_secs(3600));
    assert!(matches!(waiter.join().unwrap(), Err(Error::Cancelled(_))));
}

#[test]
fn a_cancel_ends_the_wait_and_the_next_until_cleared() {
    let (_, manager) = open();
    let mut holder = begin(&manager);
    let xid = holder.xid().unwrap();
    let mut txn = begin(&manager);
    let (handle, id) = (txn.cancel_handle(), txn.id());
    let waiter = thread::spawn("waiter", move || {
        let error = txn.wait_for(xid).unwrap_err();
        (txn, error)
    });
    until_waiting(&manager, id);
    handle.cancel();
    let (mut txn, error) = waiter.join().unwrap();
    assert!(matches!(error, Error::Cancelled(_)));
    assert!(txn.begin_statement().is_err() && txn.wait_for(xid).is_err());
    txn.clear_cancel();
    txn.begin_statement().unwrap();
    drop((holder, txn));
    handle.cancel();
}

#[test]
fn waiting_for_a_statement_ends_when_that_statement_is_undone() {
    let (_, manager) = open();
    let mut holder = begin(&manager);
    let kept = holder.xid().unwrap();
    holder.begin_statement().unwrap();
    let undone = holder.xid().unwrap();
    let mut txn = begin(&manager);
    let id = txn.id();
    let waiter = thread::spawn("waiter", move || {
        txn.wait_for(undone).unwrap();
        txn.wait_for(kept).unwrap();
    });
    until_waiting(&manager, id);
    holder.rollback_statement();
    while !matches!(
        manager.running().iter().find(|txn| txn.id == id).and_then(|txn| txn.waits_for),
        Some(WaitsFor::Transaction { xid, .. }) if xid == kept
    ) {
        thread::sleep(Duration::from_millis(1));
    }
    drop(holder);
    waiter.join().unwrap();
}

#[test]
fn table_locks_block_as_the_matrix_says_and_end_with_the_transaction() {
    let modes = [LockMode::Access, LockMode::Write, LockMode::Share, LockMode::Exclusive];
    let (_, manager) = open();
    for held in modes {
        for wanted in modes {
            let (mut one, mut two) = (begin(&manager), begin(&manager));
            two.set_lock_timeout(Some(Duration::ZERO));
            one.lock_table(TABLE, held).unwrap();
            one.lock_table(TABLE, held).unwrap();
            let got = two.lock_table(TABLE, wanted).is_ok();
            assert_eq!(got, held.is_compatible(wanted), "{held:?} {wanted:?}");
            two.lock_table(OTHER, LockMode::Exclusive).unwrap();
            one.rollback();
            two.lock_table(TABLE, wanted).unwrap();
        }
    }
}

#[test]
fn table_locks_are_granted_in_order() {
    let (_, manager) = open();
    let mut holder = begin(&manager);
    holder.lock_table(TABLE, LockMode::Share).unwrap();
    let order: Arc<Mutex<Vec<usize>>> = Arc::default();
    let mut waiters = Vec::new();
    for n in 0..5 {
        let mut txn = begin(&manager);
        let (id, order) = (txn.id(), Arc::clone(&order));
        waiters.push(thread::spawn("waiter", move || {
            txn.lock_table(TABLE, LockMode::Exclusive).unwrap();
            order.lock().push(n);
        }));
        until_waiting(&manager, id);
    }
    drop(holder);
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    assert_eq!(*order.lock(), [0, 1, 2, 3, 4]);
}

/// Crashes at random: what was acknowledged as durable is committed, relaxed commits survive as a prefix,
/// everything else is aborted, and no xid that left a trace is handed out twice.
#[test]
fn a_crash_keeps_what_was_acknowledged() {
    for seed in 0..60 {
        let mut rng = Rng::from_seed(seed);
        let mut file = ModelFile::create();
        // Value: committed, and since when for sure.
        let mut fate: BTreeMap<u64, bool> = BTreeMap::new();
        for _ in 0..4 {
            let manager = file.open(small());
            let (mut relaxed, first_new) = (Vec::new(), manager.next_xid().0);
            assert!(fate.keys().next_back().is_none_or(|last| *last < first_new), "reused");
            let mut unfinished = Vec::new();
            for _ in 0..rng.below(60) {
                let mut txn = begin(&manager);
                let mut xids = Vec::new();
                for _ in 0..1 + rng.below(40) {
                    txn.begin_statement().unwrap();
                    xids.push(txn.xid().unwrap().0);
                }
                match rng.below(5) {
                    0 => drop(txn),
                    1 => unfinished.push(txn),
                    2 => {
                        txn.commit(false).unwrap();
                        relaxed.drain(..).flatten().chain(xids.clone()).for_each(|xid: u64| {
                            fate.insert(xid, true);
                        });
                        continue;
                    }
                    _ => {
                        txn.commit(true).unwrap();
                        relaxed.push(xids.clone());
                    }
                }
                fate.extend(xids.into_iter().map(|xid| (xid, false)));
                if rng.chance(1, 20) {
                    file.write_back_some(&mut rng);
                }
            }
            let crashed = file.crash(&mut rng, 3);
            drop(unfinished);
            file = crashed;
            let again = file.open(small());
            // At and above the new start: the record of the ceiling was lost, so all that named it was.
            let committed = |xid: &u64| {
                *xid < again.next_xid().0 && again.status(Xid(*xid)).unwrap() != Status::Aborted
            };
            let mut lost = false;
            for xids in relaxed {
                let kept = xids.iter().filter(|xid| committed(xid)).count();
                assert!(kept == 0 || kept == xids.len(), "seed {seed}: half a transaction");
                assert!(!(lost && kept > 0), "seed {seed}: a later commit without an earlier one");
                lost |= kept == 0;
                fate.extend(xids.into_iter().map(|xid| (xid, kept > 0)));
            }
            for (xid, expected) in &fate {
                assert_eq!(committed(xid), *expected, "seed {seed} xid {xid}");
            }
            fate.retain(|xid, committed| *xid < again.next_xid().0 || *committed);
        }
    }
}

/// The story: xids above the ceiling that reached the disk would be handed out again after a crash.
#[test]
fn an_xid_is_never_handed_out_twice() {
    let mut file = ModelFile::create();
    let mut rng = Rng::from_seed(5);
    let mut highest = 0;
    for _ in 0..6 {
        let manager = file.open(small());
        let mut txn = begin(&manager);
        assert!(txn.xid().unwrap().0 > highest);
        for _ in 0..rng.below(3000) {
            txn.begin_statement().unwrap();
            txn.xid().unwrap();
        }
        txn.commit(false).unwrap();
        highest = manager.next_xid().0 - 1;
        file = file.crash(&mut rng, 0);
    }
    let manager = file.open(small());
    commit_one(&manager, false);
    manager.seal().unwrap();
    let next = manager.next_xid();
    assert!(begin(&manager).xid().is_err(), "a sealed manager hands out nothing");
    file.write_back_some(&mut rng);
    let mut all = file.crash(&mut rng, 4);
    assert_eq!(all.open(small()).next_xid(), next, "a clean close costs no xids");
    all = all.crash(&mut rng, 0);
    assert_eq!(all.open(small()).next_xid(), next);
}

fn big_transaction(manager: &Arc<TxnManager>, statements: u64) -> (Transaction, Vec<Xid>) {
    let mut txn = begin(manager);
    let mut some = Vec::new();
    for n in 0..statements {
        txn.begin_statement().unwrap();
        let xid = txn.xid().unwrap();
        if n % 997 == 0 || n + 1 == statements {
            some.push(xid);
        }
    }
    (txn, some)
}

#[test]
fn a_million_statements_in_one_transaction() {
    let file = ModelFile::create();
    let manager = file.open(TxnOptions::default());
    let old = begin(&manager).begin_statement().unwrap();
    let (mut txn, some) = big_transaction(&manager, 1_000_000);
    assert!(some.windows(2).all(|pair| pair[0] < pair[1]) && some.iter().all(|xid| txn.owns(*xid)));
    let used = some.last().unwrap().0 - some[0].0;
    assert!(used < 1_001_000, "xids come in long runs: {used}");
    let undone = {
        txn.begin_statement().unwrap();
        let xid = txn.xid().unwrap();
        txn.rollback_statement();
        xid
    };
    txn.commit(false).unwrap();
    let new = begin(&manager).begin_statement().unwrap();
    assert!(some.iter().all(|xid| sees(&new, *xid) && !sees(&old, *xid)) && !sees(&new, undone));
    let again = file.crash(&mut Rng::from_seed(3), 0).open(small());
    let after = begin(&again).begin_statement().unwrap();
    assert!(some.iter().all(|xid| sees(&after, *xid)) && !sees(&after, undone));
}

/// A transaction over many pages is pointed to its last xid first: a crash in between commits nothing.
#[test]
fn a_large_commit_is_atomic() {
    let (file, manager) = open();
    let (txn, some) = big_transaction(&manager, 6 * PER_PAGE);
    let crashed: Arc<Mutex<Option<ModelFile>>> = Arc::default();
    let hook = {
        let (crashed, file) = (Arc::clone(&crashed), file.clone());
        points::install_local(move |name| {
            if name == "txn.commit.before-parent" {
                file.write_back_some(&mut Rng::from_seed(9));
                *crashed.lock() = Some(file.crash(&mut Rng::from_seed(9), 4));
            }
        })
    };
    txn.commit(false).unwrap();
    drop(hook);
    let crashed = crashed.lock().take().expect("the commit took more than one record");
    assert!(crashed.children() > 0);
    let before = crashed.open(small());
    assert!(some.iter().all(|xid| before.status(*xid).unwrap() == Status::Aborted));
    let after = file.crash(&mut Rng::from_seed(9), 0).open(small());
    assert!(some.iter().all(|xid| after.status(*xid).unwrap() == Status::Committed(CSN_OLD)));
}

/// The story (R1): a relaxed commit over many pages; its numbers are spilled to the pages of its children,
/// which carry an older LSN than the commit record; a page is written back, and the log's end is lost.
#[test]
fn a_spilled_number_does_not_outlive_its_commit() {
    let (file, manager) = open();
    let _reader = begin(&manager).begin_statement().unwrap();
    let (txn, some) = big_transaction(&manager, 6 * PER_PAGE);
    txn.commit(true).unwrap();
    burn(&manager, manager.next_xid().0 + 2 * SMALL_RING as u64);
    assert!(matches!(manager.status(some[0]).unwrap(), Status::Committed(csn) if csn > CSN_OLD));
    file.write_back(some[0].0);
    let again = file.crash(&mut Rng::from_seed(1), 0).open(small());
    let outcomes: Vec<_> = some.iter().map(|xid| again.status(*xid).unwrap()).collect();
    assert!(
        outcomes.iter().all(|outcome| *outcome == outcomes[0]),
        "half a transaction: {outcomes:?}"
    );
}

#[test]
fn a_relaxed_commit_is_durable_only_after_a_flush() {
    let (_, manager) = open();
    let durable = commit_one(&manager, false);
    let relaxed = commit_one(&manager, true);
    assert!(matches!(manager.status(relaxed).unwrap(), Status::Committed(_)));
    assert!(!manager.is_durable(relaxed));
    let next = commit_one(&manager, false);
    assert!(manager.is_durable(durable) && manager.is_durable(relaxed) && manager.is_durable(next));
}

/// Durable, then visible, then acknowledged.
#[test]
fn a_commit_is_durable_before_it_is_visible() {
    let (_, manager) = open();
    let mut txn = begin(&manager);
    let xid = txn.xid().unwrap();
    let seen: Arc<Mutex<Vec<(&str, Status)>>> = Arc::default();
    let hook = {
        let (manager, seen) = (Arc::clone(&manager), Arc::clone(&seen));
        points::install_local(move |name| {
            if name.starts_with("txn.commit") {
                assert!(name != "txn.commit.before-visible" || manager.is_durable(xid));
                seen.lock().push((name, manager.status(xid).unwrap()));
            }
        })
    };
    txn.commit(false).unwrap();
    drop(hook);
    let visible: Vec<_> = seen.lock().iter().map(|(_, status)| *status).collect();
    let committed = Status::Committed(Csn(CSN_OLD.0 + 1));
    let running = Status::InProgress;
    assert_eq!(visible, [running, running, running, committed]);
}

#[test]
fn a_failed_sync_leaves_the_outcome_in_doubt() {
    let (file, manager) = open();
    let kept = commit_one(&manager, false);
    let mut txn = begin(&manager);
    let xid = txn.xid().unwrap();
    let mut other = begin(&manager);
    let id = other.id();
    let waiter = thread::spawn("waiter", move || other.wait_for(xid));
    until_waiting(&manager, id);
    file.fail_flushes();
    assert!(matches!(txn.commit(false), Err(Error::Poisoned(_))));
    assert!(matches!(waiter.join().unwrap(), Err(Error::Poisoned(_))));
    assert_eq!(manager.status(xid).unwrap(), Status::InProgress);
    assert!(manager.horizon() <= xid);
    let mut reader = begin(&manager);
    let snapshot = reader.begin_statement().unwrap();
    assert!(!sees(&snapshot, xid) && sees(&snapshot, kept), "reads go on");
    assert!(matches!(reader.xid(), Err(Error::Poisoned(_))));
}

#[test]
fn a_commit_that_could_not_be_logged_is_a_rollback() {
    let (file, manager) = open();
    let mut txn = begin(&manager);
    let xid = txn.xid().unwrap();
    file.fail_writes(true);
    assert!(matches!(txn.commit(false), Err(Error::DiskFull(_))));
    assert_eq!(manager.status(xid).unwrap(), Status::Aborted);
    file.fail_writes(false);
    commit_one(&manager, false);
    assert_eq!((manager.counters().aborts, manager.counters().commits), (1, 1));
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let (file, manager) = open();
    let (first, second) = (commit_one(&manager, false), commit_one(&manager, false));
    let again = file.crash(&mut Rng::from_seed(1), 0);
    let manager = again.open(small());
    for bad in [1, CHILD, CHILD | first.0, CHILD | u64::MAX, CHILD | 1 << 40] {
        again.damage(first.0, bad);
        assert!(matches!(manager.status(first), Err(Error::Corruption { .. })), "{bad:x}");
        assert_eq!(manager.try_status(first), None);
    }
    again.damage(first.0, CHILD | second.0);
    again.damage(second.0, CHILD | (second.0 + 1));
    assert!(manager.status(first).is_err(), "a pointer points to an outcome");
    for never in [Xid::NONE, manager.next_xid(), Xid(u64::MAX)] {
        assert!(matches!(manager.status(never), Err(Error::Corruption { .. })), "{never}");
    }
}

#[test]
fn cut_off_forgets_for_good() {
    let (file, manager) = open();
    let old = commit_one(&manager, false);
    let new = commit_one(&manager, false);
    manager.cut_off(new).unwrap();
    manager.cut_off(old).unwrap();
    assert_eq!(manager.oldest_xid(), new);
    commit_one(&manager, false);
    let again = file.crash(&mut Rng::from_seed(1), 0).open(small());
    assert_eq!(again.oldest_xid(), new);
    assert!(again.status(old).is_err() && again.status(new).is_ok());
}

#[test]
fn many_threads_of_conflicting_waits_end() {
    let (_, manager) = open();
    let rows: Arc<Vec<Mutex<Xid>>> = Arc::new((0..4).map(|_| Mutex::new(Xid::FROZEN)).collect());
    let worker = |seed: u64| {
        let (manager, rows) = (Arc::clone(&manager), Arc::clone(&rows));
        thread::spawn("worker", move || {
            let mut rng = Rng::from_seed(seed);
            let mut done = 0;
            while done < 60 {
                let mut txn = begin(&manager);
                let worked =
                    (0..3).all(|_| lock_row(&mut txn, &rows[rng.index(rows.len())]).is_ok());
                if worked {
                    txn.commit(true).unwrap();
                    done += 1;
                }
            }
        })
    };
    let workers: Vec<_> = (0..8).map(worker).collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert_eq!(manager.counters().commits, 480);
    assert_eq!(manager.counters().aborts, manager.counters().deadlocks);
    assert!(manager.running().is_empty());
    assert_eq!(manager.horizon(), manager.next_xid());
}

/// Locks a row as the heap would: by its xid in it, after whoever is in it has ended.
fn lock_row(txn: &mut Transaction, row: &Mutex<Xid>) -> crate::Result<()> {
    loop {
        let xid = txn.xid()?;
        let mut holder = row.lock();
        let in_it = *holder;
        if txn.owns(in_it) || txn.manager().status(in_it)? != Status::InProgress {
            *holder = xid;
            return Ok(());
        }
        drop(holder);
        txn.wait_for(in_it)?;
    }
}

#[test]
fn transactions_are_send() {
    fn send<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    send::<Transaction>();
    shared::<Snapshot>();
    shared::<CancelHandle>();
    shared::<TxnManager>();
}
