//! Values of columns with elements or members assigned, as PostgreSQL's `array_set_element`,
//! `array_set_slice` and `jsonb_set_element` have them.
//!
//! The first two arguments are the old value and what is assigned. Of arrays an empty one follows,
//! which tells the type of the elements, and of all the subscripts.
//!
//! Invariants: subscripts are never null. A column that is null begins as an empty array or
//! document. Only an array of one dimension grows, and gaps are filled with nulls.
//! Does not do: paths of functions such as `jsonb_set` (`json::change`).

use crate::error::{Result, SqlError, code};
use crate::expr::arrays::{
    Definition, Eval, NO_BOUND, array, check_fits, integer, maybe_array, null_subscript, region,
};
use crate::expr::{Context, json};
use crate::types::array::{Array, Dimension, count, too_large};
use crate::types::{Datum, SqlType};

/// `a[i] = x`, `a[i:j] = x`, `document[key] = x`.
pub(crate) const ELEMENT: &str = "array element assigned";
pub(crate) const SLICE: &str = "array slice assigned";
pub(crate) const MEMBER: &str = "member assigned";

/// Where the subscripts of an array begin among the arguments.
const SUBSCRIPTS: usize = 3;

/// All of them; each takes a list.
pub(super) fn definitions() -> impl Iterator<Item = Definition> {
    let all: [(&'static str, Eval); 3] =
        [(ELEMENT, set_element), (SLICE, set_slice), (MEMBER, json::set_member)];
    all.into_iter().map(|(name, eval)| Definition {
        name,
        count: 1,
        variadic: true,
        strict: false,
        result: SqlType::Unknown,
        eval,
    })
}

/// Subscripts of one dimension from the first to the last that are assigned to.
#[derive(Clone, Copy)]
struct Span {
    low: i32,
    high: i32,
}

impl Span {
    fn is_within(self, dimension: Dimension) -> bool {
        dimension.lower <= self.low && self.high <= dimension.upper()
    }

    /// How many subscripts they are.
    ///
    /// # Errors
    /// `54000` if there are more than an array can have.
    fn length(self) -> Result<i32> {
        let length = i64::from(self.high) - i64::from(self.low) + 1;
        i32::try_from(length).map_err(|_| too_large())
    }

    fn dimension(self) -> Result<Dimension> {
        Ok(Dimension { lower: self.low, length: self.length()? })
    }
}

fn fault(message: &str) -> SqlError {
    SqlError::new(code::ARRAY_SUBSCRIPT, message)
}

fn subscript(value: &Datum) -> Result<i32> {
    if value.is_null() { Err(null_subscript("array")) } else { Ok(integer(value)) }
}

/// What the column has.
fn whole(values: &[Datum]) -> &Datum {
    if values[0].is_null() { &values[2] } else { &values[0] }
}

fn set_element(values: &[Datum], context: &Context) -> Result<Datum> {
    let span = |value| subscript(value).map(|at| Span { low: at, high: at });
    let spans = values[SUBSCRIPTS..].iter().map(span).collect::<Result<Vec<Span>>>()?;
    let old = array(std::slice::from_ref(whole(values)), 0);
    let new = std::slice::from_ref(&values[1]);
    match old.dimensions() {
        [] => shaped(old, &spans, new),
        own if own.len() != spans.len() => Err(fault("wrong number of array subscripts")),
        _ => replaced(old, &spans, new, context),
    }
}

/// Two arguments a dimension.
fn set_slice(values: &[Datum], context: &Context) -> Result<Datum> {
    let bound = |value: &Datum| match value {
        value if *value == NO_BOUND => Ok(None),
        value => subscript(value).map(Some),
    };
    let bounds = values[SUBSCRIPTS..].iter().map(bound).collect::<Result<Vec<Option<i32>>>>()?;
    // A null changes nothing.
    let Some(new) = maybe_array(values, 1) else { return Ok(whole(values).clone()) };
    let old = array(std::slice::from_ref(whole(values)), 0);
    let own = old.dimensions();
    if own.is_empty() {
        let span = |pair: &[Option<i32>]| match *pair {
            [Some(low), Some(high)] => Ok(Span { low, high }),
            _ => Err(fault("array slice subscript must provide both boundaries").detail(
                "When assigning to a slice of an empty array value, slice boundaries must be \
                 fully specified.",
            )),
        };
        let spans = bounds.chunks(2).map(span).collect::<Result<Vec<Span>>>()?;
        return shaped(old, &spans, new.values());
    }
    if own.len() < bounds.len() / 2 {
        return Err(fault("wrong number of array subscripts"));
    }
    let given = |at: usize| bounds.get(at).copied().flatten();
    let mut spans = Vec::with_capacity(own.len());
    for (at, dimension) in own.iter().enumerate() {
        let low = given(2 * at).unwrap_or(dimension.lower);
        let span = Span { low, high: given(2 * at + 1).unwrap_or(dimension.upper()) };
        if span.low > span.high {
            return Err(fault("upper bound cannot be less than lower bound"));
        }
        spans.push(span);
    }
    replaced(old, &spans, new.values(), context)
}

/// An array of nothing but what is assigned, of which more may be given.
fn shaped(old: &Array, spans: &[Span], new: &[Datum]) -> Result<Datum> {
    let dimensions = dimensions(spans)?;
    let new = new.get(..count(&dimensions)?).ok_or_else(too_small)?;
    Ok(Array::shaped(old.element(), dimensions, new.to_vec())?.into())
}

fn dimensions(spans: &[Span]) -> Result<Vec<Dimension>> {
    spans.iter().map(|span| span.dimension()).collect()
}

fn too_small() -> SqlError {
    fault("source array too small")
}

/// An array that has elements, with those in `spans`, one for each dimension, replaced by new ones.
fn replaced(old: &Array, spans: &[Span], new: &[Datum], context: &Context) -> Result<Datum> {
    let own = old.dimensions();
    let mut grown = own.to_vec();
    if let ([dimension], [span]) = (grown.as_mut_slice(), spans) {
        let low = dimension.lower.min(span.low);
        *dimension = Span { low, high: dimension.upper().max(span.high) }.dimension()?;
    } else if own.iter().zip(spans).any(|(dimension, span)| !span.is_within(*dimension)) {
        return Err(fault("array subscript out of range"));
    }
    let total = count(&grown)?;
    let new = new.get(..count(&dimensions(spans)?)?).ok_or_else(too_small)?;
    check_fits(total, context)?;
    let mut values = vec![Datum::Null; (own[0].lower - grown[0].lower) as usize];
    values.reserve_exact(total - values.len());
    values.extend_from_slice(old.values());
    values.resize(total, Datum::Null);
    let place = |(dimension, span): (&Dimension, &Span)| {
        let first = (span.low - dimension.lower) as usize;
        first..first + (span.high - span.low) as usize + 1
    };
    let parts: Vec<_> = grown.iter().zip(spans).map(place).collect();
    for (place, new) in region(&grown, &parts).into_iter().zip(new) {
        values[place] = new.clone();
    }
    Ok(Array::shaped(old.element(), grown, values)?.into())
}
