//! Deleting a row: its version gets an end; index entries leave with vacuum.
//!
//! Does not do: anything to indexes.

use crate::datum::Value;
use crate::error::Result;
use crate::ids::RowId;

use super::Table;
use super::statement::Statement;
use super::write::Written;

/// Is the row still wanted? Called again if it has changed.
pub type Wanted<'a> = &'a mut dyn FnMut(&[Value]) -> Result<bool>;

impl Table {
    /// Deletes the row at `row` if it is `wanted`.
    pub fn delete(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        wanted: Wanted<'_>,
    ) -> Result<Written> {
        statement.write(|statement| self.delete_one(statement, row, wanted))
    }

    /// As [`Table::delete`], as a part of a write.
    pub(super) fn delete_one(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        wanted: Wanted<'_>,
    ) -> Result<Written> {
        let prepare = |at, bytes: &[u8]| {
            let wanted = wanted(&self.read_row(at, bytes)?)?;
            Ok(wanted.then_some(()))
        };
        self.write_row(statement, row, prepare, |statement, old, ()| {
            self.heap.delete(statement.txn(), old)
        })
    }
}
