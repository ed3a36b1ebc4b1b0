//! Threads that may help statements: how many of them are not busy.
//!
//! Invariants: nobody waits for a helper; who takes some gives them back when the loan is dropped.
//! Does not do: start threads.

use rightlink_env::sync::{AtomicUsize, Ordering};

/// Helpers of a database.
#[derive(Debug)]
pub(crate) struct Helpers {
    idle: AtomicUsize,
}

/// Some helpers that were taken.
#[derive(Debug)]
pub(crate) struct Loan<'h> {
    from: &'h Helpers,
    count: usize,
}

impl Helpers {
    pub(crate) fn new(count: usize) -> Self {
        Helpers { idle: AtomicUsize::new(count) }
    }

    /// Takes at most `most` of those that are idle, perhaps none.
    pub(crate) fn take(&self, most: usize) -> Loan<'_> {
        let mut idle = self.idle.load(Ordering::Relaxed);
        loop {
            let count = idle.min(most);
            if count == 0 {
                return Loan { from: self, count };
            }
            let (left, order) = (idle - count, Ordering::Relaxed);
            match self.idle.compare_exchange(idle, left, order, order) {
                Ok(_) => return Loan { from: self, count },
                Err(now) => idle = now,
            }
        }
    }
}

impl Loan<'_> {
    /// How many were taken.
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.from.idle.fetch_add(self.count, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn helpers_are_lent_to_one_at_a_time() {
        let helpers = Helpers::new(3);
        let first = helpers.take(2);
        let second = helpers.take(2);
        assert_eq!((first.count(), second.count()), (2, 1));
        assert_eq!(helpers.take(1).count(), 0);
        drop(first);
        assert_eq!(helpers.take(9).count(), 2);
        drop(second);
        assert_eq!(helpers.take(9).count(), 3);
    }
}
