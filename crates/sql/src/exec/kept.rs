//! Rows that are kept longer than the statement that gave them: in memory, or in temporary files
//! where a share of the budget does not hold them.
//!
//! Invariants: what is in memory is counted; a row comes back as it was kept, as often as it is
//! asked for; the files go with whoever has the rows.
//! Does not do: going back in files without reading them from their start.

use rightlink::Budget;

use super::spill::{Spill, Spilled};
use crate::error::Result;
use crate::exec::memory::Memory;
use crate::expr::Context;
use crate::types::Row;

/// Of what the memory budget has left, what kept rows take before they go to files. Less than a
/// sort takes, as they stay.
const SHARE: usize = 16;

/// Rows on their way.
pub(crate) struct Keeping<'c> {
    context: &'c Context,
    rows: Vec<Row>,
    memory: Memory,
    /// Bytes from which on files are used.
    most: usize,
    spill: Option<Spill>,
    count: u64,
}

impl<'c> Keeping<'c> {
    pub(crate) fn new(budget: &Budget, context: &'c Context) -> Keeping<'c> {
        let memory = Memory::new(budget);
        let most = context.settings.work_memory(memory.available() / SHARE);
        Keeping { context, rows: Vec::new(), memory, most, spill: None, count: 0 }
    }

    /// Keeps a row behind the others.
    pub(crate) fn push(&mut self, row: Row) -> Result<()> {
        self.count += 1;
        if let Some(spill) = &mut self.spill {
            return spill.push(&[], &row);
        }
        let full = self.memory.charge_row(&row).is_err();
        self.rows.push(row);
        if full || self.memory.used() > self.most { self.spill() } else { Ok(()) }
    }

    /// Has files take the rows from here on.
    fn spill(&mut self) -> Result<()> {
        // What the rows have goes to the files that they go to.
        self.memory.release();
        let mut spill = Spill::new(self.most, self.context)?;
        for row in std::mem::take(&mut self.rows) {
            spill.push(&[], &row)?;
        }
        self.spill = Some(spill);
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Kept> {
        let place = match self.spill {
            None => Place::Memory(self.rows, self.memory),
            Some(spill) => Place::Files { spilled: Box::new(spill.finish()?), next: Some(0) },
        };
        Ok(Kept { place, count: self.count })
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
}
