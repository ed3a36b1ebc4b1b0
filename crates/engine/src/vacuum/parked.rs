//! What an interrupted run leaves to the next one: row ids that some indexes hold no more.
//!
//! Invariants: a row id that anyone gave free after the interruption is not taken up again: it may
//! name a new row. The recycle clock tells (R3), read while nobody else may free; so nothing is
//! taken up by a heap with another clock.
//! Does not do: survive the process; what is lost is found again by the next run.

use rightlink_env::Budget;
use rightlink_env::points::broken;

use super::DeadRows;
use crate::error::Result;
use crate::heap::Heap;
use crate::ids::{ObjectId, RowId};

/// The rest of an interrupted run.
pub struct Parked {
    pub(super) dead: DeadRows,
    /// Indexes without entries for them.
    pub(super) clean: Vec<ObjectId>,
    /// The last row id that the run gave free itself.
    pub(super) freed_to: Option<RowId>,
    /// The recycle clock when it ended.
    pub(super) clock: u64,
    /// The heap that it ran over, whose clock that is.
    pub(super) heap: Heap,
}

impl Parked {
    /// What may still be taken up; the caller holds the turn to free row ids. `None`: nothing.
    pub(super) fn take_up(
        self,
        heap: &Heap,
        (budget, bytes): (&Budget, usize),
    ) -> Result<Option<(DeadRows, Vec<ObjectId>)>> {
        // A table that was written anew, or opened again, has other rows or another clock.
        if !heap.is_same(&self.heap) && !broken("r3-parked") {
            return Ok(None);
        }
        let same = |row: &RowId| {
            let freed = self.freed_to.is_some_and(|last| *row <= last);
            let since = heap.clock().newer_than(row.block, self.clock) && !broken("r3-parked");
            !freed && !since
        };
        let mut lost = 0;
        self.dead.for_each_piece(|rows| {
            lost += rows.iter().filter(|row| !same(row)).count();
            Ok(())
        })?;
        if lost == 0 {
            return Ok(Some((self.dead, self.clean)));
        }
        if lost == self.dead.len() {
            return Ok(None);
        }
        // They are collected again where there is no memory for a second set.
        let Ok(mut dead) = DeadRows::new(budget, bytes) else {
            return Ok(None);
        };
        self.dead.for_each_piece(|rows| {
            for block in rows.chunk_by(|a, b| a.block == b.block) {
                let kept: Vec<RowId> = block.iter().copied().filter(same).collect();
                // What finds no room is collected again later.
                if dead.has_room() {
                    dead.extend(&kept);
                }
            }
            Ok(())
        })?;
        Ok(Some((dead, self.clean)))
    }
}
