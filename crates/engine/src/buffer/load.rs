//! Reads pages into frames: one read for all waiters of a page, its completion, its failure.
//!
//! Invariants:
//! - A page that is being read is in the page table, so a second reader waits for the first read
//!   (R20).
//! - The read holds a pin of its own, which keeps its memory until it has completed.
//! - A page whose read failed leaves the page table before a waiter learns of it. Each waiter gets
//!   the error, and a later pin reads again.
//! - A panic in the completion of a read poisons the instance (R19). The waiters get the error
//!   (R21), and the frames are never used again.
//! - A thread that starts or awaits a read holds no latch (R7).
//! - A logged page whose LSN is beyond the end of the log counts as damaged: redo could not tell
//!   its next change from an old one.
//!
//! Does not do: choose pages to read (`read_stream`), choose victims (`evict`).

use rightlink_aio::{Completion, File, IoError, Method, ReadRequest};
use rightlink_env::Broken;
use rightlink_env::sync::{Arc, AtomicUsize, Ordering};
use rightlink_env::{points, thread};

use crate::buffer::core::{Core, Unread};
use crate::buffer::data_file::{self, DataFile};
use crate::buffer::evict::Need;
use crate::buffer::frame::{self, Arena, FAILED, FrameRead, LOADING, UNLOGGED, VALID};
use crate::buffer::latched;
use crate::buffer::pin::{PageLookup, Pin};
use crate::buffer::pool::BufferPool;
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{Lsn, PageId};

impl Core {
    /// Pins frame `index` if it holds `page`.
    #[inline]
    pub(super) fn pin_valid(self: &Arc<Self>, index: u32, page: PageId) -> Option<Pin> {
        let frame = self.arena.frame(index);
        let before = frame.add_pin();
        if before & VALID != 0 && frame.tag() == page {
            return Some(Pin::adopt(self, index));
        }
        self.unpin(index);
        None
    }

    /// Looks for `page` and pins it.
    pub(super) fn find(self: &Arc<Self>, page: PageId) -> PageLookup {
        if let Some(index) = self.table.find(&self.arena, page)
            && let Some(pin) = self.pin_valid(index, page)
        {
            return PageLookup::Valid(pin);
        }
        let bucket = self.table.lock(page);
        let Some(index) = bucket.find(&self.arena) else {
            return PageLookup::Absent;
        };
        let before = self.arena.frame(index).add_pin();
        assert!(before & (VALID | LOADING) != 0, "a frame in the table holds its page or reads it");
        drop(bucket);
        let pin = Pin::adopt(self, index);
        if before & VALID != 0 { PageLookup::Valid(pin) } else { PageLookup::Loading(pin) }
    }

    /// Is `page` in memory? A hint: nothing keeps it there.
    pub(super) fn holds(&self, page: PageId) -> bool {
        let found = self.table.find(&self.arena, page);
        found.is_some_and(|index| self.arena.frame(index).state() & VALID != 0)
    }

    /// Waits until the page behind `pin` is read; the error of the read if it failed.
    pub(super) fn wait(&self, pin: Pin) -> std::result::Result<Pin, Unread> {
        let reading = || pin.frame().state() & LOADING != 0;
        if reading() {
            latched::assert_none();
            self.counters.waits.add(1);
            if self.io.method() == Method::Worker {
                // Worker threads complete reads, so this thread sleeps until its own read ends.
                let parking = self.arena.parking(pin.index());
                parking.sleep_while(|| pin.frame().await_read(), reading);
            }
        }
        while reading() {
            // The thread that put the page into the table may not have submitted its read yet.
            if !self.io.wait_for(|| !reading()) {
                thread::yield_now();
            }
        }
        if pin.frame().state() & VALID != 0 {
            return Ok(pin);
        }
        let failures = self.failures.lock();
        let found = failures.iter().find(|(frame, _)| *frame == pin.index());
        let unread = found.map(|(_, unread)| unread.clone());
        drop(failures);
        Err(unread.expect("a failed read leaves its error until the last pin has gone"))
    }

    fn finish(&self, index: u32, outcome: std::result::Result<(), Unread>) {
        let awaited = self.end_read(index, outcome);
        self.leave_read(index, awaited);
    }

    /// The read of frame `index` has ended. True if a thread sleeps until then.
    fn end_read(&self, index: u32, outcome: std::result::Result<(), Unread>) -> bool {
        let frame = self.arena.frame(index);
        let page = frame.tag();
        match outcome {
            Ok(()) => {
                frame.latch.set_version(self.fresh_version());
                // Before it is valid: afterwards another thread may evict the page.
                self.replacement.lock().admit(index, page);
                frame.loaded(VALID)
            }
            Err(unread) => {
                self.counters.read_errors.add(1);
                self.table.lock(page).remove(&self.arena, index);
                self.failures.lock().push((index, unread));
                frame.loaded(FAILED)
            }
        }
    }

    /// Wakes the threads that wait for frame `index` (R21), and drops the pin of the read.
    fn leave_read(&self, index: u32, awaited: bool) {
        if awaited {
            self.arena.parking(index).wake();
        }
        self.unpin(index);
    }

    /// A panic came before the read of frame `index` had ended: fails the read and wakes its
    /// waiters (R21). The frame may be half admitted to the replacement, so it keeps the read's pin
    /// for ever.
    fn abandon_read(&self, index: u32, error: Error) {
        let frame = self.arena.frame(index);
        if frame.state() & LOADING != 0 {
            let bucket = self.table.lock(frame.tag());
            if bucket.find(&self.arena) == Some(index) {
                bucket.remove(&self.arena, index);
            }
            drop(bucket);
            self.failures.lock().push((index, Unread { error, joined: false }));
            let _ = frame.loaded(FAILED);
        }
        self.arena.parking(index).wake();
    }
}

impl BufferPool {
    /// Starts to read `page`, which was not in memory. `None` if another thread was faster.
    pub(super) fn start_read(&self, page: PageId) -> Result<Option<Pin>> {
        latched::assert_none();
        let file = self.check_inside(page)?;
        let Some(index) = self.reserve_frame(&file, page, Need::Now)? else {
            return Ok(None);
        };
        self.core.arena.frame(index).add_pin();
        let pin = Pin::adopt(&self.core, index);
        self.core.io.submit_reads([self.read_into(&file, &file.file, vec![index])]);
        Ok(Some(pin))
    }

    /// A frame for `page`, in the page table and loading, with one pin: the read's.
    pub(super) fn reserve_frame(
        &self,
        file: &DataFile,
        page: PageId,
        need: Need,
    ) -> Result<Option<u32>> {
        let index = self.claim(need)?;
        let bucket = self.core.table.lock(page);
        if bucket.find(&self.core.arena).is_some() && !points::broken(Broken::PageReadIntoTwoFrames)
        {
            drop(bucket);
            self.core.replacement.lock().release(index);
            return Ok(None);
        }
        let flags = LOADING | if file.logged { 0 } else { UNLOGGED };
        self.core.arena.frame(index).adopt(page, flags);
        bucket.insert(&self.core.arena, index);
        Ok(Some(index))
    }

    /// The read of neighbouring pages, by an opening of the file, into `frames`, which are loading.
    /// The caller submits it before it waits for anything.
    pub(super) fn read_into(
        &self,
        file: &Arc<DataFile>,
        opening: &File,
        frames: Vec<u32>,
    ) -> ReadRequest {
        let first = self.core.arena.frame(frames[0]).tag();
        let core = Arc::clone(&self.core);
        core.counters.reads.add(frames.len() as u64);
        core.counters.read_calls.add(1);
        core.reads_in_flight.fetch_add(1, Ordering::AcqRel);
        points::hit("buffer.read.submit");
        // Loaded pages were written before, so their records had been appended.
        let log_end = self.wal.end();
        let (file_read, ended) = (Arc::clone(file), AtomicUsize::new(0));
        let target = Arc::new(ReadOp { core, file: file_read, frames, log_end, ended });
        let offset = data_file::offset(first.block);
        frame::read(opening, offset, target)
    }

    /// A zeroed frame for `page`, pinned. `None` if another thread was faster. `is_new` is called
    /// while no other thread can read the page in. If it says that the page was written, it is
    /// read.
    pub(super) fn adopt_zeroed(
        &self,
        page: PageId,
        is_new: &dyn Fn() -> bool,
    ) -> Result<Option<Pin>> {
        let file = self.check_inside(page)?;
        let Some(index) = self.reserve_frame(&file, page, Need::Now)? else {
            return Ok(None);
        };
        self.core.arena.frame(index).add_pin();
        let pin = Pin::adopt(&self.core, index);
        if !is_new() {
            self.core.io.submit_reads([self.read_into(&file, &file.file, vec![index])]);
            return self.core.wait(pin).map(Some).map_err(|unread| unread.error);
        }
        self.core.arena.clear(index, 0);
        self.core.finish(index, Ok(()));
        Ok(Some(pin))
    }
}

/// A read in flight.
struct ReadOp {
    core: Arc<Core>,
    file: Arc<DataFile>,
    frames: Vec<u32>,
    log_end: Lsn,
    /// How many of `frames`, from the first on, are completed.
    ended: AtomicUsize,
}

impl ReadOp {
    /// The outcome for page `place` of the read, after `bytes` of all were read.
    fn outcome(&self, place: usize, bytes: usize) -> Result<()> {
        let index = self.frames[place];
        let page = self.core.arena.frame(index).tag();
        let have = bytes.saturating_sub(place * PAGE_SIZE).min(PAGE_SIZE);
        if have < PAGE_SIZE && page.block.0 >= self.file.blocks() {
            return Err(self.corrupt(page, "a page beyond the end of the file".to_string()));
        }
        if have < PAGE_SIZE {
            self.core.arena.clear(index, have);
        }
        let log_end = self.file.logged.then_some(self.log_end);
        let verified = self.core.arena.verify_loaded(index, log_end);
        verified.map_err(|what| self.corrupt(page, what))
    }

    fn corrupt(&self, page: PageId, what: String) -> Error {
        let (file, block) = (self.file.name().to_string(), Some(page.block.0));
        Error::Corruption { relation: None, file, block, what }
    }
}

impl FrameRead for ReadOp {
    fn arena(&self) -> &Arena {
        &self.core.arena
    }

    fn frames(&self) -> &[u32] {
        &self.frames
    }
}

impl Completion for ReadOp {
    fn complete(&self, _tag: u64, result: std::result::Result<usize, IoError>) {
        points::hit("buffer.read.complete");
        let joined = self.frames.len() > 1;
        for (place, &index) in self.frames.iter().enumerate() {
            points::hit("buffer.read.page");
            let outcome = match &result {
                Ok(bytes) => {
                    self.outcome(place, *bytes).map_err(|error| Unread { error, joined: false })
                }
                Err(error) => Err(Unread { error: data_file::io_error(error.clone()), joined }),
            };
            let awaited = self.core.end_read(index, outcome);
            self.ended.store(place + 1, Ordering::Release);
            self.core.leave_read(index, awaited);
        }
        // Last, so that a panic comes before it and `panicked` counts.
        self.core.reads_in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    fn panicked(&self, _tag: u64, message: &str) {
        let why = format!("a panic ended a read of {}: {message}", self.file.name());
        self.core.poison(&why);
        if !points::broken(Broken::PanickedReadNotReported) {
            for &index in &self.frames[self.ended.load(Ordering::Acquire)..] {
                self.core.abandon_read(index, Error::Poisoned(why.clone()));
            }
        }
        self.core.reads_in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}
