//! Conditions that say the same in a form that more can be done with.
//!
//! - A part that all arms of an OR share stands beside it: `(a AND b) OR (a AND c)` becomes
//!   `a AND (b OR c)`. So a join of which each arm names the same keys is one by these keys.
//! - A date that is compared with a timestamp is compared with a date, as an index on it holds it.
//! - Operators over constants are evaluated, and casts of them to a declared length.
//!
//! Invariants: a condition is true, false and null for the same rows as before; what fails when it
//! is evaluated here fails when the statement runs. Does not do: moving conditions (`rewrite`).

use std::borrow::Cow;

use crate::expr::eval::apply;
use crate::expr::operators::FIRST_DAY_FROM;
use crate::expr::registry::{self, Function};
use crate::expr::{Context, Expr};
use crate::plan::term::{flatten, flip, parts_of};
use crate::types::cast::cast;
use crate::types::{Datum, SqlType};

/// The conditions that all of these must meet, each by itself.
pub(super) fn conjuncts(conditions: Vec<Expr>) -> Vec<Expr> {
    let parts = flatten(conditions).into_iter().map(|one| match one {
        Expr::Or(arms) => factored(arms),
        Expr::Call(function, args) => compared(function, args),
        Expr::In(needle, list, negated) => {
            Expr::In(needle, list.into_iter().map(folded).collect(), negated)
        }
        other => other,
    });
    flatten(parts.collect())
}

/// An OR whose arms have in common what now stands beside it.
fn factored(arms: Vec<Expr>) -> Expr {
    let is_in = |one: &Expr, arm: &[&Expr]| arm.iter().any(|other| other.same(one));
    let parts: Vec<Vec<&Expr>> = arms.iter().map(parts_of).collect();
    let Some((first, others)) = parts.split_first() else { return Expr::Or(arms) };
    let steady = |one: &Expr| !one.has_query() && !one.is_volatile();
    let in_all = |one: &&&Expr| steady(one) && others.iter().all(|arm| is_in(one, arm));
    let common: Vec<&Expr> = first.iter().filter(in_all).copied().collect();
    if common.is_empty() {
        return Expr::Or(arms);
    }
    let mut all: Vec<Expr> = common.iter().copied().cloned().collect();
    let mut left = Vec::with_capacity(parts.len());
    for arm in &parts {
        let rest = arm.iter().filter(|one| !is_in(one, &common));
        let mut rest: Vec<Expr> = rest.copied().cloned().collect();
        match rest.len() {
            // An arm that says nothing more makes the others superfluous.
            0 => return Expr::And(all),
            1 => left.extend(rest.pop()),
            _ => left.push(Expr::And(rest)),
        }
    }
    all.push(Expr::Or(left));
    Expr::And(all)
}

/// A comparison whose constants are evaluated, of dates where one side is a date.
fn compared(function: &'static Function, args: Vec<Expr>) -> Expr {
    if function.holds.is_none() {
        return Expr::Call(function, args);
    }
    let args: Vec<Expr> = args.into_iter().map(folded).collect();
    if let [a, b] = args.as_slice()
        && function.args == [SqlType::Timestamp; 2]
    {
        let found = match (date_in(a), date_in(b)) {
            (Some(date), None) if b.is_stable() => as_dates(function.name, date, b),
            (None, Some(date)) if a.is_stable() => as_dates(flip(function.name), date, a),
            _ => None,
        };
        if let Some(found) = found {
            return found;
        }
    }
    Expr::Call(function, args)
}

/// The date that an expression makes a timestamp of; it names a column.
fn date_in(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Cast(inner, SqlType::Timestamp) if matches!(**inner, Expr::Column(_)) => {
            Some(inner.as_ref())
        }
        _ => None,
    }
}

/// `date` as a timestamp compared with another one, as a comparison of dates.
fn as_dates(name: &str, date: &Expr, time: &Expr) -> Option<Expr> {
    let time = Box::new(time.clone());
    let bound = match name {
        // The first day that does not begin before it.
        "<" | ">=" => {
            let Ok(next) = registry::resolve(FIRST_DAY_FROM, &[SqlType::Timestamp]) else {
                unreachable!("{FIRST_DAY_FROM} is registered")
            };
            Expr::Call(next, vec![*time])
        }
        "<=" | ">" => Expr::Cast(time, SqlType::Date),
        _ => return None,
    };
    let Ok(function) = registry::resolve(name, &[SqlType::Date; 2]) else {
        unreachable!("dates are compared")
    };
    Some(Expr::Call(function, vec![date.clone(), folded(bound)]))
}

/// The value in the place of an expression over constants.
fn folded(expr: Expr) -> Expr {
    match expr {
        Expr::Const(_) | Expr::Column(_) | Expr::Param(_) => expr,
        _ => match computed(&expr, &[], &Context::outside()) {
            Some(value) => Expr::Const(value),
            None => expr,
        },
    }
}

/// The value of an expression that depends on nothing but constants and parameters: of operators
/// over numbers, dates, timestamps and intervals, and of casts to a declared length. `None` for any
/// other, and where it fails.
pub(super) fn value_of<'e>(expr: &'e Expr, params: &'e [Datum]) -> Option<Cow<'e, Datum>> {
    match expr {
        Expr::Const(value) => Some(Cow::Borrowed(value)),
        Expr::Param(at) => params.get(*at).map(Cow::Borrowed),
        _ => computed(expr, params, &Context::outside()).map(Cow::Owned),
    }
}

fn computed(expr: &Expr, params: &[Datum], context: &Context) -> Option<Datum> {
    match expr {
        Expr::Const(value) => Some(value.clone()),
        Expr::Param(at) => params.get(*at).cloned(),
        Expr::Call(function, args) if is_plain_call(function) => {
            let values = args.iter().map(|arg| computed(arg, params, context));
            apply(function, &values.collect::<Option<Vec<_>>>()?, context).ok()
        }
        Expr::Cast(inner, to) if is_plain(*to) => {
            let value = computed(inner, params, context)?;
            let plain = !matches!(value, Datum::Text(_) | Datum::Bytes(_) | Datum::Timestamptz(_));
            if plain { cast(value, *to, &context.times).ok() } else { None }
        }
        Expr::Fit(inner, modifier, written) => {
            modifier.fit(computed(inner, params, context)?, *written).ok()
        }
        _ => None,
    }
}

/// An operator whose value depends on nothing of the session.
fn is_plain_call(function: &Function) -> bool {
    let named = matches!(function.name, "+" | "-" | "*" | "/" | FIRST_DAY_FROM);
    named && is_plain(function.result) && function.args.iter().all(|ty| is_plain(*ty))
}

fn is_plain(ty: SqlType) -> bool {
    use SqlType as T;
    let is_number = matches!(ty, T::Int2 | T::Int4 | T::Int8 | T::Float8 | T::Numeric);
    is_number || matches!(ty, T::Date | T::Timestamp | T::Interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, ty: SqlType, a: Expr, b: Expr) -> Expr {
        let Ok(function) = registry::resolve(name, &[ty; 2]) else { panic!("no {name}") };
        Expr::Call(function, vec![a, b])
    }

    fn column(at: usize) -> Expr {
        Expr::Column(at)
    }

    fn is(at: usize, value: i32) -> Expr {
        call("=", SqlType::Int4, column(at), Expr::Const(Datum::Int4(value)))
    }

    #[test]
    fn what_all_arms_share_stands_beside_the_others() {
        let arm = |other| Expr::And(vec![is(0, 1), other]);
        let parts = conjuncts(vec![Expr::Or(vec![arm(is(1, 2)), arm(is(2, 3))])]);
        assert!(parts[0].same(&is(0, 1)), "{parts:?}");
        assert!(parts[1].same(&Expr::Or(vec![is(1, 2), is(2, 3)])), "{parts:?}");
        // An arm that is no more than the shared part leaves nothing beside it.
        let parts = conjuncts(vec![Expr::Or(vec![is(0, 1), arm(is(2, 3))])]);
        assert_eq!(parts.len(), 1);
        assert_eq!(conjuncts(vec![Expr::Or(vec![is(0, 1), is(1, 1)])]).len(), 1);
    }

    /// Each comparison of a date with a timestamp holds for the same dates in both forms.
    #[test]
    fn dates_are_compared_as_they_were_as_timestamps() {
        let day = 86_400_000_000;
        let times = [i64::MIN, i64::MAX, 0, 1, -1, day, day - 1, day + 1, -day, 7 * day + 5];
        let days = [i32::MIN, i32::MAX, -2, -1, 0, 1, 2, 6, 7, 8];
        let context = Context::outside();
        for name in ["<", "<=", ">", ">="] {
            for time in times {
                let time = Expr::Const(Datum::Timestamp(time));
                let date = Expr::Cast(Box::new(column(0)), SqlType::Timestamp);
                for flipped in [false, true] {
                    let (a, b) = match flipped {
                        false => (date.clone(), time.clone()),
                        true => (time.clone(), date.clone()),
                    };
                    let old = call(name, SqlType::Timestamp, a, b);
                    let new = conjuncts(vec![old.clone()]);
                    let [new @ Expr::Call(function, _)] = new.as_slice() else { panic!("{new:?}") };
                    assert_eq!(function.args, [SqlType::Date; 2]);
                    for day in days {
                        let row = [Datum::Date(day)];
                        let (old, new) = (old.eval(&row, &context), new.eval(&row, &context));
                        assert_eq!(old.unwrap(), new.unwrap(), "{day} {name} {time:?} {flipped}");
                    }
                }
            }
        }
    }

    #[test]
    fn constants_are_evaluated_unless_they_fail() {
        let int = |value| Expr::Const(Datum::Int4(value));
        let less = |b| call("<", SqlType::Int4, column(0), b);
        let parts = conjuncts(vec![less(call("+", SqlType::Int4, int(2), int(3)))]);
        assert!(parts[0].same(&less(int(5))), "{parts:?}");
        let fails = less(call("/", SqlType::Int4, int(1), int(0)));
        assert!(conjuncts(vec![fails.clone()])[0].same(&fails));
    }
}
