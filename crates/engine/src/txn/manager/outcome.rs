//! The outcome of an xid, wherever it is kept.
//!
//! Looked for in this order: the recent outcomes; the running transactions; the spills; the status
//! page. The order makes the answer right without a lock over all of them: a commit is on its page
//! before it is published; a transaction that does not run has been published; a commit number
//! leaves the spills only after it is on its page, or when no snapshot can need it.
//!
//! Invariants: the number of a committed xid is exact while a live snapshot may have to compare it
//! (its xid is not below the horizon); otherwise it may be [`CSN_OLD`]. (R1) A number reaches a
//! page only when the commit is durable.
//! Does not do: decide outcomes (`commit`), bytes on disk (`status::file`).

use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, Ordering};

use crate::error::{Error, Result};
use crate::ids::{Csn, Xid};
use crate::txn::lock::state::SharedState;
use crate::txn::manager::TxnManager;
use crate::txn::status::file::{CHILD, COMMITTED, NOT_COMMITTED};
use crate::txn::status::recent::ABORTED;
use crate::txn::status::segment::page_id;
use crate::txn::status::spill::CsnSpill;
use crate::txn::status::{CSN_OLD, Status};

/// An entry of a status page; `None` if that needs I/O and none was allowed.
type Entry = Result<Option<u64>>;

impl TxnManager {
    /// State of `xid`; may read a status page for an old one.
    pub fn status(&self, xid: Xid) -> Result<Status> {
        let found = self.resolve(xid, &|xid| self.file.read(xid).map(Some))?;
        Ok(found.expect("a page that may be read is there"))
    }

    /// State of `xid`, if that needs no I/O (usable under a latch).
    pub fn try_status(&self, xid: Xid) -> Option<Status> {
        self.resolve(xid, &|xid| Ok(self.file.try_read(xid))).ok().flatten()
    }

    /// State of `xid`; `read` gives the entry of an xid on its page.
    fn resolve(&self, xid: Xid, read: &dyn Fn(u64) -> Entry) -> Result<Option<Status>> {
        if xid == Xid::FROZEN {
            return Ok(Some(Status::Committed(CSN_OLD)));
        }
        if let Some(status) = self.status_in_memory(xid)? {
            return Ok(Some(status));
        }
        let Some(entry) = self.entry_of(xid, read)? else { return Ok(None) };
        if entry & CHILD == 0 {
            return self.decode(xid, entry).map(Some);
        }
        let parent = Xid(entry & !CHILD);
        if parent <= xid || parent >= self.next_xid() {
            return Err(damaged(xid, "points to an impossible parent"));
        }
        if let Some(status) = self.status_in_memory(parent)? {
            return Ok(Some(status));
        }
        let Some(entry) = self.entry_of(parent, read)? else { return Ok(None) };
        self.decode(parent, entry).map(Some)
    }

    /// The entry of `xid`. Its page may be removed meanwhile, so the check comes after the read.
    fn entry_of(&self, xid: Xid, read: &dyn Fn(u64) -> Entry) -> Entry {
        let entry = read(xid.0);
        self.check_kept(xid)?;
        entry
    }

    /// Fails unless the outcome of `xid` is kept.
    fn check_kept(&self, xid: Xid) -> Result<()> {
        let (oldest, next) = (self.oldest.load(Ordering::Acquire), self.next_xid());
        if (oldest..next.0).contains(&xid.0) {
            return Ok(());
        }
        let what = format!("transaction {xid} is named, but known are {oldest} to {next}");
        Err(Error::corrupt_file("data pages", what))
    }

    /// The answer from memory; `None` if the page has it, whose answer is final then.
    fn status_in_memory(&self, xid: Xid) -> Result<Option<Status>> {
        self.check_kept(xid)?;
        if let Some(value) = self.recent.get(xid.0) {
            return Ok(Some(Status::from_slot(value)));
        }
        // In this order: a transaction enters the list of spills before it counts as finished.
        let finished = xid.0 < self.finished_below.load(Ordering::Acquire);
        if finished && self.spill_count.load(Ordering::Acquire) == 0 {
            return Ok(None);
        }
        Ok(self.state.lock().status_without_slot(xid.0))
    }

    /// The outcome that an entry which is not a pointer says.
    fn decode(&self, xid: Xid, entry: u64) -> Result<Status> {
        match entry {
            NOT_COMMITTED => Ok(Status::Aborted),
            COMMITTED => Ok(Status::Committed(CSN_OLD)),
            ABORTED => Err(damaged(xid, "is not an outcome")),
            parent if parent & CHILD != 0 => Err(damaged(xid, "points to another pointer")),
            // A number of an earlier process means nothing here but "committed".
            _ if xid.0 < self.opened_at && !self.was_restored(xid) => {
                Ok(Status::Committed(CSN_OLD))
            }
            csn => Ok(Status::Committed(Csn(csn))),
        }
    }

    /// Gives up the slots of xids below `floor`; lists the commit numbers that a snapshot may still
    /// need as a spill.
    pub(in crate::txn) fn give_up_slots(&self, state: &mut SharedState, floor: u64) {
        let first = self.recent.floor();
        assert!(first <= floor && floor <= state.xids.next(), "slots of assigned xids");
        if state.horizon() < floor {
            let values = (first..floor).filter_map(|xid| self.recent.get(xid)).collect();
            state.spills.push(Arc::new(CsnSpill::Slots { first, values }));
            self.spill_count.store(state.spills.len() as u64, Ordering::Release);
        }
        self.recent.advance(floor);
    }

    /// Moves spilled commit numbers to their pages. One thread at a time; an error leaves them in
    /// memory.
    pub(in crate::txn) fn spill(&self) -> Result<()> {
        let _one = self.spilling.lock();
        loop {
            let state = self.state.lock();
            let (first, horizon) = (state.spills.first().cloned(), state.horizon());
            drop(state);
            let Some(spill) = first else { return Ok(()) };
            // Below the horizon, no snapshot asks for more than "committed", which the page says.
            if spill.end() > horizon {
                self.write_spill(&spill)?;
            }
            let mut state = self.state.lock();
            state.spills.remove(0);
            self.spill_count.store(state.spills.len() as u64, Ordering::Release);
        }
    }

    fn write_spill(&self, spill: &CsnSpill) -> Result<()> {
        if !broken(Broken::CommitNumberSpilledEarly) {
            // R1: else the page of a child could reach the disk before the commit record.
            self.file.flush(self.durable_commits.latest())?;
        }
        spill.for_each_page(|first, numbers| self.file.hint(first, numbers))
    }
}

impl SharedState {
    /// State of `xid`, which has no slot, as the running transactions and the spills know it.
    fn status_without_slot(&self, xid: u64) -> Option<Status> {
        if let Some((_, run)) = self.xids.owner(xid) {
            let aborted = run.is_aborted(xid);
            return Some(if aborted { Status::Aborted } else { Status::InProgress });
        }
        self.spills.iter().find_map(|spill| spill.csn_of(xid)).map(Status::Committed)
    }
}

/// The error for a status entry that no commit writes.
fn damaged(xid: Xid, what: &str) -> Error {
    Error::corrupt(page_id(xid.0), format!("status of transaction {xid} {what}"))
}
