//! What searches cost: comparisons by kind and key bytes touched, per thread.
//!
//! Invariants: counting is a few additions on thread-local cells, so it is always on and shares
//! nothing.
//! Does not do: sum over threads; who measures reads its own thread's counters before and after.

use std::cell::Cell;

/// Work of the searches of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Descents from the root.
    pub descents: u64,
    /// Pages searched.
    pub pages: u64,
    /// Comparisons decided or prepared by a 4-byte head.
    pub heads: u64,
    /// Comparisons of the rest of a key, after equal heads.
    pub keys: u64,
    /// Comparisons with a page's shared prefix.
    pub prefixes: u64,
    /// Comparisons with a high key.
    pub high_keys: u64,
    /// Comparisons with a low fence.
    pub low_fences: u64,
    /// Key bytes that those comparisons were given, heads included.
    pub bytes: u64,
    /// Steps over a right link during a descent.
    pub moves_right: u64,
}

impl Counters {
    const ZERO: Counters = Counters {
        descents: 0,
        pages: 0,
        heads: 0,
        keys: 0,
        prefixes: 0,
        high_keys: 0,
        low_fences: 0,
        bytes: 0,
        moves_right: 0,
    };

    /// The difference to counters read `before`.
    #[must_use]
    pub fn since(&self, before: &Counters) -> Counters {
        Counters {
            descents: self.descents - before.descents,
            pages: self.pages - before.pages,
            heads: self.heads - before.heads,
            keys: self.keys - before.keys,
            prefixes: self.prefixes - before.prefixes,
            high_keys: self.high_keys - before.high_keys,
            low_fences: self.low_fences - before.low_fences,
            bytes: self.bytes - before.bytes,
            moves_right: self.moves_right - before.moves_right,
        }
    }
}

thread_local! {
    static COUNTERS: Cell<Counters> = const { Cell::new(Counters::ZERO) };
}

/// Counters of this thread since it started.
pub fn counters() -> Counters {
    COUNTERS.get()
}

/// Changes the counters of this thread.
#[inline]
pub(crate) fn count(change: impl FnOnce(&mut Counters)) {
    COUNTERS.with(|cell| {
        let mut counters = cell.get();
        change(&mut counters);
        cell.set(counters);
    });
}
