//! Drives checkpoints and write-back in steps: by a thread, by a caller, or by writers that help.
//!
//! A checkpoint that redo time has caused is spread over time: it rests while it is ahead of its
//! schedule. One for log space, or on request, does not rest. When redo has become too long,
//! writers make steps of the checkpoint too.
//!
//! Invariants:
//! - One checkpoint runs at a time.
//! - The log is durable, with what it says of forgotten outcomes, before the control file says so
//!   (R17).
//!
//! Does not do: choose the time (`schedule`); the checkpoint itself (`recovery::checkpoint`).

use std::time::Duration;

use rightlink_env::Broken;
use rightlink_env::points::broken;

use crate::error::Result;
use crate::ids::{Lsn, Xid};
use crate::recovery::checkpoint::{Checkpoint, ControlFields};
use crate::txn::outcomes_stamp;
use crate::upkeep::engine::RunningCheckpoint;
use crate::upkeep::{CheckpointCause, Engine};

/// A checkpoint that takes longer is logged.
const SLOW_CHECKPOINT: Duration = Duration::from_secs(10);

impl Engine {
    /// One unit of background work; false if there was none.
    pub(crate) fn step(&self) -> Result<bool> {
        Ok(self.step_pages()? || self.flush_relaxed()?)
    }

    /// One unit of checkpoint and write-back; false if there was none. A checkpoint cleans pages in
    /// file order, not those that are evicted next. So clean frames are made beside it.
    fn step_pages(&self) -> Result<bool> {
        let cleaned = self.clean_frames()?;
        Ok(self.step_checkpoint(&mut self.upkeep.checkpoint.lock(), true)? || cleaned)
    }

    /// Makes clean frames ahead of eviction.
    fn clean_frames(&self) -> Result<bool> {
        let cleaned = self.pool.clean_ahead()? > 0;
        Ok(self.pool.sync_homes()? || cleaned)
    }

    /// As `step_pages`, but a checkpoint that is ahead of its schedule rests, so that its writes
    /// are spread over time. False: look again soon.
    pub(super) fn step_paced(&self) -> Result<bool> {
        let is_ahead = match &*self.upkeep.checkpoint.lock() {
            Some(running) if running.cause == CheckpointCause::RedoTime => {
                let since = self.env.clock.now() - running.started;
                self.schedule.is_ahead(running.checkpoint.share(), since)
            }
            // A caller waits for it, or for the space that it frees.
            _ => false,
        };
        if is_ahead { self.clean_frames() } else { self.step_pages() }
    }

    /// The help of a writer while checkpoints are late: a step. If another thread makes a step, the
    /// writer waits for the group of pages that is being written. The end of a checkpoint, which
    /// syncs all files, is left to the upkeep thread if there is one.
    pub(super) fn help_checkpoint(&self) -> Result<()> {
        match self.upkeep.checkpoint.try_lock() {
            Some(mut running) => {
                let alone = self.upkeep.threads.lock().is_empty();
                self.step_checkpoint(&mut running, alone)?;
                drop(running);
                self.upkeep.idle.wake_upkeep();
            }
            None => self.pool.wait_for_group(),
        }
        Ok(())
    }

    /// One step of the checkpoint that is running or due; false if there is none.
    fn step_checkpoint(
        &self,
        slot: &mut Option<RunningCheckpoint>,
        may_finish: bool,
    ) -> Result<bool> {
        if slot.is_none()
            && let Some(cause) = self.schedule.take_due()
        {
            *slot = Some(self.begin_checkpoint(cause));
        }
        let Some(running) = slot else { return Ok(false) };
        if !running.checkpoint.step(&self.pool)? && may_finish {
            let running = slot.take().expect("looked at above");
            self.finish_checkpoint(running, false)?;
        }
        Ok(true)
    }

    /// Writes everything back and moves the redo position up to now. A `clean` checkpoint is the
    /// last one before a close.
    pub(crate) fn checkpoint(&self, cause: CheckpointCause, clean: bool) -> Result<()> {
        let mut slot = self.upkeep.checkpoint.lock();
        *slot = None;
        let mut running = self.begin_checkpoint(cause);
        while running.checkpoint.step(&self.pool)? {}
        if clean {
            // Pages that redo does not need, those of unlogged tables among them.
            self.pool.flush_all()?;
        }
        self.finish_checkpoint(running, clean)?;
        if clean { self.pool.retire_area() } else { Ok(()) }
    }

    fn begin_checkpoint(&self, cause: CheckpointCause) -> RunningCheckpoint {
        let started = self.env.clock.now();
        RunningCheckpoint { checkpoint: Checkpoint::begin(&self.pool), cause, started }
    }

    fn finish_checkpoint(&self, running: RunningCheckpoint, clean: bool) -> Result<()> {
        let RunningCheckpoint { checkpoint, cause, started } = running;
        let dirtied = checkpoint.dirtied();
        // In this order: the log says durably that outcomes are not kept before the control file
        // says it.
        let oldest_xid = self.txns.oldest_xid();
        if !broken(Broken::OldestXidBeforeLog) {
            self.wal.flush(self.wal.end())?;
        }
        if broken(Broken::OutcomesRemovedEarly) {
            self.txns.drop_segments(oldest_xid)?;
        }
        let counters = |durable| self.control_counters(clean, durable, oldest_xid);
        let redo = checkpoint.finish(&self.pool, counters)?;
        self.schedule.advance(redo, dirtied);
        let took = self.env.clock.now() - started;
        self.upkeep.counters.add_checkpoint(cause, took);
        if took >= SLOW_CHECKPOINT {
            let what = format!("a checkpoint ({cause:?}) took {} ms", took.as_millis());
            self.env.logger.info(&what);
        }
        self.catalog.drop_retired();
        self.txns.drop_segments(oldest_xid)
    }

    /// The fields of the control file. The log is durable up to `durable`, and says there that no
    /// outcome below `oldest_xid` is kept.
    pub(super) fn control_counters(
        &self,
        clean: bool,
        durable: Lsn,
        oldest_xid: Xid,
    ) -> ControlFields {
        let next_xid = self.txns.next_xid();
        // 0 is no stamp: the next opening checks nothing then.
        let stamp = || outcomes_stamp(&self.pool, next_xid, durable).unwrap_or(0);
        ControlFields {
            database: self.database,
            next_xid,
            oldest_xid,
            next_file: self.catalog.next_file(),
            clean,
            redo_speed: self.schedule.redo_speed,
            device: self.device,
            outcomes: if clean { stamp() } else { 0 },
        }
    }

    /// Makes relaxed commits durable.
    fn flush_relaxed(&self) -> Result<bool> {
        let end = self.wal.end();
        if self.wal.durable() >= end {
            return Ok(false);
        }
        self.wal.flush(end)?;
        Ok(true)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use rightlink_aio::SimDisk;
    use rightlink_aio::sim::CrashChoice;
    use rightlink_env::{Env, points};

    use super::*;
    use crate::{Database, ScanOptions, TableSchema, Type, Value};

    const MAX_LOG: u64 = 8 << 20;

    /// A table that grows until so much log must be redone.
    struct Filler {
        db: Database,
        next: i64,
    }

    impl Filler {
        fn new(env: &Env) -> Filler {
            let options = Database::options().simulation(env.clone(), SimDisk::new(6));
            let db = options.pool_pages(2048).max_log_bytes(MAX_LOG).open("db").unwrap();
            let schema = TableSchema::new("t").column("id", Type::Int8).column("x", Type::Text);
            let mut txn = db.begin();
            txn.create_table(&schema.primary_key(["id"])).unwrap();
            txn.commit().unwrap();
            Filler { db, next: 0 }
        }

        fn fill(&mut self, until: u64) {
            while self.db.engine().schedule.redo_work().bytes < until {
                let row = |id| vec![Value::Int8(id), Value::Text("x".repeat(1000))];
                let rows: Vec<_> = (self.next..self.next + 20).map(row).collect();
                self.next += 20;
                let mut txn = self.db.begin();
                txn.insert_many("t", &rows).unwrap();
                txn.commit().unwrap();
            }
        }

        fn checkpoints(&self) -> u64 {
            self.db.stats().get("checkpoints_redo_time").unwrap()
        }
    }

    /// It used to write without a pause, in however short a time.
    #[test]
    fn a_checkpoint_is_spread_over_time_and_hurries_when_writers_do() {
        let env = Env::simulated(6);
        let mut filler = Filler::new(&env);
        filler.fill(MAX_LOG / 2);
        let (begun, mut rests) = (env.clock.now(), 0);
        while filler.checkpoints() == 0 {
            if !filler.db.engine().step_paced().unwrap() {
                rests += 1;
                env.clock.advance(Duration::from_millis(50));
            }
            assert!(rests < 200, "it ends, also where nobody writes");
        }
        println!("{rests} rests in {:?}", env.clock.now() - begun);
        assert!(rests >= 10, "{rests} rests in {:?}", env.clock.now() - begun);
        filler.fill(MAX_LOG / 2);
        assert!(filler.db.engine().step_paced().unwrap(), "the next one begins");
        filler.fill(MAX_LOG / 4 * 3 + (64 << 10));
        while filler.checkpoints() == 1 {
            assert!(filler.db.engine().step_paced().unwrap(), "there is no time to rest");
        }
        assert!(filler.db.verify().unwrap().is_clean());
    }

    /// Outcomes are forgotten while a checkpoint is under way, and the power fails behind it. The
    /// control file would say that they are not kept, and the log, whose end was lost, that rows
    /// still need them.
    fn the_log_knows_what_the_control_file_says_of_outcomes() {
        let disk = SimDisk::new(8);
        let open = |disk: &SimDisk| {
            let options = Database::options().auto_vacuum(false).pool_pages(256);
            options.simulation(Env::simulated(8), disk.clone()).open("db").unwrap()
        };
        let db = open(&disk);
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("t").column("id", Type::Int8)).unwrap();
        txn.commit().unwrap();
        let insert = |db: &Database| {
            let mut txn = db.begin();
            txn.insert("t", &[Value::Int8(1)]).unwrap();
            txn.commit().unwrap();
        };
        insert(&db);
        db.vacuum(None).unwrap();
        insert(&db);
        let engine = db.engine();
        let mut running = engine.begin_checkpoint(CheckpointCause::Asked);
        while running.checkpoint.step(&engine.pool).unwrap() {}
        let before = engine.txns.oldest_xid();
        db.vacuum(None).unwrap();
        assert!(engine.txns.oldest_xid() > before, "the case this is about");
        engine.finish_checkpoint(running, false).unwrap();
        let after = open(&disk.crash_image(&CrashChoice::AllLost));
        assert!(after.engine().txns.oldest_xid() > before);
        assert_eq!(after.begin().scan("t", &ScanOptions::all()).unwrap().count(), 2);
        assert!(after.verify().unwrap().is_clean());
    }

    #[test]
    fn what_the_control_file_says_of_outcomes_is_in_the_log() {
        let check = the_log_knows_what_the_control_file_says_of_outcomes;
        check();
        let caught = points::caught(Broken::OldestXidBeforeLog, &[("outcomes", check)]);
        assert!(caught.is_some(), "nobody noticed");
    }
}
