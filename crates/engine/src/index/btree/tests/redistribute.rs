//! Leaves that share their entries with those right of them: what that is worth, and that neither
//! scans nor vacuum are misled by it.

use rightlink_env::Broken;
use rightlink_env::sync::{AtomicU32, Ordering};
use rightlink_env::{Rng, points};

use crate::ids::{RowId, Xid};
use crate::index::am::{AccessMethod, IndexEntry, LeafBatch, ScanOptions};
use crate::index::btree::tests::tree;
use crate::index::btree::{BTree, Optimisation, Optimisations};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite::{self, Model, same, verify_clean};

type Entry = (Vec<u8>, RowId);

fn row(n: u64) -> Entry {
    ((n * 4).to_be_bytes().to_vec(), RowId::new((n / 100) as u32, (n % 100) as u16 + 1))
}

/// What an update of row `n` adds: a key near the old one, a row far from its neighbours.
fn version(n: u64) -> Entry {
    ((n * 4 + 1).to_be_bytes().to_vec(), RowId::new(1000 + (n * 37 % 900) as u32, 3))
}

/// Versions of one row in so many, one after the other in any order.
fn update_some(
    tree: &BTree,
    (rows, one_in): (u64, usize),
    model: &mut Model,
    insert: fn(&BTree, &[Entry]),
) {
    let mut updated: Vec<u64> = (0..rows).step_by(one_in).collect();
    Rng::from_seed(rows).shuffle(&mut updated);
    for n in updated {
        insert(tree, &[version(n)]);
        model.insert(version(n));
    }
}

fn as_versions(tree: &BTree, entries: &[Entry]) {
    suite::insert_versions(tree, entries);
}

fn as_rows(tree: &BTree, entries: &[Entry]) {
    suite::insert(tree, entries);
}

/// Leaves that were built nearly full and all get a quarter more do not become twice as many, if
/// what they get are versions; new rows split them, and so it is without the switch.
#[test]
fn versions_do_not_double_the_leaves() {
    let grown = |set: Optimisations, insert: fn(&BTree, &[Entry])| {
        let (_pool, tree) = tree(600, 1);
        tree.optimise(set);
        let rows: Vec<_> = (0..6000).map(row).collect();
        suite::insert(&tree, &rows);
        let before = verify_clean(&tree).leaves;
        let mut model: Model = rows.into_iter().collect();
        update_some(&tree, (6000, 4), &mut model, insert);
        same(&tree, &model);
        verify_clean(&tree).leaves as f64 / before as f64
    };
    let shared = grown(Optimisations::ALL, as_versions);
    let split = grown(Optimisations::ALL.without(Optimisation::Spreading), as_versions);
    let rows = grown(Optimisations::ALL, as_rows);
    assert!(shared < 1.4, "{shared} times as many leaves");
    assert!(split > 1.7, "{split} times as many leaves without sharing");
    assert_eq!(rows, split, "rows that are new split leaves");
}

/// Rows of one key in lists, and entries with dead marks, are dealt out like others.
#[test]
fn lists_are_dealt_out() {
    let (_pool, tree) = tree(600, 2);
    let mut rng = Rng::from_seed(2);
    let mut model = Model::new();
    for round in 0..4u32 {
        let entries: Vec<Entry> = (0..1500)
            .map(|n| {
                let key = (rng.index(300) as u64).to_be_bytes().to_vec();
                (key, RowId::new(round * 10_000 + rng.index(9000) as u32, n % 200 + 1))
            })
            .collect::<Model>()
            .into_iter()
            .collect();
        suite::insert_versions(&tree, &entries);
        model.extend(entries);
        verify_clean(&tree);
    }
    same(&tree, &model);
    assert!(tree.0.merges.all() > 10, "leaves have shared");
}

/// A scan that waits between two leaves while all around it share and split sees what was there all
/// the time, once.
#[test]
fn scans_step_over_spreads() {
    for seed in 0..40 {
        let (_pool, tree) = tree(400, seed);
        let mut rng = Rng::from_seed(seed);
        let stable: Vec<_> = (0..900).map(row).collect();
        suite::insert(&tree, &stable);
        let direction = [Direction::Forward, Direction::Backward][seed as usize % 2];
        let options = ScanOptions { direction, ..ScanOptions::default() };
        let mut scan = tree.begin_scan(KeyRange::all(), options);
        let (mut batch, mut seen) = (LeafBatch::default(), Vec::new());
        let mut updated: Vec<u64> = (0..900).collect();
        rng.shuffle(&mut updated);
        while scan.next_batch(&|| 0, &mut batch).unwrap() {
            seen.extend((0..batch.len()).map(|i| (batch.key(i).to_vec(), batch.entries[i].row)));
            for _ in 0..rng.index(40) {
                updated.pop().into_iter().for_each(|n| as_versions(&tree, &[version(n)]));
            }
        }
        if direction == Direction::Backward {
            seen.reverse();
        }
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}: in order, once");
        seen.retain(|(_, row)| row.block.0 < 1000);
        assert_eq!(seen, stable, "seed {seed}");
        assert!(tree.0.merges.all() > 0, "leaves have shared");
        verify_clean(&tree);
    }
}

/// Rows that a vacuum should remove, although the leaves that hold them share, in the middle of the
/// pass, with leaves that it has left behind. Returns how many it missed.
fn spread_behind_vacuum() -> usize {
    let (_pool, tree) = tree(400, 8);
    // In any order, so that often the right one of two neighbours comes first in the pass.
    let rows: Vec<_> = (0..1600).map(row).collect();
    let mut parts: Vec<_> = rows.chunks(8).collect();
    Rng::from_seed(9).shuffle(&mut parts);
    parts.iter().for_each(|part| suite::insert(&tree, part));
    // Thin leaves among full ones.
    for n in (0..1600).filter(|n| n / 30 % 3 == 1 && n % 2 == 1) {
        let (key, row) = row(n);
        assert!(tree.delete(Xid(5), &IndexEntry::new(&key, row)).unwrap());
    }
    let (visits, half, beside) = (AtomicU32::new(0), tree.blocks() / 2, tree.clone());
    let hook = points::install_local(move |name| {
        if name == "btree.vacuum.visit" && visits.fetch_add(1, Ordering::Relaxed) == half {
            update_some(&beside, (1600, 2), &mut Model::new(), as_versions);
        }
    });
    suite::vacuum(&tree, &|row| row.block.0 < 1000 && row.slot % 8 == 1);
    drop(hook);
    assert!(tree.0.merges.all() > 10, "leaves have shared");
    verify_clean(&tree);
    let left = suite::scan(&tree, KeyRange::all(), Direction::Forward);
    left.iter().filter(|(_, row)| row.block.0 < 1000 && row.slot % 8 == 1).count()
}

#[test]
fn vacuum_follows_what_was_shared_behind_it() {
    assert_eq!(spread_behind_vacuum(), 0, "dead rows were missed");
    let _broken = points::break_rule(Broken::SpreadWithoutCycle);
    assert!(spread_behind_vacuum() > 0, "without the cycle id no check would notice");
}
