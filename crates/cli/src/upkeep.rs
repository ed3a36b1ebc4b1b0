//! `verify`, `vacuum`, `reindex` and `checkpoint`.
//!
//! Invariants: damage found ends with its own exit code, after every finding has been printed.
//! Does not do: repair.

use std::cell::RefCell;
use std::path::Path;

use rightlink::{Database, Finding, VacuumOptions, VacuumReport, VerifyReport};
use rightlink_sql::shown_text;

use crate::clock::Stopwatch;
use crate::failure::{Exit, Failure};
use crate::figures::{bytes, duration, plural, plural_of};
use crate::json::{Json, object};
use crate::output::Output;
use crate::progress::Progress;
use crate::work::Work;
use crate::{names, open};

/// Checks everything.
pub(crate) fn verify(work: &Work<'_>, output: &mut Output) -> Result<Exit, Failure> {
    let clock = Stopwatch::start();
    let bar = RefCell::new(Progress::of_pages(output));
    let report = work.db.verify_watched(|now| {
        bar.borrow_mut().update_pages(now.pages, now.pages_in_all);
        work.go_on().is_ok()
    });
    bar.borrow_mut().clear();
    // Why the work was ended says more than that it was.
    work.go_on()?;
    verdict(&report?, clock, output)
}

/// Checks everything of a database that nobody has open.
pub(crate) fn verify_offline(path: &Path, output: &mut Output) -> Result<Exit, Failure> {
    let clock = Stopwatch::start();
    let report = Database::verify_offline(path).map_err(|error| open::at(path, error))?;
    verdict(&report, clock, output)
}

fn verdict(report: &VerifyReport, clock: Stopwatch, output: &mut Output) -> Result<Exit, Failure> {
    for finding in &report.findings {
        output.either(&finding_json(finding), finding_text(finding))?;
    }
    let took = format!("{}, in {}", looked_at(report), duration(clock.elapsed()));
    let (json, verdict) = (report_json(report), report.findings.len() as u64);
    if report.is_clean() {
        output.either(&json, format_args!("clean: {took}"))?;
        return Ok(Exit::Done);
    }
    output.either(&json, format_args!("DAMAGED: {}; {took}", plural(verdict, "finding")))?;
    Ok(Exit::Damage)
}

/// What a verification covered.
pub(crate) fn looked_at(report: &VerifyReport) -> String {
    format!(
        "{}, {}, {} checked",
        plural(report.pages, "page"),
        plural(report.rows, "row version"),
        plural_of(report.entries, "index entry", "index entries"),
    )
}

/// One line that tells a finding.
pub(crate) fn finding_text(finding: &Finding) -> String {
    let block = finding.block.map(|block| format!(" block {block}")).unwrap_or_default();
    format!(
        "{} {} (file {}{block}): {}",
        finding.check,
        shown_text(&finding.relation),
        finding.file,
        shown_text(&finding.what)
    )
}

fn finding_json(finding: &Finding) -> Json {
    object([
        ("check", finding.check.into()),
        ("relation", shown_text(&finding.relation).into()),
        ("file", finding.file.into()),
        ("block", finding.block.into()),
        ("what", finding.what.as_str().into()),
    ])
}

fn report_json(report: &VerifyReport) -> Json {
    object([
        ("clean", report.is_clean().into()),
        ("findings", report.findings.len().into()),
        ("pages", report.pages.into()),
        ("rows", report.rows.into()),
        ("entries", report.entries.into()),
    ])
}

/// Removes dead versions.
pub(crate) fn vacuum(
    work: &Work<'_>,
    table: Option<&str>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let table = table.map(|name| names::table(work.db, name)).transpose()?;
    let table = table.as_ref().map(|table| table.name.as_str());
    let clock = Stopwatch::start();
    let report = work.watched(|watch| {
        work.db.vacuum_with(table, VacuumOptions { watch, ..Default::default() })
    })?;
    output.either(&vacuum_json(&report), vacuum_text(&report))?;
    if !output.json() {
        output.line(format_args!("in {}", duration(clock.elapsed())))?;
    }
    Ok(Exit::Done)
}

fn vacuum_text(report: &VacuumReport) -> String {
    format!(
        "{} scanned, {} and {} removed in {} over the indexes, {} cut, {} freed",
        plural(report.pages_scanned, "page"),
        plural(report.rows_removed, "row version"),
        plural_of(report.entries_removed, "index entry", "index entries"),
        plural_of(report.index_passes, "pass", "passes"),
        plural(report.blocks_cut, "block"),
        plural(report.index_pages_freed, "index page"),
    )
}

fn vacuum_json(report: &VacuumReport) -> Json {
    object([
        ("pages_scanned", report.pages_scanned.into()),
        ("rows_removed", report.rows_removed.into()),
        ("rows_left", report.rows_left.into()),
        ("entries_removed", report.entries_removed.into()),
        ("index_passes", report.index_passes.into()),
        ("blocks_cut", report.blocks_cut.into()),
        ("index_pages_freed", report.index_pages_freed.into()),
        ("overflow_pages_freed", report.overflow_pages_freed.into()),
    ])
}

/// Builds indexes anew.
pub(crate) fn reindex(
    work: &Work<'_>,
    table: &str,
    index: Option<&str>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let db = work.db;
    let before = names::table(db, table)?;
    let index = index.map(|index| names::index(&before, index)).transpose()?;
    let (table, index) = (before.name.as_str(), index.map(|index| index.name.as_str()));
    let clock = Stopwatch::start();
    let built = work.watched(|watch| db.reindex_with(table, index, watch))?;
    let after = db.describe(table)?;
    let size = |table: &rightlink::TableInfo| -> u64 {
        let chosen = table.indexes.iter().filter(|known| index.is_none_or(|i| i == known.name));
        chosen.map(|index| u64::from(index.blocks) * rightlink::PAGE_SIZE as u64).sum()
    };
    let (was, is) = (size(&before), size(&after));
    let json = object([
        ("indexes", built.into()),
        ("bytes_before", was.into()),
        ("bytes_after", is.into()),
    ]);
    let text = format!(
        "{} built anew: {} before, {} now, in {}",
        plural_of(built as u64, "index", "indexes"),
        bytes(was),
        bytes(is),
        duration(clock.elapsed()),
    );
    output.either(&json, text)?;
    Ok(Exit::Done)
}

/// Writes everything back.
pub(crate) fn checkpoint(work: &Work<'_>, output: &mut Output) -> Result<Exit, Failure> {
    let clock = Stopwatch::start();
    work.db.checkpoint()?;
    let took = clock.elapsed();
    let json = object([("checkpoint_ms", (took.as_millis() as u64).into())]);
    output.either(&json, format_args!("checkpoint done in {}", duration(took)))?;
    Ok(Exit::Done)
}
