//! Running the queries inside of expressions.
//!
//! A query that gives the same for the same values of rows around it remembers what it gave: one
//! that reads none runs once.
//!
//! Invariants: its slots are filled before it is opened; it is closed before the row around it is
//! left. Does not do: queries that have become joins; rows that values are compared with
//! (`compared`).

use std::sync::Arc;

use crate::catalog::Objects;
use crate::error::{Result, SqlError, code};
use crate::exec::batch::ROWS;
use crate::exec::compared::{Compared, Question, compared};
use crate::exec::execution::Execution;
use crate::exec::memo::{Memo, RowsFor};
use crate::exec::memory::Memory;
use crate::exec::{RowsOf, Stream};
use crate::expr::aggregate::Ordered;
use crate::expr::{Body, Context, ExecState, PlannedSubquery, Subquery, SubqueryKind};
use crate::plan::node::Node;
use crate::types::array::null_array;
use crate::types::{Array, Datum, ElementType, Row};

impl ExecState for Execution {
    fn outer(&self, slot: usize) -> Datum {
        self.filled(slot)
    }

    fn objects(&self) -> Result<Arc<Objects>> {
        self.known_objects()
    }

    fn value(&self, query: &Subquery, row: &[Datum], context: &Context) -> Result<Datum> {
        value(query, row, context)
    }

    fn copy(&self) -> Box<dyn ExecState> {
        Box::new(self.clone())
    }
}

/// The value of a query over a row around it.
fn value(query: &Subquery, row: &[Datum], context: &Context) -> Result<Datum> {
    let Body::Planned { plan, binds } = &query.body else {
        unreachable!("a query is planned before it runs")
    };
    for (slot, bound) in binds {
        let value = bound.eval(row, context)?;
        Execution::of(context).fill(*slot, value);
    }
    match &query.kind {
        SubqueryKind::Compare { needles, test, all } => {
            let needles = needles.iter().map(|(_, needle)| needle.eval(row, context));
            let needles = needles.collect::<Result<Row>>()?;
            let question = Question { test, all: *all, width: needles.len() };
            match &*rows(query.number, plan, &question, context)? {
                Compared::Memory(rows) => question.answer(rows, needles, context),
                Compared::Files(files) if plan.is_stable => {
                    let mut known = slots(plan, context);
                    known.0.extend_from_slice(&needles);
                    remembered(query.number, known, context, || {
                        question.answer_in_files(files, needles, context)
                    })
                }
                Compared::Files(files) => question.answer_in_files(files, needles, context),
            }
        }
        SubqueryKind::Scalar | SubqueryKind::Exists | SubqueryKind::Array { .. } => {
            let make = || match query.kind {
                SubqueryKind::Exists => exists(plan, context),
                SubqueryKind::Array { element, of_arrays } => {
                    collected(plan, element, of_arrays, context)
                }
                _ => scalar(plan, context),
            };
            match plan.is_stable {
                true => remembered(query.number, slots(plan, context), context, make),
                false => make(),
            }
        }
    }
}

/// What a query gave for these values before, or else gives now.
fn remembered(
    number: usize,
    values: Ordered,
    context: &Context,
    make: impl FnOnce() -> Result<Datum>,
) -> Result<Datum> {
    let memos = Execution::of(context).memos.borrow();
    if let Some(known) = memos.get(number).and_then(|memo| memo.values.get(&values)) {
        return Ok(known.clone());
    }
    drop(memos);
    let value = make()?;
    let mut memos = Execution::of(context).memos.borrow_mut();
    memos.get_or_default(number).remember(values, &value, context);
    Ok(value)
}

/// Values of the slots that a query reads.
fn slots(plan: &PlannedSubquery, context: &Context) -> Ordered {
    Ordered(plan.slots.iter().map(|slot| context.exec_state.outer(*slot)).collect())
}

fn scalar(plan: &PlannedSubquery, context: &Context) -> Result<Datum> {
    let mut rows = RowsOf::new(Node::of(plan).open(None, context)?);
    let Some(mut row) = rows.next(2, context)? else { return Ok(Datum::Null) };
    if rows.next(1, context)?.is_some() {
        let message = "more than one row returned by a subquery used as an expression";
        return Err(SqlError::new(code::CARDINALITY, message));
    }
    Ok(std::mem::take(&mut row[0]))
}

/// `ARRAY(SELECT ..)`: arrays of one shape become one of one dimension more.
fn collected(
    plan: &PlannedSubquery,
    element: ElementType,
    of_arrays: bool,
    context: &Context,
) -> Result<Datum> {
    let mut memory = Memory::new(&context.budget());
    let mut array = Array::empty(element);
    let mut input = Node::of(plan).open(None, context)?;
    while let Some(mut batch) = input.next(ROWS, context)? {
        context.check()?;
        for at in 0..batch.len {
            let value = batch.columns[0].take(at);
            if of_arrays && value.is_null() {
                return Err(null_array());
            }
            memory.charge(array.gather(value)?)?;
        }
    }
    Ok(array.into())
}

fn exists(plan: &PlannedSubquery, context: &Context) -> Result<Datum> {
    let mut rows = Node::of(plan).open(Some(1), context)?;
    Ok(Datum::Bool(rows.next(1, context)?.is_some()))
}

/// All rows of a query, for the values that its slots have.
fn rows(
    number: usize,
    plan: &PlannedSubquery,
    question: &Question<'_>,
    context: &Context,
) -> Result<Arc<Compared>> {
    let slots = slots(plan, context);
    if plan.is_stable
        && let Some(Memo { rows: Some(known), .. }) =
            Execution::of(context).memos.borrow().get(number)
        && known.slots == slots
    {
        return Ok(Arc::clone(&known.rows));
    }
    let rows = Arc::new(compared(plan, question, context)?);
    if plan.is_stable {
        let known = RowsFor { slots, rows: Arc::clone(&rows) };
        Execution::of(context).memos.borrow_mut().get_or_default(number).rows = Some(known);
    }
    Ok(rows)
}
