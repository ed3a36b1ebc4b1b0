//! How work that belongs to no transaction of the caller is ended.
//!
//! Invariants: the caller is told of each transaction before that waits for a lock.
//! Does not do: the work.

use std::time::Duration;

use crate::error::Result;
use crate::txn::{self, CancelHandle};

/// How work that is in no transaction of the caller's is ended: an index build beside writers, a
/// vacuum. The default ends it by nothing but the lock timeout of the database.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Longest wait for a lock or for another transaction, instead of the database's setting.
    pub lock_timeout: Option<Duration>,
    /// Asked between two pieces of work and while others are waited for, maybe by several threads;
    /// an error ends the work and is what it fails with.
    pub go_on: &'a (dyn Fn() -> Result<()> + Sync),
    /// Told of each transaction that the work begins, one at a time: waits for locks are ended by
    /// these.
    pub begun: &'a (dyn Fn(CancelHandle) + Sync),
}

impl Default for Watch<'_> {
    fn default() -> Self {
        Self { lock_timeout: None, go_on: &|| Ok(()), begun: &|_| {} }
    }
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch(lock timeout {:?})", self.lock_timeout)
    }
}

impl Watch<'_> {
    /// A transaction has begun, which is watched from now on.
    pub(super) fn begin(&self, txn: &mut txn::Transaction) {
        if self.lock_timeout.is_some() {
            txn.set_lock_timeout(self.lock_timeout);
        }
        (self.begun)(txn.cancel_handle());
    }
}
