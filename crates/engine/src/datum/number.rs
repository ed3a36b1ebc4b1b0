//! Numbers as text: shortest decimal that reads back the same, in the form PostgreSQL prints.
//!
//! Invariants: printing then parsing gives an equal number. Does not do: locales.

use std::fmt;

/// Most digits before the point that are printed without an exponent, per width.
const FLOAT4_PLAIN: i32 = 6;
const FLOAT8_PLAIN: i32 = 15;

/// Prints a `float4`.
pub(super) fn print_float4(f: &mut fmt::Formatter<'_>, v: f32) -> fmt::Result {
    print_float(f, f64::from(v), format!("{v:e}"), format!("{v}"), FLOAT4_PLAIN)
}

/// Prints a `float8`.
pub(super) fn print_float8(f: &mut fmt::Formatter<'_>, v: f64) -> fmt::Result {
    print_float(f, v, format!("{v:e}"), format!("{v}"), FLOAT8_PLAIN)
}

/// `scientific` and `plain` are the two forms of `v`; picks one by the size of the exponent.
fn print_float(
    f: &mut fmt::Formatter<'_>,
    v: f64,
    scientific: String,
    plain: String,
    limit: i32,
) -> fmt::Result {
    if v.is_nan() {
        return f.write_str("NaN");
    }
    if v.is_infinite() {
        return f.write_str(if v > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let (digits, exponent) = scientific.split_once('e').expect("the e form has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a small integer");
    if (-4..limit).contains(&exponent) {
        return f.write_str(&plain);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(f, "{digits}e{sign}{:02}", exponent.abs())
}

/// Parses a float, with the names of its special values in any case.
pub(super) fn parse_float8(text: &str) -> Option<f64> {
    special(text).or_else(|| plain_number(text)?.parse().ok().filter(|v: &f64| v.is_finite()))
}

/// As [`parse_float8`]; a number that only an infinite `f32` could hold is refused.
pub(super) fn parse_float4(text: &str) -> Option<f32> {
    if let Some(value) = special(text) {
        return Some(value as f32);
    }
    plain_number(text)?.parse().ok().filter(|v: &f32| v.is_finite())
}

fn special(text: &str) -> Option<f64> {
    match text.to_ascii_lowercase().as_str() {
        "nan" => Some(f64::NAN),
        "infinity" | "+infinity" | "inf" | "+inf" => Some(f64::INFINITY),
        "-infinity" | "-inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// The text itself if it has the characters of a number only.
fn plain_number(text: &str) -> Option<&str> {
    let known = |b: &u8| b.is_ascii_digit() || b"+-.eE".contains(b);
    text.as_bytes().iter().all(known).then_some(text)
}
