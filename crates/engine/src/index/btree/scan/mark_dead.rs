//! Dead marks that scans leave on entries of dead rows.
//!
//! Does not do: what all methods share (`index/dead_marks`).

use crate::config::PAGE_SIZE;
use crate::ids::RowId;
use crate::index::btree::page::node::{Checked, Node, SLOT};
use crate::index::btree::page::posting::{EntryPosition, RowPosition};
use crate::index::btree::page::tree_key::split_key;
use crate::index::dead_marks::{LeafMarks, MarkBit};
use crate::page::header::HEADER_SIZE;

/// See [`crate::index::am::AccessMethod::plan_marks`].
pub(crate) fn plan_marks(
    leaf: &[u8; PAGE_SIZE],
    keys: &mut Vec<Vec<u8>>,
    check: &mut dyn FnMut(RowId) -> bool,
) -> Checked<LeafMarks> {
    let node = Node::open(leaf)?;
    if !node.is_leaf() || node.cmp_low(&keys[0]).is_lt() {
        return Ok(LeafMarks::default());
    }
    let mine = keys.iter().take_while(|key| node.cmp_high(key).is_lt()).count();
    let mut bits = Vec::new();
    for key in keys.drain(..mine) {
        let (row, found) = (split_key(&key)?.1, node.search(&key)?);
        if let EntryPosition::Present(position) = node.entry_position(found, &key)?
            && let Some(bit) = mark_of(&node, position)?
            && check(row)
        {
            bits.push(bit);
        }
    }
    Ok(LeafMarks { bits, right: node.right })
}

/// The mark of a row, unless it is marked dead already.
fn mark_of(node: &Node<&[u8; PAGE_SIZE]>, position: RowPosition) -> Checked<Option<MarkBit>> {
    if position.member == 0 {
        let slot = HEADER_SIZE + position.entry * SLOT;
        return Ok((!node.is_dead(position.entry)).then(|| MarkBit::of_slot(slot)));
    }
    let mut members = Vec::new();
    node.members(position.entry, &mut members)?;
    let member = members.get(position.member).filter(|member| !member.dead);
    let Some(member) = member else { return Ok(None) };
    Ok(Some(MarkBit { offset: node.item(position.entry)?.extra + member.hint, bit: 1 }))
}
