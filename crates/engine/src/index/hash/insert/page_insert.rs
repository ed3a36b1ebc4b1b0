//! One entry into a latched page. A full page is encoded again: without garbage, then without
//! entries that are marked dead, then without rows that the heap calls dead.
//!
//! Invariants: a row that the heap calls dead under the page's latch is the row that the entry was
//! made for: its row id is not freed before this entry is gone (R3).
//! Does not do: choose the rows to ask about (`index/dead_rows`); split.

use rightlink_env::points::hit;

use crate::buffer::{LatchedPage, Mtr};
use crate::config::PAGE_SIZE;
use crate::ids::RowId;
use crate::index::dead_rows::dead_among;
use crate::index::hash::insert::{BatchInsert, EntryOutcome, Retry, RunEntry};
use crate::index::hash::page::{
    Bucket, BucketEntry, BucketHeader, DEAD, HAS_DEAD, INCOMPLETE, SLOT, edit,
};
use crate::index::hash::state::Index;
use crate::page::Checked;
use crate::page::header::HEADER_SIZE;

/// A page that has less than one part in so many free asks the heap for dead rows.
const MIN_FREE_PART: usize = 10;

impl BatchInsert<'_, '_> {
    /// Stores an entry in the latched page that it belongs on.
    pub(super) fn insert_on_page(
        &self,
        mtr: &mut Mtr<'_>,
        held: LatchedPage,
        entry: &RunEntry<'_>,
    ) -> Checked<EntryOutcome> {
        let bucket = Bucket::open(mtr.bytes(held))?;
        if bucket.flags & INCOMPLETE != 0 && entry.is_first {
            return Ok(EntryOutcome::retry(Retry::FinishSplit(mtr.id(held).block.0)));
        }
        let found = bucket.find(&entry.position)?;
        if found.exact {
            let word = bucket.word(found.at);
            if word & DEAD != 0 {
                // Logged: redo may meet a page on which the mark reached the disk.
                mtr.page(held).put_u16(HEADER_SIZE + found.at * SLOT, word & !DEAD);
            }
            return Ok(EntryOutcome::Inserted);
        }
        if edit::fits(&bucket, &entry.entry, self.index.unused_bytes()) {
            edit::insert_at(&mut mtr.page(held), found.at, &entry.entry);
            return Ok(EntryOutcome::Inserted);
        }
        let Some(image) = self.index.reencode_with(&bucket, found.at, &entry.entry)? else {
            return Ok(EntryOutcome::PageFull(held));
        };
        mtr.page(held).replace(&image);
        Ok(EntryOutcome::Inserted)
    }
}

impl Index {
    /// Image of the page with one more entry in front of entry `pos`; `None` if it does not fit.
    fn reencode_with(
        &self,
        bucket: &Bucket<'_>,
        pos: usize,
        entry: &BucketEntry<'_>,
    ) -> Checked<Option<Box<[u8; PAGE_SIZE]>>> {
        let header = BucketHeader::of(bucket, self.unused_bytes());
        let mut entries = BucketEntry::all(bucket)?;
        entries.insert(pos, *entry);
        let min_free = self.options.capacity / MIN_FREE_PART + self.unused_bytes();
        let is_roomy = |image: &[u8; PAGE_SIZE]| {
            Bucket::open(image).is_ok_and(|bucket| bucket.free_bytes() >= min_free)
        };
        let mut image = header.image(&entries);
        if image.is_none() && bucket.flags & HAS_DEAD != 0 {
            entries.retain(|entry| !entry.dead);
            image = header.image(&entries);
        }
        if !image.as_deref().is_some_and(is_roomy) && self.remove_dead_from(&mut entries, entry.row)
        {
            image = header.image(&entries);
        }
        Ok(image)
    }

    /// Removes rows that the heap calls dead from the entries of a full page; not the row `new`.
    /// False: none was found.
    fn remove_dead_from(&self, entries: &mut Vec<BucketEntry<'_>>, new: RowId) -> bool {
        let Some(heap) = self.heap.get() else { return false };
        let rows = entries.iter().map(|entry| entry.row).filter(|row| *row != new);
        let gone = dead_among(rows, Vec::new(), heap.as_ref());
        if gone.is_empty() {
            return false;
        }
        entries.retain(|entry| gone.binary_search(&entry.row).is_err());
        hit("hash.put.bottom-up");
        true
    }
}
