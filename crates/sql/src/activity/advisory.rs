//! Advisory locks: locks of numbers, which mean something to applications alone.
//!
//! A session holds a lock until it gives it up or ends, or until its transaction ends. A request
//! waits behind earlier requests, unless its session has the lock already. A waiter checks for
//! interrupts every [`STEP`], and for a deadlock every [`DEADLOCK`], also one by way of rows and
//! tables.
//!
//! Invariants: those who hold a lock are compatible. A lock that nobody holds or waits for is
//! forgotten, and there are at most [`MOST`] of them. A session waits for one lock at most.
//! Does not do: survive the end of the process; be seen by sessions that do not see each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use rightlink::Database;
use rightlink_env::sync::{Condvar, Mutex, MutexGuard, Ordering};

use super::Activity;
use crate::error::{Result, SqlError, code};
use crate::interrupt::CheckInterrupts;

/// How often a waiter checks for interrupts, if nothing wakes it.
const STEP: Duration = Duration::from_millis(50);
/// How often a waiter looks for a circle: microseconds.
const DEADLOCK: i64 = 1_000_000;
/// Different locks that are held at most, by all sessions.
const MOST: usize = 1 << 16;

/// What is locked. A number of 64 bits is another lock than two numbers of 32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    One(i64),
    Two(i32, i32),
}

/// How a lock is held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Mode {
    Share,
    Exclusive,
}

/// When a lock is given up by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    Session,
    Transaction,
}

/// What a session asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) pid: u32,
    pub(crate) key: Key,
    pub(crate) mode: Mode,
    pub(crate) until: Until,
}

/// What a waiter needs to know.
pub(crate) struct Wait<'a> {
    pub(crate) db: &'a Database,
    pub(crate) interrupts: &'a dyn CheckInterrupts,
    /// In milliseconds; `None` for ever.
    pub(crate) lock_timeout: Option<u64>,
}

/// A lock that a session holds or waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Entry {
    pub(crate) pid: u32,
    pub(crate) key: Key,
    pub(crate) mode: Mode,
    pub(crate) granted: bool,
}

struct Holding {
    pid: u32,
    mode: Mode,
    until: Until,
    /// How often it was asked for.
    count: u64,
}

struct Waiter {
    pid: u32,
    mode: Mode,
}

#[derive(Default)]
struct Lock {
    held: Vec<Holding>,
    /// In the order of arrival.
    waiting: VecDeque<Waiter>,
}

/// The locks of sessions that see each other.
#[derive(Default)]
pub(super) struct AdvisoryLocks {
    state: Mutex<State>,
    /// A waiter may be able to go on.
    changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    locks: BTreeMap<Key, Lock>,
    /// What is held until transactions end, by session, in the order in which it was got.
    of_transactions: BTreeMap<u32, Vec<Key>>,
}

impl Mode {
    fn conflicts(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }

    /// As `pg_locks` has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Share => "ShareLock",
            Mode::Exclusive => "ExclusiveLock",
        }
    }
}

impl Lock {
    fn is_unused(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    /// The sessions because of which a request with so many waiters before it has to wait.
    fn blockers(&self, pid: u32, mode: Mode, before: usize) -> impl Iterator<Item = u32> {
        let is_holder = self.held.iter().any(|one| one.pid == pid);
        let before = if is_holder { 0 } else { before };
        let held = self.held.iter().map(|one| (one.pid, one.mode));
        let waiting = self.waiting.iter().take(before).map(|one| (one.pid, one.mode));
        let others = held.chain(waiting);
        others
            .filter(move |(other, held)| *other != pid && held.conflicts(mode))
            .map(|(pid, _)| pid)
    }

    fn place_of(&self, pid: u32) -> Option<usize> {
        self.waiting.iter().position(|one| one.pid == pid)
    }

    /// The sessions that a waiter waits for.
    fn blockers_of(&self, waiter: &Waiter) -> impl Iterator<Item = u32> {
        let before = self.place_of(waiter.pid).unwrap_or(0);
        self.blockers(waiter.pid, waiter.mode, before)
    }
}

impl State {
    fn must_wait(&self, request: &Request) -> bool {
        let Some(lock) = self.locks.get(&request.key) else { return false };
        let before = lock.place_of(request.pid).unwrap_or(lock.waiting.len());
        lock.blockers(request.pid, request.mode, before).next().is_some()
    }

    /// Refuses one more lock than there may be.
    fn check_room(&self, key: Key) -> Result<()> {
        if self.locks.len() < MOST || self.locks.contains_key(&key) {
            return Ok(());
        }
        let hint = format!("There are {MOST} advisory locks, which is as many as there may be.");
        Err(SqlError::new(code::OUT_OF_MEMORY, "out of memory for advisory locks").hint(hint))
    }

    fn grant(&mut self, request: &Request) {
        let Request { pid, key, mode, until } = *request;
        assert!(!self.must_wait(request), "compatible modes alone are held together");
        let lock = self.locks.entry(key).or_default();
        let is_it = |one: &&mut Holding| (one.pid, one.mode, one.until) == (pid, mode, until);
        match lock.held.iter_mut().find(is_it) {
            Some(holding) => holding.count += 1,
            None => {
                lock.held.push(Holding { pid, mode, until, count: 1 });
                if until == Until::Transaction {
                    self.of_transactions.entry(pid).or_default().push(key);
                }
            }
        }
    }

    fn withdraw(&mut self, request: &Request) {
        let lock = self.locks.get_mut(&request.key).expect("a lock that is waited for is known");
        lock.waiting.retain(|one| one.pid != request.pid);
        self.forget_unused(request.key);
    }

    fn forget_unused(&mut self, key: Key) {
        if self.locks.get(&key).is_some_and(Lock::is_unused) {
            self.locks.remove(&key);
        }
    }

    /// Gives up what the transaction of a session got after the first `keep` locks.
    fn release_transaction(&mut self, pid: u32, keep: usize) {
        let Some(own) = self.of_transactions.get_mut(&pid) else { return };
        let later = own.split_off(keep.min(own.len()));
        if own.is_empty() {
            self.of_transactions.remove(&pid);
        }
        for key in later.into_iter().rev() {
            self.release_last(pid, key);
        }
    }

    /// Gives up what the transaction of a session got last of this lock.
    fn release_last(&mut self, pid: u32, key: Key) {
        let Some(lock) = self.locks.get_mut(&key) else { return };
        let is_it = |one: &Holding| one.pid == pid && one.until == Until::Transaction;
        if let Some(at) = lock.held.iter().rposition(is_it) {
            lock.held.remove(at);
        }
        self.forget_unused(key);
    }

    /// Edges of the graph of waits: who waits for whom, as far as advisory locks say.
    fn waits(&self) -> impl Iterator<Item = (u32, u32)> {
        self.locks.values().flat_map(|lock| {
            let of = |waiter| lock.blockers_of(waiter).map(|other| (waiter.pid, other));
            lock.waiting.iter().flat_map(of)
        })
    }
}

impl Activity {
    /// Takes a lock for a session. False: others have it, and `wait` is `None`.
    ///
    /// # Errors
    /// `40P01` if the session would wait for itself, `55P03` after the lock timeout, `53200` if
    /// there are too many, and what ends the statement.
    pub(crate) fn lock_advisory(&self, request: &Request, wait: Option<&Wait<'_>>) -> Result<bool> {
        let locks = &self.0.advisory;
        let mut state = locks.state.lock();
        state.check_room(request.key)?;
        if !state.must_wait(request) {
            state.grant(request);
            self.has_locks(request);
            return Ok(true);
        }
        let Some(wait) = wait else { return Ok(false) };
        let waiter = Waiter { pid: request.pid, mode: request.mode };
        state.locks.entry(request.key).or_default().waiting.push_back(waiter);
        let granted = self.wait_for_advisory(state, request, wait);
        // Those behind it may be able to go on, whatever became of it.
        locks.changed.notify_all();
        granted.map(|()| true)
    }

    fn wait_for_advisory(
        &self,
        mut state: MutexGuard<'_, State>,
        request: &Request,
        wait: &Wait<'_>,
    ) -> Result<()> {
        let began = wait.db.unix_micros();
        let mut looked = began;
        loop {
            state = self.0.advisory.changed.wait_timeout(state, STEP).0;
            if !state.must_wait(request) {
                state.withdraw(request);
                state.grant(request);
                self.has_locks(request);
                return Ok(());
            }
            let now = wait.db.unix_micros();
            let mut ended = wait.check(now - began);
            if ended.is_ok() && now - looked >= DEADLOCK {
                looked = now;
                ended = self.check_deadlock(&state, request, wait.db);
            }
            if ended.is_err() {
                state.withdraw(request);
                return ended;
            }
        }
    }

    /// Fails if a session waits for itself by way of others.
    fn check_deadlock(&self, state: &State, request: &Request, db: &Database) -> Result<()> {
        let edges = self.waits(state, db);
        let from = |pid: u32| edges.range((pid, 0)..=(pid, u32::MAX)).map(|(_, other)| *other);
        let mut seen = BTreeSet::new();
        let mut open: Vec<u32> = from(request.pid).collect();
        while let Some(next) = open.pop() {
            if next == request.pid {
                let first = from(request.pid).next().expect("it waits for somebody");
                return Err(deadlock(request, first));
            }
            if seen.insert(next) {
                open.extend(from(next));
            }
        }
        Ok(())
    }

    /// Who waits for whom, for whatever locks.
    fn waits(&self, state: &State, db: &Database) -> BTreeSet<(u32, u32)> {
        let mut edges: BTreeSet<(u32, u32)> = state.waits().collect();
        let clients = self.all();
        let of = |number: u64| {
            clients.iter().find(|client| client.transaction() == number).map(|one| one.who.pid)
        };
        for lock in db.locks().iter().filter(|lock| !lock.granted) {
            let Some(waiter) = of(lock.transaction) else { continue };
            edges
                .extend(lock.blocked_by.iter().filter_map(|one| of(*one)).map(|one| (waiter, one)));
        }
        edges
    }

    /// The sessions that session `pid` waits for, for whatever locks.
    pub(crate) fn blockers(&self, pid: u32, db: &Database) -> Vec<u32> {
        let edges = self.waits(&self.0.advisory.state.lock(), db);
        edges.range((pid, 0)..=(pid, u32::MAX)).map(|(_, other)| *other).collect()
    }

    /// Gives up a lock that a session holds until its end, once. False: it does not hold it.
    pub(crate) fn unlock_advisory(&self, pid: u32, key: Key, mode: Mode) -> bool {
        let mut state = self.0.advisory.state.lock();
        let Some(lock) = state.locks.get_mut(&key) else { return false };
        let is_it = |one: &Holding| (one.pid, one.mode, one.until) == (pid, mode, Until::Session);
        let Some(at) = lock.held.iter().position(is_it) else { return false };
        lock.held[at].count -= 1;
        if lock.held[at].count == 0 {
            lock.held.remove(at);
            state.forget_unused(key);
            drop(state);
            self.0.advisory.changed.notify_all();
        }
        true
    }

    /// Gives up all locks that a session holds until its end.
    pub(crate) fn unlock_all_advisory(&self, pid: u32) {
        self.release_advisory(|state| {
            state.locks.retain(|_, lock| {
                lock.held.retain(|one| one.pid != pid || one.until != Until::Session);
                !lock.is_unused()
            });
        });
    }

    /// How many locks a session has got until its transaction ends.
    pub(crate) fn advisory_mark(&self, pid: u32) -> usize {
        self.0.advisory.state.lock().of_transactions.get(&pid).map_or(0, Vec::len)
    }

    /// Gives up what the transaction of a session has got after `mark`.
    pub(crate) fn return_to_advisory_mark(&self, pid: u32, mark: usize) {
        self.release_advisory(|state| state.release_transaction(pid, mark));
    }

    fn release_advisory(&self, release: impl FnOnce(&mut State)) {
        release(&mut self.0.advisory.state.lock());
        self.0.advisory.changed.notify_all();
    }

    /// All locks: those that are held, and those that are waited for. A lock that a session holds
    /// until its end and until that of its transaction is one, as in PostgreSQL.
    pub(crate) fn advisory_locks(&self) -> BTreeSet<Entry> {
        let state = self.0.advisory.state.lock();
        let mut all = BTreeSet::new();
        for (key, lock) in &state.locks {
            let key = *key;
            let held = |one: &Holding| Entry { pid: one.pid, key, mode: one.mode, granted: true };
            let wanted = |one: &Waiter| Entry { pid: one.pid, key, mode: one.mode, granted: false };
            all.extend(lock.held.iter().map(held));
            all.extend(lock.waiting.iter().map(wanted));
        }
        all
    }

    /// The end of the transaction has something to give up.
    fn has_locks(&self, request: &Request) {
        if request.until == Until::Transaction
            && let Some(client) = self.client(request.pid)
        {
            client.locks_end.store(true, Ordering::Relaxed);
        }
    }
}

impl Wait<'_> {
    /// Fails when a wait of so many microseconds has to end.
    fn check(&self, waited: i64) -> Result<()> {
        self.interrupts.check()?;
        match self.lock_timeout {
            Some(millis) if waited > millis as i64 * 1_000 => {
                let message = "canceling statement due to lock timeout";
                Err(SqlError::new(code::LOCK_NOT_AVAILABLE, message))
            }
            _ => Ok(()),
        }
    }
}

fn deadlock(request: &Request, blocker: u32) -> SqlError {
    let what = match request.key {
        Key::One(key) => key.to_string(),
        Key::Two(one, two) => format!("{one}, {two}"),
    };
    let detail = format!(
        "Process {} waits for {} on advisory lock [{what}]; blocked by process {blocker}.",
        request.pid,
        request.mode.name()
    );
    SqlError::new(code::DEADLOCK, "deadlock detected").detail(detail)
}
