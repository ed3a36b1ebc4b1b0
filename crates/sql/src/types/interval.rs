//! `interval`: months, days and microseconds, kept apart because a month has no fixed days.
//!
//! Invariants: order takes a month for 30 days and a day for 24 hours, as PostgreSQL's does; text
//! is PostgreSQL's own style.
//! Does not do: ISO 8601 durations, fields limited by the type.

use std::cmp::Ordering;
use std::fmt;

use crate::error::{Result, SqlError, code};

pub(crate) const MICROS_PER_SECOND: i64 = 1_000_000;
pub(crate) const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// A span of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

impl Interval {
    /// All of it in microseconds, months of 30 days.
    pub(crate) fn span(self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * i128::from(MICROS_PER_DAY) + i128::from(self.micros)
    }

    pub(crate) fn negate(self) -> Result<Interval> {
        let negated = || {
            let (months, days) = (self.months.checked_neg()?, self.days.checked_neg()?);
            Some(Interval { months, days, micros: self.micros.checked_neg()? })
        };
        negated().ok_or_else(out_of_range)
    }

    pub(crate) fn add(self, other: Interval) -> Result<Interval> {
        let sum = || {
            let months = self.months.checked_add(other.months)?;
            let days = self.days.checked_add(other.days)?;
            Some(Interval { months, days, micros: self.micros.checked_add(other.micros)? })
        };
        sum().ok_or_else(out_of_range)
    }

    pub(crate) fn multiply(self, factor: f64) -> Result<Interval> {
        self.scale(|part| part * factor)
    }

    /// The caller has looked that `divisor` is not zero.
    pub(crate) fn divide(self, divisor: f64) -> Result<Interval> {
        self.scale(|part| part / divisor)
    }

    /// Fractions of months and days go down to days and microseconds, rounded and carried as
    /// PostgreSQL does it: what is a whole day but for the last bits is a day.
    fn scale(self, scaled: impl Fn(f64) -> f64) -> Result<Interval> {
        const SECONDS: f64 = 86_400.0;
        let rounded = |v: f64| (v * 1e6).round_ties_even() / 1e6;
        let fits = |v: f64, limit: f64| v.is_finite() && v.abs() < limit;
        let (months, days) = (scaled(f64::from(self.months)), scaled(f64::from(self.days)));
        let of_months = rounded(months.fract() * 30.0);
        let mut seconds = rounded((days.fract() + of_months.fract()) * SECONDS);
        let carried = (seconds / SECONDS).trunc();
        seconds -= carried * SECONDS;
        let days = days.trunc() + of_months.trunc() + carried;
        let micros = (scaled(self.micros as f64) + seconds * 1e6).round_ties_even();
        if !fits(months, 2_147_483_648.0) || !fits(days, 2_147_483_648.0) || !fits(micros, 9.2e18) {
            return Err(out_of_range());
        }
        Ok(Interval { months: months.trunc() as i32, days: days as i32, micros: micros as i64 })
    }

    /// Reads PostgreSQL's style: numbers with units, and hours with minutes.
    pub(crate) fn parse(text: &str) -> Option<Interval> {
        let mut total = Interval::default();
        let mut words = text.split_whitespace().peekable();
        words.peek()?;
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case("ago") {
                return words.next().is_none().then(|| total.negate().ok()).flatten();
            }
            let part = match word.contains(':') {
                true => Interval { micros: parse_clock(word)?, ..Interval::default() },
                false => {
                    let split = word.find(|c: char| c.is_alphabetic()).unwrap_or(word.len());
                    let (number, unit) = word.split_at(split);
                    let unit = match unit {
                        "" => words.next_if(|next| next.starts_with(char::is_alphabetic)),
                        unit => Some(unit),
                    };
                    of_unit(number.parse().ok()?, unit.unwrap_or("second"))?
                }
            };
            total = total.add(part).ok()?;
        }
        Some(total)
    }
}

/// `[-]hours:minutes[:seconds]`
fn parse_clock(text: &str) -> Option<i64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = rest.split(':');
    let (hours, minutes) = (parts.next()?.parse::<i64>().ok()?, parts.next()?.parse::<i64>().ok()?);
    let seconds: f64 = parts.next().map_or(Some(0.0), |part| part.parse().ok())?;
    if parts.next().is_some() || !(0..60).contains(&minutes) || !(0.0..60.0).contains(&seconds) {
        return None;
    }
    let whole = hours.checked_mul(3_600)?.checked_add(minutes * 60)?;
    let micros = whole.checked_mul(MICROS_PER_SECOND)? + (seconds * 1e6).round() as i64;
    Some(sign * micros)
}

fn of_unit(number: f64, unit: &str) -> Option<Interval> {
    let lower = unit.to_ascii_lowercase();
    let months = |count: i32| Interval { months: count, ..Interval::default() };
    let days = |count: i32| Interval { days: count, ..Interval::default() };
    let micros = |count: i64| Interval { micros: count, ..Interval::default() };
    let one = match lower.as_str() {
        "millennium" | "millennia" | "mil" => months(12_000),
        "century" | "centuries" | "c" => months(1_200),
        "decade" | "decades" => months(120),
        "year" | "years" | "y" | "yr" | "yrs" => months(12),
        "month" | "months" | "mon" | "mons" => months(1),
        "week" | "weeks" | "w" => days(7),
        "day" | "days" | "d" => days(1),
        "hour" | "hours" | "h" | "hr" | "hrs" => micros(3_600 * MICROS_PER_SECOND),
        "minute" | "minutes" | "m" | "min" | "mins" => micros(60 * MICROS_PER_SECOND),
        "second" | "seconds" | "s" | "sec" | "secs" => micros(MICROS_PER_SECOND),
        "millisecond" | "milliseconds" | "ms" | "msec" => micros(1_000),
        "microsecond" | "microseconds" | "us" | "usec" => micros(1),
        _ => return None,
    };
    one.multiply(number).ok()
}

pub(crate) fn out_of_range() -> SqlError {
    SqlError::new(code::DATETIME_OVERFLOW, "interval out of range")
}

impl From<rightlink::Interval> for Interval {
    fn from(span: rightlink::Interval) -> Self {
        Interval { months: span.months, days: span.days, micros: span.micros }
    }
}

impl From<Interval> for rightlink::Interval {
    fn from(span: Interval) -> Self {
        rightlink::Interval { months: span.months, days: span.days, micros: span.micros }
    }
}

impl Ord for Interval {
    fn cmp(&self, other: &Self) -> Ordering {
        self.span().cmp(&other.span())
    }
}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Interval {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Interval {}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut negative_before = false;
        for (count, one) in
            [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")]
        {
            if count != 0 {
                let plus = if negative_before && count > 0 { "+" } else { "" };
                let plural = if count == 1 { "" } else { "s" };
                parts.push(format!("{plus}{count} {one}{plural}"));
                negative_before = count < 0;
            }
        }
        if self.micros != 0 || parts.is_empty() {
            let sign = match (self.micros < 0, negative_before) {
                (true, _) => "-",
                (false, true) => "+",
                (false, false) => "",
            };
            parts.push(format!("{sign}{}", clock(self.micros.unsigned_abs())));
        }
        f.write_str(&parts.join(" "))
    }
}

fn clock(micros: u64) -> String {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (h, m, s) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let mut text = format!("{h:02}:{m:02}:{s:02}");
    if fraction != 0 {
        text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PostgreSQL 15 prints.
    #[test]
    fn text_is_postgresqls() {
        for (input, shown) in [
            ("1 day", "1 day"),
            ("1 year 2 months 3 days 4 hours", "1 year 2 mons 3 days 04:00:00"),
            ("-1 day 02:03:04.5", "-1 days +02:03:04.5"),
            ("36:00", "36:00:00"),
            ("1.5 days", "1 day 12:00:00"),
            ("90 minutes", "01:30:00"),
            ("0 seconds", "00:00:00"),
            ("2 days ago", "-2 days"),
            ("5", "00:00:05"),
        ] {
            assert_eq!(Interval::parse(input).unwrap().to_string(), shown, "{input}");
        }
        assert!(Interval::parse("").is_none());
        assert!(Interval::parse("1 fortnight").is_none());
    }

    /// What PostgreSQL 15 gives.
    #[test]
    fn quotients_are_carried() {
        for (span, by, shown) in [
            ("49 days", 49.0, "1 day"),
            ("49 months", 49.0, "1 mon"),
            ("1 month", 7.0, "4 days 06:51:25.6896"),
            ("-49 days", 49.0, "-1 days"),
            ("1 year", 5.0, "2 mons 12 days"),
        ] {
            assert_eq!(Interval::parse(span).unwrap().divide(by).unwrap().to_string(), shown);
        }
        let third = Interval::parse("1 month").unwrap().multiply(1.0 / 3.0).unwrap();
        assert_eq!(third.to_string(), "10 days");
        assert!(Interval::parse("1 day").unwrap().divide(1e-300).is_err());
    }

    #[test]
    fn a_month_is_as_long_as_thirty_days() {
        assert_eq!(Interval::parse("1 month"), Interval::parse("30 days"));
        assert!(Interval::parse("1 month") < Interval::parse("31 days"));
    }
}
