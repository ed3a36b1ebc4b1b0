//! Queries inside of expressions.
//!
//! Invariants: before it is planned its columns are numbers of the algebra; afterwards what it
//! needs of rows around it is bound to slots of the context.
//! Does not do: running them (`exec::subquery`).

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use crate::expr::Expr;
use crate::types::ElementType;

/// A column of the algebra: its number in the statement. [`Expr::Column`] has it until the relation
/// is lowered.
pub(crate) type ColumnId = usize;

/// A query inside of an expression.
#[derive(Clone, Debug)]
pub(crate) struct Subquery {
    pub(crate) kind: SubqueryKind,
    pub(crate) body: Body,
    /// Its number in the statement, under which results are remembered.
    pub(crate) number: usize,
}

/// What the expression is of the query's rows.
#[derive(Clone, Debug)]
pub(crate) enum SubqueryKind {
    /// The one value of its one row, or null.
    Scalar,
    Exists,
    /// An array of the values of its rows, whose elements have this type.
    Array {
        element: ElementType,
        /// Are the values arrays themselves?
        of_arrays: bool,
    },
    /// Is the test true of any of its rows, or of all? The test names the needles and the query's
    /// columns.
    Compare {
        needles: Vec<(ColumnId, Expr)>,
        test: Expr,
        all: bool,
    },
}

/// The query.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// As it is bound.
    Bound(Box<dyn BoundQuery>),
    Planned {
        plan: Arc<PlannedSubquery>,
        /// Slots of the context, and what they get from the row around the query.
        binds: Vec<(usize, Expr)>,
    },
}

/// A query as it is bound. The planner knows the relations of the query
/// (`plan::rel::BoundSubquery`), which have expressions in them in turn.
pub(crate) trait BoundQuery: Any + Debug + Send + Sync {
    /// Columns of its rows.
    fn output(&self) -> &[ColumnId];

    /// Columns of queries around it that it names.
    fn free(&self) -> BTreeSet<ColumnId>;

    /// Calls `change` for each of its expressions.
    fn change(&mut self, change: &mut dyn FnMut(&mut Expr));

    fn copy(&self) -> Box<dyn BoundQuery>;

    /// Its relations and the nodes of their expressions, those of queries in them included.
    fn nodes(&self) -> usize;
}

impl Clone for Box<dyn BoundQuery> {
    fn clone(&self) -> Self {
        // The contents are copied, not the box.
        (**self).copy()
    }
}

/// A query that can run.
#[derive(Debug)]
pub(crate) struct PlannedSubquery {
    /// The planner's (`plan::node::Node::of`).
    pub(crate) node: Arc<dyn Any + Send + Sync>,
    /// All slots that it reads, those of rows further out included.
    pub(crate) slots: Vec<usize>,
    /// Does it give the same for the same slots?
    pub(crate) is_stable: bool,
}

impl SubqueryKind {
    /// Is it EXISTS?
    pub(crate) fn is_exists(&self) -> bool {
        matches!(self, SubqueryKind::Exists)
    }
}

impl Subquery {
    /// Expressions over the row around the query: what its rows are compared with, and what slots
    /// get.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Expr> {
        let needles: &[(ColumnId, Expr)] = match &self.kind {
            SubqueryKind::Compare { needles, .. } => needles,
            SubqueryKind::Scalar | SubqueryKind::Exists | SubqueryKind::Array { .. } => &[],
        };
        let binds: &[(usize, Expr)] = match &self.body {
            Body::Planned { binds, .. } => binds,
            Body::Bound(_) => &[],
        };
        needles.iter().chain(binds).map(|(_, expr)| expr)
    }

    /// The same, to be changed.
    pub(crate) fn parts_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let needles: &mut [(ColumnId, Expr)] = match &mut self.kind {
            SubqueryKind::Compare { needles, .. } => needles,
            SubqueryKind::Scalar | SubqueryKind::Exists | SubqueryKind::Array { .. } => &mut [],
        };
        let binds: &mut [(usize, Expr)] = match &mut self.body {
            Body::Planned { binds, .. } => binds,
            Body::Bound(_) => &mut [],
        };
        needles.iter_mut().chain(binds).map(|(_, expr)| expr)
    }

    /// Columns of queries around it that it names, if it is not planned.
    pub(crate) fn free(&self) -> BTreeSet<ColumnId> {
        let Body::Bound(bound) = &self.body else { return BTreeSet::new() };
        let mut free = bound.free();
        if let SubqueryKind::Compare { needles, test, .. } = &self.kind {
            let mut named = BTreeSet::new();
            columns_of(test, &mut named);
            let own = |id: &ColumnId| {
                bound.output().contains(id) || needles.iter().any(|(needle, _)| needle == id)
            };
            free.extend(named.into_iter().filter(|id| !own(id)));
        }
        free
    }

    /// Nodes of the query, if it is not planned, and of the test.
    fn nodes(&self) -> usize {
        let of_query = match &self.body {
            Body::Bound(bound) => bound.nodes(),
            Body::Planned { .. } => 0,
        };
        match &self.kind {
            SubqueryKind::Compare { test, .. } => of_query + nodes_of(test),
            SubqueryKind::Scalar | SubqueryKind::Exists | SubqueryKind::Array { .. } => of_query,
        }
    }

    /// Changes the expressions of the query that is not planned, those of queries in it too.
    pub(crate) fn substitute(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        if let Body::Bound(bound) = &mut self.body {
            bound.change(change);
        }
        if let SubqueryKind::Compare { test, .. } = &mut self.kind {
            change(test);
        }
    }

    /// Puts columns in the places of aggregates of the query around it, which the arguments of a
    /// function that a user made may be.
    pub(crate) fn name_aggregates(&mut self, column: &dyn Fn(usize) -> ColumnId) {
        if let Body::Bound(bound) = &mut self.body {
            bound.change(&mut |expr| {
                expr.change(&mut |inner| {
                    match inner {
                        Expr::Aggregate(at) => *inner = Expr::Column(column(*at)),
                        Expr::Subquery(query) => query.name_aggregates(column),
                        _ => {}
                    }
                    true
                });
            });
        }
    }

    /// Gives columns of the query that is not planned other numbers, those of queries in it too.
    pub(crate) fn rename(&mut self, name: &mut dyn FnMut(ColumnId) -> ColumnId) {
        if let Body::Bound(bound) = &mut self.body {
            bound.change(&mut |expr| rename_expr(expr, name, true));
        }
        if let SubqueryKind::Compare { test, .. } = &mut self.kind {
            rename_expr(test, name, true);
        }
    }
}

/// Gives columns other numbers; inside of queries too if so.
pub(crate) fn rename_expr(
    expr: &mut Expr,
    name: &mut dyn FnMut(ColumnId) -> ColumnId,
    inside: bool,
) {
    expr.change(&mut |inner| {
        match inner {
            Expr::Column(id) => *id = name(*id),
            Expr::Subquery(query) if inside => query.rename(name),
            _ => {}
        }
        true
    });
}

/// Columns that an expression names, and columns of this level that its subqueries name.
pub(crate) fn columns_of(expr: &Expr, out: &mut BTreeSet<ColumnId>) {
    expr.walk(&mut |inner| match inner {
        Expr::Column(id) => drop(out.insert(*id)),
        Expr::Subquery(query) => out.extend(query.free()),
        _ => {}
    });
}

/// Nodes of an expression, those of queries in it included: what a copy takes.
pub(crate) fn nodes_of(expr: &Expr) -> usize {
    let mut nodes = 0;
    expr.walk(&mut |inner| {
        nodes += 1;
        if let Expr::Subquery(query) = inner {
            nodes += query.nodes();
        }
    });
    nodes
}

/// Does an expression name any column?
pub(crate) fn names_columns(expr: &Expr) -> bool {
    let mut named = BTreeSet::new();
    columns_of(expr, &mut named);
    !named.is_empty()
}
