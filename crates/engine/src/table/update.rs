//! Updating a row: a new version in the heap, and index entries for it unless it is heap-only.
//!
//! Invariants: an update is heap-only only if the entry of every index has the same bytes before
//! and after it (R10); else every index gets an entry for the new version, the unchanged ones too,
//! because the new version has another row id.
//! Does not do: unique keys that change places within one statement; each row is checked by itself.

use rightlink_env::points::broken;

use crate::datum::Value;
use crate::error::{Error, Result};
use crate::heap::{Target, WriteOutcome};
use crate::ids::{PageId, RowId};

use super::Table;
use super::keys::Keys;
use super::row::{self, Malformed};
use super::statement::Statement;
use super::write::Written;

/// Makes the new row from the old one; `None` leaves it alone. Called again with the newest
/// version if another transaction changed the row first.
pub type Change<'a> = &'a mut dyn FnMut(&[Value]) -> Result<Option<Vec<Value>>>;

/// A new row, ready to be written.
pub(super) struct Update {
    pub(super) bytes: Vec<u8>,
    /// Per index the entries of the old and the new row.
    pub(super) keys: Vec<Keys>,
    /// Would the entry in an index that is only counted in change? (R10)
    pub(super) same_when_counted: bool,
}

/// Places of the two rows in [`Update::keys`].
const OLD: usize = 0;
pub(super) const NEW: usize = 1;

impl Table {
    /// Updates the row at `row`: one value per live column in, one per live column out.
    pub fn update(
        &self,
        statement: &mut Statement<'_>,
        row: RowId,
        change: Change<'_>,
    ) -> Result<Written> {
        statement.write(|statement| {
            let prepare = |at, bytes: &[u8]| {
                let old = self.read_row(at, bytes)?;
                let new = change(&old)?;
                new.map(|new| self.prepare_update(old, new)).transpose()
            };
            let written = self.write_row(statement, row, prepare, |statement, old, update| {
                self.replace(statement, old, update)
            });
            self.clean_some()?;
            written
        })
    }

    /// Checks and encodes the new row.
    pub(super) fn prepare_update(&self, old: Vec<Value>, new: Vec<Value>) -> Result<Update> {
        self.def.check_row(&new)?;
        let bytes = row::encode(&self.def, &new)?;
        let rows = [old, new];
        let same_when_counted = self.same_when_counted(&rows);
        Ok(Update { bytes, keys: self.make_keys(&rows)?, same_when_counted })
    }

    pub(super) fn replace(
        &self,
        statement: &mut Statement<'_>,
        old: Target,
        update: &Update,
    ) -> Result<WriteOutcome> {
        let outcome = self.replace_in_heap(statement, old, update)?;
        if let WriteOutcome::Done { row_id, heap_only: false, .. } = outcome {
            let xid = statement.txn().xid()?;
            let new = update.keys.iter().map(|keys| vec![keys.entry(NEW, row_id)]);
            self.insert_entries(statement, xid, new.collect())?;
        }
        Ok(outcome)
    }

    /// The new version alone; unless it is heap-only, it needs entries.
    pub(super) fn replace_in_heap(
        &self,
        statement: &mut Statement<'_>,
        old: Target,
        update: &Update,
    ) -> Result<WriteOutcome> {
        let unchanged = update.keys.iter().all(|keys| keys.same(OLD, NEW));
        let hot = unchanged && update.same_when_counted || broken("r10-hot");
        let outcome = self.heap.update(statement.txn(), old, &update.bytes, hot)?;
        let heap_only = matches!(outcome, WriteOutcome::Done { heap_only: true, .. });
        assert!(hot || !heap_only, "R10: the heap makes no heap-only version unasked");
        Ok(outcome)
    }

    /// All live columns of the version at `at`.
    pub(super) fn read_row(&self, at: RowId, bytes: &[u8]) -> Result<Vec<Value>> {
        let values = row::Projection::all(&self.def).read(&self.def, bytes);
        values.map_err(|what| self.damaged_row(at, what))
    }

    /// The error for a row that cannot be read.
    pub(super) fn damaged_row(&self, at: RowId, Malformed(what): Malformed) -> Error {
        let page = PageId { file: self.def.heap, block: at.block };
        Error::corrupt(page, format!("row {at} of table {}: {what}", self.def.name))
    }
}
