//! Vacuum on request, its progress, and the snapshots that hold it back.
//!
//! Invariants: a vacuum on request ends with an error, or has done all that it can.
//! Does not do: the vacuum (`upkeep::vacuum`).

use crate::db::Database;
use crate::db::info::{SnapshotInfo, VacuumProgress, VacuumReport};
use crate::error::Result;
use crate::upkeep::{VacuumMode, VacuumRequest, Watch};

/// How [`Database::vacuum_with`] works.
///
/// ```
/// use rightlink::VacuumOptions;
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = rightlink::Database::open(dir.path())?;
/// let report = db.vacuum_with(None, VacuumOptions { gently: true, ..Default::default() })?;
/// assert_eq!(report.rows_removed, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct VacuumOptions<'a> {
    /// Rest as an automatic vacuum does: while other transactions commit, it works a ninth of the
    /// time, a fifth where a processor is idle, and slows them down little.
    pub gently: bool,
    /// Limits of the vacuum, and a call that can end it.
    pub watch: Watch<'a>,
}

impl Database {
    /// Removes dead rows of one table (`None`: of every table) and their index entries.
    ///
    /// # Errors
    /// `Cancelled` after [`Database::cancel_vacuum`].
    pub fn vacuum(&self, table: Option<&str>) -> Result<VacuumReport> {
        self.engine().vacuum(table, VacuumRequest::new(VacuumMode::Fast))
    }

    /// As [`Database::vacuum`], and can be paced, or ended without ending other vacuums.
    ///
    /// # Errors
    /// As there; the error of [`Watch::go_on`].
    pub fn vacuum_with(
        &self,
        table: Option<&str>,
        options: VacuumOptions<'_>,
    ) -> Result<VacuumReport> {
        let mode = if options.gently { VacuumMode::Gentle } else { VacuumMode::Fast };
        self.engine().vacuum(table, VacuumRequest { mode, watch: options.watch })
    }

    /// The vacuums that are at work now, automatic ones included, oldest first.
    pub fn vacuum_progress(&self) -> Vec<VacuumProgress> {
        let engine = self.engine();
        engine.upkeep.vacuums.progress(engine.env.clock.now())
    }

    /// Asks the vacuums of one table (`None`: all that are at work) to end. They do so soon; one on
    /// request returns [`Error::Cancelled`]. Their work stays done, and the next vacuum continues
    /// with the remaining indexes. Returns how many were asked.
    ///
    /// [`Error::Cancelled`]: crate::Error::Cancelled
    pub fn cancel_vacuum(&self, table: Option<&str>) -> usize {
        self.engine().upkeep.vacuums.cancel(table)
    }

    /// The snapshots that keep rows from being removed, oldest first, and what they hold back.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        let engine = self.engine();
        let (now, next) = (engine.env.clock.now(), engine.txns.next_xid());
        let live = engine.txns.snapshots().into_iter().map(|live| SnapshotInfo {
            transaction: live.id,
            snapshots: live.count as u64,
            age: now - live.since,
            commits_since: live.commits_since,
            xids_since: next.0 - live.xmin.0,
        });
        live.collect()
    }
}
