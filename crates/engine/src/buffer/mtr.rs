//! Mini-transactions: changes of a few pages that reach the log as one record.
//!
//! The caller latches the pages, checks everything, stores, and commits. Each store appends itself
//! to its page's delta. `commit` appends one record of all deltas and stamps its end as LSN.
//!
//! Invariants:
//! - A page is marked dirty, with a redo position not above the record, before the record is
//!   appended (R13). A checkpoint that misses the mark took its position below the record.
//! - The first record of a page that was all zero is an image. So redo can make lost growth again,
//!   and can tell a page that was cut off later.
//! - All latches are held until every page carries the record's end as its LSN.
//! - A panic between the first store and the last LSN poisons the log and breaks the latches (R19).
//!   No thread reads half a change, and no write-back writes it.
//! - A record that finds no space in a short log takes its stores back under the same latches.
//!   Without copies of the pages the instance is poisoned (R19).
//! - R7 has an exception: an append that finds its buffer full does I/O while latches are held. The
//!   log takes no latch.
//!
//! Does not do: choose the latch order (R12 binds the caller); undo.
//!
//! After InnoDB's mini-transactions. The delta of a page is recorded by the stores themselves.

use rightlink_env::Broken;
use std::cell::Cell;

use rightlink_env::{points, thread};

use crate::buffer::frame::NO_REDO;
use crate::buffer::frame::UNLOGGED;
#[cfg(feature = "experiments")]
use crate::buffer::own_changes;
use crate::buffer::pin::{Exclusive, Pin};
use crate::buffer::pool::BufferPool;
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{Lsn, PageId, Xid};
use crate::page::{PageMut, delta, header};
use crate::wal::{PagePart, RecordKind};

/// A delta up to this long is kept without asking whether an image is shorter.
const SHORT_DELTA: usize = 512;
/// Most bytes that a thread keeps for its next delta.
const MAX_SPARE: usize = 4096;

thread_local! {
    /// Memory of this thread's last mini-transaction, for its next one.
    static SPARE: Cell<(Vec<MtrPage>, Vec<u8>)> = const { Cell::new((Vec::new(), Vec::new())) };
}

/// A mini-transaction: exclusive latches on a few pages whose changes become one log record,
/// atomically.
///
/// Stores go through [`Mtr::page`]. [`Mtr::commit`] appends the record, stamps its end on every
/// changed page and releases all latches. Dropped without a change it only unlatches. Dropped with
/// changes it poisons the instance and panics, so check everything before the first store.
pub struct Mtr<'p> {
    pool: &'p BufferPool,
    pages: Vec<MtrPage>,
}

/// Index of a latched page inside an [`Mtr`].
pub type LatchedPage = usize;

struct MtrPage {
    /// `None` once the page is released.
    latched: Option<Exclusive>,
    delta: Vec<u8>,
    logged: bool,
    /// The page before the first store, kept while the log is short.
    before: Option<Box<[u8; PAGE_SIZE]>>,
}

impl MtrPage {
    fn latched(&self) -> &Exclusive {
        self.latched.as_ref().expect("a released page is not used again")
    }

    fn changed(&self) -> bool {
        self.latched.as_ref().is_some_and(Exclusive::changing)
    }

    /// Replaces the delta by an image where redo needs one, or where the image is shorter.
    fn shorten(&mut self) {
        let latched = self.latched.as_ref().expect("a released page has no delta");
        if self.delta.is_empty() || delta::is_image(&self.delta) && self.delta.len() <= SHORT_DELTA
        {
            return;
        }
        let bytes = latched.bytes();
        let first = header::lsn(bytes) == Lsn(0);
        let len = self.delta.len();
        let long = len > SHORT_DELTA && delta::has_image_below(bytes, len);
        if long || (first && !delta::is_image(&self.delta)) {
            self.delta.clear();
            delta::push_image(&mut self.delta, bytes);
        }
    }
}

impl<'p> Mtr<'p> {
    /// An empty mini-transaction.
    pub fn new(pool: &'p BufferPool) -> Self {
        let (pages, delta) = SPARE.take();
        SPARE.set((Vec::new(), delta));
        Self { pool, pages }
    }

    /// Latches `pin` exclusively and adds it. Waits, so the caller follows the latch order (R12)
    /// and has not latched this page already.
    pub fn latch(&mut self, pin: Pin) -> LatchedPage {
        self.add(pin.exclusive())
    }

    /// As [`Mtr::latch`], but gives the pin back instead of waiting.
    pub fn try_latch(&mut self, pin: Pin) -> std::result::Result<LatchedPage, Pin> {
        pin.try_exclusive().map(|latched| self.add(latched))
    }

    fn add(&mut self, latched: Exclusive) -> LatchedPage {
        let logged = latched.pin().frame().state() & UNLOGGED == 0;
        let latched = Some(latched);
        self.pages.push(MtrPage { latched, delta: Vec::new(), logged, before: None });
        self.pages.len() - 1
    }

    /// The page as it is now, stores of this mini-transaction included.
    pub fn bytes(&self, held: LatchedPage) -> &[u8; PAGE_SIZE] {
        self.pages[held].latched().bytes()
    }

    /// Stores into the page. The first call marks it dirty, before any record of it (R13).
    pub fn page(&mut self, held: LatchedPage) -> PageMut<'_> {
        let pool = self.pool;
        let MtrPage { latched, delta, logged, before } = &mut self.pages[held];
        let latched = latched.as_mut().expect("a released page is not used again");
        if !latched.changing() {
            let end = pool.wal.end();
            if pool.wal.is_short(end) {
                *before = Some(Box::new(*latched.bytes()));
            }
            let from = if *logged { end.0 } else { NO_REDO };
            points::hit("buffer.mtr.before-mark");
            let late = points::broken(Broken::DirtyPageWithoutRedo);
            pool.core.mark_dirty(latched.pin().frame(), if late { NO_REDO } else { from });
            let (pages, spare) = SPARE.take();
            SPARE.set((pages, Vec::new()));
            *delta = spare;
        }
        latched.page_mut(logged.then_some(delta))
    }

    /// Version of the page when it was latched.
    pub fn version(&self, held: LatchedPage) -> u64 {
        self.pages[held].latched().version()
    }

    /// The page's name.
    pub fn id(&self, held: LatchedPage) -> PageId {
        self.pages[held].latched().pin().page()
    }

    /// Unlatches an unchanged page early and gives its pin back; `held` must not be used again.
    pub fn release(&mut self, held: LatchedPage) -> Pin {
        assert!(!self.pages[held].changed(), "a changed page is released by commit");
        let latched = self.pages[held].latched.take();
        latched.expect("a page is released once").release()
    }

    /// Logs all stores as one record of `kind` by `xid`, stamps LSNs and unlatches. Returns the
    /// record's end, or `Lsn(0)` if nothing was changed or no changed file is logged.
    ///
    /// # Errors
    /// Any error but `Poisoned` means that nothing was changed.
    pub fn commit(mut self, kind: RecordKind, xid: Xid) -> Result<Lsn> {
        // The pages stay in `self` until each carries its LSN, so that `drop` finds them after a
        // panic (R19).
        let logged = |page: &&mut MtrPage| page.changed() && page.logged && !page.delta.is_empty();
        self.pages.iter_mut().filter(logged).for_each(MtrPage::shorten);
        let mut parts = self.pages.iter().filter_map(part);
        let (only, more);
        let parts = match (parts.next(), parts.next()) {
            (None, _) => {
                drop(parts);
                self.unlatch_all();
                return Ok(Lsn(0));
            }
            (Some(one), None) => {
                only = [one];
                &only[..]
            }
            (Some(one), Some(two)) => {
                more = [one, two].into_iter().chain(parts).collect::<Vec<_>>();
                &more[..]
            }
        };
        points::hit("buffer.mtr.before-append");
        let appended = self.pool.wal.append(kind, xid, parts);
        let end = match appended {
            Ok(end) => end,
            Err(error) => return Err(self.take_back(error)),
        };
        points::hit("buffer.mtr.after-append");
        for page in self.pages.iter_mut().filter(|page| !page.delta.is_empty()) {
            let latched = page.latched.as_mut().expect("a page with a delta is latched");
            #[cfg(feature = "experiments")]
            own_changes::note(latched.pin().page(), header::lsn(latched.bytes()), end);
            header::set_lsn(&mut latched.page_mut(None), end);
        }
        self.unlatch_all();
        Ok(end)
    }
}

impl Mtr<'_> {
    /// The record could not be appended: takes the stores back, or poisons the instance if the
    /// pages as they were have not been kept (R19).
    fn take_back(&mut self, error: Error) -> Error {
        let kept = self.pages.iter().all(|page| !page.changed() || page.before.is_some());
        if !kept || matches!(error, Error::Poisoned(_)) {
            // A change without a record must not reach its file (R13).
            let why = format!("append failed: {error}");
            self.pool.poison(&why);
            self.unlatch_all();
            return match error {
                Error::Poisoned(_) => error,
                _ => Error::Poisoned(why),
            };
        }
        points::hit("buffer.mtr.taken-back");
        for page in &mut self.pages {
            if let (Some(latched), Some(before)) = (&mut page.latched, page.before.take()) {
                latched.page_mut(None).replace(&before);
            }
        }
        self.unlatch_all();
        error
    }

    /// Unlatches all pages, and keeps the memory for this thread's next mini-transaction.
    fn unlatch_all(&mut self) {
        let mut pages = std::mem::take(&mut self.pages);
        let delta = pages.iter_mut().map(|page| std::mem::take(&mut page.delta));
        let mut delta = delta.max_by_key(Vec::capacity).unwrap_or_default();
        pages.clear();
        if delta.capacity() > MAX_SPARE {
            delta = Vec::new();
        }
        delta.clear();
        SPARE.set((pages, delta));
    }
}

fn part(changed: &MtrPage) -> Option<PagePart<'_>> {
    let page = changed.latched.as_ref()?.pin().page();
    (!changed.delta.is_empty()).then_some(PagePart { page, delta: &changed.delta })
}

impl Drop for Mtr<'_> {
    fn drop(&mut self) {
        if !self.pages.iter().any(MtrPage::changed) || points::broken(Broken::PanicPublishesChange)
        {
            return;
        }
        // R19: a half changed page reaches neither a reader nor the disk.
        self.pool.poison("a mini-transaction was given up between its stores");
        for page in self.pages.iter_mut().filter(|page| page.changed()) {
            if let Some(latched) = page.latched.take() {
                latched.abandon();
            }
        }
        assert!(thread::panicking(), "a mini-transaction with stores is committed");
    }
}
