//! Numbers of objects, and values of the columns of catalogs.
//!
//! Invariants: what the store gives no number has one that is made of a table and a name.
//! Does not do: which object has which number (`objects`).

use crate::error::Result;
use crate::names::PUBLIC;
pub(crate) use crate::oids::{PUBLIC_OID, relation_oid};
use crate::types::{Array, Datum, ElementType, Row, SqlType};

/// That of `pg_catalog`.
pub(super) const CATALOGS_OID: u32 = 11;
/// That of `information_schema`.
pub(super) const INFORMATION_OID: u32 = 13_207;
/// Schemas that are there without being made, with their numbers in PostgreSQL.
pub(super) const STANDARD_SCHEMAS: [(u32, &str); 3] =
    [(CATALOGS_OID, "pg_catalog"), (PUBLIC_OID, PUBLIC), (INFORMATION_OID, "information_schema")];

/// The one database there is.
pub(crate) const DATABASE: u32 = 5;
/// Numbers of catalogs.
pub(super) const PG_ATTRDEF: u32 = 2_604;
pub(super) const PG_AUTHID: u32 = 1_260;
pub(super) const PG_CLASS: u32 = 1_259;
pub(super) const PG_COLLATION: u32 = 3_456;
pub(super) const PG_CONSTRAINT: u32 = 2_606;
pub(super) const PG_DATABASE: u32 = 1_262;
pub(super) const PG_NAMESPACE: u32 = 2_615;
pub(super) const PG_PROC: u32 = 1_255;
pub(super) const PG_REWRITE: u32 = 2_618;
pub(super) const PG_TYPE: u32 = 1_247;
/// The tablespace that everything is in.
pub(crate) const TABLESPACE: u32 = 1_663;

/// The number of the owner of everything, as PostgreSQL has it.
pub(super) const OWNER_OID: u32 = 10;
pub(super) const OWNER: Datum = Datum::Oid(OWNER_OID);

/// The number of what a table has that the store gives none, made of its name.
pub(super) fn made_oid(table: u32, name: &str) -> u32 {
    let bytes = table.to_le_bytes().into_iter().chain(name.bytes());
    let code = bytes
        .fold(0x811c_9dc5_u32, |code, byte| (code ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    code | 1 << 31
}

pub(super) fn text(text: impl Into<String>) -> Datum {
    Datum::Text(text.into())
}

pub(super) fn number(number: impl TryInto<i64>) -> Datum {
    Datum::Int8(number.try_into().unwrap_or(i64::MAX))
}

/// A truth as the standard tells it.
pub(super) fn yes(on: bool) -> Datum {
    text(if on { "YES" } else { "NO" })
}

/// So many columns that say nothing here.
pub(super) fn nulls(row: &mut Row, count: usize) {
    row.extend(std::iter::repeat_n(Datum::Null, count));
}

pub(super) fn oid(number: u32) -> Datum {
    Datum::Oid(number)
}

/// A `"char"`; the zero is the empty one.
pub(super) fn char(letter: char) -> Datum {
    Datum::Char(u8::try_from(letter).unwrap_or(b'?'))
}

pub(super) fn short(number: usize) -> Datum {
    Datum::Int2(i16::try_from(number).unwrap_or(i16::MAX))
}

pub(super) fn count(number: u32) -> Datum {
    Datum::Int4(i32::try_from(number).unwrap_or(i32::MAX))
}

/// An array of these values.
pub(super) fn array(ty: SqlType, values: Vec<Datum>) -> Result<Datum> {
    let element = ElementType::of(ty).expect("values that are elements");
    Ok(Array::of(element, values)?.into())
}

/// An array of texts; there are few.
pub(super) fn texts(values: Vec<String>) -> Datum {
    array(SqlType::Text, values.into_iter().map(Datum::Text).collect()).unwrap_or_default()
}

pub(super) fn vector(ty: SqlType, values: Vec<Datum>) -> Result<Datum> {
    Datum::vector(ty, values)
}
