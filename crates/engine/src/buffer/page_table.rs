//! The page table: which frame holds which page (R20). Its chains are read without a lock.
//!
//! Invariants:
//! - Chains change only under the lock of their bucket.
//! - [`PageTable::find`] takes no lock. A frame may change its chain meanwhile, so a present page
//!   may be missed. The caller checks the tag after it has pinned the frame.
//!
//! Does not do: pins, loading.

use rightlink_env::sync::{AtomicU32, Mutex, MutexGuard, Ordering};

use crate::buffer::frame::{Arena, NO_FRAME};
use crate::ids::PageId;

const LOCKS: usize = 64;
/// Steps of a lookup without lock before it gives up: it may have strayed into a changing chain.
const MAX_STEPS: usize = 32;

/// The page table.
#[derive(Debug)]
pub(super) struct PageTable {
    buckets: Box<[AtomicU32]>,
    locks: Box<[Mutex<()>]>,
}

/// The lock of the bucket of one page.
#[derive(Debug)]
pub(super) struct Bucket<'a> {
    head: &'a AtomicU32,
    page: PageId,
    _lock: MutexGuard<'a, ()>,
}

impl PageTable {
    /// A table for `frames` frames.
    pub(super) fn new(frames: usize) -> PageTable {
        let buckets = (0..frames.next_power_of_two()).map(|_| AtomicU32::new(NO_FRAME)).collect();
        PageTable { buckets, locks: (0..LOCKS).map(|_| Mutex::new(())).collect() }
    }

    #[inline]
    fn bucket(&self, page: PageId) -> usize {
        spread(page) as usize & (self.buckets.len() - 1)
    }

    /// The frame that seems to hold `page`.
    #[inline]
    pub(super) fn find(&self, arena: &Arena, page: PageId) -> Option<u32> {
        let mut at = self.buckets[self.bucket(page)].load(Ordering::Acquire);
        for _ in 0..MAX_STEPS {
            if at == NO_FRAME {
                return None;
            }
            let frame = arena.frame(at);
            if frame.tag() == page {
                return Some(at);
            }
            at = frame.next.load(Ordering::Acquire);
        }
        None
    }

    /// The first frame of the chain that `page` is in: mostly its own, if it has one.
    #[inline]
    pub(super) fn guess(&self, page: PageId) -> Option<u32> {
        let at = self.buckets[self.bucket(page)].load(Ordering::Relaxed);
        (at != NO_FRAME).then_some(at)
    }

    /// Locks the bucket of `page`.
    pub(super) fn lock(&self, page: PageId) -> Bucket<'_> {
        let bucket = self.bucket(page);
        let _lock = self.locks[bucket % LOCKS].lock();
        Bucket { head: &self.buckets[bucket], page, _lock }
    }
}

impl Bucket<'_> {
    /// The frame that holds the page, or is loading it.
    pub(super) fn find(&self, arena: &Arena) -> Option<u32> {
        let mut at = self.head.load(Ordering::Relaxed);
        while at != NO_FRAME && arena.frame(at).tag() != self.page {
            at = arena.frame(at).next.load(Ordering::Relaxed);
        }
        (at != NO_FRAME).then_some(at)
    }

    /// Adds `frame`, whose tag is the page.
    pub(super) fn insert(&self, arena: &Arena, frame: u32) {
        assert_eq!(arena.frame(frame).tag(), self.page, "the tag is set before the table");
        arena.frame(frame).next.store(self.head.load(Ordering::Relaxed), Ordering::Release);
        self.head.store(frame, Ordering::Release);
    }

    /// Takes `frame` out.
    pub(super) fn remove(&self, arena: &Arena, frame: u32) {
        let next = arena.frame(frame).next.load(Ordering::Relaxed);
        let mut link = self.head;
        loop {
            let at = link.load(Ordering::Relaxed);
            assert_ne!(at, NO_FRAME, "a frame is in the chain of its page");
            if at == frame {
                return link.store(next, Ordering::Release);
            }
            link = &arena.frame(at).next;
        }
    }
}

/// Hash of a page's name.
#[inline]
pub(super) fn spread(page: PageId) -> u64 {
    let key = u64::from(page.file.0) << 32 | u64::from(page.block.0);
    let mixed = (key ^ key >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 29
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::ids::FileId;

    #[test]
    fn chains_hold_what_was_put_in() {
        let arena = Arena::new(50).unwrap();
        let table = PageTable::new(4);
        let page = |i: u32| PageId::new(FileId(1 + i % 3), i);
        for i in 0..50 {
            arena.frame(i).adopt(page(i), 0);
            table.lock(page(i)).insert(&arena, i);
        }
        for i in (0..50).step_by(2) {
            table.lock(page(i)).remove(&arena, i);
        }
        for i in 0..50 {
            let expected = (i % 2 == 1).then_some(i);
            assert_eq!(table.lock(page(i)).find(&arena), expected);
            assert_eq!(table.find(&arena, page(i)), expected);
            assert!(expected.is_none() || table.guess(page(i)).is_some());
        }
    }
}
