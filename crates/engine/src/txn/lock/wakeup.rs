//! The manager's lock, and the bells of those who were woken under it.
//!
//! Whoever is woken wants the lock that his waker holds: rung at once he would run, meet the lock
//! and sleep again, and where there are few processors he may take the waker's, so that all others
//! queue for a lock whose holder does not run. So a wake notes the bell, and it is rung when the
//! lock is free.
//!
//! Invariants: who was woken is rung when his waker lets the lock go, for whatever reason, a wait
//! of its own included; in the order in which they were woken.
//! Does not do: deciding who is woken (`heirs`, `contenders`, `locks`).

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::txn::lock::state::State;

/// The lock around the manager's state.
pub(in crate::txn) struct StateLock(Mutex<State>);

/// Access to the state.
pub(in crate::txn) struct StateGuard<'a> {
    /// `None` only while it is let go.
    held: Option<MutexGuard<'a, State>>,
}

impl StateLock {
    /// An unlocked lock around `state`.
    pub(in crate::txn) fn new(state: State) -> StateLock {
        StateLock(Mutex::new(state))
    }

    /// Waits for the lock.
    pub(in crate::txn) fn lock(&self) -> StateGuard<'_> {
        StateGuard { held: Some(self.0.lock()) }
    }
}

impl<'a> StateGuard<'a> {
    /// Lets the lock go, waits for `bell` or until `limit` has passed, takes the lock again. May
    /// come back for no reason.
    pub(in crate::txn) fn wait(
        mut self,
        bell: &Condvar,
        limit: Option<Duration>,
    ) -> StateGuard<'a> {
        let mut held = self.held.take().expect("held until it is let go");
        // Those who were woken by who waits himself are few: deadlocks that were avoided.
        ring(std::mem::take(&mut held.rung));
        let held = match limit {
            Some(limit) => bell.wait_timeout(held, limit).0,
            None => bell.wait(held),
        };
        StateGuard { held: Some(held) }
    }
}

/// Wakes who waits for `bells`.
fn ring(bells: Vec<Arc<Condvar>>) {
    if broken("txn-no-bell") {
        return;
    }
    bells.into_iter().for_each(|bell| bell.notify_one());
}

impl Deref for StateGuard<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        self.held.as_ref().expect("held until it is let go")
    }
}

impl DerefMut for StateGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        self.held.as_mut().expect("held until it is let go")
    }
}

impl Drop for StateGuard<'_> {
    fn drop(&mut self) {
        let Some(mut held) = self.held.take() else { return };
        let bells = std::mem::take(&mut held.rung);
        drop(held);
        ring(bells);
    }
}
