//! Dead marks that scans leave on entries of dead rows.
//!
//! Invariants: a mark is set only under the exclusive latch, on an entry found again by key and
//! row id, after the caller's check ran under that latch (R3). Marks are hints and not logged.
//! Nothing waits or reads for them.
//! Does not do: decide what is dead.
//! PostgreSQL: `_bt_killitems`; there the marks are lost if the leaf has changed.

use crate::config::PAGE_SIZE;
use crate::ids::RowId;
use crate::index::am::LeafBatch;
use crate::index::btree::page::node::{DEAD, HAS_DEAD, Node, SLOT};
use crate::index::btree::page::posting::{EntryPosition, RowPosition};
use crate::index::btree::page::tree_key::split_key;
use crate::index::btree::page::tree_key::tree_key;
use crate::index::btree::tree::Tree;
use crate::page::PageMut;
use crate::page::header::{FLAGS, HEADER_SIZE, lsn};

/// Leaves right of the remembered one that are searched for moved entries.
const MAX_HOPS: usize = 4;

impl Tree {
    /// See [`crate::index::am::AccessMethod::mark_dead`].
    pub(crate) fn mark_dead(
        &self,
        batch: &LeafBatch,
        positions: &[usize],
        only_unchanged: bool,
        check: &mut dyn FnMut(RowId) -> bool,
    ) -> usize {
        let mut keys: Vec<Vec<u8>> =
            positions.iter().map(|at| tree_key(batch.key(*at), batch.entries[*at].row)).collect();
        keys.sort_unstable();
        let (mut marked, mut leaf) = (0, batch.leaf);
        for _ in 0..MAX_HOPS {
            let Some(pin) = self.pool.try_pin(leaf).filter(|_| !keys.is_empty()) else { break };
            let mut right = None;
            let ran = pin.hint(None, |page| {
                if only_unchanged && lsn(page.bytes()) != batch.lsn {
                    return;
                }
                let outcome = mark_leaf(page, &mut keys, check);
                (marked, right) = (marked + outcome.0, outcome.1);
            });
            match right {
                Some(block) if ran => leaf = self.page(block),
                _ => break,
            }
        }
        marked
    }
}

/// Marks those of the sorted `keys` that belong on this leaf, and removes them from the list.
/// Returns how many were marked and, if larger keys are left, the right link. The leaf is checked,
/// because it may be another one (R6).
fn mark_leaf(
    page: &mut PageMut<'_>,
    keys: &mut Vec<Vec<u8>>,
    check: &mut dyn FnMut(RowId) -> bool,
) -> (usize, Option<u32>) {
    let (mut words, mut bytes) = (Vec::new(), Vec::new());
    let (flags, right) = {
        let Ok(node) = Node::open(page.bytes()) else { return (0, None) };
        if !node.is_leaf() || keys.first().is_none_or(|key| node.cmp_low(key).is_lt()) {
            return (0, None);
        }
        let mine = keys.iter().take_while(|key| node.cmp_high(key).is_lt()).count();
        for key in keys.drain(..mine) {
            let Ok(found) = node.search(&key) else { return (0, None) };
            let Ok(row) = split_key(&key).map(|(_, row)| row) else { return (0, None) };
            match node.entry_position(found, &key) {
                Ok(EntryPosition::Present(RowPosition { entry, member: 0 }))
                    if !node.is_dead(entry) && check(row) =>
                {
                    words.push((entry, node.word(entry) | DEAD));
                }
                Ok(EntryPosition::Present(position)) if position.member > 0 => {
                    bytes.extend(hint_of(&node, position).filter(|_| check(row)));
                }
                Ok(_) => {}
                Err(_) => return (0, None),
            }
        }
        (node.flags, node.right)
    };
    for (pos, word) in &words {
        page.write_unlogged(HEADER_SIZE + pos * SLOT, &word.to_le_bytes());
    }
    for at in &bytes {
        let byte = page.bytes()[*at] | 1;
        page.write_unlogged(*at, &[byte]);
    }
    let marked = words.len() + bytes.len();
    if marked > 0 && flags & HAS_DEAD == 0 {
        page.write_unlogged(FLAGS, &(flags | HAS_DEAD).to_le_bytes());
    }
    (marked, (right != 0 && !keys.is_empty()).then_some(right))
}

/// The byte with the hint of member `at` of a list, unless it is marked dead already.
fn hint_of(node: &Node<&[u8; PAGE_SIZE]>, position: RowPosition) -> Option<usize> {
    let mut members = Vec::new();
    node.members(position.entry, &mut members).ok()?;
    let member = members.get(position.member).filter(|member| !member.dead)?;
    Some(node.item(position.entry).ok()?.extra + member.hint)
}
