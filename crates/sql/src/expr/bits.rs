//! Operators and functions over strings of bits, as PostgreSQL's `varbit.c` has them.
//!
//! Those that PostgreSQL has over `bit` alone take a `bit varying` too, which becomes a `bit` by
//! itself.
//!
//! Does not do: comparisons (`operators`), aggregates (`aggregate`).

use crate::error::{Result, SqlError, code};
use crate::expr::function::Registry;
use crate::expr::operators::{mismatch, out_of_range};
use crate::types::{Bits, Datum, SqlType};

/// The function that makes bits of the lowest ones of a number, so many.
pub(crate) const OF_NUMBER: &str = "bit";

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    combinations(registry);
    lengths(registry);
    parts(registry);
    single(registry);
}

fn bits(values: &[Datum], at: usize) -> &Bits {
    match &values[at] {
        Datum::Bit(bits) | Datum::Varbit(bits) => bits,
        _ => mismatch(values),
    }
}

fn int(values: &[Datum], at: usize) -> i64 {
    values[at].as_int().unwrap_or_else(|| mismatch(values))
}

fn combinations(registry: &mut Registry) {
    use SqlType as T;
    let pair = [T::Bit; 2];
    registry.add("&", &pair, T::Bit, |v, _| combined(v, "AND", |a, b| a & b));
    registry.add("|", &pair, T::Bit, |v, _| combined(v, "OR", |a, b| a | b));
    registry.add("#", &pair, T::Bit, |v, _| combined(v, "XOR", |a, b| a ^ b));
    registry.add("~", &[T::Bit], T::Bit, |v, _| {
        let one = bits(v, 0);
        Ok(Datum::Bit(one.combined(one, |a, _| !a)))
    });
    registry.add("<<", &[T::Bit, T::Int4], T::Bit, |v, _| shifted(bits(v, 0), int(v, 1)));
    registry.add(">>", &[T::Bit, T::Int4], T::Bit, |v, _| shifted(bits(v, 0), -int(v, 1)));
    registry.add("||", &[T::Varbit; 2], T::Varbit, |v, _| {
        Ok(Datum::Varbit(bits(v, 0).joined(bits(v, 1))?))
    });
    for ty in [T::Int4, T::Int8] {
        registry.add(OF_NUMBER, &[ty, T::Int4], T::Bit, |v, context| {
            let len = usize::try_from(int(v, 1)).unwrap_or(0).max(1);
            context.held.check_fits(len / 8)?;
            Ok(Datum::Bit(Bits::of_number(int(v, 0), len)))
        });
    }
}

/// Bits made of those of two strings, which are as long.
pub(crate) fn combine(a: &Bits, b: &Bits, name: &str, op: fn(u8, u8) -> u8) -> Result<Bits> {
    if a.len() != b.len() {
        let message = format!("cannot {name} bit strings of different sizes");
        return Err(SqlError::new(code::LENGTH_MISMATCH, message));
    }
    Ok(a.combined(b, op))
}

fn combined(values: &[Datum], name: &str, op: fn(u8, u8) -> u8) -> Result<Datum> {
    combine(bits(values, 0), bits(values, 1), name, op).map(Datum::Bit)
}

/// The bits moved to the left by so many places, or to the right.
fn shifted(one: &Bits, by: i64) -> Result<Datum> {
    let len = one.len();
    let places = usize::try_from(by.unsigned_abs()).unwrap_or(len).min(len);
    let zeros = Bits::new(Vec::new(), places);
    let moved = match by < 0 {
        true => zeros.joined(&one.slice(0, len - places))?,
        false => one.slice(places, len - places).joined(&zeros)?,
    };
    Ok(Datum::Bit(moved))
}

fn count(value: usize) -> Datum {
    Datum::Int4(i32::try_from(value).unwrap_or(i32::MAX))
}

fn lengths(registry: &mut Registry) {
    use SqlType as T;
    for name in ["length", "bit_length"] {
        registry.add(name, &[T::Bit], T::Int4, |v, _| Ok(count(bits(v, 0).len())));
    }
    registry.add("octet_length", &[T::Bit], T::Int4, |v, _| Ok(count(bits(v, 0).bytes().len())));
    registry.add("bit_count", &[T::Bit], T::Int8, |v, _| {
        Ok(Datum::Int8(bits(v, 0).bytes().iter().map(|byte| i64::from(byte.count_ones())).sum()))
    });
}

fn parts(registry: &mut Registry) {
    use SqlType as T;
    registry.add("substring", &[T::Bit, T::Int4], T::Bit, |v, _| {
        Ok(Datum::Bit(part(bits(v, 0), int(v, 1), i64::MAX)))
    });
    registry.add("substring", &[T::Bit, T::Int4, T::Int4], T::Bit, |v, _| {
        let (from, len) = (int(v, 1), int(v, 2));
        if len < 0 {
            return Err(negative());
        }
        Ok(Datum::Bit(part(bits(v, 0), from, from + len)))
    });
    registry.add("overlay", &[T::Bit, T::Bit, T::Int4], T::Bit, |v, _| {
        overlay(v, bits(v, 1).len() as i64)
    });
    registry
        .add("overlay", &[T::Bit, T::Bit, T::Int4, T::Int4], T::Bit, |v, _| overlay(v, int(v, 3)));
    registry.add("position", &[T::Bit, T::Bit], T::Int4, |v, context| {
        let (all, wanted) = (bits(v, 0), bits(v, 1));
        if all.len() == 0 || wanted.len() > all.len() {
            return Ok(Datum::Int4(0));
        }
        for at in 0..=all.len() - wanted.len() {
            context.spend(1 + wanted.bytes().len())?;
            if all.slice(at, wanted.len()) == *wanted {
                return Ok(count(at + 1));
            }
        }
        Ok(Datum::Int4(0))
    });
}

fn negative() -> SqlError {
    SqlError::new(code::SUBSTRING, "negative substring length not allowed")
}

/// Bits from this position to before another, counted from 1.
fn part(one: &Bits, from: i64, end: i64) -> Bits {
    let place = |position: i64| (position.max(1) - 1).min(one.len() as i64) as usize;
    let (from, end) = (place(from), place(end));
    one.slice(from, end.saturating_sub(from))
}

fn overlay(values: &[Datum], len: i64) -> Result<Datum> {
    let (one, new, from) = (bits(values, 0), bits(values, 1), int(values, 2));
    if from < 1 {
        return Err(negative());
    }
    let Ok(end) = i32::try_from(from + len) else {
        return Err(out_of_range("integer out of range"));
    };
    let (head, tail) = (part(one, 1, from), part(one, i64::from(end), i64::MAX));
    Ok(Datum::Bit(head.joined(new)?.joined(&tail)?))
}

fn single(registry: &mut Registry) {
    use SqlType as T;
    registry.add("get_bit", &[T::Bit, T::Int4], T::Int4, |v, _| {
        Ok(Datum::Int4(i32::from(bits(v, 0).get(place(v)?))))
    });
    registry.add("set_bit", &[T::Bit, T::Int4, T::Int4], T::Bit, |v, _| {
        let at = place(v)?;
        match int(v, 2) {
            bit @ (0 | 1) => Ok(Datum::Bit(bits(v, 0).with(at, bit == 1))),
            _ => Err(SqlError::new(code::INVALID_PARAMETER, "new bit must be 0 or 1")),
        }
    });
}

/// The second argument as the place of a bit.
fn place(values: &[Datum]) -> Result<usize> {
    let (at, len) = (int(values, 1), bits(values, 0).len());
    usize::try_from(at).ok().filter(|at| *at < len).ok_or_else(|| {
        let message = format!("bit index {at} out of valid range (0..{})", len as i64 - 1);
        SqlError::new(code::SUBSCRIPT, message)
    })
}
