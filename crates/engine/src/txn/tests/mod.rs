//! Tests of the module through its public names, over a status file in memory that can crash.

mod crash;
mod model;
mod pooled;
#[cfg(feature = "shuttle")]
mod schedules;
mod waiting;

use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use rightlink_env::{Rng, points, thread};

use crate::ids::{Lsn, ObjectId, Xid};
use crate::txn::status::CSN_OLD;
use crate::txn::tests::model::ModelFile;
use crate::txn::*;

const FEW_RECENT: usize = 2048;
const TABLE: ObjectId = ObjectId(7);
const OTHER: ObjectId = ObjectId(8);

fn small() -> TxnOptions {
    TxnOptions { recent_xids: FEW_RECENT, ..TxnOptions::default() }
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
    // On a busy machine the writers may get no turn before all snapshots have been taken.
    let commits = || done.lock().len();
    let wait_for = |more: usize| {
        let wanted = commits() + more;
        while commits() < wanted {
            thread::yield_now();
        }
    };
    wait_for(1);
    let mut snapshots = Vec::new();
    for _ in 0..300 {
        let mut reader = begin(&manager);
        snapshots.push(reader.begin_statement().unwrap());
        thread::yield_now();
    }
    wait_for(writers.len() + 1);
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

/// Commit numbers are spilled while a snapshot still compares them, and so is a long transaction.
#[test]
fn an_old_snapshot_outlives_the_recent_outcomes() {
    let (file, manager) = open();
    let mut long = begin(&manager);
    let slow = long.xid().unwrap();
    let before = commit_one(&manager, false);
    let snapshot = begin(&manager).begin_statement().unwrap();
    let after = commit_one(&manager, false);
    burn(&manager, manager.next_xid().0 + 3 * FEW_RECENT as u64);
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

/// The story: the third statement's xid lies in the run that the second one was given, so its own
/// snapshot knows it as an own xid; only the bound keeps a statement from reading its own changes.
#[test]
fn a_statement_never_sees_its_own_changes() {
    let (_, manager) = open();
    for isolation in [Isolation::Snapshot, Isolation::ReadCommitted] {
        let mut txn = manager.begin(isolation);
        let mut earlier: Vec<Xid> = Vec::new();
        for _ in 0..10 {
            let snapshot = txn.begin_statement().unwrap();
            let xid = txn.xid().unwrap();
            assert!(!sees(&snapshot, xid) && earlier.iter().all(|xid| sees(&snapshot, *xid)));
            earlier.push(xid);
        }
    }
}

/// 256 transactions at a time, each with a snapshot of its own, end in any order.
#[test]
fn hundreds_of_transactions_at_a_time() {
    let (_, manager) = open();
    let mut rng = Rng::from_seed(11);
    let mut running: Vec<(Transaction, Arc<Snapshot>)> = Vec::new();
    for _ in 0..4000 {
        let mut txn = begin(&manager);
        let snapshot = txn.begin_statement().unwrap();
        txn.xid().unwrap();
        running.push((txn, snapshot));
        if running.len() == 256 {
            running.swap_remove(rng.index(256)).0.commit(true).unwrap();
        }
    }
    assert_eq!(manager.running().len(), 255);
    let oldest = running.iter().map(|(_, snapshot)| snapshot.xmin()).min();
    assert!(Some(manager.horizon()) <= oldest);
    assert!(manager.live_snapshots().csns.len() <= 256);
    running.clear();
    assert_eq!(manager.horizon(), manager.next_xid());
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
