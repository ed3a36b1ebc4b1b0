//! Eviction: takes a frame from its page, for a page that is about to be read.
//!
//! Invariants:
//! - Only clean, unpinned frames are taken (R20). If there are none, the caller writes a group
//!   itself, so no operation depends on a background thread.
//! - The caller holds no latch (R7), since this may write and wait.
//! - The wait ends (R21): with `Error::OutOfMemory` if every frame stays pinned.
//! - Pages that cannot be written do not block a search: it covers the whole pool for a clean
//!   frame, and then other pages are written.
//!
//! Does not do: choose the victim (`replacement`).

use rightlink_env::Broken;
use std::time::Duration;

use rightlink_env::sync::Ordering;
use rightlink_env::{points, thread};

use crate::buffer::core::Core;
use crate::buffer::frame::{DIRTY, Frame};
use crate::buffer::latched;
use crate::buffer::pool::BufferPool;
use crate::buffer::replacement::{Attempt, Depth, Victim};
use crate::error::{Error, Result};

/// Searches for an unpinned frame before the caller gets an error.
const MAX_SEARCHES: u32 = 1000;
/// Longest wait for an unpinned frame between two searches.
const PIN_WAIT: Duration = Duration::from_millis(1);
/// Groups that may fail to be written before the caller gets the error.
const MAX_FAILED_GROUPS: u32 = 8;

/// The purpose of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// For a page that the caller waits for.
    Now,
    /// For a page that is read ahead.
    Ahead,
}

impl Core {
    /// Takes a clean, unpinned frame out of the page table (R20).
    pub(super) fn try_evict(&self, frame: &Frame, index: u32) -> Attempt {
        let page = frame.tag();
        let bucket = self.table.lock(page);
        // A free frame keeps its tag, so only the table tells which page a frame holds (R20).
        let here =
            bucket.find(&self.arena) == Some(index) || points::broken(Broken::StaleTagEvicted);
        if here
            && frame.tag() == page
            && let Some(before) = frame.try_claim(0)
        {
            self.retire(before);
            // Before the page can return, to another frame and with a larger version.
            self.note_version(frame);
            bucket.remove(&self.arena, index);
            return Attempt::Taken;
        }
        if frame.state() & DIRTY != 0 { Attempt::Dirty } else { Attempt::Busy }
    }

    /// Waits until a pin is dropped, or a moment.
    fn wait_for_unpin(&self) {
        if self.io.in_flight() > 0 {
            self.io.reap(true);
            return;
        }
        if cfg!(feature = "shuttle") {
            // In the model checker no time passes, so a timed wait would never end.
            return thread::yield_now();
        }
        self.frame_waiters.fetch_add(1, Ordering::SeqCst);
        let guard = self.unpinned.0.lock();
        drop(self.unpinned.1.wait_timeout(guard, PIN_WAIT));
        self.frame_waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

impl BufferPool {
    /// A frame that no other thread knows. A read ahead does not wait for pins to be dropped.
    pub(super) fn claim(&self, need: Need) -> Result<u32> {
        latched::assert_none();
        let tries = if need == Need::Now { MAX_SEARCHES } else { 2 };
        let (mut depth, mut failed) = (Depth::Usual, 0);
        for _ in 0..tries {
            match self.find_victim(depth) {
                Victim::Free(index) => return Ok(index),
                Victim::Evicted(index) => {
                    points::hit("buffer.evict");
                    self.core.counters.evictions.add(1);
                    return Ok(index);
                }
                Victim::AllDirty => match self.clean_for_eviction() {
                    Ok(0) if need == Need::Now => self.core.wait_for_unpin(),
                    Ok(_) => {}
                    // The next group leaves out the pages that have failed.
                    Err(error) if failed == MAX_FAILED_GROUPS => return Err(error),
                    Err(_) => (depth, failed) = (Depth::Whole, failed + 1),
                },
                Victim::AllPinned if need == Need::Now => self.core.wait_for_unpin(),
                Victim::AllPinned => break,
            }
        }
        let frames = self.core.arena.len();
        Err(Error::OutOfMemory(format!("all {frames} pages of the buffer pool are in use at once")))
    }

    fn find_victim(&self, depth: Depth) -> Victim {
        let mut replacement = self.core.replacement.lock();
        let take = |frame: &Frame, index| self.core.try_evict(frame, index);
        replacement.victim(&self.core.arena, depth, take)
    }
}
