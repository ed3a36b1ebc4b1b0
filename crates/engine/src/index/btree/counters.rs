//! What searches cost: comparisons by kind, and key bytes touched, of one thread.
//!
//! A comparison touches bytes up to and including the first that differs.
//!
//! Invariants: a thread that does not count pays for one look at a thread-local flag, and without
//! the feature `experiments` for nothing.
//! Does not do: sum over threads.

use std::cell::Cell;

/// Work of the searches of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Descents from the root.
    pub descents: u64,
    /// Pages searched.
    pub pages: u64,
    /// Comparisons with a 4-byte head.
    pub heads: u64,
    /// Comparisons with a key, or with what is left of one after its head.
    pub keys: u64,
    /// Comparisons with a page's shared prefix.
    pub prefixes: u64,
    /// Comparisons with a high key.
    pub high_keys: u64,
    /// High keys that were found equal to the separator that led there, without a comparison.
    pub separators: u64,
    /// Comparisons with a low fence.
    pub low_fences: u64,
    /// Key bytes that all these comparisons touched.
    pub bytes: u64,
    /// Steps over a right link during a descent.
    pub moves_right: u64,
    /// Leaves that lookups of lists and scans found among remembered ones instead of by a descent.
    pub next_door: u64,
    /// Leaves that scans read.
    pub leaves: u64,
}

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    static COUNTERS: Cell<Counters> = Cell::default();
}

/// Counts what this thread's searches cost while `work` runs.
///
/// # Panics
/// If `work` itself counts.
#[cfg(feature = "experiments")]
pub fn counting<T>(work: impl FnOnce() -> T) -> (Counters, T) {
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            ON.set(false);
        }
    }
    assert!(!ON.replace(true), "one count at a time");
    let _off = Off;
    COUNTERS.set(Counters::default());
    let result = work();
    (COUNTERS.get(), result)
}

/// Does this thread count?
#[inline]
pub(crate) fn is_on() -> bool {
    cfg!(feature = "experiments") && ON.get()
}

/// Changes the counters of this thread, if it counts.
#[inline]
pub(crate) fn count(change: impl FnOnce(&mut Counters)) {
    if is_on() {
        change_counters(change);
    }
}

#[cold]
fn change_counters(change: impl FnOnce(&mut Counters)) {
    COUNTERS.with(|cell| {
        let mut counters = cell.get();
        change(&mut counters);
        cell.set(counters);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_is_counted() {
        count(|c| c.heads += 1);
        let (counted, ()) = counting(|| count(|c| c.keys += 2));
        assert_eq!(counted, Counters { keys: 2, ..Counters::default() });
        let (counted, ()) = counting(|| ());
        assert_eq!(counted, Counters::default());
    }
}
