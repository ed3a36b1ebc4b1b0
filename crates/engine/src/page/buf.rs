//! Memory of one page and the three ways to touch it.
//!
//! No thread holds a reference into a page without its latch (R11). The memory is made of 64-bit
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
use crate::page::delta_encode;

const WORDS: usize = PAGE_SIZE / 8;
/// Words that a move takes at a time.
const RUN: usize = 4;
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
            self.merge(word, skip, gather(head), head.len());
            (word, rest) = (word + 1, tail);
        }
        let (words, tail) = rest.as_chunks::<8>();
        for (slot, chunk) in self.0[word.min(WORDS)..].iter().zip(words) {
            slot.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        }
        if !tail.is_empty() {
            self.merge(word + words.len(), 0, gather(tail), tail.len());
        }
    }

    /// Word `index` as if read from little-endian bytes.
    #[inline]
    fn word(&self, index: usize) -> u64 {
        u64::from_le(self.0[index].load(Ordering::Relaxed))
    }

    /// Stores the low `len` bytes of `value` from byte `skip` of word `word` on.
    #[inline]
    fn merge(&self, word: usize, skip: usize, value: u64, len: usize) {
        if len == 0 {
            return;
        }
        let mask = (u64::MAX >> (64 - 8 * len)) << (8 * skip);
        let merged = self.word(word) & !mask | (value << (8 * skip)) & mask;
        self.0[word].store(merged.to_le(), Ordering::Relaxed);
    }

    /// The eight bytes from `at` on, of which those outside the page are zero. Without a branch on
    /// how they lie in the words: that cannot be predicted.
    #[inline]
    fn eight(&self, at: usize) -> u64 {
        let (word, shift) = (at / 8, at % 8 * 8);
        // One comparison is all that most reads need.
        if word >= WORDS - 1 {
            return self.last_eight(at);
        }
        // Shifted in two steps: by 64 at once would be too far.
        self.word(word) >> shift | self.word(word + 1) << 1 << (63 - shift)
    }

    /// As [`PageBuf::eight`], from a place in the last word or outside the page.
    #[cold]
    fn last_eight(&self, at: usize) -> u64 {
        if at < PAGE_SIZE { self.word(WORDS - 1) >> (at % 8 * 8) } else { 0 }
    }

    /// Moves `len` bytes from `from` up to `to`, the last word first, so that nothing is
    /// overwritten that is still to be read.
    fn move_up(&self, from: usize, len: usize, to: usize) {
        let (first, end) = (to.next_multiple_of(8), to + len);
        if first >= end {
            return self.move_few(from, len, to);
        }
        let back = to - from;
        let (low, last) = (first / 8, end / 8);
        if end % 8 != 0 {
            self.merge(last, 0, self.eight(last * 8 - back), end % 8);
        }
        let mut at = last;
        while at >= low + RUN {
            at -= RUN;
            self.move_words::<RUN>(at * 8 - back, at);
        }
        (low..at).rev().for_each(|at| self.move_words::<1>(at * 8 - back, at));
        self.merge(to / 8, to % 8, self.eight(from), first - to);
    }

    /// Moves `len` bytes from `from` down to `to`, the first word first.
    fn move_down(&self, from: usize, len: usize, to: usize) {
        let (first, end) = (to.next_multiple_of(8), to + len);
        if first >= end {
            return self.move_few(from, len, to);
        }
        let ahead = from - to;
        self.merge(to / 8, to % 8, self.eight(from), first - to);
        let (mut at, last) = (first / 8, end / 8);
        while at + RUN <= last {
            self.move_words::<RUN>(at * 8 + ahead, at);
            at += RUN;
        }
        (at..last).for_each(|at| self.move_words::<1>(at * 8 + ahead, at));
        if end % 8 != 0 {
            self.merge(last, 0, self.eight(last * 8 + ahead), end % 8);
        }
    }

    /// Moves the bytes from `from` on, which lie in words anyhow, to the `N` words from word `to`
    /// on: all are loaded before one is stored.
    #[inline]
    fn move_words<const N: usize>(&self, from: usize, to: usize) {
        // SAFETY: only a `PageMut` moves bytes, while it is borrowed mutably and so no other thread
        // stores; the slice is not used any more at the first store below.
        let bytes = unsafe { self.bytes() };
        let (words, _) = bytes[from..from + 8 * N].as_chunks::<8>();
        let words: [u64; N] = std::array::from_fn(|i| u64::from_le_bytes(words[i]));
        for (slot, word) in self.0[to..to + N].iter().zip(words) {
            slot.store(word.to_le(), Ordering::Relaxed);
        }
    }

    /// Moves at most eight bytes.
    fn move_few(&self, from: usize, len: usize, to: usize) {
        assert!(len <= 8, "a move within two words");
        if len == 0 {
            return;
        }
        let bytes = self.eight(from).to_le_bytes();
        self.store(to, &bytes[..len]);
    }
}

/// Up to eight bytes as the low bytes of a little-endian word.
#[inline]
pub(crate) fn gather(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    assert!(len <= 8, "a word at most");
    // Two reads that overlap in the middle do for four to eight bytes.
    if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let high = u64::from(u32::from_le_bytes(*high)) << (8 * (len - 4));
        return high | u64::from(u32::from_le_bytes(*low));
    }
    // Three that may be the same one do for fewer.
    let at = |i: usize| bytes.get(i).map_or(0, |byte| u64::from(*byte) << (8 * i));
    at(0) | at(len / 2) | at(len.saturating_sub(1))
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

    /// Stores into a page that no other thread can see, without a record.
    pub fn owned(page: &'a mut PageBuf) -> Self {
        Self { page, delta: None }
    }

    /// Stores into a page that no other thread can see, recorded in `delta`.
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
            delta_encode::push_write(delta, offset, bytes);
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
        if to > from {
            self.page.move_up(from, len, to);
        } else if to < from {
            self.page.move_down(from, len, to);
        }
        if let Some(delta) = &mut self.delta {
            delta_encode::push_copy(delta, from, len, to);
        }
    }

    /// Logged fill of `len` bytes at `offset` with `byte`.
    pub fn fill(&mut self, offset: usize, len: usize, byte: u8) {
        assert!(offset + len <= PAGE_SIZE, "a fill inside the page");
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let step = (8 - at % 8).min(end - at);
            self.page.store(at, &[byte; 8][..step]);
            at += step;
        }
        if let Some(delta) = &mut self.delta {
            delta_encode::push_fill(delta, offset, len, byte);
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
            delta_encode::push_image(delta, image);
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
        let mut at = offset;
        for chunk in out.chunks_mut(8) {
            let bytes = self.eight(at).to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
            at += 8;
        }
    }

    /// The eight bytes from `offset` on as a little-endian word; zero outside the page.
    #[inline]
    pub fn eight(&self, offset: usize) -> u64 {
        self.0.eight(offset)
    }

    /// Little-endian u16 at `offset`, zero outside the page.
    pub fn u16(&self, offset: usize) -> u16 {
        self.eight(offset) as u16
    }

    /// Little-endian u32 at `offset`, zero outside the page.
    pub fn u32(&self, offset: usize) -> u32 {
        self.eight(offset) as u32
    }

    /// Word `index` of the page, as if read from little-endian bytes.
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        self.0.word(index)
    }

    /// Prefetches the cache line at `offset`, which is needed soon. Does nothing outside of the
    /// page.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        self.0.0.get(offset / 8).into_iter().for_each(prefetch_line);
    }
}

/// Asks the processor for the cache line that `wanted` begins in. Advice: it costs no wait and
/// changes nothing but time.
#[inline]
pub(crate) fn prefetch_line<T>(wanted: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch neither loads nor stores as far as a program can tell, and the address
        // is that of a reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(wanted).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = wanted;
}

#[cfg(test)]
mod tests {
    use super::*;
    use rightlink_env::Rng;

    /// Moves, fills and stores of any length between any two places do what slices do.
    #[test]
    fn stores_are_those_of_plain_bytes() {
        let mut rng = Rng::from_seed(3);
        let mut page = PageBuf::zeroed();
        let mut model = [0u8; PAGE_SIZE];
        rng.fill(&mut model);
        PageMut::owned(&mut page).write_unlogged(0, &model);
        for round in 0..20_000 {
            let most = [1, 9, 40, 2000, PAGE_SIZE][rng.index(5)];
            let len = rng.index(most + 1);
            let end = PAGE_SIZE - len + 1;
            let from = rng.index(end);
            let near = (from + rng.index(24)).saturating_sub(12).min(PAGE_SIZE - len);
            let to = if rng.chance(1, 2) { near } else { rng.index(end) };
            let mut target = PageMut::owned(&mut page);
            match round % 4 {
                0 => {
                    target.fill(to, len, round as u8);
                    model[to..to + len].fill(round as u8);
                }
                1 => {
                    let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
                    target.write(to, &bytes);
                    model[to..to + len].copy_from_slice(&bytes);
                }
                _ => {
                    target.copy_within(from, len, to);
                    model.copy_within(from..from + len, to);
                }
            }
            assert!(target.bytes() == &model, "round {round}: {len} bytes from {from} to {to}");
        }
    }
}
