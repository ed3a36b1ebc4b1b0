//! Removing entries: one by key, or those of one leaf that vacuum found dead.
//!
//! Invariants: a page may become empty here but stays in the tree; `merge` takes it out.
//! Does not do: decide what is dead.

use crate::buffer::{Held, Mtr};
use crate::error::Result;
use crate::ids::Xid;
use crate::index::am::IndexEntry;
use crate::index::btree::edit::{self, Entries, Frame};
use crate::index::btree::insert::{Lack, Luggage};
use crate::index::btree::node::{Checked, Node};
use crate::index::btree::search::{Aim, Reached, Target};
use crate::index::btree::{Tree, tree_key};
use crate::wal::RecordKind;

/// More removals than this from one page are logged as a fresh image.
const MAX_SINGLE: usize = 24;

impl Tree {
    /// See [`crate::index::am::AccessMethod::delete`].
    pub(crate) fn delete(&self, xid: Xid, entry: &IndexEntry<'_>) -> Result<bool> {
        let key = tree_key(entry.key, entry.row);
        let _registered = self.registrations.enter();
        let mut luggage = Luggage::default();
        loop {
            let found = self.descend(Aim::At(&key), 0)?;
            let pin = found.ok_or_else(|| self.corrupt(0, "a tree without leaves"))?;
            let mut mtr = Mtr::new(&self.pool);
            let target = Target { level: 0, alone: true };
            match self.reach(&mut mtr, pin, Aim::At(&key), target)? {
                Reached::Here(_, found) if !found.exact => return Ok(false),
                Reached::Here(held, found) => {
                    self.remove(&mut mtr, held, &[found.pos])?;
                    mtr.commit(RecordKind::IndexDelete, xid)?;
                    return Ok(true);
                }
                Reached::Lost | Reached::Missing(_) => {
                    drop(mtr);
                    luggage.fetch(self, Lack::Luck)?;
                }
            }
        }
    }

    /// Takes the entries at the ascending `positions` out of a latched leaf.
    pub(crate) fn remove(&self, mtr: &mut Mtr<'_>, held: Held, positions: &[usize]) -> Result<()> {
        let block = mtr.id(held).block.0;
        let damage = |what| self.corrupt(block, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        assert!(node.is_leaf(), "entries leave leaves only");
        if positions.len() > MAX_SINGLE {
            let frame = Frame::of(&node, 0);
            let mut entries = Entries::load(&node).map_err(damage)?;
            entries.retain(|i, _| positions.binary_search(&i).is_err());
            // Fewer entries than before under the same fences: the prefix can only grow.
            let image = frame.image_of(&entries).ok_or_else(|| damage("a page overflows"))?;
            mtr.page(held).replace(&image);
            return Ok(());
        }
        let items: Checked<Vec<_>> = positions.iter().map(|i| node.item(*i)).collect();
        let items = items.map_err(damage)?;
        let mut page = mtr.page(held);
        for (pos, item) in positions.iter().zip(&items).rev() {
            edit::remove_at(&mut page, *pos, item);
        }
        Ok(())
    }
}
