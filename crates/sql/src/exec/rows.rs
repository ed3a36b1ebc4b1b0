//! Whole rows of a table from what a statement gives: defaults filled in, rules asked.
//!
//! Invariants: a row that gets through is what the table's definition says. Does not do: foreign
//! keys (`references`).

use rightlink::Value;

use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::plan::{Given, Rules, Table};
use crate::types::{Datum, Row};

/// A row of `table` from a row that is given.
pub(crate) fn complete(
    (table, rules): (&Table, &Rules),
    given: &[Given],
    mut row: Row,
    context: &Context,
) -> Result<Vec<Value>> {
    let mut whole: Row = Vec::with_capacity(given.len());
    for given in given {
        whole.push(match given {
            Given::Place(at) => std::mem::take(&mut row[*at]),
            Given::Default(expr) => expr.eval(&[], context)?,
        });
    }
    checked((table, rules), whole, context)
}

/// The values of a row that meets the rules.
pub(crate) fn checked(
    (table, rules): (&Table, &Rules),
    row: Row,
    context: &Context,
) -> Result<Vec<Value>> {
    let null = table.info.columns.iter().zip(&row).find(|(c, v)| !c.nullable && v.is_null());
    if let Some((column, _)) = null {
        let message = format!(
            "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
            column.name, table.info.name
        );
        return Err(SqlError::new(code::NOT_NULL_VIOLATION, message).detail(failing(&row)));
    }
    for (name, condition) in &rules.checks {
        if condition.eval(&row, context)? == Datum::Bool(false) {
            let message = format!(
                "new row for relation \"{}\" violates check constraint \"{name}\"",
                table.info.name
            );
            return Err(SqlError::new(code::CHECK_VIOLATION, message).detail(failing(&row)));
        }
    }
    row.into_iter().map(to_value).collect()
}

fn failing(row: &[Datum]) -> String {
    let shown: Vec<String> =
        row.iter().map(|value| value.to_text().unwrap_or_else(|| "null".to_owned())).collect();
    format!("Failing row contains ({}).", shown.join(", "))
}

/// A value of a column's type, to which the binder has cast.
pub(crate) fn to_value(datum: Datum) -> Result<Value> {
    let overflow = || SqlError::new(code::NUMERIC_OUT_OF_RANGE, "value overflows numeric format");
    datum.into_value().ok_or_else(overflow)
}
