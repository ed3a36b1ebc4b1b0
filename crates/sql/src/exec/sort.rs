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
use crate::exec::batch::{BYTES, Batch, ROWS};
use crate::exec::memory::Memory;
use crate::exec::query::{compare, compare_by, compare_known, compare_texts};
use crate::exec::vector::Vector;
use crate::exec::{Batched, Operator, Ready, RowsOf, Stream};
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

/// An operator whose rows are in order.
pub(super) struct Sort {
    keys: Vec<SortKey>,
    width: usize,
    input: Option<Box<dyn Operator>>,
    output: Option<Output>,
    memory: Memory,
    /// Bytes from which on files are used.
    most: usize,
    /// Only the first so many are wanted.
    top: Option<u64>,
}

enum Output {
    /// A few rows, in order.
    Few(Batched<Ready>),
    Memory(Sorted),
    Files(Box<Batched<Files>>),
}

impl Sort {
    /// For rows of this width, of which only the first `top` may be wanted.
    pub(super) fn new(
        keys: &[SortKey],
        width: usize,
        input: Box<dyn Operator>,
        budget: &Budget,
        top: Option<u64>,
    ) -> Sort {
        let (keys, memory) = (keys.to_vec(), Memory::new(budget));
        Sort { keys, width, input: Some(input), output: None, memory, most: 0, top }
    }

    fn gather(&mut self, mut input: Box<dyn Operator>, context: &Context) -> Result<Output> {
        let mut batches: Vec<Batch> = Vec::new();
        // Small batches become one, as long as that is no large one.
        let mut of_last = 0;
        while let Some(batch) = input.next(ROWS, context)? {
            if batches.is_empty() {
                // What is below has taken its share by now.
                self.most = context.settings.work_memory(self.memory.available() / SHARE);
            }
            let bytes = batch.bytes() + batch.len * PLACES;
            let full = self.memory.charge(bytes).is_err();
            match batches.last_mut() {
                Some(last) if last.len + batch.len <= ROWS && of_last + bytes <= BYTES => {
                    last.append(batch);
                    of_last += bytes;
                }
                _ => {
                    batches.push(batch);
                    of_last = bytes;
                }
            }
            if full || self.memory.used() > self.most {
                if full {
                    // What the rows have goes to the sort that they go to.
                    self.memory.release();
                }
                let rows = batches.into_iter().flat_map(Batch::into_rows);
                return self.spill(rows, RowsOf::new(input), context);
            }
        }
        Ok(Output::Memory(Sorted::of(batches, &self.keys, context)?))
    }

    /// Sorts `rows` and those that are still to come by way of files.
    fn spill(
        &mut self,
        rows: impl Iterator<Item = Row>,
        mut input: RowsOf,
        context: &Context,
    ) -> Result<Output> {
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
        let stream = Files {
            keys: self.keys.clone(),
            spilled: spill.finish()?,
            cut,
            ties: Ready::new(Vec::new()),
            ahead: None,
            memory: Memory::new(self.memory.budget()),
        };
        Ok(Output::Files(Box::new(Batched { stream, width: self.width })))
    }

    fn gather_top(
        &mut self,
        input: Box<dyn Operator>,
        top: usize,
        context: &Context,
    ) -> Result<Output> {
        let mut input = RowsOf::new(input);
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
                let rows: Vec<Row> = held.into_iter().map(|held| held.0).collect();
                if full {
                    self.memory.release();
                }
                return self.spill(rows.into_iter(), input, context);
            }
        }
        let rows = heap.into_sorted_vec().into_iter().map(|held| held.0).collect();
        Ok(Output::Few(Batched { stream: Ready::new(rows), width: self.width }))
    }
}

/// Where a row is.
#[derive(Clone, Copy)]
struct Place {
    batch: u32,
    row: u32,
}

/// Bytes that the places of a row take while they are put in order.
const PLACES: usize = 2 * size_of::<Place>();

/// Rows in memory, and their order.
struct Sorted {
    batches: Vec<Batch>,
    order: std::vec::IntoIter<Place>,
}

impl Sorted {
    fn of(batches: Vec<Batch>, keys: &[SortKey], context: &Context) -> Result<Sorted> {
        let places = |(at, batch): (usize, &Batch)| {
            (0..batch.len as u32).map(move |row| Place { batch: at as u32, row })
        };
        let places: Vec<Place> = batches.iter().enumerate().flat_map(places).collect();
        let order = in_order(places, context, |a, b| {
            let mut orders = keys.iter().map(|key| compare_places(&batches, *a, *b, key));
            orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        })?;
        Ok(Sorted { batches, order: order.into_iter() })
    }

    /// The next rows, at most so many.
    fn take(&mut self, most: usize) -> Option<Batch> {
        let places = self.order.as_slice();
        let (mut len, mut bytes) = (0, 0);
        while len < most.min(ROWS).min(places.len()) && bytes < BYTES {
            let Place { batch, row } = places[len];
            let columns = &self.batches[batch as usize].columns;
            bytes += columns.iter().map(|one| one.heap_bytes_at(row as usize)).sum::<usize>();
            len += 1;
        }
        let places: Vec<Place> = self.order.by_ref().take(len).collect();
        let first = places.first()?;
        let like = self.batches[first.batch as usize].columns.iter();
        let mut columns: Vec<Vector> = like.map(|column| column.empty_like(len)).collect();
        for (at, column) in columns.iter_mut().enumerate() {
            for Place { batch, row } in &places {
                let from = &mut self.batches[*batch as usize].columns[at];
                column.push_from(from, *row as usize);
            }
        }
        Some(Batch { len, columns })
    }
}

/// Order of two rows by one key.
fn compare_places(batches: &[Batch], a: Place, b: Place, key: &SortKey) -> Ordering {
    let column = |place: Place| &batches[place.batch as usize].columns[key.at];
    let (at, other) = (a.row as usize, b.row as usize);
    match (column(a), column(b)) {
        (Vector::Any(x), Vector::Any(y)) => compare_by(&x[at], &y[other], key),
        (Vector::Int4(x), Vector::Int4(y)) => {
            compare_known(x.get(at), y.get(other), key, |x, y| x.cmp(&y))
        }
        (Vector::Int8(x), Vector::Int8(y)) => {
            compare_known(x.get(at), y.get(other), key, |x, y| x.cmp(&y))
        }
        (Vector::Text(x), Vector::Text(y)) => {
            compare_known(x.get(at), y.get(other), key, |x, y| compare_texts(x, y, key))
        }
        (Vector::Numeric(x), Vector::Numeric(y)) if x.scale == y.scale => {
            compare_known(x.unscaled.get(at), y.unscaled.get(other), key, |x, y| x.cmp(&y))
        }
        (x, y) => compare_by(&x.get(at), &y.get(other), key),
    }
}

/// Rows in order from files.
struct Files {
    keys: Vec<SortKey>,
    spilled: Spilled,
    /// Keys of this length may have been cut: rows with equal ones are put in order here.
    cut: usize,
    ties: Ready,
    /// The row behind them and its key.
    ahead: Option<(Vec<u8>, Row)>,
    /// Counts the ties.
    memory: Memory,
}

impl Stream for Files {
    fn next(&mut self, _: usize, context: &Context) -> Result<Option<Row>> {
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
        self.memory.release();
        self.memory.charge_row(&row)?;
        let mut ties = vec![row];
        while let Some((other, row)) = self.spilled.next(context)? {
            if other != key {
                self.ahead = Some((other, row));
                break;
            }
            self.memory.charge_row(&row)?;
            ties.push(row);
        }
        let ties = in_order(ties, context, |a, b| compare(a, b, &self.keys))?;
        self.ties = Ready::new(ties);
        Ok(self.ties.take())
    }
}

impl Operator for Sort {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        if let Some(input) = self.input.take() {
            self.output = Some(match self.top.and_then(|top| usize::try_from(top).ok()) {
                Some(top) if top < MAX_TOP => self.gather_top(input, top, context)?,
                _ => self.gather(input, context)?,
            });
        }
        match &mut self.output {
            None => Ok(None),
            Some(Output::Few(rows)) => rows.next(most, context),
            Some(Output::Memory(sorted)) => Ok(sorted.take(most)),
            Some(Output::Files(files)) => files.next(most, context),
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
    use crate::types::{Datum, SqlType};

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

    /// Rows whose columns are vectors of different kinds come out as they do one by one.
    #[test]
    fn batches_come_into_order_as_their_rows_do() {
        let context = Context::outside();
        let mut random = rightlink_env::Rng::from_seed(7);
        for _ in 0..200 {
            let mut below = |most: u64| random.next_u64() % most;
            let nulls = below(4);
            let mut rows: Vec<Row> = Vec::new();
            for at in 0..below(60) {
                let known =
                    |value: Datum, chance: u64| if chance < nulls { Datum::Null } else { value };
                rows.push(vec![
                    known(Datum::Int4(below(5) as i32), below(8)),
                    known(Datum::Text(format!("{:1$}", below(4), 1 + below(2) as usize)), below(8)),
                    known(Datum::Numeric(rightlink::Decimal::from(below(3) as i64)), below(8)),
                    known(Datum::Oid(below(6) as u32), below(8)),
                    Datum::Int8(at as i64),
                ]);
            }
            let key = |at: usize, bits: u64| SortKey {
                at,
                descending: bits & 1 == 1,
                nulls_first: bits & 2 == 2,
                padded: bits & 4 == 4,
                collation: None,
            };
            let keys: Vec<SortKey> = (0..2).map(|_| key(below(4) as usize, below(8))).collect();
            let mut expected = rows.clone();
            expected.sort_by(|a, b| compare(a, b, &keys));
            let mut batches = Vec::new();
            let mut rest = rows.into_iter();
            loop {
                let types = [SqlType::Int4, SqlType::Text, SqlType::Numeric, SqlType::Oid];
                let types = types.into_iter().chain([SqlType::Int8]);
                let is_any = below(3) == 0;
                let vector = |ty| Vector::of(if is_any { SqlType::Unknown } else { ty }, 0);
                let mut batch = Batch { len: 0, columns: types.map(vector).collect() };
                rest.by_ref().take(1 + below(9) as usize).for_each(|row| batch.push(row));
                if batch.len == 0 {
                    break;
                }
                batches.push(batch);
            }
            let mut sorted = Sorted::of(batches, &keys, &context).unwrap();
            let mut found = Vec::new();
            while let Some(batch) = sorted.take(1 + below(20) as usize) {
                found.extend(batch.into_rows());
            }
            assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        }
    }
}
