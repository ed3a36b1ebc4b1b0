//! Dates, times of day and timestamps as text, both ways.
//!
//! Read is what PostgreSQL's ISO style prints and its usual variants: `YYYY-MM-DD`, a time after a
//! blank or `T`, a zone as an offset or a name of UTC, `BC` or `AD`. PostgreSQL leaves out a time
//! or a zone for which the type has no place; [`Value::parse`](super::Value::parse), which loses
//! nothing, refuses them.
//!
//! Invariants: read values lie in the ranges of [`DATES`] and [`TIMESTAMPS`]. Any value prints.
//! Does not do: names of months and zones, orders of fields other than ISO, `now` and `today`.

use std::fmt;

use super::calendar::{
    CivilDate, DATES, TIMESTAMPS, civil_from_days, days_from_civil, days_in_month,
};
use super::clock::{
    Clock, DateTimeError, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_SECOND, is_space, print_time,
    trimmed,
};

type Result<T> = std::result::Result<T, DateTimeError>;

/// 1970-01-01 in days since 2000-01-01.
const UNIX_EPOCH: i64 = -10_957;

/// What a text says.
enum Read {
    Infinity { negative: bool },
    Moment { days: i64, micros: Option<i64>, offset_seconds: Option<i64> },
}

/// Reads a date; a time or a zone is refused.
pub(super) fn read_date_alone(text: &str) -> Result<i32> {
    match read(text)? {
        Read::Moment { micros, offset_seconds, .. }
            if micros.is_some() || offset_seconds.is_some() =>
        {
            Err(DateTimeError::Syntax)
        }
        Read::Infinity { negative } => Ok(if negative { i32::MIN } else { i32::MAX }),
        Read::Moment { days, .. } if DATES.contains(&days) => Ok(days as i32),
        Read::Moment { .. } => Err(DateTimeError::OutOfRange),
    }
}

/// Reads a timestamp with a zone, in UTC where there is none.
pub(super) fn read_timestamp(text: &str) -> Result<i64> {
    timestamp(read(text)?)
}

/// As [`read_timestamp`] without a zone; one is refused.
pub(super) fn read_timestamp_alone(text: &str) -> Result<i64> {
    match read(text)? {
        Read::Moment { offset_seconds: Some(_), .. } => Err(DateTimeError::Syntax),
        found => timestamp(found),
    }
}

fn timestamp(found: Read) -> Result<i64> {
    match found {
        Read::Infinity { negative } => Ok(if negative { i64::MIN } else { i64::MAX }),
        Read::Moment { days, micros, offset_seconds } => {
            let offset = offset_seconds.unwrap_or(0) * MICROS_PER_SECOND;
            let of_day = i128::from(micros.unwrap_or(0) - offset);
            let sum = i128::from(days) * i128::from(MICROS_PER_DAY) + of_day;
            let sum = i64::try_from(sum).ok().filter(|sum| TIMESTAMPS.contains(sum));
            sum.ok_or(DateTimeError::OutOfRange)
        }
    }
}

/// Reads a time of day.
pub(super) fn read_time(text: &str) -> Result<i64> {
    let mut rest = text;
    let micros = take_time(&mut rest)?;
    if rest.is_empty() && micros <= MICROS_PER_DAY {
        Ok(micros)
    } else {
        Err(DateTimeError::Syntax)
    }
}

fn read(text: &str) -> Result<Read> {
    let mut rest = trimmed(text);
    match rest.to_ascii_lowercase().as_str() {
        "infinity" => return Ok(Read::Infinity { negative: false }),
        "-infinity" => return Ok(Read::Infinity { negative: true }),
        "epoch" => {
            return Ok(Read::Moment { days: UNIX_EPOCH, micros: None, offset_seconds: None });
        }
        _ => {}
    }
    let date = take_date(&mut rest)?;
    if rest.starts_with('-') {
        return Err(DateTimeError::Syntax);
    }
    let (mut time, mut offset, mut before_christ) = (None, None, None);
    loop {
        rest = rest.trim_start_matches(|c: char| u8::try_from(c).is_ok_and(is_space));
        match rest.as_bytes().first() {
            None => break,
            Some(b'0'..=b'9') if time.is_none() => time = Some(take_time(&mut rest)?),
            Some(b'+' | b'-') if offset.is_none() => offset = Some(take_offset(&mut rest)?),
            Some(_) => {
                let len = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
                let (word, tail) = rest.split_at(len);
                match word.to_ascii_lowercase().as_str() {
                    "t" if time.is_none() && starts_with_digit(tail) => {}
                    "z" | "utc" | "gmt" | "zulu" if offset.is_none() => offset = Some(0),
                    "bc" if before_christ.is_none() => before_christ = Some(true),
                    "ad" if before_christ.is_none() => before_christ = Some(false),
                    _ => return Err(DateTimeError::Syntax),
                }
                rest = tail;
            }
        }
    }
    let days = date.days(before_christ == Some(true))?;
    Ok(Read::Moment { days, micros: time, offset_seconds: offset })
}

fn starts_with_digit(text: &str) -> bool {
    text.trim_start_matches(' ').starts_with(|c: char| c.is_ascii_digit())
}

/// Takes digits from the front.
fn take_number(text: &mut &str) -> Result<i64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    *text = rest;
    if digits == 0 {
        return Err(DateTimeError::Syntax);
    }
    let number = number.parse::<i64>().ok().filter(|number| i32::try_from(*number).is_ok());
    number.ok_or(DateTimeError::FieldRange)
}

/// Year as it is written, month, day.
struct WrittenDate {
    year: i64,
    month: i64,
    day: i64,
}

impl WrittenDate {
    fn days(&self, before_christ: bool) -> Result<i64> {
        // Year 0 does not exist in this notation; 1 BC is the astronomical year 0.
        let year = if before_christ { 1 - self.year } else { self.year };
        let month = u32::try_from(self.month).ok().filter(|month| (1..=12).contains(month));
        let month = month.filter(|_| self.year > 0).ok_or(DateTimeError::FieldRange)?;
        let day = u32::try_from(self.day).unwrap_or(0);
        if day < 1 || day > days_in_month(year, month) {
            return Err(DateTimeError::FieldRange);
        }
        Ok(days_from_civil(year, month, day))
    }
}

/// Takes YYYY-MM-DD from the front.
fn take_date(text: &mut &str) -> Result<WrittenDate> {
    let whole = *text;
    let year = take_number(text)?;
    // Two digits are a month or a day elsewhere.
    if whole.len() - text.len() < 3 {
        return Err(DateTimeError::Syntax);
    }
    let mut part = || {
        *text = text.strip_prefix('-').ok_or(DateTimeError::Syntax)?;
        let before = text.len();
        let number = take_number(text)?;
        if before - text.len() > 2 { Err(DateTimeError::Syntax) } else { Ok(number) }
    };
    Ok(WrittenDate { year, month: part()?, day: part()? })
}

/// Takes a time of day from the front; 24:00 is the midnight at its end.
fn take_time(text: &mut &str) -> Result<i64> {
    let len = text.bytes().take_while(|b| b.is_ascii_digit() || b":.".contains(b)).count();
    let (word, rest) = text.split_at(len);
    *text = rest;
    let clock = Clock::read(word, false)?;
    let micros = clock.below_hours();
    if clock.hours > 24 || clock.hours == 24 && micros > 0 {
        return Err(DateTimeError::FieldRange);
    }
    Ok(clock.hours * MICROS_PER_HOUR + micros)
}

/// Takes +HH, +HHMM, +HH:MM or +HH:MM:SS from the front: seconds east of UTC.
fn take_offset(text: &mut &str) -> Result<i64> {
    let (sign, rest) = text.split_at(1);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    *text = rest;
    let in_range = |_| DateTimeError::ZoneRange;
    if digits == 0 {
        return Err(DateTimeError::Syntax);
    }
    let mut parts = [take_number(text).map_err(in_range)?, 0, 0];
    if digits > 2 && !text.starts_with(':') {
        (parts[0], parts[1]) = (parts[0] / 100, parts[0] % 100);
    } else {
        for part in &mut parts[1..] {
            let Some(rest) = text.strip_prefix(':').filter(|rest| starts_with_digit(rest)) else {
                break;
            };
            *text = rest;
            *part = take_number(text).map_err(in_range)?;
        }
    }
    let [hours, minutes, seconds] = parts;
    if hours >= 16 || minutes >= 60 || seconds >= 60 {
        return Err(DateTimeError::ZoneRange);
    }
    let total = hours * 3_600 + minutes * 60 + seconds;
    Ok(if sign == "-" { -total } else { total })
}

/// Prints year, month and day, and says whether they lie before year 1.
fn print_civil(f: &mut fmt::Formatter<'_>, days: i64) -> std::result::Result<bool, fmt::Error> {
    let CivilDate { year, month, day } = civil_from_days(days);
    let before_christ = year <= 0;
    let shown = if before_christ { 1 - year } else { year };
    write!(f, "{shown:04}-{month:02}-{day:02}")?;
    Ok(before_christ)
}

fn print_era(f: &mut fmt::Formatter<'_>, before_christ: bool) -> fmt::Result {
    f.write_str(if before_christ { " BC" } else { "" })
}

pub(super) fn print_date(f: &mut fmt::Formatter<'_>, days: i32) -> fmt::Result {
    match days {
        i32::MAX => f.write_str("infinity"),
        i32::MIN => f.write_str("-infinity"),
        _ => {
            let before_christ = print_civil(f, i64::from(days))?;
            print_era(f, before_christ)
        }
    }
}

pub(super) fn print_timestamp(f: &mut fmt::Formatter<'_>, micros: i64, zone: &str) -> fmt::Result {
    match micros {
        i64::MAX => return f.write_str("infinity"),
        i64::MIN => return f.write_str("-infinity"),
        _ => {}
    }
    let before_christ = print_civil(f, micros.div_euclid(MICROS_PER_DAY))?;
    f.write_str(" ")?;
    print_time(f, micros.rem_euclid(MICROS_PER_DAY).unsigned_abs())?;
    f.write_str(zone)?;
    print_era(f, before_christ)
}
