//! When may a scan mark index entries dead? One setting for the whole database, for measuring.
//!
//! Does not do: the marking; the rules (R1, R3) hold whatever is set here.

use rightlink_env::sync::{AtomicU8, Ordering};

/// What becomes of the rows that scans find dead to everyone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeadHints {
    /// Their index entries are not marked.
    Off,
    /// Marked only if the leaf was not changed since it was read, by the scan's own statement or
    /// by anyone: the page's LSN tells. Unlogged pages have none and are marked as with `Epoch`.
    PageLsn,
    /// Marked unless row ids of the block were given free since the leaf was read (R3).
    #[default]
    Epoch,
}

/// The setting, changed at run time.
#[derive(Default)]
pub(in crate::txn) struct Setting(AtomicU8);

impl Setting {
    pub(in crate::txn) fn get(&self) -> DeadHints {
        match self.0.load(Ordering::Relaxed) {
            1 => DeadHints::PageLsn,
            2 => DeadHints::Off,
            _ => DeadHints::Epoch,
        }
    }

    pub(in crate::txn) fn set(&self, hints: DeadHints) {
        let value = match hints {
            DeadHints::Epoch => 0,
            DeadHints::PageLsn => 1,
            DeadHints::Off => 2,
        };
        self.0.store(value, Ordering::Relaxed);
    }
}
