//! Removing rows: one by key, or those of one leaf that vacuum found dead; out of posting lists as
//! out of entries of their own.
//!
//! Invariants: a page may become empty under the latch here but stays in the tree; `merge` takes it
//! out afterwards. What entries left behind as holes is counted as the page's garbage.
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
use crate::page::PageMut;
use crate::wal::RecordKind;

/// More changed entries than this on one page are logged as a fresh image: one by one they take
/// longer to store, and those that only leave are left to it as holes.
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

    /// Takes rows out of a latched leaf: each by entry and place in it, ascending. Where they are
    /// many the page is encoded afresh, since whoever asks wants their room.
    pub(crate) fn remove(
        &self,
        mtr: &mut Mtr<'_>,
        held: Held,
        rows: &[(usize, usize)],
    ) -> Result<()> {
        let gone = self.removals(mtr, held, rows)?;
        if gone.len() > MAX_SINGLE {
            return self.encode_without(mtr, held, rows);
        }
        let mut page = mtr.page(held);
        for Removal { entry, item, left } in gone.iter().rev() {
            match left.is_empty() {
                true => edit::remove_at(&mut page, *entry, item),
                false => shorten(&mut page, *entry, item, left),
            }
        }
        Ok(())
    }

    /// As [`Tree::remove`], for a pass over the whole index: the bytes of entries that leave stay
    /// where they are, as holes, until somebody needs their room. So the record is a small part of
    /// the page, and what stays is not looked at.
    pub(crate) fn take_out(
        &self,
        mtr: &mut Mtr<'_>,
        held: Held,
        rows: &[(usize, usize)],
    ) -> Result<()> {
        let gone = self.removals(mtr, held, rows)?;
        let shorter = || gone.iter().filter(|removal| !removal.left.is_empty());
        if shorter().count() > MAX_SINGLE {
            return self.encode_without(mtr, held, rows);
        }
        let whole = gone.iter().filter(|removal| removal.left.is_empty());
        let whole: Vec<_> = whole.map(|Removal { entry, item, .. }| (*entry, *item)).collect();
        let mut page = mtr.page(held);
        for Removal { entry, item, left } in shorter() {
            shorten(&mut page, *entry, item, left);
        }
        edit::remove_all(&mut page, &whole);
        Ok(())
    }

    /// The entries of a latched leaf that lose `rows`.
    fn removals(&self, mtr: &Mtr<'_>, held: Held, rows: &[(usize, usize)]) -> Result<Vec<Removal>> {
        let node = Node::open(mtr.bytes(held));
        let gone = node.and_then(|node| removals(&node, rows));
        gone.map_err(|what| self.corrupt(mtr.id(held).block.0, what))
    }

    /// Encodes a latched leaf afresh, without `rows`.
    fn encode_without(&self, mtr: &mut Mtr<'_>, held: Held, rows: &[(usize, usize)]) -> Result<()> {
        let damage = |what| self.corrupt(mtr.id(held).block.0, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        let frame = Frame::of(&node, 0);
        let mut entries = Entries::load(&node).map_err(damage)?;
        // Both ascend.
        let mut rows = rows.iter().copied().peekable();
        entries.keep_rows(|entry, at, _| rows.next_if_eq(&(entry, at)).is_none());
        // Fewer rows than before under the same fences: the prefix can only grow.
        let image = frame.image_of(&entries).ok_or_else(|| damage("a page overflows"))?;
        mtr.page(held).replace(&image);
        Ok(())
    }
}

/// Leaves an entry those rows of its list that stay.
fn shorten(page: &mut PageMut<'_>, entry: usize, item: &Item, left: &[Member]) {
    rightlink_env::points::hit("btree.delete.shortened");
    edit::shrink_list(page, entry, item, left);
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
    assert!(node.is_leaf(), "entries leave leaves only");
    let mut out = Vec::with_capacity(rows.len());
    while let Some((entry, _)) = rows.first() {
        let entry = *entry;
        let (item, mut left) = (node.item(entry)?, Vec::new());
        let (mine, rest) = rows.split_at(rows.iter().take_while(|row| row.0 == entry).count());
        // Of an entry with one row nothing is left.
        if node.is_list(entry) {
            node.members(entry, &mut left)?;
            let (mut at, mut mine) = (0.., mine.iter().map(|row| row.1).peekable());
            left.retain(|_| mine.next_if_eq(&at.next().expect("no end")).is_none());
        }
        out.push(Removal { entry, item, left });
        rows = rest;
    }
    Ok(out)
}
