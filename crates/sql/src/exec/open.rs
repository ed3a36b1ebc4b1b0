//! From nodes to operators.
//!
//! Invariants: an operator that runs notes what it does under the number of its node, if anything
//! asks. Does not do: anything else; each operator has its own file.

use std::sync::Arc;

use crate::error::Result;
use crate::exec::batch::Batch;
use crate::exec::group::Grouped;
use crate::exec::incremental::IncrementalSort;
use crate::exec::query::{Cut, Filter, Limits, Project, WithTies};
use crate::exec::ranked::Ranked;
use crate::exec::sets::ProjectSet;
use crate::exec::sort::Sort;
use crate::exec::unique::{Unique, UniqueOn};
use crate::exec::window::Windowed;
use crate::exec::{Batched, Operator, Ready, RowsOf, Split, Watched, join, setop, source, with};
use crate::expr::Context;
use crate::plan::node::{Node, Op};

impl Node {
    /// Opens it. No more than `most` rows will be asked of it, if that is known.
    pub(crate) fn open(
        self: &Arc<Node>,
        most: Option<u64>,
        context: &Context,
    ) -> Result<Box<dyn Operator>> {
        let operator = match &self.op {
            // These do nothing that is a node of its own to a client.
            Op::With { definitions, input } => {
                with::define(definitions, context);
                return input.open(most, context);
            }
            Op::LockRows { input } => return input.open(most, context),
            Op::Project { input, output } => {
                let input = input.open(most, context)?;
                return Ok(Box::new(Project::new(self, output, input)));
            }
            _ => operator(self, most, context)?,
        };
        let operator: Box<dyn Operator> = match context.batch_rows {
            Some(rows) => Box::new(Split { inner: operator, rows, pending: Batch::default() }),
            None => operator,
        };
        Ok(match &context.probe {
            Some(probe) => {
                let (probe, number) = (probe.clone(), self.number);
                Box::new(Watched { probe, number, inner: operator, has_begun: false })
            }
            None => operator,
        })
    }
}

/// The operator of a node.
fn operator(node: &Arc<Node>, most: Option<u64>, context: &Context) -> Result<Box<dyn Operator>> {
    let budget = context.budget();
    let operator: Box<dyn Operator> = match &node.op {
        Op::Single | Op::Scan(_) | Op::Values(_) | Op::Function { .. } | Op::View { .. } => {
            source::open(node, most, context)?
        }
        Op::CteScan { .. } => with::scan(node, context)?,
        Op::Filter { input, .. } => Box::new(Filter::new(node, input.open(None, context)?)),
        Op::Gate { input, condition } => match condition.holds(&[], context)? {
            true => input.open(most, context)?,
            false => Box::new(Batched { stream: Ready::new(Vec::new()), width: node.width }),
        },
        Op::Aggregate { input, .. } => {
            let input = input.open(None, context)?;
            let stream = Grouped::new(node, input, &budget);
            Box::new(Batched { stream, width: node.width })
        }
        Op::ProjectSet { input, .. } => {
            let input = RowsOf::new(input.open(None, context)?);
            Box::new(Batched { stream: ProjectSet::new(node, input, &budget), width: node.width })
        }
        Op::Window { input, .. } => {
            let input = input.open(None, context)?;
            match Ranked::can_do(node) {
                true => Box::new(Ranked::new(node, input)),
                false => {
                    let stream = Windowed::new(node, RowsOf::new(input));
                    Box::new(Batched { stream, width: node.width })
                }
            }
        }
        Op::Distinct { input } => {
            let input = Box::new(RowsOf::new(input.open(None, context)?));
            Box::new(Batched { stream: Unique::new(input, &budget), width: node.width })
        }
        Op::DistinctOn { input, keys } => {
            let input = Box::new(RowsOf::new(input.open(None, context)?));
            let stream = UniqueOn::new(input, keys);
            Box::new(Batched { stream, width: node.width })
        }
        Op::Sort { input, keys, presorted: presorted @ 1.. } => {
            let input = RowsOf::new(input.open(None, context)?);
            let stream = IncrementalSort::new(keys, *presorted, input, &budget, node.width);
            Box::new(Batched { stream, width: node.width })
        }
        Op::Sort { input, keys, .. } => {
            let input = input.open(None, context)?;
            Box::new(Sort::new(keys, node.width, input, &budget, most))
        }
        Op::Limit { input, limit, offset, ties } => {
            let limits = Limits::of(limit, offset, context)?;
            let of_input = limits.most().filter(|_| ties.is_none());
            let input = input.open(of_input, context)?;
            match ties {
                None => Box::new(Cut::new(input, limits)),
                Some(keys) => {
                    let stream = WithTies::new(input, keys, limits);
                    Box::new(Batched { stream, width: node.width })
                }
            }
        }
        Op::Join(_) => join::open(node, context)?,
        Op::SetOperation { .. } => setop::open(node, context, &budget)?,
        Op::With { .. } | Op::LockRows { .. } | Op::Project { .. } => {
            unreachable!("opened by its node")
        }
    };
    Ok(operator)
}
