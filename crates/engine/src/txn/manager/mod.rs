//! All transactions of an open database: begin, xids, horizon, what is running.
//!
//! Xids are handed out in runs of 1, 2, 4 .. 1024 to one transaction; what it does not use is
//! aborted when it ends. The ceiling on disk ("limit") is raised in steps that double from 1,024 to
//! 65,536 xids, by a log record that precedes every record of an xid below it (see `status`);
//! opening starts at the ceiling. [`TxnManager::seal`] lowers it at a clean close, so that opening
//! often costs no xids. Xids end at [`MAX_XID`]: from [`FEW_LEFT`] on that is logged, and at the
//! end statements that write are refused.
//!
//! Invariants: `horizon` and `finished_below` never go back; both are changed under the lock only
//! and may lag behind the truth; they never run ahead of it.
//! Does not do: threads, statement retries.

pub(in crate::txn) mod commit;
pub(in crate::txn) mod dead_hints;
pub(in crate::txn) mod helper_threads;
pub(in crate::txn) mod outcome;
pub(in crate::txn) mod wait;

use std::time::Duration;

use rightlink_env::sync::{Arc, AtomicU64, Mutex, Ordering};
use rightlink_env::{Clock, Logger, Nanos};

use crate::buffer::BufferPool;
use crate::error::{ConflictKind, Error, Result};
use crate::ids::{Csn, FileId, ObjectId, Xid};
use crate::txn::lock::state::{Running, State, TxnId, Wait};
use crate::txn::lock::table_lock::LockMode;
use crate::txn::lock::wakeup::{StateGuard, StateLock};
use crate::txn::manager::dead_hints::DeadHints;
use crate::txn::manager::helper_threads::Helpers;
use crate::txn::manager::outcome::CSN_OLD;
use crate::txn::snapshot::SnapshotSet;
use crate::txn::status::file::{Meta, PooledStatus, StatusFile};
use crate::txn::status::recent::{DurableCommits, StatusRing};
use crate::txn::status::segment::{self, MAX_XID};
use crate::txn::transaction::{Isolation, Transaction};
use crate::txn::xid::set::{MAX_RUN, Run};

/// Settings of the manager.
#[derive(Clone, Debug)]
pub struct TxnOptions {
    /// Where start times and timeouts come from.
    pub clock: Clock,
    /// Who is told of long waits.
    pub logger: Logger,
    /// How long a transaction waits for another unless it says otherwise; `None`: without end.
    pub lock_timeout: Option<Duration>,
    /// How long a snapshot may hold garbage back before its reads fail; `None`: for ever.
    pub max_snapshot_age: Option<Duration>,
    /// Threads that may help statements at once, all statements together.
    pub helpers: usize,
    /// Xids whose outcome is kept in memory: a power of two, at least 2,048. Eight bytes each.
    pub ring: usize,
}

impl Default for TxnOptions {
    fn default() -> Self {
        let ring = if cfg!(feature = "shuttle") { 64 } else { 1 << 17 };
        let (clock, logger) = (Clock::system(), Logger::silent());
        let (lock_timeout, max_snapshot_age) = (None, None);
        TxnOptions { clock, logger, lock_timeout, max_snapshot_age, helpers: 0, ring }
    }
}

/// Events since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxnCounters {
    /// Transactions that committed, read-only ones included.
    pub commits: u64,
    /// Transactions that rolled back.
    pub aborts: u64,
    /// Rows that turned out to be changed by another transaction.
    pub conflicts: u64,
    /// Rows that another transaction had, and that were not to be waited for.
    pub locked: u64,
    /// Waits refused because they would have closed a ring.
    pub deadlocks: u64,
    /// Waits for another transaction or a table lock.
    pub waits: u64,
    /// Time that those took that are over.
    pub waited: Duration,
    /// Waits that were given up: timeouts and requests to cancel.
    pub given_up: u64,
}

/// A lock that is held or waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockState {
    /// Of what.
    pub what: LockTarget,
    /// Number of the transaction that holds it or waits.
    pub transaction: u64,
    /// How strong.
    pub mode: LockMode,
    /// Held, or waited for?
    pub granted: bool,
    /// Numbers of the transactions that are waited for.
    pub blocked_by: Vec<u64>,
}

/// What a lock is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockTarget {
    /// A table.
    Table(ObjectId),
    /// The end of the transaction with this number, for a row that it has.
    Transaction(u64),
}

/// A running transaction, for people.
#[derive(Clone, Debug)]
pub struct RunningTxn {
    /// Number in this process.
    pub id: u64,
    /// Its first xid, if it has written.
    pub xid: Option<Xid>,
    /// When it began, by the manager's clock.
    pub started: Nanos,
    /// Its isolation level.
    pub isolation: Isolation,
    /// What it waits for now.
    pub waits_for: Option<WaitsFor>,
}

/// Snapshots that hold garbage back, for people: those taken between the same two commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveSnapshot {
    /// The transaction that took the first of them.
    pub id: u64,
    /// When that began, by the manager's clock.
    pub since: Nanos,
    /// How many there are.
    pub count: usize,
    /// Commits that they do not see.
    pub commits_since: u64,
    /// Rows that xids from this one on ended stay, unless no snapshot sees them.
    pub xmin: Xid,
}

/// What a transaction waits for, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitsFor {
    /// The end of the transaction with the number `id`, or of its statement `xid`.
    Transaction {
        /// The awaited xid; none if the two want to write the same row, and the other one goes
        /// first.
        xid: Xid,
        /// Number of its transaction.
        id: u64,
    },
    /// A table lock.
    Table {
        /// The table.
        table: ObjectId,
        /// The mode asked for.
        mode: LockMode,
    },
}

/// The counters behind [`TxnCounters`].
#[derive(Default)]
pub(in crate::txn) struct Counters {
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
pub(in crate::txn) fn bump(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The meta page as last written, and how far the next raise goes.
struct Ceiling {
    meta: Meta,
    step: u64,
}

/// Most entries of the late list while xids are handed out: numbers that cannot be written stay in
/// memory, and so bound what may follow.
const MAX_LATE: usize = 8;
const MIN_STEP: u64 = 1 << 10;
const MAX_STEP: u64 = 1 << 16;
/// When so few xids are left, the log is told so: 17 years at a million a second.
const FEW_LEFT: u64 = MAX_XID / 16;
/// It is told again whenever this many more were used.
const TOLD_EVERY: u64 = FEW_LEFT / 1024;

/// All transactions of an open database.
pub struct TxnManager {
    pub(in crate::txn) file: Box<dyn StatusFile>,
    pub(in crate::txn) options: TxnOptions,
    pub(in crate::txn) state: StateLock,
    pub(in crate::txn) ring: StatusRing,
    pub(in crate::txn) durable_commits: DurableCommits,
    pub(in crate::txn) counters: Counters,
    /// First xid of this process: commit numbers on the pages of earlier ones mean nothing.
    pub(in crate::txn) opened_at: u64,
    pub(in crate::txn) oldest: AtomicU64,
    pub(in crate::txn) finished_below: AtomicU64,
    pub(in crate::txn) late_count: AtomicU64,
    pub(in crate::txn) spilling: Mutex<()>,
    dead_hints: dead_hints::Setting,
    helpers: Helpers,
    next: AtomicU64,
    horizon: AtomicU64,
    ceiling: Mutex<Ceiling>,
}

impl TxnManager {
    /// Creates the status file of a new database, whose first xid is `first`. The caller makes the
    /// log durable before anything says that the database exists.
    pub fn create(pool: &Arc<BufferPool>, first: Xid) -> Result<()> {
        assert!((Xid::FIRST.0..MAX_XID).contains(&first.0), "an xid that can be handed out");
        PooledStatus::create(pool, first.0).map(|_| ())
    }

    /// Opens over the status file; every xid below `next` that has no commit is aborted.
    pub fn open(pool: Arc<BufferPool>, next: Xid) -> Result<Arc<Self>> {
        Self::open_with(pool, next, TxnOptions::default())
    }

    /// As [`TxnManager::open`], with settings.
    pub fn open_with(pool: Arc<BufferPool>, next: Xid, options: TxnOptions) -> Result<Arc<Self>> {
        Self::open_over(Box::new(PooledStatus::open(pool)?), next, options)
    }

    /// Opens over any status file.
    pub(in crate::txn) fn open_over(
        file: Box<dyn StatusFile>,
        next: Xid,
        options: TxnOptions,
    ) -> Result<Arc<Self>> {
        assert!(options.ring as u64 >= 2 * MAX_RUN, "the ring holds two runs");
        let meta = file.meta()?;
        let next = next.0.max(meta.limit).max(Xid::FIRST.0);
        if next > MAX_XID {
            let what = format!("xid {next} is to be handed out next, but xids end at {MAX_XID}");
            return Err(Error::corrupt_file("control", what));
        }
        let manager = Arc::new(TxnManager {
            ring: StatusRing::new(options.ring, next),
            state: StateLock::new(State::new(next, meta.limit, CSN_OLD)),
            ceiling: Mutex::new(Ceiling { meta, step: MIN_STEP }),
            file,
            helpers: Helpers::new(options.helpers),
            options,
            durable_commits: DurableCommits::new(),
            counters: Counters::default(),
            opened_at: next,
            oldest: AtomicU64::new(meta.oldest),
            finished_below: AtomicU64::new(next),
            late_count: AtomicU64::new(0),
            spilling: Mutex::new(()),
            dead_hints: dead_hints::Setting::default(),
            next: AtomicU64::new(next),
            horizon: AtomicU64::new(next),
        });
        manager.tell_if_few_are_left(next);
        Ok(manager)
    }

    /// Starts a transaction. No xid is taken before its first write.
    pub fn begin(self: &Arc<Self>, isolation: Isolation) -> Transaction {
        let id = self.state.lock().enter(isolation, self.options.clock.now());
        Transaction::new(Arc::clone(self), id, isolation)
    }

    /// Is the commit record of the committed `xid` durable (R1)? One load when everything is.
    pub fn is_durable(&self, xid: Xid) -> bool {
        self.durable_commits.is_durable(xid.0, || self.file.durable())
    }

    /// Threads that may help statements.
    pub(crate) fn helpers(&self) -> &Helpers {
        &self.helpers
    }

    /// Longest wait for a lock, if nothing else was asked for.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.options.lock_timeout
    }

    /// Do scans mark the index entries of dead rows?
    pub fn dead_hints(&self) -> DeadHints {
        self.dead_hints.get()
    }

    /// From now on they do as `hints` says.
    pub fn set_dead_hints(&self, hints: DeadHints) {
        self.dead_hints.set(hints);
    }

    /// Every xid below is finished, and every live snapshot sees its outcome. A version whose
    /// deleter is committed and below is dead to everyone.
    pub fn horizon(&self) -> Xid {
        Xid(self.horizon.load(Ordering::Acquire))
    }

    /// First xid not handed out yet.
    pub fn next_xid(&self) -> Xid {
        Xid(self.next.load(Ordering::Acquire))
    }

    /// First xid whose outcome is kept.
    pub fn oldest_xid(&self) -> Xid {
        Xid(self.oldest.load(Ordering::Acquire))
    }

    /// Xids that were handed out and whose outcomes are kept.
    pub fn xids_kept(&self) -> u64 {
        // In this order: the second one is never below the first.
        let oldest = self.oldest_xid().0;
        self.next_xid().0 - oldest
    }

    /// Xids that can still be handed out.
    pub fn xids_left(&self) -> u64 {
        MAX_XID - self.next_xid().0
    }

    /// The segments of the status file with outcomes that are kept.
    pub fn segments(&self) -> Vec<FileId> {
        // In this order: the bounds only rise, the second one is never below the first.
        let oldest = self.oldest_xid();
        segment::segments_of(oldest..Xid(self.state.lock().limit)).collect()
    }

    /// May the segment `file` be there after a clean close? One whose outcomes are not kept is
    /// removed behind the last checkpoint, one that was made ahead of its use when the database is
    /// opened.
    pub fn may_have_segment(&self, file: FileId) -> bool {
        let ahead = (self.next_xid().0 + MAX_RUN + MAX_STEP).min(MAX_XID - 1);
        file <= segment::segment_of(ahead)
    }

    /// Blocks at the beginning of `file` whose outcomes are not kept, if it is a segment of the
    /// status file; they may be there or not.
    pub fn blocks_not_kept(&self, file: FileId) -> u32 {
        if !segment::is_segment(file) {
            return 0;
        }
        let oldest = segment::page_id(self.oldest_xid().0);
        match oldest.file.cmp(&file) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => oldest.block.0,
            std::cmp::Ordering::Greater => u32::MAX,
        }
    }

    /// The last commit number given out.
    pub fn last_csn(&self) -> Csn {
        Csn(self.state.lock().csn)
    }

    /// What lives now, copied under the lock that registers snapshots (R9).
    pub fn live_snapshots(&self) -> SnapshotSet {
        let state = self.state.lock();
        let mut csns: Vec<Csn> = state.snapshots.keys().map(|csn| Csn(*csn)).collect();
        let mut xmins: Vec<Xid> = state.snapshots.values().map(|live| Xid(live.xmin)).collect();
        if csns.last() != Some(&Csn(state.csn)) {
            csns.push(Csn(state.csn));
            xmins.push(Xid(state.finished_below()));
        }
        SnapshotSet { csns, xmins, horizon: Xid(state.horizon()) }
    }

    /// Forgets outcomes below `below`: no row names an unfrozen xid below it any more. Logged;
    /// then their space goes back to the system.
    pub fn cut_off(&self, below: Xid) -> Result<()> {
        assert!(below <= self.horizon(), "only finished xids that everyone sees are forgotten");
        let mut ceiling = self.ceiling.lock();
        // The last one is kept, so that its segment stays: it goes on with the next xid.
        let oldest = below.0.min(self.next_xid().0 - 1);
        if oldest <= ceiling.meta.oldest {
            return Ok(());
        }
        let meta = Meta { oldest, ..ceiling.meta };
        self.file.set_meta(meta)?;
        let before = std::mem::replace(&mut ceiling.meta, meta).oldest;
        self.oldest.store(oldest, Ordering::Release);
        drop(ceiling);
        if segment::page_of(before) < segment::page_of(oldest) {
            self.file.forget(oldest)?;
        }
        Ok(())
    }

    /// Removes the segments of the status file that [`TxnManager::cut_off`] has left without an
    /// outcome that is kept. The control file says durably that none is kept below `below`.
    pub fn drop_segments(&self, below: Xid) -> Result<()> {
        assert!(below <= self.oldest_xid(), "segments go when their outcomes were forgotten");
        self.file.drop_segments(below.0)
    }

    /// Ends the handing out of xids and lowers the ceiling to the first one not handed out. For a
    /// clean close, before its checkpoint; nothing that writes may be running.
    pub fn seal(&self) -> Result<()> {
        let mut ceiling = self.ceiling.lock();
        let mut state = self.state.lock();
        if !state.firsts.is_empty() {
            return Err(Error::Invalid("transactions are still running".to_string()));
        }
        state.check_healthy()?;
        state.sealed = true;
        state.limit = state.next;
        let limit = state.next;
        drop(state);
        if ceiling.meta.limit != limit {
            let meta = Meta { limit, ..ceiling.meta };
            self.file.set_meta(meta)?;
            ceiling.meta = meta;
        }
        Ok(())
    }

    /// The running transactions, oldest first.
    pub fn running(&self) -> Vec<RunningTxn> {
        let state = self.state.lock();
        state.running.iter().map(|(id, txn)| describe(&state, *id, txn)).collect()
    }

    /// Numbers of the transactions that hold `mode` of `table`, or a mode that covers it.
    pub fn holders(&self, table: ObjectId, mode: LockMode) -> Vec<u64> {
        self.state.lock().locks.holders(table, mode).into_iter().map(|txn| txn.0).collect()
    }

    /// Table locks that are held, and everything that is waited for.
    pub fn locks(&self) -> Vec<LockState> {
        let state = self.state.lock();
        let mut all = Vec::new();
        for (table, txn, mode, granted) in state.locks.all() {
            let what = LockTarget::Table(table);
            let blocked_by = if granted { Vec::new() } else { numbers(state.blockers(txn)) };
            all.push(LockState { what, transaction: txn.0, mode, granted, blocked_by });
        }
        for (id, running) in &state.running {
            let owner = match running.wait {
                Some(Wait::Xid(_, owner) | Wait::Contender(owner)) => owner,
                Some(Wait::Queue(queue)) => state.front(queue).owner(),
                _ => continue,
            };
            let (what, blocked_by) = (LockTarget::Transaction(owner.0), vec![owner.0]);
            let (transaction, mode) = (id.0, LockMode::Share);
            all.push(LockState { what, transaction, mode, granted: false, blocked_by });
        }
        all
    }

    /// Which of `transactions`, given by their numbers, are still running?
    pub fn still_running(&self, transactions: &mut Vec<u64>) {
        let state = self.state.lock();
        transactions.retain(|txn| state.running.contains_key(&TxnId(*txn)));
    }

    /// The live snapshots, oldest first.
    pub fn snapshots(&self) -> Vec<LiveSnapshot> {
        let state = self.state.lock();
        let live = state.snapshots.iter().map(|(csn, live)| LiveSnapshot {
            id: live.by.0,
            since: live.since,
            count: live.count,
            commits_since: state.csn - csn,
            xmin: Xid(live.xmin),
        });
        live.collect()
    }

    /// Lets go of snapshots that are older than any may be; how many.
    pub fn expire_snapshots(&self) -> usize {
        let Some(limit) = self.options.max_snapshot_age else { return 0 };
        let now = self.options.clock.now();
        let before = Nanos(now.0.saturating_sub(limit.as_nanos() as u64));
        let mut state = self.state.lock();
        let expired = state.expire(before);
        if expired > 0 {
            self.refresh(&state);
        }
        expired
    }

    /// What happened so far.
    pub fn counters(&self) -> TxnCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TxnCounters {
            commits: read(&self.counters.commits),
            aborts: read(&self.counters.aborts),
            conflicts: read(&self.counters.conflicts),
            locked: read(&self.counters.locked),
            deadlocks: read(&self.counters.deadlocks),
            waits: read(&self.counters.waits),
            waited: Duration::from_nanos(read(&self.counters.waited_nanos)),
            given_up: read(&self.counters.given_up),
        }
    }

    /// Counts a conflict where it is found, and hands it back; deadlocks are counted already.
    pub fn conflict(&self, error: Error) -> Error {
        match &error {
            Error::Conflict { kind: ConflictKind::Serialization, .. } => {
                bump(&self.counters.conflicts);
            }
            Error::Conflict { kind: ConflictKind::RowLocked, .. } => bump(&self.counters.locked),
            _ => {}
        }
        error
    }

    /// Hands `len` xids to the transaction `id`.
    pub(in crate::txn) fn hand_out(&self, id: TxnId, len: u64) -> Result<Arc<Run>> {
        assert!((1..=MAX_RUN).contains(&len), "a run is short");
        loop {
            let state = self.state.lock();
            state.check_healthy()?;
            if state.sealed {
                return Err(Error::Invalid("the database is being closed".to_string()));
            }
            let end = state.next + len;
            if end > state.limit {
                drop(state);
                self.raise_limit(end)?;
            } else if state.late.len() > MAX_LATE {
                drop(state);
                self.spill()?;
            } else if end > self.ring.floor() + self.ring.capacity() {
                self.make_room(state, end)?;
            } else {
                return Ok(self.hand_out_now(state, id, len));
            }
        }
    }

    fn hand_out_now(&self, mut state: StateGuard<'_>, id: TxnId, len: u64) -> Arc<Run> {
        self.ring.open(state.next..state.next + len);
        let run = state.hand_out(id, len);
        self.next.store(state.next, Ordering::Release);
        run
    }

    /// Raises the ring's floor so that xids below `end` fit, and spills the numbers left behind.
    fn make_room(&self, mut state: StateGuard<'_>, end: u64) -> Result<()> {
        let least = end - self.ring.capacity();
        let floor = (least + self.ring.capacity() / 8).min(state.next).max(least);
        self.give_up_slots(&mut state, floor);
        drop(state);
        self.spill()
    }

    /// Raises the ceiling so that xids below `end` may be handed out.
    fn raise_limit(&self, end: u64) -> Result<()> {
        let mut ceiling = self.ceiling.lock();
        if ceiling.meta.limit >= end || self.state.lock().sealed {
            return Ok(());
        }
        if end > MAX_XID {
            let what = format!(
                "all {MAX_XID} transaction ids of this database are used up: it can be read, and \
                 its tables exported and loaded into a new database"
            );
            return Err(Error::Limit(what));
        }
        let before = ceiling.meta.limit;
        let limit = end.max(before + ceiling.step).min(MAX_XID);
        let meta = Meta { limit, ..ceiling.meta };
        self.file.reserve(before..limit)?;
        self.file.set_meta(meta)?;
        ceiling.meta = meta;
        ceiling.step = (ceiling.step * 2).clamp(MIN_STEP, MAX_STEP);
        self.state.lock().limit = limit;
        if (MAX_XID - limit) / TOLD_EVERY != (MAX_XID - before) / TOLD_EVERY {
            self.tell_if_few_are_left(limit);
        }
        Ok(())
    }

    /// Warns when the xids below `next` are most of those that there can ever be.
    fn tell_if_few_are_left(&self, next: u64) {
        let left = MAX_XID - next;
        if left < FEW_LEFT {
            let what = format!(
                "{left} transaction ids of {MAX_XID} are left: when they are used up, the \
                 database can only be read; load its tables into a new one before"
            );
            self.options.logger.warn(&what);
        }
    }

    /// Publishes the bounds that may have moved with `state`.
    pub(in crate::txn) fn refresh(&self, state: &State) {
        let (finished, horizon) = (state.finished_below(), state.horizon());
        let before = self.finished_below.swap(finished, Ordering::AcqRel);
        assert!(before <= finished, "what is finished stays finished");
        let before = self.horizon.swap(horizon, Ordering::AcqRel);
        assert!(before <= horizon, "the horizon never goes back");
    }
}

fn numbers(transactions: Vec<TxnId>) -> Vec<u64> {
    transactions.into_iter().map(|txn| txn.0).collect()
}

fn describe(state: &State, id: TxnId, txn: &Running) -> RunningTxn {
    let waits_for = txn.wait.map(|wait| match wait {
        Wait::Xid(xid, owner) => WaitsFor::Transaction { xid, id: owner.0 },
        Wait::Contender(writer) => WaitsFor::Transaction { xid: Xid::NONE, id: writer.0 },
        Wait::Queue(queue) => {
            let front = state.front(queue);
            WaitsFor::Transaction { xid: front.xid(), id: front.owner().0 }
        }
        Wait::Lock(table, mode) => WaitsFor::Table { table, mode },
    });
    RunningTxn {
        id: id.0,
        xid: txn.first.map(Xid),
        started: txn.started,
        isolation: txn.isolation,
        waits_for,
    }
}
