//! Bottom-up deletion: a full leaf asks the heap which of its rows are dead.
//!
//! Where rows are only inserted, asking finds nothing. So after some full leaves without a dead row
//! only one leaf in [`ONE_IN`] asks, unless a row on it is marked dead.
//!
//! Invariants: a row that the heap calls dead under the leaf's latch is the row that the entry was
//! made for: its row id is not freed before this entry is gone (R3).
//! Does not do: look at the heap; choose the rows to ask about (`index/dead_rows`).
//! PostgreSQL: `_bt_bottomupdel_pass`.

use rightlink_env::sync::Ordering;

use crate::buffer::{LatchedPage, Mtr};
use crate::error::Result;
use crate::ids::{BlockNo, RowId};
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::node::{Checked, Node};
use crate::index::btree::page::posting::RowPosition;
use crate::index::btree::page::read::PageRead;
use crate::index::btree::page::remove::LeafRemoval;
use crate::index::btree::tree::Tree;
use crate::index::dead_rows::dead_among;

/// After so many full leaves without a dead row, one in [`ONE_IN`] asks.
const MAX_FUTILE: u32 = 8;
const ONE_IN: u32 = 16;

impl Tree {
    /// Removes the dead rows among those that have `key` on a latched leaf. False: there are none,
    /// and nothing was changed.
    pub(crate) fn remove_dead_equals(
        &self,
        mtr: &mut Mtr<'_>,
        held: LatchedPage,
        key: &[u8],
    ) -> Result<bool> {
        let Some(heap) = self.heap.get() else { return Ok(false) };
        let block = mtr.id(held).block.0;
        let damage = |what| self.corrupt(block, what);
        let node = Node::open(mtr.bytes(held)).map_err(damage)?;
        let equals = rows_with_key(&node, key).map_err(damage)?;
        let rows: Vec<RowId> = equals.iter().map(|(_, row)| *row).collect();
        let mut dead = vec![false; rows.len()];
        heap.dead_to_all(&rows, &mut dead);
        let places = equals.iter().zip(&dead).filter(|(_, dead)| **dead);
        let places: Vec<_> = places.map(|((place, _), _)| *place).collect();
        if !places.is_empty() {
            let removal = LeafRemoval::plan(&node, &places).map_err(damage)?;
            removal.apply(&mut mtr.page(held));
        }
        Ok(!places.is_empty())
    }

    /// Should a full leaf ask the heap, although none of its rows is marked dead?
    pub(crate) fn should_ask_heap(&self) -> bool {
        let futile_asks = self.futile_asks.load(Ordering::Relaxed);
        let asks = futile_asks < MAX_FUTILE || futile_asks.is_multiple_of(ONE_IN);
        if !asks {
            self.futile_asks.fetch_add(1, Ordering::Relaxed);
        }
        asks && self.heap.get().is_some()
    }

    /// Removes rows that the heap calls dead from the entries of a full leaf. The heap is asked
    /// about the `marked` blocks first. False: none was found.
    pub(crate) fn remove_dead_from(&self, entries: &mut Entries, marked: Vec<BlockNo>) -> bool {
        let Some(heap) = self.heap.get() else { return false };
        let gone = dead_among(entries.all_rows(), marked, heap.as_ref());
        if gone.is_empty() {
            self.futile_asks.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.futile_asks.store(0, Ordering::Relaxed);
        entries.keep_rows(|_, _, member| gone.binary_search(&member.row).is_err());
        rightlink_env::points::hit("btree.put.bottom-up");
        true
    }
}

/// Positions and ids of the rows of a leaf that have `key`.
fn rows_with_key<R: PageRead>(node: &Node<R>, key: &[u8]) -> Checked<Vec<(RowPosition, RowId)>> {
    let (mut out, mut members) = (Vec::new(), Vec::new());
    for entry in node.search(key)?.pos..node.count {
        if !node.has_key(entry, &node.item(entry)?, key) {
            break;
        }
        node.members(entry, &mut members)?;
        let rows = members.iter().enumerate();
        out.extend(rows.map(|(member, of)| (RowPosition { entry, member }, of.row)));
    }
    Ok(out)
}
