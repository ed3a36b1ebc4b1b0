//! Read-ahead: starts reads of pages that are needed soon, joins neighbours, and never waits.
//!
//! Invariants:
//! - A page that is in memory or being read is not read again (R20).
//! - A page that finds no frame is not read ahead. The thread that needs it reads it, and gets any
//!   error of the read.
//! - A frame that is being read is pinned by its read alone.
//!
//! Does not do: choose pages (`read_stream`).

use rightlink_aio::ReadRequest;
use rightlink_env::sync::{Arc, Ordering};

use crate::buffer::data_file::DataFile;
use crate::buffer::evict::Need;
use crate::buffer::insertions::Insertion;
use crate::buffer::pool::BufferPool;
use crate::buffer::prefetch::{MAX_JOIN, TOGETHER};
use crate::buffer::prefetch_policy::Prefetch;
use crate::buffer::stats::StreamStats;
use crate::error::Result;
use crate::ids::PageId;

/// Most reads that are started together. Other threads that need one of these pages wait meanwhile.
const MOST_TOGETHER: usize = 32;

/// Neighbours that will be read in one call.
#[derive(Default)]
pub(super) struct ReadRun {
    file: Option<Arc<DataFile>>,
    frames: Vec<u32>,
    last: PageId,
}

impl ReadRun {
    /// Pages in it.
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Is `page` the next block, and is there room for it?
    pub(super) fn is_continued_by(&self, page: PageId) -> bool {
        let next = self.last.block.0.checked_add(1);
        let same = self.file.as_ref().is_some_and(|file| file.id == page.file);
        same && next == Some(page.block.0) && self.frames.len() < MAX_JOIN as usize
    }

    fn push(&mut self, page: PageId, file: Arc<DataFile>, frame: u32) {
        assert!(self.frames.is_empty() || self.is_continued_by(page), "a run has no gaps");
        self.file = Some(file);
        self.frames.push(frame);
        self.last = page;
    }
}

impl BufferPool {
    /// The present policy of read streams.
    pub fn prefetch(&self) -> Prefetch {
        self.core.streams.policy.get()
    }

    /// Reads in flight that the device serves at once.
    pub fn set_device_depth(&self, depth: u32) {
        self.core.streams.set_depth(depth);
    }

    /// The depth that [`BufferPool::set_device_depth`] set.
    pub fn device_depth(&self) -> u32 {
        self.core.streams.depth()
    }

    /// Counts an insertion, which needs at most `pages` pages, until the result is dropped.
    /// Insertions that run at the same time share the device.
    pub fn begin_insertion(&self, pages: usize) -> Insertion<'_> {
        self.core.streams.insertions.begin(pages)
    }

    /// Reads that a stream of an insertion may be ahead.
    pub(super) fn insertion_share(&self) -> u32 {
        self.core.streams.insertions.share(self.frames(), self.device_depth())
    }

    /// Counters of the read streams that have ended.
    pub fn stream_stats(&self) -> StreamStats {
        self.core.streams.stats()
    }

    /// Is the page in memory, or being read? A hint: nothing keeps it there.
    pub fn is_near(&self, page: PageId) -> bool {
        self.core.table.find(&self.core.arena, page).is_some()
    }

    /// Is the page in memory? A hint: nothing keeps it there.
    pub fn is_resident(&self, page: PageId) -> bool {
        self.core.holds(page)
    }

    /// Starts to read those of `pages` that are not in memory, neighbours in one call, as far as
    /// frames are free and the device has room. Never waits and never fails: a page that is left
    /// out is read when a thread needs it.
    pub fn read_ahead(&self, pages: &mut Vec<PageId>) -> StreamStats {
        pages.sort_unstable();
        pages.dedup();
        let mut stats = StreamStats::default();
        let (mut run, mut reads) = (ReadRun::default(), Vec::new());
        for page in pages.iter().copied() {
            if !run.is_continued_by(page) {
                self.end_run(&mut run, false, &mut reads, &mut stats);
            }
            if self.room() == 0 || self.reserve_ahead(page, &mut run).is_err() {
                break;
            }
        }
        self.end_run(&mut run, false, &mut reads, &mut stats);
        self.start(&mut reads);
        self.core.streams.add(&stats);
        stats
    }

    /// How many more reads would start at once. As streams start several together, a few more than
    /// the device serves wait in its queue, so that it is busy until the next ones come.
    pub(super) fn room(&self) -> usize {
        let (depth, most) = (self.device_depth() as usize, self.core.io.depth() as usize);
        let reads = self.core.reads_in_flight.load(Ordering::Relaxed);
        (depth + depth / TOGETHER).min(most).saturating_sub(reads)
    }

    /// Adds `page` to the run unless it is near. True if it was added.
    pub(super) fn reserve_ahead(&self, page: PageId, run: &mut ReadRun) -> Result<bool> {
        if self.is_near(page) {
            return Ok(false);
        }
        let file = self.check_inside(page)?;
        let frame = self.reserve_frame(&file, page, Need::Ahead)?;
        if let Some(frame) = frame {
            run.push(page, file, frame);
        }
        Ok(frame.is_some())
    }

    /// Adds the read of the run's pages to those that will be started together; empties the run.
    /// `along`: the system's own read-ahead goes along the file before this read.
    pub(super) fn end_run(
        &self,
        run: &mut ReadRun,
        along: bool,
        reads: &mut Vec<ReadRequest>,
        stats: &mut StreamStats,
    ) {
        let frames = std::mem::take(&mut run.frames);
        let Some(file) = run.file.take() else { return };
        stats.reads += 1;
        stats.joined += frames.len() as u64 - 1;
        let opening = if along { &file.file } else { file.planned() };
        reads.push(self.read_into(&file, opening, frames));
        stats.depth_sum += (self.core.io.in_flight() + reads.len()) as u64;
        if reads.len() >= MOST_TOGETHER {
            self.start(reads);
        }
    }

    /// Starts the reads.
    pub(super) fn start(&self, reads: &mut Vec<ReadRequest>) {
        if !reads.is_empty() {
            self.core.io.submit_reads(reads.drain(..));
        }
    }
}
