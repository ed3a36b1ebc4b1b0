//! Blocking on another transaction: the graph of who waits for whom, timeouts, cancel.
//!
//! Row waits and table locks are edges of one graph, walked when a transaction is about to block,
//! under the lock that all edges are made under. A ring needs a last edge, so the transaction that
//! would close it finds it, and gets the error instead of the wait. Who would not wait at all looks
//! for no ring: what it asked for is busy, and that is all it wants to know.
//!
//! Invariants: a transaction waits for one thing at a time; whoever ends a wait clears it before
//! the bell is rung; a wait given up leaves nothing behind; no latch is held while waiting (R12).
//! Does not do: choosing a cheaper victim; waits for I/O.

use std::collections::BTreeMap;
use std::time::Duration;

use rightlink_env::Nanos;
use rightlink_env::sync::{Arc, AtomicBool, Condvar, Ordering};

use crate::error::{ConflictKind, Error, Result};
use crate::ids::{ObjectId, Xid};
use crate::txn::lock::row_wait_queue::{Anchor, Front, Place, Version};
use crate::txn::lock::state::{State, TxnId, Wait};
use crate::txn::lock::table_lock::LockMode;
use crate::txn::lock::wakeup::StateGuard;
use crate::txn::manager::{TxnManager, bump};
use crate::txn::snapshot::View;

/// When a wait is given up.
pub(in crate::txn) struct Patience<'a> {
    pub(in crate::txn) timeout: Option<Duration>,
    pub(in crate::txn) cancelled: &'a AtomicBool,
}

/// What a transaction learns when a wait is over.
pub(in crate::txn) struct Waited {
    /// Does a queue wait for what it does about the row?
    pub(in crate::txn) leads: bool,
    /// The version that the queue knew last.
    pub(in crate::txn) newest: Option<Version>,
    /// From where to look for the row, registered for the transaction.
    pub(in crate::txn) anchor: Option<Anchor>,
}

/// Whom to wait for, and what for.
pub(in crate::txn) struct Wanted {
    pub(in crate::txn) xid: Xid,
    /// The version that is to be written then.
    pub(in crate::txn) place: Option<Place>,
    /// Does `xid` end that version, which was committed?
    pub(in crate::txn) ends: bool,
}

/// A wait that takes longer is worth a message.
const LONG_WAIT: Duration = Duration::from_secs(1);
/// How often a wait looks at a simulated clock, which wakes nobody.
const SIMULATED_LOOK: Duration = Duration::from_millis(1);

impl TxnManager {
    /// Waits until the xid is no longer in progress, or, to write what is at its place, until it is
    /// the turn of `id` after that. Where an anchor will be there then, however the wait ends, the
    /// views that are `unread` are let go meanwhile.
    pub(in crate::txn) fn wait_for(
        &self,
        id: TxnId,
        wanted: &Wanted,
        patience: &Patience<'_>,
        unread: &mut Vec<Arc<View>>,
    ) -> (Waited, Result<()>) {
        let mut state = self.state.lock();
        let mut outcome = Ok(());
        if let Some(owner) = state.live_owner(wanted.xid.0) {
            assert_ne!(owner, id, "nobody waits for itself");
            let place = (wanted.place, wanted.ends);
            if state.wait_in_turn(id, (wanted.xid, owner), place) && !unread.is_empty() {
                View::retire(unread, &mut state);
                self.refresh(&state);
            }
            state = match self.block(state, id, patience) {
                Ok(state) => state,
                Err(error) => {
                    outcome = Err(error);
                    self.state.lock()
                }
            };
        }
        let txn = state.txn(id);
        let (leads, newest, anchor) = (txn.leads.is_some(), txn.newest.take(), txn.anchor.take());
        (Waited { leads, newest, anchor }, outcome)
    }

    /// Takes `mode` of `table`, waiting if need be.
    pub(in crate::txn) fn lock_table(
        &self,
        id: TxnId,
        table: ObjectId,
        mode: LockMode,
        patience: &Patience<'_>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        if !state.txn(id).locks.contains(&table) {
            state.txn(id).locks.push(table);
        }
        if state.locks.request(id, table, mode) {
            return Ok(());
        }
        state.txn(id).wait = Some(Wait::Lock(table, mode));
        self.block(state, id, patience).map(drop)
    }

    /// Sleeps until the wait of `id` is over or given up.
    pub(in crate::txn) fn block<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        id: TxnId,
        patience: &Patience<'_>,
    ) -> Result<StateGuard<'a>> {
        bump(&self.counters.waits);
        let waits = patience.timeout != Some(Duration::ZERO);
        let mut ring = if waits { state.closes_ring(id) } else { None };
        if ring.is_some() && state.txn(id).leads.is_some() {
            state.scatter(id);
            ring = state.closes_ring(id);
        }
        if ring.is_some() && state.dissolve_contests(id) {
            ring = state.closes_ring(id);
        }
        if let Some(closing) = ring {
            bump(&self.counters.deadlocks);
            let error = state.deadlock(id, closing);
            state.abandon(id);
            return Err(error);
        }
        let bell = Arc::clone(&state.txn(id).bell);
        let begun = self.options.clock.now();
        let deadline = patience.timeout.map(|timeout| begun + timeout);
        while state.txn(id).wait.is_some() {
            if let Err(error) = self.go_on(&state, patience, deadline) {
                bump(&self.counters.given_up);
                state.abandon(id);
                drop(state);
                self.note_wait(self.options.clock.now() - begun);
                return Err(error);
            }
            state = self.sleep(&bell, state, deadline);
        }
        self.note_wait(self.options.clock.now() - begun);
        Ok(state)
    }

    /// Counts the time of a wait, and tells of a long one.
    fn note_wait(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counters.waited_nanos.fetch_add(nanos, Ordering::Relaxed);
        if took >= LONG_WAIT {
            let what = format!("waited {} ms for another transaction", took.as_millis());
            self.options.logger.info(&what);
        }
    }

    /// Fails if the wait is to be given up.
    fn go_on(&self, state: &State, patience: &Patience<'_>, until: Option<Nanos>) -> Result<()> {
        state.check_healthy()?;
        if patience.cancelled.load(Ordering::Acquire) {
            return Err(Error::Cancelled("by request, while waiting".to_string()));
        }
        match until {
            Some(until) if self.options.clock.now() >= until => {
                let waited = patience.timeout.unwrap_or_default();
                Err(Error::Cancelled(format!("lock timeout of {} ms", waited.as_millis())))
            }
            _ => Ok(()),
        }
    }

    fn sleep<'a>(
        &self,
        bell: &Condvar,
        state: StateGuard<'a>,
        until: Option<Nanos>,
    ) -> StateGuard<'a> {
        let clock = &self.options.clock;
        let rest = until.map(|until| match clock.is_simulated() {
            true => SIMULATED_LOOK,
            false => until.since(clock.now()),
        });
        state.wait(bell, rest)
    }

    /// Makes a waiting transaction look whether it was cancelled.
    pub(in crate::txn) fn ring_bell(&self, id: TxnId) {
        let state = self.state.lock();
        if let Some(txn) = state.running.get(&id) {
            txn.bell.notify_all();
        }
    }
}

impl State {
    /// Whom `id` waits for.
    pub(in crate::txn) fn blockers(&self, id: TxnId) -> Vec<TxnId> {
        match self.running.get(&id).and_then(|txn| txn.wait) {
            None => Vec::new(),
            Some(Wait::Xid(_, owner) | Wait::Contender(owner)) => vec![owner],
            Some(Wait::Queue(queue)) => vec![self.front(queue).owner()],
            Some(Wait::Lock(table, _)) => self.locks.blockers(id, table),
        }
    }

    /// Is there a path from `id` back to itself? Returns its second and its last transaction.
    fn closes_ring(&self, id: TxnId) -> Option<(TxnId, TxnId)> {
        // Value: the direct blocker of `id` that the path went through.
        let mut seen: BTreeMap<TxnId, TxnId> = BTreeMap::new();
        let mut open: Vec<(TxnId, TxnId)> = Vec::new();
        open.extend(self.blockers(id).into_iter().map(|first| (first, first)));
        while let Some((node, first)) = open.pop() {
            if seen.insert(node, first).is_some() {
                continue;
            }
            for next in self.blockers(node) {
                if next == id {
                    return Some((first, node));
                }
                open.push((next, first));
            }
        }
        None
    }

    fn deadlock(&self, id: TxnId, (first, last): (TxnId, TxnId)) -> Error {
        let mut what = format!("{} waits for {}", self.name(id), self.name(first));
        if first != last {
            what += &format!(", which through others waits for {}", self.name(last));
        }
        what += &format!(", which waits for {}", self.name(id));
        Error::Conflict { kind: ConflictKind::Deadlock, what }
    }

    /// A transaction and what it waits for, for a person.
    fn name(&self, id: TxnId) -> String {
        let txn = self.running.get(&id);
        let xid =
            txn.and_then(|txn| txn.first).map_or(String::new(), |xid| format!(" (xid {xid})"));
        let wait = match txn.and_then(|txn| txn.wait) {
            None => String::new(),
            Some(Wait::Xid(xid, _)) => format!(" [wants xid {xid}]"),
            Some(Wait::Queue(queue)) => match self.front(queue) {
                Front::Statement(xid, _) => format!(" [wants xid {xid}]"),
                Front::Heir(heir) => format!(" [wants a row after transaction {}]", heir.0),
            },
            Some(Wait::Contender(writer)) => {
                format!(" [wants to share a row after transaction {}]", writer.0)
            }
            Some(Wait::Lock(table, mode)) => format!(" [wants {mode:?} on object {}]", table.0),
        };
        format!("transaction {}{xid}{wait}", id.0)
    }

    /// Gives the wait of `id` up.
    fn abandon(&mut self, id: TxnId) {
        match self.txn(id).wait.take() {
            None => {}
            Some(Wait::Xid(_, owner)) => self.give_up_waiting(id, owner),
            Some(Wait::Queue(queue)) => self.leave_queue(id, queue),
            Some(Wait::Contender(writer)) => self.leave_contest(id, writer),
            Some(Wait::Lock(table, _)) => {
                self.locks.withdraw(id, table).into_iter().for_each(|granted| self.wake(granted));
            }
        }
    }
}
