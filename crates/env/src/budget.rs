//! One memory budget for everything whose size depends on input. A part that needs memory reserves
//! it first and gives it back by dropping the reservation; what cannot be reserved is not
//! allocated, and the caller takes its smaller way (spill, flush, error) instead.
//!
//! Invariants: `used <= limit` at every moment; a child's reservations are charged to its parent
//! too; the sum of live reservations is `used` exactly. It counts bytes and allocates nothing.

use crate::sync::{Arc, AtomicUsize, Ordering};

/// A number of bytes that may be in use at once. Clones share the budget.
#[derive(Clone, Debug)]
pub struct Budget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    limit: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
    parent: Option<Budget>,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Budget {
        Budget::with_parent(limit, None)
    }

    /// A share that may use `limit` bytes of this budget, as far as this budget has them.
    pub fn child(&self, limit: usize) -> Budget {
        Budget::with_parent(limit.min(self.limit()), Some(self.clone()))
    }

    fn with_parent(limit: usize, parent: Option<Budget>) -> Budget {
        let (used, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Budget { inner: Arc::new(Inner { limit, used, peak, parent }) }
    }

    /// Reserves `bytes`. `None`: they do not fit, and nothing was reserved.
    #[must_use]
    pub fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        self.take(bytes).then(|| Reservation { budget: self.clone(), bytes })
    }

    /// Bytes reserved now.
    pub fn used(&self) -> usize {
        self.inner.used.load(Ordering::Relaxed)
    }

    /// The most bytes that were ever reserved at once.
    pub fn peak(&self) -> usize {
        self.inner.peak.load(Ordering::Relaxed)
    }

    /// The most bytes that may be reserved at once.
    pub fn limit(&self) -> usize {
        self.inner.limit
    }

    /// Bytes that could be reserved now, if nobody else does; a parent may have fewer.
    pub fn available(&self) -> usize {
        let own = self.limit() - self.used();
        self.inner.parent.as_ref().map_or(own, |parent| own.min(parent.available()))
    }

    fn take(&self, bytes: usize) -> bool {
        if !self.take_own(bytes) {
            return false;
        }
        if self.inner.parent.as_ref().is_some_and(|parent| !parent.take(bytes)) {
            self.give_own(bytes);
            return false;
        }
        self.inner.peak.fetch_max(self.used().min(self.limit()), Ordering::Relaxed);
        true
    }

    fn take_own(&self, bytes: usize) -> bool {
        let limit = self.inner.limit;
        let more = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= limit);
        self.inner.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give(&self, bytes: usize) {
        self.give_own(bytes);
        if let Some(parent) = &self.inner.parent {
            parent.give(bytes);
        }
    }

    fn give_own(&self, bytes: usize) {
        let before = self.inner.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more was given back than was reserved");
    }
}

/// Reserved bytes; dropping gives them back.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    bytes: usize,
}

impl Reservation {
    /// How many bytes this holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves `more` bytes on top; false, and nothing changed, if they do not fit.
    #[must_use]
    pub fn grow(&mut self, more: usize) -> bool {
        let taken = self.budget.take(more);
        self.bytes += if taken { more } else { 0 };
        taken
    }

    /// Gives `less` of the bytes back. Panics if it does not hold so many.
    pub fn shrink(&mut self, less: usize) {
        assert!(less <= self.bytes, "a reservation shrinks to zero at most");
        self.budget.give(less);
        self.bytes -= less;
    }

    /// Moves `bytes` of this reservation into one of their own. Panics if it does not hold so many.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Reservation {
        assert!(bytes <= self.bytes, "a part is not larger than the whole");
        self.bytes -= bytes;
        Reservation { budget: self.budget.clone(), bytes }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::thread;

    #[test]
    fn never_passes_the_limit_and_gives_back() {
        let budget = Budget::new(100);
        let mut first = budget.try_reserve(60).unwrap();
        assert!(budget.try_reserve(41).is_none());
        assert!(first.grow(40) && !first.grow(1));
        assert_eq!((budget.used(), budget.available()), (100, 0));
        first.shrink(70);
        let part = first.split(10);
        assert_eq!((first.bytes(), part.bytes(), budget.used()), (20, 10, 30));
        drop(first);
        drop(part);
        assert_eq!((budget.used(), budget.peak()), (0, 100));
        assert!(budget.try_reserve(usize::MAX).is_none());
    }

    #[test]
    fn a_child_is_charged_to_its_parent() {
        let parent = Budget::new(100);
        let (one, two) = (parent.child(80), parent.child(80));
        let held = one.try_reserve(70).unwrap();
        assert!(two.try_reserve(31).is_none());
        assert_eq!((two.used(), two.available(), parent.used()), (0, 30, 70));
        assert!(one.try_reserve(11).is_none());
        drop(held);
        assert_eq!(parent.used(), 0);
    }

    #[test]
    fn exact_under_contention() {
        let budget = Budget::new(1_000);
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let budget = budget.clone();
                thread::spawn("reserves", move || {
                    for round in 0..5_000 {
                        drop(budget.try_reserve((round * 7 + n) % 600));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(budget.used(), 0);
        assert!(budget.peak() <= 1_000);
    }
}
