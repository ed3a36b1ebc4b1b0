//! Hashes of values, and a hash table over the rows of one side of a join.
//!
//! Rows with one hash are a chain in the order of the rows. Equal values of different integer types
//! have one hash, and so have equal floats, and numbers of different scales.
//!
//! Invariants: a row with a null among its keys is in no chain. Does not do: keeping the rows.

use std::hash::{DefaultHasher, Hasher};

use crate::error::Result;
use crate::exec::batch::Batch;
use crate::exec::columns::evaluate;
use crate::exec::sort_key;
use crate::exec::vector::{NO_ROW, Vector};
use crate::expr::{Context, Expr, SortKey};
use crate::types::Datum;

/// Rows by the hashes of their keys.
pub(in crate::exec) struct HashTable {
    /// First row of each chain.
    heads: Vec<u32>,
    /// The row behind each.
    next: Vec<u32>,
    hashes: Vec<u64>,
    keys: Vec<Vector>,
}

/// Keys of rows, and their hashes.
pub(in crate::exec) struct Keys {
    pub(in crate::exec) values: Vec<Vector>,
    /// `None` for a row with a null among them.
    pub(in crate::exec) hashes: Vec<Option<u64>>,
}

/// The keys of the rows of a batch.
pub(in crate::exec) fn values<'e>(
    exprs: impl Iterator<Item = &'e Expr>,
    batch: &Batch,
    context: &Context,
) -> Result<Keys> {
    let mut values = Vec::new();
    for expr in exprs {
        values.push(evaluate(expr, batch, context)?.into_owned());
    }
    Ok(hashed(values, batch.len))
}

/// Keys with their hashes.
pub(in crate::exec) fn hashed(values: Vec<Vector>, len: usize) -> Keys {
    let mut hashes: Vec<Option<u64>> = vec![Some(0); len];
    let mut bytes = Vec::new();
    for column in &values {
        for (at, hash) in hashes.iter_mut().enumerate() {
            let Some(so_far) = *hash else { continue };
            *hash = match column {
                Vector::Int4(numbers) => numbers.get(at).map(|v| mix(so_far, i64::from(v) as u64)),
                Vector::Int8(numbers) => numbers.get(at).map(|v| mix(so_far, v as u64)),
                Vector::Date(numbers) => numbers.get(at).map(|v| mix(so_far, i64::from(v) as u64)),
                Vector::Text(texts) => texts.get(at).map(|text| mix(so_far, hash_text(text))),
                other => hash_of(&other.get(at), &mut bytes).map(|own| mix(so_far, own)),
            };
        }
    }
    Keys { values, hashes }
}

/// Multiplies and folds, as in wyhash.
pub(in crate::exec) fn mix(a: u64, b: u64) -> u64 {
    let wide = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xe703_7ed1_a0b4_28db);
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// The hash of a value that is not null.
pub(in crate::exec) fn hash_of(value: &Datum, bytes: &mut Vec<u8>) -> Option<u64> {
    if value.is_null() {
        return None;
    }
    if let Some(whole) = value.as_int() {
        return Some(whole as u64);
    }
    if let Some(float) = value.as_float() {
        let float = if float.is_nan() { f64::NAN } else { float + 0.0 };
        return Some(float.to_bits());
    }
    match value {
        Datum::Date(day) => return Some(i64::from(*day) as u64),
        Datum::Text(text) => return Some(hash_text(text)),
        Datum::Oid(number) => return Some(u64::from(*number)),
        Datum::Reg(one) => return Some(u64::from(one.oid)),
        Datum::Char(byte) => return Some(u64::from(*byte)),
        _ => {}
    }
    let mut hasher = DefaultHasher::new();
    match value {
        Datum::Bytes(all) => hasher.write(all),
        other => {
            let key = SortKey {
                at: 0,
                descending: false,
                nulls_first: false,
                padded: false,
                collation: None,
            };
            bytes.clear();
            sort_key::encode(bytes, other, &key);
            hasher.write(bytes);
        }
    }
    Some(hasher.finish())
}

/// The hash of a text.
pub(in crate::exec) fn hash_text(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

impl HashTable {
    /// A table of rows with these keys.
    pub(in crate::exec) fn of(keys: Vec<Vector>, of_rows: &[Option<u64>]) -> HashTable {
        let size = (of_rows.len() * 2).next_power_of_two().max(16);
        let (mut heads, mut next) = (vec![NO_ROW; size], vec![NO_ROW; of_rows.len()]);
        let mut hashes = vec![0; of_rows.len()];
        // Backward, so that each chain has its rows in order.
        for (row, hash) in of_rows.iter().enumerate().rev() {
            let Some(hash) = *hash else { continue };
            let head = &mut heads[place(hash, size)];
            (next[row], hashes[row]) = (*head, hash);
            *head = row as u32;
        }
        HashTable { heads, next, hashes, keys }
    }

    /// Bytes that it takes.
    pub(in crate::exec) fn bytes(&self) -> usize {
        let places = size_of_val(self.heads.as_slice()) + size_of_val(self.next.as_slice());
        let keys: usize = self.keys.iter().map(Vector::bytes).sum();
        places + size_of_val(self.hashes.as_slice()) + keys
    }

    /// The first row that may have the keys of a row of the other side.
    pub(in crate::exec) fn first(&self, hash: Option<u64>) -> u32 {
        hash.map_or(NO_ROW, |hash| self.heads[place(hash, self.heads.len())])
    }

    /// The row behind another one in its chain.
    pub(in crate::exec) fn after(&self, row: u32) -> u32 {
        self.next[row as usize]
    }

    /// Has `row` the keys of row `at` of the other side?
    pub(in crate::exec) fn matches(&self, row: u32, keys: &Keys, at: usize) -> bool {
        let row = row as usize;
        if Some(self.hashes[row]) != keys.hashes[at] {
            return false;
        }
        let pairs = self.keys.iter().zip(&keys.values);
        pairs.into_iter().all(|(own, other)| match (own, other) {
            (Vector::Int4(a), Vector::Int4(b)) => a.values[row] == b.values[at],
            (Vector::Int8(a), Vector::Int8(b)) => a.values[row] == b.values[at],
            (Vector::Date(a), Vector::Date(b)) => a.values[row] == b.values[at],
            (Vector::Text(a), Vector::Text(b)) => a.get(row) == b.get(at),
            (own, other) => own.get(row).compare(&other.get(at)).is_eq(),
        })
    }
}

/// The place of a hash in a table of a power of two.
pub(in crate::exec) fn place(hash: u64, size: usize) -> usize {
    (mix(hash, 0x5851_f42d_4c95_7f2d) as usize) & (size - 1)
}
