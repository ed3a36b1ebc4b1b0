//! JSON as it is written: objects whose keys keep their order, one a line.
//!
//! `serde_json` writes it. Its own `Value` would sort the keys of an object.
//!
//! Invariants: what is printed is valid JSON without line breaks; integers and decimal numbers are
//! printed in full; numbers that JSON lacks (NaN, infinities) are strings. Does not do: reading
//! JSON.

use std::fmt;
use std::io::{self, Write};

use rightlink::Value;
use serde::{Serialize, Serializer};
use serde_json::ser::Formatter;
use serde_json::value::RawValue;

/// A JSON value.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// JSON text: a number with all its digits, or a document.
    Raw(Box<RawValue>),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// An object.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// `text` as it is if it is JSON, else as a string.
    pub(crate) fn raw(text: String) -> Json {
        match serde_json::from_str(&text) {
            Ok(raw) => Json::Raw(raw),
            Err(_) => Json::Text(text),
        }
    }
}

/// An object from keys and values.
pub(crate) fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
    Json::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => to.serialize_unit(),
            Json::Bool(value) => to.serialize_bool(*value),
            Json::Int(value) => to.serialize_i128(*value),
            Json::Raw(text) => text.serialize(to),
            Json::Text(text) => to.serialize_str(text),
            Json::List(items) => to.collect_seq(items),
            Json::Object(fields) => to.collect_map(fields.iter().map(|(key, value)| (key, value))),
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Vec::new();
        let mut to = serde_json::Serializer::with_formatter(&mut line, OneLine);
        self.serialize(&mut to).map_err(|_| fmt::Error)?;
        f.write_str(std::str::from_utf8(&line).map_err(|_| fmt::Error)?)
    }
}

/// One line with blanks after commas and colons.
struct OneLine;

impl OneLine {
    fn comma<W: Write + ?Sized>(to: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }
}

impl Formatter for OneLine {
    fn begin_array_value<W: Write + ?Sized>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        Self::comma(to, first)
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        Self::comma(to, first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }

    /// Escapes what JSON allows and ends a line for some readers: U+2028, U+2029, U+0085.
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        to: &mut W,
        text: &str,
    ) -> io::Result<()> {
        let escaped = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        let mut rest = text;
        while let Some(c) = rest.chars().find(|c| escaped(*c)) {
            let (plain, after) = rest.split_once(c).unwrap_or((rest, ""));
            write!(to, "{plain}\\u{:04x}", u32::from(c))?;
            rest = after;
        }
        to.write_all(rest.as_bytes())
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Json {
        match value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int2(value) => Json::Int(i128::from(*value)),
            Value::Int4(value) => Json::Int(i128::from(*value)),
            Value::Int8(value) => Json::Int(i128::from(*value)),
            Value::Float4(_) | Value::Float8(_) | Value::Decimal(_) => Json::raw(value.to_string()),
            // No string of a document holds a line break, so that they are space.
            Value::Json(document) => Json::raw(document.replace(['\n', '\r'], " ")),
            other => Json::Text(other.to_string()),
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::Text(text)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Json {
        value.map_or(Json::Null, Into::into)
    }
}

impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(items: Vec<T>) -> Json {
        Json::List(items.into_iter().map(Into::into).collect())
    }
}

/// Integers of every width.
macro_rules! from_integer {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Json {
            fn from(value: $ty) -> Json {
                Json::Int(value as i128)
            }
        }
    )*};
}
from_integer!(u8, u16, u32, u64, usize, i64);

#[cfg(test)]
mod tests {
    use rightlink::Type;

    use super::*;

    #[test]
    fn values_keep_their_kind() {
        let of = |value: Value| Json::from(&value).to_string();
        assert_eq!(of(Value::Null), "null");
        assert_eq!(of(Value::Int8(i64::MIN)), "-9223372036854775808");
        assert_eq!(of(Value::Float8(1.5)), "1.5");
        assert_eq!(of(Value::Float8(f64::NAN)), "\"NaN\"");
        assert_eq!(of(Value::parse(Type::Decimal, "1.50").unwrap()), "1.50");
        assert_eq!(of(Value::parse(Type::Decimal, "nan").unwrap()), "\"NaN\"");
        assert_eq!(of(Value::Json("{\"a\":\n1}".into())), "{\"a\": 1}");
        assert_eq!(of(Value::Float8(f64::INFINITY)), "\"Infinity\"");
        assert_eq!(of(Value::Date(0)), "\"2000-01-01\"");
        assert_eq!(of(Value::Bytes(vec![0, 255])), "\"\\\\x00ff\"");
    }

    #[test]
    fn documents_are_printed_as_they_are() {
        let deep = format!("{}1.50{}", "[".repeat(5_000), "]".repeat(5_000));
        for document in ["{\"b\": 1e400, \"a\": 1, \"b\": 2}", "\"x\"", &deep] {
            assert_eq!(Json::from(&Value::Json(document.into())).to_string(), document);
        }
    }

    #[test]
    fn text_never_breaks_a_line() {
        let text = Json::from("a\"b\\c\nd\r\te\u{1}\u{2028}é").to_string();
        assert_eq!(text, "\"a\\\"b\\\\c\\nd\\r\\te\\u0001\\u2028é\"");
    }

    #[test]
    fn objects_keep_their_order() {
        let it = object([("b", 1u8.into()), ("a", vec!["x", "y"].into()), ("c", Json::Null)]);
        assert_eq!(it.to_string(), "{\"b\": 1, \"a\": [\"x\", \"y\"], \"c\": null}");
    }
}
