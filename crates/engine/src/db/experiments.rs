//! Switches and cold caches for experiments and tests (feature `experiments`).
//!
//! Invariants: results of statements do not change, only their speed.
//! Does not do: settings that programs need ([`Options`](crate::Options)).

use rightlink_env::sync::Ordering;

use crate::buffer::Prefetch;
use crate::db::Database;
use crate::error::{Error, Result};
use crate::page::{PageKind, header};
use crate::txn::{DeadHints, LockMode};
use crate::upkeep::Watch;

impl Database {
    /// How far scans that begin from now on read ahead.
    pub fn set_prefetch(&self, policy: Prefetch) {
        self.engine().pool.set_prefetch(policy);
    }

    /// Whether scans mark index entries of dead rows from now on, for experiments.
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
    /// for (name, hints) in DeadHints::EACH {
    ///     db.set_dead_hints(hints);
    ///     assert_eq!(txn.scan("n", &ScanOptions::index("n_pkey"))?.count(), 0, "{name}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_dead_hints(&self, hints: DeadHints) {
        let waits = hints == DeadHints::PinHeld;
        self.engine().pool.waits_for_pins.store(waits, Ordering::Relaxed);
        self.engine().txns.set_dead_hints(hints);
    }

    /// Leaves out the parts of an index's method that have these names from now on, until the index
    /// is opened again, and uses all others, for experiments.
    ///
    /// # Errors
    /// No such table or index; [`Error::Invalid`] if the method has no part of such a name.
    pub fn leave_out(&self, table: &str, index: &str, names: &[&str]) -> Result<()> {
        self.engine().check_open()?;
        let (_txn, entry) = self.engine().use_table(table, LockMode::Access, Watch::default())?;
        match entry.table.index(index)?.method().leave_out(names) {
            true => Ok(()),
            false => Err(Error::Invalid(format!("{index} does not have all parts of {names:?}"))),
        }
    }

    /// Writes everything home and empties the buffer pool, for experiments: the next reads are
    /// cold. Returns how many pages left memory.
    pub fn evict(&self) -> Result<usize> {
        self.engine().check_open()?;
        self.engine().pool.drain_reads();
        self.engine().pool.evict_all()
    }

    /// As [`Database::evict`], but the inner pages of indexes stay, as they do in the pool of a
    /// database whose leaves are much more than memory.
    pub fn evict_leaves(&self) -> Result<usize> {
        self.engine().check_open()?;
        let inner = |page: &_| {
            matches!(header::kind(page), Some(PageKind::BtreeInner | PageKind::BtreeMeta))
        };
        self.engine().pool.drain_reads();
        self.engine().pool.evict(&|page| !inner(page))
    }
}
