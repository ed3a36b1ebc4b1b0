//! `to_char`, `to_number`, `to_date` and `to_timestamp`: values by patterns.
//!
//! | file | hides |
//! |---|---|
//! | `pattern` | patterns of dates and times |
//! | `moment` | dates, times and intervals by a pattern |
//! | `from_text` | dates and timestamps out of a text by a pattern |
//! | `number` | numbers by a pattern, both ways |
//! | `digits` | the digits of numbers of each type |
//!
//! The functions follow PostgreSQL's `formatting.c`.
//!
//! Invariants: what a pattern gives is counted before it is made.
//! Does not do: names and signs of other locales than C.

mod digits;
mod from_text;
mod moment;
mod number;
mod pattern;

use rightlink::internal::datum::{DATES, TIMESTAMPS};

use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::function::Registry;
use crate::expr::length::check_length;
use crate::expr::operators::mismatch;
use crate::types::calendar::{self, MICROS_PER_DAY, overflow};
use crate::types::declared::Modifier;
use crate::types::{Datum, SqlType, numeric};
use moment::Fields;
use number::Pattern;

/// Most bytes that a field of a pattern becomes for a byte of it.
const MOST_BYTES: usize = 8;

/// Digits behind the point of a number that was shifted.
const SHIFTED_DIGITS: i32 = 16;

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    for ty in [T::Timestamp, T::Timestamptz, T::Interval] {
        registry.add("to_char", &[ty, T::Text], T::Text, of_moment);
    }
    for ty in [T::Int4, T::Int8, T::Numeric, T::Float4, T::Float8] {
        registry.add("to_char", &[ty, T::Text], T::Text, of_number);
    }
    registry.add("to_number", &[T::Text, T::Text], T::Numeric, to_number);
    registry.add("to_date", &[T::Text, T::Text], T::Date, to_date);
    registry.add("to_timestamp", &[T::Text, T::Text], T::Timestamptz, to_timestamp);
}

fn check_pattern(pattern: &str, context: &Context) -> Result<()> {
    check_length(pattern.len().saturating_mul(MOST_BYTES))?;
    context.held.check_fits(pattern.len() * (MOST_BYTES + size_of::<pattern::Piece>()))
}

fn of_moment(values: &[Datum], context: &Context) -> Result<Datum> {
    let [value, Datum::Text(pattern)] = values else { return mismatch(values) };
    check_pattern(pattern, context)?;
    let fields = match value {
        _ if pattern.is_empty() => return Ok(Datum::Null),
        Datum::Interval(span) => Fields::of_interval(*span),
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) if !calendar::is_finite(*micros) => {
            return Ok(Datum::Null);
        }
        Datum::Timestamp(micros) => Fields::of_moment(*micros, None),
        Datum::Timestamptz(micros) => {
            let zone = context.times.zone().at(*micros);
            Fields::of_moment(context.times.zone().local_of(*micros), Some(zone))
        }
        _ => return mismatch(values),
    };
    let mut out = String::new();
    fields.write(&pattern::pieces(pattern), &mut out)?;
    Ok(Datum::Text(out))
}

fn of_number(values: &[Datum], context: &Context) -> Result<Datum> {
    let [value, Datum::Text(pattern)] = values else { return mismatch(values) };
    check_pattern(pattern, context)?;
    if pattern.is_empty() {
        return Ok(Datum::Text(String::new()));
    }
    digits::to_char(value, &mut Pattern::parse(pattern)?).map(Datum::Text)
}

fn to_number(values: &[Datum], context: &Context) -> Result<Datum> {
    let [Datum::Text(text), Datum::Text(pattern)] = values else { return mismatch(values) };
    check_pattern(pattern, context)?;
    if pattern.is_empty() {
        return Ok(Datum::Null);
    }
    let pattern = Pattern::parse(pattern)?;
    let read = number::read(&pattern, text)?;
    let number = numeric::parse(read.text.trim()).map_err(|_| {
        let message = format!("invalid input syntax for type numeric: \"{}\"", read.text);
        SqlError::new(code::INVALID_TEXT, message)
    })?;
    let precision = pattern.pre + pattern.shift + read.post;
    let (precision, scale) = (precision as u32, read.post as i32);
    let number = match precision {
        0 => number,
        _ => numeric::fit(&number, precision, scale)?,
    };
    match pattern.is_shifted {
        true => {
            let divisor = numeric::parse(&format!("1e-{}", pattern.shift))?;
            let shifted = numeric::multiply(&number, &divisor)?;
            // As many digits as PostgreSQL's power of ten has.
            let digits = SHIFTED_DIGITS.max(read.post as i32 + pattern.shift as i32);
            numeric::round(&shifted, digits).map(Datum::Numeric)
        }
        false => Ok(Datum::Numeric(number)),
    }
}

fn to_date(values: &[Datum], context: &Context) -> Result<Datum> {
    let [Datum::Text(text), Datum::Text(pattern)] = values else { return mismatch(values) };
    check_pattern(pattern, context)?;
    let read = from_text::read(&pattern::pieces(pattern), text)?;
    match DATES.contains(&read.days) {
        true => Ok(Datum::Date(read.days as i32)),
        false => Err(overflow(&format!("date out of range: \"{text}\""))),
    }
}

fn to_timestamp(values: &[Datum], context: &Context) -> Result<Datum> {
    let [Datum::Text(text), Datum::Text(pattern)] = values else { return mismatch(values) };
    check_pattern(pattern, context)?;
    let read = from_text::read(&pattern::pieces(pattern), text)?;
    let refused = || overflow("timestamp out of range");
    let local = i128::from(read.days) * i128::from(MICROS_PER_DAY) + i128::from(read.time);
    let local = i64::try_from(local).map_err(|_| refused())?;
    let zone = context.times.zone();
    let offset = read.offset.unwrap_or_else(|| zone.offset_of_local(local));
    let micros = local.checked_sub(i64::from(offset) * calendar::MICROS_PER_SECOND);
    let micros = micros.filter(|micros| TIMESTAMPS.contains(micros)).ok_or_else(refused)?;
    let value = Datum::Timestamptz(micros);
    match read.digits {
        Some(digits) => Modifier::Seconds(SqlType::Timestamptz, digits).fit(value, true),
        None => Ok(value),
    }
}
