//! Whether scans mark the index entries of dead rows: one setting for a database, for measuring.
//!
//! Does not do: the marking; the rules (R1, R3) hold with every setting.

use rightlink_env::sync::{AtomicU8, Ordering};

/// What scans do about index entries of rows that are dead to everyone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeadHints {
    /// They do not mark them.
    Off,
    /// They mark them if the page's LSN says that the leaf has not changed since it was read.
    /// Unlogged pages have no LSN and are marked as with `Epoch`.
    PageLsn,
    /// They mark them unless row ids of the block were freed since the leaf was read (R3).
    #[default]
    Epoch,
}

/// The setting, changed at run time.
#[derive(Default)]
pub(in crate::txn) struct DeadHintSetting(AtomicU8);

impl DeadHintSetting {
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
