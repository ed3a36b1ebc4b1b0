//! Several transactions at a time: conflicts, waiting, re-evaluation, races for a unique key.

use rightlink_env::thread;

use super::*;
use crate::error::Error;
use crate::table::{Busy, Written};
use crate::txn::{RowLock, RowVersion, WaitsFor};

fn rename(to: &'static str) -> impl FnMut(&[Value]) -> Result<Option<Vec<Value>>> {
    move |old| {
        let mut new = old.to_vec();
        new[1] = Value::Text(to.into());
        Ok(Some(new))
    }
}

#[test]
fn under_snapshot_isolation_the_second_writer_has_a_conflict() {
    let store = Store::new(64, 1);
    let row = store.insert(1, "a").unwrap();
    let mut late = store.begin(Isolation::Snapshot);
    late.begin_statement().unwrap();
    let first = store.run(|statement| store.table.update(statement, row, &mut rename("first")));
    assert!(matches!(first, Ok(Written::Done(_))));
    for case in 0..3 {
        let mut statement = Statement::begin(&mut late).unwrap();
        let result = match case {
            0 => store.table.update(&mut statement, row, &mut rename("second")),
            1 => store.table.delete(&mut statement, row, &mut |_| Ok(true)),
            _ => store.table.lock_row(&mut statement, row, None, RowLock::Exclusive, Busy::Wait),
        };
        let error = result.unwrap_err();
        assert!(error.is_retryable() && error.to_string().contains("table items"), "{error}");
    }
    late.rollback();
}

#[test]
fn under_read_committed_the_second_writer_judges_the_newest_version() {
    for (keep, moves) in [(true, false), (false, false), (true, true)] {
        let store = Store::new(64, 2);
        let row = store.insert(1, "a").unwrap();
        let mut first = store.begin(Isolation::ReadCommitted);
        let mut statement = Statement::begin(&mut first).unwrap();
        let mut change = |old: &[Value]| {
            let mut new = old.to_vec();
            new[2] = Value::Int4(77);
            // A changed key makes a version with entries of its own.
            new[1] = Value::Text(if moves { "moved".into() } else { "a".into() });
            Ok(Some(new))
        };
        let _ = store.table.update(&mut statement, row, &mut change).unwrap();
        let waiter = {
            let (table, txns) = (Arc::clone(&store.table), Arc::clone(&store.txns));
            thread::spawn("waiter", move || {
                let mut txn = txns.begin(Isolation::ReadCommitted);
                let mut seen = Vec::new();
                let mut statement = Statement::begin(&mut txn).unwrap();
                let written = table.update(&mut statement, row, &mut |old| {
                    seen.push(old[2].clone());
                    let mut new = old.to_vec();
                    new[4] = Value::Bytes(vec![1]);
                    Ok((keep || seen.len() == 1).then_some(new))
                });
                txn.commit(true).unwrap();
                (written.unwrap(), seen)
            })
        };
        wait_until_somebody_waits(&store);
        first.commit(true).unwrap();
        let (written, seen) = waiter.join().unwrap();
        assert_eq!(seen.last(), Some(&Value::Int4(77)), "it judged the newest version");
        assert_eq!(seen[0], Value::Int4(1));
        assert_eq!(matches!(written, Written::Done(_)), keep);
        let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
        let values = store.find(&snapshot, 1).unwrap().1;
        let note = if keep { Value::Bytes(vec![1]) } else { Value::Null };
        assert_eq!((&values[2], &values[4]), (&Value::Int4(77), &note));
    }
}

fn wait_until_somebody_waits(store: &Store) {
    while !store.txns.running().iter().any(|txn| txn.waits_for.is_some()) {
        thread::yield_now();
    }
}

#[test]
fn who_waits_for_a_deleted_row_finds_it_gone_and_for_a_rolled_back_one_there() {
    for commits in [true, false] {
        let store = Store::new(64, 3);
        let row = store.insert(1, "a").unwrap();
        let mut first = store.begin(Isolation::ReadCommitted);
        let mut statement = Statement::begin(&mut first).unwrap();
        let _ = store.table.delete(&mut statement, row, &mut |_| Ok(true)).unwrap();
        let waiter = {
            let (table, txns) = (Arc::clone(&store.table), Arc::clone(&store.txns));
            thread::spawn("waiter", move || {
                let mut txn = txns.begin(Isolation::ReadCommitted);
                let mut statement = Statement::begin(&mut txn).unwrap();
                table.update(&mut statement, row, &mut rename("b")).unwrap()
            })
        };
        wait_until_somebody_waits(&store);
        if commits {
            first.commit(true).unwrap();
        } else {
            first.rollback();
        }
        let written = waiter.join().unwrap();
        assert_eq!(written == Written::Gone, commits, "{written:?}");
    }
}

/// Two threads insert the same keys in different orders: each key is won once, nobody hangs, and
/// what the losers had inserted before is gone.
#[test]
fn of_two_transactions_that_insert_a_key_one_wins() {
    let store = Store::new(128, 4);
    let threads: Vec<_> = [0, 1]
        .into_iter()
        .map(|who: i64| {
            let (table, txns) = (Arc::clone(&store.table), Arc::clone(&store.txns));
            thread::spawn("inserter", move || {
                let mut won = Vec::new();
                for round in 0..150 {
                    let mut txn = txns.begin(Isolation::ReadCommitted);
                    let mut statement = Statement::begin(&mut txn).unwrap();
                    let names = ["zero", "one"];
                    let keys = [1000 + 2 * round + who, round, 2000 + 2 * round + who];
                    let rows: Vec<_> =
                        keys.iter().map(|id| item(*id, names[who as usize])).collect();
                    match table.insert_many(&mut statement, &rows) {
                        Ok(_) => {
                            txn.commit(true).unwrap();
                            won.push(round);
                        }
                        Err(Error::UniqueViolation { key, .. }) => {
                            assert_eq!(key, format!("({round})"));
                            txn.rollback();
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                won
            })
        })
        .collect();
    let won: Vec<Vec<i64>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(won[0].len() + won[1].len(), 150);
    let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    let all = store.all(&snapshot);
    assert_eq!(all.len(), 450);
    for (who, name) in ["zero", "one"].into_iter().enumerate() {
        let rounds: Vec<i64> = all
            .iter()
            .filter(|row| row[1] == Value::Text(name.into()) && as_int(&row[0]) < 1000)
            .map(|row| as_int(&row[0]))
            .collect();
        assert_eq!(rounds, won[who]);
    }
}

#[test]
fn a_ring_of_waiters_ends_with_a_deadlock_and_the_other_goes_on() {
    let store = Store::new(64, 5);
    let rows = [store.insert(1, "a").unwrap(), store.insert(2, "b").unwrap()];
    let mut first = store.begin(Isolation::ReadCommitted);
    let mut statement = Statement::begin(&mut first).unwrap();
    let _ = store.table.update(&mut statement, rows[0], &mut rename("x")).unwrap();
    let second = {
        let (table, txns) = (Arc::clone(&store.table), Arc::clone(&store.txns));
        thread::spawn("second", move || {
            let mut txn = txns.begin(Isolation::ReadCommitted);
            for row in [rows[1], rows[0]] {
                let mut statement = Statement::begin(&mut txn).unwrap();
                if let Err(error) = table.update(&mut statement, row, &mut rename("y")) {
                    txn.rollback();
                    return Some(error);
                }
            }
            txn.commit(true).unwrap();
            None
        })
    };
    wait_until_somebody_waits(&store);
    let mut statement = Statement::begin(&mut first).unwrap();
    let mine = store.table.update(&mut statement, rows[1], &mut rename("x"));
    let lost = [mine.as_ref().err().cloned(), {
        if mine.is_ok() {
            first.commit(true).unwrap()
        } else {
            first.rollback();
            Default::default()
        };
        second.join().unwrap()
    }];
    let lost: Vec<_> = lost.into_iter().flatten().collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].is_retryable() && lost[0].to_string().contains("deadlock"), "{lost:?}");
}

fn until_waiting(store: &Store, count: usize) {
    let waiting = || store.txns.running().iter().filter(|it| it.waits_for.is_some()).count();
    while waiting() < count {
        thread::yield_now();
    }
}

fn share(table: &Arc<Table>, txn: &mut Transaction, row: RowId) -> Result<Written> {
    let mut statement = Statement::begin(txn)?;
    table.lock_row(&mut statement, row, None, RowLock::Shared, Busy::Wait)
}

/// Who comes to share a row while somebody waits to write it, waits until that has it. Who shares
/// it already, or would not wait, need not.
#[test]
fn a_writer_that_waits_stops_new_sharers() {
    let store = Store::new(64, 6);
    let row = store.insert(1, "a").unwrap();
    let mut first = store.begin(Isolation::ReadCommitted);
    assert_eq!(share(&store.table, &mut first, row).unwrap(), Written::Done(row));
    let mut second = store.begin(Isolation::ReadCommitted);
    assert_eq!(share(&store.table, &mut second, row).unwrap(), Written::Done(row));
    let run = |work: fn(&Arc<Table>, &mut Transaction, RowId) -> Result<Written>| {
        let (table, txns) = (Arc::clone(&store.table), Arc::clone(&store.txns));
        thread::spawn("waits", move || {
            let mut txn = txns.begin(Isolation::ReadCommitted);
            let written = work(&table, &mut txn, row).unwrap();
            txn.commit(true).unwrap();
            written
        })
    };
    let writer = run(|table, txn, row| {
        let mut statement = Statement::begin(txn)?;
        table.update(&mut statement, row, &mut rename("written"))
    });
    until_waiting(&store, 1);
    let late = run(share);
    until_waiting(&store, 2);
    assert_eq!(share(&store.table, &mut first, row).unwrap(), Written::Done(row));
    let mut hasty = store.begin(Isolation::ReadCommitted);
    let mut statement = Statement::begin(&mut hasty).unwrap();
    let passed =
        store.table.lock_row(&mut statement, row, None, RowLock::Shared, Busy::Skip).unwrap();
    assert_eq!(passed, Written::Done(row), "who does not wait passes by");
    drop(statement);
    hasty.rollback();
    let waits_for = |id: u64| {
        let waits = |it: &crate::txn::RunningTxn| match it.waits_for {
            Some(WaitsFor::Transaction { id: owner, .. }) => owner == id,
            _ => false,
        };
        store.txns.running().iter().any(waits)
    };
    // The writer waits for one of them, then for the other; who came late waits for both.
    let (ends, stays) = if waits_for(first.id()) { (first, second) } else { (second, first) };
    ends.commit(true).unwrap();
    while !waits_for(stays.id()) {
        thread::yield_now();
    }
    let waiting = store.txns.running().iter().filter(|it| it.waits_for.is_some()).count();
    assert_eq!(waiting, 2, "who came late waits as long as the writer");
    stays.commit(true).unwrap();
    let Written::Done(new) = writer.join().unwrap() else { panic!("it was there") };
    // It shares what the writer made of the row.
    assert_eq!(late.join().unwrap(), Written::Done(new));
    assert_eq!(store.txns.multixact_count(), 0);
}

/// A newcomer lets a writer go first who waits for somebody who then waits for the newcomer: that
/// is no deadlock, the newcomer passes by.
#[test]
fn letting_a_writer_go_first_is_no_deadlock() {
    let store = Store::new(64, 7);
    let rows = [store.insert(1, "a").unwrap(), store.insert(2, "b").unwrap()];
    let mut first = store.begin(Isolation::ReadCommitted);
    assert_eq!(share(&store.table, &mut first, rows[0]).unwrap(), Written::Done(rows[0]));
    let run = |work: fn(&Arc<Table>, &mut Transaction, [RowId; 2])| {
        let (table, txns) = (Arc::clone(&store.table), Arc::clone(&store.txns));
        thread::spawn("waits", move || {
            let mut txn = txns.begin(Isolation::ReadCommitted);
            work(&table, &mut txn, rows);
            txn.commit(true).unwrap();
        })
    };
    let writer = run(|table, txn, rows| {
        let mut statement = Statement::begin(txn).unwrap();
        let written = table.update(&mut statement, rows[0], &mut rename("written"));
        assert!(matches!(written, Ok(Written::Done(_))));
    });
    until_waiting(&store, 1);
    let newcomer = run(|table, txn, rows| {
        let mut statement = Statement::begin(txn).unwrap();
        let written = table.update(&mut statement, rows[1], &mut rename("mine"));
        assert!(matches!(written, Ok(Written::Done(_))));
        drop(statement);
        assert!(matches!(share(table, txn, rows[0]), Ok(Written::Done(_))));
    });
    until_waiting(&store, 2);
    let mut statement = Statement::begin(&mut first).unwrap();
    let written = store.table.update(&mut statement, rows[1], &mut rename("too"));
    assert!(matches!(written, Ok(Written::Done(_))), "{written:?}");
    drop(statement);
    newcomer.join().unwrap();
    first.commit(true).unwrap();
    writer.join().unwrap();
    assert_eq!(store.txns.counters().deadlocks, 0);
}

/// Many queue for one row, some give up by a timeout, some roll back what they wrote: nothing that
/// was committed is lost, whatever version a hand-over names.
#[test]
fn a_row_that_is_handed_on_loses_no_update() {
    hand_on(false);
}

/// The same when they let go of what they saw while they wait, so that it leaves.
#[test]
fn a_row_that_is_handed_on_loses_no_update_when_nobody_looks_back() {
    hand_on(true);
}

fn hand_on(reads_no_more: bool) {
    let store = Store::new(256, 8);
    let _ = store.insert(1, "a").unwrap();
    let worker = |who: u64| {
        let (table, txns) = (Arc::clone(&store.table), Arc::clone(&store.txns));
        thread::spawn("worker", move || {
            let mut done = 0;
            for round in 0..60 {
                let mut txn = txns.begin(Isolation::ReadCommitted);
                let all = table.all_columns();
                let snapshot = txn.begin_read().unwrap();
                let id = [Value::Int8(1)];
                let at = table.get(&snapshot, &table.indexes()[0], &id, all).unwrap().unwrap();
                drop(snapshot);
                if reads_no_more {
                    txn.handed_out_only(RowVersion { table: table.def().id, row: at.row_id });
                }
                if round % 7 == who {
                    txn.set_lock_timeout(Some(std::time::Duration::ZERO));
                }
                let mut statement = Statement::begin(&mut txn).unwrap();
                if reads_no_more {
                    statement.read_no_more();
                }
                let written = table.update(&mut statement, at.row_id, &mut |old| {
                    let Value::Int4(count) = old[2] else { panic!("a number") };
                    let mut new = old.to_vec();
                    new[2] = Value::Int4(count + 1);
                    Ok(Some(new))
                });
                drop(statement);
                match written {
                    Ok(Written::Done(_)) if round % 5 != who => {
                        txn.commit(true).unwrap();
                        done += 1;
                    }
                    Ok(Written::Done(_)) | Err(Error::LockTimeout { .. }) => txn.rollback(),
                    other => panic!("{other:?}"),
                }
            }
            done
        })
    };
    let workers: Vec<_> = (0..6).map(worker).collect();
    let done: i32 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    let snapshot = store.begin(Isolation::Snapshot).begin_statement().unwrap();
    assert_eq!(store.find(&snapshot, 1).unwrap().1[2], Value::Int4(1 + done));
    drop(snapshot);
    assert!(store.txns.running().is_empty() && store.txns.snapshots().is_empty());
}
