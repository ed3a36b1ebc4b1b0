//! [`SharedState`]: running transactions, their xids, snapshots, locks and waits.
//!
//! The manager's one lock guards all of it. This file has the types of the state, and the begin and
//! the end of transactions, xids, snapshots and waking. `lock/mod.rs` lists the files with the
//! other methods.
//!
//! Invariants: every running transaction is in `running`. A transaction waits for one thing at a
//! time. The code that ends a wait clears it before the wake-up is delivered. Maps are ordered, so
//! that one seed gives one run of a simulation.
//! Does not do: the locking itself (`wakeup`), I/O, anything that takes long.

use rightlink_env::Broken;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rightlink_env::Nanos;
use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, Condvar};

use crate::error::{Error, Result};
use crate::ids::{Csn, ObjectId, RowId, Xid};
use crate::txn::lock::prepared::Restored;
use crate::txn::lock::row_lock::{Locker, RowLock, RowVersion, VersionLink};
use crate::txn::lock::table_lock::{LockMode, TableLocks};
use crate::txn::status::spill::CsnSpill;
use crate::txn::xid::TxnId;
use crate::txn::xid::assigned::AssignedXids;
use crate::txn::xid::horizon::{PointUse, SnapshotPoint, SnapshotRegistry};
use crate::txn::xid::set::{XidRun, XidSet};

/// Isolation of a transaction: which commits of others its statements see.
///
/// ```
/// use rightlink::{Isolation, TransactionOptions};
/// # use rightlink::{TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # txn.commit()?;
/// let key = [Value::Int8(1)];
/// let isolation = Isolation::ReadCommitted;
/// let mut each = db.begin_with(TransactionOptions { isolation, ..Default::default() });
/// let mut whole = db.begin();
/// assert!(each.get("n", &key)?.is_none() && whole.get("n", &key)?.is_none());
/// db.with_retry(|txn| txn.insert("n", &[Value::Int8(1), Value::Int8(10)]))?;
/// assert!(each.get("n", &key)?.is_some() && whole.get("n", &key)?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    /// Every statement takes a new snapshot, and sees what was committed before it began.
    ReadCommitted,
    /// All statements read by the snapshot of the first one.
    #[default]
    Snapshot,
}

/// What a transaction waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum WaitTarget {
    /// The end of `xid`, which belongs to the transaction `owner`.
    Xid { xid: Xid, owner: TxnId },
    /// Its turn in the queue.
    RowQueue(RowQueueId),
    /// The transaction has the row, which the waiter wants to share, or gives it up.
    PriorityWriter(TxnId),
    /// A table lock.
    TableLock { table: ObjectId, mode: LockMode },
}

/// One running transaction.
pub(in crate::txn) struct ActiveTxn {
    pub(in crate::txn) isolation: Isolation,
    pub(in crate::txn) started: Nanos,
    pub(in crate::txn) first_xid: Option<u64>,
    /// The transaction is prepared, and nobody commits it or rolls it back now.
    pub(in crate::txn) prepared: bool,
    /// Set while it waits.
    pub(in crate::txn) wait: Option<WaitTarget>,
    /// Its thread sleeps on this while it waits.
    pub(in crate::txn) condvar: Arc<Condvar>,
    /// Waits for one of its xids, in the order of arrival.
    pub(in crate::txn) waiters: Vec<Waiter>,
    /// The queue of the row that it was granted and has neither written nor declined yet.
    pub(in crate::txn) granted_queue: Option<RowQueueId>,
    /// The newest version that the queue knew when it granted the row.
    pub(in crate::txn) newest: Option<VersionLink>,
    /// From where it finds the row that it has waited for.
    pub(in crate::txn) anchor: Option<Anchor>,
    /// The row that it has claimed: it waits for the sharers of that row.
    pub(in crate::txn) claimed_row: Option<RowVersion>,
    /// Transactions that want to share that row and let it go first.
    pub(in crate::txn) sharers_behind: Vec<TxnId>,
    pub(in crate::txn) locked_tables: Vec<ObjectId>,
    /// Multixacts that it is a member of.
    pub(in crate::txn) multixacts: BTreeSet<u64>,
}

/// Number of a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::txn) struct RowQueueId(pub(super) u64);

/// A starting point from which the newest version of a row can be found, whatever becomes of that:
/// a registered snapshot sees the version at `start`, so that version stays (R9).
#[derive(Clone, Copy, Debug)]
pub(in crate::txn) struct Anchor {
    pub(in crate::txn) point: SnapshotPoint,
    pub(in crate::txn) xmax: u64,
    pub(in crate::txn) start: RowId,
}

/// Transactions that want to write one row.
pub(in crate::txn) struct RowWaitQueue {
    /// The version that the blocker may write, or has written.
    pub(super) version: RowVersion,
    pub(super) blocker: Blocker,
    /// In the order of arrival.
    pub(super) members: VecDeque<TxnId>,
    /// The version that the last blocker made.
    pub(super) newest: Option<VersionLink>,
    /// Where the members begin to look for the row. `None` if it is not certain that a snapshot of
    /// now sees `version`; the members keep their own snapshots then.
    pub(super) anchor: Option<Anchor>,
}

/// What a queue waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum Blocker {
    /// The end of the statement `xid` of the transaction `owner`, which has the row.
    Statement { xid: Xid, owner: TxnId },
    /// The transaction that the row was granted to writes it, or declines.
    Grantee(TxnId),
}

/// A transaction or a queue that waits for an xid.
#[derive(Clone, Copy, Debug)]
pub(in crate::txn) struct Waiter {
    pub(in crate::txn) xid: Xid,
    pub(super) party: WaitingParty,
}

/// See [`Waiter`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum WaitingParty {
    Txn(TxnId),
    Queue(RowQueueId),
}

impl Blocker {
    /// The transaction that is waited for.
    pub(in crate::txn) fn owner(self) -> TxnId {
        let (Blocker::Statement { owner, .. } | Blocker::Grantee(owner)) = self;
        owner
    }

    /// The awaited xid; none of a grantee.
    pub(in crate::txn) fn xid(self) -> Xid {
        match self {
            Blocker::Statement { xid, .. } => xid,
            Blocker::Grantee(_) => Xid::NONE,
        }
    }
}

/// All multixacts, by xid.
#[derive(Default)]
pub(in crate::txn) struct MultiXacts {
    pub(super) all: BTreeMap<u64, MultiXact>,
}

/// The holders of a row's locks.
#[derive(Default)]
pub(in crate::txn) struct MultiXact {
    pub(super) members: Vec<Locker>,
    /// Locked versions that name it, at most.
    pub(super) rows: u64,
    /// Versions that its statement replaced name it, and need it if the statement is undone.
    pub(super) keeps_old_locks: bool,
}

impl MultiXacts {
    /// Counts one more row that names `multixact`. False: it is gone.
    pub(in crate::txn) fn try_add_row(&mut self, multixact: Xid) -> bool {
        let known = self.all.get_mut(&multixact.0);
        known.map(|known| known.rows += 1).is_some()
    }

    /// How many there are.
    #[cfg(test)]
    pub(in crate::txn) fn count(&self) -> usize {
        self.all.len()
    }
}

/// Wake-ups of transactions whose wait has ended, until the lock is released.
#[derive(Default)]
pub(in crate::txn) struct DeferredWakeups(Vec<Arc<Condvar>>);

impl DeferredWakeups {
    /// Adds the wake-up of the thread that sleeps on `condvar`.
    pub(in crate::txn) fn push(&mut self, condvar: Arc<Condvar>) {
        self.0.push(condvar);
    }

    /// Wakes the threads. The caller has released the lock, or holds it only to wait.
    pub(in crate::txn) fn deliver(self) {
        if broken(Broken::WakeupsDropped) {
            return;
        }
        self.0.into_iter().for_each(|condvar| condvar.notify_one());
    }
}

/// A transaction that waits for the sharers of a row, and the lock that it wants.
#[derive(Clone, Copy)]
pub(in crate::txn) struct RowClaim {
    pub(in crate::txn) writer: TxnId,
    pub(in crate::txn) wants: RowLock,
}

/// Everything that the manager's lock guards.
pub(in crate::txn) struct SharedState {
    /// The last commit number.
    pub(in crate::txn) csn: u64,
    next_txn: u64,
    pub(in crate::txn) running: BTreeMap<TxnId, ActiveTxn>,
    pub(in crate::txn) xids: AssignedXids,
    pub(in crate::txn) snapshots: SnapshotRegistry,
    /// Commit numbers that are neither among the recent outcomes nor on their pages.
    pub(in crate::txn) spills: Vec<Arc<CsnSpill>>,
    pub(in crate::txn) wakeups: DeferredWakeups,
    pub(in crate::txn) table_locks: TableLocks,
    pub(in crate::txn) multixacts: MultiXacts,
    pub(in crate::txn) restored: Restored,
    pub(in crate::txn) row_queues: BTreeMap<RowQueueId, RowWaitQueue>,
    pub(in crate::txn) next_row_queue: u64,
    pub(in crate::txn) row_claims: BTreeMap<RowVersion, Vec<RowClaim>>,
    /// Why no transaction may commit or wait any more.
    poisoned: Option<String>,
    /// No xid is assigned any more: the database is being closed.
    pub(in crate::txn) sealed: bool,
}

impl SharedState {
    /// No transaction runs; `xids` has the first xid, `csn` is the last commit number.
    pub(in crate::txn) fn new(xids: AssignedXids, csn: Csn) -> SharedState {
        SharedState {
            csn: csn.0,
            next_txn: 1,
            running: BTreeMap::new(),
            xids,
            snapshots: SnapshotRegistry::default(),
            spills: Vec::new(),
            wakeups: DeferredWakeups::default(),
            table_locks: TableLocks::default(),
            multixacts: MultiXacts::default(),
            restored: Restored::default(),
            row_queues: BTreeMap::new(),
            next_row_queue: 0,
            row_claims: BTreeMap::new(),
            poisoned: None,
            sealed: false,
        }
    }

    /// Adds a running transaction.
    pub(in crate::txn) fn begin(&mut self, isolation: Isolation, started: Nanos) -> TxnId {
        let id = TxnId(self.next_txn);
        self.next_txn += 1;
        let running = ActiveTxn {
            isolation,
            started,
            first_xid: None,
            prepared: false,
            wait: None,
            condvar: Arc::new(Condvar::new()),
            waiters: Vec::new(),
            granted_queue: None,
            newest: None,
            anchor: None,
            claimed_row: None,
            sharers_behind: Vec::new(),
            locked_tables: Vec::new(),
            multixacts: BTreeSet::new(),
        };
        self.running.insert(id, running);
        id
    }

    /// Removes a transaction that owned `xids`: with its xids and locks, and from the graph of
    /// waits. Wakes the transactions that waited for it.
    pub(in crate::txn) fn end(&mut self, id: TxnId, xids: &XidSet, committed: bool) {
        self.decline_row(id);
        self.release_claim(id);
        let ended = self.running.remove(&id).expect("a transaction ends once");
        assert!(ended.wait.is_none(), "a transaction that waits cannot end");
        assert!(ended.anchor.is_none(), "an anchor is taken when the wait is over");
        self.xids.release(ended.first_xid, xids);
        self.restored.forget(id);
        self.release_multixacts(ended.multixacts, xids, committed);
        self.wake_waiters(ended.waiters);
        for table in ended.locked_tables {
            self.table_locks.release(id, table).into_iter().for_each(|granted| self.wake(granted));
        }
    }

    /// The running transaction `id`.
    pub(in crate::txn) fn txn(&mut self, id: TxnId) -> &mut ActiveTxn {
        self.running.get_mut(&id).expect("a transaction is listed until it has ended")
    }

    /// Assigns the next `len` xids to `id`.
    pub(in crate::txn) fn assign_xids(&mut self, id: TxnId, len: u64) -> Arc<XidRun> {
        let its_first = self.txn(id).first_xid.is_none();
        let run = self.xids.assign(id, len, its_first);
        if its_first {
            self.txn(id).first_xid = Some(run.start());
        }
        run
    }

    /// Gives a run of the process before to `id`, which is restored.
    pub(in crate::txn) fn adopt_run(&mut self, id: TxnId, run: &Arc<XidRun>) {
        let its_first = self.txn(id).first_xid.is_none();
        self.xids.adopt(id, run, its_first);
        if its_first {
            self.txn(id).first_xid = Some(run.start());
        }
    }

    /// Does a transaction that has written run, and is not prepared?
    pub(in crate::txn) fn has_writer(&self) -> bool {
        self.running.values().any(|txn| txn.first_xid.is_some() && !txn.prepared)
    }

    /// Every xid below is finished and every registered snapshot sees its outcome.
    pub(in crate::txn) fn horizon(&self) -> u64 {
        let finished = self.xids.finished_below();
        match self.snapshots.oldest_xmin() {
            Some(oldest) if !broken(Broken::HorizonIgnoresSnapshots) => oldest.min(finished),
            _ => finished,
        }
    }

    /// The point of a snapshot of now.
    pub(in crate::txn) fn now(&self) -> SnapshotPoint {
        SnapshotPoint { csn: self.csn, xmin: self.xids.finished_below() }
    }

    /// Registers a snapshot of now for the transaction `by`.
    pub(in crate::txn) fn register(&mut self, by: TxnId) -> SnapshotPoint {
        let now = self.now();
        self.register_at(now, by);
        now
    }

    /// Registers a snapshot at `point` for the transaction `by`.
    pub(in crate::txn) fn register_at(&mut self, point: SnapshotPoint, by: TxnId) {
        let running = &self.running;
        let since = || running.get(&by).map_or(Nanos(0), |txn| txn.started);
        self.snapshots.register(point, by, since);
    }

    /// Ends one registration at the commit number `csn`.
    pub(in crate::txn) fn deregister(&mut self, csn: u64) -> PointUse {
        self.snapshots.deregister(csn)
    }

    /// Ends the wait of `id`: it has what it waited for. The wake-up is deferred.
    pub(in crate::txn) fn wake(&mut self, id: TxnId) {
        let waiter = self.txn(id);
        assert!(waiter.wait.take().is_some(), "only a transaction that waits is woken");
        let condvar = Arc::clone(&waiter.condvar);
        self.wakeups.push(condvar);
    }

    /// Wakes the waiters for xids of `id` that are aborted now, in the order of arrival.
    pub(in crate::txn) fn wake_for_aborted(&mut self, id: TxnId, xids: &XidSet) {
        let waiters = std::mem::take(&mut self.txn(id).waiters);
        let is_over = |waiter: &Waiter| {
            xids.find(waiter.xid.0).is_some_and(|run| run.is_aborted(waiter.xid.0))
        };
        let (over, rest) = waiters.into_iter().partition(is_over);
        self.txn(id).waiters = rest;
        self.wake_waiters(over);
    }

    /// Fails if no more work may begin.
    pub(in crate::txn) fn check_healthy(&self) -> Result<()> {
        match &self.poisoned {
            Some(why) => Err(Error::Poisoned(why.clone())),
            None => Ok(()),
        }
    }

    /// Refuses all later work, and wakes all waiting transactions so that they see it.
    pub(in crate::txn) fn poison(&mut self, why: &str) {
        self.poisoned.get_or_insert_with(|| why.to_string());
        self.running.values().for_each(|txn| txn.condvar.notify_all());
    }
}
