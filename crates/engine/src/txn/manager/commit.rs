//! The end of a transaction: from the records of a commit to its visibility.
//!
//! Invariants:
//! - Durable, then visible, then acknowledged; a relaxed commit is noted as not durable (R1) before
//!   it is visible.
//! - The commit number is assigned in the critical section that makes the outcomes visible, and
//!   snapshots are taken under the same lock: a snapshot sees all commits up to its number and no
//!   other.
//! - If it is not known whether the commit record survives (the log failed under it), the
//!   transaction stays "in progress" for good and the instance refuses further work, so that
//!   neither outcome is shown.
//!
//! Does not do: undo (there is none), flush scheduling (the log groups concurrent flushes).

use rightlink_env::Broken;
use std::ops::Range;

use rightlink_env::points::{self, broken};
use rightlink_env::sync::{Arc, Ordering};

use crate::error::{Error, Result};
use crate::ids::{Lsn, Xid};
use crate::txn::lock::state::SharedState;
use crate::txn::manager::{TxnManager, increment};
use crate::txn::status::file::{CHILD, COMMITTED, MAX_PAGES, StatusEntries};
use crate::txn::status::recent::ABORTED;
use crate::txn::status::segment::{page_of, split_by_page};
use crate::txn::status::spill::CsnSpill;
use crate::txn::xid::TxnId;
use crate::txn::xid::set::{XidRun, XidSet};
use crate::wal::RecordKind;

/// A transaction that ends, or that aborts statements.
pub(in crate::txn) struct EndingTxn<'a> {
    pub(in crate::txn) id: TxnId,
    pub(in crate::txn) xids: &'a Arc<XidSet>,
    /// Xids at or above this one were not used.
    pub(in crate::txn) used: u64,
    /// Has it changed definitions?
    pub(in crate::txn) defines: bool,
}

/// Where the status entries of a transaction lie.
struct CommitExtent {
    pages: u64,
    last_xid: u64,
}

impl EndingTxn<'_> {
    /// `None` if nothing is left to commit.
    fn extent(&self) -> Result<Option<CommitExtent>> {
        let (mut pages, mut page, mut last) = (0, None, None);
        self.xids.for_each_live(self.used, |range| {
            for part in split_by_page(range.clone()) {
                let here = Some(page_of(part.start));
                pages += u64::from(page != here);
                page = here;
            }
            last = Some(range.end - 1);
            Ok(())
        })?;
        Ok(last.map(|last| CommitExtent { pages, last_xid: last }))
    }

    /// Calls `each` with ranges of live xids, on at most `pages` pages at a time.
    fn for_each_batch(
        &self,
        pages: u64,
        mut each: impl FnMut(&[Range<u64>]) -> Result<Lsn>,
    ) -> Result<Lsn> {
        let mut batch = RecordBatch::default();
        self.xids.for_each_live(self.used, |range| {
            split_by_page(range).try_for_each(|part| batch.add(part, pages, &mut each))
        })?;
        assert!(!batch.ranges.is_empty(), "a commit has xids");
        each(&batch.ranges)
    }
}

/// Ranges of xids whose status goes into one log record.
#[derive(Default)]
struct RecordBatch {
    ranges: Vec<Range<u64>>,
    pages: u64,
}

impl RecordBatch {
    /// Adds `part`, which lies on one page. Passes the batch to `each` and empties it first if it
    /// has `limit` pages already.
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
    pub(in crate::txn) fn commit(&self, ending: &EndingTxn<'_>, relaxed: bool) -> Result<Lsn> {
        let committed = self.try_commit(ending, relaxed);
        if !matches!(&committed, Ok(_) | Err(Error::Poisoned(_))) {
            self.abort(ending);
        }
        committed
    }

    /// Commits; on an error but `Poisoned` the transaction runs on.
    pub(in crate::txn) fn try_commit(&self, ending: &EndingTxn<'_>, relaxed: bool) -> Result<Lsn> {
        points::hit("txn.commit.before-append");
        let lsn = match self.append_commit(ending) {
            Ok(Some(lsn)) => lsn,
            Ok(None) => {
                self.publish(ending, TxnOutcome::Nothing);
                return Ok(Lsn(0));
            }
            Err(error @ Error::Poisoned(_)) => return Err(self.leave_in_doubt(error)),
            Err(error) => return Err(error),
        };
        points::hit("txn.commit.after-append");
        if relaxed {
            self.note_relaxed(ending, lsn);
        } else if !broken(Broken::CommitNotDurable)
            && let Err(error) = self.file.flush(lsn)
        {
            return Err(self.leave_in_doubt(error));
        }
        points::hit("txn.commit.before-visible");
        self.publish(ending, TxnOutcome::Committed);
        points::hit("txn.commit.after-visible");
        self.spill_pending();
        Ok(lsn)
    }

    /// Rolls back.
    pub(in crate::txn) fn abort(&self, ending: &EndingTxn<'_>) {
        self.publish(ending, TxnOutcome::Aborted);
    }

    /// Appends the commit record and the records that must precede it; `None` if there is nothing
    /// to commit.
    fn append_commit(&self, ending: &EndingTxn<'_>) -> Result<Option<Lsn>> {
        let Some(CommitExtent { pages, last_xid: last }) = ending.extent()? else {
            return Ok(None);
        };
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
            let entry = |xids: &Range<u64>| StatusEntries { xids: xids.clone(), value };
            let entries: Vec<StatusEntries> = ranges.iter().map(entry).collect();
            self.file.write(kind, Xid(last), &entries)
        })?;
        assert!(lsn > Lsn(0), "a commit is logged");
        Ok(Some(lsn))
    }

    fn note_relaxed(&self, ending: &EndingTxn<'_>, lsn: Lsn) {
        for run in ending.xids.runs() {
            self.durable_commits.note(run.start()..run.end(), lsn);
        }
    }

    /// The outcome is unknown: the transaction stays in progress for good. Transactions that wait
    /// for it get an error.
    fn leave_in_doubt(&self, error: Error) -> Error {
        let why = format!("the outcome of a commit is unknown: {error}");
        self.state.lock().poison(&why);
        match error {
            Error::Poisoned(_) => error,
            _ => Error::Poisoned(why),
        }
    }

    /// Makes the outcome visible, and ends the transaction.
    fn publish(&self, ending: &EndingTxn<'_>, outcome: TxnOutcome) {
        let mut state = self.state.lock();
        let value = match outcome {
            TxnOutcome::Committed => {
                state.csn += 1;
                let csn = state.csn;
                if broken(Broken::CommitNumberBeforeOutcome) {
                    drop(state);
                    state = self.state.lock();
                }
                if ending.defines {
                    self.definitions.store(csn, Ordering::Release);
                }
                csn
            }
            TxnOutcome::Nothing | TxnOutcome::Aborted => ABORTED,
        };
        for run in ending.xids.runs() {
            self.set_outcomes(run, ending.used, value);
        }
        if outcome == TxnOutcome::Committed {
            self.spill_if_outlived(&mut state, ending, value);
        }
        state.end(ending.id, ending.xids, outcome == TxnOutcome::Committed);
        self.publish_bounds(&state);
        increment(match outcome {
            TxnOutcome::Aborted => &self.counters.aborts,
            TxnOutcome::Committed | TxnOutcome::Nothing => &self.counters.commits,
        });
    }

    /// Sets those slots of `run` that are still recent: `value` if live and below `used`.
    fn set_outcomes(&self, run: &XidRun, used: u64, value: u64) {
        for xid in run.start().max(self.recent.floor())..run.end() {
            let live = xid < used && !run.is_aborted(xid);
            self.recent.set(xid, if live { value } else { ABORTED });
        }
    }

    /// Lists the commit number as a spill if the transaction has outlived the slot of its first
    /// xid.
    fn spill_if_outlived(&self, state: &mut SharedState, ending: &EndingTxn<'_>, csn: u64) {
        if ending.xids.first().is_some_and(|first| first < self.recent.floor()) {
            let xids = Arc::clone(ending.xids);
            state.spills.push(Arc::new(CsnSpill::Txn { xids, used: ending.used, csn }));
            self.spill_count.store(state.spills.len() as u64, Ordering::Release);
        }
    }

    /// An error leaves the numbers in memory; the next thread that needs slots tries again and
    /// returns the error.
    fn spill_pending(&self) {
        if self.spill_count.load(Ordering::Acquire) > 0 {
            let _ = self.spill();
        }
    }

    /// Aborts the xids of `range` of a transaction that goes on.
    pub(in crate::txn) fn abort_statements(&self, ending: &EndingTxn<'_>, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut parts = Vec::new();
        ending.xids.abort(range, |part| parts.push(part));
        let mut state = self.state.lock();
        let floor = self.recent.floor();
        for part in parts {
            (part.start.max(floor)..part.end).for_each(|xid| self.recent.set(xid, ABORTED));
        }
        state.wake_for_aborted(ending.id, ending.xids);
    }
}

/// How a transaction has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TxnOutcome {
    Committed,
    /// It committed, but no write of it is left: no commit number is spent.
    Nothing,
    Aborted,
}
