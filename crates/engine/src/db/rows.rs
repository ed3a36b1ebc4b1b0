//! Rows of a scan, handed out one by one.
//!
//! Invariants: owned and `Send`; rows are of the snapshot of their statement, whatever happens meanwhile; the
//! scan ends with its transaction, and between two rows it holds no latch and no pin; after an error
//! the same error comes again, so that no row is ever skipped silently.
//! Does not do: choosing the index.

use std::collections::VecDeque;

use rightlink_env::sync::{Arc, RwLock};

use crate::db::Row;
use crate::error::{Error, Result};
use crate::table::{IndexScanOptions, Projection, Scan, Table, TableIndex};
use crate::txn::Snapshot;

/// Is the transaction still running? Readers hold it shared while they read a row.
pub(crate) type Alive = Arc<RwLock<bool>>;

/// Rows of a scan: an owned, `Send` iterator over the snapshot of its statement. After an error it keeps
/// returning that error; after the end of its transaction it returns `Invalid`.
pub struct Rows {
    alive: Alive,
    scan: Option<Scan>,
    ranges: Option<Ranges>,
    left: u64,
    failed: Option<Error>,
}

/// Ranges of an index still to be scanned, one after the other.
pub(crate) struct Ranges {
    pub(crate) table: Arc<Table>,
    pub(crate) index: Arc<TableIndex>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) projection: Projection,
    pub(crate) todo: VecDeque<IndexScanOptions>,
}

impl Rows {
    /// Rows of one scan of the heap.
    pub(crate) fn of_scan(alive: &Alive, scan: Scan) -> Self {
        let alive = Arc::clone(alive);
        Self { alive, scan: Some(scan), ranges: None, left: u64::MAX, failed: None }
    }

    /// Rows of several ranges of an index, at most `limit`.
    pub(crate) fn of_ranges(alive: &Alive, ranges: Ranges, limit: Option<u64>) -> Self {
        let (alive, left) = (Arc::clone(alive), limit.unwrap_or(u64::MAX));
        Self { alive, scan: None, ranges: Some(ranges), left, failed: None }
    }

    fn advance(&mut self) -> Result<Option<Row>> {
        let alive = Arc::clone(&self.alive);
        let alive = alive.read();
        if !*alive {
            return Err(Error::Invalid("a scan does not outlive its transaction".into()));
        }
        while self.left > 0 {
            if let Some(scan) = &mut self.scan {
                if let Some(row) = scan.next()? {
                    self.left -= 1;
                    return Ok(Some(Row { id: row.row_id, values: row.values }));
                }
                self.scan = None;
            }
            let Some(ranges) = &mut self.ranges else { return Ok(None) };
            let Some(mut options) = ranges.todo.pop_front() else { return Ok(None) };
            options.limit = Some(self.left);
            let (snapshot, projection) = (&ranges.snapshot, ranges.projection.clone());
            let scan = ranges.table.scan_index(snapshot, &ranges.index, projection, &options)?;
            self.scan = Some(scan);
        }
        Ok(None)
    }
}

impl Iterator for Rows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = &self.failed {
            return Some(Err(error.clone()));
        }
        let result = self.advance();
        if let Err(error) = &result {
            self.failed = Some(error.clone());
            self.scan = None;
        }
        result.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_can_be_sent_to_another_thread() {
        fn sendable<T: Send + 'static>() {}
        sendable::<Rows>();
    }
}
