//! Rows by way of an index: entry after entry, their heap pages through one read stream that looks
//! ahead along the index, over the ends of leaves too. Entries of a leaf that name one block pass
//! the stream together, and the block is looked at once for all of them (`groups`).
//!
//! Rows come in the index's order, whatever order their pages arrive in; where the caller needs no
//! order, the entries of several leaves at a time are sorted by row id first, so that the heap is
//! read in its own order. Where the index holds all that is wanted, entries of all-visible blocks
//! need no page and pass in their turn.
//!
//! Invariants: a leaf's entries outlive its latch, hence these rules: a row id is followed under a
//! registered snapshot only, which does not see what a recycled row id (R3) names later; an entry
//! stands for a row only by R4: the all-visible bit is read, then the clock is asked whether row
//! ids of the block were given free since the leaf was read, then the index whether it is cleaned
//! at all, which one that was replaced is not; dead marks rest on R1 (the heap vouches) and on R3
//! (the clock was read before the leaf, and is asked again under the leaf's latch). A scan that
//! turns round or goes back to a mark serves the rest of that leaf from the batch it holds, and
//! goes on beyond the leaf's fences (R5). Between two rows there is neither a pin nor a latch: what
//! was read of a page beyond a row is held as a copy, which the snapshot keeps true.
//! Does not do: decode keys (`index_only`).

use rightlink_env::Broken;
use std::ops::Range;

use rightlink_env::Reservation;
use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, AtomicBool, Ordering};

use crate::buffer::{Pin, ReadStream, Sourced, StreamOptions, StreamStats};
use crate::error::{ConflictKind, Error, Result};
use crate::heap::FetchResult;
use crate::ids::{PageId, RowId};
use crate::index::am::{IndexScan, LeafBatch, ScanOptions};
use crate::index::{Direction, KeyRange};
use crate::txn::Snapshot;

use super::bounds::{Checker, Search};
use super::groups::{Group, Grouping, Groups, Held, Turn};
use super::index_only::KeyReader;
use super::scan::{Reader, Row};
use super::{Table, TableIndex};

/// Most leaves whose entries are sorted by row id at a time, where no order is asked for.
const MAX_LEAVES: usize = 32;
/// A leaf's matches of so many bytes are held without asking the budget.
const SMALL: usize = 1 << 10;
/// So many entries are held where the budget has no room for a leaf's.
const PIECE: usize = 16;
/// Most groups that need no page and are put to another.
const MAX_JOINED: usize = 64;

/// The leaves with wanted keys.
pub(super) struct Leaves {
    table: Arc<Table>,
    index: Arc<TableIndex>,
    direction: Direction,
    search: Arc<Search>,
    scan: Box<dyn IndexScan>,
}

/// A leaf's matches.
pub(super) struct Leaf {
    pub(super) batch: LeafBatch,
    direction: Direction,
    /// What the budget gave for the batch; none if it had nothing: then the batch is a small piece.
    memory: Option<Reservation>,
}

/// An entry of a leaf.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) leaf: Arc<Leaf>,
    pub(super) at: usize,
}

/// Where a scan was.
#[derive(Clone)]
pub struct Mark(Option<Wanted>);

/// Dead rows found, by leaf.
#[derive(Default)]
struct DeadMarks {
    leaves: Vec<(Arc<Leaf>, Vec<usize>)>,
}

/// Rows of an index scan.
pub(super) struct IndexRows {
    reader: Reader,
    index: Arc<TableIndex>,
    search: Arc<Search>,
    direction: Direction,
    keys: Option<KeyReader>,
    stream: ReadStream<'static, Group>,
    /// The source has more, though it said that it ended (`Prefetch::is_simple`).
    goes_on: Arc<AtomicBool>,
    /// Entry of the row that was handed over last.
    last: Option<Wanted>,
    /// Entries that it came to.
    entries: u64,
    ended: bool,
    /// What was found dead on leaves that the scan has not let go of yet.
    dead: DeadMarks,
    /// Leaves whose entries come mixed.
    mixed: usize,
    /// What streams did that were left when the scan turned.
    earlier: StreamStats,
    /// What was read ahead of the row that was handed over last.
    held: Held,
}

impl Leaves {
    pub(super) fn new(
        reader: &Reader,
        index: &Arc<TableIndex>,
        (search, direction): (Search, Direction),
    ) -> Result<Self> {
        check_usable(index, &reader.snapshot)?;
        if direction == Direction::Backward && !index.def.method.is_ordered() {
            return Err(checker(&reader.table, index).unordered("an order"));
        }
        let range = search.range.clone();
        Ok(Self::of_range(&reader.table, index, (Arc::new(search), direction), range))
    }

    /// Of what is searched for only the part in `range`.
    fn of_range(
        table: &Arc<Table>,
        index: &Arc<TableIndex>,
        (search, direction): (Arc<Search>, Direction),
        range: KeyRange,
    ) -> Self {
        let options = ScanOptions { direction, ..ScanOptions::default() };
        let scan = match &search.keys {
            None => index.method.begin_scan(range, options),
            Some(keys) => index.method.begin_scan_of(range, Arc::clone(keys), options),
        };
        let (table, index) = (Arc::clone(table), Arc::clone(index));
        Self { table, index, direction, search, scan }
    }

    /// The matches of the next leaf; none at the end.
    fn next(&mut self) -> Result<Option<Arc<Leaf>>> {
        let mut batch = LeafBatch::default();
        let clock = self.table.heap.clock();
        if !self.scan.next_batch(&|| clock.now(), &mut batch)? {
            return Ok(None);
        }
        let memory = memory_for(&self.table, self.scan.as_mut(), &mut batch);
        Ok(Some(Arc::new(Leaf { batch, direction: self.direction, memory })))
    }
}

/// Memory to hold `batch` in while its rows are fetched. Where there is none, most of the batch
/// goes back to the scan, to be read again later.
fn memory_for(
    table: &Table,
    scan: &mut dyn IndexScan,
    batch: &mut LeafBatch,
) -> Option<Reservation> {
    let budget = table.pool.scan_budget();
    if batch.memory() <= SMALL {
        return budget.try_reserve(0);
    }
    batch.shrink_to_fit();
    let memory = budget.try_reserve(batch.memory());
    if memory.is_none() && batch.len() > PIECE {
        scan.hand_back(batch, PIECE);
    }
    memory
}

/// Fails where `snapshot` must not read by `index` (R10).
pub(super) fn check_usable(index: &TableIndex, snapshot: &Snapshot) -> Result<()> {
    index.keys.check()?;
    if index.is_usable(snapshot) {
        return Ok(());
    }
    let what = format!("index {} is newer than the snapshot", index.def.name);
    Err(Error::Conflict { kind: ConflictKind::Serialization, what })
}

/// Checks bounds on `index` of `table`.
pub(super) fn checker<'a>(table: &'a Table, index: &'a TableIndex) -> Checker<'a> {
    Checker { def: &table.def, index: &index.def, columns: index.keys.columns() }
}

/// What goes into the stream.
struct Feed {
    leaves: Leaves,
    /// Entries of a leaf that are not grouped yet, in the index's order or against that of the
    /// leaf's scan.
    run: Option<(Arc<Leaf>, Range<usize>, bool)>,
    /// Those of them that are grouped.
    groups: Groups,
    /// Entries of several leaves that are not handed over yet, the next one last.
    sorted: Vec<Wanted>,
    /// What the budget gave for these; none if they are few, or it had nothing.
    room: Option<Reservation>,
    /// Values come from keys where the heap need not be asked.
    index_only: bool,
    /// So many groups that need no page are put to one that needs none.
    joined: usize,
    /// Leaves to sort at a time; 0: the index's order is kept.
    sort: usize,
    by_leaf: bool,
    /// A leaf was handed over whole.
    between: bool,
    goes_on: Arc<AtomicBool>,
}

impl Feed {
    fn new(leaves: Leaves, index_only: bool, goes_on: &Arc<AtomicBool>) -> Self {
        let by_leaf = leaves.table.pool.prefetch().is_simple();
        let goes_on = Arc::clone(goes_on);
        Self {
            leaves,
            run: None,
            groups: Groups::default(),
            sorted: Vec::new(),
            room: None,
            index_only,
            joined: 0,
            sort: 0,
            by_leaf,
            between: false,
            goes_on,
        }
    }

    fn next(&mut self) -> Result<Option<Sourced<Group>>> {
        let group = loop {
            if let Some(group) = self.take() {
                break group;
            }
            // A policy that starts anew at every leaf is told where one ends.
            if self.by_leaf && std::mem::take(&mut self.between) {
                self.goes_on.store(true, Ordering::Relaxed);
                return Ok(None);
            }
            if !self.refill()? {
                self.goes_on.store(false, Ordering::Relaxed);
                return Ok(None);
            }
            self.between = true;
        };
        let page = self.page_of(&group)?;
        let group = if page.is_none() { self.join(group) } else { group };
        let rows = group.rows;
        Ok(Some((page, group, rows)))
    }

    /// Puts groups that follow and need no page either to one that needs none: few at first, as the
    /// reader may want few. One of which that cannot be told is left for its turn.
    fn join(&mut self, mut group: Group) -> Group {
        let mut most = self.joined;
        while most > 0
            && let Some(next) = self.groups.peek()
            && matches!(self.page_of(&next), Ok(None))
        {
            group.join(&next);
            self.groups.skip();
            most -= 1;
        }
        self.joined = (2 * self.joined).clamp(1, MAX_JOINED);
        group
    }

    /// The next group, if a leaf's entries are left.
    fn take(&mut self) -> Option<Group> {
        if let Some(group) = self.groups.next() {
            return Some(group);
        }
        let Some((leaf, left, back)) = &mut self.run else {
            return self.sorted.pop().map(Group::alone);
        };
        if Range::is_empty(left) {
            return None;
        }
        // A policy that leaves out adjacent duplicates only is not to gain by this.
        let (adjacent, recheck_alone) = (self.by_leaf, self.index_only);
        let how = Grouping { adjacent, recheck_alone };
        self.groups.refill(leaf, (left, *back), how);
        self.groups.next()
    }

    /// Fetches the entries of the next leaf, or of several, to be read in the heap's order.
    fn refill(&mut self) -> Result<bool> {
        if self.sort == 0 {
            let leaf = self.leaves.next()?;
            self.run = leaf.map(|leaf| (Arc::clone(&leaf), 0..leaf.batch.len(), false));
            return Ok(self.run.is_some());
        }
        (self.run, self.sorted, self.room) = (None, Vec::new(), None);
        for _ in 0..self.sort {
            let Some(leaf) = self.leaves.next()? else { break };
            let wanted = |at| Wanted { leaf: Arc::clone(&leaf), at };
            self.sorted.extend((0..leaf.batch.len()).map(wanted));
            // Where memory ends it is the entries of one leaf that there was none for.
            if leaf.memory.is_none() || !self.reserve() {
                break;
            }
        }
        self.sorted.sort_unstable_by_key(|wanted| std::cmp::Reverse(wanted.row()));
        self.sort = (self.sort * 2).min(MAX_LEAVES);
        Ok(!self.sorted.is_empty())
    }

    /// Reserves the memory that the list of sorted entries takes.
    fn reserve(&mut self) -> bool {
        let bytes = self.sorted.capacity() * size_of::<Wanted>();
        match &mut self.room {
            _ if bytes <= SMALL => true,
            Some(room) => room.grow(bytes - room.bytes()),
            None => {
                self.room = self.leaves.table.pool.scan_budget().try_reserve(bytes);
                self.room.is_some()
            }
        }
    }

    /// The heap page that is needed for a group, if one is.
    fn page_of(&self, group: &Group) -> Result<Option<PageId>> {
        let table = &self.leaves.table;
        let batch = &group.leaf().batch;
        let entry = &batch.entries[group.first()];
        let block = entry.row.block;
        let page = Some(PageId { file: table.def.heap, block });
        if !self.index_only || entry.recheck || !table.heap.all_visible(block)?.all_visible {
            return Ok(page);
        }
        // R4: only after the bit was read does the clock tell that the entry was still good then.
        let newer = table.heap.clock().newer_than(block, batch.sample)
            && !broken(Broken::AllVisibleWithoutClock);
        // Of an index that was replaced the leaf may have been read after the clock was advanced,
        // and still hold what only the other one was cleaned of.
        Ok(page.filter(|_| newer || self.leaves.index.is_replaced()))
    }
}

impl Wanted {
    fn row(&self) -> RowId {
        self.leaf.batch.entries[self.at].row
    }
}

impl IndexRows {
    /// The table that is read.
    pub(super) fn table(&self) -> &Table {
        &self.reader.table
    }

    pub(super) fn index(&self) -> &TableIndex {
        &self.index
    }

    pub(super) fn new(
        reader: Reader,
        leaves: Leaves,
        keys: Option<KeyReader>,
        any_order: bool,
    ) -> Self {
        let (index, search) = (Arc::clone(&leaves.index), Arc::clone(&leaves.search));
        let (direction, goes_on) = (leaves.direction, Arc::default());
        let mut feed = Feed::new(leaves, keys.is_some(), &goes_on);
        feed.sort = usize::from(any_order);
        Self {
            stream: stream_of(feed, reader.ahead),
            reader,
            index,
            search,
            direction,
            keys,
            goes_on,
            last: None,
            entries: 0,
            ended: false,
            dead: DeadMarks::default(),
            mixed: if any_order { MAX_LEAVES } else { 1 },
            earlier: StreamStats::default(),
            held: Held::default(),
        }
    }

    /// The next row; the caller wants at most `left` more.
    pub(super) fn next(&mut self, left: u64) -> Result<Option<Row>> {
        loop {
            let row = match self.held.turn() {
                Turn::Found => self.row()?,
                Turn::Keyed => Some(self.row_of_key()?),
                Turn::Nothing => None,
                Turn::Unread => {
                    let (leaf, at) = self.held.entry();
                    let block = leaf.batch.entries[at].row.block;
                    let page = PageId { file: self.table().def.heap, block };
                    let pin = self.table().pool.pin(page)?;
                    self.read(&pin, left)?;
                    continue;
                }
                Turn::Unknown if self.fetch(left)? => continue,
                Turn::Unknown => return Ok(None),
            };
            self.entries += 1;
            if row.is_some() {
                self.note_last();
            }
            self.held.pass();
            if row.is_some() {
                return Ok(row);
            }
        }
    }

    /// Takes in the next group; false at the end.
    fn fetch(&mut self, left: u64) -> Result<bool> {
        loop {
            self.stream.want(left);
            if let Some((pin, group)) = self.stream.next_entry()? {
                self.turn_to(group.leaf());
                self.held.take_in(&group, pin.is_some());
                if let Some(pin) = pin {
                    self.read(&pin, left)?;
                }
                return Ok(true);
            }
            if !self.goes_on.load(Ordering::Relaxed) {
                self.ended = true;
                return Ok(false);
            }
            self.stream.restart();
        }
    }

    /// Looks at the pinned page of the entry whose turn it is, for all that name it and may be
    /// wanted: what another entry meets there it will meet in its turn.
    fn read(&mut self, pin: &Pin, left: u64) -> Result<()> {
        let Self { reader, held, dead, .. } = self;
        held.make_room(reader.table.pool.scan_budget());
        let (heap, roots) = (&reader.table.heap, held.roots(left));
        let looked = heap.fetch_batch(pin, &reader.snapshot, roots, |number, look| {
            if let FetchResult::Invisible { all_dead: true } = look {
                dead.add(&held.wanted(number));
            }
            held.put(number, look)
        });
        match self.held.turn() {
            Turn::Unread => looked,
            _ => Ok(()),
        }
    }

    /// The row of the entry whose turn it is, if it is wanted.
    fn row(&self) -> Result<Option<Row>> {
        let ((leaf, at), (row_id, bytes)) = (self.held.entry(), self.held.row());
        let recheck = leaf.batch.entries[at].recheck;
        if recheck && !self.index.matches(self.table(), row_id, bytes, &self.search)? {
            return Ok(None);
        }
        self.reader.row(row_id, bytes).map(Some)
    }

    /// The row of the entry whose turn it is, from the entry itself.
    fn row_of_key(&self) -> Result<Row> {
        let (leaf, at) = self.held.entry();
        let keys = self.keys.as_ref().expect("only an index-only scan needs no page");
        let values = keys.read(leaf.batch.key(at), leaf.batch.payload(at));
        let values = values.map_err(|what| Error::corrupt(leaf.batch.leaf, what.0))?;
        Ok(Row { row_id: leaf.batch.entries[at].row, values })
    }

    /// The entry whose turn it is gave the row that is handed over.
    #[inline]
    fn note_last(&mut self) {
        let (leaf, at) = self.held.entry();
        match &mut self.last {
            Some(last) if Arc::ptr_eq(&last.leaf, leaf) => last.at = at,
            last => *last = Some(Wanted { leaf: Arc::clone(leaf), at }),
        }
    }

    /// Entries that it came to.
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// Key of the row that was handed over last, as the index has it.
    pub(super) fn last_key(&self) -> Option<&[u8]> {
        self.last.as_ref().map(|wanted| wanted.leaf.batch.key(wanted.at))
    }

    /// Lets go of leaves when rows of others begin.
    fn turn_to(&mut self, leaf: &Arc<Leaf>) {
        if self.dead.leaves.len() >= self.mixed && !self.dead.knows(leaf) {
            self.let_go();
        }
    }

    /// Done with the leaves so far: marks what was found dead by way of them.
    fn let_go(&mut self) {
        for (leaf, positions) in std::mem::take(&mut self.dead.leaves) {
            give_dead(&self.reader.table, &self.index, &leaf.batch, &positions);
        }
    }

    /// Where the scan is: after the row that it handed over last.
    pub(super) fn mark(&self) -> Mark {
        Mark(self.last.clone())
    }

    /// Goes on after the row at which `mark` was taken, in the direction of now.
    pub(super) fn restore(&mut self, mark: &Mark) {
        self.leave();
        let feed = self.feed_from(mark.0.clone(), false);
        (self.stream, self.last, self.ended) =
            (stream_of(feed, self.reader.ahead), mark.0.clone(), false);
    }

    /// Goes on the other way: with the row before the one that was handed over last, or with that
    /// one if the end was reached.
    pub(super) fn turn(&mut self) -> Result<()> {
        if !self.index.def.method.is_ordered() {
            return Err(checker(&self.reader.table, &self.index).unordered("an order"));
        }
        self.leave();
        self.direction = match self.direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        };
        let feed = self.feed_from(self.last.clone(), self.ended);
        (self.stream, self.ended) = (stream_of(feed, self.reader.ahead), false);
        Ok(())
    }

    /// Lets go of the stream that the scan has had so far.
    fn leave(&mut self) {
        self.let_go();
        self.held.clear();
        self.stream.reset();
        self.earlier = self.earlier.plus(&self.stream.stats());
    }

    /// Entries from `spot` on, that one included or not; from the start if there is none.
    fn feed_from(&self, spot: Option<Wanted>, inclusive: bool) -> Feed {
        let (mut range, mut run) = (self.search.range.clone(), None);
        if let Some(Wanted { leaf, at }) = spot {
            let (before, after) = (at + usize::from(inclusive), at + usize::from(!inclusive));
            run = Some(match leaf.direction == self.direction {
                true => (Arc::clone(&leaf), after..leaf.batch.len(), false),
                false => (Arc::clone(&leaf), 0..before, true),
            });
            range = leaf.batch.beyond(&range, self.direction);
        }
        let search = (Arc::clone(&self.search), self.direction);
        let leaves = Leaves::of_range(&self.reader.table, &self.index, search, range);
        Feed { run, ..Feed::new(leaves, self.keys.is_some(), &self.goes_on) }
    }

    /// What its read streams did so far.
    pub(super) fn stats(&self) -> StreamStats {
        self.earlier.plus(&self.stream.stats())
    }
}

fn stream_of(mut feed: Feed, ahead: u32) -> ReadStream<'static, Group> {
    let pool = Arc::clone(&feed.leaves.table.pool);
    let options = StreamOptions { max_distance: ahead, ..StreamOptions::ORDERED };
    ReadStream::sparse(&pool, options, move || feed.next())
}

impl Drop for IndexRows {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl DeadMarks {
    fn knows(&self, leaf: &Arc<Leaf>) -> bool {
        self.leaves.iter().any(|(known, _)| Arc::ptr_eq(known, leaf))
    }

    fn add(&mut self, wanted: &Wanted) {
        let mut leaves = self.leaves.iter_mut().rev();
        match leaves.find(|(known, _)| Arc::ptr_eq(known, &wanted.leaf)) {
            Some((_, positions)) => positions.push(wanted.at),
            None => self.leaves.push((Arc::clone(&wanted.leaf), vec![wanted.at])),
        }
    }
}

/// Has the entries of `batch` at `positions` marked dead, as far as rules and settings allow.
fn give_dead(table: &Table, index: &TableIndex, batch: &LeafBatch, positions: &[usize]) {
    assert!(!positions.is_empty(), "a leaf is kept for its dead entries");
    let hints = table.txns.dead_hints();
    if !hints.marks_entries() {
        return;
    }
    let (clock, sample) = (table.heap.clock(), batch.sample);
    let mut check =
        |row: RowId| !clock.newer_than(row.block, sample) || broken(Broken::DeadMarkWithoutClock);
    index.method.mark_dead(batch, positions, hints.needs_unchanged_leaf(), &mut check);
}
