//! All live snapshots at one moment, for pruning (R9).
//!
//! Invariants: a set is copied under the lock that registers snapshots.
//! Does not do: prune (`heap`).

use crate::ids::{Csn, Xid};
use crate::txn::manager::TxnManager;

/// The live snapshots at one moment (R9), and the one that could be taken at that moment. Later
/// snapshots have a commit number at least as large as the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSet {
    /// Commit numbers, ascending, each once. Never empty.
    pub csns: Vec<Csn>,
    /// For each commit number, the smallest xmin of its snapshots.
    pub xmins: Vec<Xid>,
    /// The horizon at that moment.
    pub horizon: Xid,
}

impl SnapshotSet {
    /// Could a snapshot, live or to come, see a version that commit `created` created and commit
    /// `deleted` replaced? Only a snapshot in between can.
    pub fn sees_between(&self, created: Csn, deleted: Csn) -> bool {
        let at = self.csns.partition_point(|csn| *csn < created);
        match self.csns.get(at) {
            Some(csn) => *csn < deleted,
            // Created after this set was taken: a later snapshot may see it.
            None => true,
        }
    }
}

impl TxnManager {
    /// The snapshots that live now, copied under the lock that registers snapshots (R9).
    pub fn live_snapshots(&self) -> SnapshotSet {
        let state = self.state.lock();
        let mut csns: Vec<Csn> = state.snapshots.csns().map(|csn| Csn(*csn)).collect();
        let mut xmins: Vec<Xid> = state.snapshots.points().map(|live| Xid(live.xmin)).collect();
        if csns.last() != Some(&Csn(state.csn)) {
            csns.push(Csn(state.csn));
            xmins.push(Xid(state.xids.finished_below()));
        }
        SnapshotSet { csns, xmins, horizon: Xid(state.horizon()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_snapshot_in_between_sees_a_replaced_version() {
        let set = SnapshotSet {
            csns: vec![Csn(5), Csn(9), Csn(20)],
            xmins: vec![Xid(1); 3],
            horizon: Xid(1),
        };
        assert!(set.sees_between(Csn(5), Csn(6)) && set.sees_between(Csn(2), Csn(6)));
        assert!(!set.sees_between(Csn(6), Csn(9)) && !set.sees_between(Csn(10), Csn(20)));
        assert!(set.sees_between(Csn(20), Csn(21)) && set.sees_between(Csn(21), Csn(22)));
    }
}
