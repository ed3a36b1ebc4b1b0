//! The two kinds of page.
//!
//! | offset | bytes | page of a chain (kind `Overflow`) |
//! |---|---|---|
//! | 24 | 8 | owner word: xid that wrote the chain |
//! | 32 | 4 | first block of the chain |
//! | 36 | 4 | next block, 0: this is the last page |
//! | 40 | 4 | number of the page in its chain, from 0 |
//! | 44 | 4 | zero |
//! | 48 | | the value's bytes; every page is full but the last one |
//!
//! The file is divided into groups of a map page (kind `OverflowMap`) and 8,000 others. The map has
//! a byte for each of them, from 32 on: 0 free, 1 in use, 2 the first page of a chain.
//!
//! Invariants: nothing here trusts the bytes.
//! Does not do: I/O.

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::heap::overflow::OverflowPointer;
use crate::ids::{PageId, Xid};
use crate::page::header::{self, HEADER_SIZE, OWNER, PageKind};

/// Offset of the chain's first block.
pub(super) const FIRST: usize = HEADER_SIZE;
/// Offset of the next block.
pub(super) const NEXT: usize = HEADER_SIZE + 4;
/// Offset of the page's number.
pub(super) const NUMBER: usize = HEADER_SIZE + 8;
/// Where the value's bytes begin.
pub(super) const DATA: usize = HEADER_SIZE + 16;
/// Bytes of a value that a page holds.
pub(super) const CAPACITY: usize = PAGE_SIZE - DATA;

/// Pages that a map page stands for.
pub(super) const MAPPED: u32 = 8000;
/// Blocks of a group, its map page included.
pub(crate) const GROUP: u32 = MAPPED + 1;
const _: () = assert!(HEADER_SIZE + MAPPED as usize <= PAGE_SIZE, "a map fits its page");

/// State of a block in the map. The value is on disk.
pub(super) const FREE: u8 = 0;
/// A page of a chain, not its first.
pub(super) const USED: u8 = 1;
/// The first page of a chain.
pub(super) const HEAD: u8 = 2;

/// The map page that knows `block`.
pub(super) fn map_of(block: u32) -> u32 {
    block / GROUP * GROUP
}

/// Is it a map page itself?
pub(super) fn is_map(block: u32) -> bool {
    block.is_multiple_of(GROUP)
}

/// Where its map page has the state of `block`.
pub(super) fn place_of(block: u32) -> usize {
    assert!(!is_map(block), "a map page has no state");
    HEADER_SIZE + (block % GROUP) as usize - 1
}

/// An empty map page.
pub(super) fn map_image() -> [u8; PAGE_SIZE] {
    header::format(PageKind::OverflowMap, 0)
}

/// The states on a map page.
pub(super) fn states(id: PageId, page: &[u8; PAGE_SIZE]) -> Result<&[u8]> {
    if header::kind(page) != Some(PageKind::OverflowMap) {
        return Err(Error::corrupt(id, "not a map of overflow pages"));
    }
    let states = &page[HEADER_SIZE..HEADER_SIZE + MAPPED as usize];
    match states.iter().position(|state| *state > HEAD) {
        None => Ok(states),
        Some(at) => Err(Error::corrupt(id, format!("unknown state {} of a page", states[at]))),
    }
}

/// Where a page stands in its chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Link {
    pub(super) first: u32,
    pub(super) next: u32,
    pub(super) number: u32,
    pub(super) creator: Xid,
}

/// A page of a chain with these bytes.
pub(super) fn image(link: Link, data: &[u8]) -> [u8; PAGE_SIZE] {
    assert!(data.len() <= CAPACITY, "a page's share of the value");
    let mut page = header::format(PageKind::Overflow, 0);
    page[OWNER..OWNER + 8].copy_from_slice(&link.creator.0.to_le_bytes());
    page[FIRST..FIRST + 4].copy_from_slice(&link.first.to_le_bytes());
    page[NEXT..NEXT + 4].copy_from_slice(&link.next.to_le_bytes());
    page[NUMBER..NUMBER + 4].copy_from_slice(&link.number.to_le_bytes());
    page[DATA..DATA + data.len()].copy_from_slice(data);
    page
}

/// Where the page stands; `None`: it is of no chain.
pub(super) fn link(page: &[u8; PAGE_SIZE]) -> Option<Link> {
    (header::kind(page) == Some(PageKind::Overflow)).then(|| Link {
        first: header::u32_at(page, FIRST),
        next: header::u32_at(page, NEXT),
        number: header::u32_at(page, NUMBER),
        creator: Xid(header::u64_at(page, OWNER)),
    })
}

/// Pages of the chain of a value.
pub(super) fn pages_of(len: u32) -> u32 {
    len.div_ceil(CAPACITY as u32).max(1)
}

/// Checks that the page is number `number` of the chain of `value`, and gives its bytes and the
/// next block.
pub(super) fn data_of(
    id: PageId,
    page: &[u8; PAGE_SIZE],
    value: OverflowPointer,
    number: u32,
) -> Result<(&[u8], u32)> {
    let last = number + 1 == pages_of(value.len);
    let fits = link(page).filter(|link| {
        (link.first, link.number, link.creator) == (value.first, number, value.creator)
            && (link.next == 0) == last
    });
    let Some(link) = fits else {
        let (first, len) = (value.first, value.len);
        let what = format!("not page {number} of the value of {len} bytes that begins at {first}");
        return Err(Error::corrupt(id, what));
    };
    let before = number as usize * CAPACITY;
    let bytes = (value.len as usize - before).min(CAPACITY);
    Ok((&page[DATA..DATA + bytes], link.next))
}
