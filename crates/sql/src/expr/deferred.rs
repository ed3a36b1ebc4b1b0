//! Constraints that are looked at when the transaction commits, or when it asks for it.
//!
//! What a statement leaves for later are keys: those that rows which came refer to, those of rows
//! which went, and those that are to be unique and may not be. They are looked at as things are
//! then, so a key that no row has any more, or that a rolled back savepoint has left, is none to
//! fail by.
//!
//! Invariants: what is kept is counted. It ends with the transaction.
//! Does not do: looking at keys (`exec::references`, `exec::unique_keys`).

use std::collections::{BTreeMap, BTreeSet};

use rightlink::{Budget, Reservation};
use rightlink_env::sync::{AtomicBool, Mutex, Ordering};

use super::aggregate::Ordered;
use crate::error::{Result, SqlError, code};
use crate::notes::Deferral;
use crate::types::{Datum, Row};

/// Bytes that are reserved at a time.
const STEP: usize = 64 << 10;
/// What a key takes beside its values.
const EACH: usize = 64;

/// A constraint: the number of its table, and its name.
pub(crate) type KeyName = (u32, String);

/// A constraint that may wait.
pub(crate) struct Deferrable<'k> {
    /// The number of its table.
    pub(crate) table: u32,
    pub(crate) name: &'k str,
    pub(crate) deferral: Deferral,
}

impl Deferrable<'_> {
    fn name(&self) -> KeyName {
        (self.table, self.name.to_owned())
    }
}

/// Which constraints of a transaction wait for its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    /// What SET CONSTRAINTS ALL says.
    all: Option<bool>,
    named: BTreeMap<KeyName, bool>,
}

/// Keys of one constraint that are to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    deferral: Deferral,
    /// Keys that rows which came refer to, or that are to be unique.
    pub(crate) wanted: BTreeSet<Ordered>,
    /// Keys of the parent that went.
    pub(crate) gone: BTreeSet<Ordered>,
}

/// What the transaction of a session has left for later.
#[derive(Default)]
pub(crate) struct Deferred {
    /// Has the transaction left or said anything?
    used: AtomicBool,
    state: Mutex<State>,
}

impl std::fmt::Debug for Deferred {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Deferred")
    }
}

#[derive(Default)]
struct State {
    modes: Waiting,
    keys: BTreeMap<KeyName, Keys>,
    /// Keys that SET CONSTRAINTS has had looked at. A rollback to a savepoint may undo what made
    /// them good, so they are kept.
    seen: BTreeMap<KeyName, Keys>,
    bytes: usize,
    memory: Option<Reservation>,
}

impl Waiting {
    /// Does this constraint wait?
    fn defer(&self, name: &KeyName, deferral: Deferral) -> bool {
        match deferral {
            Deferral::Never => false,
            Deferral::Immediate | Deferral::Deferred => {
                let said = self.named.get(name).copied().or(self.all);
                said.unwrap_or(deferral == Deferral::Deferred)
            }
        }
    }
}

impl State {
    fn charge(&mut self, bytes: usize, budget: &Budget) -> Result<()> {
        self.bytes += bytes;
        while self.memory.as_ref().map_or(0, Reservation::bytes) < self.bytes {
            let wanted = self.bytes.next_multiple_of(STEP);
            // The old one goes first, as the new one is all of it.
            self.memory = None;
            self.memory = Some(budget.try_reserve(wanted).ok_or_else(|| {
                let detail = format!("{} bytes of deferred keys do not fit.", self.bytes);
                SqlError::new(code::OUT_OF_MEMORY, "out of memory").detail(detail)
            })?);
        }
        Ok(())
    }
}

/// Adds keys to those that are kept.
fn add(kept: &mut BTreeMap<KeyName, Keys>, name: &KeyName, keys: &Keys) {
    let known = kept.entry(name.clone()).or_default();
    known.deferral = keys.deferral;
    known.wanted.extend(keys.wanted.iter().cloned());
    known.gone.extend(keys.gone.iter().cloned());
}

impl Deferred {
    /// Does this constraint wait?
    pub(crate) fn waits(&self, key: &Deferrable<'_>) -> bool {
        key.deferral != Deferral::Never && self.state.lock().modes.defer(&key.name(), key.deferral)
    }

    /// Keeps keys of rows that came to the table: those that they refer to, or those that they have
    /// and that are to be unique.
    ///
    /// # Errors
    /// `53200` if they do not fit the memory.
    pub(crate) fn want(
        &self,
        key: &Deferrable<'_>,
        wanted: BTreeSet<Ordered>,
        budget: &Budget,
    ) -> Result<()> {
        let into = |keys: &mut Keys, row| keys.wanted.insert(row);
        wanted.into_iter().try_for_each(|Ordered(row)| self.keep(key, row, into, budget))
    }

    /// Keeps a key of the parent that went.
    ///
    /// # Errors
    /// `53200` if it does not fit the memory.
    pub(crate) fn went(&self, key: &Deferrable<'_>, gone: Row, budget: &Budget) -> Result<()> {
        self.keep(key, gone, |keys, row| keys.gone.insert(row), budget)
    }

    fn keep(
        &self,
        key: &Deferrable<'_>,
        row: Row,
        into: impl Fn(&mut Keys, Ordered) -> bool,
        budget: &Budget,
    ) -> Result<()> {
        let bytes = EACH + size_of_val(&*row) + row.iter().map(Datum::heap_bytes).sum::<usize>();
        let mut state = self.state.lock();
        let keys = state.keys.entry(key.name()).or_default();
        keys.deferral = key.deferral;
        if into(keys, Ordered(row)) {
            self.used.store(true, Ordering::Relaxed);
            state.charge(bytes, budget)?;
        }
        Ok(())
    }

    /// Does a constraint of the table of this number wait?
    pub(crate) fn has_some_of(&self, table: u32) -> bool {
        self.used.load(Ordering::Relaxed)
            && self.state.lock().keys.keys().any(|(known, _)| *known == table)
    }

    /// Takes what is to be looked at now: everything at the commit, else what waits no more.
    pub(crate) fn take_due(&self, at_commit: bool) -> Vec<(KeyName, Keys)> {
        if !self.used.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut state = self.state.lock();
        let all = std::mem::take(&mut state.keys);
        let modes = &state.modes;
        let (due, kept): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|(name, keys)| at_commit || !modes.defer(name, keys.deferral));
        state.keys = kept.into_iter().collect();
        if !at_commit {
            due.iter().for_each(|(name, keys)| add(&mut state.seen, name, keys));
        }
        due
    }

    /// What SET CONSTRAINTS has said so far.
    pub(crate) fn modes(&self) -> Waiting {
        self.state.lock().modes.clone()
    }

    /// Back to what it had said at a savepoint. Keys that were looked at since wait again.
    pub(crate) fn return_to(&self, modes: Waiting) {
        let mut state = self.state.lock();
        state.modes = modes;
        let seen = std::mem::take(&mut state.seen);
        seen.iter().for_each(|(name, keys)| add(&mut state.keys, name, keys));
    }

    /// SET CONSTRAINTS ALL
    pub(crate) fn set_all(&self, waits: bool) {
        self.used.store(true, Ordering::Relaxed);
        self.state.lock().modes = Waiting { all: Some(waits), named: BTreeMap::new() };
    }

    /// SET CONSTRAINTS of this one.
    pub(crate) fn set(&self, name: KeyName, waits: bool) {
        self.used.store(true, Ordering::Relaxed);
        self.state.lock().modes.named.insert(name, waits);
    }

    /// The transaction has ended.
    pub(crate) fn clear(&self) {
        if self.used.swap(false, Ordering::Relaxed) {
            *self.state.lock() = State::default();
        }
    }
}
