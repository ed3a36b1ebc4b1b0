//! The entries of a page, decoded: inserted, removed and deduplicated before they are encoded
//! again.
//!
//! Invariants: what [`Entries::load`] returns was checked: keys ascend between the fences, and
//! every posting list can be read.
//! Does not do: bytes of a page (`edit`), bytes of a list (`posting`).

use std::borrow::Cow;

use crate::config::MAX_KEY_BYTES;
use crate::ids::RowId;
use crate::index::btree::page::node::{
    Checked, DEAD, EntryValue, HEAD, Node, POSTING, SLOT, item_size,
};
use crate::index::btree::page::posting::{self, PostingRow, PostingRows, key_of, row_id_of};
use crate::index::btree::page::read::PageRead;
use crate::index::btree::page::tree_key::separator;

/// One entry of [`Entries`].
#[derive(Clone, Copy, Debug)]
struct EntryRecord {
    at: u32,
    key: u16,
    extra: u16,
    child: u32,
    tags: u16,
}

/// Entries of a page with their whole keys, in order, in one arena.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    bytes: Vec<u8>,
    list: Vec<EntryRecord>,
}

impl Entries {
    /// All entries of `node`; the first one of an inner page gets the low fence as its key.
    pub(crate) fn load<R: PageRead>(node: &Node<R>) -> Checked<Entries> {
        let mut out = Entries::default();
        out.append_page(node)?;
        let (low, high) = (node.low(), node.high());
        let mut inside = out.len() == 0 || low.as_slice() <= out.key(0);
        for (i, record) in out.list.iter().enumerate() {
            if usize::from(record.key) + usize::from(record.extra) > MAX_KEY_BYTES {
                return Err("an entry is larger than entries may be");
            }
            if out.is_list(i) && !node.is_leaf() {
                return Err("a posting list above the leaves");
            }
            let next = match i + 1 < out.len() {
                true => Some(out.key(i + 1)),
                false => high.as_deref(),
            };
            inside &= next.is_none_or(|next| out.key(i) < next);
            if let (true, Some(next)) = (out.is_list(i), next) {
                inside &= *out.checked_last_key(i)? < *next;
            } else if out.is_list(i) {
                out.checked_last_key(i)?;
            }
        }
        if inside { Ok(out) } else { Err("keys are out of order or outside the fences") }
    }

    /// Appends all entries of `node`, whatever their order.
    pub(crate) fn append_page<R: PageRead>(&mut self, node: &Node<R>) -> Checked<()> {
        self.list.reserve(node.count + 1);
        let mut prefix = Vec::new();
        let prefix = node.page.slice(node.special, node.prefix, &mut prefix);
        // The items hold all but heads and prefixes.
        let items = node.special - node.upper;
        self.bytes.reserve(items + node.count * (prefix.len() + HEAD) + node.low_len);
        for i in 0..node.count {
            let at = self.bytes.len();
            let item = node.item(i)?;
            if i == 0 && !node.is_leaf() {
                self.bytes.extend(node.low());
            } else {
                self.bytes.extend_from_slice(prefix);
                let head = node.head(i).to_be_bytes();
                self.bytes.extend_from_slice(&head[..item.rem.min(HEAD)]);
                node.page.append(item.rest, item.rest_len(), &mut self.bytes);
            }
            let key = (self.bytes.len() - at) as u16;
            let extra = item.extra_len() as u16;
            if extra > 0 {
                node.page.append(item.extra, item.extra_len(), &mut self.bytes);
            }
            let record =
                EntryRecord { at: at as u32, key, extra, child: item.child, tags: item.tags };
            self.list.push(record);
        }
        Ok(())
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Key of entry `i`.
    pub(crate) fn key(&self, i: usize) -> &[u8] {
        let record = &self.list[i];
        &self.bytes[record.at as usize..record.at as usize + usize::from(record.key)]
    }

    /// What entry `i` holds besides its key.
    pub(crate) fn value(&self, i: usize) -> EntryValue<'_> {
        let record = &self.list[i];
        let at = record.at as usize + usize::from(record.key);
        let extra = &self.bytes[at..at + usize::from(record.extra)];
        EntryValue { extra, child: record.child, tags: record.tags }
    }

    /// Inserts an entry in front of entry `pos`.
    pub(crate) fn insert(&mut self, pos: usize, key: &[u8], value: EntryValue<'_>) {
        debug_assert!(pos == 0 || *self.last_key(pos - 1) < *key);
        debug_assert!(pos == self.len() || self.key(pos) > key);
        let record = self.store(key, value);
        self.list.insert(pos, record);
    }

    /// Appends the bytes of an entry to the arena.
    fn store(&mut self, key: &[u8], value: EntryValue<'_>) -> EntryRecord {
        assert!(key.len() + value.extra.len() <= MAX_KEY_BYTES, "the caller checked the limit");
        let record = EntryRecord {
            at: self.bytes.len() as u32,
            key: key.len() as u16,
            extra: value.extra.len() as u16,
            child: value.child,
            tags: value.tags,
        };
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.extra);
        record
    }

    /// Appends an entry that is larger than all others.
    pub(crate) fn push(&mut self, key: &[u8], value: EntryValue<'_>) {
        self.insert(self.len(), key, value);
    }

    /// Removes the last entry.
    pub(crate) fn pop(&mut self) {
        if let Some(record) = self.list.pop() {
            self.bytes.truncate(record.at as usize);
        }
    }

    /// Has entry `i` a posting list?
    pub(crate) fn is_list(&self, i: usize) -> bool {
        self.list[i].tags & POSTING != 0
    }

    /// Has entry `i` rows that are marked dead?
    pub(crate) fn has_dead(&self, i: usize) -> bool {
        self.list[i].tags & DEAD != 0 || self.is_list(i) && self.rows(i).any(|member| member.dead)
    }

    /// The rows of the list of entry `i` after the first one.
    fn rows(&self, i: usize) -> impl Iterator<Item = PostingRow> {
        let first = row_id_of(self.key(i)).expect("items are judged when a page is loaded");
        let judged = |member: Checked<PostingRow>| member.expect("so are lists");
        PostingRows::after(first, self.value(i).extra).map(judged)
    }

    /// The rows of leaf entry `i`.
    pub(crate) fn members(&self, i: usize) -> Vec<PostingRow> {
        let mut out = Vec::new();
        self.append_members(i, &mut out);
        out
    }

    fn append_members(&self, i: usize, out: &mut Vec<PostingRow>) {
        let row = row_id_of(self.key(i)).expect("items are judged when a page is loaded");
        out.push(PostingRow::first(row, self.list[i].tags & DEAD != 0));
        if self.is_list(i) {
            out.extend(self.rows(i));
        }
    }

    /// The rows of leaf entry `i` of a page that was not checked.
    pub(crate) fn checked_members(&self, i: usize) -> Checked<Vec<PostingRow>> {
        let mut out =
            vec![PostingRow::first(row_id_of(self.key(i))?, self.list[i].tags & DEAD != 0)];
        if self.is_list(i) {
            posting::decode(self.value(i).extra, &mut out)?;
        }
        Ok(out)
    }

    /// Tree key of the last row of entry `i`; of an unreadable list, of its first row.
    pub(crate) fn last_key(&self, i: usize) -> Cow<'_, [u8]> {
        self.checked_last_key(i).unwrap_or(Cow::Borrowed(self.key(i)))
    }

    /// Tree key of the last row of entry `i`.
    fn checked_last_key(&self, i: usize) -> Checked<Cow<'_, [u8]>> {
        if !self.is_list(i) {
            return Ok(Cow::Borrowed(self.key(i)));
        }
        let extra = self.value(i).extra;
        if extra.is_empty() {
            return Err("a posting list without rows");
        }
        let last = PostingRows::after(row_id_of(self.key(i))?, extra).last_row()?;
        Ok(Cow::Owned([key_of(self.key(i)), &last.to_bytes()].concat()))
    }

    /// The entry that has `key`, or whose list has it: the last one not above it.
    pub(crate) fn position(&self, key: &[u8]) -> usize {
        let above = self.list.partition_point(|record| {
            let at = record.at as usize;
            &self.bytes[at..at + usize::from(record.key)] <= key
        });
        assert!(above > 0, "an entry that was put in");
        above - 1
    }

    /// Inserts a leaf entry in front of entry `pos`. If its row falls among those of the list
    /// before, it splits the list.
    pub(crate) fn insert_row(&mut self, pos: usize, key: &[u8], value: EntryValue<'_>) {
        if pos > 0 && self.is_list(pos - 1) && *self.last_key(pos - 1) > *key {
            let mut members = self.members(pos - 1);
            let row = row_id_of(key).expect("a tree key");
            let at = members.partition_point(|member| member.row < row);
            let mut behind = members.split_off(at);
            behind.insert(0, PostingRow::first(row, false));
            assert!(value.extra.is_empty(), "lists and payload do not mix");
            let old = self.key(pos - 1).to_vec();
            self.list.remove(pos - 1);
            self.insert_rows(pos - 1, &old, &members);
            self.insert_rows(pos, key, &behind);
            return;
        }
        self.insert(pos, key, value);
    }

    /// Inserts rows of one key in front of entry `pos`; `key` is the tree key of the first.
    pub(crate) fn insert_rows(&mut self, pos: usize, key: &[u8], members: &[PostingRow]) {
        debug_assert!(pos == 0 || *self.last_key(pos - 1) < *key);
        let record = self.store_rows(key, members);
        self.list.insert(pos, record);
    }

    fn store_rows(&mut self, key: &[u8], members: &[PostingRow]) -> EntryRecord {
        let list = posting::encode(members);
        let tag = if list.is_empty() { 0 } else { POSTING };
        let dead = if members[0].dead { DEAD } else { 0 };
        self.store(key, EntryValue { extra: &list, tags: tag | dead, ..EntryValue::default() })
    }

    /// Every row of a leaf.
    pub(crate) fn all_rows(&self) -> impl Iterator<Item = RowId> {
        (0..self.len()).flat_map(|i| {
            let first = row_id_of(self.key(i)).expect("items are judged when a page is loaded");
            let list = self.is_list(i).then(|| self.rows(i).map(|member| member.row));
            std::iter::once(first).chain(list.into_iter().flatten())
        })
    }

    /// Keeps the rows for which `keep` of the entry, the row's place in it, and the row holds.
    /// Entries that keep all rows keep their bytes.
    pub(crate) fn keep_rows(&mut self, mut keep: impl FnMut(usize, usize, &PostingRow) -> bool) {
        let (mut kept, mut members) = (0, Vec::new());
        for i in 0..self.len() {
            members.clear();
            self.append_members(i, &mut members);
            let (count, mut at) = (members.len(), 0);
            members.retain(|member| {
                at += 1;
                keep(i, at - 1, member)
            });
            let Some(first) = members.first() else { continue };
            self.list[kept] = match members.len() == count {
                true => self.list[i],
                false => {
                    let key = [key_of(self.key(i)), &first.row.to_bytes()].concat();
                    self.store_rows(&key, &members)
                }
            };
            kept += 1;
        }
        self.list.truncate(kept);
    }

    /// May leaf entries `i` and `i + 1` share an item?
    fn may_share_item(&self, i: usize) -> bool {
        let plain = |i: usize| self.list[i].extra == 0 || self.is_list(i);
        let (one, two) = (&self.list[i], &self.list[i + 1]);
        one.key == two.key
            && plain(i)
            && plain(i + 1)
            && key_of(self.key(i)) == key_of(self.key(i + 1))
    }

    /// Puts the rows of each key into lists of at most `most` bytes. False: no two entries could be
    /// joined. Entries with payload stay alone.
    pub(crate) fn deduplicate(&mut self, most: usize) -> bool {
        if !self.has_duplicates() {
            return false;
        }
        let (mut out, mut i) = (Entries::default(), 0);
        out.list.reserve(self.len());
        out.bytes.reserve(self.bytes.len());
        let mut members = Vec::new();
        while i < self.len() {
            let first = i;
            while i + 1 < self.len() && self.may_share_item(i) {
                i += 1;
            }
            i += 1;
            if i - first == 1 {
                out.push(self.key(first), self.value(first));
                continue;
            }
            members.clear();
            (first..i).for_each(|i| self.append_members(i, &mut members));
            out.push_lists(key_of(self.key(first)), &members, most);
        }
        let fewer = out.len() < self.len();
        if fewer {
            *self = out;
        }
        fewer
    }

    /// Are there two leaf entries that could share an item?
    pub(crate) fn has_duplicates(&self) -> bool {
        (1..self.len()).any(|i| self.may_share_item(i - 1))
    }

    /// Appends rows of one key in lists of at most `most` bytes.
    pub(crate) fn push_lists(&mut self, key: &[u8], members: &[PostingRow], most: usize) {
        let most = most.min(posting::MAX_BYTES).min(MAX_KEY_BYTES - key.len() - posting::ROW);
        let mut rest = members;
        let mut bytes = Vec::with_capacity(most);
        let mut whole = key.to_vec();
        while let Some(first) = rest.first() {
            bytes.clear();
            let mut count = 1;
            while count < rest.len() {
                let (end, next) = (bytes.len(), rest[count]);
                posting::push(&mut bytes, rest[count - 1].row, next.row, next.dead);
                if bytes.len() > most {
                    bytes.truncate(end);
                    break;
                }
                count += 1;
            }
            whole.truncate(key.len());
            whole.extend_from_slice(&first.row.to_bytes());
            let tag = if bytes.is_empty() { 0 } else { POSTING };
            let dead = if first.dead { DEAD } else { 0 };
            self.push(
                &whole,
                EntryValue { extra: &bytes, tags: tag | dead, ..EntryValue::default() },
            );
            rest = &rest[count..];
        }
    }

    /// Bytes of entry `i` on a page with a `prefix`, slot included.
    pub(crate) fn size(&self, i: usize, level: u8, prefix: usize) -> usize {
        let record = &self.list[i];
        let rem = usize::from(record.key) - prefix;
        item_size(rem, usize::from(record.extra), level) + SLOT
    }

    /// The separator of a split in front of entry `at`: with `cut` as short as possible, else its
    /// whole key.
    pub(crate) fn separator_at(&self, at: usize, cut: bool) -> &[u8] {
        match cut {
            true => separator(&self.last_key(at - 1), self.key(at)),
            false => self.key(at),
        }
    }
}
