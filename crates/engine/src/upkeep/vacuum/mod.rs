//! Vacuum of tables of an open database: one table, all tables, and the limits of a run.
//!
//! | file | what it has |
//! |---|---|
//! | `automatic` | looks for tables that are due; stores their garbage counts |
//! | `pacing` | rests of a run, and its reasons to end |
//! | `outcomes` | forgets outcomes of transactions that no table needs any more |
//!
//! A run on request works at full speed, and cleans indexes on several threads. An automatic or a
//! gentle run rests. A run waits for index builds, for changes of the definition, and for another
//! run of its table. It asks an automatic run to end.
//!
//! Invariants: one run works on a table at a time. The run holds the write lock of its table. No
//! run works beside an index build (R3).
//! Does not do: the work on a table (`crate::vacuum`); the list of runs (`vacuum_runs`).

use std::time::Duration;

use rightlink_env::sync::{Arc, MutexGuard};
use rightlink_env::{points, thread};

use crate::catalog::Entry;
use crate::error::{Error, Result};
use crate::table::Table;
use crate::txn::{LockMode, Transaction};
use crate::upkeep::vacuum_runs::VacuumRun;
use crate::upkeep::{Engine, VacuumMode, VacuumReport, Watch};
use crate::vacuum::{self, Limits, Progress, RunMemory, RunOptions, Vacuum, Workers};

mod automatic;
mod outcomes;
mod pacing;

use pacing::Pacer;

/// A vacuum of a table that takes longer is logged.
const SLOW_VACUUM: Duration = Duration::from_secs(60);
/// Wait for the lock that cutting the tail of a table needs. A later vacuum can cut it.
const TAIL_LOCK_TIMEOUT: Duration = Duration::ZERO;
/// Pause between two looks at an index build, or at another run.
const POLL: Duration = Duration::from_millis(2);
/// Part of the memory for a run: a sixteenth.
const MEMORY_SHARE: usize = 16;
/// Part of that for read-ahead, which the threads of the run reserve. The rest is for dead row ids.
const READ_SHARE: usize = 32;

/// The mode of a vacuum, and what ends it.
#[derive(Clone, Copy)]
pub(crate) struct VacuumRequest<'a> {
    pub(crate) mode: VacuumMode,
    pub(crate) watch: Watch<'a>,
}

impl VacuumRequest<'_> {
    /// A request that only its own limits end.
    pub(crate) fn new(mode: VacuumMode) -> Self {
        Self { mode, watch: Watch::default() }
    }
}

/// The end of a run without an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum VacuumEnd {
    /// The table is vacuumed.
    Done,
    /// The run was automatic, and the table had another run.
    Occupied,
}

/// Threads of the index passes.
struct IndexThreads(usize);

impl Workers for IndexThreads {
    fn max_threads(&self) -> usize {
        self.0
    }

    fn run(&self, tasks: usize, work: &(dyn Fn() + Sync)) {
        thread::several("rightlink-vacuum", self.0.min(tasks).max(1), work);
    }
}

impl Engine {
    /// Vacuums the table called `table`; `None`: every table.
    pub(crate) fn vacuum(
        &self,
        table: Option<&str>,
        request: VacuumRequest<'_>,
    ) -> Result<VacuumReport> {
        self.check_open()?;
        let mut total = VacuumReport::default();
        match table {
            Some(table) => self.vacuum_named(table, request, &mut total)?,
            None => self.vacuum_all(request, &mut total)?,
        }
        Ok(total)
    }

    fn vacuum_all(&self, request: VacuumRequest<'_>, total: &mut VacuumReport) -> Result<()> {
        let catalog = self.catalog.table();
        catalog.naming(self.vacuum_table(catalog, request, total))?;
        let mut damage = None;
        for def in self.catalog.definitions()? {
            match self.vacuum_named(&def.name, request, total) {
                Err(Error::NotFound(_)) => {}
                // The other tables are vacuumed all the same.
                Err(error @ Error::Corruption { .. }) => {
                    damage.get_or_insert(error);
                }
                vacuumed => vacuumed?,
            }
        }
        if let Some(damage) = damage {
            // The damaged table may need any outcome.
            return Err(damage);
        }
        match self.oldest_unfrozen(usize::MAX)? {
            Some(oldest) => self.forget_outcomes(oldest),
            None => Ok(()),
        }
    }

    /// Vacuums the table called `name`, and cuts empty pages off its end.
    fn vacuum_named(
        &self,
        name: &str,
        request: VacuumRequest<'_>,
        total: &mut VacuumReport,
    ) -> Result<()> {
        let (mut txn, entry) = self.use_table_to_vacuum(name, request.watch)?;
        entry.table.naming(self.vacuum_table(&entry.table, request, total))?;
        txn.set_lock_timeout(Some(TAIL_LOCK_TIMEOUT));
        match txn.lock_table(entry.table.def().id, LockMode::Exclusive) {
            Ok(()) => {
                let heap = entry.table.heap();
                let go_on = || self.admit_more(true).and_then(|()| (request.watch.go_on)());
                let cut = entry.table.naming(vacuum::cut_tail(heap, &go_on))?;
                total.blocks_cut += u64::from(cut);
            }
            Err(Error::Cancelled(_) | Error::LockTimeout { .. } | Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The table called `name` for a vacuum, which waits for index builds beside writers (R3).
    fn use_table_to_vacuum(
        &self,
        name: &str,
        watch: Watch<'_>,
    ) -> Result<(Transaction, Arc<Entry>)> {
        loop {
            let (txn, entry) = self.use_table(name, LockMode::Write, watch)?;
            if !entry.table.is_being_indexed() {
                return Ok((txn, entry));
            }
            // The build waits for writers, so this lock has to be released.
            drop((txn, entry));
            self.check_open()?;
            (watch.go_on)()?;
            self.env.clock.sleep(POLL);
        }
    }

    /// Vacuums `table`, whose write lock the caller holds. Adds its work to `total`.
    pub(crate) fn vacuum_table(
        &self,
        table: &Table,
        request: VacuumRequest<'_>,
        total: &mut VacuumReport,
    ) -> Result<VacuumEnd> {
        let mode = request.mode;
        self.admit_freeing()?;
        self.txns.expire_snapshots();
        let (runs, id) = (&self.upkeep.vacuums, table.def().id);
        let run = VacuumRun {
            table: id,
            name: table.def().name.clone(),
            mode,
            started: self.env.clock.now(),
            progress: Progress::default(),
        };
        let Some(listed) = runs.list(run) else { return Ok(VacuumEnd::Occupied) };
        let turn = self.wait_for_turn(table, &listed.run, request.watch)?;
        let pacer = Pacer::new(self, &listed.run, request.watch);
        let threads =
            IndexThreads(if mode == VacuumMode::Fast { self.vacuum_settings.threads } else { 1 });
        let (pace, admit) = (|blocks| pacer.pace(blocks), || self.admit_more(true));
        let progress = &listed.run.progress;
        let limits = Limits { workers: &threads, pace: &pace, admit: &admit, progress };
        // No row may be left to a later run twice.
        let may_skip = mode == VacuumMode::Automatic && !runs.skipped.lock().contains(&id);
        let options = RunOptions { horizon: self.txns.horizon(), may_skip };
        let run = Vacuum::new(table, self.vacuum_memory(mode), options, limits)?;
        let left = runs.resumable.lock().remove(&id);
        let ended = run.run(turn, left);
        if let Some(resumable) = ended.resumable {
            runs.resumable.lock().insert(id, resumable);
        }
        let report = ended.report;
        total.add(&report);
        let took = self.env.clock.now() - listed.run.started;
        self.upkeep.counters.add_vacuum(took, &report);
        if took >= SLOW_VACUUM {
            let (table, seconds) = (&listed.run.name, took.as_secs());
            self.env.logger.info(&format!("a vacuum of table {table} took {seconds} s"));
        }
        ended.result?;
        match report.rows_left > 0 {
            true => runs.skipped.lock().insert(id),
            false => runs.skipped.lock().remove(&id),
        };
        table.heap().vacuumed(self.txns.next_xid());
        let automatic = mode == VacuumMode::Automatic;
        table.heap().counters().vacuum(automatic, self.env.clock.unix_micros());
        self.note_garbage(table)?;
        Ok(VacuumEnd::Done)
    }

    /// The memory of a run. An automatic run leaves half of the free memory, so that a vacuum on
    /// request finds some beside it.
    fn vacuum_memory(&self, mode: VacuumMode) -> RunMemory<'_> {
        let budget = &self.env.budget;
        let share = budget.limit() / MEMORY_SHARE;
        let most = if mode == VacuumMode::Automatic { budget.available() / 2 } else { share };
        let memory = share.min(most);
        RunMemory { budget, bytes: memory - memory / READ_SHARE }
    }

    /// Waits until no other run works on `table`.
    fn wait_for_turn<'t>(
        &self,
        table: &'t Table,
        run: &VacuumRun,
        watch: Watch<'_>,
    ) -> Result<MutexGuard<'t, ()>> {
        let timeout = self.txns.lock_timeout();
        loop {
            if let Some(turn) = table.heap().try_freeing() {
                return Ok(turn);
            }
            self.check_run(run, watch)?;
            let waited = self.env.clock.now() - run.started;
            if timeout.is_some_and(|most| waited >= most) {
                let what = "another vacuum of the table".to_owned();
                return Err(Error::LockTimeout { waited, what });
            }
            points::hit("vacuum.waits");
            self.env.clock.sleep(POLL);
            if self.env.clock.is_simulated() {
                thread::yield_now();
            }
        }
    }
}
