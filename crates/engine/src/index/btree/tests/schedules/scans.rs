//! Worlds of scans: in both directions, of lists of keys, over posting lists, beside writers.
//!
//! Invariants: what stays from the first call to the last is seen, once, in its order.
//! Does not do: single keys (`descents`).

use rightlink_env::Broken;
use rightlink_env::sync::Arc;
use rightlink_env::thread;

use crate::ids::RowId;
use crate::index::am::{AccessMethod, IndexScan, LeafBatch, ScanOptions};
use crate::index::btree::inspect::ItemInfo;
use crate::index::btree::tests::schedules::{
    Entry, STABLE, dead, delete_all, entries_of, free_pages, fresh, join, leftmost, look_up, scan,
    shown, stable, start, three_leaves, tree, tree_of, vacuum,
};
use crate::index::btree::{Optimisation, Optimisations};
use crate::index::search_key::{Direction, KeyRange, KeySet};
use crate::index::suite::{self, verify_clean};
use crate::schedules::{Case, catches, survives};

/// What a scan hands over, in ascending order; `between` runs after each leaf.
fn drained(mut scan: Box<dyn IndexScan>, direction: Direction, between: impl Fn()) -> Vec<Entry> {
    let (mut batch, mut found) = (LeafBatch::default(), Vec::new());
    while scan.next_batch(&|| 0, &mut batch).expect("a sound tree") {
        found.extend((0..batch.len()).map(|i| (batch.key(i).to_vec(), batch.entries[i].row)));
        between();
    }
    if direction == Direction::Backward {
        found.reverse();
    }
    found
}

/// Scans in both directions beside inserts, splits, vacuum, merges and the reuse of pages.
fn scans() {
    let (_pool, tree) = tree();
    let stay: Vec<_> = (0..40).step_by(8).map(stable).collect();
    suite::insert(&tree, &stay);
    suite::insert(&tree, &(9..31).filter(|n| n % 8 != 0).map(dead).collect::<Vec<_>>());
    let scans = [Direction::Forward, Direction::Backward].map(|direction| {
        let stay = stay.clone();
        start(&tree, move |tree| {
            let found = scan(tree, direction);
            let seen = found.into_iter().filter(|(_, row)| row.slot == STABLE).collect::<Vec<_>>();
            assert!(seen == stay, "{direction:?} saw {} of {}", shown(&seen), shown(&stay));
        })
    });
    let writer = start(&tree, |tree| {
        vacuum(tree);
        suite::insert(tree, &(1..8).chain(33..39).map(fresh).collect::<Vec<_>>());
    });
    join(scans.into_iter().chain([writer]));
    verify_clean(&tree);
}

/// Scans in both directions and lookups beside a merge: what stays is seen, once (R5).
fn scans_beside_merges() {
    let (_pool, tree, rest) = three_leaves();
    let all = suite::scan(&tree, KeyRange::all(), Direction::Forward);
    let stay: Vec<Entry> = all.into_iter().filter(|entry| !rest.contains(entry)).collect();
    let scans = [Direction::Forward, Direction::Backward].map(|direction| {
        let stay = stay.clone();
        start(&tree, move |tree| {
            let mut found = suite::scan(tree, KeyRange::all(), direction);
            if direction == Direction::Backward {
                found.reverse();
            }
            assert!(found.is_sorted_by(|a, b| a < b), "in order, nothing twice");
            let seen = found.iter().filter(|entry| stay.contains(entry)).count();
            assert_eq!(seen, stay.len(), "{direction:?}");
        })
    });
    let reader = start(&tree, move |tree| {
        for (key, row) in stay.iter().step_by(4) {
            assert!(look_up(tree, key).contains(row), "a lookup");
        }
    });
    let deleter = start(&tree, move |tree| delete_all(tree, &rest));
    join(scans.into_iter().chain([reader, deleter]));
    assert!(free_pages(&tree) > 0, "a page was merged");
    verify_clean(&tree);
}

/// Lists of keys, by lookups and by scans in both directions, beside a merge and a split: the leaf
/// next door is not what it was (R6).
fn key_lists_beside_merges() {
    let (_pool, tree, rest) = three_leaves();
    let all = suite::scan(&tree, KeyRange::all(), Direction::Forward);
    let stay: Vec<Entry> = all.into_iter().filter(|entry| !rest.contains(entry)).collect();
    let wanted: Vec<Entry> = stay.iter().step_by(5).cloned().collect();
    let ranges = wanted.iter().map(|(key, _)| KeyRange::starting_with(key)).collect();
    let list = Arc::new(KeySet::of_ranges(ranges).expect("keys"));
    let scans = [Direction::Forward, Direction::Backward].map(|direction| {
        let (wanted, list) = (wanted.clone(), Arc::clone(&list));
        start(&tree, move |tree| {
            let options = ScanOptions { direction, ..ScanOptions::default() };
            let scan = tree.begin_scan_of(list.hull(), list, options);
            let found = drained(scan, direction, || ());
            assert_eq!(found, wanted, "{direction:?}");
        })
    });
    let lookup = {
        let wanted = wanted.clone();
        start(&tree, move |tree| {
            let keys: Vec<&[u8]> = wanted.iter().map(|(key, _)| key.as_slice()).collect();
            let mut found = Vec::new();
            tree.lookup(&keys, &mut |_, row, _| found.push(row)).expect("a sound tree");
            assert!(found.iter().eq(wanted.iter().map(|(_, row)| row)), "a list of keys");
        })
    };
    let writer = start(&tree, move |tree| {
        delete_all(tree, &rest);
        suite::insert(tree, &rest);
    });
    join(scans.into_iter().chain([lookup, writer]));
    verify_clean(&tree);
}

/// A row of the one key of [`scans_beside_lists`].
fn listed(n: u32, slot: u16) -> Entry {
    (b"same\0".to_vec(), RowId::new(n, slot))
}

/// Posting lists that are parted by rows in their middle, and shortened, beside scans in both
/// directions and lookups: what stays is seen, once.
fn scans_beside_lists() {
    let (_pool, tree) = tree_of(400);
    let stay: Vec<Entry> = (0..90).map(|n| listed(3 * n, STABLE)).collect();
    let go: Vec<Entry> = (0..20).map(|n| listed(9 * n + 1, 5)).collect();
    suite::insert(&tree, &[stay.clone(), go.clone()].concat());
    let items = |block| tree.inspect_items(block).expect("a sound tree");
    let lists = (1..tree.blocks()).flat_map(items).filter(|item| item.further.len() > 3);
    assert!(lists.count() > 2, "the rows are in lists");
    let scans = [Direction::Forward, Direction::Backward].map(|direction| {
        let stay = stay.clone();
        start(&tree, move |tree| {
            let found = scan(tree, direction);
            let seen = found.into_iter().filter(|(_, row)| row.slot == STABLE);
            assert!(seen.eq(stay), "{direction:?}");
        })
    });
    let lookup = {
        let stay = stay.clone();
        start(&tree, move |tree| {
            let found = look_up(tree, &stay[0].0);
            let seen = found.iter().filter(|row| row.slot == STABLE);
            assert!(seen.eq(stay.iter().map(|(_, row)| row)), "a lookup");
        })
    };
    let writer = start(&tree, move |tree| {
        suite::insert(tree, &(0..12).map(|n| listed(21 * n + 2, 2)).collect::<Vec<_>>());
        delete_all(tree, &go);
    });
    join(scans.into_iter().chain([lookup, writer]));
    assert_eq!(scan(&tree, Direction::Forward).len(), 90 + 12);
    verify_clean(&tree);
}

/// A leaf goes into the next one while scans are between the two, and then the rows of both come
/// into one posting list: scans take of it what they have not had (R5). They let others go first
/// after each leaf.
fn scans_beside_joined_lists() {
    let (_pool, tree) = tree_of(400);
    // Nothing is in a list yet.
    tree.optimise(Optimisations::ALL.without(Optimisation::Deduplication));
    suite::insert(&tree, &(0..54).map(|n| listed(4 * n, STABLE)).collect::<Vec<_>>());
    let first = leftmost(&tree);
    let (left, right) = (entries_of(&tree, first.block), entries_of(&tree, first.right));
    let (gone, thin) = left.split_at(left.len() - 10);
    delete_all(&tree, gone);
    tree.optimise(Optimisations::ALL);
    let (go, kept) = (thin[..8].to_vec(), &thin[8..]);
    let stay = [kept, &right[..]].concat();
    let scans = [Direction::Forward, Direction::Backward].map(|direction| {
        let stay = stay.clone();
        start(&tree, move |tree| {
            let options = ScanOptions { direction, ..ScanOptions::default() };
            let scan = tree.begin_scan(KeyRange::all(), options);
            let found = drained(scan, direction, thread::yield_now);
            assert!(found.is_sorted_by(|a, b| a < b), "in order, nothing twice: {direction:?}");
            let seen = found.iter().filter(|entry| stay.contains(entry)).count();
            assert_eq!(seen, stay.len(), "{direction:?}");
        })
    });
    let end = right[0].1;
    let more = right.iter().flat_map(|(_, row)| [1, 2].map(|n| listed(row.block.0 + n, 2)));
    let more: Vec<Entry> = more.collect();
    let writer = start(&tree, move |tree| {
        delete_all(tree, &go);
        suite::insert(tree, &more);
    });
    join(scans.into_iter().chain([writer]));
    let items = |block| tree.inspect_items(block).expect("a sound tree");
    let over = |item: &ItemInfo| {
        item.row.is_some_and(|row| row < end) && item.further.iter().any(|row| *row >= end)
    };
    let joined = (1..tree.blocks()).flat_map(items).filter(over).count();
    assert_eq!(joined, 1, "a list has rows of both leaves");
    verify_clean(&tree);
}

#[test]
fn scans_miss_nothing() {
    survives("scans", scans, 500);
    survives("scans beside merges", scans_beside_merges, 300);
    survives("key lists beside merges", key_lists_beside_merges, 300);
}

#[test]
fn lists_change_under_scans() {
    survives("scans beside posting lists", scans_beside_lists, 300);
    survives("scans beside joined lists", scans_beside_joined_lists, 300);
}

#[test]
fn broken_scans_are_caught() {
    catches(&[
        Case { rule: Broken::LinkNotChecked, world: scans, within: 2000 },
        Case { rule: Broken::ListNotCutToRange, world: scans_beside_joined_lists, within: 2000 },
        Case {
            rule: Broken::NearLeafLowFenceIgnored,
            world: key_lists_beside_merges,
            within: 2000,
        },
    ]);
}
