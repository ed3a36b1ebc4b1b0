//! Transaction ids: which transaction owns which, and how far back anybody needs them.
//!
//! | file | holds |
//! |---|---|
//! | `set` | the xids of one transaction ([`set::XidSet`]), and which of them are aborted |
//! | `assigned` | the xids of all running transactions |
//! | `horizon` | the registered snapshots, which hold the horizon back (R9) |
//!
//! Invariants: nothing here takes a lock or does I/O; the manager's lock guards `assigned` and
//! `horizon`, and a [`set::XidSet`] may be read without it.
//! Does not do: outcomes of xids (`status`).

pub(in crate::txn) mod assigned;
pub(in crate::txn) mod horizon;
pub(in crate::txn) mod set;

/// Number of a transaction in this process. A transaction has it before, and without, any xid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::txn) struct TxnId(pub(in crate::txn) u64);
