//! Values from and to text, with PostgreSQL's forms and complaints.
//!
//! Invariants: what [`Datum::to_text`] prints, [`parse`] reads back as an equal value.
//! Does not do: the texts of dates and times themselves (`time`).

use std::fmt::Write;
use std::sync::Arc;

use rightlink::internal::datum::{self, DateTimeError, DecimalError, IntervalFields, LeadingSign};
use rightlink::{RowId, Value};

use crate::error::{Result, SqlError, code};
use crate::types::time::{self, IntervalStyle, Refusal, Times};
use crate::types::{
    Array, Bits, Category, Datum, ElementType, JsonPath, Jsonb, Lsn, Network, Registered, SqlType,
    array_text, json, numeric,
};

impl Datum {
    /// Reads a value of type `ty` as PostgreSQL reads it, in the zone UTC and its usual styles.
    ///
    /// # Errors
    /// Text that is none: `22P02` and its siblings.
    pub fn from_text(ty: SqlType, text: &str) -> Result<Datum> {
        parse(ty, text, &Times::utc())
    }

    /// As [`Datum::from_text`] in the zone and the styles of a session.
    ///
    /// # Errors
    /// Text that is none: `22P02` and its siblings.
    pub fn from_text_in(ty: SqlType, text: &str, times: &Times) -> Result<Datum> {
        parse(ty, text, times)
    }

    /// The value as PostgreSQL prints it in the zone UTC and its usual styles; `None` for null.
    pub fn to_text(&self) -> Option<String> {
        self.to_text_in(&Times::utc())
    }

    /// As [`Datum::to_text`] in the zone and the styles of a session.
    pub fn to_text_in(&self, times: &Times) -> Option<String> {
        let of_time = |write: &dyn Fn(&mut String)| {
            let mut out = String::new();
            write(&mut out);
            out
        };
        Some(match self {
            Datum::Null => return None,
            Datum::Bool(v) => if *v { "t" } else { "f" }.to_owned(),
            Datum::Int2(v) => v.to_string(),
            Datum::Int4(v) => v.to_string(),
            Datum::Int8(v) => v.to_string(),
            Datum::Float4(v) => Value::Float4(*v).to_string(),
            Datum::Float8(v) => Value::Float8(*v).to_string(),
            Datum::Numeric(v) => v.to_string(),
            Datum::Text(v) => v.clone(),
            Datum::Bytes(v) => hex(v),
            Datum::Uuid(v) => Value::Uuid(*v).to_string(),
            Datum::Date(v) => of_time(&|out| time::date(*v, &times.styles, out)),
            Datum::Timestamp(v) => of_time(&|out| time::timestamp(*v, false, times, out)),
            Datum::Timestamptz(v) => of_time(&|out| time::timestamp(*v, true, times, out)),
            Datum::Interval(v) => of_time(&|out| time::interval(*v, times.styles.intervals, out)),
            Datum::Time(v) => of_time(&|out| time::time(*v, out)),
            Datum::Timetz(v) => of_time(&|out| time::timetz(*v, out)),
            Datum::Json(v) => v.clone(),
            Datum::Jsonb(v) => v.to_text(),
            Datum::Jsonpath(v) => v.to_string(),
            Datum::Inet(v) => v.to_text(false),
            Datum::Cidr(v) => v.to_text(true),
            Datum::Bit(v) | Datum::Varbit(v) => v.to_text(),
            Datum::Lsn(v) => v.to_string(),
            Datum::Tid(v) => format!("({},{})", v.block.0, v.slot),
            Datum::Oid(v) => v.to_string(),
            Datum::Char(v) => char_text(*v),
            Datum::Reg(v) => v.shown.clone(),
            Datum::Vector(v) => {
                let all: Vec<String> = v.values().iter().filter_map(Datum::to_text).collect();
                all.join(" ")
            }
            Datum::Enum(v) => v.label().to_owned(),
            Datum::Array(v) => {
                let mut out = String::new();
                array_text::write(v, times, &mut out);
                out
            }
            Datum::Record(v) => {
                let mut out = String::new();
                v.write_text(times, &mut out);
                out
            }
        })
    }

    /// As [`Datum::to_text`], appended; null appends nothing.
    pub fn write_text(&self, out: &mut String) {
        self.write_text_in(&Times::utc(), out);
    }

    /// As [`Datum::to_text_in`], appended; null appends nothing.
    pub fn write_text_in(&self, times: &Times, out: &mut String) {
        let written = match self {
            Datum::Int2(v) => write!(out, "{v}"),
            Datum::Int4(v) => write!(out, "{v}"),
            Datum::Int8(v) => write!(out, "{v}"),
            Datum::Text(v) | Datum::Json(v) => {
                out.push_str(v);
                Ok(())
            }
            Datum::Enum(v) => {
                out.push_str(v.label());
                Ok(())
            }
            Datum::Jsonb(v) => {
                v.write_text(out);
                Ok(())
            }
            Datum::Array(v) => {
                array_text::write(v, times, out);
                Ok(())
            }
            other => {
                out.push_str(other.to_text_in(times).as_deref().unwrap_or(""));
                Ok(())
            }
        };
        written.expect("writing to a string succeeds");
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 + bytes.len() * 2);
    out.push_str("\\x");
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    out.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
    out
}

fn invalid(ty: SqlType, text: &str) -> SqlError {
    let message = format!("invalid input syntax for type {}: \"{text}\"", ty.name());
    let sqlstate = match ty.category() {
        Category::DateTime | Category::Timespan => code::INVALID_DATETIME,
        _ => code::INVALID_TEXT,
    };
    SqlError::new(sqlstate, message)
}

fn out_of_range(ty: SqlType, text: &str) -> SqlError {
    let message = format!("value \"{text}\" is out of range for type {}", ty.name());
    SqlError::new(code::NUMERIC_OUT_OF_RANGE, message)
}

/// The fields of a row are known where it is made, and nowhere else.
pub(super) fn no_record() -> SqlError {
    let message = "input of anonymous composite types is not implemented";
    SqlError::new(code::FEATURE_NOT_SUPPORTED, message)
}

/// Reads a value of type `ty`.
pub(crate) fn parse(ty: SqlType, text: &str, times: &Times) -> Result<Datum> {
    let trimmed = datum::trimmed(text);
    match ty {
        SqlType::Text | SqlType::Unknown => Ok(Datum::Text(text.to_owned())),
        SqlType::Bpchar => Ok(Datum::Text(text.trim_end_matches(' ').to_owned())),
        SqlType::Bool => parse_bool(trimmed).map(Datum::Bool).ok_or_else(|| invalid(ty, text)),
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => parse_int(ty, trimmed, text),
        SqlType::Float4 | SqlType::Float8 => parse_float(ty, trimmed, text),
        SqlType::Numeric => match numeric::parse(trimmed) {
            Ok(number) => Ok(Datum::Numeric(number)),
            Err(error) if error.sqlstate == code::INVALID_TEXT => Err(invalid(ty, text)),
            Err(error) => Err(error),
        },
        SqlType::Bytea => parse_bytes(text).map(Datum::Bytes),
        SqlType::Interval => interval(text, IntervalFields::All, times),
        SqlType::Date => of_time(ty, text, time::read_date(text, times).map(Datum::Date)),
        SqlType::Timestamp => {
            of_time(ty, text, time::read_timestamp(text, times).map(Datum::Timestamp))
        }
        SqlType::Time => of_time(ty, text, time::read_time(text, times).map(Datum::Time)),
        SqlType::Timetz => of_time(ty, text, time::read_timetz(text, times).map(Datum::Timetz)),
        SqlType::Timestamptz => {
            of_time(ty, text, time::read_timestamptz(text, times).map(Datum::Timestamptz))
        }
        SqlType::Json => {
            json::check(text)?;
            Ok(Datum::Json(text.to_owned()))
        }
        SqlType::Jsonb => Jsonb::parse(text).map(Datum::Jsonb),
        SqlType::Jsonpath => JsonPath::parse(text).map(|path| Datum::Jsonpath(Arc::new(path))),
        SqlType::Inet => Network::parse(text, ty).map(Datum::Inet),
        SqlType::Cidr => Network::parse(text, ty).map(Datum::Cidr),
        SqlType::Bit => Bits::parse(text).map(Datum::Bit),
        SqlType::Varbit => Bits::parse(text).map(Datum::Varbit),
        SqlType::Lsn => Lsn::parse(text).map(Datum::Lsn).ok_or_else(|| invalid(ty, text)),
        SqlType::Tid => parse_tid(trimmed).map(Datum::Tid).ok_or_else(|| invalid(ty, text)),
        SqlType::Uuid => {
            let value = Value::parse(rightlink::Type::Uuid, text);
            value.map(Datum::from).map_err(|_| invalid(ty, text))
        }
        SqlType::Oid => parse_oid(trimmed, text).map(Datum::Oid),
        SqlType::Name => Ok(Datum::Text(name(text))),
        SqlType::Char => Ok(Datum::Char(parse_char(text))),
        // Their names are looked up where there are catalogs to look in.
        SqlType::Reg(kind) => match trimmed {
            "-" => Ok(Registered::datum(kind, 0, None)),
            digits => parse_oid(digits, text).map(|oid| Registered::datum(kind, oid, None)),
        },
        SqlType::Int2Vector => vector(SqlType::Int2, trimmed),
        SqlType::OidVector => vector(SqlType::Oid, trimmed),
        SqlType::Enum(ty) => ty.parse(text),
        SqlType::Composite(ty) => ty.parse(text, times),
        SqlType::Record => Err(no_record()),
        SqlType::Void => Ok(Datum::Text(String::new())),
        SqlType::Array(element) => array_text::parse(element, text, times).map(Datum::from),
    }
}

/// The number of an object; one below zero counts from the end, as PostgreSQL reads it.
fn parse_oid(trimmed: &str, text: &str) -> Result<u32> {
    let (whole, least) = (i64::from(u32::MAX), i64::from(i32::MIN));
    match trimmed.parse::<i64>() {
        Ok(number) if (least..=whole).contains(&number) => Ok(number as u32),
        Ok(_) => Err(out_of_range(SqlType::Oid, text)),
        Err(_) => Err(invalid(SqlType::Oid, text)),
    }
}

/// As much of a text as a name holds.
pub(crate) fn name(text: &str) -> String {
    const MOST: usize = 63;
    let ends = (0..=text.len().min(MOST)).rev().find(|at| text.is_char_boundary(*at));
    text[..ends.unwrap_or(0)].to_owned()
}

/// The byte of a `"char"`: the first, or that of three octal digits behind a backslash.
fn parse_char(text: &str) -> u8 {
    match text.as_bytes() {
        [b'\\', digits @ ..] if digits.len() == 3 => {
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            u8::from_str_radix(digits, 8).unwrap_or(b'\\')
        }
        bytes => bytes.first().copied().unwrap_or(0),
    }
}

fn char_text(byte: u8) -> String {
    match byte {
        0 => String::new(),
        1..=127 => char::from(byte).to_string(),
        _ => format!("\\{byte:03o}"),
    }
}

/// Numbers with blanks between them.
fn vector(ty: SqlType, text: &str) -> Result<Datum> {
    let times = Times::utc();
    let values =
        text.split_whitespace().map(|one| parse(ty, one, &times)).collect::<Result<_>>()?;
    Datum::vector(ty, values)
}

impl Datum {
    /// An `int2vector` or an `oidvector` of these values.
    pub(crate) fn vector(ty: SqlType, values: Vec<Datum>) -> Result<Datum> {
        let element = ElementType::of(ty).expect("numbers are elements");
        Ok(Datum::Vector(Arc::new(Array::from_first(element, 0, values)?)))
    }
}

/// Reads an interval of which a literal names the parts.
pub(crate) fn interval(text: &str, fields: IntervalFields, times: &Times) -> Result<Datum> {
    let signs = match times.styles.intervals {
        IntervalStyle::SqlStandard => LeadingSign::OfAll,
        _ => LeadingSign::OfOne,
    };
    let span = datum::read_interval(text, fields, signs);
    span.map(Datum::Interval).map_err(|error| match error {
        DateTimeError::FieldRange => {
            let message = format!("interval field value out of range: \"{text}\"");
            SqlError::new(code::INTERVAL_OVERFLOW, message)
        }
        DateTimeError::OutOfRange => {
            SqlError::new(code::DATETIME_OVERFLOW, "interval out of range")
        }
        DateTimeError::Syntax | DateTimeError::ZoneRange => invalid(SqlType::Interval, text),
    })
}

/// A date or time with the error for text that is none.
fn of_time(ty: SqlType, text: &str, read: std::result::Result<Datum, Refusal>) -> Result<Datum> {
    let refused = |sqlstate, what: &str| SqlError::new(sqlstate, format!("{what}: \"{text}\""));
    let of_field = || refused(code::DATETIME_OVERFLOW, "date/time field value out of range");
    read.map_err(|refusal| match refusal {
        Refusal::Syntax => invalid(ty, text),
        Refusal::FieldRange => of_field(),
        Refusal::MonthOrDayRange => {
            of_field().hint("Perhaps you need a different \"datestyle\" setting.")
        }
        Refusal::OutOfRange if ty == SqlType::Date => {
            refused(code::DATETIME_OVERFLOW, "date out of range")
        }
        Refusal::OutOfRange => refused(code::DATETIME_OVERFLOW, "timestamp out of range"),
        Refusal::ZoneRange => refused(code::ZONE_OVERFLOW, "time zone displacement out of range"),
        Refusal::NoZone(name) => time::no_zone(&name),
    })
}

fn parse_bool(text: &str) -> Option<bool> {
    let lower = text.to_ascii_lowercase();
    let abbreviates = |word: &str, least: usize| lower.len() >= least && word.starts_with(&*lower);
    if abbreviates("true", 1) || abbreviates("yes", 1) || lower == "on" || lower == "1" {
        return Some(true);
    }
    let no = abbreviates("false", 1) || abbreviates("no", 1) || abbreviates("off", 2);
    (no || lower == "0").then_some(false)
}

fn parse_int(ty: SqlType, trimmed: &str, text: &str) -> Result<Datum> {
    let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(invalid(ty, text));
    }
    let value = trimmed.parse::<i64>().ok();
    let datum = value.and_then(|value| match ty {
        SqlType::Int2 => i16::try_from(value).ok().map(Datum::Int2),
        SqlType::Int4 => i32::try_from(value).ok().map(Datum::Int4),
        _ => Some(Datum::Int8(value)),
    });
    datum.ok_or_else(|| out_of_range(ty, text))
}

fn parse_float(ty: SqlType, trimmed: &str, text: &str) -> Result<Datum> {
    let kind = ty.to_column().expect("the store has floats");
    if let Ok(value) = Value::parse(kind, trimmed) {
        let vanished = Datum::from(value.clone()).as_float() == Some(0.0)
            && trimmed
                .bytes()
                .take_while(|b| !b.eq_ignore_ascii_case(&b'e'))
                .any(|b| (b'1'..=b'9').contains(&b));
        return if vanished { Err(float_range(ty, text)) } else { Ok(value.into()) };
    }
    if trimmed.parse::<rightlink::Decimal>() != Err(DecimalError::Syntax) {
        Err(float_range(ty, text))
    } else {
        Err(invalid(ty, text))
    }
}

fn float_range(ty: SqlType, text: &str) -> SqlError {
    let message = format!("\"{text}\" is out of range for type {}", ty.name());
    SqlError::new(code::NUMERIC_OUT_OF_RANGE, message)
}

/// `\x` and hex digits, or characters with `\\` and `\ooo` as escapes.
fn parse_bytes(text: &str) -> Result<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        return parse_hex(digits);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        match rest {
            [b'\\', tail @ ..] => {
                out.push(b'\\');
                rest = tail;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            _ => return Err(invalid(SqlType::Bytea, text)),
        }
    }
    Ok(out)
}

/// Pairs of hex digits; blanks may stand between pairs.
pub(crate) fn parse_hex(text: &str) -> Result<Vec<u8>> {
    let bad = |what: String| Err(SqlError::new(code::INVALID_PARAMETER, what));
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut rest = text.chars();
    let nibble = |c: char| match c.to_digit(16) {
        Some(digit) => Ok(digit as u8),
        None => bad(format!("invalid hexadecimal digit: \"{c}\"")).map(|()| 0),
    };
    while let Some(first) = rest.next() {
        if matches!(first, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let high = nibble(first)?;
        let Some(second) = rest.next() else {
            return bad("invalid hexadecimal data: odd number of digits".to_owned()).map(|()| out);
        };
        out.push(high << 4 | nibble(second)?);
    }
    Ok(out)
}

fn parse_tid(text: &str) -> Option<RowId> {
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    let (block, slot) = inner.split_once(',')?;
    Some(RowId::new(block.trim().parse().ok()?, slot.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_postgresqls() {
        for (ty, text, sqlstate, message) in [
            (SqlType::Int4, "abc", "22P02", "invalid input syntax for type integer: \"abc\""),
            (SqlType::Int2, "32768", "22003", "value \"32768\" is out of range for type smallint"),
            (
                SqlType::Float8,
                "1e400",
                "22003",
                "\"1e400\" is out of range for type double precision",
            ),
            (
                SqlType::Date,
                "2023-02-29",
                "22008",
                "date/time field value out of range: \"2023-02-29\"",
            ),
            (SqlType::Date, "soon", "22007", "invalid input syntax for type date: \"soon\""),
            (SqlType::Bool, "maybe", "22P02", "invalid input syntax for type boolean: \"maybe\""),
            (SqlType::Uuid, "x", "22P02", "invalid input syntax for type uuid: \"x\""),
            (SqlType::Bytea, "\\x1", "22023", "invalid hexadecimal data: odd number of digits"),
        ] {
            let error = Datum::from_text(ty, text).unwrap_err();
            assert_eq!((error.sqlstate, error.message.as_str()), (sqlstate, message));
        }
    }

    #[test]
    fn what_is_printed_is_read_back() {
        let values = [
            Datum::Bool(true),
            Datum::Float8(0.1 + 0.2),
            Datum::Float4(1.0e-7),
            Datum::Bytes(vec![0, 255, 92]),
            Datum::Tid(RowId::new(7, 3)),
            Datum::Timestamp(1),
        ];
        for value in values {
            let text = value.to_text().unwrap();
            let ty = value.type_of().unwrap();
            assert_eq!(Datum::from_text(ty, &text).unwrap(), value, "{text}");
        }
        assert_eq!(
            Datum::from_text(SqlType::Bytea, "a\\\\b\\001").unwrap(),
            Datum::Bytes(b"a\\b\x01".to_vec())
        );
    }
}
