//! Verification of a database that is not open, without a change to any byte of it.
//!
//! The directory is put below an overlay that keeps writes in memory. There the database is
//! recovered as after a crash, and verified like an open one. So verification sees the database as
//! the next opening would.
//!
//! Invariants: no byte and no modification time of the directory changes. The lock file, if there
//! is one, stays locked meanwhile, so that the database is not opened during the check.
//! Does not do: unlogged tables after a crash, which opening would empty; a log whose redo needs
//! more memory than the budget has beside the pool, which is reported as a limit, not as damage.

use rightlink_aio::{Io, IoErrorKind};
use rightlink_env::Env;

use crate::error::{Error, Result};
use crate::upkeep::open::directory::{self, LockedDirectory};
use crate::upkeep::{Engine, Options, open};
use crate::verify::{self, LogState, NextNumbers, Parts, Report, Steps};
use crate::wal::Control;

/// Checks the database that `options` name.
pub(crate) fn verify_offline(options: &Options) -> Result<Report> {
    let options = Options { create: false, threads: false, offline: true, ..options.clone() };
    let env = open::environment(&options);
    let below = directory::open_io(&env, &options)?;
    open::check_copied(&below, &options)?;
    if below.exists(open::CREATING).map_err(Error::Io)? {
        return Err(Error::NotFound("the creation of the database was cut short".into()));
    }
    if !below.exists(open::CONTROL).map_err(Error::Io)? {
        return Err(Error::NotFound(format!("no database in {}", options.path.display())));
    }
    let io = Io::overlay(&env, &below, &env.budget);
    let result = check(&env, &io, &options);
    result.map_err(|error| out_of_memory(error, &options))
}

fn check(env: &Env, io: &Io, options: &Options) -> Result<Report> {
    let directory = LockedDirectory::lock(env, io, options)?;
    let mut report = Report::default();
    let Some(log) = verify::log(env, io, &mut report)? else {
        verify::unrecovered(io, &mut report)?;
        return Ok(report);
    };
    match open::recover(directory, options) {
        Ok(engine) => check_recovered(&engine, &log, &mut report)?,
        Err(error) => {
            verify::recovery_damage(error, "R1", &mut report)?;
            verify::unrecovered(io, &mut report)?;
        }
    }
    Ok(report)
}

fn check_recovered(engine: &Engine, log: &LogState, report: &mut Report) -> Result<()> {
    let steps = Steps::new(&|_| Ok(()));
    let parts = engine.verify_parts(&steps);
    verify::online(&parts, report)?;
    if !log.control.clean || engine.replayed.records > 0 {
        return Ok(());
    }
    let Control { next_file, next_xid, .. } = log.control;
    let counted = verify::counters(&parts, NextNumbers { next_file, next_xid }, report);
    for result in [counted, verify::orphans(&parts, report)] {
        if let Err(error) = result {
            verify::recovery_damage(error, "X6", report)?;
        }
    }
    Ok(())
}

/// The error for a full overlay, which says nothing about the database.
fn out_of_memory(error: Error, options: &Options) -> Error {
    match error {
        Error::Io(error) if error.kind != IoErrorKind::NoSpace => Error::Io(error),
        Error::DiskFull(_) | Error::Io(_) => Error::OutOfMemory(format!(
            "applying the log in memory needs more than the {} bytes allowed",
            options.memory
        )),
        other => other,
    }
}

impl Engine {
    /// The parts of this database that verification needs.
    pub(crate) fn verify_parts<'a>(&'a self, steps: &'a Steps<'a>) -> Parts<'a> {
        let (env, pool, txns) = (&self.env, &self.pool, &self.txns);
        Parts { steps, env, pool, txns, catalog: &self.catalog, temp: &self.temp }
    }
}
