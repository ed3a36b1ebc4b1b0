//! A pass beside writers, step by step on one thread: what it follows, and what that costs.

use rightlink_env::points;
use rightlink_env::sync::{Arc, AtomicU64, Ordering};

use crate::buffer::Prefetch;
use crate::ids::{RowId, Xid};
use crate::index::am::{AccessMethod, IndexEntry, VacuumStats};
use crate::index::btree::tests::{FILE, tree};
use crate::index::btree::{BTree, TreeOptions};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite::{self, verify_clean};

/// Blocks from here on hold dead rows.
const DEAD: u32 = 1_000_000;
const CAPACITY: usize = 400;

fn live(n: u64) -> (Vec<u8>, RowId) {
    (n.to_be_bytes().to_vec(), RowId::new(1 + n as u32, 1))
}

fn dead(n: u64) -> (Vec<u8>, RowId) {
    (n.to_be_bytes().to_vec(), RowId::new(DEAD + n as u32, 1))
}

/// A pass in one part; `step` runs after each block, with its number. Also how many leaves were
/// judged.
fn pass(tree: &BTree, step: &mut dyn FnMut(u32)) -> (VacuumStats, u64) {
    let (mut judged, mut block) = (0, 0);
    let pass = tree.begin_delete(1);
    let mut is_dead = |rows: &[RowId], out: &mut [bool]| {
        judged += 1;
        rows.iter().zip(out).for_each(|(row, out)| *out = row.block.0 >= DEAD);
    };
    let mut between = |_| {
        block += 1;
        step(block);
        Ok(())
    };
    pass.run(0, &mut is_dead, &mut between).unwrap();
    (pass.finish(&mut |_| Ok(())).unwrap(), judged)
}

/// Splits of the leftmost leaf leave a chain of blocks that descends to the left of the pass all
/// the while: following it from each of its pages to its end would be quadratic.
#[test]
fn descending_insertions_beside_a_pass_cost_it_little() {
    let (pool, tree) = tree(CAPACITY, 1);
    suite::insert(&tree, &(5000..5010).map(live).collect::<Vec<_>>());
    let (stats, judged) = pass(&tree, &mut |block| {
        if block == 1 {
            (0..5000).rev().for_each(|n| suite::insert(&tree, &[live(n)]));
        }
    });
    let leaves = verify_clean(&tree).leaves;
    assert!(leaves > 200, "{leaves} leaves");
    assert!(judged <= 2 * leaves, "{judged} visits of {leaves} leaves");
    // The first leaf was counted as it was before all others came.
    assert!(stats.live.abs_diff(5010) <= 20, "{} of 5010 entries", stats.live);
    // A new process: the ids on these pages are not those of its passes.
    drop(tree);
    let options = TreeOptions { capacity: CAPACITY, ..TreeOptions::default() };
    let tree = BTree::open(&pool.pool, FILE, options).unwrap();
    let followed = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&followed);
    let counting = points::install_local(move |name| {
        count.fetch_add(u64::from(name == "btree.vacuum.follow"), Ordering::Relaxed);
    });
    let (stats, judged) = pass(&tree, &mut |_| {});
    drop(counting);
    assert_eq!((stats.live, judged), (5010, leaves));
    assert_eq!(followed.load(Ordering::Relaxed), 0, "nothing was split beside this pass");
    verify_clean(&tree);
}

/// Seen on a slow device beside a writer of ascending keys: the pass had just begun when its stream,
/// which reads ahead, met the end of the file and was over. The rightmost leaf, still to come, was
/// split; the last of its dead entries went to a block that the file grew by. The pass did not
/// follow them, for that block was to come, and it never came. Their row ids were free from then on,
/// and the next rows to get them were found under the keys of the dead.
fn split_beyond_the_end_that_was_met() {
    let (pool, tree) = tree(CAPACITY, 1);
    pool.pool.set_prefetch(Prefetch::Fixed(64));
    suite::insert(&tree, &(256..300).map(live).collect::<Vec<_>>());
    // The file grows with each split of the rightmost leaf, and those come at regular intervals.
    let (mut blocks, mut grew, mut next) = (tree.blocks(), Vec::new(), 300);
    while grew.len() < 2 {
        suite::insert(&tree, &[dead(next)]);
        next += 1;
        if tree.blocks() > blocks {
            grew.push(next);
            blocks = tree.blocks();
        }
    }
    let full = 2 * grew[1] - grew[0] - 1;
    suite::insert(&tree, &(next..full).map(dead).collect::<Vec<_>>());
    assert_eq!(tree.blocks(), blocks, "the rightmost leaf is full");
    let (stats, _) = pass(&tree, &mut |block| {
        if block == 1 {
            suite::insert(&tree, &[live(full)]);
            assert_eq!(tree.blocks(), blocks + 1, "it is split");
            let rows = tree.inspect_items(blocks).unwrap().into_iter().filter_map(|item| item.row);
            let gone = rows.filter(|row| row.block.0 >= DEAD).count();
            assert!(gone > 0, "dead entries are in the block that the file grew by");
        }
    });
    let left = suite::scan(&tree, KeyRange::all(), Direction::Forward);
    let left = left.iter().filter(|(_, row)| row.block.0 >= DEAD).count();
    assert_eq!((left, stats.removed), (0, full - 300), "dead entries: left, removed");
    verify_clean(&tree);
}

#[test]
fn what_is_split_beyond_the_end_that_was_met_is_visited() {
    split_beyond_the_end_that_was_met();
    let checks: [(&str, fn()); 1] = [("split", split_beyond_the_end_that_was_met)];
    assert_eq!(points::caught("r5-end", &checks), Some("split"));
}

/// A page takes in its left sibling after the pass has followed it: what comes with it is met when
/// the pass comes to where that was (R5).
fn merged_into_a_page_that_was_followed() {
    let (_pool, tree) = tree(CAPACITY, 1);
    let lives = |n: u64| live(2 * n);
    suite::insert(&tree, &(60..96).map(lives).collect::<Vec<_>>());
    suite::insert(&tree, &(0..30).map(lives).collect::<Vec<_>>());
    let page = |block: u32| tree.inspect_page(block).unwrap();
    let mut leaves = (1..tree.blocks()).map(page).filter(|page| page.kind == "leaf");
    let left = leaves.find(|page| page.left != 0 && page.right != 0 && page.right < page.block);
    let left = left.expect("a leaf whose right sibling is in a lower block");
    let keys = |block: u32| -> Vec<(Vec<u8>, RowId)> {
        let items = tree.inspect_items(block).unwrap();
        items.into_iter().map(|item| (item.key, item.row.unwrap())).collect()
    };
    let number = |key: &[u8]| u64::from_be_bytes(*key.first_chunk().unwrap());
    let (gone, first) = (keys(left.block), number(&keys(left.right)[0].0));
    suite::insert(&tree, &[dead(number(&gone[0].0) + 1)]);
    let (stats, _) = pass(&tree, &mut |block| {
        if block + 1 == left.right {
            // Splits the right one before the pass has come there.
            (0..30).rev().for_each(|n| suite::insert(&tree, &[live(2 * (first / 2 + n) + 1)]));
        }
        if block == left.right {
            let right = keys(left.right);
            for (key, row) in right[8..].iter().chain(&gone) {
                assert!(tree.delete(Xid(5), &IndexEntry::new(key, *row)).unwrap());
            }
            let (now, into) = (page(left.block), page(left.right));
            assert_ne!(now.kind, "leaf", "{now:?} was merged into {into:?}");
        }
    });
    assert_eq!(stats.removed, 1);
    verify_clean(&tree);
}

#[test]
fn what_is_merged_into_a_followed_page_is_met() {
    merged_into_a_page_that_was_followed();
    let checks: [(&str, fn()); 1] = [("merged", merged_into_a_page_that_was_followed)];
    assert_eq!(points::caught("r5-followed", &checks), Some("merged"));
}
