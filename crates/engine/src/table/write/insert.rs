//! Insertion of rows: first all keys, then the heap, then the indexes.
//!
//! A statement with very many rows inserts them in portions. A portion and what is made of it fits
//! the statement's share of the memory budget.
//!
//! Invariants: a row that can be refused without reading other rows is refused before any change,
//! also in the last portion.
//! Does not do: conflict clauses (`upsert`).
//! PostgreSQL: `heap_multi_insert`.

use rightlink_env::Reservation;

use crate::datum::Value;
use crate::error::Result;
use crate::ids::{RowId, Xid};
use crate::txn::LockMode;

use crate::table::Table;
use crate::table::definition::keys::Keys;
use crate::table::write::statement::Statement;

/// Of the memory budget, what one statement may prepare its rows in.
pub(super) const MEMORY_SHARE: usize = 16;
/// Memory for that, whatever the budget has left.
pub(super) const LEAST_MEMORY: usize = 64 << 10;
/// Bytes that a row takes beside its values, and each of its index entries beside its key.
pub(super) const ROW_BYTES: usize = 64;
pub(super) const ENTRY_BYTES: usize = 64;

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
            let needed = rows.iter().map(|row| self.bytes_of(row)).sum();
            let memory = self.reserve_for_statement(needed);
            let portions = self.portions(rows, memory.as_ref().map_or(0, Reservation::bytes));
            if portions.len() > 1 {
                portions.iter().try_for_each(|rows| self.try_encode(rows))?;
            }
            statement.txn().lock_table(self.def.id, LockMode::Write)?;
            let xid = statement.txn().xid()?;
            let mut ids = Vec::with_capacity(rows.len());
            for rows in portions {
                ids.extend(self.insert_portion(statement, xid, rows)?);
            }
            Ok(ids)
        })
    }

    fn insert_portion(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        rows: &[Vec<Value>],
    ) -> Result<Vec<RowId>> {
        let _insertion = self.begin_insertion(rows.len());
        let keys = self.make_keys(rows)?;
        let encode = |values: &Vec<Value>| self.encode_row(xid, values, &[]);
        let encoded = rows.iter().map(encode).collect::<Result<Vec<_>>>()?;
        let bytes: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
        let ids = self.heap.insert_many(xid, &bytes)?;
        ids.iter().try_for_each(|id| self.check_name(statement, *id))?;
        let batches = keys.iter().map(|keys| keys.entries(&ids)).collect();
        self.insert_entries(statement, xid, batches)?;
        Ok(ids)
    }

    /// Can `rows`, and their entries for every index, be stored at all?
    fn try_encode(&self, rows: &[Vec<Value>]) -> Result<()> {
        rows.iter().try_for_each(|values| self.plan_row(values, &[]).map(drop))?;
        self.make_keys(rows).map(drop)
    }

    /// Roughly the bytes that a row and its index entries take until they are in.
    fn bytes_of(&self, row: &[Value]) -> usize {
        let values: usize = row.iter().map(Value::memory_bytes).sum();
        ROW_BYTES + values + self.indexes.len() * (ENTRY_BYTES + values / 2)
    }

    /// Memory for the `needed` bytes that a statement has under way, or for the share of them that
    /// the budget can spare.
    pub(super) fn reserve_for_statement(&self, needed: usize) -> Option<Reservation> {
        let budget = self.heap.pool().budget();
        let most = (budget.limit() / MEMORY_SHARE).min(budget.available() / 2);
        budget.try_reserve(needed.min(most))
    }

    /// `rows` in portions of about `memory` bytes, and at least a few rows each.
    fn portions<'r>(&self, rows: &'r [Vec<Value>], memory: usize) -> Vec<&'r [Vec<Value>]> {
        let memory = memory.max(LEAST_MEMORY);
        let (mut portions, mut start, mut bytes) = (Vec::new(), 0, 0);
        for (at, row) in rows.iter().enumerate() {
            let more = self.bytes_of(row);
            if at > start && bytes + more > memory {
                portions.push(&rows[start..at]);
                (start, bytes) = (at, 0);
            }
            bytes += more;
        }
        portions.push(&rows[start..]);
        portions
    }

    /// The entries of `rows` for every index.
    pub(super) fn make_keys(&self, rows: &[Vec<Value>]) -> Result<Vec<Keys>> {
        self.indexes.iter().map(|index| index.keys.make(rows)).collect()
    }
}
