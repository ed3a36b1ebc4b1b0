//! Digits of numbers for a pattern, by their types: what `int4_to_char` and its kin of PostgreSQL's
//! `formatting.c` do before the pattern is filled.
//!
//! Invariants: rounding is that of the type, away from zero for `numeric`.
//! Does not do: filling patterns (`number`).

use super::number::{Digits, Pattern, write};
use crate::error::{Result, SqlError, code};
use crate::types::{Datum, Decimal, numeric};

/// A number by a pattern.
pub(super) fn to_char(value: &Datum, pattern: &mut Pattern) -> Result<String> {
    if pattern.is_roman {
        let number = match value {
            Datum::Float4(v) => i64::from(v.round_ties_even() as i32),
            Datum::Float8(v) => i64::from(v.round_ties_even() as i32),
            Datum::Numeric(v) => numeric::to_int(v).ok_or_else(integer_range)?,
            other => other.as_int().unwrap_or(0),
        };
        let number = i32::try_from(number).map_err(|_| integer_range())?;
        let digits = Digits { text: roman(number).into_bytes(), is_negative: false, spaces: 0 };
        return Ok(write(pattern, &digits));
    }
    if pattern.has_exponent {
        return Ok(scientific(value, pattern));
    }
    let text = plain(value, pattern)?;
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest.to_owned()),
        None => (false, text),
    };
    let before = text.find('.').unwrap_or(text.len());
    let digits = match before > pattern.pre {
        true => Digits { text: pattern.overflown(), is_negative, spaces: 0 },
        false => Digits { text: text.into_bytes(), is_negative, spaces: pattern.pre - before },
    };
    Ok(write(pattern, &digits))
}

fn integer_range() -> SqlError {
    SqlError::new(code::NUMERIC_OUT_OF_RANGE, "integer out of range")
}

/// A number with as many digits behind the point as the pattern has.
fn plain(value: &Datum, pattern: &mut Pattern) -> Result<String> {
    let shift = if pattern.is_shifted { pattern.shift } else { 0 };
    pattern.pre += shift;
    let factor = 10f64.powi(shift as i32);
    match value {
        Datum::Float4(v) => Ok(float(f64::from(*v * factor as f32), 6, pattern)),
        Datum::Float8(v) => Ok(float(v * factor, 15, pattern)),
        Datum::Numeric(v) => {
            let scaled = match shift {
                0 => v.clone(),
                _ => numeric::multiply(v, &power_of_ten(shift)?)?,
            };
            let post = i32::try_from(pattern.post).unwrap_or(i32::MAX);
            Ok(numeric::round(&scaled, post)?.to_string())
        }
        other => {
            let whole = other.as_int().unwrap_or(0);
            let scaled = 10i64.checked_pow(shift as u32).and_then(|by| whole.checked_mul(by));
            let fits = |v: &i64| matches!(other, Datum::Int8(_)) || i32::try_from(*v).is_ok();
            let range = || match other {
                Datum::Int8(_) => SqlError::new(code::NUMERIC_OUT_OF_RANGE, "bigint out of range"),
                _ => integer_range(),
            };
            let scaled = scaled.filter(fits).ok_or_else(range)?;
            let zeros = "0".repeat(pattern.post);
            let point = if pattern.post > 0 { "." } else { "" };
            Ok(format!("{scaled}{point}{zeros}"))
        }
    }
}

fn power_of_ten(exponent: usize) -> Result<Decimal> {
    numeric::parse(&format!("1e{exponent}"))
}

/// A float with digits that it has, `most` of them.
fn float(value: f64, most: usize, pattern: &mut Pattern) -> String {
    let whole = shown(value.abs(), 0);
    if whole.len() >= most {
        pattern.post = 0;
    } else if whole.len() + pattern.post > most {
        pattern.post = most - whole.len();
    }
    shown(value, pattern.post)
}

fn shown(value: f64, digits: usize) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        value if value.is_infinite() => {
            if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
        }
        value => format!("{value:.digits$}"),
    }
}

/// A number with an exponent; that of a numeric is rounded as its digits are.
fn scientific(value: &Datum, pattern: &Pattern) -> String {
    let post = pattern.post;
    let text = match value {
        Datum::Numeric(v) => of_decimal(v, post),
        Datum::Int8(v) => of_decimal(&Decimal::from(*v), post),
        other => other.as_float().filter(|v| v.is_finite()).map(|v| format!("{v:.post$e}")),
    };
    let Some(text) = text else {
        // No number, or one without end.
        let mut filled = vec!['#'; pattern.pre + post + 6];
        filled[0] = ' ';
        if let Some(point) = filled.get_mut(pattern.pre + 1) {
            *point = '.';
        }
        return filled.into_iter().collect();
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let space = if mantissa.starts_with('-') { "" } else { " " };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{space}{mantissa}e{sign}{:02}", exponent.abs())
}

/// A number as a mantissa with so many digits behind its point, and an exponent.
fn of_decimal(value: &Decimal, post: usize) -> Option<String> {
    if !value.is_finite() {
        return None;
    }
    let text = value.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{part}");
    let Some(first) = all.bytes().position(|byte| byte != b'0') else {
        let point = if post > 0 { "." } else { "" };
        return Some(format!("0{point}{}e0", "0".repeat(post)));
    };
    let mut exponent = whole.len() as i64 - 1 - first as i64;
    // Half away from zero, digit by digit.
    let mut kept: Vec<u8> = all.bytes().skip(first).map(|byte| byte - b'0').collect();
    let rounds_up = kept.get(post + 1).is_some_and(|digit| *digit >= 5);
    kept.resize(post + 1, 0);
    if rounds_up {
        let mut at = kept.len();
        loop {
            if at == 0 {
                kept.insert(0, 1);
                kept.pop();
                exponent += 1;
                break;
            }
            at -= 1;
            if kept[at] < 9 {
                kept[at] += 1;
                break;
            }
            kept[at] = 0;
        }
    }
    let digits: String = kept.iter().map(|digit| char::from(digit + b'0')).collect();
    let (first, rest) = digits.split_at(1);
    let point = if post > 0 { "." } else { "" };
    Some(format!("{sign}{first}{point}{rest}e{exponent}"))
}

/// Letters of a number from 1 to 3999.
fn roman(number: i32) -> String {
    const LETTERS: [(i32, &str); 13] = [
        (1_000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if !(1..=3_999).contains(&number) {
        return "#".repeat(15);
    }
    let (mut rest, mut out) = (number, String::new());
    for (value, letters) in LETTERS {
        while rest >= value {
            out.push_str(letters);
            rest -= value;
        }
    }
    out
}
