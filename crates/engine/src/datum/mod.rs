//! Values and their types: what a column may hold, how values are ordered and written as text.
//!
//! Invariants:
//! - A [`Type`]'s tag is on disk (catalog rows) and never changes its meaning; tag 17 is kept for
//!   collated text.
//! - Dates count days and timestamps count microseconds since 2000-01-01 00:00 (UTC for
//!   `TimestampTz`), as PostgreSQL does on its wire. The smallest and the largest integer mean
//!   `-infinity` and `infinity`.
//! - Equality and order of [`Value`] are those of keys, not of SQL: null equals null, NaN equals
//!   NaN and is the largest float, -0.0 equals 0.0. Values of different types are ordered by tag,
//!   nulls come last.
//!
//! Does not do: casts between types, time zones other than fixed offsets.

mod calendar;
mod clock;
mod datetime;
mod decimal;
mod interval;
mod interval_input;
mod json;
mod number;
mod text;
mod unit;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

pub use calendar::{CivilDate, DATES, TIMESTAMPS, civil_from_days, days_from_civil, days_in_month};
pub use clock::{DateTimeError, trimmed};
pub use decimal::{Decimal, DecimalError};
pub use interval::{Interval, IntervalFields};
pub use interval_input::{LeadingSign, read_interval};
pub use unit::Unit;

/// Microseconds of a day, and the latest [`Value::Time`]: the midnight at the day's end.
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Type of a column. The discriminant is the tag on disk.
///
/// ```
/// use rightlink::Type;
/// assert_eq!(Type::Int8.name(), "int8");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
#[repr(u8)]
pub enum Type {
    /// Truth value; false comes before true.
    Bool = 1,
    /// 16-bit integer.
    Int2 = 2,
    /// 32-bit integer.
    Int4 = 3,
    /// 64-bit integer.
    Int8 = 4,
    /// 32-bit IEEE number.
    Float4 = 5,
    /// 64-bit IEEE number.
    Float8 = 6,
    /// UTF-8 text, ordered by its bytes.
    Text = 7,
    /// Any bytes, ordered as unsigned numbers.
    Bytes = 8,
    /// 16 bytes, ordered as written.
    Uuid = 9,
    /// Days since 2000-01-01.
    Date = 10,
    /// Microseconds since 2000-01-01 00:00, no zone.
    Timestamp = 11,
    /// Microseconds since 2000-01-01 00:00 UTC.
    TimestampTz = 12,
    /// Exact decimal number of any length; 1.0 equals 1.00, each is kept as it was given.
    Decimal = 13,
    /// Months, days and microseconds.
    Interval = 14,
    /// Microseconds since midnight.
    Time = 15,
    /// A JSON document, kept as it was given; has no order, so that no key may hold it.
    Json = 16,
}

impl Type {
    /// The largest number of an integer type. `None`: the type is none of them.
    pub fn largest(self) -> Option<i64> {
        match self {
            Type::Int2 => Some(i64::from(i16::MAX)),
            Type::Int4 => Some(i64::from(i32::MAX)),
            Type::Int8 => Some(i64::MAX),
            _ => None,
        }
    }

    /// Every type there is, in tag order.
    pub const ALL: [Type; 16] = [
        Type::Bool,
        Type::Int2,
        Type::Int4,
        Type::Int8,
        Type::Float4,
        Type::Float8,
        Type::Text,
        Type::Bytes,
        Type::Uuid,
        Type::Date,
        Type::Timestamp,
        Type::TimestampTz,
        Type::Decimal,
        Type::Interval,
        Type::Time,
        Type::Json,
    ];

    /// The number that stands for the type on disk.
    pub const fn tag(self) -> u8 {
        self as u8
    }

    /// The type with this number on disk. `None`: there is no such type.
    pub fn from_tag(tag: u8) -> Option<Type> {
        Type::ALL.into_iter().find(|ty| ty.tag() == tag)
    }

    /// The name used in schemas and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Type::Bool => "bool",
            Type::Int2 => "int2",
            Type::Int4 => "int4",
            Type::Int8 => "int8",
            Type::Float4 => "float4",
            Type::Float8 => "float8",
            Type::Text => "text",
            Type::Bytes => "bytes",
            Type::Uuid => "uuid",
            Type::Date => "date",
            Type::Timestamp => "timestamp",
            Type::TimestampTz => "timestamptz",
            Type::Decimal => "decimal",
            Type::Interval => "interval",
            Type::Time => "time",
            Type::Json => "json",
        }
    }

    /// The type of a name, common synonyms included. `None`: there is no such type.
    pub fn from_name(name: &str) -> Option<Type> {
        let lower = name.to_ascii_lowercase();
        let ty = match lower.as_str() {
            "boolean" => Type::Bool,
            "smallint" => Type::Int2,
            "int" | "integer" => Type::Int4,
            "bigint" => Type::Int8,
            "real" => Type::Float4,
            "double" | "double precision" => Type::Float8,
            "varchar" | "string" => Type::Text,
            "bytea" | "blob" => Type::Bytes,
            "numeric" => Type::Decimal,
            _ => return Type::ALL.into_iter().find(|ty| ty.name() == lower),
        };
        Some(ty)
    }

    /// Bytes of a value in a row, when all values of the type have the same number.
    pub const fn fixed_len(self) -> Option<usize> {
        match self {
            Type::Bool => Some(1),
            Type::Int2 => Some(2),
            Type::Int4 | Type::Float4 | Type::Date => Some(4),
            Type::Int8 | Type::Float8 | Type::Timestamp | Type::TimestampTz | Type::Time => Some(8),
            Type::Uuid | Type::Interval => Some(16),
            Type::Text | Type::Bytes | Type::Decimal | Type::Json => None,
        }
    }

    /// True if its values have an order, so that keys may hold them.
    pub const fn is_ordered(self) -> bool {
        !matches!(self, Type::Json)
    }
}

/// One value, or null.
///
/// ```
/// use rightlink::{Type, Value};
/// assert_eq!(Value::Text("tea".into()).type_of(), Some(Type::Text));
/// assert!(Value::Null.is_null() && Value::Int8(1) < Value::Int8(2));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Value {
    /// No value; belongs to every type.
    #[default]
    Null,
    /// A [`Type::Bool`].
    Bool(bool),
    /// A [`Type::Int2`].
    Int2(i16),
    /// A [`Type::Int4`].
    Int4(i32),
    /// A [`Type::Int8`].
    Int8(i64),
    /// A [`Type::Float4`].
    Float4(f32),
    /// A [`Type::Float8`].
    Float8(f64),
    /// A [`Type::Text`].
    Text(String),
    /// A [`Type::Bytes`].
    Bytes(Vec<u8>),
    /// A [`Type::Uuid`].
    Uuid([u8; 16]),
    /// A [`Type::Date`]: days since 2000-01-01.
    Date(i32),
    /// A [`Type::Timestamp`]: microseconds since 2000-01-01 00:00.
    Timestamp(i64),
    /// A [`Type::TimestampTz`]: microseconds since 2000-01-01 00:00 UTC.
    TimestampTz(i64),
    /// A [`Type::Decimal`].
    Decimal(Decimal),
    /// A [`Type::Interval`].
    Interval(Interval),
    /// A [`Type::Time`]: microseconds since midnight, at most a whole day.
    Time(i64),
    /// A [`Type::Json`]: the document.
    Json(String),
}

impl Value {
    /// Estimate of the memory that the value takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 16,
        }
    }

    /// Type of the value; null has none.
    pub fn type_of(&self) -> Option<Type> {
        let ty = match self {
            Value::Null => return None,
            Value::Bool(_) => Type::Bool,
            Value::Int2(_) => Type::Int2,
            Value::Int4(_) => Type::Int4,
            Value::Int8(_) => Type::Int8,
            Value::Float4(_) => Type::Float4,
            Value::Float8(_) => Type::Float8,
            Value::Text(_) => Type::Text,
            Value::Bytes(_) => Type::Bytes,
            Value::Uuid(_) => Type::Uuid,
            Value::Date(_) => Type::Date,
            Value::Timestamp(_) => Type::Timestamp,
            Value::TimestampTz(_) => Type::TimestampTz,
            Value::Decimal(_) => Type::Decimal,
            Value::Interval(_) => Type::Interval,
            Value::Time(_) => Type::Time,
            Value::Json(_) => Type::Json,
        };
        Some(ty)
    }

    /// True if this is a null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// True if a column of type `ty` may hold this value. A null fits every type.
    pub fn fits(&self, ty: Type) -> bool {
        self.type_of().is_none_or(|own| own == ty)
    }

    /// True if the type has such a value. A [`Value::Time`] beyond the day is not sound, nor is a
    /// [`Value::Json`] of other text.
    pub fn is_sound(&self) -> bool {
        match self {
            Value::Time(micros) => (0..=MICROS_PER_DAY).contains(micros),
            Value::Json(text) => json::is_json(text),
            _ => true,
        }
    }

    /// Bytes of memory that the value holds besides itself, for budgets.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Value::Text(text) | Value::Json(text) => text.capacity(),
            Value::Decimal(decimal) => decimal.as_bytes().len(),
            Value::Bytes(bytes) => bytes.capacity(),
            _ => 0,
        }
    }
}

/// Order of 64-bit floats as in PostgreSQL: NaN is equal to itself and the largest, -0.0 equals
/// 0.0.
pub fn compare_floats(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.partial_cmp(&b).expect("neither is NaN"),
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int2(a), Value::Int2(b)) => a.cmp(b),
            (Value::Int4(a), Value::Int4(b)) | (Value::Date(a), Value::Date(b)) => a.cmp(b),
            (Value::Int8(a), Value::Int8(b))
            | (Value::Time(a), Value::Time(b))
            | (Value::Timestamp(a), Value::Timestamp(b))
            | (Value::TimestampTz(a), Value::TimestampTz(b)) => a.cmp(b),
            (Value::Float4(a), Value::Float4(b)) => compare_floats(f64::from(*a), f64::from(*b)),
            (Value::Float8(a), Value::Float8(b)) => compare_floats(*a, *b),
            (Value::Text(a), Value::Text(b)) | (Value::Json(a), Value::Json(b)) => a.cmp(b),
            (Value::Decimal(a), Value::Decimal(b)) => a.cmp(b),
            (Value::Interval(a), Value::Interval(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::Uuid(a), Value::Uuid(b)) => a.cmp(b),
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        rank(self).hash(state);
        match self {
            Value::Null => {}
            Value::Bool(v) => v.hash(state),
            Value::Int2(v) => v.hash(state),
            Value::Int4(v) | Value::Date(v) => v.hash(state),
            Value::Int8(v) | Value::Timestamp(v) | Value::TimestampTz(v) | Value::Time(v) => {
                v.hash(state);
            }
            Value::Float4(v) => normal_float4(*v).to_bits().hash(state),
            Value::Float8(v) => normal_float8(*v).to_bits().hash(state),
            Value::Text(v) | Value::Json(v) => v.hash(state),
            Value::Decimal(v) => v.hash(state),
            Value::Interval(v) => v.hash(state),
            Value::Bytes(v) => v.hash(state),
            Value::Uuid(v) => v.hash(state),
        }
    }
}

/// The one representative of all floats that are equal to `v`: 0.0 for -0.0, one NaN for all.
pub fn normal_float4(v: f32) -> f32 {
    if v.is_nan() {
        f32::NAN
    } else if v == 0.0 {
        0.0
    } else {
        v
    }
}

/// As [`normal_float4`].
pub fn normal_float8(v: f64) -> f64 {
    if v.is_nan() {
        f64::NAN
    } else if v == 0.0 {
        0.0
    } else {
        v
    }
}

/// Place of the value's type in the order of all values; nulls come last.
fn rank(value: &Value) -> u8 {
    value.type_of().map_or(u8::MAX, Type::tag)
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
pub(crate) mod tests;
