//! The tree with values of any length.
//!
//! A value is bytes and a tag of 16 bits that the tree keeps but does not read. Up to five bytes
//! are embedded in the leaf; more lie in a block of their own beside the nodes.
//!
//! Invariants: a block belongs to one key. Does not do: values longer than a page of 32 KiB.

use std::ops::RangeBounds;

use crate::iter::Iter;
use crate::map::Map;
use crate::slabs::Slabs;
use crate::words::{Node, PAGE_WORDS};

/// Most bytes that are embedded.
const EMBEDDED: usize = 5;
/// Where the parts of a value's word lie.
const LEN_AT: u32 = 27;
const TAG_AT: u32 = 43;
const EMBEDDED_AT: u32 = 61;

/// A sorted map from 64-bit keys to bytes.
#[derive(Debug, Default)]
pub struct BytesMap {
    map: Map<u64>,
}

/// A value in a [`BytesMap`].
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    tag: u16,
    len: u16,
    at: At<'a>,
}

/// Where a value is, or nowhere: what a search for its key found, until the map is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place(u64);

impl Place {
    /// The place of no value. (A value's word is never 0: it has bytes, or says that it has none.)
    pub const NOWHERE: Place = Place(0);
}

#[derive(Clone, Copy, Debug)]
enum At<'a> {
    Leaf(u64),
    Block(Node<'a>),
}

impl Value<'_> {
    /// Bytes of the value.
    #[inline]
    pub fn len(self) -> usize {
        usize::from(self.len)
    }

    /// No bytes?
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The tag given with the value.
    #[inline]
    pub fn tag(self) -> u16 {
        self.tag
    }

    /// Bytes `8 * i` to `8 * i + 7` as a little-endian number. Bytes past the end are anything.
    #[inline]
    pub fn word(self, i: usize) -> u64 {
        match self.at {
            At::Block(node) => node.word(i),
            At::Leaf(word) => word,
        }
    }

    /// Byte `i`.
    #[inline]
    pub fn byte(self, i: usize) -> u8 {
        debug_assert!(i < self.len());
        (self.word(i / 8) >> (i % 8 * 8)) as u8
    }

    /// All bytes.
    pub fn to_vec(self) -> Vec<u8> {
        let words = (0..self.len().div_ceil(8)).flat_map(|i| self.word(i).to_le_bytes());
        let mut bytes: Vec<u8> = words.collect();
        bytes.truncate(self.len());
        bytes
    }
}

impl BytesMap {
    /// Most bytes of a value.
    pub const MAX_LEN: usize = PAGE_WORDS * 8;

    /// An empty map.
    pub fn new() -> BytesMap {
        BytesMap::default()
    }

    /// Stores `bytes` and `tag` under `key`. Returns whether the key is new.
    pub fn insert(&mut self, key: u64, tag: u16, bytes: &[u8]) -> bool {
        let word = self.store(tag, bytes);
        let old = self.map.insert(key, word);
        old.inspect(|word| self.free(*word)).is_none()
    }

    /// Removes `key`. Returns whether it was there.
    pub fn remove(&mut self, key: u64) -> bool {
        let old = self.map.remove(key);
        old.inspect(|word| self.free(*word)).is_some()
    }

    fn store(&mut self, tag: u16, bytes: &[u8]) -> u64 {
        assert!(bytes.len() < Self::MAX_LEN, "a value fits a page");
        if bytes.len() <= EMBEDDED {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            let len = bytes.len() as u64 + 1;
            return u64::from_le_bytes(word) | u64::from(tag) << TAG_AT | len << EMBEDDED_AT;
        }
        let granule = self.map.slabs.alloc(&self.map.store.words, bytes.len().div_ceil(8));
        let node = self.map.store.words.at(granule);
        for (i, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            node.set(i, u64::from_le_bytes(word));
        }
        u64::from(granule) | (bytes.len() as u64) << LEN_AT | u64::from(tag) << TAG_AT
    }

    fn free(&mut self, word: u64) {
        if word >> EMBEDDED_AT == 0 {
            self.map.slabs.free(&self.map.store.words, granule(word));
        }
    }

    #[inline(always)]
    fn value(&self, word: u64) -> Value<'_> {
        let tag = (word >> TAG_AT) as u16;
        let embedded = word >> EMBEDDED_AT;
        if embedded == 0 {
            let at = At::Block(self.map.store.words.at(granule(word)));
            return Value { tag, len: (word >> LEN_AT) as u16, at };
        }
        let bytes = word & ((1 << (EMBEDDED * 8)) - 1);
        Value { tag, len: (embedded - 1) as u16, at: At::Leaf(bytes) }
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: u64) -> Option<Value<'_>> {
        self.map.get(key).map(|word| self.value(word))
    }

    /// The place of `key`.
    pub fn place(&self, key: u64) -> Place {
        self.map.get(key).map_or(Place::NOWHERE, Place)
    }

    /// The value at a place. What is found at one from before a change is any value or none.
    #[inline(always)]
    pub fn at(&self, place: Place) -> Option<Value<'_>> {
        (place != Place::NOWHERE).then(|| self.value(place.0))
    }

    /// The values of `keys`, best sorted: neighbours share their way down. `out` is told the index
    /// of each key and what was found.
    #[inline]
    pub fn get_each<'a>(&'a self, keys: &[u64], mut out: impl FnMut(usize, Option<Value<'a>>)) {
        self.map.store.get_each(keys, |i, word| out(i, word.map(|word| self.value(word))));
    }

    /// Is there a key in `range`?
    pub fn any_in(&self, range: impl RangeBounds<u64>) -> bool {
        self.map.any_in(range)
    }

    /// The entries of `range` in ascending order.
    pub fn range(&self, range: impl RangeBounds<u64>) -> Values<'_> {
        Values { map: self, words: self.map.range(range) }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// No keys?
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Bytes that the map has allocated, to the byte.
    pub fn memory(&self) -> usize {
        self.map.memory()
    }

    /// At most what [`BytesMap::memory`] becomes by `inserts` insertions.
    pub fn memory_after(&self, inserts: usize) -> usize {
        // The value, the leaf and an inner node are new or move; each may need a page.
        self.map.slabs.memory_with(inserts.saturating_mul(3).min(1 << 17) as u32)
    }

    /// Blocks of each size that there are: words and number.
    pub fn census(&self) -> Vec<(usize, u32)> {
        self.map.census()
    }

    /// Removes everything and gives the memory back.
    pub fn clear(&mut self) {
        *self = BytesMap::new();
    }

    /// Bytes that a value of `len` bytes takes beside its place in the leaf.
    pub fn bytes_for(len: usize) -> usize {
        assert!(len < Self::MAX_LEN, "a value fits a page");
        if len <= EMBEDDED { 0 } else { Slabs::rounded(len.div_ceil(8)) * 8 }
    }
}

fn granule(word: u64) -> u32 {
    word as u32 & ((1 << LEN_AT) - 1)
}

/// The entries of a range in ascending order.
#[derive(Debug)]
pub struct Values<'a> {
    map: &'a BytesMap,
    words: Iter<'a, u64>,
}

impl<'a> Iterator for Values<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, word) = self.words.next()?;
        Some((key, self.map.value(word)))
    }
}
