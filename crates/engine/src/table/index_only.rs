//! Rows from index entries alone, where the index holds all that is wanted.
//!
//! Invariants: a column comes from the key only if its type's key code is reversible, else from the
//! payload. An entry stands for a row only by R4: the all-visible bit is read, then the clock is
//! asked whether row ids of the block were given free since the leaf was read; else the heap is
//! asked.
//! Does not do: looking ahead beyond a step; pages that are not all-visible are read step by step.

use std::collections::VecDeque;

use rightlink_env::points::broken;

use crate::buffer::ReadStream;
use crate::datum::{Type, Value};
use crate::error::{Error, Result};
use crate::ids::PageId;
use crate::index::KeyRange;
use crate::index::am::LeafBatch;
use crate::keycode::{KeyColumn, Malformed, decode_column, is_reversible};

use super::TableIndex;
use super::index_scan::{DeadMarks, HEAP_PAGES, Leaves, Place, read_entry};
use super::row::{self, Projection};
use super::scan::{Reader, Row};
use super::schema::{ColumnNo, TableDef};

/// Reads the wanted columns from keys and payloads.
pub(super) struct KeyReader {
    columns: Vec<KeyColumn>,
    /// Types of the included columns.
    included: Vec<Type>,
    /// Per wanted value, in order: its place among key columns and included ones.
    places: Vec<usize>,
}

impl KeyReader {
    /// None if the index does not hold all that `projection` wants.
    pub(super) fn new(def: &TableDef, index: &TableIndex, projection: &Projection) -> Option<Self> {
        let columns = index.keys.columns().to_vec();
        let place = |wanted: ColumnNo| {
            let mut keys = index.def.columns.iter().zip(&columns);
            let key =
                keys.position(|(part, column)| part.column == wanted && is_reversible(column.ty));
            let included = || index.def.included.iter().position(|column| *column == wanted);
            key.or_else(|| included().map(|at| columns.len() + at))
        };
        let places = projection.columns().into_iter().map(place).collect::<Option<Vec<_>>>()?;
        let ty = |column: &ColumnNo| def.columns[usize::from(*column)].ty;
        let included = index.def.included.iter().map(ty).collect();
        Some(Self { columns, included, places })
    }

    /// The wanted values of one entry.
    fn read(
        &self,
        mut key: &[u8],
        mut payload: &[u8],
    ) -> std::result::Result<Vec<Value>, Malformed> {
        let last = self.places.iter().max().map_or(0, |place| place + 1);
        let mut values = Vec::with_capacity(last);
        for column in self.columns.iter().take(last) {
            values.push(decode_column(*column, &mut key)?);
        }
        for ty in self.included.iter().take(last.saturating_sub(self.columns.len())) {
            values.push(row::take_alone(*ty, &mut payload)?);
        }
        Ok(self.places.iter().map(|place| values[*place].clone()).collect())
    }
}

/// Largest step, in entries.
const MAX_STEP: usize = 256;

/// Rows of an index-only scan.
pub(super) struct KeyRows {
    reader: Reader,
    leaves: Leaves,
    keys: KeyReader,
    batch: LeafBatch,
    range: KeyRange,
    /// First entry of the batch that was not looked at.
    at: usize,
    dead: DeadMarks,
    step: usize,
}

impl KeyRows {
    pub(super) fn new(reader: Reader, leaves: Leaves, keys: KeyReader) -> Self {
        let (batch, range, dead) = (LeafBatch::default(), KeyRange::all(), DeadMarks::default());
        Self { reader, leaves, keys, batch, range, at: 0, dead, step: 1 }
    }

    /// Looks at some more entries, at most `limit` now; false when there are none.
    pub(super) fn fill(&mut self, ready: &mut VecDeque<Row>, limit: u64) -> Result<bool> {
        if self.at == self.batch.len() && !self.next_leaf()? {
            return Ok(false);
        }
        let step = self.step.min(usize::try_from(limit).unwrap_or(MAX_STEP));
        let to = self.batch.len().min(self.at + step);
        let rows = self.read(self.at, to)?;
        ready.extend(rows.into_iter().flatten());
        self.at = to;
        self.step = (self.step * 2).min(MAX_STEP);
        Ok(true)
    }

    fn next_leaf(&mut self) -> Result<bool> {
        self.dead.give(&self.reader.table, &self.leaves.index, &self.batch);
        self.at = 0;
        match self.leaves.next(&mut self.batch)? {
            Some((_, range)) => self.range = range.clone(),
            None => {
                self.batch.entries.clear();
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Rows of the entries `from..to`, in their order.
    fn read(&mut self, from: usize, to: usize) -> Result<Vec<Option<Row>>> {
        let mut rows: Vec<Option<Row>> = Vec::with_capacity(to - from);
        let mut missing = Vec::new();
        for at in from..to {
            let row = self.row_of_entry(at)?;
            if row.is_none() {
                missing.push(at);
            }
            rows.push(row);
        }
        if !missing.is_empty() {
            self.read_heap(&missing, from, &mut rows)?;
        }
        Ok(rows)
    }

    /// The row from the entry alone, if that is sound.
    fn row_of_entry(&self, at: usize) -> Result<Option<Row>> {
        let entry = &self.batch.entries[at];
        let heap = &self.reader.table.heap;
        let block = entry.row.block;
        if entry.recheck || !heap.all_visible(block)?.all_visible {
            return Ok(None);
        }
        // R4: only after the bit was read does the clock tell that the entry was still good then.
        if heap.clock().newer_than(block, self.batch.sample) && !broken("r4-clock") {
            return Ok(None);
        }
        let values = self.keys.read(self.batch.key(at), self.batch.payload(at));
        let values = values.map_err(|what| Error::corrupt(self.batch.leaf, what.0))?;
        Ok(Some(Row { row_id: entry.row, values }))
    }

    /// Reads the heap rows of the entries `missing` into their places.
    fn read_heap(
        &mut self,
        missing: &[usize],
        from: usize,
        rows: &mut [Option<Row>],
    ) -> Result<()> {
        let table = &self.reader.table;
        let (batch, file) = (&self.batch, table.def.heap);
        let mut next = missing.iter();
        let pages = move || {
            let page = |at: &usize| (PageId { file, block: batch.entries[*at].row.block }, *at);
            Ok(next.next().map(page))
        };
        let mut stream = ReadStream::new(&table.pool, HEAP_PAGES, pages);
        while let Some((pin, at)) = stream.next()? {
            let place = Place { batch, at, range: &self.range };
            let index = &self.leaves.index;
            rows[at - from] = read_entry(&self.reader, index, &pin, &place, &mut self.dead)?;
        }
        Ok(())
    }
}

impl Drop for KeyRows {
    fn drop(&mut self) {
        self.dead.give(&self.reader.table, &self.leaves.index, &self.batch);
    }
}
