//! Table locks: their modes, their holders, and a fair queue of requests.
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
//! Invariants: no two transactions hold conflicting modes. A request never overtakes an earlier one
//! that it conflicts with, except an upgrade: a transaction that already holds the table waits for
//! holders only and queues before those that hold nothing. Behind a newcomer it would wait for
//! itself.
//! Does not do: block (`manager::wait`), find deadlocks (`deadlock`), row locks.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::ObjectId;
use crate::txn::xid::TxnId;

/// Strength of a table lock.
///
/// ```
/// use rightlink::{Busy, Error, LockMode, TableSchema, Type};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// # let mut txn = db.begin();
/// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
/// # txn.create_table(&schema.primary_key(["a"]))?;
/// txn.commit()?;
/// let (mut one, mut two) = (db.begin(), db.begin());
/// one.lock_table("n", LockMode::ShareWrite, Busy::Wait)?;
/// let refused = two.lock_table("n", LockMode::Write, Busy::Fail);
/// assert!(matches!(refused, Err(Error::LockTimeout { .. })));
/// two.lock_table("n", LockMode::Access, Busy::Fail)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockMode {
    /// Readers: conflicts only with `Exclusive`.
    Access,
    /// Writers of rows: conflicts with `Share`, `ShareWrite` and `Exclusive`.
    Write,
    /// Readers that need the rows not to change: conflicts with writers, and not with itself.
    Share,
    /// `Write` and `Share` at once: one writer, and readers beside it. Conflicts with all but
    /// `Access`.
    ShareWrite,
    /// Changes of the definition: conflicts with every mode.
    Exclusive,
}

const ALL: [LockMode; 5] =
    [LockMode::Access, LockMode::Write, LockMode::Share, LockMode::ShareWrite, LockMode::Exclusive];

/// A set of modes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::txn) struct ModeSet(u8);

impl LockMode {
    fn bit(self) -> u8 {
        1 << self as u8
    }

    /// True if two transactions can hold `self` and `other` on one table at a time.
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

impl ModeSet {
    /// Is a request for `mode` needless if these are held?
    pub(in crate::txn) fn covers(self, mode: LockMode) -> bool {
        let is_enough = |held: LockMode| match held {
            LockMode::Exclusive => true,
            LockMode::ShareWrite => mode != LockMode::Exclusive,
            held => held == mode || mode == LockMode::Access,
        };
        ALL.iter().any(|held| self.0 & held.bit() != 0 && is_enough(*held))
    }

    /// Adds `mode`.
    pub(in crate::txn) fn add(&mut self, mode: LockMode) {
        self.0 |= mode.bit();
    }

    /// A bit for each mode.
    pub(in crate::txn) fn bits(self) -> u8 {
        self.0
    }

    /// The set with these bits, if there are such modes.
    pub(in crate::txn) fn from_bits(bits: u8) -> Option<ModeSet> {
        (bits >> ALL.len() == 0).then_some(ModeSet(bits))
    }

    /// Its modes, weakest first.
    pub(in crate::txn) fn modes(self) -> impl Iterator<Item = LockMode> {
        ALL.into_iter().filter(move |mode| self.0 & mode.bit() != 0)
    }

    fn conflicts(self, mode: LockMode) -> bool {
        ALL.iter().any(|held| self.0 & held.bit() != 0 && !held.is_compatible(mode))
    }
}

struct LockRequest {
    txn: TxnId,
    mode: LockMode,
    upgrade: bool,
}

#[derive(Default)]
struct TableLock {
    holders: BTreeMap<TxnId, ModeSet>,
    /// How many holders have each mode, so that granting does not depend on their number.
    counts: [usize; 5],
    queue: VecDeque<LockRequest>,
}

impl TableLock {
    /// Does a transaction other than `txn` hold a mode that conflicts with `mode`?
    fn is_held_against(&self, txn: TxnId, mode: LockMode) -> bool {
        let own = self.holders.get(&txn).copied().unwrap_or_default();
        ALL.iter().any(|held| {
            let mine = usize::from(own.0 & held.bit() != 0);
            self.counts[*held as usize] > mine && !held.is_compatible(mode)
        })
    }

    fn grant(&mut self, txn: TxnId, mode: LockMode) {
        debug_assert!(!self.is_held_against(txn, mode), "only compatible modes are held together");
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
    fn is_queued_against(&self, at: usize, mode: LockMode) -> bool {
        self.queue.iter().take(at).any(|earlier| !earlier.mode.is_compatible(mode))
    }

    /// Must the request at `at` (or one that would be put there) wait?
    fn must_wait(&self, at: usize, request: &LockRequest) -> bool {
        self.is_held_against(request.txn, request.mode)
            || !request.upgrade && self.is_queued_against(at, request.mode)
    }

    /// Grants the queued requests that need not wait any more, in order; returns their
    /// transactions.
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

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum RequestOutcome {
    /// The transaction holds the mode.
    Granted,
    /// It has to wait.
    Queued,
}

/// A mode of a table that a transaction holds or waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) struct TableLockEntry {
    pub(in crate::txn) table: ObjectId,
    pub(in crate::txn) txn: TxnId,
    pub(in crate::txn) mode: LockMode,
    pub(in crate::txn) granted: bool,
}

/// The locks of all tables.
#[derive(Default)]
pub(in crate::txn) struct TableLocks {
    tables: BTreeMap<ObjectId, TableLock>,
}

impl TableLocks {
    /// Grants `mode` of `table` to `txn`, or queues the request.
    pub(in crate::txn) fn request(
        &mut self,
        txn: TxnId,
        table: ObjectId,
        mode: LockMode,
    ) -> RequestOutcome {
        let lock = self.tables.entry(table).or_default();
        let request = LockRequest { txn, mode, upgrade: lock.holders.contains_key(&txn) };
        assert!(lock.queue.iter().all(|queued| queued.txn != txn), "one wait at a time");
        let upgrades = lock.queue.iter().take_while(|queued| queued.upgrade).count();
        let at = if request.upgrade { upgrades } else { lock.queue.len() };
        if lock.must_wait(at, &request) {
            lock.queue.insert(at, request);
            return RequestOutcome::Queued;
        }
        lock.grant(txn, mode);
        RequestOutcome::Granted
    }

    /// The transactions that hold `mode` of `table`, or a mode that makes a request for it
    /// needless.
    pub(in crate::txn) fn holders(&self, table: ObjectId, mode: LockMode) -> Vec<TxnId> {
        let holders = self.tables.get(&table).into_iter().flat_map(|lock| &lock.holders);
        holders.filter(|(_, modes)| modes.covers(mode)).map(|(txn, _)| *txn).collect()
    }

    /// The modes that are held and, after these for each table, those that are waited for.
    pub(in crate::txn) fn all(&self) -> Vec<TableLockEntry> {
        let mut all = Vec::new();
        for (table, lock) in &self.tables {
            for (txn, modes) in &lock.holders {
                let held = ALL.iter().filter(|mode| modes.0 & mode.bit() != 0);
                let entry = |mode: &LockMode| TableLockEntry {
                    table: *table,
                    txn: *txn,
                    mode: *mode,
                    granted: true,
                };
                all.extend(held.map(entry));
            }
            let queued = lock.queue.iter();
            all.extend(queued.map(|LockRequest { txn, mode, .. }| TableLockEntry {
                table: *table,
                txn: *txn,
                mode: *mode,
                granted: false,
            }));
        }
        all
    }

    /// The transactions that the queued request of `txn` waits for.
    pub(in crate::txn) fn blockers(&self, txn: TxnId, table: ObjectId) -> Vec<TxnId> {
        let Some(lock) = self.tables.get(&table) else { return Vec::new() };
        let Some(at) = lock.queue.iter().position(|queued| queued.txn == txn) else {
            return Vec::new();
        };
        let request = &lock.queue[at];
        let holders = lock
            .holders
            .iter()
            .filter(|(holder, modes)| **holder != txn && modes.conflicts(request.mode));
        let earlier = lock.queue.iter().take(if request.upgrade { 0 } else { at });
        let earlier = earlier.filter(|queued| !queued.mode.is_compatible(request.mode));
        holders.map(|(holder, _)| *holder).chain(earlier.map(|queued| queued.txn)).collect()
    }

    /// Takes back the queued request of `txn`; returns the transactions that are granted because of
    /// it.
    pub(in crate::txn) fn withdraw(&mut self, txn: TxnId, table: ObjectId) -> Vec<TxnId> {
        self.change(table, |lock| lock.queue.retain(|queued| queued.txn != txn))
    }

    /// Releases the modes of `table` that `txn` holds; returns the transactions that are granted
    /// because of it.
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

    fn grants(locks: &mut TableLocks, txn: u64, mode: LockMode) -> bool {
        locks.request(id(txn), T, mode) == RequestOutcome::Granted
    }

    #[test]
    fn the_matrix_is_the_documented_one() {
        let rows = ["++++-", "++---", "+-+--", "+----", "-----"];
        for (one, row) in ALL.iter().zip(rows) {
            for (two, sign) in ALL.iter().zip(row.chars()) {
                assert_eq!(one.is_compatible(*two), sign == '+', "{one:?} {two:?}");
                let mut locks = TableLocks::default();
                assert!(grants(&mut locks, 1, *one));
                assert_eq!(grants(&mut locks, 2, *two), sign == '+', "{one:?} {two:?}");
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
            let mut modes = ModeSet::default();
            modes.add(held);
            let signs = ALL.iter().map(|mode| if modes.covers(*mode) { '+' } else { '-' });
            assert_eq!(signs.collect::<String>(), covered, "{held:?}");
        }
    }

    #[test]
    fn who_holds_a_mode_that_covers_another_holds_that() {
        for held in ALL {
            let mut locks = TableLocks::default();
            assert!(grants(&mut locks, 1, held));
            let mut modes = ModeSet::default();
            modes.add(held);
            for mode in ALL {
                let holders = locks.holders(T, mode);
                assert_eq!(holders == [id(1)], modes.covers(mode), "{held:?} {mode:?}");
            }
        }
    }

    #[test]
    fn a_newcomer_does_not_overtake_and_an_upgrade_does() {
        let mut locks = TableLocks::default();
        assert!(grants(&mut locks, 1, Access) && grants(&mut locks, 2, Access));
        assert!(!grants(&mut locks, 3, Exclusive));
        assert!(!grants(&mut locks, 4, Access), "behind the exclusive request");
        assert!(grants(&mut locks, 1, Write), "holds the table: waits for holders only");
        assert_eq!(locks.blockers(id(4), T), [id(3)]);
        assert!(!grants(&mut locks, 2, Share));
        assert_eq!(locks.blockers(id(2), T), [id(1)]);
        assert_eq!(locks.release(id(1), T), [id(2)]);
        assert_eq!(locks.release(id(2), T), [id(3)]);
        assert_eq!(locks.release(id(3), T), [id(4)]);
        assert!(locks.release(id(4), T).is_empty() && locks.tables.is_empty());
    }

    #[test]
    fn a_withdrawn_request_lets_others_pass() {
        let mut locks = TableLocks::default();
        assert!(grants(&mut locks, 1, Access));
        assert!(!grants(&mut locks, 2, Exclusive));
        assert!(!grants(&mut locks, 3, Write) && !grants(&mut locks, 4, Access));
        assert_eq!(locks.withdraw(id(2), T), [id(3), id(4)]);
    }
}
