//! Ranges of encoded keys as plain byte strings.
//!
//! A bound names a prefix of the encoded key: `Included(p)` as a lower bound starts before every
//! key that begins with `p`, `Excluded(p)` after all of them; as an upper bound `Included(p)` ends
//! after all of them, `Excluded(p)` before the first. Both turn into a half-open range, so that no
//! reader of a page ever asks which kind of bound it has.
//!
//! Invariants: `low <= k < high` in byte order is exactly membership; whatever an index appends to
//! a key, such as the row id, never takes part, because a bound that ends "after `p`" ends after
//! every key that starts with `p` too.
//! Does not do: encode values, or decide what a prefix means for a collated column.

use std::ops::Bound;

use super::MAX_ENCODED;

/// A half-open range of byte strings: `low <= k`, and `k < high` if there is one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyRange {
    /// First byte string inside; empty: from the start.
    pub low: Vec<u8>,
    /// First byte string after; `None`: to the end.
    pub high: Option<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        Self::default()
    }

    /// Keys that begin with `prefix`: equality when it is a whole encoded key.
    pub fn starting_with(prefix: &[u8]) -> Self {
        Self { low: prefix.to_vec(), high: successor(prefix) }
    }

    /// Keys between two bounds on prefixes of the encoded key.
    pub fn between(low: Bound<&[u8]>, high: Bound<&[u8]>) -> Self {
        let low = match low {
            Bound::Unbounded => Some(Vec::new()),
            Bound::Included(p) => Some(p.to_vec()),
            Bound::Excluded(p) => successor(p),
        };
        let high = match high {
            Bound::Unbounded => None,
            Bound::Included(p) => successor(p),
            Bound::Excluded(p) => Some(p.to_vec()),
        };
        low.map_or_else(Self::none, |low| Self { low, high })
    }

    /// No key at all.
    pub fn none() -> Self {
        Self { low: Vec::new(), high: Some(Vec::new()) }
    }

    /// What is in both.
    #[must_use]
    pub fn within(&self, other: &KeyRange) -> Self {
        let low = (&self.low).max(&other.low).clone();
        let high = [&self.high, &other.high].into_iter().flatten().min().cloned();
        Self { low, high }
    }

    /// The same keys with bounds no longer than keys are. A bound longer than [`MAX_ENCODED`] lies
    /// between its beginning of that length and everything else that begins so. No key is there: as
    /// a key is prefix-free it is no beginning of another one's columns, and it is not longer.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.low.truncate(MAX_ENCODED);
        if let Some(high) = &mut self.high {
            high.truncate(MAX_ENCODED);
        }
        self
    }

    /// Can no key be inside?
    pub fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| *high <= self.low)
    }

    /// Is `key` inside?
    pub fn contains(&self, key: &[u8]) -> bool {
        self.low.as_slice() <= key && self.high.as_deref().is_none_or(|high| key < high)
    }
}

/// The first byte string after all that start with `prefix`; `None` when there is none.
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut out = prefix[..=last].to_vec();
    out[last] += 1;
    debug_assert!(out.as_slice() > prefix);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_about_prefixes() {
        let inside = |range: &KeyRange, key: &[u8]| range.contains(key);
        let equal = KeyRange::starting_with(b"b");
        assert!(inside(&equal, b"b") && inside(&equal, b"b\xff\xff\xff"));
        assert!(!inside(&equal, b"a\xff") && !inside(&equal, b"c"));
        let open = KeyRange::between(Bound::Excluded(b"a"), Bound::Excluded(b"c"));
        assert!(!inside(&open, b"a\xff") && inside(&open, b"b") && !inside(&open, b"c"));
        let closed = KeyRange::between(Bound::Included(b"a"), Bound::Included(b"c"));
        assert!(inside(&closed, b"a") && inside(&closed, b"c\xff") && !inside(&closed, b"d"));
    }

    #[test]
    fn a_prefix_of_all_ones_has_nothing_after_it() {
        assert_eq!(successor(b"\xff\xff"), None);
        assert_eq!(successor(b"a\xff"), Some(b"b".to_vec()));
        assert!(KeyRange::starting_with(b"\xff").contains(b"\xff\xff"));
        let none = KeyRange::between(Bound::Excluded(b"\xff"), Bound::Unbounded);
        assert!(none.is_empty() && !none.contains(b"") && !none.contains(b"\xff\xff"));
        assert!(KeyRange::between(Bound::Included(b"b"), Bound::Excluded(b"b")).is_empty());
        assert!(!KeyRange::all().is_empty());
    }
}
