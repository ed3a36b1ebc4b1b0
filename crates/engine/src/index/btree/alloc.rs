//! Blocks for new pages, and the registered descents that delay their reuse (R6).
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
//! belongs to a change under way and is nobody else's until [`Blocks::done`]. Hints are blocks that
//! the file had when the tree was opened, in descending order.
//! Does not do: persist anything but through `meta`.

use std::collections::{BTreeSet, VecDeque};

use rightlink_env::points::broken;
use rightlink_env::sync::{AtomicU64, Mutex, Ordering};

use crate::buffer::Pin;
use crate::error::Result;
use crate::index::btree::Tree;
use crate::page::PageKind;
use crate::page::header::{is_zero, kind};

/// Free blocks as this process knows them.
#[derive(Default)]
pub(crate) struct Blocks {
    state: Mutex<State>,
    /// Held by who grows the file, so that the others that lack a block find what he has brought.
    growth: Mutex<()>,
}

#[derive(Default)]
struct State {
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
enum Known {
    /// Free, and handed out.
    Free(u32),
    /// Said to be free by the meta page.
    Hint(u32),
}

impl State {
    /// The meta page's word on `block` does not count any more.
    fn forget_hint(&mut self, block: u32) {
        if let Ok(at) = self.hints.binary_search_by(|hint| block.cmp(hint)) {
            self.hints.remove(at);
        }
    }
}

impl Blocks {
    /// Blocks that the meta page names, as the tree is opened with so many blocks in its file: a
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

    fn known(state: &State, block: u32) -> bool {
        state.out.contains(&block)
            || state.leaving.contains(&block)
            || state.ready.contains(&block)
            || state.hints.contains(&block)
            || state.pending.iter().any(|(_, pending)| *pending == block)
    }
}

/// A block that is being given back: until this is dropped nobody else finds it free.
pub(crate) struct Leaving<'t>(&'t Blocks, u32);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        let at = state.leaving.iter().position(|block| *block == self.1);
        state.leaving.swap_remove(at.expect("each attempt is there until it ends"));
    }
}

/// A block for a new page, pinned; goes back unless it was used.
pub(crate) struct Spare<'t> {
    tree: &'t Tree,
    /// The block.
    pub(crate) block: u32,
    pin: Option<Pin>,
    used: bool,
}

impl Spare<'_> {
    /// The pin, once.
    pub(crate) fn pin(&mut self) -> Pin {
        self.pin.take().expect("asked for once, by the change that uses the block")
    }

    /// The page is part of the tree.
    pub(crate) fn used(mut self) {
        self.used = true;
    }
}

impl Drop for Spare<'_> {
    fn drop(&mut self) {
        self.tree.blocks.done(self.block, self.used);
    }
}

impl Tree {
    /// A block for a new page, pinned. May read and grow the file: hold no latch.
    pub(crate) fn spare(&self) -> Result<Spare<'_>> {
        let block = self.take_block()?;
        let mut spare = Spare { tree: self, block, pin: None, used: false };
        spare.pin = Some(self.pool.pin_new(self.page(block))?);
        Ok(spare)
    }

    /// A block for a new page. May grow the file: hold no latch. Tell [`Blocks::done`] afterwards.
    fn take_block(&self) -> Result<u32> {
        loop {
            match self.take_known() {
                Some(Known::Free(block)) => return Ok(block),
                Some(Known::Hint(block)) if self.take_hint(block)? => return Ok(block),
                Some(Known::Hint(_)) => {}
                None => self.grow()?,
            }
        }
    }

    /// A block that is free, else the next one that is said to be.
    fn take_known(&self) -> Option<Known> {
        let mut state = self.blocks.state.lock();
        let oldest = self.registrations.oldest();
        let gone = |at: u64| at < oldest || broken("r6-recycle");
        while state.pending.front().is_some_and(|(at, _)| gone(*at)) {
            let block = state.pending.pop_front().expect("there is a front").1;
            state.ready.push(block);
        }
        let Some(block) = state.ready.pop() else {
            return state.hints.last().copied().map(Known::Hint);
        };
        state.out.insert(block);
        Some(Known::Free(block))
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
        if growing || Blocks::known(&state, block) {
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
}

/// Is this a page that was given back, or never written?
fn says_free(pin: &Pin) -> bool {
    let page = pin.shared();
    is_zero(page.bytes()) || kind(page.bytes()) == Some(PageKind::BtreeFree)
}

/// How many descents register without meeting each other.
const SLOTS: usize = if cfg!(feature = "shuttle") { 4 } else { 32 };

/// Descents under way (R6): each holds the number of the moment it began.
///
/// An operation may register while it is registered, and reads pages all the while: so nobody ever
/// waits for a slot. Who finds none goes on a list.
pub(crate) struct Registrations {
    /// Moments so far; 0 in a slot means that it is unused.
    now: AtomicU64,
    slots: [Slot; SLOTS],
    /// Moments of those beyond the slots.
    late: Mutex<Vec<u64>>,
}

#[repr(align(64))]
struct Slot(AtomicU64);

impl Default for Registrations {
    fn default() -> Self {
        let slots = std::array::from_fn(|_| Slot(AtomicU64::new(0)));
        Self { now: AtomicU64::new(1), slots, late: Mutex::default() }
    }
}

/// A registered descent; ends when dropped.
pub(crate) struct Registration<'a>(Entered<'a>);

/// Where a descent is registered.
enum Entered<'a> {
    Slot(&'a AtomicU64),
    /// On the list, with this number.
    Late(&'a Mutex<Vec<u64>>, u64),
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        match self.0 {
            Entered::Slot(slot) => slot.store(0, Ordering::Release),
            Entered::Late(late, began) => leave_list(late, began),
        }
    }
}

#[cold]
fn leave_list(late: &Mutex<Vec<u64>>, began: u64) {
    let mut late = late.lock();
    // Equal numbers are one as good as the other.
    let at = late.iter().position(|at| *at == began);
    late.swap_remove(at.expect("each is on the list until it ends"));
}

thread_local! {
    static HOME: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Registrations {
    /// Registers a descent. Waits for nobody.
    pub(crate) fn enter(&self) -> Registration<'_> {
        let home = HOME.get();
        for at in home..home + SLOTS {
            let slot = &self.slots[at % SLOTS].0;
            // Only one that looks unused is written to: its owner may be busy next to it.
            if at != home && slot.load(Ordering::Relaxed) != 0 {
                continue;
            }
            // The slot is claimed with a moment not later than the first page read.
            let now = self.now.load(Ordering::SeqCst);
            if slot.compare_exchange(0, now, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                HOME.set(at % SLOTS);
                return Registration(Entered::Slot(slot));
            }
        }
        self.enter_list()
    }

    #[cold]
    fn enter_list(&self) -> Registration<'_> {
        let mut late = self.late.lock();
        // Read under the lock: who asks for the oldest either finds this on the list, or had the
        // lock before, and what it takes for free was out of the tree by then.
        let now = self.now.load(Ordering::SeqCst);
        late.push(now);
        Registration(Entered::Late(&self.late, now))
    }

    /// Ends a moment and returns its number: descents that begin from now on have a later one.
    pub(crate) fn tick(&self) -> u64 {
        self.now.fetch_add(1, Ordering::SeqCst)
    }

    /// A page freed under a number below this can be seen by no descent. Only for pages that were
    /// freed before this is called.
    pub(crate) fn oldest(&self) -> u64 {
        let now = self.now.load(Ordering::SeqCst);
        let slots = self.slots.iter().map(|slot| slot.0.load(Ordering::SeqCst));
        let oldest = slots.filter(|at| *at != 0).fold(now, u64::min);
        match broken("r6-late") {
            true => oldest,
            false => self.late.lock().iter().copied().fold(oldest, u64::min),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_waits_for_the_descents_that_could_know_it() {
        let registrations = Registrations::default();
        let early = registrations.enter();
        let freed = registrations.tick();
        let late = registrations.enter();
        assert!(freed >= registrations.oldest(), "the early descent may still arrive there");
        drop(early);
        assert!(
            freed < registrations.oldest(),
            "the late one began after the page had left the tree"
        );
        drop(late);
        assert!(freed < registrations.oldest());
    }

    /// More than there are slots, on one thread: operations register within each other.
    #[test]
    fn nobody_waits_for_a_slot() {
        let registrations = Registrations::default();
        let mut entered: Vec<_> = (0..SLOTS).map(|_| registrations.enter()).collect();
        registrations.tick();
        let beyond = registrations.enter();
        let freed = registrations.tick();
        entered.extend((0..7).map(|_| registrations.enter()));
        assert!(registrations.oldest() < freed, "the first ones were there");
        entered.drain(..SLOTS);
        assert_eq!(registrations.oldest(), freed, "the one beyond the slots still is");
        drop(beyond);
        assert!(freed < registrations.oldest(), "those that are left came afterwards");
        drop(entered);
        assert!(freed < registrations.oldest());
    }
}
