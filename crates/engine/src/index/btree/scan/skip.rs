//! Skip scans: a scan that wants only some keys of its range.
//!
//! Each key that is met is asked where the next wanted key can be ([`KeySet`]). That position is
//! searched for on the leaf; beyond it the neighbour is tried, then a descent skips all leaves
//! between. No statistics are needed: a descent that skips at most one leaf does not pay, and
//! after a few of these the scan follows links for some leaves, twice as many each time, unless
//! several leaves in a row hold nothing that is wanted.
//!
//! Invariants: there is no wanted key between the leaf and the position where the scan continues.
//! Does not do: bytes of conditions (`keycode`).
//! PostgreSQL: skip arrays of `nbtutils.c`.

use std::ops::Range;

use crate::config::PAGE_SIZE;
use crate::index::Direction;
use crate::index::btree::page::node::{Checked, Node};
use crate::index::btree::page::tree_key::split_key;
use crate::keycode::{KeySet, Standing};

/// Descents in a row that skipped at most one leaf, after which the scan follows links.
const MAX_SHORT_SKIPS: u32 = 3;
/// Leaves in a row without a wanted key, after which it leaves the links.
const MAX_LEAVES_WITHOUT_MATCH: u32 = 3;
/// For how many leaves it follows links: at first, and at most.
const SPAN: (u32, u32) = (8, 256);

/// Where the wanted keys continue after a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Continuation {
    /// With the next entry.
    Next,
    /// Beyond the bound that the filter found.
    Beyond,
    /// There are no more.
    Ended,
}

/// Whether skips of this scan pay.
#[derive(Debug, Default)]
pub(crate) struct SkipHistory {
    /// The neighbour that the current skip leaves out; 0: there is no skip.
    pub(crate) skipped_neighbour: u32,
    /// Descents in a row that skipped at most one leaf.
    short_skips: u32,
    /// For how many more leaves the scan follows links.
    link_leaves: u32,
    /// For how many it did the last time.
    last_span: u32,
    /// Leaves in a row without a wanted key.
    leaves_without_match: u32,
}

impl SkipHistory {
    /// May the scan skip leaves?
    pub(crate) fn may_skip(&self) -> bool {
        self.link_leaves == 0 || self.leaves_without_match >= MAX_LEAVES_WITHOUT_MATCH
    }

    /// A leaf was read, with or without a wanted key.
    pub(crate) fn note_leaf(&mut self, wanted: bool) {
        self.leaves_without_match = if wanted { 0 } else { self.leaves_without_match + 1 };
    }

    /// A leaf was read over a link.
    pub(crate) fn note_link_step(&mut self) {
        self.link_leaves = self.link_leaves.saturating_sub(1);
    }

    /// A skip over `skipped_neighbour` ended at `block`, whose neighbour towards the start of the
    /// scan is `back`.
    pub(crate) fn note_descent(&mut self, skipped_neighbour: u32, block: u32, back: u32) {
        if block != skipped_neighbour && back != skipped_neighbour {
            (self.short_skips, self.last_span, self.link_leaves) = (0, 0, 0);
            return;
        }
        self.short_skips += 1;
        if self.short_skips >= MAX_SHORT_SKIPS {
            self.last_span = (self.last_span * 2).clamp(SPAN.0, SPAN.1);
            (self.link_leaves, self.short_skips) = (self.last_span, 0);
        }
    }
}

/// Selects the wanted entries of a leaf, in the direction of a scan.
pub(crate) struct SkipFilter<'a> {
    pub(crate) keys: &'a KeySet,
    pub(crate) direction: Direction,
    /// Where wanted keys continue, after [`Continuation::Beyond`].
    pub(crate) bound: &'a mut Vec<u8>,
}

impl SkipFilter<'_> {
    /// Hands the wanted ones of `entries` to `take`.
    pub(crate) fn filter(
        &mut self,
        node: &Node<&[u8; PAGE_SIZE]>,
        entries: Range<usize>,
        mut take: impl FnMut(usize) -> Checked<()>,
    ) -> Checked<Continuation> {
        let (mut left, mut scratch) = (entries, Vec::new());
        let mut continuation = Continuation::Next;
        while !left.is_empty() {
            let at = match self.direction {
                Direction::Forward => left.start,
                Direction::Backward => left.end - 1,
            };
            scratch.clear();
            node.append_key(at, &mut scratch)?;
            let (key, _) = split_key(&scratch)?;
            let standing = self.keys.standing(key, self.direction, self.bound);
            continuation = Continuation::Next;
            left = match standing.map_err(|malformed| malformed.0)? {
                Standing::Inside => {
                    take(at)?;
                    self.without(left)
                }
                Standing::Beyond => {
                    continuation = Continuation::Beyond;
                    let rest = self.without(left);
                    self.skip(node, rest)?
                }
                Standing::Ended => return Ok(Continuation::Ended),
            };
        }
        Ok(continuation)
    }

    /// All but the next one.
    fn without(&self, left: Range<usize>) -> Range<usize> {
        match self.direction {
            Direction::Forward => left.start + 1..left.end,
            Direction::Backward => left.start..left.end - 1,
        }
    }

    /// Those of `left` that lie beyond the bound. These are often all, so the next entry is
    /// compared before a search.
    fn skip(&self, node: &Node<&[u8; PAGE_SIZE]>, left: Range<usize>) -> Checked<Range<usize>> {
        let bound = self.bound.as_slice();
        match self.direction {
            Direction::Forward if left.is_empty() || *node.key(left.start)? >= *bound => Ok(left),
            Direction::Forward => {
                let at = node.search(bound)?.pos.clamp(left.start, left.end);
                Ok(at..left.end)
            }
            Direction::Backward if left.is_empty() || *node.key(left.end - 1)? < *bound => Ok(left),
            Direction::Backward => {
                let at = node.search(bound)?.pos.clamp(left.start, left.end);
                Ok(left.start..at)
            }
        }
    }
}
