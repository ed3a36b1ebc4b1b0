//! The directory of a database: its files outside the modules, and errors that name it.
//!
//! Invariants: an error says which directory it is about.
//! Does not do: look at the content of files.

use std::path::Path;

use rightlink_aio::{Io, IoError, IoErrorKind, IoOptions, LockFile};
use rightlink_env::Env;

use crate::error::{Error, Result};
use crate::upkeep::{Options, device};

/// The marker of a database that is being created.
pub(in crate::upkeep) const CREATING: &str = "creating";
/// The control file.
pub(in crate::upkeep) const CONTROL: &str = "control";
/// The file whose lock an open database holds.
pub(super) const LOCK: &str = "lock";
/// The folders of a database.
pub(super) const FOLDERS: [&str; 3] = ["data", "wal", "tmp"];

/// The directory of a database, while this database has its lock.
pub(in crate::upkeep) struct LockedDirectory {
    pub(in crate::upkeep) env: Env,
    pub(in crate::upkeep) io: Io,
    pub(in crate::upkeep) lock: LockFile,
}

impl LockedDirectory {
    /// Takes the lock of the directory.
    pub(in crate::upkeep) fn lock(env: &Env, io: &Io, options: &Options) -> Result<Self> {
        let lock = io.lock(LOCK).map_err(|error| already_open(&options.path, error))?;
        Ok(Self { env: env.clone(), io: io.clone(), lock })
    }
}

/// Opens the directory, and makes it if the options say so.
pub(in crate::upkeep) fn open_io(env: &Env, options: &Options) -> Result<Io> {
    let settings = IoOptions {
        method: options.method,
        direct: options.direct,
        depth: options.depth.unwrap_or(device::MOST_IN_FLIGHT),
        workers: options.workers,
        device: options.device,
    };
    if let Some((_, disk)) = &options.simulation {
        return Io::simulated(env, disk.clone(), settings).map_err(Error::Io);
    }
    let path = &options.path;
    check_path(path)?;
    if options.create {
        Io::create_root(path).map_err(|error| no_directory(path, error))?;
    }
    Io::open(env, path, settings).map_err(|error| no_directory(path, error))
}

/// Refuses an empty path, which some calls take for the working directory and others for nothing.
pub(in crate::upkeep) fn check_path(path: &Path) -> Result<()> {
    match path.as_os_str().is_empty() {
        true => Err(Error::Invalid("the path of the database is empty".into())),
        false => Ok(()),
    }
}

/// The error when `path` cannot be made or opened as the directory of a database.
pub(in crate::upkeep) fn no_directory(path: &Path, error: IoError) -> Error {
    let name = path.display();
    match error.kind {
        IoErrorKind::NotFound => Error::NotFound(format!("no database in {name}")),
        IoErrorKind::NotDirectory if Path::new(&error.file) == path => {
            Error::Invalid(format!("{name} is a file, and not the directory of a database"))
        }
        IoErrorKind::NotDirectory => {
            let file = error.file;
            Error::Invalid(format!("{file} is a file, so there is no directory {name}"))
        }
        _ => Error::Io(error),
    }
}

/// The error when the lock of the database at `path` cannot be taken.
fn already_open(path: &Path, error: IoError) -> Error {
    match error.kind {
        IoErrorKind::Locked => {
            Error::Locked(format!("{} is open already: {error}", path.display()))
        }
        _ => Error::Io(IoError { file: path.join(&error.file).display().to_string(), ..error }),
    }
}
