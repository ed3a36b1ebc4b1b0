//! Build of an index beside writers.
//!
//! The caller takes the table through three stages. After each of the first two it waits until
//! every transaction has ended that may have written under the stage before:
//!
//! 1. *Counted*: the index does not exist yet, but an update that changes its keys is not heap-only
//!    any more (R10). Then a snapshot is taken, and the rows that it sees are loaded in bulk.
//! 2. *Kept*: writers maintain the index, and no reader uses it. Then a second snapshot is taken.
//!    Versions that it sees and the first does not get the entries that are missing.
//! 3. The index is usable by snapshots that are not older than the second one (R10).
//!
//! Invariants: both snapshots stay registered until every statement sees stage 2, so no row id that
//! the first one named is reused meanwhile (R3). No entry is cleaned and no row id is freed beside
//! a build. A page that has not changed since before stage 1 is not read twice.
//! Does not do: choose the stage that a statement sees (`catalog`); wait.
//! PostgreSQL: `CREATE INDEX CONCURRENTLY`, `validate_index`.

use rightlink_env::Broken;
use rightlink_env::points::{broken, hit};
use rightlink_env::sync::Arc;

use crate::error::Result;
use crate::heap::{KnownRoots, Liveness};
use crate::ids::{Csn, Lsn, RowId, Xid};
use crate::index::am::{InsertOutcome, LeafBatch, ScanOptions};
use crate::index::{IndexEntry, KeyRange};
use crate::txn::{Snapshot, Transaction};

use crate::table::build::BuildOptions;
use crate::table::definition::keys::{KeyMaker, Keys};
use crate::table::definition::schema::{ColumnNo, IndexDef};
use crate::table::write::entries::EntryGroup;
use crate::table::write::statement::GoOn;
use crate::table::{Table, TableIndex};

/// Rows that are compared with the index together.
const BATCH: usize = 512;

/// An index that updates count in, and the keys it will have.
pub(in crate::table) struct Counted {
    def: IndexDef,
    keys: KeyMaker,
}

/// An index that is being built beside writers.
#[derive(Clone, Default)]
pub(in crate::table) enum Unfinished {
    /// There is none.
    #[default]
    None,
    /// Updates count it in.
    Counted(Arc<Counted>),
    /// The last of the table's indexes.
    Kept,
}

/// The versions that a load of an index missed: those that `now` sees and `before`, the snapshot of
/// the load, does not.
pub struct MissedVersions<'s> {
    /// The end of the log before stage 1. Pages unchanged since then hold no such version.
    pub since: Lsn,
    /// The snapshot of the load.
    pub before: &'s Snapshot,
    /// A snapshot that was taken when writers maintained the index already.
    pub now: &'s Snapshot,
}

impl Table {
    /// Is an index of it being built beside writers?
    pub fn is_being_indexed(&self) -> bool {
        !matches!(self.unfinished, Unfinished::None)
    }

    /// Stage 1: the same table, whose updates count `index` in.
    pub fn counting(&self, index: &IndexDef) -> Arc<Table> {
        let data_version = index.current_data(&self.def);
        let index = IndexDef { data_version, ..index.clone() };
        let counted = Counted { keys: KeyMaker::new(&self.def, &index), def: index };
        self.restaged(self.indexes.clone(), Unfinished::Counted(Arc::new(counted)))
    }

    /// Stage 2: the same table, which keeps `built`, too.
    pub fn keeping(&self, built: &Arc<TableIndex>) -> Arc<Table> {
        assert!(built.def.usable_from == Xid(u64::MAX), "no reader uses it yet");
        let mut indexes = self.indexes.clone();
        indexes.push(Arc::clone(built));
        self.restaged(indexes, Unfinished::Kept)
    }

    fn restaged(&self, indexes: Vec<Arc<TableIndex>>, unfinished: Unfinished) -> Arc<Table> {
        self.redefined(self.def.clone()).with_indexes(indexes, unfinished)
    }

    /// Do entries of an index that is not there yet, but counted in by updates, depend on this
    /// column?
    pub(in crate::table) fn is_counted(&self, no: ColumnNo) -> bool {
        matches!(&self.unfinished, Unfinished::Counted(counted) if counted.def.touches(no))
    }

    /// Would an update from `old` to `new` leave the entry of the index that is being counted in as
    /// it is? A key beyond the limit ends the build, not the update.
    pub(in crate::table) fn same_when_counted(&self, rows: &[Vec<crate::datum::Value>; 2]) -> bool {
        match &self.unfinished {
            Unfinished::Counted(counted) => {
                counted.keys.make(rows).is_ok_and(|made| made.same(0, 1))
            }
            Unfinished::None | Unfinished::Kept => true,
        }
    }

    /// Loads the rows that `snapshot` sees into a new index, which no writer maintains meanwhile.
    pub fn build_beside(
        &self,
        index: &IndexDef,
        snapshot: &Snapshot,
        options: &BuildOptions<'_>,
        go_on: GoOn<'_>,
    ) -> Result<Arc<TableIndex>> {
        let index = IndexDef {
            usable_from: Xid(u64::MAX),
            data_version: index.current_data(&self.def),
            ..index.clone()
        };
        self.load_index(&index, snapshot, Csn(0), options, go_on)
    }

    /// Adds to `index` the entries of the versions that its load missed. Returns how many entries
    /// were missing.
    pub fn catch_up(
        &self,
        txn: &mut Transaction,
        index: &TableIndex,
        missed: &MissedVersions<'_>,
        go_on: GoOn<'_>,
    ) -> Result<u64> {
        let (mut keys, mut rows, mut missing) = (Keys::default(), Vec::new(), 0);
        let &MissedVersions { since, before, now } = missed;
        let unchanged_since = self.def.logged.then_some(since);
        let known = KnownRoots { unchanged_since, before };
        self.heap.visit_roots(now, Some(known), &mut |root, version, bytes| {
            let values = self.read_for(&[index.def()], version, bytes)?;
            index.keys.push(&mut keys, &values)?;
            rows.push(root);
            if rows.len() == BATCH {
                go_on()?;
                missing += self.add_missing(txn, index, &std::mem::take(&mut keys), &rows)?;
                rows.clear();
            }
            Ok(())
        })?;
        Ok(missing + self.add_missing(txn, index, &keys, &rows)?)
    }

    /// Adds the entries that are not there, in the index's order.
    fn add_missing(
        &self,
        txn: &mut Transaction,
        index: &TableIndex,
        keys: &Keys,
        rows: &[RowId],
    ) -> Result<u64> {
        let mut entries = keys.entries(rows);
        index.method.order(&mut entries);
        let mut missing = 0;
        for entry in &entries {
            if !self.has_entry(index, entry)? {
                hit("online.missing");
                self.add_entry(txn, index, entry)?;
                missing += 1;
            }
        }
        Ok(missing)
    }

    fn has_entry(&self, index: &TableIndex, entry: &IndexEntry<'_>) -> Result<bool> {
        let place = index.def.method.place(entry.key);
        let low = [&place[..], &entry.row.to_bytes()[..]].concat();
        let high = Some([&low[..], &[0]].concat());
        let options = ScanOptions { with_dead: true, ..ScanOptions::default() };
        let mut scan = index.method.begin_scan(KeyRange { low, high }, options);
        let (mut batch, clock) = (LeafBatch::default(), self.heap.clock());
        Ok(scan.next_batch(&|| clock.now(), &mut batch)? && !batch.is_empty())
    }

    /// Adds an entry whose row is committed. Another row with the key is a violation only if this
    /// one still counts: its successor may have the key by now.
    fn add_entry(
        &self,
        txn: &mut Transaction,
        index: &TableIndex,
        entry: &IndexEntry<'_>,
    ) -> Result<()> {
        let entries = [*entry];
        let mut group = EntryGroup::new(index, &entries);
        loop {
            let wait = match self.insert_reading(txn, Xid::NONE, &mut group, None)? {
                InsertOutcome::Inserted => return Ok(()),
                InsertOutcome::Wait(_, other) => other,
                InsertOutcome::Duplicate(..) => match self.counts(txn, entry.row)? {
                    Liveness::Live => return Err(index.violation(&self.def.name, entry.key)),
                    Liveness::InProgress(other) => other,
                    Liveness::NeedsRead => continue,
                    Liveness::Dead => {
                        group.unique = false;
                        continue;
                    }
                },
                InsertOutcome::NeedsRow(..) => unreachable!("an attempt reads what it needs"),
            };
            txn.wait_for(wait)?;
        }
    }

    /// What to think of `row` now.
    fn counts(&self, txn: &Transaction, row: RowId) -> Result<Liveness> {
        let _page = self.heap.prepare_liveness(row)?;
        self.heap.liveness(row, &|xid| txn.owns(xid))
    }
}

impl TableIndex {
    /// The same index, finished: for snapshots from `now` on.
    pub fn finished(&self, table: &Table, now: &Snapshot, since: Xid) -> (IndexDef, Arc<Self>) {
        let def = IndexDef { usable_from: since, ..self.def.clone() };
        let index = self.redefined(&table.def, &def, now.csn());
        (def, index)
    }

    /// Is this the last handle of it?
    pub fn is_forgotten(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && Arc::strong_count(&self.method) == 1
    }
}

/// The rule is broken where a test wants to see what it is for.
pub(crate) fn forgets_to_wait(stage: u8) -> bool {
    match stage {
        1 => broken(Broken::OnlineBuildSkipsFirstWait),
        _ => broken(Broken::OnlineBuildSkipsSecondWait),
    }
}
