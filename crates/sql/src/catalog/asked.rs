//! Conditions of queries that read several catalogs, over rows whose values are texts.
//!
//! A condition is read once, against the columns that the rows are known to have, and asked of each
//! row in three-valued logic. The rows are those of `forms`.
//!
//! Invariants: a part that is not understood fails the query, whether there are rows or not.
//! Does not do: expressions that compute; regular expressions other than those that psql makes of
//! patterns, and a fixed beginning.

use std::cmp::Ordering;

use sqlparser::ast::{self, BinaryOperator, UnaryOperator, Value};

use super::{normal, pattern};
use crate::error::{Result, SqlError};
use crate::expr::{Context, like};

/// How the texts of a column compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Text,
    Number,
    /// `t` and `f`.
    Bool,
}

/// The columns that rows have, by their names in normal spelling.
pub(super) type Columns = [(&'static str, Kind)];

/// The value of a column of a row: `None` if the row has no such column, `Some(None)` for null.
pub(super) type Meaning<'m> = dyn Fn(&str) -> Option<Option<String>> + 'm;

/// A condition.
pub(super) enum Test {
    Always(Option<bool>),
    And(Vec<Test>),
    Or(Vec<Test>),
    Not(Box<Test>),
    Holds(String),
    IsNull(String),
    Compare(Operand, Comparison, Operand),
    AnyOf(Operand, Vec<Operand>),
    BeginsWith(Operand, String),
    /// One of these patterns matches.
    Like(Operand, Vec<String>),
}

/// What is compared.
pub(super) struct Operand {
    value: Given,
    kind: Kind,
}

enum Given {
    Column(String),
    Constant(Option<String>),
}

#[derive(Clone, Copy)]
pub(super) enum Comparison {
    Equal,
    Less,
    AtMost,
}

/// The error for a part of a query that is not understood.
pub(super) fn not_understood(part: &str) -> SqlError {
    SqlError::unsupported(format!("\"{part}\" in a query of several catalogs"))
        .hint("Queries of one catalog can have any condition.")
}

impl Test {
    /// Reads a condition over rows with these columns.
    pub(super) fn read(expr: &ast::Expr, columns: &Columns) -> Result<Test> {
        let negate = |test, negated| if negated { Test::Not(Box::new(test)) } else { test };
        let refused = || not_understood(&normal(&expr.to_string()));
        Ok(match expr {
            ast::Expr::Nested(inner) => Test::read(inner, columns)?,
            ast::Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
                Test::Not(Box::new(Test::read(expr, columns)?))
            }
            ast::Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
                let parts = chain(expr, op);
                let parts = parts
                    .into_iter()
                    .map(|part| Test::read(part, columns))
                    .collect::<Result<_>>()?;
                if *op == BinaryOperator::And { Test::And(parts) } else { Test::Or(parts) }
            }
            ast::Expr::BinaryOp { left, op, right } => {
                return Test::infix(left, op, right, columns)?.ok_or_else(refused);
            }
            ast::Expr::InList { expr, list, negated } => {
                let needle = Operand::read(expr, columns)?;
                let list = list.iter().map(|item| Operand::read(item, columns));
                negate(Test::AnyOf(needle, list.collect::<Result<_>>()?), *negated)
            }
            ast::Expr::Like { negated, any: false, expr, pattern, escape_char: None } => {
                let pattern = literal(pattern).flatten().ok_or_else(refused)?;
                negate(Test::Like(Operand::read(expr, columns)?, vec![pattern]), *negated)
            }
            ast::Expr::IsNull(inner) => Test::IsNull(column(inner, columns)?.0),
            ast::Expr::IsNotNull(inner) => {
                Test::Not(Box::new(Test::IsNull(column(inner, columns)?.0)))
            }
            ast::Expr::Value(value) => match &value.value {
                Value::Boolean(value) => Test::Always(Some(*value)),
                Value::Null => Test::Always(None),
                _ => return Err(refused()),
            },
            other => match column(other, columns)? {
                (name, Kind::Bool) => Test::Holds(name),
                _ => return Err(refused()),
            },
        })
    }

    /// Is the column called `name`, of numbers, this one?
    pub(super) fn number(name: &str, number: &str) -> Test {
        let side = |value| Operand { value, kind: Kind::Number };
        let column = side(Given::Column(name.to_owned()));
        let constant = side(Given::Constant(Some(number.to_owned())));
        Test::Compare(column, Comparison::Equal, constant)
    }

    /// A comparison; `None` if the operator is not known.
    fn infix(
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        columns: &Columns,
    ) -> Result<Option<Test>> {
        use BinaryOperator as B;
        let not = |test: Test| Test::Not(Box::new(test));
        let pattern = || match right {
            ast::Expr::Collate { expr, .. } => literal(expr).flatten(),
            other => literal(other).flatten(),
        };
        let is_match = match op {
            B::PGCustomBinaryOperator(path) => path.last().is_some_and(|name| name == "~"),
            B::PGRegexMatch => true,
            _ => false,
        };
        if is_match || *op == B::PGRegexNotMatch {
            let (Some(text), operand) = (pattern(), Operand::read(left, columns)?) else {
                return Ok(None);
            };
            let plain = |text: &&str| text.chars().all(|c| c.is_alphanumeric() || c == '_');
            let test = match text.strip_prefix('^').filter(plain) {
                Some(start) => Test::BeginsWith(operand, start.to_owned()),
                None => match pattern::alternatives(&text) {
                    Some(patterns) => Test::Like(operand, patterns),
                    None => return Ok(None),
                },
            };
            return Ok(Some(if is_match { test } else { not(test) }));
        }
        let (a, b) = (Operand::read(left, columns)?, Operand::read(right, columns)?);
        let kind = if a.kind == Kind::Text { b.kind } else { a.kind };
        let (a, b) = (Operand { kind, ..a }, Operand { kind, ..b });
        let is_order = matches!(op, B::Lt | B::LtEq | B::Gt | B::GtEq);
        if is_order && kind != Kind::Number {
            // The order of names is that of a collation of their own.
            return Ok(None);
        }
        Ok(Some(match op {
            B::Eq => Test::Compare(a, Comparison::Equal, b),
            B::NotEq => not(Test::Compare(a, Comparison::Equal, b)),
            B::Lt => Test::Compare(a, Comparison::Less, b),
            B::LtEq => Test::Compare(a, Comparison::AtMost, b),
            B::Gt => Test::Compare(b, Comparison::Less, a),
            B::GtEq => Test::Compare(b, Comparison::AtMost, a),
            _ => return Ok(None),
        }))
    }

    /// Is it true of a row? `None`: unknown.
    pub(super) fn holds(&self, row: &Meaning<'_>) -> Option<bool> {
        let value = |operand: &Operand| match &operand.value {
            Given::Column(name) => row(name).flatten(),
            Given::Constant(value) => value.clone(),
        };
        match self {
            Test::Always(value) => *value,
            Test::And(parts) => junction(parts, false, row),
            Test::Or(parts) => junction(parts, true, row),
            Test::Not(inner) => inner.holds(row).map(|value| !value),
            Test::Holds(name) => row(name).flatten().map(|value| value == "t"),
            Test::IsNull(name) => Some(row(name).flatten().is_none()),
            Test::Compare(a, how, b) => {
                let order = compare(&value(a)?, &value(b)?, a.kind)?;
                Some(match how {
                    Comparison::Equal => order.is_eq(),
                    Comparison::Less => order.is_lt(),
                    Comparison::AtMost => order.is_le(),
                })
            }
            Test::AnyOf(needle, list) => {
                let wanted = value(needle)?;
                let mut unknown = false;
                for item in list {
                    match value(item).and_then(|item| compare(&wanted, &item, needle.kind)) {
                        Some(Ordering::Equal) => return Some(true),
                        Some(_) => {}
                        None => unknown = true,
                    }
                }
                (!unknown).then_some(false)
            }
            Test::BeginsWith(operand, start) => Some(value(operand)?.starts_with(start.as_str())),
            Test::Like(operand, patterns) => {
                let text = value(operand)?;
                let context = Context::outside();
                let matches = |one: &String| like::matches(&text, one, &context).unwrap_or(false);
                Some(patterns.iter().any(matches))
            }
        }
    }
}

/// The parts that `op` joins, from left to right.
pub(super) fn chain<'e>(expr: &'e ast::Expr, op: &BinaryOperator) -> Vec<&'e ast::Expr> {
    let mut parts = Vec::new();
    let mut rest = expr;
    loop {
        match rest {
            ast::Expr::BinaryOp { left, op: own, right } if own == op => {
                parts.push(right.as_ref());
                rest = left;
            }
            first => {
                parts.push(first);
                parts.reverse();
                return parts;
            }
        }
    }
}

fn junction(parts: &[Test], decides: bool, row: &Meaning<'_>) -> Option<bool> {
    let mut unknown = false;
    for part in parts {
        match part.holds(row) {
            Some(value) if value == decides => return Some(decides),
            Some(_) => {}
            None => unknown = true,
        }
    }
    (!unknown).then_some(!decides)
}

/// Order of two texts of a column. Numbers that are none have no order.
pub(super) fn compare(a: &str, b: &str, kind: Kind) -> Option<Ordering> {
    match kind {
        Kind::Text => Some(a.cmp(b)),
        Kind::Bool => Some(truth(a)?.cmp(&truth(b)?)),
        Kind::Number => Some(a.parse::<i64>().ok()?.cmp(&b.parse::<i64>().ok()?)),
    }
}

fn truth(text: &str) -> Option<bool> {
    match text {
        "t" | "true" => Some(true),
        "f" | "false" => Some(false),
        _ => None,
    }
}

/// A constant; `Some(None)` for null.
pub(super) fn literal(expr: &ast::Expr) -> Option<Option<String>> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(Some(text.clone())),
            Value::Number(digits, _) => Some(Some(digits.clone())),
            Value::Boolean(value) => Some(Some(if *value { "t" } else { "f" }.to_owned())),
            Value::Null => Some(None),
            _ => None,
        },
        _ => None,
    }
}

/// Name and kind of a column that the rows have.
fn column(expr: &ast::Expr, columns: &Columns) -> Result<(String, Kind)> {
    let text = normal(&expr.to_string());
    match columns.iter().find(|(name, _)| *name == text) {
        Some((_, kind)) => Ok((text, *kind)),
        None => Err(not_understood(&text)),
    }
}

impl Operand {
    fn read(expr: &ast::Expr, columns: &Columns) -> Result<Operand> {
        if let Some(value) = literal(expr) {
            return Ok(Operand { value: Given::Constant(value), kind: Kind::Text });
        }
        let (name, kind) = column(expr, columns)?;
        Ok(Operand { value: Given::Column(name), kind })
    }
}
