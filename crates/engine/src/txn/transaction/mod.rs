//! One running transaction: its statement xids, savepoints and locks, and its end.
//!
//! Each statement that writes has an xid of its own, so a failed statement or a rolled-back
//! savepoint is a set of aborted xids and needs no undo. A transaction goes on after any statement
//! error, also under snapshot isolation: what the statement did is gone.
//!
//! Invariants: xids are used in ascending order; `used` is the one after the last; a snapshot's
//! bound is `used` when it was taken.
//! Does not do: rows; what to do about a conflict.

use std::time::Duration;

use rightlink_env::points;
use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::ids::{Lsn, ObjectId, RowId, Xid};
use crate::txn::lock::multixact::{Locker, RowLock};
use crate::txn::lock::row_wait_queue::{Place, Version};
use crate::txn::lock::state::TxnId;
use crate::txn::lock::table_lock::{LockMode, Modes};
use crate::txn::manager::TxnManager;
use crate::txn::manager::commit::Ending;
use crate::txn::manager::wait::{Patience, Wanted};
use crate::txn::snapshot::{Hold, Snapshot, View};
use crate::txn::xid::set::{MAX_RUN, OwnSet};

/// What a transaction sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    /// A new snapshot for every statement.
    ReadCommitted,
    /// One snapshot for the whole transaction.
    #[default]
    Snapshot,
}

/// Position to roll back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint(pub u64);

/// A savepoint that was set: its number and the first xid after it.
#[derive(Clone, Copy)]
struct Mark {
    number: u64,
    bound: u64,
}

/// A group that was made when a lock was added to those of a row. Other rows that are locked in the
/// same way are named after it, too.
struct Shared {
    /// What the row named before.
    before: Xid,
    /// Who locked it then, and how: one xid may lock each row that it names in another way.
    others: Vec<Locker>,
    own: Locker,
    group: Xid,
}

/// What a statement that waits for a row reads by, if it is to read nothing else after it.
#[derive(Default)]
pub struct Reads<'s> {
    /// Its snapshot; another one afterwards.
    pub snapshot: Option<&'s mut Option<Arc<Snapshot>>>,
    /// Table and row id by which the caller named the row.
    pub row: Option<(ObjectId, RowId)>,
}

/// What a wait for a row has come to.
pub struct Waited {
    /// A version at least as new as the one that was waited for.
    pub newest: Option<Version>,
    /// Where to look for the row if there is no such version, or no more.
    pub start: Option<Start>,
}

/// A version that stays where it is while this lives (R9).
pub struct Start {
    /// Where.
    pub at: RowId,
    view: Arc<View>,
}

/// Views that may be let go during a wait.
struct Unread {
    views: Vec<Arc<View>>,
    /// Bound of the snapshot whose view is the first of them.
    bound: u64,
    /// The second one is that of the row id.
    with_row: bool,
}

/// A running transaction. Owned and `Send`; dropping it rolls it back.
pub struct Transaction {
    manager: Arc<TxnManager>,
    id: TxnId,
    isolation: Isolation,
    own: Arc<OwnSet>,
    used: u64,
    statement: Option<Xid>,
    statement_start: u64,
    /// The last statement that changed rows which an earlier one had locked; 0: none.
    kept: AtomicU64,
    /// The group that was made last.
    shared: Option<Shared>,
    view: Option<Arc<View>>,
    /// The snapshot of the last statement, while the next one's would be the same.
    last: Option<Arc<Snapshot>>,
    /// What the last statement saw that gave row ids to the caller: they name their rows for as
    /// long as it is registered (R3, R9).
    handed_out: Option<Arc<View>>,
    /// The only row id that it gave out.
    only: Option<(ObjectId, RowId)>,
    /// Where that row is now, if the version with the id may be gone.
    moved: Option<RowId>,
    marks: Vec<Mark>,
    next_mark: u64,
    locks: Vec<(ObjectId, Modes)>,
    lock_timeout: Option<Duration>,
    cancelled: Arc<AtomicBool>,
    /// Others may queue behind it: [`Transaction::settle`].
    leads: bool,
    /// It contends for a row.
    contends: bool,
    /// May its snapshots become too old?
    may_age: bool,
    ended: bool,
}

impl Transaction {
    /// The transaction that the manager lists as `id`.
    pub(in crate::txn) fn new(
        manager: Arc<TxnManager>,
        id: TxnId,
        isolation: Isolation,
    ) -> Transaction {
        let lock_timeout = manager.options.lock_timeout;
        Transaction {
            manager,
            id,
            isolation,
            own: Arc::default(),
            used: 0,
            statement: None,
            statement_start: 0,
            kept: AtomicU64::new(0),
            shared: None,
            view: None,
            last: None,
            handed_out: None,
            only: None,
            moved: None,
            marks: Vec::new(),
            next_mark: 1,
            locks: Vec::new(),
            lock_timeout,
            cancelled: Arc::default(),
            leads: false,
            contends: false,
            may_age: false,
            ended: false,
        }
    }

    /// From now on the snapshots of its statements may become too old: whoever reads by them asks
    /// [`Snapshot::check`] before it believes what it read, and holds them while it writes.
    pub fn let_snapshots_age(&mut self) {
        self.may_age = true;
    }

    /// Begins a statement: its reads see the snapshot given back, its writes carry a new xid.
    pub fn begin_statement(&mut self) -> Result<Arc<Snapshot>> {
        self.check_cancelled()?;
        self.forget_kept();
        self.statement = None;
        self.statement_start = self.used;
        let view = match self.isolation {
            Isolation::ReadCommitted => View::take(&self.manager, self.id, self.may_age),
            Isolation::Snapshot => {
                let take = || View::take(&self.manager, self.id, self.may_age);
                Arc::clone(self.view.get_or_insert_with(take))
            }
        };
        view.check()?;
        if let Some(last) = &self.last
            && last.is(&view, self.used)
        {
            return Ok(Arc::clone(last));
        }
        let snapshot = Snapshot::new(view, Arc::clone(&self.own), self.used);
        if self.isolation == Isolation::ReadCommitted {
            return Ok(Arc::new(snapshot));
        }
        let snapshot = Arc::new(snapshot.repeatable());
        self.last = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// As [`Transaction::begin_statement`], for a statement that gives row ids to the caller. They
    /// are good until the next such statement, under snapshot isolation for the whole transaction.
    pub fn begin_read(&mut self) -> Result<Arc<Snapshot>> {
        let snapshot = self.begin_statement()?;
        self.handed_out = Some(Arc::clone(snapshot.view()));
        (self.only, self.moved) = (None, None);
        Ok(snapshot)
    }

    /// Keeps `snapshot`, and the one that gave out row ids, from becoming too old while a statement
    /// writes. Neither must be yet: a row id of the latter might name another row.
    pub fn hold(&self, snapshot: &Snapshot) -> Result<(Hold, Option<Hold>)> {
        let handed_out = self.handed_out.as_ref().map(View::hold).transpose()?;
        Ok((View::hold(snapshot.view())?, handed_out))
    }

    /// What the last [`Transaction::begin_read`] saw, of a version that `born_by` created: own
    /// changes of that version do not count. `None` if there was no such statement and the version
    /// is not an own one.
    pub fn snapshot_of(&self, born_by: Xid) -> Option<Snapshot> {
        let own = self.owns(born_by);
        let view = match &self.handed_out {
            Some(view) => Arc::clone(view),
            None if own => View::take(&self.manager, self.id, false),
            None => return None,
        };
        let bound = if own { born_by.0 + 1 } else { 0 };
        Some(Snapshot::new(view, Arc::clone(&self.own), bound))
    }

    /// Will the next statement see what `xid`, which has committed or is its own, has done? Not if
    /// the snapshot of the whole transaction is older.
    pub fn will_see(&self, xid: Xid) -> Result<bool> {
        let Some(view) = self.view.as_ref().filter(|_| !self.owns(xid)) else { return Ok(true) };
        let snapshot = Snapshot::new(Arc::clone(view), Arc::clone(&self.own), 0);
        Ok(xid < snapshot.xmin() || snapshot.sees(xid)?)
    }

    /// A snapshot of now, whatever the isolation level: index builds must see every row there is.
    pub fn latest_snapshot(&self) -> Arc<Snapshot> {
        let view = View::take(&self.manager, self.id, false);
        Arc::new(Snapshot::new(view, Arc::clone(&self.own), self.used))
    }

    /// The xid of the current statement, taken on first use. May read and write status pages: the
    /// caller holds no latch (R7).
    pub fn xid(&mut self) -> Result<Xid> {
        if let Some(xid) = self.statement {
            return Ok(xid);
        }
        let xid = self.next_xid()?;
        self.statement = Some(xid);
        Ok(xid)
    }

    /// An own xid that no statement has had.
    fn next_xid(&mut self) -> Result<Xid> {
        if self.used == self.own.end() {
            let runs = self.own.runs().len();
            // Many transactions have one statement that writes, or a few: two runs do for those.
            let len = if runs == 0 { 1 } else { 1 << (runs + 1).min(MAX_RUN.ilog2() as usize) };
            let run = self.manager.hand_out(self.id, len)?;
            self.used = run.start();
            self.last = None;
            Arc::make_mut(&mut self.own).push(run);
        }
        let xid = Xid(self.used);
        assert!(self.own.find(xid.0).is_some(), "used xids are own ones");
        self.used += 1;
        Ok(xid)
    }

    /// The group that a row which named `before` and was locked by `others` got last, when `own`
    /// was added to its locks. Another row may name it, too, once [`Transaction::share_again`] says
    /// so.
    pub fn group_after(&self, before: Xid, others: &[Locker], own: Locker) -> Option<Xid> {
        let last = self.shared.as_ref()?;
        let same = last.before == before && last.own == own && last.others == others;
        same.then_some(last.group)
    }

    /// Takes an xid for another group. The caller holds no latch (R7).
    pub fn new_group(&mut self) -> Result<Xid> {
        self.xid()?;
        self.next_xid()
    }

    /// Notes that `others` and this statement lock a row that named `before` and names `group` now.
    /// A latch may be held.
    pub fn join(
        &mut self,
        (before, group): (Xid, Xid),
        others: Vec<Locker>,
        own: Locker,
    ) -> Result<()> {
        assert_eq!(self.statement, Some(own.xid), "a lock has the statement's xid");
        let members: Vec<Locker> = others.iter().copied().chain([own]).collect();
        self.manager.share(self.id, group, &members)?;
        self.shared = Some(Shared { before, others, own, group });
        Ok(())
    }

    /// One more row names `group`, which [`Transaction::group_after`] gave. False: the group is
    /// gone and the row needs another. A latch may be held.
    pub fn share_again(&self, group: Xid) -> bool {
        self.manager.share_again(group)
    }

    /// A row that named `group` as what locks it does so no longer. A latch may be held.
    pub fn unname(&self, group: Option<Xid>) {
        group.into_iter().for_each(|group| self.manager.unname(group));
    }

    /// Notes that a row which this statement changes is locked by `locks`: earlier ones of this
    /// transaction hold again if the statement is undone, those of others in any case. Does the new
    /// version name them, too (`carried`)? A latch may be held.
    pub fn keep_locks(&self, locks: &[Locker], carried: bool) -> Result<()> {
        let statement = self.statement.expect("a change has an xid");
        self.manager.keep((self.id, statement), locks, carried)?;
        self.kept.store(statement.0, Ordering::Relaxed);
        Ok(())
    }

    /// Without a savepoint, what has succeeded is not undone before the locks are.
    fn forget_kept(&mut self) {
        let kept = Xid(std::mem::take(self.kept.get_mut()));
        if kept != Xid::NONE && self.marks.is_empty() && self.owns(kept) {
            self.manager.ungroup(self.id, kept);
        }
    }

    /// Undoes the current statement: its xid is aborted.
    pub fn rollback_statement(&mut self) {
        self.abort_from(self.statement_start);
    }

    /// Is `xid` one of this transaction's own that is still alive?
    pub fn owns(&self, xid: Xid) -> bool {
        xid.0 < self.used && self.own.find(xid.0).is_some_and(|run| !run.is_aborted(xid.0))
    }

    /// Marks a position. What the current statement writes afterwards carries another xid.
    pub fn savepoint(&mut self) -> Savepoint {
        self.statement = None;
        let number = self.next_mark;
        self.next_mark += 1;
        self.marks.push(Mark { number, bound: self.used });
        Savepoint(number)
    }

    /// Aborts every statement since `to`; the savepoint itself stays, later ones are gone. Locks
    /// stay.
    pub fn rollback_to(&mut self, to: Savepoint) -> Result<()> {
        let at = self.find_mark(to)?;
        self.marks.truncate(at + 1);
        self.abort_from(self.marks[at].bound);
        Ok(())
    }

    /// Forgets `to` and later savepoints; what was done since stays.
    pub fn release(&mut self, to: Savepoint) -> Result<()> {
        let at = self.find_mark(to)?;
        self.marks.truncate(at);
        Ok(())
    }

    fn find_mark(&self, to: Savepoint) -> Result<usize> {
        let found = self.marks.binary_search_by_key(&to.0, |mark| mark.number);
        found.map_err(|_| Error::Invalid(format!("savepoint {} does not exist", to.0)))
    }

    /// Aborts own xids at and above `bound`.
    fn abort_from(&mut self, bound: u64) {
        assert!(bound <= self.used, "a bound lies in the past");
        self.statement = None;
        let ending = Ending { id: self.id, own: &self.own, used: self.used };
        self.manager.abort_some(&ending, bound..self.used);
    }

    /// Waits until the transaction that owns `xid` has ended (or aborted that statement). Errors:
    /// deadlock, cancelled, lock timeout. The caller holds no latch (R12).
    pub fn wait_for(&mut self, xid: Xid) -> Result<()> {
        assert!(!self.owns(xid), "nobody waits for itself");
        points::hit("txn.wait");
        let wanted = Wanted { xid, place: None, ends: false };
        let (waited, outcome) =
            self.manager.wait_for(self.id, &wanted, &self.patience(), &mut Vec::new());
        self.leads |= waited.leads;
        outcome
    }

    /// The same, to write what is at `place` then; does `xid` end (`ends`) that version, which was
    /// committed? Others may want to write it, too, and queue behind this transaction:
    /// [`Transaction::settle`] tells them whether it did. If others were first, a version of the
    /// row that is at least as new as the one at `place` may be known; whoever made it may be
    /// aborted, and it may be gone.
    pub fn wait_to_write(
        &mut self,
        xid: Xid,
        (place, ends): (Place, bool),
        mut reads: Reads<'_>,
    ) -> Result<Waited> {
        assert!(!self.owns(xid), "nobody waits for itself");
        points::hit("txn.wait");
        let mut unread = self.unread(&mut reads, ends);
        let given = unread.views.len();
        let wanted = Wanted { xid, place: Some(place), ends };
        let (waited, outcome) =
            self.manager.wait_for(self.id, &wanted, &self.patience(), &mut unread.views);
        self.leads |= waited.leads;
        let start = waited
            .anchor
            .map(|anchor| Start { at: anchor.start, view: View::of(&anchor, &self.manager) });
        let retired = given > 0 && unread.views.is_empty();
        assert!(!retired || start.is_some(), "whoever lets go is given the queue's anchor");
        if given > 0 {
            self.read_again(reads, unread, start.as_ref().filter(|_| retired));
        }
        outcome?;
        Ok(Waited { newest: waited.newest, start })
    }

    /// What is registered for nothing but the row that a statement waits for: its own snapshot, and
    /// that of the row's id, if no other id was given out by it. A queue of many would have each
    /// see another version of the row, and none of these could leave.
    fn unread(&mut self, reads: &mut Reads<'_>, ends: bool) -> Unread {
        let mut unread = Unread { views: Vec::new(), bound: 0, with_row: false };
        let may = ends && self.isolation == Isolation::ReadCommitted;
        let Some(slot) = reads.snapshot.as_mut().filter(|_| may) else { return unread };
        let ages = slot.as_ref().is_none_or(|snapshot| snapshot.can_age());
        if ages || self.handed_out.as_ref().is_some_and(|view| view.ages()) {
            return unread;
        }
        match slot.take().map(Arc::try_unwrap) {
            Some(Ok(snapshot)) => {
                let (view, bound) = snapshot.into_parts();
                unread.views.push(view);
                unread.bound = bound;
            }
            shared => {
                **slot = shared.and_then(|shared| shared.err());
                return unread;
            }
        }
        if reads.row.is_some() && reads.row == self.only {
            unread.with_row = self.handed_out.is_some();
            unread.views.extend(self.handed_out.take());
        }
        unread
    }

    /// After a wait: what was not let go is as before. Else the statement sees what there is now,
    /// and the id of its row means what the queue's anchor names.
    fn read_again(&mut self, reads: Reads<'_>, unread: Unread, start: Option<&Start>) {
        let mut views = unread.views.into_iter();
        let view = views.next().unwrap_or_else(|| View::take(&self.manager, self.id, false));
        let snapshot = Snapshot::new(view, Arc::clone(&self.own), unread.bound);
        *reads.snapshot.expect("a statement that gave its snapshot") = Some(Arc::new(snapshot));
        if !unread.with_row {
            return;
        }
        self.handed_out = views.next();
        if let Some(start) = start {
            self.handed_out = Some(Arc::clone(&start.view));
            self.moved = Some(start.at);
        }
    }

    /// Nothing but the row with this id was given out by the last read.
    pub fn only_gave_out(&mut self, row: (ObjectId, RowId)) {
        self.only = Some(row);
    }

    /// Is this the id by which the caller names a row that is elsewhere now? Then no other row may
    /// get it, for the caller.
    pub fn is_taken_name(&self, row: (ObjectId, RowId)) -> bool {
        self.only == Some(row) && self.moved.is_some_and(|at| at != row.1)
    }

    /// Where the row is that the caller names so.
    pub fn named(&self, (table, row): (ObjectId, RowId)) -> RowId {
        self.moved.filter(|_| self.only == Some((table, row))).unwrap_or(row)
    }

    /// From here on it waits to write the row at `place`, which others lock: no more may come to
    /// share it, until [`Transaction::settle`].
    pub fn contend(&mut self, place: Place, wants: RowLock) {
        self.contends = true;
        self.manager.contend(self.id, place, wants);
    }

    /// Does somebody wait to write the row at `place` whom this `lock` would keep waiting?
    pub fn is_contended(&self, place: Place, lock: RowLock) -> bool {
        self.lock_timeout != Some(Duration::ZERO) && self.manager.contended(self.id, place, lock)
    }

    /// Waits until such a writer has the row or gives up, unless that would be a deadlock. Errors:
    /// cancelled, lock timeout. The caller holds no latch (R12).
    pub fn let_writer_go_first(&mut self, place: Place, lock: RowLock) -> Result<()> {
        points::hit("txn.wait");
        self.manager.wait_behind(self.id, (place, lock), &self.patience())
    }

    /// The statement has ended the version of a row at `taken` and made another one of it, if it
    /// does not delete the row; or it does not write the row that it waited for.
    pub fn settle(&mut self, taken: Option<(Place, Option<RowId>)>) {
        if std::mem::take(&mut self.contends) {
            self.manager.state.lock().settle_contest(self.id);
        }
        if std::mem::take(&mut self.leads) {
            let mut state = self.manager.state.lock();
            match taken.zip(self.statement) {
                Some((taken, xid)) => state.has_taken(self.id, xid, taken),
                None => state.pass_on(self.id),
            }
            self.manager.refresh(&state);
        }
    }

    /// Locks a table until the end of the transaction; waits, detects deadlocks.
    pub fn lock_table(&mut self, table: ObjectId, mode: LockMode) -> Result<()> {
        let held = self.locks.iter().position(|(locked, _)| *locked == table);
        if held.is_some_and(|at| self.locks[at].1.cover(mode)) {
            return Ok(());
        }
        self.manager.lock_table(self.id, table, mode, &self.patience())?;
        let at = held.unwrap_or_else(|| {
            self.locks.push((table, Modes::default()));
            self.locks.len() - 1
        });
        self.locks[at].1.add(mode);
        Ok(())
    }

    /// Does it hold a lock of `table` that makes asking for `mode` needless?
    pub fn has_locked(&self, table: ObjectId, mode: LockMode) -> bool {
        self.locks.iter().any(|(locked, modes)| *locked == table && modes.cover(mode))
    }

    fn patience(&self) -> Patience<'_> {
        Patience { timeout: self.lock_timeout, cancelled: &self.cancelled }
    }

    /// How long later waits may last; `None`: without end.
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.lock_timeout = timeout;
    }

    /// How long waits may last; `None`: without end.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.lock_timeout
    }

    /// A handle by which another thread ends the waits of this transaction.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle {
            manager: Arc::clone(&self.manager),
            id: self.id,
            cancelled: Arc::clone(&self.cancelled),
        }
    }

    /// Fails if the transaction was cancelled; long loops ask now and then.
    pub fn check_cancelled(&self) -> Result<()> {
        match self.cancelled.load(Ordering::Acquire) {
            true => Err(Error::Cancelled("by request".to_string())),
            false => Ok(()),
        }
    }

    /// Forgets a cancel, so that the transaction can go on.
    pub fn clear_cancel(&mut self) {
        self.cancelled.store(false, Ordering::Release);
    }

    /// Its isolation level.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Its number in this process, as in [`TxnManager::running`].
    pub fn id(&self) -> u64 {
        self.id.0
    }

    /// Its manager.
    pub fn manager(&self) -> &Arc<TxnManager> {
        &self.manager
    }

    /// Commits: one log record; durable before it is visible unless `relaxed`. Returns the record's
    /// end, `Lsn(0)` if there was nothing to commit.
    pub fn commit(mut self, relaxed: bool) -> Result<Lsn> {
        self.ended = true;
        self.manager.commit(&Ending { id: self.id, own: &self.own, used: self.used }, relaxed)
    }

    /// Rolls back; also what dropping does.
    pub fn rollback(self) {}
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.ended {
            self.manager.abort(&Ending { id: self.id, own: &self.own, used: self.used });
        }
    }
}

/// Ends the waits of a transaction from another thread.
#[derive(Clone)]
pub struct CancelHandle {
    manager: Arc<TxnManager>,
    id: TxnId,
    cancelled: Arc<AtomicBool>,
}

impl CancelHandle {
    /// The transaction's number in this process.
    pub fn transaction(&self) -> u64 {
        self.id.0
    }

    /// Cancels: the wait of now fails with [`Error::Cancelled`], and so does every wait and
    /// statement from here on until [`Transaction::clear_cancel`]. Nothing happens if the
    /// transaction has ended.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.manager.ring_bell(self.id);
    }
}
