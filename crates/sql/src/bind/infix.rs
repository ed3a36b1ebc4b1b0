//! Chains of operators: binding what a chain is put together from (`parse::chain`).
//!
//! Invariants: binding one costs no stack, however long the chain is.
//! Does not do: what ends in a word, such as IS NULL; it comes here as an operand.

use sqlparser::ast::{self, BinaryOperator, UnaryOperator};

use super::Binder;
use super::expr::number;
use crate::error::{Result, SqlError};
use crate::expr::{Expr, Typed, registry};
use crate::parse::chain::{Operator, Step, digits, prefix_name, steps};
use crate::types::SqlType;

/// A bound operand, and where what it was bound from begins.
struct Operand {
    value: Typed,
    /// Its values, if it is a row: then it is compared with another row, and has no value itself.
    row: Option<Vec<Typed>>,
    start: Option<usize>,
}

impl Binder<'_> {
    /// A chain of operators, or a prefix in front of an operand.
    pub(super) fn chain(&mut self, node: &ast::Expr) -> Result<Typed> {
        let mut operands = Vec::new();
        for step in steps(node)? {
            let operand = match step {
                Step::Apply(op) => self.reduce(&mut operands, op)?,
                Step::Negative(node) => {
                    let value = number(&format!("-{}", digits(node).unwrap_or_default()))?;
                    let value = value.at(self.position(node));
                    Operand { value, row: None, start: self.start(node) }
                }
                Step::Operand(node) => {
                    let row = self.row(node)?;
                    let value = match row.is_some() {
                        true => Typed::new(Expr::null(), SqlType::Unknown),
                        false => self.expr(node)?,
                    };
                    Operand { value, row, start: self.start(node) }
                }
            };
            operands.push(operand);
        }
        let whole = operands.pop().expect("an operator leaves a value");
        debug_assert!(operands.is_empty(), "each operator has found its operands");
        Ok(whole.value)
    }

    /// Applies an operator to the last operands.
    fn reduce(&mut self, operands: &mut Vec<Operand>, op: Operator<'_>) -> Result<Operand> {
        let right = operands.pop().expect("an operand is behind");
        let middle = right.start;
        Ok(match op {
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
        })
    }

    fn prefix(&mut self, op: UnaryOperator, value: Typed, at: Option<usize>) -> Result<Typed> {
        let Some(name) = prefix_name(op) else {
            return Err(SqlError::unsupported(format!("operator {op}")).at(at));
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
