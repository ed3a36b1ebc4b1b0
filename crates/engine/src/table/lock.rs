//! Locking a row until the transaction ends, for a change that comes later, or against those of
//! others.
//!
//! Does not do: predicate locks.

use crate::error::Result;
use crate::ids::RowId;
use crate::txn::{RowLock, RowVersion};

use super::Table;
use super::delete::WantedAt;
use super::statement::{Busy, Statement};
use super::write::Written;

impl Table {
    /// Locks the row at `row` if it is `wanted`, or whatever it is. The closure's last call saw the
    /// locked version and where it lies. What is done about a row that another transaction has is
    /// for `busy` to say; a failure undoes what the statement has done.
    pub fn lock_row(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        mut wanted: Option<WantedAt<'_>>,
        (lock, busy): (RowLock, Busy),
    ) -> Result<Written> {
        let work = |statement: &mut Statement<'_>| {
            let prepare = |_: &mut Statement<'_>, at, bytes: &[u8]| {
                let Some(wanted) = &mut wanted else { return Ok(Some(())) };
                Ok(wanted(at, &self.read_row(at, bytes)?)?.then_some(()))
            };
            let mut asked = None;
            self.write_row(statement, row, prepare, |statement, row, ()| {
                if asked.replace(row.at) != Some(row.at) {
                    self.wait_behind_writer(statement, row.at, lock)?;
                }
                self.heap.lock(statement.txn(), row, lock)
            })
        };
        statement.write(|statement| statement.when_busy(busy, work))
    }

    /// Before sharing the row at `at`, lets somebody go first who waits for those that share it
    /// already. Who has a lock of it need not, and who would not wait for a lock does not.
    fn wait_behind_writer(
        &self,
        statement: &mut Statement<'_>,
        at: RowId,
        lock: RowLock,
    ) -> Result<()> {
        let version = RowVersion { table: self.def.id, row: at };
        let waits = statement.busy() == Busy::Wait;
        let txn = statement.txn();
        if !waits || !txn.has_priority_writer(version, lock) || self.heap.is_locked_by(txn, at)? {
            return Ok(());
        }
        txn.wait_behind_writer(version, lock)
    }
}
