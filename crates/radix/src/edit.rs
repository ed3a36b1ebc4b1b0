//! Changing nodes: insertion, removal, and the change of size and kind that they bring.
//!
//! Invariants: an inner node has two children at least, so there are fewer inner nodes than
//! leaves and a search ends in at most eight; no leaf is empty. A node that must grow or shrink is
//! copied into another block and its parent's reference is changed; nodes move in no other way.
//! Does not do: keeping readers out (`shared`).

use crate::node::{
    FULL_WORDS, INNER_BITS, INNER_FULL, INNER_SMALL, LEAF_BITS, LEAF_SMALL, LEVELS, MOST,
    MOST_RANKED, Ref, SMALL, below, byte_at, child, count, entries_at, find, find_from, inner_head,
};
use crate::slabs::Slabs;
use crate::store::{Fixed, Store};
use crate::words::Node;

/// How many entries a node is given room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// As many as it has, rounded up to the next size class.
    #[default]
    Variable,
    /// 8, 32, 128 or 256: for measuring what variable sizes save.
    Fixed,
}

/// A writer's hands.
pub(crate) struct Editor<'a, V> {
    pub(crate) store: &'a Store<V>,
    pub(crate) slabs: &'a mut Slabs,
    pub(crate) sizes: Sizes,
}

/// The inner nodes above a place, and the key byte taken in each.
struct Path {
    steps: [(Ref, u8); LEVELS],
    len: usize,
}

impl Path {
    fn push(&mut self, at: Ref, byte: u8) {
        assert!(self.len < LEVELS, "at most seven levels above a leaf");
        self.steps[self.len] = (at, byte);
        self.len += 1;
    }

    fn last(&self) -> Option<(Ref, u8)> {
        self.len.checked_sub(1).map(|last| self.steps[last])
    }
}

/// Where a key is or belongs.
enum Spot {
    /// Nowhere: the tree is empty.
    Empty,
    /// Beside this node, whose keys differ from it above the node's own byte.
    Beside(Ref),
    /// Below this inner node, which has no child for its byte.
    Below(Ref),
    /// In this leaf.
    In(Ref),
}

/// Words that hold `n` entries of a kind.
fn words_for<V: Fixed>(kind: u32, n: usize) -> usize {
    match kind {
        INNER_FULL => FULL_WORDS,
        INNER_SMALL | INNER_BITS => entries_at(kind) + n.div_ceil(2),
        _ => entries_at(kind) + n * V::WORDS,
    }
}

/// Most entries of a kind, whatever its block.
fn most(kind: u32) -> usize {
    match kind {
        LEAF_SMALL | INNER_SMALL => SMALL,
        INNER_BITS => MOST_RANKED,
        _ => MOST,
    }
}

/// The kind for `n` entries. A node that shrinks keeps its kind a little longer, so that one key
/// that comes and goes does not change it each time.
fn kind_for(now: u32, n: usize) -> u32 {
    let spare = if n < 2 { 0 } else { 2 };
    let stays = |kind: u32| now == kind && n <= most(kind);
    if now == LEAF_SMALL || now == LEAF_BITS {
        let small = n + if now == LEAF_BITS { spare } else { 0 } <= SMALL;
        return if small { LEAF_SMALL } else { LEAF_BITS };
    }
    if stays(INNER_SMALL) || (n + spare <= SMALL) {
        INNER_SMALL
    } else if n <= MOST_RANKED && (now != INNER_FULL || n + 16 <= MOST_RANKED) {
        INNER_BITS
    } else {
        INNER_FULL
    }
}

impl<V: Fixed> Editor<'_, V> {
    /// Stores `word` under `key`. Returns what was there.
    pub(crate) fn insert(&mut self, key: u64, word: u64) -> Option<u64> {
        let (path, spot) = self.locate(key);
        if let Spot::In(leaf) = spot {
            return self.insert_in(&path, leaf, key as u8, word);
        }
        let leaf = self.new_leaf(key, &[(key as u8, word)]);
        self.attach(&path, spot, key, leaf);
        None
    }

    /// Stores entries that share all but the last byte of `key`, in ascending order.
    pub(crate) fn insert_group(&mut self, key: u64, entries: &[(u8, u64)]) -> usize {
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
        let (path, spot) = self.locate(key);
        if matches!(spot, Spot::In(_)) {
            let insert = |&(byte, word): &(u8, u64)| {
                self.insert(key & !0xFF | u64::from(byte), word).is_none()
            };
            return entries.iter().map(insert).filter(|new| *new).count();
        }
        let leaf = self.new_leaf(key, entries);
        self.attach(&path, spot, key, leaf);
        entries.len()
    }

    /// Removes `key`. Returns what was there.
    pub(crate) fn remove(&mut self, key: u64) -> Option<u64> {
        let (mut path, spot) = self.locate(key);
        let Spot::In(leaf) = spot else { return None };
        let node = self.store.node(leaf);
        let position = find(node, leaf.kind(), key as u8)?;
        let word = get::<V>(node, leaf.kind(), position);
        if count(node.word(0)) > 1 {
            self.take(&path, leaf, key as u8, position);
            return Some(word);
        }
        self.slabs.free(&self.store.words, leaf.granule());
        let Some((parent, byte)) = path.last() else {
            self.store.set_root(Ref::NONE);
            return Some(word);
        };
        path.len -= 1;
        let position = find(self.store.node(parent), parent.kind(), byte);
        self.take(&path, parent, byte, position.expect("the path came this way"));
        Some(word)
    }

    fn locate(&self, key: u64) -> (Path, Spot) {
        let mut path = Path { steps: [(Ref::NONE, 0); LEVELS], len: 0 };
        let mut at = self.store.root();
        if at.is_none() {
            return (path, Spot::Empty);
        }
        loop {
            let node = self.store.node(at);
            let head = node.word(0);
            if (head ^ key) & !below(at, head) != 0 {
                return (path, Spot::Beside(at));
            }
            if !at.is_inner() {
                return (path, Spot::In(at));
            }
            let next = child(node, at, key);
            if next.is_none() {
                return (path, Spot::Below(at));
            }
            path.push(at, byte_at(head, key));
            at = next;
        }
    }

    /// Hangs a new leaf into the tree.
    fn attach(&mut self, path: &Path, spot: Spot, key: u64, leaf: Ref) {
        match spot {
            Spot::Empty => self.store.set_root(leaf),
            Spot::Below(at) => {
                let byte = byte_at(self.store.node(at).word(0), key);
                self.put(path, at, byte, u64::from(leaf.0));
            }
            Spot::Beside(at) => {
                let other = self.store.node(at).word(0);
                let differing = (other ^ key) & !below(at, other);
                let level = differing.ilog2() as usize / 8;
                let head = inner_head(key, level);
                let mut pair = [
                    (byte_at(head, key), u64::from(leaf.0)),
                    (byte_at(head, other), u64::from(at.0)),
                ];
                pair.sort_unstable();
                let inner = self.write(INNER_SMALL, head, &pair);
                self.relink(path, inner);
            }
            Spot::In(_) => unreachable!("there is a leaf already"),
        }
    }

    /// Makes the last step of `path` lead to `to`.
    fn relink(&mut self, path: &Path, to: Ref) {
        let Some((parent, byte)) = path.last() else { return self.store.set_root(to) };
        let node = self.store.node(parent);
        let position = find(node, parent.kind(), byte).expect("the path came this way");
        node.set_half(entries_at(parent.kind()), position, to.0);
    }

    fn insert_in(&mut self, path: &Path, leaf: Ref, byte: u8, word: u64) -> Option<u64> {
        let node = self.store.node(leaf);
        if let Some(position) = find(node, leaf.kind(), byte) {
            let old = get::<V>(node, leaf.kind(), position);
            set::<V>(node, leaf.kind(), position, word);
            return Some(old);
        }
        self.put(path, leaf, byte, word);
        None
    }

    fn new_leaf(&mut self, key: u64, entries: &[(u8, u64)]) -> Ref {
        let kind = if entries.len() <= SMALL { LEAF_SMALL } else { LEAF_BITS };
        self.write(kind, key & !0xFF, entries)
    }

    /// Adds an entry that is not there to the node at `at`, which may move.
    fn put(&mut self, path: &Path, at: Ref, byte: u8, item: u64) {
        let n = count(self.store.node(at).word(0));
        let at = if n < self.room(at) { at } else { self.resize(path, at, n + 1) };
        let (node, kind) = (self.store.node(at), at.kind());
        let position = mark(node, kind, byte, n);
        if kind != INNER_FULL {
            for i in (position..n).rev() {
                set::<V>(node, kind, i + 1, get::<V>(node, kind, i));
            }
        }
        set::<V>(node, kind, position, item);
        node.set(0, node.word(0) + 1);
    }

    /// Removes one of several entries from the node at `at`, which may move or go.
    fn take(&mut self, path: &Path, at: Ref, byte: u8, position: usize) {
        let (node, kind) = (self.store.node(at), at.kind());
        let n = count(node.word(0));
        assert!(n > 1, "the last entry goes with its node");
        unmark(node, kind, byte, position);
        if kind == INNER_FULL {
            set::<V>(node, kind, position, 0);
        } else {
            for i in position..n - 1 {
                set::<V>(node, kind, i, get::<V>(node, kind, i + 1));
            }
        }
        node.set(0, node.word(0) - 1);
        if at.is_inner() && n == 2 {
            let (_, left) = find_from(node, kind, 0).expect("one is left");
            self.relink(path, Ref(get::<V>(node, kind, left) as u32));
            self.slabs.free(&self.store.words, at.granule());
        } else {
            self.shrink(path, at, n - 1);
        }
    }

    /// Gives up words that `n` entries do not need, if they are many.
    fn shrink(&mut self, path: &Path, at: Ref, n: usize) {
        let has = self.slabs.words_of(at.granule());
        let kind = kind_for(at.kind(), n);
        let needs = Slabs::rounded(words_for::<V>(kind, self.rounded(kind, n + n / 16 + 1)));
        if needs + has / 8 < has {
            self.resize(path, at, n);
        }
    }

    /// Entries that fit the node at `at` where it is.
    fn room(&self, at: Ref) -> usize {
        let kind = at.kind();
        let words = self.slabs.words_of(at.granule()) - entries_at(kind);
        let fit = match kind {
            INNER_SMALL | INNER_BITS => words * 2,
            LEAF_SMALL | LEAF_BITS if V::WORDS == 1 => words,
            _ => MOST,
        };
        fit.min(most(kind))
    }

    /// Entries to make room for.
    fn rounded(&self, kind: u32, n: usize) -> usize {
        let n = match self.sizes {
            Sizes::Variable => n,
            Sizes::Fixed => [8, 32, 128].into_iter().find(|size| n <= *size).unwrap_or(MOST),
        };
        n.min(most(kind))
    }

    /// Moves the node at `at` into a block for `n` entries.
    fn resize(&mut self, path: &Path, at: Ref, n: usize) -> Ref {
        let (node, kind) = (self.store.node(at), kind_for(at.kind(), n));
        let head = node.word(0);
        let moved = if kind == at.kind() {
            let room = words_for::<V>(kind, self.rounded(kind, n));
            let granule = self.slabs.alloc(&self.store.words, room);
            let to = self.store.words.at(granule);
            let used = words_for::<V>(kind, count(head).min(n));
            (0..used).for_each(|i| to.set(i, node.word(i)));
            Ref::new(granule, kind)
        } else {
            let entries = entries_of::<V>(node, at.kind());
            self.write_with_room(kind, head & !0xFF, &entries, n)
        };
        self.relink(path, moved);
        self.slabs.free(&self.store.words, at.granule());
        moved
    }

    fn write(&mut self, kind: u32, head: u64, entries: &[(u8, u64)]) -> Ref {
        self.write_with_room(kind, head, entries, entries.len())
    }

    /// Writes a new node with room for `n` entries.
    fn write_with_room(&mut self, kind: u32, head: u64, entries: &[(u8, u64)], n: usize) -> Ref {
        assert!((1..=most(kind)).contains(&entries.len()), "as many as the kind holds");
        let n = self.rounded(kind, n.max(entries.len()));
        let granule = self.slabs.alloc(&self.store.words, words_for::<V>(kind, n));
        let node = self.store.words.at(granule);
        node.set(0, head & !0xFF | (entries.len() as u64 - 1));
        write_bytes(node, kind, entries);
        if kind == INNER_FULL {
            (8..FULL_WORDS).for_each(|i| node.set(i, 0));
            entries.iter().for_each(|e| set::<V>(node, kind, usize::from(e.0), e.1));
        } else {
            entries.iter().enumerate().for_each(|(i, e)| set::<V>(node, kind, i, e.1));
        }
        Ref::new(granule, kind)
    }
}

/// The entry at `position`, as a word.
#[inline]
fn get<V: Fixed>(node: Node<'_>, kind: u32, position: usize) -> u64 {
    match kind {
        LEAF_SMALL | LEAF_BITS if V::WORDS == 0 => 0,
        LEAF_SMALL | LEAF_BITS => node.word(entries_at(kind) + position),
        _ => u64::from(node.half(entries_at(kind), position)),
    }
}

#[inline]
fn set<V: Fixed>(node: Node<'_>, kind: u32, position: usize, item: u64) {
    match kind {
        LEAF_SMALL | LEAF_BITS if V::WORDS == 0 => {}
        LEAF_SMALL | LEAF_BITS => node.set(entries_at(kind) + position, item),
        _ => node.set_half(entries_at(kind), position, item as u32),
    }
}

/// All entries in order.
fn entries_of<V: Fixed>(node: Node<'_>, kind: u32) -> Vec<(u8, u64)> {
    let mut entries = Vec::with_capacity(count(node.word(0)));
    let mut from = Some(0);
    while let Some((byte, position)) = from.and_then(|from| find_from(node, kind, from)) {
        entries.push((byte, get::<V>(node, kind, position)));
        from = byte.checked_add(1);
    }
    assert_eq!(entries.len(), count(node.word(0)), "the count is right");
    entries
}

/// Writes the key bytes of a new node.
fn write_bytes(node: Node<'_>, kind: u32, entries: &[(u8, u64)]) {
    if matches!(kind, LEAF_SMALL | INNER_SMALL) {
        let mut bytes = [0; SMALL];
        bytes.iter_mut().zip(entries).for_each(|(byte, entry)| *byte = entry.0);
        return node.set(1, u64::from_le_bytes(bytes));
    }
    let mut bitmap = [0u64; 4];
    entries.iter().for_each(|(byte, _)| bitmap[usize::from(byte / 64)] |= 1 << (byte % 64));
    let (mut before, mut ranks) = (0, 0);
    for (i, word) in bitmap.into_iter().enumerate() {
        node.set(1 + i, word);
        ranks |= before << (i * 8);
        before += u64::from(word.count_ones());
    }
    node.set(5, ranks);
}

/// One more before each word of the bitmap that follows word `i`.
fn following(i: u8) -> u64 {
    0x0101_0100 << (i * 8) & 0xFFFF_FFFF
}

/// Adds `byte` to the key bytes of a node with `n` entries. Returns its position.
fn mark(node: Node<'_>, kind: u32, byte: u8, n: usize) -> usize {
    if matches!(kind, LEAF_SMALL | INNER_SMALL) {
        let word = node.word(1);
        let position = word.to_le_bytes()[..n].iter().filter(|have| **have < byte).count();
        let low = (1 << (position * 8)) - 1;
        node.set(1, word & low | u64::from(byte) << (position * 8) | (word & !low) << 8);
        return position;
    }
    let at = 1 + usize::from(byte / 64);
    let word = node.word(at) | 1 << (byte % 64);
    node.set(at, word);
    if kind != INNER_FULL {
        node.set(5, node.word(5) + following(byte / 64));
    }
    find(node, kind, byte).expect("marked above")
}

/// Removes `byte`, which is at `position`, from the key bytes.
fn unmark(node: Node<'_>, kind: u32, byte: u8, position: usize) {
    if matches!(kind, LEAF_SMALL | INNER_SMALL) {
        let (word, low) = (node.word(1), (1 << (position * 8)) - 1);
        return node.set(1, word & low | word >> 8 & !low);
    }
    let at = 1 + usize::from(byte / 64);
    node.set(at, node.word(at) & !(1 << (byte % 64)));
    if kind != INNER_FULL {
        node.set(5, node.word(5) - following(byte / 64));
    }
}

/// Checks the nodes below `at`, to which `above` led: key bits, and which of them count. Returns
/// the number of keys.
#[cfg(all(test, not(feature = "shuttle")))]
pub(crate) fn check<V: Fixed>(store: &Store<V>, at: Ref, above: Option<(u64, u64)>) -> usize {
    let node = store.node(at);
    let head = node.word(0);
    let (mask, n) = (!below(at, head), count(head));
    if let Some((bits, parent_mask)) = above {
        assert_eq!(head & parent_mask, bits & parent_mask, "the head agrees with the way here");
        assert_eq!(mask & parent_mask, parent_mask, "levels go down");
    }
    let entries = entries_of::<V>(node, at.kind());
    assert!(n <= most(at.kind()) && entries.is_sorted_by(|a, b| a.0 < b.0));
    if !at.is_inner() {
        return n;
    }
    assert!(n >= 2, "an inner node has two children");
    let below = |&(byte, item): &(u8, u64)| {
        let shift = crate::node::shift(head);
        let bits = head & mask | u64::from(byte) << shift;
        check(store, Ref(item as u32), Some((bits, mask | 0xFF << shift)))
    };
    entries.iter().map(below).sum()
}
