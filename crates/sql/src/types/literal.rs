//! Values as SQL writes them, and numbers as it reads them.
//!
//! Does not do: names (`names`), expressions (`expr::deparse`).

use super::{Datum, SqlType, numeric};
use crate::error::{Result, SqlError, code};

/// A string in quotes.
pub(crate) fn literal(text: &str) -> String {
    let quoted = format!("'{}'", text.replace('\'', "''"));
    if text.contains('\\') { format!("E{}", quoted.replace('\\', "\\\\")) } else { quoted }
}

/// A number: the smallest of integer, bigint and numeric that holds it.
pub(crate) fn number(digits: &str) -> Result<Datum> {
    if let Some(at) = digits.find('_') {
        let message =
            format!("trailing junk after numeric literal at or near \"{}\"", &digits[..=at]);
        return Err(SqlError::syntax(message));
    }
    if let Ok(value) = digits.parse::<i64>() {
        return Ok(i32::try_from(value).map_or(Datum::Int8(value), Datum::Int4));
    }
    match numeric::parse(digits) {
        Ok(value) => Ok(Datum::Numeric(value)),
        Err(error) if error.sqlstate == code::INVALID_TEXT => {
            Err(SqlError::syntax(format!("syntax error at or near \"{digits}\"")))
        }
        Err(error) => Err(error),
    }
}

/// A constant.
pub(crate) fn constant(value: &Datum) -> String {
    match value {
        Datum::Null => "NULL".to_owned(),
        Datum::Bool(v) => v.to_string(),
        Datum::Int4(v) if *v < 0 => format!("'{v}'::integer"),
        Datum::Int4(v) => v.to_string(),
        Datum::Numeric(v) if !v.is_negative() => v.to_string(),
        // Of any length: without quotes the name of the type means one bit.
        Datum::Bit(v) => format!("{}::\"bit\"", literal(&v.to_text())),
        other => {
            let ty = other.type_of().unwrap_or(SqlType::Unknown);
            format!("{}::{}", literal(&other.to_text().unwrap_or_default()), ty.name())
        }
    }
}
