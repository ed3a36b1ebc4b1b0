//! Rows in order: in memory, or where they are too many by way of temporary files.
//!
//! Invariants: rows that are equal in the order come out as they came in. Memory is counted; what a
//! share of the budget does not hold goes to files, in pieces where a row is long. Rows whose keys
//! agree in as much as half a record takes are put in order in memory.
//! Does not do: more than one thread.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rightlink::Budget;

use super::sort_key;
use super::spill::{Spill, Spilled};
use crate::error::Result;
use crate::exec::batch::ROWS;
use crate::exec::memory::Memory;
use crate::exec::query::compare;
use crate::exec::{Ready, Stream};
use crate::expr::{Context, Pace, SortKey};
use crate::types::Row;

/// Of what the memory budget has left, what a sort takes before it uses files, and then.
pub(super) const SHARE: usize = 4;
/// Largest number of rows of which only the first are kept while more come.
const MAX_TOP: usize = 10_000;

/// Rows that are put in order without asking whether the statement is still wanted.
const RUN: usize = 1 << 13;

/// `rows` in order, equal ones as they came. Fails between runs of them, and while these are
/// merged, when the statement is not wanted any more.
pub(super) fn in_order<T>(
    mut rows: Vec<T>,
    context: &Context,
    mut compare: impl FnMut(&T, &T) -> Ordering,
) -> Result<Vec<T>> {
    if rows.len() <= RUN {
        rows.sort_by(compare);
        return Ok(rows);
    }
    let mut runs: Vec<Vec<T>> = Vec::with_capacity(rows.len().div_ceil(RUN));
    let mut rest = rows.into_iter();
    loop {
        let mut run: Vec<T> = rest.by_ref().take(RUN).collect();
        if run.is_empty() {
            break;
        }
        run.sort_by(&mut compare);
        context.check()?;
        runs.push(run);
    }
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut runs_left = runs.into_iter();
        while let Some(run) = runs_left.next() {
            merged.push(match runs_left.next() {
                Some(next) => merge(run, next, context, &mut compare)?,
                None => run,
            });
        }
        runs = merged;
    }
    Ok(runs.pop().unwrap_or_default())
}

/// Two runs as one; of equal rows those of the first come first.
fn merge<T>(
    first: Vec<T>,
    second: Vec<T>,
    context: &Context,
    compare: &mut impl FnMut(&T, &T) -> Ordering,
) -> Result<Vec<T>> {
    let mut all = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.into_iter().peekable(), second.into_iter().peekable());
    let mut pace = Pace::default();
    while let (Some(a), Some(b)) = (first.peek(), second.peek()) {
        pace.step(context)?;
        let next = if compare(a, b).is_gt() { second.next() } else { first.next() };
        all.extend(next);
    }
    all.extend(first);
    all.extend(second);
    Ok(all)
}

/// A stream in order.
pub(super) struct Sort {
    keys: Vec<SortKey>,
    input: Option<Box<dyn Stream>>,
    rows: Output,
    memory: Memory,
    /// Bytes from which on files are used.
    most: usize,
    /// Only the first so many are wanted.
    top: Option<u64>,
}

enum Output {
    Memory(Ready),
    Files(Box<Files>),
}

impl Sort {
    pub(super) fn new(
        keys: &[SortKey],
        input: Box<dyn Stream>,
        budget: &Budget,
        top: Option<u64>,
    ) -> Sort {
        let (keys, memory) = (keys.to_vec(), Memory::new(budget));
        let rows = Output::Memory(Ready::new(Vec::new()));
        Sort { keys, input: Some(input), rows, memory, most: 0, top }
    }

    fn gather(&mut self, mut input: Box<dyn Stream>, context: &Context) -> Result<Output> {
        let mut rows = Vec::new();
        while let Some(row) = input.next(ROWS, context)? {
            if rows.is_empty() {
                // What is below has taken its share by now.
                self.most = context.settings.work_memory(self.memory.available() / SHARE);
            }
            let full = self.memory.charge_row(&row).is_err();
            if full || self.memory.used() > self.most {
                rows.push(row);
                if full {
                    // What the rows have goes to the sort that they go to.
                    self.memory.release();
                }
                return self.spill(rows, input, context).map(|files| Output::Files(files.into()));
            }
            rows.push(row);
        }
        let rows = in_order(rows, context, |a, b| compare(a, b, &self.keys))?;
        Ok(Output::Memory(Ready::new(rows)))
    }

    /// Sorts `rows` and those that are still to come by way of files.
    fn spill(
        &mut self,
        rows: Vec<Row>,
        mut input: Box<dyn Stream>,
        context: &Context,
    ) -> Result<Files> {
        let mut spill = Spill::new(self.most, context)?;
        let (cut, mut key) = (spill.key_room(), Vec::new());
        let mut push = |spill: &mut Spill, row: &Row| {
            key.clear();
            self.keys.iter().for_each(|part| sort_key::encode(&mut key, &row[part.at], part));
            key.truncate(cut);
            spill.push(&key, row)
        };
        for row in rows {
            push(&mut spill, &row)?;
        }
        self.memory.release();
        while let Some(row) = input.next(ROWS, context)? {
            push(&mut spill, &row)?;
        }
        Ok(Files { spilled: spill.finish()?, cut, ties: Ready::new(Vec::new()), ahead: None })
    }

    fn gather_top(
        &mut self,
        mut input: Box<dyn Stream>,
        top: usize,
        context: &Context,
    ) -> Result<Output> {
        let mut heap: BinaryHeap<Held<'_>> = BinaryHeap::new();
        let mut arrived = 0;
        while top > 0
            && let Some(row) = input.next(ROWS, context)?
        {
            if arrived == 0 {
                // What is below has taken its share by now.
                self.most = self.memory.available() / SHARE;
            }
            let held = Held(row, arrived, &self.keys);
            arrived += 1;
            if heap.len() == top {
                if heap.peek().is_some_and(|last| *last < held) {
                    continue;
                }
                if let Some(last) = heap.pop() {
                    self.memory.give_back_row(&last.0);
                }
            }
            let full = self.memory.charge_row(&held.0).is_err();
            heap.push(held);
            if full || self.memory.used() > self.most {
                // None of those that went is among the first; the others go on as they came.
                let mut held = heap.into_vec();
                held.sort_unstable_by_key(|held| held.1);
                let rows = held.into_iter().map(|held| held.0).collect();
                if full {
                    self.memory.release();
                }
                return self.spill(rows, input, context).map(|files| Output::Files(files.into()));
            }
        }
        let rows = heap.into_sorted_vec().into_iter().map(|held| held.0).collect();
        Ok(Output::Memory(Ready::new(rows)))
    }
}

/// Rows in order from files.
struct Files {
    spilled: Spilled,
    /// Keys of this length may have been cut: rows with equal ones are put in order here.
    cut: usize,
    ties: Ready,
    /// The row behind them and its key.
    ahead: Option<(Vec<u8>, Row)>,
}

impl Files {
    fn next(
        &mut self,
        (keys, memory): (&[SortKey], &mut Memory),
        context: &Context,
    ) -> Result<Option<Row>> {
        if let Some(row) = self.ties.take() {
            return Ok(Some(row));
        }
        let first = match self.ahead.take() {
            Some(ahead) => Some(ahead),
            None => self.spilled.next(context)?,
        };
        let Some((key, row)) = first else { return Ok(None) };
        if key.len() < self.cut {
            return Ok(Some(row));
        }
        memory.release();
        memory.charge_row(&row)?;
        let mut ties = vec![row];
        while let Some((other, row)) = self.spilled.next(context)? {
            if other != key {
                self.ahead = Some((other, row));
                break;
            }
            memory.charge_row(&row)?;
            ties.push(row);
        }
        let ties = in_order(ties, context, |a, b| compare(a, b, keys))?;
        self.ties = Ready::new(ties);
        Ok(self.ties.take())
    }
}

impl Stream for Sort {
    fn next(&mut self, _: usize, context: &Context) -> Result<Option<Row>> {
        if let Some(input) = self.input.take() {
            self.rows = match self.top.and_then(|top| usize::try_from(top).ok()) {
                Some(top) if top < MAX_TOP => self.gather_top(input, top, context)?,
                _ => self.gather(input, context)?,
            };
        }
        match &mut self.rows {
            Output::Memory(rows) => Ok(rows.take()),
            Output::Files(files) => files.next((&self.keys, &mut self.memory), context),
        }
    }
}

/// A row in a heap of the largest, ties by arrival.
struct Held<'a>(Row, u64, &'a [SortKey]);

impl Ord for Held<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0, self.2).then(self.1.cmp(&other.1))
    }
}

impl PartialOrd for Held<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Held<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_come_into_order_as_short_ones_do() {
        let context = Context::outside();
        let mut random = rightlink_env::Rng::from_seed(3);
        for count in [0, 1, RUN, RUN + 1, 2 * RUN, 5 * RUN + 17] {
            let rows: Vec<(u64, usize)> =
                (0..count).map(|at| (random.next_u64() % 1_000, at)).collect();
            let mut expected = rows.clone();
            expected.sort_by_key(|row| row.0);
            let found = in_order(rows, &context, |a, b| a.0.cmp(&b.0)).unwrap();
            assert_eq!(found, expected, "{count} rows");
        }
    }

    #[test]
    fn an_interrupt_ends_it() {
        let context = Context::outside();
        let mut compared = 0;
        let rows: Vec<usize> = (0..RUN * 64).rev().collect();
        let sorted = in_order(rows, &context, |a, b| {
            compared += 1;
            if compared == RUN {
                context.interrupt.raise(crate::Reason::Request);
            }
            a.cmp(b)
        });
        assert_eq!(sorted.unwrap_err().sqlstate, "57014");
        assert!(compared < RUN * 16, "{compared}");
    }
}
