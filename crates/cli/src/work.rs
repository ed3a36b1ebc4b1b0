//! What commands that look after a database work on: one that this command opens, or one that a
//! server has open, whose process then runs them for a client (`remote`).
//!
//! Does not do: the commands (`upkeep_commands`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use rightlink::{CancelHandle, Database, Error, Watch};
use rightlink_server::Call;

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
