//! Proof that heaps and indexes are what they claim to be.
//!
//! Invariants: damage becomes a finding, never an error or a panic, and the check goes on; work
//! that others do meanwhile is never reported.
//! Does not do: repair.

use crate::error::{Error, Result};
use crate::table::Table;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the check.
    pub check: &'static str,
    /// Table or index.
    pub relation: String,
    /// File number.
    pub file: u32,
    /// Block.
    pub block: Option<u32>,
    /// What it means.
    pub what: String,
}

/// What was looked at and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Damage.
    pub findings: Vec<Finding>,
    /// Pages read.
    pub pages: u64,
    /// Row versions checked.
    pub rows: u64,
    /// Index entries checked.
    pub entries: u64,
}

/// Checks a table and its indexes, while others work. The caller holds the table's access lock.
pub fn table(table: &Table, report: &mut Report) -> Result<()> {
    heap(table, report)?;
    for index in table.indexes() {
        let (relation, file) = (&index.def().name, index.def().file.0);
        let mut found = Vec::new();
        let stats = index.method().verify(None, &mut |finding| found.push(finding));
        report.findings.extend(found.into_iter().map(|finding| Finding {
            check: finding.check,
            relation: relation.clone(),
            file,
            block: Some(finding.page.block.0),
            what: finding.what,
        }));
        match stats {
            Ok(stats) => {
                report.pages += stats.leaves + stats.inner + stats.free;
                report.entries += stats.live + stats.dead;
            }
            Err(error) => damaged(error, "B0", (relation, file), report)?,
        }
    }
    Ok(())
}

fn heap(table: &Table, report: &mut Report) -> Result<()> {
    let (relation, file) = (&table.def().name, table.def().heap.0);
    let mut found = Vec::new();
    let stats = table.heap().verify(&mut |finding| found.push(finding));
    report.findings.extend(found.into_iter().filter(|finding| !finding.harmless).map(|finding| {
        let slot = finding.slot.map_or(String::new(), |slot| format!("slot {slot}: "));
        let (block, what) = (Some(finding.block.0), format!("{slot}{}", finding.what));
        Finding { check: finding.check, relation: relation.clone(), file, block, what }
    }));
    match stats {
        Ok(stats) => {
            report.pages += stats.pages;
            report.rows += stats.versions;
            Ok(())
        }
        Err(error) => damaged(error, "H0", (relation, file), report),
    }
}

/// Damage that ended a check early is a finding, too; other errors end the whole run.
pub fn damaged(
    error: Error,
    check: &'static str,
    (relation, file): (&str, u32),
    report: &mut Report,
) -> Result<()> {
    let Error::Corruption { block, what, .. } = error else { return Err(error) };
    report.findings.push(Finding { check, relation: relation.to_owned(), file, block, what });
    Ok(())
}
