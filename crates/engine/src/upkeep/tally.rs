//! What upkeep has done since the database was opened: checkpoints by cause, vacuums, their time.
//!
//! Invariants: figures only grow, but for the longest time, which never shrinks; whoever reads them
//! sees each by itself, not all of one moment.
//! Does not do: figures of single tables.

use std::time::Duration;

use rightlink_env::Nanos;
use rightlink_env::sync::{AtomicU64, Mutex, Ordering};

use crate::recovery::checkpoint::Checkpoint;
use crate::upkeep::vacuum_report::VacuumReport;

/// A checkpoint that takes longer is worth a message.
pub(crate) const SLOW_CHECKPOINT: Duration = Duration::from_secs(10);
/// And a vacuum of a table.
pub(crate) const SLOW_VACUUM: Duration = Duration::from_secs(60);

/// Why a checkpoint is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// The log took as much space as it may.
    LogSpace,
    /// Redo would have taken too long.
    RedoTime,
    /// Somebody asked, or the database was opened or closed.
    Asked,
    /// The disk was full.
    DiskFull,
}

impl Cause {
    /// All of them, with the figures' names.
    const ALL: [(Cause, &'static str); 4] = [
        (Cause::LogSpace, "checkpoints_log_space"),
        (Cause::RedoTime, "checkpoints_redo_time"),
        (Cause::Asked, "checkpoints_asked"),
        (Cause::DiskFull, "checkpoints_disk_full"),
    ];
}

/// A checkpoint on its way.
pub(crate) struct Underway {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) cause: Cause,
    pub(crate) begun: Nanos,
}

/// The figures.
#[derive(Default)]
pub(crate) struct Tally {
    checkpoints: [AtomicU64; Cause::ALL.len()],
    checkpoint_us: AtomicU64,
    longest_checkpoint_us: AtomicU64,
    /// Steps of checkpoints that writers made because they were late.
    helped: AtomicU64,
    vacuums: AtomicU64,
    vacuum_us: AtomicU64,
    vacuumed: Mutex<VacuumReport>,
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Tally {
    /// A checkpoint is finished.
    pub(crate) fn checkpoint(&self, cause: Cause, took: Duration) {
        self.checkpoints[cause as usize].fetch_add(1, Ordering::Relaxed);
        self.checkpoint_us.fetch_add(micros(took), Ordering::Relaxed);
        self.longest_checkpoint_us.fetch_max(micros(took), Ordering::Relaxed);
    }

    /// A writer made a step of a checkpoint.
    pub(crate) fn help(&self) {
        self.helped.fetch_add(1, Ordering::Relaxed);
    }

    /// A vacuum of a table has ended, well or not, after this work.
    pub(crate) fn vacuum(&self, took: Duration, add: impl FnOnce(&mut VacuumReport)) {
        self.vacuums.fetch_add(1, Ordering::Relaxed);
        self.vacuum_us.fetch_add(micros(took), Ordering::Relaxed);
        add(&mut self.vacuumed.lock());
    }

    /// Names and values.
    pub(crate) fn figures(&self) -> Vec<(&'static str, u64)> {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut figures = vec![("checkpoints", self.checkpoints.iter().map(get).sum())];
        figures.extend(Cause::ALL.map(|(cause, name)| {
            assert_eq!(Cause::ALL[cause as usize].0, cause, "they are in order");
            (name, get(&self.checkpoints[cause as usize]))
        }));
        let vacuumed = self.vacuumed.lock().clone();
        figures.extend([
            ("checkpoint_us", get(&self.checkpoint_us)),
            ("longest_checkpoint_us", get(&self.longest_checkpoint_us)),
            ("checkpoint_steps_by_writers", get(&self.helped)),
            ("vacuums", get(&self.vacuums)),
            ("vacuum_us", get(&self.vacuum_us)),
            ("vacuum_pages", vacuumed.pages_scanned),
            ("vacuum_rows_removed", vacuumed.rows_removed),
            ("vacuum_entries_removed", vacuumed.entries_removed),
            ("vacuum_index_passes", vacuumed.index_passes),
            ("vacuum_index_pages_freed", vacuumed.index_pages_freed),
        ]);
        figures
    }
}
