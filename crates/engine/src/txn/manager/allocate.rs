//! Assigning xids, and the ceiling below which the log allows it.
//!
//! A transaction gets xids in runs of 1, 4, 8 .. 1024; what it does not use is aborted when it
//! ends. The ceiling on disk ("limit") rises in steps that double from 1,024 to 65,536 xids.
//! Opening starts at the ceiling; a clean close lowers it, so that opening often costs no xids.
//! From [`FEW_LEFT`] xids on the log is warned; at [`MAX_XID`] statements that write are refused.
//!
//! Invariants: the log record of the ceiling precedes every record that names an xid below it, so
//! no xid is assigned twice, not even after a crash. The slots of assigned xids are recent ones, or
//! their commit numbers are spilled.
//! Does not do: wraparound; xids of 64 bits do not come round.

use rightlink_env::sync::{Arc, Ordering};

use crate::error::{Error, Result};
use crate::txn::lock::wakeup::StateGuard;
use crate::txn::manager::TxnManager;
use crate::txn::status::file::StatusMeta;
use crate::txn::status::segment::MAX_XID;
use crate::txn::xid::TxnId;
use crate::txn::xid::set::{MAX_RUN, XidRun};

/// Most spills while xids are assigned: commit numbers that cannot be written stay in memory, and
/// so limit what may follow.
const MAX_SPILLS: usize = 8;
const MIN_STEP: u64 = 1 << 10;
/// The ceiling rises by at most so many xids.
pub(in crate::txn) const MAX_STEP: u64 = 1 << 16;
/// When so few xids are left, a warning is logged: 17 years at a million a second.
const FEW_LEFT: u64 = MAX_XID / 16;
/// It is logged again whenever this many more were used.
const WARN_EVERY: u64 = FEW_LEFT / 1024;

/// The meta page as last written, and how far the next raise goes.
pub(in crate::txn) struct Ceiling {
    pub(in crate::txn) meta: StatusMeta,
    step: u64,
}

impl Ceiling {
    /// The ceiling that the meta page says.
    pub(in crate::txn) fn new(meta: StatusMeta) -> Ceiling {
        Ceiling { meta, step: MIN_STEP }
    }
}

impl TxnManager {
    /// Xids that can still be assigned.
    pub fn xids_left(&self) -> u64 {
        MAX_XID - self.next_xid().0
    }

    /// Assigns `len` xids to the transaction `id`.
    pub(in crate::txn) fn assign_xids(&self, id: TxnId, len: u64) -> Result<Arc<XidRun>> {
        assert!((1..=MAX_RUN).contains(&len), "a run is short");
        loop {
            let state = self.state.lock();
            state.check_healthy()?;
            if state.sealed {
                return Err(Error::Invalid("the database is being closed".to_string()));
            }
            let end = state.xids.next() + len;
            if end > state.xids.limit() {
                drop(state);
                self.raise_limit(end)?;
            } else if state.spills.len() > MAX_SPILLS {
                drop(state);
                self.spill()?;
            } else if end > self.recent.floor() + self.recent.capacity() {
                self.make_recent_slots(state, end)?;
            } else {
                return Ok(self.assign_now(state, id, len));
            }
        }
    }

    fn assign_now(&self, mut state: StateGuard<'_>, id: TxnId, len: u64) -> Arc<XidRun> {
        let next = state.xids.next();
        self.recent.open(next..next + len);
        let run = state.assign_xids(id, len);
        self.next.store(state.xids.next(), Ordering::Release);
        run
    }

    /// Gives up old slots of the recent outcomes so that xids below `end` fit, and spills the
    /// commit numbers in them.
    fn make_recent_slots(&self, mut state: StateGuard<'_>, end: u64) -> Result<()> {
        let least = end - self.recent.capacity();
        let floor = (least + self.recent.capacity() / 8).min(state.xids.next()).max(least);
        self.give_up_slots(&mut state, floor);
        drop(state);
        self.spill()
    }

    /// Raises the ceiling so that xids below `end` may be assigned.
    fn raise_limit(&self, end: u64) -> Result<()> {
        let mut ceiling = self.ceiling.lock();
        if ceiling.meta.limit >= end || self.state.lock().sealed {
            return Ok(());
        }
        if end > MAX_XID {
            let what = format!(
                "all {MAX_XID} transaction ids of this database are used up: it can be read, and \
                 its tables exported and loaded into a new database"
            );
            return Err(Error::Limit(what));
        }
        let before = ceiling.meta.limit;
        let limit = end.max(before + ceiling.step).min(MAX_XID);
        let meta = StatusMeta { limit, ..ceiling.meta };
        self.file.reserve(before..limit)?;
        self.file.set_meta(meta)?;
        ceiling.meta = meta;
        ceiling.step = (ceiling.step * 2).clamp(MIN_STEP, MAX_STEP);
        self.state.lock().xids.set_limit(limit);
        if (MAX_XID - limit) / WARN_EVERY != (MAX_XID - before) / WARN_EVERY {
            self.warn_if_few_are_left(limit);
        }
        Ok(())
    }

    /// Stops the assigning of xids and lowers the ceiling to the first one not assigned. For a
    /// clean close, before its checkpoint; nothing that writes may be running, but
    /// prepared transactions stay.
    pub fn seal(&self) -> Result<()> {
        let mut ceiling = self.ceiling.lock();
        let mut state = self.state.lock();
        if state.has_writer() {
            return Err(Error::Invalid("transactions are still running".to_string()));
        }
        state.check_healthy()?;
        state.sealed = true;
        let limit = state.xids.next();
        state.xids.set_limit(limit);
        drop(state);
        if ceiling.meta.limit != limit {
            let meta = StatusMeta { limit, ..ceiling.meta };
            self.file.set_meta(meta)?;
            ceiling.meta = meta;
        }
        Ok(())
    }

    /// Logs a warning if most xids that there can ever be lie below `next`.
    pub(in crate::txn) fn warn_if_few_are_left(&self, next: u64) {
        let left = MAX_XID - next;
        if left < FEW_LEFT {
            let what = format!(
                "{left} transaction ids of {MAX_XID} are left: when they are used up, the \
                 database can only be read; load its tables into a new one before"
            );
            self.options.logger.warn(&what);
        }
    }
}
