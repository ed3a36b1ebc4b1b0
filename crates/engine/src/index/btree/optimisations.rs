//! What a tree does beyond the plain algorithm. Each part can be switched off at run time, so that
//! it can be measured against its absence in one process.
//!
//! Invariants: a switch changes how much work an operation is, never its result nor the format on
//! disk. A page written under any set of switches is read under any other.
//! Does not do: say which parts are worth it (experiment `descent`).

use std::fmt;

use rightlink_env::sync::{AtomicU32, Ordering};

/// A set of optimisations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Optimisations(u32);

impl Optimisations {
    /// The plain algorithm: whole keys are compared, high keys first, under latches.
    pub const NONE: Self = Self(0);
    /// Searches decide on the heads beside the slots, and read keys only where heads are equal.
    pub const HEADS: Self = Self(1 << 0);
    /// Searches begin at the place that the heads at the ends of the page point to.
    pub const SAMPLES: Self = Self(1 << 1);
    /// Bytes known to be equal to both bounds inside a page are not compared again.
    pub const TRUNCATION: Self = Self(1 << 2);
    /// Bounds known from an unchanged parent are not established again in the child.
    pub const CARRIED_BOUNDS: Self = Self(1 << 3);
    /// Pages are searched first, and the high key is asked only past the last slot.
    pub const SEARCH_FIRST: Self = Self(1 << 4);
    /// Where a high key is asked, the separator that led there is compared for equality first.
    pub const SEPARATORS: Self = Self(1 << 5);
    /// Inner pages are read without latch or pin.
    pub const OPTIMISTIC: Self = Self(1 << 6);
    /// Lookups of many keys stay on a leaf for all of its keys and go right to the next one.
    pub const CURSORS: Self = Self(1 << 7);
    /// Split points near the middle are chosen for short separators.
    pub const SHORT_SEPARATORS: Self = Self(1 << 8);
    /// Splits know ascending keys, many duplicates and single values.
    pub const SPLIT_STRATEGIES: Self = Self(1 << 9);
    /// Ascending insertions remember the rightmost leaf.
    pub const RIGHTMOST_LEAF: Self = Self(1 << 10);
    /// Underfull neighbours are merged.
    pub const MERGING: Self = Self(1 << 11);
    /// Equal keys become posting lists before a split.
    pub const DEDUPLICATION: Self = Self(1 << 12);
    /// Batches of insertions hold a leaf for all of its keys, which get one log record, and go
    /// right to the next one.
    pub const BATCHES: Self = Self(1 << 13);
    /// Full leaves share their entries with the leaves right of them before they are split.
    pub const SPREADING: Self = Self(1 << 14);
    /// All of them.
    pub const ALL: Self = Self((1 << 15) - 1);
    /// The heads around the place where a search begins are compared all at once, with vector
    /// instructions where the processor has them. A variant that is not among all: it is no faster,
    /// and touches more.
    pub const SIMD: Self = Self(1 << 15);
    /// Splits of leaves keep a whole key as separator instead of its first bytes. A variant that
    /// shows what suffix truncation is worth, and is not among all.
    pub const WHOLE_SEPARATORS: Self = Self(1 << 16);

    /// Every optimisation with its name, variants left out.
    pub const NAMES: [(&'static str, Self); 15] = [
        ("heads", Self::HEADS),
        ("samples", Self::SAMPLES),
        ("truncation", Self::TRUNCATION),
        ("carried-bounds", Self::CARRIED_BOUNDS),
        ("search-first", Self::SEARCH_FIRST),
        ("separators", Self::SEPARATORS),
        ("optimistic", Self::OPTIMISTIC),
        ("cursors", Self::CURSORS),
        ("short-separators", Self::SHORT_SEPARATORS),
        ("split-strategies", Self::SPLIT_STRATEGIES),
        ("rightmost-leaf", Self::RIGHTMOST_LEAF),
        ("merging", Self::MERGING),
        ("deduplication", Self::DEDUPLICATION),
        ("batches", Self::BATCHES),
        ("spreading", Self::SPREADING),
    ];

    /// Are all of `wanted` in this set?
    #[inline]
    pub const fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// This set and `more`.
    #[must_use]
    pub const fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// This set but for `less`.
    #[must_use]
    pub const fn without(self, less: Self) -> Self {
        Self(self.0 & !less.0)
    }

    /// The one called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, one)| *one)
    }
}

impl Default for Optimisations {
    fn default() -> Self {
        Self::ALL
    }
}

impl fmt::Debug for Optimisations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inside = Self::NAMES.iter().filter(|(_, one)| self.has(*one));
        f.debug_set().entries(inside.map(|(name, _)| name)).finish()
    }
}

/// The set that a tree uses now.
pub(super) struct Switches(AtomicU32);

impl Switches {
    /// Begins with `set`.
    pub(super) fn new(set: Optimisations) -> Switches {
        Switches(AtomicU32::new(set.0))
    }

    /// The set; operations under way may still use another.
    #[inline]
    pub(super) fn get(&self) -> Optimisations {
        Optimisations(self.0.load(Ordering::Relaxed))
    }

    /// Operations that begin from now on use `set`.
    pub(super) fn set(&self, set: Optimisations) {
        self.0.store(set.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bits_belong_together() {
        let mut all = Optimisations::NONE;
        for (name, one) in Optimisations::NAMES {
            assert!(!all.has(one), "{name} has a bit of its own");
            assert_eq!(Optimisations::named(name), Some(one));
            all = all.with(one);
        }
        assert_eq!(all, Optimisations::ALL);
        assert_eq!(all.without(Optimisations::HEADS).with(Optimisations::HEADS), all);
        assert_eq!(Optimisations::named("wheels"), None);
    }
}
