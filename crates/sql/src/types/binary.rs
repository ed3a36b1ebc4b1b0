//! Values as bytes, as PostgreSQL's binary formats have them: in COPY and on the wire.
//!
//! Invariants: big-endian; bytes of the wrong length are an error and never a panic.
//! Does not do: the length in front of a value.

use std::sync::Arc;

use rightlink::RowId;
use rightlink::internal::datum::{DATES, TIMESTAMPS};

use crate::encoding::Encoding;
use crate::error::{Result, SqlError, code};
use crate::types::{
    Bits, Datum, Decimal, ElementType, Interval, Lsn, Network, Registered, SqlType, Times,
    ZonedTime, array, calendar, text,
};

/// In front of the text of a `jsonb` and of a `jsonpath`.
const JSONB_VERSION: u8 = 1;
/// Sign of a numeric below zero.
const NEGATIVE: u16 = 0x4000;
/// In place of a sign: no number, infinity, minus infinity.
const STRANGE: [u16; 3] = [0xc000, 0xd000, 0xf000];

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
            Datum::Numeric(v) => numeric_bytes(v),
            Datum::Text(v) => v.as_bytes().to_vec(),
            Datum::Bytes(v) => v.clone(),
            Datum::Uuid(v) => v.to_vec(),
            Datum::Interval(v) => {
                let mut out = v.micros.to_be_bytes().to_vec();
                out.extend(v.days.to_be_bytes());
                out.extend(v.months.to_be_bytes());
                out
            }
            Datum::Time(v) => v.to_be_bytes().to_vec(),
            Datum::Timetz(v) => v.to_bytes(),
            Datum::Json(v) => v.as_bytes().to_vec(),
            Datum::Jsonb(_) | Datum::Jsonpath(_) => {
                let mut out = char::from(JSONB_VERSION).to_string();
                self.write_text_in(&Times::utc(), &mut out);
                out.into_bytes()
            }
            Datum::Inet(v) => v.to_binary(false),
            Datum::Cidr(v) => v.to_binary(true),
            Datum::Bit(v) | Datum::Varbit(v) => v.to_binary(),
            Datum::Lsn(v) => v.0.to_be_bytes().to_vec(),
            Datum::Tid(v) => {
                let mut out = v.block.0.to_be_bytes().to_vec();
                out.extend(v.slot.to_be_bytes());
                out
            }
            Datum::Oid(v) => v.to_be_bytes().to_vec(),
            Datum::Char(v) => vec![*v],
            Datum::Reg(v) => v.oid.to_be_bytes().to_vec(),
            Datum::Enum(v) => v.label().as_bytes().to_vec(),
            Datum::Array(v) | Datum::Vector(v) => array::to_binary(v),
            Datum::Record(v) => v.to_binary(),
        })
    }

    /// As [`Datum::to_binary`] for a client whose text is in `encoding`.
    ///
    /// # Errors
    /// A character that the encoding lacks (`22P05`), or that stands within an array or a row
    /// (`0A000`).
    pub fn to_binary_in(&self, encoding: Encoding) -> Result<Option<Vec<u8>>> {
        if encoding.is_same() {
            return Ok(self.to_binary());
        }
        match self {
            Datum::Text(text) | Datum::Json(text) => {
                encoding.encode(text).map(|bytes| Some(bytes.into_owned()))
            }
            Datum::Enum(_) => {
                let text = self.to_text().unwrap_or_default();
                encoding.encode(&text).map(|bytes| Some(bytes.into_owned()))
            }
            Datum::Array(_) | Datum::Record(_) | Datum::Jsonb(_)
                if self.to_text().is_some_and(|text| !text.is_ascii()) =>
            {
                let what = format!("the binary form of this value in {}", encoding.name());
                Err(SqlError::unsupported(what))
            }
            _ => Ok(self.to_binary()),
        }
    }

    /// As [`Datum::from_binary`] of a client whose text is in `encoding`.
    ///
    /// # Errors
    /// As [`Datum::from_binary`]; bytes that are no text of the encoding (`22021`).
    pub fn from_binary_in(ty: SqlType, bytes: &[u8], encoding: Encoding) -> Result<Datum> {
        let is_text = matches!(
            ty,
            SqlType::Text | SqlType::Bpchar | SqlType::Name | SqlType::Json | SqlType::Enum(_)
        );
        if is_text && !encoding.is_same() {
            return Datum::from_binary(ty, encoding.decode(bytes)?.as_bytes());
        }
        Datum::from_binary(ty, bytes)
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
            SqlType::Time => Datum::Time(time_of_day(fixed(bytes)?)?),
            SqlType::Timetz => {
                let [m0, m1, m2, m3, m4, m5, m6, m7, z0, z1, z2, z3] = fixed::<12>(bytes)?;
                let micros = time_of_day([m0, m1, m2, m3, m4, m5, m6, m7])?;
                let west = i32::from_be_bytes([z0, z1, z2, z3]);
                if !(-MOST_OFFSET..=MOST_OFFSET).contains(&west) {
                    let message = "time zone displacement out of range";
                    return Err(SqlError::new(code::ZONE_OVERFLOW, message));
                }
                Datum::Timetz(ZonedTime { micros, offset: -west })
            }
            SqlType::Json => Datum::from_text(ty, &utf8(bytes.to_vec())?)?,
            SqlType::Jsonb | SqlType::Jsonpath => match bytes.split_first() {
                Some((&JSONB_VERSION, rest)) => Datum::from_text(ty, &utf8(rest.to_vec())?)?,
                Some((version, _)) => {
                    let message = format!("unsupported {} version number {version}", ty.name());
                    return Err(SqlError::new(code::INTERNAL, message));
                }
                None => return Err(malformed()),
            },
            SqlType::Inet => Datum::Inet(Network::from_binary(bytes, ty)?),
            SqlType::Cidr => Datum::Cidr(Network::from_binary(bytes, ty)?),
            SqlType::Bit => Datum::Bit(Bits::from_binary(bytes)?),
            SqlType::Varbit => Datum::Varbit(Bits::from_binary(bytes)?),
            SqlType::Lsn => Datum::Lsn(Lsn(u64::from_be_bytes(fixed(bytes)?))),
            SqlType::Tid => {
                let [a, b, c, d, e, f] = fixed::<6>(bytes)?;
                let block = u32::from_be_bytes([a, b, c, d]);
                Datum::Tid(RowId::new(block, u16::from_be_bytes([e, f])))
            }
            SqlType::Oid => Datum::Oid(u32::from_be_bytes(fixed(bytes)?)),
            SqlType::Name => Datum::Text(text::name(&utf8(bytes.to_vec())?)),
            SqlType::Char => Datum::Char(fixed::<1>(bytes)?[0]),
            SqlType::Reg(kind) => Registered::datum(kind, u32::from_be_bytes(fixed(bytes)?), None),
            SqlType::Int2Vector | SqlType::OidVector => {
                let plain = if ty == SqlType::Int2Vector { SqlType::Int2 } else { SqlType::Oid };
                let element = ElementType::of(plain).expect("numbers are elements");
                Datum::Vector(Arc::new(array::from_binary(element, bytes)?))
            }
            SqlType::Enum(ty) => ty.parse(&utf8(bytes.to_vec())?)?,
            SqlType::Composite(ty) => ty.read_binary(bytes)?,
            SqlType::Record => return Err(text::no_record()),
            SqlType::Void => Datum::Text(String::new()),
            SqlType::Array(element) => array::from_binary(element, bytes)?.into(),
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

/// Seconds of the largest offset of a zone.
const MOST_OFFSET: i32 = 16 * 3_600 - 1;

fn time_of_day(bytes: [u8; 8]) -> Result<i64> {
    let micros = i64::from_be_bytes(bytes);
    match (0..=calendar::MICROS_PER_DAY).contains(&micros) {
        true => Ok(micros),
        false => Err(calendar::overflow("time out of range")),
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
fn numeric_bytes(value: &Decimal) -> Vec<u8> {
    let sign = match (value.is_finite(), value.is_negative()) {
        (true, negative) => u16::from(negative) * NEGATIVE,
        (false, _) if value.is_nan() => STRANGE[0],
        (false, negative) => STRANGE[1 + usize::from(negative)],
    };
    // Two pairs make a digit, from the point on.
    let (exponent, pairs) = (value.exponent(), value.pairs());
    let (first, rest) = pairs.split_at(pairs.len().min(1 + exponent.rem_euclid(2) as usize));
    let digit =
        |pairs: &[u8]| u16::from(pairs[0]) * 100 + pairs.get(1).copied().map_or(0, u16::from);
    let mut digits = Vec::with_capacity(pairs.len() / 2 + 1);
    match first {
        [] => {}
        [alone] if exponent.rem_euclid(2) == 0 => digits.push(u16::from(*alone)),
        both => digits.push(digit(both)),
    }
    digits.extend(rest.chunks(2).map(digit));
    let mut out = (digits.len() as u16).to_be_bytes().to_vec();
    out.extend((exponent.div_euclid(2) as i16).to_be_bytes());
    out.extend(sign.to_be_bytes());
    out.extend(value.scale().to_be_bytes());
    digits.iter().for_each(|digit| out.extend(digit.to_be_bytes()));
    out
}

/// Digits beyond the scale are cut, as PostgreSQL does.
fn parse_numeric(bytes: &[u8]) -> Result<Decimal> {
    let mut words = bytes.chunks(2).map(|pair| fixed::<2>(pair).map(u16::from_be_bytes));
    let mut word = || words.next().unwrap_or_else(|| Err(malformed()));
    let (count, weight, sign, scale) = (word()?, word()? as i16, word()?, word()?);
    match STRANGE.iter().position(|known| *known == sign) {
        Some(0) => return Ok(Decimal::nan()),
        Some(at) => return Ok(Decimal::infinity(at == 2)),
        None => {}
    }
    let known = sign == 0 || sign == NEGATIVE;
    if !known || bytes.len() != 8 + usize::from(count) * 2 || scale > Decimal::MAX_SCALE {
        return Err(malformed());
    }
    let mut pairs = Vec::with_capacity(usize::from(count) * 2);
    for _ in 0..count {
        let digit = word()?;
        if digit > 9_999 {
            return Err(malformed());
        }
        pairs.extend([(digit / 100) as u8, (digit % 100) as u8]);
    }
    let exponent = i32::from(weight) * 2 + 1;
    // Pairs that the scale shows, the last of them perhaps in part.
    let shown = usize::try_from(exponent + 1 + i32::from(scale.div_ceil(2))).unwrap_or(0);
    pairs.truncate(shown);
    if let Some(last) = pairs.get_mut(shown.wrapping_sub(1))
        && scale % 2 == 1
    {
        *last -= *last % 10;
    }
    Decimal::from_pairs(sign == NEGATIVE, exponent, &pairs, scale).ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let numbers = ["0", "0.00", "1", "-1.5", "12345.6789", "10000", "0.00001234", "99999999"];
        let mut values: Vec<Datum> =
            numbers.iter().map(|text| Datum::Numeric(text.parse().unwrap())).collect();
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
        let bytes = Datum::Numeric("12345.6789".parse().unwrap()).to_binary().unwrap();
        assert_eq!(bytes, [0, 3, 0, 1, 0, 0, 0, 4, 0, 1, 9, 41, 26, 133]);
    }

    /// What PostgreSQL's functions of sending give.
    #[test]
    fn addresses_and_bits_have_postgresqls_bytes() {
        for (ty, text, bytes) in [
            (SqlType::Inet, "10.1.2.3/24", "\\x021800040a010203"),
            (SqlType::Inet, "::1", "\\x0380001000000000000000000000000000000001"),
            (SqlType::Cidr, "10/8", "\\x020801040a000000"),
            (SqlType::Bit, "101", "\\x00000003a0"),
            (SqlType::Varbit, "111111111", "\\x00000009ff80"),
            (SqlType::Varbit, "", "\\x00000000"),
            (SqlType::Lsn, "1/A", "\\x000000010000000a"),
        ] {
            let value = Datum::from_text(ty, text).unwrap();
            let sent = value.to_binary().unwrap();
            assert_eq!(Datum::Bytes(sent.clone()).to_text().as_deref(), Some(bytes));
            assert_eq!(Datum::from_binary(ty, &sent).unwrap(), value);
        }
        // Bits behind the mask, another family, and too few bytes for the length.
        for (ty, bytes) in [
            (SqlType::Cidr, &[2, 8, 1, 4, 10, 0, 0, 1][..]),
            (SqlType::Inet, &[4, 8, 0, 4, 10, 0, 0, 1]),
            (SqlType::Inet, &[2, 33, 0, 4, 10, 0, 0, 1]),
            (SqlType::Inet, &[2, 8, 0, 16, 10, 0, 0, 1]),
            (SqlType::Bit, &[0xff, 0xff, 0xff, 0xff]),
        ] {
            assert_eq!(Datum::from_binary(ty, bytes).unwrap_err().sqlstate, "22P03");
        }
    }

    /// As many digits as there can be, in front of the point and behind it.
    #[test]
    fn numerics_of_any_size_have_their_digits_counted() {
        let large: Decimal = "9".repeat(131_072).parse().unwrap();
        let bytes = Datum::Numeric(large.clone()).to_binary().unwrap();
        assert_eq!(bytes[..4], [0x80, 0, 0x7f, 0xff], "32,768 digits, the first of weight 32,767");
        let Datum::Numeric(back) = Datum::from_binary(SqlType::Numeric, &bytes).unwrap() else {
            panic!("a numeric")
        };
        assert_eq!(back, large);
        let long = format!("{large}.{:016382}1", 0).parse().unwrap();
        let bytes = Datum::Numeric(long).to_binary().unwrap();
        assert_eq!(bytes[..8], [0x90, 0, 0x7f, 0xff, 0, 0, 0x3f, 0xff]);
        assert_eq!(bytes.len(), 8 + 2 * (32_768 + 4_096));
        let back = Datum::from_binary(SqlType::Numeric, &bytes).unwrap();
        assert_eq!(back.to_binary().unwrap(), bytes);
    }

    /// PostgreSQL 15 cuts them.
    #[test]
    fn digits_beyond_the_scale_are_cut() {
        for (digits, scale, shown) in [
            ([1, 9_999], 3, "1.999"),
            ([1, 9_999], 1, "1.9"),
            ([1, 9_999], 0, "1"),
            ([0, 9], 2, "0.00"),
        ] {
            let mut bytes = vec![0, 2, 0, 0, 0, 0, 0, scale];
            digits.iter().for_each(|digit: &u16| bytes.extend(digit.to_be_bytes()));
            let value = Datum::from_binary(SqlType::Numeric, &bytes).unwrap();
            assert_eq!(value.to_text().as_deref(), Some(shown));
        }
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
