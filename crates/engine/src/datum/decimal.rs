//! Exact decimal numbers of any length, with the number of digits after the point that they are
//! shown with, as PostgreSQL's `numeric`.
//!
//! A value is kept as the bytes that it has in a row:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | kind: 0 -Infinity, 1 negative, 2 zero, 3 positive, 4 Infinity, 5 NaN |
//! | 2 | scale: digits shown after the point, little-endian; of finite values only |
//! | 4 | exponent, little-endian: the first pair of digits counts 100^exponent; not of zero |
//! | rest | pairs of decimal digits, 0 to 99 each; neither the first nor the last is 0 |
//!
//! Invariants: the bytes are in this form whatever they came from; no digit lies beyond the scale.
//! Order and equality are those of numbers: 1.0 equals 1.00; NaN equals NaN and is the largest.
//! Does not do: arithmetic, which is built on [`Decimal::unscaled`] and [`Decimal::pairs`]; a
//! precision that a column may ask for.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// An exact decimal number, an infinity, or NaN.
///
/// ```
/// use rightlink::Decimal;
///
/// let price: Decimal = "12.50".parse().unwrap();
/// assert_eq!(price, Decimal::from_unscaled(125, 1).unwrap());
/// assert_eq!(price.to_string(), "12.50");
/// assert_eq!(price.unscaled(), Some((1250, 2)));
/// ```
#[derive(Clone)]
pub struct Decimal(Box<[u8]>);

const MINUS_INFINITY: u8 = 0;
const NEGATIVE: u8 = 1;
const ZERO: u8 = 2;
const POSITIVE: u8 = 3;
const INFINITY: u8 = 4;
const NAN: u8 = 5;
const SCALE_AT: usize = 1;
const EXPONENT_AT: usize = 3;
const PAIRS_AT: usize = 7;
/// Largest exponent of ten that text may name, as in PostgreSQL.
const MAX_TEN: i64 = i32::MAX as i64 / 2;
/// Pairs of digits that 128 bits and a scale need at most.
const MAX_UNSCALED_PAIRS: usize = 20;

/// Why text is no decimal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecimalError {
    /// It does not have the form of one.
    Syntax,
    /// It has more digits than there may be, before the point or behind it.
    OutOfRange,
}

impl Decimal {
    /// Most digits after the point, as in PostgreSQL.
    pub const MAX_SCALE: u16 = 16_383;
    /// Most digits in front of the point, as in PostgreSQL.
    pub const MAX_WHOLE_DIGITS: usize = 131_072;

    /// Not a number; equal to itself and larger than all others.
    pub fn nan() -> Decimal {
        Decimal([NAN].into())
    }

    /// Larger than every number, or smaller.
    pub fn infinity(negative: bool) -> Decimal {
        Decimal([if negative { MINUS_INFINITY } else { INFINITY }].into())
    }

    /// `unscaled` / 10^`scale`, shown with `scale` digits after the point. None if `scale` is above
    /// [`Decimal::MAX_SCALE`].
    pub fn from_unscaled(unscaled: i128, scale: u16) -> Option<Decimal> {
        if scale > Self::MAX_SCALE {
            return None;
        }
        let mut pairs = [0; MAX_UNSCALED_PAIRS];
        let mut at = MAX_UNSCALED_PAIRS;
        let mut rest = unscaled.unsigned_abs();
        // Pairs end at the point, so a last digit of an odd scale is one of tens.
        if scale % 2 == 1 {
            at -= 1;
            pairs[at] = (rest % 10) as u8 * 10;
            rest /= 10;
        }
        // Division in 128 bits is slow.
        while rest > u128::from(u64::MAX) {
            at -= 1;
            pairs[at] = (rest % 100) as u8;
            rest /= 100;
        }
        let mut rest = rest as u64;
        while rest > 0 {
            at -= 1;
            pairs[at] = (rest % 100) as u8;
            rest /= 100;
        }
        let exponent = (MAX_UNSCALED_PAIRS - at) as i32 - 1 - i32::from(scale.div_ceil(2));
        Self::from_pairs(unscaled < 0, exponent, &pairs[at..], scale)
    }

    /// The number times 10^scale, and the scale; none if that is beyond 128 bits or no number.
    pub fn unscaled(&self) -> Option<(i128, u16)> {
        Stored(&self.0).unscaled()
    }

    /// [`Decimal::unscaled`] of the number that `bytes` are; none if they are none.
    pub(crate) fn unscaled_of(bytes: &[u8]) -> Option<(i128, u16)> {
        Stored(bytes).is_sound().then(|| Stored(bytes).unscaled())?
    }

    /// The number of which the first of the `pairs` of digits, 0 to 99 each, counts
    /// 100^`exponent`, shown with `scale` digits after the point. None beyond the limits, or if a
    /// digit lies beyond the scale.
    pub fn from_pairs(negative: bool, exponent: i32, pairs: &[u8], scale: u16) -> Option<Decimal> {
        if scale > Self::MAX_SCALE {
            return None;
        }
        let zeros = pairs.iter().take_while(|pair| **pair == 0).count();
        let end = pairs.iter().rposition(|pair| *pair != 0).map_or(zeros, |last| last + 1);
        let exponent = exponent.checked_sub(i32::try_from(zeros).ok()?)?;
        let pairs = &pairs[zeros..end];
        if pairs.is_empty() {
            return Some(Self::build(ZERO, scale, None, &[]));
        }
        let kind = if negative { NEGATIVE } else { POSITIVE };
        let number = Self::assemble(kind, scale, Some(exponent), pairs);
        Stored(&number.0).pairs_are_sound().then_some(number)
    }

    /// Pairs of decimal digits, 0 to 99 each, without zeros at the ends; none of zero, and of what
    /// is not finite.
    pub fn pairs(&self) -> &[u8] {
        Stored(&self.0).pairs()
    }

    /// The first pair of digits counts 100^exponent; 0 of zero, and of what is not finite.
    pub fn exponent(&self) -> i32 {
        Stored(&self.0).exponent()
    }

    /// True if it is zero.
    pub fn is_zero(&self) -> bool {
        self.kind() == ZERO
    }

    /// The same size with this sign; zero and NaN have none.
    pub fn with_sign(&self, negative: bool) -> Decimal {
        let mut bytes = self.0.clone();
        bytes[0] = match (self.kind(), negative) {
            (NEGATIVE | POSITIVE, true) => NEGATIVE,
            (NEGATIVE | POSITIVE, false) => POSITIVE,
            (INFINITY | MINUS_INFINITY, true) => MINUS_INFINITY,
            (INFINITY | MINUS_INFINITY, false) => INFINITY,
            (other, _) => other,
        };
        Decimal(bytes)
    }

    /// The same number shown with `scale` digits after the point. None beyond the limit, or if a
    /// digit lies beyond the scale.
    pub fn with_scale(&self, scale: u16) -> Option<Decimal> {
        Self::from_pairs(self.is_negative(), self.exponent(), self.pairs(), scale)
            .filter(|_| self.is_finite())
    }

    /// Digits shown after the point; 0 unless finite.
    pub fn scale(&self) -> u16 {
        Stored(&self.0).scale()
    }

    /// True if it is neither infinite nor NaN.
    pub fn is_finite(&self) -> bool {
        matches!(self.kind(), NEGATIVE | ZERO | POSITIVE)
    }

    /// True if it is NaN.
    pub fn is_nan(&self) -> bool {
        self.kind() == NAN
    }

    /// True if it is below zero, minus infinity included.
    pub fn is_negative(&self) -> bool {
        self.kind() < ZERO
    }

    /// The bytes of the format.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The value of bytes that are in the format; none for others.
    pub fn from_bytes(bytes: &[u8]) -> Option<Decimal> {
        Stored(bytes).is_sound().then(|| Decimal(bytes.into()))
    }

    pub(crate) fn kind(&self) -> u8 {
        self.0[0]
    }

    /// ASCII `digits` with the point in front of position `point`. None beyond the limits.
    fn of_digits(negative: bool, digits: &[u8], point: i64, scale: i64) -> Option<Decimal> {
        let scale = u16::try_from(scale).ok().filter(|scale| *scale <= Self::MAX_SCALE)?;
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        let end = digits.iter().rposition(|digit| *digit != b'0').map_or(zeros, |last| last + 1);
        let (digits, point) = (&digits[zeros..end], point - zeros as i64);
        if digits.is_empty() {
            return Some(Self::build(ZERO, scale, None, &[]));
        }
        if point > Self::MAX_WHOLE_DIGITS as i64 {
            return None;
        }
        // Pairs end at the point: an odd number of digits in front of it gets a zero.
        let odd = point.rem_euclid(2) as usize;
        let padded: Vec<u8> =
            std::iter::repeat_n(b'0', odd).chain(digits.iter().copied()).collect();
        let value = |digit: &u8| digit - b'0';
        let pair = |two: &[u8]| value(&two[0]) * 10 + two.get(1).map_or(0, value);
        let pairs: Vec<u8> = padded.chunks(2).map(pair).collect();
        let exponent = (point + odd as i64) / 2 - 1;
        let exponent = i32::try_from(exponent).expect("limits of text are far below");
        let kind = if negative { NEGATIVE } else { POSITIVE };
        Some(Self::build(kind, scale, Some(exponent), &pairs))
    }

    fn build(kind: u8, scale: u16, exponent: Option<i32>, pairs: &[u8]) -> Decimal {
        let decimal = Self::assemble(kind, scale, exponent, pairs);
        debug_assert!(Decimal::from_bytes(&decimal.0).is_some(), "{:?}", decimal.0);
        decimal
    }

    fn assemble(kind: u8, scale: u16, exponent: Option<i32>, pairs: &[u8]) -> Decimal {
        let mut bytes = Vec::with_capacity(PAIRS_AT + pairs.len());
        bytes.push(kind);
        bytes.extend_from_slice(&scale.to_le_bytes());
        if let Some(exponent) = exponent {
            bytes.extend_from_slice(&exponent.to_le_bytes());
            bytes.extend_from_slice(pairs);
        }
        Decimal(bytes.into())
    }

    /// The decimal of a kind, an exponent and pairs, shown with as many digits as it needs. `None`
    /// if there is none.
    pub(crate) fn from_key_parts(kind: u8, exponent: i32, pairs: &[u8]) -> Option<Decimal> {
        let mut bytes = vec![kind];
        if matches!(kind, NEGATIVE | ZERO | POSITIVE) {
            bytes.extend_from_slice(&[0, 0]);
        }
        if matches!(kind, NEGATIVE | POSITIVE) {
            bytes.extend_from_slice(&exponent.to_le_bytes());
            bytes.extend_from_slice(pairs);
            let scale = Stored(&bytes).fraction_digits();
            let scale = u16::try_from(scale).ok()?;
            bytes[SCALE_AT..EXPONENT_AT].copy_from_slice(&scale.to_le_bytes());
        }
        Self::from_bytes(&bytes)
    }
}

/// Bytes that are a number, or may be one.
#[derive(Clone, Copy)]
struct Stored<'b>(&'b [u8]);

impl<'b> Stored<'b> {
    fn pairs(self) -> &'b [u8] {
        self.0.get(PAIRS_AT..).unwrap_or(&[])
    }

    fn exponent(self) -> i32 {
        let bytes = self.0.get(EXPONENT_AT..PAIRS_AT);
        bytes.map_or(0, |bytes| i32::from_le_bytes(bytes.try_into().expect("four bytes")))
    }

    fn scale(self) -> u16 {
        let bytes = self.0.get(SCALE_AT..EXPONENT_AT);
        bytes.map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// Are they in the format?
    fn is_sound(self) -> bool {
        match self.0.first() {
            Some(&(MINUS_INFINITY | INFINITY | NAN)) => self.0.len() == 1,
            Some(&ZERO) => self.0.len() == EXPONENT_AT && self.scale() <= Decimal::MAX_SCALE,
            Some(&(NEGATIVE | POSITIVE)) => self.0.len() > PAIRS_AT && self.pairs_are_sound(),
            _ => false,
        }
    }

    fn pairs_are_sound(self) -> bool {
        let pairs = self.pairs();
        let ends = !matches!(pairs.first(), None | Some(0)) && pairs.last() != Some(&0);
        let (top, scale) = (i64::from(self.exponent()), i64::from(self.scale()));
        let within =
            top < Decimal::MAX_WHOLE_DIGITS as i64 / 2 && scale <= Decimal::MAX_SCALE.into();
        ends && within && pairs.iter().all(|pair| *pair < 100) && self.fraction_digits() <= scale
    }

    /// Digits after the point that are not all zeros from there on.
    fn fraction_digits(self) -> i64 {
        let last = i64::from(self.exponent()) - (self.pairs().len() as i64 - 1);
        let half = i64::from(self.pairs().last().is_some_and(|pair| pair % 10 == 0));
        (-2 * last - half).max(0)
    }

    fn unscaled(self) -> Option<(i128, u16)> {
        if !matches!(self.0[0], NEGATIVE | ZERO | POSITIVE) {
            return None;
        }
        let (scale, pairs) = (self.scale(), self.pairs());
        if pairs.is_empty() {
            return Some((0, scale));
        }
        // Power of ten of the last pair, against that of the last digit that is shown.
        let last = 2 * (self.exponent() - (pairs.len() as i32 - 1)) + i32::from(scale);
        // The last pair may end in a zero that is not shown.
        let half = usize::from(last < 0);
        let (pairs, end) = pairs.split_at(pairs.len() - half);
        // Nine pairs fit into 64 bits.
        let (head, tail) = pairs.split_at(pairs.len().min(9));
        let head = head.iter().fold(0u64, |sum, pair| sum * 100 + u64::from(*pair));
        let whole = tail.iter().try_fold(i128::from(head), |sum, pair| {
            sum.checked_mul(100)?.checked_add(i128::from(*pair))
        })?;
        let whole = match (end, u32::try_from(last)) {
            (_, Ok(0)) => whole,
            (_, Ok(up)) => whole.checked_mul(10i128.checked_pow(up)?)?,
            ([pair], _) => whole.checked_mul(10)?.checked_add(i128::from(pair / 10))?,
            _ => unreachable!("no digit lies beyond the scale"),
        };
        Some((if self.0[0] == NEGATIVE { -whole } else { whole }, scale))
    }
}

impl std::str::FromStr for Decimal {
    type Err = DecimalError;

    /// Reads `[sign] digits [. digits] [e exponent]`, `NaN` or `Infinity`.
    fn from_str(text: &str) -> Result<Decimal, DecimalError> {
        if text.bytes().any(|byte| matches!(byte, b'n' | b'N')) {
            return match text.to_ascii_lowercase().as_str() {
                "nan" => Ok(Decimal::nan()),
                "infinity" | "+infinity" | "inf" | "+inf" => Ok(Decimal::infinity(false)),
                "-infinity" | "-inf" => Ok(Decimal::infinity(true)),
                _ => Err(DecimalError::Syntax),
            };
        }
        parse_number(text)
    }
}

fn parse_number(text: &str) -> Result<Decimal, DecimalError> {
    let negative = text.starts_with('-');
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, ten) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, "0"),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole.as_bytes(), fraction.as_bytes()].concat();
    let is_number = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let unsigned = ten.strip_prefix(['-', '+']).unwrap_or(ten);
    if !is_number(&digits) || !is_number(unsigned.as_bytes()) {
        return Err(DecimalError::Syntax);
    }
    let ten = ten.parse::<i64>().ok().filter(|ten| ten.abs() < MAX_TEN);
    let ten = ten.ok_or(DecimalError::OutOfRange)?;
    let (point, scale) = (whole.len() as i64 + ten, (fraction.len() as i64 - ten).max(0));
    Decimal::of_digits(negative, &digits, point, scale).ok_or(DecimalError::OutOfRange)
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            NAN => return f.write_str("NaN"),
            INFINITY => return f.write_str("Infinity"),
            MINUS_INFINITY => return f.write_str("-Infinity"),
            _ => {}
        }
        let exponent = self.exponent();
        let pair_of = |place: i32| {
            let at = usize::try_from(exponent - place).ok();
            at.and_then(|at| self.pairs().get(at)).copied().unwrap_or(0)
        };
        let scale = usize::from(self.scale());
        let mut out = String::with_capacity(8 + 2 * self.pairs().len() + scale);
        out.push_str(if self.kind() == NEGATIVE { "-" } else { "" });
        let push = |out: &mut String, pair: u8, leading: bool| {
            if !leading || pair >= 10 {
                out.push(char::from(b'0' + pair / 10));
            }
            out.push(char::from(b'0' + pair % 10));
        };
        push(&mut out, pair_of(exponent.max(0)), true);
        (0..exponent).rev().for_each(|place| push(&mut out, pair_of(place), false));
        if scale > 0 {
            out.push('.');
            let end = out.len() + scale;
            (1..=scale.div_ceil(2) as i32).for_each(|place| push(&mut out, pair_of(-place), false));
            out.truncate(end);
        }
        f.write_str(&out)
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let larger = || (self.exponent(), self.pairs()).cmp(&(other.exponent(), other.pairs()));
        let negative = self.kind() == NEGATIVE;
        let by_kind = self.kind().cmp(&other.kind());
        by_kind.then_with(|| if negative { larger().reverse() } else { larger() })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Decimal {}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.kind(), self.exponent(), self.pairs()).hash(state);
    }
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Decimal {
        Decimal::from_unscaled(i128::from(number), 0).expect("the scale is 0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn numbers_print_with_the_scale_they_came_with() {
        for (text, shown) in [
            ("0", "0"),
            ("-0.00", "0.00"),
            ("007.50", "7.50"),
            (".5", "0.5"),
            ("5.", "5"),
            ("-12345.678900", "-12345.678900"),
            ("1e3", "1000"),
            ("1.5e-3", "0.0015"),
            ("12.5E+1", "125"),
            ("1e-20", "0.00000000000000000001"),
            (
                "100000000000000000000000000000000000000001",
                "100000000000000000000000000000000000000001",
            ),
            ("nan", "NaN"),
            ("-INF", "-Infinity"),
        ] {
            assert_eq!(of(text).to_string(), shown, "{text}");
        }
        for text in ["", "-", ".", "1.2.3", "1e", "1e+", "1e1.5", "0x1", "1_000", "--1", "٣", "n"]
        {
            assert_eq!(text.parse::<Decimal>(), Err(DecimalError::Syntax), "{text}");
        }
        for text in ["1e999999", "1e-16384", "0e-20000", "1e99999999999", "-1e-99999999999"] {
            assert_eq!(text.parse::<Decimal>(), Err(DecimalError::OutOfRange), "{text}");
        }
        assert_eq!(of("0e999999").to_string(), "0");
    }

    #[test]
    fn limits_are_those_of_postgresql() {
        let nines = |count: usize| "9".repeat(count);
        for (digits, fits) in
            [(Decimal::MAX_WHOLE_DIGITS - 1, true), (Decimal::MAX_WHOLE_DIGITS, true)]
        {
            assert_eq!(nines(digits).parse::<Decimal>().is_ok(), fits);
        }
        assert!(nines(Decimal::MAX_WHOLE_DIGITS + 1).parse::<Decimal>().is_err());
        let scale = usize::from(Decimal::MAX_SCALE);
        for (digits, fits) in [(scale - 1, true), (scale, true), (scale + 1, false)] {
            let text = format!("0.{}", nines(digits));
            assert_eq!(text.parse::<Decimal>().map(|d| d.to_string() == text).is_ok(), fits);
        }
        assert!(Decimal::from_unscaled(1, Decimal::MAX_SCALE).is_some());
        assert!(Decimal::from_unscaled(1, Decimal::MAX_SCALE + 1).is_none());
    }

    #[test]
    fn order_and_equality_are_those_of_numbers() {
        let ordered =
            ["-Infinity", "-100", "-99.9", "-1", "-0.99", "-0.001", "0", "0.0009", "0.01"]
                .into_iter()
                .chain(["0.1", "1", "1.01", "9", "10", "99", "100", "100.5", "Infinity", "NaN"]);
        let ordered: Vec<Decimal> = ordered.map(of).collect();
        assert!(ordered.is_sorted_by(|a, b| a < b), "{ordered:?}");
        assert_eq!(of("1.0"), of("1.000"));
        assert_eq!(of("-0"), of("0.0"));
        assert_eq!(Decimal::from(-15), of("-15.00"));
    }

    #[test]
    fn unscaled_numbers_go_both_ways() {
        for (unscaled, scale) in [(0, 3), (-1, 0), (12_345, 2), (5, 7), (i128::MAX, 5), (100, 2)] {
            let decimal = Decimal::from_unscaled(unscaled, scale).unwrap();
            assert_eq!(decimal.unscaled(), Some((unscaled, scale)), "{decimal}");
        }
        assert_eq!(of("12.50").with_scale(1).unwrap().to_string(), "12.5");
        assert_eq!(of("12.50").with_scale(3).unwrap().to_string(), "12.500");
        assert_eq!(of("12.50").with_scale(0), None);
        assert_eq!(of("0.00").with_scale(0).unwrap().to_string(), "0");
        assert_eq!(of("12.50").with_sign(true), of("-12.5"));
        assert_eq!(of("NaN").unscaled(), None);
        assert_eq!(of(&"9".repeat(60)).unscaled(), None);
    }

    #[test]
    fn bytes_that_are_no_number_are_refused() {
        let sound = of("-12.50");
        assert_eq!(Decimal::from_bytes(sound.as_bytes()), Some(sound.clone()));
        let bytes = sound.as_bytes().to_vec();
        let change = |at: usize, to: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = to;
            bytes
        };
        let bad = [
            change(0, 9),
            change(0, ZERO),
            change(SCALE_AT, 0),
            change(SCALE_AT + 1, 0xFF),
            change(PAIRS_AT, 0),
            change(PAIRS_AT, 100),
            change(PAIRS_AT + 1, 0),
            change(EXPONENT_AT + 3, 0x7F),
            change(EXPONENT_AT + 3, 0x80),
            bytes[..PAIRS_AT].to_vec(),
            Vec::new(),
            vec![NAN, 0],
        ];
        for bytes in bad {
            assert_eq!(Decimal::from_bytes(&bytes), None, "{bytes:?}");
        }
    }
}
