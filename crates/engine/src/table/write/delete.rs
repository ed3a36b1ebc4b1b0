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

/// Decides whether a row is written, from the row id of its version and its values. It is called
/// again if another transaction changed the row first.
///
/// ```
/// use rightlink::{Value, Written};
/// # use rightlink::{TableSchema, Type};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// # let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
/// let deleted = txn.write("n", |writer| {
///     let mut large = |_, row: &[Value]| Ok(row[1] > Value::Int8(100));
///     writer.delete(id, &mut large)
/// })?;
/// assert_eq!(deleted, Written::Skipped);
/// # Ok(())
/// # }
/// ```
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
