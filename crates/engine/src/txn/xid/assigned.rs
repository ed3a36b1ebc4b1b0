//! The xids that running transactions own, and the next xid to assign.
//!
//! Invariants: each run of xids of a running transaction is in `owners`, and the first xid of each
//! is in `firsts`. Only xids below `limit` are assigned; the log knows `limit`. Maps are ordered,
//! so that one seed gives one run of a simulation.
//! Does not do: raise the limit (`manager::allocate`).

use std::collections::{BTreeMap, BTreeSet};

use rightlink_env::sync::Arc;

use crate::txn::xid::TxnId;
use crate::txn::xid::set::{XidRun, XidSet};

/// One run of xids, and the running transaction that owns it.
struct Assignment {
    owner: TxnId,
    run: Arc<XidRun>,
}

/// The xids of all running transactions.
pub(in crate::txn) struct AssignedXids {
    next: u64,
    limit: u64,
    /// By the first xid of the run.
    owners: BTreeMap<u64, Assignment>,
    /// The first xid of each running transaction that has one.
    firsts: BTreeSet<u64>,
}

impl AssignedXids {
    /// No transaction runs; `next` is the first xid to assign.
    pub(in crate::txn) fn new(next: u64, limit: u64) -> AssignedXids {
        AssignedXids { next, limit, owners: BTreeMap::new(), firsts: BTreeSet::new() }
    }

    /// The first xid that is not assigned yet.
    pub(in crate::txn) fn next(&self) -> u64 {
        self.next
    }

    /// Xids at or above this one may not be assigned.
    pub(in crate::txn) fn limit(&self) -> u64 {
        self.limit
    }

    /// Moves the limit. The log has it already.
    pub(in crate::txn) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Assigns the next `len` xids to `owner`, which has none yet if they are `its_first`.
    pub(in crate::txn) fn assign(
        &mut self,
        owner: TxnId,
        len: u64,
        its_first: bool,
    ) -> Arc<XidRun> {
        assert!(self.next + len <= self.limit, "only xids below the logged limit are assigned");
        let run = Arc::new(XidRun::new(self.next..self.next + len));
        self.next += len;
        self.owners.insert(run.start(), Assignment { owner, run: Arc::clone(&run) });
        if its_first {
            self.firsts.insert(run.start());
        }
        run
    }

    /// Lists a run of an earlier process, whose owner is restored.
    pub(in crate::txn) fn adopt(&mut self, owner: TxnId, run: &Arc<XidRun>, its_first: bool) {
        assert!(run.end() <= self.next, "the run was assigned before");
        self.owners.insert(run.start(), Assignment { owner, run: Arc::clone(run) });
        if its_first {
            self.firsts.insert(run.start());
        }
    }

    /// The transaction that owned `xids` has ended; `first` is the lowest of them.
    pub(in crate::txn) fn release(&mut self, first: Option<u64>, xids: &XidSet) {
        for run in xids.runs() {
            self.owners.remove(&run.start());
        }
        if let Some(first) = first {
            self.firsts.remove(&first);
        }
    }

    /// The running transaction that owns `xid`, and the run that `xid` is in.
    pub(in crate::txn) fn owner(&self, xid: u64) -> Option<(TxnId, &XidRun)> {
        let (_, Assignment { owner, run }) = self.owners.range(..=xid).next_back()?;
        run.contains(xid).then_some((*owner, &**run))
    }

    /// As [`AssignedXids::owner`], unless `xid` itself is aborted already.
    pub(in crate::txn) fn live_owner(&self, xid: u64) -> Option<TxnId> {
        self.owner(xid).filter(|(_, run)| !run.is_aborted(xid)).map(|(id, _)| id)
    }

    /// Every xid below is finished.
    pub(in crate::txn) fn finished_below(&self) -> u64 {
        self.firsts.first().copied().unwrap_or(self.next)
    }
}
