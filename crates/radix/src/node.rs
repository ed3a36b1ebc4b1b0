//! What a node looks like, and how it is read.
//!
//! | shape | word 0 | then | entries |
//! |---|---|---|---|
//! | small, up to 8 | head | 8 key bytes, ascending; spare ones repeat the first | from word 2 |
//! | ranked | head | bitmap of 256 bits, bits before each word of it | from word 6 |
//! | full | head | bitmap of 256 bits | 256 of them, from word 8 |
//!
//! Entries of small and ranked nodes are packed in key order. The entry of a key byte is found by
//! counting the bits before its own, which costs the same few instructions whatever the size, so
//! the size of a node is free to follow its count.
//!
//! An entry is a value (of no words or one) in a leaf, a half-word reference in an inner node. A
//! reference says shape and level of its node, so a search reads a word or two of each inner node.
//! The head holds the key bits above the node's own byte, and the count less one: paths of single
//! children are left out, and the leaf alone tells whether a search went right.
//!
//! Invariants: reading any words as a node ends and never panics.
//! Does not do: changing nodes (`edit`).

use crate::words::Node;

/// The shapes of nodes.
pub(crate) const SMALL: u32 = 1;
pub(crate) const RANKED: u32 = 2;
pub(crate) const FULL: u32 = 3;

/// Most entries of a small node: its key bytes are one word.
pub(crate) const MOST_SMALL: usize = 8;
/// Most entries of any node.
pub(crate) const MOST: usize = 256;
/// Levels above the leaves, which are level 0.
pub(crate) const LEVELS: usize = 7;

/// Level and shape of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind(u32);

/// A node: its place and kind; zero is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ref(pub(crate) u32);

impl Kind {
    pub(crate) fn new(level: usize, shape: u32) -> Kind {
        assert!(level <= LEVELS && (SMALL..=FULL).contains(&shape));
        Kind((level as u32) << 2 | shape)
    }

    #[inline(always)]
    pub(crate) fn shape(self) -> u32 {
        self.0 & 3
    }

    #[inline(always)]
    pub(crate) fn level(self) -> usize {
        (self.0 >> 2 & 7) as usize
    }

    #[inline(always)]
    pub(crate) fn is_inner(self) -> bool {
        self.level() > 0
    }

    /// Bits of a key below the node's own byte.
    #[inline(always)]
    pub(crate) fn shift(self) -> u32 {
        self.level() as u32 * 8
    }

    /// The key bits at and below the node's own byte.
    #[inline(always)]
    pub(crate) fn below(self) -> u64 {
        u64::MAX >> (56 - self.shift())
    }

    /// The key byte that chooses the node's entry.
    #[inline(always)]
    pub(crate) fn byte(self, key: u64) -> u8 {
        (key >> self.shift()) as u8
    }

    /// Word at which the entries begin.
    #[inline(always)]
    pub(crate) fn entries_at(self) -> usize {
        match self.shape() {
            SMALL => 2,
            RANKED => 6,
            _ => 8,
        }
    }
}

impl Ref {
    pub(crate) const NONE: Ref = Ref(0);

    pub(crate) fn new(granule: u32, kind: Kind) -> Ref {
        assert!(granule < 1 << 27, "addresses have 27 bits");
        Ref(granule << 5 | kind.0)
    }

    #[inline(always)]
    pub(crate) fn kind(self) -> Kind {
        Kind(self.0 & 31)
    }

    #[inline(always)]
    pub(crate) fn granule(self) -> u32 {
        self.0 >> 5
    }

    #[inline(always)]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(crate) fn is_inner(self) -> bool {
        self.kind().is_inner()
    }
}

/// Entries of the node with this head.
#[inline(always)]
pub(crate) fn count(head: u64) -> usize {
    (head & 0xFF) as usize + 1
}

/// The byte of each of 8 lanes.
const LANES: u64 = 0x0101_0101_0101_0101;

/// The first lane of `word` that is `byte`.
#[inline(always)]
pub(crate) fn find_byte(word: u64, byte: u8) -> Option<usize> {
    let differing = word ^ (LANES * u64::from(byte));
    // The lowest lane flagged is right; a flag above it may be wrong, and nobody asks.
    let zero = differing.wrapping_sub(LANES) & !differing & (LANES << 7);
    (zero != 0).then(|| (zero.trailing_zeros() / 8) as usize)
}

/// Number of bits below `byte` in the bitmap, given its word.
#[inline(always)]
fn rank(node: Node<'_>, word: u64, byte: u8) -> usize {
    let before = node.word(5) >> (byte / 64 * 8) & 0xFF;
    before as usize + (word & ((1 << (byte % 64)) - 1)).count_ones() as usize
}

/// Is there an entry for `byte`?
#[inline(always)]
pub(crate) fn has(node: Node<'_>, kind: Kind, byte: u8) -> bool {
    if kind.shape() == SMALL {
        return find_byte(node.word(1), byte).is_some();
    }
    node.word(1 + usize::from(byte / 64)) >> (byte % 64) & 1 == 1
}

/// The position of `byte`'s entry.
#[inline(always)]
pub(crate) fn find(node: Node<'_>, kind: Kind, byte: u8) -> Option<usize> {
    if kind.shape() == SMALL {
        return find_byte(node.word(1), byte);
    }
    let word = node.word(1 + usize::from(byte / 64));
    if word >> (byte % 64) & 1 == 0 {
        return None;
    }
    Some(if kind.shape() == FULL { usize::from(byte) } else { rank(node, word, byte) })
}

/// The child for `key` of an inner node.
#[inline(always)]
pub(crate) fn child(node: Node<'_>, kind: Kind, key: u64) -> Ref {
    let byte = kind.byte(key);
    if kind.shape() == FULL {
        return Ref(node.half(8, usize::from(byte)));
    }
    let position = find(node, kind, byte);
    position.map_or(Ref::NONE, |position| Ref(node.half(kind.entries_at(), position)))
}

/// The first entry whose key byte is at least `from`: the byte and the entry's position.
#[inline]
pub(crate) fn find_from(node: Node<'_>, kind: Kind, from: u8) -> Option<(u8, usize)> {
    if kind.shape() == SMALL {
        let bytes = node.word(1).to_le_bytes();
        let used = &bytes[..count(node.word(0)).min(MOST_SMALL)];
        return used.iter().position(|&byte| byte >= from).map(|at| (used[at], at));
    }
    let byte = next_bit(node, from)?;
    find(node, kind, byte).map(|position| (byte, position))
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

/// The bitmap of a node's key bytes, whatever its shape.
pub(crate) fn bitmap(node: Node<'_>, kind: Kind) -> [u64; 4] {
    if kind.shape() != SMALL {
        return std::array::from_fn(|i| node.word(1 + i));
    }
    let mut bits = [0; 4];
    for byte in node.word(1).to_le_bytes() {
        bits[usize::from(byte / 64)] |= 1 << (byte % 64);
    }
    bits
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn the_first_lane_is_found() {
        let word = u64::from_le_bytes([0, 1, 7, 8, 128, 129, 255, 0]);
        for (at, byte) in [0, 1, 7, 8, 128, 129, 255].into_iter().enumerate() {
            assert_eq!(find_byte(word, byte), Some(at));
        }
        assert_eq!((0..=255).filter(|&byte| find_byte(word, byte).is_some()).count(), 7);
        assert_eq!(find_byte(0, 1), None);
    }

    #[test]
    fn kinds_know_their_part_of_a_key() {
        let (leaf, inner, root) = (Kind::new(0, RANKED), Kind::new(2, SMALL), Kind::new(7, FULL));
        assert_eq!((leaf.below(), inner.below(), root.below()), (0xFF, 0xFF_FFFF, u64::MAX));
        assert_eq!((inner.shift(), inner.byte(0x1122_3344_5566_7788)), (16, 0x66));
        let at = Ref::new((1 << 27) - 1, root);
        assert_eq!((at.granule(), at.kind()), ((1 << 27) - 1, root));
        assert!(!leaf.is_inner() && root.is_inner() && !Ref::new(0, leaf).is_none());
        assert_eq!((count(0), count(0xFF)), (1, 256));
    }
}
