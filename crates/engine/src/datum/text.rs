//! Values as text, both ways.
//!
//! Invariants: what [`Value`]'s `Display` prints, [`Value::parse`] reads back as an equal value of
//! the same type (null excepted: it prints as `NULL` and is never parsed). Every error names type
//! and input.
//! Does not do: time zone names, locales, styles other than ISO 8601.

use std::fmt;

use super::calendar::{civil_from_days, days_from_civil, days_in_month};
use super::number::{parse_float4, parse_float8, print_float4, print_float8};
use super::{MICROS_PER_DAY, Type, Value, interval};
use crate::error::{Error, Result};

const MICROS_PER_SECOND: i64 = 1_000_000;
/// Longest piece of input that an error repeats.
const SHOWN: usize = 60;
/// Years outside are refused before any arithmetic; the day count is checked again after it.
const YEAR_LIMIT: i64 = 6_000_000;

impl Value {
    /// Reads a value of type `ty` from text. Spaces around it are ignored except in text.
    pub fn parse(ty: Type, text: &str) -> Result<Value> {
        let trimmed = text.trim();
        let value = match ty {
            Type::Bool => parse_bool(trimmed).map(Value::Bool),
            Type::Int2 => trimmed.parse().ok().map(Value::Int2),
            Type::Int4 => trimmed.parse().ok().map(Value::Int4),
            Type::Int8 => trimmed.parse().ok().map(Value::Int8),
            Type::Float4 => parse_float4(trimmed).map(Value::Float4),
            Type::Float8 => parse_float8(trimmed).map(Value::Float8),
            Type::Text => Some(Value::Text(text.to_owned())),
            Type::Bytes => parse_bytes(trimmed).map(Value::Bytes),
            Type::Uuid => parse_uuid(trimmed).map(Value::Uuid),
            Type::Date => parse_date(trimmed).map(Value::Date),
            Type::Timestamp => parse_timestamp(trimmed, false).map(Value::Timestamp),
            Type::TimestampTz => parse_timestamp(trimmed, true).map(Value::TimestampTz),
            Type::Decimal => trimmed.parse().ok().map(Value::Decimal),
            Type::Interval => interval::parse(trimmed).map(Value::Interval),
            Type::Time => parse_time(trimmed).map(Value::Time),
            Type::Json => Some(Value::Json(text.to_owned())).filter(Value::is_sound),
        };
        value.ok_or_else(|| refused(ty, text))
    }
}

/// The error for text that is no value of its type, with what was expected.
fn refused(ty: Type, text: &str) -> Error {
    let shown: String = text.chars().take(SHOWN).collect();
    let dots = if shown.len() < text.len() { "..." } else { "" };
    let expected = match ty {
        Type::Bool => "true or false",
        Type::Int2 => "an integer from -32768 to 32767",
        Type::Int4 => "an integer from -2147483648 to 2147483647",
        Type::Int8 => "an integer from -9223372036854775808 to 9223372036854775807",
        Type::Float4 | Type::Float8 => "a number in range, NaN, Infinity or -Infinity",
        Type::Text => "text",
        Type::Bytes => "\\x and an even number of hex digits",
        Type::Uuid => "32 hex digits, as xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
        Type::Date => "a date that exists, as YYYY-MM-DD",
        Type::Timestamp => "a date and time that exist, as YYYY-MM-DD HH:MM:SS[.ffffff], no zone",
        Type::TimestampTz => "a date and time that exist, as YYYY-MM-DD HH:MM:SS[.ffffff][+HH:MM]",
        Type::Decimal => "a number of at most 131072 digits before and 16383 after the point",
        Type::Interval => "a span in range, as 1 year 2 mons 3 days HH:MM:SS[.ffffff], or ISO 8601",
        Type::Time => "a time from 00:00 to 24:00, as HH:MM[:SS[.ffffff]]",
        Type::Json => "JSON",
    };
    Error::Invalid(format!("{ty} value \"{shown}{dots}\": expected {expected}"))
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "on" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn parse_bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some(hex_digit(pair[0])? << 4 | hex_digit(pair[1])?)).collect()
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Hyphens may stand between any two bytes, and braces around the whole, as PostgreSQL accepts.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut rest = inner.as_bytes();
    let mut out = [0; 16];
    for (position, byte) in out.iter_mut().enumerate() {
        if position > 0 && rest.first() == Some(&b'-') {
            rest = &rest[1..];
        }
        let [high, low, tail @ ..] = rest else { return None };
        *byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
        rest = tail;
    }
    rest.is_empty().then_some(out)
}

/// Takes a run of `least..=most` digits from the front.
fn take_number(text: &mut &str, least: usize, most: usize) -> Option<u32> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits < least || digits > most {
        return None;
    }
    let (number, rest) = text.split_at(digits);
    *text = rest;
    number.parse().ok()
}

fn take_char(text: &mut &str, wanted: char) -> Option<()> {
    *text = text.strip_prefix(wanted)?;
    Some(())
}

/// Removes a trailing ` BC` and says whether there was one.
fn strip_era(text: &str) -> (&str, bool) {
    let Some(cut) = text.len().checked_sub(2).filter(|cut| text.is_char_boundary(*cut)) else {
        return (text, false);
    };
    if text[cut..].eq_ignore_ascii_case("BC") {
        (text[..cut].trim_end(), true)
    } else {
        (text, false)
    }
}

/// Takes YYYY-MM-DD from the front: days since 2000-01-01.
fn take_date(text: &mut &str, before_christ: bool) -> Option<i64> {
    let year = i64::from(take_number(text, 4, 7)?);
    take_char(text, '-')?;
    let month = take_number(text, 1, 2)?;
    take_char(text, '-')?;
    let day = take_number(text, 1, 2)?;
    // Year 0 does not exist in this notation; 1 BC is the astronomical year 0.
    if !(1..=YEAR_LIMIT).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let astronomical = if before_christ { 1 - year } else { year };
    if day < 1 || day > days_in_month(astronomical, month) {
        return None;
    }
    Some(days_from_civil(astronomical, month, day))
}

fn parse_date(text: &str) -> Option<i32> {
    match text.to_ascii_lowercase().as_str() {
        "infinity" => return Some(i32::MAX),
        "-infinity" => return Some(i32::MIN),
        _ => {}
    }
    let (mut rest, before_christ) = strip_era(text);
    let days = take_date(&mut rest, before_christ)?;
    let days = i32::try_from(days).ok()?;
    // The two extreme numbers mean the infinities.
    (rest.is_empty() && days != i32::MAX && days != i32::MIN).then_some(days)
}

/// Takes HH:MM[:SS[.ffffff]] from the front: microseconds since midnight. Further digits are
/// rounded.
fn take_time(text: &mut &str) -> Option<i64> {
    let hour = take_number(text, 1, 2)?;
    take_char(text, ':')?;
    let minute = take_number(text, 2, 2)?;
    let mut second = 0;
    let mut micros = 0;
    if take_char(text, ':').is_some() {
        second = take_number(text, 2, 2)?;
        if take_char(text, '.').is_some() {
            micros = take_fraction(text)?;
        }
    }
    let total = i64::from(hour * 3600 + minute * 60 + second) * MICROS_PER_SECOND + micros;
    // 24:00:00 is the midnight at the end of the day.
    (minute < 60 && second < 60 && total <= MICROS_PER_DAY).then_some(total)
}

fn parse_time(mut text: &str) -> Option<i64> {
    let micros = take_time(&mut text)?;
    text.is_empty().then_some(micros)
}

fn take_fraction(text: &mut &str) -> Option<i64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (fraction, rest) = text.split_at(digits);
    *text = rest;
    if digits == 0 {
        return None;
    }
    let mut value = 0;
    for position in 0..7 {
        let digit = fraction.as_bytes().get(position).map_or(0, |byte| byte - b'0');
        value = value * 10 + i64::from(digit);
    }
    Some((value + 5) / 10)
}

/// Takes Z, +HH, +HHMM, +HH:MM or +HH:MM:SS from the front: seconds east of UTC.
fn take_offset(text: &mut &str) -> Option<i64> {
    if take_char(text, 'Z').is_some() || take_char(text, 'z').is_some() {
        return Some(0);
    }
    let sign = match take_char(text, '+') {
        Some(()) => 1,
        None => take_char(text, '-').map(|()| -1)?,
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = take_number(text, 1, 4)?;
    let (hours, mut minutes) = if digits > 2 { (number / 100, number % 100) } else { (number, 0) };
    let mut seconds = 0;
    if digits <= 2 && take_char(text, ':').is_some() {
        minutes = take_number(text, 2, 2)?;
        if take_char(text, ':').is_some() {
            seconds = take_number(text, 2, 2)?;
        }
    }
    (hours < 16 && minutes < 60 && seconds < 60)
        .then(|| sign * i64::from(hours * 3600 + minutes * 60 + seconds))
}

fn parse_timestamp(text: &str, zoned: bool) -> Option<i64> {
    match text.to_ascii_lowercase().as_str() {
        "infinity" => return Some(i64::MAX),
        "-infinity" => return Some(i64::MIN),
        _ => {}
    }
    let (mut rest, before_christ) = strip_era(text);
    let days = take_date(&mut rest, before_christ)?;
    let mut micros = 0;
    if let Some(tail) = rest.strip_prefix([' ', 'T', 't']) {
        rest = tail.trim_start();
        micros = take_time(&mut rest)?;
    }
    rest = rest.trim_start();
    if zoned && !rest.is_empty() {
        micros -= take_offset(&mut rest)? * MICROS_PER_SECOND;
    }
    // The first day there is begins before the first microsecond there is.
    let value = i128::from(days) * i128::from(MICROS_PER_DAY) + i128::from(micros);
    let value = i64::try_from(value).ok()?;
    (rest.is_empty() && value != i64::MAX && value != i64::MIN).then_some(value)
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Bool(v) => f.write_str(if *v { "true" } else { "false" }),
            Value::Int2(v) => write!(f, "{v}"),
            Value::Int4(v) => write!(f, "{v}"),
            Value::Int8(v) => write!(f, "{v}"),
            Value::Float4(v) => print_float4(f, *v),
            Value::Float8(v) => print_float8(f, *v),
            Value::Text(v) => f.write_str(v),
            Value::Bytes(v) => print_bytes(f, v),
            Value::Uuid(v) => print_uuid(f, v),
            Value::Date(v) => print_date_or_infinity(f, *v),
            Value::Timestamp(v) => print_timestamp(f, *v, ""),
            Value::TimestampTz(v) => print_timestamp(f, *v, "+00"),
            Value::Decimal(v) => write!(f, "{v}"),
            Value::Interval(v) => write!(f, "{v}"),
            Value::Time(v) => print_time(f, *v),
            Value::Json(v) => f.write_str(v),
        }
    }
}

fn print_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

fn print_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("\\x")?;
    print_hex(f, bytes)
}

fn print_uuid(f: &mut fmt::Formatter<'_>, bytes: &[u8; 16]) -> fmt::Result {
    let mut from = 0;
    for (group, len) in [4, 2, 2, 2, 6].into_iter().enumerate() {
        if group > 0 {
            f.write_str("-")?;
        }
        print_hex(f, &bytes[from..from + len])?;
        from += len;
    }
    Ok(())
}

/// Prints the date and says whether it lies before year 1.
fn print_date(f: &mut fmt::Formatter<'_>, days: i64) -> std::result::Result<bool, fmt::Error> {
    let (year, month, day) = civil_from_days(days);
    let before_christ = year <= 0;
    let shown = if before_christ { 1 - year } else { year };
    write!(f, "{shown:04}-{month:02}-{day:02}")?;
    Ok(before_christ)
}

fn print_era(f: &mut fmt::Formatter<'_>, before_christ: bool) -> fmt::Result {
    f.write_str(if before_christ { " BC" } else { "" })
}

fn print_date_or_infinity(f: &mut fmt::Formatter<'_>, days: i32) -> fmt::Result {
    match days {
        i32::MAX => f.write_str("infinity"),
        i32::MIN => f.write_str("-infinity"),
        _ => {
            let before_christ = print_date(f, i64::from(days))?;
            print_era(f, before_christ)
        }
    }
}

fn print_timestamp(f: &mut fmt::Formatter<'_>, micros: i64, zone: &str) -> fmt::Result {
    match micros {
        i64::MAX => return f.write_str("infinity"),
        i64::MIN => return f.write_str("-infinity"),
        _ => {}
    }
    let before_christ = print_date(f, micros.div_euclid(MICROS_PER_DAY))?;
    f.write_str(" ")?;
    print_time(f, micros.rem_euclid(MICROS_PER_DAY))?;
    f.write_str(zone)?;
    print_era(f, before_christ)
}

/// Prints microseconds since midnight.
fn print_time(f: &mut fmt::Formatter<'_>, of_day: i64) -> fmt::Result {
    let seconds = of_day / MICROS_PER_SECOND;
    let fraction = of_day % MICROS_PER_SECOND;
    write!(f, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    if fraction != 0 {
        let digits = format!("{fraction:06}");
        write!(f, ".{}", digits.trim_end_matches('0'))?;
    }
    Ok(())
}
