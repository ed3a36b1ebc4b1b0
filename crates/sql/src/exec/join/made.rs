//! A join with a relation that is made up, whose rows are found by a value of one of its columns.
//!
//! The keys of a batch of the left side, each once, find rows of the relation, which go into a hash
//! table by all keys of the join. A batch whose partners memory does not hold is halved.
//!
//! Invariants: rows come out in the order of the left side. Does not do: the rows of the relation
//! (`source`), and what finds them (`exec::made`).

use std::sync::Arc;

use super::pairs::Pairs;
use super::{left_keys, of, right_table};
use crate::error::Result;
use crate::exec::Operator;
use crate::exec::batch::Batch;
use crate::exec::hash::{HashTable, Keys, hash_of};
use crate::exec::memory::KeptRows;
use crate::exec::source::{Made, MadeSource};
use crate::expr::Context;
use crate::plan::node::{How, Node};
use crate::types::Datum;

/// A join by values of a column of a relation that is made up.
pub(super) struct KeyedMade {
    node: Arc<Node>,
    left: Box<dyn Operator>,
    /// The relation, once a row asks for it.
    made: Option<Made>,
    /// Rows of the left side whose partners were too many together, those that come next last.
    pending: Vec<Batch>,
    right: KeptRows,
    table: Option<HashTable>,
    pairs: Pairs,
}

impl KeyedMade {
    pub(super) fn new(node: &Arc<Node>, left: Box<dyn Operator>, context: &Context) -> KeyedMade {
        KeyedMade {
            node: Arc::clone(node),
            left,
            made: None,
            pending: Vec::new(),
            right: KeptRows::new(&context.budget()),
            table: None,
            pairs: Pairs::new(node, 0),
        }
    }

    /// Finds the partners of these rows and lets them meet.
    fn look_up(&mut self, mut rows: Batch, context: &Context) -> Result<()> {
        let node = Arc::clone(&self.node);
        let How::Made { scan, column, .. } = &of(&node).how else {
            unreachable!("opened for a relation that is made up")
        };
        let own = left_keys(of(&node), &rows, context)?.expect("the join has keys");
        let made = match self.made.take() {
            Some(made) => made,
            None => {
                let (view, slot) = (scan.view, scan.slot);
                let source = MadeSource { view, columns: &scan.columns, slot };
                source.rows(Some(*column), context)?
            }
        };
        self.table = None;
        self.right = KeptRows::with_table(&context.budget(), of(&node).right_width);
        let found = partners(&made, &own, context)?;
        let fits = self.right.try_append(made.pick(&found, context)?);
        self.made = Some(made);
        if !fits && rows.len > 1 {
            self.right.give_up();
            let first = rows.split_front(rows.len / 2);
            self.pending.push(rows);
            return self.look_up(first, context);
        }
        self.table = right_table(of(&node), &mut self.right, context)?;
        self.pairs.begin(rows, Some(own));
        Ok(())
    }
}

/// Rows of the relation that have the first key of one of these rows, in their order.
fn partners(made: &Made, own: &Keys, context: &Context) -> Result<Vec<u32>> {
    let at = made.key.expect("the rows were asked for by a key");
    let mut bytes = Vec::new();
    let mut hashes = Vec::with_capacity(own.hashes.len());
    for row in (0..own.hashes.len()).filter(|row| own.hashes[*row].is_some()) {
        let hash = hash_of(&own.values[0].get(row), &mut bytes);
        hashes.extend(hash.map(|hash| (hash, row)));
    }
    hashes.sort_unstable();
    let mut found = Vec::new();
    for same in hashes.chunk_by(|a, b| a.0 == b.0) {
        let mut known: Vec<Datum> = Vec::new();
        for (_, row) in same {
            let value = own.values[0].get(*row);
            if known.iter().any(|one| one.compare(&value).is_eq()) {
                continue;
            }
            made.rows.find(at, &value, context, &mut found)?;
            known.push(value);
        }
    }
    context.spend(found.len())?;
    found.sort_unstable();
    Ok(found)
}

impl Operator for KeyedMade {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        loop {
            let (right, table) = (&self.right.rows, self.table.as_ref());
            if let Some(batch) = self.pairs.next(most, right, table, context)? {
                return Ok(Some(batch));
            }
            let rows = match self.pending.pop() {
                Some(rows) => rows,
                None => match self.left.next(most, context)? {
                    Some(rows) => rows,
                    None => return Ok(None),
                },
            };
            self.look_up(rows, context)?;
        }
    }
}
