//! Common table expressions: rows that several parts of a statement read, made once.
//!
//! Rows are made as far as they are read, and kept for whoever reads them later. A recursive
//! expression reads in each round the rows that were added in the round before. Both kinds of rows
//! go to files beyond their share of the budget, and then up to twice as many are made as are read.
//!
//! Invariants: an expression is run once for each time that the query which defines it is opened;
//! rows that are kept are counted.
//! Does not do: telling which rows of a recursive UNION came before (`seen`).

use std::borrow::Cow;

use rightlink_env::sync::{Arc, Mutex};

use crate::error::Result;
use crate::exec::execution::{Common, Execution, SharedRows};
use crate::exec::kept::{Growing, Keeping, Kept};
use crate::exec::memory::Memory;
use crate::exec::seen::Seen;
use crate::exec::{Batched, Operator, RowsOf, Stream};
use crate::expr::Context;
use crate::plan::node::{CteNode, CteSteps, Node, Op};
use crate::types::Row;

/// A common table expression that runs.
pub(crate) struct CommonTable {
    producer: Producer,
    rows: Growing,
    /// What it runs by, if it is planned apart from what reads it.
    own: Option<Box<Context>>,
}

enum Producer {
    /// Nothing has read it yet.
    Waiting(CteNode),
    Query(RowsOf),
    Recursive(Box<Recursion>),
    Done,
}

/// Lets scans find these expressions.
pub(super) fn define(definitions: &[CteNode], context: &Context) {
    let mut commons = Execution::of(context).commons.borrow_mut();
    for definition in definitions {
        let common = CommonTable {
            producer: Producer::Waiting(definition.clone()),
            rows: Growing::new(&context.budget(), context),
            own: None,
        };
        commons.insert(definition.number, Arc::new(Mutex::new(common)));
    }
}

impl CommonTable {
    /// Of a query that is planned apart from what reads it, which runs by `own` when it is read.
    pub(super) fn of_query(
        number: usize,
        node: &std::sync::Arc<Node>,
        own: Context,
    ) -> CommonTable {
        let body = CteSteps::Query(std::sync::Arc::clone(node));
        let definition = CteNode { number, name: String::new(), body };
        let rows = Growing::new(&own.budget(), &own);
        CommonTable { producer: Producer::Waiting(definition), rows, own: Some(Box::new(own)) }
    }

    /// Of rows that are there, which `memory` counts.
    pub(super) fn of_rows(rows: Vec<Row>, memory: Memory) -> CommonTable {
        let rows = Growing::of_rows(rows, memory);
        CommonTable { producer: Producer::Done, rows, own: None }
    }
}

impl Common for CommonTable {
    fn row(&mut self, at: u64, most: usize, context: &Context) -> Result<Option<Cow<'_, Row>>> {
        let CommonTable { producer, rows, own } = self;
        let mut make = || producer.next(most, own.as_deref().unwrap_or(context));
        rows.row(at, &mut make, context)
    }
}

/// Opens a scan of a common table expression.
pub(super) fn scan(node: &std::sync::Arc<Node>, context: &Context) -> Result<Box<dyn Operator>> {
    let Op::CteScan { cte, is_step, columns, .. } = &node.op else {
        unreachable!("opened for an expression of WITH")
    };
    let (columns, width) = (columns.clone(), node.width);
    if *is_step {
        let rows = Execution::of(context).steps.borrow().get(*cte).cloned();
        return Ok(Box::new(Batched { stream: StepRows { rows, at: 0, columns }, width }));
    }
    let common = Execution::of(context).commons.borrow().get(*cte).cloned();
    let common = common.expect("a scan is below what defines it");
    Ok(Box::new(Batched { stream: CommonRows { common, at: 0, columns }, width }))
}

/// Rows of the round before.
struct StepRows {
    rows: Option<Arc<Mutex<Kept>>>,
    at: u64,
    columns: Vec<usize>,
}

impl Stream for StepRows {
    fn next(&mut self, _: usize, context: &Context) -> Result<Option<Row>> {
        let Some(rows) = &self.rows else { return Ok(None) };
        let Some(row) = rows.lock().row(self.at, context)? else { return Ok(None) };
        self.at += 1;
        Ok(Some(self.columns.iter().map(|at| row[*at].clone()).collect()))
    }
}

/// Rows of an expression, from the first.
struct CommonRows {
    common: SharedRows,
    at: u64,
    columns: Vec<usize>,
}

impl Stream for CommonRows {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        let mut common = self.common.lock();
        let Some(row) = common.row(self.at, most, context)? else { return Ok(None) };
        self.at += 1;
        Ok(Some(self.columns.iter().map(|at| row[*at].clone()).collect()))
    }
}

impl Producer {
    /// Makes one more row.
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        if let Producer::Waiting(definition) = self {
            *self = match &definition.body {
                CteSteps::Query(node) => Producer::Query(RowsOf::new(node.open(None, context)?)),
                CteSteps::Recursive { first, .. } => {
                    let input = RowsOf::new(first.open(None, context)?);
                    let budget = context.budget();
                    Producer::Recursive(Box::new(Recursion {
                        definition: definition.clone(),
                        input,
                        next: Keeping::new(&budget, context),
                        seen: Seen::new(&budget),
                        has_ended: false,
                    }))
                }
            };
        }
        let row = match self {
            Producer::Query(input) => input.next(most, context)?,
            Producer::Recursive(recursion) => recursion.watched(most, context)?,
            Producer::Waiting(_) | Producer::Done => None,
        };
        if row.is_none() {
            *self = Producer::Done;
        }
        Ok(row)
    }
}

/// The rows of a recursive expression.
struct Recursion {
    definition: CteNode,
    /// The first part, then the second one over the rows of the last round.
    input: RowsOf,
    /// Rows of this round.
    next: Keeping,
    /// Rows that came out, if none may come twice.
    seen: Seen,
    /// Has the input of this round ended?
    has_ended: bool,
}

impl Recursion {
    /// The next row, noted where somebody asks what nodes do.
    fn watched(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        let Some(probe) = &context.probe else { return self.next(most, context) };
        let CteSteps::Recursive { number, .. } = self.definition.body else {
            unreachable!("made for a recursive expression")
        };
        let (row, spent) = probe.step(number, || self.next(most, context));
        let row = row?;
        probe.note(number, |figures| {
            figures.total += spent;
            if figures.loops == 0 {
                (figures.loops, figures.first) = (1, spent);
            }
            figures.rows += u64::from(row.is_some());
        });
        Ok(row)
    }
}

impl Stream for Recursion {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        let CteSteps::Recursive { step, all, .. } = &self.definition.body else {
            unreachable!("made for a recursive expression")
        };
        loop {
            while !self.has_ended
                && let Some(row) = self.input.next(most, context)?
            {
                if *all || self.seen.take(&row, context)? {
                    self.next.push(row.clone(), context)?;
                    return Ok(Some(row));
                }
            }
            if !std::mem::replace(&mut self.has_ended, true) {
                self.seen.turn()?;
            }
            if let Some(row) = self.seen.next_new(context)? {
                self.next.push(row.clone(), context)?;
                return Ok(Some(row));
            }
            if self.next.count() == 0 {
                return Ok(None);
            }
            context.check()?;
            let next = Keeping::new(&context.budget(), context);
            let rows = Arc::new(Mutex::new(std::mem::replace(&mut self.next, next).finish()?));
            let number = self.definition.number;
            Execution::of(context).steps.borrow_mut().insert(number, rows);
            self.input = RowsOf::new(step.open(None, context)?);
            self.has_ended = false;
        }
    }
}
