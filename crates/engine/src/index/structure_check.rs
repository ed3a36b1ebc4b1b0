//! A check of an index's structure under way: what all methods share.
//!
//! Invariants: damage becomes a finding; other errors stay errors.
//! Does not do: the checks of a method, but uniqueness (B13).

use crate::config::PAGE_SIZE;
use crate::error::{Error, Result};
use crate::ids::RowId;
use crate::index::am::{HeapOracle, Liveness, VerifyStats};
use crate::page::PageFinding;

/// Findings and figures of a check.
pub(crate) struct StructureCheck<'a> {
    oracle: Option<&'a dyn HeapOracle>,
    report: &'a mut dyn FnMut(PageFinding),
    /// Figures of the pages met so far.
    pub(crate) stats: VerifyStats,
    /// Bytes used on leaves.
    pub(crate) used_bytes: u64,
    /// The last entry of the walk along the leaves, for uniqueness across pages.
    pub(crate) last: Option<(Vec<u8>, RowId)>,
}

impl<'a> StructureCheck<'a> {
    /// Tells `report` what it finds. With `oracle`, keys are unique.
    pub(crate) fn new(
        oracle: Option<&'a dyn HeapOracle>,
        report: &'a mut dyn FnMut(PageFinding),
    ) -> Self {
        let stats = VerifyStats::default();
        StructureCheck { oracle, report, stats, used_bytes: 0, last: None }
    }

    /// Reports a finding.
    pub(crate) fn add(&mut self, block: u32, check: &'static str, what: impl Into<String>) {
        (self.report)(PageFinding::new(block, check, what));
    }

    /// Reports damage; other errors stay errors.
    pub(crate) fn add_damage(&mut self, error: Error, check: &'static str) -> Result<()> {
        let Error::Corruption { block, what, .. } = error else { return Err(error) };
        self.add(block.unwrap_or(0), check, what);
        Ok(())
    }

    /// The value, or `None` if there is damage in its place, which is reported.
    pub(crate) fn sound<T>(&mut self, result: Result<T>, check: &'static str) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.add_damage(error, check).map(|()| None),
        }
    }

    /// Counts entries of a leaf.
    pub(crate) fn count_entries(&mut self, all: usize, dead: usize) {
        self.stats.dead += dead as u64;
        self.stats.live += (all - dead) as u64;
    }

    /// Is there an oracle for [`StructureCheck::check_unique`]?
    pub(crate) fn checks_unique(&self) -> bool {
        self.oracle.is_some()
    }

    /// B13: no two live rows with one key. The entries come in the method's order.
    pub(crate) fn check_unique(&mut self, block: u32, key: &[u8], row: RowId) {
        let Some(oracle) = self.oracle else { return };
        if let Some((last, other)) = &self.last
            && last == key
            && *other != row
        {
            let mut states = [Liveness::Dead; 2];
            oracle.liveness(&[*other, row], &mut states);
            if states == [Liveness::Live; 2] {
                let what = format!("rows {other} and {row} are both live under one key");
                self.add(block, "B13", what);
            }
        }
        self.last = Some((key.to_vec(), row));
    }

    /// The figures of a check that met `levels` levels.
    pub(crate) fn finish(mut self, levels: u32) -> VerifyStats {
        let leaf_bytes = self.stats.leaves as f64 * PAGE_SIZE as f64;
        let entries = (self.stats.live + self.stats.dead) as f64;
        self.stats.levels = levels;
        if leaf_bytes > 0.0 {
            self.stats.leaf_fill = self.used_bytes as f64 / leaf_bytes;
        }
        if entries > 0.0 {
            self.stats.bytes_per_entry = leaf_bytes / entries;
        }
        self.stats
    }
}
