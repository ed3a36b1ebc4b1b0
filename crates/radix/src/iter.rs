//! Walks over keys in order.
//!
//! Invariants: keys ascend. Does not do: descending order.

use std::ops::{Bound, RangeBounds};

use crate::node::{FULL, Kind, bitmap};
use crate::store::{Fixed, Store, value_at};
use crate::words::Node;

/// The first and last key of a range; nothing if it is empty.
pub(crate) fn ends(range: &impl RangeBounds<u64>) -> Option<(u64, u64)> {
    let first = match range.start_bound() {
        Bound::Included(&key) => key,
        Bound::Excluded(&key) => key.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let last = match range.end_bound() {
        Bound::Included(&key) => key,
        Bound::Excluded(&key) => key.checked_sub(1)?,
        Bound::Unbounded => u64::MAX,
    };
    (first <= last).then_some((first, last))
}

/// The entries of a range in ascending order.
#[derive(Debug)]
pub struct Iter<'a, V> {
    store: &'a Store<V>,
    /// The leaf that is walked; none at the end.
    leaf: Option<Leaf<'a>>,
    last: u64,
}

#[derive(Debug)]
struct Leaf<'a> {
    node: Node<'a>,
    kind: Kind,
    base: u64,
    /// Key bytes still to come, and the word of them that is looked at.
    bits: [u64; 4],
    word: usize,
    /// Position of the next entry, unless it is found by its byte.
    position: usize,
}

impl<'a, V: Fixed> Iter<'a, V> {
    pub(crate) fn new(store: &'a Store<V>, range: &impl RangeBounds<u64>) -> Iter<'a, V> {
        let (first, last) = ends(range).unwrap_or((1, 0));
        let leaf = if first <= last { leaf_from(store, first) } else { None };
        Iter { store, leaf, last }
    }
}

/// The leaf with the first key of at least `from`, as it is walked from there on.
fn leaf_from<V: Fixed>(store: &Store<V>, from: u64) -> Option<Leaf<'_>> {
    let entry = store.seek(from)?;
    let (node, kind) = (store.node(entry.leaf), entry.leaf.kind());
    let mut bits = bitmap(node, kind);
    let word = usize::from(entry.key as u8 / 64);
    bits[word] &= u64::MAX << (entry.key % 64);
    Some(Leaf { node, kind, base: entry.key & !0xFF, bits, word, position: entry.position })
}

impl<V: Fixed> Iterator for Iter<'_, V> {
    type Item = (u64, V);

    #[inline]
    fn next(&mut self) -> Option<(u64, V)> {
        loop {
            let leaf = self.leaf.as_mut()?;
            let bits = &mut leaf.bits[leaf.word];
            if *bits != 0 {
                let byte = leaf.word * 64 + bits.trailing_zeros() as usize;
                *bits &= *bits - 1;
                let key = leaf.base | byte as u64;
                let position = if leaf.kind.shape() == FULL { byte } else { leaf.position };
                leaf.position += 1;
                if key > self.last {
                    self.leaf = None;
                    return None;
                }
                return Some((key, V::from_word(value_at::<V>(leaf.node, leaf.kind, position))));
            }
            if leaf.word < 3 {
                leaf.word += 1;
            } else {
                let next = (leaf.base | 0xFF).checked_add(1).filter(|next| *next <= self.last);
                self.leaf = next.and_then(|next| leaf_from(self.store, next));
            }
        }
    }
}
