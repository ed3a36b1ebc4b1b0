//! Dates, times, timestamps and intervals as text in each style: `EncodeDateTime` and
//! `EncodeInterval` of PostgreSQL's `datetime.c`.
//!
//! Invariants: any value prints.
//! Does not do: patterns of `to_char`.

use std::fmt::{self, Write};

use rightlink::internal::datum::{CivilDate, civil_from_days};

use super::zone::Local;
use super::{DateOrder, DateStyle, IntervalStyle, Styles, Times, ZonedTime};
use crate::types::Interval;
use crate::types::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND};

/// Letters of a zone's abbreviation that are shown.
const ABBREVIATION: usize = 10;

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Appends a date.
pub(crate) fn date(days: i32, styles: &Styles, out: &mut String) {
    match days {
        i32::MAX => out.push_str("infinity"),
        i32::MIN => out.push_str("-infinity"),
        _ => fine(write_date(i64::from(days), styles, out)),
    }
}

/// Appends a timestamp; with `zoned` in the zone of the session, else without any.
pub(crate) fn timestamp(micros: i64, zoned: bool, times: &Times, out: &mut String) {
    let styles = &times.styles;
    match micros {
        i64::MAX => out.push_str("infinity"),
        i64::MIN => out.push_str("-infinity"),
        _ => {
            let local = zoned.then(|| styles.zone.at(micros));
            fine(write_timestamp(micros, local.as_ref(), styles, out));
        }
    }
}

/// Appends a time of day.
pub(crate) fn time(micros: i64, out: &mut String) {
    fine(write_clock(micros, out));
}

/// Appends a time of day with its zone.
pub(crate) fn timetz(time: ZonedTime, out: &mut String) {
    fine(write_clock(time.micros, out).and_then(|()| write_offset(time.offset, false, out)));
}

/// Appends a timestamp as ISO 8601 has it, which does not depend on styles: a T between day and
/// time, minutes in the offset.
pub(crate) fn iso_timestamp(micros: i64, zoned: bool, times: &Times, out: &mut String) {
    match micros {
        i64::MAX => return out.push_str("infinity"),
        i64::MIN => return out.push_str("-infinity"),
        _ => {}
    }
    let offset = if zoned { times.zone().offset_at(micros) } else { 0 };
    let local = i128::from(micros) + i128::from(offset) * i128::from(MICROS_PER_SECOND);
    let (days, time) = split(local);
    fine((|| {
        let era = write_civil(civil_from_days(days), "-", out)?;
        out.push('T');
        write_clock(time, out)?;
        if zoned {
            write_offset(offset, true, out)?;
        }
        out.push_str(era);
        Ok(())
    })());
}

fn fine(written: fmt::Result) {
    written.expect("writing to a string succeeds");
}

/// Days and microseconds of the day.
fn split(micros: i128) -> (i64, i64) {
    let day = i128::from(MICROS_PER_DAY);
    (micros.div_euclid(day) as i64, micros.rem_euclid(day) as i64)
}

/// What stands behind a date before year 1.
fn era(year: i64) -> &'static str {
    if year > 0 { "" } else { " BC" }
}

fn shown_year(year: i64) -> i64 {
    if year > 0 { year } else { 1 - year }
}

/// Year, month and day; what stands behind them.
fn write_civil(
    civil: CivilDate,
    separator: &str,
    out: &mut String,
) -> Result<&'static str, fmt::Error> {
    let CivilDate { year, month, day } = civil;
    write!(out, "{:04}{separator}{month:02}{separator}{day:02}", shown_year(year))?;
    Ok(era(year))
}

/// The parts of a date in another order than years first; what stands behind them.
fn write_parts(
    civil: CivilDate,
    day_first: bool,
    separator: &str,
    out: &mut String,
) -> Result<&'static str, fmt::Error> {
    let CivilDate { year, month, day } = civil;
    let [first, second] = if day_first { [day, month] } else { [month, day] };
    write!(out, "{first:02}{separator}{second:02}{separator}{:04}", shown_year(year))?;
    Ok(era(year))
}

fn write_date(days: i64, styles: &Styles, out: &mut String) -> fmt::Result {
    let civil = civil_from_days(days);
    let day_first = styles.order == DateOrder::Dmy;
    let era = match styles.dates {
        DateStyle::Iso => write_civil(civil, "-", out)?,
        DateStyle::Sql => write_parts(civil, day_first, "/", out)?,
        DateStyle::German => write_parts(civil, true, ".", out)?,
        DateStyle::Postgres => write_parts(civil, day_first, "-", out)?,
    };
    out.push_str(era);
    Ok(())
}

fn write_timestamp(
    micros: i64,
    local: Option<&Local>,
    styles: &Styles,
    out: &mut String,
) -> fmt::Result {
    let offset = local.map_or(0, |local| local.offset);
    let (days, time) =
        split(i128::from(micros) + i128::from(offset) * i128::from(MICROS_PER_SECOND));
    let civil = civil_from_days(days);
    let day_first = styles.order == DateOrder::Dmy;
    let abbreviation = local.map(|local| {
        let name = &local.abbreviation;
        name.get(..ABBREVIATION).unwrap_or(name)
    });
    let era = match styles.dates {
        DateStyle::Iso => {
            let era = write_civil(civil, "-", out)?;
            out.push(' ');
            write_clock(time, out)?;
            if local.is_some() {
                write_offset(offset, false, out)?;
            }
            out.push_str(era);
            return Ok(());
        }
        DateStyle::Postgres => {
            let CivilDate { year, month, day } = civil;
            let weekday = DAYS[(days + 6).rem_euclid(7) as usize];
            let month = MONTHS[month as usize - 1];
            match day_first {
                true => write!(out, "{weekday} {day:02} {month} ")?,
                false => write!(out, "{weekday} {month} {day:02} ")?,
            }
            write_clock(time, out)?;
            write!(out, " {:04}", shown_year(year))?;
            era(year)
        }
        DateStyle::Sql | DateStyle::German => {
            let is_german = styles.dates == DateStyle::German;
            let separator = if is_german { "." } else { "/" };
            let era = write_parts(civil, is_german || day_first, separator, out)?;
            out.push(' ');
            write_clock(time, out)?;
            era
        }
    };
    if let Some(abbreviation) = abbreviation {
        write!(out, " {abbreviation}")?;
    }
    out.push_str(era);
    Ok(())
}

/// Hours, minutes and seconds of microseconds that are not below zero.
fn write_clock(micros: i64, out: &mut String) -> fmt::Result {
    let seconds = micros / MICROS_PER_SECOND;
    write!(out, "{:02}:{:02}:", seconds / 3_600, seconds / 60 % 60)?;
    write_seconds(micros % (60 * MICROS_PER_SECOND), true, out)
}

/// Seconds with as many digits behind the point as they need, without their sign.
fn write_seconds(micros: i64, fills: bool, out: &mut String) -> fmt::Result {
    let micros = micros.unsigned_abs();
    let width = if fills { 2 } else { 1 };
    write!(out, "{:0width$}", micros / 1_000_000)?;
    if !micros.is_multiple_of(1_000_000) {
        let digits = format!("{:06}", micros % 1_000_000);
        write!(out, ".{}", digits.trim_end_matches('0'))?;
    }
    Ok(())
}

/// An offset, minutes and seconds as far as it has them.
fn write_offset(offset: i32, with_minutes: bool, out: &mut String) -> fmt::Result {
    let size = offset.unsigned_abs();
    let sign = if offset < 0 { '-' } else { '+' };
    write!(out, "{sign}{:02}", size / 3_600)?;
    if with_minutes || !size.is_multiple_of(3_600) {
        write!(out, ":{:02}", size / 60 % 60)?;
    }
    if !size.is_multiple_of(60) {
        write!(out, ":{:02}", size % 60)?;
    }
    Ok(())
}

/// The parts of an interval, each with its sign.
struct Parts {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    /// Seconds, in microseconds.
    seconds: i64,
}

/// Appends an interval.
pub(crate) fn interval(span: Interval, style: IntervalStyle, out: &mut String) {
    let minute = 60 * MICROS_PER_SECOND;
    let parts = Parts {
        years: i64::from(span.months / 12),
        months: i64::from(span.months % 12),
        days: i64::from(span.days),
        hours: span.micros / (60 * minute),
        minutes: span.micros / minute % 60,
        seconds: span.micros % minute,
    };
    fine(match style {
        IntervalStyle::Postgres => write!(out, "{span}"),
        IntervalStyle::PostgresVerbose => parts.write_verbose(out),
        IntervalStyle::SqlStandard => parts.write_sql(span, out),
        IntervalStyle::Iso8601 => parts.write_iso(out),
    });
}

impl Parts {
    fn write_sql(&self, span: Interval, out: &mut String) -> fmt::Result {
        let of_days = [self.days, span.micros];
        let all = [i64::from(span.months), self.days, span.micros];
        let is_negative = all.iter().any(|part| *part < 0);
        let is_positive = all.iter().any(|part| *part > 0);
        let has_days = of_days.iter().any(|part| *part != 0);
        let Parts { years, months, days, hours, minutes, .. } = self;
        let [years, months, days] = [years.abs(), months.abs(), days.abs()];
        let [hours, minutes] = [hours.abs(), minutes.abs()];
        if !is_negative && !is_positive {
            out.push('0');
            return Ok(());
        }
        if is_negative && is_positive || span.months != 0 && has_days {
            // Several signs, or parts that the standard does not have together.
            let sign = |part: i64| if part < 0 { '-' } else { '+' };
            let [of_months, of_days, of_time] = all.map(sign);
            write!(out, "{of_months}{years}-{months} {of_days}{days} ")?;
            write!(out, "{of_time}{hours}:{minutes:02}:")?;
            return write_seconds(self.seconds, true, out);
        }
        if is_negative {
            out.push('-');
        }
        if span.months != 0 {
            return write!(out, "{years}-{months}");
        }
        if self.days != 0 {
            write!(out, "{days} ")?;
        }
        write!(out, "{hours}:{minutes:02}:")?;
        write_seconds(self.seconds, true, out)
    }

    fn write_iso(&self, out: &mut String) -> fmt::Result {
        let write = |parts: [(i64, char); 3], out: &mut String| {
            let there = parts.into_iter().filter(|(count, _)| *count != 0);
            there.into_iter().try_for_each(|(count, unit)| write!(out, "{count}{unit}"))
        };
        let before = out.len();
        out.push('P');
        write([(self.years, 'Y'), (self.months, 'M'), (self.days, 'D')], out)?;
        if self.hours != 0 || self.minutes != 0 || self.seconds != 0 {
            out.push('T');
            write([(self.hours, 'H'), (self.minutes, 'M'), (0, ' ')], out)?;
        }
        if self.seconds != 0 {
            out.push_str(if self.seconds < 0 { "-" } else { "" });
            write_seconds(self.seconds, false, out)?;
            out.push('S');
        }
        if out.len() == before + 1 {
            out.push_str("T0S");
        }
        Ok(())
    }

    fn write_verbose(&self, out: &mut String) -> fmt::Result {
        out.push('@');
        // The first part that is there says whether the interval lies before.
        let (mut is_first, mut is_before) = (true, false);
        for (count, unit) in [
            (self.years, "year"),
            (self.months, "mon"),
            (self.days, "day"),
            (self.hours, "hour"),
            (self.minutes, "min"),
        ] {
            if count == 0 {
                continue;
            }
            is_before |= is_first && count < 0;
            is_first = false;
            let count = if is_before { -count } else { count };
            write!(out, " {count} {unit}{}", if count == 1 { "" } else { "s" })?;
        }
        if self.seconds != 0 {
            let is_negative = self.seconds < 0;
            is_before |= is_first && is_negative;
            is_first = false;
            out.push(' ');
            out.push_str(if is_negative != is_before { "-" } else { "" });
            write_seconds(self.seconds, false, out)?;
            let is_one = self.seconds.abs() == MICROS_PER_SECOND;
            out.push_str(if is_one { " sec" } else { " secs" });
        }
        out.push_str(if is_first { " 0" } else { "" });
        out.push_str(if is_before { " ago" } else { "" });
        Ok(())
    }
}
