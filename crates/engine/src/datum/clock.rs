//! What texts of dates, times and intervals share: spaces, numbers, a clock, the error.
//!
//! Invariants: nothing overflows unseen.
//! Does not do: ranges of hours.

use std::fmt;

pub(super) const MICROS_PER_SECOND: i64 = 1_000_000;
pub(super) const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
pub(super) const MICROS_PER_HOUR: i64 = 60 * MICROS_PER_MINUTE;
pub(super) const MICROS_PER_DAY: i64 = 24 * MICROS_PER_HOUR;

/// Why text is no date, timestamp or interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DateTimeError {
    /// It does not have the form of one.
    Syntax,
    /// A field is beyond its range, like the month 13.
    FieldRange,
    /// The fields are possible, their sum is beyond the type's range.
    OutOfRange,
    /// The offset of the zone is beyond its range.
    ZoneRange,
}

type Result<T> = std::result::Result<T, DateTimeError>;

pub(super) fn overflow() -> DateTimeError {
    DateTimeError::FieldRange
}

/// Is `byte` a space as C and PostgreSQL know them?
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// `text` without the spaces around it, as C and PostgreSQL know spaces.
pub fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| u8::try_from(c).is_ok_and(is_space))
}

/// The whole number in front of `text`, 0 if there is none, and what follows it.
pub(super) fn leading_number(text: &str) -> Result<(i64, &str)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Ok((0, text));
    }
    let (number, rest) = text.split_at(text.len() - unsigned.len() + digits);
    Ok((number.parse().map_err(|_| overflow())?, rest))
}

/// As [`leading_number`], of 32 bits.
pub(super) fn leading_small(text: &str) -> Result<(i64, &str)> {
    let (number, rest) = leading_number(text)?;
    i32::try_from(number).map_err(|_| overflow())?;
    Ok((number, rest))
}

/// The number that `text`, which begins with a point, says.
pub(super) fn fraction(text: &str) -> Result<f64> {
    let digits = text.strip_prefix('.').ok_or(DateTimeError::Syntax)?;
    if digits.is_empty() {
        return Ok(0.0);
    }
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(DateTimeError::Syntax);
    }
    text.parse().map_err(|_| DateTimeError::Syntax)
}

/// Hours, minutes, seconds as written.
pub(super) struct Clock {
    pub(super) hours: i64,
    minutes: i64,
    seconds: i64,
    micros: i64,
}

impl Clock {
    /// Reads `hours:minutes[:seconds[.fraction]]` or `minutes:seconds.fraction`; without seconds
    /// also `minutes:seconds`, where `ends_in_seconds`.
    pub(super) fn read(text: &str, ends_in_seconds: bool) -> Result<Clock> {
        let (first, rest) = leading_number(text)?;
        let rest = rest.strip_prefix(':').ok_or(DateTimeError::Syntax)?;
        let (second, rest) = leading_small(rest)?;
        let micros = |text: &str| Ok((fraction(text)? * 1e6).round_ties_even() as i64);
        let shifted = |micros: i64| Clock { hours: 0, minutes: first, seconds: second, micros };
        let clock = match rest.as_bytes().first() {
            None if ends_in_seconds => shifted(0),
            None => Clock { hours: first, minutes: second, seconds: 0, micros: 0 },
            Some(b'.') => shifted(micros(rest)?),
            Some(b':') => {
                let (third, rest) = leading_small(&rest[1..])?;
                let micros = if rest.is_empty() { 0 } else { micros(rest)? };
                Clock { hours: first, minutes: second, seconds: third, micros }
            }
            Some(_) => return Err(DateTimeError::Syntax),
        };
        let minutes = (0..60).contains(&clock.minutes);
        // A leap second counts as the first of the next minute.
        let seconds = (0..=60).contains(&clock.seconds);
        let micros = (0..=MICROS_PER_SECOND).contains(&clock.micros);
        (clock.hours >= 0 && minutes && seconds && micros).then_some(clock).ok_or_else(overflow)
    }

    /// All but the hours.
    pub(super) fn below_hours(&self) -> i64 {
        self.minutes * MICROS_PER_MINUTE + self.seconds * MICROS_PER_SECOND + self.micros
    }

    /// In microseconds, below zero if `negative`.
    pub(super) fn total(&self, negative: bool) -> Result<i64> {
        let hours = i128::from(self.hours) * i128::from(MICROS_PER_HOUR);
        let total = hours + i128::from(self.below_hours());
        i64::try_from(if negative { -total } else { total }).map_err(|_| overflow())
    }
}

/// Prints microseconds as hours, minutes and seconds.
pub(super) fn print_time(f: &mut fmt::Formatter<'_>, micros: u64) -> fmt::Result {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    write!(f, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    if fraction != 0 {
        let digits = format!("{fraction:06}");
        write!(f, ".{}", digits.trim_end_matches('0'))?;
    }
    Ok(())
}
