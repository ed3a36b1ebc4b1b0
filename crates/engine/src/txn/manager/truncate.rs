//! Forgetting old outcomes, once no row names their xids any more, and removing their segments.
//!
//! Two steps with a checkpoint between them: [`TxnManager::forget_outcomes`] raises the oldest kept
//! xid, and [`TxnManager::drop_segments`] removes files once the control file says so durably.
//!
//! Invariants: only outcomes of finished xids below the horizon are forgotten.
//! Does not do: find out which xids rows still name (vacuum).

use std::cmp::Ordering as Order;

use rightlink_env::sync::Ordering;

use crate::error::Result;
use crate::ids::{FileId, Xid};
use crate::txn::manager::TxnManager;
use crate::txn::manager::allocate::MAX_STEP;
use crate::txn::status::file::StatusMeta;
use crate::txn::status::segment::{self, MAX_XID};
use crate::txn::xid::set::MAX_RUN;

impl TxnManager {
    /// Xids that were assigned and whose outcomes are kept.
    pub fn xids_kept(&self) -> u64 {
        // In this order: the second one is never below the first.
        let oldest = self.oldest_xid().0;
        self.next_xid().0 - oldest
    }

    /// The segments of the status file with outcomes that are kept.
    pub fn segments(&self) -> Vec<FileId> {
        // In this order: the bounds only rise, the second one is never below the first.
        let oldest = self.oldest_xid();
        segment::segments_of(oldest..Xid(self.state.lock().xids.limit())).collect()
    }

    /// May the segment `file` exist after a clean close? A segment whose outcomes are not kept is
    /// removed behind the last checkpoint, and one made ahead of its use when the database is
    /// opened.
    pub fn may_have_segment(&self, file: FileId) -> bool {
        let ahead = (self.next_xid().0 + MAX_RUN + MAX_STEP).min(MAX_XID - 1);
        file <= segment::segment_of(ahead)
    }

    /// Blocks at the beginning of `file` whose outcomes are not kept, if it is a segment of the
    /// status file. These blocks may or may not exist.
    pub fn blocks_not_kept(&self, file: FileId) -> u32 {
        if !segment::is_segment(file) {
            return 0;
        }
        let oldest = segment::page_id(self.oldest_xid().0);
        match oldest.file.cmp(&file) {
            Order::Less => 0,
            Order::Equal => oldest.block.0,
            Order::Greater => u32::MAX,
        }
    }

    /// Forgets outcomes below `below`: no row names an unfrozen xid below it any more. Logged;
    /// then their space goes back to the system.
    pub fn forget_outcomes(&self, below: Xid) -> Result<()> {
        assert!(below <= self.horizon(), "only finished xids that everyone sees are forgotten");
        let mut ceiling = self.ceiling.lock();
        // The last outcome is kept, so that its segment stays: the next xid goes on in it.
        let oldest = below.0.min(self.next_xid().0 - 1);
        if oldest <= ceiling.meta.oldest {
            return Ok(());
        }
        let meta = StatusMeta { oldest, ..ceiling.meta };
        self.file.set_meta(meta)?;
        let before = std::mem::replace(&mut ceiling.meta, meta).oldest;
        self.oldest.store(oldest, Ordering::Release);
        drop(ceiling);
        if segment::page_of(before) < segment::page_of(oldest) {
            self.file.forget(oldest)?;
        }
        Ok(())
    }

    /// Removes the segments of the status file that [`TxnManager::forget_outcomes`] has left
    /// without an outcome that is kept. The control file says durably that none is kept below
    /// `below`.
    pub fn drop_segments(&self, below: Xid) -> Result<()> {
        assert!(below <= self.oldest_xid(), "segments go when their outcomes were forgotten");
        self.file.drop_segments(below.0)
    }
}
