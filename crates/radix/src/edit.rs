//! Changing nodes: insertion, removal, and the change of size and kind that they bring.
//!
//! Invariants: an inner node has two children at least, so there are fewer inner nodes than
//! leaves and a search ends in at most eight; no leaf is empty. A node that must grow or shrink is
//! copied into another block and its parent's reference is changed; nodes move in no other way.
//! Does not do: searches (`store`).

use crate::node::{
    FULL, Kind, LEVELS, MOST, MOST_SMALL, RANKED, Ref, SMALL, child, count, find, find_from,
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

/// Most entries of a ranked inner node, and of a ranked leaf. Above, finding entries by index alone
/// costs less time and few more words.
const MOST_RANKED: [usize; 2] = [48, 232];

/// Words that hold `n` entries of a kind.
fn words_for<V: Fixed>(kind: Kind, n: usize) -> usize {
    let n = if kind.shape() == FULL { MOST } else { n };
    kind.entries_at() + if kind.is_inner() { n.div_ceil(2) } else { n * V::WORDS }
}

/// Most entries of a kind, whatever its block. Every search meets the root, so it is full soon.
fn most<V: Fixed>(kind: Kind, is_root: bool) -> usize {
    match kind.shape() {
        SMALL => MOST_SMALL,
        RANKED if kind.is_inner() && is_root => 2 * MOST_SMALL - 1,
        RANKED if kind.is_inner() => MOST_RANKED[0],
        RANKED if V::WORDS > 0 => MOST_RANKED[1],
        _ => MOST,
    }
}

/// The kind for `n` entries. A node that shrinks keeps its kind a little longer, so that one key
/// that comes and goes does not change it each time.
fn kind_for<V: Fixed>(now: Kind, n: usize, is_root: bool) -> Kind {
    let of = |shape| Kind::new(now.level(), shape);
    let fits = |shape: u32| {
        let most = most::<V>(of(shape), is_root);
        n + if now.shape() > shape { most / 4 } else { 0 } <= most
    };
    of([SMALL, RANKED].into_iter().find(|shape| fits(*shape)).unwrap_or(FULL))
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
            if (head ^ key) & !at.kind().below() != 0 {
                return (path, Spot::Beside(at));
            }
            if !at.is_inner() {
                return (path, Spot::In(at));
            }
            let next = child(node, at.kind(), key);
            if next.is_none() {
                return (path, Spot::Below(at));
            }
            path.push(at, at.kind().byte(key));
            at = next;
        }
    }

    /// Hangs a new leaf into the tree.
    fn attach(&mut self, path: &Path, spot: Spot, key: u64, leaf: Ref) {
        match spot {
            Spot::Empty => self.store.set_root(leaf),
            Spot::Below(at) => {
                self.put(path, at, at.kind().byte(key), u64::from(leaf.0));
            }
            Spot::Beside(at) => {
                let other = self.store.node(at).word(0);
                let differing = (other ^ key) & !at.kind().below();
                let kind = Kind::new(differing.ilog2() as usize / 8, SMALL);
                let mut pair =
                    [(kind.byte(key), u64::from(leaf.0)), (kind.byte(other), u64::from(at.0))];
                pair.sort_unstable();
                let inner = self.write(kind, key & !kind.below(), &pair);
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
        node.set_half(parent.kind().entries_at(), position, to.0);
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
        let kind = kind_for::<V>(Kind::new(0, SMALL), entries.len(), false);
        self.write(kind, key & !0xFF, entries)
    }

    /// Adds an entry that is not there to the node at `at`, which may move.
    fn put(&mut self, path: &Path, at: Ref, byte: u8, item: u64) {
        let n = count(self.store.node(at).word(0));
        let at = if n < self.room(at, path.len == 0) { at } else { self.resize(path, at, n + 1) };
        let (node, kind) = (self.store.node(at), at.kind());
        let position = mark(node, kind, byte, n);
        if kind.shape() != FULL {
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
        unmark(node, kind, byte, position, n);
        if kind.shape() == FULL {
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
        let kind = kind_for::<V>(at.kind(), n, path.len == 0);
        let needs = Slabs::rounded(words_for::<V>(kind, self.rounded(kind, n + n / 16 + 1)));
        if needs + has / 8 < has {
            self.resize(path, at, n);
        }
    }

    /// Entries that fit the node at `at` where it is.
    fn room(&self, at: Ref, is_root: bool) -> usize {
        let kind = at.kind();
        let words = self.slabs.words_of(at.granule()) - kind.entries_at();
        let fit = match V::WORDS {
            _ if kind.is_inner() => words * 2,
            0 => MOST,
            size => words / size,
        };
        fit.min(most::<V>(kind, is_root))
    }

    /// Entries to make room for.
    fn rounded(&self, kind: Kind, n: usize) -> usize {
        let n = match self.sizes {
            Sizes::Variable => n,
            Sizes::Fixed => [8, 32, 128].into_iter().find(|size| n <= *size).unwrap_or(MOST),
        };
        n.min(most::<V>(kind, false))
    }

    /// Moves the node at `at` into a block for `n` entries.
    fn resize(&mut self, path: &Path, at: Ref, n: usize) -> Ref {
        let (node, kind) = (self.store.node(at), kind_for::<V>(at.kind(), n, path.len == 0));
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

    fn write(&mut self, kind: Kind, head: u64, entries: &[(u8, u64)]) -> Ref {
        self.write_with_room(kind, head, entries, entries.len())
    }

    /// Writes a new node with room for `n` entries.
    fn write_with_room(&mut self, kind: Kind, head: u64, entries: &[(u8, u64)], n: usize) -> Ref {
        assert!((1..=most::<V>(kind, false)).contains(&entries.len()), "as many as the kind holds");
        let n = self.rounded(kind, n.max(entries.len()));
        let granule = self.slabs.alloc(&self.store.words, words_for::<V>(kind, n));
        let node = self.store.words.at(granule);
        node.set(0, head & !0xFF | (entries.len() as u64 - 1));
        write_bytes(node, kind, entries);
        if kind.shape() == FULL {
            (8..words_for::<V>(kind, n)).for_each(|i| node.set(i, 0));
            entries.iter().for_each(|e| set::<V>(node, kind, usize::from(e.0), e.1));
        } else {
            entries.iter().enumerate().for_each(|(i, e)| set::<V>(node, kind, i, e.1));
        }
        Ref::new(granule, kind)
    }
}

/// The entry at `position`, as a word.
#[inline]
fn get<V: Fixed>(node: Node<'_>, kind: Kind, position: usize) -> u64 {
    match V::WORDS {
        _ if kind.is_inner() => u64::from(node.half(kind.entries_at(), position)),
        0 => 0,
        _ => node.word(kind.entries_at() + position),
    }
}

#[inline]
fn set<V: Fixed>(node: Node<'_>, kind: Kind, position: usize, item: u64) {
    match V::WORDS {
        _ if kind.is_inner() => node.set_half(kind.entries_at(), position, item as u32),
        0 => {}
        _ => node.set(kind.entries_at() + position, item),
    }
}

/// All entries in order.
fn entries_of<V: Fixed>(node: Node<'_>, kind: Kind) -> Vec<(u8, u64)> {
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
fn write_bytes(node: Node<'_>, kind: Kind, entries: &[(u8, u64)]) {
    if kind.shape() == SMALL {
        let mut bytes = [entries[0].0; MOST_SMALL];
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
fn mark(node: Node<'_>, kind: Kind, byte: u8, n: usize) -> usize {
    if kind.shape() == SMALL {
        let mut bytes = node.word(1).to_le_bytes();
        let position = bytes[..n].iter().filter(|have| **have < byte).count();
        bytes.copy_within(position..n, position + 1);
        bytes[position] = byte;
        set_small(node, bytes, n + 1);
        return position;
    }
    let at = 1 + usize::from(byte / 64);
    node.set(at, node.word(at) | 1 << (byte % 64));
    if kind.shape() == RANKED {
        node.set(5, node.word(5) + following(byte / 64));
    }
    find(node, kind, byte).expect("marked above")
}

/// Removes `byte`, one of `n`, which is at `position`, from the key bytes.
fn unmark(node: Node<'_>, kind: Kind, byte: u8, position: usize, n: usize) {
    if kind.shape() == SMALL {
        let mut bytes = node.word(1).to_le_bytes();
        bytes.copy_within(position + 1..n, position);
        return set_small(node, bytes, n - 1);
    }
    let at = 1 + usize::from(byte / 64);
    node.set(at, node.word(at) & !(1 << (byte % 64)));
    if kind.shape() == RANKED {
        node.set(5, node.word(5) - following(byte / 64));
    }
}

/// Stores the first `n` key bytes of a small node.
fn set_small(node: Node<'_>, mut bytes: [u8; MOST_SMALL], n: usize) {
    let first = bytes[0];
    bytes[n..].fill(first);
    node.set(1, u64::from_le_bytes(bytes));
}

/// Checks the nodes below `at`, to which `above` led: key bits, and which of them count. Returns
/// the number of keys.
#[cfg(all(test, not(feature = "shuttle")))]
pub(crate) fn check<V: Fixed>(store: &Store<V>, at: Ref, above: Option<(u64, u64)>) -> usize {
    let node = store.node(at);
    let head = node.word(0);
    let (mask, n) = (!at.kind().below(), count(head));
    if let Some((bits, parent_mask)) = above {
        assert_eq!(head & parent_mask, bits & parent_mask, "the head agrees with the way here");
        assert_eq!(mask & parent_mask, parent_mask, "levels go down");
    }
    let entries = entries_of::<V>(node, at.kind());
    assert!(n <= most::<V>(at.kind(), false) && entries.is_sorted_by(|a, b| a.0 < b.0));
    if !at.is_inner() {
        return n;
    }
    assert!(n >= 2, "an inner node has two children");
    let below = |&(byte, item): &(u8, u64)| {
        let shift = at.kind().shift();
        let bits = head & mask | u64::from(byte) << shift;
        check(store, Ref(item as u32), Some((bits, mask | 0xFF << shift)))
    };
    entries.iter().map(below).sum()
}
