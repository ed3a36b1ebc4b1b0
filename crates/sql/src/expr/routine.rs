//! Calls of functions whose statements run, as expressions see them.
//!
//! Such a call is one of a function of the system, [`call`], whose first argument tells the entry
//! of the function (`names::function_entry`).
//!
//! Does not do: running them (`session::routine`), functions whose body is one query that the
//! planner sees through (`bind::functions`).

use std::sync::OnceLock;

use super::function::Function;
use super::{Context, Expr};
use crate::error::{Result, SqlError};
use crate::names::{bare, function_of_entry};
use crate::types::{Datum, SqlType};

/// What runs them for the expressions of a statement.
pub(crate) trait Routines: Send + Sync {
    /// Runs the function that is kept as `entry` with these values of its parameters. Rows come as
    /// an array.
    fn call(&self, entry: &str, values: &[Datum]) -> Result<Datum>;
}

impl std::fmt::Debug for dyn Routines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Routines")
    }
}

/// What calls are known by.
pub(super) const CALL: &str = "call of function";

/// A call of the function that is kept as `entry`.
pub(crate) fn call(entry: &str, values: Vec<Expr>) -> Expr {
    static FUNCTION: OnceLock<Function> = OnceLock::new();
    let function = FUNCTION.get_or_init(|| {
        let function = Function::new(CALL, &[SqlType::Text], SqlType::Unknown, run);
        Function { variadic: true, strict: false, volatile: true, ..function }
    });
    let entry = Expr::Const(Datum::Text(entry.to_owned()));
    Expr::Call(function, std::iter::once(entry).chain(values).collect())
}

fn run(values: &[Datum], context: &Context) -> Result<Datum> {
    let [Datum::Text(entry), values @ ..] = values else {
        unreachable!("the entry stands in front")
    };
    match &context.routines {
        Some(routines) => routines.call(entry, values),
        None => Err(not_here(entry)),
    }
}

/// The error for a call where its statements cannot run.
pub(crate) fn not_here(entry: &str) -> SqlError {
    let name = function_of_entry(entry).unwrap_or_default();
    let what = format!("a call of the function \"{}\" at this place", bare(&name));
    SqlError::unsupported(what).hint(
        "It has several statements, writes, locks rows or calls itself. Such functions run in \
         queries, and in the query of an INSERT.",
    )
}
