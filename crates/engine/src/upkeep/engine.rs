//! The parts of an open database, and what keeps them going.
//!
//! Invariants: there is one `Engine` per open directory, guarded by the lock file; work in the
//! background is done in steps, by threads or by whoever calls [`Engine::step`], never by both at
//! once.
//! Does not do: statements (`transaction`), opening (`open`).

use rightlink_aio::{Io, LockFile};
use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, FairMutex, Mutex, Ordering};
use rightlink_env::thread::JoinHandle;
use rightlink_env::{Env, Rng};

use crate::buffer::BufferPool;
use crate::catalog::{Catalog, Changes, Entry};
use crate::error::{Error, Result};
use crate::ids::{Lsn, Xid};
use crate::recovery::checkpoint::{Checkpoint, Counters, Pace, RedoWork};
use crate::recovery::redo::Replayed;
use crate::sort::TempFiles;
use crate::txn::{Isolation, LockMode, Transaction, TxnManager, outcomes_stamp};
use crate::upkeep::idle::IdleWait;
use crate::upkeep::tally::{Cause, SLOW_CHECKPOINT, Tally, Underway};
use crate::upkeep::vacuum::{self, Vacuums};
use crate::upkeep::watch::Watch;
use crate::wal::{Admission, RedoSpeed, Wal};

/// An open database's parts.
pub(crate) struct Engine {
    pub(crate) env: Env,
    pub(crate) io: Io,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) txns: Arc<TxnManager>,
    pub(crate) catalog: Catalog,
    /// Where sorts spill to.
    pub(crate) temp: Arc<TempFiles>,
    pub(crate) database: u64,
    /// What was measured of the device, 0 if nothing.
    pub(crate) device_depth: u32,
    pub(crate) replayed: Replayed,
    pub(crate) upkeep: Upkeep,
    /// What random defaults are drawn from.
    pub(crate) random: Mutex<Rng>,
    pub(crate) _lock: LockFile,
}

/// State of the background work.
pub(crate) struct Upkeep {
    pace: Pace,
    work: FairMutex<Work>,
    redo: AtomicU64,
    /// Pages that had become dirty when the checkpoint began that set `redo`.
    dirtied: AtomicU64,
    /// What later checkpoints write down about the speed of redo.
    redo_speed: RedoSpeed,
    /// A checkpoint is wanted, however little it would spare.
    wanted: AtomicBool,
    /// The logger knows that checkpoints fail.
    told: AtomicBool,
    /// Vacuums that nobody asked for since the database was opened.
    pub(crate) auto_vacuums: AtomicU64,
    pub(crate) tally: Tally,
    /// New work is refused.
    closed: AtomicBool,
    /// The last checkpoint was made, or can never be: nothing is left for a close to do.
    ended: Mutex<bool>,
    pub(crate) idle: IdleWait,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) vacuums: Vacuums,
    /// Outcomes below the first xid may go once the horizon is above the second.
    pub(crate) outcomes_to_forget: Mutex<Option<(Xid, Xid)>>,
}

struct Work {
    checkpoint: Option<Underway>,
}

impl Upkeep {
    /// Upkeep of a database whose redo position is `redo`.
    pub(crate) fn new(
        pace: Pace,
        redo: Lsn,
        redo_speed: RedoSpeed,
        vacuum: vacuum::Settings,
    ) -> Self {
        Self {
            pace,
            work: FairMutex::new(Work { checkpoint: None }),
            redo: AtomicU64::new(redo.0),
            dirtied: AtomicU64::new(0),
            redo_speed,
            wanted: AtomicBool::new(false),
            told: AtomicBool::new(false),
            auto_vacuums: AtomicU64::new(0),
            tally: Tally::default(),
            closed: AtomicBool::new(false),
            ended: Mutex::new(false),
            idle: IdleWait::default(),
            threads: Mutex::new(Vec::new()),
            vacuums: Vacuums::new(vacuum),
            outcomes_to_forget: Mutex::new(None),
        }
    }

    /// Where redo would start after a crash now.
    pub(crate) fn redo(&self) -> Lsn {
        Lsn(self.redo.load(Ordering::Acquire))
    }

    /// Sees to it that a checkpoint is made soon.
    pub(crate) fn want_checkpoint(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// Has the database been closed?
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl Engine {
    /// Fails once the database was closed or took damage that forbids writing.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.upkeep.is_closed() {
            true => Err(Error::Invalid("the database was closed".into())),
            false => Ok(()),
        }
    }

    /// One unit of background work; false if there was none.
    pub(crate) fn step(&self) -> Result<bool> {
        Ok(self.step_pages()? || self.flush_relaxed()?)
    }

    /// One unit of checkpoint and write-back; false if there was none. A checkpoint cleans pages in
    /// the files' order, not those that leave next: without the other they would run out meanwhile.
    pub(crate) fn step_pages(&self) -> Result<bool> {
        let made = self.make_room()?;
        Ok(self.step_checkpoint()? || made)
    }

    /// Sees to it that who needs a frame finds one clean, or can clean some at once.
    fn make_room(&self) -> Result<bool> {
        let cleaned = self.pool.clean_ahead()? > 0;
        Ok(self.pool.sync_homes()? || cleaned)
    }

    /// As [`Engine::step_pages`], but in time: a checkpoint that is ahead of its schedule rests, so
    /// that its writes are spread and hold nobody up. False: look again in a moment.
    pub(crate) fn step_in_time(&self) -> Result<bool> {
        match self.checkpoint_is_ahead() {
            true => self.make_room(),
            false => self.step_pages(),
        }
    }

    fn checkpoint_is_ahead(&self) -> bool {
        let work = self.upkeep.work.lock();
        match &work.checkpoint {
            Some(Underway { checkpoint, cause: Cause::RedoTime, begun }) => {
                let since = self.env.clock.now() - *begun;
                self.upkeep.pace.is_ahead(checkpoint.share(), since, self.redo_work())
            }
            // Somebody waits for it, or for its space.
            _ => false,
        }
    }

    /// One step of the checkpoint that is on its way, or due; false if there is none.
    fn step_checkpoint(&self) -> Result<bool> {
        self.step_of(&mut self.upkeep.work.lock(), true)
    }

    /// What a writer does who comes while checkpoints are late: a step, or where somebody else
    /// makes one, a wait for the group of pages that is being written. The end of a checkpoint,
    /// which syncs all files, is left to the upkeep thread if there is one.
    fn help_checkpoint(&self) -> Result<()> {
        match self.upkeep.work.try_lock() {
            Some(mut work) => {
                let alone = self.upkeep.threads.lock().is_empty();
                self.step_of(&mut work, alone)?;
                drop(work);
                self.upkeep.idle.wake_upkeep();
            }
            None => self.pool.wait_for_group(),
        }
        Ok(())
    }

    fn step_of(&self, work: &mut Work, may_finish: bool) -> Result<bool> {
        if work.checkpoint.is_none()
            && let Some(cause) = self.checkpoint_is_due()
        {
            self.upkeep.wanted.store(false, Ordering::Release);
            work.checkpoint = Some(self.begin(cause));
        }
        let Some(underway) = &mut work.checkpoint else {
            return Ok(false);
        };
        if !underway.checkpoint.step(&self.pool)? && may_finish {
            let underway = work.checkpoint.take().expect("looked at above");
            self.finish(underway, false)?;
        }
        Ok(true)
    }

    /// Writes everything back and moves the redo position up to now.
    pub(crate) fn checkpoint(&self, cause: Cause, clean: bool) -> Result<()> {
        let mut work = self.upkeep.work.lock();
        work.checkpoint = None;
        let mut underway = self.begin(cause);
        while underway.checkpoint.step(&self.pool)? {}
        if clean {
            // Pages that redo does not need, those of unlogged tables among them.
            self.pool.flush_all()?;
        }
        self.finish(underway, clean)?;
        if clean { self.pool.retire_area() } else { Ok(()) }
    }

    /// Sees to it that there is log for a statement, its commit and a checkpoint, and that the way
    /// back after a crash does not grow faster than checkpoints shorten it. On a full disk a
    /// checkpoint lets segments be used again, so that rows can be deleted to make space.
    pub(crate) fn admit(&self) -> Result<()> {
        if self.upkeep.pace.is_late(self.redo_work()) {
            self.unless_poisoned(self.help_checkpoint())?;
            self.upkeep.tally.help();
        }
        self.admit_to_log(Admission::Begin)
    }

    /// As [`Engine::admit`], for work that gives space back: on a full disk, too.
    pub(crate) fn admit_freeing(&self) -> Result<()> {
        match self.admit() {
            Err(Error::DiskFull(_)) => self.wal.admit(Admission::Free),
            admitted => admitted,
        }
    }

    /// As [`Engine::admit`], or [`Engine::admit_freeing`], between two steps of such work: a look
    /// at the log, as long as that has room. No latch is held.
    pub(crate) fn admit_more(&self, frees: bool) -> Result<()> {
        let work = if frees { Admission::Step } else { Admission::GoOn };
        if self.wal.has_room(work) {
            return Ok(());
        }
        self.admit_to_log(work)
    }

    fn admit_to_log(&self, work: Admission) -> Result<()> {
        match self.wal.admit(work) {
            Err(Error::DiskFull(_)) => {
                self.unless_poisoned(self.checkpoint(Cause::DiskFull, false))?;
                self.wal.admit(work)
            }
            admitted => admitted,
        }
    }

    /// What became of a checkpoint that somebody made who writes: what keeps another table's page
    /// from its file is not his concern, and said once.
    fn unless_poisoned<T>(&self, result: Result<T>) -> Result<()> {
        match result {
            Ok(_) => self.upkeep.told.store(false, Ordering::Relaxed),
            Err(error @ Error::Poisoned(_)) => return Err(error),
            Err(error) => {
                if !self.upkeep.told.swap(true, Ordering::Relaxed) {
                    self.env.logger.error(&format!("a checkpoint does not get on: {error}"));
                }
            }
        }
        Ok(())
    }

    fn begin(&self, cause: Cause) -> Underway {
        let begun = self.env.clock.now();
        Underway { checkpoint: Checkpoint::begin(&self.pool), cause, begun }
    }

    fn finish(&self, underway: Underway, clean: bool) -> Result<()> {
        let Underway { checkpoint, cause, begun } = underway;
        let dirtied = checkpoint.dirtied();
        // In this order: what the log says of outcomes that are not kept is durable before the
        // control file says it.
        let oldest_xid = self.txns.oldest_xid();
        if !broken(Broken::OldestXidBeforeLog) {
            self.wal.flush(self.wal.end())?;
        }
        if broken(Broken::OutcomesRemovedEarly) {
            self.txns.drop_segments(oldest_xid)?;
        }
        let counters = |durable| self.counters(clean, durable, oldest_xid);
        let redo = checkpoint.finish(&self.pool, counters)?;
        self.upkeep.redo.store(redo.0, Ordering::Release);
        self.upkeep.dirtied.store(dirtied, Ordering::Release);
        let took = self.env.clock.now() - begun;
        self.upkeep.tally.checkpoint(cause, took);
        if took >= SLOW_CHECKPOINT {
            let what = format!("a checkpoint ({cause:?}) took {} ms", took.as_millis());
            self.env.logger.info(&what);
        }
        self.catalog.drop_retired();
        self.txns.drop_segments(oldest_xid)
    }

    /// What the control file is to say. The log is durable up to `durable`, and where it says that
    /// no outcome below `oldest_xid` is kept.
    pub(crate) fn counters(&self, clean: bool, durable: Lsn, oldest_xid: Xid) -> Counters {
        let (next_xid, next_file) = (self.txns.next_xid(), self.catalog.next_file());
        let (database, device_depth) = (self.database, self.device_depth);
        let redo_speed = self.upkeep.redo_speed;
        // Who does not know it looks for nothing.
        let stamp = || outcomes_stamp(&self.pool, next_xid, durable).unwrap_or(0);
        let outcomes = if clean { stamp() } else { 0 };
        Counters {
            database,
            next_xid,
            oldest_xid,
            next_file,
            clean,
            redo_speed,
            device_depth,
            outcomes,
        }
    }

    /// What redo would have to do after a crash now.
    fn redo_work(&self) -> RedoWork {
        let dirtied = self.pool.stats().dirtied;
        let pages = dirtied.saturating_sub(self.upkeep.dirtied.load(Ordering::Acquire));
        RedoWork { bytes: self.wal.bytes_since(self.upkeep.redo()), pages }
    }

    /// Bytes of log between checkpoints, as things go now.
    pub(crate) fn checkpoint_distance(&self) -> u64 {
        self.upkeep.pace.distance(self.redo_work())
    }

    fn checkpoint_is_due(&self) -> Option<Cause> {
        if self.wal.needs_checkpoint() {
            return Some(Cause::LogSpace);
        }
        if self.upkeep.wanted.load(Ordering::Acquire) {
            return Some(Cause::Asked);
        }
        self.upkeep.pace.is_due(self.redo_work()).then_some(Cause::RedoTime)
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

    /// Opens a table for a piece of maintenance; its lock is held as long as the transaction lives.
    pub(crate) fn use_table(
        &self,
        table: &str,
        mode: LockMode,
    ) -> Result<(Transaction, Arc<Entry>)> {
        self.use_table_with(table, mode, Watch::default())
    }

    pub(crate) fn use_table_with(
        &self,
        table: &str,
        mode: LockMode,
        watch: Watch<'_>,
    ) -> Result<(Transaction, Arc<Entry>)> {
        let mut txn = self.txns.begin(Isolation::ReadCommitted);
        watch.begin(&mut txn);
        let entry = self.catalog.resolve(&mut txn, &Changes::default(), table, mode)?;
        Ok((txn, entry))
    }

    /// Refuses new work, stops the threads, then checkpoints one last time; later calls do nothing.
    /// But while transactions that have written still run, it only makes durable what is committed,
    /// and a later call does the rest: at the latest that of the last handle, and they have some.
    /// A later call also tries again what has failed, unless the log takes no more.
    pub(crate) fn close(&self) -> Result<()> {
        let mut ended = self.upkeep.ended.lock();
        if *ended {
            return Ok(());
        }
        self.stop_threads();
        let closed = self.end();
        *ended = matches!(closed, Ok(()) | Err(Error::Poisoned(_)));
        closed
    }

    /// What is left to do when the threads have stopped. Each step can be made again.
    fn end(&self) -> Result<()> {
        self.wal.check()?;
        // Whatever fails after this: nobody will make relaxed commits durable but this.
        self.wal.flush(self.wal.end())?;
        self.forget_outcomes_at_close()?;
        match self.catalog.give_back_numbers() {
            // The numbers stay taken, that is all; the checkpoint makes room.
            Err(Error::DiskFull(_)) => {}
            given_back => given_back?,
        }
        self.note_all_garbage()?;
        match self.txns.seal() {
            Err(running @ Error::Invalid(_)) => {
                self.wal.flush(self.wal.end())?;
                Err(running)
            }
            sealed => sealed.and_then(|()| self.checkpoint(Cause::Asked, true)),
        }
    }

    fn stop_threads(&self) {
        self.upkeep.closed.store(true, Ordering::Release);
        self.upkeep.idle.shut_down();
        let threads = std::mem::take(&mut *self.upkeep.threads.lock());
        for thread in threads {
            if let Err(panicked) = thread.join() {
                self.env.logger.error(&format!("a background thread panicked: {panicked:?}"));
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::time::Duration;

    use rightlink_aio::SimDisk;
    use rightlink_aio::sim::CrashChoice;
    use rightlink_env::points;

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
            while self.db.engine().redo_work().bytes < until {
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
            if !filler.db.engine().step_in_time().unwrap() {
                rests += 1;
                env.clock.advance(Duration::from_millis(50));
            }
            assert!(rests < 200, "it ends, also where nobody writes");
        }
        println!("{rests} rests in {:?}", env.clock.now() - begun);
        assert!(rests >= 10, "{rests} rests in {:?}", env.clock.now() - begun);
        filler.fill(MAX_LOG / 2);
        assert!(filler.db.engine().step_in_time().unwrap(), "the next one begins");
        filler.fill(MAX_LOG / 4 * 3 + (64 << 10));
        while filler.checkpoints() == 1 {
            assert!(filler.db.engine().step_in_time().unwrap(), "there is no time to rest");
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
        let mut underway = engine.begin(Cause::Asked);
        while underway.checkpoint.step(&engine.pool).unwrap() {}
        let before = engine.txns.oldest_xid();
        db.vacuum(None).unwrap();
        assert!(engine.txns.oldest_xid() > before, "the case this is about");
        engine.finish(underway, false).unwrap();
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
