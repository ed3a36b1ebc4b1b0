//! Lookups of many keys: entries whose key equals one of a list, handed out under the leaf's latch.
//!
//! Invariants: `found` runs under a shared latch, for each key in turn; a key whose entries go on
//! in the next leaf is followed there.
//! Does not do: visibility; ranges (`scan`).

use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::RowId;
use crate::index::btree::Tree;
use crate::index::btree::node::{Checked, Node};
use crate::index::btree::scan::{payload, split_key};
use crate::index::btree::search::Aim;

/// What a lookup calls for each entry: position of the key, row, payload.
pub(crate) type FoundFn<'f> = &'f mut dyn FnMut(usize, RowId, &[u8]);

impl Tree {
    /// See [`crate::index::am::AccessMethod::lookup`].
    pub(crate) fn lookup(&self, keys: &[&[u8]], found: FoundFn<'_>) -> Result<()> {
        let _registered = self.registrations.enter();
        let mut scratch = Vec::new();
        for (n, key) in keys.iter().enumerate() {
            let mut from = None;
            loop {
                let at: &[u8] = from.as_deref().unwrap_or(*key);
                let next = self.read_leaf(
                    Aim::At(at),
                    || (),
                    |_, node, place| hand_out(node, (n, key), place.pos, &mut scratch, found),
                )?;
                if next.is_none() {
                    break;
                }
                from = next;
            }
        }
        Ok(())
    }
}

/// Hands out the entries of `key` from `at` on; the fence if they may go on right of it.
fn hand_out(
    node: &Node<&[u8; PAGE_SIZE]>,
    (n, key): (usize, &[u8]),
    from: usize,
    scratch: &mut Vec<u8>,
    found: FoundFn<'_>,
) -> Checked<Option<Vec<u8>>> {
    for pos in from..node.count {
        scratch.clear();
        let item = node.append_key(pos, scratch)?;
        if !scratch.starts_with(key) {
            return Ok(None);
        }
        if !node.is_dead(pos) {
            found(n, split_key(scratch)?.1, payload(node, &item)?);
        }
    }
    Ok(node.high().filter(|high| high.starts_with(key)))
}
