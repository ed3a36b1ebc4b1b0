//! Membership of a column's values in a list, as IN and `= ANY` ask for it.
//!
//! Row by row a test goes through the list, which costs rows times values. Over a batch the values
//! are sorted once, and each row searches them.
//!
//! Invariants: the result is that of row by row: a null value makes what is found nowhere unknown.
//! Does not do: values that differ from row to row, or whose evaluation may fail.

use crate::error::Result;
use crate::exec::vector::{Numbers, Vector};
use crate::expr::{AnyOf, Context, Expr};
use crate::types::{Datum, SqlType};

/// Rows up to so many go through the list.
const FEW: usize = 8;

/// A value that is there without an evaluation.
fn constant<'v>(expr: &'v Expr, context: &'v Context) -> Option<&'v Datum> {
    match expr {
        Expr::Const(value) => Some(value),
        Expr::Param(at) => Some(&context.params[*at]),
        _ => None,
    }
}

/// The values of a list, sorted.
pub(super) struct Members<'v> {
    values: Vec<&'v Datum>,
    has_null: bool,
}

impl<'v> Members<'v> {
    /// Those of a list that `rows` rows are held against; `None` where going through the list is
    /// as good, or where a value is no constant.
    pub(super) fn of_list(
        list: &'v [Expr],
        rows: usize,
        context: &'v Context,
    ) -> Option<Members<'v>> {
        if rows <= FEW {
            return None;
        }
        let values = list.iter().map(|expr| constant(expr, context));
        Some(Members::sorted(values.collect::<Option<_>>()?))
    }

    /// Those of an array that `rows` rows are held against, if the test is that one of them is
    /// equal.
    pub(super) fn of_array(
        any: &'v AnyOf,
        rows: usize,
        context: &'v Context,
    ) -> Option<Members<'v>> {
        let Expr::Call(function, pair) = &any.test else { return None };
        let whole = |ty: &SqlType| matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
        let is_equality = !any.all
            && function.name == "="
            && function.holds.is_some()
            && matches!(pair.as_slice(), [Expr::Column(0), Expr::Column(1)])
            && (function.args.first() == function.args.get(1) || function.args.iter().all(whole));
        match constant(&any.array, context) {
            Some(Datum::Array(array)) if is_equality && rows > FEW => {
                let values: Vec<&Datum> = array.values().iter().collect();
                // Nothing is among no values, a null neither.
                (!values.is_empty()).then(|| Members::sorted(values))
            }
            _ => None,
        }
    }

    fn sorted(mut values: Vec<&'v Datum>) -> Members<'v> {
        let all = values.len();
        values.retain(|value| !value.is_null());
        let has_null = values.len() < all;
        values.sort_unstable_by(|a, b| a.compare(b));
        Members { values, has_null }
    }

    /// Whether each of `needles` is among the values, or, if `negated`, is not.
    pub(super) fn holding(
        &self,
        needles: &Vector,
        negated: bool,
        context: &Context,
    ) -> Result<Vector> {
        context.spend(self.values.len() + needles.len())?;
        let mut out = Numbers::with_capacity(needles.len());
        for at in 0..needles.len() {
            let found = match needles {
                Vector::Text(texts) => texts.get(at).map(|text| self.has_text(text)),
                _ if needles.is_null(at) => None,
                _ => Some(self.has(&needles.get(at))),
            };
            // A null may be what was looked for.
            let known = found.filter(|found| *found || !self.has_null);
            out.push(known.map(|found| found != negated));
        }
        Ok(Vector::Bool(out))
    }

    fn has(&self, needle: &Datum) -> bool {
        self.values.binary_search_by(|value| value.compare(needle)).is_ok()
    }

    /// As [`Members::has`], without a value made of the text.
    fn has_text(&self, needle: &str) -> bool {
        let order = |value: &&Datum| match value {
            Datum::Text(text) => text.as_bytes().cmp(needle.as_bytes()),
            other => unreachable!("the binder compares texts with texts: {other:?}"),
        };
        self.values.binary_search_by(order).is_ok()
    }
}
