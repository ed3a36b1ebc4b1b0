//! Commands that look after a database, each with the function that does it.
//!
//! Invariants: a database that this command opens and one that a server has open give the same
//! output and exit code, because [`on`] runs the same functions on both.
//! Does not do: opening a database.

use crate::args::{StatArgs, Upkeep};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::work::Work;
use crate::{bloat, copies, inspect, show, upkeep, watch};

/// Runs `command` on a database that is open.
pub(crate) fn on(work: &Work<'_>, command: &Upkeep, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        Upkeep::Tables { .. } => show::tables(work, output),
        Upkeep::Describe { table, .. } => show::describe(work, table, output),
        Upkeep::Stat(StatArgs { watch: Some(seconds), count, .. }) => {
            watch::run(work, *seconds, *count, output)
        }
        Upkeep::Stat(StatArgs { bloat: true, .. }) => bloat::run(work, output),
        Upkeep::Stat(_) => show::stat(work, output),
        Upkeep::Inspect { relation, block, .. } => inspect::run(work, relation, *block, output),
        Upkeep::Verify { .. } => upkeep::verify(work, output),
        Upkeep::Vacuum { table, .. } => upkeep::vacuum(work, table.as_deref(), output),
        Upkeep::Checkpoint { .. } => upkeep::checkpoint(work, output),
        Upkeep::Reindex { table, index, .. } => {
            upkeep::reindex(work, table, index.as_deref(), output)
        }
        Upkeep::Backup { dir, rate, .. } => copies::backup(work, dir, *rate, output),
    }
}
