//! Writers, readers and vacuum at once, on a tree with tiny pages.

use std::time::Duration;

use rightlink_env::sync::{Arc, AtomicBool, Ordering};
use rightlink_env::{Rng, points, thread};

use crate::ids::RowId;
use crate::index::am::{AccessMethod, IndexEntry, LeafBatch, ScanOptions, Trace};
use crate::index::btree::BTree;
use crate::index::btree::tests::tree;
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite::{self, same, verify_clean};

/// Keys that stay while others are inserted and deleted around them.
const STABLE: u64 = 10;
const KEYS: u64 = 3000;

fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn stable(n: u64) -> RowId {
    RowId::new(n as u32, 1)
}

/// Inserts and deletes keys of its own residue class; ends with none of them in.
fn writer(tree: &BTree, me: u64, rounds: usize) {
    let mut rng = Rng::from_seed(me);
    for _ in 0..rounds {
        let start = rng.below(KEYS);
        let mut mine: Vec<_> = (start..start + 150)
            .filter(|n| n % STABLE == me)
            .map(|n| (key(n), RowId::new(n as u32, 2 + me as u16)))
            .collect();
        suite::insert(tree, &mine);
        rng.shuffle(&mut mine);
        for (key, row) in &mine {
            assert!(tree.delete(crate::ids::Xid(5), &IndexEntry::new(key, *row)).unwrap());
        }
    }
}

/// Leaves rows behind that the vacuum takes out.
fn litter(tree: &BTree, rounds: u32) {
    let mut rng = Rng::from_seed(99);
    for round in 0..rounds {
        let mut batch = Vec::new();
        let start = rng.below(KEYS);
        for n in start..start + 60 {
            batch.push((key(n), RowId::new(1_000_000 + round, 1)));
        }
        suite::insert(tree, &batch);
    }
}

/// In order, nothing twice, every stable key there.
fn reader(tree: &BTree, direction: Direction, stop: &AtomicBool) -> u64 {
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) || rounds == 0 {
        let mut scan =
            tree.begin_scan(KeyRange::all(), ScanOptions { direction, ..ScanOptions::default() });
        let mut batch = LeafBatch::default();
        let mut seen = 0;
        let mut last: Option<(Vec<u8>, RowId)> = None;
        while scan.next_batch(&|| 0, &mut batch).unwrap() {
            for i in 0..batch.len() {
                let entry = (batch.key(i).to_vec(), batch.entries[i].row);
                if let Some(last) = &last {
                    match direction {
                        Direction::Forward => assert!(*last < entry),
                        Direction::Backward => assert!(*last > entry),
                    }
                }
                seen += u64::from(entry.1.slot == 1 && entry.1.block.0 < 1_000_000);
                last = Some(entry);
            }
        }
        assert_eq!(seen, KEYS / STABLE, "a scan sees every key that stays");
        rounds += 1;
    }
    rounds
}

fn vacuum(tree: &BTree, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tree.bulk_delete(&mut |rows, dead| {
            rows.iter().zip(dead).for_each(|(row, dead)| *dead = row.block.0 >= 1_000_000);
        })
        .unwrap();
        let mut findings = Vec::new();
        tree.verify(None, &mut |finding| findings.push(finding)).unwrap();
        assert!(findings.is_empty(), "while others write: {findings:#?}");
    }
}

fn storm(capacity: usize, rounds: usize) {
    let (_pool, tree) = tree(capacity, 1);
    let entries: Vec<_> = (0..KEYS).step_by(STABLE as usize).map(|n| (key(n), stable(n))).collect();
    suite::insert(&tree, &entries);
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for me in 1..4 {
        let tree = tree.clone();
        writers.push(thread::spawn("writer", move || writer(&tree, me, rounds)));
    }
    let litters = tree.clone();
    writers.push(thread::spawn("litter", move || litter(&litters, rounds as u32 * 4)));
    let mut others = Vec::new();
    for direction in [Direction::Forward, Direction::Backward] {
        let (tree, stop) = (tree.clone(), Arc::clone(&stop));
        others.push(thread::spawn("reader", move || {
            reader(&tree, direction, &stop);
        }));
    }
    let (vacuumed, stopped) = (tree.clone(), Arc::clone(&stop));
    others.push(thread::spawn("vacuum", move || vacuum(&vacuumed, &stopped)));
    let results: Vec<_> = writers.into_iter().map(thread::JoinHandle::join).collect();
    stop.store(true, Ordering::Relaxed);
    let others: Vec<_> = others.into_iter().map(thread::JoinHandle::join).collect();
    results.into_iter().chain(others).for_each(|result| result.unwrap());
    tree.bulk_delete(&mut |rows, dead| {
        rows.iter().zip(dead).for_each(|(row, dead)| *dead = row.block.0 >= 1_000_000);
    })
    .unwrap();
    same(&tree, &entries.into_iter().collect());
    verify_clean(&tree);
}

#[test]
fn readers_writers_and_vacuum_do_not_disturb_each_other() {
    storm(300, 60);
    storm(700, 60);
}

/// Every operation, while more are registered than there are slots: who finds none does not wait,
/// since those who have one may be waiting for a second one.
#[test]
fn operations_beyond_the_slots_do_not_wait() {
    let (_pool, tree) = tree(400, 3);
    let _others: Vec<_> = (0..100).map(|_| tree.0.registrations.register()).collect();
    let entries: Vec<_> = (0..600).map(|n| (key(n), stable(n))).collect();
    suite::insert(&tree, &entries);
    let (gone, kept) = entries.split_at(300);
    let (by_key, by_vacuum) = gone.split_at(150);
    let (one_by_one, listed) = by_key.split_at(75);
    for (key, row) in one_by_one {
        assert!(tree.delete(crate::ids::Xid(5), &IndexEntry::new(key, *row)).unwrap());
    }
    let dead: Vec<_> = listed.iter().map(|(key, row)| IndexEntry::new(key, *row)).collect();
    let mut removed = vec![Trace::Unknown; dead.len()];
    assert_eq!(tree.remove_dead(&dead, true, &mut |_| true, &mut removed).unwrap(), 75);
    let stats = suite::vacuum(&tree, &|row| by_vacuum.iter().any(|(_, dead)| dead == row));
    assert_eq!(stats.removed, 150);
    assert!(stats.pages_free > 0 && stats.pages_deleted > 0, "pages wait for those registered");
    same(&tree, &kept.iter().cloned().collect());
    verify_clean(&tree);
}

/// Keys far apart, with room between them.
fn apart(n: u64) -> (Vec<u8>, RowId) {
    (key(n * 1000), stable(n))
}

/// Keys between two of [`apart`], of row ids that tell which thread inserted them.
fn between(slot: u16) -> Vec<(Vec<u8>, RowId)> {
    let offset = u64::from(slot) * 100;
    (0..60).map(|n| (key(200_000 + offset + n), RowId::new(n as u32, slot))).collect()
}

fn sleep_until(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Inserts one by one, and stands still between the two steps of the first split, which lacks its
/// downlink meanwhile.
fn splits_and_stands_still(tree: &BTree, standing: Arc<AtomicBool>, go: Arc<AtomicBool>) {
    let _hook = points::install_local(move |point| {
        if point == "btree.split.incomplete" && !standing.swap(true, Ordering::SeqCst) {
            sleep_until(&go);
        }
    });
    between(2).iter().for_each(|entry| suite::insert(tree, std::slice::from_ref(entry)));
}

/// Reads everything in both directions, looks every key up, and splits the same leaves further.
fn reads_and_writes(tree: &BTree, entries: &[(Vec<u8>, RowId)]) {
    for direction in [Direction::Forward, Direction::Backward] {
        let mut found = suite::scan(tree, KeyRange::all(), direction);
        found.retain(|(_, row)| row.slot == 1);
        found.sort_unstable();
        assert_eq!(found, entries, "{direction:?}");
    }
    suite::each_key(tree, &entries.iter().cloned().collect());
    between(3).iter().for_each(|entry| suite::insert(tree, std::slice::from_ref(entry)));
    for (key, row) in &between(3)[..30] {
        assert!(tree.delete(crate::ids::Xid(5), &IndexEntry::new(key, *row)).unwrap());
    }
}

/// Nobody waits for a split, however long that takes: readers go over the link, and whoever finds
/// the downlink missing where he has to put one finishes the split himself.
#[test]
fn nobody_waits_for_a_split_that_stands_still() {
    let (_pool, tree) = tree(300, 9);
    let mut entries: Vec<_> = (0..400).map(apart).collect();
    suite::insert(&tree, &entries);
    let flag = || Arc::new(AtomicBool::new(false));
    let (standing, go, done) = (flag(), flag(), flag());
    let halted = {
        let (tree, standing, go) = (tree.clone(), Arc::clone(&standing), Arc::clone(&go));
        thread::spawn("halted", move || splits_and_stands_still(&tree, standing, go))
    };
    sleep_until(&standing);
    let others = {
        let (tree, entries, done) = (tree.clone(), entries.clone(), Arc::clone(&done));
        thread::spawn("others", move || {
            reads_and_writes(&tree, &entries);
            done.store(true, Ordering::SeqCst);
        })
    };
    // A bug must not hang the test: after so long it goes on, and fails.
    for _ in 0..60_000 {
        if done.load(Ordering::SeqCst) {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let nobody_waited = done.load(Ordering::SeqCst);
    go.store(true, Ordering::SeqCst);
    [halted, others].into_iter().for_each(|thread| thread.join().unwrap());
    assert!(nobody_waited, "somebody waited for the split");
    entries.extend(between(2));
    entries.extend_from_slice(&between(3)[30..]);
    same(&tree, &entries.into_iter().collect());
    verify_clean(&tree);
}
