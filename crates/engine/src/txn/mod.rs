//! Transactions: xids, snapshots, commit status, waiting, deadlocks, table locks.
//!
//! SKELETON: signatures that other rooms build on; the owner of `txn/` replaces the bodies.

use std::sync::Arc;

use crate::buffer::BufferPool;
use crate::error::Result;
use crate::ids::{Csn, Lsn, ObjectId, Xid};

/// What a transaction sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    /// A new snapshot for every statement.
    ReadCommitted,
    /// One snapshot for the whole transaction.
    #[default]
    Snapshot,
}

/// State of an xid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Still running (in this process).
    InProgress,
    /// Committed and visible with this commit number.
    Committed(Csn),
    /// Rolled back, never finished before a crash, or never used.
    Aborted,
}

/// All transactions of an open database.
pub struct TxnManager {}

impl TxnManager {
    /// Opens over the status file; every xid below `next` that has no commit is aborted.
    pub fn open(pool: Arc<BufferPool>, next: Xid) -> Result<Arc<Self>> {
        let _ = (pool, next);
        todo!()
    }

    /// Starts a transaction. No xid is taken before its first write.
    pub fn begin(self: &Arc<Self>, isolation: Isolation) -> Transaction {
        let _ = isolation;
        todo!()
    }

    /// State of `xid`; may read a status page for an old one.
    pub fn status(&self, xid: Xid) -> Result<Status> {
        let _ = xid;
        todo!()
    }

    /// State of `xid` if it can be told without I/O (usable under a latch).
    pub fn try_status(&self, xid: Xid) -> Option<Status> {
        let _ = xid;
        todo!()
    }

    /// Is the commit record of the committed `xid` durable (R1)? One load when everything is.
    pub fn is_durable(&self, xid: Xid) -> bool {
        let _ = xid;
        todo!()
    }

    /// Every xid below is finished, and every live snapshot sees its outcome. A version whose deleter is
    /// committed and below is dead to everyone.
    pub fn horizon(&self) -> Xid {
        todo!()
    }

    /// First xid not handed out yet.
    pub fn next_xid(&self) -> Xid {
        todo!()
    }
}

/// A snapshot: a commit number, the own xids, and the own statement. Registered until dropped (R9).
pub struct Snapshot {}

impl Snapshot {
    /// Is the work of `xid` visible? Own statements before this snapshot's are, its own is not.
    pub fn sees(&self, xid: Xid) -> Result<bool> {
        let _ = xid;
        todo!()
    }

    /// As [`Snapshot::sees`], without I/O: `None` if a status page would have to be read first.
    pub fn try_sees(&self, xid: Xid) -> Option<bool> {
        let _ = xid;
        todo!()
    }

    /// The manager that took it.
    pub fn manager(&self) -> &Arc<TxnManager> {
        todo!()
    }
}

/// A running transaction. Each statement that writes has an xid of its own ("statement xid"), so a failed
/// statement or a rolled-back savepoint is an aborted xid and needs no undo. Owned and `Send`.
pub struct Transaction {}

/// Position to roll back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint(pub u64);

/// Strength of a table lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockMode {
    /// Readers: excluded only by `Exclusive`.
    Access,
    /// Writers of rows: excluded by `Share` and `Exclusive`.
    Write,
    /// Builds that need the rows to stand still.
    Share,
    /// Changes of the definition.
    Exclusive,
}

impl Transaction {
    /// Begins a statement: its reads see the snapshot given back, its writes carry a new xid.
    pub fn begin_statement(&mut self) -> Result<Arc<Snapshot>> {
        todo!()
    }

    /// The xid of the current statement, taken on first use.
    pub fn xid(&mut self) -> Result<Xid> {
        todo!()
    }

    /// Undoes the current statement: its xid is aborted.
    pub fn rollback_statement(&mut self) {
        todo!()
    }

    /// Is `xid` one of this transaction's own that is still alive?
    pub fn owns(&self, xid: Xid) -> bool {
        let _ = xid;
        todo!()
    }

    /// Marks a position.
    pub fn savepoint(&mut self) -> Savepoint {
        todo!()
    }

    /// Aborts every statement since `to`; the savepoint itself stays.
    pub fn rollback_to(&mut self, to: Savepoint) -> Result<()> {
        let _ = to;
        todo!()
    }

    /// Waits until the transaction that owns `xid` has ended (or aborted that statement). Errors: deadlock,
    /// cancelled, lock timeout. The caller holds no latch (R12).
    pub fn wait_for(&mut self, xid: Xid) -> Result<()> {
        let _ = xid;
        todo!()
    }

    /// Locks a table until the end of the transaction; waits, detects deadlocks.
    pub fn lock_table(&mut self, table: ObjectId, mode: LockMode) -> Result<()> {
        let _ = (table, mode);
        todo!()
    }

    /// Commits: one log record; durable before it is visible unless `relaxed`. Returns the record's end.
    pub fn commit(self, relaxed: bool) -> Result<Lsn> {
        let _ = relaxed;
        todo!()
    }

    /// Rolls back; also what dropping does.
    pub fn rollback(self) {}
}
