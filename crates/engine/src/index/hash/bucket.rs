//! A page of entries: its bytes, judged and searched.
//!
//! FORMAT. Page of kind `HashBucket`. From offset 32 the slots, 6 bytes each, in the order of the
//! entries: a word (bits 0 to 12: offset of the item; bit 13: the row is dead to everyone, a hint,
//! R1; bit 14: the item ends with a payload), then the code of the key, big-endian. Items grow
//! down from the fences: length of the key (varint: one byte below 128, else two), key, row id,
//! and with bit 14 a varint length and the payload. `special` is the start of the fences: low
//! fence, high fence, then the trailer of 16 bytes: right link u32 (0: last page), length of the
//! low fence u16, of the high fence u16, 8 bytes 0. A fence is code, key and row id of an entry,
//! cut off where it tells the pages apart: 4 bytes and no more where a bucket begins. `flags`: bit
//! 0, the page to the right begins a bucket that the directory does not name yet; bit 3, a hint:
//! some entries are marked dead. `garbage` counts bytes of removed items.
//!
//! Invariants: `Bucket::open` judges the header once; each item is judged when it is read. Bad
//! bytes are a [`Damage`], never a panic.
//! Does not do: changes (`edit`), latching.

use std::cmp::Ordering;

use crate::config::PAGE_SIZE;
use crate::ids::RowId;
use crate::index::MAX_ENTRY_BYTES;
use crate::index::hash::code::{CODE, split_code};
use crate::page::PageKind;
use crate::page::header::{
    FLAGS, GARBAGE, HEADER_SIZE, KIND, LOWER, SPECIAL, UPPER, u16_at, u32_at,
};

/// Bytes of a slot.
pub(crate) const SLOT: usize = 6;
/// Bytes of the trailer.
pub(crate) const TRAILER: usize = 16;
/// Offset of the right link.
pub(crate) const RIGHT: usize = PAGE_SIZE - 16;
/// Offset of the length of the low fence.
pub(crate) const LOW_LEN: usize = PAGE_SIZE - 12;
/// Offset of the length of the high fence.
pub(crate) const HIGH_LEN: usize = PAGE_SIZE - 10;
/// Offset bits of a slot word.
pub(crate) const OFFSET_MASK: u16 = 0x1fff;
/// The row is dead to everyone (a hint).
pub(crate) const DEAD: u16 = 1 << 13;
/// The item ends with a payload.
pub(crate) const EXTRA: u16 = 1 << 14;

/// Page flag: the directory does not name the page to the right, which begins a bucket.
pub(crate) const INCOMPLETE: u16 = 1;
/// Page flag, a hint: some entries carry `DEAD`.
pub(crate) const HAS_DEAD: u16 = 8;

const _: () = assert!(PAGE_SIZE - 1 <= OFFSET_MASK as usize, "an offset fits a slot");
const _: () = assert!(
    HEADER_SIZE + TRAILER + 3 * (MAX_ENTRY_BYTES + CODE + RowId::SIZE) + SLOT + 4 <= PAGE_SIZE,
    "a page with one entry always fits"
);

/// What is wrong with bytes of a page.
pub(crate) type Damage = &'static str;
/// A value read from a page, or what is wrong there.
pub(crate) type Checked<T> = std::result::Result<T, Damage>;

type Page = [u8; PAGE_SIZE];

/// An open page of entries.
#[derive(Clone, Copy)]
pub(crate) struct Bucket<'p> {
    pub(crate) page: &'p Page,
    pub(crate) flags: u16,
    pub(crate) count: usize,
    pub(crate) upper: usize,
    pub(crate) special: usize,
    pub(crate) garbage: usize,
    pub(crate) right: u32,
    low_len: usize,
    high_len: usize,
}

/// An entry, located.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'p> {
    /// Where it starts.
    pub(crate) start: usize,
    /// Where it ends.
    pub(crate) end: usize,
    /// The key.
    pub(crate) key: &'p [u8],
    /// The row.
    pub(crate) row: RowId,
    /// Included columns.
    pub(crate) payload: &'p [u8],
    /// Marked dead?
    pub(crate) dead: bool,
}

/// Where a position belongs, as one page sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// On this page.
    Here,
    /// To the right of it, in this block or beyond.
    Right(u32),
    /// To the left, or the page holds no entries any more.
    Lost,
}

/// Is this a page of entries?
pub(crate) fn is_bucket(page: &Page) -> bool {
    page[KIND] == PageKind::HashBucket as u8
}

/// Where `position` belongs, as `page` sees it: any page of the index.
pub(crate) fn place_on(page: &Page, position: &[u8]) -> Checked<Place> {
    if !is_bucket(page) {
        return Ok(Place::Lost);
    }
    Ok(Bucket::open(page)?.place(position))
}

fn varint(page: &Page, at: &mut usize) -> Checked<usize> {
    const CUT: Damage = "a length is cut off";
    let first = usize::from(*page.get(*at).ok_or(CUT)?);
    *at += 1;
    if first < 0x80 {
        return Ok(first);
    }
    let second = usize::from(*page.get(*at).ok_or(CUT)?);
    *at += 1;
    Ok(first & 0x7f | second << 7)
}

impl<'p> Bucket<'p> {
    /// Opens a page of entries: its header and trailer are judged here.
    pub(crate) fn open(page: &'p Page) -> Checked<Self> {
        if !is_bucket(page) {
            return Err("not a page of entries");
        }
        let lower = usize::from(u16_at(page, LOWER));
        let bucket = Bucket {
            page,
            flags: u16_at(page, FLAGS),
            count: lower.saturating_sub(HEADER_SIZE) / SLOT,
            upper: usize::from(u16_at(page, UPPER)),
            special: usize::from(u16_at(page, SPECIAL)),
            garbage: usize::from(u16_at(page, GARBAGE)),
            right: u32_at(page, RIGHT),
            low_len: usize::from(u16_at(page, LOW_LEN)),
            high_len: usize::from(u16_at(page, HIGH_LEN)),
        };
        bucket.judge(lower)?;
        Ok(bucket)
    }

    fn judge(&self, lower: usize) -> Checked<()> {
        if lower != HEADER_SIZE + self.count * SLOT || lower > self.upper {
            return Err("the slot array does not end where it should");
        }
        if self.upper > self.special
            || self.special + self.low_len + self.high_len + TRAILER != PAGE_SIZE
        {
            return Err("fences and item area do not fit together");
        }
        if (self.right == 0) != (self.high_len == 0) {
            return Err("only the last page has no high fence");
        }
        let most = CODE + MAX_ENTRY_BYTES + RowId::SIZE;
        let sound = |len| len == 0 || (CODE..=most).contains(&len);
        if !sound(self.low_len) || !sound(self.high_len) {
            return Err("a fence of a length that none has");
        }
        if self.right != 0 && self.low() >= self.fence(self.low_len, self.high_len) {
            return Err("the fences do not ascend");
        }
        Ok(())
    }

    fn fence(&self, from: usize, len: usize) -> &'p [u8] {
        &self.page[self.special + from..self.special + from + len]
    }

    /// The low fence; empty on the first page.
    pub(crate) fn low(&self) -> &'p [u8] {
        self.fence(0, self.low_len)
    }

    /// The high fence; `None` on the last page.
    pub(crate) fn high(&self) -> Option<&'p [u8]> {
        (self.right != 0).then(|| self.fence(self.low_len, self.high_len))
    }

    /// The code at which a bucket begins to the right, if one does.
    pub(crate) fn next_bucket(&self) -> Option<u32> {
        let code = self.high().and_then(|high| <[u8; CODE]>::try_from(high).ok());
        code.map(u32::from_be_bytes)
    }

    /// Where `position` belongs.
    pub(crate) fn place(&self, position: &[u8]) -> Place {
        if position < self.low() {
            return Place::Lost;
        }
        match self.high() {
            Some(high) if position >= high => Place::Right(self.right),
            _ => Place::Here,
        }
    }

    /// Bytes free in one piece.
    pub(crate) fn room(&self) -> usize {
        self.upper - HEADER_SIZE - self.count * SLOT
    }

    /// Bytes that entries take, and header, fences and trailer.
    pub(crate) fn used(&self) -> usize {
        PAGE_SIZE - (self.room() + self.garbage).min(PAGE_SIZE)
    }

    /// The slot word of entry `i`.
    pub(crate) fn word(&self, i: usize) -> u16 {
        assert!(i < self.count, "an entry of this page");
        u16_at(self.page, HEADER_SIZE + i * SLOT)
    }

    /// The code of entry `i`.
    pub(crate) fn code(&self, i: usize) -> u32 {
        assert!(i < self.count, "an entry of this page");
        u32_at(self.page, HEADER_SIZE + i * SLOT + 2).swap_bytes()
    }

    /// Entry `i`, judged.
    pub(crate) fn item(&self, i: usize) -> Checked<Item<'p>> {
        let word = self.word(i);
        let start = usize::from(word & OFFSET_MASK);
        if start < self.upper || start >= self.special || word & (1 << 15) != 0 {
            return Err("a slot points outside the items, or has bits that mean nothing");
        }
        let mut at = start;
        let key_len = varint(self.page, &mut at)?;
        let row_at = at + key_len;
        let key = self.page.get(at..row_at).ok_or("a key outside the page")?;
        let row = self.page.get(row_at..row_at + RowId::SIZE).ok_or("a row outside the page")?;
        let row = RowId::from_bytes(row.try_into().expect("as long as asked for"));
        at = row_at + RowId::SIZE;
        let mut payload: &[u8] = &[];
        if word & EXTRA != 0 {
            let len = varint(self.page, &mut at)?;
            payload = self.page.get(at..at + len).ok_or("a payload outside the page")?;
            at += len;
        }
        if at > self.special {
            return Err("an item reaches into the fences");
        }
        if key.len() + payload.len() > MAX_ENTRY_BYTES {
            return Err("an entry is longer than any can be");
        }
        Ok(Item { start, end: at, key, row, payload, dead: word & DEAD != 0 })
    }

    /// Key and row id of entry `i`, which are one piece.
    fn tail(&self, i: usize) -> Checked<&'p [u8]> {
        let mut at = usize::from(self.word(i) & OFFSET_MASK);
        let len = varint(self.page, &mut at)? + RowId::SIZE;
        self.page.get(at..at + len).ok_or("a key outside the page")
    }

    fn compare(&self, i: usize, (code, rest): (u32, &[u8])) -> Checked<Ordering> {
        match self.code(i).cmp(&code) {
            Ordering::Equal => Ok(self.tail(i)?.cmp(rest)),
            order => Ok(order),
        }
    }

    /// First entry not below `position`: codes are compared, and keys only where those are equal.
    pub(crate) fn search(&self, position: &[u8]) -> Checked<usize> {
        let aim = split_code(position);
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            match self.compare(middle, aim)? {
                Ordering::Less => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Where the entry at exactly `position` is or would be, and whether it is there.
    pub(crate) fn find(&self, position: &[u8]) -> Checked<(usize, bool)> {
        let at = self.search(position)?;
        let there = at < self.count && self.compare(at, split_code(position))?.is_eq();
        Ok((at, there))
    }

    /// Does entry `i` have this key, whose code is `code`?
    pub(crate) fn has_key(&self, i: usize, code: u32, key: &[u8]) -> Checked<bool> {
        if self.code(i) != code {
            return Ok(false);
        }
        let tail = self.tail(i)?;
        Ok(tail.len() == key.len() + RowId::SIZE && tail.starts_with(key))
    }
}
