//! Tests of the tree: the suite of every access method, then what is particular to trees.

mod concurrent;
mod crash;
mod damage;
mod descent;
mod merge;
mod posting;
mod prefetch;
mod redistribute;
#[cfg(feature = "shuttle")]
mod schedules;
mod shape;
mod skip;
mod vacuum;
mod writes;

use rightlink_env::Rng;

use crate::buffer::testing::{self, TestPool};
use crate::index::btree::{BTree, MAX_ENTRY_BYTES, TreeOptions};
use crate::index::suite_keys::{self, FILE, few, integer, method_suite, word};
use crate::index::{IndexMethod, suite};

/// An empty tree whose pages use `capacity` bytes.
fn tree(capacity: usize, seed: u64) -> (TestPool, BTree) {
    let test = testing::pool(512, seed);
    test.pool.create_file(FILE, true).unwrap();
    let options = TreeOptions { capacity, ..TreeOptions::default() };
    let tree = BTree::create(&test.pool, FILE, options).unwrap();
    (test, tree)
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

method_suite!(tree, IndexMethod::BTree, long_prefix);
