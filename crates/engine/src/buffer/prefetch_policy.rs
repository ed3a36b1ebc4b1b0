//! How read streams choose their distance: one policy for a pool.
//!
//! With the feature `experiments` the policy is chosen at run time, so that policies can be
//! measured against each other. Without it the policy is adaptive, and both types are empty.
//!
//! Invariants: a policy changes which reads are started when, never what a scan returns.
//! Does not do: the distance itself (`prefetch`).

pub use policy::Prefetch;
pub(super) use policy::PrefetchSetting;

#[cfg(not(feature = "experiments"))]
mod policy {
    /// Streams read as far ahead as the waits of their consumers show.
    #[derive(Clone, Copy, Debug)]
    pub struct Prefetch;

    impl Prefetch {
        pub(crate) const fn is_adaptive(self) -> bool {
            true
        }

        pub(crate) const fn is_simple(self) -> bool {
            false
        }

        pub(crate) const fn fixed_reads(self) -> Option<u32> {
            None
        }

        pub(crate) const fn names_pages(self) -> bool {
            true
        }
    }

    #[derive(Debug, Default)]
    pub(in crate::buffer) struct PrefetchSetting {}

    impl PrefetchSetting {
        pub(in crate::buffer) const fn get(&self) -> Prefetch {
            Prefetch
        }
    }
}

#[cfg(feature = "experiments")]
mod policy {
    use rightlink_env::sync::{AtomicU64, Ordering};

    /// How far streams read ahead.
    ///
    /// ```
    /// use rightlink::{Prefetch, ScanOptions};
    /// # use rightlink::{TableSchema, Type, Value};
    /// # fn main() -> rightlink::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = rightlink::Database::open(dir.path())?;
    /// # let mut txn = db.begin();
    /// # let schema = TableSchema::new("n").column("a", Type::Int8).column("b", Type::Int8);
    /// # txn.create_table(&schema.primary_key(["a"]))?;
    /// # let id = txn.insert("n", &[Value::Int8(1), Value::Int8(10)])?;
    /// for policy in [Prefetch::None, Prefetch::Fixed(16), Prefetch::Adaptive] {
    ///     db.set_prefetch(policy);
    ///     assert_eq!(txn.scan("n", &ScanOptions::all())?.count(), 1);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub enum Prefetch {
        /// As far as the waits of the consumer show.
        #[default]
        Adaptive,
        /// Nothing: one page at a time.
        None,
        /// In order, adjacent duplicates left out, and from the start again at every leaf of an
        /// index.
        Simple,
        /// This many reads, always.
        Fixed(u32),
    }

    impl Prefetch {
        /// Does the distance follow the consumer's waits?
        pub(crate) fn is_adaptive(self) -> bool {
            self == Prefetch::Adaptive
        }

        /// Does a stream begin again at every leaf, and join only pages that follow each other?
        pub(crate) fn is_simple(self) -> bool {
            self == Prefetch::Simple
        }

        /// The reads that are always ahead.
        pub(crate) fn fixed_reads(self) -> Option<u32> {
            match self {
                Prefetch::Fixed(reads) => Some(reads),
                _ => None,
            }
        }

        /// Are pages of an index read ahead that a scan names without having come to them?
        pub(crate) fn names_pages(self) -> bool {
            !matches!(self, Prefetch::None | Prefetch::Simple)
        }
    }

    /// The policy, changed at run time.
    #[derive(Debug, Default)]
    pub(in crate::buffer) struct PrefetchSetting(AtomicU64);

    impl PrefetchSetting {
        pub(in crate::buffer) fn get(&self) -> Prefetch {
            match self.0.load(Ordering::Relaxed) {
                0 => Prefetch::Adaptive,
                1 => Prefetch::None,
                2 => Prefetch::Simple,
                word => Prefetch::Fixed((word - 3) as u32),
            }
        }

        pub(in crate::buffer) fn set(&self, policy: Prefetch) {
            let word = match policy {
                Prefetch::Adaptive => 0,
                Prefetch::None => 1,
                Prefetch::Simple => 2,
                Prefetch::Fixed(reads) => 3 + u64::from(reads),
            };
            self.0.store(word, Ordering::Relaxed);
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn policies_survive_their_encoding() {
            let setting = PrefetchSetting::default();
            assert_eq!(setting.get(), Prefetch::default());
            let fixed = [Prefetch::Fixed(1), Prefetch::Fixed(u32::MAX)];
            for policy in
                [Prefetch::None, Prefetch::Simple, Prefetch::Adaptive].into_iter().chain(fixed)
            {
                setting.set(policy);
                assert_eq!(setting.get(), policy);
            }
        }
    }
}
