//! Frames: the memory of the pool, in one allocation, and the state of each frame.
//!
//! The state word of a frame holds its pins and its flags, so that one atomic operation decides
//! between a pin and an eviction:
//!
//! - `VALID`: the frame holds the page that its tag names; set last, cleared only with no pin.
//! - `LOADING`: a read is in flight; the read holds a pin of its own.
//! - `FAILED`: the read failed; the last pin gives the frame back.
//! - `DIRTY`: memory is newer than the file. `UNLOGGED`: changes of the page are not logged.
//! - `PEEKED`: readers without pins may look at the frame (`reading`).
//! - `AWAITED`: a thread sleeps until the read has ended; means nothing after that.
//!
//! Invariants:
//! - The tag changes only while no flag is set. A pin taken while `VALID` was set keeps tag and
//!   memory in place until it is dropped (R20).
//! - A lookup without a lock may pin the wrong frame for a moment. So a frame without flags may
//!   have pins, and the state word is never stored as a whole.
//!
//! Does not do: choose victims, I/O.

use rightlink_env::Broken;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr::NonNull;

use rightlink_aio::{AlignedBuf, Completion, Done, File, Io, IoBufs, ReadRequest, Segment};
use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::buffer::latch::{Latch, Parking};
use crate::config::PAGE_SIZE;
use crate::ids::{Lsn, PageId};
use crate::page::{PageBuf, PageMut, checksum, header};

/// The frame holds its page.
pub(super) const VALID: u64 = 1 << 32;
/// A read into the frame is in flight.
pub(super) const LOADING: u64 = 1 << 33;
/// The read into the frame failed.
pub(super) const FAILED: u64 = 1 << 34;
/// Memory is newer than the file.
pub(super) const DIRTY: u64 = 1 << 35;
/// Changes of the page are not logged.
pub(super) const UNLOGGED: u64 = 1 << 36;
/// A thread may be reading the frame without a pin.
pub(super) const PEEKED: u64 = 1 << 37;
/// A thread sleeps until the read has ended.
pub(super) const AWAITED: u64 = 1 << 38;
const FLAGS: u64 = !0 << 32;
/// No frame: ends chains of the page table.
pub(super) const NO_FRAME: u32 = u32::MAX;
/// A dirty page that redo does not need: only hints, or an unlogged file.
pub(super) const NO_REDO: u64 = u64::MAX;
/// Uses that a frame remembers.
const MAX_USAGE: u8 = 3;
const PARKING_LOTS: usize = 64;

/// Pins of a state word.
pub(super) fn pins(state: u64) -> u32 {
    state as u32
}

/// The state of one frame; on a cache line of its own, since all threads look at it.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Frame {
    /// The latch of the page.
    pub(super) latch: Latch,
    /// The next frame in the chain of the page table.
    pub(super) next: AtomicU32,
    state: AtomicU64,
    tag: AtomicU64,
    rec_lsn: AtomicU64,
    usage: AtomicU8,
}

impl Frame {
    fn new() -> Frame {
        Frame {
            latch: Latch::default(),
            next: AtomicU32::new(NO_FRAME),
            state: AtomicU64::new(0),
            tag: AtomicU64::new(0),
            rec_lsn: AtomicU64::new(NO_REDO),
            usage: AtomicU8::new(0),
        }
    }

    /// The page that the frame holds or held.
    #[inline]
    pub(super) fn tag(&self) -> PageId {
        let tag = self.tag.load(Ordering::Acquire);
        PageId::new(crate::ids::FileId((tag >> 32) as u32), tag as u32)
    }

    /// Pins and flags.
    #[inline]
    pub(super) fn state(&self) -> u64 {
        self.state.load(Ordering::Acquire)
    }

    /// Adds a pin and returns the state before it.
    #[inline]
    pub(super) fn add_pin(&self) -> u64 {
        let before = self.state.fetch_add(1, Ordering::Acquire);
        assert!(pins(before) < u32::MAX / 2, "pins are counted in 32 bits");
        before
    }

    /// Adds a pin if the frame holds `page`. It never pins a frame that is loading or failed, so it
    /// never has to drop the last pin of a failed read.
    #[inline]
    pub(super) fn pin_valid(&self, page: PageId) -> bool {
        let mut state = self.state();
        while state & VALID != 0 {
            let order = (Ordering::Acquire, Ordering::Acquire);
            match self.state.compare_exchange_weak(state, state + 1, order.0, order.1) {
                Ok(_) if self.tag() == page => return true,
                Ok(_) => {
                    self.drop_pin();
                    return false;
                }
                Err(now) => state = now,
            }
        }
        false
    }

    /// Takes a pin away and returns the state before it.
    #[inline]
    pub(super) fn drop_pin(&self) -> u64 {
        let before = self.state.fetch_sub(1, Ordering::Release);
        assert!(pins(before) > 0, "a pin is dropped once");
        before
    }

    /// Gives a frame without flags to `page`: pinned once, with `flags`.
    pub(super) fn adopt(&self, page: PageId, flags: u64) {
        assert!(self.state() & FLAGS == 0, "only a claimed frame is given to a page");
        self.tag.store(u64::from(page.file.0) << 32 | u64::from(page.block.0), Ordering::Release);
        self.rec_lsn.store(NO_REDO, Ordering::Relaxed);
        self.usage.store(0, Ordering::Relaxed);
        self.state.fetch_add(flags + 1, Ordering::Release);
    }

    /// The read has ended: `LOADING` becomes `outcome` (`VALID` or `FAILED`). True if a thread
    /// sleeps until then.
    #[must_use]
    pub(super) fn loaded(&self, outcome: u64) -> bool {
        let before = self.state.fetch_xor(LOADING | outcome, Ordering::AcqRel);
        assert!(before & (LOADING | VALID | FAILED) == LOADING, "a read ends once");
        before & AWAITED != 0
    }

    /// The caller, which has a pin, is about to sleep until the read has ended.
    pub(super) fn await_read(&self) {
        self.state.fetch_or(AWAITED, Ordering::AcqRel);
    }

    /// Takes the frame from its page if it is clean and not pinned (R20). `DIRTY` in `forgiven`
    /// allows a dirty page, whose file is being cut. Returns the state before, for `Core::retire`.
    pub(super) fn try_claim(&self, forgiven: u64) -> Option<u64> {
        let state = self.state();
        let pinned = pins(state) != 0 && !broken(Broken::PinnedFrameEvicted);
        let dirty = state & DIRTY & !forgiven != 0 && !broken(Broken::DirtyFrameEvicted);
        if state & VALID == 0 || pinned || dirty {
            return None;
        }
        let swap = Ordering::SeqCst;
        self.state.compare_exchange(state, 0, swap, Ordering::Relaxed).ok()
    }

    /// Does the frame hold `page`? If so it keeps its memory until the calling reader, which is
    /// announced, leaves.
    #[inline]
    pub(super) fn peek(&self, page: PageId) -> bool {
        let mut state = self.state.load(Ordering::SeqCst);
        while state & VALID != 0 && state & PEEKED == 0 {
            let swap = (Ordering::SeqCst, Ordering::SeqCst);
            match self.state.compare_exchange(state, state | PEEKED, swap.0, swap.1) {
                Ok(_) => state |= PEEKED,
                Err(now) => state = now,
            }
        }
        // After the mark: the tag stays as long as the mark does.
        state & VALID != 0 && self.tag() == page
    }

    /// Takes a frame whose read failed, if the last pin has gone; true for exactly one caller.
    pub(super) fn claim_failed(&self) -> bool {
        let state = self.state();
        state & FAILED != 0
            && pins(state) == 0
            && self.state.compare_exchange(state, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The page was used.
    #[inline]
    pub(super) fn touch(&self) {
        let usage = self.usage.load(Ordering::Relaxed);
        if usage < MAX_USAGE {
            self.usage.store(usage + 1, Ordering::Relaxed);
        }
    }

    /// How often the page was used since the replacement last looked.
    pub(super) fn usage(&self) -> u8 {
        self.usage.load(Ordering::Relaxed)
    }

    /// Sets the use count.
    pub(super) fn set_usage(&self, usage: u8) {
        self.usage.store(usage, Ordering::Relaxed);
    }

    /// The exclusive holder is about to change the page; redo would need the log from `from`. True
    /// if the page was clean.
    pub(super) fn mark_dirty(&self, from: u64) -> bool {
        // Before the flag: a checkpoint that sees the flag sees a position that is low enough
        // (R13).
        if self.rec_lsn.load(Ordering::Relaxed) > from {
            self.rec_lsn.store(from, Ordering::Release);
        }
        self.state.load(Ordering::Relaxed) & DIRTY == 0
            && self.state.fetch_or(DIRTY, Ordering::SeqCst) & DIRTY == 0
    }

    /// The file has the page as it is, as a holder of the latch knows. True if it was dirty.
    pub(super) fn mark_clean(&self) -> bool {
        self.rec_lsn.store(NO_REDO, Ordering::Relaxed);
        self.state.fetch_and(!DIRTY, Ordering::Release) & DIRTY != 0
    }

    /// Where redo of the page would start, [`NO_REDO`] if it needs none.
    pub(super) fn rec_lsn(&self) -> u64 {
        self.rec_lsn.load(Ordering::Acquire)
    }

    /// The file has all changes below `from`, as a holder of the latch knows.
    pub(super) fn raise_rec_lsn(&self, from: Lsn) {
        let old = self.rec_lsn.load(Ordering::Relaxed);
        if old != NO_REDO && old < from.0 {
            self.rec_lsn.store(from.0, Ordering::Release);
        }
    }
}

/// Bytes of a pool from which on it asks for large pages.
const LARGE_POOL: usize = 64 << 20;

/// All frames and their memory.
#[derive(Debug)]
pub(super) struct Arena {
    frames: Box<[Frame]>,
    parking: Box<[Parking]>,
    base: NonNull<u8>,
    pages: NonNull<PageBuf>,
}

// SAFETY: the memory behind `pages` is made of atomics (`PageBuf` is `Sync`) and is owned by the
// arena.
unsafe impl Send for Arena {}
// SAFETY: as above; the latch of a page decides which thread may store into it (R11).
unsafe impl Sync for Arena {}

impl Arena {
    /// `count` frames of zero pages, or `None` if the system has not got the memory.
    pub(super) fn new(count: usize) -> Option<Arena> {
        assert!((1..NO_FRAME as usize).contains(&count), "frames are numbered in 32 bits");
        let layout = Arena::layout(count);
        // SAFETY: the layout has a size above zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let skip = base.align_offset(align_of::<PageBuf>());
        assert!(skip < align_of::<PageBuf>(), "the slack covers the alignment");
        // SAFETY: `skip` is smaller than the slack of one alignment that the layout has.
        let start = unsafe { base.add(skip) };
        // A small pool fits the processor's page tables, and large pages round its memory up.
        if count * PAGE_SIZE >= LARGE_POOL {
            rightlink_aio::prefer_large_pages(start, count * PAGE_SIZE);
        }
        let pages = start.cast();
        let frames = (0..count).map(|_| Frame::new()).collect();
        let parking = (0..PARKING_LOTS).map(|_| Parking::default()).collect();
        Some(Arena { frames, parking, base, pages })
    }

    /// A small alignment lets the allocator hand out untouched zero pages; the slack aligns them.
    fn layout(count: usize) -> Layout {
        let bytes = count * PAGE_SIZE + align_of::<PageBuf>();
        Layout::from_size_align(bytes, 16).expect("the pool fits the address space")
    }

    /// How many frames there are.
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Frame `index`.
    #[inline]
    pub(super) fn frame(&self, index: u32) -> &Frame {
        &self.frames[index as usize]
    }

    /// All frames in order.
    pub(super) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Where waiters for the latch of frame `index` sleep.
    pub(super) fn parking(&self, index: u32) -> &Parking {
        &self.parking[index as usize % PARKING_LOTS]
    }

    /// How often a thread slept for a latch.
    pub(super) fn latch_waits(&self) -> u64 {
        self.parking.iter().map(Parking::waits).sum()
    }

    /// Memory of frame `index`.
    #[inline]
    pub(super) fn page(&self, index: u32) -> &PageBuf {
        assert!((index as usize) < self.frames.len(), "a frame of this pool");
        // SAFETY: inside the allocation of `new`; zeroes are a valid `PageBuf`; shared references
        // are fine at any time because all its fields are atomics.
        unsafe { self.pages.add(index as usize).as_ref() }
    }

    /// Zeroes the memory of a frame from byte `from` on, before any thread can read it.
    pub(super) fn clear(&self, index: u32, from: usize) {
        assert!(self.frame(index).state() & VALID == 0, "no thread reads an invalid frame");
        // SAFETY: only the thread that claimed or loads the frame touches its memory before it is
        // valid, and that is the caller.
        let mut page = unsafe { PageMut::new(self.page(index), None) };
        page.write_unlogged(from, &[0; PAGE_SIZE][from..]);
    }

    /// Checks that the bytes read into the loading frame are the page that its tag names.
    pub(super) fn verify_loaded(&self, index: u32, log_end: Option<Lsn>) -> Result<(), String> {
        let frame = self.frame(index);
        assert!(frame.state() & LOADING != 0, "only a completion looks at a loading frame");
        // SAFETY: the read has ended, and no thread stores before the frame is valid.
        let bytes = unsafe { self.page(index).bytes() };
        checksum::verify(frame.tag(), bytes)?;
        log_end.map_or(Ok(()), |end| header::within_log(bytes, end))
    }

    /// Memory of `frames` in file order, to be read into.
    ///
    /// # Safety
    /// Each frame is `LOADING` on behalf of this read and stays so until the read has completed,
    /// and the arena outlives it: then no other thread touches the memory (contract B1 of
    /// `rightlink_aio`).
    unsafe fn io_bufs(&self, frames: &[u32]) -> IoBufs {
        let segment = |&index: &u32| {
            assert!(self.frame(index).state() & LOADING != 0, "the read owns the frame");
            Segment { start: self.page(index).as_ptr(), len: PAGE_SIZE }
        };
        let segments: Vec<Segment> = frames.iter().map(segment).collect();
        // SAFETY: passed on to the caller.
        unsafe { IoBufs::vectored(segments) }
    }
}

/// A read into frames: it keeps their arena alive, and lets them go only when it is completed.
pub(super) trait FrameRead: Completion + 'static {
    /// The arena of the frames.
    fn arena(&self) -> &Arena;
    /// The frames, `LOADING` for this read, in file order.
    fn frames(&self) -> &[u32];
}

/// The read from `offset` of `file` into the frames of `target`.
pub(super) fn read<T: FrameRead>(file: &File, offset: u64, target: Arc<T>) -> ReadRequest {
    // SAFETY: `Done` keeps `target`, and `target` the arena, until the completion; a frame that is
    // `LOADING` stays so until its own read is completed, which the trait asks for.
    let bufs = unsafe { target.arena().io_bufs(target.frames()) };
    ReadRequest { file: file.clone(), offset, bufs, done: Done { target, tag: 0 } }
}

/// A write from a private copy, which it keeps.
pub(super) trait CopyWrite: Completion + 'static {
    /// The copy. Always the same one.
    fn copy(&self) -> &Arc<AlignedBuf>;
}

/// Where a write goes.
pub(super) struct Home<'a> {
    pub(super) file: &'a File,
    /// Byte position in the file.
    pub(super) offset: u64,
}

/// Starts to write `range` of the copy of `target` to `home`.
pub(super) fn submit_write<T: CopyWrite>(
    io: &Io,
    home: Home<'_>,
    range: Range<usize>,
    target: Arc<T>,
    tag: u64,
) {
    let bytes = &target.copy()[range];
    // SAFETY: `Done` keeps `target`, and `target` the copy, until the completion; no thread can
    // change bytes behind an `Arc`, and a write does not either.
    let bufs = unsafe { IoBufs::new(bytes.as_ptr().cast_mut(), bytes.len()) };
    io.submit_write(home.file, home.offset, bufs, Done { target, tag });
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout; pins keep the pool, and so the arena,
        // alive.
        unsafe { dealloc(self.base.as_ptr(), Arena::layout(self.frames.len())) }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::ids::FileId;

    #[test]
    fn pins_and_claims_exclude_each_other() {
        let arena = Arena::new(2).unwrap();
        let frame = arena.frame(0);
        let page = PageId::new(FileId(9), 7);
        frame.adopt(page, LOADING);
        assert!(frame.try_claim(DIRTY).is_none(), "not while it is being read");
        assert!(!frame.loaded(VALID));
        assert!(frame.try_claim(0).is_none(), "not while it is pinned");
        frame.drop_pin();
        assert!(frame.mark_dirty(5) && !frame.mark_dirty(7));
        assert_eq!((frame.rec_lsn(), frame.tag()), (5, page));
        assert!(frame.try_claim(0).is_none(), "not while it is dirty");
        assert!(frame.mark_clean() && frame.try_claim(0).is_some() && frame.try_claim(0).is_none());
        assert!(arena.page(1).as_ptr().addr().is_multiple_of(4096));
    }

    #[test]
    fn a_failed_frame_is_given_back_once() {
        let arena = Arena::new(1).unwrap();
        let frame = arena.frame(0);
        frame.adopt(PageId::new(FileId(9), 7), LOADING);
        frame.await_read();
        assert!(frame.loaded(FAILED), "a thread sleeps");
        assert!(!frame.claim_failed());
        frame.drop_pin();
        assert!(frame.claim_failed() && !frame.claim_failed());
    }

    /// An optimistic reader loads while a writer stores: what validates is one state of the page.
    /// Small enough for Miri: `cargo +nightly miri test -p rightlink --lib buffer::frame`.
    #[test]
    fn optimistic_readers_and_a_writer_share_a_page() {
        use crate::buffer::latch::Mode;
        use rightlink_env::thread;

        let rounds = if cfg!(miri) { 40 } else { 20_000 };
        let arena = Arc::new(Arena::new(1).unwrap());
        let theirs = Arc::clone(&arena);
        let writer = thread::spawn("writer", move || {
            let (latch, parking) = (&theirs.frame(0).latch, theirs.parking(0));
            for value in 1..=rounds {
                latch.take(Mode::Exclusive, parking);
                latch.begin_change();
                // SAFETY: the exclusive latch is held.
                let mut page = unsafe { PageMut::new(theirs.page(0), None) };
                page.put_u64(64, value);
                page.put_u64(8001, value);
                latch.end_change();
                latch.release(Mode::Exclusive, parking);
            }
        });
        let (latch, view, mut last) = (&arena.frame(0).latch, arena.page(0).view(), 0);
        while last < rounds {
            let version = latch.version();
            let mut high = [0; 8];
            let low = view.word(8);
            view.read(8001, &mut high);
            if version.is_multiple_of(2) && latch.validate(version) {
                assert_eq!(low, u64::from_le_bytes(high));
                assert!(low >= last);
                last = low;
            }
            latch.take(Mode::Shared, arena.parking(0));
            // SAFETY: the shared latch is held.
            let bytes = unsafe { arena.page(0).bytes() };
            assert_eq!(bytes[64..72], bytes[8001..8009]);
            latch.release(Mode::Shared, arena.parking(0));
        }
        writer.join().unwrap();
        assert_eq!(latch.version(), 2 * rounds);
    }
}
