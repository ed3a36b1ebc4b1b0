//! Opening a database with the options that every command has.
//!
//! Invariants: a command that only looks never creates a database. `sql` and `serve` create one
//! only if they are told to, so that a mistyped name makes nothing; `load` makes the database as it
//! makes the table.
//! Does not do: keeping it open; every command closes what it opened and reports errors of that.

use std::path::Path;

use rightlink::{Database, Error, Options};

use crate::args::Common;
use crate::failure::{Exit, Failure};

/// What the options of every command say.
pub(crate) fn options(common: &Common) -> Options {
    let options = Database::options().memory(common.memory).direct(common.direct);
    match common.io_method {
        Some(method) => options.method(method),
        None => options,
    }
}

/// Opens the database that is there.
pub(crate) fn existing(common: &Common, path: &Path) -> Result<Database, Failure> {
    options(common).create(false).open(path).map_err(|error| at(path, error))
}

/// Opens the database, made new when there is none.
pub(crate) fn or_create(common: &Common, path: &Path) -> Result<Database, Failure> {
    options(common).create(true).open(path).map_err(|error| at(path, error))
}

/// Opens the database that is there, or makes it if `--create` was given.
pub(crate) fn wanted(common: &Common, path: &Path, create: bool) -> Result<Database, Failure> {
    match options(common).create(create).open(path) {
        Err(error @ Error::NotFound(_)) => Err(at(path, error).and("--create makes a new one")),
        opened => opened.map_err(|error| at(path, error)),
    }
}

/// Names the database in an error of opening it. A limit that is met here is one of the options,
/// not of any data.
pub(crate) fn at(path: &Path, error: Error) -> Failure {
    let options = matches!(error, Error::Limit(_) | Error::OutOfMemory(_));
    let failure = Failure::from(error).about(&path.display().to_string());
    if options { Failure { exit: Exit::Usage, ..failure } } else { failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--memory 100G` on a machine that has less was called bad input data.
    #[test]
    fn a_limit_met_on_opening_is_wrong_usage() {
        let failure = at(Path::new("x.db"), Error::OutOfMemory("for 9 pages".into()));
        assert_eq!(failure.exit, Exit::Usage);
        assert_eq!(failure.message, "x.db: out of memory: for 9 pages");
        assert_eq!(at(Path::new("x.db"), Error::DiskFull("x".into())).exit, Exit::Io);
    }
}
