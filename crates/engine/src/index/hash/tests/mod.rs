//! Tests of the hash index: the suite of every access method, then what is particular to it.

mod crash;

use rightlink_env::Rng;

use crate::buffer::testing::{self, TestPool};
use crate::ids::FileId;
use crate::index::MAX_ENTRY_BYTES;
use crate::index::hash::{HashIndex, HashOptions};
use crate::index::{IndexMethod, suite};

/// The index file of these tests.
const FILE: FileId = FileId(70);

/// An empty index whose pages use `capacity` bytes.
fn index(capacity: usize, seed: u64) -> (TestPool, HashIndex) {
    let test = testing::pool(512, seed);
    test.pool.create_file(FILE, true).unwrap();
    let options = HashOptions { capacity, ..HashOptions::default() };
    let index = HashIndex::create(&test.pool, FILE, options).unwrap();
    (test, index)
}

/// Integers from a small range, so that keys repeat.
fn integer(rng: &mut Rng) -> Vec<u8> {
    rng.below(3000).to_be_bytes().to_vec()
}

/// Few keys: many rows each, and so chains of overflow pages.
fn few(rng: &mut Rng) -> Vec<u8> {
    (rng.below(12) * 1000).to_be_bytes().to_vec()
}

/// Short strings over few letters, ended by a zero.
fn word(rng: &mut Rng) -> Vec<u8> {
    let mut key: Vec<u8> = (0..rng.index(9)).map(|_| [1, 2, 255][rng.index(3)]).collect();
    key.push(0);
    key
}

/// Mostly one key, and some others.
fn skewed(rng: &mut Rng) -> Vec<u8> {
    if rng.chance(2, 3) { b"the same\0".to_vec() } else { integer(rng) }
}

#[test]
fn random_histories_equal_a_model() {
    for (seed, capacity) in [(1, 300), (2, 500), (3, 1200), (4, 8192)] {
        for make in [integer, few, word, skewed] {
            let (_pool, index) = index(capacity, seed);
            suite::random_history(&index, seed, make, 120);
        }
    }
}

#[test]
fn a_batch_goes_in_by_groups() {
    for (seed, capacity) in [(1, 300), (2, 1200), (3, 8192)] {
        for make in [integer, word, skewed] {
            let (pool, index) = index(capacity, seed);
            suite::groups_of_a_batch(&index, &pool.pool, make);
        }
    }
}

#[test]
fn scans_may_be_interrupted() {
    for make in [integer, few, word] {
        suite::interrupted_scans(&index(500, 5).1, make);
        suite::interrupted_scans(&index(8192, 5).1, make);
    }
}

#[test]
fn lists_of_keys_are_looked_up() {
    for make in [integer, few, word] {
        suite::lookups(&index(500, 6).1, make);
        suite::lookups(&index(8192, 6).1, make);
    }
}

#[test]
fn entries_leave_by_key() {
    for capacity in [600, 8192] {
        suite::removals_by_key(&index(capacity, 7).1, integer);
        suite::removals_by_key(&index(capacity, 7).1, few);
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
    for make in [integer, few, skewed, large] {
        for size in [0, 1, 80, 300] {
            suite::builds(IndexMethod::Hash, make, size);
        }
    }
    suite::builds(IndexMethod::Hash, integer, 20_000);
}

#[test]
fn payload_comes_back() {
    for capacity in [600, 8192] {
        suite::payload_round_trip(&index(capacity, 1).1);
    }
}

#[test]
fn unique_outcomes_are_told_apart() {
    for (capacity, dead) in [(8192, 0), (8192, 30), (8192, 4000), (300, 10), (300, 300)] {
        let (_pool, index) = index(capacity, 2);
        suite::unique_outcomes(&index, dead);
    }
}

#[test]
fn dead_marks_survive_splits() {
    for capacity in [1000, 8192] {
        suite::dead_marks(&index(capacity, 3).1, integer);
        suite::dead_marks(&index(capacity, 3).1, few);
        suite::dead_marks(&index(capacity, 3).1, skewed);
    }
}

#[test]
fn the_largest_keys_fit() {
    suite::too_large_a_key(&index(8192, 4).1, MAX_ENTRY_BYTES);
    suite::largest_keys(&index(8192, 4).1, MAX_ENTRY_BYTES);
    suite::largest_keys(&index(8192, 4).1, MAX_ENTRY_BYTES / 2);
}
