//! Writing dirty pages home, in groups.
//!
//! A group is copied under the latches of its pages (R2). The log is flushed up to the largest LSN
//! of the copies, which are then checksummed, made durable in the double-write area and written
//! home. Frames whose pages have not changed since become clean.
//!
//! Invariants:
//! - The log is durable up to the LSN of a page before its copy leaves memory (R13).
//! - A change that could not be logged stays in memory (R13). Its thread takes it back, or poisons
//!   the pool, before it unlatches the page, and the pool is checked after the last copy.
//! - A frame becomes clean only after its write has completed (R20). Its file is noted as unsynced
//!   before that, so a checkpoint that sees the clean frame syncs the file.
//! - A failed home write leaves the page dirty, and its copy in the double-write area (R15).
//! - A failed sync poisons the instance, and so does a panic in a completion (R19).
//! - One group is written at a time, in the order of the callers. So a thread that needs a frame
//!   waits for one group, however many are due.
//!
//! Does not do: choose the time (the checkpoint, the cleaner, or a thread that needs a frame does).

use rightlink_aio::{AlignedBuf, Completion, IoError};
use rightlink_env::Broken;
use rightlink_env::sync::{Arc, AtomicUsize, Mutex, Ordering};
use rightlink_env::{points, thread};

use crate::buffer::data_file::{self, DataFile};
use crate::buffer::double_write::{DoubleWrite, HomeSync};
use crate::buffer::frame::{self, CopyWrite, DIRTY, Frame, Home};
use crate::buffer::latched;
use crate::buffer::pin::{PageLookup, Pin, SharedPage};
use crate::buffer::pool::BufferPool;
use crate::buffer::replacement::Leaving;
use crate::buffer::write_plan::{WriteBack, dirty_pages};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, Lsn, PageId};
use crate::page::{checksum, header};

/// Most neighbours that one call writes.
const MAX_RUN: usize = 32;
/// Writes take one in so many of the operations that the device serves at once, while threads read.
const WRITE_SHARE: usize = 8;

impl BufferPool {
    /// Write-back step: writes up to one double-write group of dirty pages first dirtied before
    /// `below`; returns how many it wrote, 0 when there are none left.
    pub fn write_back(&self, below: Lsn) -> Result<usize> {
        latched::assert_none();
        let mut state = self.write_back.lock();
        self.check_sound()?;
        loop {
            let pages = state.next_group(&self.core, below);
            if pages.is_empty() {
                return Ok(0);
            }
            let written = self.write_group(&mut state, &pages, Busy::Wait)?;
            if written > 0 {
                return Ok(written);
            }
        }
    }

    /// Write-back ahead of eviction: writes a group of the dirty pages that leave next, once so
    /// many are dirty that a search for a frame might soon find none clean. Returns how many it
    /// wrote, 0 if too few are dirty.
    pub fn clean_ahead(&self) -> Result<usize> {
        latched::assert_none();
        let mut state = self.write_back.lock();
        let window = (2 * state.group).max(self.frames() / 8);
        let pages = self.leaving(window, state.group, Leaving::Soon);
        if pages.len() < state.group.div_ceil(2) {
            return Ok(0);
        }
        self.write_leaving(&mut state, &pages)
    }

    /// Waits for the group that is being written, if there is one.
    pub fn wait_for_group(&self) {
        latched::assert_none();
        drop(self.write_back.lock());
    }

    /// Makes homes durable before their slots of the double-write area are needed. Groups are
    /// written meanwhile; without this one of them would sync the homes, while a thread that needs
    /// a frame waits. Returns whether there was anything to do.
    pub fn sync_homes(&self) -> Result<bool> {
        latched::assert_none();
        self.check_sound()?;
        let begun = match &mut self.write_back.lock().area {
            Some(area) => area.begin_sync(),
            None => Ok(None),
        };
        let begun = begun.map_err(|error| self.fatal_if_sync("double-write", error))?;
        let Some(HomeSync { through, files }) = begun else {
            return Ok(false);
        };
        if !points::broken(Broken::HomesNotSynced) {
            files.iter().try_for_each(|home| self.sync_home(home))?;
        }
        if let Some(area) = &mut self.write_back.lock().area {
            area.end_sync(through);
        }
        Ok(true)
    }

    /// Writes a group because the caller needs a frame and found none clean. Writes nothing if
    /// another thread wrote pages that leave next while this one waited for the lock.
    pub(super) fn clean_for_eviction(&self) -> Result<usize> {
        latched::assert_none();
        points::hit("buffer.evict.write-back");
        let before = self.made_room.load(Ordering::Acquire);
        let mut state = self.write_back.lock();
        if self.made_room.load(Ordering::Acquire) != before {
            return Ok(1);
        }
        self.core.counters.foreground_groups.add(1);
        let pages = self.leaving(self.frames(), state.group, Leaving::Ever);
        self.write_leaving(&mut state, &pages)
    }

    /// Writes `pages`, which leave next. If that fails they leave last, so that others are written.
    fn write_leaving(&self, state: &mut WriteBack, pages: &[PageId]) -> Result<usize> {
        let written = self.write_group(state, pages, Busy::Skip);
        match written {
            Ok(0) => {}
            Ok(_) => {
                self.made_room.fetch_add(1, Ordering::AcqRel);
            }
            Err(_) => self.core.replacement.lock().postpone(&self.core.arena, pages),
        }
        written
    }

    /// Up to `limit` dirty pages among the `window` frames that leave next, in file order.
    fn leaving(&self, window: usize, limit: usize, when: Leaving) -> Vec<PageId> {
        let replacement = self.core.replacement.lock();
        let frames = replacement.dirty_candidates(&self.core.arena, window, limit, when);
        drop(replacement);
        let mut pages: Vec<_> = frames.iter().map(|&i| self.core.arena.frame(i).tag()).collect();
        pages.sort_unstable();
        pages
    }

    /// Writes and syncs every dirty page of one file (bulk builds, before the publishing record).
    pub fn sync_file(&self, file: FileId) -> Result<()> {
        let open = self.core.files.expect(file)?;
        self.write_all(|frame| frame.tag().file == file)?;
        self.sync_home(&open)
    }

    /// Empties the double-write area at a clean close, when everything is durable and writing has
    /// stopped. The next opening has nothing to recover from it.
    pub fn retire_area(&self) -> Result<()> {
        let mut state = self.write_back.lock();
        let retired = state.area.as_mut().map_or(Ok(()), DoubleWrite::retire);
        retired.map_err(|error| self.fatal_if_sync("double-write", error))
    }

    /// Makes durable all pages written home so far. A checkpoint takes the redo horizon before this
    /// call, and uses it only afterwards (R13).
    pub fn sync_all(&self) -> Result<()> {
        self.core
            .files
            .sync_names()
            .map_err(|error| self.fatal("sync of data directory", error))?;
        self.core.files.all().iter().try_for_each(|file| self.sync_home(file))
    }

    /// Writes every page that is dirty now, and makes it durable: for a clean end.
    pub fn flush_all(&self) -> Result<()> {
        self.write_all(|_| true)?;
        self.sync_all()
    }

    /// Writes all wanted pages. Unlocks between two groups, since another thread may need a frame.
    fn write_all(&self, wanted: impl Fn(&Frame) -> bool) -> Result<()> {
        latched::assert_none();
        let most = self.write_back.lock().group;
        for group in dirty_pages(&self.core, wanted).chunks(most) {
            self.write_group(&mut self.write_back.lock(), group, Busy::Wait)?;
        }
        Ok(())
    }

    fn sync_home(&self, file: &DataFile) -> Result<()> {
        points::hit("buffer.sync-home");
        file.sync().map_err(|error| self.fatal("sync of a data file", error))
    }

    /// Poisons the instance, because the state of files or log is unknown (R19).
    pub(super) fn fatal(&self, what: &str, error: Error) -> Error {
        let why = format!("{what} failed: {error}");
        self.poison(&why);
        Error::Poisoned(why)
    }

    /// As [`BufferPool::fatal`] if a sync failed; other errors leave the files as before.
    pub(super) fn fatal_if_sync(&self, what: &str, error: Error) -> Error {
        match &error {
            Error::Io(io) if io.op.starts_with("sync") => self.fatal(what, error),
            _ => error,
        }
    }

    /// From now on this instance accepts no change and writes nothing (R19).
    pub(super) fn poison(&self, why: &str) {
        self.core.poison(why);
    }

    fn check_sound(&self) -> Result<()> {
        match self.core.poisoned.load(Ordering::SeqCst) {
            true => Err(Error::Poisoned("write-back has stopped".to_string())),
            false => Ok(()),
        }
    }

    /// Writes `pages` (in file order, those that are still dirty) home.
    fn write_group(&self, state: &mut WriteBack, pages: &[PageId], busy: Busy) -> Result<usize> {
        assert!(pages.len() <= state.group && pages.is_sorted(), "a group in file order");
        self.check_sound()?;
        let mut group = WriteGroup::new(state.spare.take(), state.group, pages.len());
        for page in pages {
            self.copy(&mut group, *page, busy)?;
        }
        // R13: a thread that could not log a store took it back, or poisoned the pool, before it
        // unlatched the page. If the pool is sound now, the log has every copied change.
        if !points::broken(Broken::UnloggedChangeWritten) {
            self.check_sound()?;
        }
        if group.copies.is_empty() {
            state.spare = Some(group.bytes);
            return Ok(0);
        }
        points::hit("buffer.writeback.copied");
        // R13: the log comes before the data.
        if !points::broken(Broken::DataBeforeLog) && group.lsn > self.wal.durable() {
            self.wal.flush(group.lsn)?;
        }
        group.stamp();
        self.write_area(state, &mut group)?;
        points::hit("buffer.writeback.after-doublewrite");
        let written = self.write_homes(state, group);
        points::hit("buffer.writeback.after-homes");
        written
    }

    /// Copies one page under its latch (R2), if it is dirty and can be latched as `busy` says.
    fn copy(&self, group: &mut WriteGroup, page: PageId, busy: Busy) -> Result<()> {
        let (PageLookup::Valid(pin), Some(file)) =
            (self.core.find(page), self.core.files.get(page.file))
        else {
            return Ok(());
        };
        points::hit("buffer.writeback.before-copy");
        let latch = match busy {
            Busy::Wait => Some(pin.shared()),
            Busy::Skip => pin.try_shared(),
        };
        let Some(latch) = latch.filter(|_| pin.frame().state() & DIRTY != 0) else {
            return Ok(());
        };
        // Under the latch: later changes of the page are logged at or above this position.
        let end = self.wal.end();
        group.add(&latch, file.logged);
        let version = latch.version();
        drop(latch);
        group.copies.push(PageCopy { pin, page, version, end, file });
        Ok(())
    }

    fn write_area(&self, state: &mut WriteBack, group: &mut WriteGroup) -> Result<()> {
        let Some(area) = &mut state.area else {
            return Ok(());
        };
        if points::broken(Broken::NoDoubleWrite)
            || group.copies.iter().all(|copy| !copy.file.logged)
        {
            return Ok(());
        }
        let pages: Vec<_> = group.copies.iter().map(|copy| copy.page).collect();
        self.core.counters.double_write_bytes.add(((1 + pages.len()) * PAGE_SIZE) as u64);
        group.in_area = true;
        area.write(&mut group.bytes, &pages, |home| self.sync_home(home))
            .map_err(|error| self.fatal_if_sync("double-write", error))
    }

    fn write_homes(&self, state: &mut WriteBack, group: WriteGroup) -> Result<usize> {
        let WriteGroup { bytes, copies, in_area, .. } = group;
        let runs = runs(&copies);
        let left = AtomicUsize::new(runs.len());
        let (failed, panicked) = (Mutex::default(), Mutex::default());
        let op = WriteOp { bytes: Arc::new(bytes), left, failed, panicked };
        let op = Arc::new(op);
        self.core.counters.groups.add(1);
        self.core.counters.write_calls.add(runs.len() as u64);
        for (number, run) in runs.iter().enumerate() {
            self.wait_for_depth(number, || runs.len() - op.left.load(Ordering::Acquire));
            self.submit_run(&op, number, run, &copies);
        }
        while !self.core.io.wait_for(|| op.left.load(Ordering::Acquire) == 0) {
            thread::yield_now();
        }
        if let Some(area) = state.area.as_mut().filter(|_| in_area) {
            let mut files: Vec<_> = copies.iter().map(|copy| Arc::clone(&copy.file)).collect();
            files.dedup_by_key(|file| file.id);
            area.remember_homes(files);
        }
        let written = self.finish(&op, &runs, &copies, state.area.as_mut().filter(|_| in_area));
        state.spare = Arc::into_inner(op).and_then(|op| Arc::into_inner(op.bytes));
        written
    }

    /// Waits until one more write may be submitted after `submitted` others. As many as the device
    /// serves are in flight, and only a few while threads read.
    fn wait_for_depth(&self, submitted: usize, done: impl Fn() -> usize) {
        let depth = self.device_depth() as usize;
        let reading = || self.core.reads_in_flight.load(Ordering::Relaxed) > 0;
        let most = || if reading() { (depth / WRITE_SHARE).max(1) } else { depth };
        while !self.core.io.wait_for(|| submitted - done() < most()) {
            thread::yield_now();
        }
    }

    fn submit_run(&self, op: &Arc<WriteOp>, number: usize, run: &WriteRun, copies: &[PageCopy]) {
        let first = &copies[run.first];
        let at = (1 + run.first) * PAGE_SIZE;
        let range = at..at + run.len * PAGE_SIZE;
        let home = Home { file: &first.file.file, offset: data_file::offset(first.page.block) };
        frame::submit_write(&self.core.io, home, range, Arc::clone(op), number as u64);
    }

    /// Marks the written pages clean. Returns the first error if a write failed.
    fn finish(
        &self,
        op: &WriteOp,
        runs: &[WriteRun],
        copies: &[PageCopy],
        mut area: Option<&mut DoubleWrite>,
    ) -> Result<usize> {
        if let Some(message) = op.panicked.lock().take() {
            // The results of the writes may be incomplete (R19).
            let why = format!("a panic ended a write of pages: {message}");
            self.poison(&why);
            return Err(Error::Poisoned(why));
        }
        let failed = op.failed.lock();
        let mut written = 0;
        for (number, run) in runs.iter().enumerate() {
            let pages = &copies[run.first..run.first + run.len];
            // A failed write may have changed the file, too.
            pages[0].file.written();
            let well = failed.iter().all(|(tag, _)| *tag != number as u64);
            if well {
                pages.iter().for_each(|copy| self.finish_page(copy));
                written += run.len;
            }
            if let Some(area) = &mut area {
                report_homes(area, run, copies, well);
            }
        }
        self.core.counters.written.add(written as u64);
        match failed.first() {
            Some((_, error)) => Err(data_file::io_error(error.clone())),
            None => Ok(written),
        }
    }

    fn finish_page(&self, copy: &PageCopy) {
        // Under the latch no thread makes the page dirty between the check and the mark (R20).
        let latch = copy.pin.shared();
        if latch.version() == copy.version || points::broken(Broken::ChangedPageMarkedClean) {
            self.core.mark_clean(copy.pin.frame());
        } else {
            copy.pin.frame().raise_rec_lsn(copy.end);
            self.core.counters.dirtied.add(1);
        }
    }
}

/// How a group treats pages that are latched exclusively.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Busy {
    /// It waits for the latch.
    Wait,
    /// It leaves them out.
    Skip,
}

/// One page of a group.
struct PageCopy {
    pin: Pin,
    page: PageId,
    version: u64,
    /// End of the log when the page was copied.
    end: Lsn,
    file: Arc<DataFile>,
}

/// Private copies that are written, behind room for the head of the double-write area.
struct WriteGroup {
    bytes: AlignedBuf,
    copies: Vec<PageCopy>,
    /// The log must be durable up to here.
    lsn: Lsn,
    /// The double-write area has copies.
    in_area: bool,
}

impl WriteGroup {
    /// A group of up to `pages` pages, in memory of an earlier one if there is some.
    fn new(spare: Option<AlignedBuf>, most: usize, pages: usize) -> WriteGroup {
        assert!(pages <= most, "all groups have equal room");
        let bytes = spare.unwrap_or_else(|| AlignedBuf::zeroed((1 + most) * PAGE_SIZE));
        WriteGroup { bytes, copies: Vec::with_capacity(pages), lsn: Lsn(0), in_area: false }
    }

    fn place(number: usize) -> std::ops::Range<usize> {
        (1 + number) * PAGE_SIZE..(2 + number) * PAGE_SIZE
    }

    fn add(&mut self, latch: &SharedPage<'_>, logged: bool) {
        self.bytes[WriteGroup::place(self.copies.len())].copy_from_slice(latch.bytes());
        if logged {
            self.lsn = self.lsn.max(header::lsn(latch.bytes()));
        }
    }

    fn stamp(&mut self) {
        for (number, copy) in self.copies.iter().enumerate() {
            let bytes = &mut self.bytes[WriteGroup::place(number)];
            let bytes: &mut [u8; PAGE_SIZE] = bytes.try_into().expect("a place holds a page");
            if !header::is_zero(bytes) {
                checksum::stamp(copy.page, bytes);
                if points::broken(Broken::PageCopiedAfterChecksum) {
                    bytes[4..].copy_from_slice(&copy.pin.shared().bytes()[4..]);
                }
            }
        }
    }
}

/// Tells the area whether the homes of a run were written. Files that are not logged are left out:
/// a crash empties them.
fn report_homes(area: &mut DoubleWrite, run: &WriteRun, copies: &[PageCopy], well: bool) {
    for (number, copy) in copies.iter().enumerate().skip(run.first).take(run.len) {
        let PageCopy { page, file, .. } = copy;
        if well {
            area.note_whole(*page);
        } else if file.logged {
            area.note_torn(*page, number, file);
        }
    }
}

/// Neighbours that are written in one call.
struct WriteRun {
    first: usize,
    len: usize,
}

fn runs(copies: &[PageCopy]) -> Vec<WriteRun> {
    let mut runs: Vec<WriteRun> = Vec::new();
    for (number, copy) in copies.iter().enumerate() {
        let follows = |run: &&mut WriteRun| {
            let last = copies[run.first + run.len - 1].page;
            let next = last.block.0.checked_add(1);
            run.len < MAX_RUN && last.file == copy.page.file && next == Some(copy.page.block.0)
        };
        match runs.last_mut().filter(follows) {
            Some(run) => run.len += 1,
            None => runs.push(WriteRun { first: number, len: 1 }),
        }
    }
    runs
}

/// The home writes of a group.
struct WriteOp {
    bytes: Arc<AlignedBuf>,
    left: AtomicUsize,
    failed: Mutex<Vec<(u64, IoError)>>,
    /// Message of a completion that panicked.
    panicked: Mutex<Option<String>>,
}

impl CopyWrite for WriteOp {
    fn copy(&self) -> &Arc<AlignedBuf> {
        &self.bytes
    }
}

impl Completion for WriteOp {
    fn complete(&self, tag: u64, result: std::result::Result<usize, IoError>) {
        points::hit("buffer.writeback.complete");
        if let Err(error) = result {
            self.failed.lock().push((tag, error));
        }
        // Last, so that a panic comes before it and `panicked` counts (R21).
        self.left.fetch_sub(1, Ordering::AcqRel);
    }

    fn panicked(&self, _tag: u64, message: &str) {
        self.panicked.lock().get_or_insert_with(|| message.to_string());
        // R21: the write-back that waits for this write goes on.
        if !points::broken(Broken::PanickedWriteNotCounted) {
            self.left.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
