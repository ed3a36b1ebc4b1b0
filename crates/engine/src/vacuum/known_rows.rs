//! Dead rows whose bytes are still known, so that their index entries can be found by key.
//!
//! Invariants: the memory is bounded and reserved from the budget. If one row does not fit, none is
//! known until the next pass, since only a complete list spares an index pass.
//! Does not do: rows that were pruned before this run and left the queue.

use rightlink_env::{Budget, Reservation};

use super::DeadRows;
use crate::heap::DeadRoot;

/// Bytes that the list takes for a row, beside the row.
const PER_ROW: usize = 2 * size_of::<DeadRoot>();

/// Dead rows with their bytes.
pub(super) struct KnownRows {
    rows: Vec<DeadRoot>,
    bytes: usize,
    limit: usize,
    /// A row did not fit.
    incomplete: bool,
    _memory: Option<Reservation>,
}

impl KnownRows {
    /// Knows at most `limit` bytes of rows, nothing if the budget has not that much.
    pub(super) fn new(budget: &Budget, limit: usize) -> KnownRows {
        let memory = budget.try_reserve(limit);
        let limit = if memory.is_some() { limit } else { 0 };
        KnownRows { rows: Vec::new(), bytes: 0, limit, incomplete: false, _memory: memory }
    }

    /// Bytes reserved for it.
    pub(super) fn reserved(&self) -> usize {
        self.limit
    }

    /// Adds rows that died.
    pub(super) fn add(&mut self, rows: Vec<DeadRoot>) {
        for row in rows {
            let bytes = row.row.capacity() + PER_ROW;
            if self.incomplete || self.bytes + bytes > self.limit {
                self.forget();
                self.incomplete = true;
                return;
            }
            self.bytes += bytes;
            self.rows.push(row);
        }
    }

    /// Takes the rows of `dead` out, in order; `None` if one of them is not known.
    pub(super) fn take(&mut self, dead: &DeadRows) -> Option<Vec<DeadRoot>> {
        let mut rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        rows.sort_by_key(|row| row.row_id);
        let mut asked = dead.cursor();
        rows.retain(|row| asked.contains(row.row_id));
        // If a row id died twice, the later death counts: the first row was freed in between.
        rows.dedup_by(|later, earlier| {
            let same = later.row_id == earlier.row_id;
            if same && later.pruned_at > earlier.pruned_at {
                std::mem::swap(later, earlier);
            }
            same
        });
        (rows.len() == dead.len()).then_some(rows)
    }

    /// Takes all out.
    pub(super) fn drain(&mut self) -> Vec<DeadRoot> {
        self.bytes = 0;
        std::mem::take(&mut self.rows)
    }

    /// Forgets all, for the next pass.
    pub(super) fn clear(&mut self) {
        self.forget();
        self.incomplete = false;
    }

    fn forget(&mut self) {
        self.rows = Vec::new();
        self.bytes = 0;
    }
}
