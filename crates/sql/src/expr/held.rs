//! Memory of the long values that the evaluation of a row holds at once.
//!
//! A value is counted from the time it is made until the function that it is an argument of has its
//! result, or the row that it is in has been handed on. Values below [`LONG`] are not counted: a
//! row of the most columns has a few megabytes of them.
//!
//! Invariants: what is counted is reserved from the database's budget; what the budget does not
//! have ends the statement with `53200`. Marks are given back in the reverse of their order.
//! Does not do: rows that are kept (`exec::memory`), the one result that a function is making,
//! which has a limit of its own.

use std::cell::{Cell, RefCell};

use rightlink::{Budget, Reservation};

use crate::error::{Result, SqlError, code};
use crate::types::Datum;

/// Bytes of a value that is counted.
const LONG: usize = 4 << 10;
/// Reserved at a time.
const STEP: usize = 256 << 10;

/// Counts long values; a clone counts its own.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// `None` outside of any database, where nothing is counted.
    budget: Option<Budget>,
    bytes: Cell<usize>,
    reservation: RefCell<Option<Reservation>>,
}

impl Clone for Held {
    fn clone(&self) -> Held {
        Held { budget: self.budget.clone(), ..Held::default() }
    }
}

impl Held {
    /// Counts against `budget`.
    pub(crate) fn of(budget: &Budget) -> Held {
        Held { budget: Some(budget.clone()), ..Held::default() }
    }

    /// What is counted now, for [`Held::back_to`].
    pub(crate) fn mark(&self) -> usize {
        self.bytes.get()
    }

    /// Counts a value, if it is long.
    ///
    /// # Errors
    /// `53200` if the budget does not have its bytes.
    #[inline]
    pub(crate) fn add(&self, value: &Datum) -> Result<()> {
        match value.heap_bytes() {
            bytes if bytes < LONG => Ok(()),
            bytes => self.add_bytes(bytes),
        }
    }

    /// Counts `bytes` more.
    pub(crate) fn add_bytes(&self, bytes: usize) -> Result<()> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let wanted = self.bytes.get() + bytes;
        let mut reservation = self.reservation.borrow_mut();
        let reserved = reservation.as_ref().map_or(0, Reservation::bytes);
        if wanted > reserved {
            let more = (wanted - reserved).next_multiple_of(STEP);
            let grown = match reservation.as_mut() {
                Some(reservation) => reservation.grow(more),
                None => {
                    *reservation = budget.try_reserve(more);
                    reservation.is_some()
                }
            };
            if !grown {
                return Err(exhausted(wanted, budget));
            }
        }
        self.bytes.set(wanted);
        Ok(())
    }

    /// Fails where a value of so many bytes would not fit beside what is counted.
    pub(crate) fn check_fits(&self, bytes: usize) -> Result<()> {
        match bytes < LONG {
            true => Ok(()),
            false => {
                let mark = self.mark();
                let fits = self.add_bytes(bytes);
                self.back_to(mark);
                fits
            }
        }
    }

    /// What was counted since `mark` is held no more.
    #[inline]
    pub(crate) fn back_to(&self, mark: usize) {
        if self.bytes.get() != mark {
            self.give_back_to(mark);
        }
    }

    fn give_back_to(&self, mark: usize) {
        assert!(mark <= self.bytes.get(), "marks are given back in the reverse of their order");
        self.bytes.set(mark);
        // Between rows the budget is others'.
        if mark == 0 {
            self.reservation.take();
        }
    }

    /// So many bytes are held no more, whatever was counted after them.
    pub(crate) fn give(&self, bytes: usize) {
        self.give_back_to(self.bytes.get().saturating_sub(bytes));
    }
}

fn exhausted(wanted: usize, budget: &Budget) -> SqlError {
    let detail = format!(
        "Values of {wanted} bytes in one row do not fit the memory budget of {} bytes.",
        budget.limit()
    );
    SqlError::new(code::OUT_OF_MEMORY, "out of memory").detail(detail)
}

/// Bytes that the long values of a row take.
pub(crate) fn long_bytes(row: &[Datum]) -> usize {
    row.iter().map(Datum::heap_bytes).filter(|bytes| *bytes >= LONG).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: usize) -> Datum {
        Datum::Text("x".repeat(bytes))
    }

    #[test]
    fn what_is_held_is_reserved_and_given_back() {
        let budget = Budget::new(1 << 20);
        let held = Held::of(&budget);
        held.add(&text(LONG - 1)).unwrap();
        assert_eq!(budget.used(), 0, "short values are not counted");
        held.add(&text(300 << 10)).unwrap();
        let inner = held.mark();
        held.add(&text(400 << 10)).unwrap();
        assert!(budget.used() >= 700 << 10);
        assert_eq!(held.add(&text(400 << 10)).unwrap_err().sqlstate, "53200");
        assert_eq!(held.check_fits(1 << 20).unwrap_err().sqlstate, "53200");
        held.back_to(inner);
        // What failed was not counted.
        held.add(&text(400 << 10)).unwrap();
        held.back_to(0);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_clone_counts_its_own() {
        let budget = Budget::new(1 << 20);
        let held = Held::of(&budget);
        held.add(&text(512 << 10)).unwrap();
        let other = held.clone();
        assert_eq!(other.mark(), 0);
        assert!(other.add(&text(768 << 10)).is_err(), "both count against one budget");
        drop(held);
        other.add(&text(768 << 10)).unwrap();
    }
}
