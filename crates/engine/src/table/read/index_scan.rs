//! A scan of an index: entry after entry, each with the row that the snapshot sees.
//!
//! An [`IndexCursor`] yields the entries and a [`RowFetcher`] their rows, which it reads ahead
//! along the index and over the ends of leaves. Rows come in the index's order. Where the caller
//! needs no order, the entries of several leaves at a time are sorted by row id first, so that the
//! heap is read in its own order, as in a bitmap heap scan.
//!
//! Invariants:
//! - A leaf's entries outlive its latch, so a row id is followed under a registered snapshot only.
//!   That snapshot does not see the row that a recycled row id (R3) names later.
//! - An entry stands for a row without a visit of the heap only by R4. First the all-visible bit is
//!   read. Then the clock tells whether row ids of the block were freed since the leaf was read.
//!   Last, the index must be one that is cleaned, which a replaced index is not.
//! - A scan that turns round or returns to a mark serves the rest of that leaf from its copy.
//! - Between two rows the scan holds neither a pin nor a latch.
//!
//! Does not do: decode keys (`index_only`).
//! PostgreSQL: `index_getnext_slot` and `nodeIndexonlyscan.c`.

use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, AtomicBool, Ordering};
use rightlink_env::{Broken, Reservation};

use crate::buffer::{Pin, ReadStream, Sourced, StreamOptions, StreamStats};
use crate::error::{Error, Result};
use crate::ids::PageId;
use crate::index::Direction;

use crate::table::read::index_cursor::{
    DeadEntries, Inclusion, IndexCursor, IndexLeaf, IndexPosition, IndexSearch, checker,
};
use crate::table::read::index_only::KeyReader;
use crate::table::read::row_fetcher::{
    Arrival, FetchLimit, FetchQueue, Grouping, HeapFetchBatch, RowFetcher, RowState,
};
use crate::table::read::{Reader, Row};
use crate::table::{Table, TableIndex};

/// Most leaves whose entries are sorted by row id at a time, where no order is asked for.
const MAX_LEAVES: usize = 32;
/// A list of sorted entries of so many bytes needs no reservation.
const FREE_BYTES: usize = 1 << 10;
/// Most batches that need no block and are put to another.
const MAX_JOINED: usize = 64;

/// The row ids of a leaf that name one heap block.
type LeafFetchBatch = HeapFetchBatch<Arc<IndexLeaf>>;

/// Position of a scan: made by [`Rows::mark`](crate::Rows::mark).
///
/// ```
/// use rightlink::ScanOptions;
/// # use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # for a in 1..4 {
/// #     txn.insert("n", &[Value::Int8(a), Value::Int8(10)])?;
/// # }
/// let mut rows = txn.scan("n", &ScanOptions::index("n_pkey"))?;
/// rows.next();
/// let after_first = rows.mark()?;
/// let second = rows.next().unwrap()?;
/// rows.restore(&after_first)?;
/// assert_eq!(rows.next().unwrap()?, second);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Mark(Option<IndexPosition>);

/// A scan of an index.
pub(super) struct IndexRows {
    reader: Reader,
    search: IndexSearch,
    keys: Option<KeyReader>,
    fetcher: RowFetcher<'static, Arc<IndexLeaf>>,
    /// The source has more, though it said that it ended (`Prefetch::is_simple`).
    goes_on: Arc<AtomicBool>,
    /// Entry of the row that was delivered last.
    last: Option<IndexPosition>,
    /// Entries that the scan has come to.
    entries: u64,
    ended: bool,
    /// Dead entries of leaves that the scan has not left yet.
    dead: DeadEntries,
    /// Leaves whose entries come mixed.
    mixed: usize,
    /// Statistics of the streams before the scan turned.
    earlier: StreamStats,
}

/// The source of a scan's read stream: cuts the entries of a cursor into batches.
struct IndexFetchQueue {
    cursor: IndexCursor,
    /// Entries of a leaf, as batches.
    batches: FetchQueue<Arc<IndexLeaf>>,
    /// Entries of several leaves that were not taken yet, the next one last.
    sorted: Vec<IndexPosition>,
    /// What the budget gave for these; none if they are few, or it had nothing.
    sorted_memory: Option<Reservation>,
    /// Values come from keys where the heap need not be asked.
    index_only: bool,
    /// So many batches that need no block are put to one that needs none.
    joined: usize,
    /// Leaves to sort at a time; 0: the index's order is kept.
    leaves_to_sort: usize,
    /// The read-ahead policy begins anew at every leaf.
    by_leaf: bool,
    /// The entries of a leaf were all taken.
    leaf_ended: bool,
    goes_on: Arc<AtomicBool>,
}

impl IndexFetchQueue {
    fn new(cursor: IndexCursor, index_only: bool, goes_on: &Arc<AtomicBool>) -> Self {
        let by_leaf = cursor.of.table.pool.prefetch().is_simple();
        Self {
            cursor,
            batches: FetchQueue::default(),
            sorted: Vec::new(),
            sorted_memory: None,
            index_only,
            joined: 0,
            leaves_to_sort: 0,
            by_leaf,
            leaf_ended: false,
            goes_on: Arc::clone(goes_on),
        }
    }

    /// The stream that reads the blocks of the batches, at most `ahead` at once.
    fn into_fetcher(mut self, ahead: u32) -> RowFetcher<'static, Arc<IndexLeaf>> {
        let pool = Arc::clone(&self.cursor.of.table.pool);
        let expected = self.cursor.of.expected;
        let options = StreamOptions { max_distance: ahead, expected, ..StreamOptions::ORDERED };
        RowFetcher::new(ReadStream::sparse(&pool, options, move || self.next()))
    }

    fn next(&mut self) -> Result<Option<Sourced<LeafFetchBatch>>> {
        let batch = loop {
            if let Some(batch) = self.pop() {
                break batch;
            }
            // A policy that begins anew at every leaf is told where one ends.
            if self.by_leaf && std::mem::take(&mut self.leaf_ended) {
                self.goes_on.store(true, Ordering::Relaxed);
                return Ok(None);
            }
            if !self.refill()? {
                self.goes_on.store(false, Ordering::Relaxed);
                return Ok(None);
            }
            self.leaf_ended = true;
        };
        let page = self.page_of(&batch)?;
        let batch = if page.is_none() { self.join(batch) } else { batch };
        let rows = batch.rows;
        Ok(Some((page, batch, rows)))
    }

    /// Appends batches that follow and need no block either: few at first, as the reader may want
    /// few rows. A batch of which that cannot be told is left for its turn.
    fn join(&mut self, mut batch: LeafFetchBatch) -> LeafFetchBatch {
        let mut most = self.joined;
        while most > 0
            && let Some(next) = self.batches.peek()
            && matches!(self.page_of(&next), Ok(None))
        {
            batch.append(&next);
            self.batches.skip();
            most -= 1;
        }
        self.joined = (2 * self.joined).clamp(1, MAX_JOINED);
        batch
    }

    /// Takes the next batch, if entries of a leaf are left.
    fn pop(&mut self) -> Option<LeafFetchBatch> {
        if let Some(batch) = self.batches.pop() {
            return Some(batch);
        }
        let cursor = &mut self.cursor;
        let Some(leaf) = &cursor.leaf else {
            let IndexPosition { leaf, at } = self.sorted.pop()?;
            return Some(HeapFetchBatch::of_one(leaf, at));
        };
        // A policy that leaves out adjacent duplicates only is not to gain by this.
        let grouping = if self.by_leaf { Grouping::Adjacent } else { Grouping::Window };
        self.batches.refill(leaf, &mut cursor.rest, cursor.backward, grouping)
    }

    /// Goes on to the next leaf, or to several, whose entries are sorted by row id.
    fn refill(&mut self) -> Result<bool> {
        if self.leaves_to_sort == 0 {
            return self.cursor.advance();
        }
        (self.cursor.leaf, self.sorted, self.sorted_memory) = (None, Vec::new(), None);
        for _ in 0..self.leaves_to_sort {
            let Some(leaf) = self.cursor.next_leaf()? else { break };
            let position = |at| IndexPosition { leaf: Arc::clone(&leaf), at };
            self.sorted.extend((0..leaf.batch.len()).map(position));
            // Where memory ends it is the entries of one leaf that there was none for.
            if leaf.memory.is_none() || !self.reserve() {
                break;
            }
        }
        self.sorted.sort_unstable_by_key(|position| std::cmp::Reverse(position.row_id()));
        self.leaves_to_sort = (self.leaves_to_sort * 2).min(MAX_LEAVES);
        Ok(!self.sorted.is_empty())
    }

    /// Reserves the memory that the list of sorted entries takes.
    fn reserve(&mut self) -> bool {
        let bytes = self.sorted.capacity() * size_of::<IndexPosition>();
        match &mut self.sorted_memory {
            _ if bytes <= FREE_BYTES => true,
            Some(memory) => memory.grow(bytes - memory.bytes()),
            None => {
                self.sorted_memory = self.cursor.of.table.pool.scan_budget().try_reserve(bytes);
                self.sorted_memory.is_some()
            }
        }
    }

    /// The heap page that a batch needs, if it needs one.
    fn page_of(&self, batch: &LeafFetchBatch) -> Result<Option<PageId>> {
        let table = &self.cursor.of.table;
        let leaf = batch.list();
        let block = leaf.entry(batch.first()).row.block;
        let page = Some(PageId { file: table.def.heap, block });
        if !self.index_only || !table.heap.all_visible(block)?.all_visible {
            return Ok(page);
        }
        // R4: only after the bit was read does the clock tell that the entry was still good then.
        let newer = table.heap.clock().newer_than(block, leaf.batch.sample)
            && !broken(Broken::AllVisibleWithoutClock);
        // The leaf of a replaced index may have been read after the clock was advanced, and still
        // hold entries that only the other index was cleaned of.
        Ok(page.filter(|_| newer || self.cursor.of.index.is_replaced()))
    }
}

impl IndexRows {
    /// The table that is read.
    pub(super) fn table(&self) -> &Table {
        &self.reader.table
    }

    pub(super) fn index(&self) -> &TableIndex {
        &self.search.index
    }

    pub(super) fn new(
        reader: Reader,
        search: IndexSearch,
        keys: Option<KeyReader>,
        any_order: bool,
    ) -> Self {
        let goes_on = Arc::default();
        let mut queue = IndexFetchQueue::new(search.begin(), keys.is_some(), &goes_on);
        queue.leaves_to_sort = usize::from(any_order);
        Self {
            fetcher: queue.into_fetcher(reader.ahead),
            reader,
            search,
            keys,
            goes_on,
            last: None,
            entries: 0,
            ended: false,
            dead: DeadEntries::default(),
            mixed: if any_order { MAX_LEAVES } else { 1 },
            earlier: StreamStats::default(),
        }
    }

    /// The next row; the caller wants at most `left` more.
    pub(super) fn next(&mut self, left: u64) -> Result<Option<Row>> {
        loop {
            let row = match self.fetcher.rows.state() {
                RowState::Fetched => Some(self.fetched_row()?),
                RowState::NeedsNoBlock => Some(self.row_of_entry()?),
                RowState::Invisible => None,
                RowState::NotFetched => {
                    let block = self.fetcher.rows.row_id().block;
                    let page = PageId { file: self.table().def.heap, block };
                    let pin = self.table().pool.pin(page)?;
                    self.fetch(&pin, left)?;
                    continue;
                }
                RowState::NotArrived if self.next_batch(left)? => continue,
                RowState::NotArrived => return Ok(None),
            };
            self.entries += 1;
            if row.is_some() {
                self.note_last();
            }
            self.fetcher.rows.advance();
            if row.is_some() {
                return Ok(row);
            }
        }
    }

    /// Waits for the next batch and fetches its rows; false at the end.
    fn next_batch(&mut self, left: u64) -> Result<bool> {
        loop {
            let pin = match self.fetcher.next_batch(left)? {
                Arrival::Block(pin) => Some(pin),
                Arrival::NoBlock => None,
                Arrival::End if self.goes_on.load(Ordering::Relaxed) => {
                    self.fetcher.stream.restart();
                    continue;
                }
                Arrival::End => {
                    self.ended = true;
                    return Ok(false);
                }
            };
            let leaf = self.fetcher.rows.list();
            if self.dead.are_of(self.mixed, leaf) {
                self.dead.mark(&self.search);
            }
            if let Some(pin) = pin {
                self.fetch(&pin, left)?;
            }
            return Ok(true);
        }
    }

    /// Fetches from the pinned block of the row whose turn it is.
    fn fetch(&mut self, pin: &Pin, left: u64) -> Result<()> {
        let Self { reader, fetcher, dead, .. } = self;
        let (heap, snapshot, limit) =
            (&reader.table.heap, &reader.snapshot, FetchLimit::Next(left));
        fetcher.rows.fetch(heap, snapshot, pin, limit, |leaf, at| dead.add(leaf, at))
    }

    /// The fetched row whose turn it is.
    fn fetched_row(&self) -> Result<Row> {
        let (row_id, bytes) = self.fetcher.rows.row();
        self.reader.row(row_id, bytes)
    }

    /// The row whose turn it is, from its entry.
    fn row_of_entry(&self) -> Result<Row> {
        let (leaf, at) = (self.fetcher.rows.list(), self.fetcher.rows.position());
        let keys = self.keys.as_ref().expect("only an index-only scan needs no page");
        let values = keys.read(leaf.batch.key(at), leaf.batch.payload(at));
        let values = values.map_err(|what| Error::corrupt(leaf.batch.leaf, what.0))?;
        Ok(Row { row_id: leaf.entry(at).row, values })
    }

    /// Notes the entry whose turn it is: its row is delivered.
    #[inline]
    fn note_last(&mut self) {
        let (leaf, at) = (self.fetcher.rows.list(), self.fetcher.rows.position());
        match &mut self.last {
            Some(last) if Arc::ptr_eq(&last.leaf, leaf) => last.at = at,
            last => *last = Some(IndexPosition { leaf: Arc::clone(leaf), at }),
        }
    }

    /// Entries that the scan has come to.
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// Key of the row that was delivered last, as the index has it.
    pub(super) fn last_key(&self) -> Option<&[u8]> {
        self.last.as_ref().map(IndexPosition::key)
    }

    /// Where the scan is: after the row that it delivered last.
    pub(super) fn mark(&self) -> Mark {
        Mark(self.last.clone())
    }

    /// Goes on after the row at which `mark` was taken, in the present direction.
    pub(super) fn restore(&mut self, mark: &Mark) {
        self.last.clone_from(&mark.0);
        self.go_on_from(Inclusion::Excluded);
    }

    /// Goes on the other way: with the row before the one that was delivered last, or with that one
    /// if the end was reached.
    pub(super) fn turn(&mut self) -> Result<()> {
        let IndexSearch { table, index, direction, .. } = &mut self.search;
        if !index.def.method.is_ordered() {
            return Err(checker(table, index).unordered("an order"));
        }
        *direction = match direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        };
        self.go_on_from(if self.ended { Inclusion::Included } else { Inclusion::Excluded });
        Ok(())
    }

    /// Begins another stream at the entry of the row that was delivered last.
    fn go_on_from(&mut self, inclusion: Inclusion) {
        self.dead.mark(&self.search);
        self.fetcher.stream.reset();
        // Where a caller that goes to and fro stops is not known.
        self.search.expected = 0;
        self.earlier = self.stats();
        let cursor = match self.last.clone() {
            Some(last) => self.search.go_on_at(last, inclusion),
            None => self.search.begin(),
        };
        let queue = IndexFetchQueue::new(cursor, self.keys.is_some(), &self.goes_on);
        self.fetcher.stream = queue.into_fetcher(self.reader.ahead).stream;
        self.fetcher.rows.clear();
        self.ended = false;
    }

    /// Statistics of its read streams.
    pub(super) fn stats(&self) -> StreamStats {
        self.earlier.plus(&self.fetcher.stream.stats())
    }
}

impl Drop for IndexRows {
    fn drop(&mut self) {
        self.dead.mark(&self.search);
    }
}
