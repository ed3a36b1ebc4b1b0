//! A join whose right side runs again for each row of the left one, whose values it reads.
//!
//! Invariants: the right side of a row has ended before the next row is looked at.
//! Does not do: remembering what a side gave.

use std::sync::Arc;

use super::of;
use crate::error::Result;
use crate::exec::Operator;
use crate::exec::batch::Batch;
use crate::exec::execution::Execution;
use crate::exec::query::filtered;
use crate::exec::vector::Vector;
use crate::expr::Context;
use crate::plan::node::{How, JoinNode, Node};
use crate::plan::rel::JoinKind;
use crate::types::{Datum, Row};

/// A join by running the right side for each row.
pub(super) struct Apply {
    node: Arc<Node>,
    left: Box<dyn Operator>,
    rows: Batch,
    at: usize,
    /// The right side of the row at hand, and whether it gave a row.
    right: Option<Box<dyn Operator>>,
    has_partner: bool,
}

impl Apply {
    pub(super) fn new(node: &Arc<Node>, left: Box<dyn Operator>) -> Apply {
        let node = Arc::clone(node);
        Apply { node, left, rows: Batch::default(), at: 0, right: None, has_partner: false }
    }

    /// Runs the right side for the next row of the left one; false at its end.
    fn start(&mut self, most: usize, context: &Context) -> Result<bool> {
        while self.at >= self.rows.len {
            match self.left.next(most, context)? {
                Some(batch) => (self.rows, self.at) = (batch, 0),
                None => return Ok(false),
            }
        }
        let How::Apply { right, binds } = &of(&self.node).how else {
            unreachable!("opened for one that runs again")
        };
        let row: Row = self.rows.row(self.at);
        for (slot, value) in binds {
            Execution::of(context).fill(*slot, value.eval(&row, context)?);
        }
        self.right = Some(right.open(None, context)?);
        self.has_partner = false;
        Ok(true)
    }

    /// The row at hand beside so many of the right side.
    fn beside(&self, len: usize) -> Vec<Vector> {
        let value = |column: &Vector| Vector::Same(column.get(self.at), len);
        self.rows.columns.iter().map(value).collect()
    }
}

impl Operator for Apply {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        let node = Arc::clone(&self.node);
        let join = of(&node);
        loop {
            if self.right.is_none() && !self.start(most, context)? {
                return Ok(None);
            }
            let right = self.right.as_mut().expect("it was started");
            let Some(Batch { len, columns }) = right.next(most, context)? else {
                self.right = None;
                let alone = !self.has_partner && join.kind != JoinKind::Inner;
                let mut columns = self.beside(1);
                self.at += 1;
                if alone && join.kind != JoinKind::Semi {
                    if join.kind == JoinKind::Left {
                        let null = |_| Vector::Same(Datum::Null, 1);
                        columns.extend((0..join.right_width).map(null));
                    }
                    return Ok(Some(kept(join, Batch { len: 1, columns })));
                }
                continue;
            };
            let mut both = self.beside(len);
            both.extend(columns);
            let mut batch = Batch { len, columns: both };
            if let Some(condition) = &join.condition {
                batch = filtered(condition, batch, context)?;
            }
            if batch.len == 0 {
                continue;
            }
            self.has_partner = true;
            match join.kind {
                JoinKind::Semi | JoinKind::Anti => {
                    // One partner says it.
                    self.right = None;
                    let columns = self.beside(1);
                    self.at += 1;
                    if join.kind == JoinKind::Semi {
                        return Ok(Some(kept(join, Batch { len: 1, columns })));
                    }
                }
                _ => return Ok(Some(kept(join, batch))),
            }
        }
    }
}

/// The columns of these rows that go on.
fn kept(join: &JoinNode, rows: Batch) -> Batch {
    let mut columns: Vec<Option<Vector>> = rows.columns.into_iter().map(Some).collect();
    let column = |at: &usize| columns[*at].take().expect("a column goes on once");
    Batch { len: rows.len, columns: join.kept.iter().map(column).collect() }
}
