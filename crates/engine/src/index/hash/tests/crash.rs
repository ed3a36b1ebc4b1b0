//! The log alone rebuilds the index, whichever record is the last.

use rightlink_env::Rng;

use crate::buffer::testing::TestPool;
use crate::ids::{PageId, RowId};
use crate::index::am::AccessMethod;
use crate::index::hash::page::{INCOMPLETE, is_bucket};
use crate::index::hash::tests::{FILE, index, integer, skewed};
use crate::index::hash::{HashIndex, HashOptions};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite::{self, Model, same, verify_clean};
use crate::index::suite_keys::{records, replay};
use crate::page::header::{FLAGS, u16_at};
use crate::wal::{Record, RecordKind};

const CAPACITY: usize = 400;

fn options() -> HashOptions {
    HashOptions { capacity: CAPACITY, ..HashOptions::default() }
}

/// A history of splits, deletions and squeezes, and its log.
fn history(seed: u64) -> (Vec<Record>, Model) {
    let make = if seed.is_multiple_of(2) { integer } else { skewed };
    let (test, index) = index(CAPACITY, seed);
    let mut rng = Rng::from_seed(seed);
    let mut model = Model::new();
    for round in 0..12 {
        let batch: Vec<_> =
            (0..60).map(|n| (make(&mut rng), RowId::new(round * 100 + n, 1))).collect();
        suite::insert(&index, &batch);
        model.extend(batch);
        if round % 4 == 3 {
            let dead = |row: &RowId| !row.block.0.is_multiple_of(5);
            suite::vacuum(&index, &dead);
            model.retain(|(_, row)| !dead(row));
        }
    }
    same(&index, &model);
    (records(&test), model)
}

fn flagged(test: &TestPool, index: &HashIndex) -> usize {
    let is_flagged = |block: &u32| {
        let pin = test.pool.pin(PageId::new(FILE, *block)).unwrap();
        let page = pin.shared();
        is_bucket(page.bytes()) && u16_at(page.bytes(), FLAGS) & INCOMPLETE != 0
    };
    (0..index.blocks()).filter(is_flagged).count()
}

#[test]
fn the_whole_log_gives_the_same_index() {
    for seed in 0..4 {
        let (records, model) = history(seed);
        let test = replay(&records);
        let index = HashIndex::open(&test.pool, FILE, options()).unwrap();
        same(&index, &model);
        verify_clean(&index);
    }
}

/// Wherever the log ends, the index is sound; the next writer finishes incomplete splits.
#[test]
fn every_prefix_of_the_log_gives_an_index() {
    let (records, _) = history(4);
    let mut incomplete = 0;
    let first = records.iter().position(|record| record.kind == RecordKind::IndexMeta).unwrap();
    let split = |kind| matches!(kind, RecordKind::IndexSplit | RecordKind::IndexUnlink);
    for cut in
        (first + 1..=records.len()).filter(|cut| *cut % 5 == 0 || split(records[cut - 1].kind))
    {
        let test = replay(&records[..cut]);
        let index = HashIndex::open(&test.pool, FILE, options()).unwrap();
        verify_clean(&index);
        let before = suite::scan(&index, KeyRange::all(), Direction::Forward);
        incomplete += usize::from(flagged(&test, &index) > 0);
        let mut model: Model = before.into_iter().collect();
        let more: Vec<_> =
            (0..3000u64).step_by(7).map(|n| (n.to_be_bytes().to_vec(), RowId::new(7, 7))).collect();
        suite::insert(&index, &more);
        model.extend(more);
        assert_eq!(flagged(&test, &index), 0, "a writer finishes what it meets");
        same(&index, &model);
        suite::vacuum(&index, &|row| row.block.0 == 7);
        model.retain(|(_, row)| row.block.0 != 7);
        same(&index, &model);
        verify_clean(&index);
        assert!(index.method().name() == "hash");
    }
    assert!(incomplete > 10, "{incomplete} logs ended between a split and its entry");
}
