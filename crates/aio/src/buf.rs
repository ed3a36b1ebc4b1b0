//! Memory that I/O reads into and writes from. One of the few files with `unsafe`.
//!
//! Two kinds: [`AlignedBuf`] owns its memory and is safe to use; [`IoBufs`] names memory that
//! somebody else owns while an operation is in flight, and rests on this contract:
//!
//! **B1** From the call of `IoBufs::new` until the completion of the operation has begun (or the
//! value is dropped without being submitted) every segment stays allocated; for a read nobody else
//! reads or writes it, for a write nobody else writes it.
//!
//! Inside this crate an `IoBufs` is touched only by the operation that owns it and never after its
//! completion was called.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io::{IoSlice, IoSliceMut};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// What direct I/O asks of offsets, lengths and addresses.
pub const ALIGNMENT: usize = 4096;

/// Zeroed memory on the heap, aligned for direct I/O. Its capacity is rounded up to the alignment,
/// its length is what was asked for.
#[derive(Debug)]
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
}

impl AlignedBuf {
    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> AlignedBuf {
        let layout = AlignedBuf::layout(len);
        // SAFETY: the layout's size is not zero: `layout` rounds up to at least one alignment.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        AlignedBuf { start, len }
    }

    /// A copy of `bytes`.
    pub fn from_slice(bytes: &[u8]) -> AlignedBuf {
        let mut buf = AlignedBuf::zeroed(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    fn layout(len: usize) -> Layout {
        let size = len.max(1).next_multiple_of(ALIGNMENT);
        Layout::from_size_align(size, ALIGNMENT)
            .expect("a buffer is smaller than the address space")
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` heads an allocation of at least `len` initialised bytes that we own.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the exclusive borrow of `self` makes this one exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with the layout of the same length, freed only here.
        unsafe { dealloc(self.start.as_ptr(), AlignedBuf::layout(self.len)) }
    }
}

// SAFETY: owns its memory like a `Box<[u8]>`, so it may move to another thread.
unsafe impl Send for AlignedBuf {}
// SAFETY: shared access gives shared slices of plain bytes only.
unsafe impl Sync for AlignedBuf {}

/// Asks the system to lay large pages under the `len` bytes from `start` on, where it has any:
/// memory that is met at random then costs fewer looks into the processor's page tables. A hint.
pub fn prefer_large_pages(start: NonNull<u8>, len: usize) {
    let first = start.as_ptr().addr().next_multiple_of(ALIGNMENT) - start.as_ptr().addr();
    let len = len.saturating_sub(first) / ALIGNMENT * ALIGNMENT;
    if cfg!(miri) || len == 0 {
        return;
    }
    let from = start.as_ptr().wrapping_add(first);
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        // SAFETY: the advice changes neither what memory holds nor who may use it, whosever it is.
        let _: rustix::io::Result<()> = unsafe { madvise(from.cast(), len, Advice::LinuxHugepage) };
    }
}

/// A piece of somebody's memory. Laid out as the system's `iovec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Where it starts.
    pub start: *mut u8,
    /// How long it is.
    pub len: usize,
}

const _: () = assert!(size_of::<Segment>() == size_of::<IoSlice<'static>>());
const _: () = assert!(align_of::<Segment>() == align_of::<IoSlice<'static>>());

/// The most segments of one operation, as Linux limits them.
pub const MAX_SEGMENTS: usize = 1024;

/// The memory of one operation in flight: one or more segments, in file order.
#[derive(Debug)]
pub struct IoBufs {
    segments: Segments,
    total: usize,
}

#[derive(Debug)]
enum Segments {
    One([Segment; 1]),
    Many(Vec<Segment>),
}

// SAFETY: contract B1 is about moments and exclusivity, not about threads; the pointers are plain
// addresses until the operation runs.
unsafe impl Send for IoBufs {}
// SAFETY: shared access to the value reads addresses and lengths only; the functions that touch the
// memory are private to the crate and called by the one operation that owns the value.
unsafe impl Sync for IoBufs {}

impl IoBufs {
    /// Names one piece of memory.
    ///
    /// # Safety
    /// The caller keeps contract B1 of this module for `start..start + len`.
    pub unsafe fn new(start: *mut u8, len: usize) -> IoBufs {
        assert!(!start.is_null() && len > 0, "an operation has bytes");
        IoBufs { segments: Segments::One([Segment { start, len }]), total: len }
    }

    /// Names several pieces of memory.
    ///
    /// # Safety
    /// The caller keeps contract B1 of this module for every segment, and they do not overlap.
    pub unsafe fn vectored(segments: Vec<Segment>) -> IoBufs {
        assert!((1..=MAX_SEGMENTS).contains(&segments.len()), "one to 1024 segments");
        assert!(segments.iter().all(|s| !s.start.is_null() && s.len > 0), "segments have bytes");
        let total = segments.iter().map(|s| s.len).sum();
        IoBufs { segments: Segments::Many(segments), total }
    }

    /// All bytes together.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The segments, in file order.
    pub fn segments(&self) -> &[Segment] {
        match &self.segments {
            Segments::One(one) => one,
            Segments::Many(many) => many,
        }
    }

    /// Whether every address and length suits direct I/O.
    pub fn is_aligned(&self) -> bool {
        let aligned = |s: &Segment| (s.start as usize | s.len).is_multiple_of(ALIGNMENT);
        self.segments().iter().all(aligned)
    }

    /// The segments that are left after `skip` bytes.
    pub(crate) fn rest(&self, skip: usize) -> Vec<Segment> {
        assert!(skip <= self.total, "no more is skipped than there is");
        let mut skip = skip;
        let mut rest = Vec::with_capacity(self.segments().len());
        for segment in self.segments() {
            let cut = skip.min(segment.len);
            skip -= cut;
            if cut < segment.len {
                // SAFETY: `cut` is less than the segment's length, so it stays inside.
                let start = unsafe { segment.start.add(cut) };
                rest.push(Segment { start, len: segment.len - cut });
            }
        }
        rest
    }

    /// The memory after `skip` bytes, to be read into.
    pub(crate) fn slices_mut(&self, skip: usize) -> Vec<IoSliceMut<'_>> {
        let slice = |s: Segment| {
            // SAFETY: B1: alive, and exclusive to the one operation that owns `self`.
            IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(s.start, s.len) })
        };
        self.rest(skip).into_iter().map(slice).collect()
    }

    /// The memory after `skip` bytes, to be written from.
    pub(crate) fn slices(&self, skip: usize) -> Vec<IoSlice<'_>> {
        let slice = |s: Segment| {
            // SAFETY: B1: alive, and nobody changes it while the operation that owns `self` runs.
            IoSlice::new(unsafe { std::slice::from_raw_parts(s.start, s.len) })
        };
        self.rest(skip).into_iter().map(slice).collect()
    }
}

/// Runs `f` on the memory of `bytes`, for a read that ends before this returns.
pub(crate) fn with_mut<R>(bytes: &mut [u8], f: impl FnOnce(&IoBufs) -> R) -> R {
    // SAFETY: B1: the exclusive borrow outlives the call of `f`, which gets a reference only and
    // so cannot keep the value.
    let bufs = unsafe { IoBufs::new(bytes.as_mut_ptr(), bytes.len()) };
    f(&bufs)
}

/// Runs `f` on the memory of `bytes`, for a write that ends before this returns. Nothing writes
/// through it: `f` belongs to this crate and calls `slices` only.
pub(crate) fn with_ref<R>(bytes: &[u8], f: impl FnOnce(&IoBufs) -> R) -> R {
    // SAFETY: B1: the shared borrow keeps everybody from writing until `f` is done.
    let bufs = unsafe { IoBufs::new(bytes.as_ptr().cast_mut(), bytes.len()) };
    f(&bufs)
}

/// As [`with_ref`], for several pieces.
pub(crate) fn with_refs<R>(pieces: &[&[u8]], f: impl FnOnce(&IoBufs) -> R) -> R {
    let segment = |p: &&[u8]| Segment { start: p.as_ptr().cast_mut(), len: p.len() };
    let segments = pieces.iter().filter(|p| !p.is_empty()).map(segment).collect();
    // SAFETY: B1: the shared borrows keep everybody from writing until `f` is done.
    let bufs = unsafe { IoBufs::vectored(segments) };
    f(&bufs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_buffers_are_aligned_zeroed_and_writable() {
        for len in [0, 1, 4096, 5000] {
            let mut buf = AlignedBuf::zeroed(len);
            assert!(buf.as_ptr().addr().is_multiple_of(ALIGNMENT));
            assert_eq!(buf.len(), len);
            assert!(buf.iter().all(|&b| b == 0));
            buf.fill(7);
        }
        assert_eq!(&AlignedBuf::from_slice(b"abc")[..], b"abc");
    }

    #[test]
    fn rest_skips_over_segments() {
        let pieces: [&[u8]; 3] = [b"abc", b"de", b"fgh"];
        with_refs(&pieces, |bufs| {
            assert_eq!(bufs.total(), 8);
            for skip in 0..=8 {
                let rest: Vec<u8> =
                    bufs.slices(skip).iter().flat_map(|s| s.iter().copied()).collect();
                assert_eq!(rest, &b"abcdefgh"[skip..]);
            }
        });
    }
}
