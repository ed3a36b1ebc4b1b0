//! From the algebra to what runs: places for columns, paths for scans, operators for relations.
//!
//! Each relation is lowered for what is wanted of it: which columns, in which order, how many rows.
//! What a node gives is told by its layout, the numbers of the columns of its rows.
//!
//! Invariants: a column that no input has is one of a query around, and becomes a slot of the
//! context that the query around fills. Does not do: the order of joins (`order`), rewriting.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::{Result, SqlError};
use crate::expr::aggregate::Aggregate;
use crate::expr::registry::SetFunction;
use crate::expr::{
    Body, ColumnId, Expr, PlannedSubquery, SortKey, Subquery, SubqueryKind, columns_of,
};
use crate::plan::bound::Bound;
use crate::plan::known::Known;
use crate::plan::node::Estimate;
use crate::plan::node::{CteNode, CteSteps, Node, Op, SetNode};
use crate::plan::path::{self, Demand, Path, Wanted};
use crate::plan::rel::{self, BoundSubquery, Cte, CteBody, Grouping, Limit, Rel, SetKind, SetOp};
use crate::plan::rewrite::{is_asked_once, is_stable, rewrite};
use crate::plan::term::{ELEMENTS, put_dear_last};
use crate::plan::window::{Window, WindowCall};
use crate::plan::{Again, Asks, Group, Query, Reads, Table, TableScan, ViewUse};
use crate::statistics::Statistics;
use crate::types::Datum;

/// Number of the first node in expressions over rows that a query of its own gives, whose nodes
/// have lower ones.
const OVER_ROW: usize = usize::MAX / 2;

/// Rows that a function is thought to give.
const SET_ROWS: f64 = 1_000.0;

/// Plans a query; `params` are values of its parameters, as far as they are known.
pub(crate) fn query(bound: Bound, known: &Known, params: &[Datum]) -> Result<Query> {
    let mut lowerer = Lowerer::new(known, params);
    let locks = bound.locks.as_ref().map(|locks| (locks.lock, locks.busy));
    let again = bound.clone();
    let rel = rewrite(bound.rel);
    let needed = bound.output.iter().copied().collect();
    let want = Want { asks_all: locks.is_some(), ..Want::of(&needed) };
    let lowered = lowerer.lower(rel, &want)?;
    let mut lowered = lowerer.exact(lowered, &bound.output);
    if locks.is_some() {
        let node = lowered.node;
        lowered.node =
            lowerer.node(Op::LockRows { input: Arc::clone(&node) }, node.width, node.estimate);
    }
    let again = lowerer.by_values.then(|| Arc::new(Again { bound: again, known: known.clone() }));
    Ok(Query {
        root: lowered.node,
        columns: bound.columns,
        locks,
        tables: known.tables(),
        has_queries: lowerer.subqueries > 0,
        views: lowerer.uses(),
        asks: Asks::default(),
        again,
    })
}

/// Plans the queries inside of expressions over a row of these columns: what they read.
pub(crate) fn over_row(exprs: Vec<&mut Expr>, layout: &[ColumnId], known: &Known) -> Result<Reads> {
    let mut lowerer = Lowerer { nodes: OVER_ROW, ..Lowerer::new(known, &[]) };
    exprs.into_iter().try_for_each(|expr| lowerer.place(expr, layout))?;
    let has_queries = lowerer.subqueries > 0;
    Ok(Reads { tables: known.tables(), views: lowerer.uses(), has_queries })
}

/// What is wanted of a relation.
pub(super) struct Want<'w> {
    pub(super) needed: &'w BTreeSet<ColumnId>,
    /// The order that the rows had best have.
    pub(super) order: &'w [SortKey],
    /// Does nothing depend on their order?
    pub(super) any_order: bool,
    /// How many rows, if that is known.
    pub(super) limit: Option<f64>,
    /// May it be that not all rows are taken?
    pub(super) is_cut: bool,
    /// Are rows judged again by what path and filter say?
    pub(super) asks_all: bool,
}

impl<'w> Want<'w> {
    /// These columns, all rows, as they come.
    pub(super) fn of(needed: &'w BTreeSet<ColumnId>) -> Want<'w> {
        Want { needed, order: &[], any_order: false, limit: None, is_cut: false, asks_all: false }
    }
}

/// A relation that is lowered.
pub(super) struct Lowered {
    pub(super) node: Arc<Node>,
    /// Columns of its rows.
    pub(super) layout: Vec<ColumnId>,
    /// Do the rows have the order that was wanted?
    pub(super) ordered: bool,
}

/// Lowers the relations of one statement.
pub(super) struct Lowerer<'k> {
    pub(super) known: &'k Known,
    pub(super) params: &'k [Datum],
    /// Numbers of nodes, views and slots that are given.
    nodes: usize,
    pub(super) views: Vec<ViewUse>,
    slots: BTreeMap<ColumnId, usize>,
    subqueries: usize,
    /// Does a function look at catalogs?
    pub(super) reads_catalog: bool,
    /// Could values of parameters make another way better?
    by_values: bool,
    /// Which column of which table a number is, of tables that are scanned.
    pub(super) origins: BTreeMap<ColumnId, Origin>,
    /// How many different values columns of relations are thought to have that are made up.
    pub(super) made_values: BTreeMap<ColumnId, f64>,
    /// What is thought of common table expressions.
    commons: BTreeMap<usize, Estimate>,
}

/// A column of a table.
#[derive(Clone)]
pub(super) struct Origin {
    pub(super) table: Arc<Table>,
    pub(super) at: usize,
}

impl<'k> Lowerer<'k> {
    fn new(known: &'k Known, params: &'k [Datum]) -> Lowerer<'k> {
        Lowerer {
            known,
            params,
            nodes: 0,
            views: Vec::new(),
            slots: BTreeMap::new(),
            subqueries: 0,
            reads_catalog: false,
            by_values: false,
            origins: BTreeMap::new(),
            made_values: BTreeMap::new(),
            commons: BTreeMap::new(),
        }
    }

    pub(super) fn node(&mut self, op: Op, width: usize, estimate: Estimate) -> Arc<Node> {
        let number = self.nodes;
        self.nodes += 1;
        Arc::new(Node { op, width, estimate, number })
    }

    /// The slot that a column of a query around has in the context.
    pub(super) fn slot(&mut self, id: ColumnId) -> usize {
        let next = self.slots.len();
        *self.slots.entry(id).or_insert(next)
    }

    /// The slot of a column that some query inside reads.
    pub(super) fn known_slot(&self, id: ColumnId) -> Option<usize> {
        self.slots.get(&id).copied()
    }

    pub(super) fn known_statistics(&self, table: &Table) -> Option<Arc<Statistics>> {
        self.known.statistics(table)
    }

    /// Lowers a relation.
    pub(super) fn lower(&mut self, rel: Rel, want: &Want<'_>) -> Result<Lowered> {
        match rel {
            Rel::Single => {
                let estimate = Estimate { startup: 0.0, total: 0.01, rows: 1.0, width: 0 };
                Ok(plain(self.node(Op::Single, 0, estimate), Vec::new()))
            }
            Rel::Scan(scan) => self.scan(*scan, Vec::new(), want),
            Rel::Filter { input, conditions } => self.filter(*input, conditions, want),
            Rel::Project { input, output } => self.project(*input, output, want),
            Rel::Join(join) => self.join(*join, want),
            Rel::ProjectSet { input, calls } => self.project_set(*input, calls, want),
            Rel::Aggregate(group) => self.aggregate(*group, want),
            Rel::Window { input, window } => self.window(*input, *window, want),
            Rel::Distinct { input, columns } => {
                let needed = columns.iter().copied().collect();
                let want = Want { any_order: true, ..Want::of(&needed) };
                let input = self.lower(*input, &want)?;
                let input = self.exact(input, &columns);
                let (width, estimate) = (columns.len(), input.node.estimate);
                let node = self.node(Op::Distinct { input: input.node }, width, estimate);
                Ok(plain(node, columns))
            }
            Rel::DistinctOn { input, columns, sort } => {
                let mut needed = want.needed.clone();
                needed.extend(&columns);
                let input = self.lower(*input, &Want::of(&needed))?;
                let keys = sort.into_iter().filter(|key| columns.contains(&key.at));
                // Bytes decide what is equal, whatever decides the order.
                let keys = keys.map(|key| SortKey { collation: None, ..key });
                let keys = placed_keys(keys.collect(), &input.layout)?;
                let (width, estimate) = (input.node.width, input.node.estimate);
                let op = Op::DistinctOn { input: input.node, keys };
                Ok(plain(self.node(op, width, estimate), input.layout))
            }
            Rel::Sort { input, keys } => self.sort(*input, keys, want),
            Rel::Limit(limit) => self.limit(*limit, want),
            Rel::SetOp(set) => self.set_operation(*set),
            Rel::Values { columns, mut rows } => {
                rows.iter_mut().flatten().try_for_each(|expr| self.place(expr, &[]))?;
                let estimate = Estimate::fixed(rows.len() as f64, columns.len() * 8);
                let estimate = match rows.len() {
                    1 => Estimate { total: 0.01, ..estimate },
                    _ => estimate,
                };
                Ok(plain(self.node(Op::Values(rows), columns.len(), estimate), columns))
            }
            Rel::Function(function) => {
                let rel::Function { call, mut args, columns, ordinality, alias } = *function;
                args.iter_mut().try_for_each(|arg| self.place(arg, &[]))?;
                let layout: Vec<ColumnId> = columns.into_iter().chain(ordinality).collect();
                let estimate = match call {
                    SetFunction::Value => Estimate { total: 0.01, ..Estimate::fixed(1.0, 8) },
                    SetFunction::Unnest => Estimate::fixed(ELEMENTS as f64, layout.len() * 8),
                    _ => Estimate::fixed(SET_ROWS, 8),
                };
                let op = Op::Function { call, args, ordinality: ordinality.is_some(), alias };
                Ok(plain(self.node(op, layout.len(), estimate), layout))
            }
            Rel::View { view, args, columns } => self.view(view, args, &columns, want),
            Rel::CteScan { cte, columns, name, is_step } => {
                let estimate = self.commons.get(&cte).copied().unwrap_or(Estimate::fixed(100.0, 8));
                let total = estimate.rows * 0.02;
                let estimate = Estimate { startup: 0.0, total, ..estimate };
                let kept = kept_places(&columns, want.needed);
                let layout: Vec<ColumnId> = kept.iter().map(|at| columns[*at]).collect();
                let op = Op::CteScan { cte, name, is_step, columns: kept };
                Ok(plain(self.node(op, layout.len(), estimate), layout))
            }
            Rel::With { definitions, input } => self.with(definitions, *input, want),
        }
    }

    /// Puts places for the numbers of columns, and plans queries inside.
    pub(super) fn place(&mut self, expr: &mut Expr, layout: &[ColumnId]) -> Result<()> {
        let mut failed = None;
        expr.change(&mut |inner| {
            match inner {
                Expr::Column(id) => {
                    *inner = match layout.iter().position(|known| known == id) {
                        Some(at) => Expr::Column(at),
                        None => Expr::Outer(self.slot(*id)),
                    };
                }
                Expr::Call(..) | Expr::Sequence(..) => {
                    self.reads_catalog |= inner.reads_catalog();
                    return true;
                }
                Expr::Subquery(query) => {
                    if let Err(error) = self.subquery(query, layout) {
                        failed.get_or_insert(error);
                    }
                    return false;
                }
                _ => return true,
            }
            false
        });
        failed.map_or(Ok(()), Err)
    }

    /// Plans a query inside of an expression over rows of this layout.
    fn subquery(&mut self, query: &mut Subquery, layout: &[ColumnId]) -> Result<()> {
        // A condition that went to several places has a query in each.
        query.number = self.subqueries;
        self.subqueries += 1;
        let free = query.free();
        let inner = BoundSubquery::of_mut(query).expect("a query is planned once");
        let BoundSubquery { rel, output } = std::mem::take(inner);
        let is_stable = is_stable(&rel);
        let needed = output.iter().copied().collect();
        // One row says whether there are any.
        let is_cut = query.kind.is_exists();
        let limit = is_cut.then_some(1.0);
        let lowered = self.lower(rewrite(rel), &Want { limit, is_cut, ..Want::of(&needed) })?;
        let lowered = self.exact(lowered, &output);
        if let SubqueryKind::Compare { needles, test, .. } = &mut query.kind {
            needles.iter_mut().try_for_each(|(_, needle)| self.place(needle, layout))?;
            let ids = needles.iter().map(|(id, _)| *id);
            let inner: Vec<ColumnId> = ids.chain(output.iter().copied()).collect();
            self.place(test, &inner)?;
        }
        let mut binds = Vec::new();
        let mut slots = Vec::with_capacity(free.len());
        for id in free {
            let slot = self.slot(id);
            slots.push(slot);
            if let Some(at) = layout.iter().position(|known| *known == id) {
                binds.push((slot, Expr::Column(at)));
            }
        }
        let plan = Arc::new(PlannedSubquery { node: lowered.node, slots, is_stable });
        query.body = Body::Planned { plan, binds };
        Ok(())
    }

    /// Rows of exactly these columns.
    pub(super) fn exact(&mut self, lowered: Lowered, columns: &[ColumnId]) -> Lowered {
        if lowered.layout == columns {
            return lowered;
        }
        let place = |id: &ColumnId| {
            let at = lowered.layout.iter().position(|known| known == id);
            Expr::Column(at.expect("what is needed comes through"))
        };
        let output = columns.iter().map(place).collect();
        let estimate = lowered.node.estimate;
        let op = Op::Project { input: lowered.node, output };
        let node = self.node(op, columns.len(), estimate);
        Lowered { node, layout: columns.to_vec(), ordered: lowered.ordered }
    }

    /// A table scan that asks these conditions, with no path chosen yet, and its layout.
    pub(super) fn table_scan(
        &mut self,
        scan: rel::Scan,
        mut conditions: Vec<Expr>,
        needed: &BTreeSet<ColumnId>,
    ) -> Result<(TableScan, Vec<ColumnId>)> {
        let mut wanted = needed.clone();
        conditions.iter().for_each(|one| columns_of(one, &mut wanted));
        let columns = kept_places(&scan.columns, &wanted);
        let with_tid = wanted.contains(&scan.tid);
        let layout = columns.iter().map(|at| scan.columns[*at]);
        let layout: Vec<ColumnId> = layout.chain(with_tid.then_some(scan.tid)).collect();
        for (at, id) in scan.columns.iter().enumerate() {
            self.origins.insert(*id, Origin { table: Arc::clone(&scan.table), at });
        }
        conditions.iter_mut().try_for_each(|one| self.place(one, &layout))?;
        let filter = match conditions.len() {
            0 | 1 => conditions.pop(),
            _ => Some(Expr::And(conditions)),
        };
        let statistics = self.known.statistics(&scan.table);
        let scan = TableScan {
            table: scan.table,
            alias: scan.alias,
            columns,
            with_tid,
            path: Path::Sequential,
            filter,
            statistics,
            asked: None,
            by_values: false,
            any_order: false,
        };
        Ok((scan, layout))
    }

    fn scan(&mut self, scan: rel::Scan, conditions: Vec<Expr>, want: &Want<'_>) -> Result<Lowered> {
        let ids = scan.columns.clone();
        let column = |key: &SortKey| {
            let column = ids.iter().position(|id| *id == key.at)?;
            let (descending, nulls_first) = (key.descending, key.nulls_first);
            Some(Wanted { column, descending, nulls_first, collation: key.collation.clone() })
        };
        let order: Option<Vec<Wanted>> = want.order.iter().map(column).collect();
        let order = order.unwrap_or_default();
        let (mut scan, layout) = self.table_scan(scan, conditions, want.needed)?;
        let demand = Demand {
            order: if want.asks_all { &[] } else { &order },
            limit: want.limit,
            asks_all: want.asks_all,
            params: self.params,
            switches: self.known.switches(),
        };
        let ordered = path::choose_scan(&mut scan, &demand);
        scan.any_order = want.any_order || (!want.order.is_empty() && !ordered);
        let is_sorted = !want.order.is_empty() && !ordered;
        if want.is_cut
            && !is_sorted
            && let Path::Index(path) = &mut scan.path
        {
            // A scan that is told how many rows to expect reads ahead for all of them.
            path.expected = None;
        }
        self.by_values |= scan.by_values;
        let (width, estimate) = (layout.len(), path::estimate(&scan, self.params));
        let node = self.node(Op::Scan(Box::new(scan)), width, estimate);
        Ok(Lowered { node, layout, ordered })
    }

    /// Conditions that name no column are asked once, before anything is read.
    fn filter(&mut self, input: Rel, conditions: Vec<Expr>, want: &Want<'_>) -> Result<Lowered> {
        let (once, conditions) = conditions.into_iter().partition(is_asked_once);
        let mut lowered = self.filter_rows(input, conditions, want)?;
        lowered.node = self.gated(lowered.node, once)?;
        Ok(lowered)
    }

    fn gated(&mut self, input: Arc<Node>, mut once: Vec<Expr>) -> Result<Arc<Node>> {
        once.iter_mut().try_for_each(|one| self.place(one, &[]))?;
        let condition = match once.len() {
            0 => return Ok(input),
            1 => once.remove(0),
            _ => Expr::And(once),
        };
        let (width, below) = (input.width, input.estimate);
        let estimate = match &condition {
            Expr::Const(Datum::Bool(false) | Datum::Null) => {
                Estimate { startup: 0.0, total: 0.0, rows: 1.0, ..below }
            }
            _ => below,
        };
        Ok(self.node(Op::Gate { input, condition }, width, estimate))
    }

    fn filter_rows(
        &mut self,
        input: Rel,
        conditions: Vec<Expr>,
        want: &Want<'_>,
    ) -> Result<Lowered> {
        let input = match input {
            Rel::Scan(scan) => return self.scan(*scan, conditions, want),
            Rel::View { view, args, columns } if args.is_empty() => {
                return self.view_of_key(view, columns, conditions, want);
            }
            input => input,
        };
        let mut needed = want.needed.clone();
        conditions.iter().for_each(|one| columns_of(one, &mut needed));
        let mut input = self.lower(input, &Want { needed: &needed, ..*want })?;
        input.node = self.filtered(input.node, conditions, &input.layout)?;
        Ok(input)
    }

    /// A node whose rows meet these conditions.
    pub(super) fn filtered(
        &mut self,
        input: Arc<Node>,
        conditions: Vec<Expr>,
        layout: &[ColumnId],
    ) -> Result<Arc<Node>> {
        let count = conditions.len();
        let Some(condition) = self.all_of(conditions, layout)? else { return Ok(input) };
        let (width, below) = (input.width, input.estimate);
        Ok(self.node(Op::Filter { input, condition }, width, below.meeting(count)))
    }

    /// These conditions as one over rows of this layout, those last that take long.
    pub(super) fn all_of(
        &mut self,
        mut conditions: Vec<Expr>,
        layout: &[ColumnId],
    ) -> Result<Option<Expr>> {
        put_dear_last(&mut conditions);
        conditions.iter_mut().try_for_each(|one| self.place(one, layout))?;
        Ok(match conditions.len() {
            0 | 1 => conditions.pop(),
            _ => Some(Expr::And(conditions)),
        })
    }

    fn project(
        &mut self,
        input: Rel,
        output: Vec<(ColumnId, Expr)>,
        want: &Want<'_>,
    ) -> Result<Lowered> {
        let kept = |id: &ColumnId, expr: &Expr| want.needed.contains(id) || expr.is_volatile();
        let output: Vec<(ColumnId, Expr)> =
            output.into_iter().filter(|(id, expr)| kept(id, expr)).collect();
        let order = order_below(want.order, &output);
        let mut needed = BTreeSet::new();
        output.iter().for_each(|(_, expr)| columns_of(expr, &mut needed));
        let below = Want {
            needed: &needed,
            order: order.as_deref().unwrap_or(&[]),
            any_order: want.any_order || (order.is_none() && !want.order.is_empty()),
            ..*want
        };
        let input = self.lower(input, &below)?;
        let ordered = input.ordered && order.is_some();
        if output.iter().all(|(id, expr)| matches!(expr, Expr::Column(of) if of == id)) {
            return Ok(Lowered { ordered, ..input });
        }
        let mut exprs = Vec::with_capacity(output.len());
        let mut layout = Vec::with_capacity(output.len());
        for (id, mut expr) in output {
            self.place(&mut expr, &input.layout)?;
            exprs.push(expr);
            layout.push(id);
        }
        let estimate = input.node.estimate;
        let op = Op::Project { input: input.node, output: exprs };
        Ok(Lowered { node: self.node(op, layout.len(), estimate), layout, ordered })
    }

    /// How often a row comes depends on all calls, whichever are needed.
    fn project_set(
        &mut self,
        input: Rel,
        calls: Vec<rel::SetCall>,
        want: &Want<'_>,
    ) -> Result<Lowered> {
        let mut needed = want.needed.clone();
        let is_of_calls = |id: &ColumnId| calls.iter().any(|call| call.columns.contains(id));
        needed.retain(|id| !is_of_calls(id));
        calls.iter().flat_map(|call| &call.args).for_each(|arg| columns_of(arg, &mut needed));
        let order =
            if want.order.iter().any(|key| is_of_calls(&key.at)) { &[] } else { want.order };
        let below = Want { needed: &needed, order, limit: None, ..*want };
        let input = self.lower(input, &below)?;
        let mut layout = input.layout;
        let width = layout.len();
        let mut nodes = Vec::with_capacity(calls.len());
        for rel::SetCall { columns, function, mut args, .. } in calls {
            args.iter_mut().try_for_each(|arg| self.place(arg, &layout[..width]))?;
            nodes.push(SetNode { function, args, width: columns.len() });
            layout.extend(columns);
        }
        let below = input.node.estimate;
        let rows = below.rows * SET_ROWS;
        let estimate = Estimate { total: below.total + rows * 0.005, rows, ..below };
        let op = Op::ProjectSet { input: input.node, calls: nodes };
        let ordered = input.ordered && !order.is_empty();
        Ok(Lowered { node: self.node(op, layout.len(), estimate), layout, ordered })
    }

    fn aggregate(&mut self, group: Grouping, want: &Want<'_>) -> Result<Lowered> {
        let Grouping { input, keys, sets, aggregates, marks } = group;
        let aggregates: Vec<(ColumnId, Aggregate)> =
            aggregates.into_iter().filter(|(id, _)| want.needed.contains(id)).collect();
        let mut needed = BTreeSet::new();
        keys.iter().for_each(|(_, key)| columns_of(key, &mut needed));
        let exprs = aggregates.iter().flat_map(|(_, one)| one.exprs());
        exprs.for_each(|expr| columns_of(expr, &mut needed));
        let input = self.lower(input, &Want { any_order: true, ..Want::of(&needed) })?;
        let (mut group_keys, mut made, mut layout) = (Vec::new(), Vec::new(), Vec::new());
        for (id, mut key) in keys {
            self.place(&mut key, &input.layout)?;
            group_keys.push(key);
            layout.push(id);
        }
        for (id, mut one) in aggregates {
            one.exprs_mut().try_for_each(|expr| self.place(expr, &input.layout))?;
            made.push(one);
            layout.push(id);
        }
        let below = input.node.estimate;
        let rows = if group_keys.is_empty() { 1.0 } else { (below.rows / 5.0).clamp(1.0, 200.0) };
        let total = below.total + below.rows * 0.0025 * made.len().max(1) as f64;
        let estimate =
            Estimate { startup: total, total: total + rows * 0.01, rows, width: below.width };
        let mut values = Vec::with_capacity(marks.len());
        for rel::Mark { id, values: of_sets } in marks {
            values.push(of_sets);
            layout.push(id);
        }
        let rows = rows * sets.len().max(1) as f64;
        let estimate = Estimate { rows, ..estimate };
        let group = Group { keys: group_keys, sets, aggregates: made, marks: values };
        let op = Op::Aggregate { input: input.node, group };
        Ok(plain(self.node(op, layout.len(), estimate), layout))
    }

    fn window(
        &mut self,
        input: Rel,
        window: Window<(ColumnId, WindowCall)>,
        want: &Want<'_>,
    ) -> Result<Lowered> {
        let Window { partition, order, calls } = window;
        let calls = calls.into_iter().filter(|(id, _)| want.needed.contains(id));
        let calls: Vec<(ColumnId, WindowCall)> = calls.collect();
        let keys: Vec<SortKey> = partition.iter().chain(&order).cloned().collect();
        let mut needed = want.needed.clone();
        needed.extend(keys.iter().map(|key| key.at));
        let exprs = calls.iter().flat_map(|(_, call)| call.exprs());
        exprs.for_each(|expr| columns_of(expr, &mut needed));
        let input = self.lower(input, &Want::of(&needed))?;
        let (partition, order) =
            (placed_keys(partition, &input.layout)?, placed_keys(order, &input.layout)?);
        let mut layout = input.layout;
        let mut made = Vec::with_capacity(calls.len());
        for (id, mut call) in calls {
            let width = layout.len() - made.len();
            for expr in call.exprs_mut() {
                self.place(expr, &layout[..width])?;
            }
            made.push(call);
            layout.push(id);
        }
        let below = input.node.estimate;
        let total = below.total + below.rows * 0.01 * made.len().max(1) as f64;
        let op = Op::Window {
            input: input.node,
            window: Box::new(Window { partition, order, calls: made }),
        };
        let node = self.node(op, layout.len(), Estimate { total, ..below });
        let ordered = !want.order.is_empty() && keys.starts_with(want.order);
        Ok(Lowered { node, layout, ordered })
    }

    fn sort(&mut self, input: Rel, keys: Vec<SortKey>, want: &Want<'_>) -> Result<Lowered> {
        let mut needed = want.needed.clone();
        needed.extend(keys.iter().map(|key| key.at));
        let below = Want { needed: &needed, order: &keys, ..*want };
        let again = want.limit.filter(|_| is_simple(&input)).map(|_| input.clone());
        let input = self.lower(input, &below)?;
        // Its own order may be another one than is wanted of it.
        let ordered = !want.order.is_empty() && keys.starts_with(want.order);
        if input.ordered {
            return Ok(Lowered { ordered, ..input });
        }
        let whole = input.node.estimate.total + path::sort_cost(input.node.estimate.rows);
        if let Some(rel) = again
            && let Some(node) = self.presorted(rel, &keys, &below, whole)?
        {
            return Ok(Lowered { ordered, ..node });
        }
        let keys = placed_keys(keys, &input.layout)?;
        let (width, of_input) = (input.node.width, input.node.estimate);
        let total = of_input.total + path::sort_cost(of_input.rows);
        let estimate = Estimate { startup: total, total, ..of_input };
        let op = Op::Sort { input: input.node, keys, presorted: 0 };
        Ok(Lowered { node: self.node(op, width, estimate), layout: input.layout, ordered })
    }

    /// A sort of rows that come in the order of the first keys, if that costs less than `whole`
    /// where not all rows are wanted.
    fn presorted(
        &mut self,
        rel: Rel,
        keys: &[SortKey],
        want: &Want<'_>,
        whole: f64,
    ) -> Result<Option<Lowered>> {
        let Some(limit) = want.limit else { return Ok(None) };
        if want.asks_all || !self.known.switches().incremental_sort {
            return Ok(None);
        }
        for presorted in (1..keys.len()).rev() {
            let want = Want { order: &keys[..presorted], ..*want };
            let input = self.lower(rel.clone(), &want)?;
            if !input.ordered {
                continue;
            }
            let Estimate { startup, total, rows, .. } = input.node.estimate;
            // As many groups as values of a column about which nothing is known.
            let group = (rows / 200.0).max(1.0);
            let share = ((limit + group) / rows.max(1.0)).min(1.0);
            let cost = startup + (total - startup) * share + path::sort_cost(rows * share);
            if cost >= whole {
                return Ok(None);
            }
            let startup = startup + (total - startup) * (group / rows.max(1.0)).min(1.0);
            let total = total + path::sort_cost(rows);
            let estimate = Estimate { startup, total, ..input.node.estimate };
            let (keys, width) = (placed_keys(keys.to_vec(), &input.layout)?, input.node.width);
            let op = Op::Sort { input: input.node, keys, presorted };
            let node = self.node(op, width, estimate);
            return Ok(Some(Lowered { node, layout: input.layout, ordered: true }));
        }
        Ok(None)
    }

    fn limit(&mut self, limit: Limit, want: &Want<'_>) -> Result<Lowered> {
        let Limit { input, mut limit, mut offset, ties } = limit;
        let known = match &limit {
            Some(Expr::Const(Datum::Int8(n))) => Some(*n as f64),
            _ => None,
        };
        let mut needed = want.needed.clone();
        needed.extend(ties.iter().flatten().map(|key| key.at));
        let below =
            Want { limit: known, is_cut: true, asks_all: want.asks_all, ..Want::of(&needed) };
        let input = self.lower(input, &below)?;
        limit.iter_mut().chain(&mut offset).try_for_each(|expr| self.place(expr, &[]))?;
        let ties = ties.map(|keys| placed_keys(keys, &input.layout)).transpose()?;
        let all = input.node.estimate;
        let rows = known.map_or(all.rows, |known| known.max(0.0)).min(all.rows);
        let share = if all.rows > 0.0 { rows / all.rows } else { 1.0 };
        let total = all.startup + (all.total - all.startup) * share;
        let width = input.node.width;
        let op = Op::Limit { input: input.node, limit, offset, ties };
        let node = self.node(op, width, Estimate { total, rows, ..all });
        Ok(Lowered { node, ..input })
    }

    fn set_operation(&mut self, set: SetOp) -> Result<Lowered> {
        let mut side = |rel: Rel, columns: &[ColumnId]| {
            let needed = columns.iter().copied().collect();
            let any_order = !(set.all && set.kind == SetKind::Union);
            let lowered = self.lower(rel, &Want { any_order, ..Want::of(&needed) })?;
            Ok::<_, SqlError>(self.exact(lowered, columns).node)
        };
        let left = side(set.left, &set.left_columns)?;
        let right = side(set.right, &set.right_columns)?;
        let (a, b) = (left.estimate, right.estimate);
        let rows = match set.kind {
            SetKind::Union => a.rows + b.rows,
            SetKind::Intersect => a.rows.min(b.rows),
            SetKind::Except => a.rows,
        };
        let total = a.total + b.total + (a.rows + b.rows) * if set.all { 0.01 } else { 0.02 };
        let estimate = Estimate { startup: 0.0, total, rows, width: a.width.max(b.width) };
        let op = Op::SetOperation { kind: set.kind, all: set.all, left, right };
        Ok(plain(self.node(op, set.columns.len(), estimate), set.columns))
    }

    fn with(&mut self, definitions: Vec<Cte>, input: Rel, want: &Want<'_>) -> Result<Lowered> {
        let mut nodes = Vec::with_capacity(definitions.len());
        for Cte { number, name, body, columns } in definitions {
            let exact = |lowerer: &mut Self, rel: Rel, columns: &[ColumnId]| {
                let needed = columns.iter().copied().collect();
                let lowered = lowerer.lower(rel, &Want::of(&needed))?;
                Ok::<_, SqlError>(lowerer.exact(lowered, columns).node)
            };
            let body = match body {
                CteBody::Query { rel, .. } => {
                    let node = exact(self, rel, &columns)?;
                    self.commons.insert(number, node.estimate);
                    CteSteps::Query(node)
                }
                CteBody::Recursive { first, first_columns, step, step_columns, all } => {
                    let first = exact(self, first, &first_columns)?;
                    let estimate = first.estimate;
                    let rows = estimate.rows * 10.0;
                    self.commons.insert(number, Estimate { rows, ..estimate });
                    let step = exact(self, step, &step_columns)?;
                    self.nodes += 1;
                    CteSteps::Recursive { first, step, all, number: self.nodes - 1 }
                }
            };
            nodes.push(CteNode { number, name, body });
        }
        let input = self.lower(input, want)?;
        let mut estimate = input.node.estimate;
        for node in &nodes {
            if let CteSteps::Query(body) = &node.body {
                estimate.startup += body.estimate.total;
                estimate.total += body.estimate.total;
            }
        }
        let width = input.node.width;
        let op = Op::With { definitions: nodes, input: input.node };
        Ok(Lowered { node: self.node(op, width, estimate), ..input })
    }
}

/// Is it rows of one table, with conditions and values made of them at most?
fn is_simple(rel: &Rel) -> bool {
    match rel {
        Rel::Scan(_) => true,
        Rel::Filter { input, .. } | Rel::Project { input, .. } => is_simple(input),
        _ => false,
    }
}

/// A node whose rows have no order that was wanted.
pub(super) fn plain(node: Arc<Node>, layout: Vec<ColumnId>) -> Lowered {
    Lowered { node, layout, ordered: false }
}

/// Places of the columns that are needed.
pub(super) fn kept_places(columns: &[ColumnId], needed: &BTreeSet<ColumnId>) -> Vec<usize> {
    (0..columns.len()).filter(|at| needed.contains(&columns[*at])).collect()
}

/// Keys by their places in rows of a layout.
fn placed_keys(keys: Vec<SortKey>, layout: &[ColumnId]) -> Result<Vec<SortKey>> {
    let place = |mut key: SortKey| {
        let at = layout.iter().position(|id| *id == key.at);
        key.at = at.expect("the columns of keys are needed");
        key
    };
    Ok(keys.into_iter().map(place).collect())
}

/// An order of a projection as one of its input; `None` if the input has no such columns.
fn order_below(order: &[SortKey], output: &[(ColumnId, Expr)]) -> Option<Vec<SortKey>> {
    let key = |key: &SortKey| {
        let (_, expr) = output.iter().find(|(id, _)| *id == key.at)?;
        let expr = match expr {
            Expr::Pad(inner, _) => inner,
            other => other,
        };
        let Expr::Column(id) = expr else { return None };
        Some(SortKey { at: *id, ..key.clone() })
    };
    order.iter().map(key).collect()
}

/// Names of the columns of a scan's rows.
pub(crate) fn scan_names(scan: &TableScan) -> Vec<String> {
    let columns = &scan.table.info.columns;
    let mut names: Vec<String> = scan.columns.iter().map(|at| columns[*at].name.clone()).collect();
    names.push("ctid".to_owned());
    names
}
