//! Chains of operators, with PostgreSQL's ranks.
//!
//! sqlparser gives some operators another rank than PostgreSQL: a sign is weaker than `^` there, a
//! prefix such as `~` stronger than `+`. A chain without parentheses is therefore taken apart into
//! the operators and operands that are written, and put together anew.
//!
//! Invariants: it costs no stack, however long the chain is. Does not do: what ends in a word,
//! such as IS NULL; it comes here as an operand.

use sqlparser::ast::{self, BinaryOperator, UnaryOperator, Value};

use crate::error::{Result, SqlError};

/// The rank of comparisons, of which none can stand beside another without parentheses.
const COMPARISON: u8 = 3;

/// An operator of a chain.
#[derive(Clone, Copy)]
pub(crate) enum Operator<'a> {
    Infix(&'a BinaryOperator),
    Prefix(UnaryOperator),
}

/// A step of working out a chain.
pub(crate) enum Step<'a> {
    Operand(&'a ast::Expr),
    /// A number with the minus in front of it: the sign belongs to the literal, as in PostgreSQL:
    /// -2147483648 is an integer.
    Negative(&'a ast::Expr),
    Apply(Operator<'a>),
}

/// A piece of a chain, as it is written.
enum Item<'a> {
    Operator(Operator<'a>),
    Operand(&'a ast::Expr),
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
            Item::Operand(ast::Expr::UnaryOp { op, expr }) if prefix_name(*op).is_some() => {
                items.push(Item::Operator(Operator::Prefix(*op)));
                rest.push(Item::Operand(expr.as_ref()));
            }
            item => items.push(item),
        }
        next = rest.pop();
    }
    items
}

/// A chain in the order in which it is worked out: operands before their operator.
pub(crate) fn steps(node: &ast::Expr) -> Result<Vec<Step<'_>>> {
    let (mut steps, mut waiting) = (Vec::new(), Vec::new());
    for item in items(node) {
        match item {
            Item::Operator(op @ Operator::Prefix(_)) => waiting.push(op),
            Item::Operator(op) => {
                let beside = |other: &Operator| other.rank() == COMPARISON;
                if op.rank() == COMPARISON && waiting.last().is_some_and(beside) {
                    return Err(near(op));
                }
                while let Some(other) = waiting.pop_if(|other| other.rank() >= op.rank()) {
                    steps.push(Step::Apply(other));
                }
                waiting.push(op);
            }
            Item::Operand(node) => {
                let is_minus = |op: &mut Operator| {
                    matches!(op, Operator::Prefix(UnaryOperator::Minus)) && digits(node).is_some()
                };
                steps.push(match waiting.pop_if(is_minus) {
                    Some(_) => Step::Negative(node),
                    None => Step::Operand(node),
                });
            }
        }
    }
    steps.extend(waiting.into_iter().rev().map(Step::Apply));
    Ok(steps)
}

/// The digits of a number that is written.
pub(crate) fn digits(node: &ast::Expr) -> Option<&str> {
    match node {
        ast::Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(digits),
            _ => None,
        },
        _ => None,
    }
}

/// The name of an operator in front of its operand.
pub(crate) fn prefix_name(op: UnaryOperator) -> Option<&'static str> {
    match op {
        UnaryOperator::Minus => Some("-"),
        UnaryOperator::Plus => Some("+"),
        UnaryOperator::BitwiseNot => Some("~"),
        UnaryOperator::PGAbs => Some("@"),
        UnaryOperator::PGSquareRoot => Some("|/"),
        UnaryOperator::PGCubeRoot => Some("||/"),
        _ => None,
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
