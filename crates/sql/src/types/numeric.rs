//! Arithmetic of `numeric`: PostgreSQL's scales, rounding and limits over the store's [`Decimal`].
//!
//! A number is taken as a whole number and its scale: in 128 bits where they suffice, else as a big
//! integer. Digits are multiplied and divided by `num-bigint`; scales and rounding are here.
//!
//! Invariants: sums have the larger scale, products the sum of both up to
//! [`Decimal::MAX_SCALE`], quotients at least 16 significant digits up to [`MAX_QUOTIENT_SCALE`].
//! A result beyond the limits is an error (22003). An operation on the largest numbers takes less
//! than a second. NaN and infinities give what PostgreSQL makes of them.
//! Does not do: powers and logarithms (`powers`).

use num_bigint::{BigInt, BigUint, Sign};
use rightlink::Decimal;
use rightlink::internal::datum::DecimalError;

use crate::error::{Result, SqlError, code};
use crate::types::SqlType;

/// Most digits after the point that a quotient is given.
const MAX_QUOTIENT_SCALE: i64 = 1_000;
/// Significant digits that a quotient has at least.
const MIN_SIGNIFICANT: i64 = 16;
/// Largest power of a hundred below the limit.
const MAX_EXPONENT: i64 = Decimal::MAX_WHOLE_DIGITS as i64 / 2 - 1;
/// Digits to which a number is rounded at most: behind the point, and in front of it.
const ROUNDING: std::ops::RangeInclusive<i64> = -131_073..=16_383;

/// Reads digits with an optional sign, point and exponent.
pub(crate) fn parse(text: &str) -> Result<Decimal> {
    let number: std::result::Result<Decimal, DecimalError> = text.parse();
    match number {
        Ok(number) => Ok(number),
        Err(DecimalError::OutOfRange) => Err(overflow()),
        Err(DecimalError::Syntax) => {
            let what =
                format!("invalid input syntax for type {}: \"{text}\"", SqlType::Numeric.name());
            Err(SqlError::new(code::INVALID_TEXT, what))
        }
    }
}

/// The nearest decimal with as many significant digits as a float has for sure; none beyond the
/// limits.
pub(crate) fn from_float(value: f64, digits: usize) -> Option<Decimal> {
    if value.is_nan() {
        return Some(Decimal::nan());
    }
    if value.is_infinite() {
        return Some(Decimal::infinity(value < 0.0));
    }
    let text = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e')?;
    let short = match mantissa.contains('.') {
        true => mantissa.trim_end_matches('0').trim_end_matches('.'),
        false => mantissa,
    };
    format!("{short}e{exponent}").parse().ok()
}

/// The nearest float.
pub(crate) fn to_float(number: &Decimal) -> f64 {
    /// Powers of ten up to here, and whole numbers of so many bits, are exact as floats.
    const EXACT: (u16, u32) = (22, 53);
    match number.unscaled() {
        Some((whole, scale)) if scale <= EXACT.0 && whole.unsigned_abs() >> EXACT.1 == 0 => {
            whole as f64 / 10f64.powi(i32::from(scale))
        }
        _ => number.to_string().parse().unwrap_or(f64::NAN),
    }
}

/// The nearest integer, ties away from zero; none if it does not fit.
pub(crate) fn to_int(number: &Decimal) -> Option<i64> {
    let (whole, _) = round(number, 0).ok()?.unscaled()?;
    i64::try_from(whole).ok()
}

pub(crate) fn negate(number: &Decimal) -> Decimal {
    number.with_sign(!number.is_negative())
}

pub(crate) fn abs(number: &Decimal) -> Decimal {
    number.with_sign(false)
}

/// The number divided by 10^`digits`, as many digits longer.
pub(crate) fn shifted(whole: i128, digits: u16) -> Decimal {
    Decimal::from_unscaled(whole, digits).expect("a few digits")
}

/// Is one of them NaN or an infinity?
fn are_strange(a: &Decimal, b: &Decimal) -> bool {
    !a.is_finite() || !b.is_finite()
}

/// The sum of numbers of which one is not finite.
fn strange_sum(a: &Decimal, b: &Decimal) -> Decimal {
    match (a.is_finite(), b.is_finite()) {
        _ if a.is_nan() || b.is_nan() => Decimal::nan(),
        (false, false) if a.is_negative() != b.is_negative() => Decimal::nan(),
        (false, _) => a.clone(),
        (true, _) => b.clone(),
    }
}

/// The quotient of numbers of which one is not finite.
fn strange_quotient(a: &Decimal, b: &Decimal) -> Result<Decimal> {
    match (a.is_finite(), b.is_finite()) {
        _ if a.is_nan() || b.is_nan() => Ok(Decimal::nan()),
        (false, false) => Ok(Decimal::nan()),
        (false, true) if b.is_zero() => Err(division_by_zero()),
        (false, true) => Ok(Decimal::infinity(a.is_negative() != b.is_negative())),
        (true, _) => Ok(Decimal::from(0)),
    }
}

pub(crate) fn add(a: &Decimal, b: &Decimal) -> Result<Decimal> {
    if are_strange(a, b) {
        return Ok(strange_sum(a, b));
    }
    combine(a, b, i128::checked_add, |a, b| a + b)
}

pub(crate) fn subtract(a: &Decimal, b: &Decimal) -> Result<Decimal> {
    if are_strange(a, b) {
        return Ok(strange_sum(a, &negate(b)));
    }
    combine(a, b, i128::checked_sub, |a, b| a - b)
}

/// The remainder, with the sign of `a`.
pub(crate) fn remainder(a: &Decimal, b: &Decimal) -> Result<Decimal> {
    if a.is_nan() || b.is_nan() {
        return Ok(Decimal::nan());
    }
    match (a.is_finite(), b.is_finite()) {
        (false, true) if !b.is_zero() => return Ok(Decimal::nan()),
        (false, false) => return Ok(Decimal::nan()),
        (true, false) => return Ok(a.clone()),
        _ => {}
    }
    if b.is_zero() {
        return Err(division_by_zero());
    }
    combine(a, b, i128::checked_rem, |a, b| a % b)
}

/// Of whole numbers with one scale, a whole number with this scale.
fn combine(
    a: &Decimal,
    b: &Decimal,
    small: fn(i128, i128) -> Option<i128>,
    large: fn(BigInt, BigInt) -> BigInt,
) -> Result<Decimal> {
    let scale = a.scale().max(b.scale());
    let aligned = |number: &Decimal| {
        let (whole, own) = number.unscaled()?;
        whole.checked_mul(10i128.checked_pow(u32::from(scale - own))?)
    };
    if let (Some(x), Some(y)) = (aligned(a), aligned(b))
        && let Some(result) = small(x, y)
    {
        return Decimal::from_unscaled(result, scale).ok_or_else(overflow);
    }
    from_big(large(widened(a, scale)?, widened(b, scale)?), scale)
}

pub(crate) fn multiply(a: &Decimal, b: &Decimal) -> Result<Decimal> {
    if are_strange(a, b) {
        let is_number = !(a.is_nan() || b.is_nan() || a.is_zero() || b.is_zero());
        let infinity = Decimal::infinity(a.is_negative() != b.is_negative());
        return Ok(if is_number { infinity } else { Decimal::nan() });
    }
    let scale = u32::from(a.scale()) + u32::from(b.scale());
    if let (Some((x, _)), Some((y, _))) = (a.unscaled(), b.unscaled())
        && let Some(product) = x.checked_mul(y)
        && let Ok(scale) = u16::try_from(scale)
        && let Some(number) = Decimal::from_unscaled(product, scale)
    {
        return Ok(number);
    }
    // The product is at least this power of a hundred.
    if i64::from(a.exponent()) + i64::from(b.exponent()) > MAX_EXPONENT {
        return Err(overflow());
    }
    let product = big(a)? * big(b)?;
    match scale.checked_sub(u32::from(Decimal::MAX_SCALE)) {
        Some(surplus) => from_big(cut(&product, surplus, true), Decimal::MAX_SCALE),
        None => from_big(product, scale as u16),
    }
}

/// The quotient with as many digits as PostgreSQL shows, the last one rounded.
pub(crate) fn divide(a: &Decimal, b: &Decimal) -> Result<Decimal> {
    if are_strange(a, b) {
        return strange_quotient(a, b);
    }
    if b.is_zero() {
        return Err(division_by_zero());
    }
    let scale = quotient_scale(a, b);
    let up = i64::from(scale) + i64::from(b.scale()) - i64::from(a.scale());
    let (above, below) = (u32::try_from(up).unwrap_or(0), u32::try_from(-up).unwrap_or(0));
    if let (Some((x, _)), Some((y, _))) = (a.unscaled(), b.unscaled())
        && let (Some(above), Some(below)) = (10i128.checked_pow(above), 10i128.checked_pow(below))
        && let (Some(x), Some(y)) = (x.checked_mul(above), y.checked_mul(below))
    {
        let (quotient, rest) = (x / y, x % y);
        let is_up = rest.unsigned_abs() >= y.unsigned_abs() - rest.unsigned_abs();
        let away = if (x < 0) == (y < 0) { 1 } else { -1 };
        let rounded = if is_up { quotient + away } else { quotient };
        return Decimal::from_unscaled(rounded, scale).ok_or_else(overflow);
    }
    // The quotient is at least this power of a hundred.
    if i64::from(a.exponent()) - i64::from(b.exponent()) - 1 > MAX_EXPONENT {
        return Err(overflow());
    }
    let (x, y) = (big(a)? * ten(above), big(b)? * ten(below));
    from_big(quotient(&x, &y, true), scale)
}

/// The square root of a number that is not negative, with as many digits as it has.
pub(crate) fn root(number: &Decimal) -> Result<Decimal> {
    if !number.is_finite() {
        return Ok(number.clone());
    }
    let scale = number.scale();
    // One more digit, which says which way the last one is rounded.
    let whole = big(number)? * ten(u32::from(scale) + 2);
    let root = BigInt::from_biguint(Sign::Plus, whole.magnitude().sqrt());
    from_big(cut(&root, 1, true), scale)
}

/// The whole part of the quotient.
pub(crate) fn whole_quotient(a: &Decimal, b: &Decimal) -> Result<Decimal> {
    if are_strange(a, b) {
        return strange_quotient(a, b);
    }
    if b.is_zero() {
        return Err(division_by_zero());
    }
    let scale = a.scale().max(b.scale());
    from_big(quotient(&widened(a, scale)?, &widened(b, scale)?, false), 0)
}

/// PostgreSQL's choice (`select_div_scale`): 16 significant digits, estimated from the leading
/// digits of base 10000.
fn quotient_scale(a: &Decimal, b: &Decimal) -> u16 {
    let (a_lead, b_lead) = (Leading::of(a), Leading::of(b));
    let weight = a_lead.weight - b_lead.weight - i64::from(a_lead.digit <= b_lead.digit);
    let scale = (MIN_SIGNIFICANT - weight * 4).max(a.scale().into()).max(b.scale().into());
    scale.clamp(0, MAX_QUOTIENT_SCALE) as u16
}

/// Place and value of the first digit of base 10000.
struct Leading {
    weight: i64,
    digit: u32,
}

impl Leading {
    fn of(number: &Decimal) -> Leading {
        let (exponent, pairs) = (i64::from(number.exponent()), number.pairs());
        let pair = |at: usize| pairs.get(at).copied().map_or(0, u32::from);
        let digit = if exponent.rem_euclid(2) == 0 { pair(0) } else { pair(0) * 100 + pair(1) };
        Leading { weight: exponent.div_euclid(2), digit }
    }
}

/// Rounded to `scale` digits after the point (before it, when negative), ties away from zero.
pub(crate) fn round(number: &Decimal, scale: i32) -> Result<Decimal> {
    to_scale(number, scale, true)
}

/// Cut to `scale` digits after the point (before it, when negative).
pub(crate) fn truncate(number: &Decimal, scale: i32) -> Result<Decimal> {
    to_scale(number, scale, false)
}

fn to_scale(number: &Decimal, scale: i32, rounds: bool) -> Result<Decimal> {
    if !number.is_finite() {
        return Ok(number.clone());
    }
    let wanted = i64::from(scale).clamp(*ROUNDING.start(), *ROUNDING.end());
    let own = i64::from(number.scale());
    if wanted >= own {
        return Ok(number.with_scale(wanted as u16).expect("no digit is lost"));
    }
    let (shown, zeros) = (wanted.max(0) as u16, (-wanted).max(0) as u32);
    let drop = (own - wanted) as u32;
    if let Some((whole, _)) = number.unscaled()
        && let Some(divisor) = 10i128.checked_pow(drop)
        && zeros == 0
    {
        let (quotient, rest) = (whole / divisor, whole % divisor);
        let up = rounds && rest.unsigned_abs() >= divisor.unsigned_abs() / 2;
        let rounded = if up { quotient + whole.signum() } else { quotient };
        return Decimal::from_unscaled(rounded, shown).ok_or_else(overflow);
    }
    from_big(cut(&big(number)?, drop, rounds) * ten(zeros), shown)
}

pub(crate) fn floor(number: &Decimal) -> Result<Decimal> {
    let whole = truncate(number, 0)?;
    let lower = number.is_negative() && whole != *number;
    if lower { subtract(&whole, &Decimal::from(1)) } else { Ok(whole) }
}

pub(crate) fn ceil(number: &Decimal) -> Result<Decimal> {
    floor(&negate(number)).map(|lower| negate(&lower))
}

/// As a `numeric(precision, scale)` keeps it.
pub(crate) fn fit(number: &Decimal, precision: u32, scale: i32) -> Result<Decimal> {
    if number.is_nan() {
        return Ok(number.clone());
    }
    if !number.is_finite() {
        let what = format!(
            "A field with precision {precision}, scale {scale} cannot hold an infinite value."
        );
        let error = SqlError::new(code::NUMERIC_OUT_OF_RANGE, "numeric field overflow");
        return Err(error.detail(what));
    }
    let rounded = round(number, scale)?;
    let room = i64::from(precision) - i64::from(scale);
    // Digits in front of the point; below zero, zeros behind it.
    let tens = rounded.pairs().first().map_or(0, |pair| i64::from(*pair >= 10));
    let digits = i64::from(rounded.exponent()) * 2 + tens + 1;
    if rounded.is_zero() || digits <= room {
        return Ok(rounded);
    }
    let what = format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less \
         than {}.",
        if room == 0 { "1".to_owned() } else { format!("10^{room}") }
    );
    Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, "numeric field overflow").detail(what))
}

pub(crate) fn division_by_zero() -> SqlError {
    SqlError::new(code::DIVISION_BY_ZERO, "division by zero")
}

pub(super) fn overflow() -> SqlError {
    SqlError::new(code::NUMERIC_OUT_OF_RANGE, "value overflows numeric format")
}

pub(super) fn ten(power: u32) -> BigInt {
    if power == 0 { BigInt::from(1) } else { BigInt::from(10).pow(power) }
}

/// The number times 10^scale.
pub(super) fn big(number: &Decimal) -> Result<BigInt> {
    assert!(number.is_finite(), "what is not finite has no digits");
    let pairs = number.pairs();
    let whole = BigUint::from_radix_be(pairs, 100).unwrap_or_default();
    let sign = if number.is_negative() { Sign::Minus } else { Sign::Plus };
    let whole = BigInt::from_biguint(sign, whole);
    // Power of ten of the last pair, against that of the last digit that is shown.
    let last = 2 * (i64::from(number.exponent()) - (pairs.len() as i64 - 1));
    let up = if pairs.is_empty() { 0 } else { last + i64::from(number.scale()) };
    Ok(match u32::try_from(up) {
        Ok(up) => whole * ten(up),
        // The last pair ends in a zero that is not shown.
        Err(_) => whole / ten((-up) as u32),
    })
}

/// The number times 10^`scale`, which is not below its own.
fn widened(number: &Decimal, scale: u16) -> Result<BigInt> {
    Ok(big(number)? * ten(u32::from(scale - number.scale())))
}

pub(super) fn from_big(whole: BigInt, scale: u16) -> Result<Decimal> {
    let negative = whole.sign() == Sign::Minus;
    // Pairs end at the point.
    let odd = scale % 2;
    let whole = if odd == 1 { whole * 10 } else { whole };
    let pairs = whole.magnitude().to_radix_be(100);
    let behind = i32::from(scale.div_ceil(2));
    let exponent = i32::try_from(pairs.len()).unwrap_or(i32::MAX) - 1 - behind;
    Decimal::from_pairs(negative, exponent, &pairs, scale).ok_or_else(overflow)
}

/// `whole` without its last `digits` digits.
pub(super) fn cut(whole: &BigInt, digits: u32, rounds: bool) -> BigInt {
    // More digits than there are leave nothing, and 10^digits may be far larger.
    let most = whole.bits() as u128 * 302 / 1_000 + 2;
    if u128::from(digits) > most {
        return BigInt::ZERO;
    }
    quotient(whole, &ten(digits), rounds)
}

pub(super) fn quotient(a: &BigInt, b: &BigInt, rounds: bool) -> BigInt {
    let (quotient, rest) = (a / b, a % b);
    if rounds && rest.magnitude() * 2u32 >= *b.magnitude() {
        let away = if a.sign() == b.sign() { 1 } else { -1 };
        return quotient + away;
    }
    quotient
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal {
        parse(text).unwrap()
    }

    /// What PostgreSQL 15 answers.
    #[test]
    fn quotients_have_postgresqls_digits() {
        for (a, b, quotient) in [
            ("1.5", "3", "0.50000000000000000000"),
            ("10", "3", "3.3333333333333333"),
            ("1", "7", "0.14285714285714285714"),
            ("100000", "7", "14285.714285714286"),
            ("12345678901234567890", "7", "1763668414462081127"),
            ("2", "3", "0.66666666666666666667"),
            ("-2", "3", "-0.66666666666666666667"),
            ("1", "123456789.123456789", "0.0000000081000000656100006052"),
            ("0", "3", "0.00000000000000000000"),
        ] {
            assert_eq!(divide(&d(a), &d(b)).unwrap().to_string(), quotient, "{a} / {b}");
        }
        assert_eq!(divide(&d("1"), &d("0.0")).unwrap_err().sqlstate, "22012");
    }

    #[test]
    fn rounding_is_away_from_zero() {
        for (value, scale, rounded) in [
            ("2.5", 0, "3"),
            ("-2.5", 0, "-3"),
            ("2.345", 2, "2.35"),
            ("1234", -2, "1200"),
            ("1250", -2, "1300"),
            ("-50", -2, "-100"),
            ("49", -2, "0"),
            ("0.4", 0, "0"),
            ("1", 3, "1.000"),
        ] {
            assert_eq!(round(&d(value), scale).unwrap().to_string(), rounded, "{value}");
        }
        assert_eq!(round(&d("6e300"), -301).unwrap(), d("1e301"));
        assert!(truncate(&d("6e300"), -301).unwrap().is_zero());
        assert_eq!(floor(&d("-1.5")).unwrap().to_string(), "-2");
        assert_eq!(ceil(&d("-1.5")).unwrap().to_string(), "-1");
        assert_eq!(floor(&d("1.5")).unwrap().to_string(), "1");
        assert_eq!(floor(&d("2.0")).unwrap().to_string(), "2");
    }

    /// Small numbers, which are computed in 128 bits, against the same ones as big integers.
    #[test]
    fn both_ways_of_computing_agree() {
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let whole = (state >> 20) as i64 >> (state % 40);
            Decimal::from_unscaled(i128::from(whole) - 1_000, (state >> 50) as u16 % 9).unwrap()
        };
        // Adding and taking away a large number leaves the small one, computed the large way.
        let large = d("1e60");
        for _ in 0..2_000 {
            let (a, b) = (random(), random());
            let sum = add(&add(&a, &large).unwrap(), &b).unwrap();
            assert_eq!(
                subtract(&sum, &large).unwrap().to_string(),
                add(&a, &b).unwrap().to_string()
            );
            let product = multiply(&multiply(&a, &large).unwrap(), &b).unwrap();
            assert_eq!(product, multiply(&multiply(&a, &b).unwrap(), &large).unwrap());
            if b.is_zero() {
                continue;
            }
            let (rest, whole) = (remainder(&a, &b).unwrap(), whole_quotient(&a, &b).unwrap());
            assert_eq!(add(&multiply(&whole, &b).unwrap(), &rest).unwrap(), a);
            let (x, y) = (multiply(&a, &large).unwrap(), multiply(&b, &large).unwrap());
            assert_eq!(
                round(&divide(&x, &y).unwrap(), 8).unwrap(),
                round(&divide(&a, &b).unwrap(), 8).unwrap(),
                "{a} / {b}"
            );
            assert_eq!(parse(&a.to_string()).unwrap().as_bytes(), a.as_bytes());
            assert_eq!(from_big(big(&a).unwrap(), a.scale()).unwrap().as_bytes(), a.as_bytes());
        }
    }

    /// What PostgreSQL 15 says of the largest numbers.
    #[test]
    fn limits_are_postgresqls() {
        let largest = d(&"9".repeat(131_072));
        let smallest = d("1e-16383");
        assert_eq!(add(&largest, &Decimal::from(1)).unwrap_err().sqlstate, "22003");
        assert_eq!(multiply(&largest, &largest).unwrap_err().sqlstate, "22003");
        assert_eq!(divide(&largest, &smallest).unwrap_err().sqlstate, "22003");
        assert_eq!(multiply(&smallest, &d("0.5")).unwrap().to_string(), smallest.to_string());
        assert!(multiply(&smallest, &d("0.4")).unwrap().is_zero());
        let long = add(&largest, &smallest).unwrap();
        assert_eq!(subtract(&long, &largest).unwrap().to_string(), smallest.to_string());
        assert_eq!(remainder(&long, &d("3e-16000")).unwrap().scale(), 16_383);
        assert_eq!(divide(&long, &d(&"7".repeat(70_000))).unwrap().scale(), 1_000);
        assert_eq!(multiply(&long, &d("0.333")).unwrap().scale(), 16_383);
        assert_eq!(round(&long, -131_072).unwrap_err().sqlstate, "22003");
        assert_eq!(round(&long, 16_383).unwrap(), long);
        assert_eq!(truncate(&long, 0).unwrap(), largest);
        assert!(truncate(&long, i32::MIN).unwrap().is_zero());
        for text in ["1e131072", "1e-16384", "0e-20000", "1e99999999999", "1e-99999999999"] {
            assert_eq!(parse(text).unwrap_err().sqlstate, "22003", "{text}");
        }
        assert_eq!(parse("0e999999").unwrap().to_string(), "0");
    }

    #[test]
    fn a_scale_may_be_above_the_precision() {
        assert_eq!(fit(&d("0.0123"), 3, 4).unwrap().to_string(), "0.0123");
        assert_eq!(fit(&d("1234"), 2, -2).unwrap().to_string(), "1200");
        for (value, precision, scale) in [("0.123", 3, 4), ("0.09999", 3, 4), ("9950", 2, -2)] {
            let error = fit(&d(value), precision, scale).unwrap_err();
            assert_eq!(error.sqlstate, "22003", "{value}");
        }
        assert!(fit(&d("0.099994"), 3, 4).is_err() && fit(&d("0.09994"), 3, 4).is_ok());
    }
}
