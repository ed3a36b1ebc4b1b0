//! Cache-line prefetch: asks the processor to load lines of pages that are in memory.
//!
//! Reading a page that is not in the processor's caches costs several cache misses, one after the
//! other: the frame, the page's header and trailer, the items. A caller that knows the next pages
//! has their lines loaded together while it works on another page.
//!
//! Invariants: nothing is pinned, latched or waited for; no page is read or counts as used. A wrong
//! guess costs a cache line.
//! Does not do: find the offsets in a page (`Reading` looks into pages).

use crate::buffer::pool::BufferPool;
use crate::ids::PageId;
use crate::page::buf::prefetch_line;

impl BufferPool {
    /// Prefetches the frame of `page` and the cache lines at `offsets`, if the page is in memory.
    #[inline]
    pub fn prefetch_lines(&self, page: PageId, offsets: &[usize]) {
        let Some(index) = self.core.table.guess(page) else { return };
        prefetch_line(self.core.arena.frame(index));
        let view = self.core.arena.page(index).view();
        offsets.iter().for_each(|offset| view.prefetch(*offset));
    }
}
