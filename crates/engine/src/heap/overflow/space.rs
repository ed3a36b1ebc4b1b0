//! Which blocks are free: the map pages, and what writers have put aside.
//!
//! Invariants: a block is put aside for one writer at a time, and no block that is in use is; below
//! the hint no block is both free and not put aside. The map is changed by the record that writes a
//! page or gives it back, so a crash loses no more than what was put aside.
//! Does not do: give the file's end back to the system.

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
pub(super) struct Space {
    /// Put aside for writers.
    aside: BTreeSet<u32>,
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
    pub(super) fn put_aside(&self, count: usize) -> Result<Vec<u32>> {
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
                if state == FREE && !space.aside.contains(&at) {
                    found.push(at);
                }
                at += 1;
            }
        }
        space.aside.extend(&found);
        space.hint = at;
        Ok(found)
    }

    /// Blocks that were put aside were written or are not wanted.
    pub(super) fn settle(&self, blocks: impl IntoIterator<Item = u32>, written: bool) {
        let mut space = self.shared.space.lock();
        for block in blocks {
            assert!(space.aside.remove(&block), "a block that was put aside");
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
