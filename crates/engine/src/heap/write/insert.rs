//! Inserts: rows fill pages in order, each page under one latch and with one record.
//!
//! If the free-space map promised more room than a page has, the map is corrected.
//!
//! Invariants: inserts leave the fillfactor's reserve free, but an empty page takes any row. The
//! length of a row is checked before anything is changed.
//! Does not do: search for pages (`page_search`), or add index entries (the caller does,
//! afterwards).
//!
//! PostgreSQL: `heap_multi_insert` in `access/heap/heapam.c`.

use crate::error::Result;
use crate::heap::latch::MapLatches;
use crate::heap::page::store::{self, choose_slots, how_many_fit};
use crate::heap::page::tuple::{TUPLE_HEADER, TupleHeader};
use crate::heap::space::free_space;
use crate::heap::space::page_search::PageSearch;
use crate::heap::{Heap, check_row};
use crate::ids::{RowId, Xid};
use crate::wal::{Admission, RecordKind};
use rightlink_env::sync::Ordering;

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
        let group = self.insert_group();
        let mut search = PageSearch::new(xid, group);
        while ids.len() < rows.len() {
            // A statement has no bound, a page has one.
            self.pool().wal().admit(Admission::Step)?;
            let rest = &rows[ids.len()..];
            let need = TUPLE_HEADER + rest[0].len();
            let block = self.page_with_room(&mut search, need, estimate_blocks(rest))?;
            if self.fill_page(xid, rest, block, &mut ids)? > 0 {
                self.shared.insert_blocks[group].store(block, Ordering::Relaxed);
                search = PageSearch::new(xid, group);
            }
            search.failed = Some(block);
        }
        self.shared.counters.insert(rows.len());
        Ok(ids)
    }

    /// Puts as many of `rows` on the page as fit, and notes what room is left if one did not.
    /// Returns how many fitted.
    fn fill_page(
        &self,
        xid: Xid,
        rows: &[&[u8]],
        block: u32,
        ids: &mut Vec<RowId>,
    ) -> Result<usize> {
        let Some(mut set) = self.latch_for_xid(&[block], MapLatches::Marked, xid)? else {
            return Ok(0);
        };
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
            return self.free_space().note(block, left).map(|()| 0);
        }
        let versions: Vec<(TupleHeader, &[u8])> =
            rows[..count].iter().map(|row| (TupleHeader::new(xid, 0), *row)).collect();
        store::insert_tuples(&mut set.store(block), &slots[..count], &versions);
        set.clear_marks(block);
        let left = self.room_for_inserts(&set.page(block)?);
        set.commit(RecordKind::HeapInsert, xid)?;
        ids.extend(slots[..count].iter().map(|slot| RowId::new(block, *slot)));
        if count < rows.len() {
            self.free_space().note(block, left)?;
        }
        Ok(count)
    }
}

/// Blocks that `rows` will fill, roughly.
fn estimate_blocks(rows: &[&[u8]]) -> u32 {
    let bytes: usize = rows.iter().map(|row| row.len() + TUPLE_HEADER + 4).sum();
    let room = free_space::promised(free_space::category(store::empty_page_room()));
    u32::try_from(bytes.div_ceil(room)).unwrap_or(u32::MAX)
}
