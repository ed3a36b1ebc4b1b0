//! Which rows a caller wants, and how that becomes a scan of a table.
//!
//! Invariants: names, types and bounds are checked before anything is read.
//! Does not do: reading (`rows`).

use std::ops::Bound;

use rightlink_env::sync::Arc;

use crate::catalog::Entry;
use crate::datum::Value;
use crate::db::rows::{Alive, Rows};
use crate::error::{Error, Result};
use crate::index;
use crate::table::schema::TableDef;
use crate::table::{IndexBounds, IndexScanOptions, Projection};
use crate::txn::Snapshot;

/// Direction of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// In index order.
    #[default]
    Forward,
    /// Against it.
    Backward,
}

/// Which rows a scan returns, through which index, and which columns of them.
///
/// Bounds are prefixes of the index's key columns: `from` and `to` compare only the columns they
/// name.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// Index to go through; `None` scans the heap in no particular order.
    pub index: Option<String>,
    /// Lower bound in index order.
    pub from: Bound<Vec<Value>>,
    /// Upper bound in index order.
    pub to: Bound<Vec<Value>>,
    /// Further equality prefixes instead of `from` and `to` (an `IN` list), each a key prefix.
    pub any_of: Vec<Vec<Value>>,
    /// Direction.
    pub direction: Direction,
    /// Most rows.
    pub limit: Option<u64>,
    /// Columns to return, `None` for all. If the index holds them all, the heap is not read where
    /// the visibility map allows it.
    pub columns: Option<Vec<String>>,
    /// Rows of an index scan may come in any order: the heap is read in its own order then.
    pub any_order: bool,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            index: None,
            from: Bound::Unbounded,
            to: Bound::Unbounded,
            any_of: Vec::new(),
            direction: Direction::Forward,
            limit: None,
            columns: None,
            any_order: false,
        }
    }
}

impl ScanOptions {
    /// All rows, in no particular order.
    pub fn all() -> Self {
        Self::default()
    }

    /// Through `index`.
    pub fn index(name: impl Into<String>) -> Self {
        Self { index: Some(name.into()), ..Self::default() }
    }

    /// Only keys that begin with `prefix`.
    #[must_use]
    pub fn equal(mut self, prefix: Vec<Value>) -> Self {
        self.from = Bound::Included(prefix.clone());
        self.to = Bound::Included(prefix);
        self
    }

    /// Only keys at or after `from`.
    #[must_use]
    pub fn from(mut self, from: Vec<Value>) -> Self {
        self.from = Bound::Included(from);
        self
    }

    /// Only keys at or before `to`.
    #[must_use]
    pub fn to(mut self, to: Vec<Value>) -> Self {
        self.to = Bound::Included(to);
        self
    }

    /// Largest first.
    #[must_use]
    pub fn backward(mut self) -> Self {
        self.direction = Direction::Backward;
        self
    }

    /// At most `rows` rows.
    #[must_use]
    pub fn limit(mut self, rows: u64) -> Self {
        self.limit = Some(rows);
        self
    }

    /// In any order, as the device likes it.
    #[must_use]
    pub fn any_order(mut self) -> Self {
        self.any_order = true;
        self
    }

    /// Only these columns.
    #[must_use]
    pub fn columns<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }
}

/// Starts the scan that `options` describe.
pub(crate) fn start(
    alive: &Alive,
    entry: &Entry,
    snapshot: &Arc<Snapshot>,
    options: &ScanOptions,
) -> Result<Rows> {
    let table = &entry.table;
    let projection = projection(table.def(), options)?;
    let Some(name) = &options.index else {
        check_heap_scan(options)?;
        return Ok(Rows::new(alive, table.scan(snapshot, projection, options.limit)));
    };
    let wanted = IndexScanOptions {
        bounds: bounds(options)?,
        direction: direction(options),
        limit: options.limit,
        any_order: options.any_order,
    };
    let scan = table.scan_index(snapshot, table.index(name)?, projection, &wanted)?;
    Ok(Rows::new(alive, scan))
}

fn projection(def: &TableDef, options: &ScanOptions) -> Result<Projection> {
    let Some(names) = &options.columns else { return Ok(Projection::all(def)) };
    let columns = names.iter().map(|name| def.column_no(name)).collect::<Result<Vec<_>>>()?;
    Projection::new(def, &columns)
}

/// A heap has no order, so bounds and a direction make no sense there.
fn check_heap_scan(options: &ScanOptions) -> Result<()> {
    let bounded = options.from != Bound::Unbounded || options.to != Bound::Unbounded;
    if bounded || !options.any_of.is_empty() || options.direction == Direction::Backward {
        return Err(Error::Invalid("bounds and directions of a scan need an index".into()));
    }
    Ok(())
}

fn bounds(options: &ScanOptions) -> Result<IndexBounds> {
    if options.any_of.is_empty() {
        return Ok(IndexBounds::Prefixes { from: options.from.clone(), to: options.to.clone() });
    }
    if options.from != Bound::Unbounded || options.to != Bound::Unbounded {
        return Err(Error::Invalid("a list of keys and bounds exclude each other".into()));
    }
    Ok(IndexBounds::AnyOf(options.any_of.clone()))
}

fn direction(options: &ScanOptions) -> index::Direction {
    match options.direction {
        Direction::Forward => index::Direction::Forward,
        Direction::Backward => index::Direction::Backward,
    }
}
