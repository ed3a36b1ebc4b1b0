//! Insertion of the index entries of a statement into all indexes of the table.
//!
//! 1. Each index gets one batch, which its method sorts and cuts into groups: the entries of one
//!    leaf. A group names its leaf from the inner pages alone. The name is a guess, which the
//!    method checks again under its latch (R6).
//! 2. One read stream over all indexes reads the leaves ahead of the insertion.
//! 3. Groups of unique indexes go in in order; those of others when their leaf arrives.
//! 4. A unique check may need a heap page that is not in memory. Then its group is deferred. One
//!    stream reads the heap pages of all deferred groups.
//! 5. Of large statements helper threads take whole batches of non-unique indexes, from the back.
//!
//! Invariants:
//! - A wait for a transaction holds neither latch nor pin (R12), and no helper waits.
//! - Unique indexes come first, each in its own order, so statements that meet on several keys meet
//!   on the first. Only deferred groups overtake each other; one of two such statements that
//!   deadlock is told.
//! - [`TableOracle`] answers under an index latch, so it neither reads nor waits (R7). It reports
//!   what is not in memory, and `prepare` reads that afterwards.
//!
//! Does not do: heap rows; choice of pages. PostgreSQL: `ExecInsertIndexTuples`, one row and one
//! index at a time.

use std::cell::RefCell;
use std::collections::VecDeque;

use rightlink_env::Broken;
use rightlink_env::points::{broken, hit};
use rightlink_env::sync::{Arc, AtomicBool, Mutex, Ordering};
use rightlink_env::thread;

use crate::buffer::{Delivery, Insertion, Pin, ReadStream, StreamOptions};
use crate::error::{ConflictKind, Error, Result};
use crate::heap::{self, Heap};
use crate::ids::{BlockNo, PageId, RowId, Xid};
use crate::index::am::{Group, Groups, InsertOutcome, NamedPage, PageLink};
use crate::index::{HeapOracle, IndexEntry, Liveness};
use crate::txn::Transaction;
use crate::wal::Admission;

use crate::table::definition::keys::Keys;
use crate::table::write::statement::Statement;
use crate::table::{Table, TableIndex};

/// Pages that are read ahead, if pool and device bear it.
const MAX_AHEAD: u32 = 256;
/// Heap pages that deferred groups need, before these go on.
const MAX_DEFERRED_PAGES: usize = 1024;
/// A group reads at most one page in so many of the pool, so that they are still there in its turn.
const PART_OF_POOL: usize = 8;
/// Entries of an index that are worth a helper thread. To start one takes as long as a few dozen
/// insertions in memory.
const LEAST_FOR_HELPER: usize = if cfg!(feature = "shuttle") { 2 } else { 256 };
/// Pages of a pool below which a statement has one stream: each may read an eighth of it ahead.
const LEAST_FRAMES: usize = if cfg!(feature = "shuttle") { 0 } else { 512 };
/// Entries of a statement that counts as an insertion to the pool: fewer take no part of the device
/// that others would miss.
const LEAST_TO_SHARE: usize = 64;
/// Most pins kept for an index that asks again; a unique key with more candidates reads some twice.
const KEPT_PINS: usize = 4;

impl Table {
    /// Inserts `batches`, the entries for every index.
    pub(in crate::table) fn insert_entries(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        mut batches: Vec<Vec<IndexEntry<'_>>>,
    ) -> Result<()> {
        assert_eq!(batches.len(), self.indexes.len(), "entries for every index");
        let pool = self.heap.pool();
        let most = match statement.reads_ahead() {
            true => helpers_for(&self.indexes, &batches, pool.frames()),
            false => 0,
        };
        let loan = self.txns.helper_threads().acquire(most);
        let options = StreamOptions { inserts: true, ..options(statement) };
        let queue = BatchQueue::new(&self.indexes, &mut batches);
        if loan.count() == 0 {
            return self.insert_as_leader(statement, xid, &queue, options);
        }
        let failed = Mutex::new(None);
        let helper = || {
            if let Err(error) = self.insert_as_helper(xid, &queue, options) {
                queue.stop();
                failed.lock().get_or_insert(error);
            }
        };
        let leader = || {
            let done = self.insert_as_leader(statement, xid, &queue, options);
            if done.is_err() {
                queue.stop();
            }
            done
        };
        thread::with_helpers("rightlink-insert", loan.count(), &helper, leader)?;
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// Tells the pool of a statement whose many rows will have entries on as many pages of each
    /// index, at worst.
    pub(in crate::table) fn begin_insertion(&self, rows: usize) -> Option<Insertion<'_>> {
        let pool = self.heap.pool();
        let pages = |index: &Arc<TableIndex>| rows.min(pool.blocks(index.def.file) as usize);
        let many = rows * self.indexes.len() >= LEAST_TO_SHARE;
        many.then(|| pool.begin_insertion(self.indexes.iter().map(pages).sum()))
    }

    /// Inserts the batches that the statement's own thread takes from `queue`.
    fn insert_as_leader(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        queue: &BatchQueue<'_, '_>,
        options: StreamOptions,
    ) -> Result<()> {
        let mut groups = queue.groups(Worker::Leader);
        let mut stream = ReadStream::new(self.heap.pool(), options, move || groups.next());
        let (mut deferred, mut pages) = (Vec::new(), 0);
        while let Some((page, group)) = stream.next()? {
            let ordered = group.index.def.unique && !broken(Broken::UniqueEntriesUnordered);
            stream.deliver(if ordered { Delivery::Ordered } else { Delivery::AnyOrder });
            let Some(stopped) = self.insert_group(statement, xid, group, Some(page))? else {
                continue;
            };
            pages += stopped.blocks.len();
            deferred.push(stopped);
            if pages >= MAX_DEFERRED_PAGES {
                self.insert_deferred(statement, xid, std::mem::take(&mut deferred))?;
                pages = 0;
            }
        }
        self.insert_deferred(statement, xid, deferred)
    }

    /// Inserts the batches that a helper takes from `queue`. They belong to indexes that are not
    /// unique, so the helper asks the heap nothing and waits for no transaction.
    fn insert_as_helper(
        &self,
        xid: Xid,
        queue: &BatchQueue<'_, '_>,
        options: StreamOptions,
    ) -> Result<()> {
        hit("insert.helper");
        let mut groups = queue.groups(Worker::Helper);
        let options = StreamOptions { delivery: Delivery::AnyOrder, ..options };
        let mut stream = ReadStream::new(self.heap.pool(), options, move || groups.next());
        while let Some((page, EntryGroup { index, entries, link, .. })) = stream.next()? {
            self.heap.pool().wal().admit(Admission::Step)?;
            let page = Some(NamedPage { pin: page, link });
            let outcome = index.method.insert_group(xid, entries, None, page)?;
            assert_eq!(outcome, InsertOutcome::Inserted, "only unique indexes ask for more");
        }
        Ok(())
    }

    /// Inserts a group, which probably belongs on `page`. Returns the rest of it when its unique
    /// check needs a heap page that is not in memory.
    fn insert_group<'w>(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        mut group: EntryGroup<'w>,
        mut page: Option<Pin>,
    ) -> Result<Option<DeferredGroup<'w>>> {
        loop {
            let txn = statement.txn();
            let owns = |xid| txn.owns(xid);
            let oracle = TableOracle::new(&self.heap, &owns);
            self.heap.pool().wal().admit(Admission::Step)?;
            match group.insert(xid, &oracle, page.take())? {
                InsertOutcome::Inserted => return Ok(None),
                InsertOutcome::Duplicate(..) => return Err(self.violation(statement, group)),
                InsertOutcome::Wait(_, other) => statement.txn().wait_for(other)?,
                InsertOutcome::NeedsRow(_, row) => {
                    let blocks = match statement.reads_ahead() {
                        true => self.blocks_for(&group, row)?,
                        false => vec![row.block],
                    };
                    return Ok(Some(DeferredGroup { group, row, blocks }));
                }
            }
        }
    }

    /// The heap blocks that the unique checks of a group need, in the order in which it will ask:
    /// first that of `row`, then those of the other rows with a key of the group.
    fn blocks_for(&self, group: &EntryGroup<'_>, row: RowId) -> Result<Vec<BlockNo>> {
        let pool = self.heap.pool();
        let most = (pool.frames() / PART_OF_POOL).clamp(1, MAX_DEFERRED_PAGES);
        let mut blocks = vec![row.block];
        let asked = group.entries.iter().filter(|entry| entry.is_checked());
        let mut keys: Vec<&[u8]> = asked.map(|entry| entry.key).collect();
        keys.sort_unstable();
        keys.dedup();
        group.index.method.lookup(&keys, &mut |_, row, _| {
            let missing = || !pool.is_near(self.heap.page_id(row.block.0));
            if blocks.len() < most && blocks.last() != Some(&row.block) && missing() {
                blocks.push(row.block);
            }
        })?;
        Ok(blocks)
    }

    /// Inserts deferred groups. One stream reads the heap pages of all of them.
    fn insert_deferred(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        deferred: Vec<DeferredGroup<'_>>,
    ) -> Result<()> {
        if deferred.is_empty() {
            return Ok(());
        }
        let options = options(statement);
        let mut pages = deferred.into_iter().flat_map(|deferred| {
            let DeferredGroup { group, row, blocks } = deferred;
            let last = blocks.len() - 1;
            let complete = move |at| (at == last).then_some((group, row));
            blocks.into_iter().enumerate().map(move |(at, block)| (block, complete(at)))
        });
        let source = || Ok(pages.next().map(|(block, group)| (self.heap.page_id(block.0), group)));
        let mut stream = ReadStream::new(self.heap.pool(), options, source);
        while let Some((page, group)) = stream.next()? {
            drop(page);
            // With its last page a group goes on.
            let Some((mut group, row)) = group else { continue };
            let mut row = Some(row);
            while !group.entries.is_empty() {
                let outcome = self.insert_reading(statement.txn(), xid, &mut group, row.take())?;
                match outcome {
                    InsertOutcome::Duplicate(..) => return Err(self.violation(statement, group)),
                    InsertOutcome::Wait(_, other) => statement.txn().wait_for(other)?,
                    InsertOutcome::Inserted | InsertOutcome::NeedsRow(..) => {}
                }
            }
        }
        Ok(())
    }

    /// Inserts a group until it is in or another row stops it. Reads the heap pages that its unique
    /// checks need, first that of `row`.
    pub(in crate::table) fn insert_reading(
        &self,
        txn: &Transaction,
        xid: Xid,
        group: &mut EntryGroup<'_>,
        mut row: Option<RowId>,
    ) -> Result<InsertOutcome> {
        let owns = |xid| txn.owns(xid);
        let oracle = TableOracle::new(&self.heap, &owns);
        loop {
            if let Some(row) = row.take() {
                oracle.prepare(row)?;
            }
            match group.insert(xid, &oracle, None)? {
                InsertOutcome::NeedsRow(_, needed) => row = Some(needed),
                outcome => return Ok(outcome),
            }
        }
    }

    /// Inserts the entries of one row, those of the indexes at the places `arbiters` first, as long
    /// as none of them has another row with the key. False if one has; then some of them may have
    /// the entry.
    pub(in crate::table) fn insert_unless_taken(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        keys: &[Keys],
        row: RowId,
        arbiters: &[usize],
    ) -> Result<bool> {
        for at in arbiters {
            let entries: Vec<_> = keys[*at].entry(0, row).into_iter().collect();
            let mut group = EntryGroup::new(&self.indexes[*at], &entries);
            while !group.entries.is_empty() {
                match self.insert_reading(statement.txn(), xid, &mut group, None)? {
                    InsertOutcome::Duplicate(..) => {
                        self.still_arbitrates(statement, group.index)?;
                        return Ok(false);
                    }
                    InsertOutcome::Wait(_, other) => statement.txn().wait_for(other)?,
                    InsertOutcome::Inserted | InsertOutcome::NeedsRow(..) => {}
                }
            }
        }
        let rest = keys.iter().enumerate().map(|(at, keys)| match arbiters.contains(&at) {
            true => Vec::new(),
            false => keys.entry(0, row).into_iter().collect(),
        });
        self.insert_entries(statement, xid, rest.collect())?;
        Ok(true)
    }

    /// Fails if another index was built in the place of `index`, or of the one whose place it
    /// takes. Only that index tells which row has a key, and this statement began too early to ask
    /// it first.
    pub(in crate::table) fn still_arbitrates(
        &self,
        statement: &mut Statement<'_>,
        index: &TableIndex,
    ) -> Result<()> {
        let mut same = self.indexes.iter().filter(|known| known.def.id == index.def.id);
        if !same.any(|known| known.is_replaced()) {
            return Ok(());
        }
        let (index, table) = (&index.def.name, &self.def.name);
        let what = format!("index {index} of table {table} was built anew meanwhile");
        let error = Error::Conflict { kind: ConflictKind::Serialization, what };
        Err(statement.txn().manager().count_conflict(error))
    }

    fn violation(&self, statement: &mut Statement<'_>, group: EntryGroup<'_>) -> Error {
        let EntryGroup { index, entries, .. } = group;
        match self.still_arbitrates(statement, index) {
            Err(conflict) => conflict,
            Ok(()) => index.violation(&self.def.name, entries[0].key),
        }
    }
}

/// Entries for one page of an index, those that are not in yet.
#[derive(Clone, Copy)]
pub(in crate::table) struct EntryGroup<'w> {
    index: &'w TableIndex,
    entries: &'w [IndexEntry<'w>],
    /// The link that named the page.
    link: Option<PageLink>,
    /// Whether to check that their keys are unique.
    pub(in crate::table) unique: bool,
}

impl<'w> EntryGroup<'w> {
    pub(in crate::table) fn new(index: &'w TableIndex, entries: &'w [IndexEntry<'w>]) -> Self {
        Self { index, entries, link: None, unique: index.def.unique }
    }

    /// Makes one attempt. Entries that are in leave the group.
    fn insert(
        &mut self,
        xid: Xid,
        oracle: &dyn HeapOracle,
        page: Option<Pin>,
    ) -> Result<InsertOutcome> {
        let unique = self.unique.then_some(oracle);
        let page = page.map(|pin| NamedPage { pin, link: self.link });
        let outcome = self.index.method.insert_group(xid, self.entries, unique, page)?;
        self.entries = &self.entries[outcome.inserted(self.entries.len())..];
        Ok(outcome)
    }
}

/// A group whose unique check needs heap pages that are not in memory.
struct DeferredGroup<'w> {
    group: EntryGroup<'w>,
    /// The row that it asks about.
    row: RowId,
    /// Heap blocks that it needs, the row's among them.
    blocks: Vec<BlockNo>,
}

pub(in crate::table) fn options(statement: &Statement<'_>) -> StreamOptions {
    let max_distance = if statement.reads_ahead() { MAX_AHEAD } else { 1 };
    // Every page will be written to: nothing is read in vain.
    StreamOptions { max_distance, expected: u32::MAX, ..StreamOptions::ORDERED }
}

/// The threads that take batches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Worker {
    /// The statement's own thread. It takes from the front, where the unique indexes are.
    Leader,
    /// Takes batches of non-unique indexes from the back.
    Helper,
}

/// The entries for one index. One thread inserts all of them, in order, so that the index comes out
/// alike however many threads help.
struct IndexBatch<'b, 'k> {
    index: &'b TableIndex,
    entries: &'b mut [IndexEntry<'k>],
}

/// The batches that no thread has taken yet.
struct BatchQueue<'b, 'k> {
    batches: Mutex<VecDeque<IndexBatch<'b, 'k>>>,
    stopped: AtomicBool,
}

impl<'b, 'k> BatchQueue<'b, 'k> {
    fn new(indexes: &'b [Arc<TableIndex>], batches: &'b mut [Vec<IndexEntry<'k>>]) -> Self {
        let batches = indexes.iter().zip(batches);
        let batches = batches.map(|(index, entries)| IndexBatch { index, entries }).collect();
        Self { batches: Mutex::new(batches), stopped: AtomicBool::new(false) }
    }

    /// The next batch for `worker`, in the method's order.
    fn take(&self, worker: Worker) -> Option<IndexBatch<'b, 'k>> {
        let mut batches = self.batches.lock();
        let batch = match worker {
            Worker::Leader => batches.pop_front()?,
            Worker::Helper if batches.back()?.index.def.unique => return None,
            Worker::Helper => batches.pop_back()?,
        };
        drop(batches);
        batch.index.method.order(batch.entries);
        Some(batch)
    }

    /// Hands out nothing more.
    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// The groups of the batches that `worker` takes.
    fn groups(&self, worker: Worker) -> GroupQueue<'_, 'b, 'k> {
        GroupQueue { queue: self, worker, current: None }
    }
}

/// The groups of the batches that one thread takes.
struct GroupQueue<'q, 'b, 'k> {
    queue: &'q BatchQueue<'b, 'k>,
    worker: Worker,
    /// The batch that was taken last, and its groups.
    current: Option<(EntryGroup<'b>, Groups<'b>)>,
}

impl<'b, 'k: 'b> GroupQueue<'_, 'b, 'k> {
    /// The next group, and the page that it probably belongs on.
    fn next(&mut self) -> Result<Option<(PageId, EntryGroup<'b>)>> {
        while !self.queue.stopped.load(Ordering::Relaxed) {
            if let Some((batch, groups)) = &mut self.current
                && let Some(group) = groups.next()
            {
                let Group { page, link, entries } = group?;
                let entries = &batch.entries[entries];
                return Ok(Some((page, EntryGroup { entries, link, ..*batch })));
            }
            let Some(IndexBatch { index, entries }) = self.queue.take(self.worker) else { break };
            let entries: &'b [IndexEntry<'b>] = entries;
            let groups = index.method.groups(entries, index.def.unique);
            self.current = Some((EntryGroup::new(index, entries), groups));
        }
        Ok(None)
    }
}

/// How many helpers `batches` have work for, in a pool of so many frames.
fn helpers_for(
    indexes: &[Arc<TableIndex>],
    batches: &[Vec<IndexEntry<'_>>],
    frames: usize,
) -> usize {
    if frames < LEAST_FRAMES {
        return 0;
    }
    let (mut unique, mut other) = (0, 0);
    let large = |batch: &[IndexEntry<'_>]| batch.len() >= LEAST_FOR_HELPER;
    for (index, _) in indexes.iter().zip(batches).filter(|(_, batch)| large(batch)) {
        *(if index.def.unique { &mut unique } else { &mut other }) += 1;
    }
    // The statement's own thread needs work, too.
    if unique == 0 { usize::saturating_sub(other, 1) } else { other }
}

/// Answers to the unique checks of one transaction.
pub(in crate::table) struct TableOracle<'a> {
    heap: &'a Heap,
    owns: &'a dyn Fn(Xid) -> bool,
    /// Pages read on request, so that they are still there when the index asks again.
    pins: RefCell<Vec<Pin>>,
}

impl<'a> TableOracle<'a> {
    /// `owns` tells the living xids of the asking transaction.
    pub(in crate::table) fn new(heap: &'a Heap, owns: &'a dyn Fn(Xid) -> bool) -> Self {
        Self { heap, owns, pins: RefCell::default() }
    }

    /// Reads what the answer about `row` needs. The caller holds no latch.
    pub(in crate::table) fn prepare(&self, row: RowId) -> Result<()> {
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
