//! [`TxnManager`]: all transactions of an open database.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | settings, opening, the bounds that are read without the lock |
//! | `allocate` | assigning xids, and the ceiling that the log knows |
//! | `commit` | commit, abort and rollback of statements |
//! | `outcome` | the outcome of an xid, wherever it is kept |
//! | `truncate` | forgetting old outcomes and removing their segments |
//! | `wait` | blocking: time limits and cancel; table locks |
//! | `restore` | prepared transactions of an earlier process |
//! | `row_locks` | multixacts and claims of rows |
//! | `monitor` | running transactions, locks, snapshots and counters, for people |
//! | `dead_hints`, `helper_threads` | settings and resources that all transactions share |
//!
//! Invariants: `horizon` and `finished_below` never go back. Both change under the lock only; they
//! may lag behind the truth and never run ahead of it. (While a database is opened, they go back to
//! the first xid of a prepared transaction.)
//! Does not do: threads, statement retries.

pub(in crate::txn) mod allocate;
pub(in crate::txn) mod commit;
pub(in crate::txn) mod dead_hints;
pub(in crate::txn) mod helper_threads;
pub(in crate::txn) mod monitor;
pub(in crate::txn) mod outcome;
pub(in crate::txn) mod restore;
pub(in crate::txn) mod row_locks;
pub(in crate::txn) mod truncate;
pub(in crate::txn) mod wait;

use std::time::Duration;

use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use rightlink_env::{Clock, Logger, Nanos};

use crate::buffer::BufferPool;
use crate::error::{ConflictKind, Error, Result};
use crate::ids::Xid;
use crate::txn::lock::state::SharedState;
use crate::txn::lock::wakeup::StateLock;
use crate::txn::manager::allocate::Ceiling;
use crate::txn::manager::dead_hints::{DeadHintSetting, DeadHints};
use crate::txn::manager::helper_threads::HelperThreads;
use crate::txn::status::CSN_OLD;
use crate::txn::status::durable::DurableCommits;
use crate::txn::status::file::{PooledStatus, StatusFile};
use crate::txn::status::recent::RecentOutcomes;
use crate::txn::status::segment::MAX_XID;
use crate::txn::xid::assigned::AssignedXids;
use crate::txn::xid::set::{MAX_RUN, XidSet};

/// Settings of the manager.
#[derive(Clone, Debug)]
pub struct TxnOptions {
    /// Where start times and timeouts come from.
    pub clock: Clock,
    /// Gets a message about each long wait.
    pub logger: Logger,
    /// How long a transaction waits for another unless it says otherwise; `None`: without end.
    pub lock_timeout: Option<Duration>,
    /// How long a snapshot may hold garbage back before its reads fail; `None`: for ever.
    pub max_snapshot_age: Option<Duration>,
    /// Threads that may help statements at once, all statements together.
    pub helper_threads: usize,
    /// Xids whose outcome is kept in memory: a power of two, at least 2,048. Eight bytes each.
    pub recent_xids: usize,
}

impl Default for TxnOptions {
    fn default() -> Self {
        TxnOptions {
            clock: Clock::system(),
            logger: Logger::silent(),
            lock_timeout: None,
            max_snapshot_age: None,
            helper_threads: 0,
            recent_xids: if cfg!(feature = "shuttle") { 64 } else { 1 << 17 },
        }
    }
}

/// The counters behind [`TxnCounters`](monitor::TxnCounters).
#[derive(Default)]
pub(in crate::txn) struct AtomicCounters {
    pub(in crate::txn) commits: AtomicU64,
    pub(in crate::txn) aborts: AtomicU64,
    pub(in crate::txn) conflicts: AtomicU64,
    pub(in crate::txn) locked: AtomicU64,
    pub(in crate::txn) deadlocks: AtomicU64,
    pub(in crate::txn) waits: AtomicU64,
    pub(in crate::txn) waited_nanos: AtomicU64,
    pub(in crate::txn) given_up: AtomicU64,
}

/// Counts one event.
pub(in crate::txn) fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// All transactions of an open database.
pub struct TxnManager {
    pub(in crate::txn) file: Box<dyn StatusFile>,
    pub(in crate::txn) options: TxnOptions,
    pub(in crate::txn) state: StateLock,
    recent: RecentOutcomes,
    durable_commits: DurableCommits,
    counters: AtomicCounters,
    /// First xid of this process: commit numbers on the pages of earlier ones mean nothing.
    opened_at: u64,
    /// First xid whose outcome is kept.
    oldest: AtomicU64,
    pub(in crate::txn) finished_below: AtomicU64,
    /// How many spills the shared state lists.
    spill_count: AtomicU64,
    /// Held while a thread spills.
    spilling: Mutex<()>,
    dead_hints: DeadHintSetting,
    helper_threads: HelperThreads,
    next: AtomicU64,
    /// Number of the last commit that changed definitions, set before a snapshot can see it.
    definitions: AtomicU64,
    horizon: AtomicU64,
    ceiling: Mutex<Ceiling>,
    /// Xids of transactions that were prepared when the database was opened.
    restored: Mutex<Vec<Arc<XidSet>>>,
    has_restored: AtomicBool,
}

impl TxnManager {
    /// Creates the status file of a new database, whose first xid is `first`. The caller makes the
    /// log durable before anything says that the database exists.
    pub fn create(pool: &Arc<BufferPool>, first: Xid) -> Result<()> {
        assert!((Xid::FIRST.0..MAX_XID).contains(&first.0), "an xid that can be assigned");
        PooledStatus::create(pool, first.0).map(|_| ())
    }

    /// Opens over the status file; every xid below `next` that has no commit is aborted.
    pub fn open_with(pool: Arc<BufferPool>, next: Xid, options: TxnOptions) -> Result<Arc<Self>> {
        Self::open_over(Box::new(PooledStatus::open(pool)?), next, options)
    }

    /// Opens over any status file.
    pub(in crate::txn) fn open_over(
        file: Box<dyn StatusFile>,
        next: Xid,
        options: TxnOptions,
    ) -> Result<Arc<Self>> {
        assert!(options.recent_xids as u64 >= 2 * MAX_RUN, "two runs of xids are recent");
        let meta = file.meta()?;
        let next = next.0.max(meta.limit).max(Xid::FIRST.0);
        if next > MAX_XID {
            let what = format!("xid {next} is to be handed out next, but xids end at {MAX_XID}");
            return Err(Error::corrupt_file("control", what));
        }
        let xids = AssignedXids::new(next, meta.limit);
        let manager = Arc::new(TxnManager {
            recent: RecentOutcomes::new(options.recent_xids, next),
            state: StateLock::new(SharedState::new(xids, CSN_OLD)),
            ceiling: Mutex::new(Ceiling::new(meta)),
            file,
            helper_threads: HelperThreads::new(options.helper_threads),
            options,
            durable_commits: DurableCommits::new(),
            counters: AtomicCounters::default(),
            opened_at: next,
            oldest: AtomicU64::new(meta.oldest),
            finished_below: AtomicU64::new(next),
            spill_count: AtomicU64::new(0),
            spilling: Mutex::new(()),
            dead_hints: DeadHintSetting::default(),
            next: AtomicU64::new(next),
            definitions: AtomicU64::new(0),
            horizon: AtomicU64::new(next),
            restored: Mutex::default(),
            has_restored: AtomicBool::new(false),
        });
        manager.warn_if_few_are_left(next);
        Ok(manager)
    }

    /// Is the commit record of the committed `xid` durable (R1)? One load when everything is.
    pub fn is_durable(&self, xid: Xid) -> bool {
        self.durable_commits.is_durable(xid.0, || self.file.durable())
    }

    /// Threads that may help statements.
    pub(crate) fn helper_threads(&self) -> &HelperThreads {
        &self.helper_threads
    }

    /// Longest wait for a lock, if nothing else was asked for.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.options.lock_timeout
    }

    /// What scans do about the index entries of dead rows.
    pub(crate) fn dead_hints(&self) -> DeadHints {
        self.dead_hints.get()
    }

    /// From now on they do as `hints` says.
    #[cfg(feature = "experiments")]
    pub fn set_dead_hints(&self, hints: DeadHints) {
        self.dead_hints.set(hints);
    }

    /// Every xid below is finished, and every live snapshot sees its outcome. A version whose
    /// deleter is committed and below is dead to everyone.
    pub fn horizon(&self) -> Xid {
        Xid(self.horizon.load(Ordering::Acquire))
    }

    /// The number of the last commit of this process that changed definitions; 0: none did.
    pub(in crate::txn) fn definitions_version(&self) -> u64 {
        self.definitions.load(Ordering::Acquire)
    }

    /// First xid not assigned yet.
    pub fn next_xid(&self) -> Xid {
        Xid(self.next.load(Ordering::Acquire))
    }

    /// First xid whose outcome is kept.
    pub fn oldest_xid(&self) -> Xid {
        Xid(self.oldest.load(Ordering::Acquire))
    }

    /// Lets snapshots expire that are older than the options allow; returns how many.
    pub fn expire_snapshots(&self) -> usize {
        let Some(limit) = self.options.max_snapshot_age else { return 0 };
        let now = self.options.clock.now();
        let before = Nanos(now.0.saturating_sub(limit.as_nanos() as u64));
        let mut state = self.state.lock();
        let expired = state.snapshots.expire(before);
        if expired > 0 {
            self.publish_bounds(&state);
        }
        expired
    }

    /// Counts a conflict where it is found, and hands it back; deadlocks are counted already.
    pub fn count_conflict(&self, error: Error) -> Error {
        match &error {
            Error::Conflict { kind: ConflictKind::Serialization, .. } => {
                increment(&self.counters.conflicts);
            }
            Error::Conflict { kind: ConflictKind::RowLocked, .. } => {
                increment(&self.counters.locked);
            }
            _ => {}
        }
        error
    }

    /// Publishes the bounds that may have moved with `state`.
    pub(in crate::txn) fn publish_bounds(&self, state: &SharedState) {
        let (finished, horizon) = (state.xids.finished_below(), state.horizon());
        let before = self.finished_below.swap(finished, Ordering::AcqRel);
        assert!(before <= finished, "what is finished stays finished");
        let before = self.horizon.swap(horizon, Ordering::AcqRel);
        assert!(before <= horizon, "the horizon never goes back");
    }
}
