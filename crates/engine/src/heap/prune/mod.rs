//! Pruning: versions that no snapshot sees are removed, and HOT chains are shortened.
//!
//! Of each chain, the versions up to the last dead one are removed. If none is left, the root's
//! line pointer becomes dead, because index entries still name it; it is reported upward and freed
//! only after they are gone (R3). Otherwise the root redirects to the first version left.
//!
//! | file | concern |
//! |---|---|
//! | `plan`, `gaps` | what pruning does to a page; versions between snapshots (R9) |
//! | `dead_roots`, `dead_rows` | roots that died on access; dead rows of an index leaf |
//! | `vacuum`, `freeze`, `rebase` | vacuum of one page; frozen xids; another xid base |
//! | `recycle_clock`, `free`, `truncate` | the clock of R3; freed row ids; cutting of the tail |
//!
//! Invariants: versions that a commit ended may be pruned before the commit is durable: the prune's
//! record follows the commit's in the log, and pages are written after their records.
//! Does not do: call an index.
//!
//! PostgreSQL: `access/heap/pruneheap.c` and `README.HOT`.

pub(in crate::heap) mod dead_roots;
mod dead_rows;
pub(in crate::heap) mod free;
mod freeze;
mod gaps;
pub(in crate::heap) mod plan;
mod rebase;
pub(in crate::heap) mod recycle_clock;
mod truncate;
pub(in crate::heap) mod vacuum;

use crate::buffer::Pin;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::heap::latch::MapLatches;
use crate::heap::page::HeapPage;
use crate::heap::prune::dead_roots::DeadRoot;
use crate::heap::prune::plan::PrunePlan;
use crate::heap::visibility::HeapVisibility;
use crate::ids::{BlockNo, Xid};
use crate::wal::{Admission, RecordKind};

/// A page with so much room after pruning is entered in the free-space map.
const MUCH_ROOM: usize = crate::config::PAGE_SIZE / 2;
/// A page with less room than this part of a page is short of space.
const SHORT_OF_SPACE: usize = crate::config::PAGE_SIZE / 10;

impl Heap {
    /// Is [`Heap::prune`] worth a call: is the page short of space, and may a version be dead? The
    /// caller holds no latch.
    pub fn should_prune(&self, pin: &Pin) -> bool {
        let latch = pin.shared();
        let Ok(page) = HeapPage::open(pin.page(), latch.bytes()) else { return false };
        if page.room() >= SHORT_OF_SPACE.max(self.shared.reserve) {
            return false;
        }
        let mark = page.prune_xid();
        drop(latch);
        mark.is_some_and(|xid| xid < self.txns().horizon())
    }

    /// Prunes a page on access. Dead roots are returned and not queued.
    pub fn prune(&self, block: BlockNo) -> Result<Vec<DeadRoot>> {
        let mut visibility = HeapVisibility::new(self.txns());
        let snapshots = self.txns().live_snapshots();
        let Some(mut set) = self.latch(&[block.0], MapLatches::Marked)? else {
            return Ok(Vec::new());
        };
        let now = self.clock().now();
        let plan = PrunePlan::new(&set.page(block.0)?, &mut visibility, &snapshots, now)?;
        if plan.changes() {
            let compaction = plan.compaction(&set.page(block.0)?)?;
            let mut store = set.store(block.0);
            plan.hints.store(&mut store);
            plan.apply(&mut store, &compaction);
            let room = self.room_for_inserts(&set.page(block.0)?);
            set.commit(RecordKind::HeapPrune, Xid::NONE)?;
            self.take_garbage(plan.removed());
            // Less room is left to updates of the page's own rows.
            if room >= MUCH_ROOM {
                self.free_space().note(block.0, room)?;
            }
        }
        Ok(plan.dead)
    }

    /// Prunes a page and queues its dead roots; returns their number.
    pub fn prune_and_queue(&self, block: BlockNo) -> Result<usize> {
        let dead = self.prune(block)?;
        let count = dead.len();
        self.shared.queue_dead_roots(dead);
        Ok(count)
    }

    /// Prunes a page that a write needs room on.
    pub(in crate::heap) fn prune_for_room(&self, block: u32) -> Result<()> {
        self.prune_and_queue(BlockNo(block)).map(drop)
    }

    /// Prunes the page of `pin` if that is worth it, and queues the roots that died. Reading does
    /// not depend on it, so nothing is done where nothing can be logged.
    pub(in crate::heap) fn prune_on_read(&self, pin: &Pin) -> Result<()> {
        let wal = self.pool().wal();
        if !self.should_prune(pin) || !wal.has_room(Admission::GoOn) || wal.check().is_err() {
            return Ok(());
        }
        match self.prune_for_room(pin.page().block.0) {
            Err(Error::DiskFull(_) | Error::Io(_) | Error::Poisoned(_)) => Ok(()),
            pruned => pruned,
        }
    }
}
