//! Chains of operators, with PostgreSQL's ranks.
//!
//! sqlparser gives some operators another rank than PostgreSQL: a sign is weaker than `^` there, a
//! prefix such as `~` stronger than `+`. A chain without parentheses is therefore taken apart into
//! the operators and operands that are written, and put together anew.
//!
//! Invariants: neither costs stack, however long the chain is. Does not do: what ends in a word,
//! such as IS NULL; it comes here as an operand.

use sqlparser::ast::{self, BinaryOperator, UnaryOperator, Value};

use super::Binder;
use super::expr::{is_prefix, number};
use crate::error::{Result, SqlError};
use crate::expr::{Expr, Typed, registry};
use crate::types::SqlType;

/// The rank of comparisons, of which none can stand beside another without parentheses.
const COMPARISON: u8 = 3;

/// An operator of a chain.
#[derive(Clone, Copy)]
enum Operator<'a> {
    Infix(&'a BinaryOperator),
    Prefix(UnaryOperator),
}

/// A piece of a chain, as it is written.
enum Item<'a> {
    Operator(Operator<'a>),
    Operand(&'a ast::Expr),
}

/// A bound operand, and where what it was bound from begins.
struct Operand {
    value: Typed,
    /// Its values, if it is a row: then it is compared with another row, and has no value itself.
    row: Option<Vec<Typed>>,
    start: Option<usize>,
}

impl Operator<'_> {
    /// The higher one is applied first.
    fn rank(self) -> u8 {
        use BinaryOperator as B;
        match self {
            Operator::Infix(B::Or) => 1,
            Operator::Infix(B::And) => 2,
            Operator::Infix(B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq) => COMPARISON,
            Operator::Infix(B::Plus | B::Minus) => 5,
            Operator::Infix(B::Multiply | B::Divide | B::Modulo) => 6,
            Operator::Infix(B::PGExp) => 7,
            Operator::Prefix(UnaryOperator::Minus | UnaryOperator::Plus) => 8,
            Operator::Infix(_) | Operator::Prefix(_) => 4,
        }
    }
}

/// The pieces of a chain from left to right.
fn items(node: &ast::Expr) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    let mut rest = Vec::new();
    let mut next = Some(Item::Operand(node));
    while let Some(item) = next {
        match item {
            Item::Operand(ast::Expr::BinaryOp { left, op, right }) => {
                rest.push(Item::Operand(right.as_ref()));
                rest.push(Item::Operator(Operator::Infix(op)));
                rest.push(Item::Operand(left.as_ref()));
            }
            Item::Operand(ast::Expr::UnaryOp { op, expr }) if is_prefix(*op) => {
                items.push(Item::Operator(Operator::Prefix(*op)));
                rest.push(Item::Operand(expr.as_ref()));
            }
            item => items.push(item),
        }
        next = rest.pop();
    }
    items
}

impl Binder<'_> {
    /// A chain of operators, or a prefix in front of an operand.
    pub(super) fn chain(&mut self, node: &ast::Expr) -> Result<Typed> {
        let (mut operands, mut waiting) = (Vec::new(), Vec::new());
        for item in items(node) {
            match item {
                Item::Operator(op @ Operator::Prefix(_)) => waiting.push(op),
                Item::Operator(op) => {
                    let beside = |other: &Operator| other.rank() == COMPARISON;
                    if op.rank() == COMPARISON && waiting.last().is_some_and(beside) {
                        return Err(near(op));
                    }
                    while waiting.last().is_some_and(|other: &Operator| other.rank() >= op.rank()) {
                        self.reduce(&mut operands, &mut waiting)?;
                    }
                    waiting.push(op);
                }
                Item::Operand(node) => {
                    let operand = match waiting.last() {
                        Some(Operator::Prefix(UnaryOperator::Minus)) => self.negative(node)?,
                        _ => None,
                    };
                    waiting.truncate(waiting.len() - usize::from(operand.is_some()));
                    let row = self.row(node)?;
                    let value = match operand {
                        Some(value) => value,
                        None if row.is_some() => Typed::new(Expr::null(), SqlType::Unknown),
                        None => self.expr(node)?,
                    };
                    operands.push(Operand { value, row, start: self.start(node) });
                }
            }
        }
        while !waiting.is_empty() {
            self.reduce(&mut operands, &mut waiting)?;
        }
        let whole = operands.pop().expect("an operator leaves a value");
        debug_assert!(operands.is_empty(), "each operator has found its operands");
        Ok(whole.value)
    }

    /// Applies the operator that was put last.
    fn reduce(&mut self, operands: &mut Vec<Operand>, waiting: &mut Vec<Operator>) -> Result<()> {
        let op = waiting.pop().expect("the caller has looked");
        let right = operands.pop().expect("an operand is behind");
        let middle = right.start;
        let whole = match op {
            Operator::Prefix(op) => {
                no_row(&right)?;
                Operand { value: self.prefix(op, right.value, middle)?, row: None, start: middle }
            }
            Operator::Infix(op) => {
                let left = operands.pop().expect("an operand is in front");
                let start = left.start;
                let value = match (left.row, right.row) {
                    (Some(left), Some(right)) => self.compare_rows(&op.to_string(), left, right),
                    (None, None) => self.binary(op, left.value, right.value),
                    (Some(row), None) => {
                        let row = self.row_value(row)?;
                        self.binary(op, row, right.value)
                    }
                    (None, Some(row)) => {
                        let row = self.row_value(row)?;
                        self.binary(op, left.value, row)
                    }
                };
                let value = value.map_err(|error| error.at(middle))?;
                Operand { value: Typed { position: start, ..value }, row: None, start }
            }
        };
        operands.push(whole);
        Ok(())
    }

    /// A number behind a minus, if it is written there: the sign belongs to the literal, as in
    /// PostgreSQL: -2147483648 is an integer.
    fn negative(&mut self, node: &ast::Expr) -> Result<Option<Typed>> {
        let ast::Expr::Value(value) = node else { return Ok(None) };
        let Value::Number(digits, _) = &value.value else { return Ok(None) };
        let position = self.position(node);
        number(&format!("-{digits}")).map(|typed| Some(typed.at(position)))
    }

    fn prefix(&mut self, op: UnaryOperator, value: Typed, at: Option<usize>) -> Result<Typed> {
        let name = match op {
            UnaryOperator::Minus => "-",
            UnaryOperator::Plus => "+",
            UnaryOperator::BitwiseNot => "~",
            UnaryOperator::PGAbs => "@",
            UnaryOperator::PGSquareRoot => "|/",
            UnaryOperator::PGCubeRoot => "||/",
            other => return Err(SqlError::unsupported(format!("operator {other}")).at(at)),
        };
        let types = [value.ty];
        let function = registry::resolve(name, &types)
            .map_err(|miss| registry::no_operator(name, &types, &miss).at(at))?;
        Ok(self.apply(function, vec![value])?.at(at))
    }

    fn binary(&mut self, op: &BinaryOperator, left: Typed, right: Typed) -> Result<Typed> {
        match op {
            BinaryOperator::And | BinaryOperator::Or => {
                let name = if *op == BinaryOperator::And { "AND" } else { "OR" };
                let (a, b) = (self.condition(left, name)?, self.condition(right, name)?);
                Ok(Typed::new(joined(op, a, b), SqlType::Bool))
            }
            BinaryOperator::PGCustomBinaryOperator(path) => {
                self.operator(path.last().map_or("", String::as_str), vec![left, right])
            }
            _ => self.operator(&op.to_string(), vec![left, right]),
        }
    }
}

fn no_row(operand: &Operand) -> Result<()> {
    match operand.row {
        Some(_) => Err(SqlError::unsupported("a row value")),
        None => Ok(()),
    }
}

/// The error for an operator that cannot stand there.
fn near(op: Operator<'_>) -> SqlError {
    let text = match op {
        Operator::Infix(op) => op.to_string(),
        Operator::Prefix(op) => op.to_string(),
    };
    SqlError::syntax(format!("syntax error at or near \"{text}\""))
}

/// One list of all that is joined the same way.
fn joined(op: &BinaryOperator, a: Expr, b: Expr) -> Expr {
    match (op, a) {
        (BinaryOperator::And, Expr::And(mut list)) => {
            list.push(b);
            Expr::And(list)
        }
        (BinaryOperator::Or, Expr::Or(mut list)) => {
            list.push(b);
            Expr::Or(list)
        }
        (BinaryOperator::And, a) => Expr::And(vec![a, b]),
        (_, a) => Expr::Or(vec![a, b]),
    }
}
