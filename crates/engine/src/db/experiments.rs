//! What only experiments and tests do with an open database (feature `experiments`).
//!
//! Invariants: results are the same under every setting; only the work differs.
//! Does not do: anything that a program needs.

use crate::buffer::Prefetch;
use crate::db::Database;
use crate::error::{Error, Result};
use crate::page::{PageKind, header};
use crate::txn::{DeadHints, LockMode};

impl Database {
    /// How far scans that begin from now on read ahead.
    pub fn set_prefetch(&self, policy: Prefetch) {
        self.engine().pool.set_prefetch(policy);
    }

    /// What scans do about index entries of dead rows from now on.
    pub fn set_dead_hints(&self, hints: DeadHints) {
        self.engine().txns.set_dead_hints(hints);
    }

    /// Leaves out the parts of an index's method that have these names from now on, until the index
    /// is opened again, and uses all others.
    ///
    /// # Errors
    /// No such table or index; [`Error::Invalid`] if the method has no part of such a name.
    pub fn leave_out(&self, table: &str, index: &str, names: &[&str]) -> Result<()> {
        self.engine().check_open()?;
        let (_txn, entry) = self.engine().use_table(table, LockMode::Access)?;
        match entry.table.index(index)?.method().leave_out(names) {
            true => Ok(()),
            false => Err(Error::Invalid(format!("{index} does not have all parts of {names:?}"))),
        }
    }

    /// Writes everything home and empties the buffer pool: the next reads are cold. Returns how
    /// many pages left memory.
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
