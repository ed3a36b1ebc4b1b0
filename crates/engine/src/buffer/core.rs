//! The state that the parts of the pool share: frames, page table, replacement, files, counters.
//!
//! Completions of reads hold it beyond the pool's own end. `pool` states the lock order.
//!
//! Invariants: a page that leaves memory leaves its version behind, so a page that returns has a
//! larger one.
//! Does not do: I/O; the operations of callers (`pool`).

use rightlink_aio::Io;
use rightlink_env::Broken;
use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering};
use rightlink_env::{Reservation, points};

use crate::buffer::announce::Readers;
use crate::buffer::data_file::DataFiles;
use crate::buffer::frame::{Arena, Frame, PEEKED, pins};
use crate::buffer::page_table::PageTable;
use crate::buffer::prefetch::Streams;
use crate::buffer::replacement::Replacement;
use crate::buffer::stats::PoolCounters;
use crate::error::Error;
use crate::wal::Wal;

/// Why a read brought no page.
#[derive(Clone, Debug)]
pub(super) struct Unread {
    pub(super) error: Error,
    /// Other pages were in the same read: perhaps one of them is at fault.
    pub(super) joined: bool,
}

/// The state that the parts of the pool share; completions of reads hold it.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) arena: Arena,
    pub(super) table: PageTable,
    pub(super) replacement: Mutex<Replacement>,
    pub(super) readers: Readers,
    pub(super) files: DataFiles,
    pub(super) io: Io,
    pub(super) counters: PoolCounters,
    pub(super) streams: Streams,
    /// Errors of reads, by frame, until the last waiter has gone.
    pub(super) failures: Mutex<Vec<(u32, Unread)>>,
    pub(super) reads_in_flight: AtomicUsize,
    /// Not less than any version that a page that has left memory ever had.
    pub(super) last_version: AtomicU64,
    /// No hints are set, so that looking at pages makes none of them dirty.
    pub(super) no_hints: AtomicBool,
    pub(super) frame_waiters: AtomicUsize,
    pub(super) unpinned: (Mutex<()>, Condvar),
    /// The log, which is poisoned together with the pool.
    pub(super) wal: Arc<Wal>,
    /// Changes were made in memory that the log does not know, or a panic left a change of the
    /// pool's own state half made: nothing is written back any more.
    pub(super) poisoned: AtomicBool,
    pub(super) _memory: Reservation,
}

const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Core>();
};

impl Core {
    /// The page in `frame` is about to change; redo would need the log from `from`.
    pub(super) fn mark_dirty(&self, frame: &Frame, from: u64) {
        if frame.mark_dirty(from) {
            self.counters.dirty.fetch_add(1, Ordering::Relaxed);
            self.counters.dirtied.add(1);
        }
    }

    /// The file has the page as it is.
    pub(super) fn mark_clean(&self, frame: &Frame) {
        if frame.mark_clean() {
            self.counters.dirty.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Does a thread wait for a pin to be dropped?
    #[inline]
    pub(super) fn is_frame_awaited(&self) -> bool {
        self.frame_waiters.load(Ordering::Relaxed) != 0
    }

    /// Drops a pin that may be the last one of a failed read, and wakes threads that need a frame.
    pub(super) fn unpin(&self, index: u32) {
        let before = self.arena.frame(index).drop_pin();
        if pins(before) == 1 && self.arena.frame(index).claim_failed() {
            self.failures.lock().retain(|(frame, _)| *frame != index);
            self.replacement.lock().release(index);
        }
        if self.is_frame_awaited() {
            let _guard = self.unpinned.0.lock();
            self.unpinned.1.notify_all();
        }
    }

    /// A frame with the state `before` was taken away: waits for readers without pins (R11).
    pub(super) fn retire(&self, before: u64) {
        if before & PEEKED != 0 && !points::broken(Broken::FrameTakenFromReaders) {
            self.readers.wait();
        }
    }

    /// From now on this instance accepts no change and writes nothing (R19).
    pub(super) fn poison(&self, why: &str) {
        self.poisoned.store(true, Ordering::SeqCst);
        self.wal.poison(why);
    }

    /// A version that no page ever had, in memory or evicted.
    pub(super) fn fresh_version(&self) -> u64 {
        self.last_version.fetch_add(2, Ordering::Relaxed) + 2
    }

    /// Remembers the version of a page that leaves memory.
    pub(super) fn note_version(&self, frame: &Frame) {
        let version = frame.latch.version();
        self.last_version.fetch_max(version + version % 2, Ordering::Relaxed);
    }
}
