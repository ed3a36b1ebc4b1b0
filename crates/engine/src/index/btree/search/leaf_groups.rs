//! Where a batch will go: the leaves that its entries belong on, named from the inner pages above
//! them without a look at a leaf, so that the caller can have them read while it does other things.
//!
//! Each inner page above the leaves is looked at once for all entries below it. What is named is a
//! guess: until the leaf is latched it may have been split, merged or freed, and whoever uses it
//! asks its level and fences (R6). Some leaves ahead of the caller they are asked for from memory
//! (`warm`).
//!
//! Invariants: the groups of a batch are named in its order, without gaps; no pin and no latch is
//! kept from one call to the next.
//! Does not do: read leaves; tell whether an entry fits.

use std::collections::VecDeque;
use std::ops::Range;

use rightlink_env::sync::Ordering;

use crate::error::{Error, Result};
use crate::index::am::{Group, IndexEntry};
use crate::index::btree::optimisations::Optimisations;
use crate::index::btree::page::node::{Checked, Node, is_node};
use crate::index::btree::page::read::PageRead;
use crate::index::btree::page::tree_key::TreeKey;
use crate::index::btree::search::{PageMatch, SearchTarget};
use crate::index::btree::tree::Tree;

/// Tries to find the inner page above a leaf before the rest of the batch is left to descents.
const MAX_TRIES: u32 = 16;

/// Leaves whose places are asked for before the caller comes to them, at least; as many more have
/// their ends asked for, and that many are asked for at a time.
const PREFETCH_GROUPS: usize = 4;

/// The groups of one batch.
pub(crate) struct LeafGroups<'a> {
    tree: &'a Tree,
    entries: &'a [IndexEntry<'a>],
    unique: bool,
    /// Entries below are in a group.
    grouped: usize,
    ready: VecDeque<(u32, Range<usize>)>,
    /// Of those that are ready, how many had the ends of their leaves asked for, and how many the
    /// places of their first entries.
    warm: (usize, usize),
}

impl Tree {
    /// See [`crate::index::am::AccessMethod::groups`].
    pub(crate) fn groups<'a>(
        &'a self,
        entries: &'a [IndexEntry<'a>],
        unique: bool,
    ) -> LeafGroups<'a> {
        let ready = VecDeque::new();
        LeafGroups { tree: self, entries, unique, grouped: 0, ready, warm: (0, 0) }
    }
}

impl Iterator for LeafGroups<'_> {
    type Item = Result<Group>;

    fn next(&mut self) -> Option<Result<Group>> {
        if self.ready.len() < 4 * PREFETCH_GROUPS && self.grouped < self.entries.len() {
            if let Err(error) = self.name_next() {
                self.grouped = self.entries.len();
                (self.ready, self.warm) = (VecDeque::new(), (0, 0));
                return Some(Err(error));
            }
            assert!(!self.ready.is_empty(), "entries that are left are in a group");
        }
        if self.entries.len() > 1 {
            self.prefetch();
        }
        let (block, entries) = self.ready.pop_front()?;
        let (ends, places) = self.warm;
        self.warm = (ends.saturating_sub(1), places.saturating_sub(1));
        Some(Ok(Group { page: self.tree.page(block), entries }))
    }
}

impl LeafGroups<'_> {
    /// Names the leaves below the next inner page.
    fn name_next(&mut self) -> Result<()> {
        let _registered = self.tree.registrations.register();
        let (root, level) = self.tree.root();
        let first = self.target_key(self.grouped);
        if level == 0 {
            return self.name_rest(root);
        }
        if self.tree.uses(Optimisations::RIGHTMOST_LEAF) {
            let rightmost = self.tree.rightmost.load(Ordering::Relaxed);
            if self.tree.try_hinted_leaf(rightmost, SearchTarget::At(&first)).is_some() {
                return self.name_rest(rightmost);
            }
        }
        let mut block = None;
        for _ in 0..MAX_TRIES {
            let pin = match block.take() {
                Some(right) => Some(self.tree.pin_linked(right)?),
                None => self.tree.descend(SearchTarget::At(&first), 1)?,
            };
            let Some(pin) = pin else { break };
            let page = pin.shared();
            let named = self.name_children(page.bytes(), &first);
            match named.map_err(|what| Error::corrupt(pin.page(), what))? {
                NamedLeaves::All => return Ok(()),
                NamedLeaves::Right(right) => block = Some(right),
                NamedLeaves::Lost => {}
            }
        }
        // Much is going on above: the first leaf it is, and every entry finds its own way.
        self.name_rest(root)
    }

    /// Has the leaves of the next groups fetched into the caches: their ends first, some groups
    /// later the places of their first entries.
    fn prefetch(&mut self) {
        let (ends, places) = self.warm;
        if places >= PREFETCH_GROUPS.min(self.ready.len()) {
            return;
        }
        let upto = (places + 3 * PREFETCH_GROUPS).min(self.ready.len());
        let next = self.ready.range(ends.min(upto)..upto);
        next.for_each(|(block, _)| self.tree.prefetch_leaf_ends(*block));
        let upto_places = (places + PREFETCH_GROUPS).min(upto);
        let reading = self.tree.pool.reading();
        for (block, entries) in self.ready.range(places..upto_places) {
            self.tree.prefetch_slots(&reading, *block, self.entries[entries.start].key);
        }
        self.warm = (upto, upto_places);
    }

    /// All entries that are left, as one group.
    fn name_rest(&mut self, block: u32) -> Result<()> {
        self.ready.push_back((block, self.grouped..self.entries.len()));
        self.grouped = self.entries.len();
        Ok(())
    }

    /// Names the leaves below `page` if the next entry, whose aim is `first`, belongs below it.
    fn name_children<R: PageRead>(&mut self, page: R, first: &[u8]) -> Checked<NamedLeaves> {
        if !is_node(page) {
            return Ok(NamedLeaves::Lost);
        }
        let node = Node::open(page)?;
        if node.level != 1 {
            return Ok(NamedLeaves::Lost);
        }
        match node.match_target(SearchTarget::At(first))? {
            PageMatch::MoveRight(right) => return Ok(NamedLeaves::Right(right)),
            PageMatch::Lost => return Ok(NamedLeaves::Lost),
            PageMatch::Here(_) => {}
        }
        let high = node.high();
        let mut bound = Vec::new();
        while self.grouped < self.entries.len() {
            let at = self.grouped;
            if high.as_deref().is_some_and(|high| !self.is_below(at, high)) {
                break;
            }
            let key = self.target_key(at);
            let target = SearchTarget::At(&key);
            let found = node.search(&key)?;
            let Some(child) = node.child_index(found, target) else { return Ok(NamedLeaves::Lost) };
            let block = node.child(child)?;
            bound.clear();
            let end = match child + 1 < node.count {
                // Nothing comes after it, whatever the bound.
                _ if at + 1 == self.entries.len() => at + 1,
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
        Ok(NamedLeaves::All)
    }

    /// The key that leads to the leaf of entry `at`: of one whose uniqueness is asked for, the
    /// first leaf that may hold its key (R8).
    fn target_key(&self, at: usize) -> TreeKey {
        let entry = &self.entries[at];
        match self.is_checked_entry(at) {
            true => TreeKey::before_rows(entry.key),
            false => TreeKey::new(entry.key, entry.row),
        }
    }

    fn is_checked_entry(&self, at: usize) -> bool {
        self.unique && self.entries[at].is_checked()
    }

    /// Does entry `at` lead to a leaf below `bound`?
    fn is_below(&self, at: usize, bound: &[u8]) -> bool {
        let entry = &self.entries[at];
        let key = entry.key;
        if self.is_checked_entry(at) || bound.len() <= key.len() || key != &bound[..key.len()] {
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
enum NamedLeaves {
    /// Yes.
    All,
    /// It is further right.
    Right(u32),
    /// Another one must be found.
    Lost,
}
