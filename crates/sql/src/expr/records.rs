//! Rows as values: how they are made and asked for nulls, and as documents.
//!
//! A call that makes a row has a row of nulls in front of its values, which tells the fields.
//!
//! Does not do: which fields a row has (`bind::records`); comparisons (`operators`).

use std::sync::OnceLock;

use super::json;
use crate::error::Result;
use crate::expr::Context;
use crate::expr::function::{Function, Registry};
use crate::expr::operators::mismatch;
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
pub(crate) const ROW: &str = "row";
pub(crate) const SHAPED: &str = "row of fields";
pub(super) const FIELD: &str = "field of row";
pub(super) const IS_NULL: &str = "row is null";
pub(super) const IS_NOT_NULL: &str = "row is not null";

fn function(name: &'static str, result: SqlType, eval: super::function::Eval) -> Function {
    Function { strict: false, ..Function::new(name, &[SqlType::Record], result, eval) }
}

/// What makes a row of a row of nulls and the values.
pub(crate) fn row() -> &'static Function {
    static FUNCTION: OnceLock<Function> = OnceLock::new();
    FUNCTION.get_or_init(|| Function { variadic: true, ..function(ROW, SqlType::Record, made) })
}

/// As [`row`], but null where every value is: a call that gives rows has no more of them.
pub(crate) fn row_of_call() -> &'static Function {
    static FUNCTION: OnceLock<Function> = OnceLock::new();
    FUNCTION.get_or_init(|| {
        let row = function(ROW, SqlType::Record, |v, context| match v[1..] {
            ref values if values.iter().all(Datum::is_null) => Ok(Datum::Null),
            _ => made(v, context),
        });
        Function { variadic: true, ..row }
    })
}

/// A row as it is. A row of nulls stands behind it, which tells the fields.
pub(crate) fn shaped() -> &'static Function {
    static FUNCTION: OnceLock<Function> = OnceLock::new();
    FUNCTION.get_or_init(|| {
        let args = [SqlType::Record, SqlType::Record];
        let function = Function::new(SHAPED, &args, SqlType::Record, |v, _| Ok(v[0].clone()));
        Function { strict: false, ..function }
    })
}

fn made(values: &[Datum], _: &Context) -> Result<Datum> {
    match &values[0] {
        Datum::Record(shape) => {
            let row = shape.with_values(values[1..].to_vec());
            row.check_size()?;
            Ok(row.into())
        }
        _ => mismatch(values),
    }
}

/// A field of a row, by its place. A row of nulls stands behind it, which tells the name.
pub(crate) fn field() -> &'static Function {
    static FUNCTION: OnceLock<Function> = OnceLock::new();
    FUNCTION.get_or_init(|| {
        let args = [SqlType::Record, SqlType::Int4, SqlType::Record];
        Function::new(FIELD, &args, SqlType::Unknown, |v, _| match (&v[0], &v[1]) {
            (Datum::Record(row), Datum::Int4(at)) => {
                Ok(row.values().get(*at as usize).cloned().unwrap_or_default())
            }
            _ => mismatch(v),
        })
    })
}

/// A row with another value for a field. Behind the row and the value stand a row of nulls, which
/// takes the place of one that is null, and the places of fields, each of the one before.
pub(crate) fn with_field() -> &'static Function {
    static FUNCTION: OnceLock<Function> = OnceLock::new();
    FUNCTION.get_or_init(|| {
        let args = [SqlType::Record, SqlType::Unknown, SqlType::Record, SqlType::Int4];
        let result = SqlType::Unknown;
        let function = Function::new("row with field", &args, result, |v, _| {
            with(if v[0].is_null() { &v[2] } else { &v[0] }, &v[1], &v[3..])
        });
        Function { strict: false, variadic: true, ..function }
    })
}

/// A row with a value for the field that places lead to.
fn with(row: &Datum, value: &Datum, places: &[Datum]) -> Result<Datum> {
    let (Datum::Record(row), [Datum::Int4(at), deeper @ ..]) = (row, places) else {
        mismatch(std::slice::from_ref(row))
    };
    let at = *at as usize;
    let mut values = row.values().to_vec();
    values[at] = match (deeper, row.fields()[at].ty) {
        ([], _) => value.clone(),
        (_, SqlType::Composite(ty)) if values[at].is_null() => {
            with(&ty.nulls().into(), value, deeper)?
        }
        _ => with(&values[at], value, deeper)?,
    };
    let row = row.with_values(values);
    row.check_size()?;
    Ok(row.into())
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
