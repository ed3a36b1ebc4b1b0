//! Memory of one page and the three ways to touch it.
//!
//! Rule R11: nobody holds a reference into a page without its latch. The memory is made of 64-bit
//! atomic words so that an optimistic reader may load while an exclusive holder stores:
//!
//! - [`PageBuf::bytes`]: plain bytes, for holders of the shared or exclusive latch (no store can be
//!   in flight: stores, hints included, need the exclusive latch).
//! - [`PageMut`]: stores for the holder of the exclusive latch, word by word with relaxed atomics;
//!   each logged store is appended to a delta as it is made.
//! - [`PageView`]: word-wise loads for optimistic readers; what they return means nothing until the
//!   latch version has been validated.
//!
//! Does not do: latching, validation, log records.
#![expect(clippy::disallowed_types, reason = "page words are memory, not synchronisation")]

use core::sync::atomic::{AtomicU64, Ordering};

use crate::config::PAGE_SIZE;
use crate::page::delta;

const WORDS: usize = PAGE_SIZE / 8;
const _: () = assert!(size_of::<PageBuf>() == PAGE_SIZE);

/// Memory of a page, aligned for direct I/O.
#[repr(C, align(4096))]
pub struct PageBuf([AtomicU64; WORDS]);

impl PageBuf {
    /// A page of zeroes on the heap.
    pub fn zeroed() -> Box<PageBuf> {
        Box::new(PageBuf([const { AtomicU64::new(0) }; WORDS]))
    }

    /// The bytes, for a holder of a latch (see the rule above).
    ///
    /// # Safety
    /// No [`PageMut`] of this page may be used while the slice lives: the caller holds the latch
    /// shared or exclusive, or owns the memory.
    pub unsafe fn bytes(&self) -> &[u8; PAGE_SIZE] {
        // SAFETY: same size, u8 has no alignment or validity needs; the caller rules out stores.
        unsafe { &*(self as *const PageBuf).cast::<[u8; PAGE_SIZE]>() }
    }

    /// Raw memory for a device read or write; the caller holds the frame exclusively (read) or the
    /// latch in any mode (write) until the I/O has completed.
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut().cast()
    }

    /// Loads for optimistic readers.
    #[inline]
    pub fn view(&self) -> PageView<'_> {
        PageView(self)
    }

    fn store(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= PAGE_SIZE, "a store inside the page");
        let (mut word, skip) = (offset / 8, offset % 8);
        let mut rest = bytes;
        if skip != 0 {
            let (head, tail) = rest.split_at(rest.len().min(8 - skip));
            self.merge(word, skip, head);
            (word, rest) = (word + 1, tail);
        }
        let mut chunks = rest.chunks_exact(8);
        for chunk in &mut chunks {
            let value = u64::from_ne_bytes(chunk.try_into().expect("chunks_exact gives 8 bytes"));
            self.0[word].store(value, Ordering::Relaxed);
            word += 1;
        }
        if !chunks.remainder().is_empty() {
            self.merge(word, 0, chunks.remainder());
        }
    }

    fn merge(&self, word: usize, skip: usize, bytes: &[u8]) {
        let mut value = self.0[word].load(Ordering::Relaxed).to_ne_bytes();
        value[skip..skip + bytes.len()].copy_from_slice(bytes);
        self.0[word].store(u64::from_ne_bytes(value), Ordering::Relaxed);
    }
}

/// Stores into a page whose exclusive latch is held. Logged stores are recorded in a delta.
pub struct PageMut<'a> {
    page: &'a PageBuf,
    delta: Option<&'a mut Vec<u8>>,
}

impl<'a> PageMut<'a> {
    /// Stores into `page`; each logged one is appended to `delta` (`None`: an unlogged file, or
    /// redo).
    ///
    /// # Safety
    /// The caller holds the exclusive latch of the page, or owns its memory, for `'a`.
    pub unsafe fn new(page: &'a PageBuf, delta: Option<&'a mut Vec<u8>>) -> Self {
        Self { page, delta }
    }

    /// Stores into a page that nobody else can see, without a record.
    pub fn owned(page: &'a mut PageBuf) -> Self {
        Self { page, delta: None }
    }

    /// Stores into a page that nobody else can see, recorded in `delta`.
    pub fn recorded(page: &'a mut PageBuf, delta: &'a mut Vec<u8>) -> Self {
        Self { page, delta: Some(delta) }
    }

    /// The page as it is now.
    pub fn bytes(&self) -> &[u8; PAGE_SIZE] {
        // SAFETY: stores need `&mut self`, so none happens while this slice borrows `self`.
        unsafe { self.page.bytes() }
    }

    /// Logged store of `bytes` at `offset`.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.page.store(offset, bytes);
        if let Some(delta) = &mut self.delta {
            delta::push_write(delta, offset, bytes);
        }
    }

    /// Logged store of a little-endian u16.
    pub fn put_u16(&mut self, offset: usize, value: u16) {
        self.write(offset, &value.to_le_bytes());
    }

    /// Logged store of a little-endian u32.
    pub fn put_u32(&mut self, offset: usize, value: u32) {
        self.write(offset, &value.to_le_bytes());
    }

    /// Logged store of a little-endian u64.
    pub fn put_u64(&mut self, offset: usize, value: u64) {
        self.write(offset, &value.to_le_bytes());
    }

    /// Logged move of `len` bytes from `from` to `to`; the ranges may overlap.
    pub fn copy_within(&mut self, from: usize, len: usize, to: usize) {
        assert!(from + len <= PAGE_SIZE && to + len <= PAGE_SIZE, "a move inside the page");
        // Most moves are of a few slots: a small scratch need not be zeroed for long.
        match len {
            0..=64 => self.shift::<64>(from, len, to),
            65..=512 => self.shift::<512>(from, len, to),
            _ => self.shift::<PAGE_SIZE>(from, len, to),
        }
        if let Some(delta) = &mut self.delta {
            delta::push_copy(delta, from, len, to);
        }
    }

    fn shift<const SCRATCH: usize>(&mut self, from: usize, len: usize, to: usize) {
        let mut scratch = [0u8; SCRATCH];
        scratch[..len].copy_from_slice(&self.bytes()[from..from + len]);
        self.page.store(to, &scratch[..len]);
    }

    /// Logged fill of `len` bytes at `offset` with `byte`.
    pub fn fill(&mut self, offset: usize, len: usize, byte: u8) {
        assert!(offset + len <= PAGE_SIZE, "a fill inside the page");
        self.page.store(offset, &[byte; PAGE_SIZE][..len]);
        if let Some(delta) = &mut self.delta {
            delta::push_fill(delta, offset, len, byte);
        }
    }

    /// Logged replacement of the whole page (LSN and checksum excepted): formats, splits,
    /// compaction. Recorded as an image with its longest run of zeroes left out, in place of all
    /// earlier stores.
    pub fn replace(&mut self, image: &[u8; PAGE_SIZE]) {
        let lsn: [u8; 8] = self.bytes()[8..16].try_into().expect("eight bytes");
        self.page.store(4, &image[4..8]);
        self.page.store(16, &image[16..]);
        debug_assert_eq!(self.bytes()[8..16], lsn);
        if let Some(delta) = &mut self.delta {
            delta.clear();
            delta::push_image(delta, image);
        }
    }

    /// Store without a record: a hint (R1), an LSN, a checksum. Redo never reads what it wrote.
    pub fn write_unlogged(&mut self, offset: usize, bytes: &[u8]) {
        self.page.store(offset, bytes);
    }
}

/// Word-wise loads of a page that a writer may be changing. Valid only after the latch validates.
#[derive(Clone, Copy)]
pub struct PageView<'a>(&'a PageBuf);

impl PageView<'_> {
    /// Copies `out.len()` bytes from `offset`; what lies outside the page reads as zero.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        for (i, byte) in out.iter_mut().enumerate() {
            let at = offset + i;
            *byte = if at < PAGE_SIZE { (self.word(at / 8) >> (at % 8 * 8)) as u8 } else { 0 };
        }
    }

    /// Little-endian u16 at `offset`, zero outside the page.
    pub fn u16(&self, offset: usize) -> u16 {
        let mut out = [0; 2];
        self.read(offset, &mut out);
        u16::from_le_bytes(out)
    }

    /// Little-endian u32 at `offset`, zero outside the page.
    pub fn u32(&self, offset: usize) -> u32 {
        let mut out = [0; 4];
        self.read(offset, &mut out);
        u32::from_le_bytes(out)
    }

    /// Word `index` of the page, as if read from little-endian bytes.
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        u64::from_le(self.0.0[index].load(Ordering::Relaxed))
    }
}
