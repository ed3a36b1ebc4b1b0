//! Replays the log over the data files.
//!
//! The first pass finds the end of the log, and whether damage follows it (R16), so that the log
//! can be opened for writing. The second pass applies every page delta to pages that are older. It
//! takes a batch of records that fits its memory, and applies it page by page in file order. So a
//! page is read once for a batch, ahead of its turn and together with its neighbours.
//!
//! Invariants:
//! - Applying a record twice changes nothing: the page's LSN decides.
//! - The changes of a page are applied in log order.
//! - A page that a batch makes dirty needs the log from the start of that batch (R13).
//! - Write-back runs as always, with log and double-write area (R13, R15). So recovery may crash at
//!   any point and run again.
//!
//! Does not do: heal torn pages (the double-write area did so before), remove files, decide
//! outcomes of transactions (their status pages are replayed like other pages).
//!
//! After ARIES: redo repeats history. There is no undo, because pages hold row versions.

use std::ops::Range;

use rightlink_aio::Io;
use rightlink_env::{Env, points};

use crate::buffer::{BufferPool, ReadStream, RedoPage, StreamOptions};
use crate::error::Result;
use crate::ids::{Lsn, PageId};
use crate::page::delta;
use crate::txn::is_segment;
use crate::wal::{MAX_RECORD_BYTES, Reader, Record, RedoSpeed};

/// Most bytes of log that a batch holds: more would hardly find more neighbours.
const MAX_BATCH: usize = 64 << 20;
/// Pages that are read ahead.
const AHEAD: u32 = 256;

/// Where the log ends, and what lies behind its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogEnd {
    /// End of the last whole frame.
    pub end: Lsn,
    /// Bytes behind the end that were written and never acknowledged.
    pub dropped: u64,
    /// Records to replay.
    pub records: u64,
}

/// Counters of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Replayed {
    /// Records read.
    pub records: u64,
    /// Bytes of log read.
    pub bytes: u64,
    /// Page deltas read, applied or not.
    pub deltas: u64,
    /// Pages brought up to date, counted once for each batch.
    pub pages: u64,
    /// Nanoseconds it took.
    pub nanos: u64,
    /// Of those, for reading and sorting the log.
    pub log_nanos: u64,
    /// Highest number of a table's, an index's or a sequence's file that a record names.
    pub last_file: u32,
}

impl Replayed {
    /// How fast redo is on this machine, as far as this replay was long enough to tell.
    pub(crate) fn speed(&self) -> RedoSpeed {
        const ENOUGH_BYTES: u64 = 4 << 20;
        const ENOUGH_PAGES: u64 = 4096;
        let page_nanos = self.nanos.saturating_sub(self.log_nanos);
        RedoSpeed {
            bytes_per_s: rate(self.bytes, ENOUGH_BYTES, self.log_nanos),
            pages_per_s: rate(self.pages, ENOUGH_PAGES, page_nanos),
        }
    }
}

/// `count` in `nanos`, by the second; 0 when that is too little to tell.
fn rate(count: u64, enough: u64, nanos: u64) -> u64 {
    if count < enough || nanos == 0 {
        return 0;
    }
    ((count as f64 / (nanos as f64 / 1e9)) as u64).max(1)
}

/// First pass: reads the log from `redo` to its end.
///
/// # Errors
/// `Corruption` when acknowledged log is damaged; nothing is changed then.
pub(crate) fn find_end(env: &Env, io: &Io, redo: Lsn) -> Result<LogEnd> {
    let mut reader = Reader::open(env, io, redo)?;
    let mut records = 0;
    while reader.next()?.is_some() {
        records += 1;
    }
    Ok(LogEnd { end: reader.end().max(redo), dropped: reader.dropped(), records })
}

/// Second pass: brings every page up to the end of `log`, which is durable. A batch takes about
/// `memory` bytes of the budget, or fewer if it has not got them.
pub(crate) fn replay(
    env: &Env,
    io: &Io,
    pool: &BufferPool,
    log: Range<Lsn>,
    memory: usize,
) -> Result<Replayed> {
    let Range { start: from, end } = log;
    assert!(from <= end, "redo starts inside the log");
    let started = env.clock.now();
    let mut reader = Reader::open_until(env, io, from, end)?;
    let mut done = Replayed { bytes: end.0 - from.0, ..Replayed::default() };
    // Without memory a batch is one record.
    let wanted = memory.min(MAX_BATCH) + MAX_RECORD_BYTES;
    let memory = env.budget.try_reserve(wanted);
    let limit = memory.as_ref().map_or(0, |_| wanted - MAX_RECORD_BYTES);
    let mut batch = RedoBatch::default();
    loop {
        let since = env.clock.now();
        let more = batch.fill(&mut reader, limit, &mut done)?;
        done.log_nanos += env.clock.now().since(since).as_nanos() as u64;
        done.pages += batch.apply(pool)?;
        if !more {
            break;
        }
    }
    done.nanos = env.clock.now().since(started).as_nanos() as u64;
    Ok(done)
}

/// One change of a page.
struct Change {
    page: PageId,
    /// End of its record.
    end: Lsn,
    /// Where its delta is in [`RedoBatch::deltas`].
    delta: Range<usize>,
}

/// Records of the log, taken apart.
#[derive(Default)]
struct RedoBatch {
    /// Start of the first record.
    from: Option<Lsn>,
    /// By page, and in log order, once the batch is full.
    changes: Vec<Change>,
    deltas: Vec<u8>,
}

/// The changes of one page, as a range of [`RedoBatch::changes`].
struct PageWork {
    page: PageId,
    changes: Range<usize>,
    plan: RedoPage,
}

impl RedoBatch {
    fn bytes(&self) -> usize {
        self.deltas.len() + self.changes.len() * (size_of::<Change>() + size_of::<PageWork>())
    }

    /// Takes records until there are `limit` bytes, at least one; false at the end of the log.
    fn fill(&mut self, reader: &mut Reader, limit: usize, done: &mut Replayed) -> Result<bool> {
        assert!(self.changes.is_empty(), "the batch before was applied");
        self.from = None;
        while let Some(record) = reader.next()? {
            points::hit("recovery.record");
            done.records += 1;
            self.add(&record, done);
            if self.bytes() >= limit {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn add(&mut self, record: &Record, done: &mut Replayed) {
        self.from.get_or_insert(record.start);
        for (page, delta) in &record.parts {
            done.deltas += 1;
            if !is_segment(page.file) {
                done.last_file = done.last_file.max(page.file.0);
            }
            let from = self.deltas.len();
            self.deltas.extend_from_slice(delta);
            let delta = from..self.deltas.len();
            self.changes.push(Change { page: *page, end: record.end, delta });
        }
    }

    fn delta(&self, change: &Change) -> &[u8] {
        &self.deltas[change.delta.clone()]
    }

    /// Brings the pages up to date in file order; returns how many. Leaves the batch empty.
    fn apply(&mut self, pool: &BufferPool) -> Result<u64> {
        // Stable: the changes of a page stay in log order.
        self.changes.sort_by_key(|change| change.page);
        let work = self.plan(pool)?;
        let wanted = |work: &&PageWork| work.plan == RedoPage::Read;
        let mut ahead = work.iter().filter(wanted);
        let options = StreamOptions { max_distance: AHEAD, ..StreamOptions::ORDERED };
        let mut stream = ReadStream::new(pool, options, || Ok(ahead.next().map(|w| (w.page, ()))));
        let from = self.from.unwrap_or_default();
        for PageWork { page, changes, plan } in &work {
            let pin = match plan {
                RedoPage::Skip => continue,
                RedoPage::Make => pool.pin_new(*page)?,
                RedoPage::Read => {
                    let next = stream.next()?;
                    next.expect("the stream gives the pages that are read, in this order").0
                }
            };
            assert_eq!(pin.page(), *page, "changes go to their page");
            let changes = &self.changes[changes.clone()];
            pool.redo_page(pin, from, changes.iter().map(|c| (c.end, self.delta(c))))?;
        }
        drop(stream);
        let pages = work.len() as u64;
        self.changes.clear();
        self.deltas.clear();
        Ok(pages)
    }

    /// Plans the work page by page, and makes files long enough for the pages that images make.
    fn plan(&self, pool: &BufferPool) -> Result<Vec<PageWork>> {
        let mut work = Vec::new();
        let mut at = 0;
        for same in self.changes.chunk_by(|a, b| a.page == b.page) {
            // Changes before an image do not matter.
            let image = same.iter().rposition(|change| delta::is_image(self.delta(change)));
            let changes = at + image.unwrap_or(0)..at + same.len();
            at += same.len();
            let page = same[0].page;
            let plan = pool.redo_plan(page, image.is_some())?;
            work.push(PageWork { page, changes, plan });
        }
        let same_file = |a: &PageWork, b: &PageWork| a.page.file == b.page.file;
        for file in work.chunk_by(same_file) {
            let made = file.iter().rfind(|work| work.plan == RedoPage::Make);
            if let Some(last) = made {
                pool.redo_extend(last.page.file, last.page.block.0.saturating_add(1))?;
            }
        }
        Ok(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_replay_says_nothing_about_speed() {
        let short = Replayed { bytes: 1000, nanos: 10, log_nanos: 5, ..Replayed::default() };
        assert_eq!(short.speed(), RedoSpeed::default());
        let (nanos, log_nanos) = (1_500_000_000, 500_000_000);
        let long = Replayed { bytes: 8 << 20, pages: 9000, nanos, log_nanos, ..short };
        assert_eq!(long.speed(), RedoSpeed { bytes_per_s: 16 << 20, pages_per_s: 9000 });
    }
}
