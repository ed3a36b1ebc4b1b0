//! Values as text, both ways.
//!
//! Invariants: what [`Value`]'s `Display` prints, [`Value::parse`] reads back as an equal value of
//! the same type (null excepted: it prints as `NULL` and is never parsed; dates and timestamps
//! beyond PostgreSQL's range print and are refused). Every error names type and input.
//! Does not do: time zone names, locales, styles other than ISO 8601.

use std::fmt;

use super::clock::print_time;
use super::clock::trimmed;
use super::datetime::{
    print_date, print_timestamp, read_date_alone, read_time, read_timestamp, read_timestamp_alone,
};
use super::number::{parse_float4, parse_float8, print_float4, print_float8};
use super::{IntervalFields, LeadingSign, Type, Value, read_interval};
use crate::error::{Error, Result};

/// Longest piece of input that an error repeats.
const SHOWN: usize = 60;

impl Value {
    /// Reads a value of type `ty` from text. Spaces around it are ignored, those of ASCII only,
    /// except in text and UUIDs.
    ///
    /// # Errors
    /// `Invalid` for text that is no value of the type. The message names type and text.
    pub fn parse(ty: Type, text: &str) -> Result<Value> {
        let trimmed = trimmed(text);
        let value = match ty {
            Type::Bool => parse_bool(trimmed).map(Value::Bool),
            Type::Int2 => trimmed.parse().ok().map(Value::Int2),
            Type::Int4 => trimmed.parse().ok().map(Value::Int4),
            Type::Int8 => trimmed.parse().ok().map(Value::Int8),
            Type::Float4 => parse_float4(trimmed).map(Value::Float4),
            Type::Float8 => parse_float8(trimmed).map(Value::Float8),
            Type::Text => Some(Value::Text(text.to_owned())),
            Type::Bytes => parse_bytes(trimmed).map(Value::Bytes),
            Type::Uuid => parse_uuid(text).map(Value::Uuid),
            Type::Date => read_date_alone(text).map(Value::Date).ok(),
            Type::Timestamp => read_timestamp_alone(text).map(Value::Timestamp).ok(),
            Type::TimestampTz => read_timestamp(text).map(Value::TimestampTz).ok(),
            Type::Decimal => trimmed.parse().ok().map(Value::Decimal),
            Type::Interval => {
                let span = read_interval(trimmed, IntervalFields::All, LeadingSign::OfOne);
                span.map(Value::Interval).ok()
            }
            Type::Time => read_time(trimmed).map(Value::Time).ok(),
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

/// Hyphens may stand between any two groups of four digits, and braces around the whole, as
/// PostgreSQL accepts.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut rest = inner.as_bytes();
    let mut out = [0; 16];
    for (position, byte) in out.iter_mut().enumerate() {
        if position > 0 && position % 2 == 0 && rest.first() == Some(&b'-') {
            rest = &rest[1..];
        }
        let [high, low, tail @ ..] = rest else { return None };
        *byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
        rest = tail;
    }
    rest.is_empty().then_some(out)
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
            Value::Date(v) => print_date(f, *v),
            Value::Timestamp(v) => print_timestamp(f, *v, ""),
            Value::TimestampTz(v) => print_timestamp(f, *v, "+00"),
            Value::Decimal(v) => write!(f, "{v}"),
            Value::Interval(v) => write!(f, "{v}"),
            Value::Time(v) => print_time(f, v.unsigned_abs()),
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
