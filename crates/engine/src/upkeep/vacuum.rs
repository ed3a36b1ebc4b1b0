//! Vacuum of an open database: who runs, how fast, how far, and what interrupted runs left.
//!
//! A run that somebody asked for goes as fast as it can, its index passes on as many threads as the
//! machine has. One that nobody asked for, or that was asked to be gentle, rests: between two
//! slices of work for several times as long as the slice took, as long as others commit, and never
//! looks at more pages a second than [`Options::vacuum_rate`](crate::Options::vacuum_rate) says.
//!
//! Invariants: one run per table; a table's write lock is held by its run; a run waits for nobody
//! but index builds, definitions being changed and another run, which it asks to end unless
//! somebody asked for that; it ends between two pieces of work, and while it waits for another run,
//! when the database is closed, when it is asked to, and, unasked for, when somebody waits for its
//! table's lock.
//! Does not do: deciding when (`auto_vacuum`); the work (`vacuum`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, Mutex, MutexGuard};
use rightlink_env::{Nanos, points, thread};

use crate::catalog::{Changes, Entry};
use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::{ObjectId, Xid};
use crate::table::Table;
use crate::txn::{Isolation, LockMode, RunningTxn, Transaction, WaitsFor};
use crate::upkeep::engine::Engine;
use crate::upkeep::tally::SLOW_VACUUM;
use crate::upkeep::vacuum_report::{VacuumProgress, VacuumReport};
use crate::upkeep::watch::Watch;
use crate::vacuum::{self, Limits, Progress, ResumableRun, RunMemory, RunOptions, Vacuum, Workers};

/// Wait for the lock that cutting a table's tail needs: none, the tail can be cut another time.
const TAIL_PATIENCE: Duration = Duration::ZERO;
/// Pause between two looks at an index build, or at another run.
const LOOK: Duration = Duration::from_millis(2);
/// Work between two rests.
const SLICE: Duration = Duration::from_millis(4);
/// Rests, of the time that the work before took, while others commit: a run takes nine times as
/// long as it would alone on one processor, and a ninth of that.
const REST: u32 = 8;
/// The same while fewer transactions run than there are processors: one is idle anyway.
const REST_IDLE: u32 = 4;
/// Longest sleep before the reasons to end are looked at again.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
/// Longest rest.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// Part of the memory for a run: a sixteenth.
const MEMORY_SHARE: usize = 16;
/// Part of that for what its threads read ahead, which they reserve by themselves; the rest is for
/// dead row ids.
const READ_SHARE: usize = 32;

/// All runs of an open database.
pub(crate) struct Vacuums {
    running: Mutex<Vec<Arc<Running>>>,
    /// What interrupted runs left, by table.
    resumable: Mutex<BTreeMap<ObjectId, ResumableRun>>,
    /// Tables whose last run left rows to the next one.
    skipped: Mutex<BTreeSet<ObjectId>>,
    /// First xid not handed out when all tables were looked at for old xids.
    pub(crate) looked_at: AtomicU64,
    /// Was it looked for tables that are due though nobody has used them?
    pub(crate) looked_for_unused: AtomicBool,
    settings: Settings,
}

/// How the database was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Bytes per second of runs that nobody asked for.
    pub(crate) rate: Option<u64>,
    /// Threads for the indexes of a run that somebody asked for.
    pub(crate) threads: usize,
    /// Transactions beyond which no processor counts as idle.
    pub(crate) processors: usize,
}

/// A run.
pub(crate) struct Running {
    table: ObjectId,
    name: String,
    how: How,
    started: Nanos,
    progress: Progress,
}

/// Why a run is made, and how fast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// Nobody asked: rests, gives way, and may leave a few rows for later.
    Automatic,
    /// Asked for, resting like an automatic one.
    Gently,
    /// Asked for, as fast as can be.
    Fast,
}

/// A run is listed while this lives.
struct Listed<'a> {
    vacuums: &'a Vacuums,
    running: Arc<Running>,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.vacuums.running.lock().retain(|other| !Arc::ptr_eq(other, &self.running));
    }
}

impl Vacuums {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            running: Mutex::new(Vec::new()),
            resumable: Mutex::new(BTreeMap::new()),
            skipped: Mutex::new(BTreeSet::new()),
            looked_at: AtomicU64::new(0),
            looked_for_unused: AtomicBool::new(false),
            settings,
        }
    }

    /// Lists a run; an automatic one only if its table has no other, which an asked-for one asks to
    /// end instead.
    fn list(&self, running: Running) -> Option<Listed<'_>> {
        let mut all = self.running.lock();
        let rivals = || all.iter().filter(|other| other.table == running.table);
        if running.how == How::Automatic && rivals().next().is_some() {
            return None;
        }
        let unasked = rivals().filter(|other| other.how == How::Automatic);
        unasked.for_each(|other| other.progress.stop());
        let running = Arc::new(running);
        all.push(Arc::clone(&running));
        drop(all);
        Some(Listed { vacuums: self, running })
    }

    /// Runs at work that rest.
    fn resting(&self) -> u32 {
        self.running.lock().iter().filter(|other| other.how != How::Fast).count() as u32
    }

    /// Forgets what is kept of tables that are not `open`.
    pub(crate) fn forget_all_but(&self, open: &BTreeSet<ObjectId>) {
        self.resumable.lock().retain(|table, _| open.contains(table));
        self.skipped.lock().retain(|table| open.contains(table));
    }
}

/// Threads of the index passes.
struct Threads(usize);

impl Workers for Threads {
    fn max_threads(&self) -> usize {
        self.0
    }

    fn run(&self, tasks: usize, work: &(dyn Fn() + Sync)) {
        thread::several("rightlink-vacuum", self.0.min(tasks).max(1), work);
    }
}

impl Running {
    fn info(&self, now: Nanos) -> VacuumProgress {
        let progress = &self.progress;
        let ((heap_done, heap_blocks), (index_done, index_blocks)) =
            (progress.heap(), progress.indexes());
        VacuumProgress {
            table: self.name.clone(),
            automatic: self.how == How::Automatic,
            phase: progress.phase(),
            running: now - self.started,
            heap_blocks,
            heap_blocks_done: heap_done,
            dead_rows: progress.dead(),
            dead_row_bytes: progress.memory(),
            index_blocks,
            index_blocks_done: index_done.min(index_blocks),
            index_passes: progress.passes(),
        }
    }
}

/// What a run does between two pieces of work.
struct Pacer<'a> {
    engine: &'a Engine,
    running: &'a Running,
    watch: Watch<'a>,
    slice: Mutex<Slice>,
}

/// Work since the last rest.
struct Slice {
    since: Nanos,
    blocks: u64,
    commits: u64,
}

impl Pacer<'_> {
    /// An error ends the run. The only thread of a run that rests does so here; those of others
    /// only look whether they are to end.
    fn pace(&self, blocks: u32) -> Result<()> {
        points::hit("vacuum.pace");
        self.engine.check_run(self.running, self.watch)?;
        self.engine.admit_more(true)?;
        if self.running.how == How::Fast {
            return Ok(());
        }
        let (now, commits) = (self.engine.env.clock.now(), self.engine.txns.counters().commits);
        let mut slice = self.slice.lock();
        slice.blocks += u64::from(blocks);
        let worked = now - slice.since;
        let bytes = slice.blocks * PAGE_SIZE as u64;
        let settings = self.engine.upkeep.vacuums.settings;
        let least = settings.rate.map(|rate| duration_of(bytes, rate)).unwrap_or_default();
        if worked < SLICE && least < SLICE {
            return Ok(());
        }
        self.check_lock()?;
        let busy = std::mem::replace(&mut slice.commits, commits) != commits;
        // The run's own transaction is among them.
        let idle = self.engine.txns.running().len() <= settings.processors;
        let rests = if idle { REST_IDLE } else { REST };
        let share = rests * self.engine.upkeep.vacuums.resting().max(1);
        let rest = if busy { (worked * share).min(LONGEST_REST) } else { Duration::ZERO };
        self.sleep(rest.max(least.saturating_sub(worked)))?;
        (slice.since, slice.blocks) = (self.engine.env.clock.now(), 0);
        Ok(())
    }

    fn sleep(&self, mut rest: Duration) -> Result<()> {
        while !rest.is_zero() {
            let nap = rest.min(LONGEST_SLEEP);
            self.engine.env.clock.sleep(nap);
            rest -= nap;
            self.engine.check_run(self.running, self.watch)?;
        }
        Ok(())
    }

    /// Does anybody wait for the table of a run that nobody asked for?
    fn check_lock(&self) -> Result<()> {
        if self.running.how != How::Automatic {
            return Ok(());
        }
        let waits = |txn: RunningTxn| match txn.waits_for {
            Some(WaitsFor::Table { table, .. }) => table == self.running.table,
            _ => false,
        };
        match self.engine.txns.running().into_iter().any(waits) {
            true => Err(Error::Cancelled("a vacuum that is in the way".into())),
            false => Ok(()),
        }
    }
}

/// How long `bytes` take at `rate` bytes per second.
fn duration_of(bytes: u64, rate: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64)
}

impl Engine {
    /// Vacuums the table called `table`, or every table.
    pub(crate) fn vacuum(
        &self,
        how: How,
        table: Option<&str>,
        watch: Watch<'_>,
    ) -> Result<VacuumReport> {
        self.check_open()?;
        let mut total = VacuumReport::default();
        if let Some(table) = table {
            self.vacuum_named(table, (how, watch), &mut total)?;
            return Ok(total);
        }
        let catalog = self.catalog.table();
        catalog.naming(self.vacuum_table_with(catalog, (how, watch), &mut total))?;
        let mut damage = None;
        for def in self.catalog.definitions()? {
            match self.vacuum_named(&def.name, (how, watch), &mut total) {
                Err(Error::NotFound(_)) => {}
                // The other tables are not concerned.
                Err(error @ Error::Corruption { .. }) => {
                    damage.get_or_insert(error);
                }
                vacuumed => vacuumed?,
            }
        }
        if let Some(damage) = damage {
            // It may need any outcome.
            return Err(damage);
        }
        if let Some(oldest) = self.oldest_unfrozen(usize::MAX)? {
            self.forget_outcomes(oldest)?;
        }
        Ok(total)
    }

    /// Asks the runs of one table, or all, to end; how many were asked.
    pub(crate) fn cancel_vacuum(&self, table: Option<&str>) -> usize {
        let running = self.upkeep.vacuums.running.lock();
        let wanted = running.iter().filter(|run| table.is_none_or(|name| run.name == name));
        wanted.map(|run| run.progress.stop()).count()
    }

    /// See [`Database::vacuum_progress`].
    pub(crate) fn vacuum_progress(&self) -> Vec<VacuumProgress> {
        let now = self.env.clock.now();
        self.upkeep.vacuums.running.lock().iter().map(|running| running.info(now)).collect()
    }

    /// No table names an unfrozen xid below `oldest` any more: outcomes below it can go, but only
    /// once every snapshot is gone that was there before. Its reader may have met such an xid on a
    /// page that was frozen after it let go of the latch, and may be about to ask for the outcome.
    /// So they go at a later vacuum, when the horizon has passed all xids of today.
    pub(crate) fn forget_outcomes(&self, oldest: Xid) -> Result<()> {
        let mut waiting = self.upkeep.outcomes_to_forget.lock();
        if let Some((below, _)) = waiting.filter(|(_, fence)| self.txns.horizon() > *fence) {
            self.txns.forget_outcomes(below)?;
            *waiting = None;
        }
        waiting.get_or_insert((oldest, self.txns.next_xid()));
        Ok(())
    }

    /// At a clean close, what waits goes, if nobody is there who may ask.
    pub(crate) fn forget_outcomes_at_close(&self) -> Result<()> {
        let waiting = self.upkeep.outcomes_to_forget.lock().take();
        let Some((below, _)) = waiting else { return Ok(()) };
        let vacuumed = !self.upkeep.vacuums.running.lock().is_empty();
        let read = !self.txns.running().is_empty() || !self.txns.snapshots().is_empty();
        if vacuumed || read {
            return Ok(());
        }
        match self.txns.forget_outcomes(below) {
            // The space stays taken, that is all.
            Err(Error::DiskFull(_)) => Ok(()),
            cut => cut,
        }
    }

    /// The oldest xid that a row of any table may name unfrozen; `None` if a table cannot
    /// be opened or is being changed. Tables are told by their files: a name may pass from one to
    /// another meanwhile. If there are more than `most`, none is opened for this.
    pub(crate) fn oldest_unfrozen(&self, most: usize) -> Result<Option<Xid>> {
        // Before the list: what a table that is not in it holds is of transactions that had not
        // ended by then.
        let mut oldest = self.txns.horizon();
        oldest = oldest.min(self.catalog.table().heap().frozen_below());
        let (defs, open) = (self.catalog.definitions()?, self.catalog.open_tables());
        for def in &defs {
            let is_it = |entry: &Arc<Entry>| entry.table.def().heap == def.heap;
            let found = match open.iter().find(|entry| is_it(entry)) {
                Some(found) => Some(Arc::clone(found)),
                None if defs.len() > most => None,
                None => self.table_at_once(&def.name),
            };
            let Some(entry) = found.filter(is_it) else { return Ok(None) };
            oldest = oldest.min(entry.table.heap().frozen_below());
        }
        Ok(Some(oldest))
    }

    /// The table called `name`, if it can be had without waiting.
    fn table_at_once(&self, name: &str) -> Option<Arc<Entry>> {
        let mut txn = self.txns.begin(Isolation::ReadCommitted);
        txn.set_lock_timeout(Some(Duration::ZERO));
        self.catalog.resolve(&mut txn, &Changes::default(), name, LockMode::Access).ok()
    }

    /// The table called `name` for a vacuum, which waits for index builds beside writers (R3).
    fn use_table_to_vacuum(
        &self,
        name: &str,
        watch: Watch<'_>,
    ) -> Result<(Transaction, Arc<Entry>)> {
        loop {
            let (txn, entry) = self.use_table_with(name, LockMode::Write, watch)?;
            if !entry.table.is_being_indexed() {
                return Ok((txn, entry));
            }
            // The build waits for writers: the lock must go.
            drop((txn, entry));
            self.check_open()?;
            (watch.go_on)()?;
            self.env.clock.sleep(LOOK);
        }
    }

    /// Vacuums the table called `name`.
    fn vacuum_named(
        &self,
        name: &str,
        (how, watch): (How, Watch<'_>),
        total: &mut VacuumReport,
    ) -> Result<()> {
        let (mut txn, entry) = self.use_table_to_vacuum(name, watch)?;
        entry.table.naming(self.vacuum_table_with(&entry.table, (how, watch), total))?;
        txn.set_lock_timeout(Some(TAIL_PATIENCE));
        match txn.lock_table(entry.table.def().id, LockMode::Exclusive) {
            Ok(()) => {
                let heap = entry.table.heap();
                let go_on = || self.admit_more(true).and_then(|()| (watch.go_on)());
                let cut = entry.table.naming(vacuum::cut_tail(heap, &go_on))?;
                total.blocks_cut += u64::from(cut);
            }
            Err(Error::Cancelled(_) | Error::LockTimeout { .. } | Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Is a run to end?
    fn check_run(&self, running: &Running, watch: Watch<'_>) -> Result<()> {
        match self.upkeep.is_closed() || running.progress.is_stopped() {
            true => Err(Error::Cancelled("vacuum, by request".into())),
            false => (watch.go_on)(),
        }
    }

    /// The turn of a run, after other runs of its table.
    fn turn<'a>(
        &self,
        table: &'a Table,
        (running, watch): (&Running, Watch<'_>),
    ) -> Result<MutexGuard<'a, ()>> {
        let patience = self.txns.lock_timeout();
        loop {
            if let Some(turn) = table.heap().try_freeing() {
                return Ok(turn);
            }
            self.check_run(running, watch)?;
            let waited = self.env.clock.now() - running.started;
            if patience.is_some_and(|most| waited >= most) {
                let what = "another vacuum of the table".to_owned();
                return Err(Error::LockTimeout { waited, what });
            }
            points::hit("vacuum.waits");
            self.env.clock.sleep(LOOK);
            if self.env.clock.is_simulated() {
                thread::yield_now();
            }
        }
    }

    /// Vacuums `table`, whose write lock the caller holds; its oldest unfrozen xid. `None`: the run
    /// is an automatic one, and there is another.
    pub(crate) fn vacuum_table(
        &self,
        table: &Table,
        how: How,
        total: &mut VacuumReport,
    ) -> Result<Option<Xid>> {
        self.vacuum_table_with(table, (how, Watch::default()), total)
    }

    fn vacuum_table_with(
        &self,
        table: &Table,
        (how, watch): (How, Watch<'_>),
        total: &mut VacuumReport,
    ) -> Result<Option<Xid>> {
        self.admit_freeing()?;
        self.txns.expire_snapshots();
        let (vacuums, id) = (&self.upkeep.vacuums, table.def().id);
        let running = Running {
            table: id,
            name: table.def().name.clone(),
            how,
            started: self.env.clock.now(),
            progress: Progress::default(),
        };
        let Some(listed) = vacuums.list(running) else { return Ok(None) };
        let turn = self.turn(table, (&listed.running, watch))?;
        let commits = self.txns.counters().commits;
        let slice = Slice { since: self.env.clock.now(), blocks: 0, commits };
        let slice = Mutex::new(slice);
        let pacer = Pacer { engine: self, running: &listed.running, watch, slice };
        let threads = Threads(if how == How::Fast { vacuums.settings.threads } else { 1 });
        let pace = |blocks| pacer.pace(blocks);
        let progress = &listed.running.progress;
        let admit = || self.admit_more(true);
        let limits = Limits { workers: &threads, pace: &pace, admit: &admit, progress };
        let share = self.env.budget.limit() / MEMORY_SHARE;
        // A vacuum that somebody asks for beside an automatic one finds memory, too.
        let most = if how == How::Automatic { self.env.budget.available() / 2 } else { share };
        let memory = share.min(most);
        let bytes = memory - memory / READ_SHARE;
        let memory = RunMemory { budget: &self.env.budget, bytes };
        // No row may be left to a later run twice.
        let may_skip = how == How::Automatic && !vacuums.skipped.lock().contains(&id);
        let options = RunOptions { horizon: self.txns.horizon(), may_skip };
        let run = Vacuum::new(table, memory, options, limits)?;
        let left = vacuums.resumable.lock().remove(&id);
        let ended = run.run(turn, left);
        if let Some(resumable) = ended.resumable {
            vacuums.resumable.lock().insert(id, resumable);
        }
        let report = ended.report;
        add(total, &report);
        let took = self.env.clock.now() - listed.running.started;
        self.upkeep.tally.vacuum(took, |totals| add(totals, &report));
        if took >= SLOW_VACUUM {
            let (table, seconds) = (&listed.running.name, took.as_secs());
            self.env.logger.info(&format!("a vacuum of table {table} took {seconds} s"));
        }
        ended.result?;
        match report.rows_left > 0 {
            true => vacuums.skipped.lock().insert(id),
            false => vacuums.skipped.lock().remove(&id),
        };
        table.heap().vacuumed(self.txns.next_xid());
        table.heap().count_vacuum(how == How::Automatic, self.env.clock.unix_micros());
        self.note_garbage(table)?;
        Ok(Some(report.oldest_unfrozen))
    }
}

fn add(total: &mut VacuumReport, report: &vacuum::RunReport) {
    total.pages_scanned += report.pages;
    total.rows_removed += report.rows;
    total.rows_left += report.rows_left;
    total.entries_removed += report.entries;
    total.index_passes += report.index_passes;
    total.index_pages_freed += report.index_pages_freed;
    total.overflow_pages_freed += report.overflow_pages;
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::time::Duration;

    use super::{LONGEST_REST, REST, REST_IDLE, SLICE};
    use crate::{Database, ScanOptions, TableSchema, Type, Value};
    use rightlink_aio::SimDisk;
    use rightlink_env::sync::{Arc, AtomicU64, Ordering};
    use rightlink_env::{Env, points};

    /// A database in simulated time, where nothing takes time but what a test says: a table with
    /// many dead rows, and one for others to write to.
    fn to_be_vacuumed(seed: u64, rate: Option<u64>) -> (Env, Database) {
        let env = Env::simulated(seed);
        let options = Database::options().simulation(env.clone(), SimDisk::new(seed));
        let db = options.auto_vacuum(false).vacuum_rate(rate).open("db").unwrap();
        let mut txn = db.begin();
        for name in ["t", "beside"] {
            let schema = TableSchema::new(name).column("id", Type::Int8);
            txn.create_table(&schema.column("pad", Type::Text).primary_key(["id"])).unwrap();
        }
        let row = |id| vec![Value::Int8(id), Value::Text("x".repeat(400))];
        txn.insert_many("t", &(0..8000).map(row).collect::<Vec<_>>()).unwrap();
        txn.commit().unwrap();
        let mut txn = db.begin();
        let rows: Vec<_> = txn.scan("t", &ScanOptions::all()).unwrap().collect();
        for row in rows {
            let row = row.unwrap();
            if row.values[0] < Value::Int8(6000) {
                assert!(txn.delete("t", row.id).unwrap());
            }
        }
        txn.commit().unwrap();
        (env, db)
    }

    /// A vacuum of `t` whose every piece of work takes `piece`, with `others` at work between two
    /// of them: the time of its work and of its rests.
    fn vacuumed(
        (env, db): (&Env, &Database),
        gently: bool,
        piece: Duration,
        others: impl Fn(&Database, u64) + Send + Sync + 'static,
    ) -> (Duration, Duration) {
        let pieces = Arc::new(AtomicU64::new(0));
        let hook = {
            let (env, db, pieces) = (env.clone(), db.clone(), Arc::clone(&pieces));
            points::install_local(move |point| {
                if point == "vacuum.pace" {
                    env.clock.advance(piece);
                    others(&db, pieces.fetch_add(1, Ordering::Relaxed));
                }
            })
        };
        let began = env.clock.now();
        let report =
            if gently { db.vacuum_gently(Some("t")) } else { db.vacuum(Some("t")) }.unwrap();
        drop(hook);
        assert_eq!(report.rows_removed, 6000);
        let work = piece * pieces.load(Ordering::Relaxed) as u32;
        assert!(work >= 12 * piece, "enough pieces to tell: {work:?}");
        assert!(db.verify().unwrap().is_clean());
        (work, env.clock.now() - began - work)
    }

    fn commit_one(db: &Database, number: u64) {
        let mut txn = db.begin();
        let row = [Value::Int8(number as i64), Value::Text("y".into())];
        txn.insert("beside", &row).unwrap();
        txn.commit().unwrap();
    }

    /// A vacuum that rests does so while others commit, as long as it should for the time that it
    /// worked, longer where no processor is idle; and not at all when nobody commits, from its
    /// first slice on.
    #[test]
    fn a_gentle_vacuum_rests_for_those_who_commit() {
        let slice = |work: Duration| SLICE * (work.as_nanos() / SLICE.as_nanos()) as u32;
        let piece = SLICE / 2;
        let (env, db) = to_be_vacuumed(11, None);
        let (work, rests) = vacuumed((&env, &db), true, piece, commit_one);
        assert_eq!(rests, slice(work) * REST_IDLE, "of {work:?}");

        let (env, db) = to_be_vacuumed(12, None);
        let parked = db.begin();
        let (work, rests) = vacuumed((&env, &db), true, piece, commit_one);
        assert_eq!(rests, slice(work) * REST, "of {work:?}, no processor is idle");
        drop(parked);

        for (gently, commits) in [(true, false), (false, true)] {
            let (env, db) = to_be_vacuumed(13, None);
            let others = move |db: &Database, number| match commits {
                true => commit_one(db, number),
                false => drop(db.begin()),
            };
            let (_, rests) = vacuumed((&env, &db), gently, piece, others);
            assert_eq!(rests, Duration::ZERO, "gently {gently}, commits {commits}");
        }
    }

    /// It rests after slices in which others committed, and goes on when they have ended.
    #[test]
    fn a_gentle_vacuum_rests_no_longer_than_others_commit() {
        let (env, db) = to_be_vacuumed(14, None);
        let (_, rests) = vacuumed((&env, &db), true, SLICE, |db, number| {
            if number < 5 {
                commit_one(db, number);
            }
        });
        assert_eq!(rests, SLICE * REST_IDLE * 5);
    }

    /// A long piece of work is not rested from for ever, and the rate holds whoever commits.
    #[test]
    fn rests_are_bounded_and_a_rate_is_kept() {
        let (env, db) = to_be_vacuumed(15, None);
        let piece = LONGEST_REST;
        let (work, rests) = vacuumed((&env, &db), true, piece, commit_one);
        assert_eq!(rests, work);

        let rate = 1 << 20;
        let (env, db) = to_be_vacuumed(16, Some(rate));
        let (work, rests) = vacuumed((&env, &db), true, SLICE, |_, _| {});
        let info = db.describe("t").unwrap();
        let bytes = u64::from(info.heap_blocks) * 8192;
        let least = Duration::from_secs_f64(bytes as f64 / rate as f64);
        assert!(work + rests >= least * 9 / 10, "{work:?} and {rests:?} for {least:?}");
    }

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
                    txn.rename_table(names[0], names[1]).unwrap();
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
