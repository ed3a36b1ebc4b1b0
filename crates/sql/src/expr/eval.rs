//! Evaluating bound expressions over a row.
//!
//! Invariants: null means unknown: AND and OR give null only when the other side does not decide;
//! strict functions are not called with a null. CASE and COALESCE evaluate only what they need,
//! and CASE its operand once.
//! Does not do: types; the binder has seen to them.

use std::cmp::Ordering;

use crate::error::Result;
use crate::expr::sequences::{Ask, Asked, BY_NUMBER};
use crate::expr::{AnyOf, Context, Expr, domain, privileges};
use crate::oids::relation_id;
use crate::types::cast::cast;
use crate::types::declared::pad;
use crate::types::{Datum, SqlType, json};

impl Expr {
    /// The value over `row`.
    pub(crate) fn eval(&self, row: &[Datum], context: &Context) -> Result<Datum> {
        match self {
            Expr::Const(value) => Ok(value.clone()),
            Expr::Column(at) => Ok(row[*at].clone()),
            Expr::Outer(slot) => Ok(context.exec_state.outer(*slot)),
            Expr::Param(at) => Ok(context.params[*at].clone()),
            Expr::Aggregate(_) => unreachable!("aggregates are columns by now"),
            Expr::Call(function, args) => call(function, args, row, context),
            Expr::Cast(inner, to) => {
                let value = inner.eval(row, context)?;
                context.held.check_fits(bytes_to_cast(&value, *to))?;
                cast(value, *to, &context.times)
            }
            Expr::Fit(inner, modifier, written) => {
                let value = inner.eval(row, context)?;
                context.held.check_fits(modifier.bytes_filled(&value))?;
                modifier.fit(value, *written)
            }
            Expr::Weights(inner, collation) => Ok(match inner.eval(row, context)? {
                Datum::Text(text) => {
                    let mut key = Vec::with_capacity(text.len() * 2);
                    collation.sort_key(&text, &mut key);
                    Datum::Bytes(key)
                }
                other => other,
            }),
            Expr::Pad(inner, length) => Ok(pad(inner.eval(row, context)?, *length)),
            Expr::Sequence(ask, name, args) => {
                let args =
                    args.iter().map(|arg| arg.eval(row, context)).collect::<Result<Vec<_>>>()?;
                match name.as_str() {
                    BY_NUMBER => by_number(*ask, &args, context),
                    name => context.sequences.ask(*ask, Asked { name, id: None }, &args),
                }
            }
            Expr::And(list) => junction(list, false, row, context),
            Expr::Or(list) => junction(list, true, row, context),
            Expr::Not(inner) => Ok(match inner.eval(row, context)? {
                Datum::Bool(value) => Datum::Bool(!value),
                _ => Datum::Null,
            }),
            Expr::IsNull(inner, negated) => {
                Ok(Datum::Bool(inner.eval(row, context)?.is_null() != *negated))
            }
            Expr::Is(inner, wanted, negated) => {
                let value = match inner.eval(row, context)? {
                    Datum::Bool(value) => Some(value),
                    _ => None,
                };
                Ok(Datum::Bool((value == *wanted) != *negated))
            }
            Expr::Distinct(a, b, negated) => {
                let (a, b) = (a.eval(row, context)?, b.eval(row, context)?);
                Ok(Datum::Bool((a.compare(&b) != Ordering::Equal) != *negated))
            }
            Expr::Case(arms, rest) => case(arms, rest, row, context),
            Expr::Switch(operand, arms, rest) => switch(operand, arms, rest, (row, context)),
            Expr::Operand => {
                let operands = context.operands.borrow();
                Ok(operands.last().expect("it stands in a switch").clone())
            }
            Expr::Coalesce(list) => coalesce(list, row, context),
            Expr::NullIf(a, b) => null_if(a, b, row, context),
            Expr::Extreme(list, wanted) => extreme(list, *wanted, row, context),
            Expr::In(needle, list, negated) => contains(needle, list, *negated, (row, context)),
            Expr::AnyOf(any) => any_of(any, row, context),
            Expr::Checked(inner) => domain::checked(inner, row, context),
            Expr::Subquery(query) => context.exec_state.value(query, row, context),
        }
    }

    /// Is the condition true for `row`? Null is not.
    pub(crate) fn holds(&self, row: &[Datum], context: &Context) -> Result<bool> {
        Ok(matches!(self.eval(row, context)?, Datum::Bool(true)))
    }
}

/// A function of values.
pub(crate) fn apply(
    function: &super::Function,
    values: &[Datum],
    context: &Context,
) -> Result<Datum> {
    if function.strict && values.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    let result = (function.eval)(values, context)?;
    let length: usize = values.iter().chain([&result]).map(length).sum();
    if length > 0 {
        context.spend(length)?;
    }
    Ok(result)
}

fn call(
    function: &super::Function,
    args: &[Expr],
    row: &[Datum],
    context: &Context,
) -> Result<Datum> {
    let run = |values: &[Datum]| apply(function, values, context);
    // The usual counts need no memory of their own.
    match args {
        [] => run(&[]),
        [a] => run(&[a.eval(row, context)?]),
        [a, b] => {
            let mark = context.held.mark();
            let values = [held(a, row, context)?, held(b, row, context)?];
            let result = run(&values);
            context.held.back_to(mark);
            result
        }
        _ => {
            let mark = context.held.mark();
            let values =
                args.iter().map(|arg| held(arg, row, context)).collect::<Result<Vec<_>>>()?;
            let result = run(&values);
            context.held.back_to(mark);
            result
        }
    }
}

/// A value that is held while others are made.
fn held(expr: &Expr, row: &[Datum], context: &Context) -> Result<Datum> {
    let value = expr.eval(row, context)?;
    context.held.add(&value)?;
    Ok(value)
}

/// Bytes that a function goes through, of values that may be long.
fn length(value: &Datum) -> usize {
    match value {
        Datum::Text(text) => text.len(),
        Datum::Bytes(bytes) => bytes.len(),
        Datum::Bit(bits) | Datum::Varbit(bits) => bits.bytes().len(),
        Datum::Numeric(number) => number.as_bytes().len(),
        Datum::Array(array) => array.values().len(),
        _ => 0,
    }
}

/// Bytes that a cast takes beside its result, where they are many times those of the value.
fn bytes_to_cast(value: &Datum, to: SqlType) -> usize {
    match (value, to) {
        (Datum::Text(text), SqlType::Array(_)) => {
            (1 + text.bytes().filter(|byte| *byte == b',').count()) * size_of::<Datum>()
        }
        (Datum::Array(array), SqlType::Array(_)) => size_of_val(array.values()),
        (Datum::Text(text) | Datum::Json(text), SqlType::Json | SqlType::Jsonb) => {
            json::bytes_to_read(text)
        }
        _ => 0,
    }
}

/// Asks the sequence whose number is the first argument.
fn by_number(ask: Ask, args: &[Datum], context: &Context) -> Result<Datum> {
    let [Datum::Reg(of), rest @ ..] = args else { return Ok(Datum::Null) };
    let name = privileges::sequence_to_ask(of.oid, ask, context)?;
    let of = Asked { name: &name, id: relation_id(of.oid) };
    context.sequences.ask(ask, of, rest)
}

/// AND (decided by false) or OR (decided by true).
fn junction(list: &[Expr], decides: bool, row: &[Datum], context: &Context) -> Result<Datum> {
    let mut unknown = false;
    context.spend(list.len())?;
    for inner in list {
        match inner.eval(row, context)? {
            Datum::Bool(value) if value == decides => return Ok(Datum::Bool(decides)),
            Datum::Bool(_) => {}
            _ => unknown = true,
        }
    }
    Ok(if unknown { Datum::Null } else { Datum::Bool(!decides) })
}

fn case(arms: &[(Expr, Expr)], rest: &Expr, row: &[Datum], context: &Context) -> Result<Datum> {
    for (condition, result) in arms {
        if condition.holds(row, context)? {
            return result.eval(row, context);
        }
    }
    rest.eval(row, context)
}

fn switch(
    operand: &Expr,
    arms: &[(Expr, Expr)],
    rest: &Expr,
    (row, context): (&[Datum], &Context),
) -> Result<Datum> {
    let mark = context.held.mark();
    let mut operand = held(operand, row, context)?;
    let mut chosen = rest;
    for (condition, result) in arms {
        context.operands.borrow_mut().push(operand);
        let holds = condition.holds(row, context);
        operand = context.operands.borrow_mut().pop().expect("it was put there");
        if holds? {
            chosen = result;
            break;
        }
    }
    drop(operand);
    context.held.back_to(mark);
    chosen.eval(row, context)
}

fn coalesce(list: &[Expr], row: &[Datum], context: &Context) -> Result<Datum> {
    for inner in list {
        let value = inner.eval(row, context)?;
        if !value.is_null() {
            return Ok(value);
        }
    }
    Ok(Datum::Null)
}

fn null_if(a: &Expr, b: &Expr, row: &[Datum], context: &Context) -> Result<Datum> {
    let (a, b) = (a.eval(row, context)?, b.eval(row, context)?);
    let equal = !a.is_null() && !b.is_null() && a.compare(&b) == Ordering::Equal;
    Ok(if equal { Datum::Null } else { a })
}

fn extreme(list: &[Expr], wanted: Ordering, row: &[Datum], context: &Context) -> Result<Datum> {
    let mut best = Datum::Null;
    context.spend(list.len())?;
    for inner in list {
        let value = inner.eval(row, context)?;
        if !value.is_null() && (best.is_null() || value.compare(&best) == wanted) {
            best = value;
        }
    }
    Ok(best)
}

/// Is the test true of any element of an array, or of all?
fn any_of(any: &AnyOf, row: &[Datum], context: &Context) -> Result<Datum> {
    let needle = any.needle.eval(row, context)?;
    let Datum::Array(array) = any.array.eval(row, context)? else { return Ok(Datum::Null) };
    let mut unknown = false;
    let mut pair = [needle, Datum::Null];
    for element in array.values() {
        context.spend(1)?;
        pair[1].clone_from(element);
        match any.test.eval(&pair, context)? {
            Datum::Bool(value) if value != any.all => return Ok(Datum::Bool(!any.all)),
            Datum::Bool(_) => {}
            _ => unknown = true,
        }
    }
    Ok(if unknown { Datum::Null } else { Datum::Bool(any.all) })
}

fn contains(
    needle: &Expr,
    list: &[Expr],
    negated: bool,
    (row, context): (&[Datum], &Context),
) -> Result<Datum> {
    let needle = needle.eval(row, context)?;
    if needle.is_null() {
        return Ok(Datum::Null);
    }
    let mut unknown = false;
    for inner in list {
        context.spend(1)?;
        let value = inner.eval(row, context)?;
        if value.is_null() {
            unknown = true;
        } else if value.compare(&needle) == Ordering::Equal {
            return Ok(Datum::Bool(!negated));
        }
    }
    Ok(if unknown { Datum::Null } else { Datum::Bool(negated) })
}
