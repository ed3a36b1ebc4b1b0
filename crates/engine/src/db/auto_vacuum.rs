//! Vacuum without being asked: entries of pruned rows leave by key while nobody writes, and a table
//! is vacuumed when it has gathered much garbage.
//!
//! The heap counts versions that were ended and versions that pruning removed. A table is due when
//! the difference has grown by [`LEAST`] and by [`PER_BLOCK`] for each of its blocks since the last
//! vacuum. What that one had to leave, to an old snapshot, counts again when every transaction of
//! its time is over.
//!
//! Invariants: nobody is waited for: a table whose lock is not to be had is left for the next look,
//! and one that another thread vacuums is left to it.
//! Does not do: start a thread (`background`), rest (`vacuum`), frozen xids of tables that nobody
//! changes.

use std::time::Duration;

use rightlink_env::sync::Arc;

use crate::catalog::{Changes, Entry};
use crate::db::engine::Engine;
use crate::db::info::VacuumReport;
use crate::db::vacuum::How;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::txn::{Isolation, LockMode};

/// Garbage below which no table is worth a vacuum.
const LEAST: u64 = 1000;
/// More garbage for each block of a table: about a tenth of its rows.
const PER_BLOCK: u64 = 10;

/// Has the table gathered enough?
fn is_due(heap: &Heap) -> bool {
    let enough = LEAST + PER_BLOCK * u64::from(heap.blocks());
    heap.garbage_since_vacuum() >= enough
}

impl Engine {
    /// Looks at every open table once; false if none needed anything.
    pub(crate) fn step_vacuum(&self) -> Result<bool> {
        let mut worked = false;
        self.txns.expire_snapshots();
        let tables = self.catalog.open_tables();
        self.upkeep
            .vacuums
            .forget_all_but(&tables.iter().map(|entry| entry.table.def().id).collect());
        for entry in tables {
            let heap = entry.table.heap();
            if heap.dead_roots() > 0 || is_due(heap) {
                worked |= self.tend(&entry.table.def().name)?;
            }
        }
        Ok(worked)
    }

    /// Cleans one table, by key or as a whole.
    fn tend(&self, name: &str) -> Result<bool> {
        let mut txn = self.txns.begin(Isolation::ReadCommitted);
        txn.set_lock_timeout(Some(Duration::ZERO));
        let found = self.catalog.resolve(&mut txn, &Changes::default(), name, LockMode::Write);
        let entry: Arc<Entry> = match found {
            Ok(entry) => entry,
            Err(Error::NotFound(_) | Error::Conflict { .. } | Error::Cancelled(_)) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        if entry.table.is_being_indexed() {
            // R3: never beside a build.
            return Ok(false);
        }
        let cleaned = entry.table.clean()?;
        if !is_due(entry.table.heap()) {
            return Ok(cleaned.rows > 0);
        }
        match self.vacuum_table(&entry.table, How::Automatic, &mut VacuumReport::default()) {
            Err(Error::Cancelled(_)) => Ok(false),
            Ok(None) => Ok(false),
            Ok(Some(_)) => {
                self.upkeep.count_auto_vacuum();
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use crate::{Database, ScanOptions, TableSchema, Type, Value};
    use rightlink_aio::SimDisk;
    use rightlink_env::Env;

    fn open(rows: i64) -> Database {
        let options = Database::options().simulation(Env::simulated(5), SimDisk::new(5));
        fill(options.open("db").unwrap(), rows)
    }

    fn fill(db: Database, rows: i64) -> Database {
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("t").column("id", Type::Int8).primary_key(["id"]))
            .unwrap();
        let rows: Vec<_> = (0..rows).map(|id| vec![Value::Int8(id)]).collect();
        txn.insert_many("t", &rows).unwrap();
        txn.commit().unwrap();
        db
    }

    fn delete_below(db: &Database, id: i64) {
        let mut txn = db.begin();
        let scan = ScanOptions::index("t_pkey").to(vec![Value::Int8(id - 1)]);
        let rows: Vec<_> = txn.scan("t", &scan).unwrap().map(|row| row.unwrap().id).collect();
        for row in rows {
            assert!(txn.delete("t", row).unwrap());
        }
        txn.commit().unwrap();
    }

    #[test]
    fn a_table_with_much_garbage_is_vacuumed_once() {
        let db = open(5000);
        assert!(!db.engine().step_vacuum().unwrap(), "nothing was deleted");
        delete_below(&db, 500);
        assert!(!db.engine().step_vacuum().unwrap(), "that is not enough");
        delete_below(&db, 3000);
        assert!(db.engine().step_vacuum().unwrap());
        assert_eq!(db.stats().get("auto_vacuums"), Some(1));
        assert!(!db.engine().step_vacuum().unwrap(), "nothing is left");
        assert_eq!(db.vacuum(Some("t")).unwrap().rows_removed, 0);
        assert!(db.verify().unwrap().is_clean());
    }

    /// What it looks at in a second is bounded, and the whole of it takes as long as that says.
    #[test]
    fn a_rate_bounds_it() {
        let env = Env::simulated(5);
        let options = Database::options().simulation(env.clone(), SimDisk::new(5));
        let db = fill(options.vacuum_rate(Some(1 << 20)).open("db").unwrap(), 20_000);
        delete_below(&db, 12_000);
        let info = db.describe("t").unwrap();
        let (began, blocks) = (env.clock.now(), info.heap_blocks + info.indexes[0].blocks);
        assert!(db.engine().step_vacuum().unwrap());
        let (took, bytes) = ((env.clock.now() - began).as_secs_f64(), f64::from(blocks) * 8192.0);
        let seconds = bytes / f64::from(1 << 20);
        assert!(took >= 0.9 * seconds && took < 4.0 * seconds, "{took} s for {seconds} s of pages");
    }

    /// A vacuum that an old snapshot kept from removing anything is not repeated for nothing, and
    /// comes again when the snapshot has gone.
    #[test]
    fn what_an_old_snapshot_kept_is_removed_when_it_has_gone() {
        let db = open(5000);
        let mut reader = db.begin();
        assert_eq!(reader.scan("t", &ScanOptions::all()).unwrap().count(), 5000);
        delete_below(&db, 3000);
        assert!(db.engine().step_vacuum().unwrap());
        assert!(!db.engine().step_vacuum().unwrap(), "the reader is still there");
        drop(reader);
        delete_below(&db, 3001);
        assert!(db.engine().step_vacuum().unwrap());
        assert_eq!(db.stats().get("auto_vacuums"), Some(2));
        assert_eq!(db.vacuum(Some("t")).unwrap().rows_removed, 0);
    }

    /// A scan that is parked for all of it holds up neither vacuum nor the use of row ids.
    #[test]
    fn a_parked_scan_holds_nothing_up() {
        let db = open(5000);
        delete_below(&db, 3000);
        let mut reader = db.begin();
        let mut parked = reader.scan("t", &ScanOptions::index("t_pkey")).unwrap();
        assert_eq!(parked.next().unwrap().unwrap().values, [Value::Int8(3000)]);
        let before = db.describe("t").unwrap().heap_blocks;
        let report = db.vacuum(Some("t")).unwrap();
        assert_eq!((report.rows_removed, report.entries_removed), (3000, 3000));
        let mut txn = db.begin();
        let rows: Vec<_> = (0..3000).map(|id| vec![Value::Int8(id)]).collect();
        txn.insert_many("t", &rows).unwrap();
        txn.commit().unwrap();
        assert!(db.describe("t").unwrap().heap_blocks <= before, "row ids are used again");
        assert_eq!(parked.count(), 1999);
    }
}
