//! Mini-transactions: changes of a few pages that reach the log as one record.
//!
//! Invariants:
//! - A page is marked dirty, with a redo position not above the record, before the record is
//!   appended: a checkpoint that misses the mark has taken its position below the record.
//! - The first record of a page that was all zero is an image, and a long delta is replaced by a
//!   shorter image. So redo can make lost growth again, and can tell a page that was cut off.
//! - All latches are held until every page carries the record's end as its LSN.
//! - A panic between the first store and the last LSN, within `commit` as well, poisons the log and
//!   breaks the latches: half a change is never seen and never written.
//! - A record that finds no room in the log while that is known to be short takes its stores back,
//!   under the latches they were made under: then nothing has happened, and the error is one of the
//!   statement. If the pages as they were have not been kept, the instance is poisoned.
//! - R7 has an exception here: where the log lacks room, the append writes, syncs or makes a
//!   segment while the latches are held. The log takes no latch.
//!
//! Does not do: choose latch order (R12 binds the caller); undo.

use std::cell::Cell;

use rightlink_env::{points, thread};

use crate::buffer::frame::NO_REDO;
use crate::buffer::frame::UNLOGGED;
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
    /// Memory of this thread's last mini-transaction, for its next one: most are small, and many.
    static SPARE: Cell<(Vec<Slot>, Vec<u8>)> = const { Cell::new((Vec::new(), Vec::new())) };
}

/// A mini-transaction: exclusive latches on a few pages whose changes become one log record,
/// atomically.
///
/// Stores go through [`Mtr::page`]; `commit` appends the record, stamps every changed page with its
/// end and lets go of all latches. Dropped without a change it only unlatches; dropped with changes
/// it panics (and the instance is poisoned): check everything before the first store.
pub struct Mtr<'p> {
    pool: &'p BufferPool,
    slots: Vec<Slot>,
}

/// Index of a latched page inside an [`Mtr`].
pub type Held = usize;

struct Slot {
    /// `None` once released.
    latched: Option<Exclusive>,
    delta: Vec<u8>,
    logged: bool,
    /// The page before the first store, kept while the log is short.
    before: Option<Box<[u8; PAGE_SIZE]>>,
}

impl Slot {
    fn latched(&self) -> &Exclusive {
        self.latched.as_ref().expect("a released page is not used again")
    }

    fn changed(&self) -> bool {
        self.latched.as_ref().is_some_and(Exclusive::changing)
    }

    /// Replaces the delta by an image where that is needed, or shorter.
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
        let (slots, delta) = SPARE.take();
        SPARE.set((Vec::new(), delta));
        Self { pool, slots }
    }

    /// Latches `pin` exclusively (waits; the caller keeps to R12) and adds it. Not for a page that
    /// this thread has latched already.
    pub fn latch(&mut self, pin: Pin) -> Held {
        self.add(pin.exclusive())
    }

    /// As [`Mtr::latch`], but gives the pin back instead of waiting.
    pub fn try_latch(&mut self, pin: Pin) -> std::result::Result<Held, Pin> {
        pin.try_exclusive().map(|latched| self.add(latched))
    }

    fn add(&mut self, latched: Exclusive) -> Held {
        let logged = latched.pin().frame().state() & UNLOGGED == 0;
        let latched = Some(latched);
        self.slots.push(Slot { latched, delta: Vec::new(), logged, before: None });
        self.slots.len() - 1
    }

    /// The page as it is now, stores of this mini-transaction included.
    pub fn bytes(&self, held: Held) -> &[u8; PAGE_SIZE] {
        self.slots[held].latched().bytes()
    }

    /// Stores into the page (marks it dirty on first use).
    pub fn page(&mut self, held: Held) -> PageMut<'_> {
        let pool = self.pool;
        let Slot { latched, delta, logged, before } = &mut self.slots[held];
        let latched = latched.as_mut().expect("a released page is not used again");
        if !latched.changing() {
            let end = pool.wal.end();
            if pool.wal.is_short(end) {
                *before = Some(Box::new(*latched.bytes()));
            }
            let from = if *logged { end.0 } else { NO_REDO };
            points::hit("buffer.mtr.before-mark");
            let late = points::broken("dirty-after-append");
            pool.core.mark_dirty(latched.pin().frame(), if late { NO_REDO } else { from });
            let (slots, spare) = SPARE.take();
            SPARE.set((slots, Vec::new()));
            *delta = spare;
        }
        latched.page_mut(logged.then_some(delta))
    }

    /// Version of the page when it was latched.
    pub fn version(&self, held: Held) -> u64 {
        self.slots[held].latched().version()
    }

    /// The page's name.
    pub fn id(&self, held: Held) -> PageId {
        self.slots[held].latched().pin().page()
    }

    /// Unlatches an unchanged page early and gives its pin back; `held` must not be used again.
    pub fn release(&mut self, held: Held) -> Pin {
        assert!(!self.slots[held].changed(), "a changed page is released by commit");
        let latched = self.slots[held].latched.take();
        latched.expect("a page is released once").release()
    }

    /// Logs all stores as one record of `kind` by `xid`, stamps LSNs, unlatches. Returns the
    /// record's end (`Lsn(0)` when nothing was changed or every changed file is unlogged).
    ///
    /// # Errors
    /// Any error but `Poisoned` means that nothing was changed.
    pub fn commit(mut self, kind: RecordKind, xid: Xid) -> Result<Lsn> {
        // The pages stay in `self` until each carries its LSN: `drop` finds them after a panic.
        let logged = |slot: &&mut Slot| slot.changed() && slot.logged && !slot.delta.is_empty();
        self.slots.iter_mut().filter(logged).for_each(Slot::shorten);
        let mut parts = self.slots.iter().filter_map(part);
        let (only, more);
        let parts = match (parts.next(), parts.next()) {
            (None, _) => {
                drop(parts);
                self.give_back();
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
            Err(error) => return Err(self.give_up(error)),
        };
        points::hit("buffer.mtr.after-append");
        for slot in self.slots.iter_mut().filter(|slot| !slot.delta.is_empty()) {
            let latched = slot.latched.as_mut().expect("a page with a delta is latched");
            header::set_lsn(&mut latched.page_mut(None), end);
        }
        self.give_back();
        Ok(end)
    }
}

impl Mtr<'_> {
    /// The record could not be appended: takes the stores back, if that can be done.
    fn give_up(&mut self, error: Error) -> Error {
        let kept = self.slots.iter().all(|slot| !slot.changed() || slot.before.is_some());
        if !kept || matches!(error, Error::Poisoned(_)) {
            // The pages have changes that the log does not know: they must not reach their files.
            let why = format!("append failed: {error}");
            self.pool.poison(&why);
            self.give_back();
            return match error {
                Error::Poisoned(_) => error,
                _ => Error::Poisoned(why),
            };
        }
        points::hit("buffer.mtr.taken-back");
        for slot in &mut self.slots {
            if let (Some(latched), Some(before)) = (&mut slot.latched, slot.before.take()) {
                latched.page_mut(None).replace(&before);
            }
        }
        self.give_back();
        error
    }

    /// Unlatches, and keeps the memory for this thread's next mini-transaction.
    fn give_back(&mut self) {
        let mut slots = std::mem::take(&mut self.slots);
        let delta = slots.iter_mut().map(|slot| std::mem::take(&mut slot.delta));
        let mut delta = delta.max_by_key(Vec::capacity).unwrap_or_default();
        slots.clear();
        if delta.capacity() > MAX_SPARE {
            delta = Vec::new();
        }
        delta.clear();
        SPARE.set((slots, delta));
    }
}

fn part(slot: &Slot) -> Option<PagePart<'_>> {
    let page = slot.latched.as_ref()?.pin().page();
    (!slot.delta.is_empty()).then_some(PagePart { page, delta: &slot.delta })
}

impl Drop for Mtr<'_> {
    fn drop(&mut self) {
        if !self.slots.iter().any(Slot::changed) || points::broken("panic-publishes-change") {
            return;
        }
        self.pool.poison("a mini-transaction was given up between its stores");
        for slot in self.slots.iter_mut().filter(|slot| slot.changed()) {
            if let Some(latched) = slot.latched.take() {
                latched.abandon();
            }
        }
        assert!(thread::panicking(), "a mini-transaction with stores is committed");
    }
}
