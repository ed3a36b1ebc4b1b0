//! Fetch of several rows of one page: one pin, one latch, one check of the page's bounds.
//!
//! The header of most versions decides alone: committed before the snapshot was taken, neither
//! ended nor locked, and a chain of one. The others are searched like a single row.
//!
//! Invariants: rows are copied out under the latch (R11), and nothing is read from the device while
//! it is held (R7). If an error occurs, the rows before it have been passed on.
//! Does not do: choose the rows, or keep them.

use crate::buffer::Pin;
use crate::error::Result;
use crate::heap::Heap;
use crate::heap::page::HeapPage;
use crate::heap::read::fetch::find_visible;
use crate::heap::visibility::{CommitHints, SnapshotVisibility};
use crate::ids::RowId;
use crate::txn::Snapshot;

/// What a snapshot sees of a row.
#[derive(Clone, Copy, Debug)]
pub enum FetchResult<'a> {
    /// The version at this place, with these bytes.
    Visible(RowId, &'a [u8]),
    /// Nothing.
    Invisible {
        /// As [`crate::heap::Fetched::all_dead`].
        all_dead: bool,
    },
}

impl Heap {
    /// Fetches the rows of `roots`, line pointers of the pinned page, each with a number of the
    /// caller's. `take` is called with the number and the result, under the latch: it copies the
    /// row, and it ends the batch by returning false.
    pub fn fetch_batch(
        &self,
        pin: &Pin,
        snapshot: &Snapshot,
        roots: impl Iterator<Item = (u32, u16)>,
        mut take: impl FnMut(u32, FetchResult<'_>) -> bool,
    ) -> Result<()> {
        let (mut roots, mut visibility) = (roots.peekable(), SnapshotVisibility::new(snapshot));
        let block = pin.page().block;
        while roots.peek().is_some() {
            let mut hints = CommitHints::default();
            let latch = pin.shared();
            if !self.is_data_block(block.0) {
                for (number, _) in roots {
                    take(number, FetchResult::Invisible { all_dead: false });
                }
                return Ok(());
            }
            let page = HeapPage::open(pin.page(), latch.bytes())?;
            let mut go_on = true;
            while go_on && let Some((number, slot)) = roots.peek().copied() {
                let mut taken = |look: FetchResult<'_>| go_on = take(number, look);
                let known = self.fetch_one(&page, slot, &mut visibility, &mut hints, &mut taken)?;
                if !known {
                    break;
                }
                roots.next();
            }
            let version = latch.version();
            drop(latch);
            hints.set(pin, version);
            if !go_on {
                return Ok(());
            }
            visibility.resolve()?;
        }
        Ok(())
    }

    /// Fetches one row. False, and `take` was not called: a status must be read first (R7).
    #[inline]
    fn fetch_one(
        &self,
        page: &HeapPage<'_>,
        slot: u16,
        visibility: &mut SnapshotVisibility<'_>,
        hints: &mut CommitHints,
        take: &mut impl FnMut(FetchResult<'_>),
    ) -> Result<bool> {
        let root = RowId { block: page.id().block, slot };
        if let Some((xmin, row)) = page.simple_row(slot)
            && visibility.sees_before(xmin)
        {
            take(FetchResult::Visible(root, row));
            return Ok(true);
        }
        let mut row = Vec::new();
        let found = find_visible(page, root, visibility, hints, &mut row)?;
        if visibility.is_incomplete() {
            return Ok(false);
        }
        match found {
            Some(at) => take(FetchResult::Visible(at, &row)),
            None => take(FetchResult::Invisible { all_dead: self.all_dead(page, root)? }),
        }
        Ok(true)
    }
}
