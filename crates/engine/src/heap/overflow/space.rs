//! Free blocks of the overflow file: the map pages, and the blocks that writers have reserved.
//!
//! Invariants: a block is reserved for one writer at a time, and no block in use is reserved. Below
//! the hint no block is both free and unreserved. The map is changed by the record that writes a
//! page or gives it back, so a crash loses only reservations.
//! Does not do: shorten the file.

use std::collections::BTreeSet;

use crate::buffer::Mtr;
use crate::error::{Error, Result};
use crate::heap::overflow::Overflow;
use crate::heap::overflow::page::{self, FREE, GROUP};
use crate::ids::Xid;
use crate::page::header;
use crate::wal::RecordKind;

/// Most blocks that the file grows by for one writer.
const MAX_GROWTH: u32 = 64;

/// Blocks as this process knows them.
#[derive(Default)]
pub(super) struct FreeBlocks {
    /// Put aside for writers.
    reserved: BTreeSet<u32>,
    /// Where a search begins.
    pub(super) hint: u32,
}

impl Overflow {
    /// Formats the first map page of a new file.
    pub(super) fn create_first_map(&self) -> Result<()> {
        let block = self.pool().extend(self.file(), 1)?;
        assert!(block.0 == 0, "the file is new");
        self.format_map(0)
    }

    fn format_map(&self, block: u32) -> Result<()> {
        let pin = self.pool().pin_new(self.id(block))?;
        let mut mtr = Mtr::new(self.pool());
        let held = mtr.latch(pin);
        mtr.page(held).replace(&page::map_image());
        mtr.commit(RecordKind::Extend, Xid::NONE).map(drop)
    }

    /// Puts `count` free blocks aside, in ascending order; the file grows where it must.
    pub(super) fn reserve(&self, count: usize) -> Result<Vec<u32>> {
        let mut space = self.shared.space.lock();
        let (mut found, mut at) = (Vec::with_capacity(count), space.hint);
        while found.len() < count {
            if at >= self.blocks() {
                self.grow(at, (count - found.len()) as u32)?;
            }
            if page::is_map(at) {
                self.need_map(at)?;
                at += 1;
                continue;
            }
            let end = (page::map_of(at) + GROUP).min(self.blocks());
            let states = self.states_of(page::map_of(at))?;
            while at < end && found.len() < count {
                let state = states[(at % GROUP) as usize - 1];
                if state == FREE && !space.reserved.contains(&at) {
                    found.push(at);
                }
                at += 1;
            }
        }
        space.reserved.extend(&found);
        space.hint = at;
        Ok(found)
    }

    /// Blocks that were put aside were written or are not wanted.
    pub(super) fn release(&self, blocks: impl IntoIterator<Item = u32>, written: bool) {
        let mut space = self.shared.space.lock();
        for block in blocks {
            assert!(space.reserved.remove(&block), "a block that was put reserved");
            if !written {
                space.hint = space.hint.min(block);
            }
        }
    }

    /// Blocks became free.
    pub(super) fn freed(&self, block: u32) {
        let mut space = self.shared.space.lock();
        space.hint = space.hint.min(block);
    }

    fn grow(&self, at: u32, wanted: u32) -> Result<()> {
        let blocks = self.blocks();
        assert!(at == blocks, "a search ends where the file does");
        let more = wanted.max((blocks / 16).min(MAX_GROWTH)) + 1;
        if blocks.checked_add(more).is_none() {
            return Err(Error::Limit("2^32 blocks of overflow pages".into()));
        }
        self.pool().extend(self.file(), more).map(drop)
    }

    /// Formats the map page `block`, if no record has yet.
    fn need_map(&self, block: u32) -> Result<()> {
        let pin = self.pool().pin(self.id(block))?;
        let empty = header::is_zero(pin.shared().bytes());
        drop(pin);
        if empty { self.format_map(block) } else { Ok(()) }
    }

    /// The states of the blocks of a group.
    pub(super) fn states_of(&self, map: u32) -> Result<Vec<u8>> {
        let pin = self.pool().pin(self.id(map))?;
        let latch = pin.shared();
        page::states(pin.page(), latch.bytes()).map(<[u8]>::to_vec)
    }
}
