//! Outcomes on disk: the status file.
//!
//! Block 0 is the meta page (after the header: magic, limit, oldest kept xid, each u64). The others
//! hold one u64 per xid, [`PER_PAGE`] to a page:
//!
//! | value | meaning |
//! |---|---|
//! | 0 | not committed |
//! | 2 | committed; its commit number was never needed on disk |
//! | 3 .. | committed with this number, a hint that only the process that wrote it may read |
//! | [`CHILD`] + x | shares the outcome of xid x, which is larger (large transactions, see below) |
//!
//! A commit is one log record that stores 2 for every xid of the transaction. A record may change
//! [`MAX_PAGES`] pages; a transaction with xids on more pages first points all of them, page by
//! page, to its last xid, and then one record commits that one (and its neighbours on the page). A
//! crash in between leaves pointers to an xid that never commits: aborted, as they should be.
//!
//! Invariants:
//! - An xid below `limit` may have been handed out; the record that raised `limit` precedes, in the
//!   log, every record of such an xid. Nothing reaches the disk before its log does, so no sync is
//!   needed.
//! - Blocks for every xid below `limit` exist before the limit is raised: a commit finds its space.
//!   A block may still be zero: not committed.
//! - Commit numbers are written without a record, only into entries that are committed or children,
//!   and (R1) only when the commit record is durable: a child's page does not carry that record's
//!   LSN.
//!
//! - The space of whole pages below `oldest` is given back to the system once the record that
//!   raised `oldest` is durable; the file keeps its length, and xids their places.
//!
//! Does not do: cache, order commits.

use std::ops::Range;

use rightlink_env::sync::Arc;
use rightlink_env::{points, thread};
use xxhash_rust::xxh3::xxh3_64;

use crate::buffer::{BufferPool, Held, Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, Lsn, PageId, Xid};
use crate::page::header::{self, HEADER_SIZE, PageKind, u64_at};
use crate::wal::RecordKind;

/// The status file.
pub const STATUS_FILE: FileId = FileId(1);
/// Entries of a page.
pub(super) const PER_PAGE: u64 = ((PAGE_SIZE - HEADER_SIZE) / 8) as u64;
/// Most pages of one record: few enough for the smallest pool.
pub(super) const MAX_PAGES: u64 = 4;

/// Entry: not committed.
pub(super) const NOT_COMMITTED: u64 = 0;
/// Entry: committed.
pub(super) const COMMITTED: u64 = 2;
/// Entry: this bit, and below it the xid that decides.
pub(super) const CHILD: u64 = 1 << 63;

/// What the meta page says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meta {
    /// Xids below may have been handed out.
    pub(super) limit: u64,
    /// Outcomes below are not kept.
    pub(super) oldest: u64,
}

/// Xids that get the same entry.
pub(super) type Entries = (Range<u64>, u64);

/// The status file as the manager uses it. The tests have one in memory that can crash.
pub(super) trait StatusFile: Send + Sync {
    /// Reads the meta page.
    fn meta(&self) -> Result<Meta>;
    /// Replaces the meta page; one record.
    fn set_meta(&self, meta: Meta) -> Result<Lsn>;
    /// Makes room for the outcomes of all xids below `limit`.
    fn reserve(&self, limit: u64) -> Result<()>;
    /// Gives the space of the outcomes below `oldest` back, as far as that can be done; the meta
    /// page says so already.
    fn forget(&self, oldest: u64) -> Result<()>;
    /// Entry of `xid`.
    fn read(&self, xid: u64) -> Result<u64>;
    /// Entry of `xid`, if that needs neither I/O nor waiting.
    fn try_read(&self, xid: u64) -> Option<u64>;
    /// Stores ascending `entries` on at most [`MAX_PAGES`] pages; one record. Nothing was changed
    /// if it fails, unless the error is [`Error::Poisoned`].
    fn write(&self, kind: RecordKind, xid: Xid, entries: &[Entries]) -> Result<Lsn>;
    /// Stores commit numbers into the entries of `first ..` that are not [`NOT_COMMITTED`] and
    /// whose number is not 0; no record. All are on one page.
    fn hint(&self, first: u64, numbers: &[u64]) -> Result<()>;
    /// Makes the log durable up to `upto`.
    fn flush(&self, upto: Lsn) -> Result<()>;
    /// End of the durable log.
    fn durable(&self) -> Lsn;
}

/// Number of the page, counted without the meta page, that holds `xid`.
pub(super) fn page_of(xid: u64) -> u64 {
    xid / PER_PAGE
}

/// Cuts `range` at page boundaries.
pub(super) fn by_page(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut next = range.start;
    std::iter::from_fn(move || {
        let end = range.end.min((page_of(next) + 1) * PER_PAGE);
        let part = next..end;
        next = end;
        (!part.is_empty()).then_some(part)
    })
}

/// "RLTXNST" and the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"RLTXNST\x01");
const MAGIC_AT: usize = HEADER_SIZE;
const LIMIT_AT: usize = HEADER_SIZE + 8;
const OLDEST_AT: usize = HEADER_SIZE + 16;
/// Pages of outcomes that a stamp is about: 65,280 xids.
const STAMPED: u32 = 64;
const META: PageId = PageId::new(STATUS_FILE, 0);
/// The file doubles until it grows by so many blocks: 65,280 xids.
const GROW_BLOCKS: u32 = 64;

/// Page of `xid`.
fn page_id(xid: u64) -> Result<PageId> {
    let block = page_of(xid) + 1;
    let block = u32::try_from(block).map_err(|_| Error::Limit(format!("status of xid {xid}")))?;
    Ok(PageId::new(STATUS_FILE, block))
}

/// Offset of `xid` in its page.
fn offset_of(xid: u64) -> usize {
    HEADER_SIZE + (xid % PER_PAGE) as usize * 8
}

/// Entry of `xid` on `page`, whose bytes are `bytes`. A page never formatted has no commits.
fn entry_on(page: PageId, bytes: &[u8; PAGE_SIZE], xid: u64) -> Result<u64> {
    match header::kind(bytes) {
        Some(PageKind::Status) => Ok(u64_at(bytes, offset_of(xid))),
        None if header::is_zero(bytes) => Ok(NOT_COMMITTED),
        _ => Err(Error::corrupt(page, "not a page of transaction status")),
    }
}

/// The status file in a buffer pool.
pub(super) struct PooledStatus {
    pool: Arc<BufferPool>,
}

impl PooledStatus {
    /// Creates the file with an empty meta page.
    pub(super) fn create(pool: &Arc<BufferPool>) -> Result<PooledStatus> {
        pool.create_file(STATUS_FILE, true)?;
        pool.extend(STATUS_FILE, 1)?;
        let file = PooledStatus { pool: Arc::clone(pool) };
        file.set_meta(Meta { limit: Xid::FIRST.0, oldest: Xid::FIRST.0 })?;
        Ok(file)
    }

    /// Opens the file.
    pub(super) fn open(pool: Arc<BufferPool>) -> Result<PooledStatus> {
        pool.open_file(STATUS_FILE, true)?;
        Ok(PooledStatus { pool })
    }

    /// Page of `xid`, unless the file ends before it.
    fn existing(&self, xid: u64) -> Result<Option<PageId>> {
        let page = page_id(xid)?;
        Ok((page.block.0 < self.pool.blocks(STATUS_FILE)).then_some(page))
    }

    /// Latches the pages of `entries`, each once, and checks that they can be stored into.
    fn latch_all<'p>(&self, mtr: &mut Mtr<'p>, entries: &[Entries]) -> Result<Vec<(u64, Held)>> {
        let mut pins: Vec<(u64, Pin)> = Vec::new();
        for (range, _) in entries {
            for part in by_page(range.clone()) {
                let page = page_of(part.start);
                if pins.last().is_none_or(|(last, _)| *last < page) {
                    pins.push((page, self.pool.pin(page_id(part.start)?)?));
                }
            }
        }
        assert!(pins.len() as u64 <= MAX_PAGES, "a record changes few status pages");
        let held: Vec<_> = pins.into_iter().map(|(page, pin)| (page, mtr.latch(pin))).collect();
        for (page, held) in &held {
            entry_on(mtr.id(*held), mtr.bytes(*held), page * PER_PAGE)?;
        }
        Ok(held)
    }
}

/// Formats a page that is still zero.
fn format_if_new(mtr: &mut Mtr<'_>, held: Held) {
    if header::kind(mtr.bytes(held)).is_none() {
        mtr.page(held).replace(&header::format(PageKind::Status, 0));
    }
}

/// Stores `value` for the xids of `range`, all on the page `held`.
fn store(mtr: &mut Mtr<'_>, held: Held, range: Range<u64>, value: u64) {
    let bytes = value.to_le_bytes().repeat((range.end - range.start) as usize);
    mtr.page(held).write(offset_of(range.start), &bytes);
}

/// Meta page image.
fn meta_image(meta: Meta) -> [u8; PAGE_SIZE] {
    let mut image = header::format(PageKind::Status, 0);
    for (at, value) in [(MAGIC_AT, MAGIC), (LIMIT_AT, meta.limit), (OLDEST_AT, meta.oldest)] {
        image[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    image
}

/// Tells the newest pages of outcomes from older copies of them, while nobody writes: those that
/// xids below `next` were handed out on last. 0 if one has a change that the log up to `durable`
/// does not have, and might lose it; else never 0.
pub fn outcomes_stamp(pool: &Arc<BufferPool>, next: Xid, durable: Lsn) -> Result<u64> {
    let oldest = PooledStatus::open(Arc::clone(pool))?.meta()?.oldest;
    let newest = page_id(next.0)?.block.0;
    // The space of older ones may have been given back, or not.
    let first = newest.saturating_sub(STAMPED - 1).max(page_id(oldest)?.block.0);
    let mut lsns = Vec::new();
    for block in std::iter::once(0).chain(first..=newest) {
        // Blocks that nobody has written may be gone when the file is opened again.
        let lsn = match block < pool.blocks(STATUS_FILE) {
            true => header::lsn(pool.pin(PageId::new(STATUS_FILE, block))?.shared().bytes()).0,
            false => 0,
        };
        if lsn > durable.0 {
            return Ok(0);
        }
        lsns.extend(lsn.to_le_bytes());
    }
    Ok(xxh3_64(&lsns).max(1))
}

impl StatusFile for PooledStatus {
    fn meta(&self) -> Result<Meta> {
        let pin = self.pool.pin(META)?;
        let page = pin.shared();
        let bytes = page.bytes();
        if header::kind(bytes) != Some(PageKind::Status) || u64_at(bytes, MAGIC_AT) != MAGIC {
            return Err(Error::corrupt(META, "not the first page of a transaction status file"));
        }
        let meta = Meta { limit: u64_at(bytes, LIMIT_AT), oldest: u64_at(bytes, OLDEST_AT) };
        if meta.oldest < Xid::FIRST.0 || meta.oldest > meta.limit || meta.limit >= CHILD {
            return Err(Error::corrupt(META, "bounds of transaction ids are out of order"));
        }
        Ok(meta)
    }

    fn set_meta(&self, meta: Meta) -> Result<Lsn> {
        assert!(meta.oldest <= meta.limit && meta.limit < CHILD, "bounds are in order");
        let mut mtr = Mtr::new(&self.pool);
        let held = mtr.latch(self.pool.pin(META)?);
        if header::kind(mtr.bytes(held)).is_none() {
            mtr.page(held).replace(&meta_image(meta));
        } else {
            mtr.page(held).put_u64(LIMIT_AT, meta.limit);
            mtr.page(held).put_u64(OLDEST_AT, meta.oldest);
        }
        mtr.commit(RecordKind::Extend, Xid::NONE)
    }

    fn reserve(&self, limit: u64) -> Result<()> {
        let needed = page_id(limit - 1)?.block.0 + 1;
        let have = self.pool.blocks(STATUS_FILE);
        if have < needed {
            points::hit("txn.status.extend");
            self.pool.extend(STATUS_FILE, (needed - have).max(have.min(GROW_BLOCKS)))?;
        }
        Ok(())
    }

    fn forget(&self, oldest: u64) -> Result<()> {
        // Block 0 is the meta page, and that of `oldest` is needed.
        let end = page_id(oldest)?.block.0.min(self.pool.blocks(STATUS_FILE));
        if end > 1 {
            points::hit("txn.status.forget");
            match self.pool.punch(STATUS_FILE, 1..end) {
                // The space stays taken, that is all.
                Err(Error::Io(_) | Error::DiskFull(_)) => {}
                punched => punched?,
            }
        }
        Ok(())
    }

    fn read(&self, xid: u64) -> Result<u64> {
        let Some(page) = self.existing(xid)? else { return Ok(NOT_COMMITTED) };
        let pin = self.pool.pin(page)?;
        let shared = pin.shared();
        entry_on(page, shared.bytes(), xid)
    }

    fn try_read(&self, xid: u64) -> Option<u64> {
        let Some(page) = self.existing(xid).ok()? else { return Some(NOT_COMMITTED) };
        let pin = self.pool.try_pin(page)?;
        let shared = pin.try_shared()?;
        entry_on(page, shared.bytes(), xid).ok()
    }

    fn write(&self, kind: RecordKind, xid: Xid, entries: &[Entries]) -> Result<Lsn> {
        let mut mtr = Mtr::new(&self.pool);
        let pages = self.latch_all(&mut mtr, entries)?;
        for (_, held) in &pages {
            format_if_new(&mut mtr, *held);
        }
        for (range, value) in entries {
            for part in by_page(range.clone()) {
                let at = pages.partition_point(|(page, _)| *page < page_of(part.start));
                store(&mut mtr, pages[at].1, part, *value);
            }
        }
        mtr.commit(kind, xid)
    }

    fn hint(&self, first: u64, numbers: &[u64]) -> Result<()> {
        assert_eq!(page_of(first), page_of(first + numbers.len() as u64 - 1), "one page");
        let Some(page) = self.existing(first)? else { return Ok(()) };
        let pin = self.pool.pin(page)?;
        let set = |page: &mut crate::page::PageMut<'_>| {
            for (xid, number) in (first..).zip(numbers) {
                if *number != 0 && u64_at(page.bytes(), offset_of(xid)) != NOT_COMMITTED {
                    page.write_unlogged(offset_of(xid), &number.to_le_bytes());
                }
            }
        };
        // A snapshot depends on these numbers, so they are not given up like other hints. Who holds
        // the latch appends a record and lets go.
        while !pin.hint(None, set) {
            thread::yield_now();
        }
        Ok(())
    }

    fn flush(&self, upto: Lsn) -> Result<()> {
        self.pool.wal().flush(upto)
    }

    fn durable(&self) -> Lsn {
        self.pool.wal().durable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_pages() {
        let parts: Vec<_> = by_page(PER_PAGE - 2..2 * PER_PAGE + 1).collect();
        assert_eq!(
            parts,
            [PER_PAGE - 2..PER_PAGE, PER_PAGE..2 * PER_PAGE, 2 * PER_PAGE..2 * PER_PAGE + 1]
        );
        assert_eq!(by_page(7..7).count(), 0);
        assert_eq!(offset_of(PER_PAGE - 1) + 8, PAGE_SIZE);
        assert_eq!((page_id(PER_PAGE).unwrap().block.0, offset_of(PER_PAGE)), (2, HEADER_SIZE));
        assert!(page_id(u64::MAX).is_err());
    }
}
