//! The parts of an open database, and the state of its upkeep.
//!
//! Invariants: there is one `Engine` per open directory, guarded by the lock file.
//! Does not do: statements (`db`); each concern of upkeep has a file of its own, see `upkeep`.

use rightlink_aio::{DeviceFigures, Io, LockFile};
use rightlink_env::sync::{Arc, AtomicBool, AtomicU64, FairMutex, Mutex, Ordering};
use rightlink_env::thread::JoinHandle;
use rightlink_env::{Env, Nanos, Rng};

use crate::buffer::BufferPool;
use crate::catalog::{Catalog, Changes, Entry};
use crate::error::{Error, Result};
use crate::ids::Xid;
use crate::recovery::checkpoint::Checkpoint;
use crate::recovery::redo::Replayed;
use crate::sort::TempFiles;
use crate::table::BuildOptions;
use crate::txn::{Isolation, LockMode, Transaction, TxnManager};
use crate::upkeep::counters::UpkeepCounters;
use crate::upkeep::idle::IdleWait;
use crate::upkeep::prepared_list::PreparedTransactions;
use crate::upkeep::schedule::CheckpointSchedule;
use crate::upkeep::vacuum_runs::{VacuumRuns, VacuumSettings};
use crate::upkeep::{CheckpointCause, Watch};
use crate::wal::Wal;

/// The parts of an open database.
pub(crate) struct Engine {
    pub(crate) env: Env,
    pub(crate) io: Io,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) txns: Arc<TxnManager>,
    pub(crate) catalog: Catalog,
    /// The temporary files of sorts.
    pub(crate) temp: Arc<TempFiles>,
    pub(crate) database: u64,
    /// Figures of the device; 0 where it was not measured.
    pub(crate) device: DeviceFigures,
    pub(crate) replayed: Replayed,
    pub(crate) schedule: CheckpointSchedule,
    pub(super) vacuum_settings: VacuumSettings,
    pub(crate) upkeep: Upkeep,
    pub(crate) prepared: PreparedTransactions,
    /// The source of random defaults.
    pub(crate) random: Mutex<Rng>,
    pub(crate) _lock: LockFile,
}

/// The state of upkeep, which begins empty.
#[derive(Default)]
pub(crate) struct Upkeep {
    pub(crate) counters: UpkeepCounters,
    pub(crate) vacuums: VacuumRuns,
    pub(super) checkpoint: FairMutex<Option<RunningCheckpoint>>,
    /// The log says already that checkpoints fail.
    pub(super) failure_logged: AtomicBool,
    /// New work is refused.
    pub(super) closed: AtomicBool,
    /// Nothing is left to do for a close: it was done, or can never be.
    pub(super) ended: Mutex<bool>,
    pub(crate) idle: IdleWait,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(super) outcomes_to_forget: Mutex<Option<ForgettableOutcomes>>,
    /// The first xid not handed out when all tables were last searched for old xids.
    pub(super) old_xids_checked: AtomicU64,
    /// The unused tables were searched for those that are due.
    pub(super) unused_tables_checked: AtomicBool,
}

/// A checkpoint that is under way.
pub(super) struct RunningCheckpoint {
    pub(super) checkpoint: Checkpoint,
    pub(super) cause: CheckpointCause,
    pub(super) started: Nanos,
}

/// Outcomes that no table needs any more, but that a reader may still ask for.
#[derive(Clone, Copy)]
pub(super) struct ForgettableOutcomes {
    /// They are those of the xids below this one.
    pub(super) below: Xid,
    /// They can go once the horizon is above this xid.
    pub(super) fence: Xid,
}

impl Upkeep {
    /// Has the database been closed?
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl Engine {
    /// Fails once the database was closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.upkeep.is_closed() {
            true => Err(Error::Invalid("the database was closed".into())),
            false => Ok(()),
        }
    }

    /// What an index build may use.
    pub(crate) fn build_options(&self) -> BuildOptions<'_> {
        let memory = self.env.budget.limit() / 8;
        BuildOptions { budget: &self.env.budget, temp: &self.temp, memory }
    }

    /// Opens a table for a piece of maintenance. The lock lasts as long as the transaction, which
    /// `watch` can end.
    pub(crate) fn use_table(
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
}
