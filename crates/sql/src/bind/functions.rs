//! Calls of functions that users made.
//!
//! The body of a function is bound where the function is called, as the query of a view is: it sees
//! its arguments, which are the columns of one row around it, and nothing else of the statement. So
//! the planner sees through it, and no call happens when the statement runs.
//!
//! Invariants: each argument is worked out once for a row. A function that calls itself ends at the
//! levels that views have together.
//! Does not do: finding functions (`user_types::functions`), making them (`exec::ddl::functions`).

use sqlparser::ast::TableAlias;

use super::Binder;
use super::from::{Sourced, renamed};
use super::lock::refuse_locks;
use super::scope::{Relation, Scope, ScopeColumn};
use super::select::Purpose;
use super::writing_with::writes_in_with;
use crate::error::{Result, SqlError, code};
use crate::expr::registry::{Miss, no_function};
use crate::expr::{ColumnId, Expr, SubqueryKind, Typed};
use crate::notes::functions::Gives;
use crate::parse::view::function_body;
use crate::plan::bound::Bound;
use crate::plan::rel::{Join, JoinKind, Limit, Rel};
use crate::types::cast::{self, CastContext};
use crate::types::composite::Field;
use crate::types::{Datum, ElementType, SqlType};
use crate::user_types::functions::{Part, UserFunction, in_definition, not_built};

/// The arguments that a body which is being bound sees as `$1` and so on.
#[derive(Clone)]
pub(super) struct Arguments {
    first: ColumnId,
    parts: Vec<Part>,
}

impl Arguments {
    /// An argument, counted from 1.
    pub(super) fn value(&self, number: usize) -> Result<Typed> {
        match number.checked_sub(1).and_then(|at| Some((at, self.parts.get(at)?))) {
            Some((at, part)) => Ok(column(self.first + at, part).value()),
            None => {
                let message = format!("there is no parameter ${number}");
                Err(SqlError::new(code::UNDEFINED_PARAMETER, message))
            }
        }
    }
}

fn column(id: ColumnId, part: &Part) -> ScopeColumn {
    let name = part.name.clone().unwrap_or_default();
    ScopeColumn { modifier: part.modifier, ..ScopeColumn::new(id, name, part.ty) }
}

/// A call that is bound.
struct BoundCall {
    /// The row of the arguments; none if one of them is null that may not be.
    arguments: Rel,
    /// The rows of the body for it.
    body: Rel,
    /// The columns of the results.
    columns: Vec<ScopeColumn>,
}

impl Binder<'_> {
    /// The function that these parts name, if a user made it.
    pub(super) fn user_function(&mut self, parts: &[String]) -> Result<Option<UserFunction>> {
        let Some(found) = self.catalog.function_named(parts)? else { return Ok(None) };
        if self.kept || self.views.is_new() {
            return Err(in_definition(&found));
        }
        self.once |= !found.settled;
        found.used.iter().for_each(|used| self.use_type(used.clone()));
        Ok(Some(found))
    }

    /// A call of a function that gives a value.
    pub(super) fn user_call(&mut self, function: &UserFunction, args: Vec<Typed>) -> Result<Typed> {
        if function.notes.gives == Gives::Table {
            return Err(SqlError::unsupported(format!("{}() outside of FROM", function.bare())));
        }
        let BoundCall { arguments, body, columns } = self.bound_call(function, args)?;
        if function.notes.gives == Gives::Set {
            return self.unnested_call(function, arguments, body, columns);
        }
        let Some(result) = columns.first() else {
            // Nobody asks what the body gives.
            return Ok(Typed::new(Expr::null(), SqlType::Void));
        };
        let one = Some(Expr::Const(Datum::Int8(1)));
        let first = Limit { input: body, limit: one, offset: None, ties: None };
        let value = Self::value_of(Rel::Limit(Box::new(first)), result.id);
        let id = self.new_columns(1);
        let row = Rel::Project { input: Box::new(arguments), output: vec![(id, value)] };
        Ok(Typed { modifier: result.modifier, ..Typed::new(Self::value_of(row, id), result.ty) })
    }

    /// A call of a function that gives rows, where a value stands: an array of them, unnested.
    fn unnested_call(
        &mut self,
        function: &UserFunction,
        arguments: Rel,
        body: Rel,
        columns: Vec<ScopeColumn>,
    ) -> Result<Typed> {
        let [result] = columns.as_slice() else {
            return Err(SqlError::unsupported(format!("{}() outside of FROM", function.bare())));
        };
        let Some(element) = ElementType::of(result.ty) else {
            let ty = result.ty.name();
            return Err(not_built(&format!("that gives rows of {ty}, called outside of FROM")));
        };
        let rows = Bound::new(lateral(arguments, body), vec![result.id], Vec::new());
        let kind = SubqueryKind::Array { element, of_arrays: false };
        let all = Typed::new(Self::subquery(kind, rows), SqlType::Array(element));
        self.unnested(vec![Typed { modifier: result.modifier, ..all }])
    }

    /// A column of the first row of a query as a value.
    fn value_of(rel: Rel, column: ColumnId) -> Expr {
        Self::subquery(SubqueryKind::Scalar, Bound::new(rel, vec![column], Vec::new()))
    }

    /// A call in FROM of a function that gives rows.
    pub(super) fn user_rows(
        &mut self,
        function: &UserFunction,
        args: Vec<Typed>,
        alias: Option<&TableAlias>,
    ) -> Result<Sourced> {
        let BoundCall { arguments, body, columns } = self.bound_call(function, args)?;
        let is_one = columns.len() == 1 && function.notes.gives == Gives::Set;
        let relation =
            Relation { alias: function.bare().to_owned(), columns, ..Relation::default() };
        let mut relation = renamed(relation, alias)?;
        if is_one && alias.is_some_and(|alias| alias.columns.is_empty()) {
            // An alias of the function is one of its column, too.
            relation.columns[0].name.clone_from(&relation.alias);
        }
        Ok(Sourced::of(lateral(arguments, body), relation))
    }

    fn bound_call(&mut self, function: &UserFunction, args: Vec<Typed>) -> Result<BoundCall> {
        let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        let missing = || no_function(function.bare(), &types, &Miss::None);
        if args.len() != function.arguments.len() {
            return Err(missing());
        }
        let first = self.new_columns(args.len());
        let mut output = Vec::with_capacity(args.len());
        for (at, (value, part)) in args.into_iter().zip(&function.arguments).enumerate() {
            if cast::context(value.ty, part.ty) != Some(CastContext::Implicit) {
                return Err(missing());
            }
            output.push((first + at, self.coerce(value, part.ty)?));
        }
        let given = output.len();
        let mut arguments = Rel::Project { input: Box::new(Rel::Single), output };
        if function.notes.is_strict {
            let is_given =
                |id| Expr::Not(Box::new(Expr::IsNull(Box::new(Expr::Column(id)), false)));
            let conditions = (first..first + given).map(is_given).collect();
            arguments = Rel::Filter { input: Box::new(arguments), conditions };
        }
        let (body, columns) = self.body_of(function, first)?;
        Ok(BoundCall { arguments, body, columns })
    }

    /// Fails unless the body of a new function gives what the function promises.
    pub(crate) fn check_function(&mut self, function: &UserFunction) -> Result<()> {
        let first = self.new_columns(function.arguments.len());
        self.body_of(function, first).map(drop)
    }

    /// The rows of the body for arguments that are columns from `first` on, and their columns.
    fn body_of(
        &mut self,
        function: &UserFunction,
        first: ColumnId,
    ) -> Result<(Rel, Vec<ScopeColumn>)> {
        let Some(kept) = function_body(&function.notes.body)? else {
            return match function.notes.gives {
                Gives::Void => Ok((Rel::Single, Vec::new())),
                _ => Err(mismatch(function).detail(
                    "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.",
                )),
            };
        };
        if writes_in_with(&kept.query) {
            return Err(not_built("that writes"));
        }
        let parts = function.arguments.clone();
        let columns = parts.iter().enumerate().filter(|(_, part)| part.name.is_some());
        let columns = columns.map(|(at, part)| column(first + at, part)).collect();
        let alias = function.bare().to_owned();
        let around = Scope::of(Relation { alias, columns, ..Relation::default() });
        let arguments = Arguments { first, parts };
        let bound = self.inside_function(around, arguments, kept.depth, |binder| {
            binder.query_for(&kept.query, Purpose::Inner)
        })?;
        refuse_locks(&bound)?;
        self.results(function, bound)
    }

    /// The rows of a body with the types that the function promises.
    fn results(
        &mut self,
        function: &UserFunction,
        bound: Bound,
    ) -> Result<(Rel, Vec<ScopeColumn>)> {
        let values: Vec<Typed> = bound.scope_columns().iter().map(ScopeColumn::value).collect();
        let wanted = match (function.results.as_slice(), function.notes.gives) {
            ([one], gives) => match one.ty {
                SqlType::Composite(ty) if values.len() != 1 || values[0].ty != one.ty => {
                    let fields: Vec<Part> = ty.fields().iter().map(part_of_field).collect();
                    if gives == Gives::Value {
                        return self.row_of_results(function, one, bound.rel, values);
                    }
                    fields
                }
                SqlType::Composite(_) if gives.is_set() => {
                    return Err(not_built("whose rows are values of a composite type"));
                }
                _ => vec![one.clone()],
            },
            (several, _) => several.to_vec(),
        };
        if function.notes.gives == Gives::Void {
            return Ok((bound.rel, Vec::new()));
        }
        if values.len() != wanted.len() {
            let detail = match values.len() < wanted.len() {
                true => "Final statement returns too few columns.",
                false => "Final statement returns too many columns.",
            };
            let one = "Final statement must return exactly one column.";
            let detail = if wanted.len() == 1 { one } else { detail };
            return Err(mismatch(function).detail(detail));
        }
        let first = self.new_columns(wanted.len());
        let (mut output, mut columns) = (Vec::new(), Vec::new());
        for (at, (value, part)) in values.into_iter().zip(&wanted).enumerate() {
            output.push((first + at, self.result(function, value, part.ty)?));
            let name = part.name.clone().unwrap_or_else(|| function.bare().to_owned());
            let named = ScopeColumn::new(first + at, name, part.ty);
            columns.push(ScopeColumn { modifier: part.modifier, ..named });
        }
        Ok((Rel::Project { input: Box::new(bound.rel), output }, columns))
    }

    /// Columns of a body as the fields of one value.
    fn row_of_results(
        &mut self,
        function: &UserFunction,
        part: &Part,
        rel: Rel,
        values: Vec<Typed>,
    ) -> Result<(Rel, Vec<ScopeColumn>)> {
        let row = self.row_value(values)?;
        let expr = self.result(function, row, part.ty)?;
        let id = self.new_columns(1);
        let rel = Rel::Project { input: Box::new(rel), output: vec![(id, expr)] };
        Ok((rel, vec![ScopeColumn::new(id, function.bare(), part.ty)]))
    }

    fn result(&mut self, function: &UserFunction, value: Typed, ty: SqlType) -> Result<Expr> {
        let actual = value.ty;
        self.coerce_checked(value, ty, CastContext::Assignment).map_err(|_| {
            mismatch(function).detail(format!("Actual return type is {}.", actual.name()))
        })
    }
}

/// The rows of a body for the row of its arguments.
fn lateral(arguments: Rel, body: Rel) -> Rel {
    let (kind, on) = (JoinKind::Inner, Vec::new());
    Rel::Join(Box::new(Join { kind, left: arguments, right: body, on, is_list: true }))
}

fn part_of_field(field: &Field) -> Part {
    Part { name: Some(field.name.clone()), ty: field.ty, modifier: field.modifier }
}

/// The error for a body that gives other things than the function promises.
fn mismatch(function: &UserFunction) -> SqlError {
    let message =
        format!("return type mismatch in function declared to return {}", function.result().name());
    SqlError::new(code::INVALID_FUNCTION, message)
}
