//! Queries as text, line by line as PostgreSQL's `ruleutils.c` lays them out.
//!
//! Does not do: what the query means (`query`), expressions (`print`).

use super::TypeText;
use super::print::{INDENT_VAR, Printer};
use super::tree::{
    Aggregate, Body, Cte, From, Join, Kind, Node, Operation, Query, Select, SortBy, SortKey,
    Subquery, Target, Test, Window,
};
use crate::names::identifier;

/// Columns that a query is moved in by.
const INDENT: i32 = 8;
/// And the tables of a join.
const INDENT_JOIN: i32 = 4;

/// The text of the query of a view whose columns have these names.
pub(super) fn view(
    query: &Query,
    names: &[String],
    is_pretty: bool,
    types: TypeText<'_>,
) -> String {
    let mut printer = Printer { out: String::new(), is_pretty, types, indent: 0 };
    printer.query(query, Some(names), true);
    printer.push(";");
    printer.out
}

impl Printer<'_> {
    /// A query, which begins where the indentation is. `names`: other names of its columns;
    /// `are_visible`: can they be seen from outside?
    pub(super) fn query(&mut self, query: &Query, names: Option<&[String]>, are_visible: bool) {
        let before = self.indent;
        self.with(&query.with, query.is_recursive);
        self.body(&query.body, names, are_visible);
        if !query.order.is_empty() {
            self.keyword(" ORDER BY ", -INDENT, INDENT, 1);
            self.order(&query.order);
        }
        if let Some(offset) = &query.offset {
            self.keyword(" OFFSET ", -INDENT, INDENT, 0);
            self.node(offset, false);
        }
        if let Some(limit) = &query.limit {
            self.keyword(" LIMIT ", -INDENT, INDENT, 0);
            match limit.is_null() {
                true => self.push("ALL"),
                false => self.node(limit, false),
            }
        }
        self.indent = before;
    }

    fn with(&mut self, with: &[Cte], is_recursive: bool) {
        if with.is_empty() {
            return;
        }
        self.indent += INDENT;
        self.push(if is_recursive { " WITH RECURSIVE " } else { " WITH " });
        for (at, Cte { name, how, query }) in with.iter().enumerate() {
            if at > 0 {
                self.push(", ");
            }
            self.push(&identifier(name));
            self.push(" AS ");
            self.push(how);
            self.push("(");
            self.keyword("", 0, 0, 0);
            self.query(query, None, true);
            self.keyword("", 0, 0, 0);
            self.push(")");
        }
        self.indent -= INDENT;
        self.keyword("", 0, 0, 0);
    }

    fn body(&mut self, body: &Body, names: Option<&[String]>, are_visible: bool) {
        match body {
            Body::Select(select) => {
                self.indent += INDENT;
                self.push(" ");
                self.select(select, names, are_visible);
            }
            Body::Query(query) => self.query(query, names, are_visible),
            Body::Operation(operation) => self.operation(operation, names, are_visible),
        }
    }

    fn select(&mut self, select: &Select, names: Option<&[String]>, are_visible: bool) {
        self.push("SELECT");
        match select.distinct.as_deref() {
            None => {}
            Some([]) => self.push(" DISTINCT"),
            Some(keys) => {
                self.push(" DISTINCT ON (");
                self.keys(keys);
                self.push(")");
            }
        }
        self.targets(&select.targets, names, are_visible);
        for (at, from) in select.from.iter().enumerate() {
            if at == 0 {
                self.keyword(" FROM ", -INDENT, INDENT, 2);
            } else {
                self.push(", ");
                self.keyword("", -INDENT, INDENT, INDENT_VAR);
            }
            self.from(from);
        }
        if let Some(condition) = &select.condition {
            self.keyword(" WHERE ", -INDENT, INDENT, 1);
            self.node(condition, false);
        }
        if !select.group.is_empty() {
            self.keyword(" GROUP BY ", -INDENT, INDENT, 1);
            self.keys(&select.group);
        }
        if let Some(condition) = &select.having {
            self.keyword(" HAVING ", -INDENT, INDENT, 0);
            self.node(condition, false);
        }
    }

    fn targets(&mut self, targets: &[Target], names: Option<&[String]>, are_visible: bool) {
        for (at, target) in targets.iter().enumerate() {
            self.push(if at == 0 { " " } else { ", " });
            let before = std::mem::take(&mut self.out);
            self.node(&target.value, true);
            let name = names.and_then(|names| names.get(at)).unwrap_or(&target.name);
            let own = match &target.own {
                Some(own) => Some(own.as_str()),
                None => (!are_visible).then_some("?column?"),
            };
            if own != Some(name.as_str()) {
                let alias = format!(" AS {}", identifier(name));
                self.push(&alias);
            }
            let text = std::mem::replace(&mut self.out, before);
            if text.starts_with('\n') {
                let end = self.out.trim_end_matches(' ').len();
                self.out.truncate(end);
            } else if at > 0 {
                self.keyword("", -INDENT, INDENT, INDENT_VAR);
            }
            self.push(&text);
        }
    }

    fn from(&mut self, from: &From) {
        match from {
            From::Relation(text) => self.push(text),
            From::Query(query, alias) => {
                self.push("(");
                self.query(query, None, true);
                self.push(") ");
                self.push(&identifier(alias));
            }
            From::Join(join) => self.join(join),
        }
    }

    fn join(&mut self, join: &Join) {
        self.plain("(");
        self.from(&join.left);
        let is_bare = join.on.is_none() && join.using.is_empty();
        let word = if is_bare && join.word == " JOIN " { " CROSS JOIN " } else { join.word };
        self.keyword(word, -INDENT, INDENT, INDENT_JOIN);
        let needs = self.is_pretty && matches!(join.right, From::Join(_));
        self.push(if needs { "(" } else { "" });
        self.from(&join.right);
        self.push(if needs { ")" } else { "" });
        if !join.using.is_empty() {
            let names: Vec<String> = join.using.iter().map(|name| identifier(name)).collect();
            self.push(&format!(" USING ({})", names.join(", ")));
        } else if let Some(on) = &join.on {
            self.push(" ON ");
            self.plain("(");
            self.node(on, false);
            self.plain(")");
        }
        self.plain(")");
    }

    fn operation(&mut self, one: &Operation, names: Option<&[String]>, are_visible: bool) {
        let nests = |body: &Body| matches!(body, Body::Operation(_));
        let needs = match &one.left {
            Body::Operation(left) => left.word != one.word || left.all != one.all,
            _ => false,
        };
        let indent = if needs { INDENT } else { 0 };
        if needs {
            self.push("(");
            self.keyword("", indent, 0, 0);
        }
        self.side(&one.left, names, are_visible);
        self.keyword(if needs { ") " } else { "" }, -indent, 0, 0);
        self.push(one.word);
        self.push(if one.all { "ALL " } else { "" });
        let needs = nests(&one.right);
        let indent = if needs { INDENT } else { 0 };
        self.push(if needs { "(" } else { "" });
        self.keyword("", indent, 0, 0);
        self.side(&one.right, names, false);
        self.indent -= indent;
        if needs {
            self.keyword(")", 0, 0, 0);
        }
    }

    fn side(&mut self, body: &Body, names: Option<&[String]>, are_visible: bool) {
        let before = self.indent;
        let needs = matches!(body, Body::Query(_));
        self.push(if needs { "(" } else { "" });
        self.body(body, names, are_visible);
        self.push(if needs { ")" } else { "" });
        self.indent = before;
    }

    fn keys(&mut self, keys: &[Node]) {
        for (at, key) in keys.iter().enumerate() {
            self.push(if at == 0 { "" } else { ", " });
            self.key(key);
        }
    }

    pub(super) fn order(&mut self, keys: &[SortKey]) {
        for (at, key) in keys.iter().enumerate() {
            self.push(if at == 0 { "" } else { ", " });
            match &key.by {
                SortBy::Column(number) => self.push(&number.to_string()),
                SortBy::Value(value) => self.key(value),
            }
            self.push(&key.order);
        }
    }

    /// A key, which must not read as the number of a column or as a call of GROUPING.
    fn key(&mut self, key: &Node) {
        match &key.kind {
            Kind::Const(value) => {
                self.constant(value.as_deref(), key.ty, false);
                let types = self.types;
                if !self.out.ends_with(&(types)(key.ty)) {
                    self.type_behind(key.ty);
                }
            }
            Kind::Column(_) => self.node(key, true),
            kind => {
                let is_call = matches!(
                    kind,
                    Kind::Call(..) | Kind::Syntax(..) | Kind::Aggregate(_) | Kind::Window(_)
                ) || matches!(kind, Kind::Cast(cast, _) if cast.by_function);
                let needs = self.is_pretty || is_call;
                self.push(if needs { "(" } else { "" });
                self.node(key, true);
                self.push(if needs { ")" } else { "" });
            }
        }
    }

    pub(super) fn aggregate(&mut self, one: &Aggregate) {
        self.push(&identifier(&one.name));
        self.push(if one.is_distinct { "(DISTINCT " } else { "(" });
        self.push(if one.is_of_rows { "*" } else { "" });
        self.list(&one.args);
        if !one.order.is_empty() {
            self.push(" ORDER BY ");
            self.order(&one.order);
        }
        if let Some(filter) = &one.filter {
            self.push(") FILTER (WHERE ");
            self.node(filter, false);
        }
        self.push(")");
    }

    pub(super) fn window(&mut self, one: &Window) {
        self.aggregate(&one.call);
        self.push(" OVER (");
        if !one.partition.is_empty() {
            self.push("PARTITION BY ");
            self.keys(&one.partition);
            self.push(if one.order.is_empty() { "" } else { " " });
        }
        if !one.order.is_empty() {
            self.push("ORDER BY ");
            self.order(&one.order);
        }
        self.push(")");
    }

    pub(super) fn subquery(&mut self, one: &Subquery) {
        let closing = match &one.test {
            Test::Value => {
                self.push("(");
                ")"
            }
            Test::Array => {
                self.push("ARRAY(");
                ")"
            }
            Test::Exists => {
                self.push("(EXISTS (");
                "))"
            }
            Test::Rows { left, operator, all } => {
                self.push("(");
                self.node(left, true);
                let word = match (operator.as_str(), all) {
                    ("=", false) => " IN (".to_owned(),
                    (operator, false) => format!(" {operator} ANY ("),
                    (operator, true) => format!(" {operator} ALL ("),
                };
                self.push(&word);
                "))"
            }
        };
        self.query(&one.query, None, false);
        self.push(closing);
    }
}
