//! Table locks: modes, who holds them, and the fair queue of who wants them.
//!
//! Compatible (+) and conflicting (-) modes:
//!
//! | | Access | Write | Share | ShareWrite | Exclusive |
//! |---|---|---|---|---|---|
//! | Access | + | + | + | + | - |
//! | Write | + | + | - | - | - |
//! | Share | + | - | + | - | - |
//! | ShareWrite | + | - | - | - | - |
//! | Exclusive | - | - | - | - | - |
//!
//! Invariants: no two transactions hold conflicting modes; a request never overtakes an earlier one
//! that it conflicts with, except that a transaction which already holds the table waits for
//! holders only and stands before those that hold nothing (an upgrade behind a newcomer would wait
//! for itself).
//! Does not do: blocking and deadlocks (`waiting`), row locks.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::ObjectId;
use crate::txn::lock::state::TxnId;

/// Strength of a table lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockMode {
    /// Readers: excluded only by `Exclusive`.
    Access,
    /// Writers of rows: excluded by `Share` and `Exclusive`.
    Write,
    /// Builds that need the rows to stand still.
    Share,
    /// `Write` and `Share` at once: one writer, and readers beside it.
    ShareWrite,
    /// Changes of the definition.
    Exclusive,
}

const ALL: [LockMode; 5] =
    [LockMode::Access, LockMode::Write, LockMode::Share, LockMode::ShareWrite, LockMode::Exclusive];

/// A set of modes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::txn) struct Modes(u8);

impl LockMode {
    fn bit(self) -> u8 {
        1 << self as u8
    }

    /// May two transactions hold `self` and `other` of one table at a time?
    pub fn is_compatible(self, other: LockMode) -> bool {
        use LockMode::{Access, Exclusive, ShareWrite};
        match (self, other) {
            (Exclusive, _) | (_, Exclusive) => false,
            (Access, _) | (_, Access) => true,
            (ShareWrite, _) | (_, ShareWrite) => false,
            (one, two) => one == two,
        }
    }
}

impl Modes {
    /// Does holding these make asking for `mode` needless?
    pub(in crate::txn) fn cover(self, mode: LockMode) -> bool {
        let covers = |held: LockMode| match held {
            LockMode::Exclusive => true,
            LockMode::ShareWrite => mode != LockMode::Exclusive,
            held => held == mode || mode == LockMode::Access,
        };
        ALL.iter().any(|held| self.0 & held.bit() != 0 && covers(*held))
    }

    /// Adds `mode`.
    pub(in crate::txn) fn add(&mut self, mode: LockMode) {
        self.0 |= mode.bit();
    }

    fn conflict(self, mode: LockMode) -> bool {
        ALL.iter().any(|held| self.0 & held.bit() != 0 && !held.is_compatible(mode))
    }
}

struct Request {
    txn: TxnId,
    mode: LockMode,
    upgrade: bool,
}

#[derive(Default)]
struct TableLock {
    holders: BTreeMap<TxnId, Modes>,
    /// How many holders have each mode, so that granting does not depend on their number.
    counts: [usize; 5],
    queue: VecDeque<Request>,
}

impl TableLock {
    /// Does somebody other than `txn` hold a mode that conflicts with `mode`?
    fn held_against(&self, txn: TxnId, mode: LockMode) -> bool {
        let own = self.holders.get(&txn).copied().unwrap_or_default();
        ALL.iter().any(|held| {
            let mine = usize::from(own.0 & held.bit() != 0);
            self.counts[*held as usize] > mine && !held.is_compatible(mode)
        })
    }

    fn grant(&mut self, txn: TxnId, mode: LockMode) {
        debug_assert!(!self.held_against(txn, mode), "only compatible modes are held together");
        let modes = self.holders.entry(txn).or_default();
        if modes.0 & mode.bit() == 0 {
            modes.add(mode);
            self.counts[mode as usize] += 1;
        }
    }

    fn release(&mut self, txn: TxnId) {
        let Some(modes) = self.holders.remove(&txn) else { return };
        for mode in ALL.iter().filter(|mode| modes.0 & mode.bit() != 0) {
            self.counts[*mode as usize] -= 1;
        }
    }

    /// Does a request before position `at` conflict with `mode`?
    fn queued_against(&self, at: usize, mode: LockMode) -> bool {
        self.queue.iter().take(at).any(|earlier| !earlier.mode.is_compatible(mode))
    }

    /// Must the request at `at` (or one that would be put there) wait?
    fn must_wait(&self, at: usize, request: &Request) -> bool {
        self.held_against(request.txn, request.mode)
            || !request.upgrade && self.queued_against(at, request.mode)
    }

    /// Grants what can be granted, in order; returns whose requests those were.
    fn grant_queued(&mut self) -> Vec<TxnId> {
        let (mut granted, mut at) = (Vec::new(), 0);
        while at < self.queue.len() {
            if self.must_wait(at, &self.queue[at]) {
                at += 1;
            } else if let Some(request) = self.queue.remove(at) {
                self.grant(request.txn, request.mode);
                granted.push(request.txn);
            }
        }
        granted
    }
}

/// The locks of all tables.
#[derive(Default)]
pub(in crate::txn) struct LockTable {
    tables: BTreeMap<ObjectId, TableLock>,
}

impl LockTable {
    /// Grants `mode` of `table` to `txn`, or queues the request and returns false.
    pub(in crate::txn) fn request(&mut self, txn: TxnId, table: ObjectId, mode: LockMode) -> bool {
        let lock = self.tables.entry(table).or_default();
        let request = Request { txn, mode, upgrade: lock.holders.contains_key(&txn) };
        assert!(lock.queue.iter().all(|queued| queued.txn != txn), "one wait at a time");
        let upgrades = lock.queue.iter().take_while(|queued| queued.upgrade).count();
        let at = if request.upgrade { upgrades } else { lock.queue.len() };
        if lock.must_wait(at, &request) {
            lock.queue.insert(at, request);
            return false;
        }
        lock.grant(txn, mode);
        true
    }

    /// Who holds `mode` of `table`, or a mode that covers it and with which it is never asked for.
    pub(in crate::txn) fn holders(&self, table: ObjectId, mode: LockMode) -> Vec<TxnId> {
        let holders = self.tables.get(&table).into_iter().flat_map(|lock| &lock.holders);
        holders.filter(|(_, modes)| modes.cover(mode)).map(|(txn, _)| *txn).collect()
    }

    /// All modes that are held, then those that are waited for: table, who, mode, held?
    pub(in crate::txn) fn all(&self) -> Vec<(ObjectId, TxnId, LockMode, bool)> {
        let mut all = Vec::new();
        for (table, lock) in &self.tables {
            for (txn, modes) in &lock.holders {
                let held = ALL.iter().filter(|mode| modes.0 & mode.bit() != 0);
                all.extend(held.map(|mode| (*table, *txn, *mode, true)));
            }
            let queued = lock.queue.iter();
            all.extend(queued.map(|request| (*table, request.txn, request.mode, false)));
        }
        all
    }

    /// Whom the queued request of `txn` waits for.
    pub(in crate::txn) fn blockers(&self, txn: TxnId, table: ObjectId) -> Vec<TxnId> {
        let Some(lock) = self.tables.get(&table) else { return Vec::new() };
        let Some(at) = lock.queue.iter().position(|queued| queued.txn == txn) else {
            return Vec::new();
        };
        let request = &lock.queue[at];
        let holders = lock
            .holders
            .iter()
            .filter(|(holder, modes)| **holder != txn && modes.conflict(request.mode));
        let earlier = lock.queue.iter().take(if request.upgrade { 0 } else { at });
        let earlier = earlier.filter(|queued| !queued.mode.is_compatible(request.mode));
        holders.map(|(holder, _)| *holder).chain(earlier.map(|queued| queued.txn)).collect()
    }

    /// Takes the queued request of `txn` back; returns who is granted because of it.
    pub(in crate::txn) fn withdraw(&mut self, txn: TxnId, table: ObjectId) -> Vec<TxnId> {
        self.change(table, |lock| lock.queue.retain(|queued| queued.txn != txn))
    }

    /// Gives up what `txn` holds of `table`; returns who is granted because of it.
    pub(in crate::txn) fn release(&mut self, txn: TxnId, table: ObjectId) -> Vec<TxnId> {
        self.change(table, |lock| lock.release(txn))
    }

    fn change(&mut self, table: ObjectId, change: impl FnOnce(&mut TableLock)) -> Vec<TxnId> {
        let Some(lock) = self.tables.get_mut(&table) else { return Vec::new() };
        change(lock);
        let granted = lock.grant_queued();
        if lock.holders.is_empty() && lock.queue.is_empty() {
            self.tables.remove(&table);
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LockMode::{Access, Exclusive, Share, ShareWrite, Write};

    const T: ObjectId = ObjectId(9);

    fn id(n: u64) -> TxnId {
        TxnId(n)
    }

    #[test]
    fn the_matrix_is_the_documented_one() {
        let rows = ["++++-", "++---", "+-+--", "+----", "-----"];
        for (one, row) in ALL.iter().zip(rows) {
            for (two, sign) in ALL.iter().zip(row.chars()) {
                assert_eq!(one.is_compatible(*two), sign == '+', "{one:?} {two:?}");
                let mut locks = LockTable::default();
                assert!(locks.request(id(1), T, *one));
                assert_eq!(locks.request(id(2), T, *two), sign == '+', "{one:?} {two:?}");
            }
        }
    }

    #[test]
    fn a_held_mode_covers_the_weaker_ones_only() {
        for (held, covered) in [
            (Access, "+----"),
            (Write, "++---"),
            (Share, "+-+--"),
            (ShareWrite, "++++-"),
            (Exclusive, "+++++"),
        ] {
            let mut modes = Modes::default();
            modes.add(held);
            let signs = ALL.iter().map(|mode| if modes.cover(*mode) { '+' } else { '-' });
            assert_eq!(signs.collect::<String>(), covered, "{held:?}");
        }
    }

    #[test]
    fn who_holds_a_mode_that_covers_another_holds_that() {
        for held in ALL {
            let mut locks = LockTable::default();
            assert!(locks.request(id(1), T, held));
            let mut modes = Modes::default();
            modes.add(held);
            for mode in ALL {
                let holders = locks.holders(T, mode);
                assert_eq!(holders == [id(1)], modes.cover(mode), "{held:?} {mode:?}");
            }
        }
    }

    #[test]
    fn a_newcomer_does_not_overtake_and_an_upgrade_does() {
        let mut locks = LockTable::default();
        assert!(locks.request(id(1), T, Access) && locks.request(id(2), T, Access));
        assert!(!locks.request(id(3), T, Exclusive));
        assert!(!locks.request(id(4), T, Access), "behind the exclusive request");
        assert!(locks.request(id(1), T, Write), "holds the table: waits for holders only");
        assert_eq!(locks.blockers(id(4), T), [id(3)]);
        assert!(!locks.request(id(2), T, Share));
        assert_eq!(locks.blockers(id(2), T), [id(1)]);
        assert_eq!(locks.release(id(1), T), [id(2)]);
        assert_eq!(locks.release(id(2), T), [id(3)]);
        assert_eq!(locks.release(id(3), T), [id(4)]);
        assert!(locks.release(id(4), T).is_empty() && locks.tables.is_empty());
    }

    #[test]
    fn a_withdrawn_request_lets_others_pass() {
        let mut locks = LockTable::default();
        assert!(locks.request(id(1), T, Access));
        assert!(!locks.request(id(2), T, Exclusive));
        assert!(!locks.request(id(3), T, Write) && !locks.request(id(4), T, Access));
        assert_eq!(locks.withdraw(id(2), T), [id(3), id(4)]);
    }
}
