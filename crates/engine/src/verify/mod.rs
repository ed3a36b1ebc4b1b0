//! Checks of a whole database: heaps, indexes, catalog, files, log.
//!
//! | file | checks |
//! |---|---|
//! | `pages` | P1 kind, version; P2 checksum; P3 bounds; P5 zero pages; P6 LSN; P7 reserved bytes |
//! | `status` | T2 T3: the commit status of transactions (opening refuses a bad meta page: R1) |
//! | `tables` | X5 a file has one owner; X6 catalog, files and sizes; X7 counters; X8 sequences |
//! | `cross` | H2 H12 rows decode; H11 long values; X1 to X4 entries, X9 data; B13 unique |
//! | `log` | W1 to W5 log and control file (offline); P2 of files that cannot be recovered |
//! | `heap/verify/`, `index/btree/verify/` | H0 to H10, B1 to B16, P3, P4 |
//!
//! Invariants: damage becomes a finding, never an error or a panic, and the check goes on. Changes
//! by others are never reported. Findings about an index that was replaced meanwhile are dropped,
//! and the index in its place is checked. Memory is that of the sorts, taken from the budget, and
//! of at most [`MAX_FINDINGS`] findings.
//! Does not do: repair. Two names are missing above: W4 is P6, W6 (a log replayed twice) is a test.

mod cross;
mod log;
mod pages;
mod status;
mod tables;

use std::cell::Cell;

use rightlink_env::Env;
use rightlink_env::points::hit;
use rightlink_env::sync::Arc;

use crate::buffer::BufferPool;
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::heap::HARMLESS_CHECK;
use crate::ids::{FileId, ObjectId};
use crate::page::PageFinding;
use crate::sort::TempFiles;
use crate::table::{Table, TableIndex};
use crate::txn::TxnManager;

pub(crate) use log::{LogState, log, unrecovered};
pub(crate) use tables::{NextNumbers, counters, orphans};

/// Findings kept; further ones are counted.
pub(crate) const MAX_FINDINGS: usize = 1000;

/// Damage that a verification found.
///
/// ```
/// use rightlink::{Database, Finding};
/// # fn main() -> rightlink::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path();
/// # Database::open(path)?.close()?;
/// let report = Database::verify_offline(path)?;
/// for Finding { check, relation, block, what, .. } in &report.findings {
///     println!("{relation}, block {block:?}: {what} ({check})");
/// }
/// assert!(report.findings.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the check (`H6`, `B4`, `X2`, ...).
    pub check: &'static str,
    /// Name of the table or index that the file belongs to, or else the name of the file.
    pub relation: String,
    /// Number of the file.
    pub file: u32,
    /// Block in the file. `None`: the damage is not in one block.
    pub block: Option<u32>,
    /// Description of the damage, for people.
    pub what: String,
}

/// Findings, and how much was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Damage.
    pub findings: Vec<Finding>,
    /// Findings beyond [`MAX_FINDINGS`].
    pub left_out: u64,
    /// Pages read.
    pub pages: u64,
    /// Row versions checked.
    pub rows: u64,
    /// Index entries checked.
    pub entries: u64,
}

impl Report {
    /// Keeps `finding`, or counts it when there are many.
    pub(crate) fn add(&mut self, finding: Finding) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        } else {
            self.left_out += 1;
        }
    }

    /// Adds what `other` has.
    fn absorb(&mut self, other: Report) {
        let Report { findings, left_out, pages, rows, entries } = other;
        findings.into_iter().for_each(|finding| self.add(finding));
        self.left_out += left_out;
        self.pages += pages;
        self.rows += rows;
        self.entries += entries;
    }
}

/// An index that is being checked, and what was found about it alone.
struct IndexCheck<'a> {
    index: &'a Arc<TableIndex>,
    report: Report,
}

impl<'a> IndexCheck<'a> {
    fn new(index: &'a Arc<TableIndex>) -> Self {
        IndexCheck { index, report: Report::default() }
    }

    fn place(&self) -> RelationFile<'a> {
        RelationFile { relation: &self.index.def().name, file: self.index.def().file }
    }
}

/// Progress of a check, reported every [`Steps::EACH`] pages.
pub(crate) struct Steps<'a> {
    done: Cell<u64>,
    go_on: &'a dyn Fn(u64) -> Result<()>,
}

impl<'a> Steps<'a> {
    const EACH: u64 = 64;

    /// `go_on` gets the number of pages checked so far; an error ends the check and is its result.
    pub(crate) fn new(go_on: &'a dyn Fn(u64) -> Result<()>) -> Self {
        Steps { done: Cell::new(0), go_on }
    }

    /// One more page was checked.
    fn page(&self) -> Result<()> {
        let done = self.done.get() + 1;
        self.done.set(done);
        if done.is_multiple_of(Steps::EACH) { (self.go_on)(done) } else { Ok(()) }
    }
}

/// Parts of an open database.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    /// Progress of the check.
    pub steps: &'a Steps<'a>,
    /// Budget and logger.
    pub env: &'a Env,
    /// Pages.
    pub pool: &'a Arc<BufferPool>,
    /// Transactions.
    pub txns: &'a Arc<TxnManager>,
    /// Definitions.
    pub catalog: &'a Catalog,
    /// Where sorts spill to.
    pub temp: &'a Arc<TempFiles>,
}

/// A relation and its file, as findings name them.
#[derive(Clone, Copy)]
pub(crate) struct RelationFile<'a> {
    pub(crate) relation: &'a str,
    pub(crate) file: FileId,
}

impl RelationFile<'_> {
    pub(crate) fn finding(
        &self,
        check: &'static str,
        block: Option<u32>,
        what: impl Into<String>,
    ) -> Finding {
        let (relation, file) = (self.relation.to_owned(), self.file.0);
        Finding { check, relation, file, block, what: what.into() }
    }
}

/// Checks an open database, while others work.
pub(crate) fn online(parts: &Parts<'_>, report: &mut Report) -> Result<()> {
    let whole = RelationFile { relation: "status", file: crate::txn::STATUS_FILE };
    record_damage(whole, "T2", status::check(parts, report), report)?;
    let catalog = parts.catalog.table();
    let replaced = table(parts, catalog, report)?;
    assert!(replaced.is_empty(), "the catalog's own indexes are not built anew");
    let whole = RelationFile { relation: "catalog", file: catalog.def().heap };
    let checked = tables::all(parts, report);
    record_damage(whole, "X6", checked, report)
}

/// Checks a table and its indexes. The caller holds the table's access lock. Returns the indexes
/// that were replaced meanwhile: nothing is reported about them.
pub(crate) fn table(
    parts: &Parts<'_>,
    table: &Table,
    report: &mut Report,
) -> Result<Vec<ObjectId>> {
    pages::table(parts, table, report)?;
    tables::sizes(parts, table, report)?;
    heap(table, report)?;
    overflow(table, report)?;
    indexes(parts, table, table.indexes().iter().map(IndexCheck::new).collect(), report)
}

/// Checks indexes of `table`, and their rows on the way. Returns those that were replaced.
fn indexes(
    parts: &Parts<'_>,
    table: &Table,
    mut checked: Vec<IndexCheck<'_>>,
    report: &mut Report,
) -> Result<Vec<ObjectId>> {
    for of in &mut checked {
        let role = pages::Role::Index(of.index.def().method);
        pages::file(parts, of.place(), role, &|| 1, &mut of.report)?;
        index(of.index, &mut of.report)?;
    }
    hit("verify.structure-checked");
    cross::check(parts, table, &mut checked, report)?;
    // An index is marked as replaced before writers leave it out.
    let (kept, replaced): (Vec<_>, Vec<_>) =
        checked.into_iter().partition(|of| of.index.is_in_place());
    let id = |of: &IndexCheck<'_>| of.index.def().id;
    // An index that is being rebuilt is there twice.
    let checked: Vec<_> = kept.iter().map(id).collect();
    kept.into_iter().for_each(|of| report.absorb(of.report));
    Ok(replaced.iter().map(id).filter(|id| !checked.contains(id)).collect())
}

/// Checks indexes of `table` that have taken the places of those that were checked before. Returns
/// those of them that were replaced again.
fn replacements(
    parts: &Parts<'_>,
    table: &Table,
    wanted: &[ObjectId],
    report: &mut Report,
) -> Result<Vec<ObjectId>> {
    let again = table.indexes().iter().filter(|index| wanted.contains(&index.def().id));
    // Findings about the rows were reported before.
    let mut rows = Report::default();
    let replaced = indexes(parts, table, again.map(IndexCheck::new).collect(), &mut rows)?;
    let of_table = |finding: &Finding| finding.relation == table.def().name;
    rows.findings.retain(|finding| !of_table(finding));
    report.absorb(rows);
    Ok(replaced)
}

/// Checks the structure of an index.
fn index(index: &TableIndex, report: &mut Report) -> Result<()> {
    let place = RelationFile { relation: &index.def().name, file: index.def().file };
    let mut found = Vec::new();
    let stats = index.method().verify(None, &mut |finding| {
        if found.len() < MAX_FINDINGS {
            found.push(finding);
        }
    });
    for PageFinding { block, check, what } in found {
        report.add(place.finding(check, Some(block), what));
    }
    match stats {
        Ok(stats) => {
            report.pages += stats.leaves + stats.inner + stats.free;
            report.entries += stats.live + stats.dead;
            Ok(())
        }
        Err(error) => record_damage(place, "B0", Err(error), report),
    }
}

fn heap(table: &Table, report: &mut Report) -> Result<()> {
    let place = RelationFile { relation: &table.def().name, file: table.def().heap };
    let stats = table.heap().verify(&mut |PageFinding { block, check, what }| {
        if check != HARMLESS_CHECK {
            report.add(place.finding(check, Some(block), what));
        }
    });
    match stats {
        Ok(stats) => {
            report.pages += stats.pages;
            report.rows += stats.versions;
            Ok(())
        }
        Err(error) => record_damage(place, "H0", Err(error), report),
    }
}

/// Checks the map of the overflow pages against them; chains are checked with their rows.
fn overflow(table: &Table, report: &mut Report) -> Result<()> {
    let Some(store) = table.overflow() else { return Ok(()) };
    let place = RelationFile { relation: &table.def().name, file: store.file() };
    let looked = store.orphans(&mut |block, what| {
        report.add(place.finding("H11", Some(block), what));
    });
    record_damage(place, "H11", looked, report)
}

/// Reports damage that ended a check early; other errors end the whole run.
pub(crate) fn record_damage(
    place: RelationFile<'_>,
    check: &'static str,
    result: Result<()>,
    report: &mut Report,
) -> Result<()> {
    match result {
        Err(Error::Corruption { block, what, .. }) => {
            report.add(place.finding(check, block, what));
            Ok(())
        }
        result => result,
    }
}

/// As [`record_damage`], for damage outside the pages of a relation: the error names its own file.
pub(crate) fn recovery_damage(
    error: Error,
    check: &'static str,
    report: &mut Report,
) -> Result<()> {
    let Error::Corruption { file, block, what, .. } = error else { return Err(error) };
    let number = file.rsplit(['/', ' ']).next().unwrap_or_default();
    let number = u32::from_str_radix(number, 16).unwrap_or_default();
    report.add(Finding { check, relation: file, file: number, block, what });
    Ok(())
}
