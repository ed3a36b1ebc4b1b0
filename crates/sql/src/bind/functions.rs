//! Calls of functions that users made.
//!
//! The body of a function is bound where the function is called, as the query of a view is: it sees
//! its arguments, which are the columns of one row around it, and nothing else of the statement. So
//! the planner sees through it, and no call happens when the statement runs.
//!
//! A function that gives rows where a value stands gives an array of them, which is unnested.
//!
//! Invariants: each argument is worked out once for a row. A function that calls itself ends at the
//! levels that views have together.
//! Does not do: finding functions (`user_types::functions`), choosing among them (`overloads`),
//! making them (`exec::ddl::functions`).

use std::collections::BTreeMap;

use sqlparser::ast::TableAlias;

use super::Binder;
use super::from::{Sourced, renamed};
use super::lock::refuse_locks;
use super::overloads::Chosen;
use super::promise::{Elements, Promise, Results, Shape, name_of, no_result};
use super::records::{field_by, row_of, shape_of, with_shape};
use super::scope::{Relation, Scope, ScopeColumn};
use super::select::Purpose;
use crate::error::{Result, SqlError, code};
use crate::expr::immutable::{self, is_immutable};
use crate::expr::{ColumnId, Expr, SubqueryKind, Typed, nodes_of};
use crate::notes::functions::Gives;
use crate::parse::view::{FunctionBody, function_body};
use crate::plan::bound::Bound;
use crate::plan::rel::{Join, JoinKind, Limit, Rel};
use crate::plan::rewrite::{is_cheap, substituted};
use crate::plan::window::{Frame, Window, WindowCall, WindowFunction};
use crate::types::cast::CastContext;
use crate::types::volatility::Volatility;
use crate::types::{Datum, SqlType};
use crate::user_types::functions::{Part, UserFunction};

/// The arguments that a body which is being bound sees as `$1` and so on.
#[derive(Clone)]
pub(super) struct Arguments {
    values: ArgumentValues,
    parts: Vec<Part>,
}

/// The values of arguments.
#[derive(Clone, Copy)]
enum ArgumentValues {
    /// Columns of a row around the body, from this one on.
    Columns(ColumnId),
    /// The parameters of the statement.
    Parameters,
}

impl Arguments {
    /// The arguments of a body whose statements run.
    pub(super) fn parameters(parts: Vec<Part>) -> Arguments {
        Arguments { values: ArgumentValues::Parameters, parts }
    }

    /// The arguments that have names, as columns of a row.
    pub(super) fn named_columns(&self) -> Vec<ScopeColumn> {
        let columns = self.parts.iter().enumerate().filter(|(_, part)| part.name.is_some());
        columns.map(|(at, _)| self.column(at)).collect()
    }

    fn column(&self, at: usize) -> ScopeColumn {
        let part = &self.parts[at];
        let (id, computed) = match self.values {
            ArgumentValues::Columns(first) => (first + at, None),
            ArgumentValues::Parameters => (at, Some(Box::new(Expr::Param(at)))),
        };
        let name = part.name.clone().unwrap_or_default();
        let modifier = part.modifier;
        ScopeColumn { modifier, computed, ..ScopeColumn::new(id, name, part.ty) }
    }

    /// The argument of this name.
    pub(super) fn named(&self, name: &str) -> Option<Typed> {
        let at = self.parts.iter().position(|part| part.name.as_deref() == Some(name))?;
        Some(self.column(at).value())
    }

    /// An argument, counted from 1.
    pub(super) fn value(&self, number: usize) -> Result<Typed> {
        match number.checked_sub(1).filter(|at| *at < self.parts.len()) {
            Some(at) => Ok(self.column(at).value()),
            None => {
                let message = format!("there is no parameter ${number}");
                Err(SqlError::new(code::UNDEFINED_PARAMETER, message))
            }
        }
    }
}

/// A call that is bound.
struct BoundCall {
    /// The row of the arguments; none if one of them is null that may not be.
    arguments: Rel,
    /// The rows of the body for it.
    body: Results,
}

impl Binder<'_> {
    /// A call of a function in place of a value.
    pub(super) fn user_call(&mut self, chosen: Chosen) -> Result<Typed> {
        let function = chosen.function.clone();
        let body = function_body(&function.notes.body)?;
        if self.is_run(&function, &body) {
            if let Some(place) = self.place_without_queries() {
                let what = format!("\"{}\", whose statements run, in {place}", function.bare());
                return Err(SqlError::unsupported(what));
            }
            return self.run_call(chosen);
        }
        let call = self.bound_call(chosen, body)?;
        if let Some(inlined) = self.inlined(&call, &function)? {
            return Ok(inlined);
        }
        if let Some(place) = self.place_without_queries() {
            let what =
                format!("\"{}\", which is no single expression, in {place}", function.bare());
            return Err(SqlError::unsupported(what));
        }
        let BoundCall { arguments, body } = call;
        let value = body.value();
        if function.notes.gives.is_set() {
            return self.unnested_call(lateral(arguments, body.rel), value);
        }
        if matches!(body.shape, Shape::Void) {
            // Nobody asks what the body gives.
            return Ok(value);
        }
        let shape = shape_of(&value.expr);
        let inner = self.new_columns(1);
        let first = first_row(projected(body.rel, inner, value.expr));
        let result = Self::value_of(first, inner);
        let id = self.new_columns(1);
        let row = Rel::Project { input: Box::new(arguments), output: vec![(id, result)] };
        let expr = Self::value_of(row, id);
        let expr = match shape {
            Some(nulls) if value.ty == SqlType::Record => with_shape(expr, nulls),
            _ => expr,
        };
        Ok(Typed { modifier: value.modifier, ..Typed::new(expr, value.ty) })
    }

    /// A call of a function that gives rows, where a value stands: an array of `value` in each of
    /// them, unnested.
    fn unnested_call(&mut self, rows: Rel, value: Typed) -> Result<Typed> {
        let Typed { ty, modifier, .. } = value;
        let shape = shape_of(&value.expr);
        let elements = Elements::of(Elements { ty, modifier, shape, is_boxed: false });
        let value = match elements.is_boxed {
            true => row_of(vec!["f1".to_owned()], vec![value]),
            false => value,
        };
        let id = self.new_columns(1);
        let rows = Bound::new(projected(rows, id, value.expr), vec![id], Vec::new());
        let kind = SubqueryKind::Array { element: elements.element(), of_arrays: false };
        self.elements_of(Self::subquery(kind, rows), &elements)
    }

    /// The elements of an array, one for a row.
    pub(super) fn elements_of(&mut self, array: Expr, elements: &Elements) -> Result<Typed> {
        let Elements { ty, modifier, shape, is_boxed } = elements;
        let array = Typed::new(array, SqlType::Array(elements.element()));
        let one = self.unnested(vec![Typed { modifier: *modifier, ..array }])?;
        Ok(match shape {
            Some(nulls) if *is_boxed => {
                Typed { modifier: *modifier, ..field_by(one.expr, nulls, 0) }
            }
            Some(nulls) if *ty == SqlType::Record => {
                Typed { expr: with_shape(one.expr, nulls.clone()), ..Typed::new(Expr::null(), *ty) }
            }
            _ => one,
        })
    }

    /// A call of a function whose body is an expression over its arguments as that expression, as
    /// PostgreSQL's `inline_function` makes it.
    fn inlined(&mut self, call: &BoundCall, function: &UserFunction) -> Result<Option<Typed>> {
        if function.notes.gives.is_set() || matches!(call.body.shape, Shape::Void) {
            return Ok(None);
        }
        let value = call.body.value();
        let Some(expr) = over_columns(&value.expr, &call.body.rel) else { return Ok(None) };
        let Rel::Project { output, .. } = without_filter(&call.arguments) else {
            unreachable!("the arguments are a projection")
        };
        let strict = function.notes.is_strict;
        if !may_replace(output, &expr, usize::from(strict)) {
            return Ok(None);
        }
        let given: BTreeMap<ColumnId, Expr> = output.iter().cloned().collect();
        self.count_copies(nodes_of(&expr))?;
        let mut expr = substituted(expr, &given);
        if function.notes.volatility == Volatility::Immutable && !is_immutable(&expr, &[]) {
            expr = immutable::declared(expr);
        }
        if strict && !output.is_empty() {
            let is_null =
                |(_, value): &(ColumnId, Expr)| Expr::IsNull(Box::new(value.clone()), false);
            let is_null = Expr::Or(output.iter().map(is_null).collect());
            expr = Expr::Case(vec![(is_null, Expr::null())], Box::new(expr));
        }
        Ok(Some(Typed { modifier: value.modifier, ..Typed::new(expr, value.ty) }))
    }

    /// A column of the first row of a query as a value.
    fn value_of(rel: Rel, column: ColumnId) -> Expr {
        Self::subquery(SubqueryKind::Scalar, Bound::new(rel, vec![column], Vec::new()))
    }

    /// A call in FROM of a function that gives rows, or one row of several columns.
    pub(super) fn user_rows(
        &mut self,
        chosen: Chosen,
        alias: Option<&TableAlias>,
        ordinality: bool,
    ) -> Result<Sourced> {
        let function = chosen.function.clone();
        let body = function_body(&function.notes.body)?;
        let Results { rel, columns, shape } = match self.is_run(&function, &body) {
            true => self.run_rows(chosen)?,
            false => self.body_rows(chosen, body)?,
        };
        let takes_alias = matches!(shape, Shape::Value) && function.result_name().is_none();
        let (mut rel, mut columns) = match shape {
            Shape::Composite { is_whole: true, .. } => self.expanded(rel, columns)?,
            _ => (rel, columns),
        };
        if ordinality {
            let id = self.new_columns(1);
            let (function, args) = (WindowFunction::RowNumber, Vec::new());
            let call = WindowCall { function, args, frame: Frame::usual() };
            let (partition, order) = (Vec::new(), Vec::new());
            let window = Box::new(Window { partition, order, calls: vec![(id, call)] });
            rel = Rel::Window { input: Box::new(rel), window };
            columns.push(ScopeColumn::new(id, "ordinality", SqlType::Int8));
        }
        let relation =
            Relation { alias: function.bare().to_owned(), columns, ..Relation::default() };
        let mut relation = renamed(relation, alias)?;
        if takes_alias && alias.is_some_and(|alias| alias.columns.is_empty()) {
            // An alias of the function is one of its column, too.
            relation.columns[0].name.clone_from(&relation.alias);
        }
        Ok(Sourced::of(rel, relation))
    }

    /// The rows of a call whose body is bound where it stands.
    fn body_rows(&mut self, chosen: Chosen, body: FunctionBody) -> Result<Results> {
        let is_set = chosen.function.notes.gives.is_set();
        let BoundCall { arguments, body } = self.bound_call(chosen, body)?;
        let rel = match is_set {
            true => lateral(arguments, body.rel),
            // There is a row in any case.
            false => {
                let (left, right) = (Rel::Single, lateral(arguments, first_row(body.rel)));
                let (kind, on) = (JoinKind::Left, Vec::new());
                Rel::Join(Box::new(Join { kind, left, right, on, is_list: false }))
            }
        };
        Ok(Results { rel, ..body })
    }

    fn bound_call(&mut self, chosen: Chosen, body: FunctionBody) -> Result<BoundCall> {
        let Chosen { function, values } = chosen;
        let given = values.len();
        let first = self.new_columns(given);
        let output = values.into_iter().enumerate().map(|(at, value)| (first + at, value));
        let mut arguments = Rel::Project { input: Box::new(Rel::Single), output: output.collect() };
        if function.notes.is_strict {
            let is_given =
                |id| Expr::Not(Box::new(Expr::IsNull(Box::new(Expr::Column(id)), false)));
            let conditions = (first..first + given).map(is_given).collect();
            arguments = Rel::Filter { input: Box::new(arguments), conditions };
        }
        Ok(BoundCall { arguments, body: self.body_of(&function, body, first)? })
    }

    /// Fails unless the body of a new function gives what the function promises.
    pub(crate) fn check_query(
        &mut self,
        function: &UserFunction,
        body: FunctionBody,
    ) -> Result<()> {
        let first = self.new_columns(function.arguments.len());
        self.body_of(function, body, first).map(drop)
    }

    /// The rows of the body for arguments that are columns from `first` on.
    fn body_of(
        &mut self,
        function: &UserFunction,
        body: FunctionBody,
        first: ColumnId,
    ) -> Result<Results> {
        let kept = match body {
            FunctionBody::Query(kept) => kept,
            FunctionBody::Statements => unreachable!("the caller has looked"),
            FunctionBody::Empty if function.notes.gives == Gives::Void => {
                return Ok(Results { rel: Rel::Single, columns: Vec::new(), shape: Shape::Void });
            }
            FunctionBody::Empty => return Err(no_result(function)),
        };
        let (values, parts) = (ArgumentValues::Columns(first), function.arguments.clone());
        let arguments = Arguments { values, parts };
        let (alias, columns) = (function.bare().to_owned(), arguments.named_columns());
        let around = Scope::of(Relation { alias, columns, ..Relation::default() });
        self.bodies.push(function.entry.clone());
        let bound = self.inside_function(around, arguments, kept.depth, |binder| {
            binder.query_for(&kept.query, Purpose::Inner)
        });
        self.bodies.pop();
        let bound = bound?;
        refuse_locks(&bound)?;
        self.results(function, bound)
    }

    /// The rows of a body with the types that the function promises.
    fn results(&mut self, function: &UserFunction, bound: Bound) -> Result<Results> {
        let values: Vec<Typed> = bound.scope_columns().iter().map(ScopeColumn::value).collect();
        let types: Vec<SqlType> = values.iter().map(|value| value.ty).collect();
        let promise = Promise::of(function, &types)?;
        if matches!(promise.shape, Shape::Void) {
            return Ok(Results { rel: bound.rel, columns: Vec::new(), shape: Shape::Void });
        }
        let first = self.new_columns(types.len());
        let (mut output, mut columns) = (Vec::new(), Vec::new());
        for (at, (value, part)) in values.into_iter().zip(&promise.columns).enumerate() {
            let expr = self.coerce_checked(value, part.ty, CastContext::Assignment);
            let expr = expr.map_err(|_| promise.refuse(function, at, types[at]))?;
            output.push((first + at, expr));
            let name = match (&part.name, promise.shape.is_record()) {
                (_, true) => name_of(part, at),
                (Some(name), false) => name.clone(),
                (None, false) => function.bare().to_owned(),
            };
            let named = ScopeColumn::new(first + at, name, part.ty);
            columns.push(ScopeColumn { modifier: part.modifier, ..named });
        }
        let rel = Rel::Project { input: Box::new(bound.rel), output };
        Ok(Results { rel, columns, shape: promise.shape })
    }
}

/// An expression over the columns of a body that is nothing but expressions, over the arguments.
fn over_columns(expr: &Expr, rel: &Rel) -> Option<Expr> {
    match rel {
        Rel::Single => Some(expr.clone()),
        Rel::Project { input, output } if may_replace(output, expr, 0) => {
            let expr = substituted(expr.clone(), &output.iter().cloned().collect());
            over_columns(&expr, input)
        }
        _ => None,
    }
}

/// May values stand in the places of their columns in an expression, which needs each so many times
/// more? None that costs something may be worked out twice, and none that differs from time to time
/// may be left out or worked out twice.
fn may_replace(values: &[(ColumnId, Expr)], expr: &Expr, more: usize) -> bool {
    let mut uses: BTreeMap<ColumnId, usize> = values.iter().map(|(id, _)| (*id, more)).collect();
    expr.walk(&mut |inner| {
        if let Expr::Column(id) = inner
            && let Some(count) = uses.get_mut(id)
        {
            *count += 1;
        }
    });
    let fits = |(id, value): &(ColumnId, Expr)| match uses[id] {
        0 => !value.is_volatile() && !value.has_query(),
        1 => true,
        _ => is_cheap(value),
    };
    !expr.has_query() && values.iter().all(fits)
}

/// Arguments without the condition that none of them is null.
fn without_filter(arguments: &Rel) -> &Rel {
    match arguments {
        Rel::Filter { input, .. } => input,
        other => other,
    }
}

/// The rows of a relation with an expression over them in place of their columns.
fn projected(rel: Rel, id: ColumnId, expr: Expr) -> Rel {
    Rel::Project { input: Box::new(rel), output: vec![(id, expr)] }
}

/// The first row of a relation.
fn first_row(rel: Rel) -> Rel {
    let one = Some(Expr::Const(Datum::Int8(1)));
    Rel::Limit(Box::new(Limit { input: rel, limit: one, offset: None, ties: None }))
}

/// The rows of a body for the row of its arguments.
fn lateral(arguments: Rel, body: Rel) -> Rel {
    let (kind, on) = (JoinKind::Inner, Vec::new());
    Rel::Join(Box::new(Join { kind, left: arguments, right: body, on, is_list: true }))
}
