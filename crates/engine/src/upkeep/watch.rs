//! Limits of work that belongs to no transaction of the caller: index builds, vacuum.
//!
//! Invariants: the caller gets the cancel handle of each transaction before it waits for a lock.
//! Does not do: the work.

use std::time::Duration;

use crate::error::Result;
use crate::txn::{self, CancelHandle};

/// Ends work that is in no transaction of the caller: an index build beside writers, a vacuum. By
/// default only the lock timeout of the database ends it.
///
/// ```
/// use rightlink::{Error, TableSchema, Type, Value, Watch};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # let rows: Vec<_> = (0..5_000).map(|n| vec![Value::Int8(n), Value::Int8(n)]).collect();
/// # txn.insert_many("n", &rows)?;
/// # txn.commit()?;
/// let go_on = || Err(Error::Cancelled("enough".into()));
/// let ended = db.reindex_with("n", None, Watch { go_on: &go_on, ..Watch::default() });
/// assert!(matches!(ended, Err(Error::Cancelled(_))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Longest wait for a lock or for another transaction, instead of the database's setting.
    pub lock_timeout: Option<Duration>,
    /// Called between two pieces of work and during waits, perhaps by several threads. Its error
    /// ends the work and is the error of the work.
    pub go_on: &'a (dyn Fn() -> Result<()> + Sync),
    /// Called with the handle of each transaction that the work begins, one at a time. The handle
    /// ends waits for locks.
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
    /// Applies the limits to a transaction that has begun.
    pub(super) fn begin(&self, txn: &mut txn::Transaction) {
        if self.lock_timeout.is_some() {
            txn.set_lock_timeout(self.lock_timeout);
        }
        (self.begun)(txn.cancel_handle());
    }
}
