//! Commit status: the outcome of each xid, in memory for recent ones and on disk for all.

pub(in crate::txn) mod file;
pub(in crate::txn) mod recent;
pub(in crate::txn) mod segment;
