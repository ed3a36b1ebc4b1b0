//! Row locks: shared ones, what a savepoint takes with it, and what it leaves.

use super::*;
use crate::heap::prune::plan::PrunePlan;
use crate::heap::visibility::HeapVisibility;
use rightlink_env::Broken;
use rightlink_env::points;

fn lock(fixture: &Fixture, txn: &mut Transaction, at: RowId, lock: RowLock) -> WriteOutcome {
    txn.begin_statement().expect("a statement");
    fixture.heap.lock(txn, at, lock).expect("judged")
}

fn share(fixture: &Fixture, txn: &mut Transaction, at: RowId) -> RowId {
    done(lock(fixture, txn, at, RowLock::Shared))
}

/// May another change the row?
fn is_free(fixture: &Fixture, at: RowId) -> bool {
    let mut other = fixture.begin();
    let outcome = lock(fixture, &mut other, at, RowLock::Exclusive);
    other.rollback();
    match outcome {
        WriteOutcome::Done { .. } => true,
        WriteOutcome::Locked { .. } | WriteOutcome::Wait(_) | WriteOutcome::NotYetCommitted(_) => {
            false
        }
        other => panic!("{other:?}"),
    }
}

fn writer_waits_for_all_who_share(rule: Option<Broken>) -> bool {
    let broken = rule.map(points::break_rule);
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    let mut sharers: Vec<Transaction> = (0..4).map(|_| fixture.begin()).collect();
    for sharer in &mut sharers {
        share(&fixture, sharer, root);
    }
    let mut waited = true;
    // The newest goes first, and leaves the others.
    while let Some(sharer) = sharers.pop() {
        waited &= !is_free(&fixture, root);
        sharer.commit(false).expect("committed");
    }
    assert!(is_free(&fixture, root), "no holder is left");
    assert_eq!(fixture.txns.multixact_count(), 0);
    fixture.update(root, b"two", true);
    fixture.assert_sound();
    drop(broken);
    waited
}

#[test]
fn a_writer_waits_for_all_who_share_a_row() {
    assert!(writer_waits_for_all_who_share(None));
    assert!(
        !writer_waits_for_all_who_share(Some(Broken::LockGroupForgetsMembers)),
        "only the newest was asked"
    );
}

#[test]
fn an_exclusive_lock_is_not_shared() {
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    let (mut holder, mut other) = (fixture.begin(), fixture.begin());
    done(lock(&fixture, &mut holder, root, RowLock::Exclusive));
    let by = holder.xid().expect("an xid");
    let locked = WriteOutcome::Locked { by, wants: RowLock::Shared };
    assert_eq!(lock(&fixture, &mut other, root, RowLock::Shared), locked);
    assert_eq!(share(&fixture, &mut holder, root), root, "held already");
    holder.rollback();
    share(&fixture, &mut other, root);
    let mut third = fixture.begin();
    share(&fixture, &mut third, root);
    // An upgrade waits for the other one, and is no other's business then.
    let locked = |outcome| matches!(outcome, WriteOutcome::Locked { .. });
    assert!(locked(lock(&fixture, &mut other, root, RowLock::Exclusive)));
    drop(third);
    done(lock(&fixture, &mut other, root, RowLock::Exclusive));
    let mut fourth = fixture.begin();
    assert!(locked(lock(&fixture, &mut fourth, root, RowLock::Shared)));
    drop(other);
    share(&fixture, &mut fourth, root);
    fixture.assert_sound();
}

#[test]
fn a_savepoint_takes_its_own_locks_with_it_and_no_others() {
    let fixture = Fixture::new();
    let (kept, lost) = (fixture.insert(b"kept"), fixture.insert(b"lost"));
    for what in 0..4 {
        let mut txn = fixture.begin();
        let before = if what == 3 { RowLock::Exclusive } else { RowLock::Shared };
        done(lock(&fixture, &mut txn, kept, before));
        let savepoint = txn.savepoint();
        share(&fixture, &mut txn, lost);
        let beside = (what == 0).then(|| {
            let mut beside = fixture.begin();
            share(&fixture, &mut beside, kept);
            beside
        });
        txn.begin_statement().expect("a statement");
        match what {
            0 => drop(share(&fixture, &mut txn, kept)),
            1 => drop(done(lock(&fixture, &mut txn, kept, RowLock::Exclusive))),
            2 => drop(done(fixture.heap.update(&mut txn, kept, b"new", true).expect("updated"))),
            _ => drop(done(fixture.heap.delete(&mut txn, kept).expect("deleted"))),
        }
        assert!(!is_free(&fixture, lost));
        txn.rollback_to(savepoint).expect("rolled back");
        assert!(is_free(&fixture, lost), "case {what}");
        assert!(!is_free(&fixture, kept), "case {what}: locked before the savepoint");
        drop(beside);
        fixture.heap.prune(kept.block).expect("pruned");
        fixture.vacuum_all();
        assert!(!is_free(&fixture, kept), "case {what}: whatever is cleaned");
        let mut sharer = fixture.begin();
        let shared = lock(&fixture, &mut sharer, kept, RowLock::Shared);
        assert_eq!(matches!(shared, WriteOutcome::Done { .. }), what != 3, "case {what}");
        drop(sharer);
        assert_eq!(fixture.fetch(kept), Some(b"kept".to_vec()));
        fixture.assert_sound();
        txn.commit(false).expect("committed");
        assert!(is_free(&fixture, kept) && fixture.txns.multixact_count() == 0, "case {what}");
    }
}

/// A row whose keys are shared is changed, and so is what came of that: is it held to the end?
fn keys_are_held_through_changes(rule: Option<Broken>) -> bool {
    let broken = rule.map(points::break_rule);
    let fixture = Fixture::new();
    let root = fixture.insert(b"0");
    let mut sharer = fixture.begin();
    done(lock(&fixture, &mut sharer, root, RowLock::KeyShared));
    let mut writer = fixture.begin();
    let change = |txn: &mut Transaction, at: RowId, row: &[u8]| {
        txn.begin_statement().expect("a statement");
        fixture.heap.update_with_lock(txn, at, row, true, RowLock::Update).expect("judged")
    };
    done(change(&mut writer, root, b"never"));
    writer.rollback();
    let mut held = !is_free(&fixture, root);
    let (mut at, mut txns) = (root, Vec::new());
    for row in [b"1", b"2"] {
        let mut writer = fixture.begin();
        at = done(change(&mut writer, at, row));
        writer.commit(false).expect("committed");
        fixture.heap.prune(root.block).expect("pruned");
        fixture.vacuum_all();
        held &= !is_free(&fixture, at);
        let mut other = fixture.begin();
        done(lock(&fixture, &mut other, at, RowLock::KeyShared));
        txns.push(other);
    }
    let mut strong = fixture.begin();
    let shared = lock(&fixture, &mut strong, at, RowLock::Update);
    assert!(matches!(shared, WriteOutcome::Done { .. }));
    txns.push(strong);
    txns.push(sharer);
    for txn in txns {
        held &= !is_free(&fixture, at);
        txn.commit(false).expect("committed");
    }
    assert!(is_free(&fixture, at) && fixture.txns.multixact_count() == 0);
    fixture.delete(at);
    fixture.assert_sound();
    drop(broken);
    held
}

#[test]
fn who_shares_keys_keeps_them_through_changes() {
    assert!(keys_are_held_through_changes(None));
    assert!(
        !keys_are_held_through_changes(Some(Broken::LockNotCarriedOver)),
        "the new version was free"
    );
}

#[test]
fn a_failed_statement_leaves_earlier_locks() {
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    let mut txn = fixture.begin();
    share(&fixture, &mut txn, root);
    txn.begin_statement().expect("a statement");
    done(fixture.heap.update(&mut txn, root, b"two", true).expect("updated"));
    txn.rollback_statement();
    assert!(!is_free(&fixture, root));
    txn.begin_statement().expect("a statement");
    done(fixture.heap.update(&mut txn, root, b"three", true).expect("updated"));
    txn.begin_statement().expect("a statement");
    assert_eq!(fixture.txns.multixact_count(), 1, "that of the statement that failed");
    txn.commit(false).expect("committed");
    assert_eq!((fixture.txns.multixact_count(), fixture.fetch(root)), (0, Some(b"three".to_vec())));
    fixture.assert_sound();
}

#[test]
fn rows_that_the_same_transactions_share_are_one_group() {
    let fixture = Fixture::new();
    let rows: Vec<RowId> = (0..300).map(|row: u16| fixture.insert(&row.to_le_bytes())).collect();
    let (mut one, mut two) = (fixture.begin(), fixture.begin());
    for txn in [&mut one, &mut two] {
        txn.begin_statement().expect("a statement");
        for row in &rows {
            done(fixture.heap.lock(txn, *row, RowLock::Shared).expect("locked"));
        }
    }
    assert_eq!(fixture.txns.multixact_count(), 1);
    drop(one);
    assert!(rows.iter().all(|row| !is_free(&fixture, *row)));
    // The group's number may be below the horizon long before those in it have ended.
    fixture.vacuum_all();
    assert!(rows.iter().all(|row| !is_free(&fixture, *row)));
    two.commit(false).expect("committed");
    fixture.vacuum_all();
    assert!(rows.iter().all(|row| fixture.header(*row).xmax == Xid::NONE), "nothing is left");
    fixture.assert_sound();
}

/// One statement locks each row in its own way. Who locks all of them in one way, all in one
/// statement, leaves each as it was for the others.
#[test]
fn a_group_has_the_locks_of_the_row_that_names_it() {
    let fixture = Fixture::new();
    let rows = [RowLock::KeyShared, RowLock::Shared, RowLock::KeyShared, RowLock::Update];
    let rows = rows.map(|how| (fixture.insert(b"a row"), how));
    let (mut one, mut two) = (fixture.begin(), fixture.begin());
    for txn in [&mut one, &mut two] {
        txn.begin_statement().expect("a statement");
    }
    for (at, how) in rows {
        done(fixture.heap.lock(&mut one, at, how).expect("locked"));
    }
    for (at, _) in rows {
        done(fixture.heap.lock(&mut two, at, RowLock::KeyShared).expect("locked"));
    }
    let check = || {
        for (at, how) in rows {
            for wanted in [RowLock::KeyShared, RowLock::Shared, RowLock::Update] {
                let mut third = fixture.begin();
                let got = lock(&fixture, &mut third, at, wanted);
                let got = matches!(got, WriteOutcome::Done { .. });
                assert_eq!(got, how.is_compatible(wanted), "{how:?} {wanted:?}");
            }
            assert!(!is_free(&fixture, at));
        }
    };
    check();
    two.commit(false).expect("committed");
    check();
    one.commit(false).expect("committed");
    assert!(rows.iter().all(|(at, _)| is_free(&fixture, *at)));
    assert_eq!(fixture.txns.multixact_count(), 0);
    fixture.assert_sound();
}

/// A transaction that shares rows for long, while others come, share them, too, and go: what is
/// known of them does not grow, and it holds its rows to the end.
#[test]
fn who_shares_rows_for_long_leaves_no_groups_behind() {
    let fixture = Fixture::new();
    let rows: Vec<RowId> = (0..5).map(|row: u8| fixture.insert(&[row])).collect();
    let mut long = fixture.begin();
    for at in &rows {
        share(&fixture, &mut long, *at);
    }
    for turn in 0..300 {
        let mut short = fixture.begin();
        short.begin_statement().expect("a statement");
        let savepoint = (turn % 3 == 1).then(|| short.savepoint());
        for at in &rows[turn % 2..] {
            done(fixture.heap.lock(&mut short, *at, RowLock::KeyShared).expect("locked"));
        }
        match savepoint {
            Some(savepoint) => short.rollback_to(savepoint).expect("rolled back"),
            None => drop(share(&fixture, &mut short, rows[3])),
        }
        let (groups, listed) =
            (fixture.txns.multixact_count(), fixture.txns.most_multixacts_listed());
        assert!(groups <= 2 * rows.len() && listed <= groups, "{groups}, {listed} listed");
        match turn % 2 {
            0 => short.rollback(),
            _ => drop(short.commit(false).expect("committed")),
        }
        assert!(rows.iter().all(|at| !is_free(&fixture, *at)), "turn {turn}");
    }
    long.commit(false).expect("committed");
    assert!(rows.iter().all(|at| is_free(&fixture, *at)));
    assert_eq!(fixture.txns.multixact_count(), 0);
    fixture.assert_sound();
}

/// The same where the others change the row: each new version is locked as the one before it was.
#[test]
fn who_shares_keys_for_long_leaves_no_groups_behind() {
    let fixture = Fixture::new();
    let mut at = fixture.insert(b"0");
    let mut long = fixture.begin();
    done(lock(&fixture, &mut long, at, RowLock::KeyShared));
    let change = |txn: &mut Transaction, at: RowId| {
        txn.begin_statement().expect("a statement");
        let outcome = fixture.heap.update_with_lock(txn, at, b"new", true, RowLock::Update);
        done(outcome.expect("judged"))
    };
    for turn in 0..300 {
        let mut short = fixture.txns.begin(Isolation::ReadCommitted);
        let first = change(&mut short, at);
        let savepoint = short.savepoint();
        let second = change(&mut short, first);
        let mut newest = second;
        if turn % 3 == 1 {
            short.rollback_to(savepoint).expect("rolled back");
            assert!(!is_free(&fixture, first));
            newest = change(&mut short, first);
        }
        if turn % 5 == 2 {
            short.rollback();
        } else {
            short.commit(false).expect("committed");
            at = newest;
        }
        assert!(!is_free(&fixture, at), "turn {turn}");
        fixture.vacuum_all();
        assert!(!is_free(&fixture, at), "turn {turn}, vacuumed");
    }
    let groups = fixture.txns.multixact_count();
    // One for each statement that was undone, as the row may be what it was before that.
    assert!(groups <= 2 * 160 + 2, "{groups} groups");
    long.commit(false).expect("committed");
    assert!(is_free(&fixture, at));
    assert_eq!(fixture.txns.multixact_count(), 0);
    fixture.assert_sound();
}

/// Locks at random against a list of holders: exactly the transactions that should wait do.
#[test]
fn rows_are_locked_as_a_list_of_locks_says() {
    // What a transaction has: row, how.
    type Held = Vec<(usize, RowLock)>;
    let all = [RowLock::KeyShared, RowLock::Shared, RowLock::Update, RowLock::Exclusive];
    for seed in 0..20 {
        let mut rng = rightlink_env::Rng::from_seed(seed);
        let fixture = Fixture::new();
        let rows: Vec<RowId> = (0..4).map(|row: u8| fixture.insert(&[row])).collect();
        let mut txns: Vec<(Transaction, Held)> = Vec::new();
        for _ in 0..400 {
            if txns.len() < 4 {
                let mut txn = fixture.begin();
                txn.begin_statement().expect("a statement");
                txns.push((txn, Held::new()));
            }
            let at = rng.index(txns.len());
            match rng.below(12) {
                0 => drop(txns.swap_remove(at)),
                1 => drop(txns.swap_remove(at).0.commit(false).expect("committed")),
                2 => drop(txns[at].0.begin_statement().expect("a statement")),
                3 => {
                    // Some locks that are undone.
                    let (txn, _) = &mut txns[at];
                    let savepoint = txn.savepoint();
                    for row in &rows {
                        let how = all[rng.index(2)];
                        let _ = fixture.heap.lock(txn, *row, how).expect("judged");
                    }
                    txn.rollback_to(savepoint).expect("rolled back");
                }
                _ => {
                    let (row, how) = (rng.index(rows.len()), all[rng.index(40) / 12]);
                    let is_in_the_way = txns.iter().enumerate().any(|(other, (_, held))| {
                        let against = |one: &&(usize, RowLock)| one.0 == row;
                        let mut held = held.iter().filter(against);
                        other != at && held.any(|(_, lock)| !lock.is_compatible(how))
                    });
                    let outcome = fixture.heap.lock(&mut txns[at].0, rows[row], how);
                    match outcome.expect("judged") {
                        WriteOutcome::Done { .. } => {
                            assert!(!is_in_the_way, "seed {seed}");
                            txns[at].1.push((row, how));
                        }
                        WriteOutcome::Locked { .. } => assert!(is_in_the_way, "seed {seed}"),
                        other => panic!("{other:?}"),
                    }
                }
            }
            assert!(fixture.txns.multixact_count() < 100, "seed {seed}");
        }
        drop(txns);
        assert_eq!(fixture.txns.multixact_count(), 0);
        fixture.assert_sound();
    }
}

#[test]
fn older_numbers_in_a_group_outlive_vacuum() {
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    let mut old = fixture.begin();
    // The run of the older transaction has xids below all of the newer one's.
    for _ in 0..2 {
        old.begin_statement().expect("a statement");
        old.xid().expect("an xid");
    }
    // Its snapshots go with their statements, so that the horizon moves on.
    let mut new = fixture.txns.begin(Isolation::ReadCommitted);
    share(&fixture, &mut new, root);
    share(&fixture, &mut old, root);
    old.commit(false).expect("committed");
    assert!(fixture.txns.horizon() > fixture.header(root).xmax, "the case this is about");
    fixture.vacuum_all();
    assert!(!is_free(&fixture, root));
    new.commit(false).expect("committed");
    assert!(is_free(&fixture, root));
    fixture.assert_sound();
}

/// A lock of long ago, whose holder's status must be read first, is no reason to prune the page.
#[test]
fn a_lock_of_unknown_status_is_no_garbage() {
    let fixture = Fixture::new();
    let root = fixture.insert(b"one");
    fixture.commit(|txn| done(fixture.heap.lock(txn, root, RowLock::Exclusive).expect("locked")));
    let next = fixture.txns.next_xid();
    // A manager that has nothing in memory, and a status page that cannot be read now.
    let later = TxnManager::open_with(Arc::clone(&fixture.pool), next, TxnOptions::default())
        .expect("a manager");
    let status = PageId { file: FileId(crate::txn::FIRST_SEGMENT), block: BlockNo(0) };
    let pin = fixture.pool.pin(status).expect("pinned");
    let mut mtr = Mtr::new(&fixture.pool);
    mtr.latch(pin);
    let mut visibility = HeapVisibility::new(&later);
    let header = fixture.header(root);
    assert_eq!(visibility.xmax_status(&header), None, "the case this is about");
    let plan = fixture.page(root.block.0, |page| {
        PrunePlan::new(page, &mut visibility, &later.live_snapshots(), 0).expect("planned")
    });
    assert!(!plan.changes(), "nothing on the page has ended");
    drop(mtr);
    drop(plan);
    fixture.assert_sound();
}
