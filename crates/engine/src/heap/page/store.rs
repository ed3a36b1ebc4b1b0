//! The slotted heap page, write side: every store goes through [`PageMut`], which records it.
//!
//! Invariants: a function here is called with the exclusive latch held, after [`HeapPage::open`]
//! accepted the page, and cannot fail once it has begun to store. Stores are as small as the
//! change, so that a record carries the bytes of an insert once.
//! Does not do: decide what to insert or end.
//!
//! PostgreSQL: `PageAddItemExtended` in `storage/page/bufpage.c`.

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::heap::page::tuple::{TUPLE_HEADER, TupleHeader, XMAX, base_for, fits, to_offset};
use crate::heap::page::{FREE_SLOTS, HeapPage, MAX_SLOTS, PRUNE_XID, SLOT_SIZE, Slot, TRAILER};
use crate::ids::{PageId, Xid};
use crate::page::PageMut;
use crate::page::header::{self, HEADER_SIZE, PageKind};

/// Image of an empty heap page whose first version `xid` will create.
pub(in crate::heap) fn empty_image(xid: Xid) -> [u8; PAGE_SIZE] {
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
pub(in crate::heap) fn choose_slots(page: &HeapPage<'_>, count: usize) -> Vec<u16> {
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
pub(in crate::heap) fn choose_slot(page: &HeapPage<'_>) -> Option<u16> {
    let unused = match page.flags() & FREE_SLOTS != 0 {
        true => page.slot_words().iter().position(|word| *word == [0; SLOT_SIZE]),
        false => None,
    };
    let slot = unused.map_or(page.slots(), |at| at as u16) + 1;
    (slot <= MAX_SLOTS).then_some(slot)
}

/// How many of `lens` (tuple bytes, header included) fit on `page` while `reserve` bytes stay free.
pub(in crate::heap) fn how_many_fit(
    page: &HeapPage<'_>,
    slots: &[u16],
    reserve: usize,
    lens: impl Iterator<Item = usize>,
) -> usize {
    let mut gap = page.free_bytes().saturating_sub(reserve);
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

/// Stores the versions under `slots`, which [`choose_slots`] gave and [`how_many_fit`] approved.
pub(in crate::heap) fn insert_tuples(
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
    header::set_bounds(page, new_lower, at);
    if had_free && last > had_slots {
        put_flags(page, 0, FREE_SLOTS);
    }
}

/// Stores the line pointer `slot` of the page's array.
pub(in crate::heap) fn put_slot(page: &mut PageMut<'_>, slot: u16, to: Slot) {
    let at = slot_at(slot);
    let lower = usize::from(header::u16_at(page.bytes(), header::LOWER));
    assert!(at + SLOT_SIZE <= lower, "a line pointer of the array");
    if page.bytes()[at..at + SLOT_SIZE] != to.encode() {
        page.write(at, &to.encode());
    }
}

/// Stores a version at `offset`, in the space of a removed one of as many bytes. `slot` names it: a
/// line pointer of the array, or the next one, for which there is room.
pub(in crate::heap) fn put_tuple(
    page: &mut PageMut<'_>,
    slot: u16,
    offset: u16,
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
pub(in crate::heap) fn put_flags(page: &mut PageMut<'_>, set: u16, clear: u16) {
    let old = header::u16_at(page.bytes(), header::FLAGS);
    let new = (old | set) & !clear;
    if new != old {
        page.put_u16(header::FLAGS, new);
    }
}

/// Replaces xmax, next and flags of the version at `offset` by those of `head`.
pub(in crate::heap) fn put_xmax(page: &mut PageMut<'_>, offset: u16, head: &TupleHeader) {
    let at = usize::from(offset);
    assert!(at >= HEADER_SIZE && at + TUPLE_HEADER <= PRUNE_XID, "a checked tuple");
    let base = header::u64_at(page.bytes(), header::OWNER);
    page.write(at + XMAX, &head.encode(base)[XMAX..]);
}

/// Replaces the header `old` of the version at `offset` by `new`, xmin alone when only that
/// differs.
pub(in crate::heap) fn put_header(
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

/// Lowers the prunable mark to `xid`, which ends a version.
pub(in crate::heap) fn mark_prunable(page: &mut PageMut<'_>, xid: Xid) {
    let old = header::u64_at(page.bytes(), PRUNE_XID);
    if old == 0 || old > xid.0 {
        page.put_u64(PRUNE_XID, xid.0);
    }
}

/// Sets the prunable mark.
pub(in crate::heap) fn put_prune_xid(page: &mut PageMut<'_>, xid: Xid) {
    if header::u64_at(page.bytes(), PRUNE_XID) != xid.0 {
        page.put_u64(PRUNE_XID, xid.0);
    }
}

/// Image of `page` with base `base`, if all its xids fit.
pub(in crate::heap) fn rebased_image(page: &HeapPage<'_>, base: u64) -> Result<[u8; PAGE_SIZE]> {
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
pub(in crate::heap) fn too_far_apart(page: PageId) -> Error {
    Error::Limit(format!("{page} holds xids more than 32 bits apart: vacuum the table"))
}

/// Bytes that an empty page has for one row version.
pub(in crate::heap) fn empty_page_room() -> usize {
    PRUNE_XID - HEADER_SIZE - SLOT_SIZE
}
