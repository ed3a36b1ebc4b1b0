//! Functions over numbers.
//!
//! Invariants: exact over integers and numeric, whose roots, powers and logarithms are rounded to
//! the scale of their results.
//! Does not do: operators.

use crate::error::{Result, SqlError, code};
use crate::expr::function::{Eval, Registry};
use crate::expr::operators::{mismatch, negate, of_width, out_of_range};
use crate::types::{Datum, Decimal, SqlType, numeric, powers};

/// PostgreSQL's constant: degrees are divided by it, not multiplied by its inverse.
const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    for ty in [T::Int2, T::Int4, T::Int8, T::Float4, T::Float8, T::Numeric] {
        for name in ["abs", "@"] {
            registry.add(name, &[ty], ty, |v, _| absolute(&v[0]));
        }
    }
    for ty in [T::Float8, T::Numeric] {
        registry.add("sign", &[ty], ty, |v, _| sign(&v[0]));
        for name in ["ceil", "ceiling"] {
            registry.add(name, &[ty], ty, |v, _| whole(&v[0], f64::ceil, numeric::ceil));
        }
        registry.add("floor", &[ty], ty, |v, _| whole(&v[0], f64::floor, numeric::floor));
        registry.add("round", &[ty], ty, |v, _| {
            whole(&v[0], f64::round_ties_even, |number| numeric::round(number, 0))
        });
        registry.add("trunc", &[ty], ty, |v, _| {
            whole(&v[0], f64::trunc, |number| numeric::truncate(number, 0))
        });
    }
    registry.add("round", &[T::Numeric, T::Int4], T::Numeric, |v, _| cut(v, numeric::round));
    registry.add("trunc", &[T::Numeric, T::Int4], T::Numeric, |v, _| cut(v, numeric::truncate));
    registry.add("div", &[T::Numeric, T::Numeric], T::Numeric, quotient);
    registry.add("scale", &[T::Numeric], T::Int4, |v, _| match v {
        [Datum::Numeric(number)] if !number.is_finite() => Ok(Datum::Null),
        [Datum::Numeric(number)] => Ok(Datum::Int4(number.scale() as i32)),
        _ => mismatch(v),
    });
    for ty in [T::Int4, T::Int8] {
        registry.add("gcd", &[ty, ty], ty, gcd);
        registry.add("lcm", &[ty, ty], ty, lcm);
    }
    for name in ["gcd", "lcm"] {
        let eval: Eval = match name {
            "gcd" => |v, _| of_numbers(v, exact_gcd),
            _ => |v, _| of_numbers(v, exact_lcm),
        };
        registry.add(name, &[T::Numeric, T::Numeric], T::Numeric, eval);
    }
    registry.add("factorial", &[T::Int8], T::Numeric, factorial);
    registry.add("min_scale", &[T::Numeric], T::Int4, |v, _| match v {
        [Datum::Numeric(number)] if !number.is_finite() => Ok(Datum::Null),
        [Datum::Numeric(number)] => Ok(Datum::Int4(least_scale(number).into())),
        _ => mismatch(v),
    });
    registry.add("trim_scale", &[T::Numeric], T::Numeric, |v, _| match v {
        [Datum::Numeric(number)] => {
            numeric::truncate(number, least_scale(number).into()).map(Datum::Numeric)
        }
        _ => mismatch(v),
    });
    let places = [T::Float8, T::Float8, T::Float8, T::Int4];
    registry.add("width_bucket", &places, T::Int4, |v, _| bucket(v));
    let places = [T::Numeric, T::Numeric, T::Numeric, T::Int4];
    registry.add("width_bucket", &places, T::Int4, |v, _| bucket(v));
    floats(registry);
}

fn floats(registry: &mut Registry) {
    use SqlType as T;
    let one: [(&'static str, Eval); 23] = [
        ("sqrt", |v, _| unary(v, |x| if x < 0.0 { Err(negative_root()) } else { Ok(x.sqrt()) })),
        ("|/", |v, _| unary(v, |x| if x < 0.0 { Err(negative_root()) } else { Ok(x.sqrt()) })),
        ("cbrt", |v, _| unary(v, |x| Ok(x.cbrt()))),
        ("||/", |v, _| unary(v, |x| Ok(x.cbrt()))),
        ("exp", |v, _| unary(v, exponential)),
        ("ln", |v, _| unary(v, |x| logarithm(x).map(f64::ln))),
        ("log", |v, _| unary(v, |x| logarithm(x).map(f64::log10))),
        ("log10", |v, _| unary(v, |x| logarithm(x).map(f64::log10))),
        ("sin", |v, _| unary(v, |x| angle(x).map(f64::sin))),
        ("cos", |v, _| unary(v, |x| angle(x).map(f64::cos))),
        ("tan", |v, _| unary(v, |x| angle(x).map(f64::tan))),
        ("asin", |v, _| unary(v, |x| inverse(x).map(f64::asin))),
        ("acos", |v, _| unary(v, |x| inverse(x).map(f64::acos))),
        ("atan", |v, _| unary(v, |x| Ok(x.atan()))),
        ("degrees", |v, _| unary(v, |x| in_range(x / RADIANS_PER_DEGREE, x))),
        ("radians", |v, _| unary(v, |x| in_range(x * RADIANS_PER_DEGREE, x))),
        ("sinh", |v, _| unary(v, |x| Ok(x.sinh()))),
        ("cosh", |v, _| unary(v, |x| Ok(x.cosh()))),
        ("tanh", |v, _| unary(v, |x| Ok(x.tanh()))),
        ("asinh", |v, _| unary(v, |x| Ok(x.asinh()))),
        ("acosh", |v, _| unary(v, |x| if x < 1.0 { Err(bad_input()) } else { Ok(x.acosh()) })),
        ("atanh", |v, _| unary(v, |x| inverse(x).map(f64::atanh))),
        ("cot", |v, _| unary(v, |x| angle(x).map(|x| 1.0 / x.tan()))),
    ];
    for (name, eval) in one {
        registry.add(name, &[T::Float8], T::Float8, eval);
    }
    registry
        .add("atan2", &[T::Float8, T::Float8], T::Float8, |v, _| binary(v, |y, x| Ok(y.atan2(x))));
    for name in ["power", "pow", "^"] {
        registry.add(name, &[T::Float8, T::Float8], T::Float8, |v, _| binary(v, power));
        registry.add(name, &[T::Numeric, T::Numeric], T::Numeric, |v, context| {
            exact_pair(v, context, powers::power)
        });
    }
    registry.add("sqrt", &[T::Numeric], T::Numeric, |v, context| {
        exact(v, context, |x, _| powers::square_root(x))
    });
    registry
        .add("exp", &[T::Numeric], T::Numeric, |v, context| exact(v, context, powers::exponential));
    registry.add("ln", &[T::Numeric], T::Numeric, |v, context| {
        exact(v, context, powers::natural_logarithm)
    });
    for name in ["log", "log10"] {
        registry.add(name, &[T::Numeric], T::Numeric, |v, context| {
            exact(v, context, |x, spend| powers::logarithm(&Decimal::from(10), x, spend))
        });
    }
    registry.add("log", &[T::Numeric, T::Numeric], T::Numeric, |v, context| {
        exact_pair(v, context, powers::logarithm)
    });
    registry.add("setseed", &[T::Float8], T::Void, set_seed).volatile = true;
    registry.add("pi", &[], T::Float8, |_, _| Ok(Datum::Float8(std::f64::consts::PI)));
    registry
        .add("random", &[], T::Float8, |_, context| {
            if let Some(number) = context.seed.next() {
                return Ok(Datum::Float8(number));
            }
            // 53 random bits: every value below one is as likely.
            Ok(Datum::Float8((context.next_random() >> 11) as f64 / (1u64 << 53) as f64))
        })
        .volatile = true;
}

/// Begins the session's stream of random numbers anew; the result is void.
fn set_seed(values: &[Datum], context: &super::Context) -> Result<Datum> {
    let [Datum::Float8(number)] = values else { return mismatch(values) };
    if !(-1.0..=1.0).contains(number) {
        let message = format!("setseed parameter {number} is out of allowed range [-1,1]");
        return Err(SqlError::new(code::INVALID_PARAMETER, message));
    }
    context.seed.set(*number);
    Ok(Datum::Text(String::new()))
}

fn unary(values: &[Datum], f: impl Fn(f64) -> Result<f64>) -> Result<Datum> {
    let [Datum::Float8(x)] = values else { return mismatch(values) };
    f(*x).map(Datum::Float8)
}

fn binary(values: &[Datum], f: impl Fn(f64, f64) -> Result<f64>) -> Result<Datum> {
    let [Datum::Float8(x), Datum::Float8(y)] = values else { return mismatch(values) };
    f(*x, *y).map(Datum::Float8)
}

/// Of a numeric, counting the work.
fn exact(
    values: &[Datum],
    context: &super::Context,
    f: impl Fn(&Decimal, powers::Spend<'_>) -> Result<Decimal>,
) -> Result<Datum> {
    let [Datum::Numeric(x)] = values else { return mismatch(values) };
    f(x, &|units| context.spend(units)).map(Datum::Numeric)
}

/// Of two numerics, counting the work.
fn exact_pair(
    values: &[Datum],
    context: &super::Context,
    f: impl Fn(&Decimal, &Decimal, powers::Spend<'_>) -> Result<Decimal>,
) -> Result<Datum> {
    let [Datum::Numeric(x), Datum::Numeric(y)] = values else { return mismatch(values) };
    f(x, y, &|units| context.spend(units)).map(Datum::Numeric)
}

fn negative_root() -> SqlError {
    SqlError::new(code::INVALID_POWER, "cannot take square root of a negative number")
}

/// A result that is infinite or zero only if the input is.
fn in_range(result: f64, input: f64) -> Result<f64> {
    if result.is_infinite() && input.is_finite() {
        return Err(out_of_range("value out of range: overflow"));
    }
    if result == 0.0 && input != 0.0 {
        return Err(out_of_range("value out of range: underflow"));
    }
    Ok(result)
}

fn exponential(x: f64) -> Result<f64> {
    let result = x.exp();
    if x.is_finite() { in_range(result, 1.0) } else { Ok(result) }
}

fn angle(x: f64) -> Result<f64> {
    if x.is_infinite() { Err(out_of_range("input is out of range")) } else { Ok(x) }
}

fn logarithm(x: f64) -> Result<f64> {
    let refuse = |what| Err(SqlError::new(code::INVALID_LOGARITHM, what));
    match x {
        0.0 => refuse("cannot take logarithm of zero"),
        x if x < 0.0 => refuse("cannot take logarithm of a negative number"),
        x => Ok(x),
    }
}

fn bad_input() -> SqlError {
    out_of_range("input is out of range")
}

fn inverse(x: f64) -> Result<f64> {
    if x.abs() > 1.0 { Err(bad_input()) } else { Ok(x) }
}

fn power(x: f64, y: f64) -> Result<f64> {
    let refuse = |what| Err(SqlError::new(code::INVALID_POWER, what));
    if x == 0.0 && y < 0.0 {
        return refuse("zero raised to a negative power is undefined");
    }
    if x < 0.0 && y.is_finite() && y.fract() != 0.0 {
        return refuse("a negative number raised to a non-integer power yields a complex result");
    }
    let result = x.powf(y);
    if result.is_infinite() && x.is_finite() && y.is_finite() {
        return Err(out_of_range("value out of range: overflow"));
    }
    if result == 0.0 && x != 0.0 && x.is_finite() && y.is_finite() {
        return Err(out_of_range("value out of range: underflow"));
    }
    Ok(result)
}

fn absolute(value: &Datum) -> Result<Datum> {
    match value {
        Datum::Numeric(v) => Ok(Datum::Numeric(numeric::abs(v))),
        Datum::Float4(v) => Ok(Datum::Float4(v.abs())),
        Datum::Float8(v) => Ok(Datum::Float8(v.abs())),
        other if other.as_int().is_some_and(|v| v < 0) => negate(other),
        other => Ok(other.clone()),
    }
}

fn sign(value: &Datum) -> Result<Datum> {
    Ok(match value {
        Datum::Float8(v) if *v > 0.0 => Datum::Float8(1.0),
        Datum::Float8(v) if *v < 0.0 => Datum::Float8(-1.0),
        Datum::Float8(_) => Datum::Float8(0.0),
        Datum::Numeric(v) if v.is_nan() => value.clone(),
        Datum::Numeric(v) if v.is_zero() => Datum::Numeric(Decimal::from(0)),
        Datum::Numeric(v) => Datum::Numeric(Decimal::from(if v.is_negative() { -1 } else { 1 })),
        other => return mismatch(std::slice::from_ref(other)),
    })
}

fn whole(
    value: &Datum,
    float: fn(f64) -> f64,
    exact: fn(&Decimal) -> Result<Decimal>,
) -> Result<Datum> {
    Ok(match value {
        Datum::Float8(v) => Datum::Float8(float(*v)),
        Datum::Numeric(v) => Datum::Numeric(exact(v)?),
        other => return mismatch(std::slice::from_ref(other)),
    })
}

fn cut(values: &[Datum], how: fn(&Decimal, i32) -> Result<Decimal>) -> Result<Datum> {
    let [Datum::Numeric(number), Datum::Int4(scale)] = values else { return mismatch(values) };
    Ok(Datum::Numeric(how(number, *scale)?))
}

fn quotient(values: &[Datum], _: &super::Context) -> Result<Datum> {
    let [Datum::Numeric(a), Datum::Numeric(b)] = values else { return mismatch(values) };
    Ok(Datum::Numeric(numeric::whole_quotient(a, b)?))
}

fn gcd(values: &[Datum], _: &super::Context) -> Result<Datum> {
    let (a, b) = (values[0].as_int(), values[1].as_int());
    let (Some(a), Some(b)) = (a, b) else { return mismatch(values) };
    let (mut x, mut y) = (a.unsigned_abs(), b.unsigned_abs());
    while y != 0 {
        (x, y) = (y, x % y);
    }
    let width = if matches!(values[0], Datum::Int4(_)) { 4 } else { 8 };
    of_width(i64::try_from(x).ok(), width)
}

/// The least common multiple.
fn lcm(values: &[Datum], _: &super::Context) -> Result<Datum> {
    let (Some(a), Some(b)) = (values[0].as_int(), values[1].as_int()) else {
        return mismatch(values);
    };
    let (mut x, mut y) = (a.unsigned_abs(), b.unsigned_abs());
    while y != 0 {
        (x, y) = (y, x % y);
    }
    let width = if matches!(values[0], Datum::Int4(_)) { 4 } else { 8 };
    let product = match x {
        0 => 0,
        common => u128::from(a.unsigned_abs() / common) * u128::from(b.unsigned_abs()),
    };
    of_width(i64::try_from(product).ok(), width)
}

fn of_numbers(values: &[Datum], how: fn(&Decimal, &Decimal) -> Result<Decimal>) -> Result<Datum> {
    let [Datum::Numeric(a), Datum::Numeric(b)] = values else { return mismatch(values) };
    if !a.is_finite() || !b.is_finite() {
        return Ok(Datum::Numeric(Decimal::nan()));
    }
    let scale = a.scale().max(b.scale());
    numeric::round(&how(a, b)?, scale.into()).map(Datum::Numeric)
}

fn exact_gcd(a: &Decimal, b: &Decimal) -> Result<Decimal> {
    let (mut x, mut y) = (numeric::abs(a), numeric::abs(b));
    while !y.is_zero() {
        let rest = numeric::remainder(&x, &y)?;
        (x, y) = (y, rest);
    }
    Ok(x)
}

fn exact_lcm(a: &Decimal, b: &Decimal) -> Result<Decimal> {
    if a.is_zero() || b.is_zero() {
        return Ok(Decimal::from(0));
    }
    let times = numeric::whole_quotient(a, &exact_gcd(a, b)?)?;
    Ok(numeric::abs(&numeric::multiply(&times, b)?))
}

/// Largest number whose factorial `numeric` holds, as PostgreSQL says it.
const MAX_FACTORIAL: i64 = 32_177;

fn factorial(values: &[Datum], context: &super::Context) -> Result<Datum> {
    let [Datum::Int8(number)] = values else { return mismatch(values) };
    if *number < 0 {
        return Err(out_of_range("factorial of a negative number is undefined"));
    }
    if *number > MAX_FACTORIAL {
        return Err(out_of_range("value overflows numeric format"));
    }
    let mut product = Decimal::from(1);
    for factor in 2..=*number {
        product = numeric::multiply(&product, &Decimal::from(factor))?;
        context.spend(product.pairs().len())?;
    }
    Ok(Datum::Numeric(product))
}

/// Digits behind the point that are not all zeros at the end.
fn least_scale(number: &Decimal) -> u16 {
    let text = number.to_string();
    let behind = text.split_once('.').map_or("", |(_, behind)| behind);
    behind.trim_end_matches('0').len() as u16
}

/// Which of so many parts of a range a value is in, counted from 1.
fn bucket(values: &[Datum]) -> Result<Datum> {
    let refuse = |message: &str| Err(SqlError::new(code::WIDTH_BUCKET, message));
    let [value, low, high, Datum::Int4(count)] = values else { return mismatch(values) };
    if *count <= 0 {
        return refuse("count must be greater than zero");
    }
    if let (Datum::Float8(value), Datum::Float8(low), Datum::Float8(high)) = (value, low, high) {
        if value.is_nan() || low.is_nan() || high.is_nan() {
            return refuse("operand, lower bound, and upper bound cannot be NaN");
        }
        if low.is_infinite() || high.is_infinite() {
            return refuse("lower and upper bounds must be finite");
        }
    }
    if let (Datum::Numeric(value), Datum::Numeric(low), Datum::Numeric(high)) = (value, low, high) {
        if value.is_nan() || low.is_nan() || high.is_nan() {
            return refuse("operand, lower bound, and upper bound cannot be NaN");
        }
        if !low.is_finite() || !high.is_finite() {
            return refuse("lower and upper bounds must be finite");
        }
    }
    if low.compare(high).is_eq() {
        return refuse("lower bound cannot equal upper bound");
    }
    let descends = low.compare(high).is_gt();
    let order = |a: &Datum, b: &Datum| if descends { b.compare(a) } else { a.compare(b) };
    if order(value, low).is_lt() {
        return Ok(Datum::Int4(0));
    }
    if order(value, high).is_ge() {
        let last = count.checked_add(1);
        return last.map(Datum::Int4).ok_or_else(|| out_of_range("integer out of range"));
    }
    let part = match (value, low, high) {
        (Datum::Float8(value), Datum::Float8(low), Datum::Float8(high)) => {
            (f64::from(*count) * ((value - low) / (high - low))) as i64
        }
        (Datum::Numeric(value), Datum::Numeric(low), Datum::Numeric(high)) => {
            let above = numeric::multiply(
                &numeric::subtract(value, low)?,
                &Decimal::from(i64::from(*count)),
            )?;
            let part = numeric::whole_quotient(&above, &numeric::subtract(high, low)?)?;
            numeric::to_int(&part).unwrap_or(0)
        }
        _ => return mismatch(values),
    };
    Ok(Datum::Int4(part.min(i64::from(*count) - 1) as i32 + 1))
}
