//! Updating and deleting many rows as one statement: heap pages in the heap's order and ahead, the
//! entries of all new versions into all indexes at once. Whoever finds the rows one after the other
//! (SQL) has the entries go in together likewise.
//!
//! Until the entries of a portion go in, their rows' new versions have none. That is sound: nobody
//! but this transaction sees them, its snapshot does not see this statement's changes, and a rival
//! for a unique key is met when the entry goes in (R8). What is under way counts against the memory
//! budget; a portion that has used its share goes in before the next one begins.
//!
//! Invariants: an error undoes all of it, as with a single row.
//! Does not do: unique keys that change places across two portions.

use rightlink_env::sync::Arc;
use rightlink_env::{Budget, Reservation};

use crate::buffer::ReadStream;
use crate::datum::Value;
use crate::error::Result;
use crate::heap::WriteOutcome;
use crate::ids::RowId;
use crate::txn::RowVersion;

use super::Table;
use super::delete::Wanted;
use super::entries::options;
use super::insert::{ENTRY_BYTES, LEAST_MEMORY, MEMORY_SHARE, ROW_BYTES};
use super::online::GoOn;
use super::statement::Statement;
use super::update::{Change, ChangeAt, NEW, Update};
use super::write::Written;

/// Told of each row that was written.
pub type Done<'a> = &'a mut dyn FnMut(RowId);

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
    /// Updates rows; how many. A row that is named twice is updated once. `change` is called for
    /// the rows in the heap's order, and after its last call for a row that was written `done`. As
    /// for [`Table::update_only`], it may change and look at the places `only` alone. An error of
    /// `go_on` is one of the statement.
    pub fn update_many(
        &self,
        statement: &mut Statement<'_>,
        rows: &[RowId],
        (only, change): (Option<&[usize]>, Change<'_>),
        (go_on, done): (GoOn<'_>, Done<'_>),
    ) -> Result<u64> {
        statement.write(|statement| {
            let memory = self.memory_for_many(rows.len());
            let most = memory.as_ref().map_or(0, Reservation::bytes).max(LEAST_MEMORY);
            let mut pending = Pending::default();
            let count = self.in_heap_order(statement, rows, &mut |statement, row| {
                go_on()?;
                let how = &mut |_, old: &[Value]| change(old);
                let written = self.update_later(statement, row, (only, how), &mut pending)?;
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
            let written = self.update_later(statement, row, (None, change), pending)?;
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
        (go_on, done): (GoOn<'_>, Done<'_>),
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
        let mut next = rows.iter().copied();
        let source = || {
            let Some(row) = next.next() else { return Ok(None) };
            Ok(Some((inside(&row).then(|| self.heap.page_id(row.block.0)), row)))
        };
        let mut stream = ReadStream::lent_sparse(self.heap.pool(), options(statement), source);
        let mut done = 0;
        while let Some((page, row)) = stream.next_entry()? {
            drop(page);
            done += u64::from(matches!(write(statement, row)?, Written::Done(_)));
        }
        Ok(done)
    }

    /// Updates a row in the heap, and notes the entries that it needs.
    fn update_later(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        (only, change): (Option<&[usize]>, ChangeAt<'_>),
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
        let xid = statement.txn().xid()?;
        let entries = |index: usize| {
            rows.iter().filter_map(|(update, row)| update.keys[index].entry(NEW, *row)).collect()
        };
        let batches = (0..self.indexes.len()).map(entries).collect();
        self.insert_entries(statement, xid, batches)
    }

    /// Memory for what `rows` changed rows may have under way, if the budget can spare it.
    fn memory_for_many(&self, rows: usize) -> Option<Reservation> {
        let budget = self.heap.pool().budget();
        let most = (budget.limit() / MEMORY_SHARE).min(budget.available() / 2);
        let each = ROW_BYTES + (1 + self.indexes.len()) * 2 * ENTRY_BYTES;
        budget.try_reserve(rows.saturating_mul(each).min(most))
    }
}
