//! Evaluating expressions over the rows of a batch, column by column.
//!
//! Comparisons and arithmetic of integers, floats, dates and `numeric` in 128 bits, comparisons of
//! texts, AND, OR, NOT, CASE and IS NULL go through a whole column at a time, comparisons of other
//! types and sums of longer numbers through columns of values.
//!
//! Other functions are called for each row with copies of values, or once if all rows have the
//! same. Long lists of constants are sorted (`members`). What else evaluates its parts only for
//! some rows is evaluated row by row.
//!
//! Invariants: a part is evaluated for the rows for which row by row it would be: the right side of
//! AND only where the left one does not decide, and conditions only where those in front are true.
//! Does not do: volatile functions, whose calls have an order; whoever has such goes row by row
//! ([`is_steady`]).

use std::borrow::Cow;
use std::cmp::Ordering;

use rightlink::Decimal;

use crate::error::Result;
use crate::exec::batch::{BYTES, Batch, ROWS};
use crate::exec::members::Members;
use crate::exec::vector::{Decimals, Numbers, Texts, Vector};
use crate::expr::registry::Function;
use crate::expr::{Context, Expr};
use crate::types::cast::cast;
use crate::types::{Datum, Row, SqlType, numeric};

/// Which rows of a batch an expression is evaluated for.
#[derive(Clone, Copy)]
enum Rows<'r> {
    All(usize),
    These(&'r [u32]),
}

impl Rows<'_> {
    fn len(self) -> usize {
        match self {
            Rows::All(len) => len,
            Rows::These(rows) => rows.len(),
        }
    }

    /// The row of the batch that is number `at` of these.
    fn row(self, at: usize) -> usize {
        match self {
            Rows::All(_) => at,
            Rows::These(rows) => rows[at] as usize,
        }
    }
}

/// The values of an expression over all rows of a batch.
pub(crate) fn evaluate<'b>(
    expr: &Expr,
    batch: &'b Batch,
    context: &Context,
) -> Result<Cow<'b, Vector>> {
    over(expr, batch, Rows::All(batch.len), context)
}

/// The rows of a batch for which a condition is true.
pub(crate) fn passing(condition: &Expr, batch: &Batch, context: &Context) -> Result<Vec<u32>> {
    let mut rows: Vec<u32> = (0..batch.len as u32).collect();
    narrow(condition, batch, &mut rows, context)?;
    Ok(rows)
}

/// Leaves the rows for which a condition is true.
fn narrow(condition: &Expr, batch: &Batch, rows: &mut Vec<u32>, context: &Context) -> Result<()> {
    if let Expr::And(list) = condition {
        for one in list {
            if rows.is_empty() {
                break;
            }
            narrow(one, batch, rows, context)?;
        }
        return Ok(());
    }
    let selected = match rows.len() == batch.len {
        true => Rows::All(batch.len),
        false => Rows::These(rows),
    };
    let values = over(condition, batch, selected, context)?;
    let mut at = 0;
    rows.retain(|_| {
        at += 1;
        values.is_true(at - 1)
    });
    Ok(())
}

/// Bytes of a value of which a batch may have one for each row.
const SHORT: usize = BYTES / ROWS;

/// Can an expression be evaluated column by column: does it call nothing volatile, run no query,
/// and make no values that are long?
pub(crate) fn is_steady(expr: &Expr) -> bool {
    let mut steady = true;
    expr.walk(&mut |inner| {
        steady &= match inner {
            Expr::Sequence(..) | Expr::Subquery(_) | Expr::Weights(..) => false,
            Expr::Call(function, _) => {
                let short = match function.result {
                    SqlType::Text | SqlType::Bpchar | SqlType::Bytea => false,
                    SqlType::Bit | SqlType::Varbit => false,
                    // Arrays, and elements of any type.
                    SqlType::Array(_) | SqlType::Unknown => false,
                    SqlType::Numeric => matches!(function.name, "+" | "-" | "*" | "/" | "%"),
                    _ => true,
                };
                short && !function.volatile
            }
            // No longer than the column's own.
            Expr::Cast(inner, SqlType::Text) if matches!(**inner, Expr::Column(_)) => true,
            Expr::Cast(_, to) => {
                !matches!(to, SqlType::Text | SqlType::Bpchar | SqlType::Bytea | SqlType::Array(_))
            }
            Expr::Pad(_, length) => *length as usize <= SHORT,
            Expr::Fit(..) => false,
            _ => true,
        };
    });
    steady
}

/// Recurses once a level of the expression: what has large frames stands in functions of their own,
/// which are not inlined (`session/stack.rs` has the limit).
fn over<'b>(
    expr: &Expr,
    batch: &'b Batch,
    rows: Rows<'_>,
    context: &Context,
) -> Result<Cow<'b, Vector>> {
    let len = rows.len();
    let same = |value: Datum| Ok(Cow::Owned(Vector::Same(value, len)));
    match expr {
        Expr::Column(at) => Ok(match rows {
            Rows::All(_) => Cow::Borrowed(&batch.columns[*at]),
            Rows::These(rows) => Cow::Owned(batch.columns[*at].pick(rows)),
        }),
        Expr::Const(value) => same(value.clone()),
        Expr::Param(at) => same(context.params[*at].clone()),
        Expr::Outer(slot) => same(context.exec_state.outer(*slot)),
        Expr::Call(function, args) => call(function, args, batch, rows, context),
        Expr::And(list) => junction(list, false, batch, rows, context),
        Expr::Or(list) => junction(list, true, batch, rows, context),
        Expr::Not(inner) => {
            let inner = over(inner, batch, rows, context)?;
            let value = |at| truth(&inner, at).map(|value| !value);
            Ok(Cow::Owned(bools(len, value)))
        }
        Expr::IsNull(inner, negated) => {
            let inner = over(inner, batch, rows, context)?;
            Ok(Cow::Owned(bools(len, |at| Some(inner.is_null(at) != *negated))))
        }
        Expr::Is(inner, wanted, negated) => {
            let inner = over(inner, batch, rows, context)?;
            Ok(Cow::Owned(bools(len, |at| Some((truth(&inner, at) == *wanted) != *negated))))
        }
        Expr::Case(arms, rest) => case(arms, rest, batch, rows, context).map(Cow::Owned),
        Expr::Cast(inner, to) => casts(inner, *to, batch, rows, context),
        Expr::In(..) | Expr::AnyOf(_) => member(expr, batch, rows, context).map(Cow::Owned),
        _ => row_by_row(expr, batch, rows, context).map(Cow::Owned),
    }
}

/// The values of `inner` as values of another type.
#[inline(never)]
fn casts<'b>(
    inner: &Expr,
    to: SqlType,
    batch: &'b Batch,
    rows: Rows<'_>,
    context: &Context,
) -> Result<Cow<'b, Vector>> {
    let inner = over(inner, batch, rows, context)?;
    if matches!((inner.as_ref(), to), (Vector::Text(_), SqlType::Text)) {
        return Ok(inner);
    }
    let mut out = Vector::of(to, rows.len());
    for at in 0..rows.len() {
        out.push(cast(inner.get(at), to, &context.times)?);
    }
    Ok(Cow::Owned(out))
}

/// IN and `= ANY`.
#[inline(never)]
fn member(expr: &Expr, batch: &Batch, rows: Rows<'_>, context: &Context) -> Result<Vector> {
    let (members, needle, negated) = match expr {
        Expr::In(needle, list, negated) => {
            (Members::of_list(list, rows.len(), context), needle.as_ref(), *negated)
        }
        Expr::AnyOf(any) => (Members::of_array(any, rows.len(), context), &any.needle, false),
        _ => unreachable!("the caller has looked"),
    };
    match members {
        Some(members) => members.holding(&*over(needle, batch, rows, context)?, negated, context),
        None => row_by_row(expr, batch, rows, context),
    }
}

/// Values of an expression of which no column is made at once.
#[inline(never)]
fn row_by_row(expr: &Expr, batch: &Batch, rows: Rows<'_>, context: &Context) -> Result<Vector> {
    let mut named = vec![false; batch.columns.len()];
    expr.walk(&mut |inner| {
        if let Expr::Column(at) = inner {
            named[*at] = true;
        }
    });
    let mut row: Row = vec![Datum::Null; batch.columns.len()];
    let mut out = Vec::with_capacity(rows.len());
    for at in 0..rows.len() {
        let place = rows.row(at);
        for (column, value) in row.iter_mut().enumerate().filter(|(column, _)| named[*column]) {
            *value = batch.columns[column].get(place);
        }
        out.push(expr.eval(&row, context)?);
    }
    Ok(Vector::Any(out))
}

fn truth(values: &Vector, at: usize) -> Option<bool> {
    match values {
        Vector::Bool(numbers) => numbers.get(at),
        other => match other.get(at) {
            Datum::Bool(value) => Some(value),
            _ => None,
        },
    }
}

fn bools(len: usize, value: impl Fn(usize) -> Option<bool>) -> Vector {
    let mut out = Numbers::with_capacity(len);
    (0..len).for_each(|at| out.push(value(at)));
    Vector::Bool(out)
}

/// AND (decided by false) or OR (decided by true): what stands behind is evaluated where nothing in
/// front decides.
fn junction<'b>(
    list: &[Expr],
    decides: bool,
    batch: &'b Batch,
    rows: Rows<'_>,
    context: &Context,
) -> Result<Cow<'b, Vector>> {
    let len = rows.len();
    let mut result: Vec<Option<bool>> = vec![Some(!decides); len];
    let mut open: Vec<u32> = (0..len as u32).collect();
    for one in list {
        if open.is_empty() {
            break;
        }
        let places: Vec<u32> = open.iter().map(|at| rows.row(*at as usize) as u32).collect();
        let values = over(one, batch, Rows::These(&places), context)?;
        let mut next = Vec::with_capacity(open.len());
        for (number, at) in open.iter().enumerate() {
            match truth(&values, number) {
                Some(value) if value == decides => result[*at as usize] = Some(decides),
                Some(_) => next.push(*at),
                None => {
                    result[*at as usize] = None;
                    next.push(*at);
                }
            }
        }
        open = next;
    }
    Ok(Cow::Owned(bools(len, |at| result[at])))
}

/// CASE: a result is evaluated for the rows whose condition is the first that is true.
#[inline(never)]
fn case(
    arms: &[(Expr, Expr)],
    rest: &Expr,
    batch: &Batch,
    rows: Rows<'_>,
    context: &Context,
) -> Result<Vector> {
    // Results of the arms one behind the other, and where the one of each row is.
    let (mut results, mut place): (Option<Vector>, Vec<u32>) = (None, vec![0; rows.len()]);
    let mut open: Vec<u32> = (0..rows.len() as u32).collect();
    let in_batch = |rows_of: &[u32]| -> Vec<u32> {
        rows_of.iter().map(|at| rows.row(*at as usize) as u32).collect()
    };
    for arm in arms.iter().map(Some).chain([None]) {
        if open.is_empty() {
            break;
        }
        let (taken, result) = match arm {
            None => (std::mem::take(&mut open), rest),
            Some((condition, result)) => {
                let holds = over(condition, batch, Rows::These(&in_batch(&open)), context)?;
                let mut numbered = open.iter().enumerate();
                let (mut taken, mut left) = (Vec::new(), Vec::new());
                numbered.by_ref().for_each(|(number, at)| match holds.is_true(number) {
                    true => taken.push(*at),
                    false => left.push(*at),
                });
                open = left;
                (taken, result)
            }
        };
        if taken.is_empty() {
            continue;
        }
        let values = over(result, batch, Rows::These(&in_batch(&taken)), context)?.into_owned();
        let all = results.get_or_insert_with(|| values.empty_like(values.len()));
        let before = all.len() as u32;
        (before..).zip(&taken).for_each(|(behind, at)| place[*at as usize] = behind);
        all.append(values);
    }
    Ok(results.map_or(Vector::Any(Vec::new()), |results| results.pick(&place)))
}

/// A function of values from columns.
fn call<'b>(
    function: &'static Function,
    args: &[Expr],
    batch: &'b Batch,
    rows: Rows<'_>,
    context: &Context,
) -> Result<Cow<'b, Vector>> {
    // Only this stays on the stack while an argument is evaluated.
    let mut values = Vec::with_capacity(args.len());
    for arg in args {
        values.push(over(arg, batch, rows, context)?);
    }
    applied(function, &values, rows.len(), context).map(Cow::Owned)
}

/// A function of `len` values in each of the columns `values`.
#[inline(never)]
fn applied(
    function: &'static Function,
    values: &[Cow<'_, Vector>],
    len: usize,
    context: &Context,
) -> Result<Vector> {
    if let [a, b] = values {
        let made = binary(function, a, b, len).or_else(|| texts(function, a, b, len));
        if let Some(made) = made {
            return Ok(made);
        }
        if let Some(made) = by_reference(function, a, b, len)? {
            return Ok(made);
        }
    }
    if len > 0 && values.iter().all(|column| matches!(**column, Vector::Same(..))) {
        let row: Row = values.iter().map(|column| column.get(0)).collect();
        let value = crate::expr::eval::apply(function, &row, context)?;
        return Ok(Vector::Same(value, len));
    }
    let mut out = Vector::of(function.result, len);
    let mut row: Row = Vec::with_capacity(values.len());
    for at in 0..len {
        row.clear();
        row.extend(values.iter().map(|column| column.get(at)));
        out.push(crate::expr::eval::apply(function, &row, context)?);
    }
    Ok(out)
}

/// Comparisons and sums of values that are not copied for it; `None` for anything else.
fn by_reference(function: &Function, a: &Vector, b: &Vector, len: usize) -> Result<Option<Vector>> {
    fn value(values: &Vector, at: usize) -> Option<&Datum> {
        match values {
            Vector::Any(values) => values.get(at),
            Vector::Same(value, _) => Some(value),
            _ => None,
        }
    }
    // Where all rows have the same, the value is made once.
    if !matches!(
        (a, b),
        (Vector::Any(_), Vector::Any(_) | Vector::Same(..)) | (Vector::Same(..), Vector::Any(_))
    ) {
        return Ok(None);
    }
    let pairs = (0..len).map(|at| match (value(a, at), value(b, at)) {
        (Some(Datum::Null) | None, _) | (_, Some(Datum::Null) | None) => None,
        (Some(a), Some(b)) => Some((a, b)),
    });
    if let Some(holds) = function.holds {
        let mut out = Numbers::with_capacity(len);
        pairs.for_each(|pair| out.push(pair.map(|(a, b)| holds(a.compare(b)))));
        return Ok(Some(Vector::Bool(out)));
    }
    let sum = match (function.name, function.args.as_slice()) {
        ("+", [SqlType::Numeric, SqlType::Numeric]) => numeric::add,
        ("-", [SqlType::Numeric, SqlType::Numeric]) => numeric::subtract,
        ("*", [SqlType::Numeric, SqlType::Numeric]) => numeric::multiply,
        _ => return Ok(None),
    };
    let mut out = Vec::with_capacity(len);
    for pair in pairs {
        out.push(match pair {
            None => Datum::Null,
            Some((Datum::Numeric(a), Datum::Numeric(b))) => Datum::Numeric(sum(a, b)?),
            Some(others) => unreachable!("the binder casts the arguments: {others:?}"),
        });
    }
    Ok(Some(Vector::Any(out)))
}

/// Comparisons of texts; `None` for anything else.
fn texts(function: &Function, a: &Vector, b: &Vector, len: usize) -> Option<Vector> {
    enum Side<'v> {
        Column(&'v Texts),
        Same(&'v str),
    }
    fn side(values: &Vector) -> Option<Side<'_>> {
        match values {
            Vector::Text(texts) => Some(Side::Column(texts)),
            Vector::Same(Datum::Text(text), _) => Some(Side::Same(text)),
            _ => None,
        }
    }
    fn text<'v>(side: &Side<'v>, at: usize) -> Option<&'v str> {
        match side {
            Side::Column(texts) => texts.get(at),
            Side::Same(text) => Some(text),
        }
    }
    let (holds, a, b) = (function.holds?, side(a)?, side(b)?);
    Some(bools(len, |at| Some(holds(text(&a, at)?.as_bytes().cmp(text(&b, at)?.as_bytes())))))
}

/// A number of a column as this type, or the one number that all rows have.
enum Side<'v, T: Copy> {
    Column(Cow<'v, Numbers<T>>),
    Same(Option<T>),
}

impl<T: Copy + Default> Side<'_, T> {
    #[inline]
    fn get(&self, at: usize) -> Option<T> {
        match self {
            Side::Column(numbers) => numbers.get(at),
            Side::Same(value) => *value,
        }
    }
}

/// Numbers of `numeric` of one scale.
struct Scaled<'v> {
    unscaled: Side<'v, i128>,
    scale: u16,
}

impl<'v> Scaled<'v> {
    fn of(values: &'v Vector) -> Option<Scaled<'v>> {
        match values {
            Vector::Numeric(Decimals { unscaled, scale }) => {
                let unscaled = Side::Column(Cow::Borrowed(unscaled));
                Some(Scaled { unscaled, scale: scale.unwrap_or(0) })
            }
            Vector::Same(Datum::Numeric(number), _) => {
                let (unscaled, scale) = number.unscaled()?;
                Some(Scaled { unscaled: Side::Same(Some(unscaled)), scale })
            }
            _ => None,
        }
    }

    /// The same numbers with a scale that is not smaller; `None` where one overflows.
    fn with_scale(self, scale: u16) -> Option<Side<'v, i128>> {
        if scale == self.scale {
            return Some(self.unscaled);
        }
        let factor = 10i128.checked_pow(u32::from(scale - self.scale))?;
        Some(match self.unscaled {
            Side::Same(None) => Side::Same(None),
            Side::Same(Some(number)) => Side::Same(Some(number.checked_mul(factor)?)),
            Side::Column(numbers) => {
                let mut numbers = numbers.into_owned();
                for number in &mut numbers.values {
                    *number = number.checked_mul(factor)?;
                }
                Side::Column(Cow::Owned(numbers))
            }
        })
    }
}

/// Comparisons and sums of `numeric`; `None` for anything else, and beyond 128 bits.
fn decimals(function: &Function, a: &Vector, b: &Vector, len: usize) -> Option<Vector> {
    let (a, b) = (Scaled::of(a)?, Scaled::of(b)?);
    let made = |unscaled, scale| Vector::Numeric(Decimals { unscaled, scale: Some(scale) });
    if function.name == "*" {
        let scale = a.scale.checked_add(b.scale).filter(|scale| *scale <= Decimal::MAX_SCALE)?;
        let product = checked(&a.unscaled, &b.unscaled, len, i128::checked_mul)?;
        return Some(made(product, scale));
    }
    let scale = a.scale.max(b.scale);
    let (a, b) = (a.with_scale(scale)?, b.with_scale(scale)?);
    compared(function, &a, &b, len, Ord::cmp).or_else(|| {
        let sum: fn(i128, i128) -> Option<i128> = match function.name {
            "+" => i128::checked_add,
            "-" => i128::checked_sub,
            _ => return None,
        };
        Some(made(checked(&a, &b, len, sum)?, scale))
    })
}

/// Comparisons and sums of numbers; `None` for anything else, and where a sum overflows, which the
/// slow way tells.
fn binary(function: &Function, a: &Vector, b: &Vector, len: usize) -> Option<Vector> {
    fn int4(values: &Vector) -> Option<Side<'_, i32>> {
        match values {
            Vector::Int4(numbers) => Some(Side::Column(Cow::Borrowed(numbers))),
            Vector::Same(Datum::Int4(value), _) => Some(Side::Same(Some(*value))),
            _ => None,
        }
    }
    fn int8(values: &Vector) -> Option<Side<'_, i64>> {
        match values {
            Vector::Int8(numbers) => Some(Side::Column(Cow::Borrowed(numbers))),
            Vector::Same(Datum::Int8(value), _) => Some(Side::Same(Some(*value))),
            _ => None,
        }
    }
    fn float8(values: &Vector) -> Option<Side<'_, f64>> {
        match values {
            Vector::Float8(numbers) => Some(Side::Column(Cow::Borrowed(numbers))),
            Vector::Same(Datum::Float8(value), _) => Some(Side::Same(Some(*value))),
            _ => None,
        }
    }
    fn date(values: &Vector) -> Option<Side<'_, i32>> {
        match values {
            Vector::Date(numbers) => Some(Side::Column(Cow::Borrowed(numbers))),
            Vector::Same(Datum::Date(value), _) => Some(Side::Same(Some(*value))),
            _ => None,
        }
    }
    match function.args.as_slice() {
        [SqlType::Numeric, SqlType::Numeric] => decimals(function, a, b, len),
        [SqlType::Date, SqlType::Date] => {
            let (a, b) = (date(a)?, date(b)?);
            compared(function, &a, &b, len, Ord::cmp)
        }
        [SqlType::Int4, SqlType::Int4] => {
            let (a, b) = (int4(a)?, int4(b)?);
            compared(function, &a, &b, len, Ord::cmp).or_else(|| {
                let sum: fn(i32, i32) -> Option<i32> = match function.name {
                    "+" => i32::checked_add,
                    "-" => i32::checked_sub,
                    "*" => i32::checked_mul,
                    "/" => i32::checked_div,
                    "%" | "mod" => i32::checked_rem,
                    _ => return None,
                };
                checked(&a, &b, len, sum).map(Vector::Int4)
            })
        }
        [SqlType::Int8, SqlType::Int8] => {
            let (a, b) = (int8(a)?, int8(b)?);
            compared(function, &a, &b, len, Ord::cmp).or_else(|| {
                let sum: fn(i64, i64) -> Option<i64> = match function.name {
                    "+" => i64::checked_add,
                    "-" => i64::checked_sub,
                    "*" => i64::checked_mul,
                    "/" => i64::checked_div,
                    "%" | "mod" => i64::checked_rem,
                    _ => return None,
                };
                checked(&a, &b, len, sum).map(Vector::Int8)
            })
        }
        [SqlType::Float8, SqlType::Float8] => {
            let (a, b) = (float8(a)?, float8(b)?);
            let order = |a: &f64, b: &f64| rightlink::internal::datum::compare_floats(*a, *b);
            compared(function, &a, &b, len, order)
        }
        _ => None,
    }
}

fn compared<T: Copy + Default>(
    function: &Function,
    a: &Side<'_, T>,
    b: &Side<'_, T>,
    len: usize,
    order: impl Fn(&T, &T) -> Ordering,
) -> Option<Vector> {
    let holds = function.holds?;
    let plain = |side: &Side<'_, T>| match side {
        Side::Column(numbers) => numbers.nulls.is_empty(),
        Side::Same(value) => value.is_some(),
    };
    if plain(a) && plain(b) {
        let value = |side: &Side<'_, T>, at: usize| match side {
            Side::Column(numbers) => numbers.values[at],
            Side::Same(value) => value.unwrap_or_default(),
        };
        let values = (0..len).map(|at| holds(order(&value(a, at), &value(b, at)))).collect();
        return Some(Vector::Bool(Numbers::all(values)));
    }
    Some(bools(len, |at| Some(holds(order(&a.get(at)?, &b.get(at)?)))))
}

fn checked<T: Copy + Default>(
    a: &Side<'_, T>,
    b: &Side<'_, T>,
    len: usize,
    sum: impl Fn(T, T) -> Option<T>,
) -> Option<Numbers<T>> {
    let mut out = Numbers::with_capacity(len);
    for at in 0..len {
        match (a.get(at), b.get(at)) {
            (Some(a), Some(b)) => out.push(Some(sum(a, b)?)),
            _ => out.push(None),
        }
    }
    Some(out)
}
