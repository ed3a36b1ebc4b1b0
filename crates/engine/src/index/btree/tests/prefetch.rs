//! Leaves named ahead: which ones, and beside which changes.

use rightlink_env::points;
use rightlink_env::sync::{Arc, AtomicU32, Ordering};

use crate::buffer::testing::TestPool;
use crate::buffer::{Mtr, Pin};
use crate::ids::{PageId, RowId};
use crate::index::btree::BTree;
use crate::index::btree::search::prefetch::NamedUpTo;
use crate::index::btree::tests::{FILE, tree};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite::{self, verify_clean};

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];

fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// A tree of pages of `capacity` bytes with so many entries.
fn filled(capacity: usize, entries: u64) -> (TestPool, BTree) {
    let (pool, tree) = tree(capacity, 1);
    let entries: Vec<_> = (0..entries).map(|n| (key(n), RowId::new(1 + n as u32, 1))).collect();
    suite::insert(&tree, &entries);
    (pool, tree)
}

/// All leaves in their order.
fn leaves(tree: &BTree, direction: Direction) -> Vec<u32> {
    let page = |block: u32| tree.inspect_page(block).unwrap();
    let first = (1..tree.blocks()).map(page).find(|page| page.kind == "leaf" && page.left == 0);
    let mut leaves = vec![first.unwrap()];
    while leaves[leaves.len() - 1].right != 0 {
        leaves.push(page(leaves[leaves.len() - 1].right));
    }
    let mut blocks: Vec<u32> = leaves.into_iter().map(|leaf| leaf.block).collect();
    if direction == Direction::Backward {
        blocks.reverse();
    }
    blocks
}

/// All that is named, `wanted` at a time.
fn named(tree: &BTree, rest: &KeyRange, direction: Direction, wanted: usize) -> Vec<u32> {
    let (mut frontier, mut named, mut more) = (None, Vec::new(), true);
    while more {
        let mut blocks = Vec::new();
        more = tree.0.name_leaves(&mut frontier, rest, direction, wanted, &mut blocks)
            == NamedUpTo::More;
        assert!(!more || blocks.len() == wanted && frontier.is_some(), "nothing is in the way");
        named.extend(blocks);
    }
    named
}

/// Over several inner pages, as many at a time as are wanted, no further than the range goes.
#[test]
fn leaves_are_named_in_their_order() {
    let (_pool, tree) = filled(400, 3000);
    assert!(tree.levels() > 2, "{} levels", tree.levels());
    for direction in BOTH {
        let all = leaves(&tree, direction);
        for wanted in [1, 7, 1000] {
            assert_eq!(named(&tree, &KeyRange::all(), direction, wanted), all, "{wanted}");
        }
        let rest = KeyRange { low: key(1000), high: Some(key(2000)) };
        let some = named(&tree, &rest, direction, 1);
        assert!(all.windows(some.len()).any(|part| part == some), "neighbours");
        let third = all.len() / 3;
        assert!((third - 2..third + 3).contains(&some.len()), "{} of {}", some.len(), all.len());
        for wanted in [7, 1000] {
            assert_eq!(named(&tree, &rest, direction, wanted), some, "none beyond the range");
        }
    }
    verify_clean(&tree);
}

/// The parent that names them is latched exclusively and unchanged (R11).
#[test]
fn leaves_are_named_beside_a_latch_on_their_parent() {
    let (pool, tree) = filled(800, 300);
    assert_eq!(tree.levels(), 2);
    let expected = BOTH.map(|direction| leaves(&tree, direction));
    let mut mtr = Mtr::new(&pool.pool);
    mtr.latch(parent(&pool, &tree));
    let found = BOTH.map(|direction| named(&tree, &KeyRange::all(), direction, 3));
    assert_eq!(tree.0.prefetch_leaves(&[&key(3), &key(200)]), 0, "all are in memory");
    drop(mtr);
    assert_eq!(found, expected);
}

fn parent(pool: &TestPool, tree: &BTree) -> Pin {
    pool.pool.pin(PageId::new(FILE, tree.0.root().0)).unwrap()
}

/// What was read of a page that was changed meanwhile is not used; the next look goes on where the
/// last one ended.
#[test]
fn a_parent_that_changes_names_nothing() {
    let (pool, tree) = filled(800, 300);
    let all = leaves(&tree, Direction::Forward);
    let (pin, looks) = (parent(&pool, &tree), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&looks);
    let (mut frontier, mut blocks, rest) = (None, Vec::new(), KeyRange::all());
    let mut look = |blocks: &mut Vec<u32>, wanted| {
        tree.0.name_leaves(&mut frontier, &rest, Direction::Forward, wanted, blocks)
            == NamedUpTo::More
    };
    assert!(look(&mut blocks, 2));
    let changes = points::install_local(move |name| {
        if name == "btree.ahead.peeked" {
            count.fetch_add(1, Ordering::Relaxed);
            assert!(pin.hint(None, |_| ()), "it is not latched");
        }
    });
    assert!(look(&mut blocks, 4), "there are more");
    assert_eq!(blocks, all[..2]);
    assert_eq!(tree.0.prefetch_leaves(&[&key(3)]), 0);
    assert!(looks.load(Ordering::Relaxed) >= 2, "both looked, and gave up");
    drop(changes);
    assert!(!look(&mut blocks, 1000));
    assert_eq!(blocks, all);
}

/// A tree of one leaf has no page that names it.
#[test]
fn a_single_leaf_is_not_named() {
    let (_pool, tree) = filled(800, 3);
    let (mut frontier, mut blocks) = (None, Vec::new());
    for direction in BOTH {
        tree.0.name_leaves(&mut frontier, &KeyRange::all(), direction, 2, &mut blocks);
    }
    assert!(blocks.is_empty() && frontier.is_none());
    assert_eq!(tree.0.prefetch_leaves(&[&key(1), &key(2)]), 0);
}
