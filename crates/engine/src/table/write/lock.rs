//! Lock of a row until the transaction ends, before a later change or against changes by others.
//!
//! Does not do: predicate locks.
//! PostgreSQL: `heap_lock_tuple`.

use crate::error::Result;
use crate::ids::RowId;
use crate::txn::{RowLock, RowVersion};

use crate::table::Table;
use crate::table::write::Written;
use crate::table::write::delete::WantedAt;
use crate::table::write::statement::{Busy, Statement};

impl Table {
    /// Locks the row at `row` if it is `wanted`, or whatever it is. The closure's last call saw the
    /// locked version and where it lies. What is done about a row that another transaction has is
    /// for `busy` to say; a failure undoes what the statement has done.
    pub fn lock_row(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        mut wanted: Option<WantedAt<'_>>,
        lock: RowLock,
        busy: Busy,
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

    /// Before this statement shares the row at `at`, a writer that waits for the present sharers
    /// goes first. A statement that has a lock of the row, or that waits for no lock, passes.
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
