//! Inserting rows: finding pages with room, and filling them under one latch with one record per
//! page.
//!
//! The search for a page goes: the block of this inserter group's last insert, then the free-space
//! map from a place that differs from group to group, then a new block. What the map promised and
//! the page did not keep is corrected in the map.
//!
//! Invariants: inserts leave the fillfactor's reserve free, but an empty page takes any row; a
//! row's length is checked before anything is changed.
//! Does not do: index entries; the caller adds them after the row is in.

use crate::error::Result;
use crate::heap::page::HeapPage;
use crate::heap::page_edit::{self, choose_slots, how_many_fit};
use crate::heap::page_set::Maps;
use crate::heap::tuple::{TUPLE_HEADER, TupleHeader};
use crate::heap::{Heap, TARGETS, check_row, free_space};
use crate::ids::{RowId, Xid};
use crate::wal::{Admission, RecordKind};
use rightlink_env::sync::Ordering;

/// Disappointments with the free-space map after which an insert grows the table.
const MAX_TRIES: u32 = 8;
/// Multiplier that spreads the search's starting places over the table.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Heap {
    /// Inserts a row and returns its row id.
    pub fn insert(&self, xid: Xid, row: &[u8]) -> Result<RowId> {
        let ids = self.insert_many(xid, &[row])?;
        Ok(*ids.first().expect("one row, one row id"))
    }

    /// Inserts rows in order; fills each page under one latch, with one record.
    pub fn insert_many(&self, xid: Xid, rows: &[&[u8]]) -> Result<Vec<RowId>> {
        assert!(xid >= Xid::FIRST, "a statement's xid");
        for row in rows {
            check_row(row)?;
        }
        let mut ids = Vec::with_capacity(rows.len());
        let group = self.target_group();
        let mut search = Search::new(xid, group);
        while ids.len() < rows.len() {
            // A statement has no bound, a page has one.
            self.pool().wal().admit(Admission::Step)?;
            let rest = &rows[ids.len()..];
            let need = TUPLE_HEADER + rest[0].len();
            let block = self.page_with_room(&mut search, need, estimate_blocks(rest))?;
            if self.fill_page(xid, rest, block, &mut ids)? {
                self.shared.targets[group].store(block, Ordering::Relaxed);
                search = Search::new(xid, group);
            }
            search.failed = Some(block);
        }
        self.shared.counters.insert(rows.len());
        Ok(ids)
    }

    /// Puts as many of `rows` on the page as fit, and notes what room is left if one did not. False
    /// if none fitted.
    fn fill_page(
        &self,
        xid: Xid,
        rows: &[&[u8]],
        block: u32,
        ids: &mut Vec<RowId>,
    ) -> Result<bool> {
        let Some(mut set) = self.latch_for(&[block], Maps::Marked, xid)? else { return Ok(false) };
        set.bits(block)?;
        let page = set.page(block)?;
        let slots = choose_slots(&page, rows.len());
        let lens = || rows.iter().map(|row| TUPLE_HEADER + row.len());
        let mut count = how_many_fit(&page, &slots, self.shared.reserve, lens());
        if count == 0 && page.is_empty() {
            count = how_many_fit(&page, &slots, 0, lens().take(1));
        }
        let left = self.room_for_inserts(&page);
        if count == 0 {
            drop(set);
            return self.free_space().note(block, left).map(|()| false);
        }
        let versions: Vec<(TupleHeader, &[u8])> =
            rows[..count].iter().map(|row| (TupleHeader::new(xid, 0), *row)).collect();
        page_edit::insert_tuples(&mut set.store(block), &slots[..count], &versions);
        set.unmark(block, false);
        let left = self.room_for_inserts(&set.page(block)?);
        set.commit(RecordKind::HeapInsert, xid)?;
        ids.extend(slots[..count].iter().map(|slot| RowId::new(block, *slot)));
        if count < rows.len() {
            self.free_space().note(block, left)?;
        }
        Ok(true)
    }

    /// Bytes that an insert must leave free on `page`.
    fn reserve_on(&self, page: &HeapPage<'_>) -> usize {
        if page.is_empty() { 0 } else { self.shared.reserve }
    }

    /// What the free-space map should say about `page`.
    pub(super) fn room_for_inserts(&self, page: &HeapPage<'_>) -> usize {
        if page.slots() >= crate::heap::MAX_SLOTS {
            return 0;
        }
        page.room().saturating_sub(self.reserve_on(page))
    }

    /// A block that may have room for `need` bytes; `wanted` blocks are of use if the table must
    /// grow.
    pub(super) fn page_with_room(
        &self,
        search: &mut Search,
        need: usize,
        wanted: u32,
    ) -> Result<u32> {
        if !search.asked_target {
            search.asked_target = true;
            let target = self.shared.targets[search.group].load(Ordering::Relaxed);
            if self.is_data_block(target) && search.failed != Some(target) {
                return Ok(target);
            }
        }
        while search.tries < MAX_TRIES {
            search.tries += 1;
            match self.find_in_map(search, need)? {
                Some(block) => return Ok(block),
                None => search.tries = MAX_TRIES,
            }
        }
        loop {
            if let Some(block) = self.extend(wanted, search.xid)? {
                return Ok(block);
            }
            if let Some(block) = self.find_in_map(search, need)? {
                return Ok(block);
            }
        }
    }

    fn find_in_map(&self, search: &Search, need: usize) -> Result<Option<u32>> {
        let extent = self.blocks();
        let fraction = (search.group as u64).wrapping_mul(SPREAD) >> 32;
        let start = ((u64::from(extent) * fraction) >> 32) as u32;
        let others = |block: u32| {
            search.failed == Some(block)
                || !self.is_data_block(block)
                || self.is_other_target(search.group, block)
        };
        self.free_space().find(need, extent, start, &others)
    }

    /// Does another group of inserters fill `block` right now?
    fn is_other_target(&self, group: usize, block: u32) -> bool {
        let mut others = self.shared.targets.iter().enumerate().filter(|(i, _)| *i != group);
        others.any(|(_, target)| target.load(Ordering::Relaxed) == block)
    }
}

/// State of one statement's search for room.
pub(super) struct Search {
    pub(super) xid: Xid,
    /// Group of this thread.
    pub(super) group: usize,
    /// Block that just had no room.
    pub(super) failed: Option<u32>,
    asked_target: bool,
    tries: u32,
}

impl Search {
    pub(super) fn new(xid: Xid, group: usize) -> Self {
        assert!(group < TARGETS, "a place of the targets");
        Self { xid, group, failed: None, asked_target: false, tries: 0 }
    }
}

/// Blocks that `rows` will fill, roughly.
fn estimate_blocks(rows: &[&[u8]]) -> u32 {
    let bytes: usize = rows.iter().map(|row| row.len() + TUPLE_HEADER + 4).sum();
    let room = free_space::promised(free_space::category(page_edit::empty_room()));
    u32::try_from(bytes.div_ceil(room)).unwrap_or(u32::MAX)
}
