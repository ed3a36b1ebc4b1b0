//! The access-method interface: what a table asks of any index, in batches.
//!
//! Keys are encoded bytes without the row id (`keycode`), prefix-free, so that a method may append
//! the row id and compare bytes. A scan hands over one [`LeafBatch`] after another and keeps
//! neither pin nor latch between them. The caller decides when heap rows are fetched and when a
//! batch is done.
//!
//! Invariants: a method calls the heap only through [`HeapOracle`] and [`DeadRows`]. It never waits
//! for a transaction: the outcome names the transaction and how many entries are in. Nothing here
//! is particular to one method. Each has an order of its own, in which ranges and places are given.
//! Does not do: visibility, catalog, choice of an index.
//! PostgreSQL: `IndexAmRoutine`.

use std::ops::Range;

use rightlink_env::sync::{Arc, OnceLock};

use crate::buffer::{BufferPool, Pin};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{PageId, RowId, Xid};
use crate::index::MAX_ENTRY_BYTES;
use crate::index::dead_marks::{DeadMarks, LeafMarks, mark_leaves};
pub use crate::index::leaf_batch::{BatchEntry, FEW, Few, LeafBatch};
use crate::index::search_key::{Direction, KeyRange, KeySet};
use crate::page::{Checked, PageFinding};

/// Access method of an index. The discriminant is on disk.
///
/// ```
/// use rightlink::{IndexMethod, IndexSchema, TableSchema, Type, Value};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// let by_mail = IndexSchema::new("by_mail").on("mail").method(IndexMethod::Hash);
/// txn.create_table(&TableSchema::new("users").column("mail", Type::Text).index(by_mail))?;
/// let mail = [Value::Text("a@example.org".into())];
/// txn.insert("users", &mail)?;
/// assert!(txn.get_by("users", "by_mail", &mail)?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[repr(u8)]
pub enum IndexMethod {
    /// A B-link tree finds any range of keys, in their order.
    #[default]
    BTree = 1,
    /// A hash index finds whole keys only, in no order.
    Hash = 2,
}

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
    /// The row replaces a version with the same key in the index. Another writer of the key meets
    /// that version and waits, so uniqueness is not checked (R8).
    pub kept: bool,
    /// The row replaces a version, of which the entry is removed when no snapshot sees it any more.
    /// So the index should not grow for this entry.
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

/// Refuses entries that are too long for any method.
pub(crate) fn check_entry_sizes(entries: &[IndexEntry<'_>]) -> Result<()> {
    let sizes = entries.iter().map(|entry| entry.key.len() + entry.payload.len());
    let Some(bytes) = sizes.max().filter(|bytes| *bytes > MAX_ENTRY_BYTES) else { return Ok(()) };
    Err(Error::RowTooLarge(format!("index entry of {bytes} bytes, at most {MAX_ENTRY_BYTES}")))
}

/// What the heap can say about a row without reading a page from disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liveness {
    /// No version of it is or can become visible to a transaction that could conflict.
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

/// The outcome for an entry that was to be removed.
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
    /// Says in `out` (equally long) which of `rows` no snapshot sees, now or later. Cheapest where
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
    /// Entries that the caller expects to take; 0: nothing is known.
    pub expected: u32,
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

/// The clock that a scan reads before a leaf; the batch keeps the result (R3).
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

/// A link between two pages of an index, as it was when the method followed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLink {
    /// Block of the page that has the link.
    pub block: u32,
    /// Version of that page in memory. No other state of the page has it, however often the page
    /// is read anew.
    pub version: u64,
    /// Position of the link on the page.
    pub position: u32,
}

/// Entries of a batch that belong on one page, as far as the method can tell without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The page; a guess, until it is latched.
    pub page: PageId,
    /// The link that named it, if that says more about the entries than the page does.
    pub link: Option<PageLink>,
    /// Which entries of the batch.
    pub entries: Range<usize>,
}

/// The page that [`AccessMethod::groups`] named for a group, in memory.
pub struct NamedPage {
    /// The page.
    pub pin: Pin,
    /// The link of the group.
    pub link: Option<PageLink>,
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

/// The callback of a pass between pages, with nothing latched. It gets the number of blocks done
/// since the last call. An error ends the part that called.
pub type Between<'a> = &'a mut dyn FnMut(u32) -> Result<()>;

/// A pass over an index that removes the entries of dead rows, in parts that several threads may do
/// at once. A pass that is dropped before its end leaves a sound index, and another pass finds the
/// rest.
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

    /// Inserts the entries of a group, or the last ones of it, as `xid`. `page` is that of the
    /// group, if it is at hand. With `unique`, an entry that is checked goes in only if every row
    /// with an equal key is dead to it (R8). An entry that is there already is left alone and
    /// counts as inserted.
    fn insert_group(
        &self,
        xid: Xid,
        entries: &[IndexEntry<'_>],
        unique: Option<&dyn HeapOracle>,
        page: Option<NamedPage>,
    ) -> Result<InsertOutcome>;

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
    /// Entries marked dead are left out. A caller that needs the clock of R3 reads it before.
    fn lookup(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, RowId, &[u8])) -> Result<()>;

    /// The rows of one whole encoded key, if they are few and can be told at once: for reads of
    /// single rows. Entries marked dead are left out.
    /// `None`: a scan must look for them.
    fn few(&self, key: &[u8]) -> Result<Option<Few>> {
        let _ = key;
        Ok(None)
    }

    /// Marks entries of `batch` dead (R1, R3): each is looked up again by key and row id, and
    /// `check` is asked under the latch. Reads nothing; with `only_unchanged` it gives up if the
    /// leaf was changed since the batch was read. The caller holds no latch.
    fn mark_dead(
        &self,
        batch: &LeafBatch,
        positions: &[usize],
        only_unchanged: bool,
        check: &mut dyn FnMut(RowId) -> bool,
    ) -> DeadMarks {
        let place = |at: &usize| {
            let mut place = self.method().place(batch.key(*at));
            place.extend(batch.entries[*at].row.to_bytes());
            place
        };
        let places = positions.iter().map(place).collect();
        mark_leaves(self.pool(), batch, places, only_unchanged, |leaf, places| {
            self.plan_marks(leaf, places, check)
        })
    }

    /// Removes those of `places` (key and row id in the method's order, ascending) that belong on
    /// the leaf, and returns their marks, if `check` admits the row. The page may be any by now.
    fn plan_marks(
        &self,
        leaf: &[u8; PAGE_SIZE],
        places: &mut Vec<Vec<u8>>,
        check: &mut dyn FnMut(RowId) -> bool,
    ) -> Checked<LeafMarks>;

    /// The pool that the pages are in.
    fn pool(&self) -> &BufferPool;

    /// The heap that the entries point to, once it is attached.
    fn heap(&self) -> &OnceLock<Arc<dyn DeadRows>>;

    /// Tells the method which heap its entries point to: when a page is full, it may ask which of
    /// their rows are dead. An index that is reopened with a changed definition keeps its heap.
    fn attach(&self, heap: Arc<dyn DeadRows>) {
        self.heap().get_or_init(|| heap);
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
        report: &mut dyn FnMut(PageFinding),
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
