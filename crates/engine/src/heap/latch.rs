//! The latched pages of one change: one or two heap pages, and the visibility-map pages of those
//! that are marked all-visible.
//!
//! Invariants: heap pages are latched lower block first, then map pages, lower block first (R12). A
//! map page is pinned before any latch is taken (R7): if a marked page's map page is not pinned,
//! all latches are released, the map page is pinned, and latching starts again.
//! Does not do: choose pages, or check the room on them.
//!
//! PostgreSQL: `visibilitymap_pin` and its callers in `access/heap/heapam.c`.

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::buffer::{LatchedPage, Mtr, Pin};
use crate::error::Result;
use crate::heap::Heap;
use crate::heap::page::store;
use crate::heap::page::{ALL_FROZEN, ALL_VISIBLE, HeapPage};
use crate::heap::space::visibility_map::{self, VisibilityBits};
use crate::ids::{Lsn, PageId, Xid};
use crate::page::PageMut;
use crate::wal::RecordKind;

/// Latched pages. If dropped before the first store, they are only released.
pub(super) struct LatchedPages<'h> {
    mtr: Mtr<'h>,
    /// One or two.
    heap: [Option<(u32, LatchedPage)>; 2],
    maps: Vec<(PageId, LatchedPage)>,
}

/// Which map pages are latched, too?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MapLatches {
    /// Map pages of blocks marked all-visible: the change may clear the mark.
    Marked,
    /// All: the change may set bits.
    All,
}

impl Heap {
    /// Latches `blocks` (one, or two in ascending order) and their map pages. `None`: one of the
    /// blocks was cut off the table.
    pub(super) fn latch(
        &self,
        blocks: &[u32],
        maps: MapLatches,
    ) -> Result<Option<LatchedPages<'_>>> {
        let sorted = blocks.is_sorted() || broken(Broken::HeapLatchesUnordered);
        assert!(matches!(blocks.len(), 1 | 2) && sorted, "R12");
        let mut map_pins: Vec<Pin> = Vec::new();
        if maps == MapLatches::All {
            for block in blocks {
                self.pin_map_of(*block, &mut map_pins)?;
            }
        }
        loop {
            if !blocks.iter().all(|block| self.is_data_block(*block)) {
                return Ok(None);
            }
            let mut pins = [None, None];
            for (pin, block) in pins.iter_mut().zip(blocks) {
                *pin = Some(self.pool().pin(self.page_id(*block))?);
            }
            let mut set =
                LatchedPages { mtr: Mtr::new(self.pool()), heap: [None; 2], maps: Vec::new() };
            for ((place, pin), block) in set.heap.iter_mut().zip(pins).zip(blocks) {
                *place = pin.map(|pin| (*block, set.mtr.latch(pin)));
            }
            if blocks.iter().any(|block| !self.is_data_block(*block)) {
                return Ok(None);
            }
            let lacking = self.blocks_without_map_pin(&set, &map_pins)?;
            if lacking.is_empty() {
                self.latch_maps(&mut set, map_pins);
                return Ok(Some(set));
            }
            drop(set);
            for block in lacking {
                self.pin_map_of(block, &mut map_pins)?;
            }
        }
    }

    /// Blocks that are marked all-visible and whose map page is not among `pins`.
    fn blocks_without_map_pin(&self, set: &LatchedPages<'_>, pins: &[Pin]) -> Result<Vec<u32>> {
        let mut lacking = Vec::new();
        for (block, _) in set.heap.iter().flatten() {
            let marked = set.page(*block)?.flags() & (ALL_VISIBLE | ALL_FROZEN) != 0;
            let map = visibility_map::page_of(self.shared.files.visibility, *block);
            if marked && !pins.iter().any(|pin| pin.page() == map) {
                lacking.push(*block);
            }
        }
        Ok(lacking)
    }

    fn pin_map_of(&self, block: u32, pins: &mut Vec<Pin>) -> Result<()> {
        let file = self.shared.files.visibility;
        let map = visibility_map::page_of(file, block);
        if !pins.iter().any(|pin| pin.page() == map) {
            pins.push(visibility_map::pin_for(self.pool(), file, block)?);
        }
        Ok(())
    }

    fn latch_maps(&self, set: &mut LatchedPages<'_>, mut pins: Vec<Pin>) {
        pins.sort_by_key(Pin::page);
        for pin in pins {
            let id = pin.page();
            set.maps.push((id, set.mtr.latch(pin)));
        }
    }
}

impl LatchedPages<'_> {
    fn held(&self, block: u32) -> LatchedPage {
        let found = self.heap.iter().flatten().find(|(of, _)| *of == block);
        found.expect("a block of this set").1
    }

    pub(super) fn bytes(&self, block: u32) -> &[u8; crate::config::PAGE_SIZE] {
        self.mtr.bytes(self.held(block))
    }

    /// The checked page.
    pub(super) fn page(&self, block: u32) -> Result<HeapPage<'_>> {
        let held = self.held(block);
        HeapPage::open(self.mtr.id(held), self.mtr.bytes(held))
    }

    /// Stores into the page.
    pub(super) fn store(&mut self, block: u32) -> PageMut<'_> {
        let held = self.held(block);
        self.mtr.page(held)
    }

    fn map(&self, block: u32) -> Option<(PageId, LatchedPage)> {
        let wanted = visibility_map::page_of(crate::ids::FileId(0), block).block;
        self.maps.iter().find(|(id, _)| id.block == wanted).copied()
    }

    /// Checks the map page of `block`, before the first store; `None` when its map is not latched.
    pub(super) fn bits(&self, block: u32) -> Result<Option<VisibilityBits>> {
        let Some((id, held)) = self.map(block) else { return Ok(None) };
        visibility_map::get(id, self.mtr.bytes(held), block).map(Some)
    }

    /// Sets the page flags and map bits of `block` to `bits`, in this change's record.
    /// [`LatchedPages::bits`] has accepted the map page.
    pub(super) fn set_bits(&mut self, block: u32, bits: VisibilityBits) {
        let (_, held) = self.map(block).expect("the map page of a marked block is latched");
        let flags = bits.to_flags();
        let clear = (ALL_VISIBLE | ALL_FROZEN) & !flags;
        store::put_flags(&mut self.store(block), flags, clear);
        visibility_map::put(&mut self.mtr.page(held), block, bits);
    }

    /// Clears both marks of `block`, if it has any.
    pub(super) fn clear_marks(&mut self, block: u32) {
        self.replace_marks(block, |_| VisibilityBits::default());
    }

    /// Clears the all-frozen mark of `block`, if it has it.
    pub(super) fn clear_frozen_mark(&mut self, block: u32) {
        self.replace_marks(block, |had| VisibilityBits { all_frozen: false, ..had });
    }

    fn replace_marks(&mut self, block: u32, new: impl Fn(VisibilityBits) -> VisibilityBits) {
        let flags = crate::page::header::u16_at(self.bytes(block), crate::page::header::FLAGS);
        let had = VisibilityBits::of_flags(flags);
        if had != new(had) {
            self.set_bits(block, new(had));
        }
    }

    /// Logs the change as one record.
    pub(super) fn commit(self, kind: RecordKind, xid: Xid) -> Result<Lsn> {
        self.mtr.commit(kind, xid)
    }
}
