//! Reading single rows: by row id, or by key.
//!
//! Does not do: waiting; a reader never does.

use rightlink_env::sync::Arc;

use crate::datum::Value;
use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::index::Direction;
use crate::keycode::ColumnRange;
use crate::txn::Snapshot;

use super::bounds::IndexBounds;
use super::index_scan::{IndexRows, Leaves, checker};
use super::row::Projection;
use super::scan::{IndexScanOptions, Reader, Row};
use super::{Table, TableIndex};

impl Table {
    /// The version of a row that the snapshot sees.
    pub fn fetch(
        &self,
        snapshot: &Snapshot,
        row: RowId,
        projection: &Projection,
    ) -> Result<Option<Row>> {
        let found = self.heap.fetch_version(snapshot, row)?;
        let Some((row_id, bytes)) = found else { return Ok(None) };
        let values = projection.read(&self.def, &bytes);
        let values = values.map_err(|what| self.damaged_row(row_id, what))?;
        Ok(Some(Row { row_id, values }))
    }

    /// The first row whose key in `index` is `key`: of a unique index the only one, nulls excepted.
    pub fn get(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        index: &Arc<TableIndex>,
        key: Vec<Value>,
        projection: &Projection,
    ) -> Result<Option<Row>> {
        if key.len() != index.def.columns.len() {
            let (given, name) = (key.len(), &index.def.name);
            return Err(Error::Invalid(format!("{given} values for the key of index {name}")));
        }
        let bounds = IndexBounds::equal(key);
        let options = IndexScanOptions { limit: Some(1), ..IndexScanOptions::new(bounds) };
        self.scan_index(snapshot, index, projection.clone(), &options)?.next()
    }

    /// The rows of several keys (or prefixes of keys), each key's rows in the place of the key. The
    /// heap pages of all of them are read through one stream.
    pub fn fetch_many(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        index: &Arc<TableIndex>,
        keys: &[Vec<Value>],
        projection: &Projection,
    ) -> Result<Vec<Vec<Row>>> {
        let checker = checker(self, index);
        let range = |key: &Vec<Value>| checker.columns(key, &ColumnRange::All);
        let ranges = keys.iter().map(range).collect::<Result<Vec<_>>>()?;
        // In key order, so that neighbours on a leaf are read while it is in memory.
        let mut ranges: Vec<_> = ranges.into_iter().enumerate().collect();
        ranges.sort_by(|(_, a), (_, b)| a.low.cmp(&b.low));
        let reader = Reader::new(self, snapshot, projection.clone());
        let leaves = Leaves::over(&reader, index, Direction::Forward, ranges)?;
        let mut rows = IndexRows::new(reader, leaves, None, false);
        let mut found = vec![Vec::new(); keys.len()];
        while let Some((number, row)) = rows.next(u64::MAX)? {
            found[number].push(row);
        }
        Ok(found)
    }
}
