//! Whether and how scans mark the index entries of dead rows: one policy for a database.
//!
//! With the feature `experiments` the policy is chosen at run time, so that policies can be
//! measured against each other. Without it the policy is [`Epoch`](DeadHints), and both types are
//! empty.
//!
//! Invariants: R1 and R3 hold with every policy.
//! Does not do: the marking (`mark_dead` of the access methods).

pub(in crate::txn) use policy::DeadHintSetting;
#[cfg(not(feature = "experiments"))]
pub(crate) use policy::DeadHints;
#[cfg(feature = "experiments")]
pub use policy::DeadHints;

#[cfg(not(feature = "experiments"))]
mod policy {
    /// Scans mark entries of dead rows unless row ids of the block were freed since the leaf was
    /// read (R3).
    #[derive(Clone, Copy)]
    pub(crate) struct DeadHints;

    impl DeadHints {
        pub(crate) const fn marks_entries(self) -> bool {
            true
        }

        pub(crate) const fn needs_unchanged_leaf(self) -> bool {
            false
        }
    }

    #[derive(Default)]
    pub(in crate::txn) struct DeadHintSetting {}

    impl DeadHintSetting {
        pub(in crate::txn) const fn get(&self) -> DeadHints {
            DeadHints
        }
    }
}

#[cfg(feature = "experiments")]
mod policy {
    use rightlink_env::sync::{AtomicU8, Ordering};

    /// What scans do about index entries of rows that are dead to everyone.
    ///
    /// ```
    /// use rightlink::DeadHints;
    /// # use rightlink::{ScanOptions, TableSchema, Type};
    /// # fn main() -> rightlink::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = rightlink::Database::open(dir.path())?;
    /// # let mut txn = db.begin();
    /// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
    /// # txn.create_table(&schema.primary_key(["a"]))?;
    /// for hints in [DeadHints::Epoch, DeadHints::PageLsn, DeadHints::Off] {
    ///     db.set_dead_hints(hints);
    ///     assert_eq!(txn.scan("n", &ScanOptions::index("n_pkey"))?.count(), 0);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub enum DeadHints {
        /// They mark them unless row ids of the block were freed since the leaf was read (R3).
        #[default]
        Epoch,
        /// They mark them if the page's LSN says that the leaf has not changed since it was read.
        /// Unlogged pages have no LSN and are marked as with `Epoch`.
        PageLsn,
        /// They do not mark them.
        Off,
    }

    impl DeadHints {
        const EACH: [DeadHints; 3] = [DeadHints::Epoch, DeadHints::PageLsn, DeadHints::Off];

        /// Do scans mark entries at all?
        pub(crate) fn marks_entries(self) -> bool {
            self != DeadHints::Off
        }

        /// Do they mark only on a leaf whose LSN is the one that they read?
        pub(crate) fn needs_unchanged_leaf(self) -> bool {
            self == DeadHints::PageLsn
        }
    }

    /// The policy, changed at run time: its place in `DeadHints::EACH`.
    #[derive(Default)]
    pub(in crate::txn) struct DeadHintSetting(AtomicU8);

    impl DeadHintSetting {
        pub(in crate::txn) fn get(&self) -> DeadHints {
            DeadHints::EACH[usize::from(self.0.load(Ordering::Relaxed))]
        }

        pub(in crate::txn) fn set(&self, hints: DeadHints) {
            self.0.store(hints as u8, Ordering::Relaxed);
        }
    }
}
