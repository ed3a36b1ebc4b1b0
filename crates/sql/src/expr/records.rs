//! Rows as values: how they are made and asked for nulls, and as documents.
//!
//! A call that makes a row has a row of nulls in front of its values, which tells the fields.
//!
//! Does not do: which fields a row has (`bind::records`); comparisons (`operators`).

use std::sync::OnceLock;

use super::json;
use crate::error::Result;
use crate::expr::function::{Function, Registry};
use crate::expr::operators::mismatch;
use crate::types::record::Record;
use crate::types::{Datum, SqlType};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    for count in [1, 2] {
        let args = &[T::Record, T::Bool][..count];
        registry.add("row_to_json", args, T::Json, json::row_to_json);
    }
}

/// What calls of these functions are known by.
pub(super) const ROW: &str = "row";
pub(super) const IS_NULL: &str = "row is null";
pub(super) const IS_NOT_NULL: &str = "row is not null";

fn function(name: &'static str, result: SqlType, eval: super::function::Eval) -> Function {
    Function { strict: false, ..Function::new(name, &[SqlType::Record], result, eval) }
}

/// What makes a row of a row of nulls and the values.
pub(crate) fn row() -> &'static Function {
    static FUNCTION: OnceLock<Function> = OnceLock::new();
    FUNCTION.get_or_init(|| {
        let mut row = function(ROW, SqlType::Record, |v, _| match &v[0] {
            Datum::Record(shape) => {
                let row = Record::new(shape.shape().clone(), v[1..].to_vec());
                row.check_size()?;
                Ok(row.into())
            }
            _ => mismatch(v),
        });
        row.variadic = true;
        row
    })
}

/// Is a row null, as all of its fields are?
pub(crate) fn is_null() -> &'static Function {
    static FUNCTION: OnceLock<Function> = OnceLock::new();
    FUNCTION.get_or_init(|| function(IS_NULL, SqlType::Bool, |v, _| nulls(&v[0], true)))
}

/// Is no field of a row null?
pub(crate) fn is_not_null() -> &'static Function {
    static FUNCTION: OnceLock<Function> = OnceLock::new();
    FUNCTION.get_or_init(|| function(IS_NOT_NULL, SqlType::Bool, |v, _| nulls(&v[0], false)))
}

/// Are all fields null, or is none?
fn nulls(row: &Datum, wanted: bool) -> Result<Datum> {
    Ok(Datum::Bool(match row {
        Datum::Record(record) => record.values().iter().all(|value| value.is_null() == wanted),
        other => other.is_null() == wanted,
    }))
}
