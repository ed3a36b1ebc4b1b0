//! Who goes on when several wait to write one row.
//!
//! All of them could wake, look at the row, and all but one wait again. With many writers of one
//! row that is most of what the machine does. So of those who wait for the same statement at the
//! same version of a row only the first is woken, the heir; the others follow it. When the heir has
//! the row they wait for its statement, without ever having woken. When it turns out not to want
//! the row, or its transaction ends, the first of them is the next heir.
//!
//! Whoever follows has an edge to the heir in the graph of waits. Such an edge comes about only
//! while the heir runs, so it closes no ring; if one closes when the heir is about to wait, the
//! followers are let go first, as each of them may have the row in the way without a ring.
//!
//! Invariants: only those under read committed follow, as the others have a conflict as soon as the
//! row was changed; an heir that is woken settles what follows it before its statement ends.
//! Does not do: keeping late comers from overtaking an heir.

use rightlink_env::points::broken;

use crate::ids::{ObjectId, RowId, Xid};
use crate::txn::Isolation;
use crate::txn::state::{State, TxnId, Wait};

/// A version of a row that a write wants to end: table and row id.
pub type Place = (ObjectId, RowId);

/// Who waits for an xid of a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) id: TxnId,
    pub(super) xid: Xid,
    /// What it wants to write then.
    pub(super) place: Option<Place>,
}

impl State {
    /// Ends these waits in the order of arrival; of those for one version only the first.
    pub(super) fn wake_in_turn(&mut self, waiters: Vec<Waiter>) {
        let mut heirs: Vec<Waiter> = Vec::new();
        for waiter in waiters {
            let follows = self.txn(waiter.id).isolation == Isolation::ReadCommitted;
            let alike = |heir: &&Waiter| (heir.xid, heir.place) == (waiter.xid, waiter.place);
            match heirs.iter().find(alike).filter(|_| follows).map(|heir| heir.id) {
                Some(heir) => self.follow(waiter.id, heir),
                None => {
                    self.wake(waiter.id);
                    heirs.extend(Some(waiter).filter(|_| follows && waiter.place.is_some()));
                }
            }
        }
    }

    fn follow(&mut self, id: TxnId, heir: TxnId) {
        assert!(self.txn(heir).wait.is_none(), "whom others begin to follow does not wait");
        self.txn(id).wait = Some(Wait::Behind(heir));
        self.txn(heir).followers.push(id);
    }

    /// The heir's statement `xid` ends the version at `place`: who follows waits for that.
    pub(super) fn has_taken(&mut self, heir: TxnId, xid: Xid, place: Place) {
        for id in std::mem::take(&mut self.txn(heir).followers) {
            self.txn(id).wait = Some(Wait::Xid(xid, heir));
            self.txn(heir).waiters.push(Waiter { id, xid, place: Some(place) });
        }
    }

    /// The heir does not take the row: the next one may.
    pub(super) fn pass_on(&mut self, heir: TxnId) {
        if broken("txn-heir") {
            return;
        }
        let mut followers = std::mem::take(&mut self.txn(heir).followers).into_iter();
        if let Some(next) = followers.next() {
            self.wake(next);
            followers.for_each(|id| self.follow(id, next));
        }
    }

    /// Lets all who follow `heir` look for themselves.
    pub(super) fn scatter(&mut self, heir: TxnId) {
        let followers = std::mem::take(&mut self.txn(heir).followers);
        followers.into_iter().for_each(|id| self.wake(id));
    }
}
