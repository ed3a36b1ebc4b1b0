//! Functions that give rows: their names and types.
//!
//! Invariants: the binder makes a column of each call, so that none is evaluated as a value.
//! Does not do: making the rows (`exec::sets`).

use crate::expr::function::{Registry, SetFunction};
use crate::expr::operators::mismatch;
use crate::types::SqlType;

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    let mut add = |name, args: &[SqlType], result, rows| {
        registry.add(name, args, result, |values, _| mismatch(values)).rows = Some(rows);
    };
    for ty in [T::Int4, T::Int8, T::Numeric] {
        add("generate_series", &[ty, ty], ty, SetFunction::Series(ty));
        add("generate_series", &[ty, ty, ty], ty, SetFunction::Series(ty));
    }
    for ty in [T::Timestamp, T::Timestamptz] {
        add("generate_series", &[ty, ty, T::Interval], ty, SetFunction::Series(ty));
    }
    add("string_to_table", &[T::Text, T::Text], T::Text, SetFunction::TextParts);
    add("string_to_table", &[T::Text, T::Text, T::Text], T::Text, SetFunction::TextParts);
}
