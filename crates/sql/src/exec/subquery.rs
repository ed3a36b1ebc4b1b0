//! Running the queries inside of expressions.
//!
//! A query that gives the same for the same values of rows around it remembers what it gave: one
//! that reads none runs once.
//!
//! Invariants: its slots are filled before it is opened; it is closed before the row around it is
//! left; what is remembered is counted. Does not do: queries that have become joins.

use std::collections::BTreeMap;

use crate::error::{Result, SqlError, code};
use crate::exec::batch::{Batch, ROWS};
use crate::exec::memory::{KeptRows, Memory, row_bytes};
use crate::exec::sort::SHARE;
use crate::exec::{RowsOf, Stream};
use crate::expr::aggregate::Ordered;
use crate::expr::{Body, Context, Expr, PlannedSubquery, Subquery, SubqueryKind};
use crate::types::{Datum, Row};
use std::sync::Arc;

/// Results that are remembered of a query.
const MOST_KEPT: usize = 1_024;

/// What a query gave before.
#[derive(Default)]
pub(crate) struct Memo {
    /// By the values of its slots.
    values: BTreeMap<Ordered, Datum>,
    /// Of the values; `None` before there is one.
    memory: Option<Memory>,
    /// All rows, and the values that the slots had for them.
    rows: Option<RowsFor>,
}

/// The rows of a query for values of its slots.
struct RowsFor {
    slots: Ordered,
    rows: Arc<KeptRows>,
}

/// A copy, for another execution, has nothing to remember.
impl Clone for Memo {
    fn clone(&self) -> Memo {
        Memo::default()
    }
}

impl Memo {
    /// Remembers a value, in place of all others where these have the share of the budget that is
    /// theirs; one beyond that share is not remembered.
    fn remember(&mut self, slots: Ordered, value: &Datum, context: &Context) {
        let memory = self.memory.get_or_insert_with(|| Memory::new(&context.budget()));
        let bytes = row_bytes(&slots.0) + size_of::<Datum>() + value.heap_bytes();
        let share = (memory.available() + memory.used()) / SHARE;
        if self.values.len() >= MOST_KEPT || memory.used() + bytes > share {
            self.values.clear();
            memory.release();
        }
        if bytes <= share && memory.charge(bytes).is_ok() {
            self.values.insert(slots, value.clone());
        }
    }
}

/// The value of a query over a row around it.
pub(crate) fn value(query: &Subquery, row: &[Datum], context: &Context) -> Result<Datum> {
    let Body::Planned { plan, binds } = &query.body else {
        unreachable!("a query is planned before it runs")
    };
    for (slot, bound) in binds {
        let value = bound.eval(row, context)?;
        context.reads.fill(*slot, value);
    }
    match &query.kind {
        SubqueryKind::Compare { needles, test, all } => {
            let needles = needles.iter().map(|(_, needle)| needle.eval(row, context));
            let needles = needles.collect::<Result<Row>>()?;
            let rows = rows(query.number, plan, context)?;
            compare(&rows.rows, needles, test, *all, context)
        }
        SubqueryKind::Scalar | SubqueryKind::Exists => {
            let slots = slots(plan, context);
            let known = || {
                let memos = context.reads.memos.borrow();
                memos.get(&query.number)?.values.get(&slots).cloned()
            };
            if plan.is_stable
                && let Some(value) = known()
            {
                return Ok(value);
            }
            let value = match query.kind {
                SubqueryKind::Exists => exists(plan, context)?,
                _ => scalar(plan, context)?,
            };
            if plan.is_stable {
                let mut memos = context.reads.memos.borrow_mut();
                memos.entry(query.number).or_default().remember(slots, &value, context);
            }
            Ok(value)
        }
    }
}

/// Values of the slots that a query reads.
fn slots(plan: &PlannedSubquery, context: &Context) -> Ordered {
    Ordered(plan.slots.iter().map(|slot| context.reads.outer(*slot)).collect())
}

fn scalar(plan: &PlannedSubquery, context: &Context) -> Result<Datum> {
    let mut rows = RowsOf::new(plan.node.open(None, context)?);
    let Some(mut row) = rows.next(2, context)? else { return Ok(Datum::Null) };
    if rows.next(1, context)?.is_some() {
        let message = "more than one row returned by a subquery used as an expression";
        return Err(SqlError::new(code::CARDINALITY, message));
    }
    Ok(std::mem::take(&mut row[0]))
}

fn exists(plan: &PlannedSubquery, context: &Context) -> Result<Datum> {
    let mut rows = plan.node.open(Some(1), context)?;
    Ok(Datum::Bool(rows.next(1, context)?.is_some()))
}

/// Is the test true of any row, or of all? `row`: the values that each is compared with.
fn compare(rows: &Batch, mut row: Row, test: &Expr, all: bool, context: &Context) -> Result<Datum> {
    let width = row.len();
    let mut unknown = false;
    for at in 0..rows.len {
        context.spend(1)?;
        row.truncate(width);
        row.extend(rows.columns.iter().map(|column| column.get(at)));
        match test.eval(&row, context)? {
            Datum::Bool(value) if value != all => return Ok(Datum::Bool(!all)),
            Datum::Bool(_) => {}
            _ => unknown = true,
        }
    }
    Ok(if unknown { Datum::Null } else { Datum::Bool(all) })
}

/// All rows of a query, for the values that its slots have.
fn rows(number: usize, plan: &PlannedSubquery, context: &Context) -> Result<Arc<KeptRows>> {
    let slots = slots(plan, context);
    if plan.is_stable
        && let Some(Memo { rows: Some(known), .. }) = context.reads.memos.borrow().get(&number)
        && known.slots == slots
    {
        return Ok(Arc::clone(&known.rows));
    }
    let mut kept = KeptRows::new(&context.budget());
    let mut input = plan.node.open(None, context)?;
    while let Some(batch) = input.next(ROWS, context)? {
        kept.append(batch)?;
    }
    let rows = Arc::new(kept);
    if plan.is_stable {
        let known = RowsFor { slots, rows: Arc::clone(&rows) };
        context.reads.memos.borrow_mut().entry(number).or_default().rows = Some(known);
    }
    Ok(rows)
}
