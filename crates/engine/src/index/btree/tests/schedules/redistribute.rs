//! Worlds of leaves that share their entries with those right of them.
//!
//! Invariants: what stays is seen, once, and found; what was dead before a pass of vacuum is gone
//! after it, wherever it was moved meanwhile (R5).
//! Does not do: what splits and merges have in common with them (`scans`, `vacuum`).

use rightlink_env::Broken;
use rightlink_env::thread;

use crate::buffer::testing::TestPool;
use crate::ids::RowId;
use crate::index::btree::BTree;
use crate::index::btree::inspect::PageInfo;
use crate::index::btree::tests::schedules::{
    DEAD, Entry, delete_all, entries_of, garbage_left, join, leftmost, look_up, page, short, start,
    tree_of, vacuum, vacuum_in_turns,
};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite::{self, verify_clean};
use crate::schedules::{Case, catches, survives};

fn lives(n: u64) -> Entry {
    short(4 * n, RowId::new(n as u32, 2))
}

/// What an update of row `n` adds: another key near the old one.
fn version(n: u64, key: u64) -> Entry {
    short(4 * n + key, RowId::new(1000 + (n as u32 * 37 % 900) * 2 + key as u32, 3))
}

fn garbage(n: u64) -> Entry {
    short(4 * n + 3, RowId::new(DEAD + n as u32, 9))
}

/// A tree of leaves that are half full, each with its right neighbour in a lower block but the
/// first: rows came in descending order.
fn descending() -> (TestPool, BTree) {
    let (pool, tree) = tree_of(400);
    for n in (0..120).rev() {
        suite::insert(&tree, &[lives(n)]);
    }
    (pool, tree)
}

/// The numbers of the rows on a leaf, in order.
fn rows_on(tree: &BTree, leaf: &PageInfo) -> Vec<u64> {
    let number = |(key, _): &Entry| u64::from_be_bytes(*key.first_chunk().expect("eight bytes"));
    entries_of(tree, leaf.block).iter().map(|entry| number(entry) / 4).collect()
}

/// Versions that fill a leaf, and a few more.
fn versions_for(tree: &BTree, leaf: &PageInfo) -> Vec<Entry> {
    let rows = rows_on(tree, leaf);
    let room = leaf.free as usize - (8192 - 400);
    let wanted = room / leaf.average_item as usize + 5;
    (1..3).flat_map(|key| rows.iter().map(move |n| version(*n, key))).take(wanted).collect()
}

fn second(tree: &BTree) -> PageInfo {
    page(tree, leftmost(tree).right)
}

/// Scans in both directions and lookups beside leaves that share: what stays is seen, once.
fn readers_beside_spreads() {
    let (_pool, tree) = descending();
    let stay = suite::scan(&tree, KeyRange::all(), Direction::Forward);
    let more = versions_for(&tree, &second(&tree));
    let scans = [Direction::Forward, Direction::Backward].map(|direction| {
        let stay = stay.clone();
        start(&tree, move |tree| {
            let mut found = suite::scan(tree, KeyRange::all(), direction);
            if direction == Direction::Backward {
                found.reverse();
            }
            assert!(found.is_sorted_by(|a, b| a < b), "in order, nothing twice");
            found.retain(|(_, row)| row.slot == 2);
            assert_eq!(found, stay, "{direction:?}");
        })
    });
    let reader = start(&tree, move |tree| {
        for (key, row) in stay.iter().take(60).step_by(5) {
            assert!(look_up(tree, key).contains(row), "a lookup");
        }
    });
    let writer = start(&tree, move |tree| suite::insert_versions(tree, &more));
    join(scans.into_iter().chain([reader, writer]));
    assert!(tree.0.merges.all() > 0, "leaves have shared");
    verify_clean(&tree);
}

/// Two leaves next to each other become full at once, and a third one is merged away: everything
/// is there afterwards.
fn spreads_beside_each_other() {
    let (_pool, tree) = descending();
    let first = second(&tree);
    let next = page(&tree, first.right);
    let gone = entries_of(&tree, page(&tree, next.right).block);
    let (one, two) = (versions_for(&tree, &first), versions_for(&tree, &next));
    let all = suite::scan(&tree, KeyRange::all(), Direction::Forward);
    let stay = all.into_iter().filter(|entry| !gone.contains(entry));
    let mut expected: Vec<Entry> = stay.chain(one.clone()).chain(two.clone()).collect();
    expected.sort_unstable();
    let writers = [one, two].map(|more| start(&tree, move |t| suite::insert_versions(t, &more)));
    let deleter = start(&tree, move |tree| delete_all(tree, &gone));
    join(writers.into_iter().chain([deleter]));
    assert!(suite::scan(&tree, KeyRange::all(), Direction::Forward) == expected, "all that stays");
    verify_clean(&tree);
}

/// A leaf with garbage at its end shares with the one right of it, which is in a lower block.
fn vacuum_beside_spreads() {
    let (_pool, tree) = descending();
    let last = *rows_on(&tree, &second(&tree)).last().expect("a leaf with rows");
    suite::insert(&tree, &[garbage(last)]);
    let more = versions_for(&tree, &second(&tree));
    let writer = start(&tree, move |tree| suite::insert_versions(tree, &more));
    let vacuum = start(&tree, |tree| {
        vacuum(tree);
    });
    join([writer, vacuum]);
    assert!(tree.0.merges.all() > 0, "leaves have shared");
    assert_eq!(garbage_left(&tree), 0, "vacuum leaves dead rows");
    verify_clean(&tree);
}

/// A leaf that vacuum has followed to where it sent entries takes some in, from its left sibling,
/// which is in a higher block: vacuum comes to that one's place, and to what came from there.
/// Vacuum lets others go first when it has begun, and when it has passed the leaf.
fn vacuum_meets_what_was_shared() {
    let (_pool, tree) = descending();
    let (first, passed_at) = (second(&tree), second(&tree).right);
    let last = *rows_on(&tree, &first).last().expect("a leaf with rows");
    suite::insert(&tree, &[garbage(last)]);
    let one = versions_for(&tree, &page(&tree, passed_at));
    let two = versions_for(&tree, &second(&tree));
    let writer = start(&tree, move |tree| {
        suite::insert_versions(tree, &one);
        thread::yield_now();
        suite::insert_versions(tree, &two);
    });
    let vacuum = start(&tree, move |tree| vacuum_in_turns(tree, passed_at));
    join([writer, vacuum]);
    assert_eq!(garbage_left(&tree), 0, "vacuum leaves dead rows");
    verify_clean(&tree);
}

#[test]
fn leaves_share_beside_readers_and_writers() {
    survives("readers beside spreads", readers_beside_spreads, 300);
    survives("spreads beside each other", spreads_beside_each_other, 300);
}

#[test]
fn vacuum_follows_what_is_shared() {
    survives("vacuum beside spreads", vacuum_beside_spreads, 300);
    survives("vacuum and a leaf that takes in what it followed", vacuum_meets_what_was_shared, 300);
}

#[test]
fn broken_spreads_are_caught() {
    catches(&[
        Case { rule: Broken::SpreadWithoutCycle, world: vacuum_beside_spreads, within: 4000 },
        Case {
            rule: Broken::SpreadReceiversNotNoted,
            world: vacuum_meets_what_was_shared,
            within: 4000,
        },
    ]);
}
