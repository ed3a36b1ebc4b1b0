//! What a cell came to, and its figures for people and machines.
//!
//! `index_pages_*` are those of the index that grew most against one built anew from the final
//! rows; `hot_leaf_*` are means over the first hundred leaves of the key's index and over the
//! samples, one a slice; `hot_leaf_dead_after` is sampled when the load has been over for a while.
//! Policies that ran in turns share the table, and so the figures of its pages.
//!
//! `marks_*`: entries of dead rows that scans met, by what became of them. `partial`: updates with
//! index entries on the same page that left at least one key unchanged; `unchanged_entries`: the
//! entries that those could have spared. `heap_only`, `new_page`: updates without entries, and
//! those that had to leave their page.
//!
//! Invariants: figures of a policy are those of its own slices.
//! Does not do: comparing cells.

use rightlink::Database;

use crate::Failure;
use crate::hot_update::events::RanEvents;
use crate::hot_update::load::Timed;
use crate::hot_update::slices::{self, Slice};
use crate::hot_update::{NAME, TABLE};
use crate::knobs::Cell;
use crate::report::{Column, Field};
use crate::stats::Summary;

/// What a cell came to.
pub(crate) struct Outcome {
    /// One for each policy.
    pub(crate) runs: Vec<PolicyRun>,
    pub(crate) events: RanEvents,
    /// Pages of the index that grew most: before, after, built anew.
    pub(crate) pages: [u32; 3],
    pub(crate) dead_after: f64,
    /// The largest of the indexes whose keys no update changes, against its start.
    pub(crate) fixed: f64,
    /// Rows that were updated at least once.
    pub(crate) rows_updated: u64,
    pub(crate) heap_before: u32,
    pub(crate) heap_after: u32,
}

/// One policy of a cell.
pub(crate) struct PolicyRun {
    pub(crate) policy: &'static str,
    pub(crate) seconds: f64,
    pub(crate) updates: u64,
    pub(crate) slices: Vec<Slice>,
    pub(crate) timed: Timed,
    pub(crate) work: Work,
    /// Live and dead items of the hottest leaves, in each sample.
    pub(crate) live: Vec<f64>,
    pub(crate) dead: Vec<f64>,
    /// Share in use of the emptiest of the hottest leaves, over all samples.
    pub(crate) emptiest: f64,
}

impl PolicyRun {
    /// Nothing yet.
    pub(crate) fn new(policy: &'static str) -> PolicyRun {
        PolicyRun {
            policy,
            seconds: 0.0,
            updates: 0,
            slices: Vec::new(),
            timed: Timed::default(),
            work: Work::default(),
            live: Vec::new(),
            dead: Vec::new(),
            emptiest: 1.0,
        }
    }
}

/// Names of the figures of [`Work`].
const WORK: [&str; 9] = [
    "marks_made",
    "marks_evicted",
    "marks_changed",
    "marks_reused",
    "rows_updated_in_heap",
    "heap_only",
    "new_page",
    "partial",
    "unchanged_entries",
];

/// What the engine counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work([u64; WORK.len()]);

impl Work {
    /// All so far.
    pub(crate) fn of(db: &Database) -> Result<Work, Failure> {
        let tables = db.table_figures()?;
        let table = tables.iter().find(|table| table.name == TABLE).ok_or("the table is there")?;
        let marks = |of: fn(&rightlink::DeadMarks) -> u64| {
            table.indexes.iter().map(|index| of(&index.dead_marks)).sum::<u64>()
        };
        let rows = &table.rows;
        Ok(Work([
            marks(|marks| marks.made),
            marks(|marks| marks.evicted),
            marks(|marks| marks.changed),
            marks(|marks| marks.reused),
            rows.updated,
            rows.heap_only,
            rows.new_page,
            rows.partial,
            rows.unchanged_entries,
        ]))
    }

    /// Both.
    #[must_use]
    pub(crate) fn plus(self, more: Work) -> Work {
        Work(std::array::from_fn(|at| self.0[at] + more.0[at]))
    }

    /// What came since.
    #[must_use]
    pub(crate) fn minus(self, before: Work) -> Work {
        Work(std::array::from_fn(|at| self.0[at] - before.0[at]))
    }

    fn marks_lost(&self) -> u64 {
        self.0[1..4].iter().sum()
    }

    /// Of the updates, those that could have left an index alone.
    fn partial_share(&self) -> f64 {
        self.0[7] as f64 / self.0[4].max(1) as f64
    }

    /// Entries that each of these could have spared.
    fn spared(&self) -> f64 {
        self.0[8] as f64 / self.0[7].max(1) as f64
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The knobs of a cell that tell it from others.
pub(crate) fn title(cell: &Cell) -> Result<String, String> {
    let names = [
        "column",
        "unique",
        "mix",
        "threads",
        "hints",
        "indexes",
        "fillfactor",
        "idle_scan",
        "old_snapshot",
    ];
    let words: Result<Vec<String>, String> = names.iter().map(|name| cell.get(name)).collect();
    Ok(words?.join(" "))
}

impl Outcome {
    /// For machines.
    pub(crate) fn json(&self, cell: &Cell, run: &PolicyRun) -> Result<Vec<Column>, Failure> {
        let slices = Summary::of(slices::speeds(&run.slices));
        let [before, after, rebuilt] = self.pages.map(|pages| Field::Int(pages.into()));
        let (updates, selects) = (&run.timed.updates, &run.timed.selects);
        let tps = run.slices.iter().map(Slice::tps).collect();
        let late = run.slices.iter().map(|slice| slice.timed.all().micros(0.99)).collect();
        let mut columns = vec![
            ("experiment", Field::Text(NAME.into())),
            ("column", Field::Text(cell.get("column")?)),
            ("unique", Field::Flag(cell.get("unique")?)),
            ("mix", Field::Text(cell.get("mix")?)),
            ("threads", Field::Int(cell.get("threads")?)),
            ("logged", Field::Flag(cell.get("logged")?)),
            ("hints", Field::Text(cell.get("hints")?)),
            ("idle_scan", Field::Flag(cell.get("idle_scan")?)),
            ("old_snapshot", Field::Flag(cell.get("old_snapshot")?)),
            ("seconds", Field::Float(run.seconds)),
            ("updates_per_s", Field::Float(run.updates as f64 / run.seconds)),
            ("slice_min", Field::Float(slices.min)),
            ("slice_max", Field::Float(slices.max)),
            ("index_pages_before", before),
            ("index_pages_after", after),
            ("index_pages_rebuilt", rebuilt),
            ("hot_leaf_live", Field::Float(mean(&run.live))),
            ("hot_leaf_dead", Field::Float(mean(&run.dead))),
            ("heap_pages_after", Field::Int(self.heap_after.into())),
            ("rows", Field::Int(cell.get("rows")?)),
            ("slice_median", Field::Float(slices.median)),
            ("hot_leaf_dead_after", Field::Float(self.dead_after)),
            ("heap_pages_before", Field::Int(self.heap_before.into())),
            ("hot_leaf_emptiest", Field::Float(run.emptiest)),
            ("fixed_index_growth", Field::Float(self.fixed)),
            ("rows_updated", Field::Int(self.rows_updated)),
            ("indexes", Field::Int(cell.get("indexes")?)),
            ("fillfactor", Field::Int(cell.get("fillfactor")?)),
            ("in_turns", Field::Flag(self.runs.len() > 1)),
            ("tps", Field::Float((updates.count() + selects.count()) as f64 / run.seconds)),
            ("update_p50_us", Field::Float(updates.micros(0.5))),
            ("update_p99_us", Field::Float(updates.micros(0.99))),
            ("update_max_us", Field::Float(updates.micros(1.0))),
            ("select_p50_us", Field::Float(selects.micros(0.5))),
            ("select_p99_us", Field::Float(selects.micros(0.99))),
            ("select_max_us", Field::Float(selects.micros(1.0))),
            ("slices_at_s", Field::List(run.slices.iter().map(|slice| slice.at_s).collect())),
            ("slices_tps", Field::List(tps)),
            ("slices_p99_us", Field::List(late)),
            ("vacuum_from", Field::Float(self.events.vacuum.from)),
            ("vacuum_to", Field::Float(self.events.vacuum.to)),
            ("scan_from", Field::Float(self.events.scan.from)),
            ("scan_to", Field::Float(self.events.scan.to)),
        ];
        let work = WORK.iter().zip(&run.work.0);
        columns.extend(work.map(|(name, figure)| (*name, Field::Int(*figure))));
        Ok(columns)
    }

    /// For people.
    pub(crate) fn row(&self, cell: &Cell, run: &PolicyRun) -> Result<Vec<Column>, Failure> {
        let slices = Summary::of(slices::speeds(&run.slices));
        let name = |text: String, width: usize| Field::Text(format!("{text:<width$}"));
        let [before, after, rebuilt] = self.pages.map(|pages| Field::Int(pages.into()));
        Ok(vec![
            ("column   ", name(cell.get("column")?, 9)),
            ("unique", Field::Flag(cell.get("unique")?)),
            ("mix    ", name(cell.get("mix")?, 7)),
            ("threads", Field::Int(cell.get("threads")?)),
            ("hints    ", name(cell.get("hints")?, 9)),
            ("indexes", Field::Int(cell.get("indexes")?)),
            ("fill", Field::Int(cell.get("fillfactor")?)),
            ("updates/s", Field::Float(run.updates as f64 / run.seconds)),
            ("slowest", Field::Float(slices.min)),
            ("upd p99 us", Field::Float(run.timed.updates.micros(0.99))),
            ("sel p99 us", Field::Float(run.timed.selects.micros(0.99))),
            ("marks", Field::Int(run.work.0[0])),
            ("lost", Field::Int(run.work.marks_lost())),
            ("partial", Field::Float(run.work.partial_share())),
            ("spared", Field::Float(run.work.spared())),
            ("before", before),
            ("after", after),
            ("anew", rebuilt),
            ("live/leaf", Field::Float(mean(&run.live))),
            ("dead/leaf", Field::Float(mean(&run.dead))),
            ("dead later", Field::Float(self.dead_after)),
            ("heap before", Field::Int(self.heap_before.into())),
            ("heap after", Field::Int(self.heap_after.into())),
        ])
    }

    /// The targets of one cell.
    pub(crate) fn verdicts(&self, cell: &Cell, run: &PolicyRun) -> Result<Vec<String>, Failure> {
        let at_most = |what: &str, figure, limit| verdict(what, figure, figure <= limit, limit);
        let at_least = |what: &str, figure, limit| verdict(what, figure, figure >= limit, limit);
        let [_, after, anew] = self.pages.map(f64::from);
        let slices = Summary::of(slices::speeds(&run.slices));
        let share = |dead: f64| dead / (mean(&run.live) + dead).max(1e-9);
        let mut lines = vec![
            at_most("largest index against one built anew", after / anew, 1.35),
            at_most("indexes with fixed keys against their start", self.fixed, 1.2),
            at_least("slowest slice of the median", slices.min / slices.median.max(1e-9), 0.8),
            at_most("dead items on the hottest leaves", share(mean(&run.dead)), 0.5),
            at_most("the same after the load", share(self.dead_after), 0.1),
            at_least("share in use of the emptiest hot leaf", run.emptiest, 0.25),
        ];
        lines.extend(slices::slowest(&run.slices));
        if cell.get("old_snapshot")? {
            let row = f64::from(self.heap_before) / cell.get::<u64>("rows")? as f64;
            let grown = f64::from(self.heap_after.saturating_sub(self.heap_before));
            let updated = self.rows_updated as f64 * row;
            let what = "growth of the heap against the rows that were updated";
            lines.push(at_most(what, grown / updated.max(1.0), 1.5));
        }
        Ok(lines)
    }
}

/// A target, its figure, and whether it is kept.
pub(crate) fn verdict(what: &str, figure: f64, kept: bool, limit: f64) -> String {
    let kept = if kept { "kept" } else { "MISSED" };
    format!("  {what}: {figure:.2} (limit {limit}): {kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_was_counted_in_between() {
        let before = Work([1, 0, 0, 0, 10, 5, 0, 0, 0]);
        let after = Work([9, 1, 2, 3, 30, 5, 4, 16, 32]);
        let work = after.minus(before).plus(Work::default());
        assert_eq!((work.marks_lost(), work.partial_share(), work.spared()), (6, 0.8, 2.0));
    }
}
