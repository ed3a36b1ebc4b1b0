//! Cutting of empty pages off the end of a table.
//!
//! One record per page lowers the extent and zeroes the page; the file is shortened afterwards. A
//! thread that remembers a block of the tail finds it beyond the extent, or zeroed, and goes
//! elsewhere.
//!
//! Invariants: a page that is cut has no line pointer, so its row ids left every index before. The
//! clock is advanced before the cut (R3). The caller holds the table's exclusive lock, so no scan
//! relies on the old end.
//! Does not do: move rows to empty the tail.
//!
//! PostgreSQL: `lazy_truncate_heap` in `access/heap/vacuumlazy.c`.

use crate::buffer::Mtr;
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::heap::latch::MapLatches;
use crate::heap::page::{ALL_VISIBLE, HeapPage};
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
            match self.try_cut_last() {
                Ok(true) => cut += 1,
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // Pages that were cut are logged, so the file is shortened even if the next page could not
        // be cut.
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
    fn try_cut_last(&self) -> Result<bool> {
        let block = self.blocks() - 1;
        if !self.unmark_if_empty(block)? {
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
        // Stored before the latch is released: a thread that finds the page zeroed also finds it
        // beyond the extent.
        self.shared.extent.store(block, Ordering::Release);
        match mtr.commit(RecordKind::Extend, Xid::NONE) {
            Ok(_) => Ok(true),
            // The page stays zeroed, so no thread may come to it.
            Err(error @ Error::Poisoned(_)) => Err(error),
            Err(error) => {
                // A page that stays was out of reach for a moment, which an empty one may be.
                self.shared.extent.store(block + 1, Ordering::Release);
                Err(error)
            }
        }
    }

    /// Takes the marks of `block` away; false if the page is not empty.
    fn unmark_if_empty(&self, block: u32) -> Result<bool> {
        let Some(mut set) = self.latch(&[block], MapLatches::Marked)? else { return Ok(false) };
        set.bits(block)?;
        if set.page(block)?.slots() > 0 {
            return Ok(false);
        }
        set.clear_marks(block);
        set.commit(RecordKind::HeapVacuum, Xid::NONE)?;
        Ok(true)
    }
}
