//! Functions and operators over times of day, and the current time with a precision.
//!
//! Invariants: a sum with a span stays within its day, as in PostgreSQL.
//! Does not do: dates and timestamps (`moments`, `operators`).

use rightlink::internal::datum::Unit;

use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::function::Registry;
use crate::expr::moments::{unknown_unit, unsupported_unit, zone_of};
use crate::expr::operators::mismatch;
use crate::types::calendar::{
    self, Field, Found, MICROS_PER_DAY, MICROS_PER_SECOND, clock_field, overflow, seconds_field,
};
use crate::types::cast::cast;
use crate::types::declared::Modifier;
use crate::types::time::ZonedTime;
use crate::types::time::zone::moved;
use crate::types::{Datum, Interval, SqlType};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    for ty in [T::Time, T::Timetz] {
        registry.add("+", &[ty, T::Interval], ty, |v, _| shifted(&v[0], &v[1], 1));
        registry.add("+", &[T::Interval, ty], ty, |v, _| shifted(&v[1], &v[0], 1));
        registry.add("-", &[ty, T::Interval], ty, |v, _| shifted(&v[0], &v[1], -1));
        let moment = if ty == T::Time { T::Timestamp } else { T::Timestamptz };
        registry.add("+", &[T::Date, ty], moment, |v, _| on_day(&v[0], &v[1]));
        registry.add("+", &[ty, T::Date], moment, |v, _| on_day(&v[1], &v[0]));
        registry.add("extract", &[T::Text, ty], T::Numeric, |v, _| Ok(field(v)?.exact));
        registry.add("date_part", &[T::Text, ty], T::Float8, |v, _| Ok(field(v)?.float));
    }
    registry.add("-", &[T::Time, T::Time], T::Interval, |v, _| match v {
        [Datum::Time(a), Datum::Time(b)] => {
            Ok(Datum::Interval(Interval { micros: a - b, ..Interval::default() }))
        }
        _ => mismatch(v),
    });
    for zone in [T::Text, T::Interval] {
        registry.add("timezone", &[zone, T::Timetz], T::Timetz, |v, c| match &v[1] {
            Datum::Timetz(time) => {
                let offset = zone_of(&v[0])?.offset_at(c.transaction_time);
                Ok(Datum::Timetz(time.moved(offset)))
            }
            _ => mismatch(v),
        });
    }
    registry.add("make_time", &[T::Int4, T::Int4, T::Float8], T::Time, make_time);
    for (name, ty) in [
        ("current_time", T::Timetz),
        ("localtime", T::Time),
        ("current_timestamp", T::Timestamptz),
        ("localtimestamp", T::Timestamp),
    ] {
        let eval = match ty {
            T::Timetz => |v: &[Datum], c: &Context| now(v, c, T::Timetz),
            T::Time => |v: &[Datum], c: &Context| now(v, c, T::Time),
            T::Timestamptz => |v: &[Datum], c: &Context| now(v, c, T::Timestamptz),
            _ => |v: &[Datum], c: &Context| now(v, c, T::Timestamp),
        };
        registry.add(name, &[], ty, eval).is_stable = true;
        registry.add(name, &[T::Int4], ty, eval).is_stable = true;
    }
}

/// The start of the transaction as this type, with so many digits of seconds if they are given.
fn now(values: &[Datum], context: &Context, ty: SqlType) -> Result<Datum> {
    let now = cast(Datum::Timestamptz(context.transaction_time), ty, &context.times)?;
    let Some(Datum::Int4(digits)) = values.first() else { return Ok(now) };
    let digits = u32::try_from(*digits).map_err(|_| {
        let name = ty.name().split(' ').next().unwrap_or_default().to_uppercase();
        let message = format!("{name}({digits}) precision must not be negative");
        SqlError::new(code::INVALID_PARAMETER, message)
    })?;
    Modifier::Seconds(ty, digits.min(6)).fit(now, true)
}

fn shifted(time: &Datum, span: &Datum, sign: i64) -> Result<Datum> {
    let Datum::Interval(span) = span else { return mismatch(std::slice::from_ref(span)) };
    let later =
        |micros: i64| (micros + sign * (span.micros % MICROS_PER_DAY)).rem_euclid(MICROS_PER_DAY);
    Ok(match time {
        Datum::Time(micros) => Datum::Time(later(*micros)),
        Datum::Timetz(time) => Datum::Timetz(ZonedTime { micros: later(time.micros), ..*time }),
        other => return mismatch(std::slice::from_ref(other)),
    })
}

fn on_day(day: &Datum, time: &Datum) -> Result<Datum> {
    let Datum::Date(day) = day else { return mismatch(std::slice::from_ref(day)) };
    let midnight = calendar::timestamp_of_date(*day)?;
    let at = |micros: i64| match calendar::is_finite(midnight) {
        true => calendar::add(midnight, Interval { micros, ..Interval::default() }),
        false => Ok(midnight),
    };
    Ok(match time {
        Datum::Time(micros) => Datum::Timestamp(at(*micros)?),
        Datum::Timetz(time) => Datum::Timestamptz(moved(at(time.micros)?, -time.offset)?),
        other => return mismatch(std::slice::from_ref(other)),
    })
}

fn field(values: &[Datum]) -> Result<Found> {
    let [Datum::Text(name), value] = values else { return mismatch(values) };
    let (micros, offset, ty) = match value {
        Datum::Time(micros) => (*micros, None, SqlType::Time),
        Datum::Timetz(time) => (time.micros, Some(time.offset), SqlType::Timetz),
        _ => return mismatch(values),
    };
    let field = Field::named(name).ok_or_else(|| unknown_unit(name, ty))?;
    let found = match (field, offset) {
        (Field::Unit(Unit::Timezone | Unit::TimezoneHour | Unit::TimezoneMinute), Some(offset)) => {
            calendar::offset_field(field, offset)
        }
        (Field::Unit(unit), _) => clock_field(unit, micros),
        (Field::Epoch, offset) => {
            seconds_field(micros - i64::from(offset.unwrap_or(0)) * MICROS_PER_SECOND)
        }
        _ => None,
    };
    found.ok_or_else(|| unsupported_unit(name, ty))
}

fn make_time(values: &[Datum], _: &Context) -> Result<Datum> {
    let [Datum::Int4(hour), Datum::Int4(minute), Datum::Float8(second)] = values else {
        return mismatch(values);
    };
    let micros = (second * MICROS_PER_SECOND as f64).round_ties_even();
    let fits = (0..=24).contains(hour) && (0..60).contains(minute) && (0.0..=60.0).contains(second);
    let total =
        (i64::from(*hour) * 60 + i64::from(*minute)) * 60 * MICROS_PER_SECOND + micros as i64;
    match fits && total <= MICROS_PER_DAY {
        true => Ok(Datum::Time(total)),
        false => {
            let text = format!("time field value out of range: {hour}:{minute:02}:{second:02}");
            Err(overflow(&text))
        }
    }
}
