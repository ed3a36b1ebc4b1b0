//! Key bytes back to values: for index-only scans over reversible types, and for messages.
//!
//! Invariants: the bytes come from disk and are not trusted; whatever they are, the result is
//! values or [`Malformed`], and no allocation exceeds their length.

use super::{DECIMAL_BIAS, ESCAPE, ESCAPED_ONE, ESCAPED_ZERO, KeyColumn, PRESENT, TERMINATOR};
use crate::collation::Collation;
use crate::datum::{Decimal, Interval, Type, Value};

/// Kind of a decimal below zero.
const NEGATIVE: u8 = 1;

/// Why bytes are no key; the caller adds file and block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

/// Decodes a whole key; bytes after the last column are malformed.
pub fn decode(columns: &[KeyColumn], mut key: &[u8]) -> Result<Vec<Value>, Malformed> {
    let values = columns
        .iter()
        .map(|column| decode_column(column, &mut key))
        .collect::<Result<Vec<_>, _>>()?;
    if !key.is_empty() {
        return Err(Malformed("bytes after the last key column"));
    }
    Ok(values)
}

/// Decodes one column from the front of `key` and moves past it. Of collated text that is not
/// told apart by its bytes only the sort key is there.
pub fn decode_column(column: &KeyColumn, key: &mut &[u8]) -> Result<Value, Malformed> {
    let [marker] = take(key)?;
    if marker == column.null_byte() {
        return Ok(Value::Null);
    }
    if marker != PRESENT {
        return Err(Malformed("unknown null byte in a key"));
    }
    let mask = column.mask();
    if let Some(collation) = &column.collation {
        let weights = take_weights(key, mask)?;
        let deterministic = collation.is_deterministic();
        return if deterministic { Ok(Value::Text(take_text(key, mask)?)) } else { Ok(weights) };
    }
    let value = match column.ty {
        Type::Bool => match masked::<1>(key, mask)? {
            [0] => Value::Bool(false),
            [1] => Value::Bool(true),
            _ => return Err(Malformed("bool in a key is neither 0 nor 1")),
        },
        Type::Int2 => Value::Int2((u16::from_be_bytes(masked(key, mask)?) ^ 1 << 15).cast_signed()),
        Type::Int4 => Value::Int4(take_i32(key, mask)?),
        Type::Int8 => Value::Int8(take_i64(key, mask)?),
        Type::Float4 => Value::Float4(take_f32(key, mask)?),
        Type::Float8 => Value::Float8(take_f64(key, mask)?),
        Type::Text => Value::Text(take_text(key, mask)?),
        Type::Bytes => Value::Bytes(take_terminated(key, mask)?),
        Type::Uuid => Value::Uuid(masked(key, mask)?),
        Type::Date => Value::Date(take_i32(key, mask)?),
        Type::Timestamp => Value::Timestamp(take_i64(key, mask)?),
        Type::TimestampTz => Value::TimestampTz(take_i64(key, mask)?),
        Type::Time => Value::Time(take_i64(key, mask)?),
        Type::Decimal => Value::Decimal(take_decimal(key, mask)?),
        Type::Interval => Value::Interval(take_interval(key, mask)?),
        Type::Json => Value::Json(take_text(key, mask)?),
    };
    match value.is_sound() || column.ty == Type::Json {
        true => Ok(value),
        false => Err(Malformed("a value in a key is none of its type")),
    }
}

fn take_text(key: &mut &[u8], mask: u8) -> Result<String, Malformed> {
    let text = String::from_utf8(take_terminated(key, mask)?);
    text.map_err(|_| Malformed("text in a key is not UTF-8"))
}

/// A sort key, which no text can be made from.
fn take_weights(key: &mut &[u8], mask: u8) -> Result<Value, Malformed> {
    let terminator = TERMINATOR ^ mask;
    let end = key.iter().position(|byte| *byte == terminator);
    let (weights, rest) = key.split_at(end.ok_or(Malformed("key ends early"))?);
    *key = &rest[1..];
    Ok(Value::Bytes(weights.iter().map(|byte| byte ^ mask).collect()))
}

fn take_interval(key: &mut &[u8], mask: u8) -> Result<Interval, Malformed> {
    let total = (u128::from_be_bytes(masked(key, mask)?) ^ 1 << 127).cast_signed();
    Interval::from_total(total).ok_or(Malformed("interval in a key is out of range"))
}

fn take_decimal(key: &mut &[u8], mask: u8) -> Result<Decimal, Malformed> {
    let no_decimal = Malformed("a key holds no decimal");
    let [kind] = masked(key, mask)?;
    if let Some(value) = Decimal::from_key_parts(kind, 0, &[]) {
        return Ok(value);
    }
    // Below zero all but the kind is complemented.
    let mask = if kind == NEGATIVE { !mask } else { mask };
    let [a, b, c] = masked(key, mask)?;
    let exponent = i32::from_be_bytes([0, a, b, c]) - DECIMAL_BIAS;
    let mut pairs = Vec::new();
    loop {
        match masked::<1>(key, mask)?[0] {
            TERMINATOR => break,
            byte => pairs.push(byte - 1),
        }
    }
    Decimal::from_key_parts(kind, exponent, &pairs).ok_or(no_decimal)
}

/// Bytes of the first column of `key`.
pub fn column_len(column: &KeyColumn, key: &[u8]) -> Result<usize, Malformed> {
    let (marker, rest) = key.split_first().ok_or(Malformed("key ends early"))?;
    if *marker == column.null_byte() {
        return Ok(1);
    }
    if *marker != PRESENT {
        return Err(Malformed("unknown null byte in a key"));
    }
    let len = match (column.ty, column.ty.fixed_len()) {
        (_, Some(len)) => len,
        (Type::Decimal, None) => {
            let mut after = rest;
            take_decimal(&mut after, column.mask())?;
            rest.len() - after.len()
        }
        _ => {
            let terminator = TERMINATOR ^ column.mask();
            let parts = 1 + usize::from(column.collation.as_ref().is_some_and(two_parts));
            let mut ends = rest.iter().enumerate().filter(|(_, byte)| **byte == terminator);
            ends.nth(parts - 1).map_or(rest.len(), |(at, _)| at) + 1
        }
    };
    if len > rest.len() { Err(Malformed("key ends early")) } else { Ok(1 + len) }
}

/// Does the text follow its sort key?
fn two_parts(collation: &Collation) -> bool {
    collation.is_deterministic()
}

fn take<const N: usize>(key: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (head, tail) = key.split_first_chunk().ok_or(Malformed("key ends early"))?;
    *key = tail;
    Ok(*head)
}

fn masked<const N: usize>(key: &mut &[u8], mask: u8) -> Result<[u8; N], Malformed> {
    Ok(take::<N>(key)?.map(|byte| byte ^ mask))
}

fn take_i32(key: &mut &[u8], mask: u8) -> Result<i32, Malformed> {
    Ok((u32::from_be_bytes(masked(key, mask)?) ^ 1 << 31).cast_signed())
}

fn take_i64(key: &mut &[u8], mask: u8) -> Result<i64, Malformed> {
    Ok((u64::from_be_bytes(masked(key, mask)?) ^ 1 << 63).cast_signed())
}

fn take_f32(key: &mut &[u8], mask: u8) -> Result<f32, Malformed> {
    let bits = u32::from_be_bytes(masked(key, mask)?);
    Ok(f32::from_bits(bits ^ if bits >> 31 == 1 { 1 << 31 } else { u32::MAX }))
}

fn take_f64(key: &mut &[u8], mask: u8) -> Result<f64, Malformed> {
    let bits = u64::from_be_bytes(masked(key, mask)?);
    Ok(f64::from_bits(bits ^ if bits >> 63 == 1 { 1 << 63 } else { u64::MAX }))
}

fn take_terminated(key: &mut &[u8], mask: u8) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::new();
    loop {
        match masked::<1>(key, mask)?[0] {
            TERMINATOR => return Ok(out),
            ESCAPE => out.push(match masked::<1>(key, mask)?[0] {
                ESCAPED_ZERO => TERMINATOR,
                ESCAPED_ONE => ESCAPE,
                _ => return Err(Malformed("unknown escape in a key")),
            }),
            byte => out.push(byte),
        }
    }
}
