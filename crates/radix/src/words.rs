//! The memory of a tree: words in segments that grow and never move.
//!
//! A place is named by its granule (four words), so 32 bits reach 16 GiB. Pages of 1024 granules
//! lie in segments; each doubling of the memory is cut into 32 segments, so that at most a 32nd of
//! it is allocated before it is needed, and the segment of a granule is found by arithmetic alone.
//!
//! Invariants: every word is atomic, and a segment stays where it is until the tree is dropped. So
//! a reader may look at any place at any time: what it reads may be senseless while a writer works,
//! but never undefined; a place outside of the memory reads as zero. Ordering is the business of
//! `shared`.
//! Does not do: knowing which granules are in use (`slabs`).

use rightlink_env::sync::{AtomicU64, OnceLock, Ordering};

/// Words of a granule, the unit of addresses.
pub(crate) const GRANULE: usize = 4;
/// Granules of a page, the unit that size classes are given memory in.
pub(crate) const PAGE_GRANULES: u32 = 1024;
/// Words of a page.
pub(crate) const PAGE_WORDS: usize = PAGE_GRANULES as usize * GRANULE;
/// Most pages: as many as 29 bits of granules reach.
pub(crate) const MAX_PAGES: u32 = 1 << 19;

/// Segments of each doubling, as a power of two.
const FAN_BITS: u32 = 5;
/// Segments in all: those of one page, then `1 << FAN_BITS` for each doubling.
const SEGMENTS: usize = ((20 - FAN_BITS) << FAN_BITS) as usize;
/// Words of a cache line.
const LINE: usize = 8;

/// A cache line.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Line([AtomicU64; LINE]);

/// All words of a tree.
#[derive(Debug)]
pub(crate) struct Words {
    segments: Box<[OnceLock<Box<[Line]>>; SEGMENTS]>,
}

/// Where a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    segment: usize,
    /// Granules of a segment here are `1 << bits`.
    bits: u32,
}

/// The segment that holds a page.
#[inline(always)]
fn place(page: u32) -> Place {
    let step = (page | 1 << FAN_BITS).ilog2() - FAN_BITS;
    let segment = (step << FAN_BITS) + (page >> step);
    Place { segment: segment as usize, bits: step + PAGE_GRANULES.ilog2() }
}

impl Words {
    pub(crate) fn new() -> Words {
        Words { segments: Box::new([const { OnceLock::new() }; SEGMENTS]) }
    }

    /// Bytes of the table of segments.
    pub(crate) const fn table_bytes() -> usize {
        size_of::<[OnceLock<Box<[Line]>>; SEGMENTS]>()
    }

    /// Bytes to allocate before `page` can be used; nothing for most, since segments hold several.
    pub(crate) fn bytes_to_open(page: u32) -> usize {
        let Place { bits, .. } = place(page);
        let first_of_segment = (page << PAGE_GRANULES.ilog2()).trailing_zeros() >= bits;
        if first_of_segment { size_of::<u64>() * (GRANULE << bits) } else { 0 }
    }

    /// Makes `page` usable. Returns the bytes that this allocated.
    pub(crate) fn open(&self, page: u32) -> usize {
        assert!(page < MAX_PAGES, "addresses have 29 bits");
        let Place { segment, bits } = place(page);
        let mut bytes = 0;
        self.segments[segment].get_or_init(|| {
            let lines = (GRANULE << bits) / LINE;
            bytes = lines * LINE * size_of::<u64>();
            (0..lines).map(|_| Line::default()).collect()
        });
        bytes
    }

    /// The words from `granule` on; none if there is no such place.
    #[inline(always)]
    pub(crate) fn at(&self, granule: u32) -> Node<'_> {
        let Place { segment, bits } = place(granule / PAGE_GRANULES);
        let inside = (granule & ((1 << bits) - 1)) as usize * GRANULE;
        let lines = self.segments.get(segment).and_then(OnceLock::get);
        let lines = lines.and_then(|lines| lines.get(inside / LINE..)).unwrap_or(&[]);
        Node { lines, first: inside % LINE }
    }
}

/// Words from some place on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    lines: &'a [Line],
    first: usize,
}

impl Node<'_> {
    /// Word `i`; zero outside of the memory.
    #[inline(always)]
    pub(crate) fn word(self, i: usize) -> u64 {
        let at = self.first + i;
        self.lines.get(at / LINE).map_or(0, |line| line.0[at % LINE].load(Ordering::Relaxed))
    }

    /// Stores word `i`.
    #[inline]
    pub(crate) fn set(self, i: usize, value: u64) {
        let at = self.first + i;
        self.lines[at / LINE].0[at % LINE].store(value, Ordering::Relaxed);
    }

    /// Half-word `i` of those that begin at word `base`.
    #[inline(always)]
    pub(crate) fn half(self, base: usize, i: usize) -> u32 {
        (self.word(base + i / 2) >> (i % 2 * 32)) as u32
    }

    /// Stores half-word `i` of those that begin at word `base`.
    pub(crate) fn set_half(self, base: usize, i: usize, value: u32) {
        let (at, shift) = (base + i / 2, i % 2 * 32);
        let kept = self.word(at) & !(0xFFFF_FFFF << shift);
        self.set(at, kept | u64::from(value) << shift);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn every_page_lies_in_one_segment_and_segments_follow_each_other() {
        let mut last = place(0);
        for page in 1..20_000 {
            let next = place(page);
            let inside = page << PAGE_GRANULES.ilog2() & ((1 << next.bits) - 1);
            assert_eq!(next.segment == last.segment + 1, inside == 0, "page {page}");
            assert!(next.segment == last.segment || inside == 0);
            assert_eq!(Words::bytes_to_open(page) > 0, inside == 0);
            last = next;
        }
        assert_eq!(place(MAX_PAGES - 1).segment, SEGMENTS - 1);
    }

    #[test]
    fn words_stay_and_nothing_is_outside() {
        let words = Words::new();
        assert_eq!(words.at(7).word(0), 0);
        for page in 0..70 {
            assert_eq!(Words::bytes_to_open(page), words.open(page));
            words.at(page * PAGE_GRANULES + 3).set(2, u64::from(page) + 1);
        }
        for page in 0..70 {
            assert_eq!(words.at(page * PAGE_GRANULES + 3).word(2), u64::from(page) + 1);
        }
        assert_eq!(words.at(u32::MAX).word(0), 0);
        assert_eq!(words.at(0).word(PAGE_WORDS * 3), 0);
        words.at(0).set_half(4, 3, 9);
        assert_eq!((words.at(0).half(4, 3), words.at(0).half(4, 2)), (9, 0));
    }
}
