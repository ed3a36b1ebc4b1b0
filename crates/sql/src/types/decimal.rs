//! `numeric`: exact decimal numbers of any size, with PostgreSQL's scales and rounding.
//!
//! A number is a sign, a whole number of any size and a count of digits after the point.
//!
//! Invariants: no digit group above [`BASE`]; no leading zero group; zero has no sign. Sums keep
//! the larger scale, products the sum of both up to [`MAX_FRACTION`], quotients at least 16
//! significant digits.
//! Does not do: NaN and infinities, which are refused when they are read.

use std::cmp::Ordering;
use std::fmt;

use crate::error::{Result, SqlError, code};

/// Value of a digit group.
const BASE: u64 = 1_000_000_000;
/// Decimal digits of a group.
const GROUP: u32 = 9;
/// Most digits before the point, as in PostgreSQL.
const MAX_INTEGER_DIGITS: usize = 131_072;
/// Most digits after the point of any number, as in PostgreSQL.
pub(crate) const MAX_FRACTION: u32 = 16_383;
/// Most digits after the point that a quotient or function shows.
const MAX_SCALE: u32 = 1_000;
/// Significant digits that a quotient has at least.
const MIN_SIGNIFICANT: i64 = 16;

/// An exact decimal number.
#[derive(Clone, Debug)]
pub struct Decimal {
    negative: bool,
    /// Groups of nine decimal digits, the lowest first.
    groups: Vec<u32>,
    scale: u32,
}

impl Decimal {
    /// Zero.
    pub(crate) fn zero() -> Self {
        Self { negative: false, groups: Vec::new(), scale: 0 }
    }

    fn new(negative: bool, mut groups: Vec<u32>, scale: u32) -> Self {
        trim(&mut groups);
        Self { negative: negative && !groups.is_empty(), groups, scale }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.groups.is_empty()
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.negative
    }

    /// Digits after the point.
    pub(crate) fn scale(&self) -> u32 {
        self.scale
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.groups.capacity() * 4
    }

    /// Reads digits with an optional sign, point and exponent.
    pub(crate) fn parse(text: &str) -> Option<Decimal> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match rest.find(['e', 'E']) {
            Some(at) => (&rest[..at], rest[at + 1..].parse::<i32>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let scale = fraction.len() as i64 - i64::from(exponent);
        if scale.unsigned_abs() > MAX_INTEGER_DIGITS as u64 {
            return None;
        }
        let padded = format!("{digits}{}", "0".repeat(usize::try_from(-scale).unwrap_or(0)));
        Some(Self::new(negative, from_digits(&padded), u32::try_from(scale).unwrap_or(0)))
    }

    /// The nearest decimal with as many significant digits as a float has for sure.
    pub(crate) fn from_float(value: f64, digits: usize) -> Option<Decimal> {
        if !value.is_finite() {
            return None;
        }
        let text = format!("{value:.*e}", digits - 1);
        let (mantissa, exponent) = text.split_once('e')?;
        let short = match mantissa.contains('.') {
            true => mantissa.trim_end_matches('0').trim_end_matches('.'),
            false => mantissa,
        };
        Self::parse(&format!("{short}e{exponent}"))
    }

    /// Appends the number as it is: sign, scale, groups. For bytes that do not leave the process.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.negative));
        out.extend_from_slice(&self.scale.to_le_bytes());
        self.groups.iter().for_each(|group| out.extend_from_slice(&group.to_le_bytes()));
    }

    /// The number that [`Decimal::write`] wrote; `None` for other bytes.
    pub(crate) fn read(bytes: &[u8]) -> Option<Decimal> {
        let (sign, rest) = bytes.split_first()?;
        let (scale, rest) = rest.split_first_chunk::<4>()?;
        let (groups, []) = rest.as_chunks::<4>() else { return None };
        let groups = groups.iter().map(|group| u32::from_le_bytes(*group)).collect();
        Some(Self::new(*sign != 0, groups, u32::from_le_bytes(*scale)))
    }

    /// The number that the store holds; `None` for one that is not finite.
    pub(crate) fn from_store(value: &rightlink::Decimal) -> Option<Decimal> {
        match value.unscaled() {
            Some((whole, scale)) => {
                let whole = Decimal::from(whole);
                Some(Self::new(whole.negative, whole.groups, u32::from(scale)))
            }
            None => Decimal::parse(&rightlink::Value::Decimal(value.clone()).to_string()),
        }
    }

    /// The number as the store holds it; `None` if it has more digits than that.
    pub(crate) fn to_store(&self) -> Option<rightlink::Decimal> {
        match rightlink::Value::parse(rightlink::Type::Decimal, &self.to_string()) {
            Ok(rightlink::Value::Decimal(value)) => Some(value),
            _ => None,
        }
    }

    /// The nearest float.
    pub(crate) fn to_float(&self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// The nearest integer, ties away from zero; `None` if it does not fit.
    pub(crate) fn to_int(&self) -> Option<i64> {
        let whole = self.round(0);
        let mut value: i128 = 0;
        for group in whole.groups.iter().rev() {
            value = value.checked_mul(i128::from(BASE))?.checked_add(i128::from(*group))?;
        }
        i64::try_from(if whole.negative { -value } else { value }).ok()
    }

    /// The number divided by 10^`digits`, as many digits longer.
    pub(crate) fn shifted(&self, digits: u16) -> Decimal {
        Self::new(self.negative, self.groups.clone(), self.scale + u32::from(digits))
    }

    pub(crate) fn negate(&self) -> Decimal {
        Self::new(!self.negative, self.groups.clone(), self.scale)
    }

    pub(crate) fn abs(&self) -> Decimal {
        Self::new(false, self.groups.clone(), self.scale)
    }

    /// The same value with this many digits after the point; `scale` is not smaller.
    fn widened(&self, scale: u32) -> Vec<u32> {
        assert!(scale >= self.scale, "widening cuts nothing");
        shift_up(&self.groups, scale - self.scale)
    }

    pub(crate) fn add(&self, other: &Decimal) -> Decimal {
        let scale = self.scale.max(other.scale);
        let (a, b) = (self.widened(scale), other.widened(scale));
        if self.negative == other.negative {
            return Self::new(self.negative, add(&a, &b), scale);
        }
        match compare(&a, &b) {
            Ordering::Less => Self::new(other.negative, subtract(&b, &a), scale),
            _ => Self::new(self.negative, subtract(&a, &b), scale),
        }
    }

    pub(crate) fn subtract(&self, other: &Decimal) -> Decimal {
        self.add(&other.negate())
    }

    pub(crate) fn multiply(&self, other: &Decimal) -> Decimal {
        let product = multiply(&self.groups, &other.groups);
        let product = Self::new(self.negative != other.negative, product, self.scale + other.scale);
        match product.scale > MAX_FRACTION {
            true => product.round(MAX_FRACTION as i32),
            false => product,
        }
    }

    /// Has it no more digits before the point than the store keeps?
    pub(crate) fn has_storable_size(&self) -> bool {
        let digits = self
            .groups
            .last()
            .map_or(0, |top| (self.groups.len() - 1) * GROUP as usize + top.to_string().len());
        digits <= MAX_INTEGER_DIGITS + self.scale as usize
    }

    /// The quotient with as many digits as PostgreSQL shows, the last one rounded.
    pub(crate) fn divide(&self, other: &Decimal) -> Result<Decimal> {
        if other.is_zero() {
            return Err(division_by_zero());
        }
        let scale = self.quotient_scale(other);
        Ok(self.divide_to(other, scale))
    }

    /// The quotient with this many digits after the point, rounded.
    fn divide_to(&self, other: &Decimal, scale: u32) -> Decimal {
        let up = (scale + 1 + other.scale).saturating_sub(self.scale);
        let drop = (self.scale + up) - other.scale - scale;
        let (quotient, _) = divide(&shift_up(&self.groups, up), &other.groups);
        let negative = self.negative != other.negative;
        Self::new(negative, quotient, scale + drop).round(scale as i32)
    }

    /// The remainder, with the sign of `self`.
    pub(crate) fn remainder(&self, other: &Decimal) -> Result<Decimal> {
        if other.is_zero() {
            return Err(division_by_zero());
        }
        let scale = self.scale.max(other.scale);
        let (_, rest) = divide(&self.widened(scale), &other.widened(scale));
        Ok(Self::new(self.negative, rest, scale))
    }

    /// PostgreSQL's choice: 16 significant digits, estimated from the leading base-10000 digits.
    fn quotient_scale(&self, other: &Decimal) -> u32 {
        let ((w1, d1), (w2, d2)) = (self.leading(), other.leading());
        let weight = w1 - w2 - i64::from(d1 <= d2);
        let scale = (MIN_SIGNIFICANT - weight * 4).max(0);
        let scale = u32::try_from(scale).unwrap_or(0).max(self.scale).max(other.scale);
        scale.min(MAX_SCALE)
    }

    /// Position and value of the first digit in base 10000.
    fn leading(&self) -> (i64, u32) {
        if self.is_zero() {
            return (0, 0);
        }
        let digits = to_digits(&self.groups);
        let exponent = digits.len() as i64 - 1 - i64::from(self.scale);
        let width = (exponent.rem_euclid(4) + 1) as usize;
        let mut first = String::from(&digits[..width.min(digits.len())]);
        while first.len() < width {
            first.push('0');
        }
        (exponent.div_euclid(4), first.parse().expect("at most four digits"))
    }

    /// Rounded to `scale` digits after the point (before it, when negative), ties away from zero.
    pub(crate) fn round(&self, scale: i32) -> Decimal {
        self.cut(scale, true)
    }

    /// Cut to `scale` digits after the point (before it, when negative).
    pub(crate) fn truncate(&self, scale: i32) -> Decimal {
        self.cut(scale, false)
    }

    fn cut(&self, scale: i32, rounds: bool) -> Decimal {
        let wanted = i64::from(scale).clamp(-(MAX_INTEGER_DIGITS as i64), 2_000_000);
        let drop = i64::from(self.scale) - wanted;
        if drop <= 0 {
            return Self::new(self.negative, self.widened(wanted as u32), wanted as u32);
        }
        let divisor = shift_up(&[1], drop as u32);
        let (mut quotient, rest) = divide(&self.groups, &divisor);
        if rounds && compare(&add(&rest, &rest), &divisor) != Ordering::Less {
            quotient = add(&quotient, &[1]);
        }
        if wanted < 0 {
            quotient = shift_up(&quotient, (-wanted) as u32);
        }
        Self::new(self.negative, quotient, wanted.max(0) as u32)
    }

    pub(crate) fn floor(&self) -> Decimal {
        let cut = self.truncate(0);
        let lower = cut.negative || self.negative;
        if lower && cut != *self { cut.subtract(&Decimal::from(1i64)) } else { cut }
    }

    pub(crate) fn ceil(&self) -> Decimal {
        self.negate().floor().negate()
    }

    /// Digits before the point.
    fn integer_digits(&self) -> usize {
        if self.is_zero() {
            return 0;
        }
        to_digits(&self.groups).len().saturating_sub(self.scale as usize)
    }

    /// As a `numeric(precision, scale)` keeps it.
    pub(crate) fn fit(&self, precision: u32, scale: i32) -> Result<Decimal> {
        let rounded = self.round(scale);
        let room = i64::from(precision) - i64::from(scale);
        if rounded.is_zero() || rounded.integer_digits() as i64 <= room {
            return Ok(rounded);
        }
        let what = format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value \
             less than {}.",
            if room > 0 { format!("10^{room}") } else { "1".to_owned() }
        );
        Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, "numeric field overflow").detail(what))
    }

    /// Fails when there are more digits than PostgreSQL allows.
    pub(crate) fn checked(self) -> Result<Decimal> {
        if self.groups.len() * GROUP as usize > MAX_INTEGER_DIGITS + 16_384 {
            let what = "value overflows numeric format";
            return Err(SqlError::new(code::NUMERIC_OUT_OF_RANGE, what));
        }
        Ok(self)
    }
}

pub(crate) fn division_by_zero() -> SqlError {
    SqlError::new(code::DIVISION_BY_ZERO, "division by zero")
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Decimal::from(i128::from(value))
    }
}

impl From<i128> for Decimal {
    fn from(value: i128) -> Self {
        let mut rest = value.unsigned_abs();
        let mut groups = Vec::new();
        while rest > 0 {
            groups.push((rest % u128::from(BASE)) as u32);
            rest /= u128::from(BASE);
        }
        Self::new(value < 0, groups, 0)
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => return Ordering::Greater,
            (true, false) => return Ordering::Less,
            _ => {}
        }
        let scale = self.scale.max(other.scale);
        let order = compare(&self.widened(scale), &other.widened(scale));
        if self.negative { order.reverse() } else { order }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = to_digits(&self.groups);
        let scale = self.scale as usize;
        if digits.len() <= scale {
            digits = format!("{}{digits}", "0".repeat(scale + 1 - digits.len()));
        }
        f.write_str(if self.negative { "-" } else { "" })?;
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        f.write_str(whole)?;
        if scale > 0 { write!(f, ".{fraction}") } else { Ok(()) }
    }
}

// Whole numbers as groups of nine digits, the lowest first.

fn trim(groups: &mut Vec<u32>) {
    while groups.last() == Some(&0) {
        groups.pop();
    }
}

fn from_digits(digits: &str) -> Vec<u32> {
    assert!(digits.is_ascii(), "decimal digits");
    let bytes = digits.as_bytes();
    let value = |chunk: &[u8]| chunk.iter().fold(0, |sum, b| sum * 10 + u32::from(b - b'0'));
    bytes.rchunks(GROUP as usize).map(value).collect()
}

/// Decimal digits without leading zeros; nothing for zero.
fn to_digits(groups: &[u32]) -> String {
    let Some((last, rest)) = groups.split_last() else { return String::new() };
    let mut out = last.to_string();
    for group in rest.iter().rev() {
        out.push_str(&format!("{group:09}"));
    }
    out
}

fn compare(a: &[u32], b: &[u32]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.iter().rev().cmp(b.iter().rev()))
}

fn add(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut out = Vec::with_capacity(a.len().max(b.len()) + 1);
    let mut carry = 0;
    for at in 0..a.len().max(b.len()) {
        let sum = carry + group(a, at) + group(b, at);
        out.push((sum % BASE) as u32);
        carry = sum / BASE;
    }
    out.push(carry as u32);
    trim(&mut out);
    out
}

fn group(groups: &[u32], at: usize) -> u64 {
    groups.get(at).map_or(0, |group| u64::from(*group))
}

fn subtract(a: &[u32], b: &[u32]) -> Vec<u32> {
    assert!(compare(a, b) != Ordering::Less, "the larger number comes first");
    let mut out = Vec::with_capacity(a.len());
    let mut borrow = 0;
    for at in 0..a.len() {
        let (have, need) = (group(a, at), group(b, at) + borrow);
        borrow = u64::from(have < need);
        out.push((have + borrow * BASE - need) as u32);
    }
    trim(&mut out);
    out
}

fn multiply(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut out = vec![0u32; a.len() + b.len() + 1];
    for (i, x) in a.iter().enumerate() {
        let mut carry = 0;
        for j in 0..=b.len() {
            let sum = u64::from(out[i + j]) + u64::from(*x) * group(b, j) + carry;
            out[i + j] = (sum % BASE) as u32;
            carry = sum / BASE;
        }
        assert_eq!(carry, 0, "a product has no more groups than its factors");
    }
    trim(&mut out);
    out
}

/// `groups` times ten to the power of `digits`.
fn shift_up(groups: &[u32], digits: u32) -> Vec<u32> {
    if groups.is_empty() || digits == 0 {
        return groups.to_vec();
    }
    let mut out = vec![0; (digits / GROUP) as usize];
    out.extend(multiply(groups, &[10u32.pow(digits % GROUP)]));
    out
}

/// Quotient and remainder. The divisor is not zero.
fn divide(a: &[u32], b: &[u32]) -> (Vec<u32>, Vec<u32>) {
    assert!(!b.is_empty(), "division by zero is refused before");
    if let [single] = b {
        return divide_small(a, *single);
    }
    let mut quotient = vec![0; a.len()];
    let mut rest: Vec<u32> = Vec::new();
    for at in (0..a.len()).rev() {
        rest.insert(0, a[at]);
        trim(&mut rest);
        let digit = quotient_digit(&rest, b);
        quotient[at] = digit;
        rest = subtract(&rest, &multiply(b, &[digit]));
    }
    trim(&mut quotient);
    (quotient, rest)
}

fn divide_small(a: &[u32], b: u32) -> (Vec<u32>, Vec<u32>) {
    let mut quotient = vec![0; a.len()];
    let mut rest = 0;
    for at in (0..a.len()).rev() {
        let value = rest * BASE + u64::from(a[at]);
        quotient[at] = (value / u64::from(b)) as u32;
        rest = value % u64::from(b);
    }
    trim(&mut quotient);
    let mut rest = vec![rest as u32];
    trim(&mut rest);
    (quotient, rest)
}

/// The largest digit whose product with `b` is not above `rest`, by bisection between bounds from
/// the leading groups.
fn quotient_digit(rest: &[u32], b: &[u32]) -> u32 {
    if compare(rest, b) == Ordering::Less {
        return 0;
    }
    let top = |groups: &[u32], at: usize| {
        u128::from(group(groups, at + 1)) * u128::from(BASE) + u128::from(group(groups, at))
    };
    let at = b.len() - 2;
    let have =
        top(rest, at) + u128::from(group(rest, at + 2)) * u128::from(BASE) * u128::from(BASE);
    let divisor = top(b, at);
    let (mut low, mut high) = (have / (divisor + 1), (have / divisor).min(u128::from(BASE - 1)));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if compare(&multiply(b, &[middle as u32]), rest) == Ordering::Greater {
            high = middle - 1;
        } else {
            low = middle;
        }
    }
    low as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn text_both_ways() {
        for text in ["0", "0.00", "-1.50", "123456789012345678901234567890.001", "0.0001"] {
            assert_eq!(d(text).to_string(), text);
        }
        assert_eq!(d("1e3").to_string(), "1000");
        assert_eq!(d("1.5e-3").to_string(), "0.0015");
        assert_eq!(d("-0").to_string(), "0");
        for text in ["", ".", "1.2.3", "e5", "12a", "-"] {
            assert!(Decimal::parse(text).is_none(), "{text:?}");
        }
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
            assert_eq!(d(a).divide(&d(b)).unwrap().to_string(), quotient, "{a} / {b}");
        }
        assert_eq!(d("1").divide(&d("0.0")).unwrap_err().sqlstate, "22012");
    }

    #[test]
    fn rounding_is_away_from_zero() {
        for (value, scale, rounded) in [
            ("2.5", 0, "3"),
            ("-2.5", 0, "-3"),
            ("2.345", 2, "2.35"),
            ("1234", -2, "1200"),
            ("1250", -2, "1300"),
            ("0.4", 0, "0"),
            ("1", 3, "1.000"),
        ] {
            assert_eq!(d(value).round(scale).to_string(), rounded, "{value}");
        }
        assert_eq!(d("-1.5").floor().to_string(), "-2");
        assert_eq!(d("-1.5").ceil().to_string(), "-1");
        assert_eq!(d("1.5").floor().to_string(), "1");
        assert_eq!(d("2.0").floor().to_string(), "2");
    }

    #[test]
    fn sums_and_products_agree_with_wide_integers() {
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 20) as i64 * if state & 1 == 0 { 1 } else { -1 }
        };
        for _ in 0..2_000 {
            let (a, b) = (i128::from(random()), i128::from(random()));
            let (x, y) = (Decimal::from(a), Decimal::from(b));
            assert_eq!(x.add(&y).to_string(), (a + b).to_string());
            assert_eq!(x.subtract(&y).to_string(), (a - b).to_string());
            assert_eq!(x.multiply(&y).to_string(), (a * b).to_string());
            let product = x.multiply(&y);
            assert_eq!(product.remainder(&y).unwrap().to_string(), "0");
            let again = product.multiply(&x).add(&Decimal::from(5i64)).remainder(&product);
            let expected =
                a.checked_mul(b).and_then(|p| p.checked_mul(a)).map(|p| (p + 5) % (a * b));
            if let Some(expected) = expected {
                assert_eq!(again.unwrap().to_string(), expected.to_string());
            }
        }
    }
}
