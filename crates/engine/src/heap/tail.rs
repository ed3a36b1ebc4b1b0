//! Cutting empty pages off the end of a table.
//!
//! Each page is cut by one record that lowers the extent and zeroes the page; the file follows
//! after. Whoever remembers a block of the tail finds it beyond the extent, or zeroed once it has
//! the latch, and goes elsewhere.
//!
//! Invariants: a page that is cut holds no line pointer, so its row ids left every index before;
//! the clock is advanced before the cut (R3); the caller holds the table's exclusive lock, so that
//! no scan has the old end in mind.
//! Does not do: move rows to empty the tail.

use crate::buffer::Mtr;
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::heap::page::{ALL_VISIBLE, HeapPage};
use crate::heap::page_set::Maps;
use crate::ids::{BlockNo, Xid};
use crate::wal::RecordKind;
use rightlink_env::sync::Ordering;

impl Heap {
    /// Cuts at most `limit` empty pages off the end; returns how many.
    pub fn cut_tail(&self, limit: u32) -> Result<u32> {
        let turn = self.shared.extension.lock();
        let before = self.blocks();
        let mut cut = 0;
        let ended = loop {
            if cut == limit || self.blocks() == 1 {
                break Ok(());
            }
            match self.cut_last() {
                Ok(true) => cut += 1,
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // What was cut is logged: it goes, too, where the page before it could not be cut.
        let given_back = if cut > 0 { self.give_back_from(before) } else { Ok(()) };
        drop(turn);
        ended.and(given_back)?;
        assert!(self.blocks() + cut == before, "the extent changes only under the turn");
        Ok(cut)
    }

    /// Shortens the file, which had `before` blocks, to the extent. The caller has the turn.
    fn give_back_from(&self, before: u32) -> Result<()> {
        self.free_space().forget_from(self.blocks(), before)?;
        self.pool().truncate(self.files().heap, self.blocks())
    }

    /// Cuts the last page if it is empty. The caller has the turn.
    fn cut_last(&self) -> Result<bool> {
        let block = self.blocks() - 1;
        if !self.unmark_empty(block)? {
            return Ok(false);
        }
        self.clock().advance(BlockNo(block));
        let (meta, last) = (self.pool().pin(self.page_id(0))?, self.pin(BlockNo(block))?);
        let mut mtr = Mtr::new(self.pool());
        let held_meta = mtr.latch(meta);
        let held = mtr.latch(last);
        let page = HeapPage::open(mtr.id(held), mtr.bytes(held))?;
        if page.slots() > 0 || page.flags() & ALL_VISIBLE != 0 {
            return Ok(false);
        }
        mtr.page(held).replace(&[0; PAGE_SIZE]);
        Heap::store_extent(&mut mtr, held_meta, block);
        // Before the latch goes: whoever finds the page zeroed finds it beyond the extent, too.
        self.shared.extent.store(block, Ordering::Release);
        match mtr.commit(RecordKind::Extend, Xid::NONE) {
            Ok(_) => Ok(true),
            // The page is zeroed for good: nobody may come to it.
            Err(error @ Error::Poisoned(_)) => Err(error),
            Err(error) => {
                // A page that stays was out of reach for a moment, which an empty one may be.
                self.shared.extent.store(block + 1, Ordering::Release);
                Err(error)
            }
        }
    }

    /// Takes the marks of `block` away; false if the page is not empty.
    fn unmark_empty(&self, block: u32) -> Result<bool> {
        let Some(mut set) = self.latch(&[block], Maps::Marked)? else { return Ok(false) };
        set.bits(block)?;
        if set.page(block)?.slots() > 0 {
            return Ok(false);
        }
        set.unmark(block, false);
        set.commit(RecordKind::HeapVacuum, Xid::NONE)?;
        Ok(true)
    }
}
