//! Reads: rows by row id, by key, through an index, or in the order of the heap.
//!
//! | file | concern |
//! |---|---|
//! | `scan` | the scan that a caller holds; a scan of the heap |
//! | `fetch` | single rows by key, and the rows of many keys |
//! | `by_key` | the rows of one key without a scan |
//! | `index_scan` | a scan of an index: marks, turns, R4 |
//! | `index_cursor` | entries leaf by leaf; dead marks |
//! | `row_fetcher` | from row ids to rows, blocks read ahead |
//! | `index_only` | values from index entries |
//! | `bounds` | conditions on an index as ranges of key bytes |
//! | `long_value` | stored versions as values; long values out of overflow pages |
//!
//! Invariants: a read never waits for a transaction. Every row that it delivers is one that the
//! snapshot sees.
//! Does not do: choose an index; writes.

pub(super) mod bounds;
pub(super) mod by_key;
pub(super) mod fetch;
pub(in crate::table) mod index_cursor;
pub(super) mod index_only;
pub(super) mod index_scan;
pub(super) mod long_value;
pub(super) mod row_fetcher;
pub(super) mod scan;

use rightlink_env::sync::Arc;

use crate::datum::Value;
use crate::error::Result;
use crate::ids::RowId;
use crate::table::Table;
use crate::table::definition::row::Projection;
use crate::txn::Snapshot;

/// A row that a scan found.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Names the row for a write by the same statement.
    pub row_id: RowId,
    /// The wanted columns.
    pub values: Vec<Value>,
}

/// What every read needs to know.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) table: Arc<Table>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) projection: Arc<Projection>,
    /// Most reads of heap pages at once.
    pub(super) ahead: u32,
}

impl Reader {
    pub(super) fn new(
        table: &Arc<Table>,
        snapshot: &Arc<Snapshot>,
        projection: Arc<Projection>,
    ) -> Self {
        let (table, snapshot) = (Arc::clone(table), Arc::clone(snapshot));
        Self { table, snapshot, projection, ahead: u32::MAX }
    }

    /// The wanted columns of a version.
    fn row(&self, row_id: RowId, bytes: &[u8]) -> Result<Row> {
        let values = self.table.read(&self.projection, row_id, bytes)?;
        Ok(Row { row_id, values })
    }
}
