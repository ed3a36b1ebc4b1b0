//! What an interrupted run leaves to the next one: dead row ids, and the indexes already clean of
//! them.
//!
//! Invariants: a row id that was freed after the interruption is not resumed, since it may name a
//! new row. The recycle clock tells (R3), read while no other thread may free row ids. So a heap
//! with another clock resumes nothing.
//! Does not do: survive the process; the next run finds the rest again.

use rightlink_env::Broken;
use rightlink_env::points::broken;

use super::{DeadRows, RunMemory};
use crate::error::Result;
use crate::heap::Heap;
use crate::ids::{ObjectId, RowId};

/// The rest of an interrupted run.
pub(crate) struct ResumableRun {
    pub(super) dead: DeadRows,
    /// Indexes without entries for them.
    pub(super) clean: Vec<ObjectId>,
    /// The last row id that the run freed.
    pub(super) freed_to: Option<RowId>,
    /// The recycle clock when it ended.
    pub(super) clock: u64,
    /// The heap that it ran over, whose clock that is.
    pub(super) heap: Heap,
}

impl ResumableRun {
    /// The row ids that may still be resumed, and the indexes clean of them; `None`: none. The
    /// caller holds the turn to free row ids.
    pub(super) fn resume(
        self,
        heap: &Heap,
        memory: RunMemory<'_>,
    ) -> Result<Option<(DeadRows, Vec<ObjectId>)>> {
        // A table that was written anew, or opened again, has other rows or another clock.
        if !heap.is_same(&self.heap) && !broken(Broken::ParkedRowIdsNotRechecked) {
            return Ok(None);
        }
        let same = |row: &RowId| {
            let freed = self.freed_to.is_some_and(|last| *row <= last);
            let since = heap.clock().newer_than(row.block, self.clock)
                && !broken(Broken::ParkedRowIdsNotRechecked);
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
        // Without memory for a second set, the row ids are collected again.
        let Ok(mut dead) = DeadRows::new(memory.budget, memory.bytes) else {
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
