//! The status file: outcomes on disk.
//!
//! The file proper is one meta page (after the header: magic, limit, oldest kept xid, each u64).
//! Its segments hold one u64 per xid:
//!
//! | value | meaning |
//! |---|---|
//! | 0 | not committed |
//! | 2 | committed; its commit number was never needed on disk |
//! | 3 .. | committed with this number, a hint that only the process that wrote it may read |
//! | [`CHILD`] + x | has the outcome of the larger xid x, the last one of its transaction |
//!
//! A commit is one log record that stores 2 for all xids of the transaction. If they lie on more
//! than [`MAX_PAGES`] pages, records point them to the last xid first, page by page, and one record
//! then commits that one. A crash in between leaves pointers to an xid that never commits.
//!
//! Invariants:
//! - Redo finds every segment that it needs: the segments and blocks of all xids in
//!   `oldest .. limit` exist durably before the record that raises `limit`, which precedes every
//!   record of these xids. A segment below `oldest` is removed after the record that raised it is
//!   durable and the control file says so.
//! - Commit numbers are written without a record, only into entries that are not 0, and only when
//!   the commit is durable (R1).
//!
//! Does not do: cache, order commits, say where an entry lies (`segment`).

use std::ops::Range;

use rightlink_env::points;
use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::thread;
use xxhash_rust::xxh3::xxh3_64;

use crate::buffer::{BufferPool, LatchedPage, Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{FileId, Lsn, PageId, Xid};
use crate::page::header::{self, HEADER_SIZE, PageKind, u64_at};
use crate::txn::status::segment::{
    MAX_XID, PER_PAGE, SEGMENT_PAGES, is_segment, offset_of, page_id, page_id_of, page_of,
    segment_of, segments_of, split_by_page, xids_of,
};
use crate::wal::RecordKind;

/// The file of the meta page.
pub(crate) const STATUS_FILE: FileId = FileId(1);
/// Most pages of one record: few enough for the smallest pool.
pub(in crate::txn) const MAX_PAGES: u64 = 4;

/// Entry: not committed.
pub(in crate::txn) const NOT_COMMITTED: u64 = 0;
/// Entry: committed.
pub(in crate::txn) const COMMITTED: u64 = 2;
/// Entry: this bit, and below it the xid that decides.
pub(in crate::txn) const CHILD: u64 = 1 << 63;

/// The content of the meta page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) struct StatusMeta {
    /// Xids below may have been assigned.
    pub(in crate::txn) limit: u64,
    /// Outcomes below are not kept.
    pub(in crate::txn) oldest: u64,
}

/// Consecutive xids that get the same entry.
pub(in crate::txn) struct StatusEntries {
    pub(in crate::txn) xids: Range<u64>,
    pub(in crate::txn) value: u64,
}

/// The status file as the manager uses it. Tests have one in memory that can crash.
pub(in crate::txn) trait StatusFile: Send + Sync {
    /// Reads the meta page.
    fn meta(&self) -> Result<StatusMeta>;
    /// Replaces the meta page; one record.
    fn set_meta(&self, meta: StatusMeta) -> Result<Lsn>;
    /// Makes room for the outcomes of `xids`, the first of which is the limit.
    fn reserve(&self, xids: Range<u64>) -> Result<()>;
    /// Gives the space of the outcomes below `oldest` back, as far as that can be done; the meta
    /// page says so already.
    fn forget(&self, oldest: u64) -> Result<()>;
    /// Removes the segments whose xids are all below `oldest`, as far as that can be done; the
    /// control file says so already.
    fn drop_segments(&self, oldest: u64) -> Result<()>;
    /// Entry of `xid`.
    fn read(&self, xid: u64) -> Result<u64>;
    /// Entry of `xid`, if that needs neither I/O nor waiting.
    fn try_read(&self, xid: u64) -> Option<u64>;
    /// Stores ascending `entries` on at most [`MAX_PAGES`] pages; one record. Nothing was changed
    /// if it fails, unless the error is [`Error::Poisoned`].
    fn write(&self, kind: RecordKind, xid: Xid, entries: &[StatusEntries]) -> Result<Lsn>;
    /// Stores commit numbers into the entries of `first ..` that are not [`NOT_COMMITTED`] and
    /// whose number is not 0; no record. All are on one page.
    fn hint(&self, first: u64, numbers: &[u64]) -> Result<()>;
    /// Makes the log durable up to `upto`.
    fn flush(&self, upto: Lsn) -> Result<()>;
    /// End of the durable log.
    fn durable(&self) -> Lsn;
}

/// "RLTXNST" and the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"RLTXNST\x02");
const MAGIC_AT: usize = HEADER_SIZE;
const LIMIT_AT: usize = HEADER_SIZE + 8;
const OLDEST_AT: usize = HEADER_SIZE + 16;
/// Pages of outcomes that a stamp covers: 65,280 xids.
const STAMPED_PAGES: u64 = 64;
const META: PageId = PageId::new(STATUS_FILE, 0);
/// A segment doubles until it grows by so many blocks: 65,280 xids.
const GROW_BLOCKS: u32 = 64;

/// Entry of `xid` on `page`, whose bytes are `bytes`. A page never formatted has no commits.
fn entry_on(page: PageId, bytes: &[u8; PAGE_SIZE], xid: u64) -> Result<u64> {
    match header::kind(bytes) {
        Some(PageKind::Status) => Ok(u64_at(bytes, offset_of(xid))),
        None if header::is_zero(bytes) => Ok(NOT_COMMITTED),
        _ => Err(Error::corrupt(page, "not a page of transaction status")),
    }
}

/// The status file in a buffer pool.
pub(in crate::txn) struct PooledStatus {
    pool: Arc<BufferPool>,
    /// Held while space is given back, so that no segment is removed while holes are punched in it.
    space: Mutex<()>,
}

impl PooledStatus {
    /// Creates the file with a meta page that says that `first` is the first xid. No segment is
    /// needed yet.
    pub(in crate::txn) fn create(pool: &Arc<BufferPool>, first: u64) -> Result<PooledStatus> {
        pool.create_file(STATUS_FILE, true)?;
        pool.extend(STATUS_FILE, 1)?;
        let file = PooledStatus { pool: Arc::clone(pool), space: Mutex::default() };
        file.set_meta(StatusMeta { limit: first, oldest: first })?;
        Ok(file)
    }

    /// Opens the file and the segments that are needed.
    pub(in crate::txn) fn open(pool: Arc<BufferPool>) -> Result<PooledStatus> {
        pool.open_file(STATUS_FILE, true)?;
        let file = PooledStatus { pool, space: Mutex::default() };
        let StatusMeta { limit, oldest } = file.meta()?;
        segments_of(Xid(oldest)..Xid(limit))
            .try_for_each(|segment| file.pool.open_file(segment, true))?;
        Ok(file)
    }

    /// Does the page exist? Not if its segment was removed or ends before it.
    fn page_exists(&self, page: PageId) -> bool {
        self.pool.open_blocks(page.file).is_some_and(|blocks| page.block.0 < blocks)
    }

    /// Runs `work` on the page if it exists. It is not removed meanwhile.
    fn with_page<T>(&self, page: PageId, work: impl FnOnce(Pin) -> Result<T>) -> Result<Option<T>> {
        let look = || match self.page_exists(page) {
            true => self.pool.pin(page).and_then(work).map(Some),
            false => Ok(None),
        };
        self.pool.while_whole(page.file, look).unwrap_or(Ok(None))
    }

    /// The open segments up to that of `oldest`.
    fn segments_up_to(&self, oldest: u64) -> Vec<FileId> {
        let last = segment_of(oldest);
        let mut files = self.pool.logged_files();
        files.retain(|file| is_segment(*file) && *file <= last);
        files
    }

    /// Latches the pages of `entries`, each once, and checks that they can be stored into.
    fn latch_all<'p>(
        &self,
        mtr: &mut Mtr<'p>,
        entries: &[StatusEntries],
    ) -> Result<Vec<(u64, LatchedPage)>> {
        let mut pins: Vec<(u64, Pin)> = Vec::new();
        for entry in entries {
            for part in split_by_page(entry.xids.clone()) {
                let page = page_of(part.start);
                if pins.last().is_none_or(|(last, _)| *last < page) {
                    pins.push((page, self.pool.pin(page_id(part.start))?));
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
fn format_if_new(mtr: &mut Mtr<'_>, held: LatchedPage) {
    if header::kind(mtr.bytes(held)).is_none() {
        mtr.page(held).replace(&header::format(PageKind::Status, 0));
    }
}

/// Stores `value` for the xids of `range`, all on the page `held`.
fn store(mtr: &mut Mtr<'_>, held: LatchedPage, range: Range<u64>, value: u64) {
    let bytes = value.to_le_bytes().repeat((range.end - range.start) as usize);
    mtr.page(held).write(offset_of(range.start), &bytes);
}

/// StatusMeta page image.
fn meta_image(meta: StatusMeta) -> [u8; PAGE_SIZE] {
    let mut image = header::format(PageKind::Status, 0);
    for (at, value) in [(MAGIC_AT, MAGIC), (LIMIT_AT, meta.limit), (OLDEST_AT, meta.oldest)] {
        image[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    image
}

/// A hash of the LSNs of the newest status pages, which tells them from older copies of them. Those
/// are the pages of the last xids below `next`; no thread may write them meanwhile. 0 if a page has
/// a change that is not in the durable log and may be lost; else never 0.
pub(crate) fn outcomes_stamp(pool: &Arc<BufferPool>, next: Xid, durable: Lsn) -> Result<u64> {
    let file = PooledStatus::open(Arc::clone(pool))?;
    let newest = page_of(next.0.min(MAX_XID - 1));
    // The space of older ones may have been given back, or not.
    let first = newest.saturating_sub(STAMPED_PAGES - 1).max(page_of(file.meta()?.oldest));
    let mut lsns = Vec::new();
    for page in std::iter::once(META).chain((first..=newest).map(page_id_of)) {
        // Blocks that were never written may be gone when the file is opened again.
        let lsn = match file.page_exists(page) {
            true => header::lsn(pool.pin(page)?.shared().bytes()).0,
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
    fn meta(&self) -> Result<StatusMeta> {
        let pin = self.pool.pin(META)?;
        let page = pin.shared();
        let bytes = page.bytes();
        if header::kind(bytes) != Some(PageKind::Status) || u64_at(bytes, MAGIC_AT) != MAGIC {
            return Err(Error::corrupt(META, "not the first page of a transaction status file"));
        }
        let meta = StatusMeta { limit: u64_at(bytes, LIMIT_AT), oldest: u64_at(bytes, OLDEST_AT) };
        if meta.oldest < Xid::FIRST.0 || meta.oldest > meta.limit || meta.limit > MAX_XID {
            return Err(Error::corrupt(META, "bounds of transaction ids are out of order"));
        }
        Ok(meta)
    }

    fn set_meta(&self, meta: StatusMeta) -> Result<Lsn> {
        assert!(meta.oldest <= meta.limit && meta.limit <= MAX_XID, "bounds are in order");
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

    fn reserve(&self, xids: Range<u64>) -> Result<()> {
        for file in segments_of(Xid(xids.start)..Xid(xids.end)) {
            if !self.pool.is_open(file) {
                points::hit("txn.status.segment");
                self.pool.create_file(file, true)?;
            }
            let last = xids.end.min(xids_of(file).end) - 1;
            let (have, needed) = (self.pool.blocks(file), page_id(last).block.0 + 1);
            if have < needed {
                points::hit("txn.status.extend");
                let count = (needed - have).max(have.min(GROW_BLOCKS)).min(SEGMENT_PAGES - have);
                self.pool.extend_within(file, count, SEGMENT_PAGES)?;
            }
        }
        Ok(())
    }

    fn forget(&self, oldest: u64) -> Result<()> {
        let _space = self.space.lock();
        let first = page_id(oldest);
        for file in self.segments_up_to(oldest) {
            let blocks = self.pool.blocks(file);
            let end = if file == first.file { first.block.0.min(blocks) } else { blocks };
            if end == 0 {
                continue;
            }
            points::hit("txn.status.forget");
            match self.pool.punch(file, 0..end) {
                // The space stays taken, that is all.
                Err(Error::Io(_) | Error::DiskFull(_)) => {}
                punched => punched?,
            }
        }
        Ok(())
    }

    fn drop_segments(&self, oldest: u64) -> Result<()> {
        let _space = self.space.lock();
        let first = segment_of(oldest);
        for file in self.segments_up_to(oldest).into_iter().filter(|file| *file < first) {
            points::hit("txn.status.drop-segment");
            match self.pool.drop_file(file) {
                // The file stays until this is tried again, or the database is opened.
                Err(Error::Io(_) | Error::DiskFull(_) | Error::Limit(_)) => {}
                dropped => dropped?,
            }
        }
        Ok(())
    }

    fn read(&self, xid: u64) -> Result<u64> {
        let page = page_id(xid);
        points::hit("txn.status.read");
        let entry = self.with_page(page, |pin| entry_on(page, pin.shared().bytes(), xid))?;
        Ok(entry.unwrap_or(NOT_COMMITTED))
    }

    fn try_read(&self, xid: u64) -> Option<u64> {
        let page = page_id(xid);
        if !self.page_exists(page) {
            return Some(NOT_COMMITTED);
        }
        let pin = self.pool.try_pin(page)?;
        let shared = pin.try_shared()?;
        entry_on(page, shared.bytes(), xid).ok()
    }

    fn write(&self, kind: RecordKind, xid: Xid, entries: &[StatusEntries]) -> Result<Lsn> {
        let mut mtr = Mtr::new(&self.pool);
        let pages = self.latch_all(&mut mtr, entries)?;
        for (_, held) in &pages {
            format_if_new(&mut mtr, *held);
        }
        for StatusEntries { xids, value } in entries {
            for part in split_by_page(xids.clone()) {
                let at = pages.partition_point(|(page, _)| *page < page_of(part.start));
                store(&mut mtr, pages[at].1, part, *value);
            }
        }
        mtr.commit(kind, xid)
    }

    fn hint(&self, first: u64, numbers: &[u64]) -> Result<()> {
        assert_eq!(page_of(first), page_of(first + numbers.len() as u64 - 1), "one page");
        let set = |page: &mut crate::page::PageMut<'_>| {
            for (xid, number) in (first..).zip(numbers) {
                if *number != 0 && u64_at(page.bytes(), offset_of(xid)) != NOT_COMMITTED {
                    page.write_unlogged(offset_of(xid), &number.to_le_bytes());
                }
            }
        };
        let hinted = self.with_page(page_id(first), |pin| {
            // A snapshot depends on these numbers, so they are not given up like other hints. The
            // holder of the latch appends a record and releases it.
            while !pin.hint(None, set) {
                thread::yield_now();
            }
            Ok(())
        });
        hinted.map(drop)
    }

    fn flush(&self, upto: Lsn) -> Result<()> {
        self.pool.wal().flush(upto)
    }

    fn durable(&self) -> Lsn {
        self.pool.wal().durable()
    }
}
