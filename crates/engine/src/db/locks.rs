//! Table locks on request, and the list of locks.
//!
//! Invariants: the list is that of one moment.
//! Does not do: list row locks without a waiter, which are in the rows.

use std::time::Duration;

use crate::db::Database;
use crate::db::info::{LockInfo, Locked};
use crate::db::transaction::Transaction;
use crate::error::Result;
use crate::table::Busy;
use crate::txn::{LockMode, LockTarget};

impl Transaction {
    /// Locks a table until the end of the transaction. Statements take the modes they need by
    /// themselves: reading [`LockMode::Access`], writing and locking rows [`LockMode::Write`],
    /// building an index [`LockMode::ShareWrite`], changing the definition [`LockMode::Exclusive`].
    ///
    /// # Errors
    /// With [`Busy::Fail`] and [`Busy::Skip`] `LockTimeout` instead of a wait, also where the wait
    /// would be a deadlock.
    pub fn lock_table(&mut self, table: &str, mode: LockMode, busy: Busy) -> Result<()> {
        let txn = self.running()?;
        let patience = txn.lock_timeout();
        if busy != Busy::Wait {
            txn.set_lock_timeout(Some(Duration::ZERO));
        }
        let locked = self.entry(table, mode).map(drop);
        self.running()?.set_lock_timeout(patience);
        locked
    }
}

impl Database {
    /// Table locks that running transactions hold, and everything that they wait for.
    pub fn locks(&self) -> Vec<LockInfo> {
        let locks = self.engine().txns.locks().into_iter();
        let info = |lock: crate::txn::LockState| LockInfo {
            what: match lock.what {
                LockTarget::Table(table) => Locked::Table(table.0),
                LockTarget::Transaction(number) => Locked::Transaction(number),
            },
            transaction: lock.transaction,
            mode: lock.mode,
            granted: lock.granted,
            blocked_by: lock.blocked_by,
        };
        locks.map(info).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, IndexSchema, ScanOptions, TableSchema, Type, Value};

    fn database() -> (tempfile::TempDir, Database) {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let mut txn = db.begin();
        let schema = TableSchema::new("t").column("a", Type::Int4).column("b", Type::Int4);
        let schema = schema.primary_key(["a"]).index(IndexSchema::new("t_b").on("b"));
        txn.create_table(&schema).unwrap();
        txn.commit().unwrap();
        (dir, db)
    }

    #[test]
    fn a_lock_is_seen_and_keeps_writers_out() {
        let (_dir, db) = database();
        let (mut one, mut two) = (db.begin(), db.begin());
        one.lock_table("t", LockMode::ShareWrite, Busy::Wait).unwrap();
        two.scan("t", &ScanOptions::all()).unwrap();
        let refused = two.lock_table("t", LockMode::Write, Busy::Fail);
        assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{refused:?}");
        let id = db.describe("t").unwrap().id;
        let held = db.locks();
        let held: Vec<_> = held.iter().filter(|lock| lock.what == Locked::Table(id)).collect();
        assert!(held.iter().any(|lock| {
            lock.mode == LockMode::ShareWrite && lock.transaction == one.number() && lock.granted
        }));
        assert!(held.iter().all(|lock| lock.granted && lock.blocked_by.is_empty()));
        drop(one);
        two.lock_table("t", LockMode::Write, Busy::Fail).unwrap();
        drop(two);
        assert!(db.verify().unwrap().is_clean());
    }

    /// Two that have read the table want it for themselves. To wait would be a deadlock for the one
    /// that comes second; it does not want to wait, and hears that the table is busy.
    #[test]
    fn who_does_not_wait_is_in_no_deadlock() {
        let (_dir, db) = database();
        let (mut one, mut two) = (db.begin(), db.begin());
        for txn in [&mut one, &mut two] {
            assert_eq!(txn.scan("t", &ScanOptions::all()).unwrap().count(), 0);
        }
        let waiter = rightlink_env::thread::spawn("waiter", move || {
            two.lock_table("t", LockMode::Exclusive, Busy::Wait).unwrap();
            two.commit().unwrap();
        });
        while db.locks().iter().all(|lock| lock.granted) {
            rightlink_env::thread::yield_now();
        }
        for busy in [Busy::Fail, Busy::Skip] {
            let refused = one.lock_table("t", LockMode::Exclusive, busy);
            assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{refused:?}");
        }
        let refused = one.lock_table("t", LockMode::Exclusive, Busy::Wait);
        let deadlock = |error: &Error| {
            matches!(error, Error::Conflict { kind: crate::ConflictKind::Deadlock, .. })
        };
        assert!(refused.as_ref().is_err_and(deadlock), "{refused:?}");
        drop(one);
        waiter.join().unwrap();
        assert!(db.verify().unwrap().is_clean());
    }

    #[test]
    fn figures_count_what_was_done() {
        let (_dir, db) = database();
        let mut txn = db.begin();
        let rows: Vec<_> = (0..10).map(|n| vec![Value::Int4(n), Value::Int4(n)]).collect();
        let ids = txn.insert_many("t", &rows).unwrap();
        txn.update("t", ids[0], &[("b", Value::Int4(99))]).unwrap();
        txn.delete("t", ids[1]).unwrap();
        txn.get("t", &[Value::Int4(3)]).unwrap();
        assert_eq!(txn.scan("t", &ScanOptions::all()).unwrap().count(), 9);
        txn.commit().unwrap();
        let table = db.describe("t").unwrap();
        let figures = db.table_figures().unwrap();
        let of = figures.iter().find(|one| one.table == table.id).unwrap();
        let rows = of.rows;
        assert_eq!((rows.inserted, rows.updated, rows.heap_only, rows.deleted), (10, 1, 0, 1));
        assert_eq!((rows.scans, rows.rows_scanned), (1, 9));
        let primary = of.indexes.iter().find(|one| one.index == table.indexes[0].id).unwrap();
        assert_eq!((primary.scans, primary.entries, primary.rows), (1, 1, 1));
        // They are there while its definition changes, too.
        let mut txn = db.begin();
        txn.create_index("t", &IndexSchema::new("t_b_a").on("b").on("a")).unwrap();
        let figures = db.table_figures().unwrap();
        let of = figures.iter().find(|one| one.table == table.id).unwrap();
        assert_eq!((of.rows.inserted, of.indexes[0].scans), (10, 1));
        drop(txn);
        assert!(db.verify().unwrap().is_clean());
    }
}
