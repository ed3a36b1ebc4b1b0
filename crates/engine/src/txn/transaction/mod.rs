//! [`Transaction`]: its statements, savepoints and end.
//!
//! Each statement that writes has an xid of its own, so a failed statement or a rolled-back
//! savepoint is a set of aborted xids and needs no undo. A transaction goes on after any statement
//! error, also under snapshot isolation: the effects of the statement are gone.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | statements and their snapshots, xids, savepoints, commit and rollback |
//! | `wait` | waiting for other transactions, table locks, cancel |
//! | `row_locks` | multixacts of the rows that it locks together with others |
//! | `prepare` | a transaction that is prepared, and decided later |
//!
//! Invariants: xids are used in ascending order; `used` is the one after the last. The own bound of
//! a snapshot is `used` when it was taken.
//! Does not do: rows; what to do about a conflict.

pub(in crate::txn) mod prepare;
pub(in crate::txn) mod row_locks;
pub(in crate::txn) mod wait;

use std::time::Duration;

use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::ids::{Lsn, ObjectId, RowId, Xid};
use crate::txn::lock::prepared::SharedRows;
use crate::txn::lock::row_lock::RowVersion;
use crate::txn::lock::state::Isolation;
use crate::txn::lock::table_lock::ModeSet;
use crate::txn::manager::TxnManager;
use crate::txn::manager::commit::EndingTxn;
use crate::txn::snapshot::Snapshot;
use crate::txn::snapshot::registered::{RegisteredSnapshot, SnapshotHold};
use crate::txn::transaction::row_locks::LastMultiXact;
use crate::txn::xid::TxnId;
use crate::txn::xid::set::{MAX_RUN, XidSet};

/// Position to roll back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint(pub u64);

/// A savepoint that is set: its number, and the first xid after it.
#[derive(Clone, Copy)]
struct ActiveSavepoint {
    number: u64,
    first_xid: u64,
}

/// Snapshots that do not expire while a statement writes.
pub struct WriteHolds {
    _statement: SnapshotHold,
    _handed_out: Option<SnapshotHold>,
}

/// A running transaction. Owned and `Send`; dropping it rolls it back.
pub struct Transaction {
    manager: Arc<TxnManager>,
    id: TxnId,
    isolation: Isolation,
    xids: Arc<XidSet>,
    used: u64,
    statement: Option<Xid>,
    statement_start: u64,
    /// The last statement that changed rows which an earlier one had locked; 0: none.
    kept_locks_of: AtomicU64,
    last_multixact: Option<LastMultiXact>,
    /// Under snapshot isolation, the snapshot that all statements read by.
    registered: Option<Arc<RegisteredSnapshot>>,
    /// The snapshot of the last statement, while the next one's would be the same.
    last_snapshot: Option<Arc<Snapshot>>,
    /// The snapshot of the last statement that gave row ids to the caller: they name their rows
    /// for as long as it is registered (R3, R9).
    handed_out: Option<Arc<RegisteredSnapshot>>,
    /// The only row whose id that statement gave out.
    only_row: Option<RowVersion>,
    /// Where that row is now, if the version with the id may be gone.
    moved_to: Option<RowId>,
    savepoints: Vec<ActiveSavepoint>,
    next_savepoint: u64,
    table_locks: Vec<(ObjectId, ModeSet)>,
    lock_timeout: Option<Duration>,
    cancelled: Arc<AtomicBool>,
    /// A queue may wait for it to write or decline a row: [`Transaction::finish_row_wait`].
    may_have_grant: bool,
    /// It has claimed a row.
    has_claim: bool,
    snapshots_may_expire: bool,
    /// Locks of rows that it took and that others may share.
    shared_rows: Option<SharedRows>,
    /// Has it changed definitions?
    defines: bool,
    ended: bool,
}

impl TxnManager {
    /// Starts a transaction. No xid is taken before its first write.
    pub fn begin(self: &Arc<Self>, isolation: Isolation) -> Transaction {
        let id = self.state.lock().begin(isolation, self.options.clock.now());
        Transaction::new(Arc::clone(self), id, isolation)
    }
}

impl Transaction {
    /// The transaction that the manager lists as `id`.
    fn new(manager: Arc<TxnManager>, id: TxnId, isolation: Isolation) -> Transaction {
        let lock_timeout = manager.options.lock_timeout;
        Transaction {
            manager,
            id,
            isolation,
            xids: Arc::default(),
            used: 0,
            statement: None,
            statement_start: 0,
            kept_locks_of: AtomicU64::new(0),
            last_multixact: None,
            registered: None,
            last_snapshot: None,
            handed_out: None,
            only_row: None,
            moved_to: None,
            savepoints: Vec::new(),
            next_savepoint: 1,
            table_locks: Vec::new(),
            lock_timeout,
            cancelled: Arc::default(),
            may_have_grant: false,
            has_claim: false,
            snapshots_may_expire: false,
            shared_rows: None,
            defines: false,
            ended: false,
        }
    }

    /// From now on the snapshots of its statements may expire. A reader calls [`Snapshot::check`]
    /// before it believes the rows that it read, and a statement holds them while it writes.
    pub fn let_snapshots_expire(&mut self) {
        self.snapshots_may_expire = true;
    }

    /// Begins a statement: its reads see the snapshot given back, its writes carry a new xid.
    pub fn begin_statement(&mut self) -> Result<Arc<Snapshot>> {
        self.check_cancelled()?;
        self.forget_kept_locks();
        self.statement = None;
        self.statement_start = self.used;
        let may_expire = self.snapshots_may_expire;
        let take = || RegisteredSnapshot::take(&self.manager, self.id, may_expire);
        let registered = match self.isolation {
            Isolation::ReadCommitted => take(),
            Isolation::Snapshot => Arc::clone(self.registered.get_or_insert_with(take)),
        };
        registered.check()?;
        if let Some(last) = &self.last_snapshot
            && last.is_same(&registered, self.used)
        {
            return Ok(Arc::clone(last));
        }
        let snapshot = Snapshot::new(registered, Arc::clone(&self.xids), self.used);
        if self.isolation == Isolation::ReadCommitted {
            return Ok(Arc::new(snapshot));
        }
        let snapshot = Arc::new(snapshot.repeatable());
        self.last_snapshot = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// As [`Transaction::begin_statement`], for a statement that gives row ids to the caller. They
    /// are good until the next such statement, under snapshot isolation for the whole transaction.
    pub fn begin_read(&mut self) -> Result<Arc<Snapshot>> {
        let snapshot = self.begin_statement()?;
        self.handed_out = Some(Arc::clone(snapshot.registered()));
        (self.only_row, self.moved_to) = (None, None);
        Ok(snapshot)
    }

    /// Keeps `snapshot`, and the one that gave out row ids, from expiring while a statement writes.
    /// Fails if one has expired: a row id of the latter might name another row.
    pub fn hold(&self, snapshot: &Snapshot) -> Result<WriteHolds> {
        let handed_out = self.handed_out.as_ref().map(RegisteredSnapshot::hold).transpose()?;
        let statement = RegisteredSnapshot::hold(snapshot.registered())?;
        Ok(WriteHolds { _statement: statement, _handed_out: handed_out })
    }

    /// What the last [`Transaction::begin_read`] saw of a version that `creator` created: own later
    /// changes of that version do not count. `None` if there was no such statement and the creator
    /// is not an own statement.
    pub fn snapshot_of(&self, creator: Xid) -> Option<Snapshot> {
        let own = self.owns(creator);
        let registered = match &self.handed_out {
            Some(registered) => Arc::clone(registered),
            None if own => RegisteredSnapshot::take(&self.manager, self.id, false),
            None => return None,
        };
        let own_bound = if own { creator.0 + 1 } else { 0 };
        Some(Snapshot::new(registered, Arc::clone(&self.xids), own_bound))
    }

    /// Will the next statement see the work of `xid`, which has committed or is its own? Not if the
    /// snapshot of the whole transaction is older.
    pub fn will_see(&self, xid: Xid) -> Result<bool> {
        let Some(registered) = self.registered.as_ref().filter(|_| !self.owns(xid)) else {
            return Ok(true);
        };
        let snapshot = Snapshot::new(Arc::clone(registered), Arc::clone(&self.xids), 0);
        Ok(xid < snapshot.xmin() || snapshot.sees(xid)?)
    }

    /// A snapshot of now, whatever the isolation level: index builds must see every row there is.
    pub fn latest_snapshot(&self) -> Arc<Snapshot> {
        let registered = RegisteredSnapshot::take(&self.manager, self.id, false);
        Arc::new(Snapshot::new(registered, Arc::clone(&self.xids), self.used))
    }

    /// The xid of the current statement, taken on first use. May read and write status pages: the
    /// caller holds no latch (R7).
    pub fn xid(&mut self) -> Result<Xid> {
        if let Some(xid) = self.statement {
            return Ok(xid);
        }
        let xid = self.next_xid()?;
        self.statement = Some(xid);
        Ok(xid)
    }

    /// An own xid that was not used before.
    fn next_xid(&mut self) -> Result<Xid> {
        if self.used == self.xids.end() {
            let runs = self.xids.runs().len();
            // Most transactions write in one statement or a few: two runs are enough for those.
            let len = if runs == 0 { 1 } else { 1 << (runs + 1).min(MAX_RUN.ilog2() as usize) };
            let run = self.manager.assign_xids(self.id, len)?;
            self.used = run.start();
            self.last_snapshot = None;
            Arc::make_mut(&mut self.xids).push(run);
        }
        let xid = Xid(self.used);
        assert!(self.xids.find(xid.0).is_some(), "used xids are own ones");
        self.used += 1;
        Ok(xid)
    }

    /// Undoes the current statement: its xid is aborted.
    pub fn rollback_statement(&mut self) {
        self.abort_from(self.statement_start);
    }

    /// Does the transaction own `xid`, and is that not aborted?
    pub fn owns(&self, xid: Xid) -> bool {
        xid.0 < self.used && self.xids.find(xid.0).is_some_and(|run| !run.is_aborted(xid.0))
    }

    /// Marks a position. Later writes of the current statement carry another xid.
    pub fn savepoint(&mut self) -> Savepoint {
        self.statement = None;
        let number = self.next_savepoint;
        self.next_savepoint += 1;
        self.savepoints.push(ActiveSavepoint { number, first_xid: self.used });
        Savepoint(number)
    }

    /// Aborts every statement since `to`; the savepoint itself stays, later ones are gone. Locks
    /// stay.
    pub fn rollback_to(&mut self, to: Savepoint) -> Result<()> {
        let at = self.find_savepoint(to)?;
        self.savepoints.truncate(at + 1);
        self.abort_from(self.savepoints[at].first_xid);
        Ok(())
    }

    /// Forgets `to` and later savepoints; the work since then stays.
    pub fn release(&mut self, to: Savepoint) -> Result<()> {
        let at = self.find_savepoint(to)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    fn find_savepoint(&self, to: Savepoint) -> Result<usize> {
        let found = self.savepoints.binary_search_by_key(&to.0, |savepoint| savepoint.number);
        found.map_err(|_| Error::Invalid(format!("savepoint {} does not exist", to.0)))
    }

    /// Aborts own xids at and above `bound`.
    fn abort_from(&mut self, bound: u64) {
        assert!(bound <= self.used, "a bound lies in the past");
        self.statement = None;
        self.manager.abort_statements(&self.ending(), bound..self.used);
    }

    /// The xids of the transaction, for the manager.
    fn ending(&self) -> EndingTxn<'_> {
        EndingTxn { id: self.id, xids: &self.xids, used: self.used, defines: self.defines }
    }

    /// Notes that it changes definitions.
    pub fn note_definitions(&mut self) {
        self.defines = true;
    }

    /// The number of the last commit that changed definitions. A snapshot that is taken later sees
    /// that commit, and while the number stays the same no other. `None`: it has changed some.
    pub fn definitions_version(&self) -> Option<u64> {
        (!self.defines).then(|| self.manager.definitions_version())
    }

    /// A handle by which another thread ends the waits of this transaction.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle {
            manager: Arc::clone(&self.manager),
            id: self.id,
            cancelled: Arc::clone(&self.cancelled),
        }
    }

    /// Its isolation level.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Its number in this process, as in [`TxnManager::running`].
    pub fn id(&self) -> u64 {
        self.id.0
    }

    /// Its manager.
    pub fn manager(&self) -> &Arc<TxnManager> {
        &self.manager
    }

    /// Commits: one log record; durable before it is visible unless `relaxed`. Returns the record's
    /// end, `Lsn(0)` if there was nothing to commit.
    pub fn commit(mut self, relaxed: bool) -> Result<Lsn> {
        self.ended = true;
        self.manager.commit(&self.ending(), relaxed)
    }

    /// Rolls back, as dropping does.
    pub fn rollback(self) {}
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.ended {
            self.manager.abort(&self.ending());
        }
    }
}

/// Ends the waits of a transaction from another thread: made by
/// [`Transaction::cancel_handle`](crate::Transaction::cancel_handle).
///
/// ```
/// # use rightlink::{TableSchema, Type, Value};
/// use rightlink::Error;
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # txn.commit()?;
/// let mut txn = db.begin();
/// let handle = txn.cancel_handle();
/// std::thread::spawn(move || handle.cancel()).join().unwrap();
/// let stopped = txn.insert("n", &[Value::Int8(1), Value::Int8(10)]);
/// assert!(matches!(stopped, Err(Error::Cancelled(_))));
/// txn.clear_cancel();
/// txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CancelHandle {
    manager: Arc<TxnManager>,
    id: TxnId,
    cancelled: Arc<AtomicBool>,
}

impl CancelHandle {
    /// The transaction's number in this process.
    pub fn transaction(&self) -> u64 {
        self.id.0
    }

    /// Cancels: the present wait fails with [`Error::Cancelled`], and so does every wait and
    /// statement from here on until [`Transaction::clear_cancel`]. Nothing happens if the
    /// transaction has ended.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.manager.wake_cancelled(self.id);
    }
}
