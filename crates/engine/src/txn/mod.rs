//! Transactions: xids, snapshots, commit status, waiting, deadlocks, table locks.
//!
//! | folder | holds |
//! |---|---|
//! | `xid` | the xids of a transaction |
//! | `status` | the outcome of each xid, in memory and on disk |
//! | `lock` | the shared state: running transactions, locks, who waits for whom |
//! | `manager` | begin, xids, commit, outcomes, blocking |
//! | `snapshot` | what a transaction sees |
//! | `transaction` | one transaction |
//!
//! Invariants:
//! - The order of a commit is durable, visible, acknowledged (relaxed: visible, acknowledged,
//!   durable).
//! - Outcomes become visible, snapshots are taken and registered, and waiters are queued under one
//!   lock, `TxnManager::state`; no latch is waited for and no I/O is done while it is held. So a
//!   page latch may be held by whoever takes it.
//! - An xid is never handed out twice, not even after a crash: the log record of the ceiling comes
//!   before the record of anything that names an xid below it.
//! - An xid that is neither running nor recorded as committed is aborted; nothing is logged for
//!   aborts.
//!
//! Does not do: row locks as such (an xid in the row is the lock, see `heap`), undo (there is
//! none), retries.

#[cfg(test)]
#[cfg(feature = "shuttle")]
mod explore;
mod lock;
mod manager;
mod snapshot;
mod status;
mod transaction;
mod xid;

#[cfg(test)]
#[cfg_attr(feature = "shuttle", expect(dead_code, reason = "schedules need no crashes"))]
mod model;
#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;

pub use lock::multixact::{Locker, RowLock};
pub use lock::row_wait_queue::{Place, Version};
pub use lock::table_lock::LockMode;
pub use manager::dead_hints::DeadHints;
pub use manager::outcome::{CSN_OLD, Status};
pub use manager::{
    LiveSnapshot, LockState, LockTarget, RunningTxn, TxnCounters, TxnManager, TxnOptions, WaitsFor,
};
pub use snapshot::{Hold, Snapshot, SnapshotSet};
pub use status::file::{STATUS_FILE, outcomes_stamp};
pub use status::segment::{
    FIRST_SEGMENT, MAX_XID, SEGMENT_PAGES, SEGMENT_XIDS, is_segment, segments_of,
};
pub use transaction::{CancelHandle, Isolation, Reads, Savepoint, Start, Transaction, Waited};
