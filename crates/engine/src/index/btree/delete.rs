//! Removing rows: one by key, or those of one leaf that vacuum found dead; out of posting lists as
//! out of entries of their own.
//!
//! Invariants: a page may become empty under the latch here but stays in the tree; `merge` takes it
//! out afterwards.
//! Does not do: decide what is dead.

use crate::buffer::{Held, Mtr};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::am::IndexEntry;
use crate::index::btree::edit::{self, Frame};
use crate::index::btree::entries::Entries;
use crate::index::btree::insert::{Lack, Luggage};
use crate::index::btree::merge::used;
use crate::index::btree::node::{Checked, Item, Node};
use crate::index::btree::posting::{Member, Spot};
use crate::index::btree::search::{Aim, Reached, Target};
use crate::index::btree::{Optimisations, Tree, TreeKey};
use crate::wal::RecordKind;

/// More removals than this from one page are logged as a fresh image.
const MAX_SINGLE: usize = 24;

/// Percent of a page at which the removal of a row merges it.
const SPARSE: usize = 25;

impl Tree {
    /// See [`crate::index::am::AccessMethod::delete`].
    pub(crate) fn delete(&self, xid: Xid, entry: &IndexEntry<'_>) -> Result<bool> {
        let key = TreeKey::new(entry.key, entry.row);
        let _registered = self.registrations.enter();
        let mut luggage = Luggage::default();
        loop {
            let found = self.descend(Aim::At(&key), 0)?;
            let pin = found.ok_or_else(|| self.corrupt(0, "a tree without leaves"))?;
            let mut mtr = Mtr::new(&self.pool);
            let target = Target { level: 0, alone: true };
            match self.reach(&mut mtr, pin, Aim::At(&key), target)? {
                Reached::Here(held, found) => {
                    let block = mtr.id(held).block.0;
                    let node = Node::open(mtr.bytes(held));
                    let spot = node.and_then(|node| node.locate(found, &key));
                    let spot = spot.map_err(|what| self.corrupt(block, what))?;
                    let Spot::There(entry, member) = spot else { return Ok(false) };
                    let before = self.is_sparse(&mtr, held);
                    self.remove(&mut mtr, held, &[(entry, member)])?;
                    let after = self.is_sparse(&mtr, held);
                    let empty = Node::open(mtr.bytes(held)).is_ok_and(|node| node.count == 0)
                        && self.uses(Optimisations::MERGING);
                    mtr.commit(RecordKind::IndexDelete, xid)?;
                    // Once on the way down, and once more at the end, when any partner will do.
                    if after && !before || empty {
                        self.merge_underfull(block)?;
                    }
                    return Ok(true);
                }
                Reached::Lost | Reached::Missing(_) => {
                    drop(mtr);
                    luggage.fetch(self, Lack::Luck)?;
                }
            }
        }
    }

    /// Has the page become so empty that merging it at once is worth a descent?
    pub(crate) fn is_sparse(&self, mtr: &Mtr<'_>, held: Held) -> bool {
        let node = Node::open(mtr.bytes(held));
        node.is_ok_and(|node| {
            self.is_underfull(&node) && used(&node) * 100 <= self.options.capacity * SPARSE
        })
    }

    /// Takes rows out of a latched leaf: each by entry and place in it, ascending.
    pub(crate) fn remove(
        &self,
        mtr: &mut Mtr<'_>,
        held: Held,
        rows: &[(usize, usize)],
    ) -> Result<()> {
        let block = mtr.id(held).block.0;
        let damage = |what| self.corrupt(block, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        assert!(node.is_leaf(), "entries leave leaves only");
        let gone = removals(&node, rows).map_err(damage)?;
        if gone.len() > MAX_SINGLE {
            let frame = Frame::of(&node, 0);
            let mut entries = Entries::load(&node).map_err(damage)?;
            entries.keep_rows(|entry, at, _| rows.binary_search(&(entry, at)).is_err());
            // Fewer rows than before under the same fences: the prefix can only grow.
            let image = frame.image_of(&entries).ok_or_else(|| damage("a page overflows"))?;
            mtr.page(held).replace(&image);
            return Ok(());
        }
        let mut page = mtr.page(held);
        for Removal { entry, item, left } in gone.iter().rev() {
            match left.is_empty() {
                true => edit::remove_at(&mut page, *entry, item),
                false => {
                    rightlink_env::points::hit("btree.delete.shortened");
                    edit::shrink_list(&mut page, *entry, item, left);
                }
            }
        }
        Ok(())
    }
}

/// What happens to an entry.
struct Removal {
    entry: usize,
    item: Item,
    /// The rows that stay.
    left: Vec<Member>,
}

/// The entries that lose `rows`.
fn removals(node: &Node<&[u8; PAGE_SIZE]>, mut rows: &[(usize, usize)]) -> Checked<Vec<Removal>> {
    let mut out = Vec::new();
    while let Some((entry, _)) = rows.first() {
        let entry = *entry;
        let (mine, rest) = rows.split_at(rows.partition_point(|row| row.0 == entry));
        let mut members = Vec::new();
        // Of an entry with one row nothing is left.
        if node.is_list(entry) {
            node.members(entry, &mut members)?;
        }
        let mut at = 0;
        members.retain(|_| {
            at += 1;
            mine.binary_search(&(entry, at - 1)).is_err()
        });
        out.push(Removal { entry, item: node.item(entry)?, left: members });
        rows = rest;
    }
    Ok(out)
}
