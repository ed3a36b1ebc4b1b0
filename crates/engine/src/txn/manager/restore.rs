//! Restoring prepared transactions when a database is opened.
//!
//! Invariants: a transaction is restored while nothing else runs, before anything asks for the
//! outcome of its xids.
//! Does not do: the transaction itself (`transaction::prepare`).

use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, Ordering};

use crate::error::{Error, Result};
use crate::ids::Xid;
use crate::txn::lock::prepared::{PreparedLock, PreparedState};
use crate::txn::lock::state::Isolation;
use crate::txn::lock::table_lock::{ModeSet, RequestOutcome};
use crate::txn::manager::TxnManager;
use crate::txn::xid::TxnId;
use crate::txn::xid::set::{MAX_RUN, XidRun, XidSet};

impl TxnManager {
    /// Lists the transaction of `saved` as a running one that is prepared, with its xids and its
    /// table locks.
    ///
    /// # Errors
    /// `Corruption` if the state is none that a prepared transaction can have.
    pub(in crate::txn) fn adopt(&self, saved: &PreparedState) -> Result<(TxnId, Arc<XidSet>)> {
        let xids = Arc::new(self.restored_xids(saved)?);
        let mut state = self.state.lock();
        let id = state.begin(Isolation::ReadCommitted, self.options.clock.now());
        for run in xids.runs() {
            state.adopt_run(id, run);
        }
        state.txn(id).prepared = true;
        let next = state.xids.next();
        state.restored.add(id, saved, next);
        for PreparedLock { table, modes } in &saved.tables {
            state.txn(id).locked_tables.push(*table);
            let modes = ModeSet::from_bits(*modes).ok_or_else(|| damaged("lock modes"))?;
            for mode in modes.modes() {
                if state.table_locks.request(id, *table, mode) != RequestOutcome::Granted {
                    return Err(damaged("table locks that exclude each other"));
                }
            }
        }
        // They were published as if nothing had been running.
        self.finished_below.store(state.xids.finished_below(), Ordering::Release);
        self.horizon.store(state.horizon(), Ordering::Release);
        drop(state);
        self.restored.lock().push(Arc::clone(&xids));
        self.has_restored.store(true, Ordering::Release);
        Ok((id, xids))
    }

    /// The xids of a state as runs.
    fn restored_xids(&self, saved: &PreparedState) -> Result<XidSet> {
        let (mut xids, mut least) = (XidSet::default(), self.oldest_xid().0);
        for range in &saved.xids {
            if range.start < least || range.is_empty() || range.end > self.next_xid().0 {
                return Err(damaged("xids that it cannot have"));
            }
            least = range.end;
            let mut from = range.start;
            while from < range.end {
                let end = range.end.min(from + MAX_RUN);
                xids.push(Arc::new(XidRun::new(from..end)));
                from = end;
            }
        }
        Ok(xids)
    }

    /// Was `xid`, of an earlier process, prepared when the database was opened? Its commit number
    /// is one of this process.
    pub(in crate::txn) fn was_restored(&self, xid: Xid) -> bool {
        self.has_restored.load(Ordering::Acquire)
            && !broken(Broken::RestoredCommitNumberIgnored)
            && self.restored.lock().iter().any(|xids| xids.find(xid.0).is_some())
    }
}

fn damaged(what: &str) -> Error {
    Error::corrupt_file("catalog", format!("a prepared transaction has {what}"))
}
