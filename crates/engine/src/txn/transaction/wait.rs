//! Waiting for other transactions: for the end of a statement, or for the turn to write a row.
//!
//! A statement that reads nothing after the row that it waits for releases its snapshot meanwhile:
//! else each member of a long queue would keep another version of the row from being pruned. The
//! anchor of the queue takes the place of the released snapshots.
//!
//! Invariants: snapshots are released only if an anchor comes in their place. The caller holds no
//! latch (R12).
//! Does not do: what to do about the row after the wait (`table`).

use std::time::Duration;

use rightlink_env::points;
use rightlink_env::sync::{Arc, Ordering};

use crate::error::{Error, Result};
use crate::ids::{ObjectId, RowId, Xid};
use crate::txn::lock::row_lock::{RowLock, RowVersion, VersionLink};
use crate::txn::lock::row_wait_queue::{Anchored, RowWait, WrittenRow};
use crate::txn::lock::state::Anchor;
use crate::txn::lock::state::Isolation;
use crate::txn::lock::table_lock::{LockMode, ModeSet};
use crate::txn::manager::TxnManager;
use crate::txn::manager::wait::WaitLimit;
use crate::txn::snapshot::Snapshot;
use crate::txn::snapshot::registered::RegisteredSnapshot;
use crate::txn::transaction::Transaction;
use crate::txn::xid::TxnId;

/// What a statement reads by, if it reads nothing after the row that it waits for. The wait may
/// release it.
#[derive(Default)]
pub struct ReleasableReads<'s> {
    /// Its snapshot; another one afterwards.
    pub snapshot: Option<&'s mut Option<Arc<Snapshot>>>,
    /// The row id by which the caller named the row.
    pub named_row: Option<RowVersion>,
}

/// What a statement knows about a row after it has waited for it.
pub struct RowWaitResult {
    /// A version at least as new as the one that was waited for.
    pub newest: Option<VersionLink>,
    /// Where to look for the row if there is no such version, or if it is gone.
    pub anchor: Option<AnchoredVersion>,
}

/// A version that stays where it is while this lives (R9).
pub struct AnchoredVersion {
    /// Where it lies.
    pub at: RowId,
    registered: Arc<RegisteredSnapshot>,
}

/// Snapshots that may be released during a wait.
struct ReleasedReads {
    /// That of the statement, then that of the row ids.
    snapshots: Vec<Arc<RegisteredSnapshot>>,
    /// The bound of own xids of the statement's snapshot.
    own_bound: u64,
    /// The second one is there.
    with_row_ids: bool,
}

/// What a transaction waits for.
enum WaitFor {
    /// The end of this xid.
    Xid(Xid),
    /// Its turn to write a row.
    Row(RowWait),
}

/// The end of a wait.
struct WaitEnd {
    outcome: Result<()>,
    /// A queue waits for the transaction to write or decline the row.
    has_grant: bool,
    /// The version that the queue knew last.
    newest: Option<VersionLink>,
    /// From where to look for the row; registered for the transaction.
    anchor: Option<Anchor>,
}

impl TxnManager {
    /// Waits until the xid is no longer in progress, and for a row until it is the turn of `id`
    /// after that. If the transaction gets an anchor however the wait ends, `releasable` snapshots
    /// are released meanwhile.
    fn wait_for(
        &self,
        id: TxnId,
        wait: &WaitFor,
        limit: &WaitLimit<'_>,
        releasable: &mut Vec<Arc<RegisteredSnapshot>>,
    ) -> WaitEnd {
        let mut state = self.state.lock();
        let mut outcome = Ok(());
        let (WaitFor::Xid(xid) | WaitFor::Row(RowWait { xid, .. })) = *wait;
        if let Some(owner) = state.xids.live_owner(xid.0) {
            assert_ne!(owner, id, "no transaction waits for itself");
            let anchored = match wait {
                WaitFor::Xid(xid) => {
                    state.wait_for_xid(id, *xid, owner);
                    Anchored::No
                }
                WaitFor::Row(row) => state.enqueue(id, owner, *row),
            };
            if anchored == Anchored::Yes && !releasable.is_empty() {
                RegisteredSnapshot::retire(releasable, &mut state);
                self.publish_bounds(&state);
            }
            state = match self.block(state, id, limit) {
                Ok(state) => state,
                Err(error) => {
                    outcome = Err(error);
                    self.state.lock()
                }
            };
        }
        let txn = state.txn(id);
        WaitEnd {
            outcome,
            has_grant: txn.granted_queue.is_some(),
            newest: txn.newest.take(),
            anchor: txn.anchor.take(),
        }
    }
}

impl Transaction {
    /// Waits until the transaction that owns `xid` has ended (or aborted that statement). Errors:
    /// deadlock, cancelled, lock timeout. The caller holds no latch (R12).
    pub fn wait_for(&mut self, xid: Xid) -> Result<()> {
        assert!(!self.owns(xid), "no transaction waits for itself");
        points::hit("txn.wait");
        let wait = WaitFor::Xid(xid);
        let end = self.manager.wait_for(self.id, &wait, &self.wait_limit(), &mut Vec::new());
        self.may_have_grant |= end.has_grant;
        end.outcome
    }

    /// The same, in order to write a row then. Transactions that want to write the row, too, queue
    /// behind this one until [`Transaction::finish_row_wait`]. If others have written it first, a
    /// version of the row may be known that is at least as new as the one waited for; its creator
    /// may be aborted, and it may be gone.
    pub fn wait_to_write(
        &mut self,
        wait: RowWait,
        mut reads: ReleasableReads<'_>,
    ) -> Result<RowWaitResult> {
        assert!(!self.owns(wait.xid), "no transaction waits for itself");
        points::hit("txn.wait");
        let mut released = self.releasable(&mut reads, wait.ends_version);
        let given = released.snapshots.len();
        let end = self.manager.wait_for(
            self.id,
            &WaitFor::Row(wait),
            &self.wait_limit(),
            &mut released.snapshots,
        );
        self.may_have_grant |= end.has_grant;
        let anchor = end.anchor.map(|anchor| AnchoredVersion {
            at: anchor.start,
            registered: RegisteredSnapshot::of_anchor(&anchor, &self.manager),
        });
        let retired = given > 0 && released.snapshots.is_empty();
        assert!(!retired || anchor.is_some(), "an anchor replaces released snapshots");
        if given > 0 {
            self.restore_reads(reads, released, anchor.as_ref().filter(|_| retired));
        }
        end.outcome?;
        Ok(RowWaitResult { newest: end.newest, anchor })
    }

    /// The snapshots that are registered only for the row that a statement waits for: its own one,
    /// and that of the row ids if the last read gave out no other row id.
    fn releasable(&mut self, reads: &mut ReleasableReads<'_>, ends_version: bool) -> ReleasedReads {
        let mut released =
            ReleasedReads { snapshots: Vec::new(), own_bound: 0, with_row_ids: false };
        let may = ends_version && self.isolation == Isolation::ReadCommitted;
        let Some(slot) = reads.snapshot.as_mut().filter(|_| may) else { return released };
        let expires = slot.as_ref().is_none_or(|snapshot| snapshot.may_expire());
        if expires || self.handed_out.as_ref().is_some_and(|snapshot| snapshot.may_expire()) {
            return released;
        }
        match slot.take().map(Arc::try_unwrap) {
            Some(Ok(snapshot)) => {
                let (registered, own_bound) = snapshot.into_parts();
                released.snapshots.push(registered);
                released.own_bound = own_bound;
            }
            shared => {
                **slot = shared.and_then(|shared| shared.err());
                return released;
            }
        }
        if reads.named_row.is_some() && reads.named_row == self.only_row {
            released.with_row_ids = self.handed_out.is_some();
            released.snapshots.extend(self.handed_out.take());
        }
        released
    }

    /// After a wait: snapshots that were not released are as before. Else the statement gets a
    /// snapshot of now, and its row id means the version that `anchor` names.
    fn restore_reads(
        &mut self,
        reads: ReleasableReads<'_>,
        released: ReleasedReads,
        anchor: Option<&AnchoredVersion>,
    ) {
        let mut snapshots = released.snapshots.into_iter();
        let take = || RegisteredSnapshot::take(&self.manager, self.id, false);
        let registered = snapshots.next().unwrap_or_else(take);
        let snapshot = Snapshot::new(registered, Arc::clone(&self.xids), released.own_bound);
        *reads.snapshot.expect("a statement that released its snapshot") = Some(Arc::new(snapshot));
        if !released.with_row_ids {
            return;
        }
        self.handed_out = snapshots.next();
        if let Some(anchor) = anchor {
            self.handed_out = Some(Arc::clone(&anchor.registered));
            self.moved_to = Some(anchor.at);
        }
    }

    /// Ends a claim and a turn in a queue, if there are any. The statement has `written` the row
    /// that it waited for, or declines it.
    pub fn finish_row_wait(&mut self, written: Option<WrittenRow>) {
        if std::mem::take(&mut self.has_claim) {
            self.manager.state.lock().release_claim(self.id);
        }
        if std::mem::take(&mut self.may_have_grant) {
            let mut state = self.manager.state.lock();
            match written.zip(self.statement) {
                Some((written, xid)) => state.use_grant(self.id, xid, written),
                None => state.decline_row(self.id),
            }
            self.manager.publish_bounds(&state);
        }
    }

    /// The last read gave out no row id but that of `row`.
    pub fn handed_out_only(&mut self, row: RowVersion) {
        self.only_row = Some(row);
    }

    /// Is `row` the id by which the caller names a row that lies elsewhere now? Then no other row
    /// may get this id, for the caller.
    pub fn names_moved_row(&self, row: RowVersion) -> bool {
        self.only_row == Some(row) && self.moved_to.is_some_and(|at| at != row.row)
    }

    /// Where the row lies that the caller names `row`.
    pub fn current_row_id(&self, row: RowVersion) -> RowId {
        self.moved_to.filter(|_| self.only_row == Some(row)).unwrap_or(row.row)
    }

    /// Claims `row`, whose sharers the transaction waits for: no more may come to share it until
    /// [`Transaction::finish_row_wait`].
    pub fn claim_row(&mut self, row: RowVersion, wants: RowLock) {
        self.has_claim = true;
        self.manager.claim_row(self.id, row, wants);
    }

    /// Does another transaction wait to write `row` which this `lock` would keep waiting?
    pub fn has_priority_writer(&self, row: RowVersion, lock: RowLock) -> bool {
        self.lock_timeout != Some(Duration::ZERO)
            && self.manager.has_priority_writer(self.id, row, lock)
    }

    /// Waits until such a writer has the row or gives up, unless that would be a deadlock. Errors:
    /// cancelled, lock timeout. The caller holds no latch (R12).
    pub fn wait_behind_writer(&mut self, row: RowVersion, lock: RowLock) -> Result<()> {
        points::hit("txn.wait");
        self.manager.wait_behind_writer(self.id, row, lock, &self.wait_limit())
    }

    /// Locks a table until the end of the transaction; waits, detects deadlocks.
    pub fn lock_table(&mut self, table: ObjectId, mode: LockMode) -> Result<()> {
        let held = self.table_locks.iter().position(|(locked, _)| *locked == table);
        if held.is_some_and(|at| self.table_locks[at].1.covers(mode)) {
            return Ok(());
        }
        self.manager.lock_table(self.id, table, mode, &self.wait_limit())?;
        let at = held.unwrap_or_else(|| {
            self.table_locks.push((table, ModeSet::default()));
            self.table_locks.len() - 1
        });
        self.table_locks[at].1.add(mode);
        Ok(())
    }

    /// Does it hold a lock of `table` that makes a request for `mode` needless?
    pub fn has_locked(&self, table: ObjectId, mode: LockMode) -> bool {
        self.table_locks.iter().any(|(locked, modes)| *locked == table && modes.covers(mode))
    }

    fn wait_limit(&self) -> WaitLimit<'_> {
        WaitLimit { timeout: self.lock_timeout, cancelled: &self.cancelled }
    }

    /// How long later waits may last; `None`: without end.
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.lock_timeout = timeout;
    }

    /// How long waits may last; `None`: without end.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.lock_timeout
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
}
