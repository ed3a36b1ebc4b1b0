//! The leaves that the entries of a batch belong on, named from the inner pages above them, so
//! that the caller can have them read before it needs them.
//!
//! Each inner page above the leaves is read once for all entries below it. A named leaf is a
//! guess: it may be split, merged or freed until it is latched, and its user checks level
//! and fences (R6). Resident leaves are prefetched into the processor's caches a few groups ahead.
//!
//! A named leaf comes with its link: where the high key equals the separator right of that link,
//! all entries of the group are below it, and none is compared with it.
//!
//! Invariants: the groups of a batch are named in its order, without gaps. No pin and no latch is
//! kept between calls.
//! Does not do: read leaves; tell whether an entry fits.

use std::collections::VecDeque;

use rightlink_env::sync::Ordering;

use crate::error::{Error, Result};
use crate::index::am::{Group, IndexEntry, PageLink};
use crate::index::btree::optimisations::Optimisation;
use crate::index::btree::page::node::{Checked, Node, is_node};
use crate::index::btree::page::read::PageRead;
use crate::index::btree::page::tree_key::TreeKey;
use crate::index::btree::search::descent::NamedLeaf;
use crate::index::btree::search::{PageMatch, SearchTarget};
use crate::index::btree::tree::Tree;

/// Attempts to find the inner page above a leaf. After that, descents find the leaves of the batch.
const MAX_TRIES: u32 = 16;

/// At least so many leaves ahead of the caller have the slots near their keys prefetched. As many
/// more have their ends prefetched, in steps of this size.
const PREFETCH_GROUPS: usize = 4;

/// How many of the ready groups were prefetched.
#[derive(Clone, Copy, Default)]
struct Prefetched {
    /// Groups whose leaves have header and trailer prefetched.
    ends: usize,
    /// Groups whose leaves have the slots near the first entry prefetched.
    slots: usize,
}

/// The groups of one batch.
pub(crate) struct LeafGroups<'a> {
    tree: &'a Tree,
    entries: &'a [IndexEntry<'a>],
    unique: bool,
    /// Entries below are in a group.
    grouped: usize,
    ready: VecDeque<Group>,
    prefetched: Prefetched,
}

impl Tree {
    /// See [`crate::index::am::AccessMethod::groups`].
    pub(crate) fn groups<'a>(
        &'a self,
        entries: &'a [IndexEntry<'a>],
        unique: bool,
    ) -> LeafGroups<'a> {
        let (ready, prefetched) = (VecDeque::new(), Prefetched::default());
        LeafGroups { tree: self, entries, unique, grouped: 0, ready, prefetched }
    }
}

impl Iterator for LeafGroups<'_> {
    type Item = Result<Group>;

    fn next(&mut self) -> Option<Result<Group>> {
        if self.ready.len() < 4 * PREFETCH_GROUPS && self.grouped < self.entries.len() {
            if let Err(error) = self.name_next() {
                self.grouped = self.entries.len();
                (self.ready, self.prefetched) = (VecDeque::new(), Prefetched::default());
                return Some(Err(error));
            }
            assert!(!self.ready.is_empty(), "entries that are left are in a group");
        }
        if self.entries.len() > 1 {
            self.prefetch();
        }
        let group = self.ready.pop_front()?;
        let Prefetched { ends, slots } = self.prefetched;
        self.prefetched =
            Prefetched { ends: ends.saturating_sub(1), slots: slots.saturating_sub(1) };
        Some(Ok(group))
    }
}

impl LeafGroups<'_> {
    /// Names the leaves below the next inner page.
    fn name_next(&mut self) -> Result<()> {
        let _registered = self.tree.registrations.register();
        let (root, level) = self.tree.root();
        let first = self.target_key(self.grouped);
        let only = if level == 0 { Some(root) } else { self.remembered_rightmost(&first) };
        if let Some(block) = only {
            self.name_rest(block);
            return Ok(());
        }
        if self.entries.len() == 1 || !self.tree.uses(Optimisation::Batches) {
            self.push(self.tree.name_leaf(SearchTarget::At(&first))?, self.grouped + 1);
            return Ok(());
        }
        let mut block = None;
        for _ in 0..MAX_TRIES {
            let pin = match block.take() {
                Some(right) => Some(self.tree.pin_linked(right)?),
                None => self.tree.descend(SearchTarget::At(&first), 1)?,
            };
            let Some(pin) = pin else { break };
            let page = pin.shared();
            let version = page.version();
            let parent = PageLink { block: pin.page().block.0, version, position: 0 };
            let named = self.name_children(page.bytes(), parent, &first);
            match named.map_err(|what| Error::corrupt(pin.page(), what))? {
                NamedLeaves::All => return Ok(()),
                NamedLeaves::Right(right) => block = Some(right),
                NamedLeaves::Lost => {}
            }
        }
        // The inner pages keep changing: the rest is one group, and each entry is found by a
        // descent.
        self.name_rest(root);
        Ok(())
    }

    /// The remembered rightmost leaf, if it takes the key; else it is forgotten.
    fn remembered_rightmost(&self, key: &[u8]) -> Option<u32> {
        let remembers = self.tree.uses(Optimisation::RightmostLeaf);
        let block = if remembers { self.tree.rightmost.load(Ordering::Relaxed) } else { 0 };
        let takes_key = self.tree.hinted_leaf_takes(block, key);
        if block != 0 && !takes_key {
            self.tree.rightmost.store(0, Ordering::Relaxed);
        }
        takes_key.then_some(block)
    }

    /// The entries from `grouped` up to `end` are a group.
    fn push(&mut self, leaf: NamedLeaf, end: usize) {
        let NamedLeaf { block, link } = leaf;
        let entries = self.grouped..end;
        self.ready.push_back(Group { page: self.tree.page(block), link, entries });
        self.grouped = end;
    }

    /// Prefetches the leaves of the next groups: first their ends, some groups later the slots near
    /// their first entries.
    fn prefetch(&mut self) {
        let Prefetched { ends, slots } = self.prefetched;
        if slots >= PREFETCH_GROUPS.min(self.ready.len()) {
            return;
        }
        let upto = (slots + 3 * PREFETCH_GROUPS).min(self.ready.len());
        let next = self.ready.range(ends.min(upto)..upto);
        next.for_each(|group| self.tree.prefetch_leaf_ends(group.page.block.0));
        let upto_slots = (slots + PREFETCH_GROUPS).min(upto);
        let reading = self.tree.pool.reading();
        for Group { page, entries, .. } in self.ready.range(slots..upto_slots) {
            self.tree.prefetch_slots(&reading, page.block.0, self.entries[entries.start].key);
        }
        self.prefetched = Prefetched { ends: upto, slots: upto_slots };
    }

    /// All entries that are left, as one group.
    fn name_rest(&mut self, block: u32) {
        self.push(NamedLeaf { block, link: None }, self.entries.len());
    }

    /// Names the leaves below `page`, if the next entry, whose target key is `first`, belongs below
    /// it. `parent` is a link on that page.
    fn name_children<R: PageRead>(
        &mut self,
        page: R,
        parent: PageLink,
        first: &[u8],
    ) -> Checked<NamedLeaves> {
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
                // It is the last entry, whatever the bound.
                _ if at + 1 == self.entries.len() => at + 1,
                true => {
                    node.append_key(child + 1, &mut bound)?;
                    self.end_of(at, Some(&bound))
                }
                false => self.end_of(at, high.as_deref()),
            };
            // A damaged separator must not make the group empty.
            let end = end.max(at + 1);
            let link = Some(PageLink { position: child as u32, ..parent });
            self.push(NamedLeaf { block, link }, end);
        }
        Ok(NamedLeaves::All)
    }

    /// The key that leads to the leaf of entry `at`. If its uniqueness is checked, that is the
    /// first leaf that may hold the key (R8).
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

    /// The first entry from `at` on that does not lead below `bound`. Groups are mostly small, so
    /// the search begins at `at`.
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

/// Was the inner page the parent of the next entry's leaf?
enum NamedLeaves {
    /// Yes.
    All,
    /// The parent is to the right.
    Right(u32),
    /// The parent must be found again.
    Lost,
}
