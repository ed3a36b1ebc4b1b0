//! The 32-byte page header: offsets and typed access over plain bytes.
//!
//! Invariants: offsets here are the on-disk format (docs/format.md); nothing here trusts the bytes.
//! Does not do: checksums, slots.

use crate::config::{FORMAT_VERSION, PAGE_SIZE};
use crate::ids::Lsn;
use crate::page::buf::PageMut;

/// Bytes of the header.
pub const HEADER_SIZE: usize = 32;
/// Offset of the checksum.
pub const CHECKSUM: usize = 0;
/// Offset of the kind.
pub const KIND: usize = 4;
/// Offset of the format version.
pub const VERSION: usize = 5;
/// Offset of the owning module's flags.
pub const FLAGS: usize = 6;
/// Offset of the LSN.
pub const LSN: usize = 8;
/// Offset of `lower`.
pub const LOWER: usize = 16;
/// Offset of `upper`.
pub const UPPER: usize = 18;
/// Offset of `special`.
pub const SPECIAL: usize = 20;
/// Offset of `garbage`.
pub const GARBAGE: usize = 22;
/// Offset of the owner word.
pub const OWNER: usize = 24;

/// The kind of a page. The value is on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PageKind {
    /// First block of a heap.
    HeapMeta = 1,
    /// Row versions.
    Heap = 2,
    /// Free-space map.
    FreeSpace = 3,
    /// Visibility map.
    Visibility = 4,
    /// Commit status of transactions.
    Status = 5,
    /// First block of a B-link tree.
    BtreeMeta = 6,
    /// Leaf of a B-link tree.
    BtreeLeaf = 7,
    /// Inner page of a B-link tree.
    BtreeInner = 8,
    /// Deleted page of a B-link tree, waiting to be reused.
    BtreeFree = 9,
    /// Overflow page of a long value.
    Overflow = 10,
    /// First block of a hash index.
    HashMeta = 11,
    /// Bucket of a hash index.
    HashBucket = 12,
    /// Directory of a hash index.
    HashDirectory = 13,
    /// Page of a hash index that waits to be used again.
    HashFree = 14,
    /// The one page of a sequence.
    Sequence = 15,
    /// Which overflow pages are in use.
    OverflowMap = 16,
}

impl PageKind {
    /// The kind with the value `byte`.
    pub fn from_u8(byte: u8) -> Option<PageKind> {
        use PageKind::*;
        let all = [
            HeapMeta,
            Heap,
            FreeSpace,
            Visibility,
            Status,
            BtreeMeta,
            BtreeLeaf,
            BtreeInner,
            BtreeFree,
            Overflow,
            HashMeta,
            HashBucket,
            HashDirectory,
            HashFree,
            Sequence,
            OverflowMap,
        ];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Little-endian u16 at `offset` of `page`.
pub fn u16_at(page: &[u8; PAGE_SIZE], offset: usize) -> u16 {
    u16::from_le_bytes([page[offset], page[offset + 1]])
}

/// Little-endian u32 at `offset` of `page`.
pub fn u32_at(page: &[u8; PAGE_SIZE], offset: usize) -> u32 {
    u32::from_le_bytes(page[offset..offset + 4].try_into().expect("four bytes"))
}

/// Little-endian u64 at `offset` of `page`.
pub fn u64_at(page: &[u8; PAGE_SIZE], offset: usize) -> u64 {
    u64::from_le_bytes(page[offset..offset + 8].try_into().expect("eight bytes"))
}

/// Kind of `page`, `None` for an uninitialised or unknown page.
pub fn kind(page: &[u8; PAGE_SIZE]) -> Option<PageKind> {
    PageKind::from_u8(page[KIND])
}

/// LSN of `page`.
pub fn lsn(page: &[u8; PAGE_SIZE]) -> Lsn {
    Lsn(u64_at(page, LSN))
}

/// How [`within_log`] begins what it finds, to be told from other damage.
pub const BEYOND_LOG: &str = "the page's LSN lies beyond the end of the log";

/// Refuses a page whose last record is not in the log, which ends at `end`.
///
/// # Errors
/// What is wrong, beginning with [`BEYOND_LOG`].
pub fn within_log(page: &[u8; PAGE_SIZE], end: Lsn) -> Result<(), String> {
    let lsn = lsn(page);
    (lsn <= end).then_some(()).ok_or_else(|| format!("{BEYOND_LOG}: {lsn} above {end}"))
}

/// Is every byte zero: a page of a grown file that was never formatted?
pub fn is_zero(page: &[u8; PAGE_SIZE]) -> bool {
    page.iter().all(|byte| *byte == 0)
}

/// A fresh image of `kind` with an empty slot array and `special` bytes of trailer.
pub fn format(kind: PageKind, special: usize) -> [u8; PAGE_SIZE] {
    assert!(special <= PAGE_SIZE - HEADER_SIZE, "the trailer leaves room for the header");
    let mut image = [0u8; PAGE_SIZE];
    let end = (PAGE_SIZE - special) as u16;
    image[KIND] = kind as u8;
    image[VERSION] = FORMAT_VERSION;
    image[LOWER..LOWER + 2].copy_from_slice(&(HEADER_SIZE as u16).to_le_bytes());
    image[UPPER..UPPER + 2].copy_from_slice(&end.to_le_bytes());
    image[SPECIAL..SPECIAL + 2].copy_from_slice(&end.to_le_bytes());
    image
}

/// Sets where the slots end and where the items begin, as one change.
pub fn set_bounds(page: &mut PageMut<'_>, lower: usize, upper: usize) {
    let mut bounds = [0; 4];
    bounds[..2].copy_from_slice(&(lower as u16).to_le_bytes());
    bounds[2..].copy_from_slice(&(upper as u16).to_le_bytes());
    page.write(LOWER, &bounds);
}

/// Sets the LSN, outside the record that it names.
pub fn set_lsn(page: &mut PageMut<'_>, lsn: Lsn) {
    assert!(lsn.0 >= self::lsn(page.bytes()).0, "a page's LSN never goes back");
    page.write_unlogged(LSN, &lsn.0.to_le_bytes());
}
