//! An index cursor: walks the leaves of an index and yields the entries that a scan wants.
//!
//! As in nbtree, the matches of a leaf are copied under its latch ([`IndexLeaf`], after
//! `BTScanPosData`), and the leaf is neither latched nor pinned afterwards. An [`IndexPosition`]
//! names an entry of a copied leaf, for a mark or for a dead mark. nbtree keeps one copy a scan.
//! Here several leaves are in use at a time, because heap blocks are read ahead over the ends of
//! leaves, so they are shared.
//!
//! Invariants: the recycle clock is read before the leaf (R3). A dead mark rests on the heap, which
//! vouches that the row is dead to everyone (R1), and on the clock, which is asked again under the
//! leaf's latch. A leaf's copy takes memory of the budget. Where that has none, only a few entries
//! are copied and the scan reads the leaf again for the others.
//! Does not do: read the heap; decode keys (`index_only`).

use std::ops::Range;

use rightlink_env::points::broken;
use rightlink_env::sync::Arc;
use rightlink_env::{Broken, Reservation};

#[cfg(feature = "experiments")]
use crate::buffer::{Pin, own_changes};
use crate::error::{ConflictKind, Error, Result};
use crate::ids::RowId;
use crate::index::am::{BatchEntry, IndexScan, LeafBatch, ScanOptions};
use crate::index::{DeadMarks, Direction, KeyRange};
#[cfg(feature = "experiments")]
use crate::txn::DeadHints;
use crate::txn::Snapshot;

use crate::table::read::bounds::{Checker, Search};
use crate::table::read::row_fetcher::WantedRows;
use crate::table::{Table, TableIndex};

/// A leaf's matches of so many bytes need no reservation.
const FREE_BYTES: usize = 1 << 10;
/// So many entries are copied where the budget has no room for a leaf's.
const FEW_ENTRIES: usize = 16;

/// The matches of one leaf.
pub(super) struct IndexLeaf {
    pub(super) batch: LeafBatch,
    direction: Direction,
    /// What the budget gave for the batch; none if it had nothing: then the entries are few.
    pub(super) memory: Option<Reservation>,
    /// The pin of a policy that holds the leaf until its entries are marked.
    #[cfg(feature = "experiments")]
    _pin: Option<Pin>,
}

/// An entry of a leaf.
#[derive(Clone)]
pub(super) struct IndexPosition {
    pub(super) leaf: Arc<IndexLeaf>,
    pub(super) at: usize,
}

/// The wanted entries of an index, and the direction in which they are read.
#[derive(Clone)]
pub(super) struct IndexSearch {
    pub(super) table: Arc<Table>,
    pub(super) index: Arc<TableIndex>,
    pub(super) search: Arc<Search>,
    pub(super) direction: Direction,
    /// Rows that the caller expects to take; 0: nothing is known.
    pub(super) expected: u32,
}

/// A walk over the leaves with wanted entries.
pub(super) struct IndexCursor {
    pub(super) of: IndexSearch,
    scan: Box<dyn IndexScan>,
    /// The leaf whose entries are taken, and those that are left.
    pub(super) leaf: Option<Arc<IndexLeaf>>,
    pub(super) rest: Range<usize>,
    /// The scan has turned: the entries that are left are taken from the back.
    pub(super) backward: bool,
}

impl IndexLeaf {
    pub(super) fn entry(&self, at: usize) -> &BatchEntry {
        &self.batch.entries[at]
    }
}

impl WantedRows for Arc<IndexLeaf> {
    fn row_id(&self, at: usize) -> RowId {
        self.entry(at).row
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }
}

impl IndexPosition {
    pub(super) fn row_id(&self) -> RowId {
        self.leaf.entry(self.at).row
    }

    /// Key of the entry.
    pub(super) fn key(&self) -> &[u8] {
        self.leaf.batch.key(self.at)
    }
}

impl IndexSearch {
    /// The entries of `index` that `search` wants, for a reader with `snapshot`.
    pub(super) fn new(
        table: &Arc<Table>,
        snapshot: &Snapshot,
        index: &Arc<TableIndex>,
        search: Search,
        direction: Direction,
    ) -> Result<Self> {
        check_usable(index, snapshot)?;
        if direction == Direction::Backward && !index.def.method.is_ordered() {
            return Err(checker(table, index).unordered("an order"));
        }
        let (table, index) = (Arc::clone(table), Arc::clone(index));
        Ok(Self { table, index, search: Arc::new(search), direction, expected: 0 })
    }

    /// A walk from the start.
    pub(super) fn begin(&self) -> IndexCursor {
        self.begin_in(self.search.range.clone())
    }

    fn begin_in(&self, range: KeyRange) -> IndexCursor {
        let Self { direction, expected, .. } = *self;
        let options = ScanOptions { direction, expected, ..ScanOptions::default() };
        let scan = match &self.search.keys {
            None => self.index.method.begin_scan(range, options),
            Some(keys) => self.index.method.begin_scan_of(range, Arc::clone(keys), options),
        };
        IndexCursor { of: self.clone(), scan, leaf: None, rest: 0..0, backward: false }
    }

    /// A walk that goes on at `position`, that entry included or not. The entries of that leaf come
    /// from its copy, and the walk goes on beyond the leaf's fences (R5).
    pub(super) fn go_on_at(&self, position: IndexPosition, included: Inclusion) -> IndexCursor {
        let IndexPosition { leaf, at } = position;
        let mut cursor = self.begin_in(leaf.batch.beyond(&self.search.range, self.direction));
        let again = included == Inclusion::Included;
        cursor.backward = leaf.direction != self.direction;
        cursor.rest = match cursor.backward {
            true => 0..at + usize::from(again),
            false => at + usize::from(!again)..leaf.batch.len(),
        };
        cursor.leaf = Some(leaf);
        cursor
    }
}

impl IndexCursor {
    /// The matches of the next leaf; none at the end.
    pub(super) fn next_leaf(&mut self) -> Result<Option<Arc<IndexLeaf>>> {
        let mut batch = LeafBatch::default();
        let clock = self.of.table.heap.clock();
        if !self.scan.next_batch(&|| clock.now(), &mut batch)? {
            return Ok(None);
        }
        let memory = reserve(&self.of.table, self.scan.as_mut(), &mut batch);
        Ok(Some(Arc::new(IndexLeaf {
            #[cfg(feature = "experiments")]
            _pin: follow_policy(&self.of.table, &batch),
            batch,
            direction: self.of.direction,
            memory,
        })))
    }

    /// Goes on to the entries of the next leaf; false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        self.leaf = self.next_leaf()?;
        (self.rest, self.backward) = (0..self.leaf.as_ref().map_or(0, |it| it.batch.len()), false);
        Ok(self.leaf.is_some())
    }
}

/// Whether a walk that goes on at an entry yields that entry again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inclusion {
    Included,
    Excluded,
}

/// Reserves memory for `batch`. Where there is none, most of the batch goes back to the scan, to be
/// read again later.
fn reserve(table: &Table, scan: &mut dyn IndexScan, batch: &mut LeafBatch) -> Option<Reservation> {
    let budget = table.pool.scan_budget();
    if batch.memory() <= FREE_BYTES {
        return budget.try_reserve(0);
    }
    batch.shrink_to_fit();
    let memory = budget.try_reserve(batch.memory());
    if memory.is_none() && batch.len() > FEW_ENTRIES {
        scan.hand_back(batch, FEW_ENTRIES);
    }
    memory
}

/// Does what the policy for dead entries asks for when a leaf was read.
#[cfg(feature = "experiments")]
fn follow_policy(table: &Table, batch: &LeafBatch) -> Option<Pin> {
    let hints = table.txns.dead_hints();
    own_changes::keep(hints == DeadHints::SavedLsn);
    (hints == DeadHints::PinHeld).then(|| table.pool.try_pin(batch.leaf)).flatten()
}

/// Fails where `snapshot` must not read by `index` (R10).
pub(super) fn check_usable(index: &TableIndex, snapshot: &Snapshot) -> Result<()> {
    index.keys.check()?;
    if index.is_usable(snapshot) {
        return Ok(());
    }
    let what = format!("index {} is newer than the snapshot", index.def.name);
    Err(Error::Conflict { kind: ConflictKind::Serialization, what })
}

/// Checks bounds on `index` of `table`.
pub(in crate::table) fn checker<'a>(table: &'a Table, index: &'a TableIndex) -> Checker<'a> {
    Checker { def: &table.def, index: &index.def, columns: index.keys.columns() }
}

/// Entries whose rows are dead to everyone, by leaf: marked when the scan leaves those leaves, as
/// `_bt_killitems` does.
#[derive(Default)]
pub(super) struct DeadEntries {
    leaves: Vec<(Arc<IndexLeaf>, Vec<usize>)>,
}

impl DeadEntries {
    /// Are there dead entries of so many leaves, and is `leaf` none of them?
    pub(super) fn are_of(&self, leaves: usize, leaf: &Arc<IndexLeaf>) -> bool {
        self.leaves.len() >= leaves && !self.leaves.iter().any(|(it, _)| Arc::ptr_eq(it, leaf))
    }

    pub(super) fn add(&mut self, leaf: &Arc<IndexLeaf>, at: usize) {
        let mut leaves = self.leaves.iter_mut().rev();
        match leaves.find(|(known, _)| Arc::ptr_eq(known, leaf)) {
            Some((_, positions)) => positions.push(at),
            None => self.leaves.push((Arc::clone(leaf), vec![at])),
        }
    }

    /// Has the entries marked dead, as far as rules and settings allow, and forgets them.
    pub(super) fn mark(&mut self, of: &IndexSearch) {
        let IndexSearch { table, index, .. } = of;
        for (leaf, positions) in std::mem::take(&mut self.leaves) {
            let hints = table.txns.dead_hints();
            assert!(!positions.is_empty(), "a leaf is kept for its dead entries");
            if !hints.marks_entries() {
                continue;
            }
            let (clock, sample) = (table.heap.clock(), leaf.batch.sample);
            let mut reused = 0;
            let mut check = |row: RowId| {
                let newer = clock.newer_than(row.block, sample);
                reused += u64::from(newer);
                !newer || broken(Broken::DeadMarkWithoutClock)
            };
            let unchanged = hints.needs_unchanged_leaf();
            let marks = index.method.mark_dead(&leaf.batch, &positions, unchanged, &mut check);
            index.count_marks(DeadMarks { reused, ..marks });
        }
    }
}
