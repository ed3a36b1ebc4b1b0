//! Functions that give rows, called in the list of a SELECT and in its GROUP BY and ORDER BY.
//!
//! Each call becomes a column of the query, whose number it has from the start, as a window
//! function does. When the clauses of the query are put together, calls that do not need one
//! another give their rows side by side in one relation, and those that need them in the next.
//!
//! Invariants: a call inside of CASE, COALESCE, an aggregate or a window function is refused, as in
//! PostgreSQL. Does not do: functions in FROM (`from`).

use std::collections::BTreeSet;

use super::records::row_of_call;
use super::{Binder, Place};
use crate::error::{Result, SqlError, code};
use crate::expr::function::SetFunction;
use crate::expr::{ColumnId, Expr, Typed, columns_of};
use crate::plan::rel::{Rel, SetCall};
use crate::types::SqlType;

const FROM: &str = "functions in FROM";

/// Calls of one SELECT.
#[derive(Default)]
pub(super) struct Sets {
    calls: Vec<SetCall>,
    /// How many were named, equal ones included.
    named: usize,
    /// Where the call stands that is being bound, and the last one that gives rows.
    pub(super) at: Option<usize>,
    last: Option<usize>,
    /// Must the order be the last thing done, because WITH TIES looks at it?
    pub(super) early: bool,
    /// May a row of VALUES name them, because it is the only one?
    pub(super) in_row: bool,
}

impl Sets {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Everything that is said over rows of the source, or over groups of them.
    pub(super) fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        self.calls.iter_mut().flat_map(|call| &mut call.args).collect()
    }

    /// Does an expression have the value of a call?
    pub(super) fn is_in(&self, expr: &Expr) -> bool {
        let mut named = BTreeSet::new();
        columns_of(expr, &mut named);
        self.calls.iter().any(|call| is_named(call, &named))
    }

    /// Takes out the calls that these expressions need.
    pub(super) fn needed_by<'e>(&mut self, exprs: impl Iterator<Item = &'e Expr>) -> Sets {
        let mut named = BTreeSet::new();
        exprs.for_each(|expr| columns_of(expr, &mut named));
        // A call names only calls that were made before it.
        for call in self.calls.iter().rev() {
            if is_named(call, &named) {
                call.args.iter().for_each(|arg| columns_of(arg, &mut named));
            }
        }
        let all = std::mem::take(&mut self.calls);
        let (calls, rest) = all.into_iter().partition(|call| is_named(call, &named));
        self.calls = rest;
        Sets { calls, ..Sets::default() }
    }

    /// The rows of `rel`, each as often as the calls give rows for it.
    pub(super) fn over(self, mut rel: Rel) -> Rel {
        let mut rest = self.calls;
        while !rest.is_empty() {
            let waiting: BTreeSet<ColumnId> =
                rest.iter().flat_map(|call| call.columns.clone()).collect();
            let (calls, later) = rest.into_iter().partition(|call: &SetCall| {
                let mut named = BTreeSet::new();
                call.args.iter().for_each(|arg| columns_of(arg, &mut named));
                named.is_disjoint(&waiting)
            });
            rel = Rel::ProjectSet { input: Box::new(rel), calls };
            rest = later;
        }
        rel
    }
}

/// Are there columns of the call among these?
fn is_named(call: &SetCall, named: &BTreeSet<ColumnId>) -> bool {
    named.range(call.columns.clone()).next().is_some()
}

/// The result of a call: a value, or a row of several columns.
fn value_of(call: &SetCall) -> Typed {
    let fields = call.function.fields(call.ty);
    if fields.is_empty() {
        return Typed::new(Expr::Column(call.columns.start), call.ty);
    }
    let names = fields.iter().map(|(name, _)| (*name).to_owned()).collect();
    let value = |(id, (_, ty)): (ColumnId, &(&str, SqlType))| Typed::new(Expr::Column(id), *ty);
    row_of_call(names, call.columns.clone().zip(&fields).map(value).collect())
}

impl Binder<'_> {
    /// The value of a call: that of an equal one, if there is one.
    pub(super) fn set_call(
        &mut self,
        function: SetFunction,
        args: Vec<Expr>,
        ty: SqlType,
    ) -> Result<Typed> {
        let refused = match self.place {
            Place::Windows | Place::InsideAggregate | Place::InsideWindow => None,
            Place::None("GROUP BY") => None,
            Place::None("VALUES") if self.sets.in_row => None,
            Place::None(FROM) => {
                let message = "set-returning functions must appear at top level of FROM";
                return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
            }
            Place::Aggregates => Some("HAVING"),
            Place::None(place) => Some(place),
        };
        if let Some(place) = refused {
            let message = format!("set-returning functions are not allowed in {place}");
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        self.sets.named += 1;
        self.sets.last = self.sets.at;
        let same = |known: &&SetCall| {
            known.function == function
                && known.args.len() == args.len()
                && known.args.iter().zip(&args).all(|(a, b)| a.same(b))
        };
        let is_steady = !args.iter().any(Expr::is_volatile);
        if let Some(known) = self.sets.calls.iter().find(same).filter(|_| is_steady) {
            return Ok(value_of(known));
        }
        let width = function.fields(ty).len().max(1);
        let first = self.new_columns(width);
        let call = SetCall { columns: first..first + width, function, args, ty };
        let value = value_of(&call);
        self.sets.calls.push(call);
        Ok(value)
    }

    /// Binds what may not call functions that give rows; `fault` is the message where it does.
    pub(super) fn without_sets<T>(
        &mut self,
        fault: &str,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = self.sets.named;
        let bound = work(self)?;
        if self.sets.named == before {
            return Ok(bound);
        }
        let hint = "You might be able to move the set-returning function into a LATERAL FROM item.";
        let error = SqlError::new(code::FEATURE_NOT_SUPPORTED, fault).hint(hint);
        Err(error.at(self.sets.last))
    }

    /// A call in FROM, over arguments that are bound.
    pub(super) fn set_in_from(&mut self, name: &str, args: Vec<Typed>) -> Result<SetCall> {
        let around = std::mem::take(&mut self.sets);
        let value = self.at_place(Place::Windows, |binder| binder.named(name, args));
        let own = std::mem::replace(&mut self.sets, around).calls.pop();
        value?;
        Ok(own.expect("all functions of its name give rows"))
    }
}
