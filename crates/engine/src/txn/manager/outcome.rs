//! What became of an xid, wherever the answer is kept.
//!
//! Asked in this order: the ring (recent xids); if it is not there, is it still running; the late
//! list; the status page. The order makes the answer right without a lock over all of it: a commit
//! is on its page before it is published; who is not running has been published; a number leaves
//! the late list only after it is on the page, or when no snapshot can need it.
//!
//! The late list holds commit numbers of xids that fell out of the ring too early: the ring's floor
//! rose over them while a snapshot still needed the number, or their transaction ran longer than
//! the ring reaches back. [`TxnManager::spill`] moves them to the pages.
//!
//! Invariants: the number of a committed xid is exact while a live snapshot may have to compare it
//! (its xid is not below the horizon); otherwise it may be [`CSN_OLD`]. (R1) A number reaches a
//! page only when the commit is durable.
//! Does not do: deciding outcomes (`manager`), bytes on disk (`status`).

use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, Ordering};

use crate::error::{Error, Result};
use crate::ids::{Csn, Xid};
use crate::txn::lock::state::State;
use crate::txn::manager::TxnManager;
use crate::txn::status::file::{CHILD, COMMITTED, NOT_COMMITTED};
use crate::txn::status::recent::{ABORTED, IN_PROGRESS};
use crate::txn::status::segment::{by_page, page_id};
use crate::txn::xid::set::OwnSet;

/// Commit number of everything that every snapshot sees: committed before this process started, or
/// so long ago that its own number was dropped. Numbers given out are larger.
pub const CSN_OLD: Csn = Csn(COMMITTED);

/// State of an xid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Still running (in this process).
    InProgress,
    /// Committed and visible with this commit number.
    Committed(Csn),
    /// Rolled back, never finished before a crash, or never used.
    Aborted,
}

impl Status {
    fn from_slot(value: u64) -> Status {
        match value {
            IN_PROGRESS => Status::InProgress,
            ABORTED => Status::Aborted,
            csn => Status::Committed(Csn(csn)),
        }
    }
}

/// Commit numbers on their way from memory to the pages.
pub(in crate::txn) enum Late {
    /// What the ring held from `first` on.
    Slots {
        /// Xid of the first value.
        first: u64,
        /// Slots as in the ring; only commit numbers count.
        values: Vec<u64>,
    },
    /// A transaction that outlived the ring.
    Txn {
        /// Its xids.
        own: Arc<OwnSet>,
        /// Those at or above were not used.
        used: u64,
        /// Its commit number.
        csn: u64,
    },
}

impl Late {
    /// Commit number of `xid`, if it is one of these.
    fn csn_of(&self, xid: u64) -> Option<Csn> {
        match self {
            Late::Slots { first, values } => {
                let value = *values.get(usize::try_from(xid.checked_sub(*first)?).ok()?)?;
                (value > ABORTED).then_some(Csn(value))
            }
            Late::Txn { own, used, csn } => {
                let run = own.find(xid).filter(|_| xid < *used)?;
                (!run.is_aborted(xid)).then_some(Csn(*csn))
            }
        }
    }

    /// The xid after the last.
    fn end(&self) -> u64 {
        match self {
            Late::Slots { first, values } => first + values.len() as u64,
            Late::Txn { used, .. } => *used,
        }
    }

    /// Calls `each` with numbers that lie on one page, until all were handed over.
    fn for_each_page(&self, mut each: impl FnMut(u64, &[u64]) -> Result<()>) -> Result<()> {
        match self {
            Late::Slots { first, values } => by_page(*first..self.end()).try_for_each(|part| {
                let at = (part.start - first) as usize..(part.end - first) as usize;
                let numbers: Vec<u64> =
                    values[at].iter().map(|v| if *v > ABORTED { *v } else { 0 }).collect();
                if numbers.iter().all(|number| *number == 0) {
                    return Ok(());
                }
                each(part.start, &numbers)
            }),
            Late::Txn { own, used, csn } => own.for_each_live(*used, |range| {
                by_page(range).try_for_each(|part| {
                    each(part.start, &vec![*csn; (part.end - part.start) as usize])
                })
            }),
        }
    }
}

/// An entry of a page, if it could be had.
type Entry = Result<Option<u64>>;

impl TxnManager {
    /// State of `xid`; may read a status page for an old one.
    pub fn status(&self, xid: Xid) -> Result<Status> {
        let found = self.resolve(xid, &|xid| self.file.read(xid).map(Some))?;
        Ok(found.expect("a page that is waited for is there"))
    }

    /// State of `xid` if it can be told without I/O (usable under a latch).
    pub fn try_status(&self, xid: Xid) -> Option<Status> {
        self.resolve(xid, &|xid| Ok(self.file.try_read(xid))).ok().flatten()
    }

    fn resolve(&self, xid: Xid, read: &dyn Fn(u64) -> Entry) -> Result<Option<Status>> {
        if xid == Xid::FROZEN {
            return Ok(Some(Status::Committed(CSN_OLD)));
        }
        if let Some(status) = self.in_memory(xid)? {
            return Ok(Some(status));
        }
        let Some(entry) = self.kept(xid, read)? else { return Ok(None) };
        if entry & CHILD == 0 {
            return self.decode(xid, entry).map(Some);
        }
        let parent = Xid(entry & !CHILD);
        if parent <= xid || parent >= self.next_xid() {
            return Err(damaged(xid, "points to an impossible parent"));
        }
        if let Some(status) = self.in_memory(parent)? {
            return Ok(Some(status));
        }
        let Some(entry) = self.kept(parent, read)? else { return Ok(None) };
        self.decode(parent, entry).map(Some)
    }

    /// The entry of `xid`, whose page may be removed at the time: what is read then counts for
    /// nothing.
    fn kept(&self, xid: Xid, read: &dyn Fn(u64) -> Entry) -> Entry {
        let entry = read(xid.0);
        self.check_known(xid)?;
        entry
    }

    /// Error unless the outcome of `xid` is kept.
    fn check_known(&self, xid: Xid) -> Result<()> {
        let (oldest, next) = (self.oldest.load(Ordering::Acquire), self.next_xid());
        if (oldest..next.0).contains(&xid.0) {
            return Ok(());
        }
        let what = format!("transaction {xid} is named, but known are {oldest} to {next}");
        Err(Error::corrupt_file("data pages", what))
    }

    /// The answer that memory has; `None` if the page must be asked, whose answer is final then.
    fn in_memory(&self, xid: Xid) -> Result<Option<Status>> {
        self.check_known(xid)?;
        if let Some(value) = self.ring.get(xid.0) {
            return Ok(Some(Status::from_slot(value)));
        }
        // The late list is looked at second: a transaction enters it before it counts as finished.
        let finished = xid.0 < self.finished_below.load(Ordering::Acquire);
        if finished && self.late_count.load(Ordering::Acquire) == 0 {
            return Ok(None);
        }
        Ok(self.state.lock().recent(xid.0))
    }

    fn decode(&self, xid: Xid, entry: u64) -> Result<Status> {
        match entry {
            NOT_COMMITTED => Ok(Status::Aborted),
            COMMITTED => Ok(Status::Committed(CSN_OLD)),
            ABORTED => Err(damaged(xid, "is not an outcome")),
            parent if parent & CHILD != 0 => Err(damaged(xid, "points to another pointer")),
            // A number of an earlier process means nothing here but "committed".
            _ if xid.0 < self.opened_at => Ok(Status::Committed(CSN_OLD)),
            csn => Ok(Status::Committed(Csn(csn))),
        }
    }

    /// Gives up the ring's slots below `floor`; keeps the commit numbers that a snapshot may still
    /// need.
    pub(in crate::txn) fn give_up_slots(&self, state: &mut State, floor: u64) {
        let first = self.ring.floor();
        assert!(first <= floor && floor <= state.next, "slots of xids that were handed out");
        if state.horizon() < floor {
            let values = (first..floor).filter_map(|xid| self.ring.get(xid)).collect();
            state.late.push(Arc::new(Late::Slots { first, values }));
            self.late_count.store(state.late.len() as u64, Ordering::Release);
        }
        self.ring.advance(floor);
    }

    /// Moves late commit numbers to their pages. One thread at a time; an error leaves them where
    /// they are.
    pub(in crate::txn) fn spill(&self) -> Result<()> {
        let _one = self.spilling.lock();
        loop {
            let state = self.state.lock();
            let (first, horizon) = (state.late.first().cloned(), state.horizon());
            drop(state);
            let Some(late) = first else { return Ok(()) };
            // Below the horizon, "committed" on the page says everything that can be asked.
            if late.end() > horizon {
                self.spill_one(&late)?;
            }
            let mut state = self.state.lock();
            state.late.remove(0);
            self.late_count.store(state.late.len() as u64, Ordering::Release);
        }
    }

    fn spill_one(&self, late: &Late) -> Result<()> {
        if !broken("r1-spill") {
            // R1: a child's page could else reach the disk before the commit it tells of.
            self.file.flush(self.durable_commits.latest())?;
        }
        late.for_each_page(|first, numbers| self.file.hint(first, numbers))
    }
}

impl State {
    /// What the running list and the late list know of `xid`.
    fn recent(&self, xid: u64) -> Option<Status> {
        if let Some((_, run)) = self.owner(xid) {
            let aborted = run.is_aborted(xid);
            return Some(if aborted { Status::Aborted } else { Status::InProgress });
        }
        self.late.iter().find_map(|late| late.csn_of(xid)).map(Status::Committed)
    }
}

/// A status entry that cannot be.
fn damaged(xid: Xid, what: &str) -> Error {
    Error::corrupt(page_id(xid.0), format!("status of transaction {xid} {what}"))
}
