//! EXPLAIN as text.
//!
//! Invariants: the first line has the cost of the whole in parentheses, unless costs are off.
//! Does not do: deciding what is told about a node (`tree`).

use super::tree::{Entry, Told};
use super::{EachTime, Pages, Run};
use crate::expr::probe::Figures;
use crate::plan::node::Estimate;

/// The lines of a plan.
pub(super) fn lines(entry: &Entry, run: &Run<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    print(entry, 0, run, &mut lines);
    if run.shows_summary() {
        let millis = |time: std::time::Duration| time.as_secs_f64() * 1_000.0;
        lines.push(format!("Planning Time: {:.3} ms", millis(run.planning)));
        if let Some(execution) = run.execution {
            lines.push(format!("Execution Time: {:.3} ms", millis(execution)));
        }
    }
    lines
}

fn print(entry: &Entry, depth: usize, run: &Run<'_>, lines: &mut Vec<String>) {
    let indent = if depth == 0 { String::new() } else { " ".repeat(depth * 6 - 4) };
    let arrow = if depth == 0 { "" } else { "->  " };
    let Estimate { startup, total, rows, width } = entry.estimate;
    let cost = match run.shows_costs() {
        true => format!("  (cost={startup:.2}..{total:.2} rows={rows:.0} width={width})"),
        false => String::new(),
    };
    let figures = run.figures(entry);
    let actual = match (run.probe, &figures) {
        (None, _) => String::new(),
        (Some(_), None) => " (never executed)".to_owned(),
        (Some(_), Some(figures)) => actual(figures, run),
    };
    lines.push(format!("{indent}{arrow}{}{cost}{actual}", entry.title));
    let inner = " ".repeat(depth * 6 + 2);
    for detail in &entry.details {
        let value = match &detail.value {
            Told::Text(text) => text.clone(),
            Told::List(values) => values.join(", "),
            Told::Sets(sets) => {
                lines.extend(sets.iter().map(|keys| match keys.is_empty() {
                    true => format!("{inner}Group Key: ()"),
                    false => format!("{inner}Hash Key: {}", keys.join(", ")),
                }));
                continue;
            }
        };
        lines.push(format!("{inner}{}: {value}", detail.name));
        if let Some(Figures { removed: removed @ 1.., .. }) = &figures
            && detail.name == "Filter"
        {
            lines.push(format!("{inner}Rows Removed by Filter: {removed}"));
        }
    }
    let measured = measured(entry, figures.as_ref(), run).into_iter();
    lines.extend(measured.map(|line| format!("{inner}{line}")));
    for below in &entry.below {
        if let Some(title) = &below.title {
            lines.push(format!("{inner}{title}"));
        }
        print(&below.entry, depth + 1, run, lines);
    }
}

/// What a node did, behind what it was thought to cost.
fn actual(figures: &Figures, run: &Run<'_>) -> String {
    let EachTime { first_ms, total_ms, rows } = EachTime::of(figures);
    let loops = figures.loops.max(1);
    match run.shows_times() {
        true => {
            format!(" (actual time={first_ms:.3}..{total_ms:.3} rows={rows:.0} loops={loops})")
        }
        false => format!(" (actual rows={rows:.0} loops={loops})"),
    }
}

/// Pages, and what reading ahead did.
fn measured(entry: &Entry, figures: Option<&Figures>, run: &Run<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if figures.is_some_and(|figures| figures.spilled) && entry.kind != "Hash" {
        lines.push("Temporary Files: used".to_owned());
    }
    if !run.options.buffers || run.probe.is_none() {
        return lines;
    }
    if let Some(Pages { hit, read }) = Pages::of(entry, run) {
        let mut buffers = String::from("Buffers: shared");
        if hit > 0 || read == 0 {
            buffers.push_str(&format!(" hit={hit}"));
        }
        if read > 0 {
            buffers.push_str(&format!(" read={read}"));
        }
        lines.push(buffers);
    }
    if let Some(reads) = figures.and_then(|figures| figures.reads).filter(|_| entry.kind != "Hash")
    {
        lines.push(format!(
            "Prefetch: distance={:.3} reads={} joined={} wasted={} waits={}",
            reads.mean_distance(),
            reads.reads,
            reads.joined,
            reads.wasted,
            reads.waits
        ));
    }
    lines
}
