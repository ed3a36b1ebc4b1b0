//! The settings of a running transaction, and what a layer on top asks of the database.
//!
//! Invariants: a setting holds from the next statement on.
//! Does not do: statements; definitions (`catalog`).

use std::time::Duration;

use rightlink_aio::Method;

use crate::db::Database;
use crate::db::transaction::Transaction;
use crate::error::Result;
use crate::sort::Sorter;

/// Changes the settings of a running transaction: made by [`Transaction::settings`].
///
/// ```
/// use std::time::Duration;
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// let mut txn = db.begin();
/// txn.settings().lock_timeout(Some(Duration::from_secs(1))).relaxed(true);
/// # txn.commit()
/// # }
/// ```
pub struct Settings<'t> {
    txn: &'t mut Transaction,
}

impl Settings<'_> {
    /// Longest wait for a lock by later statements; `None`: without end.
    pub fn lock_timeout(self, timeout: Option<Duration>) -> Self {
        if let Some(txn) = &mut self.txn.txn {
            txn.set_lock_timeout(timeout);
        }
        self
    }

    /// True: the commit does not wait for the log to be durable. See
    /// [`TransactionOptions::relaxed`].
    ///
    /// [`TransactionOptions::relaxed`]: crate::TransactionOptions::relaxed
    pub fn relaxed(self, relaxed: bool) -> Self {
        self.txn.relaxed = relaxed;
        self
    }

    /// True: later statements read index pages one at a time. See
    /// [`TransactionOptions::serial_reads`].
    ///
    /// [`TransactionOptions::serial_reads`]: crate::TransactionOptions::serial_reads
    pub fn serial_reads(self, serial: bool) -> Self {
        self.txn.serial_reads = serial;
        self
    }
}

impl Transaction {
    /// Changes settings that the transaction began with. Isolation stays.
    pub fn settings(&mut self) -> Settings<'_> {
        Settings { txn: self }
    }

    /// Its number in this process, by which [`Database::snapshots`] names it.
    pub fn number(&self) -> u64 {
        self.txn.as_ref().expect("the transaction runs until it is consumed").id()
    }

    /// Forgets a cancel, so that the transaction can go on.
    pub fn clear_cancel(&mut self) {
        if let Some(txn) = &mut self.txn {
            txn.clear_cancel();
        }
    }
}

impl Database {
    /// The one memory budget of the database, for layers whose own memory grows with the data.
    pub fn budget(&self) -> &rightlink_env::Budget {
        &self.engine().env.budget
    }

    /// A sort of records by the bytes of their keys, for layers whose rows do not fit into memory:
    /// what `memory` bytes of the budget cannot hold goes to temporary files of the database.
    ///
    /// # Errors
    /// `OutOfMemory` if the budget has no room for the least that a sort takes.
    pub fn sorter(&self, memory: usize) -> Result<Sorter> {
        let engine = self.engine();
        engine.check_open()?;
        Sorter::new(&engine.env.budget, &engine.temp, memory)
    }

    /// How reads and writes reach the device in truth, after a fallback.
    pub fn method(&self) -> Method {
        self.engine().io.method()
    }

    /// Most reads at once that the device serves well.
    pub fn device_depth(&self) -> u32 {
        self.engine().pool.device_depth()
    }

    /// Wall-clock time in microseconds since 1970-01-01 00:00 UTC, simulated if the database's
    /// clock is. For display and for values; nothing in the store depends on it.
    pub fn unix_micros(&self) -> i64 {
        self.engine().env.clock.unix_micros()
    }
}
