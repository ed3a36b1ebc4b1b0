//! Removing entries by key: one entry, or those of rows that the heap has pruned.
//!
//! Invariants: a page may become empty here but stays in the tree; `merge` takes it out afterwards.
//! Does not do: decide what is dead; what all methods share (`index/removal`).

use crate::buffer::{LatchedPage, Mtr};
use crate::error::Result;
use crate::ids::{RowId, Xid};
use crate::index::am::{Group, IndexEntry, NamedPage, Trace};
use crate::index::btree::insert::state::{Retry, RetryState};
use crate::index::btree::optimisations::Optimisation;
use crate::index::btree::page::node::{Checked, Node};
use crate::index::btree::page::posting::{EntryPosition, RowPosition};
use crate::index::btree::page::read::PageRead;
use crate::index::btree::page::remove::LeafRemoval;
use crate::index::btree::page::tree_key::TreeKey;
use crate::index::btree::search::{LatchResult, OtherLatches, PageMatch, SearchTarget};
use crate::index::btree::tree::Tree;
use crate::index::removal::{DeadRemoval, Located};
use crate::wal::RecordKind;

/// Percent of a page in use at which a removal merges it.
const SPARSE_PERCENT: usize = 25;

impl Tree {
    /// See [`crate::index::am::AccessMethod::delete`].
    pub(crate) fn delete(&self, xid: Xid, entry: &IndexEntry<'_>) -> Result<bool> {
        let key = TreeKey::new(entry.key, entry.row);
        let target = SearchTarget::At(&key);
        let _registered = self.registrations.register();
        let mut state = RetryState::default();
        loop {
            let leaf = self.find_leaf(target)?;
            let mut mtr = Mtr::new(&self.pool);
            match self.latch_page(&mut mtr, leaf, target, 0, OtherLatches::None)? {
                LatchResult::Here(held, found) => {
                    let block = mtr.id(held).block.0;
                    let node = Node::open(mtr.bytes(held));
                    let position = node.and_then(|node| node.entry_position(found, &key));
                    let position = position.map_err(|what| self.corrupt(block, what))?;
                    let EntryPosition::Present(row) = position else { return Ok(false) };
                    let before = self.is_sparse(&mtr, held);
                    self.remove_rows(&mut mtr, held, &[row])?;
                    let after = self.is_sparse(&mtr, held);
                    let empty = Node::open(mtr.bytes(held)).is_ok_and(|node| node.count == 0)
                        && self.uses(Optimisation::Merging);
                    mtr.commit(RecordKind::IndexDelete, xid)?;
                    // The merge is tried when the page becomes sparse, and again when it is empty
                    // and any sibling will do.
                    if after && !before || empty {
                        self.merge_underfull(block)?;
                    }
                    return Ok(true);
                }
                LatchResult::Lost | LatchResult::NotInMemory(_) => {
                    drop(mtr);
                    state.prepare(self, Retry::Conflict)?;
                }
            }
        }
    }

    /// Is the page so empty that merging it now is worth a descent?
    pub(crate) fn is_sparse(&self, mtr: &Mtr<'_>, held: LatchedPage) -> bool {
        let node = Node::open(mtr.bytes(held));
        node.is_ok_and(|node| {
            self.is_underfull(&node)
                && node.used_bytes() * 100 <= self.options.capacity * SPARSE_PERCENT
        })
    }

    /// Removes rows, ascending, from a latched leaf.
    fn remove_rows(
        &self,
        mtr: &mut Mtr<'_>,
        held: LatchedPage,
        rows: &[RowPosition],
    ) -> Result<()> {
        let removal = Node::open(mtr.bytes(held)).and_then(|node| LeafRemoval::plan(&node, rows));
        let removal = removal.map_err(|what| self.corrupt(mtr.id(held).block.0, what))?;
        removal.apply(&mut mtr.page(held));
        Ok(())
    }

    /// See [`crate::index::am::AccessMethod::remove_dead`].
    pub(crate) fn remove_dead(
        &self,
        entries: &[IndexEntry<'_>],
        reads: bool,
        check: &mut dyn FnMut(RowId) -> bool,
        traces: &mut [Trace],
    ) -> Result<u64> {
        debug_assert!(entries.is_sorted_by_key(|entry| (entry.key, entry.row)));
        let _registered = self.registrations.register();
        let mut removal = DeadRemoval::new(entries, check, traces);
        for group in self.groups(entries, false) {
            let Group { page, link, entries: range } = group?;
            let pin = match reads {
                true => Some(self.pin_linked(page.block.0)?),
                false => self.pool.try_pin(page),
            };
            // An entry that is not in memory, or has moved meanwhile, is left to vacuum.
            if let Some(pin) = pin {
                self.remove_from_leaf(NamedPage { pin, link }, range, &mut removal)?;
            }
        }
        Ok(removal.removed())
    }

    /// Removes those of the entries in `range` that belong on the leaf.
    fn remove_from_leaf(
        &self,
        leaf: NamedPage,
        range: std::ops::Range<usize>,
        removal: &mut DeadRemoval<'_, '_>,
    ) -> Result<()> {
        let first = &removal.entries[range.start];
        let key = TreeKey::new(first.key, first.row);
        let mut mtr = Mtr::new(&self.pool);
        let target = SearchTarget::At(&key);
        let latched = self.latch_page(&mut mtr, leaf, target, 0, OtherLatches::None)?;
        let LatchResult::Here(held, _) = latched else { return Ok(()) };
        let block = mtr.id(held).block.0;
        let node = Node::open(mtr.bytes(held)).map_err(|what| self.corrupt(block, what))?;
        let found = removal.find_on_page(range, |entry| locate(&node, entry));
        let found = found.map_err(|what| self.corrupt(block, what))?;
        if !found.places.is_empty() {
            let before = self.is_sparse(&mtr, held);
            self.remove_rows(&mut mtr, held, &found.places)?;
            let after = self.is_sparse(&mtr, held);
            mtr.commit(RecordKind::IndexDelete, Xid::NONE)?;
            if after && !before {
                self.merge_underfull(block)?;
            }
        }
        removal.note(found);
        Ok(())
    }
}

/// Where the entry is on a leaf.
fn locate<R: PageRead>(node: &Node<R>, entry: &IndexEntry<'_>) -> Checked<Located<RowPosition>> {
    let key = TreeKey::new(entry.key, entry.row);
    let matched = node.match_target(SearchTarget::At(&key))?;
    let PageMatch::Here(found) = matched else { return Ok(Located::Elsewhere) };
    Ok(match node.entry_position(found, &key)? {
        EntryPosition::Present(position) => Located::Present(position),
        EntryPosition::Gap(_) | EntryPosition::InsideList(_) => Located::Absent,
    })
}
