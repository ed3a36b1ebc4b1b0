//! Running plans.
//!
//! | file | hides |
//! |---|---|
//! | `source` | rows of tables, lists, series |
//! | `query` | filter, projection, limits: streams on streams |
//! | `group`, `unique`, `sort` | groups, duplicates, order, in memory or by way of files |
//! | `spill`, `sort_key` | rows in temporary files; values as bytes that compare as they do |
//! | `kept` | rows that are kept longer than a statement |
//! | `memory` | what a stream holds, counted against the database's budget |
//! | `write`, `upsert` | INSERT, UPDATE, DELETE, rows locked by SELECT; ON CONFLICT |
//! | `rows`, `references` | rules for rows; foreign keys |
//! | `tables` | tables as a transaction sees them |
//! | `ddl` | definitions |
//!
//! Invariants: a stream holds no latch and no reference into a transaction between two rows; what
//! it gathers is counted before it is kept.
//! Does not do: transactions (`session`).

pub(crate) mod ddl;
mod group;
pub(crate) mod kept;
pub(crate) mod memory;
pub(crate) mod query;
pub(crate) mod references;
pub(crate) mod rows;
mod sort;
mod sort_key;
pub(crate) mod source;
mod spill;
pub(crate) mod tables;
mod unique;
mod upsert;
pub(crate) mod write;

use crate::error::Result;
use crate::expr::Context;
use crate::expr::probe::{Probe, Stage};
use crate::types::Row;

/// Rows, one at a time.
pub(crate) trait Stream: Send {
    /// The next row, `None` at the end.
    fn next(&mut self, context: &Context) -> Result<Option<Row>>;
}

/// Rows between two looks at the clock.
const CHECK_EVERY: u32 = 256;

/// Asks now and then whether a statement that goes through rows is still wanted.
#[derive(Default)]
pub(crate) struct Pace(u32);

impl Pace {
    /// Counts a row.
    pub(crate) fn step(&mut self, context: &Context) -> Result<()> {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(CHECK_EVERY) { context.check() } else { Ok(()) }
    }
}

/// A stream that a probe watches.
struct Watched {
    probe: Probe,
    at: (usize, Stage),
    inner: Box<dyn Stream>,
}

/// `stream` under the eyes of the probe, if there is one.
fn watched(stream: Box<dyn Stream>, stage: Stage, context: &Context) -> Box<dyn Stream> {
    match &context.probe {
        Some(probe) => {
            let (probe, at) = (probe.clone(), (probe.depth(), stage));
            Box::new(Watched { probe, at, inner: stream })
        }
        None => stream,
    }
}

impl Stream for Watched {
    fn next(&mut self, context: &Context) -> Result<Option<Row>> {
        let (row, spent) = self.probe.timed(|| self.inner.next(context));
        let row = row?;
        self.probe.note(self.at, |figures| {
            figures.total += spent;
            if figures.rows == 0 {
                figures.first = figures.total;
            }
            figures.rows += u64::from(row.is_some());
        });
        Ok(row)
    }
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
