//! What a statement does, with every name resolved: what the binder makes and the executor runs.
//!
//! | file | hides |
//! |---|---|
//! | `path` | which index a condition and an order ask for |
//! | `shape` | rows narrowed to the columns that are used |
//!
//! Invariants: a plan holds no value of a parameter and no snapshot, so that it can be run again;
//! it is good as long as the tables it names have the versions it was bound to.
//! Does not do: joins; see [`SelectEngine`](crate::SelectEngine).

pub(crate) mod path;
pub(crate) mod shape;

use std::sync::Arc;

use rightlink::{TableInfo, TableVersion};

use crate::expr::Expr;
use crate::expr::aggregate::Aggregate;
use crate::types::SqlType;
use path::Path;

/// A table as the binder found it.
pub(crate) struct Table {
    pub(crate) info: TableInfo,
    pub(crate) version: TableVersion,
    pub(crate) types: Vec<SqlType>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({})", self.info.name)
    }
}

/// A column of results.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name; names may repeat.
    pub name: String,
    /// Its type.
    pub ty: SqlType,
}

/// Where rows come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// One row without columns.
    Nothing,
    Table(Box<TableScan>),
    Values(Vec<Vec<Expr>>),
    /// `generate_series`: bounds and step, and the type of the numbers.
    Series(Vec<Expr>, SqlType),
    Query(Box<Select>),
}

/// A scan of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableScan {
    pub(crate) table: Arc<Table>,
    /// Name or alias, for EXPLAIN.
    pub(crate) alias: String,
    /// Places in the table of the columns that the rows have.
    pub(crate) columns: Vec<usize>,
    /// Is the row's `ctid` appended to them?
    pub(crate) with_tid: bool,
    pub(crate) path: Path,
    pub(crate) filter: Option<Expr>,
}

/// One key of a sort.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SortKey {
    /// Place in the output row.
    pub(crate) at: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// Grouping.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) keys: Vec<Expr>,
    pub(crate) aggregates: Vec<Aggregate>,
    /// Over keys and results of aggregates.
    pub(crate) having: Option<Expr>,
}

/// Which duplicates go.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Distinct {
    #[default]
    None,
    /// Of all visible columns.
    All,
    /// Of these output columns; the first row in order stays.
    On(Vec<usize>),
}

/// A SELECT or VALUES.
#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub(crate) source: Source,
    /// What a scan does not check itself.
    pub(crate) filter: Option<Expr>,
    pub(crate) group: Option<Group>,
    /// Visible columns, then those that only the order needs.
    pub(crate) output: Vec<Expr>,
    pub(crate) columns: Vec<Column>,
    pub(crate) distinct: Distinct,
    pub(crate) sort: Vec<SortKey>,
    /// Does the source deliver the order?
    pub(crate) ordered: bool,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    /// FOR UPDATE?
    pub(crate) locks: bool,
}

/// What is said about each row that was written.
#[derive(Clone, Debug)]
pub(crate) struct Returning {
    /// Over the row's columns and its `ctid` after them.
    pub(crate) output: Vec<Expr>,
    pub(crate) columns: Vec<Column>,
}

/// An INSERT.
#[derive(Clone, Debug)]
pub(crate) struct Insert {
    pub(crate) table: Arc<Table>,
    /// For each column of the table its place in the source's rows, `None` for null.
    pub(crate) places: Vec<Option<usize>>,
    pub(crate) source: Select,
    pub(crate) returning: Option<Returning>,
}

/// An UPDATE or DELETE.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Finds the rows; its filter is over its own columns.
    pub(crate) scan: TableScan,
    /// The whole condition over all columns of the table and `ctid`, asked again of newer versions.
    pub(crate) condition: Option<Expr>,
    /// Columns and their new values over the old row; `None` deletes.
    pub(crate) assignments: Option<Vec<(usize, Expr)>>,
    pub(crate) returning: Option<Returning>,
}

/// A statement with a plan.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    Select(Select),
    Insert(Insert),
    Change(Change),
}

impl Plan {
    /// Columns of the results; `None` if there are none.
    pub(crate) fn columns(&self) -> Option<&[Column]> {
        match self {
            Plan::Select(select) => Some(&select.columns),
            Plan::Insert(insert) => insert.returning.as_ref().map(|r| r.columns.as_slice()),
            Plan::Change(change) => change.returning.as_ref().map(|r| r.columns.as_slice()),
        }
    }

    /// Does it write?
    pub(crate) fn writes(&self) -> bool {
        match self {
            Plan::Select(select) => select.locks,
            Plan::Insert(_) | Plan::Change(_) => true,
        }
    }

    /// The tables that it names.
    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        let mut tables = Vec::new();
        match self {
            Plan::Select(select) => select.tables(&mut tables),
            Plan::Insert(insert) => {
                tables.push(Arc::clone(&insert.table));
                insert.source.tables(&mut tables);
            }
            Plan::Change(change) => tables.push(Arc::clone(&change.scan.table)),
        }
        tables
    }
}

impl Select {
    fn tables(&self, tables: &mut Vec<Arc<Table>>) {
        match &self.source {
            Source::Table(scan) => tables.push(Arc::clone(&scan.table)),
            Source::Query(query) => query.tables(tables),
            Source::Nothing | Source::Values(_) | Source::Series(..) => {}
        }
    }
}
