//! Values of domains.
//!
//! Invariants: a condition that is null is met, as that of a check of a table.
//! Does not do: reading what a domain asks (`bind::domains`).

use std::sync::Arc;

use super::{Context, Expr};
use crate::error::{Result, SqlError, code};
use crate::names::bare;
use crate::types::Datum;

/// What a domain asks of a value.
#[derive(Clone, Debug)]
pub(crate) struct DomainTest {
    /// As the store calls it.
    pub(crate) domain: String,
    pub(crate) not_null: bool,
    /// Names and conditions over a row of the value alone.
    pub(crate) checks: Vec<(String, Expr)>,
}

/// A value that domains ask something of.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) value: Expr,
    /// Those below first.
    pub(crate) tests: Arc<[DomainTest]>,
}

impl DomainTest {
    /// Fails for a value that is none of the domain.
    pub(crate) fn ask(&self, value: &Datum, context: &Context) -> Result<()> {
        let (stored, domain) = (&self.domain, bare(&self.domain));
        if self.not_null && value.is_null() {
            let message = format!("domain {domain} does not allow null values");
            return Err(SqlError::new(code::NOT_NULL_VIOLATION, message).of_domain(stored, None));
        }
        for (name, condition) in &self.checks {
            if condition.eval(std::slice::from_ref(value), context)? == Datum::Bool(false) {
                let message =
                    format!("value for domain {domain} violates check constraint \"{name}\"");
                let error = SqlError::new(code::CHECK_VIOLATION, message);
                return Err(error.of_domain(stored, Some(name)));
            }
        }
        Ok(())
    }
}

/// The value of `checked` for a row.
pub(super) fn checked(checked: &Checked, row: &[Datum], context: &Context) -> Result<Datum> {
    let value = checked.value.eval(row, context)?;
    checked.tests.iter().try_for_each(|test| test.ask(&value, context))?;
    Ok(value)
}
