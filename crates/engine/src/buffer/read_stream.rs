//! Reading ahead: every multi-block read goes through one [`ReadStream`] (decision 10).
//!
//! The stream asks `next` for pages ahead of the one it hands over, and starts the reads of those
//! that are not in memory: sorted and with neighbours joined, while results keep their order.
//!
//! Invariants:
//! - The distance starts at 1, doubles only when the consumer really waited, and shrinks slowly
//!   while nothing has to be read. So a `LIMIT 1` or a cached run issues nothing ahead.
//! - Look-ahead holds no pins: a page that was read ahead is an ordinary unpinned page until it is
//!   handed over, and is read again if the pool needed its frame. So a stream cannot exhaust a
//!   pool, however small. Only reads in flight occupy frames, at most a quarter of the pool for
//!   each stream.
//! - A block that the window holds twice is read once, adjacent or not.
//! - A read error reaches the row that needs the page, when its turn comes; asking again reads
//!   again.
//!
//! Does not do: choose pages; keep pages after they are handed over.

use std::collections::VecDeque;

use rightlink_env::sync::Arc;

use crate::buffer::data_file::DataFile;
use crate::buffer::evict::Need;
use crate::buffer::load::Found;
use crate::buffer::pin::Pin;
use crate::buffer::pool::BufferPool;
use crate::error::{Error, Result};
use crate::ids::PageId;

/// Most neighbours that one read joins (128 KiB).
const MAX_JOIN: usize = 16;

/// In which order a [`ReadStream`] hands over its pages.
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
    /// Largest look-ahead in pages; 1 reads one at a time.
    pub max_distance: u32,
}

/// What a stream did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamStats {
    /// Device reads issued.
    pub reads: u64,
    /// Blocks that were joined to a neighbour's read.
    pub joined: u64,
    /// Blocks read but never handed over.
    pub wasted: u64,
    /// Times the consumer waited for the device.
    pub waits: u64,
    /// Sum of the look-ahead distance over all hand-overs (divide by `delivered`).
    pub distance_sum: u64,
    /// Pages handed over.
    pub delivered: u64,
}

/// One page that was asked for and not handed over yet.
struct Entry<T> {
    page: PageId,
    tag: T,
    /// This stream has started a read of the page on behalf of this entry.
    issued: bool,
}

/// Where the pages come from.
type Source<'p, T> = Box<dyn FnMut() -> Result<Option<(PageId, T)>> + Send + 'p>;

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

/// Every multi-block read (decision 10): pulls `(page, tag)` from `next`, looks ahead, hands over
/// pins.
pub struct ReadStream<'p, T> {
    pool: PoolRef<'p>,
    source: Source<'p, T>,
    delivery: Delivery,
    window: VecDeque<Entry<T>>,
    distance: usize,
    max_distance: usize,
    /// Hand-overs in a row that needed no read.
    idle: usize,
    paused: bool,
    ended: bool,
    /// Error of `source`, which is reported when its turn comes and ever after.
    failed: Option<Error>,
    stats: StreamStats,
}

impl<T> ReadStream<'static, T> {
    /// As [`ReadStream::new`], for a reader that outlives the caller's frame: it shares the pool.
    pub fn shared(
        pool: &Arc<BufferPool>,
        options: StreamOptions,
        next: impl FnMut() -> Result<Option<(PageId, T)>> + Send + 'static,
    ) -> Self {
        Self::over(PoolRef::Shared(Arc::clone(pool)), options, Box::new(next))
    }
}

impl<'p, T> ReadStream<'p, T> {
    /// A stream over the pages that `next` names, until it returns `None`.
    pub fn new(
        pool: &'p BufferPool,
        options: StreamOptions,
        next: impl FnMut() -> Result<Option<(PageId, T)>> + Send + 'p,
    ) -> Self {
        Self::over(PoolRef::Lent(pool), options, Box::new(next))
    }

    fn over(pool: PoolRef<'p>, options: StreamOptions, source: Source<'p, T>) -> Self {
        assert!(options.max_distance > 0, "a stream reads at least the page it hands over");
        let max_distance = (options.max_distance as usize).min(pool.frames() / 4).max(1);
        Self {
            pool,
            source,
            delivery: options.delivery,
            window: VecDeque::new(),
            distance: 1,
            max_distance,
            idle: 0,
            paused: false,
            ended: false,
            failed: None,
            stats: StreamStats::default(),
        }
    }

    /// The next page and its tag. A read error belongs to the page that needed it and repeats.
    #[expect(clippy::should_implement_trait, reason = "fallible, and the error repeats")]
    pub fn next(&mut self) -> Result<Option<(Pin, T)>> {
        self.fill();
        let Some(place) = self.choose() else {
            return self.failed.clone().map_or(Ok(None), Err);
        };
        let entry = &self.window[place];
        let (page, issued) = (entry.page, entry.issued);
        let (pin, how) = self.fetch(page)?;
        let entry = self.window.remove(place).expect("the entry was just looked at");
        self.adapt(how, issued);
        self.stats.delivered += 1;
        self.stats.distance_sum += self.distance as u64;
        Ok(Some((pin, entry.tag)))
    }

    /// Pulls pages up to the distance, and starts their reads.
    fn fill(&mut self) {
        // Refilled by halves, so that neighbours come together and can be joined.
        if self.window.len() > self.distance / 2 {
            return;
        }
        let old = self.window.len();
        while self.window.len() < self.distance && !self.paused && !self.ended {
            match (self.source)() {
                Ok(Some((page, tag))) => {
                    self.window.push_back(Entry { page, tag, issued: false });
                }
                Ok(None) => self.ended = true,
                Err(error) => {
                    self.failed = Some(error);
                    self.ended = true;
                }
            }
        }
        if self.window.len() > 1 {
            self.issue(old);
        }
    }

    /// Starts the reads of what came into the window from place `from` on.
    fn issue(&mut self, from: usize) {
        let mut wanted: Vec<(PageId, usize)> =
            (from..self.window.len()).map(|place| (self.window[place].page, place)).collect();
        wanted.sort_unstable();
        wanted.dedup_by_key(|(page, _)| *page);
        let mut run = Run::default();
        for (page, place) in wanted {
            if !run.is_continued_by(page) {
                self.submit(&mut run);
            }
            match self.reserve(page) {
                Ok(Some((file, frame))) => {
                    self.window[place].issued = true;
                    run.push(page, file, frame);
                }
                // In memory, or on its way.
                Ok(None) => {}
                // No room, or no such page: the row that needs it will be told.
                Err(_) => break,
            }
        }
        self.submit(&mut run);
    }

    fn reserve(&self, page: PageId) -> Result<Option<(Arc<DataFile>, u32)>> {
        if self.pool.core.table.find(&self.pool.core.arena, page).is_some() {
            return Ok(None);
        }
        let file = self.pool.check_inside(page)?;
        let frame = self.pool.reserve_frame(&file, page, Need::Ahead)?;
        Ok(frame.map(|frame| (file, frame)))
    }

    fn submit(&mut self, run: &mut Run) {
        let frames = std::mem::take(&mut run.frames);
        if let Some(file) = run.file.take() {
            self.stats.reads += 1;
            self.stats.joined += frames.len() as u64 - 1;
            self.pool.submit_read(&file, frames);
        }
    }

    /// Which entry is handed over next.
    fn choose(&self) -> Option<usize> {
        if self.window.is_empty() {
            return None;
        }
        match self.delivery {
            Delivery::Ordered => Some(0),
            Delivery::AnyOrder => Some(self.arrived().unwrap_or(0)),
        }
    }

    fn arrived(&self) -> Option<usize> {
        let valid = |entry: &Entry<T>| self.pool.core.holds(entry.page);
        if let Some(place) = self.window.iter().position(valid) {
            return Some(place);
        }
        let loading = |entry: &Entry<T>| self.pool.core.reads(entry.page);
        let anything = || self.window.iter().any(valid) || !self.window.iter().any(loading);
        self.pool.core.io.wait_for(anything);
        self.window.iter().position(valid)
    }

    /// Pins the page, and says what that took.
    fn fetch(&mut self, page: PageId) -> Result<(Pin, How)> {
        match self.pool.core.find(page) {
            Found::Valid(pin) => Ok((pin, How::Ready)),
            Found::Loading(pin) => {
                self.stats.waits += 1;
                self.pool.core.wait(pin).map(|pin| (pin, How::Waited))
            }
            Found::Absent => {
                self.stats.waits += 1;
                self.stats.reads += 1;
                self.pool.pin(page).map(|pin| (pin, How::Read))
            }
        }
    }

    fn adapt(&mut self, how: How, issued: bool) {
        match how {
            // It was read ahead and has left memory again: the pool is too small for this distance.
            How::Read if issued => {
                self.stats.wasted += 1;
                self.distance = (self.distance / 2).max(1);
                self.idle = 0;
            }
            How::Waited | How::Read => {
                self.distance = (self.distance * 2).min(self.max_distance);
                self.idle = 0;
            }
            How::Ready if issued => self.idle = 0,
            How::Ready => self.decay(),
        }
    }

    /// Nothing had to be read: after a whole window of that, look a little less far.
    fn decay(&mut self) {
        self.idle += 1;
        if self.idle > self.max_distance.max(2 * self.distance) {
            self.distance = (self.distance - 1).max(1);
        }
    }

    /// Stops pulling from `next` until [`ReadStream::resume`]; what was asked for is still
    /// delivered.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// Goes on pulling.
    pub fn resume(&mut self) {
        self.paused = false;
    }

    /// Forgets everything asked for, without waiting for reads in flight. The distance stays.
    pub fn reset(&mut self) {
        self.stats.wasted += self.window.iter().filter(|entry| entry.issued).count() as u64;
        self.window.clear();
        self.ended = false;
        self.failed = None;
    }

    /// What happened so far.
    pub fn stats(&self) -> StreamStats {
        self.stats
    }
}

/// What it took to hand a page over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// It was in memory.
    Ready,
    /// Its read was on its way.
    Waited,
    /// It had to be read then and there.
    Read,
}

/// Neighbours that will be read in one call.
#[derive(Default)]
struct Run {
    file: Option<Arc<DataFile>>,
    frames: Vec<u32>,
    last: PageId,
}

impl Run {
    fn is_continued_by(&self, page: PageId) -> bool {
        let next = self.last.block.0.checked_add(1);
        let same = self.file.as_ref().is_some_and(|file| file.id == page.file);
        same && next == Some(page.block.0) && self.frames.len() < MAX_JOIN
    }

    fn push(&mut self, page: PageId, file: Arc<DataFile>, frame: u32) {
        assert!(self.frames.is_empty() || self.is_continued_by(page), "a run has no gaps");
        self.file = Some(file);
        self.frames.push(frame);
        self.last = page;
    }
}
