//! Which granules are in use: blocks of about 45 sizes, each page cut into blocks of one size.
//!
//! A page whose last block is freed can serve any size again, so that leaves that all grow from one
//! size to the next leave no trail of small blocks behind.
//!
//! Invariants: a block of `n` words was taken from the smallest class that holds them and no block
//! is given out twice; `memory` is what the allocator of the process was asked for, to the byte.
//! Does not do: blocks larger than a page.

use crate::words::{GRANULE, MAX_PAGES, PAGE_GRANULES, PAGE_WORDS, Words};

/// Words of each class; each divides a page with little rest. Measured: finer steps save no more
/// than a few percent, because a leaf's own spare words are a small part of it.
const CLASSES: [u16; 43] = [
    4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144,
    152, 168, 184, 200, 224, 240, 256, 272, 292, 312, 340, 372, 408, 452, 512, 584, 680, 816, 1024,
    2048, 4096,
];

/// The class of a block by its granules.
const CLASS_OF: [u8; PAGE_GRANULES as usize + 1] = classes_by_granules();

const fn classes_by_granules() -> [u8; PAGE_GRANULES as usize + 1] {
    let mut table = [0; PAGE_GRANULES as usize + 1];
    let (mut granules, mut class) = (0, 0);
    while granules < table.len() {
        if granules * GRANULE > CLASSES[class] as usize {
            class += 1;
        }
        table[granules] = class as u8;
        granules += 1;
    }
    table
}

/// No page, or no class.
const NONE: u32 = u32::MAX;
const FREE: u8 = u8::MAX;

/// What is known of a page.
#[derive(Clone, Copy, Debug)]
struct Page {
    /// Neighbours in the list of its class's pages with room, or the next of the free pages.
    prev: u32,
    next: u32,
    /// Blocks in use.
    used: u16,
    /// Granules given out for the first time.
    fresh: u16,
    /// First freed block, as granules into the page plus one; the rest hang on its first word.
    freed: u16,
    class: u8,
}

/// Gives out blocks and takes them back.
#[derive(Debug)]
pub(crate) struct Slabs {
    pages: Vec<Page>,
    /// First page with room of each class.
    with_room: [u32; CLASSES.len()],
    free_pages: u32,
    free_count: u32,
    /// Bytes of all pages and the steps of their table.
    page_bytes: usize,
    /// Blocks in use of each class.
    blocks: [u32; CLASSES.len()],
}

impl Slabs {
    pub(crate) fn new() -> Slabs {
        Slabs {
            pages: Vec::new(),
            with_room: [NONE; CLASSES.len()],
            free_pages: NONE,
            free_count: 0,
            page_bytes: 0,
            blocks: [0; CLASSES.len()],
        }
    }

    /// Bytes allocated by the tree, to the byte.
    pub(crate) fn memory(&self) -> usize {
        self.page_bytes + Words::table_bytes() + self.pages.capacity() * size_of::<Page>()
    }

    /// An upper bound of what [`Slabs::memory`] becomes if `pages` more pages are needed.
    pub(crate) fn memory_with(&self, pages: u32) -> usize {
        let opened = self.pages.len() as u32;
        let wanted = pages.saturating_sub(self.free_count);
        let opening: usize = (opened..opened + wanted).map(Words::bytes_to_open).sum();
        let needed = self.pages.len() + wanted as usize;
        let table = if needed > self.pages.capacity() { 2 * needed.max(4) } else { 0 };
        self.memory() + opening + table * size_of::<Page>()
    }

    /// Words of a block of at least `words` words.
    pub(crate) fn rounded(words: usize) -> usize {
        usize::from(CLASSES[usize::from(CLASS_OF[words.div_ceil(GRANULE)])])
    }

    /// Words of the block at `granule`.
    pub(crate) fn words_of(&self, granule: u32) -> usize {
        let page = &self.pages[(granule / PAGE_GRANULES) as usize];
        assert!(page.class != FREE && page.used > 0, "the block is in use");
        usize::from(CLASSES[usize::from(page.class)])
    }

    /// Blocks in use of each class that has some: words, blocks.
    pub(crate) fn census(&self) -> Vec<(usize, u32)> {
        let classes = CLASSES.iter().zip(self.blocks);
        classes.filter(|(_, count)| *count > 0).map(|(&n, count)| (n.into(), count)).collect()
    }

    /// A block of at least `words` words, whose contents are whatever was there.
    pub(crate) fn alloc(&mut self, words: &Words, size: usize) -> u32 {
        assert!((1..=PAGE_WORDS).contains(&size), "a block fits a page");
        let class = CLASS_OF[size.div_ceil(GRANULE)];
        let mut number = self.with_room[usize::from(class)];
        if number == NONE {
            number = self.new_page(words, class);
        }
        self.blocks[usize::from(class)] += 1;
        let page = &mut self.pages[number as usize];
        page.used += 1;
        let inside = if page.freed > 0 {
            let inside = page.freed - 1;
            page.freed = words.at(number * PAGE_GRANULES + u32::from(inside)).word(0) as u16;
            inside
        } else {
            let inside = page.fresh;
            page.fresh += CLASSES[usize::from(class)] / GRANULE as u16;
            inside
        };
        if self.is_full(number) {
            self.unlink(number);
        }
        number * PAGE_GRANULES + u32::from(inside)
    }

    /// Takes the block at `granule` back.
    pub(crate) fn free(&mut self, words: &Words, granule: u32) {
        let number = granule / PAGE_GRANULES;
        let was_full = self.is_full(number);
        let page = &mut self.pages[number as usize];
        assert!(page.class != FREE && page.used > 0, "the block is in use");
        self.blocks[usize::from(page.class)] -= 1;
        words.at(granule).set(0, u64::from(page.freed));
        page.freed = (granule % PAGE_GRANULES) as u16 + 1;
        page.used -= 1;
        if was_full {
            self.link(number);
        }
        if self.pages[number as usize].used == 0 {
            self.unlink(number);
            let page = &mut self.pages[number as usize];
            (page.class, page.next) = (FREE, self.free_pages);
            self.free_pages = number;
            self.free_count += 1;
        }
    }

    fn is_full(&self, number: u32) -> bool {
        let page = &self.pages[number as usize];
        let size = CLASSES[usize::from(page.class)] / GRANULE as u16;
        page.freed == 0 && page.fresh + size > PAGE_GRANULES as u16
    }

    fn new_page(&mut self, words: &Words, class: u8) -> u32 {
        let page = Page { prev: NONE, next: NONE, used: 0, fresh: 0, freed: 0, class };
        let number = self.free_pages;
        let number = if number == NONE {
            let number = self.pages.len() as u32;
            assert!(number < MAX_PAGES, "addresses have 27 bits");
            self.page_bytes += words.open(number);
            self.pages.push(page);
            number
        } else {
            self.free_pages = self.pages[number as usize].next;
            self.free_count -= 1;
            self.pages[number as usize] = page;
            number
        };
        self.link(number);
        number
    }

    fn link(&mut self, number: u32) {
        let head = &mut self.with_room[usize::from(self.pages[number as usize].class)];
        let next = std::mem::replace(head, number);
        (self.pages[number as usize].prev, self.pages[number as usize].next) = (NONE, next);
        if next != NONE {
            self.pages[next as usize].prev = number;
        }
    }

    fn unlink(&mut self, number: u32) {
        let Page { prev, next, class, .. } = self.pages[number as usize];
        if next != NONE {
            self.pages[next as usize].prev = prev;
        }
        if prev != NONE {
            self.pages[prev as usize].next = next;
        } else {
            assert_eq!(self.with_room[usize::from(class)], number, "first of its list");
            self.with_room[usize::from(class)] = next;
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use rightlink_env::Rng;

    #[test]
    fn classes_ascend_in_granules_and_waste_little_of_a_page() {
        assert!(CLASSES.is_sorted() && CLASSES.iter().all(|n| usize::from(*n) % GRANULE == 0));
        assert!(CLASSES.iter().all(|n| PAGE_WORDS % usize::from(*n) <= PAGE_WORDS / 12));
        for words in (1..=PAGE_WORDS).step_by(if cfg!(miri) { 97 } else { 1 }) {
            let class = Slabs::rounded(words);
            assert!(class >= words && !CLASSES.iter().any(|&n| (words..class).contains(&n.into())));
        }
    }

    #[test]
    fn blocks_never_overlap_and_all_pages_come_back() {
        let (words, mut slabs) = (Words::new(), Slabs::new());
        let mut rng = Rng::from_seed(1);
        let mut live: Vec<(u32, usize)> = Vec::new();
        let rounds = if cfg!(miri) { 100 } else { 20_000 };
        for round in 0..rounds {
            if rng.chance(3, 5) {
                let most = if rng.chance(1, 9) { PAGE_WORDS } else { 60 };
                let size = 1 + rng.index(most);
                let bound = slabs.memory_with(1);
                let at = slabs.alloc(&words, size);
                assert!(slabs.memory() <= bound && slabs.words_of(at) >= size);
                words.at(at).set(0, round);
                words.at(at).set(size - 1, round);
                live.push((at, size));
            } else if !live.is_empty() {
                let (at, size) = live.swap_remove(rng.index(live.len()));
                let node = words.at(at);
                assert!(size == 1 || node.word(0) == node.word(size - 1), "not overwritten");
                slabs.free(&words, at);
            }
        }
        let before = slabs.memory();
        live.drain(..).for_each(|(at, _)| slabs.free(&words, at));
        assert_eq!(slabs.free_count as usize, slabs.pages.len());
        assert!(slabs.census().is_empty() && slabs.memory() == before);
    }
}
