//! The open tables by name.
//!
//! A name is in one of three states: unknown (to be looked up in the catalog), open, or changing. A
//! change marks the name first, under the table's exclusive lock, and unmarks it after the
//! transaction has ended. The stages of an index build beside writers follow each other without a
//! mark (`online`).
//!
//! Invariants: a table is opened once and stays open. Only the transaction that set a mark removes
//! it. A change of what a name stands for begins another edition before it unlocks the names: a
//! transaction that holds the table's lock and reads the same edition again has the same table.
//! Does not do: reading definitions.

use std::collections::HashMap;

use rightlink_env::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, Weak};

use crate::ids::ObjectId;
use crate::table::Table;

/// An open table under a name. Each definition that a name gets has an entry of its own.
#[derive(Clone)]
pub struct Entry {
    /// The table.
    pub table: Arc<Table>,
}

/// What a transaction found under a name when it asked last.
pub struct Known {
    pub(super) name: String,
    pub(super) entry: Arc<Entry>,
    /// Of before it asked.
    pub(super) edition: u64,
}

/// State of a name.
#[derive(Clone)]
pub(super) enum Slot {
    /// Open for every transaction that holds the table's lock.
    Open(Arc<Entry>),
    /// A transaction that holds the exclusive lock of this object changes it, and keeps what it
    /// was.
    Changing(ObjectId, Weak<Entry>),
}

/// All names.
pub(super) struct Names {
    slots: Mutex<HashMap<String, Slot>>,
    loading: Mutex<()>,
    /// Changes of any name so far.
    edition: AtomicU64,
}

impl Names {
    /// No table is open.
    pub(super) fn new() -> Self {
        let (slots, loading) = (Mutex::new(HashMap::new()), Mutex::new(()));
        Self { slots, loading, edition: AtomicU64::new(0) }
    }

    /// The edition of the names, which a use of a definition checks again (R24).
    pub(super) fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// The names, to be changed.
    fn change(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        let slots = self.slots.lock();
        self.edition.fetch_add(1, Ordering::AcqRel);
        slots
    }

    /// State of `name`, `None` if it must be looked up.
    pub(super) fn get(&self, name: &str) -> Option<Slot> {
        self.slots.lock().get(name).cloned()
    }

    /// The tables that are open and not being changed.
    pub(super) fn all_open(&self) -> Vec<Arc<Entry>> {
        let slots = self.slots.lock();
        let open = slots.values().filter_map(|slot| match slot {
            Slot::Open(entry) => Some(Arc::clone(entry)),
            Slot::Changing(..) => None,
        });
        open.collect()
    }

    /// The tables that are open, as they were where one is being changed: to be looked at.
    pub(super) fn all_known(&self) -> Vec<Arc<Entry>> {
        let slots = self.slots.lock();
        let known = slots.values().filter_map(|slot| match slot {
            Slot::Open(entry) => Some(Arc::clone(entry)),
            Slot::Changing(_, before) => before.upgrade(),
        });
        known.collect()
    }

    /// The lock under which tables are opened, one at a time.
    pub(super) fn loading(&self) -> MutexGuard<'_, ()> {
        self.loading.lock()
    }

    /// Is `entry` what `name` stands for now?
    pub(super) fn is_current(&self, name: &str, entry: &Arc<Entry>) -> bool {
        match self.slots.lock().get(name) {
            Some(Slot::Open(current)) => Arc::ptr_eq(current, entry),
            _ => false,
        }
    }

    /// Opens a table under a name that was unknown in `edition`, before its definition was read;
    /// the caller holds [`Names::loading`]. False, and nothing done, in another edition: marks are
    /// set without that lock, so the name may be a change's by now, or the definition an old one.
    pub(super) fn open(&self, name: &str, entry: &Arc<Entry>, edition: u64) -> bool {
        let mut slots = self.slots.lock();
        if self.edition() != edition {
            return false;
        }
        self.edition.fetch_add(1, Ordering::AcqRel);
        let before = slots.insert(name.to_owned(), Slot::Open(Arc::clone(entry)));
        assert!(!matches!(before, Some(Slot::Open(_))), "a table is opened once");
        true
    }

    /// Puts `new` into the place of `old`, whose table it is, without a mark: the caller holds the
    /// table's access lock, so that no transaction can set one. False if `old` is not there any
    /// more.
    pub(super) fn swap(&self, name: &str, old: &Arc<Entry>, new: &Arc<Entry>) -> bool {
        let mut slots = self.change();
        match slots.get_mut(name) {
            Some(Slot::Open(current)) if Arc::ptr_eq(current, old) => {
                *current = Arc::clone(new);
                true
            }
            _ => false,
        }
    }

    /// Marks `name` as changing and returns what it was; `Err` if it is marked by another.
    pub(super) fn mark(&self, name: &str, id: ObjectId) -> Result<Option<Arc<Entry>>, ObjectId> {
        let mut slots = self.change();
        match slots.get(name) {
            Some(Slot::Changing(other, _)) => Err(*other),
            Some(Slot::Open(entry)) => {
                let entry = Arc::clone(entry);
                let before = Arc::downgrade(&entry);
                slots.insert(name.to_owned(), Slot::Changing(id, before));
                Ok(Some(entry))
            }
            None => {
                slots.insert(name.to_owned(), Slot::Changing(id, Weak::new()));
                Ok(None)
            }
        }
    }

    /// Removes the mark of the caller and lets the name stand for `entry`.
    pub(super) fn unmark(&self, name: &str, entry: Option<Arc<Entry>>) {
        let mut slots = self.change();
        let before = match entry {
            Some(entry) => slots.insert(name.to_owned(), Slot::Open(entry)),
            None => slots.remove(name),
        };
        assert!(
            matches!(before, Some(Slot::Changing(..))),
            "{name} was marked by this transaction"
        );
    }
}
