//! Inserting rows: all keys are made first, then the heap, then one index after the other.
//!
//! Invariants: whatever can be refused without looking at other rows is refused before any change;
//! of the waits for others none holds a latch or a pin, and the batch goes on where it stopped.
//! Does not do: conflict clauses ("on conflict do ..."), which begin with a fetch by key.

use crate::datum::Value;
use crate::error::{Error, Result};
use crate::ids::{RowId, Xid};
use crate::index::am::InsertOutcome;
use crate::index::{HeapOracle, IndexEntry};
use crate::txn::{LockMode, Transaction};

use super::keys::Keys;
use super::oracle::TableOracle;
use super::statement::Statement;
use super::{Table, TableIndex, row};

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
            self.insert_entries(statement, xid, &keys, &ids)?;
            Ok(ids)
        })
    }

    /// The entries of `rows` for every index.
    pub(super) fn make_keys(&self, rows: &[Vec<Value>]) -> Result<Vec<Keys>> {
        self.indexes.iter().map(|index| index.keys.make(rows)).collect()
    }

    /// Inserts the entries of all indexes for the versions `ids`.
    pub(super) fn insert_entries(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        keys: &[Keys],
        ids: &[RowId],
    ) -> Result<()> {
        assert_eq!(keys.len(), self.indexes.len(), "keys for every index");
        for (index, keys) in self.indexes.iter().zip(keys) {
            self.insert_batch(statement, xid, index, &mut keys.entries(ids))?;
        }
        Ok(())
    }

    pub(super) fn insert_batch(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        index: &TableIndex,
        entries: &mut [IndexEntry<'_>],
    ) -> Result<()> {
        let mut done = 0;
        loop {
            let rest = &mut entries[done..];
            let outcome = self.try_batch(statement.txn(), xid, index, rest)?;
            done += outcome.inserted(rest.len());
            match outcome {
                InsertOutcome::Inserted => return Ok(()),
                InsertOutcome::Duplicate(..) => return Err(self.violation(index, &entries[done])),
                InsertOutcome::Wait(_, other) => statement.txn().wait_for(other)?,
                InsertOutcome::NeedsRow(..) => unreachable!("rows are read inside an attempt"),
            }
        }
    }

    /// Goes on until the batch is in or stopped by another row; reads heap pages on the way.
    fn try_batch(
        &self,
        txn: &Transaction,
        xid: Xid,
        index: &TableIndex,
        entries: &mut [IndexEntry<'_>],
    ) -> Result<InsertOutcome> {
        let owns = |xid| txn.owns(xid);
        let oracle = TableOracle::new(&self.heap, &owns);
        let unique = index.def.unique.then_some(&oracle as &dyn HeapOracle);
        let mut done = 0;
        loop {
            let rest = &mut entries[done..];
            let outcome = index.method.insert_batch(xid, rest, unique)?;
            let before = done;
            done += outcome.inserted(rest.len());
            match outcome {
                InsertOutcome::NeedsRow(_, row) => oracle.prepare(row)?,
                InsertOutcome::Inserted => return Ok(outcome),
                InsertOutcome::Duplicate(at, row) => {
                    return Ok(InsertOutcome::Duplicate(before + at, row));
                }
                InsertOutcome::Wait(at, xid) => return Ok(InsertOutcome::Wait(before + at, xid)),
            }
        }
    }

    fn violation(&self, index: &TableIndex, entry: &IndexEntry<'_>) -> Error {
        Error::UniqueViolation {
            table: self.def.name.clone(),
            index: index.def.name.clone(),
            key: index.keys.show(entry.key),
        }
    }
}
