//! Which rows of an index leaf no snapshot sees any more.
//!
//! The set of all live snapshots is asked, not only the oldest one, since an old snapshot keeps
//! only what it sees (R9).
//!
//! Invariants: the answer is given under an index latch, so it does no I/O and never waits.
//! Does not do: find or remove index entries.
//!
//! PostgreSQL: `heap_index_delete_tuples` in `access/heap/heapam.c`.

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::error::Result;
use crate::heap::Heap;
use crate::heap::page::chain::walk_chain;
use crate::heap::page::tuple::TupleHeader;
use crate::heap::page::{HeapPage, Slot};
use crate::heap::prune::gaps::is_between_snapshots;
use crate::heap::visibility::{HeapVisibility, XmaxStatus};
use crate::ids::{RowId, Xid};
use crate::txn::{SnapshotSet, TxnManager};

impl Heap {
    /// Tells which of `rows` no snapshot sees, now or later. A row may lie between live snapshots
    /// (R9). Rows of one block are best next to each other. A row counts as alive if the answer
    /// would need I/O.
    ///
    /// Sufficient for logged changes: their records follow those of the commits that they rest on.
    /// A hint needs more (R1).
    pub fn dead_to_all(&self, rows: &[RowId], out: &mut [bool]) {
        assert_eq!(rows.len(), out.len(), "one answer per row");
        out.fill(false);
        let mut unseen = UnseenCheck::new(self.txns());
        let mut from = 0;
        for run in rows.chunk_by(|a, b| a.block == b.block) {
            let answers = &mut out[from..from + run.len()];
            from += run.len();
            let block = run[0].block.0;
            if !self.is_data_block(block) {
                continue;
            }
            let Some(pin) = self.pool().try_pin(self.page_id(block)) else { continue };
            let latch = pin.shared();
            if !self.is_data_block(block) {
                continue;
            }
            // An error shows again where the page is read for its own sake.
            let Ok(page) = HeapPage::open(pin.page(), latch.bytes()) else { continue };
            for (row, answer) in run.iter().zip(answers) {
                *answer = is_root_dead(&page, row.slot, &mut unseen).unwrap_or(false);
            }
        }
    }
}

/// Tells which versions no snapshot sees.
struct UnseenCheck<'t> {
    visibility: HeapVisibility<'t>,
    horizon: Xid,
    /// The live snapshots, once there was a version that only some of them can see.
    live: Option<SnapshotSet>,
}

impl<'t> UnseenCheck<'t> {
    fn new(txns: &'t TxnManager) -> Self {
        Self { visibility: HeapVisibility::new(txns), horizon: txns.horizon(), live: None }
    }

    fn is_dead(&mut self, head: &TupleHeader) -> bool {
        if self.visibility.is_dead_to_all(head, self.horizon) == Some(true) {
            return true;
        }
        if !matches!(self.visibility.xmax_status(head), Some(XmaxStatus::Committed(_))) {
            return false;
        }
        // One that is taken after this has a later commit number than all that was ended before.
        let txns = self.visibility.txns();
        let live = self.live.get_or_insert_with(|| txns.live_snapshots());
        is_between_snapshots(head, &mut self.visibility, live)
            || broken(Broken::EveryEndedVersionDead)
    }
}

/// Is the row `root` gone, or do no snapshots see what is left of it?
fn is_root_dead(page: &HeapPage<'_>, root: u16, unseen: &mut UnseenCheck<'_>) -> Result<bool> {
    if page.slot(root)? == Slot::Dead {
        return Ok(true);
    }
    let (mut versions, mut dead) = (0, 0);
    walk_chain(page, root, |_, tuple| {
        versions += 1;
        dead += u32::from(unseen.is_dead(&tuple.header));
        Ok(versions == dead)
    })?;
    Ok(versions > 0 && versions == dead)
}
