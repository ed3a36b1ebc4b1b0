//! The log alone rebuilds the tree, whichever record is the last.

use rightlink_env::Rng;

use crate::ids::RowId;
use crate::index::am::AccessMethod;
use crate::index::btree::tests::{FILE, few, integer, tree};
use crate::index::btree::{BTree, TreeOptions};
use crate::index::search_key::{Direction, KeyRange};
use crate::index::suite::{self, Model, same, verify_clean};
use crate::index::suite_keys::{records, replay};
use crate::wal::{Record, RecordKind};

const CAPACITY: usize = 400;

fn options() -> TreeOptions {
    TreeOptions { capacity: CAPACITY, ..TreeOptions::default() }
}

/// A history of splits, leaves that share, deletions and merges, and its log.
fn history(seed: u64) -> (Vec<Record>, Model) {
    let make = if seed.is_multiple_of(2) { integer } else { few };
    let (test, tree) = tree(CAPACITY, seed);
    let mut rng = Rng::from_seed(seed);
    let mut model = Model::new();
    for round in 0..12 {
        let batch: Vec<_> =
            (0..60).map(|n| (make(&mut rng), RowId::new(round * 100 + n, 1))).collect();
        match round % 3 {
            0 => suite::insert(&tree, &batch),
            _ => suite::insert_versions(&tree, &batch),
        }
        model.extend(batch);
        if round % 4 == 3 {
            let dead = |row: &RowId| !row.block.0.is_multiple_of(3);
            tree.bulk_delete(&mut |rows, out| {
                rows.iter().zip(out).for_each(|(row, out)| *out = dead(row));
            })
            .unwrap();
            model.retain(|(_, row)| !dead(row));
        }
    }
    same(&tree, &model);
    (records(&test), model)
}

#[test]
fn the_whole_log_gives_the_same_tree() {
    for seed in 0..4 {
        let (records, model) = history(seed);
        let test = replay(&records);
        let tree = BTree::open(&test.pool, FILE, options()).unwrap();
        same(&tree, &model);
        verify_clean(&tree);
    }
}

/// Wherever the log ends, the tree is sound; the next writer finishes incomplete splits.
#[test]
fn every_prefix_of_the_log_gives_a_tree() {
    let (records, _) = history(4);
    let moves = |kind| matches!(kind, RecordKind::IndexSplit | RecordKind::IndexSpread);
    let spreads = records.iter().filter(|record| record.kind == RecordKind::IndexSpread).count();
    assert!(spreads > 5, "leaves shared {spreads} times");
    let mut incomplete = 0;
    let first = records.iter().position(|record| record.kind == RecordKind::IndexMeta).unwrap();
    for cut in
        (first + 1..=records.len()).filter(|cut| *cut % 5 == 0 || moves(records[cut - 1].kind))
    {
        let test = replay(&records[..cut]);
        let tree = BTree::open(&test.pool, FILE, options()).unwrap();
        verify_clean(&tree);
        let before = suite::scan(&tree, KeyRange::all(), Direction::Forward);
        let flagged = |tree: &BTree| {
            (1..tree.blocks())
                .filter(|b| tree.inspect_page(*b).unwrap().flags.contains(&"incomplete-split"))
                .count()
        };
        incomplete += usize::from(flagged(&tree) > 0);
        let mut model: Model = before.into_iter().collect();
        let more: Vec<_> =
            (0..3000u64).step_by(7).map(|n| (n.to_be_bytes().to_vec(), RowId::new(7, 7))).collect();
        suite::insert(&tree, &more);
        model.extend(more);
        assert_eq!(flagged(&tree), 0, "a writer passes every leaf and finishes what it meets");
        same(&tree, &model);
        verify_clean(&tree);
    }
    assert!(incomplete > 10, "{incomplete} logs ended between a split and its downlink");
}
