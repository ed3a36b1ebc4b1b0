//! Reads of whole pages: the visible rows of one page are copied out at once.
//!
//! Invariants: the visibility of a page is decided under one shared latch, so no row is seen twice
//! or missed because of an update on the page. A row that moved to another page has its old or its
//! new version visible, never both. No latch and no pin is held between two calls.
//! Does not do: filters, columns, parallel work (several scans of disjoint ranges do that).
//!
//! PostgreSQL: `heapgetpage` (page-at-a-time mode) in `access/heap/heapam.c`.

use std::ops::Range;

use crate::buffer::Pin;
use crate::error::Result;
use crate::heap::Heap;
use crate::heap::page::tuple::STUB;
use crate::heap::page::{ALL_VISIBLE, HeapPage};
use crate::heap::visibility::{CommitHints, SnapshotVisibility};
use crate::ids::{Lsn, RowId};
use crate::page::header;
use crate::txn::Snapshot;

/// The visible rows of one page, copied out.
#[derive(Default)]
pub struct PageRows {
    bytes: Vec<u8>,
    rows: Vec<(RowId, Range<usize>)>,
}

impl PageRows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Row `i` and where it is.
    pub fn get(&self, i: usize) -> (RowId, &[u8]) {
        let (row_id, range) = &self.rows[i];
        (*row_id, &self.bytes[range.clone()])
    }

    /// Bytes that the rows take in memory.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.rows.capacity() * size_of::<(RowId, Range<usize>)>()
    }

    /// Gives back memory that is not used.
    pub fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
        self.rows.shrink_to_fit();
    }

    /// Forgets all rows but `count` from position `from` on.
    pub fn keep(&mut self, from: usize, count: usize) {
        self.rows.truncate(from + count);
        self.rows.drain(..from);
        let (start, end) = match (self.rows.first(), self.rows.last()) {
            (Some((_, first)), Some((_, last))) => (first.start, last.end),
            _ => (0, 0),
        };
        self.bytes.truncate(end);
        self.bytes.drain(..start);
        for (_, range) in &mut self.rows {
            *range = range.start - start..range.end - start;
        }
        self.shrink_to_fit();
    }

    fn push(&mut self, row_id: RowId, row: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(row);
        self.rows.push((row_id, from..self.bytes.len()));
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.bytes.clear();
    }
}

/// Takes a row's root, its visible version and that version's bytes.
pub(crate) type VisitRoot<'a> = &'a mut dyn FnMut(RowId, RowId, &[u8]) -> Result<()>;

/// Versions that an index names already: those that `before` sees at their roots.
#[derive(Clone, Copy)]
pub(crate) struct KnownRoots<'a> {
    /// Pages that no record has changed since have no other versions: every earlier writer had
    /// ended when `before` was taken. `None` without a log.
    pub(crate) unchanged_since: Option<Lsn>,
    pub(crate) before: &'a Snapshot,
}

impl Heap {
    /// Calls `visit` with the root, the row id and the row of every version in the table that `now`
    /// sees: what an index that is built now has to name. With `known`, what that index names
    /// already is left out.
    pub(crate) fn visit_roots(
        &self,
        now: &Snapshot,
        known: Option<KnownRoots<'_>>,
        visit: VisitRoot<'_>,
    ) -> Result<()> {
        let unchanged_since = known.and_then(|known| known.unchanged_since);
        let mut stream = self.stream(1..self.blocks(), |_| Ok(true));
        while let Some((pin, block)) = stream.next()? {
            let (slots, lsn) = {
                let latch = pin.shared();
                let page = HeapPage::open(pin.page(), latch.bytes())?;
                (page.slots(), header::lsn(latch.bytes()))
            };
            if unchanged_since.is_some_and(|since| lsn <= since) {
                continue;
            }
            for root in (1..=slots).map(|slot| RowId::new(block, slot)) {
                let Some((version, row)) = self.fetch_on(&pin, now, root)?.row else { continue };
                // `before` is registered, so its versions stay between the two looks.
                let before = match known {
                    Some(known) => self.fetch_on(&pin, known.before, root)?.row,
                    None => None,
                };
                if before.is_none_or(|(known, _)| known != version) {
                    visit(root, version, &row)?;
                }
            }
        }
        Ok(())
    }

    /// Calls `visit`, under a latch, with the row of every version in the table, visible or not.
    /// `go_on` is called after each page; its error ends the work.
    pub fn visit_versions(
        &self,
        visit: &mut dyn FnMut(RowId, &[u8]) -> Result<()>,
        go_on: &dyn Fn(u32) -> Result<()>,
    ) -> Result<()> {
        let mut stream = self.stream(1..self.blocks(), |_| Ok(true));
        while let Some((pin, block)) = stream.next()? {
            let latch = pin.shared();
            if self.is_data_block(block) {
                let page = HeapPage::open(pin.page(), latch.bytes())?;
                for slot in 1..=page.slots() {
                    let Some(tuple) = page.tuple(slot)? else { continue };
                    if !tuple.header.has(STUB) {
                        visit(RowId::new(block, slot), tuple.row)?;
                    }
                }
            }
            drop(latch);
            drop(pin);
            go_on(1)?;
        }
        Ok(())
    }

    /// The rows of a pinned page that `snapshot` sees, in `rows`. Prunes on the way.
    pub fn read_page(&self, pin: &Pin, snapshot: &Snapshot, rows: &mut PageRows) -> Result<()> {
        self.prune_on_read(pin)?;
        let mut visibility = SnapshotVisibility::new(snapshot);
        while !self.read_visible(pin, &mut visibility, rows)? {
            visibility.resolve()?;
        }
        Ok(())
    }

    /// Copies the visible rows out. False if a status must be read first (R7).
    fn read_visible(
        &self,
        pin: &Pin,
        visibility: &mut SnapshotVisibility<'_>,
        rows: &mut PageRows,
    ) -> Result<bool> {
        rows.clear();
        let block = pin.page().block.0;
        let latch = pin.shared();
        if !self.is_data_block(block) {
            return Ok(true);
        }
        let page = HeapPage::open(pin.page(), latch.bytes())?;
        let all_visible = page.flags() & ALL_VISIBLE != 0;
        let mut hints = CommitHints::default();
        for slot in 1..=page.slots() {
            let Some(tuple) = page.tuple(slot)? else { continue };
            if !all_visible {
                hints.note(visibility.manager(), tuple.offset, &tuple.header);
            }
            if all_visible || visibility.is_visible(&tuple.header) == Some(true) {
                rows.push(RowId::new(block, slot), tuple.row);
            }
        }
        let version = latch.version();
        drop(latch);
        if visibility.is_incomplete() {
            return Ok(false);
        }
        hints.set(pin, version);
        Ok(true)
    }
}
