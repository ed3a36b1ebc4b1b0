//! Writing dirty pages home, in groups.
//!
//! A group goes through these steps: copy the pages under their latches (R2), make the log durable
//! up to the greatest LSN among the copies, checksum the copies, make them durable in the
//! double-write area, write them home (neighbours in one call, all calls in flight together), and
//! then mark those frames clean whose page has not changed since it was copied.
//!
//! Invariants:
//! - WAL before data: the log is durable up to the LSN of a page before its copy leaves memory.
//! - A change that could not be logged stays in memory: whoever made it has taken it back, or
//!   poisoned the pool, before he unlatches the page; the pool is sound after the last copy.
//! - A frame becomes clean only after its write has completed, and its file is marked as unsynced
//!   before that: a checkpoint that sees the clean frame syncs the file.
//! - A failed home write leaves the page dirty and is reported; the double-write area keeps a copy
//!   of what it may have torn. A failed sync poisons the instance, and so does a panic in the
//!   completion of a write.
//! - One group at a time, in the order in which they are asked for: who needs a frame waits for one
//!   group, however many others are to be written. The homes of several may be unsynced
//!   (`double_write`).
//!
//! Does not do: decide when (the caller does: checkpoint, cleaner, or whoever needs a frame).

use rightlink_aio::{AlignedBuf, Completion, IoError};
use rightlink_env::sync::{Arc, AtomicUsize, Mutex, Ordering};
use rightlink_env::{points, thread};

use crate::buffer::data_file::{self, DataFile};
use crate::buffer::double_write::{self, DoubleWrite};
use crate::buffer::frame::{self, CopyWrite, DIRTY, Frame, VALID};
use crate::buffer::latched;
use crate::buffer::load::Found;
use crate::buffer::pin::{Pin, Shared};
use crate::buffer::pool::{BufferPool, Core};
use crate::buffer::replacement::Leaving;
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, Lsn, PageId};
use crate::page::{checksum, header};

/// Group size where the device writes pages atomically.
const DEFAULT_GROUP: usize = 64;
/// Most neighbours that one call writes.
const MAX_RUN: usize = 32;
/// Of what the device serves at once, the part that writes take while somebody reads.
const WRITE_SHARE: usize = 8;

/// State of the write-back, behind a lock that is held for a group.
#[derive(Debug)]
pub(super) struct WriteBack {
    group: usize,
    area: Option<DoubleWrite>,
    /// Memory of the group before.
    spare: Option<AlignedBuf>,
    /// Pages still to be written for `plan_below`, the last one next.
    plan: Vec<PageId>,
    plan_below: Lsn,
}

impl WriteBack {
    /// Bytes that a plan needs for each frame.
    pub(super) const BYTES_PER_FRAME: usize = size_of::<PageId>();

    /// Pages of a group: an eighth of a small pool, a quarter of a tiny one.
    pub(super) fn group_pages(frames: usize, double_write_pages: usize) -> usize {
        let wanted = if double_write_pages == 0 { DEFAULT_GROUP } else { double_write_pages };
        wanted.min((frames / 8).max(4)).min(frames / 4).clamp(1, double_write::MAX_PAGES)
    }

    pub(super) fn new(group: usize, area: Option<DoubleWrite>) -> WriteBack {
        WriteBack { group, area, spare: None, plan: Vec::new(), plan_below: Lsn(0) }
    }

    /// The pages of `file` at and above `blocks` are gone.
    pub(super) fn forget(&mut self, file: FileId, blocks: u32) {
        self.plan.clear();
        if let Some(area) = &mut self.area {
            area.forget(file, blocks);
        }
    }

    /// The next pages that were first dirtied before `below`, in file order.
    fn next_group(&mut self, core: &Core, below: Lsn) -> Vec<PageId> {
        if self.plan.is_empty() || self.plan_below != below {
            self.plan = dirty_pages(core, |frame| below == LATEST || frame.rec_lsn() < below.0);
            self.plan.reverse();
            self.plan_below = below;
        }
        let keep = self.plan.len().saturating_sub(self.group);
        let mut pages = self.plan.split_off(keep);
        pages.reverse();
        pages
    }
}

/// Every dirty page, whatever redo needs.
const LATEST: Lsn = Lsn(u64::MAX);

/// The dirty pages that `wanted` lets through, in file order.
fn dirty_pages(core: &Core, wanted: impl Fn(&Frame) -> bool) -> Vec<PageId> {
    let dirty = |frame: &&Frame| {
        let state = frame.state();
        state & VALID != 0 && state & DIRTY != 0 && wanted(frame)
    };
    let mut pages: Vec<_> = core.arena.frames().iter().filter(dirty).map(Frame::tag).collect();
    pages.sort_unstable();
    pages
}

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
            let written = self.write_group(&mut state, &pages, Taste::All)?;
            if written > 0 {
                return Ok(written);
            }
        }
    }

    /// Write-back ahead of eviction: writes a group of the dirty pages that leave next, once there
    /// are enough of them that somebody who needs a frame might soon find none clean. Returns how
    /// many it wrote, 0 if it is not time.
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

    /// Makes homes durable whose place in the double-write area is wanted soon, beside the groups
    /// that are written meanwhile: else one of these would have to, and who needs a frame would
    /// wait for it. False if it is not time.
    pub fn settle_homes(&self) -> Result<bool> {
        latched::assert_none();
        self.check_sound()?;
        let begun = match &mut self.write_back.lock().area {
            Some(area) => area.begin_settling(),
            None => Ok(None),
        };
        let begun = begun.map_err(|error| self.fatal_if_sync("double-write", error))?;
        let Some((through, files)) = begun else {
            return Ok(false);
        };
        if !points::broken("homes-not-synced") {
            files.iter().try_for_each(|home| self.sync_home(home))?;
        }
        if let Some(area) = &mut self.write_back.lock().area {
            area.settled(through);
        }
        Ok(true)
    }

    /// Writes a group because somebody needs a frame and found none clean; unless one of what
    /// leaves next was written while this waited for its turn.
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

    /// Writes `pages`, which were to leave next; if that fails, others are.
    fn write_leaving(&self, state: &mut WriteBack, pages: &[PageId]) -> Result<usize> {
        let written = self.write_group(state, pages, Taste::Free);
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
        let frames = replacement.dirty_candidates(&self.core.arena, (window, limit), when);
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

    /// Everything is durable and nobody writes any more (a clean close): the double-write area need
    /// not be looked at by the next opening.
    pub fn retire_area(&self) -> Result<()> {
        let mut state = self.write_back.lock();
        let retired = state.area.as_mut().map_or(Ok(()), DoubleWrite::retire);
        retired.map_err(|error| self.fatal_if_sync("double-write", error))
    }

    /// Makes durable what has been written home so far. A checkpoint takes the redo horizon first,
    /// and relies on it only after this.
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

    /// Others have their turn between two groups: this may be all of a large index, and somebody
    /// may need a frame.
    fn write_all(&self, wanted: impl Fn(&Frame) -> bool) -> Result<()> {
        latched::assert_none();
        let most = self.write_back.lock().group;
        for group in dirty_pages(&self.core, wanted).chunks(most) {
            self.write_group(&mut self.write_back.lock(), group, Taste::All)?;
        }
        Ok(())
    }

    fn sync_home(&self, file: &DataFile) -> Result<()> {
        points::hit("buffer.sync-home");
        file.sync().map_err(|error| self.fatal("sync of a data file", error))
    }

    /// The state of files or log is unknown: this instance writes nothing any more.
    pub(super) fn fatal(&self, what: &str, error: Error) -> Error {
        let why = format!("{what} failed: {error}");
        self.poison(&why);
        Error::Poisoned(why)
    }

    /// As [`BufferPool::fatal`] if a sync failed; other errors leave what was there before.
    pub(super) fn fatal_if_sync(&self, what: &str, error: Error) -> Error {
        match &error {
            Error::Io(io) if io.op.starts_with("sync") => self.fatal(what, error),
            _ => error,
        }
    }

    /// This instance writes nothing any more.
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
    fn write_group(&self, state: &mut WriteBack, pages: &[PageId], taste: Taste) -> Result<usize> {
        assert!(pages.len() <= state.group && pages.is_sorted(), "a group in file order");
        self.check_sound()?;
        let mut group = Group::new(state.spare.take(), state.group, pages.len());
        for page in pages {
            self.copy(&mut group, *page, taste)?;
        }
        // Whoever could not log a store has taken it back or poisoned the pool before he let go of
        // the page: if the pool is sound now, the log has what was copied.
        if !points::broken("copies-though-poisoned") {
            self.check_sound()?;
        }
        if group.copies.is_empty() {
            state.spare = Some(group.bytes);
            return Ok(0);
        }
        points::hit("buffer.writeback.copied");
        if !points::broken("wal-before-data") && group.lsn > self.wal.durable() {
            self.wal.flush(group.lsn)?;
        }
        group.stamp();
        self.write_area(state, &mut group)?;
        points::hit("buffer.writeback.after-doublewrite");
        let written = self.write_homes(state, group);
        points::hit("buffer.writeback.after-homes");
        written
    }

    /// Copies one page under its latch, if it is dirty and to the caller's taste.
    fn copy(&self, group: &mut Group, page: PageId, taste: Taste) -> Result<()> {
        let (Found::Valid(pin), Some(file)) =
            (self.core.find(page), self.core.files.get(page.file))
        else {
            return Ok(());
        };
        points::hit("buffer.writeback.before-copy");
        let latch = match taste {
            Taste::All => Some(pin.shared()),
            Taste::Free => pin.try_shared(),
        };
        let Some(latch) = latch.filter(|_| pin.frame().state() & DIRTY != 0) else {
            return Ok(());
        };
        // Under the latch: what is changed later is logged at or above this.
        let end = self.wal.end();
        group.add(&latch, file.logged);
        let version = latch.version();
        drop(latch);
        group.copies.push(Copy { pin, page, version, end, file });
        Ok(())
    }

    fn write_area(&self, state: &mut WriteBack, group: &mut Group) -> Result<()> {
        let Some(area) = &mut state.area else {
            return Ok(());
        };
        if points::broken("no-double-write") || group.copies.iter().all(|copy| !copy.file.logged) {
            return Ok(());
        }
        let pages: Vec<_> = group.copies.iter().map(|copy| copy.page).collect();
        self.core.counters.double_write_bytes.add(((1 + pages.len()) * PAGE_SIZE) as u64);
        group.in_area = true;
        area.write(&mut group.bytes, &pages, |home| self.sync_home(home))
            .map_err(|error| self.fatal_if_sync("double-write", error))
    }

    fn write_homes(&self, state: &mut WriteBack, group: Group) -> Result<usize> {
        let Group { bytes, copies, in_area, .. } = group;
        let runs = runs(&copies);
        let left = AtomicUsize::new(runs.len());
        let (failed, panicked) = (Mutex::default(), Mutex::default());
        let op = WriteOp { bytes: Arc::new(bytes), left, failed, panicked };
        let op = Arc::new(op);
        self.core.counters.groups.add(1);
        self.core.counters.write_calls.add(runs.len() as u64);
        for (number, run) in runs.iter().enumerate() {
            self.wait_for_turn(number, || runs.len() - op.left.load(Ordering::Acquire));
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

    /// Waits until one more write may be on its way after `submitted` others: as many as the device
    /// serves, but a few only as long as somebody reads.
    fn wait_for_turn(&self, submitted: usize, done: impl Fn() -> usize) {
        let depth = self.device_depth() as usize;
        let reading = || self.core.reads_in_flight.load(Ordering::Relaxed) > 0;
        let most = || if reading() { (depth / WRITE_SHARE).max(1) } else { depth };
        while !self.core.io.wait_for(|| submitted - done() < most()) {
            thread::yield_now();
        }
    }

    fn submit_run(&self, op: &Arc<WriteOp>, number: usize, run: &Run, copies: &[Copy]) {
        let first = &copies[run.first];
        let at = (1 + run.first) * PAGE_SIZE;
        let range = at..at + run.len * PAGE_SIZE;
        let place = (&first.file.file, data_file::offset(first.page.block));
        frame::submit_write(&self.core.io, place, range, Arc::clone(op), number as u64);
    }

    /// Marks clean what has been written; the first error, if a write failed.
    fn finish(
        &self,
        op: &WriteOp,
        runs: &[Run],
        copies: &[Copy],
        mut area: Option<&mut DoubleWrite>,
    ) -> Result<usize> {
        if let Some(message) = op.panicked.lock().take() {
            // What was noted of the writes may be half of it.
            let why = format!("a panic ended a write of pages: {message}");
            self.poison(&why);
            return Err(Error::Poisoned(why));
        }
        let failed = op.failed.lock();
        let mut written = 0;
        for (number, run) in runs.iter().enumerate() {
            let pages = &copies[run.first..run.first + run.len];
            // Also a failed write may have changed something.
            pages[0].file.written();
            let well = failed.iter().all(|(tag, _)| *tag != number as u64);
            if well {
                pages.iter().for_each(|copy| self.finish_page(copy));
                written += run.len;
            }
            if let Some(area) = &mut area {
                tell(area, run, copies, well);
            }
        }
        self.core.counters.written.add(written as u64);
        match failed.first() {
            Some((_, error)) => Err(data_file::io_error(error.clone())),
            None => Ok(written),
        }
    }

    fn finish_page(&self, copy: &Copy) {
        // The latch keeps everybody from making the page dirty between the look and the mark.
        let latch = copy.pin.shared();
        if latch.version() == copy.version || points::broken("clean-though-changed") {
            self.core.mark_clean(copy.pin.frame());
        } else {
            copy.pin.frame().raise_rec_lsn(copy.end);
            self.core.counters.dirtied.add(1);
        }
    }
}

/// Which dirty pages a group takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taste {
    /// All: waits for those that somebody has latched exclusively.
    All,
    /// Those that nobody has latched exclusively.
    Free,
}

/// One page of a group.
struct Copy {
    pin: Pin,
    page: PageId,
    version: u64,
    /// End of the log when the page was copied.
    end: Lsn,
    file: Arc<DataFile>,
}

/// Private copies on their way to the files, behind room for the head of the double-write area.
struct Group {
    bytes: AlignedBuf,
    copies: Vec<Copy>,
    /// The log must be durable up to here.
    lsn: Lsn,
    /// The double-write area has copies.
    in_area: bool,
}

impl Group {
    /// A group of up to `pages` pages, in memory of an earlier one if there is some.
    fn new(spare: Option<AlignedBuf>, most: usize, pages: usize) -> Group {
        assert!(pages <= most, "all groups have equal room");
        let bytes = spare.unwrap_or_else(|| AlignedBuf::zeroed((1 + most) * PAGE_SIZE));
        Group { bytes, copies: Vec::with_capacity(pages), lsn: Lsn(0), in_area: false }
    }

    fn place(number: usize) -> std::ops::Range<usize> {
        (1 + number) * PAGE_SIZE..(2 + number) * PAGE_SIZE
    }

    fn add(&mut self, latch: &Shared<'_>, logged: bool) {
        self.bytes[Group::place(self.copies.len())].copy_from_slice(latch.bytes());
        if logged {
            self.lsn = self.lsn.max(header::lsn(latch.bytes()));
        }
    }

    fn stamp(&mut self) {
        for (number, copy) in self.copies.iter().enumerate() {
            let bytes = &mut self.bytes[Group::place(number)];
            let bytes: &mut [u8; PAGE_SIZE] = bytes.try_into().expect("a place holds a page");
            if !header::is_zero(bytes) {
                checksum::stamp(copy.page, bytes);
                if points::broken("r2-private-copy") {
                    bytes[4..].copy_from_slice(&copy.pin.shared().bytes()[4..]);
                }
            }
        }
    }
}

/// Tells the area what became of the homes of a run. What is torn of files that are
/// not logged, nobody needs after a crash.
fn tell(area: &mut DoubleWrite, run: &Run, copies: &[Copy], well: bool) {
    for (number, copy) in copies.iter().enumerate().skip(run.first).take(run.len) {
        let Copy { page, file, .. } = copy;
        if well {
            area.trust(*page);
        } else if file.logged {
            area.doubt(*page, number, file);
        }
    }
}

/// Neighbours that are written in one call.
struct Run {
    first: usize,
    len: usize,
}

fn runs(copies: &[Copy]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (number, copy) in copies.iter().enumerate() {
        let follows = |run: &&mut Run| {
            let last = copies[run.first + run.len - 1].page;
            let next = last.block.0.checked_add(1);
            run.len < MAX_RUN && last.file == copy.page.file && next == Some(copy.page.block.0)
        };
        match runs.last_mut().filter(follows) {
            Some(run) => run.len += 1,
            None => runs.push(Run { first: number, len: 1 }),
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
        // Last: a panic comes before it.
        self.left.fetch_sub(1, Ordering::AcqRel);
    }

    fn panicked(&self, _tag: u64, message: &str) {
        self.panicked.lock().get_or_insert_with(|| message.to_string());
        if !points::broken("panicked-write-uncounted") {
            self.left.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
