//! Aggregates whose rows have an order: a call with ORDER BY, and questions about ordered sets.
//!
//! The rows of a group are put in order when all of them are there. A plain aggregate then takes
//! them one by one, as PostgreSQL's does.
//!
//! Invariants: the rows were counted when they were gathered; what is wrong with a question is said
//! whether or not there are rows. Does not do: rows of one group beyond the memory budget, which
//! fail with `53200`.

use std::cmp::Ordering;

use crate::error::{Result, SqlError, code};
use crate::exec::query::compare;
use crate::exec::sort::in_order;
use crate::expr::aggregate::{ARGUMENTS, Aggregate, Input, Kind, OrderedSet, State};
use crate::expr::{Context, names_columns};
use crate::types::calendar::interval_out_of_range;
use crate::types::{Datum, Row};

/// The result of an aggregate over what it has gathered.
pub(super) fn finish(aggregate: &Aggregate, mut state: State, context: &Context) -> Result<Datum> {
    aggregate.take_distinct(&mut state)?;
    let rows = state.give_up_rows();
    let rows = in_order(rows, context, |a, b| compare(a, b, &aggregate.keys))?;
    let Kind::OrderedSet(set) = aggregate.kind else {
        for row in rows {
            context.spend(1)?;
            aggregate.take_now(&mut state, Input::of_row(row))?;
        }
        return aggregate.finish(state);
    };
    // Where no row said what is asked, it is said without one, if it can be.
    let direct = match state.direct() {
        Some(direct) => direct,
        None if aggregate.direct.iter().any(names_columns) => {
            vec![Datum::Null; aggregate.direct.len()]
        }
        None => {
            let values = aggregate.direct.iter().map(|expr| expr.eval(&[], context));
            values.collect::<Result<Row>>()?
        }
    };
    match set {
        OrderedSet::Mode => mode(aggregate, rows, context),
        OrderedSet::Between | OrderedSet::Percentile => percentile(set, &direct, rows),
        _ => rank(aggregate, set, direct, &rows),
    }
}

/// The value that is there most often, the first of several.
fn mode(aggregate: &Aggregate, rows: Vec<Row>, context: &Context) -> Result<Datum> {
    let (mut best, mut most) = (0, 0);
    let mut start = 0;
    for at in 0..rows.len() {
        context.spend(1)?;
        let is_last = rows.get(at + 1).is_none_or(|next| {
            compare(&rows[at], next, &aggregate.keys).is_ne()
                || next[0].compare(&rows[at][0]).is_ne()
        });
        if is_last {
            if at + 1 - start > most {
                (best, most) = (start, at + 1 - start);
            }
            start = at + 1;
        }
    }
    Ok(rows.into_iter().nth(best).map_or(Datum::Null, first_of))
}

fn first_of(row: Row) -> Datum {
    row.into_iter().next().unwrap_or_default()
}

/// `percentile_disc` and `percentile_cont`.
fn percentile(set: OrderedSet, direct: &[Datum], rows: Vec<Row>) -> Result<Datum> {
    let Some(Datum::Float8(part)) = direct.first() else { return Ok(Datum::Null) };
    if !(0.0..=1.0).contains(part) {
        let message = format!("percentile value {part} is not between 0 and 1");
        return Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, message));
    }
    if rows.is_empty() {
        return Ok(Datum::Null);
    }
    if set == OrderedSet::Percentile {
        let number = (part * rows.len() as f64).ceil().max(1.0) as usize;
        return Ok(rows.into_iter().nth(number - 1).map_or(Datum::Null, first_of));
    }
    let place = part * (rows.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    if low == high {
        return Ok(rows.into_iter().nth(low).map_or(Datum::Null, first_of));
    }
    let share = place - low as f64;
    match (&rows[low][0], &rows[high][0]) {
        (Datum::Float8(low), Datum::Float8(high)) => Ok(Datum::Float8(low + share * (high - low))),
        (Datum::Interval(low), Datum::Interval(high)) => {
            let part = high.checked_sub(*low).and_then(|span| span.checked_mul(share));
            let value = part.and_then(|part| part.checked_add(*low));
            value.map(Datum::Interval).ok_or_else(interval_out_of_range)
        }
        (low, high) => unreachable!("the binder casts the values: {low:?} {high:?}"),
    }
}

/// Where the row that is asked about would stand.
fn rank(aggregate: &Aggregate, set: OrderedSet, asked: Row, rows: &[Row]) -> Result<Datum> {
    let mut row = asked;
    row.resize(row.len().max(ARGUMENTS), Datum::Null);
    let place = |before: fn(Ordering) -> bool| {
        rows.partition_point(|other| before(compare(other, &row, &aggregate.keys)))
    };
    let below = place(Ordering::is_lt);
    Ok(match set {
        OrderedSet::Rank => Datum::Int8(below as i64 + 1),
        OrderedSet::DenseRank => {
            let is_new = |pair: &&[Row]| compare(&pair[0], &pair[1], &aggregate.keys).is_ne();
            let groups = rows[..below].windows(2).filter(is_new).count() + usize::from(below > 0);
            Datum::Int8(groups as i64 + 1)
        }
        OrderedSet::PercentRank if rows.is_empty() => Datum::Float8(0.0),
        OrderedSet::PercentRank => Datum::Float8(below as f64 / rows.len() as f64),
        _ => {
            let through = place(Ordering::is_le);
            Datum::Float8((through + 1) as f64 / (rows.len() + 1) as f64)
        }
    })
}
