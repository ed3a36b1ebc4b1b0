//! The row ids that a vacuum pass is about to remove: a bounded sorted set.
//!
//! Invariants: row ids come in ascending order, so the set is a sorted array; its memory is
//! reserved from the budget before it is used and never exceeds the reservation.
//! Does not do: compression; eight bytes a row id.

use rightlink_env::{Budget, Reservation};

use crate::error::{Error, Result};
use crate::heap::MAX_SLOTS;
use crate::ids::RowId;

/// Smallest set: what one chunk of pages can hold.
const MIN_ROWS: usize = super::CHUNK as usize * MAX_SLOTS as usize;

/// A bounded set of row ids, filled in order.
#[derive(Debug)]
pub struct DeadRows {
    rows: Vec<u64>,
    capacity: usize,
    _memory: Reservation,
}

impl DeadRows {
    /// A set of at most `bytes` bytes, less if the budget has not that much.
    pub fn new(budget: &Budget, bytes: usize) -> Result<Self> {
        let mut wanted = bytes.max(MIN_ROWS * size_of::<u64>());
        loop {
            if let Some(memory) = budget.try_reserve(wanted) {
                let capacity = wanted / size_of::<u64>();
                return Ok(Self { rows: Vec::new(), capacity, _memory: memory });
            }
            if wanted <= MIN_ROWS * size_of::<u64>() {
                return Err(Error::Limit("no memory left for a vacuum".into()));
            }
            wanted = (wanted / 2).max(MIN_ROWS * size_of::<u64>());
        }
    }

    /// Is there room for the row ids of one more page?
    pub fn has_room_for(&self, more: usize) -> bool {
        self.rows.len() + more <= self.capacity
    }

    /// Adds row ids that are larger than all before.
    pub fn extend(&mut self, rows: &[RowId]) {
        assert!(self.has_room_for(rows.len()), "asked before");
        let last = self.rows.last().copied();
        let numbers = rows.iter().map(|row| row.to_u64());
        assert!(numbers.clone().next().is_none_or(|first| last < Some(first)), "ascending");
        if self.rows.capacity() - self.rows.len() < rows.len() {
            let target = (self.rows.len() * 2).clamp(self.rows.len() + rows.len(), self.capacity);
            self.rows.reserve_exact(target - self.rows.len());
        }
        self.rows.extend(numbers);
        debug_assert!(self.rows.is_sorted());
    }

    /// Number of row ids.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// No row ids?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Answers for a whole leaf which of `rows` are in the set.
    pub fn probe(&self, rows: &[RowId], dead: &mut [bool]) {
        assert_eq!(rows.len(), dead.len(), "an answer for each row");
        for (row, dead) in rows.iter().zip(dead) {
            *dead = self.rows.binary_search(&row.to_u64()).is_ok();
        }
    }

    /// The row ids in order.
    pub fn to_rows(&self) -> Vec<RowId> {
        self.rows.iter().map(|row| RowId::from_u64(*row)).collect()
    }

    /// Empties the set for the next pass.
    pub fn clear(&mut self) {
        self.rows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_answers_for_what_is_in_it_and_stays_in_its_bound() {
        let budget = Budget::new(4 << 20);
        let bytes = MIN_ROWS * size_of::<u64>();
        let mut set = DeadRows::new(&budget, bytes).unwrap();
        for block in 1..1000u32 {
            let rows: Vec<_> = (1..=3).map(|slot| RowId::new(block, slot * 2)).collect();
            assert!(set.has_room_for(rows.len()));
            set.extend(&rows);
        }
        let probe = [RowId::new(1, 2), RowId::new(1, 3), RowId::new(999, 6), RowId::new(1000, 2)];
        let mut dead = [false; 4];
        set.probe(&probe, &mut dead);
        assert_eq!(dead, [true, false, true, false]);
        assert_eq!(set.to_rows().len(), set.len());
        assert!(!set.has_room_for(MIN_ROWS));
        assert_eq!(budget.used(), bytes);
        drop(set);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_short_budget_gives_a_smaller_set_and_none_gives_an_error() {
        let budget = Budget::new(MIN_ROWS * size_of::<u64>() + 100);
        let set = DeadRows::new(&budget, 1 << 30).unwrap();
        assert!(matches!(DeadRows::new(&budget, 1 << 30), Err(Error::Limit(_))));
        drop(set);
    }
}
