//! Groups in memory, and the rows of a batch on their way into them, column by column.
//!
//! Invariants: groups with equal keys are one; a group takes its rows in the order they come in.
//! Does not do: counting of memory, and files (`group`).

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::columns::evaluate;
use super::hash::{hash_of, hash_text, mix};
use crate::error::Result;
use crate::exec::batch::Batch;
use crate::exec::vector::{Decimals, Vector};
use crate::expr::aggregate::{Aggregate, Input, Ordered, State};
use crate::expr::{Context, Expr};
use crate::plan::Group;
use crate::types::{Datum, Row};

/// The hash of null, which is one key among others.
const NULL: u64 = 1;

/// Groups in memory, found by a hash of their keys.
#[derive(Default)]
pub(super) struct Groups {
    pub(super) all: Vec<(Ordered, Vec<State>)>,
    /// Of each hash the last group that has it, and of each group the one before with its hash.
    last: HashMap<u64, usize, BuildHasherDefault<Ready>>,
    before: Vec<Option<usize>>,
}

/// Takes numbers that are hashes already.
#[derive(Default)]
struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Groups {
    /// The hash of a key. Equal keys have one.
    pub(super) fn hash(key: &[Datum]) -> u64 {
        let mut bytes = Vec::new();
        let own = |value| hash_of(value, &mut bytes).unwrap_or(NULL);
        key.iter().map(own).fold(0, mix)
    }

    /// The group of a key with this hash.
    pub(super) fn find(&self, hash: u64, same: impl Fn(&[Datum]) -> bool) -> Option<usize> {
        let mut at = self.last.get(&hash).copied();
        while let Some(place) = at {
            if same(&self.all[place].0.0) {
                return Some(place);
            }
            at = self.before[place];
        }
        None
    }

    /// Adds a group: its place.
    pub(super) fn insert(&mut self, hash: u64, key: Row, states: Vec<State>) -> usize {
        let place = self.all.len();
        self.before.push(self.last.insert(hash, place));
        self.all.push((Ordered(key), states));
        place
    }

    /// All groups in the order of their keys.
    pub(super) fn sorted(&mut self) -> Vec<(Ordered, Vec<State>)> {
        let mut all = std::mem::take(self).all;
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    /// Adds rows to aggregate `of` of their groups: `places` has the group of each, and none if all
    /// rows are of the first. Returns how many bytes the states have grown by.
    pub(super) fn add(
        &mut self,
        aggregate: &Aggregate,
        of: usize,
        columns: &Columns<'_>,
        places: &[usize],
    ) -> Result<usize> {
        if let Some(Vector::Numeric(numbers)) = columns.args[of].first().map(Cow::as_ref)
            && aggregate.takes_numeric()
        {
            return self.add_numeric(of, columns, places, numbers);
        }
        if !aggregate.takes_integers() {
            let mut grown = 0;
            for (at, place) in places.iter().enumerate() {
                if let Some(input) = columns.input(of, at) {
                    grown += aggregate.add(&mut self.all[*place].1[of], input)?;
                }
            }
            return Ok(grown);
        }
        let values = columns.args[of].first();
        if columns.keys.is_empty()
            && columns.filters[of].is_none()
            && let Some((count, sum)) = total(values.map(Cow::as_ref), places.len())
        {
            self.all[0].1[of].add_integers(count, sum);
            return Ok(0);
        }
        for (at, place) in places.iter().enumerate() {
            if !columns.passes(of, at) {
                continue;
            }
            let value = match values.map(Cow::as_ref) {
                None => Some(0),
                Some(Vector::Int4(numbers)) => numbers.get(at).map(i64::from),
                Some(Vector::Int8(numbers)) => numbers.get(at),
                Some(other) if other.is_null(at) => None,
                Some(other) => Some(other.get(at).as_int().unwrap_or(0)),
            };
            if let Some(value) = value {
                self.all[*place].1[of].add_integers(1, i128::from(value));
            }
        }
        Ok(0)
    }
}

impl Groups {
    /// Adds numbers to the sums of their groups.
    fn add_numeric(
        &mut self,
        of: usize,
        columns: &Columns<'_>,
        places: &[usize],
        numbers: &Decimals,
    ) -> Result<usize> {
        for (at, place) in places.iter().enumerate() {
            if columns.passes(of, at)
                && let (Some(unscaled), Some(scale)) = (numbers.unscaled.get(at), numbers.scale)
            {
                self.all[*place].1[of].add_numeric(unscaled, scale)?;
            }
        }
        Ok(0)
    }
}

/// How many of the first `rows` values are not null, and their sum; `None` where they are looked at
/// one by one.
fn total(values: Option<&Vector>, rows: usize) -> Option<(i64, i128)> {
    let sum = match values {
        None => 0,
        Some(Vector::Int4(numbers)) if numbers.nulls.is_empty() => {
            let sum: i64 = numbers.values[..rows].iter().map(|value| i64::from(*value)).sum();
            i128::from(sum)
        }
        Some(Vector::Int8(numbers)) if numbers.nulls.is_empty() => {
            numbers.values[..rows].iter().map(|value| i128::from(*value)).sum()
        }
        Some(_) => return None,
    };
    Some((rows as i64, sum))
}

/// What the rows of a batch give to their groups.
pub(super) struct Columns<'b> {
    pub(super) keys: Vec<Cow<'b, Vector>>,
    /// Arguments of each aggregate, and which rows it takes.
    args: Vec<Vec<Cow<'b, Vector>>>,
    filters: Vec<Option<Cow<'b, Vector>>>,
    /// What its rows are ordered by, and what is asked about an ordered set.
    rests: Vec<Vec<Cow<'b, Vector>>>,
    group: &'b Group,
}

impl<'b> Columns<'b> {
    pub(super) fn evaluate(
        group: &'b Group,
        batch: &'b Batch,
        context: &Context,
    ) -> Result<Columns<'b>> {
        let columns = |exprs: &[Expr]| -> Result<Vec<Cow<'b, Vector>>> {
            exprs.iter().map(|expr| evaluate(expr, batch, context)).collect()
        };
        let keys = columns(&group.keys)?;
        let args = group.aggregates.iter().map(|one| columns(&one.args));
        let args = args.collect::<Result<Vec<_>>>()?;
        let filter = |one: &Aggregate| -> Result<Option<Cow<'b, Vector>>> {
            one.filter.as_ref().map(|filter| evaluate(filter, batch, context)).transpose()
        };
        let filters = group.aggregates.iter().map(filter).collect::<Result<Vec<_>>>()?;
        let rest = |one: &Aggregate| {
            one.rest().map(|expr| evaluate(expr, batch, context)).collect::<Result<Vec<_>>>()
        };
        let rests = group.aggregates.iter().map(rest).collect::<Result<Vec<_>>>()?;
        Ok(Columns { keys, args, filters, rests, group })
    }

    /// The hashes of the keys of so many rows, as [`Groups::hash`] gives them.
    pub(super) fn hashes(&self, rows: usize) -> Vec<u64> {
        let (mut hashes, mut bytes) = (vec![0; rows], Vec::new());
        for column in &self.keys {
            for (at, hash) in hashes.iter_mut().enumerate() {
                let own = match column.as_ref() {
                    Vector::Int4(numbers) => numbers.get(at).map(|v| i64::from(v) as u64),
                    Vector::Int8(numbers) => numbers.get(at).map(|v| v as u64),
                    Vector::Date(numbers) => numbers.get(at).map(|v| i64::from(v) as u64),
                    Vector::Text(texts) => texts.get(at).map(hash_text),
                    Vector::Any(values) => hash_of(&values[at], &mut bytes),
                    other => hash_of(&other.get(at), &mut bytes),
                };
                *hash = mix(*hash, own.unwrap_or(NULL));
            }
        }
        hashes
    }

    /// Is this the key of a row?
    pub(super) fn is_key(&self, at: usize, key: &[Datum]) -> bool {
        let mut pairs = self.keys.iter().zip(key);
        pairs.all(|(column, value)| match (column.as_ref(), value) {
            (Vector::Int4(numbers), Datum::Int4(value)) => numbers.get(at) == Some(*value),
            (Vector::Int8(numbers), Datum::Int8(value)) => numbers.get(at) == Some(*value),
            (Vector::Date(numbers), Datum::Date(value)) => numbers.get(at) == Some(*value),
            (Vector::Text(texts), Datum::Text(value)) => texts.get(at) == Some(value),
            (Vector::Any(values), value) => values[at].compare(value).is_eq(),
            (other, value) => other.get(at).compare(value).is_eq(),
        })
    }

    /// The key of a row.
    pub(super) fn key(&self, at: usize) -> Row {
        self.keys.iter().map(|column| column.get(at)).collect()
    }

    fn passes(&self, of: usize, at: usize) -> bool {
        self.filters[of].as_ref().is_none_or(|values| values.is_true(at))
    }

    /// What a row gives to aggregate `of`; `None` if it does not count.
    pub(super) fn input(&self, of: usize, at: usize) -> Option<Input> {
        let values = &self.args[of];
        let is_null = |of: usize| values.get(of).is_none_or(|values| values.is_null(at));
        if !self.passes(of, at) || !self.group.aggregates[of].counts(is_null) {
            return None;
        }
        let value = |of: usize| values.get(of).map_or(Datum::Null, |value| value.get(at));
        let rest = self.rests[of].iter().map(|values| values.get(at)).collect();
        Some(Input { value: value(0), other: value(1), rest })
    }
}
