//! Pacing of a vacuum run: its rests between slices of work, and its reasons to end.
//!
//! A run that rests works in slices of 4 ms. While other transactions commit, it rests several
//! times as long as the slice took. It never reads more bytes per second than
//! [`Options::vacuum_rate`](crate::Options::vacuum_rate).
//!
//! Invariants: a run ends between two pieces of work when the database is closed, when it is asked
//! to end, and if it is automatic also when a transaction waits for the lock of its table.
//! Does not do: wait for a lock.

use std::time::Duration;

use rightlink_env::sync::Mutex;
use rightlink_env::{Nanos, points};

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::txn::{RunningTxn, WaitsFor};
use crate::upkeep::vacuum_runs::VacuumRun;
use crate::upkeep::{Engine, VacuumMode, Watch};

/// Work between two rests.
const SLICE: Duration = Duration::from_millis(4);
/// Rest as a multiple of the work before it, while other transactions commit. A run takes nine
/// times as long as it would alone.
const REST: u32 = 8;
/// The same while fewer transactions run than there are processors, so that one is idle.
const REST_IDLE: u32 = 4;
/// Longest sleep before the reasons to end are checked again.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
/// Longest rest.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Paces one run.
pub(super) struct Pacer<'a> {
    engine: &'a Engine,
    run: &'a VacuumRun,
    watch: Watch<'a>,
    slice: Mutex<Slice>,
}

/// Work since the last rest.
struct Slice {
    started: Nanos,
    blocks: u64,
    commits: u64,
}

impl<'a> Pacer<'a> {
    pub(super) fn new(engine: &'a Engine, run: &'a VacuumRun, watch: Watch<'a>) -> Self {
        let (started, commits) = (engine.env.clock.now(), engine.txns.counters().commits);
        Self { engine, run, watch, slice: Mutex::new(Slice { started, blocks: 0, commits }) }
    }

    /// Called after `blocks` more blocks of work. An error ends the run. A run that rests has one
    /// thread, which rests here; the threads of a fast run only check whether it is to end.
    pub(super) fn pace(&self, blocks: u32) -> Result<()> {
        points::hit("vacuum.pace");
        self.engine.check_run(self.run, self.watch)?;
        self.engine.admit_more(true)?;
        if self.run.mode == VacuumMode::Fast {
            return Ok(());
        }
        let (now, commits) = (self.engine.env.clock.now(), self.engine.txns.counters().commits);
        let mut slice = self.slice.lock();
        slice.blocks += u64::from(blocks);
        let worked = now - slice.started;
        let rate = self.engine.vacuum_settings.rate;
        let least = rate.map(|rate| slice.time_at(rate)).unwrap_or_default();
        if worked < SLICE && least < SLICE {
            return Ok(());
        }
        self.check_lock_waiters()?;
        let busy = std::mem::replace(&mut slice.commits, commits) != commits;
        let rest = if busy { self.rest_after(worked) } else { Duration::ZERO };
        self.sleep(rest.max(least.saturating_sub(worked)))?;
        (slice.started, slice.blocks) = (self.engine.env.clock.now(), 0);
        Ok(())
    }

    /// The rest after a slice during which other transactions committed.
    fn rest_after(&self, worked: Duration) -> Duration {
        // The transaction of the run itself is one of the running ones.
        let idle = self.engine.txns.running().len() <= self.engine.vacuum_settings.processors;
        let rests = if idle { REST_IDLE } else { REST };
        let runs = self.engine.upkeep.vacuums.resting().max(1);
        (worked * (rests * runs)).min(LONGEST_REST)
    }

    fn sleep(&self, mut rest: Duration) -> Result<()> {
        while !rest.is_zero() {
            let nap = rest.min(LONGEST_SLEEP);
            self.engine.env.clock.sleep(nap);
            rest -= nap;
            self.engine.check_run(self.run, self.watch)?;
        }
        Ok(())
    }

    /// Ends an automatic run if a transaction waits for the lock of its table.
    fn check_lock_waiters(&self) -> Result<()> {
        if self.run.mode != VacuumMode::Automatic {
            return Ok(());
        }
        let waits = |txn: RunningTxn| match txn.waits_for {
            Some(WaitsFor::Table { table, .. }) => table == self.run.table,
            _ => false,
        };
        match self.engine.txns.running().into_iter().any(waits) {
            true => Err(Error::Cancelled("a vacuum that is in the way".into())),
            false => Ok(()),
        }
    }
}

impl Engine {
    /// Fails if `run` is to end.
    pub(super) fn check_run(&self, run: &VacuumRun, watch: Watch<'_>) -> Result<()> {
        match self.upkeep.is_closed() || run.progress.is_stopped() {
            true => Err(Error::Cancelled("vacuum, by request".into())),
            false => (watch.go_on)(),
        }
    }
}

impl Slice {
    /// The time for the blocks of the slice at `rate` bytes per second.
    fn time_at(&self, rate: u64) -> Duration {
        Duration::from_secs_f64((self.blocks * PAGE_SIZE as u64) as f64 / rate.max(1) as f64)
    }
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
        env: &Env,
        db: &Database,
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
        let options = crate::VacuumOptions { gently, ..Default::default() };
        let report = db.vacuum_with(Some("t"), options).unwrap();
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

    /// A gentle vacuum rests while others commit, in proportion to its work, and longer if no
    /// processor is idle. While no transaction commits, it does not rest at all.
    #[test]
    fn a_gentle_vacuum_rests_for_those_who_commit() {
        let slice = |work: Duration| SLICE * (work.as_nanos() / SLICE.as_nanos()) as u32;
        let piece = SLICE / 2;
        let (env, db) = to_be_vacuumed(11, None);
        let (work, rests) = vacuumed(&env, &db, true, piece, commit_one);
        assert_eq!(rests, slice(work) * REST_IDLE, "of {work:?}");

        let (env, db) = to_be_vacuumed(12, None);
        let parked = db.begin();
        let (work, rests) = vacuumed(&env, &db, true, piece, commit_one);
        assert_eq!(rests, slice(work) * REST, "of {work:?}, no processor is idle");
        drop(parked);

        for (gently, commits) in [(true, false), (false, true)] {
            let (env, db) = to_be_vacuumed(13, None);
            let others = move |db: &Database, number| match commits {
                true => commit_one(db, number),
                false => drop(db.begin()),
            };
            let (_, rests) = vacuumed(&env, &db, gently, piece, others);
            assert_eq!(rests, Duration::ZERO, "gently {gently}, commits {commits}");
        }
    }

    /// It rests after slices in which others committed, and goes on when they have ended.
    #[test]
    fn a_gentle_vacuum_rests_no_longer_than_others_commit() {
        let (env, db) = to_be_vacuumed(14, None);
        let (_, rests) = vacuumed(&env, &db, true, SLICE, |db, number| {
            if number < 5 {
                commit_one(db, number);
            }
        });
        assert_eq!(rests, SLICE * REST_IDLE * 5);
    }

    /// The rest after a long piece of work is bounded. The rate holds with and without commits.
    #[test]
    fn rests_are_bounded_and_a_rate_is_kept() {
        let (env, db) = to_be_vacuumed(15, None);
        let piece = LONGEST_REST;
        let (work, rests) = vacuumed(&env, &db, true, piece, commit_one);
        assert_eq!(rests, work);

        let rate = 1 << 20;
        let (env, db) = to_be_vacuumed(16, Some(rate));
        let (work, rests) = vacuumed(&env, &db, true, SLICE, |_, _| {});
        let info = db.describe("t").unwrap();
        let bytes = u64::from(info.heap_blocks) * 8192;
        let least = Duration::from_secs_f64(bytes as f64 / rate as f64);
        assert!(work + rests >= least * 9 / 10, "{work:?} and {rests:?} for {least:?}");
    }
}
