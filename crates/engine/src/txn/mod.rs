//! Transactions: xids, snapshots, commit status, row and table locks, deadlocks.
//!
//! | folder, from the bottom up | holds |
//! |---|---|
//! | `xid` | which transaction owns which xids; registered snapshots and the horizon |
//! | `status` | the outcome of each xid, in memory and on disk |
//! | `lock` | row and table locks, queues, deadlocks: the state that one lock guards |
//! | `manager` | assigning xids, commit, looking up outcomes, blocking |
//! | `snapshot` | what a statement sees, and the registration that holds garbage back (R9) |
//! | `transaction` | one transaction: statements, savepoints, waits, its end |
//!
//! Invariants:
//! - A commit is durable, then visible, then acknowledged (relaxed: visible, acknowledged,
//!   durable).
//! - Outcomes become visible, snapshots are registered, and waiters are queued under one lock,
//!   `TxnManager::state`. No thread waits for a latch or does I/O while it holds that lock, so a
//!   thread that holds a page latch may take it.
//! - No xid is assigned twice, not even after a crash: the log record of the ceiling precedes the
//!   record of anything that names an xid below it.
//! - An xid that is neither running nor recorded as committed is aborted; aborts are not logged.
//!
//! Does not do: undo (there is none), retries, row locks with one holder (an xid in the row is the
//! lock, see `heap`). As in PostgreSQL, but a snapshot is a commit number, not a list of xids.

mod lock;
mod manager;
mod snapshot;
mod status;
mod transaction;
mod xid;

#[cfg(test)]
mod tests;

pub(crate) use lock::multixact::NewVersionLocks;
pub(crate) use lock::prepared::{PreparedLock, PreparedState, SharedRows};
pub use lock::row_lock::RowLock;
pub(crate) use lock::row_lock::{Locker, RowVersion, VersionLink};
pub(crate) use lock::row_wait_queue::{RowWait, WrittenRow};
pub use lock::state::Isolation;
pub use lock::table_lock::LockMode;
#[cfg(feature = "experiments")]
pub use manager::dead_hints::DeadHints;
pub(crate) use manager::monitor::{LockState, LockTarget, RunningTxn, WaitsFor};
pub(crate) use manager::{TxnManager, TxnOptions};
pub(crate) use snapshot::Snapshot;
pub(crate) use snapshot::set::SnapshotSet;
pub(crate) use status::Status;
pub(crate) use status::file::{STATUS_FILE, outcomes_stamp};
pub(crate) use status::segment::{
    FIRST_SEGMENT, MAX_XID, SEGMENT_PAGES, SEGMENT_XIDS, is_segment, segments_of,
};
pub use transaction::CancelHandle;
pub(crate) use transaction::wait::{AnchoredVersion, ReleasableReads, RowWaitResult};
pub(crate) use transaction::{Savepoint, Transaction, WriteHolds};
