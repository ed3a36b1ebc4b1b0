//! Conditions on an index: checked against the definition, and turned into ranges of key bytes.
//!
//! Invariants: a value of the wrong type is an error here, and so is a condition that the index's
//! method cannot search for. The layers below assert both. A value that is too long for a key is no
//! error: no row has it.
//! Does not do: choose the index.
//! PostgreSQL: `_bt_preprocess_keys`.

use std::ops::Bound;

use rightlink_env::sync::Arc;

use crate::datum::Value;
use crate::error::{Error, Result};
use crate::index::KeyRange;
use crate::keycode::{self, ColumnRange, Condition, KeyColumn, KeySet, MAX_ENCODED};

use crate::table::definition::schema::{IndexDef, TableDef};

/// Most keys that conditions on several columns may stand for where they are listed.
const MAX_LISTED: usize = 10_000;

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
    /// As `Prefixes`, and each of these key columns, named by its place in the key, meets its
    /// condition.
    Matching {
        /// Where to begin.
        from: Bound<Vec<Value>>,
        /// Where to end.
        to: Bound<Vec<Value>>,
        /// At most one for each key column.
        conditions: Vec<(usize, Condition)>,
    },
}

/// Which keys of an index are wanted, as bytes.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// All of them are in here.
    pub(crate) range: KeyRange,
    /// Which ones; `None`: all.
    pub(crate) keys: Option<Arc<KeySet>>,
}

impl Search {
    /// All keys of `range`.
    pub(crate) fn whole(range: KeyRange) -> Search {
        Search { range, keys: None }
    }

    /// The keys in `ranges`, which ascend and are disjoint.
    pub(crate) fn list(mut ranges: Vec<KeyRange>) -> Search {
        ranges.retain(|range| !range.is_empty());
        if ranges.len() < 2 {
            return Search::whole(ranges.pop().unwrap_or_else(KeyRange::none));
        }
        Search::some(KeySet::of_ranges(ranges), &KeyRange::all())
    }

    /// Those of `keys` that are in `range`.
    fn some(keys: Option<KeySet>, range: &KeyRange) -> Search {
        match keys {
            None => Search::whole(KeyRange::none()),
            Some(keys) => Search { range: keys.hull().within(range), keys: Some(Arc::new(keys)) },
        }
    }
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

    /// The keys that this means, in the order of the index's method.
    pub(crate) fn resolve(&self, checker: &Checker<'_>) -> Result<Search> {
        checker.check_collations()?;
        match self {
            IndexBounds::Prefixes { from, to } if !checker.index.method.is_ordered() => {
                Ok(Search::whole(checker.same(from, to)?))
            }
            IndexBounds::Matching { from, to, conditions }
                if !checker.index.method.is_ordered() =>
            {
                checker.conditions(conditions)?;
                Ok(Search::list(disjoint(checker.listed(from, to, conditions)?)))
            }
            IndexBounds::Columns { equal, range } => {
                Ok(Search::whole(checker.columns(equal, range)?))
            }
            IndexBounds::Prefixes { from, to } => Ok(Search::whole(checker.between(from, to)?)),
            IndexBounds::AnyOf(prefixes) => {
                let range = |prefix: &Vec<Value>| checker.columns(prefix, &ColumnRange::All);
                let ranges = prefixes.iter().map(range).collect::<Result<_>>()?;
                Ok(Search::list(disjoint(ranges)))
            }
            IndexBounds::Matching { from, to, conditions } => {
                let range = checker.between(from, to)?;
                checker.conditions(conditions)?;
                let keys = KeySet::of_conditions(checker.columns, conditions)?;
                Ok(Search::some(keys, &range))
            }
        }
    }
}

/// Ranges of prefixes in order. Of two that overlap one contains the other.
pub(crate) fn disjoint(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
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
            self.check_ends(low, high, column)?;
        }
        if !self.index.method.is_ordered() {
            return self.whole_key(equal, range);
        }
        keycode::prefix_range(self.columns, equal, range)
    }

    /// The one key that a method without order can look for.
    fn whole_key(&self, equal: &[Value], range: &ColumnRange) -> Result<KeyRange> {
        if *range != ColumnRange::All {
            return Err(self.unordered("a range"));
        }
        if equal.len() != self.columns.len() {
            return Err(self.unordered("a part of the key"));
        }
        let key = keycode::encode_prefix(self.columns, equal);
        Ok(match key.len() > MAX_ENCODED {
            true => KeyRange::none(),
            false => KeyRange::starting_with(&self.index.method.place(&key)),
        })
    }

    /// The one key that both bounds name, for a method without order.
    fn same(&self, from: &Bound<Vec<Value>>, to: &Bound<Vec<Value>>) -> Result<KeyRange> {
        let (Bound::Included(from), Bound::Included(to)) = (from, to) else {
            return Err(self.unordered("a range"));
        };
        let both = (self.columns(from, &ColumnRange::All)?, self.columns(to, &ColumnRange::All)?);
        if both.0 != both.1 {
            return Err(self.unordered("a range"));
        }
        Ok(both.0)
    }

    /// The keys of which each column is one of some values, for a method without order.
    fn listed(
        &self,
        from: &Bound<Vec<Value>>,
        to: &Bound<Vec<Value>>,
        conditions: &[(usize, Condition)],
    ) -> Result<Vec<KeyRange>> {
        if (from, to) != (&Bound::Unbounded, &Bound::Unbounded) {
            return Err(self.unordered("a range"));
        }
        let mut keys: Vec<Vec<Value>> = vec![Vec::new()];
        for at in 0..self.columns.len() {
            let values = match conditions.iter().find(|(on, _)| *on == at) {
                Some((_, Condition::Equal(value))) => std::slice::from_ref(value),
                Some((_, Condition::AnyOf(values))) => values,
                Some(_) => return Err(self.unordered("a range")),
                None => return Err(self.unordered("a part of the key")),
            };
            if keys.len().saturating_mul(values.len()) > MAX_LISTED {
                return Err(Error::Limit(format!("conditions that name over {MAX_LISTED} keys")));
            }
            let with = |key: &Vec<Value>| -> Vec<Vec<Value>> {
                values
                    .iter()
                    .map(|value| [key.as_slice(), std::slice::from_ref(value)].concat())
                    .collect()
            };
            keys = keys.iter().flat_map(with).collect();
        }
        keys.iter().map(|key| self.columns(key, &ColumnRange::All)).collect()
    }

    /// Something was asked of an index whose method has no order of keys.
    pub(crate) fn unordered(&self, what: &str) -> Error {
        let (index, table) = (&self.index.name, &self.def.name);
        let method = self.index.method.name();
        let what = format!(
            "{what} of index {index} of table {table}: a {method} index finds whole keys only"
        );
        Error::Invalid(what)
    }

    fn prefix(&self, bound: &Bound<Vec<Value>>) -> Result<Bound<Vec<u8>>> {
        let encode = |values: &Vec<Value>| {
            self.check(values)?;
            Ok::<_, Error>(keycode::encode_prefix(self.columns, values))
        };
        Ok(match bound {
            Bound::Included(values) => Bound::Included(encode(values)?),
            Bound::Excluded(values) => Bound::Excluded(encode(values)?),
            Bound::Unbounded => Bound::Unbounded,
        })
    }

    fn between(&self, from: &Bound<Vec<Value>>, to: &Bound<Vec<Value>>) -> Result<KeyRange> {
        let (from, to) = (self.prefix(from)?, self.prefix(to)?);
        Ok(KeyRange::between(as_slice(&from), as_slice(&to)).cut())
    }

    /// Are these conditions on different key columns, with values of their types?
    fn conditions(&self, conditions: &[(usize, Condition)]) -> Result<()> {
        for (n, (at, condition)) in conditions.iter().enumerate() {
            let Some(column) = self.columns.get(*at) else {
                return Err(self.invalid(&format!("a condition on column {at} of the key")));
            };
            if conditions[..n].iter().any(|(other, _)| other == at) {
                return Err(self.invalid(&format!("two conditions on column {at} of the key")));
            }
            match condition {
                Condition::Equal(value) => self.check_type(value, column)?,
                Condition::AnyOf(values) => {
                    values.iter().try_for_each(|value| self.check_type(value, column))?;
                }
                Condition::Between(low, high) => self.check_ends(low, high, column)?,
                Condition::StartsWith(_) => {}
            }
        }
        Ok(())
    }

    /// Are these bounds of a column?
    fn check_ends(
        &self,
        low: &Bound<Value>,
        high: &Bound<Value>,
        column: &KeyColumn,
    ) -> Result<()> {
        for value in [low, high].into_iter().filter_map(bound_value) {
            self.check_type(value, column)?;
            if value.is_null() {
                return Err(self.invalid("null as a bound"));
            }
        }
        Ok(())
    }

    /// Can this build make keys of the index at all?
    pub(crate) fn check_collations(&self) -> Result<()> {
        let unknown = |column: &&KeyColumn| {
            column.collation.as_ref().is_some_and(|collation| !collation.is_usable())
        };
        match self.columns.iter().find(unknown) {
            Some(_) => self.index.check_collations(self.def),
            None => Ok(()),
        }
    }

    /// Are these values of the first key columns?
    pub(crate) fn check(&self, values: &[Value]) -> Result<()> {
        if values.len() > self.columns.len() {
            return Err(self.invalid(&format!("{} values for the key", values.len())));
        }
        let mut typed = values.iter().zip(self.columns);
        typed.try_for_each(|(value, column)| self.check_type(value, column))
    }

    fn check_type(&self, value: &Value, column: &KeyColumn) -> Result<()> {
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
