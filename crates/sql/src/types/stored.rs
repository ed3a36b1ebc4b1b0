//! What the store keeps for values, and values of what it keeps.
//!
//! Invariants: a value that is stored reads back as itself. Of a type that is coded the store keeps
//! bytes that compare as the values do.
//! Does not do: the bytes themselves (`network`, `bits`, `enums`, `array`).

use rightlink::Value;

use super::{Bits, Datum, Jsonb, Network, SqlType, array, row_input};
use crate::error::{Result, SqlError, code};

impl Datum {
    /// A value of a column of type `ty`, as the store has it.
    pub(crate) fn stored(value: Value, ty: SqlType) -> Result<Datum> {
        match (value, ty) {
            (Value::Bytes(bytes), SqlType::Array(element)) => {
                Ok(array::from_stored(element, &bytes)?.into())
            }
            (Value::Bytes(bytes), SqlType::Enum(ty)) => ty.stored_value(&bytes),
            (Value::Bytes(bytes), SqlType::Composite(ty)) => ty.read_stored(&bytes),
            (Value::Bytes(bytes), ty) if ty.is_coded() => Datum::from_code(ty, &bytes),
            (Value::Bytes(bytes), SqlType::Timetz) => Datum::from_binary(ty, &bytes),
            (Value::Bytes(bytes), SqlType::Jsonb) => Jsonb::from_stored(bytes).map(Datum::Jsonb),
            (value, _) => Ok(Datum::from(value)),
        }
    }

    /// The values of a row, as the store has it, of columns of these types.
    pub(crate) fn stored_row<'t>(
        values: &'t [Value],
        types: &'t [SqlType],
    ) -> impl Iterator<Item = Result<Datum>> + use<'t> {
        values.iter().zip(types).map(|(value, ty)| Datum::stored(value.clone(), *ty))
    }

    /// The value of a column of the store; `None` for a type that it does not have.
    pub(crate) fn into_value(self) -> Option<Value> {
        Some(match self {
            Datum::Null => Value::Null,
            Datum::Bool(v) => Value::Bool(v),
            Datum::Int2(v) => Value::Int2(v),
            Datum::Int4(v) => Value::Int4(v),
            Datum::Int8(v) => Value::Int8(v),
            Datum::Float4(v) => Value::Float4(v),
            Datum::Float8(v) => Value::Float8(v),
            Datum::Text(v) => Value::Text(v),
            Datum::Bytes(v) => Value::Bytes(v),
            Datum::Uuid(v) => Value::Uuid(v),
            Datum::Date(v) => Value::Date(v),
            Datum::Timestamp(v) => Value::Timestamp(v),
            Datum::Timestamptz(v) => Value::TimestampTz(v),
            Datum::Numeric(v) => Value::Decimal(v),
            Datum::Interval(v) => Value::Interval(v),
            Datum::Time(v) => Value::Time(v),
            Datum::Timetz(v) => Value::Bytes(v.to_bytes()),
            Datum::Json(v) => Value::Json(v),
            Datum::Jsonb(v) => Value::Bytes(v.into_stored()),
            Datum::Enum(v) => Value::Bytes(v.code().to_vec()),
            Datum::Array(v) => Value::Bytes(array::to_stored(&v)),
            Datum::Record(v) if v.ty().is_some() => Value::Bytes(row_input::to_stored(&v)),
            coded @ (Datum::Inet(_)
            | Datum::Cidr(_)
            | Datum::Bit(_)
            | Datum::Varbit(_)
            | Datum::Lsn(_)
            | Datum::Oid(_)
            | Datum::Char(_)) => Value::Bytes(coded.code()?),
            Datum::Tid(_)
            | Datum::Reg(_)
            | Datum::Jsonpath(_)
            | Datum::Vector(_)
            | Datum::Record(_) => return None,
        })
    }

    /// The bytes that the store keeps for a value of a type that is coded, or a label of an enum:
    /// they compare as the values do.
    pub(crate) fn code(&self) -> Option<Vec<u8>> {
        match self {
            Datum::Enum(label) => Some(label.code().to_vec()),
            Datum::Inet(network) | Datum::Cidr(network) => Some(network.to_stored()),
            Datum::Bit(bits) | Datum::Varbit(bits) => Some(bits.to_stored()),
            Datum::Lsn(_) | Datum::Oid(_) | Datum::Char(_) => self.to_binary(),
            _ => None,
        }
    }

    /// The value of a type that is coded for which the store keeps these bytes.
    fn from_code(ty: SqlType, bytes: &[u8]) -> Result<Datum> {
        let found = match ty {
            SqlType::Inet => Network::from_stored(bytes).map(Datum::Inet),
            SqlType::Cidr => Network::from_stored(bytes).map(Datum::Cidr),
            SqlType::Bit => Bits::from_stored(bytes).map(Datum::Bit),
            SqlType::Varbit => Bits::from_stored(bytes).map(Datum::Varbit),
            ty => Datum::from_binary(ty, bytes).ok(),
        };
        found.ok_or_else(|| {
            let message = format!("a value of type {} is stored as {bytes:?}", ty.name());
            SqlError::new(code::DATA_CORRUPTED, message)
        })
    }
}

impl From<Value> for Datum {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Datum::Null,
            Value::Bool(v) => Datum::Bool(v),
            Value::Int2(v) => Datum::Int2(v),
            Value::Int4(v) => Datum::Int4(v),
            Value::Int8(v) => Datum::Int8(v),
            Value::Float4(v) => Datum::Float4(v),
            Value::Float8(v) => Datum::Float8(v),
            Value::Text(v) => Datum::Text(v),
            Value::Bytes(v) => Datum::Bytes(v),
            Value::Uuid(v) => Datum::Uuid(v),
            Value::Date(v) => Datum::Date(v),
            Value::Timestamp(v) => Datum::Timestamp(v),
            Value::TimestampTz(v) => Datum::Timestamptz(v),
            Value::Interval(v) => Datum::Interval(v),
            Value::Time(v) => Datum::Time(v),
            Value::Decimal(v) => Datum::Numeric(v),
            Value::Json(v) => Datum::Json(v),
            other => Datum::Text(other.to_string()),
        }
    }
}
