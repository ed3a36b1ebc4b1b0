//! Plans for the values that the parameters of a statement have in one execution.
//!
//! Invariants: such a plan gives what the one gives that it is made of.
//! Does not do: which of the two an execution runs by (`session`).

use std::sync::Arc;

use crate::plan::{Plan, Query, lower, path};
use crate::types::Datum;

/// What planning costs for each relation, and once more, as PostgreSQL counts it.
const PLANNING: f64 = 1_000.0 * super::model::OPERATOR;

/// Could values of parameters ask for another plan?
pub(crate) fn depends_on_values(plan: &Plan) -> bool {
    match plan {
        Plan::Query(query) => query.again.is_some(),
        Plan::Insert(insert) => insert.source.again.is_some(),
        Plan::Change(change) => match &change.source {
            Some(source) => source.again.is_some() || change.scan.by_values,
            None => change.scan.by_values,
        },
        Plan::With(_) | Plan::Locked(_) => false,
    }
}

/// The query that gives the rows of a statement, if that is one.
fn source(plan: &Plan) -> Option<&Query> {
    match plan {
        Plan::Query(query) => Some(query),
        Plan::Insert(insert) => Some(&insert.source),
        Plan::Change(change) => change.source.as_deref(),
        Plan::With(_) | Plan::Locked(_) => None,
    }
}

/// What the rows of a statement are thought to cost, where a query gives them.
pub(crate) fn cost(plan: &Plan) -> Option<f64> {
    source(plan).map(|query| query.root.estimate.total)
}

/// What the planning of such a statement costs.
pub(crate) fn planning_cost(plan: &Plan) -> f64 {
    let relations = source(plan).map_or(0, |query| query.tables.len() + query.views.len());
    PLANNING * (relations + 1) as f64
}

/// The plan for one execution with these values, if they may ask for another path than the one that
/// is right on the whole.
pub(crate) fn settle(plan: &Plan, params: &[Datum]) -> Option<Plan> {
    if params.is_empty() {
        return None;
    }
    match plan {
        Plan::Query(query) => settled(query, params).map(|query| Plan::Query(Arc::new(query))),
        Plan::Insert(insert) => settled(&insert.source, params).map(|source| {
            let mut insert = insert.clone();
            insert.source = Arc::new(source);
            Plan::Insert(insert)
        }),
        Plan::With(_) | Plan::Locked(_) => None,
        Plan::Change(change) if change.scan.by_values => {
            let mut change = change.clone();
            path::choose_change(&mut change.scan, params, change.switches);
            Some(Plan::Change(change))
        }
        Plan::Change(change) => settled(change.source.as_ref()?, params).map(|source| {
            let mut change = change.clone();
            change.source = Some(Arc::new(source));
            Plan::Change(change)
        }),
    }
}

fn settled(made: &Query, params: &[Datum]) -> Option<Query> {
    let again = made.again.as_ref()?;
    // What could be planned once can be planned again.
    let planned = lower::query(again.bound.clone(), &again.known, params).ok()?;
    Some(Query { asks: made.asks.clone(), again: None, ..planned })
}
