//! Prepared transactions among the locks: what is kept of one, and what it holds after a restart.
//!
//! A prepared transaction runs no more statements and has no snapshot. It stays among the running
//! ones until it is committed or rolled back: its xids are in progress, hold the horizon back, and
//! are the locks of its rows; its table locks are held. [`PreparedState`] is what the catalog keeps
//! of it, and what [`TxnManager::restore`](crate::txn::TxnManager) makes it of.
//!
//! Row locks with several holders are named by multixacts, which are in memory only (R23). After a
//! restart nothing tells who held one. So a restored transaction that has taken a lock which others
//! may share holds every multixact that is not known and may be as new as that lock.
//!
//! Invariants: a state has all xids that the rows of its transaction name, and none that is
//! aborted.
//! Does not do: keep the state (`catalog`), names of prepared transactions (`upkeep`).

use std::ops::Range;

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::ids::{ObjectId, Xid};
use crate::txn::lock::row_lock::{Locker, RowLock};
use crate::txn::xid::TxnId;

/// What of a prepared transaction outlives the process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PreparedState {
    /// Its xids that are not aborted, ascending.
    pub xids: Vec<Range<u64>>,
    /// The table locks that it holds.
    pub tables: Vec<PreparedLock>,
    /// Its locks of rows that others may have shared with it.
    pub shared: Option<SharedRows>,
}

/// Locks of rows that others may share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedRows {
    /// The strongest of them.
    pub lock: RowLock,
    /// Multixacts below this one existed before the first of them. None is one of a
    /// transaction that ran then: its xids may be older than the lock.
    pub since: Xid,
}

/// The locks of one table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreparedLock {
    /// The table.
    pub table: ObjectId,
    /// The modes: a bit for each, by its place in [`LockMode`].
    pub modes: u8,
}

/// A restored transaction that shares rows with others.
struct RestoredSharer {
    owner: TxnId,
    since: Xid,
    locker: Locker,
}

/// Restored transactions, and the multixacts that the process before knew.
#[derive(Default)]
pub(in crate::txn) struct Restored {
    sharers: Vec<RestoredSharer>,
    /// Xids below this one were assigned before the database was opened.
    opened_at: u64,
}

impl Restored {
    /// Notes that the transaction `owner` was restored from `saved`. Xids from `next` on were not
    /// assigned before.
    pub(in crate::txn) fn add(&mut self, owner: TxnId, saved: &PreparedState, next: u64) {
        self.opened_at = next;
        let last = saved.xids.last().map(|range| Xid(range.end - 1));
        if let Some((SharedRows { lock, since }, xid)) = saved.shared.zip(last) {
            self.sharers.push(RestoredSharer { owner, since, locker: Locker { xid, lock } });
        }
    }

    /// The restored transactions that may be members of `multixact`, which is not known.
    pub(in crate::txn) fn members(&self, multixact: Xid) -> Vec<Locker> {
        if multixact.0 >= self.opened_at || broken(Broken::RestoredLocksForgotten) {
            return Vec::new();
        }
        let shares = self.sharers.iter().filter(|sharer| sharer.since <= multixact);
        shares.map(|sharer| sharer.locker).collect()
    }

    /// The transaction `id` ends: if it was restored, it shares no row any more.
    pub(in crate::txn) fn forget(&mut self, id: TxnId) {
        self.sharers.retain(|sharer| sharer.owner != id);
    }
}
