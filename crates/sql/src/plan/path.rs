//! Which index a condition and an order ask for.
//!
//! A condition is taken apart at its ANDs. For each index the equalities on its first key columns,
//! then a range or a list on the next one, make a range of keys; what is left stays a filter. The
//! cheapest by a small model of pages and rows wins, an order that the index delivers counted in.
//!
//! Invariants: what a range of keys promises is exactly what the conditions it stands for say:
//! nulls are outside of every range.
//! Does not do: costs (`model`), what a single condition says (`term`), bounds for the values of
//! one execution (`index_path`).

use std::sync::Arc;

use rightlink::{Collation, IndexInfo, IndexMethod};

use crate::expr::Expr;
use crate::plan::index_path::IndexPath;
use crate::plan::model::{Model, OPERATOR};
use crate::plan::node::Estimate;
use crate::plan::term::{Term, flatten, term};
use crate::plan::{TableScan, predicate};
use crate::settings::planner::{Switches, penalty};
use crate::types::{Datum, SqlType};

/// So much less than it costs does a path count that cannot be wrong: no statistics do better.
const CERTAIN: f64 = 1e12;

/// How the rows of a table are found.
#[derive(Clone, Debug)]
pub(crate) enum Path {
    /// All of them.
    Sequential,
    Index(Box<IndexPath>),
    /// The version at this place.
    Tid(Expr),
}

/// What is wanted of a scan.
#[derive(Clone, Copy, Default)]
pub(crate) struct Demand<'d> {
    /// The order of its rows, as columns of the table.
    pub(crate) order: &'d [Wanted],
    /// How many rows, if that is known.
    pub(crate) limit: Option<f64>,
    /// Are rows judged again by what the path and the filter say, as those that are locked are?
    pub(crate) asks_all: bool,
    /// Values of parameters, as far as they are known.
    pub(crate) params: &'d [Datum],
    pub(crate) switches: Switches,
}

/// Chooses how a query scans a table; says whether the rows come in the wanted order.
pub(crate) fn choose_scan(scan: &mut TableScan, demand: &Demand<'_>) -> bool {
    begin(scan);
    if let Some(place) = take_tid(scan) {
        scan.path = Path::Tid(place);
        return false;
    }
    choose(scan, demand) && !demand.order.is_empty()
}

/// Chooses for an UPDATE or DELETE.
pub(crate) fn choose_change(scan: &mut TableScan, params: &[Datum], switches: Switches) {
    begin(scan);
    if let Some(place) = take_tid(scan) {
        scan.path = Path::Tid(place);
        // The whole condition is asked of the row there.
        scan.filter = None;
        return;
    }
    choose(scan, &Demand { params, switches, ..Demand::default() });
}

/// Puts all conditions into the filter, also of a scan whose path was chosen before.
fn begin(scan: &mut TableScan) {
    match &scan.asked {
        Some(asked) => scan.filter = joined(asked.clone()),
        None => {
            scan.asked = Some(match scan.filter.clone() {
                None => Vec::new(),
                Some(Expr::And(list)) => flatten(list),
                Some(other) => vec![other],
            });
        }
    }
    scan.path = Path::Sequential;
}

/// Takes a condition out of the filter that says where the row lies, and gives the place.
fn take_tid(scan: &mut TableScan) -> Option<Expr> {
    let mut conjuncts = match scan.filter.as_ref()? {
        Expr::And(list) => flatten(list.clone()),
        other => vec![other.clone()],
    };
    let place = |conjunct: &Expr| tid_of(scan, conjunct);
    let (at, place) = conjuncts.iter().enumerate().find_map(|(at, one)| Some((at, place(one)?)))?;
    conjuncts.remove(at);
    scan.filter = joined(conjuncts);
    Some(place)
}

/// All of these conditions as one.
fn joined(mut conjuncts: Vec<Expr>) -> Option<Expr> {
    match conjuncts.len() {
        0 | 1 => conjuncts.pop(),
        _ => Some(Expr::And(conjuncts)),
    }
}

/// The place that a condition on `ctid` names.
fn tid_of(scan: &TableScan, condition: &Expr) -> Option<Expr> {
    let is_tid = |expr: &Expr| match expr {
        Expr::Column(at) => scan.with_tid && *at == scan.columns.len(),
        _ => false,
    };
    match condition {
        Expr::Call(function, args) if function.name == "=" => match args.as_slice() {
            [a, b] if is_tid(a) && b.is_stable() => Some(b.clone()),
            [a, b] if is_tid(b) && a.is_stable() => Some(a.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// A column of the table that the query wants rows in the order of.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) column: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
    pub(crate) collation: Option<Collation>,
}

/// Chooses the cheapest path; says whether it delivers the wanted order. If all conditions are to
/// be asked, none is left out that an index by its own terms makes true.
fn choose(scan: &mut TableScan, demand: &Demand<'_>) -> bool {
    let Demand { order, limit, asks_all, params, switches } = *demand;
    let conjuncts = match scan.filter.take() {
        None => Vec::new(),
        Some(Expr::And(list)) => flatten(list),
        Some(other) => vec![other],
    };
    let table = Arc::clone(&scan.table);
    let model = Model::new(scan, params);
    let all: Vec<&Expr> = conjuncts.iter().collect();
    let mut best = (Path::Sequential, Vec::new(), false);
    let sorts = |sorted: bool| penalty(sorted || switches.sort);
    let mut best_cost = cost(&model.sequential(&all), order.is_empty(), limit)
        + penalty(switches.seqscan)
        + sorts(order.is_empty());
    let mut by_values = false;
    for index in &table.info.indexes {
        if !has_all(scan, index, &conjuncts) {
            continue;
        }
        let (mut path, mut taken) = candidate(scan, index, &conjuncts);
        if !asks_all {
            spare_own_terms(scan, index, &conjuncts, &mut taken);
        }
        let ordered = order_of(scan, &mut path, order);
        let whole = path.equal.len() + usize::from(path.any_of.is_some()) == index.columns.len();
        if index.method != IndexMethod::BTree
            && (ordered
                || !whole
                || path.equal.iter().any(|value| matches!(value, Expr::IsNull(..))))
        {
            // Other methods find whole keys only, and in no order.
            continue;
        }
        if taken.is_empty() && !ordered && !path.covers && index.is_whole() {
            continue;
        }
        let left = conjuncts.iter().enumerate().filter(|(at, _)| !taken.contains(at));
        let left: Vec<&Expr> = left.map(|(_, conjunct)| conjunct).collect();
        path.expected = model.expected(&path);
        let estimate = model.of_index(&path, &left);
        let is_allowed = if path.covers { switches.indexonlyscan } else { switches.indexscan };
        let sorted = order.is_empty() || ordered;
        let mut cost = cost(&estimate, sorted, limit) + penalty(is_allowed) + sorts(sorted);
        if scan.statistics.is_some() {
            by_values |= conjuncts.iter().any(names_parameter);
            if is_allowed && path.is_certain() {
                cost -= CERTAIN;
            }
        }
        if cost < best_cost {
            best_cost = cost;
            best = (Path::Index(Box::new(path)), taken, ordered);
        }
    }
    let (path, taken, ordered) = best;
    scan.by_values = by_values && best_cost > -CERTAIN / 2.0;
    let mut rest: Vec<Expr> = Vec::new();
    for (at, conjunct) in conjuncts.into_iter().enumerate() {
        if !taken.contains(&at) {
            rest.push(conjunct);
        }
    }
    scan.filter = joined(rest);
    scan.path = path;
    ordered
}

fn names_parameter(condition: &Expr) -> bool {
    let mut found = false;
    condition.walk(&mut |expr| found |= matches!(expr, Expr::Param(_)));
    found
}

/// Does the index hold every row that all conditions are true of? A whole one does.
fn has_all(scan: &TableScan, index: &IndexInfo, conjuncts: &[Expr]) -> bool {
    let Some(predicate) = &index.predicate else { return true };
    let types = scan_types(scan);
    predicate.terms.iter().all(|term| {
        let is_it = |at: &usize| scan.table.info.columns[*at].name == term.column;
        let place = scan.columns.iter().position(is_it);
        place.is_some_and(|at| predicate::follows(&term.test, at, conjuncts, &types))
    })
}

/// Rows of a partial index meet its terms: conditions that say no more are not asked again.
fn spare_own_terms(
    scan: &TableScan,
    index: &IndexInfo,
    conjuncts: &[Expr],
    taken: &mut Vec<usize>,
) {
    let Some(predicate) = &index.predicate else { return };
    let types = scan_types(scan);
    let name = |at: usize| scan.table.info.columns[scan.columns[at]].name.clone();
    for (at, conjunct) in conjuncts.iter().enumerate() {
        if !taken.contains(&at) && predicate::is_own(predicate, conjunct, &types, name) {
            taken.push(at);
        }
    }
}

/// Types of the columns of the scan's rows.
fn scan_types(scan: &TableScan) -> Vec<SqlType> {
    scan.columns.iter().map(|at| scan.table.types[*at]).collect()
}

/// What putting so many rows in order costs.
pub(super) fn sort_cost(rows: f64) -> f64 {
    let rows = rows.max(1.0);
    rows * rows.log2().max(1.0) * 0.005
}

/// The cost when a sort may follow and only the first rows may be wanted.
fn cost(estimate: &Estimate, sorted: bool, limit: Option<f64>) -> f64 {
    let rows = estimate.rows.max(1.0);
    if !sorted {
        return estimate.total + rows * rows.log2().max(1.0) * 2.0 * OPERATOR;
    }
    let share = limit.map_or(1.0, |limit| (limit / rows).min(1.0));
    estimate.startup + (estimate.total - estimate.startup) * share
}

/// The range of keys that conditions make on an index, and which of them it stands for.
fn candidate(scan: &TableScan, index: &IndexInfo, conjuncts: &[Expr]) -> (IndexPath, Vec<usize>) {
    let column_of = |name: &str| scan.table.info.columns.iter().position(|c| c.name == name);
    let key: Vec<usize> = index.columns.iter().filter_map(|c| column_of(&c.name)).collect();
    let collations: Vec<_> = index.columns.iter().map(|c| c.collation.given()).collect();
    // Collated text is not in the key in a form that can be read.
    let read = |at: &usize| key.iter().zip(&collations).any(|(k, c)| k == at && c.is_none());
    let types = key.iter().map(|at| scan.table.types[*at]).collect();
    let included: Vec<usize> = index.included.iter().filter_map(|name| column_of(name)).collect();
    let held = |at: &usize| read(at) || included.contains(at);
    let covers = index.method == IndexMethod::BTree && scan.columns.iter().all(held);
    let mut path = IndexPath {
        index: index.clone(),
        equal: Vec::new(),
        low: None,
        high: None,
        any_of: None,
        types,
        backward: false,
        covers,
        conditions: Vec::new(),
        expected: None,
    };
    let mut taken = Vec::new();
    for (column, collation) in key.iter().copied().zip(collations.iter().copied()) {
        let before = path.equal.len();
        for (at, conjunct) in
            conjuncts.iter().enumerate().filter(|(at, _)| !taken.contains(at)).collect::<Vec<_>>()
        {
            if let Some(term) = term(scan, conjunct, column, collation)
                && add(&mut path, term, before)
            {
                taken.push(at);
                path.conditions.push(conjunct.clone());
            }
        }
        if path.equal.len() == before {
            break;
        }
    }
    (path, taken)
}

/// Adds a condition on the key column after `before` equal ones, if there is room for it.
fn add(path: &mut IndexPath, term: Term, before: usize) -> bool {
    if path.equal.len() > before {
        return false;
    }
    let ranged = path.low.is_some() || path.high.is_some() || path.any_of.is_some();
    match term {
        Term::Equal(value) if !ranged => path.equal.push(value),
        Term::Null if !ranged => path.equal.push(Expr::IsNull(Box::new(Expr::null()), false)),
        Term::Low(value, included) if path.low.is_none() && path.any_of.is_none() => {
            path.low = Some((value, included));
        }
        Term::High(value, included) if path.high.is_none() && path.any_of.is_none() => {
            path.high = Some((value, included));
        }
        Term::AnyOf(list) if !ranged => path.any_of = Some(list),
        _ => return false,
    }
    true
}

/// Does the path deliver the order? Turns it if backward does.
fn order_of(scan: &TableScan, path: &mut IndexPath, order: &[Wanted]) -> bool {
    if order.is_empty() {
        return false;
    }
    let columns = &path.index.columns;
    let place = |column: usize| {
        let name = &scan.table.info.columns[column].name;
        columns.iter().position(|key| key.name == *name)
    };
    let mut next = path.equal.len();
    let mut backward = None;
    for Wanted { column, descending, nulls_first, collation } in order {
        let Some(at) = place(*column) else { return false };
        let own = columns[at].collation.given();
        let same = own == collation.as_ref();
        if at < path.equal.len() {
            // What a nondeterministic collation takes for equal is not in every other order.
            if !same && own.is_some_and(|own| !own.is_deterministic()) {
                return false;
            }
            continue;
        }
        if !same {
            return false;
        }
        if at != next {
            return false;
        }
        let key = &columns[at];
        let nullable = scan.table.info.columns[*column].nullable;
        let turned = key.descending != *descending;
        let nulls_fit = !nullable || (key.nulls_first != *nulls_first) == turned;
        if !nulls_fit || backward.is_some_and(|backward| backward != turned) {
            return false;
        }
        backward = Some(turned);
        next += 1;
    }
    path.backward = backward.unwrap_or(false);
    true
}

/// What it costs to look up so many keys of the first `parts` columns of an index.
pub(super) fn of_keys(scan: &TableScan, index: &IndexInfo, parts: usize, keys: f64) -> Estimate {
    let column_of = |name: &str| scan.table.info.columns.iter().position(|c| c.name == name);
    let key = index.columns.iter().filter_map(|column| column_of(&column.name));
    let path = IndexPath {
        index: index.clone(),
        // Any value: none is known.
        equal: vec![Expr::Outer(0); parts],
        low: None,
        high: None,
        any_of: None,
        types: key.map(|at| scan.table.types[at]).collect(),
        backward: false,
        covers: false,
        conditions: Vec::new(),
        expected: None,
    };
    Model::new(scan, &[]).of_keys(&path, keys)
}

/// What the scan is thought to cost on the path it has; `params` are values of parameters, as far
/// as they are known.
pub(crate) fn estimate(scan: &TableScan, params: &[Datum]) -> Estimate {
    let quals: Vec<&Expr> = match &scan.filter {
        None => Vec::new(),
        Some(Expr::And(list)) => list.iter().collect(),
        Some(other) => vec![other],
    };
    let model = Model::new(scan, params);
    match &scan.path {
        Path::Sequential => model.sequential(&quals),
        Path::Index(path) => model.of_index(path, &quals),
        Path::Tid(_) => model.of_place(),
    }
}
