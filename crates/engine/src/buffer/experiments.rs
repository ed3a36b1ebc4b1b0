//! What only experiments and tests do with a pool (feature `experiments`).
//!
//! Does not do: anything that the engine needs.

use rightlink_env::sync::Ordering;
use rightlink_env::thread;

use crate::buffer::Prefetch;
use crate::buffer::pool::BufferPool;
use crate::buffer::replacement::Attempt;
use crate::config::PAGE_SIZE;
use crate::error::Result;

impl BufferPool {
    /// Sets how far streams of this pool read ahead from now on.
    pub fn set_prefetch(&self, policy: Prefetch) {
        self.core.streams.policy.set(policy);
    }

    /// Writes every dirty page home and evicts every page that is not pinned: the pool is cold
    /// afterwards. Returns how many pages left.
    pub fn evict_all(&self) -> Result<usize> {
        self.evict(&|_| true)
    }

    /// Completes the reads in flight: each holds a pin, which keeps its page in memory. Gives up
    /// after a while if other threads keep starting reads.
    pub fn drain_reads(&self) {
        for _ in 0..1000 {
            if self.core.reads_in_flight.load(Ordering::Acquire) == 0 {
                return;
            }
            // A read that is just completing is not in flight any more and still holds its pin.
            if self.core.io.reap(true) == 0 {
                thread::yield_now();
            }
        }
    }

    /// As [`BufferPool::evict_all`], but only pages that are `unwanted`.
    pub fn evict(&self, unwanted: &dyn Fn(&[u8; PAGE_SIZE]) -> bool) -> Result<usize> {
        self.flush_all()?;
        let mut gone = Vec::new();
        for index in 0..self.core.arena.len() as u32 {
            let frame = self.core.arena.frame(index);
            let pin = self.core.pin_valid(index, frame.tag());
            let keep = pin.is_none_or(|pin| !unwanted(pin.shared().bytes()));
            if !keep && self.core.try_evict(frame, index) == Attempt::Taken {
                gone.push(index);
            }
        }
        self.core.replacement.lock().forget(&gone);
        Ok(gone.len())
    }
}
