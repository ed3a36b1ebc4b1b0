//! Reading a page that is either latched or read optimistically (R11): one trait, two kinds of
//! source.
//!
//! Invariants: no read panics or leaves the page, whatever the offsets in a damaged or changing
//! page say; bytes outside the page read as zero. What an optimistic source returns means nothing
//! before it validates.
//! Does not do: judge the bytes (`node`).

use std::cmp::Ordering;

use crate::config::PAGE_SIZE;
use crate::page::PageView;

/// Bytes of a page, wherever they come from.
pub(crate) trait PageRead: Copy {
    /// Little-endian u16 at `at`.
    fn u16(self, at: usize) -> u16;
    /// Little-endian u32 at `at`.
    fn u32(self, at: usize) -> u32;
    /// Copies the bytes from `at`.
    fn read(self, at: usize, out: &mut [u8]);
    /// How many of the `len` page bytes from `at` are equal to the beginning of `with`.
    fn common(self, at: usize, len: usize, with: &[u8]) -> usize;

    /// Order of the `len` page bytes from `at` against `with`, a shorter one first when one opens
    /// the other.
    fn compare(self, at: usize, len: usize, with: &[u8]) -> Ordering {
        let same = self.common(at, len, with);
        if same == len.min(with.len()) {
            len.cmp(&with.len())
        } else {
            self.u8(at + same).cmp(&with[same])
        }
    }

    /// The byte at `at`.
    fn u8(self, at: usize) -> u8 {
        let mut out = [0];
        self.read(at, &mut out);
        out[0]
    }

    /// Appends `len` bytes from `at` to `out`.
    fn append(self, at: usize, len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + len.min(PAGE_SIZE), 0);
        self.read(at, &mut out[start..]);
    }
}

impl PageRead for &[u8; PAGE_SIZE] {
    #[inline]
    fn u16(self, at: usize) -> u16 {
        self.get(at..at + 2).map_or(0, |pair| u16::from_le_bytes([pair[0], pair[1]]))
    }

    #[inline]
    fn u32(self, at: usize) -> u32 {
        let bytes = self.get(at..at + 4).and_then(|four| four.first_chunk::<4>());
        bytes.map_or(0, |four| u32::from_le_bytes(*four))
    }

    #[inline]
    fn read(self, at: usize, out: &mut [u8]) {
        match self.get(at..at + out.len()) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => out.fill(0),
        }
    }

    #[inline]
    fn common(self, at: usize, len: usize, with: &[u8]) -> usize {
        common(self.get(at..at + len).unwrap_or(&[]), with)
    }

    #[inline]
    fn u8(self, at: usize) -> u8 {
        self.get(at).copied().unwrap_or(0)
    }
}

impl PageRead for PageView<'_> {
    #[inline]
    fn u16(self, at: usize) -> u16 {
        let (word, shift) = (at / 8, at % 8 * 8);
        if at + 2 <= PAGE_SIZE && shift <= 48 {
            (self.word(word) >> shift) as u16
        } else {
            PageView::u16(&self, at)
        }
    }

    #[inline]
    fn u32(self, at: usize) -> u32 {
        let (word, shift) = (at / 8, at % 8 * 8);
        if at + 4 > PAGE_SIZE {
            return PageView::u32(&self, at);
        }
        let low = self.word(word) >> shift;
        // What reaches into the next word lies above the 64 - shift bits of this one.
        let high = if shift > 32 { self.word(word + 1) << (64 - shift) } else { 0 };
        (low | high) as u32
    }

    #[inline]
    fn u8(self, at: usize) -> u8 {
        if at < PAGE_SIZE { (self.word(at / 8) >> (at % 8 * 8)) as u8 } else { 0 }
    }

    fn read(self, at: usize, out: &mut [u8]) {
        PageView::read(&self, at, out);
    }

    fn common(self, at: usize, len: usize, with: &[u8]) -> usize {
        let both = len.min(with.len()).min(PAGE_SIZE.saturating_sub(at));
        let (mut word, skip) = (at / 8, at % 8);
        let mut done = 0;
        let mut from = skip;
        while done < both {
            // The bytes of this word from `from` on, against as many of the other side.
            let here = self.word(word) >> (from * 8);
            let width = (8 - from).min(both - done);
            let mut bytes = [0; 8];
            bytes[..width].copy_from_slice(&with[done..done + width]);
            let differ = (here ^ u64::from_le_bytes(bytes)).trailing_zeros() as usize / 8;
            if differ < width {
                return done + differ;
            }
            (done, word, from) = (done + width, word + 1, 0);
        }
        both
    }
}

/// How many leading bytes of `a` and `b` are equal.
#[inline]
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    let both = a.len().min(b.len());
    let (a, b) = (&a[..both], &b[..both]);
    let mut done = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let x = u64::from_le_bytes(x.try_into().expect("eight bytes"));
        let y = u64::from_le_bytes(y.try_into().expect("eight bytes"));
        if x != y {
            return done + (x ^ y).trailing_zeros() as usize / 8;
        }
        done += 8;
    }
    done + a[done..].iter().zip(&b[done..]).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{PageBuf, PageMut};

    /// Both sources answer alike at every offset, the ends of the page and beyond included.
    #[test]
    fn latched_and_optimistic_reads_agree() {
        let mut page = PageBuf::zeroed();
        let image: [u8; PAGE_SIZE] = std::array::from_fn(|i| (i * 7 + i / 256) as u8);
        PageMut::owned(&mut page).write_unlogged(0, &image);
        for at in (0..100).chain(PAGE_SIZE - 70..PAGE_SIZE) {
            assert_eq!(page.view().u8(at), PageRead::u8(&image, at));
            if at + 4 <= PAGE_SIZE {
                assert_eq!(PageRead::u16(page.view(), at), PageRead::u16(&image, at), "{at}");
                assert_eq!(PageRead::u32(page.view(), at), PageRead::u32(&image, at), "{at}");
            }
            for len in [0, 1, 5, 31, 32, 33, 60] {
                let end = (at + len).min(PAGE_SIZE);
                let mut other = image[at..end].to_vec();
                let len = other.len();
                assert_eq!(page.view().compare(at, len, &other), Ordering::Equal);
                other.push(0);
                assert_eq!(page.view().compare(at, len, &other), (&image).compare(at, len, &other));
                other.truncate(len / 2);
                assert_eq!(page.view().compare(at, len, &other), (&image).compare(at, len, &other));
            }
        }
        assert_eq!(PageRead::u32(&image, PAGE_SIZE), 0);
        assert_eq!(PageRead::u32(page.view(), PAGE_SIZE + 9), 0);
    }
}
