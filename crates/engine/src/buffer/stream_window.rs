//! The window of a read stream: the entries that were asked for and not delivered, and their
//! blocks.
//!
//! Most rows of a scan need the same block as the row before, or one nearby. So each entry holds
//! the place of its block. The hash table of blocks is used only when an entry comes in, and when
//! neighbours are joined.
//!
//! Invariants: every block of the window has an entry; a block is in the window once, however many
//! entries need it.
//! Does not do: read; choose the entry that is delivered next.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use crate::ids::PageId;

/// One entry that was asked for and not delivered.
struct WindowEntry<T> {
    /// The page that it needs, and the place of its block.
    page: Option<(PageId, u32)>,
    /// Rows that can be delivered from here to the next entry.
    rows: u32,
    tag: T,
}

/// A block that entries of the window need.
#[derive(Clone, Copy, Default)]
pub(super) struct Block {
    /// How many.
    entries: u32,
    /// It was in memory or being read, since the last delivery of an entry of it.
    pub(super) near: bool,
    /// The stream has started a read of it.
    pub(super) issued: bool,
    /// The first block that was needed of its read.
    pub(super) leads: bool,
}

/// Hashes a page's number; it is spread already by one multiplication.
#[derive(Default)]
struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0.rotate_left(32) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 29;
    }
}

/// The window.
pub(super) struct Window<T> {
    entries: VecDeque<WindowEntry<T>>,
    /// Where the blocks of the window are.
    places: HashMap<PageId, u32, BuildHasherDefault<PageHasher>>,
    blocks: Vec<Block>,
    /// Places of blocks that are free.
    free: Vec<u32>,
    /// Rows of all entries.
    rows: u64,
}

impl<T> Default for Window<T> {
    fn default() -> Self {
        let (entries, places) = (VecDeque::new(), HashMap::default());
        Self { entries, places, blocks: Vec::new(), free: Vec::new(), rows: 0 }
    }
}

impl<T> Window<T> {
    /// Bytes that one entry takes, with a block of its own.
    pub(super) const ENTRY_BYTES: usize =
        size_of::<WindowEntry<T>>() + 2 * size_of::<(PageId, u32)>() + size_of::<Block>();

    /// Entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Rows of all entries.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Distinct blocks of them.
    pub(super) fn blocks(&self) -> usize {
        self.places.len()
    }

    /// The page that the entry at `place` needs.
    pub(super) fn page(&self, place: usize) -> Option<PageId> {
        self.entries[place].page.map(|(page, _)| page)
    }

    /// The pages that entries from `place` on need.
    pub(super) fn pages_from(&self, place: usize) -> impl Iterator<Item = Option<PageId>> {
        self.entries.range(place..).map(|entry| entry.page.map(|(page, _)| page))
    }

    /// The page that the last entry needs.
    pub(super) fn last_page(&self) -> Option<PageId> {
        self.entries.back()?.page.map(|(page, _)| page)
    }

    /// The state of the block that the entry at `place` needs.
    pub(super) fn block(&mut self, place: usize) -> Option<&mut Block> {
        let (_, block) = self.entries[place].page?;
        Some(&mut self.blocks[block as usize])
    }

    /// The state of the block of `page`, if an entry needs it.
    pub(super) fn block_of(&self, page: PageId) -> Option<&Block> {
        self.places.get(&page).map(|place| &self.blocks[*place as usize])
    }

    /// The same.
    pub(super) fn block_of_mut(&mut self, page: PageId) -> Option<&mut Block> {
        self.places.get(&page).map(|place| &mut self.blocks[*place as usize])
    }

    /// Adds an entry of so many rows.
    pub(super) fn push(&mut self, page: Option<PageId>, rows: u32, tag: T) {
        let page = page.map(|page| {
            let place = self.place_of(page);
            self.blocks[place as usize].entries += 1;
            (page, place)
        });
        self.rows += u64::from(rows);
        self.entries.push_back(WindowEntry { page, rows, tag });
    }

    fn place_of(&mut self, page: PageId) -> u32 {
        if let Some((last, place)) = self.entries.back().and_then(|entry| entry.page)
            && last == page
            && self.blocks[place as usize].entries > 0
        {
            return place;
        }
        let (free, blocks) = (&mut self.free, &mut self.blocks);
        *self.places.entry(page).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                blocks.push(Block::default());
                blocks.len() as u32 - 1
            })
        })
    }

    /// The page of the entry at `place` is about to be delivered: takes the state of its block.
    /// Other entries find it in memory.
    pub(super) fn take_block(&mut self, place: usize) -> Block {
        let (page, at) = self.entries[place].page.expect("an entry that needs a page");
        let block = &mut self.blocks[at as usize];
        let before = *block;
        assert!(before.entries > 0, "every block of the window is known");
        *block = Block { entries: before.entries - 1, ..Block::default() };
        if block.entries == 0 {
            self.places.remove(&page);
            self.free.push(at);
        }
        before
    }

    /// Takes out the entry at `place`, whose block was taken before: its tag and its rows.
    pub(super) fn remove(&mut self, place: usize) -> (T, u32) {
        let entry = if place == 0 { self.entries.pop_front() } else { self.entries.remove(place) };
        let entry = entry.expect("the entry was just looked at");
        self.rows -= u64::from(entry.rows);
        (entry.tag, entry.rows)
    }

    /// Forgets all entries.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.rows = 0;
        self.places.clear();
        self.blocks.clear();
        self.free.clear();
    }
}
