//! Roots, powers, exponentials and logarithms of `numeric`, as PostgreSQL's `numeric.c` has them.
//!
//! A result has 16 significant digits at least, as many digits behind the point as its arguments
//! show, and [`MAX_SCALE`] at most. The weight that this needs is estimated in floats, in the way
//! of PostgreSQL, so that scales are equal.
//!
//! Digits come from binary fixed-point numbers with 64 bits more than are shown: the exponential by
//! its series over an argument near zero, the logarithm by Halley's steps over it. Powers by whole
//! numbers are exact where they are short.
//!
//! Invariants: an operation is counted as work, and ends when the statement is cancelled.
//! Does not do: sums, products and quotients (`numeric`).

use num_bigint::{BigInt, Sign};
use rightlink::Decimal;

use super::numeric::{
    self, big, cut, division_by_zero, from_big, overflow, quotient, ten, to_float, to_int,
};
use crate::error::{Result, SqlError, code};

/// Significant digits that a result has at least.
const MIN_SIGNIFICANT: i64 = 16;
/// Most digits behind the point that a result is given.
const MAX_SCALE: i64 = 1_000;
/// An exponential of a number from here on is too large, and its inverse zero.
const MAX_EXPONENT: f64 = 6_000.0;
/// The decimal logarithm of e.
#[expect(clippy::approx_constant, reason = "the digits of PostgreSQL decide scales")]
const LOG10_E: f64 = 0.434294481903252;
/// The natural logarithm of ten.
#[expect(clippy::approx_constant, reason = "the digits of PostgreSQL decide scales")]
const LN_10: f64 = 2.302585092994046;
/// Digits of base 10000 in front of the point, at most.
const MAX_WEIGHT: f64 = 32_768.0;
/// Bits beyond those that a result shows.
const GUARD_BITS: i64 = 64;

/// Counts work, and fails when the statement has to end.
pub(crate) type Spend<'a> = &'a dyn Fn(usize) -> Result<()>;

fn invalid_power(message: &str) -> SqlError {
    SqlError::new(code::INVALID_POWER, message)
}

fn of_negative() -> SqlError {
    SqlError::new(code::INVALID_LOGARITHM, "cannot take logarithm of a negative number")
}

fn of_zero() -> SqlError {
    SqlError::new(code::INVALID_LOGARITHM, "cannot take logarithm of zero")
}

/// The scale of a result of a decimal weight over arguments with these scales.
fn result_scale(weight: i64, arguments: &[&Decimal]) -> u16 {
    let shown = arguments.iter().map(|one| i64::from(one.scale())).max().unwrap_or(0);
    (MIN_SIGNIFICANT - weight).max(shown).clamp(0, MAX_SCALE) as u16
}

/// The first digits of base 10000: up to `count` of them as one number, and the power of ten that
/// the last of them stands for.
struct Leading {
    digits: f64,
    power: i64,
}

impl Leading {
    fn of(number: &Decimal, count: usize) -> Leading {
        let (exponent, pairs) = (i64::from(number.exponent()), number.pairs());
        // Digits of base 10000 begin with the second pair of theirs where the exponent is even.
        let shift = (exponent.rem_euclid(2) == 0) as usize;
        let pair = |at: usize| at.checked_sub(shift).and_then(|at| pairs.get(at)).copied();
        let all = (pairs.len() + shift).div_ceil(2);
        let used = all.min(count).max(1);
        let digit = |at: usize| {
            let [high, low] = [pair(2 * at), pair(2 * at + 1)].map(|pair| pair.unwrap_or(0));
            f64::from(high) * 100.0 + f64::from(low)
        };
        let digits = (0..used).fold(0.0, |sum, at| sum * 10_000.0 + digit(at));
        Leading { digits, power: (exponent.div_euclid(2) - (used as i64 - 1)) * 4 }
    }
}

/// The decimal weight of the logarithm of a positive number.
fn weight_of_logarithm(number: &Decimal) -> Result<i64> {
    let near = |text: &str| numeric::parse(text);
    if *number >= near("0.9")? && *number <= near("1.1")? {
        let distance = numeric::subtract(number, &Decimal::from(1))?;
        if distance.is_zero() {
            return Ok(0);
        }
        let first = Leading::of(&distance, 1);
        return Ok(first.power + first.digits.log10() as i64);
    }
    let first = Leading::of(number, 2);
    let estimate = first.digits.ln() + first.power as f64 * LN_10;
    Ok(estimate.abs().log10() as i64)
}

/// The square root.
pub(crate) fn square_root(number: &Decimal) -> Result<Decimal> {
    if number.is_nan() {
        return Ok(number.clone());
    }
    if number.is_negative() {
        return Err(invalid_power("cannot take square root of a negative number"));
    }
    if !number.is_finite() {
        return Ok(number.clone());
    }
    let weight = i64::from(number.exponent().div_euclid(2));
    let weight = if number.is_zero() { 0 } else { weight };
    // The place of the first digit of base 10000, halved toward zero as in C.
    let half = if weight >= 0 { (weight + 1) * 4 / 2 - 1 } else { 1 - (1 - weight * 4) / 2 };
    let scale = result_scale(half, &[number]);
    // One more digit, which says which way the last one is rounded.
    let up = 2 * (i64::from(scale) + 1) - i64::from(number.scale());
    let whole = big(number)?;
    let whole = match u32::try_from(up) {
        Ok(up) => whole * ten(up),
        Err(_) => cut(&whole, (-up) as u32, false),
    };
    let root = BigInt::from_biguint(Sign::Plus, whole.magnitude().sqrt());
    from_big(cut(&root, 1, true), scale)
}

/// e raised to a power.
pub(crate) fn exponential(number: &Decimal, spend: Spend<'_>) -> Result<Decimal> {
    if number.is_nan() {
        return Ok(number.clone());
    }
    if !number.is_finite() {
        return Ok(if number.is_negative() { Decimal::from(0) } else { number.clone() });
    }
    let weight = (to_float(number) * LOG10_E).clamp(-2_000.0, 2_000.0);
    let scale = result_scale(weight as i64, &[number]);
    exponential_of(number, scale, spend)
}

/// e raised to a finite number, with so many digits behind the point.
fn exponential_of(number: &Decimal, scale: u16, spend: Spend<'_>) -> Result<Decimal> {
    let estimate = to_float(number);
    if estimate.abs() >= MAX_EXPONENT {
        return match estimate > 0.0 {
            true => Err(overflow()),
            false => Ok(Decimal::from(0).with_scale(scale).expect("zero has any scale")),
        };
    }
    let whole_bits = (estimate / std::f64::consts::LN_2).max(0.0) as i64 + 2;
    let bits = bits_of(i64::from(scale)) + whole_bits + GUARD_BITS;
    let result = Fixed::of(number, bits)?.exponential(spend)?;
    result.rounded(scale)
}

/// The natural logarithm.
pub(crate) fn natural_logarithm(number: &Decimal, spend: Spend<'_>) -> Result<Decimal> {
    if number.is_nan() {
        return Ok(number.clone());
    }
    if number.is_negative() {
        return Err(of_negative());
    }
    if !number.is_finite() {
        return Ok(number.clone());
    }
    if number.is_zero() {
        return Err(of_zero());
    }
    let scale = result_scale(weight_of_logarithm(number)?, &[number]);
    let bits = bits_of(i64::from(scale)) + GUARD_BITS;
    logarithm_of(number, bits, spend)?.rounded(scale)
}

/// The logarithm to a base.
pub(crate) fn logarithm(base: &Decimal, number: &Decimal, spend: Spend<'_>) -> Result<Decimal> {
    if base.is_nan() || number.is_nan() {
        return Ok(Decimal::nan());
    }
    if !base.is_finite() || !number.is_finite() {
        return logarithm_of_infinity(base, number);
    }
    for one in [base, number] {
        if one.is_negative() {
            return Err(of_negative());
        }
        if one.is_zero() {
            return Err(of_zero());
        }
    }
    let below = weight_of_logarithm(base)?;
    let weight = weight_of_logarithm(number)? - below;
    let scale = result_scale(weight, &[base, number]);
    if *base == Decimal::from(1) {
        return Err(division_by_zero());
    }
    // Relative to the logarithm of the base as many digits as the result has in all.
    let digits = i64::from(scale) + weight.max(0) - below.min(0) * 2;
    let bits = bits_of(digits) + GUARD_BITS;
    let above = logarithm_of(number, bits, spend)?;
    let below = logarithm_of(base, bits, spend)?;
    let shown = above.value * ten(u32::from(scale));
    from_big(quotient(&shown, &below.value, true), scale)
}

/// The logarithm where the base or the number is infinite.
fn logarithm_of_infinity(base: &Decimal, number: &Decimal) -> Result<Decimal> {
    if base.is_negative() || number.is_negative() {
        return Err(of_negative());
    }
    if base.is_zero() || number.is_zero() {
        return Err(of_zero());
    }
    Ok(match (base.is_finite(), number.is_finite()) {
        (false, false) => Decimal::nan(),
        (false, true) => Decimal::from(0),
        (true, _) => Decimal::infinity(false),
    })
}

/// A number raised to a power.
pub(crate) fn power(base: &Decimal, exponent: &Decimal, spend: Spend<'_>) -> Result<Decimal> {
    let one = Decimal::from(1);
    if base.is_nan() || exponent.is_nan() {
        let is_one = exponent.is_zero() || *base == one;
        return Ok(if is_one { one } else { Decimal::nan() });
    }
    if base.is_zero() && exponent.is_negative() {
        return Err(invalid_power("zero raised to a negative power is undefined"));
    }
    let is_whole = !exponent.is_finite() || is_integral(exponent)?;
    if base.is_negative() && !is_whole {
        return Err(invalid_power(
            "a negative number raised to a non-integer power yields a complex result",
        ));
    }
    if !base.is_finite() || !exponent.is_finite() {
        return power_of_infinity(base, exponent);
    }
    match to_int(exponent).and_then(|whole| i32::try_from(whole).ok()).filter(|_| is_whole) {
        Some(whole) => whole_power(base, whole, exponent, spend),
        None => real_power(base, exponent, spend),
    }
}

fn is_integral(number: &Decimal) -> Result<bool> {
    Ok(numeric::truncate(number, 0)? == *number)
}

fn is_odd(number: &Decimal) -> Result<bool> {
    Ok(is_integral(number)? && big(&numeric::truncate(number, 0)?)?.bit(0))
}

/// The rules of POSIX for powers of infinities and by them.
fn power_of_infinity(base: &Decimal, exponent: &Decimal) -> Result<Decimal> {
    let (zero, one) = (Decimal::from(0), Decimal::from(1));
    if *base == one || exponent.is_zero() {
        return Ok(one);
    }
    if base.is_zero() {
        return Ok(zero);
    }
    let grows = !exponent.is_negative();
    if !exponent.is_finite() {
        let size = numeric::abs(base);
        if size == one {
            return Ok(one);
        }
        let is_large = !size.is_finite() || size > one;
        return Ok(if is_large == grows { Decimal::infinity(false) } else { zero });
    }
    match grows {
        false => Ok(zero),
        true => Ok(Decimal::infinity(base.is_negative() && is_odd(exponent)?)),
    }
}

/// A number raised to a whole power.
fn whole_power(
    base: &Decimal,
    power: i32,
    exponent: &Decimal,
    spend: Spend<'_>,
) -> Result<Decimal> {
    let weight = match base.is_zero() {
        true => 0.0,
        false => {
            let first = Leading::of(base, 4);
            f64::from(power) * (first.digits.log10() + first.power as f64)
        }
    };
    if weight > MAX_WEIGHT * 4.0 {
        return Err(overflow());
    }
    // PostgreSQL 15 estimates no weight for the scale of a whole power.
    let scale = result_scale(0, &[base, exponent]);
    let zero = |scale| Decimal::from(0).with_scale(scale).expect("zero has any scale");
    if weight + 1.0 < -f64::from(scale) {
        return Ok(zero(scale));
    }
    if base.is_zero() && power != 0 {
        return Ok(zero(scale));
    }
    if power == 1 {
        return numeric::round(base, i32::from(scale));
    }
    let times = power.unsigned_abs();
    // The digits without zeros at the end, and the power of ten that the last one stands for.
    let (mut digits, mut tens) = (big(base)?, -i64::from(base.scale()));
    let text = base.to_string();
    let zeros = text.len() - text.trim_end_matches('0').len();
    let behind = zeros.min(usize::from(base.scale())) as u32;
    if behind > 0 {
        (digits, tens) = (cut(&digits, behind, false), tens + i64::from(behind));
    }
    let wanted = i64::from(scale) + weight as i64 + 1;
    let wanted_bits = bits_of(wanted.max(0)) + GUARD_BITS + 32;
    let exact_bits = i64::from(times).saturating_mul(digits.bits() as i64);
    let raised = match exact_bits <= wanted_bits || times <= 2 {
        true => {
            spend((exact_bits / 8) as usize)?;
            Scaled { value: digits.pow(times), twos: 0 }
        }
        false => {
            let one = Scaled::of(digits, tens, wanted_bits);
            tens = 0;
            one.raised(times, wanted_bits as u64, spend)?
        }
    };
    raised.shown(tens * i64::from(times), power < 0, scale)
}

/// A number raised to a power that is not whole, or too large for a count.
fn real_power(base: &Decimal, exponent: &Decimal, spend: Spend<'_>) -> Result<Decimal> {
    if base.is_zero() {
        return Ok(Decimal::from(0).with_scale(MIN_SIGNIFICANT as u16).expect("zero"));
    }
    let is_below_zero = base.is_negative() && is_odd(exponent)?;
    let base = numeric::abs(base);
    let weight_of_ln = weight_of_logarithm(&base)?;
    let rough_bits = bits_of((8 - weight_of_ln).max(0)) + GUARD_BITS;
    let rough = logarithm_of(&base, rough_bits, spend)?.to_float() * to_float(exponent);
    if rough.abs() > MAX_EXPONENT / 3.0 * 3.01 {
        return match rough > 0.0 {
            true => Err(overflow()),
            false => Ok(Decimal::from(0).with_scale(MAX_SCALE as u16).expect("zero")),
        };
    }
    let weight = (rough * LOG10_E) as i64;
    let scale = result_scale(weight, &[&base, exponent]);
    // The exponent times the error of the logarithm must not show in the result.
    let size = (2 * (i64::from(exponent.exponent()) + 1)).max(0);
    let digits = i64::from(scale) + weight.max(0) + size;
    let bits = bits_of(digits) + GUARD_BITS;
    let ln = logarithm_of(&base, bits, spend)?;
    let product = Fixed { value: ln.value * big(exponent)?, bits };
    let product = Fixed { value: cut(&product.value, exponent.scale().into(), true), bits };
    let estimate = product.to_float();
    if estimate.abs() >= MAX_EXPONENT {
        return match estimate > 0.0 {
            true => Err(overflow()),
            false => Ok(Decimal::from(0).with_scale(scale).expect("zero has any scale")),
        };
    }
    let result = product.exponential(spend)?.rounded(scale)?;
    Ok(if is_below_zero { numeric::negate(&result) } else { result })
}

/// Bits that so many decimal digits take.
fn bits_of(digits: i64) -> i64 {
    digits * 3_322 / 1_000 + 2
}

/// The natural logarithm of a positive number, with so many bits behind the point.
fn logarithm_of(number: &Decimal, bits: i64, spend: Spend<'_>) -> Result<Fixed> {
    // The number is `near` times a power of two, `near` being about one.
    let first = Leading::of(number, 4);
    let log2 = first.digits.log2() + first.power as f64 * std::f64::consts::LOG2_10;
    let twos = log2.round() as i64;
    let whole = big(number)?;
    let below = ten(u32::from(number.scale()));
    let shift = bits - twos;
    let near = match shift >= 0 {
        true => quotient(&(whole << shift), &below, true),
        false => quotient(&whole, &(below << -shift), true),
    };
    let near = Fixed { value: near, bits };
    let mut sum = near.logarithm(spend)?;
    if twos != 0 {
        sum.value += Fixed::ln_2(bits, spend)?.value * twos;
    }
    Ok(sum)
}

/// A whole number times a power of two.
struct Scaled {
    value: BigInt,
    twos: i64,
}

impl Scaled {
    /// Of digits times a power of ten, with so many bits that count.
    fn of(digits: BigInt, tens: i64, bits: i64) -> Scaled {
        let power = ten(tens.unsigned_abs() as u32);
        if tens >= 0 {
            return Scaled { value: digits * power, twos: 0 };
        }
        let shift = bits + power.bits() as i64;
        Scaled { value: (digits << shift) / power, twos: -shift }
    }

    /// Raised to a power, with so many bits that count.
    fn raised(self, times: u32, bits: u64, spend: Spend<'_>) -> Result<Scaled> {
        let mut result = Scaled { value: BigInt::from(1), twos: 0 };
        let mut square = self.short(bits);
        let mut left = times;
        loop {
            spend((bits / 8) as usize)?;
            if left & 1 == 1 {
                result = result.times(&square).short(bits);
            }
            left >>= 1;
            if left == 0 {
                return Ok(result);
            }
            square = square.times(&square).short(bits);
        }
    }

    fn times(&self, other: &Scaled) -> Scaled {
        Scaled { value: &self.value * &other.value, twos: self.twos + other.twos }
    }

    /// Without the bits that do not count.
    fn short(self, bits: u64) -> Scaled {
        let surplus = self.value.bits().saturating_sub(bits);
        Scaled { value: self.value >> surplus, twos: self.twos + surplus as i64 }
    }

    /// The decimal, or its inverse, of this number times a power of ten.
    fn shown(self, tens: i64, inverts: bool, scale: u16) -> Result<Decimal> {
        let (mut above, mut below) = (self.value, BigInt::from(1));
        let move_tens = |tens: i64, above: &mut BigInt, below: &mut BigInt| {
            let power = ten(tens.unsigned_abs().min(u64::from(u32::MAX)) as u32);
            if tens >= 0 { *above *= power } else { *below *= power }
        };
        if self.twos >= 0 {
            above <<= self.twos
        } else {
            below <<= -self.twos
        }
        let up = i64::from(scale);
        if inverts {
            std::mem::swap(&mut above, &mut below);
            move_tens(up - tens, &mut above, &mut below);
        } else {
            move_tens(up + tens, &mut above, &mut below);
        }
        from_big(quotient(&above, &below, true), scale)
    }
}

/// A number with so many bits behind the point.
struct Fixed {
    value: BigInt,
    bits: i64,
}

impl Fixed {
    fn of(number: &Decimal, bits: i64) -> Result<Fixed> {
        let value = quotient(&(big(number)? << bits), &ten(u32::from(number.scale())), true);
        Ok(Fixed { value, bits })
    }

    fn one(bits: i64) -> BigInt {
        BigInt::from(1) << bits
    }

    /// The decimal with so many digits behind the point, the last one rounded.
    fn rounded(self, scale: u16) -> Result<Decimal> {
        let shown = self.value * ten(u32::from(scale));
        from_big(quotient(&shown, &Fixed::one(self.bits), true), scale)
    }

    fn to_float(&self) -> f64 {
        /// Bits that a float has, and some more.
        const KEPT: u64 = 64;
        let surplus = self.value.bits().saturating_sub(KEPT);
        let head: BigInt = &self.value >> surplus;
        let head = i128::try_from(head).unwrap_or(0) as f64;
        head * 2f64.powi((surplus as i64 - self.bits).clamp(-2_000, 2_000) as i32)
    }

    /// With other bits behind the point.
    fn with_bits(&self, bits: i64) -> BigInt {
        match bits >= self.bits {
            true => &self.value << (bits - self.bits),
            false => &self.value >> (self.bits - bits),
        }
    }

    /// Counts the multiplication of two such numbers.
    fn spend(bits: i64, spend: Spend<'_>) -> Result<()> {
        let limbs = bits.unsigned_abs() as usize / 64 + 1;
        spend(limbs * limbs / 16 + limbs)
    }

    /// The natural logarithm of two, by the series of the inverse hyperbolic tangent of a third.
    fn ln_2(bits: i64, spend: Spend<'_>) -> Result<Fixed> {
        let inner = bits + GUARD_BITS;
        let mut power: BigInt = (BigInt::from(2) << inner) / 3;
        let (mut sum, mut odd) = (BigInt::ZERO, 1u32);
        while power.sign() != Sign::NoSign {
            sum += &power / odd;
            power /= 9;
            odd += 2;
            spend(inner as usize / 64)?;
        }
        Ok(Fixed { value: sum >> GUARD_BITS, bits })
    }

    /// e raised to it. The result has an error of a few bits relative to itself.
    fn exponential(&self, spend: Spend<'_>) -> Result<Fixed> {
        let estimate = self.to_float() / std::f64::consts::LN_2;
        let twos = estimate.round() as i64;
        // Halvings before the series, each of which a squaring undoes.
        let halvings = (self.bits as f64).sqrt() as i64 / 2 + 1;
        let inner = self.bits + halvings + 32;
        let mut rest = self.with_bits(inner);
        if twos != 0 {
            let bits = inner + 64 - i64::from(twos.unsigned_abs().leading_zeros());
            let ln_2 = Fixed::ln_2(bits, spend)?.value * twos;
            rest -= ln_2 >> (bits - inner);
        }
        rest >>= halvings;
        let mut sum = Fixed::one(inner) + &rest;
        let (mut term, mut count) = (rest.clone(), 2u32);
        while term.sign() != Sign::NoSign && term.bits() > 1 {
            Fixed::spend(inner, spend)?;
            term = ((term * &rest) >> inner) / count;
            sum += &term;
            count += 1;
        }
        for _ in 0..halvings {
            Fixed::spend(inner, spend)?;
            sum = (&sum * &sum) >> inner;
        }
        let down = inner - self.bits - twos;
        let value = if down >= 0 { sum >> down } else { sum << -down };
        Ok(Fixed { value, bits: self.bits })
    }

    /// The natural logarithm of a number about one.
    fn logarithm(&self, spend: Spend<'_>) -> Result<Fixed> {
        /// Bits of the first guess that hold for sure.
        const GUESSED: i64 = 45;
        let mut precisions = vec![self.bits + 16];
        while let Some(last) = precisions.last().filter(|last| **last > GUESSED) {
            precisions.push(last / 3 + 8);
            if precisions[precisions.len() - 1] <= GUESSED || precisions.len() > 64 {
                break;
            }
        }
        let guess = self.to_float().ln();
        let mut result = Fixed { value: BigInt::from((guess * 2f64.powi(60)) as i64), bits: 60 };
        for bits in precisions.into_iter().rev() {
            // Halley's step, which has three times as many bits right.
            let bits = bits + 16;
            let guess = Fixed { value: result.with_bits(bits), bits };
            let power = guess.exponential(spend)?.value;
            let number = self.with_bits(bits);
            let (apart, sum) = (&number - &power, number + power);
            Fixed::spend(bits, spend)?;
            result = Fixed { value: guess.value + (apart << (bits + 1)) / sum, bits };
        }
        Ok(Fixed { value: result.with_bits(self.bits), bits: self.bits })
    }
}
