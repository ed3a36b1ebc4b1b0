//! A plan as a tree of entries, which every format of EXPLAIN prints.
//!
//! Invariants: names of nodes and of what is told about them are PostgreSQL's; a join by an index,
//! which PostgreSQL has not, is a "Keyed Join".
//! Does not do: printing (`text`, `json`).

use crate::catalog::system_views::View;
use crate::expr::function::{PatternRows, SetFunction};
use crate::expr::probe::{TARGET, WRITE};
use crate::expr::{Body, Expr, SortKey, Subquery, deparse};
use crate::names;
use crate::names::identifier;
use crate::plan::lower::scan_names;
use crate::plan::node::Estimate;
use crate::plan::node::{CteNode, CteSteps, How, JoinNode, Node, Op, ViewKey};
use crate::plan::path::{self, Path};
use crate::plan::rel::{JoinKind, SetKind};
use crate::plan::term::Keys;
use crate::plan::{Group, Plan, TableScan};

/// A node: what it is, its cost, details, and what is below.
pub(super) struct Entry {
    /// What structured formats call it.
    pub(super) kind: &'static str,
    /// What the text calls it, with what it works on.
    pub(super) title: String,
    /// What the title says, one by one.
    pub(super) facts: Vec<Detail>,
    pub(super) estimate: Estimate,
    pub(super) details: Vec<Detail>,
    pub(super) below: Vec<Below>,
    /// Where its figures stand.
    pub(super) number: usize,
}

/// Something that is told about a node.
pub(super) struct Detail {
    pub(super) name: &'static str,
    pub(super) value: Told,
}

pub(super) enum Told {
    Text(String),
    List(Vec<String>),
    /// Keys of each set of groups.
    Sets(Vec<Vec<String>>),
}

/// A node below another one.
pub(super) struct Below {
    /// What it is to the node above.
    pub(super) relationship: &'static str,
    /// Its name, as "SubPlan 1".
    pub(super) title: Option<String>,
    pub(super) entry: Entry,
}

impl Entry {
    fn new(kind: &'static str, estimate: Estimate, number: usize) -> Entry {
        let (facts, details, below) = (Vec::new(), Vec::new(), Vec::new());
        Entry { kind, title: kind.to_owned(), facts, estimate, details, below, number }
    }

    fn titled(mut self, title: impl Into<String>) -> Entry {
        self.title = title.into();
        self
    }

    fn fact(mut self, name: &'static str, value: impl Into<String>) -> Entry {
        self.facts.push(Detail { name, value: Told::Text(value.into()) });
        self
    }

    fn detail(&mut self, name: &'static str, value: impl Into<String>) {
        self.details.push(Detail { name, value: Told::Text(value.into()) });
    }

    fn list(&mut self, name: &'static str, values: Vec<String>) {
        self.details.push(Detail { name, value: Told::List(values) });
    }

    fn over(mut self, entry: Entry) -> Entry {
        let outer = self.below.iter().any(|below| below.relationship == "Outer");
        let relationship = if outer { "Inner" } else { "Outer" };
        self.below.push(Below { relationship, title: None, entry });
        self
    }

    /// With what it works on: the relation of a scan.
    fn on(self, scan: &TableScan) -> Entry {
        let name = scan.table.bare_name().to_owned();
        self.fact("Relation Name", name).fact("Alias", scan.alias.clone())
    }
}

/// The tree of a plan.
pub(super) fn tree(plan: &Plan) -> Entry {
    match plan {
        Plan::With(with) => {
            let mut entry = tree(&with.main);
            for (at, part) in with.parts.iter().enumerate() {
                let (title, own) = (Some(format!("CTE {}", part.name)), tree(&part.plan));
                let below = Below { relationship: "InitPlan", title, entry: own };
                entry.below.insert(at, below);
            }
            entry
        }
        Plan::Query(query) => Shower::of(&query.root).entry(&query.root),
        Plan::Locked(query) => {
            let below = Shower::of(&query.source.root).entry(&query.source.root);
            Entry::new("LockRows", below.estimate, WRITE).over(below)
        }
        Plan::Insert(insert) => {
            let below = Shower::of(&insert.source.root).entry(&insert.source.root);
            let estimate = Estimate { rows: 0.0, width: 0, ..below.estimate };
            let name = insert.table.bare_name();
            Entry::new("ModifyTable", estimate, WRITE)
                .titled(format!("Insert on {name}"))
                .fact("Operation", "Insert")
                .fact("Relation Name", name)
                .fact("Alias", name)
                .over(below)
        }
        Plan::Change(change) => {
            let (shower, mut below) = match &change.source {
                Some(source) => {
                    let shower = Shower::of(&source.root);
                    let below = shower.entry(&source.root);
                    (shower, below)
                }
                None => {
                    let shower = Shower { qualifies: false };
                    let below =
                        shower.scan(&change.scan, path::estimate(&change.scan, &[]), TARGET);
                    (shower, below)
                }
            };
            if let Some(cursor) = &change.current {
                below.details.clear();
                below.detail("TID Cond", format!("CURRENT OF {}", identifier(cursor)));
            }
            let verb = if change.assignments.is_some() { "Update" } else { "Delete" };
            let estimate = Estimate { rows: 0.0, width: 0, ..below.estimate };
            let mut entry = Entry::new("ModifyTable", estimate, WRITE)
                .titled(format!("{verb} on {}", relation(&change.scan)))
                .fact("Operation", verb)
                .on(&change.scan)
                .over(below);
            let assigned = change.assignments.iter().flatten().map(|(_, value)| value);
            shower.subplans(assigned, &mut entry);
            entry
        }
    }
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

    fn entry(&self, node: &Node) -> Entry {
        let entry = |kind: &'static str| Entry::new(kind, node.estimate, node.number);
        match &node.op {
            Op::Single => entry("Result"),
            Op::Scan(scan) => self.scan(scan, node.estimate, node.number),
            Op::Values(rows) if rows.len() == 1 => entry("Result"),
            Op::Values(_) => {
                entry("Values Scan").titled("Values Scan on \"*VALUES*\"").fact("Alias", "*VALUES*")
            }
            Op::Function { call, alias, .. } => {
                let Some(name) = function_name(*call) else { return entry("Result") };
                let shown = match alias == name {
                    true => String::new(),
                    false => format!(" {}", identifier(alias)),
                };
                entry("Function Scan")
                    .titled(format!("Function Scan on {name}{shown}"))
                    .fact("Function Name", name)
                    .fact("Alias", alias.clone())
            }
            Op::View { view, columns, key, filter, .. } => {
                let (kind, name) = match (view.args.is_empty(), key) {
                    (false, _) => ("Function Scan", "Function Name"),
                    (true, None) => ("Seq Scan", "Relation Name"),
                    (true, Some(_)) => ("Keyed Scan", "Relation Name"),
                };
                let mut entry =
                    entry(kind).titled(format!("{kind} on {}", view.name)).fact(name, view.name);
                if let Some(key) = key {
                    entry.detail("Index Cond", condition_of(view, key));
                    self.subplans(key.values.exprs().iter(), &mut entry);
                }
                if let Some(filter) = filter {
                    entry.detail("Filter", deparse::show(filter, &names_of_made(columns, view)));
                }
                entry
            }
            Op::CteScan { name, is_step, .. } => {
                let kind = if *is_step { "WorkTable Scan" } else { "CTE Scan" };
                entry(kind)
                    .titled(format!("{kind} on {}", identifier(name)))
                    .fact("CTE Name", name.clone())
            }
            // Values are made where they are needed, and no node says so.
            Op::Project { input, output } => {
                let mut over = self.entry(input);
                self.subplans(output.iter(), &mut over);
                over
            }
            Op::Gate { input, condition } => {
                let mut gate = entry("Result");
                gate.detail("One-Time Filter", deparse::show(condition, &[]));
                gate.over(self.entry(input))
            }
            Op::Filter { input, condition } => {
                let mut over = self.entry(input);
                over.detail("Filter", deparse::show(condition, &self.names(input)));
                self.subplans([condition].into_iter(), &mut over);
                over
            }
            Op::LockRows { input } => {
                Entry::new("LockRows", node.estimate, WRITE).over(self.entry(input))
            }
            Op::Aggregate { input, group } => self.groups(input, group, entry("Aggregate")),
            Op::ProjectSet { input, .. } => entry("ProjectSet").over(self.entry(input)),
            Op::Window { input, .. } => entry("WindowAgg").over(self.entry(input)),
            Op::Distinct { input } => hashed(entry("Aggregate")).over(self.entry(input)),
            Op::DistinctOn { input, .. } => entry("Unique").over(self.entry(input)),
            Op::Sort { input, keys, presorted } => {
                let kind = if *presorted > 0 { "Incremental Sort" } else { "Sort" };
                let (mut over, names) = (entry(kind), self.names(input));
                let shown = |keys: &[SortKey]| -> Vec<String> {
                    keys.iter().map(|key| sort_key(key, &names)).collect()
                };
                over.list("Sort Key", shown(keys));
                if *presorted > 0 {
                    over.list("Presorted Key", shown(&keys[..*presorted]));
                }
                over.over(self.entry(input))
            }
            Op::Limit { input, .. } => entry("Limit").over(self.entry(input)),
            Op::Join(join) => self.join(join, node),
            Op::SetOperation { kind, all, left, right } => {
                let over = set_operation(entry, *kind, *all);
                over.over(self.entry(left)).over(self.entry(right))
            }
            Op::With { definitions, input } => self.with(definitions, input),
        }
    }

    /// A query with common table expressions.
    fn with(&self, definitions: &[CteNode], input: &Node) -> Entry {
        let mut over = self.entry(input);
        for definition in definitions {
            let title = Some(format!("CTE {}", identifier(&definition.name)));
            let entry = match &definition.body {
                CteSteps::Query(node) => self.entry(node),
                CteSteps::Recursive { first, step, number, .. } => {
                    let union = Entry::new("Recursive Union", first.estimate, *number);
                    union.over(self.entry(first)).over(self.entry(step))
                }
            };
            over.below.push(Below { relationship: "InitPlan", title, entry });
        }
        over
    }

    fn scan(&self, scan: &TableScan, estimate: Estimate, number: usize) -> Entry {
        let relation = relation(scan);
        let names = self.names_of(scan);
        let entry = |kind: &'static str| Entry::new(kind, estimate, number);
        let mut entry = match &scan.path {
            Path::Sequential => {
                entry("Seq Scan").titled(format!("Seq Scan on {relation}")).on(scan)
            }
            Path::Tid(place) => {
                let mut entry =
                    entry("Tid Scan").titled(format!("Tid Scan on {relation}")).on(scan);
                entry.detail("TID Cond", format!("(ctid = {})", deparse::show(place, &names)));
                entry
            }
            Path::Index(path) => {
                let covers = path.covers && !scan.with_tid;
                let kind = if covers { "Index Only Scan" } else { "Index Scan" };
                let (backward, direction) = match path.backward {
                    true => (" Backward", "Backward"),
                    false => ("", "Forward"),
                };
                let index = names::bare(&path.index.name);
                let mut entry = entry(kind)
                    .titled(format!("{kind}{backward} using {} on {relation}", identifier(index)))
                    .fact("Scan Direction", direction)
                    .fact("Index Name", index)
                    .on(scan);
                if !path.conditions.is_empty() {
                    entry.detail("Index Cond", conditions(&path.conditions, &names));
                }
                entry
            }
        };
        if let Some(filter) = &scan.filter {
            entry.detail("Filter", deparse::show(filter, &names));
        }
        let of_path: &[Expr] = match &scan.path {
            Path::Index(path) => &path.conditions,
            _ => &[],
        };
        self.subplans(of_path.iter().chain(&scan.filter), &mut entry);
        entry
    }

    fn join(&self, join: &JoinNode, node: &Node) -> Entry {
        let kind = match join.kind {
            JoinKind::Inner => "Inner",
            JoinKind::Left => "Left",
            JoinKind::Right => "Right",
            JoinKind::Full => "Full",
            JoinKind::Semi => "Semi",
            JoinKind::Anti => "Anti",
        };
        // Text leaves out what most joins are.
        let shown = if kind == "Inner" { String::new() } else { format!(" {kind}") };
        let left = self.names(&join.left);
        let entry = |name: &'static str| Entry::new(name, node.estimate, node.number);
        let (mut entry, right, below) = match &join.how {
            How::Loop { right } | How::Apply { right, .. } => {
                let words = if shown.is_empty() { String::new() } else { format!("{shown} Join") };
                let entry = entry("Nested Loop")
                    .titled(format!("Nested Loop{words}"))
                    .fact("Join Type", kind);
                (entry, self.names(right), Some(self.entry(right)))
            }
            How::Hash { right, keys } => {
                let names = self.names(right);
                let key = |key: &crate::plan::node::HashKey| {
                    let own = deparse::show(&key.left, &left);
                    format!("({own} = {})", deparse::show(&key.right, &names))
                };
                let mut entry =
                    entry("Hash Join").titled(format!("Hash{shown} Join")).fact("Join Type", kind);
                entry.detail("Hash Cond", all_of(keys.iter().map(key).collect()));
                let below = Entry::new("Hash", right.estimate, right.number);
                (entry, names, Some(below.over(self.entry(right))))
            }
            How::Made { scan, keys, .. } => {
                let names = names_of_made(&scan.columns, scan.view);
                let key = |key: &crate::plan::node::HashKey| {
                    let own = deparse::show(&key.left, &left);
                    format!("({} = {own})", deparse::show(&key.right, &names))
                };
                let mut entry = entry("Keyed Join")
                    .titled(format!("Keyed{shown} Join on {}", scan.view.name))
                    .fact("Join Type", kind)
                    .fact("Relation Name", scan.view.name);
                entry.detail("Index Cond", all_of(keys.iter().map(key).collect()));
                (entry, names, None)
            }
            How::Keyed { scan, index, keys, .. } => {
                let names = self.names_of(scan);
                let key = |key: &crate::plan::node::KeyPart| {
                    format!("({} = {})", names[key.at], deparse::show(&key.value, &left))
                };
                let (index, table) = (names::bare(&index.name), relation(scan));
                let mut entry = entry("Keyed Join")
                    .titled(format!("Keyed{shown} Join using {} on {table}", identifier(index)))
                    .fact("Join Type", kind)
                    .fact("Index Name", index)
                    .on(scan);
                entry.detail("Index Cond", all_of(keys.iter().map(key).collect()));
                if let Some(filter) = &scan.filter {
                    entry.detail("Filter", deparse::show(filter, &names));
                }
                (entry, names, None)
            }
        };
        if let Some(condition) = &join.condition {
            let mut both = left;
            both.extend(right.into_iter().take(join.right_width));
            entry.detail("Join Filter", deparse::show(condition, &both));
        }
        entry = entry.over(self.entry(&join.left));
        if let Some(below) = below {
            entry = entry.over(below);
        }
        self.subplans(join.condition.iter(), &mut entry);
        entry
    }

    /// Adds the queries inside of expressions below a node.
    fn subplans<'e>(&self, exprs: impl Iterator<Item = &'e Expr>, entry: &mut Entry) {
        let mut add = |query: &Subquery| {
            if let Body::Planned { plan, .. } = &query.body {
                let title = Some(format!("SubPlan {}", query.number + 1));
                let node = Node::of(plan);
                let below = Shower::of(&node).entry(&node);
                entry.below.push(Below { relationship: "SubPlan", title, entry: below });
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

    fn groups(&self, input: &Node, group: &Group, entry: Entry) -> Entry {
        let mut over = match group.keys.is_empty() {
            true => entry.fact("Strategy", "Plain"),
            false => hashed(entry),
        };
        let names = self.names(input);
        let shown = |key: &Expr| deparse::show(key, &names);
        if !group.sets.is_empty() {
            let set = |set: &Vec<usize>| set.iter().map(|at| shown(&group.keys[*at])).collect();
            let value = Told::Sets(group.sets.iter().map(set).collect());
            over.details.push(Detail { name: "Grouping Sets", value });
        } else if !group.keys.is_empty() {
            over.list("Group Key", group.keys.iter().map(shown).collect());
        }
        over.over(self.entry(input))
    }

    fn names_of(&self, scan: &TableScan) -> Vec<String> {
        let names = scan_names(scan).into_iter();
        let names = names.map(|name| self.name_of(scan, &name));
        let mut names: Vec<String> = names.collect();
        let shown = scan.table.shown();
        if scan.columns.iter().any(|at| *at >= shown.len()) {
            let all = shown.iter().map(|column| self.name_of(scan, &column.name));
            let all: Vec<String> = all.collect();
            for (name, at) in names.iter_mut().zip(&scan.columns) {
                if let Some(place) = at.checked_sub(shown.len()) {
                    *name = deparse::show(&scan.table.computed[place], &all);
                }
            }
        }
        names
    }

    /// A column of a scan.
    fn name_of(&self, scan: &TableScan, column: &str) -> String {
        match self.qualifies {
            true => format!("{}.{}", identifier(&scan.alias), identifier(column)),
            false => identifier(column),
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
                let width = calls.iter().map(|call| call.width).sum();
                names.extend(std::iter::repeat_n("?".to_owned(), width));
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
                    How::Made { scan, .. } => names_of_made(&scan.columns, scan.view),
                };
                // Columns that only the filter of an index's rows asks for are not handed on.
                names.extend(right.into_iter().take(join.right_width));
                join.kept.iter().map(|at| names[*at].clone()).collect()
            }
            Op::Filter { input, .. }
            | Op::Gate { input, .. }
            | Op::Distinct { input }
            | Op::DistinctOn { input, .. }
            | Op::Sort { input, .. }
            | Op::Limit { input, .. }
            | Op::LockRows { input }
            | Op::With { input, .. } => self.names(input),
            Op::SetOperation { left, .. } => self.names(left),
            Op::View { view, columns, .. } => names_of_made(columns, view),
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

/// UNION and its kind.
fn set_operation(entry: impl Fn(&'static str) -> Entry, kind: SetKind, all: bool) -> Entry {
    let command = match (kind, all) {
        (SetKind::Union, true) => return entry("Append"),
        (SetKind::Union, false) => return hashed(entry("Aggregate")),
        (SetKind::Intersect, true) => "Intersect All",
        (SetKind::Intersect, false) => "Intersect",
        (SetKind::Except, true) => "Except All",
        (SetKind::Except, false) => "Except",
    };
    entry("SetOp")
        .titled(format!("HashSetOp {command}"))
        .fact("Strategy", "Hashed")
        .fact("Command", command)
}

/// Groups by a hash of their keys.
fn hashed(entry: Entry) -> Entry {
    entry.titled("HashAggregate").fact("Strategy", "Hashed")
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

/// The values that a column of a relation that is made up has one of.
fn condition_of(view: &View, key: &ViewKey) -> String {
    let column = identifier(view.columns[key.column].0);
    let show = |value: &Expr| deparse::show(value, &[]);
    match &key.values {
        Keys::List(list) => match list.as_slice() {
            [value] => format!("({column} = {})", show(value)),
            list => {
                let list: Vec<String> = list.iter().map(show).collect();
                format!("({column} = ANY ({{{}}}))", list.join(","))
            }
        },
        Keys::Elements(array) => format!("({column} = ANY ({}))", show(array)),
    }
}

/// Names of columns of a relation that is made up.
fn names_of_made(columns: &[usize], view: &View) -> Vec<String> {
    columns.iter().map(|at| identifier(view.columns[*at].0)).collect()
}

/// The name of a function that gives rows; `None` where PostgreSQL shows a result alone.
fn function_name(call: SetFunction) -> Option<&'static str> {
    Some(match call {
        SetFunction::Options => "pg_options_to_table",
        SetFunction::Series(_) => "generate_series",
        SetFunction::TextParts => "string_to_table",
        SetFunction::Partitions => "pg_partition_tree",
        SetFunction::Publication => "pg_get_publication_tables",
        SetFunction::Channels => "pg_listening_channels",
        SetFunction::Unnest => "unnest",
        SetFunction::Numbered => "_pg_expandarray",
        SetFunction::Subscripts => "generate_subscripts",
        SetFunction::Json(rows) => rows.name,
        SetFunction::Patterns(PatternRows::Matches) => "regexp_matches",
        SetFunction::Patterns(PatternRows::Parts) => "regexp_split_to_table",
        SetFunction::Value | SetFunction::Nothing => return None,
    })
}
