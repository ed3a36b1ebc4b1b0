//! Transaction ids: the sets of them that transactions own.

pub(in crate::txn) mod set;
