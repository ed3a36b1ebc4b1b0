//! Who goes on when several wait to write one row.
//!
//! All of them could wake, look at the row, and all but one wait again. With many writers of one
//! row that is most of what the machine does. So those who wait for the same statement at the same
//! version of a row stand in a queue, and when the statement is over only the first of them is
//! woken, the heir. When the heir has the row, the queue waits for its statement, without anybody
//! in it having woken; when it turns out not to want the row, or its transaction ends, the next in
//! the queue is the heir.
//!
//! A hand-over costs the same however many stand in the queue: it changes what the queue waits for,
//! not what its members do. With the queue goes the version that the last one made, so that an heir
//! need not look for the newest one along all the versions that were made while it waited.
//!
//! Whoever stands in a queue has an edge to what is in front of it in the graph of waits. One to
//! an heir comes about only while the heir runs, so it closes no ring; if one closes when the heir
//! is about to wait, its queue is dissolved first, as each of those in it may have the row in the
//! way without a ring.
//!
//! Invariants: only those under read committed queue, as the others have a conflict as soon as the
//! row was changed; a queue is never empty, and what is in front of it names it; an heir that is
//! woken settles what its queue waits for before its statement ends; a transaction leads one queue
//! at most.
//! Does not do: keeping late comers from overtaking an heir.

use std::collections::VecDeque;

use rightlink_env::points::broken;

use crate::ids::{ObjectId, RowId, Xid};
use crate::txn::Isolation;
use crate::txn::lock::state::{State, TxnId, Wait};

/// A version of a row that a write wants to end: table and row id.
pub type Place = (ObjectId, RowId);

/// A version of a row: where it is, and who made it.
pub type Version = (RowId, Xid);

/// Number of a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::txn) struct QueueId(u64);

/// From where the newest version of a row can be found, whatever becomes of it: the version at
/// `start` is seen by a snapshot that is registered for that (R9).
#[derive(Clone, Copy, Debug)]
pub(in crate::txn) struct Anchor {
    pub(in crate::txn) csn: u64,
    pub(in crate::txn) xmin: u64,
    pub(in crate::txn) xmax: u64,
    pub(in crate::txn) start: RowId,
}

/// Those who want to write one row.
pub(in crate::txn) struct Queue {
    /// The version that its front is about to end, or has ended.
    place: Place,
    front: Front,
    /// In the order of arrival.
    members: VecDeque<TxnId>,
    /// What the last one of the queue made of the row.
    newest: Option<Version>,
    /// Where its members begin to look for the row. None if it is not certain that everybody sees
    /// what is at `place`; they keep their own snapshots then.
    anchor: Option<Anchor>,
}

/// What a queue waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum Front {
    /// The end of the statement, which belongs to the transaction.
    Statement(Xid, TxnId),
    /// Whether the transaction, which was woken, takes the row.
    Heir(TxnId),
}

/// Who waits for an xid of a transaction.
#[derive(Clone, Copy, Debug)]
pub(in crate::txn) struct Waiter {
    pub(in crate::txn) xid: Xid,
    who: Who,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    One(TxnId),
    Queue(QueueId),
}

impl Front {
    /// The transaction that decides.
    pub(in crate::txn) fn owner(self) -> TxnId {
        let (Front::Statement(_, owner) | Front::Heir(owner)) = self;
        owner
    }

    /// The awaited xid; none of an heir.
    pub(in crate::txn) fn xid(self) -> Xid {
        match self {
            Front::Statement(xid, _) => xid,
            Front::Heir(_) => Xid::NONE,
        }
    }
}

impl State {
    /// `id` waits for `xid` of `owner`; to write what is at `place`, behind those who want that. If
    /// `xid` `ends` the version there, which was committed, the queue has an anchor: is that so?
    pub(in crate::txn) fn wait_in_turn(
        &mut self,
        id: TxnId,
        (xid, owner): (Xid, TxnId),
        (place, ends): (Option<Place>, bool),
    ) -> bool {
        let queues = self.txn(id).isolation == Isolation::ReadCommitted;
        let Some(place) = place.filter(|_| queues) else {
            self.txn(owner).waiters.push(Waiter { xid, who: Who::One(id) });
            self.txn(id).wait = Some(Wait::Xid(xid, owner));
            return false;
        };
        let known = self.queue_for(owner, xid, place);
        let queue = known.unwrap_or_else(|| {
            self.next_queue += 1;
            let queue = QueueId(self.next_queue);
            let (front, members) = (Front::Statement(xid, owner), VecDeque::new());
            let queued = Queue { place, front, members, newest: None, anchor: None };
            self.queues.insert(queue, queued);
            self.txn(owner).waiters.push(Waiter { xid, who: Who::Queue(queue) });
            queue
        });
        if ends && self.queue(queue).anchor.is_none() {
            // Whoever ends the version has not ended, or `xid` would be nobody's.
            let anchor = self.anchor_at(place.1, id);
            self.queue(queue).anchor = Some(anchor);
        }
        let queued = self.queue(queue);
        queued.members.push_back(id);
        let anchored = queued.anchor.is_some();
        self.txn(id).wait = Some(Wait::Queue(queue));
        anchored
    }

    /// Registers a snapshot of now for `by`, which sees the version at `start`.
    fn anchor_at(&mut self, start: RowId, by: TxnId) -> Anchor {
        let (csn, xmin) = self.register(by);
        Anchor { csn, xmin, xmax: self.next, start }
    }

    /// One more registration, for `id`.
    fn share_anchor(&mut self, anchor: Option<Anchor>, id: TxnId) {
        let Some(anchor) = anchor else { return };
        self.register_at((anchor.csn, anchor.xmin), id);
        let before = self.txn(id).anchor.replace(anchor);
        self.let_go(before);
    }

    /// Ends the registration of an anchor.
    pub(in crate::txn) fn let_go(&mut self, anchor: Option<Anchor>) {
        if let Some(anchor) = anchor {
            self.deregister(anchor.csn);
        }
    }

    /// Those who wait for `xid` of `owner` to write what is at `place`.
    fn queue_for(&self, owner: TxnId, xid: Xid, place: Place) -> Option<QueueId> {
        self.running.get(&owner)?.waiters.iter().find_map(|waiter| match waiter.who {
            Who::Queue(queue) if waiter.xid == xid => {
                (self.queues[&queue].place == place).then_some(queue)
            }
            _ => None,
        })
    }

    fn queue(&mut self, id: QueueId) -> &mut Queue {
        self.queues.get_mut(&id).expect("a queue is listed while somebody stands in it")
    }

    /// What the queue `id` waits for.
    pub(in crate::txn) fn front(&self, id: QueueId) -> Front {
        self.queues[&id].front
    }

    /// Ends these waits in the order of arrival; of a queue only that of the first.
    pub(in crate::txn) fn wake_in_turn(&mut self, waiters: Vec<Waiter>) {
        for waiter in waiters {
            match waiter.who {
                Who::One(id) => self.wake(id),
                Who::Queue(queue) => self.advance(queue),
            }
        }
    }

    /// The first of the queue is the heir.
    fn advance(&mut self, id: QueueId) {
        let queue = self.queue(id);
        let heir = queue.members.pop_front().expect("a queue is never empty");
        queue.front = Front::Heir(heir);
        let (newest, anchor, is_last) = (queue.newest, queue.anchor, queue.members.is_empty());
        self.share_anchor(anchor, heir);
        if is_last {
            self.queues.remove(&id);
            self.let_go(anchor);
        }
        let leads = self.txn(heir).leads;
        let leads = match leads.filter(|_| !is_last) {
            // It was an heir before, and somebody else came first.
            Some(older) => Some(self.merge(older, id)),
            None if is_last => leads,
            None => Some(id),
        };
        let txn = self.txn(heir);
        (txn.leads, txn.newest) = (leads, newest);
        self.wake(heir);
    }

    /// Puts two queues together, one behind the other, and moves those of the shorter one. What was
    /// made last is what the second one knows.
    fn merge(&mut self, first: QueueId, second: QueueId) -> QueueId {
        let moves_first = self.queue(first).members.len() < self.queue(second).members.len();
        let (kept, gone) = if moves_first { (second, first) } else { (first, second) };
        let newest = self.queue(second).newest.or(self.queue(first).newest);
        // Both lead to the one row.
        let anchors = [second, first].map(|id| self.queue(id).anchor.take());
        let anchor = anchors[0].or(anchors[1]);
        if anchors[0].is_some() {
            self.let_go(anchors[1]);
        }
        let moved = self.queues.remove(&gone).expect("both are listed").members;
        for id in &moved {
            self.txn(*id).wait = Some(Wait::Queue(kept));
        }
        let queue = self.queue(kept);
        (queue.newest, queue.anchor) = (newest, anchor);
        match moves_first {
            true => moved.into_iter().rev().for_each(|id| queue.members.push_front(id)),
            false => queue.members.extend(moved),
        }
        kept
    }

    /// The heir's statement `xid` ends the version at `place` and makes another one of it, unless
    /// it deletes the row: its queue waits for that.
    pub(in crate::txn) fn has_taken(
        &mut self,
        heir: TxnId,
        xid: Xid,
        (place, made): (Place, Option<RowId>),
    ) {
        let Some(mut id) = self.txn(heir).leads.take() else { return };
        if let Some(late) = self.queue_for(heir, xid, place) {
            self.txn(heir).waiters.retain(|waiter| waiter.who != Who::Queue(late));
            id = self.merge(id, late);
        }
        // The heir is ending what is at `place`, and has not ended.
        let before = self.queue(id).anchor.filter(|_| broken("r9-anchor"));
        let anchor = self.anchor_at(before.map_or(place.1, |anchor| anchor.start), heir);
        let queue = self.queue(id);
        queue.newest = made.map(|row| (row, xid));
        (queue.place, queue.front) = (place, Front::Statement(xid, heir));
        let before = queue.anchor.replace(anchor);
        self.let_go(before);
        self.txn(heir).waiters.push(Waiter { xid, who: Who::Queue(id) });
    }

    /// The heir does not take the row: the next one may.
    pub(in crate::txn) fn pass_on(&mut self, heir: TxnId) {
        if broken("txn-heir") {
            return;
        }
        if let Some(queue) = self.txn(heir).leads.take() {
            self.advance(queue);
        }
    }

    /// Lets all who queue behind `heir` look for themselves.
    pub(in crate::txn) fn scatter(&mut self, heir: TxnId) {
        let Some(queue) = self.txn(heir).leads.take() else { return };
        let queue = self.queues.remove(&queue).expect("whoever leads a queue has one");
        for id in queue.members {
            self.share_anchor(queue.anchor, id);
            self.wake(id);
        }
        self.let_go(queue.anchor);
    }

    /// `id` does not wait for `owner` any more.
    pub(in crate::txn) fn give_up_waiting(&mut self, id: TxnId, owner: TxnId) {
        self.txn(owner).waiters.retain(|waiter| waiter.who != Who::One(id));
    }

    /// `id` leaves the queue.
    pub(in crate::txn) fn leave_queue(&mut self, id: TxnId, from: QueueId) {
        let queue = self.queue(from);
        queue.members.retain(|member| *member != id);
        let (front, anchor, is_empty) = (queue.front, queue.anchor, queue.members.is_empty());
        self.share_anchor(anchor, id);
        if !is_empty {
            return;
        }
        self.queues.remove(&from);
        self.let_go(anchor);
        match front {
            Front::Statement(_, owner) => {
                self.txn(owner).waiters.retain(|waiter| waiter.who != Who::Queue(from));
            }
            Front::Heir(heir) => self.txn(heir).leads = None,
        }
    }
}
