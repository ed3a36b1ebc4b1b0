//! Inserting rows: all keys are made first, then the heap, then the indexes.
//!
//! Invariants: whatever can be refused without looking at other rows is refused before any change.
//! Does not do: conflict clauses ("on conflict do ..."), which begin with a fetch by key.

use crate::datum::Value;
use crate::error::Result;
use crate::ids::RowId;
use crate::txn::LockMode;

use super::keys::Keys;
use super::statement::Statement;
use super::{Table, row};

impl Table {
    /// Inserts a row: one value per live column.
    pub fn insert(&self, statement: &mut Statement<'_>, row: Vec<Value>) -> Result<RowId> {
        let ids = self.insert_many(statement, &[row])?;
        Ok(*ids.first().expect("one row gives one row id"))
    }

    /// Inserts rows, all or none of them, and gives back their row ids in order.
    pub fn insert_many(
        &self,
        statement: &mut Statement<'_>,
        rows: &[Vec<Value>],
    ) -> Result<Vec<RowId>> {
        statement.write(|statement| {
            rows.iter().try_for_each(|row| self.def.check_row(row))?;
            let encode = |values: &Vec<Value>| row::encode(&self.def, values);
            let encoded = rows.iter().map(encode).collect::<Result<Vec<_>>>()?;
            let keys = self.make_keys(rows)?;
            statement.txn().lock_table(self.def.id, LockMode::Write)?;
            let xid = statement.txn().xid()?;
            let bytes: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
            let ids = self.heap.insert_many(xid, &bytes)?;
            let batches = keys.iter().map(|keys| keys.entries(&ids)).collect();
            self.insert_entries(statement, xid, batches)?;
            Ok(ids)
        })
    }

    /// The entries of `rows` for every index.
    pub(super) fn make_keys(&self, rows: &[Vec<Value>]) -> Result<Vec<Keys>> {
        self.indexes.iter().map(|index| index.keys.make(rows)).collect()
    }
}
