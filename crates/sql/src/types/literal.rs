//! Values as SQL writes them.
//!
//! Does not do: names (`names`), expressions (`expr::deparse`).

use super::{Datum, SqlType};

/// A string in quotes.
pub(crate) fn literal(text: &str) -> String {
    let quoted = format!("'{}'", text.replace('\'', "''"));
    if text.contains('\\') { format!("E{}", quoted.replace('\\', "\\\\")) } else { quoted }
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
