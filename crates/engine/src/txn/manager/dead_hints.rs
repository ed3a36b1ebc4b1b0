//! Whether and how scans mark the index entries of dead rows: one policy for a database.
//!
//! With the feature `experiments` the policy is chosen at run time, so that policies can be
//! measured against each other. Without it the policy is a constant, [`DeadHints::Epoch`].
//!
//! Invariants: R1 and R3 hold with every policy, because each asks the recycle clock.
//! Does not do: the marking (`mark_dead` of the access methods).

#[cfg(feature = "experiments")]
use rightlink_env::sync::{AtomicU8, Ordering};

/// What scans do about index entries of rows that are dead to everyone.
#[cfg_attr(
    not(feature = "experiments"),
    expect(dead_code, unreachable_pub, reason = "a choice of experiments")
)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeadHints {
    /// They mark them unless row ids of the block were freed since the leaf was read (R3).
    #[default]
    Epoch,
    /// They mark them if the page's LSN says that the leaf has not changed since it was read.
    /// Unlogged pages have no LSN and are marked as with `Epoch`.
    PageLsn,
    /// As `PageLsn`, but changes that the scan's own thread made to the leaf do not count: their
    /// LSN is saved in place of the one that was read, if nobody else changed the leaf in between.
    SavedLsn,
    /// The leaf stays pinned until its entries are marked, and a vacuum's pass over a B-tree waits
    /// at each page until it has the only pin. Marks are as with `Epoch`.
    PinHeld,
    /// They do not mark them.
    Off,
}

impl DeadHints {
    /// Every policy with its name.
    #[cfg(feature = "experiments")]
    pub const EACH: [(&'static str, DeadHints); 5] = [
        ("epoch", DeadHints::Epoch),
        ("page-lsn", DeadHints::PageLsn),
        ("saved-lsn", DeadHints::SavedLsn),
        ("pin-held", DeadHints::PinHeld),
        ("off", DeadHints::Off),
    ];

    /// Do scans mark entries at all?
    #[inline]
    pub(crate) fn marks_entries(self) -> bool {
        self != DeadHints::Off
    }

    /// Do they mark only on a leaf whose LSN is the one that they read, or saved since?
    #[inline]
    pub(crate) fn needs_unchanged_leaf(self) -> bool {
        matches!(self, DeadHints::PageLsn | DeadHints::SavedLsn)
    }
}

/// The policy, changed at run time: its place in `DeadHints::EACH`.
#[derive(Default)]
pub(in crate::txn) struct DeadHintSetting {
    #[cfg(feature = "experiments")]
    place: AtomicU8,
}

impl DeadHintSetting {
    #[inline]
    pub(in crate::txn) fn get(&self) -> DeadHints {
        #[cfg(feature = "experiments")]
        return DeadHints::EACH[usize::from(self.place.load(Ordering::Relaxed))].1;
        #[cfg(not(feature = "experiments"))]
        DeadHints::Epoch
    }

    #[cfg(feature = "experiments")]
    pub(in crate::txn) fn set(&self, hints: DeadHints) {
        self.place.store(hints as u8, Ordering::Relaxed);
    }
}
