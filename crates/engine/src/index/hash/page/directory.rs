//! A page of the directory: for each bucket the block of the page that it begins on.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 32 | page header, kind `HashDirectory` |
//! | 32 | 4 each | block of the bucket's first page, 0: no entry |
//!
//! Page `i` has the buckets from `i * BUCKETS_PER_PAGE` on; the meta page names its block.
//!
//! Does not do: find buckets (`search/directory`); change the directory (`insert/directory`).

use crate::config::PAGE_SIZE;
use crate::page::header::{self, HEADER_SIZE, LOWER};
use crate::page::{PageKind, PageMut};

/// Most pages that the directory can have.
pub(crate) const MAX_PAGES: usize = 2032;
/// Entries of a page of the directory.
pub(crate) const BUCKETS_PER_PAGE: u32 = ((PAGE_SIZE - HEADER_SIZE) / 4) as u32;
/// Buckets that can have an entry: four million. Others are found along the links.
pub(crate) const MAX_BUCKETS: u32 = MAX_PAGES as u32 * BUCKETS_PER_PAGE;

/// A bucket, and the block of its first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirectoryEntry {
    /// Number of the bucket.
    pub(crate) bucket: u32,
    /// The block.
    pub(crate) block: u32,
}

/// Offset of the entry of a bucket on its page.
pub(crate) fn offset_of(bucket: u32) -> usize {
    HEADER_SIZE + (bucket % BUCKETS_PER_PAGE) as usize * 4
}

/// Image of a page of the directory with these entries.
pub(crate) fn image(entries: &[DirectoryEntry]) -> [u8; PAGE_SIZE] {
    let mut image = header::format(PageKind::HashDirectory, 0);
    image[LOWER..LOWER + 2].copy_from_slice(&(PAGE_SIZE as u16).to_le_bytes());
    for DirectoryEntry { bucket, block } in entries {
        image[offset_of(*bucket)..][..4].copy_from_slice(&block.to_le_bytes());
    }
    image
}

/// The entry of a bucket, 0: none.
pub(crate) fn block_of(page: &[u8; PAGE_SIZE], bucket: u32) -> u32 {
    header::u32_at(page, offset_of(bucket))
}

/// Stores the entry of a bucket.
pub(crate) fn store(page: &mut PageMut<'_>, bucket: u32, block: u32) {
    page.put_u32(offset_of(bucket), block);
}
