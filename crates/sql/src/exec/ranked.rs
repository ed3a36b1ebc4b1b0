//! Windows that only number and rank their rows: each row asks for the one before, so that none are
//! held.
//!
//! Invariants: the rows come in the order of the partition and then of the window.
//! Does not do: other window functions (`window`).

use std::sync::Arc;

use crate::error::Result;
use crate::exec::Operator;
use crate::exec::batch::Batch;
use crate::exec::query::compare_by;
use crate::exec::vector::{Numbers, Vector};
use crate::expr::{Context, SortKey};
use crate::plan::node::{Node, Op};
use crate::plan::window::{Window, WindowCall, WindowFunction};
use crate::types::{Datum, Row};

/// Rows with their numbers and ranks.
pub(super) struct Ranked {
    node: Arc<Node>,
    input: Box<dyn Operator>,
    /// The row before.
    last: Option<Place>,
}

/// Where a row stands in its partition.
struct Place {
    /// The values that the rows of the partition agree in, and those that it is ordered by.
    partition: Row,
    order: Row,
    number: i64,
    rank: i64,
    dense: i64,
}

impl Place {
    /// The first of a partition.
    fn first(partition: Row, order: Row) -> Place {
        Place { partition, order, number: 1, rank: 1, dense: 1 }
    }

    /// The one behind it in the same partition.
    fn next(self, order: Row, keys: &[SortKey]) -> Place {
        let number = self.number + 1;
        match agree(&self.order, &order, keys) {
            true => Place { number, ..self },
            false => Place { order, number, rank: number, dense: self.dense + 1, ..self },
        }
    }

    fn value(&self, function: &WindowFunction) -> i64 {
        match function {
            WindowFunction::RowNumber => self.number,
            WindowFunction::Rank => self.rank,
            WindowFunction::DenseRank => self.dense,
            _ => unreachable!("a window of others holds its rows"),
        }
    }
}

/// Are the values of two rows equal in these keys?
fn agree(a: &[Datum], b: &[Datum], keys: &[SortKey]) -> bool {
    keys.iter().zip(a.iter().zip(b)).all(|(key, (a, b))| compare_by(a, b, key).is_eq())
}

/// The window of a node.
fn window_of(node: &Node) -> &Window<WindowCall> {
    match &node.op {
        Op::Window { window, .. } => window,
        _ => unreachable!("opened for a window"),
    }
}

impl Ranked {
    pub(super) fn new(node: &Arc<Node>, input: Box<dyn Operator>) -> Ranked {
        Ranked { node: Arc::clone(node), input, last: None }
    }

    /// Do all calls of a window number and rank?
    pub(super) fn can_do(node: &Node) -> bool {
        use WindowFunction::{DenseRank, Rank, RowNumber};
        let ranks = |call: &WindowCall| matches!(call.function, RowNumber | Rank | DenseRank);
        window_of(node).calls.iter().all(ranks)
    }
}

impl Operator for Ranked {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        let Some(mut batch) = self.input.next(most, context)? else { return Ok(None) };
        let window = window_of(&self.node);
        let mut columns = vec![Vec::with_capacity(batch.len); window.calls.len()];
        for at in 0..batch.len {
            let values = |keys: &[SortKey]| -> Row {
                keys.iter().map(|key| batch.columns[key.at].get(at)).collect()
            };
            let (partition, order) = (values(&window.partition), values(&window.order));
            let place = match self.last.take() {
                Some(last) if agree(&last.partition, &partition, &window.partition) => {
                    last.next(order, &window.order)
                }
                _ => Place::first(partition, order),
            };
            for (column, call) in columns.iter_mut().zip(&window.calls) {
                column.push(place.value(&call.function));
            }
            self.last = Some(place);
        }
        batch.columns.extend(columns.into_iter().map(|one| Vector::Int8(Numbers::all(one))));
        Ok(Some(batch))
    }
}
