//! Queues of transactions that want to write the same row.
//!
//! If the end of a statement woke all of them, each would look at the row, and all but one would
//! wait again. So they queue, and only the first is woken: the row is granted to it. When the
//! grantee writes the row, the whole queue waits for its statement without waking. When it declines
//! or ends, the row is granted to the next.
//!
//! A hand-over changes the blocker of the queue, not its members, so its cost does not depend on
//! their number. The queue knows the newest version, so a grantee need not walk the chain.
//!
//! Each member has an edge to the queue's blocker in the graph of waits. An edge to a grantee comes
//! about only while the grantee runs, so it closes no cycle. If one closes when the grantee is
//! about to wait, its queue is disbanded first: each member may find the row free without a cycle.
//!
//! Invariants: only transactions under read committed queue, because the others get a conflict as
//! soon as the row has changed. A queue is never empty, and its blocker names it. A grantee writes
//! or declines the row before its statement ends. A transaction has at most one granted queue.
//! Does not do: keep late arrivals from overtaking a grantee.

use rightlink_env::Broken;
use std::collections::VecDeque;

use rightlink_env::points::broken;

use crate::ids::{RowId, Xid};
use crate::txn::lock::row_lock::RowVersion;
use crate::txn::lock::state::{
    Anchor, Blocker, Isolation, RowQueueId, RowWaitQueue, SharedState, WaitTarget, Waiter,
    WaitingParty,
};
use crate::txn::xid::TxnId;

/// A wait for the statement that wrote or locked a row, in order to write the row.
#[derive(Clone, Copy, Debug)]
pub struct RowWait {
    /// The xid of that statement.
    pub xid: Xid,
    /// The version that the waiter wants to write.
    pub version: RowVersion,
    /// The statement has replaced or deleted that version, whose creator has committed.
    pub ends_version: bool,
}

/// What a statement made of the row that it waited for.
#[derive(Clone, Copy, Debug)]
pub struct WrittenRow {
    /// The version that it replaced or deleted.
    pub version: RowVersion,
    /// Where the new version lies; `None` if the row was deleted.
    pub successor: Option<RowId>,
}

/// Does a waiter get an [`Anchor`] when its wait ends, however that ends?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum Anchored {
    Yes,
    No,
}

impl SharedState {
    /// `id` waits for the end of `xid`, which belongs to `owner`.
    pub(in crate::txn) fn wait_for_xid(&mut self, id: TxnId, xid: Xid, owner: TxnId) {
        self.txn(owner).waiters.push(Waiter { xid, party: WaitingParty::Txn(id) });
        self.txn(id).wait = Some(WaitTarget::Xid { xid, owner });
    }

    /// `id` waits to write a row after the statement `wait.xid` of `owner`, behind those that want
    /// the same. The queue has an anchor from the first member on that can tell that the statement
    /// ends the version.
    pub(in crate::txn) fn enqueue(&mut self, id: TxnId, owner: TxnId, wait: RowWait) -> Anchored {
        if self.txn(id).isolation != Isolation::ReadCommitted {
            self.wait_for_xid(id, wait.xid, owner);
            return Anchored::No;
        }
        let known = self.queue_for(owner, wait.xid, wait.version);
        let queue = known.unwrap_or_else(|| self.new_row_queue(owner, wait));
        if wait.ends_version && self.queue(queue).anchor.is_none() {
            // The statement has not ended, or `xid` would have no owner: a snapshot of now sees
            // the version.
            let anchor = self.new_anchor(wait.version.row, id);
            self.queue(queue).anchor = Some(anchor);
        }
        let queued = self.queue(queue);
        queued.members.push_back(id);
        let anchored = if queued.anchor.is_some() { Anchored::Yes } else { Anchored::No };
        self.txn(id).wait = Some(WaitTarget::RowQueue(queue));
        anchored
    }

    fn new_row_queue(&mut self, owner: TxnId, wait: RowWait) -> RowQueueId {
        let RowWait { xid, version, .. } = wait;
        self.next_row_queue += 1;
        let queue = RowQueueId(self.next_row_queue);
        let (blocker, members) = (Blocker::Statement { xid, owner }, VecDeque::new());
        let queued = RowWaitQueue { version, blocker, members, newest: None, anchor: None };
        self.row_queues.insert(queue, queued);
        self.txn(owner).waiters.push(Waiter { xid, party: WaitingParty::Queue(queue) });
        queue
    }

    /// Registers a snapshot of now for `by`, which sees the version at `start`.
    fn new_anchor(&mut self, start: RowId, by: TxnId) -> Anchor {
        let point = self.register(by);
        Anchor { point, xmax: self.xids.next(), start }
    }

    /// Registers the snapshot of `anchor` once more, for `id`.
    fn share_anchor(&mut self, anchor: Option<Anchor>, id: TxnId) {
        let Some(anchor) = anchor else { return };
        self.register_at(anchor.point, id);
        let before = self.txn(id).anchor.replace(anchor);
        self.drop_anchor(before);
    }

    /// Ends one registration of the snapshot of `anchor`.
    pub(in crate::txn) fn drop_anchor(&mut self, anchor: Option<Anchor>) {
        if let Some(anchor) = anchor {
            self.deregister(anchor.point.csn);
        }
    }

    /// The queue of those that wait for `xid` of `owner` to write `version`.
    fn queue_for(&self, owner: TxnId, xid: Xid, version: RowVersion) -> Option<RowQueueId> {
        self.running.get(&owner)?.waiters.iter().find_map(|waiter| match waiter.party {
            WaitingParty::Queue(queue) if waiter.xid == xid => {
                (self.row_queues[&queue].version == version).then_some(queue)
            }
            _ => None,
        })
    }

    fn queue(&mut self, id: RowQueueId) -> &mut RowWaitQueue {
        self.row_queues.get_mut(&id).expect("a queue is listed while it has members")
    }

    /// What the queue `id` waits for.
    pub(in crate::txn) fn blocker(&self, id: RowQueueId) -> Blocker {
        self.row_queues[&id].blocker
    }

    /// Ends these waits in the order of arrival; of a queue only that of the first member.
    pub(in crate::txn) fn wake_waiters(&mut self, waiters: Vec<Waiter>) {
        for waiter in waiters {
            match waiter.party {
                WaitingParty::Txn(id) => self.wake(id),
                WaitingParty::Queue(queue) => self.grant_next(queue),
            }
        }
    }

    /// Grants the row to the first member of the queue `id`.
    fn grant_next(&mut self, id: RowQueueId) {
        let queue = self.queue(id);
        let grantee = queue.members.pop_front().expect("a queue is never empty");
        queue.blocker = Blocker::Grantee(grantee);
        let (newest, anchor, is_last) = (queue.newest, queue.anchor, queue.members.is_empty());
        self.share_anchor(anchor, grantee);
        if is_last {
            self.row_queues.remove(&id);
            self.drop_anchor(anchor);
        }
        let granted = self.txn(grantee).granted_queue;
        let granted = match granted.filter(|_| !is_last) {
            // The row was granted to it before, and another transaction wrote it first.
            Some(older) => Some(self.merge_queues(older, id)),
            None if is_last => granted,
            None => Some(id),
        };
        let txn = self.txn(grantee);
        (txn.granted_queue, txn.newest) = (granted, newest);
        self.wake(grantee);
    }

    /// Appends the queue `second` to `first`, or puts `first` before `second` if that has more
    /// members. The newest version is the one that `second` knows.
    fn merge_queues(&mut self, first: RowQueueId, second: RowQueueId) -> RowQueueId {
        let moves_first = self.queue(first).members.len() < self.queue(second).members.len();
        let (kept, gone) = if moves_first { (second, first) } else { (first, second) };
        let newest = self.queue(second).newest.or(self.queue(first).newest);
        // Both lead to the same row.
        let anchors = [second, first].map(|id| self.queue(id).anchor.take());
        let anchor = anchors[0].or(anchors[1]);
        if anchors[0].is_some() {
            self.drop_anchor(anchors[1]);
        }
        let moved = self.row_queues.remove(&gone).expect("both are listed").members;
        for id in &moved {
            self.txn(*id).wait = Some(WaitTarget::RowQueue(kept));
        }
        let queue = self.queue(kept);
        (queue.newest, queue.anchor) = (newest, anchor);
        match moves_first {
            true => moved.into_iter().rev().for_each(|id| queue.members.push_front(id)),
            false => queue.members.extend(moved),
        }
        kept
    }

    /// The statement `xid` of the grantee writes the row: the queue waits for that statement.
    pub(in crate::txn) fn use_grant(&mut self, grantee: TxnId, xid: Xid, written: WrittenRow) {
        let WrittenRow { version, successor } = written;
        let Some(mut id) = self.txn(grantee).granted_queue.take() else { return };
        if let Some(late) = self.queue_for(grantee, xid, version) {
            let late_party = WaitingParty::Queue(late);
            self.txn(grantee).waiters.retain(|waiter| waiter.party != late_party);
            id = self.merge_queues(id, late);
        }
        // The grantee has not ended, so a snapshot of now sees the version that it replaces.
        let before = self.queue(id).anchor.filter(|_| broken(Broken::AnchorNotMoved));
        let anchor = self.new_anchor(before.map_or(version.row, |anchor| anchor.start), grantee);
        let queue = self.queue(id);
        queue.newest = successor.map(|row| (row, xid));
        (queue.version, queue.blocker) = (version, Blocker::Statement { xid, owner: grantee });
        let before = queue.anchor.replace(anchor);
        self.drop_anchor(before);
        self.txn(grantee).waiters.push(Waiter { xid, party: WaitingParty::Queue(id) });
    }

    /// The grantee does not write the row: it is granted to the next in the queue.
    pub(in crate::txn) fn decline_row(&mut self, grantee: TxnId) {
        if broken(Broken::RowNotHandedOn) {
            return;
        }
        if let Some(queue) = self.txn(grantee).granted_queue.take() {
            self.grant_next(queue);
        }
    }

    /// Wakes all members of the grantee's queue, which look at the row for themselves.
    pub(in crate::txn) fn disband_queue(&mut self, grantee: TxnId) {
        let Some(queue) = self.txn(grantee).granted_queue.take() else { return };
        let queue = self.row_queues.remove(&queue).expect("a granted queue is listed");
        for id in queue.members {
            self.share_anchor(queue.anchor, id);
            self.wake(id);
        }
        self.drop_anchor(queue.anchor);
    }

    /// `id` does not wait for an xid of `owner` any more.
    pub(in crate::txn) fn stop_waiting_for_xid(&mut self, id: TxnId, owner: TxnId) {
        self.txn(owner).waiters.retain(|waiter| waiter.party != WaitingParty::Txn(id));
    }

    /// `id` leaves the queue.
    pub(in crate::txn) fn leave_queue(&mut self, id: TxnId, from: RowQueueId) {
        let queue = self.queue(from);
        queue.members.retain(|member| *member != id);
        let (blocker, anchor, is_empty) = (queue.blocker, queue.anchor, queue.members.is_empty());
        self.share_anchor(anchor, id);
        if !is_empty {
            return;
        }
        self.row_queues.remove(&from);
        self.drop_anchor(anchor);
        match blocker {
            Blocker::Statement { owner, .. } => {
                let party = WaitingParty::Queue(from);
                self.txn(owner).waiters.retain(|waiter| waiter.party != party);
            }
            Blocker::Grantee(grantee) => self.txn(grantee).granted_queue = None,
        }
    }
}
