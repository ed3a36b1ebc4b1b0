//! A limit on the threads that help statements: how many more may run now.
//!
//! Invariants: acquiring never waits. A [`HelperGrant`] gives its threads back when it is dropped.
//! Does not do: start threads.

use rightlink_env::sync::{AtomicUsize, Ordering};

/// The helper threads of a database.
#[derive(Debug)]
pub(crate) struct HelperThreads {
    idle: AtomicUsize,
}

/// Permission to run some helper threads.
#[derive(Debug)]
pub(crate) struct HelperGrant<'p> {
    pool: &'p HelperThreads,
    count: usize,
}

impl HelperThreads {
    pub(crate) fn new(count: usize) -> Self {
        HelperThreads { idle: AtomicUsize::new(count) }
    }

    /// Acquires at most `most` of the idle threads, perhaps none.
    pub(crate) fn acquire(&self, most: usize) -> HelperGrant<'_> {
        let mut idle = self.idle.load(Ordering::Relaxed);
        loop {
            let count = idle.min(most);
            if count == 0 {
                return HelperGrant { pool: self, count };
            }
            let (left, order) = (idle - count, Ordering::Relaxed);
            match self.idle.compare_exchange(idle, left, order, order) {
                Ok(_) => return HelperGrant { pool: self, count },
                Err(now) => idle = now,
            }
        }
    }
}

impl HelperGrant<'_> {
    /// How many threads it permits.
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

impl Drop for HelperGrant<'_> {
    fn drop(&mut self) {
        self.pool.idle.fetch_add(self.count, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_helper_thread_serves_one_at_a_time() {
        let helpers = HelperThreads::new(3);
        let first = helpers.acquire(2);
        let second = helpers.acquire(2);
        assert_eq!((first.count(), second.count()), (2, 1));
        assert_eq!(helpers.acquire(1).count(), 0);
        drop(first);
        assert_eq!(helpers.acquire(9).count(), 2);
        drop(second);
        assert_eq!(helpers.acquire(9).count(), 3);
    }
}
