//! The end of a transaction: from the records of a commit to its visibility.
//!
//! Invariants:
//! - Durable, then visible, then acknowledged; a relaxed commit is noted as not durable (R1) before
//!   it is visible.
//! - The commit number is assigned in the critical section that makes the outcomes visible, and
//!   snapshots are taken under the same lock: a snapshot sees all commits up to its number and no
//!   other.
//! - If it is not known whether the commit record survives (the log failed under it), the
//!   transaction stays "in progress" for good and the instance refuses further work: neither
//!   outcome is shown.
//!
//! Does not do: undo, flush scheduling (the log groups concurrent flushes).

use std::ops::Range;

use rightlink_env::points::{self, broken};
use rightlink_env::sync::{Arc, Ordering};

use crate::error::{Error, Result};
use crate::ids::{Lsn, Xid};
use crate::txn::lock::state::{State, TxnId};
use crate::txn::manager::outcome::Late;
use crate::txn::manager::{TxnManager, bump};
use crate::txn::status::file::{CHILD, COMMITTED, Entries, MAX_PAGES};
use crate::txn::status::recent::ABORTED;
use crate::txn::status::segment::{by_page, page_of};
use crate::txn::xid::set::{OwnSet, Run};
use crate::wal::RecordKind;

/// A transaction that ends: its number, its xids, and the first of them that was not used.
pub(in crate::txn) struct Ending<'a> {
    pub(in crate::txn) id: TxnId,
    pub(in crate::txn) own: &'a Arc<OwnSet>,
    pub(in crate::txn) used: u64,
}

/// Where the live xids of a transaction lie.
struct Extent {
    pages: u64,
    last: u64,
}

impl Ending<'_> {
    /// `None` if nothing is left to commit.
    fn extent(&self) -> Result<Option<Extent>> {
        let (mut pages, mut page, mut last) = (0, None, None);
        self.own.for_each_live(self.used, |range| {
            for part in by_page(range.clone()) {
                let here = Some(page_of(part.start));
                pages += u64::from(page != here);
                page = here;
            }
            last = Some(range.end - 1);
            Ok(())
        })?;
        Ok(last.map(|last| Extent { pages, last }))
    }

    /// Calls `each` with the live ranges of every `pages` pages.
    fn for_each_batch(
        &self,
        pages: u64,
        mut each: impl FnMut(&[Range<u64>]) -> Result<Lsn>,
    ) -> Result<Lsn> {
        let mut batch = Batch::default();
        self.own.for_each_live(self.used, |range| {
            by_page(range).try_for_each(|part| batch.add(part, pages, &mut each))
        })?;
        assert!(!batch.ranges.is_empty(), "a commit has xids");
        each(&batch.ranges)
    }
}

/// Ranges that go into one record.
#[derive(Default)]
struct Batch {
    ranges: Vec<Range<u64>>,
    pages: u64,
}

impl Batch {
    /// Adds `part`, which lies on one page; hands over what was there if that would be a page too
    /// many.
    fn add(
        &mut self,
        part: Range<u64>,
        limit: u64,
        each: &mut impl FnMut(&[Range<u64>]) -> Result<Lsn>,
    ) -> Result<()> {
        let last = self.ranges.last().map(|range| page_of(range.start));
        if last != Some(page_of(part.start)) {
            if self.pages == limit {
                each(&self.ranges)?;
                self.ranges.clear();
                self.pages = 0;
            }
            self.pages += 1;
        }
        self.ranges.push(part);
        Ok(())
    }
}

impl TxnManager {
    /// Commits; on an error the transaction has ended too.
    pub(in crate::txn) fn commit(&self, ending: &Ending<'_>, relaxed: bool) -> Result<Lsn> {
        points::hit("txn.commit.before-append");
        let lsn = match self.append_commit(ending) {
            Ok(Some(lsn)) => lsn,
            Ok(None) => {
                self.publish(ending, Outcome::Nothing);
                return Ok(Lsn(0));
            }
            Err(error @ Error::Poisoned(_)) => return Err(self.leave_in_doubt(error)),
            Err(error) => {
                self.abort(ending);
                return Err(error);
            }
        };
        points::hit("txn.commit.after-append");
        if relaxed {
            self.note_relaxed(ending, lsn);
        } else if !broken("commit-not-durable")
            && let Err(error) = self.file.flush(lsn)
        {
            return Err(self.leave_in_doubt(error));
        }
        points::hit("txn.commit.before-visible");
        self.publish(ending, Outcome::Committed);
        points::hit("txn.commit.after-visible");
        self.spill_if_late();
        Ok(lsn)
    }

    /// Rolls back.
    pub(in crate::txn) fn abort(&self, ending: &Ending<'_>) {
        self.publish(ending, Outcome::Aborted);
    }

    /// Appends the commit record and what must precede it; `None` if there is nothing to commit.
    fn append_commit(&self, ending: &Ending<'_>) -> Result<Option<Lsn>> {
        let Some(Extent { pages, last }) = ending.extent()? else { return Ok(None) };
        self.state.lock().check_healthy()?;
        let whole = pages <= MAX_PAGES;
        let lsn = ending.for_each_batch(if whole { MAX_PAGES } else { 1 }, |ranges| {
            let decides = ranges.last().is_some_and(|range| range.end > last);
            assert!(decides || !whole, "what fits into a record is one record");
            let (kind, value) = match decides {
                true => (RecordKind::Commit, COMMITTED),
                false => (RecordKind::Extend, CHILD | last),
            };
            if decides && !whole {
                points::hit("txn.commit.before-parent");
            }
            let entries: Vec<Entries> = ranges.iter().map(|range| (range.clone(), value)).collect();
            self.file.write(kind, Xid(last), &entries)
        })?;
        assert!(lsn > Lsn(0), "a commit is logged");
        Ok(Some(lsn))
    }

    fn note_relaxed(&self, ending: &Ending<'_>, lsn: Lsn) {
        for run in ending.own.runs() {
            self.durable_commits.note(run.start()..run.end(), lsn);
        }
    }

    /// The outcome is unknown: it stays in progress for good, and so does what waits for it, with
    /// an error.
    fn leave_in_doubt(&self, error: Error) -> Error {
        let why = format!("the outcome of a commit is unknown: {error}");
        self.state.lock().poison(&why);
        match error {
            Error::Poisoned(_) => error,
            _ => Error::Poisoned(why),
        }
    }

    /// Makes the outcome visible, and ends the transaction.
    fn publish(&self, ending: &Ending<'_>, outcome: Outcome) {
        let mut state = self.state.lock();
        let value = match outcome {
            Outcome::Committed => {
                state.csn += 1;
                let csn = state.csn;
                if broken("commit-torn") {
                    drop(state);
                    state = self.state.lock();
                }
                csn
            }
            Outcome::Nothing | Outcome::Aborted => ABORTED,
        };
        for run in ending.own.runs() {
            self.settle(run, ending.used, value);
        }
        if outcome == Outcome::Committed {
            self.keep_if_late(&mut state, ending, value);
        }
        state.leave(ending.id, ending.own, outcome == Outcome::Committed);
        self.refresh(&state);
        bump(match outcome {
            Outcome::Aborted => &self.counters.aborts,
            Outcome::Committed | Outcome::Nothing => &self.counters.commits,
        });
    }

    /// Sets the slots of `run` that the ring still has.
    fn settle(&self, run: &Run, used: u64, value: u64) {
        for xid in run.start().max(self.ring.floor())..run.end() {
            let live = xid < used && !run.is_aborted(xid);
            self.ring.set(xid, if live { value } else { ABORTED });
        }
    }

    /// A transaction that outlived the ring keeps its number in the late list until that is on its
    /// pages.
    fn keep_if_late(&self, state: &mut State, ending: &Ending<'_>, csn: u64) {
        if ending.own.first().is_some_and(|first| first < self.ring.floor()) {
            let own = Arc::clone(ending.own);
            state.late.push(Arc::new(Late::Txn { own, used: ending.used, csn }));
            self.late_count.store(state.late.len() as u64, Ordering::Release);
        }
    }

    /// An error leaves the numbers in memory; whoever next needs room in the ring tries again and
    /// gets it.
    fn spill_if_late(&self) {
        if self.late_count.load(Ordering::Acquire) > 0 {
            let _ = self.spill();
        }
    }

    /// Aborts the xids of `range` that belong to the running transaction.
    pub(in crate::txn) fn abort_some(&self, ending: &Ending<'_>, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut parts = Vec::new();
        ending.own.abort(range, |part| parts.push(part));
        let mut state = self.state.lock();
        let floor = self.ring.floor();
        for part in parts {
            (part.start.max(floor)..part.end).for_each(|xid| self.ring.set(xid, ABORTED));
        }
        state.wake_for_aborted(ending.id, ending.own);
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Committed,
    /// It wrote nothing that is left: no number is spent.
    Nothing,
    Aborted,
}
