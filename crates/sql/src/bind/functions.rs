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

use sqlparser::ast::TableAlias;

use super::Binder;
use super::from::{Sourced, renamed};
use super::lock::refuse_locks;
use super::overloads::Chosen;
use super::records::{field_by, row_of, row_of_type, shape_of, with_shape};
use super::scope::{Relation, Scope, ScopeColumn};
use super::select::Purpose;
use super::writing_with::writes_in_with;
use crate::error::{Result, SqlError, code};
use crate::expr::{ColumnId, Expr, SubqueryKind, Typed};
use crate::notes::functions::Gives;
use crate::parse::view::function_body;
use crate::plan::bound::Bound;
use crate::plan::rel::{Join, JoinKind, Limit, Rel};
use crate::plan::window::{Frame, Window, WindowCall, WindowFunction};
use crate::types::cast::CastContext;
use crate::types::composite::Field;
use crate::types::{CompositeType, Datum, ElementType, SqlType};
use crate::user_types::functions::{Part, UserFunction, not_built};

/// The arguments that a body which is being bound sees as `$1` and so on.
#[derive(Clone)]
pub(super) struct Arguments {
    first: ColumnId,
    parts: Vec<Part>,
}

impl Arguments {
    /// The argument of this name.
    pub(super) fn named(&self, name: &str) -> Option<Typed> {
        let at = self.parts.iter().position(|part| part.name.as_deref() == Some(name))?;
        Some(column(self.first + at, &self.parts[at]).value())
    }

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

/// The values of a body, and the way it gives them.
enum Shape {
    Void,
    /// A value in the one column.
    Value,
    /// A row of a type that has a name: in the one column, or in a column for each field.
    Composite {
        ty: CompositeType,
        is_whole: bool,
    },
    /// A row of the columns.
    Record,
}

/// The rows of a body.
struct Results {
    rel: Rel,
    columns: Vec<ScopeColumn>,
    shape: Shape,
}

impl Results {
    /// Each row as a value.
    fn value(&self) -> Typed {
        let values: Vec<Typed> = self.columns.iter().map(ScopeColumn::value).collect();
        match self.shape {
            Shape::Void => Typed::new(Expr::null(), SqlType::Void),
            Shape::Composite { ty, is_whole: false } => row_of_type(ty, values),
            Shape::Value | Shape::Composite { .. } => {
                values.into_iter().next().expect("it has one column")
            }
            Shape::Record => {
                let names = self.columns.iter().map(|column| column.name.clone()).collect();
                row_of(names, values)
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
        let BoundCall { arguments, body } = self.bound_call(chosen)?;
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
        let (ty, modifier) = (value.ty, value.modifier);
        let (value, element, is_boxed) = match ElementType::of(ty) {
            Some(element) => (value, element, false),
            None => {
                let element = ElementType::of(SqlType::Record).expect("rows are elements");
                (row_of(vec!["f1".to_owned()], vec![value]), element, true)
            }
        };
        let shape = shape_of(&value.expr);
        let id = self.new_columns(1);
        let rows = Bound::new(projected(rows, id, value.expr), vec![id], Vec::new());
        let kind = SubqueryKind::Array { element, of_arrays: false };
        let all = Typed::new(Self::subquery(kind, rows), SqlType::Array(element));
        let one = self.unnested(vec![Typed { modifier, ..all }])?;
        Ok(match shape {
            Some(nulls) if is_boxed => Typed { modifier, ..field_by(one.expr, &nulls, 0) },
            Some(nulls) if ty == SqlType::Record => {
                Typed { expr: with_shape(one.expr, nulls), ..Typed::new(Expr::null(), ty) }
            }
            _ => one,
        })
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
        let BoundCall { arguments, body } = self.bound_call(chosen)?;
        let Results { rel, columns, shape } = body;
        let rel = match function.notes.gives.is_set() {
            true => lateral(arguments, rel),
            // There is a row in any case.
            false => {
                let (left, right) = (Rel::Single, lateral(arguments, first_row(rel)));
                let (kind, on) = (JoinKind::Left, Vec::new());
                Rel::Join(Box::new(Join { kind, left, right, on, is_list: false }))
            }
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

    fn bound_call(&mut self, chosen: Chosen) -> Result<BoundCall> {
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
        Ok(BoundCall { arguments, body: self.body_of(&function, first)? })
    }

    /// Fails unless the body of a new function gives what the function promises.
    pub(crate) fn check_function(&mut self, function: &UserFunction) -> Result<()> {
        let first = self.new_columns(function.arguments.len());
        self.body_of(function, first).map(drop)
    }

    /// The rows of the body for arguments that are columns from `first` on.
    fn body_of(&mut self, function: &UserFunction, first: ColumnId) -> Result<Results> {
        let Some(kept) = function_body(&function.notes.body)? else {
            return match function.notes.gives {
                Gives::Void => {
                    Ok(Results { rel: Rel::Single, columns: Vec::new(), shape: Shape::Void })
                }
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
    fn results(&mut self, function: &UserFunction, bound: Bound) -> Result<Results> {
        let values: Vec<Typed> = bound.scope_columns().iter().map(ScopeColumn::value).collect();
        if function.notes.gives == Gives::Void {
            return Ok(Results { rel: bound.rel, columns: Vec::new(), shape: Shape::Void });
        }
        let (wanted, shape) = match function.results.as_slice() {
            [one] => match one.ty {
                SqlType::Composite(ty) => {
                    let is_whole = matches!(values.as_slice(), [only] if only.ty == one.ty);
                    let fields = ty.fields().iter().map(part_of_field).collect();
                    let wanted = if is_whole { vec![one.clone()] } else { fields };
                    (wanted, Shape::Composite { ty, is_whole })
                }
                _ => (vec![one.clone()], Shape::Value),
            },
            several => (several.to_vec(), Shape::Record),
        };
        let is_value = matches!(shape, Shape::Value);
        if values.len() != wanted.len() {
            let detail = match values.len() < wanted.len() {
                true => "Final statement returns too few columns.",
                false => "Final statement returns too many columns.",
            };
            let one = "Final statement must return exactly one column.";
            return Err(mismatch(function).detail(if is_value { one } else { detail }));
        }
        let first = self.new_columns(wanted.len());
        let (mut output, mut columns) = (Vec::new(), Vec::new());
        for (at, (value, part)) in values.into_iter().zip(&wanted).enumerate() {
            let actual = value.ty.name();
            let expr = self.coerce_checked(value, part.ty, CastContext::Assignment);
            let expr = expr.map_err(|_| {
                let detail = match is_value {
                    true => format!("Actual return type is {actual}."),
                    false => format!(
                        "Final statement returns {actual} instead of {} at column {}.",
                        part.ty.name(),
                        at + 1
                    ),
                };
                mismatch(function).detail(detail)
            })?;
            output.push((first + at, expr));
            let name = match (&part.name, shape.is_record()) {
                (Some(name), _) => name.clone(),
                (None, true) => format!("column{}", at + 1),
                (None, false) => function.bare().to_owned(),
            };
            let named = ScopeColumn::new(first + at, name, part.ty);
            columns.push(ScopeColumn { modifier: part.modifier, ..named });
        }
        Ok(Results { rel: Rel::Project { input: Box::new(bound.rel), output }, columns, shape })
    }
}

impl Shape {
    fn is_record(&self) -> bool {
        matches!(self, Shape::Record)
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

fn part_of_field(field: &Field) -> Part {
    let (name, ty, modifier) = (Some(field.name.clone()), field.ty, field.modifier);
    Part { name, ty, modifier, mode: None, default: None }
}

/// The error for a body that gives other things than the function promises.
fn mismatch(function: &UserFunction) -> SqlError {
    let message =
        format!("return type mismatch in function declared to return {}", function.result().name());
    SqlError::new(code::INVALID_FUNCTION, message)
}
