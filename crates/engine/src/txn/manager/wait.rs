//! Blocking on another transaction: time limits, cancel, deadlocks.
//!
//! A transaction that does not want to wait (a time limit of zero) does not look for a cycle: the
//! row or table is busy, and that is all it needs to know.
//!
//! Invariants: a wait ends when it is cleared under the lock, never by a wake-up alone. A wait that
//! is given up leaves nothing behind. No latch is held while waiting (R12).
//! Does not do: say what is waited for (`lock`).

use std::time::Duration;

use rightlink_env::Nanos;
use rightlink_env::sync::{Arc, AtomicBool, Condvar, Ordering};

use crate::error::{Error, Result};
use crate::ids::ObjectId;
use crate::txn::lock::row_lock::{RowLock, RowVersion};
use crate::txn::lock::state::{SharedState, WaitTarget};
use crate::txn::lock::table_lock::{LockMode, RequestOutcome};
use crate::txn::lock::wakeup::StateGuard;
use crate::txn::manager::{TxnManager, increment};
use crate::txn::xid::TxnId;

/// When a wait is given up.
pub(in crate::txn) struct WaitLimit<'a> {
    pub(in crate::txn) timeout: Option<Duration>,
    pub(in crate::txn) cancelled: &'a AtomicBool,
}

/// A wait that takes longer is logged.
const LONG_WAIT: Duration = Duration::from_secs(1);
/// How often a wait polls a simulated clock, which wakes no thread.
const SIMULATED_POLL: Duration = Duration::from_millis(1);

impl TxnManager {
    /// Takes `mode` of `table`, waiting if need be.
    pub(in crate::txn) fn lock_table(
        &self,
        id: TxnId,
        table: ObjectId,
        mode: LockMode,
        limit: &WaitLimit<'_>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        if !state.txn(id).locked_tables.contains(&table) {
            state.txn(id).locked_tables.push(table);
        }
        match state.table_locks.request(id, table, mode) {
            RequestOutcome::Granted => Ok(()),
            RequestOutcome::Queued => {
                state.txn(id).wait = Some(WaitTarget::TableLock { table, mode });
                self.block(state, id, limit).map(drop)
            }
        }
    }

    /// Waits for a writer that claims `row` and would have to wait for `lock`, if there is one.
    pub(in crate::txn) fn wait_behind_writer(
        &self,
        id: TxnId,
        row: RowVersion,
        lock: RowLock,
        limit: &WaitLimit<'_>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(writer) = state.priority_writer(id, row, lock) {
            state.wait_behind_writer(id, writer);
            drop(self.block(state, id, limit)?);
        }
        Ok(())
    }

    /// Sleeps until the wait of `id` is over or given up.
    pub(in crate::txn) fn block<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        id: TxnId,
        limit: &WaitLimit<'_>,
    ) -> Result<StateGuard<'a>> {
        increment(&self.counters.waits);
        let waits = limit.timeout != Some(Duration::ZERO);
        let mut cycle = if waits { state.find_cycle(id) } else { None };
        if cycle.is_some() && state.txn(id).granted_queue.is_some() {
            state.disband_queue(id);
            cycle = state.find_cycle(id);
        }
        if cycle.is_some() && state.waive_priority(id) > 0 {
            cycle = state.find_cycle(id);
        }
        if let Some(cycle) = cycle {
            increment(&self.counters.deadlocks);
            let error = state.deadlock_error(id, cycle);
            state.cancel_wait(id);
            return Err(error);
        }
        let condvar = Arc::clone(&state.txn(id).condvar);
        let begun = self.options.clock.now();
        let deadline = limit.timeout.map(|timeout| begun + timeout);
        while state.txn(id).wait.is_some() {
            if let Err(error) = self.check_limit(&state, limit, deadline) {
                increment(&self.counters.given_up);
                state.cancel_wait(id);
                drop(state);
                self.note_wait(self.options.clock.now() - begun);
                return Err(error);
            }
            state = self.sleep(&condvar, state, deadline);
        }
        self.note_wait(self.options.clock.now() - begun);
        Ok(state)
    }

    /// Counts the time of a wait, and logs a long one.
    fn note_wait(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counters.waited_nanos.fetch_add(nanos, Ordering::Relaxed);
        if took >= LONG_WAIT {
            let what = format!("waited {} ms for another transaction", took.as_millis());
            self.options.logger.info(&what);
        }
    }

    /// Fails if the wait is to be given up.
    fn check_limit(
        &self,
        state: &SharedState,
        limit: &WaitLimit<'_>,
        deadline: Option<Nanos>,
    ) -> Result<()> {
        state.check_healthy()?;
        if limit.cancelled.load(Ordering::Acquire) {
            return Err(Error::Cancelled("by request, while waiting".to_string()));
        }
        match deadline {
            Some(deadline) if self.options.clock.now() >= deadline => {
                let waited = limit.timeout.unwrap_or_default();
                Err(Error::LockTimeout { waited, what: "another transaction".to_string() })
            }
            _ => Ok(()),
        }
    }

    fn sleep<'a>(
        &self,
        condvar: &Condvar,
        state: StateGuard<'a>,
        deadline: Option<Nanos>,
    ) -> StateGuard<'a> {
        let clock = &self.options.clock;
        let rest = deadline.map(|deadline| match clock.is_simulated() {
            true => SIMULATED_POLL,
            false => deadline.since(clock.now()),
        });
        state.wait(condvar, rest)
    }

    /// Wakes a transaction that waits, so that it sees that it was cancelled.
    pub(in crate::txn) fn wake_cancelled(&self, id: TxnId) {
        let state = self.state.lock();
        if let Some(txn) = state.running.get(&id) {
            txn.condvar.notify_all();
        }
    }
}
