//! Posting lists: the rows of one key in one item of a leaf.
//!
//! FORMAT. An item with a posting list has the key and the smallest row like any item; its extra
//! area holds the further rows, ascending. Each row is two LEB128 integers: the distance of its
//! block from that of the row before, then `n << 1 | dead`. `n` is the slot, or the distance of
//! the slot if the block is the same; `dead` is a hint (R1). A list has at least one further row,
//! and at most [`MAX_BYTES`] bytes.
//!
//! Invariants: rows of a list ascend, and the next item's key is above the last of them. All rows
//! of a list lie between the page's fences. Removing rows never makes a list longer. Bytes are
//! checked as they are read.
//! Does not do: decide when rows are put together (`insert`), latch, log.
//! PostgreSQL: `nbtdedup.c`.

use crate::ids::RowId;
use crate::index::btree::page::node::{Checked, Item, Node, POSTING, SearchPosition};
use crate::index::btree::page::read::PageRead;

/// Most bytes of a list: an insertion moves up to all of them.
pub(crate) const MAX_BYTES: usize = 512;

/// Bytes of the row id at the end of a tree key.
pub(crate) const ROW: usize = RowId::SIZE;

/// One row of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PostingRow {
    /// The row.
    pub(crate) row: RowId,
    /// Marked dead to everyone (a hint).
    pub(crate) dead: bool,
    /// Where its bytes begin in the extra area; 0 for the first row, which has none there.
    pub(crate) start: usize,
    /// The byte there whose lowest bit is the hint.
    pub(crate) hint: usize,
}

impl PostingRow {
    /// The row that an item has in its key.
    pub(crate) fn first(row: RowId, dead: bool) -> PostingRow {
        PostingRow { row, dead, start: 0, hint: 0 }
    }
}

fn push_number(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `row`, which follows `before`.
pub(crate) fn push(out: &mut Vec<u8>, before: RowId, row: RowId, dead: bool) {
    assert!(before < row, "rows of a list ascend");
    let blocks = row.block.0 - before.block.0;
    let slot = if blocks == 0 { row.slot - before.slot } else { row.slot };
    push_number(out, blocks);
    push_number(out, u32::from(slot) << 1 | u32::from(dead));
}

/// The list of the members after the first one.
pub(crate) fn encode(members: &[PostingRow]) -> Vec<u8> {
    let mut out = Vec::new();
    members.windows(2).for_each(|pair| push(&mut out, pair[0].row, pair[1].row, pair[1].dead));
    out
}

#[inline]
fn number(bytes: &[u8], at: &mut usize) -> Checked<u32> {
    // Most numbers are a byte.
    if let Some(byte) = bytes.get(*at).filter(|byte| **byte < 0x80) {
        *at += 1;
        return Ok(u32::from(*byte));
    }
    long_number(bytes, at)
}

fn long_number(bytes: &[u8], at: &mut usize) -> Checked<u32> {
    let mut value = 0u64;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(*at).ok_or("a posting list ends inside a row")?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(value).map_err(|_| "a posting list has a number too large");
        }
    }
    Err("a posting list has a number too long")
}

/// The rows of a list, one by one.
pub(crate) struct PostingRows<'b> {
    bytes: &'b [u8],
    at: usize,
    before: RowId,
}

impl<'b> PostingRows<'b> {
    /// The rows of the list in `bytes`, which follow `first`.
    pub(crate) fn after(first: RowId, bytes: &'b [u8]) -> PostingRows<'b> {
        PostingRows { bytes, at: 0, before: first }
    }

    #[inline]
    fn read(&mut self) -> Checked<PostingRow> {
        let (bytes, before, start) = (self.bytes, self.before, self.at);
        let mut at = start;
        let blocks = number(bytes, &mut at)?;
        let hint = at;
        let slot = number(bytes, &mut at)?;
        let (slot, dead) = (slot >> 1, slot & 1 != 0);
        let slot = if blocks == 0 { u32::from(before.slot) + slot } else { slot };
        let block = before.block.0.checked_add(blocks).ok_or("a posting list leaves the heap")?;
        let slot = u16::try_from(slot).map_err(|_| "a posting list leaves its block")?;
        let row = RowId::new(block, slot);
        if row <= before {
            return Err("the rows of a posting list do not ascend");
        }
        (self.at, self.before) = (at, row);
        Ok(PostingRow { row, dead, start, hint })
    }

    /// The last row; all rows are checked on the way.
    pub(crate) fn last_row(mut self) -> Checked<RowId> {
        while self.at < self.bytes.len() {
            self.read()?;
        }
        Ok(self.before)
    }
}

impl Iterator for PostingRows<'_> {
    type Item = Checked<PostingRow>;

    #[inline]
    fn next(&mut self) -> Option<Checked<PostingRow>> {
        (self.at < self.bytes.len()).then(|| self.read())
    }
}

/// Appends the rows of the list in `bytes`, which follow the last of `members`.
pub(crate) fn decode(bytes: &[u8], members: &mut Vec<PostingRow>) -> Checked<()> {
    let first = members.last().expect("a list follows the row in the key").row;
    if bytes.is_empty() {
        return Err("a posting list without rows");
    }
    // Most rows take two bytes.
    members.reserve(bytes.len() / 2);
    for member in PostingRows::after(first, bytes) {
        members.push(member?);
    }
    Ok(())
}

/// The encoded key of a tree key.
pub(crate) fn key_of(key: &[u8]) -> &[u8] {
    &key[..key.len().saturating_sub(RowId::SIZE)]
}

/// The row of a tree key.
pub(crate) fn row_id_of(key: &[u8]) -> Checked<RowId> {
    key.last_chunk().map(|row| RowId::from_bytes(*row)).ok_or("a key without a row id")
}

/// A row on a leaf: its entry, and its place among the rows of that entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowPosition {
    /// The entry.
    pub(crate) entry: usize,
    /// The place among its rows; 0 is the row in the key.
    pub(crate) member: usize,
}

/// Where a tree key is on a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EntryPosition {
    /// It is absent; it belongs in front of this entry.
    Gap(usize),
    /// It is absent; it belongs in front of this row of a list.
    InsideList(RowPosition),
    /// It is present, as this row.
    Present(RowPosition),
}

impl EntryPosition {
    /// The entry that it is, or in front of which it would be inserted.
    pub(crate) fn pos(self) -> usize {
        match self {
            EntryPosition::Gap(pos) | EntryPosition::Present(RowPosition { entry: pos, .. }) => pos,
            EntryPosition::InsideList(before) => before.entry + 1,
        }
    }
}

impl<R: PageRead> Node<R> {
    /// Has entry `i` a posting list?
    pub(crate) fn is_list(&self, i: usize) -> bool {
        self.word(i) & POSTING != 0
    }

    /// The rows of leaf entry `i`, in place of the contents of `out`.
    pub(crate) fn members(&self, i: usize, out: &mut Vec<PostingRow>) -> Checked<()> {
        out.clear();
        out.push(PostingRow::first(self.row(i)?, self.is_dead(i)));
        if !self.is_list(i) {
            return Ok(());
        }
        let item = self.item(i)?;
        let mut bytes = Vec::new();
        decode(self.page.slice(item.extra, item.extra_len(), &mut bytes), out)
    }

    /// Appends the rows of the list that `item` has to `rows`, which ends with its first row.
    pub(crate) fn append_list(&self, item: &Item, rows: &mut Vec<RowId>) -> Checked<()> {
        let first = *rows.last().expect("the row in the key");
        let mut bytes = Vec::new();
        let list = self.page.slice(item.extra, item.extra_len(), &mut bytes);
        if list.is_empty() {
            return Err("a posting list without rows");
        }
        for member in PostingRows::after(first, list) {
            rows.push(member?.row);
        }
        Ok(())
    }

    /// How many rows leaf entry `i` has, whose item is `item`. Its list is counted, not checked.
    pub(crate) fn count_rows(&self, i: usize, item: &Item) -> usize {
        if !self.is_list(i) {
            return 1;
        }
        let mut bytes = Vec::new();
        let list = self.page.slice(item.extra, item.extra_len(), &mut bytes);
        // A row is two numbers, and the last byte of each is below 0x80.
        1 + list.iter().filter(|byte| **byte < 0x80).count() / 2
    }

    /// The position of `key`, if its search on this leaf ended at `found`.
    pub(crate) fn entry_position(
        &self,
        found: SearchPosition,
        key: &[u8],
    ) -> Checked<EntryPosition> {
        if found.exact {
            return Ok(EntryPosition::Present(RowPosition { entry: found.pos, member: 0 }));
        }
        let Some(before) = found.pos.checked_sub(1).filter(|i| self.is_list(*i)) else {
            return Ok(EntryPosition::Gap(found.pos));
        };
        let item = self.item(before)?;
        if !self.has_key(before, &item, key_of(key)) {
            return Ok(EntryPosition::Gap(found.pos));
        }
        let row = row_id_of(key)?;
        let mut bytes = Vec::new();
        let list = self.page.slice(item.extra, item.extra_len(), &mut bytes);
        for (i, member) in PostingRows::after(self.row_of(before, &item), list).enumerate() {
            let member = member?;
            if member.row >= row {
                let position = RowPosition { entry: before, member: i + 1 };
                return Ok(match member.row == row {
                    true => EntryPosition::Present(position),
                    false => EntryPosition::InsideList(position),
                });
            }
        }
        Ok(EntryPosition::Gap(found.pos))
    }

    /// Is `key` the encoded key of leaf entry `i`, whose item is `item`?
    pub(crate) fn has_key(&self, i: usize, item: &Item, key: &[u8]) -> bool {
        self.prefix + item.rem == key.len() + ROW && self.opens_with(i, item, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rightlink_env::Rng;

    fn rows(rng: &mut Rng, count: usize) -> Vec<PostingRow> {
        let spread = [1, 3, 200, 1 << 20, 1 << 32][rng.index(5)];
        let mut rows: Vec<RowId> = (0..count)
            .map(|_| RowId::new(rng.below(spread) as u32, rng.below(1 << 16) as u16))
            .collect();
        rows.extend([RowId::new(0, 0), RowId::new(u32::MAX, u16::MAX)]);
        rows.sort_unstable();
        rows.dedup();
        rows.into_iter().map(|row| PostingRow::first(row, rng.chance(1, 5))).collect()
    }

    /// A decoded list is the encoded one, hint bits included. A list without some of its rows is
    /// never longer.
    #[test]
    fn lists_come_back_and_shrink() {
        let mut rng = Rng::from_seed(1);
        for _ in 0..500 {
            let count = rng.index(40);
            let members = rows(&mut rng, count);
            let mut bytes = encode(&members);
            let mut back = vec![members[0]];
            decode(&bytes, &mut back).unwrap();
            let plain = |list: &[PostingRow]| -> Vec<_> {
                list.iter().map(|member| (member.row, member.dead)).collect()
            };
            assert_eq!(plain(&back), plain(&members));
            let some: Vec<PostingRow> =
                members.iter().copied().filter(|_| rng.chance(1, 2)).collect();
            assert!(encode(&some).len() <= bytes.len());
            for member in &back[1..] {
                bytes[member.hint] |= 1;
                assert_eq!(encode(&back[..1]).len(), 0);
            }
            let ends = bytes.iter().filter(|byte| **byte < 0x80).count();
            assert_eq!(ends, 2 * (members.len() - 1), "rows can be counted without reading them");
            let mut dead = vec![members[0]];
            decode(&bytes, &mut dead).unwrap();
            assert!(dead[1..].iter().all(|member| member.dead));
        }
    }

    /// Any bytes are a list or a damage.
    #[test]
    fn any_bytes_are_judged() {
        let mut rng = Rng::from_seed(2);
        let (mut good, mut bad) = (0, 0);
        for _ in 0..20_000 {
            let len = rng.index(12);
            let mut bytes = vec![0; len];
            rng.fill(&mut bytes);
            let first = RowId::new(rng.next_u64() as u32, rng.next_u64() as u16);
            let mut members = vec![PostingRow::first(first, false)];
            match decode(&bytes, &mut members) {
                Ok(()) => {
                    good += 1;
                    assert!(members.windows(2).all(|pair| pair[0].row < pair[1].row));
                }
                Err(_) => bad += 1,
            }
        }
        assert!(good > 100 && bad > 100, "{good} good, {bad} bad");
    }

    /// A hundred rows of one key, one in a hundred blocks: three bytes a row at most.
    #[test]
    fn lists_are_small() {
        let members: Vec<PostingRow> = (0..100u32)
            .map(|n| PostingRow::first(RowId::new(n * 100 + n % 7, (n * 37 % 90) as u16), false))
            .collect();
        assert!(encode(&members).len() <= 300);
    }
}
