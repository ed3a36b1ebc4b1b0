//! Values as text: whatever is read prints as something that reads as the same.

use rightlink::internal::datum::{DATES, TIMESTAMPS};
use rightlink::{Type, Value};

use crate::input::Input;

/// A type, then either its text or a value of it.
pub fn target(data: &[u8]) {
    let mut input = Input(data);
    let kind = input.kind();
    let value = input.clone().present(kind);
    if is_printable(&value) {
        again(kind, &value);
    }
    let text = String::from_utf8_lossy(input.0);
    match Value::parse(kind, &text) {
        Ok(value) => again(kind, &value),
        Err(error) => assert!(error.to_string().contains(kind.name()), "{error} names the type"),
    }
}

fn again(kind: Type, value: &Value) {
    let text = value.to_string();
    let read = Value::parse(kind, &text);
    assert_eq!(read.as_ref().ok(), Some(value), "{text:?} as {kind}: {read:?}");
}

/// Dates and timestamps beyond the calendar print and are not read.
fn is_printable(value: &Value) -> bool {
    match value {
        Value::Date(days) => DATES.contains(&i64::from(*days)),
        Value::Timestamp(micros) | Value::TimestampTz(micros) => TIMESTAMPS.contains(micros),
        _ => true,
    }
}

/// Texts of every type.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        (Type::Bool, "true"),
        (Type::Int2, "-32768"),
        (Type::Int4, "2147483647"),
        (Type::Int8, "-9223372036854775808"),
        (Type::Float4, "1.17549435e-38"),
        (Type::Float8, "-1.7976931348623157e308"),
        (Type::Text, " text "),
        (Type::Bytes, "\\x00ff7a"),
        (Type::Uuid, "{550e8400-e29b-41d4-a716-446655440000}"),
        (Type::Date, "2024-02-29"),
        (Type::Date, "0044-03-15 BC"),
        (Type::Timestamp, "1999-12-31 23:59:60.999999"),
        (Type::Timestamp, "294276-12-31 24:00:00"),
        (Type::TimestampTz, "2013-01-02T03:04:05.678+05:30"),
        (Type::TimestampTz, "-infinity"),
        (Type::Decimal, "-1234567890123456789012345.6700"),
        (Type::Decimal, "5e-7"),
        (Type::Interval, "-1 year 2 mons -3 days +04:05:06.789"),
        (Type::Interval, "P1Y2M3DT4H5M6.7S"),
        (Type::Time, "23:59:59.999999"),
        (Type::Json, "{\"a\": [1, -2.5e3, \"\\u00e9\"], \"b\": null}"),
    ];
    let number = |kind: Type| Type::ALL.iter().position(|other| *other == kind);
    let seed = |(kind, text): (Type, &str)| {
        let first = number(kind).expect("a type is one of all") as u8;
        [&[first][..], text.as_bytes()].concat()
    };
    texts.into_iter().map(seed).collect()
}
