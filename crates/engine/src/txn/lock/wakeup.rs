//! The manager's lock, and deferred wake-ups.
//!
//! A woken transaction needs the manager's lock, which the waking thread still holds. Waking it
//! immediately would only make it block again, and on few cores it can preempt the lock holder
//! (lock convoy). So wake-ups are collected while the lock is held and delivered after it is
//! released.
//!
//! Invariants: a deferred wake-up is delivered when the thread that deferred it releases the lock,
//! also if it releases it to wait. Wake-ups are delivered in the order in which they were deferred.
//! Does not do: decide which transactions are woken (`row_wait_queue`, `writer_priority`,
//! `table_lock`).

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use rightlink_env::sync::{Condvar, Mutex, MutexGuard};

use crate::txn::lock::state::SharedState;

/// The lock around the shared state.
pub(in crate::txn) struct StateLock(Mutex<SharedState>);

/// Access to the shared state.
pub(in crate::txn) struct StateGuard<'a> {
    /// `None` only while the lock is released.
    held: Option<MutexGuard<'a, SharedState>>,
}

impl StateLock {
    /// An unlocked lock around `state`.
    pub(in crate::txn) fn new(state: SharedState) -> StateLock {
        StateLock(Mutex::new(state))
    }

    /// Waits for the lock.
    pub(in crate::txn) fn lock(&self) -> StateGuard<'_> {
        StateGuard { held: Some(self.0.lock()) }
    }
}

impl<'a> StateGuard<'a> {
    /// Releases the lock, waits for `condvar` or until `limit` has passed, takes the lock again.
    /// Spurious returns are possible.
    pub(in crate::txn) fn wait(
        mut self,
        condvar: &Condvar,
        limit: Option<Duration>,
    ) -> StateGuard<'a> {
        let mut held = self.held.take().expect("held until it is released");
        // Delivered under the lock: there are few, from deadlocks that were avoided just now.
        std::mem::take(&mut held.wakeups).deliver();
        let held = match limit {
            Some(limit) => condvar.wait_timeout(held, limit).0,
            None => condvar.wait(held),
        };
        StateGuard { held: Some(held) }
    }
}

impl Deref for StateGuard<'_> {
    type Target = SharedState;

    #[inline]
    fn deref(&self) -> &SharedState {
        self.held.as_ref().expect("held until it is released")
    }
}

impl DerefMut for StateGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut SharedState {
        self.held.as_mut().expect("held until it is released")
    }
}

impl Drop for StateGuard<'_> {
    fn drop(&mut self) {
        let Some(mut held) = self.held.take() else { return };
        let wakeups = std::mem::take(&mut held.wakeups);
        drop(held);
        wakeups.deliver();
    }
}
