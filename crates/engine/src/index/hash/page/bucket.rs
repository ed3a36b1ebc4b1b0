//! A page of entries: layout, reading, searching. The format is specified in docs/format.md.
//!
//! | where | bytes | content |
//! |---|---|---|
//! | 0 | 32 | page header; `flags` bit 0: incomplete split, bit 3: some entries are marked dead |
//! | 32 | 6 each | slots, in the order of positions: offset and tags u16, code big-endian |
//! | upper..special | | items: length of the key, key, row id; with a tag length and payload |
//! | special | | low fence, then high fence |
//! | 8176 | 16 | right link (0: last page), lengths of both fences, 8 bytes 0 |
//!
//! A fence is a position, cut off where it tells the pages apart. It has 4 bytes where a bucket
//! begins, and more elsewhere. Lengths are one byte below 128, else two.
//!
//! Invariants: [`Bucket::open`] checks the header once; each item is checked when it is read.
//! Does not do: changes (`edit`), latching.

use std::cmp::Ordering;

use crate::config::PAGE_SIZE;
use crate::ids::RowId;
use crate::index::MAX_ENTRY_BYTES;
pub(crate) use crate::index::dead_marks::{DEAD, HAS_DEAD};
use crate::index::hash::page::hash_code::{CODE_BYTES, bucket_code, split_code};
use crate::page::header::{
    FLAGS, GARBAGE, HEADER_SIZE, KIND, LOWER, SPECIAL, UPPER, u16_at, u32_at,
};
use crate::page::{Checked, Damage, PageKind};

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
/// The item ends with a payload.
pub(crate) const EXTRA: u16 = 1 << 14;

/// Page flag: the directory does not name the page to the right, which begins a bucket.
pub(crate) const INCOMPLETE: u16 = 1;
const _: () = assert!(PAGE_SIZE - 1 <= OFFSET_MASK as usize, "an offset fits a slot");
const _: () = assert!(
    HEADER_SIZE + TRAILER + 3 * (MAX_ENTRY_BYTES + CODE_BYTES + RowId::SIZE) + SLOT + 4
        <= PAGE_SIZE,
    "a page with one entry always fits"
);

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

/// Where a position belongs, by the fences of one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageMatch {
    /// On this page.
    Here,
    /// On the page in this block, or right of it.
    MoveRight(u32),
    /// To the left, or the page holds no entries any more.
    Lost,
}

/// Where on a page an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SearchPosition {
    /// Number of the first entry that is not before it.
    pub(crate) at: usize,
    /// Is that the entry itself?
    pub(crate) exact: bool,
}

/// Is this a page of entries?
pub(crate) fn is_bucket(page: &Page) -> bool {
    page[KIND] == PageKind::HashBucket as u8
}

/// Where `position` belongs, by the fences of `page`, which may be any page of the index.
pub(crate) fn match_page(page: &Page, position: &[u8]) -> Checked<PageMatch> {
    if !is_bucket(page) {
        return Ok(PageMatch::Lost);
    }
    Ok(Bucket::open(page)?.match_position(position))
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
    /// Opens a page of entries, and checks its header and trailer.
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
        bucket.check(lower)?;
        Ok(bucket)
    }

    fn check(&self, lower: usize) -> Checked<()> {
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
        let most = CODE_BYTES + MAX_ENTRY_BYTES + RowId::SIZE;
        let sound = |len| len == 0 || (CODE_BYTES..=most).contains(&len);
        if !sound(self.low_len) || !sound(self.high_len) {
            return Err("a fence of a length that no fence has");
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
        self.high().and_then(bucket_code)
    }

    /// The code at which a bucket begins on this page, if one does.
    pub(crate) fn begun_bucket(&self) -> Option<u32> {
        if self.low().is_empty() { Some(0) } else { bucket_code(self.low()) }
    }

    /// Where `position` belongs.
    pub(crate) fn match_position(&self, position: &[u8]) -> PageMatch {
        if position < self.low() {
            return PageMatch::Lost;
        }
        match self.high() {
            Some(high) if position >= high => PageMatch::MoveRight(self.right),
            _ => PageMatch::Here,
        }
    }

    /// Bytes free in one piece.
    pub(crate) fn free_bytes(&self) -> usize {
        self.upper - HEADER_SIZE - self.count * SLOT
    }

    /// Bytes that entries take, and header, fences and trailer.
    pub(crate) fn used_bytes(&self) -> usize {
        PAGE_SIZE - (self.free_bytes() + self.garbage).min(PAGE_SIZE)
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

    /// Entry `i`, checked.
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
    fn key_and_row(&self, i: usize) -> Checked<&'p [u8]> {
        let mut at = usize::from(self.word(i) & OFFSET_MASK);
        let len = varint(self.page, &mut at)? + RowId::SIZE;
        self.page.get(at..at + len).ok_or("a key outside the page")
    }

    /// Compares entry `i` with a position of this code, of which `rest` follows the code.
    fn compare(&self, i: usize, code: u32, rest: &[u8]) -> Checked<Ordering> {
        match self.code(i).cmp(&code) {
            Ordering::Equal => Ok(self.key_and_row(i)?.cmp(rest)),
            order => Ok(order),
        }
    }

    /// First entry not before `position`. Codes are compared, and keys only where those are equal.
    pub(crate) fn search(&self, position: &[u8]) -> Checked<usize> {
        let (code, rest) = split_code(position);
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            match self.compare(middle, code, rest)? {
                Ordering::Less => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Where the entry at exactly `position` is or would be.
    pub(crate) fn find(&self, position: &[u8]) -> Checked<SearchPosition> {
        let at = self.search(position)?;
        let (code, rest) = split_code(position);
        let exact = at < self.count && self.compare(at, code, rest)?.is_eq();
        Ok(SearchPosition { at, exact })
    }

    /// Does entry `i` have this key, whose code is `code`?
    pub(crate) fn has_key(&self, i: usize, code: u32, key: &[u8]) -> Checked<bool> {
        if self.code(i) != code {
            return Ok(false);
        }
        let entry = self.key_and_row(i)?;
        Ok(entry.len() == key.len() + RowId::SIZE && entry.starts_with(key))
    }
}
