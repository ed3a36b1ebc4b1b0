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
use crate::txn::state::{State, TxnId, Wait};

/// A version of a row that a write wants to end: table and row id.
pub type Place = (ObjectId, RowId);

/// A version of a row: where it is, and who made it.
pub type Version = (RowId, Xid);

/// Number of a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct QueueId(u64);

/// Those who want to write one row.
pub(super) struct Queue {
    /// The version that its front is about to end, or has ended.
    place: Place,
    front: Front,
    /// In the order of arrival.
    members: VecDeque<TxnId>,
    /// What the last one of the queue made of the row.
    newest: Option<Version>,
}

/// What a queue waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Front {
    /// The end of the statement, which belongs to the transaction.
    Statement(Xid, TxnId),
    /// Whether the transaction, which was woken, takes the row.
    Heir(TxnId),
}

/// Who waits for an xid of a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) xid: Xid,
    who: Who,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    One(TxnId),
    Queue(QueueId),
}

impl Front {
    /// The transaction that decides.
    pub(super) fn owner(self) -> TxnId {
        let (Front::Statement(_, owner) | Front::Heir(owner)) = self;
        owner
    }

    /// The awaited xid; none of an heir.
    pub(super) fn xid(self) -> Xid {
        match self {
            Front::Statement(xid, _) => xid,
            Front::Heir(_) => Xid::NONE,
        }
    }
}

impl State {
    /// `id` waits for `xid` of `owner`; to write what is at `place`, behind those who want that.
    pub(super) fn wait_in_turn(
        &mut self,
        id: TxnId,
        (xid, owner): (Xid, TxnId),
        place: Option<Place>,
    ) {
        let queues = self.txn(id).isolation == Isolation::ReadCommitted;
        let Some(place) = place.filter(|_| queues) else {
            self.txn(owner).waiters.push(Waiter { xid, who: Who::One(id) });
            self.txn(id).wait = Some(Wait::Xid(xid, owner));
            return;
        };
        let known = self.queue_for(owner, xid, place);
        let queue = known.unwrap_or_else(|| {
            self.next_queue += 1;
            let queue = QueueId(self.next_queue);
            let (front, members) = (Front::Statement(xid, owner), VecDeque::new());
            self.queues.insert(queue, Queue { place, front, members, newest: None });
            self.txn(owner).waiters.push(Waiter { xid, who: Who::Queue(queue) });
            queue
        });
        self.queue(queue).members.push_back(id);
        self.txn(id).wait = Some(Wait::Queue(queue));
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
    pub(super) fn front(&self, id: QueueId) -> Front {
        self.queues[&id].front
    }

    /// Ends these waits in the order of arrival; of a queue only that of the first.
    pub(super) fn wake_in_turn(&mut self, waiters: Vec<Waiter>) {
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
        let (newest, is_last) = (queue.newest, queue.members.is_empty());
        if is_last {
            self.queues.remove(&id);
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
        let moved = self.queues.remove(&gone).expect("both are listed").members;
        for id in &moved {
            self.txn(*id).wait = Some(Wait::Queue(kept));
        }
        let queue = self.queue(kept);
        queue.newest = newest;
        match moves_first {
            true => moved.into_iter().rev().for_each(|id| queue.members.push_front(id)),
            false => queue.members.extend(moved),
        }
        kept
    }

    /// The heir's statement `xid` ends the version at `place` and makes another one of it, unless
    /// it deletes the row: its queue waits for that.
    pub(super) fn has_taken(
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
        let queue = self.queue(id);
        queue.newest = made.map(|row| (row, xid));
        (queue.place, queue.front) = (place, Front::Statement(xid, heir));
        self.txn(heir).waiters.push(Waiter { xid, who: Who::Queue(id) });
    }

    /// The heir does not take the row: the next one may.
    pub(super) fn pass_on(&mut self, heir: TxnId) {
        if broken("txn-heir") {
            return;
        }
        if let Some(queue) = self.txn(heir).leads.take() {
            self.advance(queue);
        }
    }

    /// Lets all who queue behind `heir` look for themselves.
    pub(super) fn scatter(&mut self, heir: TxnId) {
        let Some(queue) = self.txn(heir).leads.take() else { return };
        let queue = self.queues.remove(&queue).expect("whoever leads a queue has one");
        queue.members.into_iter().for_each(|id| self.wake(id));
    }

    /// `id` does not wait for `owner` any more.
    pub(super) fn give_up_waiting(&mut self, id: TxnId, owner: TxnId) {
        self.txn(owner).waiters.retain(|waiter| waiter.who != Who::One(id));
    }

    /// `id` leaves the queue.
    pub(super) fn leave_queue(&mut self, id: TxnId, from: QueueId) {
        let queue = self.queue(from);
        queue.members.retain(|member| *member != id);
        if !queue.members.is_empty() {
            return;
        }
        match self.queues.remove(&from).map(|queue| queue.front) {
            Some(Front::Statement(_, owner)) => {
                self.txn(owner).waiters.retain(|waiter| waiter.who != Who::Queue(from));
            }
            Some(Front::Heir(heir)) => self.txn(heir).leads = None,
            None => {}
        }
    }
}
