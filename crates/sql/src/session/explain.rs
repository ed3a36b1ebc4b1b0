//! Plans as text, in PostgreSQL's shape.
//!
//! Invariants: the first line has the cost of the whole in parentheses, unless costs are off.
//! Does not do: running the statement (`utility`).

use crate::expr::deparse::{self, identifier};
use crate::expr::probe::{Figures, Probe, TARGET, WRITE};
use crate::expr::registry::SetFunction;
use crate::expr::{Body, Expr, Subquery};
use crate::parse::utility::ExplainOptions;
use crate::plan::lower::scan_names;
use crate::plan::node::{CteSteps, How, JoinNode, Node, Op};
use crate::plan::path::{self, Estimate, Path};
use crate::plan::rel::{JoinKind, SetKind};
use crate::plan::{Group, Plan, SortKey, TableScan};
use crate::schemas;

/// A line of the tree: what it is, its cost, details, and what is below.
struct Line {
    name: String,
    estimate: Estimate,
    details: Vec<String>,
    below: Vec<Below>,
    /// Where its figures stand.
    number: usize,
}

/// A line below another one.
struct Below {
    /// What it is to the line above, as "SubPlan 1".
    title: Option<String>,
    line: Line,
}

impl Line {
    fn new(name: impl Into<String>, estimate: Estimate, number: usize) -> Line {
        let (details, below) = (Vec::new(), Vec::new());
        Line { name: name.into(), estimate, details, below, number }
    }

    fn over(mut self, line: Line) -> Line {
        self.below.push(Below { title: None, line });
        self
    }
}

/// The lines of a plan.
pub(super) fn show(plan: &Plan, options: ExplainOptions, probe: Option<&Probe>) -> Vec<String> {
    let line = match plan {
        Plan::Query(query) => Shower::of(&query.root).line(&query.root),
        Plan::Insert(insert) => {
            let below = Shower::of(&insert.source.root).line(&insert.source.root);
            let estimate = Estimate { rows: 0.0, width: 0, ..below.estimate };
            let name = format!("Insert on {}", insert.table.bare_name());
            Line::new(name, estimate, WRITE).over(below)
        }
        Plan::Change(change) => {
            let (shower, mut below) = match &change.source {
                Some(source) => {
                    let shower = Shower::of(&source.root);
                    let below = shower.line(&source.root);
                    (shower, below)
                }
                None => {
                    let shower = Shower { qualifies: false };
                    let below = shower.scan(&change.scan, path::estimate(&change.scan), TARGET);
                    (shower, below)
                }
            };
            if let Some(cursor) = &change.current {
                below.details = vec![format!("TID Cond: CURRENT OF {}", identifier(cursor))];
            }
            let verb = if change.assignments.is_some() { "Update" } else { "Delete" };
            let estimate = Estimate { rows: 0.0, width: 0, ..below.estimate };
            let name = format!("{verb} on {}", relation(&change.scan));
            let mut line = Line::new(name, estimate, WRITE).over(below);
            let assigned = change.assignments.iter().flatten().map(|(_, value)| value);
            shower.subplans(assigned, &mut line);
            line
        }
    };
    let mut lines = Vec::new();
    print(&line, 0, (options, probe), &mut lines);
    lines
}

fn print(
    line: &Line,
    depth: usize,
    (options, probe): (ExplainOptions, Option<&Probe>),
    lines: &mut Vec<String>,
) {
    let indent = if depth == 0 { String::new() } else { " ".repeat(depth * 6 - 4) };
    let arrow = if depth == 0 { "" } else { "->  " };
    let Estimate { startup, total, rows, width } = line.estimate;
    let cost = match options.costs.unwrap_or(true) {
        true => format!("  (cost={startup:.2}..{total:.2} rows={rows:.0} width={width})"),
        false => String::new(),
    };
    let figures = probe.map(|probe| probe.figures(line.number));
    let actual = figures.as_ref().map_or(String::new(), |figures| actual(figures, options));
    lines.push(format!("{indent}{arrow}{}{cost}{actual}", line.name));
    let inner = " ".repeat(depth * 6 + 2);
    lines.extend(line.details.iter().map(|detail| format!("{inner}{detail}")));
    if let Some(Some(figures)) = &figures {
        let filtered = line.details.iter().any(|detail| detail.starts_with("Filter: "));
        let details = measured(figures, filtered, options);
        lines.extend(details.into_iter().map(|detail| format!("{inner}{detail}")));
    }
    for below in &line.below {
        if let Some(title) = &below.title {
            lines.push(format!("{inner}{title}"));
        }
        print(&below.line, depth + 1, (options, probe), lines);
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
    let name = identifier(scan.table.bare_name());
    if scan.alias == scan.table.bare_name() {
        return name;
    }
    format!("{name} {}", identifier(&scan.alias))
}

/// Shows the nodes of one statement.
struct Shower {
    /// Do columns have their relation's name in front, as they do where there are several?
    qualifies: bool,
}

impl Shower {
    fn of(root: &Node) -> Shower {
        let mut scans = 0;
        root.visit(&mut |node| {
            scans += usize::from(matches!(node.op, Op::Scan(_)));
            scans += usize::from(matches!(&node.op, Op::Join(_)));
        });
        Shower { qualifies: scans > 1 }
    }

    fn line(&self, node: &Node) -> Line {
        let line = |name: String| Line::new(name, node.estimate, node.number);
        match &node.op {
            Op::Single => line("Result".to_owned()),
            Op::Scan(scan) => self.scan(scan, node.estimate, node.number),
            Op::Values(rows) if rows.len() == 1 => line("Result".to_owned()),
            Op::Values(_) => line("Values Scan on \"*VALUES*\"".to_owned()),
            Op::Function { call, alias, .. } => {
                let name = match call {
                    SetFunction::Series(_) => "generate_series",
                    SetFunction::TextParts => "string_to_table",
                    SetFunction::Value => return line("Result".to_owned()),
                };
                let alias = match alias == name {
                    true => String::new(),
                    false => format!(" {}", identifier(alias)),
                };
                line(format!("Function Scan on {name}{alias}"))
            }
            Op::View { view, .. } => {
                let what = if view.args.is_empty() { "Seq Scan" } else { "Function Scan" };
                line(format!("{what} on {}", view.name))
            }
            Op::CteScan { name, is_step, .. } => {
                let what = if *is_step { "WorkTable Scan" } else { "CTE Scan" };
                line(format!("{what} on {}", identifier(name)))
            }
            // Values are made where they are needed, and no node says so.
            Op::Project { input, output } => {
                let mut line = self.line(input);
                self.subplans(output.iter(), &mut line);
                line
            }
            Op::Filter { input, condition } => {
                let mut line = self.line(input);
                let shown = deparse::show(condition, &self.names(input));
                line.details.push(format!("Filter: {shown}"));
                self.subplans([condition].into_iter(), &mut line);
                line
            }
            Op::LockRows { input } => {
                Line::new("LockRows", node.estimate, WRITE).over(self.line(input))
            }
            Op::Aggregate { input, group } => self.groups(input, group, node),
            Op::ProjectSet { input, .. } => line("ProjectSet".to_owned()).over(self.line(input)),
            Op::Window { input, .. } => line("WindowAgg".to_owned()).over(self.line(input)),
            Op::Distinct { input } => line("HashAggregate".to_owned()).over(self.line(input)),
            Op::DistinctOn { input, .. } => line("Unique".to_owned()).over(self.line(input)),
            Op::Sort { input, keys } => {
                let mut over = line("Sort".to_owned());
                let names = self.names(input);
                let keys: Vec<String> = keys.iter().map(|key| sort_key(key, &names)).collect();
                over.details.push(format!("Sort Key: {}", keys.join(", ")));
                over.over(self.line(input))
            }
            Op::Limit { input, .. } => line("Limit".to_owned()).over(self.line(input)),
            Op::Join(join) => self.join(join, node),
            Op::SetOperation { kind, all, left, right } => {
                let name = match (kind, all) {
                    (SetKind::Union, true) => "Append",
                    (SetKind::Union, false) => "HashAggregate",
                    (SetKind::Intersect, true) => "HashSetOp Intersect All",
                    (SetKind::Intersect, false) => "HashSetOp Intersect",
                    (SetKind::Except, true) => "HashSetOp Except All",
                    (SetKind::Except, false) => "HashSetOp Except",
                };
                line(name.to_owned()).over(self.line(left)).over(self.line(right))
            }
            Op::With { definitions, input } => {
                let mut over = self.line(input);
                for definition in definitions {
                    let title = Some(format!("CTE {}", identifier(&definition.name)));
                    let below = match &definition.body {
                        CteSteps::Query(node) => self.line(node),
                        CteSteps::Recursive { first, step, .. } => {
                            let union =
                                Line::new("Recursive Union", first.estimate, usize::MAX - 2);
                            union.over(self.line(first)).over(self.line(step))
                        }
                    };
                    over.below.push(Below { title, line: below });
                }
                over
            }
        }
    }

    fn scan(&self, scan: &TableScan, estimate: Estimate, number: usize) -> Line {
        let relation = relation(scan);
        let names = self.names_of(scan);
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
                let index = identifier(schemas::bare(&path.index.name));
                format!("Index{only} Scan{backward} using {index} on {relation}")
            }
        };
        if let Some(filter) = &scan.filter {
            details.push(format!("Filter: {}", deparse::show(filter, &names)));
        }
        let mut line = Line { details, ..Line::new(name, estimate, number) };
        let of_path: &[Expr] = match &scan.path {
            Path::Index(path) => &path.conditions,
            _ => &[],
        };
        self.subplans(of_path.iter().chain(&scan.filter), &mut line);
        line
    }

    fn join(&self, join: &JoinNode, node: &Node) -> Line {
        let kind = match join.kind {
            JoinKind::Inner => "",
            JoinKind::Left => " Left",
            JoinKind::Right => " Right",
            JoinKind::Full => " Full",
            JoinKind::Semi => " Semi",
            JoinKind::Anti => " Anti",
        };
        let left = self.names(&join.left);
        let (name, right, mut details, below) = match &join.how {
            How::Loop { right } | How::Apply { right, .. } => {
                let join = if kind.is_empty() { String::new() } else { format!("{kind} Join") };
                let below = self.line(right);
                (format!("Nested Loop{join}"), self.names(right), Vec::new(), Some(below))
            }
            How::Hash { right, keys } => {
                let names = self.names(right);
                let key = |key: &crate::plan::node::HashKey| {
                    let own = deparse::show(&key.left, &left);
                    format!("({own} = {})", deparse::show(&key.right, &names))
                };
                let cond = format!("Hash Cond: {}", all_of(keys.iter().map(key).collect()));
                let below = Line::new("Hash", right.estimate, right.number).over(self.line(right));
                (format!("Hash{kind} Join"), names, vec![cond], Some(below))
            }
            How::Keyed { scan, index, keys } => {
                let names = self.names_of(scan);
                let key = |key: &crate::plan::node::KeyPart| {
                    format!("({} = {})", names[key.at], deparse::show(&key.value, &left))
                };
                let cond = format!("Index Cond: {}", all_of(keys.iter().map(key).collect()));
                let mut details = vec![cond];
                if let Some(filter) = &scan.filter {
                    details.push(format!("Filter: {}", deparse::show(filter, &names)));
                }
                let (index, table) = (identifier(schemas::bare(&index.name)), relation(scan));
                let name = format!("Keyed{kind} Join using {index} on {table}");
                (name, names, details, None)
            }
        };
        if let Some(condition) = &join.condition {
            let mut both = left;
            both.extend(right.into_iter().take(join.right_width));
            details.push(format!("Join Filter: {}", deparse::show(condition, &both)));
        }
        let mut line = Line { details, ..Line::new(name, node.estimate, node.number) };
        line = line.over(self.line(&join.left));
        if let Some(below) = below {
            line = line.over(below);
        }
        self.subplans(join.condition.iter(), &mut line);
        line
    }

    /// Adds the queries inside of expressions below a line.
    fn subplans<'e>(&self, exprs: impl Iterator<Item = &'e Expr>, line: &mut Line) {
        let mut add = |query: &Subquery| {
            if let Body::Planned { plan, .. } = &query.body {
                let title = Some(format!("SubPlan {}", query.number + 1));
                let below = Shower::of(&plan.node).line(&plan.node);
                line.below.push(Below { title, line: below });
            }
        };
        for expr in exprs {
            expr.walk(&mut |inner| {
                if let Expr::Subquery(query) = inner {
                    add(query);
                }
            });
        }
    }

    fn groups(&self, input: &Node, group: &Group, node: &Node) -> Line {
        let name = if group.keys.is_empty() { "Aggregate" } else { "HashAggregate" };
        let mut over = Line::new(name.to_owned(), node.estimate, node.number);
        if !group.keys.is_empty() {
            let names = self.names(input);
            let shown = |keys: &mut dyn Iterator<Item = &Expr>| {
                keys.map(|key| deparse::show(key, &names)).collect::<Vec<_>>().join(", ")
            };
            if group.sets.is_empty() {
                let keys = shown(&mut group.keys.iter());
                over.details.push(format!("Group Key: {keys}"));
            }
            for set in &group.sets {
                over.details.push(match set.is_empty() {
                    true => "Group Key: ()".to_owned(),
                    false => {
                        let keys = shown(&mut set.iter().map(|at| &group.keys[*at]));
                        format!("Hash Key: {keys}")
                    }
                });
            }
        }
        over.over(self.line(input))
    }

    fn names_of(&self, scan: &TableScan) -> Vec<String> {
        let names = scan_names(scan).into_iter().map(|name| identifier(&name));
        match self.qualifies {
            true => names.map(|name| format!("{}.{name}", identifier(&scan.alias))).collect(),
            false => names.collect(),
        }
    }

    /// What the columns of a node's rows are called.
    fn names(&self, node: &Node) -> Vec<String> {
        match &node.op {
            Op::Scan(scan) => self.names_of(scan),
            Op::Project { input, output } => {
                let names = self.names(input);
                output.iter().map(|expr| deparse::show(expr, &names)).collect()
            }
            Op::Aggregate { input, group } => {
                let names = self.names(input);
                let keys = group.keys.iter().map(|key| deparse::show(key, &names));
                let aggregates = group.aggregates.iter().map(|one| one.shown(&names));
                let marks = group.marks.iter().map(|_| "GROUPING(?)".to_owned());
                keys.chain(aggregates).chain(marks).collect()
            }
            Op::ProjectSet { input, calls } => {
                let mut names = self.names(input);
                names.truncate(input.width);
                names.extend(calls.iter().map(|_| "?".to_owned()));
                names
            }
            Op::Window { input, window } => {
                let mut names = self.names(input);
                let calls: Vec<String> =
                    window.calls.iter().map(|call| call.shown(&names)).collect();
                names.truncate(input.width);
                names.extend(calls);
                names
            }
            Op::Join(join) => {
                let mut names = self.names(&join.left);
                names.truncate(join.left.width);
                let right = match &join.how {
                    How::Loop { right } | How::Apply { right, .. } | How::Hash { right, .. } => {
                        self.names(right)
                    }
                    How::Keyed { scan, .. } => self.names_of(scan),
                };
                names.extend(right);
                names
            }
            Op::Filter { input, .. }
            | Op::Distinct { input }
            | Op::DistinctOn { input, .. }
            | Op::Sort { input, .. }
            | Op::Limit { input, .. }
            | Op::LockRows { input }
            | Op::With { input, .. } => self.names(input),
            Op::SetOperation { left, .. } => self.names(left),
            Op::View { view, columns, .. } => {
                columns.iter().map(|at| identifier(view.columns[*at].0)).collect()
            }
            Op::Function { alias, ordinality, .. } => {
                let mut names = vec![identifier(alias)];
                names.extend(ordinality.then(|| "ordinality".to_owned()));
                names
            }
            Op::Values(_) => (1..=node.width).map(|at| format!("column{at}")).collect(),
            Op::CteScan { .. } | Op::Single => vec!["?".to_owned(); node.width],
        }
    }
}

fn sort_key(key: &SortKey, names: &[String]) -> String {
    let mut text = names.get(key.at).map_or("?", String::as_str).to_owned();
    text.push_str(if key.descending { " DESC" } else { "" });
    if key.nulls_first != key.descending {
        text.push_str(if key.nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
    }
    text
}

fn conditions(list: &[Expr], names: &[String]) -> String {
    all_of(list.iter().map(|one| deparse::show(one, names)).collect())
}

/// Conditions that are asked together.
fn all_of(mut list: Vec<String>) -> String {
    match list.len() {
        1 => list.remove(0),
        _ => format!("({})", list.join(" AND ")),
    }
}
