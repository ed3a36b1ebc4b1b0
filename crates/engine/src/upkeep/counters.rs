//! Counters of upkeep since the database was opened: checkpoints by cause, vacuums, their time.
//!
//! Invariants: counters only grow. Each is read by itself, not all at one moment.
//! Does not do: counters of single tables.

use std::time::Duration;

use rightlink_env::sync::{AtomicU64, Mutex, Ordering};

use crate::upkeep::{CheckpointCause, VacuumReport};
use crate::vacuum::RunReport;

/// All causes, with the names of their counters.
const CAUSES: [(CheckpointCause, &str); 4] = [
    (CheckpointCause::LogSpace, "checkpoints_log_space"),
    (CheckpointCause::RedoTime, "checkpoints_redo_time"),
    (CheckpointCause::Asked, "checkpoints_asked"),
    (CheckpointCause::DiskFull, "checkpoints_disk_full"),
];

/// Counters of checkpoints and vacuums.
#[derive(Default)]
pub(crate) struct UpkeepCounters {
    checkpoints: [AtomicU64; CAUSES.len()],
    checkpoint_us: AtomicU64,
    longest_checkpoint_us: AtomicU64,
    /// Steps of late checkpoints that writers made.
    helped: AtomicU64,
    vacuums: AtomicU64,
    /// Automatic vacuums. [`UpkeepCounters::figures`] leaves them out.
    pub(crate) auto_vacuums: AtomicU64,
    vacuum_us: AtomicU64,
    vacuumed: Mutex<VacuumReport>,
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl UpkeepCounters {
    /// Counts a finished checkpoint.
    pub(super) fn add_checkpoint(&self, cause: CheckpointCause, took: Duration) {
        self.checkpoints[cause as usize].fetch_add(1, Ordering::Relaxed);
        self.checkpoint_us.fetch_add(micros(took), Ordering::Relaxed);
        self.longest_checkpoint_us.fetch_max(micros(took), Ordering::Relaxed);
    }

    /// Counts a step of a checkpoint that a writer made.
    pub(super) fn add_help(&self) {
        self.helped.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a vacuum of a table that has ended, with or without an error.
    pub(super) fn add_vacuum(&self, took: Duration, report: &RunReport) {
        self.vacuums.fetch_add(1, Ordering::Relaxed);
        self.vacuum_us.fetch_add(micros(took), Ordering::Relaxed);
        self.vacuumed.lock().add(report);
    }

    /// Names and values.
    pub(crate) fn figures(&self) -> Vec<(&'static str, u64)> {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut figures = vec![("checkpoints", self.checkpoints.iter().map(get).sum())];
        figures.extend(CAUSES.map(|(cause, name)| {
            assert_eq!(CAUSES[cause as usize].0, cause, "they are in order");
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
