//! `backup` and `restore`: a database copied, and brought back.
//!
//! Invariants: neither command changes what it copies from; a copy that was cut short is marked as
//! unfinished by the engine, and the message says what to do about it.
//! Does not do: copying a database that another process has open and does not serve.

use std::path::Path;

use rightlink::PAGE_SIZE;
use rightlink::{BackupOptions, Error};

use crate::args::Common;
use crate::clock::Stopwatch;
use crate::failure::{Exit, Failure};
use crate::figures::{bytes, duration, plural};
use crate::json::object;
use crate::open;
use crate::output::Output;
use crate::progress::Progress;
use crate::upkeep::looked_at;
use crate::work::Work;

/// Copies the database into `dir`.
pub(crate) fn backup(
    work: &Work<'_>,
    dir: &Path,
    rate: Option<usize>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let to = work.path(dir);
    let clock = Stopwatch::start();
    let options = rate
        .map_or(BackupOptions::new(), |rate| BackupOptions::new().bytes_per_second(rate as u64));
    let mut bar = Progress::of_pages(output);
    let mut ended = None;
    let made = work.db.backup_with(&to, &options, |now| {
        bar.update_pages(now.pages, now.pages_in_all);
        ended = work.go_on().err();
        ended.is_none()
    });
    bar.clear();
    // Why the work was ended says more than that it was.
    let made = made.map_err(|error| ended.unwrap_or(error));
    let done = made.map_err(|error| failed(error, &to, dir))?;
    let page_bytes = done.pages * PAGE_SIZE as u64;
    let json = object([
        ("pages", done.pages.into()),
        ("page_bytes", page_bytes.into()),
        ("log_bytes", done.log_bytes.into()),
    ]);
    let text = format!(
        "{} ({}) copied to {} in {}",
        plural(done.pages, "page"),
        bytes(page_bytes),
        dir.display(),
        duration(clock.elapsed()),
    );
    output.either(&json, text)?;
    Ok(Exit::Done)
}

/// Makes `db` from `dir`.
pub(crate) fn restore(
    common: &Common,
    dir: &Path,
    path: &Path,
    output: &mut Output,
) -> Result<Exit, Failure> {
    output.outlive_reader();
    let clock = Stopwatch::start();
    let restored = open::options(common).restore(dir, path);
    let report = restored.map_err(|error| failed(error, path, path))?;
    let verified = &report.verified;
    let json = object([
        ("bytes", report.bytes.into()),
        ("clean", verified.is_clean().into()),
        ("pages", verified.pages.into()),
        ("rows", verified.rows.into()),
        ("entries", verified.entries.into()),
    ]);
    let text = format!(
        "{} restored to {} and recovered; clean: {}, in {}",
        bytes(report.bytes),
        path.display(),
        looked_at(verified),
        duration(clock.elapsed()),
    );
    output.either(&json, text)?;
    Ok(Exit::Done)
}

/// Adds what to do about the directory, which the user calls `dir`, if a copy was begun there.
fn failed(error: Error, to: &Path, dir: &Path) -> Failure {
    let is_about_arguments = matches!(
        error,
        Error::AlreadyExists(_) | Error::NotFound(_) | Error::Invalid(_) | Error::Locked(_)
    );
    let begun = to.exists() && !is_about_arguments;
    let failure = Failure::from(error);
    if !begun {
        return failure;
    }
    failure.and(format!("what is in {} is unfinished and can be removed", dir.display()))
}
