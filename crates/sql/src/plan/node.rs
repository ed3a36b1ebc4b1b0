//! What runs: operators, whose expressions name places in the rows of their inputs.
//!
//! Invariants: a node holds no value of a parameter and no snapshot, so that it can run any number
//! of times; the rows of a node have `width` values.
//! Does not do: running (`exec`); choosing (`lower`).

use std::sync::Arc;

use rightlink::IndexInfo;

use crate::catalog::system_views;
use crate::expr::registry::SetFunction;
use crate::expr::{Expr, PlannedSubquery, SortKey};
use crate::plan::rel::{JoinKind, SetKind};
use crate::plan::term::Keys;
use crate::plan::window::{Window, WindowCall};
use crate::plan::{Group, TableScan};
use crate::types::SqlType;

/// What a node is thought to cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) startup: f64,
    pub(crate) total: f64,
    pub(crate) rows: f64,
    pub(crate) width: usize,
}

impl Estimate {
    /// That of so many rows which are made.
    pub(super) fn fixed(rows: f64, width: usize) -> Estimate {
        Estimate { startup: 0.0, total: rows * 0.0125, rows, width }
    }

    /// That of the rows which meet so many conditions, of which nothing is known.
    pub(super) fn meeting(self, conditions: usize) -> Estimate {
        let share = (1.0f64 / 3.0).powi(i32::try_from(conditions).unwrap_or(10).min(10));
        Estimate { rows: (self.rows * share).max(1.0), ..self }
    }
}

/// An operator and what is thought of it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) op: Op,
    /// Values of a row.
    pub(crate) width: usize,
    pub(crate) estimate: Estimate,
    /// Its number in the statement, under which it notes what it does.
    pub(crate) number: usize,
}

impl Node {
    /// The operator of a query inside of an expression.
    pub(crate) fn of(query: &PlannedSubquery) -> Arc<Node> {
        Arc::clone(&query.node).downcast().expect("the planner has made it")
    }
}

/// What an operator does.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// One row without columns.
    Single,
    Scan(Box<TableScan>),
    Values(Vec<Vec<Expr>>),
    Function {
        call: SetFunction,
        args: Vec<Expr>,
        ordinality: bool,
        alias: String,
    },
    View {
        view: &'static system_views::View,
        /// Places of the columns that are wanted.
        columns: Vec<usize>,
        /// Where the context has its rows.
        slot: usize,
        /// Which rows are wanted, if a value of a column says so.
        key: Option<ViewKey>,
        /// What is asked of the rows before their live columns are looked up.
        filter: Option<Expr>,
    },
    Filter {
        input: Arc<Node>,
        condition: Expr,
    },
    /// The rows of `input` if a condition holds that names no column; otherwise it is not opened.
    Gate {
        input: Arc<Node>,
        condition: Expr,
    },
    Project {
        input: Arc<Node>,
        output: Vec<Expr>,
    },
    /// Each row as often as the longest of the calls gives rows.
    ProjectSet {
        input: Arc<Node>,
        calls: Vec<SetNode>,
    },
    Aggregate {
        input: Arc<Node>,
        group: Group,
    },
    /// The rows with what window functions give behind them.
    Window {
        input: Arc<Node>,
        window: Box<Window<WindowCall>>,
    },
    /// Without duplicates.
    Distinct {
        input: Arc<Node>,
    },
    /// The first of neighbours that agree in these keys.
    DistinctOn {
        input: Arc<Node>,
        keys: Vec<SortKey>,
    },
    Sort {
        input: Arc<Node>,
        keys: Vec<SortKey>,
        /// So many keys are ones in whose order the input is.
        presorted: usize,
    },
    Limit {
        input: Arc<Node>,
        limit: Option<Expr>,
        offset: Option<Expr>,
        ties: Option<Vec<SortKey>>,
    },
    Join(Box<JoinNode>),
    SetOperation {
        kind: SetKind,
        all: bool,
        left: Arc<Node>,
        right: Arc<Node>,
    },
    /// Rows of a common table expression that the context keeps.
    CteScan {
        cte: usize,
        name: String,
        is_step: bool,
        /// Places of the columns that are wanted.
        columns: Vec<usize>,
    },
    With {
        definitions: Vec<CteNode>,
        input: Arc<Node>,
    },
    /// Marks that rows are locked, for EXPLAIN.
    LockRows {
        input: Arc<Node>,
    },
}

/// A call of a function that gives rows, over rows of an input.
#[derive(Clone, Debug)]
pub(crate) struct SetNode {
    pub(crate) function: SetFunction,
    pub(crate) args: Vec<Expr>,
    /// Columns of its rows.
    pub(crate) width: usize,
}

/// A join.
#[derive(Clone, Debug)]
pub(crate) struct JoinNode {
    pub(crate) kind: JoinKind,
    pub(crate) left: Arc<Node>,
    pub(crate) how: How,
    /// What is asked of a pair of rows, beyond the keys: over the left row and the right one behind
    /// it.
    pub(crate) condition: Option<Expr>,
    /// Values of a row of the right side.
    pub(crate) right_width: usize,
    /// Places, in the left row and the right one behind it, of the values that go on.
    pub(crate) kept: Vec<usize>,
}

/// How a row of the left side finds its partners.
#[derive(Clone, Debug)]
pub(crate) enum How {
    /// Every row of the right side is looked at.
    Loop { right: Arc<Node> },
    /// The right side runs again for each row of the left, whose values these slots get.
    Apply { right: Arc<Node>, binds: Vec<(usize, Expr)> },
    /// By a hash table of the right side, under the values of these expressions.
    Hash { right: Arc<Node>, keys: Vec<HashKey> },
    /// By a value of a column of a relation that is made up: that of the first key, whose side of
    /// the relation is a column.
    Made {
        scan: Box<MadeRelation>,
        /// Place of the column in the relation.
        column: usize,
        keys: Vec<HashKey>,
    },
    /// By an index of a table, for the keys of many rows of the left side at once.
    Keyed {
        scan: Box<TableScan>,
        index: Box<IndexInfo>,
        keys: Vec<KeyPart>,
        /// Do the rows have to come in the order of the left side, whatever memory there is?
        keeps_order: bool,
        /// What goes on when there are far more keys than was thought.
        instead: Option<Box<Instead>>,
    },
}

/// The part of a relation that is made up which a statement reads.
#[derive(Clone, Debug)]
pub(crate) struct MadeRelation {
    pub(crate) view: &'static system_views::View,
    /// Places of the columns that are wanted.
    pub(crate) columns: Vec<usize>,
    /// Where the context has its rows.
    pub(crate) slot: usize,
}

/// The same join by a hash table of the whole right side.
#[derive(Clone, Debug)]
pub(crate) struct Instead {
    /// Keys from which on it costs less than to look more of them up.
    pub(crate) after: u64,
    /// Its left side is what is left of that of the other join.
    pub(crate) join: Arc<Node>,
}

/// A key of a hash join: equal values of both sides have equal bytes.
#[derive(Clone, Debug)]
pub(crate) struct HashKey {
    pub(crate) left: Expr,
    pub(crate) right: Expr,
}

/// A key column of an index, and where its value comes from.
#[derive(Clone, Debug)]
pub(crate) struct KeyPart {
    /// Over the left row.
    pub(crate) value: Expr,
    /// Type of the column.
    pub(crate) ty: SqlType,
    /// Place of the column in the scan's rows.
    pub(crate) at: usize,
}

/// A common table expression.
#[derive(Clone, Debug)]
pub(crate) struct CteNode {
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) body: CteSteps,
}

/// Where the rows of a common table expression come from.
#[derive(Clone, Debug)]
pub(crate) enum CteSteps {
    Query(Arc<Node>),
    Recursive {
        first: Arc<Node>,
        step: Arc<Node>,
        all: bool,
        /// As which it notes what it does.
        number: usize,
    },
}

/// Values of which a column of a relation has one in the rows that are wanted.
#[derive(Clone, Debug)]
pub(crate) struct ViewKey {
    /// Place of the column in the relation.
    pub(crate) column: usize,
    /// Their expressions name no columns of the relation.
    pub(crate) values: Keys,
}

impl Node {
    /// The nodes that it gets rows from.
    pub(crate) fn inputs(&self) -> Vec<&Arc<Node>> {
        match &self.op {
            Op::Single
            | Op::Scan(_)
            | Op::Values(_)
            | Op::Function { .. }
            | Op::View { .. }
            | Op::CteScan { .. } => Vec::new(),
            Op::Filter { input, .. }
            | Op::Gate { input, .. }
            | Op::Project { input, .. }
            | Op::ProjectSet { input, .. }
            | Op::Aggregate { input, .. }
            | Op::Window { input, .. }
            | Op::Distinct { input }
            | Op::DistinctOn { input, .. }
            | Op::Sort { input, .. }
            | Op::Limit { input, .. }
            | Op::LockRows { input } => vec![input],
            Op::Join(join) => match &join.how {
                How::Loop { right } | How::Apply { right, .. } | How::Hash { right, .. } => {
                    vec![&join.left, right]
                }
                How::Keyed { .. } | How::Made { .. } => vec![&join.left],
            },
            Op::SetOperation { left, right, .. } => vec![left, right],
            Op::With { definitions, input } => {
                let mut inputs = Vec::new();
                for definition in definitions {
                    match &definition.body {
                        CteSteps::Query(node) => inputs.push(node),
                        CteSteps::Recursive { first, step, .. } => inputs.extend([first, step]),
                    }
                }
                inputs.push(input);
                inputs
            }
        }
    }

    /// Are its rows made of constants, which depend on nothing?
    pub(crate) fn is_constant(&self) -> bool {
        match &self.op {
            Op::Single => true,
            Op::Values(rows) => rows.iter().flatten().all(is_constant),
            Op::Project { input, output } => input.is_constant() && output.iter().all(is_constant),
            _ => false,
        }
    }

    /// The scan whose rows are its rows, if it does no more than leave some out, order them or make
    /// values of them.
    pub(crate) fn scan(&self) -> Option<&TableScan> {
        match &self.op {
            Op::Scan(scan) => Some(scan),
            Op::Filter { input, .. }
            | Op::Gate { input, .. }
            | Op::Project { input, .. }
            | Op::Sort { input, .. }
            | Op::Limit { input, .. }
            | Op::LockRows { input } => input.scan(),
            _ => None,
        }
    }

    /// The same with the place of each row behind its values, if each row is one of a table as a
    /// scan finds it; rows that are locked keep it through a sort.
    pub(crate) fn with_place(self: &Arc<Node>, sorts: bool) -> Option<Arc<Node>> {
        let wrap = |op: Op| Some(Arc::new(Node { op, width: self.width + 1, ..Node::clone(self) }));
        match &self.op {
            Op::Scan(scan) => {
                let mut scan = scan.clone();
                if scan.with_tid {
                    let tid = Expr::Column(scan.columns.len());
                    let output = (0..scan.columns.len()).map(Expr::Column);
                    let output = output.chain([tid.clone(), tid]).collect();
                    return wrap(Op::Project { input: Arc::clone(self), output });
                }
                scan.with_tid = true;
                wrap(Op::Scan(scan))
            }
            Op::Project { input, output } => {
                let input = input.with_place(sorts)?;
                let place = Expr::Column(input.width - 1);
                let output = output.iter().cloned().chain([place]).collect();
                wrap(Op::Project { input, output })
            }
            Op::Filter { input, condition } => {
                let (input, condition) = (input.with_place(sorts)?, condition.clone());
                wrap(Op::Filter { input, condition })
            }
            Op::Gate { input, condition } => {
                let (input, condition) = (input.with_place(sorts)?, condition.clone());
                wrap(Op::Gate { input, condition })
            }
            Op::Limit { input, limit, offset, ties } => wrap(Op::Limit {
                input: input.with_place(sorts)?,
                limit: limit.clone(),
                offset: offset.clone(),
                ties: ties.clone(),
            }),
            Op::Sort { input, keys, presorted } if sorts => {
                let (keys, presorted) = (keys.clone(), *presorted);
                wrap(Op::Sort { input: input.with_place(sorts)?, keys, presorted })
            }
            Op::LockRows { input } => wrap(Op::LockRows { input: input.with_place(sorts)? }),
            _ => None,
        }
    }

    /// Calls `look` for it and all below, queries inside of expressions left out.
    pub(crate) fn visit<'n>(&'n self, look: &mut dyn FnMut(&'n Node)) {
        look(self);
        self.inputs().into_iter().for_each(|input| input.visit(look));
    }
}

/// Does it read neither rows nor tables, and give the same each time?
fn is_constant(expr: &Expr) -> bool {
    !expr.has_query() && expr.is_stable()
}
