//! Reading pages without pins: the reader writes no memory that other threads look at (R11).
//!
//! A reader announces itself once (`announce`) and then peeks at pages. The first peek at a frame
//! sets `PEEKED`. A thread that takes such a frame away waits until the readers announced then have
//! left. So the frame keeps its memory until the reader leaves. The latch's version tells whether
//! the page was changed meanwhile, and the frame's state whether it was taken away.
//!
//! Invariants:
//! - An announced reader does no I/O (R7) and waits for no lock and no latch. The thread that takes
//!   a frame away waits for it under the replacement lock, for which a holder of a lock or a latch
//!   may wait. Debug builds check this with every lock (`NoLocks`).
//! - A result counts only if the page is [`Reading::unchanged`] afterwards.
//!
//! Does not do: read pages from files; keep a page (pins do).

use rightlink_env::Broken;
use std::marker::PhantomData;

use rightlink_env::NoLocks;
use rightlink_env::points::broken;
use rightlink_env::sync::Arc;

use crate::buffer::announce::Announcement;
use crate::buffer::core::Core;
use crate::buffer::frame::VALID;
use crate::buffer::latched;
use crate::buffer::pin::Pin;
use crate::buffer::pool::BufferPool;
use crate::ids::PageId;
use crate::page::PageView;

/// An announced reader. It stays on its thread and is short, since a thread that needs a frame may
/// wait for it.
pub struct Reading<'p> {
    core: &'p Arc<Core>,
    announced: Announcement,
    _no_locks: NoLocks,
    on_thread: PhantomData<*const ()>,
}

/// A page as a reader found it; valid while that reader lives.
#[derive(Clone, Copy, Debug)]
pub struct Peek {
    index: u32,
    version: u64,
    ticket: u64,
}

impl Peek {
    /// Version of the page. A page that is read anew gets a version above all that it had, so that
    /// a page has one version in one state only.
    pub fn version(&self) -> u64 {
        self.version
    }
}

impl BufferPool {
    /// Announces a reader.
    #[inline]
    pub fn reading(&self) -> Reading<'_> {
        let announced = self.core.readers.enter();
        latched::entered();
        let _no_locks = NoLocks::begin();
        Reading { core: &self.core, announced, _no_locks, on_thread: PhantomData }
    }
}

impl Reading<'_> {
    /// The page, if it is in memory and no thread is changing it right now.
    #[inline(always)]
    pub fn peek(&self, page: PageId) -> Option<Peek> {
        let index = self.core.table.find(&self.core.arena, page)?;
        let frame = self.core.arena.frame(index);
        if !frame.peek(page) {
            return None;
        }
        frame.touch();
        let version = frame.latch.version();
        let peek = Peek { index, version, ticket: self.announced.ticket };
        version.is_multiple_of(2).then_some(peek)
    }

    /// Its words; they mean nothing unless the page is still [`Reading::unchanged`] afterwards.
    #[inline]
    pub fn view(&self, peek: Peek) -> PageView<'_> {
        assert!(peek.ticket == self.announced.ticket, "a peek is valid for its own reader");
        self.core.arena.page(peek.index).view()
    }

    /// Pins the page, if it is in memory. The pin may outlive the reader, and is dropped after it:
    /// the last pin of a frame may need a lock.
    pub fn pin(&self, page: PageId) -> Option<Pin> {
        let index = self.core.table.find(&self.core.arena, page)?;
        if broken(Broken::AnnouncedReaderLocks) {
            return self.core.pin_valid(index, page);
        }
        let frame = self.core.arena.frame(index);
        if !frame.pin_valid(page) {
            return None;
        }
        frame.touch();
        Some(Pin::adopt(self.core, index))
    }

    /// Has the page been neither changed nor taken away since it was peeked at?
    #[inline]
    pub fn unchanged(&self, peek: Peek) -> bool {
        assert!(peek.ticket == self.announced.ticket, "a peek is valid for its own reader");
        let frame = self.core.arena.frame(peek.index);
        let same = frame.latch.validate(peek.version) && frame.state() & VALID != 0;
        same || broken(Broken::OptimisticReadNotValidated)
    }
}

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        latched::left();
        self.core.readers.leave(self.announced);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::buffer::{Mtr, testing};
    use crate::ids::{FileId, Xid};
    use crate::page::{PageKind, header};
    use crate::wal::RecordKind;
    use rightlink_env::sync::{Arc, AtomicBool, AtomicU32, Ordering};
    use rightlink_env::thread;

    const FILE: FileId = FileId(64);

    fn formatted(frames: usize, blocks: u32) -> testing::TestPool {
        let test = testing::pool(frames, 3);
        test.pool.create_file(FILE, true).unwrap();
        test.pool.extend(FILE, blocks).unwrap();
        for block in 0..blocks {
            let mut mtr = Mtr::new(&test.pool);
            let held = mtr.latch(test.pool.pin_new(PageId::new(FILE, block)).unwrap());
            let mut image = header::format(PageKind::Heap, 0);
            image[100..104].copy_from_slice(&block.to_le_bytes());
            mtr.page(held).replace(&image);
            mtr.commit(RecordKind::HeapInsert, Xid::FIRST).unwrap();
        }
        test.pool.flush_all().unwrap();
        test
    }

    #[test]
    fn a_peek_ends_with_a_change_and_with_eviction() {
        let test = formatted(32, 4);
        let page = PageId::new(FILE, 2);
        let reading = test.pool.reading();
        let peek = reading.peek(page).unwrap();
        assert_eq!(reading.view(peek).u32(100), 2);
        assert!(reading.unchanged(peek) && reading.peek(PageId::new(FILE, 9)).is_none());
        let pin = test.pool.try_pin(page).unwrap();
        assert!(pin.hint(None, |page| page.write_unlogged(200, &[1])));
        assert!(!reading.unchanged(peek));
        drop((reading, pin));
        test.pool.evict_all().unwrap();
        assert!(test.pool.reading().peek(page).is_none());
    }

    /// Once a frame says that it was peeked at, and often, there is nothing more to be written.
    #[test]
    fn whoever_peeks_again_writes_nothing() {
        let test = formatted(32, 4);
        let look = || {
            let reading = test.pool.reading();
            let peek = reading.peek(PageId::new(FILE, 2)).unwrap();
            assert_eq!(reading.view(peek).u32(100), 2);
            assert!(reading.unchanged(peek));
            let frame = reading.core.arena.frame(peek.index);
            (frame.state(), frame.usage(), frame.latch.version())
        };
        let last = (0..10).map(|_| look()).collect::<Vec<_>>().pop();
        for _ in 0..500 {
            assert_eq!(Some(look()), last);
        }
    }

    /// Readers without pins while a small pool turns over: what they validate is their page.
    #[test]
    fn frames_are_not_reused_under_a_reader() {
        let test = formatted(16, 60);
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let readers: Vec<_> = (0..2)
            .map(|seed| {
                let (pool, stop) = (Arc::clone(&test.pool), Arc::clone(&stop));
                let seen = Arc::clone(&seen);
                thread::spawn("reader", move || {
                    let mut at = seed;
                    while !stop.load(Ordering::Relaxed) {
                        let reading = pool.reading();
                        for _ in 0..50 {
                            at = (at * 7 + 13) % 60;
                            let Some(peek) = reading.peek(PageId::new(FILE, at)) else { continue };
                            let value = reading.view(peek).u32(100);
                            if reading.unchanged(peek) {
                                assert_eq!(value, at);
                                seen.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                })
            })
            .collect();
        // On a busy machine the readers may begin when the usual rounds are over.
        let mut round = 0u32;
        while round < 4000 || (seen.load(Ordering::Relaxed) == 0 && round < 1_000_000) {
            drop(test.pool.pin(PageId::new(FILE, round * 11 % 60)).unwrap());
            round += 1;
        }
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert!(seen.load(Ordering::Relaxed) > 0, "readers saw pages");
    }
}
