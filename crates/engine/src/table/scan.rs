//! Reading many rows: the whole heap in block order, or an index in its order.
//!
//! Invariants: a scan is owned and `Send`; between two calls it holds neither latch nor pin. The
//! first step reads as little as possible and later ones more, so that a small limit stays cheap;
//! what is read beyond a limit is bounded by one step.
//! Does not do: filters beyond an index range, joins, parallel work.

use rightlink_env::sync::Arc;
use std::collections::VecDeque;

use crate::datum::Value;
use crate::error::Result;
use crate::ids::RowId;
use crate::index::Direction;
use crate::txn::Snapshot;

use super::bounds::IndexBounds;
use super::index_only::{KeyReader, KeyRows};
use super::index_scan::{IndexRows, Leaves};
use super::row::Projection;
use super::{Table, TableIndex};

/// Largest step of a heap scan, in blocks.
const MAX_STEP: u32 = 128;

/// A row that a scan found.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Names the row for a write by the same statement.
    pub row_id: RowId,
    /// The wanted columns.
    pub values: Vec<Value>,
}

/// A scan in progress.
pub struct Scan {
    source: Source,
    ready: VecDeque<Row>,
    /// Rows that may still be handed out.
    left: u64,
}

enum Source {
    Heap(HeapRows),
    Index(Box<IndexRows>),
    Keys(Box<KeyRows>),
}

/// What all sources read by.
pub(super) struct Reader {
    pub(super) table: Arc<Table>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) projection: Projection,
}

/// A heap scan, a range of blocks at a time.
struct HeapRows {
    reader: Reader,
    next: u32,
    end: u32,
    step: u32,
}

/// What to read of an index.
#[derive(Clone, Debug)]
pub struct IndexScanOptions {
    /// Which entries.
    pub bounds: IndexBounds,
    /// In which order.
    pub direction: Direction,
    /// Most rows to hand out.
    pub limit: Option<u64>,
}

impl IndexScanOptions {
    /// All rows within `bounds`, in the index's order.
    pub fn new(bounds: IndexBounds) -> Self {
        Self { bounds, direction: Direction::Forward, limit: None }
    }
}

impl Table {
    /// Scans the whole table in no particular order.
    pub fn scan(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        projection: Projection,
        limit: Option<u64>,
    ) -> Scan {
        let reader = Reader::new(self, snapshot, projection);
        let rows = HeapRows { reader, next: 1, end: self.heap.blocks(), step: 1 };
        Scan::new(Source::Heap(rows), limit)
    }

    /// Scans `index`, one of this table's, in its order.
    pub fn scan_index(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        index: &Arc<TableIndex>,
        projection: Projection,
        options: &IndexScanOptions,
    ) -> Result<Scan> {
        let reader = Reader::new(self, snapshot, projection);
        let leaves = Leaves::new(&reader, index, options)?;
        let source = match KeyReader::new(&self.def, index, &reader.projection) {
            Some(keys) => Source::Keys(Box::new(KeyRows::new(reader, leaves, keys))),
            None => Source::Index(Box::new(IndexRows::new(reader, leaves))),
        };
        Ok(Scan::new(source, options.limit))
    }
}

impl Reader {
    pub(super) fn new(
        table: &Arc<Table>,
        snapshot: &Arc<Snapshot>,
        projection: Projection,
    ) -> Self {
        Self { table: Arc::clone(table), snapshot: Arc::clone(snapshot), projection }
    }

    /// The wanted columns of a version.
    pub(super) fn row(&self, row_id: RowId, bytes: &[u8]) -> Result<Row> {
        let values = self.projection.read(&self.table.def, bytes);
        let values = values.map_err(|what| self.table.damaged_row(row_id, what))?;
        Ok(Row { row_id, values })
    }
}

impl HeapRows {
    /// Reads the next step; false at the end of the table.
    fn fill(&mut self, ready: &mut VecDeque<Row>) -> Result<bool> {
        if self.next >= self.end {
            return Ok(false);
        }
        let to = self.end.min(self.next + self.step);
        let mut scan = self.reader.table.heap.scan_blocks(&self.reader.snapshot, self.next..to);
        while let Some((row_id, bytes)) = scan.next()? {
            ready.push_back(self.reader.row(row_id, bytes)?);
        }
        self.next = to;
        self.step = (self.step * 2).min(MAX_STEP);
        Ok(true)
    }
}

impl Scan {
    fn new(source: Source, limit: Option<u64>) -> Self {
        Self { source, ready: VecDeque::new(), left: limit.unwrap_or(u64::MAX) }
    }

    /// The next row. After an error the scan may be asked again and goes on where it was.
    #[expect(clippy::should_implement_trait, reason = "`Iterator` is implemented by means of this")]
    pub fn next(&mut self) -> Result<Option<Row>> {
        if self.left == 0 {
            return Ok(None);
        }
        while self.ready.is_empty() {
            let more = match &mut self.source {
                Source::Heap(rows) => rows.fill(&mut self.ready)?,
                Source::Index(rows) => rows.fill(&mut self.ready)?,
                Source::Keys(rows) => rows.fill(&mut self.ready, self.left)?,
            };
            if !more {
                return Ok(None);
            }
        }
        self.left -= 1;
        Ok(self.ready.pop_front())
    }
}

impl Iterator for Scan {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        Scan::next(self).transpose()
    }
}
