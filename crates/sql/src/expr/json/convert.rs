//! Values of SQL as documents.
//!
//! Invariants: the text is a sound document; a number that JSON does not have is a string.
//! Does not do: documents as values of SQL.

use crate::error::{Result, SqlError, code};
use crate::types::json::write_string;
use crate::types::record::Record;
use crate::types::time::{self, Styles, Times};
use crate::types::{Array, Datum};

/// Appends a value as `to_json` gives it.
pub(super) fn write_value(value: &Datum, times: &Times, out: &mut String) {
    match value {
        Datum::Null => out.push_str("null"),
        Datum::Bool(true) => out.push_str("true"),
        Datum::Bool(false) => out.push_str("false"),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => value.write_text_in(times, out),
        Datum::Float4(_) | Datum::Float8(_) | Datum::Numeric(_) => {
            let text = value.to_text().unwrap_or_default();
            // NaN and infinities are no numbers.
            match text.ends_with(|c: char| c.is_ascii_digit()) {
                true => out.push_str(&text),
                false => write_string(&text, out),
            }
        }
        Datum::Json(text) => out.push_str(text),
        Datum::Jsonb(document) => document.write_text(out),
        Datum::Array(array) => write_array(array, "", times, out),
        Datum::Record(record) => write_record(record, "", times, out),
        other => write_string(&plain(other, times), out),
    }
}

/// The text of a value that is no number and no document, dates and times as ISO 8601 has them.
fn plain(value: &Datum, times: &Times) -> String {
    let mut out = String::new();
    match value {
        Datum::Date(days) => time::date(*days, &Styles::default(), &mut out),
        Datum::Timestamp(micros) => time::iso_timestamp(*micros, false, times, &mut out),
        Datum::Timestamptz(micros) => time::iso_timestamp(*micros, true, times, &mut out),
        other => other.write_text_in(times, &mut out),
    }
    out
}

/// Appends a row as an object of its fields; `feed` stands behind commas.
pub(super) fn write_record(record: &Record, feed: &str, times: &Times, out: &mut String) {
    out.push('{');
    for (at, (field, value)) in record.fields().iter().zip(record.values()).enumerate() {
        if at > 0 {
            out.push(',');
            out.push_str(feed);
        }
        write_string(&field.name, out);
        out.push(':');
        write_value(value, times, out);
    }
    out.push('}');
}

/// Appends an array; `feed` stands behind commas between the outermost elements.
pub(super) fn write_array(array: &Array, feed: &str, times: &Times, out: &mut String) {
    let lengths: Vec<usize> =
        array.dimensions().iter().map(|dimension| dimension.length as usize).collect();
    let mut write = |value: &Datum, out: &mut String| write_value(value, times, out);
    write_level(&lengths, array.values(), feed, &mut write, out);
}

fn write_level(
    lengths: &[usize],
    values: &[Datum],
    feed: &str,
    write: &mut dyn FnMut(&Datum, &mut String),
    out: &mut String,
) {
    out.push('[');
    let inner: usize = lengths.iter().skip(1).product();
    for (at, part) in values.chunks(inner.max(1)).enumerate() {
        if at > 0 {
            out.push(',');
            out.push_str(feed);
        }
        match lengths {
            [_, rest @ ..] if !rest.is_empty() => {
                write_level(rest, part, "", write, out);
            }
            _ => part.iter().for_each(|value| write(value, out)),
        }
    }
    out.push(']');
}

/// Appends a value as the key of an object.
///
/// # Errors
/// `22023` for null and for values that have no plain text.
pub(super) fn write_key(value: &Datum, times: &Times, out: &mut String) -> Result<()> {
    let refused = |message| Err(SqlError::new(code::INVALID_PARAMETER, message));
    match value {
        Datum::Null => return refused("field name must not be null"),
        Datum::Array(_) | Datum::Record(_) | Datum::Json(_) | Datum::Jsonb(_) => {
            return refused("key value must be scalar, not array, composite, or json");
        }
        Datum::Bool(value) => write_string(if *value { "true" } else { "false" }, out),
        other => write_string(&plain(other, times), out),
    }
    Ok(())
}
