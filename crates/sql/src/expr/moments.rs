//! Functions over dates and times.
//!
//! Invariants: `now()` is the start of the transaction; fields are those in the session's zone.
//! Does not do: `to_char`, spans (`spans`).

use rightlink::internal::datum::{DATES, TIMESTAMPS, Unit, days_from_civil, days_in_month};

use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::function::Registry;
use crate::expr::operators::mismatch;
use crate::types::calendar::{self, EPOCH_SECONDS, Field, Found, Moment};
use crate::types::time::no_zone;
use crate::types::time::zone::{NamedZone, moved};
use crate::types::{Datum, Decimal, SqlType};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    for name in ["now", "transaction_timestamp"] {
        registry
            .add(name, &[], T::Timestamptz, |_, c| Ok(Datum::Timestamptz(c.transaction_time)))
            .is_stable = true;
    }
    registry
        .add("statement_timestamp", &[], T::Timestamptz, |_, c| {
            Ok(Datum::Timestamptz(c.statement_time))
        })
        .is_stable = true;
    registry
        .add("clock_timestamp", &[], T::Timestamptz, |_, c| {
            Ok(Datum::Timestamptz(c.db.as_ref().map_or(c.statement_time, |db| db.now())))
        })
        .volatile = true;
    registry
        .add("current_date", &[], T::Date, |_, c| {
            Ok(Datum::Date(calendar::date_of_timestamp(local_now(c)?)))
        })
        .is_stable = true;
    for ty in [T::Date, T::Timestamp, T::Timestamptz, T::Interval] {
        registry.add("extract", &[T::Text, ty], T::Numeric, |v, c| {
            Ok(match extract(v, c)?.exact {
                Datum::Float8(endless) => Datum::Numeric(Decimal::infinity(endless < 0.0)),
                exact => exact,
            })
        });
        registry.add("date_part", &[T::Text, ty], T::Float8, date_part);
        if ty != T::Interval {
            registry.add("isfinite", &[ty], T::Bool, |v, _| Ok(Datum::Bool(finite(&v[0]))));
        }
    }
    for ty in [T::Timestamp, T::Timestamptz] {
        registry.add("date_trunc", &[T::Text, ty], ty, date_trunc);
    }
    registry.add("date_trunc", &[T::Text, T::Timestamptz, T::Text], T::Timestamptz, date_trunc);
    registry.add("make_date", &[T::Int4, T::Int4, T::Int4], T::Date, make_date);
    registry.add("to_timestamp", &[T::Float8], T::Timestamptz, to_timestamp);
    for zone in [T::Text, T::Interval] {
        registry.add("timezone", &[zone, T::Timestamptz], T::Timestamp, |v, _| at_zone(v));
        registry.add("timezone", &[zone, T::Timestamp], T::Timestamptz, |v, _| at_zone(v));
    }
}

impl super::Db {
    /// Now, in microseconds since 2000.
    pub(crate) fn now(&self) -> i64 {
        self.0.unix_micros() - EPOCH_SECONDS * 1_000_000
    }
}

/// The start of the transaction in the session's zone.
fn local_now(context: &Context) -> Result<i64> {
    context.times.zone().to_local(context.transaction_time)
}

fn finite(value: &Datum) -> bool {
    match value {
        Datum::Date(day) => calendar::is_finite_day(*day),
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) => calendar::is_finite(*micros),
        _ => true,
    }
}

/// As `extract`, but of a date it is that of its midnight.
fn date_part(values: &[Datum], context: &Context) -> Result<Datum> {
    if let [name, Datum::Date(day)] = values {
        let midnight = Datum::Timestamp(calendar::timestamp_of_date(*day)?);
        return Ok(extract(&[name.clone(), midnight], context)?.float);
    }
    Ok(extract(values, context)?.float)
}

fn extract(values: &[Datum], context: &Context) -> Result<Found> {
    let [Datum::Text(name), value] = values else { return mismatch(values) };
    let (moment, ty) = match value {
        Datum::Date(day) => (Moment::Day(*day), SqlType::Date),
        Datum::Timestamp(micros) => (Moment::At(*micros), SqlType::Timestamp),
        Datum::Timestamptz(micros) => {
            let offset = context.times.zone().offset_at(*micros);
            (Moment::AtZone(*micros, offset), SqlType::Timestamptz)
        }
        Datum::Interval(span) => (Moment::Span(*span), SqlType::Interval),
        _ => return mismatch(values),
    };
    let field = Field::named(name).ok_or_else(|| unknown_unit(name, ty))?;
    let found = calendar::extract(field, moment)?;
    found.ok_or_else(|| unsupported_unit(name, ty))
}

pub(super) fn unknown_unit(name: &str, ty: SqlType) -> SqlError {
    let message = format!("unit \"{name}\" not recognized for type {}", ty.name());
    SqlError::new(code::INVALID_PARAMETER, message)
}

pub(super) fn unsupported_unit(name: &str, ty: SqlType) -> SqlError {
    let message = format!("unit \"{name}\" not supported for type {}", ty.name());
    SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
}

fn date_trunc(values: &[Datum], context: &Context) -> Result<Datum> {
    let [Datum::Text(name), value, zone @ ..] = values else { return mismatch(values) };
    let (micros, ty) = match value {
        Datum::Timestamp(micros) => (*micros, SqlType::Timestamp),
        Datum::Timestamptz(micros) => (*micros, SqlType::Timestamptz),
        _ => return mismatch(values),
    };
    let cut = match calendar::is_finite(micros) {
        true => {
            let unit = Unit::named(name).ok_or_else(|| unknown_unit(name, ty))?;
            let start = match (ty, zone) {
                (SqlType::Timestamp, _) => calendar::truncate(unit, micros)?,
                (_, [Datum::Text(zone)]) => named_zone(zone)?.truncate(unit, micros)?,
                _ => context.times.zone().truncate(unit, micros)?,
            };
            start.ok_or_else(|| unsupported_unit(name, ty))?
        }
        false => micros,
    };
    Ok(if ty == SqlType::Timestamp { Datum::Timestamp(cut) } else { Datum::Timestamptz(cut) })
}

fn make_date(values: &[Datum], _: &Context) -> Result<Datum> {
    let [Datum::Int4(year), Datum::Int4(month), Datum::Int4(day)] = values else {
        return mismatch(values);
    };
    let refused = |what: &str| {
        calendar::overflow(&format!("{what} out of range: {year}-{month:02}-{day:02}"))
    };
    // Years before Christ are negative here, and there is none of number 0.
    let astronomical = i64::from(*year) + i64::from(*year < 0);
    let month_number = u32::try_from(*month).ok().filter(|month| (1..=12).contains(month));
    let month_number = month_number.filter(|_| *year != 0);
    let month_number = month_number.ok_or_else(|| refused("date field value"))?;
    let day_number = u32::try_from(*day).unwrap_or(0);
    if !(1..=days_in_month(astronomical, month_number)).contains(&day_number) {
        return Err(refused("date field value"));
    }
    let days = days_from_civil(astronomical, month_number, day_number);
    if DATES.contains(&days) { Ok(Datum::Date(days as i32)) } else { Err(refused("date")) }
}

fn to_timestamp(values: &[Datum], _: &Context) -> Result<Datum> {
    let [Datum::Float8(seconds)] = values else { return mismatch(values) };
    if seconds.is_nan() {
        return Err(calendar::overflow("timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        return Ok(Datum::Timestamptz(if *seconds > 0.0 { i64::MAX } else { i64::MIN }));
    }
    let micros = ((seconds - EPOCH_SECONDS as f64) * 1e6).round_ties_even();
    // Beyond the integers a float becomes the last one.
    let micros = micros as i64;
    if !TIMESTAMPS.contains(&micros) {
        return Err(calendar::overflow(&format!("timestamp out of range: \"{seconds}\"")));
    }
    Ok(Datum::Timestamptz(micros))
}

/// The zone of this name.
pub(super) fn named_zone(name: &str) -> Result<NamedZone> {
    NamedZone::parse(name).ok_or_else(|| no_zone(name))
}

/// The zone that a text names, or whose offset an interval is.
pub(super) fn zone_of(value: &Datum) -> Result<NamedZone> {
    match value {
        Datum::Text(name) => named_zone(name),
        Datum::Interval(span) if span.months != 0 || span.days != 0 => {
            let message = format!("interval time zone \"{span}\" must not include months or days");
            Err(SqlError::new(code::INVALID_PARAMETER, message))
        }
        Datum::Interval(span) => Ok(NamedZone::of_offset((span.micros / 1_000_000) as i32)),
        other => mismatch(std::slice::from_ref(other)),
    }
}

fn at_zone(values: &[Datum]) -> Result<Datum> {
    let [zone, value] = values else { return mismatch(values) };
    Ok(match value {
        Datum::Timestamp(micros) if !calendar::is_finite(*micros) => Datum::Timestamptz(*micros),
        Datum::Timestamptz(micros) if !calendar::is_finite(*micros) => Datum::Timestamp(*micros),
        Datum::Timestamp(micros) => {
            let offset = zone_of(zone)?.offset_of_local(*micros);
            Datum::Timestamptz(moved(*micros, -offset)?)
        }
        Datum::Timestamptz(micros) => {
            Datum::Timestamp(moved(*micros, zone_of(zone)?.offset_at(*micros))?)
        }
        _ => return mismatch(values),
    })
}
