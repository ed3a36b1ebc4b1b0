//! Writers that wait for a row which others share: no more may join those.
//!
//! Whoever shares a row passes by nobody who waits to write it: with sharers that come and go there
//! would always be one, and the writer would wait for ever. A writer that meets lockers in its way
//! contends for the row until it has it or gives up, and who comes to share the row meanwhile waits
//! for that, unless it has a lock of the row already.
//!
//! That wait is for nothing that anybody holds, so it must not be what a deadlock is made of: where
//! it would be part of a ring it ends, and the newcomer passes by the writer after all.
//!
//! Invariants: a transaction contends for one row at a time; whoever waits behind a contender is
//! woken when that has settled, ends or dissolves a ring.
//! Does not do: stop those that would not wait; put sharers or writers in an order.

use std::collections::BTreeSet;

use rightlink_env::points::broken;

use crate::error::Result;
use crate::txn::lock::multixact::RowLock;
use crate::txn::lock::row_wait_queue::Place;
use crate::txn::lock::state::{State, TxnId, Wait};
use crate::txn::manager::TxnManager;
use crate::txn::manager::wait::Patience;

impl TxnManager {
    /// From now on `id` waits for the lockers of the row at `place`, which it wants so.
    pub(in crate::txn) fn contend(&self, id: TxnId, place: Place, wants: RowLock) {
        let mut state = self.state.lock();
        if state.txn(id).contends == Some(place) {
            return;
        }
        state.settle_contest(id);
        state.contenders.entry(place).or_default().push((id, wants));
        state.txn(id).contends = Some(place);
    }

    /// Does a writer contend for the row at `place` which `lock` would keep waiting?
    pub(in crate::txn) fn contended(&self, id: TxnId, place: Place, lock: RowLock) -> bool {
        self.state.lock().contender(id, place, lock).is_some()
    }

    /// Lets such a writer go first.
    pub(in crate::txn) fn wait_behind(
        &self,
        id: TxnId,
        (place, lock): (Place, RowLock),
        patience: &Patience<'_>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(writer) = state.contender(id, place, lock) {
            state.txn(writer).behind.push(id);
            state.txn(id).wait = Some(Wait::Contender(writer));
            drop(self.block(state, id, patience)?);
        }
        Ok(())
    }
}

impl State {
    fn contender(&self, id: TxnId, place: Place, lock: RowLock) -> Option<TxnId> {
        let all = self.contenders.get(&place).filter(|_| !broken("lock-fair"))?;
        let mut all = all.iter().filter(|(writer, _)| *writer != id);
        all.find(|(_, wants)| !wants.is_compatible(lock)).map(|(writer, _)| *writer)
    }

    /// `id` has the row that it contended for, or does not want it any more.
    pub(in crate::txn) fn settle_contest(&mut self, id: TxnId) {
        let Some(place) = self.txn(id).contends.take() else { return };
        if let Some(all) = self.contenders.get_mut(&place) {
            all.retain(|(writer, _)| *writer != id);
            if all.is_empty() {
                self.contenders.remove(&place);
            }
        }
        for behind in std::mem::take(&mut self.txn(id).behind) {
            self.wake(behind);
        }
    }

    /// `id` does not wait behind `writer` any more.
    pub(in crate::txn) fn leave_contest(&mut self, id: TxnId, writer: TxnId) {
        self.txn(writer).behind.retain(|behind| *behind != id);
    }

    /// Ends the waits behind contenders that `id` waits for through others, its own among them.
    /// Were there any?
    pub(in crate::txn) fn dissolve_contests(&mut self, id: TxnId) -> bool {
        let (mut seen, mut open) = (BTreeSet::new(), vec![id]);
        while let Some(node) = open.pop() {
            if seen.insert(node) {
                open.extend(self.blockers(node));
            }
        }
        let mut any = false;
        for node in seen {
            if let Some(Wait::Contender(writer)) = self.txn(node).wait {
                self.leave_contest(node, writer);
                self.wake(node);
                any = true;
            }
        }
        any
    }
}
