//! Rows in order whose input has the order of the first keys: a group of rows that agree in these
//! at a time, so that the first rows come without reading all.
//!
//! Invariants: rows that are equal in the order come out as they came in. A group beyond its share
//! of the budget, and all rows behind it, are sorted as a whole, by way of files.
//! Does not do: noticing that the input has another order.

use rightlink::Budget;

use crate::error::Result;
use crate::exec::memory::Memory;
use crate::exec::query::compare;
use crate::exec::sort::{SHARE, Sort, in_order};
use crate::exec::{Batched, Ready, RowsOf, Stream};
use crate::expr::{Context, SortKey};
use crate::types::Row;

/// A stream in order whose input has the order of the first keys.
pub(super) struct IncrementalSort {
    keys: Vec<SortKey>,
    /// Keys in whose order the input is.
    presorted: usize,
    input: Option<RowsOf>,
    budget: Budget,
    /// Values of a row.
    width: usize,
    memory: Memory,
    /// The first row of the next group.
    ahead: Option<Row>,
    ready: Ready,
    /// What does the rest, if a group was too large.
    rest: Option<RowsOf>,
}

impl IncrementalSort {
    pub(super) fn new(
        keys: &[SortKey],
        presorted: usize,
        input: RowsOf,
        budget: &Budget,
        width: usize,
    ) -> IncrementalSort {
        IncrementalSort {
            keys: keys.to_vec(),
            presorted,
            input: Some(input),
            budget: budget.clone(),
            width,
            memory: Memory::new(budget),
            ahead: None,
            ready: Ready::new(Vec::new()),
            rest: None,
        }
    }

    /// Reads and sorts the next group; has the rest sorted as a whole if it is too large.
    fn gather(&mut self, most: usize, context: &Context) -> Result<()> {
        self.memory.release();
        let Some(input) = &mut self.input else { return Ok(()) };
        let share = context.settings.work_memory(self.memory.available() / SHARE);
        let mut rows: Vec<Row> = Vec::new();
        let mut next = match self.ahead.take() {
            Some(row) => Some(row),
            None => input.next(most, context)?,
        };
        while let Some(row) = next {
            let prefix = &self.keys[..self.presorted];
            if rows.first().is_some_and(|first| compare(first, &row, prefix).is_ne()) {
                self.ahead = Some(row);
                break;
            }
            let full = self.memory.charge_row(&row).is_err();
            rows.push(row);
            if full || self.memory.used() > share {
                self.memory.release();
                let rest = self.input.take().expect("it was read");
                let (stream, width) = (Behind { rows: Ready::new(rows), rest }, self.width);
                let all = Box::new(Batched { stream, width });
                let sort = Sort::new(&self.keys, width, all, &self.budget, None);
                self.rest = Some(RowsOf::new(Box::new(sort)));
                return Ok(());
            }
            next = input.next(most, context)?;
        }
        let keys = &self.keys;
        self.ready = Ready::new(in_order(rows, context, |a, b| compare(a, b, keys))?);
        Ok(())
    }
}

impl Stream for IncrementalSort {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        if let Some(row) = self.ready.take() {
            return Ok(Some(row));
        }
        if self.rest.is_none() {
            self.gather(most, context)?;
        }
        match &mut self.rest {
            Some(rest) => rest.next(most, context),
            None => Ok(self.ready.take()),
        }
    }
}

/// Rows, and others behind them.
struct Behind {
    rows: Ready,
    rest: RowsOf,
}

impl Stream for Behind {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        match self.rows.take() {
            Some(row) => Ok(Some(row)),
            None => self.rest.next(most, context),
        }
    }
}
