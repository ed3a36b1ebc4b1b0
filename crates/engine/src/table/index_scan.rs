//! Rows by way of an index: entry after entry, their heap pages through one read stream that looks
//! ahead along the index, over the ends of leaves too.
//!
//! Invariants: rows come in the index's order, whatever order their pages arrive in. A leaf's
//! entries outlive its latch, hence the two rules: a row id is followed under a registered snapshot
//! only, which does not see what a recycled row id (R3) names later; dead marks rest on R1 (the
//! heap vouches) and on R3 (the clock was read before the leaf, and is asked again under the leaf's
//! latch).
//! Does not do: rows from entries alone (`index_only`).

use std::collections::VecDeque;

use rightlink_env::points::broken;
use rightlink_env::sync::Arc;

use crate::buffer::{Delivery, Pin, ReadStream, StreamOptions};
use crate::error::{ConflictKind, Error, Result};
use crate::ids::{PageId, RowId};
use crate::index::am::{IndexScan, LeafBatch, ScanOptions};
use crate::index::{Direction, KeyRange};

use super::bounds::Checker;
use super::scan::{IndexScanOptions, Reader, Row};
use super::{Table, TableIndex};

/// Largest look-ahead, in pages.
const MAX_DISTANCE: u32 = 64;

/// How heap pages are read: in the order of the entries that name them.
pub(super) const HEAP_PAGES: StreamOptions =
    StreamOptions { delivery: Delivery::Ordered, max_distance: MAX_DISTANCE };

/// The leaves of one or more ranges, one range after the other.
pub(super) struct Leaves {
    pub(super) table: Arc<Table>,
    pub(super) index: Arc<TableIndex>,
    options: ScanOptions,
    /// Ranges to come, each with the number its rows get.
    ranges: VecDeque<(usize, KeyRange)>,
    scan: Option<(usize, KeyRange, Box<dyn IndexScan>)>,
}

/// A heap row to fetch: an entry of a leaf, and the number of the range it was found in.
struct Wanted {
    leaf: Arc<Leaf>,
    at: usize,
}

/// A leaf's matches and the range they were found in.
struct Leaf {
    batch: LeafBatch,
    number: usize,
    range: KeyRange,
}

/// Dead rows found by way of one leaf.
#[derive(Default)]
pub(super) struct DeadMarks {
    positions: Vec<usize>,
}

/// Rows of an index scan.
pub(super) struct IndexRows {
    reader: Reader,
    index: Arc<TableIndex>,
    stream: ReadStream<'static, Wanted>,
    /// Leaf of the row that was read last.
    leaf: Option<Arc<Leaf>>,
    dead: DeadMarks,
}

impl Leaves {
    pub(super) fn new(
        reader: &Reader,
        index: &Arc<TableIndex>,
        options: &IndexScanOptions,
    ) -> Result<Self> {
        let ranges = options.bounds.resolve(&checker(&reader.table, index))?;
        let mut ranges: Vec<_> = ranges.into_iter().enumerate().collect();
        if options.direction == Direction::Backward {
            ranges.reverse();
        }
        Self::over(reader, index, options.direction, ranges)
    }

    /// Of given ranges, in the given order.
    pub(super) fn over(
        reader: &Reader,
        index: &Arc<TableIndex>,
        direction: Direction,
        ranges: Vec<(usize, KeyRange)>,
    ) -> Result<Self> {
        if !index.is_usable(&reader.snapshot) {
            let what = format!("index {} is newer than the snapshot", index.def.name);
            return Err(Error::Conflict { kind: ConflictKind::Serialization, what });
        }
        let options = ScanOptions { direction, ..ScanOptions::default() };
        let (table, index) = (Arc::clone(&reader.table), Arc::clone(index));
        Ok(Self { table, index, options, ranges: ranges.into(), scan: None })
    }

    /// The matches of the next leaf, in `batch`: number and bounds of their range; none at the end.
    pub(super) fn next(&mut self, batch: &mut LeafBatch) -> Result<Option<(usize, &KeyRange)>> {
        let clock = self.table.heap.clock();
        loop {
            if let Some((_, _, scan)) = &mut self.scan
                && scan.next_batch(&|| clock.now(), batch)?
            {
                break;
            }
            let Some((number, range)) = self.ranges.pop_front() else { return Ok(None) };
            let scan = match self.scan.take() {
                // The ranges of a list often begin on one leaf, or on neighbours.
                Some((_, _, mut scan)) => {
                    scan.restart(range.clone());
                    scan
                }
                None => self.index.method.begin_scan(range.clone(), self.options),
            };
            self.scan = Some((number, range, scan));
        }
        let (number, range, _) = self.scan.as_ref().expect("a scan gave the batch");
        Ok(Some((*number, range)))
    }
}

/// Checks bounds on `index` of `table`.
pub(super) fn checker<'a>(table: &'a Table, index: &'a TableIndex) -> Checker<'a> {
    Checker { def: &table.def, index: &index.def, columns: index.keys.columns() }
}

impl IndexRows {
    pub(super) fn new(reader: Reader, leaves: Leaves) -> Self {
        let index = Arc::clone(&leaves.index);
        let pool = Arc::clone(&reader.table.pool);
        let stream = ReadStream::shared(&pool, HEAP_PAGES, entries_of(leaves));
        Self { reader, index, stream, leaf: None, dead: DeadMarks::default() }
    }

    /// Reads until there is a row; false at the end.
    pub(super) fn fill(&mut self, ready: &mut VecDeque<Row>) -> Result<bool> {
        let row = self.next()?;
        let more = row.is_some();
        ready.extend(row.map(|(_, row)| row));
        Ok(more)
    }

    /// The next row and the number of its range.
    pub(super) fn next(&mut self) -> Result<Option<(usize, Row)>> {
        while let Some((pin, wanted)) = self.stream.next()? {
            self.turn_to(&wanted.leaf);
            let row = self.read(&pin, &wanted)?;
            if let Some(row) = row {
                return Ok(Some((wanted.leaf.number, row)));
            }
        }
        Ok(None)
    }

    fn read(&mut self, pin: &Pin, wanted: &Wanted) -> Result<Option<Row>> {
        let leaf = &wanted.leaf;
        let place = Place { batch: &leaf.batch, at: wanted.at, range: &leaf.range };
        read_entry(&self.reader, &self.index, pin, &place, &mut self.dead)
    }

    /// Marks what was found dead by way of the last leaf when rows of another begin.
    fn turn_to(&mut self, leaf: &Arc<Leaf>) {
        if self.leaf.as_ref().is_some_and(|last| Arc::ptr_eq(last, leaf)) {
            return;
        }
        if let Some(last) = self.leaf.replace(Arc::clone(leaf)) {
            self.dead.give(&self.reader.table, &self.index, &last.batch);
        }
    }
}

impl Drop for IndexRows {
    fn drop(&mut self) {
        if let Some(last) = self.leaf.take() {
            self.dead.give(&self.reader.table, &self.index, &last.batch);
        }
    }
}

/// The heap pages that the entries of `leaves` name.
fn entries_of(
    mut leaves: Leaves,
) -> impl FnMut() -> Result<Option<(PageId, Wanted)>> + Send + 'static {
    let file = leaves.table.def.heap;
    let mut current: Option<Arc<Leaf>> = None;
    let mut next = 0;
    move || {
        loop {
            if let Some(leaf) = current.as_ref().filter(|leaf| next < leaf.batch.len()) {
                let page = PageId { file, block: leaf.batch.entries[next].row.block };
                let wanted = Wanted { leaf: Arc::clone(leaf), at: next };
                next += 1;
                return Ok(Some((page, wanted)));
            }
            let mut batch = LeafBatch::default();
            let Some((number, range)) = leaves.next(&mut batch)? else { return Ok(None) };
            current = Some(Arc::new(Leaf { number, range: range.clone(), batch }));
            next = 0;
        }
    }
}

/// An entry, and the bounds that it must be in.
pub(super) struct Place<'a> {
    pub(super) batch: &'a LeafBatch,
    pub(super) at: usize,
    pub(super) range: &'a KeyRange,
}

/// The row of an entry, on its pinned heap page.
pub(super) fn read_entry(
    reader: &Reader,
    index: &TableIndex,
    pin: &Pin,
    place: &Place<'_>,
    dead: &mut DeadMarks,
) -> Result<Option<Row>> {
    let table = &reader.table;
    let entry = &place.batch.entries[place.at];
    let fetched = table.heap.fetch_on(pin, &reader.snapshot, entry.row)?;
    if fetched.all_dead {
        dead.positions.push(place.at);
    }
    let Some((row_id, bytes)) = fetched.row else { return Ok(None) };
    if entry.recheck && !index.matches(table, row_id, &bytes, place.range)? {
        return Ok(None);
    }
    reader.row(row_id, &bytes).map(Some)
}

impl DeadMarks {
    /// Hands what was found by way of `batch` to the index, and forgets it.
    pub(super) fn give(&mut self, table: &Table, index: &TableIndex, batch: &LeafBatch) {
        if self.positions.is_empty() {
            return;
        }
        let (clock, sample) = (table.heap.clock(), batch.sample);
        let mut check = |row: RowId| !clock.newer_than(row.block, sample) || broken("r3-mark");
        index.method.mark_dead(batch, &self.positions, &mut check);
        self.positions.clear();
    }
}
