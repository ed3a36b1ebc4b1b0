//! The meta page (block 0), and free pages.
//!
//! | offset | bytes | content of the meta page |
//! |---|---|---|
//! | 32 | 4 | bits of the largest bucket number |
//! | 36 | 4 | blocks in use; the blocks from there on were never written |
//! | 40 | 4 | first free page, 0: none |
//! | 44 | 4 | number of free pages |
//! | 48 | 16 | 0 |
//! | 64 | 4 each | blocks of the directory's pages, 0: not made yet |
//!
//! A free page, of kind `HashFree`, holds the block of the next one at offset 32.
//!
//! Invariants: the first page of entries is block 1.
//! Does not do: allocate blocks (`blocks`); bucket numbers (`directory`).

use crate::config::PAGE_SIZE;
use crate::index::hash::page::directory::{MAX_BUCKETS, MAX_PAGES};
use crate::index::hash::page::hash_code::bit_count;
use crate::page::header::{self, HEADER_SIZE, LOWER, u32_at};
use crate::page::{Checked, PageKind, PageMut};

const DEPTH: usize = HEADER_SIZE;
const USED: usize = HEADER_SIZE + 4;
const FREE: usize = HEADER_SIZE + 8;
const FREE_COUNT: usize = HEADER_SIZE + 12;
const DIRECTORY: usize = HEADER_SIZE + 32;
/// Offset of the next free page on a free page.
const NEXT: usize = HEADER_SIZE;

/// Block of the first page of entries.
pub(crate) const FIRST: u32 = 1;
/// Block of the first page of the directory of a new index.
pub(crate) const FIRST_DIRECTORY: u32 = 2;

const _: () = assert!(DIRECTORY + 4 * MAX_PAGES <= PAGE_SIZE, "the directory's blocks fit");

type Page = [u8; PAGE_SIZE];

/// The meta page, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Bits of the largest bucket number.
    pub(crate) depth: u32,
    /// Blocks in use.
    pub(crate) used: u32,
    /// First free page, 0: none.
    pub(crate) free: u32,
    /// Free pages.
    pub(crate) free_count: u32,
    /// Blocks of the directory, 0 where there is none.
    pub(crate) directory: Vec<u32>,
}

/// Reads a meta page.
pub(crate) fn parse(page: &Page) -> Checked<Meta> {
    if header::kind(page) != Some(PageKind::HashMeta) {
        return Err("block 0 is not the meta page of a hash index");
    }
    let directory: Vec<u32> = (0..MAX_PAGES).map(|i| u32_at(page, DIRECTORY + 4 * i)).collect();
    let meta = Meta {
        depth: u32_at(page, DEPTH),
        used: u32_at(page, USED),
        free: u32_at(page, FREE),
        free_count: u32_at(page, FREE_COUNT),
        directory,
    };
    let outside = |block: &u32| *block >= meta.used;
    if meta.depth > bit_count(MAX_BUCKETS - 1)
        || meta.used <= FIRST_DIRECTORY
        || outside(&meta.free)
        || (meta.free == 0) != (meta.free_count == 0)
        || meta.directory.iter().any(outside)
    {
        return Err("the meta page makes no sense");
    }
    Ok(meta)
}

/// The free page that follows the free page `page`; `None` if that is not free.
pub(crate) fn next_free(page: &Page) -> Option<u32> {
    (header::kind(page) == Some(PageKind::HashFree)).then(|| u32_at(page, NEXT))
}

/// Image of a meta page.
pub(crate) fn image(meta: &Meta) -> Page {
    assert!(meta.directory.len() <= MAX_PAGES, "a directory that fits");
    let mut image = header::format(PageKind::HashMeta, 0);
    image[LOWER..LOWER + 2].copy_from_slice(&(DIRECTORY as u16).to_le_bytes());
    let fields = [(DEPTH, meta.depth), (USED, meta.used), (FREE, meta.free)];
    for (at, value) in fields.into_iter().chain([(FREE_COUNT, meta.free_count)]) {
        image[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    for (i, block) in meta.directory.iter().enumerate() {
        let at = DIRECTORY + 4 * i;
        image[at..at + 4].copy_from_slice(&block.to_le_bytes());
    }
    image
}

/// Stores the bits of the largest bucket number.
pub(crate) fn store_depth(page: &mut PageMut<'_>, depth: u32) {
    assert!(depth <= bit_count(MAX_BUCKETS - 1), "a number that the directory can name");
    page.put_u32(DEPTH, depth);
}

/// Stores the block of page `i` of the directory.
pub(crate) fn store_directory(page: &mut PageMut<'_>, i: usize, block: u32) {
    assert!(i < MAX_PAGES && block != 0, "a page of the directory");
    page.put_u32(DIRECTORY + 4 * i, block);
}

/// Stores the list of free pages: its first page and its length.
pub(crate) fn store_free(page: &mut PageMut<'_>, first: u32, count: u32) {
    page.put_u32(FREE, first);
    page.put_u32(FREE_COUNT, count);
}

/// Stores the number of blocks in use.
pub(crate) fn store_used(page: &mut PageMut<'_>, used: u32) {
    page.put_u32(USED, used);
}

/// Image of a free page that `next` follows.
pub(crate) fn free_image(next: u32) -> Page {
    let mut image = header::format(PageKind::HashFree, 0);
    image[NEXT..NEXT + 4].copy_from_slice(&next.to_le_bytes());
    image
}
