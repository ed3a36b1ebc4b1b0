//! Rows of a table chosen by chance, in bounded memory.
//!
//! Blocks are chosen first, then rows among those of the blocks (reservoir sampling: Vitter, Random
//! Sampling with a Reservoir, 1985, algorithm R), as PostgreSQL's ANALYZE does. Where the rows do
//! not fit the memory that the budget has left, half of them go, whichever.
//!
//! Invariants: every row is as likely to be kept as any other of the same blocks; what is kept was
//! reserved before.
//! Does not do: reading.

use rightlink::{Budget, Reservation, RowId};

use crate::error::{Result, SqlError, code};
use crate::types::{Datum, SqlType};

/// Most rows of a sample, and most blocks that they are from.
pub(crate) const MOST: u32 = 30_000;
/// Longer values are neither compared nor kept.
const WIDE: usize = 1_024;
/// Memory for a sample, and the least that will do.
const MEMORY: usize = 32 << 20;
const LITTLE: usize = 256 << 10;

/// A value of a sample.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    Null,
    Value(Datum),
    /// One that is too long, and how long.
    Wide(usize),
}

/// Rows that were kept among those that came by.
pub(crate) struct Sample {
    pub(crate) rows: Vec<(RowId, Vec<Kept>)>,
    /// Rows that came by.
    pub(crate) seen: u64,
    capacity: usize,
    bytes: usize,
    most_bytes: usize,
    _held: Reservation,
    random: u64,
}

impl Sample {
    /// An empty one; `seed` decides which rows will be kept.
    pub(crate) fn new(budget: &Budget, seed: u64) -> Result<Sample> {
        let mut most_bytes = (budget.available() / 4).clamp(LITTLE, MEMORY);
        let held = loop {
            match budget.try_reserve(most_bytes) {
                Some(held) => break held,
                None if most_bytes > LITTLE => most_bytes /= 2,
                None => {
                    let detail = format!("A sample of {LITTLE} bytes does not fit the budget.");
                    return Err(SqlError::new(code::OUT_OF_MEMORY, "out of memory").detail(detail));
                }
            }
        };
        let capacity = MOST as usize;
        let rows = Vec::new();
        Ok(Sample { rows, seen: 0, capacity, bytes: 0, most_bytes, _held: held, random: seed })
    }

    /// A row comes by; its values have these types.
    pub(crate) fn offer(&mut self, id: RowId, values: Vec<rightlink::Value>, types: &[SqlType]) {
        self.seen += 1;
        let place = match self.rows.len() < self.capacity {
            true => self.rows.len(),
            false => self.below(self.seen) as usize,
        };
        if place >= self.capacity {
            return;
        }
        let row: Vec<Kept> = values.into_iter().zip(types).map(|(v, ty)| kept(v, *ty)).collect();
        self.bytes += bytes_of(&row);
        match self.rows.get_mut(place) {
            Some(slot) => {
                let before = std::mem::replace(slot, (id, row));
                self.bytes = self.bytes.saturating_sub(bytes_of(&before.1));
            }
            None => self.rows.push((id, row)),
        }
        while self.bytes > self.most_bytes && self.rows.len() > 1 {
            self.halve();
        }
    }

    /// Keeps half of the rows, whichever.
    fn halve(&mut self) {
        let (count, half) = (self.rows.len(), self.rows.len() / 2);
        for at in 0..half {
            let other = at + self.below((count - at) as u64) as usize;
            self.rows.swap(at, other);
        }
        self.rows.truncate(half);
        self.capacity = half;
        self.bytes = self.rows.iter().map(|(_, row)| bytes_of(row)).sum();
    }

    /// A random number below `end` (splitmix64).
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }

    /// In the order in which the rows lie in the table.
    pub(crate) fn in_order(mut self) -> Sample {
        self.rows.sort_by_key(|(id, _)| (id.block.0, id.slot));
        self
    }
}

/// Arrays and rows are not compared: they count as too long, whatever they are.
fn kept(value: rightlink::Value, ty: SqlType) -> Kept {
    match Datum::from(value) {
        Datum::Null => Kept::Null,
        Datum::Bytes(bytes) if ty.is_array() || matches!(ty, SqlType::Composite(_)) => {
            Kept::Wide(bytes.len())
        }
        Datum::Text(text) if text.len() > WIDE => Kept::Wide(text.len()),
        Datum::Bytes(bytes) if bytes.len() > WIDE => Kept::Wide(bytes.len()),
        Datum::Numeric(number) if number.as_bytes().len() > WIDE => {
            Kept::Wide(number.as_bytes().len())
        }
        // Not a number, or infinite, and compares with no number here.
        Datum::Text(text) if ty == SqlType::Numeric => Kept::Wide(text.len()),
        value => Kept::Value(value),
    }
}

fn bytes_of(row: &[Kept]) -> usize {
    let own = |value: &Kept| match value {
        Kept::Value(value) => value.heap_bytes(),
        Kept::Null | Kept::Wide(_) => 0,
    };
    let fixed = size_of::<(RowId, Vec<Kept>)>() + size_of_val(row);
    fixed + row.iter().map(own).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rightlink::Value;

    fn offer(sample: &mut Sample, n: i32, text: &str) {
        let values = vec![Value::Int4(n), Value::Text(text.to_owned())];
        sample.offer(RowId::new(1 + n as u32, 1), values, &[SqlType::Int4, SqlType::Text]);
    }

    #[test]
    fn a_sample_stays_within_its_memory_and_takes_rows_from_everywhere() {
        let budget = Budget::new(LITTLE);
        let mut sample = Sample::new(&budget, 7).unwrap();
        assert_eq!(sample.most_bytes, LITTLE);
        assert!(Sample::new(&budget, 7).is_err(), "there is no room for another");
        let long = "x".repeat(500);
        (0..20_000).for_each(|n| offer(&mut sample, n, &long));
        assert_eq!(sample.seen, 20_000);
        assert!(sample.bytes <= LITTLE);
        let sample = sample.in_order();
        assert!(sample.rows.len() > 50, "{} rows", sample.rows.len());
        let late = sample.rows.iter().filter(|(id, _)| id.block.0 > 10_000).count();
        let part = late as f64 / sample.rows.len() as f64;
        assert!((0.25..0.75).contains(&part), "{part}");
        assert!(sample.rows.is_sorted_by_key(|(id, _)| id.block.0));
    }

    #[test]
    fn long_values_are_counted_and_not_kept() {
        let mut sample = Sample::new(&Budget::new(64 << 20), 7).unwrap();
        offer(&mut sample, 1, &"x".repeat(5_000));
        assert!(matches!(sample.rows[0].1[1], Kept::Wide(5_000)));
        assert!(sample.bytes < 1_000);
    }
}
