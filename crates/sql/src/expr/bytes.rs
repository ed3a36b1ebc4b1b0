//! Functions over bytes: their spellings as text, and single bytes and bits.
//!
//! Invariants: text is UTF-8; `convert_to` and its kind know others.
//! Does not do: `md5` (`strings`).

use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use crate::encoding::Encoding;
use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::function::Registry;
use crate::expr::length::check_length;
use crate::expr::operators::mismatch;
use crate::expr::strings::hex;
use crate::types::text::parse_hex;
use crate::types::{Datum, SqlType};

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Characters of a line of base64.
const LINE: usize = 76;

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    registry.add("encode", &[T::Bytea, T::Text], T::Text, |v, context| match v {
        [Datum::Bytes(data), Datum::Text(name)] => encode(data, name, context).map(Datum::Text),
        _ => mismatch(v),
    });
    registry.add("decode", &[T::Text, T::Text], T::Bytea, |v, _| match v {
        [Datum::Text(text), Datum::Text(name)] => decode(text, name).map(Datum::Bytes),
        _ => mismatch(v),
    });
    registry.add("sha224", &[T::Bytea], T::Bytea, |v, _| Ok(digest::<Sha224>(v)));
    registry.add("sha256", &[T::Bytea], T::Bytea, |v, _| Ok(digest::<Sha256>(v)));
    registry.add("sha384", &[T::Bytea], T::Bytea, |v, _| Ok(digest::<Sha384>(v)));
    registry.add("sha512", &[T::Bytea], T::Bytea, |v, _| Ok(digest::<Sha512>(v)));
    registry.add("get_byte", &[T::Bytea, T::Int4], T::Int4, |v, _| {
        let (data, at) = (bytes(v), place(v, bytes(v).len())?);
        Ok(Datum::Int4(i32::from(data[at])))
    });
    registry.add("set_byte", &[T::Bytea, T::Int4, T::Int4], T::Bytea, |v, _| {
        let (mut data, at) = (bytes(v).to_vec(), place(v, bytes(v).len())?);
        data[at] = v[2].as_int().unwrap_or(0) as u8;
        Ok(Datum::Bytes(data))
    });
    registry.add("get_bit", &[T::Bytea, T::Int8], T::Int4, |v, _| {
        let at = place(v, bytes(v).len() * 8)?;
        Ok(Datum::Int4(i32::from(bytes(v)[at / 8] >> (at % 8) & 1)))
    });
    registry.add("set_bit", &[T::Bytea, T::Int8, T::Int4], T::Bytea, |v, _| {
        let (mut data, at) = (bytes(v).to_vec(), place(v, bytes(v).len() * 8)?);
        let mask = 1 << (at % 8);
        match v[2].as_int() {
            Some(0) => data[at / 8] &= !mask,
            Some(1) => data[at / 8] |= mask,
            _ => return Err(SqlError::new(code::INVALID_PARAMETER, "new bit must be 0 or 1")),
        }
        Ok(Datum::Bytes(data))
    });
    registry.add("bit_count", &[T::Bytea], T::Int8, |v, _| {
        Ok(Datum::Int8(bytes(v).iter().map(|byte| i64::from(byte.count_ones())).sum()))
    });
    registry.add("convert_to", &[T::Text, T::Text], T::Bytea, |v, _| match v {
        [Datum::Text(text), Datum::Text(name)] => {
            Ok(Datum::Bytes(encoding_named(name, "destination")?.encode(text)?.into_owned()))
        }
        _ => mismatch(v),
    });
    registry.add("convert_from", &[T::Bytea, T::Text], T::Text, |v, _| match v {
        [Datum::Bytes(data), Datum::Text(name)] => {
            let encoding = encoding_named(name, "source")?;
            match encoding.decode(data)? {
                text if text.contains('\0') => {
                    let name = encoding.name();
                    let message = format!("invalid byte sequence for encoding \"{name}\": 0x00");
                    Err(SqlError::new(code::BAD_CHARACTER, message))
                }
                text => Ok(Datum::Text(text.into_owned())),
            }
        }
        _ => mismatch(v),
    });
}

fn bytes(values: &[Datum]) -> &[u8] {
    match values {
        [Datum::Bytes(bytes), ..] => bytes,
        _ => mismatch(values),
    }
}

fn digest<D: Digest>(values: &[Datum]) -> Datum {
    Datum::Bytes(D::digest(bytes(values)).to_vec())
}

/// The second argument as a place below `length`.
fn place(values: &[Datum], length: usize) -> Result<usize> {
    let at = values[1].as_int().unwrap_or(-1);
    usize::try_from(at).ok().filter(|at| *at < length).ok_or_else(|| {
        let message = format!("index {at} out of valid range, 0..{}", length as i64 - 1);
        SqlError::new(code::SUBSCRIPT, message)
    })
}

fn encoding_named(name: &str, what: &str) -> Result<Encoding> {
    Encoding::named(name).ok_or_else(|| {
        let message = format!("invalid {what} encoding name \"{name}\"");
        SqlError::new(code::INVALID_PARAMETER, message)
    })
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(code::INVALID_PARAMETER, format!("unrecognized encoding: \"{name}\""))
}

/// Bytes as text.
fn encode(data: &[u8], name: &str, context: &Context) -> Result<String> {
    match name.to_ascii_lowercase().as_str() {
        "hex" => Ok(hex(data)),
        "base64" => {
            let length = data.len().div_ceil(3) * 4;
            let length = length + length.saturating_sub(1) / LINE;
            check_length(length)?;
            context.held.check_fits(length)?;
            Ok(base64(data))
        }
        "escape" => {
            check_length(data.len() * 4)?;
            context.held.check_fits(data.len() * 4)?;
            let mut out = String::new();
            for byte in data {
                match byte {
                    0 | 0x80.. => out.push_str(&format!("\\{byte:03o}")),
                    b'\\' => out.push_str("\\\\"),
                    plain => out.push(char::from(*plain)),
                }
            }
            Ok(out)
        }
        _ => Err(unknown(name)),
    }
}

fn base64(data: &[u8]) -> String {
    let mut out = String::new();
    for (at, three) in data.chunks(3).enumerate() {
        if at > 0 && at * 4 % LINE == 0 {
            out.push('\n');
        }
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for part in 0..4 {
            let sixth = (bits >> (18 - 6 * part) & 63) as usize;
            out.push(if part <= three.len() { char::from(BASE64[sixth]) } else { '=' });
        }
    }
    out
}

/// Text as bytes.
fn decode(text: &str, name: &str) -> Result<Vec<u8>> {
    match name.to_ascii_lowercase().as_str() {
        "hex" => parse_hex(text),
        "base64" => from_base64(text),
        "escape" => from_escapes(text),
        _ => Err(unknown(name)),
    }
}

fn from_base64(text: &str) -> Result<Vec<u8>> {
    let fails = |message: &str| Err(SqlError::new(code::INVALID_PARAMETER, message));
    let (mut out, mut bits, mut count, mut ends) = (Vec::new(), 0u32, 0, 0);
    for c in text.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r')) {
        let sixth = match c {
            '=' if ends > 0 || count >= 2 => {
                ends += 1;
                0
            }
            '=' => return fails("unexpected \"=\" while decoding base64 sequence"),
            _ => match BASE64.iter().position(|known| char::from(*known) == c) {
                Some(sixth) if ends == 0 => sixth as u32,
                _ => {
                    let message =
                        format!("invalid symbol \"{c}\" found while decoding base64 sequence");
                    return fails(&message);
                }
            },
        };
        (bits, count) = (bits << 6 | sixth, count + 1);
        if count == 4 {
            out.extend_from_slice(&bits.to_be_bytes()[1..4 - ends.min(2)]);
            (bits, count) = (0, 0);
        }
    }
    match count {
        0 => Ok(out),
        _ => fails("invalid base64 end sequence"),
    }
}

fn from_escapes(text: &str) -> Result<Vec<u8>> {
    let fails = || Err(SqlError::new(code::INVALID_TEXT, "invalid input syntax for type bytea"));
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        if *first != b'\\' {
            out.push(*first);
            rest = behind;
            continue;
        }
        let octal = |digit: u8, most: u8| (b'0'..=most).contains(&digit).then(|| digit - b'0');
        match behind {
            [b'\\', ..] => {
                out.push(b'\\');
                rest = &behind[1..];
            }
            [a, b, c, ..] => {
                let (Some(a), Some(b), Some(c)) =
                    (octal(*a, b'3'), octal(*b, b'7'), octal(*c, b'7'))
                else {
                    return fails();
                };
                out.push(a << 6 | b << 3 | c);
                rest = &behind[3..];
            }
            _ => return fails(),
        }
    }
    Ok(out)
}
