//! Crashes, failed syncs and damage: what was acknowledged is kept, and nothing is half done.

use rightlink_env::Broken;
use std::collections::BTreeMap;

use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::{Rng, points, thread};

use super::waiting::until_waiting;
use super::{FEW_RECENT, begin, burn, commit_one, open, sees, small};
use crate::error::Error;
use crate::ids::{Csn, Xid};
use crate::txn::status::CSN_OLD;
use crate::txn::status::file::CHILD;
use crate::txn::status::segment::PER_PAGE;
use crate::txn::tests::model::ModelFile;
use crate::txn::*;

/// Crashes at random: what was acknowledged as durable is committed, relaxed commits survive as a
/// prefix, everything else is aborted, and no xid that left a trace is handed out twice.
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
            // At and above the new start: the record of the ceiling was lost, so all that named it
            // was.
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

pub(super) fn big_transaction(
    manager: &Arc<TxnManager>,
    statements: u64,
) -> (Transaction, Vec<Xid>) {
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

/// A transaction over many pages is pointed to its last xid first: a crash in between commits
/// nothing.
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

/// The story (R1): a relaxed commit over many pages; its numbers are spilled to the pages of its
/// children, which carry an older LSN than the commit record; a page is written back, and the log's
/// end is lost.
#[test]
fn a_spilled_number_does_not_outlive_its_commit() {
    let (file, manager) = open();
    let _reader = begin(&manager).begin_statement().unwrap();
    let (txn, some) = big_transaction(&manager, 6 * PER_PAGE);
    txn.commit(true).unwrap();
    burn(&manager, manager.next_xid().0 + 2 * FEW_RECENT as u64);
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
fn outcomes_are_forgotten_for_good() {
    let (file, manager) = open();
    let old = commit_one(&manager, false);
    let new = commit_one(&manager, false);
    manager.forget_outcomes(new).unwrap();
    manager.forget_outcomes(old).unwrap();
    assert_eq!(manager.oldest_xid(), new);
    commit_one(&manager, false);
    let again = file.crash(&mut Rng::from_seed(1), 0).open(small());
    assert_eq!(again.oldest_xid(), new);
    assert!(again.status(old).is_err() && again.status(new).is_ok());
}

/// Each rule of transactions, broken, is caught by the test beside it.
#[test]
fn broken_rules_are_caught() {
    let cases: [(Broken, &'static str, fn()); 5] = [
        (
            Broken::CommitNumberSpilledEarly,
            "spilled number",
            a_spilled_number_does_not_outlive_its_commit,
        ),
        (
            Broken::RelaxedCommitCalledDurable,
            "relaxed",
            a_relaxed_commit_is_durable_only_after_a_flush,
        ),
        (Broken::CommitNotDurable, "acknowledged", a_crash_keeps_what_was_acknowledged),
        (Broken::StatementSeesItself, "own changes", super::a_statement_never_sees_its_own_changes),
        (Broken::HorizonIgnoresSnapshots, "model", super::horizon_and_visibility_match_a_model),
    ];
    for (rule, name, check) in cases {
        let caught = rightlink_env::points::caught(rule, &[(name, check)]);
        assert!(caught.is_some(), "no check noticed {rule}");
    }
}
