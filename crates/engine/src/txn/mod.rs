//! Transactions: xids, snapshots, commit status, waiting, deadlocks, table locks.
//!
//! | file | hides |
//! |---|---|
//! | `manager` | begin, xids in runs, publishing of outcomes, horizon, what is running |
//! | `commit` | from the records of a commit to its visibility |
//! | `transaction` | what one transaction owns: statement xids, savepoints, its end |
//! | `snapshot` | what a transaction sees, and the registration that holds garbage back (R9) |
//! | `outcome` | the answer to "what became of xid n", wherever it is kept |
//! | `dead_hints` | whether scans mark dead index entries, for measuring |
//! | `own` | the xids of one transaction and which of them are aborted |
//! | `ring` | outcomes of recent xids, read without a lock; which commits are durable (R1) |
//! | `status` | outcomes on disk: the status file and its segments |
//! | `segments` | where the outcome of an xid lies |
//! | `state` | what the manager's one lock guards |
//! | `bells` | that lock, and how those are woken who wait |
//! | `waiting` | blocking, deadlocks, timeouts, cancel |
//! | `heirs` | who goes on when several wait to write one row |
//! | `helpers` | threads that are free to help statements |
//! | `locks` | table locks: modes and the fair queue |
//! | `lockers` | row locks that one xid in the row cannot tell |
//! | `contenders` | writers that who shares a row lets go first |
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

mod bells;
mod commit;
mod contenders;
mod dead_hints;
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod explore;
mod heirs;
mod helpers;
mod lockers;
mod locks;
mod manager;
mod outcome;
mod own;
mod ring;
mod segments;
mod snapshot;
mod state;
mod status;
mod transaction;
mod waiting;

#[cfg(test)]
#[cfg_attr(feature = "shuttle", expect(dead_code, reason = "schedules need no crashes"))]
mod model;
#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;

pub use dead_hints::DeadHints;
pub use heirs::{Place, Version};
pub use lockers::{Locker, RowLock};
pub use locks::LockMode;
pub use manager::{
    LiveSnapshot, LockState, LockTarget, RunningTxn, TxnCounters, TxnManager, TxnOptions, WaitsFor,
};
pub use outcome::{CSN_OLD, Status};
pub use segments::{FIRST_SEGMENT, MAX_XID, SEGMENT_PAGES, SEGMENT_XIDS, is_segment, segments_of};
pub use snapshot::{Hold, Snapshot, SnapshotSet};
pub use status::{STATUS_FILE, outcomes_stamp};
pub use transaction::{CancelHandle, Isolation, Reads, Savepoint, Start, Transaction, Waited};
