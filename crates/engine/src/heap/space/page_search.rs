//! The search for a page with room for a new version.
//!
//! Order of the search: the block of this inserter group's last insert, the free-space map from a
//! start that differs per group, a new block.
//!
//! Invariants: a page found here is only promised; the caller checks its room under the latch.
//! Inserts leave the fillfactor's reserve free, but an empty page takes any row.
//! Does not do: latch the page, or store into it.
//!
//! PostgreSQL: `RelationGetBufferForTuple` in `access/heap/hio.c`.

use rightlink_env::sync::Ordering;

use crate::error::Result;
use crate::heap::page::HeapPage;
use crate::heap::{Heap, INSERT_GROUPS};
use crate::ids::Xid;

/// Failed attempts with the free-space map after which an insert grows the table.
const MAX_TRIES: u32 = 8;
/// Multiplier that spreads the search's starting places over the table.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Heap {
    /// Bytes that an insert must leave free on `page`.
    fn reserve_on(&self, page: &HeapPage<'_>) -> usize {
        if page.is_empty() { 0 } else { self.shared.reserve }
    }

    /// The room of `page` for inserts, as the free-space map should note it.
    pub(in crate::heap) fn room_for_inserts(&self, page: &HeapPage<'_>) -> usize {
        if page.slots() >= crate::heap::MAX_SLOTS {
            return 0;
        }
        page.room().saturating_sub(self.reserve_on(page))
    }

    /// A block that may have room for `need` bytes. `wanted` is the number of blocks that are
    /// useful if the table must grow.
    pub(in crate::heap) fn page_with_room(
        &self,
        search: &mut PageSearch,
        need: usize,
        wanted: u32,
    ) -> Result<u32> {
        if !search.asked_insert_block {
            search.asked_insert_block = true;
            let target = self.shared.insert_blocks[search.group].load(Ordering::Relaxed);
            if self.is_data_block(target) && search.failed != Some(target) {
                return Ok(target);
            }
        }
        while search.tries < MAX_TRIES {
            search.tries += 1;
            match self.find_in_map(search, need)? {
                Some(block) => return Ok(block),
                None => search.tries = MAX_TRIES,
            }
        }
        loop {
            if let Some(block) = self.extend(wanted, search.xid)? {
                return Ok(block);
            }
            if let Some(block) = self.find_in_map(search, need)? {
                return Ok(block);
            }
        }
    }

    fn find_in_map(&self, search: &PageSearch, need: usize) -> Result<Option<u32>> {
        let extent = self.blocks();
        let fraction = (search.group as u64).wrapping_mul(SPREAD) >> 32;
        let start = ((u64::from(extent) * fraction) >> 32) as u32;
        let others = |block: u32| {
            search.failed == Some(block)
                || !self.is_data_block(block)
                || self.is_block_of_other_group(search.group, block)
        };
        self.free_space().find(need, extent, start, &others)
    }

    /// Is another group of inserters filling `block` now?
    fn is_block_of_other_group(&self, group: usize, block: u32) -> bool {
        let mut others = self.shared.insert_blocks.iter().enumerate().filter(|(i, _)| *i != group);
        others.any(|(_, target)| target.load(Ordering::Relaxed) == block)
    }
}

/// State of one statement's search for room.
pub(in crate::heap) struct PageSearch {
    pub(in crate::heap) xid: Xid,
    /// Group of this thread.
    pub(in crate::heap) group: usize,
    /// The block that just had no room.
    pub(in crate::heap) failed: Option<u32>,
    asked_insert_block: bool,
    tries: u32,
}

impl PageSearch {
    pub(in crate::heap) fn new(xid: Xid, group: usize) -> Self {
        assert!(group < INSERT_GROUPS, "a place of the targets");
        Self { xid, group, failed: None, asked_insert_block: false, tries: 0 }
    }
}
