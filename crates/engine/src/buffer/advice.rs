//! Pages that are in memory, on their way into the processor's caches ahead of who will use them.
//!
//! A page that nobody looked at lately costs several looks into memory, one after the other: the
//! frame, its header and trailer, what those point to. Whoever knows which pages come next can have
//! them fetched together while it works on others.
//!
//! Invariants: advice only: nothing is pinned, latched or waited for, and no page comes into the
//! pool or counts as used. A wrong guess costs a cache line.
//! Does not do: look into pages (`Reading` does, for those who know where to look next).

use crate::buffer::pool::BufferPool;
use crate::ids::PageId;
use crate::page::buf::prefetch_line;

impl BufferPool {
    /// Asks for what a pin and a latch of `page` touch, and for the cache lines at `offsets`, if
    /// the page is in memory.
    #[inline]
    pub fn expect(&self, page: PageId, offsets: &[usize]) {
        let Some(index) = self.core.table.guess(page) else { return };
        prefetch_line(self.core.arena.frame(index));
        let view = self.core.arena.page(index).view();
        offsets.iter().for_each(|offset| view.prefetch(*offset));
    }
}
