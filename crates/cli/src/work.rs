//! Commands that look after a database: on one that this command opens, and on one that a server
//! has open, whose process then runs them (`remote`).
//!
//! Invariants: both ways print the same and end with the same exit codes, because they run the same
//! functions on an open [`Database`].
//! Does not do: what single commands print.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rightlink::{CancelHandle, Database, Error, Watch};
use rightlink_server::Call;

use crate::args::{Common, StatArgs, Upkeep};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::{bloat, copies, inspect, open, remote, show, upkeep, watch};

/// An open database that a command works on, and the client that waits for it, if it is a server's.
pub(crate) struct Work<'w> {
    pub(crate) db: &'w Database,
    call: Option<&'w Call>,
    /// Where relative paths begin, if not where this process is.
    folder: Option<&'w Path>,
}

impl<'w> Work<'w> {
    /// Of this process alone.
    pub(crate) fn alone(db: &'w Database) -> Work<'w> {
        Work { db, call: None, folder: None }
    }

    /// For a client that is in `folder`.
    pub(crate) fn called(db: &'w Database, call: &'w Call, folder: &'w Path) -> Work<'w> {
        Work { db, call: Some(call), folder: Some(folder) }
    }

    /// Since when figures are counted.
    pub(crate) fn since(&self) -> &'static str {
        match self.call {
            Some(_) => "since the server opened it",
            None => "since this command opened it",
        }
    }

    /// The path that the user means.
    pub(crate) fn path(&self, typed: &Path) -> PathBuf {
        self.folder.map_or_else(|| typed.to_owned(), |folder| folder.join(typed))
    }

    /// Fails if the command must end.
    pub(crate) fn go_on(&self) -> Result<(), Error> {
        match self.call.and_then(|call| call.ending().reason()) {
            Some(reason) => Err(Error::Cancelled(reason.to_owned())),
            None => Ok(()),
        }
    }

    /// Runs `work` so that it ends when the command must.
    pub(crate) fn watched<T>(
        &self,
        work: impl FnOnce(Watch<'_>) -> rightlink::Result<T>,
    ) -> rightlink::Result<T> {
        let Some(call) = self.call else { return work(Watch::default()) };
        let ending = call.ending();
        let go_on = || self.go_on();
        let begun = |handle: CancelHandle| ending.watch(handle);
        work(Watch { go_on: &go_on, begun: &begun, ..Watch::default() })
    }

    /// Sleeps; false if the command must end.
    pub(crate) fn sleep(&self, time: Duration) -> bool {
        match self.call {
            Some(call) => call.sleep(time),
            None => {
                std::thread::sleep(time);
                true
            }
        }
    }
}

/// Runs a command that looks after a database.
pub(crate) fn run(common: &Common, command: &Upkeep, output: &mut Output) -> Result<Exit, Failure> {
    if command.outlives_reader() {
        output.outlive_reader();
    }
    if let Upkeep::Verify { db, offline: true } = command {
        return upkeep::verify_offline(db, output);
    }
    let path = command.db();
    match open::options(common).create(false).open(path) {
        Ok(db) => {
            let exit = on(&Work::alone(&db), command, output)?;
            db.close()?;
            Ok(exit)
        }
        Err(error @ Error::Locked(_)) => remote::run(path, error, output),
        Err(error) => Err(open::at(path, error)),
    }
}

/// Runs it on a database that is open.
pub(crate) fn on(work: &Work<'_>, command: &Upkeep, output: &mut Output) -> Result<Exit, Failure> {
    match command {
        Upkeep::Tables { .. } => show::tables(work, output),
        Upkeep::Describe { table, .. } => show::describe(work, table, output),
        Upkeep::Stat(StatArgs { watch: Some(seconds), count, .. }) => {
            watch::run(work, (*seconds, *count), output)
        }
        Upkeep::Stat(StatArgs { bloat: true, .. }) => bloat::run(work, output),
        Upkeep::Stat(_) => show::stat(work, output),
        Upkeep::Inspect { relation, block, .. } => inspect::run(work, (relation, *block), output),
        Upkeep::Verify { .. } => upkeep::verify(work, output),
        Upkeep::Vacuum { table, .. } => upkeep::vacuum(work, table.as_deref(), output),
        Upkeep::Checkpoint { .. } => upkeep::checkpoint(work, output),
        Upkeep::Reindex { table, index, .. } => {
            upkeep::reindex(work, (table, index.as_deref()), output)
        }
        Upkeep::Backup { dir, rate, .. } => copies::backup(work, dir, *rate, output),
    }
}
