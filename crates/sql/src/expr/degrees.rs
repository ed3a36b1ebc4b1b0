//! Trigonometric functions in degrees, exact where a multiple of 30 or 45 degrees is.
//!
//! Invariants: results are scaled by what the same functions give for 30, 45 and 60 degrees, as in
//! PostgreSQL's `float.c`. Does not do: radians (`math`).

use crate::error::Result;
use crate::expr::function::{Eval, Registry};
use crate::expr::operators::{mismatch, out_of_range};
use crate::types::{Datum, SqlType};

const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    let one: [(&'static str, Eval); 7] = [
        ("sind", |v, _| unary(v, |x| turned(x, sine))),
        ("cosd", |v, _| unary(v, |x| turned(x, cosine))),
        ("tand", |v, _| unary(v, |x| turned(x, tangent))),
        ("cotd", |v, _| unary(v, |x| turned(x, cotangent))),
        ("asind", |v, _| unary(v, arc_sine)),
        ("acosd", |v, _| unary(v, arc_cosine)),
        ("atand", |v, _| unary(v, |x| Ok(x.atan() / 1f64.atan() * 45.0))),
    ];
    for (name, eval) in one {
        registry.add(name, &[T::Float8], T::Float8, eval);
    }
    registry.add("atan2d", &[T::Float8, T::Float8], T::Float8, |v, _| match v {
        [Datum::Float8(y), Datum::Float8(x)] => Ok(Datum::Float8(y.atan2(*x) / 1f64.atan() * 45.0)),
        _ => mismatch(v),
    });
}

fn unary(values: &[Datum], f: impl Fn(f64) -> Result<f64>) -> Result<Datum> {
    let [Datum::Float8(x)] = values else { return mismatch(values) };
    f(*x).map(Datum::Float8)
}

/// An angle as one of the first quadrant.
struct Turned {
    angle: f64,
    is_negative: bool,
    /// Was it beyond half a turn, or beyond a quarter then?
    past_half: bool,
    past_quarter: bool,
}

fn turned(x: f64, f: fn(Turned) -> f64) -> Result<f64> {
    if x.is_nan() {
        return Ok(x);
    }
    if x.is_infinite() {
        return Err(out_of_range("input is out of range"));
    }
    let rest = x % 360.0;
    let (is_negative, mut angle) = (rest < 0.0, rest.abs());
    let past_half = angle > 180.0;
    if past_half {
        angle = 360.0 - angle;
    }
    let past_quarter = angle > 90.0;
    if past_quarter {
        angle = 180.0 - angle;
    }
    Ok(f(Turned { angle, is_negative, past_half, past_quarter }))
}

/// Of up to 30 degrees.
fn low_sine(x: f64) -> f64 {
    (x * RADIANS_PER_DEGREE).sin() / (30.0 * RADIANS_PER_DEGREE).sin() / 2.0
}

/// Of up to 60 degrees.
fn low_cosine(x: f64) -> f64 {
    let of_sixty = 1.0 - (60.0 * RADIANS_PER_DEGREE).cos();
    1.0 - (1.0 - (x * RADIANS_PER_DEGREE).cos()) / of_sixty / 2.0
}

fn quadrant_sine(x: f64) -> f64 {
    if x <= 30.0 { low_sine(x) } else { low_cosine(90.0 - x) }
}

fn quadrant_cosine(x: f64) -> f64 {
    if x <= 60.0 { low_cosine(x) } else { low_sine(90.0 - x) }
}

fn signed(value: f64, is_negative: bool) -> f64 {
    if is_negative { -value } else { value }
}

fn sine(x: Turned) -> f64 {
    signed(quadrant_sine(x.angle), x.is_negative != x.past_half)
}

fn cosine(x: Turned) -> f64 {
    signed(quadrant_cosine(x.angle), x.past_quarter)
}

/// Minus zero is zero.
fn quotient(value: f64, of_45: f64, x: &Turned) -> f64 {
    let is_negative = (x.is_negative != x.past_half) != x.past_quarter;
    let result = signed(value / of_45, is_negative);
    if result == 0.0 { 0.0 } else { result }
}

fn tangent(x: Turned) -> f64 {
    let of_45 = quadrant_sine(45.0) / quadrant_cosine(45.0);
    quotient(quadrant_sine(x.angle) / quadrant_cosine(x.angle), of_45, &x)
}

fn cotangent(x: Turned) -> f64 {
    let of_45 = quadrant_cosine(45.0) / quadrant_sine(45.0);
    quotient(quadrant_cosine(x.angle) / quadrant_sine(x.angle), of_45, &x)
}

fn check_inverse(x: f64) -> Result<f64> {
    if x.abs() > 1.0 { Err(out_of_range("input is out of range")) } else { Ok(x) }
}

fn quadrant_arc_sine(x: f64) -> f64 {
    match x <= 0.5 {
        true => x.asin() / 0.5f64.asin() * 30.0,
        false => 90.0 - x.acos() / 0.5f64.acos() * 60.0,
    }
}

fn arc_sine(x: f64) -> Result<f64> {
    check_inverse(x)?;
    Ok(signed(quadrant_arc_sine(x.abs()), x < 0.0))
}

fn arc_cosine(x: f64) -> Result<f64> {
    check_inverse(x)?;
    Ok(match (x < 0.0, x <= 0.5) {
        (true, _) => 90.0 + quadrant_arc_sine(-x),
        (false, true) => 90.0 - x.asin() / 0.5f64.asin() * 30.0,
        (false, false) => x.acos() / 0.5f64.acos() * 60.0,
    })
}
