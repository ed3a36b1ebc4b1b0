//! Expressions as text, parenthesis by parenthesis as PostgreSQL's `ruleutils.c` writes them.
//!
//! Invariants: the text is read back as the same tree.
//! Does not do: which casts there are (`analyse`).

use super::TypeText;
use super::choose::{BOOL, INT4, NUMERIC, UNKNOWN};
use super::tree::{AnyOf, Case, Cast, Kind, Node, Subscript, Syntax, TypeRef};

/// Columns that the inside of CASE and of clauses is moved in by.
pub(super) const INDENT_VAR: i32 = 4;
/// From here on the indentation grows more slowly.
const INDENT_LIMIT: i32 = 40;

pub(super) struct Printer<'p> {
    pub(super) out: String,
    /// Are parentheses left out that precedence makes needless?
    pub(super) is_pretty: bool,
    pub(super) types: TypeText<'p>,
    pub(super) indent: i32,
}

/// The text of an expression, as it stands by itself.
pub(super) fn expression(node: &Node, is_pretty: bool, types: TypeText<'_>) -> String {
    let mut printer = Printer { out: String::new(), is_pretty, types, indent: 0 };
    printer.node(node, false);
    printer.out
}

/// Does the text look like a call, so that an index takes it without parentheses?
pub(super) fn looks_like_call(node: &Node) -> bool {
    match &node.kind {
        Kind::Call(..) | Kind::Syntax(..) | Kind::Word(_) => true,
        Kind::Keyword(name, _) => *name != "ROW",
        _ => false,
    }
}

impl Printer<'_> {
    pub(super) fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// A keyword that begins a line; the indentation changes before and after it.
    pub(super) fn keyword(&mut self, word: &str, before: i32, after: i32, plus: i32) {
        self.indent += before;
        let end = self.out.trim_end_matches(' ').len();
        self.out.truncate(end);
        self.push("\n");
        let level = self.indent.max(0);
        let amount = if level < INDENT_LIMIT {
            level
        } else {
            (INDENT_LIMIT + (level - INDENT_LIMIT) / 4) % INDENT_LIMIT
        };
        self.out.extend(std::iter::repeat_n(' ', (amount + plus).max(0) as usize));
        self.push(word);
        self.indent = (self.indent + after).max(0);
    }

    /// Parentheses that are left out for people.
    pub(super) fn plain(&mut self, parenthesis: &str) {
        if !self.is_pretty {
            self.push(parenthesis);
        }
    }

    /// A part of `parent`, in parentheses where precedence asks for them.
    fn part(&mut self, node: &Node, shows_implicit: bool, parent: &Node) {
        let needs = self.is_pretty && !is_simple(node, parent);
        if needs {
            self.push("(");
        }
        self.node(node, shows_implicit);
        if needs {
            self.push(")");
        }
    }

    pub(super) fn list(&mut self, nodes: &[Node]) {
        for (at, node) in nodes.iter().enumerate() {
            if at > 0 {
                self.push(", ");
            }
            self.node(node, true);
        }
    }

    /// An expression; implicit casts at its top are shown or left out.
    pub(super) fn node(&mut self, node: &Node, shows_implicit: bool) {
        match &node.kind {
            Kind::Column(column) => self.push(&column.text),
            Kind::Const(value) => self.constant(value.as_deref(), node.ty, false),
            Kind::Call(name, args) => {
                self.push(name);
                self.push("(");
                self.list(args);
                self.push(")");
            }
            Kind::Keyword(name, args) => {
                self.push(name);
                self.push("(");
                self.list(args);
                self.push(")");
            }
            Kind::Syntax(syntax, args) => self.syntax(*syntax, args, node),
            Kind::Word(word) => self.push(word),
            Kind::Cast(cast, inner) => self.cast(*cast, inner, shows_implicit, node),
            Kind::Operator(name, args) => self.operator(name, args, node),
            Kind::AnyOf(any, left, right) => self.any_of(any, left, right, node),
            Kind::And(parts) => self.joined(" AND ", parts, node),
            Kind::Or(parts) => self.joined(" OR ", parts, node),
            Kind::Not(inner) => {
                self.plain("(");
                self.push("NOT ");
                self.part(inner, false, node);
                self.plain(")");
            }
            Kind::NullTest(test, inner) => self.test(test, inner, true, node),
            Kind::BooleanTest(test, inner) => self.test(test, inner, false, node),
            Kind::Distinct(left, right) => {
                self.plain("(");
                self.part(left, true, node);
                self.push(" IS DISTINCT FROM ");
                self.part(right, true, node);
                self.plain(")");
            }
            Kind::Case(case) => self.case(case),
            Kind::Array(elements) => {
                self.push("ARRAY[");
                self.list(elements);
                self.push("]");
                if elements.is_empty() {
                    self.type_behind(node.ty);
                }
            }
            Kind::Collate(inner, collation) => {
                self.plain("(");
                self.part(inner, shows_implicit, node);
                self.push(" COLLATE ");
                self.push(collation);
                self.plain(")");
            }
            Kind::Subscript(inner, subscripts) => self.subscripts(inner, subscripts),
            Kind::Aggregate(one) => self.aggregate(one),
            Kind::Window(one) => self.window(one),
            Kind::Subquery(one) => self.subquery(one),
        }
    }

    pub(super) fn type_behind(&mut self, ty: TypeRef) {
        let name = (self.types)(ty);
        self.push("::");
        self.push(&name);
    }

    /// A value. `is_bare`: without its type.
    pub(super) fn constant(&mut self, value: Option<&str>, ty: TypeRef, is_bare: bool) {
        let Some(text) = value else {
            self.push("NULL");
            if !is_bare {
                self.type_behind(ty);
            }
            return;
        };
        let begins_with_digit = text.starts_with(|c: char| c.is_ascii_digit());
        let (is_plain, needs_type) = match ty.oid {
            BOOL | UNKNOWN => (ty.oid == BOOL, false),
            INT4 => (begins_with_digit, !begins_with_digit),
            NUMERIC => {
                let is_plain = begins_with_digit && text.contains(['.', 'e', 'E']);
                (is_plain, !is_plain || ty.modifier >= 0)
            }
            _ => (false, true),
        };
        match (is_plain, ty.oid) {
            (true, BOOL) => self.push(if text == "t" { "true" } else { "false" }),
            (true, _) => self.push(text),
            (false, _) => {
                self.push("'");
                let quoted = text.replace('\'', "''");
                self.push(&quoted);
                self.push("'");
            }
        }
        if needs_type && !is_bare {
            self.type_behind(ty);
        }
    }

    fn cast(&mut self, cast: Cast, inner: &Node, shows_implicit: bool, node: &Node) {
        if cast.is_implicit && !shows_implicit {
            return self.part(inner, false, node);
        }
        match &inner.kind {
            Kind::Const(value) if inner.ty == TypeRef::plain(node.ty.oid) => {
                self.constant(value.as_deref(), inner.ty, true);
            }
            _ => {
                self.plain("(");
                self.part(inner, false, node);
                self.plain(")");
            }
        }
        self.type_behind(node.ty);
    }

    fn operator(&mut self, name: &str, args: &[Node], node: &Node) {
        self.plain("(");
        if let [left, right] = args {
            self.part(left, true, node);
            self.push(" ");
            self.push(name);
            self.push(" ");
            self.part(right, true, node);
        } else {
            self.push(name);
            self.push(" ");
            self.part(&args[0], true, node);
        }
        self.plain(")");
    }

    fn any_of(&mut self, any: &AnyOf, left: &Node, right: &Node, node: &Node) {
        self.plain("(");
        self.part(left, true, node);
        self.push(" ");
        self.push(&any.operator);
        self.push(if any.all { " ALL (" } else { " ANY (" });
        self.part(right, true, node);
        self.push(")");
        self.plain(")");
    }

    fn joined(&mut self, word: &str, parts: &[Node], node: &Node) {
        self.plain("(");
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                self.push(word);
            }
            self.part(part, false, node);
        }
        self.plain(")");
    }

    fn test(&mut self, test: &str, inner: &Node, shows_implicit: bool, node: &Node) {
        self.plain("(");
        self.part(inner, shows_implicit, node);
        self.push(" ");
        self.push(test);
        self.plain(")");
    }

    fn case(&mut self, case: &Case) {
        self.keyword("CASE", 0, INDENT_VAR, 0);
        if let Some(operand) = &case.operand {
            self.push(" ");
            self.node(operand, true);
        }
        for (when, then) in &case.arms {
            self.keyword("WHEN ", 0, 0, 0);
            self.node(when, false);
            self.push(" THEN ");
            self.node(then, true);
        }
        self.keyword("ELSE ", 0, 0, 0);
        self.node(&case.rest, true);
        self.keyword("END", -INDENT_VAR, 0, 0);
    }

    fn syntax(&mut self, syntax: Syntax, args: &[Node], node: &Node) {
        let mut words: &[&str] = match syntax {
            Syntax::AtTimeZone => {
                self.push("(");
                self.part(&args[1], false, node);
                self.push(" AT TIME ZONE ");
                self.part(&args[0], false, node);
                return self.push(")");
            }
            Syntax::Extract => {
                self.push("EXTRACT(");
                if let Kind::Const(Some(field)) = &args[0].kind {
                    self.push(field);
                }
                self.push(" FROM ");
                self.node(&args[1], false);
                return self.push(")");
            }
            Syntax::Position => {
                self.push("POSITION((");
                self.node(&args[1], false);
                self.push(") IN (");
                self.node(&args[0], false);
                return self.push("))");
            }
            Syntax::Trim(side) => {
                self.push("TRIM(");
                self.push(side);
                if let Some(what) = args.get(1) {
                    self.push(" ");
                    self.node(what, false);
                }
                self.push(" FROM ");
                self.node(&args[0], false);
                return self.push(")");
            }
            Syntax::Overlay => &["OVERLAY(", " PLACING ", " FROM ", " FOR "],
            Syntax::Substring => &["SUBSTRING(", " FROM ", " FOR "],
        };
        for arg in args {
            let Some((word, rest)) = words.split_first() else { break };
            self.push(word);
            self.node(arg, false);
            words = rest;
        }
        self.push(")");
    }

    fn subscripts(&mut self, inner: &Node, subscripts: &[Subscript]) {
        let needs = !matches!(inner.kind, Kind::Column(_));
        if needs {
            self.push("(");
        }
        self.node(inner, true);
        if needs {
            self.push(")");
        }
        for subscript in subscripts {
            self.push("[");
            match subscript {
                Subscript::Element(at) => self.node(at, false),
                Subscript::Slice(from, to) => {
                    from.iter().for_each(|from| self.node(from, false));
                    self.push(":");
                    to.iter().for_each(|to| self.node(to, false));
                }
            }
            self.push("]");
        }
    }
}

/// Does `node` need no parentheses of its own inside of `parent`?
fn is_simple(node: &Node, parent: &Node) -> bool {
    match &node.kind {
        Kind::Column(_)
        | Kind::Const(_)
        | Kind::Subscript(..)
        | Kind::Array(_)
        | Kind::Call(..)
        | Kind::Syntax(..)
        | Kind::Keyword(..)
        | Kind::Word(_)
        | Kind::Aggregate(_)
        | Kind::Window(_)
        | Kind::Case(_) => true,
        Kind::Cast(Cast { by_function: true, .. }, _) => true,
        Kind::Cast(_, inner) => is_simple(inner, node),
        Kind::Operator(name, args) => match &parent.kind {
            Kind::Operator(around, parts) => binds_tighter(&[name, around], args, parts, node),
            _ => has_own_parentheses(parent, true),
        },
        Kind::NullTest(..) | Kind::BooleanTest(..) | Kind::Distinct(..) | Kind::Subquery(_) => {
            has_own_parentheses(parent, true)
        }
        Kind::And(_) | Kind::Not(_) => match parent.kind {
            Kind::And(_) | Kind::Or(_) => true,
            _ => has_own_parentheses(parent, false),
        },
        Kind::Or(_) => match parent.kind {
            Kind::Or(_) => true,
            _ => has_own_parentheses(parent, false),
        },
        Kind::AnyOf(..) | Kind::Collate(..) => false,
    }
}

/// Does an operator (the first name) need no parentheses under another one? PostgreSQL leaves them
/// out only between `+`, `-`, `*`, `/` and `%`.
fn binds_tighter(names: &[&String; 2], args: &[Node], parts: &[Node], node: &Node) -> bool {
    let rank = |name: &str| match name {
        "+" | "-" => Some(0),
        "*" | "/" | "%" => Some(1),
        _ => None,
    };
    if args.len() != 2 || parts.len() != 2 {
        return false;
    }
    match (rank(names[0]), rank(names[1])) {
        (Some(own), Some(around)) if own != around => own > around,
        (Some(_), Some(_)) => std::ptr::eq(node, &raw const parts[0]),
        _ => false,
    }
}

/// Does `parent` separate its parts by itself? `conditions`: also AND, OR and NOT do.
fn has_own_parentheses(parent: &Node, conditions: bool) -> bool {
    match &parent.kind {
        Kind::Call(..) | Kind::Subscript(..) | Kind::Array(_) | Kind::Keyword(..) => true,
        Kind::Case(_) | Kind::Aggregate(_) | Kind::Window(_) => true,
        Kind::And(_) | Kind::Or(_) | Kind::Not(_) => conditions,
        _ => false,
    }
}
