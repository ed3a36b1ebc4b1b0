//! Running plans.
//!
//! | file | content |
//! |---|---|
//! | `batch`, `vector`, `columns`, `members` | rows column by column; expressions over them |
//! | `open` | from nodes to operators |
//! | `query`, `source` | filter, projection, limits; rows of tables, lists, functions |
//! | `join`, `hash` | joins: by loop, by hash table, by an index |
//! | `group`, `waiting`, `ordered`, `unique`, `sort`, `incremental` | groups, duplicates, order |
//! | `window`, `ranked`, `sets` | window functions; numbers and ranks; functions that give rows |
//! | `setop`, `with`, `seen` | UNION and its kind; WITH |
//! | `subquery`, `compared`, `memo` | queries in expressions |
//! | `spill`, `sort_key` | rows in temporary files; values as bytes that compare as they do |
//! | `kept`, `list` | rows that are kept longer than a statement; lists asked for by number |
//! | `memory`, `failure` | what an operator holds; errors while the engine calls back |
//! | `execution` | what a statement reads by: the snapshot, rows around a query |
//! | `insert`, `upsert`, `write` | INSERT; ON CONFLICT; UPDATE, DELETE, rows locked by SELECT |
//! | `locked`, `parts` | rows of a join that are locked; statements whose WITH writes |
//! | `rows`, `references` | rules for rows; foreign keys |
//! | `tables`, `analyze` | tables as a transaction sees them; ANALYZE of one |
//! | `ddl` | definitions |
//!
//! Invariants: an operator holds no latch and no reference into a transaction between two batches;
//! what it gathers is counted before it is kept.
//! Does not do: transactions (`session`).

mod analyze;
pub(crate) mod batch;
mod columns;
mod compared;
pub(crate) mod ddl;
mod execution;
mod failure;
mod group;
mod groups;
mod hash;
mod hash_filter;
mod incremental;
pub(crate) mod insert;
mod join;
pub(crate) mod kept;
pub(crate) mod kept_catalog;
mod list;
pub(crate) mod locked;
mod made;
mod members;
mod memo;
pub(crate) mod memory;
mod open;
mod ordered;
pub(crate) mod parts;
pub(crate) mod query;
mod ranked;
pub(crate) mod references;
pub(crate) mod rows;
mod seen;
mod setop;
mod sets;
mod sort;
mod sort_key;
pub(crate) mod source;
mod spill;
pub(crate) mod subquery;
pub(crate) mod tables;
mod unique;
mod unique_keys;
mod upsert;
pub(crate) mod vector;
mod waiting;
mod window;
mod with;
pub(crate) mod write;

pub(crate) use analyze::analyze;
pub(crate) use execution::Execution;

use crate::error::Result;
use crate::exec::batch::{BYTES, Batch, ROWS};
use crate::expr::Context;
use crate::expr::probe::Probe;
use crate::types::{Datum, Row};

/// Rows, a batch at a time.
pub(crate) trait Operator: Send {
    /// The next rows, `None` at the end. No more than `most` will be wanted, now and later: what
    /// costs reads is done for no more. A batch has at least one row.
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>>;
}

/// Rows, one at a time.
pub(crate) trait Stream: Send {
    /// The next row, `None` at the end; `most` as for [`Operator::next`].
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>>;
}

/// An operator that a probe watches.
struct Watched {
    probe: Probe,
    /// Number of the node.
    number: usize,
    inner: Box<dyn Operator>,
    has_begun: bool,
}

impl Operator for Watched {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        let (batch, spent) = self.probe.step(self.number, || self.inner.next(most, context));
        let batch = batch?;
        self.probe.note(self.number, |figures| {
            figures.total += spent;
            if !std::mem::replace(&mut self.has_begun, true) {
                figures.first += spent;
                figures.loops += 1;
            }
            figures.rows += batch.as_ref().map_or(0, |batch| batch.len as u64);
        });
        Ok(batch)
    }
}

/// An operator whose batches are cut, for tests.
struct Split {
    inner: Box<dyn Operator>,
    /// Rows of a batch at most.
    rows: usize,
    pending: Batch,
}

impl Operator for Split {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        if self.pending.len == 0 {
            match self.inner.next(most, context)? {
                Some(batch) => self.pending = batch,
                None => return Ok(None),
            }
        }
        Ok(Some(self.pending.split_front(self.rows)))
    }
}

/// Rows of an operator, one at a time.
pub(crate) struct RowsOf {
    input: Box<dyn Operator>,
    batch: Batch,
    at: usize,
}

impl RowsOf {
    pub(crate) fn new(input: Box<dyn Operator>) -> RowsOf {
        RowsOf { input, batch: Batch::default(), at: 0 }
    }
}

impl Stream for RowsOf {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        if self.at == self.batch.len {
            match self.input.next(most.min(ROWS), context)? {
                Some(batch) => (self.batch, self.at) = (batch, 0),
                None => return Ok(None),
            }
        }
        self.at += 1;
        Ok(Some(self.batch.take_row(self.at - 1)))
    }
}

/// Rows of a stream, in batches.
struct Batched<S> {
    stream: S,
    width: usize,
}

impl<S: Stream> Operator for Batched<S> {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        let mut batch = Batch::with_width(self.width, 0);
        let mut bytes = 0;
        while batch.len < most.min(ROWS) && bytes < BYTES {
            let Some(row) = self.stream.next(most - batch.len, context)? else { break };
            bytes += row.iter().map(Datum::heap_bytes).sum::<usize>();
            batch.push(row);
        }
        Ok((batch.len > 0).then_some(batch))
    }
}

/// Rows that are there already.
pub(crate) struct Ready(std::vec::IntoIter<Row>);

impl Ready {
    pub(crate) fn new(rows: Vec<Row>) -> Ready {
        Ready(rows.into_iter())
    }

    pub(crate) fn take(&mut self) -> Option<Row> {
        self.0.next()
    }
}

impl Stream for Ready {
    fn next(&mut self, _: usize, _: &Context) -> Result<Option<Row>> {
        Ok(self.0.next())
    }
}
