//! Functions over dates and times.
//!
//! Invariants: `now()` is the start of the transaction; the zone is UTC.
//! Does not do: `to_char`, `age`, zones.

use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::operators::mismatch;
use crate::expr::registry::Registry;
use crate::types::calendar::{self, EPOCH_SECONDS, Moment};
use crate::types::{Datum, SqlType};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    for name in ["now", "transaction_timestamp", "current_timestamp"] {
        registry.add(name, &[], T::Timestamptz, |_, c| Ok(Datum::Timestamptz(c.transaction_time)));
    }
    registry.add("statement_timestamp", &[], T::Timestamptz, |_, c| {
        Ok(Datum::Timestamptz(c.statement_time))
    });
    registry
        .add("clock_timestamp", &[], T::Timestamptz, |_, c| {
            Ok(Datum::Timestamptz(c.db.as_ref().map_or(c.statement_time, |db| db.now())))
        })
        .volatile = true;
    registry
        .add("localtimestamp", &[], T::Timestamp, |_, c| Ok(Datum::Timestamp(c.transaction_time)));
    registry.add("current_date", &[], T::Date, |_, c| {
        Ok(Datum::Date(calendar::date_of_timestamp(c.transaction_time)))
    });
    for ty in [T::Date, T::Timestamp, T::Timestamptz, T::Interval] {
        registry.add("extract", &[T::Text, ty], T::Numeric, extract);
        registry.add("date_part", &[T::Text, ty], T::Float8, |v, c| match extract(v, c)? {
            Datum::Numeric(number) => Ok(Datum::Float8(number.to_float())),
            other => Ok(other),
        });
        if ty != T::Interval {
            registry.add("isfinite", &[ty], T::Bool, |v, _| Ok(Datum::Bool(finite(&v[0]))));
        }
    }
    for ty in [T::Timestamp, T::Timestamptz] {
        registry.add("date_trunc", &[T::Text, ty], ty, date_trunc);
    }
    registry.add("make_date", &[T::Int4, T::Int4, T::Int4], T::Date, make_date);
    registry.add("to_timestamp", &[T::Float8], T::Timestamptz, to_timestamp);
    registry.add("timezone", &[T::Text, T::Timestamptz], T::Timestamp, |v, _| at_zone(v));
    registry.add("timezone", &[T::Text, T::Timestamp], T::Timestamptz, |v, _| at_zone(v));
}

impl super::Db {
    /// Now, in microseconds since 2000.
    pub(crate) fn now(&self) -> i64 {
        self.0.unix_micros() - EPOCH_SECONDS * 1_000_000
    }
}

fn finite(value: &Datum) -> bool {
    match value {
        Datum::Date(day) => *day != i32::MAX && *day != i32::MIN,
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) => calendar::is_finite(*micros),
        _ => true,
    }
}

/// The usual spellings of a field's name.
fn field_name(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "years" | "months" | "days" | "hours" | "minutes" | "seconds" | "weeks" | "decades"
        | "quarters" => lower[..lower.len() - 1].to_owned(),
        "millisecond" | "microsecond" => lower + "s",
        "centuries" => "century".to_owned(),
        _ => lower,
    }
}

fn extract(values: &[Datum], _: &Context) -> Result<Datum> {
    let [Datum::Text(field), value] = values else { return mismatch(values) };
    if !finite(value) {
        return Err(SqlError::unsupported("extract from an infinite date"));
    }
    let (moment, ty) = match value {
        Datum::Date(day) => (Moment::Day(*day), SqlType::Date),
        Datum::Timestamp(micros) => (Moment::At(*micros), SqlType::Timestamp),
        Datum::Timestamptz(micros) => (Moment::At(*micros), SqlType::Timestamptz),
        Datum::Interval(span) => (Moment::Span(*span), SqlType::Interval),
        _ => return mismatch(values),
    };
    let found = calendar::extract(&field_name(field), moment).map(Datum::Numeric);
    found.ok_or_else(|| no_unit(field, ty))
}

fn no_unit(field: &str, ty: SqlType) -> SqlError {
    let known = ["hour", "minute", "second", "milliseconds", "microseconds"];
    let (sqlstate, what) = match known.contains(&field_name(field).as_str()) {
        true => (code::FEATURE_NOT_SUPPORTED, "not supported"),
        false => (code::INVALID_PARAMETER, "not recognized"),
    };
    SqlError::new(sqlstate, format!("unit \"{field}\" {what} for type {}", ty.name()))
}

fn date_trunc(values: &[Datum], _: &Context) -> Result<Datum> {
    let [Datum::Text(field), value] = values else { return mismatch(values) };
    let (micros, ty) = match value {
        Datum::Timestamp(micros) => (*micros, SqlType::Timestamp),
        Datum::Timestamptz(micros) => (*micros, SqlType::Timestamptz),
        _ => return mismatch(values),
    };
    let cut = match calendar::is_finite(micros) {
        true => {
            calendar::truncate(&field_name(field), micros)?.ok_or_else(|| no_unit(field, ty))?
        }
        false => micros,
    };
    Ok(if ty == SqlType::Timestamp { Datum::Timestamp(cut) } else { Datum::Timestamptz(cut) })
}

fn make_date(values: &[Datum], _: &Context) -> Result<Datum> {
    let [Datum::Int4(year), Datum::Int4(month), Datum::Int4(day)] = values else {
        return mismatch(values);
    };
    let refused = || {
        let message = format!("date field value out of range: {year}-{month:02}-{day:02}");
        SqlError::new(code::DATETIME_OVERFLOW, message)
    };
    if *year == 0 {
        return Err(refused());
    }
    let text = match *year < 0 {
        true => format!("{:04}-{month:02}-{day:02} BC", -i64::from(*year)),
        false => format!("{year:04}-{month:02}-{day:02}"),
    };
    crate::types::text::parse(SqlType::Date, &text).map_err(|_| refused())
}

fn to_timestamp(values: &[Datum], _: &Context) -> Result<Datum> {
    let [Datum::Float8(seconds)] = values else { return mismatch(values) };
    if seconds.is_infinite() {
        return Ok(Datum::Timestamptz(if *seconds > 0.0 { i64::MAX } else { i64::MIN }));
    }
    let micros = (seconds - EPOCH_SECONDS as f64) * 1e6;
    if micros.is_nan() || micros.abs() > 9.2e18 {
        let message = format!("timestamp out of range: \"{seconds}\"");
        return Err(SqlError::new(code::DATETIME_OVERFLOW, message));
    }
    Ok(Datum::Timestamptz(micros.round_ties_even() as i64))
}

fn at_zone(values: &[Datum]) -> Result<Datum> {
    let [Datum::Text(zone), value] = values else { return mismatch(values) };
    if !matches!(zone.to_ascii_uppercase().as_str(), "UTC" | "GMT" | "Z" | "ETC/UTC") {
        return Err(SqlError::unsupported(format!("time zone \"{zone}\"")));
    }
    Ok(match value {
        Datum::Timestamp(micros) => Datum::Timestamptz(*micros),
        Datum::Timestamptz(micros) => Datum::Timestamp(*micros),
        _ => return mismatch(values),
    })
}
