//! What an index may ask the heap: does this row count against a unique key?
//!
//! Invariants: asked under an index latch, so nothing is read and nobody is waited for (R7, R12); a
//! page or a status that is not in memory is reported, and [`TableOracle::prepare`] fetches it
//! afterwards.
//! Does not do: visibility to a snapshot; uniqueness is about what is or may become committed.

use std::cell::RefCell;

use crate::buffer::Pin;
use crate::error::Result;
use crate::heap::{self, Heap};
use crate::ids::{RowId, Xid};
use crate::index::{HeapOracle, Liveness};

/// Most pins kept for an index that asks again; a unique key with more candidates reads some twice.
const KEPT_PINS: usize = 4;

/// Answers for one transaction.
pub struct TableOracle<'a> {
    heap: &'a Heap,
    owns: &'a dyn Fn(Xid) -> bool,
    /// Pages read on request, so that they are still there when the index asks again.
    pins: RefCell<Vec<Pin>>,
}

impl<'a> TableOracle<'a> {
    /// `owns` tells the living xids of the asking transaction.
    pub fn new(heap: &'a Heap, owns: &'a dyn Fn(Xid) -> bool) -> Self {
        Self { heap, owns, pins: RefCell::default() }
    }

    /// Reads what the answer about `row` needs. The caller holds no latch.
    pub fn prepare(&self, row: RowId) -> Result<()> {
        let Some(pin) = self.heap.prepare_liveness(row)? else { return Ok(()) };
        let mut pins = self.pins.borrow_mut();
        if pins.len() == KEPT_PINS {
            pins.remove(0);
        }
        pins.push(pin);
        Ok(())
    }
}

impl HeapOracle for TableOracle<'_> {
    fn liveness(&self, rows: &[RowId], out: &mut [Liveness]) {
        assert_eq!(rows.len(), out.len(), "one answer per row");
        for (row, answer) in rows.iter().zip(out) {
            // An error shows again, with its name, when the row is prepared.
            *answer = match self.heap.liveness(*row, self.owns) {
                Ok(heap::Liveness::Dead) => Liveness::Dead,
                Ok(heap::Liveness::Live) => Liveness::Live,
                Ok(heap::Liveness::InProgress(xid)) => Liveness::InProgress(xid),
                Ok(heap::Liveness::NeedsRead) | Err(_) => Liveness::NeedsRead,
            };
        }
    }
}
