//! The read stream: looks ahead for every read of more than one block.
//!
//! The stream takes entries from its source ahead of the one it delivers, and keeps them in a
//! window. It starts reads of missing pages in the order of need, each joined with neighbours in
//! the window. Pages are delivered in order, or as they arrive. `prefetch` chooses the distance.
//!
//! Invariants:
//! - Look-ahead holds no pins. A page that was read ahead may be evicted before its delivery, and
//!   is then read again. So a stream cannot exhaust a pool: only reads in flight occupy frames.
//! - Entries beyond a few are reserved from the memory budget. Without memory the window stays
//!   small.
//! - A block that several entries of the window need is read once.
//! - A read error reaches the entry that needs the page. Asking again reads again.
//!
//! Does not do: choose pages; keep pages after their delivery.
//!
//! After PostgreSQL's `storage/aio/read_stream.c`, which pins the pages that it reads ahead.

use rightlink_aio::{Method, ReadRequest};
use rightlink_env::Reservation;
use rightlink_env::sync::Arc;

use crate::buffer::core::Unread;
use crate::buffer::locality::Locality;
use crate::buffer::pin::{PageLookup, Pin};
use crate::buffer::pool::BufferPool;
use crate::buffer::prefetch::{Bounds, Distance, TOGETHER};
use crate::buffer::read_ahead::ReadRun;
use crate::buffer::stats::StreamStats;
use crate::buffer::stream_window::{Block, Window};
use crate::error::{Error, Result};
use crate::ids::{BlockNo, PageId};

/// The order in which a [`ReadStream`] delivers its pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// As they were asked for.
    Ordered,
    /// As they arrive.
    AnyOrder,
}

/// Bounds of a [`ReadStream`].
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Order of delivery.
    pub delivery: Delivery,
    /// Most reads ahead; 1 reads one page at a time. The pool and the device bound it, too.
    pub max_distance: u32,
    /// Entries that the consumer expects to take: look-ahead begins with as many reads, at the
    /// first page that is not in memory. 0: nothing is known; `u32::MAX`: all there are.
    pub expected: u32,
    /// The stream belongs to an insertion, which shares the device with others if the pool cannot
    /// hold the pages of all ([`BufferPool::begin_insertion`]).
    pub inserts: bool,
}

impl StreamOptions {
    /// In order, with the distance that the waits of the consumer ask for.
    pub const ORDERED: StreamOptions = StreamOptions {
        delivery: Delivery::Ordered,
        max_distance: u32::MAX,
        expected: 0,
        inserts: false,
    };
}

/// Where the entries come from.
type Source<'p, T> = Box<dyn FnMut() -> Result<Option<Sourced<T>>> + Send + 'p>;

/// An entry of a source: its page, if it needs one, its tag, and how many rows can be delivered
/// with it and without the next entry.
pub type Sourced<T> = (Option<PageId>, T, u32);

/// The pool, lent or shared.
enum PoolRef<'p> {
    Lent(&'p BufferPool),
    Shared(Arc<BufferPool>),
}

impl std::ops::Deref for PoolRef<'_> {
    type Target = BufferPool;

    fn deref(&self) -> &BufferPool {
        match self {
            PoolRef::Lent(pool) => pool,
            PoolRef::Shared(pool) => pool,
        }
    }
}

/// Entries taken from the source in one go, so that the device is fed in between.
const SOURCE_BATCH: usize = 64;
/// Rows whose entries are taken before the first read, if as many are expected: a block may have
/// neighbours among them, and one read of all costs less than the time that the device is idle.
const FIRST_ROWS: u64 = 4096;
/// Entries of the window for each distinct block of it, at most.
const ENTRIES_PER_BLOCK: usize = 64;
/// Entries of the window for each page of the pool, at most: what they take is small beside it.
const ENTRIES_PER_FRAME: usize = 4;
/// Entries of the window, at most.
const MAX_ENTRIES: usize = 16_384;
/// Entries of the window that need no reservation.
const FREE_ENTRIES: usize = 64;
/// Entries that are looked at for one that has arrived.
const ARRIVAL_SEARCH: usize = 64;

/// A stream of pinned pages: takes `(page, tag)` from its source, looks ahead, delivers pins.
pub struct ReadStream<'p, T> {
    pool: PoolRef<'p>,
    source: Source<'p, T>,
    delivery: Delivery,
    /// Look-ahead begins beyond distance 1, so pages in memory pass without it (see `pass`).
    starts_ahead: bool,
    /// Rows whose entries are taken before the first read.
    first_rows: u64,
    window: Window<T>,
    /// Entries of the window whose pages were looked at: in memory, or being read.
    looked: usize,
    /// Reads that are about to be started.
    reads: Vec<ReadRequest>,
    /// Reads whose first needed block was not delivered.
    reads_ahead: usize,
    /// Blocks read and not delivered.
    blocks_ahead: usize,
    distance: Distance,
    inserts: bool,
    locality: Locality,
    /// Entries that there is memory for, and the reservation of those beyond the free ones.
    room: usize,
    memory: Option<Reservation>,
    /// Rows that the consumer still wants, at most.
    wanted: u64,
    ended: bool,
    /// Error of `source`, which is reported in its turn and at every later call.
    failed: Option<Error>,
    stats: StreamStats,
}

impl<T> ReadStream<'static, T> {
    /// As [`ReadStream::new`], for a reader that outlives the caller's frame: it shares the pool.
    pub fn shared(
        pool: &Arc<BufferPool>,
        options: StreamOptions,
        mut next: impl FnMut() -> Result<Option<(PageId, T)>> + Send + 'static,
    ) -> Self {
        let source = move || Ok(next()?.map(|(page, tag)| (Some(page), tag, 1)));
        Self::over(PoolRef::Shared(Arc::clone(pool)), options, Box::new(source))
    }

    /// As [`ReadStream::shared`], with entries that may need no page: they pass in their turn. What
    /// the consumer wants ([`ReadStream::want`]) counts in rows.
    pub fn sparse(
        pool: &Arc<BufferPool>,
        options: StreamOptions,
        next: impl FnMut() -> Result<Option<Sourced<T>>> + Send + 'static,
    ) -> Self {
        Self::over(PoolRef::Shared(Arc::clone(pool)), options, Box::new(next))
    }
}

impl<'p, T> ReadStream<'p, T> {
    /// A stream over the pages that `next` names, until it returns `None`.
    pub fn new(
        pool: &'p BufferPool,
        options: StreamOptions,
        mut next: impl FnMut() -> Result<Option<(PageId, T)>> + Send + 'p,
    ) -> Self {
        let source = move || Ok(next()?.map(|(page, tag)| (Some(page), tag, 1)));
        Self::over(PoolRef::Lent(pool), options, Box::new(source))
    }

    /// As [`ReadStream::new`], with entries that may need no page: they pass in their turn.
    pub fn lent_sparse(
        pool: &'p BufferPool,
        options: StreamOptions,
        mut next: impl FnMut() -> Result<Option<(Option<PageId>, T)>> + Send + 'p,
    ) -> Self {
        let source = move || Ok(next()?.map(|(page, tag)| (page, tag, 1)));
        Self::over(PoolRef::Lent(pool), options, Box::new(source))
    }

    fn over(pool: PoolRef<'p>, options: StreamOptions, source: Source<'p, T>) -> Self {
        assert!(options.max_distance > 0, "a stream reads at least the page it hands over");
        let distance = Distance::new(pool.prefetch(), bounds(&pool, &options));
        Self {
            pool,
            source,
            delivery: options.delivery,
            starts_ahead: options.expected > 1,
            first_rows: match options.expected {
                u32::MAX => 0,
                rows => FIRST_ROWS.min(u64::from(rows)),
            },
            window: Window::default(),
            looked: 0,
            reads: Vec::new(),
            reads_ahead: 0,
            blocks_ahead: 0,
            distance,
            inserts: options.inserts,
            locality: Locality::default(),
            room: FREE_ENTRIES,
            memory: None,
            wanted: u64::MAX,
            ended: false,
            failed: None,
            stats: StreamStats::default(),
        }
    }

    /// The next page and its tag. A read error belongs to the page that needed it and repeats.
    ///
    /// # Panics
    /// If the entry needs no page ([`ReadStream::sparse`]).
    #[expect(clippy::should_implement_trait, reason = "fallible, and the error repeats")]
    pub fn next(&mut self) -> Result<Option<(Pin, T)>> {
        let next = self.next_entry()?;
        Ok(next.map(|(pin, tag)| (pin.expect("every entry of this stream has a page"), tag)))
    }

    /// The next entry: its page, if it needs one, and its tag. Errors as [`ReadStream::next`].
    pub fn next_entry(&mut self) -> Result<Option<(Option<Pin>, T)>> {
        if let Some(near) = self.pass() {
            return Ok(Some(near));
        }
        let Some(place) = self.look()? else { return Ok(None) };
        let pin = match self.window.page(place) {
            Some(page) => Some(self.obtain(place, page)?),
            None => {
                self.distance.idle();
                None
            }
        };
        Ok(Some((pin, self.hand_over(place))))
    }

    /// The next entry, without the window, if the stream does not look ahead and the page is in
    /// memory. If the consumer expects more, look-ahead begins with the first that is not in
    /// memory: until then there is nothing to read.
    fn pass(&mut self) -> Option<(Option<Pin>, T)> {
        let passes = self.starts_ahead && self.distance.policy().is_adaptive();
        let looks_ahead = self.distance.reads() > 1 && !passes || !self.window.is_empty();
        if looks_ahead || self.ended {
            return None;
        }
        let (page, tag, rows) = self.pull()?;
        let pin = match page.map(|page| self.pool.core.find(page)) {
            None => None,
            Some(PageLookup::Valid(pin)) => Some(pin),
            Some(PageLookup::Loading(_) | PageLookup::Absent) => {
                self.window.push(page, rows, tag);
                return None;
            }
        };
        self.distance.idle();
        self.handed_over(rows);
        Some((pin, tag))
    }

    /// The next entry of the source, none at its end and where it fails.
    fn pull(&mut self) -> Option<Sourced<T>> {
        match (self.source)() {
            Ok(Some(entry)) => return Some(entry),
            Ok(None) => {}
            Err(error) => self.failed = Some(error),
        }
        self.ended = true;
        None
    }

    /// The next tag, and its page or the error of reading it: for callers that go on past damage.
    pub fn next_tried(&mut self) -> Result<Option<(Result<Pin>, T)>> {
        let Some(place) = self.look()? else { return Ok(None) };
        let page = self.window.page(place).expect("every entry of this stream has a page");
        let tried = self.obtain(place, page);
        if tried.is_err() {
            self.take(place);
        }
        Ok(Some((tried, self.hand_over(place))))
    }

    /// Looks ahead; then which entry is next, none at the end.
    fn look(&mut self) -> Result<Option<usize>> {
        if self.inserts {
            self.distance.set_share(self.pool.insertion_share());
        }
        self.fill();
        if self.distance.reads() > 1 {
            self.issue();
        }
        let place = self.choose();
        match &self.failed {
            Some(error) if place.is_none() => Err(error.clone()),
            _ => Ok(place),
        }
    }

    /// Takes an entry out of the window.
    fn hand_over(&mut self, place: usize) -> T {
        self.looked = self.looked.saturating_sub(usize::from(place < self.looked));
        let (tag, rows) = self.window.remove(place);
        self.handed_over(rows);
        tag
    }

    fn handed_over(&mut self, rows: u32) {
        let rows = u64::from(rows);
        self.wanted = self.wanted.saturating_sub(rows);
        self.stats.delivered += rows;
        self.stats.distance_sum += rows * self.distance.reads() as u64;
    }

    /// The consumer wants at most so many rows more (entries, where each is a row): no more are
    /// asked for than these need.
    pub fn want(&mut self, rows: u64) {
        self.wanted = rows.max(1);
    }

    /// Pulls entries until the window is full, or reads should be started in between.
    fn fill(&mut self) {
        let blocks = self.distance.window();
        let most = if blocks == 1 { 1 } else { blocks * ENTRIES_PER_BLOCK };
        let most = most.min(self.most());
        let first = if self.reads_ahead == 0 { self.first_rows } else { 0 };
        let batch = SOURCE_BATCH.max(first as usize);
        while most > self.room && self.window.len() + batch > self.room && self.make_room() {}
        let (most, batch) = (most.min(self.room), self.window.len() + SOURCE_BATCH);
        while self.window.len() < most
            && (self.window.len() < batch || self.window.rows() < first)
            && self.window.blocks() < blocks
            && self.window.rows() < self.wanted
            && !self.ended
        {
            if let Some((page, tag, rows)) = self.pull() {
                self.window.push(page, rows, tag);
            }
        }
    }

    /// Reserves memory for twice as many entries; false if there is none.
    fn make_room(&mut self) -> bool {
        let more = self.room * Window::<T>::ENTRY_BYTES;
        let grown = match &mut self.memory {
            Some(memory) => memory.grow(more),
            None => {
                self.memory = self.pool.budget().try_reserve(more);
                self.memory.is_some()
            }
        };
        self.room += if grown { self.room } else { 0 };
        grown
    }

    /// Starts reads in the order of need, until enough are ahead: several together, which costs
    /// less than one by one.
    fn issue(&mut self) {
        let reads = self.distance.reads();
        if self.reads_ahead + reads / TOGETHER > reads || !self.has_room() {
            return;
        }
        while self.looked < self.window.len() && self.reads_ahead < reads && self.pool.room() > 0 {
            if let Some(page) = self.missing(self.looked)
                && !self.issue_run(page)
            {
                break;
            }
            self.looked += 1;
        }
        self.pool.start(&mut self.reads);
    }

    /// Would several reads start at once? Completes reads that have ended, to make room.
    fn has_room(&self) -> bool {
        let several = (self.pool.device_depth() as usize / TOGETHER).max(1);
        self.pool.room() >= several || {
            self.pool.core.io.reap(false);
            self.pool.room() >= several
        }
    }

    /// The page of the entry at `place`, if a read of it must be started.
    fn missing(&mut self, place: usize) -> Option<PageId> {
        let page = self.window.page(place)?;
        let block = self.window.block(place)?;
        if !block.issued && !block.near {
            block.near = self.pool.is_near(page);
        }
        (!block.issued && !block.near).then_some(page)
    }

    /// Reads `page` with its neighbours in the window. False if the read waits, because more
    /// neighbours may come soon.
    fn issue_run(&mut self, page: PageId) -> bool {
        let (first, count) = match self.distance.policy().is_simple() {
            true => (page, self.followers(page)),
            false => self.neighbours(page),
        };
        if self.may_grow(first, count) {
            return false;
        }
        self.locality.note(first, count as u32);
        let along = self.distance.follow(&self.locality);
        let mut run = ReadRun::default();
        for step in 0..count as u32 {
            let at = PageId { block: BlockNo(first.block.0 + step), ..first };
            match self.pool.reserve_ahead(at, &mut run) {
                Ok(true) => self.mark_issued(at, at == page),
                Ok(false) if at < page => {
                    self.pool.end_run(&mut run, along, &mut self.reads, &mut self.stats);
                }
                // No frame, or no such page: the entry that needs the page gets the error.
                Ok(false) | Err(_) => break,
            }
        }
        let read = run.len() > 0;
        self.pool.end_run(&mut run, along, &mut self.reads, &mut self.stats);
        let leads = self.window.block_of(page).is_some_and(|block| block.leads);
        self.reads_ahead += usize::from(read && leads);
        true
    }

    fn mark_issued(&mut self, page: PageId, leads: bool) {
        let block = self.window.block_of_mut(page).expect("only blocks of the window are read");
        (block.issued, block.leads) = (true, leads);
        self.blocks_ahead += 1;
    }

    /// The run of missing blocks of the window around `page`: its first page and its length.
    fn neighbours(&self, page: PageId) -> (PageId, usize) {
        let most = self.distance.join();
        let wants = |block: u32| {
            let at = PageId { block: BlockNo(block), ..page };
            let unread = self.window.block_of(at).is_some_and(|block| !block.issued);
            unread && !self.pool.is_near(at)
        };
        let (mut low, mut high) = (page.block.0, page.block.0);
        while ((high - low) as usize) + 1 < most && high < u32::MAX && wants(high + 1) {
            high += 1;
        }
        while ((high - low) as usize) + 1 < most && low > 0 && wants(low - 1) {
            low -= 1;
        }
        (PageId { block: BlockNo(low), ..page }, (high - low) as usize + 1)
    }

    /// How many of the next entries go on from `page` block by block, itself counted.
    fn followers(&self, page: PageId) -> usize {
        let mut last = page;
        for next in self.window.pages_from(self.looked) {
            let Some(next) = next else { break };
            if next.block.0 == last.block.0.wrapping_add(1) && next.file == last.file {
                last = next;
            } else if next != last {
                break;
            }
        }
        ((last.block.0 - page.block.0) as usize + 1).min(super::prefetch::MAX_JOIN as usize)
    }

    /// Does the run end where the window ends, and is there time to see whether it goes on?
    fn may_grow(&self, first: PageId, count: usize) -> bool {
        let at_end = self.window.last_page().is_some_and(|last| {
            last.file == first.file && last.block.0.wrapping_sub(first.block.0) < count as u32
        });
        let urgent = self.reads_ahead == 0 || self.ended;
        let most = self.most().min(self.room);
        let more = self.window.len() < most && self.window.rows() < self.wanted;
        at_end && !urgent && count < self.distance.join() && more
    }

    /// Entries that the window may hold: what the consumer wants, and what memory allows.
    fn most(&self) -> usize {
        let bound = MAX_ENTRIES.min(self.pool.frames() * ENTRIES_PER_FRAME);
        usize::try_from(self.wanted).unwrap_or(bound).min(bound)
    }

    /// The place of the entry that is delivered next.
    fn choose(&self) -> Option<usize> {
        let place = match self.delivery {
            Delivery::Ordered => 0,
            Delivery::AnyOrder => self.arrived().unwrap_or(0),
        };
        (!self.window.is_empty()).then_some(place)
    }

    /// An entry whose page is in memory. If there is none, the caller waits for the first, as in
    /// order: others arrive meanwhile, and a wait for any of them would be woken by each.
    fn arrived(&self) -> Option<usize> {
        let mut seen = self.window.pages_from(0).take(self.looked.clamp(1, ARRIVAL_SEARCH));
        seen.position(|page| page.is_none_or(|page| self.pool.core.holds(page)))
    }

    /// Pins the page that is delivered, and adapts the distance.
    fn obtain(&mut self, place: usize, page: PageId) -> Result<Pin> {
        let (pin, arrival) = self.fetch(page)?;
        let block = self.take(place);
        match arrival {
            Arrival::Read if block.issued => {
                self.stats.wasted += 1;
                self.distance.lost();
            }
            Arrival::Waited | Arrival::Read => self.distance.waited(),
            Arrival::Ready if block.issued => self.distance.used(),
            Arrival::Ready => self.distance.idle(),
        }
        Ok(pin)
    }

    /// Takes the state of the block of an entry that is delivered.
    fn take(&mut self, place: usize) -> Block {
        let block = self.window.take_block(place);
        self.reads_ahead -= usize::from(block.leads);
        self.blocks_ahead -= usize::from(block.issued);
        block
    }

    /// Pins the page, and returns whether it was in memory, awaited or read.
    fn fetch(&mut self, page: PageId) -> Result<(Pin, Arrival)> {
        match self.pool.core.find(page) {
            PageLookup::Valid(pin) => Ok((pin, Arrival::Ready)),
            PageLookup::Loading(pin) => {
                self.stats.waits += 1;
                match self.pool.core.wait(pin) {
                    // A neighbour in the same read may be at fault, so the page is read alone.
                    Err(Unread { error: Error::Io(_), .. }) => {
                        self.pool.pin(page).map(|pin| (pin, Arrival::Read))
                    }
                    Err(Unread { error, .. }) => Err(error),
                    Ok(pin) => Ok((pin, Arrival::Waited)),
                }
            }
            PageLookup::Absent => {
                self.stats.waits += 1;
                self.stats.reads += 1;
                self.stats.depth_sum += 1;
                self.pool.pin(page).map(|pin| (pin, Arrival::Read))
            }
        }
    }

    /// Delivers in this order from now on.
    pub fn deliver(&mut self, delivery: Delivery) {
        self.delivery = delivery;
    }

    /// Forgets everything asked for, without waiting for reads in flight. The distance stays.
    pub fn reset(&mut self) {
        self.stats.wasted += self.blocks_ahead as u64;
        self.window.clear();
        (self.looked, self.reads_ahead, self.blocks_ahead) = (0, 0, 0);
        self.ended = false;
        self.failed = None;
    }

    /// Looks ahead from the start again.
    pub fn restart(&mut self) {
        self.distance.restart();
        self.ended = false;
    }

    /// Counters so far.
    pub fn stats(&self) -> StreamStats {
        self.stats
    }
}

impl<T> Drop for ReadStream<'_, T> {
    fn drop(&mut self) {
        self.stats.wasted += self.blocks_ahead as u64;
        self.pool.core.streams.add(&self.stats);
    }
}

/// The bounds that pool and device set. More than an eighth of the pool would not stay in memory
/// until its delivery, since a scan passes through a tenth of it.
fn bounds(pool: &BufferPool, options: &StreamOptions) -> Bounds {
    let share = u32::try_from(pool.frames() / 8).unwrap_or(u32::MAX).max(2);
    let reads = options.max_distance.min(pool.device_depth().saturating_mul(2)).max(1);
    let inline = pool.io().method() == Method::Sync;
    let buffered = !pool.io().is_direct();
    Bounds { reads, blocks: share, expected: options.expected, inline, buffered }
}

/// How a page came to its delivery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// It was in memory.
    Ready,
    /// Its read was in flight.
    Waited,
    /// It was read for the delivery.
    Read,
}
