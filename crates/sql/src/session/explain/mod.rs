//! EXPLAIN: plans as text and as JSON, in PostgreSQL's shape.
//!
//! One walk makes a tree of entries of the plan (`tree`), which `text` and `json` print with what
//! the nodes did.
//!
//! Invariants: both formats say the same. Does not do: running the statement (`utility`).

mod json;
mod text;
mod tree;

use std::time::Duration;

use rightlink::StreamStats;

use crate::error::Result;
use crate::expr::probe::{Figures, Probe};
use crate::parse::explain::{ExplainOptions, Format};
use crate::plan::{Column, Plan};
use crate::types::{Datum, SqlType};
use tree::Entry;

/// What is shown of a statement beside its plan.
pub(super) struct Run<'p> {
    pub(super) options: ExplainOptions,
    /// What the nodes did, if they ran.
    pub(super) probe: Option<&'p Probe>,
    pub(super) planning: Duration,
    pub(super) execution: Option<Duration>,
}

/// A plan, in rows of one column.
pub(super) fn show(plan: &Plan, run: &Run<'_>) -> Result<Vec<Datum>> {
    let entry = tree::tree(plan);
    match run.options.format {
        Format::Text => Ok(text::lines(&entry, run).into_iter().map(Datum::Text).collect()),
        Format::Json => Ok(vec![Datum::Json(json::document(&entry, run)?)]),
    }
}

impl ExplainOptions {
    /// The column of what is shown.
    pub(super) fn column(self) -> Column {
        let ty = match self.format {
            Format::Text => SqlType::Text,
            Format::Json => SqlType::Json,
        };
        Column::new("QUERY PLAN", ty)
    }
}

impl Run<'_> {
    /// The figures of a node, `None` if it never ran.
    fn figures(&self, entry: &Entry) -> Option<Figures> {
        self.probe?.figures(entry.number)
    }

    fn shows_costs(&self) -> bool {
        self.options.costs.unwrap_or(true)
    }

    fn shows_times(&self) -> bool {
        self.options.timing.unwrap_or(true)
    }

    fn shows_summary(&self) -> bool {
        self.options.summary.unwrap_or(self.options.analyze)
    }
}

/// Figures of one of the times that a node ran, on the average.
struct EachTime {
    first_ms: f64,
    total_ms: f64,
    rows: f64,
}

impl EachTime {
    fn of(figures: &Figures) -> EachTime {
        let loops = figures.loops.max(1) as f64;
        let millis = |time: Duration| time.as_secs_f64() * 1_000.0 / loops;
        EachTime {
            first_ms: millis(figures.first),
            total_ms: millis(figures.total),
            rows: figures.rows as f64 / loops,
        }
    }
}

/// Pages that a node went to, those of all nodes below included. These are pages that scans went to
/// in order of need; inner pages of indexes are not counted.
struct Pages {
    hit: u64,
    read: u64,
}

impl Pages {
    fn of(entry: &Entry, run: &Run<'_>) -> Option<Pages> {
        let own =
            run.figures(entry).and_then(|figures| figures.reads).map(|reads| Pages::made(&reads));
        // What hashes rows has no figures of its own.
        let own = if entry.kind == "Hash" { None } else { own };
        let below = entry.below.iter().filter_map(|below| Pages::of(&below.entry, run));
        own.into_iter()
            .chain(below)
            .reduce(|a, b| Pages { hit: a.hit + b.hit, read: a.read + b.read })
    }

    fn made(reads: &StreamStats) -> Pages {
        let read = reads.reads + reads.joined;
        Pages { hit: (reads.delivered + reads.wasted).saturating_sub(read), read }
    }
}
