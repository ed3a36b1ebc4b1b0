//! Lookups one after the other.
//!
//! Invariants: the tree cannot change while a cursor is there. Does not do: walking (`iter`).

use crate::node::{Kind, has};
use crate::store::{Fixed, Store, in_leaf};
use crate::words::Node;

/// Looks keys of a map up, best in order: neighbours share their way down.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a, V> {
    store: &'a Store<V>,
    /// The bits that the keys of the last leaf share; those of no key at first.
    shared: u64,
    /// That leaf, if there is one.
    leaf: Option<(Node<'a>, Kind)>,
}

impl<'a, V: Fixed> Cursor<'a, V> {
    pub(crate) fn new(store: &'a Store<V>) -> Cursor<'a, V> {
        Cursor { store, shared: u64::MAX, leaf: None }
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&mut self, key: u64) -> Option<V> {
        let (node, kind) = self.leaf_of(key)?;
        in_leaf::<V>(node, kind, key).map(V::from_word)
    }

    /// Is there such a key?
    #[inline]
    pub fn contains(&mut self, key: u64) -> bool {
        self.leaf_of(key).is_some_and(|(node, kind)| has(node, kind, key as u8))
    }

    #[inline(always)]
    fn leaf_of(&mut self, key: u64) -> Option<(Node<'a>, Kind)> {
        if key >> 8 != self.shared {
            (self.shared, self.leaf) = (key >> 8, self.store.leaf_of(key));
        }
        self.leaf
    }
}
