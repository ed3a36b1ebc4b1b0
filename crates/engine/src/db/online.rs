//! Index builds beside writers.
//!
//! Invariants: readers and writers go on. A build that fails leaves nothing behind.
//! Does not do: the build (`catalog::online`); several builds at once on one table.

use crate::catalog::{Online, OnlineIndex};
use crate::db::Database;
use crate::db::define::IndexSchema;
use crate::db::definition;
use crate::error::Result;
use crate::txn::{self, LockMode};
use crate::upkeep::Watch;

impl Database {
    /// Creates an index while others go on reading and writing the table. It is there when the call
    /// returns, on its own and not as part of a transaction.
    ///
    /// The build waits, twice, for the transactions that have written to the table and still run:
    /// the calling thread must not have one of those open. It gives way to a change of the table's
    /// definition. Meanwhile a unique index may refuse rows before it can be read by. Transactions
    /// whose snapshot is older than the end of the build cannot read by the index: they get a
    /// retryable conflict.
    ///
    /// ```
    /// # use rightlink::{Database, IndexSchema, TableSchema, Type, Value};
    /// # fn main() -> rightlink::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::open(dir.path())?;
    /// # let mut txn = db.begin();
    /// # txn.create_table(&TableSchema::new("flight").column("tail", Type::Text))?;
    /// # txn.commit()?;
    /// db.create_index_online("flight", &IndexSchema::new("flight_tail").on("tail"))?;
    /// db.reindex("flight", Some("flight_tail"))?;
    /// # assert!(db.verify()?.is_clean());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `UniqueViolation` when the index is unique and two rows have the same key, `AlreadyExists`
    /// when the name is taken, `Conflict` when the build gave way or another one is under way on
    /// the table, `LockTimeout` when a wait took longer than the lock timeout of the database.
    /// Nothing stays.
    pub fn create_index_online(&self, table: &str, index: &IndexSchema) -> Result<()> {
        self.create_index_online_with(table, index, Watch::default())
    }

    /// As [`Database::create_index_online`], and can be ended.
    ///
    /// # Errors
    /// As there; what [`Watch::go_on`] gave, and `Cancelled`.
    pub fn create_index_online_with(
        &self,
        table: &str,
        index: &IndexSchema,
        watch: Watch<'_>,
    ) -> Result<()> {
        let engine = self.engine();
        engine.check_open()?;
        let index = {
            let (_txn, entry) = engine.use_table(table, LockMode::Access, watch)?;
            definition::index(index, entry.table.def())?
        };
        self.build_online(table, OnlineIndex::New(index), watch)
    }

    /// Builds an index of `table` anew while others go on, or all of its indexes one after the
    /// other: dense, and without what was left by rows that are gone. Returns how many were built.
    ///
    /// Beyond what [`Database::create_index_online`] waits for, each build waits for snapshots that
    /// are older than its end, of transactions of any table: the calling thread must not hold one.
    ///
    /// # Errors
    /// As [`Database::create_index_online`]; `NotFound` when there is no such index. The index that
    /// failed is as it was.
    pub fn reindex(&self, table: &str, index: Option<&str>) -> Result<usize> {
        self.reindex_with(table, index, Watch::default())
    }

    /// As [`Database::reindex`], and can be ended. Indexes that were built before that stay so.
    ///
    /// # Errors
    /// As there; what [`Watch::go_on`] gave, and `Cancelled`.
    pub fn reindex_with(
        &self,
        table: &str,
        index: Option<&str>,
        watch: Watch<'_>,
    ) -> Result<usize> {
        let engine = self.engine();
        engine.check_open()?;
        let names: Vec<String> = {
            let (_txn, entry) = engine.use_table(table, LockMode::Access, watch)?;
            let def = entry.table.def();
            match index {
                Some(name) => vec![def.index(name)?.name.clone()],
                None => def.indexes.iter().map(|index| index.name.clone()).collect(),
            }
        };
        for name in &names {
            self.build_online(table, OnlineIndex::Again(name), watch)?;
        }
        Ok(names.len())
    }

    fn build_online(&self, table: &str, what: OnlineIndex<'_>, watch: Watch<'_>) -> Result<()> {
        let engine = self.engine();
        engine.admit()?;
        let options = engine.build_options();
        let mut go_on =
            || engine.check_open().and_then(|()| engine.admit()).and_then(|()| (watch.go_on)());
        let begun = |txn: &txn::Transaction| (watch.begun)(txn.cancel_handle());
        let patience = watch.lock_timeout.or_else(|| engine.txns.lock_timeout());
        let clock = &engine.env.clock;
        let online = Online { options, clock, patience, go_on: &mut go_on, begun: &begun };
        engine.catalog.build_online(table, what, online)
    }
}
