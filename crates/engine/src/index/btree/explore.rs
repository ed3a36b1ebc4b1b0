//! Schedules of scans, inserts, splits, merges and vacuum on a tree of a few tiny pages (R5 to R8).
//!
//! See `schedules` for how worlds are run. Rows at and above block [`DEAD`] are garbage that vacuum
//! takes out; rows of slot [`STABLE`] stay from first to last.

use rightlink_env::points;
use rightlink_env::sync::{Arc, AtomicUsize, Ordering};
use rightlink_env::thread::{self, JoinHandle};

use crate::buffer::Pin;
use crate::buffer::testing::{self, TestPool};
use crate::ids::{FileId, RowId, Xid};
use crate::index::am::{AccessMethod, HeapOracle, IndexEntry, IndexScan, InsertOutcome};
use crate::index::am::{LeafBatch, Liveness, ScanOptions, VacuumStats};
use crate::index::btree::alloc::Registrations;
use crate::index::btree::node::{Node, is_node};
use crate::index::btree::search::Aim;
use crate::index::btree::{BTree, Optimisations, TreeOptions, inspect};
use crate::index::search_key::{Direction, KeyRange, KeySet};
use crate::index::suite::{self, verify_clean};
use crate::schedules::{Case, catches, survives};

const FILE: FileId = FileId(70);
/// Blocks from here on hold dead rows.
const DEAD: u32 = 1_000_000;
/// Slot of the rows that stay.
const STABLE: u16 = 1;

type Entry = (Vec<u8>, RowId);

/// An empty tree whose pages take a handful of entries.
fn tree() -> (TestPool, BTree) {
    tree_of(256)
}

fn tree_of(capacity: usize) -> (TestPool, BTree) {
    let test = testing::pool(64, 1);
    test.pool.create_file(FILE, true).expect("an empty disk");
    let options = TreeOptions { capacity, ..TreeOptions::default() };
    let tree = BTree::create(&test.pool, FILE, options).expect("space");
    (test, tree)
}

/// A key of which four or five fill a page.
fn key(n: u64) -> Vec<u8> {
    let mut key = n.to_be_bytes().to_vec();
    key.extend([0x55; 20]);
    key
}

fn entry(n: u64, row: RowId) -> Entry {
    (key(n), row)
}

fn stable(n: u64) -> Entry {
    entry(n, RowId::new(n as u32, STABLE))
}

fn dead(n: u64) -> Entry {
    entry(n, RowId::new(DEAD + n as u32, 9))
}

fn fresh(n: u64) -> Entry {
    entry(n, RowId::new(n as u32, 2))
}

fn vacuum(tree: &BTree) -> VacuumStats {
    suite::vacuum(tree, &|row| row.block.0 >= DEAD)
}

fn start<T: Send + 'static>(
    tree: &BTree,
    work: impl FnOnce(&BTree) -> T + Send + 'static,
) -> JoinHandle<T> {
    let tree = tree.clone();
    thread::spawn("explores", move || work(&tree))
}

fn join<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    let threads: Vec<_> = threads.into_iter().collect();
    threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
}

/// All keys of a scan, which must come in order and once.
fn scan(tree: &BTree, direction: Direction) -> Vec<Entry> {
    let mut found = suite::scan(tree, KeyRange::all(), direction);
    if direction == Direction::Backward {
        found.reverse();
    }
    assert!(found.is_sorted_by(|a, b| a < b), "in order, nothing twice: {}", shown(&found));
    found
}

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

fn shown(entries: &[Entry]) -> String {
    let number = |(key, _): &Entry| u64::from(key[7]);
    format!("{:?}", entries.iter().map(number).collect::<Vec<_>>())
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

/// Inserts that split pages while vacuum passes: what was dead before is gone after.
fn vacuum_beside_splits() {
    let (_pool, tree) = tree();
    // The low blocks are free again, the dead entries in high ones.
    suite::insert(&tree, &(0..30).map(dead).collect::<Vec<_>>());
    suite::insert(&tree, &(100..130).step_by(3).map(dead).collect::<Vec<_>>());
    suite::vacuum(&tree, &|row| row.block.0 < DEAD + 30);
    let writer = start(&tree, |tree| {
        suite::insert(tree, &(100..130).filter(|n| n % 3 == 2).map(fresh).collect::<Vec<_>>());
    });
    let vacuum = start(&tree, |tree| {
        vacuum(tree);
    });
    join([writer, vacuum]);
    let left = scan(&tree, Direction::Forward);
    let kept: Vec<_> = (100..130).filter(|n| n % 3 == 2).map(fresh).collect();
    assert!(left == kept, "vacuum leaves {} of {}", shown(&left), shown(&kept));
    verify_clean(&tree);
}

fn is_dead(rows: &[RowId], out: &mut [bool]) {
    rows.iter().zip(out).for_each(|(row, out)| *out = row.block.0 >= DEAD);
}

/// Inserts that split pages while two threads vacuum a half of the file each: what was dead before
/// is gone after, also where a page sent it to a block that the other one had passed (R5). Who has
/// the first half lets the others go first.
fn vacuum_in_parts() {
    let (_pool, tree) = tree();
    // The high blocks, all in the second half, are free again; the dead entries are in low ones.
    suite::insert(&tree, &(0..120).step_by(3).map(dead).collect::<Vec<_>>());
    suite::insert(&tree, &(200..216).map(dead).collect::<Vec<_>>());
    suite::vacuum(&tree, &|row| row.block.0 >= DEAD + 200);
    let new: Vec<_> = (50..80).filter(|n| n % 3 == 2).map(fresh).collect();
    let kept = new.clone();
    let writer = start(&tree, move |tree| suite::insert(tree, &new));
    let vacuum = start(&tree, |tree| {
        let pass = tree.begin_delete(2);
        assert_eq!(pass.parts(), 2, "the world is about two parts");
        let next = AtomicUsize::new(0);
        thread::several("part", 2, &|| {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part == 0 {
                thread::yield_now();
            }
            pass.run(part, &mut is_dead, &mut |_| Ok(())).expect("a sound tree");
        });
        pass.finish(&mut |_| Ok(())).expect("a sound tree");
    });
    join([writer, vacuum]);
    let left = scan(&tree, Direction::Forward);
    assert!(left == kept, "vacuum leaves {} of {}", shown(&left), shown(&kept));
    verify_clean(&tree);
}

/// An entry with a short key: some thirty fill a page of 400 bytes.
fn short(n: u64, row: RowId) -> Entry {
    (n.to_be_bytes().to_vec(), row)
}

/// A tree of three leaves, the middle one of which has a higher block than the right one, and
/// a dead row; with what must leave the middle one to have it merged.
fn three_leaves() -> (TestPool, BTree, Vec<Entry>) {
    let (pool, tree) = tree_of(400);
    let lives = |n: u64| short(n, RowId::new(n as u32, 2));
    suite::insert(&tree, &(60..96).map(lives).collect::<Vec<_>>());
    suite::insert(&tree, &(0..30).map(lives).collect::<Vec<_>>());
    let page = |block: u32| tree.inspect_page(block).expect("a sound tree");
    let leaves = (1..tree.blocks()).map(page).filter(|page| page.kind == "leaf");
    let middle: Vec<_> = leaves
        .filter(|page| page.left != 0 && page.right != 0 && page.right < page.block)
        .collect();
    let low = middle.first().expect("a leaf whose right sibling is in a lower block");
    let items = tree.inspect_items(low.block).expect("a sound tree");
    let entry = |item: &inspect::ItemInfo| (item.key.clone(), item.row.expect("a leaf has rows"));
    let entries: Vec<Entry> = items.iter().map(entry).collect();
    // Beside garbage with the key of the first one there is what will go.
    let (garbage, rest) = entries.split_at(1);
    let garbage = garbage.iter().enumerate();
    let garbage: Vec<_> =
        garbage.map(|(n, (key, _))| (key.clone(), RowId::new(DEAD + n as u32, 9))).collect();
    let rest: Vec<Entry> = rest.iter().chain(&entries[..1]).cloned().collect();
    suite::insert(&tree, &garbage);
    (pool, tree, rest)
}

fn delete_all(tree: &BTree, entries: &[Entry]) {
    for (key, row) in entries {
        let gone = tree.delete(Xid(5), &IndexEntry::new(key, *row));
        assert!(gone.expect("a sound tree"), "each is there once");
    }
}

fn free_pages(tree: &BTree) -> usize {
    let page = |block: u32| tree.inspect_page(block).expect("a sound tree");
    (1..tree.blocks()).map(page).filter(|page| page.kind == "free").count()
}

/// A page that deletions make underfull is merged into one that vacuum has passed: what was dead
/// before is gone after.
fn vacuum_beside_merges() {
    let (_pool, tree, rest) = three_leaves();
    let deleter = start(&tree, move |tree| delete_all(tree, &rest));
    let vacuum = start(&tree, |tree| {
        vacuum(tree);
    });
    join([deleter, vacuum]);
    assert!(free_pages(&tree) > 0, "pages were merged");
    let left = suite::scan(&tree, KeyRange::all(), Direction::Forward);
    let garbage = left.iter().filter(|(_, row)| row.block.0 >= DEAD).count();
    assert_eq!(garbage, 0, "vacuum leaves dead rows of {}", left.len());
    verify_clean(&tree);
}

/// A leaf that vacuum has followed to where it was split takes in its left sibling, which is in
/// a higher block: vacuum comes to that one's place, and to what came from there (R5). Vacuum lets
/// others go first when it has begun, and when it has passed the leaf.
fn vacuum_meets_what_is_merged() {
    let (_pool, tree, rest) = three_leaves();
    let page = |block: u32| tree.inspect_page(block).expect("a sound tree");
    let mut leaves = (1..tree.blocks()).map(page);
    let last = leaves.find(|page| page.kind == "leaf" && page.right == 0);
    let last = last.expect("a rightmost leaf").block;
    let more: Vec<_> = (100..134).map(|n| short(n, RowId::new(n as u32, 2))).collect();
    let writer = start(&tree, move |tree| {
        suite::insert(tree, &more);
        thread::yield_now();
        // Room for what will be left of its sibling.
        let gone: Vec<_> = entries_of(tree, last).into_iter().skip(12).collect();
        delete_all(tree, &gone);
        delete_all(tree, &rest);
    });
    let vacuum = start(&tree, move |tree| {
        let pass = tree.begin_delete(1);
        thread::yield_now();
        let mut passed = 0;
        let mut between = |_| {
            passed += 1;
            if passed == last {
                thread::yield_now();
            }
            Ok(())
        };
        pass.run(0, &mut is_dead, &mut between).expect("a sound tree");
        pass.finish(&mut |_| Ok(())).expect("a sound tree");
    });
    join([writer, vacuum]);
    let left = suite::scan(&tree, KeyRange::all(), Direction::Forward);
    let garbage = left.iter().filter(|(_, row)| row.block.0 >= DEAD).count();
    assert_eq!(garbage, 0, "vacuum leaves dead rows of {}", left.len());
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

fn look_up(tree: &BTree, key: &[u8]) -> Vec<RowId> {
    let mut found = Vec::new();
    tree.lookup(&[key], &mut |_, row, _| found.push(row)).expect("a sound tree");
    found
}

/// Inserts that split a leaf beside descents for keys on both sides of the split (move right), and
/// for keys that are being deleted: there until they are gone for good.
fn descents_beside_splits() {
    let (_pool, tree) = tree();
    let stay: Vec<_> = (0..40).step_by(8).map(stable).collect();
    suite::insert(&tree, &stay);
    suite::insert(&tree, &(20..24).map(fresh).collect::<Vec<_>>());
    let splitter = start(&tree, |tree| {
        suite::insert(tree, &(10..20).filter(|n| n % 8 != 0).map(fresh).collect::<Vec<_>>());
    });
    let going: Vec<_> = (20..24).map(fresh).collect();
    let gone = going.clone();
    let deleter = start(&tree, move |tree| delete_all(tree, &gone));
    let reader = start(&tree, move |tree| {
        let mut left = going.len();
        for (key, row) in &stay {
            assert_eq!(look_up(tree, key), [*row]);
            // They go in their order.
            let there = going.iter().filter(|(key, row)| look_up(tree, key) == [*row]).count();
            assert!(there <= left, "{left} were left, and now {there}");
            left = there;
        }
    });
    join([splitter, deleter, reader]);
    assert_eq!(scan(&tree, Direction::Forward).len(), 5 + 9);
    verify_clean(&tree);
}

/// A merge beside insertions that fill the page it would go into, and others that split a page
/// under the same parent: it is refused where not everything would fit, and the downlink that goes
/// is that of the page (R5).
fn merges_beside_insertions() {
    let (_pool, tree) = tree_of(400);
    let lives = |n: u64| short(n, RowId::new(n as u32, 2));
    suite::insert(&tree, &(0..150).map(|n| lives(4 * n)).collect::<Vec<_>>());
    let page = |block: u32| tree.inspect_page(block).expect("a sound tree");
    let first = (1..tree.blocks()).map(page).find(|page| page.kind == "leaf" && page.left == 0);
    let first = first.expect("a leftmost leaf");
    let third = page(page(first.right).right);
    let (thin, fourth) = (entries_of(&tree, third.block), page(third.right));
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
            let options = ScanOptions { direction, with_dead: false };
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
    tree.optimise(Optimisations::ALL.without(Optimisations::DEDUPLICATION));
    suite::insert(&tree, &(0..54).map(|n| listed(4 * n, STABLE)).collect::<Vec<_>>());
    let page = |block: u32| tree.inspect_page(block).expect("a sound tree");
    let mut leaves = (1..tree.blocks()).map(page);
    let first = leaves.find(|page| page.kind == "leaf" && page.left == 0);
    let first = first.expect("a leftmost leaf");
    let (left, right) = (entries_of(&tree, first.block), entries_of(&tree, first.right));
    let (gone, thin) = left.split_at(left.len() - 10);
    delete_all(&tree, gone);
    tree.optimise(Optimisations::ALL);
    let (go, kept) = (thin[..8].to_vec(), &thin[8..]);
    let stay = [kept, &right[..]].concat();
    let scans = [Direction::Forward, Direction::Backward].map(|direction| {
        let stay = stay.clone();
        start(&tree, move |tree| {
            let options = ScanOptions { direction, with_dead: false };
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
    let over = |item: &inspect::ItemInfo| {
        item.row.is_some_and(|row| row < end) && item.further.iter().any(|row| *row >= end)
    };
    let joined = (1..tree.blocks()).flat_map(items).filter(over).count();
    assert_eq!(joined, 1, "a list has rows of both leaves");
    verify_clean(&tree);
}

/// Entries of a leaf.
fn entries_of(tree: &BTree, block: u32) -> Vec<Entry> {
    let items = tree.inspect_items(block).expect("a sound tree");
    items.into_iter().map(|item| (item.key, item.row.expect("a leaf has rows"))).collect()
}

/// Lookups whose bounds come from a parent that a merge changes meanwhile: the leaf has taken in
/// keys that do not share what the separators shared (decision 3). Without heads, since with them
/// only what a page's own keys share is ever left out.
fn bounds_beside_merges() {
    let (_pool, tree) = tree_of(400);
    tree.optimise(Optimisations::ALL.without(Optimisations::HEADS));
    let pair = |high: u8, low: u8| -> Entry {
        ([&[high, low][..], &[0x55; 8]].concat(), RowId::new(u32::from(low), 1))
    };
    suite::insert(&tree, &(200..206).map(|low| pair(0, low)).collect::<Vec<_>>());
    suite::insert(&tree, &(0..60).map(|low| pair(1, low)).collect::<Vec<_>>());
    let page = |block: u32| tree.inspect_page(block).expect("a sound tree");
    let leaves = (1..tree.blocks()).map(page).filter(|page| page.kind == "leaf");
    let first = leaves.into_iter().find(|page| page.left == 0).expect("a leftmost leaf");
    let (left, right) = (entries_of(&tree, first.block), entries_of(&tree, first.right));
    assert!(page(first.right).low[0] == 1 && left[0].0[0] == 0, "the first byte tells them apart");
    // Room for what comes.
    let (gone, stay) = right.split_at(right.len() / 2);
    delete_all(&tree, gone);
    let stay = stay.to_vec();
    let reader = start(&tree, move |tree| {
        for (key, row) in stay.iter().take(4) {
            assert_eq!(look_up(tree, key), [*row], "it was there all the time");
        }
    });
    let deleter = start(&tree, move |tree| delete_all(tree, &left[2..]));
    join([reader, deleter]);
    let now = page(first.block);
    assert_ne!(now.kind, "leaf", "the leaf was merged: {now:?}");
    verify_clean(&tree);
}

/// Lookups on their way to a page that is given back and used again (R6).
fn descents_beside_reuse() {
    let (pool, tree) = tree();
    suite::insert(&tree, &(10..24).map(dead).collect::<Vec<_>>());
    suite::insert(&tree, &(30..34).map(stable).collect::<Vec<_>>());
    let reader = start(&tree, |tree| {
        for n in (10..24).chain([30]) {
            let from = KeyRange { low: key(n), high: None };
            let mut scan = tree.begin_scan(from, ScanOptions::default());
            let mut batch = LeafBatch::default();
            assert!(scan.next_batch(&|| 0, &mut batch).expect("a sound tree"), "30 stays");
            assert!(batch.key(0) <= key(30).as_slice(), "nothing is left out");
        }
    });
    let pool = Arc::clone(&pool.pool);
    let writer = start(&tree, move |tree| {
        vacuum(tree);
        pool.evict_all().expect("a sound disk");
        suite::insert(tree, &(100..112).map(fresh).collect::<Vec<_>>());
    });
    join([reader, writer]);
    verify_clean(&tree);
}

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
    let _registered = tree.0.registrations.enter();
    let rest = KeyRange { low: from.to_vec(), high: None };
    let (mut end, mut blocks) = (None, Vec::new());
    let more = tree.0.leaves_from(&mut end, &rest, Direction::Forward, (3, &mut blocks));
    assert!(blocks.len() <= 3 && (more || end.is_none()), "{blocks:?} up to {end:?}");
    for (i, block) in blocks.iter().enumerate() {
        let low = named_low(tree, *block);
        assert!(i > 0 || low.as_deref().is_none_or(|low| low <= from), "R11: {block} is not it");
        let beyond = low.zip(end.as_ref()).is_some_and(|(low, end)| low >= *end);
        assert!(!beyond, "R11: {block} is beyond the end");
    }
}

/// No leaf ahead begins at or above `from`.
fn names_backward(tree: &BTree, from: &[u8]) {
    let _registered = tree.0.registrations.enter();
    let rest = KeyRange { low: Vec::new(), high: Some(from.to_vec()) };
    let (mut end, mut blocks) = (None, Vec::new());
    tree.0.leaves_from(&mut end, &rest, Direction::Backward, (3, &mut blocks));
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
            assert!(tree.0.read_ahead(&keys) <= 3);
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

/// A page that a registered descent led to is nobody else's while the registration lasts, whatever
/// becomes of it: keys move only right, so its low fence never rises (R5, R6).
fn registered_descents() {
    let (_pool, tree) = tree();
    suite::insert(&tree, &(10..24).map(dead).collect::<Vec<_>>());
    suite::insert(&tree, &(30..34).map(stable).collect::<Vec<_>>());
    let reader = start(&tree, |tree| {
        for n in [10, 14, 18, 22] {
            let (tree, key) = (&tree.0, key(n));
            let _registered = tree.registrations.enter();
            let pin = tree.descend(Aim::At(&key), 0).expect("a sound tree").expect("a leaf");
            let (block, low) = (pin.page().block.0, low_fence(&pin));
            drop(pin);
            thread::yield_now();
            let now = low_fence(&tree.pin_linked(block).expect("a sound tree"));
            let reused = low.zip(now).is_some_and(|(low, now)| now > low);
            assert!(!reused, "R6: block {block} is used again under a registered descent");
        }
    });
    let writer = start(&tree, |tree| {
        vacuum(tree);
        suite::insert(tree, &(100..112).map(fresh).collect::<Vec<_>>());
    });
    join([reader, writer]);
    verify_clean(&tree);
}

/// More operations that register within each other than there are slots: nobody waits for one, and
/// what is freed while one is registered is not used again (R6).
fn nested_registrations() {
    let registrations = Arc::new(Registrations::default());
    let entrant = || {
        let registrations = Arc::clone(&registrations);
        thread::spawn("explores", move || {
            let outer = registrations.enter();
            let inner = registrations.enter();
            for registered in [inner, outer] {
                let freed = registrations.tick();
                thread::yield_now();
                assert!(freed >= registrations.oldest(), "R6: used again under a registration");
                drop(registered);
            }
        })
    };
    join(std::array::from_fn::<_, 5, _>(|_| entrant()));
    assert!(registrations.tick() < registrations.oldest(), "nobody is left");
}

fn low_fence(pin: &Pin) -> Option<Vec<u8>> {
    let page = pin.shared();
    is_node(page.bytes()).then(|| Node::open(page.bytes()).expect("a sound page").low())
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

/// A file that grows while vacuum passes: each new block is used once.
fn vacuum_beside_growth() {
    let (_pool, tree) = tree();
    suite::insert(&tree, &[stable(0)]);
    let writer = start(&tree, |tree| {
        suite::insert(tree, &(1..24).map(fresh).collect::<Vec<_>>());
    });
    let vacuum = start(&tree, |tree| {
        for _ in 0..2 {
            vacuum(tree);
        }
    });
    join([writer, vacuum]);
    suite::insert(&tree, &(24..36).map(fresh).collect::<Vec<_>>());
    assert_eq!(scan(&tree, Direction::Forward).len(), 36);
    verify_clean(&tree);
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
    assert!(!tree.0.blocks.hints().is_empty(), "the meta page names some");
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

#[test]
fn scans_miss_nothing() {
    survives("scans", scans, 500);
}

#[test]
fn vacuum_follows_splits() {
    survives("vacuum beside splits", vacuum_beside_splits, 500);
    survives("vacuum beside growth", vacuum_beside_growth, 500);
    survives("vacuum in parts", vacuum_in_parts, 500);
}

#[test]
fn leaves_are_named_ahead() {
    survives("look-ahead", look_ahead, 500);
    survives("look-ahead of a cold tree", look_ahead_of_a_cold_tree, 300);
}

#[test]
fn vacuum_and_scans_survive_merges() {
    survives("vacuum beside merges", vacuum_beside_merges, 300);
    survives("vacuum and a merge into what it followed", vacuum_meets_what_is_merged, 300);
    survives("scans beside merges", scans_beside_merges, 300);
    survives("merges beside insertions", merges_beside_insertions, 300);
    survives("key lists beside merges", key_lists_beside_merges, 300);
    survives("bounds beside merges", bounds_beside_merges, 500);
}

#[test]
fn lists_change_under_scans() {
    survives("scans beside posting lists", scans_beside_lists, 300);
    survives("scans beside joined lists", scans_beside_joined_lists, 300);
}

#[test]
fn descents_end_where_they_should() {
    survives("descents beside splits", descents_beside_splits, 500);
    survives("descents beside reuse", descents_beside_reuse, 500);
    survives("registered descents", registered_descents, 500);
    survives("stale hints", stale_hints, 500);
    survives("nested registrations", nested_registrations, 500);
}

#[test]
fn a_remembered_leaf_is_judged_afresh() {
    survives("remembered leaf", remembered_leaf, 500);
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
fn broken_trees_are_caught() {
    catches(&[
        Case { rule: "r5-link", world: scans, within: 2000 },
        Case { rule: "r5-list", world: scans_beside_joined_lists, within: 2000 },
        Case { rule: "r5-cycle", world: vacuum_beside_splits, within: 2000 },
        Case { rule: "r5-parts", world: vacuum_in_parts, within: 4000 },
        Case { rule: "r5-merge-cycle", world: vacuum_beside_merges, within: 4000 },
        Case { rule: "r5-followed", world: vacuum_meets_what_is_merged, within: 4000 },
        Case { rule: "r5-judged", world: vacuum_beside_merges, within: 4000 },
        Case { rule: "r5-fits", world: merges_beside_insertions, within: 4000 },
        Case { rule: "r5-carried", world: bounds_beside_merges, within: 4000 },
        Case { rule: "r6-near", world: key_lists_beside_merges, within: 2000 },
        Case { rule: "r6-recycle", world: registered_descents, within: 4000 },
        Case { rule: "r6-hints", world: stale_hints, within: 2000 },
        Case { rule: "r6-late", world: nested_registrations, within: 2000 },
        Case { rule: "r6-fences", world: remembered_leaf, within: 4000 },
        Case { rule: "r6-growing", world: vacuum_beside_growth, within: 4000 },
        Case { rule: "r7-no-io", world: writers_of_a_cold_tree, within: 2000 },
        Case { rule: "r8-latch", world: unique, within: 2000 },
        Case { rule: "r11-ahead", world: look_ahead, within: 2000 },
    ]);
}
