//! Waits: deadlocks, timeouts, cancel, table locks, and many threads at once.

use std::time::Duration;

use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::{Clock, Rng, thread};

use super::{OTHER, TABLE, begin, open, small};
use crate::error::{ConflictKind, Error};
use crate::ids::{RowId, Xid};
use crate::txn::tests::model::ModelFile;
use crate::txn::*;

/// Waits until the transaction `id` is listed as waiting.
pub(super) fn until_waiting(manager: &Arc<TxnManager>, id: u64) {
    while !manager.running().iter().any(|txn| txn.id == id && txn.waits_for.is_some()) {
        thread::sleep(Duration::from_millis(1));
    }
}

fn is_deadlock(error: &Error) -> bool {
    matches!(error, Error::Conflict { kind: ConflictKind::Deadlock, .. }) && error.is_retryable()
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

/// A cycle of three over rows and a table lock: both kinds of edges are in one graph.
#[test]
fn a_cycle_of_three_over_rows_and_tables() {
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
    let waits_for = manager.running()[1].waits_for;
    assert!(matches!(waits_for, Some(WaitsFor::Transaction { xid, .. }) if xid == z));
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
        let limit = Duration::from_millis(5);
        let at_limit = matches!(&error, Error::LockTimeout { waited, .. } if *waited == limit);
        assert!(at_limit, "{error}");
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
    assert!(matches!(waiter.join().unwrap(), Err(Error::LockTimeout { .. })));
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

/// Locks a row as the heap does: puts its xid into it after the holder's transaction has ended.
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

/// Of three transactions that wait to write a row one is woken. The others wait for it, then for
/// the next one if it declines the row, or for its statement if it writes the row.
#[test]
fn one_of_several_waiting_writers_is_granted_the_row() {
    const ROW: RowVersion =
        RowVersion { table: TABLE, row: RowId { block: crate::ids::BlockNo(1), slot: 1 } };
    let (_, manager) = open();
    let waits_for = |id: u64| {
        let running = manager.running();
        match running.iter().find(|txn| txn.id == id).and_then(|txn| txn.waits_for) {
            Some(WaitsFor::Transaction { xid, id }) => (xid, id),
            other => panic!("transaction {id} waits for {other:?}"),
        }
    };
    let mut holder = begin(&manager);
    let xid = holder.xid().unwrap();
    let (may, order) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let start = |wants: bool| {
        let mut txn = manager.begin(Isolation::ReadCommitted);
        let (id, may, order) = (txn.id(), Arc::clone(&may), Arc::clone(&order));
        let thread = thread::spawn("waits", move || {
            let own = txn.xid().unwrap();
            let wait = RowWait { xid, version: ROW, ends_version: true };
            txn.wait_to_write(wait, ReleasableReads::default()).unwrap();
            order.lock().push(id);
            while !may.lock().contains(&(id, "decide")) {
                thread::sleep(Duration::from_millis(1));
            }
            txn.finish_row_wait(wants.then_some(WrittenRow { version: ROW, successor: None }));
            while !may.lock().contains(&(id, "commit")) {
                thread::sleep(Duration::from_millis(1));
            }
            txn.commit(true).unwrap();
            own
        });
        until_waiting(&manager, id);
        (id, thread)
    };
    let (first, leaves) = start(false);
    let (second, takes) = start(true);
    let (third, last) = start(true);
    let until = |done: &dyn Fn() -> bool| {
        while !done() {
            thread::sleep(Duration::from_millis(1));
        }
    };
    holder.commit(true).unwrap();
    until(&|| *order.lock() == [first]);
    assert_eq!((waits_for(second), waits_for(third)), ((Xid::NONE, first), (Xid::NONE, first)));
    may.lock().push((first, "decide"));
    until(&|| *order.lock() == [first, second]);
    assert_eq!(waits_for(third), (Xid::NONE, second));
    may.lock().push((second, "decide"));
    until(&|| waits_for(third).0 != Xid::NONE);
    assert_eq!(waits_for(third).1, second);
    may.lock().push((second, "commit"));
    takes.join().unwrap();
    until(&|| *order.lock() == [first, second, third]);
    for (id, thread) in [(third, last), (first, leaves)] {
        may.lock().extend([(id, "decide"), (id, "commit")]);
        thread.join().unwrap();
    }
    assert!(manager.running().is_empty());
}
