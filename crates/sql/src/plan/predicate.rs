//! Conditions as the store keeps them: which rows a partial index holds, and whether a query asks
//! for no others.
//!
//! Invariants: a condition becomes a predicate only if both are true of the same rows. Does not do:
//! what is true of the same rows for other reasons than each term by itself.

use rightlink::{Collation, Comparison, Predicate, Term, Test, Value};

use super::Table;
use super::term::{Fit, fit, fits_key, flip};
use crate::expr::Expr;
use crate::types::{Datum, SqlType};

/// The predicate that `condition` over the columns of `table` is; `None` if the store has none.
pub(crate) fn of_condition(condition: &Expr, table: &Table) -> Option<Predicate> {
    let mut terms = Vec::new();
    let mut parts = vec![condition];
    while let Some(part) = parts.pop() {
        match part {
            Expr::And(list) => parts.extend(list.iter().rev()),
            part => {
                let (at, test) = exact(part, &table.types)?;
                let collation = table.info.columns[at].collation.as_ref();
                if !means_the_same(&test, collation) {
                    return None;
                }
                terms.push(Term { column: table.info.columns[at].name.clone(), test });
            }
        }
    }
    Some(Predicate { terms })
}

/// Would the store, which compares under the column's collation, find the same as bytes do?
fn means_the_same(test: &Test, collation: Option<&Collation>) -> bool {
    let Some(collation) = collation else { return true };
    match test {
        Test::Null | Test::NotNull => true,
        Test::Compare(comparison, _) => {
            matches!(comparison, Comparison::Equal | Comparison::NotEqual)
                && collation.is_deterministic()
        }
    }
}

/// Place and test of a condition on one column with a constant; rows have `types`.
fn exact(condition: &Expr, types: &[SqlType]) -> Option<(usize, Test)> {
    let known = |at: usize| (at < types.len()).then_some(at);
    let is = |value| Test::Compare(Comparison::Equal, Value::Bool(value));
    match condition {
        Expr::Column(at) => Some((known(*at)?, is(true))),
        Expr::Not(inner) => match &**inner {
            Expr::Column(at) => Some((known(*at)?, is(false))),
            _ => None,
        },
        Expr::IsNull(inner, negated) => match plain(inner) {
            Expr::Column(at) => {
                Some((known(*at)?, if *negated { Test::NotNull } else { Test::Null }))
            }
            _ => None,
        },
        Expr::Call(function, args) => {
            let [a, b] = args.as_slice() else { return None };
            let (name, at, value, other) = match (plain(a), plain(b)) {
                (Expr::Column(at), Expr::Const(value)) => {
                    (function.name, *at, value, *function.args.get(1)?)
                }
                (Expr::Const(value), Expr::Column(at)) => {
                    (flip(function.name), *at, value, *function.args.first()?)
                }
                _ => return None,
            };
            let own = types[known(at)?];
            if own.is_encoded() {
                return None;
            }
            if !fits_key(other, own) {
                return None;
            }
            let comparison = comparison(name)?;
            match fit(value.clone(), own) {
                Fit::Is(value) => Some((at, Test::Compare(comparison, value))),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A column of `char(n)` is compared without its blanks.
fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Pad(inner, _) => inner,
        other => other,
    }
}

/// The comparison that an operator is.
pub(crate) fn comparison(name: &str) -> Option<Comparison> {
    Some(match name {
        "=" => Comparison::Equal,
        "<>" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::AtMost,
        ">" => Comparison::Greater,
        ">=" => Comparison::AtLeast,
        _ => return None,
    })
}

/// Is every row that all `conditions` are true of one that `term` is true of? Rows have `types`,
/// the term is about the one at `column`.
pub(crate) fn follows(term: &Test, column: usize, conditions: &[Expr], types: &[SqlType]) -> bool {
    conditions.iter().any(|condition| follows_from(term, column, condition, types))
}

fn follows_from(term: &Test, column: usize, condition: &Expr, types: &[SqlType]) -> bool {
    if let Expr::In(needle, list, false) = condition
        && matches!(plain(needle), Expr::Column(at) if *at == column)
    {
        let equal = |value: &Expr| match value {
            Expr::Const(Datum::Null) => true,
            Expr::Const(value) => match fit(value.clone(), types[column]) {
                Fit::Is(value) => implies(&Test::Compare(Comparison::Equal, value), term),
                _ => true,
            },
            _ => *term == Test::NotNull,
        };
        return list.iter().all(equal);
    }
    match exact(condition, types) {
        Some((at, test)) => at == column && implies(&test, term),
        // A comparison is not true of a null, whatever it compares with.
        None => *term == Test::NotNull && compares(condition, column),
    }
}

fn compares(condition: &Expr, column: usize) -> bool {
    match condition {
        Expr::Call(function, args) => {
            let is_column = |arg: &Expr| match arg {
                Expr::Weights(text, _) => matches!(**text, Expr::Column(at) if at == column),
                arg => matches!(plain(arg), Expr::Column(at) if *at == column),
            };
            function.strict && comparison(function.name).is_some() && args.iter().any(is_column)
        }
        _ => false,
    }
}

/// Is `wanted` true of every value that `known` is true of?
fn implies(known: &Test, wanted: &Test) -> bool {
    use Comparison::{AtLeast, AtMost, Equal, Greater, Less, NotEqual};
    let (Test::Compare(known, w), Test::Compare(wanted, v)) = (known, wanted) else {
        return match (known, wanted) {
            (Test::Compare(..), Test::NotNull) => true,
            (known, wanted) => known == wanted,
        };
    };
    let order = w.cmp(v);
    match known {
        Equal => match wanted {
            Equal => order.is_eq(),
            NotEqual => order.is_ne(),
            Less => order.is_lt(),
            AtMost => order.is_le(),
            Greater => order.is_gt(),
            AtLeast => order.is_ge(),
        },
        NotEqual => *wanted == NotEqual && order.is_eq(),
        Less => matches!(wanted, Less | AtMost | NotEqual) && order.is_le(),
        AtMost => match wanted {
            AtMost => order.is_le(),
            Less | NotEqual => order.is_lt(),
            _ => false,
        },
        Greater => matches!(wanted, Greater | AtLeast | NotEqual) && order.is_ge(),
        AtLeast => match wanted {
            AtLeast => order.is_ge(),
            Greater | NotEqual => order.is_gt(),
            _ => false,
        },
    }
}

/// Is `condition` one of the predicate's own terms? Then rows of its index need not be asked.
pub(crate) fn is_own(
    predicate: &Predicate,
    condition: &Expr,
    types: &[SqlType],
    name: impl Fn(usize) -> String,
) -> bool {
    let Some((at, test)) = exact(condition, types) else { return false };
    let column = name(at);
    predicate.terms.iter().any(|term| term.column == column && implies(&term.test, &test))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_true_of_every_value_that_the_other_is_true_of() {
        let mut tests = vec![Test::Null, Test::NotNull];
        for comparison in Comparison::ALL {
            tests.extend((2..5).map(|n| Test::Compare(comparison, Value::Int4(n))));
        }
        let mut values: Vec<Value> = (0..8).map(Value::Int4).collect();
        values.push(Value::Null);
        let mut found = 0;
        for known in &tests {
            for wanted in tests.iter().filter(|wanted| implies(known, wanted)) {
                found += 1;
                for value in values.iter().filter(|value| known.judge(value) == Some(true)) {
                    assert_eq!(wanted.judge(value), Some(true), "{known:?} {wanted:?} {value:?}");
                }
            }
        }
        assert!(found > 60, "{found} pairs");
    }
}
