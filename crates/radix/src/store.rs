//! The tree as readers see it: words and a root. Everything here takes `&self`.
//!
//! Invariants: a search visits at most eight nodes and panics at nothing, even while a writer
//! works; whether its answer counts is for the caller to know: the owner of a tree has no writer
//! beside it, and `shared` validates. Does not do: changes (`edit`).

use std::marker::PhantomData;

use rightlink_env::sync::{AtomicU32, Ordering};

use crate::node::{LEAF_SMALL, LEVELS, Ref, below, child, entries_at, find, find_from, shift};
use crate::words::{Node, Words};

/// A value that is stored inside of a leaf.
pub trait Fixed: Copy {
    /// Words that it takes: none or one.
    const WORDS: usize;
    /// The value as a word; zero if it takes none.
    fn to_word(self) -> u64;
    /// Reverse of [`Fixed::to_word`].
    fn from_word(word: u64) -> Self;
}

/// Nothing: the tree is a set.
impl Fixed for () {
    const WORDS: usize = 0;
    fn to_word(self) -> u64 {
        0
    }
    fn from_word(_: u64) {}
}

impl Fixed for u64 {
    const WORDS: usize = 1;
    fn to_word(self) -> u64 {
        self
    }
    fn from_word(word: u64) -> u64 {
        word
    }
}

impl Fixed for u32 {
    const WORDS: usize = 1;
    fn to_word(self) -> u64 {
        u64::from(self)
    }
    fn from_word(word: u64) -> u32 {
        word as u32
    }
}

/// Lookups that are in flight together, so that they wait for memory together.
const GROUP: usize = 32;

/// Words and the root in them.
#[derive(Debug)]
pub(crate) struct Store<V> {
    pub(crate) words: Words,
    root: AtomicU32,
    value: PhantomData<fn() -> V>,
}

/// An entry in a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) key: u64,
    leaf: Ref,
    position: usize,
}

impl<V: Fixed> Store<V> {
    pub(crate) fn new() -> Store<V> {
        assert!(V::WORDS <= 1, "longer values are `Blobs`");
        Store { words: Words::new(), root: AtomicU32::new(0), value: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn root(&self) -> Ref {
        Ref(self.root.load(Ordering::Relaxed))
    }

    pub(crate) fn set_root(&self, root: Ref) {
        self.root.store(root.0, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn node(&self, at: Ref) -> Node<'_> {
        self.words.at(at.granule())
    }

    /// The leaf in which `key` is, if it is anywhere.
    #[inline(always)]
    fn leaf(&self, key: u64) -> Ref {
        let mut at = self.root();
        for _ in 0..LEVELS {
            if !at.is_inner() {
                break;
            }
            at = child(self.node(at), at, key);
        }
        at
    }

    /// The value of `key` in the leaf `at`, as a word.
    #[inline(always)]
    fn in_leaf(&self, at: Ref, key: u64) -> Option<u64> {
        if at.is_none() || at.is_inner() {
            return None;
        }
        let node = self.node(at);
        if (node.word(0) ^ key) >> 8 != 0 {
            return None;
        }
        let position = find(node, at.kind(), key as u8)?;
        Some(self.value_at(node, at.kind(), position))
    }

    #[inline(always)]
    fn value_at(&self, node: Node<'_>, kind: u32, position: usize) -> u64 {
        if V::WORDS == 0 { 0 } else { node.word(entries_at(kind) + position * V::WORDS) }
    }

    /// The value of `key`, as a word.
    #[inline(always)]
    pub(crate) fn get(&self, key: u64) -> Option<u64> {
        self.in_leaf(self.leaf(key), key)
    }

    /// The values of `keys`. Neighbours in one leaf share a descent, and the descents of a group
    /// go down level by level, so that one's wait for memory is everybody's.
    #[inline(always)]
    pub(crate) fn get_each(&self, keys: &[u64], mut out: impl FnMut(usize, Option<u64>)) {
        let mut done = 0;
        for group in keys.chunks(GROUP) {
            let mut leaves = [Ref::NONE; GROUP];
            self.descend(group, &mut leaves);
            for (i, (&key, &leaf)) in group.iter().zip(&leaves).enumerate() {
                out(done + i, self.in_leaf(leaf, key));
            }
            done += group.len();
        }
    }

    #[inline(always)]
    fn descend(&self, keys: &[u64], leaves: &mut [Ref; GROUP]) {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return };
        let together = keys.iter().all(|key| (key ^ first) >> 8 == 0);
        if together {
            *leaves = [self.leaf(*last); GROUP];
            return;
        }
        *leaves = [self.root(); GROUP];
        for _ in 0..LEVELS {
            let mut more = false;
            for (key, at) in keys.iter().zip(&mut *leaves) {
                if at.is_inner() {
                    *at = child(self.node(*at), *at, *key);
                    more |= at.is_inner();
                }
            }
            if !more {
                break;
            }
        }
    }

    /// The first entry whose key is at least `from`.
    pub(crate) fn seek(&self, from: u64) -> Option<Entry> {
        let mut path = [(Ref::NONE, 0u64); LEVELS];
        let (mut depth, mut at, mut from) = (0, self.root(), from);
        // Each subtree holds a key, so a search climbs once and then only descends; more steps
        // happen only under a writer's feet.
        for _ in 0..4 * LEVELS {
            match self.seek_in(at, from) {
                Found::Entry(entry) => return Some(entry),
                Found::Child(child, lowest) => {
                    *path.get_mut(depth)? = (at, lowest);
                    (depth, at, from) = (depth + 1, child, from.max(lowest));
                }
                Found::Nothing => {
                    depth = depth.checked_sub(1)?;
                    let (parent, lowest) = path[depth];
                    let step = 1u64.checked_shl(shift(self.node(parent).word(0)))?;
                    // No overflow out of the node's own range either: then its parent goes on.
                    (at, from) = (parent, lowest.checked_add(step)?);
                }
            }
        }
        None
    }

    /// Where the first key of at least `from` is below `at`.
    fn seek_in(&self, at: Ref, from: u64) -> Found {
        if at.is_none() {
            return Found::Nothing;
        }
        let node = self.node(at);
        let head = node.word(0);
        let below = below(at, head);
        let lowest = head & !below;
        if lowest < from & !below {
            return Found::Nothing;
        }
        let shift = if at.is_inner() { shift(head) } else { 0 };
        let byte = if lowest > from { 0 } else { (from >> shift) as u8 };
        let Some((byte, position)) = find_from(node, at.kind(), byte) else {
            return Found::Nothing;
        };
        let key = lowest | u64::from(byte) << shift;
        if at.is_inner() {
            Found::Child(Ref(node.half(entries_at(at.kind()), position)), key)
        } else {
            Found::Entry(Entry { key, leaf: at, position })
        }
    }

    /// The entry after `entry`.
    #[inline]
    pub(crate) fn after(&self, entry: Entry) -> Option<Entry> {
        let next = entry.key.checked_add(1)?;
        if next as u8 != 0 {
            let node = self.node(entry.leaf);
            let position = entry.position + 1;
            let byte = if entry.leaf.kind() == LEAF_SMALL {
                find_from(node, LEAF_SMALL, next as u8).map(|(byte, _)| byte)
            } else {
                next_bit(node, next as u8)
            };
            if let Some(byte) = byte {
                return Some(Entry { key: entry.key & !0xFF | u64::from(byte), position, ..entry });
            }
        }
        self.seek((entry.key | 0xFF).checked_add(1)?)
    }

    /// The value of an entry, as a word.
    #[inline(always)]
    pub(crate) fn value(&self, entry: Entry) -> u64 {
        self.value_at(self.node(entry.leaf), entry.leaf.kind(), entry.position)
    }
}

/// What a step of a search finds.
enum Found {
    Entry(Entry),
    /// A child, and the lowest key that it can hold.
    Child(Ref, u64),
    Nothing,
}

/// The first bit of the bitmap at or after `from`.
#[inline(always)]
fn next_bit(node: Node<'_>, from: u8) -> Option<u8> {
    let word = node.word(1 + usize::from(from / 64)) >> (from % 64);
    if word != 0 {
        return Some(from + word.trailing_zeros() as u8);
    }
    (from / 64 + 1..4).find_map(|index| {
        let word = node.word(1 + usize::from(index));
        (word != 0).then(|| index * 64 + word.trailing_zeros() as u8)
    })
}
