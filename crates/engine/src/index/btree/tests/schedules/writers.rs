//! Worlds of writers: of one leaf, of one unique key, of a cold tree, of blocks named as free.
//!
//! Invariants: what was inserted is there, once; a block is handed out once (R6); no latch is held
//! across a read (R7); of two rows with a unique key one gets in (R8).
//! Does not do: transactions.

use rightlink_env::Broken;
use rightlink_env::sync::Arc;
use rightlink_env::thread;

use crate::ids::{RowId, Xid};
use crate::index::am::{HeapOracle, IndexEntry, InsertOutcome, Liveness};
use crate::index::btree::tests::schedules::{
    DEAD, Entry, FILE, STABLE, dead, delete_all, entries_of, entry, fresh, join, key, leftmost,
    page, scan, short, stable, start, tree, tree_of, vacuum,
};
use crate::index::btree::{BTree, TreeOptions};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite::{self, InsertBatch, verify_clean};
use crate::schedules::{Case, catches, survives};

/// A merge beside insertions that fill the page it would go into, and others that split a page
/// under the same parent: it is refused where not everything would fit, and the downlink that goes
/// is that of the page (R5).
fn merges_beside_insertions() {
    let (_pool, tree) = tree_of(400);
    let lives = |n: u64| short(n, RowId::new(n as u32, 2));
    suite::insert(&tree, &(0..150).map(|n| lives(4 * n)).collect::<Vec<_>>());
    let third = page(&tree, page(&tree, leftmost(&tree).right).right);
    let (thin, fourth) = (entries_of(&tree, third.block), page(&tree, third.right));
    let full = entries_of(&tree, fourth.block);
    // What fits beside all that are there now.
    let room = (400 - (fourth.page_size - fourth.free)) / fourth.average_item;
    let more = full.iter().take(room as usize).map(|(key, row)| {
        let n = u64::from_be_bytes(*key.first_chunk().expect("eight bytes"));
        short(n + 1, RowId::new(row.block.0 + 1, 2))
    });
    let (half, more) = (full.split_at(full.len() / 2).1.to_vec(), more.collect::<Vec<_>>());
    delete_all(&tree, &half);
    let (gone, rest) = thin.split_at(thin.len() - 4);
    delete_all(&tree, gone);
    let rest = rest[..3].to_vec();
    let others: Vec<_> = (0..8).map(|n| lives(4 * n + 1)).collect();
    let all = suite::scan(&tree, KeyRange::all(), Direction::Forward);
    let stay = all.into_iter().filter(|entry| !rest.contains(entry));
    let mut expected: Vec<Entry> =
        stay.chain(half.clone()).chain(more.clone()).chain(others.clone()).collect();
    expected.sort_unstable();
    let deleter = start(&tree, move |tree| delete_all(tree, &rest));
    let filler = start(&tree, move |tree| suite::insert(tree, &[half, more].concat()));
    let splitter = start(&tree, move |tree| suite::insert(tree, &others));
    join([deleter, filler, splitter]);
    assert!(suite::scan(&tree, KeyRange::all(), Direction::Forward) == expected, "all that stays");
    verify_clean(&tree);
}

/// Rows of dead blocks are dead, all others live.
struct Oracle;

impl HeapOracle for Oracle {
    fn liveness(&self, rows: &[RowId], out: &mut [Liveness]) {
        for (row, out) in rows.iter().zip(out) {
            *out = if row.block.0 >= DEAD { Liveness::Dead } else { Liveness::Live };
        }
    }
}

/// Of two rows with one key one gets in, beside dead entries of the key.
fn one_wins(dead_entries: u32) {
    let (_pool, tree) = tree();
    suite::insert(&tree, &[stable(6)]);
    let garbage: Vec<_> =
        (0..dead_entries).map(|i| entry(7, RowId::new(DEAD + i, STABLE))).collect();
    suite::insert(&tree, &garbage);
    let inserter = |block| {
        start(&tree, move |tree| {
            let key = key(7);
            let mut batch = [IndexEntry::new(&key, RowId::new(block, 2))];
            tree.insert_batch(Xid(5), &mut batch, Some(&Oracle)).expect("a sound tree")
        })
    };
    let outcomes = join([inserter(3), inserter(DEAD - 1)]);
    let won = outcomes.iter().filter(|outcome| **outcome == InsertOutcome::Inserted).count();
    assert_eq!(won, 1, "{outcomes:?}");
    verify_clean(&tree);
}

fn unique() {
    one_wins(0);
}

fn unique_over_pages() {
    one_wins(9);
}

/// In a tree that was opened anew, pages that the meta page names as free though they were used
/// again are merged while others split: each block is handed out once (R6).
fn stale_hints() {
    let (pool, tree) = tree();
    suite::insert(&tree, &(0..16).map(dead).chain([stable(40)]).collect::<Vec<_>>());
    vacuum(&tree);
    let again: Vec<_> = (0..16).map(fresh).collect();
    suite::insert(&tree, &again);
    drop(tree);
    let options = TreeOptions { capacity: 256, ..TreeOptions::default() };
    let tree = BTree::open(&pool.pool, FILE, options).expect("a sound tree");
    assert!(!tree.0.free_pages.hints().is_empty(), "the meta page names some");
    let gone = again[2..12].to_vec();
    let deleter = start(&tree, move |tree| delete_all(tree, &gone));
    let writer = start(&tree, |tree| {
        suite::insert(tree, &(50..60).map(fresh).collect::<Vec<_>>());
    });
    join([deleter, writer]);
    suite::insert(&tree, &(60..76).map(fresh).collect::<Vec<_>>());
    assert_eq!(scan(&tree, Direction::Forward).len(), 1 + 6 + 26);
    verify_clean(&tree);
}

/// Writers whose pages leave memory all the time hold no latch while they read (R7).
fn writers_of_a_cold_tree() {
    let (pool, tree) = tree();
    suite::insert(&tree, &(0..20).map(|n| stable(2 * n)).collect::<Vec<_>>());
    let writer = |first: u64| {
        start(&tree, move |tree| {
            let keys = [first, first + 14, first + 28];
            suite::insert(tree, &keys.map(fresh));
        })
    };
    let cold = Arc::clone(&pool.pool);
    let evictor = thread::spawn("evicts", move || {
        for _ in 0..2 {
            cold.evict_all().expect("a sound disk");
        }
    });
    join([writer(1), writer(5)]);
    join([evictor]);
    assert_eq!(scan(&tree, Direction::Forward).len(), 26);
    verify_clean(&tree);
}

/// One thread appends and remembers the rightmost leaf, the other inserts below (R6).
fn remembered_leaf() {
    let (_pool, tree) = tree();
    suite::insert(&tree, &(0..12).map(|n| stable(4 * n)).collect::<Vec<_>>());
    let append = |keys: [u64; 3]| {
        start(&tree, move |tree| keys.into_iter().for_each(|n| suite::insert(tree, &[fresh(n)])))
    };
    join([append([100, 102, 104]), append([101, 21, 103])]);
    assert_eq!(scan(&tree, Direction::Forward).len(), 18);
    verify_clean(&tree);
}

/// Two threads fill one leaf until it splits, between the search of either and its latch (R6).
fn named_leaf() {
    let (_pool, tree) = tree();
    suite::insert(&tree, &(0..12).map(|n| stable(4 * n)).collect::<Vec<_>>());
    let insert = |keys: [u64; 4]| {
        start(&tree, move |tree| keys.into_iter().for_each(|n| suite::insert(tree, &[fresh(n)])))
    };
    join([insert([21, 30, 23, 29]), insert([26, 22, 27, 25])]);
    assert_eq!(scan(&tree, Direction::Forward).len(), 20);
    verify_clean(&tree);
}

#[test]
fn merges_take_everything_along() {
    survives("merges beside insertions", merges_beside_insertions, 300);
}

#[test]
fn a_block_is_handed_out_once() {
    survives("stale hints", stale_hints, 500);
}

#[test]
fn a_remembered_leaf_is_judged_afresh() {
    survives("remembered leaf", remembered_leaf, 500);
    survives("named leaf", named_leaf, 500);
}

#[test]
fn a_unique_key_is_won_once() {
    survives("unique", unique, 500);
    survives("unique over pages", unique_over_pages, 500);
}

#[test]
fn no_latch_is_held_across_a_read() {
    survives("writers of a cold tree", writers_of_a_cold_tree, 500);
}

#[test]
fn broken_writers_are_caught() {
    catches(&[
        Case { rule: Broken::MergeDropsEntries, world: merges_beside_insertions, within: 4000 },
        Case { rule: Broken::FreeHintOutlivesReuse, world: stale_hints, within: 2000 },
        Case { rule: Broken::NamedLeafNotChecked, world: named_leaf, within: 4000 },
        Case { rule: Broken::ReadUnderLatch, world: writers_of_a_cold_tree, within: 2000 },
        Case { rule: Broken::UniqueLatchReleased, world: unique, within: 2000 },
    ]);
}
