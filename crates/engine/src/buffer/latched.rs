//! Counts the latches that this thread holds, to catch breaches of R7 at the line that waits for
//! I/O.
//!
//! Does not do: anything in release builds, except under the model checker, which counts for each
//! of its own threads.

#[cfg(all(debug_assertions, not(feature = "shuttle")))]
mod count {
    use std::cell::Cell;

    thread_local! {
        pub(super) static HELD: Cell<u32> = const { Cell::new(0) };
    }
}

#[cfg(feature = "shuttle")]
mod count {
    use std::cell::Cell;

    shuttle::thread_local! {
        pub(super) static HELD: Cell<u32> = Cell::new(0);
    }
}

/// This thread took a latch.
#[inline]
pub(super) fn entered() {
    #[cfg(any(debug_assertions, feature = "shuttle"))]
    count::HELD.with(|held| held.set(held.get() + 1));
}

/// This thread released a latch.
#[inline]
pub(super) fn left() {
    #[cfg(any(debug_assertions, feature = "shuttle"))]
    count::HELD.with(|held| {
        held.set(held.get().checked_sub(1).expect("a latch is released once"));
    });
}

/// R7: this thread is about to wait for a device and holds no latch.
#[inline]
pub(super) fn assert_none() {
    #[cfg(any(debug_assertions, feature = "shuttle"))]
    count::HELD.with(|held| assert_eq!(held.get(), 0, "R7: no latch is held across I/O"));
}
