//! The way from row ids to rows: blocks are read ahead, each is visited once for the row ids that
//! name it, and rows are delivered in the order in which they were wanted.
//!
//! As in PostgreSQL, an access method yields row ids (`index_getnext_tid`) and the heap the version
//! that a snapshot sees (`index_fetch_heap`). The differences:
//!
//! - Row ids come in windows of up to 64. [`FetchQueue`] cuts a window into batches
//!   ([`HeapFetchBatch`]), one for each heap block, in the order of their first rows.
//! - One read stream reads the blocks of coming batches ahead.
//! - A block is latched once for its batch. [`FetchedRows`] keeps the rows until their turn, where
//!   PostgreSQL keeps the last block pinned. So no pin or latch outlives a call, and the snapshot
//!   keeps the copies true.
//!
//! An index scan and a write of many rows use [`RowFetcher`]. A lookup by key, whose blocks are in
//! memory, uses `FetchedRows` without a stream. A write looks for its version by itself.
//!
//! Invariants: a batch states how many rows can be delivered before the next one is needed, so a
//! reader who wants few rows reads no other block. Fetched rows take at most a page of memory,
//! which the budget gave. Rows that do not fit are fetched again in their turn. The row whose turn
//! it is always fits.
//! Does not do: decide whether an index entry stands for a row (`index_scan`, R4).

use std::ops::Range;

use rightlink_env::Reservation;

use crate::buffer::{Pin, ReadStream};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::heap::{FetchResult, Heap};
use crate::ids::{BlockNo, RowId};
use crate::txn::Snapshot;

/// Row ids of a window: one bit each.
const WINDOW: usize = u64::BITS as usize;
/// Most bytes of fetched rows: those of a page, which one row may need as well.
const MAX_BYTES: usize = PAGE_SIZE;
/// Bytes of fetched rows that need no reservation.
const FREE_BYTES: usize = 1 << 10;
/// Slots of the hash table of blocks; mark of a free one.
const SLOTS: usize = 2 * WINDOW;
const FREE: u8 = u8::MAX;

/// A list of row ids whose rows are wanted, shared by its batches.
pub(in crate::table) trait WantedRows: Clone {
    /// The row id at position `at`.
    fn row_id(&self, at: usize) -> RowId;

    /// Whether both are the same list.
    fn is(&self, other: &Self) -> bool;
}

impl WantedRows for &[RowId] {
    fn row_id(&self, at: usize) -> RowId {
        self[at]
    }

    fn is(&self, other: &Self) -> bool {
        std::ptr::eq(*self, *other)
    }
}

/// Up to 64 row ids of a list, in the order wanted.
#[derive(Clone)]
struct Window<W> {
    list: W,
    /// Position of the first.
    first: usize,
    /// Positions descend from there.
    backward: bool,
}

impl<W: WantedRows> Window<W> {
    fn position(&self, number: u32) -> usize {
        match self.backward {
            true => self.first - number as usize,
            false => self.first + number as usize,
        }
    }

    fn is(&self, other: &Self) -> bool {
        self.list.is(&other.list) && (self.first, self.backward) == (other.first, other.backward)
    }
}

/// The row ids of a window that name one block, or that need no block.
pub(in crate::table) struct HeapFetchBatch<W> {
    window: Window<W>,
    /// Its row ids, one bit each.
    numbers: u64,
    /// Rows from its first to the first of the next batch.
    pub(in crate::table) rows: u32,
}

impl<W: WantedRows> HeapFetchBatch<W> {
    /// The row id at position `at` alone.
    pub(in crate::table) fn of_one(list: W, at: usize) -> Self {
        Self { window: Window { list, first: at, backward: false }, numbers: 1, rows: 1 }
    }

    pub(in crate::table) fn list(&self) -> &W {
        &self.window.list
    }

    /// Position of its first row id.
    pub(in crate::table) fn first(&self) -> usize {
        self.window.position(self.numbers.trailing_zeros())
    }

    /// Appends the batch that follows; neither needs a block.
    pub(in crate::table) fn append(&mut self, next: &Self) {
        self.numbers |= next.numbers;
        self.rows += next.rows;
    }
}

/// The batches of one window that were not taken yet.
pub(in crate::table) struct FetchQueue<W> {
    window: Option<Window<W>>,
    /// The row ids of each batch.
    batches: Vec<u64>,
    /// The next batch.
    next: usize,
    /// Row ids of the window.
    len: u32,
}

/// Which row ids of one block form a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::table) enum Grouping {
    /// Neighbours only.
    Adjacent,
    /// All of a window.
    Window,
}

impl<W> Default for FetchQueue<W> {
    fn default() -> Self {
        Self { window: None, batches: Vec::new(), next: 0, len: 0 }
    }
}

impl<W: WantedRows> FetchQueue<W> {
    /// Takes the next batch.
    pub(in crate::table) fn pop(&mut self) -> Option<HeapFetchBatch<W>> {
        let next = self.peek()?;
        self.skip();
        Some(next)
    }

    /// Goes on behind the batch that [`FetchQueue::peek`] gave.
    pub(in crate::table) fn skip(&mut self) {
        self.next += 1;
    }

    /// The next batch, which stays.
    pub(in crate::table) fn peek(&self) -> Option<HeapFetchBatch<W>> {
        let numbers = *self.batches.get(self.next)?;
        let end = self.batches.get(self.next + 1).map_or(self.len, |next| next.trailing_zeros());
        let window = self.window.clone().expect("batches are of a window");
        Some(HeapFetchBatch { window, numbers, rows: end - numbers.trailing_zeros() })
    }

    /// Takes the next window out of the positions `rest` of `list`, from the front, or from the
    /// back if `backward`, and of it the first batch. None if no position is left.
    pub(in crate::table) fn refill(
        &mut self,
        list: &W,
        rest: &mut Range<usize>,
        backward: bool,
        grouping: Grouping,
    ) -> Option<HeapFetchBatch<W>> {
        if Range::is_empty(rest) {
            return None;
        }
        let len = rest.len().min(WINDOW);
        let first = if backward { rest.end - 1 } else { rest.start };
        let window = Window { list: list.clone(), first, backward };
        match backward {
            true => rest.end -= len,
            false => rest.start += len,
        }
        self.batches.clear();
        (self.next, self.len) = (0, len as u32);
        let mut blocks =
            BlockTable { last: None, slots: [FREE; SLOTS], blocks: [BlockNo(0); WINDOW] };
        for number in 0..len as u32 {
            let block = list.row_id(window.position(number)).block;
            let known = match blocks.last {
                Some((last, batch)) if last == block => Some(batch),
                _ if grouping == Grouping::Adjacent => None,
                _ => blocks.find(block),
            };
            match known {
                Some(batch) => self.batches[batch] |= 1 << number,
                None => {
                    blocks.add(block, self.batches.len(), grouping);
                    self.batches.push(1 << number);
                }
            }
        }
        self.window = Some(window);
        self.pop()
    }
}

/// Finds the batches of a window by block: an open-addressing hash table.
struct BlockTable {
    /// The block of the batch that began last.
    last: Option<(BlockNo, usize)>,
    slots: [u8; SLOTS],
    blocks: [BlockNo; WINDOW],
}

impl BlockTable {
    fn slot(&self, block: BlockNo) -> usize {
        let mut at = (block.0.wrapping_mul(0x9E37_79B1) >> 16) as usize % SLOTS;
        while self.slots[at] != FREE && self.blocks[usize::from(self.slots[at])] != block {
            at = (at + 1) % SLOTS;
        }
        at
    }

    fn find(&self, block: BlockNo) -> Option<usize> {
        let batch = self.slots[self.slot(block)];
        (batch != FREE).then_some(usize::from(batch))
    }

    /// A batch begins. Where only neighbours form one, the table is not needed.
    fn add(&mut self, block: BlockNo, batch: usize, grouping: Grouping) {
        self.last = Some((block, batch));
        if grouping == Grouping::Adjacent {
            return;
        }
        let slot = self.slot(block);
        self.blocks[batch] = block;
        self.slots[slot] = batch as u8;
    }
}

/// State of the wanted row whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::table) enum RowState {
    /// Its batch has not arrived.
    NotArrived,
    /// Its block must be visited.
    NotFetched,
    /// It needs no block.
    NeedsNoBlock,
    /// The snapshot sees no version of it.
    Invisible,
    /// It is here.
    Fetched,
}

/// How far a visit of a block fetches.
#[derive(Clone, Copy)]
pub(in crate::table) enum FetchLimit {
    /// The row ids among so many that come next.
    Next(u64),
    /// Up to the first visible row.
    FirstVisible,
}

/// The row ids of a window, one bit each, and the rows that were fetched before their turn.
pub(in crate::table) struct FetchedRows<W> {
    window: Option<Window<W>>,
    /// The row id whose turn it is.
    turn: u32,
    /// Those whose batches arrived.
    arrived: u64,
    /// Of these: those that need no block, those whose block must be visited, and those whose rows
    /// are here.
    blockless: u64,
    unfetched: u64,
    fetched: u64,
    /// The row whose turn it is, and the others by number.
    current: FetchedRow,
    later: Vec<FetchedRow>,
    bytes: Vec<u8>,
    /// What the budget gave, once it was asked; none if it had nothing.
    memory: Option<Option<Reservation>>,
}

/// A visible version, and its place among the bytes of [`FetchedRows`].
#[derive(Clone, Copy, Default)]
struct FetchedRow {
    at: RowId,
    start: u32,
    end: u32,
}

impl<W> Default for FetchedRows<W> {
    fn default() -> Self {
        let (window, turn, arrived, blockless, unfetched, fetched) = (None, 0, 0, 0, 0, 0);
        let (current, later, bytes, memory) = Default::default();
        Self { window, turn, arrived, blockless, unfetched, fetched, current, later, bytes, memory }
    }
}

impl<W: WantedRows> FetchedRows<W> {
    /// Begins with a list of `len` row ids, whose blocks are visited without a stream.
    pub(in crate::table) fn begin(&mut self, list: W, len: usize) {
        self.window = Some(Window { list, first: 0, backward: false });
        self.arrive(up_to(len as u64), true);
    }

    /// Goes on with the next window of a list of `len` row ids; false at its end.
    pub(in crate::table) fn next_window(&mut self, len: usize) -> bool {
        let (first, window) = (self.position(), self.window.take());
        self.clear();
        self.window = window.map(|window| Window { first, ..window });
        self.arrive(up_to(len.saturating_sub(first) as u64), true);
        first < len
    }

    /// Forgets everything.
    pub(in crate::table) fn clear(&mut self) {
        self.window = None;
        (self.turn, self.arrived, self.blockless, self.unfetched, self.fetched) = (0, 0, 0, 0, 0);
        self.bytes.clear();
    }

    /// A batch has arrived, which needs its block or does not.
    fn take_in(&mut self, batch: &HeapFetchBatch<W>, needs_block: bool) {
        let same = self.window.as_ref().is_some_and(|window| window.is(&batch.window));
        if !same || self.turn as usize == WINDOW {
            self.clear();
            self.window = Some(batch.window.clone());
        }
        self.arrive(batch.numbers, needs_block);
    }

    fn arrive(&mut self, numbers: u64, needs_block: bool) {
        debug_assert!(self.arrived & numbers == 0, "a row id arrives once");
        self.arrived |= numbers;
        *(if needs_block { &mut self.unfetched } else { &mut self.blockless }) |= numbers;
    }

    fn bit(&self) -> u64 {
        1u64.checked_shl(self.turn).unwrap_or(0)
    }

    /// The row ids whose turn is over.
    fn passed(&self) -> u64 {
        self.bit().wrapping_sub(1)
    }

    /// State of the row whose turn it is.
    #[inline]
    pub(in crate::table) fn state(&self) -> RowState {
        let bit = self.bit();
        match () {
            () if self.fetched & bit != 0 => RowState::Fetched,
            () if self.arrived & bit == 0 => RowState::NotArrived,
            () if self.unfetched & bit != 0 => RowState::NotFetched,
            () if self.blockless & bit != 0 => RowState::NeedsNoBlock,
            () => RowState::Invisible,
        }
    }

    /// Goes on to the next row.
    #[inline]
    pub(in crate::table) fn advance(&mut self) {
        self.turn += 1;
        if self.fetched & self.bit() != 0 {
            self.current = self.later[self.turn as usize];
        }
    }

    fn window(&self) -> &Window<W> {
        self.window.as_ref().expect("a batch has arrived")
    }

    /// The list of the row whose turn it is.
    #[inline]
    pub(in crate::table) fn list(&self) -> &W {
        &self.window().list
    }

    /// Position in the list of the row whose turn it is.
    #[inline]
    pub(in crate::table) fn position(&self) -> usize {
        self.window().position(self.turn)
    }

    /// The row id whose turn it is.
    pub(in crate::table) fn row_id(&self) -> RowId {
        self.list().row_id(self.position())
    }

    /// The version that the snapshot sees of the row whose turn it is, after it was fetched.
    #[inline]
    pub(in crate::table) fn row(&self) -> (RowId, &[u8]) {
        let FetchedRow { at, start, end } = self.current;
        (at, &self.bytes[start as usize..end as usize])
    }

    /// The bytes of the row whose turn it is.
    pub(in crate::table) fn into_row(mut self) -> Vec<u8> {
        self.bytes.truncate(self.current.end as usize);
        self.bytes.drain(..self.current.start as usize);
        self.bytes
    }

    /// Visits the pinned block of the row whose turn it is, for the rows that name it within
    /// `limit`. `dead` is told the positions of rows that are dead to everyone. An error that
    /// another row meets is met again in its turn.
    pub(in crate::table) fn fetch(
        &mut self,
        heap: &Heap,
        snapshot: &Snapshot,
        pin: &Pin,
        limit: FetchLimit,
        mut dead: impl FnMut(&W, usize),
    ) -> Result<()> {
        if self.fetched & !self.passed() == 0 {
            self.bytes.clear();
        }
        if self.bytes.is_empty() && self.unfetched.is_power_of_two() {
            return self.fetch_only(heap, snapshot, pin, dead);
        }
        let (next, only_first) = match limit {
            FetchLimit::Next(next) => (next, false),
            FetchLimit::FirstVisible => (u64::MAX, true),
        };
        if !only_first && self.memory.is_none() && self.unfetched.count_ones() > 1 {
            self.memory = Some(heap.pool().scan_budget().try_reserve(MAX_BYTES));
        }
        let window = self.window.take().expect("a batch has arrived");
        let roots = self.roots(&window, next);
        let fetched = heap.fetch_batch(pin, snapshot, roots, |number, result| {
            if let FetchResult::Invisible { all_dead: true } = result {
                dead(&window.list, window.position(number));
            }
            let ends = only_first && matches!(result, FetchResult::Visible(..));
            self.put(number, result) && !ends
        });
        self.window = Some(window);
        if self.state() == RowState::NotFetched { fetched } else { Ok(()) }
    }

    /// As [`FetchedRows::fetch`], where one row is left to fetch and none is kept: cheaper, since
    /// the heap copies it into place.
    fn fetch_only(
        &mut self,
        heap: &Heap,
        snapshot: &Snapshot,
        pin: &Pin,
        mut dead: impl FnMut(&W, usize),
    ) -> Result<()> {
        let found = heap.fetch_into(pin, snapshot, self.row_id(), &mut self.bytes)?;
        self.unfetched = 0;
        if let Some(at) = found.at {
            self.current = FetchedRow { at, start: 0, end: self.bytes.len() as u32 };
            self.fetched |= self.bit();
        } else if found.all_dead {
            dead(self.list(), self.position());
        }
        Ok(())
    }

    /// Number and slot of the rows to fetch from the block of the row whose turn it is, among the
    /// `next` row ids, itself first.
    fn roots<'w>(
        &self,
        window: &'w Window<W>,
        next: u64,
    ) -> impl Iterator<Item = (u32, u16)> + use<'w, W> {
        let row_id = |number| window.list.row_id(window.position(number));
        let block = row_id(self.turn).block;
        let mut numbers = self.unfetched & up_to(u64::from(self.turn).saturating_add(next.max(1)));
        std::iter::from_fn(move || {
            while numbers != 0 {
                let number = numbers.trailing_zeros();
                numbers &= numbers - 1;
                let row = row_id(number);
                if row.block == block {
                    return Some((number, row.slot));
                }
            }
            None
        })
    }

    /// Drops the rows that are kept. They are fetched again in their turn.
    #[cold]
    fn drop_rows(&mut self) {
        self.unfetched |= self.fetched & !self.passed();
        self.fetched &= self.passed();
        self.bytes.clear();
    }

    /// Keeps the result for row id `number`. False where there is no room, neither for it nor for
    /// more. For the row whose turn it is there always is: others are dropped for it.
    #[inline]
    fn put(&mut self, number: u32, result: FetchResult<'_>) -> bool {
        if let FetchResult::Visible(at, row) = result {
            let room = if matches!(self.memory, Some(Some(_))) { MAX_BYTES } else { FREE_BYTES };
            if self.bytes.len() + row.len() > room {
                if number != self.turn {
                    return false;
                }
                self.drop_rows();
            }
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(row);
            let fetched = FetchedRow { at, start, end: self.bytes.len() as u32 };
            if number == self.turn {
                self.current = fetched;
            } else {
                self.later.resize(WINDOW, FetchedRow::default());
                self.later[number as usize] = fetched;
            }
            self.fetched |= 1 << number;
        }
        self.unfetched &= !(1 << number);
        true
    }
}

/// The lowest `len` bits.
fn up_to(len: u64) -> u64 {
    1u64.checked_shl(u32::try_from(len).unwrap_or(u32::MAX)).map_or(!0, |bit| bit - 1)
}

/// Rows in the order wanted, their blocks read ahead.
pub(in crate::table) struct RowFetcher<'p, W> {
    pub(in crate::table) stream: ReadStream<'p, HeapFetchBatch<W>>,
    pub(in crate::table) rows: FetchedRows<W>,
}

/// The next batch of a [`RowFetcher`].
pub(in crate::table) enum Arrival {
    /// Its block, pinned.
    Block(Pin),
    /// It needs no block.
    NoBlock,
    /// There is none: the source has ended.
    End,
}

impl<'p, W: WantedRows> RowFetcher<'p, W> {
    pub(in crate::table) fn new(stream: ReadStream<'p, HeapFetchBatch<W>>) -> Self {
        Self { stream, rows: FetchedRows::default() }
    }

    /// Waits for the next batch. The caller wants at most `left` more rows.
    pub(in crate::table) fn next_batch(&mut self, left: u64) -> Result<Arrival> {
        self.stream.want(left);
        let Some((pin, batch)) = self.stream.next_entry()? else { return Ok(Arrival::End) };
        self.rows.take_in(&batch, pin.is_some());
        Ok(pin.map_or(Arrival::NoBlock, Arrival::Block))
    }

    /// The next wanted row id, as soon as its block was read. Fetches nothing.
    pub(in crate::table) fn next_row_id(&mut self) -> Result<Option<RowId>> {
        while self.rows.state() == RowState::NotArrived {
            if let Arrival::End = self.next_batch(u64::MAX)? {
                return Ok(None);
            }
        }
        let row = self.rows.row_id();
        self.rows.advance();
        Ok(Some(row))
    }
}
