//! Joins.
//!
//! | file | content |
//! |---|---|
//! | `pairs` | from candidates to rows: conditions, rows without a partner |
//! | `keyed` | rows looked up in an index for the keys of many rows at once |
//! | `made` | rows of a relation that is made up, found by a value |
//! | `apply` | a side that runs again for each row of the other |
//! | `hashed` | both sides of a hash join in files |
//! | `blocks` | a right side in files that is met block by block |
//!
//! The left side streams. The right side of a join by loop or by hash is in memory; the right side
//! of a keyed join is, as far as it is wanted for the rows of the left side at hand. What a share
//! of the budget does not hold goes to files.
//!
//! Invariants: rows come out in the order of the left side, unless files are used; what is in
//! memory is counted. Does not do: choosing how rows are joined (`plan`).

mod apply;
mod blocks;
mod hashed;
mod keyed;
mod made;
mod pairs;

use std::sync::Arc;

use crate::error::Result;
use crate::exec::Operator;
use crate::exec::batch::{Batch, ROWS};
use crate::exec::hash::{self, HashTable, Keys};
use crate::exec::kept::Keeping;
use crate::exec::memory::KeptRows;
use crate::exec::sort::SHARE;
use crate::expr::Context;
use crate::plan::node::{How, JoinNode, Node, Op};
use blocks::Blocks;
use hashed::{Hashed, Overflow};
use pairs::Pairs;

/// Opens a join.
pub(super) fn open(node: &Arc<Node>, context: &Context) -> Result<Box<dyn Operator>> {
    let join = of(node);
    let left = join.left.open(None, context)?;
    Ok(match &join.how {
        How::Apply { .. } => Box::new(apply::Apply::new(node, left)),
        How::Keyed { .. } => Box::new(keyed::Keyed::new(node, left, context)),
        How::Made { .. } => Box::new(made::KeyedMade::new(node, left, context)),
        How::Loop { .. } | How::Hash { .. } => Box::new(Joined::new(node, left)),
    })
}

/// The join of a node.
fn of(node: &Node) -> &JoinNode {
    match &node.op {
        Op::Join(join) => join,
        _ => unreachable!("opened for a join"),
    }
}

/// Keys of rows of the left side, if the join looks for equal ones.
fn left_keys(join: &JoinNode, rows: &Batch, context: &Context) -> Result<Option<Keys>> {
    match &join.how {
        How::Hash { keys, .. } | How::Made { keys, .. } => {
            hash::values(keys.iter().map(|key| &key.left), rows, context).map(Some)
        }
        How::Keyed { keys, .. } => {
            hash::values(keys.iter().map(|key| &key.value), rows, context).map(Some)
        }
        How::Loop { .. } | How::Apply { .. } => Ok(None),
    }
}

/// Keys of rows of the right side, if the join looks for equal ones.
fn right_keys(join: &JoinNode, rows: &Batch, context: &Context) -> Result<Option<Keys>> {
    match &join.how {
        How::Hash { keys, .. } | How::Made { keys, .. } => {
            hash::values(keys.iter().map(|key| &key.right), rows, context).map(Some)
        }
        How::Keyed { keys, .. } => {
            let columns = keys.iter().map(|key| rows.columns[key.at].clone());
            Ok(Some(hash::hashed(columns.collect(), rows.len)))
        }
        How::Loop { .. } | How::Apply { .. } => Ok(None),
    }
}

/// A table of rows of the right side by their keys, if the join looks for equal ones.
fn right_table(
    join: &JoinNode,
    right: &mut KeptRows,
    context: &Context,
) -> Result<Option<HashTable>> {
    let Some(keys) = right_keys(join, &right.rows, context)? else { return Ok(None) };
    let table = HashTable::of(keys.values, &keys.hashes);
    right.charge_table(table.bytes())?;
    Ok(Some(table))
}

/// A join by loop or by hash.
struct Joined {
    node: Arc<Node>,
    left: Box<dyn Operator>,
    side: RightSide,
}

/// Where the right side is.
enum RightSide {
    Unread,
    Memory(Box<InMemory>),
    Blocks(Box<Blocks>),
    Hashed(Box<Hashed>),
}

/// A right side that memory holds.
struct InMemory {
    right: KeptRows,
    table: Option<HashTable>,
    pairs: Pairs,
}

impl Joined {
    fn new(node: &Arc<Node>, left: Box<dyn Operator>) -> Joined {
        Joined { node: Arc::clone(node), left, side: RightSide::Unread }
    }

    /// Reads the right side.
    fn build(&mut self, context: &Context) -> Result<RightSide> {
        let join = of(&self.node);
        let (How::Loop { right: input } | How::Hash { right: input, .. }) = &join.how else {
            unreachable!("opened for one of these")
        };
        let mut input = input.open(None, context)?;
        let has_table = matches!(join.how, How::Hash { .. });
        let budget = context.budget();
        let mut right = match has_table {
            true => KeptRows::with_table(&budget, join.right_width),
            false => KeptRows::new(&budget),
        };
        let mut most = None;
        while let Some(batch) = input.next(ROWS, context)? {
            // What is below has taken its share by now.
            let share = || context.settings.work_memory(right.available() / SHARE);
            let most = *most.get_or_insert_with(share);
            if right.try_append(batch) && right.used() <= most {
                continue;
            }
            let first = right.give_up();
            if has_table {
                let overflow = Overflow { first, rest: &mut *input, most };
                let hashed = Hashed::new(&self.node, overflow, &mut *self.left, context)?;
                return Ok(RightSide::Hashed(Box::new(hashed)));
            }
            let mut keeping = Keeping::in_files(&budget, context)?;
            keeping.push_batch(first, context)?;
            while let Some(batch) = input.next(ROWS, context)? {
                keeping.push_batch(batch, context)?;
            }
            let blocks = Blocks::new(&self.node, keeping.finish()?, most, context)?;
            return Ok(RightSide::Blocks(Box::new(blocks)));
        }
        if right.rows.len == 0 {
            right.rows = Batch::with_width(join.right_width, 0);
        }
        let table = right_table(join, &mut right, context)?;
        let pairs = Pairs::new(&self.node, right.rows.len);
        Ok(RightSide::Memory(Box::new(InMemory { right, table, pairs })))
    }
}

impl Operator for Joined {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        loop {
            match &mut self.side {
                RightSide::Unread => self.side = self.build(context)?,
                RightSide::Blocks(blocks) => return blocks.next(&mut *self.left, most, context),
                RightSide::Hashed(hashed) => return hashed.next(most, context),
                RightSide::Memory(memory) => {
                    let InMemory { right, table, pairs } = &mut **memory;
                    if let Some(batch) = pairs.next(most, &right.rows, table.as_ref(), context)? {
                        return Ok(Some(batch));
                    }
                    let Some(batch) = self.left.next(most, context)? else {
                        return pairs.rest(most, &right.rows, 0);
                    };
                    let keys = left_keys(of(&self.node), &batch, context)?;
                    pairs.begin(batch, keys);
                }
            }
        }
    }
}
