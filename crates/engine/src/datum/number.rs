//! Numbers as text: the shortest decimal that reads back the same, in the form PostgreSQL prints.
//!
//! Two rules are PostgreSQL's (its variant of Ryu) and not of Rust's shortest digits: a decimal
//! that
//! lies exactly between two floats stands for neither, as readers may round it either way, and of
//! two decimals that are equally near the one with an even last digit is printed.
//!
//! Invariants: printing then parsing gives an equal number. Does not do: locales.

use std::fmt;

/// Most digits before the point that are printed without an exponent, per width.
const FLOAT4_PLAIN: i32 = 6;
const FLOAT8_PLAIN: i32 = 15;

/// A finite float above zero as `mantissa` * 2^`power`.
#[derive(Clone, Copy)]
struct Binary {
    mantissa: u64,
    power: i32,
    /// The float below is half as far away as the one above.
    is_lowest: bool,
}

impl Binary {
    fn of_float8(v: f64) -> Binary {
        let (fraction, exponent) =
            (v.to_bits() & ((1 << 52) - 1), (v.to_bits() >> 52 & 0x7ff) as i32);
        match exponent {
            0 => Binary { mantissa: fraction, power: -1_074, is_lowest: false },
            _ => Binary {
                mantissa: fraction | 1 << 52,
                power: exponent - 1_075,
                is_lowest: fraction == 0 && exponent > 1,
            },
        }
    }

    fn of_float4(v: f32) -> Binary {
        let (fraction, exponent) =
            (v.to_bits() & ((1 << 23) - 1), (v.to_bits() >> 23 & 0xff) as i32);
        let fraction = u64::from(fraction);
        match exponent {
            0 => Binary { mantissa: fraction, power: -149, is_lowest: false },
            _ => Binary {
                mantissa: fraction | 1 << 23,
                power: exponent - 150,
                is_lowest: fraction == 0 && exponent > 1,
            },
        }
    }

    /// Is `decimal` exactly in the middle between the float and a neighbour?
    fn is_between(self, decimal: Digits) -> bool {
        let above = decimal.equals(2 * self.mantissa + 1, self.power - 1);
        let below = match self.is_lowest {
            true => decimal.equals(4 * self.mantissa - 1, self.power - 2),
            false => decimal.equals(2 * self.mantissa - 1, self.power - 1),
        };
        above || below
    }
}

/// Decimal digits and the power of ten of the last one.
#[derive(Clone, Copy, PartialEq)]
struct Digits {
    digits: u64,
    ten: i32,
}

impl Digits {
    /// Reads `d.ddde-dd`.
    fn of_scientific(text: &str) -> Digits {
        let (mantissa, exponent) = text.split_once('e').expect("the e form has an exponent");
        let exponent: i32 = exponent.parse().expect("the exponent is a small integer");
        let mut digits = 0;
        for byte in mantissa.bytes().filter(u8::is_ascii_digit) {
            digits = digits * 10 + u64::from(byte - b'0');
        }
        let behind = mantissa.split_once('.').map_or(0, |(_, behind)| behind.len());
        Digits { digits, ten: exponent - behind as i32 }
    }

    /// Is it exactly `odd` * 2^`power`?
    fn equals(self, odd: u64, power: i32) -> bool {
        let twos = self.digits.trailing_zeros() as i32;
        if self.digits == 0 || twos + self.ten != power {
            return false;
        }
        let fives = 5u128.checked_pow(self.ten.unsigned_abs());
        let (mut left, mut right) = (u128::from(self.digits >> twos), u128::from(odd));
        let side = if self.ten >= 0 { &mut left } else { &mut right };
        match fives.and_then(|fives| side.checked_mul(fives)) {
            Some(product) => *side = product,
            None => return false,
        }
        left == right
    }

    /// Is half a unit of the last digit below it exactly the float?
    fn is_half_above(self, binary: Binary) -> bool {
        // Twice the float is 2 * digits - 1 units.
        let twice = Digits { digits: 2 * self.digits - 1, ten: self.ten };
        let twos = binary.mantissa.trailing_zeros();
        twice.equals(binary.mantissa >> twos, binary.power + 1 + twos as i32)
    }
}

/// The digits that PostgreSQL prints for a float above zero. `shortest` are Rust's;
/// `rounded` gives as many as it is asked for, and `reads` tells whether digits read as the float.
fn choose(
    binary: Binary,
    shortest: &str,
    rounded: impl Fn(usize) -> String,
    reads: impl Fn(Digits) -> bool,
) -> Digits {
    let mut found = Digits::of_scientific(shortest);
    let fits = |digits: Digits| !binary.is_between(digits) && reads(digits);
    let mut count =
        shortest.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    while binary.is_between(found) {
        // The next longer ones, the nearest first; one of 17 digits is never in the middle.
        let Digits { digits, ten } = Digits::of_scientific(&rounded(count));
        count += 1;
        let near = [digits, digits + 1, digits - 1].map(|digits| Digits { digits, ten });
        found = near.into_iter().find(|digits| fits(*digits)).unwrap_or(found);
    }
    let even = Digits { digits: found.digits - found.digits % 2, ten: found.ten };
    if found.is_half_above(binary) && even != found && fits(even) { even } else { found }
}

/// Prints a `float4`.
pub(super) fn print_float4(f: &mut fmt::Formatter<'_>, v: f32) -> fmt::Result {
    let size = v.abs();
    print_float(f, f64::from(v), FLOAT4_PLAIN, || {
        let reads = |digits: Digits| {
            format!("{}e{}", digits.digits, digits.ten).parse::<f32>().is_ok_and(|v| v == size)
        };
        let rounded = |count: usize| format!("{size:.count$e}");
        choose(Binary::of_float4(size), &format!("{size:e}"), rounded, reads)
    })
}

/// Prints a `float8`.
pub(super) fn print_float8(f: &mut fmt::Formatter<'_>, v: f64) -> fmt::Result {
    let size = v.abs();
    print_float(f, v, FLOAT8_PLAIN, || {
        let reads = |digits: Digits| {
            format!("{}e{}", digits.digits, digits.ten).parse::<f64>().is_ok_and(|v| v == size)
        };
        let rounded = |count: usize| format!("{size:.count$e}");
        choose(Binary::of_float8(size), &format!("{size:e}"), rounded, reads)
    })
}

/// Prints `v`, whose digits are asked for when it has any.
fn print_float(
    f: &mut fmt::Formatter<'_>,
    v: f64,
    limit: i32,
    digits: impl FnOnce() -> Digits,
) -> fmt::Result {
    if v.is_nan() {
        return f.write_str("NaN");
    }
    f.write_str(if v.is_sign_negative() { "-" } else { "" })?;
    if v.is_infinite() {
        return f.write_str("Infinity");
    }
    if v == 0.0 {
        return f.write_str("0");
    }
    let Digits { digits, ten } = digits();
    let text = digits.to_string();
    let text = text.trim_end_matches('0');
    let exponent = digits.ilog10() as i32 + ten;
    let (first, rest) = text.split_at(1);
    if (-4..limit).contains(&exponent) {
        return print_plain(f, text, exponent);
    }
    f.write_str(first)?;
    if !rest.is_empty() {
        write!(f, ".{rest}")?;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(f, "e{sign}{:02}", exponent.abs())
}

/// Prints digits of which the first counts 10^`exponent`.
fn print_plain(f: &mut fmt::Formatter<'_>, digits: &str, exponent: i32) -> fmt::Result {
    let Ok(before) = usize::try_from(exponent + 1) else {
        return write!(f, "0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    };
    match digits.split_at_checked(before) {
        _ if before == 0 => write!(f, "0.{digits}"),
        None => write!(f, "{digits:0<before$}"),
        Some((whole, "")) => f.write_str(whole),
        Some((whole, fraction)) => write!(f, "{whole}.{fraction}"),
    }
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
        "nan" | "+nan" | "-nan" => Some(f64::NAN),
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
