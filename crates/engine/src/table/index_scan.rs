//! Rows by way of an index: a leaf's matches at a time, their heap pages through a read stream.
//!
//! Invariants: rows come in the index's order, whatever order their pages arrive in. A row taken
//! from the entry alone rests on R4: the all-visible bit is read, then the clock is asked whether
//! row ids of the block were given free since the leaf was read. Dead marks rest on R1 (the heap
//! vouches) and R3 (the clock, asked under the leaf's latch).
//! Does not do: following row ids without a registered snapshot.

use rightlink_env::sync::Arc;
use std::collections::VecDeque;

use crate::buffer::{Delivery, ReadStream, StreamOptions};
use crate::error::{ConflictKind, Error, Result};
use crate::ids::{PageId, RowId};
use crate::index::KeyRange;
use crate::index::am::{IndexScan, LeafBatch, ScanOptions};

use super::TableIndex;
use super::bounds::Checker;
use super::index_only::KeyReader;
use super::scan::{IndexScanOptions, Reader, Row};

/// Largest step, in entries: what is pinned, copied and perhaps read in vain stays bounded.
const MAX_STEP: usize = 256;
/// Largest look-ahead of a step, in pages.
const MAX_DISTANCE: u32 = 64;

/// A scan of an index.
pub(super) struct IndexRows {
    reader: Reader,
    index: Arc<TableIndex>,
    scan: Box<dyn IndexScan>,
    range: KeyRange,
    /// Reads rows from entries alone, when they hold all that is wanted.
    keys: Option<KeyReader>,
    batch: LeafBatch,
    /// First entry of the batch that was not looked at.
    at: usize,
    /// Entries of the batch that name dead rows.
    dead: Vec<usize>,
    step: usize,
}

impl IndexRows {
    pub(super) fn new(
        reader: Reader,
        index: &Arc<TableIndex>,
        options: &IndexScanOptions,
    ) -> Result<Self> {
        if !index.is_usable(&reader.snapshot) {
            let what = format!("index {} is newer than the snapshot", index.def.name);
            return Err(Error::Conflict { kind: ConflictKind::Serialization, what });
        }
        let columns = index.keys.columns();
        let checker = Checker { def: &reader.table.def, index: &index.def, columns };
        let range = options.bounds.resolve(&checker)?;
        let scan_options = ScanOptions { direction: options.direction, ..ScanOptions::default() };
        let scan = index.method.begin_scan(range.clone(), scan_options);
        let keys = KeyReader::new(&reader.table.def, index, &reader.projection);
        let (batch, index) = (LeafBatch::default(), Arc::clone(index));
        Ok(Self { reader, index, scan, range, keys, batch, at: 0, dead: Vec::new(), step: 1 })
    }

    /// Looks at some more entries, at most `limit` now; false when there are none.
    pub(super) fn fill(&mut self, ready: &mut VecDeque<Row>, limit: u64) -> Result<bool> {
        if self.at == self.batch.len() {
            self.finish_batch();
            let clock = self.reader.table.heap.clock();
            if !self.scan.next_batch(&|| clock.now(), &mut self.batch)? {
                self.batch.entries.clear();
                return Ok(false);
            }
        }
        let step = self.step.min(usize::try_from(limit).unwrap_or(MAX_STEP));
        let to = self.batch.len().min(self.at + step);
        let rows = self.read(self.at, to)?;
        ready.extend(rows.into_iter().flatten());
        self.at = to;
        self.step = (self.step * 2).min(MAX_STEP);
        Ok(true)
    }

    /// Rows of the entries `from..to`, in their order.
    fn read(&mut self, from: usize, to: usize) -> Result<Vec<Option<Row>>> {
        let mut rows: Vec<Option<Row>> = Vec::with_capacity(to - from);
        let mut missing = Vec::new();
        for at in from..to {
            let row = self.read_entry(at)?;
            if row.is_none() {
                missing.push(at);
            }
            rows.push(row);
        }
        self.read_heap(&missing, from, &mut rows)?;
        Ok(rows)
    }

    /// The row from the entry alone, if that is sound.
    fn read_entry(&self, at: usize) -> Result<Option<Row>> {
        let (Some(keys), entry) = (&self.keys, &self.batch.entries[at]) else { return Ok(None) };
        let heap = &self.reader.table.heap;
        let block = entry.row.block;
        if entry.recheck || !heap.all_visible(block)?.all_visible {
            return Ok(None);
        }
        // R4: only after the bit was read does the clock tell that the entry was still good then.
        if heap.clock().newer_than(block, self.batch.sample) && !cfg!(broken = "r4-clock") {
            return Ok(None);
        }
        let values = keys.read(self.batch.key(at), self.batch.payload(at));
        let values = values.map_err(|what| Error::corrupt(self.batch.leaf, what.0))?;
        Ok(Some(Row { row_id: entry.row, values }))
    }

    /// Reads the heap rows of the entries `wanted` into their places.
    fn read_heap(&mut self, wanted: &[usize], from: usize, rows: &mut [Option<Row>]) -> Result<()> {
        let table = &self.reader.table;
        let (entries, file) = (&self.batch.entries, table.def.heap);
        let mut next = wanted.iter();
        let pages = move || {
            let page = |at: &usize| (PageId { file, block: entries[*at].row.block }, *at);
            Ok(next.next().map(page))
        };
        let options = StreamOptions { delivery: Delivery::Ordered, max_distance: MAX_DISTANCE };
        let mut stream = ReadStream::new(&table.pool, options, pages);
        while let Some((pin, at)) = stream.next()? {
            let fetched = table.heap.fetch_on(&pin, &self.reader.snapshot, entries[at].row)?;
            drop(pin);
            if fetched.all_dead {
                self.dead.push(at);
            }
            let Some((row_id, bytes)) = fetched.row else { continue };
            if entries[at].recheck && !self.index.matches(table, row_id, &bytes, &self.range)? {
                continue;
            }
            rows[at - from] = Some(self.reader.row(row_id, &bytes)?);
        }
        Ok(())
    }

    /// Gives the index its dead marks.
    fn finish_batch(&mut self) {
        if !self.dead.is_empty() {
            let clock = self.reader.table.heap.clock();
            let sample = self.batch.sample;
            let mut check = |row: RowId| !clock.newer_than(row.block, sample);
            self.index.method.mark_dead(&self.batch, &self.dead, &mut check);
        }
        self.dead.clear();
        self.at = 0;
    }
}

impl Drop for IndexRows {
    fn drop(&mut self) {
        self.finish_batch();
    }
}
