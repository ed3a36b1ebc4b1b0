//! Reading a page that is latched, or one that is read optimistically (R11): one trait, two
//! sources.
//!
//! Invariants: no read panics or leaves the page, whatever offsets a damaged or changing page
//! holds. Bytes outside the page read as zero. What an optimistic source returns means nothing
//! until the page's version is validated.
//! Does not do: check the bytes (`node`).

use std::cmp::Ordering;

use crate::config::PAGE_SIZE;
use crate::page::PageView;
use crate::page::buf::gather;

/// Bytes of a page, wherever they come from.
pub(crate) trait PageRead: Copy {
    /// Little-endian u16 at `at`.
    fn u16(self, at: usize) -> u16;
    /// Little-endian u32 at `at`.
    fn u32(self, at: usize) -> u32;
    /// The eight bytes from `at` on as a little-endian word.
    fn u64(self, at: usize) -> u64;
    /// Word `index` of the page, as [`PageRead::u64`].
    fn word(self, index: usize) -> u64 {
        self.u64(index * 8)
    }

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

    /// The `len` bytes from `at`, in `out` if they must be copied.
    fn slice<'b>(self, at: usize, len: usize, out: &'b mut Vec<u8>) -> &'b [u8]
    where
        Self: 'b,
    {
        out.clear();
        self.append(at, len, out);
        out
    }

    /// Appends `len` bytes from `at` to `out`.
    fn append(self, at: usize, len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + len.min(PAGE_SIZE), 0);
        self.read(at, &mut out[start..]);
    }
}

impl PageRead for &[u8; PAGE_SIZE] {
    fn slice<'b>(self, at: usize, len: usize, _: &'b mut Vec<u8>) -> &'b [u8]
    where
        Self: 'b,
    {
        self.get(at..at + len).unwrap_or(&[])
    }

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
    fn u64(self, at: usize) -> u64 {
        match self.get(at..).and_then(|bytes| bytes.first_chunk::<8>()) {
            Some(eight) => u64::from_le_bytes(*eight),
            None => gather(self.get(at..).unwrap_or(&[])),
        }
    }

    #[inline]
    fn append(self, at: usize, len: usize, out: &mut Vec<u8>) {
        match self.get(at..at + len) {
            Some(bytes) => out.extend_from_slice(bytes),
            None => out.resize(out.len() + len.min(PAGE_SIZE), 0),
        }
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
        self.eight(at) as u16
    }

    #[inline]
    fn u32(self, at: usize) -> u32 {
        self.eight(at) as u32
    }

    #[inline]
    fn u64(self, at: usize) -> u64 {
        self.eight(at)
    }

    #[inline]
    fn word(self, index: usize) -> u64 {
        PageView::word(&self, index)
    }

    #[inline]
    fn u8(self, at: usize) -> u8 {
        let inside = at < PAGE_SIZE;
        if inside { (PageView::word(&self, at / 8) >> (at % 8 * 8)) as u8 } else { 0 }
    }

    fn read(self, at: usize, out: &mut [u8]) {
        PageView::read(&self, at, out);
    }

    #[inline]
    fn common(self, at: usize, len: usize, with: &[u8]) -> usize {
        let both = len.min(with.len()).min(PAGE_SIZE.saturating_sub(at));
        let (words, tail) = with[..both].as_chunks::<8>();
        for (i, word) in words.iter().enumerate() {
            let differ = self.eight(at + i * 8) ^ u64::from_le_bytes(*word);
            if differ != 0 {
                return i * 8 + differ.trailing_zeros() as usize / 8;
            }
        }
        let done = both - tail.len();
        if tail.is_empty() {
            return done;
        }
        let differ = self.eight(at + done) ^ gather(tail);
        done + (differ.trailing_zeros() as usize / 8).min(tail.len())
    }
}

/// How many leading bytes of `a` and `b` are equal.
#[inline]
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    let both = a.len().min(b.len());
    let ((words, tail), (others, rest)) = (a[..both].as_chunks::<8>(), b[..both].as_chunks::<8>());
    for (i, (x, y)) in words.iter().zip(others).enumerate() {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return i * 8 + differ.trailing_zeros() as usize / 8;
        }
    }
    let differ = gather(tail) ^ gather(rest);
    words.len() * 8 + (differ.trailing_zeros() as usize / 8).min(tail.len())
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
            assert_eq!(PageRead::u64(page.view(), at), PageRead::u64(&image, at), "{at}");
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
        for at in [PAGE_SIZE, PAGE_SIZE + 9, usize::MAX - 8] {
            assert_eq!((page.view().u8(at), PageRead::u64(page.view(), at)), (0, 0));
        }
    }
}
