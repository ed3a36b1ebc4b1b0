//! Automatic vacuum: removes entries of pruned rows by key, and vacuums tables that are due.
//!
//! A table is due when its garbage has grown, since its last vacuum, by the threshold of its
//! definition. Garbage that the last vacuum had to leave to an old snapshot counts again once every
//! transaction of its time is over. A table is also due if it has very old xids.
//!
//! For a table that is unused since the database was opened, only the garbage count on its meta
//! page is known. The first look reads all of these, and opens the tables that are due.
//!
//! The heap counts garbage in memory. The count is stored on the meta page, roughly while it
//! changes and exactly at a clean close, and continues from there when the table is opened.
//!
//! Invariants: no lock is waited for. A table whose lock is not free is left to the next look, and
//! a table that another thread vacuums is left to it.
//! Does not do: start a thread (`threads`); rest (`pacing`); count garbage (`heap/garbage.rs`).

use rightlink_env::sync::Ordering;

use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::ids::Xid;
use crate::table::Table;
use crate::table::schema::TableDef;
use crate::txn::LockMode;
use crate::upkeep::vacuum::VacuumEnd;
use crate::upkeep::{Engine, VacuumMode, VacuumReport, VacuumRequest};

/// A table with xids this much older than the horizon is vacuumed, so that their outcomes, 32 MiB
/// of them, can go. No row of it need be deleted for this.
const OLD: u64 = if cfg!(test) { 1000 } else { 4 << 20 };

/// After a crash, the garbage of a table is known except for this part of its threshold, and for
/// garbage since the last look.
const STORED_WITHIN: u64 = 8;

/// Has the table enough garbage, or very old xids?
pub(super) fn is_due(table: &Table, horizon: Xid) -> bool {
    let (heap, when) = (table.heap(), table.def().auto_vacuum);
    let is_old = when.enabled && horizon.0.saturating_sub(heap.vacuumed_below().0) >= OLD;
    is_old || when.is_due(heap.blocks(), heap.garbage_since_vacuum())
}

/// Is the stored count near enough to the real one?
fn is_noted(table: &Table) -> bool {
    let heap = table.heap();
    heap.is_garbage_noted(table.def().auto_vacuum.enough(heap.blocks()) / STORED_WITHIN)
}

impl Engine {
    /// Looks at every open table once; false if none needed work. A table that fails does not hold
    /// up the others: the first failure is returned after all of them had their turn.
    pub(crate) fn step_vacuum(&self) -> Result<bool> {
        self.txns.expire_snapshots();
        let (mut worked, mut failure) = (false, self.search_old_xids().err());
        let horizon = self.txns.horizon();
        let tables = self.catalog.open_tables();
        let open = tables.iter().map(|entry| entry.table.def().id).collect();
        self.upkeep.vacuums.retain_tables(&open);
        let needs_work = |table: &Table| {
            table.heap().dead_roots() > 0 || is_due(table, horizon) || !is_noted(table)
        };
        let used = tables.iter().map(|entry| &entry.table).filter(|table| needs_work(table));
        let unused = self.unused_tables_due().unwrap_or_else(|error| {
            failure.get_or_insert(error);
            Vec::new()
        });
        for name in used.map(|table| table.def().name.clone()).chain(unused) {
            match self.clean_or_vacuum(&name) {
                Ok(did) => worked |= did,
                Err(error @ Error::Poisoned(_)) => return Err(error),
                Err(error) => _ = failure.get_or_insert(self.catalog.blamed(error)),
            }
        }
        failure.map_or(Ok(worked), Err)
    }

    /// At the first call: names of the tables that are due although they are unused since the
    /// database was opened. Their files do not stay open.
    fn unused_tables_due(&self) -> Result<Vec<String>> {
        let checked = &self.upkeep.unused_tables_checked;
        if checked.swap(true, Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let open = self.catalog.open_tables();
        let defs = self.catalog.definitions().inspect_err(|_| {
            checked.store(false, Ordering::Relaxed);
        })?;
        let unused = |def: &TableDef| open.iter().all(|entry| entry.table.def().id != def.id);
        let is_due = |def: &TableDef| match Heap::glance(&self.pool, def.heap) {
            Ok((blocks, garbage)) => def.auto_vacuum.is_due(blocks, garbage.into()),
            // The table is gone, or its next user gets the error.
            Err(_) => false,
        };
        let mut due = Vec::new();
        for def in defs.into_iter().filter(|def| def.auto_vacuum.enabled && unused(def)) {
            if self.upkeep.is_closed() {
                break;
            }
            if is_due(&def) {
                due.push(def.name);
            }
        }
        Ok(due)
    }

    /// Removes entries of pruned rows by key, and vacuums the table called `name` if it is due.
    /// False if nothing was done.
    fn clean_or_vacuum(&self, name: &str) -> Result<bool> {
        let (_txn, entry) = match self.try_table(name, LockMode::Write) {
            Ok(found) => found,
            Err(
                Error::NotFound(_)
                | Error::Conflict { .. }
                | Error::Cancelled(_)
                | Error::LockTimeout { .. },
            ) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        if entry.table.is_being_indexed() {
            // R3: never beside a build.
            return Ok(false);
        }
        self.admit_more(true)?;
        let cleaned = entry.table.clean()?;
        if !is_due(&entry.table, self.txns.horizon()) {
            self.note_garbage(&entry.table)?;
            return Ok(cleaned.rows > 0);
        }
        let request = VacuumRequest::new(VacuumMode::Automatic);
        match self.vacuum_table(&entry.table, request, &mut VacuumReport::default()) {
            Err(Error::Cancelled(_) | Error::LockTimeout { .. }) | Ok(VacuumEnd::Occupied) => {
                Ok(false)
            }
            Ok(VacuumEnd::Done) => {
                self.upkeep.counters.auto_vacuums.fetch_add(1, Ordering::Relaxed);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Stores the garbage count of `table`, on which the caller holds a lock, unless the stored one
    /// is near enough.
    pub(super) fn note_garbage(&self, table: &Table) -> Result<()> {
        if is_noted(table) {
            return Ok(());
        }
        match table.heap().note_garbage() {
            Err(Error::DiskFull(_)) => Ok(()),
            noted => noted,
        }
    }

    /// At a clean close: stores the exact counts of all tables. A table whose lock is not free, or
    /// whose meta page cannot be read, is left out.
    pub(in crate::upkeep) fn note_all_garbage(&self) -> Result<()> {
        let open = self.catalog.open_tables();
        for known in open.iter().filter(|entry| !entry.table.heap().is_garbage_noted(0)) {
            let found = self.try_table(&known.table.def().name, LockMode::Access);
            let Ok((_txn, entry)) = found else { continue };
            if let Err(error @ Error::Poisoned(_)) = entry.table.heap().note_garbage() {
                return Err(error);
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use crate::upkeep::{VacuumMode, VacuumReport, VacuumRequest};
    use crate::{AutoVacuum, Database, Error, IndexSchema, ScanOptions, TableSchema, Type, Value};
    use rightlink_aio::SimDisk;
    use rightlink_aio::sim::CrashChoice;
    use rightlink_env::sync::{Arc, OnceLock};
    use rightlink_env::{Env, points, thread};

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

    /// A page of one table that cannot be read once kept vacuum from all tables after it.
    #[test]
    fn a_damaged_table_does_not_keep_the_others_waiting() {
        let disk = SimDisk::new(5);
        let options = Database::options().simulation(Env::simulated(5), disk.clone());
        let db = fill(options.open("db").unwrap(), 5000);
        let mut txn = db.begin();
        let schema = TableSchema::new("u").column("id", Type::Int8).primary_key(["id"]);
        txn.create_table(&schema).unwrap();
        let rows: Vec<_> = (0..5000).map(|id| vec![Value::Int8(id)]).collect();
        let ids = txn.insert_many("u", &rows).unwrap();
        txn.commit().unwrap();
        delete_below(&db, 3000);
        let mut txn = db.begin();
        assert_eq!(txn.delete_many("u", &ids[..3000]).unwrap(), 3000);
        txn.commit().unwrap();
        db.evict().unwrap();
        let file = table(&db, "t").heap().files().heap.path();
        let found = disk.files().into_iter().find(|(name, _)| name.ends_with(&file)).unwrap();
        disk.flip_bit(&found.0, 3 * 8192 + 5000, 1);
        for _ in 0..2 {
            match db.engine().step_vacuum() {
                Err(Error::Corruption { relation, block, .. }) => {
                    assert_eq!((relation.as_deref(), block), (Some("table t"), Some(3)));
                }
                other => panic!("the damage is told, not {other:?}"),
            }
            assert_eq!(db.stats().get("auto_vacuums"), Some(1), "u was vacuumed, once");
        }
        assert_eq!(db.vacuum(Some("u")).unwrap().rows_removed, 0);
        disk.flip_bit(&found.0, 3 * 8192 + 5000, 1);
        assert!(db.engine().step_vacuum().unwrap(), "the page is there again");
        assert!(db.verify().unwrap().is_clean());
    }

    fn table(db: &Database, name: &str) -> Arc<crate::table::Table> {
        let open = db.engine().catalog.open_tables();
        let found = open.into_iter().find(|entry| entry.table.def().name == name).unwrap();
        Arc::clone(&found.table)
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

    /// A second thread passes over a table that is being vacuumed and takes the next one.
    #[test]
    fn several_tables_are_vacuumed_at_once() {
        let db = open(5000);
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("u").column("id", Type::Int8).primary_key(["id"]))
            .unwrap();
        let rows: Vec<_> = (0..5000).map(|id| vec![Value::Int8(id)]).collect();
        txn.insert_many("u", &rows).unwrap();
        txn.commit().unwrap();
        for table in ["t", "u"] {
            let mut txn = db.begin();
            let scan = ScanOptions::index(format!("{table}_pkey")).to(vec![Value::Int8(2999)]);
            let rows: Vec<_> = txn.scan(table, &scan).unwrap().map(|row| row.unwrap().id).collect();
            txn.delete_many(table, &rows).unwrap();
            txn.commit().unwrap();
        }
        let first: Arc<OnceLock<String>> = Arc::default();
        let hook = {
            let (db, first) = (db.clone(), Arc::clone(&first));
            points::install_local(move |point| {
                if point != "vacuum.before-indexes" || first.get().is_some() {
                    return;
                }
                let running = db.vacuum_progress();
                assert_eq!(running.len(), 1);
                first.set(running[0].table.clone()).unwrap();
                let other = db.clone();
                let beside = thread::spawn("second", move || other.engine().step_vacuum());
                assert!(beside.join().unwrap().unwrap(), "it found the other table");
                assert_eq!(db.vacuum_progress(), running, "this one is as far as it was");
                assert_eq!(db.stats().get("auto_vacuums"), Some(1));
            })
        };
        assert!(db.engine().step_vacuum().unwrap());
        drop(hook);
        assert!(first.get().is_some(), "the first one was interrupted");
        assert_eq!(db.stats().get("auto_vacuums"), Some(2));
        assert_eq!(db.vacuum(None).unwrap().rows_removed, 0);
        assert!(db.verify().unwrap().is_clean());
    }

    /// Deletes rows from `first` on by one statement, and reads no others.
    fn delete_some(db: &Database, first: i64, count: u64) {
        let mut txn = db.begin();
        let mut row = |id| txn.get("t", &[Value::Int8(id)]).unwrap().unwrap().id;
        let rows: Vec<_> = (first..first + count as i64).map(&mut row).collect();
        assert_eq!(txn.delete_many("t", &rows).unwrap(), count);
        txn.commit().unwrap();
    }

    /// Garbage that makes a vacuum of `t` due.
    fn enough(db: &Database) -> u64 {
        AutoVacuum::default().enough(db.describe("t").unwrap().heap_blocks)
    }

    /// A table whose garbage was forgotten when the database was closed waited for as much again.
    #[test]
    fn garbage_from_before_a_close_counts() {
        let disk = SimDisk::new(5);
        let options = || Database::options().simulation(Env::simulated(5), disk.clone());
        let db = fill(options().open("db").unwrap(), 20_000);
        let enough = enough(&db);
        delete_some(&db, 0, enough - 100);
        assert!(!db.engine().step_vacuum().unwrap(), "that is not enough");
        db.close().unwrap();
        let db = options().open("db").unwrap();
        delete_some(&db, 19_000, 50);
        assert!(!db.engine().step_vacuum().unwrap(), "nor is that");
        delete_some(&db, 19_100, 50);
        assert!(db.engine().step_vacuum().unwrap());
        assert_eq!(db.stats().get("auto_vacuums"), Some(1));
        assert_eq!(db.vacuum(Some("t")).unwrap().rows_removed, 0);
        assert!(db.verify().unwrap().is_clean());
    }

    /// The stored garbage count makes a table due before its first use. The look opens no file of
    /// the other tables.
    #[test]
    fn a_table_that_nobody_uses_is_vacuumed_for_what_is_noted() {
        let disk = SimDisk::new(5);
        let options = || Database::options().simulation(Env::simulated(5), disk.clone());
        let db = fill(options().open("db").unwrap(), 5000);
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("u").column("id", Type::Int8)).unwrap();
        txn.insert("u", &[Value::Int8(1)]).unwrap();
        txn.commit().unwrap();
        delete_some(&db, 0, 3000);
        let files = ["t", "u"].map(|name| table(&db, name).heap().files().heap);
        db.close().unwrap();
        let db = options().open("db").unwrap();
        let is_open = || files.map(|file| db.engine().pool.is_open(file));
        assert_eq!(is_open(), [false, false], "nobody has used them");
        assert!(db.engine().step_vacuum().unwrap());
        assert_eq!((db.stats().get("auto_vacuums"), is_open()), (Some(1), [true, false]));
        assert!(!db.engine().step_vacuum().unwrap(), "nothing is left");
        assert_eq!(db.vacuum(Some("t")).unwrap().rows_removed, 0);
        assert_eq!(db.begin().scan("t", &ScanOptions::all()).unwrap().count(), 2000);
        assert!(db.verify().unwrap().is_clean());
    }

    /// A crash forgets no more than an eighth of what makes a table due, and what was made since
    /// the last look. What it leaves counts.
    #[test]
    fn garbage_from_before_a_crash_counts() {
        let disk = SimDisk::new(5);
        let options = |disk| Database::options().simulation(Env::simulated(5), disk);
        let db = fill(options(disk.clone()).open("db").unwrap(), 20_000);
        let (enough, noted) = (enough(&db), || table(&db, "t").heap().is_garbage_noted(0));
        delete_some(&db, 0, enough / 8);
        assert!(!db.engine().step_vacuum().unwrap() && !noted(), "not worth a record");
        delete_some(&db, 3000, enough / 2);
        assert!(!db.engine().step_vacuum().unwrap() && noted());
        let made = enough / 8 + enough / 2;
        // Its commit makes the record durable.
        delete_some(&db, 16_000, 1);
        let crashed = disk.crash_image(&CrashChoice::AllLost);
        let db = options(crashed).open("db").unwrap();
        db.describe("t").unwrap();
        let known = table(&db, "t").heap().garbage_since_vacuum();
        assert!(known + 1 + enough / 8 >= made && known <= made + 1, "{known} of {made} and one");
        let rest = enough - known;
        // By its garbage; xids that a crash skips make it old, too.
        let is_due = || {
            let (table, when) = (table(&db, "t"), AutoVacuum::default());
            when.is_due(table.heap().blocks(), table.heap().garbage_since_vacuum())
        };
        delete_some(&db, 10_000, rest - 1);
        assert!(!is_due(), "that is not enough");
        delete_some(&db, 18_000, 1);
        assert!(is_due() && db.engine().step_vacuum().unwrap());
        assert_eq!(db.stats().get("auto_vacuums"), Some(1));
        let left = db.begin().scan("t", &ScanOptions::all()).unwrap().count() as u64;
        assert_eq!(left, 20_000 - made - 1 - rest, "what was acknowledged stays deleted");
        assert!(db.verify().unwrap().is_clean());
    }

    /// The rate bounds the bytes per second, and so the duration of the run.
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

    /// Old outcomes are forgotten even if no row is deleted, and if their table is unused.
    #[test]
    fn outcomes_of_long_ago_go_unasked() {
        let disk = SimDisk::new(5);
        let options = || Database::options().simulation(Env::simulated(5), disk.clone());
        let db = fill(options().open("db").unwrap(), 100);
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("log").column("id", Type::Int8)).unwrap();
        txn.commit().unwrap();
        db.close().unwrap();
        let db = options().open("db").unwrap();
        let kept = || db.engine().txns.next_xid().0 - db.engine().txns.oldest_xid().0;
        let mut most = 0;
        for id in 0..5000 {
            let mut txn = db.begin();
            txn.insert("log", &[Value::Int8(id)]).unwrap();
            txn.commit().unwrap();
            if id % 100 == 0 {
                db.engine().step_vacuum().unwrap();
                most = kept().max(most);
            }
        }
        assert!(most > super::OLD && most < 2 * super::OLD, "{most} outcomes were kept");
        assert!(db.stats().get("auto_vacuums") < Some(20));
        assert_eq!(db.begin().scan("log", &ScanOptions::all()).unwrap().count(), 5000);
        assert_eq!(db.begin().scan("t", &ScanOptions::all()).unwrap().count(), 100);
        assert!(db.verify().unwrap().is_clean());
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

    /// Thresholds are the table's own, also after it was opened again, and can be changed.
    #[test]
    fn each_table_has_thresholds_of_its_own() {
        let disk = SimDisk::new(5);
        let options = || Database::options().simulation(Env::simulated(5), disk.clone());
        let db = fill(options().open("db").unwrap(), 5000);
        let set = |db: &Database, when| {
            let mut txn = db.begin();
            txn.alter_table("t", crate::AlterTable::AutoVacuum(when)).unwrap();
            txn.commit().unwrap();
        };
        let soon = AutoVacuum { least: 10, per_block: 0, ..AutoVacuum::default() };
        assert_eq!(db.describe("t").unwrap().auto_vacuum, AutoVacuum::default());
        delete_below(&db, 20);
        assert!(!db.engine().step_vacuum().unwrap(), "that is not enough");
        set(&db, soon);
        assert!(db.engine().step_vacuum().unwrap(), "but by now it is");
        delete_below(&db, 25);
        assert!(!db.engine().step_vacuum().unwrap());
        set(&db, AutoVacuum { enabled: false, ..soon });
        delete_below(&db, 4000);
        assert!(!db.engine().step_vacuum().unwrap(), "never unasked");
        db.close().unwrap();
        let db = options().open("db").unwrap();
        assert!(!db.describe("t").unwrap().auto_vacuum.enabled);
        assert!(!db.engine().step_vacuum().unwrap());
        assert_eq!(db.vacuum(Some("t")).unwrap().rows_removed, 3980);
        set(&db, soon);
        delete_below(&db, 4100);
        assert!(db.engine().step_vacuum().unwrap());
        assert!(db.verify().unwrap().is_clean());
    }

    /// Rows that readers pruned, more than can be kept to go by key, are garbage until vacuum.
    #[test]
    fn what_was_pruned_and_forgotten_makes_a_vacuum_due() {
        let db = open(20_000);
        delete_below(&db, 12_000);
        let mut txn = db.begin();
        assert_eq!(txn.scan("t", &ScanOptions::all()).unwrap().count(), 8000);
        drop(txn);
        assert!(db.engine().step_vacuum().unwrap());
        assert_eq!(db.stats().get("auto_vacuums"), Some(1), "the list holds less than all");
        assert_eq!(items(&db), [(8000, 0)]);
        assert_eq!(db.vacuum(Some("t")).unwrap().rows_removed, 0);
    }

    /// Live and dead items of all indexes of `t`.
    fn items(db: &Database) -> Vec<(u64, u64)> {
        let of = |name: &str| {
            let pages = db.inspect(name, None).unwrap();
            let leaves = pages.iter().filter(|page| page.level == 0 && page.kind != 'm');
            leaves.fold((0, 0), |(live, dead), page| {
                (live + u64::from(page.live_items), dead + u64::from(page.dead_items))
            })
        };
        db.describe("t").unwrap().indexes.iter().map(|index| of(&index.name)).collect()
    }

    /// Two vacuums remove every dead row, even a single one. The first may leave a few rows whose
    /// bytes are unknown, the second may not.
    #[test]
    fn two_vacuums_leave_nothing_that_can_go() {
        let options = Database::options().simulation(Env::simulated(6), SimDisk::new(6));
        let db = options.open("db").unwrap();
        let schema = TableSchema::new("t").column("id", Type::Int8).column("n", Type::Int8);
        let schema = schema.primary_key(["id"]).index(IndexSchema::new("t_n").on("n"));
        let mut txn = db.begin();
        txn.create_table(&schema).unwrap();
        let row = |id: i64| vec![Value::Int8(id), Value::Int8(-id)];
        txn.insert_many("t", &(0..20_000).map(row).collect::<Vec<_>>()).unwrap();
        txn.commit().unwrap();
        let mut rows = 20_000;
        for (first, count) in [(7, 1), (900, 3), (5000, 40), (9000, 9000)] {
            let mut txn = db.begin();
            for id in first..first + count {
                let row = txn.get("t", &[Value::Int8(id)]).unwrap().unwrap();
                match id % 2 {
                    0 => assert!(txn.update("t", row.id, &[("n", Value::Int8(id))]).unwrap()),
                    _ => {
                        assert!(txn.delete("t", row.id).unwrap());
                        rows -= 1;
                    }
                }
            }
            txn.commit().unwrap();
            // Readers prune on their way; what is pruned by them is in no list.
            let tables = db.engine().catalog.open_tables();
            let table = &tables.iter().find(|entry| entry.table.def().name == "t").unwrap().table;
            for block in (1..table.heap().blocks()).step_by(2) {
                table.heap().prune(crate::ids::BlockNo(block)).unwrap();
            }
            for _ in 0..2 {
                let mut report = VacuumReport::default();
                db.engine()
                    .vacuum_table(table, VacuumRequest::new(VacuumMode::Automatic), &mut report)
                    .unwrap();
            }
            let left = items(&db);
            assert!(left.iter().all(|left| *left == (rows, 0)), "{count}: {left:?} for {rows}");
        }
        assert!(db.verify().unwrap().is_clean());
    }
}
