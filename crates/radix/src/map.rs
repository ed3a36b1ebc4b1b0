//! The tree of one owner.
//!
//! Invariants: `len` is the number of keys. Does not do: readers beside a writer.

use std::ops::RangeBounds;

use crate::cursor::Cursor;
use crate::edit::{Editor, Sizes};
use crate::iter::{Iter, ends};
use crate::shape::Shape;
use crate::slabs::Slabs;
use crate::store::{Fixed, Store};

/// A sorted map from 64-bit keys to values of a word or none.
#[derive(Debug)]
pub struct Map<V> {
    pub(crate) store: Store<V>,
    pub(crate) slabs: Slabs,
    sizes: Sizes,
    len: usize,
}

/// A sorted set of 64-bit keys.
pub type Set = Map<()>;

impl<V: Fixed> Default for Map<V> {
    fn default() -> Self {
        Map::new()
    }
}

impl<V: Fixed> Map<V> {
    /// An empty map.
    pub fn new() -> Map<V> {
        Map::with_sizes(Sizes::Variable)
    }

    /// An empty map whose nodes get room as `sizes` says.
    pub fn with_sizes(sizes: Sizes) -> Map<V> {
        Map { store: Store::new(), slabs: Slabs::new(), sizes, len: 0 }
    }

    fn editor(&mut self) -> Editor<'_, V> {
        Editor { store: &self.store, slabs: &mut self.slabs, sizes: self.sizes }
    }

    /// Stores `value` under `key`. Returns the value that was there.
    pub fn insert(&mut self, key: u64, value: V) -> Option<V> {
        let old = self.editor().insert(key, value.to_word());
        self.len += usize::from(old.is_none());
        old.map(V::from_word)
    }

    /// Removes `key`. Returns its value.
    pub fn remove(&mut self, key: u64) -> Option<V> {
        let old = self.editor().remove(key);
        self.len -= usize::from(old.is_some());
        old.map(V::from_word)
    }

    /// Stores entries whose keys ascend: each leaf is made once, in its size. Returns how many
    /// keys are new.
    pub fn extend_sorted(&mut self, entries: impl IntoIterator<Item = (u64, V)>) -> usize {
        let mut group: Vec<(u8, u64)> = Vec::with_capacity(256);
        let (mut base, before) = (0, self.len);
        for (key, value) in entries {
            let last = group.last().map(|(byte, _)| base | u64::from(*byte));
            assert!(last.is_none_or(|last| last < key), "the keys ascend");
            if key & !0xFF != base {
                self.insert_group(base, &mut group);
                base = key & !0xFF;
            }
            group.push((key as u8, value.to_word()));
        }
        self.insert_group(base, &mut group);
        self.len - before
    }

    fn insert_group(&mut self, base: u64, group: &mut Vec<(u8, u64)>) {
        if !group.is_empty() {
            self.len += self.editor().insert_group(base, group);
            group.clear();
        }
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: u64) -> Option<V> {
        self.store.get(key).map(V::from_word)
    }

    /// Is there such a key?
    #[inline]
    pub fn contains(&self, key: u64) -> bool {
        self.store.contains(key)
    }

    /// For lookups that come one after the other, best in order.
    pub fn cursor(&self) -> Cursor<'_, V> {
        Cursor::new(&self.store)
    }

    /// The values of `keys`, best sorted: neighbours share their way down.
    pub fn get_each(&self, keys: &[u64], out: &mut [Option<V>]) {
        assert_eq!(keys.len(), out.len(), "an answer for each key");
        self.store.get_each(keys, |i, word| out[i] = word.map(V::from_word));
    }

    /// Which of `keys` are there, best sorted.
    pub fn contains_each(&self, keys: &[u64], out: &mut [bool]) {
        assert_eq!(keys.len(), out.len(), "an answer for each key");
        self.store.get_each(keys, |i, word| out[i] = word.is_some());
    }

    /// Is there a key in `range`?
    pub fn any_in(&self, range: impl RangeBounds<u64>) -> bool {
        let entry = |(first, last)| self.store.seek(first).filter(|entry| entry.key <= last);
        ends(&range).and_then(entry).is_some()
    }

    /// The entries in ascending order.
    pub fn iter(&self) -> Iter<'_, V> {
        self.range(..)
    }

    /// The entries of `range` in ascending order.
    pub fn range(&self, range: impl RangeBounds<u64>) -> Iter<'_, V> {
        Iter::new(&self.store, &range)
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No keys?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that the map has allocated, to the byte.
    pub fn memory(&self) -> usize {
        self.slabs.memory()
    }

    /// The number of nodes of each kind, and the height. Visits all nodes.
    pub fn shape(&self) -> Shape {
        Shape::of(&self.store)
    }

    /// Nodes of each size that there are: words and number.
    pub fn census(&self) -> Vec<(usize, u32)> {
        self.slabs.census()
    }

    /// Removes everything and gives the memory back.
    pub fn clear(&mut self) {
        *self = Map::with_sizes(self.sizes);
    }
}
