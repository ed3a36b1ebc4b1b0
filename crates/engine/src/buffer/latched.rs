//! How many latches this thread holds, counted in debug builds only, to catch breaches of R7 where
//! they are made: whoever is about to wait for I/O holds none.
//!
//! Does not do: anything in release builds, or under the model, whose threads share one.

#[cfg(all(debug_assertions, not(feature = "shuttle")))]
mod count {
    use std::cell::Cell;

    thread_local! {
        pub(super) static HELD: Cell<u32> = const { Cell::new(0) };
    }
}

/// This thread took a latch.
#[inline]
pub(super) fn entered() {
    #[cfg(all(debug_assertions, not(feature = "shuttle")))]
    count::HELD.set(count::HELD.get() + 1);
}

/// This thread let go of a latch.
#[inline]
pub(super) fn left() {
    #[cfg(all(debug_assertions, not(feature = "shuttle")))]
    count::HELD.set(count::HELD.get().checked_sub(1).expect("a latch is let go of once"));
}

/// R7: this thread is about to wait for a device and holds no latch.
#[inline]
pub(super) fn assert_none() {
    #[cfg(all(debug_assertions, not(feature = "shuttle")))]
    assert_eq!(count::HELD.get(), 0, "R7: no latch is held across I/O");
}
