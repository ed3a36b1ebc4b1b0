//! Reading several rows of one page: one pin, one latch, one look at the page's frame of fields.
//!
//! Most versions tell all by their own header: committed before the snapshot was taken, neither
//! ended nor locked, and the root of a chain of one. The others are looked for like a single row.
//!
//! Invariants: as of `fetch`: rows are copied out under the latch (R11), and nothing is read from
//! the device while it is held (R7). Of an error the rows before are told first.
//! Does not do: choose the rows, keep them.

use crate::buffer::Pin;
use crate::error::Result;
use crate::heap::Heap;
use crate::heap::fetch::find_visible;
use crate::heap::page::HeapPage;
use crate::heap::visibility::{Hints, Seer};
use crate::ids::{BlockNo, RowId};
use crate::txn::Snapshot;

/// What a snapshot sees of a row.
#[derive(Clone, Copy, Debug)]
pub enum Look<'a> {
    /// The version at this place, with these bytes.
    Row(RowId, &'a [u8]),
    /// Nothing.
    Nothing {
        /// As [`crate::heap::Fetched::all_dead`].
        all_dead: bool,
    },
}

impl Heap {
    /// Looks at the rows of `roots` (line pointers of the pinned page, each with a number of the
    /// caller's), one after the other, as [`Heap::fetch_into`] does. `take` is called with the
    /// number and what was found, under the latch: it copies, and it ends the reading with false.
    pub fn fetch_group(
        &self,
        pin: &Pin,
        snapshot: &Snapshot,
        roots: impl Iterator<Item = (u32, u16)>,
        mut take: impl FnMut(u32, Look<'_>) -> bool,
    ) -> Result<()> {
        let (mut roots, mut seer) = (roots.peekable(), Seer::new(snapshot));
        let block = pin.page().block;
        while roots.peek().is_some() {
            let mut hints = Hints::default();
            let latch = pin.shared();
            if !self.is_data_block(block.0) {
                for (number, _) in roots {
                    take(number, Look::Nothing { all_dead: false });
                }
                return Ok(());
            }
            let page = HeapPage::open(pin.page(), latch.bytes())?;
            let mut go_on = true;
            while go_on && let Some((number, slot)) = roots.peek().copied() {
                let mut taken = |look: Look<'_>| go_on = take(number, look);
                let known = self.look(&page, (block, slot), (&mut seer, &mut hints), &mut taken)?;
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
            seer.resolve()?;
        }
        Ok(())
    }

    /// Looks at one row. False, and nothing told: a status must be read first (R7).
    #[inline]
    fn look(
        &self,
        page: &HeapPage<'_>,
        (block, slot): (BlockNo, u16),
        (seer, hints): (&mut Seer<'_>, &mut Hints),
        take: &mut impl FnMut(Look<'_>),
    ) -> Result<bool> {
        let root = RowId { block, slot };
        if let Some((xmin, row)) = page.plain(slot)
            && seer.sees_before(xmin)
        {
            take(Look::Row(root, row));
            return Ok(true);
        }
        let mut row = Vec::new();
        let found = find_visible(page, root, seer, (hints, &mut row))?;
        if seer.is_stuck() {
            return Ok(false);
        }
        match found {
            Some(at) => take(Look::Row(at, &row)),
            None => take(Look::Nothing { all_dead: self.all_dead(page, root)? }),
        }
        Ok(true)
    }
}
