//! Admission of writers: there is log for the statement, its commit and a checkpoint.
//!
//! A writer that comes while checkpoints are late helps, so that redo does not grow faster than
//! checkpoints shorten it. On a full disk a checkpoint makes segments reusable, so that rows can be
//! deleted to free space.
//!
//! Invariants: a writer is never refused because another table's page cannot be written.
//! Does not do: count the space (`wal`).

use rightlink_env::sync::Ordering;

use crate::error::{Error, Result};
use crate::upkeep::{CheckpointCause, Engine};
use crate::wal::Admission;

impl Engine {
    /// Admits a statement that writes.
    pub(crate) fn admit(&self) -> Result<()> {
        self.upkeep.idle.end_rests_before_write();
        if self.schedule.is_late() {
            self.unless_poisoned(self.help_checkpoint())?;
            self.upkeep.counters.add_help();
        }
        self.admit_to_log(Admission::Begin)
    }

    /// As [`Engine::admit`], for work that frees space: on a full disk, too.
    pub(crate) fn admit_freeing(&self) -> Result<()> {
        match self.admit() {
            Err(Error::DiskFull(_)) => self.wal.admit(Admission::Free),
            admitted => admitted,
        }
    }

    /// As [`Engine::admit`], or [`Engine::admit_freeing`], between two steps of such work. It only
    /// looks at the log as long as that has room. The caller holds no latch.
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
                self.unless_poisoned(self.checkpoint(CheckpointCause::DiskFull, false))?;
                self.wal.admit(work)
            }
            admitted => admitted,
        }
    }

    /// The result for a writer of a checkpoint that it has helped. An error that keeps a page of
    /// another table from its file does not concern the writer, and is logged once.
    fn unless_poisoned(&self, result: Result<()>) -> Result<()> {
        let logged = &self.upkeep.failure_logged;
        match result {
            Ok(()) => logged.store(false, Ordering::Relaxed),
            Err(error @ Error::Poisoned(_)) => return Err(error),
            Err(error) => {
                if !logged.swap(true, Ordering::Relaxed) {
                    self.env.logger.error(&format!("a checkpoint does not get on: {error}"));
                }
            }
        }
        Ok(())
    }
}
