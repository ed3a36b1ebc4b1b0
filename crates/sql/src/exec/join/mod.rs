//! Joins.
//!
//! | file | content |
//! |---|---|
//! | `pairs` | from candidates to rows: conditions, rows without a partner |
//! | `keyed` | rows looked up in an index for the keys of many rows at once |
//! | `apply` | a side that runs again for each row of the other |
//!
//! The left side streams. The right side of a join by loop or by hash is in memory; the right side
//! of a keyed join is, as far as it is wanted for the rows of the left side at hand.
//!
//! Invariants: rows come out in the order of the left side; what is in memory is counted.
//! Does not do: a right side beyond the memory budget, which fails with `53200`.

mod apply;
mod keyed;
mod pairs;

use std::sync::Arc;

use crate::error::Result;
use crate::exec::Operator;
use crate::exec::batch::{Batch, ROWS};
use crate::exec::hash::{self, HashTable};
use crate::exec::memory::KeptRows;
use crate::expr::Context;
use crate::plan::node::{How, JoinNode, Node, Op};
use pairs::Pairs;

/// Opens a join.
pub(super) fn open(node: &Arc<Node>, context: &Context) -> Result<Box<dyn Operator>> {
    let join = of(node);
    let left = join.left.open(None, context)?;
    Ok(match &join.how {
        How::Apply { .. } => Box::new(apply::Apply::new(node, left)),
        How::Keyed { .. } => Box::new(keyed::Keyed::new(node, left, context)),
        How::Loop { .. } | How::Hash { .. } => {
            let right = KeptRows::new(&context.budget());
            let node = Arc::clone(node);
            Box::new(Joined { node, left, right, table: None, pairs: None, is_built: false })
        }
    })
}

/// The join of a node.
fn of(node: &Node) -> &JoinNode {
    match &node.op {
        Op::Join(join) => join,
        _ => unreachable!("opened for a join"),
    }
}

/// A join by loop or by hash.
struct Joined {
    node: Arc<Node>,
    left: Box<dyn Operator>,
    right: KeptRows,
    /// By the keys of the right side.
    table: Option<HashTable>,
    pairs: Option<Pairs>,
    is_built: bool,
}

impl Joined {
    /// Reads the right side.
    fn build(&mut self, context: &Context) -> Result<()> {
        let join = of(&self.node);
        let (How::Loop { right } | How::Hash { right, .. }) = &join.how else {
            unreachable!("opened for one of these")
        };
        let mut input = right.open(None, context)?;
        while let Some(batch) = input.next(ROWS, context)? {
            self.right.append(batch)?;
        }
        if self.right.rows.len == 0 {
            self.right.rows = Batch::with_width(join.right_width, 0);
        }
        if let How::Hash { keys, .. } = &join.how {
            let exprs = keys.iter().map(|key| &key.right);
            let table = HashTable::build(exprs, &self.right.rows, context)?;
            self.right.charge(table.bytes())?;
            self.table = Some(table);
        }
        self.pairs = Some(Pairs::new(&self.node, self.right.rows.len));
        self.is_built = true;
        Ok(())
    }
}

impl Operator for Joined {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        if !self.is_built {
            self.build(context)?;
        }
        let join = of(&self.node);
        let pairs = self.pairs.as_mut().expect("made with the right side");
        loop {
            if let Some(batch) = pairs.next(most, &self.right.rows, self.table.as_ref(), context)? {
                return Ok(Some(batch));
            }
            match self.left.next(most, context)? {
                Some(batch) => {
                    let keys = match &join.how {
                        How::Hash { keys, .. } => {
                            let exprs = keys.iter().map(|key| &key.left);
                            Some(hash::values(exprs, &batch, context)?)
                        }
                        _ => None,
                    };
                    pairs.begin(batch, keys);
                }
                None => return pairs.rest(most, &self.right.rows),
            }
        }
    }
}
