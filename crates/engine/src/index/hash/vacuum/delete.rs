//! Removal of entries: one by key, those of pruned rows by key, those of one page by place.
//!
//! Invariants: a page may become empty here but stays in the list; `merge` takes it out.
//! Does not do: decide what is dead; what all methods share (`index/removal`).

use std::ops::Range;

use crate::buffer::{LatchedPage, Mtr, Pin};
use crate::error::Result;
use crate::ids::{RowId, Xid};
use crate::index::Tries;
use crate::index::am::{IndexEntry, Trace};
use crate::index::hash::page::{
    Bucket, BucketEntry, BucketHeader, PageMatch, edit, entry_position, match_page,
};
use crate::index::hash::state::Index;
use crate::index::removal::{DeadRemoval, Located};
use crate::page::Checked;
use crate::wal::RecordKind;

/// More removals than this from one page are logged as a fresh image.
const MAX_SINGLE: usize = 24;

impl Index {
    /// See [`crate::index::am::AccessMethod::delete`].
    pub(crate) fn delete(&self, xid: Xid, entry: &IndexEntry<'_>) -> Result<bool> {
        let position = entry_position(entry.key, entry.row);
        let mut tries = Tries::default();
        loop {
            let pin = self.find_page(&position)?;
            let mut mtr = Mtr::new(&self.pool);
            let held = mtr.latch(pin);
            let located = locate(mtr.bytes(held), &position);
            match located.map_err(|what| self.corrupt(mtr.id(held).block.0, what))? {
                Located::Present(at) => {
                    self.remove_entries(&mut mtr, held, &[at])?;
                    mtr.commit(RecordKind::IndexDelete, xid)?;
                    return Ok(true);
                }
                Located::Absent => return Ok(false),
                Located::Elsewhere => {}
            }
            drop(mtr);
            let what = "a change of the index makes no progress";
            tries.again(&self.pool, self.page(0), what)?;
            rightlink_env::thread::yield_now();
        }
    }

    /// Removes entries from a latched page, by place and in ascending order. It fails before
    /// anything is stored.
    pub(super) fn remove_entries(
        &self,
        mtr: &mut Mtr<'_>,
        held: LatchedPage,
        places: &[usize],
    ) -> Result<()> {
        assert!(places.is_sorted_by(|a, b| a < b), "each place once, ascending");
        let block = mtr.id(held).block.0;
        let damage = |what| self.corrupt(block, what);
        let bucket = Bucket::open(mtr.bytes(held)).map_err(damage)?;
        if places.len() > MAX_SINGLE {
            let entries = BucketEntry::all(&bucket).map_err(damage)?.into_iter().enumerate();
            let kept = entries.filter(|(at, _)| places.binary_search(at).is_err());
            let kept: Vec<_> = kept.map(|(_, entry)| entry).collect();
            let image = BucketHeader::of(&bucket, 0).image(&kept);
            let image = image.ok_or_else(|| damage("a page overflows"))?;
            mtr.page(held).replace(&image);
            return Ok(());
        }
        let bytes = |at: &usize| bucket.item(*at).map(|item| (*at, item.start..item.end));
        let removals = places.iter().map(bytes).collect::<Checked<Vec<_>>>().map_err(damage)?;
        let mut page = mtr.page(held);
        for (at, bytes) in removals.into_iter().rev() {
            edit::remove_at(&mut page, at, bytes);
        }
        Ok(())
    }

    /// See [`crate::index::am::AccessMethod::remove_dead`].
    pub(crate) fn remove_dead(
        &self,
        entries: &[IndexEntry<'_>],
        reads: bool,
        check: &mut dyn FnMut(RowId) -> bool,
        traces: &mut [Trace],
    ) -> Result<u64> {
        let mut removal = DeadRemoval::new(entries, check, traces);
        let mut at = 0;
        while at < entries.len() {
            let position = entry_position(entries[at].key, entries[at].row);
            let pin = match reads {
                true => Some(self.find_page(&position)?),
                false => self.find_page_in_memory(&position)?,
            };
            let next = match pin {
                Some(pin) => self.remove_from_page(pin, at..entries.len(), &mut removal)?,
                None => at,
            };
            // An entry that is not in memory, or whose page has changed, is left to vacuum.
            at = next.max(at + 1);
        }
        Ok(removal.removed())
    }

    /// Removes those of the entries in `range` that belong on the page. Returns the first entry
    /// that belongs elsewhere.
    fn remove_from_page(
        &self,
        pin: Pin,
        range: Range<usize>,
        removal: &mut DeadRemoval<'_, '_>,
    ) -> Result<usize> {
        let mut mtr = Mtr::new(&self.pool);
        let held = mtr.latch(pin);
        let found = removal.find_on_page(range, |entry| {
            locate(mtr.bytes(held), &entry_position(entry.key, entry.row))
        });
        let found = found.map_err(|what| self.corrupt(mtr.id(held).block.0, what))?;
        if !found.places.is_empty() {
            self.remove_entries(&mut mtr, held, &found.places)?;
            mtr.commit(RecordKind::IndexDelete, Xid::NONE)?;
        }
        let next = found.next;
        removal.note(found);
        Ok(next)
    }
}

/// Where the entry at `position` is on a page.
fn locate(page: &[u8; crate::config::PAGE_SIZE], position: &[u8]) -> Checked<Located<usize>> {
    if match_page(page, position)? != PageMatch::Here {
        return Ok(Located::Elsewhere);
    }
    let found = Bucket::open(page)?.find(position)?;
    Ok(if found.exact { Located::Present(found.at) } else { Located::Absent })
}
