//! Expressions whose values a table keeps in columns, for indexes: in their place these columns.
//!
//! What names such a column is planned as if a client had named it: paths, orders, joins and
//! statistics are those of columns.
//!
//! Invariants: a column takes the place of its expression only where no outer join can have put
//! nulls into the columns that the expression names, since it may be something else of nulls. A
//! condition as a whole stays what it is: an index of its columns may serve it.
//! Does not do: the condition that UPDATE and DELETE ask again of each row.

use crate::expr::{ColumnId, Expr};
use crate::plan::Table;
use crate::plan::rel::{JoinKind, Rel};

/// An expression and the column that has its values.
#[derive(Clone)]
pub(crate) struct Computed {
    expr: Expr,
    column: ColumnId,
}

/// The expressions of `table`, whose columns have these numbers.
pub(crate) fn of_table(table: &Table, columns: &[ColumnId]) -> Vec<Computed> {
    let first = table.types.len() - table.computed.len();
    let numbered = |(at, expr): (usize, &Expr)| {
        let mut expr = expr.clone();
        expr.change(&mut |inner| {
            if let Expr::Column(place) = inner {
                *place = columns[*place];
            }
            true
        });
        Computed { expr, column: columns[first + at] }
    };
    table.computed.iter().enumerate().map(numbered).collect()
}

/// Puts columns in the place of expressions inside of a condition.
pub(crate) fn in_condition(condition: &mut Expr, known: &[Computed]) {
    match condition {
        Expr::And(list) | Expr::Or(list) => {
            list.iter_mut().for_each(|part| in_condition(part, known));
        }
        Expr::Not(inner) => in_condition(inner, known),
        _ => {
            let mut is_inside = false;
            condition.change(&mut |inner| {
                if std::mem::replace(&mut is_inside, true) {
                    return !is_replaced(inner, known);
                }
                true
            });
        }
    }
}

/// Puts a column in the place of a whole expression.
pub(crate) fn in_whole(expr: &mut Expr, known: &[Computed]) {
    is_replaced(expr, known);
}

/// The same; says whether there is one.
fn is_replaced(expr: &mut Expr, known: &[Computed]) -> bool {
    let found = known.iter().find(|one| one.expr.same(expr));
    if let Some(one) = found {
        *expr = Expr::Column(one.column);
    }
    found.is_some()
}

/// Puts columns in the place of expressions in a relation.
pub(super) fn replace(rel: &mut Rel) {
    let mut has_any = false;
    rel.visit(&mut |one| {
        has_any |= matches!(one, Rel::Scan(scan) if !scan.table.computed.is_empty());
    });
    if has_any {
        known_of(rel);
    }
}

/// Does the same, and gives what is known of the rows of the relation.
fn known_of(rel: &mut Rel) -> Vec<Computed> {
    match rel {
        Rel::Scan(scan) => of_table(&scan.table, &scan.columns),
        Rel::Filter { input, conditions } => {
            let known = known_of(input);
            conditions.iter_mut().for_each(|one| in_condition(one, &known));
            known
        }
        Rel::Join(join) => {
            let (mut left, right) = (known_of(&mut join.left), known_of(&mut join.right));
            // Conditions are asked of rows that are there.
            let both: Vec<Computed> = left.iter().chain(&right).cloned().collect();
            join.on.iter_mut().for_each(|one| in_condition(one, &both));
            match join.kind {
                JoinKind::Inner => both,
                JoinKind::Left | JoinKind::Semi | JoinKind::Anti => left,
                JoinKind::Right => right,
                JoinKind::Full => {
                    left.clear();
                    left
                }
            }
        }
        Rel::Sort { input, .. } | Rel::Window { input, .. } => known_of(input),
        Rel::Limit(limit) => known_of(&mut limit.input),
        Rel::Project { input, output } => {
            let known = known_of(input);
            output.iter_mut().for_each(|(_, expr)| in_whole(expr, &known));
            Vec::new()
        }
        Rel::Aggregate(group) => {
            let known = known_of(&mut group.input);
            group.keys.iter_mut().for_each(|(_, expr)| in_whole(expr, &known));
            Vec::new()
        }
        other => {
            other.inputs_mut().into_iter().for_each(|input| {
                known_of(input);
            });
            Vec::new()
        }
    }
}
