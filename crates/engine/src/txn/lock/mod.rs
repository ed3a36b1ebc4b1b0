//! Locks, waits, and the state that the manager's one lock guards.
//!
//! | file | holds |
//! |---|---|
//! | `row_lock` | strengths of row locks, and what is compatible |
//! | `table_lock` | table locks: modes and fair queues |
//! | `state` | [`state::SharedState`]: begin and end of transactions, xids, snapshots, waking |
//! | `multixact` | its row locks with several holders |
//! | `prepared` | prepared transactions, and what they lock after a restart |
//! | `row_wait_queue` | its queues of transactions that want to write the same row |
//! | `writer_priority` | its writers that wait for the sharers of a row |
//! | `deadlock` | its graph of waits: cycles, and waits that are given up |
//! | `wakeup` | the lock around it, and wake-ups that are delivered after it is released |
//!
//! Invariants: all methods of `SharedState` run under the manager's lock, and none of them does
//! I/O or waits for a latch.
//! Does not do: block (`manager::wait`); row locks held by one transaction, which are its xid in
//! the row (`heap`).

pub(in crate::txn) mod deadlock;
pub(in crate::txn) mod multixact;
pub(in crate::txn) mod prepared;
pub(in crate::txn) mod row_lock;
pub(in crate::txn) mod row_wait_queue;
pub(in crate::txn) mod state;
pub(in crate::txn) mod table_lock;
pub(in crate::txn) mod wakeup;
pub(in crate::txn) mod writer_priority;
