//! Visibility: the xids of a version against their outcomes.
//!
//! [`SnapshotVisibility`] answers for one snapshot; [`HeapVisibility`] tells the present state.
//! Both may be asked under a latch, since neither does I/O. If a status page is missing, the answer
//! is `None` and the xid is remembered: the caller releases its latch, calls `resolve`, and asks
//! again (R7). Resolved outcomes are kept, so asking again always gets further, however small the
//! pool.
//!
//! Invariants: an answer of a `SnapshotVisibility` never changes. A `HeapVisibility` may see a
//! transaction end between two questions. `CommitHints` say "committed" only once that is durable
//! (R1).
//! Does not do: walk chains, or wait.
//!
//! PostgreSQL: `HeapTupleSatisfiesUpdate` and `HeapTupleSatisfiesVacuum` in
//! `access/heap/heapam_visibility.c`.

mod hints;
mod snapshot;

pub(in crate::heap) use hints::CommitHints;
pub(in crate::heap) use snapshot::SnapshotVisibility;

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::error::Result;
use crate::heap::page::tuple::{
    GROUP, TupleHeader, XMAX_ABORTED, XMAX_COMMITTED, XMIN_ABORTED, XMIN_COMMITTED,
};
use crate::ids::Xid;
use crate::txn::{Locker, Status, TxnManager};

/// Most answers remembered between two looks at a page: more than a page has xids.
const MEMORY: usize = 1024;
const _: () = assert!(MEMORY > 2 * crate::heap::MAX_SLOTS as usize);

/// Status of the creation of a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::heap) enum XminStatus {
    Committed,
    InProgress,
    Aborted,
}

/// Status of the end of a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::heap) enum XmaxStatus {
    /// Not ended: no xmax, an aborted one, or a lock whose holder has ended.
    Invalid,
    /// Locked by a running transaction, perhaps by others, too.
    Locked(Xid),
    /// Deleted or replaced by a running transaction.
    InProgress(Xid),
    /// Deleted or replaced, committed.
    Committed(Xid),
}

/// Checks the present state of versions, as `HeapTupleSatisfiesUpdate` of PostgreSQL.
pub(in crate::heap) struct HeapVisibility<'t> {
    txns: &'t TxnManager,
    known: Vec<(Xid, Status)>,
    /// The outcome found last: rows inserted together have the same creator.
    last: Option<(Xid, Status)>,
    missing: Vec<Xid>,
}

impl<'t> HeapVisibility<'t> {
    pub(in crate::heap) fn new(txns: &'t TxnManager) -> Self {
        Self { txns, known: Vec::new(), last: None, missing: Vec::new() }
    }

    pub(in crate::heap) fn txns(&self) -> &'t TxnManager {
        self.txns
    }

    pub(in crate::heap) fn status(&mut self, xid: Xid) -> Option<Status> {
        let same = |known: &&(Xid, Status)| known.0 == xid;
        let found = self.last.as_ref().filter(same);
        if let Some((_, status)) = found.or_else(|| self.known.iter().rev().find(same)) {
            return Some(*status);
        }
        let status = self.txns.try_status(xid);
        match status {
            None if !self.missing.contains(&xid) => self.missing.push(xid),
            None | Some(Status::InProgress) => {}
            Some(outcome) => self.last = Some((xid, outcome)),
        }
        status
    }

    /// Only outcomes are kept: a running transaction may end before the next question.
    fn remember(&mut self, xid: Xid, status: Status) {
        if status == Status::InProgress {
            return;
        }
        if self.known.len() >= MEMORY {
            self.known.clear();
        }
        self.known.push((xid, status));
    }

    pub(in crate::heap) fn xmin_status(&mut self, tuple: &TupleHeader) -> Option<XminStatus> {
        if tuple.xmin == Xid::FROZEN || tuple.has(XMIN_COMMITTED) {
            return Some(XminStatus::Committed);
        }
        if tuple.has(XMIN_ABORTED) {
            return Some(XminStatus::Aborted);
        }
        Some(match self.status(tuple.xmin)? {
            Status::Committed(_) => XminStatus::Committed,
            Status::InProgress => XminStatus::InProgress,
            Status::Aborted => XminStatus::Aborted,
        })
    }

    pub(in crate::heap) fn xmax_status(&mut self, tuple: &TupleHeader) -> Option<XmaxStatus> {
        if tuple.only_locked() {
            let first = self.lockers(tuple)?.first().map(|locker| XmaxStatus::Locked(locker.xid));
            return Some(first.unwrap_or(XmaxStatus::Invalid));
        }
        if tuple.has(XMAX_COMMITTED) {
            return Some(XmaxStatus::Committed(tuple.xmax));
        }
        let aborted = tuple.has(XMAX_ABORTED);
        match if aborted { Status::Aborted } else { self.status(tuple.xmax)? } {
            Status::InProgress => Some(XmaxStatus::InProgress(tuple.xmax)),
            Status::Committed(_) => Some(XmaxStatus::Committed(tuple.xmax)),
            Status::Aborted => {
                let first =
                    self.lockers(tuple)?.first().map(|locker| XmaxStatus::Locked(locker.xid));
                Some(first.unwrap_or(XmaxStatus::Invalid))
            }
        }
    }

    /// The running transactions that lock the version. Of a version that was ended, those whose
    /// locks hold again if that is undone.
    pub(in crate::heap) fn lockers(&mut self, tuple: &TupleHeader) -> Option<Vec<Locker>> {
        if tuple.has(GROUP) {
            return Some(self.txns.multixact_members(tuple.xmax));
        }
        let over = XMAX_COMMITTED | XMAX_ABORTED;
        if tuple.xmax == Xid::NONE || !tuple.only_locked() || tuple.has(over) {
            return Some(Vec::new());
        }
        if self.status(tuple.xmax)? != Status::InProgress {
            return Some(Vec::new());
        }
        Some(vec![Locker { xid: tuple.xmax, lock: tuple.lock() }])
    }

    /// Does no snapshot, present or future, see this version? `horizon` as `TxnManager::horizon`
    /// gives it.
    pub(in crate::heap) fn is_dead_to_all(
        &mut self,
        tuple: &TupleHeader,
        horizon: Xid,
    ) -> Option<bool> {
        if self.xmin_status(tuple)? == XminStatus::Aborted {
            return Some(true);
        }
        match self.xmax_status(tuple)? {
            XmaxStatus::Committed(by) => Some(by < horizon),
            _ => Some(false),
        }
    }

    /// As [`HeapVisibility::is_dead_to_all`], and no crash brings the version back (R1).
    pub(in crate::heap) fn is_durably_dead(
        &mut self,
        tuple: &TupleHeader,
        horizon: Xid,
    ) -> Option<bool> {
        if !self.is_dead_to_all(tuple, horizon)? {
            return Some(false);
        }
        let aborted = self.xmin_status(tuple)? == XminStatus::Aborted;
        let rests_on_durable = broken(Broken::DeadMarkNotDurable)
            || tuple.has(XMAX_COMMITTED)
            || self.txns.is_durable(tuple.xmax);
        Some(aborted || rests_on_durable)
    }

    /// Is an answer missing?
    pub(in crate::heap) fn is_incomplete(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Reads the missing statuses; the caller holds no latch (R7).
    pub(in crate::heap) fn resolve(&mut self) -> Result<()> {
        for xid in std::mem::take(&mut self.missing) {
            let status = self.txns.status(xid)?;
            self.remember(xid, status);
        }
        Ok(())
    }
}
