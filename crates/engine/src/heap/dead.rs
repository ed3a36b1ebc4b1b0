//! Dead rows, as indexes meet them: which of a leaf's rows nobody sees any more, and the freeing of
//! line pointers whose entries were removed by key.
//!
//! One live snapshot that is old keeps only what it sees: the set of all of them is asked (R9),
//! where the oldest one does not decide.
//!
//! Invariants: what is said here under an index latch costs neither I/O nor waiting for a
//! transaction; a line pointer is freed by key only if no row id of its block was given free since
//! its root died, under the lock that vacuum holds from its first look at a page to its last (R3):
//! so it is the same dead root that left the indexes.
//! Does not do: find entries, decide when to clean.

use rightlink_env::points::broken;

use crate::error::Result;
use crate::heap::Heap;
use crate::heap::between::lies_between;
use crate::heap::page::{HeapPage, Slot, walk_chain};
use crate::heap::page_set::Maps;
use crate::heap::prune::{DeadRoot, Plan};
use crate::heap::tuple::TupleHeader;
use crate::heap::visibility::{End, Judge};
use crate::ids::{RowId, Xid};
use crate::txn::{SnapshotSet, TxnManager};
use crate::wal::RecordKind;

impl Heap {
    /// Which of `rows` no snapshot sees, now or later: not the live ones, between which versions
    /// may lie (R9), nor those to come. Rows of one block are best next to each other. What cannot
    /// be told without I/O counts as alive.
    ///
    /// Good for changes that are logged: their records lie behind those of the commits that they
    /// rest on. A hint needs more (R1).
    pub fn dead_to_all(&self, rows: &[RowId], out: &mut [bool]) {
        assert_eq!(rows.len(), out.len(), "one answer per row");
        out.fill(false);
        let mut unseen = Unseen::new(self.txns());
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
                *answer = is_dead(&page, row.slot, &mut unseen).unwrap_or(false);
            }
        }
    }

    /// Frees the line pointers of those of `roots`, sorted by row id, of whose blocks no row id was
    /// given free since they died. Their entries have left every index. Returns how many were freed
    /// and how many others were, or may have been, no more those of `roots`. `None`: another frees.
    pub fn free_cleaned(&self, roots: &[DeadRoot]) -> Result<Option<(u64, u64)>> {
        assert!(roots.is_sorted_by_key(|root| root.row_id), "one visit per page");
        let turn = self.shared.freeing.try_lock();
        if turn.is_none() && !broken("r3-turn") {
            return Ok(None);
        }
        // All are asked before the first is freed: blocks share buckets of the clock.
        let same = |root: &&DeadRoot| {
            !self.clock().newer_than(root.row_id.block, root.pruned_at) || broken("r3-free")
        };
        let rows: Vec<RowId> = roots.iter().filter(same).map(|root| root.row_id).collect();
        let mut freed = 0;
        for run in rows.chunk_by(|a, b| a.block == b.block) {
            freed += self.free_on(run)?;
        }
        Ok(Some((freed, (roots.len() - rows.len()) as u64)))
    }

    fn free_on(&self, rows: &[RowId]) -> Result<u64> {
        let block = rows[0].block;
        if !broken("r3-clock") {
            self.clock().advance(block);
        }
        let Some(mut set) = self.latch(&[block.0], Maps::Marked)? else { return Ok(0) };
        let mut plan = Plan::nothing(&set.page(block.0)?)?;
        let freed = plan.free(rows);
        if freed > 0 {
            let rewrite = plan.rewrite(&set.page(block.0)?)?;
            plan.apply(&mut set.store(block.0), &rewrite);
            set.commit(RecordKind::HeapPrune, Xid::NONE)?;
            rightlink_env::points::hit("heap.freed-by-key");
        }
        Ok(freed)
    }
}

/// Tells which versions no snapshot sees.
struct Unseen<'t> {
    judge: Judge<'t>,
    horizon: Xid,
    /// The live snapshots, once there was a version that only some of them can see.
    live: Option<SnapshotSet>,
}

impl<'t> Unseen<'t> {
    fn new(txns: &'t TxnManager) -> Self {
        Self { judge: Judge::new(txns), horizon: txns.horizon(), live: None }
    }

    fn has(&mut self, head: &TupleHeader) -> bool {
        if self.judge.dead_to_all(head, self.horizon) == Some(true) {
            return true;
        }
        if !matches!(self.judge.end(head), Some(End::Ended(_))) {
            return false;
        }
        // One that is taken after this has a later commit number than all that was ended before.
        let txns = self.judge.txns();
        let live = self.live.get_or_insert_with(|| txns.live_snapshots());
        lies_between(head, &mut self.judge, live) || broken("r9-unseen")
    }
}

/// Is nothing left of the row `root`, or nothing that anyone sees?
fn is_dead(page: &HeapPage<'_>, root: u16, unseen: &mut Unseen<'_>) -> Result<bool> {
    if page.slot(root)? == Slot::Dead {
        return Ok(true);
    }
    let (mut versions, mut dead) = (0, 0);
    walk_chain(page, root, |_, tuple| {
        versions += 1;
        dead += u32::from(unseen.has(&tuple.header));
        Ok(versions == dead)
    })?;
    Ok(versions > 0 && versions == dead)
}
