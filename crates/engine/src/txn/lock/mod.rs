//! Locks and waits: everything that the manager's one lock guards.

pub(in crate::txn) mod multixact;
pub(in crate::txn) mod row_wait_queue;
pub(in crate::txn) mod state;
pub(in crate::txn) mod table_lock;
pub(in crate::txn) mod wakeup;
pub(in crate::txn) mod writer_priority;
