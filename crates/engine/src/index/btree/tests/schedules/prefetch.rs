//! Worlds of the look-ahead: leaves named from the pages above them, beside changes of both.
//!
//! Invariants: while the look-ahead is registered, what it names is a leaf of the tree, or free
//! again (R6, R11). It is advice: to read another leaf ahead is no fault.
//! Does not do: say how far ahead (`tests/prefetch.rs`).

use rightlink_env::Broken;
use rightlink_env::points;
use rightlink_env::sync::Arc;
use rightlink_env::thread;

use crate::index::btree::BTree;
use crate::index::btree::page::node::{Node, is_node};
use crate::index::btree::search::prefetch::NamedUpTo;
use crate::index::btree::tests::schedules::{
    dead, fresh, join, key, look_up, scan, stable, start, tree, vacuum,
};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite::{self, verify_clean};
use crate::schedules::{Case, catches, survives};

/// Leaves named ahead of scans in both directions, beside splits, merges and the reuse of pages:
/// while the look-ahead is registered each is such a leaf, or free again (R6, R11). Whoever looks
/// lets others go first when it has come to the page above the leaves.
fn look_ahead() {
    let (_pool, tree) = tree();
    suite::insert(&tree, &(10..24).map(dead).collect::<Vec<_>>());
    suite::insert(&tree, &(30..34).map(stable).collect::<Vec<_>>());
    let _dawdles = points::install_local(|name| {
        if name == "btree.ahead.peeked" {
            thread::yield_now();
        }
    });
    let reader = start(&tree, |tree| {
        for n in [18, 14, 22, 10, 30] {
            names_forward(tree, &key(n));
            names_backward(tree, &key(n));
        }
    });
    let writer = start(&tree, |tree| {
        vacuum(tree);
        thread::yield_now();
        suite::insert(tree, &(100..112).map(fresh).collect::<Vec<_>>());
    });
    join([reader, writer]);
    verify_clean(&tree);
}

/// The first leaf ahead is the one of `from`, none begins beyond where they are said to end.
fn names_forward(tree: &BTree, from: &[u8]) {
    let _registered = tree.0.registrations.register();
    let rest = KeyRange { low: from.to_vec(), high: None };
    let (mut end, mut blocks) = (None, Vec::new());
    let more = tree.0.name_leaves(&mut end, &rest, Direction::Forward, 3, &mut blocks);
    assert!(
        blocks.len() <= 3 && (more == NamedUpTo::More || end.is_none()),
        "{blocks:?} up to {end:?}"
    );
    for (i, block) in blocks.iter().enumerate() {
        let low = named_low(tree, *block);
        assert!(i > 0 || low.as_deref().is_none_or(|low| low <= from), "R11: {block} is not it");
        let beyond = low.zip(end.as_ref()).is_some_and(|(low, end)| low >= *end);
        assert!(!beyond, "R11: {block} is beyond the end");
    }
}

/// No leaf ahead begins at or above `from`.
fn names_backward(tree: &BTree, from: &[u8]) {
    let _registered = tree.0.registrations.register();
    let rest = KeyRange { low: Vec::new(), high: Some(from.to_vec()) };
    let (mut end, mut blocks) = (None, Vec::new());
    tree.0.name_leaves(&mut end, &rest, Direction::Backward, 3, &mut blocks);
    for block in blocks {
        let low = named_low(tree, block);
        assert!(low.is_none_or(|low| low.as_slice() < from), "R11: {block} is not below");
    }
}

/// Low fence of a leaf that was named ahead; `None` if it is free again.
fn named_low(tree: &BTree, block: u32) -> Option<Vec<u8>> {
    assert!((1..tree.blocks()).contains(&block), "R11: {block} is outside the file");
    let pin = tree.0.pin_linked(block).expect("a sound tree");
    let page = pin.shared();
    let node = is_node(page.bytes()).then(|| Node::open(page.bytes()).expect("a sound page"));
    assert!(node.is_none_or(|node| node.is_leaf()), "R11: {block} is no leaf");
    node.map(|node| node.low())
}

/// Leaves of a cold tree read ahead for a list of keys, beside merges, reuse and eviction.
fn look_ahead_of_a_cold_tree() {
    let (pool, tree) = tree();
    suite::insert(&tree, &(10..24).map(dead).collect::<Vec<_>>());
    suite::insert(&tree, &(30..34).map(stable).collect::<Vec<_>>());
    let pool = Arc::clone(&pool.pool);
    pool.evict_all().expect("a sound disk");
    let reader = start(&tree, |tree| {
        for _ in 0..2 {
            let keys = [12, 20, 30].map(key);
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            assert!(tree.0.prefetch_leaves(&keys) <= 3);
            assert_eq!(look_up(tree, keys[2]), [stable(30).1]);
        }
    });
    let writer = start(&tree, move |tree| {
        vacuum(tree);
        pool.evict_all().expect("a sound disk");
        suite::insert(tree, &(100..112).map(fresh).collect::<Vec<_>>());
    });
    join([reader, writer]);
    assert_eq!(scan(&tree, Direction::Forward).len(), 4 + 12);
    verify_clean(&tree);
}

#[test]
fn leaves_are_named_ahead() {
    survives("look-ahead", look_ahead, 500);
    survives("look-ahead of a cold tree", look_ahead_of_a_cold_tree, 300);
}

#[test]
fn a_broken_look_ahead_is_caught() {
    catches(&[Case { rule: Broken::LookAheadNotValidated, world: look_ahead, within: 2000 }]);
}
