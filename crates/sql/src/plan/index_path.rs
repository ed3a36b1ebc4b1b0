//! A range of keys of an index, and the scan that it means for the values of one execution.
//!
//! Invariants: nulls are outside of every range; a bound that its column cannot hold is no bound or
//! no row. Does not do: choosing it (`path`), what it costs (`model`).

use std::ops::Bound;

use rightlink::{Direction, IndexInfo, ScanOptions, Value};

use crate::error::Result;
use crate::expr::{Context, Expr};
use crate::plan::term::{Fit, Keys, fit};
use crate::types::SqlType;

/// A range of keys of an index.
#[derive(Clone, Debug)]
pub(crate) struct IndexPath {
    pub(crate) index: IndexInfo,
    /// Values of the first key columns.
    pub(crate) equal: Vec<Expr>,
    /// Lower and upper bound of the next one, and whether they are included.
    pub(crate) low: Option<(Expr, bool)>,
    pub(crate) high: Option<(Expr, bool)>,
    /// Or values of the next one.
    pub(crate) any_of: Option<Keys>,
    /// Types of the key columns.
    pub(crate) types: Vec<SqlType>,
    pub(crate) backward: bool,
    /// Are all columns in the index?
    pub(crate) covers: bool,
    /// The conditions it stands for.
    pub(crate) conditions: Vec<Expr>,
    /// Rows that meet them, as far as statistics tell.
    pub(crate) expected: Option<u64>,
}

impl IndexPath {
    /// Is there one row at most?
    pub(super) fn is_certain(&self) -> bool {
        let whole = self.equal.len() == self.index.columns.len();
        let null = self.equal.iter().any(|value| matches!(value, Expr::IsNull(..)));
        self.index.unique && whole && !null
    }

    /// Is it one key of a unique index, whatever the parameters are?
    pub(crate) fn is_one_key(&self) -> bool {
        let ranges = self.low.is_some() || self.high.is_some() || self.any_of.is_some();
        self.is_certain() && !ranges
    }

    /// Values of the first key columns; `None` if no row can match.
    pub(crate) fn key(&self, context: &Context) -> Result<Option<Vec<Value>>> {
        let mut key = Vec::with_capacity(self.equal.len() + 1);
        for (value, ty) in self.equal.iter().zip(&self.types) {
            // IS NULL stands for itself: its evaluation is true.
            if matches!(value, Expr::IsNull(..)) {
                key.push(Value::Null);
                continue;
            }
            match fit(value.eval(&[], context)?, *ty) {
                Fit::Is(value) => key.push(value),
                _ => return Ok(None),
            }
        }
        Ok(Some(key))
    }

    /// The scan that the path means for these parameters; `None` if no row can match.
    pub(crate) fn options(&self, context: &Context) -> Result<Option<ScanOptions>> {
        let mut options = ScanOptions::index(self.index.name.clone());
        options.direction = if self.backward { Direction::Backward } else { Direction::Forward };
        options.expected_rows = self.expected;
        let Some(prefix) = self.key(context)? else { return Ok(None) };
        if let Some(keys) = &self.any_of {
            return self.list(keys, prefix, options, context);
        }
        if self.low.is_none() && self.high.is_none() {
            if !prefix.is_empty() {
                options = options.equal(prefix);
            }
            return Ok(Some(options));
        }
        self.range(prefix, options, context)
    }

    fn list(
        &self,
        keys: &Keys,
        prefix: Vec<Value>,
        mut options: ScanOptions,
        context: &Context,
    ) -> Result<Option<ScanOptions>> {
        let ty = self.types[prefix.len()];
        keys.each(context, &mut |value| {
            if let Fit::Is(value) = fit(value, ty) {
                let mut key = prefix.clone();
                key.push(value);
                options.any_of.push(key);
            }
        })?;
        Ok((!options.any_of.is_empty()).then_some(options))
    }

    fn range(
        &self,
        prefix: Vec<Value>,
        mut options: ScanOptions,
        context: &Context,
    ) -> Result<Option<ScanOptions>> {
        let ty = self.types[prefix.len()];
        let with = |value: Value| prefix.iter().cloned().chain([value]).collect::<Vec<Value>>();
        let bound = |end: &Option<(Expr, bool)>, low: bool| -> Result<Option<Bound<Vec<Value>>>> {
            let Some((value, included)) = end else { return Ok(Some(Bound::Unbounded)) };
            Ok(match (fit(value.eval(&[], context)?, ty), low) {
                (Fit::Is(value), _) if *included => Some(Bound::Included(with(value))),
                (Fit::Is(value), _) => Some(Bound::Excluded(with(value))),
                (Fit::Below, true) | (Fit::Above, false) => Some(Bound::Unbounded),
                _ => None,
            })
        };
        let (Some(low), Some(high)) = (bound(&self.low, true)?, bound(&self.high, false)?) else {
            return Ok(None);
        };
        let key = &self.index.columns[prefix.len()];
        let (mut from, mut to) = if key.descending { (high, low) } else { (low, high) };
        // Nulls are in no range: an open end on their side stops before them.
        let open = |at_nulls: bool| match (at_nulls, prefix.is_empty()) {
            (true, _) => Bound::Excluded(with(Value::Null)),
            (false, true) => Bound::Unbounded,
            (false, false) => Bound::Included(prefix.clone()),
        };
        if from == Bound::Unbounded {
            from = open(key.nulls_first);
        }
        if to == Bound::Unbounded {
            to = open(!key.nulls_first);
        }
        (options.from, options.to) = (from, to);
        Ok(Some(options))
    }
}
