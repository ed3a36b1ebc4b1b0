//! What writers do beyond the plainest insertion, and that each of it can be switched off.

use rightlink_env::sync::{Arc, AtomicU32, Ordering};
use rightlink_env::{Rng, points};

use crate::buffer::testing::{self, TestPool};
use crate::ids::{RowId, Xid};
use crate::index::am::{AccessMethod, DeadRows, HeapOracle, IndexEntry, InsertOutcome, Liveness};
use crate::index::btree::inspect::PageInfo;
use crate::index::btree::tests::{FILE, few, integer, long_prefix, tree, word};
use crate::index::btree::{
    BTree, MAX_ENTRY_BYTES, Optimisation, Optimisations, TreeOptions, counting,
};
use crate::index::suite::{self, InsertBatch, MakeKey, same, verify_clean};
use crate::index::suite_keys::records;
use crate::wal::RecordKind;

fn row(n: u64) -> RowId {
    RowId::new((n / 100) as u32, (n % 100) as u16 + 1)
}

fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// An empty tree that does only what `writes` says.
fn tree_that(writes: Optimisations, capacity: usize) -> (TestPool, BTree) {
    let test = testing::pool(4096, 1);
    test.pool.create_file(FILE, true).unwrap();
    let options = TreeOptions { capacity, ..TreeOptions::default() };
    let tree = BTree::create(&test.pool, FILE, options).unwrap();
    tree.optimise(writes);
    (test, tree)
}

const EACH: [Optimisation; 7] = [
    Optimisation::SuffixTruncation,
    Optimisation::ShortSeparators,
    Optimisation::Deduplication,
    Optimisation::SplitStrategies,
    Optimisation::RightmostLeaf,
    Optimisation::Merging,
    Optimisation::Batches,
];

#[test]
fn every_switch_off_leaves_a_sound_tree() {
    let sets = EACH.map(|off| Optimisations::ALL.without(off));
    for (seed, writes) in sets.into_iter().chain([Optimisations::NONE]).enumerate() {
        for make in [integer, few, word, long_prefix] {
            let (_pool, tree) = tree_that(writes, 500);
            suite::random_history(&tree, seed as u64, make, 80);
        }
    }
}

/// Some of all parts.
pub(super) fn any_set(rng: &mut Rng) -> Optimisations {
    let all = Optimisation::EACH.into_iter().map(|(_, part)| part);
    all.filter(|_| rng.chance(1, 2)).fold(Optimisations::NONE, Optimisations::with)
}

/// Whatever was switched on when a page was written, it is read, changed, merged and verified under
/// any other set: the format is one.
#[test]
fn sets_take_turns_on_one_tree() {
    for (seed, make) in [(1, integer as MakeKey), (2, few), (3, word), (4, long_prefix)] {
        let (pool, tree) = tree_that(Optimisations::ALL, 500);
        let (mut rng, mut model) = (Rng::from_seed(seed), suite::Model::new());
        for round in 0..160 {
            tree.optimise(any_set(&mut rng));
            let row = |rng: &mut Rng| RowId::new(rng.below(4000) as u32, 1);
            let batch: Vec<_> =
                (0..1 + rng.index(50)).map(|_| (make(&mut rng), row(&mut rng))).collect();
            suite::insert(&tree, &batch);
            model.extend(batch);
            tree.optimise(any_set(&mut rng));
            for _ in 0..rng.index(30) {
                let Some(gone) = model.iter().nth(rng.index(model.len().max(1))).cloned() else {
                    break;
                };
                assert!(tree.delete(Xid(5), &IndexEntry::new(&gone.0, gone.1)).unwrap());
                model.remove(&gone);
            }
            if round % 20 == 19 {
                tree.optimise(any_set(&mut rng));
                let dead = |row: &RowId| row.block.0 % 20 < round % 18;
                suite::vacuum(&tree, &dead);
                model.retain(|(_, row)| !dead(row));
            }
            if round % 10 == 9 {
                tree.optimise(any_set(&mut rng));
                same(&tree, &model);
                verify_clean(&tree);
            }
        }
        suite::each_key(&tree, &model);
        drop(tree);
        let options = TreeOptions { capacity: 500, ..TreeOptions::default() };
        let again = BTree::open(&pool.pool, FILE, options).unwrap();
        assert_eq!(again.0.switches.get(), Optimisations::ALL, "nothing of it is on disk");
        same(&again, &model);
    }
}

/// Records of a kind in the log.
fn logged(test: &TestPool, kind: RecordKind) -> usize {
    records(test).iter().filter(|record| record.kind == kind).count()
}

/// A batch holds a leaf for all of its keys: as many records as leaves.
#[test]
fn a_batch_writes_one_record_a_leaf() {
    let (pool, tree) = tree_that(Optimisations::ALL, 8192);
    suite::insert(&tree, &(0..60_000).map(|n| (key(n * 4), row(n))).collect::<Vec<_>>());
    // Some for each of many leaves, few enough to fit.
    let batch = |more: u64| -> Vec<(Vec<u8>, RowId)> {
        let numbers = (0..60).flat_map(|leaf| (0..6).map(move |n| (leaf * 1000 + n) * 4 + more));
        numbers.map(|n| (key(n), row(n))).collect()
    };
    let mut model: suite::Model = (0..60_000).map(|n| (key(n * 4), row(n))).collect();
    for (more, writes) in
        [(1, Optimisations::ALL), (2, Optimisations::ALL.without(Optimisation::Batches))]
    {
        let new = batch(more);
        let entries: Vec<_> = new.iter().map(|(key, row)| IndexEntry::new(key, *row)).collect();
        let leaves = tree.groups(&entries, false).count();
        tree.optimise(writes);
        assert!((50..=120).contains(&leaves), "{leaves} leaves");
        let before = [RecordKind::IndexInsert, RecordKind::IndexSplit].map(|k| logged(&pool, k));
        suite::insert(&tree, &new);
        let after = [RecordKind::IndexInsert, RecordKind::IndexSplit].map(|k| logged(&pool, k));
        assert_eq!(after[1], before[1], "none of them was full");
        let wanted = if writes == Optimisations::ALL { leaves } else { new.len() };
        assert_eq!(after[0] - before[0], wanted, "records of {} entries", new.len());
        model.extend(new);
    }
    same(&tree, &model);
    verify_clean(&tree);
}

/// Descents from the root that `work` needs.
fn descents(work: impl FnOnce()) -> u64 {
    counting(work).0.descents
}

/// A batch starts at the root once, and from then on goes right or down from where it is.
#[test]
fn a_batch_descends_from_the_root_once() {
    for writes in [Optimisations::ALL, Optimisations::ALL.without(Optimisation::Batches)] {
        let (_pool, tree) = tree_that(writes, 8192);
        let entries: Vec<_> = (0..60_000).map(|n| (key(n * 2), row(n))).collect();
        suite::insert(&tree, &entries);
        assert!(tree.levels() == 3 || tree.levels() == 2, "{} levels", tree.levels());
        let mut model: suite::Model = entries.into_iter().collect();
        let dense: Vec<_> = (30_000..32_000).map(|n| (key(n * 2 + 1), row(n))).collect();
        let sparse: Vec<_> = (0..800).map(|n| (key(n * 150 + 1), row(n))).collect();
        for batch in [dense, sparse] {
            let count = descents(|| suite::insert(&tree, &batch));
            match writes == Optimisations::ALL {
                true => assert!(count <= 30, "{count} descents for {} keys", batch.len()),
                false => assert!(count >= batch.len() as u64, "{count} descents without batches"),
            }
            model.extend(batch);
        }
        same(&tree, &model);
        verify_clean(&tree);
    }
}

/// Keys that ascend, one by one: the rightmost leaf is remembered, and a descent is for the first
/// key after a split and for the split itself.
#[test]
fn appending_needs_no_descent() {
    for (writes, most) in
        [(Optimisations::ALL, 600), (Optimisations::ALL.without(Optimisation::RightmostLeaf), 9000)]
    {
        let (_pool, tree) = tree_that(writes, 1000);
        let entries: Vec<_> = (0..6000).map(|n| (key(n), row(n))).collect();
        let count = descents(|| {
            entries.iter().for_each(|entry| suite::insert(&tree, std::slice::from_ref(entry)));
        });
        assert!(count <= most, "{count} descents");
        assert!(writes == Optimisations::ALL || count >= 6000);
        same(&tree, &entries.into_iter().collect());
        verify_clean(&tree);
    }
}

/// The remembered leaf is a guess: other keys, splits and emptied pages do not mislead it (R6).
#[test]
fn a_remembered_leaf_is_only_a_guess() {
    let (_pool, tree) = tree(400, 5);
    let mut rng = Rng::from_seed(6);
    let mut model = suite::Model::new();
    let mut next = 1_000_000;
    for round in 0..300u64 {
        let mut batch = vec![(key(next), row(round)), (key(next + 1), row(round))];
        next += 2;
        if rng.chance(1, 3) {
            batch = vec![(integer(&mut rng), row(round)), (key(next), row(round))];
        }
        suite::insert(&tree, &batch);
        model.extend(batch);
        if rng.chance(1, 20) {
            let keep = rng.below(next);
            let dead = |at: &RowId| *at < row(keep % (round + 1));
            suite::vacuum(&tree, &dead);
            model.retain(|(_, row)| !dead(row));
        }
    }
    same(&tree, &model);
    verify_clean(&tree);
}

/// Leaves after `entries` were inserted in this order, `step` at a time.
fn leaves(writes: Optimisations, entries: &[(Vec<u8>, RowId)], step: usize) -> (u64, BTree) {
    let (_pool, tree) = tree_that(writes, 2000);
    entries.chunks(step).for_each(|chunk| suite::insert(&tree, chunk));
    same(&tree, &entries.iter().cloned().collect());
    (verify_clean(&tree).leaves, tree)
}

/// Each of many groups ascends: the splits stay behind the group's last key.
#[test]
fn groups_that_ascend_fill_their_pages() {
    let mut entries = Vec::new();
    for n in 0..6000u64 {
        let (turn, group) = (n / 10, n / 10 % 7);
        let key = [&group.to_be_bytes()[..], &(turn * 10 + n % 10).to_be_bytes()].concat();
        entries.push((key, row(n)));
    }
    let (on, _) = leaves(Optimisations::ALL, &entries, 1);
    let (off, _) = leaves(Optimisations::ALL.without(Optimisation::SplitStrategies), &entries, 1);
    assert!(on * 5 < off * 4, "{on} with strategies, {off} without");
}

/// Rows of one key that ascend in front of other keys.
#[test]
fn rows_of_one_key_fill_their_pages() {
    let mut entries = vec![(b"zzz\0".to_vec(), row(0)), (b"aaa\0".to_vec(), row(1))];
    // Rows far apart: nothing tells that they ascend but the place of the new entry.
    entries.extend((0..3000).map(|n| (b"same\0".to_vec(), RowId::new(n * 10, 1))));
    let plain = Optimisations::ALL.without(Optimisation::Deduplication);
    let (on, _) = leaves(plain, &entries, 1);
    let (off, _) = leaves(plain.without(Optimisation::SplitStrategies), &entries, 1);
    assert!(on * 8 < off * 7, "{on} with strategies, {off} without");
}

/// Separators between two rows of one key are rare, and those between keys are short.
#[test]
fn splits_keep_the_rows_of_a_key_together() {
    let mut rng = Rng::from_seed(12);
    let mut entries: Vec<_> = (0..6000u64)
        .map(|n| {
            let mut key = format!("{:04}", n / 12 * 7).into_bytes();
            key.extend(b" and what makes it long\0");
            (key, row(n * 50))
        })
        .collect();
    rng.shuffle(&mut entries);
    let plain = Optimisations::ALL.without(Optimisation::Deduplication);
    for (writes, most) in [(plain, 5), (plain.without(Optimisation::ShortSeparators), 2000)] {
        let (_, tree) = leaves(writes, &entries, 3);
        let inner = (1..tree.blocks()).filter(|b| tree.inspect_page(*b).unwrap().level == 1);
        let lengths: Vec<usize> = inner
            .flat_map(|block| tree.inspect_items(block).unwrap().split_off(1))
            .map(|item| item.key.len())
            .collect();
        let long = lengths.iter().filter(|len| **len > 4).count();
        assert!(lengths.len() > 60 && long * 100 <= lengths.len() * most, "{lengths:?}");
        assert!(writes == plain || long * 2 > lengths.len(), "the switch does something");
    }
    // Whole keys for separators, to compare with: they end where their attribute does.
    let (_, tree) = leaves(plain.without(Optimisation::SuffixTruncation), &entries, 3);
    let inner = (1..tree.blocks()).filter(|b| tree.inspect_page(*b).unwrap().level == 1);
    let mut items = inner.flat_map(|block| tree.inspect_items(block).unwrap().split_off(1));
    assert!(items.all(|item| item.key.len() > 20), "separators are whole keys");
}

/// A heap in which one row in so many is dead; it counts how many it is asked about.
struct DeadOneIn {
    one_in: u32,
    asked: AtomicU32,
}

impl DeadRows for DeadOneIn {
    fn dead_to_all(&self, rows: &[RowId], out: &mut [bool]) {
        self.asked.fetch_add(rows.len() as u32, Ordering::Relaxed);
        rows.iter()
            .zip(out)
            .for_each(|(row, dead)| *dead = row.block.0.is_multiple_of(self.one_in));
    }
}

/// Scattered keys: each row of a leaf lies in a block of its own, so the few blocks that a full
/// leaf asks about first say nothing of the others. As long as dead rows are among them it goes on
/// until it has room, and does not split; where hardly any is dead it stops at once.
#[test]
fn full_leaves_of_scattered_rows_ask_on_while_that_pays() {
    // Leaves are nine tenths full, then a sixth more keys come.
    let leaves_after = |one_in: u32| {
        let (_pool, tree) = tree(4000, 10);
        let mut keys: Vec<u32> = (1..=20_000).collect();
        Rng::from_seed(10).shuffle(&mut keys);
        let entry = |n: u32, block: u32| (n.to_be_bytes().to_vec(), RowId::new(block, 1));
        let mut old: Vec<_> = (1..=20_000).map(|n| entry(n * 2, keys[n as usize - 1])).collect();
        old.sort_unstable();
        old.chunks(500).for_each(|batch| suite::insert(&tree, batch));
        let before = verify_clean(&tree).leaves;
        let heap = Arc::new(DeadOneIn { one_in, asked: AtomicU32::new(0) });
        tree.attach(Arc::clone(&heap) as Arc<dyn DeadRows>);
        let new: Vec<_> = (1..=3000).map(|n| entry((n * 13) | 1, 100_001 + n * 7)).collect();
        new.chunks(50).for_each(|batch| suite::insert(&tree, batch));
        (before, verify_clean(&tree).leaves, heap.asked.load(Ordering::Relaxed))
    };
    let (before, after, asked) = leaves_after(7);
    assert!(after * 10 < before * 12, "{before} leaves became {after}, {asked} rows asked");
    let (before, after, few) = leaves_after(1_000_000);
    assert!(after * 10 > before * 17 && few * 20 < asked, "{before} became {after}, {few} asked");
}

/// A heap whose rows from some block on are dead; it counts how often it is asked.
struct DeadFrom {
    block: AtomicU32,
    asked: AtomicU32,
}

impl DeadRows for DeadFrom {
    fn dead_to_all(&self, rows: &[RowId], out: &mut [bool]) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let block = self.block.load(Ordering::Relaxed);
        rows.iter().zip(out).for_each(|(row, dead)| *dead = row.block.0 >= block);
    }
}

/// Where rows only come in, few full leaves ask the heap; where rows have died, that is noticed,
/// and all of them ask.
#[test]
fn full_leaves_ask_where_that_finds_dead_rows() {
    let (_pool, tree) = tree(600, 9);
    let heap = Arc::new(DeadFrom { block: AtomicU32::new(u32::MAX), asked: AtomicU32::new(0) });
    tree.attach(Arc::clone(&heap) as Arc<dyn DeadRows>);
    let mut rng = Rng::from_seed(9);
    let mut insert = |first: u32, count: u32| {
        let entries: Vec<_> = (first..first + count)
            .map(|block| (rng.next_u64().to_be_bytes().to_vec(), RowId::new(block, 1)))
            .collect();
        entries.chunks(50).for_each(|batch| suite::insert(&tree, batch));
    };
    insert(10_000, 4000);
    let (asked, leaves) = (heap.asked.load(Ordering::Relaxed), verify_clean(&tree).leaves);
    assert!(asked > 8 && u64::from(asked) < 16 + leaves / 8, "{asked} times, {leaves} leaves");
    heap.block.store(10_000, Ordering::Relaxed);
    insert(1, 2000);
    let (after, live) = (heap.asked.load(Ordering::Relaxed), verify_clean(&tree).live);
    assert!(after - asked > 40 && live < 5700, "{after} times after {asked}, {live} rows");
}

/// A leaf between two fences as long as any, with two rows of one key, gets an entry between them
/// that is as long as any: no two pages hold all that, three do.
#[test]
fn the_longest_entries_go_between_the_longest_fences() {
    let parted = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&parted);
    let _counting = points::install_local(move |name| {
        count.fetch_add(u32::from(name == "btree.split.without"), Ordering::Relaxed);
    });
    for len in 1345..1370 {
        let test = testing::pool(64, 1);
        test.pool.create_file(FILE, true).unwrap();
        let options = TreeOptions { deduplicate: false, ..TreeOptions::default() };
        let tree = BTree::create(&test.pool, FILE, options).unwrap();
        tree.optimise(Optimisations::ALL.without(Optimisation::Merging));
        let insert = |key: &[u8], slot: u16, payload: &[u8]| {
            let entry = IndexEntry { payload, ..IndexEntry::new(key, RowId::new(1, slot)) };
            let outcome = tree.insert_batch(Xid(5), &mut [entry], None).unwrap();
            assert_eq!(outcome, InsertOutcome::Inserted);
        };
        // Without it the first page would share the bytes of the next keys.
        insert(b"A", 1, &[]);
        for key in [vec![b'a'; MAX_ENTRY_BYTES], vec![b'z'; MAX_ENTRY_BYTES]] {
            (1..6).for_each(|slot| insert(&key, slot, &[]));
            for slot in 1..6 {
                let entry = IndexEntry::new(&key, RowId::new(1, slot));
                assert!(tree.delete(Xid(5), &entry).unwrap());
            }
        }
        let between = (1..tree.blocks()).map(|block| tree.inspect_page(block).unwrap());
        let most = MAX_ENTRY_BYTES + RowId::SIZE;
        let long = |page: &PageInfo| page.low.len().min(page.high.clone().unwrap().len()) == most;
        assert!(between.filter(|page| page.left != 0 && page.right != 0).any(|page| long(&page)));
        let key = vec![b'm'; len];
        insert(&key, 1, &[]);
        insert(&key, 3, &[]);
        insert(&key, 2, &vec![7; MAX_ENTRY_BYTES - len]);
        let mut expected: suite::Model =
            (1..4).map(|slot| (key.clone(), RowId::new(1, slot))).collect();
        expected.insert((b"A".to_vec(), RowId::new(1, 1)));
        same(&tree, &expected);
        verify_clean(&tree);
    }
    assert!(parted.load(Ordering::Relaxed) > 0, "some did not fit in one step");
}

/// A heap that has no row yet.
struct NoRows;

impl HeapOracle for NoRows {
    fn liveness(&self, rows: &[RowId], _: &mut [Liveness]) {
        assert!(rows.is_empty(), "no key is there twice");
    }
}

/// A leaf whose high key equals the separator that led there bounds the whole group: a writer
/// alone, without a split in between, compares no high key. Without the check it compares one for
/// each entry but the first of a leaf.
#[test]
fn insertions_compare_no_high_key() {
    for separators in [true, false] {
        let off = Optimisations::ALL.without(Optimisation::Separators);
        let (_pool, tree) = tree_that(if separators { Optimisations::ALL } else { off }, 8192);
        let key = |n: u64| [&[7; 20], &n.to_be_bytes()[..]].concat();
        let entries: Vec<_> = (0..60_000).map(|n| (key(n * 8), row(n))).collect();
        suite::insert(&tree, &entries);
        let mut model: suite::Model = entries.into_iter().collect();
        let mut rng = Rng::from_seed(12);
        let splits = tree.blocks();
        // Lists of keys next to each other, lists of scattered keys, and single keys; then the same
        // as keys that are checked for uniqueness.
        for (lists, len, unique) in
            [(5, 100, false), (1, 1000, true), (500, 1, false), (300, 1, true)]
        {
            let mut fresh = suite::Model::new();
            while fresh.len() < lists * len {
                let n = rng.below(60_000) * 8 + 1 + rng.below(7);
                fresh.insert((key(n), row(n)));
            }
            let fresh: Vec<_> = fresh.difference(&model).cloned().collect();
            let (cost, ()) = counting(|| {
                for list in fresh.chunks(len) {
                    let mut batch: Vec<_> =
                        list.iter().map(|(key, row)| IndexEntry::new(key, *row)).collect();
                    let oracle = unique.then_some(&NoRows as &dyn HeapOracle);
                    let outcome = tree.insert_batch(Xid(5), &mut batch, oracle).unwrap();
                    assert_eq!(outcome, InsertOutcome::Inserted);
                }
            });
            assert_eq!(tree.blocks(), splits, "no page was split");
            assert!(!separators || cost.high_keys == 0, "{len} {unique}: {cost:?}");
            assert!(separators || cost.separators == 0, "{len} {unique}: {cost:?}");
            // A single key is compared only where its search ends past the last entry.
            let asked = cost.high_keys + cost.separators;
            assert!(asked > 0 || len == 1, "{len} {unique}: {cost:?}");
            model.extend(fresh);
        }
        same(&tree, &model);
        verify_clean(&tree);
    }
}
