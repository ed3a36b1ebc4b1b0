//! Removal of the index entries of pruned rows by key, without a vacuum and without a scan.
//!
//! Pruning returns the dead roots with their bytes. The keys are made again from those, and the
//! entries are removed in batches, a leaf at a time. A row id that no index names any more is freed
//! at once.
//!
//! Invariants: an entry is removed only if no row id of its block was freed since its row died, and
//! a row id is freed only if every index has confirmed that its entry is gone (R3). A writer cleans
//! pages in memory only, and leaves the others to vacuum with the line pointer.
//! Does not do: prune; decide which rows are dead.
//! PostgreSQL: simple index deletion, `_bt_simpledel_pass`, which begins at a full leaf.

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::datum::Value;
use crate::error::{Error, Result};
use crate::heap::{DeadRoot, Heap};
use crate::ids::{RowId, Xid};
use crate::index::am::{DeadRows, Trace};
use crate::wal::Admission;

use crate::table::definition::keys::Keys;
use crate::table::{Table, TableIndex};

/// Dead roots from which on a writer cleans.
const BATCH: usize = 48;

/// Answers indexes that make room.
pub(in crate::table) struct HeapOfIndex(pub(in crate::table) Heap);

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
    /// Called where a statement has written and holds nothing. Cleans if there is enough to do, and
    /// log space for it. Rows that are left out do the statement no harm. So an error of a page of
    /// other rows is ignored: vacuum, or a reader of that page, reports it.
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

    /// Removes the entries of all rows that were pruned on access since the last call, as far as
    /// their leaves are in memory, and frees their row ids. Does nothing while an index is being
    /// built, which may name them later (R3). The caller holds the table's write lock, so a build
    /// that waits for writers waits for it.
    pub fn clean(&self) -> Result<Cleaned> {
        if self.is_being_indexed() {
            return Ok(Cleaned::default());
        }
        let mut unreadable = 0;
        let (mut dead, rows) = self.read_roots(self.heap.take_dead_roots(), &mut unreadable);
        let cleaned = self.clean_dead(&mut dead, &rows, &mut unreadable);
        self.heap.leave_to_vacuum(dead, unreadable);
        cleaned
    }

    /// Dead rows in the order of their row ids, each once, and their values. Counts those that are
    /// `unreadable`: verification finds them, and vacuum removes them.
    fn read_roots(
        &self,
        mut roots: Vec<DeadRoot>,
        unreadable: &mut u64,
    ) -> (Vec<DeadRoot>, Vec<Vec<Value>>) {
        roots.sort_by_key(|root| (root.row_id, root.pruned_at));
        let (mut dead, mut rows) = (Vec::<DeadRoot>::new(), Vec::new());
        let defs: Vec<_> = self.indexes.iter().map(|index| index.def()).collect();
        for root in roots {
            let Ok(values) = self.read_for(&defs, root.row_id, &root.row) else {
                *unreadable += 1;
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
        (dead, rows)
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
            cleaned.entries += self.clean_index(index, dead, &keys, false, &mut gone)?;
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
            // Verification finds a row that cannot be read.
            let read = self.read_for(&[index.def()], root.row_id, &root.row);
            let Ok(values) = read else { return Ok(None) };
            rows.push(values);
        }
        let Ok(keys) = index.keys.make(&rows) else { return Ok(None) };
        let mut gone = vec![true; dead.len()];
        let removed = self.clean_index(index, dead, &keys, true, &mut gone)?;
        Ok(gone.into_iter().all(|gone| gone).then_some(removed))
    }

    /// Removes the entries of `dead`, which ascend, from one index, from pages in memory unless it
    /// `reads`; clears `gone` of rows that may still be there.
    fn clean_index(
        &self,
        index: &TableIndex,
        dead: &[DeadRoot],
        keys: &Keys,
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
