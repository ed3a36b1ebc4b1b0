//! Page checksums: xxHash3, seeded with file and block so that a misdirected write is caught.
//!
//! Invariants: an all-zero page has no checksum and is valid (a grown, never formatted block);
//! every other page carries the checksum of its bytes 4.. ; the value 0 is never stored. Does not
//! do: repair.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::config::PAGE_SIZE;
use crate::ids::PageId;
use crate::page::header;

/// Checksum of `page` as block `id`.
pub fn compute(id: PageId, page: &[u8; PAGE_SIZE]) -> u32 {
    let seed = u64::from(id.file.0) << 32 | u64::from(id.block.0);
    let hash = xxh3_64_with_seed(&page[header::KIND..], seed);
    ((hash ^ hash >> 32) as u32).max(1)
}

/// Sets the checksum in a private copy that is about to be written.
pub fn stamp(id: PageId, page: &mut [u8; PAGE_SIZE]) {
    let sum = compute(id, page);
    page[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Is `page` either all zero or stamped for `id`? The error names both sums.
pub fn verify(id: PageId, page: &[u8; PAGE_SIZE]) -> Result<(), String> {
    let stored = header::u32_at(page, header::CHECKSUM);
    if stored == 0 && header::is_zero(page) {
        return Ok(());
    }
    let actual = compute(id, page);
    if stored == actual {
        return Ok(());
    }
    Err(format!("checksum is {stored:08x}, the bytes give {actual:08x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::header::{PageKind, format};

    #[test]
    fn a_page_verifies_only_at_its_own_address_and_unchanged() {
        let mut page = format(PageKind::Heap, 0);
        let id = PageId::new(crate::ids::FileId(7), 3);
        stamp(id, &mut page);
        assert_eq!(verify(id, &page), Ok(()));
        assert!(verify(PageId::new(crate::ids::FileId(7), 4), &page).is_err());
        assert!(verify(PageId::new(crate::ids::FileId(8), 3), &page).is_err());
        for offset in [0, 5, 100, PAGE_SIZE - 1] {
            page[offset] ^= 1;
            assert!(verify(id, &page).is_err(), "a flipped bit at {offset} is found");
            page[offset] ^= 1;
        }
        assert_eq!(verify(id, &[0; PAGE_SIZE]), Ok(()));
    }
}
