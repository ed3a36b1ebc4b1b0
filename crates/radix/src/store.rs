//! The tree as readers see it: words and a root. Everything here takes `&self`.
//!
//! Invariants: a search visits at most eight nodes and panics at nothing. Does not do: changes
//! (`edit`).

use std::marker::PhantomData;

use rightlink_env::sync::{AtomicU32, Ordering};

use crate::node::{Kind, LEVELS, Ref, child, find, find_from, has};
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
pub const GROUP: usize = 32;

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
    pub(crate) leaf: Ref,
    pub(crate) position: usize,
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
            at = child(self.node(at), at.kind(), key);
        }
        at
    }

    /// The leaf `at`, if it is one that `key` may be in.
    #[inline(always)]
    fn leaf_for(&self, at: Ref, key: u64) -> Option<Node<'_>> {
        if at.is_none() || at.is_inner() {
            return None;
        }
        let node = self.node(at);
        ((node.word(0) ^ key) >> 8 == 0).then_some(node)
    }

    /// The leaf that `key` may be in, if there is one.
    #[inline(always)]
    pub(crate) fn leaf_of(&self, key: u64) -> Option<(Node<'_>, Kind)> {
        let at = self.leaf(key);
        self.leaf_for(at, key).map(|node| (node, at.kind()))
    }

    /// The value of `key`, as a word.
    #[inline(always)]
    pub(crate) fn get(&self, key: u64) -> Option<u64> {
        let at = self.leaf(key);
        in_leaf::<V>(self.leaf_for(at, key)?, at.kind(), key)
    }

    /// Is there such a key?
    #[inline(always)]
    pub(crate) fn contains(&self, key: u64) -> bool {
        let at = self.leaf(key);
        self.leaf_for(at, key).is_some_and(|node| has(node, at.kind(), key as u8))
    }

    /// The values of `keys`. Neighbours in one leaf share a descent, and the descents of a group
    /// go down level by level, so that one's wait for memory is everybody's.
    #[inline(always)]
    pub(crate) fn get_each(&self, keys: &[u64], mut out: impl FnMut(usize, Option<u64>)) {
        let mut done = 0;
        while done < keys.len() {
            let runs = Runs::of(&keys[done..], |a, b| (a ^ b) >> 8 == 0);
            let leaves = self.descend(&keys[done..], &runs);
            let leaves = leaves.map(|at| (at, self.node(at)));
            for (run, (at, node)) in leaves.iter().enumerate().take(runs.len) {
                for i in runs.range(run) {
                    let key = keys[done + i];
                    let there = !at.is_none() && (node.word(0) ^ key) >> 8 == 0;
                    let value = if there { in_leaf::<V>(*node, at.kind(), key) } else { None };
                    out(done + i, value);
                }
            }
            done += runs.end();
        }
    }

    /// The leaf in which each run of keys is, if it is anywhere.
    #[inline(always)]
    fn descend(&self, keys: &[u64], runs: &Runs) -> [Ref; GROUP] {
        let mut leaves = [self.root(); GROUP];
        for _ in 0..LEVELS {
            let mut more = false;
            for (run, at) in leaves.iter_mut().enumerate().take(runs.len) {
                if at.is_inner() {
                    *at = child(self.node(*at), at.kind(), keys[runs.starts[run]]);
                    more |= at.is_inner();
                }
            }
            if !more {
                break;
            }
        }
        leaves.map(|at| if at.is_inner() { Ref::NONE } else { at })
    }

    /// The children of the node `at`, in order; a leaf has none.
    pub(crate) fn children(&self, at: Ref) -> impl Iterator<Item = Ref> + '_ {
        let (node, kind) = (self.node(at), at.kind());
        let mut from = if at.is_inner() { Some(0) } else { None };
        std::iter::from_fn(move || {
            let (byte, position) = find_from(node, kind, from?)?;
            from = byte.checked_add(1);
            Some(Ref(node.half(kind.entries_at(), position)))
        })
    }

    /// The first entry whose key is at least `from`.
    pub(crate) fn seek(&self, from: u64) -> Option<Entry> {
        let mut path = [(Ref::NONE, 0u64); LEVELS];
        let (mut depth, mut at, mut from) = (0, self.root(), from);
        // Each subtree holds a key, so a search climbs once and then only descends.
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
                    let step = 1u64 << parent.kind().shift();
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
        let (node, kind) = (self.node(at), at.kind());
        let lowest = node.word(0) & !kind.below();
        if lowest < from & !kind.below() {
            return Found::Nothing;
        }
        let byte = if lowest > from { 0 } else { kind.byte(from) };
        let Some((byte, position)) = find_from(node, kind, byte) else {
            return Found::Nothing;
        };
        let key = lowest | u64::from(byte) << kind.shift();
        if at.is_inner() {
            Found::Child(Ref(node.half(kind.entries_at(), position)), key)
        } else {
            Found::Entry(Entry { key, leaf: at, position })
        }
    }
}

/// The value of `key` in the leaf that is its own, as a word.
#[inline(always)]
pub(crate) fn in_leaf<V: Fixed>(node: Node<'_>, kind: Kind, key: u64) -> Option<u64> {
    if V::WORDS == 0 {
        return has(node, kind, key as u8).then_some(0);
    }
    find(node, kind, key as u8).map(|position| value_at::<V>(node, kind, position))
}

/// Things of a run after which it is taken for a long one.
const LONG: usize = 32;
/// Things of a long run that are looked at together.
const STEP: usize = 8;

/// Runs of neighbours among many things, of which each needs one search.
#[derive(Debug)]
pub struct Runs {
    starts: [usize; GROUP + 1],
    len: usize,
}

impl Runs {
    /// The first runs of `things`; neighbours that are `alike`, which says that they are of one
    /// kind, are in one. There may be more of them behind [`Runs::end`].
    #[inline(always)]
    pub fn of<T>(things: &[T], alike: impl Fn(&T, &T) -> bool) -> Runs {
        let mut runs = Runs { starts: [0; GROUP + 1], len: usize::from(!things.is_empty()) };
        let (mut start, mut i) = (0, 1);
        while i < things.len() {
            // After a long stretch several at a time, which a processor does at once.
            if i - start >= LONG
                && let Some(next) = things.get(i..i + STEP)
                && next.iter().fold(true, |same, thing| same & alike(&things[start], thing))
            {
                i += STEP;
                continue;
            }
            let ends = !alike(&things[i - 1], &things[i]);
            // Stored whether a run begins here or not: no branch depends on it, which nobody could
            // foretell.
            runs.starts[runs.len] = i;
            if ends & (runs.len == GROUP) {
                return runs;
            }
            runs.len += usize::from(ends);
            start = if ends { i } else { start };
            i += 1;
        }
        runs.starts[runs.len] = things.len();
        runs
    }

    /// Number of runs, at least one if there are things.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No things?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The things of a run.
    #[inline(always)]
    pub fn range(&self, run: usize) -> std::ops::Range<usize> {
        self.starts[run]..self.starts[run + 1]
    }

    /// Where the last run ends.
    pub fn end(&self) -> usize {
        self.starts[self.len]
    }
}

/// The value at `position` of a leaf, as a word.
#[inline(always)]
pub(crate) fn value_at<V: Fixed>(node: Node<'_>, kind: Kind, position: usize) -> u64 {
    if V::WORDS == 0 { 0 } else { node.word(kind.entries_at() + position * V::WORDS) }
}

/// What a step of a search finds.
enum Found {
    Entry(Entry),
    /// A child, and the lowest key that it can hold.
    Child(Ref, u64),
    Nothing,
}
