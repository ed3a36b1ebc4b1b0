//! A pass beside writers, step by step on one thread: what it follows, and what that costs.

use rightlink_env::Broken;
use rightlink_env::sync::{Arc, AtomicU64, Ordering};
use rightlink_env::{Rng, points};

use crate::buffer::Prefetch;
use crate::buffer::testing::TestPool;
use crate::ids::{PageId, RowId, Xid};
use crate::index::am::{AccessMethod, IndexEntry, VacuumStats};
use crate::index::btree::inspect::PageInfo;
use crate::index::btree::tests::{FILE, tree};
use crate::index::btree::{BTree, TreeOptions};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite::{self, same, verify_clean};

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

/// Where scans hold their leaves, a pass comes to a leaf only after it was let go.
#[test]
fn a_pass_waits_for_the_pins_of_scans_where_they_hold_leaves() {
    for holds in [true, false] {
        let (test, tree) = tree(CAPACITY, 5);
        suite::insert(&tree, &(0..2000).map(dead).collect::<Vec<_>>());
        test.pool.waits_for_pins.store(holds, Ordering::Relaxed);
        let mut held = Some(test.pool.pin(PageId::new(FILE, 2)).unwrap());
        let mut waits = 0;
        let mut between = |blocks| {
            waits += u32::from(blocks == 0);
            if waits == 3 {
                held = None;
            }
            Ok(())
        };
        let pass = tree.begin_delete(1);
        let mut is_dead = |_: &[RowId], out: &mut [bool]| out.fill(true);
        pass.run(0, &mut is_dead, &mut between).unwrap();
        assert_eq!(pass.finish(&mut |_| Ok(())).unwrap().removed, 2000);
        assert_eq!(waits, if holds { 3 } else { 0 });
    }
}

/// Of full pages any part of the rows leaves, out of entries of one row, of short lists and of long
/// ones; and what is logged of a page is a part of it.
#[test]
fn any_part_of_a_full_page_leaves() {
    for (seed, rows_a_key) in [(1, 1), (2, 2), (3, 7), (4, 400)] {
        for one_in in [200, 4, 2, 1] {
            let mut rng = Rng::from_seed(seed);
            let (pool, tree) = tree(8192, seed);
            let mut entries: Vec<_> = (0..6000u64)
                .map(|n| {
                    let block = n as u32 + if rng.chance(1, one_in) { DEAD } else { 0 };
                    let key = if rows_a_key == 1 { n } else { rng.below(6000 / rows_a_key) };
                    (key.to_be_bytes().to_vec(), RowId::new(block, 1))
                })
                .collect();
            rng.shuffle(&mut entries);
            entries.chunks(60).for_each(|chunk| suite::insert(&tree, chunk));
            let (before, mut log) = (pool.pool.wal().end().0, 0);
            // Until merges begin, which log images.
            let (stats, _) = pass(&tree, &mut |_| log = pool.pool.wal().end().0 - before);
            let all = entries.len() as u64;
            entries.retain(|(_, row)| row.block.0 < DEAD);
            let live = entries.len() as u64;
            assert_eq!((stats.live, stats.removed), (live, all - live));
            verify_clean(&tree);
            same(&tree, &entries.into_iter().collect());
            if (rows_a_key, one_in) == (1, 4) {
                let each = log / u64::from(stats.pages_changed);
                assert!(each < 1000, "{each} bytes of log a page");
            }
        }
    }
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

/// Merges anywhere else say nothing about the chain: it is not followed anew after each of them.
#[test]
fn merges_elsewhere_cost_a_pass_little() {
    let (_pool, tree) = tree(CAPACITY, 1);
    suite::insert(&tree, &(5000..8000).map(live).collect::<Vec<_>>());
    let elsewhere = tree.blocks();
    let mut leaves: Vec<Vec<(Vec<u8>, RowId)>> = (1..elsewhere)
        .filter(|block| tree.inspect_page(*block).unwrap().kind == "leaf")
        .map(|block| entries_of(&tree, block))
        .collect();
    leaves.retain(|entries| entries.iter().all(|entry| number(entry) > 5100));
    let before = tree.0.merges.all();
    let (_, judged) = pass(&tree, &mut |block| {
        if block == 1 {
            (0..5000).rev().for_each(|n| suite::insert(&tree, &[live(n)]));
        }
        // The chain has been reached, and grows with each block.
        if block > elsewhere
            && let Some(entries) = leaves.pop()
        {
            for (key, row) in entries {
                assert!(tree.delete(Xid(5), &IndexEntry::new(&key, row)).unwrap());
            }
        }
    });
    let merges = tree.0.merges.all() - before;
    assert!(merges > 60, "{merges} merges while the pass followed the chain");
    let leaves = verify_clean(&tree).leaves + merges;
    assert!(judged <= 3 * leaves, "{judged} visits of {leaves} leaves");
}

fn entries_of(tree: &BTree, block: u32) -> Vec<(Vec<u8>, RowId)> {
    let rows = tree.inspect_items(block).unwrap().into_iter().flat_map(|item| {
        let (key, rows) = (item.key, item.row.into_iter().chain(item.further));
        rows.map(move |row| (key.clone(), row))
    });
    rows.collect()
}

/// A leaf is merged when the pass's id is valid: what it then is, free and stamped, it must stay
/// until the pass is over. Used again for the upper half of a page that the pass had yet to come
/// to, it would be taken for the free page that had been followed, and its dead rows left.
fn merged_as_the_pass_begins() {
    let (_pool, tree) = tree(CAPACITY, 1);
    suite::insert(&tree, &(100..300).map(|n| live(2 * n)).collect::<Vec<_>>());
    let page = |block: u32| tree.inspect_page(block).unwrap();
    let leaves: Vec<PageInfo> =
        (1..tree.blocks()).map(page).filter(|page| page.kind == "leaf").collect();
    let first = leaves.iter().find(|page| page.left == 0).unwrap().block;
    let last = leaves.iter().find(|page| page.right == 0).unwrap().left;
    assert!(first < last);
    // The highest entry of the other one is dead.
    let highest = number(entries_of(&tree, last).last().unwrap());
    suite::insert(&tree, &[dead(highest + 1)]);
    let (beside, gone) = (tree.clone(), entries_of(&tree, first));
    let begun = points::install_local(move |name| {
        if name == "btree.vacuum.begun" {
            for (key, row) in &gone {
                assert!(beside.delete(Xid(5), &IndexEntry::new(key, *row)).unwrap());
            }
        }
    });
    let (stats, _) = pass(&tree, &mut |block| {
        if block + 1 == last {
            assert_ne!(page(first).kind, "leaf", "it was merged");
            let (right, low) = (page(last).right, number(&entries_of(&tree, last)[0]));
            let more = (low..highest).filter(|n| n % 2 == 1);
            for n in more.take_while(|_| page(last).right == right) {
                suite::insert(&tree, &[live(n)]);
            }
            assert_ne!(page(last).right, right, "it was split");
        }
    });
    drop(begun);
    let left = suite::scan(&tree, KeyRange::all(), Direction::Forward);
    let left = left.iter().filter(|(_, row)| row.block.0 >= DEAD).count();
    assert_eq!((left, stats.removed), (0, 1), "dead entries: left, removed");
    verify_clean(&tree);
}

#[test]
fn what_is_merged_as_a_pass_begins_stays_free() {
    merged_as_the_pass_begins();
    let checks: [(&str, fn()); 1] = [("merged", merged_as_the_pass_begins)];
    assert_eq!(points::caught(Broken::VacuumRegistersLate, &checks), Some("merged"));
}

/// Seen on a slow device beside a writer of ascending keys. The pass had just begun when its
/// read stream met the end of the file. Then the rightmost leaf was split, before the pass came to
/// it, and the last of its dead entries went to a new block.
///
/// The pass expected that block later and did not follow them, but the stream had ended. Their row
/// ids were freed, and new rows with these ids were found under the keys of the dead rows.
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
    assert_eq!(points::caught(Broken::GrowthNotVisited, &checks), Some("split"));
}

/// A leaf with a dead entry, its highest or its second one, whose right sibling is in a lower
/// block: a pass comes to the right one first.
struct Beside {
    _pool: TestPool,
    tree: BTree,
    left: u32,
    right: u32,
    /// First number of the right one.
    first: u64,
}

impl Beside {
    fn new(highest: bool) -> Beside {
        let (pool, tree) = tree(CAPACITY, 1);
        let lives = |n: u64| live(2 * n);
        suite::insert(&tree, &(60..96).map(lives).collect::<Vec<_>>());
        suite::insert(&tree, &(0..30).map(lives).collect::<Vec<_>>());
        let leaves = (1..tree.blocks()).map(|block| tree.inspect_page(block).unwrap());
        let mut leaves = leaves.filter(|page| page.kind == "leaf");
        let left = leaves.find(|page| page.left != 0 && page.right != 0 && page.right < page.block);
        let left = left.expect("a leaf whose right sibling is in a lower block");
        let mut beside =
            Beside { _pool: pool, tree, left: left.block, right: left.right, first: 0 };
        beside.first = number(&beside.keys(left.right)[0]);
        let keys = beside.keys(left.block);
        let at = if highest { keys.len() - 1 } else { 0 };
        suite::insert(&beside.tree, &[dead(number(&keys[at]) + 1)]);
        beside
    }

    fn page(&self, block: u32) -> PageInfo {
        self.tree.inspect_page(block).unwrap()
    }

    fn keys(&self, block: u32) -> Vec<(Vec<u8>, RowId)> {
        entries_of(&self.tree, block)
    }

    fn delete(&self, entries: &[(Vec<u8>, RowId)]) {
        for (key, row) in entries {
            assert!(self.tree.delete(Xid(5), &IndexEntry::new(key, *row)).unwrap());
        }
    }

    /// A pass that follows the right one, which is split before. `step` runs when it has left it.
    fn pass(&self, step: &dyn Fn()) {
        let (stats, _) = pass(&self.tree, &mut |block| {
            if block + 1 == self.right {
                let more = (0..30).rev().map(|n| live(2 * (self.first / 2 + n) + 1));
                more.for_each(|entry| suite::insert(&self.tree, &[entry]));
            }
            if block == self.right {
                step();
            }
        });
        assert_eq!(stats.removed, 1);
        verify_clean(&self.tree);
    }
}

fn number((key, _): &(Vec<u8>, RowId)) -> u64 {
    u64::from_be_bytes(*key.first_chunk().unwrap())
}

/// A page takes in its left sibling after the pass has followed it: what comes with it is met when
/// the pass comes to where that was (R5).
fn merged_into_a_page_that_was_followed() {
    let beside = Beside::new(false);
    let gone: Vec<_> =
        beside.keys(beside.left).into_iter().filter(|(_, row)| row.block.0 < DEAD).collect();
    beside.pass(&|| {
        beside.delete(&beside.keys(beside.right)[8..]);
        beside.delete(&gone);
        assert_ne!(beside.page(beside.left).kind, "leaf", "it was merged into the right one");
    });
}

/// The left sibling is split, and its upper half merged into the page that the pass has followed:
/// that has the left sibling it had, and yet what nobody has visited. It used to be taken for what
/// it was before.
fn merged_from_between() {
    let beside = Beside::new(true);
    let (left, right) = (beside.left, beside.right);
    beside.pass(&|| {
        beside.delete(&beside.keys(right)[8..]);
        assert_eq!(beside.page(right).left, left);
        let keys = beside.keys(left);
        let some = number(&keys[0])..number(&keys[keys.len() - 1]) - 1;
        let more = some.flat_map(|n| [2, 3].map(|slot| (live(n).0, RowId::new(n as u32, slot))));
        for entry in more.take_while(|_| beside.page(left).right == right) {
            suite::insert(&beside.tree, &[entry]);
        }
        let between = beside.page(left).right;
        assert!(between > right, "the left one was split, and the pass is to come to the new one");
        let (dead, gone): (Vec<_>, Vec<_>) =
            beside.keys(between).into_iter().partition(|(_, row)| row.block.0 >= DEAD);
        assert_eq!(dead.len(), 1, "what is dead is on the new one");
        beside.delete(&gone);
        assert_eq!(beside.page(between).kind, "free", "it was merged");
        assert_eq!(beside.page(right).left, left, "as when it was followed");
        assert!(beside.keys(right).contains(&dead[0]));
    });
}

#[test]
fn what_is_merged_into_a_followed_page_is_met() {
    let checks: [(&str, fn()); 2] =
        [("merged", merged_into_a_page_that_was_followed), ("between", merged_from_between)];
    for check in checks {
        check.1();
        assert_eq!(points::caught(Broken::FollowedPageNotRevisited, &[check]), Some(check.0));
        assert_eq!(points::caught(Broken::MergeReceiverNotNoted, &[check]), Some(check.0));
    }
}
