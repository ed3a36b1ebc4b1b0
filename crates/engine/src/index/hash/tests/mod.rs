//! Tests of the hash index: the suite of every access method, then what is particular to it.

mod crash;

use rightlink_env::Rng;

use crate::buffer::testing::{self, TestPool};
use crate::index::MAX_ENTRY_BYTES;
use crate::index::hash::{HashIndex, HashOptions};
use crate::index::suite_keys::{self, FILE, integer, method_suite};
use crate::index::{IndexMethod, suite};

/// An empty index whose pages use `capacity` bytes.
fn index(capacity: usize, seed: u64) -> (TestPool, HashIndex) {
    let test = testing::pool(512, seed);
    test.pool.create_file(FILE, true).unwrap();
    let options = HashOptions { capacity, ..HashOptions::default() };
    let index = HashIndex::create(&test.pool, FILE, options).unwrap();
    (test, index)
}

/// Mostly one key, and some others.
fn skewed(rng: &mut Rng) -> Vec<u8> {
    if rng.chance(2, 3) { b"the same\0".to_vec() } else { integer(rng) }
}

method_suite!(index, IndexMethod::Hash, skewed);
