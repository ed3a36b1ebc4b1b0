//! Lookups of whole keys, one or a sorted list.
//!
//! A leaf is held for all keys of the list that belong to it, each searched for among the entries
//! after the last one's. The right sibling is tried before a descent (`search/cursor`). A single
//! key is looked up without pin or latch: its entries are copied out, and count if the leaf is
//! unchanged afterwards (R11).
//!
//! Invariants: the callback runs under a shared latch at most. A key whose entries continue in the
//! next leaf is followed there. One leaf is latched at a time.
//! Does not do: visibility; ranges (`scan`).

use std::cmp::Ordering;

use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::RowId;
use crate::index::am::Few;
use crate::index::btree::optimisations::{Optimisation, Optimisations};
use crate::index::btree::page::node::{Checked, DEAD, Item, Node, POSTING, SearchPosition};
use crate::index::btree::page::posting::PostingRow;
use crate::index::btree::page::read::PageRead;
use crate::index::btree::page::search::SearchBounds;
use crate::index::btree::page::tree_key::tree_key;
use crate::index::btree::search::SearchTarget;
use crate::index::btree::search::cursor::{LeafAt, LeafCursor};
use crate::index::btree::tree::Tree;
use crate::page::PageView;

/// The callback of a lookup: position of the key, row, payload.
pub(crate) type FoundFn<'f> = &'f mut dyn FnMut(usize, RowId, &[u8]);

/// The lookup of a sorted list of keys.
struct KeyListLookup<'k, 'f> {
    set: Optimisations,
    keys: &'k [&'k [u8]],
    /// Position of the current key.
    at: usize,
    /// Where its entries continue, if some were handed out.
    from: Option<Vec<u8>>,
    /// Where they continued in this leaf: rows below were handed out.
    floor: Option<Vec<u8>>,
    members: Vec<PostingRow>,
    found: FoundFn<'f>,
}

impl Tree {
    /// See [`crate::index::am::AccessMethod::few`].
    pub(crate) fn few(&self, key: &[u8]) -> Result<Option<Few>> {
        let _registered = self.registrations.register();
        let mut few = Few::default();
        let read = |node: &Node<PageView<'_>>, at: SearchPosition, shared| {
            take_matches(node, key, at.pos, shared, |row, _| few.push(row))
        };
        let all = self.read_leaf_unlatched(key, read)? == Some(true);
        Ok(all.then_some(few))
    }

    /// See [`crate::index::am::AccessMethod::lookup`].
    pub(crate) fn lookup(&self, keys: &[&[u8]], found: FoundFn<'_>) -> Result<()> {
        debug_assert!(keys.is_sorted(), "the keys ascend");
        let _registered = self.registrations.register();
        if let [key] = keys {
            let mut copied = CopiedMatches::default();
            let read = |node: &Node<PageView<'_>>, at: SearchPosition, shared| {
                take_matches(node, key, at.pos, shared, |row, item| {
                    copied.take(node, row, item);
                    true
                })
            };
            if self.read_leaf_unlatched(key, read)? == Some(true) {
                copied.one.into_iter().for_each(|row| found(0, row, &[]));
                copied.more.iter().for_each(|(row, payload)| found(0, *row, payload));
                return Ok(());
            }
        }
        let set = self.switches.get();
        let (from, floor, members) = (None, None, Vec::new());
        let mut list_lookup = KeyListLookup { set, keys, at: 0, from, floor, members, found };
        let mut cursor = LeafCursor::default();
        while list_lookup.at < keys.len() {
            let from = list_lookup.from.take();
            list_lookup.floor.clone_from(&from);
            let target = SearchTarget::At(from.as_deref().unwrap_or(keys[list_lookup.at]));
            let leaf = cursor.read(
                self,
                target,
                || (),
                |LeafAt { node, found, .. }| list_lookup.leaf(&node, found.pos),
            );
            cursor.set_near([leaf?, 0]);
        }
        Ok(())
    }
}

/// Entries that were copied out of an unlatched page.
#[derive(Default)]
struct CopiedMatches {
    /// The first row, if it has no payload. Most lookups find only that.
    one: Option<RowId>,
    more: Vec<(RowId, Vec<u8>)>,
}

impl CopiedMatches {
    fn take<R: PageRead>(&mut self, node: &Node<R>, row: RowId, item: Option<&Item>) {
        let item = item.filter(|item| item.extra_len() != 0);
        if item.is_none() && self.one.is_none() && self.more.is_empty() {
            self.one = Some(row);
            return;
        }
        let mut payload = Vec::new();
        if let Some(item) = item {
            node.page.append(item.extra, item.extra_len(), &mut payload);
        }
        self.more.push((row, payload));
    }
}

/// Hands the rows of `key`, from entry `from` on, to `take` until it returns false. `take` gets the
/// item, too, unless the row is in a posting list. The first entry shares `shared` leading bytes
/// with the key, which are not compared again. False: the key may have more rows on another leaf.
fn take_matches<R: PageRead>(
    node: &Node<R>,
    key: &[u8],
    from: usize,
    shared: usize,
    mut take: impl FnMut(RowId, Option<&Item>) -> bool,
) -> Checked<bool> {
    let mut members = Vec::new();
    let opens = shared >= key.len();
    if !opens && !node.prefix_opens(key) {
        return Ok(true);
    }
    for pos in from..node.count {
        let known = opens && pos == from;
        if !known && !node.head_opens_with(pos, key) {
            return Ok(true);
        }
        let item = node.item(pos)?;
        if !known && !node.rest_opens_with(&item, key) {
            return Ok(true);
        }
        // Lists come first, because the mark of a list is that of its first row alone.
        if item.tags & POSTING != 0 {
            node.members(pos, &mut members)?;
            let mut rows = members.iter().filter(|member| !member.dead);
            if !rows.all(|member| take(member.row, None)) {
                return Ok(false);
            }
            continue;
        }
        let dead = item.tags & DEAD != 0;
        if !dead && !take(node.row_of(pos, &item), Some(&item)) {
            return Ok(false);
        }
    }
    let goes_on = node.high().is_some_and(|high| high.starts_with(key));
    Ok(!goes_on)
}

impl KeyListLookup<'_, '_> {
    /// Hands out the entries of the current key from `pos` on, and those of all further keys that
    /// belong on this leaf. Returns the right link.
    fn leaf(&mut self, node: &Node<&[u8; PAGE_SIZE]>, mut pos: usize) -> Checked<u32> {
        // A list that begins below the floor may reach beyond it.
        pos -= usize::from(self.floor.is_some() && pos > 0 && node.is_list(pos - 1));
        loop {
            let key = self.keys[self.at];
            while pos < node.count && self.entry(node, key, pos)? {
                pos += 1;
            }
            if pos == node.count {
                self.from = node.high().filter(|high| high.starts_with(key));
            }
            self.at += usize::from(self.from.is_none());
            self.floor = None;
            let more = self.from.is_none() && self.at < self.keys.len();
            if !more || !self.set.has(Optimisation::Cursors) {
                return Ok(node.right);
            }
            let key = self.keys[self.at];
            let given = SearchBounds { set: self.set, shared_bytes: 0, from: pos };
            pos = node.search_within(key, given)?.found.pos;
            // Only a key after the last entry may be beyond the page.
            if pos == node.count && node.cmp_high(key) != Ordering::Less {
                return Ok(node.right);
            }
        }
    }

    /// Hands out entry `pos`, unless it is dead; false if it has another key.
    fn entry(&mut self, node: &Node<&[u8; PAGE_SIZE]>, key: &[u8], pos: usize) -> Checked<bool> {
        let item = node.item(pos)?;
        if !node.opens_with(pos, &item, key) {
            return Ok(false);
        }
        if node.is_list(pos) {
            return self.list(node, key, pos).map(|()| true);
        }
        if !node.is_dead(pos) {
            (self.found)(self.at, node.row_of(pos, &item), node.payload(&item)?);
        }
        Ok(true)
    }
    /// Hands out the rows of a posting list.
    fn list(&mut self, node: &Node<&[u8; PAGE_SIZE]>, key: &[u8], pos: usize) -> Checked<()> {
        node.members(pos, &mut self.members)?;
        for member in self.members.iter().filter(|member| !member.dead) {
            let below = |floor: &Vec<u8>| tree_key(key, member.row) < *floor;
            if !self.floor.as_ref().is_some_and(below) {
                (self.found)(self.at, member.row, &[]);
            }
        }
        Ok(())
    }
}
