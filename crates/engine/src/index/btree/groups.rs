//! Where a batch will go: the leaves that its entries belong on, named from the inner pages above
//! them without a look at a leaf, so that the caller can have them read while it does other things.
//!
//! Each inner page above the leaves is looked at once for all entries below it. What is named is a
//! guess: until the leaf is latched it may have been split, merged or freed, and whoever uses it
//! asks its level and fences (R6).
//!
//! Invariants: the groups of a batch are named in its order, without gaps; no pin and no latch is
//! kept from one call to the next.
//! Does not do: read leaves; tell whether an entry fits.

use std::collections::VecDeque;
use std::ops::Range;

use rightlink_env::sync::Ordering;

use crate::error::{Error, Result};
use crate::index::am::{Group, IndexEntry};
use crate::index::btree::node::{Checked, Node, is_node};
use crate::index::btree::read::PageRead;
use crate::index::btree::search::{Aim, Place};
use crate::index::btree::{Optimisations, Tree, tree_key};

/// Tries to find the inner page above a leaf before the rest of the batch is left to descents.
const MAX_TRIES: u32 = 16;

/// The groups of one batch.
pub(crate) struct LeafGroups<'a> {
    tree: &'a Tree,
    entries: &'a [IndexEntry<'a>],
    unique: bool,
    /// Entries below are in a group.
    grouped: usize,
    ready: VecDeque<(u32, Range<usize>)>,
}

impl Tree {
    /// See [`crate::index::am::AccessMethod::groups`].
    pub(crate) fn groups<'a>(
        &'a self,
        entries: &'a [IndexEntry<'a>],
        unique: bool,
    ) -> LeafGroups<'a> {
        LeafGroups { tree: self, entries, unique, grouped: 0, ready: VecDeque::new() }
    }
}

impl Iterator for LeafGroups<'_> {
    type Item = Result<Group>;

    fn next(&mut self) -> Option<Result<Group>> {
        if self.ready.is_empty() && self.grouped < self.entries.len() {
            if let Err(error) = self.look() {
                self.grouped = self.entries.len();
                return Some(Err(error));
            }
            assert!(!self.ready.is_empty(), "entries that are left are in a group");
        }
        let (block, entries) = self.ready.pop_front()?;
        Some(Ok(Group { page: self.tree.page(block), entries }))
    }
}

impl LeafGroups<'_> {
    /// Names the leaves below the next inner page.
    fn look(&mut self) -> Result<()> {
        let _registered = self.tree.registrations.enter();
        let (root, level) = self.tree.root();
        let first = self.whole(self.grouped);
        if level == 0 {
            return self.rest(root);
        }
        if self.tree.uses(Optimisations::RIGHTMOST_LEAF) {
            let rightmost = self.tree.rightmost.load(Ordering::Relaxed);
            if self.tree.guess(rightmost, Aim::At(&first)).is_some() {
                return self.rest(rightmost);
            }
        }
        let mut block = None;
        for _ in 0..MAX_TRIES {
            let pin = match block.take() {
                Some(right) => Some(self.tree.pin_linked(right)?),
                None => self.tree.descend(Aim::At(&first), 1)?,
            };
            let Some(pin) = pin else { break };
            let page = pin.shared();
            let named = self.name(page.bytes(), &first);
            match named.map_err(|what| Error::corrupt(pin.page(), what))? {
                Named::All => return Ok(()),
                Named::Right(right) => block = Some(right),
                Named::Lost => {}
            }
        }
        // Much is going on above: the first leaf it is, and every entry finds its own way.
        self.rest(root)
    }

    /// All entries that are left, as one group.
    fn rest(&mut self, block: u32) -> Result<()> {
        self.ready.push_back((block, self.grouped..self.entries.len()));
        self.grouped = self.entries.len();
        Ok(())
    }

    /// Names the leaves below `page` if the next entry, whose aim is `first`, belongs below it.
    fn name<R: PageRead>(&mut self, page: R, first: &[u8]) -> Checked<Named> {
        if !is_node(page) {
            return Ok(Named::Lost);
        }
        let node = Node::open(page)?;
        if node.level != 1 {
            return Ok(Named::Lost);
        }
        match node.place(Aim::At(first))? {
            Place::Right(right) => return Ok(Named::Right(right)),
            Place::Lost => return Ok(Named::Lost),
            Place::Here(_) => {}
        }
        let high = node.high();
        let mut bound = Vec::new();
        while self.grouped < self.entries.len() {
            let at = self.grouped;
            if high.as_deref().is_some_and(|high| !self.is_below(at, high)) {
                break;
            }
            let key = self.whole(at);
            let aim = Aim::At(&key);
            let found = node.search(&key)?;
            let Some(child) = node.child_index(found, aim) else { return Ok(Named::Lost) };
            let block = node.child(child)?;
            bound.clear();
            let end = match child + 1 < node.count {
                true => {
                    node.append_key(child + 1, &mut bound)?;
                    self.end_of(at, Some(&bound))
                }
                false => self.end_of(at, high.as_deref()),
            };
            // A separator that does not lie above its own child's keys would name nothing.
            let end = end.max(at + 1);
            self.ready.push_back((block, at..end));
            self.grouped = end;
        }
        Ok(Named::All)
    }

    /// The key that leads to the leaf of entry `at`: of one whose uniqueness is asked for, the
    /// first leaf that may hold its key (R8).
    fn whole(&self, at: usize) -> Vec<u8> {
        let entry = &self.entries[at];
        match self.is_asked(at) {
            true => entry.key.to_vec(),
            false => tree_key(entry.key, entry.row),
        }
    }

    fn is_asked(&self, at: usize) -> bool {
        self.unique && !self.entries[at].exempt
    }

    /// Does entry `at` lead to a leaf below `bound`?
    fn is_below(&self, at: usize, bound: &[u8]) -> bool {
        let entry = &self.entries[at];
        let key = entry.key;
        if self.is_asked(at) || bound.len() <= key.len() || key != &bound[..key.len()] {
            return key < bound;
        }
        entry.row.to_bytes()[..] < bound[key.len()..]
    }

    /// The first entry from `at` on that does not lead below `bound`: groups are mostly small.
    fn end_of(&self, at: usize, bound: Option<&[u8]>) -> usize {
        let Some(bound) = bound else { return self.entries.len() };
        let mut step = 1;
        while at + step < self.entries.len() && self.is_below(at + step, bound) {
            step *= 2;
        }
        let (mut low, mut high) = (at + step / 2, (at + step).min(self.entries.len()));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.is_below(middle, bound) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// Was the inner page the right one?
enum Named {
    /// Yes.
    All,
    /// It is further right.
    Right(u32),
    /// Another one must be found.
    Lost,
}
