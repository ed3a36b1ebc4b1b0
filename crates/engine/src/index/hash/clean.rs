//! Dead rows leave pages: by key, when the heap has pruned them, and when a full page asks the heap
//! which of its rows are dead.
//!
//! Invariants: a row that the heap calls dead under the page's latch is the row that the entry was
//! made for: its row id is not given free before this entry is gone (R3). By key, where the verdict
//! is older than the latch, the caller's check stands in for that. Removals are logged.
//! Does not do: look at the heap; choose whom to ask about (`index/dead_rows`); marks (`scan`);
//! squeeze sparse pages (`vacuum`).

use std::ops::Range;

use crate::buffer::{Mtr, Pin};
use crate::error::Result;
use crate::ids::{RowId, Xid};
use crate::index::am::{IndexEntry, Trace};
use crate::index::dead_rows::dead_among;
use crate::index::hash::Index;
use crate::index::hash::bucket::{Bucket, Checked, Place, is_bucket};
use crate::index::hash::code::whole;
use crate::index::hash::edit::Entry;
use crate::wal::RecordKind;

/// Entries on their way out.
struct Removal<'a, 'e> {
    entries: &'a [IndexEntry<'e>],
    check: &'a mut dyn FnMut(RowId) -> bool,
    traces: &'a mut [Trace],
    removed: u64,
}

/// What a page has of the entries to remove.
struct FoundOn {
    /// The first entry that belongs elsewhere.
    next: usize,
    /// Places to take out.
    places: Vec<usize>,
    /// What becomes of entries that the index will not have afterwards.
    traces: Vec<(usize, Trace)>,
}

impl Index {
    /// See [`crate::index::am::AccessMethod::remove_dead`].
    pub(crate) fn remove_dead(
        &self,
        entries: &[IndexEntry<'_>],
        reads: bool,
        check: &mut dyn FnMut(RowId) -> bool,
        traces: &mut [Trace],
    ) -> Result<u64> {
        assert_eq!(entries.len(), traces.len(), "one answer per entry");
        let mut removal = Removal { entries, check, traces, removed: 0 };
        let mut at = 0;
        while at < entries.len() {
            let position = whole(entries[at].key, entries[at].row);
            let pin = match reads {
                true => Some(self.find(&position)?),
                false => self.find_in_memory(&position)?,
            };
            let next = match pin {
                Some(pin) => self.remove_on(pin, at..entries.len(), &mut removal)?,
                None => at,
            };
            // What is not in memory, or was faster, is left to vacuum.
            at = next.max(at + 1);
        }
        Ok(removal.removed)
    }

    /// Removes those of the entries in `range` that belong on the page; the first one that does
    /// not.
    fn remove_on(
        &self,
        pin: Pin,
        range: Range<usize>,
        removal: &mut Removal<'_, '_>,
    ) -> Result<usize> {
        let mut mtr = Mtr::new(&self.pool);
        let held = mtr.latch(pin);
        if !is_bucket(mtr.bytes(held)) {
            return Ok(range.start);
        }
        let block = mtr.id(held).block.0;
        let found = Bucket::open(mtr.bytes(held)).and_then(|bucket| removal.find(&bucket, range));
        let found = found.map_err(|what| self.corrupt(block, what))?;
        if !found.places.is_empty() {
            self.remove(&mut mtr, held, &found.places)?;
            removal.removed += found.places.len() as u64;
        }
        mtr.commit(RecordKind::IndexDelete, Xid::NONE)?;
        found.traces.into_iter().for_each(|(at, trace)| removal.traces[at] = trace);
        Ok(found.next)
    }

    /// Drops rows that the heap calls dead from the entries of a full page. False: none was found.
    pub(crate) fn drop_dead(&self, entries: &mut Vec<Entry<'_>>, but: RowId) -> bool {
        let Some(heap) = self.heap.get() else { return false };
        let rows = entries.iter().map(|entry| entry.row).filter(|row| *row != but);
        let gone = dead_among(rows, Vec::new(), heap.as_ref());
        entries.retain(|entry| gone.binary_search(&entry.row).is_err());
        if !gone.is_empty() {
            rightlink_env::points::hit("hash.put.bottom-up");
        }
        !gone.is_empty()
    }
}

impl Removal<'_, '_> {
    fn find(&mut self, bucket: &Bucket<'_>, range: Range<usize>) -> Checked<FoundOn> {
        let mut out = FoundOn { next: range.start, places: Vec::new(), traces: Vec::new() };
        for at in range {
            let entry = &self.entries[at];
            let position = whole(entry.key, entry.row);
            if bucket.place(&position) != Place::Here {
                break;
            }
            out.next = at + 1;
            match bucket.find(&position)? {
                (place, true) if (self.check)(entry.row) => {
                    out.places.push(place);
                    out.traces.push((at, Trace::Removed));
                }
                (_, true) => {}
                (_, false) => out.traces.push((at, Trace::Absent)),
            }
        }
        out.places.dedup();
        Ok(out)
    }
}
