//! Scans that want some keys of their range: what they find, and what they read for it.

use std::ops::Bound;

use rightlink_env::Rng;
use rightlink_env::sync::Arc;

use crate::datum::{Type, Value};
use crate::ids::RowId;
use crate::index::am::{AccessMethod, LeafBatch, ScanOptions};
use crate::index::btree::tests::{integer, long_prefix, tree, word};
use crate::index::btree::{BTree, Counters, Optimisation, Optimisations, counting};
use crate::index::search_key::{Direction, KeyRange, KeySet};
use crate::index::suite::{self, MakeKey, Model};
use crate::keycode::{Condition, KeyColumn, encode};

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];

/// Columns of `(a int4, b int4 descending)`.
fn columns() -> [KeyColumn; 2] {
    [KeyColumn::ascending(Type::Int4), KeyColumn::descending(Type::Int4)]
}

fn pair(a: i32, b: i32) -> Vec<u8> {
    encode(&columns(), &[Value::Int4(a), Value::Int4(b)]).unwrap()
}

/// A tree of full pages over `values` times `each` pairs.
fn pairs(values: i32, each: i32) -> (crate::buffer::testing::TestPool, BTree) {
    let (pool, tree) = tree(8192, 3);
    let entries: Vec<_> = (0..values * each)
        .map(|n| (pair(n / each, n % each), RowId::new(n as u32 / 50, n as u16 % 50 + 1)))
        .collect();
    entries.chunks(500).for_each(|chunk| suite::insert(&tree, chunk));
    (pool, tree)
}

fn on_b(condition: Condition) -> Arc<KeySet> {
    Arc::new(KeySet::of_conditions(&columns(), &[(1, condition)]).unwrap().unwrap())
}

fn found(tree: &BTree, keys: &Arc<KeySet>, direction: Direction) -> Vec<(Vec<u8>, RowId)> {
    let options = ScanOptions { direction, ..ScanOptions::default() };
    let mut scan = tree.begin_scan_of(keys.hull(), Arc::clone(keys), options);
    let (mut batch, mut out) = (LeafBatch::default(), Vec::new());
    while scan.next_batch(&|| 0, &mut batch).unwrap() {
        assert!(!batch.is_empty());
        out.extend((0..batch.len()).map(|i| (batch.key(i).to_vec(), batch.entries[i].row)));
    }
    out
}

/// Finds the `b`s in all of `values`, and returns what that cost.
fn check(tree: &BTree, (values, b): (i32, &[i32]), direction: Direction) -> Counters {
    let wanted = b.iter().map(|b| Value::Int4(*b)).collect();
    let (cost, rows) = counting(|| found(tree, &on_b(Condition::AnyOf(wanted)), direction));
    let mut keys: Vec<Vec<u8>> = rows.into_iter().map(|(key, _)| key).collect();
    if direction == Direction::Backward {
        keys.reverse();
    }
    let mut expected: Vec<_> =
        (0..values).flat_map(|a| b.iter().map(move |b| pair(a, *b))).collect();
    expected.sort();
    assert_eq!(keys, expected, "{direction:?}");
    cost
}

fn leaves(tree: &BTree) -> u64 {
    suite::verify_clean(tree).leaves
}

/// Few values in the leading column: a few leaves for each of them, out of many.
#[test]
fn few_values_are_skipped_over() {
    let (_pool, tree) = pairs(8, 9000);
    let all = leaves(&tree);
    assert!(all > 100, "{all} leaves");
    for direction in BOTH {
        let cost = check(&tree, (8, &[4000]), direction);
        assert!(cost.leaves <= 2 * 8 + 2 && cost.descents <= 2 * 8 + 1, "{direction:?}: {cost:?}");
        let cost = check(&tree, (8, &[5, 4000, 8990]), direction);
        assert!(cost.leaves <= 4 * 8 + 2, "{direction:?}: {cost:?}");
        let range = Condition::Between(
            Bound::Included(Value::Int4(100)),
            Bound::Excluded(Value::Int4(110)),
        );
        let (cost, rows) = counting(|| found(&tree, &on_b(range.clone()), direction));
        assert_eq!(rows.len(), 80);
        assert!(cost.leaves <= 3 * 8 + 2, "{direction:?}: {cost:?}");
    }
    // Without cursors it is the plain scan, asked key by key.
    tree.optimise(Optimisations::ALL.without(Optimisation::Cursors));
    let cost = check(&tree, (8, &[4000]), Direction::Forward);
    assert!(cost.leaves >= all - 2, "{cost:?} of {all} leaves");
}

/// Many values in the leading column: the scan reads leaf after leaf, once, and descends once.
#[test]
fn many_values_are_read_in_order() {
    let (_pool, tree) = pairs(20_000, 3);
    let all = leaves(&tree);
    for direction in BOTH {
        let cost = check(&tree, (20_000, &[1]), direction);
        assert!(cost.leaves <= all && cost.descents <= 2, "{direction:?}: {cost:?}, {all} leaves");
    }
}

/// Values that fill a leaf or two each: descents that skip one leaf do not pay, and after a few of
/// them the scan keeps to the links.
#[test]
fn a_scan_gives_up_skipping_where_it_does_not_pay() {
    let per_leaf = {
        let (_pool, tree) = pairs(1, 9000);
        9000 / leaves(&tree) as i32
    };
    let (_pool, tree) = pairs(120, per_leaf * 2);
    let all = leaves(&tree);
    for direction in BOTH {
        let cost = check(&tree, (120, &[1]), direction);
        assert!(cost.leaves <= all, "{direction:?}: {cost:?}, {all} leaves");
        assert!(cost.descents * 3 <= all, "{direction:?}: {cost:?}, {all} leaves");
    }
    // And takes it up again where it does.
    let more: Vec<_> = (0..60_000)
        .map(|n| (pair(1000 + n / 20_000, n % 20_000), RowId::new(1 << 20, n as u16 % 60_000 + 1)))
        .collect();
    more.chunks(500).for_each(|chunk| suite::insert(&tree, chunk));
    let more = leaves(&tree) - all;
    let (cost, _) = counting(|| found(&tree, &on_b(Condition::Equal(Value::Int4(1))), BOTH[0]));
    assert!(cost.leaves < all + more / 2, "{cost:?}, {all} and {more} leaves");
}

/// A list of keys holds each leaf for all of its keys, and goes right where the next one is.
#[test]
fn lists_read_each_leaf_once() {
    let (_pool, tree) = pairs(10, 2000);
    let all = leaves(&tree);
    let keys: Vec<_> = (0..20_000).step_by(3).map(|n| pair(n / 2000, n % 2000)).collect();
    let mut ranges: Vec<_> = keys.iter().map(|key| KeyRange::starting_with(key)).collect();
    ranges.sort_by(|a, b| a.low.cmp(&b.low));
    let list = Arc::new(KeySet::of_ranges(ranges).unwrap());
    for direction in BOTH {
        let (cost, rows) = counting(|| found(&tree, &list, direction));
        assert_eq!(rows.len(), keys.len());
        assert!(cost.leaves <= all && cost.descents <= 3, "{direction:?}: {cost:?}, {all} leaves");
    }
    // Far apart each is descended for, and no other leaf is read.
    let far: Vec<_> = list.ranges().unwrap().iter().step_by(800).cloned().collect();
    let (count, far) = (far.len() as u64, Arc::new(KeySet::of_ranges(far).unwrap()));
    for direction in BOTH {
        let (cost, rows) = counting(|| found(&tree, &far, direction));
        assert_eq!(rows.len() as u64, count);
        assert!(cost.leaves <= count && cost.descents <= count + 2, "{direction:?}: {cost:?}");
    }
}

fn random_list(rng: &mut Rng, make: MakeKey) -> Option<KeySet> {
    let mut ends: Vec<Vec<u8>> = (0..2 * rng.index(30)).map(|_| make(rng)).collect();
    ends.sort_unstable();
    ends.dedup();
    let ranges = ends.chunks_exact(2).map(|pair| {
        // Half of them a single key.
        match rng.chance(1, 2) {
            true => KeyRange::starting_with(&pair[0]),
            false => KeyRange { low: pair[0].clone(), high: Some(pair[1].clone()) },
        }
    });
    KeySet::of_ranges(ranges.collect())
}

fn random_batch(rng: &mut Rng, make: MakeKey) -> Vec<(Vec<u8>, RowId)> {
    let row = |rng: &mut Rng| RowId::new(rng.below(1000) as u32, 1);
    (0..1 + rng.index(90)).map(|_| (make(rng), row(rng))).collect()
}

/// Any list over any tree, posting lists included, against the model; also cut off by bounds, and
/// with batches handed back.
#[test]
fn lists_equal_a_filtered_model() {
    for (seed, capacity) in [(1, 300), (2, 700), (3, 8192)] {
        for make in [integer as MakeKey, crate::index::btree::tests::few, word, long_prefix] {
            let (_pool, tree) = tree(capacity, seed);
            let (mut rng, mut model) = (Rng::from_seed(seed), Model::new());
            for round in 0..60 {
                let batch = random_batch(&mut rng, make);
                suite::insert(&tree, &batch);
                model.extend(batch);
                if round == 40 {
                    let dead = |row: &RowId| !row.block.0.is_multiple_of(3);
                    suite::vacuum(&tree, &dead);
                    model.retain(|(_, row)| !dead(row));
                }
                let Some(keys) = random_list(&mut rng, make) else { continue };
                let bounds = KeyRange { low: make(&mut rng), high: None };
                let range = if rng.chance(1, 2) { KeyRange::all() } else { bounds };
                check_list(&mut rng, &tree, (&model, &Arc::new(keys)), &range);
            }
        }
    }
}

fn check_list(
    rng: &mut Rng,
    tree: &BTree,
    (model, keys): (&Model, &Arc<KeySet>),
    range: &KeyRange,
) {
    let wanted = |(key, _): &&(Vec<u8>, RowId)| keys.contains(key).unwrap() && range.contains(key);
    let mut expected: Vec<_> = model.iter().filter(wanted).cloned().collect();
    for direction in BOTH {
        let options = ScanOptions { direction, ..ScanOptions::default() };
        let range = range.within(&keys.hull());
        let mut scan = tree.begin_scan_of(range, Arc::clone(keys), options);
        let (mut batch, mut out) = (LeafBatch::default(), Vec::new());
        while scan.next_batch(&|| 0, &mut batch).unwrap() {
            if batch.len() > 1 && rng.chance(1, 3) {
                let keep = 1 + rng.index(batch.len() - 1);
                scan.hand_back(&mut batch, keep);
            }
            out.extend((0..batch.len()).map(|i| (batch.key(i).to_vec(), batch.entries[i].row)));
        }
        assert_eq!(out, expected, "{direction:?} {keys:?}");
        expected.reverse();
    }
}

/// A column with few values, one with many, nulls among both, one descending.
fn random_pair(rng: &mut Rng) -> Vec<u8> {
    let mut value = |below: u64| match rng.chance(1, 9) {
        true => Value::Null,
        false => Value::Int4(rng.below(below) as i32),
    };
    let pair = [value(5), value(400)];
    encode(&columns(), &pair).unwrap()
}

/// Conditions on any columns, against the model.
#[test]
fn conditions_equal_a_filtered_model() {
    for (seed, capacity) in [(1, 300), (2, 700), (3, 8192)] {
        let (_pool, tree) = tree(capacity, seed);
        let (mut rng, mut model) = (Rng::from_seed(seed), Model::new());
        for round in 0..150 {
            let batch = random_batch(&mut rng, random_pair);
            suite::insert(&tree, &batch);
            model.extend(batch);
            if round % 50 == 49 {
                let dead = |row: &RowId| !row.block.0.is_multiple_of(2);
                suite::vacuum(&tree, &dead);
                model.retain(|(_, row)| !dead(row));
            }
            let b = |rng: &mut Rng| Value::Int4(rng.below(400) as i32);
            let on_b = match rng.below(4) {
                0 => Condition::Equal(Value::Null),
                1 => Condition::AnyOf((0..5).map(|_| b(&mut rng)).collect()),
                2 => Condition::Between(Bound::Excluded(b(&mut rng)), Bound::Unbounded),
                _ => Condition::Equal(b(&mut rng)),
            };
            let mut conditions = vec![(1, on_b)];
            if rng.chance(1, 3) {
                let some = vec![Value::Null, Value::Int4(1), Value::Int4(4)];
                conditions.push((0, Condition::AnyOf(some)));
            }
            let keys = KeySet::of_conditions(&columns(), &conditions).unwrap().unwrap();
            check_list(&mut rng, &tree, (&model, &Arc::new(keys)), &KeyRange::all());
        }
    }
}
