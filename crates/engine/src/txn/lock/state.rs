//! What the manager's one lock guards: who runs, who waits, which snapshots live.
//!
//! Invariants: every running transaction is in `running`; each run of xids of a running transaction
//! is in `owners` and its first xid in `firsts`; a snapshot registered at commit number n has an
//! xmin not below that of any snapshot registered earlier. Maps are ordered, so that one seed gives
//! one run.
//! Does not do: locking itself, I/O, anything that takes long.

use std::collections::{BTreeMap, BTreeSet};

use rightlink_env::Nanos;
use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, AtomicBool, Condvar, Ordering};

use crate::error::{Error, Result};
use crate::ids::{Csn, ObjectId, Xid};
use crate::txn::Isolation;
use crate::txn::lock::multixact::{Groups, RowLock};
use crate::txn::lock::row_wait_queue::{Anchor, Place, Queue, QueueId, Version, Waiter};
use crate::txn::lock::table_lock::{LockMode, LockTable};
use crate::txn::manager::outcome::Late;
use crate::txn::xid::set::{OwnSet, Run};

/// Number of a transaction in this process; it has one before, and without, any xid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::txn) struct TxnId(pub(in crate::txn) u64);

/// What a transaction waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum Wait {
    /// The end of `xid`, which belongs to the transaction.
    Xid(Xid, TxnId),
    /// What the queue waits for, then its turn.
    Queue(QueueId),
    /// Whether the transaction takes the row that it would be shared with.
    Contender(TxnId),
    /// A table lock.
    Lock(ObjectId, LockMode),
}

/// One running transaction.
pub(in crate::txn) struct Running {
    pub(in crate::txn) isolation: Isolation,
    pub(in crate::txn) started: Nanos,
    pub(in crate::txn) first: Option<u64>,
    /// Set while it waits; whoever ends the wait clears it and notes the bell.
    pub(in crate::txn) wait: Option<Wait>,
    pub(in crate::txn) bell: Arc<Condvar>,
    /// Who waits for one of its xids, in the order of arrival.
    pub(in crate::txn) waiters: Vec<Waiter>,
    /// The queue that waits for it to take a row or not.
    pub(in crate::txn) leads: Option<QueueId>,
    /// The version that the queue knew when it was woken.
    pub(in crate::txn) newest: Option<Version>,
    /// From where it finds the row that it has waited for.
    pub(in crate::txn) anchor: Option<Anchor>,
    /// The row whose lockers it waits for, to write it.
    pub(in crate::txn) contends: Option<Place>,
    /// Who waits for it to have that row.
    pub(in crate::txn) behind: Vec<TxnId>,
    pub(in crate::txn) locks: Vec<ObjectId>,
    /// Groups of row lockers that it is in.
    pub(in crate::txn) groups: BTreeSet<u64>,
}

/// Snapshots that share a commit number.
#[derive(Clone, Copy)]
pub(in crate::txn) struct Live {
    pub(in crate::txn) xmin: u64,
    pub(in crate::txn) count: usize,
    /// Who took the first of them, and since when that runs.
    pub(in crate::txn) by: TxnId,
    pub(in crate::txn) since: Nanos,
}

/// A snapshot that may become too old.
pub(in crate::txn) struct Aging {
    pub(in crate::txn) csn: u64,
    pub(in crate::txn) taken: Nanos,
    /// Statements that write by it: they rely on it to the end.
    pub(in crate::txn) held: u32,
    /// Set before it is deregistered.
    pub(in crate::txn) expired: Arc<AtomicBool>,
}

/// Everything under the lock.
pub(in crate::txn) struct State {
    pub(in crate::txn) next: u64,
    pub(in crate::txn) limit: u64,
    pub(in crate::txn) csn: u64,
    pub(in crate::txn) next_txn: u64,
    pub(in crate::txn) running: BTreeMap<TxnId, Running>,
    pub(in crate::txn) owners: BTreeMap<u64, (TxnId, Arc<Run>)>,
    pub(in crate::txn) firsts: BTreeSet<u64>,
    pub(in crate::txn) snapshots: BTreeMap<u64, Live>,
    /// Those of them that may become too old, in the order in which they were taken.
    pub(in crate::txn) aging: BTreeMap<u64, Aging>,
    next_aging: u64,
    pub(in crate::txn) late: Vec<Arc<Late>>,
    /// Bells of those who were woken, rung when the lock is free (`bells`).
    pub(in crate::txn) rung: Vec<Arc<Condvar>>,
    pub(in crate::txn) locks: LockTable,
    pub(in crate::txn) groups: Groups,
    /// Those who wait to write rows.
    pub(in crate::txn) queues: BTreeMap<QueueId, Queue>,
    pub(in crate::txn) next_queue: u64,
    /// Who waits for the lockers of a row, and what for.
    pub(in crate::txn) contenders: BTreeMap<Place, Vec<(TxnId, RowLock)>>,
    /// Why no transaction may commit or wait any more.
    pub(in crate::txn) poisoned: Option<String>,
    /// No xid is given out any more: the database is being closed.
    pub(in crate::txn) sealed: bool,
}

impl State {
    /// Nothing runs; `next` is the first xid, `csn` the last commit number.
    pub(in crate::txn) fn new(next: u64, limit: u64, csn: Csn) -> State {
        State {
            next,
            limit,
            csn: csn.0,
            next_txn: 1,
            running: BTreeMap::new(),
            owners: BTreeMap::new(),
            firsts: BTreeSet::new(),
            snapshots: BTreeMap::new(),
            aging: BTreeMap::new(),
            next_aging: 0,
            late: Vec::new(),
            rung: Vec::new(),
            locks: LockTable::default(),
            groups: Groups::default(),
            queues: BTreeMap::new(),
            next_queue: 0,
            contenders: BTreeMap::new(),
            poisoned: None,
            sealed: false,
        }
    }

    /// Adds a transaction.
    pub(in crate::txn) fn enter(&mut self, isolation: Isolation, started: Nanos) -> TxnId {
        let id = TxnId(self.next_txn);
        self.next_txn += 1;
        let running = Running {
            isolation,
            started,
            first: None,
            wait: None,
            bell: Arc::new(Condvar::new()),
            waiters: Vec::new(),
            leads: None,
            newest: None,
            anchor: None,
            contends: None,
            behind: Vec::new(),
            locks: Vec::new(),
            groups: BTreeSet::new(),
        };
        self.running.insert(id, running);
        id
    }

    /// The running transaction `id`.
    pub(in crate::txn) fn txn(&mut self, id: TxnId) -> &mut Running {
        self.running.get_mut(&id).expect("a transaction is listed until it has ended")
    }

    /// Hands the next `len` xids to `id`.
    pub(in crate::txn) fn hand_out(&mut self, id: TxnId, len: u64) -> Arc<Run> {
        assert!(self.next + len <= self.limit, "only xids below the logged limit are handed out");
        let run = Arc::new(Run::new(self.next..self.next + len));
        self.next += len;
        self.owners.insert(run.start(), (id, Arc::clone(&run)));
        if self.txn(id).first.is_none() {
            self.txn(id).first = Some(run.start());
            self.firsts.insert(run.start());
        }
        run
    }

    /// The running transaction and run that `xid` belongs to.
    pub(in crate::txn) fn owner(&self, xid: u64) -> Option<(TxnId, &Run)> {
        let (_, (id, run)) = self.owners.range(..=xid).next_back()?;
        run.contains(xid).then_some((*id, &**run))
    }

    /// As [`State::owner`], unless `xid` itself is aborted already.
    pub(in crate::txn) fn live_owner(&self, xid: u64) -> Option<TxnId> {
        self.owner(xid).filter(|(_, run)| !run.is_aborted(xid)).map(|(id, _)| id)
    }

    /// Every xid below is finished.
    pub(in crate::txn) fn finished_below(&self) -> u64 {
        self.firsts.first().copied().unwrap_or(self.next)
    }

    /// Every xid below is finished and every live snapshot sees its outcome.
    pub(in crate::txn) fn horizon(&self) -> u64 {
        if broken("r9-horizon") {
            return self.finished_below();
        }
        let oldest = self.snapshots.first_key_value().map_or(u64::MAX, |(_, live)| live.xmin);
        oldest.min(self.finished_below())
    }

    /// Adds a snapshot of now, taken by `by`; returns its commit number and xmin.
    pub(in crate::txn) fn register(&mut self, by: TxnId) -> (u64, u64) {
        let now = self.now();
        self.register_at(now, by);
        now
    }

    /// The commit number and xmin of a snapshot of now.
    pub(in crate::txn) fn now(&self) -> (u64, u64) {
        (self.csn, self.finished_below())
    }

    /// Adds a snapshot with this commit number and xmin.
    pub(in crate::txn) fn register_at(&mut self, (csn, xmin): (u64, u64), by: TxnId) {
        let running = &self.running;
        let live = self.snapshots.entry(csn).or_insert_with(|| {
            let since = running.get(&by).map_or(Nanos(0), |txn| txn.started);
            Live { xmin, count: 0, by, since }
        });
        assert!(live.xmin <= xmin, "what is finished stays finished");
        live.count += 1;
    }

    /// Removes a snapshot; was it the last of its commit number?
    pub(in crate::txn) fn deregister(&mut self, csn: u64) -> bool {
        let live = self.snapshots.get_mut(&csn).expect("a snapshot is registered while it lives");
        live.count -= 1;
        if live.count == 0 {
            self.snapshots.remove(&csn);
        }
        !self.snapshots.contains_key(&csn)
    }

    /// Lets the snapshot registered at `csn` become too old; its number among those.
    pub(in crate::txn) fn age(&mut self, csn: u64, taken: Nanos, expired: Arc<AtomicBool>) -> u64 {
        let number = self.next_aging;
        self.next_aging += 1;
        self.aging.insert(number, Aging { csn, taken, held: 0, expired });
        number
    }

    /// Deregisters the snapshots taken before `before` that nobody writes by; how many.
    pub(in crate::txn) fn expire(&mut self, before: Nanos) -> usize {
        let old = |aging: &Aging| aging.taken < before && aging.held == 0;
        let numbers: Vec<u64> =
            self.aging.iter().filter(|(_, aging)| old(aging)).map(|(number, _)| *number).collect();
        for number in &numbers {
            let aging = self.aging.remove(number).expect("listed just now");
            // First: whoever reads what was pruned for want of it then finds the mark.
            if !broken("r9-expired") {
                aging.expired.store(true, Ordering::SeqCst);
            }
            self.deregister(aging.csn);
        }
        numbers.len()
    }

    /// Removes an ended transaction: its xids, locks and place in the graph; wakes who waited for
    /// it.
    pub(in crate::txn) fn leave(&mut self, id: TxnId, own: &OwnSet, committed: bool) {
        for run in own.runs() {
            self.owners.remove(&run.start());
        }
        self.pass_on(id);
        self.settle_contest(id);
        let ended = self.running.remove(&id).expect("a transaction ends once");
        assert!(ended.wait.is_none(), "who waits cannot end");
        assert!(ended.anchor.is_none(), "an anchor is taken when the wait is over");
        if let Some(first) = ended.first {
            self.firsts.remove(&first);
        }
        self.drop_groups(ended.groups, own, committed);
        self.wake_in_turn(ended.waiters);
        for table in ended.locks {
            self.locks.release(id, table).into_iter().for_each(|granted| self.wake(granted));
        }
    }

    /// Ends the wait of `id`: it has what it waited for.
    pub(in crate::txn) fn wake(&mut self, id: TxnId) {
        let waiter = self.txn(id);
        assert!(waiter.wait.take().is_some(), "only who waits is woken");
        let bell = Arc::clone(&waiter.bell);
        self.rung.push(bell);
    }

    /// Wakes who waits for an xid of `id` that is aborted now, in the order of arrival.
    pub(in crate::txn) fn wake_for_aborted(&mut self, id: TxnId, own: &OwnSet) {
        let waiters = std::mem::take(&mut self.txn(id).waiters);
        let is_over = |waiter: &Waiter| {
            own.find(waiter.xid.0).is_some_and(|run| run.is_aborted(waiter.xid.0))
        };
        let (over, rest) = waiters.into_iter().partition(is_over);
        self.txn(id).waiters = rest;
        self.wake_in_turn(over);
    }

    /// Fails if no more work may begin.
    pub(in crate::txn) fn check_healthy(&self) -> Result<()> {
        match &self.poisoned {
            Some(why) => Err(Error::Poisoned(why.clone())),
            None => Ok(()),
        }
    }

    /// Refuses all later work, and wakes everyone who waits so that they see it.
    pub(in crate::txn) fn poison(&mut self, why: &str) {
        self.poisoned.get_or_insert_with(|| why.to_string());
        self.running.values().for_each(|txn| txn.bell.notify_all());
    }
}
