//! What a version is to a snapshot, to a writer and to everyone: the header's xids against their
//! status.
//!
//! Two views, both without I/O so that they may be asked under a latch: [`Seer`] answers for one
//! snapshot, [`Judge`] tells the present state. Each answers `None` when a status page would have
//! to be read and remembers the xid; the caller lets go of its latch, calls `resolve`, and looks
//! again (R7). What was resolved is kept, so that looking again always gets further, however small
//! the pool.
//!
//! Hints (R1): [`Hints`] collects commit marks while a page is read under the shared latch and sets
//! them afterwards, if the page is still the same and nobody is in the way. Committed is noted only
//! once the commit record is durable; aborted needs nothing, as an xid without a commit record
//! stays aborted.
//!
//! Invariants: an answer of a `Seer` never changes during its life; a `Judge` may see a transaction
//! end between two questions.
//! Does not do: walk chains, wait.

use rightlink_env::points::broken;

use crate::buffer::Pin;
use crate::error::Result;
use crate::heap::tuple::{
    FLAGS, GROUP, TupleHeader, XMAX_ABORTED, XMAX_COMMITTED, XMIN_ABORTED, XMIN_COMMITTED,
};
use crate::ids::Xid;
use crate::page::{PageMut, header};
use crate::txn::{Locker, Snapshot, Status, TxnManager};

/// Most answers remembered between two looks at a page: more than a page has xids.
const MEMORY: usize = 1024;
const _: () = assert!(MEMORY > 2 * crate::heap::MAX_SLOTS as usize);

/// Sees versions as one snapshot does.
pub(super) struct Seer<'s> {
    snapshot: &'s Snapshot,
    known: Vec<(Xid, bool)>,
    missing: Vec<Xid>,
}

impl<'s> Seer<'s> {
    pub(super) fn new(snapshot: &'s Snapshot) -> Self {
        Self { snapshot, known: Vec::new(), missing: Vec::new() }
    }

    pub(super) fn manager(&self) -> &'s TxnManager {
        self.snapshot.manager()
    }

    /// Does the snapshot see the work of `xid`, which has committed, without a further look?
    #[inline]
    pub(super) fn sees_before(&self, xid: Xid) -> bool {
        xid == Xid::FROZEN || xid < self.snapshot.xmin()
    }

    /// Is the work of `xid` visible? `None`: ask again after [`Seer::resolve`].
    fn sees(&mut self, xid: Xid) -> Option<bool> {
        if xid == Xid::FROZEN {
            return Some(true);
        }
        if let Some((_, seen)) = self.known.iter().rev().find(|(known, _)| *known == xid) {
            return Some(*seen);
        }
        let seen = self.snapshot.try_sees(xid);
        if seen.is_none() && !self.missing.contains(&xid) {
            self.missing.push(xid);
        }
        seen
    }

    fn remember(&mut self, xid: Xid, seen: bool) {
        if self.known.len() >= MEMORY {
            self.known.clear();
        }
        self.known.push((xid, seen));
    }

    /// Does the snapshot see this version?
    pub(super) fn visible(&mut self, tuple: &TupleHeader) -> Option<bool> {
        let begun = tuple.has(XMIN_COMMITTED) && self.sees_before(tuple.xmin);
        if tuple.has(XMIN_ABORTED) || !begun && !self.sees(tuple.xmin)? {
            return Some(false);
        }
        if tuple.only_locked() || tuple.has(XMAX_ABORTED) {
            return Some(true);
        }
        let ended = tuple.has(XMAX_COMMITTED) && tuple.xmax < self.snapshot.xmin();
        Some(!ended && !self.sees(tuple.xmax)?)
    }

    /// Is an answer missing?
    pub(super) fn is_stuck(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Reads what was missing; the caller holds no latch (R7).
    pub(super) fn resolve(&mut self) -> Result<()> {
        for xid in std::mem::take(&mut self.missing) {
            let seen = self.snapshot.sees(xid)?;
            self.remember(xid, seen);
        }
        Ok(())
    }
}

/// How a version began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Birth {
    Committed,
    InProgress,
    Aborted,
}

/// How a version ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Nobody ends it: no xmax, or one that aborted, or a lock whose holder is gone.
    Open,
    /// Locked by a running transaction, perhaps by others, too.
    Locked(Xid),
    /// Deleted or replaced by a running transaction.
    Ending(Xid),
    /// Deleted or replaced, committed.
    Ended(Xid),
}

/// Tells the present state of versions.
pub(super) struct Judge<'t> {
    txns: &'t TxnManager,
    known: Vec<(Xid, Status)>,
    /// The outcome that was found last: rows that came together have one creator.
    last: Option<(Xid, Status)>,
    missing: Vec<Xid>,
}

impl<'t> Judge<'t> {
    pub(super) fn new(txns: &'t TxnManager) -> Self {
        Self { txns, known: Vec::new(), last: None, missing: Vec::new() }
    }

    pub(super) fn txns(&self) -> &'t TxnManager {
        self.txns
    }

    pub(super) fn status(&mut self, xid: Xid) -> Option<Status> {
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

    pub(super) fn birth(&mut self, tuple: &TupleHeader) -> Option<Birth> {
        if tuple.xmin == Xid::FROZEN || tuple.has(XMIN_COMMITTED) {
            return Some(Birth::Committed);
        }
        if tuple.has(XMIN_ABORTED) {
            return Some(Birth::Aborted);
        }
        Some(match self.status(tuple.xmin)? {
            Status::Committed(_) => Birth::Committed,
            Status::InProgress => Birth::InProgress,
            Status::Aborted => Birth::Aborted,
        })
    }

    pub(super) fn end(&mut self, tuple: &TupleHeader) -> Option<End> {
        if tuple.only_locked() {
            let first = self.lockers(tuple)?.first().map(|locker| End::Locked(locker.xid));
            return Some(first.unwrap_or(End::Open));
        }
        if tuple.has(XMAX_COMMITTED) {
            return Some(End::Ended(tuple.xmax));
        }
        let aborted = tuple.has(XMAX_ABORTED);
        match if aborted { Status::Aborted } else { self.status(tuple.xmax)? } {
            Status::InProgress => Some(End::Ending(tuple.xmax)),
            Status::Committed(_) => Some(End::Ended(tuple.xmax)),
            Status::Aborted => {
                let first = self.lockers(tuple)?.first().map(|locker| End::Locked(locker.xid));
                Some(first.unwrap_or(End::Open))
            }
        }
    }

    /// The running transactions that lock the version: of one that was ended, those whose locks
    /// hold if that is undone.
    pub(super) fn lockers(&mut self, tuple: &TupleHeader) -> Option<Vec<Locker>> {
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

    /// Does no snapshot, present or future, see this version (horizon as `TxnManager::horizon`
    /// says)?
    pub(super) fn dead_to_all(&mut self, tuple: &TupleHeader, horizon: Xid) -> Option<bool> {
        if self.birth(tuple)? == Birth::Aborted {
            return Some(true);
        }
        match self.end(tuple)? {
            End::Ended(by) => Some(by < horizon),
            _ => Some(false),
        }
    }

    /// As [`Judge::dead_to_all`], and a crash cannot bring it back (R1).
    pub(super) fn durably_dead(&mut self, tuple: &TupleHeader, horizon: Xid) -> Option<bool> {
        if !self.dead_to_all(tuple, horizon)? {
            return Some(false);
        }
        let aborted = self.birth(tuple)? == Birth::Aborted;
        let rests_on_durable =
            broken("r1-dead-mark") || tuple.has(XMAX_COMMITTED) || self.txns.is_durable(tuple.xmax);
        Some(aborted || rests_on_durable)
    }

    /// Is an answer missing?
    pub(super) fn is_stuck(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Reads what was missing; the caller holds no latch (R7).
    pub(super) fn resolve(&mut self) -> Result<()> {
        for xid in std::mem::take(&mut self.missing) {
            let status = self.txns.status(xid)?;
            self.remember(xid, status);
        }
        Ok(())
    }
}

/// Commit marks to set on a page, collected while it is read.
#[derive(Default)]
pub(super) struct Hints {
    marks: Vec<(u16, u16)>,
    last: Option<(Xid, Option<Status>)>,
}

impl Hints {
    /// Notes what is known for good about the version at `offset`.
    pub(super) fn note(&mut self, txns: &TxnManager, offset: u16, tuple: &TupleHeader) {
        let mut bits = 0;
        if tuple.xmin != Xid::FROZEN && !tuple.has(XMIN_COMMITTED | XMIN_ABORTED) {
            bits |= self.mark(txns, tuple.xmin, XMIN_COMMITTED, XMIN_ABORTED);
        }
        if tuple.xmax != Xid::NONE && !tuple.has(XMAX_COMMITTED | XMAX_ABORTED) {
            bits |= self.mark(txns, tuple.xmax, XMAX_COMMITTED, XMAX_ABORTED);
        }
        if bits != 0 {
            self.marks.push((offset, bits));
        }
    }

    fn mark(&mut self, txns: &TxnManager, xid: Xid, committed: u16, aborted: u16) -> u16 {
        let status = match self.last {
            Some((last, status)) if last == xid => status,
            _ => settled(txns, xid),
        };
        self.last = Some((xid, status));
        match status {
            Some(Status::Committed(_)) => committed,
            Some(Status::Aborted) => aborted,
            _ => 0,
        }
    }

    /// Sets the marks if the page still has `version` and nobody holds its latch; else forgets
    /// them.
    pub(super) fn set(self, pin: &Pin, version: u64) {
        if self.marks.is_empty() {
            return;
        }
        pin.hint(Some(version), |page| self.store(page));
    }

    /// Sets the marks on a page that is latched and has not changed since they were noted.
    pub(super) fn store(&self, page: &mut PageMut<'_>) {
        for (offset, bits) in &self.marks {
            let at = usize::from(*offset) + FLAGS;
            let flags = header::u16_at(page.bytes(), at) | bits;
            page.write_unlogged(at, &flags.to_le_bytes());
        }
    }
}

/// Status of `xid` if it will never change, whatever crashes (R1).
fn settled(txns: &TxnManager, xid: Xid) -> Option<Status> {
    match txns.try_status(xid)? {
        Status::InProgress => None,
        Status::Committed(_) if !broken("r1-hint") && !txns.is_durable(xid) => None,
        status => Some(status),
    }
}
