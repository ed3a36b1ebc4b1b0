//! Updates and deletions of many rows as one statement.
//!
//! A [`RowFetcher`] reads the heap pages ahead, in the heap's order. The entries of the new
//! versions go into all indexes together, in portions that fit the statement's share of the memory
//! budget. A caller that finds its rows one after the other, as SQL does, collects them in
//! [`Pending`].
//!
//! Invariants: an error undoes all of it, as with a single row. Between a new version and its
//! entries only this transaction sees the version, and the statement's snapshot does not. A rival
//! for a unique key is met when the entry goes in (R8).
//! Does not do: unique keys that change places across two portions.

use rightlink_env::sync::Arc;
use rightlink_env::{Budget, Reservation};

use crate::buffer::ReadStream;
use crate::datum::Value;
use crate::error::Result;
use crate::heap::WriteOutcome;
use crate::ids::RowId;
use crate::txn::RowVersion;

use crate::table::Table;
use crate::table::read::row_fetcher::{FetchQueue, Grouping, RowFetcher};
use crate::table::write::Written;
use crate::table::write::delete::Wanted;
use crate::table::write::entries::options;
use crate::table::write::insert::{ENTRY_BYTES, LEAST_MEMORY, MEMORY_SHARE, ROW_BYTES};
use crate::table::write::statement::{GoOn, Statement};
use crate::table::write::update::{Change, ChangeAt, NEW, Update};

/// Told of each row that was written.
pub type Done<'a> = &'a mut dyn FnMut(RowId);

/// An update of many rows.
pub struct BulkUpdate<'a> {
    /// The only places that `change` reads and changes; `None`: any ([`Table::update_only`]).
    pub only: Option<&'a [usize]>,
    /// Called for the rows in the heap's order.
    pub change: Change<'a>,
    /// Called before each row. Its error is one of the statement.
    pub go_on: GoOn<'a>,
    /// Called for each row that was written, after the last call of `change` for it.
    pub done: Done<'a>,
}

/// New versions whose entries are still to go in.
#[derive(Default)]
pub struct Pending {
    rows: Vec<(Arc<Update>, RowId)>,
    bytes: usize,
    /// What the budget gave for them, where there was need to ask.
    memory: Option<Reservation>,
}

impl Pending {
    /// Does none wait?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Is there memory for them, or can the budget spare some?
    fn has_room(&mut self, budget: &Budget) -> bool {
        let (bytes, most) = (self.bytes, budget.limit() / MEMORY_SHARE);
        if bytes <= self.memory.as_ref().map_or(0, Reservation::bytes).max(LEAST_MEMORY) {
            return true;
        }
        if bytes > most || bytes > budget.available() / 2 {
            return false;
        }
        match &mut self.memory {
            Some(memory) => memory.grow(bytes),
            None => {
                self.memory = budget.try_reserve(2 * bytes);
                self.memory.is_some()
            }
        }
    }
}

impl Table {
    /// Updates rows and returns how many. A row that is named twice is updated once.
    pub fn update_many(
        &self,
        statement: &mut Statement<'_>,
        rows: &[RowId],
        update: BulkUpdate<'_>,
    ) -> Result<u64> {
        let BulkUpdate { only, change, go_on, done } = update;
        statement.write(|statement| {
            let each = ROW_BYTES + (1 + self.indexes.len()) * 2 * ENTRY_BYTES;
            let memory = self.reserve_for_statement(rows.len().saturating_mul(each));
            let most = memory.as_ref().map_or(0, Reservation::bytes).max(LEAST_MEMORY);
            let mut pending = Pending::default();
            let count = self.in_heap_order(statement, rows, &mut |statement, row| {
                go_on()?;
                let how = &mut |_, old: &[Value]| change(old);
                let written = self.update_later(statement, row, only, how, &mut pending)?;
                if let Written::Done(id) = written {
                    done(id);
                }
                if pending.bytes > most {
                    self.insert_pending(statement, &mut pending)?;
                }
                Ok(written)
            })?;
            self.insert_pending(statement, &mut pending)?;
            self.clean_some()?;
            Ok(count)
        })
    }

    /// Updates the row at `row` by what `change`, told where the version lies, makes of it. The
    /// entries of the new version go in with those of other rows, at [`Table::finish_updates`] at
    /// the latest, which the statement must come to.
    pub fn update_at(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        change: ChangeAt<'_>,
        pending: &mut Pending,
    ) -> Result<Written> {
        statement.write(|statement| {
            let written = self.update_later(statement, row, None, change, pending)?;
            if !pending.has_room(self.heap.pool().budget()) {
                self.insert_pending(statement, pending)?;
            }
            self.clean_some()?;
            let named = RowVersion { table: self.def.id, row };
            match written {
                // The caller is given another row's new id.
                Written::Done(made) if statement.txn().current_row_id(named) == row => {
                    self.check_name(statement, made)?;
                }
                _ => {}
            }
            Ok(written)
        })
    }

    /// The entries go in of all rows whose entries still wait.
    pub fn finish_updates(
        &self,
        statement: &mut Statement<'_>,
        pending: &mut Pending,
    ) -> Result<()> {
        match pending.is_empty() {
            true => Ok(()),
            false => statement.write(|statement| self.insert_pending(statement, pending)),
        }
    }

    /// Deletes rows; how many. A row that is named twice is deleted once. After the last call of
    /// `wanted` for a row that was deleted comes one of `done`.
    pub fn delete_many(
        &self,
        statement: &mut Statement<'_>,
        rows: &[RowId],
        mut wanted: Option<Wanted<'_>>,
        go_on: GoOn<'_>,
        done: Done<'_>,
    ) -> Result<u64> {
        statement.write(|statement| {
            self.in_heap_order(statement, rows, &mut |statement, row| {
                go_on()?;
                let written = match &mut wanted {
                    Some(wanted) => {
                        self.delete_one(statement, row, Some(&mut |_, values| wanted(values)))?
                    }
                    None => self.delete_one(statement, row, None)?,
                };
                if let Written::Done(id) = written {
                    done(id);
                }
                Ok(written)
            })
        })
    }

    /// Calls `write` for each row while its page is in memory; how many it wrote.
    fn in_heap_order(
        &self,
        statement: &mut Statement<'_>,
        rows: &[RowId],
        write: &mut dyn FnMut(&mut Statement<'_>, RowId) -> Result<Written>,
    ) -> Result<u64> {
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        rows.dedup();
        // A row id outside the table is for `write` to judge.
        let end = self.heap.blocks();
        let inside = |row: &RowId| (1..end).contains(&row.block.0);
        let (list, mut rest, mut queue) = (&rows[..], 0..rows.len(), FetchQueue::default());
        let source = || {
            let next = queue.pop();
            let next = next.or_else(|| queue.refill(&list, &mut rest, false, Grouping::Adjacent));
            let Some(batch) = next else { return Ok(None) };
            let row = list[batch.first()];
            Ok(Some((inside(&row).then(|| self.heap.page_id(row.block.0)), batch)))
        };
        let stream = ReadStream::lent_sparse(self.heap.pool(), options(statement), source);
        let mut fetcher = RowFetcher::new(stream);
        let mut done = 0;
        while let Some(row) = fetcher.next_row_id()? {
            done += u64::from(matches!(write(statement, row)?, Written::Done(_)));
        }
        Ok(done)
    }

    /// Updates a row in the heap, and notes the entries that it needs.
    fn update_later(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        only: Option<&[usize]>,
        change: ChangeAt<'_>,
        pending: &mut Pending,
    ) -> Result<Written> {
        let prepare = |statement: &mut Statement<'_>, at, bytes: &[u8]| {
            let old = self.read_old(at, bytes, only)?;
            let Some(new) = change(at, &old.values)? else { return Ok(None) };
            self.prepare_update(statement, old, new, None).map(|update| Some(Arc::new(update)))
        };
        self.write_row(statement, row, prepare, |statement, old, update| {
            let outcome = self.replace_in_heap(statement, old, update)?;
            if let WriteOutcome::Done { row_id, heap_only: false, .. } = outcome {
                let entries = self.indexes.len() * (ENTRY_BYTES + update.bytes.len());
                pending.bytes += ROW_BYTES + update.bytes.len() + entries;
                pending.rows.push((Arc::clone(update), row_id));
            }
            Ok(outcome)
        })
    }

    fn insert_pending(&self, statement: &mut Statement<'_>, pending: &mut Pending) -> Result<()> {
        if pending.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut pending.rows);
        pending.bytes = 0;
        let _insertion = self.begin_insertion(rows.len());
        let xid = statement.txn().xid()?;
        let entries = |index: usize| {
            rows.iter().filter_map(|(update, row)| update.keys[index].entry(NEW, *row)).collect()
        };
        let batches = (0..self.indexes.len()).map(entries).collect();
        self.insert_entries(statement, xid, batches)
    }
}
