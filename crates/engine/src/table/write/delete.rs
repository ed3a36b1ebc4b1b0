//! Deletion of a row: its version gets an xmax. `clean` or vacuum removes the index entries.
//!
//! Does not do: change indexes.
//! PostgreSQL: `heap_delete`.

use crate::datum::Value;
use crate::error::Result;
use crate::ids::RowId;

use crate::table::Table;
use crate::table::write::Written;
use crate::table::write::statement::Statement;

/// Is the row still wanted? Called again if it has changed.
pub type Wanted<'a> = &'a mut dyn FnMut(&[Value]) -> Result<bool>;

/// Is the row still wanted? It gets the place of the version, too. Called again if the row has
/// changed.
pub type WantedAt<'a> = &'a mut dyn FnMut(RowId, &[Value]) -> Result<bool>;

impl Table {
    /// Deletes the row at `row` if it is `wanted`.
    pub fn delete(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        wanted: Wanted<'_>,
    ) -> Result<Written> {
        let mut wanted = |_, values: &[Value]| wanted(values);
        self.delete_at(statement, row, &mut wanted)
    }

    /// As [`Table::delete`], where `wanted` is told which version it is that it is given.
    pub fn delete_at(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        wanted: WantedAt<'_>,
    ) -> Result<Written> {
        statement.write(|statement| self.delete_one(statement, row, Some(wanted)))
    }

    /// Deletes the row at `row`, whatever it is.
    pub fn remove(&self, statement: &mut Statement<'_>, row: RowId) -> Result<Written> {
        statement.write(|statement| self.delete_one(statement, row, None))
    }

    /// As [`Table::delete`] or [`Table::remove`], as a part of a write.
    pub(super) fn delete_one(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        mut wanted: Option<WantedAt<'_>>,
    ) -> Result<Written> {
        let prepare = |_: &mut Statement<'_>, at, bytes: &[u8]| {
            let Some(wanted) = &mut wanted else { return Ok(Some(())) };
            Ok(wanted(at, &self.read_row(at, bytes)?)?.then_some(()))
        };
        self.write_row(statement, row, prepare, |statement, old, ()| {
            self.heap.delete(statement.txn(), old)
        })
    }
}
