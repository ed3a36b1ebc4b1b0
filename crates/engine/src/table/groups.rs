//! Entries of a leaf by the heap block they name, so that a block is looked at once for all of
//! them, though their rows are handed over in the index's order.
//!
//! Entries are taken 64 at a time. Those of them that name one block are a [`Group`], and groups
//! come in the order of their first entries; [`Held`] keeps what was found for the others until it
//! is their turn.
//!
//! Invariants: a group says how many rows can be handed over before the next one is needed, so that
//! a reader who wants few looks at no block more than these need; rows are held in at most a page's
//! worth of memory, which the budget gave, and those that do not fit are looked at again when it is
//! their turn. The row whose turn it is needs none.
//! Does not do: reading pages; whether an entry stands for a row (`index_scan`, R4).

use std::ops::Range;

use rightlink_env::sync::Arc;
use rightlink_env::{Budget, Reservation};

use crate::config::PAGE_SIZE;
use crate::heap::FetchResult;
use crate::ids::{BlockNo, RowId};

use super::index_scan::{Leaf, Wanted};

/// Entries that are looked through for those of one block.
const SPAN: usize = u64::BITS as usize;
/// Bytes of rows that are held, at most: a page's, which one row may take as well.
const ROOM: usize = PAGE_SIZE;
/// So many bytes are held without asking the budget.
const SMALL: usize = 1 << 10;
/// Places of the table of blocks; free ones.
const SLOTS: usize = 2 * SPAN;
const FREE: u8 = u8::MAX;

/// Up to 64 entries of a leaf, in the order of the scan.
#[derive(Clone)]
struct Span {
    leaf: Arc<Leaf>,
    /// The first of them.
    first: usize,
    /// From there on the scan goes against the order of the leaf.
    back: bool,
}

/// Entries of a leaf that name one block, or none of which needs its block.
pub(super) struct Group {
    span: Span,
    /// Which of the span, a bit each.
    mask: u64,
    /// Entries from the first of these to the first of the next group.
    pub(super) rows: u32,
}

/// The groups of one span, those that were not handed over yet.
#[derive(Default)]
pub(super) struct Groups {
    span: Option<Span>,
    masks: Vec<u64>,
    /// The next one.
    at: usize,
    /// Entries of the span.
    len: u32,
}

/// How entries are grouped.
#[derive(Clone, Copy)]
pub(super) struct Grouping {
    /// Only those that follow each other are grouped.
    pub(super) adjacent: bool,
    /// Entries that need their row checked are alone: others may need no page.
    pub(super) recheck_alone: bool,
}

impl Span {
    fn place(&self, bit: u32) -> usize {
        if self.back { self.first - bit as usize } else { self.first + bit as usize }
    }

    fn is(&self, other: &Span) -> bool {
        Arc::ptr_eq(&self.leaf, &other.leaf) && (self.first, self.back) == (other.first, other.back)
    }
}

impl Group {
    /// An entry by itself.
    pub(super) fn alone(wanted: Wanted) -> Group {
        let span = Span { leaf: wanted.leaf, first: wanted.at, back: false };
        Group { span, mask: 1, rows: 1 }
    }

    pub(super) fn leaf(&self) -> &Arc<Leaf> {
        &self.span.leaf
    }

    /// Takes in the group that follows; neither needs a page.
    pub(super) fn join(&mut self, next: &Group) {
        self.mask |= next.mask;
        self.rows += next.rows;
    }

    /// Place of its first entry in the leaf.
    pub(super) fn first(&self) -> usize {
        self.span.place(self.mask.trailing_zeros())
    }
}

impl Groups {
    /// The next group.
    pub(super) fn next(&mut self) -> Option<Group> {
        let next = self.peek()?;
        self.skip();
        Some(next)
    }

    /// Goes on behind the group that [`Groups::peek`] gave.
    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    /// The next group, which stays.
    pub(super) fn peek(&self) -> Option<Group> {
        let mask = *self.masks.get(self.at)?;
        let end = self.masks.get(self.at + 1).map_or(self.len, |next| next.trailing_zeros());
        let span = self.span.clone().expect("groups are of a span");
        Some(Group { span, mask, rows: end - mask.trailing_zeros() })
    }

    /// Takes the next entries out of `left`: the first ones, or the last ones backwards.
    pub(super) fn refill(
        &mut self,
        leaf: &Arc<Leaf>,
        (left, back): (&mut Range<usize>, bool),
        how: Grouping,
    ) {
        let len = left.len().min(SPAN);
        let first = if back { left.end - 1 } else { left.start };
        let span = Span { leaf: Arc::clone(leaf), first, back };
        match back {
            true => left.end -= len,
            false => left.start += len,
        }
        self.masks.clear();
        (self.at, self.len) = (0, len as u32);
        let mut table = Table { last: None, slots: [FREE; SLOTS], blocks: [BlockNo(0); SPAN] };
        for bit in 0..len as u32 {
            let entry = &leaf.batch.entries[span.place(bit)];
            let block = entry.row.block;
            let alone = how.recheck_alone && entry.recheck;
            let known = match table.last {
                _ if alone => None,
                Some((last, group)) if last == block => Some(group),
                _ if how.adjacent => None,
                _ => table.find(block),
            };
            match known {
                Some(group) => self.masks[group] |= 1 << bit,
                None => {
                    // Nobody joins one that is alone.
                    match alone {
                        true => table.last = None,
                        false => table.add(block, self.masks.len(), how.adjacent),
                    }
                    self.masks.push(1 << bit);
                }
            }
        }
        self.span = Some(span);
    }
}

/// Finds groups by their blocks.
struct Table {
    /// The block of the group that began last, unless that is of one entry for good.
    last: Option<(BlockNo, usize)>,
    slots: [u8; SLOTS],
    blocks: [BlockNo; SPAN],
}

impl Table {
    fn slot(&self, block: BlockNo) -> usize {
        let mut at = (block.0.wrapping_mul(0x9E37_79B1) >> 16) as usize % SLOTS;
        while self.slots[at] != FREE && self.blocks[usize::from(self.slots[at])] != block {
            at = (at + 1) % SLOTS;
        }
        at
    }

    fn find(&self, block: BlockNo) -> Option<usize> {
        let group = self.slots[self.slot(block)];
        (group != FREE).then_some(usize::from(group))
    }

    /// A group begins. Where only neighbours join, the table is not needed.
    fn add(&mut self, block: BlockNo, group: usize, adjacent: bool) {
        self.last = Some((block, group));
        if adjacent {
            return;
        }
        let slot = self.slot(block);
        self.blocks[group] = block;
        self.slots[slot] = group as u8;
    }
}

/// What is known of a span's entries, and the rows that were found.
#[derive(Default)]
pub(super) struct Held {
    span: Option<Span>,
    /// The next entry.
    at: u32,
    /// Entries of the groups that came.
    known: u64,
    /// Of these: those that need no page, those whose page is to be looked at, and those of which
    /// there is a row.
    keyed: u64,
    unread: u64,
    found: u64,
    /// Per entry the place of its row, and where its bytes begin and end.
    rows: Vec<(RowId, u32, u32)>,
    bytes: Vec<u8>,
    /// What the budget gave, once it was asked; none if it had nothing.
    memory: Option<Option<Reservation>>,
}

/// An entry whose turn it is.
pub(super) enum Turn {
    /// Its group has not come yet.
    Unknown,
    /// Its page must be looked at.
    Unread,
    /// It needs no page.
    Keyed,
    /// There is no row for it.
    Nothing,
    /// Its row is held.
    Found,
}

impl Held {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.span = None;
        (self.at, self.known, self.keyed, self.unread, self.found) = (0, 0, 0, 0, 0);
        self.bytes.clear();
    }

    /// A group has come; it needs its page or not.
    pub(super) fn take_in(&mut self, group: &Group, needs_page: bool) {
        if !self.span.as_ref().is_some_and(|span| span.is(&group.span)) || self.at as usize == SPAN
        {
            self.clear();
            self.span = Some(group.span.clone());
            self.rows.resize(SPAN, <(RowId, u32, u32)>::default());
        }
        debug_assert!(self.known & group.mask == 0 && group.mask >> self.at & 1 == 1);
        self.known |= group.mask;
        *(if needs_page { &mut self.unread } else { &mut self.keyed }) |= group.mask;
    }

    fn bit(&self) -> u64 {
        1u64.checked_shl(self.at).unwrap_or(0)
    }

    /// How far the entry is whose turn it is.
    #[inline]
    pub(super) fn turn(&self) -> Turn {
        let bit = self.bit();
        match () {
            () if self.found & bit != 0 => Turn::Found,
            () if self.known & bit == 0 => Turn::Unknown,
            () if self.unread & bit != 0 => Turn::Unread,
            () if self.keyed & bit != 0 => Turn::Keyed,
            () => Turn::Nothing,
        }
    }

    /// On to the next entry.
    pub(super) fn pass(&mut self) {
        self.at += 1;
    }

    fn span(&self) -> &Span {
        self.span.as_ref().expect("a group has come")
    }

    /// The leaf of the entry whose turn it is, and its place there.
    #[inline]
    pub(super) fn entry(&self) -> (&Arc<Leaf>, usize) {
        let span = self.span();
        (&span.leaf, span.place(self.at))
    }

    /// The row of the entry whose turn it is, where one is found.
    #[inline]
    pub(super) fn row(&self) -> (RowId, &[u8]) {
        let (row_id, from, to) = self.rows[self.at as usize];
        (row_id, &self.bytes[from as usize..to as usize])
    }

    /// Number and line pointer of the unread entries of the block that the present one names, those
    /// of the next `left` entries, itself first.
    pub(super) fn roots(&self, left: u64) -> impl Iterator<Item = (u32, u16)> + use<> {
        let Span { leaf, first, back } = self.span().clone();
        let span = Span { leaf, first, back };
        let block = span.leaf.batch.entries[span.place(self.at)].row.block;
        let end = u64::from(self.at).saturating_add(left.max(1));
        let near =
            1u64.checked_shl(u32::try_from(end).unwrap_or(u32::MAX)).map_or(!0, |bit| bit - 1);
        let mut bits = self.unread & near;
        std::iter::from_fn(move || {
            while bits != 0 {
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                let row = span.leaf.batch.entries[span.place(bit)].row;
                if row.block == block {
                    return Some((bit, row.slot));
                }
            }
            None
        })
    }

    /// Makes room for rows: where none are held any more, and once by asking the budget.
    pub(super) fn make_room(&mut self, budget: &Budget) {
        if self.found & !self.passed() == 0 {
            self.bytes.clear();
        }
        if self.memory.is_none() && self.unread.count_ones() > 1 {
            self.memory = Some(budget.try_reserve(ROOM));
        }
    }

    fn room(&self) -> usize {
        if matches!(self.memory, Some(Some(_))) { ROOM } else { SMALL }
    }

    /// The rows that are held are to be looked at again when it is their turn.
    #[cold]
    fn give_up(&mut self) {
        self.unread |= self.found & !self.passed();
        self.found &= self.passed();
        self.bytes.clear();
    }

    fn passed(&self) -> u64 {
        self.bit().wrapping_sub(1)
    }

    /// Holds what was found for entry `number`; false: there is no room for it, nor for more. For
    /// the entry whose turn it is there always is: others are given up for it.
    #[inline]
    pub(super) fn put(&mut self, number: u32, look: FetchResult<'_>) -> bool {
        if let FetchResult::Visible(row_id, row) = look {
            if self.bytes.len() + row.len() > self.room() {
                if number != self.at {
                    return false;
                }
                self.give_up();
            }
            let from = self.bytes.len();
            self.bytes.extend_from_slice(row);
            self.rows[number as usize] = (row_id, from as u32, self.bytes.len() as u32);
            self.found |= 1 << number;
        }
        self.unread &= !(1 << number);
        true
    }

    /// The place in the leaf of entry `number`.
    pub(super) fn wanted(&self, number: u32) -> Wanted {
        let span = self.span();
        Wanted { leaf: Arc::clone(&span.leaf), at: span.place(number) }
    }
}
