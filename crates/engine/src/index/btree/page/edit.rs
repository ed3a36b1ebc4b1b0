//! Changes of a page: entries encoded into a fresh image, or stored in place one by one.
//!
//! Invariants: an image built here opens without damage. Its free space is zero, so that its log
//! record is short. A change in place is a few small stores, and is made only if it fits.
//! Does not do: choose where to split (`insert/split`), latch, log.

use std::ops::Range;

use crate::config::PAGE_SIZE;
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::node::{
    self, DEAD, EXTRA, HAS_DEAD, HEAD, HIGH_LEN, INCOMPLETE, Item, LEFT, LOW_LEN, Node, POSTING,
    PREFIX_LEN, RIGHT, SLOT, TRAILER, common, head_of, varint_size,
};
pub(crate) use crate::index::btree::page::node::{EntryValue, item_size};
use crate::index::btree::page::posting::{self, PostingRow};
use crate::index::btree::page::read::PageRead;
use crate::index::bytes_left_unused;
use crate::page::header::{FLAGS, GARBAGE, HEADER_SIZE, LOWER, OWNER, UPPER};
use crate::page::{PageKind, PageMut, header};

/// Writes `value` at the beginning of `out` and returns what follows.
fn write_varint(out: &mut [u8], value: usize) -> &mut [u8] {
    assert!(value < 1 << 14, "lengths inside a page");
    if value < 0x80 {
        out[0] = value as u8;
    } else {
        (out[0], out[1]) = ((value & 0x7f) as u8 | 0x80, (value >> 7) as u8);
    }
    &mut out[varint_size(value)..]
}

/// Fills `out`, of [`item_size`], with the item of a key that has `rem` after the prefix.
fn write_item(mut out: &mut [u8], rem: &[u8], value: EntryValue<'_>, level: u8) {
    if level != 0 {
        out[..4].copy_from_slice(&value.child.to_le_bytes());
        out = &mut out[4..];
    }
    out = write_varint(out, rem.len());
    let rest = &rem[rem.len().min(HEAD)..];
    let (key, mut tail) = out.split_at_mut(rest.len());
    key.copy_from_slice(rest);
    if !value.extra.is_empty() {
        tail = write_varint(tail, value.extra.len());
        tail.copy_from_slice(value.extra);
    }
}

/// A leaf entry without tags: the head of its key behind the prefix, and the bytes after it.
#[derive(Clone, Copy)]
pub(crate) struct PlainItem<'a> {
    pub(crate) head: u32,
    pub(crate) rest: &'a [u8],
}

impl PlainItem<'_> {
    /// Bytes of its item.
    #[inline]
    fn size(&self) -> usize {
        item_size(self.rest.len() + HEAD, 0, 0)
    }

    /// The entry on a page whose prefix is longer by so many bytes, at most a head.
    #[inline]
    fn without(self, bytes: usize) -> Self {
        let (next, rest) = self.rest.split_at(bytes);
        let head = next.iter().fold(self.head, |head, byte| head << 8 | u32::from(*byte));
        PlainItem { head, rest }
    }
}

fn tags_of(value: EntryValue<'_>) -> u16 {
    match value.extra.is_empty() {
        true => value.tags & DEAD,
        false => value.tags & (DEAD | POSTING) | EXTRA,
    }
}

/// The header of a page, its links and its fences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeHeader {
    /// Height above the leaves.
    pub(crate) level: u8,
    /// Page flags.
    pub(crate) flags: u16,
    /// Vacuum cycle id.
    pub(crate) cycle: u32,
    /// Left link.
    pub(crate) left: u32,
    /// Right link.
    pub(crate) right: u32,
    /// Low fence.
    pub(crate) low: Vec<u8>,
    /// High key, unless rightmost.
    pub(crate) high: Option<Vec<u8>>,
    /// Bytes of a page that stay unused once it holds a few entries (tests make pages small).
    pub(crate) unused_bytes: usize,
}

impl NodeHeader {
    /// The header of an existing page.
    pub(crate) fn of(node: &Node<&[u8; PAGE_SIZE]>, unused_bytes: usize) -> NodeHeader {
        NodeHeader {
            level: node.level,
            flags: node.flags,
            cycle: node::cycle_of(node.page),
            left: node.left,
            right: node.right,
            low: node.low(),
            high: node.high(),
            unused_bytes,
        }
    }

    /// The bytes whose beginning is the prefix: the low fence, or on a leftmost page the smallest
    /// key. The first entry of an inner page has no key, and the second must differ from the
    /// prefix.
    pub(crate) fn base<'a>(&'a self, entries: &'a Entries, from: usize, to: usize) -> &'a [u8] {
        if self.left != 0 {
            return &self.low;
        }
        debug_assert!(self.low.is_empty());
        match self.level {
            0 if from < to => entries.key(from),
            1.. if from + 1 < to => {
                let key = entries.key(from + 1);
                &key[..key.len() - 1]
            }
            _ => &[],
        }
    }

    /// Length of the prefix of a page with this header and `entries[from..to]`.
    fn prefix(&self, entries: &Entries, from: usize, to: usize) -> usize {
        let base = self.base(entries, from, to);
        match &self.high {
            Some(high) => common(base, high),
            // The last row, not the last item: a list may lose its first rows in place.
            None if to > from => common(base, &entries.last_key(to - 1)),
            None => 0,
        }
    }

    /// Bytes of header, trailer and fences, if the page has a `prefix`.
    pub(crate) fn fixed(&self, prefix: usize) -> usize {
        let low = if self.left == 0 { prefix } else { self.low.len() };
        HEADER_SIZE + TRAILER + low + self.high.as_ref().map_or(0, Vec::len)
    }

    /// Bytes that would be free on a page with all of `entries`; `None` when they do not fit.
    pub(crate) fn free_bytes(&self, entries: &Entries) -> Option<usize> {
        let all = 0..entries.len();
        self.free_bytes_of(entries, all, self.prefix(entries, 0, entries.len()))
    }

    /// The same of `entries[from..to]`, whose page has a `prefix`.
    fn free_bytes_of(
        &self,
        entries: &Entries,
        range: Range<usize>,
        prefix: usize,
    ) -> Option<usize> {
        let (from, to) = (range.start, range.end);
        let used: usize = range
            .map(|i| {
                if i == from && self.level > 0 {
                    item_size(0, 0, self.level) + SLOT
                } else {
                    entries.size(i, self.level, prefix)
                }
            })
            .sum();
        let room = PAGE_SIZE.checked_sub(self.fixed(prefix) + used)?;
        (room >= bytes_left_unused(self.unused_bytes, to - from)).then_some(room)
    }

    /// Image of a page that holds `entries[from..to]`; `None` when they do not fit.
    pub(crate) fn image(
        &self,
        entries: &Entries,
        from: usize,
        to: usize,
    ) -> Option<Box<[u8; PAGE_SIZE]>> {
        assert!(self.high.is_some() == (self.right != 0), "only a rightmost page has no high key");
        let prefix = self.prefix(entries, from, to);
        self.free_bytes_of(entries, from..to, prefix)?;
        let low = if self.left == 0 { &self.base(entries, from, to)[..prefix] } else { &self.low };
        let mut image = self.empty_image(low, prefix);
        let upper = PAGE_SIZE - TRAILER - low.len() - self.high.as_ref().map_or(0, Vec::len);
        let mut writer = ImageWriter { image: &mut image, level: self.level, slots: 0, upper };
        for i in from..to {
            let rem = if i == from && self.level > 0 { &[] } else { &entries.key(i)[prefix..] };
            writer.put(rem, entries.value(i));
        }
        writer.finish();
        if (from..to).any(|i| entries.has_dead(i)) {
            let flags = header::u16_at(&image, FLAGS) | HAS_DEAD;
            image[FLAGS..FLAGS + 2].copy_from_slice(&flags.to_le_bytes());
        }
        debug_assert!(Node::open(&*image).is_ok_and(|node| node.count == to - from));
        Some(image)
    }

    /// As [`NodeHeader::image`], of a leaf with two fences. Its `items` have no tags, and come from
    /// a page with a `prefix` that begins theirs.
    pub(crate) fn image_of_items<'a>(
        &self,
        prefix: usize,
        items: impl Iterator<Item = PlainItem<'a>> + Clone,
    ) -> Option<Box<[u8; PAGE_SIZE]>> {
        let high = self.high.as_ref().expect("a leaf with a high key");
        assert!(self.left != 0 && self.level == 0, "a leaf with a low fence");
        let own = common(&self.low, high);
        let longer = own.checked_sub(prefix).filter(|more| *more <= HEAD)?;
        let items = items.map(|item| item.without(longer));
        let count = items.clone().count();
        let used: usize = items.clone().map(|item| item.size() + SLOT).sum();
        if self.fixed(own) + used + bytes_left_unused(self.unused_bytes, count) > PAGE_SIZE {
            return None;
        }
        let mut image = self.empty_image(&self.low, own);
        let upper = PAGE_SIZE - TRAILER - self.low.len() - high.len();
        let mut writer = ImageWriter { image: &mut image, level: 0, slots: 0, upper };
        items.for_each(|item| writer.copy(&item));
        writer.finish();
        debug_assert!(Node::open(&*image).is_ok_and(|node| node.count == count));
        Some(image)
    }

    fn empty_image(&self, low: &[u8], prefix: usize) -> Box<[u8; PAGE_SIZE]> {
        let kind = if self.level == 0 { PageKind::BtreeLeaf } else { PageKind::BtreeInner };
        let high = self.high.as_deref().unwrap_or_default();
        let mut image = Box::new(header::format(kind, TRAILER + low.len() + high.len()));
        let special = PAGE_SIZE - TRAILER - low.len() - high.len();
        image[special..special + low.len()].copy_from_slice(low);
        image[special + low.len()..PAGE_SIZE - TRAILER].copy_from_slice(high);
        image[FLAGS..FLAGS + 2].copy_from_slice(&(self.flags & !HAS_DEAD).to_le_bytes());
        image[OWNER] = self.level;
        image[OWNER + 4..OWNER + 8].copy_from_slice(&self.cycle.to_le_bytes());
        image[LEFT..LEFT + 4].copy_from_slice(&self.left.to_le_bytes());
        image[RIGHT..RIGHT + 4].copy_from_slice(&self.right.to_le_bytes());
        for (at, len) in [(LOW_LEN, low.len()), (HIGH_LEN, high.len()), (PREFIX_LEN, prefix)] {
            image[at..at + 2].copy_from_slice(&(len as u16).to_le_bytes());
        }
        image
    }

    /// Image with all of `entries`.
    pub(crate) fn image_of(&self, entries: &Entries) -> Option<Box<[u8; PAGE_SIZE]>> {
        self.image(entries, 0, entries.len())
    }
}

/// The blocks of a page that is split, and of its new right sibling.
#[derive(Clone, Copy)]
pub(crate) struct SplitBlocks {
    pub(crate) left: u32,
    pub(crate) right: u32,
}

/// The images of a page that is split, and of its new right sibling.
pub(crate) struct SplitImages {
    pub(crate) left: Box<[u8; PAGE_SIZE]>,
    pub(crate) right: Box<[u8; PAGE_SIZE]>,
}

/// Headers of both halves of a page that is split at `separator`.
pub(crate) fn split_headers(
    header: &NodeHeader,
    separator: &[u8],
    blocks: SplitBlocks,
) -> (NodeHeader, NodeHeader) {
    let left = NodeHeader {
        flags: header.flags | INCOMPLETE,
        right: blocks.right,
        high: Some(separator.to_vec()),
        ..header.clone()
    };
    (left, NodeHeader { flags: 0, left: blocks.left, low: separator.to_vec(), ..header.clone() })
}

/// Fills an image, entry after entry.
struct ImageWriter<'a> {
    image: &'a mut [u8; PAGE_SIZE],
    level: u8,
    slots: usize,
    upper: usize,
}

impl ImageWriter<'_> {
    #[inline]
    fn put(&mut self, rem: &[u8], value: EntryValue<'_>) {
        let end = self.upper;
        let upper = end - item_size(rem.len(), value.extra.len(), self.level);
        let slot = HEADER_SIZE + self.slots * SLOT;
        assert!(upper >= slot + SLOT, "the size was checked");
        write_item(&mut self.image[upper..end], rem, value, self.level);
        self.image[slot..slot + SLOT].copy_from_slice(&slot_of(upper, rem, value));
        (self.slots, self.upper) = (self.slots + 1, upper);
    }

    /// Appends a leaf entry without tags.
    #[inline]
    fn copy(&mut self, item: &PlainItem<'_>) {
        let end = self.upper;
        let upper = end - item.size();
        let slot = HEADER_SIZE + self.slots * SLOT;
        assert!(upper >= slot + SLOT, "the size was checked");
        let rest = write_varint(&mut self.image[upper..end], item.rest.len() + HEAD);
        rest.copy_from_slice(item.rest);
        self.image[slot..slot + 2].copy_from_slice(&(upper as u16).to_le_bytes());
        self.image[slot + 2..slot + SLOT].copy_from_slice(&item.head.to_be_bytes());
        (self.slots, self.upper) = (self.slots + 1, upper);
    }

    fn finish(self) {
        let lower = HEADER_SIZE + self.slots * SLOT;
        self.image[LOWER..LOWER + 2].copy_from_slice(&(lower as u16).to_le_bytes());
        self.image[UPPER..UPPER + 2].copy_from_slice(&(self.upper as u16).to_le_bytes());
    }
}

/// The slot of an item that starts at `start`.
#[inline]
fn slot_of(start: usize, rem: &[u8], value: EntryValue<'_>) -> [u8; SLOT] {
    let word = (start as u16 | tags_of(value)).to_le_bytes();
    let head = head_of(rem).to_be_bytes();
    [word[0], word[1], head[0], head[1], head[2], head[3]]
}

/// Can the entry go into `node` without encoding the page again?
pub(crate) fn fits_in_place<R: PageRead>(
    node: &Node<R>,
    key: &[u8],
    extra: usize,
    unused_bytes: usize,
) -> bool {
    node.cmp_prefix(key).is_eq()
        && (node.is_leaf() || key.len() > node.prefix)
        && node.free_bytes()
            >= SLOT
                + item_size(key.len() - node.prefix, extra, node.level)
                + bytes_left_unused(unused_bytes, node.count + 1)
}

/// Items up to this size are made without asking for memory.
const SMALL: usize = 64;

/// Inserts an entry in front of entry `pos`. The caller has asked [`fits_in_place`].
pub(crate) fn insert_entry(page: &mut PageMut<'_>, pos: usize, key: &[u8], value: EntryValue<'_>) {
    let node = Node::open(page.bytes()).expect("the caller opened this page under the same latch");
    let (level, count, top) = (node.level, node.count, node.upper);
    let rem = &key[node.prefix..];
    let size = item_size(rem.len(), value.extra.len(), level);
    assert!(pos <= count && node.free_bytes() >= SLOT + size, "the caller asked");
    let (mut small, mut large) = ([0; SMALL], Vec::new());
    let item = match size <= SMALL {
        true => &mut small[..size],
        false => {
            large.resize(size, 0);
            &mut large[..]
        }
    };
    write_item(item, rem, value, level);
    let (upper, slot) = (top - size, HEADER_SIZE + pos * SLOT);
    if pos < count {
        page.copy_within(slot, (count - pos) * SLOT, slot + SLOT);
    }
    page.write(slot, &slot_of(upper, rem, value));
    page.write(upper, item);
    header::set_bounds(page, HEADER_SIZE + (count + 1) * SLOT, upper);
}

/// Removes entry `pos`, whose item the caller has read.
pub(crate) fn remove_entry(page: &mut PageMut<'_>, pos: usize, item: &Item) {
    let node = Node::open(page.bytes()).expect("the caller opened this page under the same latch");
    assert!(pos < node.count, "there is such an entry");
    let (count, garbage, upper) = (node.count, node.garbage, node.upper);
    let slot = HEADER_SIZE + pos * SLOT;
    if pos + 1 < count {
        page.copy_within(slot + SLOT, (count - pos - 1) * SLOT, slot);
    }
    let size = item.end - item.start;
    if item.start == upper {
        header::set_bounds(page, HEADER_SIZE + (count - 1) * SLOT, upper + size);
    } else {
        page.put_u16(LOWER, (HEADER_SIZE + (count - 1) * SLOT) as u16);
        page.put_u16(GARBAGE, (garbage + size).min(PAGE_SIZE) as u16);
    }
}

/// Removes entries, ascending, whose items the caller has read. The slots close up; the items
/// become garbage.
pub(crate) fn remove_entries(page: &mut PageMut<'_>, gone: &[(usize, Item)]) {
    let node = Node::open(page.bytes()).expect("the caller opened this page under the same latch");
    let (count, garbage, special) = (node.count, node.garbage, node.special);
    let slot = |entry| HEADER_SIZE + entry * SLOT;
    let ends = gone.iter().skip(1).map(|(entry, _)| *entry).chain([count]);
    for (left, ((entry, _), end)) in gone.iter().zip(ends).enumerate() {
        assert!(*entry < end && end <= count, "entries of the page, ascending");
        if entry + 1 < end {
            page.copy_within(slot(entry + 1), (end - entry - 1) * SLOT, slot(entry - left));
        }
    }
    let size: usize = gone.iter().map(|(_, item)| item.end - item.start).sum();
    match gone.len() {
        0 => {}
        all if all == count => {
            header::set_bounds(page, HEADER_SIZE, special);
            page.put_u16(GARBAGE, 0);
        }
        some => {
            page.put_u16(LOWER, slot(count - some) as u16);
            page.put_u16(GARBAGE, (garbage + size).min(PAGE_SIZE) as u16);
        }
    }
}

/// Truncates the list of entry `pos`, whose item the caller has read, to its first `kept` bytes,
/// which end with a row. Without any it is no list.
pub(crate) fn truncate_list(page: &mut PageMut<'_>, pos: usize, item: &Item, kept: usize) {
    let node = Node::open(page.bytes()).expect("the caller opened this page under the same latch");
    assert!(node.is_list(pos) && kept < item.extra_len(), "a list that becomes shorter");
    let (garbage, word) = (node.garbage, node.word(pos));
    let length_at = item.rest + item.rest_len();
    let mut gone = item.extra_len() - kept;
    if kept == 0 {
        gone = item.end - length_at;
        page.put_u16(HEADER_SIZE + pos * SLOT, word & !(EXTRA | POSTING));
    } else if item.extra - length_at == 1 {
        page.write(length_at, &[kept as u8]);
    } else {
        // As wide as it was, so that the rows stay where they are.
        page.write(length_at, &[(kept & 0x7f) as u8 | 0x80, (kept >> 7) as u8]);
    }
    page.put_u16(GARBAGE, (garbage + gone).min(PAGE_SIZE) as u16);
}

/// Stores the rows that are left of entry `pos` over its item, which the caller has read.
pub(crate) fn shrink_list(page: &mut PageMut<'_>, pos: usize, item: &Item, left: &[PostingRow]) {
    let node = Node::open(page.bytes()).expect("the caller opened this page under the same latch");
    assert!(node.is_list(pos) && !left.is_empty(), "a list that becomes shorter");
    let mut key = node.key(pos).expect("the caller has read the item");
    let end = key.len() - posting::ROW;
    key[end..].copy_from_slice(&left[0].row.to_bytes());
    let (garbage, prefix) = (node.garbage, node.prefix);
    let list = posting::encode(left);
    let dead = if left[0].dead { DEAD } else { 0 };
    let value = EntryValue { extra: &list, tags: POSTING | dead, ..EntryValue::default() };
    let rem = &key[prefix..];
    let mut bytes = vec![0; item_size(rem.len(), list.len(), 0)];
    write_item(&mut bytes, rem, value, 0);
    let size = item.end - item.start;
    assert!(bytes.len() <= size, "rows that leave make no list longer");
    page.write(HEADER_SIZE + pos * SLOT, &slot_of(item.start, rem, value));
    page.write(item.start, &bytes);
    page.put_u16(GARBAGE, (garbage + size - bytes.len()).min(PAGE_SIZE) as u16);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MAX_KEY_BYTES;
    use crate::index::btree::page::node::SearchPosition;
    use crate::page::PageBuf;
    use rightlink_env::Rng;

    fn header(level: u8, low: &[u8], high: Option<&[u8]>) -> NodeHeader {
        let right = if high.is_some() { 9 } else { 0 };
        let high = high.map(<[u8]>::to_vec);
        NodeHeader {
            level,
            left: u32::from(!low.is_empty()),
            right,
            low: low.to_vec(),
            high,
            ..NodeHeader::default()
        }
    }

    fn keys_of(image: &[u8; PAGE_SIZE]) -> Vec<Vec<u8>> {
        let node = Node::open(image).unwrap();
        (0..node.count).map(|i| node.key(i).unwrap()).collect()
    }

    fn random_key(rng: &mut Rng, prefix: &[u8]) -> Vec<u8> {
        let mut key = prefix.to_vec();
        let len = rng.index(20);
        // Few distinct bytes, zeroes among them: padding and equal heads are what is tested.
        key.extend((0..len).map(|_| [0u8, 0, 1, 255][rng.index(4)]));
        key.extend(b"\0\0\0\x01\0\x01");
        key
    }

    /// Any set of keys, put in one by one or encoded at once, reads back and is found at its place,
    /// by latched and optimistic search alike.
    #[test]
    fn pages_hold_what_was_put_in() {
        for seed in 0..60 {
            let mut rng = Rng::from_seed(seed);
            let (low, high): (&[u8], Option<&[u8]>) = match seed % 3 {
                0 => (b"", None),
                1 => (b"pre", Some(b"pre\xff\xff")),
                _ => (b"prefix", None),
            };
            let header = header(0, low, high);
            let mut page = PageBuf::zeroed();
            PageMut::owned(&mut page).replace(&header.image_of(&Entries::default()).unwrap());
            let mut model: Vec<Vec<u8>> = Vec::new();
            for _ in 0..150 {
                let key = random_key(&mut rng, low);
                let Err(at) = model.binary_search(&key) else { continue };
                let mut target = PageMut::owned(&mut page);
                let node = Node::open(target.bytes()).unwrap();
                assert_eq!(node.search(&key).unwrap(), SearchPosition { pos: at, exact: false });
                if fits_in_place(&node, &key, 0, 0) {
                    insert_entry(&mut target, at, &key, EntryValue::default());
                } else {
                    let mut entries = Entries::load(&node).unwrap();
                    let header = NodeHeader::of(&node, 0);
                    entries.insert(at, &key, EntryValue::default());
                    target.replace(&header.image_of(&entries).unwrap());
                }
                model.insert(at, key);
                if rng.chance(1, 4) {
                    let gone = rng.index(model.len());
                    let node = Node::open(target.bytes()).unwrap();
                    let item = node.item(gone).unwrap();
                    remove_entry(&mut target, gone, &item);
                    model.remove(gone);
                }
                assert_eq!(keys_of(target.bytes()), model, "seed {seed}");
            }
            for _ in 0..300 {
                let prefix: &[u8] = if rng.chance(1, 2) { low } else { b"p" };
                let key = random_key(&mut rng, prefix);
                let key = &key[..rng.index(key.len() + 1)];
                let expected = model.binary_search_by(|k| k.as_slice().cmp(key));
                let exact = expected.is_ok();
                let found = SearchPosition { pos: expected.unwrap_or_else(|pos| pos), exact };
                let image = *PageMut::owned(&mut page).bytes();
                assert_eq!(Node::open(&image).unwrap().search(key).unwrap(), found);
                assert_eq!(Node::open(page.view()).unwrap().search(key).unwrap(), found);
            }
        }
    }

    /// Any entries leave at once; what is left of the page adds up, and its record tells as much.
    #[test]
    fn entries_leave_holes() {
        for seed in 0..300 {
            let mut rng = Rng::from_seed(seed);
            let mut keys: Vec<Vec<u8>> = (0..200).map(|_| random_key(&mut rng, b"pre")).collect();
            keys.sort_unstable();
            keys.dedup();
            let mut entries = Entries::default();
            keys.iter().for_each(|key| entries.push(key, EntryValue::default()));
            let image = header(0, b"pre", Some(b"pre\xff\xff")).image_of(&entries).unwrap();
            let (mut page, mut copy, mut delta) =
                (PageBuf::zeroed(), PageBuf::zeroed(), Vec::new());
            PageMut::owned(&mut page).replace(&image);
            PageMut::owned(&mut copy).replace(&image);
            let mut target = PageMut::recorded(&mut page, &mut delta);
            for one_in in [30, 3, 2, 1] {
                let node = Node::open(target.bytes()).unwrap();
                let gone = (0..node.count).filter(|_| rng.chance(1, one_in));
                let gone: Vec<_> = gone.map(|i| (i, node.item(i).unwrap())).collect();
                remove_entries(&mut target, &gone);
                gone.iter().rev().for_each(|(i, _)| drop(keys.remove(*i)));
                assert_eq!(keys_of(target.bytes()), keys, "seed {seed}");
                let node = Node::open(target.bytes()).unwrap();
                let items = (0..node.count).map(|i| node.item(i).unwrap());
                let used: usize = items.map(|item| item.end - item.start).sum();
                assert_eq!(used + node.garbage, node.special - node.upper, "seed {seed}");
            }
            assert_eq!(Node::open(target.bytes()).unwrap().garbage, 0, "nothing is left");
            let expected = *target.bytes();
            let mut copy = PageMut::owned(&mut copy);
            crate::page::delta::apply(&mut copy, &delta).unwrap();
            assert!(copy.bytes() == &expected, "seed {seed}");
        }
    }

    /// Payload and tags survive a rewrite; the first inner entry costs no key.
    #[test]
    fn payload_tags_and_children_survive() {
        let mut entries = Entries::default();
        let long = [7u8; 300];
        entries.push(b"alpha\0\0\0\0\0\x01", EntryValue { extra: b"xy", child: 0, tags: DEAD });
        entries.push(b"beta\0\0\0\0\0\x01", EntryValue { extra: &long, child: 0, tags: 0 });
        let image = header(0, b"", None).image_of(&entries).unwrap();
        let node = Node::open(&*image).unwrap();
        assert!(node.is_dead(0) && !node.is_dead(1) && node.flags & HAS_DEAD != 0);
        let again = Entries::load(&node).unwrap();
        assert_eq!(again.value(0).extra, b"xy");
        assert_eq!(again.value(1).extra, long);
        let mut inner = Entries::default();
        inner.push(b"m", EntryValue { child: 4, ..EntryValue::default() });
        inner.push(b"mz", EntryValue { child: 5, ..EntryValue::default() });
        let image = header(1, b"m", Some(b"n")).image_of(&inner).unwrap();
        let node = Node::open(&*image).unwrap();
        assert_eq!((node.child(0).unwrap(), node.child(1).unwrap()), (4, 5));
        assert_eq!(node.item(0).unwrap().rem, 0);
        assert_eq!(Entries::load(&node).unwrap().key(0), b"m");
    }

    /// A page with one entry fits whatever its fences are.
    #[test]
    fn one_entry_always_fits() {
        let mut entries = Entries::default();
        entries.push(&[b'b'; MAX_KEY_BYTES], EntryValue::default());
        let mut low = [b'a'; MAX_KEY_BYTES];
        low[0] = b'b';
        assert!(header(0, &low, Some(&[b'c'; MAX_KEY_BYTES])).image_of(&entries).is_some());
        entries.push(&[b'c'; MAX_KEY_BYTES], EntryValue::default());
        assert!(header(0, &low, Some(&[b'd'; MAX_KEY_BYTES])).image_of(&entries).is_none());
    }

    /// What the head of `node` says about the size of int8 entries.
    #[test]
    fn dense_integers_take_eleven_bytes() {
        let key = |n: u64| [&[1u8][..], &n.to_be_bytes(), &[0, 0, 0, 1, 0, n as u8]].concat();
        let mut entries = Entries::default();
        for n in 1000..1100 {
            entries.push(&key(n), EntryValue::default());
        }
        let image = header(0, &key(1000)[..9], Some(&key(1100)[..9])).image_of(&entries).unwrap();
        let node = Node::open(&*image).unwrap();
        assert_eq!(node.prefix, 7);
        assert_eq!((node.special - node.upper) / 100 + SLOT, 11);
    }

    /// Random damage to a page is an error or a wrong answer, never a panic or a read outside.
    #[test]
    fn damaged_pages_never_panic() {
        let mut rng = Rng::from_seed(5);
        let mut entries = Entries::default();
        for n in 0..200u64 {
            let key = [&b"k"[..], &n.to_be_bytes(), b"\0\0\0\x01\0\x01"].concat();
            entries
                .push(&key, EntryValue { extra: &key[..n as usize % 5], ..EntryValue::default() });
        }
        let good = header(0, b"k", Some(b"l")).image_of(&entries).unwrap();
        for _ in 0..20_000 {
            let mut image = *good;
            for _ in 0..=rng.index(4) {
                let at = [rng.index(PAGE_SIZE), rng.index(300), PAGE_SIZE - 1 - rng.index(30)];
                image[at[rng.index(3)]] = rng.next_u64() as u8;
            }
            let Ok(node) = Node::open(&image) else { continue };
            let _ = node.search(b"k\0\0\0\0\0\0\0\x20");
            let _ = (node.low(), node.high(), Entries::load(&node));
            for i in 0..node.count.min(40) {
                let _ = (node.key(i), node.row(i));
            }
        }
    }
}
