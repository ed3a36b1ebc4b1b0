//! UNION, INTERSECT and EXCEPT.
//!
//! UNION ALL hands on both sides, one behind the other. The others count the rows of the right side
//! that are alike, and go through those of the left. Counts beyond their share of the budget go to
//! files, and the rows that come then too; there rows that are alike are neighbours, those of the
//! right side in front.
//!
//! Invariants: nulls are alike; of rows that are alike without ALL the first comes out.
//! Does not do: keeping the order of rows that went to files.

use std::collections::BTreeMap;
use std::sync::Arc;

use rightlink::Budget;

use crate::error::Result;
use crate::exec::batch::{Batch, ROWS};
use crate::exec::memory::Memory;
use crate::exec::sort::SHARE;
use crate::exec::spill::{Spill, Spilled, identify};
use crate::exec::unique::Unique;
use crate::exec::{Batched, Operator, RowsOf, Stream};
use crate::expr::Context;
use crate::expr::aggregate::Ordered;
use crate::plan::node::{Node, Op};
use crate::plan::rel::SetKind;
use crate::types::{Datum, Row};

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
        most: None,
        files: Files::Unused,
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
    /// Bytes of the budget that the counts may have, once there was a row.
    most: Option<usize>,
    files: Files,
}

/// Rows that memory has no room to count.
enum Files {
    Unused,
    /// All that come go there.
    Written(Spill),
    /// All have come; the key of those that are counted.
    Read(Box<Spilled>, Vec<u8>),
}

impl Counted {
    /// Does a row of the left side come out?
    fn takes(&mut self, row: &Row, context: &Context) -> Result<bool> {
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
                self.count(key, 1, context)?;
                true
            }
        })
    }

    /// Counts rows that are alike as rows of the right side.
    fn count(&mut self, row: Ordered, more: u64, context: &Context) -> Result<()> {
        if let Some(count) = self.counts.get_mut(&row) {
            *count += more;
            return Ok(());
        }
        let share = || context.settings.work_memory(self.memory.available() / SHARE);
        let most = *self.most.get_or_insert_with(share);
        let full = self.memory.charge_row(&row.0).is_err();
        self.counts.insert(row, more);
        match self.files {
            Files::Unused if full || self.memory.used() > most => {
                // What is held goes to the sort that it goes to.
                self.memory.release();
                let mut spill = Spill::new(most, context)?;
                for (row, count) in std::mem::take(&mut self.counts) {
                    put(&mut spill, &row, Some(count))?;
                }
                self.files = Files::Written(spill);
                Ok(())
            }
            _ if full => self.memory.charge(0),
            _ => Ok(()),
        }
    }

    /// Takes the rows of the right side.
    fn take_right(&mut self, mut right: RowsOf, context: &Context) -> Result<()> {
        while let Some(row) = right.next(ROWS, context)? {
            match &mut self.files {
                Files::Written(spill) => put(spill, &Ordered(row), Some(1))?,
                _ => self.count(Ordered(row), 1, context)?,
            }
        }
        Ok(())
    }

    /// The next row of the left side that comes out, of those in files.
    fn next_of_files(&mut self, context: &Context) -> Result<Option<Row>> {
        loop {
            let Files::Read(spilled, last) = &mut self.files else {
                unreachable!("all rows have come")
            };
            let Some((key, mut row)) = spilled.next(context)? else { return Ok(None) };
            if key != *last {
                *last = key;
                self.counts.clear();
                self.memory.release();
            }
            match row.remove(0).as_int() {
                Some(count) => self.count(Ordered(row), count.cast_unsigned(), context)?,
                None if self.takes(&row, context)? => return Ok(Some(row)),
                None => {}
            }
        }
    }
}

/// A row for the files, behind how many of the right side it stands for, null for one of the left.
fn put(spill: &mut Spill, Ordered(row): &Ordered, count: Option<u64>) -> Result<()> {
    let (mut identity, room) = (Vec::new(), spill.key_room());
    identify(&mut identity, row, room);
    let mut counted = vec![count.map_or(Datum::Null, |count| Datum::Int8(count.cast_signed()))];
    counted.extend_from_slice(row);
    spill.push(&identity, &counted)
}

impl Stream for Counted {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        if let Some(right) = self.right.take() {
            self.take_right(right, context)?;
        }
        if let Files::Read(..) = self.files {
            return self.next_of_files(context);
        }
        while let Some(row) = self.left.next(most, context)? {
            if let Files::Written(spill) = &mut self.files {
                put(spill, &Ordered(row), None)?;
            } else if self.takes(&row, context)? {
                return Ok(Some(row));
            }
        }
        match std::mem::replace(&mut self.files, Files::Unused) {
            Files::Written(spill) => {
                self.files = Files::Read(Box::new(spill.finish()?), Vec::new());
                self.next_of_files(context)
            }
            files => {
                self.files = files;
                Ok(None)
            }
        }
    }
}
