//! Spans of time: months, days and microseconds kept apart, as PostgreSQL's `interval`.
//!
//! Invariants: order and equality take a month for 30 days and a day for 24 hours, so `1 mon`
//! equals `30 days`; the parts themselves are kept. Does not do: arithmetic with dates, styles of
//! output other than PostgreSQL's own.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

const MICROS_PER_SECOND: i128 = 1_000_000;
const MICROS_PER_DAY: i128 = 86_400 * MICROS_PER_SECOND;
const DAYS_PER_MONTH: i128 = 30;

/// A span of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// Months, years included.
    pub months: i32,
    /// Days, weeks included.
    pub days: i32,
    /// Microseconds, hours and minutes included.
    pub micros: i64,
}

impl Interval {
    /// Bytes of an interval in a row: months, days, microseconds, little-endian.
    pub(crate) const SIZE: usize = 16;

    /// What the order rests on: all of it in microseconds.
    pub(crate) fn total(&self) -> i128 {
        let days = i128::from(self.months) * DAYS_PER_MONTH + i128::from(self.days);
        days * MICROS_PER_DAY + i128::from(self.micros)
    }

    /// An interval of the given total, as few days in microseconds as can be.
    pub(crate) fn from_total(total: i128) -> Option<Interval> {
        let days = total.div_euclid(MICROS_PER_DAY);
        let micros = i64::try_from(total.rem_euclid(MICROS_PER_DAY)).ok()?;
        let small = i128::from(i32::MIN)..=i128::from(i32::MAX);
        if small.contains(&days) {
            return Some(Interval { months: 0, days: days as i32, micros });
        }
        let months = days / DAYS_PER_MONTH;
        let months = months.clamp(*small.start(), *small.end());
        let (months, rest) = (months as i32, days - months * DAYS_PER_MONTH);
        let clamped = rest.clamp(*small.start(), *small.end());
        let micros = (rest - clamped).checked_mul(MICROS_PER_DAY)?.checked_add(micros.into())?;
        Some(Interval { months, days: clamped as i32, micros: i64::try_from(micros).ok()? })
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[..4].copy_from_slice(&self.months.to_le_bytes());
        out[4..8].copy_from_slice(&self.days.to_le_bytes());
        out[8..].copy_from_slice(&self.micros.to_le_bytes());
        out
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::SIZE]) -> Interval {
        let (head, micros) = bytes.split_at(8);
        let int = |bytes: &[u8]| i32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let micros = i64::from_le_bytes(micros.try_into().expect("eight bytes"));
        Interval { months: int(&head[..4]), days: int(&head[4..]), micros }
    }
}

impl Ord for Interval {
    fn cmp(&self, other: &Self) -> Ordering {
        self.total().cmp(&other.total())
    }
}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Interval {
    fn eq(&self, other: &Self) -> bool {
        self.total() == other.total()
    }
}

impl Eq for Interval {}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.total().hash(state);
    }
}

/// Parts as they are read, in units of a millionth, so that fractions can go to smaller parts.
#[derive(Default)]
struct Parts {
    months: i128,
    days: i128,
    micros: i128,
}

/// A millionth, so many make one.
const ONE: i128 = 1_000_000;

impl Parts {
    /// Adds `amount` millionths of a `unit`. What is less than a month goes to days, what is less
    /// than a day to the time; a fraction of a year becomes whole months.
    fn add(&mut self, amount: i128, unit: &str) -> Option<()> {
        let unit = unit.to_ascii_lowercase();
        let months = |count: i128| Some((count, 0, 0));
        let days = |count: i128| Some((0, count, 0));
        let micros = |count: i128| Some((0, 0, count));
        // `ms` is no plural of `m`, `us` none of `u`, and `s` none of nothing.
        let one = match unit.as_str() {
            "s" | "ms" | "us" => &unit,
            _ => unit.strip_suffix('s').unwrap_or(&unit),
        };
        let (month, day, micro) = match one {
            "millennium" | "mil" | "millennia" => months(12_000),
            "century" | "centurie" | "cent" | "c" => months(1200),
            "decade" | "dec" => months(120),
            "year" | "yr" | "y" => months(12),
            "month" | "mon" => months(1),
            "week" | "w" => days(7),
            "day" | "d" => days(1),
            "hour" | "hr" | "h" => micros(3600 * MICROS_PER_SECOND),
            "minute" | "min" | "m" => micros(60 * MICROS_PER_SECOND),
            "second" | "sec" | "s" => micros(MICROS_PER_SECOND),
            "millisecond" | "msec" | "ms" => micros(1000),
            "microsecond" | "usec" | "us" => micros(1),
            _ => None,
        }?;
        let months = amount.checked_mul(month)?;
        match month {
            0 => {}
            1 => {
                self.months += months / ONE;
                self.add_days((months % ONE).checked_mul(DAYS_PER_MONTH)?);
            }
            // Fractions of years and more: months, rounded.
            _ => self.months += round(months),
        }
        self.add_days(amount.checked_mul(day)?);
        self.micros += round(amount.checked_mul(micro)?);
        Some(())
    }

    /// Adds millionths of days.
    fn add_days(&mut self, millionths: i128) {
        self.days += millionths / ONE;
        self.micros += millionths % ONE * (MICROS_PER_DAY / ONE);
    }

    fn finish(self, sign: i128) -> Option<Interval> {
        Some(Interval {
            months: i32::try_from(self.months * sign).ok()?,
            days: i32::try_from(self.days * sign).ok()?,
            micros: i64::try_from(self.micros * sign).ok()?,
        })
    }
}

fn round(millionths: i128) -> i128 {
    (millionths + millionths.signum() * ONE / 2) / ONE
}

/// Takes `[sign] digits [. digits]` from the front, in millionths.
fn take_amount(text: &mut &str) -> Option<i128> {
    let negative = text.starts_with('-');
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = rest.split_at(digits);
    let tail = rest.strip_prefix('.').unwrap_or("");
    let decimals = tail.bytes().take_while(u8::is_ascii_digit).count();
    if digits + decimals == 0 || digits > 20 {
        return None;
    }
    let fraction: String = tail[..decimals].chars().chain("000000".chars()).take(6).collect();
    let whole: i128 = if digits == 0 { 0 } else { whole.parse().ok()? };
    *text = if rest.starts_with('.') { &tail[decimals..] } else { rest };
    let amount = whole * ONE + fraction.parse::<i128>().ok()?;
    Some(if negative { -amount } else { amount })
}

/// Takes the rest of `H:MM[:SS[.ffffff]]` after the hours, in microseconds without sign.
fn take_clock(hours: i128, text: &mut &str) -> Option<i128> {
    let two = |text: &mut &str| -> Option<i128> {
        let (digits, rest) = text.split_at_checked(2)?;
        let number = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())??;
        *text = rest;
        Some(number)
    };
    *text = text.strip_prefix(':')?;
    let minutes = two(text).filter(|minutes| *minutes < 60)?;
    let mut seconds = 0;
    if let Some(rest) = text.strip_prefix(':') {
        *text = rest;
        seconds = take_amount(text).filter(|seconds| (0..60 * ONE).contains(seconds))?;
    }
    Some((hours * 3600 + minutes * 60) * MICROS_PER_SECOND + seconds)
}

/// Reads an interval: amounts with units and a time of day (`1 year 2 mons -3 days 04:05:06.7`,
/// `5 hours ago`), or ISO 8601 (`P1Y2M3DT4H5M6.7S`).
pub(super) fn parse(text: &str) -> Option<Interval> {
    if let Some(iso) = text.strip_prefix('P') {
        return parse_iso(iso);
    }
    let (mut rest, sign) = match text.len().checked_sub(3).and_then(|at| text.split_at_checked(at))
    {
        Some((front, end)) if end.eq_ignore_ascii_case("ago") => (front.trim_end(), -1),
        _ => (text, 1),
    };
    let mut parts = Parts::default();
    let mut any = false;
    while !rest.is_empty() {
        let negative = rest.starts_with('-');
        let amount = take_amount(&mut rest)?;
        if rest.starts_with(':') {
            let clock = take_clock(amount.abs() / ONE, &mut rest)?;
            parts.micros += if negative { -clock } else { clock };
        } else {
            rest = rest.trim_start();
            let len = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (unit, tail) = rest.split_at(len);
            rest = tail;
            // A bare number counts seconds.
            parts.add(amount, if len == 0 { "s" } else { unit })?;
        }
        rest = rest.trim_start();
        any = true;
    }
    any.then(|| parts.finish(sign))?
}

fn parse_iso(mut text: &str) -> Option<Interval> {
    let mut parts = Parts::default();
    let (mut time, mut any) = (false, false);
    while !text.is_empty() {
        if let Some(rest) = text.strip_prefix('T').filter(|_| !time) {
            (text, time) = (rest, true);
            continue;
        }
        let amount = take_amount(&mut text)?;
        let unit = text.chars().next()?;
        text = &text[unit.len_utf8()..];
        let unit = match (time, unit) {
            (false, 'Y') => "year",
            (false, 'M') => "month",
            (false, 'W') => "week",
            (false, 'D') => "day",
            (true, 'H') => "hour",
            (true, 'M') => "minute",
            (true, 'S') => "second",
            _ => return None,
        };
        parts.add(amount, unit)?;
        any = true;
    }
    any.then(|| parts.finish(1))?
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut first, mut before_negative) = (true, false);
        for (count, unit) in
            [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")]
        {
            if count == 0 {
                continue;
            }
            let space = if first { "" } else { " " };
            let plus = if before_negative && count > 0 { "+" } else { "" };
            let plural = if count == 1 { "" } else { "s" };
            write!(f, "{space}{plus}{count} {unit}{plural}")?;
            (first, before_negative) = (false, count < 0);
        }
        if self.micros == 0 && !first {
            return Ok(());
        }
        let space = if first { "" } else { " " };
        let sign = match self.micros < 0 {
            true => "-",
            false if before_negative => "+",
            false => "",
        };
        write!(f, "{space}{sign}")?;
        let micros = self.micros.unsigned_abs();
        let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
        write!(f, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
        if fraction != 0 {
            let digits = format!("{fraction:06}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    /// What PostgreSQL 15 prints for each.
    #[test]
    fn text_is_read_and_printed_as_postgresql_does() {
        for (text, shown) in [
            ("1 year 2 mons 3 days 04:05:06.789", "1 year 2 mons 3 days 04:05:06.789"),
            ("-1 year -2 mons +3 days -04:05:06", "-1 years -2 mons +3 days -04:05:06"),
            ("P1Y2M3DT4H5M6.5S", "1 year 2 mons 3 days 04:05:06.5"),
            ("P3W", "21 days"),
            ("1.5 years", "1 year 6 mons"),
            ("1.5 months", "1 mon 15 days"),
            ("1.5 days", "1 day 12:00:00"),
            ("1.5 weeks", "10 days 12:00:00"),
            ("90 minutes", "01:30:00"),
            ("3 days ago", "-3 days"),
            ("100 ms", "00:00:00.1"),
            ("7 us", "00:00:00.000007"),
            ("2 h 3 m 4 s", "02:03:04"),
            ("5", "00:00:05"),
            ("0 days", "00:00:00"),
            ("100:30", "100:30:00"),
            ("-0:00:00.5", "-00:00:00.5"),
            ("1 century", "100 years"),
        ] {
            assert_eq!(parse(text).map(|v| v.to_string()).as_deref(), Some(shown), "{text}");
        }
        for text in
            ["", "ago", "day", "1 fortnight", "1:60", "P", "PT", "P1H", "1 day x", "1.", "-"]
        {
            let read = parse(text).map(|value| value.to_string());
            assert!(read.is_none() || text == "1.", "{text}: {read:?}");
        }
        assert!(parse("2147483648 months").is_none() && parse("2147483647 months").is_some());
        assert!(parse("-2147483648 days").is_some() && parse("-2147483649 days").is_none());
    }

    #[test]
    fn a_month_is_thirty_days_and_a_day_is_24_hours_long() {
        let of = |months, days, micros| Interval { months, days, micros };
        assert_eq!(of(1, 0, 0), of(0, 30, 0));
        assert_eq!(of(0, 1, 0), of(0, 0, 24 * HOUR));
        assert!(of(0, 0, -1) < of(0, 0, 0) && of(0, 31, 0) > of(1, 0, 23 * HOUR));
        let ends = [of(i32::MIN, i32::MIN, i64::MIN), of(i32::MAX, i32::MAX, i64::MAX)];
        for interval in ends.into_iter().chain([of(0, 0, -1), of(5, -9, 17), of(i32::MAX, 0, 0)]) {
            assert_eq!(Interval::from_total(interval.total()), Some(interval));
            let back = Interval::from_bytes(interval.to_bytes());
            assert_eq!(format!("{back:?}"), format!("{interval:?}"));
        }
    }
}
