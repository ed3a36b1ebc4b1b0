//! Memory that grows with the data, counted against the database's one budget.
//!
//! Invariants: a row is counted before it is kept, or leaves memory when it does not fit. Does not
//! do: spilling to disk (`spill` does); what no operator can spill fails with `53200`.

use rightlink::{Budget, Reservation};

use crate::error::{Result, SqlError, code};
use crate::exec::batch::Batch;
use crate::types::{Datum, Row};

/// Reserved at a time.
const STEP: usize = 64 << 10;

/// Memory for what is kept only to be fast; `None` where that would leave less than a sixteenth of
/// the budget to what is needed.
pub(crate) fn reserve_spare(budget: &Budget, bytes: usize) -> Option<Reservation> {
    if bytes > spare(budget) { None } else { budget.try_reserve(bytes) }
}

/// The bytes that [`reserve_spare`] would reserve now.
pub(crate) fn spare(budget: &Budget) -> usize {
    budget.available().saturating_sub(budget.limit() / 16)
}

/// What one stream holds.
pub(crate) struct Memory {
    budget: Budget,
    reservation: Option<Reservation>,
    used: usize,
    reserved: usize,
}

impl Memory {
    pub(crate) fn new(budget: &Budget) -> Memory {
        Memory { budget: budget.clone(), reservation: None, used: 0, reserved: 0 }
    }

    /// Counts `bytes` more.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<()> {
        self.used += bytes;
        if self.used <= self.reserved {
            return Ok(());
        }
        let more = (self.used - self.reserved).next_multiple_of(STEP);
        let grown = match &mut self.reservation {
            Some(reservation) => reservation.grow(more),
            slot => {
                *slot = self.budget.try_reserve(more);
                slot.is_some()
            }
        };
        if !grown {
            return Err(self.exhausted());
        }
        self.reserved += more;
        assert!(self.used <= self.reserved, "what is used is reserved");
        Ok(())
    }

    fn exhausted(&self) -> SqlError {
        let detail = format!(
            "{} bytes of this statement do not fit the memory budget of {} bytes.",
            self.used,
            self.budget.limit()
        );
        SqlError::new(code::OUT_OF_MEMORY, "out of memory").detail(detail).hint(
            "The results of one group, and rows that are put in order by more than half of a \
                 record, are kept in memory.",
        )
    }

    /// Counts a row no more; what is reserved for it stays for others.
    pub(crate) fn give_back_row(&mut self, row: &[Datum]) {
        self.used = self.used.saturating_sub(row_bytes(row));
    }

    /// Gives back what was counted.
    pub(crate) fn release(&mut self) {
        (self.used, self.reserved, self.reservation) = (0, 0, None);
    }

    /// What it is counted against.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What the budget has left.
    pub(crate) fn available(&self) -> usize {
        self.budget.available()
    }

    /// What is counted, in bytes.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Counts a row.
    pub(crate) fn charge_row(&mut self, row: &[Datum]) -> Result<()> {
        self.charge(row_bytes(row))
    }
}

/// Rows that are kept in memory, and counted as long as they are.
pub(crate) struct KeptRows {
    pub(crate) rows: Batch,
    memory: Memory,
    /// Is a hash table of the rows counted with them?
    has_table: bool,
    /// What was counted for it.
    of_table: usize,
}

/// Bytes of a row's places in a hash table, whose keys are at most all of the row.
const TABLE: usize = 32;

impl KeptRows {
    pub(crate) fn new(budget: &Budget) -> KeptRows {
        KeptRows { has_table: false, ..KeptRows::with_table(budget, 0) }
    }

    /// For rows of this width, with which a hash table of theirs is counted.
    pub(crate) fn with_table(budget: &Budget, width: usize) -> KeptRows {
        let rows = Batch::with_width(width, 0);
        KeptRows { rows, memory: Memory::new(budget), has_table: true, of_table: 0 }
    }

    /// Adds rows; false if the budget has no room for them, which are kept nonetheless.
    pub(crate) fn try_append(&mut self, batch: Batch) -> bool {
        let fits = self.try_charge(batch.bytes(), batch.len);
        match self.rows.len {
            0 => self.rows = batch,
            _ => self.rows.append(batch),
        }
        fits
    }

    /// Adds a row; false if the budget has no room for it, which is kept nonetheless.
    pub(crate) fn add(&mut self, row: Row) -> bool {
        let fits = self.try_charge(row_bytes(&row), 1);
        self.rows.push(row);
        fits
    }

    fn try_charge(&mut self, bytes: usize, rows: usize) -> bool {
        let of_table = if self.has_table { bytes + TABLE * rows } else { 0 };
        self.of_table += of_table;
        self.memory.charge(bytes + of_table).is_ok()
    }

    /// Counts what their table takes, whose keys may be longer than the rows.
    pub(crate) fn charge_table(&mut self, bytes: usize) -> Result<()> {
        self.memory.charge(bytes.saturating_sub(self.of_table))
    }

    /// What is counted, in bytes.
    pub(crate) fn used(&self) -> usize {
        self.memory.used()
    }

    /// What the budget has left.
    pub(crate) fn available(&self) -> usize {
        self.memory.available()
    }

    /// The rows, which are not counted any more.
    pub(crate) fn give_up(&mut self) -> Batch {
        self.memory.release();
        self.of_table = 0;
        std::mem::take(&mut self.rows)
    }
}

/// Bytes of a row in memory.
pub(crate) fn row_bytes(row: &[Datum]) -> usize {
    let own = std::mem::size_of::<Row>() + std::mem::size_of_val(row);
    own + row.iter().map(Datum::heap_bytes).sum::<usize>()
}
