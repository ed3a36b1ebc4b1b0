//! Verification of an open database, and of one that is not open.
//!
//! Invariants: the work of others goes on.
//! Does not do: the checks (`crate::verify`).

use std::path::Path;

use crate::db::Database;
use crate::db::info::{Finding, TableInfo, VerifyProgress, VerifyReport};
use crate::error::{Error, Result};
use crate::upkeep::{Options, verify_offline};
use crate::verify;

impl Database {
    /// Checks pages, heaps, indexes and both against each other, while others work. Damage is in
    /// the report, not an error.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_watched(|_| true)
    }

    /// As [`Database::verify`], and can be watched: `go_on` is asked after every 64 pages. The
    /// structure of one table or one index is checked in one go.
    ///
    /// # Errors
    /// `Cancelled` when `go_on` said no.
    pub fn verify_watched(&self, go_on: impl Fn(&VerifyProgress) -> bool) -> Result<VerifyReport> {
        let engine = self.engine();
        engine.check_open()?;
        let pages_in_all = self.pages_to_verify();
        let steps = |pages: u64| {
            let progress = VerifyProgress { pages: pages.min(pages_in_all), pages_in_all };
            match go_on(&progress) {
                true => Ok(()),
                false => Err(Error::Cancelled("the verification, by its caller".into())),
            }
        };
        let steps = verify::Steps::new(&steps);
        let mut report = verify::Report::default();
        verify::online(&engine.verify_parts(&steps), &mut report)?;
        Ok(public(report))
    }

    /// Pages that a verification goes through, those of rows twice. Damage may hide some.
    fn pages_to_verify(&self) -> u64 {
        let blocks = |table: &TableInfo| {
            let indexes = table.indexes.iter().map(|index| u64::from(index.blocks)).sum::<u64>();
            2 * u64::from(table.heap_blocks) + u64::from(table.overflow_blocks) + indexes
        };
        self.tables().unwrap_or_default().iter().map(blocks).sum()
    }

    /// Checks the database at `path`, which is not open, without changing a byte of it: see
    /// [`Options::verify_offline`], also for the errors.
    pub fn verify_offline(path: impl AsRef<Path>) -> Result<VerifyReport> {
        Options::default().verify_offline(path)
    }
}

impl Options {
    /// Checks the database in directory `path`, which is not open, without changing a byte of it,
    /// as it would be after recovery. Uses the memory of [`Options::memory`].
    ///
    /// # Errors
    /// `Locked` when it is open, `NotFound` when there is none, `OutOfMemory` when the log is too
    /// long to be applied in memory. Damage is in the report.
    pub fn verify_offline(mut self, path: impl AsRef<Path>) -> Result<VerifyReport> {
        self.path = path.as_ref().to_path_buf();
        verify_offline::verify_offline(&self).map(public)
    }
}

fn public(report: verify::Report) -> VerifyReport {
    let mut findings = report.findings;
    if let Some(last) = findings.last().filter(|_| report.left_out > 0) {
        let what = format!("and {} more findings, which are not shown", report.left_out);
        findings.push(Finding { what, block: None, ..last.clone() });
    }
    let (pages, rows, entries) = (report.pages, report.rows, report.entries);
    VerifyReport { findings, pages, rows, entries }
}
