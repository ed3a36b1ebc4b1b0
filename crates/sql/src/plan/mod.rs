//! What a statement does, with every name resolved: what the binder makes and the executor runs.
//!
//! | file | hides |
//! |---|---|
//! | `rel` | the algebra |
//! | `rewrite` | the same relation in a form that is cheaper |
//! | `unique` | whether a row meets at most one row of a relation |
//! | `simplify` | conditions in a form that more can be done with |
//! | `order` | in which order relations are joined |
//! | `join` | how two sides are joined |
//! | `known` | tables with their statistics, for the planner |
//! | `lower`, `made`, `node` | from the algebra to what runs |
//! | `computed` | columns in the place of the expressions whose values they have |
//! | `bound` | a query whose names are resolved, which is what is planned |
//! | `custom` | the same again for the values of parameters |
//! | `path`, `index_path` | which index conditions and an order ask for, and its range of keys |
//! | `term` | what one condition says about a column |
//! | `model` | what a path is thought to cost |
//! | `predicate` | conditions as the store keeps them, for partial indexes |
//! | `window` | window functions |
//! | `shape` | rows narrowed to the columns that are used |
//!
//! Invariants: a plan that is kept holds no value of a parameter and no snapshot, so that it can be
//! run again; it is good as long as the tables it names have the versions it was bound to.
//! Does not do: running it (`exec`).

pub(crate) mod bound;
pub(crate) mod computed;
pub(crate) mod custom;
pub(crate) mod index_path;
pub(crate) mod join;
pub(crate) mod known;
pub(crate) mod lower;
mod made;
pub(crate) mod model;
pub(crate) mod node;
mod order;
pub(crate) mod path;
pub(crate) mod predicate;
pub(crate) mod rel;
pub(crate) mod rewrite;
pub(crate) mod shape;
mod simplify;
pub(crate) mod term;
mod unique;
pub(crate) mod window;

use std::sync::Arc;

use rightlink::{Busy, ColumnSchema, RowLock, TableInfo, TableVersion};

use crate::catalog::system_views;
use crate::expr::aggregate::Aggregate;
use crate::expr::domain::DomainTest;
use crate::expr::{ColumnOrigin, Expr};
use crate::names;
use crate::notes::{ColumnNotes, ForeignKey, KeyKind, TableNotes};
use crate::roles::need::Needs;
use crate::settings::planner::Switches;
use crate::statistics::Statistics;
use crate::types::SqlType;
use crate::types::collate::Rule;
use crate::types::declared::{Declared, Modifier};
use crate::user_types::UsedType;
use index_path::IndexPath;
use node::Node;
use path::Path;

/// A table as the binder found it.
pub(crate) struct Table {
    pub(crate) info: TableInfo,
    pub(crate) version: TableVersion,
    pub(crate) types: Vec<SqlType>,
    pub(crate) notes: TableNotes,
    /// Of each column.
    pub(crate) column_notes: Vec<ColumnNotes>,
    /// Types of columns that were made.
    pub(crate) used: Vec<UsedType>,
    /// The expressions of its last columns, which clients cannot name: over the other ones.
    pub(crate) computed: Vec<Expr>,
    /// Columns whose values come from the other ones.
    pub(crate) generated: Vec<GeneratedColumn>,
}

/// A generated column of a table.
pub(crate) struct GeneratedColumn {
    pub(crate) at: usize,
    /// Over a row of the table, as it is stored.
    pub(crate) expr: Expr,
}

impl Table {
    /// Its name without a schema.
    pub(crate) fn bare_name(&self) -> &str {
        names::bare(&self.info.name)
    }

    /// The columns that clients can name. Those that are computed stand behind them.
    pub(crate) fn shown(&self) -> &[ColumnSchema] {
        let count = self.info.columns.iter().take_while(|column| !column.computed).count();
        &self.info.columns[..count]
    }

    /// The places of its generated columns.
    pub(crate) fn generated_places(&self) -> Vec<usize> {
        let columns = self.column_notes.iter().enumerate();
        columns.filter(|(_, notes)| notes.generated.is_some()).map(|(at, _)| at).collect()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({})", self.info.name)
    }
}

/// A column of results. Two are equal if their values are of one kind, wherever they come from.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name; names may repeat.
    pub name: String,
    /// Its type.
    pub ty: SqlType,
    pub(crate) modifier: Option<Modifier>,
    /// How its text compares where it is read from.
    pub(crate) collation: Option<Rule>,
    pub(crate) origin: Option<ColumnOrigin>,
}

impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        let Column { name, ty, modifier, collation, origin: _ } = self;
        (name, ty, modifier, collation)
            == (&other.name, &other.ty, &other.modifier, &other.collation)
    }
}

impl Column {
    /// A column of a type without a declared length.
    pub fn new(name: impl Into<String>, ty: SqlType) -> Column {
        Column { name: name.into(), ty, modifier: None, collation: None, origin: None }
    }
}

impl Column {
    /// The number of the table, view or catalog that it is a column of, and its number there,
    /// counted from 1; zeros if it is computed.
    pub fn origin(&self) -> (u32, i16) {
        self.origin.map_or((0, 0), |origin| (origin.relation, origin.column))
    }

    /// The number of its type as clients know it: `varchar` is another type than `text` to them.
    pub fn type_oid(&self) -> u32 {
        Declared::modified(self.shown_type(), self.modifier).oid()
    }

    /// Bytes of its values as clients know them (`typlen`); -1: they differ.
    pub fn type_len(&self) -> i16 {
        self.shown_type().fixed_len()
    }

    /// A literal whose type nothing decided is text to clients.
    fn shown_type(&self) -> SqlType {
        if self.ty == SqlType::Unknown { SqlType::Text } else { self.ty }
    }

    /// Its declared length, or precision and scale, as clients know it (`atttypmod`); -1: none.
    pub fn type_modifier(&self) -> i32 {
        self.modifier.map_or(-1, Modifier::number)
    }
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
    /// May the rows come in any order?
    pub(crate) any_order: bool,
}

impl TableScan {
    /// The path, if it leads to one row at most, by its key in a unique index.
    pub(crate) fn one_key(&self) -> Option<&IndexPath> {
        match &self.path {
            path::Path::Index(path) if path.is_one_key() => Some(path),
            _ => None,
        }
    }
}

/// Groups of the rows of an input.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) keys: Vec<Expr>,
    /// Which keys make groups, each set by itself; none: all keys together.
    pub(crate) sets: Vec<Vec<usize>>,
    pub(crate) aggregates: Vec<Aggregate>,
    /// Numbers behind the aggregates, one for each set of keys.
    pub(crate) marks: Vec<Vec<i32>>,
}

impl Group {
    /// Values that tell groups apart: the keys, and where there are sets the number of one.
    pub(crate) fn key_width(&self) -> usize {
        self.keys.len() + usize::from(!self.sets.is_empty())
    }
}

/// What a statement asks for before it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asks {
    /// Sequences that it names.
    pub(crate) sequences: Vec<String>,
    /// Privileges that it needs.
    pub(crate) needs: Needs,
    /// A materialized view that it reads and that has no rows yet.
    pub(crate) unpopulated: Option<String>,
    /// Does it call functions whose statements run?
    pub(crate) calls: bool,
}

/// A query that can run.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) root: Arc<Node>,
    pub(crate) columns: Vec<Column>,
    /// FOR UPDATE or FOR SHARE, and what is done about a row that somebody else has.
    pub(crate) locks: Option<(RowLock, Busy)>,
    /// Tables that it reads.
    pub(crate) tables: Vec<Arc<Table>>,
    /// What it reads of what the store knows about itself, by slots.
    pub(crate) views: Vec<ViewUse>,
    /// Are there queries in its expressions?
    pub(crate) has_queries: bool,
    pub(crate) asks: Asks,
    /// What it was made of, if values of parameters could make another way better.
    pub(crate) again: Option<Arc<Again>>,
}

/// A relation that is made up from what the store knows, as a query reads it.
#[derive(Clone, Debug)]
pub(crate) struct ViewUse {
    pub(crate) view: &'static system_views::View,
    pub(crate) args: Vec<Expr>,
}

/// What queries in the expressions of a statement read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    pub(crate) tables: Vec<Arc<Table>>,
    pub(crate) views: Vec<ViewUse>,
    /// Are there any such queries?
    pub(crate) has_queries: bool,
}

/// What a query is made of again for the values of one execution.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) bound: bound::Bound,
    pub(crate) known: known::Known,
}

/// What is said about each row that was written.
#[derive(Clone, Debug)]
pub(crate) struct Returning {
    /// Over the row's columns, its `ctid` after them, and what FROM or USING gave beside it.
    pub(crate) output: Vec<Expr>,
    pub(crate) columns: Vec<Column>,
}

/// An INSERT.
#[derive(Clone, Debug)]
pub(crate) struct Insert {
    pub(crate) table: Arc<Table>,
    /// Where the value of each column of the table comes from.
    pub(crate) given: Vec<Given>,
    pub(crate) source: Arc<Query>,
    pub(crate) conflict: Option<Conflict>,
    pub(crate) rules: Rules,
    pub(crate) returning: Option<Returning>,
    pub(crate) asks: Asks,
    /// What queries in its expressions read.
    pub(crate) reads: Reads,
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
    /// Types of the columns of the table.
    pub(crate) types: Vec<SqlType>,
    /// How many of them clients see.
    pub(crate) shown: usize,
    /// Names and conditions over the columns of the table.
    pub(crate) checks: Vec<(String, Expr)>,
    /// What domains ask of columns, by their places.
    pub(crate) domains: Vec<(usize, Arc<[DomainTest]>)>,
    /// What views ask through which rows are written.
    pub(crate) view_checks: Vec<ViewCheck>,
    pub(crate) keys: Vec<ParentKey>,
    pub(crate) unique: Vec<UniqueKey>,
    /// Do foreign keys of tables name it?
    pub(crate) is_parent: bool,
    /// Places of the columns that they may name: those of unique keys. None if there are none.
    pub(crate) keyed: Vec<usize>,
}

impl Rules {
    /// Is it looked at when the statement ends what rows came to the table?
    pub(crate) fn watch_rows(&self) -> bool {
        self.is_parent || !self.keys.is_empty() || !self.unique.is_empty()
    }
}

/// WITH CHECK OPTION of a view: the condition that a row meets which is written through it.
#[derive(Clone, Debug)]
pub(crate) struct ViewCheck {
    pub(crate) view: String,
    /// Over the columns of the table.
    pub(crate) condition: Expr,
}

/// A primary key or unique constraint of the table that may be checked late.
#[derive(Clone, Debug)]
pub(crate) struct UniqueKey {
    pub(crate) index: String,
    /// Places of its columns, in the order of the index.
    pub(crate) columns: Vec<usize>,
    pub(crate) kind: KeyKind,
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
    /// With FROM or USING what gives the rows, in place of the scan: `ctid` of a row of the table,
    /// and behind it the columns of the others that expressions name. A row of the table may come
    /// several times.
    pub(crate) source: Option<Arc<Query>>,
    /// The whole condition over all columns of the table, `ctid`, and those that the source has
    /// behind it; asked again of newer versions.
    pub(crate) condition: Option<Expr>,
    /// Parts of the condition that name no column: without a source they are asked before the scan.
    pub(crate) once: Vec<Expr>,
    /// The cursor on whose row it works, in place of a condition.
    pub(crate) current: Option<String>,
    /// Columns and their new values over the same; `None` deletes.
    pub(crate) assignments: Option<Vec<(usize, Expr)>>,
    pub(crate) rules: Rules,
    pub(crate) returning: Option<Returning>,
    pub(crate) asks: Asks,
    /// What queries in its expressions read.
    pub(crate) reads: Reads,
    /// What the planner may choose.
    pub(crate) switches: Switches,
}

/// A statement with a plan.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    Query(Arc<Query>),
    Insert(Box<Insert>),
    Change(Box<Change>),
    With(Box<WithPlan>),
    Locked(Box<LockedQuery>),
}

/// A query whose rows are locked in some of the tables that it joins.
#[derive(Clone, Debug)]
pub(crate) struct LockedQuery {
    /// Finds the rows, in their order: of each table that is locked `ctid` and all columns, then
    /// the columns of other sources that expressions name.
    pub(crate) source: Arc<Query>,
    pub(crate) tables: Vec<LockedRows>,
    /// Over a row of the source: asked again where a row has changed.
    pub(crate) conditions: Vec<Expr>,
    /// Over the same.
    pub(crate) output: Vec<Expr>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    pub(crate) columns: Vec<Column>,
    /// What queries in its expressions read.
    pub(crate) reads: Reads,
    pub(crate) asks: Asks,
}

/// A table whose rows are locked.
#[derive(Clone, Debug)]
pub(crate) struct LockedRows {
    pub(crate) table: Arc<Table>,
    /// Place of `ctid` in a row of the source; its columns follow.
    pub(crate) tid: usize,
    pub(crate) lock: RowLock,
    pub(crate) busy: Busy,
}

/// A statement whose WITH writes.
#[derive(Clone, Debug)]
pub(crate) struct WithPlan {
    /// In the order in which they run.
    pub(crate) parts: Vec<WithPart>,
    /// How many of them run before the statement behind WITH: those that it reads, and what these
    /// read.
    pub(crate) before: usize,
    /// The statement behind WITH.
    pub(crate) main: Plan,
    /// Tables that it names, one whose rows it changes first.
    pub(crate) tables: Vec<Arc<Table>>,
    pub(crate) asks: Asks,
}

/// An expression of WITH: a query, or what writes and returns rows.
#[derive(Clone, Debug)]
pub(crate) struct WithPart {
    /// Number of the common table expression.
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) plan: Plan,
}

impl Plan {
    /// What it is called in messages and tags.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Plan::Query(query) => match query.locks {
                None => "SELECT",
                Some((RowLock::Shared | RowLock::KeyShared, _)) => "SELECT FOR SHARE",
                Some(_) => "SELECT FOR UPDATE",
            },
            Plan::Insert(_) => "INSERT",
            Plan::Change(change) if change.assignments.is_some() => "UPDATE",
            Plan::Change(_) => "DELETE",
            Plan::With(with) => with.main.verb(),
            Plan::Locked(query) => match query.tables.iter().map(|table| table.lock).max() {
                Some(RowLock::Shared | RowLock::KeyShared) => "SELECT FOR SHARE",
                _ => "SELECT FOR UPDATE",
            },
        }
    }

    /// Columns of the results; `None` if there are none.
    pub(crate) fn columns(&self) -> Option<&[Column]> {
        match self {
            Plan::Query(query) => Some(&query.columns),
            Plan::Insert(insert) => insert.returning.as_ref().map(|r| r.columns.as_slice()),
            Plan::Change(change) => change.returning.as_ref().map(|r| r.columns.as_slice()),
            Plan::With(with) => with.main.columns(),
            Plan::Locked(query) => Some(&query.columns),
        }
    }

    /// Are its rows made of constants, which depend on nothing?
    pub(crate) fn is_constant(&self) -> bool {
        match self {
            Plan::Query(query) => query.root.is_constant(),
            _ => false,
        }
    }

    /// Does it write?
    pub(crate) fn writes(&self) -> bool {
        match self {
            Plan::Query(query) => query.locks.is_some(),
            _ => true,
        }
    }

    /// The tables that it names, the one whose rows it changes first.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        let (changed, read, own, rules) = match self {
            Plan::Query(query) => (None, query.tables.as_slice(), [].as_slice(), None),
            Plan::Insert(it) => {
                let of_source = it.source.tables.as_slice();
                (Some(&it.table), of_source, it.reads.tables.as_slice(), Some(&it.rules))
            }
            Plan::Change(it) => {
                (Some(&it.scan.table), [].as_slice(), it.reads.tables.as_slice(), Some(&it.rules))
            }
            Plan::With(with) => (None, with.tables.as_slice(), [].as_slice(), None),
            Plan::Locked(query) => (None, query.source.tables.as_slice(), [].as_slice(), None),
        };
        let keys = rules.into_iter().flat_map(|rules| &rules.keys);
        changed.into_iter().chain(read).chain(own).chain(keys.map(|key| &key.parent))
    }

    /// What it asks for before it runs.
    pub(crate) fn asks(&self) -> &Asks {
        match self {
            Plan::Query(query) => &query.asks,
            Plan::Insert(insert) => &insert.asks,
            Plan::Change(change) => &change.asks,
            Plan::With(with) => &with.asks,
            Plan::Locked(query) => &query.asks,
        }
    }

    /// The sequences that it names.
    pub(crate) fn sequences(&self) -> &[String] {
        &self.asks().sequences
    }
}
