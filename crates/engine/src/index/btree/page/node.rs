//! A leaf or inner page: layout and reading. The format is specified in docs/format.md.
//!
//! A tree key is the encoded key, then the 6 bytes of the row id. An inner page holds separators:
//! the shortest byte strings that tell two children apart.
//!
//! | where | bytes | content |
//! |---|---|---|
//! | 0 | 32 | page header; the owner word at 24 holds level and vacuum cycle id |
//! | 32 | 6 each | slots: offset and tags u16, head (next 4 key bytes after the prefix) |
//! | upper..special | | items, in any order |
//! | special | | low fence, then high key, both whole |
//! | 8176 | 16 | links, lengths of fences and prefix |
//!
//! *Prefix.* All keys begin with the first `prefix` bytes of the low fence, which are stored only
//! there. A leftmost page has no low fence; the bytes in its place are the prefix alone.
//! *Item.* Child (inner pages), length of the key after the prefix, its bytes after the head, then
//! payload or posting list. The first entry of an inner page begins at the low fence and has no
//! key.
//!
//! Invariants: [`Node::open`] checks the header in constant time; each item is checked when it is
//! read. Bad bytes are a [`Damage`], never a panic. A page with one entry always fits.
//! Does not do: change pages (`edit`), latch, interpret flags.

use std::cmp::Ordering;

use crate::config::{MAX_KEY_BYTES, PAGE_SIZE};
use crate::ids::RowId;
use crate::index::btree::counters::count;
use crate::index::btree::page::read::PageRead;
pub(crate) use crate::index::btree::page::read::common;
pub(crate) use crate::index::dead_marks::{DEAD, HAS_DEAD};
use crate::page::PageKind;
use crate::page::buf::gather;
use crate::page::header::{self, FLAGS, GARBAGE, HEADER_SIZE, KIND, LOWER, OWNER, SPECIAL, UPPER};
pub(crate) use crate::page::{Checked, Damage};

/// Bytes of a slot.
pub(crate) const SLOT: usize = 6;
/// Bytes of the fixed trailer.
pub(crate) const TRAILER: usize = 16;
/// Offset of the left link.
pub(crate) const LEFT: usize = PAGE_SIZE - 16;
/// Offset of the right link.
pub(crate) const RIGHT: usize = PAGE_SIZE - 12;
/// Offset of the length of the low fence.
pub(crate) const LOW_LEN: usize = PAGE_SIZE - 8;
/// Offset of the length of the high key.
pub(crate) const HIGH_LEN: usize = PAGE_SIZE - 6;
/// Offset of the length of the prefix.
pub(crate) const PREFIX_LEN: usize = PAGE_SIZE - 4;
/// Bytes of a head.
pub(crate) const HEAD: usize = 4;
/// Offset bits of a slot word.
pub(crate) const OFFSET_MASK: u16 = 0x1fff;
/// The item ends with an extra area.
pub(crate) const EXTRA: u16 = 1 << 14;
/// The extra area is a posting list.
pub(crate) const POSTING: u16 = 1 << 15;

/// Page flag: the right sibling has no downlink yet.
pub(crate) const INCOMPLETE: u16 = 1;
/// Page flag, reserved for a page that has left its parent but not its siblings. It is never set,
/// because a merge is one record.
pub(crate) const HALF_DEAD: u16 = 2;
/// Page flag: this is the root.
pub(crate) const ROOT: u16 = 4;

const _: () = assert!(
    UPPER == LOWER + 2 && SPECIAL == LOWER + 4 && GARBAGE == LOWER + 6 && LOWER.is_multiple_of(8),
    "one word holds the bounds"
);
const _: () = assert!(
    KIND == 4 && FLAGS == 6 && RIGHT == LEFT + 4 && LEFT.is_multiple_of(8),
    "kind, flags and links lie as they are read"
);
const _: () = assert!(
    HIGH_LEN == LOW_LEN + 2 && PREFIX_LEN == LOW_LEN + 4 && LOW_LEN.is_multiple_of(8),
    "one word holds the lengths"
);
const _: () = assert!(PAGE_SIZE - 1 <= OFFSET_MASK as usize, "an offset fits a slot");
const _: () = assert!(
    HEADER_SIZE + TRAILER + 3 * MAX_KEY_BYTES + SLOT + 4 + 4 <= PAGE_SIZE,
    "a page with one entry always fits"
);

/// An open leaf or inner page.
#[derive(Clone, Copy)]
pub(crate) struct Node<R> {
    pub(crate) page: R,
    pub(crate) level: u8,
    pub(crate) flags: u16,
    pub(crate) count: usize,
    pub(crate) upper: usize,
    pub(crate) special: usize,
    pub(crate) garbage: usize,
    pub(crate) low_len: usize,
    pub(crate) high_len: usize,
    pub(crate) prefix: usize,
    pub(crate) left: u32,
    pub(crate) right: u32,
}

/// An entry's item, located.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// Where it starts.
    pub(crate) start: usize,
    /// Where it ends.
    pub(crate) end: usize,
    /// Child block (inner pages).
    pub(crate) child: u32,
    /// Bytes of the key after the prefix, the head's included.
    pub(crate) rem: usize,
    /// Where the bytes after the head are.
    pub(crate) rest: usize,
    /// Where the extra area's bytes are.
    pub(crate) extra: usize,
    /// Tags of the slot.
    pub(crate) tags: u16,
}

impl Item {
    /// Bytes after the head.
    pub(crate) fn rest_len(&self) -> usize {
        self.rem.saturating_sub(HEAD)
    }

    /// Bytes of the extra area.
    pub(crate) fn extra_len(&self) -> usize {
        if self.tags & EXTRA == 0 { 0 } else { self.end - self.extra }
    }
}

/// Where a search ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SearchPosition {
    /// First entry not below the key.
    pub(crate) pos: usize,
    /// Is it the key itself?
    pub(crate) exact: bool,
}

/// The first four bytes of `rem`, zero padded, as one comparable integer.
#[inline]
pub(crate) fn head_of(rem: &[u8]) -> u32 {
    match rem.first_chunk::<HEAD>() {
        Some(four) => u32::from_be_bytes(*four),
        None => (gather(rem) as u32).swap_bytes(),
    }
}

/// Is the kind of this page one that [`Node::open`] takes?
#[inline]
pub(crate) fn is_node<R: PageRead>(page: R) -> bool {
    let kind = page.u8(KIND);
    kind == PageKind::BtreeLeaf as u8 || kind == PageKind::BtreeInner as u8
}

/// Vacuum cycle id of a page.
pub(crate) fn cycle_of(page: &[u8; PAGE_SIZE]) -> u32 {
    header::u32_at(page, OWNER + 4)
}

/// What an entry holds besides its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryValue<'a> {
    /// Payload or posting list (leaves).
    pub(crate) extra: &'a [u8],
    /// Child (inner pages).
    pub(crate) child: u32,
    /// Tags of the slot.
    pub(crate) tags: u16,
}

/// Bytes of an item whose key has `rem` bytes after the prefix.
pub(crate) fn item_size(rem: usize, extra: usize, level: u8) -> usize {
    let child = if level == 0 { 0 } else { 4 };
    let tail = if extra == 0 { 0 } else { varint_size(extra) + extra };
    child + varint_size(rem) + rem.saturating_sub(HEAD) + tail
}

pub(super) fn varint_size(value: usize) -> usize {
    if value < 0x80 { 1 } else { 2 }
}

impl<R: PageRead> Node<R> {
    /// Opens a leaf or inner page, and checks its header and trailer.
    #[inline(always)]
    pub(crate) fn open(page: R) -> Checked<Self> {
        // Five words hold all that is needed of header and trailer.
        let (head, owner) = (page.word(0), page.word(OWNER / 8));
        let (bounds, links) = (page.word(LOWER / 8), page.word(LEFT / 8));
        let lengths = page.word(LOW_LEN / 8);
        let (kind, level) = ((head >> 32) as u8, owner as u8);
        let expected = if level == 0 { PageKind::BtreeLeaf } else { PageKind::BtreeInner };
        if kind != expected as u8 {
            let known = kind == PageKind::BtreeLeaf as u8 || kind == PageKind::BtreeInner as u8;
            return Err(if known { "kind and level disagree" } else { "not a page of a tree" });
        }
        let half = |word: u64, n: usize| usize::from((word >> (16 * n)) as u16);
        let lower = half(bounds, 0);
        let node = Node {
            page,
            level,
            flags: half(head, 3) as u16,
            count: lower.saturating_sub(HEADER_SIZE) / SLOT,
            upper: half(bounds, 1),
            special: half(bounds, 2),
            garbage: half(bounds, 3),
            low_len: half(lengths, 0),
            high_len: half(lengths, 1),
            prefix: half(lengths, 2),
            left: links as u32,
            right: (links >> 32) as u32,
        };
        node.check_header(lower)?;
        Ok(node)
    }

    #[inline(always)]
    fn check_header(&self, lower: usize) -> Checked<()> {
        if lower != HEADER_SIZE + self.count * SLOT || lower > self.upper {
            return Err("the slot array does not end where it should");
        }
        if self.upper > self.special
            || self.special + self.low_len + self.high_len + TRAILER != PAGE_SIZE
        {
            return Err("fences and item area do not fit together");
        }
        if self.prefix > self.low_len {
            return Err("the prefix is longer than the low fence");
        }
        if self.right == 0 && self.high_len != 0 {
            return Err("a rightmost page has a high key");
        }
        if self.left == 0 && self.prefix != self.low_len {
            return Err("a leftmost page has a low fence");
        }
        if self.level != 0 && self.count == 0 {
            return Err("an inner page without a child");
        }
        Ok(())
    }

    /// Is this a leaf?
    pub(crate) fn is_leaf(&self) -> bool {
        self.level == 0
    }

    /// Bytes free in one piece.
    pub(crate) fn free_bytes(&self) -> usize {
        self.upper - HEADER_SIZE - self.count * SLOT
    }

    /// The slot word of entry `i`.
    #[inline]
    pub(crate) fn word(&self, i: usize) -> u16 {
        debug_assert!(i < self.count);
        self.page.u16(HEADER_SIZE + i * SLOT)
    }

    /// The head of entry `i`.
    #[inline(always)]
    pub(crate) fn head(&self, i: usize) -> u32 {
        debug_assert!(i < self.count);
        u32::from_be(self.page.u32(HEADER_SIZE + i * SLOT + 2))
    }

    /// The head that the high key would have; `None` on a rightmost page.
    #[inline]
    pub(crate) fn high_head(&self) -> Option<u32> {
        let len = self.high_len.saturating_sub(self.prefix).min(HEAD);
        let at = self.special + self.low_len + self.prefix;
        let bytes = u32::from_be(self.page.u32(at));
        (self.right != 0).then(|| bytes & !(u32::MAX.checked_shr(8 * len as u32).unwrap_or(0)))
    }

    /// Is entry `i` marked dead?
    pub(crate) fn is_dead(&self, i: usize) -> bool {
        self.word(i) & DEAD != 0
    }

    #[inline]
    fn varint(&self, at: &mut usize) -> usize {
        let first = usize::from(self.page.u8(*at));
        *at += 1;
        if first < 0x80 {
            return first;
        }
        let second = usize::from(self.page.u8(*at));
        *at += 1;
        first & 0x7f | second << 7
    }

    /// Entry `i`'s item, checked.
    #[inline]
    pub(crate) fn item(&self, i: usize) -> Checked<Item> {
        let (word, start) = (self.word(i), self.start(i)?);
        // Child and length are in the first eight bytes, which are read at once.
        let first = self.page.u64(start);
        let (child, first, at) =
            if self.is_leaf() { (0, first, start) } else { (first as u32, first >> 32, start + 4) };
        let (rem, mut at) = match first & 0x80 {
            0 => (first & 0x7f, at + 1),
            _ => (first & 0x7f | (first >> 8 & 0xff) << 7, at + 2),
        };
        let (rem, tags) = (rem as usize, word & !OFFSET_MASK);
        let mut item = Item { start, end: 0, child, rem, rest: at, extra: 0, tags };
        at += item.rest_len();
        if word & EXTRA != 0 && at < self.special {
            let len = self.varint(&mut at);
            item.extra = at;
            at += len;
        }
        item.end = at;
        if at > self.special {
            return Err("an item reaches into the fences");
        }
        if self.is_leaf() && self.prefix + rem < RowId::SIZE {
            return Err("a key is shorter than a row id");
        }
        if self.prefix + rem > MAX_KEY_BYTES || word & (EXTRA | POSTING) == POSTING {
            return Err("a key is too long or its tags make no sense");
        }
        Ok(item)
    }

    /// Child of entry `i`.
    #[inline(always)]
    pub(crate) fn child(&self, i: usize) -> Checked<u32> {
        debug_assert!(!self.is_leaf());
        Ok(self.page.u32(self.start(i)?))
    }

    /// Where the item of entry `i` starts.
    #[inline(always)]
    fn start(&self, i: usize) -> Checked<usize> {
        let start = usize::from(self.word(i) & OFFSET_MASK);
        if start < self.upper || start >= self.special {
            return Err("a slot points outside the item area");
        }
        Ok(start)
    }

    /// Bytes of the key of leaf entry `i` after the prefix, unchecked.
    #[inline]
    pub(crate) fn key_len(&self, i: usize) -> Checked<usize> {
        let mut at = self.start(i)?;
        Ok(self.varint(&mut at))
    }

    /// The low fence; empty on a leftmost page.
    pub(crate) fn low(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.left != 0 {
            self.page.append(self.special, self.low_len, &mut out);
        }
        out
    }

    /// The high key; `None` on a rightmost page.
    pub(crate) fn high(&self) -> Option<Vec<u8>> {
        (self.right != 0).then(|| {
            let mut out = Vec::new();
            self.page.append(self.special + self.low_len, self.high_len, &mut out);
            out
        })
    }

    /// Appends the whole key of entry `i`. The first entry of an inner page has the prefix only.
    pub(crate) fn append_key(&self, i: usize, out: &mut Vec<u8>) -> Checked<Item> {
        let item = self.item(i)?;
        self.page.append(self.special, self.prefix, out);
        let head = self.head(i).to_be_bytes();
        out.extend_from_slice(&head[..item.rem.min(HEAD)]);
        self.page.append(item.rest, item.rest_len(), out);
        Ok(item)
    }

    /// The whole key of entry `i`.
    pub(crate) fn key(&self, i: usize) -> Checked<Vec<u8>> {
        let mut out = Vec::new();
        self.append_key(i, &mut out)?;
        Ok(out)
    }

    /// The row id of leaf entry `i`.
    pub(crate) fn row(&self, i: usize) -> Checked<RowId> {
        self.item(i).map(|item| self.row_of(i, &item))
    }

    /// The row id of leaf entry `i`, whose item is `item`: the last bytes of its key.
    pub(crate) fn row_of(&self, i: usize, item: &Item) -> RowId {
        if item.rest_len() >= RowId::SIZE {
            let word = self.page.u64(item.rest + item.rest_len() - RowId::SIZE);
            let [a, b, c, d, e, f, ..] = word.to_le_bytes();
            return RowId::from_bytes([a, b, c, d, e, f]);
        }
        if item.rem >= RowId::SIZE {
            // The row id begins in the head, whose bytes go in front of the others.
            let rest = self.page.u64(item.rest).swap_bytes() >> (64 - 8 * item.rest_len());
            let word = u64::from(self.head(i)) << (8 * item.rest_len()) | rest;
            let [.., a, b, c, d, e, f] = word.to_be_bytes();
            return RowId::from_bytes([a, b, c, d, e, f]);
        }
        let mut bytes = [0; RowId::SIZE];
        let head = self.head(i).to_be_bytes();
        let start = (self.prefix + item.rem).saturating_sub(RowId::SIZE);
        for (at, byte) in (start..).zip(&mut bytes) {
            *byte = match at.checked_sub(self.prefix) {
                None => self.page.u8(self.special + at),
                Some(at) if at < HEAD => head[at],
                Some(at) => self.page.u8(item.rest + at - HEAD),
            };
        }
        RowId::from_bytes(bytes)
    }

    /// Does the key of entry `i`, whose item is `item`, begin with `with`?
    pub(crate) fn opens_with(&self, i: usize, item: &Item, with: &[u8]) -> bool {
        let heads = with.len() <= self.prefix || self.head_opens_with(i, with);
        heads && self.rest_opens_with(item, with) && self.prefix_opens(with)
    }

    /// Does the prefix begin with `with`, or `with` with the prefix?
    #[inline]
    pub(crate) fn prefix_opens(&self, with: &[u8]) -> bool {
        let both = self.prefix.min(with.len());
        count(|c| c.bytes += self.touched(self.special, both, with));
        self.page.common(self.special, both, with) == both
    }

    /// Does the key whose item is `item` go on as `with` does after prefix and head?
    #[inline]
    pub(crate) fn rest_opens_with(&self, item: &Item, with: &[u8]) -> bool {
        let rest = with.get(self.prefix..).unwrap_or(&[]);
        let tail = rest.get(HEAD..).unwrap_or(&[]);
        count(|c| c.bytes += self.touched(item.rest, tail.len(), tail));
        rest.len() <= item.rem && self.page.common(item.rest, tail.len(), tail) == tail.len()
    }

    /// Does the head of entry `i` begin as `with` does there? If not, neither does the key.
    #[inline]
    pub(crate) fn head_opens_with(&self, i: usize, with: &[u8]) -> bool {
        let rest = with.get(self.prefix..).unwrap_or(&[]);
        let differ = (self.head(i) ^ head_of(rest)).leading_zeros() as usize / 8;
        let both = rest.len().min(HEAD);
        count(|c| c.bytes += (differ + 1).min(both) as u64);
        differ >= both
    }

    /// Bytes that a comparison of page bytes with `key` touches.
    fn touched(&self, at: usize, len: usize, key: &[u8]) -> u64 {
        let both = len.min(key.len());
        (self.page.common(at, len, key) + 1).min(both) as u64
    }

    /// Order of `key` against the low fence; above everything on a leftmost page.
    pub(crate) fn cmp_low(&self, key: &[u8]) -> Ordering {
        if self.left == 0 {
            return Ordering::Greater;
        }
        count(|c| {
            c.low_fences += 1;
            c.bytes += self.touched(self.special, self.low_len, key);
        });
        self.page.compare(self.special, self.low_len, key).reverse()
    }

    /// Order of `key` against the high key; below everything on a rightmost page.
    pub(crate) fn cmp_high(&self, key: &[u8]) -> Ordering {
        if self.right == 0 {
            return Ordering::Less;
        }
        count(|c| {
            c.high_keys += 1;
            c.bytes += self.touched(self.special + self.low_len, self.high_len, key);
        });
        self.page.compare(self.special + self.low_len, self.high_len, key).reverse()
    }

    /// Order of `key` against the keys of this page as far as the prefix tells.
    #[inline]
    pub(crate) fn cmp_prefix(&self, key: &[u8]) -> Ordering {
        if self.prefix == 0 {
            return Ordering::Equal;
        }
        let both = self.prefix.min(key.len());
        count(|c| {
            c.prefixes += 1;
            c.bytes += self.touched(self.special, both, key);
        });
        let order = self.page.compare(self.special, both, &key[..both]).reverse();
        if order == Ordering::Equal && key.len() < self.prefix { Ordering::Less } else { order }
    }
}

impl<'a> Node<&'a [u8; PAGE_SIZE]> {
    /// Payload of an entry without posting list.
    pub(crate) fn payload(&self, item: &Item) -> Checked<&'a [u8]> {
        debug_assert!(item.tags & POSTING == 0);
        self.page.get(item.extra..item.extra + item.extra_len()).ok_or("a payload outside the page")
    }

    /// Bytes of the page that are in use.
    pub(crate) fn used_bytes(&self) -> usize {
        (PAGE_SIZE - self.free_bytes()).saturating_sub(self.garbage)
    }
}
