//! Index entries of a statement, on their way into all indexes of the table.
//!
//! Every method puts its entries into its own order and names the pages that they belong on; the
//! pages of all indexes are read through one stream, which runs ahead of the insertion, and each
//! group of entries goes onto its page when that is there, of indexes that are not unique the one
//! that is there first. A page that is named is a guess, which the method judges again under its
//! latch (R6). Where everything is in memory the stream issues nothing, and naming a page takes the
//! place of the descent that found it.
//!
//! Where a statement has many entries, helpers insert some of those of indexes that are not unique
//! (`share`), each through a stream of its own.
//!
//! A group that must know whether a row with an equal key still counts, and finds its heap page not
//! in memory, is put aside. The heap pages of all such groups, and of all rows with keys of theirs,
//! are read through one stream, too.
//!
//! Invariants: of the waits for others none holds a latch or a pin, and a group goes on where it
//! stopped. Unique indexes come first (`schema`), each in its own order: statements that meet on
//! several keys meet on the first of them, so that neither waits for one that waits for it. Only a
//! group that was put aside may come after a later one; two such statements may end in a deadlock,
//! which one of them is told.
//! Does not do: heap rows; choose pages.

use rightlink_env::Broken;
use rightlink_env::points::{broken, hit};
use rightlink_env::sync::Mutex;
use rightlink_env::thread;

use crate::buffer::{Delivery, Pin, ReadStream, StreamOptions};
use crate::error::{ConflictKind, Error, Result};
use crate::ids::{BlockNo, RowId, Xid};
use crate::index::am::InsertOutcome;
use crate::index::{HeapOracle, IndexEntry};
use crate::txn::Transaction;
use crate::wal::Admission;

use super::keys::Keys;
use super::oracle::TableOracle;
use super::share::{self, Shares, Side};
use super::statement::Statement;
use super::{Table, TableIndex};

/// Pages that are read ahead, if pool and device bear it.
const MAX_AHEAD: u32 = 256;
/// Heap pages to be read for groups that were put aside, before these go on.
const MAX_WAITING: usize = 1024;
/// Of a group at most one page in so many of the pool, so that they are still there in its turn.
const PART_OF_POOL: usize = 8;

impl Table {
    /// Inserts `batches`, the entries for every index.
    pub(super) fn insert_entries(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        mut batches: Vec<Vec<IndexEntry<'_>>>,
    ) -> Result<()> {
        assert_eq!(batches.len(), self.indexes.len(), "entries for every index");
        let pool = self.heap.pool();
        let most = match statement.reads_ahead() {
            true => share::helpers_for(&self.indexes, &batches, pool.frames()),
            false => 0,
        };
        let loan = self.txns.helper_threads().acquire(most);
        let options = options(statement);
        let shares = Shares::new(&self.indexes, &mut batches);
        if loan.count() == 0 {
            return self.insert_own(statement, xid, &shares, options);
        }
        let failed = Mutex::new(None);
        let beside = || {
            if let Err(error) = self.insert_beside(xid, &shares, options) {
                shares.stop();
                failed.lock().get_or_insert(error);
            }
        };
        let own = || {
            let done = self.insert_own(statement, xid, &shares, options);
            if done.is_err() {
                shares.stop();
            }
            done
        };
        thread::with_helpers("rightlink-insert", loan.count(), &beside, own)?;
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// Inserts what the statement's own thread takes of `shares`.
    fn insert_own(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        shares: &Shares<'_, '_>,
        options: StreamOptions,
    ) -> Result<()> {
        let mut taken = shares.groups(Side::Own);
        let mut stream = ReadStream::new(self.heap.pool(), options, move || taken.next());
        let (mut waiting, mut pages) = (Vec::new(), 0);
        while let Some((page, (index, entries))) = stream.next()? {
            let ordered = index.def.unique && !broken(Broken::UniqueEntriesUnordered);
            stream.deliver(if ordered { Delivery::Ordered } else { Delivery::AnyOrder });
            let group = Work { index, entries };
            let Some(stopped) = self.insert_group(statement, xid, group, Some(page))? else {
                continue;
            };
            pages += stopped.blocks.len();
            waiting.push(stopped);
            if pages >= MAX_WAITING {
                self.settle(statement, xid, std::mem::take(&mut waiting))?;
                pages = 0;
            }
        }
        self.settle(statement, xid, waiting)
    }

    /// Inserts what a helper takes of `shares`: of indexes that are not unique, so that nothing is
    /// asked of the heap and nobody is waited for.
    fn insert_beside(
        &self,
        xid: Xid,
        shares: &Shares<'_, '_>,
        options: StreamOptions,
    ) -> Result<()> {
        hit("insert.helper");
        let mut taken = shares.groups(Side::Helper);
        let options = StreamOptions { delivery: Delivery::AnyOrder, ..options };
        let mut stream = ReadStream::new(self.heap.pool(), options, move || taken.next());
        while let Some((page, (index, entries))) = stream.next()? {
            self.heap.pool().wal().admit(Admission::Step)?;
            let outcome = index.method.insert_group(xid, entries, None, Some(page))?;
            assert_eq!(outcome, InsertOutcome::Inserted, "only unique indexes ask for more");
        }
        Ok(())
    }

    /// Inserts a group, which probably belongs on `page`. Gives back what is left of it when it
    /// must be known whether a row still counts whose heap page is not in memory.
    fn insert_group<'w>(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        mut work: Work<'w>,
        mut page: Option<Pin>,
    ) -> Result<Option<Waiting<'w>>> {
        loop {
            let txn = statement.txn();
            let owns = |xid| txn.owns(xid);
            let oracle = TableOracle::new(&self.heap, &owns);
            self.heap.pool().wal().admit(Admission::Step)?;
            match work.insert(xid, &oracle, page.take())? {
                InsertOutcome::Inserted => return Ok(None),
                InsertOutcome::Duplicate(..) => return Err(self.violation(statement, work)),
                InsertOutcome::Wait(_, other) => statement.txn().wait_for(other)?,
                InsertOutcome::NeedsRow(_, row) => {
                    let blocks = match statement.reads_ahead() {
                        true => self.blocks_for(&work, row)?,
                        false => vec![row.block],
                    };
                    return Ok(Some(Waiting { work, row, blocks }));
                }
            }
        }
    }

    /// The heap blocks that must be read to judge a group, in the order in which it will ask: that
    /// of `row`, which it has asked for, and those of the other rows with a key of it.
    fn blocks_for(&self, work: &Work<'_>, row: RowId) -> Result<Vec<BlockNo>> {
        let pool = self.heap.pool();
        let most = (pool.frames() / PART_OF_POOL).clamp(1, MAX_WAITING);
        let mut blocks = vec![row.block];
        let asked = work.entries.iter().filter(|entry| entry.is_checked());
        let mut keys: Vec<&[u8]> = asked.map(|entry| entry.key).collect();
        keys.sort_unstable();
        keys.dedup();
        work.index.method.lookup(&keys, &mut |_, row, _| {
            let missing = || !pool.is_near(self.heap.page_id(row.block.0));
            if blocks.len() < most && blocks.last() != Some(&row.block) && missing() {
                blocks.push(row.block);
            }
        })?;
        Ok(blocks)
    }

    /// Inserts groups whose heap pages must be read first: all of them through one stream.
    fn settle(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        waiting: Vec<Waiting<'_>>,
    ) -> Result<()> {
        if waiting.is_empty() {
            return Ok(());
        }
        let options = options(statement);
        let mut pages = waiting.into_iter().flat_map(|Waiting { work, row, blocks }| {
            let last = blocks.len() - 1;
            let group = move |at| (at == last).then_some((work, row));
            blocks.into_iter().enumerate().map(move |(at, block)| (block, group(at)))
        });
        let source = || Ok(pages.next().map(|(block, group)| (self.heap.page_id(block.0), group)));
        let mut stream = ReadStream::new(self.heap.pool(), options, source);
        while let Some((page, group)) = stream.next()? {
            drop(page);
            // With its last page a group goes on.
            let Some((mut work, row)) = group else { continue };
            let mut row = Some(row);
            while !work.entries.is_empty() {
                let outcome = self.ask_for(statement.txn(), xid, &mut work, row.take())?;
                match outcome {
                    InsertOutcome::Duplicate(..) => return Err(self.violation(statement, work)),
                    InsertOutcome::Wait(_, other) => statement.txn().wait_for(other)?,
                    InsertOutcome::Inserted | InsertOutcome::NeedsRow(..) => {}
                }
            }
        }
        Ok(())
    }

    /// Goes on with a group until it is in or stopped by another row, and reads what the answers
    /// about rows need, first those about `row`.
    fn ask_for(
        &self,
        txn: &Transaction,
        xid: Xid,
        work: &mut Work<'_>,
        mut row: Option<RowId>,
    ) -> Result<InsertOutcome> {
        let owns = |xid| txn.owns(xid);
        let oracle = TableOracle::new(&self.heap, &owns);
        loop {
            if let Some(row) = row.take() {
                oracle.prepare(row)?;
            }
            match work.insert(xid, &oracle, None)? {
                InsertOutcome::NeedsRow(_, needed) => row = Some(needed),
                outcome => return Ok(outcome),
            }
        }
    }

    /// Inserts the entries of one row, those of the indexes at the places `arbiters` first, as long
    /// as none of them has another row with the key. False if one has; then some of them may have
    /// the entry.
    pub(super) fn insert_unless_taken(
        &self,
        statement: &mut Statement<'_>,
        xid: Xid,
        keys: &[Keys],
        row: RowId,
        arbiters: &[usize],
    ) -> Result<bool> {
        for at in arbiters {
            let entries: Vec<_> = keys[*at].entry(0, row).into_iter().collect();
            let mut work = Work { index: &self.indexes[*at], entries: &entries };
            while !work.entries.is_empty() {
                match self.ask_for(statement.txn(), xid, &mut work, None)? {
                    InsertOutcome::Duplicate(..) => {
                        self.still_arbitrates(statement, work.index)?;
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
    /// takes: that alone tells who has a key, and this statement began too early to ask it first.
    pub(super) fn still_arbitrates(
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

    fn violation(&self, statement: &mut Statement<'_>, Work { index, entries }: Work<'_>) -> Error {
        match self.still_arbitrates(statement, index) {
            Err(conflict) => conflict,
            Ok(()) => Error::UniqueViolation {
                table: self.def.name.clone(),
                index: index.def.name.clone(),
                key: index.keys.show(entries[0].key),
            },
        }
    }
}

/// A group of entries on its way into an index.
#[derive(Clone, Copy)]
struct Work<'w> {
    index: &'w TableIndex,
    entries: &'w [IndexEntry<'w>],
}

impl Work<'_> {
    /// One attempt; what is in is left out of the group.
    fn insert(
        &mut self,
        xid: Xid,
        oracle: &dyn HeapOracle,
        page: Option<Pin>,
    ) -> Result<InsertOutcome> {
        let unique = self.index.def.unique.then_some(oracle);
        let outcome = self.index.method.insert_group(xid, self.entries, unique, page)?;
        self.entries = &self.entries[outcome.inserted(self.entries.len())..];
        Ok(outcome)
    }
}

/// A group that cannot go on before something is known about a row.
struct Waiting<'w> {
    work: Work<'w>,
    row: RowId,
    /// Heap blocks that it needs, the row's among them.
    blocks: Vec<BlockNo>,
}

pub(super) fn options(statement: &Statement<'_>) -> StreamOptions {
    let max_distance = if statement.reads_ahead() { MAX_AHEAD } else { 1 };
    // Every page will be written to: nothing is read in vain.
    StreamOptions { delivery: Delivery::Ordered, max_distance, needed: true }
}
