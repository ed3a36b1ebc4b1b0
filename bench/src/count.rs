//! An allocator that counts what is asked for, where an experiment wants to know.
//!
//! Invariants: while counting is off, an allocation costs one relaxed load more than it would.
//! Does not do: the allocator's own overhead; counting per thread.

use std::alloc::{GlobalAlloc, Layout, System};

use rightlink_env::sync::{AtomicBool, AtomicUsize, Ordering::Relaxed};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static ON: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicUsize = AtomicUsize::new(0);

fn count(bytes: usize) {
    if ON.load(Relaxed) {
        // Modulo 2^64: what was allocated before counting began may be freed now.
        LIVE.fetch_add(bytes, Relaxed);
    }
}

// SAFETY: every call is handed on to the system's allocator as it is; counting touches no memory
// but two atomics.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as `alloc` of the trait asks, which the caller promises.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as `alloc_zeroed` of the trait asks, which the caller promises.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: as `dealloc` of the trait asks, which the caller promises.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(layout.size().wrapping_neg());
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(at, layout) }
    }

    // SAFETY: as `realloc` of the trait asks, which the caller promises.
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.wrapping_sub(layout.size()));
        // SAFETY: the caller's promises are handed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// What `build` makes, and the bytes that it holds then.
pub(crate) fn bytes_of<T>(build: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(Relaxed);
    ON.store(true, Relaxed);
    let built = build();
    ON.store(false, Relaxed);
    (built, LIVE.load(Relaxed).wrapping_sub(before))
}
