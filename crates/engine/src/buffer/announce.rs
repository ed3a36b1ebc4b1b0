//! Announcements of readers without pins, and the wait until they have left (R11).
//!
//! A reader announces itself in one of 64 slots: an odd number means that a reader is inside. A
//! thread that takes a frame away from its page waits for the readers that it finds announced.
//!
//! Invariants: the announcement precedes the reader's look at a frame, and taking a frame away
//! precedes the look at the announcements, all in one order (`SeqCst`).
//! Does not do: look at pages (`reading`).

use std::cell::Cell;

use rightlink_env::sync::{AtomicU64, Ordering};
use rightlink_env::thread;

/// Readers that do not share a slot.
const SLOTS: usize = 64;

/// Announced readers: a slot with an odd number has a reader inside.
#[derive(Debug)]
pub(super) struct Readers([ReaderSlot; SLOTS]);

#[derive(Debug, Default)]
#[repr(align(64))]
struct ReaderSlot(AtomicU64);

/// A reader's slot and the number in it.
#[derive(Clone, Copy)]
pub(super) struct Announcement {
    slot: usize,
    pub(super) ticket: u64,
}

impl Default for Readers {
    fn default() -> Self {
        Readers(std::array::from_fn(|_| ReaderSlot::default()))
    }
}

thread_local! {
    static HOME: Cell<usize> = const { Cell::new(0) };
}

impl Readers {
    /// Announces a reader.
    pub(super) fn enter(&self) -> Announcement {
        let mut at = HOME.get();
        loop {
            let slot = &self.0[at].0;
            let seen = slot.load(Ordering::Relaxed);
            let swap = (Ordering::SeqCst, Ordering::Relaxed);
            if seen.is_multiple_of(2)
                && slot.compare_exchange(seen, seen + 1, swap.0, swap.1).is_ok()
            {
                HOME.set(at);
                return Announcement { slot: at, ticket: seen + 1 };
            }
            at = (at + 1) % SLOTS;
            if at == HOME.get() {
                thread::yield_now();
            }
        }
    }

    /// The reader leaves.
    #[inline]
    pub(super) fn leave(&self, announced: Announcement) {
        self.0[announced.slot].0.store(announced.ticket + 1, Ordering::Release);
    }

    /// Waits until all readers that are inside now have left.
    #[cold]
    pub(super) fn wait(&self) {
        for ReaderSlot(slot) in &self.0 {
            let seen = slot.load(Ordering::SeqCst);
            while !seen.is_multiple_of(2) && slot.load(Ordering::SeqCst) == seen {
                thread::yield_now();
            }
        }
    }
}
