//! Bounds of scans as byte ranges: equality on the first columns, then a range on the next one.
//!
//! Invariants: a [`KeyRange`] is half-open over whole encoded keys, whatever is appended to them;
//! since keys are prefix-free, `successor` of a prefix is above every key that starts with it. A
//! range on a column with at least one bound never contains its nulls, as comparisons in SQL do
//! not. Values may be longer than a key can be: no bound is, see [`KeyRange::cut`].
//! Does not do: ranges on two columns at once, which the caller filters.

use std::ops::Bound;

use super::encode::{encode_column, encode_prefix, push_escaped};
use super::key_range::{KeyRange, successor};
use super::{KeyColumn, PRESENT};
use crate::datum::{Type, Value};
use crate::error::{Error, Result};

/// Condition on the column that follows the equalities.
#[derive(Clone, PartialEq, Debug)]
pub enum ColumnRange {
    /// None: nulls are in.
    All,
    /// Between two values; nulls are out, two unbounded ends mean "is not null".
    Between(Bound<Value>, Bound<Value>),
    /// Text or bytes that start with these bytes.
    StartsWith(Vec<u8>),
}

/// The keys whose first columns equal `equal` (nulls match nulls) and whose next column is in
/// `range`.
pub fn prefix_range(
    columns: &[KeyColumn],
    equal: &[Value],
    range: &ColumnRange,
) -> Result<KeyRange> {
    let prefix = encode_prefix(columns, equal);
    let next = columns.get(equal.len());
    match (range, next) {
        (ColumnRange::All, _) => Ok(KeyRange::starting_with(&prefix).cut()),
        (_, None) => Err(Error::Invalid("a range needs a key column after the equalities".into())),
        (ColumnRange::Between(low, high), Some(column)) => {
            Ok(between(&prefix, column, low.as_ref(), high.as_ref()).cut())
        }
        (ColumnRange::StartsWith(start), Some(column)) => {
            Ok(KeyRange::starting_with(&starts_with(prefix, column, start)?).cut())
        }
    }
}

fn between(prefix: &[u8], column: &KeyColumn, low: Bound<&Value>, high: Bound<&Value>) -> KeyRange {
    // In a descending column the larger values come first, so the bounds change places.
    let (first, last) = if column.descending { (high, low) } else { (low, high) };
    let encoded = |value: &Value| {
        let mut out = prefix.to_vec();
        encode_column(&mut out, column, value);
        out
    };
    let present = [prefix, &[PRESENT]].concat();
    let low = match first {
        Bound::Included(value) => Some(encoded(value)),
        Bound::Excluded(value) => successor(&encoded(value)),
        Bound::Unbounded => Some(present.clone()),
    };
    let high = match last {
        Bound::Included(value) => successor(&encoded(value)),
        Bound::Excluded(value) => Some(encoded(value)),
        Bound::Unbounded => successor(&present),
    };
    // The null byte is never 0xFF, hence what starts with it has a successor.
    KeyRange { low: low.expect("an encoded column has a successor"), high }
}

fn starts_with(mut prefix: Vec<u8>, column: &KeyColumn, start: &[u8]) -> Result<Vec<u8>> {
    if !matches!(column.ty, Type::Text | Type::Bytes) {
        let ty = column.ty;
        return Err(Error::Invalid(format!("a column of type {ty} has no prefix to search for")));
    }
    if let Some(collation) = &column.collation {
        let what = format!(
            "text under collation {} has no prefix to search for: filter instead",
            collation.name()
        );
        return Err(Error::Invalid(what));
    }
    prefix.push(PRESENT);
    let from = prefix.len();
    push_escaped(&mut prefix, start);
    prefix[from..].iter_mut().for_each(|byte| *byte ^= column.mask());
    Ok(prefix)
}
