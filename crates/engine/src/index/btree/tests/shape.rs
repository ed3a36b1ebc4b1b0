//! Size, shape, bulk builds, reuse of pages.

use rightlink_env::Broken;
use rightlink_env::sync::{Arc, AtomicU32, Ordering};
use rightlink_env::{Rng, points};

use crate::ids::{PageId, RowId, Xid};
use crate::index::am::{AccessMethod, IndexEntry};
use crate::index::btree::build::Builder;
use crate::index::btree::tests::{FILE, integer, long_prefix, tree, word};
use crate::index::btree::{BTree, TreeOptions};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite::{self, MakeKey, Model, same, verify_clean};

fn row(n: u64) -> RowId {
    // About a hundred rows a heap page.
    RowId::new((n / 100) as u32, (n % 100) as u16 + 1)
}

/// Keys as `keycode` makes them for an int8 column: a null byte, then eight.
fn int8(n: u64) -> Vec<u8> {
    [&[1u8][..], &(n ^ 1 << 63).to_be_bytes()].concat()
}

fn build(capacity: usize, entries: &Model) -> (crate::buffer::testing::TestPool, BTree) {
    let test = crate::buffer::testing::pool(4096, 9);
    test.pool.create_file(FILE, true).unwrap();
    let options = TreeOptions { capacity, ..TreeOptions::default() };
    let mut builder = Builder::new(&test.pool, FILE, options).unwrap();
    for (key, row) in entries {
        builder.push(&IndexEntry::new(key, *row)).unwrap();
    }
    let tree = builder.finish().unwrap();
    (test, tree)
}

/// Bytes an entry of the leaves, free space included.
fn bytes_per_entry(tree: &BTree) -> f64 {
    let stats = verify_clean(tree);
    println!("{stats:?}");
    stats.bytes_per_entry
}

#[test]
fn integers_take_at_most_fourteen_bytes() {
    let model: Model = (0..200_000).map(|n| (int8(n), row(n))).collect();
    let (_pool, built) = build(8192, &model);
    let size = bytes_per_entry(&built);
    assert!(size <= 14.0, "bulk-built int8: {size}");
    let (_pool, ascending) = tree(8192, 1);
    for chunk in model.iter().cloned().collect::<Vec<_>>().chunks(100) {
        suite::insert(&ascending, chunk);
    }
    let size = bytes_per_entry(&ascending);
    assert!(size <= 14.0, "ascending int8: {size}");
}

#[test]
fn random_keys_stay_small() {
    let mut rng = Rng::from_seed(8);
    let model: Model = (0..100_000)
        .map(|n| {
            let mut key = vec![1u8; 17];
            rng.fill(&mut key[1..]);
            (key, row(n))
        })
        .collect();
    let (_pool, built) = build(8192, &model);
    let size = bytes_per_entry(&built);
    assert!(size <= 29.0, "bulk-built uuid: {size}");
    let (_pool, random) = tree(8192, 1);
    let mut order: Vec<_> = (0..100_000u64).map(|n| (int8(n), row(n))).collect();
    rng.shuffle(&mut order);
    order.chunks(50).for_each(|chunk| suite::insert(&random, chunk));
    let size = bytes_per_entry(&random);
    assert!(size <= 24.0, "randomly inserted int8: {size}");
}

/// A built tree holds what was pushed, verifies, and takes insertions and deletions.
#[test]
fn built_trees_equal_inserted_ones() {
    for make in [integer as MakeKey, word, long_prefix] {
        for (count, capacity) in [(0, 8192), (1, 8192), (5000, 8192), (3000, 400), (800, 300)] {
            let mut rng = Rng::from_seed(count);
            let mut model: Model = (0..count).map(|n| (make(&mut rng), row(n))).collect();
            let (_pool, tree) = build(capacity, &model);
            same(&tree, &model);
            verify_clean(&tree);
            let more: Vec<_> = (0..500).map(|n| (make(&mut rng), row(1_000_000 + n))).collect();
            suite::insert(&tree, &more);
            model.extend(more);
            same(&tree, &model);
            verify_clean(&tree);
        }
    }
}

/// Keys whose rest after the prefix ends inside the head: one key, many rows.
#[test]
fn one_key_with_many_rows() {
    let model: Model = (0..30_000).map(|n| (b"same\0".to_vec(), row(n))).collect();
    let (_pool, built) = build(8192, &model);
    same(&built, &model);
    let (_pool, inserted) = tree(8192, 2);
    let mut order: Vec<_> = model.iter().cloned().collect();
    Rng::from_seed(4).shuffle(&mut order);
    order.chunks(700).for_each(|chunk| suite::insert(&inserted, chunk));
    same(&inserted, &model);
    let size = bytes_per_entry(&inserted);
    assert!(size <= 15.0, "many rows a key, not deduplicated: {size}");
}

/// A table that is used as a queue: pages emptied at one end are used again at the other.
#[test]
fn emptied_pages_are_used_again() {
    let (_pool, tree) = tree(600, 5);
    let mut next = 0u64;
    let mut high_water = 0;
    for round in 0..40 {
        let batch: Vec<_> = (next..next + 2000).map(|n| (int8(n), row(n))).collect();
        suite::insert(&tree, &batch);
        next += 2000;
        let stats = tree
            .bulk_delete(&mut |rows, dead| {
                let old = row(next.saturating_sub(3000));
                rows.iter().zip(dead).for_each(|(row, dead)| *dead = *row < old);
            })
            .unwrap();
        verify_clean(&tree);
        if round == 6 {
            high_water = stats.blocks;
        }
        assert!(high_water == 0 || stats.blocks <= high_water + high_water / 4, "{stats:?}");
    }
    let left = suite::scan(&tree, KeyRange::all(), Direction::Forward);
    assert_eq!(left.len(), 3000);
}

/// Of a pass in two parts the second is done first; then pages of the first one split to blocks at
/// the end of the file, which the second part has passed: they are followed there (R5).
fn splits_between_two_parts() {
    let (_pool, tree) = tree(400, 9);
    let entries: Vec<_> = (0..2000).map(|n| (int8(n * 10), row(n))).collect();
    suite::insert(&tree, &entries);
    let mut is_dead = |rows: &[RowId], dead: &mut [bool]| {
        rows.iter().zip(dead).for_each(|(at, dead)| *dead = *at < row(2000));
    };
    let pass = tree.begin_delete(2);
    assert_eq!(pass.parts(), 2);
    pass.run(1, &mut is_dead, &mut |_| Ok(())).unwrap();
    let new: Vec<_> = (0..2000).map(|n| (int8(n * 10 + 1), row(5000 + n))).collect();
    suite::insert(&tree, &new);
    pass.run(0, &mut is_dead, &mut |_| Ok(())).unwrap();
    pass.finish(&mut |_| Ok(())).unwrap();
    drop(pass);
    let left = suite::scan(&tree, KeyRange::all(), Direction::Forward);
    assert_eq!(left.len(), 2000, "all that was dead before the pass is gone");
    verify_clean(&tree);
}

#[test]
fn a_part_follows_to_what_another_has_passed() {
    splits_between_two_parts();
    let caught =
        points::caught(Broken::PartsNotFollowed, &[("two parts", splits_between_two_parts)]);
    assert_eq!(caught, Some("two parts"));
}

/// Readers that hold all leaves without dead entries are in nobody's way: a pass latches only what
/// it changes for itself.
#[test]
fn a_pass_leaves_pages_without_dead_entries_to_readers() {
    let (pool, tree) = tree(400, 8);
    let entries: Vec<_> = (0..2000).map(|n| (int8(n), row(n))).collect();
    suite::insert(&tree, &entries);
    let dead: Vec<RowId> = (0..2000).step_by(300).map(row).collect();
    let has_dead = |block| {
        let items = tree.inspect_items(block).unwrap();
        items.iter().any(|item| item.row.is_some_and(|row| dead.contains(&row)))
    };
    let nodes = (1..tree.blocks()).filter(|block| {
        let kind = tree.inspect_page(*block).unwrap().kind;
        kind == "leaf" && !has_dead(*block)
    });
    let pins: Vec<_> =
        nodes.map(|block| pool.pool.pin(PageId::new(FILE, block)).unwrap()).collect();
    assert!(pins.len() > 50, "{} leaves without dead entries", pins.len());
    let held: Vec<_> = pins.iter().map(crate::buffer::Pin::shared).collect();
    let stats = suite::vacuum(&tree, &|row| dead.contains(row));
    assert_eq!((stats.removed, stats.pages_changed), (dead.len() as u64, dead.len() as u32));
    drop(held);
    verify_clean(&tree);
}

/// A page that splits into a block that vacuum has passed is followed there (R5, cycle id).
#[test]
fn vacuum_follows_what_moved_behind_it() {
    let (_pool, tree) = tree(400, 8);
    let entries: Vec<_> = (0..2000).map(|n| (int8(n * 10), row(n))).collect();
    suite::insert(&tree, &entries);
    // Low blocks become free: the first keys live there.
    tree.bulk_delete(&mut |rows, dead| {
        rows.iter().zip(dead).for_each(|(at, dead)| *dead = *at < row(1000));
    })
    .unwrap();
    let (visits, half) = (AtomicU32::new(0), tree.blocks() / 2);
    let followed = Arc::new(AtomicU32::new(0));
    let (writer, seen) = (tree.clone(), Arc::clone(&followed));
    let hook = points::install_local(move |name| match name {
        "btree.vacuum.visit" if visits.fetch_add(1, Ordering::Relaxed) == half => {
            // Leaves ahead of the pass split; what they hold of dead rows moves to blocks behind
            // it.
            for n in 1900..2000 {
                let more: Vec<_> =
                    (1..9).map(|i| (int8(n * 10 + i), RowId::new(900_000, 1))).collect();
                suite::insert(&writer, &more);
            }
        }
        "btree.vacuum.follow" => {
            seen.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    });
    tree.bulk_delete(&mut |rows, dead| {
        rows.iter().zip(dead).for_each(|(at, dead)| *dead = at.block.0 < 900_000);
    })
    .unwrap();
    drop(hook);
    let left = suite::scan(&tree, KeyRange::all(), Direction::Forward);
    assert!(left.iter().all(|(_, row)| row.block.0 == 900_000), "a dead row was missed");
    assert!(followed.load(Ordering::Relaxed) > 0, "no page moved behind the pass");
    assert_eq!(left.len(), 800);
    verify_clean(&tree);
}

/// Opened again, a tree knows its free pages, and a list that is out of date does no harm.
#[test]
fn free_pages_are_known_after_reopening() {
    let (test, tree) = tree(600, 6);
    let entries: Vec<_> = (0..5000).map(|n| (int8(n), row(n))).collect();
    suite::insert(&tree, &entries);
    let stats = tree.bulk_delete(&mut |_, dead| dead.fill(true)).unwrap();
    assert!(stats.pages_deleted > 100 && stats.pages_free > 100, "{stats:?}");
    assert_eq!(stats.removed, 5000);
    let blocks = tree.blocks();
    drop(tree);
    let options = TreeOptions { capacity: 600, ..TreeOptions::default() };
    for _ in 0..2 {
        let tree = BTree::open(&test.pool, FILE, options).unwrap();
        suite::insert(&tree, &entries);
        assert_eq!(tree.blocks(), blocks, "free pages were used first");
        same(&tree, &entries.iter().cloned().collect());
        verify_clean(&tree);
    }
}

/// Pages describe themselves.
#[test]
fn pages_can_be_inspected() {
    let (_pool, tree) = tree(1000, 7);
    let entries: Vec<_> = (0..300).map(|n| (int8(n), row(n))).collect();
    suite::insert(&tree, &entries);
    let pages: Vec<_> = (0..tree.blocks()).map(|b| tree.inspect_page(b).unwrap()).collect();
    assert_eq!(pages[0].kind, "meta");
    assert_eq!(pages.iter().filter(|page| page.kind == "root").count(), 1);
    let items: u32 = pages.iter().filter(|p| p.level == 0).map(|page| page.items).sum();
    assert_eq!(items, 300);
    let mut rows = 0;
    for page in pages.iter().filter(|page| page.kind != "meta") {
        for item in tree.inspect_items(page.block).unwrap() {
            assert_eq!(item.row.is_some(), page.level == 0);
            rows += usize::from(item.row.is_some());
        }
    }
    assert_eq!(rows, 300);
    assert!(tree.inspect_page(tree.blocks()).is_err());
    let _ = Xid(1);
}
