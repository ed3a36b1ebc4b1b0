//! Common table expressions: rows that several parts of a statement read, made once.
//!
//! Rows are made as far as they are read, and kept for whoever reads them later. A recursive
//! expression reads in each round the rows that were added in the round before.
//!
//! Invariants: an expression is run once for each time that the query which defines it is opened;
//! rows that are kept are counted. Does not do: rows beyond the memory budget (`53200`).

use std::collections::BTreeSet;

use rightlink_env::sync::{Arc, Mutex};

use crate::error::Result;
use crate::exec::memory::Memory;
use crate::exec::{Batched, Operator, RowsOf, Stream};
use crate::expr::Context;
use crate::expr::aggregate::Ordered;
use crate::plan::node::{CteNode, CteSteps, Node, Op};
use crate::types::Row;

/// A common table expression that runs.
pub(crate) struct Common {
    definition: CteNode,
    producer: Producer,
    rows: Vec<Row>,
    memory: Memory,
}

enum Producer {
    /// Nothing has read it yet.
    Waiting,
    Query(RowsOf),
    Recursive(Box<Recursion>),
    Done,
}

/// Lets scans find these expressions.
pub(super) fn define(definitions: &[CteNode], context: &Context) {
    let mut commons = context.reads.commons.borrow_mut();
    for definition in definitions {
        let common = Common {
            definition: definition.clone(),
            producer: Producer::Waiting,
            rows: Vec::new(),
            memory: Memory::new(&context.budget()),
        };
        commons.insert(definition.number, Arc::new(Mutex::new(common)));
    }
}

/// Opens a scan of a common table expression.
pub(super) fn scan(node: &std::sync::Arc<Node>, context: &Context) -> Result<Box<dyn Operator>> {
    let Op::CteScan { cte, is_step, columns, .. } = &node.op else {
        unreachable!("opened for an expression of WITH")
    };
    let (columns, width) = (columns.clone(), node.width);
    if *is_step {
        let rows = context.reads.steps.borrow().get(cte).cloned().unwrap_or_default();
        return Ok(Box::new(Batched { stream: StepRows { rows, at: 0, columns }, width }));
    }
    let common = context.reads.commons.borrow().get(cte).cloned();
    let common = common.expect("a scan is below what defines it");
    Ok(Box::new(Batched { stream: CommonRows { common, at: 0, columns }, width }))
}

/// Rows of the round before.
struct StepRows {
    rows: Arc<Vec<Row>>,
    at: usize,
    columns: Vec<usize>,
}

impl Stream for StepRows {
    fn next(&mut self, _: usize, _: &Context) -> Result<Option<Row>> {
        let Some(row) = self.rows.get(self.at) else { return Ok(None) };
        self.at += 1;
        Ok(Some(self.columns.iter().map(|at| row[*at].clone()).collect()))
    }
}

/// Rows of an expression, from the first.
struct CommonRows {
    common: Arc<Mutex<Common>>,
    at: usize,
    columns: Vec<usize>,
}

impl Stream for CommonRows {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        let mut common = self.common.lock();
        while common.rows.len() <= self.at {
            if !common.produce(most, context)? {
                return Ok(None);
            }
        }
        let row = &common.rows[self.at];
        self.at += 1;
        Ok(Some(self.columns.iter().map(|at| row[*at].clone()).collect()))
    }
}

impl Common {
    /// Makes one more row; false at the end.
    fn produce(&mut self, most: usize, context: &Context) -> Result<bool> {
        if let Producer::Waiting = self.producer {
            self.producer = match &self.definition.body {
                CteSteps::Query(node) => Producer::Query(RowsOf::new(node.open(None, context)?)),
                CteSteps::Recursive { first, .. } => {
                    let input = RowsOf::new(first.open(None, context)?);
                    let memory = Memory::new(&context.budget());
                    Producer::Recursive(Box::new(Recursion {
                        definition: self.definition.clone(),
                        input,
                        next: Vec::new(),
                        seen: BTreeSet::new(),
                        memory,
                    }))
                }
            };
        }
        let row = match &mut self.producer {
            Producer::Query(input) => input.next(most, context)?,
            Producer::Recursive(recursion) => recursion.next(most, context)?,
            Producer::Waiting | Producer::Done => None,
        };
        let Some(row) = row else {
            self.producer = Producer::Done;
            return Ok(false);
        };
        self.memory.charge_row(&row)?;
        self.rows.push(row);
        Ok(true)
    }
}

/// The rows of a recursive expression.
struct Recursion {
    definition: CteNode,
    /// The first part, then the second one over the rows of the last round.
    input: RowsOf,
    /// Rows of this round.
    next: Vec<Row>,
    /// Rows that came out, if none may come twice.
    seen: BTreeSet<Ordered>,
    memory: Memory,
}

impl Stream for Recursion {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        let CteSteps::Recursive { step, all, .. } = &self.definition.body else {
            unreachable!("made for a recursive expression")
        };
        loop {
            while let Some(row) = self.input.next(most, context)? {
                if !*all {
                    let key = Ordered(row.clone());
                    if self.seen.contains(&key) {
                        continue;
                    }
                    self.memory.charge_row(&row)?;
                    self.seen.insert(key);
                }
                self.memory.charge_row(&row)?;
                self.next.push(row.clone());
                return Ok(Some(row));
            }
            if self.next.is_empty() {
                return Ok(None);
            }
            context.check()?;
            let rows = std::mem::take(&mut self.next);
            rows.iter().for_each(|row| self.memory.give_back_row(row));
            let number = self.definition.number;
            context.reads.steps.borrow_mut().insert(number, Arc::new(rows));
            self.input = RowsOf::new(step.open(None, context)?);
        }
    }
}
