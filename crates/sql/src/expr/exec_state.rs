//! What expressions ask of the execution that they are a part of.
//!
//! Invariants: a slot is filled before what reads it is evaluated.
//! Does not do: executing (`exec::Execution`).

use std::any::Any;
use std::sync::Arc;

use super::{Context, Subquery};
use crate::catalog::Objects;
use crate::error::{Result, SqlError};
use crate::types::Datum;

/// The execution of a statement, as its expressions see it.
pub(crate) trait ExecState: Any + Send {
    /// The value of a slot: a column of a row around a query.
    fn outer(&self, slot: usize) -> Datum;

    /// The catalogs as the transaction of the statement saw them.
    fn objects(&self) -> Result<Arc<Objects>>;

    /// The value of a query over a row around it.
    fn value(&self, query: &Subquery, row: &[Datum], context: &Context) -> Result<Datum>;

    fn copy(&self) -> Box<dyn ExecState>;
}

impl Clone for Box<dyn ExecState> {
    fn clone(&self) -> Self {
        // The contents are copied, not the box.
        (**self).copy()
    }
}

impl std::fmt::Debug for dyn ExecState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExecState")
    }
}

/// The state of an expression that is evaluated outside of any statement.
#[derive(Clone, Copy)]
pub(super) struct NoExecution;

impl ExecState for NoExecution {
    fn outer(&self, _: usize) -> Datum {
        unreachable!("no query is around it")
    }

    fn objects(&self) -> Result<Arc<Objects>> {
        Err(SqlError::unsupported("reading catalogs here"))
    }

    fn value(&self, _: &Subquery, _: &[Datum], _: &Context) -> Result<Datum> {
        Err(SqlError::unsupported("a query here"))
    }

    fn copy(&self) -> Box<dyn ExecState> {
        Box::new(*self)
    }
}
