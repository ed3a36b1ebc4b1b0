//! JSON as it is written: objects whose keys keep their order, one a line.
//!
//! Invariants: what is printed is valid JSON without line breaks; 64-bit integers are printed in
//! full; numbers that JSON lacks (NaN, infinities) are strings. Does not do: reading JSON.

use std::fmt;

use rightlink::Value;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A number with its text, already valid.
    Number(String),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// An object.
    Object(Vec<(String, Json)>),
}

/// An object from keys and values.
pub(crate) fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
    Json::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Int(value) => write!(f, "{value}"),
            Json::Number(text) => f.write_str(text),
            Json::Text(text) => print_text(f, text),
            Json::List(items) => print_list(f, items),
            Json::Object(fields) => print_object(f, fields),
        }
    }
}

fn print_list(f: &mut fmt::Formatter<'_>, items: &[Json]) -> fmt::Result {
    f.write_str("[")?;
    for (position, item) in items.iter().enumerate() {
        let comma = if position > 0 { ", " } else { "" };
        write!(f, "{comma}{item}")?;
    }
    f.write_str("]")
}

fn print_object(f: &mut fmt::Formatter<'_>, fields: &[(String, Json)]) -> fmt::Result {
    f.write_str("{")?;
    for (position, (key, value)) in fields.iter().enumerate() {
        f.write_str(if position > 0 { ", " } else { "" })?;
        print_text(f, key)?;
        write!(f, ": {value}")?;
    }
    f.write_str("}")
}

fn print_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            // U+2028 and U+2029 end a line for some readers.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                write!(f, "\\u{:04x}", u32::from(c))?;
            }
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Json {
        match value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int2(value) => Json::Int(i128::from(*value)),
            Value::Int4(value) => Json::Int(i128::from(*value)),
            Value::Int8(value) => Json::Int(i128::from(*value)),
            Value::Float4(number) if number.is_finite() => Json::Number(value.to_string()),
            Value::Float8(number) if number.is_finite() => Json::Number(value.to_string()),
            Value::Decimal(number) if number.is_finite() => Json::Number(value.to_string()),
            // No string of a document holds a line break, so that they are space.
            Value::Json(document) => Json::Number(document.replace(['\n', '\r'], " ")),
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
