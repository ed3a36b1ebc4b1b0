//! Rows in order: in memory, or where they are too many by way of temporary files.
//!
//! Invariants: rows that are equal in the order come out as they came in. Memory is counted; what a
//! share of the budget does not hold goes to files, in pieces where a row is long. Rows whose keys
//! agree in as much as half a record takes are put in order in memory.
//! Does not do: more than one thread.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rightlink::{Budget, Sorted, Sorter};

use super::sort_key;
use crate::error::{Result, SqlError, code};
use crate::exec::memory::Memory;
use crate::exec::query::compare;
use crate::exec::{Ready, Stream};
use crate::expr::Context;
use crate::plan::SortKey;
use crate::types::Row;

/// Of what the memory budget has left, what a sort takes before it uses files, and then.
const SHARE: usize = 4;
/// Largest number of rows of which only the first are kept while more come.
const MAX_TOP: usize = 10_000;

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
        let (rows, most) = (Output::Memory(Ready::new(Vec::new())), budget.available() / SHARE);
        Sort { keys, input: Some(input), rows, memory, most, top }
    }

    fn gather(&mut self, mut input: Box<dyn Stream>, context: &Context) -> Result<Output> {
        let mut rows = Vec::new();
        while let Some(row) = input.next(context)? {
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
        rows.sort_by(|a, b| compare(a, b, &self.keys));
        Ok(Output::Memory(Ready::new(rows)))
    }

    /// Sorts `rows` and those that are still to come by way of files.
    fn spill(
        &mut self,
        rows: Vec<Row>,
        mut input: Box<dyn Stream>,
        context: &Context,
    ) -> Result<Files> {
        let db = &context.db.as_ref().expect("a statement has a database").0;
        let mut sorter = db.sorter(self.most).map_err(too_much)?;
        let longest = sorter.max_record();
        let (mut key, mut bytes) = (Vec::new(), Vec::new());
        let mut push = |sorter: &mut Sorter, row: &Row| {
            key.clear();
            bytes.clear();
            self.keys.iter().for_each(|part| sort_key::encode(&mut key, &row[part.at], *part));
            key.truncate(longest / 2);
            sort_key::write_row(&mut bytes, row);
            push_pieces(sorter, &key, &bytes, longest)
        };
        for row in rows {
            push(&mut sorter, &row)?;
        }
        self.memory.release();
        while let Some(row) = input.next(context)? {
            push(&mut sorter, &row)?;
        }
        let sorted = sorter.finish().map_err(too_much)?;
        let ties = Ready::new(Vec::new());
        Ok(Files { sorted, cut: longest / 2, ties, ahead: None })
    }

    fn gather_top(
        &mut self,
        mut input: Box<dyn Stream>,
        top: usize,
        context: &Context,
    ) -> Result<Output> {
        let mut heap: BinaryHeap<Held<'_>> = BinaryHeap::new();
        let mut arrived = 0;
        while let Some(row) = input.next(context)? {
            if heap.len() < top {
                self.memory.charge_row(&row)?;
            }
            heap.push(Held(row, arrived, &self.keys));
            arrived += 1;
            if heap.len() > top {
                heap.pop();
            }
        }
        let rows = heap.into_sorted_vec().into_iter().map(|held| held.0).collect();
        Ok(Output::Memory(Ready::new(rows)))
    }
}

/// A row whose bytes are too many for one record is several with the same key, one behind the other
/// as records with equal keys are.
fn push_pieces(sorter: &mut Sorter, key: &[u8], row: &[u8], longest: usize) -> Result<()> {
    let room = longest - key.len() - 1;
    let mut piece = Vec::new();
    let mut rest = row;
    loop {
        let (part, more) = rest.split_at(rest.len().min(room));
        rest = more;
        piece.clear();
        piece.push(u8::from(!rest.is_empty()));
        piece.extend_from_slice(part);
        sorter.push(key, &piece).map_err(too_much)?;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// Whether there is more of the row behind a piece, and the row's bytes in it.
fn split(piece: &[u8]) -> (bool, &[u8]) {
    let (more, bytes) = piece.split_first().expect("a piece says whether there is more");
    (*more != 0, bytes)
}

/// Rows in order from files.
struct Files {
    sorted: Sorted,
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
        if let Some(row) = self.ties.next(context)? {
            return Ok(Some(row));
        }
        let first = match self.ahead.take() {
            Some(ahead) => Some(ahead),
            None => self.read()?,
        };
        let Some((key, row)) = first else { return Ok(None) };
        if key.len() < self.cut {
            return Ok(Some(row));
        }
        memory.release();
        memory.charge_row(&row)?;
        let mut ties = vec![row];
        while let Some((other, row)) = self.read()? {
            if other != key {
                self.ahead = Some((other, row));
                break;
            }
            memory.charge_row(&row)?;
            ties.push(row);
        }
        ties.sort_by(|a, b| compare(a, b, keys));
        self.ties = Ready::new(ties);
        self.ties.next(context)
    }

    /// The next row in the order of the files, and its key.
    fn read(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        let Some((key, piece)) = self.sorted.next()? else { return Ok(None) };
        let (key, (more, piece)) = (key.to_vec(), split(piece));
        if !more {
            return Ok(Some((key, sort_key::read_row(piece)?)));
        }
        let mut bytes = piece.to_vec();
        loop {
            let next = self.sorted.next()?;
            let (_, piece) = next.expect("a row ends with its last piece");
            let (more, piece) = split(piece);
            bytes.extend_from_slice(piece);
            if !more {
                return Ok(Some((key, sort_key::read_row(&bytes)?)));
            }
        }
    }
}

/// A sort that the budget or the size of its rows forbids.
fn too_much(error: rightlink::Error) -> SqlError {
    match error {
        rightlink::Error::Limit(what) => {
            SqlError::new(code::OUT_OF_MEMORY, "out of memory").detail(what)
        }
        other => other.into(),
    }
}

impl Stream for Sort {
    fn next(&mut self, context: &Context) -> Result<Option<Row>> {
        if let Some(input) = self.input.take() {
            self.rows = match self.top.and_then(|top| usize::try_from(top).ok()) {
                Some(top) if top < MAX_TOP => self.gather_top(input, top, context)?,
                _ => self.gather(input, context)?,
            };
        }
        match &mut self.rows {
            Output::Memory(rows) => rows.next(context),
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
