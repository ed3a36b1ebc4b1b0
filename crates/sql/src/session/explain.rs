//! Plans as text, in PostgreSQL's shape.
//!
//! Invariants: the first line has the cost of the whole in parentheses, unless costs are off.
//! Does not do: running the statement (`utility`).

use crate::expr::Expr;
use crate::expr::deparse;
use crate::expr::probe::{Figures, Probe, Stage};
use crate::parse::utility::ExplainOptions;
use crate::plan::path::{self, Estimate, Path};
use crate::plan::{Distinct, Plan, Select, Source, TableScan};
use crate::schemas;

/// A node of the tree: its line, its cost, details, and what is below.
struct Node {
    name: String,
    estimate: Estimate,
    details: Vec<String>,
    below: Option<Box<Node>>,
    /// Where its figures stand.
    at: (usize, Stage),
}

impl Node {
    fn over(name: impl Into<String>, estimate: Estimate, below: Option<Node>) -> Node {
        let below = below.map(Box::new);
        let at = (0, Stage::Source);
        Node { name: name.into(), estimate, details: Vec::new(), below, at }
    }

    fn at(mut self, depth: usize, stage: Stage) -> Node {
        self.at = (depth, stage);
        self
    }
}

/// The lines of a plan.
pub(super) fn show(plan: &Plan, options: ExplainOptions, probe: Option<&Probe>) -> Vec<String> {
    let node = match plan {
        Plan::Select(select) => of_select(select, 0),
        Plan::Insert(insert) => {
            let below = of_select(&insert.source, 0);
            let estimate = Estimate { rows: 0.0, width: 0, ..below.estimate };
            let name = format!("Insert on {}", insert.table.bare_name());
            Node::over(name, estimate, Some(below)).at(0, Stage::Write)
        }
        Plan::Change(change) => {
            let mut below = of_scan(&change.scan);
            if let Some(cursor) = &change.current {
                below.details =
                    vec![format!("TID Cond: CURRENT OF {}", deparse::identifier(cursor))];
            }
            let verb = if change.assignments.is_some() { "Update" } else { "Delete" };
            let estimate = Estimate { rows: 0.0, width: 0, ..below.estimate };
            let name = format!("{verb} on {}", relation(&change.scan));
            Node::over(name, estimate, Some(below)).at(0, Stage::Write)
        }
    };
    let mut lines = Vec::new();
    print(&node, 0, (options, probe), &mut lines);
    lines
}

fn print(
    node: &Node,
    depth: usize,
    (options, probe): (ExplainOptions, Option<&Probe>),
    lines: &mut Vec<String>,
) {
    let indent = if depth == 0 { String::new() } else { " ".repeat(depth * 6 - 4) };
    let arrow = if depth == 0 { "" } else { "->  " };
    let Estimate { startup, total, rows, width } = node.estimate;
    let cost = match options.costs.unwrap_or(true) {
        true => format!("  (cost={startup:.2}..{total:.2} rows={rows:.0} width={width})"),
        false => String::new(),
    };
    let figures = probe.map(|probe| probe.figures(node.at));
    let actual = figures.as_ref().map_or(String::new(), |figures| actual(figures, options));
    lines.push(format!("{indent}{arrow}{}{cost}{actual}", node.name));
    let inner = " ".repeat(depth * 6 + 2);
    lines.extend(node.details.iter().map(|detail| format!("{inner}{detail}")));
    if let Some(Some(figures)) = &figures {
        let filtered = node.details.iter().any(|detail| detail.starts_with("Filter: "));
        let details = measured(figures, filtered, options);
        lines.extend(details.into_iter().map(|detail| format!("{inner}{detail}")));
    }
    if let Some(below) = &node.below {
        print(below, depth + 1, (options, probe), lines);
    }
}

/// What a node did, behind what it was thought to cost.
fn actual(figures: &Option<Figures>, options: ExplainOptions) -> String {
    let Some(figures) = figures else { return " (never executed)".to_owned() };
    let rows = figures.rows;
    if options.timing == Some(false) {
        return format!(" (actual rows={rows} loops=1)");
    }
    let millis = |time: std::time::Duration| time.as_secs_f64() * 1_000.0;
    let (first, total) = (millis(figures.first), millis(figures.total));
    format!(" (actual time={first:.3}..{total:.3} rows={rows} loops=1)")
}

/// Rows left out, pages, and what reading ahead did. Pages are those that scans went to in order of
/// need; the inner pages of indexes are not counted.
fn measured(figures: &Figures, filtered: bool, options: ExplainOptions) -> Vec<String> {
    let mut lines = Vec::new();
    if filtered {
        lines.push(format!("Rows Removed by Filter: {}", figures.removed));
    }
    let Some(reads) = figures.reads.filter(|_| options.buffers) else { return lines };
    let read = reads.reads + reads.joined;
    let hit = (reads.delivered + reads.wasted).saturating_sub(read);
    let mut buffers = String::from("Buffers: shared");
    if hit > 0 || read == 0 {
        buffers.push_str(&format!(" hit={hit}"));
    }
    if read > 0 {
        buffers.push_str(&format!(" read={read}"));
    }
    lines.push(buffers);
    lines.push(format!(
        "Prefetch: distance={:.3} reads={} joined={} wasted={} waits={}",
        reads.mean_distance(),
        reads.reads,
        reads.joined,
        reads.wasted,
        reads.waits
    ));
    lines
}

fn relation(scan: &TableScan) -> String {
    let name = deparse::identifier(scan.table.bare_name());
    if scan.alias == scan.table.bare_name() {
        return name;
    }
    format!("{name} {}", deparse::identifier(&scan.alias))
}

fn names(scan: &TableScan) -> Vec<String> {
    let columns = &scan.table.info.columns;
    let mut names: Vec<String> = scan.columns.iter().map(|at| columns[*at].name.clone()).collect();
    names.push("ctid".to_owned());
    names
}

fn of_scan(scan: &TableScan) -> Node {
    let relation = relation(scan);
    let names = names(scan);
    let mut details = Vec::new();
    let name = match &scan.path {
        Path::Sequential => format!("Seq Scan on {relation}"),
        Path::Tid(place) => {
            details.push(format!("TID Cond: (ctid = {})", deparse::show(place, &names)));
            format!("Tid Scan on {relation}")
        }
        Path::Index(path) => {
            if !path.conditions.is_empty() {
                details.push(format!("Index Cond: {}", conditions(&path.conditions, &names)));
            }
            let only = if path.covers && !scan.with_tid { " Only" } else { "" };
            let backward = if path.backward { " Backward" } else { "" };
            let index = deparse::identifier(schemas::bare(&path.index.name));
            format!("Index{only} Scan{backward} using {index} on {relation}")
        }
    };
    if let Some(filter) = &scan.filter {
        details.push(format!("Filter: {}", deparse::show(filter, &names)));
    }
    Node { details, ..Node::over(name, path::estimate(scan), None) }
}

fn conditions(list: &[Expr], names: &[String]) -> String {
    match list {
        [one] => deparse::show(one, names),
        _ => deparse::show(&Expr::And(list.to_vec()), names),
    }
}

fn fixed(rows: f64, width: usize) -> Estimate {
    Estimate { startup: 0.0, total: rows * 0.0125, rows, width }
}

fn of_source(select: &Select, depth: usize) -> Node {
    let width: usize =
        select.columns.iter().map(|c| usize::try_from(c.ty.fixed_len()).unwrap_or(32)).sum();
    match &select.source {
        Source::Table(scan) => of_scan(scan),
        Source::Nothing => {
            Node::over("Result", Estimate { total: 0.01, ..fixed(1.0, width) }, None)
        }
        Source::Values(rows) if rows.len() == 1 => {
            Node::over("Result", Estimate { total: 0.01, ..fixed(1.0, width) }, None)
        }
        Source::Values(rows) => {
            Node::over("Values Scan on \"*VALUES*\"", fixed(rows.len() as f64, width), None)
        }
        Source::Series(..) => {
            Node::over("Function Scan on generate_series", fixed(1_000.0, 8), None)
        }
        Source::View(view, _) => {
            let what = if view.args.is_empty() { "Seq Scan" } else { "Function Scan" };
            Node::over(format!("{what} on {}", view.name), fixed(100.0, width), None)
        }
        Source::Query(query) => of_select(query, depth + 1),
    }
}

fn of_select(select: &Select, depth: usize) -> Node {
    let mut node = of_source(select, depth);
    if !matches!(select.source, Source::Query(_)) {
        node = node.at(depth, Stage::Source);
    }
    if let Some(filter) = &select.filter {
        node.details.push(format!("Filter: {}", deparse::show(filter, &[])));
    }
    if select.locks.is_some() {
        node = Node::over("LockRows", node.estimate, Some(node)).at(depth, Stage::Write);
    }
    if let Some(group) = &select.group {
        let below = node.estimate;
        let rows = if group.keys.is_empty() { 1.0 } else { (below.rows / 5.0).clamp(1.0, 200.0) };
        let total = below.total + below.rows * 0.0025 * group.aggregates.len().max(1) as f64;
        let estimate =
            Estimate { startup: total, total: total + rows * 0.01, rows, width: below.width };
        let name = if group.keys.is_empty() { "Aggregate" } else { "HashAggregate" };
        let mut over = Node::over(name, estimate, None).at(depth, Stage::Group);
        if !group.keys.is_empty() {
            let names = match &select.source {
                Source::Table(scan) => names(scan),
                _ => Vec::new(),
            };
            let keys: Vec<String> =
                group.keys.iter().map(|key| deparse::show(key, &names)).collect();
            over.details.push(format!("Group Key: {}", keys.join(", ")));
        }
        over.below = Some(Box::new(node));
        node = over;
    }
    if select.distinct == Distinct::All {
        node = Node::over("HashAggregate", node.estimate, Some(node)).at(depth, Stage::Distinct);
    }
    if !select.sort.is_empty() && !select.ordered {
        node = of_sort(select, node).at(depth, Stage::Sort);
    }
    if matches!(select.distinct, Distinct::On(_)) {
        node = Node::over("Unique", node.estimate, Some(node)).at(depth, Stage::Unique);
    }
    if select.limit.is_some() || select.offset.is_some() {
        node = of_limit(select, node).at(depth, Stage::Limit);
    }
    node
}

fn of_sort(select: &Select, below: Node) -> Node {
    let rows = below.estimate.rows.max(1.0);
    let total = below.estimate.total + rows * rows.log2().max(1.0) * 0.005;
    let estimate = Estimate { startup: total, total, ..below.estimate };
    let mut node = Node::over("Sort", estimate, None);
    let scan = match &select.source {
        Source::Table(scan) if select.group.is_none() => names(scan),
        _ => select.columns.iter().map(|column| column.name.clone()).collect(),
    };
    let key = |key: &crate::plan::SortKey| {
        let mut text = match select.columns.get(key.at) {
            Some(column) if select.group.is_some() => deparse::identifier(&column.name),
            _ => deparse::show(&select.output[key.at], &scan),
        };
        text.push_str(if key.descending { " DESC" } else { "" });
        if key.nulls_first != key.descending {
            text.push_str(if key.nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
        }
        text
    };
    let keys: Vec<String> = select.sort.iter().map(key).collect();
    node.details.push(format!("Sort Key: {}", keys.join(", ")));
    node.below = Some(Box::new(below));
    node
}

fn of_limit(select: &Select, below: Node) -> Node {
    let all = below.estimate;
    let limit = match &select.limit {
        Some(Expr::Const(crate::types::Datum::Int8(n))) => (*n as f64).max(0.0),
        _ => all.rows,
    };
    let rows = limit.min(all.rows);
    let share = if all.rows > 0.0 { rows / all.rows } else { 1.0 };
    let total = all.startup + (all.total - all.startup) * share;
    Node::over("Limit", Estimate { total, rows, ..all }, Some(below))
}
