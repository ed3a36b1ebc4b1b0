//! Forgets outcomes of transactions that no table needs any more.
//!
//! No table names an unfrozen xid below the oldest one, so outcomes below it can go. But a reader
//! may have met such an xid before vacuum froze the page, and may ask for its outcome now. So
//! outcomes go at a later vacuum, when the horizon has passed all xids that existed before.
//!
//! Invariants: an outcome is kept as long as a row or a running reader may need it.
//! Does not do: freeze rows (`heap`); remove the files of outcomes (`txn`).

use std::time::Duration;

use rightlink_env::sync::{Arc, Ordering};

use crate::catalog::Entry;
use crate::error::{Error, Result};
use crate::ids::Xid;
use crate::txn::{LockMode, Transaction};
use crate::upkeep::engine::ForgettableOutcomes;
use crate::upkeep::vacuum::automatic::is_due;
use crate::upkeep::{Engine, VacuumMode, VacuumReport, VacuumRequest, Watch};

/// Xids handed out between two searches of all tables for old xids, and the least number of kept
/// outcomes that is worth one: half a MiB of outcomes.
const SEARCH_XIDS: u64 = if cfg!(test) { 200 } else { 1 << 16 };
/// With more tables than this, a search opens none that is unused.
const MOST_TABLES: usize = 1000;

impl Engine {
    /// Notes that no table names an unfrozen xid below `oldest`, and forgets the outcomes that were
    /// noted earlier, if no reader can ask for them.
    pub(super) fn forget_outcomes(&self, oldest: Xid) -> Result<()> {
        let mut waiting = self.upkeep.outcomes_to_forget.lock();
        if let Some(outcomes) = waiting.filter(|waiting| self.txns.horizon() > waiting.fence) {
            self.txns.forget_outcomes(outcomes.below)?;
            *waiting = None;
        }
        let fence = self.txns.next_xid();
        waiting.get_or_insert(ForgettableOutcomes { below: oldest, fence });
        Ok(())
    }

    /// At a clean close, forgets the noted outcomes if no reader is left that may ask.
    pub(in crate::upkeep) fn forget_outcomes_at_close(&self) -> Result<()> {
        let waiting = self.upkeep.outcomes_to_forget.lock().take();
        let Some(outcomes) = waiting else { return Ok(()) };
        let read = !self.txns.running().is_empty() || !self.txns.snapshots().is_empty();
        if !self.upkeep.vacuums.is_empty() || read {
            return Ok(());
        }
        match self.txns.forget_outcomes(outcomes.below) {
            // Their space stays taken.
            Err(Error::DiskFull(_)) => Ok(()),
            forgotten => forgotten,
        }
    }

    /// The oldest xid that a row of any table may name unfrozen. `None` if a table cannot be opened
    /// or is being changed, or if more than `most` tables exist and one is not open. Tables are
    /// recognised by their files, because a name may pass from one to another meanwhile.
    pub(super) fn oldest_unfrozen(&self, most: usize) -> Result<Option<Xid>> {
        // Before the list: rows of a table that is not in it are of transactions that had not ended
        // by then.
        let mut oldest = self.txns.horizon();
        oldest = oldest.min(self.catalog.table().heap().frozen_below());
        let (defs, open) = (self.catalog.definitions()?, self.catalog.open_tables());
        for def in &defs {
            let is_it = |entry: &Arc<Entry>| entry.table.def().heap == def.heap;
            let found = match open.iter().find(|entry| is_it(entry)) {
                Some(found) => Some(Arc::clone(found)),
                None if defs.len() > most => None,
                None => self.try_table(&def.name, LockMode::Access).ok().map(|(_, entry)| entry),
            };
            let Some(entry) = found.filter(is_it) else { return Ok(None) };
            oldest = oldest.min(entry.table.heap().frozen_below());
        }
        Ok(Some(oldest))
    }

    /// The table called `name`, without a wait for its lock.
    pub(super) fn try_table(
        &self,
        name: &str,
        mode: LockMode,
    ) -> Result<(Transaction, Arc<Entry>)> {
        let watch = Watch { lock_timeout: Some(Duration::ZERO), ..Watch::default() };
        self.use_table(name, mode, watch)
    }

    /// Forgets outcomes, once enough xids were handed out since the last search. Unused tables are
    /// opened for it, because their old xids keep outcomes too.
    pub(super) fn search_old_xids(&self) -> Result<()> {
        let (next, checked) = (self.txns.next_xid().0, &self.upkeep.old_xids_checked);
        let kept = next.saturating_sub(self.txns.oldest_xid().0);
        let before = checked.load(Ordering::Relaxed);
        if kept < SEARCH_XIDS || next < before + SEARCH_XIDS {
            return Ok(());
        }
        // Another thread may be about to search.
        let turn = checked.compare_exchange(before, next, Ordering::Relaxed, Ordering::Relaxed);
        if turn.is_err() {
            return Ok(());
        }
        let horizon = self.txns.horizon();
        let catalog = self.catalog.table();
        if is_due(catalog, horizon) {
            let request = VacuumRequest::new(VacuumMode::Automatic);
            match self.vacuum_table(catalog, request, &mut VacuumReport::default()) {
                Err(Error::Cancelled(_) | Error::LockTimeout { .. }) => return Ok(()),
                vacuumed => catalog.naming(vacuumed)?,
            };
        }
        match self.oldest_unfrozen(MOST_TABLES)? {
            Some(oldest) => self.forget_outcomes(oldest),
            None => Ok(()),
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use rightlink_aio::SimDisk;
    use rightlink_env::sync::{AtomicU64, Ordering};
    use rightlink_env::{Env, points};

    use crate::{Database, ScanOptions, TableSchema, Type, Value};

    fn insert(db: &Database, rows: i64) {
        for id in 0..rows {
            let mut txn = db.begin();
            txn.insert("t", &[Value::Int8(id)]).unwrap();
            txn.commit().unwrap();
        }
    }

    /// A vacuum of all tables and a clean close give outcomes back: a process that does nothing
    /// else gave back none.
    #[test]
    fn outcomes_go_at_the_close_after_a_vacuum() {
        let disk = SimDisk::new(4);
        let open = || {
            let options = Database::options().simulation(Env::simulated(4), disk.clone());
            options.open("db").unwrap()
        };
        let db = open();
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("t").column("id", Type::Int8)).unwrap();
        txn.commit().unwrap();
        insert(&db, 20);
        let before = db.engine().txns.oldest_xid();
        db.vacuum(None).unwrap();
        assert_eq!(db.engine().txns.oldest_xid(), before, "somebody may ask");
        db.close().unwrap();
        let db = open();
        assert!(db.engine().txns.oldest_xid().0 >= before.0 + 20);
        assert_eq!(db.begin().scan("t", &ScanOptions::all()).unwrap().count(), 20);
        assert!(db.verify().unwrap().is_clean());
    }

    /// A table that had another name each time that vacuum came to it was not vacuumed, and the
    /// outcomes that its rows need were forgotten.
    #[test]
    fn a_table_that_is_renamed_under_a_vacuum_keeps_its_outcomes() {
        let options = Database::options().simulation(Env::simulated(4), SimDisk::new(4));
        let db = options.open("db").unwrap();
        for name in ["b", "t"] {
            let mut txn = db.begin();
            txn.create_table(&TableSchema::new(name).column("id", Type::Int8)).unwrap();
            txn.commit().unwrap();
        }
        let first = db.engine().txns.next_xid();
        for id in 0..20 {
            let mut txn = db.begin();
            txn.insert("t", &[Value::Int8(id)]).unwrap();
            txn.commit().unwrap();
        }
        for names in [["t", "u"], ["u", "t"], ["t", "u"]] {
            let other = db.clone();
            let left = AtomicU64::new(1);
            let hook = points::install_local(move |point| {
                // After the first table, before the second.
                if point == "vacuum.cut-tail" && left.swap(0, Ordering::Relaxed) > 0 {
                    let mut txn = other.begin();
                    txn.alter_table(names[0], crate::AlterTable::Rename(names[1])).unwrap();
                    txn.commit().unwrap();
                }
            });
            db.vacuum(None).unwrap();
            drop(hook);
        }
        assert!(db.engine().txns.oldest_xid() <= first, "no vacuum came to the table");
        db.evict().unwrap();
        assert_eq!(db.begin().scan("u", &ScanOptions::all()).unwrap().count(), 20);
        assert!(db.verify().unwrap().is_clean());
    }

    /// A reader lets go of a page's latch, then asks what became of an xid it met there. Vacuum
    /// froze the page and forgot the outcome in between, and a sound row was reported as damage.
    #[test]
    fn outcomes_are_kept_for_snapshots_that_were_there_before() {
        let disk = SimDisk::new(3);
        let options = Database::options().simulation(Env::simulated(3), disk);
        let db = options.open("db").unwrap();
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("t").column("id", Type::Int8)).unwrap();
        txn.commit().unwrap();
        insert(&db, 20);
        let oldest = || db.engine().txns.oldest_xid();
        let before = oldest();
        let mut reader = db.begin();
        assert_eq!(reader.scan("t", &ScanOptions::all()).unwrap().count(), 20);
        for _ in 0..3 {
            db.vacuum(None).unwrap();
            insert(&db, 5);
            assert_eq!(oldest(), before, "an old snapshot keeps the outcomes it may ask for");
        }
        drop(reader);
        insert(&db, 5);
        db.vacuum(None).unwrap();
        insert(&db, 5);
        db.vacuum(None).unwrap();
        assert!(oldest() > before, "without it they go");
    }
}
