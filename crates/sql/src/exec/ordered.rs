//! Aggregates whose rows have an order: a call with ORDER BY, and questions about ordered sets.
//!
//! The rows of a group are put in order when all of them are there. A plain aggregate then takes
//! them one by one, as PostgreSQL's does, and so does a question about an ordered set, which knows
//! how many there are.
//!
//! Invariants: what is wrong with a question is said whether or not there are rows.
//! Does not do: putting rows in order that memory does not hold (`waiting`).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::error::{Result, SqlError, code};
use crate::exec::query::compare;
use crate::exec::sort::in_order;
use crate::expr::aggregate::{ARGUMENTS, Aggregate, Input, Kind, OrderedSet, State};
use crate::expr::{Context, names_columns};
use crate::types::calendar::interval_out_of_range;
use crate::types::{Array, Datum, ElementType, Row};

/// The result of an aggregate over what it has gathered in memory.
pub(super) fn finish(aggregate: &Aggregate, mut state: State, context: &Context) -> Result<Datum> {
    aggregate.take_distinct(&mut state)?;
    let rows = state.give_up_rows();
    let rows = in_order(rows, context, |a, b| compare(a, b, &aggregate.keys))?;
    if let Kind::OrderedSet(set) = aggregate.kind {
        let mut question = Question::new(aggregate, set, &mut state, context)?;
        for row in rows {
            context.spend(1)?;
            question.take(aggregate, row);
        }
        return question.answer(aggregate);
    }
    for row in rows {
        context.spend(1)?;
        aggregate.take_now(&mut state, Input::of_row(row))?;
    }
    aggregate.finish(state)
}

/// A question about an ordered set, which takes its rows in their order.
pub(super) enum Question {
    Mode(Mode),
    Percentile(Percentile),
    Rank(Rank),
}

impl Question {
    /// About as many rows as `state` has seen.
    pub(super) fn new(
        aggregate: &Aggregate,
        set: OrderedSet,
        state: &mut State,
        context: &Context,
    ) -> Result<Question> {
        // Where no row said what is asked, it is said without one, if it can be.
        let mut direct = match state.direct() {
            Some(direct) => direct,
            None if aggregate.direct.iter().any(names_columns) => {
                vec![Datum::Null; aggregate.direct.len()]
            }
            None => {
                let values = aggregate.direct.iter().map(|expr| expr.eval(&[], context));
                values.collect::<Result<Row>>()?
            }
        };
        Ok(match set {
            OrderedSet::Mode => Question::Mode(Mode::default()),
            OrderedSet::Between | OrderedSet::Percentile => {
                let part = direct.pop().unwrap_or_default();
                Question::Percentile(Percentile::new(set, part, state.count)?)
            }
            _ => Question::Rank(Rank::new(set, direct)),
        })
    }

    /// Takes the next row.
    pub(super) fn take(&mut self, aggregate: &Aggregate, row: Row) {
        match self {
            Question::Mode(mode) => mode.take(aggregate, row),
            Question::Percentile(percentile) => percentile.take(row),
            Question::Rank(rank) => rank.take(aggregate, row),
        }
    }

    /// The answer, all rows being taken.
    pub(super) fn answer(self, aggregate: &Aggregate) -> Result<Datum> {
        match self {
            Question::Mode(mode) => Ok(mode.best),
            Question::Percentile(percentile) => percentile.answer(aggregate),
            Question::Rank(rank) => Ok(rank.answer()),
        }
    }
}

/// The value that is there most often, the first of several.
#[derive(Default)]
pub(super) struct Mode {
    best: Datum,
    /// The last row, how many are like it, and whether it has the best value.
    last: Row,
    alike: u64,
    is_best: bool,
    /// How many rows had the best value.
    most: u64,
}

impl Mode {
    fn take(&mut self, aggregate: &Aggregate, row: Row) {
        let is_same = self.alike > 0
            && compare(&self.last, &row, &aggregate.keys).is_eq()
            && row[0].compare(&self.last[0]).is_eq();
        match is_same {
            true => self.alike += 1,
            false => (self.alike, self.is_best) = (1, false),
        }
        if self.alike > self.most {
            self.most = self.alike;
            if !std::mem::replace(&mut self.is_best, true) {
                self.best.clone_from(&row[0]);
            }
        }
        self.last = row;
    }
}

/// `percentile_disc` and `percentile_cont` of a part, or of each in an array.
pub(super) struct Percentile {
    /// An array, or a part by itself.
    asked: Datum,
    rows: i64,
    /// Where each part ends; `None` for a null.
    places: Vec<Option<Place>>,
    /// The values in these places, once their rows have come.
    values: BTreeMap<u64, Datum>,
    at: u64,
}

/// Between which rows a part of them ends.
struct Place {
    low: u64,
    high: u64,
    /// How far behind the first.
    share: f64,
}

impl Percentile {
    fn new(set: OrderedSet, asked: Datum, rows: i64) -> Result<Percentile> {
        let parts = match &asked {
            Datum::Array(_) if rows == 0 => &[],
            Datum::Array(parts) => parts.values(),
            part => std::slice::from_ref(part),
        };
        let mut places = Vec::with_capacity(parts.len());
        for part in parts {
            places.push(match part {
                Datum::Float8(part) => Some(Place::of(set, *part, rows)?),
                _ => None,
            });
        }
        let wanted = places.iter().flatten().flat_map(|place| [place.low, place.high]);
        let values = wanted.map(|place| (place, Datum::Null)).collect();
        Ok(Percentile { asked, rows, places, values, at: 0 })
    }

    fn take(&mut self, row: Row) {
        if let Some(value) = self.values.get_mut(&self.at) {
            *value = row.into_iter().next().unwrap_or_default();
        }
        self.at += 1;
    }

    fn answer(self, aggregate: &Aggregate) -> Result<Datum> {
        let between = |place: &Option<Place>| match place {
            None => Ok(Datum::Null),
            Some(place) => place.value(&self.values[&place.low], &self.values[&place.high]),
        };
        let mut values = self.places.iter().map(between).collect::<Result<Vec<Datum>>>()?;
        match &self.asked {
            Datum::Array(_) if self.rows == 0 => Ok(Datum::Null),
            Datum::Array(parts) => {
                let element = aggregate.result.element().and_then(ElementType::of);
                let element = element.expect("of an array of parts the result is one");
                Ok(Array::shaped(element, parts.dimensions().to_vec(), values)?.into())
            }
            _ => Ok(values.pop().unwrap_or_default()),
        }
    }
}

impl Place {
    fn of(set: OrderedSet, part: f64, rows: i64) -> Result<Place> {
        if !(0.0..=1.0).contains(&part) {
            let message = format!("percentile value {part} is not between 0 and 1");
            return Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, message));
        }
        if set == OrderedSet::Percentile {
            let number = (part * rows as f64).ceil().max(1.0) as u64;
            return Ok(Place { low: number - 1, high: number - 1, share: 0.0 });
        }
        let place = part * (rows - 1).max(0) as f64;
        let (low, high) = (place.floor(), place.ceil());
        Ok(Place { low: low as u64, high: high as u64, share: place - low })
    }

    fn value(&self, low: &Datum, high: &Datum) -> Result<Datum> {
        match (low, high) {
            (low, _) if self.low == self.high => Ok(low.clone()),
            (Datum::Float8(low), Datum::Float8(high)) => {
                Ok(Datum::Float8(low + self.share * (high - low)))
            }
            (Datum::Interval(low), Datum::Interval(high)) => {
                let part = high.checked_sub(*low).and_then(|span| span.checked_mul(self.share));
                let value = part.and_then(|part| part.checked_add(*low));
                value.map(Datum::Interval).ok_or_else(interval_out_of_range)
            }
            (low, high) => unreachable!("the binder casts the values: {low:?} {high:?}"),
        }
    }
}

/// Where the row that is asked about would stand.
pub(super) struct Rank {
    set: OrderedSet,
    asked: Row,
    rows: u64,
    /// Rows in front of it, and those beside it.
    below: u64,
    beside: u64,
    /// Different ones in front of it, of which this is the last.
    kinds: u64,
    last: Option<Row>,
}

impl Rank {
    fn new(set: OrderedSet, mut asked: Row) -> Rank {
        asked.resize(asked.len().max(ARGUMENTS), Datum::Null);
        Rank { set, asked, rows: 0, below: 0, beside: 0, kinds: 0, last: None }
    }

    fn take(&mut self, aggregate: &Aggregate, row: Row) {
        self.rows += 1;
        match compare(&row, &self.asked, &aggregate.keys) {
            Ordering::Greater => {}
            Ordering::Equal => self.beside += 1,
            Ordering::Less => {
                self.below += 1;
                let is_new = |last: &Row| compare(last, &row, &aggregate.keys).is_ne();
                self.kinds += u64::from(self.last.as_ref().is_none_or(is_new));
                self.last = Some(row);
            }
        }
    }

    fn answer(&self) -> Datum {
        let rows = self.rows as f64;
        match self.set {
            OrderedSet::Rank => Datum::Int8(self.below as i64 + 1),
            OrderedSet::DenseRank => Datum::Int8(self.kinds as i64 + 1),
            OrderedSet::PercentRank if self.rows == 0 => Datum::Float8(0.0),
            OrderedSet::PercentRank => Datum::Float8(self.below as f64 / rows),
            _ => Datum::Float8((self.below + self.beside + 1) as f64 / (rows + 1.0)),
        }
    }
}
