//! Operators: arithmetic that fails rather than wraps, comparisons, bits, concatenation.
//!
//! Invariants: the result has the type that the registry says for the operands' types.
//! Does not do: resolution.

use std::cmp::Ordering;

use crate::error::{Result, SqlError, code};
use crate::expr::function::{Eval, Function, Holds, Registry};
use crate::expr::length::check_length;
use crate::expr::{Context, like};
use crate::types::calendar::interval_out_of_range;
use crate::types::casing::{self, Casing};
use crate::types::numeric::{self, division_by_zero};
use crate::types::{Datum, SqlType, calendar};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    arithmetic(registry);
    bits(registry);
    comparisons(registry);
    time(registry);
    use SqlType as T;
    for name in ["||", "textcat"] {
        registry.add(name, &[T::Text, T::Text], T::Text, concat);
    }
    registry.add("||", &[T::Bytea, T::Bytea], T::Bytea, concat_bytes);
    registry.add("||", &[T::Text, T::Unknown], T::Text, concat);
    registry.add("||", &[T::Unknown, T::Text], T::Text, concat);
    registry
        .add("~~", &[T::Text, T::Text], T::Bool, |v, context| like_of(v, context, false, false));
    registry
        .add("!~~", &[T::Text, T::Text], T::Bool, |v, context| like_of(v, context, false, true));
    registry
        .add("~~*", &[T::Text, T::Text], T::Bool, |v, context| like_of(v, context, true, false));
    registry
        .add("!~~*", &[T::Text, T::Text], T::Bool, |v, context| like_of(v, context, true, true));
    // Under a locale, by names that no statement can write.
    registry.add("~~* under", &[T::Text; 3], T::Bool, |v, context| like_under(v, context, false));
    registry.add("!~~* under", &[T::Text; 3], T::Bool, |v, context| like_under(v, context, true));
    registry.add("like_escape", &[T::Text, T::Text], T::Text, |v, _| like::with_escape(v));
    registry.add("^@", &[T::Text, T::Text], T::Bool, |v, _| match v {
        [Datum::Text(a), Datum::Text(b)] => Ok(Datum::Bool(a.starts_with(b.as_str()))),
        _ => mismatch(v),
    });
}

const INTEGERS: [SqlType; 3] = [SqlType::Int2, SqlType::Int4, SqlType::Int8];

/// Operands of a registered function always have its types.
pub(super) fn mismatch<T>(values: &[Datum]) -> T {
    unreachable!("the binder casts arguments: {values:?}")
}

fn wider(a: SqlType, b: SqlType) -> SqlType {
    let rank = |ty| INTEGERS.iter().position(|known| *known == ty).unwrap_or(0);
    if rank(a) >= rank(b) { a } else { b }
}

fn arithmetic(registry: &mut Registry) {
    let four: [(&str, Eval); 4] = [
        ("+", |v, _| calculate(v, Op::Add)),
        ("-", |v, _| calculate(v, Op::Subtract)),
        ("*", |v, _| calculate(v, Op::Multiply)),
        ("/", |v, _| calculate(v, Op::Divide)),
    ];
    use SqlType as T;
    for (name, eval) in four {
        for a in INTEGERS {
            for b in INTEGERS {
                registry.add(name, &[a, b], wider(a, b), eval);
            }
        }
        registry.add(name, &[T::Float4, T::Float4], T::Float4, eval);
        registry.add(name, &[T::Float4, T::Float8], T::Float8, eval);
        registry.add(name, &[T::Float8, T::Float4], T::Float8, eval);
        registry.add(name, &[T::Float8, T::Float8], T::Float8, eval);
        registry.add(name, &[T::Numeric, T::Numeric], T::Numeric, eval);
    }
    for ty in [T::Int2, T::Int4, T::Int8, T::Numeric] {
        for name in ["%", "mod"] {
            registry.add(name, &[ty, ty], ty, |v, _| calculate(v, Op::Remainder));
        }
    }
    for ty in [T::Int2, T::Int4, T::Int8, T::Float4, T::Float8, T::Numeric] {
        registry.add("-", &[ty], ty, |v, _| negate(&v[0]));
        registry.add("+", &[ty], ty, |v, _| Ok(v[0].clone()));
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

fn calculate(values: &[Datum], op: Op) -> Result<Datum> {
    match values {
        [Datum::Numeric(a), Datum::Numeric(b)] => Ok(Datum::Numeric(match op {
            Op::Add => numeric::add(a, b)?,
            Op::Subtract => numeric::subtract(a, b)?,
            Op::Multiply => numeric::multiply(a, b)?,
            Op::Divide => numeric::divide(a, b)?,
            Op::Remainder => numeric::remainder(a, b)?,
        })),
        [Datum::Float4(a), Datum::Float4(b)] => {
            // Single precision throughout, as in PostgreSQL.
            let exact = [f64::from(*a), f64::from(*b)];
            let result = match op {
                Op::Add => a + b,
                Op::Subtract => a - b,
                Op::Multiply => a * b,
                Op::Divide => a / b,
                Op::Remainder => mismatch(values),
            };
            check_float(f64::from(result), exact, op)?;
            Ok(Datum::Float4(result))
        }
        [a, b] => match (a.as_int(), b.as_int()) {
            (Some(x), Some(y)) => integers(x, y, op, width(a).max(width(b))),
            _ => floats(a.as_float(), b.as_float(), op),
        },
        _ => mismatch(values),
    }
}

fn width(value: &Datum) -> u8 {
    match value {
        Datum::Int2(_) => 2,
        Datum::Int4(_) => 4,
        _ => 8,
    }
}

fn integers(a: i64, b: i64, op: Op, width: u8) -> Result<Datum> {
    if b == 0 && matches!(op, Op::Divide | Op::Remainder) {
        return Err(division_by_zero());
    }
    let exact = match op {
        Op::Add => a.checked_add(b),
        Op::Subtract => a.checked_sub(b),
        Op::Multiply => a.checked_mul(b),
        Op::Divide => a.checked_div(b),
        Op::Remainder => Some(a.checked_rem(b).unwrap_or(0)),
    };
    of_width(exact, width)
}

/// An integer of two, four or eight bytes, if it fits.
pub(super) fn of_width(value: Option<i64>, width: u8) -> Result<Datum> {
    let (datum, name) = match width {
        2 => (value.and_then(|v| i16::try_from(v).ok()).map(Datum::Int2), "smallint"),
        4 => (value.and_then(|v| i32::try_from(v).ok()).map(Datum::Int4), "integer"),
        _ => (value.map(Datum::Int8), "bigint"),
    };
    datum.ok_or_else(|| out_of_range(&format!("{name} out of range")))
}

pub(super) fn out_of_range(what: &str) -> SqlError {
    SqlError::new(code::NUMERIC_OUT_OF_RANGE, what)
}

fn floats(a: Option<f64>, b: Option<f64>, op: Op) -> Result<Datum> {
    let (a, b) = (a.expect("the binder casts arguments"), b.expect("the binder casts arguments"));
    let result = match op {
        Op::Add => a + b,
        Op::Subtract => a - b,
        Op::Multiply => a * b,
        Op::Divide | Op::Remainder => a / b,
    };
    check_float(result, [a, b], op)?;
    Ok(Datum::Float8(result))
}

fn check_float(result: f64, operands: [f64; 2], op: Op) -> Result<()> {
    let [a, b] = operands;
    if op == Op::Divide && b == 0.0 && !a.is_nan() {
        return Err(division_by_zero());
    }
    if result.is_infinite() && !a.is_infinite() && !b.is_infinite() {
        return Err(out_of_range("value out of range: overflow"));
    }
    let vanished = match op {
        Op::Multiply => a != 0.0 && b != 0.0,
        Op::Divide => a != 0.0 && !b.is_infinite(),
        _ => false,
    };
    if result == 0.0 && vanished {
        return Err(out_of_range("value out of range: underflow"));
    }
    Ok(())
}

pub(super) fn negate(value: &Datum) -> Result<Datum> {
    Ok(match value {
        Datum::Float4(v) => Datum::Float4(-v),
        Datum::Float8(v) => Datum::Float8(-v),
        Datum::Numeric(v) => Datum::Numeric(numeric::negate(v)),
        other => return of_width(other.as_int().and_then(i64::checked_neg), width(other)),
    })
}

fn bits(registry: &mut Registry) {
    for ty in INTEGERS {
        registry.add("&", &[ty, ty], ty, |v, _| bitwise(v, |a, b| a & b));
        registry.add("|", &[ty, ty], ty, |v, _| bitwise(v, |a, b| a | b));
        registry.add("#", &[ty, ty], ty, |v, _| bitwise(v, |a, b| a ^ b));
        registry.add("~", &[ty], ty, |v, _| of_width(v[0].as_int().map(|a| !a), width(&v[0])));
        registry.add("<<", &[ty, SqlType::Int4], ty, |v, _| shift(v, true));
        registry.add(">>", &[ty, SqlType::Int4], ty, |v, _| shift(v, false));
    }
}

fn bitwise(values: &[Datum], op: fn(i64, i64) -> i64) -> Result<Datum> {
    let result = values[0].as_int().zip(values[1].as_int()).map(|(a, b)| op(a, b));
    of_width(result, width(&values[0]))
}

/// The count is taken modulo the width of the machine's registers, as PostgreSQL's is.
fn shift(values: &[Datum], left: bool) -> Result<Datum> {
    let count = values[1].as_int().unwrap_or(0) as u32;
    Ok(match &values[0] {
        Datum::Int2(a) => {
            let wide = i32::from(*a);
            let moved = if left { wide.wrapping_shl(count) } else { wide.wrapping_shr(count) };
            Datum::Int2(moved as i16)
        }
        Datum::Int4(a) => {
            Datum::Int4(if left { a.wrapping_shl(count) } else { a.wrapping_shr(count) })
        }
        Datum::Int8(a) => {
            Datum::Int8(if left { a.wrapping_shl(count) } else { a.wrapping_shr(count) })
        }
        _ => mismatch(values),
    })
}

/// A comparison of two values by their order.
struct Comparison {
    name: &'static str,
    holds: Holds,
    eval: Eval,
}

const COMPARISONS: [Comparison; 6] = [
    Comparison { name: "=", holds: Ordering::is_eq, eval: |v, _| compared(v, Ordering::is_eq) },
    Comparison { name: "<>", holds: Ordering::is_ne, eval: |v, _| compared(v, Ordering::is_ne) },
    Comparison { name: "<", holds: Ordering::is_lt, eval: |v, _| compared(v, Ordering::is_lt) },
    Comparison { name: "<=", holds: Ordering::is_le, eval: |v, _| compared(v, Ordering::is_le) },
    Comparison { name: ">", holds: Ordering::is_gt, eval: |v, _| compared(v, Ordering::is_gt) },
    Comparison { name: ">=", holds: Ordering::is_ge, eval: |v, _| compared(v, Ordering::is_ge) },
];

/// The comparison `name` of two values of a type that was made.
pub(super) fn comparison_of(name: &str, ty: SqlType) -> Option<Function> {
    let Comparison { name, holds, eval } = COMPARISONS.iter().find(|one| one.name == name)?;
    let holds = Some(*holds);
    Some(Function { holds, ..Function::new(name, &[ty, ty], SqlType::Bool, *eval) })
}

fn compared(values: &[Datum], holds: Holds) -> Result<Datum> {
    if let [Datum::Record(a), Datum::Record(b)] = values {
        a.check_similar(b)?;
    }
    Ok(Datum::Bool(holds(values[0].compare(&values[1]))))
}

fn comparisons(registry: &mut Registry) {
    use SqlType as T;
    for Comparison { name, holds, eval } in COMPARISONS {
        let mut add = |args: &[T; 2]| {
            registry.add(name, args, T::Bool, eval).holds = Some(holds);
        };
        // Objects of catalogs are compared by their numbers.
        for ty in SqlType::every().filter(|ty| ty.is_ordered() && !matches!(ty, SqlType::Reg(_))) {
            add(&[ty, ty]);
        }
        for a in INTEGERS {
            for b in INTEGERS.into_iter().filter(|b| *b != a) {
                add(&[a, b]);
            }
        }
        add(&[T::Inet, T::Cidr]);
        add(&[T::Cidr, T::Inet]);
        add(&[T::Float4, T::Float8]);
        add(&[T::Float8, T::Float4]);
        // Whether two of them can be compared is known when they are.
        registry.add(name, &[T::Record, T::Record], T::Bool, eval);
    }
}

fn time(registry: &mut Registry) {
    use SqlType as T;
    let day_plus = |v: &[Datum], _: &Context| shift_day(v, 1);
    registry.add("+", &[T::Date, T::Int4], T::Date, day_plus);
    registry.add("+", &[T::Int4, T::Date], T::Date, day_plus);
    registry.add("-", &[T::Date, T::Int4], T::Date, |v, _| shift_day(v, -1));
    registry.add("-", &[T::Date, T::Date], T::Int4, days_between);
    registry.add(FIRST_DAY_FROM, &[T::Timestamp], T::Date, first_day_from);
    for (ty, result) in
        [(T::Timestamp, T::Timestamp), (T::Timestamptz, T::Timestamptz), (T::Date, T::Timestamp)]
    {
        registry.add("+", &[ty, T::Interval], result, |v, c| shift_time(v, false, c));
        registry.add("+", &[T::Interval, ty], result, |v, c| shift_time(v, false, c));
        registry.add("-", &[ty, T::Interval], result, |v, c| shift_time(v, true, c));
    }
    for ty in [T::Timestamp, T::Timestamptz] {
        registry.add("-", &[ty, ty], T::Interval, time_between);
    }
    registry.add("+", &[T::Interval, T::Interval], T::Interval, |v, _| spans(v, false));
    registry.add("-", &[T::Interval, T::Interval], T::Interval, |v, _| spans(v, true));
    registry.add("-", &[T::Interval], T::Interval, |v, _| match v {
        [Datum::Interval(span)] => {
            Ok(Datum::Interval(span.checked_neg().ok_or_else(interval_out_of_range)?))
        }
        _ => mismatch(v),
    });
    registry.add("*", &[T::Interval, T::Float8], T::Interval, |v, _| stretch(v, false));
    registry.add("*", &[T::Float8, T::Interval], T::Interval, |v, _| stretch(v, false));
    registry.add("/", &[T::Interval, T::Float8], T::Interval, |v, _| stretch(v, true));
}

fn shift_day(values: &[Datum], sign: i64) -> Result<Datum> {
    let (day, count) = match values {
        [Datum::Date(day), Datum::Int4(count)] | [Datum::Int4(count), Datum::Date(day)] => {
            (*day, i64::from(*count))
        }
        _ => return mismatch(values),
    };
    calendar::add_days(day, sign * count).map(Datum::Date)
}

fn days_between(values: &[Datum], _: &Context) -> Result<Datum> {
    let [Datum::Date(a), Datum::Date(b)] = values else { return mismatch(values) };
    if !calendar::is_finite_day(*a) || !calendar::is_finite_day(*b) {
        return Err(calendar::overflow("cannot subtract infinite dates"));
    }
    of_width(Some(i64::from(*a) - i64::from(*b)), 4)
}

fn shift_time(values: &[Datum], back: bool, context: &Context) -> Result<Datum> {
    let (time, span) = match values {
        [time, Datum::Interval(span)] | [Datum::Interval(span), time] => (time, *span),
        _ => return mismatch(values),
    };
    let span = match back {
        true => span.checked_neg().ok_or_else(|| calendar::overflow("timestamp out of range"))?,
        false => span,
    };
    Ok(match time {
        Datum::Date(day) => {
            Datum::Timestamp(calendar::add(calendar::timestamp_of_date(*day)?, span)?)
        }
        Datum::Timestamp(micros) => Datum::Timestamp(calendar::add(*micros, span)?),
        Datum::Timestamptz(micros) => Datum::Timestamptz(context.times.zone().add(*micros, span)?),
        _ => return mismatch(values),
    })
}

/// The function of the first day that begins at a timestamp or behind it, by which dates are
/// compared with timestamps. Its name is none that a statement would call.
pub(crate) const FIRST_DAY_FROM: &str = "first day from";

fn first_day_from(values: &[Datum], _: &Context) -> Result<Datum> {
    let [Datum::Timestamp(micros)] = values else { return mismatch(values) };
    let day = calendar::date_of_timestamp(*micros);
    let begins_before = calendar::timestamp_of_date(day)? < *micros;
    Ok(Datum::Date(day + i32::from(begins_before)))
}

fn time_between(values: &[Datum], _: &Context) -> Result<Datum> {
    match values {
        [Datum::Timestamp(a), Datum::Timestamp(b)]
        | [Datum::Timestamptz(a), Datum::Timestamptz(b)] => {
            Ok(Datum::Interval(calendar::difference(*a, *b)?))
        }
        _ => mismatch(values),
    }
}

fn spans(values: &[Datum], subtracts: bool) -> Result<Datum> {
    let [Datum::Interval(a), Datum::Interval(b)] = values else { return mismatch(values) };
    let result = if subtracts { a.checked_sub(*b) } else { a.checked_add(*b) };
    result.map(Datum::Interval).ok_or_else(interval_out_of_range)
}

fn stretch(values: &[Datum], divides: bool) -> Result<Datum> {
    let (span, factor) = match values {
        [Datum::Interval(span), Datum::Float8(factor)]
        | [Datum::Float8(factor), Datum::Interval(span)] => (span, *factor),
        _ => return mismatch(values),
    };
    if divides && factor == 0.0 {
        return Err(division_by_zero());
    }
    let result = if divides { span.checked_div(factor) } else { span.checked_mul(factor) };
    result.map(Datum::Interval).ok_or_else(interval_out_of_range)
}

/// A boolean stands as `true` or `false` in a concatenation with text, and an address has its mask.
fn concat(values: &[Datum], context: &Context) -> Result<Datum> {
    let mut out = String::new();
    for value in values {
        match value {
            Datum::Bool(v) => out.push_str(if *v { "true" } else { "false" }),
            Datum::Inet(v) => out.push_str(&v.to_text(true)),
            other => other.write_text_in(&context.times, &mut out),
        }
        check_length(out.len())?;
    }
    Ok(Datum::Text(out))
}

fn concat_bytes(values: &[Datum], _: &Context) -> Result<Datum> {
    let [Datum::Bytes(a), Datum::Bytes(b)] = values else { return mismatch(values) };
    check_length(a.len() + b.len())?;
    Ok(Datum::Bytes([a.as_slice(), b.as_slice()].concat()))
}

fn like_of(values: &[Datum], context: &Context, folds_case: bool, negated: bool) -> Result<Datum> {
    let [Datum::Text(text), Datum::Text(pattern)] = values else { return mismatch(values) };
    let found = if folds_case {
        like::matches(&Casing::Simple.lower(text), &Casing::Simple.lower(pattern), context)?
    } else {
        like::matches(text, pattern, context)?
    };
    Ok(Datum::Bool(found != negated))
}

/// ILIKE by the letters of the locale that stands last.
fn like_under(values: &[Datum], context: &Context, negated: bool) -> Result<Datum> {
    let [Datum::Text(text), Datum::Text(pattern), Datum::Text(locale)] = values else {
        return mismatch(values);
    };
    let lower = |text: &str| casing::under("lower", text, locale);
    Ok(Datum::Bool(like::matches(&lower(text)?, &lower(pattern)?, context)? != negated))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(op: Op, a: Datum, b: Datum) -> std::result::Result<Datum, String> {
        calculate(&[a, b], op).map_err(|error| format!("{} {}", error.sqlstate, error.message))
    }

    #[test]
    fn integers_fail_rather_than_wrap() {
        use Datum as D;
        for (op, a, b, message) in [
            (Op::Add, D::Int2(32_767), D::Int2(1), "22003 smallint out of range"),
            (Op::Subtract, D::Int4(i32::MIN), D::Int4(1), "22003 integer out of range"),
            (Op::Multiply, D::Int8(i64::MAX), D::Int4(2), "22003 bigint out of range"),
            (Op::Divide, D::Int4(i32::MIN), D::Int4(-1), "22003 integer out of range"),
            (Op::Divide, D::Int4(1), D::Int4(0), "22012 division by zero"),
            (Op::Remainder, D::Int8(1), D::Int8(0), "22012 division by zero"),
            (
                Op::Multiply,
                D::Float8(1e200),
                D::Float8(1e200),
                "22003 value out of range: overflow",
            ),
            (
                Op::Multiply,
                D::Float8(1e-200),
                D::Float8(1e-200),
                "22003 value out of range: underflow",
            ),
            (Op::Divide, D::Float8(1.0), D::Float8(0.0), "22012 division by zero"),
        ] {
            assert_eq!(run(op, a, b), Err(message.to_owned()));
        }
        assert_eq!(run(Op::Remainder, D::Int8(i64::MIN), D::Int8(-1)), Ok(D::Int8(0)));
        assert_eq!(run(Op::Divide, D::Int4(-7), D::Int4(2)), Ok(D::Int4(-3)));
        assert_eq!(run(Op::Remainder, D::Int4(-7), D::Int4(2)), Ok(D::Int4(-1)));
        assert_eq!(run(Op::Add, D::Int2(1), D::Int8(1)), Ok(D::Int8(2)));
    }
}
