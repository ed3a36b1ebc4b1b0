//! A database of its own for a test, in a directory that goes with it, and transactions there.
//!
//! Invariants: the directory outlives the database, as the caller holds both.
//! Does not do: simulated disks (`common`).

use rightlink::{Database, Result, Transaction};

pub(crate) fn empty() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    (dir, db)
}

/// Runs `work` in a transaction of its own and commits.
pub(crate) fn run<T>(db: &Database, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
    let mut txn = db.begin();
    let done = work(&mut txn)?;
    txn.commit().map(|()| done)
}
