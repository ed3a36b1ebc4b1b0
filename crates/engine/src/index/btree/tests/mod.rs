//! Tests of the tree: the suite of every access method, then what is particular to trees.

mod concurrent;
mod crash;
mod damage;
mod descent;
mod merge;
mod posting;
mod shape;
mod skip;
mod writes;

use rightlink_env::Rng;

use crate::buffer::testing::{self, TestPool};
use crate::ids::FileId;
use crate::index::btree::{BTree, MAX_ENTRY_BYTES, TreeOptions};
use crate::index::{IndexMethod, suite};

/// The index file of these tests.
const FILE: FileId = FileId(70);

/// An empty tree whose pages use `capacity` bytes.
fn tree(capacity: usize, seed: u64) -> (TestPool, BTree) {
    let test = testing::pool(512, seed);
    test.pool.create_file(FILE, true).unwrap();
    let options = TreeOptions { capacity, ..TreeOptions::default() };
    let tree = BTree::create(&test.pool, FILE, options).unwrap();
    (test, tree)
}

/// Integers from a small range, so that keys repeat.
fn integer(rng: &mut Rng) -> Vec<u8> {
    rng.below(3000).to_be_bytes().to_vec()
}

/// Few keys: many rows each.
fn few(rng: &mut Rng) -> Vec<u8> {
    (rng.below(12) * 1000).to_be_bytes().to_vec()
}

/// Short strings over few letters, ended by a zero: many common beginnings.
fn word(rng: &mut Rng) -> Vec<u8> {
    let mut key: Vec<u8> = (0..rng.index(9)).map(|_| [1, 2, 255][rng.index(3)]).collect();
    key.push(0);
    key
}

/// Strings with a long common beginning, and others.
fn long_prefix(rng: &mut Rng) -> Vec<u8> {
    let mut key = vec![b'x'; 60];
    if rng.chance(1, 10) {
        key.truncate(rng.index(60));
    }
    key.extend(word(rng));
    key
}

#[test]
fn random_histories_equal_a_model() {
    for (seed, capacity) in [(1, 300), (2, 500), (3, 1200), (4, 8192)] {
        for make in [integer, few, word, long_prefix] {
            let (_pool, tree) = tree(capacity, seed);
            suite::random_history(&tree, seed, make, 120);
        }
    }
}

#[test]
fn a_batch_goes_in_by_groups() {
    for (seed, capacity) in [(1, 300), (2, 1200), (3, 8192)] {
        for make in [integer, word, long_prefix] {
            let (pool, tree) = tree(capacity, seed);
            suite::groups_of_a_batch(&tree, &pool.pool, make);
        }
    }
}

#[test]
fn scans_may_be_interrupted() {
    for make in [integer, few, word] {
        suite::interrupted_scans(&tree(500, 5).1, make);
        suite::interrupted_scans(&tree(8192, 5).1, make);
    }
}

#[test]
fn lists_of_keys_are_looked_up() {
    for make in [integer, few, word] {
        suite::lookups(&tree(500, 6).1, make);
        suite::lookups(&tree(8192, 6).1, make);
    }
}

#[test]
fn entries_leave_by_key() {
    for capacity in [600, 8192] {
        suite::removals_by_key(&tree(capacity, 7).1, integer);
        suite::removals_by_key(&tree(capacity, 7).1, few);
    }
}

/// A few letters in front of many equal bytes, as large as a key may be, or half of it.
fn large(rng: &mut Rng) -> Vec<u8> {
    let len = if rng.chance(1, 2) { MAX_ENTRY_BYTES } else { MAX_ENTRY_BYTES / 2 };
    let mut key = vec![b'a' + rng.index(3) as u8; len];
    key[len - 1] = rng.next_u64() as u8;
    // Prefix-free: the first byte tells the length.
    key[0] = u8::from(len == MAX_ENTRY_BYTES);
    key
}

#[test]
fn a_bulk_build_is_the_same_index() {
    for make in [integer, few, long_prefix, large] {
        for size in [0, 1, 80, 300] {
            suite::builds(IndexMethod::BTree, make, size);
        }
    }
    suite::builds(IndexMethod::BTree, integer, 20_000);
}

#[test]
fn payload_comes_back() {
    for capacity in [600, 8192] {
        suite::payload_round_trip(&tree(capacity, 1).1);
    }
}

#[test]
fn unique_outcomes_are_told_apart() {
    for (capacity, dead) in [(8192, 0), (8192, 30), (8192, 4000), (300, 10), (300, 300)] {
        let (_pool, tree) = tree(capacity, 2);
        suite::unique_outcomes(&tree, dead);
    }
}

#[test]
fn dead_marks_survive_splits() {
    for capacity in [1000, 8192] {
        suite::dead_marks(&tree(capacity, 3).1, integer);
        suite::dead_marks(&tree(capacity, 3).1, few);
        suite::dead_marks(&tree(capacity, 3).1, long_prefix);
    }
}

#[test]
fn the_largest_keys_fit() {
    suite::too_large_a_key(&tree(8192, 4).1, MAX_ENTRY_BYTES);
    suite::largest_keys(&tree(8192, 4).1, MAX_ENTRY_BYTES);
    suite::largest_keys(&tree(8192, 4).1, MAX_ENTRY_BYTES / 2);
}
