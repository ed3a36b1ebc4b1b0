//! Fields of dates and times, cutting to a field, and sums with intervals.
//!
//! Invariants: the zone is UTC. Does not do: other zones.

use rightlink::datum::{civil_from_days, days_from_civil};

use crate::error::{Result, SqlError, code};
use crate::types::decimal::Decimal;
use crate::types::interval::{Interval, MICROS_PER_DAY, MICROS_PER_SECOND};

/// Seconds from 1970-01-01 to 2000-01-01.
pub(crate) const EPOCH_SECONDS: i64 = 946_684_800;

/// First timestamp, at the start of the Julian days in 4714 BC, and the first that is too late.
const TIMESTAMPS: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;

pub(crate) fn is_finite(micros: i64) -> bool {
    micros != i64::MAX && micros != i64::MIN
}

/// Midnight of a day; infinities stay.
pub(crate) fn timestamp_of_date(days: i32) -> Result<i64> {
    match days {
        i32::MAX => Ok(i64::MAX),
        i32::MIN => Ok(i64::MIN),
        _ => i64::from(days)
            .checked_mul(MICROS_PER_DAY)
            .filter(|micros| TIMESTAMPS.contains(micros))
            .ok_or_else(|| overflow("date out of range for timestamp")),
    }
}

pub(crate) fn date_of_timestamp(micros: i64) -> i32 {
    match micros {
        i64::MAX => i32::MAX,
        i64::MIN => i32::MIN,
        _ => micros.div_euclid(MICROS_PER_DAY) as i32,
    }
}

fn overflow(what: &str) -> SqlError {
    SqlError::new(code::DATETIME_OVERFLOW, what)
}

fn days_of_month(year: i64, month: u32) -> u32 {
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    (days_from_civil(next_year, next, 1) - days_from_civil(year, month, 1)) as u32
}

/// A timestamp and an interval later; the day is cut to the length of its month.
pub(crate) fn add(micros: i64, span: Interval) -> Result<i64> {
    if !is_finite(micros) {
        return Ok(micros);
    }
    let (mut days, time) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
    if span.months != 0 {
        let (year, month, day) = civil_from_days(days);
        let months = year * 12 + i64::from(month) - 1 + i64::from(span.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
        days = days_from_civil(year, month, day.min(days_of_month(year, month)));
    }
    let total = i128::from(days + i64::from(span.days)) * i128::from(MICROS_PER_DAY)
        + i128::from(time)
        + i128::from(span.micros);
    let sum = i64::try_from(total).ok().filter(|sum| TIMESTAMPS.contains(sum));
    sum.ok_or_else(|| overflow("timestamp out of range"))
}

/// From `b` to `a`: days and time of day.
pub(crate) fn difference(a: i64, b: i64) -> Result<Interval> {
    if !is_finite(a) || !is_finite(b) {
        return Err(overflow("cannot subtract infinite timestamps"));
    }
    let micros = a.checked_sub(b).ok_or_else(crate::types::interval::out_of_range)?;
    let days = (micros / MICROS_PER_DAY) as i32;
    Ok(Interval { months: 0, days, micros: micros % MICROS_PER_DAY })
}

/// What `extract` is asked of.
#[derive(Clone, Copy)]
pub(crate) enum Moment {
    /// A timestamp, with a zone or without.
    At(i64),
    /// A day.
    Day(i32),
    /// A span.
    Span(Interval),
}

/// Seconds with six digits after the point.
fn seconds(micros: i128) -> Decimal {
    let number = Decimal::from(micros);
    number.divide(&Decimal::from(MICROS_PER_SECOND)).map_or(number, |quotient| quotient.round(6))
}

/// The field called `field`; `None` where PostgreSQL has none.
pub(crate) fn extract(field: &str, moment: Moment) -> Option<Decimal> {
    match moment {
        Moment::Span(span) => extract_of_span(field, span),
        Moment::Day(days) => match field {
            "epoch" => Some(Decimal::from(i64::from(days) * 86_400 + EPOCH_SECONDS)),
            "hour" | "minute" | "second" | "milliseconds" | "microseconds" => None,
            _ => of_day(field, i64::from(days)),
        },
        Moment::At(micros) => {
            let of_day_micros = micros.rem_euclid(MICROS_PER_DAY);
            of_clock(field, of_day_micros).or_else(|| match field {
                "epoch" => Some(seconds(
                    i128::from(micros) + i128::from(EPOCH_SECONDS) * i128::from(MICROS_PER_SECOND),
                )),
                _ => of_day(field, micros.div_euclid(MICROS_PER_DAY)),
            })
        }
    }
}

fn of_clock(field: &str, micros: i64) -> Option<Decimal> {
    let minute = micros % (60 * MICROS_PER_SECOND);
    Some(match field {
        "hour" => Decimal::from(micros / (3_600 * MICROS_PER_SECOND)),
        "minute" => Decimal::from(micros / (60 * MICROS_PER_SECOND) % 60),
        "second" => seconds(i128::from(minute)),
        "milliseconds" => seconds(i128::from(minute) * 1_000).round(3),
        "microseconds" => Decimal::from(minute),
        _ => return None,
    })
}

fn of_day(field: &str, days: i64) -> Option<Decimal> {
    let (year, month, day) = civil_from_days(days);
    let weekday = (days + 6).rem_euclid(7);
    let era_year = if year > 0 { year } else { year - 1 };
    let number = match field {
        "year" => era_year,
        "month" => i64::from(month),
        "day" => i64::from(day),
        "quarter" => i64::from((month - 1) / 3 + 1),
        "dow" => weekday,
        "isodow" => (weekday + 6) % 7 + 1,
        "doy" => days - days_from_civil(year, 1, 1) + 1,
        "week" => iso_week(days).1,
        "isoyear" => iso_week(days).0,
        "decade" => year.div_euclid(10),
        "century" if year > 0 => (year + 99) / 100,
        "millennium" if year > 0 => (year + 999) / 1_000,
        "julian" => days + 2_451_545,
        _ => return None,
    };
    Some(Decimal::from(number))
}

/// Year and number of the week whose Thursday is in that year.
fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days - (days + 5).rem_euclid(7) + 3;
    let (year, _, _) = civil_from_days(thursday);
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

fn extract_of_span(field: &str, span: Interval) -> Option<Decimal> {
    let number = match field {
        "year" => i64::from(span.months / 12),
        "month" => i64::from(span.months % 12),
        "day" => i64::from(span.days),
        "quarter" => i64::from(span.months % 12 / 3 + 1),
        "hour" => span.micros / (3_600 * MICROS_PER_SECOND),
        "minute" => span.micros / (60 * MICROS_PER_SECOND) % 60,
        "second" => return Some(seconds(i128::from(span.micros % (60 * MICROS_PER_SECOND)))),
        "epoch" => {
            // A year counts 365.25 days here.
            let years = i128::from(span.months / 12) * 31_557_600;
            let months = i128::from(span.months % 12) * 30 * 86_400;
            let whole = years + months + i128::from(span.days) * 86_400;
            return Some(seconds(whole * i128::from(MICROS_PER_SECOND) + i128::from(span.micros)));
        }
        _ => return None,
    };
    Some(Decimal::from(number))
}

/// The start of the field that `micros` is in; `None` where PostgreSQL has no such field. Fails
/// where that is before the first timestamp.
pub(crate) fn truncate(field: &str, micros: i64) -> Result<Option<i64>> {
    let Some(start) = start_of(field, micros) else { return Ok(None) };
    let start = i64::try_from(start).ok().filter(|start| TIMESTAMPS.contains(start));
    start.map(Some).ok_or_else(|| overflow("timestamp out of range"))
}

fn start_of(field: &str, micros: i64) -> Option<i128> {
    let unit = match field {
        "microseconds" => return Some(i128::from(micros)),
        "milliseconds" => 1_000,
        "second" => MICROS_PER_SECOND,
        "minute" => 60 * MICROS_PER_SECOND,
        "hour" => 3_600 * MICROS_PER_SECOND,
        "day" => MICROS_PER_DAY,
        _ => return truncate_days(field, micros.div_euclid(MICROS_PER_DAY)),
    };
    Some(i128::from(micros) - i128::from(micros.rem_euclid(unit)))
}

fn truncate_days(field: &str, days: i64) -> Option<i128> {
    let (year, month, _) = civil_from_days(days);
    let first = match field {
        "week" => days - (days + 5).rem_euclid(7),
        "month" => days_from_civil(year, month, 1),
        "quarter" => days_from_civil(year, (month - 1) / 3 * 3 + 1, 1),
        "year" => days_from_civil(year, 1, 1),
        "decade" => days_from_civil(year.div_euclid(10) * 10, 1, 1),
        "century" if year > 0 => days_from_civil((year - 1) / 100 * 100 + 1, 1, 1),
        "millennium" if year > 0 => days_from_civil((year - 1) / 1_000 * 1_000 + 1, 1, 1),
        _ => return None,
    };
    Some(i128::from(first) * i128::from(MICROS_PER_DAY))
}
