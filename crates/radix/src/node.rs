//! What a node looks like, and how it is read.
//!
//! | kind | word 0 | then | entries |
//! |---|---|---|---|
//! | small leaf or inner, up to 8 | head | 8 key bytes, ascending | from word 2 |
//! | bitmap leaf, inner up to 64 | head | bitmap of 256 bits, bits before each word | from word 6 |
//! | full inner, over 64 | head | bitmap of 256 bits | 256 of them, from word 8 |
//!
//! Entries are packed in key order; the entry of a key byte is found by counting the bits before
//! its own, which costs the same few instructions whatever the size, so the size of a node is free
//! to follow its count. An entry is a value (of no words or one) in a leaf, a half-word reference
//! in an inner node. The head holds the key bits above the node's own byte, so paths of single
//! children are left out and the leaf alone tells whether a search went right; the low bits hold
//! the count less one, and in an inner node the level of its byte, 1 to 7.
//!
//! Invariants: reading any words as a node ends and never panics, because a reader may meet a node
//! that a writer is changing; such a reader discards what it found (`shared`).
//! Does not do: changing nodes (`edit`).

use crate::words::Node;

/// A node and its kind; zero is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ref(pub(crate) u32);

/// The kinds; a leaf's are below an inner node's.
pub(crate) const LEAF_SMALL: u32 = 1;
pub(crate) const LEAF_BITS: u32 = 2;
pub(crate) const INNER_SMALL: u32 = 3;
pub(crate) const INNER_BITS: u32 = 4;
pub(crate) const INNER_FULL: u32 = 5;

/// Most entries of a small node: its key bytes are one word.
pub(crate) const SMALL: usize = 8;
/// Most entries of an inner node with a bitmap; above, references are found by index alone.
pub(crate) const MOST_RANKED: usize = 64;
/// Most entries of any node.
pub(crate) const MOST: usize = 256;
/// Words of a full inner node.
pub(crate) const FULL_WORDS: usize = 8 + MOST / 2;
/// Levels above the leaves.
pub(crate) const LEVELS: usize = 7;

impl Ref {
    pub(crate) const NONE: Ref = Ref(0);

    pub(crate) fn new(granule: u32, kind: u32) -> Ref {
        assert!(granule < 1 << 29 && (LEAF_SMALL..=INNER_FULL).contains(&kind));
        Ref(granule << 3 | kind)
    }

    #[inline(always)]
    pub(crate) fn kind(self) -> u32 {
        self.0 & 7
    }

    #[inline(always)]
    pub(crate) fn granule(self) -> u32 {
        self.0 >> 3
    }

    #[inline(always)]
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(crate) fn is_inner(self) -> bool {
        self.kind() >= INNER_SMALL
    }
}

/// Word at which the entries of a kind begin.
#[inline(always)]
pub(crate) fn entries_at(kind: u32) -> usize {
    match kind {
        LEAF_SMALL | INNER_SMALL => 2,
        LEAF_BITS | INNER_BITS => 6,
        _ => 8,
    }
}

/// Entries of the node with this head.
#[inline(always)]
pub(crate) fn count(head: u64) -> usize {
    (head & 0xFF) as usize + 1
}

/// Bits of a key below the byte of the inner node with this head.
#[inline(always)]
pub(crate) fn shift(head: u64) -> u32 {
    (head >> 8 & 7) as u32 * 8
}

/// The key byte that chooses the child of the inner node with this head.
#[inline(always)]
pub(crate) fn byte_at(head: u64, key: u64) -> u8 {
    (key >> shift(head)) as u8
}

/// The key bits at and below a node's own byte.
#[inline(always)]
pub(crate) fn below(at: Ref, head: u64) -> u64 {
    if at.is_inner() { u64::MAX >> (56 - shift(head)) } else { 0xFF }
}

/// The head of an inner node at `level` above the leaves, with one entry.
pub(crate) fn inner_head(key: u64, level: usize) -> u64 {
    assert!((1..=LEVELS).contains(&level), "the leaves are level 0");
    (key & !(u64::MAX >> (56 - level * 8))) | (level as u64) << 8
}

/// The byte of each of 8 lanes.
const LANES: u64 = 0x0101_0101_0101_0101;

/// Where `byte` stands among the first `count` bytes of `word`.
#[inline(always)]
pub(crate) fn find_byte(word: u64, count: usize, byte: u8) -> Option<usize> {
    let differing = word ^ (LANES * u64::from(byte));
    // The lowest lane flagged is right; a flag above it may be wrong, and nobody asks.
    let zero = differing.wrapping_sub(LANES) & !differing & (LANES << 7);
    let at = (zero.trailing_zeros() / 8) as usize;
    (at < count.min(SMALL)).then_some(at)
}

/// Number of bits below `byte` in the bitmap, given its word and the counts before each word.
#[inline(always)]
fn rank(node: Node<'_>, word: u64, byte: u8) -> usize {
    let before = node.word(5) >> (byte / 64 * 8) & 0xFF;
    before as usize + (word & ((1 << (byte % 64)) - 1)).count_ones() as usize
}

/// The position of `byte`'s entry.
#[inline(always)]
pub(crate) fn find(node: Node<'_>, kind: u32, byte: u8) -> Option<usize> {
    if matches!(kind, LEAF_SMALL | INNER_SMALL) {
        return find_byte(node.word(1), count(node.word(0)), byte);
    }
    let word = node.word(1 + usize::from(byte / 64));
    let there = word >> (byte % 64) & 1 == 1;
    there.then(|| if kind == INNER_FULL { usize::from(byte) } else { rank(node, word, byte) })
}

/// The child for `key` of the inner node at `at`.
#[inline(always)]
pub(crate) fn child(node: Node<'_>, at: Ref, key: u64) -> Ref {
    let byte = byte_at(node.word(0), key);
    if at.kind() == INNER_FULL {
        return Ref(node.half(8, usize::from(byte)));
    }
    let position = find(node, at.kind(), byte);
    position.map_or(Ref::NONE, |position| Ref(node.half(entries_at(at.kind()), position)))
}

/// The first entry whose key byte is at least `from`: the byte and the entry's position.
#[inline]
pub(crate) fn find_from(node: Node<'_>, kind: u32, from: u8) -> Option<(u8, usize)> {
    if matches!(kind, LEAF_SMALL | INNER_SMALL) {
        let bytes = node.word(1).to_le_bytes();
        let used = &bytes[..count(node.word(0)).min(SMALL)];
        return used.iter().position(|&byte| byte >= from).map(|at| (used[at], at));
    }
    let mut index = from / 64;
    let mut word = node.word(1 + usize::from(index)) & (u64::MAX << (from % 64));
    while word == 0 {
        index += 1;
        if index == 4 {
            return None;
        }
        word = node.word(1 + usize::from(index));
    }
    let byte = index * 64 + word.trailing_zeros() as u8;
    find(node, kind, byte).map(|position| (byte, position))
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_among_those_in_use_only() {
        let word = u64::from_le_bytes([0, 1, 7, 8, 128, 129, 255, 0]);
        for (at, byte) in [0, 1, 7, 8, 128, 129, 255].into_iter().enumerate() {
            assert_eq!(find_byte(word, 7, byte), Some(at));
            assert_eq!(find_byte(word, at, byte), None);
        }
        assert!((0..=255).filter(|&byte| find_byte(word, 8, byte).is_some()).count() == 7);
        assert_eq!(find_byte(0, 256, 1), None);
    }

    #[test]
    fn heads_keep_the_bits_above_their_byte() {
        let key = 0x1122_3344_5566_7788;
        let head = inner_head(key, 2);
        assert_eq!((head, shift(head), byte_at(head, key)), (0x1122_3344_5500_0200, 16, 0x66));
        assert_eq!(below(Ref(INNER_BITS), head), 0xFF_FFFF);
        assert_eq!(inner_head(key, 7), 0x700);
        assert_eq!(below(Ref(INNER_FULL), inner_head(key, 7)), u64::MAX);
        assert_eq!((below(Ref(LEAF_BITS), 0), count(0xFF)), (0xFF, 256));
    }
}
