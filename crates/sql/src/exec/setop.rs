//! UNION, INTERSECT and EXCEPT.
//!
//! UNION ALL hands on both sides, one behind the other. The others count the rows of the right side
//! that are alike, and go through those of the left.
//!
//! Invariants: nulls are alike; of rows that are alike without ALL the first comes out.
//! Does not do: INTERSECT and EXCEPT whose right side is beyond the memory budget (`53200`).

use std::collections::BTreeMap;
use std::sync::Arc;

use rightlink::Budget;

use crate::error::Result;
use crate::exec::batch::{Batch, ROWS};
use crate::exec::memory::Memory;
use crate::exec::unique::Unique;
use crate::exec::{Batched, Operator, RowsOf, Stream};
use crate::expr::Context;
use crate::expr::aggregate::Ordered;
use crate::plan::node::{Node, Op};
use crate::plan::rel::SetKind;
use crate::types::Row;

/// Opens a set operation.
pub(super) fn open(
    node: &Arc<Node>,
    context: &Context,
    budget: &Budget,
) -> Result<Box<dyn Operator>> {
    let Op::SetOperation { kind, all, left, right } = &node.op else {
        unreachable!("opened for a set operation")
    };
    let left = left.open(None, context)?;
    let width = node.width;
    if *kind == SetKind::Union {
        let both = Both { left: Some(left), node: Arc::clone(node), right: None };
        if *all {
            return Ok(Box::new(both));
        }
        let rows = Box::new(RowsOf::new(Box::new(both)));
        return Ok(Box::new(Batched { stream: Unique::new(rows, budget), width }));
    }
    let right = right.open(None, context)?;
    let counted = Counted {
        keeps: *kind == SetKind::Intersect,
        all: *all,
        left: RowsOf::new(left),
        right: Some(RowsOf::new(right)),
        counts: BTreeMap::new(),
        memory: Memory::new(budget),
    };
    Ok(Box::new(Batched { stream: counted, width }))
}

/// The rows of both sides.
struct Both {
    left: Option<Box<dyn Operator>>,
    node: Arc<Node>,
    right: Option<Box<dyn Operator>>,
}

impl Operator for Both {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        if let Some(left) = &mut self.left {
            if let Some(batch) = left.next(most, context)? {
                return Ok(Some(batch));
            }
            self.left = None;
            let Op::SetOperation { right, .. } = &self.node.op else {
                unreachable!("opened for a set operation")
            };
            self.right = Some(right.open(None, context)?);
        }
        self.right.as_mut().expect("it follows the left one").next(most, context)
    }
}

/// INTERSECT (which keeps rows that the right side has) and EXCEPT.
struct Counted {
    keeps: bool,
    all: bool,
    left: RowsOf,
    right: Option<RowsOf>,
    /// How many rows of the right side are alike and not used up. Without ALL, of rows that came
    /// out none is left, or it is as if the right side had them.
    counts: BTreeMap<Ordered, u64>,
    memory: Memory,
}

impl Counted {
    /// Does a row of the left side come out?
    fn takes(&mut self, row: &Row) -> Result<bool> {
        let key = Ordered(row.clone());
        let count = self.counts.get_mut(&key);
        Ok(match (self.keeps, self.all, count) {
            (true, _, None) => false,
            (true, true, Some(count)) => {
                let found = *count > 0;
                *count = count.saturating_sub(1);
                found
            }
            (true, false, Some(count)) => std::mem::take(count) > 0,
            (false, true, Some(count)) if *count > 0 => {
                *count -= 1;
                false
            }
            (false, true, _) => true,
            (false, false, Some(_)) => false,
            (false, false, None) => {
                self.memory.charge_row(row)?;
                self.counts.insert(key, 1);
                true
            }
        })
    }
}

impl Stream for Counted {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        if let Some(mut right) = self.right.take() {
            while let Some(row) = right.next(ROWS, context)? {
                let key = Ordered(row);
                match self.counts.get_mut(&key) {
                    Some(count) => *count += 1,
                    None => {
                        self.memory.charge_row(&key.0)?;
                        self.counts.insert(key, 1);
                    }
                }
            }
        }
        while let Some(row) = self.left.next(most, context)? {
            if self.takes(&row)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}
