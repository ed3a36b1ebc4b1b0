//! Conditions on an index, checked against the definition and turned into a range of key bytes.
//!
//! Invariants: a value of the wrong type is refused here; below, it would be a programmer's error.
//! Does not do: conditions on several ranges, choice of the index.

use std::ops::Bound;

use crate::datum::Value;
use crate::error::{Error, Result};
use crate::index::KeyRange;
use crate::keycode::{self, ColumnRange, KeyColumn};

use super::schema::{IndexDef, TableDef};

/// Which entries of an index.
#[derive(Clone, PartialEq, Debug)]
pub enum IndexBounds {
    /// Equality on the first key columns, then a condition on the next one.
    Columns {
        /// Values of the first key columns; null matches null.
        equal: Vec<Value>,
        /// Condition on the key column after them.
        range: ColumnRange,
    },
    /// Between two prefixes of the key, in the index's order, nulls included where they stand.
    Prefixes {
        /// Where to begin.
        from: Bound<Vec<Value>>,
        /// Where to end.
        to: Bound<Vec<Value>>,
    },
    /// Entries that begin with any of these prefixes of the key, each entry once.
    AnyOf(Vec<Vec<Value>>),
}

impl IndexBounds {
    /// Every entry.
    pub fn all() -> Self {
        Self::equal(Vec::new())
    }

    /// Entries whose first key columns have these values.
    pub fn equal(equal: Vec<Value>) -> Self {
        Self::Columns { equal, range: ColumnRange::All }
    }

    /// As [`IndexBounds::equal`], with bounds on the next key column.
    pub fn between(equal: Vec<Value>, low: Bound<Value>, high: Bound<Value>) -> Self {
        Self::Columns { equal, range: ColumnRange::Between(low, high) }
    }

    /// The ranges of key bytes, ascending and disjoint.
    pub(crate) fn resolve(&self, checker: &Checker<'_>) -> Result<Vec<KeyRange>> {
        match self {
            IndexBounds::Columns { equal, range } => Ok(vec![checker.columns(equal, range)?]),
            IndexBounds::Prefixes { from, to } => {
                let (from, to) = (checker.prefix(from)?, checker.prefix(to)?);
                Ok(vec![KeyRange::between(as_slice(&from), as_slice(&to))])
            }
            IndexBounds::AnyOf(prefixes) => {
                let range = |prefix: &Vec<Value>| checker.columns(prefix, &ColumnRange::All);
                Ok(disjoint(prefixes.iter().map(range).collect::<Result<_>>()?))
            }
        }
    }
}

/// Ranges of prefixes in order. Of two that overlap one contains the other.
fn disjoint(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    let end = |range: &KeyRange| (range.high.is_none(), range.high.clone());
    ranges.sort_by(|a, b| a.low.cmp(&b.low).then_with(|| end(b).cmp(&end(a))));
    ranges.dedup_by(|later, kept| kept.contains(&later.low));
    debug_assert!(ranges.is_sorted_by(|a, b| a.high.as_ref().is_some_and(|end| *end <= b.low)));
    ranges
}

/// Knows the key that bounds are about.
pub(crate) struct Checker<'a> {
    pub(crate) def: &'a TableDef,
    pub(crate) index: &'a IndexDef,
    pub(crate) columns: &'a [KeyColumn],
}

impl Checker<'_> {
    pub(crate) fn columns(&self, equal: &[Value], range: &ColumnRange) -> Result<KeyRange> {
        self.check(equal)?;
        if let (ColumnRange::Between(low, high), Some(column)) =
            (range, self.columns.get(equal.len()))
        {
            for value in [low, high].into_iter().filter_map(bound_value) {
                self.check_type(value, *column)?;
                if value.is_null() {
                    return Err(self.invalid("null as a bound"));
                }
            }
        }
        keycode::prefix_range(self.columns, equal, range)
    }

    fn prefix(&self, bound: &Bound<Vec<Value>>) -> Result<Bound<Vec<u8>>> {
        let encode = |values: &Vec<Value>| {
            self.check(values)?;
            keycode::encode_prefix(self.columns, values)
        };
        Ok(match bound {
            Bound::Included(values) => Bound::Included(encode(values)?),
            Bound::Excluded(values) => Bound::Excluded(encode(values)?),
            Bound::Unbounded => Bound::Unbounded,
        })
    }

    /// Are these values of the first key columns?
    fn check(&self, values: &[Value]) -> Result<()> {
        if values.len() > self.columns.len() {
            return Err(self.invalid(&format!("{} values for the key", values.len())));
        }
        let mut typed = values.iter().zip(self.columns);
        typed.try_for_each(|(value, column)| self.check_type(value, *column))
    }

    fn check_type(&self, value: &Value, column: KeyColumn) -> Result<()> {
        if value.fits(column.ty) {
            return Ok(());
        }
        Err(self.invalid(&format!("{value:?} for a {} column", column.ty)))
    }

    fn invalid(&self, what: &str) -> Error {
        let (index, table) = (&self.index.name, &self.def.name);
        Error::Invalid(format!("{what} of index {index} of table {table}"))
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(bytes) => Bound::Included(bytes),
        Bound::Excluded(bytes) => Bound::Excluded(bytes),
        Bound::Unbounded => Bound::Unbounded,
    }
}

fn bound_value(bound: &Bound<Value>) -> Option<&Value> {
    match bound {
        Bound::Included(value) | Bound::Excluded(value) => Some(value),
        Bound::Unbounded => None,
    }
}
