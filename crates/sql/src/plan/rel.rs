//! The algebra: what a statement means, before anything says how it is done.
//!
//! A tree of relations. Every column that a relation makes has a number ([`ColumnId`]) of its own
//! in the statement, and expressions name columns by it, those of an enclosing query as well.
//!
//! Invariants: a number is made once; a relation names only columns of its inputs and of queries
//! around it. Does not do: places of columns in rows, paths, operators (`lower`).

use std::any::Any;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::catalog::system_views;
use crate::expr::aggregate::Aggregate;
use crate::expr::registry::SetFunction;
use crate::expr::{Body, BoundQuery, ColumnId, Expr, SortKey, Subquery, columns_of, nodes_of};
use crate::plan::Table;
use crate::plan::window::{Window, WindowCall};
use crate::types::SqlType;

/// A relation.
#[derive(Clone, Debug, Default)]
pub(crate) enum Rel {
    /// One row without columns.
    #[default]
    Single,
    Scan(Box<Scan>),
    /// Rows of expressions that name columns of queries around it only.
    Values {
        columns: Vec<ColumnId>,
        rows: Vec<Vec<Expr>>,
    },
    Function(Box<Function>),
    /// What the store knows about itself.
    View {
        view: &'static system_views::View,
        args: Vec<Expr>,
        columns: Vec<ColumnId>,
    },
    Join(Box<Join>),
    Filter {
        input: Box<Rel>,
        conditions: Vec<Expr>,
    },
    /// These columns and no others.
    Project {
        input: Box<Rel>,
        output: Vec<(ColumnId, Expr)>,
    },
    /// Each row as often as the longest of the calls gives rows, with what they give behind it.
    /// Where a call has no more rows it gives nulls.
    ProjectSet {
        input: Box<Rel>,
        calls: Vec<SetCall>,
    },
    Aggregate(Box<Grouping>),
    /// The rows with what window functions give behind them.
    Window {
        input: Box<Rel>,
        window: Box<Window<(ColumnId, WindowCall)>>,
    },
    /// Without duplicates of these columns, which are all there are.
    Distinct {
        input: Box<Rel>,
        columns: Vec<ColumnId>,
    },
    /// The first of the rows that agree in these columns, in the order of `sort`, which they begin.
    DistinctOn {
        input: Box<Rel>,
        columns: Vec<ColumnId>,
        sort: Vec<SortKey>,
    },
    /// Keys name columns by their numbers.
    Sort {
        input: Box<Rel>,
        keys: Vec<SortKey>,
    },
    Limit(Box<Limit>),
    SetOp(Box<SetOp>),
    /// The relation of a common table expression, by its number in the statement.
    CteScan {
        cte: usize,
        columns: Vec<ColumnId>,
        name: String,
        /// Only the rows that were added last, in the second part of a recursive query?
        is_step: bool,
    },
    /// `input`, in which `definitions` can be scanned.
    With {
        definitions: Vec<Cte>,
        input: Box<Rel>,
    },
}

/// The rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) table: Arc<Table>,
    /// Name or alias.
    pub(crate) alias: String,
    /// Of each column of the table its number.
    pub(crate) columns: Vec<ColumnId>,
    /// That of `ctid`.
    pub(crate) tid: ColumnId,
}

/// A function that gives rows.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) call: SetFunction,
    pub(crate) args: Vec<Expr>,
    pub(crate) columns: Vec<ColumnId>,
    /// The number of the row.
    pub(crate) ordinality: Option<ColumnId>,
    pub(crate) alias: String,
}

/// A call of a function that gives rows, outside of FROM.
#[derive(Clone, Debug)]
pub(crate) struct SetCall {
    /// The columns of what it gives: one, or those of [`SetFunction::fields`].
    pub(crate) columns: Range<ColumnId>,
    pub(crate) function: SetFunction,
    pub(crate) args: Vec<Expr>,
    pub(crate) ty: SqlType,
}

/// How rows of two relations come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    /// Rows of the left side that have a partner.
    Semi,
    /// Those that have none.
    Anti,
}

/// Two relations joined.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) kind: JoinKind,
    pub(crate) left: Rel,
    pub(crate) right: Rel,
    pub(crate) on: Vec<Expr>,
    /// Do the sides stand beside each other in a list, without the word JOIN?
    pub(crate) is_list: bool,
}

/// Groups: keys and aggregates over the rows of each.
#[derive(Clone, Debug)]
pub(crate) struct Grouping {
    pub(crate) input: Rel,
    pub(crate) keys: Vec<(ColumnId, Expr)>,
    /// GROUPING SETS: which keys make groups, each set by itself. Keys that a set has not are null
    /// in its groups. None: all keys together.
    pub(crate) sets: Vec<Vec<usize>>,
    pub(crate) aggregates: Vec<(ColumnId, Aggregate)>,
    pub(crate) marks: Vec<Mark>,
}

/// GROUPING (..): a number for each set of keys.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) id: ColumnId,
    pub(crate) values: Vec<i32>,
}

/// LIMIT and OFFSET.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) input: Rel,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    /// WITH TIES: the order that rows agree in; `None`: without.
    pub(crate) ties: Option<Vec<SortKey>>,
}

/// Which set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetKind {
    Union,
    Intersect,
    Except,
}

/// A set operation. Its inputs have as many columns as it has, of its types.
#[derive(Clone, Debug)]
pub(crate) struct SetOp {
    pub(crate) kind: SetKind,
    pub(crate) all: bool,
    pub(crate) left: Rel,
    pub(crate) right: Rel,
    pub(crate) left_columns: Vec<ColumnId>,
    pub(crate) right_columns: Vec<ColumnId>,
    pub(crate) columns: Vec<ColumnId>,
}

/// A common table expression.
#[derive(Clone, Debug)]
pub(crate) struct Cte {
    /// Its number in the statement.
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) body: CteBody,
    /// Columns of the body, in order.
    pub(crate) columns: Vec<ColumnId>,
}

/// What a common table expression holds.
#[derive(Clone, Debug)]
pub(crate) enum CteBody {
    /// Whether it is said that its rows are kept, or that they are not.
    Query { rel: Rel, materialized: Option<bool> },
    /// The rows of `first`, then of `step` over those that were added last, until there are none.
    Recursive {
        first: Rel,
        first_columns: Vec<ColumnId>,
        step: Rel,
        step_columns: Vec<ColumnId>,
        /// UNION ALL?
        all: bool,
    },
}

impl Rel {
    /// A filter, unless there is nothing to ask.
    pub(crate) fn filtered(self, conditions: Vec<Expr>) -> Rel {
        match conditions.is_empty() {
            true => self,
            false => Rel::Filter { input: Box::new(self), conditions },
        }
    }

    /// Columns of its rows, in order.
    pub(crate) fn columns(&self) -> Vec<ColumnId> {
        match self {
            Rel::Single => Vec::new(),
            Rel::Scan(scan) => scan.columns.iter().copied().chain([scan.tid]).collect(),
            Rel::Values { columns, .. }
            | Rel::View { columns, .. }
            | Rel::CteScan { columns, .. } => columns.clone(),
            Rel::Function(function) => {
                function.columns.iter().copied().chain(function.ordinality).collect()
            }
            Rel::Join(join) => {
                let mut columns = join.left.columns();
                if !matches!(join.kind, JoinKind::Semi | JoinKind::Anti) {
                    columns.extend(join.right.columns());
                }
                columns
            }
            Rel::Filter { input, .. }
            | Rel::Distinct { input, .. }
            | Rel::DistinctOn { input, .. }
            | Rel::Sort { input, .. }
            | Rel::With { input, .. } => input.columns(),
            Rel::Project { output, .. } => output.iter().map(|(id, _)| *id).collect(),
            Rel::Aggregate(group) => {
                let keys = group.keys.iter().map(|(id, _)| *id);
                let aggregates = group.aggregates.iter().map(|(id, _)| *id);
                keys.chain(aggregates).chain(group.marks.iter().map(|mark| mark.id)).collect()
            }
            Rel::ProjectSet { input, calls } => {
                let mut columns = input.columns();
                columns.extend(calls.iter().flat_map(|call| call.columns.clone()));
                columns
            }
            Rel::Window { input, window } => {
                let mut columns = input.columns();
                columns.extend(window.calls.iter().map(|(id, _)| *id));
                columns
            }
            Rel::Limit(limit) => limit.input.columns(),
            Rel::SetOp(set) => set.columns.clone(),
        }
    }

    /// The relations that it is made of.
    pub(crate) fn inputs(&self) -> Vec<&Rel> {
        match self {
            Rel::Single
            | Rel::Scan(_)
            | Rel::Values { .. }
            | Rel::Function(_)
            | Rel::View { .. }
            | Rel::CteScan { .. } => Vec::new(),
            Rel::Join(join) => vec![&join.left, &join.right],
            Rel::Filter { input, .. }
            | Rel::Project { input, .. }
            | Rel::Distinct { input, .. }
            | Rel::DistinctOn { input, .. }
            | Rel::Sort { input, .. }
            | Rel::ProjectSet { input, .. }
            | Rel::Window { input, .. } => vec![input],
            Rel::Aggregate(group) => vec![&group.input],
            Rel::Limit(limit) => vec![&limit.input],
            Rel::SetOp(set) => vec![&set.left, &set.right],
            Rel::With { definitions, input } => {
                let mut inputs: Vec<&Rel> = Vec::new();
                for definition in definitions {
                    match &definition.body {
                        CteBody::Query { rel, .. } => inputs.push(rel),
                        CteBody::Recursive { first, step, .. } => inputs.extend([first, step]),
                    }
                }
                inputs.push(input);
                inputs
            }
        }
    }

    /// The same, to be changed.
    pub(crate) fn inputs_mut(&mut self) -> Vec<&mut Rel> {
        match self {
            Rel::Single
            | Rel::Scan(_)
            | Rel::Values { .. }
            | Rel::Function(_)
            | Rel::View { .. }
            | Rel::CteScan { .. } => Vec::new(),
            Rel::Join(join) => {
                let Join { left, right, .. } = &mut **join;
                vec![left, right]
            }
            Rel::Filter { input, .. }
            | Rel::Project { input, .. }
            | Rel::Distinct { input, .. }
            | Rel::DistinctOn { input, .. }
            | Rel::Sort { input, .. }
            | Rel::ProjectSet { input, .. }
            | Rel::Window { input, .. } => vec![input],
            Rel::Aggregate(group) => vec![&mut group.input],
            Rel::Limit(limit) => vec![&mut limit.input],
            Rel::SetOp(set) => {
                let SetOp { left, right, .. } = &mut **set;
                vec![left, right]
            }
            Rel::With { definitions, input } => {
                let mut inputs: Vec<&mut Rel> = Vec::new();
                for definition in definitions {
                    match &mut definition.body {
                        CteBody::Query { rel, .. } => inputs.push(rel),
                        CteBody::Recursive { first, step, .. } => inputs.extend([first, step]),
                    }
                }
                inputs.push(input);
                inputs
            }
        }
    }

    /// Its own expressions, without those of its inputs.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        match self {
            Rel::Single
            | Rel::Scan(_)
            | Rel::Distinct { .. }
            | Rel::DistinctOn { .. }
            | Rel::Sort { .. }
            | Rel::SetOp(_)
            | Rel::CteScan { .. }
            | Rel::With { .. } => Vec::new(),
            Rel::Values { rows, .. } => rows.iter().flatten().collect(),
            Rel::Function(function) => function.args.iter().collect(),
            Rel::View { args, .. } => args.iter().collect(),
            Rel::Join(join) => join.on.iter().collect(),
            Rel::Filter { conditions, .. } => conditions.iter().collect(),
            Rel::Project { output, .. } => output.iter().map(|(_, expr)| expr).collect(),
            Rel::Aggregate(group) => {
                let mut exprs: Vec<&Expr> = group.keys.iter().map(|(_, expr)| expr).collect();
                group.aggregates.iter().for_each(|(_, one)| exprs.extend(one.exprs()));
                exprs
            }
            Rel::ProjectSet { calls, .. } => calls.iter().flat_map(|call| &call.args).collect(),
            Rel::Window { window, .. } => {
                window.calls.iter().flat_map(|(_, call)| call.exprs()).collect()
            }
            Rel::Limit(limit) => limit.limit.iter().chain(&limit.offset).collect(),
        }
    }

    /// The same, to be changed.
    pub(crate) fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Rel::Single
            | Rel::Scan(_)
            | Rel::Distinct { .. }
            | Rel::DistinctOn { .. }
            | Rel::Sort { .. }
            | Rel::SetOp(_)
            | Rel::CteScan { .. }
            | Rel::With { .. } => Vec::new(),
            Rel::Values { rows, .. } => rows.iter_mut().flatten().collect(),
            Rel::Function(function) => function.args.iter_mut().collect(),
            Rel::View { args, .. } => args.iter_mut().collect(),
            Rel::Join(join) => join.on.iter_mut().collect(),
            Rel::Filter { conditions, .. } => conditions.iter_mut().collect(),
            Rel::Project { output, .. } => output.iter_mut().map(|(_, expr)| expr).collect(),
            Rel::Aggregate(group) => {
                let Grouping { keys, aggregates, .. } = &mut **group;
                let mut exprs: Vec<&mut Expr> = keys.iter_mut().map(|(_, expr)| expr).collect();
                aggregates.iter_mut().for_each(|(_, one)| exprs.extend(one.exprs_mut()));
                exprs
            }
            Rel::ProjectSet { calls, .. } => {
                calls.iter_mut().flat_map(|call| &mut call.args).collect()
            }
            Rel::Window { window, .. } => {
                window.calls.iter_mut().flat_map(|(_, call)| call.exprs_mut()).collect()
            }
            Rel::Limit(limit) => {
                let Limit { limit, offset, .. } = &mut **limit;
                limit.iter_mut().chain(offset).collect()
            }
        }
    }

    /// Columns of queries around it that it names.
    pub(crate) fn free(&self) -> BTreeSet<ColumnId> {
        let mut free = BTreeSet::new();
        self.gather_free(&mut free);
        free
    }

    fn gather_free(&self, out: &mut BTreeSet<ColumnId>) {
        let (mut made, mut named) = (BTreeSet::new(), BTreeSet::new());
        self.visit(&mut |rel| {
            match rel {
                Rel::Join(join) => {
                    // A semi join hides columns that its condition names.
                    made.extend(join.right.columns());
                    made.extend(join.left.columns());
                }
                other => made.extend(other.columns()),
            }
            rel.exprs().into_iter().for_each(|expr| columns_of(expr, &mut named));
        });
        out.extend(named.difference(&made));
    }

    /// Calls `look` for it and for every relation in it, those of subqueries left out.
    pub(crate) fn visit<'r>(&'r self, look: &mut dyn FnMut(&'r Rel)) {
        look(self);
        self.inputs().into_iter().for_each(|input| input.visit(look));
    }

    /// Its relations and the nodes of their expressions, those of subqueries included.
    pub(crate) fn nodes(&self) -> usize {
        let mut nodes = 0;
        self.visit(&mut |rel| {
            let of_exprs: usize = rel.exprs().into_iter().map(nodes_of).sum();
            nodes += 1 + of_exprs;
        });
        nodes
    }
}

/// A query inside of an expression, before it is planned.
#[derive(Clone, Debug, Default)]
pub(crate) struct BoundSubquery {
    pub(crate) rel: Rel,
    /// Columns of its rows.
    pub(crate) output: Vec<ColumnId>,
}

impl BoundSubquery {
    /// Of a query that is not planned.
    pub(crate) fn of(query: &Subquery) -> Option<&BoundSubquery> {
        let Body::Bound(bound) = &query.body else { return None };
        let bound: &dyn Any = &**bound;
        bound.downcast_ref()
    }

    /// The same, to be changed.
    pub(crate) fn of_mut(query: &mut Subquery) -> Option<&mut BoundSubquery> {
        let Body::Bound(bound) = &mut query.body else { return None };
        let bound: &mut dyn Any = &mut **bound;
        bound.downcast_mut()
    }
}

impl BoundQuery for BoundSubquery {
    fn output(&self) -> &[ColumnId] {
        &self.output
    }

    fn free(&self) -> BTreeSet<ColumnId> {
        self.rel.free()
    }

    fn change(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        change_in(&mut self.rel, change);
    }

    fn copy(&self) -> Box<dyn BoundQuery> {
        Box::new(self.clone())
    }

    fn nodes(&self) -> usize {
        self.rel.nodes()
    }
}

fn change_in(rel: &mut Rel, change: &mut dyn FnMut(&mut Expr)) {
    rel.exprs_mut().into_iter().for_each(&mut *change);
    rel.inputs_mut().into_iter().for_each(|input| change_in(input, change));
}
