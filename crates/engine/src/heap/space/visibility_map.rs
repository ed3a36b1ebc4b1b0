//! The visibility map: two bits per heap block, all-visible and all-frozen.
//!
//! The heap page carries the same two flags, so a writer knows from the page alone whether the map
//! must change.
//!
//! Invariants: it is no hint. A bit is set and cleared in the log record of the heap change that
//! makes it true or false. All-frozen implies all-visible. A heap page is latched before its map
//! page, which is pinned before the first latch (R12, R7).
//! Does not do: check the recycle clock after a bit was read (R4, the reader does).
//!
//! PostgreSQL: `access/heap/visibilitymap.c`, where the bits are set in records of their own.

use crate::buffer::{BufferPool, Pin};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::heap::page::{ALL_FROZEN, ALL_VISIBLE};
use crate::ids::{FileId, PageId};
use crate::page::PageMut;
use crate::page::header::{self, HEADER_SIZE, PageKind};

/// Heap blocks per map page: two bits each.
pub(in crate::heap) const BLOCKS_PER_PAGE: u32 = ((PAGE_SIZE - HEADER_SIZE) * 4) as u32;

/// The bits of one heap block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VisibilityBits {
    /// Every version is visible to everyone.
    pub all_visible: bool,
    /// Every version is frozen and unlocked.
    pub all_frozen: bool,
}

impl VisibilityBits {
    /// From the flags of a heap page.
    pub(in crate::heap) fn of_flags(flags: u16) -> VisibilityBits {
        VisibilityBits {
            all_visible: flags & ALL_VISIBLE != 0,
            all_frozen: flags & ALL_FROZEN != 0,
        }
    }

    /// The flags of a heap page.
    pub(in crate::heap) fn to_flags(self) -> u16 {
        let all_visible = if self.all_visible { ALL_VISIBLE } else { 0 };
        all_visible | if self.all_frozen { ALL_FROZEN } else { 0 }
    }
}

/// Where the bits of a heap block are.
struct BitPlace {
    map_block: u32,
    byte: usize,
    shift: u32,
}

fn locate(block: u32) -> BitPlace {
    let index = block % BLOCKS_PER_PAGE;
    let byte = HEADER_SIZE + (index / 4) as usize;
    BitPlace { map_block: block / BLOCKS_PER_PAGE, byte, shift: index % 4 * 2 }
}

/// Name of the map page of heap block `block`.
pub(in crate::heap) fn page_of(file: FileId, block: u32) -> PageId {
    PageId::new(file, locate(block).map_block)
}

/// The bits of heap block `block` on its map page; none on a page that was never formatted.
pub(in crate::heap) fn get(
    id: PageId,
    page: &[u8; PAGE_SIZE],
    block: u32,
) -> Result<VisibilityBits> {
    let BitPlace { byte: at, shift, .. } = locate(block);
    match header::kind(page) {
        None if page[header::KIND] == 0 => Ok(VisibilityBits::default()),
        Some(PageKind::Visibility) => {
            let pair = page[at] >> shift;
            Ok(VisibilityBits { all_visible: pair & 1 != 0, all_frozen: pair & 2 != 0 })
        }
        _ => Err(Error::corrupt(id, "not a visibility map page")),
    }
}

/// Stores the bits of heap block `block` on its latched map page, which [`get`] accepted.
pub(in crate::heap) fn put(page: &mut PageMut<'_>, block: u32, bits: VisibilityBits) {
    assert!(bits.all_visible || !bits.all_frozen, "all-frozen implies all-visible");
    let BitPlace { byte: at, shift, .. } = locate(block);
    if header::kind(page.bytes()).is_none() {
        page.replace(&header::format(PageKind::Visibility, 0));
    }
    let pair = u8::from(bits.all_visible) | u8::from(bits.all_frozen) << 1;
    let old = page.bytes()[at];
    page.write(at, &[old & !(3 << shift) | pair << shift]);
}

/// Grows the map so that it has the map page of heap block `block`. A table that grows does so at
/// once: vacuum, which makes space on a full disk, must not need any.
pub(in crate::heap) fn grow_for(pool: &BufferPool, file: FileId, block: u32) -> Result<()> {
    let wanted = page_of(file, block).block.0 + 1;
    let have = pool.blocks(file);
    if have < wanted {
        pool.extend(file, wanted - have)?;
    }
    Ok(())
}

/// Pins the map page of heap block `block`, growing the map if a crash took its page away.
pub(in crate::heap) fn pin_for(pool: &BufferPool, file: FileId, block: u32) -> Result<Pin> {
    grow_for(pool, file, block)?;
    pool.pin(page_of(file, block))
}

/// Reads the bits of heap block `block`; may read the map page.
pub(in crate::heap) fn read(pool: &BufferPool, file: FileId, block: u32) -> Result<VisibilityBits> {
    let id = page_of(file, block);
    if id.block.0 >= pool.blocks(file) {
        return Ok(VisibilityBits::default());
    }
    let pin = pool.pin(id)?;
    let latch = pin.shared();
    get(id, latch.bytes(), block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageBuf;

    #[test]
    fn bits_of_neighbours_do_not_touch() {
        let mut buf = PageBuf::zeroed();
        let mut page = PageMut::owned(&mut buf);
        let (visible, frozen) = (
            VisibilityBits { all_visible: true, all_frozen: false },
            VisibilityBits { all_visible: true, all_frozen: true },
        );
        put(&mut page, 5, visible);
        put(&mut page, 6, frozen);
        put(&mut page, BLOCKS_PER_PAGE + 7, visible);
        let id = PageId::default();
        let get = |page: &PageMut<'_>, block| get(id, page.bytes(), block).expect("a map page");
        assert_eq!((get(&page, 4), get(&page, 5)), (VisibilityBits::default(), visible));
        assert_eq!((get(&page, 6), get(&page, 7)), (frozen, visible));
        put(&mut page, 6, VisibilityBits::default());
        assert_eq!((get(&page, 5), get(&page, 6)), (visible, VisibilityBits::default()));
    }
}
