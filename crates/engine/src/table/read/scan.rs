//! Scans: of the whole heap in block order, of an index in its order, or of one place.
//!
//! Invariants: a scan is owned and `Send`. Between two calls it holds neither latch nor pin. The
//! first step reads as little as possible and later ones more, so a small limit stays cheap. What
//! is read beyond a limit is bounded by one step.
//! Does not do: filters beyond an index range, joins, parallel work.
//! PostgreSQL: `heapgettup_pagemode` for the heap; `index_scan` for an index.

use rightlink_env::Reservation;
use rightlink_env::sync::Arc;

use crate::buffer::{ReadStream, StreamOptions, StreamStats};
use crate::datum::Value;
use crate::error::{Error, Result};
use crate::heap::PageRows;
use crate::ids::{PageId, RowId};
use crate::index::Direction;
use crate::txn::Snapshot;

use crate::table::definition::row::Projection;
use crate::table::definition::row_visitor::RowVisitor;
use crate::table::read::bounds::IndexBounds;
use crate::table::read::by_key::{KeyRows, Next};
use crate::table::read::index_cursor::{IndexSearch, checker};
use crate::table::read::index_only::KeyReader;
use crate::table::read::index_scan::{IndexRows, Mark};
use crate::table::read::{Reader, Row};
use crate::table::{Table, TableIndex};

/// A scan in progress.
pub struct Scan {
    source: Source,
    /// Rows that may be handed out, and those that still may.
    most: u64,
    left: u64,
    /// Can it turn round and go back to a mark?
    turns: bool,
    /// What went wrong; it comes again, so that no row is skipped silently.
    failed: Option<Error>,
}

#[expect(clippy::large_enum_variant, reason = "a lookup by key allocates nothing for its scan")]
enum Source {
    Heap(Box<HeapRows>),
    Index(Box<IndexRows>),
    Key(KeyRows),
    /// One place, until it was looked at.
    Place(Box<Reader>, Option<RowId>),
}

/// A heap scan, a page at a time.
struct HeapRows {
    reader: Reader,
    stream: ReadStream<'static, ()>,
    page: PageRows,
    /// Rows of `page` that were handed out.
    used: usize,
    /// A page of which rows are left that memory was short for, and how many of its rows were
    /// handed out or are in `page`. They do not change under one snapshot.
    again: Option<(PageId, usize)>,
    /// What the budget gave for `page`.
    memory: Option<Reservation>,
}

/// So many rows are held where the budget has no room for a page's.
const PIECE: usize = 4;

/// A random sample of the blocks of a heap.
#[derive(Clone, Copy, Debug)]
pub struct BlockSample {
    /// How many blocks.
    pub blocks: u32,
    /// The seed that chooses them.
    pub seed: u64,
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
    /// The rows may come in any order: the heap is read in its own.
    pub any_order: bool,
    /// Most reads of heap pages at once; 1 reads none ahead.
    pub ahead: u32,
    /// Rows that the caller expects to take; 0: nothing is known.
    pub expected: u32,
}

impl IndexScanOptions {
    /// All rows within `bounds`, in the index's order.
    pub fn new(bounds: IndexBounds) -> Self {
        let direction = Direction::Forward;
        Self { bounds, direction, limit: None, any_order: false, ahead: u32::MAX, expected: 0 }
    }

    fn of_key(key: &[Value], limit: Option<u64>) -> Self {
        Self { limit, ..Self::new(IndexBounds::equal(key.to_vec())) }
    }
}

impl Table {
    /// Scans the whole table in no particular order.
    pub fn scan(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        projection: impl Into<Arc<Projection>>,
        limit: Option<u64>,
    ) -> Scan {
        self.scan_ahead(snapshot, projection, limit, u32::MAX)
    }

    /// As [`Table::scan`], with at most so many reads at once; 1 reads none ahead.
    pub fn scan_ahead(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        projection: impl Into<Arc<Projection>>,
        limit: Option<u64>,
        ahead: u32,
    ) -> Scan {
        let reader = Reader { ahead, ..Reader::new(self, snapshot, projection.into()) };
        Scan::new(Source::Heap(Box::new(HeapRows::new(reader, None))), limit)
    }

    /// As [`Table::scan_ahead`], of a random sample of the blocks.
    pub fn scan_sample(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        projection: impl Into<Arc<Projection>>,
        limit: Option<u64>,
        ahead: u32,
        sample: BlockSample,
    ) -> Scan {
        let reader = Reader { ahead, ..Reader::new(self, snapshot, projection.into()) };
        let BlockSample { blocks, seed } = sample;
        let chosen = Chosen { left: self.heap.blocks().saturating_sub(1), wanted: blocks, seed };
        Scan::new(Source::Heap(Box::new(HeapRows::new(reader, Some(chosen)))), limit)
    }

    /// Scans one place: for the version that lies there, if the snapshot sees it.
    pub fn scan_place(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        projection: impl Into<Arc<Projection>>,
        at: RowId,
        limit: Option<u64>,
    ) -> Scan {
        let reader = Reader::new(self, snapshot, projection.into());
        Scan::new(Source::Place(Box::new(reader), Some(at)), limit)
    }

    /// Scans `index`, one of this table's, in its order.
    pub fn scan_index(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        index: &Arc<TableIndex>,
        projection: impl Into<Arc<Projection>>,
        options: &IndexScanOptions,
    ) -> Result<Scan> {
        Reader::new(self, snapshot, projection.into()).scan_index(index, options)
    }

    /// Scans `index`, one of this table's, for one whole key: a value for each key column.
    pub fn scan_key(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        index: &Arc<TableIndex>,
        projection: &Arc<Projection>,
        key: &[Value],
        limit: Option<u64>,
    ) -> Result<Scan> {
        let reader = Reader::new(self, snapshot, Arc::clone(projection));
        match KeyReader::serves(index, projection) {
            true => reader.scan_index(index, &IndexScanOptions::of_key(key, limit)),
            false => reader.scan_key(index, key, limit),
        }
    }

    /// As [`Table::scan_key`], of rows that are to be written: entries alone will not do.
    pub fn scan_key_to_write(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        index: &Arc<TableIndex>,
        projection: &Arc<Projection>,
        key: &[Value],
        limit: Option<u64>,
    ) -> Result<Scan> {
        Reader::new(self, snapshot, Arc::clone(projection)).scan_key(index, key, limit)
    }
}

impl Reader {
    fn scan_index(mut self, index: &Arc<TableIndex>, options: &IndexScanOptions) -> Result<Scan> {
        self.ahead = options.ahead;
        let Self { table, snapshot, projection, .. } = &self;
        let search = options.bounds.resolve(&checker(table, index))?;
        let mut search = IndexSearch::new(table, snapshot, index, search, options.direction)?;
        // A leaf may hold more entries than a limit wants, so none is read ahead for one.
        search.expected = if options.limit.is_none() { options.expected } else { 0 };
        let keys = KeyReader::new(&table.def, index, projection);
        let rows = IndexRows::new(self, search, keys, options.any_order);
        let mut scan = Scan::new(Source::Index(Box::new(rows)), options.limit);
        scan.turns = !options.any_order;
        Ok(scan)
    }

    fn scan_key(self, index: &Arc<TableIndex>, key: &[Value], limit: Option<u64>) -> Result<Scan> {
        let Some(bytes) = KeyRows::encode_key(&self, index, key)? else {
            return self.scan_index(index, &IndexScanOptions::of_key(key, limit));
        };
        let mut scan = Scan::new(Source::Key(KeyRows::new(self, index, bytes)), limit);
        scan.turns = true;
        Ok(scan)
    }

    /// The version at `at`.
    fn row_at(&self, at: RowId) -> Result<Option<Row>> {
        match self.table.heap.fetch_at(&self.snapshot, at)? {
            Some(bytes) => self.row(at, &bytes).map(Some),
            None => Ok(None),
        }
    }
}

/// Blocks chosen one after the other among those of a table (selection sampling: Knuth, The Art of
/// Computer Programming, volume 2, algorithm S).
struct Chosen {
    /// Blocks that were not asked about yet.
    left: u32,
    /// How many of them are wanted.
    wanted: u32,
    seed: u64,
}

impl Chosen {
    /// Is the next block one of them?
    fn next(&mut self) -> bool {
        // splitmix64
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let chosen = (z ^ (z >> 31)) % u64::from(self.left.max(1)) < u64::from(self.wanted);
        self.left = self.left.saturating_sub(1);
        self.wanted -= u32::from(chosen);
        chosen
    }
}

impl HeapRows {
    fn new(reader: Reader, mut chosen: Option<Chosen>) -> Self {
        let (table, mut next) = (Arc::clone(&reader.table), 1);
        let end = table.heap.blocks();
        let pool = Arc::clone(&table.pool);
        let pages = move || {
            loop {
                // Blocks that were cut off meanwhile held nothing.
                let block = (next < end.min(table.heap.blocks())).then_some(next);
                next += 1;
                let Some(block) = block else { return Ok(None) };
                if chosen.as_mut().is_none_or(Chosen::next) {
                    return Ok(Some((PageId::new(table.def.heap, block), ())));
                }
            }
        };
        let options = StreamOptions { max_distance: reader.ahead, ..StreamOptions::ORDERED };
        let stream = ReadStream::shared(&pool, options, pages);
        reader.table.heap.counters().scan();
        let page = PageRows::default();
        Self { reader, stream, page, used: 0, again: None, memory: None }
    }

    /// The next row; the caller wants at most `left` more.
    fn next(&mut self, left: u64) -> Result<Option<Row>> {
        while self.used == self.page.len() {
            if !self.fill(left)? {
                return Ok(None);
            }
        }
        let (row_id, bytes) = self.page.get(self.used);
        let row = self.reader.row(row_id, bytes)?;
        self.used += 1;
        Ok(Some(row))
    }

    /// Hands at most `most` rows to `visitor`. Returns their number.
    fn visit(&mut self, most: u64, visitor: &mut impl RowVisitor) -> Result<u64> {
        let mut count = 0;
        while count < most {
            if self.used == self.page.len() {
                if !self.fill(most - count)? {
                    break;
                }
                continue;
            }
            let (row_id, bytes) = self.page.get(self.used);
            let Reader { table, projection, .. } = &self.reader;
            table.visit(projection, row_id, bytes, visitor)?;
            (self.used, count) = (self.used + 1, count + 1);
            if !visitor.end_row(row_id) {
                break;
            }
        }
        Ok(count)
    }

    /// Reads the next page, or more of the last one; false at the end of the table.
    fn fill(&mut self, left: u64) -> Result<bool> {
        let table = &self.reader.table;
        // Pages with as many rows as the last one would do.
        self.stream.want(left.div_ceil(self.page.len().max(1) as u64));
        let (pin, seen) = match self.again {
            Some((page, seen)) => (table.pool.pin(page)?, seen),
            None => match self.stream.next()? {
                Some((pin, ())) => (pin, 0),
                None => return Ok(false),
            },
        };
        (self.used, self.memory) = (0, None);
        table.heap.read_page(&pin, &self.reader.snapshot, &mut self.page)?;
        let left = self.page.len().saturating_sub(seen);
        self.memory = table.pool.scan_budget().try_reserve(self.page.memory());
        let keep = if self.memory.is_some() { left } else { left.min(PIECE) };
        if keep < self.page.len() {
            self.page.keep(self.page.len() - left, keep);
        }
        self.again = (keep < left).then(|| (pin.page(), seen + keep));
        Ok(true)
    }
}

impl Source {
    fn table(&self) -> &Table {
        match self {
            Source::Heap(rows) => &rows.reader.table,
            Source::Index(rows) => rows.table(),
            Source::Key(rows) => rows.table(),
            Source::Place(reader, _) => &reader.table,
        }
    }
}

impl Scan {
    fn new(source: Source, limit: Option<u64>) -> Self {
        let most = limit.unwrap_or(u64::MAX);
        Self { source, most, left: most, turns: false, failed: None }
    }

    /// The next row. After an error the same error comes again.
    #[expect(clippy::should_implement_trait, reason = "`Iterator` is implemented by means of this")]
    pub fn next(&mut self) -> Result<Option<Row>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.advance().map_err(|error| self.fail(error))
    }

    /// Hands the next rows to `visitor` until it wants no more. Returns their number, 0 at the end.
    /// After an error the same error comes again.
    pub fn visit(&mut self, visitor: &mut impl RowVisitor) -> Result<u64> {
        let mut count = 0;
        match (&mut self.source, &self.failed) {
            (Source::Heap(rows), None) => {
                count = rows.visit(self.left, visitor).map_err(|error| self.fail(error))?;
                self.left -= count;
            }
            _ => {
                while let Some(Row { row_id, values }) = self.next()? {
                    count += 1;
                    values.into_iter().enumerate().for_each(|(at, value)| visitor.value(at, value));
                    if !visitor.end_row(row_id) {
                        break;
                    }
                }
            }
        }
        Ok(count)
    }

    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        let error = self.source.table().def.named(error);
        self.failed = Some(error.clone());
        error
    }

    fn advance(&mut self) -> Result<Option<Row>> {
        if self.left == 0 {
            return Ok(None);
        }
        let left = self.left;
        let next = match &mut self.source {
            Source::Index(rows) => rows.next(left)?,
            Source::Heap(rows) => rows.next(left)?,
            Source::Key(rows) => match rows.next()? {
                Next::Row(row) => row,
                Next::Scan => self.through_index()?.next(left)?,
            },
            Source::Place(reader, at) => match at.take() {
                Some(at) => reader.row_at(at)?,
                None => None,
            },
        };
        self.left -= u64::from(next.is_some());
        Ok(next)
    }

    /// Where the scan is: after the row that it handed out last.
    ///
    /// # Errors
    /// `Invalid` unless the scan goes through an index in its order; so for the others.
    pub fn mark(&mut self) -> Result<Mark> {
        Ok(self.turning()?.mark())
    }

    /// Goes on after the row at which `mark`, one of this scan's, was taken.
    pub fn restore(&mut self, mark: &Mark) -> Result<()> {
        self.turning()?.restore(mark);
        Ok(())
    }

    /// From now on the other way: first the row before the one that was handed out last, or after
    /// the end that last one.
    pub fn turn(&mut self) -> Result<()> {
        self.turning()?.turn()
    }

    /// From here on a scan of the index, wherever the reading by key has come.
    #[cold]
    fn through_index(&mut self) -> Result<&mut IndexRows> {
        if let Source::Key(rows) = &self.source {
            self.source = Source::Index(Box::new(rows.scan()?));
        }
        match &mut self.source {
            Source::Index(rows) => Ok(rows),
            _ => unreachable!("a scan of an index"),
        }
    }

    fn turning(&mut self) -> Result<&mut IndexRows> {
        match self.source {
            Source::Index(_) | Source::Key(_) if self.turns => self.through_index(),
            _ => Err(Error::Invalid("only a scan in an index's order can turn or go back".into())),
        }
    }

    /// What its read streams did so far.
    pub fn stats(&self) -> StreamStats {
        match &self.source {
            Source::Heap(rows) => rows.stream.stats(),
            Source::Index(rows) => rows.stats(),
            Source::Key(_) | Source::Place(..) => StreamStats::default(),
        }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        let rows = self.most - self.left;
        match &self.source {
            Source::Heap(scan) => scan.reader.table.heap.counters().scanned(rows),
            Source::Index(scan) => scan.index().count_scan(scan.entries(), rows),
            Source::Key(scan) => scan.index().count_scan(scan.entries(), rows),
            Source::Place(..) => {}
        }
    }
}

impl Iterator for Scan {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        Scan::next(self).transpose()
    }
}
