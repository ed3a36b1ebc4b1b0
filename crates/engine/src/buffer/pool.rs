//! The operations of the buffer pool: files, pins, eviction of all pages, the redo horizon.
//!
//! Invariants:
//! - Lock order: write-back, replacement, page table bucket. No latch is taken and no I/O is done
//!   under the last two.
//! - A page is in at most one frame. A frame in the page table is `VALID` or `LOADING` (R20).
//! - A file is cut, or its space given back, only after the log that says so is durable (R13).
//!
//! Does not do: start threads; interpret pages beyond their header.

use rightlink_env::Broken;
use std::ops::Range;

use rightlink_aio::Io;
use rightlink_env::sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, Condvar, FairMutex, Mutex, Ordering,
};
use rightlink_env::{Budget, Env, Reservation, points};

use crate::buffer::announce::Readers;
use crate::buffer::core::{Core, Unread};
use crate::buffer::data_file::{DataFile, DataFiles, MAX_BLOCKS};
use crate::buffer::double_write::DoubleWrite;
use crate::buffer::frame::{Arena, DIRTY, Frame, NO_REDO, VALID, pins};
use crate::buffer::latched;
use crate::buffer::page_table::PageTable;
use crate::buffer::pin::{PageLookup, Pin};
use crate::buffer::prefetch::Streams;
use crate::buffer::replacement::Replacement;
use crate::buffer::stats::{PoolCounters, PoolStats};
use crate::buffer::write_plan::WriteBack;
use crate::config::{MIN_POOL_PAGES, PAGE_SIZE};
use crate::error::{Error, Result};
use crate::ids::{BlockNo, FileId, Lsn, PageId};
use crate::page::checksum;
use crate::wal::Wal;

/// Settings of the pool.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Frames of 8 KiB, at least `config::MIN_POOL_PAGES`.
    pub frames: usize,
    /// Pages of one double-write group, at least 64 (0: the device promises atomic page writes).
    pub double_write_pages: usize,
}

/// Open scans may hold one in so many of the bytes that the budget has left beside the pool.
const SCANS_SHARE: usize = 2;

/// The buffer pool of an open database.
#[derive(Debug)]
pub struct BufferPool {
    pub(super) core: Arc<Core>,
    pub(super) wal: Arc<Wal>,
    pub(super) write_back: FairMutex<WriteBack>,
    /// How often pages that were to leave next have been written.
    pub(super) made_room: AtomicU64,
    budget: Budget,
    /// The part of it that open scans may hold.
    scans: Budget,
    /// Do vacuums wait for the pins of scans?
    #[cfg(feature = "experiments")]
    pub(crate) waits_for_pins: AtomicBool,
}

impl BufferPool {
    /// A pool over the data files of `io` (names `data/xxxxxxxx`).
    pub fn new(env: &Env, io: &Io, wal: Arc<Wal>, options: PoolOptions) -> Result<Arc<Self>> {
        let PoolOptions { frames, double_write_pages } = options;
        if frames < MIN_POOL_PAGES {
            let what = format!("a pool of {frames} pages; at least {MIN_POOL_PAGES} are needed");
            return Err(Error::Invalid(what));
        }
        let group = WriteBack::group_pages(frames, double_write_pages);
        let memory = reserve(env, frames, group)?;
        let no_memory =
            || Error::OutOfMemory(format!("the system has no memory for {frames} pages"));
        let area = DoubleWrite::open(io, if double_write_pages > 0 { group } else { 0 })?;
        let group = area.as_ref().map_or(group, DoubleWrite::group);
        let core = Core {
            arena: Arena::new(frames).ok_or_else(no_memory)?,
            table: PageTable::new(frames),
            replacement: Mutex::new(Replacement::new(frames)),
            readers: Readers::default(),
            files: DataFiles::new(io)?,
            io: io.clone(),
            counters: PoolCounters::default(),
            streams: Streams::default(),
            failures: Mutex::default(),
            reads_in_flight: AtomicUsize::new(0),
            last_version: AtomicU64::new(0),
            no_hints: AtomicBool::new(false),
            frame_waiters: AtomicUsize::new(0),
            unpinned: (Mutex::default(), Condvar::new()),
            wal: Arc::clone(&wal),
            poisoned: AtomicBool::new(false),
            _memory: memory,
        };
        Ok(Arc::new(BufferPool {
            core: Arc::new(core),
            wal,
            write_back: FairMutex::new(WriteBack::new(group, area)),
            made_room: AtomicU64::new(0),
            budget: env.budget.clone(),
            scans: env.budget.child(env.budget.available() / SCANS_SHARE),
            #[cfg(feature = "experiments")]
            waits_for_pins: AtomicBool::new(false),
        }))
    }

    /// Creates an empty file, durably (file and directory). `logged` false: its changes are not
    /// logged.
    pub fn create_file(&self, file: FileId, logged: bool) -> Result<()> {
        assert_ne!(file, FileId(0), "file 0 is no file");
        let created = self.core.files.create(file, logged);
        created.map_err(|error| self.fatal_if_sync("creation of a data file", error))
    }

    /// Makes an existing file known; idempotent. That it is missing is damage.
    pub fn open_file(&self, file: FileId, logged: bool) -> Result<()> {
        assert_ne!(file, FileId(0), "file 0 is no file");
        self.core.files.open(file, logged)
    }

    /// Is the file open?
    pub fn is_open(&self, file: FileId) -> bool {
        self.core.files.get(file).is_some()
    }

    /// Runs `work` while no thread cuts or drops the file; not at all if the file is not open. For
    /// reading pages of a file without a lock on its table.
    pub fn while_whole<T>(&self, file: FileId, work: impl FnOnce() -> T) -> Option<T> {
        let open = self.core.files.get(file)?;
        let _whole = open.whole.read();
        Some(work())
    }

    /// A copy of a page, without opening its file: for a caller that looks at many tables and uses
    /// few. If the file is opened and written meanwhile, the copy may be older.
    pub fn glance(&self, page: PageId) -> Result<Box<[u8; PAGE_SIZE]>> {
        let copied = self.while_whole(page.file, || {
            let pin = self.pin(page)?;
            Ok(Box::new(*pin.shared().bytes()))
        });
        if let Some(copied) = copied {
            return copied;
        }
        let bytes = self.core.files.glance(page.file, page.block)?;
        let bytes: &[u8; PAGE_SIZE] = bytes.first_chunk().expect("a page was read");
        checksum::verify(page, bytes).map_err(|what| Error::corrupt(page, what))?;
        Ok(Box::new(*bytes))
    }

    /// Blocks of the file, if it is open.
    pub fn open_blocks(&self, file: FileId) -> Option<u32> {
        self.core.files.get(file).map(|open| open.blocks())
    }

    /// The open files whose changes are logged.
    pub fn logged_files(&self) -> Vec<FileId> {
        let files = self.core.files.all();
        files.iter().filter(|file| file.logged).map(|file| file.id).collect()
    }

    /// The data files in the directory, open or not, so that orphans can be found once the catalog
    /// can be read.
    pub fn files_on_disk(&self) -> Result<Vec<FileId>> {
        self.core.files.on_disk()
    }

    /// Forgets all frames of the file without writing them, and removes it. The caller has made the
    /// record of the removal durable (R13), and no page of the file is pinned. Does nothing if the
    /// file is gone.
    pub fn drop_file(&self, file: FileId) -> Result<()> {
        if let Some(open) = self.core.files.get(file) {
            let _whole = open.whole.write();
            self.forget(&open, 0)?;
        }
        let removed = self.core.files.remove(file);
        removed.map_err(|error| self.fatal_if_sync("removal of a data file", error))
    }

    /// Blocks of the file, grown ones included.
    ///
    /// # Panics
    /// If the file is not open.
    pub fn blocks(&self, file: FileId) -> u32 {
        self.core.files.get(file).expect("the file was opened").blocks()
    }

    /// Grows the file by `count` zero blocks and returns the first new one. Not logged: a block
    /// counts as initialised only once a logged record formats it. Blocks that no record has
    /// formatted may be gone after the file is opened again.
    pub fn extend(&self, file: FileId, count: u32) -> Result<BlockNo> {
        self.extend_within(file, count, MAX_BLOCKS)
    }

    /// As [`BufferPool::extend`], for a file that never has more than `most` blocks: none is made
    /// ahead of its use beyond them.
    pub fn extend_within(&self, file: FileId, count: u32, most: u32) -> Result<BlockNo> {
        latched::assert_none();
        let extended = self.core.files.expect(file)?.extend(count, most);
        extended.map_err(|error| self.fatal_if_sync("growth of a data file", error))
    }

    /// Forgets frames at and above `blocks`, none of which is pinned, then cuts the file. The log
    /// is flushed first (R13): it holds the records that emptied those blocks.
    pub fn truncate(&self, file: FileId, blocks: u32) -> Result<()> {
        let open = self.core.files.expect(file)?;
        assert!(blocks <= open.blocks(), "a cut does not make the file longer");
        if open.logged {
            self.wal.flush(self.wal.end())?;
        }
        points::hit("buffer.truncate");
        let _whole = open.whole.write();
        self.forget(&open, blocks)?;
        open.cut()
    }

    /// Gives the space of `blocks` back to the system; they read as never written from then on. The
    /// log is flushed first (R13): it says why they are not needed. A page of them that is in
    /// memory may be written again, which takes space again and does no harm.
    pub fn punch(&self, file: FileId, blocks: Range<u32>) -> Result<()> {
        let open = self.core.files.expect(file)?;
        assert!(!blocks.is_empty() && blocks.end <= open.blocks(), "blocks of the file");
        if !points::broken(Broken::HolePunchedBeforeLog) {
            self.wal.flush(self.wal.end())?;
        }
        points::hit("buffer.punch");
        open.punch(blocks)
    }

    /// Pins the page, reading it if needed (waits for the I/O; checksum verified).
    pub fn pin(&self, page: PageId) -> Result<Pin> {
        let mut again = false;
        loop {
            match self.core.find(page) {
                PageLookup::Valid(pin) => return self.hit(pin),
                PageLookup::Loading(pin) => match self.core.wait(pin) {
                    // A neighbour in the same read may be at fault, so the page is read again
                    // alone.
                    Err(Unread { error: Error::Io(_), joined }) if joined || !again => {
                        again = true;
                        points::hit("buffer.pin.again");
                        continue;
                    }
                    outcome => return outcome.map_err(|unread| unread.error),
                },
                PageLookup::Absent => {}
            }
            if let Some(pin) = self.start_read(page)? {
                return self.core.wait(pin).map_err(|unread| unread.error);
            }
        }
    }

    fn hit(&self, pin: Pin) -> Result<Pin> {
        let frame = pin.frame();
        if frame.latch.is_broken() {
            let what = format!("a panic left {} half changed", pin.page());
            return Err(Error::Poisoned(what));
        }
        frame.touch();
        self.core.counters.hits.add(1);
        Ok(pin)
    }

    /// Pins the page if it is in memory and valid; never does I/O (R7: usable under a latch).
    pub fn try_pin(&self, page: PageId) -> Option<Pin> {
        let index = self.core.table.find(&self.core.arena, page)?;
        let pin = self.core.pin_valid(index, page)?;
        pin.frame().touch();
        Some(pin)
    }

    /// Pins a block that only the caller is about to replace: zeroes, without a read. A page that
    /// is in memory keeps its bytes.
    pub fn pin_new(&self, page: PageId) -> Result<Pin> {
        self.pin_unwritten(page, &|| true)
    }

    /// As [`BufferPool::pin_new`], for a block that other threads may write first: it is read
    /// unless `is_new`. That is asked while no other thread can read the page in, so it may latch
    /// another page, but neither read nor wait for a read.
    pub fn pin_unwritten(&self, page: PageId, is_new: &dyn Fn() -> bool) -> Result<Pin> {
        self.check_inside(page)?;
        loop {
            match self.core.find(page) {
                PageLookup::Valid(pin) => return Ok(pin),
                // The bytes of the file do not matter, nor does an error of reading them.
                PageLookup::Loading(pin) => match self.core.wait(pin) {
                    Ok(pin) => return Ok(pin),
                    Err(_) => continue,
                },
                PageLookup::Absent => {}
            }
            if let Some(pin) = self.adopt_zeroed(page, is_new)? {
                return Ok(pin);
            }
        }
    }

    /// From now on hints are not set: looking at pages makes none of them dirty.
    pub fn refuse_hints(&self) {
        self.core.no_hints.store(true, Ordering::Relaxed);
    }

    /// The log that changes of pages go to.
    pub fn wal(&self) -> &Arc<Wal> {
        &self.wal
    }

    /// The I/O of this pool, for callers that read and write files themselves.
    pub fn io(&self) -> &Io {
        &self.core.io
    }

    /// The memory budget that the pool is part of.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The part of the budget that rows and entries held by open scans may take. It is little: a
    /// scan that gets none of it reads in smaller pieces.
    pub fn scan_budget(&self) -> &Budget {
        &self.scans
    }

    /// Frames of the pool.
    pub fn frames(&self) -> usize {
        self.core.arena.len()
    }

    /// Counters.
    pub fn stats(&self) -> PoolStats {
        PoolStats { latch_waits: self.core.arena.latch_waits(), ..self.core.counters.snapshot() }
    }

    /// Oldest log position that a dirty page still needs, or the end of the log. A checkpoint takes
    /// it, calls [`BufferPool::sync_all`], and then makes it the redo position (R13, R17).
    pub fn redo_horizon(&self) -> Lsn {
        let end = self.wal.end();
        // R13: the pages of a record below `end` were marked before it was appended. The fence
        // makes their marks visible here.
        rightlink_env::sync::fence(Ordering::SeqCst);
        let needed = |frame: &Frame| match frame.state() & DIRTY {
            0 => NO_REDO,
            _ => frame.rec_lsn(),
        };
        let oldest = self.core.arena.frames().iter().map(needed).min().unwrap_or(NO_REDO);
        Lsn(oldest.min(end.0))
    }

    /// Error unless `page` is inside its open file.
    pub(super) fn check_inside(&self, page: PageId) -> Result<Arc<DataFile>> {
        let file = self.core.files.expect(page.file)?;
        let blocks = file.blocks();
        if page.block.0 < blocks {
            return Ok(file);
        }
        Err(Error::Corruption {
            relation: None,
            file: file.name().to_string(),
            block: Some(page.block.0),
            what: format!("a page beyond the end of the file, which has {blocks} blocks"),
        })
    }

    /// Takes the pages of `file` at and above `blocks` out of memory, whatever their state.
    fn forget(&self, file: &DataFile, blocks: u32) -> Result<()> {
        // Under this lock no group with one of these pages is being written.
        let mut write_back = self.write_back.lock();
        file.hide(blocks);
        let mut gone = Vec::new();
        for index in 0..self.core.arena.len() as u32 {
            if self.take_away(index, file.id, blocks)? {
                gone.push(index);
            }
        }
        write_back.forget(file.id, blocks);
        self.core.replacement.lock().forget(&gone);
        Ok(())
    }

    fn take_away(&self, index: u32, file: FileId, blocks: u32) -> Result<bool> {
        let frame = self.core.arena.frame(index);
        for _ in 0..100_000 {
            let page = frame.tag();
            let concerned = page.file == file && page.block.0 >= blocks;
            if !concerned || frame.state() >> 32 == 0 {
                return Ok(false);
            }
            let bucket = self.core.table.lock(page);
            let dirty = frame.state() & DIRTY != 0;
            // As in `try_evict`: only the table tells which page a frame holds (R20).
            let here = bucket.find(&self.core.arena) == Some(index);
            if here && let Some(before) = frame.try_claim(DIRTY) {
                self.core.retire(before);
                self.core.note_version(frame);
                bucket.remove(&self.core.arena, index);
                self.core.counters.dirty.fetch_sub(usize::from(dirty), Ordering::Relaxed);
                return Ok(true);
            }
            drop(bucket);
            // A read ahead holds a pin, or a lookup has pinned the wrong frame for a moment.
            self.core.io.reap(false);
            rightlink_env::thread::yield_now();
        }
        Err(Error::Limit(format!("file {} cannot go: {} is pinned", file.0, frame.tag())))
    }
}

/// Reserves what the pool will take.
fn reserve(env: &Env, frames: usize, group: usize) -> Result<Reservation> {
    let each = PAGE_SIZE + size_of::<Frame>() + 8 + Replacement::BYTES_PER_FRAME;
    let plan = WriteBack::BYTES_PER_FRAME;
    let bytes =
        frames.checked_mul(each + plan).and_then(|b| b.checked_add((group + 1) * PAGE_SIZE));
    let wanted = bytes.and_then(|bytes| env.budget.try_reserve(bytes));
    wanted.ok_or_else(|| {
        let have = env.budget.available();
        Error::OutOfMemory(format!(
            "a pool of {frames} pages does not fit the {have} bytes that are left"
        ))
    })
}

impl Drop for BufferPool {
    fn drop(&mut self) {
        // Completions own frames until they have run.
        while self.core.reads_in_flight.load(Ordering::Acquire) > 0 {
            self.core.io.reap(true);
        }
        let pinned = |frame: &Frame| pins(frame.state()) > 0 && frame.state() & VALID != 0;
        if self.core.arena.frames().iter().any(pinned) {
            // P1: pins that are left keep the memory.
            std::mem::forget(Arc::clone(&self.core));
        }
    }
}
