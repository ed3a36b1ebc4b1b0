//! Rows that are kept longer than the statement that gave them: in memory, or in temporary files
//! where a share of the budget does not hold them.
//!
//! Rows that are read while more are made ([`Growing`]) go to files twice as many at a time as are
//! there, so that a reader who stops early has few made in vain.
//!
//! Invariants: what is in memory is counted; a row comes back as it was kept, as often as it is
//! asked for; the files go with whoever has the rows.
//! Does not do: going back in files without reading them from their start.

use std::borrow::Cow;

use rightlink::Budget;

use super::spill::{Spill, Spilled};
use crate::error::Result;
use crate::exec::batch::Batch;
use crate::exec::memory::{KeptRows, Memory};
use crate::expr::Context;
use crate::types::Row;

/// Of what the memory budget has left, what kept rows take before they go to files. Less than a
/// sort takes, as they stay.
const SHARE: usize = 16;

/// Rows on their way.
pub(crate) struct Keeping {
    rows: Vec<Row>,
    memory: Memory,
    /// Bytes from which on files are used.
    most: usize,
    spill: Option<Spill>,
    count: u64,
}

impl Keeping {
    pub(crate) fn new(budget: &Budget, context: &Context) -> Keeping {
        let memory = Memory::new(budget);
        let most = context.settings.work_memory(memory.available() / SHARE);
        Keeping { rows: Vec::new(), memory, most, spill: None, count: 0 }
    }

    /// The same with files from the first row on.
    pub(crate) fn in_files(budget: &Budget, context: &Context) -> Result<Keeping> {
        let mut keeping = Keeping::new(budget, context);
        keeping.spill(context)?;
        Ok(keeping)
    }

    /// Keeps a row behind the others.
    pub(crate) fn push(&mut self, row: Row, context: &Context) -> Result<()> {
        self.count += 1;
        if let Some(spill) = &mut self.spill {
            return spill.push(&[], &row);
        }
        let full = self.memory.charge_row(&row).is_err();
        self.rows.push(row);
        if full || self.memory.used() > self.most { self.spill(context) } else { Ok(()) }
    }

    /// Keeps the rows of a batch behind the others.
    pub(crate) fn push_batch(&mut self, mut batch: Batch, context: &Context) -> Result<()> {
        context.check()?;
        (0..batch.len).try_for_each(|at| self.push(batch.take_row(at), context))
    }

    /// Has files take the rows from here on.
    fn spill(&mut self, context: &Context) -> Result<()> {
        // What the rows have goes to the files that they go to.
        self.memory.release();
        let mut spill = Spill::new(self.most, context)?;
        for row in std::mem::take(&mut self.rows) {
            spill.push(&[], &row)?;
        }
        self.spill = Some(spill);
        Ok(())
    }

    /// How many rows there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn finish(self) -> Result<Kept> {
        let place = match self.spill {
            None => Place::Memory(self.rows, self.memory),
            Some(spill) => Place::Files { spilled: Box::new(spill.finish()?), next: Some(0) },
        };
        Ok(Kept { place, count: self.count })
    }
}

/// Makes the next row, `None` at the end.
pub(crate) type Producer<'p> = &'p mut dyn FnMut() -> Result<Option<Row>>;

/// Rows that are read while more are made.
pub(crate) struct Growing {
    budget: Budget,
    /// The first rows, until files have them.
    first: Keeping,
    kept: Option<Kept>,
    has_ended: bool,
}

impl Growing {
    pub(crate) fn new(budget: &Budget, context: &Context) -> Growing {
        let first = Keeping::new(budget, context);
        Growing { budget: budget.clone(), first, kept: None, has_ended: false }
    }

    /// Of rows that are all there, which `memory` counts.
    pub(crate) fn of_rows(rows: Vec<Row>, memory: Memory) -> Growing {
        let budget = memory.budget().clone();
        let none = Memory::new(&budget);
        let first = Keeping { rows: Vec::new(), memory: none, most: 0, spill: None, count: 0 };
        let count = rows.len() as u64;
        let kept = Kept { place: Place::Memory(rows, memory), count };
        Growing { budget, first, kept: Some(kept), has_ended: true }
    }

    /// The row of a number, counted from 0; rows up to it are made.
    pub(crate) fn row(
        &mut self,
        number: u64,
        make: Producer<'_>,
        context: &Context,
    ) -> Result<Option<Cow<'_, Row>>> {
        loop {
            let there = match &self.kept {
                Some(kept) => kept.count(),
                None => self.first.rows.len() as u64,
            };
            if number < there {
                break;
            }
            if self.has_ended {
                return Ok(None);
            }
            self.grow(make, context)?;
        }
        match &mut self.kept {
            Some(kept) => Ok(kept.row(number, context)?.map(Cow::Owned)),
            None => Ok(self.first.rows.get(number as usize).map(Cow::Borrowed)),
        }
    }

    /// Adds a row, or doubles the rows where files have them.
    fn grow(&mut self, make: Producer<'_>, context: &Context) -> Result<()> {
        let mut keeping = match &mut self.kept {
            None => {
                match make()? {
                    Some(row) => self.first.push(row, context)?,
                    None => self.has_ended = true,
                }
                if self.first.spill.is_none() {
                    return Ok(());
                }
                std::mem::replace(&mut self.first, Keeping::new(&self.budget, context))
            }
            Some(kept) => {
                let mut keeping = Keeping::in_files(&self.budget, context)?;
                for number in 0..kept.count() {
                    let row = kept.row(number, context)?;
                    keeping.push(row.expect("its number is one of the rows'"), context)?;
                }
                keeping
            }
        };
        let wanted = keeping.count() * 2;
        while keeping.count() < wanted && !self.has_ended {
            match make()? {
                Some(row) => keeping.push(row, context)?,
                None => self.has_ended = true,
            }
        }
        self.kept = Some(keeping.finish()?);
        Ok(())
    }
}

/// Rows that are kept.
pub(crate) struct Kept {
    place: Place,
    count: u64,
}

enum Place {
    Memory(Vec<Row>, #[expect(dead_code, reason = "counts the rows")] Memory),
    Files {
        spilled: Box<Spilled>,
        /// Number of the row that the files give next; `None` if that is not known.
        next: Option<u64>,
    },
}

impl Kept {
    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The row of a number, counted from 0.
    pub(crate) fn row(&mut self, number: u64, context: &Context) -> Result<Option<Row>> {
        if number >= self.count {
            return Ok(None);
        }
        let (spilled, next) = match &mut self.place {
            Place::Memory(rows, _) => return Ok(rows.get(number as usize).cloned()),
            Place::Files { spilled, next } => (spilled, next),
        };
        // After an error the place is not known.
        let mut at = match next.take().filter(|next| *next <= number) {
            Some(next) => next,
            None => {
                spilled.rewind()?;
                0
            }
        };
        while let Some((_, row)) = spilled.next(context)? {
            at += 1;
            if at > number {
                *next = Some(at);
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Rows from a number on, as many as these bytes hold; at least one if there is one.
    pub(crate) fn rows(
        &mut self,
        from: u64,
        within: &mut KeptRows,
        most: usize,
        context: &Context,
    ) -> Result<u64> {
        let mut number = from;
        while number < self.count {
            let row = self.row(number, context)?.expect("its number is one of the rows'");
            number += 1;
            if !within.add(row) || within.used() > most {
                break;
            }
        }
        Ok(number - from)
    }
}
