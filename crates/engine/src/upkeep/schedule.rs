//! When a checkpoint is due, and how fast its writes have to follow each other.
//!
//! Invariants: the redo position is that of the newest finished checkpoint.
//! Does not do: checkpoints (`checkpoint`); estimates of redo time (`recovery::checkpoint`).

use std::time::Duration;

use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, Ordering};

use crate::buffer::BufferPool;
use crate::ids::Lsn;
use crate::recovery::checkpoint::{Pace, RedoWork};
use crate::wal::RedoSpeed;

/// Why a checkpoint is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CheckpointCause {
    /// The log took as much space as it may.
    LogSpace,
    /// Redo would have taken too long.
    RedoTime,
    /// A caller asked, or the database was opened or closed.
    Asked,
    /// The disk was full.
    DiskFull,
}

/// Decides when checkpoints are made.
pub(crate) struct CheckpointSchedule {
    pool: Arc<BufferPool>,
    pace: Pace,
    redo: AtomicU64,
    /// Pages that had become dirty when the checkpoint began that set `redo`.
    dirtied: AtomicU64,
    requested: AtomicBool,
    /// The speed of redo that checkpoints store in the control file.
    pub(super) redo_speed: RedoSpeed,
}

impl CheckpointSchedule {
    /// The schedule of a database whose redo position is `redo`.
    pub(super) fn new(
        pool: &Arc<BufferPool>,
        max_log_bytes: u64,
        redo: Lsn,
        redo_speed: RedoSpeed,
    ) -> Self {
        let pace = Pace::new(max_log_bytes, pool.frames(), redo_speed);
        let (pool, redo, dirtied) = (Arc::clone(pool), AtomicU64::new(redo.0), AtomicU64::new(0));
        Self { pool, pace, redo, dirtied, requested: AtomicBool::new(false), redo_speed }
    }

    /// The position from which redo would start after a crash now.
    pub(crate) fn redo(&self) -> Lsn {
        Lsn(self.redo.load(Ordering::Acquire))
    }

    /// Makes a checkpoint due, however little redo it would save.
    pub(super) fn request(&self) {
        self.requested.store(true, Ordering::Release);
    }

    /// The cause of the checkpoint that is due. A request counts once.
    pub(super) fn take_due(&self) -> Option<CheckpointCause> {
        let requested = || self.requested.load(Ordering::Acquire);
        let cause = match self.pool.wal().needs_checkpoint() {
            true => CheckpointCause::LogSpace,
            false if requested() => CheckpointCause::Asked,
            false if self.pace.is_due(self.redo_work()) => CheckpointCause::RedoTime,
            false => return None,
        };
        self.requested.store(false, Ordering::Release);
        Some(cause)
    }

    /// Is redo so long that writers have to help with the checkpoint?
    pub(super) fn is_late(&self) -> bool {
        self.pace.is_late(self.redo_work())
    }

    /// May a checkpoint rest that has done `share` of its work in the time `since` its begin?
    pub(super) fn is_ahead(&self, share: f64, since: Duration) -> bool {
        self.pace.is_ahead(share, since, self.redo_work())
    }

    /// The work of redo after a crash now.
    pub(super) fn redo_work(&self) -> RedoWork {
        let dirtied = self.pool.stats().dirtied;
        let pages = dirtied.saturating_sub(self.dirtied.load(Ordering::Acquire));
        RedoWork { bytes: self.pool.wal().bytes_since(self.redo()), pages }
    }

    /// Bytes of log between checkpoints, at the present mix of changes.
    pub(crate) fn distance(&self) -> u64 {
        self.pace.distance(self.redo_work())
    }

    /// Notes a finished checkpoint: its redo position, and the pages that had become dirty when it
    /// began.
    pub(super) fn advance(&self, redo: Lsn, dirtied: u64) {
        self.redo.store(redo.0, Ordering::Release);
        self.dirtied.store(dirtied, Ordering::Release);
    }
}
