//! Schedules of scans, inserts, splits, merges and vacuum on a tree of a few tiny pages (R5 to R8).
//!
//! | file | worlds |
//! |---|---|
//! | `descents` | lookups beside splits, merges, deletions and the reuse of pages; registrations |
//! | `scans` | scans in both directions, lists of keys, posting lists |
//! | `prefetch` | leaves named before they are wanted |
//! | `redistribute` | leaves that share their entries beside scans, lookups, merges and vacuum |
//! | `vacuum` | a pass beside splits, merges and growth, in one part or two |
//! | `writers` | of one leaf, of one unique key, of a cold tree; merges beside insertions |
//!
//! See `schedules` for how worlds are run. Rows at and above block [`DEAD`] are garbage that vacuum
//! takes out; rows of slot [`STABLE`] stay from first to last.
//!
//! Invariants: each file ends with the worlds that sound code survives, and with the broken
//! variants of the rules that they are about, each caught by one of them.
//! Does not do: several trees; a heap.

mod descents;
mod prefetch;
mod redistribute;
mod scans;
mod vacuum;
mod writers;

use rightlink_env::thread::{self, JoinHandle};

use crate::buffer::testing::{self, TestPool};
use crate::ids::{FileId, RowId, Xid};
use crate::index::am::{AccessMethod, IndexEntry, VacuumStats};
use crate::index::btree::inspect::{ItemInfo, PageInfo};
use crate::index::btree::{BTree, TreeOptions};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite;

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

/// An entry with a short key: some thirty fill a page of 400 bytes.
fn short(n: u64, row: RowId) -> Entry {
    (n.to_be_bytes().to_vec(), row)
}

fn vacuum(tree: &BTree) -> VacuumStats {
    suite::vacuum(tree, &|row| row.block.0 >= DEAD)
}

fn is_dead(rows: &[RowId], out: &mut [bool]) {
    rows.iter().zip(out).for_each(|(row, out)| *out = row.block.0 >= DEAD);
}

/// A vacuum that lets others go first when it has begun, and when it has passed the page at `last`.
fn vacuum_in_turns(tree: &BTree, last: u32) {
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
}

/// How many dead rows the tree has.
fn garbage_left(tree: &BTree) -> usize {
    let left = suite::scan(tree, KeyRange::all(), Direction::Forward);
    left.iter().filter(|(_, row)| row.block.0 >= DEAD).count()
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

fn shown(entries: &[Entry]) -> String {
    let number = |(key, _): &Entry| u64::from(key[7]);
    format!("{:?}", entries.iter().map(number).collect::<Vec<_>>())
}

fn look_up(tree: &BTree, key: &[u8]) -> Vec<RowId> {
    let mut found = Vec::new();
    tree.lookup(&[key], &mut |_, row, _| found.push(row)).expect("a sound tree");
    found
}

fn delete_all(tree: &BTree, entries: &[Entry]) {
    for (key, row) in entries {
        let gone = tree.delete(Xid(5), &IndexEntry::new(key, *row));
        assert!(gone.expect("a sound tree"), "each is there once");
    }
}

/// Entries of a leaf.
fn entries_of(tree: &BTree, block: u32) -> Vec<Entry> {
    let items = tree.inspect_items(block).expect("a sound tree");
    items.into_iter().map(|item| (item.key, item.row.expect("a leaf has rows"))).collect()
}

fn free_pages(tree: &BTree) -> usize {
    (1..tree.blocks()).filter(|block| page(tree, *block).kind == "free").count()
}

/// A tree of three leaves, the middle one of which has a higher block than the right one, and
/// a dead row; with what must leave the middle one to have it merged.
fn three_leaves() -> (TestPool, BTree, Vec<Entry>) {
    let (pool, tree) = tree_of(400);
    let lives = |n: u64| short(n, RowId::new(n as u32, 2));
    suite::insert(&tree, &(60..96).map(lives).collect::<Vec<_>>());
    suite::insert(&tree, &(0..30).map(lives).collect::<Vec<_>>());
    let pages = (1..tree.blocks()).map(|block| page(&tree, block));
    let leaves = pages.filter(|page| page.kind == "leaf");
    let middle: Vec<_> = leaves
        .filter(|page| page.left != 0 && page.right != 0 && page.right < page.block)
        .collect();
    let low = middle.first().expect("a leaf whose right sibling is in a lower block");
    let items = tree.inspect_items(low.block).expect("a sound tree");
    let entry = |item: &ItemInfo| (item.key.clone(), item.row.expect("a leaf has rows"));
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

/// The leaf with the smallest keys.
fn leftmost(tree: &BTree) -> PageInfo {
    let mut leaves = (1..tree.blocks()).map(|block| page(tree, block));
    let first = leaves.find(|page| page.kind == "leaf" && page.left == 0);
    first.expect("a leftmost leaf")
}

fn page(tree: &BTree, block: u32) -> PageInfo {
    tree.inspect_page(block).expect("a sound tree")
}
