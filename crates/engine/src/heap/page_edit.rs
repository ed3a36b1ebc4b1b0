//! The slotted heap page, write side: every store goes through [`PageMut`], which records it.
//!
//! Invariants: a function here is called with the exclusive latch and after [`HeapPage::open`]
//! accepted the page; it cannot fail once it has begun to store; stores are as small as the change,
//! so that a record carries an insert's bytes once, a prune's as moves of runs.
//! Does not do: decide what to insert, end or remove.

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::heap::page::{FREE_SLOTS, HeapPage, MAX_SLOTS, PRUNE_XID, SLOT_SIZE, Slot, TRAILER};
use crate::heap::tuple::{TUPLE_HEADER, TupleHeader, XMAX, base_for, fits, to_offset};
use crate::ids::{PageId, Xid};
use crate::page::PageMut;
use crate::page::header::{self, HEADER_SIZE, PageKind};

/// Most places where bytes go at which what is above each of them is summed up, tuple by tuple.
const FEW_HOLES: usize = 8;

/// Image of an empty heap page whose first version `xid` will create.
pub(super) fn empty_image(xid: Xid) -> [u8; PAGE_SIZE] {
    let mut image = header::format(PageKind::Heap, TRAILER);
    image[header::OWNER..header::OWNER + 8].copy_from_slice(&base_for(xid).to_le_bytes());
    image
}

/// Offset of the line pointer `slot`.
fn slot_at(slot: u16) -> usize {
    assert!((1..=MAX_SLOTS).contains(&slot), "a line pointer of the page");
    HEADER_SIZE + SLOT_SIZE * usize::from(slot - 1)
}

/// Slots for `count` new tuples: unused ones first, then new ones at the end of the array.
pub(super) fn choose_slots(page: &HeapPage<'_>, count: usize) -> Vec<u16> {
    let mut chosen = Vec::new();
    if page.flags() & FREE_SLOTS != 0 {
        let unused = (1u16..).zip(page.slot_words()).filter(|(_, word)| **word == [0; SLOT_SIZE]);
        chosen.extend(unused.map(|(slot, _)| slot).take(count));
    }
    let fresh = (page.slots() + 1..=MAX_SLOTS).take(count - chosen.len());
    chosen.extend(fresh);
    chosen
}

/// The slot that [`choose_slots`] gives for one tuple.
pub(super) fn choose_slot(page: &HeapPage<'_>) -> Option<u16> {
    let unused = match page.flags() & FREE_SLOTS != 0 {
        true => page.slot_words().iter().position(|word| *word == [0; SLOT_SIZE]),
        false => None,
    };
    let slot = unused.map_or(page.slots(), |at| at as u16) + 1;
    (slot <= MAX_SLOTS).then_some(slot)
}

/// How many of `lens` (tuple bytes, header included) fit on `page` while `reserve` bytes stay free.
pub(super) fn how_many_fit(
    page: &HeapPage<'_>,
    slots: &[u16],
    reserve: usize,
    lens: impl Iterator<Item = usize>,
) -> usize {
    let mut gap = page.gap().saturating_sub(reserve);
    let mut count = 0;
    for (len, slot) in lens.zip(slots) {
        let need = len + if *slot > page.slots() { SLOT_SIZE } else { 0 };
        if need > gap {
            break;
        }
        gap -= need;
        count += 1;
    }
    count
}

/// Puts the versions into `slots`, which [`choose_slots`] gave and [`how_many_fit`] approved.
pub(super) fn insert_tuples(
    page: &mut PageMut<'_>,
    slots: &[u16],
    headers_and_rows: &[(TupleHeader, &[u8])],
) {
    assert!(slots.len() == headers_and_rows.len() && !slots.is_empty());
    let bytes = page.bytes();
    let base = header::u64_at(bytes, header::OWNER);
    let (lower, upper) =
        (header::u16_at(bytes, header::LOWER), header::u16_at(bytes, header::UPPER));
    let had_slots = (usize::from(lower) - HEADER_SIZE) / SLOT_SIZE;
    let had_free = header::u16_at(bytes, header::FLAGS) & FREE_SLOTS != 0;
    let mut at = usize::from(upper);
    let mut pointers = Vec::with_capacity(slots.len());
    for (_, row) in headers_and_rows {
        let len = TUPLE_HEADER + row.len();
        at -= len;
        pointers.push(Slot::Normal { offset: at as u16, len: len as u16 });
    }
    let mut area = Vec::with_capacity(usize::from(upper) - at);
    for (head, row) in headers_and_rows.iter().rev() {
        area.extend(head.encode(base));
        area.extend_from_slice(row);
    }
    let last = usize::from(*slots.last().expect("at least one slot")).max(had_slots);
    let new_lower = HEADER_SIZE + last * SLOT_SIZE;
    assert!(new_lower <= at, "the caller checked the room");
    page.write(at, &area);
    write_slots(page, slots, &pointers);
    let mut bounds = [0; 4];
    bounds[..2].copy_from_slice(&(new_lower as u16).to_le_bytes());
    bounds[2..].copy_from_slice(&(at as u16).to_le_bytes());
    page.write(header::LOWER, &bounds);
    if had_free && last > had_slots {
        put_flags(page, 0, FREE_SLOTS);
    }
}

/// Stores the line pointer `slot` of the page's array.
pub(super) fn put_slot(page: &mut PageMut<'_>, slot: u16, to: Slot) {
    let at = slot_at(slot);
    let lower = usize::from(header::u16_at(page.bytes(), header::LOWER));
    assert!(at + SLOT_SIZE <= lower, "a line pointer of the array");
    if page.bytes()[at..at + SLOT_SIZE] != to.encode() {
        page.write(at, &to.encode());
    }
}

/// Puts a version at `offset`, where one of as many bytes lay that is gone, and names it by `slot`:
/// one of the array, or the next one, for which there is room.
pub(super) fn put_tuple(
    page: &mut PageMut<'_>,
    (slot, offset): (u16, u16),
    head: &TupleHeader,
    row: &[u8],
) {
    let (at, len) = (usize::from(offset), TUPLE_HEADER + row.len());
    let base = header::u64_at(page.bytes(), header::OWNER);
    let lower = usize::from(header::u16_at(page.bytes(), header::LOWER));
    let upper = usize::from(header::u16_at(page.bytes(), header::UPPER));
    let end = slot_at(slot) + SLOT_SIZE;
    assert!(upper <= at && at + len <= PRUNE_XID, "where a version lay");
    assert!(end <= lower + SLOT_SIZE && end <= upper, "a line pointer of the array or the next");
    let mut bytes = Vec::with_capacity(len);
    bytes.extend(head.encode(base));
    bytes.extend_from_slice(row);
    page.write(at, &bytes);
    page.write(slot_at(slot), &Slot::Normal { offset, len: len as u16 }.encode());
    if end > lower {
        page.put_u16(header::LOWER, end as u16);
        put_flags(page, 0, FREE_SLOTS);
    }
}

/// Stores line pointers, neighbours in one store.
fn write_slots(page: &mut PageMut<'_>, slots: &[u16], pointers: &[Slot]) {
    assert!(slots.is_sorted() && slots.len() == pointers.len());
    if let ([slot], [pointer]) = (slots, pointers) {
        return page.write(slot_at(*slot), &pointer.encode());
    }
    let mut from = 0;
    while from < slots.len() {
        let mut to = from + 1;
        while to < slots.len() && slots[to] == slots[to - 1] + 1 {
            to += 1;
        }
        let run: Vec<u8> = pointers[from..to].iter().flat_map(|slot| slot.encode()).collect();
        page.write(slot_at(slots[from]), &run);
        from = to;
    }
}

/// Sets and clears page flags.
pub(super) fn put_flags(page: &mut PageMut<'_>, set: u16, clear: u16) {
    let old = header::u16_at(page.bytes(), header::FLAGS);
    let new = (old | set) & !clear;
    if new != old {
        page.put_u16(header::FLAGS, new);
    }
}

/// Replaces xmax, next and flags of the version at `offset` by those of `head`.
pub(super) fn put_xmax(page: &mut PageMut<'_>, offset: u16, head: &TupleHeader) {
    let at = usize::from(offset);
    assert!(at >= HEADER_SIZE && at + TUPLE_HEADER <= PRUNE_XID, "a checked tuple");
    let base = header::u64_at(page.bytes(), header::OWNER);
    page.write(at + XMAX, &head.encode(base)[XMAX..]);
}

/// Replaces the header `old` of the version at `offset` by `new`, xmin alone when only that
/// differs.
pub(super) fn put_header(
    page: &mut PageMut<'_>,
    offset: u16,
    old: &TupleHeader,
    new: &TupleHeader,
) {
    let at = usize::from(offset);
    assert!(at >= HEADER_SIZE && at + TUPLE_HEADER <= PRUNE_XID, "a checked tuple");
    let base = header::u64_at(page.bytes(), header::OWNER);
    if (TupleHeader { xmin: new.xmin, ..*old }) == *new {
        page.write(at, &to_offset(base, new.xmin).to_le_bytes());
    } else {
        page.write(at, &new.encode(base));
    }
}

/// Lowers the prunable mark to `xid`: the version that it ends may be pruned later.
pub(super) fn mark_prunable(page: &mut PageMut<'_>, xid: Xid) {
    let old = header::u64_at(page.bytes(), PRUNE_XID);
    if old == 0 || old > xid.0 {
        page.put_u64(PRUNE_XID, xid.0);
    }
}

/// Sets the prunable mark.
pub(super) fn put_prune_xid(page: &mut PageMut<'_>, xid: Xid) {
    if header::u64_at(page.bytes(), PRUNE_XID) != xid.0 {
        page.put_u64(PRUNE_XID, xid.0);
    }
}

/// What a page looks like after versions were removed: computed, and checked, before the first
/// store.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rewrite {
    /// All line pointers of the page afterwards ([`Slot::word`]), new offsets included; no unused
    /// ones at the end.
    pointers: Vec<u32>,
    /// Runs of tuple bytes to move, in this order: from, length, to.
    moves: Vec<(usize, usize, usize)>,
    upper: usize,
}

impl Rewrite {
    /// As [`Rewrite::plan`]; `gone` are the bytes that `keep` names no more, by offset and number.
    /// Where these are in few places, what lies between two of them moves as one, and nothing is
    /// sorted.
    pub(super) fn without(
        page: &HeapPage<'_>,
        keep: &[Slot],
        gone: &[(u16, u16)],
    ) -> Result<Rewrite> {
        assert!(keep.len() == usize::from(page.slots()), "one entry per line pointer");
        match Self::shifted(page.upper(), keep, gone) {
            Some(rewrite) => Ok(rewrite),
            None => Self::plan(page, keep.to_vec()),
        }
    }

    /// The page of `keep` without `gone`, if these are few, and both together all that there is.
    fn shifted(upper: usize, keep: &[Slot], gone: &[(u16, u16)]) -> Option<Rewrite> {
        if gone.len() > FEW_HOLES {
            return None;
        }
        let wide = |(at, len): &(u16, u16)| (usize::from(*at), usize::from(*len));
        let mut holes: Vec<(usize, usize)> = gone.iter().map(wide).collect();
        holes.sort_unstable_by(|a, b| b.cmp(a));
        let (mut moves, mut end, mut shift) = (Vec::with_capacity(holes.len()), PRUNE_XID, 0);
        for (at, len) in holes.iter().chain(&[(upper, 0)]) {
            let from = at + len;
            let above = end.checked_sub(from)?;
            if shift > 0 && above > 0 {
                moves.push((from, above, from + shift));
            }
            (end, shift) = (*at, shift + len);
        }
        let (mut left, mut inside) = (0, true);
        let moved = |slot: &Slot| {
            let Slot::Normal { offset, len } = *slot else { return slot.word() };
            let at = usize::from(offset);
            let higher = holes.iter().map(|(hole, len)| if *hole > at { *len } else { 0 });
            let to = at + higher.sum::<usize>();
            inside &= to + usize::from(len) <= PRUNE_XID;
            left += usize::from(len);
            Slot::Normal { offset: to as u16, len }.word()
        };
        let pointers: Vec<u32> = keep.iter().map(moved).collect();
        if !inside {
            return None;
        }
        // Else there is damage, and the other way finds it.
        if upper + shift + left != PRUNE_XID {
            return None;
        }
        Some(Rewrite { pointers: without_unused_end(pointers), moves, upper: upper + shift })
    }

    /// Plans the page of `keep` (one entry per line pointer, offsets as they are now), compacted.
    pub(super) fn plan(page: &HeapPage<'_>, mut keep: Vec<Slot>) -> Result<Rewrite> {
        assert!(keep.len() == usize::from(page.slots()), "one entry per line pointer");
        // Offset, bytes and index in one number: updates mix a page, and this is its only sort.
        let mut kept: Vec<u64> = Vec::with_capacity(keep.len());
        for (i, slot) in keep.iter().enumerate() {
            if let Slot::Normal { offset, len } = *slot {
                kept.push(u64::from(offset) << 32 | u64::from(len) << 16 | i as u64);
            }
        }
        kept.sort_unstable_by(|a, b| b.cmp(a));
        let (mut upper, mut above) = (PRUNE_XID, PRUNE_XID);
        let mut moves: Vec<(usize, usize, usize)> = Vec::new();
        for word in kept {
            let field = |at: u32| usize::from((word >> at) as u16);
            let (offset, len, i) = (field(32), field(16), field(0));
            if offset + len > above {
                return Err(page.error(i as u16 + 1, "a tuple that overlaps another"));
            }
            above = offset;
            upper -= len;
            keep[i] = Slot::Normal { offset: upper as u16, len: len as u16 };
            push_move(&mut moves, (offset, len, upper));
        }
        let pointers = without_unused_end(keep.into_iter().map(Slot::word).collect());
        Ok(Rewrite { pointers, moves, upper })
    }

    /// Carries the plan out.
    pub(super) fn apply(&self, page: &mut PageMut<'_>) {
        let bytes = page.bytes();
        let lower = usize::from(header::u16_at(bytes, header::LOWER));
        let upper = usize::from(header::u16_at(bytes, header::UPPER));
        let new_lower = HEADER_SIZE + self.pointers.len() * SLOT_SIZE;
        assert!(self.upper >= upper && new_lower <= lower, "a rewrite only gives space back");
        for (from, len, to) in &self.moves {
            page.copy_within(*from, *len, *to);
        }
        if self.upper > upper {
            page.fill(upper, self.upper - upper, 0);
        }
        if lower > new_lower {
            page.fill(new_lower, lower - new_lower, 0);
        }
        self.store_pointers(page);
        let mut bounds = [0; 4];
        bounds[..2].copy_from_slice(&(new_lower as u16).to_le_bytes());
        bounds[2..].copy_from_slice(&(self.upper as u16).to_le_bytes());
        page.write(header::LOWER, &bounds);
        if self.pointers.contains(&UNUSED) {
            put_flags(page, FREE_SLOTS, 0);
        }
    }

    /// Stores only the line pointers that differ, neighbours in one store.
    fn store_pointers(&self, page: &mut PageMut<'_>) {
        let mut run = Vec::with_capacity(self.pointers.len() * SLOT_SIZE);
        let mut at = 0;
        while at < self.pointers.len() {
            let (old, _) = page.bytes()[HEADER_SIZE..PRUNE_XID].as_chunks::<SLOT_SIZE>();
            let pairs =
                || self.pointers.iter().zip(old).map(|(new, old)| (new.to_le_bytes(), *old));
            let Some(same) = pairs().skip(at).position(|(new, old)| new != old) else { return };
            let from = at + same;
            run.clear();
            for (new, _) in pairs().skip(from).take_while(|(new, old)| new != old) {
                run.extend_from_slice(&new);
            }
            at = from + run.len() / SLOT_SIZE;
            page.write(HEADER_SIZE + from * SLOT_SIZE, &run);
        }
    }
}

/// The line pointer of an unused slot.
const UNUSED: u32 = 0;

/// Line pointers without the unused ones at the end.
fn without_unused_end(mut pointers: Vec<u32>) -> Vec<u32> {
    while pointers.last() == Some(&UNUSED) {
        pointers.pop();
    }
    pointers
}

/// Appends a move, joined to the one before when both move neighbours by the same distance.
fn push_move(moves: &mut Vec<(usize, usize, usize)>, (from, len, to): (usize, usize, usize)) {
    if from == to {
        return;
    }
    match moves.last_mut() {
        Some(last) if from + len == last.0 && to + len == last.2 => {
            *last = (from, len + last.1, to);
        }
        _ => moves.push((from, len, to)),
    }
}

/// Image of `page` with base `base`, if all its xids fit.
pub(super) fn rebased_image(page: &HeapPage<'_>, base: u64) -> Result<[u8; PAGE_SIZE]> {
    let mut image = *page.bytes();
    for slot in 1..=page.slots() {
        let Some(tuple) = page.tuple(slot)? else { continue };
        if !fits(base, tuple.header.xmin) || !fits(base, tuple.header.xmax) {
            return Err(too_far_apart(page.id()));
        }
        let at = usize::from(tuple.offset);
        image[at..at + TUPLE_HEADER].copy_from_slice(&tuple.header.encode(base));
    }
    image[header::OWNER..header::OWNER + 8].copy_from_slice(&base.to_le_bytes());
    Ok(image)
}

/// The error of a page that would have to hold xids more than 2^32 apart.
pub(super) fn too_far_apart(page: PageId) -> Error {
    Error::Limit(format!("{page} holds xids more than 32 bits apart: vacuum the table"))
}

/// Bytes that an empty page has for one row version.
pub(super) fn empty_room() -> usize {
    PRUNE_XID - HEADER_SIZE - SLOT_SIZE
}
