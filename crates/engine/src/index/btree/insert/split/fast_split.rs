//! Fast split of the usual leaf: items are copied instead of decoded and encoded again.
//!
//! Most leaves that are split hold keys that differ early, without posting lists, payload or dead
//! marks. Their heads tell order and separators, and their items are copied as they are, or
//! without the first bytes where a half has a longer prefix.
//!
//! Invariants: heads that ascend, with four bytes of key behind the prefix, prove that the keys
//! ascend and that no two are equal. Any other leaf is left to `split`.
//! Does not do: leaves that grow at one end (`split_point`), latch, log.

use crate::config::PAGE_SIZE;
use crate::ids::RowId;
use crate::index::btree::insert::split::split_point::is_next_row;
use crate::index::btree::page::edit::{
    self, NodeHeader, PlainItem, SplitBlocks, SplitImages, split_headers,
};
use crate::index::btree::page::node::{HAS_DEAD, HEAD, Node, SLOT, head_of};
use crate::index::btree::page::posting::row_id_of;

/// Least bytes of a tree key behind the prefix: the head then holds no part of the row id.
const MIN_KEY_BYTES: usize = HEAD + RowId::SIZE;

/// An entry of a plain leaf: its head, and the place of the bytes behind it on the page, unless it
/// is the new entry.
struct ItemSpan {
    head: u32,
    start: u16,
    len: u16,
}

impl ItemSpan {
    fn size(&self) -> usize {
        edit::item_size(usize::from(self.len) + HEAD, 0, 0) + SLOT
    }
}

/// A plan to split a plain leaf.
pub(crate) struct FastSplit {
    item_spans: Vec<ItemSpan>,
    /// Position of the new entry.
    new_at: usize,
    /// The bytes of its key behind its head.
    new_rest: Vec<u8>,
    /// First entry of the right half.
    at: usize,
    separator: Vec<u8>,
    prefix: usize,
}

/// The entries of `node`, with `new` in front of entry `pos`. `None`: not all are plain, or their
/// heads do not ascend.
fn item_spans(node: &Node<&[u8; PAGE_SIZE]>, pos: usize, new: ItemSpan) -> Option<Vec<ItemSpan>> {
    let mut item_spans = Vec::with_capacity(node.count + 1);
    let mut new = Some(new);
    for i in 0..node.count {
        if i == pos {
            item_spans.extend(new.take());
        }
        let item = node.item(i).ok()?;
        if item.tags != 0 || item.rem < MIN_KEY_BYTES {
            return None;
        }
        let (start, len) = (item.rest as u16, item.rest_len() as u16);
        item_spans.push(ItemSpan { head: node.head(i), start, len });
    }
    item_spans.is_sorted_by(|a, b| a.head < b.head).then_some(item_spans)
}

/// The first entry of the right half, and how many bytes of its head the entry before shares.
fn middle(item_spans: &[ItemSpan], tolerance: usize) -> (usize, usize) {
    let total: usize = item_spans.iter().map(ItemSpan::size).sum();
    let points = || {
        let mut left = 0;
        item_spans.windows(2).enumerate().map(move |(i, pair)| {
            left += pair[0].size();
            (left.abs_diff(total - left) / 2, i + 1)
        })
    };
    let best = points().map(|(far, _)| far).min().expect("two entries and the new one");
    let shared =
        |at: usize| (item_spans[at - 1].head ^ item_spans[at].head).leading_zeros() as usize / 8;
    let near = points().filter(|(far, _)| *far <= best + tolerance);
    let chosen = near.map(|(far, at)| (shared(at), far, at)).min();
    let (shared, _, at) = chosen.expect("the best one is near itself");
    (at, shared)
}

impl FastSplit {
    /// Plans the split of `node` for a new `key` without payload in front of entry `pos`: near the
    /// middle, within `tolerance` bytes where the separator is shortest. `None`: the leaf is not
    /// plain, or the new entry suggests another split point.
    pub(crate) fn plan(
        node: &Node<&[u8; PAGE_SIZE]>,
        pos: usize,
        key: &[u8],
        tolerance: usize,
    ) -> Option<FastSplit> {
        let inside = (1..node.count).contains(&pos) && node.left != 0 && node.right != 0;
        if !node.is_leaf() || !inside || node.flags & HAS_DEAD != 0 || node.cmp_prefix(key).is_ne()
        {
            return None;
        }
        let rem = &key[node.prefix..];
        if rem.len() < MIN_KEY_BYTES || is_next_row(node.row(pos - 1).ok()?, row_id_of(key).ok()?) {
            return None;
        }
        let rest = rem[HEAD..].to_vec();
        let new = ItemSpan { head: head_of(rem), start: 0, len: rest.len() as u16 };
        let item_spans = item_spans(node, pos, new)?;
        let (first, last) = (node.key(0).ok()?, node.key(node.count - 1).ok()?);
        if node.cmp_low(&first).is_lt() || node.cmp_high(&last).is_ge() {
            return None;
        }
        let (at, shared) = middle(&item_spans, tolerance);
        let mut separator = first;
        separator.truncate(node.prefix);
        separator.extend_from_slice(&item_spans[at].head.to_be_bytes()[..=shared]);
        Some(FastSplit {
            item_spans,
            new_at: pos,
            new_rest: rest,
            at,
            separator,
            prefix: node.prefix,
        })
    }

    /// Both halves of `page`, which is the planned one; `None` if they do not fit.
    pub(crate) fn halves(
        &self,
        page: &[u8; PAGE_SIZE],
        header: &NodeHeader,
        blocks: SplitBlocks,
    ) -> Option<SplitImages> {
        let (left, right) = split_headers(header, &self.separator, blocks);
        let items = |range: std::ops::Range<usize>| {
            let item_spans = self.item_spans[range.clone()].iter().zip(range);
            item_spans.map(move |(piece, i)| {
                let (start, len) = (usize::from(piece.start), usize::from(piece.len));
                let copied = || &page[start..start + len];
                let rest = if i == self.new_at { self.new_rest.as_slice() } else { copied() };
                PlainItem { head: piece.head, rest }
            })
        };
        let left = left.image_of_items(self.prefix, items(0..self.at))?;
        let right = right.image_of_items(self.prefix, items(self.at..self.item_spans.len()))?;
        Some(SplitImages { left, right })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::btree::page::edit::EntryValue;
    use crate::index::btree::page::entries::Entries;
    use crate::index::btree::page::node::{INCOMPLETE, common};
    use rightlink_env::Rng;

    fn key(rng: &mut Rng, first: u8, tail: usize) -> Vec<u8> {
        let mut key = vec![b'p', first];
        key.extend((0..tail + RowId::SIZE).map(|_| rng.next_u64() as u8));
        key
    }

    fn keys_of(image: &[u8; PAGE_SIZE]) -> Vec<Vec<u8>> {
        let node = Node::open(image).unwrap();
        (0..node.count).map(|i| node.key(i).unwrap()).collect()
    }

    fn header() -> NodeHeader {
        let (low, high) = (b"p\x20".to_vec(), Some(b"p\xf0\x01".to_vec()));
        NodeHeader { left: 3, right: 4, cycle: 9, low, high, ..NodeHeader::default() }
    }

    fn leaf(keys: &[Vec<u8>]) -> Box<[u8; PAGE_SIZE]> {
        let mut entries = Entries::default();
        keys.iter().for_each(|key| entries.push(key, EntryValue::default()));
        header().image_of(&entries).unwrap()
    }

    /// Both halves hold what the leaf held and the new entry, between the fences they should have.
    #[test]
    fn halves_hold_all_entries() {
        let (mut rng, mut longer) = (Rng::from_seed(4), 0);
        for round in 0..200 {
            let count = 3 + rng.index(150);
            let mut keys: Vec<_> =
                (0..2 * count).map(|_| key(&mut rng, 0x20 + (round % 8 * 26) as u8, 4)).collect();
            keys.extend((0..count).map(|n| key(&mut rng, 0x21 + (n % 0xc0) as u8, 5 + n % 9)));
            keys.sort_unstable();
            let pos = 1 + rng.index(keys.len() - 2);
            let new = keys.remove(pos);
            let image = leaf(&keys);
            let node = Node::open(&*image).unwrap();
            let Some(plan) = FastSplit::plan(&node, pos, &new, 100) else {
                // Two of them begin alike, or the rows look as if they came together.
                let is_next_row = is_next_row(node.row(pos - 1).unwrap(), row_id_of(&new).unwrap());
                keys.insert(pos, new);
                assert!(is_next_row || keys.windows(2).any(|pair| pair[0][1..5] == pair[1][1..5]));
                continue;
            };
            let SplitImages { left, right } =
                plan.halves(&image, &header(), SplitBlocks { left: 7, right: 8 }).unwrap();
            keys.insert(pos, new);
            assert_eq!([keys_of(&left), keys_of(&right)].concat(), keys);
            let (left, right) = (Node::open(&*left).unwrap(), Node::open(&*right).unwrap());
            let separator = left.high().unwrap();
            assert_eq!((&separator, left.right, right.left), (&right.low(), 8, 7));
            assert_eq!((left.low(), right.high()), (node.low(), node.high()));
            assert_eq!((left.left, right.right), (node.left, node.right));
            assert_eq!((left.flags, right.flags), (INCOMPLETE, 0));
            assert!(keys[left.count - 1] < separator && separator <= keys[left.count]);
            assert_eq!(*separator, keys[left.count][..separator.len()]);
            assert!(left.free_bytes().abs_diff(right.free_bytes()) < 600, "near the middle");
            let shared = |node: &Node<&[u8; PAGE_SIZE]>| common(&node.low(), &node.high().unwrap());
            assert_eq!((left.prefix, right.prefix), (shared(&left), shared(&right)));
            longer += usize::from(left.prefix.max(right.prefix) > node.prefix);
            assert!(Entries::load(&left).is_ok() && Entries::load(&right).is_ok());
        }
        assert!(longer > 5, "halves with longer prefixes: {longer}");
    }

    /// Dead marks, equal heads, payload, and keys that are all row id.
    #[test]
    fn leaves_that_are_not_plain_are_left_alone() {
        let mut rng = Rng::from_seed(5);
        let mut keys: Vec<_> = (0x30..0x50).map(|first| key(&mut rng, first, 8)).collect();
        let new = key(&mut rng, 0x40, 8);
        let plans = |keys: &[Vec<u8>], value: EntryValue<'_>| {
            let pos = keys.partition_point(|key| *key < new);
            let mut entries = Entries::default();
            keys.iter().for_each(|key| entries.push(key, value));
            let image = header().image_of(&entries).unwrap();
            FastSplit::plan(&Node::open(&*image).unwrap(), pos, &new, 100).is_some()
        };
        assert!(plans(&keys, EntryValue::default()));
        assert!(!plans(&keys, EntryValue { extra: b"x", ..EntryValue::default() }));
        assert!(!plans(
            &keys,
            EntryValue { tags: crate::index::btree::page::node::DEAD, ..EntryValue::default() }
        ));
        let mut twin = keys[3].clone();
        *twin.last_mut().unwrap() ^= 1;
        let at = 3 + usize::from(twin > keys[3]);
        keys.insert(at, twin);
        assert!(!plans(&keys, EntryValue::default()));
        let short: Vec<_> = (0x30..0x50).map(|first| key(&mut rng, first, 1)).collect();
        assert!(!plans(&short, EntryValue::default()));
    }
}
