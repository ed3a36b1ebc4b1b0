//! What a statement does, with every name resolved: what the binder makes and the executor runs.
//!
//! | file | hides |
//! |---|---|
//! | `path` | which index a condition and an order ask for |
//! | `model` | what a path is thought to cost |
//! | `predicate` | conditions as the store keeps them, for partial indexes |
//! | `notes` | what SQL keeps with definitions |
//! | `views` | relations that are made up from what the store knows |
//! | `shape` | rows narrowed to the columns that are used |
//!
//! Invariants: a plan that is kept holds no value of a parameter and no snapshot, so that it can be
//! run again; it is good as long as the tables it names have the versions it was bound to.
//! Does not do: joins; see [`SelectEngine`](crate::SelectEngine).

mod model;
pub(crate) mod notes;
pub(crate) mod path;
pub(crate) mod predicate;
pub(crate) mod shape;
pub(crate) mod views;

use std::sync::Arc;

use rightlink::{Busy, Collation, RowLock, TableInfo, TableVersion};

use crate::bind::collate::Rule;
use crate::expr::Expr;
use crate::expr::aggregate::Aggregate;
use crate::schemas;
use crate::statistics::Statistics;
use crate::types::SqlType;
use crate::types::declared::Modifier;
use notes::{ColumnNotes, ForeignKey, TableNotes};
use path::Path;

/// A table as the binder found it.
pub(crate) struct Table {
    pub(crate) info: TableInfo,
    pub(crate) version: TableVersion,
    pub(crate) types: Vec<SqlType>,
    pub(crate) notes: TableNotes,
    /// Of each column.
    pub(crate) column_notes: Vec<ColumnNotes>,
}

impl Table {
    /// Its name without a schema.
    pub(crate) fn bare_name(&self) -> &str {
        schemas::bare(&self.info.name)
    }
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
    pub(crate) modifier: Option<Modifier>,
    /// How its text compares where it is read from.
    pub(crate) collation: Option<Rule>,
}

impl Column {
    /// A column of a type without a declared length.
    pub fn new(name: impl Into<String>, ty: SqlType) -> Column {
        Column { name: name.into(), ty, modifier: None, collation: None }
    }
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
    /// What the store knows about itself, and arguments.
    View(&'static views::View, Vec<Expr>),
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
    /// What is known about the table.
    pub(crate) statistics: Option<Arc<Statistics>>,
    /// All conditions, once a path was chosen: those of the path and those of the filter.
    pub(crate) asked: Option<Vec<Expr>>,
    /// Could values of parameters make another path better?
    pub(crate) by_values: bool,
}

impl TableScan {
    /// The path, if it leads to one row at most, by its key in a unique index.
    pub(crate) fn one_key(&self) -> Option<&path::IndexPath> {
        match &self.path {
            path::Path::Index(path) if path.is_one_key() => Some(path),
            _ => None,
        }
    }
}

/// One key of a sort.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SortKey {
    /// Place in the output row.
    pub(crate) at: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
    /// Is it `char(n)`, whose blanks at the end do not count?
    pub(crate) padded: bool,
    /// How texts compare; `None`: by their bytes.
    pub(crate) collation: Option<Collation>,
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
    /// FOR UPDATE or FOR SHARE, and what is done about a row that somebody else has.
    pub(crate) locks: Option<(RowLock, Busy)>,
    /// Sequences that it names.
    pub(crate) sequences: Vec<String>,
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
    /// Where the value of each column of the table comes from.
    pub(crate) given: Vec<Given>,
    pub(crate) source: Arc<Select>,
    pub(crate) conflict: Option<Conflict>,
    pub(crate) rules: Rules,
    pub(crate) returning: Option<Returning>,
    pub(crate) sequences: Vec<String>,
}

/// Where a column of a new row takes its value from.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    /// A place in the row that is given.
    Place(usize),
    /// Its default.
    Default(Expr),
}

/// ON CONFLICT.
#[derive(Clone, Debug)]
pub(crate) struct Conflict {
    pub(crate) target: Target,
    /// Columns and their new values over the old row, its `ctid` and the proposed row; `None` does
    /// nothing.
    pub(crate) assignments: Option<Vec<(usize, Expr)>>,
    /// Which rows are changed, over the same.
    pub(crate) condition: Option<Expr>,
}

/// Which unique indexes ON CONFLICT means.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Any,
    Columns(Vec<String>),
    Index(String),
}

/// What rows of a table must meet beyond what the store sees to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// Names and conditions over the columns of the table.
    pub(crate) checks: Vec<(String, Expr)>,
    pub(crate) keys: Vec<ParentKey>,
    /// Do foreign keys of tables name it?
    pub(crate) is_parent: bool,
    /// Places of the columns that they may name: those of unique keys. None if there are none.
    pub(crate) keyed: Vec<usize>,
}

/// A foreign key of the table, resolved.
#[derive(Clone, Debug)]
pub(crate) struct ParentKey {
    pub(crate) key: ForeignKey,
    pub(crate) parent: Arc<Table>,
    /// The unique index of the parent.
    pub(crate) index: String,
    /// In the order of the index: place in this table, place in the parent, type there.
    pub(crate) columns: Vec<(usize, usize, SqlType)>,
}

/// An UPDATE or DELETE.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Finds the rows; its filter is over its own columns.
    pub(crate) scan: TableScan,
    /// The whole condition over all columns of the table and `ctid`, asked again of newer versions.
    pub(crate) condition: Option<Expr>,
    /// The cursor on whose row it works, in place of a condition.
    pub(crate) current: Option<String>,
    /// Columns and their new values over the old row; `None` deletes.
    pub(crate) assignments: Option<Vec<(usize, Expr)>>,
    pub(crate) rules: Rules,
    pub(crate) returning: Option<Returning>,
    pub(crate) sequences: Vec<String>,
}

/// A statement with a plan.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    Select(Arc<Select>),
    Insert(Box<Insert>),
    Change(Box<Change>),
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

    /// Are its rows made of constants, which depend on nothing?
    pub(crate) fn is_constant(&self) -> bool {
        let Plan::Select(select) = self else { return false };
        match &select.source {
            Source::Nothing => select.output.iter().all(Expr::is_stable),
            Source::Values(rows) => rows.iter().flatten().all(Expr::is_stable),
            _ => false,
        }
    }

    /// Does it write?
    pub(crate) fn writes(&self) -> bool {
        match self {
            Plan::Select(select) => select.locks.is_some(),
            Plan::Insert(_) | Plan::Change(_) => true,
        }
    }

    /// The tables that it names, the one whose rows it changes first.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        let (changed, read, rules) = match self {
            Plan::Select(select) => (None, select.table(), None),
            Plan::Insert(it) => (Some(&it.table), it.source.table(), Some(&it.rules)),
            Plan::Change(change) => (Some(&change.scan.table), None, Some(&change.rules)),
        };
        let keys = rules.into_iter().flat_map(|rules| &rules.keys);
        changed.into_iter().chain(read).chain(keys.map(|key| &key.parent))
    }

    /// The sequences that it names.
    pub(crate) fn sequences(&self) -> &[String] {
        match self {
            Plan::Select(select) => &select.sequences,
            Plan::Insert(insert) => &insert.sequences,
            Plan::Change(change) => &change.sequences,
        }
    }
}

impl Select {
    /// All rows of a source, without columns yet.
    pub(crate) fn over(source: Source) -> Select {
        Select {
            source,
            filter: None,
            group: None,
            output: Vec::new(),
            columns: Vec::new(),
            distinct: Distinct::None,
            sort: Vec::new(),
            ordered: false,
            limit: None,
            offset: None,
            locks: None,
            sequences: Vec::new(),
        }
    }

    /// The table that it reads, if it reads one.
    fn table(&self) -> Option<&Arc<Table>> {
        match &self.source {
            Source::Table(scan) => Some(&scan.table),
            Source::Query(query) => query.table(),
            Source::Nothing | Source::Values(_) | Source::Series(..) | Source::View(..) => None,
        }
    }
}
