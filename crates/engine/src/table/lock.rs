//! Locking a row until the transaction ends, for a change that comes later.
//!
//! Does not do: shared locks, predicate locks.

use crate::error::Result;
use crate::ids::RowId;

use super::Table;
use super::delete::Wanted;
use super::statement::{Busy, Statement};
use super::write::Written;

impl Table {
    /// Locks the row at `row` if it is `wanted`. The closure's last call saw the locked version.
    /// What is done about a row that another transaction has is for `busy` to say; a failure undoes
    /// what the statement has done.
    pub fn lock_row(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        wanted: Wanted<'_>,
        busy: Busy,
    ) -> Result<Written> {
        let lock = |statement: &mut Statement<'_>| {
            let prepare = |at, bytes: &[u8]| {
                let wanted = wanted(&self.read_row(at, bytes)?)?;
                Ok(wanted.then_some(()))
            };
            self.write_row(statement, row, prepare, |statement, row, ()| {
                self.heap.lock(statement.txn(), row)
            })
        };
        statement.write(|statement| statement.when_busy(busy, lock))
    }
}
