//! Locking a row until the transaction ends, for a change that comes later.
//!
//! Does not do: shared locks, predicate locks.

use crate::error::Result;
use crate::ids::RowId;

use super::Table;
use super::delete::Wanted;
use super::statement::Statement;
use super::write::Written;

impl Table {
    /// Locks the row at `row` if it is `wanted`. The closure's last call saw the locked version.
    pub fn lock_row(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        wanted: Wanted<'_>,
    ) -> Result<Written> {
        statement.write(|statement| {
            let prepare = |at, bytes: &[u8]| {
                let wanted = wanted(&self.read_row(at, bytes)?)?;
                Ok(wanted.then_some(()))
            };
            self.write_row(statement, row, prepare, |statement, row, ()| {
                self.heap.lock(statement.txn(), row)
            })
        })
    }
}
