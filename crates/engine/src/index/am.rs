//! The access-method interface: what a table asks of any index, in batches.
//!
//! Keys are encoded bytes without the row id (`keycode`), prefix-free, so that a method may append
//! the row id and compare bytes. A scan hands over one [`LeafBatch`] after another and keeps
//! neither pin nor latch between them; the caller decides when heap rows are fetched and when a
//! batch is done.
//!
//! Invariants: a method never calls the heap but through [`HeapOracle`], and never waits for a
//! transaction: it reports whom to wait for and how far it came. Nothing here is particular to one
//! method; each has an order of its own, in which ranges and positions are given.
//! Does not do: visibility, catalog, choice of an index.

use std::ops::Range;

use rightlink_env::sync::Arc;

use crate::buffer::Pin;
use crate::error::Result;
use crate::ids::{Lsn, PageId, RowId, Xid};
use crate::index::IndexMethod;
use crate::index::search_key::{Direction, KeyRange, KeySet};

/// An entry to insert, delete or build from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    /// Encoded key, prefix-free, without the row id.
    pub key: &'a [u8],
    /// The row.
    pub row: RowId,
    /// Included columns, opaque.
    pub payload: &'a [u8],
    /// Takes no part in uniqueness (a NULL in the key, nulls being distinct).
    pub exempt: bool,
    /// The version that this row takes the place of has the same key in the index, and its end is
    /// under way: who wants the key meets that one and waits, so nobody else has it (R8), and
    /// nothing is asked.
    pub kept: bool,
    /// The row takes the place of a version: an entry goes when nobody sees that one any more, so
    /// the index is not to become larger for this one if it can be helped.
    pub replaces: bool,
}

impl<'a> IndexEntry<'a> {
    /// An entry of a new row, without payload, that takes part in uniqueness.
    pub fn new(key: &'a [u8], row: RowId) -> Self {
        Self { key, row, payload: &[], exempt: false, kept: false, replaces: false }
    }

    /// Must a unique index know that no other row has the key?
    pub fn is_checked(&self) -> bool {
        !self.exempt && !self.kept
    }
}

/// What the heap can say about a row without reading a page from disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liveness {
    /// No version of it is or can become visible to anyone who could conflict.
    Dead,
    /// It counts.
    Live,
    /// That depends on a running transaction.
    InProgress(Xid),
    /// Its page is not in memory.
    NeedsRead,
}

/// The heap, as a method that checks uniqueness sees it. Called under a latch: no I/O, no waiting.
pub trait HeapOracle {
    /// State of each row, in `out` (equally long).
    fn liveness(&self, rows: &[RowId], out: &mut [Liveness]);
}

/// What became of an entry that was to be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trace {
    /// It may still be there.
    Unknown,
    /// There was none with this key and row id.
    Absent,
    /// It was there and is removed.
    Removed,
}

/// The heap, as a method that makes room on a page asks it. Called under a latch: no I/O, no
/// waiting.
pub trait DeadRows: Send + Sync {
    /// Which of `rows` nobody sees any more, now or later, in `out` (equally long). Cheapest where
    /// rows of one block are next to each other.
    fn dead_to_all(&self, rows: &[RowId], out: &mut [bool]);
}

/// Rows that the heap is asked about at once.
const ASK: usize = 16;

/// What the heap says about the other `rows` with the key of the entry at position `at`; `None`:
/// all are dead.
pub fn ask(rows: &[RowId], at: usize, oracle: &dyn HeapOracle) -> Option<InsertOutcome> {
    let mut waits = None;
    for rows in rows.chunks(ASK) {
        let mut states = [Liveness::NeedsRead; ASK];
        let states = &mut states[..rows.len()];
        oracle.liveness(rows, states);
        for (row, state) in rows.iter().zip(&*states) {
            let outcome = match state {
                Liveness::Dead => continue,
                Liveness::Live => return Some(InsertOutcome::Duplicate(at, *row)),
                Liveness::InProgress(xid) => InsertOutcome::Wait(at, *xid),
                Liveness::NeedsRead => InsertOutcome::NeedsRow(at, *row),
            };
            waits.get_or_insert(outcome);
        }
    }
    waits
}

/// Why a batch of insertions stopped. Positions count in the order the method left the entries in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InsertOutcome {
    /// All entries are in.
    Inserted,
    /// A live row has the key of the entry at this position.
    Duplicate(usize, RowId),
    /// Whether the entry at this position may go in depends on this transaction.
    Wait(usize, Xid),
    /// The heap page of this row must be read before the entry at this position can be judged.
    NeedsRow(usize, RowId),
}

impl InsertOutcome {
    /// How many of `total` entries are in: go on from there.
    pub fn inserted(&self, total: usize) -> usize {
        match self {
            InsertOutcome::Inserted => total,
            InsertOutcome::Duplicate(at, _)
            | InsertOutcome::Wait(at, _)
            | InsertOutcome::NeedsRow(at, _) => *at,
        }
    }
}

/// How to scan.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScanOptions {
    /// Order of the entries.
    pub direction: Direction,
    /// Hand over entries that are marked dead, too.
    pub with_dead: bool,
}

/// One entry of a [`LeafBatch`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchEntry {
    /// The row.
    pub row: RowId,
    /// The key may not fit the bounds: check the row.
    pub recheck: bool,
    key_at: u32,
    key_len: u16,
    payload_len: u16,
}

/// The matches of one leaf, copied out, in scan order.
#[derive(Clone, Debug, Default)]
pub struct LeafBatch {
    /// Where they were.
    pub leaf: PageId,
    /// What the clock closure said before the leaf was read (R3).
    pub sample: u64,
    /// LSN of the leaf when it was read.
    pub lsn: Lsn,
    /// The entries.
    pub entries: Vec<BatchEntry>,
    /// Of a method that orders by distance: the distance of each entry, ascending.
    pub orders: Vec<f64>,
    /// Where the leaf begins and ends in the method's order: a scan that turns round, or comes back
    /// later, goes on beyond (R5).
    fences: KeyRange,
    bytes: Vec<u8>,
}

impl LeafBatch {
    /// Empties the batch for another leaf, keeping its memory.
    pub fn reset(&mut self, leaf: PageId, sample: u64) {
        self.leaf = leaf;
        self.sample = sample;
        self.lsn = Lsn(0);
        self.entries.clear();
        self.orders.clear();
        self.bytes.clear();
    }

    /// The part of the order that the batch stands for: what of `range` is between the fences of
    /// the leaf.
    pub fn set_fences(&mut self, range: &KeyRange, low: &[u8], high: Option<&[u8]>) {
        self.fences.low.clear();
        self.fences.low.extend_from_slice(low.max(&range.low));
        let ends = [high, range.high.as_deref()];
        self.fences.high = ends.into_iter().flatten().min().map(<[u8]>::to_vec);
    }

    /// What of `range` lies beyond this leaf in `direction`.
    pub fn beyond(&self, range: &KeyRange, direction: Direction) -> KeyRange {
        match (direction, &self.fences.high) {
            (Direction::Forward, Some(high)) => {
                KeyRange { low: high.max(&range.low).clone(), high: range.high.clone() }
            }
            (Direction::Forward, None) => KeyRange::none(),
            (Direction::Backward, _) => {
                let (end, low) = (range.high.as_ref(), &self.fences.low);
                let high = end.map_or(low, |end| end.min(low)).clone();
                KeyRange { low: range.low.clone(), high: Some(high) }
            }
        }
    }

    /// Appends an entry.
    pub fn push(&mut self, key: &[u8], row: RowId, payload: &[u8]) {
        assert!(key.len() <= usize::from(u16::MAX) && payload.len() <= usize::from(u16::MAX));
        let (key_at, key_len) = (self.bytes.len() as u32, key.len() as u16);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(payload);
        let payload_len = payload.len() as u16;
        self.entries.push(BatchEntry { row, recheck: false, key_at, key_len, payload_len });
    }

    /// Appends an entry whose key `write` appends to what it is given; it returns the row and the
    /// payload.
    #[inline]
    pub fn push_with<'p, E>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> std::result::Result<(RowId, &'p [u8]), E>,
    ) -> std::result::Result<(), E> {
        let key_at = self.bytes.len();
        let (row, payload) = write(&mut self.bytes)?;
        let key_len = self.bytes.len() - key_at;
        assert!(key_len <= usize::from(u16::MAX) && payload.len() <= usize::from(u16::MAX));
        if !payload.is_empty() {
            self.bytes.extend_from_slice(payload);
        }
        let (key_at, key_len, payload_len) = (key_at as u32, key_len as u16, payload.len() as u16);
        self.entries.push(BatchEntry { row, recheck: false, key_at, key_len, payload_len });
        Ok(())
    }

    /// Appends another row under the key of the last entry, without payload.
    pub fn push_row(&mut self, row: RowId) {
        let last = *self.entries.last().expect("a row follows the first one of its key");
        self.entries.push(BatchEntry { row, payload_len: 0, ..last });
    }

    /// Forgets all but the first `keep` entries, which go up to `end` (where `direction` leads) in
    /// the method's order, and gives the memory of the others back.
    pub fn cut(&mut self, keep: usize, end: Vec<u8>, direction: Direction) {
        assert!(keep > 0 && keep < self.len(), "a part of the batch is kept");
        match direction {
            Direction::Forward => self.fences.high = Some(end),
            Direction::Backward => self.fences.low = end,
        }
        let used = |entry: &BatchEntry| {
            entry.key_at as usize + usize::from(entry.key_len) + usize::from(entry.payload_len)
        };
        self.entries.truncate(keep);
        self.orders.truncate(keep);
        self.bytes.truncate(self.entries.iter().map(used).max().unwrap_or(0));
        self.shrink_to_fit();
    }

    /// Gives back memory that is not used.
    pub fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
        self.orders.shrink_to_fit();
        self.bytes.shrink_to_fit();
    }

    /// Bytes that the batch takes in memory.
    pub fn memory(&self) -> usize {
        let fences =
            self.fences.low.capacity() + self.fences.high.as_ref().map_or(0, Vec::capacity);
        let entries = self.entries.capacity() * size_of::<BatchEntry>();
        entries + self.orders.capacity() * size_of::<f64>() + self.bytes.capacity() + fences
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Has the batch no entry?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Encoded key of entry `i`, without the row id.
    pub fn key(&self, i: usize) -> &[u8] {
        let entry = &self.entries[i];
        &self.bytes[entry.key_at as usize..][..usize::from(entry.key_len)]
    }

    /// Payload of entry `i`.
    pub fn payload(&self, i: usize) -> &[u8] {
        let entry = &self.entries[i];
        let at = entry.key_at as usize + usize::from(entry.key_len);
        &self.bytes[at..][..usize::from(entry.payload_len)]
    }
}

/// Most rows that a single read of one key takes: with the versions that a row leaves behind while
/// it is written all the time and snapshots lag, but not what is better read ahead.
pub const FEW: usize = 128;
/// As many need no memory of their own.
const FEWER: usize = 4;

/// The rows of one key, in the method's order: few.
#[derive(Clone, Debug, Default)]
pub struct Few {
    first: [RowId; FEWER],
    len: usize,
    /// All of them, once they are more than `first` takes.
    all: Vec<RowId>,
}

impl Few {
    /// Adds a row; false if they are no longer few.
    pub fn push(&mut self, row: RowId) -> bool {
        match self.len {
            FEW => return false,
            len if len < FEWER => self.first[len] = row,
            len => {
                if len == FEWER {
                    self.all.extend(self.first);
                }
                self.all.push(row);
            }
        }
        self.len += 1;
        true
    }

    /// The rows.
    pub fn rows(&self) -> &[RowId] {
        if self.len <= FEWER { &self.first[..self.len] } else { &self.all }
    }
}

/// What a pass over an index removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VacuumStats {
    /// Blocks of the index when the pass ended.
    pub blocks: u32,
    /// Entries that stay: with writers beside the pass a guess, since entries that a split or merge
    /// moves meanwhile may be counted where they were and where they are.
    pub live: u64,
    /// Entries removed.
    pub removed: u64,
    /// Pages that lost entries.
    pub pages_changed: u32,
    /// Pages emptied into a neighbour and unlinked.
    pub pages_deleted: u32,
    /// Free pages that can be or soon will be used again.
    pub pages_free: u32,
}

/// One finding of `verify`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub page: PageId,
    /// Which check failed (`B1` ..).
    pub check: &'static str,
    /// What it means.
    pub what: String,
}

/// What a scan calls before it reads a leaf; the result is kept in the batch (R3).
pub type Clock<'a> = &'a dyn Fn() -> u64;

/// A scan in progress: owned, `Send`, without pin or latch between calls.
pub trait IndexScan: Send {
    /// The next leaf's matches, in `batch`; false when there are none left. May skip leaves without
    /// a match.
    fn next_batch(&mut self, clock: Clock<'_>, batch: &mut LeafBatch) -> Result<bool>;

    /// Keeps the first `keep` (at least one) entries of `batch`, the one handed over last; the
    /// others come again with the next one. For callers who cannot afford to hold so many.
    fn hand_back(&mut self, batch: &mut LeafBatch, keep: usize);

    /// Scans `range` from now on. Cheaper than another scan where the range begins near the place
    /// that the scan is at.
    fn restart(&mut self, range: KeyRange);
}

/// Entries of a batch that belong on one page, as far as the method can tell without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The page; a guess, until it is latched.
    pub page: PageId,
    /// Which entries of the batch.
    pub entries: Range<usize>,
}

/// The groups of a batch, in its order and without gaps, named when they are asked for.
pub type Groups<'a> = Box<dyn Iterator<Item = Result<Group>> + Send + 'a>;

/// An index being built from entries that come in the method's order.
pub trait IndexBuilder {
    /// The next entry, beyond the one before.
    ///
    /// # Panics
    /// If it is not.
    fn push(&mut self, entry: &IndexEntry<'_>) -> Result<()>;

    /// Writes what is left, syncs, publishes, and opens the index.
    fn finish(self: Box<Self>) -> Result<Arc<dyn AccessMethod>>;
}

/// Asks which rows of a page are dead. Called under a latch: no I/O, no waiting.
pub type IsDead<'a> = &'a mut dyn FnMut(&[RowId], &mut [bool]);

/// What a pass calls between pages, with nothing latched, and with the number of blocks that it did
/// since the last call. An error ends the part that called.
pub type Between<'a> = &'a mut dyn FnMut(u32) -> Result<()>;

/// A pass over an index that removes the entries of dead rows, in parts that several threads may do
/// at once. One that is dropped before its end leaves a sound index: what it removed is gone, and
/// another pass finds the rest.
pub trait BulkDelete: Sync {
    /// How many parts there are, at least one.
    fn parts(&self) -> usize;

    /// Does part `part`: removes the entries of every row there that `is_dead`.
    fn run(&self, part: usize, is_dead: IsDead<'_>, between: Between<'_>) -> Result<()>;

    /// Gives back what all parts left empty or sparse. Once, when every part has been done.
    fn finish(&self, between: Between<'_>) -> Result<VacuumStats>;
}

/// An index of some method.
pub trait AccessMethod: Send + Sync {
    /// Which method.
    fn method(&self) -> IndexMethod;

    /// Puts entries into the order in which they are best inserted.
    fn order(&self, entries: &mut [IndexEntry<'_>]);

    /// Where `entries`, which are in the method's order, will go. With `unique`, uniqueness will be
    /// asked for. Reads what names the pages (inner pages, a directory), never those themselves.
    fn groups<'a>(&'a self, entries: &'a [IndexEntry<'a>], unique: bool) -> Groups<'a>;

    /// Like [`AccessMethod::insert_batch`], for entries that are in the method's order already, and
    /// with the page that [`AccessMethod::groups`] named for the first of them, if it is at hand.
    fn insert_group(
        &self,
        xid: Xid,
        entries: &[IndexEntry<'_>],
        unique: Option<&dyn HeapOracle>,
        page: Option<Pin>,
    ) -> Result<InsertOutcome>;

    /// Inserts `entries`, which the method may put in another order, as `xid`. With `unique`, an
    /// entry that is checked goes in only if every row with an equal key is dead to it (R8). An
    /// entry that is there already is left alone and counts as inserted.
    fn insert_batch(
        &self,
        xid: Xid,
        entries: &mut [IndexEntry<'_>],
        unique: Option<&dyn HeapOracle>,
    ) -> Result<InsertOutcome> {
        self.order(entries);
        self.insert_group(xid, entries, unique, None)
    }

    /// Leaves out the parts of the method that have these names from now on, and uses all others,
    /// for experiments. False if it has no part of such a name; then nothing changes.
    #[cfg(feature = "experiments")]
    fn leave_out(&self, names: &[&str]) -> bool {
        names.is_empty()
    }

    /// Starts a scan of `range`, which is in the method's order ([`IndexMethod::place`]): forward
    /// only, unless the method is ordered.
    fn begin_scan(&self, range: KeyRange, options: ScanOptions) -> Box<dyn IndexScan>;

    /// Starts a scan of the keys of `range` that are in `keys`. A method in the order of keys skips
    /// what lies between them where that pays; one that is not goes from key to key of a list.
    fn begin_scan_of(
        &self,
        range: KeyRange,
        keys: Arc<KeySet>,
        options: ScanOptions,
    ) -> Box<dyn IndexScan>;

    /// Finds the entries of each of `keys`, which ascend and are whole encoded keys: calls `found`
    /// with the position of the key, the row and the payload, under a latch (no I/O, no waiting).
    /// Entries marked dead are left out. Who heeds R3 asks the clock before.
    fn lookup(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, RowId, &[u8])) -> Result<()>;

    /// The rows of one whole encoded key, if they are few and can be told at once: for reads of
    /// single rows. Entries marked dead are left out, and none of the others needs a recheck.
    /// `None`: a scan must look for them.
    fn few(&self, key: &[u8]) -> Result<Option<Few>> {
        let _ = key;
        Ok(None)
    }

    /// Marks entries of `batch` dead (R1, R3): each is looked up again by key and row id, and
    /// `check` is asked under the latch. Gives up rather than wait or read, and with
    /// `only_unchanged` also if the leaf was changed since the batch was read. Returns how many it
    /// marked.
    fn mark_dead(
        &self,
        batch: &LeafBatch,
        positions: &[usize],
        only_unchanged: bool,
        check: &mut dyn FnMut(RowId) -> bool,
    ) -> usize;

    /// Tells the method which heap its entries point to: when a page is full, it may ask which of
    /// their rows are dead. Once, before the first insertion.
    fn attach(&self, heap: Arc<dyn DeadRows>) {
        let _ = heap;
    }

    /// Removes the entries of rows that are dead to everyone, which are in the method's order; each
    /// is found by key and row id, and `check` is asked under the latch (R3). Logged, so that it
    /// needs no durable commit (R1). Says in `traces` (equally long, [`Trace::Unknown`] before)
    /// what became of each. Pages that are not in memory are read only if `reads`. Returns how many
    /// entries it removed.
    fn remove_dead(
        &self,
        entries: &[IndexEntry<'_>],
        reads: bool,
        check: &mut dyn FnMut(RowId) -> bool,
        traces: &mut [Trace],
    ) -> Result<u64>;

    /// Removes one entry; false if it is not there.
    fn delete(&self, xid: Xid, entry: &IndexEntry<'_>) -> Result<bool>;

    /// Begins a pass that removes the entries of dead rows, in at most `parts` parts. One pass at a
    /// time: waits for the end of another.
    fn begin_delete(&self, parts: usize) -> Box<dyn BulkDelete + '_>;

    /// Removes every entry whose row `is_dead`, asked leaf by leaf, and gives back empty pages.
    fn bulk_delete(&self, is_dead: IsDead<'_>) -> Result<VacuumStats> {
        let pass = self.begin_delete(1);
        pass.run(0, is_dead, &mut |_| Ok(()))?;
        pass.finish(&mut |_| Ok(()))
    }

    /// Checks the structure, with writers running or not, and reports each finding. With `oracle`,
    /// also that no two live rows share a key.
    fn verify(
        &self,
        oracle: Option<&dyn HeapOracle>,
        report: &mut dyn FnMut(Finding),
    ) -> Result<VerifyStats>;
}

/// What `verify` walked over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerifyStats {
    /// Levels, the leaves' included.
    pub levels: u32,
    /// Leaves.
    pub leaves: u64,
    /// Inner pages.
    pub inner: u64,
    /// Free and never used blocks.
    pub free: u64,
    /// Entries not marked dead.
    pub live: u64,
    /// Entries marked dead.
    pub dead: u64,
    /// Bytes used on leaves, of their size.
    pub leaf_fill: f64,
    /// Bytes of leaves per entry.
    pub bytes_per_entry: f64,
}
