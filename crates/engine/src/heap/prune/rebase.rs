//! Rebasing: a page gets another xid base, so that it can express an xid more than 32 bits away.
//!
//! Invariants: everything below the horizon is frozen first, since a page may hold older xids than
//! the new base can express. The rewrite is one logged image, in which only the base and the
//! offsets change.
//! Does not do: run often; a base has 2^31 xids of room on either side.

use crate::error::Result;
use crate::heap::Heap;
use crate::heap::latch::{LatchedPages, MapLatches};
use crate::heap::page::HeapPage;
use crate::heap::page::store;
use crate::heap::page::tuple::{base_for, fits};
use crate::heap::prune::vacuum::VacuumOptions;
use crate::ids::{BlockNo, Xid};
use crate::wal::RecordKind;

impl Heap {
    /// As [`Heap::latch`], with pages that can express `xid`.
    pub(in crate::heap) fn latch_for_xid(
        &self,
        blocks: &[u32],
        maps: MapLatches,
        xid: Xid,
    ) -> Result<Option<LatchedPages<'_>>> {
        loop {
            let Some(set) = self.latch(blocks, maps)? else { return Ok(None) };
            let mut narrow = None;
            for block in blocks {
                if !fits(set.page(*block)?.base(), xid) {
                    narrow = Some(*block);
                }
            }
            let Some(block) = narrow else { return Ok(Some(set)) };
            drop(set);
            self.rebase(block, xid)?;
        }
    }

    fn rebase(&self, block: u32, xid: Xid) -> Result<()> {
        let horizon = self.txns().horizon();
        let vacuumed = self.vacuum_page(BlockNo(block), VacuumOptions { freeze_below: horizon })?;
        self.shared.queue_dead_roots(vacuumed.died);
        let Some(mut set) = self.latch(&[block], MapLatches::Marked)? else { return Ok(()) };
        let page = set.page(block)?;
        if fits(page.base(), xid) {
            return Ok(());
        }
        let base = new_base(&page, xid)?;
        let image = store::rebased_image(&page, base)?;
        set.store(block).replace(&image);
        set.commit(RecordKind::HeapVacuum, Xid::NONE).map(drop)
    }
}

/// A base for `xid` and the xids of `page`: with room on both sides, or just below the oldest.
fn new_base(page: &HeapPage<'_>, xid: Xid) -> Result<u64> {
    let (mut oldest, mut newest) = (xid, xid);
    for slot in 1..=page.slots() {
        let Some(tuple) = page.tuple(slot)? else { continue };
        for used in [tuple.header.xmin, tuple.header.xmax] {
            if used >= Xid::FIRST {
                (oldest, newest) = (oldest.min(used), newest.max(used));
            }
        }
    }
    let roomy = base_for(xid);
    let all_fit = fits(roomy, oldest) && fits(roomy, newest);
    let base = if all_fit { roomy } else { oldest.0.saturating_sub(2) };
    if fits(base, xid) { Ok(base) } else { Err(store::too_far_apart(page.id())) }
}
