//! Fields of dates and times, cutting to a field, and sums with intervals.
//!
//! Invariants: what is computed lies in the ranges of dates and timestamps.
//! Exact fields are `extract`'s, floats are `date_part`'s, each by PostgreSQL's own sums.
//! Does not do: zones; a timestamp that has one comes with its offset.

use rightlink::internal::datum::{
    CivilDate, DATES, TIMESTAMPS, Unit, civil_from_days, days_from_civil, days_in_month,
};

use crate::error::{Result, SqlError, code};
use crate::types::numeric::shifted;
use crate::types::{Datum, Decimal, Interval, numeric};

pub(crate) const MICROS_PER_SECOND: i64 = 1_000_000;
pub(crate) const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Seconds from 1970-01-01 to 2000-01-01.
pub(crate) const EPOCH_SECONDS: i64 = 946_684_800;
/// The Julian day of 2000-01-01.
const EPOCH_JULIAN: i64 = 2_451_545;

pub(crate) fn is_finite(micros: i64) -> bool {
    micros != i64::MAX && micros != i64::MIN
}

pub(crate) fn is_finite_day(day: i32) -> bool {
    day != i32::MAX && day != i32::MIN
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

pub(crate) fn overflow(what: &str) -> SqlError {
    SqlError::new(code::DATETIME_OVERFLOW, what)
}

pub(crate) fn interval_out_of_range() -> SqlError {
    overflow("interval out of range")
}

/// The day so many days later; infinities stay.
pub(crate) fn add_days(day: i32, count: i64) -> Result<i32> {
    if !is_finite_day(day) {
        return Ok(day);
    }
    let sum = i64::from(day) + count;
    if DATES.contains(&sum) { Ok(sum as i32) } else { Err(overflow("date out of range")) }
}

/// A timestamp and an interval later: first the months, where the day is cut to the length of its
/// month, then the days, then the time. Each sum must be a timestamp.
pub(crate) fn add(micros: i64, span: Interval) -> Result<i64> {
    if !is_finite(micros) {
        return Ok(micros);
    }
    let (mut days, time) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
    let at = |days: i64, time: i64| {
        let sum = i128::from(days) * i128::from(MICROS_PER_DAY) + i128::from(time);
        let sum = i64::try_from(sum).ok().filter(|sum| TIMESTAMPS.contains(sum));
        sum.ok_or_else(|| overflow("timestamp out of range"))
    };
    if span.months != 0 {
        let CivilDate { year, month, day } = civil_from_days(days);
        let months = year * 12 + i64::from(month) - 1 + i64::from(span.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
        days = days_from_civil(year, month, day.min(days_in_month(year, month)));
        at(days, time)?;
    }
    days += i64::from(span.days);
    at(days, time)?;
    let time = time.checked_add(span.micros).ok_or_else(|| overflow("timestamp out of range"))?;
    at(days, time)
}

/// From `b` to `a`: days and time of day.
pub(crate) fn difference(a: i64, b: i64) -> Result<Interval> {
    if !is_finite(a) || !is_finite(b) {
        return Err(overflow("cannot subtract infinite timestamps"));
    }
    let micros = a.checked_sub(b).ok_or_else(interval_out_of_range)?;
    let days = (micros / MICROS_PER_DAY) as i32;
    Ok(Interval { months: 0, days, micros: micros % MICROS_PER_DAY })
}

/// A field of a date, a time or a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Field {
    Unit(Unit),
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    IsoYear,
    Julian,
    Epoch,
}

impl Field {
    /// The field that `name` names, in any case.
    pub(crate) fn named(name: &str) -> Option<Field> {
        if let Some(unit) = Unit::named(name) {
            return Some(Field::Unit(unit));
        }
        Some(match name.to_ascii_lowercase().as_str() {
            "dow" => Field::DayOfWeek,
            "isodow" => Field::IsoDayOfWeek,
            "doy" => Field::DayOfYear,
            "isoyear" => Field::IsoYear,
            "j" | "jd" | "julian" => Field::Julian,
            "epoch" => Field::Epoch,
            "mm" => Field::Unit(Unit::Minute),
            _ => return None,
        })
    }

    /// Does it come again and again, so that an infinite date has none?
    fn oscillates(self) -> bool {
        match self {
            Field::Unit(unit) => {
                !matches!(unit, Unit::Year | Unit::Decade | Unit::Century | Unit::Millennium)
            }
            Field::DayOfWeek | Field::IsoDayOfWeek | Field::DayOfYear => true,
            Field::IsoYear | Field::Julian | Field::Epoch => false,
        }
    }
}

/// What `extract` is asked of.
#[derive(Clone, Copy)]
pub(crate) enum Moment {
    /// A timestamp without zone.
    At(i64),
    /// A timestamp of UTC, and the offset of its zone in seconds east.
    AtZone(i64, i32),
    /// A day.
    Day(i32),
    /// A span.
    Span(Interval),
}

/// A field's value, exactly and as the float that PostgreSQL computes. An infinity is a float in
/// both places.
pub(crate) struct Found {
    pub(crate) exact: Datum,
    pub(crate) float: Datum,
}

fn found(exact: Decimal, float: f64) -> Option<Found> {
    Some(Found { exact: Datum::Numeric(exact), float: Datum::Float8(float) })
}

fn whole(number: i64) -> Option<Found> {
    found(Decimal::from(number), number as f64)
}

impl Moment {
    /// Is it infinite, and with which sign?
    fn infinity(self) -> Option<f64> {
        let end = match self {
            Moment::At(i64::MAX) | Moment::AtZone(i64::MAX, _) | Moment::Day(i32::MAX) => 1.0,
            Moment::At(i64::MIN) | Moment::AtZone(i64::MIN, _) | Moment::Day(i32::MIN) => -1.0,
            _ => return None,
        };
        Some(end * f64::INFINITY)
    }
}

/// The field's value; `None` where PostgreSQL has none.
pub(crate) fn extract(field: Field, moment: Moment) -> Result<Option<Found>> {
    if let Some(infinity) = moment.infinity() {
        // Which fields there are does not depend on the moment.
        let finite = match moment {
            Moment::Day(_) => Moment::Day(0),
            Moment::AtZone(..) => Moment::AtZone(0, 0),
            _ => Moment::At(0),
        };
        if extract(field, finite)?.is_none() {
            return Ok(None);
        }
        if field.oscillates() {
            return Ok(Some(Found { exact: Datum::Null, float: Datum::Null }));
        }
        let float = Datum::Float8(infinity);
        return Ok(Some(Found { exact: float.clone(), float }));
    }
    Ok(match moment {
        Moment::Span(span) => of_span(field, span),
        Moment::Day(days) => match field {
            Field::Epoch => whole(i64::from(days) * 86_400 + EPOCH_SECONDS),
            Field::Julian => whole(i64::from(days) + EPOCH_JULIAN),
            _ => of_day(field, i64::from(days)),
        },
        Moment::At(micros) => of_timestamp(field, micros)?,
        Moment::AtZone(micros, offset) => match (field, offset_field(field, offset)) {
            (_, Some(found)) => Some(found),
            (Field::Epoch, None) => of_timestamp(field, micros)?,
            _ => of_timestamp(field, micros + i64::from(offset) * MICROS_PER_SECOND)?,
        },
    })
}

/// Fields of the offset of a zone.
pub(crate) fn offset_field(field: Field, offset: i32) -> Option<Found> {
    let offset = i64::from(offset);
    match field {
        Field::Unit(Unit::Timezone) => whole(offset),
        Field::Unit(Unit::TimezoneHour) => whole(offset / 3_600),
        Field::Unit(Unit::TimezoneMinute) => whole(offset / 60 % 60),
        _ => None,
    }
}

fn of_timestamp(field: Field, micros: i64) -> Result<Option<Found>> {
    let (days, time) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
    Ok(match field {
        Field::Unit(unit) => clock_field(unit, time).or_else(|| of_day(field, days)),
        Field::Epoch => {
            let epoch = EPOCH_SECONDS * MICROS_PER_SECOND;
            let since = i128::from(micros) + i128::from(epoch);
            match i64::try_from(since) {
                Ok(near) => found(shifted(since, 6), near as f64 / 1e6),
                // Here PostgreSQL divides, and rounds to four digits.
                Err(_) => {
                    let exact =
                        numeric::divide(&shifted(since, 0), &Decimal::from(MICROS_PER_SECOND))?;
                    found(numeric::round(&exact, 6)?, (micros as f64 + epoch as f64) / 1e6)
                }
            }
        }
        Field::Julian => {
            let part = numeric::divide(&Decimal::from(time), &Decimal::from(MICROS_PER_DAY))?;
            let julian = days + EPOCH_JULIAN;
            let seconds =
                (time / MICROS_PER_SECOND) as f64 + (time % MICROS_PER_SECOND) as f64 / 1e6;
            found(numeric::add(&Decimal::from(julian), &part)?, julian as f64 + seconds / 86_400.0)
        }
        _ => of_day(field, days),
    })
}

/// Microseconds as seconds.
pub(crate) fn seconds_field(micros: i64) -> Option<Found> {
    found(shifted(micros.into(), 6), micros as f64 / 1e6)
}

/// Fields of the time of a day, or of the time of a span.
pub(crate) fn clock_field(unit: Unit, micros: i64) -> Option<Found> {
    let of_minute = micros % (60 * MICROS_PER_SECOND);
    let (seconds, rest) = (of_minute / MICROS_PER_SECOND, of_minute % MICROS_PER_SECOND);
    match unit {
        Unit::Hour => whole(micros / (3_600 * MICROS_PER_SECOND)),
        Unit::Minute => whole(micros / (60 * MICROS_PER_SECOND) % 60),
        Unit::Second => found(shifted(of_minute.into(), 6), seconds as f64 + rest as f64 / 1e6),
        Unit::Millisecond => {
            found(shifted(of_minute.into(), 3), seconds as f64 * 1e3 + rest as f64 / 1e3)
        }
        Unit::Microsecond => whole(of_minute),
        _ => None,
    }
}

fn of_day(field: Field, days: i64) -> Option<Found> {
    let CivilDate { year, month, day } = civil_from_days(days);
    let weekday = (days + 6).rem_euclid(7);
    whole(match field {
        Field::Unit(unit) => match unit {
            Unit::Year => shown_year(year),
            Unit::Month => i64::from(month),
            Unit::Day => i64::from(day),
            Unit::Quarter => i64::from((month - 1) / 3 + 1),
            Unit::Week => iso_week(days).1,
            Unit::Decade => year.div_euclid(10),
            Unit::Century => count_of(year, 100),
            Unit::Millennium => count_of(year, 1_000),
            _ => return None,
        },
        Field::DayOfWeek => weekday,
        Field::IsoDayOfWeek => (weekday + 6) % 7 + 1,
        Field::DayOfYear => days - days_from_civil(year, 1, 1) + 1,
        Field::IsoYear => shown_year(iso_week(days).0),
        Field::Julian | Field::Epoch => return None,
    })
}

/// Before year 1 comes year -1.
fn shown_year(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

/// Which of the periods of so many years it is; there is none of number 0.
fn count_of(year: i64, years: i64) -> i64 {
    if year > 0 { (year + years - 1) / years } else { -((years - year) / years) }
}

/// Year and number of the week whose Thursday is in that year.
pub(crate) fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days - (days + 5).rem_euclid(7) + 3;
    let year = civil_from_days(thursday).year;
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

fn of_span(field: Field, span: Interval) -> Option<Found> {
    let (years, months) = (i64::from(span.months / 12), i64::from(span.months % 12));
    match field {
        Field::Unit(unit) => match unit {
            Unit::Year => whole(years),
            Unit::Month => whole(months),
            Unit::Day => whole(i64::from(span.days)),
            Unit::Quarter => whole(months / 3 + 1),
            Unit::Decade => whole(years / 10),
            Unit::Century => whole(years / 100),
            Unit::Millennium => whole(years / 1_000),
            _ => clock_field(unit, span.micros),
        },
        Field::Epoch => {
            // A year counts 365.25 days here.
            let seconds = years * 31_557_600 + (months * 30 + i64::from(span.days)) * 86_400;
            let exact = i128::from(seconds) * i128::from(MICROS_PER_SECOND);
            let float = span.micros as f64 / 1e6
                + 31_557_600.0 * years as f64
                + 2_592_000.0 * months as f64
                + 86_400.0 * f64::from(span.days);
            found(shifted(exact + i128::from(span.micros), 6), float)
        }
        _ => None,
    }
}

/// The start of the field that `micros` is in; `None` where PostgreSQL has no such field. Fails
/// where that is before the first timestamp.
pub(crate) fn truncate(unit: Unit, micros: i64) -> Result<Option<i64>> {
    let Some(start) = start_of(unit, micros) else { return Ok(None) };
    let start = i64::try_from(start).ok().filter(|start| TIMESTAMPS.contains(start));
    start.map(Some).ok_or_else(|| overflow("timestamp out of range"))
}

fn start_of(unit: Unit, micros: i64) -> Option<i128> {
    let unit = match unit {
        Unit::Microsecond => return Some(i128::from(micros)),
        Unit::Millisecond => 1_000,
        Unit::Second => MICROS_PER_SECOND,
        Unit::Minute => 60 * MICROS_PER_SECOND,
        Unit::Hour => 3_600 * MICROS_PER_SECOND,
        Unit::Day => MICROS_PER_DAY,
        _ => return truncate_days(unit, micros.div_euclid(MICROS_PER_DAY)),
    };
    Some(i128::from(micros) - i128::from(micros.rem_euclid(unit)))
}

fn truncate_days(unit: Unit, days: i64) -> Option<i128> {
    let CivilDate { year, month, .. } = civil_from_days(days);
    let period = |years: i64| (year - 1).div_euclid(years) * years + 1;
    let first = match unit {
        Unit::Week => days - (days + 5).rem_euclid(7),
        Unit::Month => days_from_civil(year, month, 1),
        Unit::Quarter => days_from_civil(year, (month - 1) / 3 * 3 + 1, 1),
        Unit::Year => days_from_civil(year, 1, 1),
        Unit::Decade => days_from_civil(year.div_euclid(10) * 10, 1, 1),
        Unit::Century => days_from_civil(period(100), 1, 1),
        Unit::Millennium => days_from_civil(period(1_000), 1, 1),
        _ => return None,
    };
    Some(i128::from(first) * i128::from(MICROS_PER_DAY))
}
