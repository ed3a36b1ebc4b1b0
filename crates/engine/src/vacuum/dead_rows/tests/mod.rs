//! The set against the ordered set of the standard library, and its bounds.

use std::collections::BTreeSet;

use rightlink_env::Rng;

use super::*;
use crate::heap::MAX_SLOTS;

/// How many blocks have dead rows, how many rows, and below which slot.
struct Garbage {
    one_in: u64,
    rows: u64,
    below: u64,
}

const GARBAGE: [Garbage; 9] = [
    Garbage { one_in: 1, rows: 1, below: 64 },
    Garbage { one_in: 1, rows: 7, below: 250 },
    Garbage { one_in: 1, rows: 30, below: 64 },
    Garbage { one_in: 2, rows: 200, below: MAX_SLOTS as u64 },
    Garbage { one_in: 3, rows: 3, below: 255 },
    Garbage { one_in: 9, rows: 60, below: 100 },
    Garbage { one_in: 20, rows: 1, below: 256 },
    Garbage { one_in: 90, rows: 2, below: MAX_SLOTS as u64 },
    Garbage { one_in: 400, rows: 1, below: 9 },
];

fn rows_of(garbage: &Garbage, block: u32, rng: &mut Rng) -> BTreeSet<RowId> {
    let count = if rng.chance(1, garbage.one_in) { 1 + rng.below(garbage.rows) } else { 0 };
    (0..count).map(|_| RowId::new(block, 1 + rng.below(garbage.below) as u16)).collect()
}

fn set(bytes: usize) -> DeadRows {
    DeadRows::new(&Budget::new(bytes), bytes).expect("there is memory")
}

fn all(set: &DeadRows) -> Vec<RowId> {
    let mut rows = Vec::new();
    let push = |piece: &[RowId]| {
        rows.extend_from_slice(piece);
        Ok(())
    };
    set.for_each_piece(push).expect("pushing does not fail");
    rows
}

fn compare(set: &DeadRows, model: &BTreeSet<RowId>, blocks: u32, rng: &mut Rng) {
    assert_eq!(set.len(), model.len());
    assert!(all(set).iter().eq(model.iter()));
    let mut leaf: Vec<RowId> = (0..500)
        .map(|_| RowId::new(rng.below(u64::from(blocks) + 300) as u32, rng.below(300) as u16))
        .chain(model.iter().copied().step_by(model.len() / 300 + 1))
        .collect();
    rng.shuffle(&mut leaf);
    for _ in 0..2 {
        let mut dead = vec![true; leaf.len()];
        set.probe(&leaf, &mut dead);
        let mut cursor = set.cursor();
        for (row, dead) in leaf.iter().zip(&dead) {
            assert_eq!(*dead, model.contains(row), "{row}");
            assert_eq!(set.contains(*row), *dead, "{row}");
            assert_eq!(cursor.contains(*row), *dead, "{row}");
        }
        leaf.sort_unstable();
    }
}

/// Settles a set that has room for that.
fn list_places(set: &mut DeadRows) {
    set.list_places();
    assert_eq!(set.places.is_empty(), set.is_empty(), "the places are known");
}

#[test]
fn the_set_is_the_ordered_set_whatever_the_garbage() {
    for (seed, garbage) in GARBAGE.iter().enumerate() {
        let mut rng = Rng::from_seed(seed as u64);
        let (mut set, mut model) = (set(16 << 20), BTreeSet::new());
        for start in (1..3000).step_by(32) {
            let rows: BTreeSet<RowId> =
                (start..start + 32).flat_map(|block| rows_of(garbage, block, &mut rng)).collect();
            set.extend(&rows.iter().copied().collect::<Vec<_>>());
            model.extend(rows);
            if start % 800 == 1 {
                compare(&set, &model, 3000, &mut rng);
                list_places(&mut set);
                compare(&set, &model, 3000, &mut rng);
            }
        }
        list_places(&mut set);
        compare(&set, &model, 3000, &mut rng);
        set.clear();
        assert!(set.is_empty() && all(&set).is_empty());
    }
}

#[test]
fn chunks_may_come_in_any_order_and_again() {
    let mut rng = Rng::from_seed(77);
    let (mut set, mut model) = (set(16 << 20), BTreeSet::new());
    for round in 0..300 {
        let garbage = &GARBAGE[rng.index(GARBAGE.len())];
        let start = rng.below(2000) as u32;
        let rows: BTreeSet<RowId> =
            (start..start + 200).flat_map(|block| rows_of(garbage, block, &mut rng)).collect();
        set.extend(&rows.iter().copied().collect::<Vec<_>>());
        model.extend(rows);
        if round % 20 == 0 {
            list_places(&mut set);
        }
        if round % 60 == 0 {
            compare(&set, &model, 2200, &mut rng);
        }
    }
    compare(&set, &model, 2200, &mut rng);
}

#[test]
fn the_last_blocks_of_the_largest_table_are_blocks() {
    let mut set = set(4 << 20);
    let rows = [RowId::new(u32::MAX - 1, 5), RowId::new(u32::MAX, 1), RowId::new(u32::MAX, 290)];
    set.extend(&rows);
    assert_eq!(all(&set), rows);
    set.list_places();
    assert!(set.places.is_empty(), "no list of sixteen million chunks");
    set.extend(&[RowId::new(0, 1)]);
    assert!(rows.iter().all(|row| set.contains(*row)));
    assert!(!set.contains(RowId::new(u32::MAX, 0)) && !set.contains(RowId::new(7, u16::MAX)));
}

#[test]
fn the_set_stays_in_its_bound_and_gives_it_back() {
    let budget = Budget::new(8 << 20);
    let mut set = DeadRows::new(&budget, 2 << 20).expect("there is memory");
    assert_eq!(budget.used(), 2 << 20);
    let mut rng = Rng::from_seed(5);
    let mut block = 0;
    while set.has_room() {
        let rows: BTreeSet<RowId> =
            (block..block + 32).flat_map(|block| rows_of(&GARBAGE[3], block, &mut rng)).collect();
        set.extend(&rows.into_iter().collect::<Vec<_>>());
        assert!(set.memory() <= 2 << 20);
        block += 32;
    }
    // A bound that is kept by keeping little would be no feat.
    assert!(set.memory() > 3 << 19, "{} bytes in use", set.memory());
    let rows = all(&set);
    set.list_places();
    assert!(set.memory() <= 2 << 20 && all(&set) == rows);
    set.shrink();
    assert_eq!(budget.used(), set.memory());
    set.list_places();
    assert!(budget.used() == set.reserved() && set.memory() <= set.reserved());
    drop(set);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_short_budget_gives_a_smaller_set_and_none_gives_an_error() {
    let budget = Budget::new(1 << 20);
    let set = DeadRows::new(&budget, 1 << 30).expect("a smaller one");
    assert!(set.has_room());
    assert!(matches!(DeadRows::new(&budget, 1 << 30), Err(Error::OutOfMemory(_))));
    drop(set);
}

#[test]
fn dead_rows_take_the_bytes_they_are_worth() {
    // Rows, blocks between dead ones, dead rows a block among 64 slots, most bytes a row.
    for (step, dead, most) in [(1, 30, 0.3), (1, 1, 4.0), (20, 1, 6.0), (1, 5, 1.7)] {
        let mut rng = Rng::from_seed(9);
        let mut set = set(64 << 20);
        let blocks = 300_000 * step / dead;
        for start in (0..blocks as u32).step_by(32) {
            let mut rows = Vec::new();
            for block in (start..start + 32).filter(|block| block % step as u32 == 0) {
                let mut slots: Vec<u16> = (1..=64).collect();
                rng.shuffle(&mut slots);
                slots.truncate(dead);
                slots.sort_unstable();
                rows.extend(slots.into_iter().map(|slot| RowId::new(block, slot)));
            }
            set.extend(&rows);
        }
        let each = set.chunks.memory() as f64 / set.len() as f64;
        assert!(each <= most + 200_000.0 / set.len() as f64, "{dead} in {step}: {each}");
    }
}
