//! Making room: a frame for a page that is about to come in.
//!
//! Invariants:
//! - Only clean frames are taken (R20). If there are none, the caller writes a group back
//!   itself: nobody depends on a background thread.
//! - R7: no latch is held, since this may write and wait.
//! - It ends: when every frame stays pinned, with `Error::OutOfMemory`.
//! - Pages that cannot be written keep nobody from a frame as long as there are others: a clean one
//!   is looked for everywhere, and then others are written.
//!
//! Does not do: policy (`replacement`).

use std::time::Duration;

use rightlink_env::sync::Ordering;
use rightlink_env::{points, thread};

use crate::buffer::frame::{DIRTY, Frame};
use crate::buffer::latched;
use crate::buffer::pool::{BufferPool, Core};
use crate::buffer::replacement::{Attempt, Depth, Victim};
use crate::error::{Error, Result};

/// How often the pool is looked through for an unpinned frame before the wait is given up.
const PATIENCE: u32 = 1000;
/// Longest wait for an unpinned frame between two looks.
const NAP: Duration = Duration::from_millis(1);

/// Groups that fail to be written before somebody who needs a frame is told so.
const MOST_FAILED: u32 = 8;

/// What a frame is needed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// For a page that somebody waits for.
    Now,
    /// For a page that somebody may want.
    Ahead,
}

impl Core {
    /// Takes a clean, unpinned frame out of the page table.
    pub(super) fn try_evict(&self, frame: &Frame, index: u32) -> Attempt {
        let page = frame.tag();
        let bucket = self.table.lock(page);
        // A frame that was let go keeps its tag: only the table tells that it is still this page's.
        let here = bucket.find(&self.arena) == Some(index) || points::broken("evict-stale-tag");
        if here
            && frame.tag() == page
            && let Some(before) = frame.try_claim(0)
        {
            self.retire(before);
            // Before the page can come back, into another frame and with a greater version.
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
            // In the model no time passes, so a timed wait would never end.
            return thread::yield_now();
        }
        self.starving.fetch_add(1, Ordering::SeqCst);
        let guard = self.starved.0.lock();
        drop(self.starved.1.wait_timeout(guard, NAP));
        self.starving.fetch_sub(1, Ordering::SeqCst);
    }
}

impl BufferPool {
    /// A frame that nobody else knows. Looking ahead is not worth a wait for pins to be dropped.
    pub(super) fn claim(&self, need: Need) -> Result<u32> {
        latched::assert_none();
        let tries = if need == Need::Now { PATIENCE } else { 2 };
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
                    // Who comes next goes on behind what has failed.
                    Err(error) if failed == MOST_FAILED => return Err(error),
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
