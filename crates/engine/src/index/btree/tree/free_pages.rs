//! FreePages for new pages, and the registered descents that delay their reuse (R6).
//!
//! A page that was emptied is `BtreeFree` on disk; whether it may be used again is decided in
//! memory: only when every descent that was under way when it was freed has ended. After a restart
//! there are none, so every `BtreeFree` or never written block is free. A block is handed out
//! before any latch is taken, because finding one may read or grow the file (R7).
//!
//! The meta page names blocks that were free once. Those that have been used again since are named
//! still, so a hint says nothing of a page that leaves the tree in this process: before it does, it
//! stops being one, and what a hint's page says counts only under the lock, while it is one. A hint
//! whose page says that it is free has been free since the tree was opened.
//!
//! Invariants: a block is in at most one of `ready`, `pending`, `out`, `hints`; one in `out`
//! belongs to a change under way and is nobody else's until [`FreePages::done`]. Hints are blocks that
//! the file had when the tree was opened, in descending order.
//! Does not do: persist anything but through `meta`.

use std::collections::{BTreeSet, VecDeque};

use rightlink_env::points::broken;
use rightlink_env::sync::Mutex;

use crate::buffer::{Mtr, Pin};
use crate::error::Result;
use crate::ids::Xid;
use crate::index::btree::page::meta;
use crate::index::btree::tree::Tree;
use crate::page::PageKind;
use crate::page::header::{is_zero, kind};
use crate::wal::RecordKind;

/// Free blocks as this process knows them.
#[derive(Default)]
pub(crate) struct FreePages {
    state: Mutex<FreePagesState>,
    /// Held by who grows the file, so that the others that lack a block find what he has brought.
    growth: Mutex<()>,
}

#[derive(Default)]
struct FreePagesState {
    /// Free, may be used at once.
    ready: Vec<u32>,
    /// Freed under this registration number; usable when all older descents are over.
    pending: VecDeque<(u64, u32)>,
    /// Handed out, change not yet made.
    out: BTreeSet<u32>,
    /// Named by the meta page, in descending order; free if the page says so.
    hints: Vec<u32>,
    /// Being given back, once for each attempt: the page may say that it is free a moment before
    /// the block is in `pending`.
    leaving: Vec<u32>,
    /// Does somebody grow the file now?
    growing: bool,
}

/// A block that may be had.
enum Candidate {
    /// Free, and handed out.
    Free(u32),
    /// Said to be free by the meta page.
    Hint(u32),
}

impl FreePagesState {
    /// The meta page's word on `block` does not count any more.
    fn forget_hint(&mut self, block: u32) {
        if let Ok(at) = self.hints.binary_search_by(|hint| block.cmp(hint)) {
            self.hints.remove(at);
        }
    }
}

impl FreePages {
    /// FreePages that the meta page names, as the tree is opened with so many blocks in its file: a
    /// crash may have taken others off its end.
    pub(crate) fn hint(&self, named: &[u32], blocks: u32) {
        let mut hints: Vec<u32> =
            named.iter().copied().filter(|block| (1..blocks).contains(block)).collect();
        hints.sort_unstable_by(|a, b| b.cmp(a));
        hints.dedup();
        self.state.lock().hints = hints;
    }

    /// The hints, in descending order.
    pub(crate) fn hints(&self) -> Vec<u32> {
        self.state.lock().hints.clone()
    }

    /// A page of the tree is at `block`.
    pub(crate) fn in_use(&self, block: u32) {
        self.state.lock().forget_hint(block);
    }

    /// A block was emptied under registration number `at`.
    pub(crate) fn freed(&self, at: u64, block: u32) {
        assert!(block != 0, "the meta page is never free");
        self.state.lock().pending.push_back((at, block));
    }

    /// An attempt to give back `block` begins. Hold no latch: whoever looks for free blocks latches
    /// pages under the lock.
    pub(crate) fn leaving(&self, block: u32) -> Leaving<'_> {
        let mut state = self.state.lock();
        state.leaving.push(block);
        if !broken("r6-hints") {
            state.forget_hint(block);
        }
        drop(state);
        Leaving(self, block)
    }

    /// The change that took `block` is made (or was given up: then the block is free again).
    fn done(&self, block: u32, used: bool) {
        let mut state = self.state.lock();
        assert!(state.out.remove(&block), "a block that was handed out");
        if !used {
            state.ready.push(block);
        }
    }

    fn is_claimed(state: &FreePagesState, block: u32) -> bool {
        state.out.contains(&block)
            || state.leaving.contains(&block)
            || state.ready.contains(&block)
            || state.hints.contains(&block)
            || state.pending.iter().any(|(_, pending)| *pending == block)
    }
}

/// A block that is being given back: until this is dropped nobody else finds it free.
pub(crate) struct Leaving<'t>(&'t FreePages, u32);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        let at = state.leaving.iter().position(|block| *block == self.1);
        state.leaving.swap_remove(at.expect("each attempt is there until it ends"));
    }
}

/// A block for a new page, pinned; goes back unless it was used.
pub(crate) struct ReservedBlock<'t> {
    tree: &'t Tree,
    /// The block.
    pub(crate) block: u32,
    pin: Option<Pin>,
    used: bool,
}

impl ReservedBlock<'_> {
    /// The pin, once.
    pub(crate) fn take_pin(&mut self) -> Pin {
        self.pin.take().expect("asked for once, by the change that uses the block")
    }

    /// The page is part of the tree.
    pub(crate) fn mark_used(mut self) {
        self.used = true;
    }
}

impl Drop for ReservedBlock<'_> {
    fn drop(&mut self) {
        self.tree.blocks.done(self.block, self.used);
    }
}

impl Tree {
    /// A block for a new page, pinned. May read and grow the file: hold no latch.
    pub(crate) fn reserve_block(&self) -> Result<ReservedBlock<'_>> {
        let block = self.take_block()?;
        let mut spare = ReservedBlock { tree: self, block, pin: None, used: false };
        spare.pin = Some(self.pool.pin_new(self.page(block))?);
        Ok(spare)
    }

    /// A block for a new page. May grow the file: hold no latch. Tell [`FreePages::done`] afterwards.
    fn take_block(&self) -> Result<u32> {
        loop {
            match self.take_candidate() {
                Some(Candidate::Free(block)) => return Ok(block),
                Some(Candidate::Hint(block)) if self.take_hint(block)? => return Ok(block),
                Some(Candidate::Hint(_)) => {}
                None => self.grow()?,
            }
        }
    }

    /// A block that is free, else the next one that is said to be.
    fn take_candidate(&self) -> Option<Candidate> {
        let mut state = self.blocks.state.lock();
        let oldest = self.registrations.oldest();
        let gone = |at: u64| at < oldest || broken("r6-recycle");
        while state.pending.front().is_some_and(|(at, _)| gone(*at)) {
            let block = state.pending.pop_front().expect("there is a front").1;
            state.ready.push(block);
        }
        let Some(block) = state.ready.pop() else {
            return state.hints.last().copied().map(Candidate::Hint);
        };
        state.out.insert(block);
        Some(Candidate::Free(block))
    }

    /// Takes the last hint, if that is still `block` and its page says that it is free. An error
    /// costs the hint.
    fn take_hint(&self, block: u32) -> Result<bool> {
        let pin = self.pool.pin(self.page(block));
        let mut state = self.blocks.state.lock();
        if state.hints.last() != Some(&block) {
            return Ok(false);
        }
        state.hints.pop();
        // No attempt to take it out of the tree has begun, and nobody uses a hint without the lock:
        // what the page says now holds.
        let free = says_free(&pin?);
        if free {
            state.out.insert(block);
        }
        Ok(free)
    }

    /// Grows the file, unless another has while this waited for its turn.
    fn grow(&self) -> Result<()> {
        let _turn = self.blocks.growth.lock();
        {
            let mut state = self.blocks.state.lock();
            if !state.ready.is_empty() && !broken("growth-turn") {
                return Ok(());
            }
            state.growing = true;
        }
        let count = (self.pool.blocks(self.file) / 16).clamp(1, 64);
        let grown = self.pool.extend(self.file, count);
        let mut state = self.blocks.state.lock();
        state.growing = false;
        let first = grown?.0;
        state.ready.extend((first..first + count).rev());
        Ok(())
    }

    /// Vacuum met a block that holds nothing: unless it is spoken for it is free from now on.
    pub(crate) fn found_free(&self, block: u32) -> Result<()> {
        let pin = self.pool.pin(self.page(block))?;
        let mut state = self.blocks.state.lock();
        // While the file grows, the new blocks are in none of the sets, and yet spoken for.
        let growing = state.growing && !broken("r6-growing");
        if growing || FreePages::is_claimed(&state, block) {
            return Ok(());
        }
        // Nobody can be about to use a block that is in none of the sets, so what the page says now
        // holds.
        if says_free(&pin) {
            state.ready.push(block);
        }
        Ok(())
    }

    /// Writes the free blocks down for the next process; returns how many there are.
    pub(crate) fn save_free(&self) -> Result<u32> {
        let mut free: Vec<u32> = {
            let state = self.blocks.state.lock();
            let pending = state.pending.iter().map(|(_, block)| *block);
            state.ready.iter().chain(&state.hints).copied().chain(pending).collect()
        };
        free.sort_unstable_by(|a, b| b.cmp(a));
        free.dedup();
        self.store_free(&free)?;
        Ok(free.len() as u32)
    }

    /// Writes down which blocks are free, as far as they have room.
    pub(crate) fn store_free(&self, free: &[u32]) -> Result<()> {
        let pin = self.pool.pin(self.page(0))?;
        let mut mtr = Mtr::new(&self.pool);
        let held = mtr.latch(pin);
        let old = meta::parse(mtr.bytes(held)).map_err(|what| self.corrupt(0, what))?;
        let free = &free[..free.len().min(meta::MAX_FREE)];
        if old.free != free {
            let mut bytes = Vec::with_capacity(4 + 4 * free.len());
            bytes.extend((free.len() as u32).to_le_bytes());
            free.iter().for_each(|block| bytes.extend(block.to_le_bytes()));
            mtr.page(held).write(meta::FREE_COUNT, &bytes);
        }
        mtr.commit(RecordKind::IndexMeta, Xid::NONE)?;
        Ok(())
    }
}

/// Is this a page that was given back, or never written?
fn says_free(pin: &Pin) -> bool {
    let page = pin.shared();
    is_zero(page.bytes()) || kind(page.bytes()) == Some(PageKind::BtreeFree)
}
