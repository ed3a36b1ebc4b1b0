//! What vacuum tells: what a run did, and how far a running one is.
//!
//! Invariants: every figure has its unit in its name or its comment.
//! Does not do: collecting.

use std::time::Duration;

use crate::vacuum::Phase as VacuumPhase;

/// What a vacuum did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VacuumReport {
    /// Heap pages looked at.
    pub pages_scanned: u64,
    /// Row versions removed.
    pub rows_removed: u64,
    /// Index entries removed, over all indexes.
    pub entries_removed: u64,
    /// Dead row versions left to the next vacuum, as they are too few for a pass over the indexes.
    pub rows_left: u64,
    /// Passes over the indexes. None is needed where the entries were few and left by key.
    pub index_passes: u64,
    /// Blocks cut from the end of the heap.
    pub blocks_cut: u64,
    /// Index pages given back for reuse.
    pub index_pages_freed: u64,
    /// Pages of long values given back for reuse.
    pub overflow_pages_freed: u64,
}

/// How far a vacuum is that is at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VacuumProgress {
    /// Its table.
    pub table: String,
    /// Did it begin without being asked for?
    pub automatic: bool,
    /// What it is at.
    pub phase: VacuumPhase,
    /// For how long it has been running.
    pub running: Duration,
    /// Blocks of the heap.
    pub heap_blocks: u64,
    /// Those that it has been past.
    pub heap_blocks_done: u64,
    /// Dead rows collected whose entries have not left every index yet.
    pub dead_rows: u64,
    /// Bytes that it keeps of the memory budget for these, used or not.
    pub dead_row_bytes: u64,
    /// Blocks of the indexes that this pass goes over.
    pub index_blocks: u64,
    /// Those that it has been past.
    pub index_blocks_done: u64,
    /// Passes over the indexes that are done.
    pub index_passes: u64,
}
