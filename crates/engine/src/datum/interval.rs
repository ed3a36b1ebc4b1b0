//! Spans of time: months, days and microseconds kept apart, as PostgreSQL's `interval`.
//!
//! Invariants: order and equality take a month for 30 days and a day for 24 hours, so `1 mon`
//! equals `30 days`; the parts themselves are kept. Arithmetic has PostgreSQL's rounding, and none
//! where a part is out of range.
//! Does not do: arithmetic with dates, styles of output other than PostgreSQL's own.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::Unit;
use super::clock::{MICROS_PER_DAY, MICROS_PER_HOUR, print_time};

const DAYS_PER_MONTH: i128 = 30;

/// A span of time.
///
/// ```
/// use rightlink::{Interval, Value};
/// let span = Interval { months: 1, days: 2, micros: 0 };
/// assert_eq!(Value::Interval(span).to_string(), "1 mon 2 days");
/// assert_eq!(span.checked_add(span), Some(Interval { months: 2, days: 4, micros: 0 }));
/// assert_eq!(span, Interval { days: 32, ..Interval::default() }, "a month counts as 30 days");
/// ```
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

    /// Length in microseconds, by which intervals are ordered. A month counts as 30 days, a day as
    /// 24 hours.
    pub fn total_micros(&self) -> i128 {
        let days = i128::from(self.months) * DAYS_PER_MONTH + i128::from(self.days);
        days * i128::from(MICROS_PER_DAY) + i128::from(self.micros)
    }

    /// An interval of the given total, as few days in microseconds as can be.
    pub(crate) fn from_total(total: i128) -> Option<Interval> {
        let days = total.div_euclid(MICROS_PER_DAY.into());
        let micros = i64::try_from(total.rem_euclid(MICROS_PER_DAY.into())).ok()?;
        let small = i128::from(i32::MIN)..=i128::from(i32::MAX);
        if small.contains(&days) {
            return Some(Interval { months: 0, days: days as i32, micros });
        }
        let months = days / DAYS_PER_MONTH;
        let months = months.clamp(*small.start(), *small.end());
        let (months, rest) = (months as i32, days - months * DAYS_PER_MONTH);
        let clamped = rest.clamp(*small.start(), *small.end());
        let rest = (rest - clamped).checked_mul(MICROS_PER_DAY.into())?;
        let micros = i64::try_from(rest.checked_add(micros.into())?).ok()?;
        Some(Interval { months, days: clamped as i32, micros })
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

    /// Every part with the other sign; none if one is out of range.
    pub fn checked_neg(self) -> Option<Interval> {
        let (months, days) = (self.months.checked_neg()?, self.days.checked_neg()?);
        Some(Interval { months, days, micros: self.micros.checked_neg()? })
    }

    /// The sum part by part; none if one is out of range.
    pub fn checked_add(self, other: Interval) -> Option<Interval> {
        let months = self.months.checked_add(other.months)?;
        let days = self.days.checked_add(other.days)?;
        Some(Interval { months, days, micros: self.micros.checked_add(other.micros)? })
    }

    /// The difference part by part; none if one is out of range.
    pub fn checked_sub(self, other: Interval) -> Option<Interval> {
        let months = self.months.checked_sub(other.months)?;
        let days = self.days.checked_sub(other.days)?;
        Some(Interval { months, days, micros: self.micros.checked_sub(other.micros)? })
    }

    /// The product; none if it is out of range.
    pub fn checked_mul(self, factor: f64) -> Option<Interval> {
        self.scaled(|part| part * factor)
    }

    /// The quotient; none if it is out of range. `divisor` is not zero.
    pub fn checked_div(self, divisor: f64) -> Option<Interval> {
        self.scaled(|part| part / divisor)
    }

    /// Fractions of months and days go down to days and microseconds, rounded and carried as
    /// PostgreSQL does it: a whole day but for the last bits is a day.
    fn scaled(self, scale: impl Fn(f64) -> f64) -> Option<Interval> {
        const SECONDS: f64 = 86_400.0;
        let rounded = |v: f64| (v * 1e6).round_ties_even() / 1e6;
        let small = |v: f64| (-2_147_483_648.0..=2_147_483_647.0).contains(&v).then_some(v as i32);
        let (months, days) = (scale(f64::from(self.months)), scale(f64::from(self.days)));
        let (whole_months, mut whole_days) = (small(months)?, small(days)?);
        let of_months = rounded((months - f64::from(whole_months)) * 30.0);
        let fraction = days - f64::from(whole_days) + of_months - of_months.trunc();
        let mut seconds = rounded(fraction * SECONDS);
        if seconds.abs() >= SECONDS {
            let carried = (seconds / SECONDS).trunc();
            whole_days = whole_days.checked_add(carried as i32)?;
            seconds -= carried * SECONDS;
        }
        whole_days = whole_days.checked_add(of_months as i32)?;
        let micros = (scale(self.micros as f64) + seconds * 1e6).round_ties_even();
        let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&micros);
        let micros = fits.then_some(micros as i64)?;
        Some(Interval { months: whole_months, days: whole_days, micros })
    }

    /// The microseconds rounded to `digits` digits of a second, half away from zero.
    pub fn rounded(self, digits: u32) -> Interval {
        let unit = 10i64.pow(6u32.saturating_sub(digits));
        let half = i128::from(unit / 2);
        let (size, sign) = (i128::from(self.micros).abs() + half, self.micros.signum());
        let whole = size - size % i128::from(unit);
        let micros = i64::try_from(whole * i128::from(sign)).unwrap_or(self.micros);
        Interval { micros, ..self }
    }
}

/// The parts that an interval's declaration or literal names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub enum IntervalFields {
    #[default]
    All,
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    YearToMonth,
    DayToHour,
    DayToMinute,
    DayToSecond,
    HourToMinute,
    HourToSecond,
    MinuteToSecond,
}

const NAMES: [(IntervalFields, &str); 14] = [
    (IntervalFields::All, ""),
    (IntervalFields::Year, "year"),
    (IntervalFields::Month, "month"),
    (IntervalFields::Day, "day"),
    (IntervalFields::Hour, "hour"),
    (IntervalFields::Minute, "minute"),
    (IntervalFields::Second, "second"),
    (IntervalFields::YearToMonth, "year to month"),
    (IntervalFields::DayToHour, "day to hour"),
    (IntervalFields::DayToMinute, "day to minute"),
    (IntervalFields::DayToSecond, "day to second"),
    (IntervalFields::HourToMinute, "hour to minute"),
    (IntervalFields::HourToSecond, "hour to second"),
    (IntervalFields::MinuteToSecond, "minute to second"),
];

impl IntervalFields {
    /// As SQL has them, in lower case; nothing for all.
    pub fn name(self) -> &'static str {
        let known = NAMES.iter().find(|(fields, _)| *fields == self);
        known.map_or("", |(_, name)| name)
    }

    /// The parts of this name.
    pub fn named(name: &str) -> Option<IntervalFields> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(fields, _)| *fields)
    }

    /// What a number without a unit counts.
    pub(super) fn last_unit(self) -> Unit {
        match self {
            Self::Year => Unit::Year,
            Self::Month | Self::YearToMonth => Unit::Month,
            Self::Day => Unit::Day,
            Self::Hour | Self::DayToHour => Unit::Hour,
            Self::Minute | Self::DayToMinute | Self::HourToMinute => Unit::Minute,
            Self::All
            | Self::Second
            | Self::DayToSecond
            | Self::HourToSecond
            | Self::MinuteToSecond => Unit::Second,
        }
    }

    /// Does `1:30` mean minutes and seconds?
    pub(super) fn is_minute_to_second(self) -> bool {
        self == Self::MinuteToSecond
    }

    /// `span` without what is smaller than the last part.
    pub fn cut(self, span: Interval) -> Interval {
        let Interval { months, days, micros } = span;
        match self.last_unit() {
            Unit::Year => Interval { months: months / 12 * 12, days: 0, micros: 0 },
            Unit::Month => Interval { months, days: 0, micros: 0 },
            Unit::Day => Interval { months, days, micros: 0 },
            Unit::Hour => Interval { micros: micros - micros % MICROS_PER_HOUR, ..span },
            Unit::Minute => Interval { micros: micros - micros % (MICROS_PER_HOUR / 60), ..span },
            _ => span,
        }
    }
}

impl Ord for Interval {
    fn cmp(&self, other: &Self) -> Ordering {
        self.total_micros().cmp(&other.total_micros())
    }
}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Interval {
    fn eq(&self, other: &Self) -> bool {
        self.total_micros() == other.total_micros()
    }
}

impl Eq for Interval {}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.total_micros().hash(state);
    }
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
        print_time(f, self.micros.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DateTimeError, LeadingSign};
    use super::*;

    fn read_interval(text: &str, fields: IntervalFields) -> Result<Interval, DateTimeError> {
        super::super::read_interval(text, fields, LeadingSign::OfOne)
    }

    const HOUR: i64 = 3_600_000_000;

    fn parse(text: &str) -> Option<Interval> {
        read_interval(text, IntervalFields::All).ok()
    }

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
            ["", "ago", "day", "1 fortnight", "1:60", "P", "P1H", "1 day x", "-", "\u{3000}1"]
        {
            assert_eq!(parse(text).map(|value| value.to_string()), None, "{text}");
        }
        assert!(parse("2147483648 months").is_none() && parse("2147483647 months").is_some());
        assert!(parse("-2147483648 days").is_some() && parse("-2147483649 days").is_none());
    }

    /// What PostgreSQL 15 makes of numbers without units, of units without numbers, of signs.
    #[test]
    fn words_are_taken_from_the_last_to_the_first() {
        use DateTimeError::{FieldRange, OutOfRange, Syntax};
        for (text, read) in [
            ("-3 +07:08", Ok("-3 days +07:08:00")),
            ("3 4 hours", Ok("3 days 04:00:00")),
            ("1-2 3", Ok("1 year 2 mons 00:00:03")),
            ("-1-2", Ok("-1 years -2 mons")),
            ("5 day hour", Ok("5 days")),
            ("1 day ago ago", Ok("-1 days")),
            ("@ 1 day, 2 hours!", Ok("1 day 02:00:00")),
            ("1d2h", Ok("1 day 02:00:00")),
            ("10::5", Ok("10:00:05")),
            ("1:2:60.5", Ok("01:03:00.5")),
            ("1. day", Ok("1 day")),
            ("2.07 years", Ok("2 years 1 mon")),
            ("0.0000035 s", Ok("00:00:00.000003")),
            ("7123456789012.347 s", Ok("1978737996:56:52.347")),
            ("PT", Ok("00:00:00")),
            ("P1e3D", Ok("1000 days")),
            ("P20010203T040506", Ok("2001 years 2 mons 3 days 04:05:06")),
            ("P1-2-3T4:5:6", Ok("1 year 2 mons 3 days 04:05:06")),
            ("4 days 5 days", Err(Syntax)),
            ("6 7", Err(Syntax)),
            ("08:09 10:11", Err(Syntax)),
            ("23 ms +21:37", Err(Syntax)),
            ("5 ago", Err(Syntax)),
            ("1day2hours", Err(Syntax)),
            ("1.day", Err(Syntax)),
            ("1 quarter", Err(Syntax)),
            ("-.5 day", Err(Syntax)),
            (" P1Y", Err(Syntax)),
            ("1-13", Err(FieldRange)),
            ("2562047788:00:54.775809", Err(FieldRange)),
            ("178956971 years", Err(OutOfRange)),
        ] {
            let interval = read_interval(text, IntervalFields::All).map(|read| read.to_string());
            assert_eq!(interval, read.map(str::to_owned), "{text}");
        }
        let words = "1 ".repeat(26);
        assert_eq!(read_interval(&words, IntervalFields::All).unwrap_err(), Syntax);
    }

    /// What PostgreSQL 15 reads in its style `sql_standard`.
    #[test]
    fn a_sign_in_front_may_be_one_of_all_parts() {
        for (text, shown) in [
            ("-1 2:03:04", "-1 days -02:03:04"),
            ("-0.25 21:23", "-27:23:00"),
            ("-1 year 2 months", "-1 years -2 mons"),
            ("-1 day +2 hours", "-1 days +02:00:00"),
            ("1 day -2:00", "1 day -02:00:00"),
            ("-1-2", "-1 years -2 mons"),
            ("-2:00 ago", "02:00:00"),
        ] {
            let fields = IntervalFields::All;
            let span = super::super::read_interval(text, fields, LeadingSign::OfAll).unwrap();
            assert_eq!(span.to_string(), shown, "{text}");
        }
    }

    #[test]
    fn fields_name_the_last_number_and_cut_the_rest() {
        use IntervalFields as F;
        for (text, fields, shown) in [
            ("1.5", F::Day, "1 day"),
            ("1:30", F::HourToMinute, "01:30:00"),
            ("1:30", F::MinuteToSecond, "00:01:30"),
            ("1 2:3", F::DayToHour, "1 day 02:00:00"),
            ("1", F::YearToMonth, "1 mon"),
            ("1 day", F::Year, "00:00:00"),
        ] {
            assert_eq!(
                read_interval(text, fields).unwrap().to_string(),
                shown,
                "{text} {fields:?}"
            );
        }
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
            let quotient = parse(span).unwrap().checked_div(by).unwrap();
            assert_eq!(quotient.to_string(), shown);
        }
        let third = parse("1 month").unwrap().checked_mul(1.0 / 3.0).unwrap();
        assert_eq!(third.to_string(), "10 days");
        assert!(parse("1 day").unwrap().checked_div(1e-300).is_none());
    }

    #[test]
    fn a_month_is_thirty_days_and_a_day_is_24_hours_long() {
        let of = |months, days, micros| Interval { months, days, micros };
        assert_eq!(of(1, 0, 0), of(0, 30, 0));
        assert_eq!(of(0, 1, 0), of(0, 0, 24 * HOUR));
        assert!(of(0, 0, -1) < of(0, 0, 0) && of(0, 31, 0) > of(1, 0, 23 * HOUR));
        let ends = [of(i32::MIN, i32::MIN, i64::MIN), of(i32::MAX, i32::MAX, i64::MAX)];
        for interval in ends.into_iter().chain([of(0, 0, -1), of(5, -9, 17), of(i32::MAX, 0, 0)]) {
            assert_eq!(Interval::from_total(interval.total_micros()), Some(interval));
            let back = Interval::from_bytes(interval.to_bytes());
            assert_eq!(format!("{back:?}"), format!("{interval:?}"));
        }
    }
}
