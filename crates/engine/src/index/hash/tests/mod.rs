//! Tests of the hash index: the suite of every access method, then what is particular to it.

mod crash;
#[cfg(feature = "shuttle")]
mod schedules;

use rightlink_env::Broken;
use rightlink_env::sync::{Arc, AtomicU32, Ordering};
use rightlink_env::{Rng, points};

use crate::buffer::testing::{self, TestPool};
use crate::ids::RowId;
use crate::index::MAX_ENTRY_BYTES;
use crate::index::am::AccessMethod;
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

fn numbered(range: std::ops::Range<u32>) -> Vec<(Vec<u8>, RowId)> {
    range.map(|n| (u64::from(n).to_be_bytes().to_vec(), RowId::new(n, 1))).collect()
}

/// A split knows its block; before it has the page, others take that block, and its page is written
/// and leaves memory. Zeroes once stood in its place.
fn a_block_is_taken_and_written_by_others() {
    let (test, index) = index(500, 9);
    let model = numbered(0..2000).into_iter().collect();
    suite::insert(&index, &numbered(0..1000));
    let (theirs, pool, turn) = (index.clone(), Arc::clone(&test.pool), AtomicU32::new(0));
    let hook = points::install_local(move |name| {
        let turn = match name {
            "hash.spare.known" => turn.fetch_add(1, Ordering::Relaxed),
            _ => return,
        };
        let from = 1000 + turn * 50;
        if from < 1500 {
            suite::insert(&theirs, &numbered(from..from + 50));
            pool.evict_all().unwrap();
        }
    });
    suite::insert(&index, &numbered(1500..2000));
    drop(hook);
    suite::same(&index, &model);
    suite::verify_clean(&index);
}

#[test]
fn a_block_that_others_took_and_wrote_is_not_covered_with_zeroes() {
    let world: (_, fn()) = ("taken by others", a_block_is_taken_and_written_by_others);
    world.1();
    assert!(
        points::caught(Broken::HashBlockNotRechecked, &[world]).is_some(),
        "no check noticed zeroes"
    );
}

/// The entries of pages that a pass has not come to yet are moved to pages at the end of the file,
/// again and again: it follows them along the list, and leaves none that was dead.
#[test]
fn a_pass_finds_dead_entries_on_pages_made_beside_it() {
    let (_pool, index) = index(300, 10);
    suite::insert(&index, &numbered(0..3000));
    let blocks = index.blocks();
    let pass = index.begin_delete(1);
    let mut next = 3000;
    let mut is_dead = |rows: &[RowId], dead: &mut [bool]| {
        rows.iter().zip(dead).for_each(|(row, dead)| *dead = row.block.0 < 3000);
    };
    let mut between = |_| {
        if next < 9000 {
            suite::insert(&index, &numbered(next..next + 40));
            next += 40;
        }
        Ok(())
    };
    pass.run(0, &mut is_dead, &mut between).unwrap();
    let stats = pass.finish(&mut |_| Ok(())).unwrap();
    assert!(stats.removed == 3000 && stats.blocks > blocks + 100, "{stats:?}");
    drop(pass);
    suite::same(&index, &numbered(3000..next).into_iter().collect());
    suite::verify_clean(&index);
}
