//! Values as bytes, as PostgreSQL's binary formats have them: in COPY and on the wire.
//!
//! Invariants: big-endian; bytes of the wrong length are an error and never a panic.
//! Does not do: the length in front of a value.

use rightlink::RowId;
use rightlink::datum::{DATES, TIMESTAMPS};

use crate::error::{Result, SqlError, code};
use crate::types::decimal::MAX_FRACTION;
use crate::types::{Datum, Decimal, Interval, SqlType, calendar};

/// Sign of a numeric below zero.
const NEGATIVE: u16 = 0x4000;
/// Most digits after the point that are written and read.
const MAX_SCALE: u16 = MAX_FRACTION as u16;

impl Datum {
    /// The value's bytes; `None` for null.
    pub fn to_binary(&self) -> Option<Vec<u8>> {
        Some(match self {
            Datum::Null => return None,
            Datum::Bool(v) => vec![u8::from(*v)],
            Datum::Int2(v) => v.to_be_bytes().to_vec(),
            Datum::Int4(v) | Datum::Date(v) => v.to_be_bytes().to_vec(),
            Datum::Int8(v) | Datum::Timestamp(v) | Datum::Timestamptz(v) => {
                v.to_be_bytes().to_vec()
            }
            Datum::Float4(v) => v.to_be_bytes().to_vec(),
            Datum::Float8(v) => v.to_be_bytes().to_vec(),
            Datum::Numeric(v) => numeric(v),
            Datum::Text(v) => v.as_bytes().to_vec(),
            Datum::Bytes(v) => v.clone(),
            Datum::Uuid(v) => v.to_vec(),
            Datum::Interval(v) => {
                let mut out = v.micros.to_be_bytes().to_vec();
                out.extend(v.days.to_be_bytes());
                out.extend(v.months.to_be_bytes());
                out
            }
            Datum::Tid(v) => {
                let mut out = v.block.0.to_be_bytes().to_vec();
                out.extend(v.slot.to_be_bytes());
                out
            }
        })
    }

    /// Reads a value of type `ty`.
    ///
    /// # Errors
    /// Bytes that are none: `22P03`, or `22021` for text that is not UTF-8.
    pub fn from_binary(ty: SqlType, bytes: &[u8]) -> Result<Datum> {
        Ok(match ty {
            SqlType::Bool => Datum::Bool(fixed::<1>(bytes)?[0] != 0),
            SqlType::Int2 => Datum::Int2(i16::from_be_bytes(fixed(bytes)?)),
            SqlType::Int4 => Datum::Int4(i32::from_be_bytes(fixed(bytes)?)),
            SqlType::Int8 => Datum::Int8(i64::from_be_bytes(fixed(bytes)?)),
            SqlType::Float4 => Datum::Float4(f32::from_be_bytes(fixed(bytes)?)),
            SqlType::Float8 => Datum::Float8(f64::from_be_bytes(fixed(bytes)?)),
            SqlType::Date => {
                let days = i32::from_be_bytes(fixed(bytes)?);
                if calendar::is_finite_day(days) && !DATES.contains(&i64::from(days)) {
                    return Err(calendar::overflow("date out of range"));
                }
                Datum::Date(days)
            }
            SqlType::Timestamp => Datum::Timestamp(timestamp(bytes)?),
            SqlType::Timestamptz => Datum::Timestamptz(timestamp(bytes)?),
            SqlType::Text | SqlType::Unknown => Datum::Text(utf8(bytes.to_vec())?),
            SqlType::Bpchar => {
                let text = utf8(bytes.to_vec())?;
                Datum::Text(text.trim_end_matches(' ').to_owned())
            }
            SqlType::Bytea => Datum::Bytes(bytes.to_vec()),
            SqlType::Uuid => Datum::Uuid(fixed(bytes)?),
            SqlType::Numeric => Datum::Numeric(parse_numeric(bytes)?),
            SqlType::Interval => {
                let [m0, m1, m2, m3, m4, m5, m6, m7, d0, d1, d2, d3, n0, n1, n2, n3] =
                    fixed::<16>(bytes)?;
                Datum::Interval(Interval {
                    micros: i64::from_be_bytes([m0, m1, m2, m3, m4, m5, m6, m7]),
                    days: i32::from_be_bytes([d0, d1, d2, d3]),
                    months: i32::from_be_bytes([n0, n1, n2, n3]),
                })
            }
            SqlType::Tid => {
                let [a, b, c, d, e, f] = fixed::<6>(bytes)?;
                let block = u32::from_be_bytes([a, b, c, d]);
                Datum::Tid(RowId::new(block, u16::from_be_bytes([e, f])))
            }
        })
    }
}

fn timestamp(bytes: &[u8]) -> Result<i64> {
    let micros = i64::from_be_bytes(fixed(bytes)?);
    match calendar::is_finite(micros) && !TIMESTAMPS.contains(&micros) {
        true => Err(calendar::overflow("timestamp out of range")),
        false => Ok(micros),
    }
}

fn malformed() -> SqlError {
    SqlError::new(code::INVALID_BINARY, "incorrect binary data format")
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| malformed())
}

/// Text that must be UTF-8, and without a zero byte.
pub(crate) fn utf8(bytes: Vec<u8>) -> Result<String> {
    let bad = |what| {
        let message = format!("invalid byte sequence for encoding \"UTF8\"{what}");
        SqlError::new("22021", message)
    };
    let text = String::from_utf8(bytes).map_err(|_| bad(""))?;
    if text.contains('\0') { Err(bad(": 0x00")) } else { Ok(text) }
}

/// Digits of base 10000 around the point, with a weight, a sign and a scale in front.
fn numeric(value: &Decimal) -> Vec<u8> {
    // A literal may have more digits than a number on the wire.
    let rounded = (value.scale() > MAX_FRACTION).then(|| value.round(i32::from(MAX_SCALE)));
    let value = rounded.as_ref().unwrap_or(value);
    let text = value.abs().to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let padded = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
    let tail = format!("{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
    let group = |chunk: &[u8]| chunk.iter().fold(0u16, |sum, b| sum * 10 + u16::from(b - b'0'));
    let mut digits: Vec<u16> = padded.as_bytes().chunks(4).map(group).collect();
    let first = digits.len() as i32 - 1;
    digits.extend(tail.as_bytes().chunks(4).map(group));
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let leading = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..leading);
    let weight = if digits.is_empty() { 0 } else { first - leading as i32 };
    let mut out = (digits.len() as u16).to_be_bytes().to_vec();
    out.extend((weight as i16).to_be_bytes());
    out.extend(if value.is_negative() { NEGATIVE } else { 0 }.to_be_bytes());
    out.extend((value.scale() as u16).to_be_bytes());
    digits.iter().for_each(|digit| out.extend(digit.to_be_bytes()));
    out
}

fn parse_numeric(bytes: &[u8]) -> Result<Decimal> {
    let mut words = bytes.chunks(2).map(|pair| fixed::<2>(pair).map(u16::from_be_bytes));
    let mut word = || words.next().unwrap_or_else(|| Err(malformed()));
    let (count, weight, sign, scale) = (word()?, word()? as i16, word()?, word()?);
    if sign != 0 && sign != NEGATIVE {
        return Err(SqlError::unsupported("NaN or infinity as numeric"));
    }
    if bytes.len() != 8 + usize::from(count) * 2 || scale > MAX_SCALE {
        return Err(malformed());
    }
    let mut text = String::new();
    for _ in 0..count {
        let digit = word()?;
        if digit > 9_999 {
            return Err(malformed());
        }
        text.push_str(&format!("{digit:04}"));
    }
    let exponent = (i32::from(weight) + 1) * 4 - i32::from(count) * 4;
    let number = if text.is_empty() { "0".to_owned() } else { format!("{text}e{exponent}") };
    let value = Decimal::parse(&number).ok_or_else(malformed)?.round(i32::from(scale));
    Ok(if sign == NEGATIVE { value.negate() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let numbers = ["0", "0.00", "1", "-1.5", "12345.6789", "10000", "0.00001234", "99999999"];
        let mut values: Vec<Datum> =
            numbers.iter().map(|text| Datum::Numeric(Decimal::parse(text).unwrap())).collect();
        values.extend([
            Datum::Bool(true),
            Datum::Int2(-2),
            Datum::Float4(1.5),
            Datum::Text("é".into()),
            Datum::Interval(Interval { months: 1, days: -2, micros: 3 }),
            Datum::Tid(RowId::new(1 << 20, 7)),
        ]);
        for value in values {
            let bytes = value.to_binary().unwrap();
            let back = Datum::from_binary(value.type_of().unwrap(), &bytes).unwrap();
            assert_eq!(back.to_text(), value.to_text());
        }
    }

    /// What PostgreSQL sends for 12345.6789.
    #[test]
    fn a_numeric_has_postgresqls_bytes() {
        let bytes = Datum::Numeric(Decimal::parse("12345.6789").unwrap()).to_binary().unwrap();
        assert_eq!(bytes, [0, 3, 0, 1, 0, 0, 0, 4, 0, 1, 9, 41, 26, 133]);
    }

    /// As many digits as there can be, and more behind the point than PostgreSQL has.
    #[test]
    fn numerics_of_any_size_have_their_digits_counted() {
        let large = Decimal::parse(&"9".repeat(131_072)).unwrap();
        let bytes = Datum::Numeric(large.clone()).to_binary().unwrap();
        assert_eq!(bytes[..4], [0x80, 0, 0x7f, 0xff], "32,768 digits, the first of weight 32,767");
        let Datum::Numeric(back) = Datum::from_binary(SqlType::Numeric, &bytes).unwrap() else {
            panic!("a numeric")
        };
        assert_eq!(back, large);
        let long = large.add(&Decimal::parse("1e-131072").unwrap());
        let bytes = Datum::Numeric(long).to_binary().unwrap();
        assert_eq!(bytes[..8], [0x80, 0, 0x7f, 0xff, 0, 0, 0x3f, 0xff]);
        assert_eq!(bytes.len(), 8 + 2 * 32_768);
    }

    #[test]
    fn bytes_of_any_length_are_refused_or_read() {
        for ty in SqlType::ALL {
            for len in 0..40 {
                let _ = Datum::from_binary(ty, &vec![0xff; len]);
            }
        }
        assert_eq!(Datum::from_binary(SqlType::Int4, &[0; 3]).unwrap_err().sqlstate, "22P03");
    }
}
