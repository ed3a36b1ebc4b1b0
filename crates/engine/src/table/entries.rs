//! Index entries of a statement, on their way into all indexes of the table.
//!
//! Every method puts its entries into its own order and names the pages that they belong on; the
//! pages of all indexes are read through one stream, which runs ahead of the insertion, and each
//! group of entries goes onto its page when that is there. A page that is named is a guess, which
//! the method judges again under its latch (R6). Where everything is in memory the stream issues
//! nothing, and naming a page takes the place of the descent that found it.
//!
//! Invariants: of the waits for others none holds a latch or a pin, and a group goes on where it
//! stopped.
//! Does not do: heap rows; choose pages.

use crate::buffer::{Delivery, Pin, ReadStream, StreamOptions};
use crate::error::{Error, Result};
use crate::ids::Xid;
use crate::index::am::InsertOutcome;
use crate::index::{HeapOracle, IndexEntry};
use crate::txn::Transaction;

use super::oracle::TableOracle;
use super::statement::Statement;
use super::{Table, TableIndex};

/// Pages that are read ahead, if pool and device bear it.
const MAX_AHEAD: u32 = 256;

impl Table {
    /// Inserts `batches`, the entries for every index.
    pub(super) fn insert_entries(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        mut batches: Vec<Vec<IndexEntry<'_>>>,
    ) -> Result<()> {
        assert_eq!(batches.len(), self.indexes.len(), "entries for every index");
        for (index, batch) in self.indexes.iter().zip(&mut batches) {
            index.method.order(batch);
        }
        let mut groups =
            self.indexes.iter().zip(&batches).enumerate().flat_map(|(which, (index, batch))| {
                index.method.groups(batch, index.def.unique).map(move |group| (which, group))
            });
        let max_distance = if statement.reads_ahead() { MAX_AHEAD } else { 1 };
        let options = StreamOptions { delivery: Delivery::Ordered, max_distance, needed: false };
        let source = || {
            let Some((which, group)) = groups.next() else { return Ok(None) };
            let group = group?;
            Ok(Some((group.page, (which, group.entries))))
        };
        let mut stream = ReadStream::new(self.heap.pool(), options, source);
        while let Some((page, (which, entries))) = stream.next()? {
            let entries = &batches[which][entries];
            self.insert_group(statement, xid, &self.indexes[which], (entries, page))?;
        }
        Ok(())
    }

    /// Inserts entries that probably belong on `page`.
    fn insert_group(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        index: &TableIndex,
        (entries, page): (&[IndexEntry<'_>], Pin),
    ) -> Result<()> {
        let mut done = 0;
        let mut page = Some(page);
        loop {
            let rest = &entries[done..];
            let outcome = self.try_group(statement.txn(), xid, index, (rest, page.take()))?;
            done += outcome.inserted(rest.len());
            match outcome {
                InsertOutcome::Inserted => return Ok(()),
                InsertOutcome::Duplicate(..) => return Err(self.violation(index, &entries[done])),
                InsertOutcome::Wait(_, other) => statement.txn().wait_for(other)?,
                InsertOutcome::NeedsRow(..) => unreachable!("rows are read inside an attempt"),
            }
        }
    }

    /// Goes on until the group is in or stopped by another row; reads heap pages on the way.
    fn try_group(
        &self,
        txn: &Transaction,
        xid: Xid,
        index: &TableIndex,
        (entries, mut page): (&[IndexEntry<'_>], Option<Pin>),
    ) -> Result<InsertOutcome> {
        let owns = |xid| txn.owns(xid);
        let oracle = TableOracle::new(&self.heap, &owns);
        let unique = index.def.unique.then_some(&oracle as &dyn HeapOracle);
        let mut done = 0;
        loop {
            let rest = &entries[done..];
            let outcome = index.method.insert_group(xid, rest, unique, page.take())?;
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
