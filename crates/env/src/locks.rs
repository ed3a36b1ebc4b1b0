//! Whether this thread may wait for a lock now. A thread that others wait for without a lock, such
//! as a reader of pages without pins, would close a ring of waits if it waited for a lock.
//!
//! Counted in debug builds, and under the model for each of its own threads; in other builds this
//! does nothing. A lock that is tried, and not waited for, is always allowed.
//!
//! Does not do: say which lock it was; the panic's backtrace does.

use std::marker::PhantomData;

#[cfg(all(debug_assertions, not(feature = "shuttle")))]
mod count {
    use std::cell::Cell;

    thread_local! {
        pub(super) static FORBIDDEN: Cell<u32> = const { Cell::new(0) };
    }
}

#[cfg(feature = "shuttle")]
mod count {
    use std::cell::Cell;

    shuttle::thread_local! {
        pub(super) static FORBIDDEN: Cell<u32> = Cell::new(0);
    }
}

/// This thread waits for no lock until this is dropped. Stays on its thread.
#[derive(Debug)]
pub struct NoLocks {
    on_thread: PhantomData<*const ()>,
}

impl NoLocks {
    /// Begins the time without locks.
    #[inline]
    #[must_use]
    pub fn begin() -> NoLocks {
        #[cfg(any(debug_assertions, feature = "shuttle"))]
        count::FORBIDDEN.with(|count| count.set(count.get() + 1));
        NoLocks { on_thread: PhantomData }
    }
}

impl Drop for NoLocks {
    #[inline]
    fn drop(&mut self) {
        #[cfg(any(debug_assertions, feature = "shuttle"))]
        count::FORBIDDEN.with(|count| count.set(count.get() - 1));
    }
}

/// This thread is about to wait for a lock. While it unwinds it may: a second panic would end the
/// process and hide the first.
#[inline]
pub(crate) fn assert_allowed() {
    #[cfg(any(debug_assertions, feature = "shuttle"))]
    {
        // A thread that ends may take locks after its own variables are gone.
        let count = count::FORBIDDEN.try_with(std::cell::Cell::get).unwrap_or(0);
        let allowed = count == 0 || crate::thread::panicking();
        assert!(allowed, "this thread waits for a lock while others may wait for it");
    }
}

#[cfg(all(test, debug_assertions, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::sync::{Mutex, RwLock};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn locks_are_refused_as_long_as_they_are_forbidden() {
        let (mutex, lock) = (Mutex::new(1), RwLock::new(2));
        let outer = NoLocks::begin();
        drop(NoLocks::begin());
        let refused = |wait: &dyn Fn()| catch_unwind(AssertUnwindSafe(wait)).is_err();
        assert!(refused(&|| drop(mutex.lock())));
        assert!(refused(&|| drop(lock.read())) && refused(&|| drop(lock.write())));
        assert!(mutex.try_lock().is_some() && lock.try_read().is_some());
        drop(outer);
        assert_eq!((*mutex.lock(), *lock.read()), (1, 2));
    }
}
