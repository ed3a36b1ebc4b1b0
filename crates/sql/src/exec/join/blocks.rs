//! A join whose right side is in files: rows of the left side meet it block by block.
//!
//! Rows of the left side are taken as memory has room for them, and the right side is read for each
//! such window. It serves joins by loop, the rows of a hash join that all have one hash, and the
//! partners of a keyed join that memory does not hold.
//!
//! Invariants: a window and a block are counted. Does not do: keeping the order of the left side
//! within a window.

use std::sync::Arc;

use super::pairs::Pairs;
use super::{left_keys, of, right_table};
use crate::error::Result;
use crate::exec::Operator;
use crate::exec::batch::{Batch, ROWS};
use crate::exec::hash::HashTable;
use crate::exec::kept::Kept;
use crate::exec::memory::{KeptRows, Memory};
use crate::expr::Context;
use crate::plan::node::Node;
use crate::plan::rel::JoinKind;

/// A join with a right side in files.
pub(super) struct Blocks {
    node: Arc<Node>,
    right: Kept,
    /// Number of the first row behind the block at hand.
    next: u64,
    block: KeptRows,
    table: Option<HashTable>,
    pairs: Pairs,
    /// Counts the window.
    window: Memory,
    /// Counts what is known of rows of the right side in a full join.
    _partners: Memory,
    /// Bytes that a window and a block may have together.
    most: usize,
    step: Step,
}

enum Step {
    /// The window is done.
    TakeWindow,
    Meet,
    /// The left side has ended: rows that only the right side has.
    Rest,
}

impl Blocks {
    /// With so many bytes for rows in memory.
    pub(super) fn new(
        node: &Arc<Node>,
        right: Kept,
        most: usize,
        context: &Context,
    ) -> Result<Blocks> {
        let budget = context.budget();
        let mut partners = Memory::new(&budget);
        let full = of(node).kind == JoinKind::Full;
        let rows = if full { usize::try_from(right.count()).unwrap_or(usize::MAX) } else { 0 };
        partners.charge(rows)?;
        Ok(Blocks {
            node: Arc::clone(node),
            right,
            next: 0,
            block: KeptRows::new(&budget),
            table: None,
            pairs: Pairs::new(node, rows),
            window: Memory::new(&budget),
            _partners: partners,
            most,
            step: Step::TakeWindow,
        })
    }

    /// The next rows that come out for those of `left`.
    pub(super) fn next(
        &mut self,
        left: &mut dyn Operator,
        most: usize,
        context: &Context,
    ) -> Result<Option<Batch>> {
        loop {
            let (right, table) = (&self.block.rows, self.table.as_ref());
            if let Some(batch) = self.pairs.next(most, right, table, context)? {
                return Ok(Some(batch));
            }
            match self.step {
                Step::TakeWindow => match self.take_window(left, most, context)? {
                    Some(rows) => {
                        let keys = left_keys(of(&self.node), &rows, context)?;
                        self.pairs.begin_blocks(rows, keys);
                        (self.next, self.step) = (0, Step::Meet);
                    }
                    None => {
                        self.pairs.begin(Batch::default(), None);
                        self.block = KeptRows::new(&context.budget());
                        (self.next, self.step) = (0, Step::Rest);
                    }
                },
                Step::Meet => {
                    let first = self.next;
                    match self.take_block(context)? {
                        true => {
                            let join = of(&self.node);
                            self.table = right_table(join, &mut self.block, context)?;
                            self.pairs.meet(first as usize);
                        }
                        false => {
                            self.pairs.meet_none(&self.block.rows);
                            self.step = Step::TakeWindow;
                        }
                    }
                }
                Step::Rest => return self.rest(most, context),
            }
        }
    }

    /// The next rows of the left side, as many as there is memory for.
    fn take_window(
        &mut self,
        left: &mut dyn Operator,
        most: usize,
        context: &Context,
    ) -> Result<Option<Batch>> {
        self.window.release();
        let Some(mut rows) = left.next(most, context)? else { return Ok(None) };
        let mut has_room = self.window.charge(rows.bytes()).is_ok();
        while has_room && most >= ROWS && self.window.used() < self.most / 2 {
            let Some(more) = left.next(ROWS, context)? else { break };
            has_room = self.window.charge(more.bytes()).is_ok();
            rows.append(more);
        }
        Ok(Some(rows))
    }

    /// Reads the next block of the right side; false at its end.
    fn take_block(&mut self, context: &Context) -> Result<bool> {
        context.check()?;
        let width = of(&self.node).right_width;
        self.table = None;
        self.block = KeptRows::with_table(&context.budget(), width);
        let read = self.right.rows(self.next, &mut self.block, self.most / 2, context)?;
        self.next += read;
        Ok(read > 0)
    }

    /// The next rows that only the right side has.
    fn rest(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        if of(&self.node).kind != JoinKind::Full {
            return Ok(None);
        }
        loop {
            let first = self.next - self.block.rows.len as u64;
            if let Some(batch) = self.pairs.rest(most, &self.block.rows, first as usize)? {
                return Ok(Some(batch));
            }
            if !self.take_block(context)? {
                return Ok(None);
            }
        }
    }
}
