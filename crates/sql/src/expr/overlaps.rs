//! OVERLAPS: have two stretches of time a moment in common?
//!
//! A stretch is given by its ends in any order, and has its first moment and not its last, unless
//! they are one. What a null in place of an end leaves open is null. (PostgreSQL:
//! `overlaps_timestamp` and its siblings)
//!
//! Does not do: ends that are a start and a length, which the binder adds up.

use std::cmp::Ordering;

use crate::error::Result;
use crate::expr::Context;
use crate::expr::function::Registry;
use crate::types::{Datum, SqlType};

/// Adds it.
pub(super) fn register(registry: &mut Registry) {
    for ty in [SqlType::Timestamp, SqlType::Timestamptz, SqlType::Time, SqlType::Timetz] {
        registry.add("overlaps", &[ty; 4], SqlType::Bool, overlaps).strict = false;
    }
}

/// A stretch with the earlier end first; `None` if it has none. The later end may be null.
fn stretch(ends: &[Datum]) -> Option<[&Datum; 2]> {
    match (&ends[0], &ends[1]) {
        (Datum::Null, Datum::Null) => None,
        (Datum::Null, one) | (one, Datum::Null) => Some([one, &Datum::Null]),
        (a, b) if a.compare(b).is_gt() => Some([b, a]),
        (a, b) => Some([a, b]),
    }
}

fn overlaps(values: &[Datum], _: &Context) -> Result<Datum> {
    let (Some(a), Some(b)) = (stretch(&values[..2]), stretch(&values[2..])) else {
        return Ok(Datum::Null);
    };
    let (first, second) = match a[0].compare(b[0]) {
        Ordering::Equal if a[1].is_null() || b[1].is_null() => return Ok(Datum::Null),
        Ordering::Equal => return Ok(Datum::Bool(true)),
        Ordering::Less => (a, b),
        Ordering::Greater => (b, a),
    };
    Ok(match (first[1], second[1]) {
        (Datum::Null, _) => Datum::Null,
        (end, _) if second[0].compare(end).is_lt() => Datum::Bool(true),
        (_, Datum::Null) => Datum::Null,
        _ => Datum::Bool(false),
    })
}
