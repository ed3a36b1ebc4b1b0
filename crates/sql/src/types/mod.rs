//! PostgreSQL's types and values, and how they map to those of the store.
//!
//! | file | hides |
//! |---|---|
//! | `stored` | what the store keeps for values |
//! | `numeric`, `powers` | arithmetic of exact decimal numbers; roots, powers, logarithms |
//! | `text`, `binary` | values from and to text and bytes |
//! | `type_names` | types by their names, and names of types |
//! | `declared` | lengths, precision and scale that declarations add |
//! | `cast` | from one type to another |
//! | `literal` | values as SQL writes them |
//! | `collate`, `casing` | collations; upper and lower case |
//! | `calendar` | fields of dates and times |
//! | `time` | their texts, and zones |
//! | `registered` | objects of catalogs by their names |
//! | `bits`, `lsn`, `network` | strings of bits; places in a log; addresses |
//! | `made`, `enums` | names of types that are made; enums, in the order of their labels |
//! | `record`, `composite`, `row_input` | rows as values; their types with names; reading them |
//! | `array`, `array_text`, `json` | arrays of all these; documents |
//!
//! Invariants: a value of a column of the store fits exactly one type here; a row's place (tid)
//! exists in expressions only. The store keeps an array as bytes, in its binary form, a `jsonb` in
//! a form of its own, a row as bytes of its fields, and for labels of enums, addresses and other
//! types that are coded bytes that compare as they do; notes of the column say so.
//! Does not do: collations other than byte order.

pub(crate) mod array;
mod array_text;
pub(crate) mod binary;
pub(crate) mod bits;
pub(crate) mod calendar;
pub(crate) mod casing;
pub(crate) mod cast;
pub(crate) mod collate;
pub(crate) mod composite;
pub(crate) mod declared;
pub(crate) mod enums;
pub(crate) mod json;
pub(crate) mod literal;
pub(crate) mod lsn;
mod made;
pub(crate) mod network;
pub(crate) mod numeric;
pub(crate) mod parameter_mode;
pub(crate) mod powers;
pub(crate) mod record;
mod registered;
mod row_input;
mod stored;
pub(crate) mod text;
pub(crate) mod time;
mod type_names;
pub(crate) mod volatility;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use rightlink::{RowId, Type};

pub use array::{Array, Dimension, ElementType};
pub use bits::Bits;
pub use composite::{CompositeType, Field};
pub use enums::{EnumType, EnumValue};
pub use json::{JsonPath, Jsonb};
pub use lsn::Lsn;
pub use network::Network;
pub use record::Record;
pub use registered::{RegKind, Registered};
pub use rightlink::{Decimal, Interval};
pub use time::{Times, ZonedTime};
pub(crate) use type_names::{VARCHAR, VARCHAR_ARRAY, VARCHAR_ARRAY_OID, VARCHAR_OID};

/// A type of PostgreSQL.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum SqlType {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `real`
    Float4,
    /// `double precision`
    Float8,
    /// `numeric`
    Numeric,
    /// `text`
    Text,
    /// `character(n)`: text whose blanks at the end do not matter
    Bpchar,
    /// `bytea`
    Bytea,
    /// `uuid`
    Uuid,
    /// `date`
    Date,
    /// `timestamp without time zone`
    Timestamp,
    /// `timestamp with time zone`
    Timestamptz,
    /// `interval`
    Interval,
    /// `time without time zone`
    Time,
    /// `time with time zone`
    Timetz,
    /// `json`: a document, kept as it was written
    Json,
    /// `jsonb`: a document, kept by what it says
    Jsonb,
    /// `jsonpath`: a path of SQL/JSON
    Jsonpath,
    /// `inet`: the address of a host, perhaps with its network
    Inet,
    /// `cidr`: the address of a network
    Cidr,
    /// `bit(n)`: a string of so many bits
    Bit,
    /// `bit varying(n)`: a string of bits
    Varbit,
    /// `pg_lsn`: a place in the log of PostgreSQL
    Lsn,
    /// `tid`: where a row version lies
    Tid,
    /// `oid`: the number of an object
    Oid,
    /// `name`: text of at most 63 bytes
    Name,
    /// `"char"`: one byte
    Char,
    /// The number of an object of a catalog, shown as its name: `regclass` and its kind
    Reg(RegKind),
    /// `int2vector`
    Int2Vector,
    /// `oidvector`
    OidVector,
    /// An enum
    Enum(EnumType),
    /// A row whose fields have names and types
    Composite(CompositeType),
    /// An array of any of these
    Array(ElementType),
    /// `record`: a row of any fields
    Record,
    /// `void`: what a function gives that gives nothing; its values are empty texts
    Void,
    /// A literal or parameter whose type its surroundings decide
    Unknown,
}

/// Coarse kinds of types, by which operators are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Category {
    Bool,
    Number,
    String,
    DateTime,
    Timespan,
    /// Addresses of hosts and networks.
    Network,
    BitString,
    User,
    Composite,
    /// Of catalogs alone.
    Internal,
    Array,
    Unknown,
}

impl SqlType {
    /// Every type that a value can have, besides arrays of these.
    pub const ALL: [SqlType; 36] = [
        SqlType::Bool,
        SqlType::Int2,
        SqlType::Int4,
        SqlType::Int8,
        SqlType::Float4,
        SqlType::Float8,
        SqlType::Numeric,
        SqlType::Text,
        SqlType::Bpchar,
        SqlType::Bytea,
        SqlType::Uuid,
        SqlType::Date,
        SqlType::Timestamp,
        SqlType::Timestamptz,
        SqlType::Interval,
        SqlType::Time,
        SqlType::Timetz,
        SqlType::Json,
        SqlType::Jsonb,
        SqlType::Jsonpath,
        SqlType::Inet,
        SqlType::Cidr,
        SqlType::Bit,
        SqlType::Varbit,
        SqlType::Lsn,
        SqlType::Tid,
        SqlType::Oid,
        SqlType::Name,
        SqlType::Char,
        SqlType::Reg(RegKind::Class),
        SqlType::Reg(RegKind::Type),
        SqlType::Reg(RegKind::Proc),
        SqlType::Reg(RegKind::Procedure),
        SqlType::Reg(RegKind::Namespace),
        SqlType::Reg(RegKind::Role),
        SqlType::Reg(RegKind::Operator),
    ];

    /// Types of catalogs that are no elements of arrays.
    const VECTORS: [SqlType; 2] = [SqlType::Int2Vector, SqlType::OidVector];

    /// The number by which clients know the type.
    pub const fn oid(self) -> u32 {
        match self {
            SqlType::Bool => 16,
            SqlType::Int2 => 21,
            SqlType::Int4 => 23,
            SqlType::Int8 => 20,
            SqlType::Float4 => 700,
            SqlType::Float8 => 701,
            SqlType::Numeric => 1700,
            SqlType::Text => 25,
            SqlType::Bpchar => 1042,
            SqlType::Bytea => 17,
            SqlType::Uuid => 2950,
            SqlType::Date => 1082,
            SqlType::Timestamp => 1114,
            SqlType::Timestamptz => 1184,
            SqlType::Interval => 1186,
            SqlType::Time => 1083,
            SqlType::Timetz => 1266,
            SqlType::Json => 114,
            SqlType::Jsonb => 3802,
            SqlType::Jsonpath => 4072,
            SqlType::Inet => 869,
            SqlType::Cidr => 650,
            SqlType::Bit => 1560,
            SqlType::Varbit => 1562,
            SqlType::Lsn => 3220,
            SqlType::Tid => 27,
            SqlType::Oid => 26,
            SqlType::Name => 19,
            SqlType::Char => 18,
            SqlType::Reg(kind) => kind.oid(),
            SqlType::Int2Vector => 22,
            SqlType::OidVector => 30,
            SqlType::Enum(ty) => ty.oid(),
            SqlType::Composite(ty) => ty.oid(),
            SqlType::Array(element) => element.array_oid(),
            SqlType::Record => 2249,
            SqlType::Void => 2278,
            SqlType::Unknown => 705,
        }
    }

    /// The type that clients know by this number.
    pub fn from_oid(oid: u32) -> Option<SqlType> {
        match oid {
            // varchar arrives as text.
            VARCHAR_OID => Some(SqlType::Text),
            VARCHAR_ARRAY_OID => SqlType::array_of(SqlType::Text),
            0 | 705 => Some(SqlType::Unknown),
            _ => {
                static TYPES: OnceLock<HashMap<u32, SqlType>> = OnceLock::new();
                let all = || SqlType::every().map(|ty| (ty.oid(), ty)).collect();
                TYPES.get_or_init(all).get(&oid).copied()
            }
        }
    }

    /// Every type that a value can have, arrays after all others.
    pub(crate) fn every() -> impl Iterator<Item = SqlType> {
        let single = SqlType::ALL.into_iter().chain(SqlType::VECTORS);
        single.chain(ElementType::all().map(SqlType::Array))
    }

    /// The type of arrays of `ty`; `None` for an array, and where nothing has decided the type.
    pub fn array_of(ty: SqlType) -> Option<SqlType> {
        ElementType::of(ty).map(SqlType::Array)
    }

    /// The type of arrays of texts.
    pub(crate) fn texts() -> SqlType {
        SqlType::array_of(SqlType::Text).expect("texts are elements")
    }

    /// The type of the elements, if it is one of arrays.
    pub const fn element(self) -> Option<SqlType> {
        match self {
            SqlType::Array(element) => Some(element.ty()),
            _ => None,
        }
    }

    /// Is it one of arrays?
    pub const fn is_array(self) -> bool {
        matches!(self, SqlType::Array(_))
    }

    /// Bytes of a value, -1 if they differ: what clients are told.
    pub const fn fixed_len(self) -> i16 {
        match self {
            SqlType::Bool | SqlType::Char => 1,
            SqlType::Int2 => 2,
            SqlType::Int4 | SqlType::Float4 | SqlType::Date | SqlType::Oid | SqlType::Reg(_) => 4,
            SqlType::Enum(_) | SqlType::Void => 4,
            SqlType::Name => 64,
            SqlType::Int8
            | SqlType::Float8
            | SqlType::Timestamp
            | SqlType::Timestamptz
            | SqlType::Time
            | SqlType::Lsn => 8,
            SqlType::Timetz => 12,
            SqlType::Uuid | SqlType::Interval => 16,
            SqlType::Tid => 6,
            SqlType::Unknown => -2,
            SqlType::Numeric
            | SqlType::Text
            | SqlType::Bpchar
            | SqlType::Bytea
            | SqlType::Json
            | SqlType::Jsonb
            | SqlType::Jsonpath
            | SqlType::Inet
            | SqlType::Cidr
            | SqlType::Bit
            | SqlType::Varbit
            | SqlType::Int2Vector
            | SqlType::OidVector
            | SqlType::Composite(_)
            | SqlType::Record
            | SqlType::Array(_) => -1,
        }
    }

    pub(crate) const fn category(self) -> Category {
        match self {
            SqlType::Bool => Category::Bool,
            SqlType::Int2
            | SqlType::Int4
            | SqlType::Int8
            | SqlType::Float4
            | SqlType::Float8
            | SqlType::Numeric
            | SqlType::Oid
            | SqlType::Reg(_) => Category::Number,
            SqlType::Text | SqlType::Bpchar | SqlType::Name => Category::String,
            SqlType::Date
            | SqlType::Timestamp
            | SqlType::Timestamptz
            | SqlType::Time
            | SqlType::Timetz => Category::DateTime,
            SqlType::Interval => Category::Timespan,
            SqlType::Inet | SqlType::Cidr => Category::Network,
            SqlType::Bit | SqlType::Varbit => Category::BitString,
            SqlType::Bytea
            | SqlType::Uuid
            | SqlType::Json
            | SqlType::Jsonb
            | SqlType::Jsonpath
            | SqlType::Enum(_)
            | SqlType::Record
            | SqlType::Void
            | SqlType::Lsn
            | SqlType::Tid => Category::User,
            SqlType::Composite(_) => Category::Composite,
            SqlType::Char => Category::Internal,
            SqlType::Array(_) | SqlType::Int2Vector | SqlType::OidVector => Category::Array,
            SqlType::Unknown => Category::Unknown,
        }
    }

    /// Have its values an order, so that they can be compared?
    pub(crate) fn is_ordered(self) -> bool {
        !matches!(self.element().unwrap_or(self), SqlType::Json | SqlType::Jsonpath)
    }

    /// Has the store no type of its own for it, and keeps bytes or text that notes tell apart?
    pub(crate) fn is_noted(self) -> bool {
        matches!(self, SqlType::Jsonb | SqlType::Timetz | SqlType::Name) || self.is_coded()
    }

    /// Does the store keep bytes for its values that compare as they do? Enums have notes of their
    /// own.
    pub(crate) fn is_coded(self) -> bool {
        matches!(
            self,
            SqlType::Inet
                | SqlType::Cidr
                | SqlType::Bit
                | SqlType::Varbit
                | SqlType::Lsn
                | SqlType::Oid
                | SqlType::Char
        )
    }

    /// Does the store keep its values as bytes whose order is another than theirs?
    pub(crate) fn is_encoded(self) -> bool {
        let is_encoded =
            |ty| matches!(ty, SqlType::Jsonb | SqlType::Timetz | SqlType::Composite(_));
        self.is_array() || is_encoded(self)
    }

    /// Is it the type that its category prefers?
    pub(crate) const fn is_preferred(self) -> bool {
        matches!(
            self,
            SqlType::Bool
                | SqlType::Float8
                | SqlType::Oid
                | SqlType::Text
                | SqlType::Timestamptz
                | SqlType::Interval
                | SqlType::Inet
                | SqlType::Varbit
        )
    }

    /// The type of a column of the store.
    pub fn of_column(kind: Type) -> SqlType {
        match kind {
            Type::Bool => SqlType::Bool,
            Type::Int2 => SqlType::Int2,
            Type::Int4 => SqlType::Int4,
            Type::Int8 => SqlType::Int8,
            Type::Float4 => SqlType::Float4,
            Type::Float8 => SqlType::Float8,
            Type::Bytes => SqlType::Bytea,
            Type::Uuid => SqlType::Uuid,
            Type::Date => SqlType::Date,
            Type::Timestamp => SqlType::Timestamp,
            Type::TimestampTz => SqlType::Timestamptz,
            Type::Decimal => SqlType::Numeric,
            Type::Interval => SqlType::Interval,
            Type::Json => SqlType::Json,
            Type::Time => SqlType::Time,
            // A type that the store learns later is shown as its text.
            _ => SqlType::Text,
        }
    }

    /// The column type that holds it, `None` where the store has none.
    pub fn to_column(self) -> Option<Type> {
        match self {
            SqlType::Bpchar | SqlType::Name => return Some(Type::Text),
            SqlType::Enum(_) => return Some(Type::Bytes),
            SqlType::Composite(ty) => return ty.is_storable().then_some(Type::Bytes),
            ty if ty.is_noted() => return Some(Type::Bytes),
            _ => {}
        }
        if let Some(element) = self.element() {
            return element.to_column().map(|_| Type::Bytes);
        }
        Type::ALL.into_iter().find(|kind| {
            let known = !matches!(SqlType::of_column(*kind), SqlType::Text) || *kind == Type::Text;
            known && SqlType::of_column(*kind) == self
        })
    }
}

/// A value, or null.
#[derive(Clone, Debug, PartialEq, Default)]
#[non_exhaustive]
pub enum Datum {
    /// No value.
    #[default]
    Null,
    /// `boolean`
    Bool(bool),
    /// `smallint`
    Int2(i16),
    /// `integer`
    Int4(i32),
    /// `bigint`
    Int8(i64),
    /// `real`
    Float4(f32),
    /// `double precision`
    Float8(f64),
    /// `numeric`
    Numeric(Decimal),
    /// `text`
    Text(String),
    /// `bytea`
    Bytes(Vec<u8>),
    /// `uuid`
    Uuid([u8; 16]),
    /// Days since 2000-01-01.
    Date(i32),
    /// Microseconds since 2000-01-01 00:00.
    Timestamp(i64),
    /// Microseconds since 2000-01-01 00:00 UTC.
    Timestamptz(i64),
    /// `interval`
    Interval(Interval),
    /// Microseconds since midnight.
    Time(i64),
    /// `time with time zone`
    Timetz(ZonedTime),
    /// `json`: its text, which is a document.
    Json(String),
    /// `jsonb`
    Jsonb(Jsonb),
    /// `jsonpath`
    Jsonpath(Arc<JsonPath>),
    /// `inet`
    Inet(Network),
    /// `cidr`
    Cidr(Network),
    /// `bit`
    Bit(Bits),
    /// `bit varying`
    Varbit(Bits),
    /// `pg_lsn`
    Lsn(Lsn),
    /// `tid`
    Tid(RowId),
    /// `oid`
    Oid(u32),
    /// `"char"`
    Char(u8),
    /// A number of an object with the name that is shown.
    Reg(Arc<Registered>),
    /// `int2vector` or `oidvector`, whose subscripts begin with 0.
    Vector(Arc<Array>),
    /// A label of an enum.
    Enum(EnumValue),
    /// An array.
    Array(Arc<Array>),
    /// A row.
    Record(Arc<Record>),
}

/// A row of results.
pub type Row = Vec<Datum>;

impl Datum {
    /// Is there no value?
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// Type of the value; null has none.
    pub fn type_of(&self) -> Option<SqlType> {
        Some(match self {
            Datum::Null => return None,
            Datum::Bool(_) => SqlType::Bool,
            Datum::Int2(_) => SqlType::Int2,
            Datum::Int4(_) => SqlType::Int4,
            Datum::Int8(_) => SqlType::Int8,
            Datum::Float4(_) => SqlType::Float4,
            Datum::Float8(_) => SqlType::Float8,
            Datum::Numeric(_) => SqlType::Numeric,
            Datum::Text(_) => SqlType::Text,
            Datum::Bytes(_) => SqlType::Bytea,
            Datum::Uuid(_) => SqlType::Uuid,
            Datum::Date(_) => SqlType::Date,
            Datum::Timestamp(_) => SqlType::Timestamp,
            Datum::Timestamptz(_) => SqlType::Timestamptz,
            Datum::Interval(_) => SqlType::Interval,
            Datum::Time(_) => SqlType::Time,
            Datum::Timetz(_) => SqlType::Timetz,
            Datum::Json(_) => SqlType::Json,
            Datum::Jsonb(_) => SqlType::Jsonb,
            Datum::Jsonpath(_) => SqlType::Jsonpath,
            Datum::Inet(_) => SqlType::Inet,
            Datum::Cidr(_) => SqlType::Cidr,
            Datum::Bit(_) => SqlType::Bit,
            Datum::Varbit(_) => SqlType::Varbit,
            Datum::Lsn(_) => SqlType::Lsn,
            Datum::Tid(_) => SqlType::Tid,
            Datum::Oid(_) => SqlType::Oid,
            Datum::Char(_) => SqlType::Char,
            Datum::Reg(one) => SqlType::Reg(one.kind),
            Datum::Vector(array) => match array.element().ty() {
                SqlType::Int2 => SqlType::Int2Vector,
                _ => SqlType::OidVector,
            },
            Datum::Enum(value) => SqlType::Enum(value.ty()),
            Datum::Array(array) => SqlType::Array(array.element()),
            Datum::Record(row) => row.ty().map_or(SqlType::Record, SqlType::Composite),
        })
    }

    /// Bytes behind the value, for memory budgets.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Datum::Text(text) | Datum::Json(text) => text.capacity(),
            Datum::Jsonb(document) => document.len(),
            Datum::Bytes(bytes) => bytes.capacity(),
            Datum::Bit(bits) | Datum::Varbit(bits) => bits.bytes().len(),
            Datum::Numeric(number) => number.as_bytes().len(),
            Datum::Array(array) | Datum::Vector(array) => array.heap_bytes(),
            Datum::Reg(one) => one.heap_bytes(),
            Datum::Record(record) => record.heap_bytes(),
            _ => 0,
        }
    }

    /// Order of two values of one type, nulls last. Numbers of different types are compared as the
    /// wider one.
    pub(crate) fn compare(&self, other: &Datum) -> Ordering {
        use Datum as D;
        match (self, other) {
            (D::Null, D::Null) => Ordering::Equal,
            (D::Null, _) => Ordering::Greater,
            (_, D::Null) => Ordering::Less,
            (D::Bool(a), D::Bool(b)) => a.cmp(b),
            (D::Text(a), D::Text(b)) | (D::Json(a), D::Json(b)) => a.as_bytes().cmp(b.as_bytes()),
            (D::Jsonb(a), D::Jsonb(b)) => a.compare(b),
            (D::Bytes(a), D::Bytes(b)) => a.cmp(b),
            (D::Uuid(a), D::Uuid(b)) => a.cmp(b),
            (D::Date(a), D::Date(b)) => a.cmp(b),
            (D::Timestamp(a), D::Timestamp(b)) | (D::Timestamptz(a), D::Timestamptz(b)) => a.cmp(b),
            (D::Interval(a), D::Interval(b)) => a.cmp(b),
            (D::Time(a), D::Time(b)) => a.cmp(b),
            (D::Timetz(a), D::Timetz(b)) => a.cmp(b),
            (D::Tid(a), D::Tid(b)) => a.cmp(b),
            (D::Numeric(a), D::Numeric(b)) => a.cmp(b),
            (D::Inet(a) | D::Cidr(a), D::Inet(b) | D::Cidr(b)) => a.cmp(b),
            (D::Bit(a) | D::Varbit(a), D::Bit(b) | D::Varbit(b)) => a.cmp(b),
            (D::Lsn(a), D::Lsn(b)) => a.cmp(b),
            (D::Oid(a), D::Oid(b)) => a.cmp(b),
            (D::Char(a), D::Char(b)) => a.cmp(b),
            (D::Reg(a), D::Reg(b)) => a.oid.cmp(&b.oid),
            (D::Enum(a), D::Enum(b)) => a.cmp(b),
            (D::Array(a), D::Array(b)) | (D::Vector(a), D::Vector(b)) => a.compare(b),
            (D::Record(a), D::Record(b)) => a.compare(b),
            _ => match (self.as_int(), other.as_int()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => match (self.as_float(), other.as_float()) {
                    (Some(a), Some(b)) => rightlink::internal::datum::compare_floats(a, b),
                    _ => unreachable!("the binder compares values of one type: {self:?} {other:?}"),
                },
            },
        }
    }

    /// The value of an integer type.
    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Datum::Int2(v) => Some(i64::from(*v)),
            Datum::Int4(v) => Some(i64::from(*v)),
            Datum::Int8(v) => Some(*v),
            _ => None,
        }
    }

    /// The value of an integer or float type as the widest float.
    pub(crate) fn as_float(&self) -> Option<f64> {
        match self {
            Datum::Float4(v) => Some(f64::from(*v)),
            Datum::Float8(v) => Some(*v),
            other => other.as_int().map(|v| v as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_type_has_one_type_here_and_back() {
        for kind in Type::ALL {
            assert_eq!(SqlType::of_column(kind).to_column(), Some(kind));
        }
        assert_eq!(SqlType::Tid.to_column(), None);
    }

    #[test]
    fn oids_lead_back() {
        for ty in SqlType::every() {
            assert_eq!(SqlType::from_oid(ty.oid()), Some(ty));
            assert_eq!(SqlType::of_full_name(ty.name()), Some(ty));
        }
    }
}
