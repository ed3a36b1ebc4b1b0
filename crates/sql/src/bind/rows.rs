//! Rows of values that are compared: `(a, b) = (1, 2)`, `ROW(a, b) < ROW(1, 2)`, and what else asks
//! something of a row.
//!
//! A comparison of rows is one of their values, as PostgreSQL's `RowCompareExpr` has it: an order
//! is decided by the first values that differ, and is null where a null comes before these.
//!
//! Invariants: rows that are compared have equally many values, and one at least.
//! Does not do: rows as values by themselves (`records`); rows beside a query (`subquery`).

use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::Binder;
use crate::error::{Result, SqlError};
use crate::expr::registry::{self, Miss};
use crate::expr::{Expr, Typed, nodes_of};
use crate::types::SqlType;

/// The expressions of a row, if it is one: several in parentheses, or ROW.
pub(super) fn parts_of(node: &ast::Expr) -> Option<Vec<&ast::Expr>> {
    match node {
        ast::Expr::Tuple(parts) => Some(parts.iter().collect()),
        ast::Expr::Nested(inner) => parts_of(inner),
        ast::Expr::Function(call) => {
            let is_row = call.name.to_string().eq_ignore_ascii_case("row") && call.over.is_none();
            let FunctionArguments::List(list) = &call.args else { return None };
            let part = |arg| match arg {
                &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref node)) => Some(node),
                _ => None,
            };
            let plain = is_row && list.clauses.is_empty();
            list.args.iter().map(part).collect::<Option<Vec<_>>>().filter(|_| plain)
        }
        _ => None,
    }
}

/// Does it ask something of the values of a row in front of it?
pub(super) fn asks_of_row(link: &ast::Expr) -> bool {
    use ast::Expr as E;
    matches!(
        link,
        E::IsNull(_)
            | E::IsNotNull(_)
            | E::IsDistinctFrom(..)
            | E::IsNotDistinctFrom(..)
            | E::InList { .. }
            | E::Between { .. }
    )
}

/// Is it a row?
pub(super) fn is_row(node: &ast::Expr) -> bool {
    parts_of(node).is_some()
}

fn truth(expr: Expr) -> Typed {
    Typed::new(expr, SqlType::Bool)
}

impl Binder<'_> {
    /// The values of a row, if it is one.
    pub(super) fn row(&mut self, node: &ast::Expr) -> Result<Option<Vec<Typed>>> {
        let Some(parts) = parts_of(node) else { return Ok(None) };
        parts.into_iter().map(|part| self.expr(part)).collect::<Result<_>>().map(Some)
    }

    /// The row that another one is compared with.
    fn other_row(&mut self, node: &ast::Expr) -> Result<Vec<Typed>> {
        self.row(node)?.ok_or_else(|| SqlError::unsupported("a row beside what is no row"))
    }

    /// The operator `name` between two rows.
    pub(super) fn compare_rows(
        &mut self,
        name: &str,
        left: Vec<Typed>,
        right: Vec<Typed>,
    ) -> Result<Typed> {
        if left.len() != right.len() {
            return Err(SqlError::syntax("unequal number of entries in row expressions"));
        }
        if left.is_empty() {
            return Err(SqlError::unsupported("comparing rows of zero length"));
        }
        if name == "OVERLAPS" {
            return self.overlaps(left, right);
        }
        let strict = match name {
            "=" => return self.each_pair("=", left, right).map(|all| truth(all_of(all))),
            "<>" | "!=" => return self.each_pair("<>", left, right).map(|all| truth(any_of(all))),
            "<" | "<=" => "<",
            ">" | ">=" => ">",
            other => return Err(SqlError::unsupported(format!("operator {other} of rows"))),
        };
        if left.iter().chain(&right).any(|value| value.expr.is_volatile()) {
            return Err(SqlError::unsupported(
                "an order of rows whose values change by themselves",
            ));
        }
        let last = left.len() - 1;
        let (mut ways, mut equal) = (Vec::with_capacity(left.len()), Vec::new());
        for (at, (a, b)) in left.into_iter().zip(right).enumerate() {
            let operator = if at == last { name } else { strict };
            let (twin, other) = (self.copy(&a)?, self.copy(&b)?);
            let decides = self.operator(operator, vec![twin, other])?.expr;
            let mut way: Vec<Expr> = equal.clone();
            self.count_copies(way.iter().map(nodes_of).sum())?;
            way.push(decides);
            ways.push(all_of(way));
            equal.push(self.operator("=", vec![a, b])?.expr);
        }
        Ok(truth(any_of(ways)))
    }

    /// `(start, end) OVERLAPS (start, end)`, where an end may be a length.
    fn overlaps(&mut self, left: Vec<Typed>, right: Vec<Typed>) -> Result<Typed> {
        if left.iter().chain(&right).all(|end| end.ty == SqlType::Unknown) {
            let types = vec![SqlType::Unknown; left.len() + right.len()];
            return Err(registry::no_function("overlaps", &types, &Miss::Ambiguous));
        }
        let mut ends = Vec::with_capacity(4);
        for (side, row) in [("left", left), ("right", right)] {
            let [start, end]: [Typed; 2] = row.try_into().map_err(|_| {
                let side = format!("wrong number of parameters on {side} side");
                SqlError::syntax(format!("{side} of OVERLAPS expression"))
            })?;
            if end.ty == SqlType::Interval {
                let from = self.copy(&start)?;
                ends.push(start);
                ends.push(self.operator("+", vec![from, end])?);
            } else {
                ends.extend([start, end]);
            }
        }
        self.named("overlaps", ends)
    }

    fn each_pair(&mut self, name: &str, left: Vec<Typed>, right: Vec<Typed>) -> Result<Vec<Expr>> {
        let pairs = left.into_iter().zip(right);
        pairs.map(|(a, b)| Ok(self.operator(name, vec![a, b])?.expr)).collect()
    }

    /// What follows a row: IS NULL, IN, BETWEEN and IS DISTINCT FROM.
    pub(super) fn link_of_row(&mut self, link: &ast::Expr, row: Vec<Typed>) -> Result<Typed> {
        match link {
            ast::Expr::IsNull(_) => self.nulls_of_row(row, false),
            ast::Expr::IsNotNull(_) => self.nulls_of_row(row, true),
            ast::Expr::IsDistinctFrom(_, other) => self.distinct_rows(row, other, false),
            ast::Expr::IsNotDistinctFrom(_, other) => self.distinct_rows(row, other, true),
            ast::Expr::InList { list, negated, .. } => {
                let mut found = Vec::with_capacity(list.len());
                for item in list {
                    let other = self.other_row(item)?;
                    let own = self.copy_row(&row)?;
                    found.push(self.compare_rows("=", own, other)?.expr);
                }
                let found = any_of(found);
                Ok(truth(if *negated { Expr::Not(Box::new(found)) } else { found }))
            }
            ast::Expr::Between { negated, low, high, .. } => {
                let (low, high) = (self.other_row(low)?, self.other_row(high)?);
                let own = self.copy_row(&row)?;
                let above = self.compare_rows(">=", own, low)?.expr;
                let below = self.compare_rows("<=", row, high)?.expr;
                let within = all_of(vec![above, below]);
                Ok(truth(if *negated { Expr::Not(Box::new(within)) } else { within }))
            }
            other => unreachable!("no question about a row: {other}"),
        }
    }

    fn copy_row(&mut self, row: &[Typed]) -> Result<Vec<Typed>> {
        row.iter().map(|value| self.copy(value)).collect()
    }

    /// A row is null if all of its values are, and not null if none of them is.
    fn nulls_of_row(&mut self, row: Vec<Typed>, negated: bool) -> Result<Typed> {
        let mut all = Vec::with_capacity(row.len());
        for value in row {
            all.push(self.is_null(value, negated)?.expr);
        }
        Ok(truth(all_of(all)))
    }

    fn distinct_rows(
        &mut self,
        row: Vec<Typed>,
        other: &ast::Expr,
        negated: bool,
    ) -> Result<Typed> {
        let other = self.other_row(other)?;
        if row.len() != other.len() {
            return Err(SqlError::syntax("unequal number of entries in row expressions"));
        }
        let mut parts = Vec::with_capacity(row.len());
        for (a, b) in row.into_iter().zip(other) {
            let (a, b) = self.comparable(a, b)?;
            parts.push(Expr::Distinct(Box::new(a), Box::new(b), negated));
        }
        Ok(truth(if negated { all_of(parts) } else { any_of(parts) }))
    }
}

fn all_of(mut list: Vec<Expr>) -> Expr {
    if list.len() == 1 { list.remove(0) } else { Expr::And(list) }
}

fn any_of(mut list: Vec<Expr>) -> Expr {
    if list.len() == 1 { list.remove(0) } else { Expr::Or(list) }
}
