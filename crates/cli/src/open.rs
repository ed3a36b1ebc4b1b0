//! Opening a database with the options that every command has.
//!
//! Invariants: a command that only looks never creates a database.
//! Does not do: keeping it open; every command closes what it opened and reports errors of that.

use std::path::Path;

use rightlink::{Database, Error, Options};

use crate::args::Common;
use crate::failure::Failure;

fn options(common: &Common) -> Options {
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

/// Names the database in an error of opening it.
pub(crate) fn at(path: &Path, error: Error) -> Failure {
    Failure::from(error).about(&path.display().to_string())
}
