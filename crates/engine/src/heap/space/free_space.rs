//! The free-space map: one byte per heap block tells its room, in steps of 32 bytes.
//!
//! The file consists of groups of one directory page and up to 8,000 leaf pages. A leaf holds the
//! bytes of 8,000 heap blocks, its directory the largest byte of each leaf.
//!
//! Invariants: the map is a hint (R1). It is written without a record and may be stale in both
//! directions after a crash, so a block found through it is checked itself. A directory byte may
//! promise too much; a search that fails lowers it. An unreadable map page counts as "no room
//! known".
//! Does not do: decide how full a page may become (`page_search`).
//!
//! PostgreSQL: `storage/freespace/README`; two levels here instead of a tree of maxima.

use crate::buffer::{BufferPool, Pin};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, PageId};
use crate::page::header::{self, HEADER_SIZE, PageKind};

/// Bytes of room per step of the map.
const STEP: usize = 32;
/// Entries of a page, leaf or directory.
const ENTRIES: u32 = 8000;
const _: () = assert!(HEADER_SIZE + ENTRIES as usize <= PAGE_SIZE && PAGE_SIZE / STEP <= 256);

/// The free-space map of one heap.
pub(in crate::heap) struct FreeSpaceMap<'p> {
    pool: &'p BufferPool,
    file: FileId,
}

/// Block of the map that holds leaf `leaf`.
fn leaf_block(leaf: u32) -> u32 {
    directory_block(leaf) + 1 + leaf % ENTRIES
}

fn directory_block(leaf: u32) -> u32 {
    leaf / ENTRIES * (ENTRIES + 1)
}

/// The byte for `free` bytes, rounded down: it promises no more than there is.
pub(in crate::heap) fn category(free: usize) -> u8 {
    (free / STEP).min(255) as u8
}

/// The smallest byte that promises `need` bytes.
fn wanted(need: usize) -> u8 {
    assert!(need <= PAGE_SIZE, "no row is longer than a page");
    need.div_ceil(STEP).min(255) as u8
}

/// Bytes of room that `category` promises.
pub(in crate::heap) fn promised(category: u8) -> usize {
    usize::from(category) * STEP
}

impl<'p> FreeSpaceMap<'p> {
    pub(in crate::heap) fn new(pool: &'p BufferPool, file: FileId) -> Self {
        Self { pool, file }
    }

    /// Notes that heap block `block` has `free` bytes of room. Skipped when the map page is busy.
    pub(in crate::heap) fn note(&self, block: u32, free: usize) -> Result<()> {
        let (leaf, value) = (block / ENTRIES, category(free));
        self.store(leaf_block(leaf), block % ENTRIES, |_| value)?;
        self.store(directory_block(leaf), leaf % ENTRIES, |old| old.max(value))
    }

    /// The byte of heap block `block`.
    pub(in crate::heap) fn get(&self, block: u32) -> Result<u8> {
        let leaf = block / ENTRIES;
        Ok(self
            .read(leaf_block(leaf))?
            .map_or(0, |page| page[HEADER_SIZE + (block % ENTRIES) as usize]))
    }

    /// A block below `extent` that promises `need` bytes and that `refuse` does not refuse. The
    /// search begins at `start`, which differs from inserter to inserter, and goes round.
    pub(in crate::heap) fn find(
        &self,
        need: usize,
        extent: u32,
        start: u32,
        refuse: &dyn Fn(u32) -> bool,
    ) -> Result<Option<u32>> {
        let (want, leaves) = (wanted(need), extent.div_ceil(ENTRIES));
        if want == 0 || leaves == 0 {
            return Ok(None);
        }
        let start = start % extent;
        for step in 0..=leaves {
            let leaf = (start / ENTRIES + step) % leaves;
            let from = if step == 0 { start % ENTRIES } else { 0 };
            if let Some(block) = self.find_in_leaf(leaf, want, from, extent, refuse)? {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    fn find_in_leaf(
        &self,
        leaf: u32,
        want: u8,
        from: u32,
        extent: u32,
        refuse: &dyn Fn(u32) -> bool,
    ) -> Result<Option<u32>> {
        let Some(directory) = self.read(directory_block(leaf))? else { return Ok(None) };
        if directory[HEADER_SIZE + (leaf % ENTRIES) as usize] < want {
            return Ok(None);
        }
        let Some(page) = self.read(leaf_block(leaf))? else { return Ok(None) };
        let first = leaf * ENTRIES;
        let blocks = (extent - first).min(ENTRIES) as usize;
        let entries = &page[HEADER_SIZE..HEADER_SIZE + blocks];
        let found = (from as usize..blocks)
            .find(|i| entries[*i] >= want && !refuse(first + *i as u32))
            .map(|i| first + i as u32);
        if found.is_none() && from == 0 {
            let largest = entries.iter().copied().max().unwrap_or(0);
            self.store(directory_block(leaf), leaf % ENTRIES, |_| largest)?;
        }
        Ok(found)
    }

    /// Forgets every block at and above `extent`.
    pub(in crate::heap) fn forget_from(&self, extent: u32, old_extent: u32) -> Result<()> {
        for block in extent..old_extent {
            self.store(leaf_block(block / ENTRIES), block % ENTRIES, |_| 0)?;
        }
        Ok(())
    }

    /// A copy of map page `block`, `None` if it does not exist or is no map page.
    fn read(&self, block: u32) -> Result<Option<Box<[u8; PAGE_SIZE]>>> {
        let Some(pin) = self.pin(block)? else { return Ok(None) };
        let latch = pin.shared();
        let bytes = latch.bytes();
        Ok((header::kind(bytes) == Some(PageKind::FreeSpace)).then(|| Box::new(*bytes)))
    }

    /// Pins an existing page; damage counts as absence, as the map is a hint.
    fn pin(&self, block: u32) -> Result<Option<Pin>> {
        if block >= self.pool.blocks(self.file) {
            return Ok(None);
        }
        match self.pool.pin(PageId::new(self.file, block)) {
            Ok(pin) => Ok(Some(pin)),
            Err(Error::Corruption { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Stores entry `index` of map page `block`, growing the file and formatting the page if
    /// needed. On a full disk a hint that has no page yet is dropped: vacuum goes on.
    fn store(&self, block: u32, index: u32, value: impl FnOnce(u8) -> u8) -> Result<()> {
        let have = self.pool.blocks(self.file);
        if block >= have {
            match self.pool.extend(self.file, block + 1 - have) {
                Err(Error::DiskFull(_)) => return Ok(()),
                grown => grown?,
            };
        }
        let pin = match self.pin(block)? {
            Some(pin) => pin,
            None => self.pool.pin_new(PageId::new(self.file, block))?,
        };
        let at = HEADER_SIZE + index as usize;
        let old = {
            let latch = pin.shared();
            let formatted = header::kind(latch.bytes()) == Some(PageKind::FreeSpace);
            if formatted { latch.bytes()[at] } else { 0 }
        };
        let value = value(old);
        if value == old {
            return Ok(());
        }
        pin.hint(None, |page| {
            if header::kind(page.bytes()) != Some(PageKind::FreeSpace) {
                let image = header::format(PageKind::FreeSpace, 0);
                page.write_unlogged(4, &image[4..8]);
                page.write_unlogged(16, &image[16..]);
            }
            page.write_unlogged(at, &[value]);
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_category_promises_no_more_than_there_is() {
        for free in 0..PAGE_SIZE {
            assert!(promised(category(free)) <= free);
            assert!(promised(wanted(free)) >= free || wanted(free) == 255);
        }
    }

    #[test]
    fn leaves_and_directories_never_share_a_block() {
        let mut seen = std::collections::BTreeSet::new();
        for leaf in [0, 1, ENTRIES - 1, ENTRIES, ENTRIES + 1, 3 * ENTRIES] {
            assert!(seen.insert(leaf_block(leaf)));
            seen.insert(directory_block(leaf));
            assert!(leaf_block(leaf) > directory_block(leaf));
        }
        assert_eq!(leaf_block(ENTRIES - 1) + 1, directory_block(ENTRIES));
    }
}
