//! Removing entries: one by key and row, or those of one page that vacuum found dead.
//!
//! Invariants: a page may become empty here but stays in the list; `vacuum` squeezes it out.
//! Does not do: decide what is dead.

use crate::buffer::{LatchedPage, Mtr};
use crate::error::Result;
use crate::ids::Xid;
use crate::index::Tries;
use crate::index::am::IndexEntry;
use crate::index::hash::Index;
use crate::index::hash::bucket::{Bucket, Checked, Place};
use crate::index::hash::code::whole;
use crate::index::hash::edit::{self, Entry, Frame};
use crate::wal::RecordKind;

/// More removals than this from one page are logged as a fresh image.
const MAX_SINGLE: usize = 24;

impl Index {
    /// See [`crate::index::am::AccessMethod::delete`].
    pub(crate) fn delete(&self, xid: Xid, entry: &IndexEntry<'_>) -> Result<bool> {
        let position = whole(entry.key, entry.row);
        let mut tries = Tries::default();
        loop {
            let pin = self.find(&position)?;
            let mut mtr = Mtr::new(&self.pool);
            let held = mtr.latch(pin);
            let block = mtr.id(held).block.0;
            let spot =
                self.spot(&mtr, held, &position).map_err(|what| self.corrupt(block, what))?;
            let Some((pos, there)) = spot else {
                drop(mtr);
                let what = "a change of the index makes no progress";
                tries.again(&self.pool, self.page(0), what)?;
                rightlink_env::thread::yield_now();
                continue;
            };
            if there {
                self.remove(&mut mtr, held, &[pos])?;
            }
            mtr.commit(RecordKind::IndexDelete, xid)?;
            return Ok(there);
        }
    }

    /// Where an entry is or would be on a latched page; `None` if it belongs on another.
    fn spot(
        &self,
        mtr: &Mtr<'_>,
        held: LatchedPage,
        position: &[u8],
    ) -> Checked<Option<(usize, bool)>> {
        let page = mtr.bytes(held);
        if super::bucket::place_on(page, position)? != Place::Here {
            return Ok(None);
        }
        Bucket::open(page)?.find(position).map(Some)
    }

    /// Takes entries out of a latched page: by place, ascending. Fails before anything is stored.
    pub(crate) fn remove(
        &self,
        mtr: &mut Mtr<'_>,
        held: LatchedPage,
        gone: &[usize],
    ) -> Result<()> {
        assert!(gone.is_sorted_by(|a, b| a < b), "each place once, ascending");
        let block = mtr.id(held).block.0;
        let damage = |what| self.corrupt(block, what);
        let bucket = Bucket::open(mtr.bytes(held)).map_err(damage)?;
        if gone.len() > MAX_SINGLE {
            let mut at = 0;
            let mut entries = Entry::all(&bucket).map_err(damage)?;
            entries.retain(|_| {
                at += 1;
                gone.binary_search(&(at - 1)).is_err()
            });
            let image = Frame::of(&bucket, 0).image(&entries);
            let image = image.ok_or_else(|| damage("a page overflows"))?;
            mtr.page(held).replace(&image);
            return Ok(());
        }
        let bytes = |at: &usize| bucket.item(*at).map(|item| (*at, (item.start, item.end)));
        let spots = gone.iter().map(bytes).collect::<Checked<Vec<_>>>().map_err(damage)?;
        let mut page = mtr.page(held);
        for (at, bytes) in spots.into_iter().rev() {
            edit::remove_at(&mut page, at, bytes);
        }
        Ok(())
    }
}
