//! Rows as bytes, and sort keys as bytes that compare as the values do.
//!
//! Invariants: for two values of one type, bytes compare as [`Datum::compare`]; a row that was
//! written reads back as equal values of the same types. Does not do: rows on disk for longer than
//! a statement.

use rightlink::Value;

use crate::error::Result;
use crate::expr::SortKey;
use crate::types::composite::Field;
use crate::types::json::{Jsonb, Node};
use crate::types::record::Record;
use crate::types::{
    Array, CompositeType, Datum, Decimal, Dimension, ElementType, EnumType, Registered, Row,
    SqlType, numeric,
};

/// In place of a type: a null.
const NULL: u8 = u8::MAX;
/// The same: a label of an enum, or an array of them; which enum it is follows.
const LABEL: u8 = u8::MAX - 1;
const LABELS: u8 = u8::MAX - 2;
/// The same: a row, or an array of them.
const RECORD: u8 = u8::MAX - 3;
const RECORDS: u8 = u8::MAX - 4;
/// The same of a type that has a name; which type it is follows.
const COMPOSITE: u8 = u8::MAX - 5;
const COMPOSITES: u8 = u8::MAX - 6;
/// The same: a literal in a row, which no type was found for.
const UNKNOWN: u8 = u8::MAX - 7;
const SIGN: u64 = 1 << 63;

/// In front of an element of an array, and behind the last.
const ELEMENT: u8 = 1;
const END: u8 = 0;

/// Appends a value's part of the key.
pub(super) fn encode(out: &mut Vec<u8>, value: &Datum, key: &SortKey) {
    out.push(u8::from(value.is_null() != key.nulls_first));
    let start = out.len();
    match value {
        Datum::Null => return,
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Int2(value) => whole(out, i64::from(*value)),
        Datum::Int4(value) | Datum::Date(value) => whole(out, i64::from(*value)),
        Datum::Int8(value)
        | Datum::Timestamp(value)
        | Datum::Timestamptz(value)
        | Datum::Time(value) => whole(out, *value),
        Datum::Timetz(value) => {
            whole(out, value.utc_micros());
            whole(out, i64::from(-value.offset));
        }
        Datum::Float4(value) => float(out, f64::from(*value)),
        Datum::Float8(value) => float(out, *value),
        Datum::Text(text) if key.collation.is_some() => {
            let text = if key.padded { text.trim_end_matches(' ') } else { text.as_str() };
            let mut weights = Vec::new();
            key.collation.iter().for_each(|known| known.sort_key(text, &mut weights));
            bytes(out, &weights);
        }
        Datum::Text(text) if key.padded => bytes(out, text.trim_end_matches(' ').as_bytes()),
        Datum::Text(text) => bytes(out, text.as_bytes()),
        Datum::Bytes(value) => bytes(out, value),
        Datum::Uuid(value) => out.extend_from_slice(value),
        Datum::Interval(value) => {
            out.extend_from_slice(&(value.total_micros() ^ i128::MIN).to_be_bytes());
        }
        Datum::Tid(row) => {
            out.extend_from_slice(&row.block.0.to_be_bytes());
            out.extend_from_slice(&row.slot.to_be_bytes());
        }
        Datum::Numeric(value) => decimal(out, value),
        Datum::Json(text) => bytes(out, text.as_bytes()),
        Datum::Jsonpath(path) => bytes(out, path.to_string().as_bytes()),
        Datum::Jsonb(value) => document(out, value),
        Datum::Oid(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Char(value) => out.push(*value),
        Datum::Reg(value) => out.extend_from_slice(&value.oid.to_be_bytes()),
        Datum::Enum(value) => bytes(out, value.code()),
        Datum::Inet(value) | Datum::Cidr(value) => bytes(out, &value.to_stored()),
        Datum::Bit(value) | Datum::Varbit(value) => bytes(out, &value.to_stored()),
        Datum::Lsn(value) => out.extend_from_slice(&value.0.to_be_bytes()),
        Datum::Array(value) | Datum::Vector(value) => array(out, value),
        Datum::Record(value) => record(out, value),
    }
    if key.descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

fn whole(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&(value as u64 ^ SIGN).to_be_bytes());
}

/// Not a number is the largest, the two zeros are equal.
fn float(out: &mut Vec<u8>, value: f64) {
    let bits = match value {
        value if value.is_nan() => u64::MAX >> 1,
        0.0 => 0,
        value => value.to_bits(),
    };
    let ordered = if bits & SIGN == 0 { bits ^ SIGN } else { !bits };
    out.extend_from_slice(&ordered.to_be_bytes());
}

/// With an end that no longer value has in its place.
fn bytes(out: &mut Vec<u8>, value: &[u8]) {
    for byte in value {
        out.push(*byte);
        if *byte == 0 {
            out.push(u8::MAX);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// The kind (minus infinity, below zero, zero, above zero, infinity, NaN), the place of the first
/// digits, the digits.
fn decimal(out: &mut Vec<u8>, value: &Decimal) {
    let negative = value.is_negative();
    out.push(match (value.is_finite(), negative) {
        (true, true) => 1,
        (true, false) if value.is_zero() => 2,
        (true, false) => 3,
        (false, true) => 0,
        (false, false) if value.is_nan() => 5,
        (false, false) => 4,
    });
    let start = out.len();
    if !value.pairs().is_empty() {
        whole(out, i64::from(value.exponent()));
        out.extend(value.pairs().iter().map(|pair| pair + 1));
    }
    out.push(0);
    if negative {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// A scalar counts as an array of one that comes before such an array.
fn document(out: &mut Vec<u8>, value: &Jsonb) {
    match value.node() {
        whole @ (Node::Object(_) | Node::Array(_)) => node(out, whole, true),
        scalar => {
            out.push(Node::ARRAY_RANK);
            whole(out, 1);
            out.push(0);
            node(out, scalar, true);
        }
    }
}

/// A value of a document: its kind, counts, then members.
fn node(out: &mut Vec<u8>, value: Node<'_>, is_top: bool) {
    out.push(value.rank());
    match value {
        Node::Null => {}
        Node::Bool(value) => out.push(u8::from(value)),
        Node::Number(text) => {
            decimal(out, &numeric::parse(text).expect("it was made from a numeric"));
        }
        Node::String(text) => bytes(out, text.as_bytes()),
        Node::Array(items) => {
            whole(out, items.len() as i64);
            out.extend(is_top.then_some(1));
            items.iter().for_each(|item| node(out, item, false));
        }
        Node::Object(fields) => {
            whole(out, fields.len() as i64);
            for (key, value) in fields.iter() {
                bytes(out, key.as_bytes());
                node(out, value, false);
            }
        }
    }
}

/// The elements, then what tells arrays of equal elements apart.
fn array(out: &mut Vec<u8>, value: &Array) {
    let padded = value.element().ty() == SqlType::Bpchar;
    let key = SortKey { at: 0, descending: false, nulls_first: false, padded, collation: None };
    for element in value.values() {
        out.push(ELEMENT);
        encode(out, element, &key);
    }
    out.push(END);
    out.push(value.dimensions().len() as u8);
    value.dimensions().iter().for_each(|one| whole(out, i64::from(one.length)));
    value.dimensions().iter().for_each(|one| whole(out, i64::from(one.lower)));
}

/// The fields, each as [`Record::compare`] has it.
fn record(out: &mut Vec<u8>, value: &Record) {
    for (field, value) in value.fields().iter().zip(value.values()) {
        let padded = field.ty == SqlType::Bpchar;
        let key = SortKey { at: 0, descending: false, nulls_first: false, padded, collation: None };
        out.push(ELEMENT);
        // The kind comes first, as values of different types may meet.
        out.push(u8::from(value.is_null()));
        out.extend(value.type_of().map_or(0, SqlType::oid).to_be_bytes());
        encode(out, value, &key);
    }
    out.push(END);
}

/// The fields with their types and names, and the values; of a type that has a name it tells the
/// fields.
fn record_bytes(value: &Record) -> Vec<u8> {
    if value.ty().is_some() {
        let mut out = Vec::new();
        write_row(&mut out, value.values());
        return out;
    }
    let mut out = (value.fields().len() as u32).to_le_bytes().to_vec();
    for field in value.fields() {
        write_type(&mut out, field.ty);
        out.extend((field.name.len() as u32).to_le_bytes());
        out.extend(field.name.as_bytes());
    }
    write_row(&mut out, value.values());
    out
}

fn record_of(bytes: &[u8]) -> Result<Record> {
    let (count, mut rest) = bytes.split_first_chunk::<4>().expect("a count was written");
    let mut fields = Vec::new();
    for _ in 0..u32::from_le_bytes(*count) {
        let (ty, after) = read_type(rest);
        let (len, after) = after.split_first_chunk::<4>().expect("a length was written");
        let (name, after) = after.split_at(u32::from_le_bytes(*len) as usize);
        let name = String::from_utf8(name.to_vec()).expect("a name was written");
        fields.push(Field { name, ty, modifier: None });
        rest = after;
    }
    Ok(Record::new(fields.into(), read_row(rest)?))
}

fn write_type(out: &mut Vec<u8>, ty: SqlType) {
    match ty.element().unwrap_or(ty) {
        SqlType::Enum(made) => {
            out.push(if ty.is_array() { LABELS } else { LABEL });
            out.extend(made.place().to_le_bytes());
        }
        SqlType::Composite(made) => {
            out.push(if ty.is_array() { COMPOSITES } else { COMPOSITE });
            out.extend(made.place().to_le_bytes());
        }
        SqlType::Record => out.push(if ty.is_array() { RECORDS } else { RECORD }),
        SqlType::Unknown => out.push(UNKNOWN),
        _ => out.push(SqlType::every().position(|known| known == ty).expect("a known type") as u8),
    }
}

/// The type that was written, and what is behind it.
fn read_type(bytes: &[u8]) -> (SqlType, &[u8]) {
    let (place, rest) = bytes.split_first().expect("a type was written");
    let array_of = |ty| SqlType::array_of(ty).expect("an element");
    match *place {
        LABEL | LABELS | COMPOSITE | COMPOSITES => {
            let (made, rest) = rest.split_first_chunk::<4>().expect("a type was written");
            let made = u32::from_le_bytes(*made);
            let ty = match *place {
                LABEL | LABELS => EnumType::at_place(made).map(SqlType::Enum),
                _ => CompositeType::at_place(made).map(SqlType::Composite),
            };
            let ty = ty.expect("a type was written");
            (if matches!(*place, LABELS | COMPOSITES) { array_of(ty) } else { ty }, rest)
        }
        RECORD => (SqlType::Record, rest),
        RECORDS => (array_of(SqlType::Record), rest),
        UNKNOWN => (SqlType::Unknown, rest),
        place => (SqlType::every().nth(usize::from(place)).expect("a type was written"), rest),
    }
}

/// Appends a row.
pub(super) fn write_row(out: &mut Vec<u8>, row: &[Datum]) {
    for value in row {
        let Some(ty) = value.type_of() else {
            out.push(NULL);
            continue;
        };
        write_type(out, ty);
        let of_enum = matches!(ty.element().unwrap_or(ty), SqlType::Enum(_));
        let bytes = match value {
            Datum::Enum(_) | Datum::Array(_) if of_enum => match value.clone().into_value() {
                Some(Value::Bytes(bytes)) => bytes,
                other => unreachable!("the store has codes for labels: {other:?}"),
            },
            Datum::Record(record) => record_bytes(record),
            Datum::Array(array) if is_of_rows(ty) => array_bytes(array),
            Datum::Numeric(number) => number.as_bytes().to_vec(),
            // With the name that it is shown by.
            Datum::Reg(one) => [&one.oid.to_be_bytes()[..], one.shown.as_bytes()].concat(),
            other => other.to_binary().expect("a value that has a type has bytes"),
        };
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&bytes);
    }
}

/// Is it a type of arrays of rows?
fn is_of_rows(ty: SqlType) -> bool {
    matches!(ty.element(), Some(SqlType::Record | SqlType::Composite(_)))
}

/// The dimensions of an array, and the elements as a row has them.
fn array_bytes(array: &Array) -> Vec<u8> {
    let mut out = vec![array.dimensions().len() as u8];
    for dimension in array.dimensions() {
        out.extend(dimension.lower.to_le_bytes());
        out.extend(dimension.length.to_le_bytes());
    }
    write_row(&mut out, array.values());
    out
}

fn array_of(element: ElementType, bytes: &[u8]) -> Result<Array> {
    let (count, mut rest) = bytes.split_first().expect("a count was written");
    let mut dimensions = Vec::new();
    for _ in 0..*count {
        let (lower, after) = rest.split_first_chunk::<4>().expect("a bound was written");
        let (length, after) = after.split_first_chunk::<4>().expect("a length was written");
        let (lower, length) = (i32::from_le_bytes(*lower), i32::from_le_bytes(*length));
        dimensions.push(Dimension { lower, length });
        rest = after;
    }
    Array::shaped(element, dimensions, read_row(rest)?)
}

/// The row that was written.
pub(super) fn read_row(mut bytes: &[u8]) -> Result<Row> {
    let mut row = Row::new();
    while let Some((place, rest)) = bytes.split_first() {
        if *place == NULL {
            bytes = rest;
            row.push(Datum::Null);
            continue;
        }
        let (ty, rest) = read_type(bytes);
        let (len, rest) = rest.split_first_chunk::<4>().expect("a length was written");
        let (value, rest) = rest.split_at(u32::from_le_bytes(*len) as usize);
        bytes = rest;
        row.push(match ty {
            SqlType::Record => record_of(value)?.into(),
            SqlType::Composite(made) => Record::of_type(made, read_row(value)?).into(),
            SqlType::Array(element) if is_of_rows(ty) => array_of(element, value)?.into(),
            ty if matches!(ty.element().unwrap_or(ty), SqlType::Enum(_)) => {
                Datum::stored(Value::Bytes(value.to_vec()), ty)?
            }
            SqlType::Numeric => {
                Datum::Numeric(Decimal::from_bytes(value).expect("a number was written"))
            }
            SqlType::Reg(kind) => {
                let (oid, shown) = value.split_first_chunk::<4>().expect("a number was written");
                let shown = String::from_utf8(shown.to_vec()).expect("a name was written");
                Registered::datum(kind, u32::from_be_bytes(*oid), Some(shown))
            }
            ty => Datum::from_binary(ty, value)?,
        });
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Interval;

    /// Rows with nulls, and one inside of another.
    fn records() -> Vec<Datum> {
        let field = |name: &str, ty| Field { name: name.to_owned(), ty, modifier: None };
        let fields = [field("a", SqlType::Int4), field("b", SqlType::Text)];
        let text = |text: &str| Datum::Text(text.to_owned());
        let rows = [
            [Datum::Int4(-1), text("z")],
            [Datum::Int4(1), text("")],
            [Datum::Int4(1), text("a\u{1}")],
            [Datum::Int4(1), Datum::Null],
            [Datum::Null, text("a")],
            [Datum::Null, Datum::Null],
        ];
        let record = |row: [Datum; 2]| Record::new(fields.clone().into(), row.to_vec()).into();
        let mut records: Vec<Datum> = rows.into_iter().map(record).collect();
        let nested = Record::new([field("r", SqlType::Record)].into(), vec![records[0].clone()]);
        records.push(nested.into());
        records
    }

    #[test]
    fn keys_compare_as_values_do_and_rows_come_back() {
        let numbers = [
            "-1000.5",
            "-1000",
            "-2",
            "-0.05",
            "0",
            "0.00",
            "0.049",
            "0.05",
            "1.5",
            "1.50",
            "10",
            "1e30",
            "1.5e131000",
        ];
        let floats = ["-Infinity", "-1.5", "-0", "0", "1e-300", "2", "Infinity", "NaN"];
        let of = |ty, list: &[&str]| -> Vec<Datum> {
            list.iter().map(|one| Datum::from_text(ty, one).unwrap()).collect()
        };
        let mut kinds = vec![of(SqlType::Numeric, &numbers), of(SqlType::Float8, &floats)];
        // As many digits after the point as there can be.
        kinds[0].push(Datum::from_text(SqlType::Numeric, &format!("-0.{:016382}1", 0)).unwrap());
        let strange = [Decimal::nan(), Decimal::infinity(true), Decimal::infinity(false)];
        kinds[0].extend(strange.map(Datum::Numeric));
        kinds.push(of(SqlType::Text, &["", "a", "a\u{1}", "ab", "b", "\u{e9}"]));
        kinds.push(of(SqlType::Text, &["x", "x\ty", "x \ty", "x ", " "]));
        kinds.push(of(SqlType::Int4, &["-2147483648", "-1", "0", "1", "2147483647"]));
        kinds.push(of(SqlType::Date, &["0001-01-01", "1999-12-31", "2000-01-02"]));
        kinds.push(of(SqlType::Bytea, &["\\x", "\\x00", "\\x0000", "\\x0001", "\\x01"]));
        let interval = |months, days, micros| Datum::Interval(Interval { months, days, micros });
        kinds.push(vec![
            interval(-1, 0, 0),
            interval(0, 29, 5),
            interval(1, 0, 0),
            interval(0, 30, 0),
        ]);
        let documents = [
            "[]",
            "null",
            "\"\"",
            "\"a\"",
            "-1",
            "1.0",
            "1",
            "true",
            "[1]",
            "[[], 2]",
            "[3, {}]",
            "{}",
            "{\"a\": [1]}",
            "{\"b\": null}",
            "{\"a\": 1, \"bb\": 2}",
        ];
        kinds.push(of(SqlType::Jsonb, &documents));
        let times = ["10:00+02", "08:00+00", "09:00+01", "10:00+01", "24:00-15", "00:00+15"];
        kinds.push(of(SqlType::Timetz, &times));
        kinds.push(of(SqlType::Varbit, &["", "0", "00", "01", "1", "00000000", "000000000"]));
        kinds.push(of(SqlType::Lsn, &["0/0", "0/FFFFFFFF", "1/0", "FFFFFFFF/1"]));
        let addresses = ["10.1.2.3", "10.1.2.3/24", "10.0.0.0/8", "0.0.0.0/0", "::", "::1/0"];
        kinds.push(of(SqlType::Inet, &addresses));
        kinds.push(of(SqlType::Time, &["00:00", "12:00:00.5", "24:00"]));
        kinds.push(records());
        for mut values in kinds {
            values.push(Datum::Null);
            for (descending, nulls_first) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let key =
                    SortKey { at: 0, descending, nulls_first, padded: descending, collation: None };
                for a in &values {
                    for b in &values {
                        let bytes = |value| {
                            let mut out = Vec::new();
                            encode(&mut out, value, &key);
                            out
                        };
                        let wanted = super::super::query::compare(
                            std::slice::from_ref(a),
                            std::slice::from_ref(b),
                            std::slice::from_ref(&key),
                        );
                        assert_eq!(bytes(a).cmp(&bytes(b)), wanted, "{a:?} {b:?} {key:?}");
                    }
                }
            }
            let mut out = Vec::new();
            write_row(&mut out, &values);
            let again = read_row(&out).unwrap();
            let shown = |row: &Row| row.iter().map(|value| value.to_text()).collect::<Vec<_>>();
            assert_eq!(shown(&again), shown(&values));
        }
    }
}
