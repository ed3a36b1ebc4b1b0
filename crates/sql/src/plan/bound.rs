//! A query whose names are resolved: what the binder makes, and the planner takes.
//!
//! Does not do: plans (`lower`).

use std::sync::Arc;

use rightlink::{Busy, RowLock};

use super::rel::Rel;
use super::{Column, Table};
use crate::expr::ColumnId;

/// A query with all names resolved.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) rel: Rel,
    /// Numbers of the columns of its results.
    pub(crate) output: Vec<ColumnId>,
    pub(crate) columns: Vec<Column>,
    pub(crate) locks: Option<Locks>,
    /// Of each column whether it is a literal that nothing gave a type; empty: none is.
    pub(crate) untyped: Vec<bool>,
}

/// How rows are locked.
#[derive(Clone, Debug)]
pub(crate) struct Locks {
    pub(crate) lock: RowLock,
    pub(crate) busy: Busy,
    /// Of a query over several sources the tables whose rows are locked.
    pub(crate) tables: Vec<LockedTable>,
}

/// A table of a join whose rows are locked.
#[derive(Clone, Debug)]
pub(crate) struct LockedTable {
    pub(crate) table: Arc<Table>,
    /// Of each column of the table its number.
    pub(crate) columns: Vec<ColumnId>,
    /// That of `ctid`.
    pub(crate) tid: ColumnId,
    pub(crate) lock: RowLock,
    pub(crate) busy: Busy,
}

impl Bound {
    /// Without locks.
    pub(crate) fn new(rel: Rel, output: Vec<ColumnId>, columns: Vec<Column>) -> Bound {
        Bound { rel, output, columns, locks: None, untyped: Vec::new() }
    }
}
