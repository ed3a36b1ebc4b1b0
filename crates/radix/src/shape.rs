//! Counts a tree's nodes by kind, by walking over all of them.
//!
//! Invariants: a node is counted once. Does not do: bytes (`slabs` knows them to the byte).

use crate::node::{FULL, Ref, SMALL};
use crate::store::{Fixed, Store};

/// The nodes of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Key bytes above the last one that the root distinguishes; 0 if the root is a leaf.
    pub height: usize,
    /// Nodes of up to 8 entries.
    pub small: usize,
    /// Nodes of a bitmap and packed entries.
    pub ranked: usize,
    /// Nodes with room for 256 entries.
    pub full: usize,
    /// How many of all nodes are leaves.
    pub leaves: usize,
}

impl Shape {
    pub(crate) fn of<V: Fixed>(store: &Store<V>) -> Shape {
        let root = store.root();
        let mut shape = Shape::default();
        if !root.is_none() {
            shape.height = root.kind().level();
            shape.count(store, root);
        }
        shape
    }

    fn count<V: Fixed>(&mut self, store: &Store<V>, at: Ref) {
        match at.kind().shape() {
            SMALL => self.small += 1,
            FULL => self.full += 1,
            _ => self.ranked += 1,
        }
        self.leaves += usize::from(!at.is_inner());
        store.children(at).for_each(|child| self.count(store, child));
    }
}
