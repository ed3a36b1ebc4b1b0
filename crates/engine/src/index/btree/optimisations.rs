//! What a tree does beyond the plain algorithm, part by part.
//!
//! With the feature `experiments` each part can be switched off at run time, so that it can be
//! measured against its absence in one process. Without the feature every part is on: both types
//! are empty, and the compiler removes the questions.
//!
//! Invariants: a switch changes how much work an operation is, never its result nor the format on
//! disk. A page written under any set of switches is read under any other.
//! Does not do: say which parts are worth it (experiment `descent`).

pub use set::Optimisations;
pub(super) use set::Switches;

/// A part of the algorithms that the plain tree does without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Optimisation {
    /// Searches decide on the heads beside the slots, and read keys only where heads are equal.
    Heads,
    /// Searches begin at the place that the heads at the ends of the page point to.
    Samples,
    /// Bytes known to be equal to both bounds inside a page are not compared again.
    Truncation,
    /// Bounds known from an unchanged parent are not established again in the child.
    CarriedBounds,
    /// Pages are searched first, and the high key is asked only past the last slot.
    SearchFirst,
    /// Where a high key is asked, the separator that led there is compared for equality first.
    Separators,
    /// Inner pages are read without latch or pin.
    Optimistic,
    /// Lookups of many keys stay on a leaf for all of its keys and go right to the next one.
    Cursors,
    /// Splits of leaves keep only the first bytes of a key as separator.
    SuffixTruncation,
    /// Split points near the middle are chosen for short separators.
    ShortSeparators,
    /// Splits know ascending keys, many duplicates and single values.
    SplitStrategies,
    /// Ascending insertions remember the rightmost leaf.
    RightmostLeaf,
    /// Underfull neighbours are merged.
    Merging,
    /// Equal keys become posting lists before a split.
    Deduplication,
    /// Batches of insertions hold a leaf for all of its keys, which get one log record, and go
    /// right to the next one.
    Batches,
    /// Full leaves share their entries with the leaves right of them before they are split.
    Spreading,
}

#[cfg(not(feature = "experiments"))]
mod set {
    use super::Optimisation;

    /// All optimisations.
    #[derive(Clone, Copy, Debug)]
    pub struct Optimisations;

    impl Optimisations {
        pub(crate) const ALL: Self = Self;

        /// Is `part` in this set?
        #[inline(always)]
        pub(crate) const fn has(self, _part: Optimisation) -> bool {
            true
        }
    }

    /// The set that a tree uses.
    #[derive(Default)]
    pub(in crate::index::btree) struct Switches {}

    impl Switches {
        #[inline(always)]
        pub(in crate::index::btree) fn get(&self) -> Optimisations {
            Optimisations
        }
    }
}

#[cfg(feature = "experiments")]
mod set {
    use std::fmt;

    use rightlink_env::sync::{AtomicU32, Ordering};

    use super::Optimisation::{self, *};

    impl Optimisation {
        /// Every optimisation with its name.
        pub const EACH: [(&'static str, Self); 16] = [
            ("heads", Heads),
            ("samples", Samples),
            ("truncation", Truncation),
            ("carried-bounds", CarriedBounds),
            ("search-first", SearchFirst),
            ("separators", Separators),
            ("optimistic", Optimistic),
            ("cursors", Cursors),
            ("suffix-truncation", SuffixTruncation),
            ("short-separators", ShortSeparators),
            ("split-strategies", SplitStrategies),
            ("rightmost-leaf", RightmostLeaf),
            ("merging", Merging),
            ("deduplication", Deduplication),
            ("batches", Batches),
            ("spreading", Spreading),
        ];

        /// The one called `name`.
        pub fn named(name: &str) -> Option<Self> {
            Self::EACH.iter().find(|(known, _)| *known == name).map(|(_, part)| *part)
        }

        const fn bit(self) -> u32 {
            1 << self as u32
        }
    }

    /// A set of optimisations.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct Optimisations(u32);

    impl Optimisations {
        /// The plain algorithm: whole keys are compared, high keys first, under latches.
        pub const NONE: Self = Self(0);
        /// All of them.
        pub const ALL: Self = Self((1 << Optimisation::EACH.len()) - 1);

        /// Is `part` in this set?
        #[inline]
        pub const fn has(self, part: Optimisation) -> bool {
            self.0 & part.bit() != 0
        }

        /// This set and `part`.
        #[must_use]
        pub const fn with(self, part: Optimisation) -> Self {
            Self(self.0 | part.bit())
        }

        /// This set but for `part`.
        #[must_use]
        pub const fn without(self, part: Optimisation) -> Self {
            Self(self.0 & !part.bit())
        }
    }

    impl fmt::Debug for Optimisations {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let inside = Optimisation::EACH.iter().filter(|(_, part)| self.has(*part));
            f.debug_set().entries(inside.map(|(name, _)| name)).finish()
        }
    }

    /// The set that a tree uses now.
    pub(in crate::index::btree) struct Switches(AtomicU32);

    impl Default for Switches {
        fn default() -> Self {
            Switches(AtomicU32::new(Optimisations::ALL.0))
        }
    }

    impl Switches {
        /// The set; operations under way may still use another.
        #[inline]
        pub(in crate::index::btree) fn get(&self) -> Optimisations {
            Optimisations(self.0.load(Ordering::Relaxed))
        }

        /// Operations that begin from now on use `set`.
        pub(in crate::index::btree) fn set(&self, set: Optimisations) {
            self.0.store(set.0, Ordering::Relaxed);
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn names_and_bits_belong_together() {
            let mut all = Optimisations::NONE;
            for (name, part) in Optimisation::EACH {
                assert!(!all.has(part), "{name} has a bit of its own");
                assert_eq!(Optimisation::named(name), Some(part));
                all = all.with(part);
            }
            assert_eq!(all, Optimisations::ALL);
            assert_eq!(all.without(Heads).with(Heads), all);
            assert_eq!(Optimisation::named("wheels"), None);
        }
    }
}
