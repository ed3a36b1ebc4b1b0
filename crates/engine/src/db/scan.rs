//! Which rows a caller wants, and how that becomes a scan of a table.
//!
//! Conditions on key columns that do not open the key are met by skipping: the scan goes from one
//! value of the columns before them to the next, and reads only where wanted keys can be. How much
//! that saves depends on how many different values those columns have; the access method sees that
//! while it scans, and reads leaf after leaf where nothing is saved.
//!
//! Invariants: names, types and bounds are checked before anything is read.
//! Does not do: reading (`rows`).

use std::ops::Bound;

use rightlink_env::sync::Arc;

use crate::catalog::Entry;
use crate::datum::Value;
use crate::db::rows::{Alive, Rows};
use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::index;
use crate::keycode::Condition;
use crate::table::schema::{IndexDef, TableDef};
use crate::table::{BlockSample, IndexBounds, IndexScanOptions, Projection, Table};
use crate::txn::Snapshot;

/// Direction of a scan.
///
/// ```
/// use rightlink::{Direction, ScanOptions};
/// assert_eq!(ScanOptions::index("by_day").backward().direction, Direction::Backward);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// In the order of the index.
    #[default]
    Forward,
    /// Against the order of the index.
    Backward,
}

/// Which rows a scan returns, through which index, and which columns of them.
///
/// Bounds are prefixes of the index's key columns: `from` and `to` compare only the columns they
/// name.
///
/// ```
/// use rightlink::{ScanOptions, Value};
/// let newest = ScanOptions::index("by_tail_day")
///     .equal(vec![Value::Text("N14228".into())])
///     .backward()
///     .limit(10)
///     .columns(["day", "delay"]);
/// assert_eq!(newest.limit, Some(10));
/// ```
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// Index to go through; `None` scans the heap in no particular order.
    pub index: Option<String>,
    /// Lower bound in the order of the index: a prefix of the key.
    pub from: Bound<Vec<Value>>,
    /// Upper bound in the order of the index: a prefix of the key.
    pub to: Bound<Vec<Value>>,
    /// Further equality prefixes instead of `from` and `to` (an `IN` list), each a key prefix.
    pub any_of: Vec<Vec<Value>>,
    /// Conditions on key columns of the index, at most one for each, wherever in the key they
    /// stand: rows meet all of them, besides `from` and `to`.
    pub conditions: Vec<(String, Condition)>,
    /// Direction of the scan.
    pub direction: Direction,
    /// Most rows to return. `None`: all.
    pub limit: Option<u64>,
    /// Columns to return, `None` for all. If the index holds them all, the heap is not read where
    /// the visibility map allows it.
    pub columns: Option<Vec<String>>,
    /// Rows of an index scan may come in any order: the heap is read in its own order then.
    pub any_order: bool,
    /// Most reads of the table's pages that are under way at once; 1 reads none ahead. `None`: as
    /// many as the device serves. Pages of the index do not count.
    pub read_ahead: Option<u32>,
    /// Rows that the caller expects to take, such as a planner's estimate. An index scan begins to
    /// read ahead for as many, instead of learning from its waits. Rows that the scan does not have
    /// cost nothing; a caller that stops early has pages read in vain. Without effect beside
    /// [`ScanOptions::limit`](#structfield.limit).
    pub expected_rows: Option<u64>,
    /// Rows as they are now, whatever the isolation: for a condition that must hold for rows that
    /// the transaction cannot see. Their row ids are not for writing. Not within a
    /// [`Writer`](crate::Writer).
    pub latest: bool,
    /// Only the version that lies at this place, if the transaction sees it: a row that was read
    /// there earlier, unless it has changed since. Goes through no index.
    pub at: Option<RowId>,
    /// Only rows that lie in so many blocks of the table, which this seed chooses among all, each
    /// as likely as any other: for figures about a table too large to be read. Goes through no
    /// index.
    pub sample: Option<(u32, u64)>,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            index: None,
            from: Bound::Unbounded,
            to: Bound::Unbounded,
            any_of: Vec::new(),
            conditions: Vec::new(),
            direction: Direction::Forward,
            limit: None,
            columns: None,
            any_order: false,
            read_ahead: None,
            expected_rows: None,
            latest: false,
            at: None,
            sample: None,
        }
    }
}

impl ScanOptions {
    /// A scan of all rows, in no particular order.
    pub fn all() -> Self {
        Self::default()
    }

    /// A scan of the one version at `id`: see [`ScanOptions::at`](#structfield.at).
    pub fn at(id: RowId) -> Self {
        Self { at: Some(id), ..Self::default() }
    }

    /// A scan of all rows through the index `name`, in its order.
    pub fn index(name: impl Into<String>) -> Self {
        Self { index: Some(name.into()), ..Self::default() }
    }

    /// Keeps only keys that begin with `prefix`.
    #[must_use]
    pub fn equal(mut self, prefix: Vec<Value>) -> Self {
        self.from = Bound::Included(prefix.clone());
        self.to = Bound::Included(prefix);
        self
    }

    /// Keeps only keys at or after `from` in index order.
    #[must_use]
    pub fn from(mut self, from: Vec<Value>) -> Self {
        self.from = Bound::Included(from);
        self
    }

    /// Keeps only keys at or before `to` in index order.
    #[must_use]
    pub fn to(mut self, to: Vec<Value>) -> Self {
        self.to = Bound::Included(to);
        self
    }

    /// Keeps only rows in which this key column of the index meets `condition`. With an index on
    /// (shop, day), a condition on `day` alone costs about two leaves a shop.
    ///
    /// ```
    /// use rightlink::{Condition, ScanOptions, Value};
    /// let one_day = Condition::Equal(Value::Int4(20_000));
    /// let sales = ScanOptions::index("sales_shop_day").matching("day", one_day);
    /// ```
    #[must_use]
    pub fn matching(mut self, column: impl Into<String>, condition: Condition) -> Self {
        self.conditions.push((column.into(), condition));
        self
    }

    /// Returns rows against the order of the index.
    #[must_use]
    pub fn backward(mut self) -> Self {
        self.direction = Direction::Backward;
        self
    }

    /// Returns at most `rows` rows.
    #[must_use]
    pub fn limit(mut self, rows: u64) -> Self {
        self.limit = Some(rows);
        self
    }

    /// Returns rows in any order, so that the heap is read in its own.
    #[must_use]
    pub fn any_order(mut self) -> Self {
        self.any_order = true;
        self
    }

    /// Returns rows as they are now: see [`ScanOptions::latest`](#structfield.latest).
    #[must_use]
    pub fn latest(mut self) -> Self {
        self.latest = true;
        self
    }

    /// Returns only these columns, in this order.
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
    start_for(alive, entry, snapshot, options, false)
}

/// As [`start`], of rows that are to be written if so.
pub(crate) fn start_for(
    alive: &Alive,
    entry: &Entry,
    snapshot: &Arc<Snapshot>,
    options: &ScanOptions,
    to_write: bool,
) -> Result<Rows> {
    let table = &entry.table;
    let budget = table.heap().pool().budget();
    let projection = projection(table, options)?;
    let ahead = options.read_ahead.map_or(u32::MAX, |most| most.max(1));
    let Some(name) = &options.index else {
        check_heap_scan(options)?;
        if let Some(at) = options.at {
            let scan = table.scan_place(snapshot, projection, at, options.limit);
            return Ok(Rows::new(alive, snapshot, scan, budget));
        }
        let limit = options.limit;
        let scan = match options.sample {
            Some((blocks, seed)) => {
                let sample = BlockSample { blocks, seed };
                table.scan_sample(snapshot, projection, limit, ahead, sample)
            }
            None => table.scan_ahead(snapshot, projection, limit, ahead),
        };
        return Ok(Rows::new(alive, snapshot, scan, budget));
    };
    if options.at.is_some() || options.sample.is_some() {
        return Err(Error::Invalid("a scan of places goes through no index".into()));
    }
    let index = table.index(name)?;
    if let Some(key) = whole_key(index.def(), options) {
        let scan = match to_write {
            true => table.scan_key_to_write(snapshot, index, &projection, key, options.limit)?,
            false => table.scan_key(snapshot, index, &projection, key, options.limit)?,
        };
        return Ok(Rows::new(alive, snapshot, scan, budget));
    }
    let wanted = IndexScanOptions {
        bounds: bounds(table.def(), index.def(), options)?,
        direction: direction(options),
        limit: options.limit,
        any_order: options.any_order,
        ahead,
        expected: u32::try_from(options.expected_rows.unwrap_or(0)).unwrap_or(u32::MAX),
    };
    let scan = table.scan_index(snapshot, index, projection, &wanted)?;
    Ok(Rows::new(alive, snapshot, scan, budget))
}

fn projection(table: &Table, options: &ScanOptions) -> Result<Arc<Projection>> {
    let Some(names) = &options.columns else { return Ok(Arc::clone(table.all_columns())) };
    if names.is_empty() {
        return Ok(Arc::clone(table.no_columns()));
    }
    let def = table.def();
    let columns = names.iter().map(|name| def.column_no(name)).collect::<Result<Vec<_>>>()?;
    Projection::new(def, &columns).map(Arc::new)
}

/// The one key that `options` ask for, if it is all they ask for.
fn whole_key<'o>(index: &IndexDef, options: &'o ScanOptions) -> Option<&'o [Value]> {
    let (Bound::Included(from), Bound::Included(to)) = (&options.from, &options.to) else {
        return None;
    };
    // One row has no order, and a few have one at no cost.
    let ordered = !options.any_order || index.unique;
    let only = options.any_of.is_empty() && options.conditions.is_empty() && ordered;
    let whole = from.len() == index.columns.len() && from == to;
    (only && whole && options.direction == Direction::Forward).then_some(from)
}

/// A heap has no order, so bounds and a direction make no sense there.
fn check_heap_scan(options: &ScanOptions) -> Result<()> {
    let bounded = options.from != Bound::Unbounded || options.to != Bound::Unbounded;
    let listed = !options.any_of.is_empty() || !options.conditions.is_empty();
    if bounded || listed || options.direction == Direction::Backward {
        return Err(Error::Invalid("bounds and directions of a scan need an index".into()));
    }
    if options.at.is_some() && options.sample.is_some() {
        return Err(Error::Invalid("a scan of one place has no sample".into()));
    }
    Ok(())
}

fn bounds(def: &TableDef, index: &IndexDef, options: &ScanOptions) -> Result<IndexBounds> {
    let (from, to) = (options.from.clone(), options.to.clone());
    if options.any_of.is_empty() && options.conditions.is_empty() {
        return Ok(IndexBounds::Prefixes { from, to });
    }
    if options.any_of.is_empty() {
        let conditions = options.conditions.iter();
        let conditions = conditions.map(|(name, one)| Ok((place(def, index, name)?, one.clone())));
        let conditions = conditions.collect::<Result<_>>()?;
        return Ok(IndexBounds::Matching { from, to, conditions });
    }
    let bounded = options.from != Bound::Unbounded || options.to != Bound::Unbounded;
    if bounded || !options.conditions.is_empty() {
        let what = "a list of keys excludes bounds and conditions";
        return Err(Error::Invalid(what.into()));
    }
    Ok(IndexBounds::AnyOf(options.any_of.clone()))
}

/// Place of a column in the key.
fn place(def: &TableDef, index: &IndexDef, name: &str) -> Result<usize> {
    let column = def.column_no(name)?;
    let found = index.columns.iter().position(|part| part.column == column);
    let what =
        || Error::Invalid(format!("column {name} is not in the key of index {}", index.name));
    found.ok_or_else(what)
}

fn direction(options: &ScanOptions) -> index::Direction {
    match options.direction {
        Direction::Forward => index::Direction::Forward,
        Direction::Backward => index::Direction::Backward,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::{Database, ScanOptions, TableSchema, Type, Value};

    #[test]
    fn a_sample_has_all_rows_of_so_many_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("t").column("a", Type::Int4).column("b", Type::Text))
            .unwrap();
        let row = |n: i32| vec![Value::Int4(n), Value::Text("x".repeat(500))];
        txn.insert_many("t", &(0..1_000).map(row).collect::<Vec<_>>()).unwrap();
        let all: Vec<_> =
            txn.scan("t", &ScanOptions::all()).unwrap().map(|row| row.unwrap().id).collect();
        let data_blocks = txn.catalog().describe("t").unwrap().heap_blocks - 1;
        let mut blocks_of = |blocks: u32, seed: u64| {
            let options = ScanOptions { sample: Some((blocks, seed)), ..ScanOptions::all() };
            let rows = txn.scan("t", &options).unwrap();
            let ids: Vec<_> = rows.map(|row| row.unwrap().id).collect();
            let blocks: BTreeSet<u32> = ids.iter().map(|id| id.block.0).collect();
            let theirs = all.iter().filter(|id| blocks.contains(&id.block.0)).count();
            assert_eq!(ids.len(), theirs, "all rows of the blocks");
            blocks
        };
        let every = blocks_of(u32::MAX, 1);
        assert!(every.len() > 50, "{} blocks", every.len());
        // Some blocks may have no rows yet.
        let empty = (data_blocks - every.len() as u32) as usize;
        let found = blocks_of(20, 1).len();
        assert!(found <= 20 && found + empty >= 20, "{found} blocks, {empty} are empty");
        assert_eq!(blocks_of(20, 1), blocks_of(20, 1), "a seed chooses the same again");
        assert_ne!(blocks_of(20, 1), blocks_of(20, 2));
        assert!(blocks_of(0, 1).is_empty());
        let met: BTreeSet<u32> = (0..200).flat_map(|seed| blocks_of(10, seed)).collect();
        assert_eq!(met, every, "every block has its chance");
        let beside = ScanOptions { sample: Some((1, 1)), ..ScanOptions::index("t_a") };
        assert!(txn.scan("t", &beside).is_err());
        drop(txn);
        assert!(db.verify().unwrap().is_clean());
    }
}
