//! Values to key bytes.
//!
//! Invariants: see the head of the module. The caller has checked that values fit their columns; a
//! value of another type is a programmer's error and panics.

use super::{
    DECIMAL_BIAS, ESCAPE, ESCAPED_ONE, ESCAPED_ZERO, KeyColumn, MAX_ENCODED, PRESENT, TERMINATOR,
};
use crate::collation::Collation;
use crate::datum::{Decimal, Value, normal_float4, normal_float8};
use crate::error::{Error, Result};

/// Encodes a whole key. A key beyond the limit is refused.
pub fn encode(columns: &[KeyColumn], values: &[Value]) -> Result<Vec<u8>> {
    assert_eq!(columns.len(), values.len(), "a key has one value per column");
    let out = encode_prefix(columns, values);
    if out.len() > MAX_ENCODED {
        let len = out.len();
        return Err(Error::RowTooLarge(format!(
            "key of {len} bytes; at most {MAX_ENCODED} are possible"
        )));
    }
    Ok(out)
}

/// Encodes the first columns of a key, as many as there are `values`. It may be longer than any key
/// that is kept: then no key begins with it.
pub fn encode_prefix(columns: &[KeyColumn], values: &[Value]) -> Vec<u8> {
    assert!(values.len() <= columns.len(), "a prefix has no more columns than the key");
    let mut out = Vec::with_capacity(values.len() * 9);
    for (column, value) in columns.iter().zip(values) {
        encode_column(&mut out, column, value);
    }
    out
}

/// Appends one column to `out`. Does not check the length of the key.
pub fn encode_column(out: &mut Vec<u8>, column: &KeyColumn, value: &Value) {
    assert!(value.fits(column.ty), "a key column of type {} cannot hold {value:?}", column.ty);
    if value.is_null() {
        out.push(column.null_byte());
        return;
    }
    out.push(PRESENT);
    let start = out.len();
    match (value, &column.collation) {
        (Value::Text(text), Some(collation)) => push_collated(out, collation, text),
        _ => push_value(out, value),
    }
    if column.descending {
        out[start..].iter_mut().for_each(|byte| *byte ^= 0xFF);
    }
}

fn push_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => unreachable!("nulls have no value bytes"),
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::Int2(v) => out.extend_from_slice(&(v.cast_unsigned() ^ 1 << 15).to_be_bytes()),
        Value::Int4(v) | Value::Date(v) => {
            out.extend_from_slice(&(v.cast_unsigned() ^ 1 << 31).to_be_bytes());
        }
        Value::Int8(v) | Value::Timestamp(v) | Value::TimestampTz(v) | Value::Time(v) => {
            out.extend_from_slice(&(v.cast_unsigned() ^ 1 << 63).to_be_bytes());
        }
        Value::Float4(v) => {
            let bits = normal_float4(*v).to_bits();
            let flip = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
            out.extend_from_slice(&(bits ^ flip).to_be_bytes());
        }
        Value::Float8(v) => {
            let bits = normal_float8(*v).to_bits();
            let flip = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
            out.extend_from_slice(&(bits ^ flip).to_be_bytes());
        }
        Value::Uuid(v) => out.extend_from_slice(v),
        Value::Interval(v) => {
            out.extend_from_slice(&(v.total_micros().cast_unsigned() ^ 1 << 127).to_be_bytes());
        }
        Value::Decimal(v) => push_decimal(out, v),
        Value::Text(v) | Value::Json(v) => push_terminated(out, v.as_bytes()),
        Value::Bytes(v) => push_terminated(out, v),
    }
}

/// The sort key, and the text itself where that tells equal ones apart.
fn push_collated(out: &mut Vec<u8>, collation: &Collation, text: &str) {
    let start = out.len();
    if collation.push_weights(text, out) {
        let weights = out.split_off(start);
        push_escaped(out, &weights);
    }
    debug_assert!(!out[start..].contains(&TERMINATOR), "a sort key ends where it says");
    out.push(TERMINATOR);
    if collation.is_deterministic() {
        push_terminated(out, text.as_bytes());
    }
}

/// Kind, exponent, pairs of digits, terminator; all but the kind complemented below zero.
fn push_decimal(out: &mut Vec<u8>, value: &Decimal) {
    let pairs = value.pairs();
    out.push(value.kind());
    if pairs.is_empty() {
        return;
    }
    let start = out.len();
    let exponent = (value.exponent() + DECIMAL_BIAS).cast_unsigned().to_be_bytes();
    assert_eq!(exponent[0], 0, "exponents of decimals are small");
    out.extend_from_slice(&exponent[1..]);
    out.extend(pairs.iter().map(|pair| pair + 1));
    out.push(TERMINATOR);
    if value.is_negative() {
        out[start..].iter_mut().for_each(|byte| *byte ^= 0xFF);
    }
}

fn push_terminated(out: &mut Vec<u8>, bytes: &[u8]) {
    push_escaped(out, bytes);
    out.push(TERMINATOR);
}

/// Appends `bytes` so that neither the terminator nor a lone escape occurs in them.
pub(super) fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + 1);
    let mut rest = bytes;
    // Most values have no such byte and are copied in one piece.
    while let Some(at) = rest.iter().position(|byte| *byte <= ESCAPE) {
        out.extend_from_slice(&rest[..at]);
        let escaped = if rest[at] == TERMINATOR { ESCAPED_ZERO } else { ESCAPED_ONE };
        out.extend_from_slice(&[ESCAPE, escaped]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}
