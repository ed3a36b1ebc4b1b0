//! Whether several rows have one key of an index that does not keep keys unique: for layers that
//! check this when a statement or a transaction ends.
//!
//! Invariants: of two transactions that put rows with one key in and ask before they commit, at
//! most one is told twice that its row is alone. Does not do: keep keys unique.

use crate::datum::Value;
use crate::db::transaction::Transaction;
use crate::db::writer::Writer;
use crate::error::Result;
use crate::table::KeyHolders;
use crate::txn::LockMode;

impl Transaction {
    /// Do several rows have the key `key` in `index` (a value for each key column) as things are
    /// now, whatever snapshots see? Waits for running transactions that decide this.
    ///
    /// A transaction that asks after its last write of the key, and commits only if not, never
    /// commits a second row with the key beside others that do the same.
    ///
    /// ```
    /// # use rightlink::{Database, IndexSchema, TableSchema, Type, Value};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path()).unwrap();
    /// # let mut txn = db.begin();
    /// let schema = TableSchema::new("seats").column("number", Type::Int8);
    /// txn.create_table(&schema.index(IndexSchema::new("by_number").on("number"))).unwrap();
    /// let seat = [Value::Int8(12)];
    /// txn.insert("seats", &seat).unwrap();
    /// assert!(!txn.shares_key("seats", "by_number", &seat).unwrap());
    /// let second = txn.insert("seats", &seat).unwrap();
    /// assert!(txn.shares_key("seats", "by_number", &seat).unwrap());
    /// txn.delete("seats", second).unwrap();
    /// assert!(!txn.shares_key("seats", "by_number", &seat).unwrap());
    /// ```
    ///
    /// # Errors
    /// `NotFound` if there is no such table or index, `Invalid` for values of other types, and a
    /// retryable conflict if the wait is a deadlock.
    pub fn shares_key(&mut self, table: &str, index: &str, key: &[Value]) -> Result<bool> {
        loop {
            match self.holders(table, index, key)? {
                KeyHolders::One => return Ok(false),
                KeyHolders::Several => return Ok(true),
                KeyHolders::Undecided(xid) => self.running()?.wait_for(xid)?,
            }
        }
    }

    /// The same as [`Transaction::shares_key`] without waiting: true also if a running transaction
    /// decides.
    ///
    /// # Errors
    /// As there, without the conflict.
    pub fn may_share_key(&mut self, table: &str, index: &str, key: &[Value]) -> Result<bool> {
        Ok(self.holders(table, index, key)? != KeyHolders::One)
    }

    fn holders(&mut self, table: &str, index: &str, key: &[Value]) -> Result<KeyHolders> {
        loop {
            let entry = self.entry(table, LockMode::Write)?;
            let table = &entry.table;
            let index = table.index(index)?;
            let txn = self.running()?;
            let holders = table.naming(table.holders_of(index, key, &|xid| txn.owns(xid)))?;
            // Writers keep up the index that has taken its place.
            if index.is_in_place() {
                return Ok(holders);
            }
        }
    }
}

impl Writer<'_> {
    /// As [`Transaction::may_share_key`], with the rows that the statement has written so far.
    ///
    /// # Errors
    /// The errors of that function, and those of [`Writer::update`].
    pub fn may_share_key(&mut self, index: &str, key: &[Value]) -> Result<bool> {
        self.finish_updates()?;
        let table = &self.entry.table;
        let index = table.index(index)?;
        let txn = self.statement.txn();
        let holders = table.naming(table.holders_of(index, key, &|xid| txn.owns(xid)))?;
        // Later writers do not keep up an index that was replaced since.
        Ok(holders != KeyHolders::One || !index.is_in_place())
    }
}

#[cfg(test)]
mod tests {
    use rightlink_env::sync::Arc;
    use rightlink_env::thread;

    use crate::{Database, Error, IndexSchema, ScanOptions, TableSchema, Type, Value};

    fn database() -> (tempfile::TempDir, Database) {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let mut txn = db.begin();
        let schema = TableSchema::new("t").column("a", Type::Int8).column("b", Type::Int8);
        txn.create_table(&schema.index(IndexSchema::new("t_a").on("a"))).unwrap();
        txn.commit().unwrap();
        (dir, db)
    }

    #[test]
    fn a_running_rival_is_waited_for() {
        let (_dir, db) = database();
        let key = [Value::Int8(1)];
        for commits in [true, false] {
            let (mut one, mut two) = (db.begin(), db.begin());
            one.insert("t", &[Value::Int8(1), Value::Int8(1)]).unwrap();
            assert!(!one.may_share_key("t", "t_a", &key).unwrap());
            two.insert("t", &[Value::Int8(1), Value::Int8(2)]).unwrap();
            assert!(two.may_share_key("t", "t_a", &key).unwrap());
            let waiter = thread::spawn("waiter", move || {
                let shares = two.shares_key("t", "t_a", &[Value::Int8(1)]).unwrap();
                assert_eq!(shares, commits);
            });
            while db.locks().iter().all(|lock| lock.granted) {
                thread::yield_now();
            }
            match commits {
                true => one.commit().unwrap(),
                false => drop(one),
            }
            waiter.join().unwrap();
            let mut txn = db.begin();
            let rows: Vec<_> = txn.scan("t", &ScanOptions::all()).unwrap().collect();
            rows.into_iter().for_each(|row| assert!(txn.delete("t", row.unwrap().id).unwrap()));
            txn.commit().unwrap();
        }
        assert!(db.verify().unwrap().is_clean());
    }

    /// Many threads move rows to keys of others, and commit only what is alone under its key.
    #[test]
    fn who_asks_before_the_commit_keeps_keys_unique() {
        const KEYS: i64 = 12;
        let (_dir, db) = database();
        let db = Arc::new(db);
        let work = |db: &Database, seed: u64| {
            let mut random = seed;
            let mut next = |below: i64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) as i64 % below
            };
            for _ in 0..300 {
                let mut txn = db.begin();
                let done = (|| -> crate::Result<()> {
                    let mut keys = Vec::new();
                    for _ in 0..=next(3) {
                        let key = next(KEYS);
                        let from = ScanOptions::index("t_a").equal(vec![Value::Int8(next(KEYS))]);
                        let found = txn.scan("t", &from)?.next().transpose()?;
                        match found {
                            Some(row) if next(3) == 0 => {
                                let _ = txn.delete("t", row.id)?;
                            }
                            Some(row) if next(3) == 0 => {
                                let _ = txn.update("t", row.id, &[("b", Value::Int8(key))])?;
                            }
                            Some(row) => {
                                txn.update("t", row.id, &[("a", Value::Int8(key))])?;
                                keys.push(key);
                            }
                            None => {
                                txn.insert("t", &[Value::Int8(key), Value::Int8(0)])?;
                                keys.push(key);
                            }
                        }
                    }
                    for key in keys {
                        if txn.shares_key("t", "t_a", &[Value::Int8(key)])? {
                            return Err(Error::TransactionAborted);
                        }
                    }
                    Ok(())
                })();
                match done {
                    Ok(()) => txn.commit().unwrap(),
                    Err(Error::Conflict { .. } | Error::TransactionAborted) => drop(txn),
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let writers = (1..5).map(|seed| {
            let db = Arc::clone(&db);
            thread::spawn("writer", move || work(&db, seed))
        });
        let writers: Vec<_> = writers.collect();
        for _ in 0..20 {
            db.vacuum(Some("t")).unwrap();
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let mut txn = db.begin();
        let rows = txn.scan("t", &ScanOptions::index("t_a")).unwrap();
        let keys: Vec<_> = rows.map(|row| row.unwrap().values[0].clone()).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
        drop(txn);
        assert!(db.verify().unwrap().is_clean());
    }
}
