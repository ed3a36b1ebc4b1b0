//! Functions and operators of arrays, as PostgreSQL's `array_userfuncs.c` and `arrayfuncs.c` have
//! them.
//!
//! The registry keeps them apart from all others: `bind::array`, which knows the types, chooses.
//! What makes an array of values that may all be null gets an empty array besides, as its last
//! argument, which tells the type of the elements.
//!
//! Invariants: elements are equal where `=` of their type says so; what is made fits the memory
//! budget before it is made.
//! Does not do: types of results, rows of `unnest`, assignments to elements (`assign`).

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::length::check_length;
use crate::expr::operators::{mismatch, out_of_range};
use crate::types::array::{Array, Dimension, count, too_many_dimensions};
use crate::types::{Datum, SqlType};

/// `ARRAY[..]` of values, `ARRAY[..]` of arrays, a subscript, subscripts of which one is a slice.
pub(crate) const OF_VALUES: &str = "array of";
pub(crate) const OF_ARRAYS: &str = "array of arrays";
pub(crate) const ELEMENT: &str = "array element";
pub(crate) const SLICE: &str = "array slice";

/// In an argument of [`SLICE`]: the bound is not written.
pub(crate) const NO_BOUND: Datum = Datum::Bool(false);

/// From so many elements on, those of one array are sorted before others are looked up there.
const SORTED: usize = 16;

/// What a function is called and does; its arguments may be of any type.
pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) count: usize,
    pub(super) variadic: bool,
    pub(super) strict: bool,
    pub(super) result: SqlType,
    pub(super) eval: Eval,
}

pub(super) type Eval = fn(&[Datum], &Context) -> Result<Datum>;

/// Of all labels of an enum those from one to another; a null is an end that is open.
fn labels_between(v: &[Datum], _: &Context) -> Result<Datum> {
    let all = array(v, 0);
    let within = |value: &&Datum| {
        (v[1].is_null() || value.compare(&v[1]).is_ge())
            && (v[2].is_null() || value.compare(&v[2]).is_le())
    };
    let values = all.values().iter().filter(within).cloned().collect();
    Ok(Array::of(all.element(), values)?.into())
}

/// All of them.
pub(super) fn definitions() -> Vec<Definition> {
    use SqlType as T;
    let define = |name, count, strict, result, eval| Definition {
        name,
        count,
        variadic: false,
        strict,
        result,
        eval,
    };
    // Those that take a list, then those that look at nulls among their arguments.
    let lists: [(&'static str, bool, Eval); 4] = [
        (OF_VALUES, false, of_values),
        (OF_ARRAYS, false, of_arrays),
        (ELEMENT, true, element),
        (SLICE, true, slice),
    ];
    let lenient: [(&'static str, usize, T, Eval); 11] = [
        ("enum_range", 3, T::Unknown, labels_between),
        ("array_append", 3, T::Unknown, |v, context| added(v, true, context)),
        ("array_prepend", 3, T::Unknown, |v, context| added(v, false, context)),
        ("array_cat", 2, T::Unknown, joined),
        ("array_position", 2, T::Int4, position),
        ("array_position", 3, T::Int4, position),
        ("array_positions", 2, T::Unknown, positions),
        ("array_remove", 2, T::Unknown, remove),
        ("array_replace", 3, T::Unknown, replace),
        ("array_to_string", 3, T::Text, to_string),
        ("array_fill", 4, T::Unknown, fill),
    ];
    let strict: [(&'static str, usize, T, Eval); 11] = [
        ("array_length", 2, T::Int4, |v, _| of_dimension(v, |d| d.length)),
        ("array_lower", 2, T::Int4, |v, _| of_dimension(v, |d| d.lower)),
        ("array_upper", 2, T::Int4, |v, _| of_dimension(v, Dimension::upper)),
        ("array_ndims", 1, T::Int4, |v, _| {
            let dimensions = array(v, 0).dimensions().len();
            Ok(if dimensions == 0 { Datum::Null } else { Datum::Int4(dimensions as i32) })
        }),
        ("array_dims", 1, T::Text, dims),
        ("cardinality", 1, T::Int4, |v, _| Ok(Datum::Int4(array(v, 0).values().len() as i32))),
        ("array_to_string", 2, T::Text, to_string),
        ("trim_array", 2, T::Unknown, trim),
        ("@>", 2, T::Bool, |v, context| contains_all(array(v, 0), array(v, 1), context)),
        ("<@", 2, T::Bool, |v, context| contains_all(array(v, 1), array(v, 0), context)),
        ("&&", 2, T::Bool, overlap),
    ];
    let mut all = Vec::new();
    for (name, strict, eval) in lists {
        all.push(Definition { variadic: true, ..define(name, 1, strict, T::Unknown, eval) });
    }
    for (name, count, result, eval) in lenient {
        all.push(define(name, count, false, result, eval));
    }
    for (name, count, result, eval) in strict {
        all.push(define(name, count, true, result, eval));
    }
    all
}

pub(super) fn array(values: &[Datum], at: usize) -> &Array {
    match &values[at] {
        Datum::Array(array) => array,
        _ => mismatch(values),
    }
}

/// The array in this place; none for null.
pub(super) fn maybe_array(values: &[Datum], at: usize) -> Option<&Arc<Array>> {
    match &values[at] {
        Datum::Array(array) => Some(array),
        Datum::Null => None,
        _ => mismatch(values),
    }
}

pub(super) fn integer(value: &Datum) -> i32 {
    match value {
        Datum::Int4(value) => *value,
        other => mismatch(std::slice::from_ref(other)),
    }
}

/// Is an element equal to a value? A null is equal to a null.
fn is_same(array: &Array, element: &Datum, value: &Datum) -> bool {
    array.compare_elements(element, value) == Ordering::Equal
}

/// Fails where so many elements do not fit the memory beside what is held.
pub(super) fn check_fits(count: usize, context: &Context) -> Result<()> {
    context.spend(count)?;
    context.held.check_fits(count.saturating_mul(size_of::<Datum>()))
}

/// `ARRAY[a, b]`; the first argument tells the type.
fn of_values(values: &[Datum], context: &Context) -> Result<Datum> {
    check_fits(values.len(), context)?;
    Ok(Array::of(array(values, 0).element(), values[1..].to_vec())?.into())
}

/// `ARRAY[a, b]` of arrays, which must be of one shape; the first argument tells the type.
fn of_arrays(values: &[Datum], context: &Context) -> Result<Datum> {
    let (first, arrays) = (array(values, 0), &values[1..]);
    let filled = |at: usize| maybe_array(arrays, at).filter(|array| !array.dimensions().is_empty());
    let filled: Vec<&Arc<Array>> = (0..arrays.len()).filter_map(filled).collect();
    let Some(model) = filled.first() else { return Ok(Array::empty(first.element()).into()) };
    let inner = model.dimensions();
    if filled.len() < arrays.len() || filled.iter().any(|other| other.dimensions() != inner) {
        let message = "multidimensional arrays must have array expressions with matching \
                       dimensions";
        return Err(SqlError::new(code::ARRAY_SUBSCRIPT, message));
    }
    stacked(&filled, context)
}

/// Arrays of one shape, one behind the other along a dimension of their own.
pub(crate) fn stacked(arrays: &[&Arc<Array>], context: &Context) -> Result<Datum> {
    let (inner, element) = (arrays[0].dimensions(), arrays[0].element());
    let mut dimensions = vec![Dimension { lower: 1, length: arrays.len() as i32 }];
    dimensions.extend_from_slice(inner);
    check_fits(count(&dimensions)?, context)?;
    let values = arrays.iter().flat_map(|array| array.values().iter().cloned()).collect();
    Ok(Array::shaped(element, dimensions, values)?.into())
}

/// `array[i][j]`
fn element(values: &[Datum], _: &Context) -> Result<Datum> {
    let array = array(values, 0);
    let subscripts: Vec<i32> = values[1..].iter().map(integer).collect();
    let place = array.place(&subscripts);
    Ok(place.map_or(Datum::Null, |place| array.values()[place].clone()))
}

/// `array[i:j]`: two arguments a dimension.
fn slice(values: &[Datum], context: &Context) -> Result<Datum> {
    let bound = |value: &Datum| if *value == NO_BOUND { None } else { Some(integer(value)) };
    let bounds: Vec<[Option<i32>; 2]> =
        values[1..].chunks(2).map(|pair| [bound(&pair[0]), bound(&pair[1])]).collect();
    sliced(array(values, 0), &bounds, context)
}

fn sliced(array: &Array, bounds: &[[Option<i32>; 2]], context: &Context) -> Result<Datum> {
    let empty = || Ok(Array::empty(array.element()).into());
    let own = array.dimensions();
    if own.len() < bounds.len() || own.is_empty() {
        return empty();
    }
    // Of each dimension the places that are taken.
    let mut parts = Vec::with_capacity(own.len());
    for (at, dimension) in own.iter().enumerate() {
        let [low, high] = bounds.get(at).copied().unwrap_or_default();
        let low = low.map_or(dimension.lower, |low| low.max(dimension.lower));
        let high = high.map_or(dimension.upper(), |high| high.min(dimension.upper()));
        if low > high {
            return empty();
        }
        parts.push((low - dimension.lower) as usize..(high - dimension.lower) as usize + 1);
    }
    let dimension = |part: &Range<usize>| Dimension { lower: 1, length: part.len() as i32 };
    let dimensions: Vec<Dimension> = parts.iter().map(dimension).collect();
    check_fits(count(&dimensions)?, context)?;
    let values = region(own, &parts).into_iter().map(|at| array.values()[at].clone()).collect();
    Ok(Array::shaped(array.element(), dimensions, values)?.into())
}

/// The error for a null among the subscripts of an array or a `jsonb` that is assigned to.
pub(super) fn null_subscript(what: &str) -> SqlError {
    let message = format!("{what} subscript in assignment must not be null");
    SqlError::new(code::NULL_NOT_ALLOWED, message)
}

/// Where the elements of an array lie that are in these parts of its dimensions.
pub(super) fn region(dimensions: &[Dimension], parts: &[Range<usize>]) -> Vec<usize> {
    let mut stride: usize = dimensions.iter().map(|one| one.length as usize).product();
    let mut places = vec![0];
    for (dimension, part) in dimensions.iter().zip(parts) {
        stride /= dimension.length as usize;
        let within = |place: usize| part.clone().map(move |step| place + step * stride);
        places = places.into_iter().flat_map(within).collect();
    }
    places
}

/// `array_append` and `array_prepend`.
fn added(values: &[Datum], behind: bool, context: &Context) -> Result<Datum> {
    let (at, value) = if behind { (0, &values[1]) } else { (1, &values[0]) };
    let empty = Arc::new(Array::empty(array(values, 2).element()));
    let old = maybe_array(values, at).unwrap_or(&empty);
    let lower = match old.dimensions() {
        [] => 1,
        [one] => one.lower,
        _ => {
            let message = "argument must be empty or one-dimensional array";
            return Err(SqlError::new("22000", message));
        }
    };
    let is_end = match behind {
        true => old.dimensions().iter().any(|one| one.upper() == i32::MAX),
        false => !old.dimensions().is_empty() && lower == i32::MIN,
    };
    if is_end {
        return Err(out_of_range("integer out of range"));
    }
    check_fits(old.values().len() + 1, context)?;
    let mut all = Vec::with_capacity(old.values().len() + 1);
    all.extend((!behind).then(|| value.clone()));
    all.extend_from_slice(old.values());
    all.extend(behind.then(|| value.clone()));
    Ok(Array::from_first(old.element(), lower, all)?.into())
}

/// `array_cat`
fn joined(values: &[Datum], context: &Context) -> Result<Datum> {
    let (a, b) = match (maybe_array(values, 0), maybe_array(values, 1)) {
        (None, None) => return Ok(Datum::Null),
        (Some(one), None) | (None, Some(one)) => return Ok(Datum::Array(Arc::clone(one))),
        (Some(a), Some(b)) => (a, b),
    };
    let (of_a, of_b) = (a.dimensions(), b.dimensions());
    if of_a.is_empty() || of_b.is_empty() {
        return Ok(Datum::Array(Arc::clone(if of_a.is_empty() { b } else { a })));
    }
    let incompatible = |detail: String| {
        let message = "cannot concatenate incompatible arrays";
        Err(SqlError::new(code::ARRAY_SUBSCRIPT, message).detail(detail))
    };
    let (mut dimensions, more, same) = match of_a.len() as i64 - of_b.len() as i64 {
        0 => (of_a.to_vec(), of_b[0].length, of_a[1..] == of_b[1..]),
        1 => (of_a.to_vec(), 1, of_a[1..] == *of_b),
        -1 => (of_b.to_vec(), 1, *of_a == of_b[1..]),
        _ => {
            let (a, b) = (of_a.len(), of_b.len());
            return incompatible(format!(
                "Arrays of {a} and {b} dimensions are not compatible for concatenation."
            ));
        }
    };
    if !same {
        let what = if of_a.len() == of_b.len() { "element dimensions" } else { "dimensions" };
        return incompatible(format!(
            "Arrays with differing {what} are not compatible for concatenation."
        ));
    }
    let length = dimensions[0].length.checked_add(more);
    dimensions[0].length = length.ok_or_else(crate::types::array::too_large)?;
    check_fits(count(&dimensions)?, context)?;
    let all = a.values().iter().chain(b.values()).cloned().collect();
    Ok(Array::shaped(a.element(), dimensions, all)?.into())
}

fn of_dimension(values: &[Datum], what: fn(Dimension) -> i32) -> Result<Datum> {
    let at = usize::try_from(integer(&values[1])).ok().and_then(|at| at.checked_sub(1));
    let found = at.and_then(|at| array(values, 0).dimensions().get(at));
    Ok(found.map_or(Datum::Null, |dimension| Datum::Int4(what(*dimension))))
}

fn dims(values: &[Datum], _: &Context) -> Result<Datum> {
    let dimensions = array(values, 0).dimensions();
    let one = |one: &Dimension| format!("[{}:{}]", one.lower, one.upper());
    Ok(match dimensions.is_empty() {
        true => Datum::Null,
        false => Datum::Text(dimensions.iter().map(one).collect()),
    })
}

/// The subscript of the first element of an array of at most one dimension.
fn first_of(array: &Array) -> Result<i32> {
    match array.dimensions() {
        [] => Ok(1),
        [one] => Ok(one.lower),
        _ => {
            let what = "searching for elements in multidimensional arrays is not supported";
            Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, what))
        }
    }
}

fn position(values: &[Datum], context: &Context) -> Result<Datum> {
    let Some(array) = maybe_array(values, 0) else { return Ok(Datum::Null) };
    let first = first_of(array)?;
    if array.values().is_empty() {
        return Ok(Datum::Null);
    }
    let from = match values.get(2) {
        None => first,
        Some(Datum::Null) => {
            let message = "initial position must not be null";
            return Err(SqlError::new(code::NULL_NOT_ALLOWED, message));
        }
        Some(from) => integer(from),
    };
    context.spend(array.values().len())?;
    let mut all = array.values().iter().zip(first..).filter(|(_, at)| *at >= from);
    let found = all.find(|(element, _)| is_same(array, element, &values[1]));
    Ok(found.map_or(Datum::Null, |(_, at)| Datum::Int4(at)))
}

fn positions(values: &[Datum], context: &Context) -> Result<Datum> {
    let Some(array) = maybe_array(values, 0) else { return Ok(Datum::Null) };
    let first = first_of(array)?;
    context.spend(array.values().len())?;
    let all = array.values().iter().zip(first..);
    let found = all.filter(|(element, _)| is_same(array, element, &values[1]));
    let found = found.map(|(_, at)| Datum::Int4(at)).collect();
    let integers = crate::types::ElementType::of(SqlType::Int4).expect("integers are elements");
    Ok(Array::of(integers, found)?.into())
}

fn remove(values: &[Datum], context: &Context) -> Result<Datum> {
    let Some(array) = maybe_array(values, 0) else { return Ok(Datum::Null) };
    let lower = match array.dimensions() {
        [] => return Ok(values[0].clone()),
        [one] => one.lower,
        _ => {
            let what = "removing elements from multidimensional arrays is not supported";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, what));
        }
    };
    check_fits(array.values().len(), context)?;
    let kept = array.values().iter().filter(|element| !is_same(array, element, &values[1]));
    Ok(Array::from_first(array.element(), lower, kept.cloned().collect())?.into())
}

fn replace(values: &[Datum], context: &Context) -> Result<Datum> {
    let Some(array) = maybe_array(values, 0) else { return Ok(Datum::Null) };
    check_fits(array.values().len(), context)?;
    let replaced = array.mapped(array.element(), |element| {
        let is_found = is_same(array, element, &values[1]);
        Ok(if is_found { values[2].clone() } else { element.clone() })
    });
    Ok(replaced?.into())
}

fn to_string(values: &[Datum], context: &Context) -> Result<Datum> {
    let (Some(array), Datum::Text(delimiter)) = (maybe_array(values, 0), &values[1]) else {
        return Ok(Datum::Null);
    };
    let null = match values.get(2) {
        Some(Datum::Text(null)) => Some(null),
        _ => None,
    };
    let mut out = String::new();
    let mut is_first = true;
    for element in array.values() {
        if element.is_null() && null.is_none() {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            out.push_str(delimiter);
        }
        match (element, null) {
            (Datum::Null, Some(null)) => out.push_str(null),
            (element, _) => element.write_text_in(&context.times, &mut out),
        }
        check_length(out.len())?;
    }
    Ok(Datum::Text(out))
}

/// `string_to_array`
pub(super) fn of_string(values: &[Datum], context: &Context) -> Result<Datum> {
    let Datum::Text(text) = &values[0] else { return Ok(Datum::Null) };
    let texts = crate::types::ElementType::of(SqlType::Text).expect("texts are elements");
    let null = match values.get(2) {
        Some(Datum::Text(null)) => Some(null.as_str()),
        _ => None,
    };
    let one = |part: &str| match null == Some(part) {
        true => Datum::Null,
        false => Datum::Text(part.to_owned()),
    };
    let parts: Vec<Datum> = match &values[1] {
        _ if text.is_empty() => Vec::new(),
        Datum::Text(delimiter) if delimiter.is_empty() => vec![one(text)],
        Datum::Text(delimiter) => {
            check_fits(text.matches(delimiter.as_str()).count() + 1, context)?;
            text.split(delimiter.as_str()).map(one).collect()
        }
        _ => {
            check_fits(text.len(), context)?;
            text.chars().map(|c| one(c.encode_utf8(&mut [0; 4]))).collect()
        }
    };
    Ok(Array::of(texts, parts)?.into())
}

/// The integers of an array that says something of each dimension.
fn integers(value: &Datum, what: &str) -> Result<Vec<i32>> {
    let null = |message: &str| SqlError::new(code::NULL_NOT_ALLOWED, message);
    let Datum::Array(array) = value else {
        return Err(null("dimension array or low bound array cannot be null"));
    };
    if array.dimensions().len() > 1 {
        let message = "wrong number of array subscripts";
        return Err(SqlError::new(code::ARRAY_SUBSCRIPT, message).detail(what));
    }
    if array.values().iter().any(Datum::is_null) {
        return Err(null("dimension values cannot be null"));
    }
    Ok(array.values().iter().map(integer).collect())
}

/// `array_fill`; a lower bound array that is not written is [`NO_BOUND`].
fn fill(values: &[Datum], context: &Context) -> Result<Datum> {
    let one = "Dimension array must be one dimensional.";
    let lengths = integers(&values[1], one)?;
    let lowers = match &values[2] {
        given if *given == NO_BOUND => vec![1; lengths.len()],
        given => integers(given, one)?,
    };
    if lengths.len() > crate::types::array::MAX_DIMENSIONS {
        return Err(too_many_dimensions(lengths.len()));
    }
    if lengths.len() != lowers.len() {
        let message = "wrong number of array subscripts";
        let detail = "Low bound array has different size than dimensions array.";
        return Err(SqlError::new(code::ARRAY_SUBSCRIPT, message).detail(detail));
    }
    let pairs = lengths.into_iter().zip(lowers);
    let dimensions: Vec<Dimension> =
        pairs.map(|(length, lower)| Dimension { lower, length }).collect();
    let count = count(&dimensions)?;
    check_fits(count.saturating_mul(1 + values[0].heap_bytes() / size_of::<Datum>()), context)?;
    let element = array(values, 3).element();
    Ok(Array::shaped(element, dimensions, vec![values[0].clone(); count])?.into())
}

fn trim(values: &[Datum], context: &Context) -> Result<Datum> {
    let (array, cut) = (array(values, 0), integer(&values[1]));
    let (lower, length) = array.dimensions().first().map_or((1, 0), |one| (one.lower, one.length));
    if !(0..=length).contains(&cut) {
        let message = format!("number of elements to trim must be between 0 and {length}");
        return Err(SqlError::new(code::ARRAY_SUBSCRIPT, message));
    }
    if cut == length {
        return Ok(Array::empty(array.element()).into());
    }
    sliced(array, &[[None, Some(lower + (length - cut - 1))]], context)
}

/// The elements of an array that are not null, to look others up among.
struct Lookup<'a> {
    array: &'a Array,
    elements: Vec<&'a Datum>,
    is_sorted: bool,
}

impl<'a> Lookup<'a> {
    fn new(array: &'a Array, context: &Context) -> Result<Lookup<'a>> {
        let mut elements: Vec<&Datum> = array.values().iter().filter(|v| !v.is_null()).collect();
        let is_sorted = elements.len() >= SORTED;
        if is_sorted {
            context.spend(elements.len() * 8)?;
            elements.sort_by(|a, b| array.compare_elements(a, b));
        }
        Ok(Lookup { array, elements, is_sorted })
    }

    fn has(&self, value: &Datum) -> bool {
        let compare = |element: &&Datum| self.array.compare_elements(element, value);
        match self.is_sorted {
            true => self.elements.binary_search_by(compare).is_ok(),
            false => self.elements.iter().any(|element| compare(element).is_eq()),
        }
    }
}

fn contains_all(whole: &Array, part: &Array, context: &Context) -> Result<Datum> {
    let known = Lookup::new(whole, context)?;
    context.spend(part.values().len())?;
    Ok(Datum::Bool(part.values().iter().all(|value| !value.is_null() && known.has(value))))
}

fn overlap(values: &[Datum], context: &Context) -> Result<Datum> {
    let (a, b) = (array(values, 0), array(values, 1));
    let known = Lookup::new(a, context)?;
    context.spend(b.values().len())?;
    Ok(Datum::Bool(b.values().iter().any(|value| !value.is_null() && known.has(value))))
}
