//! The memory of a tree: words in pages that never move.
//!
//! A place is named by its granule (four words), so 27 bits reach 4 GiB. Pages of 1024 granules
//! hang in a table of two steps, whose second step grows with the memory.
//!
//! Invariants: every word is atomic, so that a node is changed through a shared reference; the tree
//! has one owner, and no ordering is needed. A page stays where it is until the tree is dropped. A
//! place outside of the memory reads as zero.
//! Does not do: knowing which granules are in use (`slabs`).

use rightlink_env::sync::{AtomicU64, OnceLock, Ordering};

/// Words of a granule, the unit of addresses.
pub(crate) const GRANULE: usize = 4;
/// Granules of a page, the unit that size classes are given memory in.
pub(crate) const PAGE_GRANULES: u32 = 1024;
/// Words of a page.
pub(crate) const PAGE_WORDS: usize = PAGE_GRANULES as usize * GRANULE;
/// Most pages: as many as 27 bits of granules reach.
pub(crate) const MAX_PAGES: u32 = 1 << 17;

/// Pages of a second step of the table.
const STEP: usize = 256;
/// Second steps.
const STEPS: usize = MAX_PAGES as usize / STEP;
/// A page, on cache lines of its own so that a node's head and bitmap share one.
#[repr(align(64))]
#[derive(Debug)]
struct Page(PageWords);

#[cfg(not(feature = "shuttle"))]
type PageWords = [AtomicU64; PAGE_WORDS];
/// The model's words are large, and its stacks are small.
#[cfg(feature = "shuttle")]
type PageWords = Box<[AtomicU64]>;

type Step = [OnceLock<Box<Page>>; STEP];

/// What a place outside of the memory shows.
static NOWHERE: OnceLock<Box<Page>> = OnceLock::new();

/// All words of a tree.
#[derive(Debug)]
pub(crate) struct Words {
    /// The step of the first 8 MiB, which most trees never leave.
    first: Box<Step>,
    steps: Box<[OnceLock<Box<Step>>; STEPS]>,
}

#[cfg(not(feature = "shuttle"))]
fn new_page() -> Box<Page> {
    Box::new(Page([const { AtomicU64::new(0) }; PAGE_WORDS]))
}

#[cfg(feature = "shuttle")]
fn new_page() -> Box<Page> {
    Box::new(Page((0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect()))
}

fn new_step() -> Box<Step> {
    Box::new([const { OnceLock::new() }; STEP])
}

impl Words {
    pub(crate) fn new() -> Words {
        Words { first: new_step(), steps: Box::new([const { OnceLock::new() }; STEPS]) }
    }

    /// Bytes of the table before any page is open.
    pub(crate) const fn table_bytes() -> usize {
        size_of::<Step>() + size_of::<[OnceLock<Box<Step>>; STEPS]>()
    }

    /// Bytes to allocate before `page`, the next one, can be used.
    pub(crate) fn bytes_to_open(page: u32) -> usize {
        let new_step = page > 0 && (page as usize).is_multiple_of(STEP);
        size_of::<Page>() + if new_step { size_of::<Step>() } else { 0 }
    }

    /// Makes `page`, the next one, usable. Returns the bytes that this allocated.
    pub(crate) fn open(&self, page: u32) -> usize {
        assert!(page < MAX_PAGES, "addresses have 27 bits");
        let page_of_step = page as usize % STEP;
        let step = match page as usize / STEP {
            0 => &self.first,
            later => self.steps[later].get_or_init(new_step),
        };
        let opened = step[page_of_step].set(new_page());
        assert!(opened.is_ok(), "a page is opened once");
        Words::bytes_to_open(page)
    }

    /// The words from `granule` on.
    #[inline(always)]
    pub(crate) fn at(&self, granule: u32) -> Node<'_> {
        let number = (granule / PAGE_GRANULES) as usize;
        let step =
            if number < STEP { Some(&self.first) } else { self.steps[number / STEP % STEPS].get() };
        let page = step.and_then(|step| step[number % STEP].get());
        let page = match page {
            Some(page) => page,
            None => nowhere(),
        };
        Node { page, first: (granule % PAGE_GRANULES) as usize * GRANULE }
    }
}

#[cold]
fn nowhere() -> &'static Page {
    NOWHERE.get_or_init(new_page)
}

/// Words from some place of a page on. Beyond the page's end they go on at its beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    page: &'a Page,
    first: usize,
}

impl Node<'_> {
    #[inline(always)]
    fn at(&self, i: usize) -> &AtomicU64 {
        &self.page.0[(self.first + i) % PAGE_WORDS]
    }

    /// Word `i`.
    #[inline(always)]
    pub(crate) fn word(self, i: usize) -> u64 {
        self.at(i).load(Ordering::Relaxed)
    }

    /// Stores word `i`.
    #[inline]
    pub(crate) fn set(self, i: usize, value: u64) {
        debug_assert!(self.first + i < PAGE_WORDS, "inside of the page");
        self.at(i).store(value, Ordering::Relaxed);
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
    fn words_stay_and_nothing_is_outside() {
        let words = Words::new();
        assert_eq!(words.at(7).word(0), 0);
        let pages = if cfg!(miri) { 2 } else { 300 };
        for page in 0..pages {
            assert_eq!(Words::bytes_to_open(page), words.open(page));
            words.at(page * PAGE_GRANULES + 3).set(2, u64::from(page) + 1);
        }
        for page in 0..pages {
            assert_eq!(words.at(page * PAGE_GRANULES + 3).word(2), u64::from(page) + 1);
        }
        assert_eq!(words.at(u32::MAX).word(0), 0);
        assert_eq!(words.at(1).word(PAGE_WORDS * 3), 0);
        words.at(0).set_half(4, 3, 9);
        assert_eq!((words.at(0).half(4, 3), words.at(0).half(4, 2)), (9, 0));
    }
}
