//! Entries of rows that were pruned leave every index by key, with no vacuum and no scan.
//!
//! Pruning hands over the roots that died, with their bytes; from those the keys are made again.
//! The entries go in batches, a leaf at a time; a row id that is in no index any more is given free
//! at once.
//!
//! Invariants: R3: an entry is removed only if no row id of its block was given free since its row
//! died, and a row id only if every index said that it is gone. Without vacuum, what is not in
//! memory is left to it, with the line pointer.
//! Does not do: prune, decide what is dead.

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::datum::Value;
use crate::error::{Error, Result};
use crate::heap::{DeadRoot, Heap};
use crate::ids::{RowId, Xid};
use crate::index::am::{DeadRows, Trace};
use crate::wal::Admission;

use super::keys::Keys;
use super::{Table, TableIndex};

/// Dead roots that make a cleaning worth while for whoever writes.
const BATCH: usize = 48;

/// Answers indexes that make room.
pub(super) struct HeapOfIndex(pub(super) Heap);

impl DeadRows for HeapOfIndex {
    fn dead_to_all(&self, rows: &[RowId], out: &mut [bool]) {
        self.0.dead_to_all(rows, out);
    }
}

impl TableIndex {
    /// Has it had an entry for a version that was born so, if for any of its row's? One that is
    /// younger may have been built from a later version of the HOT chain, with another key, that
    /// left before this one did (R9): then nothing but a pass finds that entry.
    pub(crate) fn knew(&self, born: Xid) -> bool {
        self.def.usable_from == Xid::NONE || born >= self.def.usable_from
    }
}

/// What a cleaning did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Dead rows whose entries were looked for.
    pub rows: u64,
    /// Entries removed, of all indexes.
    pub entries: u64,
    /// Row ids given free.
    pub freed: u64,
}

impl Table {
    /// Called where a statement has written and holds nothing: cleans up if there is enough to do,
    /// and log for it. What is left out does the statement no harm, so neither does a page of
    /// others' rows that cannot be read or made room for: vacuum, or who needs it, will tell.
    pub(super) fn clean_some(&self) -> Result<()> {
        let has_room = || self.heap.pool().wal().has_room(Admission::GoOn);
        if self.heap.dead_roots() < BATCH || !has_room() {
            return Ok(());
        }
        match self.clean() {
            Err(Error::DiskFull(_) | Error::Io(_)) => Ok(()),
            cleaned => cleaned.map(drop),
        }
    }

    /// Removes the entries of all rows that were pruned on access since the last time, as far as
    /// their leaves are in memory, and gives their row ids free. Not while an index is being built,
    /// which may be going to name them (R3); a build that waits for writers waits for the caller,
    /// who holds the table's write lock.
    pub fn clean(&self) -> Result<Cleaned> {
        if self.is_being_indexed() {
            return Ok(Cleaned::default());
        }
        let (mut dead, rows, mut unread) = self.read_dead(self.heap.take_dead_roots());
        let cleaned = self.clean_dead(&mut dead, &rows, &mut unread);
        self.heap.leave_to_vacuum(dead, unread);
        cleaned
    }

    /// Dead rows in order, what their keys are made of, and how many could not be read.
    fn read_dead(&self, mut roots: Vec<DeadRoot>) -> (Vec<DeadRoot>, Vec<Vec<Value>>, u64) {
        roots.sort_by_key(|root| (root.row_id, root.pruned_at));
        let (mut dead, mut rows, mut unread) = (Vec::<DeadRoot>::new(), Vec::new(), 0);
        let defs: Vec<_> = self.indexes.iter().map(|index| index.def()).collect();
        for root in roots {
            // A row that cannot be read is found by whoever verifies; vacuum removes it.
            let Ok(values) = self.read_for(&defs, root.row_id, &root.row) else {
                unread += 1;
                continue;
            };
            if dead.last().is_some_and(|last| last.row_id == root.row_id) {
                // Freed by vacuum since, used again, and dead again: the last death counts.
                dead.pop();
                rows.pop();
            }
            dead.push(root);
            rows.push(values);
        }
        (dead, rows, unread)
    }

    /// Cleans up `dead`, and leaves those of them there that vacuum must see to; `others` grows by
    /// those whose row ids may be another row's.
    fn clean_dead(
        &self,
        dead: &mut Vec<DeadRoot>,
        rows: &[Vec<Value>],
        others: &mut u64,
    ) -> Result<Cleaned> {
        let mut gone = vec![true; dead.len()];
        let mut cleaned = Cleaned { rows: dead.len() as u64, ..Cleaned::default() };
        for index in &self.indexes {
            let Ok(keys) = index.keys.make(rows) else { return Ok(cleaned) };
            cleaned.entries += self.clean_index(index, (dead, &keys), false, &mut gone)?;
        }
        let mut gone = gone.into_iter();
        let free = dead.extract_if(.., |_| gone.next() == Some(true)).collect::<Vec<_>>();
        match self.heap.free_by_key(&free) {
            // What is not freed has no dead line pointer: a forwarding stub, which stays.
            Ok(Some(by_key)) => {
                cleaned.freed = by_key.freed;
                *others += by_key.recycled;
            }
            Ok(None) => dead.extend(free),
            Err(error) => {
                dead.extend(free);
                return Err(error);
            }
        }
        Ok(cleaned)
    }

    /// Removes the entries of `dead`, which ascend by row id, from one index, wherever its pages
    /// are: how many; `None` if some may be left. The caller holds the turn to free row ids since
    /// before it learned of these.
    pub fn remove_by_key(&self, index: &TableIndex, dead: &[DeadRoot]) -> Result<Option<u64>> {
        let mut rows = Vec::with_capacity(dead.len());
        for root in dead {
            // A row that cannot be read is found by whoever verifies.
            let read = self.read_for(&[index.def()], root.row_id, &root.row);
            let Ok(values) = read else { return Ok(None) };
            rows.push(values);
        }
        let Ok(keys) = index.keys.make(&rows) else { return Ok(None) };
        let mut gone = vec![true; dead.len()];
        let removed = self.clean_index(index, (dead, &keys), true, &mut gone)?;
        Ok(gone.into_iter().all(|gone| gone).then_some(removed))
    }

    /// Removes the entries of `dead`, which ascend, from one index, from pages in memory unless it
    /// `reads`; clears `gone` of rows that may still be there.
    fn clean_index(
        &self,
        index: &TableIndex,
        (dead, keys): (&[DeadRoot], &Keys),
        reads: bool,
        gone: &mut [bool],
    ) -> Result<u64> {
        let rows: Vec<RowId> = dead.iter().map(|root| root.row_id).collect();
        let place = |row: RowId| rows.binary_search(&row).expect("a row of this batch");
        let mut entries = keys.entries(&rows);
        index.method.order(&mut entries);
        let clock = self.heap.clock();
        let mut check = |row: RowId| {
            let root = &dead[place(row)];
            !clock.newer_than(row.block, root.pruned_at) || broken(Broken::CleanedByKeyWithoutClock)
        };
        let mut traces = vec![Trace::Unknown; entries.len()];
        let removed = index.method.remove_dead(&entries, reads, &mut check, &mut traces)?;
        // A row without an entry is like one whose entry is not there.
        let mut found = vec![Trace::Absent; dead.len()];
        for (entry, trace) in entries.iter().zip(traces) {
            found[place(entry.row)] = trace;
        }
        for ((gone, root), found) in gone.iter_mut().zip(dead).zip(found) {
            *gone &= match found {
                Trace::Unknown => false,
                Trace::Removed => true,
                Trace::Absent => {
                    index.knew(root.xmin) || broken(Broken::AbsentEntryCountsAsRemoved)
                }
            };
        }
        Ok(removed)
    }
}
