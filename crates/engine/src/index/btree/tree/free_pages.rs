//! Blocks for new pages.
//!
//! A deleted page is `BtreeFree` on disk. It is used again only when every operation that was
//! registered when it was freed has ended (R6); that is tracked in memory. After a restart no
//! operation is left, so every `BtreeFree` or never written block is free. A block is reserved
//! before any latch is taken, because finding one may read or grow the file (R7).
//!
//! The meta page names blocks that were free once; these are hints, checked when they are used. A
//! page that leaves the tree stops being a hint first ([`FreePages::begin_deletion`]).
//!
//! Invariants: a block is in at most one of `ready`, `pending`, `out`, `hints`. A block in `out`
//! belongs to one change until [`FreePages::done`]. Hints are blocks that the file had when the
//! tree was opened.
//! Does not do: delete pages (`vacuum/merge`).
//! PostgreSQL: `_bt_getbuf`, `BTPageIsRecyclable`.

use rightlink_env::Broken;
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
    /// Held while the file grows: other threads that need a block wait, and find the new ones.
    growth: Mutex<()>,
}

#[derive(Default)]
struct FreePagesState {
    /// Free, may be used at once.
    ready: Vec<u32>,
    /// Freed under this registration number. Usable when all older operations have ended.
    pending: VecDeque<(u64, u32)>,
    /// Reserved for a change that is not made yet.
    reserved: BTreeSet<u32>,
    /// Named by the meta page, in descending order; free if the page says so.
    hints: Vec<u32>,
    /// Being deleted, once for each attempt. The page may say that it is free a moment before the
    /// block is in `pending`.
    deleting: Vec<u32>,
    /// Is the file being extended?
    growing: bool,
}

/// A block that may be free.
enum Candidate {
    /// It is free, and reserved.
    Free(u32),
    /// The meta page says that it was free.
    Hint(u32),
}

impl FreePagesState {
    /// What the meta page says about `block` is no longer used.
    fn forget_hint(&mut self, block: u32) {
        if let Ok(at) = self.hints.binary_search_by(|hint| block.cmp(hint)) {
            self.hints.remove(at);
        }
    }
}

impl FreePages {
    /// Sets the hints to the blocks that the meta page names. The file has `blocks` blocks; a crash
    /// may have cut off others.
    pub(crate) fn set_hints(&self, named: &[u32], blocks: u32) {
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
    pub(crate) fn note_in_use(&self, block: u32) {
        self.state.lock().forget_hint(block);
    }

    /// The page at `block` was freed under registration number `at`.
    pub(crate) fn freed(&self, at: u64, block: u32) {
        assert!(block != 0, "the meta page is never free");
        self.state.lock().pending.push_back((at, block));
    }

    /// An attempt to delete the page at `block` begins. The caller holds no latch, because a search
    /// for free blocks latches pages under the lock.
    pub(crate) fn begin_deletion(&self, block: u32) -> PageDeletion<'_> {
        let mut state = self.state.lock();
        state.deleting.push(block);
        if !broken(Broken::FreeHintOutlivesReuse) {
            state.forget_hint(block);
        }
        drop(state);
        PageDeletion(self, block)
    }

    /// The change that reserved `block` is made, or was given up: then the block is free again.
    fn done(&self, block: u32, used: bool) {
        let mut state = self.state.lock();
        assert!(state.reserved.remove(&block), "a block that was handed out");
        if !used {
            state.ready.push(block);
        }
    }

    fn is_claimed(state: &FreePagesState, block: u32) -> bool {
        state.reserved.contains(&block)
            || state.deleting.contains(&block)
            || state.ready.contains(&block)
            || state.hints.contains(&block)
            || state.pending.iter().any(|(_, pending)| *pending == block)
    }
}

/// A page that is being deleted: until this is dropped, no other thread finds it free.
pub(crate) struct PageDeletion<'t>(&'t FreePages, u32);

impl Drop for PageDeletion<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        let at = state.deleting.iter().position(|block| *block == self.1);
        state.deleting.swap_remove(at.expect("each attempt is there until it ends"));
    }
}

/// A block reserved for a new page, pinned. It is returned unless it was used.
pub(crate) struct ReservedBlock<'t> {
    tree: &'t Tree,
    /// The block.
    pub(crate) block: u32,
    pin: Option<Pin>,
    used: bool,
}

impl ReservedBlock<'_> {
    /// The pin. It can be taken once.
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
        self.tree.free_pages.done(self.block, self.used);
    }
}

impl Tree {
    /// Reserves a block for a new page and pins it. This may read and grow the file: the caller
    /// holds no latch.
    pub(crate) fn reserve_block(&self) -> Result<ReservedBlock<'_>> {
        let block = self.take_block()?;
        let mut spare = ReservedBlock { tree: self, block, pin: None, used: false };
        spare.pin = Some(self.pool.pin_new(self.page(block))?);
        Ok(spare)
    }

    /// Reserves a block for a new page. This may grow the file: the caller holds no latch, and
    /// calls [`FreePages::done`] afterwards.
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

    /// A free block, else the next hint.
    fn take_candidate(&self) -> Option<Candidate> {
        let mut state = self.free_pages.state.lock();
        let oldest = self.registrations.oldest();
        let gone = |at: u64| at < oldest || broken(Broken::PageReusedUnderDescent);
        while state.pending.front().is_some_and(|(at, _)| gone(*at)) {
            let block = state.pending.pop_front().expect("there is a front").1;
            state.ready.push(block);
        }
        let Some(block) = state.ready.pop() else {
            return state.hints.last().copied().map(Candidate::Hint);
        };
        state.reserved.insert(block);
        Some(Candidate::Free(block))
    }

    /// Reserves the last hint, if that is still `block` and its page says that it is free. An error
    /// costs the hint.
    fn take_hint(&self, block: u32) -> Result<bool> {
        let pin = self.pool.pin(self.page(block));
        let mut state = self.free_pages.state.lock();
        if state.hints.last() != Some(&block) {
            return Ok(false);
        }
        state.hints.pop();
        // No deletion of the page has begun, and hints are used under the lock only. So the page
        // tells whether it is free.
        let free = says_free(&pin?);
        if free {
            state.reserved.insert(block);
        }
        Ok(free)
    }

    /// Extends the file, unless another thread did so while this one waited.
    fn grow(&self) -> Result<()> {
        let _turn = self.free_pages.growth.lock();
        {
            let mut state = self.free_pages.state.lock();
            if !state.ready.is_empty() && !broken(Broken::FileGrownPerWaiter) {
                return Ok(());
            }
            state.growing = true;
        }
        let count = (self.pool.blocks(self.file) / 16).clamp(1, 64);
        let grown = self.pool.extend(self.file, count);
        let mut state = self.free_pages.state.lock();
        state.growing = false;
        let first = grown?.0;
        state.ready.extend((first..first + count).rev());
        Ok(())
    }

    /// Vacuum met a page that holds nothing. It becomes free unless a change has claimed it.
    pub(crate) fn found_free(&self, block: u32) -> Result<()> {
        let pin = self.pool.pin(self.page(block))?;
        let mut state = self.free_pages.state.lock();
        // While the file grows, the new blocks are in none of the sets, although they are claimed.
        let growing = state.growing && !broken(Broken::GrowingBlocksCalledFree);
        if growing || FreePages::is_claimed(&state, block) {
            return Ok(());
        }
        // No change can be about to use a block that is in none of the sets, so the page
        // tells whether it is free.
        if says_free(&pin) {
            state.ready.push(block);
        }
        Ok(())
    }

    /// Writes the list of free blocks for the next process. Returns how many there are.
    pub(crate) fn save_free(&self) -> Result<u32> {
        let mut free: Vec<u32> = {
            let state = self.free_pages.state.lock();
            let pending = state.pending.iter().map(|(_, block)| *block);
            state.ready.iter().chain(&state.hints).copied().chain(pending).collect()
        };
        free.sort_unstable_by(|a, b| b.cmp(a));
        free.dedup();
        self.store_free(&free)?;
        Ok(free.len() as u32)
    }

    /// Stores the list of free blocks in the meta page, as far as it has space.
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

/// Is this a deleted page, or one that was never written?
fn says_free(pin: &Pin) -> bool {
    let page = pin.shared();
    is_zero(page.bytes()) || kind(page.bytes()) == Some(PageKind::BtreeFree)
}
