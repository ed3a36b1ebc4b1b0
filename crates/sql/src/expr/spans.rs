//! Functions that make spans of time and moments, and take moments apart by spans.
//!
//! Invariants: sums and carries are PostgreSQL's, field by field.
//! Does not do: fields of a moment (`moments`).

use rightlink::internal::datum::{
    CivilDate, TIMESTAMPS, Unit, civil_from_days, days_from_civil, days_in_month,
};

use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::function::Registry;
use crate::expr::moments::named_zone;
use crate::expr::operators::mismatch;
use crate::types::calendar::{
    self, MICROS_PER_DAY, MICROS_PER_SECOND, interval_out_of_range, is_finite, overflow,
};
use crate::types::time::zone::{NamedZone, moved};
use crate::types::time::{self, Refusal};
use crate::types::{Datum, Interval, SqlType};

const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
const MICROS_PER_HOUR: i64 = 60 * MICROS_PER_MINUTE;
const DAYS_PER_MONTH: i32 = 30;

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    for ty in [T::Timestamp, T::Timestamptz] {
        registry.add("age", &[ty, ty], T::Interval, |v, c| age(&v[0], &v[1], c));
        registry.add("age", &[ty], T::Interval, |v, c| {
            let now = c.times.zone().to_local(c.transaction_time)?;
            let midnight = calendar::timestamp_of_date(calendar::date_of_timestamp(now))?;
            let midnight = match &v[0] {
                Datum::Timestamptz(_) => Datum::Timestamptz(c.times.zone().to_utc(midnight)?),
                _ => Datum::Timestamp(midnight),
            };
            age(&midnight, &v[0], c)
        });
        registry.add("date_bin", &[T::Interval, ty, ty], ty, date_bin);
    }
    registry.add("date_trunc", &[T::Text, T::Interval], T::Interval, truncate);
    registry.add("justify_hours", &[T::Interval], T::Interval, |v, _| justified(v, hours));
    registry.add("justify_days", &[T::Interval], T::Interval, |v, _| justified(v, days));
    registry.add("justify_interval", &[T::Interval], T::Interval, |v, _| justified(v, both));
    let parts = [T::Int4, T::Int4, T::Int4, T::Int4, T::Int4, T::Float8];
    registry.add("make_timestamp", &parts, T::Timestamp, |v, _| moment(v).map(Datum::Timestamp));
    let in_zone =
        |v: &[Datum], c: &Context| Ok(Datum::Timestamptz(c.times.zone().to_utc(moment(v)?)?));
    registry.add("make_timestamptz", &parts, T::Timestamptz, in_zone);
    let with_zone = [T::Int4, T::Int4, T::Int4, T::Int4, T::Int4, T::Float8, T::Text];
    registry.add("make_timestamptz", &with_zone, T::Timestamptz, |v, _| make_in_zone(v));
    let parts = [T::Int4, T::Int4, T::Int4, T::Int4, T::Int4, T::Int4, T::Float8];
    for count in 0..=parts.len() {
        registry.add("make_interval", &parts[..count], T::Interval, |v, _| make_interval(v));
    }
}

fn micros(value: &Datum) -> Option<i64> {
    match value {
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) => Some(*micros),
        _ => None,
    }
}

fn out_of_range() -> SqlError {
    overflow("timestamp out of range")
}

/// The timestamp of six fields in a zone.
fn make_in_zone(values: &[Datum]) -> Result<Datum> {
    let [fields @ .., Datum::Text(name)] = values else { return mismatch(values) };
    let local = moment(fields)?;
    let zone = match name.starts_with(|c: char| c.is_ascii_digit()) {
        // No sign in front, which PostgreSQL takes for a plus.
        true => None,
        false => numeric_zone(name)?,
    };
    let zone = zone.map_or_else(|| named_zone(name), Ok)?;
    Ok(Datum::Timestamptz(moved(local, -zone.offset_of_local(local))?))
}

/// The zone whose offset a text with a sign in front says.
fn numeric_zone(name: &str) -> Result<Option<NamedZone>> {
    let refused = || {
        let message = format!("invalid input syntax for type numeric time zone: \"{name}\"");
        let hint = "Numeric time zones must have \"-\" or \"+\" as first character.";
        SqlError::new(code::INVALID_PARAMETER, message).hint(hint)
    };
    if !name.starts_with(['+', '-']) {
        return Ok(None);
    }
    match time::offset(name) {
        Ok(offset) => Ok(Some(NamedZone::of_offset(offset))),
        Err(Refusal::ZoneRange) => {
            let message = format!("numeric time zone \"{name}\" out of range");
            Err(SqlError::new(code::INVALID_PARAMETER, message))
        }
        Err(_) => Err(refused()),
    }
}

/// The span between two moments in years, months, days and time, as a calendar counts it; of those
/// with a zone in the session's.
fn age(late: &Datum, early: &Datum, context: &Context) -> Result<Datum> {
    let local = |value: &Datum| match value {
        Datum::Timestamptz(micros) => context.times.zone().to_local(*micros),
        Datum::Timestamp(micros) => Ok(*micros),
        other => mismatch(std::slice::from_ref(other)),
    };
    let negative = late.compare(early).is_lt();
    let (late, early) = (local(late)?, local(early)?);
    if !is_finite(late) || !is_finite(early) {
        return Err(out_of_range());
    }
    let civil = |micros: i64| civil_from_days(micros.div_euclid(MICROS_PER_DAY));
    let (a, b) = (civil(late), civil(early));
    let sign = if negative { -1 } else { 1 };
    let mut time = sign * (late.rem_euclid(MICROS_PER_DAY) - early.rem_euclid(MICROS_PER_DAY));
    let mut days = sign * (i64::from(a.day) - i64::from(b.day));
    let mut months = sign * ((a.year - b.year) * 12 + i64::from(a.month) - i64::from(b.month));
    if time < 0 {
        time += MICROS_PER_DAY;
        days -= 1;
    }
    // The month that is borrowed from is that of the earlier moment.
    let CivilDate { year, month, .. } = if negative { a } else { b };
    while days < 0 {
        days += i64::from(days_in_month(year, month));
        months -= 1;
    }
    let (months, days) = (i32::try_from(sign * months), i32::try_from(sign * days));
    match (months, days) {
        (Ok(months), Ok(days)) => {
            Ok(Datum::Interval(Interval { months, days, micros: sign * time }))
        }
        _ => Err(interval_out_of_range()),
    }
}

/// The start of the bin that a moment is in, where bins of one length are counted from an origin.
fn date_bin(values: &[Datum], _: &Context) -> Result<Datum> {
    let [Datum::Interval(stride), moment, origin] = values else { return mismatch(values) };
    let (Some(at), Some(from)) = (micros(moment), micros(origin)) else { return mismatch(values) };
    if !is_finite(at) {
        return Ok(moment.clone());
    }
    if !is_finite(from) {
        return Err(overflow("origin out of range"));
    }
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
    }
    let stride = i128::from(stride.days) * i128::from(MICROS_PER_DAY) + i128::from(stride.micros);
    if stride <= 0 {
        return Err(overflow("stride must be greater than zero"));
    }
    let past = (i128::from(at) - i128::from(from)).rem_euclid(stride);
    let start = i64::try_from(i128::from(at) - past).ok();
    let start = start.filter(|start| TIMESTAMPS.contains(start)).ok_or_else(out_of_range)?;
    Ok(match moment {
        Datum::Timestamptz(_) => Datum::Timestamptz(start),
        _ => Datum::Timestamp(start),
    })
}

fn justified(values: &[Datum], how: fn(Interval) -> Option<Interval>) -> Result<Datum> {
    let [Datum::Interval(span)] = values else { return mismatch(values) };
    how(*span).map(Datum::Interval).ok_or_else(interval_out_of_range)
}

/// Whole days of the time become days.
fn hours(span: Interval) -> Option<Interval> {
    let whole = i32::try_from(span.micros / MICROS_PER_DAY).ok()?;
    let micros = span.micros % MICROS_PER_DAY;
    let days = span.days.checked_add(whole)?;
    Some(same_sign(Interval { days, micros, ..span }))
}

/// Days and time with one sign.
fn same_sign(span: Interval) -> Interval {
    let Interval { months, mut days, mut micros } = span;
    if days > 0 && micros < 0 {
        (days, micros) = (days - 1, micros + MICROS_PER_DAY);
    } else if days < 0 && micros > 0 {
        (days, micros) = (days + 1, micros - MICROS_PER_DAY);
    }
    Interval { months, days, micros }
}

/// Thirty days become a month.
fn days(span: Interval) -> Option<Interval> {
    let mut months = span.months.checked_add(span.days / DAYS_PER_MONTH)?;
    let mut days = span.days % DAYS_PER_MONTH;
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + DAYS_PER_MONTH);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - DAYS_PER_MONTH);
    }
    Some(Interval { months, days, ..span })
}

fn both(span: Interval) -> Option<Interval> {
    let mut span = span;
    if (span.days > 0 && span.micros > 0) || (span.days < 0 && span.micros < 0) {
        span.months = span.months.checked_add(span.days / DAYS_PER_MONTH)?;
        span.days %= DAYS_PER_MONTH;
    }
    let whole = i32::try_from(span.micros / MICROS_PER_DAY).ok()?;
    span.micros %= MICROS_PER_DAY;
    span.days = span.days.checked_add(whole)?;
    span.months = span.months.checked_add(span.days / DAYS_PER_MONTH)?;
    span.days %= DAYS_PER_MONTH;
    if span.months > 0 && (span.days < 0 || (span.days == 0 && span.micros < 0)) {
        (span.months, span.days) = (span.months - 1, span.days + DAYS_PER_MONTH);
    } else if span.months < 0 && (span.days > 0 || (span.days == 0 && span.micros > 0)) {
        (span.months, span.days) = (span.months + 1, span.days - DAYS_PER_MONTH);
    }
    Some(same_sign(span))
}

/// A span without what is smaller than a unit.
fn truncate(values: &[Datum], _: &Context) -> Result<Datum> {
    let [Datum::Text(name), Datum::Interval(span)] = values else { return mismatch(values) };
    let kept =
        |months: i32| Interval { months: span.months / months * months, ..Interval::default() };
    let time = |unit: i64| Interval { micros: span.micros / unit * unit, ..*span };
    let cut = match Unit::named(name) {
        Some(Unit::Millennium) => kept(12_000),
        Some(Unit::Century) => kept(1_200),
        Some(Unit::Decade) => kept(120),
        Some(Unit::Year) => kept(12),
        Some(Unit::Quarter) => kept(3),
        Some(Unit::Month) => kept(1),
        Some(Unit::Day) => Interval { micros: 0, ..*span },
        Some(Unit::Hour) => time(MICROS_PER_HOUR),
        Some(Unit::Minute) => time(MICROS_PER_MINUTE),
        Some(Unit::Second) => time(MICROS_PER_SECOND),
        Some(Unit::Millisecond) => time(1_000),
        Some(Unit::Microsecond) => *span,
        Some(_) => {
            let message = format!("unit \"{name}\" not supported for type interval");
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        None => {
            let message = format!("unit \"{name}\" not recognized for type interval");
            return Err(SqlError::new(code::INVALID_PARAMETER, message));
        }
    };
    Ok(Datum::Interval(cut))
}

/// Microseconds of seconds with a fraction.
fn seconds(value: f64) -> i64 {
    (value * MICROS_PER_SECOND as f64).round_ties_even() as i64
}

/// The moment of six fields.
fn moment(values: &[Datum]) -> Result<i64> {
    let [
        Datum::Int4(year),
        Datum::Int4(month),
        Datum::Int4(day),
        Datum::Int4(hour),
        Datum::Int4(minute),
        Datum::Float8(second),
    ] = values
    else {
        return mismatch(values);
    };
    let refused =
        || overflow(&format!("date field value out of range: {year}-{month:02}-{day:02}"));
    // Years before Christ are negative here, and there is none of number 0.
    let astronomical = i64::from(*year) + i64::from(*year < 0);
    let month_number = u32::try_from(*month).ok().filter(|month| (1..=12).contains(month));
    let month_number = month_number.filter(|_| *year != 0).ok_or_else(refused)?;
    let day_number = u32::try_from(*day).unwrap_or(0);
    if !(1..=days_in_month(astronomical, month_number)).contains(&day_number) {
        return Err(refused());
    }
    let is_full = *hour == 24 && *minute == 0 && *second == 0.0;
    let fits = (0..24).contains(hour) && (0..60).contains(minute) && (0.0..=60.0).contains(second);
    if !fits && !is_full {
        let message = format!("time field value out of range: {hour}:{minute:02}:{second:02}");
        return Err(overflow(&message));
    }
    let time = i64::from(*hour) * MICROS_PER_HOUR
        + i64::from(*minute) * MICROS_PER_MINUTE
        + seconds(*second);
    let date = i128::from(days_from_civil(astronomical, month_number, day_number));
    let micros = i64::try_from(date * i128::from(MICROS_PER_DAY) + i128::from(time)).ok();
    micros.filter(|micros| TIMESTAMPS.contains(micros)).ok_or_else(out_of_range)
}

/// A span of years, months, weeks, days, hours, minutes and seconds, as far as they are given.
fn make_interval(values: &[Datum]) -> Result<Datum> {
    let whole = |at: usize| values.get(at).and_then(Datum::as_int).unwrap_or(0);
    let second = match values.get(6) {
        Some(Datum::Float8(second)) => *second,
        _ => 0.0,
    };
    if !second.is_finite() {
        return Err(interval_out_of_range());
    }
    let months = i32::try_from(whole(0) * 12 + whole(1));
    let days = i32::try_from(whole(2) * 7 + whole(3));
    let time = i128::from(whole(4)) * i128::from(MICROS_PER_HOUR)
        + i128::from(whole(5)) * i128::from(MICROS_PER_MINUTE)
        + i128::from(seconds(second));
    match (months, days, i64::try_from(time)) {
        (Ok(months), Ok(days), Ok(micros)) => {
            Ok(Datum::Interval(Interval { months, days, micros }))
        }
        _ => Err(interval_out_of_range()),
    }
}
