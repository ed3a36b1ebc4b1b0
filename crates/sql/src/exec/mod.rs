//! Running plans.
//!
//! | file | hides |
//! |---|---|
//! | `source` | rows of tables, lists, series |
//! | `query` | filter, groups, order, duplicates, limits: streams on streams |
//! | `memory` | what a stream holds, counted against the database's budget |
//! | `write` | INSERT, UPDATE, DELETE, rows locked by SELECT |
//! | `ddl` | definitions |
//!
//! Invariants: a stream holds no latch and no reference into a transaction between two rows; what
//! it gathers is counted before it is kept.
//! Does not do: transactions (`session`).

pub(crate) mod ddl;
pub(crate) mod memory;
pub(crate) mod query;
pub(crate) mod source;
pub(crate) mod write;

use crate::error::Result;
use crate::expr::Context;
use crate::types::Row;

/// Rows, one at a time.
pub(crate) trait Stream: Send {
    /// The next row, `None` at the end.
    fn next(&mut self, context: &Context) -> Result<Option<Row>>;
}

/// Rows that are there already.
pub(crate) struct Ready(std::vec::IntoIter<Row>);

impl Ready {
    pub(crate) fn new(rows: Vec<Row>) -> Ready {
        Ready(rows.into_iter())
    }
}

impl Stream for Ready {
    fn next(&mut self, _: &Context) -> Result<Option<Row>> {
        Ok(self.0.next())
    }
}
